"""`ragbench score --format trec`: what trec_eval prints, character by character."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.report.scores.base import ALL, Scored

if TYPE_CHECKING:
    from ragbench.score.retrieval.notation import Measure

FACTS = ("runid", "num_q")
"""What trec_eval prints like a measure: the run tag, and the number of queries."""

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
    "recall@": "recall",
    "infap": "infAP",
    "11pt_avg": "11pt_avg",
    "ndcg": "ndcg",
    "ndcg@": "ndcg_cut",
    "map@": "map_cut",
    "hit_rate@": "success",
    "set_p": "set_P",
    "set_relative_p": "set_relative_P",
    "set_recall": "set_recall",
    "set_map": "set_map",
    "set_f": "set_F",
}
"""Our measure, `@` where it has a cut-off -> trec_eval's, in the order in which it prints them."""
_ORDER = {family: position for position, family in enumerate(_FAMILIES.values())}


def trec_eval_parts(measure: Measure, level: int = 1) -> tuple[str, str] | None:
    """Return trec_eval's name of a measure and its parameter, or None where it has no such one.

    Args:
        measure: The measure.
        level: The smallest relevant grade of the whole call: trec_eval's `-l`.

    Example:
        >>> from ragbench.score.retrieval.notation import parse_measure
        >>> names = ["ndcg@10", "mrr", "iprec_at_recall@0.1", "ndcg(gain=exp)@10", "mrr@10"]
        >>> [trec_eval_parts(parse_measure(name)) for name in names]
        [('ndcg_cut', '10'), ('recip_rank', ''), ('iprec_at_recall', '0.10'), None, None]
    """
    family = _FAMILIES.get(f"{measure.spec.name}{'' if measure.k is None else '@'}")
    options = dict(measure.options)
    at = options.pop(measure.spec.at, None)
    if "rel" in measure.signature_parts() and options.pop("rel", 1) != level:
        return None
    if family is None or options:
        return None
    if measure.k is not None:
        return family, str(measure.k)
    return family, "" if at is None else f"{at:.2f}"


def render_trec(
    systems: Sequence[Scored],
    measures: Mapping[str, Measure],
    *,
    level: int = 1,
    facts: Collection[str] = FACTS,
    per_query: bool = False,
    summary: bool = True,
) -> str:
    """Write a block of lines per run: name, query or `all`, value, between tabs.

    Measures stand in trec_eval's own order, whatever order they were asked for in; those that it
    lacks come after them, under our names.

    Args:
        systems: The runs, in order.
        measures: Score -> the measure.
        level: The smallest relevant grade of the whole call.
        facts: Which of `FACTS` to print; `runid` is printed wherever there are several runs.
        per_query: Write the queries' lines, before those of all.
        summary: Write the lines of all queries.
    """
    named = _in_order(measures, level)
    shown = set(facts) if summary else set()
    if len(systems) > 1:
        shown.add("runid")  # or their blocks could not be told apart
    lines: list[str] = []
    for scored in systems:
        lines += _query_lines(scored, named) if per_query else ()
        lines += _fact_lines(scored, shown)
        lines += _summary_lines(scored, named) if summary else ()
    return "".join(lines)


def _in_order(measures: Mapping[str, Measure], level: int) -> list[tuple[str, str]]:
    """Return (score, name to print), trec_eval's measures first and in its order."""
    places: list[tuple[int, float, str, str]] = []
    for position, (score, measure) in enumerate(measures.items()):
        if measure.spec.name in FACTS:
            continue
        if parts := trec_eval_parts(measure, level):
            family, parameter = parts
            name = "_".join(filter(None, parts))
            places.append((_ORDER[family], float(parameter or 0), score, name))
        else:
            places.append((len(_ORDER), position, score, measure.name))
    return [(score, name) for _, _, score, name in sorted(places)]


def _query_lines(scored: Scored, named: Sequence[tuple[str, str]]) -> Iterable[str]:
    """One line per query and measure; a geometric mean is of all queries only."""
    summary = scored.evaluation.summary
    shown = [place for place in named if summary[place[0]].aggregate != "geometric_mean"]
    for query, values in scored.rows():
        for score, name in shown:
            if (value := values[score]) is not None:
                yield _line(name, query, _number(value, summary[score].aggregate))


def _fact_lines(scored: Scored, facts: Collection[str]) -> Iterable[str]:
    known = {"runid": scored.name, "num_q": str(scored.evaluation.counts["scored"])}
    return (_line(fact, ALL, known[fact]) for fact in FACTS if fact in facts)


def _summary_lines(scored: Scored, named: Sequence[tuple[str, str]]) -> Iterable[str]:
    for score, name in named:
        found = scored.evaluation.summary[score]
        if found.mean == found.mean:  # no line where there is no number
            yield _line(name, ALL, _number(found.mean, found.aggregate))


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<22}\t{query}\t{value}\n"


def _number(value: float, aggregate: str) -> str:
    return f"{value:.0f}" if aggregate == "sum" else f"{value:6.4f}"
