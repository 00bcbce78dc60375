"""What was said before a question, and the tools that were called, however it is written down.

Read are messages as OpenAI, LangChain, ragas (`type: human`) and deepeval (`retrieval_context`,
`tools_called`) write them, and exchanges `{question, answer, contexts}`. What is none of these is
refused with its place; nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal

from ragbench.json_yaml import load_json
from ragbench.types.json_fields import MayHoldSecrets, Prose, optional

# Who speaks.
Role = Literal["user", "assistant", "system"]
# A value as a file or a service has it: looked at before it is believed.
Json = Any
# An object of JSON: a message, the arguments of a call.
Entries = Mapping[str, Json]
# Makes the error of what was found and what is allowed; the caller knows the place.
Fail = Callable[[str, str], Exception]

_ROLES: Mapping[str, Role | Literal["tool"]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_QUESTIONS = ("question", "user_input", "input")
_ANSWERS = ("answer", "response", "actual_output")
_CONTEXTS = ("contexts", "retrieved_contexts", "retrieval_context")
_CALLS = ("tool_calls", "tools_called")
_ARGUMENTS = ("arguments", "args", "input_parameters", "inputParameters", "input")
_OUTPUTS = ("output", "result")
_TEXTS = ("text", "page_content", "content", "context")

TURNS_ALLOWED = (
    "messages {role: user or assistant, content}, or exchanges {question, answer, contexts}"
)
CALLS_ALLOWED = "a list of {name, arguments, output}"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        name: The tool.
        arguments: Argument -> value, as JSON has it; one that is null counts as not given.
        output: What it returned, anything but text as JSON; None where that is not known.
    """

    name: Prose
    arguments: Annotated[Entries, MayHoldSecrets] = field(default_factory=dict)
    output: Prose | None = optional()

    @property
    def written(self) -> str:
        """The call in one line.

        Example:
            >>> ToolCall("weather", {"city": "Paris"}).written
            'weather({"city": "Paris"})'
        """
        return f"{self.name}({json.dumps(self.arguments, ensure_ascii=False, default=str)})"

    def to_dict(self) -> dict[str, Json]:
        """Return a JSON-ready mapping, without an unknown output."""
        output = {} if self.output is None else {"output": self.output}
        return {"name": self.name, "arguments": dict(self.arguments), **output}


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said until the other one spoke: several messages in a row are one turn.

    Attributes:
        role: Who said it.
        text: What was said; empty where the assistant only called tools.
        contexts: The passages that were retrieved for it.
        tool_calls: The tools that were called for it.
    """

    role: Role
    text: str
    contexts: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()

    def to_dict(self) -> dict[str, Json]:
        """Return a JSON-ready mapping, without what it does not have."""
        turn: dict[str, Json] = {"role": self.role, "content": self.text}
        if self.contexts:
            turn["contexts"] = list(self.contexts)
        if self.tool_calls:
            turn["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return turn


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole conversation, cut before its last question.

    Attributes:
        turns: What was said before the question.
        question: What the user said last.
        answer: What the assistant said to that; None where it said nothing and called nothing.
        contexts: The passages that were retrieved for the answer.
        tool_calls: The tools that were called for the answer.
    """

    turns: tuple[Turn, ...]
    question: str
    answer: str | None
    contexts: tuple[str, ...]
    tool_calls: tuple[ToolCall, ...]

    @property
    def all_calls(self) -> tuple[ToolCall, ...]:
        """The calls of all turns, in order."""
        return (*(call for turn in self.turns for call in turn.tool_calls), *self.tool_calls)


@dataclass(slots=True)
class _Draft:
    """A turn whose messages are still being read.

    Attributes:
        ids: The id of each call, by which a message of a tool names it.
    """

    role: Role
    texts: list[str] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    ids: list[object] = field(default_factory=list)

    def returned(self, message: Entries, output: str) -> None:
        """Note what a tool returned: for the call it names, else the first without an output."""
        identifier = message.get("tool_call_id")
        for row, call in enumerate(self.calls):
            if call.output is None if identifier is None else self.ids[row] == identifier:
                self.calls[row] = ToolCall(call.name, call.arguments, output)
                return
        # a history that begins in the middle: the output is known, the call is not
        self.calls.append(ToolCall(str(message.get("name") or "unknown"), {}, output))
        self.ids.append(identifier)

    def done(self) -> Turn:
        text = "\n\n".join(text for text in self.texts if text.strip())
        return Turn(self.role, text, tuple(self.contexts), tuple(self.calls))


