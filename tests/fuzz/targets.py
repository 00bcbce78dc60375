"""What is fuzzed: functions of bytes that must end, with a result or a `RagbenchError`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from ragbench.cli.report import _read_explanation
from ragbench.config.load import load_config
from ragbench.data.files.predictions import read_predictions
from ragbench.data.files.trec_files import read_qrels, read_run
from ragbench.data.loaders.records import Records
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_list import list_runs
from ragbench.data.runs.run_scores import read_baseline, read_run_scores
from ragbench.errors import RagbenchError
from ragbench.experiment.runner import run_experiment
from ragbench.llm import CallFailure, Replies
from ragbench.llm.json_reply import Unreadable, read_json
from ragbench.report.explanation import render_table
from ragbench.report.query import render_query
from ragbench.score.judge.rubric import load_rubric
from ragbench.store.items import StageStore

Target = Callable[[bytes], None]
SCHEMA = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "claims": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["score"],
    "additionalProperties": False,
}
RUN_FILES = (
    *("summary.json", "manifest.json", "comparisons.json", "per_query.csv", "costs.csv"),
    *("fingerprints.csv", "causes.csv", "unscored.jsonl", "config.yaml", "questions.jsonl"),
)


@cache
def workplace() -> Path:
    """A folder for the files of a process, in memory where the system has such a place."""
    atexit.register(clear)
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))


def clear() -> None:
    """Remove the files of this process."""
    shutil.rmtree(workplace(), ignore_errors=True)


def in_file(name: str, read: Callable[[Path], object]) -> Target:
    """A target that reads a file of the given name."""

    def target(data: bytes) -> None:
        path = workplace() / name
        path.write_bytes(data)
        read(path)

    return target


@cache
def whole_run() -> Path:
    """A run folder, each of whose files a target replaces."""
    home = workplace()
    (home / "qa.jsonl").write_text('{"question": "a?", "answer": "b c", "reference": "b"}\n')
    config = {"dataset": {"type": "records", "path": str(home / "qa.jsonl")}}
    paths = {"output": str(home / "runs"), "cache": str(home / "cache")}
    return run_experiment({**config, **paths, "metrics": {"generation": ["token_f1"]}}).path


def in_run_folder(data: bytes) -> None:
    """Replace the file that the first byte names, and read the folder in every way."""
    folder = whole_run()
    path = folder / RUN_FILES[(data[0] if data else 0) % len(RUN_FILES)]
    before = path.read_bytes()
    path.write_bytes(data[1:])
    try:
        for read in (read_run_scores, list_runs, explain, show):
            try:
                read(folder)
            except RagbenchError:
                continue
    finally:
        path.write_bytes(before)


def explain(folder: Path) -> None:
    """Print the causes of a run folder."""
    render_table(_read_explanation(folder, None, None))


def show(folder: Path) -> None:
    """Print a query of a run folder."""
    views = QueryViews(folder)
    render_query(views[views.find("a?")], systems=(), hits=10, width=100, prompts=views)


def replies(path: Path) -> None:
    """Open a store of replies, and look for one."""
    for left in path.parent.glob(f"{path.name}*"):
        if left != path:
            left.unlink() if left.is_file() else None
    with_store = Replies(path)
    try:
        with_store.get("0" * 64)
    finally:
        with_store.close()


def stage(path: Path) -> None:
    """Open the items of a stage, and look for one."""
    store = StageStore(path.parent)
    try:
        store.items("retrieve", "bm25", "k").get("q1")
    finally:
        store.close()


TARGETS: dict[str, Target] = {
    "yaml": in_file("c.yaml", load_config),
    "rubric": in_file("r.yaml", load_rubric),
    "run": in_file("run.trec", read_run),
    "qrels": in_file("qrels.txt", read_qrels),
    "jsonl": in_file("q.jsonl", lambda path: Records(path=path).load()),
    "csv": in_file("q.csv", lambda path: Records(path=path).load()),
    "parquet": in_file("q.parquet", lambda path: Records(path=path).load()),
    "predictions": in_file("p.jsonl", read_predictions),
    "reply": lambda data: read_json(data.decode("utf-8", "replace"), SCHEMA),
    "baseline": in_file("b.json", read_baseline),
    "run_folder": in_run_folder,
    "stage": in_file("cache.sqlite", stage),
    "replies": in_file("replies.sqlite", replies),
}
"""Name -> what is done with bytes."""


def try_one(name: str, data: bytes) -> None:
    """Give a target its bytes; what is raised beyond an error of ours is a finding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(RagbenchError, CallFailure, Unreadable):
            TARGETS[name](data)
