"""Sheets for people to label: a random draw that can be repeated, blinded, and its scale."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.score.judge.base import Rubric
from ragbench.signature import Signature, fingerprint
from ragbench.types import FloatArray
from ragbench.types.conversation import Turn

Label = TypeVar("Label", float, FloatArray)

_MOST_LEVELS = 20
_ALLOWED = "two different numbers as in 1..5, the worst first (0..1, or 1..0 where 1 is bad)"
_NUMBER = r"[+-]?\d+(?:\.\d+)?"


@dataclass(frozen=True, slots=True)
class LabelScale:
    """From the label that means 0 to the label that means 1; the levels are one apart.

    Attributes:
        low: The label that the score 0 stands for.
        high: The label that the score 1 stands for.
    """

    low: float
    high: float

    @classmethod
    def parse(cls, text: str, option: str = "--scale") -> LabelScale:
        """Read `1..5`, the value of an option.

        Raises:
            OptionError: Not two different numbers.

        Example:
            >>> LabelScale.parse("1..5").levels
            (1.0, 2.0, 3.0, 4.0, 5.0)
        """
        match = re.fullmatch(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*", text)
        if not match or float(match[1]) == float(match[2]):
            raise OptionError(option, "", text, _ALLOWED)
        return cls(float(match[1]), float(match[2]))

    @classmethod
    def of_rubric(cls, rubric: Rubric) -> LabelScale:
        """Return the scale that people use for a rubric.

        The levels of a rubric that rates an answer. One that rates claims has levels of a claim;
        an answer is labelled with a share, from 0 to 1.
        """
        return cls(1.0, float(rubric.levels)) if rubric.method == "rating" else cls(0.0, 1.0)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels from low to high; none where the ends are not whole steps apart."""
        steps = abs(self.high - self.low)
        if steps != round(steps) or steps >= _MOST_LEVELS:
            return ()
        step = math.copysign(1.0, self.high - self.low)
        return tuple(self.low + step * number for number in range(round(steps) + 1))

    def holds(self, label: float) -> bool:
        """Return True if a label lies on the scale."""
        return min(self.low, self.high) <= label <= max(self.low, self.high)

    def score(self, label: Label) -> Label:
        """Turn a label, or an array of labels, into scores from 0 to 1."""
        return (label - self.low) / (self.high - self.low)

    def nearest_levels(self, scores: FloatArray) -> FloatArray:
        """Turn scores into levels, the nearest one; halfway the one towards high.

        Example:
            >>> LabelScale(1, 5).nearest_levels(np.array([0.0, 0.6, 0.625, 1.0]))
            array([1., 3., 4., 5.])
        """
        steps = len(self.levels) - 1
        # a share of three claims is 0.6666...; adding the rounding error must not move it
        places = np.floor(scores * steps + 0.5 + 1e-9)
        found: FloatArray = self.low + math.copysign(1.0, self.high - self.low) * places
        return found


# What is drawn: single answers, or queries with the answers of all systems.
Unit = Literal["answer", "query"]

# Moves when the same seed draws something else.
VERSION = 1

_BANDS = 5


@dataclass(frozen=True, slots=True)
class Draw:
    """Drawn answers, and the settings that draw them again.

    Attributes:
        keys: The drawn answers, in the order of the sheet: any first part of it is random too.
        probability: How likely each answer was to be drawn.
        signature: How it was drawn: number, seed, unit, systems, and a fingerprint of what from.
    """

    keys: tuple[Key, ...]
    probability: float
    signature: str


def draw(
    run: JudgedRun,
    score: JudgedScore,
    n: int,
    *,
    seed: int,
    unit: Unit = "answer",
    systems: Sequence[str] = (),
) -> Draw:
    """Draw answers at random, each with the same probability, spread over systems and scores.

    The answers that the judge scored are sorted by system and band of score, in random order
    within, and every (N / n)th is taken from a random start: each system and band has its share of
    the sheet, to within one, and no weights are needed. With `unit="query"` queries are drawn
    likewise over the bands of their mean score, with the answers of all systems.

    Equal seeds give equal draws. Only some `systems` are drawn from where these are named.

    Raises:
        OptionError: More than there are, or a system that the run does not have.
    """
    names = {name: run.named(name) for name in systems}
    for name, system in names.items():
        if system is None:
            allowed, near = ", ".join(run.systems), nearest(name, run.systems)
            raise OptionError("--system", "", name, allowed, near)
    chosen = [name for name in run.systems if not names or name in names.values()]
    units = _units(score, chosen, unit)
    if not 1 <= n <= len(units):
        noun = "answers" if unit == "answer" else "queries that all systems answered"
        what = f"1 to {len(units)}, the {noun} with a verdict on {score.name}"
        raise OptionError("--draw", "", n, what)
    # a stream of its own for each rubric, so that adding one does not change the others
    rng = np.random.default_rng([seed, int(fingerprint([score.rubric.name], 8), 16)])
    order = np.lexsort((rng.random(len(units)), np.array([band for band, _ in units])))
    taken = np.floor((rng.random() + np.arange(n)) * len(units) / n).astype(np.int64)
    picked = [units[order[place]][1] for place in taken.clip(max=len(units) - 1)]
    keys = [picked[i][j] for i in rng.permutation(n) for j in rng.permutation(len(picked[i]))]
    signature = Signature.of(
        "draw",
        n=n,
        seed=seed,
        unit=unit,
        systems=".".join(str(run.systems.index(name)) for name in chosen),
        population=fingerprint(piece for band, unit in units for piece in (str(band), *unit[0])),
        v=VERSION,
    )
    return Draw(tuple(keys), n / len(units), str(signature))


