"""Exported traces: `dataset: {type: traces, path: export.jsonl}`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from ragbench.data.files.collection import Corpus, read_corpus
from ragbench.data.files.columns import PartMap
from ragbench.data.files.fields import counted
from ragbench.data.files.lines import plain_suffix
from ragbench.data.files.rows import (
    Entry,
    array_entries,
    encode_spaces,
    is_csv,
    read_json,
    read_rows,
)
from ragbench.data.loaders.base import Previewed, SplitOption, finish_collection, parse_split
from ragbench.data.loaders.questions import DEFAULT_SYSTEM
from ragbench.data.loaders.records import RecordTable
from ragbench.data.traces.exports import READERS
from ragbench.data.traces.roles import Reading, Traced, Unclear, read_trace
from ragbench.data.traces.spans import Json, Kind, Span, tell_format
from ragbench.data.traces.values import documents_in
from ragbench.errors import DataError, OptionError
from ragbench.registry import Option, nearest
from ragbench.types import Answered, Collection, Qrels, Query, Turn

# Whether each retrieval of a trace is a system of its own, too.
Hops = Literal["apart", "joined"]
_SHOWN = 3
Value = TypeVar("Value")

Format = Literal["auto", "openinference", "otlp", "langfuse", "langsmith", "mlflow"]


@dataclass(slots=True)
class ReadTraces:
    """The traces of a file: those that are clear, and why the others are not.

    Attributes:
        unclear: Cause -> ids of traces.
        turns: Id of a trace -> what was said before.
        unordered: Traces of sessions whose order is not known.
    """

    format: str
    reading: Reading
    spans: list[Span]
    corpus: Corpus | None
    traces: list[Traced] = field(default_factory=list)
    unclear: dict[str, list[str]] = field(default_factory=dict)
    turns: dict[str, tuple[Turn, ...]] = field(default_factory=dict)
    unordered: int = 0

    def read(self) -> None:
        """Put each trace together, and each session."""
        groups: dict[str, list[Span]] = {}
        for span in self.spans:
            groups.setdefault(span.trace, []).append(span)
        for spans in groups.values():
            try:
                self.traces.append(read_trace(spans, self.reading))
            except Unclear as cause:
                self.unclear.setdefault(str(cause), []).append(spans[0].trace)
        for trace in self.traces:
            self.turns[trace.id] = self._before(trace)

    def _before(self, trace: Traced) -> tuple[Turn, ...]:
        """Return the turns before a question: of its own input, or else of earlier traces."""
        if trace.turns or trace.session is None:
            return trace.turns
        session = [other for other in self.traces if other.session == trace.session]
        timed = [(other.start, other) for other in session if other.start is not None]
        if len(timed) < len(session) or trace.start is None:
            # the only trace of a session needs no order
            self.unordered += len(session) > 1
            return ()
        turns: list[Turn] = []
        for start, earlier in sorted(timed, key=lambda pair: pair[0]):
            # strictly: the trace itself is in its session
            if start < trace.start and earlier.answer is not None:
                texts = tuple(passage.full_text for passage in earlier.passages or ())
                turns.append(Turn("user", earlier.question))
                turns.append(Turn("assistant", earlier.answer, texts))
        return tuple(turns)

    @property
    def queries(self) -> list[Query]:
        """The question of each trace, with the id of the trace."""
        return [
            Query(_id(trace), trace.question, _metadata(trace), self.turns[trace.id])
            for trace in self.traces
        ]

    def systems(self, hops: Hops) -> dict[str, list[Answered]]:
        """Return system -> the answers and passages of the traces."""
        # where no trace has a tool, it is not known whether they were recorded
        has_tools = any(trace.tool_calls for trace in self.traces)
        systems = {
            DEFAULT_SYSTEM: [
                Answered(
                    _id(trace),
                    trace.answer,
                    trace.passages,
                    trace.queries,
                    trace.tool_calls if has_tools else None,
                    error=trace.error,
                    usage=trace.usage,
                    latency_ms=trace.latency_ms,
                )
                for trace in self.traces
            ]
        }
        most = max(len(trace.retrievals) for trace in self.traces)
        is_single = most < 2 and not any(trace.is_reranked for trace in self.traces)
        if hops == "joined" or is_single:
            return systems
        # hop 0 is the union of all
        for hop in range(most + 1):
            name = f"{DEFAULT_SYSTEM}-hop-{hop}" if hop else f"{DEFAULT_SYSTEM}-union"
            answers = (_answer_of_hop(trace, hop) for trace in self.traces)
            systems[name] = [answer for answer in answers if answer is not None]
        return systems

    def notes(self) -> list[str]:
        """Say how the file was read, in sentences."""
        kinds = Counter(self.reading.kind(span) for span in self.spans)
        listed = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        whole = len(self.traces) + sum(map(len, self.unclear.values()))
        spans = f"{counted(len(self.spans), 'span')} ({listed})"
        notes = [f"read as {self.format}: {counted(whole, 'trace')}, {spans}"]
        for kind in ("retriever", "reranker"):
            names = Counter(s.name for s in self.spans if self.reading.kind(s) == kind)
            notes += _counts(f"{kind}s", names)
        hops = sorted(Counter(len(trace.retrievals) for trace in self.traces).items())
        shares = ", ".join(f"{counted(n, 'trace')} with {hop}" for hop, n in hops)
        notes.append(f"retrievals: {shares}")
        facts = {
            "tokens": sum(trace.usage.input_tokens is not None for trace in self.traces),
            "cost": sum(trace.usage.usd is not None for trace in self.traces),
            "time": sum(trace.latency_ms is not None for trace in self.traces),
        }
        n = len(self.traces)
        notes.append("known: " + ", ".join(f"{fact} of {k} of {n}" for fact, k in facts.items()))
        notes += _counts("models", Counter(m for trace in self.traces for m in trace.models))
        later = [trace for trace in self.traces if self.turns[trace.id]]
        if later:
            sessions = {trace.session for trace in later if trace.session and not trace.turns}
            suffix = f" (of {counted(len(sessions), 'session')})" if sessions else ""
            notes.append(f"{counted(len(later), 'question')} after earlier turns{suffix}")
        errors = Counter(trace.error for trace in self.traces if trace.error is not None)
        for error, number in errors.most_common(_SHOWN):
            notes.append(f"failed calls: {number}: {error}")
        if renamed := sum(trace.renamed for trace in self.traces):
            advice = "match: {level: document, id: metadata.document_id} counts them as one"
            notes.append(f"{counted(renamed, 'passage')} with the id of another passage; {advice}")
        return [*notes, *(self.corpus.notes if self.corpus else [])]

    def warnings(self) -> list[str]:
        """Name the traces that are left out, and steps that may be retrievals, in sentences."""
        warnings = []
        for cause, ids in self.unclear.items():
            shown = ", ".join(ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")
            verb = "is" if len(ids) == 1 else "are"
            warnings.append(f"{counted(len(ids), 'trace')} {verb} left out: {cause} ({shown})")
        returning = Counter(
            (span.name, span.kind) for span in self.spans if self._returns_passages(span)
        )
        for (name, kind), number in returning.most_common(_SHOWN):
            warnings.append(
                f"'{name}' ({kind}, {number} times) returns passages, but is no retriever by its "
                f"kind: if it is one, say kinds: {{{name}: retriever}}, or reranker"
            )
        if self.unordered:
            what = f"{counted(self.unordered, 'trace')} of sessions without times"
            warnings.append(f"{what}: their order is not known, and they have no earlier turns")
        return warnings

    def _returns_passages(self, span: Span) -> bool:
        """Return True if a step inside a trace returns passages alone, and is no retriever."""
        if span.parent is None or self.reading.kind(span) not in ("chain", "tool", "unknown"):
            return False
        if isinstance(span.output, Mapping) and len(span.output) > 1:
            return False
        passages = documents_in(span.output)
        return bool(passages) and all(isinstance(passage, Mapping) for passage in passages or ())


def _counts(label: str, counts: Counter[str]) -> list[str]:
    """Return a note with the count of each name; none without names."""
    names = ", ".join(f"{name} ({n})" for name, n in counts.most_common())
    return [f"{label}: {names}"] if names else []


def _id(trace: Traced) -> str:
    return encode_spaces(trace.id)


def _answer_of_hop(trace: Traced, hop: int) -> Answered | None:
    """Return the passages of a retrieval of a trace, for 0 of all; None where there is none."""
    if 0 < len(trace.retrievals) >= hop:
        documents = trace.retrievals[hop - 1].documents if hop else trace.union
        return Answered(_id(trace), None, documents)
    return None if trace.error is None else Answered(_id(trace), error=trace.error)


def _metadata(trace: Traced) -> dict[str, Json]:
    metadata = {
        **trace.metadata,
        "hops": len(trace.retrievals),
        "retrievers": ", ".join(dict.fromkeys(r.span.name for r in trace.retrievals)),
        "model": ", ".join(trace.models),
        "session": trace.session,
    }
    return {key: value for key, value in metadata.items() if value not in (None, "")}


def _parts(trace: Traced, turns: Sequence[Turn]) -> dict[str, Json]:
    hops = [f"{r.span.name}: {len(r.documents)} passages" for r in trace.retrievals]
    return {
        "trace": trace.id,
        "question": trace.question,
        "turns": [f"{turn.role}: {turn.text}" for turn in turns],
        "retrievals": hops,
        "contexts": None if trace.passages is None else [d.full_text for d in trace.passages],
        **({"answer": trace.answer} if trace.error is None else {"failed": trace.error}),
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
        read, options = self._read(), self._options
        gold = read_gold(options.gold, options.columns, read.corpus, read.queries)
        whole = replace(
            gold,
            documents=None if read.corpus is None else read.corpus.documents,
            given=read.systems(options.hops),
            notes=[*read.notes(), *gold.notes],
            warnings=[*read.warnings(), *gold.warnings],
        )
        return finish_collection(whole, self._drawn)

    def preview(self, count: int = 2) -> list[dict[str, Json]]:
        """Return how the first traces were read."""
        read = self._read()
        return [_parts(trace, read.turns[trace.id]) for trace in read.traces[:count]]

    def _read(self) -> ReadTraces:
        options, path = self._options, Path(self._options.path)
        entries = list(read_export(path))
        form = tell_format(entries[0].values) if options.format == "auto" else options.format
        if form is None:
            shown = ", ".join(list(entries[0].values)[:8])
            formats = ", ".join(get_args(Format)[1:])
            raise entries[0].error(f"no spans (keys: {shown})", allowed=f"an export of {formats}")
        spans = list(READERS[form](entries))
        present = list(dict.fromkeys(span.name for span in spans))
        for name in options.kinds or ():
            if name not in present:
                found, shown = f"kinds: no step is named '{name}'", ", ".join(present[:20])
                raise DataError(found, file=path, allowed=shown, nearest=nearest(name, present))
        corpus = None if options.corpus is None else read_corpus(Path(options.corpus))
        reading = Reading(
            question=options.question,
            answer=options.answer,
            id_field=options.id_field,
            kinds=options.kinds or {},
            corpus={d.id: d for d in ([] if corpus is None else corpus.documents)},
        )
        read = ReadTraces(form, reading, spans, corpus)
        read.read()
        if not read.traces:
            causes = "; ".join(read.warnings()) or "the file has no spans"
            raise DataError(f"no trace can be read: {causes}", file=path)
        return read


def read_export(path: Path) -> Iterator[Entry]:
    """Yield the objects of an export; a JSON file may be one object, or one with a list `data`."""
    if plain_suffix(path) != ".json":
        return read_rows(path, "traces")
    whole = read_json(path)
    if not isinstance(whole, dict):
        return array_entries(whole, path)
    items = whole.get("data")
    if isinstance(items, list):
        return array_entries([item for item in items if isinstance(item, dict)], path)
    return iter([Entry(str(path), None, whole, record="the object")])


def read_gold(
    path: Path | None, columns: PartMap | None, corpus: Corpus | None, queries: Sequence[Query]
) -> Collection:
    """Read a table of gold, and give each trace its row; without one, no trace has any.

    Raises:
        DataError: No trace asks a question of the table.
        OptionError: `columns` without a table.
    """
    if path is None:
        if columns:
            raise OptionError("traces", "columns", dict(columns), "columns of `gold`, a file")
        return Collection(queries)
    path = Path(path)
    entries = list(read_rows(path, "traces"))
    table = RecordTable(entries, columns=columns, corpus=corpus, file=path, cells=is_csv(path))
    gold = table.collection()
    ids = {_folded(query.text): query.id for query in gold.queries}
    ids |= {query.id: query.id for query in gold.queries}
    rows = {query.id: ids.get(query.id) or ids.get(_folded(query.text)) for query in queries}
    row_of = {trace: row for trace, row in rows.items() if row is not None}
    if not row_of:
        allowed = "the questions as the traces have them, or the ids of traces"
        raise DataError("no trace asks a question of this table", file=path, allowed=allowed)

    def by_trace(values: Mapping[str, Value]) -> dict[str, Value]:
        return {trace: values[row] for trace, row in row_of.items() if row in values}

    judged = {} if gold.qrels is None else by_trace(gold.qrels.to_dict())
    unasked = len(gold.queries) - len(set(row_of.values()))
    note = f"gold of {len(row_of)} of {len(queries)} traces by {path.name}"
    note += f"; {unasked} of its questions are in no trace" if unasked else ""
    return replace(
        gold,
        queries=queries,
        qrels=Qrels.from_dict(judged) if judged else None,
        answers=by_trace(gold.answers),
        expected_tool_calls=by_trace(gold.expected_tool_calls),
        notes=[note],
    )


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
