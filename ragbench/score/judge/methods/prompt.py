"""Prompts of judges by language models, and the JSON schemas of the replies.

Each builder returns one prompt. The system text holds the rubric and no judged text; the user text
holds the judged texts in fences. No text is cut: the server refuses what is too long for a model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, get_args

from ragbench.llm import Unreadable
from ragbench.score.judge.base import NEEDS, JudgedItem, Rubric
from ragbench.score.judge.grounding import Cell
from ragbench.score.judge.methods import templates
from ragbench.score.judge.published import SUPPORT_LEVELS
from ragbench.score.judge.rubric import level_words
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
# Verdict on a claim -> least number of passages that it needs.
_LEAST = {"supported": 1, "supported_together": 2, "contradicted": 1, "not_mentioned": 0}


@dataclass(frozen=True)
class JudgePrompt:
    """System text, user text and reply schema of one request to a judge; `Prompts` makes it.

    Attributes:
        system: Instructions, the same for every item.
        user: Judged texts in fences, and the request.
        schema: JSON Schema of the reply: all keys required, no other allowed, reasons first.
        check: Function that raises `Unreadable` for a reply that fits the schema but makes no
            sense; None: any reply that fits.
        reading: Schema by which the reply is read, with words that a model may write in place of a
            number; None: `schema`, which is sent.
    """

    system: str
    user: str
    schema: Mapping[str, Any]
    check: Callable[[Any], None] | None = None
    reading: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Prompts:
    """Builder of the prompts by which a model applies a rubric to an item.

    Rubrics of one method share templates and worked examples, except for ratings and comparisons,
    so that equal prompts can be sent once. Earlier turns and the question come first: they help to
    understand short answers, and are no evidence. Each method returns the `JudgePrompt` of one
    request; nothing is sent. An item that lacks a part gives a prompt without it.

    Attributes:
        rubric: Rubric to apply.
        item: Item to judge.
        few_shot: True if prompts show examples.
    """

    rubric: Rubric
    item: JudgedItem
    few_shot: bool = True

    def rating(self, passage: int | None = None) -> JudgePrompt:
        """Return the prompt for reasoning and level of a rubric.

        `passage` is the number from 0 of the rated passage, for a rubric on passages; else None.
        The reply has `reasoning` and `level`; the name of a level is read as its number.

        Example:
            >>> from ragbench.score.judge.rubric import load_rubric
            >>> prompt = Prompts(load_rubric("fluency"), JudgedItem(answer="It are red.")).rating()
            >>> "It are red." in prompt.user, prompt.schema["properties"]["level"]["enum"]
            (True, [1, 2, 3, 4, 5])
        """
        rubric, levels = self.rubric, [*range(1, self.rubric.levels + 1)]
        # an example of a rubric on passages has one passage
        rated = 0 if rubric.asks == "context" else None
        examples = []
        for number, example in enumerate(rubric.examples if self.few_shot else (), start=1):
            examples.append(
                templates.format_example(
                    number,
                    _material(rubric, example_item(example), rated),
                    {"reasoning": example["reasoning"], "level": example["level"]},
                )
            )
        words = {"rubric": rubric, "judged": _JUDGED[rubric.asks]}
        level = {"type": "integer", "enum": levels}
        return JudgePrompt(
            templates.system_text("rating", examples=examples, **words),
            templates.user_text("rating", _material(rubric, self.item, passage), **words),
            record({"reasoning": _TEXT, "level": level}),
            reading=record({"reasoning": _TEXT, "level": {**level, "words": level_words(rubric)}}),
        )

    def pairwise(self, *, swapped: bool = False) -> JudgePrompt:
        """Return the prompt, with the texts of the item, for the better answer: A, B or a tie.

        The reply has `reasoning` and `outcome`. Callers ask in both orders, since a model that
        contradicts itself cannot tell the answers apart.

        Args:
            swapped: True shows the item's `other` as answer A and its `answer` as answer B; False
                the reverse.
        """
        rubric = self.rubric
        examples = []
        for number, example in enumerate(rubric.examples if self.few_shot else (), start=1):
            examples.append(
                templates.format_example(
                    number,
                    _pair(rubric, example_item(example), swapped=False),
                    {
                        "reasoning": example["reasoning"],
                        "outcome": _outcome(rubric, example["level"]),
                    },
                )
            )
        return JudgePrompt(
            templates.system_text("pairwise", rubric=rubric, examples=examples),
            templates.user_text(
                "pairwise", _pair(rubric, self.item, swapped=swapped), rubric=rubric
            ),
            record({"reasoning": _TEXT, "outcome": _word(_OUTCOMES)}),
        )

    def claims(self, sentences: Sequence[str]) -> JudgePrompt:
        """Return the prompt that asks for the claims of each of the sentences.

        It shows the earlier turns, the question and the numbered sentences. The reply maps
        `sentence_1`, `sentence_2` ... to a list of claims, which may be empty.

        Args:
            sentences: Sentences in the order of the text; the caller skips the request without any.
        """
        material, n = self.item.question_messages + numbered("sentence", sentences), len(sentences)
        schema = record(dict.fromkeys(_keys("sentence", n), _TEXTS))
        return self._of_step("claims", material, schema, count=n)

    def verdicts(self, claims: Sequence[str], source: str) -> JudgePrompt:
        """Return the prompt for the verdict of one source on each claim.

        The source is a reference, an answer, or a single passage. The reply maps `claim_1`,
        `claim_2` ... to `reason` and `verdict`: supported, contradicted or not_mentioned.
        """
        preamble = [*self.item.question_messages, ("source", source)]
        return self._verdicts("verdicts", "claim", claims, get_args(Ruling), preamble)

    def passages(self, claims: Sequence[str], passages: Sequence[str]) -> JudgePrompt:
        """Return the prompt for the verdict of several passages on each claim, with their numbers.

        The reply maps `claim_1`, `claim_2` ... to `reason`, `passages` (numbers from 1 in this
        request) and `verdict`: supported, supported_together, contradicted or not_mentioned.
        `check` of the prompt raises `Unreadable` for impossible numbers.
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
        """Return the prompt for the nuggets, vital or okay, of gold answers or passages.

        The reply has `nuggets`, a list: `nugget` and `importance` (vital or okay) each. `sources`
        are the texts, numbered in the prompt.

        References:
            Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
        """
        nugget = record({"nugget": _TEXT, "importance": _word(IMPORTANCES)})
        material = self.item.question_messages + numbered("source", sources)
        return self._of_step("nuggets", material, record({"nuggets": _several(nugget)}))

    def assignment(self, nuggets: Sequence[str]) -> JudgePrompt:
        """Return the prompt for the support of each nugget by the answer, without importances.

        The reply maps `nugget_1`, `nugget_2` ... to `reason` and `verdict`: support,
        partial_support or not_support.
        """
        preamble = [*self.item.question_messages, ("answer", self.item.answer or "")]
        return self._verdicts("assignment", "nugget", nuggets, ASSIGNMENTS, preamble)

    def support(self, statements: Sequence[str], passage: str) -> JudgePrompt:
        """Return the prompt for the support of each statement by the passage that it cites.

        The reply maps `statement_1`, `statement_2` ... to `reason` and `verdict`: full_support,
        partial_support or no_support.
        """
        preamble = [*self.item.question_messages, ("passage", passage)]
        return self._verdicts("support", "statement", statements, SUPPORT_LEVELS, preamble)

    def intentions(self) -> JudgePrompt:
        """Return the prompt for the distinct intentions of the user in the conversation.

        The reply has `intentions`, a list of texts, which may be empty.
        """
        schema = record({"intentions": _TEXTS})
        return self._of_step("intentions", self._conversation(), schema)

    def satisfaction(self, intentions: Sequence[str]) -> JudgePrompt:
        """Return the prompt for a verdict on each intention: satisfied or not_satisfied.

        The reply maps `intention_1`, `intention_2` ... to `reason` and `verdict`.
        """
        words = ("satisfied", "not_satisfied")
        return self._verdicts("satisfaction", "intention", intentions, words, self._conversation())

    def facts(self) -> JudgePrompt:
        """Return the prompt for the facts to remember in each message of the user.

        The reply maps `turn_1`, `turn_3` ... to a list of facts: a key for each message of the
        user, numbered from 1 among all messages, the question included.
        """
        messages = enumerate(messages_of(self.item), start=1)
        keys = []
        for number, turn in messages:
            if turn.role == "user":
                keys.append(f"turn_{number}")
        schema = record(dict.fromkeys(keys, _TEXTS))
        return self._of_step("facts", self._conversation(), schema, keys=keys)

    def retention(self, facts: Mapping[int, Sequence[str]], answers: Sequence[int]) -> JudgePrompt:
        """Return the prompt for a verdict on messages of the assistant: retained or lost.

        `facts` maps the number of a user's message, from 1, to its facts; `answers` are the numbers
        of the judged messages. A message is lost if it asks for an earlier fact, contradicts it,
        or overlooks it. The reply maps a key `turn_2` for each of `answers` to `reason` and
        `verdict`. Messages are numbered from 1 among all messages.
        """
        material = self._conversation()
        for turn, texts in facts.items():
            material += numbered(f"told-in-turn-{turn}", texts)
        keys = [f"turn_{turn}" for turn in answers]
        schema = _verdict_schema(keys, ("retained", "lost"))
        return self._of_step("retention", material, schema, keys=keys)

    def _verdicts(
        self,
        step: str,
        label: str,
        texts: Sequence[str],
        verdicts: Sequence[str],
        preamble: templates.Material,
    ) -> JudgePrompt:
        """Return the prompt of a step that asks for one verdict on each of several texts."""
        schema = _verdict_schema(_keys(label, len(texts)), verdicts)
        material = [*preamble, *numbered(label, texts)]
        return self._of_step(step, material, schema, count=len(texts))

    def _of_step(
        self, step: str, material: templates.Material, schema: Mapping[str, Any], **words: object
    ) -> JudgePrompt:
        """Return the prompt of a step from its templates and worked examples."""
        examples = templates.worked_examples(step) if self.few_shot else []
        system = templates.system_text(step, steps=self.rubric.own_steps, examples=examples)
        return JudgePrompt(system, templates.user_text(step, material, **words), schema)

    def _conversation(self) -> list[tuple[str, str]]:
        """Return label and text of all messages; tool outputs follow the message that called."""
        # Labels are `turn-1-user` and `turn-2-tool-1`; the question and the answer come last.
        material: list[tuple[str, str]] = []
        for number, message in enumerate(messages_of(self.item), start=1):
            # a message of the assistant may consist of tool calls alone
            if message.text or message.role == "user":
                material.append((f"turn-{number}-{message.role}", message.text))
            for call_number, call in enumerate(message.tool_calls, start=1):
                output = "" if call.output is None else f"\n{call.output}"
                label = f"turn-{number}-tool-{call_number}"
                material.append((label, f"{call.written}{output}"))
        return material


