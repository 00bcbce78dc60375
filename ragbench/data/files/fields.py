"""The fields of a record: texts, lists, passages with or without ids, earlier turns, tool calls."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragbench.data.files.rows import Entry, encode_spaces, parse_json
from ragbench.records.codec import kind
from ragbench.signature import fingerprint, fingerprint_json
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
from ragbench.types.packed_documents import by_id_of

_FIELDS = frozenset({"id", "text", "title", "metadata"})
# Where an object has its text: our name, LangChain's, and that of OpenInference's documents.
_TEXT_KEYS = ("text", "page_content", "content")


def content_id(text: str) -> str:
    """Return the id of a question or passage that has none: a hash of its text."""
    return fingerprint([text])


def read_text(entry: Entry, column: str, value: Any) -> str | None:
    """Return a text, an integer as its digits, or None for null."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or isinstance(value, str):
        return value
    raise entry.error(f"column '{column}' is {kind(value)}", allowed="text")


def read_list(entry: Entry, column: str, *, cells: bool) -> list[Any] | None:
    """Return the items of a column: those of a list, or a single value as one item.

    With `cells` the file holds text only, as CSV does: a list is written as JSON, or as Python and
    NumPy print it, and an empty cell is nothing.
    """
    value = entry.values.get(column)
    if cells and isinstance(value, str):
        if not value.strip():
            return None
        if value.lstrip().startswith("["):
            allowed = 'a list in a CSV cell is JSON: ["first", "second"]'
            value = parse_cell(entry, column, value, allowed)
    if value is None:
        return None
    return value if isinstance(value, list) else [value]


def parse_cell(entry: Entry, column: str, cell: str, allowed: str) -> Any:
    """Read what a text holds as JSON, or as Python or NumPy print a list."""
    try:
        return parse_json(cell)
    except ValueError as error:
        if (found := read_printed_list(cell)) is not None:
            return found
        raise entry.error(f"column '{column}': {error}", allowed=allowed) from error


def read_printed_list(cell: str) -> list[Any] | None:
    """Read a list as Python or NumPy prints it, as tables that pandas wrote hold it; else None.

    Example:
        >>> read_printed_list("['a', 'b']"), read_printed_list("['a' 'b']"), read_printed_list("[a")
        (['a', 'b'], ['a', 'b'], None)
    """
    try:
        found = ast.literal_eval(cell.strip())
        tokens = list(tokenize.generate_tokens(io.StringIO(cell.strip()).readline))
    except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
        return None
    if not isinstance(found, list):
        return None
    # NumPy writes no commas, and Python would join such texts to one
    texts = [token.string for token in tokens if token.type == tokenize.STRING]
    if all(isinstance(item, str) for item in found) and len(texts) != len(found):
        return [ast.literal_eval(text) for text in texts]
    return found


def read_texts(entry: Entry, column: str, *, cells: bool) -> list[str] | None:
    """Return the texts of a column; an item may be an object with `text`, as in SQuAD."""
    items = read_list(entry, column, cells=cells)
    if items is None:
        return None
    texts = []
    if len(items) == 1 and isinstance(items[0], dict) and isinstance(items[0].get("text"), list):
        items = items[0]["text"]  # as SQuAD has it: {"text": [...], "answer_start": [...]}
    for position, item in enumerate(items, start=1):
        value = item.get("text") if isinstance(item, dict) else item
        # in a CSV cell, [0, 1] is more likely an interval than two answers
        known = isinstance(value, str) if cells else value is not None
        text = read_text(entry, column, value) if known else None
        if text is None:
            found = f"column '{column}': item {position} is {kind(item)}"
            raise entry.error(found, allowed="text, or an object with text")
        texts.append(text)
    return texts


class Passages:
    """Reads passages, and knows the corpus that they may come from."""

    def __init__(self, documents: Sequence[Document] = ()) -> None:
        self._documents, self._by_id = documents, by_id_of(documents)

    @cached_property
    def _row_of(self) -> dict[int, int]:
        """Hash of a text, without the title and with it -> row of the first document that has it.

        Hashes, since the texts of a packed corpus are not in memory.
        """
        rows: dict[int, int] = {}
        for row, document in enumerate(self._documents):
            for text in (document.text, document.full_text):
                rows.setdefault(hash(text), row)
        return rows

    def _with_text(self, text: str) -> Document | None:
        row = self._row_of.get(hash(text))
        document = None if row is None else self._documents[row]
        has_text = document is not None and text in (document.text, document.full_text)
        return document if has_text else None

    def read(self, entry: Entry, column: str, *, cells: bool) -> list[Document] | None:
        """Return the passages of a record, best first; None where it has none."""
        items = read_list(entry, column, cells=cells)
        if items is None:
            return None
        return [
            self._passage(entry, f"column '{column}': passage {position}", item)
            for position, item in enumerate(items, start=1)
        ]

    def _passage(self, entry: Entry, place: str, item: Any) -> Document:
        """One passage: its own text, or that of the corpus document which its id names."""
        if isinstance(item, str):
            return self._with_text(item) or Document(content_id(item), item)
        if not isinstance(item, dict):
            allowed = "text, or an object with id and text"
            raise entry.error(f"{place} is {kind(item)}", allowed=allowed)
        key_of_text = next((key for key in _TEXT_KEYS if item.get(key) is not None), "text")
        text, title, name = item.get(key_of_text), item.get("title"), item.get("id")
        for key, value in ((key_of_text, text), ("title", title)):
            if value is not None and not isinstance(value, str):
                raise entry.error(f"{place}: '{key}' is {kind(value)}", allowed="text")
        if isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise entry.error(f"{place}: 'id' is {name!r}", allowed="text or an integer")
        name = None if name is None else encode_spaces(name)
        if text is None:
            if name is not None and name in self._by_id:
                return self._by_id[name]
            raise entry.error(f"{place} has no text", allowed="text, or the id of a document")
        if name is None:
            known = self._with_text(text)
            name = content_id(text) if known is None else known.id
        metadata = {key: value for key, value in item.items() if key not in {*_FIELDS, key_of_text}}
        if isinstance(item.get("metadata"), dict):
            metadata |= item["metadata"]
        return Document(name, text, title or "", metadata)


