"""Exported traces: `dataset: {type: traces, path: export.jsonl}`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from ragbench.data.files.columns import Named
from ragbench.data.files.corpus import Corpus, read_corpus
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.rows import Entry, is_csv, parse_json, read_json_array, read_rows
from ragbench.data.loaders.base import Previewed, SplitOption, finished, parse_split
from ragbench.data.loaders.records import RecordTable
from ragbench.data.traces import exports
from ragbench.data.traces.collected import Hops, ReadTraces
from ragbench.data.traces.roles import Reading
from ragbench.data.traces.spans import Json, Kind, Span, tell_format
from ragbench.errors import DataError, OptionError
from ragbench.registry import Option, nearest
from ragbench.types import Collection, Document, Qrels, Query, ToolCall

Format = Literal["auto", "openinference", "otlp", "langfuse", "langsmith", "mlflow"]
_READERS: Mapping[str, Callable[[Iterable[Entry]], Iterator[Span]]] = {
    "openinference": exports.read_rows_of_spans,
    "otlp": exports.read_otlp,
    "langfuse": exports.read_langfuse,
    "langsmith": exports.read_langsmith,
    "mlflow": exports.read_mlflow,
}


@dataclass(frozen=True, kw_only=True)
class TracesOptions:
    """What traces are read with."""

    path: Annotated[Path, Option("The .jsonl, .json, .csv or .parquet export.", refers_to="path")]
    format: Annotated[Format, Option("The tool that wrote it; auto tells it by the keys.")] = "auto"
    kinds: Annotated[
        Mapping[str, Kind] | None,
        Option("What a step is by its name, where its kind does not say it: {rerank: reranker}."),
    ] = None
    question: Annotated[
        str | None, Option("Path of the question in the input of the outermost step.")
    ] = None
    answer: Annotated[
        str | None, Option("Path of the answer in the output of the outermost step.")
    ] = None
    id_field: Annotated[
        str | None, Option("Metadata key of passages with the ids that the judgements use.")
    ] = None
    hops: Annotated[Hops, Option("Whether each retrieval of a trace is scored by itself, too.")] = (
        "apart"
    )
    gold: Annotated[
        Path | None, Option("Records with gold by id of trace or by question.", refers_to="path")
    ] = None
    columns: Annotated[
        Mapping[str, str | list[str] | None] | None,
        Option("Which column of `gold` plays which part, as in records."),
    ] = None
    corpus: Annotated[
        Path | None,
        Option(
            "Documents, as in records; passages without a text are found by id.", refers_to="path"
        ),
    ] = None
    split: SplitOption = None


class Traces(Previewed):
    """Read traces of OpenTelemetry, OpenInference (Phoenix), Langfuse, LangSmith or MLflow.

    A trace is a question with the answer and the passages of its retrievers, which are found by the
    kinds of spans. What was answered is the system `given`; where traces have several retrievals or
    a reranker, `given-union` has the passages of all retrievals, and `given-hop-1`, `given-hop-2`
    those of each. Earlier traces of a session are the turns before a question. A failed call is a
    failed answer with its cause; a trace whose parts are not clear is left out and counted.
    """

    declares = TracesOptions

    def __init__(self, **options: Any) -> None:
        self._options = TracesOptions(**options)
        self._drawn = parse_split(self._options.split, "traces")

    def load(self) -> Collection:
        """Read the spans, and put each trace together."""
        read, chosen = self._read(), self._options
        gold = read_gold(chosen.gold, chosen.columns, read.corpus, read.queries)
        return finished(
            Collection(
                queries=read.queries,
                documents=None if read.corpus is None else read.corpus.documents,
                qrels=gold.qrels,
                gold_passages=gold.passages,
                gold_places=gold.places,
                answers=gold.answers,
                expected_tool_calls=gold.expected,
                given=read.systems(chosen.hops),
                notes=[*read.notes(), *gold.notes],
                warnings=[*read.warnings(), *gold.warnings],
            ),
            self._drawn,
        )

    def preview(self, count: int = 2) -> list[dict[str, Json]]:
        """Return how the first traces were read."""
        return self._read().preview(count)

    def _read(self) -> ReadTraces:
        chosen, path = self._options, Path(self._options.path)
        entries = list(read_export(path))
        told = tell_format(entries[0].values) if chosen.format == "auto" else chosen.format
        if told is None:
            shown = ", ".join(list(entries[0].values)[:8])
            formats = ", ".join(get_args(Format)[1:])
            raise entries[0].error(f"no spans (keys: {shown})", allowed=f"an export of {formats}")
        spans = list(_READERS[told](entries))
        present = list(dict.fromkeys(span.name for span in spans))
        for name in chosen.kinds or ():
            if name not in present:
                found, shown = f"kinds: no step is named '{name}'", ", ".join(present[:20])
                raise DataError(found, file=path, allowed=shown, nearest=nearest(name, present))
        corpus = None if chosen.corpus is None else read_corpus(Path(chosen.corpus))
        reading = Reading(
            question=chosen.question,
            answer=chosen.answer,
            id_field=chosen.id_field,
            kinds=chosen.kinds or {},
            corpus={d.id: d for d in ([] if corpus is None else corpus.documents)},
        )
        read = ReadTraces(told, reading, spans, corpus)
        read.read()
        if not read.traces:
            causes = "; ".join(read.warnings()) or "the file has no spans"
            raise DataError(f"no trace can be read: {causes}", file=path)
        return read


def read_export(path: Path) -> Iterator[Entry]:
    """Yield the objects of an export; a JSON file may be one object, or one with a list `data`."""
    if plain_suffix(path) != ".json":
        return read_rows(path, "traces")
    text = "".join(line for _, line in text_lines(path))
    if not text.lstrip().startswith("{"):
        return read_json_array(path)
    try:
        whole = parse_json(text)
    except ValueError as error:
        allowed = "one object or an array of objects; JSON lines are named .jsonl"
        raise DataError(str(error), file=path, allowed=allowed) from error
    listed = whole.get("data")
    if not isinstance(listed, list):
        return iter([Entry(str(path), None, whole, record="the object")])
    items = [each for each in listed if isinstance(each, dict)]
    return iter(Entry(str(path), None, row, f"item {n}") for n, row in enumerate(items, start=1))


@dataclass(frozen=True, slots=True)
class TraceGold:
    """What is known to be right, by trace."""

    qrels: Qrels | None = None
    answers: Mapping[str, list[str]] = field(default_factory=dict)
    expected: Mapping[str, tuple[ToolCall, ...]] = field(default_factory=dict)
    passages: Mapping[str, Document] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_gold(
    path: Path | None, columns: Named | None, corpus: Corpus | None, queries: Sequence[Query]
) -> TraceGold:
    """Read a table of gold, and give each trace its row.

    Raises:
        DataError: No trace asks a question of the table.
        OptionError: `columns` without a table.
    """
    if path is None:
        if columns:
            raise OptionError("traces", "columns", dict(columns), "columns of `gold`, a file")
        return TraceGold()
    path = Path(path)
    entries = list(read_rows(path, "traces"))
    table = RecordTable(entries, columns=columns, corpus=corpus, file=path, cells=is_csv(path))
    found = table.collection()
    by_name = {query.id: query.id for query in found.queries}
    by_text = {_folded(query.text): query.id for query in found.queries}
    rows = {q.id: by_name.get(q.id) or by_text.get(_folded(q.text)) for q in queries}
    known = {query: row for query, row in rows.items() if row is not None}
    if not known:
        allowed = "the questions as the traces have them, or the ids of traces"
        raise DataError("no trace asks a question of this table", file=path, allowed=allowed)
    grades = {} if found.qrels is None else found.qrels.to_dict()
    judged = {query: grades[row] for query, row in known.items() if row in grades}
    unasked = len(found.queries) - len(set(known.values()))
    note = f"gold of {len(known)} of {len(queries)} traces by {path.name}"
    note += f"; {unasked} of its questions are in no trace" if unasked else ""
    return TraceGold(
        qrels=Qrels.from_dict(judged) if judged else None,
        answers={q: found.answers[row] for q, row in known.items() if row in found.answers},
        expected={
            q: found.expected_tool_calls[row]
            for q, row in known.items()
            if row in found.expected_tool_calls
        },
        passages=found.gold_passages,
        places=found.gold_places,
        notes=[note],
        warnings=found.warnings,
    )


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
