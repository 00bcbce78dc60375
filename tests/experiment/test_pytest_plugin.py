"""The pytest plug-in in sessions of its own, and what it may not load."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import yaml

import ragbench as rb
from ragbench.pytest_plugin import assert_not_worse, assert_retrieval
from tests.commands import call
from tests.experiment.splits import write_splits
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

MODULES = """
import sys, pytest
before = set(sys.modules)
import ragbench.pytest_plugin
print(*sorted({name for name in set(sys.modules) - before}))
"""


PLUGIN = "ragbench.pytest_plugin"
OPTIONS = ["-p", "no:cacheprovider", "-p", PLUGIN]
# A session collects garbage five times at its end, and here it has all that tests imported.
QUICK = ["-p", "no:unraisableexception"]


@pytest.fixture
def place(data, tmp_path, monkeypatch):
    """The folder of the test, set up for pytest with this plug-in alone."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    # the entry point may be installed, or not
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return tmp_path


def without_summary(output):
    """Return the output of pytest before its summary, which is cut at 80 columns except in CI."""
    return output.partition("short test summary info")[0]


@pytest.fixture
def session(place, monkeypatch):
    """Run pytest in this process: exit code and output."""

    def run(*arguments):
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, PLUGIN, raising=False)  # pytest has yet to load it
            words = [*OPTIONS, *QUICK, *arguments]
            code, out, err = call(lambda: pytest.main(words), cwd=place)
        return code, out + err

    return run


