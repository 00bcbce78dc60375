"""Prompts: the requests that a judge by a language model sends, and the shape of its replies.

Each builder returns one request. A system text holds the rubric and nothing that is judged; a user
text holds the judged texts, fenced. Nothing is shortened: a text that is too long for a model is
for its server to refuse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from ragbench.llm import Unreadable
from ragbench.score.judge.base import NEEDS, JudgedItem, Rubric
from ragbench.score.judge.grounding import Cell
from ragbench.score.judge.methods.templates import (
    Material,
    format_example,
    system_text,
    user_text,
    worked_examples,
)
from ragbench.score.judge.published import SUPPORT_LEVELS
from ragbench.types.conversation import Turn
from ragbench.types.records import ASSIGNMENTS, IMPORTANCES
from ragbench.types.scores import Ruling

_JUDGED = {
    "answer": "the answer",
    "context": "the passage",
    "query": "the set of queries",
    "conversation": "the conversation",
}
# A JSON Schema.
_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_TEXTS: _Schema = {"type": "array", "items": _TEXT}
_OUTCOMES = ("A", "B", "tie")
# Verdict on a claim -> the least number of passages that can give it.
_LEAST = {"supported": 1, "supported_together": 2, "contradicted": 1, "not_mentioned": 0}


@dataclass(frozen=True)
class JudgePrompt:
    """One request to a language model.

    Attributes:
        system: What to do; the same for every item.
        user: What is judged, fenced, and the request.
        schema: The JSON Schema of the reply: every key required, no other allowed, reasons first.
        check: Refuses, as `Unreadable`, a value that fits the schema and cannot be meant.
    """

    system: str
    user: str
    schema: Mapping[str, Any]
    check: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class Prompts:
    """Build the requests by which a model applies a rubric to an item.

    All rubrics of a method share templates and worked examples, but for ratings and comparisons:
    equal prompts are sent once. The question stands first, after the turns before it: it helps to
    resolve what is said in a few words, and is no evidence.
    """

    rubric: Rubric
    item: JudgedItem
    few_shot: bool = True

    def rating(self, passage: int | None = None) -> JudgePrompt:
        """Ask for a level of the rubric, after the reasoning.

        `passage` is the one that is rated, counted from 0, for a rubric that asks of a context.

        Example:
            >>> from ragbench.score.judge.rubric import load_rubric
            >>> prompt = Prompts(load_rubric("fluency"), JudgedItem(answer="It are red.")).rating()
            >>> "It are red." in prompt.user, prompt.schema["properties"]["level"]["enum"]
            (True, [1, 2, 3, 4, 5])
        """
        rubric, levels = self.rubric, [*range(1, self.rubric.levels + 1)]
        rated = 0 if rubric.asks == "context" else None
        examples = [
            format_example(
                number,
                _material(rubric, example_item(example), rated),
                {"reasoning": example["reasoning"], "level": example["level"]},
            )
            for number, example in enumerate(rubric.examples if self.few_shot else (), start=1)
        ]
        words = {"rubric": rubric, "judged": _JUDGED[rubric.asks]}
        return JudgePrompt(
            system_text("rating", examples=examples, **words),
            user_text("rating", _material(rubric, self.item, passage), **words),
            record({"reasoning": _TEXT, "level": {"type": "integer", "enum": levels}}),
        )

    def pairwise(self, *, swapped: bool = False) -> JudgePrompt:
        """Ask which of two answers is better: A or B, or a tie.

        Ask twice, in both orders: a judge that contradicts itself has not told them apart. Swapped,
        the other answer is A.
        """
        rubric = self.rubric
        examples = [
            format_example(
                number,
                _pair(rubric, example_item(example), swapped=False),
                {"reasoning": example["reasoning"], "outcome": _outcome(rubric, example["level"])},
            )
            for number, example in enumerate(rubric.examples if self.few_shot else (), start=1)
        ]
        return JudgePrompt(
            system_text("pairwise", rubric=rubric, examples=examples),
            user_text("pairwise", _pair(rubric, self.item, swapped=swapped), rubric=rubric),
            record({"reasoning": _TEXT, "outcome": _word(_OUTCOMES)}),
        )

    def claims(self, sentences: Sequence[str]) -> JudgePrompt:
        """Ask for the claims of each sentence of a text, an answer or a reference alike."""
        material, n = self.item.question_messages + numbered("sentence", sentences), len(sentences)
        schema = record(dict.fromkeys(_keys("sentence", n), _TEXTS))
        return self._of_step("claims", material, schema, count=n)

    def verdicts(self, claims: Sequence[str], source: str) -> JudgePrompt:
        """Ask for a verdict of one source on each claim.

        A source is a reference, an answer, or a passage that is read by itself.
        """
        before = [*self.item.question_messages, ("source", source)]
        return self._verdicts("verdicts", "claim", claims, get_args(Ruling), before)

    def passages(self, claims: Sequence[str], passages: Sequence[str]) -> JudgePrompt:
        """Ask for a verdict of passages, read together, on each claim, and which of them give it.

        In the reply the passages are numbered from 1, those of this request.
        """
        material = (
            self.item.question_messages + numbered("passage", passages) + numbered("claim", claims)
        )
        verdict = {"reason": _TEXT, "passages": _several({"type": "integer"})}
        shape = record({**verdict, "verdict": _word(get_args(Cell))})
        schema = record(dict.fromkeys(_keys("claim", len(claims)), shape))
        counts = {"count": len(claims), "passages": len(passages)}
        prompt = self._of_step("passages", material, schema, **counts)
        return replace(prompt, check=functools.partial(_check_passages, passages))

    def nuggets(self, sources: Sequence[str]) -> JudgePrompt:
        """Ask for the facts that a good answer has, vital or okay, from gold answers or passages.

        References:
            Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
        """
        nugget = record({"nugget": _TEXT, "importance": _word(IMPORTANCES)})
        material = self.item.question_messages + numbered("source", sources)
        return self._of_step("nuggets", material, record({"nuggets": _several(nugget)}))

    def assignment(self, nuggets: Sequence[str]) -> JudgePrompt:
        """Ask how far the answer has each nugget; the model does not see which ones are vital."""
        before = [*self.item.question_messages, ("answer", self.item.answer or "")]
        return self._verdicts("assignment", "nugget", nuggets, ASSIGNMENTS, before)

    def support(self, statements: Sequence[str], passage: str) -> JudgePrompt:
        """Ask how far a passage supports each statement that cites it."""
        before = [*self.item.question_messages, ("passage", passage)]
        return self._verdicts("support", "statement", statements, SUPPORT_LEVELS, before)

    def intentions(self) -> JudgePrompt:
        """Ask for all intentions of the user, each once."""
        schema = record({"intentions": _TEXTS})
        return self._of_step("intentions", self._conversation(), schema)

    def satisfaction(self, intentions: Sequence[str]) -> JudgePrompt:
        """Ask for each intention whether the conversation satisfies it."""
        words = ("satisfied", "not_satisfied")
        return self._verdicts("satisfaction", "intention", intentions, words, self._conversation())

    def facts(self) -> JudgePrompt:
        """Ask for the facts in each message of the user that have to be remembered."""
        messages = enumerate(messages_of(self.item), start=1)
        keys = [f"turn_{number}" for number, turn in messages if turn.role == "user"]
        schema = record(dict.fromkeys(keys, _TEXTS))
        return self._of_step("facts", self._conversation(), schema, keys=keys)

    def retention(self, facts: Mapping[int, Sequence[str]], answers: Sequence[int]) -> JudgePrompt:
        """Ask of some messages of the assistant whether they lose facts that the user told before.

        `facts` has the facts of each message of the user, by its number from 1; `answers` the
        numbers of the messages that are judged.
        """
        material = self._conversation()
        for turn, texts in facts.items():
            material += numbered(f"told-in-turn-{turn}", texts)
        keys = [f"turn_{turn}" for turn in answers]
        schema = _verdict_schema(keys, ("retained", "lost"))
        return self._of_step("retention", material, schema, keys=keys)

    def _verdicts(
        self, step: str, label: str, texts: Sequence[str], verdicts: Sequence[str], before: Material
    ) -> JudgePrompt:
        """Return the prompt of a step that asks for one verdict on each of several texts.

        `label` names a text in the prompt and in the keys of the reply, `verdicts` are the words
        that the reply may use, and `before` is the material that precedes the texts.
        """
        schema = _verdict_schema(_keys(label, len(texts)), verdicts)
        material = [*before, *numbered(label, texts)]
        return self._of_step(step, material, schema, count=len(texts))

    def _of_step(
        self, step: str, material: Material, schema: Mapping[str, Any], **words: object
    ) -> JudgePrompt:
        """Ask by the templates and worked examples of a step; `words` are for the user's part."""
        examples = worked_examples(step) if self.few_shot else []
        system = system_text(step, steps=self.rubric.own_steps, examples=examples)
        return JudgePrompt(system, user_text(step, material, **words), schema)

    def _conversation(self) -> list[tuple[str, str]]:
        """Every message under its number and speaker, tools after the message that called them."""
        material: list[tuple[str, str]] = []
        for number, message in enumerate(messages_of(self.item), start=1):
            if message.text or message.role == "user":
                material.append((f"turn-{number}-{message.role}", message.text))
            for call_number, call in enumerate(message.tool_calls, start=1):
                output = "" if call.output is None else f"\n{call.output}"
                label = f"turn-{number}-tool-{call_number}"
                material.append((label, f"{call.written}{output}"))
        return material


