"""`ragbench report`: the page of a run from its files, or of several runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ragbench.comparison.compare_runs import (
    add_changes,
    compare_sources,
    compared_rows,
    moved_most,
    short_names,
)
from ragbench.comparison.matching import MatchedSources, match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.sources import read_scored
from ragbench.data.runs.run_list import RunEntry
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError, MissingExtra
from ragbench.experiment.result import load_experiment
from ragbench.files import naming_unwritable, write_atomically, write_file
from ragbench.records.comparison import ComparedRuns, Comparisons, no_comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.markdown import render_chapter, render_markdown
from ragbench.report.page.html import all_pictures, write_page, write_runs_page
from ragbench.report.pictures.svg import Picture
from ragbench.report.runs import lay_out_changes, lay_out_list

# Suffixes of pages.
PAGES = (".html", ".md")
# The page of several runs where no name was given.
SIDE_BY_SIDE = Path("side-by-side.html")
_MOVED, _REFUSED = 5, "not compared: "
# Kinds of pictures; all but the first are made of it by CairoSVG, which is an extra.
FIGURES = ("svg", "pdf", "png")
# Pixels of a PNG for each of a screen: 288 dots an inch.
_PIXELS = 3


def write_pages(
    runs: Sequence[Path],
    output: Path | None = None,
    tell: Callable[[str], object] | None = None,
) -> list[Path]:
    """Draw the page of one run, or of several side by side; nothing is run or scored again.

    Several are compared with the first, and `tell` gets what moved, or why they are not compared.
    Without `output`, a file that ends in `.html` or `.md`, both pages of the one run are written
    again into its folder, and that of several is `side-by-side.html`.
    """
    run = None
    if len(runs) == 1:
        experiment = load_experiment(runs[0])
        summary, comparisons, folder = experiment.record, experiment.compared, experiment.path
        run = folder
    else:
        summary, comparisons = _side_by_side(runs)
        folder, output = Path(), output or SIDE_BY_SIDE
        told = lay_out_changes(comparisons) if isinstance(comparisons, ComparedRuns) else None
        refused = [line for line in summary.warnings if line.startswith(_REFUSED)]
        for line in refused if told is None else told.headlines:
            if tell is not None:
                tell(line)
    paths = [folder / f"report{suffix}" for suffix in PAGES] if output is None else [output]
    for path in paths:
        _write(path, summary, comparisons, run)
    return paths


def write_figures(run: Path, folder: Path, kinds: Sequence[str] = FIGURES[:1]) -> list[Path]:
    """Draw every picture of a run as files of some kinds; each query's differences included.

    Raises:
        MissingExtra: A PDF or PNG is asked for, and CairoSVG is not installed.
        DataError: There is no run, or a file cannot be written.
    """
    drawers = {kind: _drawer(kind) for kind in kinds}
    experiment = load_experiment(run)
    paths = []
    for picture in all_pictures(experiment.record, experiment.compared, experiment.path):
        for kind, drawn in drawers.items():
            path = folder / f"{picture.name}.{kind}"
            write_file(path, drawn(picture))
            paths.append(path)
    return paths


def write_list(path: Path, entries: Sequence[RunEntry], folder: Path) -> None:
    """Write a list of runs as a page, with the trends of their scores."""
    page, trends = lay_out_list(entries, folder)
    with naming_unwritable(path):
        if path.suffix == ".html":
            write_runs_page(path, page, trends)
        else:
            text = render_chapter(page.name, page.runs) if page.runs else ""
            write_atomically(path, text.encode("utf-8", "backslashreplace"))


def _drawer(kind: str) -> Callable[[Picture], bytes]:
    if kind == "svg":
        return lambda picture: picture.svg(alone=True).encode("utf-8", "backslashreplace")
    try:
        import cairosvg
    except ImportError as error:
        raise MissingExtra(f"--format {kind}", "cairosvg", "figures") from error
    except OSError as error:  # the package is there, and the library that it calls is not
        advice = "apt-get install libcairo2, or brew install cairo"
        raise MissingExtra(f"--format {kind}", "the library cairo", advice=advice) from error
    made = {"pdf": cairosvg.svg2pdf, "png": partial(cairosvg.svg2png, scale=_PIXELS)}[kind]

    def drawn(picture: Picture) -> bytes:
        text = picture.svg(alone=True).encode("utf-8", "backslashreplace")
        return bytes(made(bytestring=text, background_color="#fff"))

    return drawn


def _write(path: Path, summary: Summary, comparisons: Comparisons, run: Path | None) -> None:
    try:
        with naming_unwritable(path):
            if path.suffix == ".html":
                write_page(path, summary, comparisons, run)
            else:
                # half characters, as a model may send them, as escapes: UTF-8 has none
                page = render_markdown(summary, comparisons).encode("utf-8", "backslashreplace")
                write_atomically(path, page)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # the fields that pages rely on were checked; the rest of both files is as deep as wide
        found = f"{type(error).__name__}: {error}"
        raise DataError(
            f"summary.json or comparisons.json cannot be drawn: {found}",
            file=path,
            allowed="files as ragbench run wrote them",
        ) from error


def _side_by_side(runs: Sequence[Path]) -> tuple[Summary, Comparisons]:
    """Join the runs, with their differences from the first as far as they may be compared."""
    names = short_names([str(run) for run in runs])
    sources = [read_scored(run) for run in runs]
    summaries = [source.summary for source in sources if source.summary is not None]
    if len(summaries) < len(sources):
        raise DataError("a page is of runs", file=runs[0], allowed="run folders")
    try:
        matched = match_sources(sources[0], sources[1:], alone=True)
    except DataError as refused:
        joined = join_summaries(summaries, names, _label_systems(sources, names))
        lines = tuple(f"{_REFUSED}{line}" for line in str(refused).splitlines())
        joined = replace(joined, warnings=(*lines, *joined.warnings))
        return _compared_with(joined, no_comparisons()), no_comparisons()
    compared = add_changes(
        compare_sources(matched, Method(confidence=summaries[0].confidence)), matched
    )
    measures = [family.measure for family in compared.firsts]
    moved = [row for name in measures for row in moved_most(compared, matched, name, _MOVED)]
    compared = replace(compared, moved=tuple(moved))
    joined = join_summaries(summaries, names, _label_systems(sources, names, matched))
    joined = replace(joined, notes=(*compared.notes, *joined.notes))
    return _compared_with(joined, compared), compared


def _compared_with(summary: Summary, comparisons: Comparisons) -> Summary:
    """Return the summary with the baselines of these comparisons: systems of the first run."""
    baselines = {
        (difference.system, family.measure): difference.baseline
        for family in comparisons.measures
        for difference in family.comparisons
    }

    def renew(system: SystemSummary) -> SystemSummary:
        by_score = {name: baselines.get((system.name, name)) for name in system.scores}
        first = next(filter(None, by_score.values()), None)
        scores = {
            name: replace(score, baseline=None if by_score[name] == first else by_score[name])
            for name, score in system.scores.items()
        }
        return replace(system, baseline=first, scores=scores)

    return replace(summary, systems=tuple(map(renew, summary.systems)))


def _label_systems(
    sources: Sequence[ScoredSystems], names: Sequence[str], matched: MatchedSources | None = None
) -> Callable[[int, str], str]:
    """Return a function from run and system to its label: names in several runs get their run."""
    systems = [name for source in sources for name in source.systems]
    labels = {
        (place, name): name if systems.count(name) == 1 else f"{name} ({names[place]})"
        for place, source in enumerate(sources)
        for name in source.systems
    }
    # the labels of the comparison, so that the page finds the differences
    labels |= (
        {(row.source, row.scores.name): row.label for row in compared_rows(matched)}
        if matched
        else {}
    )
    return lambda run, system: labels.get((run, system), system)


def join_summaries(
    summaries: Sequence[Summary], names: Sequence[str], label: Callable[[int, str], str]
) -> Summary:
    """Put the systems of several runs on one page, told apart by their labels.

    The first run is the base of the others; `label` gets the number of a run and a system's name.
    """
    first, runs = summaries[0], list(enumerate(summaries))
    named = list(zip(names, summaries, strict=True))
    same_data = all(each.dataset == first.dataset for each in summaries)
    same_level = all(each.confidence == first.confidence for each in summaries)
    return Summary(
        name=" and ".join(names),
        complete=all(each.complete for each in summaries),
        dataset=first.dataset if same_data else None,
        confidence=first.confidence if same_level else 0.95,
        # no system is called so: names have no blanks
        baseline=f"run {names[0]}",
        judges={name: judge for each in summaries for name, judge in each.judges.items()},
        # those of one name one below the other
        systems=tuple(
            replace(system, name=label(run, name))
            for name in dict.fromkeys(system.name for each in summaries for system in each.systems)
            for run, each in runs
            if (system := each.system(name)) is not None
        ),
        gates=tuple(
            gate if gate.system is None else replace(gate, system=label(run, gate.system))
            for run, each in runs
            for gate in each.gates
        ),
        warnings=(
            *(f"{name}: {line}" for name, each in named for line in each.warnings),
            # they are never taken for those of people
            *(
                f"{name}: {each.fill.model} judgements are by {each.fill.model_name}"
                for name, each in named
                if each.fill is not None
            ),
        ),
        notes=(
            *(f"{name}: {line}" for name, each in named for line in each.notes),
            *(
                f"{name}: what judges prefer is on the page of the run alone"
                for name, each in named
                if each.preferences
            ),
        ),
    )
