"""`repeat: n` of a generator: each of the n answers to a query is stored, scored and judged."""

import csv
import json
from collections import Counter

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.cli import group
from ragbench.comparison.sources import read_scored
from ragbench.errors import ConfigError
from ragbench.experiment.records import mean_over_samples, split_samples
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from ragbench.signature import Signature
from ragbench.store.database import CACHE_FILE
from ragbench.types import Cause, ScoreColumn
from ragbench.types.lookups import index_by_name
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.experiment.moons import ANSWERS, FEW_SCORES, QUERIES, moons_place
from tests.experiment.test_stages import contents
from tests.lazy import Lazy
from tests.store import rows as stored_rows

rouge_scorer = Lazy("rouge_score.rouge_scorer")

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

SAMPLES = 3
REPLIES = ("Io has volcanoes.", "Io.", "I do not know which.")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


def answer_in_turn(body, times_asked):
    """Another answer each time that a question is asked, and a level for each answer."""
    prompt = body["messages"][-1]["content"]
    if "level" in prompt:
        return json.dumps({"reasoning": "so", "level": 5 if REPLIES[0] in prompt else 1})
    # the server counts equal prompts, so that samples of one question differ
    return REPLIES[times_asked % len(REPLIES)]


@pytest.fixture
def server():
    with ChatServer(answer_in_turn, model="m") as server:
        yield server


def asking(config, server, samples=SAMPLES, **changes):
    entry = {"type": "openai", "model": "m", "base_url": server.url, "temperature": 1.0}
    entry |= {"repeat": samples, "passages": 3, **changes}
    retrievers = {"bm25": config["retrievers"]["bm25"]}
    metrics = {**FEW_SCORES, "generation": ["rouge1"]}
    return {**config, "retrievers": retrievers, "generators": {"gpt": entry}, "metrics": metrics}


