"""Known-item queries of titles and rare terms: questions without a model.

A query names a document as somebody does who has seen it once. It repeats words of its document,
and so favours retrievers that match words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from ragbench.questions import checks
from ragbench.questions.base import QuestionCandidate, QuestionPassage, draw_passages
from ragbench.text.languages import load
from ragbench.text.tokenize import sentences, words
from ragbench.types import Document

WARNING = "known-item questions repeat words of their documents: they favour word matching"
_N_TERMS = 3
# Kind of these candidates.
KNOWN_ITEM = "known_item"


def known_items(documents: Sequence[Document], n: int, *, seed: int = 0) -> list[QuestionCandidate]:
    """Return known-item candidates with their checks, until n of them are kept.

    Failed candidates are in the list too. Each passage gives one candidate, so that a small corpus
    gives fewer. A query is the title of the document, unless that is the name of its file, and the
    three rarest terms of a sentence, which is the quote. Terms have four letters or more, and
    nothing but letters.

    Args:
        documents: The corpus.
        n: Number of queries to keep.
        seed: Seed of the draw of passages.
    """
    frequency: Counter[str] = Counter()  # number of documents with a word
    for document in documents:
        frequency.update(set(words(document.full_text)))
    candidates, questions = list[QuestionCandidate](), checks.KeptQuestions()
    for passage in draw_passages(documents, f"{seed} known_item"):
        if len(questions) == n:
            break
        candidates.append(questions.check(_write(passage, frequency)))
        if not candidates[-1].failure:
            questions.add(candidates[-1])
    return candidates


def _write(passage: QuestionPassage, frequency: Counter[str]) -> QuestionCandidate:
    """Return the candidate of the sentence with the rarest terms of a passage."""
    document = passage.document
    # a title that is the name of the file says nothing
    title = "" if document.title == PurePosixPath(document.id).name else document.title
    no_terms = load("english").union(words(title))
    best: tuple[int, list[str], str] | None = None
    for sentence in sentences(passage.text):
        long_words = set()
        for word in words(sentence):
            if word.isalpha() and len(word) > 3:
                long_words.add(word)
        terms = sorted(long_words - no_terms, key=lambda word: (frequency[word], word))[:_N_TERMS]
        rarity = (sum(frequency[term] for term in terms), terms, sentence)
        if len(terms) == _N_TERMS and (best is None or rarity < best):
            best = rarity
    if best is None:
        problem = f"no sentence has {_N_TERMS} terms"
        return QuestionCandidate(passage, KNOWN_ITEM).check("rare_terms", problem)
    question = " ".join([title, *best[1]]).strip()
    quote = checks.find_quote(best[2], document.text)
    return QuestionCandidate(passage, KNOWN_ITEM, question, "", quote).check("rare_terms", "")
