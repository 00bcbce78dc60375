"""Prompts: what exactly a judge that is a language model is sent, and the shape of its reply.

Each builder returns one request. A system text holds the rubric and nothing that is judged; a user
text holds the judged texts, fenced. Nothing is shortened: a text that is too long for a model is
for its server to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from ragbench.llm import Unreadable
from ragbench.score.judge.base import NEEDS, Item, Rubric
from ragbench.score.judge.grounding import Cell
from ragbench.score.judge.methods.templates import (
    Material,
    shown_example,
    system_text,
    user_text,
    worked,
)
from ragbench.score.judge.published import SUPPORT_LEVELS
from ragbench.types.records import ASSIGNMENTS, IMPORTANCES
from ragbench.types.scores import Ruling

if TYPE_CHECKING:
    from typing_extensions import Unpack

_JUDGED = {
    "answer": "the answer",
    "context": "the passage",
    "query": "the set of queries",
    "conversation": "the conversation",
}
_Shape = dict[str, Any]
"""A JSON Schema."""
_TEXT: _Shape = {"type": "string"}

RULINGS: tuple[str, ...] = get_args(Ruling)
"""What a source says of a claim."""
READINGS: tuple[str, ...] = get_args(Cell)
"""What numbered passages say of a claim."""
Asked = str | Material | None
"""A question, alone or after what was said before it, as `Item.asked` has it."""
OUTCOMES = ("A", "B", "tie")
"""How two answers compare."""


@dataclass(frozen=True)
class Prompt:
    """One request to a language model."""

    system: str
    """What to do; the same for every item."""
    user: str
    """What is judged, fenced, and the request."""
    schema: Mapping[str, Any]
    """The JSON Schema of the reply: every key required, no other allowed, reasons first."""
    check: Callable[[Any], None] | None = None
    """Refuses, as `Unreadable`, a value that fits the schema and cannot be meant."""


class Shown(TypedDict, total=False):
    """What a prompt shows besides the task and what is judged."""

    steps: Sequence[str]
    """Those that a rubric adds to the usual ones: its `own_steps`."""
    few_shot: bool
    """Whether worked examples are shown, as they are by default."""


def of_step(
    step: str,
    material: Material,
    schema: Mapping[str, Any],
    *,
    steps: Sequence[str] = (),
    few_shot: bool = True,
    **words: object,
) -> Prompt:
    """Ask by the templates and worked examples of a step, which all rubrics share.

    `words` are what the user's template names; the others are those of `Shown`.
    """
    system = system_text(step, steps=steps, examples=worked(step) if few_shot else [])
    return Prompt(system, user_text(step, material, **words), schema)


def rating_prompt(
    rubric: Rubric, item: Item, *, passage: int | None = None, few_shot: bool = True
) -> Prompt:
    """Ask for a level of a rubric, after the reasoning.

    `passage` is the one that is rated, counted from 0, for a rubric that asks of a context.

    Example:
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> prompt = rating_prompt(load_rubric("fluency"), Item(answer="It are red."))
        >>> "It are red." in prompt.user, prompt.schema["properties"]["level"]["enum"]
        (True, [1, 2, 3, 4, 5])
    """
    examples = [
        shown_example(
            number,
            _material(rubric, example_item(example), 0 if rubric.asks == "context" else None),
            {"reasoning": example["reasoning"], "level": example["level"]},
        )
        for number, example in enumerate(rubric.examples if few_shot else (), start=1)
    ]
    words = {"rubric": rubric, "judged": _JUDGED[rubric.asks]}
    levels = [*range(1, rubric.levels + 1)]
    return Prompt(
        system_text("rating", examples=examples, **words),
        user_text("rating", _material(rubric, item, passage), **words),
        record({"reasoning": _TEXT, "level": {"type": "integer", "enum": levels}}),
    )


def claims_prompt(
    sentences: Sequence[str], question: Asked = None, *, few_shot: bool = True
) -> Prompt:
    """Ask for the claims of each sentence of a text, an answer or a reference alike.

    The question helps to resolve what is said in a few words.
    """
    material = asked(question) + numbered("sentence", sentences)
    schema = record({f"sentence_{n}": _several(_TEXT) for n in range(1, len(sentences) + 1)})
    return of_step("claims", material, schema, few_shot=few_shot, count=len(sentences))


def verdicts_prompt(
    claims: Sequence[str], source: str, question: Asked = None, **shown: Unpack[Shown]
) -> Prompt:
    """Ask what one source says of each claim.

    A source is a reference, an answer, or a passage that is read by itself. The question is no
    evidence.
    """
    material = [*asked(question), ("source", source), *numbered("claim", claims)]
    schema, n = verdicts("claim", len(claims), RULINGS), len(claims)
    return of_step("verdicts", material, schema, count=n, **shown)


def passages_prompt(
    claims: Sequence[str],
    passages: Sequence[str],
    question: Asked = None,
    **shown: Unpack[Shown],
) -> Prompt:
    """Ask what passages, read together, say of each claim, and which of them.

    In the reply the passages are numbered from 1, those of this request.
    """
    material = [*asked(question), *numbered("passage", passages), *numbered("claim", claims)]
    read = {"reason": _TEXT, "passages": _several({"type": "integer"}), "verdict": word(READINGS)}
    schema = record({f"claim_{number}": record(read) for number in range(1, len(claims) + 1)})
    made = of_step("passages", material, schema, count=len(claims), passages=len(passages), **shown)
    return replace(made, check=_passages_check(passages))


def _passages_check(passages: Sequence[str]) -> Callable[[Any], None]:
    """Refuse numbers of passages that do not go with a verdict: what they mean cannot be known.

    A claim that is not mentioned may have passages beside it: they are not counted.
    """
    least = {"supported": 1, "supported_together": 2, "contradicted": 1, "not_mentioned": 0}

    def check(value: Any) -> None:
        for claim, said in value.items():
            named, verdict = said["passages"], said["verdict"]
            for number in named:
                if not 1 <= number <= len(passages):
                    allowed = f"there are passages 1 to {len(passages)}"
                    raise Unreadable(f"{claim} names passage {number}, and {allowed}")
                if not passages[number - 1].strip() and verdict != "not_mentioned":
                    raise Unreadable(f"{claim} names passage {number}, which is empty")
            if len(set(named)) < len(named):
                raise Unreadable(f"{claim} names a passage twice: {named}")
            if len(named) < least[verdict]:
                wanted = f"at least {least[verdict]}"
                raise Unreadable(f"{claim} is {verdict} by passages {named}, expected {wanted}")

    return check


def pairwise_prompt(
    rubric: Rubric, item: Item, *, swapped: bool = False, few_shot: bool = True
) -> Prompt:
    """Ask which of two answers is better: A or B, or a tie.

    Ask twice, in both orders: a judge that contradicts itself has not told them apart. Swapped, the
    other answer is A.
    """
    examples = [
        shown_example(
            number,
            _pair(rubric, example_item(example), swapped=False),
            {"reasoning": example["reasoning"], "outcome": _outcome(rubric, example["level"])},
        )
        for number, example in enumerate(rubric.examples if few_shot else (), start=1)
    ]
    return Prompt(
        system_text("pairwise", rubric=rubric, examples=examples),
        user_text("pairwise", _pair(rubric, item, swapped=swapped), rubric=rubric),
        record({"reasoning": _TEXT, "outcome": word(OUTCOMES)}),
    )


def nuggets_prompt(sources: Sequence[str], question: Asked, **shown: Unpack[Shown]) -> Prompt:
    """Ask for the facts that a good answer has, vital or okay, from gold answers or passages.

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    nugget = record({"nugget": _TEXT, "importance": word(IMPORTANCES)})
    material = asked(question) + numbered("source", sources)
    return of_step("nuggets", material, record({"nuggets": _several(nugget)}), **shown)


