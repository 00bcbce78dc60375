"""Fix list of a run folder, counted from its files; nothing is run or imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.comparison.answerable import answerable_questions
from ragbench.comparison.cause_rules import DEFAULT_READ, CauseRules
from ragbench.config.schema import RetrievalMetrics, Top
from ragbench.data.files.trec_files import read_run
from ragbench.data.runs import run_folder, run_lines
from ragbench.data.runs.query_view import QUESTIONS_FILE, TEXTS_FILE
from ragbench.data.runs.run_list import CONFIG_FILE, read_config
from ragbench.errors import DataError, OptionError
from ragbench.experiment.fix_answers import answer_notes, answers_by_generator, with_answers
from ragbench.experiment.plan.groups import clusters_by
from ragbench.fixes.changes import PricedRun, price_changes
from ragbench.fixes.lost_groups import find_lost_groups
from ragbench.fixes.rankings import NEVER, StoredRankings
from ragbench.fixes.reading import drop_near_duplicates, join_neighbours, refuse_low_scores
from ragbench.generate.chat import estimate_tokens
from ragbench.records.causes import CAUSE_CHANGES, AnswerCause
from ragbench.records.fixes import FixList, RemainingLoss
from ragbench.records.manifest import QuestionRow, TextRow
from ragbench.records.summary import Summary, SystemSummary
from ragbench.registry import check_values, declared_options, nearest, shown
from ragbench.retrieve import RETRIEVERS
from ragbench.types import Qrels, Query
from ragbench.types.rows import BoolArray

_LARGEST = 16_000_000  # bytes of rankings that a page is made of, and of texts that are read
_TEXTS = 500  # of which the mean length of a passage is taken
_OF_GENERATOR: tuple[AnswerCause, ...] = (
    "not_used",
    "unsupported",
    "refused",
    "should_have_refused",
    "failed",
)


@dataclass
class RunReader:
    """Reader of the files of a run folder that the fix list counts.

    A file is read when a property needs it, and once. A file that is needed and missing, or
    damaged, is a DataError of the property. `priced_run` returns the rankings for `price_changes`,
    and raises OptionError for more passages than stored hits.

    Attributes:
        folder: The run folder.
        system: Name of the system that the changes start from; None for the baseline, or if that
            has no stored ranking, the first system with one.
    """

    folder: Path
    system: str | None = None

    @cached_property
    def summary(self) -> Summary:
        """Summary of the run; DataError if the folder has none, or it is damaged."""
        return run_folder.read_summary(self.folder)

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """Config as the run resolved it; DataError if it cannot be read."""
        config = read_config(self.folder, typed=True)
        if not all(
            isinstance(block, dict) and all(isinstance(entry, dict) for entry in block.values())
            for block in (config.get(name) or {} for name in ("retrievers", "generators"))
        ):
            path, allowed = self.folder / CONFIG_FILE, "what ragbench run writes"
            raise DataError("not a config", file=path, allowed=allowed)
        return config

    def block(self, *keys: str) -> Mapping[str, Any]:
        """Return a block of the config; empty if it is missing or no mapping.

        DataError if the config cannot be read.
        """
        block: Any = self.config
        for key in keys:
            block = block.get(key) if isinstance(block, dict) else None
        return block if isinstance(block, dict) else {}

    def options(self, record: type, *keys: str) -> dict[str, Any]:
        """Return option -> value for the options of a record that a block of the config sets.

        `keys` lead to the block. {} without any. DataError for a value that is not allowed.
        """
        block, declared = self.block(*keys), declared_options(record)
        values = {name: block[name] for name in declared if name in block}
        try:
            check_values(".".join(keys), declared, values)
        except OptionError as error:
            raise DataError(str(error), file=self.folder / CONFIG_FILE) from error
        return values

    @cached_property
    def base(self) -> SystemSummary:
        """Retriever that the changes start from; DataError if the run has no such ranking.

        For a pair of retriever and generator it is the retriever.
        """
        names = [system.name for system in self.summary.systems]
        baseline = self.summary.system(self.summary.baseline or "")
        # The baseline may be an app or stored answers without a run file: the first ranking serves.
        is_ranked = baseline is not None and baseline.ranking_of in self.rankings
        first = self.summary.baseline if is_ranked else next(iter(self.rankings), None)
        name = self.system or first or "the run"
        system = self.summary.system(name)
        if system is None and self.system is None:
            raise DataError("no stored ranking", file=self.folder, allowed="a run with a retriever")
        if system is None:
            near, allowed = nearest(name, names), ", ".join(names)
            raise DataError(
                f"no system {shown(name)}", file=self.folder, allowed=allowed, nearest=near
            )
        if (ranking := system.ranking_of) is None or ranking not in self.rankings:
            problem, ranked = f"'{name}' has no stored ranking", ", ".join(self.rankings) or "none"
            raise DataError(problem, file=self.folder, allowed=f"a system with one: {ranked}")
        return self.summary.system(ranking) or system

    @cached_property
    def rankings(self) -> Mapping[str, Path]:
        """Name of each ranking -> its run file, in the order of the systems; {} without any."""
        files = run_lines.ranking_files(self.folder, self.summary)
        # Pairs have the run file of their retriever: without this test, each would count as a
        # ranking.
        return {
            name: file for name, file in files.items() if file.stem == run_folder.file_name(name)
        }

    @cached_property
    def rows(self) -> Sequence[QuestionRow]:
        """All questions of the run; DataError if the file is missing or damaged."""
        path = self.folder / QUESTIONS_FILE
        return [row for _, row in run_folder.read_records(path, QuestionRow, "a question")]

    @property
    def questions(self) -> Sequence[QuestionRow]:
        """Questions that count: judged, and not known to have no answer; empty without any."""
        return [
            row for row, answerable in self._answerable if row.judged and answerable is not False
        ]

    @property
    def unanswerable(self) -> list[str]:
        """Ids of the questions without an answer."""
        return [row.query_id for row, answerable in self._answerable if answerable is False]

    @cached_property
    def _answerable(self) -> list[tuple[QuestionRow, bool | None]]:
        """Questions, each with True if it has an answer, False if not, None where nothing tells."""
        rows = self.rows
        judged = {row.query_id: dict(row.judged) for row in rows if row.judged}
        answers = {row.query_id: row.answers for row in rows}
        queries = [
            Query(row.query_id, row.question, self.metadata.get(row.query_id, {})) for row in rows
        ]
        relevant = self.rules.relevant
        is_answerable = answerable_questions(queries, answers, Qrels.from_dict(judged), relevant)
        return list(zip(rows, is_answerable, strict=True))

    @cached_property
    def metadata(self) -> Mapping[str, Mapping[str, Any]]:
        """Query -> metadata; empty if no query has any."""
        path = self.folder / run_folder.QUERIES_FILE
        return run_folder.read_query_metadata(path) if path.is_file() else {}

    @cached_property
    def rules(self) -> CauseRules:
        """Rules by which the run counts a question as right; DataError for a wrong value."""
        return CauseRules(**self.options(CauseRules, "causes"))

    @cached_property
    def passages(self) -> Mapping[str, int]:
        """Generator of the config -> number of passages that it reads; 5 if its entry has none.

        Generators that were passed as objects are absent. DataError if it is no whole number.
        """
        numbers = {}
        for name in self.block("generators"):
            number = self.block("generators", name).get("passages", DEFAULT_READ)
            if not isinstance(number, int):
                path, place = self.folder / CONFIG_FILE, f"generators.{name}.passages"
                raise DataError(shown(number), file=path, record=place, allowed="a whole number")
            numbers[name] = number
        return numbers

    @cached_property
    def causes(self) -> Mapping[str, Mapping[str, Any]]:
        """System -> query -> row of `causes.csv`; DataError if it is missing or damaged."""
        return run_lines.read_causes(self.folder / run_lines.CAUSES_FILE)

    def priced_run(self, reads: int | None = None) -> PricedRun:
        """Return the rankings with all that is known about their retrievers.

        `reads` is the number of passages that a generator reads after a change; None as many as
        now. DataError if a file is damaged, OptionError for more passages than hits are stored.
        """
        ids = [row.query_id for row in self.questions]
        gold = Qrels.from_dict(
            {
                row.query_id: {
                    name: 1 for name, grade in row.judged.items() if grade >= self.rules.relevant
                }
                for row in self.questions
            }
        )
        rules = self.options(RetrievalMetrics, "metrics", "retrieval")
        top_k = rules.get("top_k", 100)
        if reads is not None and reads > top_k:
            allowed = f"an integer from 1 to {top_k}, the stored hits of a question"
            raise OptionError("ragbench fix", "--passages", reads, allowed)
        runs = {name: read_run(path, name) for name, path in self.rankings.items()}
        rankings = StoredRankings(
            gold,
            runs,
            needs_all=self.rules.need == "all",
            ties=rules.get("ties", "docid"),
            trec_eval=rules.get("trec_eval", 10),
            failures={name: self._failures(name, ids) for name in runs},
        )
        retrievers = self.block("retrievers")
        fusible = list(self._fusible(retrievers))
        tokens = [estimate_tokens(text) for text in islice(self.texts.values(), _TEXTS)]
        return PricedRun(
            rankings,
            self.base.name,
            self.rules.read,
            reads or self.rules.read,
            top_k,
            seed=self.options(Top).get("seed", 0),
            confidence=self.summary.confidence,
            clusters=self.clusters(ids),
            sources={
                name: entry["retriever"]
                for name, entry in retrievers.items()
                # rm3 searches with its retriever, and reranks nothing
                if "retriever" in entry and entry.get("type") not in RETRIEVERS.table
            },
            fusible=fusible,
            weighable=[name for name in fusible if _ranks_by_score(retrievers[name])],
            latency_ms=self._latency(),
            passage_tokens=sum(tokens) / len(tokens) if tokens else None,
        )

    def _failures(self, name: str, ids: Sequence[str]) -> BoolArray:
        """Return True for each query of `ids` on which the retriever `name` failed, in order."""
        rows = self.causes.get(name, {})
        return np.array([q in rows and rows[q].cause == "failed" for q in ids], bool)

    def _fusible(self, retrievers: Mapping[str, Any]) -> Iterator[str]:
        """Yield the names of retrievers whose stored hits are those that a fusion would get.

        `retrievers` is the block of the config, name -> options; others are left out.
        """
        is_by_id = self.block("metrics", "retrieval", "match").get("level", "id") == "id"
        for name in self.rankings:
            passages = self.folder / "passages" / f"{run_folder.file_name(name)}.trec"
            entry = retrievers.get(name)
            # Matching and chunks rewrite ids after the search. A fusion would get the ids before
            # that.
            if is_by_id and entry is not None and "chunk" not in entry and not passages.is_file():
                yield name

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Document -> its text, as the run stored it; empty without texts, or for over 16 MB."""
        path = self.folder / TEXTS_FILE
        # Large files would make the command slow; without texts only repeats and tokens are
        # missing.
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return {}
        rows = run_folder.read_records(path, TextRow, "a text")
        return {row.id: row.text or "" for _, row in rows if row.system is None}

    def clusters(self, ids: Sequence[str]) -> list[str] | None:
        """Return the cluster of each query of `ids`; None if the run has no clusters.

        A query without the metadata is a cluster of its own. DataError if all queries lack the
        metadata of the clusters, also for no `ids`, or the file is damaged.
        """
        if (path := self.summary.cluster) is None:
            return None
        metadata = [self.metadata.get(query, {}) for query in ids]
        return clusters_by(path, ids, metadata, file=self.folder)[0]

    def _latency(self) -> dict[str, float]:
        """Return the median milliseconds of each retriever whose time is known."""
        times = {name: self.summary.timing.of(name).latency_ms for name in self.rankings}
        return {name: ms.p50 for name, ms in times.items() if ms is not None and ms.p50 is not None}


