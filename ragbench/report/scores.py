"""The formats of `ragbench score`: a table for people, CSV, JSON, and what trec_eval prints."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.comparison.evaluate import SCHEMA, Evaluation
from ragbench.records.codec import to_json
from ragbench.records.score import RunCounts
from ragbench.report.text import interval, printable, side_by_side, significant
from ragbench.score.retrieval.trec_eval import FAMILIES, print_parameters
from ragbench.stats.mean import finite
from ragbench.types.checks import id_bytes
from ragbench.types.scores import Cause

if TYPE_CHECKING:
    from ragbench.score.retrieval.notation import Measure

# What stands in the place of the query in a row that is about all of them, as in trec_eval.
ALL = "all"

# What trec_eval prints like a measure: the run tag, the number of queries, and for each query the
# grades at the top of its ranking.
FACTS = ("runid", "num_q", "relstring")

# our measure, `@` where it has a cut-off -> trec_eval's, in the order in which it prints them
_FAMILIES = {
    "num_ret": "num_ret",
    "num_rel": "num_rel",
    "num_rel_ret": "num_rel_ret",
    "map": "map",
    "gmap": "gm_map",
    "r_precision": "Rprec",
    "bpref": "bpref",
    "mrr": "recip_rank",
    "iprec_at_recall": "iprec_at_recall",
    "precision@": "P",
    "relstring": "relstring",
    "recall@": "recall",
    "infap": "infAP",
    "gm_bpref": "gm_bpref",
    "r_precision_mult": "Rprec_mult",
    "utility": "utility",
    "11pt_avg": "11pt_avg",
    "bing": "binG",
    "g": "G",
    "ndcg": "ndcg",
    "ndcg_rel": "ndcg_rel",
    "rndcg": "Rndcg",
    "ndcg@": "ndcg_cut",
    "map@": "map_cut",
    "relative_p@": "relative_P",
    "hit_rate@": "success",
    "set_p": "set_P",
    "set_relative_p": "set_relative_P",
    "set_recall": "set_recall",
    "set_map": "set_map",
    "set_f": "set_F",
    "num_nonrel_judged_ret": "num_nonrel_judged_ret",
    "yaap": "yaap",
    "unjudged@": "unj",
}
_ORDER = {family: position for position, family in enumerate(_FAMILIES.values())}


@dataclass(frozen=True, slots=True)
class Scored:
    """One run, or one file of predictions, with its scores.

    Attributes:
        name: The tag of the run in every format, or the file where tags are equal.
        relevance: Query -> the grades at the top of its ranking, where the caller wants to see
            them.
        missing: The judged queries that the run lacks.
    """

    name: str
    source: str
    evaluation: Evaluation
    relevance: Mapping[str, str] = field(default_factory=dict, repr=False)
    missing: frozenset[str] = frozenset()

    def rows(self) -> Iterator[tuple[str, dict[str, float | None]]]:
        """Yield (query, score -> value) in the order of the ids' bytes, as trec_eval prints them.

        A query that no score looked at (the run lacks it, or it has no judgement) has no row;
        a value is None where a score does not apply to a query.
        """
        columns = self.evaluation.columns
        values = {name: column.values.tolist() for name, column in columns.items()}
        causes = [column.causes.tolist() for column in columns.values()]
        queries = self.evaluation.query_ids
        for row in sorted(range(len(queries)), key=lambda row: id_bytes(queries[row])):
            if all(of_score[row] in _NOT_LOOKED_AT for of_score in causes):
                continue
            of_query = ((name, of_score[row]) for name, of_score in values.items())
            yield queries[row], {name: v if v == v else None for name, v in of_query}


_NOT_LOOKED_AT = frozenset({Cause.MISSING_QUERY, Cause.NO_JUDGEMENTS})


def render_csv(systems: Sequence[Scored], *, per_query: bool = False, summary: bool = True) -> str:
    """Write the scores as CSV with all their digits; an empty cell where there is no value.

    Queries stand before the row of all of them, whose `query_id` is `all`.
    """
    # here, as in `_counts`: what run folders are read with would be a part of each start of `score`
    from ragbench.data.runs.run_folder import to_csv

    rows: list[list[str | float | None]] = []
    names = list(systems[0].evaluation.columns)
    for scored in systems:
        if per_query:
            rows += [[scored.name, query, *values.values()] for query, values in scored.rows()]
        if summary:
            means = scored.evaluation.mean
            rows.append([scored.name, ALL, *(finite(means[name]) for name in names)])
    return to_csv(["system", "query_id", *names], rows)


def render_json(
    systems: Sequence[Scored], *, per_query: bool = False, summary: bool = True, **facts: Any
) -> str:
    """Write the scores as JSON; null where there is no value.

    The entries of `systems` are like those of summary.json; `facts`, what the numbers rest on,
    stand beside them.
    """
    content = {
        "schema": SCHEMA,
        "confidence": systems[0].evaluation.confidence,
        **facts,
        "systems": [_system(scored, per_query, summary) for scored in systems],
    }
    # plain ASCII: an id whose bytes are not UTF-8 would make the whole output unreadable
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _system(scored: Scored, per_query: bool, summary: bool) -> dict[str, Any]:
    evaluation = scored.evaluation
    found: dict[str, Any] = {"name": scored.name, "file": scored.source}
    found["counts"] = evaluation.counts
    if summary:
        found["scores"] = {name: to_json(score) for name, score in evaluation.summary.items()}
    if per_query:
        rows = list(scored.rows())
        found["per_query"] = {
            name: {query: values[name] for query, values in rows} for name in evaluation.columns
        }
    return found


# Query and score of a row; None stands for all queries.
Key = tuple[str | None, str]


def render_table(
    systems: Sequence[Scored],
    *,
    per_query: bool = False,
    summary: bool = True,
    notes: Sequence[str] = (),
    width: int = 100,
) -> str:
    """Draw the scores as aligned text, with intervals and counts, then the notes.

    Runs that do not fit beside each other at this width go into a further table below.
    """
    keys = _keys(systems, per_query, summary)
    heads = ("query", "measure") if per_query else ("measure",)
    start = [
        [head, *(printable(ALL if key[place] is None else key[place]) for key in keys)]
        for place, head in enumerate(heads, start=2 - len(heads))
    ]
    groups = [[[printable(scored.name), *_cells(scored, keys)]] for scored in systems]
    lines = side_by_side(start, groups, width)
    lines += _counts(systems) if summary else []
    return "\n".join([*lines, *(f"note: {printable(note)}" for note in notes)]) + "\n"


def _counts(systems: Sequence[Scored]) -> list[str]:
    """How many queries stand behind the numbers: once where all systems agree."""
    from ragbench.report.sections import count_lines

    by_system = {}
    for scored in systems:
        scores = scored.evaluation.summary
        by_system[scored.name] = count_lines({scored.name: scores}, list(scores))
    if len(set(map(tuple, by_system.values()))) == 1:
        return by_system[systems[0].name]
    return [f"{printable(name)}: {line}" for name, lines in by_system.items() for line in lines]


def _keys(systems: Sequence[Scored], per_query: bool, summary: bool) -> list[Key]:
    """(query, score) of every row; a query is shown if any of the systems has it."""
    found = {query for scored in systems for query, _ in scored.rows()} if per_query else set()
    names = list(systems[0].evaluation.columns)
    keys: list[Key] = [(query, name) for query in sorted(found, key=id_bytes) for name in names]
    return keys + ([(None, name) for name in names] if summary else [])


def _cells(scored: Scored, keys: Sequence[Key]) -> list[str]:
    rows = dict(scored.rows()) if any(query is not None for query, _ in keys) else {}
    of_all = scored.evaluation.summary
    sums = {name for name, score in of_all.items() if score.aggregate == "sum"}
    cells = []
    for query, name in keys:
        if query is None:
            value, ends = of_all[name].mean, interval(of_all[name].interval)
        else:
            value, ends = rows.get(query, {}).get(name), ""
        text = f"{value:.0f}" if value is not None and name in sums else significant(value)
        cells.append(f"{text} {ends}".rstrip())
    return cells


def trec_eval_parts(measure: Measure, level: int = 1) -> tuple[str, str] | None:
    """Return trec_eval's name of a measure and its parameter, or None where it has no such one.

    `level` is the smallest relevant grade of the whole call: trec_eval's `-l`.

    Example:
        >>> from ragbench.score.retrieval.notation import parse_measure
        >>> names = ["ndcg@10", "mrr", "iprec_at_recall@0.1", "ndcg(gain=exp)@10", "mrr@10"]
        >>> [trec_eval_parts(parse_measure(name)) for name in names]
        [('ndcg_cut', '10'), ('recip_rank', ''), ('iprec_at_recall', '0.10'), None, None]
    """
    family = _FAMILIES.get(f"{measure.spec.name}{'' if measure.k is None else '@'}")
    options = {name: value for name, value in measure.options.items() if name != "documents"}
    at = options.pop(measure.spec.at, None)
    parts = measure.signature_parts()
    if "rel" in parts and options.pop("rel", 1) != level:
        return None
    parameters = print_parameters(measure.written, options, parts)
    if family is None or parameters is None or (parameters and measure.k is not None):
        return None
    if measure.k is not None:
        return family, str(measure.k)
    return family, parameters if at is None else f"{at:.2f}"


def render_trec(
    systems: Sequence[Scored],
    measures: Mapping[str, Measure],
    *,
    level: int = 1,
    facts: Collection[str] = FACTS[:2],
    missing: bool = True,
    totals: Mapping[str, float] = MappingProxyType({}),
    per_query: bool = False,
    summary: bool = True,
) -> str:
    """Write a block of lines per run: name, query or `all`, value, between tabs.

    Measures stand in trec_eval's own order, whatever order they were asked for in; those that it
    lacks come after them, under our names. `facts` are those of `FACTS` to print, `relstring` with
    its length where that was given; `runid` is printed wherever there are several runs. Queries
    that the run lacks have lines if `missing`: trec_eval 9, which counts them with -c all the same,
    has none. `totals` are printed for all queries in place of the sums of the measures so named.
    """
    named = _in_order(measures, level)
    shown = set(facts) if summary else set()
    if len(systems) > 1:
        shown.add("runid")  # or their blocks could not be told apart
    strings = next((fact for fact in facts if fact.startswith("relstring")), None)
    lines: list[str] = []
    for scored in systems:
        unseen = frozenset() if missing else scored.missing
        lines += _query_lines(scored, named, strings, unseen) if per_query else ()
        read = scored.evaluation.read
        n = read.scored if isinstance(read, RunCounts) else len(scored.evaluation.query_ids)
        values = {"runid": scored.name, "num_q": str(n)}
        lines += (_line(fact, ALL, value) for fact, value in values.items() if fact in shown)
        lines += _summary_lines(scored, named, totals) if summary else ()
    return "".join(lines)


class Place(NamedTuple):
    """Where a measure stands on the page; places sort as the page does.

    Attributes:
        family: Its position in trec_eval's table; behind all of these where it is not in it.
    """

    family: int
    cutoff: float
    score: str
    name: str


def _in_order(measures: Mapping[str, Measure], level: int) -> list[Place]:
    places: list[Place] = []
    for position, (score, measure) in enumerate(measures.items()):
        if measure.spec.name in FACTS:
            continue
        if parts := trec_eval_parts(measure, level):
            family, parameter = parts
            name = "_".join(filter(None, parts))
            cut = family in FAMILIES
            places.append(Place(_ORDER[family], float(parameter) if cut else position, score, name))
        else:
            places.append(Place(len(_ORDER), position, score, measure.name))
    return sorted(places)


def _query_lines(
    scored: Scored, named: Sequence[Place], strings: str | None, unseen: Collection[str]
) -> Iterable[str]:
    """One line per query and measure; a geometric mean is of all queries only."""
    summary = scored.evaluation.summary
    shown = [place for place in named if summary[place.score].aggregate != "geometric_mean"]
    if strings is not None:
        text = strings.replace(".", "_")
        shown = sorted([*shown, Place(_ORDER["relstring"], 0.0, "", text)])
    for query, values in scored.rows():
        if query in unseen:
            continue
        for _, _, score, name in shown:
            if not score:
                yield _line(name, query, f"'{scored.relevance[query]}'")
            elif (value := values[score]) is not None:
                yield _line(name, query, _number(value, summary[score].aggregate))


def _summary_lines(
    scored: Scored, named: Sequence[Place], totals: Mapping[str, float]
) -> Iterable[str]:
    """One line per measure; none where there is no number."""
    evaluation = scored.evaluation
    ids = list(map(id_bytes, evaluation.query_ids))
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for _, _, score, name in named:
        column = evaluation.columns[score]
        added = _as_trec_eval_adds(column.values[order].tolist(), column.aggregate)
        value = totals.get(name, added)
        if value == value:
            yield _line(name, ALL, _number(value, column.aggregate))


def _as_trec_eval_adds(values: Iterable[float], aggregate: str) -> float:
    """Add up one by one: the exact sum, which `mean` has, may round to another fourth digit."""
    total, n = 0.0, 0
    for value in values:
        if value == value:
            total, n = total + value, n + 1
    if aggregate == "sum":
        return total
    mean = total / n if n else nan
    return exp(mean) if aggregate == "geometric_mean" else mean


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<22}\t{query}\t{value}\n"


def _number(value: float, aggregate: str) -> str:
    return f"{value:.0f}" if aggregate == "sum" else f"{value:6.4f}"