def ragas_prompt(step: str, material: templates.Material) -> JudgePrompt:
    """Return the prompt of one step of a metric of ragas, with the reply keys of ragas.

    `material` is label and text of the fenced parts. Steps are question, statements, inference,
    usefulness, attribution and classification; an unknown step raises KeyError.
    """
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
    system = templates.system_text("ragas", asked=step)
    return JudgePrompt(system, templates.user_text("ragas", material), record(shapes[step]))


def _check_passages(passages: Sequence[str], value: Any) -> None:
    """Check the passage numbers of a reply against its verdicts."""
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
    """Return all messages of a conversation: earlier turns, question and answer.

    Tool calls of the answer that an earlier turn has already are dropped, since records of whole
    conversations list the calls of all turns with the answer. A missing question or answer is an
    empty message: the last two are always those of `user` and `assistant`.
    """
    earlier = list(chain.from_iterable(turn.tool_calls for turn in item.turns))
    calls = tuple(call for call in item.tool_calls or () if call not in earlier)
    answer = Turn("assistant", item.answer or "", tool_calls=calls)
    return [*item.turns, Turn("user", item.question or ""), answer]


def example_item(example: Mapping[str, Any]) -> JudgedItem:
    """Return an example of a rubric file as an item; keys that are no part of it are dropped.

    A reference becomes a list of one.
    """
    parts = {}
    for key, value in example.items():
        if key in NEEDS and key != "reference":
            parts[key] = value
    return JudgedItem(**parts, references=[example["reference"]] if "reference" in example else [])


