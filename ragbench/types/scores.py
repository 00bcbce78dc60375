"""Scores of single items, why an item has none, and which way is better."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Literal

from ragbench.types.json_fields import Prose, optional
from ragbench.types.records import Usage
from ragbench.types.tables import html_table, number

# Which way is better.
Direction = Literal["higher", "lower"]

# What texts say of a claim.
Ruling = Literal["supported", "contradicted", "not_mentioned"]

_FIRST_FAILURE = 64
# Characters of a reasoning that a verdict shows in one line.
_SHOWN = 120
# The usage of a judge that asks no model.
NOTHING = Usage(0, 0, 0.0)


class Cause(IntEnum):
    """Why an item has no score; kept in a small integer column beside the values.

    Codes below 64 mean that the score does not apply, those from 64 on that it failed.

    Attributes:
        SCORED: It has a score.
        NO_RELEVANT: No document is judged relevant to the query.
        NO_JUDGEMENTS: The query has no judgement.
        MISSING_QUERY: The run lacks the query, and the caller asked to skip such queries.
        NO_REFERENCE: The metric needs a reference answer, and there is none.
        NO_CONTEXTS: The metric needs passages, and the system retrieved none.
        NO_ANSWER: The system has no answer to this query: its file or record lacks it.
        EMPTY_RANKING: The measure is not defined on an empty ranking.
        NO_CLAIMS: The text makes no claim that could be checked.
        NO_QUESTION: The rubric needs the question, and there is none.
        NO_QUERIES: The rubric is about formulated queries, and the system formulated none.
        NO_GUIDELINES: The rubric checks guidelines, and neither it nor the item has any.
        NO_CITATIONS: The answer cites no passage.
        NO_OTHER: The rubric compares two answers, and there is no other one.
        NOTHING_TO_USE: No passage has anything of the reference that the answer could have used.
        NO_TURNS: The rubric is about a conversation, and nothing was said before the question.
        NO_EXPECTED_CALLS: The metric compares tool calls with gold ones, and the question has none.
        NO_TOOL_CALLS: The metric is about tool calls, and it is not known which tools the system
            called.
        ERROR: The component raised an error.
        TIMEOUT: The component did not answer in time.
        MALFORMED: The component returned something else than it should.
        UNREADABLE: A judge's reply could not be read.
        REFUSED: A model refused.
        SERVER_ERROR: A server answered with an error.
        OVER_BUDGET: The budget was reached first.
        MISSING_ANSWER: The system's file or record lacks an answer that others have: its mean would
            flatter it.
        TOO_LONG: The prompt does not fit into the model.
        OUT_OF_TOKENS: The longest reply that was allowed ended before an answer began.
    """

    SCORED = 0
    NO_RELEVANT = 1
    NO_JUDGEMENTS = 2
    MISSING_QUERY = 3
    NO_REFERENCE = 4
    NO_CONTEXTS = 5
    NO_ANSWER = 6
    EMPTY_RANKING = 7
    NO_CLAIMS = 8
    NO_QUESTION = 9
    NO_QUERIES = 10
    NO_GUIDELINES = 11
    NO_CITATIONS = 12
    NO_OTHER = 13
    NOTHING_TO_USE = 14
    NO_TURNS = 20
    NO_EXPECTED_CALLS = 21
    NO_TOOL_CALLS = 22
    ERROR = 64
    TIMEOUT = 65
    MALFORMED = 66
    UNREADABLE = 67
    REFUSED = 68
    SERVER_ERROR = 69
    OVER_BUDGET = 70
    MISSING_ANSWER = 71
    TOO_LONG = 72
    OUT_OF_TOKENS = 73

    @property
    def failed(self) -> bool:
        """Whether the score failed, as opposed to not applying."""
        return self >= _FIRST_FAILURE

    @property
    def status(self) -> Literal["scored", "not_applicable", "failed"]:
        """The word that files use."""
        if self is Cause.SCORED:
            return "scored"
        return "failed" if self.failed else "not_applicable"

    @property
    def word(self) -> str:
        """The cause as files and reports write it: `no_relevant`."""
        return self.name.lower()


class Value(float):
    """The result of a scorer that gives one number: a float that can also be written down.

    Example:
        >>> value = Value(0.5)
        >>> value, value + 0.25, value.to_dict()
        (0.5, 0.75, {'score': 0.5})
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, float | None]:
        """Return a JSON-ready mapping; a missing score is null, never NaN."""
        return {"score": float(self) if self == self else None}


