"""Data set folders in the BEIR layout: `dataset: {type: beir, path: ..., split: test}`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files.collection import check_unique, corpus_notes, read_documents, read_queries
from ragbench.data.files.fields import counted
from ragbench.data.files.judgements import (
    QrelsTable,
    merge_judgements,
    read_judgements,
    unknown_query,
)
from ragbench.data.files.lines import find_file
from ragbench.data.files.rows import Entry, read_jsonl
from ragbench.data.loaders.base import CorpusReader, finish_collection, parse_split
from ragbench.errors import DataError
from ragbench.records.codec import kind
from ragbench.registry import Option, nearest
from ragbench.types import Collection, Query

_TEST = "test"


class Beir(CorpusReader):
    """Read a folder with corpus, queries, qrels and, where it has them, gold answers.

    The files are `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv` and `answers.jsonl`, plain
    or `.gz`. Queries that the split does not judge are left out and counted. A folder without
    judgements but with answers is read with all its queries; one without a corpus serves stored
    rankings.
    """

    def __init__(
        self,
        *,
        path: Annotated[Path, Option("The folder.", refers_to="path")],
        split: Annotated[
            str | Mapping[str, Any],
            Option("The split that is scored; {test: 0.2, seed: 13} draws one if there is none."),
        ] = _TEST,
    ) -> None:
        self._path = Path(path)
        self._name = split if isinstance(split, str) else None
        self._random = None if isinstance(split, str) else parse_split(split, "beir")

    def load(self) -> Collection:
        """Read and check the folder."""
        if not os.path.isdir(self._path):
            found = "a file, expected a folder" if os.path.exists(self._path) else "no such folder"
            raise DataError(found, file=self._path)
        if (file := find_file(self._path, "queries.jsonl")) is None:
            present = ", ".join(sorted(entry.name for entry in self._path.iterdir())) or "nothing"
            raise DataError(f"no queries.jsonl (the folder has {present})", file=self._path)
        queries = read_queries(file)
        corpus = find_file(self._path, "corpus.jsonl")
        documents = None
        if corpus is not None:
            name = Path(corpus.name)
            documents, _ = self.load_packed(self._path, [name], lambda odd: read_documents(corpus))
        judgements = self._judgements(queries)
        notes = corpus_notes(documents, "no corpus.jsonl: only stored rankings can be scored")
        judged = queries
        if judgements is None:
            notes.append("no judgements: all queries are taken")
        else:
            judged = [query for query in queries if query.id in judgements.grades]
            if n := len(queries) - len(judged):
                notes.append(f"{counted(n, 'query')} without a judgement in the split left out")
            notes += judgements.notes()
        answers_file = find_file(self._path, "answers.jsonl")
        answers = read_answers(answers_file, queries) if answers_file else {}
        kept = {query.id for query in judged}
        collection = Collection(
            queries=judged,
            documents=documents,
            qrels=None if judgements is None else judgements.qrels(),
            answers={query: gold for query, gold in answers.items() if query in kept},
            notes=notes,
        )
        return finish_collection(collection, self._random)

    def _judgements(self, queries: list[Query]) -> QrelsTable | None:
        """The judgements of the split, every query of them known; None where there are none."""
        parts = [read_judgements(path, beir=True) for path in self._qrels_files()]
        for part in parts:
            part.require_queries((query.id for query in queries), "queries.jsonl")
        return merge_judgements(parts) if parts else None

    def _qrels_files(self) -> list[Path]:
        """The files of the split: one, all for a random split, none where answers do."""
        folder = self._path / "qrels"
        # partition: `test.tsv.gz` is the split `test` as well
        splits = sorted({path.name.partition(".tsv")[0] for path in folder.glob("*.tsv*")})
        found = {name: path for name in splits if (path := find_file(folder, f"{name}.tsv"))}
        if not found and find_file(self._path, "answers.jsonl"):
            return []
        if self._name is None and found:
            if _TEST in found:
                what = "a random split of a data set that has a test set"
                allowed = "split: test, or --limit for a sample of it"
                raise DataError(what, file=found[_TEST], allowed=allowed)
            return list(found.values())
        if self._name is not None and self._name in found:
            return [found[self._name]]
        wanted = f"qrels/{self._name or '<split>'}.tsv"
        close = nearest(self._name or "", found)
        note = "" if found else " and no answers.jsonl: nothing to score against"
        raise DataError(
            f"no {wanted}{note}", file=self._path, allowed=", ".join(found) or None, nearest=close
        )


def read_answers(path: Path, queries: Sequence[Query]) -> dict[str, list[str]]:
    """Read gold answers by query id; a query with an empty list has none."""
    answers: dict[str, list[str]] = {}
    seen: dict[str, Entry] = {}
    for entry in read_jsonl(path):
        query_id = entry.id("query_id")
        check_unique(query_id, "query_id", entry, seen)
        answers[query_id] = _texts(entry)
    known = {query.id for query in queries}
    missing = [(entry.line or 0, name) for name, entry in seen.items() if name not in known]
    if missing:
        raise unknown_query(str(path), missing, known, "queries.jsonl")
    return {query_id: gold for query_id, gold in answers.items() if gold}


def _texts(entry: Entry) -> list[str]:
    value = entry.field("answers")
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise entry.error(f"'answers' is {kind(value)}", allowed="a list of texts")
    for position, text in enumerate(value, start=1):
        if not isinstance(text, str):
            raise entry.error(f"answer {position} is {kind(text)}", allowed="text")
    return value
