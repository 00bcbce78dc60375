"""Changes between several runs, and the list of the runs of a folder with their trends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import zip_longest

from ragbench.comparison.compared_rows import short_names
from ragbench.records.causes import CauseFlow, counted_cause
from ragbench.records.comparison import (
    ComparedRuns,
    Difference,
    MeasureComparison,
    MovedQueries,
    RunSince,
)
from ragbench.records.score import SystemScore
from ragbench.report import text as fmt
from ragbench.report.base import Chapter, Outcome
from ragbench.report.headline import outcome_of, verdict_of
from ragbench.report.table import (
    Table,
    TableColumn,
    change,
    count,
    label,
    word_table,
)
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_name

_NO_RANKING = "(ranking not stored)"
_EMPTY_RANKING = "(nothing retrieved)"
_RUNS = ("run", "started", "commit", "changed in config and data")
_MOVED = (
    *(TableColumn("system"), TableColumn("measure"), TableColumn("before", "number", breaks=True)),
    *(TableColumn("after", "number"), TableColumn("difference", "number", breaks=True)),
    *(TableColumn("verdict"), TableColumn("up", "number", breaks=True)),
    *(TableColumn("down", "number"), TableColumn("same", "number")),
)
_CAUSES = ("system", "queries", "from", "to", "which")
# losses first: they need a reader
_ORDER: tuple[Outcome, ...] = ("worse", "better", "not shown", "", "not compared", "identical")
# largest numbers in one line: systems of an outcome, queries of a move, changes of a config
_MOST_SYSTEMS, _MOST_QUERIES, _MOST_CHANGES = 3, 5, 5


def lay_out_changes(compared: ComparedRuns) -> Chapter | None:
    """Return the chapter on the differences between several runs; None for a single run.

    Tables without rows are left out.
    """
    if len(compared.runs) < 2:
        return None
    names = [*map(printable, short_names(compared.sources))]
    # reversed: a run that was passed twice keeps its first name
    name_of = dict(zip(reversed(compared.sources), reversed(names), strict=True))
    changes = ["the baseline of the other runs"]
    changes += map(changed_text, compared.runs[1:])
    runs = []
    for run, text in zip(compared.runs, changes, strict=True):
        runs.append((name_of[run.source], run.started, (run.commit or fmt.MISSING)[:10], text))
    causes = []
    for flow in compared.causes:
        for move in flow.moves:
            words = map(fmt.cause_words, (move.before, move.after))
            queries = "; ".join(_query_lines(move.queries, compared.questions))
            causes.append((printable(flow.system), fmt.moved_questions([move]), *words, queries))
    moved = "queries whose cause changed since the first run"
    grids = [
        word_table(_RUNS, runs, "the runs"),
        _score_table(compared),
        word_table(_CAUSES, causes, moved),
    ]
    for of_pair in compared.moved:
        grids.append(moved_table(of_pair, compared))
    return Chapter(
        title="what changed, what moved",
        headlines=tuple(_sentences(compared, names)),
        labels=(),
        grids=tuple(grid for grid in grids if grid.rows),
    )


def changed_lines(compared: ComparedRuns) -> list[str]:
    """Return a head and a line per later run on its changes since the first; [] for one run."""
    if len(compared.runs) < 2:
        return []
    base, *later_runs = compared.runs
    lines = [f"changed since {printable(base.source)}"]
    for run in later_runs:
        lines.append(f"  {printable(run.source)}: {changed_text(run)}")
    return lines


def changed_text(run: RunSince) -> str:
    """Return a line with the first 5 changes of config and data of a run, or without changes."""
    return first_texts(run.changed, _MOST_CHANGES) or (_UNKNOWN if run.has_unseen else _UNCHANGED)


def moved_causes(compared: ComparedRuns, *, is_folded: bool = False) -> list[str]:
    """Return lines on the questions whose cause changed between runs; [] for a single run.

    The moves of a system are indented, and their questions further. A system without a change has
    no lines.

    Args:
        compared: The comparison.
        is_folded: Write the questions of a move behind it, and leave out retrievers whose pairs
            have moves, which are those of the retriever or follow from them.
    """
    lines = []
    # systems of one run have their moves in the tables of the run
    flows = compared.causes if len(compared.runs) > 1 else ()
    for flow in flows_of_answers(compared) if flows and is_folded else flows:
        head, *moves = fmt.flow_lines(flow, compared.questions)
        lines += [f"causes, {head}"] if flow.moves else []
        if is_folded:
            lines += [f"  {move}" for move in moves]
            continue
        for move in flow.moves:
            lines.append(f"  {fmt.moved_questions([move])} {fmt.move_words(move)}")
            for line in _query_lines(move.queries, compared.questions):
                lines.append(f"    {line}")
    return lines


def flows_of_answers(compared: ComparedRuns) -> Iterator[CauseFlow]:
    """Yield the flows with moves, without those of retrievers whose pairs have some."""
    systems = index_by_name(compared.systems)
    flows = []
    for flow in compared.causes:
        if flow.moves:
            flows.append(flow)
    read = set()
    for flow in flows:
        system = systems[flow.system]
        if system.generator is not None:
            read.add((system.source, system.retriever))
    for flow in flows:
        system = systems[flow.system]
        if system.generator is not None or (system.source, system.system) not in read:
            yield flow


_UNCHANGED = "nothing in config, data and files"
_UNKNOWN = "nothing that ragbench can see"


def first_texts(texts: Sequence[str], most: int) -> str:
    """Join the first `most` texts by `; `, with the number of further ones; '' without texts."""
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return "; ".join([*map(printable, texts[:most]), *more])


def _query_lines(queries: Sequence[str], questions: Mapping[str, str]) -> list[str]:
    """Return the names of the first 5 queries, and a line with the number of others."""
    lines = []
    for query in queries[:_MOST_QUERIES]:
        lines.append(fmt.query_name(query, questions))
    more = len(queries) - _MOST_QUERIES
    return [*lines, f"and {more} more"] if more > 0 else lines


def _sentences(compared: ComparedRuns, names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence per further run: its changes, and its results by the first measures."""
    changes = {run.source: changed_text(run) for run in compared.runs}
    for source, name in zip(compared.sources[1:], names[1:], strict=True):
        systems = set()
        for system in compared.systems:
            if system.source == source:
                systems.add(system.name)
        outcomes = []
        for family in compared.firsts:
            outcomes.append((family.measure, _outcomes(compared, family, systems)))
        parts = []
        for measure, text in outcomes:
            if text:
                parts.append(f"{printable(measure)}: {text}")
        differences = changes.get(source, _UNKNOWN)
        result = "; ".join(parts) or "no common system"
        yield f"{name} against {names[0]} ({differences}): {result}"