def ragas_prompt(step: str, material: Material) -> JudgePrompt:
    """Ask for a part of a metric of ragas; the keys of the reply are those of ragas."""
    text, mark = _TEXT, {"type": "integer", "enum": [0, 1]}
    statement = {"statement": text, "reason": text}
    shapes: Mapping[str, _Schema] = {
        "question": {"question": text, "noncommittal": mark},
        "statements": {"statements": _TEXTS},
        "inference": {"statements": _several(record({**statement, "verdict": mark}))},
        "usefulness": {"reason": text, "verdict": mark},
        "attribution": {"classifications": _several(record({**statement, "attributed": mark}))},
        "classification": {key: _several(record(statement)) for key in ("TP", "FP", "FN")},
    }
    system = system_text("ragas", asked=step)
    return JudgePrompt(system, user_text("ragas", material), record(shapes[step]))


def _check_passages(passages: Sequence[str], value: Any) -> None:
    """Refuse numbers of passages that do not go with a verdict: they cannot be understood.

    A claim that is not mentioned may have passages beside it: they are not counted.
    """
    for claim, entry in value.items():
        numbers, verdict = entry["passages"], entry["verdict"]
        for number in numbers:
            if not 1 <= number <= len(passages):
                allowed = f"there are passages 1 to {len(passages)}"
                raise Unreadable(f"{claim} names passage {number}, and {allowed}")
            if not passages[number - 1].strip() and verdict != "not_mentioned":
                raise Unreadable(f"{claim} names passage {number}, which is empty")
        if len(set(numbers)) < len(numbers):
            raise Unreadable(f"{claim} names a passage twice: {numbers}")
        if len(numbers) < _LEAST[verdict]:
            expected = f"at least {_LEAST[verdict]}"
            raise Unreadable(f"{claim} is {verdict} by passages {numbers}, expected {expected}")


