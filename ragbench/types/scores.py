"""Scores and verdicts of single items, and the causes of missing ones."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from numbers import Real
from typing import Any, Literal, cast

from ragbench.types.json_fields import Prose, Record, optional
from ragbench.types.lookups import attributes_of
from ragbench.types.records import Usage
from ragbench.types.tables import html_table, number

# Whether higher or lower values are better.
Direction = Literal["higher", "lower"]

# Statement of one or several texts about a claim.
Ruling = Literal["supported", "contradicted", "not_mentioned"]

_FIRST_FAILURE = 64  # codes below leave room for further causes that are no failure
# Characters of the reasoning in the repr of a verdict.
_MAX_REASONING = 120
# Usage of a judge that calls no model.
NOTHING = Usage(0, 0, 0.0)


class Cause(IntEnum):
    """Cause of a missing score; stored as uint8 in a column beside the values.

    Codes from 1 to 63 mean that the score does not apply, codes from 64 on that it failed. `word`
    is the name in lower case, as files write it.

    Attributes:
        SCORED: The item has a score.
        NO_RELEVANT: No document is judged relevant to the query.
        NO_JUDGEMENTS: The query has no judgement.
        MISSING_QUERY: The run lacks the query, and the caller asked to skip such queries.
        NO_REFERENCE: The metric needs a reference answer, and the query has none.
        NO_CONTEXTS: The metric needs passages, and the system retrieved none.
        NO_ANSWER: The file or record of the system has no answer to the query.
        EMPTY_RANKING: The measure is not defined on an empty ranking.
        NO_CLAIMS: The text makes no claim that could be checked.
        NO_QUESTION: The rubric needs the question, and the item has none.
        NO_QUERIES: The rubric judges formulated queries, and the system formulated none.
        NO_GUIDELINES: The rubric checks guidelines, and neither it nor the item has any.
        NO_CITATIONS: The answer cites no passage.
        NO_OTHER: The rubric compares two answers, and the item has only one.
        NOTHING_TO_USE: No passage contains a fact of the reference that the answer could use.
        NO_TURNS: The rubric judges a conversation, and the question has no earlier turns.
        NO_EXPECTED_CALLS: The metric compares with gold tool calls, and the question has none.
        NO_TOOL_CALLS: The metric judges tool calls, and the calls of the system are unknown.
        UNKNOWN_IDS: No hit of the system is judged or in the corpus, so that ids tell nothing.
        HAS_ANSWER: The metric is a mean over questions without an answer, and this one has one.
        HAS_NO_ANSWER: The metric is a mean over questions with an answer, and this one has none.
        NO_REFUSAL: The metric is a mean over refusals, and the reply answers.
        UNSURE_REFUSAL: It is not sure whether the reply refuses.
        NO_GOLD_SPAN: The query has no gold span, or one that its document no longer holds.
        UNPLACED_PASSAGE: A passage up to the cut-off cannot be placed in a document.
        AMBIGUOUS_QUOTE: A quoted gold passage stands in several documents, and no gold document
            is named.
        NO_NUMBER: The metric compares numbers, and no reference answer has one.
        NO_FORBIDDEN: The query has no forbidden documents.
        UNCLEAR_PASSAGE: A passage up to the cut-off may be forbidden: its id, its metadata or its
            place in a document do not tell.
        ERROR: The component raised an error.
        TIMEOUT: The component did not answer in time.
        MALFORMED: The component returned a value of the wrong form.
        UNREADABLE: The reply of a judge could not be parsed.
        REFUSED: A model refused to answer.
        SERVER_ERROR: A server answered with an error.
        OVER_BUDGET: The budget was spent before the call.
        MISSING_ANSWER: The system lacks the answer to a query of the data; leaving the query out
            would raise its mean.
        TOO_LONG: The prompt exceeds the context length of the model.
        OUT_OF_TOKENS: The reply reached its token limit before an answer began.
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
    UNKNOWN_IDS = 23
    HAS_ANSWER = 24
    HAS_NO_ANSWER = 25
    NO_REFUSAL = 26
    UNSURE_REFUSAL = 27
    NO_GOLD_SPAN = 28
    UNPLACED_PASSAGE = 29
    AMBIGUOUS_QUOTE = 30
    NO_NUMBER = 31
    NO_FORBIDDEN = 32
    UNCLEAR_PASSAGE = 33
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
        """True for a failed score, False for one that exists or does not apply."""
        return self >= _FIRST_FAILURE

    @property
    def is_transient(self) -> bool:
        """True for SERVER_ERROR and TIMEOUT: the same call may succeed at a later time."""
        return self in (Cause.SERVER_ERROR, Cause.TIMEOUT)

    @property
    def is_kept(self) -> bool:
        """True for a failure that only `--retry-failed` tries again, as a refused prompt."""
        return self.failed and not self.is_transient and self is not Cause.OVER_BUDGET

    @property
    def status(self) -> Literal["scored", "not_applicable", "failed"]:
        """Status of the score as files write it."""
        if self is Cause.SCORED:
            return "scored"
        return "failed" if self.failed else "not_applicable"

    @property
    def word(self) -> str:
        """Cause as files and reports write it, such as `no_relevant`."""
        return self.name.lower()


