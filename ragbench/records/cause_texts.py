"""Causes of lost answers in words: what each one means, and what to change."""

from __future__ import annotations

from collections.abc import Mapping

from ragbench.records.causes import AnswerCause

# Cause -> its meaning in a sentence, the name first.
CAUSE_SAYS: Mapping[AnswerCause, str] = {
    "right": "right: the answer agrees with the gold answer",
    "found": "found: of a retriever alone, the gold is among the hits that a generator would read",
    "read_forbidden": "read forbidden: a passage that must never come up was read, and the answer "
    "is not right",
    "not_in_corpus": "not in corpus: what is needed is not in the corpus, or nothing is relevant "
    "to a question that has an answer",
    "not_retrieved": "not retrieved: the gold document, or its gold passage, is not in the ranking",
    "ranked_too_low": "ranked too low: the gold is in the ranking, below what is read",
    "wrong_passage": "wrong passage: the right document was read, and the passage with the gold is "
    "nowhere in the ranking",
    "not_used": "not used: the gold was read, or only a passage of its document, and the answer "
    "is wrong",
    "unsupported": "unsupported: the answer is wrong, or cannot be compared with a gold one, and a "
    "judge found that what was read does not support it",
    "refused": "refused: it declines, and nothing says that what it needs was not read",
    "should_have_refused": "should have refused: it answers a question that has no answer",
    "failed": "failed: there is no answer, or no ranking",
    "unknown": "unknown: nothing was measured that tells, or the reply may decline or answer; of a "
    "retriever alone, also where the question has no answer: there is nothing to find",
}

# Cause -> what to change so that such a query becomes right.
CAUSE_CHANGES: Mapping[AnswerCause, str] = {
    "read_forbidden": "the filter of the retriever, or what stands in the index",
    "not_in_corpus": "the corpus, or how it is cut into passages",
    "not_retrieved": "the retriever, or the query",
    "ranked_too_low": "a reranker, or more passages for the generator",
    "wrong_passage": "how documents are cut into passages, or more passages of a document",
    "not_used": "the prompt, or the model",
    "unsupported": "the prompt, or the model",
    "refused": "the prompt",
    "should_have_refused": "the prompt",
    "failed": "what failed: see unscored.jsonl",
}
# End of the reason of queries whose gold is in the corpus, and not in their pool.
OUTSIDE_POOL = "not in the pool"


def part_to_change(cause: AnswerCause, why: str) -> str:
    """Return the part to change for a query with this cause and reason; "" if the query is right.

    Example:
        >>> part_to_change("not_in_corpus", "gold d7 not in the pool")
        'the pool of the question'
        >>> part_to_change("not_used", "")
        'the prompt, or the model'
    """
    if cause == "not_in_corpus" and why.endswith(OUTSIDE_POOL):
        return "the pool of the question"
    return CAUSE_CHANGES.get(cause, "")
