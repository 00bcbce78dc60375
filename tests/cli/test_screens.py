"""Screens of each command, on terminals of three widths: lines fit, and few are printed.

All commands read the same finished runs, with a terminal as standard output. A line of the command
line computes its results once, and draws them on each terminal.
"""

import csv
import json
import os
import random
import re
import shutil
import sys
from functools import wraps
from pkgutil import resolve_name

import pytest

from ragbench.types.display import display_width
from tests.commands import run_command, run_on_terminal
from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.costly]

WIDTHS = (60, 80, 120)
LONG_NAME = "the-retriever-of-the-production-system-with-a-very-long-name"
LONG_ID = "an-identifier-of-a-question-" + "x" * 90
JUDGE = {
    "type": "python:tests.words:Words",
    "rubrics": ["faithfulness", "answer_relevancy"],
}
WORDS = [
    "orbit",
    "planet",
    "moon",
    "crater",
    "comet",
    "ring",
    "asteroid",
    "gravity",
    "solar",
    "wind",
    "probe",
    "lander",
    "dust",
]
# Changes of `three` that make one of its systems worse
WORSE = ("--set", "retrievers.a.stemmer=none", "--set", "generators.extractive.sentences=1")
APP = """
def answer(question):
    if len(question) % 3 == 0:
        raise ValueError("x" * 90)
    return question[:30]
"""
# Codes that style a text; all others would move the cursor.
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def beir(names, limit=None, **blocks):
    """Return a config with BM25 retrievers of these names and a generator on each."""
    retrievers = {
        name: {"type": "bm25", "b": 0.1 * n, "stemmer": "none" if n % 2 else "porter"}
        for n, name in enumerate(names)
    }
    return {
        "dataset": {"type": "beir", "path": "example", "split": "test"},
        "retrievers": retrievers,
        "generators": {"extractive": {"type": "extractive", "sentences": 2}},
        "metrics": {"generation": ["contains", "token_f1", "rougeL"]},
        "statistics": {"baseline": names[0]},
        **blocks,
    }


