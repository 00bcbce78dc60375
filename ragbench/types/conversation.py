"""Turns of a conversation and tool calls, read from the forms of several libraries.

The forms are messages of OpenAI, LangChain, ragas (`type: human`) and deepeval
(`retrieval_context`, `tools_called`), and exchanges `{question, answer, contexts}`. Any other form
is an error that names its place; nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeGuard

from ragbench.json_yaml import load_json
from ragbench.types.display import short_repr
from ragbench.types.json_fields import MayHoldSecrets, Prose, Record, optional
from ragbench.types.lookups import all_are
from ragbench.types.reasoning import Reasoning, split_reasoning
from ragbench.types.tables import PARTS

# Speaker of a turn.
Role = Literal["user", "assistant", "system"]
# A JSON value of a file or a service, not yet checked.
Json = Any
# A JSON object: a message, or the arguments of a call.
Entries = Mapping[str, Json]
# Returns the error for a problem and the allowed forms; the caller adds the place.
Fail = Callable[[str, str], Exception]

# Speaker of a turn -> roles of its messages in several libraries; outputs of tools join a turn.
_ROLE_WORDS: Mapping[Role | Literal["tool"], tuple[str, ...]] = {
    "user": ("user", "human"),
    "assistant": ("assistant", "ai", "model", "agent"),
    "system": ("system", "developer"),
    "tool": ("tool", "function"),
}
_ROLE_KEYS = ("role", "type", "speaker")
ROLES: dict[str, Role | Literal["tool"]] = {}
for _role, _words in _ROLE_WORDS.items():
    ROLES |= dict.fromkeys(_words, _role)
_ARGUMENTS = ("arguments", "args", "input_parameters", "inputParameters", "input")
_OUTPUTS = ("output", "result")
_TEXTS = ("text", "page_content", "content", "context")
# Types of the parts of a message that hold reasoning (Anthropic, Magistral, OpenAI).
_REASONING_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})

TURNS_ALLOWED = (
    "messages {role: user or assistant, content}, or exchanges {question, answer, contexts}"
)
CALLS_ALLOWED = "a list of {name, arguments, output}"


class ToolCall(Record, kw_only=False):
    """Call of a tool with its arguments and, if known, its output.

    `read_tool_calls` reads it from other forms; the constructor checks nothing.

    Attributes:
        name: Name of the tool.
        arguments: Value of each argument as in JSON; an argument that is null counts as omitted.
        output: Text that the tool returned, other values as JSON text; None if unknown.
    """

    name: Prose
    arguments: Annotated[Mapping[str, Json], MayHoldSecrets] = {}
    output: Prose | None = optional()

    __repr__ = short_repr

    @property
    def written(self) -> str:
        """Call as one line of text, without its output.

        Example:
            >>> ToolCall("weather", {"city": "Paris"}).written
            'weather({"city": "Paris"})'
        """
        return f"{self.name}({json.dumps(self.arguments, ensure_ascii=False, default=str)})"

    def to_dict(self) -> dict[str, Json]:
        """Return a JSON-ready mapping; an unknown output is left out."""
        output = {} if self.output is None else {"output": self.output}
        return {"name": self.name, "arguments": dict(self.arguments), **output}


@dataclass(frozen=True, slots=True, repr=False)
class Turn:
    """Turn of a conversation: all messages in a row of one speaker.

    `read_turns` reads it from other forms; the constructor checks nothing.

    Attributes:
        role: Speaker of the messages: `user`, `assistant` or `system`.
        text: Text of the messages, separated by blank lines; empty if they only call tools.
        contexts: Passages retrieved for the turn; empty if none are known.
        tool_calls: Tool calls of the turn, in order; empty if none are known.
        reasoning: Reasoning that was cut from the messages; turns are equal without it.
    """

    role: Role
    text: str
    contexts: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = field(default="", compare=False)

    __repr__ = short_repr

    def to_dict(self) -> dict[str, Json]:
        """Return a JSON-ready mapping; empty contexts and tool calls are left out.

        Keys are `role`, `content` (the text), `contexts` and `tool_calls`. Reasoning is left out.
        """
        turn: dict[str, Json] = {"role": self.role, "content": self.text}
        if self.contexts:
            turn["contexts"] = list(self.contexts)
        if self.tool_calls:
            turn["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return turn


def turn_without_reasoning(turn: Turn) -> Turn:
    """Return a turn without the reasoning of the assistant; other turns as they are."""
    if turn.role != "assistant":
        return turn
    reasoning, text = split_reasoning(turn.text)
    # of a turn whose reasoning was cut before, that reasoning stays
    reasoning = "\n\n".join(filter(None, [turn.reasoning, reasoning]))
    return replace(turn, text=text, reasoning=reasoning)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Conversation split into earlier turns, the last question and its answer.

    `cut_conversation` returns it.

    Attributes:
        turns: Turns before the question.
        question: Text of the last turn of the user.
        answer: Text of the assistant's turns after it; None without such a turn, empty if they only
            call tools.
        contexts: Passages retrieved for the answer.
        tool_calls: Tool calls made for the answer.
        reasoning: Reasoning that was cut from the answer; empty if none was.
    """

    turns: tuple[Turn, ...]
    question: str
    answer: str | None
    contexts: tuple[str, ...]
    tool_calls: tuple[ToolCall, ...]
    reasoning: str = ""

    @property
    def all_calls(self) -> tuple[ToolCall, ...]:
        """Tool calls of all turns and of the answer, in order."""
        earlier = chain.from_iterable(turn.tool_calls for turn in self.turns)
        return (*earlier, *self.tool_calls)


