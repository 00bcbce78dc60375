"""`rb.compare`: is one better than the other, or is it chance?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Any

from ragbench.comparison.compare_runs import add_changes, compare_sources, moved_most
from ragbench.comparison.matching import MatchedSources, find_measure, match_sources
from ragbench.comparison.method import Families, Method
from ragbench.comparison.sources import (
    DEFAULT_MEASURES,
    HasRunFolder,
    Source,
    needs_qrels,
    read_scored,
)
from ragbench.data.files.trec_files import read_qrels
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import EXIT_BAD_INPUT, EXIT_GATE_FAILED, EXIT_OK, EXIT_UNDECIDED, DataError
from ragbench.experiment.plan.groups import common_clusters
from ragbench.gates.fail_if import FailIf
from ragbench.records.codec import to_json
from ragbench.records.comparison import ComparedRuns
from ragbench.registry import Option, check_values, declared_options
from ragbench.report.comparison import describe_subject, render_table
from ragbench.report.headline import outcome_of
from ragbench.report.pictures.draw import difference_pictures
from ragbench.report.text import printable
from ragbench.types import Qrels
from ragbench.types.tables import html_table, number

# How many queries of each comparison are shown.
MOVED = 5
_FEW = 6


@dataclass(frozen=True, repr=False)
class Comparison:
    """What a comparison found; `print` shows it as tables."""

    record: ComparedRuns

    @property
    def found(self) -> Mapping[str, Any]:
        """The mapping of `ragbench.comparison/1`."""
        return to_json(self.record)

    @property
    def differences(self) -> list[dict[str, Any]]:
        """One entry for each measure and comparison: difference, interval, p, `differs`."""
        return [
            {"measure": family.measure, **to_json(made)}
            for family in self.record.measures
            for made in family.comparisons
        ]

    @property
    def gates(self) -> list[dict[str, Any]]:
        """The verdict on each condition and system."""
        return [to_json(gate) for gate in self.record.gates]

    @property
    def is_empty(self) -> bool:
        """Whether systems were to be compared, and no query has a score of any two of them."""
        made = [made for family in self.record.measures for made in family.comparisons]
        return bool(made) and all(each.difference is None for each in made)

    def exit_code(self, *, strict: bool = False) -> int:
        """Return 1 where a gate failed, and with `strict` 4 where one cannot be decided.

        2 where nothing was compared, and no gate was there to say so.
        """
        verdicts = {gate.verdict for gate in self.record.gates}
        if self.is_empty and not verdicts:
            return EXIT_BAD_INPUT
        if "fail" in verdicts:
            return EXIT_GATE_FAILED
        return EXIT_UNDECIDED if strict and "undecided" in verdicts else EXIT_OK

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready; null and never NaN."""
        return to_json(self.record)

    def __str__(self) -> str:
        return render_table(self.record)

    def to_pandas(self) -> Any:
        """Return `differences` as a pandas DataFrame, a row each; needs pandas."""
        import pandas as pd

        return pd.DataFrame(self.differences)

    def _repr_html_(self) -> str:
        rows = [
            [
                family.measure,
                made.system,
                made.baseline,
                _signed(made.difference, made.interval),
                number(made.p_adjusted),
                outcome_of(made, family.direction),
            ]
            for family in self.record.measures
            for made in family.comparisons
        ]
        heads = ["measure", "system", "against", "difference", "adjusted p", "verdict"]
        drawn = "".join(each.image() for each in islice(difference_pictures(self.record), 1))
        return drawn + html_table(describe_subject(self.record), heads, rows)

    def __repr__(self) -> str:
        found = [
            f"{made.system} {family.measure} {_signed(made.difference)} {outcome_of(made, way)}"
            for family in self.record.measures[:1]
            for made, way in ((each, family.direction) for each in family.comparisons)
        ]
        more = [f"{len(found) - _FEW} more"] if len(found) > _FEW else []
        scores = ", ".join(printable(text.rstrip()) for text in (*found[:_FEW], *more))
        return f"<Comparison: {describe_subject(self.record)}; {scores}>"


def _signed(value: float | None, interval: Sequence[float | None] | None = None) -> str:
    """A difference, whose sign is always written."""
    return ("+" if value is not None and value > 0 else "") + number(value, interval)


