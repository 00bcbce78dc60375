"""The columns of conversations: earlier turns, tool calls, gold tool calls.

A record may also be a whole conversation, as in ragas (`user_input` is a list of messages) and
deepeval (`turns` without `input`): its last question is the question, what follows the answer, and
its tool calls are those of all turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragbench.data.files.passages import content_id, read_list, read_text
from ragbench.data.files.rows import Entry, parse_json
from ragbench.signature import fingerprint_json
from ragbench.types import Document, Query
from ragbench.types.conversation import (
    Conversation,
    Fail,
    Json,
    ToolCall,
    Turn,
    before_question,
    cut_conversation,
    is_conversation,
    read_tool_calls,
    read_turns,
)


@dataclass(frozen=True, slots=True)
class Talk:
    """What a record says of a conversation, and of tools."""

    turns: tuple[Turn, ...] = ()
    """What was said before the question."""
    standalone: str | None = None
    """The question as the system put it for search, without its context."""
    tool_calls: tuple[ToolCall, ...] | None = None
    """The tools that the system called; None where the file does not say."""
    expected: tuple[ToolCall, ...] | None = None
    """The gold calls; None where there are none, empty where none is right."""
    whole: Conversation | None = None
    """The conversation that the record is, where no column has the question alone."""

    @property
    def contexts(self) -> list[Document] | None:
        """The passages behind the last answer of a whole conversation; None where it has none."""
        texts = () if self.whole is None else self.whole.contexts
        return [Document(content_id(text), text) for text in texts] or None

    def question_id(self, question: str) -> str:
        """Return the id of a question that has none: in another conversation it is another one."""
        if not self.turns:
            return content_id(question)
        return fingerprint_json([question, *(turn.to_dict() for turn in self.turns)])

    def parts(self) -> dict[str, Json]:
        """The values by part, for people."""
        return {
            "turns": [f"{turn.role}: {_shown(turn)}" for turn in self.turns],
            "standalone_question": self.standalone,
            "tool_calls": None if self.tool_calls is None else _lines(self.tool_calls),
            "expected_tool_calls": None if self.expected is None else _lines(self.expected),
        }


def _shown(turn: Turn) -> str:
    """A turn in one line, with the passages and calls that it has."""
    more = [f"{len(turn.contexts)} passages"] if turn.contexts else []
    more += [call.written for call in turn.tool_calls]
    return f"{turn.text} ({', '.join(more)})".strip() if more else turn.text


def _lines(calls: Iterable[ToolCall]) -> list[str]:
    return [
        call.written if call.output is None else f"{call.written} = {call.output}" for call in calls
    ]


@dataclass(frozen=True, slots=True)
class TalkReader:
    """Reads what records say of conversations, by their columns."""

    columns: Mapping[str, str]
    """Part -> column."""
    known: Mapping[str, str]
    """Id -> text of the documents of a corpus."""
    cells: bool
    """Whether the file holds text only, as CSV does."""
    has_calls: bool
    """Whether a row of the file has tool calls: then one without any made none."""

    @classmethod
    def of(
        cls,
        entries: Sequence[Entry],
        columns: Mapping[str, str],
        documents: Sequence[Document],
        *,
        cells: bool,
    ) -> TalkReader:
        """Return the reader of a file."""
        column = columns.get("tool_calls")
        has_calls = any(entry.values.get(column or "") not in (None, "") for entry in entries)
        known = {document.id: document.full_text for document in documents}
        return cls(columns, known, cells, has_calls)

    def read(self, entry: Entry) -> Talk:
        """Read one record."""
        whole = self._whole(entry)
        turns: tuple[Turn, ...] = ()
        if whole is not None:
            turns = whole.turns
        elif "turns" in self.columns:
            question = entry.values.get(self.columns["question"])
            said = self._turns(entry, self.columns["turns"])
            turns = before_question(said, question) if isinstance(question, str) else said
        calls = self._calls(entry, "tool_calls")
        if calls is None and whole is not None:
            calls = whole.all_calls
        standalone = self.columns.get("standalone_question")
        return Talk(
            turns=turns,
            standalone=None
            if standalone is None
            else read_text(entry, standalone, entry.values.get(standalone)) or None,
            tool_calls=() if calls is None and self.has_calls else calls,
            expected=self._calls(entry, "expected_tool_calls"),
            whole=whole,
        )

    def _whole(self, entry: Entry) -> Conversation | None:
        """The conversation that a record is; None where a column has the question alone."""
        column = self.columns.get("question")
        if column is None:
            column = self.columns["turns"]
        else:
            value = entry.values.get(column)
            if self.cells and isinstance(value, str) and value.lstrip().startswith("["):
                value = _json_or_text(value)
            if not is_conversation(value):
                return None
        said = self._turns(entry, column)
        return cut_conversation(said, failing(entry, column))

    def _turns(self, entry: Entry, column: str) -> tuple[Turn, ...]:
        items = read_list(entry, column, cells=self.cells) or []
        return read_turns(items, failing(entry, column), self.known)

    def _calls(self, entry: Entry, part: str) -> tuple[ToolCall, ...] | None:
        column = self.columns.get(part)
        return None if column is None else read_calls(entry, column, cells=self.cells)


def read_calls(entry: Entry, column: str, *, cells: bool) -> tuple[ToolCall, ...] | None:
    """Return the tool calls in a column; None where it has nothing, not even an empty list."""
    items = read_list(entry, column, cells=cells)
    return None if items is None else read_tool_calls(items, failing(entry, column))


def failing(entry: Entry, column: str) -> Fail:
    """Return what makes the error about a column of a record."""

    def fail(found: str, allowed: str) -> Exception:
        return entry.error(f"'{column}': {found}", allowed=allowed)

    return fail


def _json_or_text(cell: str) -> Json:
    """A cell that may be JSON, or a question that begins with a bracket."""
    try:
        return parse_json(cell)
    except ValueError:
        return cell


def talk_notes(
    queries: Iterable[Query], expected: Mapping[str, Sequence[ToolCall]], whole: int
) -> list[str]:
    """Say what a data set has of conversations and tools, a sentence each."""
    lengths = [len(query.turns) for query in queries if query.turns]
    notes = []
    if whole:
        notes.append(
            f"{_count(whole, 'record')} read as a whole conversation: its last question, "
            "what was said before, and the answer; its tool calls are those of all turns"
        )
    if lengths:
        least, most = min(lengths), max(lengths)
        turns = _count(most, "turn") if least == most else f"{least} to {most} turns"
        notes.append(
            f"{_count(len(lengths), 'question')} after {turns}, which judges and chat models get; "
            "retrievers and apps get the question as it stands"
        )
    if expected:
        notes.append(f"gold tool calls: {_count(len(expected), 'question')}")
    return notes


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