@dataclass(frozen=True, slots=True)
class Score:
    """One item's value by one measure or metric, or the reason why there is none.

    Attributes:
        value: The score; None where there is none.
        cause: Why there is none.
        detail: What went wrong, in words.
    """

    value: float | None
    cause: Cause = Cause.SCORED
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping; a missing value is null, never NaN."""
        return {"value": self.value, "cause": self.cause.word, "detail": self.detail}

    def __float__(self) -> float:
        """Return the value; NaN where there is none."""
        return float("nan") if self.value is None else float(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    """One claim of an answer or of a reference, and what other texts say of it.

    Attributes:
        ruling: What the passages say, taken together; None where it was not compared with them.
            Supported by one and contradicted by another is supported.
        passages: Which of them support it, or have a part in that; the first is 1.
        against: Which contradict it.
        other: What the reference says of a claim of the answer, or the answer of one of the
            reference; None where it was not asked.
    """

    text: Prose
    whose: Literal["answer", "reference"] = optional("answer")
    ruling: Ruling | None = optional()
    passages: tuple[int, ...] = optional(())
    against: tuple[int, ...] = optional(())
    other: Ruling | None = optional()


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A prompt that was sent for a verdict; texts that its item has are named in it.

    Attributes:
        system: What to do; the same for every item.
        user: What was asked; `[[fence]]` is the word of its fences, `[[1]]` the first of its texts.
        texts: The judged texts: `[[answer]]`, `[[passage 2]]`, `[[passages]]`, `[[reference 1]]`,
            or a text itself; one that begins with two brackets has `[[text]]` before it.
        to: Whom it was sent to, and how often, where that is not each model once.

    Example:
        >>> prompt = SentPrompt("Judge.", "<a-[[fence]]>[[1]]</a-[[fence]]>", "b4", ("[[answer]]",))
        >>> prompt.filled({"answer": "In 1932."})
        '<a-b4>In 1932.</a-b4>'
    """

    system: str
    user: str
    fence: str = ""
    texts: tuple[str, ...] = ()
    to: str = ""

    def filled(self, known: Mapping[str, str]) -> str:
        """Return the user's message, byte for byte where all its texts are known by name."""
        return filled_prompt(self.user, self.fence, self.texts, known)


_GAP = re.compile(r"\[\[(fence|[0-9]+)\]\]")
_TEXT = "[[text]]"


def named_text(text: str, names: Mapping[str, str]) -> str:
    """Return a text as `SentPrompt` has it; `names` has the name of each text that has one."""
    if (name := names.get(text)) is not None:
        return f"[[{name}]]"
    return f"{_TEXT}{text}" if text.startswith("[[") else text


