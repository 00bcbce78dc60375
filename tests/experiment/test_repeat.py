"""`repeat: n` of apps, retrievers and rerankers: each repetition is stored, scored and resumed."""

import gzip
import json
from collections import Counter
from contextlib import closing

import pytest
import yaml
from click.testing import CliRunner

from ragbench.cli import group
from ragbench.comparison.systems import bounds_of
from ragbench.config.load import load_config
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_scores import read_baseline, read_run_scores, write_baseline
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.calls import Outcome
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.records import Answers
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages.base import Finished, Outputs
from ragbench.experiment.stages.graph import stages_of
from ragbench.experiment.stages.judging import JudgeAnswers
from ragbench.experiment.stages.resources import PromptWords, Resources
from ragbench.llm import Totals
from ragbench.records.manifest import Choices
from ragbench.report.noise import answer_texts, flip_table
from ragbench.report.page.data import pack_queries
from ragbench.store.database import CACHE_FILE
from ragbench.store.items import StageStore
from ragbench.types import Cause, Prediction
from tests.experiment.moons import QUERIES
from tests.messages import lines_with
from tests.store import rows as stored_rows

pytestmark = pytest.mark.slow  # seconds in all: real runs

CODE = '''
from collections import Counter
from pathlib import Path

RIGHT = {"volcanoes": ("d1", "Io"), "ocean": ("d2", "Europa"), "thick": ("d3", "Titan"),
         "largest": ("d5", "Ganymede"), "Pluto": ("d4", "nobody knows")}
LOG = Path("calls.txt")

def called(kind, question):
    """Return how often a question was asked before, and count it in a file."""
    lines = LOG.read_text().splitlines() if LOG.exists() else []
    line = f"{kind} {question}"
    LOG.write_text("\\n".join([*lines, line]))
    return lines.count(line)

def gold(question):
    return next(pair for word, pair in RIGHT.items() if word in question)

def app(question):
    """Right each time, but for the ocean: right, wrong, wrong."""
    number, (document, answer) = called("app", question), gold(question)
    if "ocean" in question and number % 3:
        document, answer = "d4", "Callisto"
    return {"answer": answer, "contexts": [{"id": document}]}

def breaking(question):
    """Right in the first call, then an error."""
    number, (_, answer) = called("breaking", question), gold(question)
    if number % 3:
        raise RuntimeError("broken")
    return {"answer": answer, "contexts": []}

def retrieve(question, top_k):
    """The gold first, and second in each further call about volcanoes."""
    number, (document, _) = called("retrieve", question), gold(question)
    hits = [document, "d6"]
    return hits[::-1] if "volcanoes" in question and number % 3 else hits

def rerank(question, hits):
    """The order of the hits in even calls, else the reverse."""
    return hits[::-1] if called("rerank", question) % 2 else hits

def shaky(question, answer):
    """1 each time, but two errors first, and all errors about the ocean."""
    number = called("shaky", question)
    if number < 2 or "ocean" in question:
        raise RuntimeError("judge down")
    return 1

def halting(question):
    """Right, but for two questions that always fail."""
    if "ocean" in question or "Pluto" in question:
        raise RuntimeError("app down")
    return {"answer": gold(question)[1], "contexts": []}

def rate(question, answer):
    """1 each time, but for volcanoes: 1, 0, 0."""
    number = called("rate", question)
    return 0 if "volcanoes" in question and number % 3 else 1

def generate(question, contexts):
    """The id of the first passage, with the number of the call."""
    return f"{contexts[0].id} {called('generate', question)}"
'''


