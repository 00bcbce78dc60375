"""Fields of a record: texts, lists, passages with or without ids, earlier turns, tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragbench.data.files.printed_lists import AbbreviatedError, is_printed, read_printed
from ragbench.data.files.rows import NUMBER_ALLOWED, Entry, encode_spaces, parse_json
from ragbench.records.codec import kind
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Document, ToolCall, Turn, conversation
from ragbench.types.conversation import Fail
from ragbench.types.ids import id_text
from ragbench.types.lookups import all_are, index_by_id
from ragbench.types.reasoning import Reasoning

_FIELDS = frozenset({"id", "text", "title", "metadata"})
# keys of the text of a passage: ours, LangChain's, and that of documents in OpenInference
TEXT_KEYS = ("text", "page_content", "content")
# Value of the metadata `kind` of a question without an answer.
UNANSWERABLE_KIND = "unanswerable"
# Metadata that says whether a question has an answer, as public data sets name it -> its value if
# the question has one.
ANSWERABLE = {
    **dict.fromkeys(("answerable", "is_answerable"), True),
    **dict.fromkeys(("is_impossible", "unanswerable", "is_unanswerable"), False),
}
# Text or number of a cell -> its boolean
_BOOLEANS: Mapping[object, bool] = {
    **dict.fromkeys(("true", "yes", "1", 1), True),
    **dict.fromkeys(("false", "no", "0", 0), False),
}


def is_marked_unanswerable(metadata: Mapping[str, object]) -> bool:
    """Return True if the metadata of a question say that it has no answer.

    Example:
        >>> is_marked_unanswerable({"answerable": False}), is_marked_unanswerable({"answerable": 0})
        (True, False)
    """
    # `is`: the text "false" or 0 says nothing
    marks = (metadata.get(name) is (not value) for name, value in ANSWERABLE.items())
    return any(marks) or metadata.get("kind") == UNANSWERABLE_KIND


def content_id(text: str) -> str:
    """Return the id of a question or passage without one: a hash of its text.

    It has 12 hexadecimal digits and is the same in all runs; an empty text has one too.
    """
    return fingerprint([text])


def read_boolean(entry: Entry, column: str, value: object, *, cells: bool) -> object:
    """Return the boolean that a text or number stands for: True for `TRUE`, `Yes` and 1.

    The case of a text does not matter. A blank text and None give None. Other values come back as
    they are, unless `cells` is True.

    Args:
        entry: Row of the value, for the message.
        column: Name of its column, for the message.
        value: The value.
        cells: True for files that hold text only, such as CSV.

    Raises:
        DataError: With `cells`, the value is none of these words.
    """
    word = value.strip().lower() if isinstance(value, str) else value
    if word in ("", None):
        return None
    if isinstance(word, (str, int, float)) and word in _BOOLEANS:
        return _BOOLEANS[word]
    if cells:
        problem = f"column '{column}' has '{value}'"
        raise entry.error(problem, allowed="true, false, yes, no, 1, 0, or an empty cell")
    return value


def read_text(entry: Entry, column: str, value: Any) -> str | None:
    """Return a text, a whole number as its digits, or None for null.

    Text comes back as it is, also an empty one. pandas makes 1932 of a column with an empty cell
    the float 1932.0, which is whole.

    Raises:
        DataError: the value is something else, also another float, True or False; names the column.
    """
    # beyond 2**53 a float is no longer exact
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or isinstance(value, str):
        return value
    is_float = isinstance(value, float)
    allowed = f"text, such as '{value}' or with the digits that it had" if is_float else "text"
    raise entry.error(f"column '{column}' is {kind(value)}", allowed=allowed)


def read_list(entry: Entry, column: str, *, ordered: bool = False) -> list[Any] | None:
    """Return the items of a column: those of a list, or a single value as one item; None for null.

    A missing column counts as null. An empty list stays empty; NaN is one item. The items of a set
    are sorted. A text in brackets that JSON, Python or NumPy prints for a list of texts or objects
    is that list. In files that hold text only, such as CSV, an empty cell gives None; elsewhere an
    empty text is one item.

    Args:
        entry: The row.
        column: Its column.
        ordered: Refuse a set, which has no order.

    Raises:
        DataError: A printed list is abbreviated, a cell of CSV begins with `[` and cannot be
            parsed, or an ordered one is a set.
    """
    value = entry.values.get(column)
    if isinstance(value, str):
        if entry.is_text and not value.strip():
            return None
        value = _printed_items(entry, column, value)
    if isinstance(value, (set, frozenset)):
        if ordered:
            raise entry.error(f"column '{column}': a set has no order", allowed="a list")
        value = sorted(value, key=str)
    if value is None:
        return None
    return [*value] if isinstance(value, (list, tuple)) else [value]


def _printed_items(entry: Entry, column: str, text: str) -> Any:
    """Return the list, set or object of answers that a text prints; the text itself for another."""
    cell = text.strip()
    if not is_printed(cell):
        return text
    is_strict = entry.is_text and cell[0] == "["
    try:
        items = read_printed(cell)
    except ValueError as error:
        if is_strict or isinstance(error, AbbreviatedError):
            allowed = 'a list in a cell is JSON: ["first", "second"]'
            raise entry.error(f"column '{column}': {error}", allowed=allowed) from error
        return text
    if isinstance(items, dict):
        # as SQuAD has it; another object is a text, such as a gold answer in JSON
        return items if isinstance(items.get("text"), (list, str)) else text
    is_known = all_are(items, (str, dict))
    return items if is_strict or is_known else text


def parse_cell(entry: Entry, column: str, cell: str, allowed: str) -> Any:
    """Return the value in a text: JSON, or a list or object as Python or NumPy prints it.

    Raises:
        DataError: The text is neither; `allowed` says in the message what a cell may hold.
    """
    try:
        return read_printed(cell)
    except ValueError as error:
        raise entry.error(f"column '{column}': {error}", allowed=allowed) from error


def read_texts(entry: Entry, column: str) -> list[str] | None:
    """Return the texts of a column; None if it is null or missing.

    An item may be an object with `text`, and the whole column one with a list of texts, as in
    SQuAD. A whole number becomes its digits. An empty list gives [].

    Raises:
        DataError: An item is neither, is null, or, in CSV, no text; or a cell in brackets
            cannot be parsed.
    """
    items = read_list(entry, column)
    if items is None:
        return None
    texts = []
    if len(items) == 1 and isinstance(items[0], dict) and isinstance(items[0].get("text"), list):
        items = items[0]["text"]  # as SQuAD has it: {"text": [...], "answer_start": [...]}
    for position, item in enumerate(items, start=1):
        value = item.get("text") if isinstance(item, dict) else item
        # in a CSV cell, [0, 1] is more likely an interval than two answers
        is_text = isinstance(value, str) if entry.is_text else value is not None
        text = read_text(entry, column, value) if is_text else None
        if text is None:
            problem = f"column '{column}': item {position} is {kind(item)}"
            raise entry.error(problem, allowed="text, or an object with text")
        texts.append(text)
    return texts


def passage_ids(entries: Iterable[Entry], column: str) -> set[str]:
    """Return the ids of the passages in a column, as they are written; empty without any.

    Raises:
        DataError: A cell is an abbreviated or a wrong list.
    """
    ids: set[str] = set()
    for entry in entries:
        items = read_list(entry, column) or ()
        for item in items:
            if isinstance(item, Mapping):
                ids.add(text_of_item(item))
    return ids - {""}


def text_of_item(item: Any) -> str:
    """Return the id that an item of a list is, or that its `id` is; '' for an item without one."""
    try:
        return id_text(item.get("id") if isinstance(item, Mapping) else item).strip()
    except ValueError:
        return ""


class Passages:
    """Reader of passages, which finds documents of the corpus by their ids or their texts.

    `read(row, column)` returns the passages of a row, None for null, and raises a DataError for a
    passage in another form. An id alone gets the text of its document, a text alone the id of its
    document; a passage with both keeps both. Ids and texts are compared as they are written, also
    their case. An empty text is a passage. Without documents every passage stands for itself.
    """

    def __init__(self, documents: Sequence[Document] = ()) -> None:
        self._documents, self._by_id = documents, index_by_id(documents)

    @cached_property
    def _by_text(self) -> dict[str, Document]:
        """Text, without its title and with it -> first document that has it."""
        by_text: dict[str, Document] = {}
        for document in self._documents:
            for text in (document.text, document.full_text):
                by_text.setdefault(text, document)
        return by_text

    def read(self, entry: Entry, column: str) -> list[Document] | None:
        """Return the passages in a column, in its order; None if it is null or missing.

        An empty list gives []. In CSV, an empty cell gives None, as in `read_list`.

        Raises:
            DataError: A passage has neither text nor id, a field has the wrong kind, or a list
                cannot be parsed.
        """
        items = read_list(entry, column, ordered=True)
        if items is None:
            return None
        passages = []
        for position, item in enumerate(items, start=1):
            passages.append(self._passage(entry, f"column '{column}': passage {position}", item))
        return passages

    def by_id(self, name: str) -> Document:
        """Return the document of an id; one without text if the corpus lacks it."""
        return self._by_id.get(name) or Document(name, "")

    def _passage(self, entry: Entry, place: str, item: Any) -> Document:
        """Return a passage with its own text, or the text of the corpus document with its id."""
        if isinstance(item, str):
            return self._by_text.get(item) or Document(content_id(item), item)
        if not isinstance(item, dict):
            allowed = "text, or an object with id and text"
            raise entry.error(f"{place} is {kind(item)}", allowed=allowed)
        text_key = next((key for key in TEXT_KEYS if item.get(key) is not None), "text")
        text, title, name = item.get(text_key), item.get("title"), item.get("id")
        for key, value in ((text_key, text), ("title", title)):
            if value is not None and not isinstance(value, str):
                raise entry.error(f"{place}: '{key}' is {kind(value)}", allowed="text")
        if name is not None:
            name = _passage_id(entry, place, name)
        if text is None:
            if name is not None and name in self._by_id:
                return self._by_id[name]
            raise entry.error(f"{place} has no text", allowed="text, or the id of a document")
        if name is None:
            document = self._by_text.get(text)
            name = content_id(text) if document is None else document.id
        metadata = {}
        for key, value in item.items():
            if key not in {*_FIELDS, text_key}:
                metadata[key] = value
        if isinstance(item.get("metadata"), dict):
            metadata |= item["metadata"]
        return Document(name, text, title or "", metadata)


def _passage_id(entry: Entry, place: str, name: Any) -> str:
    """Return the id of a passage as run files write it."""
    # ids from databases are numbers
    try:
        text = id_text(name)
    except ValueError as error:
        raise entry.error(f"{place}: 'id' is {name!r}", allowed=NUMBER_ALLOWED) from error
    if not text.strip():
        raise entry.error(f"{place}: 'id' is {text!r}", allowed="text or an integer")
    # run files are split at white space
    return encode_spaces(text)


@dataclass(frozen=True, slots=True)
class Chat:
    """Fields of a record about a conversation and tools, as `ChatReader.read` returns them.

    `question_id(question)` returns the id of a question without one.

    Attributes:
        turns: The turns before the question.
        standalone: The question as the system reworded it for search, without its context; None
            without one.
        tool_calls: The tools that the system called; None where the file does not say.
        expected: The gold calls; None where there are none, empty if no call is right.
        whole: The conversation, in records without a column for the question alone; else None.
    """

    turns: tuple[Turn, ...] = ()
    standalone: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    expected: tuple[ToolCall, ...] | None = None
    whole: conversation.Conversation | None = None

    @property
    def contexts(self) -> list[Document] | None:
        """Passages behind the last answer of a whole conversation."""
        texts = () if self.whole is None else self.whole.contexts
        return [Document(content_id(text), text) for text in texts] or None

    def question_id(self, question: str) -> str:
        """Return the id of a question without one; a hash of its text and its earlier turns."""
        if not self.turns:
            return content_id(question)
        return fingerprint_json([question, *(turn.to_dict() for turn in self.turns)])


class ChatReader:
    """Reader of the conversation and the tool calls of each row, by the columns of a file.

    It is created with all rows, since a row without calls made none if another row has some.
    `read(row)` returns a `Chat`, and raises a DataError for turns or calls of another form.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        columns: Mapping[str, str],
        documents: Sequence[Document],
        reasoning: Reasoning,
    ) -> None:
        """Look through the rows for tool calls.

        Args:
            entries: All rows of the file.
            columns: Part -> column, of `question` or `turns` at least.
            documents: The corpus, in which passages of a turn are found by id; may be empty.
            reasoning: True if reasoning is cut from the turns of the assistant.
        """
        self._reasoning: Reasoning = reasoning
        self._columns, self._documents = columns, index_by_id(documents)
        # if some row has tool calls, an empty cell means that the system made none
        self._has_calls = False
        if column := columns.get("tool_calls"):
            self._has_calls = any(entry.has(column) for entry in entries)

    def read(self, entry: Entry) -> Chat:
        """Return the conversation and the tool calls of one row.

        Without a value in the column of tool calls, a whole conversation has the calls of all its
        turns; any other row has () if some row of the file has a value there, else None. Without
        columns of a conversation, all fields are empty or None.

        Raises:
            DataError: Turns, calls or the reworded question have another form than the readers
                take, or a whole conversation has no question.
        """
        whole = self._whole(entry)
        turns: tuple[Turn, ...] = ()
        if whole is not None:
            turns = whole.turns
        elif "turns" in self._columns:
            question = entry.values.get(self._columns["question"])
            turns = self._turns(entry, self._columns["turns"])
            if isinstance(question, str):
                turns = conversation.before_question(turns, question)
        calls = self._calls(entry, "tool_calls")
        if calls is None and whole is not None:
            calls = whole.all_calls
        column = self._columns.get("standalone_question")
        standalone = None if column is None else read_text(entry, column, entry.values.get(column))
        return Chat(
            turns=turns,
            standalone=standalone or None,
            tool_calls=() if calls is None and self._has_calls else calls,
            expected=self._calls(entry, "expected_tool_calls"),
            whole=whole,
        )

    def _whole(self, entry: Entry) -> conversation.Conversation | None:
        """Return the conversation that a row consists of; None if the question is a plain text."""
        column = self._columns.get("question")
        if column is None:
            column = self._columns["turns"]
        else:
            value = entry.values.get(column)
            if entry.is_text and isinstance(value, str) and value.lstrip().startswith("["):
                with suppress(ValueError):  # else a question that begins with a bracket
                    value = parse_json(value)
            if not conversation.is_conversation(value):
                return None
        return conversation.cut_conversation(self._turns(entry, column), error_maker(entry, column))

    def _turns(self, entry: Entry, column: str) -> tuple[Turn, ...]:
        """Return the turns in a column, oldest first; () for null."""
        items = read_list(entry, column) or []
        return conversation.read_turns(
            items, error_maker(entry, column), self._documents, self._reasoning
        )

    def _calls(self, entry: Entry, part: str) -> tuple[ToolCall, ...] | None:
        """Return the calls in the column of a part; None without the column or a value."""
        column = self._columns.get(part)
        return None if column is None else read_calls(entry, column)


def read_calls(entry: Entry, column: str) -> tuple[ToolCall, ...] | None:
    """Return the tool calls in a column.

    The result is None where it is missing, null or, in CSV, an empty cell; () for an empty list. A
    text is the name of a tool.

    Raises:
        DataError: The column holds something else, or a cell in brackets cannot be parsed.
    """
    items = read_list(entry, column)
    return (
        None if items is None else conversation.read_tool_calls(items, error_maker(entry, column))
    )


def error_maker(entry: Entry, column: str) -> Fail:
    """Return a function of (found, allowed) that creates the error about a column of a row.

    The function returns the error and does not raise it.
    """
    return lambda problem, allowed: entry.error(f"'{column}': {problem}", allowed=allowed)


def counted(n: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural.

    A final y becomes ies; all other nouns get an s.

    Example:
        >>> counted(1, "query"), counted(2, "query"), counted(0, "topic")
        ('1 query', '2 queries', '0 topics')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{n} {noun if n == 1 else plural}"