@dataclass(slots=True)
class _Draft:
    """Turn under construction, to which further messages are added; `to_turn` returns the turn."""

    role: Role
    texts: list[str] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    # id of each call, to which the output of a tool refers; None for a call without one
    ids: list[object] = field(default_factory=list)
    # reasoning that was cut from each text
    thoughts: list[str] = field(default_factory=list)

    def add_output(self, message: Entries, output: str) -> None:
        """Store the output of a tool in the first call of its id, in place of an earlier output."""
        identifier = message.get("tool_call_id")
        for row, call in enumerate(self.calls):
            # without an id, the output is that of the first call without one
            is_pending = call.output is None
            if is_pending if identifier is None else self.ids[row] == identifier:
                self.calls[row] = ToolCall(call.name, call.arguments, output)
                return
        # A history that begins in the middle has outputs of calls that it does not show.
        self.calls.append(ToolCall(str(message.get("name") or "unknown"), {}, output))
        self.ids.append(identifier)

    def to_turn(self) -> Turn:
        text = "\n\n".join(text for text in self.texts if text.strip())
        thought = "\n\n".join(filter(None, self.thoughts))
        return Turn(self.role, text, tuple(self.contexts), tuple(self.calls), thought)


def read_turns(
    value: Json,
    fail: Fail,
    documents: Entries = MappingProxyType({}),
    reasoning: Reasoning = "cut",
) -> tuple[Turn, ...]:
    """Return the turns of a list of messages, exchanges or pairs; an empty list has none.

    Roles are in lower case, as `user`, `human` or `assistant`; a missing content is an empty text.
    Consecutive messages of one speaker are one turn; a `Turn` in the list begins a new one. The
    output of a tool joins its call in the last turn if that is of the assistant, and else begins a
    turn of the assistant. An exchange without an answer or calls gives the turn of the user alone.
    Messages of the assistant are answers: reasoning is cut from each of them.

    Args:
        value: List as read from a file or passed by a program.
        fail: Returns the error to raise for a form that is not allowed.
        documents: Documents by id, for contexts that name only an id.
        reasoning: `keep` leaves the reasoning in the messages.

    Raises:
        Exception: The error of `fail`, for a value of any other form.

    Example:
        >>> messages = [
        ...     {"role": "user", "content": "Weather in Paris?"},
        ...     {"role": "assistant", "tool_calls": [{"name": "weather", "args": {"at": "Paris"}}]},
        ...     {"role": "tool", "content": "18 degrees"},
        ...     {"role": "assistant", "content": "It is 18 degrees."},
        ... ]
        >>> question, answer = read_turns(messages, lambda problem, allowed: ValueError(problem))
        >>> answer.text, answer.tool_calls[0].output
        ('It is 18 degrees.', '18 degrees')
    """
    return _ConversationReader(fail, documents, reasoning).turns(value)


def read_tool_calls(value: Json, fail: Fail) -> tuple[ToolCall, ...]:
    """Return the tool calls of a list of mappings or of names of tools; an empty list has none.

    Nulls among the arguments are left out, except in a `ToolCall`, which is returned as it is. An
    id is not kept.

    Raises:
        Exception: The error of `fail`, for a value of any other form.

    Example:
        >>> call = {"function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
        >>> calls = read_tool_calls([call, "clock"], lambda problem, allowed: ValueError(problem))
        >>> calls[0].arguments
        {'city': 'Paris'}
    """
    return tuple(call for _, call in _ConversationReader(fail, {}, "keep").calls(value))