@pytest.fixture(autouse=True)
def code(tmp_path, monkeypatch):
    (tmp_path / "flaky.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))


def entry(name, repeat=3, **keys):
    return {"type": f"python:flaky:{name}", "repeat": repeat, "version": "1", **keys}


def with_parts(config, **parts):
    metrics = {"retrieval": {"measures": ["ndcg@10", "mrr"]}, "generation": ["exact_match"]}
    bare = {key: value for key, value in config.items() if key not in ("retrievers", "generators")}
    return {**bare, "metrics": metrics, **parts}


def calls(tmp_path):
    lines = (tmp_path / "calls.txt").read_text().splitlines()
    return Counter(line.split()[0] for line in lines)


def shared_warnings(experiment):
    return [line for line in experiment.record.warnings if " was not asked" in line]


def test_an_equal_app_is_not_asked_and_a_warning_says_so(config, tmp_path, assert_message):
    experiment = run_experiment(with_parts(config, apps={"a": entry("app"), "b": entry("app")}))

    [warning] = shared_warnings(experiment)
    assert_message(warning)
    assert calls(tmp_path) == {"app": 15}
    apps = {"a": entry("app"), "b": entry("app", version="2")}
    assert shared_warnings(run_experiment(with_parts(config, apps=apps))) == []
    assert calls(tmp_path) == {"app": 30}, "another version is asked by itself"


def test_equal_generators_share_answers_to_equal_passages_alone(config):
    retrievers = {"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}}
    one = {"type": "extractive", "sentences": 1}
    generators = {"a": one, "b": one, "c": {**one, "passages": 2}}
    parts = with_parts(config, retrievers=retrievers, generators=generators)

    warnings = shared_warnings(run_experiment(parts))

    assert [line.partition(" ")[0] for line in warnings] == ["bm25/b", "exact/b"]


def test_an_app_answers_each_question_three_times(config, tmp_path):
    experiment = run_experiment(with_parts(config, apps={"mine": entry("app")}))

    assert calls(tmp_path) == {"app": 15}
    scores = experiment.per_query["mine"]
    # right, wrong, wrong: a third; the gold is its only hit, or not a hit
    assert scores["exact_match"]["q2"] == pytest.approx(1 / 3)
    assert [scores["mrr"][query] for query in QUERIES][:4] == pytest.approx([1, 1 / 3, 1, 1])
    rows = (experiment.path / "predictions" / "mine.jsonl").read_text().splitlines()
    numbers = [(row["query_id"], row["sample"]) for row in map(json.loads, rows)]
    assert numbers == [(query, number) for query in QUERIES for number in range(3)]


def test_the_first_sentence_names_the_answers_that_its_difference_counts(config, assert_message):
    apps = {"mine": entry("app"), "other": entry("breaking")}
    experiment = run_experiment(with_parts(config, apps=apps))

    # one answer in three is right, two failed: a third of four questions, or all of the answers
    [_, other] = experiment.record.systems
    assert other.causes["right"] == pytest.approx(4 / 3)
    assert other.scores["right"].mean > 0.5
    assert_message(str(experiment).splitlines()[0])


def test_a_further_look_of_a_gate_calls_apps_and_retrievers_anew(config, tmp_path):
    parts = {
        "apps": {"mine": entry("app", repeat=1)},
        "retrievers": {"own": entry("retrieve", repeat=1), "bm25": {"type": "bm25"}},
    }
    for look in (0, 0, 1):
        run_experiment(with_parts(config, **parts), choices=Choices(look=look))

    # the second run reads what the first one stored
    assert calls(tmp_path) == {"app": 10, "retrieve": 10}


def test_a_retriever_ranks_each_question_three_times(config, tmp_path, assert_message):
    parts = {"retrievers": {"mine": entry("retrieve")}}
    experiment = run_experiment(with_parts(config, **parts))

    assert calls(tmp_path) == {"retrieve": 15}
    # ranks 1, 2, 2: (1 + 1/2 + 1/2) / 3
    assert experiment.per_query["mine"]["mrr"]["q1"] == pytest.approx(2 / 3)
    assert experiment.per_query["mine"]["mrr"]["q2"] == 1
    first = (experiment.path / "rankings" / "mine.trec").read_text().splitlines()
    assert first[0].split()[:3] == ["q1", "Q0", "d1"]
    for number in (1, 2):
        further = experiment.path / "rankings" / "repeats" / f"mine.{number}.trec"
        assert further.read_text().splitlines()[0].split()[:3] == ["q1", "Q0", "d6"]
    notes = experiment.summary["notes"]
    assert_message(lines_with(notes, "each query was ranked"))


def test_answer_i_reads_ranking_i_modulo_their_number(config, tmp_path):
    parts = {
        "retrievers": {"mine": entry("retrieve")},
        "generators": {"own": entry("generate", repeat=2)},
    }
    experiment = run_experiment(with_parts(config, **parts))

    rows = (experiment.path / "predictions" / "mine--own.jsonl").read_text().splitlines()
    answers = [row["answer"] for row in map(json.loads, rows) if row["query_id"] == "q1"]
    assert [answer.split()[0] for answer in answers] == ["d1", "d6", "d6", "d1", "d6", "d6"]
    assert len(set(answers)) == 6, "each answer is a call of its own"
    assert calls(tmp_path) == {"retrieve": 15, "generate": 30}


def read_first(config, repeat):
    """Return a config whose generator would read one hit of a retriever that is repeated."""
    metrics = {"retrieval": {"measures": ["found@1", "hit_rate@1"]}, "generation": []}
    retrievers = {"mine": entry("retrieve", repeat)}
    return with_parts(config, retrievers=retrievers, metrics=metrics, causes={"read": 1})


def test_found_is_the_mean_over_the_rankings(config):
    scores = run_experiment(read_first(config, 3)).per_query["mine"]

    # ranks 1, 2, 2
    assert scores["found@1"]["q1"] == pytest.approx(1 / 3)
    assert scores["found@1"] == pytest.approx(scores["hit_rate@1"], nan_ok=True)


def test_the_fix_list_counts_each_ranking_as_its_share(config, assert_message):
    run_experiment(read_first(config, 1))
    experiment = run_experiment(read_first(config, 3))
    causes = experiment.record.system("mine").causes

    fixes = list_fixes(RunReader(experiment.path))
    # four questions with gold, of q1 one ranking of three
    assert (fixes.found, fixes.of) == (pytest.approx(3 + 1 / 3), 4)
    assert fixes.found == causes["found"]
    # two hits have the gold in all rankings: 2/3 of q1 is won
    more = next(change for change in fixes.changes if change.passages == 2)
    assert (more.found, more.of, more.net) == (4, 4, pytest.approx(2 / 3))
    assert (more.rescued, more.lost, more.gain) == (("q1", "q1"), (), pytest.approx(2 / 3))
    output = CliRunner().invoke(group, ["fix", str(experiment.path)]).stdout
    assert_message(lines_with(output, "mine") + lines_with(output, "read 2"))
    assert_message(lines_with(output, "counts as"))


def test_a_reranker_reads_the_same_repetition_of_its_source(config, tmp_path):
    parts = {
        "retrievers": {
            "mine": entry("retrieve"),
            "fixed": {"type": "python:flaky:rerank", "retriever": "mine", "version": "1"},
            "moving": entry("rerank", retriever="mine", version="2"),
        }
    }
    experiment = run_experiment(with_parts(config, **parts))

    # `fixed` is asked for each ranking that differs: two of q1, one of the four others
    assert calls(tmp_path) == {"retrieve": 15, "rerank": 6 + 15}
    assert experiment.per_query["mine"]["mrr"]["q1"] == pytest.approx(2 / 3)


def test_a_reranker_is_repeated_as_often_as_its_source(config):
    parts = {
        "retrievers": {
            "mine": entry("retrieve"),
            "moving": entry("rerank", repeat=2, retriever="mine"),
        }
    }
    with pytest.raises(ConfigError, match="allowed: 3, as of") as error:
        run_experiment(with_parts(config, **parts))

    assert [problem.path for problem in error.value.problems] == ["retrievers.moving.repeat"]


def test_one_lost_repetition_is_made_again_alone(config, tmp_path, own_cache):
    parts = with_parts(config, apps={"mine": entry("app")})
    first = run_experiment(parts)
    path = own_cache / CACHE_FILE
    lost = "SELECT rowid FROM rows WHERE kind = 'generate' AND item LIKE '%-1' LIMIT 1"
    deletion = f"DELETE FROM rows WHERE rowid IN ({lost})"
    assert stored_rows.query(path, deletion) is not None
    again = run_experiment(parts)

    assert calls(tmp_path) == {"app": 16}
    assert again.per_query["mine"]["mrr"].keys() == first.per_query["mine"]["mrr"].keys()


def test_more_repetitions_ask_for_the_further_ones_alone(config, tmp_path):
    for repeat in (1, 3, 2):
        run_experiment(with_parts(config, apps={"mine": entry("app", repeat)}))

    assert calls(tmp_path) == {"app": 15}


def unversioned(name, repeat):
    return {"type": f"python:flaky:{name}", "repeat": repeat}


def test_more_repetitions_of_unchanged_code_ask_for_the_further_ones_alone(config, tmp_path):
    path = tmp_path / "exp.yaml"
    for repeat in (2, 3):
        path.write_text(
            yaml.safe_dump(with_parts(config, apps={"mine": unversioned("app", repeat)}))
        )
        planned = CliRunner().invoke(group, ["plan", str(path)]).stdout
        assert f"{5 * (repeat if repeat == 2 else 1)} answers to do" in " ".join(planned.split())
        run_experiment(path)

    assert calls(tmp_path) == {"app": 15}


def test_the_same_repetitions_ask_own_code_again(config, tmp_path):
    for _ in range(2):
        run_experiment(with_parts(config, apps={"mine": unversioned("app", 2)}))

    assert calls(tmp_path) == {"app": 20}


def test_more_repetitions_of_changed_code_ask_for_all_of_them(config, tmp_path):
    run_experiment(with_parts(config, apps={"mine": unversioned("app", 2)}))
    (tmp_path / "flaky.py").write_text(f"{CODE}# another prompt")
    run_experiment(with_parts(config, apps={"mine": unversioned("app", 3)}))

    assert calls(tmp_path) == {"app": 10 + 15}


def test_a_plan_lists_each_repetition(config, tmp_path, assert_message):
    parts = {
        "retrievers": {"mine": entry("retrieve")},
        "generators": {"own": entry("generate", repeat=2)},
        "apps": {"whole": entry("app")},
    }
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(with_parts(config, **parts)))
    output = " ".join(CliRunner().invoke(group, ["plan", str(path)]).stdout.split())

    assert_message(output)


def test_a_plan_prices_each_answer_to_each_ranking(config, tmp_path, assert_message):
    judge = {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "repeat": 2}
    model = {key: judge[key] for key in ("type", "model", "base_url")}
    parts = with_parts(
        config,
        retrievers={"mine": entry("retrieve")},
        generators={"gpt": {**model, "repeat": 2, "temperature": 0.7}},
    )
    parts["metrics"]["judge"] = {**judge, "rubrics": ["answer_relevancy"]}
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(parts))
    output = CliRunner().invoke(group, ["plan", str(path)]).stdout

    # 5 questions x 3 rankings x 2 answers, each of which is judged twice
    assert_message(lines_with(output, "generate mine/gpt", "judge mine/gpt"))


