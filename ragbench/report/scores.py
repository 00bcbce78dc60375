"""Output of `ragbench score`: an aligned table, CSV, JSON, and the format of trec_eval."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import exp, nan
from types import MappingProxyType
from typing import Any, NamedTuple

from ragbench.comparison.evaluation import SCHEMA, Evaluation
from ragbench.records.codec import to_json
from ragbench.records.score import RunCounts
from ragbench.report.formats.base import Screen
from ragbench.report.formats.terminal import draw_table
from ragbench.report.table import Table, TableCell, TableColumn, label
from ragbench.report.text import MISSING, interval, labelled, significant
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.trec_eval import FAMILIES, SETS
from ragbench.score.retrieval.trec_eval_parameters import print_parameters
from ragbench.stats.mean import finite
from ragbench.types.checks import id_bytes
from ragbench.types.display import printable
from ragbench.types.lookups import index_positions
from ragbench.types.scores import Cause

# Query id of a row on all queries, as in trec_eval.
ALL = "all"

# Lines that trec_eval prints beside measures: the run tag, the number of queries, and for each
# query the grades at the top of its ranking.
FACTS = ("runid", "num_q", "relstring")

# Names of trec_eval in its print order: `all_trec` without `relstring`, which follows the official
# measures, and `yaap`, which precedes the last one.
_PRINTED = [*SETS["all_trec"]]
_PRINTED.insert(len(SETS["official"]), "relstring")
_PRINTED.insert(-1, "yaap")
_ORDER = index_positions(_PRINTED)


@cache
def _families() -> dict[str, str]:
    """Return name of our measure -> name in trec_eval, as `ndcg@` -> `ndcg_cut`."""
    families = {}
    for name in _PRINTED:
        if name not in FACTS:
            measure = parse_measures([name], trec_eval_defaults=True)[0]
            families[measure.spec.name + ("" if measure.k is None else "@")] = name
    return families


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """Run file or file of predictions, with its scores.

    Attributes:
        name: Tag of the run, or the file name if tags are equal.
        source: Path of the file.
        evaluation: Scores of the file.
        relevance: Query id -> grades at the top of its ranking, for trec_eval's `relstring`; empty
            if they are not requested.
        missing: Ids of the judged queries that the run lacks.
    """

    name: str
    source: str
    evaluation: Evaluation
    relevance: Mapping[str, str] = field(default_factory=dict, repr=False)
    missing: frozenset[str] = frozenset()

    def rows(self) -> Iterator[tuple[str, dict[str, float | None]]]:
        """Yield (query id, score -> value), sorted by the bytes of the ids as in trec_eval.

        A query that the run lacks, or that has no judgements, has no row. A value that is missing
        for another cause, as of a score that does not apply to the query, is None. The keys are in
        the order of the scores.
        """
        columns = self.evaluation.columns
        values = {}
        for name, column in columns.items():
            values[name] = column.values.tolist()
        causes = [column.causes.tolist() for column in columns.values()]
        queries = self.evaluation.query_ids
        for row in sorted(range(len(queries)), key=lambda row: id_bytes(queries[row])):
            if all(of_score[row] in _UNSCORED for of_score in causes):
                continue
            of_query = {}
            for name, of_score in values.items():
                of_query[name] = None if math.isnan(of_score[row]) else of_score[row]
            yield queries[row], of_query


_UNSCORED = frozenset({Cause.MISSING_QUERY, Cause.NO_JUDGEMENTS})


def render_csv(
    systems: Sequence[ScoredFile], *, per_query: bool = False, summary: bool = True
) -> str:
    """Return the scores as CSV with all digits; a missing value is an empty cell.

    The header has `system`, `query_id` and the names of the scores. With `per_query` the queries
    come first; with `summary` the last row of a system has the means, with the `query_id` `all`.
    Files are in their order; all have the scores of the first one.

    Raises:
        IndexError: There is no file.
    """
    # imported here, as in `_counts`: reading run folders would slow down each start of `score`
    from ragbench.data.runs.run_folder import to_csv

    rows: list[list[str | float | None]] = []
    names = list(systems[0].evaluation.columns)
    for scored in systems:
        if per_query:
            for query, values in scored.rows():
                rows.append([scored.name, query, *values.values()])
        if summary:
            means = scored.evaluation.mean
            rows.append([scored.name, ALL, *(finite(means[name]) for name in names)])
    return to_csv(["system", "query_id", *names], rows)


def render_json(
    systems: Sequence[ScoredFile], *, per_query: bool = False, summary: bool = True, **facts: Any
) -> str:
    """Return the scores as JSON; a missing value is null.

    The text is ASCII and ends with a line end.

    Args:
        systems: The scored files; their entries have the form of summary.json.
        per_query: Add the value of each query.
        summary: Add the means.
        facts: Further keys beside `schema`, `confidence` and `systems`: the data and options of the
            scores.

    Raises:
        IndexError: There is no file.
    """
    content = {
        "schema": SCHEMA,
        "confidence": systems[0].evaluation.confidence,
        **facts,
        "systems": [_system(scored, per_query, summary) for scored in systems],
    }
    # ASCII only: an id with invalid UTF-8 would make the whole output unreadable
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _system(scored: ScoredFile, per_query: bool, summary: bool) -> dict[str, Any]:
    """Return the JSON object of a file."""
    evaluation = scored.evaluation
    entry = {"name": scored.name, "file": scored.source, "counts": evaluation.counts}
    if summary:
        entry["scores"] = {name: to_json(score) for name, score in evaluation.summary.items()}
    if per_query:
        by_score: dict[str, dict[str, float | None]] = {}
        for name in evaluation.columns:
            by_score[name] = {}
        for query, values in scored.rows():
            for name, value in values.items():
                by_score[name][query] = value
        entry["per_query"] = by_score
    return entry


# Query id and score of a row; None means all queries.
Key = tuple[str | None, str]


def render_table(
    systems: Sequence[ScoredFile],
    *,
    per_query: bool = False,
    summary: bool = True,
    notes: Sequence[str] = (),
    width: int = 100,
) -> str:
    """Return the scores as aligned text, with intervals and counts, then the notes.

    The text ends with a line end.

    Args:
        systems: The scored files, one column each; those that do not fit go into a further table.
        per_query: Add a row for each query and score.
        summary: Add a row for the mean of each score.
        notes: Lines at the end.
        width: Columns of the terminal.

    Raises:
        IndexError: There is no file.
    """
    names = list(systems[0].evaluation.columns)
    cells = [_cells(scored, per_query, summary) for scored in systems]
    # queries first, as in trec_eval; a query has rows if any of the systems has it
    queries: set[str] = set()
    for of_system in cells:
        for query, _ in of_system:
            if query is not None:
                queries.add(query)
    rows: list[str | None] = [*sorted(queries, key=id_bytes), *([None] if summary else [])]
    missing = TableCell(MISSING)
    table_rows = []
    for query in rows:
        name_of_query = label(ALL if query is None else query)
        start = [name_of_query] if per_query else []
        for name in names:
            values = [of_system.get((query, name), missing) for of_system in cells]
            table_rows.append((*start, label(name), *values))
    columns = [TableColumn("query")] if per_query else []
    columns.append(TableColumn("measure"))
    for scored in systems:
        columns.append(TableColumn(printable(scored.name), "number", breaks=True))
    lines = draw_table(Table(tuple(columns), tuple(table_rows)), Screen(width))
    lines += _counts(systems) if summary else []
    lines += labelled("note", map(printable, notes))
    return "\n".join(lines) + "\n"


def _counts(systems: Sequence[ScoredFile]) -> list[str]:
    """Return lines with the numbers of scored queries; without names if all systems agree."""
    from ragbench.report.score_counts import count_lines

    by_system = {}
    for scored in systems:
        scores = scored.evaluation.summary
        by_system[scored.name] = count_lines({scored.name: scores}, list(scores))
    if len(set(map(tuple, by_system.values()))) == 1:
        return by_system[systems[0].name]
    counts = []
    for name, lines in by_system.items():
        for line in lines:
            counts.append(f"{printable(name)}: {line}")
    return counts


def _cells(scored: ScoredFile, per_query: bool, summary: bool) -> dict[Key, TableCell]:
    """Return (query id, score) -> cell of the value; the id None has the mean and its interval."""
    of_all = scored.evaluation.summary
    # sums, such as num_ret, are whole numbers
    sums = set()
    for name, score in of_all.items():
        if score.aggregate == "sum":
            sums.add(name)

    def text(name: str, value: float | None) -> str:
        """Return a value as trec_eval prints it."""
        return f"{value:.0f}" if value is not None and name in sums else significant(value)

    cells: dict[Key, TableCell] = {}
    for query, of_query in scored.rows() if per_query else ():
        for name, value in of_query.items():
            cells[query, name] = TableCell(text(name, value), value)
    for name, score in of_all.items() if summary else ():
        mean = text(name, score.mean)
        cells[None, name] = TableCell(mean, score.mean, interval(score.interval))
    return cells


def trec_eval_parts(measure: Measure, level: int = 1) -> tuple[str, str] | None:
    """Return name and parameter of a measure in trec_eval; None if trec_eval does not have it.

    A measure without a parameter has ''.
    `level` is the smallest relevant grade of the whole call: trec_eval's `-l`.

    Example:
        >>> from ragbench.score.retrieval.notation import parse_measure
        >>> names = ["ndcg@10", "mrr", "iprec_at_recall@0.1", "ndcg(gain=exp)@10", "mrr@10"]
        >>> [trec_eval_parts(parse_measure(name)) for name in names]
        [('ndcg_cut', '10'), ('recip_rank', ''), ('iprec_at_recall', '0.10'), None, None]
    """
    family = _families().get(f"{measure.spec.name}{'' if measure.k is None else '@'}")
    options = {}
    for name, value in measure.options.items():
        if name != "documents":
            options[name] = value
    recall_level = options.pop(measure.spec.at, None)
    parts = measure.signature_parts()
    # the level of relevance is one option of the whole call, not of a measure
    if "rel" in parts and options.pop("rel", 1) != level:
        return None
    parameters = print_parameters(measure.label, options, parts)
    # trec_eval has no measure with both parameters and a cut-off
    if family is None or parameters is None or (parameters and measure.k is not None):
        return None
    if measure.k is not None:
        return family, str(measure.k)
    return family, parameters if recall_level is None else f"{recall_level:.2f}"


def render_trec(
    systems: Sequence[ScoredFile],
    measures: Mapping[str, Measure],
    *,
    level: int = 1,
    facts: Collection[str] = FACTS[:2],
    missing: bool = True,
    totals: Mapping[str, float] = MappingProxyType({}),
    per_query: bool = False,
    summary: bool = True,
) -> str:
    """Return a block of lines per run: name, query id or `all`, value, separated by tabs.

    Measures have the order of trec_eval, not of the request; measures that it lacks come last,
    under our names. Files are in their order; values have four decimals, sums none. A score without
    a value has no line; '' without runs.

    Args:
        systems: The scored runs.
        measures: Score name -> measure.
        level: Smallest relevant grade: trec_eval's `-l`.
        facts: Lines of `FACTS` to print, `relstring` with its length: `relstring.10`. `runid` is
            always printed for several runs.
        missing: Print lines for queries that the run lacks. trec_eval 9 prints none, although it
            counts them with -c.
        totals: Name as printed -> number to print for all queries instead of the sum or mean.
        per_query: Print lines for each query.
        summary: Print lines for all queries.
    """
    places = _in_order(measures, level)
    printed = set(facts) if summary else set()
    if len(systems) > 1:
        printed.add("runid")  # else a reader could not assign the blocks to the runs
    strings = next((fact for fact in facts if fact.startswith("relstring")), None)
    lines: list[str] = []
    for scored in systems:
        unseen = frozenset() if missing else scored.missing
        lines += _query_lines(scored, places, strings, unseen) if per_query else ()
        read = scored.evaluation.input_counts
        n = read.scored if isinstance(read, RunCounts) else len(scored.evaluation.query_ids)
        values = {"runid": scored.name, "num_q": str(n)}
        for fact, value in values.items():
            if fact in printed:
                lines.append(_line(fact, ALL, value))
        lines += _summary_lines(scored, places, totals) if summary else ()
    return "".join(lines)


class TrecPlace(NamedTuple):
    """Place of a measure in the output of trec_eval; places sort in its print order.

    Attributes:
        family: Position of the measure in trec_eval; a measure that it lacks comes after all
            others.
        cutoff: Cut-off, or position in the request for measures without one.
        score: Name of the score; empty for `relstring`.
        name: Name to print.
    """

    family: int
    cutoff: float
    score: str
    name: str


def _in_order(measures: Mapping[str, Measure], level: int) -> list[TrecPlace]:
    """Return the places of the measures in the print order of trec_eval, without `FACTS`."""
    places: list[TrecPlace] = []
    for position, (score, measure) in enumerate(measures.items()):
        # facts have lines of their own
        if measure.spec.name in FACTS:
            continue
        if parts := trec_eval_parts(measure, level):
            family, parameter = parts
            name = "_".join(filter(None, parts))
            place = float(parameter) if family in FAMILIES else position
            places.append(TrecPlace(_ORDER[family], place, score, name))
        else:
            places.append(TrecPlace(len(_ORDER), position, score, measure.name))
    return sorted(places)


def _query_lines(
    scored: ScoredFile, places: Sequence[TrecPlace], strings: str | None, unseen: Collection[str]
) -> Iterable[str]:
    """Yield a line per query and measure, without the queries `unseen`."""
    summary = scored.evaluation.summary
    by_query = []
    for place in places:
        if summary[place.score].aggregate != "geometric_mean":
            by_query.append(place)
    if strings is not None:
        text = strings.replace(".", "_")
        by_query = sorted([*by_query, TrecPlace(_ORDER["relstring"], 0.0, "", text)])
    for query, values in scored.rows():
        if query in unseen:
            continue
        for _, _, score, name in by_query:
            if not score:  # relstring
                yield _line(name, query, f"'{scored.relevance[query]}'")
            elif (value := values[score]) is not None:
                yield _line(name, query, _number(value, summary[score].aggregate))


def _summary_lines(
    scored: ScoredFile, places: Sequence[TrecPlace], totals: Mapping[str, float]
) -> Iterable[str]:
    """Yield a line per measure with its mean or sum; a measure without a number has none."""
    evaluation = scored.evaluation
    ids = list(map(id_bytes, evaluation.query_ids))
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for _, _, score, name in places:
        column = evaluation.columns[score]
        added = _as_trec_eval_adds(column.values[order].tolist(), column.aggregate)
        value = totals.get(name, added)
        # NaN: no query has a value
        if value == value:
            yield _line(name, ALL, _number(value, column.aggregate))


def _as_trec_eval_adds(values: Iterable[float], aggregate: str) -> float:
    """Return the sum, the mean or the geometric mean, added one by one as trec_eval does."""
    total, n = 0.0, 0
    for value in values:
        if value == value:
            total, n = total + value, n + 1
    if aggregate == "sum":
        return total
    mean = total / n if n else nan
    return exp(mean) if aggregate == "geometric_mean" else mean


def _line(name: str, query: str, value: str) -> str:
    """Return a line in the format of trec_eval, with its line end."""
    return f"{name:<22}\t{query}\t{value}\n"


def _number(value: float, aggregate: str) -> str:
    """Format a value as trec_eval: a sum as an integer, else four decimals."""
    return f"{value:.0f}" if aggregate == "sum" else f"{value:6.4f}"
