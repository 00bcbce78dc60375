"""`fuse`: one run from several runs in memory or files, as the retriever `fusion` does."""

from __future__ import annotations

from collections.abc import Mapping

from ragbench.comparison.run_inputs import RunSource, as_run
from ragbench.errors import OptionError, Phrase
from ragbench.registry import check_values, declared_options
from ragbench.retrieve.fusion import Fusion, Method
from ragbench.types import Query, Run, ScoredDocument


def fuse(
    runs: Mapping[str, RunSource],
    method: Method = "rrf",
    *,
    k: int = 60,
    weights: Mapping[str, float] | None = None,
    depth: int | None = None,
    top_k: int = 1000,
    name: str = "fused",
) -> Run:
    """Fuse several runs into one, query by query.

    A query that a run lacks gets nothing from it. Hits of equal score rank by document id,
    descending, as in trec_eval.

    Args:
        runs: Two runs or more by their names, each as `evaluate_run` takes it.
        method: `rrf` and `isr` use only ranks; `weighted`, `combsum` and `combmnz` add scores,
            scaled from 0 to 1 in each ranking; see the retriever `fusion`.
        k: Of rrf: larger values give the first ranks less weight.
        weights: Weight of each run by its name, for rrf, isr and weighted; None: equal ones.
        depth: Number of hits used from each run; None uses all.
        top_k: Number of hits of the fused run for each query.
        name: Name of the fused run.

    Returns:
        Run over the queries of all runs, in the order of their first appearance.

    Raises:
        OptionError: An option is wrong, or a weight is missing or of no run.
        DataError: A run cannot be read, or has another form.
        AdapterError: A method that adds scores meets an infinite score.

    Example:
        `b` is second in one run and first in the other: 1/62 + 1/61.

        >>> run = fuse({"bm25": {"q1": ["a", "b"]}, "dense": {"q1": ["b", "c"]}})
        >>> [(document, round(score, 4)) for document, score in run.ranking("q1")]
        [('b', 0.0325), ('a', 0.0164), ('c', 0.0161)]

    References:
        Cormack, Clarke and Buettcher (2009), Reciprocal Rank Fusion Outperforms Condorcet and
        Individual Rank Learning Methods.
    """
    if top_k < 1:
        raise OptionError("fuse", "top_k", top_k, "an integer >= 1")
    if not isinstance(runs, Mapping):
        raise OptionError("fuse", "runs", Phrase(type(runs).__name__), "a mapping: name -> run")
    if weights is not None and not (isinstance(weights, Mapping) and {*weights} == {*runs}):
        allowed = f"a mapping with a number for each run: {', '.join(runs)}"
        raise OptionError("fuse", "weights", weights, allowed)
    listed = None if weights is None else [weights[run] for run in runs]
    options = {"method": method, "k": k, "weights": listed, "depth": depth}
    check_values("fuse", declared_options(Fusion), options)
    fusion = Fusion(retrievers=list(runs), method=method, k=k, weights=listed, depth=depth)
    sources = [as_run(run) for run in runs.values()]
    query_ids: dict[str, None] = {}
    for source in sources:
        query_ids |= dict.fromkeys(source.query_ids)
    fused = {}
    for query in query_ids:
        rankings = []
        for source in sources:
            hits = source.ranking(query)[:depth]
            rankings.append([[ScoredDocument(document, score) for document, score in hits]])
        [best] = fusion.combine([Query(query, "")], rankings, top_k)
        fused[query] = {hit.id: float(hit.score or 0.0) for hit in best}
    return Run.from_dict(fused, name)
