"""Data set folders in the BEIR layout: `dataset: {type: beir, path: ..., split: test}`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files.collection import (
    check_unique,
    corpus_notes,
    id_key,
    read_documents,
    read_queries,
)
from ragbench.data.files.fields import counted
from ragbench.data.files.judgements import (
    QrelsTable,
    judgements_of_rows,
    merge_judgements,
    read_judgements,
    unknown_query,
)
from ragbench.data.files.lines import find_file, plain_suffix
from ragbench.data.files.rows import Entry, read_jsonl
from ragbench.data.files.tables import find_table, find_tables, read_all_splits, read_table
from ragbench.data.loaders import base
from ragbench.errors import DataError
from ragbench.files import names_in
from ragbench.registry import Option, nearest, quote
from ragbench.types import Collection, Query
from ragbench.types.documents import record_ids
from ragbench.types.lookups import is_list_of, omit_empty, select_keys

_TEST = "test"
# Folders of the judgements, of BEIR and of mteb
_QRELS = ("qrels", "default", "data")


class Beir(base.Located):
    """Loader of a folder in the layout of BEIR: corpus, queries, qrels and optional gold answers.

    The files are `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv` and `answers.jsonl`, plain or
    `.gz`; or, as mteb publishes them, tables of any format and folders of tables (`corpus/`,
    `queries/`, `qrels/`, `data/` or `default/`). Queries that the split does not judge are left out
    and counted. A folder without judgements but with answers is read with all its queries; a folder
    without a corpus is enough to score stored rankings.
    `Beir(path="data/scifact")` raises OptionError for a wrong `split`. The
    files are read by `load`, which raises a DataError for a missing file or split and a wrong line.
    """

    def __init__(
        self,
        *,
        path: Annotated[Path, Option("The folder.", refers_to="path")],
        split: Annotated[
            str | Mapping[str, Any],
            Option(
                "The split that is scored; {test: 0.2, seed: 13} draws one from a folder "
                "without splits."
            ),
        ] = _TEST,
    ) -> None:
        self._path = Path(path)
        self._name = split if isinstance(split, str) else None
        self._random = None if isinstance(split, str) else base.parse_split(split, "beir")

    def load(self) -> Collection:
        """Return the data set of the folder.

        Queries are in the order of `queries.jsonl`, those without a judgement left out; without
        judgements `qrels` is None, and without a corpus `documents` is None. The notes name both.

        Raises:
            DataError: A file is missing or exists twice, the split does not exist, a line is wrong,
                or judgements contradict each other.
        """
        if not os.path.isdir(self._path):
            fault = "a file, expected a folder" if os.path.exists(self._path) else "no such folder"
            raise DataError(fault, file=self._path)
        if (file := find_table(self._path, "queries")) is None:
            # the message lists the folder, so that a file under another name is seen
            present = ", ".join(names_in(self._path)) or "nothing"
            problem = f"no queries.jsonl (the folder has {present})"
            allowed = "a folder of BEIR: queries.jsonl, corpus.jsonl, qrels/"
            raise DataError(problem, file=self._path, allowed=allowed)
        queries = read_queries(file, self._name)
        corpus = find_table(self._path, "corpus")
        # no corpus is enough for stored rankings, which have ids alone
        documents = None
        if corpus is not None:
            documents = list(read_documents(corpus, self._name))
        query_ids = record_ids(queries)
        judgements = self._judgements(query_ids)
        notes = corpus_notes(documents, "no corpus.jsonl: only stored rankings can be scored")
        judged = queries
        if judgements is None:
            notes.append("no judgements: all queries are taken")
        else:
            judged = []
            for query in queries:
                if query.id in judgements.grades:
                    judged.append(query)
            if n := len(queries) - len(judged):
                notes.append(f"{counted(n, 'query')} without a judgement in the split left out")
            notes += judgements.notes()
        answers_file = find_file(self._path, "answers.jsonl")
        answers = read_answers(answers_file, query_ids) if answers_file else {}
        collection = Collection(
            queries=judged,
            documents=documents,
            qrels=None if judgements is None else judgements.qrels(),
            # queries outside of the split have answers, too
            answers=select_keys(answers, set(record_ids(judged))),
            notes=notes,
        )
        return base.finish_collection(collection, self._random)

    def places(self) -> base.Places:
        """Return the places of questions, judgements and gold answers, and the other splits.

        A query in several splits is in the list of each of them. The files are read again. Raises
        DataError if the split has no file, a line is wrong, or both a file and its .gz exist.
        """
        file = find_table(self._path, "queries")
        answers_file = find_file(self._path, "answers.jsonl")
        queries = list(read_all_splits(file, "queries", self._name)) if file else []
        answers = list(read_jsonl(answers_file)) if answers_file else []
        texts, questions = {}, {}
        for entry in queries:
            name = entry.id(id_key(entry))
            texts[name], questions[name] = entry.text("text"), entry.file_place
        chosen = self._qrels_files()
        judgements: dict[tuple[str, str], str] = {}
        for part in map(_read_split, chosen):
            for pair, line in part.lines.items():
                judgements[pair] = f"{part.file}:{line}"
        other_splits = {}
        for files in self.splits().values():
            if files not in chosen:
                part = _read_split(files)
                of_split = []
                for name in part.grades:
                    if name in texts:
                        of_split.append(Query(name, texts[name]))
                other_splits[Path(part.file).name] = of_split
        return base.Places(
            questions,
            judgements,
            {entry.id("query_id"): f"{entry.file}:{entry.line}" for entry in answers},
            other_splits,
        )

    def splits(self) -> dict[str, Sequence[Path]]:
        """Return the files with the judgements of each split, by name; {} without judgements."""
        for name in _QRELS:
            folder = self._path / name
            if folder.is_dir() and (tables := find_tables(folder)):
                return dict(tables)
        return {}

    def _judgements(self, query_ids: Sequence[str]) -> QrelsTable | None:
        """Return the judgements of the split, checked against the queries."""
        parts = list(map(_read_split, self._qrels_files()))
        for part in parts:
            part.require_queries(query_ids, "queries.jsonl")
        return merge_judgements(parts) if parts else None

    def _qrels_files(self) -> list[Sequence[Path]]:
        """Return the files with the judgements of the split."""
        files = self.splits()
        # gold answers alone are enough to score generated answers
        if not files and find_file(self._path, "answers.jsonl"):
            return []
        if self._name is None and files:
            # numbers on a random part are not comparable with published ones on the test set
            if _TEST in files:
                problem = "a random split of a data set that has a test set"
                allowed = "split: test, or --limit for a sample of it"
                raise DataError(problem, file=files[_TEST][0], allowed=allowed)
            return list(files.values())
        if self._name is not None and self._name in files:
            return [files[self._name]]
        file_name = f"qrels/{self._name or '<split>'}.tsv"
        close = nearest(self._name or "", files)
        note = "" if files else " and no answers.jsonl: nothing to score against"
        names = ", ".join(files) or None
        raise DataError(f"no {file_name}{note}", file=self._path, allowed=names, nearest=close)


def is_beir(folder: Path) -> bool:
    """Return True for a folder with a table of queries, and for one without any table."""
    return find_table(folder, "queries") is not None or not find_tables(folder)


def _read_split(files: Sequence[Path]) -> QrelsTable:
    """Return the judgements of a split; `files` is not empty."""
    if len(files) == 1 and plain_suffix(files[0]) == ".tsv":
        # whether or not it has the header
        return read_judgements(files[0], beir=True)
    rows = chain.from_iterable(read_table(path, "judgements") for path in files)
    return judgements_of_rows(rows, str(files[0]))


def read_answers(path: Path, query_ids: Sequence[str]) -> dict[str, list[str]]:
    """Read `answers.jsonl` as query -> gold answers; queries with an empty list are left out.

    The order is that of the lines. A text instead of a list is one answer.

    Raises:
        DataError: The file cannot be read, or a line is wrong or has no query of `query_ids`.
    """
    answers: dict[str, list[str]] = {}
    entries: dict[str, Entry] = {}
    for entry in read_jsonl(path):
        query_id = entry.id("query_id")
        check_unique(query_id, "query_id", entry, entries)
        value = entry.field("answers")
        texts = [value] if isinstance(value, str) else value
        if not is_list_of(texts, str):
            raise entry.error(f"'answers' is {quote(value)}", allowed="a list of texts")
        answers[query_id] = texts
    names = set(query_ids)
    missing = []
    for name, entry in entries.items():
        if name not in names:
            missing.append((entry.line or 0, name))
    if missing:
        raise unknown_query(str(path), missing, names, "queries.jsonl")
    return omit_empty(answers)