class Value(float):
    """Float with a `to_dict`: the result of a scorer that returns a single number.

    The truth value of NaN, where there is no score, raises ValueError.

    Example:
        >>> value = Value(0.5)
        >>> value, value + 0.25, value.to_dict()
        (0.5, 0.75, {'score': 0.5})
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        # NaN would be true, as if the answer were right
        if self != self:
            raise ValueError("there is no score, which is neither true nor false: check math.isnan")
        return float(self) != 0

    def to_dict(self) -> dict[str, float | None]:
        """Return {"score": the number}, JSON-ready; NaN becomes null."""
        return {"score": float(self) if self == self else None}


class JudgedClaim(Record):
    """Claim of an answer or of a reference, with its support in other texts.

    Attributes:
        text: Claim as one sentence.
        whose: Text that makes the claim.
        ruling: Statement of the passages together: `supported`, `contradicted` or `not_mentioned`;
            None if they were not compared. A claim that one passage supports and another
            contradicts is supported.
        passages: Numbers of the passages that support the claim, alone or together, from 1.
        against: Numbers of the passages that contradict the claim.
        other: Statement of the reference about a claim of the answer, or of the answer about a
            claim of the reference; None if they were not compared.
        probability: Probability that the passages support the claim; None without a classifier.
    """

    text: Prose
    whose: Literal["answer", "reference"] = optional("answer")
    ruling: Ruling | None = optional()
    passages: tuple[int, ...] = optional(())
    against: tuple[int, ...] = optional(())
    other: Ruling | None = optional()
    probability: float | None = optional()


class SentPrompt(Record, kw_only=False):
    """Prompt sent for a verdict, with names in place of the texts of the judged item.

    Attributes:
        system: System message, the same for every item.
        user: User message; `[[fence]]` stands for the fence word, `[[1]]` for the first text.
        fence: Word of the tags around judged texts, which no text contains; empty without tags.
        texts: Names of judged texts, such as `[[answer]]`, `[[passage 2]]`, `[[passages]]` or
            `[[reference 1]]`, or a text itself; `[[text]]` precedes a text that begins with `[[`.
        to: Models and number of times, unless the prompt was sent once to each model.
    """

    system: str
    user: str
    fence: str = ""
    texts: tuple[str, ...] = ()
    to: str = ""


_GAP = re.compile(r"\[\[(fence|[0-9]+)\]\]")
_TEXT = "[[text]]"


def named_text(text: str, names: Mapping[str, str]) -> str:
    """Return a text as `SentPrompt.texts` stores it: `[[name]]` if it has a name, else itself.

    `[[text]]` precedes a text without a name that begins with `[[`.

    Args:
        text: Text of a prompt.
        names: Name of each text of the item, by text.
    """
    if (name := names.get(text)) is not None:
        return f"[[{name}]]"
    return f"{_TEXT}{text}" if text.startswith("[[") else text


def filled_prompt(user: str, fence: str, texts: Sequence[str], by_name: Mapping[str, str]) -> str:
    """Return the user message of a `SentPrompt` with its fence and texts.

    `by_name` maps the names of the texts of the judged item, without brackets, to the texts; a name
    without a text stays in the message. `fence` and `[[1]]`, `[[2]]`, ... of `user` are replaced.

    Raises:
        IndexError: The message refers to a text beyond `texts`.

    Example:
        >>> by_name = {"answer": "In 1932."}
        >>> filled_prompt("<a-[[fence]]>[[1]]</a-[[fence]]>", "b4", ("[[answer]]",), by_name)
        '<a-b4>In 1932.</a-b4>'
    """

    def fill(gap: re.Match[str]) -> str:
        """Return the text that replaces a placeholder of a prompt."""
        if gap[1] == "fence":
            return fence
        text = texts[int(gap[1]) - 1]
        if text.startswith(_TEXT):
            return text.removeprefix(_TEXT)
        return by_name.get(text[2:-2], text) if text.startswith("[[") else text

    # One pass: a text that itself holds a gap is not filled again.
    return _GAP.sub(fill, user)


class VerdictFacts(Record, kw_only=False):
    """Part of a verdict that run folders hold, too; `Verdict` documents the fields.

    All but `orders`, `claims` and `left_out` are always written.
    """

    score: float | None
    level: float | None = None
    reasoning: Prose = ""
    status: Literal["scored", "not_applicable", "failed"] = "scored"
    cause: str = "scored"
    raw: Prose = ""
    model: Prose = ""
    weighted: bool = False
    samples: tuple[float | None, ...] = ()
    spread: float | None = None
    orders: tuple[float, ...] = optional(())
    claims: tuple[JudgedClaim, ...] = optional(())
    left_out: tuple[str, ...] = optional(())
    usage: Usage = NOTHING


class Verdict(VerdictFacts, kw_only=False, eq=False):
    """Verdict of a judge on one item by one rubric; `float(verdict)` is the score, or NaN.

    A verdict is compared with a number by its score. Without a score, because the judgement failed
    or does not apply, `<`, `<=`, `==`, `>=` and `>` are all False. Two verdicts are equal if all
    fields but `prompts` are; they have no order. The truth value raises TypeError: a failed verdict
    would be as true as a good one.

    Attributes:
        score: Score from 0 to 1; None if the judgement failed or does not apply.
        level: Level on the scale of the rubric; None if the rubric has no scale.
        reasoning: Reasons in the words of the judge; for a failed verdict, the error.
        status: Status of the score.
        cause: Word of the cause, such as `no_reference` or `unreadable`; `scored` with a score.
        raw: Replies of the judge, a paragraph each; empty for judges without a model.
        model: Name of the model as its server reports it, several joined by `+`; empty for judges
            without a model.
        weighted: True if levels were weighted by the token probabilities of the model.
        samples: Score of each sample or model, None for a failed one; empty for a single sample.
        spread: Standard deviation of these scores (n - 1); None for fewer than two scores.
        orders: For a pair of answers, the scores in both orders of presentation, for each time that
            both were judged; empty if the two texts are equal.
        claims: Judged claims, those of the answer first; empty for judges that split no claims and
            for several samples or models, which each split their own.
        left_out: Parameters not sent, since the model refuses them, such as `temperature`.
        usage: Tokens and cost of the replies, without those that an earlier verdict on the same
            item counts. A stored reply counts its original tokens and cost.
        prompts: Prompts sent; empty for judges without a model. Not in `to_dict`, since most of
            their text is the same for every item.
        plain_level: Level without token probabilities; None unless `weighted`.
        plain_samples: Samples without token probabilities; empty unless `weighted`.
        repeat_causes: Word of the cause of each repetition, of all models; empty unless a
            repetition failed.
    """

    prompts: tuple[SentPrompt, ...] = optional(())
    plain_level: float | None = optional()
    plain_samples: tuple[float | None, ...] = optional(())
    repeat_causes: tuple[str, ...] = optional(())

    def __repr__(self) -> str:
        text, most = self.reasoning, _MAX_REASONING
        reasoning = text if len(text) <= most else f"{text[:most]}..."
        level = "" if self.level is None else f", level={self.level:g}"
        why = "" if self.status == "scored" else f", status={self.status!r}, cause={self.cause!r}"
        value = None if self.score is None else round(self.score, 4)
        return f"Verdict(score={value}{level}{why}, reasoning={reasoning!r})"

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
        """Return a JSON-ready mapping of all fields but `prompts`; a missing score is null."""
        # `asdict` would copy all values deeply, which takes longer than judging by overlap.
        values = attributes_of(self, _VERDICT)
        for name in _LISTS:
            values[name] = list(values[name])
        values["claims"] = [attributes_of(claim, _CLAIM) for claim in self.claims]
        values["usage"] = attributes_of(self.usage, _USAGE)
        return values

    def __float__(self) -> float:
        """Return the score; NaN if there is none."""
        return float("nan") if self.score is None else float(self.score)

    def __bool__(self) -> bool:
        text = "a verdict is neither true nor false: compare .score, and check .status"
        raise TypeError(text)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Verdict):
            return all(getattr(self, name) == getattr(other, name) for name in _VERDICT)
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> bool:
        # a struct inherits a `!=` that compares identities
        return not self == other

    def __hash__(self) -> int:
        # a verdict equals its score
        return hash(self.score)

    def __lt__(self, other: float) -> bool:
        return self._compare(other, operator.lt)

    def __le__(self, other: float) -> bool:
        return self._compare(other, operator.le)

    def __gt__(self, other: float) -> bool:
        return self._compare(other, operator.gt)

    def __ge__(self, other: float) -> bool:
        return self._compare(other, operator.ge)

    def _compare(self, other: object, holds: Callable[[Any, Any], bool]) -> bool:
        """Return True if the score has this relation to a number; False without a score."""
        if not isinstance(other, Real):
            return cast("bool", NotImplemented)
        if self.status != "scored" or self.score is None:
            return False
        return bool(holds(self.score, other))


# Fields of `to_dict`, and of the equality of verdicts.
_VERDICT = tuple(name for name in Verdict.__struct_fields__ if name != "prompts")
_CLAIM = JudgedClaim.__struct_fields__
_USAGE = Usage.__struct_fields__
_LISTS = ("samples", "plain_samples", "repeat_causes", "orders", "left_out")