def test_repeat_1_gives_the_bytes_of_a_run_without_it(config, tmp_path):
    runs = []
    for repeat in ({}, {"repeat": 1}):
        config["retrievers"] = {"mine": {"type": "python:flaky:retrieve", **repeat}}
        runs.append(run_experiment(config, choices=Choices(judge=False)))
        (tmp_path / "calls.txt").unlink()

    read = [(run.path / "per_query.csv").read_text() for run in runs]
    assert read[0] == read[1]


@pytest.mark.parametrize(
    ("block", "part", "reason"),
    [
        ("retrievers", {"type": "bm25", "repeat": 2}, "it counts words"),
        ("retrievers", {"type": "dense", "repeat": 2}, "equal texts have equal vectors"),
        ("generators", {"type": "extractive", "repeat": 2}, "the same passages give the same"),
    ],
    ids=["bm25", "dense", "extractive"],
)
def test_a_component_without_chance_refuses_a_repeat(config, block, part, reason):
    config[block] = {**config[block], "sure": part}
    with pytest.raises(ConfigError) as error:
        run_experiment(config)

    assert [problem.path for problem in error.value.problems] == [f"{block}.sure.repeat"]
    assert f"1: {reason}" in str(error.value)


def test_the_earlier_key_of_a_component_without_chance_is_refused_at_once(config, assert_message):
    config["retrievers"] = {"sure": {"type": "bm25", "samples": 3}}
    with pytest.raises(ConfigError) as error:
        run_experiment(config)

    assert_message(error.value)