@pytest.fixture
def process(place, repository):
    """Run pytest as users do, in a process of its own: exit code and output."""

    def run(*arguments, python=sys.executable):
        done = subprocess.run(
            [python, "-m", "pytest", *OPTIONS, *arguments],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(repository)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def experiment(config, tmp_path):
    """Write the config with gates as `moons.ragbench.yaml`."""

    def write(*gates, **changes):
        text = yaml.safe_dump({**config, **changes, "gates": list(gates)}, sort_keys=False)
        (tmp_path / "moons.ragbench.yaml").write_text(text)

    return write


def test_a_system_of_the_name_page_is_no_page(session, experiment, tmp_path):
    gate = {"measure": "ndcg@10", "system": "page", "min": 1.0, "decide": "interval"}
    experiment(gate, retrievers={"page": {"type": "bm25"}})

    _, output = session("moons.ragbench.yaml")

    assert output.count("ragbench page: ") == 1


def runs(tmp_path):
    return [folder for folder in (tmp_path / "runs" / "moons").glob("2*") if folder.is_dir()]


def test_a_test_for_each_gate_and_system(session, experiment, tmp_path, assert_message):
    experiment(
        {"measure": "recall@10", "system": "bm25", "min": 0.1},
        {"measure": "ndcg@10", "system": "bm25", "min": 1.0, "decide": "interval"},
        {"measure": "context_overlap", "against": "bm25/extractive", "max_drop": 0.0},
        {"measure": "usd", "system": "bm25/extractive", "max": 0},
        retrievers={"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}},
    )

    code, output = session("moons.ragbench.yaml", "-v", "-rs", "--junit-xml=out.xml")

    assert code == 1
    assert_message(lines_with(output, ">= 0.1[bm25]", "gate ndcg@10"))
    assert output.count("bm25 FAILS: ndcg@10: mean") == 1
    assert "Captured" not in output
    assert "Traceback" not in output
    assert ".py:" not in output
    [run] = runs(tmp_path)
    assert output.count(f"ragbench page: {run / 'report.html'}") == 1
    cases = ElementTree.parse(tmp_path / "out.xml").findall(".//testcase")
    assert [case.get("name").partition("[")[2] for case in cases] == [
        "bm25]", "bm25]", "exact/extractive]", "bm25/extractive]",
    ]  # fmt: skip
    properties = {p.get("name"): p.get("value") for p in cases[0].iter("property")}
    assert properties == {"page": str(run / "report.html"), "bm25": "pass: mean 1 over 4 queries"}
    failure = cases[1].find("failure")
    assert_message(failure.get("message"))
    assert failure.text == failure.get("message"), "no question is below the limit"


def test_the_summary_in_ci_has_the_verdict_alone(
    session, experiment, tmp_path, monkeypatch, assert_message
):
    experiment({"measure": "ndcg@10", "system": "bm25", "min": 1.0, "decide": "interval"})
    (tmp_path / "test_search.py").write_text(TESTS)
    monkeypatch.setenv("CI", "1")  # pytest then does not cut the lines of its summary

    _, output = session("-k", "bm25 or bad", "--tb=no")

    gate, assertion = (text for text in output.splitlines() if text.startswith("FAILED"))
    assert_message(gate)
    assert_message(assertion)
    assert "q0" not in output


GATES = {
    "recall@10 >= 0": ({"measure": "recall@10", "min": 0}, ["bm25", "k-k1=0.5", "k-k1=0.9"]),
    "rouge1 >= 0": (
        {"measure": "rouge1", "min": 0},
        ["bm25/extractive", "k-k1=0.5/extractive", "k-k1=0.9/extractive"],
    ),
    # the systems of a difference are those that are no baseline
    "ndcg@10 not worse": ({"measure": "ndcg@10"}, ["bm25", "k-k1=0.5"]),
    "rouge1 not worse against bm25/extractive": (
        {"measure": "rouge1", "against": "bm25/extractive"},
        ["k-k1=0.5/extractive", "k-k1=0.9/extractive"],
    ),
    "usd <= 1": (
        {"measure": "usd", "max": 1},
        [
            *("bm25", "k-k1=0.5", "k-k1=0.9"),
            *("bm25/extractive", "k-k1=0.5/extractive", "k-k1=0.9/extractive"),
        ],
    ),
    "ndcg@10 >= 0": ({"measure": "ndcg@10", "system": "k", "min": 0}, ["k-k1=0.5", "k-k1=0.9"]),
}


def test_the_tests_are_the_decisions_of_the_run(session, experiment, tmp_path):
    experiment(
        *(gate for gate, _ in GATES.values()),
        retrievers={"bm25": {"type": "bm25"}, "k": {"type": "bm25", "sweep": {"k1": [0.5, 0.9]}}},
        generators={"extractive": {"type": "extractive"}},
        statistics={"baseline": "k-k1=0.9"},
    )

    _, output = session("--collect-only", "-q")
    gates = rb.run_experiment(tmp_path / "moons.ragbench.yaml").summary["gates"]

    collected = [line.partition("::")[2] for line in output.splitlines() if "::" in line]
    assert collected == [f"{text}[{name}]" for text, (_, names) in GATES.items() for name in names]
    assert sorted(collected) == sorted(f"{gate['gate']}[{gate['system']}]" for gate in gates)


def test_a_gate_on_a_sweep_with_select_is_one_test_on_the_chosen_combination(
    session, place, assert_message
):
    folder = write_splits(place / "splits")
    config = {
        "dataset": {"type": "beir", "path": str(folder)},
        "retrievers": {
            "bm25": {"type": "bm25"},
            "tuned": {
                "type": "bm25",
                "sweep": {"k1": [0.1, 3.0]},
                "select": {"on": "train", "measure": "ndcg@3"},
            },
        },
        "metrics": {"retrieval": {"measures": ["ndcg@3"]}},
        "gates": [
            {"measure": "ndcg@3", "system": "tuned", "min": 1.0, "decide": "mean"},
            {"measure": "ndcg@3", "system": "bm25", "min": 0.0, "decide": "mean"},
        ],
    }
    (place / "chosen.ragbench.yaml").write_text(yaml.safe_dump(config))

    code, output = session("-rA")

    assert code == 1, output
    assert_message(lines_with(output, "mean) -", ">= 0"))
    assert "1 failed, 1 passed" in output


def test_a_gate_whose_systems_the_data_bring_is_one_test(
    session, experiment, tmp_path, assert_message
):
    (tmp_path / "log.jsonl").write_text(
        '{"id": "q1", "question": "q?", "reference": "moon", "answer": "sun"}\n'
    )
    experiment(
        {"measure": "token_f1", "min": 0.5},
        dataset={"type": "records", "path": "log.jsonl"},
        retrievers={},
        generators={},
        metrics={"generation": ["token_f1"]},
    )

    code, output = session()

    assert code == 1, output
    assert "_ gate token_f1 >= 0.5 _" in output
    assert_message(lines_with(without_summary(output), "0 over"))


def test_undecided_is_skipped_or_fails(session, experiment, assert_message):
    experiment(
        {"measure": "ndcg@10", "system": "empty", "max_drop": 0.0},
        retrievers={"bm25": {"type": "bm25"}, "empty": {"type": "python:worse:search"}},
    )
    with open("worse.py", "w", encoding="utf-8") as file:
        file.write("def search(question, top_k):\n    return ['luna', 'titan', 'io'][:top_k]\n")

    lenient, printed = session("moons.ragbench.yaml")
    strict, also = session("moons.ragbench.yaml", "--ragbench-strict")

    assert (lenient, strict) == (0, 1)
    # on CI, pytest repeats the sentence in its summary in full
    for output in (printed, without_summary(also)):
        assert_message(lines_with(output, "if the"))
        assert output.count("empty is undecided: ndcg@10 ") == 1
    assert_message(lines_with(printed, "nor failed"))


def test_a_wrong_file_is_one_clear_error(session, experiment):
    experiment({"measure": "ndcg@11", "system": "bm52", "min": 0.1})

    code, output = session()

    assert code == 2
    assert "no system 'bm52'" in output
    assert "did you mean 'bm25'?" in output
    assert "Traceback" not in output


def test_a_baseline_is_written_then_compared_with(session, experiment, tmp_path):
    gate = {"measure": "ndcg@10", "system": "bm25", "against": "main.json", "max_drop": 0.01}
    experiment(gate, {"measure": "recall@10", "min": 0.0})

    missing, printed = session()
    updated, _ = session("--ragbench-update")
    moved = tmp_path / "main.json"
    moved.rename(tmp_path / "other.json")
    elsewhere, _ = session("--ragbench-baseline=other.json")

    assert (missing, updated) == (2, 0)
    assert "no such file: main.json" in printed
    assert elsewhere == 0, "the option takes the place of the file that is gone"


def test_a_comparison_that_is_refused_fails(session, experiment, data):
    gate = {"measure": "ndcg@10", "system": "bm25", "against": "main.json", "max_drop": 0.5}
    experiment(gate)
    updated, _ = session("--ragbench-update")
    # every judgement has another grade: no query is the same on both sides
    qrels = data / "qrels" / "test.tsv"
    head, *rows = qrels.read_text().splitlines()
    judgements = [row.split("\t") for row in rows]
    edited = [f"{query}\t{document}\t{int(grade) + 1}" for query, document, grade in judgements]
    qrels.write_text("\n".join([head, *edited, ""]))

    code, printed = session()

    assert (updated, code) == (0, 1), printed
    assert "undecided gates" not in printed, "a skipped test would hide it"


@pytest.mark.parametrize(
    ("gates", "options", "code", "message"),
    [
        ([], [], 5, "moons.ragbench.yaml has no gates, so that there is nothing to test"),
        (
            [{"measure": "recall@10", "min": 0.0}],
            ["--ragbench-update"],
            0,
            "no gate of moons.ragbench.yaml is against a baseline file",
        ),
    ],
)
def test_what_comes_to_nothing_is_said(session, experiment, gates, options, code, message):
    experiment(*gates)

    ended, output = session("-Wdefault", *options)

    assert ended == code
    assert message in output


TESTS = """
import warnings

import pytest
import ragbench
from ragbench.pytest_plugin import assert_not_worse, assert_retrieval

QRELS = {f"q{i}": {"d1": 1} for i in range(60)}
GOOD = {query: {"d1": 2.0, "d2": 1.0} for query in QRELS}
BAD = {query: {"d1": 0.5, "d2": 1.0} for query in QRELS}

def test_run(ragbench_run):
    experiment = ragbench_run("moons.ragbench.yaml")
    assert experiment is ragbench_run("moons.ragbench.yaml")
    assert_not_worse(experiment, experiment.path, measures={"ndcg@10": 0.0}, system="bm25")

def test_retrieval():
    assert_retrieval(GOOD, QRELS, {"mrr@10": 1.0})

def test_bad_retrieval():
    assert_retrieval(BAD, QRELS, {"mrr@10": 0.9})

def test_worse():
    now, before = (ragbench.evaluate_run(run, QRELS, ["mrr@10"]) for run in (BAD, GOOD))
    assert_not_worse(now, before, measures={"mrr@10": 0.1})

def test_undecided():
    qrels, good = {"q1": QRELS["q1"]}, {"q1": GOOD["q1"]}
    now, before = (ragbench.evaluate_run(r, qrels, ["mrr@10"]) for r in ({"q1": BAD["q1"]}, good))
    with pytest.warns(pytest.PytestWarning, match="undecided"):
        assert_not_worse(now, before, measures={"mrr@10": 0.1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_not_worse(before, now, measures={"mrr@10": 0.1})
"""


def test_fixture_and_assertions(session, experiment, tmp_path, assert_message):
    experiment({"measure": "recall@10", "min": 0.0})
    (tmp_path / "test_search.py").write_text(TESTS)

    code, output = session("-rA", "--tb=short")

    assert code == 1
    assert "2 failed, 5 passed" in output, output
    assert_message(lines_with(without_summary(output), "0.5 over", "a drop"))
    assert "q0  1.00 -> 0.500" in output, "the worst queries"
    assert len(runs(tmp_path)) == 1, "the fixture and the gate share a run"


ERRORS = """
import pytest
from ragbench.pytest_plugin import assert_not_worse

def test_config(ragbench_run):
    ragbench_run("no.yaml")

def test_baseline():
    assert_not_worse("runs", "no.json", measures={"ndcg@10": 0.0})
"""


def test_an_error_of_ours_ends_in_the_test(session, place, assert_message):
    (place / "test_search.py").write_text(ERRORS)

    code, output = session()

    assert code == 1
    places = [line for line in output.splitlines() if line.startswith("test_search.py:")]
    assert_message(places)
    assert "pytest_plugin" not in output
    assert_message(lines_with(output, "- runs"))


def test_a_run_that_fails_is_not_tried_for_each_gate(session, experiment, tmp_path):
    experiment(
        {"measure": "recall@10", "min": 0.0},
        {"measure": "ndcg@10", "min": 0.0},
        dataset={"type": "python:bad:Loader"},
    )
    (tmp_path / "bad.py").write_text(
        "from ragbench.errors import DataError\n"
        "class Loader:\n"
        "    def load(self):\n"
        "        with open('calls', 'a') as file:\n"
        "            file.write('x')\n"
        "        raise DataError('the shop is closed')\n"
    )

    code, output = session()

    assert code == 1, output
    assert "the shop is closed" in output
    assert (tmp_path / "calls").read_text() == "x"


@pytest.mark.slow
def test_workers_share_a_run(process, warm, experiment, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    python = tmp_path / "python"
    warm.write_python(python)  # three processes would import all of it
    gates = [{"measure": "recall@10", "system": "bm25", "min": i / 100} for i in range(6)]
    experiment(*gates)

    imported = "-Wignore::pytest.PytestAssertRewriteWarning"
    code, output = process("-p", "xdist", "-n", "2", imported, python=python)

    assert code == 0, output
    assert "6 passed" in output
    assert len(runs(tmp_path)) == 1
    assert [*(tmp_path / "temporary").glob("ragbench-*")] == [], "the shared folder is removed"


def test_loads_pytest_alone():
    done = subprocess.run(
        [sys.executable, "-c", MODULES], capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("ragbench")} == {
        "ragbench", "ragbench.pytest_plugin",
    }  # fmt: skip
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"ragbench"}


def test_is_silent_unless_used(process, tmp_path):
    (tmp_path / "test_other.py").write_text("def test_one():\n    pass\n")
    (tmp_path / "other.yaml").write_text("gates: [nothing of ours]\n")

    code, output = process("-q")

    assert code == 0
    assert output.splitlines()[0].startswith(".")
    assert "ragbench" not in output


def test_without_measures_nothing_fails():
    evaluation = rb.evaluate_run({"q1": {"d1": 1.0}}, {"q1": {"d1": 1}}, ["mrr"])

    assert_retrieval({"q1": {"d1": 1.0}}, {"q1": {"d1": 1}}, {})
    assert_not_worse(evaluation, evaluation, measures={})
