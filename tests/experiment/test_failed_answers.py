"""A server fails some of several answers: gates of the run, of its folder, of a file of it."""

import json
from collections import Counter

import numpy as np
import pytest

import ragbench as rb
from ragbench.comparison.sources import read_scored
from ragbench.data.runs.run_scores import read_baseline
from ragbench.errors import DataError
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.commands import run_command
from tests.experiment.moons import write_jsonl
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

N, SAMPLES = 15, 5
# Queries two of whose five answers the server refuses.
LOST = 6


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def config(place):
    folder = place / "data"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(folder / "corpus.jsonl", [{"_id": "d", "title": "", "text": "the moon Io"}])
    write_jsonl(
        folder / "queries.jsonl", [{"_id": f"q{i}", "text": f"moon {i}?"} for i in range(N)]
    )
    rows = [f"q{i}\td\t1" for i in range(N)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]))
    gold = [{"query_id": f"q{i}", "answers": ["Io"]} for i in range(N)]
    write_jsonl(folder / "answers.jsonl", gold)
    return {
        "name": "failing",
        "dataset": {"type": "beir", "path": str(folder), "split": "test"},
        "retrievers": {"bm25": {"type": "bm25"}},
        "metrics": {"retrieval": {"measures": ["mrr"]}, "generation": ["exact_match"]},
        "statistics": {"resamples": 200},
        "max_failed": 1.0,
        "cache": str(place / "cache"),
    }


def ask(config, samples, lost, *gates, name="failing"):
    """Run it on a server that refuses two of five answers to the first `lost` queries."""
    n_asked = Counter()

    def script(body, times_asked):
        question = body["messages"][-1]["content"]
        n_asked[question] += 1
        number = int(question.split("moon ")[-1].split("?")[0])
        refused = number < lost and n_asked[question] <= 2
        return Answer("", refusal="I will not.") if refused else Answer("Io")

    with ChatServer(script, model="m") as server, pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAGBENCH_CACHE", raising=False)  # the config has its own
        model = {"type": "openai", "model": "m", "base_url": server.url, "api_key_env": "NO_KEY"}
        model |= {"temperature": 1.0, "repeat": samples}
        model["concurrency"] = 1 if lost else 8  # which answers are refused depends on the order
        entries = {**config, "name": name, "generators": {"gpt": model}, "gates": list(gates)}
        return run_experiment(entries, choices=Choices(judge=False))


@pytest.fixture(scope="module")
def complete_run(config):
    """A run that lost nothing; nobody changes it."""
    return ask(config, SAMPLES, 0, name="before")


GATES = (
    {"measure": "exact_match", "min": 0.9},
    {"measure": "exact_match", "against": "runs/before", "max_drop": 0.1},
    {"measure": "exact_match", "against": "runs/before", "max_queries_worse": 3},
    {"failed": "exact_match", "max": 0.1},
)


@pytest.fixture(scope="module")
def lossy_run(config, complete_run):
    """A run that lost some, with gates; nobody changes it either."""
    return ask(config, SAMPLES, LOST, *GATES)


def test_failed_answers_count_like_failed_queries(lossy_run, assert_message):
    score = next(s for s in lossy_run.record.systems if s.name == "bm25/gpt").scores["exact_match"]
    assert score.mean == 1.0
    assert score.bounds == pytest.approx((1 - 0.4 * LOST / N, 1.0)), "two of five, of 6 of 15"
    page = (lossy_run.path / "report.md").read_text(encoding="utf-8")
    sentence = "exact_match of bm25/gpt (mean from 0.840 to 1.00, had all"
    assert sentence in page.replace("\\", "")
    verdicts = [gate["verdict"] for gate in lossy_run.summary["gates"]]
    assert verdicts == ["undecided", "undecided", "undecided", "fail"]
    assert_message(lossy_run.summary["gates"][3]["why"])
    assert lossy_run.exit_code == 1


def test_the_folder_and_a_baseline_file_say_the_same_as_the_run(lossy_run, place, assert_message):
    run_command("baseline", lossy_run.path, "-o", "now.json")

    for source in (lossy_run.path, place / "now.json"):
        again = rb.check_gates(source, GATES)
        assert [(g["verdict"], g["why"]) for g in again] == [
            (g["verdict"], g["why"]) for g in lossy_run.summary["gates"]
        ]
    margin = ("-m", "exact_match", "--max-drop", "0.1", "--strict")
    gated = run_command("gate", "runs/before", "now.json", *margin)
    assert gated.returncode == 4, gated.stderr
    assert_message(lines_with(gated.stdout, "on 6"))


def test_a_baseline_that_lost_answers_cannot_show_a_drop(lossy_run, complete_run):
    # Lost answers may have been right: only against the complete run the drop is certain.
    lower = rb.check_gates(
        lossy_run.path, {"measure": "exact_match", "max_drop": 0.1}, complete_run.path
    )
    equal = rb.check_gates(
        complete_run.path, {"measure": "exact_match", "max_drop": 0.1}, lossy_run.path
    )

    assert (lower[0]["verdict"], equal[0]["verdict"]) == ("undecided", "pass")


def test_baseline_files_carry_what_failed(lossy_run, tmp_path):
    file = tmp_path / "main.json"
    assert run_command("baseline", lossy_run.path, "-o", file).returncode == 0
    lines = [line for line in file.read_text().splitlines() if '"refused"' in line]
    stored = json.loads(file.read_text())["systems"]["bm25/gpt"]

    assert len(lines) == LOST, "a line for each query that lost answers"
    assert stored["answers"] == SAMPLES
    assert stored["unscored_answers"]["q3"]["exact_match"] == {"refused": 2}
    ours = read_scored(lossy_run.path).systems["bm25/gpt"].columns["exact_match"].answer_causes
    ids = list(read_scored(lossy_run.path).query_ids)
    theirs = read_baseline(file).systems["bm25/gpt"]
    order = [ids.index(query) for query in read_baseline(file).query_ids]
    read = theirs.columns["exact_match"].answer_causes
    np.testing.assert_array_equal(np.sort(ours[order], axis=1), np.sort(read, axis=1))


MISTAKES = [
    (lambda s: s["unscored_answers"]["q3"].update(exact_match={"refused": 9}), "'q3' has"),
    (lambda s: s["unscored_answers"]["q3"].update(exact_match={"bored": 1}), "'q3' has"),
    (lambda s: s["unscored_answers"]["q3"].update(mine={"refused": 1}), "'q3' has"),
    (lambda s: s["unscored_answers"].update(q99={"exact_match": {"refused": 1}}), "'q99' has"),
]  # fmt: skip


def test_mistakes_in_a_baseline_file_are_named(lossy_run, tmp_path):
    file = tmp_path / "main.json"
    run_command("baseline", lossy_run.path, "-o", file)
    right = file.read_text()
    for change, says in MISTAKES:
        content = json.loads(right)
        change(content["systems"]["bm25/gpt"])
        file.write_text(json.dumps(content))

        with pytest.raises(DataError, match=says):
            read_baseline(file)