def _ranks_by_score(entry: Mapping[str, Any]) -> bool:
    """Return True for a built-in retriever whose scores a fusion gets as they are stored."""
    name = entry.get("type")
    # a class need not derive from `Retriever`, which has the default
    return name in RETRIEVERS.table and getattr(RETRIEVERS.load(str(name)), "ranks_by_score", False)


def list_fixes(reader: RunReader, reads: int | None = None) -> FixList:
    """Return the fix list of a run folder, its changes by their net gain, the best first.

    Args:
        reader: Reader of the folder.
        reads: Passages that a generator reads after a change of the ranking; None as many as now.

    Raises:
        DataError: There is no run or no such system, a file is damaged, or nothing is judged.
        OptionError: `reads` is more than the stored hits of a question.
    """
    if not reader.questions:
        raise DataError(
            "no judgements of a question with an answer: changes are counted by gold documents",
            file=reader.folder,
            allowed="a run of a data set with qrels",
        )
    priced = reader.priced_run(reads)
    changes, best = price_changes(priced)
    generators = answers_by_generator(reader.summary, reader.causes, priced, reader.passages)
    texts, unanswerable = reader.texts, reader.unanswerable
    query_ids = [*priced.query_ids, *unanswerable]
    further = (
        drop_near_duplicates(priced, texts) if texts else None,
        join_neighbours(priced),
        refuse_low_scores(priced, unanswerable, reader.clusters(query_ids)),
    )
    # The other changes alter the passages themselves or decline questions: the contract of the
    # generator, which is about gold in whole passages, says nothing about them.
    priced_changes = [*with_answers(changes, priced, generators), *filter(None, further)]
    return FixList(
        name=reader.summary.name,
        run_id=reader.summary.run_id,
        system=priced.base,
        read=priced.read,
        of=len(priced.query_ids),
        right=int(priced.right.sum()),
        confidence=priced.confidence,
        changes=tuple(sorted(priced_changes, key=lambda change: -change.net)),
        best=best,
        remaining=tuple(_losses(reader, priced)),
        groups=find_lost_groups(
            reader.rows,
            reader.metadata,
            reader.causes.get(reader.system or priced.base, {}),
            relevant=reader.rules.relevant,
            alpha=1 - priced.confidence,
            seed=priced.seed,
        ),
        contracts=tuple(
            answers.contract(name, priced.confidence) for name, answers in generators.items()
        ),
        labels={row.query_id: row.label for row in reader.questions if row.label != row.query_id},
        notes=(
            *_notes(reader, priced),
            *answer_notes(reader.summary, priced, generators),
        ),
    )


