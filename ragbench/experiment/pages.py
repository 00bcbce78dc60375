"""`ragbench report`: the page of a run from its files, or of several runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.comparison.across import compare_met, rows_of, short_names
from ragbench.comparison.comparable import Met, meet
from ragbench.comparison.paired import Method
from ragbench.comparison.read_scored import read_scored
from ragbench.comparison.scored import ScoredSystems
from ragbench.errors import DataError
from ragbench.experiment.result import load_experiment
from ragbench.files import write_atomically
from ragbench.report.html import render_html
from ragbench.report.markdown import render_markdown
from ragbench.report.side_by_side import join_summaries

PAGES = {".html": render_html, ".md": render_markdown}
"""Suffix of a page -> what draws it."""


def write_pages(runs: Sequence[Path], output: Path | None = None) -> list[Path]:
    """Draw the page of one run, or of several side by side; nothing is run or scored again.

    Args:
        runs: Run folders, or folders of experiments; the others are compared with the first.
        output: A file that ends in `.html` or `.md`. None, for one run alone, writes its
            `report.html` and `report.md` again.

    Returns:
        The files that were written.

    Raises:
        DataError: There is no run, its files are not what they should be, or the page cannot be
            written.
    """
    if len(runs) == 1:
        experiment = load_experiment(runs[0])
        summary, comparisons, folder = experiment.summary, experiment.comparisons, experiment.path
    else:
        summary, comparisons = _side_by_side(runs)
        folder = Path()
    paths = [folder / f"report{suffix}" for suffix in PAGES] if output is None else [output]
    return [_write(path, summary, comparisons) for path in paths]


def _write(path: Path, summary: Mapping[str, Any], comparisons: Mapping[str, Any]) -> Path:
    try:
        # half characters, as a model may send them, as escapes: UTF-8 has none
        page = PAGES[path.suffix](summary, comparisons).encode("utf-8", "backslashreplace")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # the fields that pages rely on were checked; the rest of both files is as deep as wide
        found = f"{type(error).__name__}: {error}"
        raise DataError(
            f"summary.json or comparisons.json cannot be drawn: {found}",
            file=path,
            allowed="files as ragbench run wrote them",
        ) from error
    try:
        write_atomically(path, page)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error
    return path


def _side_by_side(runs: Sequence[Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Join the runs, with their differences from the first as far as they may be compared."""
    names = short_names([str(run) for run in runs])
    sources = [read_scored(run) for run in runs]
    summaries = [source.facts for source in sources]
    try:
        met = meet(sources[0], sources[1:], alone=True)
    except DataError as refused:
        joined = join_summaries(summaries, names, _Labels(sources, names))
        lines = str(refused).splitlines()
        joined["warnings"] = [*(f"not compared: {line}" for line in lines), *joined["warnings"]]
        return joined, {}
    found = compare_met(met, Method(confidence=float(summaries[0].get("confidence", 0.95))))
    joined = join_summaries(summaries, names, _Labels(sources, names, met))
    joined["notes"] = [*found["notes"], *joined["notes"]]
    return joined, found


class _Labels:
    """What a page calls each system: its name, with that of its run where others share it."""

    def __init__(
        self, sources: Sequence[ScoredSystems], names: Sequence[str], met: Met | None = None
    ) -> None:
        every = [name for source in sources for name in source.systems]
        self._labels = {
            (place, name): name if every.count(name) == 1 else f"{name} ({names[place]})"
            for place, source in enumerate(sources)
            for name in source.systems
        }
        # as the comparison calls them, so that the page finds their differences
        self._labels |= {(r.source, r.scores.name): r.label for r in rows_of(met)} if met else {}

    def __call__(self, run: int, system: str) -> str:
        return self._labels.get((run, system), system)
