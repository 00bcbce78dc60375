"""Protocol of judges: apply a rubric to a judged item and return a verdict."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragbench.registry import source_print
from ragbench.score.base import Advance
from ragbench.score.judge.markers import CitationForms
from ragbench.signature import fingerprint_json
from ragbench.types.conversation import ToolCall, Turn
from ragbench.types.records import Nugget
from ragbench.types.scores import Cause, Verdict

if TYPE_CHECKING:
    from ragbench.llm import Budget, Replies, Totals

# Parts of an item that a rubric may need, in the order in which a judge reads them.
NEEDS = ("turns", "question", "guidelines", "contexts", "reference", "queries", "answer", "other")


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """Question, answer and passages of one query, as a judge reads them.

    The constructor checks nothing; `item_of` and `items_of` make items from checked inputs.

    Attributes:
        question: Question of the user; None if there is none.
        answer: Answer of the system; None if there is none, empty if the system returned no text.
        contexts: Retrieved passages, best first; None if they are unknown. The marker `[1]` in an
            answer cites the first passage.
        references: Gold answers; empty if there are none.
        query_id: Id of the query, for the rows of files.
        queries: Search queries that the system formulated; None if it formulated none.
        guidelines: Rules for this answer, besides the guidelines of the rubric.
        other: Answer of another system to the same question, for rubrics that compare a pair; None
            if there is none.
        nuggets: Facts of a good answer, for rubrics over nuggets; None: the judge extracts them
            from the references.
        sample: Number of this answer among several answers to the query, from 0; models do not see
            it.
        first_reply: Number of the first reply of a model that counts, from 0; a further look of a
            gate takes later ones.
        turns: Messages before the question, oldest first.
        tool_calls: Tools that the system called for the answer; None if that is unknown.
    """

    question: str | None = None
    answer: str | None = None
    contexts: list[str] | None = None
    references: list[str] = field(default_factory=list)
    query_id: str = ""
    queries: list[str] | None = None
    guidelines: list[str] = field(default_factory=list)
    other: str | None = None
    nuggets: tuple[Nugget, ...] | None = None
    sample: int = 0
    turns: tuple[Turn, ...] = ()
    tool_calls: tuple[ToolCall, ...] | None = None
    first_reply: int = 0

    @property
    def question_messages(self) -> list[tuple[str, str]]:
        """Label and text of the earlier messages and the question; empty without a question.

        Turns are numbered from 1; those without text are left out, but keep their number.

        Example:
            >>> item = JudgedItem("And in May?", turns=(Turn("user", "Is it warm in April?"),))
            >>> item.question_messages
            [('turn-1-user', 'Is it warm in April?'), ('question', 'And in May?')]
        """
        if self.question is None:
            return []
        messages = []
        for number, turn in enumerate(self.turns, start=1):
            if turn.text:
                messages.append((f"turn-{number}-{turn.role}", turn.text))
        return [*messages, ("question", self.question)]


@dataclass(frozen=True)
class Rubric:
    """Question, scale and method by which a judge scores an item.

    `load_rubric` and `read_rubric` make it; the constructor checks nothing. `score_of` returns the
    score from 0 to 1 of a level.

    Attributes:
        name: Name of the rubric, with its options: the name of its scores.
        asks: Object of the verdict: answer, context, query, pair or conversation.
        needs: Parts of an item that the rubric needs, names of `NEEDS`.
        scale: Level -> its meaning; levels run from 1 to the largest key, some may be absent.
        steps: Instructions to the judge, in order.
        examples: Judged items with level and reasoning, shown to the model.
        method: Method of the judge: rating, claims, pairwise, nuggets, support, intentions,
            retention or ragas.
        direction: `higher` or `lower`, whichever is better.
        formula: Formula of the score: for claims a name in `FORMULAS`, for nuggets and support the
            published score, for ragas the metric; None for other methods.
        verdicts: For claims and nuggets: `shared` sends the prompts that all such rubrics share,
            so that one set of replies serves all of them; `own` adds the steps to the prompts.
        guidelines: Rules for every answer.
        model: For ragas: the embedding model; None if the metric compares no texts.
    """

    name: str
    asks: str
    needs: tuple[str, ...]
    scale: Mapping[int, str]
    steps: tuple[str, ...]
    examples: tuple[Mapping[str, Any], ...]
    method: str
    direction: str
    formula: str | None = None
    verdicts: str = "own"
    guidelines: tuple[str, ...] = ()
    model: str | None = None

    @property
    def levels(self) -> int:
        """Number of levels, the largest key of the scale."""
        return max(self.scale)

    @property
    def own_steps(self) -> tuple[str, ...]:
        """Steps to send to a judge; empty for shared verdicts, whose steps are for readers."""
        return self.steps if self.verdicts == "own" else ()

    def meaning(self, level: int) -> str:
        """Return the meaning of a level; for one that the scale omits, "between 'x' and 'y'".

        Raises:
            ValueError: The level lies outside the scale.
        """
        if level in self.scale:
            return self.scale[level]
        below = max(described for described in self.scale if described < level)
        above = min(described for described in self.scale if described > level)
        return f"between '{self.scale[below]}' and '{self.scale[above]}'"

    def score_of(self, level: float) -> float:
        """Return the score from 0 to 1 of a level from 1 to n, also of a fractional level.

        A level outside gives a score outside 0..1.
        """
        return (level - 1) / (self.levels - 1)

    @property
    def reads_citations(self) -> bool:
        """True if the score depends on the markers in the answer that cite passages."""
        return self.method == "support" or (self.formula or "").startswith("citation")

    @functools.cached_property
    def fingerprint(self) -> str:
        """Short hash of all fields, equal for equal rubrics."""
        scale = {}
        for level, text in self.scale.items():
            scale[str(level)] = text
        fields = (self.name, self.asks, self.needs, scale, self.steps, self.examples, self.method)
        more = [self.direction, self.formula, self.verdicts, self.guidelines]
        return fingerprint_json([*fields, *more, *([self.model] if self.model else [])])


class RubricJudge:
    """Protocol of judges, with a default for most members.

    Built-in judges inherit it. A user's object needs `label`, `model`, `options` and `judge`, and
    may have `served`, `computes`, `missing_key`, `judge_all` with `ajudge_all`, `check` and
    `close`: `ragbench.score.judge.python.as_judge` wraps it in this protocol.

    A member without a default raises NotImplementedError until a subclass defines it. `judge`
    returns the verdict of a rubric on an item, `judge_all` rubric -> verdict for many items. A
    failure is a verdict with a cause; raises RagbenchError if the user has to act, as for a missing
    key.

    Attributes:
        served: Names of the rubrics that the judge can apply; None: any rubric.
        served_note: Text after these names in messages: the way to get further rubrics.
        own_rubric: Keys of the only rubric of a plain function, named after it; None for others.
        computes: True if the judge calls no server, so that worker processes can run it.
        takes_many: True if the judge has `judge_all` and `ajudge_all`, which return a verdict also
            for items that a rubric does not apply to; False: items are judged one by one.
        component: User's object that is wrapped; None for a built-in judge.
        asks: True if the judge calls models: their replies are stored, paid from a budget, and
            arrive one by one.
        citations: Forms of citation markers that the judge reads.
        same_results: Reason why equal items have equal verdicts, so that a `repeat` tells nothing;
            empty for a judge that may answer differently.
    """

    same_results: str = ""
    served: Sequence[str] | None = None
    served_note: str = ""
    own_rubric: Mapping[str, object] | None = None
    computes: bool = False
    takes_many: bool = False
    component: Any = None
    asks: bool = False
    citations: CitationForms = "brackets"

    @property
    def label(self) -> str:
        """Description of the kind of judge in one sentence, printed beside its scores.

        This base class raises `NotImplementedError`.
        """
        raise NotImplementedError

    @property
    def model(self) -> str:
        """Name of the model, or name and version of the method, that gives the verdicts.

        This base class raises `NotImplementedError`.
        """
        raise NotImplementedError

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models in the order of the config; several for a jury.

        The default is `model` alone.
        """
        return (self.model,)

    @property
    def options(self) -> Mapping[str, object]:
        """Options that the verdicts depend on besides the model, for the signature; default {}."""
        return {}

    @property
    def missing_key(self) -> str | None:
        """Name of the environment variable that should hold the key and is not set, or None.

        The default is None.
        """
        return None

    def judge(self, item: JudgedItem, rubric: Rubric) -> Verdict:
        """Return the verdict of one rubric on an item that has all that the rubric needs.

        By default it is the verdict of `judge_all`.

        An experiment passes a pair twice, the second time with the two answers exchanged, unless
        the judge calls models: such a judge asks in both orders itself.

        The score is from 0 to 1, or None with a cause. A judge of the user may raise anything;
        a built-in judge raises RagbenchError if the user has to act.
        """
        return self.judge_all([item], [rubric])[0][rubric.name]

    def judge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item, in order; a failure is a verdict, not an error.

        `advance` is called with the number of items that were completed since the last call.

        This base class raises NotImplementedError. Errors that the user has to fix, such as a
        missing key, are raised as RagbenchError.
        """
        raise NotImplementedError

    async def ajudge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return the result of `judge_all` without blocking the running event loop.

        Raises NotImplementedError if the judge does not define it.
        """
        raise NotImplementedError

    def judge_each(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric]
    ) -> Iterator[tuple[int, dict[str, Verdict]]]:
        """Yield position and verdicts of each item as its replies arrive; only of `asks` judges.

        Positions count from 0, in the order of arrival. This base class raises NotImplementedError.
        """
        raise NotImplementedError

    def check(self) -> None:
        """Check package, key and model before the first item.

        Raises:
            RagbenchError: One of them is missing; the default checks nothing.
        """

    def close(self) -> None:
        """Close connections and unload models.

        The default does nothing.
        """

    def keep_replies(self, replies: Replies | None) -> None:
        """Set the store of replies, before the first request; None stores nothing.

        The default ignores it.
        """

    def spend_from(self, budget: Budget | None) -> None:
        """Set the budget of all requests together, before the first one; None: unlimited.

        The default ignores it.
        """

    def signature_parts(self, rubric: Rubric) -> Mapping[str, Any]:
        """Return the signature parts of a rubric's scores besides the model.

        The default has `rubric`, the fingerprint of the rubric, the keys of `options`, and `code`,
        a hash of the source of a class of the user.
        """
        parts = {"rubric": rubric.fingerprint, **self.options}
        judge_type = type(self if self.component is None else self.component)
        if not judge_type.__module__.startswith("ragbench.") and (code := source_print(judge_type)):
            parts.setdefault("code", code)
        return parts

    def totals(self) -> Totals:
        """Return tokens and cost of the requests so far; only of judges that call models.

        This base class raises NotImplementedError.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """Facts about a judge before it is created, as `RubricJudge` declares them.

    `judge_facts` reads them from a class or factory.

    Attributes:
        served: Names of the rubrics that the judge can apply; None: any, or not yet known.
        own_rubric: Keys of the only rubric of a plain function; None for other judges.
        is_judge: True if the user passed the judge itself, an object or a function, so that
            creating the judge runs no code of the user.
    """

    served: Sequence[str] | None = None
    own_rubric: Mapping[str, object] | None = None
    is_judge: bool = False


def judge_facts(maker: object) -> JudgeFacts:
    """Return the facts of a judge from its class or factory, without creating the judge.

    A user's class need not inherit the protocol: `served` counts only if it is a list or a tuple.
    `served` and `own_rubric` are None where missing; `is_judge` is True only for a factory of a
    user's own object or function.

    Example:
        >>> class Polite:
        ...     served = ["politeness"]
        >>> judge_facts(Polite).served, judge_facts(Polite).own_rubric
        (['politeness'], None)
    """
    served = getattr(maker, "served", None)
    return JudgeFacts(
        served if isinstance(served, (list, tuple)) else None,
        getattr(maker, "own_rubric", None),
        getattr(maker, "is_judge", False),
    )


# Parts that the data lack come first: that cause is the same for all systems.
_MISSING = {
    "reference": (Cause.NO_REFERENCE, "there is no reference answer, and the rubric needs one"),
    "turns": (Cause.NO_TURNS, "nothing was said before the question, and the rubric needs it"),
    "question": (Cause.NO_QUESTION, "there is no question, and the rubric needs it"),
    "guidelines": (
        Cause.NO_GUIDELINES,
        "there are no guidelines, neither in the rubric nor with the answer",
    ),
    "answer": (Cause.NO_ANSWER, "there is no answer to judge"),
    "other": (Cause.NO_OTHER, "there is no other answer to compare with"),
    "contexts": (Cause.NO_CONTEXTS, "there are no passages, and the rubric needs them"),
    "queries": (Cause.NO_QUERIES, "there are no formulated queries to judge"),
}


def missing_verdict(item: JudgedItem, rubric: Rubric) -> Verdict | None:
    """Return a `not_applicable` verdict for the first part that an item lacks; None if complete.

    An empty answer counts as an answer and is judged; a blank question and empty lists count as
    missing. Nuggets of the item stand for the reference of a rubric over nuggets. The order is:
    reference, turns, question, guidelines, answer, other, passages, queries. For claims the
    question may be missing.
    """
    has_nuggets = rubric.method == "nuggets" and item.nuggets is not None
    present = {
        "reference": bool(item.references) or has_nuggets,
        "turns": bool(item.turns),
        # claims can be checked without the question, which only helps to understand them
        "question": bool((item.question or "").strip()) or rubric.method == "claims",
        "guidelines": bool(item.guidelines or rubric.guidelines),
        "answer": item.answer is not None,
        "other": item.other is not None,
        "contexts": bool(item.contexts),
        "queries": bool(item.queries),
    }
    # one cause per verdict: the first one in the order of the table
    for need, (cause, why) in _MISSING.items():
        if need in rubric.needs and not present[need]:
            return not_applicable(cause, why)
    return None


def both_orders(rubric: Rubric, scores: tuple[float, float], reasons: Sequence[str]) -> Verdict:
    """Combine the scores of a comparison in both orders; a tie if the orders disagree.

    `scores` are the scores of the answer in the two orders: 1 a win, 0.5 a tie, 0 a loss. `reasons`
    are the two reasonings, which the verdict quotes. The score is the mean of both if the orders
    agree on the better answer, or both are ties; else 0.5. The level is that score on the scale of
    `rubric`.
    """
    lines = [f"in this order: {reasons[0]}", f"in the other order: {reasons[1]}"]
    sides = {int(score > 0.5) - int(score < 0.5) for score in scores}
    if len(sides) > 1:
        lines.append("the two orders disagree: a tie")
    score = sum(scores) / 2 if len(sides) == 1 else 0.5
    # the level that has this score: the inverse of `score_of`
    level = 1 + score * (rubric.levels - 1)
    return Verdict(score, level=level, reasoning="\n".join(lines), orders=scores)


def not_applicable(cause: Cause, reasoning: str) -> Verdict:
    """Return a verdict without score, with status `not_applicable` and the cause.

    The score is None; `cause` is the word of the cause.
    """
    return Verdict(None, reasoning=reasoning, status="not_applicable", cause=cause.word)
