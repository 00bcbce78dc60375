"""Judges for tests: they count shared words, at once and without model or server.

`context_overlap`, `question_overlap` and `reference_overlap` are plain functions, each a judge of
its own. `Words` applies three built-in rubrics by the same counts, also on workers.
"""

import re
from typing import Annotated

from ragbench.registry import Option
from ragbench.types.scores import Cause, Verdict

_STOP_WORDS = {
    *("a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "in", "is"),
    *("it", "its", "of", "on", "or", "that", "the", "to", "was", "were", "when", "who", "what"),
    *("where", "which", "with"),
}


def words(text):
    """Return the words of a text without stop words, each once."""
    return set(re.findall(r"\w+", text.lower())) - _STOP_WORDS


def _share(part, whole):
    return len(part & whole) / len(part) if part else 0.0


def context_overlap(answer, contexts):
    """Return the share of the answer's words that the passages have."""
    counted = words(answer)
    if not counted:
        return Verdict(
            None, reasoning="no word", status="not_applicable", cause=Cause.NO_CLAIMS.word
        )
    shared = counted & words("\n".join(contexts))
    return _share(counted, shared), f"{len(shared)} of {len(counted)} words found"


def question_overlap(question, answer):
    """Return the share of the question's words that the answer has."""
    return _share(words(question), words(answer))


def reference_overlap(answer, references):
    """Return F1 of the words of the answer and of the best reference."""
    scores = []
    for reference in references:
        precision = _share(words(answer), words(reference))
        recall = _share(words(reference), words(answer))
        scores.append(2 * precision * recall / (precision + recall) if precision else 0.0)
    return max(scores)


class Words:
    """Applies faithfulness, answer_relevancy and correctness by counts of words."""

    served = ("faithfulness", "answer_relevancy", "correctness")
    label = "counts words"
    model = "words/1"
    computes = True

    def __init__(self, *, language: Annotated[str, Option("ISO 639-1 code.")] = "en"):
        self.options = {"language": language}

    def judge(self, item, rubric):
        """Count the words that a rubric asks for."""
        answer = item.answer or ""
        if rubric.name == "faithfulness":
            result = context_overlap(answer, item.contexts or [])
        elif rubric.name == "answer_relevancy":
            result = question_overlap(item.question or "", answer)
        else:
            result = reference_overlap(answer, item.references)
        if isinstance(result, Verdict):
            return result
        score, reasoning = result if isinstance(result, tuple) else (result, "")
        return Verdict(score, reasoning=reasoning or f"{score:.3g}")


class Tone(Words):
    """Applies two rubrics that are no defaults."""

    served = ("coherence", "fluency")
