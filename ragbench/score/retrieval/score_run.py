"""Scores of a run: a column of values and causes per measure, and counts of queries.

Measures read records, each created once from the ranking and the judgements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import structs

from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.records.score import RunCounts
from ragbench.registry import Option, OptionSet, check_values, declared_options, quote
from ragbench.score.base import ROUNDING
from ragbench.score.retrieval import base
from ragbench.score.retrieval.found import MetGold
from ragbench.score.retrieval.judgements import as_qrels
from ragbench.score.retrieval.leak import ForbiddenRanks
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.positions import TieGroups, number_groups
from ragbench.score.retrieval.ranking import Ties, TrecEval, rank
from ragbench.signature import Signature, fingerprint_unordered
from ragbench.types import Cause, CauseArray, FloatArray, Qrels, Run, ScoreColumn
from ragbench.types.columnar import QueryFingerprints
from ragbench.types.rows import borders
from ragbench.types.score_column import UPPER_LIMIT
from ragbench.types.score_order import NO_STEPS, ScoreSteps
from ragbench.types.spans import spans_fingerprint

# Forms of judgements with subtopics.
SUBTOPICS_ALLOWED = (
    "a fourth column 'subtopic' in BEIR qrels, TREC diversity qrels, or "
    "{query: {document: {subtopic: grade}}}"
)

Missing = Literal["zero", "skip"]
NoRelevant = Literal["skip", "zero"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Records of a run and its judgements, one for each kind that measures read.

    `gather` creates it.

    Attributes:
        grades: Grades in rank order; the rules for queries without a value read them too.
        subtopics: Subtopics of each query; empty if no measure reads them.
        judged_share: Share of the retrieved documents with a judgement, 0 to 1, before unjudged
            ones are removed; None if no document was retrieved.
        fingerprints: Kind of record -> signature parts of the judgements that its measures read:
            `qrels`, and for `subtopics` also `subtopics`. A kind without a record is left out.
        unknown: Number of queries of the run that the qrels lack.
        duplicates: Number of hits that repeat a document of their query, and were dropped.
        steps: Steps between the scores of neighbouring hits, in the order of the input.
    """

    grades: base.RankedGrades
    subtopics: Sequence[base.RankedSubtopics]
    judged_share: float | None
    fingerprints: Mapping[base.Reads, Mapping[str, str | None]]
    unknown: int
    duplicates: int
    steps: ScoreSteps = NO_STEPS


def reads_subtopics(measures: Sequence[Measure], qrels: Qrels, ties: Ties) -> bool:
    """Return True if a measure reads subtopics; False for no measures.

    Raises:
        OptionError: A measure reads texts or places of passages, or cannot average over ties where
            `ties` is average.
        DataError: A measure reads subtopics, and the qrels have none.
    """
    for measure in measures:
        if not (measure.spec.reads_ids or measure.spec.reads == "gold"):
            allowed = (
                f"measures of a run and qrels; it needs {measure.spec.needs}: name it under "
                "metrics.retrieval.measures of a config"
            )
            raise OptionError("measure", "", measure.label, allowed)
        if ties == "average" and not measure.spec.averages_ties:
            raise base.no_average(measure.spec.name)
    reader = next((measure for measure in measures if measure.spec.reads == "subtopics"), None)
    if reader is not None and qrels.subtopics is None:
        problem = f"{reader.label} needs subtopics, and the judgements have none"
        raise DataError(problem, allowed=SUBTOPICS_ALLOWED)
    return reader is not None