def cut_conversation(turns: Sequence[Turn], fail: Fail) -> Conversation:
    """Return a conversation split at the last turn of the user, which is its question.

    Turns of the system after the question are left out. Texts of several turns of the assistant
    after it are joined by blank lines.

    Raises:
        Exception: The error of `fail`, if no turn is of the user.
    """
    user_turns = []
    for number, turn in enumerate(turns):
        if turn.role == "user":
            user_turns.append(number)
    if not user_turns:
        raise fail("no message of a user", "a conversation with a question")
    last = user_turns[-1]
    replies = []
    for turn in turns[last + 1 :]:
        if turn.role == "assistant":
            replies.append(turn)
    texts, contexts, calls, reasoning = list[str](), list[str](), list[ToolCall](), list[str]()
    for turn in replies:
        texts.append(turn.text)
        contexts += turn.contexts
        calls += turn.tool_calls
        reasoning.append(turn.reasoning)
    return Conversation(
        turns=tuple(turns[:last]),
        question=turns[last].text,
        answer="\n\n".join(filter(None, texts)) if replies else None,
        contexts=tuple(contexts),
        tool_calls=tuple(calls),
        reasoning="\n\n".join(filter(None, reasoning)),
    )


def before_question(turns: Sequence[Turn], question: str) -> tuple[Turn, ...]:
    """Return the turns without a final copy of the question and its answer, if there is one.

    Some data sets repeat the question, or question and answer, at the end of the history. The
    question counts as repeated only word for word, without blanks at its ends.
    """
    for length in (1, 2):
        last = turns[-length] if len(turns) >= length else None
        # Counted from the start, since turns[-0:] would be all turns.
        later_roles = []
        for turn in turns[len(turns) - length + 1 :]:
            later_roles.append(turn.role)
        is_asked = last is not None and last.role == "user" and last.text == question.strip()
        if is_asked and later_roles in ([], ["assistant"]):
            return tuple(turns[:-length])
    return tuple(turns)


def is_conversation(value: Json) -> bool:
    """Return True for a list or tuple of mappings or pydantic messages only.

    An empty list is no conversation.
    """
    messages = value if isinstance(value, (list, tuple)) else ()
    return bool(messages) and all(isinstance(_plain(item), Mapping) for item in messages)


