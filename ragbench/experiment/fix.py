"""Fix list of a run folder, counted from its files; nothing is run or imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count, islice, takewhile
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.comparison.cause_rules import CauseRules
from ragbench.comparison.slices import answerable_questions
from ragbench.config.schema import RetrievalMetrics, Top
from ragbench.data.runs import run_folder, run_lines
from ragbench.data.runs.query_view import (
    HITS_FOLDER,
    PASSAGES_FOLDER,
    QUESTIONS_FILE,
    REPEATS_FOLDER,
    TEXTS_FILE,
    QueryViews,
)
from ragbench.data.runs.run_list import CONFIG_FILE, read_config
from ragbench.errors import DataError, OptionError
from ragbench.experiment.fix_gold import StoredGold
from ragbench.experiment.fix_repeats import join_runs, per_question, query_of, repeat_id
from ragbench.experiment.plan.queries import clusters_by
from ragbench.fixes.changes import price_changes
from ragbench.fixes.lost_groups import find_lost_groups
from ragbench.fixes.priced_run import PricedRun
from ragbench.fixes.rankings import NEVER, StoredRankings
from ragbench.fixes.reading import drop_near_duplicates, join_neighbours, refuse_low_scores
from ragbench.generate.chat import estimate_tokens
from ragbench.records.cause_texts import CAUSE_CHANGES, OUTSIDE_POOL, part_to_change
from ragbench.records.causes import (
    NOT_LOST,
    AnswerCause,
    CauseRow,
    counted_cause,
    counts_all_gold,
    quantity,
)
from ragbench.records.codec import from_lines
from ragbench.records.comparison import Comparisons
from ragbench.records.fixes import FixList, PricedChange, RemainingLoss
from ragbench.records.manifest import HitsRow, QuestionRow, TextRow
from ragbench.records.summary import Summary, SystemSummary
from ragbench.registry import check_values, declared_options, nearest, quote
from ragbench.report.headline import lead_measure, leading_systems
from ragbench.report.text import questions
from ragbench.retrieve import RETRIEVERS
from ragbench.types import Qrels, Query, Run
from ragbench.types.lookups import item_names, select_keys
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

# Cause of a retriever -> reason of questions that no change of the ranking rescues
_REASONS: Mapping[AnswerCause, str] = {
    "not_in_corpus": "no gold document in the corpus",
    "wrong_passage": "gold passage in no stored ranking, its document is read",
    "not_retrieved": "gold in no stored ranking",
    "failed": "no ranking, as a call failed",
}


@dataclass
class RunReader:
    """Reader of the files of a run folder that the fix list counts.

    A file is read when a property needs it, and once. A file that is needed and missing, or
    damaged, is a DataError of the property. `priced_run` returns the rankings for `price_changes`,
    and raises OptionError for more passages than stored hits.

    Attributes:
        folder: The run folder.
        system: Name of the system that the changes start from; None for the first system of the
            headline with a stored ranking, or else the first ranking.
    """

    folder: Path
    system: str | None = None

    @cached_property
    def views(self) -> QueryViews:
        """Open files of the run; raises DataError if the summary is missing or damaged."""
        return QueryViews(self.folder, bare=True)

    @property
    def summary(self) -> Summary:
        """Summary of the run; errors are those of `views`."""
        return self.views.summary

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """Config as the run resolved it; raises DataError if it cannot be read."""
        config = read_config(self.folder, typed=True)
        for name in ("retrievers", "generators"):
            block = config.get(name) or {}
            if not (isinstance(block, dict) and all(isinstance(e, dict) for e in block.values())):
                path, allowed = self.folder / CONFIG_FILE, "what ragbench run writes"
                raise DataError("not a config", file=path, allowed=allowed)
        return config

    def block(self, *keys: str) -> Mapping[str, Any]:
        """Return a block of the config; empty if it is missing or no mapping.

        Raises DataError if the config cannot be read.
        """
        block: Any = self.config
        for key in keys:
            block = block.get(key) if isinstance(block, dict) else None
        return block if isinstance(block, dict) else {}

    def options(self, record: type, *keys: str) -> dict[str, Any]:
        """Return option -> value for the options of a record that a block of the config sets.

        `keys` lead to the block. Raises DataError for a value that is not allowed.
        """
        block, declared = self.block(*keys), declared_options(record)
        values = {}
        for name in declared:
            if name in block:
                values[name] = block[name]
        try:
            check_values(".".join(keys), declared, values)
        except OptionError as error:
            raise DataError(str(error), file=self.folder / CONFIG_FILE) from error
        return values

    @cached_property
    def base(self) -> SystemSummary:
        """Retriever that the changes start from; raises DataError if the run has no such ranking.

        For a pair of retriever and generator it is the retriever.
        """
        names = item_names(self.summary.systems)
        name = self.system or self._leader or next(iter(self.rankings), "the run")
        system = self.summary.system(name)
        if system is None and self.system is None:
            raise DataError("no stored ranking", file=self.folder, allowed="a run with a retriever")
        if system is None:
            near, allowed = nearest(name, names), ", ".join(names)
            raise DataError(
                f"no system {quote(name)}", file=self.folder, allowed=allowed, nearest=near
            )
        if (ranking := system.ranking_of) is None or ranking not in self.rankings:
            problem, ranked = f"'{name}' has no stored ranking", ", ".join(self.rankings) or "none"
            raise DataError(problem, file=self.folder, allowed=f"a system with one: {ranked}")
        return self.summary.system(ranking) or system

    @cached_property
    def comparisons(self) -> Comparisons:
        """Comparisons of the run; raises DataError if they are missing or damaged."""
        return run_folder.read_comparisons(self.folder)

    @cached_property
    def _leader(self) -> str | None:
        """Name of the first system of the headline that has a stored ranking; None without one."""
        measure = lead_measure(self.summary, self.comparisons)
        systems = [] if measure is None else leading_systems(measure, self.summary)
        for system in systems:
            if system.ranking_of in self.rankings:
                return system.name
        return None

    def verdicts(self) -> dict[str, bool]:
        """Return retriever -> True if the run shows that it finds more or fewer than `base`.

        The decisions are those of the run by `found@k` of the passages that are read, so that a
        change has the verdict of the tables. Retrievers that were not compared have none.
        """
        needs_all, verdicts = self.rules.need == "all", dict[str, bool]()
        for family in self.comparisons.measures:
            is_found = counted_cause(family.measure) == "found"
            is_read = family.measure.rpartition("@")[2] == str(self.rules.read)
            if not is_found or not is_read or counts_all_gold(family.measure) != needs_all:
                continue
            for name in self.rankings:
                pair = family.between(name, self.base.name)
                if pair is not None and pair.differs is not None:
                    verdicts[name] = pair.differs
        return verdicts

    @cached_property
    def rankings(self) -> Mapping[str, Path]:
        """Name of each ranking -> its run file, in the order of the systems."""
        files = run_lines.ranking_files(self.folder, self.summary)
        # Pairs have the run file of their retriever: without this test, each would count as a
        # ranking.
        is_own = run_folder.file_name
        rankings = {}
        for name, file in files.items():
            if file.stem == is_own(name):
                rankings[name] = file
        return rankings

    @cached_property
    def rows(self) -> Sequence[QuestionRow]:
        """All questions of the run, each with all its repetitions.

        Raises DataError if the file is missing or damaged.
        """
        path, repeated = self.folder / QUESTIONS_FILE, list[QuestionRow]()
        rows = [row for _, row in from_lines(path, QuestionRow, "a question")]
        for number in range(self.repeats):
            for row in rows:
                repeated.append(structs.replace(row, query_id=self._id(row.query_id, number)))
        return repeated

    @cached_property
    def repeats(self) -> int:
        """Number of repetitions in which each ranking comes equally often; 1 without repeats."""
        return lcm(*(len(files) for files in map(self._repeat_files, self.rankings)))

    def _repeat_files(self, name: str, folder: str = "rankings", end: str = "trec") -> list[Path]:
        """Return the files of a ranking in a folder, one for each of its repetitions."""
        first = self.folder / folder / f"{run_folder.file_name(name)}.{end}"
        further = first.parent / REPEATS_FOLDER
        files = (further / f"{first.stem}.{number}.{end}" for number in count(1))
        return [first, *takewhile(Path.is_file, files)]

    def _id(self, query: str, number: int) -> str:
        """Return the id of a repetition; that of the question if nothing is repeated."""
        return query if self.repeats == 1 else repeat_id(query, number)

    def _run(self, name: str, folder: str = "rankings") -> Run:
        """Return the ranking of each repetition of each question."""
        runs = [self.views.read_run(file) for file in self._repeat_files(name, folder)]
        return runs[0] if self.repeats == 1 else join_runs(runs, self.repeats)

    @property
    def unanswerable(self) -> list[str]:
        """Ids of the questions without an answer."""
        query_ids = []
        for row, answerable in self._answerable:
            if answerable is False:
                query_ids.append(row.query_id)
        return query_ids

    @cached_property
    def hits(self) -> Mapping[str, Mapping[str, HitsRow]]:
        """Ranking -> query -> its stored hits, for rankings that have them; see `HitsRow`."""
        hits: dict[str, dict[str, HitsRow]] = {}
        for name in self.rankings:
            if not self._hits_file(name).is_file():
                continue
            hits[name] = {}
            files = self._repeat_files(name, HITS_FOLDER, "jsonl")
            for number in range(self.repeats):
                file = files[number % len(files)]
                for _, row in from_lines(file, HitsRow, "the hits of a question"):
                    hits[name][self._id(row.query_id, number)] = row
        return hits

    def _hits_file(self, name: str) -> Path:
        return self.folder / HITS_FOLDER / f"{run_folder.file_name(name)}.jsonl"

    def _passages_file(self, name: str) -> Path:
        return self.folder / PASSAGES_FOLDER / f"{run_folder.file_name(name)}.trec"

    def retrieved(self, name: str) -> Run:
        """Return a ranking as it was retrieved, before its hits were folded or matched."""
        has_passages = self._passages_file(name).is_file()
        return self._run(name, PASSAGES_FOLDER if has_passages else "rankings").best_first()

    @cached_property
    def _answerable(self) -> list[tuple[QuestionRow, bool | None]]:
        """Questions, each with True if it has an answer, False if not, None where nothing tells."""
        rows = self.rows
        judged = {}
        for row in rows:
            if row.judged:
                judged[row.query_id] = dict(row.judged)
        answers = {row.query_id: row.answers for row in rows}
        queries = []
        for row in rows:
            metadata = self.metadata.get(query_of(row.query_id), {})
            queries.append(Query(row.query_id, row.question, metadata))
        relevant = self.rules.relevant
        is_answerable = answerable_questions(queries, answers, Qrels.from_dict(judged), relevant)
        return list(zip(rows, is_answerable, strict=True))

    @cached_property
    def gold(self) -> StoredGold:
        """Gold of the questions of which any ranking tells whether it is met."""
        gold = StoredGold(self.rows, self.hits, self.causes, self.rules)
        has_gold = np.zeros(len(self.rows), bool)
        for name in self.rankings:
            has_gold |= gold.doubts(name) > 0
        questions = []
        for row in np.flatnonzero(has_gold).tolist():
            questions.append(self.rows[row])
        return replace(gold, questions=questions)

    @property
    def n_bytes(self) -> int:
        """Size of the files that the counts of the rankings are made of."""
        files = [*self.rankings.values(), *map(self._hits_file, self.rankings)]
        return sum(file.stat().st_size for file in files if file.is_file())

    @cached_property
    def metadata(self) -> Mapping[str, Mapping[str, Any]]:
        """Query -> metadata; empty if no query has any."""
        path = self.folder / run_folder.QUERIES_FILE
        return run_folder.read_query_metadata(path) if path.is_file() else {}

    @cached_property
    def rules(self) -> CauseRules:
        """Rules by which the run counts a question as found; raises DataError for a wrong value."""
        return CauseRules(**self.options(CauseRules, "causes"))

    @cached_property
    def causes(self) -> Mapping[str, Mapping[str, Any]]:
        """System -> repetition of a query -> row of `causes.csv`.

        Raises DataError if the file is missing or damaged.
        """
        causes: dict[str, dict[str, CauseRow]] = {}
        for system, of_system in self.views.cause_rows.items():
            causes[system] = {}
            for query, rows in of_system.items():
                for number in range(self.repeats):
                    causes[system][self._id(query, number)] = rows[number % len(rows)]
        return causes

    def priced_run(self, reads: int | None = None) -> PricedRun:
        """Return the rankings with all that is known about their retrievers.

        `reads` is the number of passages that a generator reads after a change; None as many as
        now. Raises DataError if a file is damaged or files contradict each other, OptionError for
        more passages than hits are stored, or are searched for gold answers.
        """
        rules = self.options(RetrievalMetrics, "metrics", "retrieval")
        deepest, stored = rules.get("top_k", 100), "the stored hits of a question"
        if self.gold.has_answers and self.rules.searched < deepest:
            deepest, stored = self.rules.searched, "the hits that are searched for gold answers"
        if reads is not None and reads > deepest:
            allowed = f"an integer from 1 to {deepest}, {stored}"
            raise OptionError("ragbench fix", "--passages", reads, allowed)
        gold = self.gold
        ids = gold.documents.query_ids
        runs = {name: self._run(name) for name in self.rankings}
        rankings = StoredRankings(
            gold.documents,
            runs,
            needs_all=self.rules.need == "all",
            ties=rules.get("ties", "docid"),
            trec_eval=rules.get("trec_eval", 10),
            failures={name: self._failures(name, ids) for name in runs},
            hits=self.hits,
            doubts={name: gold.doubts(name) for name in runs},
        )
        self._check_causes(rankings)
        retrievers = self.block("retrievers")
        obstacles = self.fusion_obstacles(rankings)
        fusible = []
        for name, reason in obstacles.items():
            if not reason:
                fusible.append(name)
        tokens = []
        for text in islice(self.texts.values(), _TEXTS):
            tokens.append(estimate_tokens(text))
        sources = {}
        for name, entry in retrievers.items():
            # rm3 searches with its retriever, and reranks nothing
            if "retriever" in entry and entry.get("type") not in RETRIEVERS.table:
                sources[name] = entry["retriever"]
        weighable = []
        for name in fusible:
            if _ranks_by_score(retrievers[name]):
                weighable.append(name)
        return PricedRun(
            rankings,
            self.base.name,
            self.rules.read,
            reads or self.rules.read,
            deepest,
            seed=self.options(Top).get("seed", 0),
            confidence=self.summary.confidence,
            clusters=self.clusters(ids),
            verdicts=self.verdicts(),
            sources=sources,
            fusible=fusible,
            weighable=weighable,
            latency_ms=self._latency(),
            passage_tokens=sum(tokens) / len(tokens) if tokens else None,
            characters=self._characters(),
        )

    def _failures(self, name: str, ids: Sequence[str]) -> BoolArray:
        """Return True for each query of `ids` on which the retriever `name` failed, in order."""
        rows = self.causes.get(name, {})
        failed = set()
        for query, row in rows.items():
            if row.cause == "failed":
                failed.add(query)
        return np.array([query in failed for query in ids], bool)

    def _check_causes(self, rankings: StoredRankings) -> None:
        """Raise DataError unless as many questions are found as `causes.csv` has as found."""
        for system in self.summary.systems:
            name = system.name
            if system.type != "retriever" or name not in rankings.runs:
                continue
            causes = {}
            for query, row in self.causes.get(name, {}).items():
                causes[query] = row.cause
            n_found = sum(cause in NOT_LOST for cause in causes.values())
            with_gold = self.gold.queries_with_gold(name)
            n_known = 0
            for query, cause in causes.items():
                # what no ranking can find is not counted, though it failed or is not in the corpus
                can_be_met = query in with_gold or cause not in ("failed", "not_in_corpus")
                n_known += can_be_met and cause != "unknown"
            n_met = int((rankings.depths(name) <= self.rules.read).sum())
            n_questions = int(rankings.is_clear(name, self.rules.read).sum())
            if (n_met, n_questions) != (n_found, n_known):
                hits = f"its hits {n_met} of {n_questions}"
                problem = f"'{name}' finds {n_found} of {n_known}, and {hits}"
                path, allowed = self.folder / run_lines.CAUSES_FILE, "the files of one whole run"
                raise DataError(problem, file=path, allowed=allowed)

    def fusion_obstacles(self, rankings: StoredRankings) -> dict[str, str]:
        """Return ranking -> the reason why no fusion with it is counted; "" where fusions are."""
        match = self.block("metrics", "retrieval", "match").get("level", "id")
        retrievers, obstacles = self.block("retrievers"), dict[str, str]()
        for name in self.rankings:
            entry = retrievers.get(name)
            # Matching and chunks rewrite ids after the search. A fusion would get the ids before
            # that.
            if entry is None:
                obstacles[name] = "the config has no such retriever"
            elif match != "id" or "chunk" in entry or self._passages_file(name).is_file():
                obstacles[name] = "hits are passages"
            else:
                obstacles[name] = self.gold.fusion_obstacle(name, rankings)
        return obstacles

    @cached_property
    def _text_rows(self) -> Sequence[TextRow]:
        """Stored texts; none for over 16 MB."""
        path = self.folder / TEXTS_FILE
        # Large files would make the command slow; without texts only repeats and tokens are
        # missing.
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return []
        return [row for _, row in from_lines(path, TextRow, "a text")]

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Document -> its text, as the run stored it; empty without texts, or for over 16 MB."""
        texts = {}
        for row in self._text_rows:
            if row.system is None:
                texts[row.id] = row.text or ""
        return texts

    def text_of(self, query: str, name: str) -> str | None:
        """Return the text of a hit of the retriever that the changes start from; None without."""
        return self._own_texts.get((query_of(query), name), self.texts.get(name))

    @cached_property
    def _own_texts(self) -> Mapping[tuple[str | None, str], str]:
        """(Query, id) -> text of a hit, where another ranking has another text by this id."""
        texts = {}
        for row in self._text_rows:
            if row.system == self.base.name:
                texts[(row.query_id, row.id)] = row.text or ""
        return texts

    def clusters(self, ids: Sequence[str]) -> list[str] | None:
        """Return the cluster of each query of `ids`; None if the run has no clusters.

        A query without the metadata is a cluster of its own. Raises DataError if all queries lack
        the metadata of the clusters, also for no `ids`, or the file is damaged.
        """
        if (path := self.summary.cluster) is None:
            # repetitions of a question are no further questions
            return None if self.repeats == 1 else [query_of(name) for name in ids]
        metadata = []
        for name in ids:
            metadata.append(self.metadata.get(query_of(name), {}))
        return clusters_by(path, ids, metadata, file=self.folder)[0]

    def _characters(self) -> dict[str, float]:
        """Return the characters that each ranking gives to read; empty if about as many."""
        characters = {}
        for system in self.summary.systems:
            if system.name in self.rankings and system.reading is not None:
                characters[system.name] = system.reading.characters
        return characters

    def _latency(self) -> dict[str, float]:
        """Return the median milliseconds of each retriever whose time is known."""
        medians: dict[str, float] = {}
        for name in self.rankings:
            ms = self.summary.timing.of(name).latency_ms
            if ms is not None and ms.p50 is not None:
                medians[name] = ms.p50
        return medians


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
        DataError: There is no run or no such system, a file is damaged, or no question has gold.
        OptionError: `reads` is more than the hits of a question that can be counted.
    """
    priced = reader.priced_run(reads)
    if not priced.counts.any():
        raise DataError(
            f"no question has gold that '{priced.base}' can find: changes are counted by it",
            file=reader.folder,
            allowed="a run of a data set with qrels, quotes or gold answers",
        )
    return _fix_list(reader, priced)


def list_fixes_of_page(views: QueryViews) -> FixList | None:
    """Return the fix list for the page of a run from its open files; None without gold or rankings.

    Also None for rankings of over 16 MB: `ragbench fix` counts these too, but a page has to be
    quick.
    """
    reader = RunReader(views.folder)
    reader.views = views
    if not 0 < reader.n_bytes <= _LARGEST:
        return None
    priced = reader.priced_run()
    return _fix_list(reader, priced) if priced.counts.any() else None


def _fix_list(reader: RunReader, priced: PricedRun) -> FixList:
    """Return the fix list of rankings with a question that counts."""
    changes, best = price_changes(priced)
    causes = reader.causes.get(reader.system or priced.base, {})
    if reader.system in (None, priced.base):
        counted = {*priced.counted_ids}
        causes = select_keys(causes, counted)
    more_changes, more_notes = _changes_of_code(reader, priced)
    rows, causes = _shown_rows(reader.rows, causes)
    labels = {}
    for row in rows:
        if row.label != row.query_id:
            labels[row.query_id] = row.label
    fixes = FixList(
        name=reader.summary.name,
        run_id=reader.summary.run_id,
        system=priced.base,
        read=priced.read,
        of=int(priced.counts.sum()),
        found=int(priced.is_found.sum()),
        confidence=priced.confidence,
        changes=tuple(sorted([*changes, *more_changes], key=lambda change: -change.net)),
        best=best,
        remaining=tuple(_losses(reader, priced)),
        groups=find_lost_groups(
            rows,
            reader.metadata,
            causes,
            relevant=reader.rules.relevant,
            alpha=1 - priced.confidence,
            seed=priced.seed,
        ),
        labels=labels,
        notes=(*_notes(reader, priced), *more_notes),
    )
    return per_question(fixes, reader.repeats)


def _shown_rows(
    rows: Sequence[QuestionRow], causes: Mapping[str, CauseRow]
) -> tuple[Sequence[QuestionRow], Mapping[str, CauseRow]]:
    """Return the questions without repetitions, and the causes of lost repetitions by question."""
    questions, of_query = dict[str, QuestionRow](), dict[str, list[CauseRow]]()
    for row in rows:
        query = query_of(row.query_id)
        questions.setdefault(query, structs.replace(row, query_id=query))
        if row.query_id in causes:
            of_query.setdefault(query, []).append(causes[row.query_id])
    first_lost = {query: run_lines.shown_row(of_one) for query, of_one in of_query.items()}
    return list(questions.values()), first_lost


def _changes_of_code(reader: RunReader, run: PricedRun) -> tuple[list[PricedChange], list[str]]:
    """Return (changes that no config states, reasons why others of them cannot be counted)."""
    ids = {*run.counted_ids}
    unanswerable = []
    for query in reader.unanswerable:
        if query not in ids:
            unanswerable.append(query)
    refusal = None
    if unanswerable:
        clusters = reader.clusters([*run.counted_ids, *unanswerable])
        refusal = refuse_low_scores(run, reader.retrieved(run.base), unanswerable, clusters)
    repeats = drop_near_duplicates(run, reader.text_of) if reader.texts else None
    changes = (repeats, join_neighbours(run), refusal)
    priced, reasons = [], []
    for change in changes:
        if isinstance(change, PricedChange):
            priced.append(change)
        elif isinstance(change, str):
            reasons.append(change)
    return priced, reasons


def _losses(reader: RunReader, run: PricedRun) -> Iterator[RemainingLoss]:
    """Yield the losses that no change of the ranking rescues: corpus, rankings, generators."""
    yield from _losses_of_retrieval(reader, run)
    for system in reader.summary.systems:
        is_answered = system.generator is not None and system.role == "system"
        if is_answered and system.ranking_of == run.base:
            yield from _losses_of_generator(system.name, reader)


def _losses_of_retrieval(reader: RunReader, run: PricedRun) -> Iterator[RemainingLoss]:
    """Yield the losses of questions whose gold is not in the corpus or in no ranking."""
    causes = reader.causes.get(run.base, {})
    depths = np.min([run.rankings.depths(name) for name in run.rankings.runs], axis=0)
    unranked = set()
    for row in np.flatnonzero(depths == NEVER).tolist():
        unranked.add(run.query_ids[row])
    queries_of: dict[AnswerCause, list[str]] = {cause: [] for cause in _REASONS}
    outside_pool = list[str]()
    for query in run.counted_ids:
        cause: AnswerCause = causes[query].cause if query in causes else "unknown"
        # A question has one reason: what the corpus lacks is in no ranking either.
        if cause == "not_in_corpus":
            is_outside_pool = causes[query].why.endswith(OUTSIDE_POOL)
            (outside_pool if is_outside_pool else queries_of[cause]).append(query)
        elif query in unranked:
            queries_of[cause if cause in _REASONS else "not_retrieved"].append(query)
    if outside_pool:
        advice = part_to_change("not_in_corpus", OUTSIDE_POOL)
        yield _loss(run.base, "gold documents outside the pool", advice, outside_pool)
    for cause, reason in _REASONS.items():
        if queries := queries_of[cause]:
            yield _loss(run.base, reason, CAUSE_CHANGES[cause], queries)


def _losses_of_generator(system: str, reader: RunReader) -> Iterator[RemainingLoss]:
    """Yield the losses of a system by causes of its generator."""
    rows = reader.causes.get(system, {})
    for cause in _OF_GENERATOR:
        queries = []
        for query, row in rows.items():
            if row.cause == cause:
                queries.append(query)
        if queries:
            yield _loss(system, cause.replace("_", " "), CAUSE_CHANGES[cause], queries)


def _loss(system: str, reason: str, advice: str, queries: Sequence[str]) -> RemainingLoss:
    return RemainingLoss(system=system, reason=reason, advice=advice, queries=tuple(queries))


def _notes(reader: RunReader, run: PricedRun) -> Iterator[str]:
    """Yield the limits of the counts, a sentence each."""
    n = Fraction(len(reader.rows) - int(run.counts.sum()), reader.repeats)
    if n > 0:
        text = questions(quantity(n))
        yield f"questions whose gold is not known, or that have none, do not count: {text}"
    if reader.gold.has_answers and run.deepest == reader.rules.searched:
        yield f"gold answers are looked for in {run.deepest} hits: no change that reads more counts"
    if run.rankings.perfect(run.base, run.deepest, run.read) is None:
        yield "no perfect reranker: a passage may have several of the gold spans that are needed"
    if reader.repeats > 1:
        share = "each repetition of a ranking counts as its share of a question"
        yield f"{share}; groups have the questions that are lost at least once"
    if len(run.rankings.runs) < 2:
        yield "the run has one ranking: a second retriever or a reranker in the config adds changes"
    else:
        reasons = dict[str, list[str]]()
        for name, reason in reader.fusion_obstacles(run.rankings).items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            if reason:
                yield f"no fusions with {', '.join(names)}: {reason}"
    if run_folder.read_manifest(reader.folder).choices.limit is not None:
        yield "counts are those of the sample of --limit; another sample gives others"
