"""One spelling for each score, however users and files spell it."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.errors import RagbenchError
from ragbench.registry import PYTHON


def find_score(name: str, scores: Sequence[str]) -> str | None:
    """Return the one of some score names that a name means in another spelling; None if none does.

    Example:
        >>> find_score("nDCG@10", ["map", "ndcg@10"])
        'ndcg@10'
    """
    if name in scores:
        return name
    score = canonical(name)
    if score is None:
        return None
    # a run folder is data: code that its scores name is not imported
    safe = (each for each in scores if not each.startswith(PYTHON))
    return next((each for each in safe if canonical(each) == score), None)


def canonical(name: str) -> str | None:
    """Return the one spelling of a measure or metric; None for any other name.

    Example:
        >>> canonical("nDCG@10"), canonical("em"), canonical("faithfulness")
        ('ndcg@10', 'exact_match', None)
    """
    from ragbench.score.retrieval.notation import parse_measure
    from ragbench.score.text.notation import parse_metric

    try:
        return parse_measure(name).name
    except RagbenchError:  # no measure; it may be a metric
        pass
    try:
        return parse_metric(name).canonical
    except RagbenchError:
        return None
