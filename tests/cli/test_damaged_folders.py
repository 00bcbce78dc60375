"""Damage to every file of a run folder: commands end well, or with one sentence."""

import json
import os
import random
import re
import shutil
import sys
from pathlib import Path

import pytest

import ragbench as rb
from tests.commands import run_command
from tests.experiment.moons import write_jsonl

pytestmark = pytest.mark.slow
# True in `make torture`: all damages, and `reproduce` after each of them.
FULL = "RAGBENCH_TEST_KILLS" in os.environ
COMMANDS = (
    ["show", "RUN", "q04"], ["explain", "RUN"], ["report", "RUN"], ["runs", "RUN"],
    ["compare", "RUN", "WHOLE"], ["calibrate", "RUN", "--draw", "2"], ["reproduce", "RUN"],
)  # fmt: skip
FILES = (
    "summary.json", "manifest.json", "config.yaml", "comparisons.json", "causes.csv",
    "per_query.csv", "fingerprints.csv", "costs.csv", "questions.jsonl", "unscored.jsonl",
    "texts.jsonl", "queries.jsonl",
    "rankings/bm25.trec",
    "predictions/bm25--extractive.jsonl", "judgements/bm25--extractive.jsonl",
)  # fmt: skip


def other_types(path):
    """Return the content of a file whose values have other types."""
    text = path.read_text()
    if path.suffix == ".json":
        return json.dumps({key: [None] for key in json.loads(text)})
    if path.suffix == ".jsonl":
        return "".join(
            json.dumps({key: [None] for key in json.loads(line)}) + "\n"
            for line in text.splitlines()
        )
    return re.sub(r"[0-9]+", "x", text)


def other_names(path):
    """Return the content of a file in which no system, query or file has its name."""
    return re.sub("bm25|extractive|q[0-9]+", "a\\\\u0000b", path.read_text())


DAMAGES = {
    "missing": None,
    "empty": lambda path: "",
    "cut": lambda path: path.read_text()[: path.stat().st_size // 2],
    "object": lambda path: "{}",
    "list": lambda path: "[]\n[1]\n",
    "types": other_types,
    "names": other_names,
    "noise": lambda path: random.Random(path.name).randbytes(3000),
    "nul": lambda path: "\0" * 100,
    "deep": lambda path: "[" * 100_000,
}


@pytest.fixture(scope="module")
def whole(judged_quickstart, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    judged_quickstart.copy_to(folder)
    return Path(folder / "runs/quickstart/latest").resolve()


@pytest.fixture(scope="module")
def read_by(whole, tmp_path_factory):
    """The files that each command opens in a run folder: damage to another one changes nothing."""
    folder, opened, listening = tmp_path_factory.mktemp("read"), set(), True
    run = folder / "runs/quickstart/damaged"
    shutil.copytree(whole, run)

    def listen(event, arguments):
        if listening and event == "open" and str(arguments[0]).startswith(f"{run}{os.sep}"):
            opened.add(str(arguments[0])[len(str(run)) + 1 :])

    sys.addaudithook(listen)  # there is no way to remove it
    files = {}
    for command in COMMANDS:
        opened.clear()
        run_command(*({"RUN": run, "WHOLE": whole}.get(w, w) for w in command), cwd=folder)
        files[command[0]] = {*opened}
    listening = False
    return files


# One damage of each file, and both of the three that all commands read.
CASES = [
    (name, damage)
    for n, name in enumerate(FILES)
    for damage in DAMAGES
    if FULL or damage == ("cut" if n % 2 else "names") or (damage == "cut" and n < 3)
]


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_a_damaged_file_is_one_sentence(whole, read_by, tmp_path, name, damage):
    run = tmp_path / "runs/quickstart/damaged"
    shutil.copytree(whole, run)
    path = run / name
    content = None if DAMAGES[damage] is None else DAMAGES[damage](path)
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    commands = [candidate for candidate in COMMANDS if FULL or name in read_by[candidate[0]]]
    assert commands, "a file that no command reads"
    for command in commands:
        # `reproduce` takes as long as a run, unless it cannot read what it needs
        is_short = damage == "cut" and path.suffix in (".json", ".yaml")
        if command[0] == "reproduce" and not (FULL or is_short):
            continue
        words = [{"RUN": run, "WHOLE": whole}.get(word, word) for word in command]
        done = run_command(*words, cwd=tmp_path)
        assert done.returncode in (0, 1, 2, 3), (command, done.stderr)
        if done.returncode == 2 and command[0] != "reproduce":  # it lists all errors of a config
            # `calibrate` counts the errors of a config in its last line
            assert ": " in done.stderr, done.stderr


@pytest.fixture(scope="module")
def with_hits(tmp_path_factory):
    """A run whose gold is a part of a document, so that it stores hits."""
    folder = tmp_path_factory.mktemp("hits")
    (folder / "docs").mkdir()
    (folder / "docs" / "d1.md").write_text("Io has volcanoes. Titan has lakes.")
    quote = {"document": "d1.md", "quote": "Titan has lakes."}
    write_jsonl(
        folder / "qa.jsonl", [{"id": "q04", "question": "Lakes?", "reference_spans": [quote]}]
    )
    paths = {"path": str(folder / "qa.jsonl"), "corpus": str(folder / "docs")}
    config = {
        "dataset": {"type": "records", **paths},
        "retrievers": {"bm25": {"type": "bm25", "chunk": {"by": "words", "size": 3}}},
        "output": str(folder / "runs"),
    }
    return rb.run_experiment(config).path


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_hits_are_one_sentence(with_hits, tmp_path, damage):
    run = shutil.copytree(with_hits, tmp_path / "damaged")
    path = run / "hits" / "bm25.jsonl"
    content = None if DAMAGES[damage] is None else DAMAGES[damage](path)
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    for words in (["show", run, "q04"], ["explain", run]):
        done = run_command(*words, cwd=tmp_path)
        assert done.returncode in (0, 2), (words, done.stderr)
        assert done.returncode == 0 or ": " in done.stderr


def test_every_file_is_here(whole):
    # The pages are written from the others; files of systems stand for one another.
    names = {str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file()}
    pages = {"report.html", "report.md", "junit.xml"}
    kinds = {name.partition("/")[0] for name in names - pages}
    assert kinds == {name.partition("/")[0] for name in FILES if (whole / name).exists()}
