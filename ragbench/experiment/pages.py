"""`ragbench report`: pages and pictures of a run from its files, or of several runs together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import collections_folder, read_manifest, to_json
from ragbench.errors import DataError
from ragbench.experiment.collections import read_collections, write_collections
from ragbench.experiment.fix import list_fixes_of_page
from ragbench.experiment.joined_runs import REFUSED, side_by_side
from ragbench.experiment.result import Experiment, load_experiment
from ragbench.files import naming_unwritable, write_file
from ragbench.records import codec
from ragbench.records.codec import cleaned
from ragbench.records.comparison import ComparedRuns, Comparisons
from ragbench.records.fixes import FixList
from ragbench.records.gate import Decision
from ragbench.records.summary import Summary
from ragbench.report.junit import render_junit
from ragbench.report.page import html
from ragbench.report.pictures import pictures, score_pictures
from ragbench.report.query_pictures import differences_by_query, query_pictures
from ragbench.report.results import render_markdown
from ragbench.report.runs import lay_out_changes
from ragbench.secrets import redactor

# Suffixes of pages.
PAGES = (".html", ".md")
# Default name of the page of several runs.
SIDE_BY_SIDE = Path("side-by-side.html")


def write_pages(
    runs: Sequence[Path],
    output: Path | None = None,
    tell: Callable[[str], object] | None = None,
    *,
    brief: bool = False,
) -> list[Path]:
    """Write the page of one run, or of several side by side, from their files; return the paths.

    An existing page is replaced. The folder of an experiment counts as its newest run. One folder
    of a config with several data sets gets the page over all of them, unless `brief` is set.

    Args:
        runs: Run folders, at least one; the first is the base of the others.
        output: File that ends in `.html` or `.md`. None writes both pages of one run into its
            folder, and the page of several as `side-by-side.html` in the working directory.
        tell: Function that gets a line for each main change between several runs, the reasons why
            they may not be compared, or why the page of one run has no fix list.
        brief: Write the main results of one run for one sheet of A4; `output` has to be an `.html`
            file.

    Raises:
        DataError: A folder is no run, its files are wrong, or a page cannot be written.
    """
    run = None
    if len(runs) == 1 and not brief and (over_all := collections_folder(runs[0])) is not None:
        paths = _page_paths(over_all) if output is None else [output]
        write_collections(read_collections(over_all), paths)
        return paths
    if len(runs) == 1:
        experiment = load_experiment(runs[0])
        summary, comparisons, run = experiment.record, experiment.compared, experiment.path
        paths = _page_paths(run) if output is None else [output]
    else:
        summary, comparisons = side_by_side(runs)
        paths = [output or SIDE_BY_SIDE]
        if tell is not None:
            for line in _headlines(summary, comparisons):
                tell(line)
    is_html = any(path.suffix == ".html" for path in paths)
    views = None if run is None or not is_html else QueryViews(run, bare=True)
    fixes = None if views is None else _fixes_of(views, tell)
    for path in paths:
        with naming_unwritable(path):
            if brief:
                html.write_brief(path, summary, comparisons, views, fixes)
            elif path.suffix == ".html":
                html.write_page(path, summary, comparisons, views, fixes)
            else:
                question_of = None if run is None else QueryViews(run, bare=True).question
                html.write_text(path, render_markdown(summary, comparisons, question_of))
    return paths


def store_decisions(
    experiment: Experiment, decisions: Sequence[Decision], base: str, secrets: Mapping[str, str]
) -> None:
    """Write the decisions of `ragbench gate` into the folder of a run, and its pages again.

    A note names the base. Secrets are masked.

    Raises:
        DataError: A file cannot be written.
    """
    clean = redactor(secrets)
    gates = tuple(cleaned(gate, clean) for gate in decisions)
    notes = (*experiment.record.notes, clean(f"gates were decided against the base {base}"))
    summary, folder = structs.replace(experiment.record, gates=gates, notes=notes), experiment.path
    seconds = read_manifest(folder).seconds
    write_file(folder / "summary.json", to_json(codec.to_json(summary)))
    write_file(folder / "junit.xml", render_junit(summary, seconds))
    write_pages([folder])


def markdown_of(experiment: Experiment) -> str:
    """Return the report.md of a run from its files."""
    question_of = QueryViews(experiment.path, bare=True).question
    return render_markdown(experiment.record, experiment.compared, question_of)


def _page_paths(folder: Path) -> list[Path]:
    """Return the paths of the pages of a run in its folder."""
    return [folder / f"report{suffix}" for suffix in PAGES]


def _headlines(summary: Summary, comparisons: Comparisons) -> Sequence[str]:
    """Return a line for each main change between several runs, or why they are not compared."""
    changes = lay_out_changes(comparisons) if isinstance(comparisons, ComparedRuns) else None
    if changes is not None:
        return changes.headlines
    lines = []
    for line in summary.warnings:
        if line.startswith(REFUSED):
            lines.append(line)
    return lines


def write_figures(run: Path, folder: Path) -> list[Path]:
    """Write every picture of a run into a folder as SVG, and return the paths in their order.

    Files are named after the picture, the second of one name with `-2` at the end; a run without
    pictures gives [].

    Raises:
        DataError: There is no run, or a file cannot be written.
    """
    experiment = load_experiment(run)
    paths = []
    counts = Counter[str]()
    by_measure = differences_by_query(experiment.compared, experiment.per_query)
    bars = query_pictures(experiment.compared, by_measure).values()
    scores = score_pictures(experiment.record, experiment.compared)
    drawn = pictures(experiment.record, experiment.compared, scores)
    for picture in (*drawn, *bars):
        counts[picture.name] += 1
        # fields such as `a_b` and `a-b` give one name
        end = f"-{counts[picture.name]}" if counts[picture.name] > 1 else ""
        path = folder / f"{picture.name}{end}.svg"
        write_file(path, picture.file())
        paths.append(path)
    return paths


def _fixes_of(views: QueryViews, tell: Callable[[str], object] | None) -> FixList | None:
    """Return the fix list of a run; None, with a line for `tell`, if a file of it is damaged."""
    # The other parts of a page need neither the config nor the texts of the questions.
    try:
        return list_fixes_of_page(views)
    except DataError as error:
        if tell is not None:
            tell(f"no fix list: {error}")
        return None
