"""Traces that a tracing tool exported: `dataset: {type: traces, path: export.jsonl}`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from ragbench.data.files import rows
from ragbench.data.files.collection import Corpus, read_corpus
from ragbench.data.files.columns import PartMap
from ragbench.data.files.fields import counted
from ragbench.data.files.lines import plain_suffix
from ragbench.data.files.question_rows import QuestionRows
from ragbench.data.loaders.base import (
    OF_QUERIES,
    Previewed,
    ReasoningOption,
    SplitOption,
    finish_collection,
    parse_split,
)
from ragbench.data.loaders.questions import DEFAULT_SYSTEM
from ragbench.data.loaders.records import RecordTable
from ragbench.data.traces.exports import READERS
from ragbench.data.traces.roles import RoleRules, TraceRoles, UnclearTrace, read_trace
from ragbench.data.traces.spans import Json, Kind, TraceSpan, detect_format, read_time
from ragbench.data.traces.values import documents_in
from ragbench.errors import DataError, OptionError
from ragbench.registry import Option, OptionSet, nearest, quote
from ragbench.types import Answered, Collection, Qrels, Query, Turn
from ragbench.types.conversation import turn_without_reasoning
from ragbench.types.display import list_counts
from ragbench.types.documents import full_texts
from ragbench.types.lookups import index_by_id, is_list_of, item_names
from ragbench.types.reasoning import Reasoning
from ragbench.types.records import without_reasoning

# apart: each retrieval of a trace is a system as well; joined: it is not.
Hops = Literal["apart", "joined"]
_LISTED = 3
Value = TypeVar("Value")

Format = Literal["auto", "openinference", "otlp", "langfuse", "langsmith", "mlflow"]


@dataclass(slots=True)
class TraceSet:
    """Traces of a file, with the causes of those that are not clear; `read` fills it once.

    It is created with the format, the rules, the spans, the corpus and the option. After `read`,
    `queries` has the questions, `systems(hops)` the answers (ValueError without traces), `notes()`
    and `warnings()` sentences on how the file was read.

    Attributes:
        format: Format of the export, such as `langfuse`.
        rules: Rules of the user for finding the roles of spans.
        spans: Spans of all traces.
        corpus: Documents; None without a corpus.
        traces: Traces whose roles are clear.
        unclear: Cause -> ids of the other traces.
        turns: Id of a trace -> the turns before its question.
        reasoning: True if reasoning is cut from answers and from turns of the assistant.
        unordered: Number of traces in sessions of several traces, one of them without a time; they
            get no earlier turns.
    """

    format: str
    rules: RoleRules
    spans: list[TraceSpan]
    corpus: Corpus | None
    traces: list[TraceRoles] = field(default_factory=list)
    unclear: dict[str, list[str]] = field(default_factory=dict)
    turns: dict[str, tuple[Turn, ...]] = field(default_factory=dict)
    reasoning: Reasoning = "cut"
    unordered: int = 0

    def read(self) -> None:
        """Group the spans by trace, find their roles, and link the traces of each session.

        An unclear trace raises nothing: it goes into `unclear`. Traces are in the order of their
        first spans.
        """
        groups: dict[str, list[TraceSpan]] = {}
        for span in self.spans:
            groups.setdefault(span.trace, []).append(span)
        for spans in groups.values():
            try:
                trace = read_trace(spans, self.rules)
            # one unclear trace must not stop the others: it is counted and named
            except UnclearTrace as cause:
                self.unclear.setdefault(str(cause), []).append(spans[0].trace)
            else:
                self.traces.append(self._cut(trace))
        for trace in self.traces:
            self.turns[trace.id] = self._earlier_turns(trace)

    def _cut(self, trace: TraceRoles) -> TraceRoles:
        """Return a trace without reasoning in its answer and turns, unless it is kept."""
        if self.reasoning == "keep":
            return trace
        turns = tuple(map(turn_without_reasoning, trace.turns))
        return replace(trace, answered=without_reasoning(trace.answered), turns=turns)

    def _earlier_turns(self, trace: TraceRoles) -> tuple[Turn, ...]:
        """Return the turns before a question: those in its own input, or else of earlier traces."""
        if trace.turns or trace.session is None:
            return trace.turns
        session = []
        for member in self.traces:
            if member.session == trace.session:
                session.append(member)
        timed = []
        for member in session:
            if member.start is not None:
                timed.append((member.start, member))
        if len(timed) < len(session) or trace.start is None:
            # the only trace of a session needs no order
            self.unordered += len(session) > 1
            return ()
        turns: list[Turn] = []
        for start, earlier in sorted(timed, key=lambda pair: pair[0]):
            # strictly before: the trace itself is in its session, and ends the turns
            answered = earlier.answered
            if start < trace.start and answered.answer is not None:
                texts = tuple(passage.full_text for passage in answered.contexts or ())
                turns.append(Turn("user", earlier.question))
                turns.append(Turn("assistant", answered.answer, texts))
        return tuple(turns)

    @property
    def queries(self) -> list[Query]:
        """Question of each clear trace, in order, under the id of the trace."""
        queries = []
        for trace in self.traces:
            name, turns = trace.answered.query_id, self.turns[trace.id]
            queries.append(Query(name, trace.question, _metadata(trace), turns))
        return queries

    def systems(self, hops: Hops) -> dict[str, list[Answered]]:
        """Return system -> the answers and passages of the traces.

        `given` is the application, with the passages of the reranker, else those of all
        retrievals. With `apart`, and where a trace has several retrievals or a reranker,
        `given-union` has the passages of all retrievals, `given-hop-1`, ... those of each. A trace
        with fewer retrievals has no answer of a hop, unless it failed. Answers are in the order of
        the traces.

        Raises:
            ValueError: There are no traces.
        """
        answers = [trace.answered for trace in self.traces]
        # if no trace has a tool call, the tool may not record them: unknown, not none
        if not any(answer.tool_calls for answer in answers):
            answers = [replace(answer, tool_calls=None) for answer in answers]
        systems = {DEFAULT_SYSTEM: answers}
        n_hops = max(len(trace.retrievals) for trace in self.traces)
        is_single = n_hops < 2 and not any(trace.is_reranked for trace in self.traces)
        if hops == "joined" or is_single:
            return systems
        # number 0 is the union of all hops
        for hop in range(n_hops + 1):
            name = f"{DEFAULT_SYSTEM}-hop-{hop}" if hop else f"{DEFAULT_SYSTEM}-union"
            of_hop = []
            for trace in self.traces:
                answer = _answer_of_hop(trace, hop)
                # traces with fewer retrievals have no answer of this hop
                if answer is not None:
                    of_hop.append(answer)
            systems[name] = of_hop
        return systems

    def notes(self) -> list[str]:
        """Return notes on how the file was read: format, spans, retrievals, models and sessions.

        The first notes are always there; the others only where there is something to tell.
        """
        kinds: Counter[str] = Counter()
        names: dict[str, Counter[str]] = {"retriever": Counter(), "reranker": Counter()}
        for span in self.spans:
            kinds[span.kind] += 1
            if span.kind in names:
                names[span.kind][span.name] += 1
        listed = list_counts(dict(kinds.most_common()))
        total = len(self.traces) + sum(map(len, self.unclear.values()))
        spans = f"{counted(len(self.spans), 'span')} ({listed})"
        notes = [f"read as {self.format}: {counted(total, 'trace')}, {spans}"]
        for kind, names_of_kind in names.items():
            notes += _counts(f"{kind}s", names_of_kind)
        hops: Counter[int] = Counter()
        errors: Counter[str] = Counter()
        renamed = 0
        for trace in self.traces:
            hops[len(trace.retrievals)] += 1
            renamed += trace.renamed
            if trace.answered.error is not None:
                errors[trace.answered.error] += 1
        shares = ", ".join(f"{counted(n, 'trace')} with {hop}" for hop, n in sorted(hops.items()))
        notes += [f"retrievals: {shares}", *self._session_notes()]
        for error, number in errors.most_common(_LISTED):
            notes.append(f"failed calls: {number}: {error}")
        if renamed:
            advice = "match: {level: document, id: metadata.document_id} counts them as one"
            notes.append(f"{counted(renamed, 'passage')} with the id of another passage; {advice}")
        return [*notes, *(self.corpus.notes if self.corpus else [])]

    def _session_notes(self) -> Iterator[str]:
        """Yield a note on the questions that have earlier turns, if there are some."""
        later = []
        for trace in self.traces:
            if self.turns[trace.id]:
                later.append(trace)
        if later:
            sessions = set()
            for trace in later:
                if trace.session and not trace.turns:
                    sessions.add(trace.session)
            suffix = f" (of {counted(len(sessions), 'session')})" if sessions else ""
            yield f"{counted(len(later), 'question')} after earlier turns{suffix}"

    def warnings(self) -> list[str]:
        """Return warnings on unclear traces, possible retrievals, sessions without times; or [].

        Causes are in the order of the file, with 3 ids each; of possible retrievals the 3 most
        frequent.
        """
        warnings = []
        for cause, ids in self.unclear.items():
            examples = ", ".join(ids[:_LISTED]) + (", ..." if len(ids) > _LISTED else "")
            verb = "is" if len(ids) == 1 else "are"
            warnings.append(f"{counted(len(ids), 'trace')} {verb} left out: {cause} ({examples})")
        spans = filter(self._returns_passages, self.spans)
        returning = Counter((span.name, span.kind) for span in spans)
        for (name, kind), number in returning.most_common(_LISTED):
            warnings.append(
                f"'{name}' ({kind}, {number} times) returns passages, but is no retriever by its "
                f"kind: if it is one, set kinds: {{{name}: retriever}}, or reranker"
            )
        if self.unordered:
            traces = f"{counted(self.unordered, 'trace')} of sessions without times"
            warnings.append(f"{traces}: their order is unknown, and they have no earlier turns")
        return warnings

    def _returns_passages(self, span: TraceSpan) -> bool:
        """Return True if a step inside a trace returns only passages, but is no retriever."""
        if span.parent is None or span.kind not in ("chain", "tool", "unknown"):
            return False
        # several keys: the passages are only a part of what the step returns
        if isinstance(span.output, Mapping) and len(span.output) > 1:
            return False
        passages = documents_in(span.output)
        # plain texts may be anything, such as answers
        return bool(passages) and is_list_of(passages, Mapping)


def _counts(label: str, counts: Counter[str]) -> list[str]:
    """Return a list with one note: the count of each name, most frequent first."""
    names = ", ".join(f"{name} ({n})" for name, n in counts.most_common())
    return [f"{label}: {names}"] if names else []


def _answer_of_hop(trace: TraceRoles, hop: int) -> Answered | None:
    """Return the passages of one retrieval as an answer without text; hop 0 is all retrievals."""
    query, error = trace.answered.query_id, trace.answered.error
    if 0 < len(trace.retrievals) >= hop:
        documents = trace.retrievals[hop - 1].documents if hop else trace.union
        return Answered(query, None, documents)
    return None if error is None else Answered(query, error=error)


def _metadata(trace: TraceRoles) -> dict[str, Json]:
    """Return the metadata of a trace, with its time, hops, retrievers, models and session."""
    time = read_time(trace.start)
    metadata = {
        **trace.metadata,
        **({} if time is None else {"time": f"{time:%Y-%m-%dT%H:%M:%SZ}"}),
        "hops": len(trace.retrievals),
        "retrievers": ", ".join(dict.fromkeys(r.span.name for r in trace.retrievals)),
        "model": ", ".join(trace.models),
        "session": trace.session,
    }
    filled = {}
    for key, value in metadata.items():
        if value not in (None, ""):
            filled[key] = value
    return filled


def _parts(trace: TraceRoles) -> dict[str, Json]:
    """Return part -> value of a trace, as `ragbench validate` shows them."""
    hops = [f"{r.span.name}: {len(r.documents)} passages" for r in trace.retrievals]
    answer, passages, error = trace.answered.answer, trace.answered.contexts, trace.answered.error
    return {
        "trace": trace.id,
        "question": trace.question,
        "retrievals": hops,
        "contexts": None if passages is None else full_texts(passages),
        **({"answer": answer} if error is None else {"failed": error}),
    }


class TracesOptions(OptionSet):
    """Options of `type: traces` in the YAML; each has its description beside it.

    Without paths, `question`, `answer` and `id_field` are found by their usual keys. Without `gold`
    there is no gold, and `columns` must be None; without a `split` all traces are scored.
    """

    path: Annotated[Path, Option("The .jsonl, .json, .csv or .parquet export.", refers_to="path")]
    format: Annotated[
        Format, Option("Tool that wrote the export; auto recognises it by the keys.")
    ] = "auto"
    kinds: Annotated[
        Mapping[str, Kind] | None,
        Option("Kind of a step by its name, where the trace has no kind: {rerank: reranker}."),
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
        Path | None,
        Option("File of records with gold, matched by trace id or by question.", refers_to="path"),
    ] = None
    columns: Annotated[
        Mapping[str, str | None] | None,
        Option("Which column of `gold` plays which part, as in records."),
    ] = None
    corpus: Annotated[
        Path | None,
        Option(
            "Documents, as in records; passages without a text are found by id.", refers_to="path"
        ),
    ] = None
    split: SplitOption = None
    reasoning: ReasoningOption = "cut"


class Traces(Previewed):
    """Loader of traces of OpenTelemetry, OpenInference (Phoenix), Langfuse, LangSmith or MLflow.

    A trace is a question with its answer and the passages of its retrievers, which are found by the
    kinds of spans. The application is the system `given`, with the passages of the reranker, else
    those of all retrievals. Unless `hops` is `joined`, and where a trace has several retrievals or
    a reranker, `given-union` has the passages of all retrievals, and `given-hop-1`, `given-hop-2`,
    ... those of each. Earlier traces of a session are the turns before a question. A failed call is
    a failed answer with its cause; a trace whose roles are not clear is left out and counted.
    `Traces(path="export.jsonl")` is created with the options of `TracesOptions`, and raises
    OptionError for a wrong `split`. `load` reads the files, and raises DataError if one cannot be
    read or no trace is clear, OptionError for `columns` without `gold`.
    """

    declares = TracesOptions

    def __init__(self, **options: Any) -> None:
        self._options = TracesOptions(**options)
        self._split = parse_split(self._options.split, "traces")

    def load(self) -> Collection:
        """Return the traces as a data set.

        Raises:
            DataError: The file is no export of traces, no trace can be read, or `kinds` or `gold`
                fits none of them.
            OptionError: `columns` is set without `gold`.
            MissingExtra: A file needs an extra, such as Parquet.
        """
        traces, options = self._read(), self._options
        gold = read_gold(options.gold, options.columns, traces.corpus, traces.queries)
        whole = replace(
            gold,
            documents=None if traces.corpus is None else traces.corpus.documents,
            recorded_answers=traces.systems(options.hops),
            notes=[*traces.notes(), *gold.notes],
            warnings=[*traces.warnings(), *gold.warnings],
        )
        return finish_collection(whole, self._split)

    def preview(self, count: int = 2) -> list[dict[str, Json]]:
        """Return the first `count` clear traces, all if there are fewer, each as part -> value.

        Raises `DataError` if the export or the corpus cannot be read or no trace is clear,
        MissingExtra if a file needs an extra; `gold` is not read.
        """
        traces = self._read()
        return [_parts(trace) for trace in traces.traces[:count]]

    def _read(self) -> TraceSet:
        """Read the export, and find the roles of its spans."""
        options, path = self._options, Path(self._options.path)
        entries = list(read_export(path))
        # the first object tells: an export has one format
        form = detect_format(entries[0].values) if options.format == "auto" else options.format
        if form is None:
            keys = ", ".join(list(entries[0].values)[:8])
            formats = ", ".join(get_args(Format)[1:])
            problem = f"no spans (keys: {keys or 'none'})"
            raise entries[0].error(problem, allowed=f"an export of {formats}")
        kinds = options.kinds or {}
        spans = []
        for span in READERS[form](entries):
            spans.append(replace(span, kind=kinds.get(span.name, span.kind)))
        present = list(dict.fromkeys(item_names(spans)))
        # a name that no step has is a typing error, and would silently change nothing
        for name in kinds:
            if name not in present:
                problem, keys = f"kinds: no step is named '{name}'", ", ".join(present[:20])
                raise DataError(problem, file=path, allowed=keys, nearest=nearest(name, present))
        corpus = None if options.corpus is None else read_corpus(Path(options.corpus))
        rules = RoleRules(
            question=options.question,
            answer=options.answer,
            id_field=options.id_field,
            corpus=index_by_id([] if corpus is None else corpus.documents),
        )
        traces = TraceSet(form, rules, spans, corpus, reasoning=options.reasoning)
        traces.read()
        if not traces.traces:
            causes = "; ".join(traces.warnings()) or "the file has no spans"
            raise DataError(f"no trace can be read: {causes}", file=path)
        return traces


def read_export(path: Path) -> Iterator[rows.Entry]:
    """Return an iterator over the objects of an export.

    They are in the order of the file. A JSON file may be an array, one object, or an object with a
    list `data`. Items of `data` that are no objects are skipped. Other formats are read when the
    iterator is.

    Raises:
        DataError: The file cannot be read, or has no objects.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    if plain_suffix(path) != ".json":
        return rows.read_rows(path, "traces")
    whole = rows.read_json(path)
    if not isinstance(whole, dict):
        return rows.array_entries(whole, path)
    # the API of Langfuse returns its list under `data`
    items = whole.get("data")
    if isinstance(items, list):
        rows_of_spans = []
        for item in items:
            if isinstance(item, dict):
                rows_of_spans.append(item)
        return rows.array_entries(rows_of_spans, path)
    return iter([rows.Entry(str(path), None, whole, record="the object")])