@pytest.mark.parametrize("block", ["generators", "judge"])
def test_the_earlier_key_names_the_new_one(config, block):
    part = {"type": "openai", "model": "m", "samples": 3}
    if block == "judge":
        config["metrics"]["judge"] = part
    else:
        config[block] = {"sure": part}
    with pytest.raises(ConfigError, match="unknown key 'samples'") as error:
        run_experiment(config)

    assert "'repeat'" in str(error.value)


def judged(config, repeat, n_answers=1):
    """Return a config with an own app and an own judge, both of which may be repeated."""
    judge = {"type": "python:flaky:rate", "repeat": repeat}
    parts = with_parts(config, apps={"mine": entry("app", n_answers)})
    return {**parts, "metrics": {**parts["metrics"], "judge": judge}}


def test_an_own_judge_judges_each_answer_three_times(config, tmp_path):
    experiment = run_experiment(judged(config, 3))

    assert calls(tmp_path)["rate"] == 15
    # one of three verdicts on q1 is good: (1/3 + 4) / 5
    assert experiment.record.systems[0].scores["rate"].mean == pytest.approx((1 / 3 + 4) / 5)
    assert experiment.noise["mine"]["rate"].judge.share > 0
    [verdict] = experiment.queries["q1"].system("mine").verdicts
    assert verdict.samples == (1, 0, 0)
    assert verdict.spread == pytest.approx((1 / 3) ** 0.5)