def _outcomes(compared: ComparedRuns, family: MeasureComparison, systems: Container[str]) -> str:
    """Return the systems of each verdict with both means, as `bm25 (0.3 -> 0.4) better, ...`."""
    by_name = index_by_name(compared.systems)
    groups = defaultdict[Outcome, list[str]](list)
    for row in family.comparisons:
        if row.system in systems:
            outcome = outcome_of(row, family.direction)
            # identical scores have equal means, which say nothing
            text = "" if outcome == "identical" else f" ({_change(compared, family.measure, row)})"
            groups[outcome].append(printable(by_name[row.system].system) + text)
    parts = []
    for outcome in _ORDER:
        names = groups[outcome]
        subject = fmt.listed(names) if len(names) <= _MOST_SYSTEMS else f"{len(names)} systems"
        word = "not shown to differ" if outcome == "not shown" else outcome
        parts += [f"{subject} {word}".rstrip()] if names else []
    return ", ".join(parts)


def _change(compared: ComparedRuns, measure: str, row: Difference) -> str:
    """Return the result of a comparison's baseline and system: `0.3 -> 0.4`."""
    if counted_cause(measure) is None:
        return " -> ".join(_means(compared, measure, row))
    scores = _scores(compared, measure, row)
    counts = []
    for score in scores:
        counts.append(f"{round((score.mean or 0.0) * score.n)} of {score.n}")
    if scores[0].n == scores[1].n:
        counts[0] = counts[0].partition(" of ")[0]
    return " -> ".join(counts)


def _means(compared: ComparedRuns, measure: str, row: Difference) -> list[str]:
    """Return the means of baseline and system, in this order, as text."""
    return [fmt.significant(score.mean) for score in _scores(compared, measure, row)]


