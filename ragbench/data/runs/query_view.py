"""Everything that a run folder knows about one query: question, gold, rankings, answers, cause.

`QueryViews` keeps the places of a folder's lines, and gives the queries one by one as records. It
needs no data set: what a run was asked, what is gold and the texts near the top of its rankings lie
in `questions.jsonl` and `texts.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import NamedTuple

from ragbench.data.runs.run_folder import (
    QUERIES_FILE,
    file_name,
    per_query_rows,
    read_summary,
    resolve_run_folder,
)
from ragbench.data.runs.run_lines import (
    CAUSES_FILE,
    AnswerView,
    Lines,
    RankingFile,
    Texts,
    ranking_files,
    read_answers,
    read_causes,
    read_columns,
    read_latency,
)
from ragbench.errors import DataError
from ragbench.records.causes import AnswerCause, CauseRow
from ragbench.records.manifest import (
    MetadataRow,
    Passage,
    PromptForm,
    QuestionRow,
    TextRow,
    UnscoredRow,
    VerdictRow,
)
from ragbench.records.summary import Summary, SystemSummary
from ragbench.registry import nearest, shown
from ragbench.types import FloatArray

QUESTIONS_FILE = "questions.jsonl"
TEXTS_FILE = "texts.jsonl"
PROMPTS_FILE = "prompts.jsonl"
SCORES_FILE = "per_query.csv"


class Hit(NamedTuple):
    """One hit of a ranking.

    Attributes:
        rank: From 1, in the order that was scored.
        grade: How relevant it was judged; None where it was not judged.
        text: None where the run folder does not have it: texts are kept near the top only.
        cut: Whether the text goes on.
        read: Whether the generator got it; of a retriever alone, False.
    """

    rank: int
    id: str
    score: float
    grade: int | None = None
    title: str = ""
    text: str | None = None
    cut: bool = False
    read: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """A document that is judged relevant."""

    id: str
    grade: int
    title: str = ""
    text: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class SystemView:
    """What one system made of the query.

    Attributes:
        ranking_of: Whose ranking it has: its retriever's, or its own; None of a control.
        cause: Where its answer is lost; None where the view is bare.
        ranking: Its hits, best first: those of its retriever, or its own; empty where there are
            none.
        answers: Empty of a retriever alone.
        verdicts: What judges said, with reasons, raw replies and tokens.
        scores: Score -> value of this query; None where it has none.
        unscored: Score -> why there is no value.
        ranking_ms: How long its retriever took, in milliseconds; of one asked in batches, its share
            of one. None where that is not known: of a run file, of a whole app.
    """

    name: str
    retriever: str | None
    generator: str | None
    role: str
    ranking_of: str | None
    cause: AnswerCause | None
    why: str
    ranking: tuple[Hit, ...]
    answers: tuple[AnswerView, ...]
    verdicts: tuple[VerdictRow, ...]
    scores: Mapping[str, float | None]
    unscored: Mapping[str, UnscoredRow] = field(default_factory=dict)
    ranking_ms: float | None = None


@dataclass(frozen=True, slots=True)
class QueryView:
    """Everything that a run folder knows about one query.

    Attributes:
        answers: Gold answers.
        judged: Document -> grade; empty where the query is not judged.
        gold: The documents of a grade above 0, the best first.
        systems: Every system, in the order of the tables.
        pairs: What judges said of two systems' answers, whichever is better.
        graded: What a judge said of passages that people had not judged; `judged` has its grades.
    """

    id: str
    question: str
    metadata: Mapping[str, object]
    answers: tuple[str, ...]
    judged: Mapping[str, int]
    gold: tuple[Judged, ...]
    systems: tuple[SystemView, ...]
    pairs: tuple[VerdictRow, ...] = ()
    graded: tuple[VerdictRow, ...] = ()

    def system(self, name: str) -> SystemView | None:
        """Return a system by name; None where there is none."""
        return next((each for each in self.systems if each.name == name), None)


class QueryViews:
    """The queries of a run folder; make one for many, it reads each file once.

    Memory grows with the number of lines, not with the texts in them.

    Example:
        >>> views = QueryViews("runs/quickstart/latest")              # doctest: +SKIP
        >>> [system.cause for system in views["q01"].systems]         # doctest: +SKIP
        ['right', 'right']
    """

    def __init__(self, run: str | Path, *, bare: bool = False) -> None:
        """Open a run folder, or the newest run of an experiment's folder.

        If `bare`, its queries are without rankings, scores and causes, and have of its systems
        only those that answered: `columns`, `causes` and `hits` have those of all at much less
        cost.

        Raises:
            DataError: There is no run, or one of its files is not what it should be.
        """
        self.folder, self._bare = resolve_run_folder(Path(run)), bare
        self.summary: Summary = read_summary(self.folder)
        self._files: dict[str, Lines] = {}
        self._judges: dict[str, list[str]] = {}  # folder of `judgements/` -> its judges
        self._read: dict[Path, RankingFile] = {}

    @cached_property
    def ids(self) -> Sequence[str]:
        """The queries, in the order of the data set."""
        rows = () if self._questions else per_query_rows(self.folder / SCORES_FILE)
        return list(self._questions or dict.fromkeys(query for _, query, _ in rows))

    def close(self) -> None:
        """Close the files; one that is read again is opened again."""
        for lines in self._files.values():
            lines.close()

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[QueryView]:
        return (self[query] for query in self.ids)

    def __getitem__(self, query: str) -> QueryView:
        """Return what is known of a query.

        Raises:
            DataError: The run has no such query.
        """
        if query not in self._rows:
            raise self._unknown(query)
        row = self._question(query)
        texts = self.texts_of(query)
        judged, missing = row.judged, [] if self._bare else self.unscored(query)
        gold = sorted((-grade, name) for name, grade in judged.items() if grade > 0)
        return QueryView(
            id=query,
            question=row.question,
            metadata=self._metadata(query),
            answers=row.answers,
            judged=judged,
            gold=tuple(Judged(name, -grade, *_shown(texts(None, name))) for grade, name in gold),
            systems=tuple(
                self._system(each, query, judged, texts, missing)
                for each in (self._answering if self._bare else self.summary.systems)
            ),
            pairs=self._verdicts("pairs", query),
            graded=self._verdicts("passages", query),
        )

    def find(self, text: str) -> str:
        """Return the id that a text means: an id, or a part of one question, whatever its case.

        Raises:
            DataError: It is neither, or a part of several questions.
        """
        if text in self._rows:
            return text
        part = " ".join(text.split()).casefold()
        questions = ((query, " ".join(self.question(query).split())) for query in self._questions)
        # without words the text would stand in every question
        queries = [query for query, question in questions if part and part in question.casefold()]
        if not queries:
            raise self._unknown(text)
        if len(queries) > 1:
            some = ", ".join(queries[:5]) + (", ..." if len(queries) > 5 else "")
            found = f"{shown(text)} stands in {len(queries)} questions: {some}"
            allowed = "the id of a query, or words that one question alone has"
            raise DataError(found, file=self.folder, allowed=allowed)
        return queries[0]

    @cached_property
    def causes(self) -> Mapping[str, Mapping[str, CauseRow]]:
        """Lines of `causes.csv`, by system and query; empty if the run has none."""
        return read_causes(self.folder / CAUSES_FILE)

    def unscored(self, query: str) -> list[UnscoredRow]:
        """Return what has no score of a query, by any system."""
        return self._lines("unscored.jsonl").read(UnscoredRow, query)

    def ranking_ms(self, system: SystemSummary) -> Mapping[str, float]:
        """Return query -> how long the retriever of a system took, where that is known."""
        timed = system.type in ("retriever", "pair") and system.name in self.rankings
        return self._latency.get(system.ranking_of or "", {}) if timed else {}

    @cached_property
    def prompts(self) -> Mapping[str, PromptForm]:
        """Id -> the words of prompts that judges were sent."""
        lines = self._lines(PROMPTS_FILE, "id")
        return {form: lines.read(PromptForm, form)[0] for form in lines}

    @cached_property
    def rankings(self) -> Mapping[str, Path]:
        """System -> its run file, or that of its retriever; absent where there is none."""
        return ranking_files(self.folder, self.summary)

    def texts_of(self, query: str) -> Texts:
        """Return the stored texts of documents, for one query."""
        return Texts(self._lines(TEXTS_FILE, "id"), query)

    @cached_property
    def columns(self) -> Mapping[str, Mapping[str, FloatArray]]:
        """System -> score -> the value of each query, NaN where there is none."""
        return read_columns(self.folder / SCORES_FILE, self.ids)

    def passage(self, query: str, document: str) -> TextRow | None:
        """Return the text of a passage that any system found; None where it is not kept."""
        texts = self.texts_of(query)
        rows = (texts(system.name, document) for system in self.summary.systems)
        return next(filter(None, rows), None)

    def question(self, query: str) -> str:
        """Return the text of a question; empty where it is not known."""
        return self._question(query).question

    def _unknown(self, query: str) -> DataError:
        some = ", ".join(self.ids[:3]) + (", ..." if len(self.ids) > 3 else "")
        allowed = f"one of {len(self.ids)} ids ({some}), or a part of a question"
        near = nearest(query, self.ids)
        return DataError(
            f"no query {shown(query)}", file=self.folder, allowed=allowed, nearest=near
        )

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        """Query -> its row in `columns`."""
        return {query: row for row, query in enumerate(self.ids)}

    @cached_property
    def _latency(self) -> Mapping[str, Mapping[str, float]]:
        """Retriever -> query -> milliseconds, where they are known."""
        return read_latency(self.folder / "costs.csv")

    def _metadata(self, query: str) -> Mapping[str, object]:
        rows = self._lines(QUERIES_FILE).read(MetadataRow, query)
        return rows[-1].metadata if rows else {}

    @property
    def _questions(self) -> Lines:
        return self._lines(QUESTIONS_FILE)

    def _question(self, query: str) -> QuestionRow:
        rows = self._questions.read(QuestionRow, query)
        return rows[0] if rows else QuestionRow(query_id=query, question="")

    @cached_property
    def _answering(self) -> list[SystemSummary]:
        """The systems of which there are answers or verdicts."""
        kinds = ("predictions", "judgements")
        return [s for s in self.summary.systems if any(self._lines_of(k, s.name) for k in kinds)]

    def _lines(self, name: str, key: str = "query_id") -> Lines:
        if name not in self._files:
            self._files[name] = Lines(self.folder / name, key)
        return self._files[name]

    def _lines_of(self, kind: str, system: str) -> Lines:
        return self._lines(f"{kind}/{file_name(system)}.jsonl")

    def _verdicts(self, kind: str, query: str) -> tuple[VerdictRow, ...]:
        """The verdicts of all judges in a folder of `judgements/`, on a query."""
        if kind not in self._judges:
            paths = (self.folder / "judgements" / kind).glob("*.jsonl")
            self._judges[kind] = sorted(path.stem for path in paths)
        lines = (self._lines_of(f"judgements/{kind}", judge) for judge in self._judges[kind])
        return tuple(row for each in lines for row in each.read(VerdictRow, query))

    def hits(self, system: str, query: str) -> list[tuple[str, float]]:
        """Return document and score of each hit of a system, or of its retriever, best first."""
        path = self.rankings.get(system)
        if path is None:
            return []
        if path not in self._read:
            self._read[path] = RankingFile(path)
        return self._read[path].hits(query)

    def _system(
        self,
        system: SystemSummary,
        query: str,
        judged: Mapping[str, int],
        texts: Texts,
        missing: Sequence[UnscoredRow],
    ) -> SystemView:
        answers = tuple(read_answers(self._lines_of("predictions", system.name), query))
        passages = next((a.passages for a in answers if a.passages is not None), ())
        own = {passage.id: passage for passage in passages or ()}
        lost = None if self._bare else self.causes.get(system.name, {}).get(query)
        ranked = [] if self._bare else self.hits(system.name, query)
        hits = []
        for rank, (name, score) in enumerate(ranked, start=1):
            text = own.get(name) or texts(system.ranking_of, name)
            hits.append(Hit(rank, name, score, judged.get(name), *_shown(text), name in own))
        columns = {} if self._bare else self.columns.get(system.name, {})
        row = self._rows[query]
        cells = {name: float(columns[name][row]) for name in system.scores if name in columns}
        return SystemView(
            name=system.name,
            retriever=system.retriever,
            generator=system.generator,
            role=system.role,
            ranking_of=system.ranking_of,
            cause=None if lost is None else lost.cause,
            why="" if lost is None else lost.why,
            ranking=tuple(hits),
            answers=answers,
            verdicts=tuple(self._lines_of("judgements", system.name).read(VerdictRow, query)),
            scores={name: None if isnan(cell) else cell for name, cell in cells.items()},
            ranking_ms=self.ranking_ms(system).get(query),
            unscored={
                row.measure: row
                for row in missing
                if row.system == system.name and row.sample is None
            },
        )


def _shown(text: Passage | None) -> tuple[str, str | None, bool]:
    """The title of a passage, its text, and whether that goes on."""
    if text is None:
        return "", None, False
    return text.title or "", text.text, isinstance(text, TextRow) and text.cut