def test_more_repetitions_of_an_own_judge_ask_for_the_further_ones_alone(config, tmp_path):
    for repeat in (1, 2, 3):
        run_experiment(judged(config, repeat))

    assert calls(tmp_path)["rate"] == 15


def test_an_own_judge_of_an_app_judges_each_repetition_three_times(config, tmp_path):
    experiment = run_experiment(judged(config, 3, n_answers=2))

    assert calls(tmp_path)["rate"] == 5 * 2 * 3
    noise = experiment.noise["mine"]["rate"]
    assert (noise.app is not None, noise.judge is not None) == (True, True)


def judging_stage(config, tmp_path, n_answers, repeat, look=0, **judge):
    """Return the stage that judges the app, and its inputs: answers that are all equal."""
    parts = judged(config, repeat, n_answers)
    parts["metrics"]["judge"] |= judge
    settings = load_config(parts)
    plan = make_plan(settings, load_collection(settings), Choices(look=look), LiveComponents())
    with closing(StageStore(tmp_path / "cache")) as store:
        resources = Resources(plan=plan, run_token="run", prompts=PromptWords(plan, store))
        [stage] = [s for s in stages_of(resources).stages if isinstance(s, JudgeAnswers)]
    outcomes = [Outcome(Prediction("Io"))] * len(QUERIES) * n_answers
    answers = Answers("mine", outcomes, samples=n_answers)
    return stage, Outputs({stage.answer: Finished(answers, True, Totals())})


MODEL = {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "temperature": 1.0}


@pytest.mark.parametrize(
    ("repeat", "judge", "n_verdicts"),
    [
        # each of two equal answers has one verdict, or two of its own
        pytest.param(1, {}, 1, id="own judge"),
        pytest.param(2, {}, 2 * 2, id="own judge twice"),
        pytest.param(1, MODEL, 1, id="model"),
        # a verdict of a model has both of its replies
        pytest.param(2, MODEL, 2, id="model twice"),
    ],
)
def test_equal_answers_share_a_verdict_unless_the_judge_is_repeated(
    config, tmp_path, repeat, judge, n_verdicts
):
    judge = judge and {**judge, "rubrics": ["answer_relevancy"]}
    stage, inputs = judging_stage(config, tmp_path, 2, repeat, **judge)

    assert len({slot.key for slot in stage.items(inputs)}) == n_verdicts * len(QUERIES)


