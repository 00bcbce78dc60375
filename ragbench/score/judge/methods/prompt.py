"""Prompts: what exactly a judge that is a language model is sent, and the shape of its reply.

Each builder returns one request. A system text holds the rubric and nothing that is judged; a user
text holds the judged texts, fenced. Nothing is shortened: a text that is too long for a model is
for its server to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from ragbench.score.judge.base import NEEDS, Item, Rubric
from ragbench.score.judge.grounding import FORMULAS, Ruling
from ragbench.score.judge.methods.templates import (
    Material,
    shown_example,
    system_text,
    user_text,
    worked,
)
from ragbench.text.tokenize import sentences

_JUDGED = {"answer": "the answer", "context": "the passage", "query": "the set of queries"}
_LABELS = {"contexts": "passage", "guidelines": "guideline", "queries": "query"}

RULINGS: tuple[str, ...] = get_args(Ruling)
"""What a source says of a claim."""
OUTCOMES = ("A", "B", "tie")
"""How two answers compare."""
IMPORTANCES = ("vital", "okay")
"""How much a nugget matters."""
SUPPORTS = ("support", "partial_support", "not_support")
"""How far an answer has a nugget."""

_STAND_IN = Item(
    question="When was the harbour bridge opened?",
    answer="It was opened on 3 May 1932.",
    contexts=["The harbour bridge was opened to traffic on 3 May 1932."],
    references=["The harbour bridge was opened in 1932."],
    queries=["harbour bridge opening date"],
    guidelines=["Answer in one sentence."],
    other="In the year 1923.",
)


@dataclass(frozen=True)
class Prompt:
    """One request to a language model."""

    system: str
    """What to do; the same for every item."""
    user: str
    """What is judged, fenced, and the request."""
    schema: Mapping[str, Any]
    """The JSON Schema of the reply: every key required, no other allowed, reasons first."""


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
    return Prompt(
        system_text("rating", examples=examples, **words),
        user_text("rating", _material(rubric, item, passage), **words),
        record(
            {
                "reasoning": {"type": "string"},
                "level": {"type": "integer", "enum": [*range(1, rubric.levels + 1)]},
            }
        ),
    )


def claims_prompt(
    sentences: Sequence[str], question: str | None = None, *, few_shot: bool = True
) -> Prompt:
    """Ask for the claims of each sentence of a text, an answer or a reference alike.

    The question helps to resolve what is said in a few words.
    """
    material = _asked(question) + _numbered("sentence", sentences)
    claims = {"type": "array", "items": {"type": "string"}}
    return Prompt(
        system_text("claims", examples=worked("claims") if few_shot else []),
        user_text("claims", material, count=len(sentences)),
        record({f"sentence_{number}": claims for number in range(1, len(sentences) + 1)}),
    )


def verdicts_prompt(
    claims: Sequence[str],
    source: str,
    question: str | None = None,
    *,
    steps: Sequence[str] = (),
    few_shot: bool = True,
) -> Prompt:
    """Ask what one source says of each claim.

    A source is a passage, a reference or an answer. With one request per passage, every pair of a
    claim and a passage has its verdict, and every number of `grounding` follows. The question is no
    evidence; `steps` are a rubric's `own_steps`, added to those of all.
    """
    material = [*_asked(question), ("source", source), *_numbered("claim", claims)]
    return Prompt(
        system_text("verdicts", steps=steps, examples=worked("verdicts") if few_shot else []),
        user_text("verdicts", material, count=len(claims)),
        verdicts("claim", len(claims), RULINGS),
    )


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
        record({"reasoning": {"type": "string"}, "outcome": word(OUTCOMES)}),
    )


def nuggets_prompt(
    sources: Sequence[str],
    question: str | None,
    *,
    steps: Sequence[str] = (),
    few_shot: bool = True,
) -> Prompt:
    """Ask for the facts that a good answer has, vital or okay, from gold answers or passages.

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    nugget = record({"nugget": {"type": "string"}, "importance": word(IMPORTANCES)})
    return Prompt(
        system_text("nuggets", steps=steps, examples=worked("nuggets") if few_shot else []),
        user_text("nuggets", _asked(question) + _numbered("source", sources)),
        record({"nuggets": {"type": "array", "items": nugget}}),
    )


