"""What a judge is: anything that applies a rubric to an item and gives a verdict."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragbench.score.base import Advance
from ragbench.signature import fingerprint_json
from ragbench.types.conversation import ToolCall, Turn
from ragbench.types.records import Nugget
from ragbench.types.scores import Cause, Verdict

if TYPE_CHECKING:
    from ragbench.llm import Budget, Replies, Totals

# What a rubric may need of an item, in the order in which a judge reads it.
NEEDS = ("turns", "question", "guidelines", "contexts", "reference", "queries", "answer", "other")


@dataclass(frozen=True, slots=True)
class Item:
    """One answered question, as a judge sees it.

    Attributes:
        answer: The system's answer; None where it has none, empty where it said nothing.
        contexts: The passages that the system retrieved, best first; None where they are not known.
            The marker `[1]` in an answer cites the first.
        query_id: The query, for files.
        queries: The queries that the system formulated itself; None where it formulated none.
        guidelines: Rules that this answer must keep, besides those of the rubric.
        other: The answer of another system to the same question, for rubrics that ask of a pair.
        nuggets: The facts that a good answer has, for rubrics over nuggets; None: made of the
            references.
        sample: Which of several answers to the same query it is; a model does not see it.
        turns: What was said before the question.
        tool_calls: The tools that the system called for the answer; None where that is not known.
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

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The question after what was said before it, each message by its label; or nothing.

        Example:
            >>> Item("And in May?", turns=(Turn("user", "Is it warm in April?"),)).asked
            [('turn-1-user', 'Is it warm in April?'), ('question', 'And in May?')]
        """
        if self.question is None:
            return []
        said = [
            (f"turn-{number}-{turn.role}", turn.text)
            for number, turn in enumerate(self.turns, start=1)
            if turn.text
        ]
        return [*said, ("question", self.question)]


@dataclass(frozen=True)
class Rubric:
    """What a judge is asked, and what its levels mean.

    Attributes:
        asks: What is judged: answer, context, query or pair.
        needs: What an item must have.
        scale: Level -> what it means; the levels run from 1 to the largest.
        steps: What the judge does, in order.
        examples: Judged items.
        method: How the verdict is made: rating, claims, pairwise, nuggets, support or ragas.
        formula: The number that is made of the verdicts: with the method claims a name in
            `FORMULAS`, with nuggets and support the score, with ragas the metric.
        verdicts: Methods claims and nuggets: `shared` asks what all such rubrics ask, so that one
            set of replies serves them all; `own` adds the steps to what is asked.
        guidelines: Rules that every answer must keep.
        model: Method ragas: what embeds the texts that are compared; None where none are.
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
        """How many levels there are."""
        return max(self.scale)

    @property
    def own_steps(self) -> tuple[str, ...]:
        """The steps that are sent to a judge; those of shared verdicts explain the number."""
        return self.steps if self.verdicts == "own" else ()

    def meaning(self, level: int) -> str:
        """Say what a level means; one without a text lies between its neighbours."""
        if level in self.scale:
            return self.scale[level]
        below = max(known for known in self.scale if known < level)
        above = min(known for known in self.scale if known > level)
        return f"between '{self.scale[below]}' and '{self.scale[above]}'"

    def score_of(self, level: float) -> float:
        """Turn a level of 1..n into a score of 0..1."""
        return (level - 1) / (self.levels - 1)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A short hash of everything that the rubric says."""
        scale = {str(level): text for level, text in self.scale.items()}
        said = (self.name, self.asks, self.needs, scale, self.steps, self.examples, self.method)
        more = [self.direction, self.formula, self.verdicts, self.guidelines]
        return fingerprint_json([*said, *more, *([self.model] if self.model else [])])


class Judge:
    """Applies rubrics to items: the one protocol of judges, with a default for most members.

    Built-in judges inherit it. An object of the user's needs `label`, `model`, `options` and
    `judge`, and may have `served`, `computes`, `missing_key`, `judge_all` with `ajudge_all`,
    `check` and `close`: `ragbench.score.judge.python.declared` wraps it once.

    Attributes:
        served: Names of the rubrics that it can apply; None: any.
        own_rubric: The keys of the one rubric that a plain function is, under its name; else None.
        computes: Whether it asks no server, so that workers can be asked in its place.
        takes_many: Whether it has `judge_all` and `ajudge_all`, which say themselves where a rubric
            does not apply; else items are judged one by one.
        made: The object of the user's that it stands for; None: it is the judge itself.
        asks: Whether it asks models: their replies are kept, paid from a budget, and come one by
            one.
    """

    served: Sequence[str] | None = None
    own_rubric: Mapping[str, object] | None = None
    computes: bool = False
    takes_many: bool = False
    made: Any = None
    asks: bool = False

    @property
    def label(self) -> str:
        """One sentence that says what kind of judge this is, shown beside its scores."""
        raise NotImplementedError

    @property
    def model(self) -> str:
        """What gives the verdicts: the model that is asked, or a method with its version."""
        raise NotImplementedError

    @property
    def options(self) -> Mapping[str, object]:
        """What else its verdicts depend on; goes into the signature."""
        return {}

    @property
    def missing_key(self) -> str | None:
        """The environment variable that must hold its key and does not."""
        return None

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
        """Apply a rubric whose needs the item fulfils.

        A pair comes twice in an experiment, the second time with the answers in each other's
        place, unless the judge asks models: then it asks in both orders itself.
        """
        return self.judge_all([item], [rubric])[0][rubric.name]

    def judge_all(
        self, items: Iterable[Item], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return for each item, in order, a verdict per rubric; failures are verdicts too."""
        raise NotImplementedError

    async def ajudge_all(
        self, items: Iterable[Item], rubrics: Sequence[Rubric]
    ) -> list[dict[str, Verdict]]:
        """Return the same without blocking the running loop."""
        raise NotImplementedError

    def judge_each(
        self, items: Iterable[Item], rubrics: Sequence[Rubric]
    ) -> Iterator[tuple[int, dict[str, Verdict]]]:
        """Yield position and verdicts of each item as they come, where it asks models."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise an error where a package, a key or a model is missing."""

    def close(self) -> None:
        """Give back what it holds: connections, a model."""

    def keep_replies(self, replies: Replies | None) -> None:
        """Set where replies are kept and looked up; before the first question."""

    def spend_from(self, budget: Budget | None) -> None:
        """Set what all calls may cost together; before the first question."""

    def signature_parts(self, rubric: Rubric) -> Mapping[str, Any]:
        """Return what the verdicts by a rubric depend on besides the model."""
        return {"rubric": rubric.fingerprint, **self.options}

    def totals(self) -> Totals:
        """Return a copy of what has been sent and paid so far, where it asks models."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class KnownJudge:
    """What is known of a judge before it is made; the fields are those of `Judge`.

    Attributes:
        served: None: any, or not known yet.
        is_judge: Whether the user gave the judge itself, a function or an object: making it calls
            nothing.
    """

    served: Sequence[str] | None = None
    own_rubric: Mapping[str, object] | None = None
    is_judge: bool = False


def known_of(maker: object) -> KnownJudge:
    """Return what is known of a judge by its class, or by what makes it.

    One of the user's own need not inherit what declares it: it is looked at here alone.

    Example:
        >>> class Polite:
        ...     served = ["politeness"]
        >>> known_of(Polite).served, known_of(Polite).own_rubric
        (['politeness'], None)
    """
    if isinstance(known := getattr(maker, "known", None), KnownJudge):
        return known
    served = getattr(maker, "served", None)
    return KnownJudge(
        served=served if isinstance(served, (list, tuple)) else None,
        own_rubric=getattr(maker, "own_rubric", None),
    )


# what the data lack comes first: it does not depend on the system
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


def missing_verdict(item: Item, rubric: Rubric) -> Verdict | None:
    """Return the verdict on an item that lacks what a rubric needs; None where nothing is missing.

    An empty answer is there, and is judged. Claims can be checked without the question, which
    only helps to understand them.
    """
    given = rubric.method == "nuggets" and item.nuggets is not None
    present = {
        "reference": bool(item.references) or given,
        "turns": bool(item.turns),
        "question": bool((item.question or "").strip()) or rubric.method == "claims",
        "guidelines": bool(item.guidelines or rubric.guidelines),
        "answer": item.answer is not None,
        "other": item.other is not None,
        "contexts": bool(item.contexts),
        "queries": bool(item.queries),
    }
    for need, (cause, why) in _MISSING.items():
        if need in rubric.needs and not present[need]:
            return not_applicable(cause, why)
    return None


def both_orders(rubric: Rubric, scores: tuple[float, float], said: Sequence[str]) -> Verdict:
    """Return the verdict of one comparison in both orders: a tie where they disagree.

    `scores` are those of the answer, 1 for a win, `said` what was said in each order.
    """
    lines = [f"in this order: {said[0]}", f"in the other order: {said[1]}"]
    sides = {int(score > 0.5) - int(score < 0.5) for score in scores}
    if len(sides) > 1:
        lines.append("the two orders disagree: a tie")
    score = sum(scores) / 2 if len(sides) == 1 else 0.5
    level = 1 + score * (rubric.levels - 1)
    return Verdict(score, level=level, reasoning="\n".join(lines), orders=scores)


def not_applicable(cause: Cause, reasoning: str) -> Verdict:
    """Return the verdict that a rubric does not apply."""
    return Verdict(None, reasoning=reasoning, status="not_applicable", cause=cause.word)