@pytest.mark.parametrize("repeat", [1, 2])
def test_a_further_look_reads_replies_behind_those_of_all_earlier_looks(config, tmp_path, repeat):
    judge = {**MODEL, "rubrics": ["answer_relevancy"]}
    stage, inputs = judging_stage(config, tmp_path, 3, repeat, look=2, **judge)

    first_replies = {item.first_reply for item in stage.bare_items(inputs)}
    # three equal answers take `repeat` replies each in a look
    assert first_replies == {2 * 3 * repeat}


def shaky(config, app="app", n_answers=1, **parts):
    """Return a config whose judge fails in two of three repetitions, and in all of those on q2."""
    judge = {"type": "python:flaky:shaky", "repeat": 3}
    whole = {**judged(config, 3), "apps": {"mine": entry(app, n_answers)}, **parts}
    return {**whole, "metrics": {**whole["metrics"], "judge": judge}}


def test_failed_repetitions_of_a_judge_count_as_failures(config, assert_message):
    gates = [{"failed": "shaky", "max": 0}, {"measure": "shaky", "min": 0.9}]
    experiment = run_experiment(shaky(config, gates=gates))

    record = experiment.record
    score = record.systems[0].scores["shaky"]
    assert (score.n, score.mean, record.complete) == (4, 1, False)
    # a third of each of four questions is known, and nothing of the fifth
    assert score.bounds == pytest.approx((4 / 15, 1))
    assert experiment.noise["mine"]["shaky"].n_partly_failed == 4
    failed, least = record.gates
    assert (failed.verdict, failed.facts.n, failed.facts.n_failed) == ("fail", 4, 11)
    assert (least.verdict, least.facts.n_failed) == ("undecided", 5)
    assert_message(lines_with(record.warnings, "verdicts on shaky"))
    assert_message(lines_with(record.warnings, "the first to fail"))


def test_failed_repetitions_of_a_judge_are_read_again(config, tmp_path):
    experiment = run_experiment(shaky(config))

    read = read_run_scores(experiment.path)
    write_baseline(tmp_path / "main.json", read)
    for scores in (read, read_baseline(tmp_path / "main.json")):
        columns = scores.systems["mine"].columns
        assert bounds_of(columns["shaky"]) == pytest.approx((4 / 15, 1))
        causes = columns["shaky"].answer_causes
        assert (causes.shape, int((causes == Cause.ERROR).sum())) == ((5, 3), 11)
        assert columns["exact_match"].verdict_causes.size == 5


def test_a_repetition_that_a_run_does_not_have_is_named(config, assert_message):
    experiment = run_experiment(shaky(config))
    path = experiment.path / "unscored.jsonl"
    path.write_text(path.read_text().replace('"repeat":1', '"repeat":3'))

    with pytest.raises(DataError) as error:
        read_run_scores(experiment.path)

    assert_message(error.value)


def test_failed_repetitions_of_a_judge_on_several_answers_are_read_again(config, tmp_path):
    experiment = run_experiment(shaky(config, n_answers=2))

    # the judge failed twice on one answer to each question, and in all of those on q2
    read = read_run_scores(experiment.path)
    write_baseline(tmp_path / "main.json", read)
    for scores in (read, read_baseline(tmp_path / "main.json")):
        columns = scores.systems["mine"].columns
        causes = columns["shaky"].answer_causes
        assert (causes.shape, int((causes == Cause.ERROR).sum())) == ((5, 6), 6 + 4 * 2)
        assert columns["exact_match"].answer_causes.shape == (5, 2)


def test_verdicts_on_failed_answers_are_not_counted(config, assert_message):
    experiment = run_experiment(shaky(config, app="halting"))

    # three answers, each of which is judged three times
    assert_message(lines_with(experiment.record.warnings, "verdicts on shaky"))
    assert experiment.record.systems[0].scores["shaky"].bounds == pytest.approx((3 / 15, 1))