def read_turns(
    value: Json, fail: Fail, known: Mapping[str, Json] = MappingProxyType({})
) -> tuple[Turn, ...]:
    """Read turns from a list of messages or of exchanges; `known` has documents by id.

    Example:
        >>> said = [
        ...     {"role": "user", "content": "Weather in Paris?"},
        ...     {"role": "assistant", "tool_calls": [{"name": "weather", "args": {"at": "Paris"}}]},
        ...     {"role": "tool", "content": "18 degrees"},
        ...     {"role": "assistant", "content": "It is 18 degrees."},
        ... ]
        >>> question, answer = read_turns(said, lambda found, allowed: ValueError(found))
        >>> answer.text, answer.tool_calls[0].output
        ('It is 18 degrees.', '18 degrees')
    """
    return _Reader(fail, known).turns(value)


def read_tool_calls(value: Json, fail: Fail) -> tuple[ToolCall, ...]:
    """Read a list of calls: mappings of the usual forms, or names of tools.

    Example:
        >>> call = {"function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
        >>> read_tool_calls([call, "clock"], lambda found, allowed: ValueError(found))[0].arguments
        {'city': 'Paris'}
    """
    return tuple(call for _, call in _Reader(fail, {}).calls(value))


def cut_conversation(turns: Sequence[Turn], fail: Fail) -> Conversation:
    """Cut a whole conversation before its last question."""
    asked = [at for at, turn in enumerate(turns) if turn.role == "user"]
    if not asked:
        raise fail("no message of a user", "a conversation with a question")
    last = asked[-1]
    after = turns[last + 1 :]
    said = [turn for turn in after if turn.role == "assistant"]
    return Conversation(
        turns=tuple(turns[:last]),
        question=turns[last].text,
        answer="\n\n".join(turn.text for turn in said if turn.text) if said else None,
        contexts=tuple(text for turn in said for text in turn.contexts),
        tool_calls=tuple(call for turn in said for call in turn.tool_calls),
    )


def before_question(turns: Sequence[Turn], question: str) -> tuple[Turn, ...]:
    """Return the turns before a question that may stand at their end itself, answered or not."""
    for length in (1, 2):
        last = turns[-length] if len(turns) >= length else None
        # counted from the start, as turns[-0:] are all of them
        answered = [turn.role for turn in turns[len(turns) - length + 1 :]]
        is_asked = last is not None and last.role == "user" and last.text == question.strip()
        if is_asked and answered in ([], ["assistant"]):
            return tuple(turns[:-length])
    return tuple(turns)


def is_conversation(value: Json) -> bool:
    """Return True if a value is a list of messages, and no text of a question."""
    messages = value if isinstance(value, (list, tuple)) else ()
    return bool(messages) and all(isinstance(_plain(item), Mapping) for item in messages)


