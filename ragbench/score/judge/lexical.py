"""A judge by word overlap: `type: lexical`. Offline, deterministic, without a key or a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from ragbench.errors import OptionError
from ragbench.registry import Option, declared_options
from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.grounding import Ruling
from ragbench.score.judge.sentence_claims import (
    ALL_SIDES,
    Claim,
    Support,
    claims_of,
    is_refusal,
    judge_sentences,
    numbers_in,
    plain_number,
    support,
    terms_of,
)
from ragbench.text.analyze import Analyzer
from ragbench.text.tokenize import sentences, words
from ragbench.types.scores import Cause, Verdict

_NEGATIONS = frozenset(["no", "not", "never", "nor", "none", "neither", "cannot", "without"])
_SHORT_ANSWER = 5  # words; a longer answer that shares no word with its question is off the topic
_WEIGHT_OF_TOPIC = 0.6


class Overlap:
    """Finds the words of a claim in a text.

    A text supports a claim where it has `threshold` of its content words and all of its numbers;
    none contradicts one: words do not tell. Reference and answer are read together with the
    question, which they need not repeat, but at least one word must be their own. Keeps the terms
    of what it has read: one for each item.
    """

    def __init__(self, analyze: Analyzer, threshold: float) -> None:
        self._analyze, self._threshold = analyze, threshold
        self._read: dict[str, frozenset[str]] = {}

    def of_passage(self, claim: Claim, text: str) -> Ruling:
        """Return what a passage says of a claim."""
        return self._ruling(claim.terms, self._terms(text))

    def of_other(self, claim: Claim, text: str, question: str) -> Ruling:
        """Return what an answer or a reference says of a claim."""
        own = self._terms(text)
        return self._ruling(claim.terms, own | self._terms(question) if claim.terms & own else own)

    def _terms(self, text: str) -> frozenset[str]:
        if text not in self._read:
            self._read[text] = terms_of(text, self._analyze)
        return self._read[text]

    def _ruling(self, terms: frozenset[str], source: frozenset[str]) -> Ruling:
        has_numbers = numbers_in(terms) <= source
        enough = len(terms & source) / len(terms) >= self._threshold
        return "supported" if has_numbers and enough else "not_mentioned"


_WHICH = r"(?:in |on |at |from )?(?:what|which) (?:is |was |are |were )?(?:the )?"
_KINDS = (
    ("number", r"how (?:many|much|long|old|far|tall|high|large|big|fast|often|deep|wide|heavy)\b"),
    ("number", _WHICH + r"(?:number|percentage|amount|share)\b"),
    ("time", r"when\b|" + _WHICH + r"(?:year|date|day|month|century|decade|time)\b"),
    ("person", r"(?:who|whom|whose|by whom|to whom|with whom)\b"),
    ("place", r"where\b|" + _WHICH + r"(?:country|city|town|state|place|continent)\b"),
    ("reason", r"why\b"),
    (
        "yes or no",
        r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|may|must)\b",
    ),
)
_QUESTION_KINDS = [(kind, re.compile(pattern)) for kind, pattern in _KINDS]
_NAME = r"(?<![.!?]\s)(?<!^)\b[A-ZÀ-Þ]\w+"
_SHORT_NAME = r"^\W*(?:the |The )?[A-ZÀ-Þ][\w'.-]*(?:\s+\S+){0,4}\W*$"
_NUMBER_WORD = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|"
    r"fifty|hundreds?|thousands?|millions?|billions?|half|none|zero|once|twice|dozens?)\b"
)
_TIME_WORD = (
    r"\b(?:january|february|march|april|june|july|august|september|october|november|december|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|century|year|month|week|today|"
    r"yesterday|tomorrow|morning|evening|night|spring|summer|autumn|winter|ago|during|after|"
    r"before|until)\b"
)
_SIGNS = {
    "number": (r"\d", f"(?i){_NUMBER_WORD}"),
    "time": (r"\d", f"(?i){_TIME_WORD}"),
    "person": (_NAME, _SHORT_NAME),
    "place": (_NAME, _SHORT_NAME, r"(?i)\b(?:in|at|near|on|under|inside|between|from)\b"),
    "reason": (
        r"(?i)\b(?:because|since|due to|so that|in order|cause[sd]?|reason|owing|as a result|to)\b",
    ),
    "yes or no": (r"(?i)^\W*(?:yes|no|not|it depends|partly)\b",),
}


class Lexical:
    """Judge by the content words that an answer shares with passages, question and references.

    - faithfulness: the sentences of the answer are its claims. A claim is supported where the
      best passage has `threshold` of its content words; below, it counts in part, by the square
      of what it reaches of the threshold. A claim with a number that no passage has counts 0.
      The score is the mean over the claims. (A hard cut told fewer of RAGTruth's hallucinated
      answers from the sound ones: area under the curve 0.74 against 0.75 for this form.)
    - answer_relevancy: 0.6 times the share of the question's content words that the answer has,
      plus 0.4 if it says something new of the kind that was asked for (a person, a number, ...).
      An answer of up to five words need not repeat the question to have the 0.4.
    - correctness: F1 of the content words against the best reference, halved where only one of
      the two is negated or where their numbers have nothing in common.

    - context_precision, context_recall, context_utilization, hallucination, self_knowledge,
      citation_precision, citation_recall: their formulas over sentences as claims. A sentence is
      supported by a text that has `threshold` of its content words and all of its numbers; of
      several references, the one with the best score.
    - refusal: whether each sentence of the answer has a form of declining.

    An answer that declines to answer makes no claim: what is made of its claims does not apply to
    it, and answer_relevancy and correctness are 0, unless the reference declines as well.
    """

    label = "word overlap, not a language model: a baseline that does not understand what it reads"
    model = "lexical/1"
    served = (
        "faithfulness",
        "answer_relevancy",
        "correctness",
        "context_precision",
        "context_recall",
        "context_utilization",
        "hallucination",
        "self_knowledge",
        "citation_precision",
        "citation_recall",
        "refusal",
    )

    def __init__(
        self,
        *,
        threshold: Annotated[
            float,
            Option("Share of a claim's content words at which a passage supports it.", gt=0, le=1),
        ] = 0.6,
        language: Annotated[
            str, Option("ISO 639-1 code of the texts; picks stop words and stemmer.")
        ] = "en",
    ) -> None:
        declared_options(Lexical)["threshold"].check("lexical", threshold)
        self.options = {"threshold": threshold, "language": language}
        self._threshold, self._language = threshold, language
        self._analyze = Analyzer.for_language(language)

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
        """Apply one of the rubrics that it serves."""
        answer = item.answer or ""
        if rubric.name == "faithfulness":
            return self._faithfulness(answer, item.contexts or [])
        if rubric.name == "answer_relevancy":
            return self._relevancy(answer, item.question or "")
        if rubric.name == "correctness":
            return self._correctness(answer, item.references)
        if rubric.name == "refusal":
            return _refusal(answer)
        if rubric.name in self.served:
            reader = Overlap(self._analyze, self._threshold)
            return judge_sentences(item, rubric, self._analyze, reader, sides=ALL_SIDES)
        raise OptionError("lexical", "rubric", rubric.name, ", ".join(self.served))

    def _faithfulness(self, answer: str, contexts: list[str]) -> Verdict:
        claims = claims_of(answer, self._analyze)
        if not claims:
            what = "the answer declines to answer" if answer.strip() else "the answer is empty"
            return not_applicable(Cause.NO_CLAIMS, f"{what}, so that there is no claim to check")
        passages = [terms_of(text, self._analyze) for text in contexts]
        found = [support(claim.terms, passages) for claim in claims]
        known = numbers_in(term for passage in passages for term in passage)
        credits, lines = [], []
        for number, (claim, best) in enumerate(zip(claims, found, strict=True), start=1):
            unknown = numbers_in(claim.terms) - known
            credit = 0.0 if unknown else min(1.0, best.coverage / self._threshold) ** 2
            credits.append(credit)
            lines.append(f"claim {number}: {_explain(claim, best, credit, unknown)}")
        supported = sum(credit == 1 for credit in credits)
        head = f"{supported} of {len(claims)} claims supported"
        return Verdict(sum(credits) / len(credits), reasoning="\n".join([head, *lines]))

    def _relevancy(self, answer: str, question: str) -> Verdict:
        if not question.strip():
            return not_applicable(Cause.NO_QUESTION, "there is no question to be relevant to")
        said = [text for text in sentences(answer) if not is_refusal(text)]
        if not said:
            what = "declines to answer" if answer.strip() else "is empty"
            return Verdict(0.0, reasoning=f"the answer {what}")
        text = " ".join(said)
        asked, given = terms_of(question, self._analyze), terms_of(text, self._analyze)
        covered = asked & given
        coverage = len(covered) / len(asked) if asked else 1.0
        kind = kind_of(question) if self._language == "en" else "anything"
        on_topic = coverage > 0 or len(words(text, self._language)) <= _SHORT_ANSWER
        new = given - asked if kind != "yes or no" else set(words(text, self._language))
        fits = on_topic and bool(new) and gives(kind, text)
        score = _WEIGHT_OF_TOPIC * coverage + (1 - _WEIGHT_OF_TOPIC) * fits
        reasoning = (
            f"the answer has {len(covered)} of {len(asked)} content words of the question"
            f"{_listed(covered)}; it asks for {kind}, and the answer "
            f"{'gives' if fits else 'does not give'} something new of that kind"
        )
        return Verdict(score, reasoning=reasoning)

    def _correctness(self, answer: str, references: list[str]) -> Verdict:
        verdicts = [self._agreement(answer, text) for text in references]
        number, best = max(enumerate(verdicts, start=1), key=lambda pair: pair[1].score or 0.0)
        where = f"reference {number} of {len(references)}: " if len(references) > 1 else ""
        return Verdict(best.score, reasoning=where + best.reasoning)

    def _agreement(self, answer: str, reference: str) -> Verdict:
        if not answer.strip():
            return Verdict(0.0, reasoning="the answer is empty")
        declines = [_declines(text) for text in (answer, reference)]
        if any(declines):
            who = "both decline" if all(declines) else "only one of the two declines"
            return Verdict(float(all(declines)), reasoning=f"{who} to answer")
        mine, theirs = self._content(answer), self._content(reference)
        shared = mine & theirs
        precision, recall = (shared.total() / max(side.total(), 1) for side in (mine, theirs))
        score = 2 * precision * recall / (precision + recall) if shared else 0.0
        reasoning = f"precision {precision:.2f}, recall {recall:.2f}{_listed(shared)}"
        if score and (why := self._contradiction(answer, reference, mine, theirs)):
            return Verdict(score / 2, reasoning=f"{reasoning}; halved: {why}")
        return Verdict(score, reasoning=reasoning)

    def _content(self, text: str) -> Counter[str]:
        """Content words with their counts; all words where each is a stop word (`to be`)."""
        terms = self._analyze(text) or words(text, self._language)
        return Counter(plain_number(term) for term in terms)

    def _contradiction(
        self, answer: str, reference: str, mine: Counter[str], theirs: Counter[str]
    ) -> str | None:
        """Say what sets an answer against a reference that uses the same words."""
        if self._language == "en" and _negated(answer) != _negated(reference):
            return "only one of the two is negated"
        numbers, expected = numbers_in(mine), numbers_in(theirs)
        if numbers and expected and not numbers & expected:
            said, gold = ", ".join(sorted(numbers)), ", ".join(sorted(expected))
            return f"the numbers are {said}, not {gold}"
        return None


def _refusal(answer: str) -> Verdict:
    if not answer.strip():
        return Verdict(1.0, level=2, reasoning="the answer is empty")
    if _declines(answer):
        return Verdict(1.0, level=2, reasoning="each sentence of the answer declines")
    return Verdict(0.0, level=1, reasoning="a sentence of the answer does not decline")


def _declines(text: str) -> bool:
    """Whether each sentence of a text says that there is no answer."""
    return all(is_refusal(sentence) for sentence in sentences(text))


def _negated(text: str) -> bool:
    found = words(text.replace("\u2019", "'"))
    return any(word in _NEGATIONS or word.endswith("n't") for word in found)


def _explain(claim: Claim, best: Support, credit: float, unknown: frozenset[str]) -> str:
    if unknown:
        verdict = f"not supported, no passage has {', '.join(sorted(unknown))}"
    elif credit == 1:
        verdict = f"supported by passage {best.passage}"
    elif best.passage:
        verdict = f"in part ({credit:.2f}), most by passage {best.passage}"
    else:
        verdict = "not supported, no passage has any of its words"
    words_seen = f"{len(best.covered)} of {len(claim.terms)} words{_listed(best.covered)}"
    lacking = f"; lacks {', '.join(best.missing)}" if best.missing else ""
    return f"{verdict}: {words_seen}{lacking}: {claim.text}"


def _listed(terms: Iterable[str]) -> str:
    found = sorted(terms)
    return f" ({', '.join(found)})" if found else ""


def kind_of(question: str) -> str:
    """Return what a question asks for; `anything` where its words do not tell."""
    folded = question.strip().lower()
    return next((kind for kind, shape in _QUESTION_KINDS if shape.match(folded)), "anything")


def gives(kind: str, answer: str) -> bool:
    """Whether an answer has a sign of what was asked for."""
    return kind not in _SIGNS or any(re.search(sign, answer) for sign in _SIGNS[kind])
