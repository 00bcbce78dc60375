"""`rb.compare`: compare runs query by query, with tests and the queries that moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import islice
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import structs

from ragbench import errors
from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.matching import Matching, match_sources
from ragbench.comparison.method import Families, Method
from ragbench.comparison.moved_queries import moved_most, paired_rows
from ragbench.comparison.own_noise import own_noise
from ragbench.comparison.run_changes import add_changes
from ragbench.comparison.run_inputs import as_judgements
from ragbench.comparison.sources import (
    DEFAULT_MEASURES,
    HasRunFolder,
    MissingQueries,
    Source,
    is_rankings,
    needs_qrels,
    read_scored,
)
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.experiment.plan.compared_clusters import common_clusters, shared_cluster
from ragbench.pictures.svg import Picture
from ragbench.records.codec import to_json
from ragbench.records.comparison import ComparedRuns
from ragbench.registry import Option, check_values, declared_options
from ragbench.report.comparison import comparison_report, describe_subject
from ragbench.report.formats import render
from ragbench.report.formats.base import Screen
from ragbench.report.formats.latex import Latex
from ragbench.report.headline import outcome_of, verdict_of
from ragbench.report.pictures import difference_pictures, picture_of
from ragbench.report.query_pictures import QueryDifferences, query_pictures
from ragbench.report.text import probability
from ragbench.types import Qrels
from ragbench.types.display import counted, printable, shorten_line
from ragbench.types.lookups import take_items
from ragbench.types.tables import Frame, html_table, load_pandas, number

if TYPE_CHECKING:
    import pandas

# Number of moved queries that are listed by default for each comparison.
MOVED = 5
# Number of differences in the one-line repr of a comparison.
_IN_REPR = 6


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of a comparison of runs; `print` shows it as tables.

    `rb.compare` creates it; all properties are made anew from the record. `differences` is a list
    of mappings, empty if nothing was compared. `exit_code()` is 2 if `is_empty`, else 0.
    `to_pandas` raises ImportError without pandas, `plot` OptionError without a difference by the
    measure.

    Attributes:
        record: Record of the schema `ragbench.comparison/1`.
        by_query: Measure -> difference of each query, comparison by comparison; empty if unpaired.
    """

    record: ComparedRuns
    by_query: Mapping[str, Sequence[QueryDifferences]] = field(default_factory=dict, compare=False)

    @property
    def found(self) -> Mapping[str, Any]:
        """Mapping of the schema `ragbench.comparison/1`, the same as `to_dict()`."""
        return to_json(self.record)

    @property
    def differences(self) -> list[dict[str, Any]]:
        """Entry of each comparison, measure by measure; [] if nothing was compared.

        The keys are `measure` and the fields of `records.comparison.Difference`, such as `system`,
        `baseline`, `difference`, `interval`, `p_adjusted` and `differs`. A missing number is None;
        `n_clusters`, `n_failed` and `n_baseline` are left out then.
        """
        differences = []
        for family in self.record.measures:
            for difference in family.comparisons:
                differences.append({"measure": family.measure, **to_json(difference)})
        return differences

    @property
    def is_empty(self) -> bool:
        """True if systems were compared, but no query has a score of both systems of any pair."""
        differences = self.differences
        return bool(differences) and all(d["difference"] is None for d in differences)

    def exit_code(self) -> int:
        """Return 2 if `is_empty`, else 0, as the command exits."""
        return errors.EXIT_BAD_INPUT if self.is_empty else errors.EXIT_OK

    def __bool__(self) -> bool:
        text = "a comparison is neither true nor false: check .exit_code() or .differences"
        raise TypeError(text)

    def to_dict(self) -> dict[str, Any]:
        """Return all results as a JSON mapping, None for a missing number."""
        return to_json(self.record)

    def __str__(self) -> str:
        return render(comparison_report(self.record))

    def to_latex(
        self,
        *,
        caption: str = "",
        label: str = "",
        plain: bool = False,
        columns: int | None = None,
    ) -> str:
        r"""Return the scores with letters as LaTeX, as `ragbench compare --format latex`.

        Args:
            caption: Caption, as text; without one it names the queries, the test and the signs.
            label: Name for `\ref`.
            plain: Leave out the intervals.
            columns: Number of measures of a table, before it goes on in another; None for all.

        Raises:
            OptionError: The label has signs that a label cannot have, or `columns` is below 1.
        """
        latex = Latex(caption=caption, label=label, plain=plain, columns=columns)
        return latex.render(comparison_report(self.record), Screen())

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with a row for each of `differences`.

        Without pandas an `ImportError` is raised.
        """
        pd = load_pandas("Comparison.to_pandas")

        frame: pandas.DataFrame = pd.DataFrame(self.differences)
        return frame

    def plot(
        self,
        measure: str | None = None,
        kind: Literal["differences", "queries"] = "differences",
    ) -> Picture:
        """Return the picture of the differences by a measure, which a notebook shows.

        Args:
            measure: Name of a score; None takes the first one.
            kind: Differences of the means with intervals, or a bar for each query.

        Raises:
            OptionError: An unknown kind, or there are no differences by the measure; unpaired runs
                have none by query.
        """
        if kind == "queries":
            return picture_of(query_pictures(self.record, self.by_query), measure)
        if kind != "differences":
            raise errors.OptionError("plot", "kind", kind, "differences, queries")
        return picture_of(difference_pictures(self.record), measure)

    def _repr_html_(self) -> str:
        rows = []
        for family in self.record.measures:
            for difference in family.comparisons:
                cells = [family.measure, difference.system, difference.baseline]
                cells.append(_signed(difference.difference, difference.interval))
                cells.append(probability(difference.p_adjusted))
                cells.append(verdict_of(difference, family.direction))
                rows.append(cells)
        heads = ["measure", "system", "against", "difference", "adjusted p", "verdict"]
        # the picture of the first measure alone: a notebook cell has room for one
        pictures = islice(difference_pictures(self.record).values(), 1)
        images = "".join(picture.image() for picture in pictures)
        table = html_table(describe_subject(self.record), heads, rows)
        notes = []
        for note in self.record.notes:
            notes.append(f"<p>note: {escape(printable(note))}</p>")
        return "".join((images, table, *notes))

    def __repr__(self) -> str:
        texts = []
        for family in self.record.measures[:1]:
            for d in family.comparisons:
                outcome = outcome_of(d, family.direction)
                texts.append(f"{d.system} {family.measure} {_signed(d.difference)} {outcome}")
        more = [f"{len(texts) - _IN_REPR} more"] if len(texts) > _IN_REPR else []
        scores = ", ".join(printable(text.rstrip()) for text in (*texts[:_IN_REPR], *more))
        notes = self.record.notes
        remark = f"; note: {shorten_line(notes[0], 100)}" if notes else ""
        remark += f" (and {counted(len(notes) - 1, 'notes')} more)" if len(notes) > 1 else ""
        return f"<Comparison: {describe_subject(self.record)}; {scores}{remark}>"


def _signed(value: float | None, interval: Sequence[float | None] | None = None) -> str:
    """Return a difference in three digits with its sign, and its interval if there is one."""
    return ("+" if value is not None and value > 0 else "") + number(value, interval)


def compare(  # noqa: PLR0913  the public signature: a keyword per rule
    base: Source | Mapping[str, Source],
    *runs: Source,
    measures: str | Sequence[str] | None = None,
    qrels: Qrels
    | Mapping[str, Mapping[str, int] | Iterable[str]]
    | Frame
    | str
    | Path
    | None = None,
    intersect: Annotated[bool, Option("Compare the common queries alone.")] = False,
    unpaired: Annotated[bool, Option("Compare runs over different queries.")] = False,
    moved: Annotated[int, Option("How many of the queries that moved most to list.", ge=0)] = MOVED,
    family: Families = "measure",
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 13,
) -> Comparison:
    """Compare runs with a base, query by query.

    Systems of the same name are compared; if both sources have one system, these two. Without runs,
    the systems of the base are compared with its own baseline.

    Args:
        base: A run folder or the folder of an experiment, a baseline file, a TREC run file or
            rankings as `evaluate_run` takes them (both with `qrels`), an experiment, or a result of
            `evaluate`, `evaluate_run` or `evaluate_texts`. Or all sources under names, the base
            first: `{"v1": a, "v2": b}`.
        *runs: Sources of the same kinds, one or several; none beside a mapping of names.
        measures: Names of scores, or one name; None takes all that are common.
        qrels: Judgements for TREC run files and rankings: a file, or as `evaluate_run` takes them.
        family: Comparisons whose p-values are corrected together: those of a `measure`, or `all`.
        cluster: `metadata.<key>`: queries with equal values are one unit, as in
            `statistics.cluster` of the YAML. One source has to be a run folder with metadata. None
            takes the key that all runs have in their `statistics.cluster`.
        confidence: Level of intervals and tests.
        resamples: Sign flips and bootstrap resamples; at least 100, as in the YAML.
        seed: Equal seeds give equal results.

    Returns:
        Differences with intervals and p-values, and the queries that moved most.

    Raises:
        DataError: A source cannot be read, or sources may not be compared: all differences.
        OptionError: An unknown measure, a `cluster` that is no key of metadata, or another value
            that is not allowed.
        OSError: A file may not be opened.

    Example:
        >>> from ragbench import evaluate_run
        >>> qrels = {f"q{n}": {"d": 1} for n in range(30)}
        >>> first = evaluate_run({q: {"x": 2.0, "d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> better = evaluate_run({q: {"d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> compare(first, better, measures=["mrr"]).differences[0]["difference"]
        0.5
    """
    # the other options are checked by `Method` and `match_sources`
    flags = {"moved": moved, "intersect": intersect, "unpaired": unpaired}
    check_values("compare", declared_options(compare), flags)
    source_pairs = _named_sources(base, runs)
    is_alone = len(source_pairs) == 1
    if unpaired and (intersect or cluster or is_alone):
        allowed = "two runs or more, without intersect and cluster"
        raise errors.OptionError("compare", "unpaired", True, allowed)
    method = Method(confidence=confidence, resamples=resamples, seed=seed, family=family)
    measures = [measures] if isinstance(measures, str) else list(measures or ())
    missing: MissingQueries = "zero"
    if unpaired or intersect:
        missing = "skip" if unpaired else "drop"
    sources = read_all(source_pairs, qrels, measures, missing)
    matching = _match_or_advise(sources, measures or None, intersect, unpaired)
    if cluster is None and not unpaired:
        cluster = shared_cluster(sources)
    clusters = None if cluster is None else common_clusters(cluster, matching)
    method = replace(method, cluster=cluster)
    compared = compare_sources(matching, method, clusters)
    notes = (*compared.notes, *_cluster_notes(sources, cluster, unpaired=unpaired))
    compared = structs.replace(compared, notes=notes)
    by_query = {} if unpaired else _differences_by_query(compared, matching)
    if moved and not unpaired:
        queries = moved_most(compared, matching, matching.measures[0], moved)
        compared = structs.replace(compared, moved=queries)
    if is_alone:
        return Comparison(compared, by_query)
    folders = [source.folder for source in matching.sources]
    noise = dict.fromkeys(filter(None, (own_noise(folders[0], f) for f in folders[1:])))
    compared = structs.replace(compared, notes=(*compared.notes, *noise))
    return Comparison(add_changes(compared, matching), by_query)


def _differences_by_query(
    compared: ComparedRuns, matching: Matching
) -> dict[str, list[QueryDifferences]]:
    """Return measure -> score minus baseline of each query, for the comparisons by it."""
    by_query: dict[str, list[QueryDifferences]] = {}
    for measure in matching.measures:
        for system, baseline, pairs in paired_rows(compared, matching, measure):
            values = pairs.system.values - pairs.baseline.values
            entry = QueryDifferences(system.label, baseline.label, pairs.query_ids, values)
            by_query.setdefault(measure, []).append(entry)
    return by_query


def _named_sources(
    base: Source | Mapping[str, Source], runs: Sequence[Source]
) -> list[tuple[str, Source]]:
    """Return (name, source), the base first; without a name of the user a path or a letter."""
    if not isinstance(base, Mapping) or is_rankings(base):
        sources = [base, *runs]
        return list(zip(_names(sources), sources, strict=True))
    if runs or len(base) < 2:
        further = f" and {len(runs)} beside it" if runs else ""
        problem = errors.Phrase(f"a mapping of {len(base)}{further}")
        allowed = "a mapping of two sources or more, alone"
        raise errors.OptionError("compare", "base", problem, allowed)
    return [(str(name), source) for name, source in cast("Mapping[str, Source]", base).items()]


def _match_or_advise(
    sources: Sequence[ScoredSystems],
    measures: Sequence[str] | None,
    intersect: bool,
    unpaired: bool,
) -> Matching:
    """Match the sources and return the result; the first is the base."""
    base, *runs = sources
    try:
        return match_sources(base, runs, measures=measures, intersect=intersect, unpaired=unpaired)
    except errors.DataError as refused:
        if unpaired:
            raise
        # without a common question, samples are all that can be compared
        if runs and not set.intersection(*(set(source.query_ids) for source in sources)):
            try:
                match_sources(base, runs, measures=measures, unpaired=True)
            except errors.DataError:
                raise refused from None
            advice = "--unpaired compares runs of other questions, as independent samples"
            raise errors.DataError(f"{refused}\n{advice}") from refused
        if intersect:
            raise
        # tried, not guessed: the advice names only what works
        try:
            common = match_sources(base, runs, measures=measures, intersect=True)
        except errors.DataError:
            raise refused from None
        n_common = len(common.sources[0].query_ids)
        advice = f"--intersect compares the common queries that are the same: {n_common}"
        raise errors.DataError(f"{refused}\n{advice}") from refused


def _cluster_notes(
    sources: Sequence[ScoredSystems], cluster: str | None, *, unpaired: bool
) -> list[str]:
    """Return a note on each run with clusters, if this comparison has none; else []."""
    notes = []
    for source in sources:
        key = None if source.summary is None else source.summary.cluster
        if cluster is None and key is not None:
            remedy = "the interval is too narrow" if unpaired else f"--cluster {key}"
            reason = "and here each query stands for itself"
            notes.append(f"{source.source} has {key} as its cluster, {reason}: {remedy}")
    return notes


def read_all(
    source_pairs: Sequence[tuple[str, Source]],
    qrels: object,
    measures: Sequence[str],
    missing: MissingQueries = "zero",
) -> list[ScoredSystems]:
    """Read the sources, each beside its name; run files get the measures of the other sources.

    `measures` are those of the user; if there are none, run files get the retrieval measures of
    the other sources, or else `DEFAULT_MEASURES`. `missing` is that of `read_scored`.

    Raises:
        DataError: A source or the qrels cannot be read, or a run file comes without qrels.
        OptionError: A measure is unknown.
        OSError: A file may not be opened.
    """
    judged = None if qrels is None else as_judgements(qrels)
    read: dict[int, ScoredSystems] = {}
    # run files last: the scores of the other sources decide their measures
    order = sorted(range(len(source_pairs)), key=lambda i: needs_qrels(source_pairs[i][1]))
    rankings_scores: dict[str, None] = {}
    for i in order:
        by = list(measures) or list(rankings_scores) or DEFAULT_MEASURES
        name, source = source_pairs[i]
        read[i] = read_scored(source, name=name, qrels=judged, measures=by, missing=missing)
        for system in read[i].systems.values():
            for name, kind in system.kinds.items():
                if kind == "retrieval":
                    rankings_scores[name] = None
    return take_items(read, range(len(source_pairs)))


def _names(sources: Sequence[Source]) -> list[str]:
    """Return the name of each source: its path as the user wrote it, else a letter."""
    names = []
    for place, source in enumerate(sources):
        if not is_rankings(source) and isinstance(source, HasRunFolder):
            names.append(str(source.path))
        elif isinstance(source, (str, Path)):
            names.append(str(source))
        else:
            names.append(ascii_lowercase[place % len(ascii_lowercase)])
    return names
