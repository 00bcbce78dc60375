"""Stage that scores the rankings of a system by qrels and gold answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from msgspec import structs

from ragbench.comparison.forbidden import forbidden_ranks
from ragbench.comparison.gold import GoldPiece
from ragbench.comparison.passage_places import PlacedRankings
from ragbench.experiment import records
from ragbench.experiment.calls import FileRankings, without_value
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.stages import keys
from ragbench.experiment.stages.base import Keep, Outputs, Slot, Stage, Step
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.model_judgements import Judgements
from ragbench.experiment.stages.ranking_scorer import RankingScorer
from ragbench.experiment.stages.retrieval import BuildRanking
from ragbench.records.codec import from_line
from ragbench.records.columns import ColumnRow, column_row, read_column_row
from ragbench.records.score import RunCounts
from ragbench.score.base import Advance
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.text.gold_words import GoldWords
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Cause, ScoreColumn
from ragbench.types.byte_ids import ByteIds, as_bytes
from ragbench.types.json_fields import Prose, Record
from ragbench.types.lookups import take_items


class _StoredColumn(Record):
    """Column of a measure as it is stored."""

    column: ColumnRow
    # numbers of queries and hits of the ranking; None without qrels
    counts: RunCounts | None = None
    # warnings about passages without text, or without a place in a document
    warnings: tuple[Prose, ...]


# Column of a measure, and the item that it was read from.
RankingItem = tuple[ScoreColumn, _StoredColumn]


@dataclass(frozen=True, slots=True)
class RankingScores:
    """Scores of a ranking.

    Attributes:
        columns: Measure -> its column.
        counts: Numbers of queries and hits of the ranking; None without qrels.
        warnings: Warnings about passages without text, or without a place in a document.
    """

    columns: Mapping[str, ScoreColumn] = field(default_factory=dict)
    counts: RunCounts | None = None
    warnings: Sequence[str] = ()


class ScoreRanking(Stage[Sequence[RankingScores]]):
    """Stage that scores the rankings of a system by every measure of the plan, each by itself.

    It has a slot per ranking and measure, ranking by ranking. Its output has the scores of each
    ranking; it is empty for an app without passages.
    """

    kind, version = "score", 4
    unit = "measures"

    def __init__(
        self,
        plan: Plan,
        system: System,
        ranks: Sequence[BuildRanking],
        judgements: Stage[Judgements],
    ) -> None:
        super().__init__(plan, f"score {system.name}", (*ranks, judgements), ranks[0].under)
        self.system, self._ranks, self._judgements = system, ranks, judgements

    def _rankings(self, inputs: Outputs) -> list[records.RetrieverRun]:
        """Return the rankings of the system; [] where any repetition has no passages."""
        rankings = take_items(inputs, self._ranks)
        present = []
        for ranking in rankings:
            if ranking is not None:
                present.append(ranking)
        return present if len(present) == len(rankings) else []

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return a slot for each ranking and measure; none without a ranking."""
        slots = list[Slot | None]()
        if not self.plan.measures:
            return slots
        for ranking in self._rankings(inputs):
            group = self.group(ranking.name, self._key_parts(ranking, inputs[self._judgements]))
            for name in self.plan.measures:
                slots.append(Slot(group, name + keys.own_code(name), len(slots)))
        return slots

    def _key_parts(self, ranking: records.RetrieverRun, judgements: Judgements) -> list[str]:
        """Return the parts of the key: code, rules, ranking, qrels, gold answers and corpus."""
        # the measures are the keys of the items
        rules, causes = self.plan.config.metrics.retrieval, self.plan.config.causes
        fingerprint_of = self.plan.collection.fingerprint
        return [
            # any change of a measure's module makes all its columns again
            keys.code_in("ragbench.score.retrieval"),
            # the measures are keys of the items: another one leaves the others stored
            repr(replace(rules, measures=None)),
            ranking.name,
            fingerprint(_ranking_pieces(ranking, self.plan.ids), keys.KEY_DIGITS),
            fingerprint(_bytes_of(as_bytes(ranking.run.query_ids))),
            "none" if judgements.qrels is None else judgements.qrels.fingerprint(),
            repr(judgements.source),
            fingerprint_of("answers") or "none",
            fingerprint_of("spans") or "none",
            fingerprint_of("forbidden") or "none",
            fingerprint_of("corpus") or "none",
            *map(keys.code_of, (PlacedRankings, forbidden_ranks)),
            # gold is met by the rules of causes, and the words of gold answers by the question
            *map(keys.code_of, (GoldFacts, GoldPiece, GoldWords)),
            repr((causes.relevant, causes.words, causes.searched)),
            fingerprint_of("queries") or "none",
            *_pool_parts(self.plan).values(),
        ]

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Score the rankings by the measures of some slots.

        A query whose retrieval failed has its cause, without a value.

        Raises:
            AdapterError: A measure of the user fails.
            DataError: The qrels lack subtopics, or no passage has a text, and a measure reads them.
        """
        rankings, n = self._rankings(inputs), len(self.plan.measures)
        for number, positions in groupby(todo, lambda position: position // n):
            self._score(rankings[number], [*positions], inputs[self._judgements], keep)
        advance(len(todo))

    def _score(
        self,
        ranking: records.RetrieverRun,
        positions: Sequence[int],
        judgements: Judgements,
        keep: Keep,
    ) -> None:
        """Score a ranking by the measures of its slots, and keep each column."""
        scorer = RankingScorer(self.plan, ranking, judgements)
        names = []
        for position in positions:
            names.append(self.plan.measures[position % len(self.plan.measures)])
        measures = parse_measures(names)
        columns, counts, warnings = scorer.score(measures)
        failed = dict(without_value(ranking.outcomes))
        for position, measure in zip(positions, measures, strict=True):
            column = columns[measure.label]
            # without a cut-off, the depth of the ranking is part of the signature
            if measure.k is None:
                top_k = self.plan.config.metrics.retrieval.top_k
                column = replace(column, signature=column.signature.with_parts(top_k=top_k))
            pools = _pool_parts(self.plan)
            column = replace(column, signature=column.signature.with_parts(**pools))
            row = column_row(records.with_failures(column, failed))
            keep(position, _StoredColumn(column=row, counts=counts, warnings=warnings))

    def read(self, line: bytes) -> RankingItem:
        """Return (column of a stored line, the record of the line).

        Raises a DataError, ValueError or LookupError for another form.
        """
        item = from_line(_StoredColumn, line)
        return read_column_row(item.column), item

    def output(
        self, inputs: Outputs, values: Sequence[RankingItem | None]
    ) -> Sequence[RankingScores]:
        """Return the columns of each ranking that are made, with their counts and warnings.

        Where no hit has a known id, measures of ids have the cause `UNKNOWN_IDS` for all queries.
        """
        n, rankings = len(self.plan.measures), self._rankings(inputs)
        scores = []
        for number, ranking in enumerate(rankings):
            scores.append(self._scores_of(ranking, values[number * n : (number + 1) * n]))
        return scores

    def _scores_of(
        self, ranking: records.RetrieverRun, values: Sequence[RankingItem | None]
    ) -> RankingScores:
        """Return the scores of one ranking from the values of its slots."""
        columns, counts, warnings = dict[str, ScoreColumn](), list[RunCounts](), dict[str, None]()
        for name, value in zip(self.plan.measures, values, strict=False):
            if value is None:
                continue
            columns[name], item = value
            warnings |= dict.fromkeys(item.warnings)
            if item.counts:
                counts.append(item.counts)
        for measure in parse_measures(self.plan.measures) if ranking.has_unknown_ids else ():
            if measure.spec.reads_ids and measure.label in columns:
                column = columns[measure.label]
                columns[measure.label] = column.without_scores(True, Cause.UNKNOWN_IDS)
        return RankingScores(columns, _joined_counts(counts), [*warnings])

    def add(self, outputs: Outputs, results: records.Results) -> None:
        """Add the columns, counts and warnings to the results; nothing without a ranking.

        Counts and warnings are those of the first ranking.
        """
        scores = outputs[self]
        if not scores:
            return
        results.add_scores(self.system, {}, "retrieval", scores[0].counts)
        parts = {} if self._ranks[0].retrieve is None else self._ranks[0].retrieve.signed
        for name in scores[0].columns:
            columns = []
            for of_ranking in scores:
                column = of_ranking.columns[name]
                columns.append(replace(column, signature=column.signature.with_parts(**parts)))
            results.add_samples(self.system, name, columns, "retrieval")
        results.warnings += scores[0].warnings

    def step(self, outputs: Outputs, work: records.Work | None) -> Step | None:
        """Return a step with the number of stored columns; None for apps and recorded systems.

        Whether those have a ranking is known in a run only. None too without measures.
        """
        if self._ranks[0].retrieve is None or not self.plan.measures:
            return None
        return self.node(work, len(self.plan.measures) * len(self._ranks))


def _pool_parts(plan: Plan) -> dict[str, str]:
    """Return the parts of a signature about the pools of the queries; {} without pools."""
    fingerprint_of_pools = plan.collection.fingerprint("pools")
    if fingerprint_of_pools is None:
        return {}
    return {"pool": fingerprint_of_pools, "statistics": plan.collection.pool_statistics}


def _joined_counts(counts: Sequence[RunCounts]) -> RunCounts | None:
    """Return the counts of one run from those of its measures; None without any."""
    # measures may be stored by several runs, each with the grades of its own measures
    if not counts:
        return None
    without_grade = {}
    for of_one in counts:
        for grade, n in of_one.without_grade.items():
            without_grade[grade] = n
    return structs.replace(counts[0], without_grade=without_grade)


def _ranking_pieces(
    ranking: records.RetrieverRun, query_ids: Sequence[str]
) -> Iterator[str | bytes]:
    """Yield the ids, scores, texts, metadata and causes of a ranking, to hash them."""
    if isinstance(ranking.outcomes, FileRankings):
        run = ranking.outcomes.run(ranking.name)
        yield from ("recorded", run.starts.tobytes(), run.scores.tobytes())
        for ids in (ranking.outcomes.query_ids, run.query_ids, run.documents):
            yield from _bytes_of(as_bytes(ids))
        return
    for query, outcome in zip(query_ids, ranking.outcomes, strict=True):
        yield from (query, outcome.cause.word, outcome.detail)
        for hit in () if outcome.value is None else outcome.value.documents:
            yield from (hit.id, repr(hit.score), hit.title or "", hit.text or "")
            if hit.metadata:
                yield fingerprint_json(dict(hit.metadata))


def _bytes_of(ids: ByteIds) -> list[bytes]:
    """Return the arrays of packed ids as bytes, to hash them: starts, lengths, then data."""
    return [column.tobytes() for column in (ids.starts, ids.lengths, ids.data)]