def _material(rubric: Rubric, item: JudgedItem, passage: int | None) -> list[tuple[str, str]]:
    """Return label and text of the parts that a rubric needs, in the order of `NEEDS`."""
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
    material: list[tuple[str, str]] = []
    for need in NEEDS:
        if need in rubric.needs:
            material.extend(parts.get(need, ()))
    return material


def _pair(rubric: Rubric, item: JudgedItem, *, swapped: bool) -> templates.Material:
    """Return the material of a comparison; `swapped` exchanges the labels A and B."""
    labels = ("answer-B", "answer-A") if swapped else ("answer-A", "answer-B")
    names = dict(zip(("answer", "other"), labels, strict=True))
    material = []
    for label, text in _material(rubric, item, None):
        material.append((names.get(label, label), text))
    # a stable sort: other parts stay in front, then answer A, then answer B
    return sorted(material, key=lambda pair: pair[0] if pair[0].startswith("answer-") else "")


def _outcome(rubric: Rubric, level: int) -> str:
    """Return the outcome of an example whose answer A has this level: A, B or tie."""
    score = rubric.score_of(level)
    if score == 1 / 2:
        return "tie"
    return "A" if score > 1 / 2 else "B"


def numbered(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return label and text of each text, with numbers from 1: `claim-1`, `claim-2`."""
    return [(f"{label}-{number}", text) for number, text in enumerate(texts, start=1)]


def _keys(label: str, count: int) -> list[str]:
    return [f"{label}_{number}" for number in range(1, count + 1)]


def _word(allowed: Sequence[str]) -> _Schema:
    return {"type": "string", "enum": [*allowed]}


def _several(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _verdict_schema(keys: Sequence[str], allowed: Sequence[str]) -> _Schema:
    """Return the schema of one verdict per key: `reason`, and `verdict`, a word of `allowed`."""
    return record(dict.fromkeys(keys, record({"reason": _TEXT, "verdict": _word(allowed)})))


def record(properties: Mapping[str, Any]) -> _Schema:
    """Return the JSON Schema of an object with exactly these keys, in this order.

    `properties` maps a key to the schema of its value. Other keys are not allowed.
    """
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*properties],
        "additionalProperties": False,
    }
