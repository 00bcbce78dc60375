"""Systems of one run judged by two models, or with probabilities of some replies, over HTTP."""

import json
import math
from statistics import fmean

import pytest

from ragbench.comparison.evaluate_table import evaluate
from ragbench.errors import DataError
from ragbench.experiment.compare import compare
from ragbench.experiment.runner import run_experiment
from ragbench.score.judge.judge import Judge
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.commands import run_command
from tests.messages import lines_with
from tests.score.judge.scripted import Script, user_text

pytestmark = pytest.mark.slow  # whole runs against a server

N = 12
# 3.2 = 0.6 x 4 + 0.4 x 2, the level 4 alone 4: scores 0.55 and 0.75
CHANCES = {"4": {"4": 0.6, "2": 0.4}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)


def config(server, *names, **judge):
    """Return a config of one retriever and a generator per name, whose answer holds the name."""
    rows = [
        {"id": f"q{i}", "question": f"How high is tower {i}?", "reference": f"{i} m",
         "system": name, "answer": f"{name.upper()} {i}"}
        for name in names for i in range(N)
    ]  # fmt: skip
    with open("rows.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    block = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["coherence"]}
    return {
        "name": "c",
        "dataset": {"type": "records", "path": "rows.jsonl"},
        "metrics": {"generation": ["rouge1"], "judge": {**block, **judge}},
        "statistics": {"resamples": 200},
    }


def score_of(experiment, name):
    return experiment.record.system(name).scores["coherence"]


def family_of(experiment):
    return experiment.compared.measure("coherence")


def verdict_rows(experiment, name):
    text = (experiment.path / "judgements" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def moved():
    """A server whose alias moved after the answers of `old` were judged; its new model is harsher.

    The first model says level 4, the second level 3: scores 0.75 and 0.5.
    """
    with ChatServer(Script(level=lambda text: 4 if server.model == "day1" else 3)) as server:
        server.model = "day1"
        run_experiment(config(server, "old"))
        server.model = "day2"
        yield server


def test_systems_judged_by_two_models_are_not_compared(moved, assert_message):
    experiment = run_experiment(config(moved, "old", "new"))

    (pair,) = family_of(experiment).comparisons
    assert [score_of(experiment, name).mean for name in ("old", "new")] == [0.75, 0.5]
    assert (pair.difference, pair.p, pair.p_adjusted, pair.differs) == (None, None, None, None)
    assert_message(pair.unlike)
    assert (family_of(experiment).best, family_of(experiment).tied_with_best) == (None, ())
    (warning,) = [w for w in experiment.record.warnings if w.startswith("coherence: ")]
    assert_message(warning)
    for file in ("report.html", "report.md"):
        page = (experiment.path / file).read_text(encoding="utf-8")
        assert "not compared" in page
        assert_message(lines_with(page, "day1 of"))
    stored = json.loads((experiment.path / "comparisons.json").read_text(encoding="utf-8"))
    assert stored["measures"][-1]["comparisons"][0]["unlike"] == pair.unlike


def test_the_gate_and_compare_refuse_the_same_pair(moved):
    gates = [{"measure": "coherence", "max_drop": 0}]
    experiment = run_experiment({**config(moved, "old", "new"), "gates": gates})

    (decision,) = [g for g in experiment.record.gates if g.system == "new"]
    reason = "coherence cannot be compared: model is day1 of old and day2 of new"
    assert (decision.verdict, decision.refused) == ("undecided", True)
    assert reason in decision.why
    with pytest.raises(DataError, match=reason):
        compare(experiment.path, measures=["coherence"])


def test_the_warning_stands_before_the_tables(moved):
    with open("c.yaml", "w", encoding="utf-8") as file:
        json.dump(config(moved, "old", "new"), file)

    output = run_command("run", "c.yaml", "--verbose").stdout

    table = output.rindex("not compared\n")
    assert output.index("warning: coherence: scores made in different ways") < table
    assert "* [" not in output[output.rindex("judge openai") : table]


def test_the_name_of_a_snapshot_judges_the_stored_answers_again(moved):
    n_before = moved.counters.requests
    experiment = run_experiment(config(moved, "old", "new", model="day2"))

    assert moved.counters.requests == n_before + 2 * N
    assert [score_of(experiment, name).mean for name in ("old", "new")] == [0.5, 0.5]
    assert family_of(experiment).unlike is None


def test_half_of_a_column_judged_by_another_model_is_compared_with_nothing(moved, assert_message):
    # The verdicts of `old` are a mixture in one run, and its answers alone were judged before.
    mixed = config(moved, "old", "new")
    with open("rows.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if int(row["id"][1:]) >= N // 2 and row["system"] == "old":
            row["answer"] += " again"
    with open("rows.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)

    experiment = run_experiment(mixed)

    assert score_of(experiment, "old").mean == (0.75 + 0.5) / 2
    assert "|model:mixture(day1+day2)|" in score_of(experiment, "old").signature
    assert_message(family_of(experiment).unlike)
    assert family_of(experiment).comparisons[0].difference is None
    with pytest.raises(DataError) as error:
        compare(experiment.path, experiment.path, measures=["coherence"])
    assert_message(error.value)


def some_weighted(is_weighted):
    """A server that returns probabilities for some prompts alone; its level is always 4."""

    def script(body, times_asked):
        answer = Script(level=4, alternatives=CHANCES)(body, times_asked)
        return answer if is_weighted(user_text(body)) else Answer(body=_without_logprobs(answer))

    return ChatServer(script)


def _without_logprobs(answer):
    reply = {"choices": [{"message": {"content": answer.text}}], "model": "m"}
    return json.dumps(reply).encode()


@pytest.mark.parametrize(
    ("is_weighted", "expected", "weighted"),
    [
        pytest.param(lambda text: True, 0.55, True, id="all: (3.2 - 1) / 4"),
        pytest.param(lambda text: False, 0.75, False, id="none: (4 - 1) / 4"),
        pytest.param(lambda text: "OLD" in text, 0.75, False, id="one system: levels alone"),
        pytest.param(lambda text: "OLD 3" in text, 0.75, False, id="one answer: levels alone"),
    ],
)
def test_verdicts_of_a_rubric_are_all_weighted_or_none(is_weighted, expected, weighted):
    with some_weighted(is_weighted) as server:
        experiment = run_experiment(config(server, "old", "new"))
        n_requests = server.counters.requests
        again = run_experiment(config(server, "old", "new"))

    assert server.counters.requests == n_requests, "both scores follow from what is stored"
    for run in (experiment, again):
        for name in ("old", "new"):
            score, rows = score_of(run, name), verdict_rows(run, name)
            assert score.mean == pytest.approx(expected, abs=1e-9)
            assert f"|weighted:{'yes' if weighted else 'no'}|" in score.signature
            assert {row["weighted"] for row in rows} == {weighted}
            assert fmean(row["score"] for row in rows) == pytest.approx(score.mean)
            assert [row["level"] for row in rows] == pytest.approx([1 + 4 * expected] * N)
        (pair,) = family_of(run).comparisons
        assert (pair.n_changed, pair.unlike) == (0, None)
        notes = [note for note in run.record.notes if "token probabilities" in note]
        is_mixed = any(is_weighted(f"OLD {i}") for i in range(N)) and not weighted
        assert len(notes) == is_mixed


def test_a_weighted_run_is_not_compared_with_one_by_levels(assert_message):
    with some_weighted(lambda text: True) as server:
        weighted = run_experiment(config(server, "old"))
    with some_weighted(lambda text: False) as server:
        plain = run_experiment(config(server, "old"))

    with pytest.raises(DataError) as error:
        compare(weighted.path, plain.path, measures=["coherence"])
    assert_message(error.value)


def test_samples_are_counted_by_levels_too():
    # Two replies an answer, weighted and not: 0.75 each by levels, with a deviation of 0.
    with some_weighted(lambda text: "OLD" in text) as server:
        experiment = run_experiment(config(server, "old", "new", repeat=2))

    for name in ("old", "new"):
        assert {tuple(row["samples"]) for row in verdict_rows(experiment, name)} == {(0.75, 0.75)}
        assert score_of(experiment, name).spread == 0


def test_a_table_and_many_rows_are_counted_alike(assert_message):
    rows = [{"user_input": f"{answer}?", "response": answer} for answer in ("OLD 1", "NEW 2")]
    with some_weighted(lambda text: "OLD" in text) as server:
        judge = Judge("m", ["coherence"], base_url=server.url)
        many = judge.score_many(rows)
        with pytest.warns(UserWarning, match="token probabilities") as warned:
            table = evaluate(rows, judge=judge)
        assert_message([warning.message for warning in warned])
        alone = judge.score(**rows[0])["coherence"]
        judge.close()

    assert [verdicts["coherence"].score for verdicts in many] == [0.75, 0.75]
    assert table.mean["coherence"] == 0.75
    assert list(table.per_query["coherence"].values()) == [0.75, 0.75]
    assert [v["coherence"].level for v in table.verdicts.values()] == [4, 4]
    assert (alone.score, alone.plain_level) == (pytest.approx(0.55), 4)
    assert math.isclose(alone.level, 3.2)


def test_a_table_of_two_models_is_a_mixture(assert_message):
    rows = [{"user_input": f"{n}?", "response": answer} for n, answer in enumerate(("OLD", "NEW"))]
    with ChatServer(Script()) as server:

        def script(body, times_asked):
            server.model = "day1" if "OLD" in user_text(body) else "day2"
            return Script()(body, times_asked)

        server._script = script
        judge = Judge("m", ["coherence"], base_url=server.url, concurrency=1)
        with pytest.warns(UserWarning, match="the score is a mixture"):
            mixed = evaluate(rows, judge=judge)
        judge.close()

    assert "|model:mixture(day1+day2)|" in mixed.signature["coherence"]
    with pytest.raises(DataError) as error:
        compare(mixed, mixed)
    assert_message(error.value)