def assignment_prompt(
    nuggets: Sequence[str],
    answer: str,
    question: str | None,
    *,
    steps: Sequence[str] = (),
    few_shot: bool = True,
) -> Prompt:
    """Ask how far an answer has each nugget; it is not told which ones are vital."""
    material = [*_asked(question), ("answer", answer), *_numbered("nugget", nuggets)]
    return Prompt(
        system_text("assignment", steps=steps, examples=worked("assignment") if few_shot else []),
        user_text("assignment", material, count=len(nuggets)),
        verdicts("nugget", len(nuggets), SUPPORTS),
    )


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
    )


def _material(rubric: Rubric, item: Item, passage: int | None) -> Material:
    """What a rubric needs of an item, in the order of `NEEDS`."""
    contexts = item.contexts or []
    several = {
        "guidelines": item.guidelines,
        "contexts": contexts,
        "reference": item.references,
        "queries": item.queries or [],
    }
    single = {"question": item.question, "answer": item.answer, "other": item.other}
    found: list[tuple[str, str]] = []
    for need in NEEDS:
        if need not in rubric.needs:
            continue
        if need == "contexts" and passage is not None:
            found.append(("passage", contexts[passage]))
        elif need in several:
            found += _numbered(_LABELS.get(need, need), several[need])
        elif (text := single[need]) is not None:
            found.append((need, text))
    return found


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


def _asked(question: str | None) -> list[tuple[str, str]]:
    return [] if question is None else [("question", question)]


def _numbered(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"{label}-{number}", text) for number, text in enumerate(texts, start=1)]


def word(allowed: Sequence[str]) -> dict[str, Any]:
    """Return the schema of one word of several."""
    return {"type": "string", "enum": [*allowed]}


def verdicts(label: str, count: int, allowed: Sequence[str]) -> dict[str, Any]:
    """Return the schema of one verdict for each number: none can be left out or given twice."""
    verdict = record({"reason": {"type": "string"}, "verdict": word(allowed)})
    return record({f"{label}_{number}": verdict for number in range(1, count + 1)})


def record(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these keys, in this order, and no other."""
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*properties],
        "additionalProperties": False,
    }


class Preview(NamedTuple):
    """One prompt and what it is for."""

    purpose: str
    """What is asked, in a few words."""
    prompt: Prompt


def preview(rubric: Rubric, *, few_shot: bool = True) -> list[Preview]:
    """Return the prompts that a rubric sends for its first example, in order.

    Claims and nuggets come from a model's reply in a real run; here sentences stand in for them.
    A prompt that is sent once per passage is shown for the first.
    """
    item = example_item(rubric.examples[0]) if rubric.examples else _STAND_IN
    if rubric.method == "rating":
        passage = 0 if rubric.asks == "context" else None
        prompt = rating_prompt(rubric, item, passage=passage, few_shot=few_shot)
        return [Preview(f"rate {rubric.asks}", prompt)]
    if rubric.method == "pairwise":
        prompt = pairwise_prompt(rubric, item, few_shot=few_shot)
        other = pairwise_prompt(rubric, item, swapped=True, few_shot=few_shot)
        return [Preview("compare", prompt), Preview("compare, in the other order", other)]
    if rubric.method == "nuggets":
        return _nuggets(rubric, item, few_shot)
    return _claims(rubric, item, few_shot)


def _claims(rubric: Rubric, item: Item, few_shot: bool) -> list[Preview]:
    texts = {
        "answer": item.answer or "",
        "reference": "\n".join(item.references),
        "passages": (item.contexts or [""])[0],
    }
    sides = [side.split("_") for side in FORMULAS[rubric.formula or ""].sides]
    found = []
    for claimant in dict.fromkeys(side[0] for side in sides):
        prompt = claims_prompt(sentences(texts[claimant]), item.question, few_shot=few_shot)
        found.append(Preview(f"split the {claimant} into claims", prompt))
    for claimant, source in sides:
        prompt = verdicts_prompt(
            sentences(texts[claimant]),
            texts[source],
            item.question,
            steps=rubric.own_steps,
            few_shot=few_shot,
        )
        against = "each passage" if source == "passages" else f"the {source}"
        found.append(Preview(f"check the claims of the {claimant} against {against}", prompt))
    return found


def _nuggets(rubric: Rubric, item: Item, few_shot: bool) -> list[Preview]:
    sources = item.references if "reference" in rubric.needs else item.contexts or []
    steps = rubric.own_steps
    making = nuggets_prompt(sources, item.question, steps=steps, few_shot=few_shot)
    facts = [sentence for source in sources for sentence in sentences(source)]
    assigning = assignment_prompt(
        facts, item.answer or "", item.question, steps=steps, few_shot=few_shot
    )
    return [Preview("make nuggets", making), Preview("look for them in the answer", assigning)]
