"""Sheets for people to label: blinded rows, without system or score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragbench.calibration.draw import Draw
from ragbench.calibration.judged_run import JudgedRun, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.score.judge.base import Rubric
from ragbench.signature import fingerprint


def item_id(run: JudgedRun, rubric: str, key: Key) -> str:
    """Return the blinded id of an answer on a sheet: a hash of rubric, system, query and texts.

    It is the letter `a` and hexadecimal digits. A run without this answer raises KeyError.
    """
    item = run.answers[key]
    texts = [*(item.contexts or ()), *(item.queries or ())]
    # the letter in front keeps spreadsheets from reading a number
    return f"a{fingerprint([rubric, *key, *(texts if item.answer is None else [item.answer])])}"


# Columns of a sheet; people fill in `label`, and `comment` if they like.
COLUMNS = (
    *("item", "rubric", "question", "passages", "reference", "queries", "answer", "scale"),
    *("label", "comment", "probability", "draw"),
)

# Longest cell that spreadsheets keep, in characters.
LONGEST_CELL = 32_767


def sheet_rows(
    run: JudgedRun, draws: Iterable[tuple[Draw, Rubric]]
) -> list[list[str | float | None]]:
    """Return the rows of a blinded sheet in the order of the draws, without system or score.

    A row has the parts that its rubric needs; other cells are empty. The answers of the run need
    their questions and references. Cells are in the order of `COLUMNS`, those of label and comment
    None; an answer that is missing is empty. Without draws there are no rows.
    """
    rows: list[list[str | float | None]] = []
    for drawn, rubric in draws:
        for key in drawn.keys:
            item = run.answers[key]
            parts = {
                "question": item.question or "",
                "contexts": _numbered(item.contexts or ()),
                "reference": "\n".join(item.references),
                "queries": _numbered(item.queries or ()),
            }
            cells = []
            for need in parts:
                cells.append(parts[need] if need in rubric.needs else "")
            head = [item_id(run, rubric.name, key), rubric.name, *cells, item.answer or ""]
            # the cells of label and comment stay empty
            tail = [None, None, drawn.probability_of(key), drawn.signature]
            rows.append([*head, scale_text(rubric), *tail])
    return rows


def scale_text(rubric: Rubric) -> str:
    """Return the text for labellers: the meaning of each level, or of the share of claims.

    Levels are joined by `; ` in the order of the rubric.
    """
    if rubric.method == "rating":
        return "; ".join(f"{level}: {meaning}" for level, meaning in rubric.scale.items())
    low, high = LabelScale.of_rubric(rubric).levels
    of_what = f"the share of the answer's claims of which it holds: {rubric.meaning(rubric.levels)}"
    return f"{low:g} to {high:g}: {of_what}"


def _numbered(contexts: Sequence[str]) -> str:
    """Return passages as one text, each behind its number."""
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(contexts, start=1))
