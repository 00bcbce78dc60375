"""Targets of fuzzing: functions of bytes that must end with a result or a `RagbenchError`."""

from __future__ import annotations

import atexit
import csv
import json
import math
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ragbench.cli.explain import read_explanation
from ragbench.config.load import load_config
from ragbench.data.files.predictions import read_predictions
from ragbench.data.files.trec_files import read_qrels, read_run
from ragbench.data.loaders.python import collection_of
from ragbench.data.loaders.records import Records
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_list import list_runs
from ragbench.data.runs.run_scores import read_baseline, read_run_scores
from ragbench.errors import DataError, RagbenchError
from ragbench.experiment.runner import run_experiment
from ragbench.llm import CallFailure, Prices, Replies
from ragbench.llm.completions import read_reply
from ragbench.llm.error_words import error_words, is_web_page, parse_error
from ragbench.llm.failures import failure_of_body, failure_of_exception, failure_of_status
from ragbench.llm.json_reply import Unreadable, read_json
from ragbench.llm.langchain import read_usage
from ragbench.report.explanation import explanation_report
from ragbench.report.formats import FORMATS, render
from ragbench.report.query import render_query
from ragbench.score.judge.rubric import load_rubric
from ragbench.store.items import StageStore
from ragbench.types.records import Usage, add_usage

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
    # a target writes its file for each input: a disk would be most of the time
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
    # the fuzzer chooses the file by the first byte, so that coverage guides that choice too
    path = folder / RUN_FILES[(data[0] if data else 0) % len(RUN_FILES)]
    old_bytes = path.read_bytes()
    path.write_bytes(data[1:])
    try:
        for read in (read_run_scores, list_runs, explain, show):
            try:
                read(folder)
            except RagbenchError:
                continue
    finally:
        path.write_bytes(old_bytes)


def explain(folder: Path) -> None:
    """Print the causes of a run folder."""
    report = explanation_report(read_explanation(folder, None, None))
    for name in FORMATS:
        render(report, name)


def show(folder: Path) -> None:
    """Print a query of a run folder."""
    views = QueryViews(folder)
    render_query(views[views.find("a?")], systems=(), hits=10, width=100, prompts=views)


def replies(path: Path) -> None:
    """Open a store of replies, and look for one."""
    # SQLite leaves logs and set-aside files, which the next input would meet
    for file in path.parent.glob(f"{path.name}*"):
        if file != path:
            file.unlink() if file.is_file() else None
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


def cells(data: bytes) -> None:
    """Read a ranking and its gold from two cells, which a NUL parts, at three doors alike."""
    retrieved, _, relevant = data.decode("utf-8", "replace").partition("\0")
    # no CSV file holds a NUL
    relevant = relevant.replace("\0", "")
    row = {"question": "Where?", "retrieved": retrieved, "relevant": relevant or retrieved}
    (workplace() / "cells.json").write_text(json.dumps([row]), encoding="utf-8")
    with open(workplace() / "cells.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, row, quoting=csv.QUOTE_ALL)
        table.writeheader()
        table.writerow(row)
    ids = ids_of([row])
    for name in ("cells.json", "cells.csv"):
        assert ids_of(workplace() / name) == ids, name
    if ids is not None:
        ranking, gold = ids
        # what was read from free text must mean the same when it is written as a list
        again = {**row, "retrieved": json.dumps(ranking), "relevant": json.dumps(gold)}
        assert ids_of([again]) == ids, "a JSON list of the ids"


def ids_of(table: Any) -> tuple[list[str], list[str]] | None:
    """Return the ranking and the gold of a table with one question; None if it is refused."""
    try:
        collection = collection_of(table)
    except DataError:
        return None
    answered = [answer for answers in collection.recorded_answers.values() for answer in answers]
    ranking = [hit.id for answer in answered for hit in answer.contexts or ()]
    gold = {} if collection.qrels is None else collection.qrels.to_dict()
    return ranking, [name for grades in gold.values() for name in grades]


COUNTS = (
    None,
    0,
    1,
    7,
    -3,
    2**53,
    2**60,
    1.5,
    math.nan,
    True,
    "12",
    [],
    {},
    {"reasoning_tokens": 9},
)
COUNT_NAMES = (
    *("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens"),
    *("completion_tokens_details", "prompt_tokens_details", "input_token_details"),
    *("output_token_details", "reasoning_tokens", "cached_tokens", "promptTokenCount"),
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
)


def usage(data: bytes) -> None:
    """Read the usage of a reply, from JSON or from pairs of bytes: a name and a count."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        # random bytes are hardly ever JSON: in pairs each of them is a name and a count
        pairs = zip(data[::2], data[1::2], strict=False)
        value = {
            COUNT_NAMES[name % len(COUNT_NAMES)]: COUNTS[count % len(COUNTS)]
            for name, count in pairs
        }
    reply = {"choices": [{"message": {"content": "x"}}], "usage": value}
    check_usage(read_reply(reply).usage)
    if isinstance(value, Mapping):
        check_usage(read_usage(value))


def check_usage(read: Usage) -> None:
    """Check that counts are whole, at least 0, and no part is larger than its sum."""
    counts = (read.input_tokens, read.output_tokens)
    assert all(count is None or (type(count) is int and count >= 0) for count in counts)
    parts = ((read.reasoning_tokens, read.output_tokens), (read.cached_tokens, read.input_tokens))
    for part, count in parts:
        assert part >= 0
        assert count is None or part <= count
    twice = add_usage([read, read])
    assert twice.output_tokens is None or twice.output_tokens == 2 * (read.output_tokens or 0)
    cost = Prices.load().cost_usd("gpt-4o-mini", read)
    assert cost is None or 0 <= cost < math.inf


class ClientError(Exception):
    """An error of a client library, with the status and the body of a response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text[:100])
        self.status_code, self.body = status, text
        self.response = type("Response", (), {"text": text, "headers": {"retry-after": text[:40]}})


def error_body(data: bytes) -> None:
    """Read the body of an error, whose status the first byte names, as each client gets it."""
    status = 400 + (data[0] if data else 0) % 200
    text = data[1:].decode("utf-8", "replace")
    body = parse_error(text)
    failures = [
        failure_of_body(body),
        failure_of_status(status, error_words(body), headers={}),
        failure_of_exception(ClientError(status, text)),
    ]
    is_web_page(text)
    for failure in failures:
        assert len(failure.detail.splitlines()) <= 1
        assert len(failure.detail) < 1_000
    with suppress(CallFailure):
        read_reply(text)


# Name -> what is done with bytes.
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
    "cells": cells,
    "usage": usage,
    "error_body": error_body,
}


def try_one(name: str, data: bytes) -> None:
    """Give a target its bytes; what is raised beyond an error of ours is a finding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(RagbenchError, CallFailure, Unreadable):
            TARGETS[name](data)
