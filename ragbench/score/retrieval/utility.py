"""What a set of retrieved documents is worth: `utility(a=1,b=-1,c=0,d=0)`."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ragbench.errors import OptionError
from ragbench.registry import Option
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import Cause, FloatArray

Hit = Annotated[float, Option("Worth of a relevant document that was retrieved.")]
FalseAlarm = Annotated[float, Option("Worth of another document that was retrieved.")]
Miss = Annotated[float, Option("Worth of a relevant document that was not retrieved.")]
Rest = Annotated[float, Option("Worth of another document that was not retrieved.")]
Documents = Annotated[int, Option("Documents in the collection: -N of ragbench score.", ge=1)]


@measure(
    "utility",
    range=(-np.inf, np.inf),
    cutoff="none",
    averages_ties=True,
    nan_means=Cause.EMPTY_RANKING,
)
def utility(
    ranked: RankedGrades,
    *,
    a: Hit = 1.0,
    b: FalseAlarm = -1.0,
    c: Miss = 0.0,
    d: Rest = 0.0,
    documents: Documents | None = None,
    rel: Grade = 1,
) -> FloatArray:
    """Score each query by what its retrieved set is worth: hits count 1 up, the others 1 down.

    For tasks such as filtering, where a list has to stop by itself. The order counts nothing, and
    a query without a relevant document has a value like any other.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        a: Worth of a relevant document that was retrieved.
        b: Worth of another document that was retrieved.
        c: Worth of a relevant document that was not retrieved.
        d: Worth of another document that was not retrieved.
        documents: Documents in the collection; needed where d is not 0.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values of any size and sign; an empty ranking has 0 with c = d = 0.

    Raises:
        OptionError: d is not 0 and `documents` is not given, rel is below 1.

    Example:
        One hit and two others: 1 - 2; a relevant document that was missed costs another 3.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "y": 7}})
        >>> utility(ranked), utility(ranked, c=-3.0)
        (array([-1.]), array([-4.]))

    References:
        Hull (1998), The TREC-7 Filtering Track: Description and Analysis. TREC.
    """
    if d and documents is None:
        allowed = "the number of documents in the collection where d is not 0: -N, or documents="
        raise OptionError("utility", "documents", None, allowed)
    hits, relevant = ranked.count_hits(rel), ranked.count_relevant(rel)
    others = ranked.n_retrieved - hits
    rest = (documents or 0) - relevant - others
    worth: FloatArray = a * hits + b * others + c * (relevant - hits) + d * rest
    return worth.astype(np.float64)
