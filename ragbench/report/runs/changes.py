"""Several runs: what changed in config and data, what moved in scores and causes, which queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.comparison.compare_runs import short_names
from ragbench.records.comparison import (
    ComparedRuns,
    Difference,
    MeasureComparison,
    MovedQueries,
)
from ragbench.report.base import Chapter, Grid, Outcome
from ragbench.report.headline import outcome_of
from ragbench.report.text import (
    MISSING,
    cause_words,
    counted,
    difference,
    flow_lines,
    listed,
    printable,
    significant,
)

_RUNS = ("run", "started", "commit", "changed in config and data")
_MOVED = ("system", "measure", "before", "after", "difference", "verdict", "up", "down", "same")
_CAUSES = ("system", "queries", "from", "to", "which")
_ORDER: tuple[Outcome, ...] = ("worse", "better", "undecided", "", "not compared", "identical")
_NAMED, _ASKED, _CHANGES = 3, 5, 5
"""Systems of an outcome, queries of a move, and changes of a config that a line names."""


def lay_out_changes(found: ComparedRuns) -> Chapter | None:
    """Decide what a page of several runs says of their differences; None for a single run."""
    if len(found.runs) < 2:
        return None
    names = short_names(found.sources)
    grids = [_runs(found, names), _scores(found), _causes(found)]
    grids += [_queries(moved, found) for moved in found.moved if moved.queries]
    return Chapter(
        title="what changed, what moved",
        headlines=tuple(_sentences(found, names)),
        labels=(),
        grids=tuple(grid for grid in grids if grid.rows),
    )


def changed_lines(found: ComparedRuns) -> list[str]:
    """Say for a terminal what each run changed since the first."""
    if len(found.runs) < 2:
        return []
    base, *others = found.runs
    lines = [f"changed since {printable(base.source)}"]
    return lines + [f"  {printable(run.source)}: {_changed(run.changed)}" for run in others]


def moved_causes(found: ComparedRuns) -> list[str]:
    """Say for a terminal which questions moved from which cause to which, between runs."""
    lines = []
    for flow in found.causes if len(found.runs) > 1 else ():
        head, *_ = flow_lines(flow)
        if flow.moves:
            lines += ["", f"causes, {head}"]
        for move in flow.moves:
            words = f"{cause_words(move.before)} -> {cause_words(move.after)}"
            lines.append(f"  {len(move.queries)} {words}")
            lines += [f"    {line}" for line in _asked(move.queries, found.questions)]
    return lines


def _changed(found: Sequence[str]) -> str:
    shown = "; ".join(map(printable, found[:_CHANGES])) or "nothing in config and data"
    return shown + (f"; {len(found) - _CHANGES} more" if len(found) > _CHANGES else "")


def _asked(queries: Sequence[str], questions: Mapping[str, str]) -> list[str]:
    """The first of some queries in words, and how many more there are."""
    lines = [
        printable(f"{query}: {questions[query]}" if query in questions else query)
        for query in queries[:_ASKED]
    ]
    more = len(queries) - _ASKED
    return [*lines, f"and {more} more"] if more > 0 else lines


def _sentences(found: ComparedRuns, names: Sequence[str]) -> Iterator[str]:
    """For each further run: what it changed, and what came of it by the first measures."""
    changed = {run.source: run.changed for run in found.runs}
    for source, name in zip(found.sources[1:], names[1:], strict=True):
        own = {system.name for system in found.systems if system.source == source}
        parts = [
            f"{printable(family.measure)}: {told}"
            for family in found.firsts
            if (
                told := _outcomes(found, family, [c for c in family.comparisons if c.system in own])
            )
        ]
        head = f"{printable(name)} against {printable(names[0])}"
        why = _changed(changed.get(source, ()))
        yield f"{head} ({why}): {'; '.join(parts) or 'no system of both'}"


def _outcomes(found: ComparedRuns, family: MeasureComparison, made: Sequence[Difference]) -> str:
    own = {system.name: system.system for system in found.systems}
    parts = []
    for outcome in _ORDER:
        having = [c for c in made if outcome_of(c, family.direction) == outcome]
        if len(having) > _NAMED:
            parts.append(f"{counted(len(having), 'systems')} {outcome}".rstrip())
        elif having:
            named = [
                printable(own[c.system])
                + ("" if outcome == "identical" else f" ({' -> '.join(_ends(found, family, c))})")
                for c in having
            ]
            parts.append(f"{listed(named)} {outcome}".rstrip())
    return ", ".join(parts)


def _ends(found: ComparedRuns, family: MeasureComparison, made: Difference) -> tuple[str, str]:
    """Both means, the one before first."""
    scores = {system.name: system.scores for system in found.systems}
    before, after = (scores[name][family.measure].mean for name in (made.baseline, made.system))
    return significant(before), significant(after)


def _runs(found: ComparedRuns, names: Sequence[str]) -> Grid:
    of_source = dict(zip(reversed(found.sources), reversed(names), strict=True))
    rows = [
        (
            printable(of_source[run.source]),
            run.started,
            (run.commit or MISSING)[:10],
            _changed(run.changed) if place else "what the others are compared with",
        )
        for place, run in enumerate(found.runs)
    ]
    return Grid("the runs", _RUNS, tuple(rows), words=True)


def _scores(found: ComparedRuns) -> Grid:
    moved = {(each.measure, each.system): each for each in found.moved}
    rows = []
    for family in found.firsts:
        for made in family.comparisons:
            counts = moved.get((family.measure, made.system))
            known = (MISSING,) * 3 if counts is None else (counts.up, counts.down, counts.same)
            change = difference(made.difference or 0.0, made.interval)
            rows.append(
                (
                    *map(printable, (made.system, family.measure)),
                    *_ends(found, family, made),
                    MISSING if made.difference is None else " ".join(change).rstrip(),
                    outcome_of(made, family.direction),
                    *map(str, known),
                )
            )
    caption = (
        "scores: each system against the one of the same name in the first run, query by query"
    )
    return Grid(caption, _MOVED, tuple(rows))


def _causes(found: ComparedRuns) -> Grid:
    rows = [
        (
            printable(flow.system),
            str(len(move.queries)),
            cause_words(move.before),
            cause_words(move.after),
            "; ".join(_asked(move.queries, found.questions)),
        )
        for flow in found.causes
        for move in flow.moves
    ]
    return Grid("queries whose cause changed since the first run", _CAUSES, tuple(rows), words=True)


def _queries(moved: MovedQueries, found: ComparedRuns) -> Grid:
    causes = {
        query: f"{cause_words(move.before)} -> {cause_words(move.after)}"
        for flow in found.causes
        if (flow.system, flow.baseline) == (moved.system, moved.baseline)
        for move in flow.moves
        for query in move.queries
    }
    rows = [
        (
            printable(each.query_id),
            printable(each.question),
            significant(each.baseline_score),
            significant(each.score),
            difference(each.difference, None)[0],
            causes.get(each.query_id, "same"),
        )
        for each in moved.queries
    ]
    names = (printable(moved.baseline), printable(moved.system))
    heads = ("query", "question", *names, "difference", "cause")
    return Grid(moved_head(moved), heads, tuple(rows), words=True)


def moved_head(moved: MovedQueries) -> str:
    """Say in one line how many queries moved between two systems.

    Example:
        >>> moved_head(MovedQueries(measure="map", system="dense", baseline="bm25",
        ...                         up=2, down=1, same=7, queries=()))
        'moved most on map, dense against bm25: 2 up, 1 down, 7 the same'
    """
    names = map(printable, (moved.measure, moved.system, moved.baseline))
    counts = f"{moved.up} up, {moved.down} down, {moved.same} the same"
    return "moved most on {}, {} against {}: {}".format(*names, counts)