def gather(
    ranked: base.RankedGrades,
    qrels: Qrels,
    *,
    with_subtopics: bool,
    judged_only: bool = False,
    unknown: int = 0,
    duplicates: int = 0,
    steps: ScoreSteps = NO_STEPS,
) -> Evidence:
    """Return the records of a ranking, with subtopics if asked for, in the order of the queries.

    `qrels` are those of the ranking. `judged_only` removes unjudged documents first. The judged
    share is taken before. `unknown`, `duplicates` and `steps` are those of `Evidence`.
    """
    prints: dict[base.Reads, dict[str, str | None]] = {"grades": {"qrels": qrels.fingerprint()}}
    # judgements alone are whole documents
    prints["gold"] = prints["grades"]
    n_retrieved = int(ranked.n_retrieved.sum())
    judged_share = len(ranked.grades) / n_retrieved if n_retrieved else None
    if judged_only:
        ranked = without_unjudged(ranked)
    if not with_subtopics:
        return Evidence(ranked, (), judged_share, prints, unknown, duplicates, steps)
    prints["subtopics"] = {**prints["grades"], "subtopics": qrels.subtopics_fingerprint}
    hits = list(zip(ranked.rank.tolist(), ranked.rows.tolist(), strict=True))
    borders = ranked.starts.tolist()
    topics = qrels.subtopics or {}
    subtopics = []
    for query, start, end in zip(ranked.query_ids, borders, borders[1:], strict=False):
        subtopics.append(
            base.RankedSubtopics.at_ranks(
                {rank: qrels.documents[row] for rank, row in hits[start:end]},
                _relevant(topics.get(query, {})),
            )
        )
    return Evidence(ranked, subtopics, judged_share, prints, unknown, duplicates, steps)


