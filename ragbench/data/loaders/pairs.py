"""Pairs of answers to compare: `dataset: {type: pairs, path: llmbar.jsonl}`."""

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

# Part -> the names of its column that are understood: ours, LLMBar's, MT-bench's.
USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "query_id", "question_id"),
    "question": ("question", "instruction", "prompt", "user_input", "input"),
    "answer_1": ("answer_1", "output_1", "response_1", "answer_a", "response_a", "conversation_a"),
    "answer_2": ("answer_2", "output_2", "response_2", "answer_b", "response_b", "conversation_b"),
    "system_1": ("system_1", "model_1", "system_a", "model_a"),
    "system_2": ("system_2", "model_2", "system_b", "model_b"),
    "turn": ("turn",),
}
# The systems of a file that names none.
FIRST, SECOND = "answer_1", "answer_2"


@dataclass(frozen=True, slots=True)
class PairRow:
    """One row: two answers to a question."""

    entry: Entry
    query_id: str
    systems: tuple[str, str]
    question: str
    answers: tuple[str, str]


def read_pairs(path: Path, columns: Mapping[str, str | None] | None = None) -> list[PairRow]:
    """Read rows of two answers.

    A file of LLMBar has `instruction`, `output_1`, `output_2`; one of MT-bench `question_id`,
    `model_a`, `model_b`, `turn` and two conversations, whose messages up to the turn are question
    and answer. A file of one's own has `question`, `answer_1`, `answer_2`, and `system_1`,
    `system_2` where there are several. Other columns, such as the winner, are not read.

    Raises:
        DataError: A missing column, with the place.
        OptionError: `columns` names no part.
    """
    check_allowed("pairs", "columns", columns or {}, USUAL_NAMES)
    return [_row(entry, _places(entry, columns or {})) for entry in read_rows(path, "pairs")]


def _places(entry: Entry, columns: Mapping[str, str | None]) -> dict[str, str]:
    found = {part: column for part, column in columns.items() if column is not None}
    for column in found.values():
        entry.field(column)
    for part, names in USUAL_NAMES.items():
        free = [name for name in names if name in entry.values and name not in found.values()]
        if part not in columns and free:
            found[part] = free[0]
    if not {"answer_1", "answer_2"} <= found.keys():
        has = ", ".join(entry.values)
        allowed = "question, answer_1, answer_2"
        raise entry.error(f"no pair of answers (columns: {has})", allowed=allowed)
    return found


def _row(entry: Entry, places: Mapping[str, str]) -> PairRow:
    def of(part: str) -> object:
        return entry.values.get(places[part]) if part in places else None

    written = str(of("turn") or "")
    turn = int(written) if written.isascii() and written.isdecimal() else None
    (asked, first), (_, second) = (_spoken(entry, of(part), turn) for part in (FIRST, SECOND))
    question = _text(entry, "question", of("question")) or asked
    if question is None or first is None or second is None:
        allowed = "question, answer_1 and answer_2 in every row"
        raise entry.error("no question or no answer", allowed=allowed)
    names = [_text(entry, part, of(part)) for part in ("system_1", "system_2")]
    systems = (system_name(names[0] or FIRST), system_name(names[1] or SECOND))
    if systems[0] == systems[1]:
        raise entry.error(f"both answers are of '{systems[0]}'", allowed="two systems")
    identifier = _text(entry, "id", of("id"))
    if identifier is None:
        texts = [question] if all(names) else [question, first, second]
        identifier = content_id("\n".join(texts))
    if turn is not None and turn > 1:
        identifier = f"{identifier}-turn{turn}"
    return PairRow(entry, identifier, systems, question, (first, second))


def _text(entry: Entry, part: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise entry.error(f"{part}: {value!r}", allowed="text, or a number")
    return str(value)


def _spoken(entry: Entry, value: object, turn: int | None) -> tuple[str | None, str | None]:
    """Question and answer of a conversation up to a turn; a plain answer has no question."""
    if not isinstance(value, list):
        return None, _text(entry, "answer", value)
    said: dict[str, list[str]] = {"user": [], "assistant": []}
    for message in value:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in said or not isinstance(message.get("content"), str):
            allowed = "messages {role: user or assistant, content: text}"
            raise entry.error(f"a conversation with {message!r}", allowed=allowed)
        said[role].append(message["content"])
    return "\n\n".join(said["user"][:turn]), "\n\n".join(said["assistant"][:turn])


def _add(row: PairRow, queries: dict[str, Query], systems: dict[str, dict[str, Answered]]) -> None:
    query = queries.setdefault(row.query_id, Query(row.query_id, row.question))
    if query.text != row.question:
        raise row.entry.error(f"'{row.query_id}' has another question before")
    for system, answer in zip(row.systems, row.answers, strict=True):
        answers = systems.setdefault(system, {})
        before = answers.setdefault(row.query_id, Answered(row.query_id, answer))
        if before.answer != answer:
            found = f"'{row.query_id}' of '{system}' has another answer before"
            raise row.entry.error(found, allowed="ids that tell pairs apart, or no id")


class Pairs:
    """Read pairs of answers that people compared, as two systems or as many as the file names.

    A judge with the rubric `pairwise` compares them.
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
        """Read the rows; answers of one system to one question are one."""
        rows = read_pairs(self._path, self._columns)
        queries: dict[str, Query] = {}
        systems: dict[str, dict[str, Answered]] = {}
        for row in rows:
            _add(row, queries, systems)
        if not queries:
            raise DataError("no pairs", file=self._path, allowed="a row per comparison")
        pairs = len({(row.query_id, frozenset(row.systems)) for row in rows})
        counts = f"{len(rows)} comparisons of {pairs} pairs"
        given = {name: list(answers.values()) for name, answers in systems.items()}
        notes = [f"{counts}, {len(queries)} questions, {len(systems)} systems"]
        return finish_collection(Collection([*queries.values()], given=given, notes=notes), None)
