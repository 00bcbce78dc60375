"""Records, a row per question: `dataset: {type: records, path: logs.jsonl, columns: {...}}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.columns import Columns, check_mapping, resolve_columns
from ragbench.data.corpus import empty_note, read_corpus
from ragbench.data.fingerprint import fingerprint_collection
from ragbench.data.given import Gathered
from ragbench.data.jsonl import Entry
from ragbench.data.passages import Passages
from ragbench.data.record_rows import RowReader
from ragbench.data.rows import is_csv, read_rows
from ragbench.data.split import parse_split, split_at_random
from ragbench.registry import Option
from ragbench.types import Collection, Document


class Records:
    """Read JSON lines, CSV or Parquet with questions, and what systems answered to them.

    Records that carry passages or answers are themselves a system, named `given`, or one for each
    value of `system`. Columns that play no part become metadata of the question.
    """

    def __init__(
        self,
        *,
        path: Annotated[
            Path,
            Option("The .jsonl, .csv or .parquet file, a row per question.", refers_to="path"),
        ],
        columns: Annotated[
            Mapping[str, str | None] | None,
            Option(
                "Which column is the id, question, contexts, answer (the system's), reference "
                "(the gold one), queries, system; null for none."
            ),
        ] = None,
        corpus: Annotated[
            Path | None,
            Option(
                "Documents for retrievers: corpus.jsonl, or a folder of .txt and .md files.",
                refers_to="path",
            ),
        ] = None,
        split: Annotated[
            Mapping[str, Any] | None,
            Option("Draw a random test set: {test: 0.2, seed: 13}."),
        ] = None,
    ) -> None:
        self._path = Path(path)
        self._corpus = None if corpus is None else Path(corpus)
        check_mapping(columns or {}, "records")
        self._columns = columns
        self._split = None if split is None else parse_split(split, "records")

    def load(self) -> Collection:
        """Read and check the records, and the corpus where there is one.

        Raises:
            DataError: What is wrong, with file, line and record.
            MissingExtra: A Parquet file without pyarrow.
        """
        documents = None if self._corpus is None else read_corpus(self._corpus)
        entries = list(read_rows(self._path, "records"))
        reader = self._reader(entries, documents or [])
        gathered = Gathered()
        for entry in entries:
            gathered.add(reader.read(entry))
        collection = Collection(
            queries=list(gathered.queries.values()),
            documents=documents,
            answers=gathered.answers,
            given={name: list(answers.values()) for name, answers in gathered.systems.items()},
            notes=_notes(entries, reader.columns, gathered, documents),
        )
        if self._split is not None:
            collection = split_at_random(collection, self._split)
        return replace(collection, fingerprints=fingerprint_collection(collection))

    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return how the first rows were read: part -> value, for `ragbench validate`."""
        documents = [] if self._corpus is None else read_corpus(self._corpus)
        entries = list(read_rows(self._path, "records"))
        reader = self._reader(entries, documents)
        return [reader.read(entry).parts(reader.columns) for entry in entries[:count]]

    def _reader(self, entries: list[Entry], documents: list[Document]) -> RowReader:
        present = list(dict.fromkeys(key for entry in entries for key in entry.values))
        columns = resolve_columns(present, self._columns, self._path)
        return RowReader(columns, Passages(documents), cells=is_csv(self._path))


def _notes(
    entries: list[Entry], columns: Columns, gathered: Gathered, documents: list[Document] | None
) -> list[str]:
    """Say how the columns were read, and what was found."""
    used = set(columns.values())
    rest = dict.fromkeys(key for entry in entries for key in entry.values if key not in used)
    notes = [f"{len(entries)} rows, {len(gathered.queries)} questions"]
    notes.append("columns: " + ", ".join(f"{part} = {name}" for part, name in columns.items()))
    if "id" not in columns:
        notes.append("ids are hashes of the questions")
    if rest:
        notes.append(f"further columns, kept as metadata: {', '.join(rest)}")
    for name, answers in gathered.systems.items():
        written = gathered.written_as[name]
        renamed = f" (written '{written}')" if written != name else ""
        notes.append(f"system {name}{renamed}: {len(answers)} of {len(gathered.queries)} questions")
    answered = [query for answers in gathered.systems.values() for query in answers]
    if len(gathered.systems) > 1 and len(answered) == len(set(answered)):
        advice = "if they answered the same ones, map id to the question's id, or to null"
        notes.append(f"no question is shared by two systems; {advice}")
    if documents is not None and (note := empty_note(documents)):
        notes.append(note)
    return notes
