"""Pairs of answers that are compared: `dataset: {type: pairs, path: llmbar.jsonl}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ragbench.data.files.fields import content_id
from ragbench.data.files.rows import Entry, read_rows
from ragbench.data.loaders.base import finish_collection
from ragbench.data.loaders.questions import system_name
from ragbench.errors import DataError
from ragbench.registry import Option, check_allowed
from ragbench.types import Answered, Collection, Query

# Part -> known names of its column: ours, those of LLMBar and of MT-bench.
USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "query_id", "question_id"),
    "question": ("question", "instruction", "prompt", "user_input", "input"),
    "answer_1": ("answer_1", "output_1", "response_1", "answer_a", "response_a", "conversation_a"),
    "answer_2": ("answer_2", "output_2", "response_2", "answer_b", "response_b", "conversation_b"),
    "system_1": ("system_1", "model_1", "system_a", "model_a"),
    "system_2": ("system_2", "model_2", "system_b", "model_b"),
    "turn": ("turn",),
}
# Systems of a file that does not name its systems.
FIRST, SECOND = "answer_1", "answer_2"


@dataclass(frozen=True, slots=True)
class PairRow:
    """Row with two answers to one question.

    Attributes:
        entry: The row in the file, for messages.
        query_id: Id in the file, or a hash of the texts.
        systems: Names of the two systems, fit for file names.
        question: Text of the question.
        answers: Texts of the two answers, in the order of `systems`.
    """

    entry: Entry
    query_id: str
    systems: tuple[str, str]
    question: str
    answers: tuple[str, str]


def read_pairs(path: Path, columns: Mapping[str, str | None] | None = None) -> list[PairRow]:
    """Return the rows of a table with two answers to a question, in order.

    LLMBar has `instruction`, `output_1`, `output_2`. MT-bench has `question_id`, `model_a`,
    `model_b`, `turn` and two conversations, whose messages up to the turn are question and answer.
    A file of one's own has `question`, `answer_1`, `answer_2`, and `system_1`, `system_2` if there
    are several systems. Other columns, such as the winner, are ignored.

    Raises:
        DataError: The file cannot be read or has no rows, a row lacks a column, a question or an
            answer, a cell has another form, or both answers are of one system.
        OptionError: `columns` has a key that is no part.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    check_allowed("pairs", "columns", columns or {}, USUAL_NAMES)
    return [_row(entry, _columns(entry, columns or {})) for entry in read_rows(path, "pairs")]


def _columns(entry: Entry, columns: Mapping[str, str | None]) -> dict[str, str]:
    """Return part -> column of a row: the option `columns` first, then known names.

    The first known name in the row counts; other parts without a column are absent.

    Raises:
        DataError: A named column is missing, or the row has no two answers.
    """
    chosen = {part: column for part, column in columns.items() if column is not None}
    for column in chosen.values():
        entry.field(column)
    for part, names in USUAL_NAMES.items():
        free = [name for name in names if name in entry.values and name not in chosen.values()]
        if part not in columns and free:
            chosen[part] = free[0]
    if not {"answer_1", "answer_2"} <= chosen.keys():
        has = ", ".join(entry.values)
        allowed = "question, answer_1, answer_2"
        raise entry.error(f"no pair of answers (columns: {has})", allowed=allowed)
    return chosen


def _row(entry: Entry, columns: Mapping[str, str]) -> PairRow:
    """Return a row as a pair; the id is a hash of the texts if the file has none.

    Without names the systems are `answer_1` and `answer_2`. From turn 2 on the id ends in `-turn2`.

    Raises:
        DataError: A question or answer is missing, a cell has another form, or both answers are of
            one system.
    """

    def cell(part: str) -> object:
        """Return the value of a part; None without a column."""
        return entry.values.get(columns[part]) if part in columns else None

    turn_text = str(cell("turn") or "")
    turn = int(turn_text) if turn_text.isascii() and turn_text.isdecimal() else None
    chats = (_read_chat(entry, cell(part), turn) for part in (FIRST, SECOND))
    (message, first), (_, second) = chats
    question = _text(entry, "question", cell("question")) or message
    if question is None or first is None or second is None:
        allowed = "question, answer_1 and answer_2 in every row"
        raise entry.error("no question or no answer", allowed=allowed)
    names = [_text(entry, part, cell(part)) for part in ("system_1", "system_2")]
    systems = (system_name(names[0] or FIRST), system_name(names[1] or SECOND))
    if systems[0] == systems[1]:
        raise entry.error(f"both answers are of '{systems[0]}'", allowed="two systems")
    identifier = _text(entry, "id", cell("id"))
    if identifier is None:
        # with named systems, the pairs of one question share its id; without names, each row is
        # its own pair
        texts = [question] if all(names) else [question, first, second]
        identifier = content_id("\n".join(texts))
    # MT-bench has a row per turn under the id of one question
    if turn is not None and turn > 1:
        identifier = f"{identifier}-turn{turn}"
    return PairRow(entry, identifier, systems, question, (first, second))