SERVED = {"type": "classifier", "model": "m", "base_url": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    "judge",
    [
        {"type": "nli"},
        SERVED,
        {"type": "python:flaky:rate", "rubrics": ["pairwise"]},
    ],
    ids=["nli", "classifier", "pairs"],
)
def test_a_judge_without_chance_refuses_a_repeat(config, judge):
    config["metrics"]["judge"] = {**judge, "repeat": 2}
    with pytest.raises(ConfigError) as error:
        run_experiment(config)

    assert "metrics.judge.repeat" in [problem.path for problem in error.value.problems]


def test_an_own_judge_that_says_so_refuses_a_repeat(config, tmp_path):
    (tmp_path / "sure.py").write_text(
        "class Sure:\n"
        "    label, model, options = 'a rule', 'rule', {}\n"
        "    same_results = 'it counts words'\n"
        "    def judge(self, item, rubric): return 1.0\n"
    )
    config["metrics"]["judge"] = {
        "type": "python:sure:Sure",
        "repeat": 2,
        "rubrics": ["answer_relevancy"],
    }
    with pytest.raises(ConfigError, match="1: it counts words") as error:
        run_experiment(config)

    assert [problem.path for problem in error.value.problems] == ["metrics.judge.repeat"]


def test_right_is_the_share_of_right_answers(config):
    experiment = run_experiment(with_parts(config, apps={"mine": entry("app")}))

    right = experiment.per_query["mine"]["right"]
    assert [right[query] for query in QUERIES][:4] == pytest.approx([1, 1 / 3, 1, 1])


def test_headline_causes_and_explain_give_one_count(config, assert_message):
    experiment = run_experiment(with_parts(config, apps={"mine": entry("app")}))
    system = experiment.record.system("mine")

    # three answers of four are right each time, that on the ocean once of three times
    right = experiment.per_query["mine"]["right"]
    assert system.causes["right"] == pytest.approx(sum(right[query] for query in list(QUERIES)[:4]))
    assert system.causes["right"] == pytest.approx(10 / 3)
    assert sum(system.causes.values()) == pytest.approx(len(QUERIES))
    rows = (experiment.path / "causes.csv").read_text().splitlines()
    assert rows[0].split(",")[-1] == "sample"
    assert len(rows) == 1 + 5 * 3
    # the shown repetition is the first one that is lost
    shown = experiment.causes["mine"]["q2"]
    assert (shown.cause, shown.sample) == ("not_retrieved", 1)
    output = CliRunner().invoke(group, ["explain", str(experiment.path), "--verbose"]).stdout
    assert_message(lines_with(output, "mine") + lines_with(output, "q2 "))
    shown_query = CliRunner().invoke(group, ["show", str(experiment.path), "q2"]).stdout
    assert_message(lines_with(shown_query, "mine: ") + lines_with(shown_query, "why"))


def test_show_prints_the_ranking_of_the_shown_repetition(config):
    experiment = run_experiment(with_parts(config, apps={"mine": entry("app")}))
    view = experiment.queries["q2"].system("mine")

    assert [hit.id for hit in view.ranking] == ["d4"], "the second answer has read d4 alone"
    assert {cause: list(numbers) for cause, numbers in view.causes.items()} == {
        "right": [0],
        "not_retrieved": [1, 2],
    }


def test_the_page_has_the_cause_of_each_repetition_and_both_answers(config):
    experiment = run_experiment(with_parts(config, apps={"mine": entry("app")}))
    views = QueryViews(experiment.path, bare=True)
    queries = json.loads(gzip.decompress(pack_queries(views).packed))["queries"]
    [ocean] = [query for query in queries if query["id"] == "q2"]

    entry_of_mine = ocean["systems"]["mine"]
    assert entry_of_mine["causes"] == ["right", "not_retrieved", "not_retrieved"]
    assert (entry_of_mine["cause"], entry_of_mine["shown"]) == ("not_retrieved", 1)
    [row] = flip_table(experiment.record.systems, answer_texts(views)).rows
    assert [str(cell) for cell in row][3:] == ["33%", "repeat 1: Europa", "repeat 2: Callisto"]
