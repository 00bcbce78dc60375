"""Whether and where the first relevant document stands: `hit_rate@k`, `mrr`, `answer_hit@k`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, RetrievedPassages, measure
from ragbench.score.text import squad
from ragbench.types import Cause, FloatArray, IntArray


@measure(
    "hit_rate",
    group="first hits",
    aliases=("success", "accuracy"),
    range=(0.0, 1.0),
    cutoff="required",
    averages_ties=True,
)
def hit_rate(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query 1 if a relevant document is among the first k, else 0.

    Example:
        The only relevant document is at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1}}, {"q": {"d7": 9.0, "d1": 8.0}})
        >>> hit_rate(ranked, k=1), hit_rate(ranked, k=2)
        (array([0.]), array([1.]))
    """
    if ranked.averaged:
        return ranked.where_relevant(expect_at_first_hit(ranked, rel, np.ones_like, k), rel)
    found = np.minimum(ranked.count_hits(rel, k), 1.0)
    return ranked.where_relevant(found, rel)


@measure(
    "mrr", group="first hits", aliases=("reciprocal_rank",), range=(0.0, 1.0), averages_ties=True
)
def reciprocal_rank(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by 1 / rank of its first relevant document.

    Only the first one counts: right for questions that one good passage answers.

    Example:
        The first relevant document is at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1}}, {"q": {"d7": 9.0, "d1": 8.0}})
        >>> reciprocal_rank(ranked), reciprocal_rank(ranked, k=1)
        (array([0.5]), array([0.]))

    References:
        Voorhees (1999), The TREC-8 Question Answering Track Report.
    """
    if ranked.averaged:
        return ranked.where_relevant(
            expect_at_first_hit(ranked, rel, lambda rank: 1 / rank, k), rel
        )
    hit = ranked.grades >= rel
    if k is not None:
        hit &= ranked.rank <= k
    best = np.zeros(ranked.n_queries)
    np.maximum.at(best, ranked.query[hit], 1.0 / ranked.rank[hit])
    return ranked.where_relevant(best, rel)


@measure(
    "answer_hit",
    group="first hits",
    range=(0.0, 1.0),
    reads="passages",
    cutoff="required",
    nan_means=Cause.NO_REFERENCE,
)
def answer_hit(
    retrieved: RetrievedPassages,
    *,
    k: Cutoff | None = None,
    tokenize: squad.AnswerTokenizer = squad.AUTO,
    articles: squad.Articles = "en",
) -> FloatArray:
    """Score each query 1 if one of its first k passages contains a gold answer, else 0.

    Both are normalised as SQuAD does: lower case, no punctuation, no articles. The words of the
    answer must stand in the passage, in a row, as for the metric `contains`: `no` is not in `know`.
    In scripts without spaces between words, characters count. An answer without a word is in
    nothing. A hit is not a proof: the answer may stand there for another reason. NaN for a query
    without a gold answer.

    Example:
        >>> passages = [["I know the river.", "It rises in the Alps."]]
        >>> answer_hit(RetrievedPassages(passages, [["no"]]), k=2)
        array([0.])
        >>> retrieved = RetrievedPassages(passages, [["the Alps!", "Alpes"]])
        >>> answer_hit(retrieved, k=1), answer_hit(retrieved, k=2)
        (array([0.]), array([1.]))

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1, for the normalisation.
    """
    tokens = squad.answer_tokens("answer_hit", tokenize, articles)
    scores = np.full(len(retrieved.answers), np.nan)
    for query, answers in enumerate(retrieved.answers):
        if answers:
            scores[query] = _holds(retrieved.passages[query][:k], answers, tokens)
    return scores


def _holds(passages: Sequence[str], answers: Sequence[str], tokens: squad.Tokens) -> bool:
    """Whether a passage holds an answer."""
    wanted = [tokens(answer) for answer in answers]
    return any(
        squad.holds_run(words, needle) for words in map(tokens, passages) for needle in wanted
    )


def expect_at_first_hit(
    ranked: RankedGrades, rel: int, worth: Callable[[IntArray], FloatArray], k: int | None = None
) -> FloatArray:
    """Average, over the orders of tied documents, what the rank of the first hit is worth.

    The first hit stands in the first tie group that holds one; of its m documents, r are hits, and
    each place in turn has the hits by chance r / m, r / (m - 1), ... of what is left. A first hit
    beyond rank k is worth nothing; a query without one has 0.

    References:
        McSherry and Najork (2008), Computing Information Retrieval Performance Measures Efficiently
        in the Presence of Tied Scores. ECIR.
    """
    total = np.zeros(ranked.n_queries)
    hits = np.flatnonzero(ranked.grades >= rel)
    queries, at = np.unique(ranked.query[hits], return_index=True)
    first, size = ranked.ties.first[hits[at]], ranked.ties.size[hits[at]]
    same = ranked.ties.first[hits] == np.repeat(first, np.diff(np.append(at, len(hits))))
    n_hits = np.bincount(ranked.query[hits][same], minlength=ranked.n_queries)[queries]
    still = np.ones(len(queries))
    # over the places of the largest group, all queries at once; none is left behind place
    # size - n_hits, where the chance is 1
    for place in range(int(size.max(initial=0))):
        chance = n_hits / (size - place)
        gained = still * chance * worth(first + place)
        total[queries] += gained if k is None else gained * (first + place <= k)
        still = still * (1.0 - chance)
        open_ = still > 0.0
        queries, first, size = queries[open_], first[open_], size[open_]
        n_hits, still = n_hits[open_], still[open_]
    return total