def list_fixes_of_page(folder: Path) -> FixList | None:
    """Return the fix list for the page of a run; None without judgements or rankings.

    Also None for rankings of over 16 MB: `ragbench fix` counts these too, but a page has to be
    quick. DataError as `list_fixes`.
    """
    reader = RunReader(folder)
    size = sum(file.stat().st_size for file in reader.rankings.values())
    if not 0 < size <= _LARGEST or not reader.questions:
        return None
    return list_fixes(reader)


def _losses(reader: RunReader, run: PricedRun) -> Iterator[RemainingLoss]:
    """Yield the losses that no change of the ranking rescues: corpus, rankings, generators."""
    causes = reader.causes.get(run.base, {})
    absent = [q for q in run.query_ids if q in causes and causes[q].cause == "not_in_corpus"]
    if absent:
        reason = "no gold document in the corpus"
        yield _loss(run.base, reason, CAUSE_CHANGES["not_in_corpus"], absent)
    depths = np.min([run.rankings.depths(name) for name in run.rankings.runs], axis=0)
    unranked = [run.query_ids[row] for row in np.flatnonzero(depths == NEVER).tolist()]
    # A question has one reason: what the corpus lacks is in no ranking either.
    if unranked := [query for query in unranked if query not in set(absent)]:
        reason = "gold in no stored ranking"
        yield _loss(run.base, reason, CAUSE_CHANGES["not_retrieved"], unranked)
    for system in reader.summary.systems:
        if system.ranking_of != run.base or system.generator is None or system.role != "system":
            continue
        rows = reader.causes.get(system.name, {})
        for cause in _OF_GENERATOR:
            queries = [query for query, row in rows.items() if row.cause == cause]
            if queries:
                yield _loss(system.name, cause.replace("_", " "), CAUSE_CHANGES[cause], queries)


def _loss(system: str, reason: str, advice: str, queries: Sequence[str]) -> RemainingLoss:
    return RemainingLoss(system=system, reason=reason, advice=advice, queries=tuple(queries))


def _notes(reader: RunReader, run: PricedRun) -> Iterator[str]:
    """Yield the limits of the counts, a sentence each."""
    n = sum(reader.summary.systems[0].causes.values()) - len(run.query_ids)
    if n > 0:
        yield f"questions without judgements or without an answer do not count: {n}"
    if any(row.spans for row in reader.questions):
        yield "gold spans count as their documents: `ragbench explain` has the causes by span"
    if len(run.rankings.runs) < 2:
        yield "the run has one ranking: a second retriever or a reranker in the config adds changes"
    elif len(run.fusible) < 2:
        yield "no fusions: hits are matched with documents, or cut into chunks"
    if run_folder.read_manifest(reader.folder).choices.limit is not None:
        yield "counts are those of the sample of --limit; another sample gives others"
