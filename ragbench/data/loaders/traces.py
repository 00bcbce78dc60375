"""Exported traces: `dataset: {type: traces, path: export.jsonl}`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from ragbench.data.files.collection import Corpus, read_corpus
from ragbench.data.files.columns import Named
from ragbench.data.files.fields import counted
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.rows import (
    Entry,
    encode_spaces,
    is_csv,
    parse_json,
    read_json_array,
    read_rows,
)
from ragbench.data.loaders.base import Previewed, SplitOption, finished, parse_split
from ragbench.data.loaders.records import RecordTable
from ragbench.data.traces.exports import READERS
from ragbench.data.traces.roles import Reading, Traced, Unclear, read_trace
from ragbench.data.traces.spans import Json, Kind, Span, tell_format
from ragbench.data.traces.values import documents_in
from ragbench.errors import DataError, OptionError
from ragbench.registry import Option, nearest
from ragbench.types import Answered, Collection, Document, Qrels, Query, Turn

Hops = Literal["apart", "joined"]
"""Whether each retrieval of a trace is a system of its own, too."""
GIVEN = "given"
"""The system that the traces are."""
_SHOWN = 3
_USERS, _ASSISTANTS = ("user", "human"), ("assistant", "ai", "model")

Format = Literal["auto", "openinference", "otlp", "langfuse", "langsmith", "mlflow"]


@dataclass(slots=True)
class ReadTraces:
    """The traces of a file: those that are clear, and why the others are not."""

    format: str
    reading: Reading
    spans: list[Span]
    corpus: Corpus | None
    traces: list[Traced] = field(default_factory=list)
    unclear: dict[str, list[str]] = field(default_factory=dict)
    """Cause -> ids of traces."""
    turns: dict[str, tuple[Turn, ...]] = field(default_factory=dict)
    """Id of a trace -> what was said before."""
    unordered: int = 0
    """Traces of sessions whose order is not known."""

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
        """The turns before a question: of its own input, or else the earlier traces."""
        if trace.turns:
            return tuple(
                Turn("user" if message.role in _USERS else "assistant", message.text)
                for message in trace.turns
                if message.role in (*_USERS, *_ASSISTANTS) and message.text
            )
        if trace.session is None:
            return ()
        others = [each for each in self.traces if each.session == trace.session]
        timed = [(each.start, each) for each in others if each.start is not None]
        if len(timed) < len(others) or trace.start is None:
            # the only trace of a session needs no order
            self.unordered += len(others) > 1
            return ()
        found: list[Turn] = []
        for start, each in sorted(timed, key=lambda pair: pair[0]):
            # strictly: the trace itself is one of its session
            if start < trace.start and each.answer is not None:
                texts = tuple(d.full_text for d in each.passages or ())
                found += [Turn("user", each.question), Turn("assistant", each.answer, texts)]
        return tuple(found)

    @property
    def queries(self) -> list[Query]:
        """A question for each trace, with the id of the trace."""
        return [
            Query(_id(each), each.question, _metadata(each), self.turns[each.id])
            for each in self.traces
        ]

    def systems(self, hops: Hops) -> dict[str, list[Answered]]:
        """What the traces answered and retrieved, by system."""
        # where no trace has a tool, it is not known whether they were recorded
        has_tools = any(each.tool_calls for each in self.traces)
        found = {
            GIVEN: [
                Answered(
                    _id(each),
                    each.answer,
                    each.passages,
                    each.queries,
                    each.tool_calls if has_tools else None,
                    error=each.error,
                    usage=each.usage,
                    latency_ms=each.latency_ms,
                )
                for each in self.traces
            ]
        }
        most = max(len(each.retrievals) for each in self.traces)
        is_single = most < 2 and not any(each.is_reranked for each in self.traces)
        if hops == "joined" or is_single:
            return found
        # hop 0 is the union of all
        for hop in range(most + 1):
            name = f"{GIVEN}-hop-{hop}" if hop else f"{GIVEN}-union"
            found[name] = [row for each in self.traces if (row := _of_hop(each, hop)) is not None]
        return found

    def notes(self) -> list[str]:
        """How the file was read, a sentence each."""
        kinds = Counter(self.reading.kind(span) for span in self.spans)
        listed = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        whole = len(self.traces) + sum(map(len, self.unclear.values()))
        spans = f"{counted(len(self.spans), 'span')} ({listed})"
        notes = [f"read as {self.format}: {counted(whole, 'trace')}, {spans}"]
        for kind in ("retriever", "reranker"):
            named = (span.name for span in self.spans if self.reading.kind(span) == kind)
            names = Counter(named).most_common()
            if names:
                notes.append(f"{kind}s: " + ", ".join(f"{name} ({n})" for name, n in names))
        hops = Counter(len(each.retrievals) for each in self.traces)
        notes.append(
            "retrievals: "
            + ", ".join(f"{counted(n, 'trace')} with {h}" for h, n in sorted(hops.items()))
        )
        notes += self._told()
        sessions = {
            e.session for e in self.traces if e.session and self.turns[e.id] and not e.turns
        }
        after = sum(bool(turns) for turns in self.turns.values())
        if after:
            where = f" (of {counted(len(sessions), 'session')})" if sessions else ""
            notes.append(f"{counted(after, 'question')} after earlier turns{where}")
        failed = [each for each in self.traces if each.error is not None]
        for error, number in Counter(each.error for each in failed).most_common(_SHOWN):
            notes.append(f"failed calls: {number}: {error}")
        if renamed := sum(each.renamed for each in self.traces):
            advice = "match: {level: document, id: metadata.document_id} counts them as one"
            notes.append(f"{counted(renamed, 'passage')} with the id of another passage; {advice}")
        return [*notes, *(self.corpus.notes if self.corpus else [])]

    def _told(self) -> list[str]:
        """Of how many traces the tokens, cost and time are known, and the models."""
        n = len(self.traces)
        known = {
            "tokens": sum(each.usage.input_tokens is not None for each in self.traces),
            "cost": sum(each.usage.usd is not None for each in self.traces),
            "time": sum(each.latency_ms is not None for each in self.traces),
        }
        notes = ["known: " + ", ".join(f"{what} of {k} of {n}" for what, k in known.items())]
        models = Counter(model for each in self.traces for model in each.models)
        if models:
            notes.append("models: " + ", ".join(f"{model} ({k})" for model, k in models.items()))
        return notes

    def warnings(self) -> list[str]:
        """What was left out, and what may be a retrieval; a sentence each."""
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
        """Whether a step inside a trace returns nothing but passages, without being a retriever."""
        if span.parent is None or self.reading.kind(span) not in ("chain", "tool", "unknown"):
            return False
        only = not isinstance(span.output, Mapping) or len(span.output) == 1
        listed = (documents_in(span.output) or []) if only else []
        return bool(listed) and all(isinstance(each, Mapping) for each in listed)


def _id(trace: Traced) -> str:
    return encode_spaces(trace.id)


def _of_hop(trace: Traced, hop: int) -> Answered | None:
    """What one retrieval of a trace returned, or all of them for 0; None where there is none."""
    documents: list[Document] | None = trace.union if hop == 0 else None
    for each in trace.retrievals:
        if each.hop == hop:
            documents = each.documents
    if not trace.retrievals or documents is None:
        return None if trace.error is None else Answered(_id(trace), error=trace.error)
    return Answered(_id(trace), None, documents)


def _metadata(trace: Traced) -> dict[str, Json]:
    found = {
        **trace.metadata,
        "hops": len(trace.retrievals),
        "retrievers": ", ".join(dict.fromkeys(each.span.name for each in trace.retrievals)),
        "model": ", ".join(trace.models),
        "session": trace.session,
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _parts(trace: Traced, turns: Sequence[Turn]) -> dict[str, Json]:
    hops = [f"{each.span.name}: {len(each.documents)} passages" for each in trace.retrievals]
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
        read, chosen = self._read(), self._options
        gold = read_gold(chosen.gold, chosen.columns, read.corpus, read.queries)
        whole = replace(
            gold,
            documents=None if read.corpus is None else read.corpus.documents,
            given=read.systems(chosen.hops),
            notes=[*read.notes(), *gold.notes],
            warnings=[*read.warnings(), *gold.warnings],
        )
        return finished(whole, self._drawn)

    def preview(self, count: int = 2) -> list[dict[str, Json]]:
        """Return how the first traces were read."""
        read = self._read()
        return [_parts(each, read.turns[each.id]) for each in read.traces[:count]]

    def _read(self) -> ReadTraces:
        chosen, path = self._options, Path(self._options.path)
        entries = list(read_export(path))
        told = tell_format(entries[0].values) if chosen.format == "auto" else chosen.format
        if told is None:
            shown = ", ".join(list(entries[0].values)[:8])
            formats = ", ".join(get_args(Format)[1:])
            raise entries[0].error(f"no spans (keys: {shown})", allowed=f"an export of {formats}")
        spans = list(READERS[told](entries))
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


def read_gold(
    path: Path | None, columns: Named | None, corpus: Corpus | None, queries: Sequence[Query]
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
    calls = found.expected_tool_calls
    return replace(
        found,
        queries=queries,
        qrels=Qrels.from_dict(judged) if judged else None,
        answers={q: found.answers[row] for q, row in known.items() if row in found.answers},
        expected_tool_calls={q: calls[row] for q, row in known.items() if row in calls},
        notes=[note],
    )


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
