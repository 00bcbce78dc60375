"""Methods `intentions` and `retention`: what a user wanted and told, and what became of it.

Both first let the model list things, then ask for one verdict each, in one request. Messages are
fenced one by one, so that no message can pretend to be another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.methods import prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.score.judge.methods.templates import Material
from ragbench.types.conversation import Turn
from ragbench.types.scores import Cause, Verdict

if TYPE_CHECKING:
    from typing_extensions import Unpack

SATISFACTIONS = ("satisfied", "not_satisfied")
"""What became of an intention."""
RETENTIONS = ("retained", "lost")
"""What a message of the assistant does with what the user had told."""
_TEXTS = {"type": "array", "items": {"type": "string"}}


def messages_of(item: Item) -> list[Turn]:
    """Return the whole conversation: the earlier turns, the question and the answer.

    The calls of an answer that is judged as the end of a whole conversation may be those of all
    its turns: those of the earlier turns are not repeated.
    """
    before = [call for turn in item.turns for call in turn.tool_calls]
    calls = tuple(call for call in item.tool_calls or () if call not in before)
    asked, said = item.question or "", item.answer or ""
    return [*item.turns, Turn("user", asked), Turn("assistant", said, tool_calls=calls)]


async def count_satisfied(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Return the share of the user's intentions that the conversation satisfies.

    References:
        deepeval, Conversation Completeness.
    """
    messages, shown = messages_of(item), log.shown(rubric)
    listed = await log.ask(intentions_prompt(messages, **shown))
    wanted = [text for text in listed.value["intentions"] if text.strip()]
    if not wanted:
        return not_applicable(Cause.NO_CLAIMS, "the user wanted nothing that could be satisfied")
    reply = await log.ask(satisfaction_prompt(messages, wanted, **shown))
    found = [reply.value[f"intention_{n}"] for n in range(1, len(wanted) + 1)]
    lines = [
        f"intention {n}: {each['verdict']} ({each['reason']}): {text}"
        for n, (each, text) in enumerate(zip(found, wanted, strict=True), start=1)
    ]
    score = sum(each["verdict"] == "satisfied" for each in found) / len(found)
    return Verdict(score, reasoning="\n".join(lines))


async def count_retained(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Return the share of the assistant's turns that lose nothing of what the user told before.

    Counted are the turns that say something, and before which the user had told something.

    References:
        deepeval, Knowledge Retention.
    """
    messages, shown = messages_of(item), log.shown(rubric)
    told = await log.ask(facts_prompt(messages, **shown))
    facts: dict[int, list[str]] = {}
    for at, message in enumerate(messages):
        said = told.value.get(_key(at)) if message.role == "user" else None
        if known := [text for text in said or () if text.strip()]:
            facts[at] = known
    # without a fact no message comes after the first one
    first = min(facts, default=len(messages))
    answers = [
        at
        for at, message in enumerate(messages)
        if message.role == "assistant" and message.text and at > first
    ]
    if not answers:
        return not_applicable(Cause.NO_CLAIMS, "the user told nothing that had to be remembered")
    reply = await log.ask(retention_prompt(messages, facts, answers, **shown))
    found = {at: reply.value[_key(at)] for at in answers}
    lines = [f"turn {at + 1}: {each['verdict']} ({each['reason']})" for at, each in found.items()]
    lines += [f"told in turn {at + 1}: {text}" for at, known in facts.items() for text in known]
    score = sum(each["verdict"] == "retained" for each in found.values()) / len(found)
    return Verdict(score, reasoning="\n".join(lines))


def intentions_prompt(messages: Sequence[Turn], **shown: Unpack[prompt.Shown]) -> prompt.Prompt:
    """Ask for all that the user wanted, each once."""
    schema = prompt.record({"intentions": _TEXTS})
    return prompt.of_step("intentions", _material(messages), schema, **shown)


def satisfaction_prompt(
    messages: Sequence[Turn], intentions: Sequence[str], **shown: Unpack[prompt.Shown]
) -> prompt.Prompt:
    """Ask for each intention whether the conversation satisfies it."""
    material, n = [*_material(messages), *prompt.numbered("intention", intentions)], len(intentions)
    schema = prompt.verdicts("intention", n, SATISFACTIONS)
    return prompt.of_step("satisfaction", material, schema, count=n, **shown)


def facts_prompt(messages: Sequence[Turn], **shown: Unpack[prompt.Shown]) -> prompt.Prompt:
    """Ask for what each message of the user tells that has to be remembered."""
    keys = [_key(at) for at, message in enumerate(messages) if message.role == "user"]
    schema = prompt.record(dict.fromkeys(keys, _TEXTS))
    return prompt.of_step("facts", _material(messages), schema, keys=keys, **shown)


def retention_prompt(
    messages: Sequence[Turn],
    facts: Mapping[int, Sequence[str]],
    answers: Sequence[int],
    **shown: Unpack[prompt.Shown],
) -> prompt.Prompt:
    """Ask of some messages of the assistant whether they lose what the user had told before.

    `facts` are those that each message of the user tells, by its place from 0; `answers` the places
    of the messages that are judged.
    """
    known = [
        (f"told-in-turn-{at + 1}-{number}", text)
        for at, texts in facts.items()
        for number, text in enumerate(texts, start=1)
    ]
    keys = [_key(at) for at in answers]
    material, schema = [*_material(messages), *known], prompt.verdicts_of(keys, RETENTIONS)
    return prompt.of_step("retention", material, schema, keys=keys, **shown)


def _key(at: int) -> str:
    return f"turn_{at + 1}"


def _material(messages: Sequence[Turn]) -> Material:
    """Every message under its number and speaker, tools after the message that called them."""
    found: list[tuple[str, str]] = []
    for number, message in enumerate(messages, start=1):
        if message.text or message.role == "user":
            found.append((f"turn-{number}-{message.role}", message.text))
        for call_number, call in enumerate(message.tool_calls, start=1):
            output = "" if call.output is None else f"\n{call.output}"
            found.append((f"turn-{number}-tool-{call_number}", f"{call.written}{output}"))
    return found