@dataclass(frozen=True, slots=True)
class Talk:
    """What a record says of a conversation, and of tools.

    Attributes:
        turns: What was said before the question.
        standalone: The question as the system put it for search, without its context.
        tool_calls: The tools that the system called; None where the file does not say.
        expected: The gold calls; None where there are none, empty where none is right.
        whole: The conversation that the record is, where no column has the question alone.
    """

    turns: tuple[Turn, ...] = ()
    standalone: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    expected: tuple[ToolCall, ...] | None = None
    whole: Conversation | None = None

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
            "tool_calls": _lines(self.tool_calls),
            "expected_tool_calls": _lines(self.expected),
        }


def _shown(turn: Turn) -> str:
    """A turn in one line, with the passages and calls that it has."""
    more = [f"{len(turn.contexts)} passages"] if turn.contexts else []
    more += [call.written for call in turn.tool_calls]
    return f"{turn.text} ({', '.join(more)})".strip() if more else turn.text


def _lines(calls: Iterable[ToolCall] | None) -> list[str] | None:
    if calls is None:
        return None
    return [c.written if c.output is None else f"{c.written} = {c.output}" for c in calls]


class TalkReader:
    """Reads what the records of a file say of conversations, by their columns.

    `columns` is part -> column; with `cells` the file holds text only, as CSV does.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        columns: Mapping[str, str],
        documents: Sequence[Document],
        *,
        cells: bool,
    ) -> None:
        self._columns, self._known, self._cells = columns, by_id_of(documents), cells
        column = columns.get("tool_calls", "")
        # then a row without any made none
        self._has_calls = any(entry.values.get(column) not in (None, "") for entry in entries)

    def read(self, entry: Entry) -> Talk:
        """Read one record."""
        whole = self._whole(entry)
        turns: tuple[Turn, ...] = ()
        if whole is not None:
            turns = whole.turns
        elif "turns" in self._columns:
            question = entry.values.get(self._columns["question"])
            turns = self._turns(entry, self._columns["turns"])
            turns = before_question(turns, question) if isinstance(question, str) else turns
        calls = self._calls(entry, "tool_calls")
        if calls is None and whole is not None:
            calls = whole.all_calls
        column = self._columns.get("standalone_question", "")
        return Talk(
            turns=turns,
            standalone=read_text(entry, column, entry.values.get(column)) or None,
            tool_calls=() if calls is None and self._has_calls else calls,
            expected=self._calls(entry, "expected_tool_calls"),
            whole=whole,
        )

    def _whole(self, entry: Entry) -> Conversation | None:
        """The conversation that a record is; None where a column has the question alone."""
        column = self._columns.get("question")
        if column is None:
            column = self._columns["turns"]
        else:
            value = entry.values.get(column)
            if self._cells and isinstance(value, str) and value.lstrip().startswith("["):
                with suppress(ValueError):  # else a question that begins with a bracket
                    value = parse_json(value)
            if not is_conversation(value):
                return None
        return cut_conversation(self._turns(entry, column), failing(entry, column))

    def _turns(self, entry: Entry, column: str) -> tuple[Turn, ...]:
        items = read_list(entry, column, cells=self._cells) or []
        return read_turns(items, failing(entry, column), self._known)

    def _calls(self, entry: Entry, part: str) -> tuple[ToolCall, ...] | None:
        column = self._columns.get(part)
        return None if column is None else read_calls(entry, column, cells=self._cells)


def read_calls(entry: Entry, column: str, *, cells: bool) -> tuple[ToolCall, ...] | None:
    """Return the tool calls in a column; None where it has nothing, not even an empty list."""
    items = read_list(entry, column, cells=cells)
    return None if items is None else read_tool_calls(items, failing(entry, column))


def failing(entry: Entry, column: str) -> Fail:
    """Return a function that makes errors about a column of a record."""
    return lambda found, allowed: entry.error(f"'{column}': {found}", allowed=allowed)


def talk_notes(
    queries: Iterable[Query], expected: Mapping[str, Sequence[ToolCall]], whole: int
) -> list[str]:
    """Say what a data set has of conversations and tools, a sentence each."""
    lengths = [len(query.turns) for query in queries if query.turns]
    notes = []
    if whole:
        notes.append(
            f"{counted(whole, 'record')} read as a whole conversation: its last question, "
            "what was said before, and the answer; its tool calls are those of all turns"
        )
    if lengths:
        least, most = min(lengths), max(lengths)
        turns = counted(most, "turn") if least == most else f"{least} to {most} turns"
        notes.append(
            f"{counted(len(lengths), 'question')} after {turns}, which judges and chat models get; "
            "retrievers and apps get the question as it stands"
        )
    if expected:
        notes.append(f"gold tool calls: {counted(len(expected), 'question')}")
    return notes


def counted(n: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural.

    Example:
        >>> counted(1, "query"), counted(2, "query"), counted(0, "topic")
        ('1 query', '2 queries', '0 topics')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{n} {noun if n == 1 else plural}"