def filled_prompt(user: str, fence: str, texts: Sequence[str], known: Mapping[str, str]) -> str:
    """Put what a `SentPrompt` has, and the texts that it names, into its words."""

    def said(gap: re.Match[str]) -> str:
        if gap[1] == "fence":
            return fence
        text = texts[int(gap[1]) - 1]
        if text.startswith(_TEXT):
            return text.removeprefix(_TEXT)
        return known.get(text[2:-2], text) if text.startswith("[[") else text

    return _GAP.sub(said, user)


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """What a judge says of one item by one rubric.

    Attributes:
        score: 0..1; None where the judgement failed or does not apply.
        level: The level on the rubric's own scale, where it has one.
        reasoning: Why, in the judge's words.
        status: Whether there is a score.
        cause: The cause as a word: `no_reference`, `unreadable`.
        raw: The judge's replies as they came, a paragraph each; empty for judges that send nothing.
        model: The model as its server names it, several joined by `+`; empty for judges without
            one.
        weighted: Whether levels were weighted by the probabilities that the model gave them.
        samples: The scores one by one where several samples or models were asked; None where one
            failed.
        spread: Standard deviation of these scores (n - 1); None where there are not two.
        orders: Of a pair: the score with the answers in this order and in the other one, for each
            time that both were asked; empty where the two texts are the same.
        claims: The claims that it rests on, those of the answer first; empty of a judge that makes
            none, and where several samples or models were asked, who each made their own.
        left_out: What its requests lacked, since the model refuses it: `temperature`,
            `response_format`.
        usage: What the replies took that no earlier verdict on the same item rests on, so that sums
            count nothing twice; what they took when they were paid for, also where they come from a
            store.
        prompts: What was sent for it; empty of judges that send nothing. Not in `to_dict`: others
            would read the same words with every item.
    """

    score: float | None
    level: float | None = None
    reasoning: str = ""
    status: Literal["scored", "not_applicable", "failed"] = "scored"
    cause: str = "scored"
    raw: str = ""
    model: str = ""
    weighted: bool = False
    samples: tuple[float | None, ...] = ()
    spread: float | None = None
    orders: tuple[float, ...] = ()
    claims: tuple[JudgedClaim, ...] = ()
    left_out: tuple[str, ...] = ()
    usage: Usage = NOTHING
    prompts: tuple[SentPrompt, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        said = self.reasoning if len(self.reasoning) <= _SHOWN else f"{self.reasoning[:_SHOWN]}..."
        level = "" if self.level is None else f", level={self.level:g}"
        why = "" if self.status == "scored" else f", status={self.status!r}, cause={self.cause!r}"
        value = None if self.score is None else round(self.score, 4)
        return f"Verdict(score={value}{level}{why}, reasoning={said!r})"

    def _repr_html_(self) -> str:
        rows = [
            ("score", number(self.score)),
            ("level", "-" if self.level is None else f"{self.level:g}"),
            ("status", self.status if self.status == "scored" else f"{self.status}: {self.cause}"),
            ("reasoning", self.reasoning),
            ("model", self.model),
        ]
        return html_table("verdict", [], [row for row in rows if row[1]])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping; a missing score is null, never NaN."""
        found = {name: getattr(self, name) for name in _VERDICT}  # `asdict` would copy all values
        for name in _LISTS:
            found[name] = list(found[name])
        found["claims"] = [{name: getattr(each, name) for name in _CLAIM} for each in self.claims]
        found["usage"] = {name: getattr(self.usage, name) for name in _USAGE}
        return found

    def to_short_dict(self) -> dict[str, Any]:
        """Return the same without what is as always, as stores and messages have it."""
        return {key: value for key, value in self.to_dict().items() if value != _USUAL[key]}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Verdict:
        """Read what `to_dict` or `to_short_dict` gives.

        Example:
            >>> verdict = Verdict(0.5, claims=(JudgedClaim(text="a", passages=(1,)),))
            >>> Verdict.from_dict(verdict.to_dict()) == verdict
            True
        """
        made = {"score": None, **found}
        made |= {name: tuple(made[name]) for name in _LISTS & made.keys()}
        made["claims"] = tuple(
            JudgedClaim(**{**each, **{name: tuple(each[name]) for name in ("passages", "against")}})
            for each in made.get("claims", ())
        )
        if "usage" in made:
            made["usage"] = Usage(**made["usage"])
        return cls(**made)

    def __float__(self) -> float:
        """Return the score; NaN where there is none."""
        return float("nan") if self.score is None else float(self.score)


_VERDICT = tuple(each.name for each in fields(Verdict) if each.name != "prompts")
_CLAIM, _USAGE = (tuple(each.name for each in fields(kind)) for kind in (JudgedClaim, Usage))
_LISTS = frozenset({"samples", "orders", "left_out"})
_USUAL = Verdict(None).to_dict()
