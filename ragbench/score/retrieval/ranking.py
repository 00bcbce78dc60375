"""Ranks a run against qrels, once for all measures: order, ties, and the join of the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np

from ragbench.errors import NotBuiltYet, OptionError
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.judgements import Judgements
from ragbench.score.retrieval.positions import Hits, Lists, from_many, from_rows
from ragbench.types import Qrels, Run
from ragbench.types.cells import check_ids
from ragbench.types.columnar import borders, score_column

Ties = Literal["docid", "stable", "average"]
TrecEval = Literal[9, 10]

_NOTHING: dict[str, float] = {}
_MANY = 80  # documents a query from which it pays to look up the judged ones among the retrieved


def rank(
    qrels: Qrels | Mapping[str, Mapping[str, int]],
    run: Run | Mapping[str, Mapping[str, float]],
    *,
    ties: Ties = "docid",
    trec_eval: TrecEval = 10,
) -> RankedGrades:
    """Find the rank of every judged document that a run retrieved.

    The queries are those of the qrels, in their order. One that the run lacks is empty and listed
    in `missing`; one without qrels is not looked at. Sorting is skipped where scores fall already.

    Args:
        qrels: {query id: {document id: grade}}, or `Qrels`.
        run: {query id: {document id: score}}, or `Run`; the scores count, higher is better.
        ties: How equal scores are ordered: `docid` (descending, as bytes: trec_eval's rule), or
            `stable` (as listed).
        trec_eval: 10 compares scores as doubles; 9 as 32-bit floats, so that it sees more ties.

    Raises:
        OptionError: `ties` or `trec_eval` is neither of these.
        DataError: Ids that are not text, scores that are NaN, grades that are not integers.

    Example:
        >>> ranked = rank({"q": {"d1": 1, "d2": 3}}, {"q": {"d9": 9.0, "d2": 8.0}})
        >>> ranked.rank, ranked.grades, ranked.judged_grades
        (array([2]), array([3]), array([3, 1]))
    """
    return rank_judged(Judgements.read(qrels), run, ties=ties, trec_eval=trec_eval)


def rank_judged(
    judged: Judgements,
    run: Run | Mapping[str, Mapping[str, float]],
    *,
    ties: Ties = "docid",
    trec_eval: TrecEval = 10,
) -> RankedGrades:
    """Do what `rank` does, with qrels that have been read already."""
    check_ties(ties, trec_eval)
    lists = _lists(run, judged.by_query)
    if trec_eval == 9:
        lists = lists.rounded()
    many = not isinstance(run, Run) and len(lists.scores) > _MANY * len(judged.by_query)
    find = from_many if many else from_rows
    hits = find(lists, list(judged.by_query.values()), ties == "stable")
    return _ranked(judged, lists, hits)


def check_ties(ties: str, trec_eval: int) -> None:
    """Refuse tie rules that do not exist, and the one that this version lacks."""
    if ties not in get_args(Ties):
        raise OptionError("rank", "ties", ties, "docid, stable, average")
    if trec_eval not in get_args(TrecEval) or isinstance(trec_eval, bool):
        raise OptionError("rank", "trec_eval", trec_eval, "9 or 10")
    if ties == "average":
        raise NotBuiltYet("ties 'average' is not built yet in this version; use docid or stable")


def _lists(
    run: Run | Mapping[str, Mapping[str, float]], judged: Mapping[str, Mapping[str, int]]
) -> Lists:
    """Line the run's lists up with the judged queries."""
    if isinstance(run, Run):
        return _lists_of_run(run, judged)
    check_ids(run, "run")
    found = {query_id: run[query_id] for query_id in judged if query_id in run}
    documents = [found.get(query_id, _NOTHING) for query_id in judged]
    starts = borders(map(len, documents), len(documents))
    missing = frozenset(i for i, query_id in enumerate(judged) if query_id not in found)
    return Lists(documents, score_column(found, int(starts[-1])), starts, missing)


def _lists_of_run(run: Run, judged: Mapping[str, Mapping[str, int]]) -> Lists:
    index = run.query_index
    queries = [index.get(query_id) for query_id in judged]
    spans = [
        (0, 0) if query is None else (int(run.starts[query]), int(run.starts[query + 1]))
        for query in queries
    ]
    documents = [run.documents[start:end] for start, end in spans]
    scores = [run.scores[start:end] for start, end in spans]
    starts = borders(map(len, documents), len(documents))
    missing = frozenset(i for i, query in enumerate(queries) if query is None)
    return Lists(documents, np.concatenate([run.scores[:0], *scores]), starts, missing)


def _ranked(judged: Judgements, lists: Lists, hits: Hits) -> RankedGrades:
    """Put the hits into rank order and the judged grades into the ideal one."""
    order = np.lexsort((hits.rank, hits.query))
    query = hits.query[order]
    n = len(judged.by_query)
    judged_query = np.repeat(np.arange(n), np.diff(judged.starts))
    ideal = np.lexsort((-judged.grades, judged_query))
    return RankedGrades(
        query_ids=tuple(judged.by_query),
        query=query,
        rank=hits.rank[order],
        grades=hits.grades[order],
        starts=borders(np.bincount(query, minlength=n).tolist(), n),
        n_retrieved=np.diff(lists.starts),
        judged_grades=judged.grades[ideal],
        judged_starts=judged.starts,
        missing=lists.missing,
    )
