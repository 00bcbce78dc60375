"""`ragbench report`: pages and pictures of a run from its files, or of several runs together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from msgspec import structs

from ragbench.comparison.compare_runs import add_changes, compare_sources
from ragbench.comparison.compared_rows import compared_rows, short_names
from ragbench.comparison.matching import Matching, match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.moved_queries import moved_most
from ragbench.comparison.sources import read_scored
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import collections_folder, read_manifest, to_json
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError
from ragbench.experiment.collections import read_collections, write_collections
from ragbench.experiment.fix import list_fixes_of_page
from ragbench.experiment.gates import with_questions
from ragbench.experiment.plan.queries import common_clusters, shared_cluster
from ragbench.experiment.result import Experiment, load_experiment
from ragbench.files import naming_unwritable, write_file
from ragbench.records import codec
from ragbench.records.codec import cleaned
from ragbench.records.comparison import ComparedRuns, Comparisons, MovedQueries, no_comparisons
from ragbench.records.fixes import FixList
from ragbench.records.gate import Decision
from ragbench.records.summary import DeclaredJudge, Summary, SystemSummary
from ragbench.report.ci import render_junit
from ragbench.report.page import html
from ragbench.report.pictures import differences_by_query, pictures, query_pictures
from ragbench.report.results import render_markdown
from ragbench.report.runs import lay_out_changes
from ragbench.secrets import redactor

# Suffixes of pages.
PAGES = (".html", ".md")
# Default name of the page of several runs.
SIDE_BY_SIDE = Path("side-by-side.html")
# Number of moved queries of each comparison on a page.
_MOVED = 5
# Start of a warning on a page of runs that may not be compared.
_REFUSED = "not compared: "


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
        summary, comparisons = _side_by_side(runs)
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
    question_of = QueryViews(experiment.path, bare=True).question
    gates = tuple(cleaned(gate, clean) for gate in with_questions(decisions, question_of))
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
        if line.startswith(_REFUSED):
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
    for picture in (*pictures(experiment.record, experiment.compared), *bars):
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


def _side_by_side(runs: Sequence[Path]) -> tuple[Summary, Comparisons]:
    """Return the joined summary of several runs, and their comparisons with the first."""
    names = short_names([str(run) for run in runs])
    sources = [read_scored(run) for run in runs]
    summaries = []
    for source in sources:
        if source.summary is not None:
            summaries.append(source.summary)
    if len(summaries) < len(sources):
        raise DataError("a page is of runs", file=runs[0], allowed="run folders")
    try:
        matching = match_sources(sources[0], sources[1:], alone=True)
    except DataError as refused:
        joined = join_summaries(summaries, names, _label_systems(sources, names))
        lines = tuple(f"{_REFUSED}{line}" for line in str(refused).splitlines())
        joined = structs.replace(joined, warnings=(*lines, *joined.warnings))
        return _compared_with(joined, no_comparisons()), no_comparisons()
    cluster = shared_cluster(sources)
    clusters = None if cluster is None else common_clusters(cluster, matching)
    method = Method(confidence=summaries[0].confidence, cluster=cluster)
    compared = add_changes(compare_sources(matching, method, clusters), matching)
    moved: list[MovedQueries] = []
    for family in compared.firsts:
        moved += moved_most(compared, matching, family.measure, _MOVED)
    compared = structs.replace(compared, moved=tuple(moved))
    joined = join_summaries(summaries, names, _label_systems(sources, names, matching))
    joined = structs.replace(joined, notes=(*compared.notes, *joined.notes))
    return _compared_with(joined, compared), compared


def _compared_with(summary: Summary, comparisons: Comparisons) -> Summary:
    """Return the summary with the baselines of these comparisons, which are of the first run."""
    baselines = {}
    for family in comparisons.measures:
        for difference in family.comparisons:
            baselines[difference.system, family.measure] = difference.baseline

    def renew(system: SystemSummary) -> SystemSummary:
        by_score = {}
        for name in system.scores:
            by_score[name] = baselines.get((system.name, name))
        first = next(filter(None, by_score.values()), None)
        scores = {}
        for name, score in system.scores.items():
            baseline = None if by_score[name] == first else by_score[name]
            scores[name] = structs.replace(score, baseline=baseline)
        return structs.replace(system, baseline=first, scores=scores)

    return structs.replace(summary, systems=tuple(map(renew, summary.systems)))


def _label_systems(
    sources: Sequence[ScoredSystems], names: Sequence[str], matching: Matching | None = None
) -> Callable[[int, str], str]:
    """Return a function from the position of a run and a system's name to its label."""
    n_runs = Counter(chain.from_iterable(source.systems for source in sources))
    labels = {}
    for place, source in enumerate(sources):
        for name in source.systems:
            labels[place, name] = name if n_runs[name] == 1 else f"{name} ({names[place]})"
    # the labels of the comparison, so that the page finds the differences
    for row in compared_rows(matching) if matching else ():
        labels[row.source, row.scores.name] = row.label
    return lambda run, system: labels.get((run, system), system)


def join_summaries(
    summaries: Sequence[Summary], names: Sequence[str], label: Callable[[int, str], str]
) -> Summary:
    """Return a summary with the systems, gates, warnings and notes of several runs.

    Systems are in the order of their first run, those of one name together. Dataset is None if the
    runs have different ones; the level is 0.95 if theirs differ. It is complete if all runs are.

    Args:
        summaries: Summaries of the runs, at least one; the first is the base of the others.
        names: Name of each run, in front of its warnings and notes.
        label: Function from the position of a run and a system's name to its label.

    Raises:
        IndexError: There is no summary.
    """
    first = summaries[0]
    systems: dict[str, list[SystemSummary]] = {}
    user_systems, judges, gates = list[str](), dict[str, DeclaredJudge](), list[Decision]()
    warnings, notes = list[str](), list[str]()
    for run, (name, summary) in enumerate(zip(names, summaries, strict=True)):
        for system in summary.systems:
            labelled = structs.replace(system, name=label(run, system.name))
            # systems of the same name stand in neighbouring rows
            systems.setdefault(system.name, []).append(labelled)
        user_systems += [label(run, system_name) for system_name in summary.user_systems]
        judges |= summary.judges
        for gate in summary.gates:
            system_name = gate.system
            renamed = None if system_name is None else label(run, system_name)
            gates.append(structs.replace(gate, system=renamed))
        for line in summary.warnings:
            warnings.append(f"{name}: {line}")
        for line in summary.notes:
            notes.append(f"{name}: {line}")
    for name, summary in zip(names, summaries, strict=True):
        if summary.fill is not None:
            # readers must not take judgements of a model for judgements of people
            by_model = f"{summary.fill.model} judgements are by {summary.fill.model_name}"
            warnings.append(f"{name}: {by_model}")
        if summary.preferences:
            notes.append(f"{name}: preferences of judges are on the page of this run alone")
    same_data = all(summary.dataset == first.dataset for summary in summaries)
    same_level = all(summary.confidence == first.confidence for summary in summaries)
    return Summary(
        name=" and ".join(names),
        complete=all(summary.complete for summary in summaries),
        dataset=first.dataset if same_data else None,
        confidence=first.confidence if same_level else 0.95,
        # a page marks the baseline by its name: names of systems have no blanks
        baseline=f"run {names[0]}",
        user_systems=tuple(user_systems),
        judges=judges,
        systems=tuple(chain.from_iterable(systems.values())),
        gates=tuple(gates),
        warnings=tuple(warnings),
        notes=tuple(notes),
    )
