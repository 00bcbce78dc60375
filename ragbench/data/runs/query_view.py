"""Views of single queries of a run folder: question, gold, rankings, answers, cause.

`QueryViews` indexes the lines of the files, and reads one query at a time. It needs no data set:
questions, gold and the texts near the top of the rankings are in `questions.jsonl` and
`texts.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, zip_longest
from math import isnan
from pathlib import Path
from typing import cast

from msgspec import Struct, field

from ragbench.data.files.trec_files import read_run
from ragbench.data.runs import run_folder, run_lines
from ragbench.data.runs.hit_list import (
    Hit,
    StoredRanking,
    gold_names,
    list_hits,
    mark_read,
    text_fields,
)
from ragbench.errors import DataError
from ragbench.records import manifest
from ragbench.records.causes import AnswerCause, CauseRow
from ragbench.records.summary import Summary, SystemSummary
from ragbench.registry import nearest, quote
from ragbench.types import Document, FloatArray, Run, Span
from ragbench.types.byte_ids import TextIds
from ragbench.types.display import short_repr
from ragbench.types.lookups import index_positions

QUESTIONS_FILE = "questions.jsonl"
TEXTS_FILE = "texts.jsonl"
PROMPTS_FILE = "prompts.jsonl"
SCORES_FILE = "per_query.csv"
HITS_FOLDER = "hits"
PASSAGES_FOLDER = "passages"
# Folder beside the rankings with those after the first one of repeated systems, numbered from 1.
REPEATS_FOLDER = "repeats"


class GoldDocument(Struct, frozen=True):
    """Document that is judged relevant.

    Attributes:
        grade: Grade of its judgement, above 0.
        text: None if the run folder does not hold it.
        cut: True if the text continues.
        title: Empty without one.
    """

    id: str
    grade: int
    title: str = ""
    text: str | None = None
    cut: bool = False


class SystemView(Struct, frozen=True):
    """Ranking, answers, verdicts and scores of one system for one query, from a `QueryView`.

    A bare view is one of `QueryViews(run, bare=True)`.

    Attributes:
        name: `bm25`, or `bm25/extractive`.
        summary: The system in the summary of the run: retriever, generator, role, means.
        cause: Cause of a lost answer, or `right`, of the repetition that is shown (the first lost
            one, else the first); None in a bare view, and if `causes.csv` has no
            row for it.
        why: Reason for the cause, as a sentence; empty without a cause.
        causes: Cause -> numbers of the repetitions that have it, from 0; empty without repetitions,
            and in a bare view.
        ranking: Hits of its retriever or its own, best first, then passages that its answer
            was made from and that are none of the hits; empty in a bare view. Of several rankings
            it is that of the repetition that is shown.
        answers: Its answers, also failed ones, one per sample; empty for a retriever alone.
        verdicts: Verdicts of judges, with reasons, raw replies and tokens.
        scores: Score -> value of this query, None without a value; empty in a bare view.
        unscored: Score -> row with the reason why there is no value; empty in a bare view.
        ranking_ms: Milliseconds that its retriever took; its share in a batch. None if unknown, as
            for run files and whole apps.
    """

    name: str
    summary: SystemSummary
    cause: AnswerCause | None
    why: str
    ranking: tuple[Hit, ...]
    answers: tuple[manifest.AnswerRow, ...]
    verdicts: tuple[manifest.VerdictRow, ...]
    scores: Mapping[str, float | None]
    unscored: Mapping[str, manifest.UnscoredRow] = field(default_factory=dict)
    ranking_ms: float | None = None
    causes: Mapping[AnswerCause, Sequence[int]] = field(default_factory=dict)

    __repr__ = short_repr


class QueryView(Struct, frozen=True):
    """Contents of a run folder about one query, as `QueryViews(run)[id]` returns them.

    `system(name)` is None if the run has no such system.

    Attributes:
        question: Text of the query; empty if the run folder does not hold it.
        answers: Gold answers; empty without any.
        judged: Document -> grade; empty if the query is not judged.
        gold: Documents with a grade above 0, the best first.
        spans: Gold spans, with their texts; empty without any.
        needs: Names of the gold, as `Hit.gold` has them: documents, and gold spans in place of the
            documents that have some; empty in a bare view.
        systems: All systems, in the order of the tables; in a bare view, those that answered.
        pairs: Verdicts on which of two systems answers better; empty without any.
        graded: Verdicts of a judge on passages without a human judgement, empty without any;
            `judged` has their grades.
        metadata: Plain metadata of the query; empty without any.
        row: Number of the query's row in a table without ids, from 1; None elsewhere.
    """

    id: str
    question: str
    metadata: Mapping[str, object]
    answers: tuple[str, ...]
    judged: Mapping[str, int]
    gold: tuple[GoldDocument, ...]
    systems: tuple[SystemView, ...]
    pairs: tuple[manifest.VerdictRow, ...] = ()
    graded: tuple[manifest.VerdictRow, ...] = ()
    row: int | None = None
    spans: tuple[Span, ...] = ()
    needs: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def label(self) -> str:
        """Name of the query for a reader: `row 13` of a table without ids, else its id."""
        return manifest.query_label(self.id, self.row)

    def system(self, name: str) -> SystemView | None:
        """Return the view of a system by name; None if the run has no such system."""
        for system in self.systems:
            if system.name == name:
                return system
        return None


class QueryViews:
    """Views of the queries of a run folder, by query id; iteration yields them in data set order.

    `QueryViews(run)[id]` is a `QueryView`. With `bare=True` the views have no rankings, scores and
    causes, and only the systems that answered.
    Use one object for many queries: it reads each file once, and keeps files open until `close()`.
    Memory grows with the number of lines, not with the texts in them. The cause of a system is None
    if the run has none for the query.

    Raises:
        DataError: There is no run, one of its files is damaged, or the run has no such query.

    Example:
        >>> views = QueryViews("runs/quickstart/latest")              # doctest: +SKIP
        >>> [system.cause for system in views["q01"].systems]         # doctest: +SKIP
        ['right', 'right']
    """

    def __init__(self, run: str | Path, *, bare: bool = False) -> None:
        """Open a run folder, or the newest run of an experiment's folder.

        If `bare`, the views have no rankings, scores and causes, and only the systems that
        answered: `columns`, `causes` and `ranking` have these for all queries at much less cost.
        Files are read when they are needed, so that damage may raise later.

        Raises:
            DataError: There is no run, or one of its files is damaged.
        """
        self.folder, self._bare = run_folder.resolve_run_folder(Path(run)), bare
        self.summary: Summary = run_folder.read_summary(self.folder)
        self._files: dict[str, run_lines.Lines] = {}
        self._judges: dict[str, list[str]] = {}  # folder of `judgements/` -> its judges
        # (system of the ranking, number of the repetition) -> its run, and its lines in `hits/`
        self._runs: dict[Path, Run] = {}
        self._stored: dict[tuple[str, int], tuple[Run, run_lines.Lines]] = {}

    @cached_property
    def ids(self) -> Sequence[str]:
        """Ids of the queries, in the order of the data set.

        Without stored questions they are those of `per_query.csv`. Raises `DataError` if the file
        is missing or damaged.
        """
        # a run without stored questions has its queries in the scores
        if self._questions:
            return list(self._questions)
        tables = run_folder.read_tables(self.folder / SCORES_FILE).values()
        return list(dict.fromkeys(chain.from_iterable(table.query_ids for table in tables)))

    def close(self) -> None:
        """Close the files; a file that is read again is opened again."""
        for lines in self._files.values():
            lines.close()

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<QueryViews of {self.folder}: {len(self)} queries>"

    def __iter__(self) -> Iterator[QueryView]:
        return (self[query] for query in self.ids)

    def __getitem__(self, query: str) -> QueryView:
        """Return the view of a query.

        Raises:
            DataError: The run has no such query, or a file of the run is damaged.
        """
        if query not in self._rows:
            raise self._no_query_error(query)
        row = self._question(query)
        texts = self.texts_of(query)
        judged, unscored = row.judged, [] if self._bare else self.unscored(query)
        gold = []
        # negated grades: one sort gives the best grade first, and equal grades by id
        for negated, name in sorted((-grade, name) for name, grade in judged.items()):
            if negated < 0:
                gold.append(GoldDocument(name, -negated, *text_fields(texts(None, name))))
        systems = []
        for system in self._answering_systems if self._bare else self.summary.systems:
            systems.append(self._system(system, row, texts, unscored))
        return QueryView(
            id=query,
            question=row.question,
            metadata=self._metadata(query),
            answers=row.answers,
            judged=judged,
            gold=tuple(gold),
            systems=tuple(systems),
            pairs=self._verdicts("pairs", query),
            graded=self._verdicts("passages", query),
            row=row.row,
            spans=row.spans,
            needs=() if self._bare else tuple(gold_names(judged, row.spans, self._ranked(query))),
        )

    def find(self, text: str) -> str:
        """Return the id of the query that a text means: an id, `13`, `row 13`, or words of it.

        An id comes first, then the number of a row in a table without ids, then a part of a
        question in any case. An empty text is part of no question.

        Raises:
            DataError: The text is neither, or a part of several questions.
        """
        if text in self._rows:
            return text
        # people copy questions with other line breaks and in another case
        part = " ".join(text.split()).casefold()
        for query in self._questions:
            if str(self._question(query).row) == part.removeprefix("row "):
                return query
        # an empty text is a part of every question
        queries = []
        for query in self._questions:
            question = " ".join(self.question(query).split())
            if part and part in question.casefold():
                queries.append(query)
        if not queries:
            raise self._no_query_error(text)
        if len(queries) > 1:
            some = ", ".join(queries[:5]) + (", ..." if len(queries) > 5 else "")
            problem = f"{quote(text)} stands in {len(queries)} questions: {some}"
            allowed = "the id of a query, or words that one question alone has"
            raise DataError(problem, file=self.folder, allowed=allowed)
        return queries[0]

    @cached_property
    def causes(self) -> Mapping[str, Mapping[str, CauseRow]]:
        """System -> query -> cause and reason, of the repetition that is shown (`shown_row`).

        Raises `DataError` if `causes.csv` is missing or damaged.
        """
        causes: dict[str, Mapping[str, CauseRow]] = {}
        for system, rows in self.cause_rows.items():
            of_system = {}
            for query, of_query in rows.items():
                of_system[query] = run_lines.shown_row(of_query)
            causes[system] = of_system
        return causes

    @cached_property
    def cause_rows(self) -> Mapping[str, Mapping[str, Sequence[CauseRow]]]:
        """System -> query -> line of `causes.csv` of each repetition; errors are as in `causes`."""
        return run_lines.read_cause_rows(self.folder / run_lines.CAUSES_FILE)

    def unscored(self, query: str) -> list[manifest.UnscoredRow]:
        """Return the rows of missing scores of a query, of all systems; [] without any.

        They are in the order of the file, also those of single answers of a query. A missing file
        gives []. Raises a `DataError` for a damaged line.
        """
        return self._lines("unscored.jsonl").read(manifest.UnscoredRow, query)

    def ranking_ms(self, system: SystemSummary) -> Mapping[str, float]:
        """Return query -> milliseconds of the retriever of a system; {} if they are unknown.

        An app, a control, a recorded system, and a system without a ranking have none. For others a
        missing or damaged `costs.csv` is a `DataError`.
        """
        timed = system.type in ("retriever", "pair") and system.name in self.rankings
        return self._latency.get(system.ranking_of or "", {}) if timed else {}

    @cached_property
    def prompts(self) -> Mapping[str, manifest.PromptForm]:
        """Id -> wording of the prompts that judges received; empty without stored prompts."""
        lines = self._lines(PROMPTS_FILE, "id")
        return {form: lines.read(manifest.PromptForm, form)[0] for form in lines}

    @cached_property
    def rankings(self) -> Mapping[str, Path]:
        """System -> run file of its ranking, or of its retriever; absent without one."""
        return run_lines.ranking_files(self.folder, self.summary)

    @property
    def has_texts(self) -> bool:
        """True if texts of documents are stored."""
        return bool(self._lines(TEXTS_FILE, "id"))

    def texts_of(self, query: str) -> run_lines.Texts:
        """Return the stored texts of documents for one query, whose id is not checked.

        `texts(system, document)` then returns the row with a text, or None.
        """
        return run_lines.Texts(self._lines(TEXTS_FILE, "id"), query)

    @cached_property
    def columns(self) -> Mapping[str, Mapping[str, FloatArray]]:
        """System -> score -> value of each query, in the order of `ids`, NaN without a value.

        Raises `DataError` if `per_query.csv` is missing or damaged.
        """
        return run_lines.read_columns(self.folder / SCORES_FILE, self.ids)

    def passage(self, query: str, document: str) -> manifest.TextRow | None:
        """Return the text of a passage as the first system with a stored text retrieved it.

        The text common to all systems counts for each of them. A text that is not stored is None.
        """
        texts = self.texts_of(query)
        for system in self.summary.systems:
            if row := texts(system.name, document):
                return row
        return None

    def label(self, query: str) -> str:
        """Return the name of a query for a reader: `row 13` of a table without ids, else its id.

        An id that the run lacks is returned as it is.
        """
        return self._question(query).label

    def question(self, query: str) -> str:
        """Return the text of a question; '' if the run does not hold it, or for an unknown id."""
        return self._question(query).question

    def row(self, query: str) -> int | None:
        """Return the row of a question in a table without ids; None elsewhere."""
        return self._question(query).row

    def _no_query_error(self, query: str) -> DataError:
        """Return the error for a query that the run lacks, with the nearest id."""
        some = ", ".join(self.ids[:3]) + (", ..." if len(self.ids) > 3 else "")
        allowed = f"one of {len(self.ids)} ids ({some}), a row number, or a part of a question"
        near = nearest(query, self.ids)
        return DataError(
            f"no query {quote(query)}", file=self.folder, allowed=allowed, nearest=near
        )

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        """Query -> its row in `columns`."""
        return index_positions(self.ids)

    @cached_property
    def _latency(self) -> Mapping[str, Mapping[str, float]]:
        """Retriever -> query -> milliseconds; unknown times are absent."""
        return run_lines.read_latency(self.folder / "costs.csv")

    def _metadata(self, query: str) -> Mapping[str, object]:
        """Return the metadata of a query; {} without any; of several lines, the last."""
        rows = self._lines(run_folder.QUERIES_FILE).read(manifest.MetadataRow, query)
        return rows[-1].metadata if rows else {}

    @property
    def _questions(self) -> run_lines.Lines:
        """Lines of `questions.jsonl`."""
        return self._lines(QUESTIONS_FILE)

    def _question(self, query: str) -> manifest.QuestionRow:
        """Return the question with its gold; an empty question if the run does not hold it."""
        rows = self._questions.read(manifest.QuestionRow, query)
        return rows[0] if rows else manifest.QuestionRow(query_id=query, question="")

    @cached_property
    def _answering_systems(self) -> list[SystemSummary]:
        """Systems with a stored answer or verdict, in the order of the summary."""
        systems = []
        for system in self.summary.systems:
            name = system.name
            if self._lines_of("predictions", name) or self._lines_of("judgements", name):
                systems.append(system)
        return systems

    def _lines(self, name: str, key: str = "query_id") -> run_lines.Lines:
        """Return the index of a file of the run folder by its field `key`; made once."""
        if name not in self._files:
            self._files[name] = run_lines.Lines(self.folder / name, key)
        return self._files[name]

    def _lines_of(self, kind: str, system: str) -> run_lines.Lines:
        """Return the index of the file of a system in a folder, such as `predictions`."""
        return self._lines(f"{kind}/{run_folder.file_name(system)}.jsonl")

    def _verdicts(self, kind: str, query: str) -> tuple[manifest.VerdictRow, ...]:
        """Return the verdicts on a query of all judges in a folder of `judgements/`, by judge."""
        if kind not in self._judges:
            paths = (self.folder / "judgements" / kind).glob("*.jsonl")
            # each judge has a file of its own, and only the files name the judges
            self._judges[kind] = sorted(path.stem for path in paths)
        rows: list[manifest.VerdictRow] = []
        for judge in self._judges[kind]:
            rows += self._lines_of(f"judgements/{kind}", judge).read(manifest.VerdictRow, query)
        return tuple(rows)

    def ranking(self, system: str, query: str, number: int | None = None) -> StoredRanking | None:
        """Return the ranking of a system or its retriever for a query; None without one.

        It is the ranking of passages if the run folder has one, else that of documents. Equal
        scores are ordered by id, descending. Raises a `DataError` for a damaged line.

        Args:
            system: Name of the system.
            query: Id of the query.
            number: Number of the repetition; None takes the one that `causes` shows.
        """
        if system not in self.rankings:
            return None
        source = self._source[system]
        if number is None and self._has_repeats:
            number = self.shown_number(source, query)
        key = source, number or 0
        run, lines = self._stored_run(system, key)
        row = next(iter(lines.read(manifest.HitsRow, query)), None) if lines else None
        place = run.query_index.get(query)
        if place is None:
            return StoredRanking.of(source, {}, row)
        start, stop = run.starts[place : place + 2].tolist()
        ids = cast("TextIds", run.documents)  # those of a run file are packed
        return StoredRanking(source, ids.text(start, stop), run.scores[start:stop], row)

    @cached_property
    def _has_repeats(self) -> bool:
        """True if a ranking has stored repetitions."""
        return any((path.parent / REPEATS_FOLDER).is_dir() for path in self.rankings.values())

    def _stored_run(self, system: str, key: tuple[str, int]) -> tuple[Run, run_lines.Lines]:
        """Return a repetition of a ranking, which is read once, and its lines of hits."""
        if key not in self._stored:
            self._stored[key] = self._read_stored(self.rankings[system], key[1])
        return self._stored[key]

    def _read_stored(self, path: Path, number: int) -> tuple[Run, run_lines.Lines]:
        """Return a repetition of a ranking, or else the ranking itself, and its lines of hits."""
        name = path.stem
        if number and (repeat := path.parent / REPEATS_FOLDER / f"{name}.{number}.trec").is_file():
            path, name = repeat, f"{REPEATS_FOLDER}/{name}.{number}"
        lines = self._lines(f"{HITS_FOLDER}/{name}.jsonl")
        passages = self.folder / PASSAGES_FOLDER / f"{name}.trec"
        return self.read_run(passages if lines and passages.is_file() else path), lines

    def keep_run(self, name: str, run: Run) -> None:
        """Take a ranking from memory, so that its run file, which it was written to, is not read.

        The ids have to be packed (`TextIds`): a file may change other ids.
        """
        path = self.folder / "rankings" / f"{run_folder.file_name(name)}.trec"
        self._runs[path] = run.best_first()

    def keep_columns(self, columns: Mapping[str, Mapping[str, FloatArray]]) -> None:
        """Take the scores from memory, so that `per_query.csv`, which has them, is not read."""
        self.columns = columns

    def read_run(self, path: Path) -> Run:
        """Return the run of a run file, best first, which is read once.

        Raises:
            DataError: The file is damaged.
        """
        if path not in self._runs:
            self._runs[path] = read_run(path).best_first()
        return self._runs[path]

    def shown_number(self, system: str, query: str) -> int:
        """Return the number of the repetition that is shown of a query; 0 without repetitions."""
        row = self.causes.get(system, {}).get(query)
        return 0 if row is None else row.sample or 0

    def _ranked(self, query: str) -> Iterator[StoredRanking]:
        """Return an iterator over the rankings of a query, one for each system with a ranking."""
        return filter(None, (self.ranking(system, query) for system in self._source))

    @cached_property
    def _source(self) -> Mapping[str, str]:
        """System with a ranking -> system whose ranking that is."""
        sources = {}
        for system in self.summary.systems:
            if system.name in self.rankings:
                sources[system.name] = system.ranking_of or system.name
        return sources

    def _system(
        self,
        system: SystemSummary,
        question: manifest.QuestionRow,
        texts: run_lines.Texts,
        unscored: Sequence[manifest.UnscoredRow],
    ) -> SystemView:
        """Return the view of one system; `unscored` has the rows of the query without a score."""
        query = question.query_id
        answers = tuple(run_lines.read_answers(self._lines_of("predictions", system.name), query))
        # a bare view reads no file with a row per query and system
        cause = None if self._bare else self.causes.get(system.name, {}).get(query)
        hits: tuple[Hit, ...] = ()
        if not self._bare:
            ranking = self.ranking(system.name, query)
            ranked = []
            if ranking is not None:
                ranked = list_hits(ranking, question.judged, question.spans, texts)
            contexts = _shown_contexts(answers, 0 if cause is None else cause.sample or 0)
            hits = mark_read(ranked, contexts, question.judged)
        columns = {} if self._bare else self.columns.get(system.name, {})
        row = self._rows[query]
        # in the order of the summary, as in all tables
        cells = {}
        for name in system.scores:
            if name in columns:
                cells[name] = float(columns[name][row])
        # rows with a sample are about one of several answers, not about the query
        unscored_by = {}
        for cause_row in unscored:
            if cause_row.system == system.name and cause_row.sample is None:
                unscored_by[cause_row.measure] = cause_row
        scores = {}
        for name, cell in cells.items():
            scores[name] = None if isnan(cell) else cell
        return SystemView(
            name=system.name,
            summary=system,
            cause=None if cause is None else cause.cause,
            why="" if cause is None else cause.why,
            causes={} if self._bare else _numbered(self.cause_rows, system.name, query),
            ranking=hits,
            answers=answers,
            verdicts=tuple(
                self._lines_of("judgements", system.name).read(manifest.VerdictRow, query)
            ),
            scores=scores,
            ranking_ms=self.ranking_ms(system).get(query),
            unscored=unscored_by,
        )


def _shown_contexts(answers: Sequence[manifest.AnswerRow], number: int) -> Sequence[Document]:
    """Return the passages of the answer of a repetition; of the first answer with some if none."""
    of_repeat = []
    for answer in answers:
        if answer.sample == number:
            of_repeat.append(answer)
    for answer in (*of_repeat, *answers):
        if answer.contexts is not None:
            return answer.contexts
    return ()


def _numbered(
    rows: Mapping[str, Mapping[str, Sequence[CauseRow]]], system: str, query: str
) -> dict[AnswerCause, list[int]]:
    """Return cause -> numbers of the repetitions that have it; {} without repetitions."""
    numbers: dict[AnswerCause, list[int]] = {}
    for row in rows.get(system, {}).get(query, ()):
        if row.sample is not None:
            numbers.setdefault(row.cause, []).append(row.sample)
    return numbers


def in_turn(groups: Iterable[Sequence[CauseRow]]) -> Iterator[CauseRow]:
    """Yield the lost questions of each cause, one of each in turn, large causes first."""
    by_size = sorted(groups, key=len, reverse=True)
    queries = set[str]()
    for turn in zip_longest(*by_size):
        for row in turn:
            # a repeated question has a row for each of its repetitions
            if row is not None and row.query_id not in queries:
                queries.add(row.query_id)
                yield row