class _Reader:
    """Reads one value; knows where it stands by `fail`."""

    def __init__(self, fail: Fail, documents: Mapping[str, Json]) -> None:
        self._fail, self._documents = fail, documents

    def turns(self, value: Json) -> tuple[Turn, ...]:
        if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
            raise self._fail(_kind(value), TURNS_ALLOWED)
        drafts: list[_Draft] = []
        for number, item in enumerate(value, start=1):
            if isinstance(item, Turn):
                contexts, calls = list(item.contexts), list(item.tool_calls)
                none: list[object] = [None] * len(calls)
                drafts.append(_Draft(item.role, [item.text], contexts, calls, none))
                continue
            message = _plain(item)
            if not isinstance(message, Mapping):
                raise self._fail(f"turn {number} is {_kind(item)}", TURNS_ALLOWED)
            self._read(message, f"turn {number}", drafts)
        return tuple(draft.done() for draft in drafts)

    def calls(self, value: Json) -> list[tuple[object, ToolCall]]:
        if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
            raise self._fail(_kind(value), CALLS_ALLOWED)
        return [self._call(item, f"call {number}") for number, item in enumerate(value, start=1)]

    def _read(self, message: Entries, place: str, drafts: list[_Draft]) -> None:
        label = message.get("role", message.get("type"))
        question = _first(message, _QUESTIONS)
        if question is not None and "role" not in message and label not in _ROLES:
            self._add("user", {"content": question}, place, drafts)
            answer = _first(message, _ANSWERS)
            if answer is not None or _first(message, _CALLS):
                self._add("assistant", {**message, "content": answer}, place, drafts)
            return
        role = _ROLES.get(label) if isinstance(label, str) else None
        if role is None:
            reason = f"{place} has {'no role' if label is None else f'role {label!r}'}"
            raise self._fail(reason, TURNS_ALLOWED)
        if role == "tool":
            if not drafts or drafts[-1].role != "assistant":
                drafts.append(_Draft("assistant"))
            drafts[-1].returned(message, self._text(message.get("content"), place))
        else:
            self._add(role, message, place, drafts)

    def _add(self, role: Role, message: Entries, place: str, drafts: list[_Draft]) -> None:
        if not drafts or drafts[-1].role != role:
            drafts.append(_Draft(role))
        draft = drafts[-1]
        draft.texts.append(self._text(message.get("content"), place))
        passages = _first(message, _CONTEXTS)
        if isinstance(passages, (str, Mapping)):
            raise self._fail(f"{place}: contexts are {_kind(passages)}", "a list of passages")
        draft.contexts += [self._passage(each, place) for each in passages or ()]
        calls = _first(message, _CALLS)
        if calls is None and message.get("function_call"):
            calls = [message["function_call"]]
        if calls is not None and not isinstance(calls, (list, tuple)):
            raise self._fail(f"{place}: tool calls are {_kind(calls)}", CALLS_ALLOWED)
        for number, item in enumerate(calls or (), start=1):
            name, call = self._call(item, f"{place}: call {number}")
            draft.ids.append(name)
            draft.calls.append(call)

    def _text(self, content: Json, place: str) -> str:
        """Return the text of a message, which may be a list of parts."""
        if content is None or isinstance(content, str):
            return (content or "").strip()
        parts = [_plain(part) for part in content] if isinstance(content, (list, tuple)) else []
        texts = [
            part if isinstance(part, str) else part.get("text", f"[{part.get('type')}]")
            for part in parts
            if isinstance(part, (str, Mapping))
        ]
        if not parts or len(texts) < len(parts) or not all(isinstance(t, str) for t in texts):
            raise self._fail(f"{place}: content is {_kind(content)}", "text, or parts with text")
        return "\n".join(texts).strip()

    def _passage(self, item: Json, place: str) -> str:
        passage = _plain(item)
        if isinstance(passage, Mapping):
            title, text = passage.get("title"), _first(passage, _TEXTS)
            if text is None and isinstance(passage.get("id"), str):
                passage = self._documents.get(passage["id"])
            else:
                passage = f"{title} {text}" if isinstance(title, str) and title and text else text
        passage = getattr(passage, "full_text", passage)
        if not isinstance(passage, str):
            raise self._fail(f"{place}: a passage is {_kind(item)}", "text, or {id, text}")
        return passage

    def _call(self, item: Json, place: str) -> tuple[object, ToolCall]:
        if isinstance(item, ToolCall):
            return None, item
        call = _plain(item)
        if isinstance(call, str) and call.strip():
            return None, ToolCall(call.strip())
        if not isinstance(call, Mapping):
            raise self._fail(f"{place} is {_kind(item)}", CALLS_ALLOWED)
        function = call.get("function")
        parts = {**call, **function} if isinstance(function, Mapping) else call
        name = parts.get("name")
        if not isinstance(name, str) or not name.strip():
            raise self._fail(f"{place} has no name", CALLS_ALLOWED)
        arguments = self._arguments(_first(parts, _ARGUMENTS), f"{place} ({name})")
        output = _first(parts, _OUTPUTS)
        if output is not None and not isinstance(output, str):
            output = json.dumps(output, ensure_ascii=False, default=str)
        return call.get("id"), ToolCall(name.strip(), arguments, output)

    def _arguments(self, value: Json, place: str) -> dict[str, Json]:
        allowed = "arguments as a mapping, or as the text of a JSON object"
        if isinstance(value, str):
            try:
                value = load_json(value) if value.strip() else {}
            except ValueError as error:
                raise self._fail(f"{place}: arguments are no JSON: {error}", allowed) from error
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise self._fail(f"{place}: arguments are {_kind(value)}", allowed)
        return _without_nulls(value)


def _without_nulls(value: Entries) -> dict[str, Json]:
    """Return a mapping without nulls: Parquet fills the arguments of every call up with them."""
    return {
        key: _without_nulls(inner) if isinstance(inner, Mapping) else inner
        for key, inner in value.items()
        if inner is not None
    }


def _plain(item: Json) -> Json:
    """Return a message of another package (pydantic's) as a mapping."""
    dump = getattr(item, "model_dump", None)
    return dump() if callable(dump) else item


def _first(values: Entries, names: Sequence[str]) -> Json:
    """Return the value under the first of several names that has one."""
    return next((values[name] for name in names if values.get(name) is not None), None)


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return f"an object with {', '.join(map(str, value)) or 'nothing'}"
    return {"list": "a list", "str": "text"}.get(name := type(value).__name__, name)