def assignment_prompt(
    nuggets: Sequence[str], answer: str, question: Asked, **shown: Unpack[Shown]
) -> Prompt:
    """Ask how far an answer has each nugget; it is not told which ones are vital."""
    material = [*asked(question), ("answer", answer), *numbered("nugget", nuggets)]
    schema, n = verdicts("nugget", len(nuggets), ASSIGNMENTS), len(nuggets)
    return of_step("assignment", material, schema, count=n, **shown)


def support_prompt(
    statements: Sequence[str], passage: str, question: Asked, *, few_shot: bool = True
) -> Prompt:
    """Ask how far a passage supports each statement that cites it."""
    material = [*asked(question), ("passage", passage), *numbered("statement", statements)]
    schema = verdicts("statement", len(statements), SUPPORT_LEVELS)
    return of_step("support", material, schema, few_shot=few_shot, count=len(statements))


def ragas_prompt(step: str, material: Material) -> Prompt:
    """Ask what a metric of ragas is made of; the keys of the reply are those of ragas."""
    system = system_text("ragas", asked=step)
    text, mark = _TEXT, {"type": "integer", "enum": [0, 1]}
    told = {"statement": text, "reason": text}
    shapes: Mapping[str, _Shape] = {
        "question": {"question": text, "noncommittal": mark},
        "statements": {"statements": _several(text)},
        "inference": {"statements": _several(record({**told, "verdict": mark}))},
        "usefulness": {"reason": text, "verdict": mark},
        "attribution": {"classifications": _several(record({**told, "attributed": mark}))},
        "classification": {key: _several(record(told)) for key in ("TP", "FP", "FN")},
    }
    return Prompt(system, user_text("ragas", material), record(shapes[step]))