def _scores(compared: ComparedRuns, measure: str, row: Difference) -> tuple[SystemScore, ...]:
    """Return the scores of baseline and system by a measure, in this order."""
    systems = index_by_name(compared.systems)
    return systems[row.baseline].scores[measure], systems[row.system].scores[measure]


def _score_table(compared: ComparedRuns) -> Table:
    """Return the table of scores of common systems, before and after."""
    # only the measures with stored queries have counts
    counts = {}
    for moves in compared.moved:
        counts[(moves.measure, moves.system)] = (moves.up, moves.down, moves.same)
    rows = []
    for family in compared.firsts:
        for row in family.comparisons:
            moved = counts.get((family.measure, row.system), (None, None, None))
            cells = (
                *map(label, (row.system, family.measure)),
                *map(label, _means(compared, family.measure, row)),
                change(row.difference, row.interval),
                label(verdict_of(row, family.direction)),
                *map(count, moved),
            )
            rows.append(cells)
    caption = (
        "scores: each system against the one of the same name in the first run, query by query"
    )
    return Table(_MOVED, tuple(rows), caption)


def moved_table(moved: MovedQueries, compared: ComparedRuns) -> Table:
    """Return the table of the queries that moved most, each with the documents of both rankings.

    The cause of a query is `same` if it did not move; without compared causes, as within one run,
    the table has no such column, and none of questions if no text is known. A row for each rank
    follows the row of a query, unless no ranking is stored. Gold is marked. The shorter ranking is
    filled up with empty texts; a missing or empty one has a remark.
    """
    # a score may move while its cause stays
    flows = []
    for f in compared.causes:
        if (f.system, f.baseline) == (moved.system, moved.baseline):
            flows.append(f)
    causes = {}
    for f in flows:
        for move in f.moves:
            for q in move.queries:
                causes[q] = fmt.move_words(move)
    head, blank = (("cause",), ("",)) if flows else ((), ())
    texts = {}
    for query in moved.queries:
        text = query.question or compared.questions.get(query.query_id, "")
        if text:
            texts[query.query_id] = printable(text)
    rows: list[tuple[str, ...]] = []
    for query in moved.queries:
        scores = map(fmt.significant, (query.baseline_score, query.score))
        difference = fmt.difference(query.difference, None)[0]
        cause = (causes.get(query.query_id, "same"),) if flows else ()
        question = texts.get(query.query_id, "")
        name = fmt.short_name(query.query_id, question)
        rows.append((name, *scores, difference, *cause, *([question] if texts else [])))
        # of two baseline files no ranking is known
        if query.baseline_ranking is query.ranking is None:
            continue
        sides = [
            _ranking_cells(query.baseline_ranking, query.baseline_gold),
            _ranking_cells(query.ranking, query.gold),
        ]
        for rank, pair in enumerate(zip_longest(*sides, fillvalue=""), start=1):
            rows.append((f"  {rank}", *map(printable, pair), "", *blank, *([""] if texts else [])))
    names = map(printable, (moved.baseline, moved.system))
    heads = ("query", *names, "difference", *head, *(["question"] if texts else []))
    return word_table(heads, rows, moved_head(moved))


def _ranking_cells(ranking: Sequence[str] | None, gold: Sequence[int]) -> list[str]:
    """Return the documents of a ranking, the gold ones marked; a remark without any."""
    if ranking is None:
        return [_NO_RANKING]
    cells = []
    for rank, d in enumerate(ranking, start=1):
        cells.append(f"{d} (gold)" if rank in gold else d)
    return cells or [_EMPTY_RANKING]


def moved_head(moved: MovedQueries) -> str:
    """Return a line with the numbers of queries that moved between two systems.

    Example:
        >>> moved_head(MovedQueries(measure="map", system="dense", baseline="bm25",
        ...                         up=2, down=1, same=7, queries=()))
        'moved most on map, dense against bm25: 2 up, 1 down, 7 the same'
    """
    names = map(printable, (moved.measure, moved.system, moved.baseline))
    counts = f"{moved.up} up, {moved.down} down, {moved.same} the same"
    return "moved most on {}, {} against {}: {}".format(*names, counts)