def table_rows(prefix, share):
    """Return rows of answered questions, of which a share are right; some texts are wide."""
    numbers, rows = random.Random(5), []
    for n in range(40):
        gold = " ".join(numbers.sample(WORDS, 3))
        answer = f"It is {gold}." if numbers.random() < share else "It is the dust."
        question = f"Which {' '.join(numbers.sample(WORDS, 9))} is number {n}?"
        rows.append(
            {
                "id": f"{prefix}{n}",
                "question": "東京タワー" * 30 if n % 7 == 3 else question,
                "reference": gold,
                "answer": answer,
                "contexts": [f"{gold} stands in passage {place}" for place in range(3)],
            }
        )
    return rows


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_example(folder):
    """Write the first 30 questions of the example collection, and all its documents."""
    example = REPOSITORY / "datasets" / "example"
    (folder / "qrels").mkdir(parents=True)
    ids = {f"q{number:02}" for number in range(1, 31)}
    shutil.copy(example / "corpus.jsonl", folder)
    for name, field in (("queries.jsonl", "_id"), ("answers.jsonl", "query_id")):
        rows = map(json.loads, (example / name).read_text(encoding="utf-8").splitlines())
        write_rows(folder / name, [row for row in rows if row[field] in ids])
    head, *lines = (example / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    kept = [head, *(line for line in lines if line.split("\t")[0] in ids)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(kept) + "\n", encoding="utf-8")


def write_inputs(folder):
    """Write a config for each kind of run into a folder, with the files that it names."""
    write_example(folder / "example")
    for name, prefix, share in (("one", "q", 0.6), ("new", "q", 0.3), ("ids", LONG_ID, 0.6)):
        write_rows(folder / f"{name}.jsonl", table_rows(prefix, share))
    (folder / "app.py").write_text(APP, encoding="utf-8")
    data = {"type": "beir", "path": "example", "split": "test"}
    gates = [
        {"measure": measure, "max_drop": 0.05, "system": ["b"], "against": "a"}
        for measure in ("ndcg@10", "recall@10", "mrr@10", "map")
    ]
    scores = {"generation": ["token_f1"], "judge": JUDGE}
    configs = {
        "one": {
            "dataset": {"type": "records", "path": "one.jsonl"},
            "metrics": {"generation": ["token_f1", "rougeL"]},
            "gates": [{"measure": "token_f1", "min": 0.9}],
        },
        "ids": {
            "dataset": {"type": "records", "path": "ids.jsonl"},
            "metrics": {"generation": ["token_f1"]},
        },
        "two": beir(["a", "b"], metrics=scores, gates=gates),
        "three": beir(["a", "b", "c"]),
        "eight": beir([f"variant{n}" for n in range(8)]),
        "names": beir([f"{LONG_NAME}-{word}" for word in ("old", "new", "newest")]),
        "failed": {
            "dataset": data,
            "retrievers": {"bm25": {"type": "bm25"}},
            "apps": {"mine": {"type": "python:app:answer"}},
            "metrics": {"generation": ["token_f1"]},
            "max_failed": 0.9,
        },
        "several": {
            "datasets": {"first": data, "second": data},
            "retrievers": {"a": {"type": "bm25"}, "b": {"type": "bm25", "stemmer": "none"}},
            "statistics": {"baseline": "a"},
        },
    }
    for name, config in configs.items():
        text = json.dumps({"name": name, **config, "seed": 1})
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return configs


# Functions that compute what a command shows; the terminal changes how it is drawn.
COMPUTING = (
    "ragbench.experiment.runner.run_experiment",
    "ragbench.experiment.collections.run_collections",
    "ragbench.experiment.compare.compare",
    "ragbench.experiment.gate_run.run_gate",
    "ragbench.experiment.fix.list_fixes",
    "ragbench.cli.audit.audit_test_set",
)
DRAWING = ("--quiet", "--verbose")


@pytest.fixture(scope="module")
def computed_once():
    """Let a command line compute its results once, whatever terminal it is drawn on."""
    results = {}

    def remember(function):
        @wraps(function)
        def compute(*arguments, **options):
            key = (function, *(word for word in sys.argv if word not in DRAWING))
            if key not in results:
                results[key] = function(*arguments, **options)
            return results[key]

        return compute

    with pytest.MonkeyPatch.context() as patch:
        for name in COMPUTING:
            patch.setattr(name, remember(resolve_name(name)))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory, computed_once):
    """Return a folder with a finished run of each config, and a labelled sheet of the judge."""
    folder = tmp_path_factory.mktemp("screens")
    environment = {**os.environ, "RAGBENCH_CACHE": str(folder / "cache")}

    def run(*arguments):
        done = run_command(*arguments, cwd=folder, env=environment)
        assert done.returncode in (0, 1), done.stderr

    for name in write_inputs(folder):
        run("run", f"{name}.yaml", "--quiet")
    run("run", "three.yaml", "--quiet", "--set", "output=old", "--set", "retrievers.a.b=0.9")
    run("run", "three.yaml", "--quiet", "--set", "output=third", "--set", "seed=2", *WORSE)
    run("run", "one.yaml", "--quiet", "--set", "output=old", "--set", "dataset.path=new.jsonl")
    run("calibrate", "runs/two", "--draw", "40", "-o", "drawn.csv")
    with (folder / "drawn.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for n, row in enumerate(rows):
        row["label"] = str(n % 2 if row["rubric"] == "faithfulness" else 1 + n % 5)
    with (folder / "sheet.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return folder


@pytest.fixture(scope="module")
def on_terminal(folder):
    """Run a command on a terminal of a width; return its exit code and what it shows."""

    def run(line, width, **variables):
        environment = {**os.environ, "RAGBENCH_CACHE": str(folder / "cache")}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        environment |= {"TERM": "xterm-256color", **variables}
        return run_on_terminal(*line.split(), width=width, cwd=folder, env=environment)

    return run


RUNS = ("one", "ids", "two", "three", "eight", "names", "failed")
LINES = [
    *(f"run {name}.yaml" for name in RUNS),
    *(f"explain runs/{name}" for name in RUNS),
    *(f"plan {name}.yaml" for name in ("two", "eight", "names")),
    *(f"validate {name}.yaml" for name in ("ids", "eight", "names")),
    *(f"audit {name}.yaml" for name in ("one", "two", "names")),
    *(f"fix runs/{name}" for name in ("two", "eight", "names")),
    *(f"compare runs/{name}" for name in ("two", "three", "eight", "names")),
    "run several.yaml", "plan several.yaml", "validate several.yaml",
    "compare old/three runs/three", "compare old/three runs/three third/three",
    "compare old/one runs/one -m right",
    "compare runs/eight -m ndcg@10 -m found@5 -m right -m token_f1",
    "gate three.yaml --base third/three", "gate three.yaml --base old/three",
    "gate one.yaml --base old/one", "gate two.yaml --base runs/two", "gate new.jsonl one.jsonl",
    "show runs/eight q01", "show runs/names q01", "show runs/one q3", "show runs/failed q02",
    "runs", "runs runs/three", "demo", "baseline runs/names -o b.json", "report runs/names",
    "calibrate runs/two --labels sheet.csv -o judge.json",
]  # fmt: skip
# More lines at 60 columns than at 80, since sentences wrap.
MOST_LINES = {60: 40, 80: 24, 120: 24}
# Runs of one to three systems with short names; `one` has a gate that does not pass, `two` four.
SHORT_RUNS = ("run one.yaml", "run two.yaml", "run three.yaml", "run failed.yaml")


# Text that fits 60 and 80 columns seldom exceeds 120: there, one line of each command.
FIRST_LINES = {line.split()[0]: line for line in reversed(LINES)}.values()


@pytest.mark.parametrize("line", LINES)
def test_a_command_fits_terminals_of_three_widths(on_terminal, line):
    for width in WIDTHS if line in FIRST_LINES else WIDTHS[:2]:
        code, text = on_terminal(line, width)

        assert code in (0, 1), (width, text)
        lines = STYLE.sub("", text).splitlines()
        assert lines, width
        assert "\x1b" not in "".join(lines), "styles alone"
        assert max(map(display_width, lines)) <= width, (width, text)
        most = 14 if line in SHORT_RUNS and width >= 80 else MOST_LINES[width]
        assert len(lines) <= most, (width, text)


@pytest.mark.parametrize("line", ["explain runs/three", "explain runs/ids", "explain runs/failed"])
def test_a_lost_question_has_at_most_five_lines(on_terminal, line):
    for width in WIDTHS:
        text = STYLE.sub("", on_terminal(line, width)[1])
        _, questions, _ = re.split(r"\n\n", text)
        blocks = re.split(r"\n(?! )", questions)

        assert 1 <= len(blocks) <= 4, text
        assert max(len(block.splitlines()) for block in blocks) <= 5, text


@pytest.mark.parametrize("line", ["run three.yaml", "explain runs/three", "compare runs/eight"])
def test_a_terminal_without_colours_shows_the_same_text(on_terminal, line):
    of_run = re.compile(r"\d{8}-\d{6}-\w{4}")
    colored = on_terminal(line, 80)[1]
    assert "\x1b[" in colored
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = on_terminal(line, 80, **variables)[1]

        assert "\x1b" not in plain, variables
        assert of_run.sub("RUN", plain) == of_run.sub("RUN", STYLE.sub("", colored)), variables


@pytest.mark.parametrize("line", ["gate three.yaml --base old/three", "runs runs/three"])
def test_a_terminal_has_everything_with_verbose(on_terminal, line):
    brief, whole = (on_terminal(words, 80)[1] for words in (line, f"{line} --verbose"))

    assert len(whole.splitlines()) >= len(brief.splitlines())


def test_three_runs_have_their_best_system_in_the_first_sentence(on_terminal):
    first, *_ = on_terminal("compare old/three runs/three third/three", 120)[1].splitlines()

    assert first.startswith("best by right: a/extractive (old/three) with ")


def test_a_calibration_begins_with_the_mean_of_people(on_terminal, folder):
    first, *_ = on_terminal("calibrate runs/two --labels sheet.csv -o judge.json", 120)[
        1
    ].splitlines()

    rubrics = json.loads((folder / "judge.json").read_text(encoding="utf-8"))["rubrics"]
    system, of = next(iter(next(iter(rubrics.values()))["corrected"].items()))
    assert of["status"] == "corrected"
    assert f"{system} {of['mean']:.3f} [" in first


def test_a_review_ends_with_its_page(on_terminal, folder):
    *_, last = on_terminal("gate three.yaml --base third/three", 80)[1].splitlines()

    assert last.startswith("report: runs/three/")
    assert (folder / last.removeprefix("report: ")).is_file()


def test_a_decision_of_a_gate_is_json(on_terminal):
    code, text = on_terminal("gate new.jsonl one.jsonl --json", 60)

    decision = json.loads(text)
    assert (decision["exit_code"], decision["verdict"]) == (code, "pass" if code == 0 else "fail")
    assert decision["gates"]


def test_every_command_that_prints_results_is_here():
    names = {line.split()[0] for line in LINES}

    assert names >= {
        *("run", "explain", "compare", "fix", "gate", "audit", "calibrate", "validate", "plan"),
        *("runs", "demo", "baseline", "show", "report"),
    }