def rows_of(experiment, folder, system="bm25--gpt"):
    text = (experiment.path / folder / f"{system}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def system_of(experiment, name="bm25/gpt"):
    return next(s for s in experiment.summary["systems"] if s["name"] == name)


def test_each_query_is_asked_n_times_and_a_second_run_asks_nothing(config, server):
    first = run_experiment(asking(config, server), choices=Choices(judge=False))
    sent, by_prompt = server.counters.requests, server.counters.asked
    second = run_experiment(asking(config, server), choices=Choices(judge=False))

    assert sent == server.counters.requests == len(QUERIES) * SAMPLES
    assert set(by_prompt.values()) == {SAMPLES}
    assert contents(first) == contents(second)


def test_a_further_look_of_a_gate_asks_for_further_samples_once(config, server):
    counts = []
    for look in (0, 1, 1):
        choices = Choices(judge=False, queries=("q1", "q2"), look=look)
        run_experiment(asking(config, server, 1), choices=choices)
        counts.append(server.counters.requests)

    # the replies of a look are stored, too
    assert counts == [2, 4, 4]


def test_more_samples_ask_only_for_the_further_ones(config, server):
    counts = []
    # two of three stored samples serve the last run
    for samples in (1, 3, 2):
        run_experiment(asking(config, server, samples), choices=Choices(judge=False))
        counts.append(server.counters.requests)

    assert counts == [len(QUERIES), 3 * len(QUERIES), 3 * len(QUERIES)]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """A finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("samples")
    with ChatServer(answer_in_turn, model="m") as server, moons_place(folder) as config:
        # the folder of the module outlives the working directory of its first test
        entries = {**asking(config, server), "output": str(folder / "runs")}
        return run_experiment(entries, choices=Choices(judge=False))


def test_every_answer_is_kept_and_a_score_is_the_mean_over_them(experiment):
    rows = rows_of(experiment, "predictions")
    assert [(row["query_id"], row["sample"]) for row in rows] == [
        (query, sample) for query in QUERIES for sample in range(SAMPLES)
    ]
    # Google's rouge-score takes the best of several gold answers, as the metric does
    oracle = rouge_scorer.RougeScorer(["rouge1"])
    for query, score in experiment.per_query["bm25/gpt"]["rouge1"].items():
        answers = [row["answer"] for row in rows if row["query_id"] == query]
        assert sorted(answers) == sorted(REPLIES)
        if gold := ANSWERS.get(query):
            scores = [oracle.score_multi(gold, text)["rouge1"].fmeasure for text in answers]
            assert score == pytest.approx(np.mean(scores), abs=1e-12)
    system = system_of(experiment)
    # five questions, three samples each
    assert system["answers"] == {"per_query": SAMPLES, "asked": 15, "failed": {}}
    usage = [row["usage"]["output_tokens"] for row in rows]
    assert system["tokens"]["output"] == sum(usage)


def test_every_answer_is_judged(config, server):
    judge = {"type": "openai", "model": "m", "base_url": server.url}
    judge |= {"rubrics": ["answer_relevancy"]}
    entries = asking(config, server)
    entries["metrics"] = {**FEW_SCORES, "judge": judge}
    experiment = run_experiment(entries)

    # one request for each answer and one for its verdict
    assert server.counters.requests == 2 * len(QUERIES) * SAMPLES
    verdicts = rows_of(experiment, "judgements")
    answers = {
        (r["query_id"], r["sample"]): r["answer"] for r in rows_of(experiment, "predictions")
    }
    assert {(r["query_id"], r["sample"]): r["score"] for r in verdicts} == {
        key: float(text == REPLIES[0]) for key, text in answers.items()
    }
    values = experiment.per_query["bm25/gpt"]["answer_relevancy"].values()
    assert list(values) == pytest.approx([1 / SAMPLES] * len(QUERIES))


def test_one_sample_changes_nothing(config, server):
    plain = asking(config, server)
    del plain["generators"]["gpt"]["repeat"]
    first = run_experiment(plain, choices=Choices(judge=False))
    second = run_experiment(asking(config, server, 1), choices=Choices(judge=False))

    assert server.counters.requests == len(QUERIES)
    assert contents(first) == contents(second)
    assert "sample" not in rows_of(first, "predictions")[0]
    assert "answers" not in system_of(first)


def test_a_query_with_some_failed_answers_keeps_the_mean_of_the_others(config):
    # The first answer to each query is refused; to one query the others fail in another way.
    n_asked = Counter()

    def script(body, times_asked):
        question = body["messages"][-1]["content"]
        n_asked[question] += 1
        if n_asked[question] == 1:
            return Answer("", refusal="I will not.")
        lost = QUERIES["q1"] in question
        return Answer("no such parameter", status=400) if lost else Answer(REPLIES[0])

    with ChatServer(script, model="m") as server:
        entries = asking(config, server, concurrency=1)
        experiment = run_experiment(entries, choices=Choices(judge=False))

    causes = Counter(row.get("cause") for row in rows_of(experiment, "predictions"))
    # the first sample of each of five questions, and the other two of q1
    assert (causes["refused"], causes["server_error"]) == (len(QUERIES), SAMPLES - 1)
    system = system_of(experiment)
    assert system["scores"]["rouge1"]["failed"] == {"refused": 1}
    # q5 has no gold answer, so that its refused sample is no failure of rouge1
    assert system["answers"]["failed"]["rouge1"] == {"refused": 4, "server_error": 2}
    oracle = rouge_scorer.RougeScorer(["rouge1"])
    for query, score in experiment.per_query["bm25/gpt"]["rouge1"].items():
        if query in ANSWERS and query != "q1":
            whole = oracle.score_multi(ANSWERS[query], REPLIES[0])["rouge1"].fmeasure
            assert score == pytest.approx(whole), "refused answers are left out, not 0"
    sentence = "bm25/gpt: 7 of 15 answers failed (5 refused, 2 server_error)"
    assert any(sentence in warning for warning in experiment.summary["warnings"])
    unscored = (experiment.path / "unscored.jsonl").read_text(encoding="utf-8").splitlines()
    of_answers = [row for row in map(json.loads, unscored) if "sample" in row]
    of_rouge = [row for row in of_answers if row["measure"] == "rouge1"]
    assert Counter(row["cause"] for row in of_rouge if row["status"] == "failed") == {
        "refused": 4,
        "server_error": 2,
    }
    read = read_scored(experiment.path).systems["bm25/gpt"].columns["rouge1"]
    assert Cause(int(read.causes[list(QUERIES).index("q1")])) is Cause.REFUSED


def test_only_the_answers_that_failed_are_asked_again(config):
    n_asked = Counter()

    def refuse_the_second(body, times_asked):
        question = body["messages"][-1]["content"]
        n_asked[question] += 1
        return Answer("", refusal="I will not.") if n_asked[question] == 2 else Answer(REPLIES[0])

    with ChatServer(refuse_the_second, model="m") as server:
        entries = asking(config, server, concurrency=1)
        first = run_experiment(entries, choices=Choices(judge=False))
        sent = server.counters.requests
        choices = Choices(judge=False, retry_failed=True)
        experiment = run_experiment(entries, choices=choices)

        assert server.counters.requests - sent == len(QUERIES)
    assert not system_of(first)["scores"]["rouge1"]["failed"], "every query has a score"
    assert not first.summary["complete"], "a failed answer is not hidden by the others"
    assert experiment.summary["complete"]
    assert system_of(experiment)["answers"]["failed"] == {}


def test_the_allowed_share_of_failures_is_of_all_answers(config):
    # one of 12 answers with gold is refused: a share of 0.08
    refused = []

    def refuse_one(body, times_asked):
        if not refused and QUERIES["q1"] in body["messages"][-1]["content"]:
            refused.append(body)
            return Answer("", refusal="I will not.")
        return Answer(REPLIES[0])

    with ChatServer(refuse_one, model="m") as server:
        entries = asking(config, server, concurrency=1)
        experiments = [
            run_experiment({**entries, "max_failed": share}, choices=Choices(judge=False))
            for share in (0.15, 0.05)
        ]

    assert [experiment.summary["complete"] for experiment in experiments] == [True, False]


def test_a_seed_is_shifted_for_each_sample(config, server):
    run_experiment(asking(config, server, seed=40), choices=Choices(judge=False))

    # one seed for all samples would give three equal answers
    assert Counter(r.body["seed"] for r in server.received) == dict.fromkeys((40, 41, 42), 5)


GENERATORS_MODULE = '''
class Counting:
    """Says how often it was called for a question."""

    def __init__(self):
        self.calls = {}

    def generate(self, question, contexts):
        self.calls[question] = self.calls.get(question, 0) + 1
        return f"call {self.calls[question]}"


class Numbered(Counting):
    def generate_sample(self, query, contexts, sample):
        return f"sample {sample} of {query.id}"
'''


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Counting", ["call 1", "call 2", "call 3"]),
        ("Numbered", ["call 1", "sample 1 of q1", "sample 2 of q1"]),
    ],
)
def test_a_generator_of_ones_own_is_called_again_or_told_its_sample(
    config, tmp_path, monkeypatch, name, expected
):
    (tmp_path / "counting_generators.py").write_text(GENERATORS_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = {"type": f"python:counting_generators:{name}", "repeat": 3, "retrievers": ["bm25"]}
    experiment = run_experiment({**config, "generators": {"own": entry}})

    rows = rows_of(experiment, "predictions", "bm25--own")
    assert [row["answer"] for row in rows if row["query_id"] == "q1"] == expected


def test_what_cannot_vary_is_refused_at_its_line(config, tmp_path, assert_message):
    config["generators"]["extractive"]["repeat"] = 2
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(config))

    place = r"exp\.yaml:\d+:\d+: generators\.extractive\.repeat: "
    with pytest.raises(ConfigError, match=place) as refused:
        run_experiment(path)
    assert_message(str(refused.value))


def test_temperature_0_is_doubted_before_anything_is_sent(config, server, tmp_path):
    path = tmp_path / "exp.yaml"
    sentence = "generator 'gpt': repeat is 3 at temperature 0"
    for temperature in (0.0, 0.7):
        path.write_text(yaml.safe_dump(asking(config, server, temperature=temperature)))
        output = CliRunner().invoke(group, ["plan", str(path), "--no-judge"]).output
        assert (sentence in output) == (temperature == 0)
    assert server.counters.requests == 0


def test_a_failed_repetition_of_a_model_counts_and_is_asked_again(config):
    asked = Counter()

    def answer(body, times_asked):
        asked[prompt := body["messages"][-1]["content"]] += 1
        if "level" in prompt and asked[prompt] == 2:
            return Answer("refused", status=400)
        return answer_in_turn(body, 0)

    with ChatServer(answer, model="m") as server:
        entries = asking(config, server, samples=1)
        judge = {"type": "openai", "model": "m", "base_url": server.url, "repeat": 2}
        judge |= {"rubrics": ["answer_relevancy"], "temperature": 1.0}
        entries["metrics"]["judge"] = judge
        for bounds, is_complete in [((0.5, 1), False), ((1, 1), True)]:
            # the second run asks for the failed repetition alone
            record = run_experiment(entries).record
            score = index_by_name(record.systems)["bm25/gpt"].scores["answer_relevancy"]
            assert (score.n, score.mean, record.complete) == (5, 1, is_complete)
            assert score.bounds == pytest.approx(bounds)
    assert sorted(asked.values()) == [1] * 5 + [3] * 5


def test_a_plan_counts_calls_times_samples(config, server, tmp_path, assert_message):
    judge = {"type": "openai", "model": "m", "base_url": server.url, "repeat": 2}
    judge |= {"rubrics": ["answer_relevancy"]}
    entries = asking(config, server) | {"controls": ["no_context"]}
    entries["metrics"]["judge"] = judge
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(entries))
    plan_text = " ".join(CliRunner().invoke(group, ["plan", str(path)]).stdout.split())

    assert_message(plan_text)
    assert server.counters.requests == 0
    run_experiment(path)
    after = " ".join(CliRunner().invoke(group, ["plan", str(path)]).stdout.split())
    assert "generate bm25/gpt stored" in after
    assert_message(after)


def test_a_budget_takes_all_answers_to_a_query_in_the_same_round(config, server):
    # enough for a part of the 15 answers
    entries = {**asking(config, server, max_tokens=20), "budget": {"tokens": 900}}
    experiment = run_experiment(entries, choices=Choices(judge=False))

    budget = experiment.summary["budget"]
    assert budget["reached"]
    assert 0 < budget["missing"]["generate bm25/gpt"] < 15
    answers_by_query = Counter(
        row["query_id"]
        for row in rows_of(experiment, "predictions")
        if row.get("cause") == "over_budget"
    )
    assert sum(0 < count < SAMPLES for count in answers_by_query.values()) <= 1, (
        "whole queries, but one"
    )
    again = run_experiment(asking(config, server, max_tokens=20), choices=Choices(judge=False))
    assert server.counters.requests == 15
    assert again.summary["complete"]


def test_a_run_that_lost_half_of_its_answers_makes_these_again(config, server, tmp_path):
    run_experiment(asking(config, server), choices=Choices(judge=False))
    numbers = "SELECT rowid FROM rows WHERE kind = 'generate' ORDER BY rowid LIMIT 7"
    path = tmp_path / "cache" / CACHE_FILE
    condition = f"kind = 'generate' AND rowid NOT IN ({numbers})"
    stored_rows.query(path, f"DELETE FROM rows WHERE {condition}")
    # with the replies, lost answers would cost no request
    (tmp_path / "cache" / "replies.sqlite").unlink()
    sent = server.counters.requests
    run_experiment(asking(config, server), choices=Choices(judge=False))

    assert server.counters.requests - sent == 15 - 7


def test_predictions_of_a_run_are_read_back(experiment, config, server, assert_message):
    path = str(experiment.path / "predictions" / "bm25--gpt.jsonl")
    again = asking(config, server)
    again["generators"] = {"old": {"type": "predictions", "path": path}}
    read = run_experiment(again, choices=Choices(judge=False))

    ours, theirs = experiment.per_query["bm25/gpt"], read.per_query["bm25/old"]
    assert list(theirs["rouge1"].values()) == pytest.approx(
        list(ours["rouge1"].values()), nan_ok=True
    )
    again["generators"]["old"]["repeat"] = 3
    with pytest.raises(ConfigError) as error:
        run_experiment(again)
    assert_message(error.value, "generators.old.repeat")


columns = st.integers(1, 4).flatmap(
    lambda samples: st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.one_of(
                st.floats(0, 1).map(lambda value: (value, Cause.SCORED)),
                st.sampled_from([Cause.TIMEOUT, Cause.REFUSED, Cause.NO_CLAIMS]).map(
                    lambda cause: (np.nan, cause)
                ),
            ),
            min_size=samples * n,
            max_size=samples * n,
        ).map(lambda cells: (samples, cells))
    )
)


@settings(max_examples=30)
@given(columns)
def test_a_mean_is_over_the_answers_that_have_a_score(case):
    samples, cells = case
    values = np.array([value for value, _ in cells])
    causes = np.array([cause for _, cause in cells], np.uint8)
    whole = ScoreColumn("f1", values, causes, Signature("f1"))
    parts = split_samples(whole, samples)
    column = mean_over_samples(parts)

    if samples > 1:
        np.testing.assert_array_equal(column.answer_causes.T.ravel(), causes)
    table = values.reshape(samples, -1)
    for row, value in enumerate(column.values):
        scored = table[:, row][~np.isnan(table[:, row])]
        cause = Cause(int(column.causes[row]))
        if len(scored):
            assert value == pytest.approx(scored.mean(), abs=1e-12)
            assert cause is Cause.SCORED
        else:
            own_causes = {Cause(int(code)) for code in causes.reshape(samples, -1)[:, row]}
            assert np.isnan(value)
            assert cause in own_causes
            assert cause.failed == any(own_cause.failed for own_cause in own_causes)


def test_a_query_costs_what_all_its_answers_cost(experiment):
    # Tokens add up; the time is that of one answer, on the average.
    with (experiment.path / "costs.csv").open(encoding="utf-8") as stream:
        costs = {row["query_id"]: row for row in csv.DictReader(stream) if "/" in row["system"]}
    answers = rows_of(experiment, "predictions")
    for query in QUERIES:
        rows = [row for row in answers if row["query_id"] == query]
        assert len(rows) == SAMPLES
        times = [row["latency_ms"] for row in rows]
        assert float(costs[query]["latency_ms"]) == pytest.approx(np.mean(times), abs=1e-3)
        tokens = sum(row["usage"]["output_tokens"] for row in rows)
        assert float(costs[query]["tokens.output"]) == tokens
