"""One section of a page: the systems and measures of one kind, with marks and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.report.base import Detail, DifferenceCell, Kind, Mark, Measure, ScoreCell, Section
from ragbench.report.digits import (
    MISSING,
    difference,
    ends_of,
    interval,
    listed,
    printable,
    probability,
    significant,
)
from ragbench.report.headline import outcome_of

Json = Mapping[str, Any]
Group = tuple[Kind, str]
"""A section: its kind, and the judge's name where the kind is `judge`."""


def build_section(
    group: Group,
    scores: Mapping[str, Mapping[str, Json]],
    summary: Json,
    families: Mapping[str, Json],
) -> Section:
    """Build the table of one kind of scores.

    Args:
        group: The kind, and the judge's name where the kind is `judge`.
        scores: system -> measure -> score, of this section only.
        summary: The content of summary.json.
        families: measure -> its entry in comparisons.json.

    Returns:
        Systems and measures in the order of `scores`.
    """
    kind, judge = group
    names = list(dict.fromkeys(measure for by_measure in scores.values() for measure in by_measure))
    baselines = find_baselines(summary, scores, families, names)
    measures = tuple(_measure(name, scores, families.get(name, {}), baselines) for name in names)
    compared = any(cell.outcome or cell.p for m in measures for cell in m.differences)
    return Section(
        kind=kind,
        title=f"judge {printable(judge)}".rstrip() if kind == "judge" else kind,
        labels=tuple(_labels(group, scores, summary)),
        systems=tuple(printable(system) for system in scores),
        measures=measures,
        against=_head(summary.get("baseline"), baselines) if compared else "",
        counts=tuple(count_lines(scores, names)),
    )


def find_baselines(
    summary: Json,
    scores: Mapping[str, Any],
    families: Mapping[str, Json],
    measures: Sequence[str],
) -> dict[str, str | None]:
    """Find the system that each system is compared with; None for a baseline itself."""
    parts = {s["name"]: (s.get("retriever"), s.get("generator")) for s in summary["systems"]}
    named = {pair: name for name, pair in parts.items() if name in scores}
    made = [c for m in measures for c in families.get(m, {}).get("comparisons") or ()]
    found: dict[str, str | None] = {}
    for system in scores:
        expected = named.get((summary.get("baseline"), parts[system][1]))
        partners = [c["baseline"] for c in made if c["system"] == system]
        if expected is None or (expected != system and expected not in partners):
            # A system outside the grid, such as an app: what it was compared with, if anything.
            expected = partners[0] if partners else expected
        found[system] = None if expected == system else expected
    return found


def _head(baseline: Any, baselines: Mapping[str, str | None]) -> str:
    against = {str(name) for name in baselines.values() if name is not None}
    usual = all(name == baseline or name.startswith(f"{baseline}/") for name in against)
    return f"vs {printable(baseline)}" if usual else "vs baseline"


def _measure(
    name: str,
    scores: Mapping[str, Mapping[str, Json]],
    family: Json,
    baselines: Mapping[str, str | None],
) -> Measure:
    column = {system: by_measure.get(name) for system, by_measure in scores.items()}
    present = [score for score in column.values() if score is not None]
    made = {(c["system"], c["baseline"]): c for c in family.get("comparisons") or ()}
    direction = _direction(present[0])
    rivals = sum(score.get("mean") is not None for score in present) > 1
    return Measure(
        name=printable(name),
        title=_title(name, present[0]),
        scores=tuple(
            _score_cell(score, _mark(system, family) if rivals else "")
            for system, score in column.items()
        ),
        differences=tuple(
            _difference_cell(made.get((system, baselines[system] or "")), direction)
            if baselines[system] is not None
            else DifferenceCell(outcome="baseline" if score is not None and made else "")
            for system, score in column.items()
        ),
        details=tuple(map(_detail, column.values())),
    )


def _direction(score: Json) -> str:
    return str(score.get("direction", "higher"))


def _title(name: str, score: Json) -> str:
    remarks = ["lower is better"] if _direction(score) == "lower" else []
    if (aggregate := score.get("aggregate", "mean")) != "mean":
        remarks.insert(0, printable(aggregate).replace("_", " "))
    return f"{printable(name)} ({', '.join(remarks)})" if remarks else printable(name)


def _mark(system: str, family: Json) -> Mark:
    if system == family.get("best"):
        return "best"
    return "tied" if system in (family.get("tied_with_best") or ()) else ""


def _score_cell(score: Json | None, mark: Mark) -> ScoreCell:
    if score is None or score.get("mean") is None:
        return ScoreCell(MISSING)
    ends = score.get("interval")
    return ScoreCell(
        value=significant(score["mean"]),
        interval=interval(ends),
        mark=mark,
        mean=score["mean"],
        ends=ends_of(ends),
    )


def _difference_cell(comparison: Json | None, direction: str) -> DifferenceCell:
    if comparison is None or comparison.get("difference") is None:
        return DifferenceCell(value=MISSING)
    value, ends = difference(comparison["difference"], comparison.get("interval"))
    return DifferenceCell(
        outcome=outcome_of(comparison, direction),
        value=value,
        interval=ends,
        p=probability(comparison.get("p_adjusted")),
    )


def _detail(score: Json | None) -> Detail | None:
    if score is None:
        return None
    bounds = interval(score.get("bounds")) or MISSING
    return Detail(score.get("n") or 0, n_failed(score), score.get("not_applicable") or 0, bounds)


