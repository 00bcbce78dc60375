"""The runs of a folder: when each was, what was best, what changed, and how a score went on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragbench.comparison.compare_runs import short_names
from ragbench.data.runs.run_list import RunEntry
from ragbench.records.summary import SystemScore
from ragbench.report.base import Chapter, Grid, Layout
from ragbench.report.pictures.svg import Picture
from ragbench.report.pictures.trend import trend_picture
from ragbench.report.text import (
    MISSING,
    counted,
    draw,
    printable,
    significant,
    sparkline,
    with_interval,
)

_HEADS = ("started", "name", "run", "best", "score", "commit", "changed since the run before")
_TREND = ("system", "trend", "first", "last", "best", "in")
_CHANGES, _SYSTEMS, _LONGEST = 3, 12, 60


@dataclass(frozen=True, slots=True)
class Trends:
    """A score over the runs of one experiment, oldest first."""

    experiment: str
    score: str
    runs: tuple[str, ...]
    """Their short names."""
    systems: Mapping[str, Sequence[SystemScore | None]]
    """System -> its score in each run; the best of the newest run first."""
    left_out: int
    """How many further systems there are."""
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
    lines = draw([list(column) for column in zip(*rows, strict=True)]) if len(rows) > 1 else []
    lines += _broken(entries, folder)
    for trends in trends_of(entries):
        table = [_TREND, *_trend_rows(trends)]
        lines += ["", trends.title, *draw([list(column) for column in zip(*table, strict=True)])]
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
    pictures = []
    for n, each in enumerate(found):
        about = f"trend-{n}", f"{each.score} of {each.experiment}", each.runs, each.systems
        pictures.append(replace(trend_picture(*about), narrow=trend_picture(*about, narrow=True)))
    return Layout.of_chapter(
        printable(folder.name), counted(len(entries), "runs"), chapter
    ), pictures


def _newest(entries: Sequence[RunEntry]) -> Iterator[str]:
    """Say of each experiment what its newest run has, and what it changed."""
    newest = {entry.name: entry for entry in entries if entry.problem is None}
    for name, entry in newest.items():
        head = f"{printable(name)}: the newest of {_count(entries, name)}, of {entry.started}"
        if entry.value is None:
            yield f"{head}, scored nothing"
            continue
        value = with_interval(entry.value.mean, entry.value.interval)
        best = f"has {printable(entry.system)} as the best on {printable(entry.score)}, {value}"
        yield f"{head}, {best}; changed since the run before: {_since(entry)}"
    if not newest:
        yield "no whole run"


def _count(entries: Sequence[RunEntry], name: str) -> str:
    return counted(sum(e.name == name and e.problem is None for e in entries), "runs")


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
    changed = "; ".join(entry.changed[:_CHANGES])
    if len(entry.changed) > _CHANGES:
        changed += f"; {len(entry.changed) - _CHANGES} more"
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