def _text(entry: Entry, part: str, value: object) -> str | None:
    """Return a text or a number as text; None for an empty cell; a `DataError` for other values."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise entry.error(f"{part}: {value!r}", allowed="text, or a number")
    return str(value)


def _read_chat(entry: Entry, value: object, turn: int | None) -> tuple[str | None, str | None]:
    """Return (question, answer) of a conversation; (None, answer) of a plain text.

    They are the first `turn` messages of the user and of the assistant, all for None, joined by
    blank lines; a role without messages gives ''. Messages after these are checked too. A cell that
    is None or '' gives (None, None).

    Raises:
        DataError: A message has no role of user or assistant, or no text; or a plain answer is no
            text or integer.
    """
    if not isinstance(value, list):
        return None, _text(entry, "answer", value)
    texts: dict[str, list[str]] = {"user": [], "assistant": []}
    for message in value:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in texts or not isinstance(message.get("content"), str):
            allowed = "messages {role: user or assistant, content: text}"
            raise entry.error(f"a conversation with {message!r}", allowed=allowed)
        texts[role].append(message["content"])
    return "\n\n".join(texts["user"][:turn]), "\n\n".join(texts["assistant"][:turn])


def _add(row: PairRow, queries: dict[str, Query], systems: dict[str, dict[str, Answered]]) -> None:
    """Add the question and both answers of a row.

    Both dicts are changed: `queries` by query id, `systems` by system and query id.

    Raises:
        DataError: An earlier row has another question or answer with the same id.
    """
    query = queries.setdefault(row.query_id, Query(row.query_id, row.question))
    if query.text != row.question:
        raise row.entry.error(f"'{row.query_id}' has another question in an earlier row")
    for system, answer in zip(row.systems, row.answers, strict=True):
        answers = systems.setdefault(system, {})
        earlier = answers.setdefault(row.query_id, Answered(row.query_id, answer))
        if earlier.answer != answer:
            problem = f"'{row.query_id}' of '{system}' has another answer in an earlier row"
            raise row.entry.error(problem, allowed="ids that tell pairs apart, or no id")


class Pairs:
    """Loader of pairs of answers that people compared, as two systems or as many as the file names.

    A judge with the rubric `pairwise` compares them. Creating it reads nothing; `load` raises
    DataError for a wrong row and OptionError for `columns`.
    """

    def __init__(
        self,
        *,
        path: Annotated[
            Path,
            Option("The .jsonl, .csv or .parquet file, a row per comparison.", refers_to="path"),
        ],
        columns: Annotated[
            Mapping[str, str | None] | None,
            Option(
                "Which column is the id, question, answer_1, answer_2, system_1, system_2, "
                "turn; null for none."
            ),
        ] = None,
    ) -> None:
        self._path, self._columns = Path(path), columns

    def load(self) -> Collection:
        """Return the pairs as recorded answers of systems.

        Equal answers to a question are stored once. There are no judgements and no documents.
        Queries and systems are in the order of the file.

        Raises:
            DataError: As `read_pairs`, and if one system has two answers to a question.
            OptionError: `columns` has a key that is no part.
            MissingExtra: A Parquet file without the extra `parquet`.
        """
        rows = read_pairs(self._path, self._columns)
        queries: dict[str, Query] = {}
        systems: dict[str, dict[str, Answered]] = {}
        for row in rows:
            _add(row, queries, systems)
        if not queries:
            raise DataError("no pairs", file=self._path, allowed="a row per comparison")
        pairs = len({(row.query_id, frozenset(row.systems)) for row in rows})
        counts = f"{len(rows)} comparisons of {pairs} pairs"
        recorded = {name: list(answers.values()) for name, answers in systems.items()}
        notes = [f"{counts}, {len(queries)} questions, {len(systems)} systems"]
        return finish_collection(Collection([*queries.values()], given=recorded, notes=notes), None)
