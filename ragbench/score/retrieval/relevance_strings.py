"""The grades at the top of each ranking as text, as trec_eval's `relstring` prints them."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import RankedGrades

_ZERO, _LARGE, _NOT_IN_POOL, _NOT_JUDGED = map(ord, "0>-.")


def relevance_strings(ranked: RankedGrades, length: int = 10) -> list[str]:
    """Write a character for each of the first documents of every query.

    Args:
        ranked: Grades of the retrieved documents in rank order.
        length: How many documents; fewer where fewer were retrieved.

    Returns:
        One text per query: the grade where it has one digit, `>` for a larger one, `.` for a
        negative one (in the pool, but not judged) and `-` for a document without judgement.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"a": 2, "b": 12, "c": -1}}
        >>> relevance_strings(rank(qrels, {"q": {"new": 9, "a": 8, "b": 7, "c": 6, "d": 5}}), 4)
        ['-2>.']
    """
    lengths = np.minimum(ranked.n_retrieved, length)
    characters = np.full((ranked.n_queries, int(lengths.max(initial=0))), _NOT_IN_POOL, np.uint8)
    shown = ranked.rank <= length
    grades = ranked.grades[shown]
    codes = np.where(grades > 9, _LARGE, np.where(grades < 0, _NOT_JUDGED, _ZERO + grades))
    characters[ranked.query[shown], ranked.rank[shown] - 1] = codes
    return [
        row[:end].tobytes().decode("ascii")
        for row, end in zip(characters, lengths.tolist(), strict=True)
    ]
