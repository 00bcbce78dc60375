"""What people label: a random draw that can be repeated, and its blinded sheet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.scale import Scale
from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.score.judge.base import Rubric
from ragbench.signature import Signature, fingerprint
from ragbench.types.conversation import Turn

Unit = Literal["answer", "query"]
"""What is drawn: single answers, or queries with the answers of all systems."""

VERSION = 1
"""Moves when the same seed draws something else."""

_BANDS = 5


@dataclass(frozen=True, slots=True)
class Draw:
    """What was drawn, and all that is needed to draw it again."""

    rubric: str
    """The rubric that people apply."""
    keys: tuple[Key, ...]
    """The drawn answers, in the order of the sheet: any first part of it is random too."""
    probability: float
    """How likely each answer was to be drawn."""
    signature: str
    """How it was drawn: number, seed, unit, systems, and a fingerprint of what from."""


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

    Args:
        run: The run.
        score: The score whose bands count.
        n: How many answers or queries.
        seed: Equal seeds give equal draws.
        unit: What is drawn.
        systems: From these systems only.

    Raises:
        OptionError: More than there are, or a system that the run does not have.
    """
    chosen = _systems(run, systems)
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
    return Draw(score.rubric.name, tuple(keys), n / len(units), str(signature))


def draw_again(run: JudgedRun, score: JudgedScore, signature: str) -> Draw | None:
    """Repeat a draw from what a sheet says of it; None where this run is not what it was from."""
    parts = dict(Signature.parse(signature).parts)
    try:
        n, seed = int(parts["n"]), int(parts["seed"])
        systems = [run.systems[int(place)] for place in parts["systems"].split(".")]
        unit: Unit = "query" if parts["unit"] == "query" else "answer"
        again = draw(run, score, n, seed=seed, unit=unit, systems=systems)
    except (KeyError, ValueError, IndexError):  # a cell that somebody changed
        return None
    return again if again.signature == signature else None


def item_id(run: JudgedRun, rubric: str, key: Key) -> str:
    """Return the name of an answer on a sheet: it gives nothing away, and changes with the answer.

    The letter in front keeps spreadsheets from reading a number.
    """
    return f"a{fingerprint([rubric, *key, *run.answers[key].judged])}"


def _systems(run: JudgedRun, names: Sequence[str]) -> list[str]:
    chosen = {name: run.named(name) for name in names}
    for name, found in chosen.items():
        if found is None:
            allowed = ", ".join(run.systems)
            raise OptionError("--system", "", name, allowed, nearest(name, run.systems))
    return [name for name in run.systems if not names or name in chosen.values()]


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
    """Return which fifth of 0..1 a score lies in: the levels of a five-level rubric."""
    return min(int(score * _BANDS + 1e-9), _BANDS - 1)


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


@dataclass(frozen=True, slots=True)
class Question:
    """What the run's data set has of a query."""

    text: str
    """The question."""
    references: Sequence[str] = ()
    """Gold answers."""
    turns: tuple[Turn, ...] = ()
    """What was said before."""


def sheet_rows(
    run: JudgedRun, draws: Iterable[tuple[Draw, Rubric]], questions: Mapping[str, Question]
) -> list[list[str | float | None]]:
    """Return the rows of a sheet for people: no system, no score, in random order.

    Each row shows what the rubric needs and nothing else.

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
                    *cells,
                    answer.answer or "",
                    scale_text(rubric),
                    None,
                    None,
                    drawn.probability,
                    drawn.signature,
                ]
            )
    return rows


def scale_text(rubric: Rubric) -> str:
    """Say what labels mean, for the people who give them."""
    if rubric.method == "rating":
        return "; ".join(f"{level}: {meaning}" for level, meaning in rubric.scale.items())
    low, high = Scale.of_rubric(rubric).levels
    of_what = f"the share of the answer's claims of which it holds: {rubric.meaning(rubric.levels)}"
    return f"{low:g} to {high:g}: {of_what}"


def _numbered(contexts: Sequence[str]) -> str:
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(contexts, start=1))