def _relevant(judged: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Return document -> subtopics with a grade of 1 or above."""
    subtopics: dict[str, list[str]] = {}
    for document, topics in judged.items():
        subtopics[document] = [topic for topic, grade in topics.items() if grade >= 1]
    return subtopics


def without_unjudged(ranked: base.RankedGrades) -> base.RankedGrades:
    """Return the rankings without documents that have no grade, or a negative one.

    The other documents move up; a ranking may become empty. Tie groups lose these documents too;
    the input is not changed.

    Example:
        `new` is not judged, so `b` stands at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 0, "b": 1}}, {"q": {"a": 9, "new": 8, "b": 7}})
        >>> judged = without_unjudged(ranked)
        >>> judged.rank, judged.n_retrieved
        (array([1, 2]), array([2]))
    """
    rows = np.flatnonzero(ranked.grades >= 0)
    query = ranked.query[rows]
    counts = np.bincount(query, minlength=ranked.n_queries)
    starts = borders(counts.tolist(), ranked.n_queries)
    rank = np.arange(1, len(rows) + 1) - starts[query]
    # tied documents stay neighbours: a group is what remains of it
    edges, group = number_groups(query, ranked.ties.first[rows])
    return replace(
        ranked,
        query=query,
        rank=rank,
        grades=ranked.grades[rows],
        rows=ranked.rows[rows],
        starts=starts,
        n_retrieved=counts,
        ties=TieGroups(rank[edges[:-1]][group], rank[edges[1:] - 1][group]),
    )


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """Scores of a run by each measure, query by query.

    `score_run` and `score_ranked` create it; the latter from rankings, without `fingerprints`
    and `ranked`.

    Attributes:
        columns: One column per measure, in the order of the request, with the caller's names.
        query_ids: Query of each row: those of the qrels, in their order.
        counts: Counts of queries and repeated documents.
        fingerprints: Fingerprints of the judgements of each query; empty for rankings.
        ranked: Ranking before unjudged documents were removed; None for rankings.
        steps: Steps between the scores of neighbouring hits of the run.
    """

    columns: list[ScoreColumn]
    query_ids: tuple[str, ...]
    counts: RunCounts
    fingerprints: QueryFingerprints = field(default_factory=dict, repr=False)
    ranked: base.RankedGrades | None = field(default=None, repr=False)
    steps: ScoreSteps = NO_STEPS


class ScoringRules(OptionSet):
    """Rules of scoring that a config sets under `metrics.retrieval`; see `rank` and `score_run`.

    `missing` is `zero`, which scores an empty ranking, or `skip`, which gives no value.
    `no_relevant` is `skip`, or `zero`, which gives the lowest value of the measure or its own value
    for such queries; `without_relevant` returns the default. Only `Rules` checks the values.
    """

    ties: Annotated[Ties, Option("Order of documents with equal scores.")] = "docid"
    trec_eval: Annotated[TrecEval, Option("Version of trec_eval whose rounding is used.")] = 10
    missing: Annotated[Missing, Option("What happens to a judged query that the run lacks.")] = (
        "zero"
    )
    no_relevant: Annotated[
        NoRelevant | None,
        Option(
            "What happens to a query without a relevant document; null: zero with rel=, else skip."
        ),
    ] = None

    def without_relevant(self, measure: Measure) -> NoRelevant:
        """Return the rule of a measure for queries without a relevant document.

        The default follows the notation: ir_measures, whose `AP(rel=2)` this is, counts 0.
        """
        if self.no_relevant is not None:
            return self.no_relevant
        return "zero" if "rel" in measure.options else "skip"


class Rules(ScoringRules):
    """The rules of one call, all of them part of the signature.

    The further fields are those of `ScoringRules`: `ties`, `trec_eval`, `missing` and
    `no_relevant`, all with a default. Raises OptionError if a value is not allowed, or `depth`
    stands beside ties=average.
    """

    depth: Annotated[
        int | None, Option("How many documents of a query are looked at; None: all.", ge=1)
    ] = None
    judged_only: Annotated[
        bool, Option("Take documents that are not judged out of the rankings, after `depth`.")
    ] = False

    def __post_init__(self) -> None:
        check_values("score_run", declared_options(Rules), asdict(self))
        if self.ties == "average" and self.depth is not None:
            allowed = "no depth with ties=average; cut with @k"
            raise OptionError("score_run", "depth", self.depth, allowed)

    def signature_parts(self, measure: Measure) -> dict[str, Any]:
        """Return rule -> value for the signature of a measure; `judged_only` only if it is set.

        A rule that is not set is None.
        """
        return {
            **asdict(self),
            "no_relevant": self.without_relevant(measure),
            "judged_only": self.judged_only or None,
        }


def score_run(
    run: Run | Mapping[str, Mapping[str, float]],
    qrels: Qrels | Mapping[str, Mapping[str, int]],
    measures: object,
    **options: Any,
) -> ScoredRun:
    """Score every query of the qrels by every measure.

    A query of the qrels without judgements gets no value (NaN and a cause); a query of the run that
    the qrels lack is not scored; both are counted. A query that the run lacks scores as an empty
    ranking, or has no value with missing=skip. `run` and `qrels` are those of `rank`; measures of
    subtopics need qrels {query id: {document id: {subtopic: grade}}}. `measures` are names for
    `parse_measures`, `options` are those of `Rules`.

    Returns:
        Columns in the order of the measures, with a value per query of the qrels, in their order.

    Raises:
        OptionError: A measure is unknown or cannot score a run by these rules, or a rule has a
            wrong value.
        TypeError: An unknown rule.
        DataError: The run or qrels are malformed, or lack subtopics that a measure needs; or the
            code of a measure cannot be imported.
        AdapterError: A measure of the user fails.

    Example:
        >>> scored = score_run({"q": {"d1": 2.0, "d2": 1.0}}, {"q": {"d2": 1}}, ["mrr"])
        >>> scored.columns[0].values, str(scored.columns[0].signature)
        (array([0.5]),
        'mrr|rel:1|ties:docid|trec_eval:10|missing:zero|no_relevant:skip|qrels:d3b0b70877f9|v:1')
    """
    rules = Rules(**options)
    parsed = parse_measures(measures, trec_eval_defaults=True, trec_eval=rules.trec_eval)
    judged = as_qrels(qrels)
    with_subtopics = reads_subtopics(parsed, judged, rules.ties)
    ranked = rank(judged, run, ties=rules.ties, trec_eval=rules.trec_eval, depth=rules.depth)
    n_queries = len(run.query_ids if isinstance(run, Run) else run)
    evidence = gather(
        ranked,
        judged,
        with_subtopics=with_subtopics,
        judged_only=rules.judged_only,
        unknown=n_queries - ranked.n_queries + len(ranked.missing),
        duplicates=sum(run.duplicates.values()) if isinstance(run, Run) else 0,
        steps=_steps_of(run),
    )
    scored = score_ranked(evidence, parsed, rules)
    # fingerprints now: the caller may change the qrels later
    return replace(scored, fingerprints=judged.query_fingerprints(), ranked=ranked)


def _steps_of(run: Run | Mapping[str, Mapping[str, float]]) -> ScoreSteps:
    """Return the steps between the scores of neighbouring hits, in the order of the input."""
    if isinstance(run, Run):
        return ScoreSteps.of(run.scores, run.starts)
    return ScoreSteps.of_lists(list(scores.values()) for scores in run.values())


def score_ranked(evidence: Evidence, measures: Sequence[Measure], rules: Rules) -> ScoredRun:
    """Return the scores of rankings that exist already, by every measure.

    `rules` set values and signatures; the ranking itself is not made again. The result has neither
    `fingerprints` nor `ranked`, and its columns are in the order of the measures. A run
    without a judged query is no error.

    Raises:
        KeyError: The evidence lacks a kind of record that a measure reads.
        AdapterError: A measure of the user fails.
        OptionError: A measure cannot average over ties, and the ranking does.
    """
    ranked = evidence.grades
    columns, without_grade = [], dict[str, int]()
    for measure in measures:
        prints = evidence.fingerprints[measure.spec.reads]
        values, causes, n_zeros = _values(measure, evidence, rules)
        options = measure.signature_parts(ranked)
        if n_zeros:
            without_grade[str(options.get("rel", 1))] = n_zeros
        parts = {**options, **rules.signature_parts(measure), **prints}
        columns.append(column_of(measure, values, causes, **parts))
    counts = structs.replace(_counts(evidence, rules), without_grade=without_grade)
    return ScoredRun(columns, ranked.query_ids, counts, steps=evidence.steps)


def column_of(
    measure: Measure, values: FloatArray, causes: CauseArray, **parts: Any
) -> ScoreColumn:
    """Return the score column of a measure; `parts` are those of its signature.

    Bounds and direction are those that the measure declares; the name of the column is that which
    the caller wrote. The signature has the canonical name with the cut-off, and the version.
    """
    name = measure.spec.name if measure.k is None else f"{measure.spec.name}@{measure.k}"
    return ScoreColumn(
        measure.label,
        values,
        causes,
        Signature.of(name, **parts, v=measure.spec.version),
        measure.spec.direction,
        measure.spec.low,
        measure.spec.high,
        measure.spec.aggregate,
    )


def score_passages(
    retrieved: base.RetrievedPassages | base.RetrievedSpans,
    measures: Sequence[Measure],
    rules: Rules,
    *,
    missing: Collection[int] = (),
) -> list[ScoreColumn]:
    """Score the texts or places of the passages of every query by every measure.

    A query without a gold answer or gold span gets no value, nor does one with a passage up to the
    cut-off that is not placed. `missing` are the positions of the queries that the run lacks, from
    0: with missing=skip they have no value, else they score as they stand in `retrieved`. A query
    without gold keeps that cause. The rules `no_relevant` and `judged_only` have no effect. Columns
    are in the order of the measures, an empty list without any; the measures must read the kind of
    `retrieved`.

    Raises:
        OptionError: A measure cannot average over ties, or its tokenizer is unknown.
        MissingExtra: A tokenizer needs a package that is not installed.
        ValueError: The two lists of `retrieved` have different lengths.
        AdapterError: A measure of the user fails.

    Example:
        >>> from ragbench.score.retrieval.notation import parse_measures
        >>> retrieved = base.RetrievedPassages([["On Io.", "On Europa."]], [["Europa"]])
        >>> for column in score_passages(retrieved, parse_measures("answer_hit@2"), Rules()):
        ...     print(column.values, column.signature.name)
        [1.] answer_hit@2
    """
    if isinstance(retrieved, base.RetrievedSpans):
        spans = ([spans_fingerprint(spans)] for spans in retrieved.gold)
        gold = {"spans": fingerprint_unordered(spans)}
    else:
        gold = {"gold": fingerprint_unordered(map(sorted, retrieved.answers))}
    columns = []
    for measure in measures:
        if rules.ties == "average" and not measure.spec.averages_ties:
            raise base.no_average(measure.spec.name)
        values, causes = _scored(measure, retrieved, len(retrieved.passages))
        if isinstance(retrieved, base.RetrievedSpans):
            causes[retrieved.unplaced(measure.k)] = Cause.UNPLACED_PASSAGE
        if rules.missing == "skip":
            _leave_out(missing, values, causes)
        parts = {**measure.signature_parts(), **asdict(rules), **gold}
        # these two rules are about judgements
        del parts["no_relevant"], parts["judged_only"]
        columns.append(column_of(measure, values, causes, **parts))
    return columns


def score_gold(
    ranks: MetGold,
    measures: Sequence[Measure],
    rules: Rules,
    *,
    missing: Collection[int] = (),
    **parts: Any,
) -> list[ScoreColumn]:
    """Score by every measure the ranks at which the rankings of all queries meet their gold.

    A query without gold has no value, for the reason in `ranks`; a query that is judged and has no
    relevant document follows the rule `no_relevant`. `missing` are the positions of the queries
    that the run lacks, which have no value with missing=skip. `parts` are further parts of the
    signature, such as the fingerprint of the gold.

    Raises:
        OptionError: Ties are averaged: these measures have no average over ties.
    """
    excluded = missing if rules.missing == "skip" else ()
    columns = []
    for measure, values, causes in _score_ranks(
        ranks, measures, rules, excluded, Cause.UNPLACED_PASSAGE
    ):
        signed = {**measure.signature_parts(), **rules.signature_parts(measure), **parts}
        columns.append(column_of(measure, values, causes, **signed))
    return columns


def score_forbidden(
    ranks: ForbiddenRanks,
    measures: Sequence[Measure],
    rules: Rules,
    *,
    missing: Collection[int] = (),
    **parts: Any,
) -> list[ScoreColumn]:
    """Score by every measure the ranks at which the rankings of all queries have forbidden hits.

    A query without forbidden documents has no value, nor has one with a hit up to the cut-off that
    may be forbidden. `missing` are the positions of the queries that the run lacks: they have no
    value, since 0, the best one, would hide them. `parts` are further parts of the signature.

    Raises:
        OptionError: Ties are averaged: these measures have no average over ties.
    """
    columns = []
    for measure, values, causes in _score_ranks(
        ranks, measures, rules, missing, Cause.UNCLEAR_PASSAGE
    ):
        signed = {**measure.signature_parts(), "ties": rules.ties, **parts}
        if measure.spec.upper_limit:
            signed["interval"] = UPPER_LIMIT
        columns.append(column_of(measure, values, causes, **signed))
    return columns


def _score_ranks(
    ranks: MetGold | ForbiddenRanks,
    measures: Sequence[Measure],
    rules: Rules,
    missing: Collection[int],
    unclear: Cause,
) -> Iterator[tuple[Measure, FloatArray, CauseArray]]:
    """Yield the values and causes of each measure; an undecided rank has cause `unclear`."""
    has_cause = ranks.causes != Cause.SCORED
    for measure in measures:
        if rules.ties == "average":
            raise base.no_average(measure.spec.name)
        values, causes = _scored(measure, ranks, len(ranks.causes))
        causes[has_cause] = ranks.causes[has_cause]
        causes[~has_cause & np.isnan(values)] = unclear
        # of forbidden documents, no query has this cause
        if rules.without_relevant(measure) == "zero":
            irrelevant = causes == Cause.NO_RELEVANT
            values[irrelevant], causes[irrelevant] = measure.spec.low, Cause.SCORED
        _leave_out(missing, values, causes)
        yield measure, values, causes


def _leave_out(missing: Collection[int], values: FloatArray, causes: CauseArray) -> None:
    """Take the values of queries that the run lacks away, in place."""
    absent = [row for row in missing if causes[row] == Cause.SCORED]
    values[absent], causes[absent] = np.nan, Cause.MISSING_QUERY


def _values(
    measure: Measure, evidence: Evidence, rules: Rules
) -> tuple[FloatArray, CauseArray, int]:
    """Return values and causes after applying the rules, and the number of 0s by `no_relevant`."""
    ranked = evidence.grades
    spec = measure.spec
    record: Any = evidence.subtopics if spec.reads == "subtopics" else ranked
    if spec.reads == "gold":
        record = MetGold.of_grades(ranked)
    values, causes = _scored(measure, record, ranked.n_queries)
    irrelevant = causes == Cause.NO_RELEVANT
    if rules.without_relevant(measure) == "zero":
        values[irrelevant] = spec.low if spec.of_nothing is None else spec.of_nothing
        causes[irrelevant] = Cause.SCORED
    if rules.missing == "skip":
        causes[list(ranked.missing)] = Cause.MISSING_QUERY
    elif rules.trec_eval == 9 and spec.low == -np.inf:
        # version 9 divides by all queries and adds nothing; version 10 scores an empty ranking
        values[list(ranked.missing)] = 0.0
    # last: a query without judgements has no value under any rule
    causes[np.diff(ranked.judged_starts) == 0] = Cause.NO_JUDGEMENTS
    values[causes != Cause.SCORED] = np.nan
    return values, causes, int((irrelevant & (causes == Cause.SCORED)).sum())


def _scored(measure: Measure, record: Any, n_queries: int) -> tuple[FloatArray, CauseArray]:
    """Return the value and cause of each query; raise AdapterError for a wrong result."""
    result = measure.score(record)
    spec = measure.spec
    owner = f"measure '{measure.label}'"
    values = np.zeros(0)
    try:
        array = np.asarray(result)
        if array.dtype.kind in "biufO":  # NumPy would also read texts and drop imaginary parts
            values = array.astype(np.float64)  # None, in an array of objects, becomes NaN
    except (TypeError, ValueError):  # lists of unequal lengths, or objects that are no numbers
        pass
    if values.shape != (n_queries,):
        value = quote(result)
        if isinstance(result, np.ndarray):
            value = f"an array of {result.dtype} with shape {result.shape}"
        allowed = f"one number per query, shape ({n_queries},), NaN for no value"
        raise AdapterError(f"{owner}: found {value}, allowed: {allowed}")
    outside = (values < spec.low - ROUNDING) | (values > spec.high + ROUNDING) | np.isinf(values)
    if outside.any():
        allowed = f"finite numbers from {spec.low:g} to {spec.high:g}, the range that it declares"
        raise AdapterError(f"{owner}: found {values[outside][0]:g}, allowed: {allowed}")
    causes = np.where(np.isnan(values), spec.nan_means, Cause.SCORED).astype(np.uint8)
    return values, causes


def _counts(evidence: Evidence, rules: Rules) -> RunCounts:
    """Return the counts that are printed beside the scores of a run."""
    ranked = evidence.grades
    judged = np.diff(ranked.judged_starts) > 0
    relevant = ranked.count_relevant(1) > 0
    missing = np.zeros(ranked.n_queries, bool)
    missing[list(ranked.missing)] = True
    has_value = judged & (relevant | (rules.no_relevant == "zero"))
    if rules.missing == "skip":
        has_value &= ~missing
    return RunCounts(
        queries=ranked.n_queries,
        scored=int(has_value.sum()),
        missing=len(ranked.missing),
        without_judgements=evidence.unknown + int((~judged).sum()),
        without_relevant=int((judged & ~relevant).sum()),
        duplicates=evidence.duplicates,
        judged_share=evidence.judged_share,
    )