def messages_of(item: JudgedItem) -> list[Turn]:
    """Return the whole conversation: the earlier turns, the question and the answer.

    The calls of an answer that is judged as the end of a whole conversation may be those of all
    its turns: those of the earlier turns are not repeated.
    """
    earlier = [call for turn in item.turns for call in turn.tool_calls]
    calls = tuple(call for call in item.tool_calls or () if call not in earlier)
    answer = Turn("assistant", item.answer or "", tool_calls=calls)
    return [*item.turns, Turn("user", item.question or ""), answer]


def example_item(example: Mapping[str, Any]) -> JudgedItem:
    """Return an example of a rubric file as an item."""
    parts = {key: value for key, value in example.items() if key in NEEDS and key != "reference"}
    return JudgedItem(**parts, references=[example["reference"]] if "reference" in example else [])


def _material(rubric: Rubric, item: JudgedItem, passage: int | None) -> list[tuple[str, str]]:
    """The parts of an item that a rubric needs, in the order of `NEEDS`."""
    contexts = numbered("passage", item.contexts or [])
    parts: Mapping[str, list[tuple[str, str]]] = {
        "question": item.question_messages,  # with the turns before it
        "guidelines": numbered("guideline", item.guidelines),
        "contexts": contexts if passage is None else [("passage", contexts[passage][1])],
        "reference": numbered("reference", item.references),
        "queries": numbered("query", item.queries or []),
        "answer": [] if item.answer is None else [("answer", item.answer)],
        "other": [] if item.other is None else [("other", item.other)],
    }
    return [part for need in NEEDS if need in rubric.needs for part in parts.get(need, ())]


def _pair(rubric: Rubric, item: JudgedItem, *, swapped: bool) -> Material:
    """The material of a rubric with its two answers as A and B."""
    labels = ("answer-B", "answer-A") if swapped else ("answer-A", "answer-B")
    names = dict(zip(("answer", "other"), labels, strict=True))
    material = [(names.get(label, label), text) for label, text in _material(rubric, item, None)]
    # a stable sort: what is not an answer stays in front, then A, then B
    return sorted(material, key=lambda pair: pair[0] if pair[0].startswith("answer-") else "")


def _outcome(rubric: Rubric, level: int) -> str:
    """An example's level as an outcome for its answer, which is A."""
    score = rubric.score_of(level)
    return "tie" if score == 1 / 2 else "A" if score > 1 / 2 else "B"


def numbered(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return texts as material, with numbers from 1 behind the label."""
    return [(f"{label}-{number}", text) for number, text in enumerate(texts, start=1)]


def _keys(label: str, count: int) -> list[str]:
    return [f"{label}_{number}" for number in range(1, count + 1)]


def _word(allowed: Sequence[str]) -> _Schema:
    return {"type": "string", "enum": [*allowed]}


def _several(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _verdict_schema(keys: Sequence[str], allowed: Sequence[str]) -> _Schema:
    """Return the schema of one verdict per key; a reply cannot omit or repeat a key."""
    return record(dict.fromkeys(keys, record({"reason": _TEXT, "verdict": _word(allowed)})))


def record(properties: Mapping[str, Any]) -> _Schema:
    """Return the schema of an object with these keys, in this order, and no other."""
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*properties],
        "additionalProperties": False,
    }