def _labels(group: Group, scores: Mapping[str, Mapping[str, Json]], summary: Json) -> list[str]:
    """Say who judged: a judge of answers, or a model beside people."""
    kind, judge = group
    if kind == "judge":
        return _judge_labels(judge, scores, summary)
    fill = summary.get("fill")
    return [_fill_label(fill)] if kind == "retrieval" and fill else []


def _fill_label(fill: Json) -> str:
    """Keep judgements of people apart from those of a model: `12 by people, 34 by gpt-4o`."""
    failed = sum(fill["failed"].values())
    causes = ", ".join(f"{printable(cause)} {n}" for cause, n in fill["failed"].items())
    counts = [
        f"{fill['people']} judged by people",
        f"{fill['model']} by {printable(fill['model_name'])} ({printable(fill['rubric'])})",
        f"{failed} failed" + (f" ({causes})" if causes else ""),
    ]
    if fill["without_text"]:
        counts.append(f"{fill['without_text']} without text")
    pool = (
        f"{fill['pairs']} pairs of query and passage in the best {fill['depth']} of any retriever"
    )
    return f"{pool}: {', '.join(counts)}"


def _judge_labels(judge: str, scores: Mapping[str, Mapping[str, Json]], summary: Json) -> list[str]:
    """Name the models that judged, as they report themselves, and say what the judge is."""
    declared = (summary.get("judges") or {}).get(judge) or {}
    reported = [s.get("model") for by_measure in scores.values() for s in by_measure.values()]
    models = dict.fromkeys(printable(model) for model in reported if model)
    if not models and declared.get("model"):
        models = {printable(declared["model"]): None}
    named = listed(list(models)) or printable(judge) or "an unnamed judge"
    label = declared.get("label")
    judged_by = f"judged by {named}" + (f": {printable(label)}" if label else "")
    early = (summary.get("early_stopping") or {}).get(judge)
    if not early:
        return [judged_by]
    looks = f"look {early['look']} of {len(early['sizes'])}"
    counts = f"{early['judged']} of {early['queries']} queries"
    if early.get("over_budget"):
        return [judged_by, f"{counts} judged, which the budget ended"]
    if not early["stopped"]:
        return [judged_by, f"judged to the end, in {len(early['sizes'])} looks"]
    return [judged_by, f"stopped early, {counts} ({looks}); intervals allow for every look"]


Key = tuple[int, tuple[tuple[str, int], ...], int, int]


def count_lines(scores: Mapping[str, Mapping[str, Json]], measures: Sequence[str]) -> list[str]:
    """Describe the counts of a section: the usual ones first, then where they differ.

    Args:
        scores: system -> measure -> score, as in summary.json.
        measures: The measures of the section, in order.

    Returns:
        One line where all scores have the same counts; otherwise one for the most frequent
        counts, one for each other count of scores that do not apply, and one for each system
        with failed items, which names the causes and the bounds of each mean.
    """
    groups: dict[Key, list[tuple[str, str]]] = {}
    for measure in measures:
        for system, by_measure in scores.items():
            if measure in by_measure:
                groups.setdefault(_key(by_measure[measure]), []).append((system, measure))
    if not groups:
        return []
    usual = max(groups, key=lambda key: len(groups[key]))
    rest = {key: places for key, places in groups.items() if key != usual}
    lines = _failed_lines(usual, groups[usual], scores) if usual[1] else [_describe(usual)]
    if rest and not usual[1]:
        lines[0] += " in every score but these:"
    for key, places in rest.items():
        if key[1]:
            lines += _failed_lines(key, places, scores)
        else:
            lines.append(f"{_describe(key)}: {_where(places, scores)}")
    return lines


def n_failed(score: Json) -> int:
    """Count the failed items of a score, whatever their cause."""
    return sum((score.get("failed") or {}).values())


def _key(score: Json) -> Key:
    failed = tuple((cause, n) for cause, n in (score.get("failed") or {}).items() if n)
    not_judged = score.get("not_judged") or 0
    return score.get("n") or 0, failed, (score.get("not_applicable") or 0) - not_judged, not_judged


def _describe(key: Key) -> str:
    scored, failed, not_applicable, not_judged = key
    causes = ", ".join(f"{printable(cause)} {n}" for cause, n in failed)
    total = sum(n for _, n in failed)
    reasons = f" ({causes})" if causes else ""
    early = f", {not_judged} not judged" if not_judged else ""
    return f"{scored} scored, {total} failed{reasons}, {not_applicable} not applicable{early}"


def _failed_lines(
    key: Key, places: Sequence[tuple[str, str]], scores: Mapping[str, Mapping[str, Json]]
) -> list[str]:
    by_system: dict[str, list[str]] = {}
    for system, measure in places:
        bounds = ends_of(scores[system][measure].get("bounds"))
        text = printable(measure)
        if bounds is not None:
            text += f" (mean from {significant(bounds[0])} to {significant(bounds[1])}"
            text += ", whatever the failed would have been)"
        by_system.setdefault(system, []).append(text)
    what = _describe(key)
    return [f"{printable(s)}: {what}: {', '.join(texts)}" for s, texts in by_system.items()]


def _where(places: Sequence[tuple[str, str]], scores: Mapping[str, Mapping[str, Json]]) -> str:
    """Name the measures, and the systems only where not every system is meant."""
    having = Counter(measure for by_measure in scores.values() for measure in by_measure)
    by_measure: dict[str, list[str]] = {}
    for system, measure in places:
        by_measure.setdefault(measure, []).append(printable(system))
    return ", ".join(
        printable(measure)
        if len(systems) == having[measure]
        else f"{printable(measure)} of {', '.join(systems)}"
        for measure, systems in by_measure.items()
    )
