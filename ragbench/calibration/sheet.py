"""The sheet that people label: CSV, blinded, safe to open in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragbench.calibration.draw import Draw, item_id
from ragbench.calibration.scale import Scale
from ragbench.calibration.verdicts import JudgedRun
from ragbench.score.judge.rubric import Rubric

COLUMNS = (
    "item",
    "rubric",
    "question",
    "passages",
    "reference",
    "queries",
    "answer",
    "scale",
    "label",
    "comment",
    "probability",
    "draw",
)
"""The columns of a sheet; people fill `label`, and `comment` as they like."""

LONGEST_CELL = 32_767
"""What spreadsheets keep of a cell, in characters."""

_FORMULA = ("=", "+", "-", "@", "\t", "\n")


@dataclass(frozen=True, slots=True)
class Question:
    """What the run's data set has of a query."""

    text: str
    """The question."""
    references: Sequence[str] = ()
    """Gold answers."""


def sheet_rows(
    run: JudgedRun, draws: Iterable[tuple[Draw, Rubric]], questions: Mapping[str, Question]
) -> list[list[str | float | None]]:
    """Return the rows of a sheet for people: no system, no score, in random order.

    Each row shows what the rubric needs and nothing else. A cell that a spreadsheet would take
    for a formula starts with an apostrophe.

    Args:
        run: The run.
        draws: What was drawn, with the rubric.
        questions: Question and gold answers by query id.
    """
    rows: list[list[str | float | None]] = []
    for drawn, rubric in draws:
        for key in drawn.keys:
            answer, question = run.answers[key], questions[key[1]]
            shown = {
                "question": question.text,
                "contexts": _numbered(answer.contexts),
                "reference": "\n".join(question.references),
                "queries": _numbered(answer.queries),
            }
            cells = [shown[need] if need in rubric.needs else "" for need in shown]
            rows.append(
                [
                    item_id(run, rubric.name, key),
                    rubric.name,
                    *map(inert, cells),
                    inert(answer.answer or ""),
                    inert(scale_text(rubric)),
                    None,
                    None,
                    drawn.probability,
                    drawn.signature,
                ]
            )
    return rows


def inert(text: str) -> str:
    r"""Put an apostrophe before a text that a spreadsheet would run as a formula.

    Line ends become line feeds: the csv module leaves a lone carriage return unquoted.

    Example:
        >>> inert("=1+1"), inert("1 + 1"), inert("two\r\nlines")
        ("'=1+1", '1 + 1', 'two\nlines')
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) else text


def scale_text(rubric: Rubric) -> str:
    """Say what labels mean, for the people who give them."""
    if rubric.method == "rating":
        return "; ".join(f"{level}: {meaning}" for level, meaning in rubric.scale.items())
    low, high = Scale.of_rubric(rubric).levels
    of_what = f"the share of the answer's claims of which it holds: {rubric.meaning(rubric.levels)}"
    return f"{low:g} to {high:g}: {of_what}"


def _numbered(contexts: Sequence[str]) -> str:
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(contexts, start=1))
