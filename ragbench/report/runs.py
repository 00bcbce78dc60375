"""Several runs: what changed between them and what moved; the runs of a folder in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ragbench.comparison.compare_runs import short_names
from ragbench.data.runs.run_list import RunEntry
from ragbench.records.comparison import ComparedRuns, Difference, MeasureComparison, MovedQueries
from ragbench.records.score import SystemScore
from ragbench.report.base import Chapter, Grid, Layout, Outcome
from ragbench.report.headline import outcome_of
from ragbench.report.pictures.draw import trend_picture
from ragbench.report.pictures.svg import Picture
from ragbench.report.text import (
    MISSING,
    cause_words,
    counted,
    difference,
    draw,
    flow_lines,
    listed,
    printable,
    significant,
    sparkline,
    with_interval,
)

_RUNS = ("run", "started", "commit", "changed in config and data")
_MOVED = ("system", "measure", "before", "after", "difference", "verdict", "up", "down", "same")
_CAUSES = ("system", "queries", "from", "to", "which")
_ORDER: tuple[Outcome, ...] = ("worse", "better", "undecided", "", "not compared", "identical")
# most systems of an outcome, queries of a move, and changes of a config in one line
_NAMED, _ASKED, _CHANGES = 3, 5, 5

_HEADS = ("started", "name", "run", "best", "score", "commit", "changed since the run before")
_TREND = ("system", "trend", "first", "last", "best", "in")
_SHOWN_CHANGES, _SYSTEMS, _LONGEST = 3, 12, 60


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
    texts = (f"{query}: {questions[query]}" if query in questions else query for query in queries)
    lines = [*map(printable, islice(texts, _ASKED))]
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
    # reversed: a run that is named twice, as both sides, keeps its first name
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


@dataclass(frozen=True, slots=True)
class Trends:
    """A score over the runs of one experiment, oldest first."""

    experiment: str
    score: str
    runs: tuple[str, ...]
    systems: Mapping[str, Sequence[SystemScore | None]]
    """System -> its score in each run; the best of the newest run first."""
    left_out: int
    breaks: tuple[str, ...]
    """Runs whose score is another number than that of the run before."""

    @property
    def title(self) -> str:
        """What it is: `ndcg@10 of quickstart over 3 runs, oldest first`."""
        of = f"{printable(self.score)} of {printable(self.experiment)}"
        return f"{of} over {counted(len(self.runs), 'runs')}, oldest first"

    @property
    def notes(self) -> list[str]:
        """What a reader of the line would get wrong."""
        found = [
            f"{printable(self.score)} of {printable(run)} has other options or judgements than "
            "that of the run before: they are not the same number"
            for run in self.breaks
        ]
        if self.left_out:
            found.append(f"{counted(self.left_out, 'further systems')} are in --format json")
        return found


def trends_of(entries: Sequence[RunEntry]) -> list[Trends]:
    """Follow the score of each experiment over its runs, where there are several."""
    by_name: dict[str, list[RunEntry]] = {}
    for entry in entries:
        if entry.problem is None and entry.score is not None:
            by_name.setdefault(entry.name, []).append(entry)
    found = (_trends(name, runs) for name, runs in by_name.items() if len(runs) > 1)
    return [trends for trends in found if trends.systems]


def _trends(name: str, runs: Sequence[RunEntry]) -> Trends:
    score = runs[-1].score or ""
    scores = [run.scores if run.score == score else {} for run in runs]
    # newest first: what the newest run lacks stays in the order of the run that had it last
    every = dict.fromkeys(system for own in reversed(scores) for system in own)
    ordered = sorted(every, key=lambda system: _rank(scores[-1].get(system)))
    short = short_names([str(run.path) for run in runs])
    breaks = [
        short[place]
        for place in range(1, len(runs))
        if any(
            scores[place][system].signature != scores[place - 1][system].signature
            for system in scores[place].keys() & scores[place - 1].keys()
        )
    ]
    return Trends(
        experiment=name,
        score=score,
        runs=tuple(short),
        systems={system: [own.get(system) for own in scores] for system in ordered[:_SYSTEMS]},
        left_out=max(0, len(ordered) - _SYSTEMS),
        breaks=tuple(breaks),
    )


def _rank(score: SystemScore | None) -> tuple[bool, float]:
    """The best first; what the newest run lacks last."""
    if score is None or score.mean is None:
        return True, 0.0
    return False, score.mean if score.direction == "lower" else -score.mean


def list_lines(entries: Sequence[RunEntry], folder: Path) -> list[str]:
    """Draw the list and the trends for a terminal."""
    rows = [_HEADS, *_rows(entries, folder)]
    lines = draw(list(zip(*rows, strict=True))) if len(rows) > 1 else []
    lines += _broken(entries, folder)
    for trends in trends_of(entries):
        table = [_TREND, *_trend_rows(trends)]
        lines += ["", trends.title, *draw(list(zip(*table, strict=True)))]
        lines += [f"note: {note}" for note in trends.notes]
    return lines


def lay_out_list(entries: Sequence[RunEntry], folder: Path) -> tuple[Layout, list[Picture]]:
    """Decide what stands on the page of a list, and draw its trends."""
    found = trends_of(entries)
    grids = [Grid("the runs, oldest first", _HEADS, tuple(_rows(entries, folder)), words=True)]
    grids += [Grid(each.title, _TREND, tuple(_trend_rows(each))) for each in found]
    notes = (*(note for each in found for note in each.notes), *_broken(entries, folder))
    headlines = tuple(_newest(entries))
    chapter = Chapter("the runs", headlines, notes, tuple(grid for grid in grids if grid.rows))
    pictures = [
        trend_picture(f"trend-{n}", f"{each.score} of {each.experiment}", each.runs, each.systems)
        for n, each in enumerate(found)
    ]
    subject = counted(len(entries), "runs")
    return Layout(printable(folder.name), subject, headlines, runs=chapter), pictures


def _newest(entries: Sequence[RunEntry]) -> Iterator[str]:
    """Say of each experiment what its newest run has, and what it changed."""
    # oldest first, so that the last of a name stays
    newest = {entry.name: entry for entry in entries if entry.problem is None}
    counts = Counter(entry.name for entry in entries if entry.problem is None)
    for name, entry in newest.items():
        runs = counted(counts[name], "runs")
        head = f"{printable(name)}: the newest of {runs}, of {entry.started}"
        if entry.value is None:
            yield f"{head}, scored nothing"
            continue
        value = with_interval(entry.value.mean, entry.value.interval)
        best = f"has {printable(entry.system)} as the best on {printable(entry.score)}, {value}"
        yield f"{head}, {best}; changed since the run before: {_since(entry)}"
    if not newest:
        yield "no whole run"


def _rows(entries: Sequence[RunEntry], folder: Path) -> Iterator[tuple[str, ...]]:
    for entry in entries:
        if entry.problem is not None:
            continue
        mark = "" if entry.complete else " (incomplete)"
        score = "nothing scored"
        if entry.value is not None:
            score = f"{entry.score} {with_interval(entry.value.mean, entry.value.interval)}"
        facts = (entry.started, entry.name, f"{place_of(entry, folder)}{mark}")
        commit = (entry.commit or MISSING)[:10]
        found = (*facts, entry.system or MISSING, score, commit, _since(entry))
        yield tuple(map(printable, found))


def _since(entry: RunEntry) -> str:
    changed = "; ".join(entry.changed[:_SHOWN_CHANGES])
    if len(entry.changed) > _SHOWN_CHANGES:
        changed += f"; {len(entry.changed) - _SHOWN_CHANGES} more"
    return printable(changed) or ("the first run" if entry.is_first else "nothing")


def _trend_rows(trends: Trends) -> Iterator[tuple[str, ...]]:
    for system, scores in trends.systems.items():
        known = [(s, run) for s, run in zip(scores, trends.runs, strict=True) if s is not None]
        best, where = min(known, key=lambda pair: _rank(pair[0]))
        values = [None if score is None else score.mean for score in scores]
        yield (
            printable(system),
            sparkline(values[-_LONGEST:]),
            *(significant(known[place][0].mean) for place in (0, -1)),
            significant(best.mean),
            printable(where),
        )


def _broken(entries: Sequence[RunEntry], folder: Path) -> list[str]:
    return [
        f"not a whole run: {printable(place_of(entry, folder))}: {printable(entry.problem)}"
        for entry in entries
        if entry.problem is not None
    ]


def place_of(entry: RunEntry, folder: Path) -> str:
    """Return where a run is, from the folder that was listed."""
    relative = entry.path.relative_to(folder)
    return str(relative) if relative.parts else entry.path.name