def read_gold(
    path: Path | None, columns: PartMap | None, corpus: Corpus | None, queries: Sequence[Query]
) -> Collection:
    """Return the gold of each trace from a table, under the ids of the traces.

    Rows and traces meet by id, or else by the question without case and repeated spaces. The
    `queries` of the result are the argument. Traces without gold have no entry in its dicts;
    `qrels` is None if no trace has gold documents.

    Args:
        path: The table; None returns a data set without gold.
        columns: The option `columns` of the table.
        corpus: Documents, to resolve gold ids; may be None.
        queries: Questions of the traces.

    Raises:
        DataError: No trace asks a question of the table, rows with the question of a trace have
            unlike gold or the id of another trace, or the table cannot be read.
        OptionError: `columns` without a table.
        MissingExtra: A Parquet table without the extra `parquet`.
    """
    if path is None:
        if columns:
            raise OptionError("traces", "columns", dict(columns), "columns of `gold`, a file")
        return Collection(queries)
    path = Path(path)
    entries = list(rows.read_rows(path, "traces"))
    table = RecordTable(entries, columns=columns, corpus=corpus, file=path)
    gold = table.collection()
    row_of = _rows_of(gold, queries, path)
    if not row_of:
        allowed = "the questions as the traces have them, or the ids of traces"
        raise DataError("no trace asks a question of this table", file=path, allowed=allowed)

    def by_trace(values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of the rows under the ids of their traces."""
        by_trace_id: dict[str, Value] = {}
        for trace, row in row_of.items():
            if row in values:
                by_trace_id[trace] = values[row]
        return by_trace_id

    parts: dict[str, Any] = {name: by_trace(getattr(gold, name)) for name in OF_QUERIES}
    judged = {} if gold.qrels is None else by_trace(gold.qrels.to_dict())
    unasked = len(gold.queries) - len(set(row_of.values()))
    note = f"gold of {len(row_of)} of {len(queries)} traces by {path.name}"
    note += f"; {unasked} of its questions are in no trace" if unasked else ""
    return replace(
        gold,
        queries=queries,
        qrels=Qrels.from_dict(judged) if judged else None,
        notes=[note],
        **parts,
    )


def _rows_of(gold: Collection, queries: Sequence[Query], path: Path) -> dict[str, str]:
    """Return trace -> the row of the table with its gold; raise a DataError where rows differ."""
    questions = {row.id: row.text for row in gold.queries}
    rows = QuestionRows(questions, file=path, noun="trace")
    row_of = {}
    for query in queries:
        # a match by id comes before a match by question: people word questions anew
        if query.id in questions:
            rows.check(query.id, query.text)
            row_of[query.id] = query.id
        elif same := rows.asking(query.text):
            row_of[query.id] = same[0]
            if any(_gold_of(gold, row) != _gold_of(gold, same[0]) for row in same):
                problem = f"{len(same)} rows ask {quote(query.text)}, and their gold differs"
                raise DataError(problem, file=path, allowed="a column id with the ids of traces")
    return row_of


def _gold_of(gold: Collection, row: str) -> list[object]:
    """Return all gold of a row of a table, to compare it with that of another row."""
    judged = None if gold.qrels is None else gold.qrels.by_query.get(row)
    return [judged, *(getattr(gold, name).get(row) for name in OF_QUERIES)]