def _several(of: _Shape) -> _Shape:
    return {"type": "array", "items": of}


def example_item(example: Mapping[str, Any]) -> Item:
    """Return an example of a rubric file as an item."""
    reference = example.get("reference")
    return Item(
        question=example.get("question"),
        answer=example.get("answer"),
        contexts=example.get("contexts"),
        references=[] if reference is None else [reference],
        queries=example.get("queries"),
        guidelines=example.get("guidelines", []),
        other=example.get("other"),
        turns=example.get("turns", ()),
    )


def _material(rubric: Rubric, item: Item, passage: int | None) -> Material:
    """What a rubric needs of an item, in the order of `NEEDS`."""
    contexts = numbered("passage", item.contexts or [])
    parts: Mapping[str, list[tuple[str, str]]] = {
        "question": item.asked,  # with the turns before it
        "guidelines": numbered("guideline", item.guidelines),
        "contexts": contexts if passage is None else [("passage", contexts[passage][1])],
        "reference": numbered("reference", item.references),
        "queries": numbered("query", item.queries or []),
        "answer": [] if item.answer is None else [("answer", item.answer)],
        "other": [] if item.other is None else [("other", item.other)],
    }
    return [part for need in NEEDS if need in rubric.needs for part in parts.get(need, ())]


def _pair(rubric: Rubric, item: Item, *, swapped: bool) -> Material:
    """The material of a rubric with its two answers as A and B."""
    names = {"answer": "answer-B", "other": "answer-A"} if swapped else {}
    names = names or {"answer": "answer-A", "other": "answer-B"}
    found = [(names.get(label, label), text) for label, text in _material(rubric, item, None)]
    # a stable sort: what is not an answer stays in front, then A, then B
    return sorted(found, key=lambda pair: pair[0] if pair[0].startswith("answer-") else "")


def _outcome(rubric: Rubric, level: int) -> str:
    """An example's level as an outcome for its answer, which is A."""
    score = rubric.score_of(level)
    return "tie" if score == 1 / 2 else "A" if score > 1 / 2 else "B"


def asked(question: Asked) -> list[tuple[str, str]]:
    """Return the question as material, after what was said before it; nothing without one."""
    if isinstance(question, str):
        return [("question", question)]
    return [*question] if question is not None else []


def numbered(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return texts as material, with numbers from 1 behind the label."""
    return [(f"{label}-{number}", text) for number, text in enumerate(texts, start=1)]


def word(allowed: Sequence[str]) -> _Shape:
    """Return the schema of one word of several."""
    return {"type": "string", "enum": [*allowed]}


def verdicts(label: str, count: int, allowed: Sequence[str]) -> _Shape:
    """Return the schema of one verdict for each number: none can be left out or given twice."""
    return verdicts_of([f"{label}_{number}" for number in range(1, count + 1)], allowed)


def verdicts_of(keys: Sequence[str], allowed: Sequence[str]) -> _Shape:
    """Return the schema of one verdict for each key."""
    return record(dict.fromkeys(keys, record({"reason": _TEXT, "verdict": word(allowed)})))


def record(properties: Mapping[str, Any]) -> _Shape:
    """Return the schema of an object with these keys, in this order, and no other."""
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*properties],
        "additionalProperties": False,
    }