def draw_again(run: JudgedRun, score: JudgedScore, signature: str) -> Draw | None:
    """Repeat a draw from what a sheet says of it; None where this run is not what it was from."""
    part = Signature.parse(signature).part
    unit: Unit = "query" if part("unit") == "query" else "answer"
    try:
        n, seed = int(part("n") or ""), int(part("seed") or "")
        systems = [run.systems[int(place)] for place in (part("systems") or "").split(".")]
        again = draw(run, score, n, seed=seed, unit=unit, systems=systems)
    except (ValueError, IndexError):  # a cell that somebody changed
        return None
    return again if again.signature == signature else None


def item_id(run: JudgedRun, rubric: str, key: Key) -> str:
    """Return the name of an answer on a sheet: it gives nothing away, and changes with the answer.

    The letter in front keeps spreadsheets from reading a number.
    """
    return f"a{fingerprint([rubric, *key, *run.answers[key].judged])}"


def _units(
    score: JudgedScore, systems: Sequence[str], unit: Unit
) -> list[tuple[int, tuple[Key, ...]]]:
    """List what can be drawn, with the stratum of each, in an order of its own."""
    place = {name: number for number, name in enumerate(systems)}
    scores = {key: value for key, value in score.scores.items() if key[0] in place}
    if unit == "answer":
        return [
            (place[key[0]] * _BANDS + _band(value), (key,)) for key, value in sorted(scores.items())
        ]
    found = []
    for query in sorted({query for _, query in scores}):
        keys = tuple((system, query) for system in systems)
        if all(key in scores for key in keys):
            found.append((_band(sum(scores[key] for key in keys) / len(keys)), keys))
    return found


def _band(score: float) -> int:
    """Return the fifth of 0..1 in which a score lies: the levels of a five-level rubric."""
    return min(int(score * _BANDS + 1e-9), _BANDS - 1)


# The columns of a sheet; people fill `label`, and `comment` as they like.
COLUMNS = (
    *("item", "rubric", "question", "passages", "reference", "queries", "answer", "scale"),
    *("label", "comment", "probability", "draw"),
)

# What spreadsheets keep of a cell, in characters.
LONGEST_CELL = 32_767


@dataclass(frozen=True, slots=True)
class Question:
    """Text, passages and gold answers of a query in the run's data set.

    Attributes:
        references: Gold answers.
        turns: What was said before.
    """

    text: str
    references: Sequence[str] = ()
    turns: tuple[Turn, ...] = ()


def sheet_rows(
    run: JudgedRun, draws: Iterable[tuple[Draw, Rubric]], questions: Mapping[str, Question]
) -> list[list[str | float | None]]:
    """Return the rows of a sheet for people: no system, no score, in random order.

    Each row shows what the rubric needs and nothing else. The questions are by query id.
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
            head = [item_id(run, rubric.name, key), rubric.name, *cells, answer.answer or ""]
            tail = [None, None, drawn.probability, drawn.signature]
            rows.append([*head, scale_text(rubric), *tail])
    return rows


def scale_text(rubric: Rubric) -> str:
    """Explain the scale to the people who label."""
    if rubric.method == "rating":
        return "; ".join(f"{level}: {meaning}" for level, meaning in rubric.scale.items())
    low, high = LabelScale.of_rubric(rubric).levels
    of_what = f"the share of the answer's claims of which it holds: {rubric.meaning(rubric.levels)}"
    return f"{low:g} to {high:g}: {of_what}"


def _numbered(contexts: Sequence[str]) -> str:
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(contexts, start=1))