def _is_pair(value: object) -> TypeGuard[Sequence[str | None]]:
    """Return True for a question and its answer or None (Gradio), or a role and a text."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return False
    question, answer = value
    return isinstance(question, str) and (answer is None or isinstance(answer, str))


class _ConversationReader:
    """Reader of turns and tool calls; `fail` returns the error with the place of the value."""

    def __init__(self, fail: Fail, documents: Entries, reasoning: Reasoning) -> None:
        self._fail, self._documents, self._reasoning = fail, documents, reasoning

    def turns(self, value: Json) -> tuple[Turn, ...]:
        """Return the turns of a list of messages, exchanges or `Turn` objects; see `read_turns`."""
        drafts: list[_Draft] = []
        for number, item in enumerate(self._list(value, "", TURNS_ALLOWED), start=1):
            if isinstance(item, Turn):
                contexts, calls = list(item.contexts), list(item.tool_calls)
                none: list[object] = [None] * len(calls)
                turn = item if self._reasoning == "keep" else turn_without_reasoning(item)
                draft = _Draft(turn.role, [turn.text], contexts, calls, none, [turn.reasoning])
                drafts.append(draft)
                continue
            message = _plain(item)
            if _is_pair(message):
                keys = ("role", "content") if message[0] in ROLES else ("question", "answer")
                message = dict(zip(keys, message, strict=True))
            if not isinstance(message, Mapping):
                raise self._fail(f"turn {number} is {_kind(item)}", TURNS_ALLOWED)
            self._read(message, f"turn {number}", drafts)
        return tuple(draft.to_turn() for draft in drafts)

    def calls(self, value: Json) -> list[tuple[object, ToolCall]]:
        """Return the id and the call of each entry of a list of tool calls."""
        items = enumerate(self._list(value, "", CALLS_ALLOWED), start=1)
        calls = []
        for number, item in items:
            calls.append(self._call(item, f"call {number}"))
        return calls

    def _list(self, value: Json, place: str, allowed: str) -> list[Json]:
        """Return the items of a list or another iterable; [] for None if `place` is not empty."""
        if value is None and place:
            return []
        if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
            raise self._fail(f"{place or 'found '}{_kind(value)}", allowed)
        return list(value)

    def _read(self, message: Entries, place: str, drafts: list[_Draft]) -> None:
        """Add a message or an exchange to the drafts, as a new turn or to the last one."""
        label = _first(message, _ROLE_KEYS)
        question = _first(message, PARTS["question"].sure)
        if question is not None and "role" not in message and label not in ROLES:
            self._add("user", {"content": question}, place, drafts)
            answer = _first(message, PARTS["answer"].sure)
            if answer is not None or _first(message, PARTS["tool_calls"].sure):
                self._add("assistant", {**message, "content": answer}, place, drafts)
            return
        role = ROLES.get(label) if isinstance(label, str) else None
        if role is None:
            reason = f"{place} has {'no role' if label is None else f'role {label!r}'}"
            raise self._fail(reason, TURNS_ALLOWED)
        if role == "tool":
            if not drafts or drafts[-1].role != "assistant":
                drafts.append(_Draft("assistant"))
            drafts[-1].add_output(message, self._text(message.get("content"), place))
        else:
            self._add(role, message, place, drafts)

    def _add(self, role: Role, message: Entries, place: str, drafts: list[_Draft]) -> None:
        """Add a message to the last draft, or to a new draft if the role changes."""
        if not drafts or drafts[-1].role != role:
            drafts.append(_Draft(role))
        draft = drafts[-1]
        content = message.get("content", message.get("text"))
        self._add_text(self._text(content, place), draft)
        passages = _first(message, PARTS["contexts"].sure)
        passages = self._list(passages, f"{place}: contexts are ", "a list of passages")
        for passage in passages:
            draft.contexts.append(self._passage(passage, place))
        calls = _first(message, PARTS["tool_calls"].sure)
        if calls is None and message.get("function_call"):
            calls = [message["function_call"]]
        calls = self._list(calls, f"{place}: tool calls are ", CALLS_ALLOWED)
        for number, item in enumerate(calls, start=1):
            name, call = self._call(item, f"{place}: call {number}")
            draft.ids.append(name)
            draft.calls.append(call)

    def _add_text(self, text: str, draft: _Draft) -> None:
        """Add the text of a message to a draft; of the assistant, without its reasoning."""
        thought, answer = "", text
        if draft.role == "assistant" and self._reasoning == "cut":
            thought, answer = split_reasoning(text)
        draft.texts.append(answer)
        draft.thoughts.append(thought)

    def _text(self, content: Json, place: str) -> str:
        """Return the text of a message without blanks at its ends; empty for None."""
        if content is None or isinstance(content, str):
            return (content or "").strip()
        parts = content if isinstance(content, (list, tuple)) else ()
        texts: list[str] = []
        for part in map(_plain, parts):
            text = part
            if isinstance(part, Mapping):
                if str(part.get("type")) in _REASONING_PARTS:
                    continue
                text = part.get("text", f"[{part.get('type')}]")  # such as `[image_url]`
            if not isinstance(text, str):
                parts = ()
                break
            texts.append(text)
        if not parts:
            raise self._fail(f"{place}: content is {_kind(content)}", "text, or parts with text")
        return "\n".join(texts).strip()

    def _passage(self, item: Json, place: str) -> str:
        """Return the text of a passage: a text, a mapping with text, or the document of its id."""
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
        """Return the id of a tool call, None without one, and the call."""
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
        """Return the arguments of a call from a mapping or JSON text, without keys of null."""
        allowed = "arguments as a mapping, or as the text of a JSON object"
        if isinstance(value, str):
            try:
                value = load_json(value) if value.strip() else {}
            except ValueError as error:
                raise self._fail(f"{place}: arguments are no JSON: {error}", allowed) from error
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all_are(value, str):
            raise self._fail(f"{place}: arguments are {_kind(value)}", allowed)
        return _without_nulls(value)


def _without_nulls(value: Entries) -> dict[str, Json]:
    """Return a mapping without the keys whose value is null, at all depths but inside lists."""
    # Parquet gives every call the arguments of all calls, with null for those that it lacks.
    present = dict[str, Json]()
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            present[key] = _without_nulls(inner)
        elif inner is not None:
            present[key] = inner
    return present


def _plain(item: Json) -> Json:
    """Return a pydantic message as a mapping, and any other value unchanged."""
    dump = getattr(item, "model_dump", None)
    return dump() if callable(dump) else item


def _first(values: Entries, names: Sequence[str]) -> Json:
    """Return the first value of several keys that is not None; None if all keys lack one."""
    for name in names:
        if values.get(name) is not None:
            return values[name]
    return None


def _kind(value: Json) -> str:
    """Return the words for a value of the wrong form, for messages."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return f"an object with {', '.join(map(str, value)) or 'nothing'}"
    return {"list": "a list", "str": "text"}.get(name := type(value).__name__, name)