def compare(  # noqa: PLR0913  the public signature: a keyword per rule
    base: Source,
    *runs: Source,
    measures: Sequence[str] | None = None,
    qrels: Qrels | str | Path | None = None,
    intersect: Annotated[bool, Option("Compare the common queries alone.")] = False,
    fail_if: Sequence[str] = (),
    moved: Annotated[int, Option("How many of the queries that moved most to list.", ge=0)] = MOVED,
    family: Families = "measure",
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 13,
) -> Comparison:
    """Compare runs with a base, paired over their queries.

    Systems meet by name; where both have one system each, these two. The base alone: its systems
    are compared with its own baseline.

    Args:
        base: A run folder or the folder of an experiment, a baseline file, a TREC run file (with
            `qrels`), an experiment, or what `evaluate_run` or `evaluate_texts` returned.
        *runs: The same, one or several.
        measures: Names of scores; None takes all that are common.
        qrels: The judgements of TREC run files.
        intersect: Where the query sets differ, compare the common queries and count the others.
            Those whose text, judgements or gold answers differ are left out too, by name; where
            most differ, nothing is compared.
        fail_if: Conditions: `ndcg@10 drop > 0.01`.
        moved: How many of the queries that moved most on the first measure to list.
        family: What p-values are corrected over: the comparisons of one `measure`, or of `all`.
        cluster: `metadata.<key>`: queries with equal values are one unit, as `statistics.cluster`
            of the YAML has it. One of the runs has to be a run folder, which has the metadata.
        confidence: Level of intervals and tests.
        resamples: Sign flips and bootstrap resamples; at least 100, as in the YAML.
        seed: Equal seeds give equal results.

    Returns:
        Differences with intervals and p-values, verdicts, the queries that moved most.

    Raises:
        DataError: Nothing to read, or what may not be compared: all that differs.
        OptionError: An unknown measure, or a condition that is none.

    Example:
        >>> from ragbench import evaluate_run
        >>> qrels = {f"q{n}": {"d": 1} for n in range(30)}
        >>> first = evaluate_run({q: {"x": 2.0, "d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> better = evaluate_run({q: {"d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> compare(first, better, measures=["mrr"]).differences[0]["difference"]
        0.5
    """
    check_values("compare", declared_options(compare), {"moved": moved, "intersect": intersect})
    method = Method(
        confidence=confidence, resamples=resamples, seed=seed, family=family, cluster=cluster
    )
    conditions = [FailIf.parse(text) for text in fail_if]
    scores = [*(measures or ()), *(condition.gate.measure for condition in conditions)]
    sources = read_all([base, *runs], qrels, scores)
    skipped = {c: why for c in conditions if (why := c.skipped_by(sources)) is not None}
    open_ = [condition for condition in conditions if condition not in skipped]
    asked = [*measures, *(condition.gate.measure for condition in open_)] if measures else None
    matched = _meet(sources, asked, intersect)
    clusters = None if cluster is None else common_clusters(cluster, matched)
    found = compare_sources(matched, method, clusters)
    gates = [condition.undecided(why) for condition, why in skipped.items()]
    for condition in open_:
        measure = find_measure(condition.gate.measure, matched.measures)
        gates += condition.decide(measure, found, matched, method, clusters)
    more = _not_clustered(sources, cluster)
    found = replace(
        found,
        gates=tuple(gates),
        notes=(*found.notes, *more),
        moved=moved_most(found, matched, matched.measures[0], moved) if moved else (),
    )
    return Comparison(add_changes(found, matched) if runs else found)


def _meet(
    sources: Sequence[ScoredSystems], asked: Sequence[str] | None, intersect: bool
) -> MatchedSources:
    """Let sources meet; a refusal says whether `intersect` would help, and if not, why not."""
    base, *runs = sources
    try:
        return match_sources(base, runs, measures=asked, intersect=intersect)
    except DataError as refused:
        if intersect:
            raise
        reasons = str(refused).splitlines()
        try:
            common = match_sources(base, runs, measures=asked, intersect=True)
        except DataError as still:
            lines = [line for line in str(still).splitlines() if line not in reasons]
            advice = [
                f"with --intersect {x}" if x.startswith("the others can") else x for x in lines
            ]
            if not advice:
                raise refused from None
        else:
            which = "common ones that are the same" if common.differing else "common ones"
            advice = [f"--intersect compares the {which}: {len(common.sources[0].query_ids)}"]
        raise DataError("\n".join([*reasons, *advice])) from refused


def _not_clustered(sources: Sequence[ScoredSystems], cluster: str | None) -> list[str]:
    """Say where a run took queries together that are compared one by one here."""
    return [
        f"{source.source} has {own} as its cluster, and here each query stands for itself: "
        f"--cluster {own}"
        for source in sources
        if cluster is None
        and source.summary is not None
        and (own := source.summary.cluster) is not None
    ]


def read_all(
    sources: Sequence[Source], qrels: Qrels | str | Path | None, measures: Sequence[str]
) -> list[ScoredSystems]:
    """Read what is to be compared; run files are scored by the measures that the others have."""
    judged = qrels if qrels is None or isinstance(qrels, Qrels) else read_qrels(qrels)
    names = _names(sources)
    read: dict[int, ScoredSystems] = {}
    # what has scores comes first: they say what run files are to be scored by
    order = sorted(range(len(sources)), key=lambda i: needs_qrels(sources[i]))
    for i in order:
        kinds = [s.kinds for source in read.values() for s in source.systems.values()]
        scores = (name for of in kinds for name, kind in of.items() if kind == "retrieval")
        by = list(measures) or list(dict.fromkeys(scores)) or DEFAULT_MEASURES
        read[i] = read_scored(sources[i], name=names[i], qrels=judged, measures=by)
    return [read[i] for i in range(len(sources))]


def _names(sources: Sequence[Source]) -> list[str]:
    """Paths as they were given; what has none is `a`, `b`, in its place."""
    return [
        str(source.path if isinstance(source, HasRunFolder) else source)
        if isinstance(source, (str, Path, HasRunFolder))
        else ascii_lowercase[place % len(ascii_lowercase)]
        for place, source in enumerate(sources)
    ]
