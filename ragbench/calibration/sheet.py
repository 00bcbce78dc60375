"""Sheets for people to label: scale, repeatable random draw, and blinded rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.score.judge.base import Rubric
from ragbench.signature import Signature, fingerprint
from ragbench.stats.mean import FEWEST_LABELS
from ragbench.stats.stratified import Strata, allocate_labels
from ragbench.types import FloatArray
from ragbench.types.lookups import index_positions

Label = TypeVar("Label", float, FloatArray)

_MOST_LEVELS = 20
_ALLOWED = "two different numbers as in 1..5, the worst first (0..1, or 1..0 where 1 is bad)"
_NUMBER = r"[+-]?\d+(?:\.\d+)?"


@dataclass(frozen=True, slots=True)
class LabelScale:
    """Scale of labels, from the label of score 0 to the label of score 1.

    Levels are 1 apart. `high` may be the smaller number, on a scale where 1 is bad. The scale
    is `LabelScale(1, 5)` or `LabelScale.parse("1..5")`; only `parse` checks the ends. `score` turns
    labels into scores from 0 to 1. `levels` is empty if the ends are not whole steps, or 20 or
    more, apart. The last two attributes are no part of equality.

    Attributes:
        low: Label of the score 0.
        high: Label of the score 1.
        split: Score between two levels, above which the nearest level is the high one.
        split_is_high: True if a score at the split has the high level.
    """

    low: float
    high: float
    split: float = field(default=0.5, compare=False, repr=False)
    split_is_high: bool = field(default=False, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, option: str = "--scale") -> LabelScale:
        """Return the scale of a text such as `1..5`; `option` names its source in the error.

        Raises:
            OptionError: The text is not two different numbers.

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
        """Return the scale of people's labels: 1 to the top level of a rating, else 0 to 1.

        The levels of other methods rate single claims; people label an answer with a share.
        """
        return cls(1.0, float(rubric.levels)) if rubric.method == "rating" else cls(0.0, 1.0)

    @classmethod
    def of_score(cls, score: JudgedScore, scale: LabelScale | None = None) -> LabelScale:
        """Return the scale of people's labels, with the split that the score of a judge needs.

        `scale` None is that of the rubric. A score in the middle of two levels has the worse one:
        an answer of which half is supported does not pass.
        """
        scale, is_lower_better = scale or cls.of_rubric(score.rubric), score.is_lower_better
        if score.passing is None:
            return replace(scale, split=0.5, split_is_high=is_lower_better)
        return replace(scale, split=score.passing, split_is_high=not is_lower_better)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels from low to high; empty if the ends are not whole steps, or 20 or more, apart.

        From the label of score 0, so falling if `high` is the smaller number.
        """
        steps = abs(self.high - self.low)
        if steps != round(steps) or steps >= _MOST_LEVELS:
            return ()
        step = math.copysign(1.0, self.high - self.low)
        return tuple(self.low + step * number for number in range(round(steps) + 1))

    def holds(self, label: float) -> bool:
        """Return True if a label lies between the ends of the scale, ends included.

        NaN is no level.
        """
        return min(self.low, self.high) <= label <= max(self.low, self.high)

    def score(self, label: Label) -> Label:
        """Return the score from 0 to 1 of a label, or the scores of an array of labels.

        A label off the scale gives a score below 0 or above 1; NaN stays NaN. If both ends are
        equal, a number raises ZeroDivisionError, and an array gives NaN or infinities.
        """
        return (label - self.low) / (self.high - self.low)

    def nearest_levels(self, scores: FloatArray) -> FloatArray:
        """Return the nearest level of each score; halfway between two, the one towards high.

        On two levels `split` decides in place of the middle. NaN stays NaN. The scale must have
        levels. Scores off 0..1 give numbers off the scale, except on two levels.

        Example:
            >>> LabelScale(1, 5).nearest_levels(np.array([0.0, 0.6, 0.625, 1.0]))
            array([1., 3., 4., 5.])
        """
        steps = len(self.levels) - 1
        # a share of three claims is 0.6666...; adding the rounding error must not move it
        if steps == 1:
            is_high = scores > self.split - math.copysign(1e-9, self.split_is_high - 0.5)
            places = np.where(np.isnan(scores), np.nan, is_high)
        else:
            places = np.floor(scores * steps + 0.5 + 1e-9)
        levels: FloatArray = self.low + math.copysign(1.0, self.high - self.low) * places
        return levels


# Unit of a draw: single answers, or queries with the answers of all systems.
Unit = Literal["answer", "query"]

# Version of the draw; change it when equal seeds draw other answers.
VERSION = 1

# Where answers are drawn: everywhere alike, or more often where the judge is unsure.
Where = Literal["everywhere", "unsure"]

_BANDS = 5  # of scores: the levels of a five-level rubric

_SURE = 0.1  # a judge is sure of scores this close to 0 or 1
_LEAST_STRATUM = 0.1  # smallest share of the answers of a stratum: smaller ones cost more than help
# Largest design effect that pays: a smaller gain is lost again in a difference, since fewer queries
# have labels for both systems.
_MOST_EFFECT = 0.9


@dataclass(frozen=True, slots=True)
class Draw:
    """Random draw of answers, with the settings to repeat it, as `draw` and `draw_again` return it.

    An answer is a pair (system, query id).

    Attributes:
        keys: Drawn answers in the random order of the sheet, so that any first part is random too.
        probability: Share of the answers, or queries, that is drawn; above 0, at most 1.
        signature: Number, seed, unit, systems and a fingerprint of the population.
        strata: Answer -> stratum of its system, for all answers that can be drawn; 0 for all with
            `where="unsure"` if the answers of a system have the same probability, empty without it.
        probabilities: Drawn answer -> its probability to be drawn; empty if all have the same.
    """

    keys: tuple[Key, ...]
    probability: float
    signature: str
    strata: Mapping[Key, int] = field(default_factory=dict)
    probabilities: Mapping[Key, float] = field(default_factory=dict)

    def probability_of(self, key: Key) -> float:
        """Return the probability of a drawn answer to be drawn, above 0, at most 1.

        An answer that was not drawn gives `probability`; `key` is (system, query id).
        """
        return self.probabilities.get(key, self.probability)


def draw(
    run: JudgedRun,
    score: JudgedScore,
    n: int,
    *,
    seed: int,
    unit: Unit = "answer",
    systems: Sequence[str] = (),
    where: Where = "everywhere",
) -> Draw:
    """Draw answers at random with known probabilities, stratified by system and score.

    Systematic sampling: the scored answers are sorted by system and band of score, in random order
    within a band, and every (N / n)th is drawn from a random start. Each stratum gets its share of
    the sheet to within one answer, without weights. With `unit="query"`, queries are drawn likewise
    over the bands of their mean score, with the answers of all systems.

    With `where="unsure"`, each system gets n / systems of the answers, among the queries that all
    systems answered. A stratum is a system's answers of which the judge is sure (scores up to 0.1,
    or from 0.9) or unsure. Strata where the scores imply a larger spread are drawn more often, and
    none has the probability 0. Queries have one random number for all systems, so that most of the
    drawn queries have labels for several systems. Where the expected variance is not below 0.9 of
    that of equal probabilities (the design effect), all answers of a system have the same.

    Args:
        run: Run with the judged systems.
        score: Score whose answers are drawn.
        n: Number of answers, or of queries.
        seed: Equal seeds give equal draws.
        unit: `answer` or `query`; `where="unsure"` draws answers.
        systems: Systems to draw from; empty: all of them.
        where: `everywhere` gives all answers the same probability.

    Returns:
        The drawn answers in random order; with `unit="query"` or `where="unsure"`, the answers to
        one query follow each other.

    Raises:
        OptionError: n is below 1 (20 a system for `where="unsure"`) or above the number of units,
            or the run has no such system.
        ValueError: The seed is negative.
    """
    names = {name: run.find_system(name) for name in systems}
    for name, system in names.items():
        if system is None:
            allowed, near = ", ".join(run.systems), nearest(name, run.systems)
            raise OptionError("--system", "", name, allowed, near)
    chosen = []
    for name in run.systems:
        if not names or name in names.values():
            chosen.append(name)
    if where == "unsure":
        return _draw_unsure(run, score, n, seed=seed, systems=chosen)
    units = _units(score, chosen, unit)
    if not 1 <= n <= len(units):
        noun = "answers" if unit == "answer" else "queries that all systems answered"
        allowed = f"1 to {len(units)}, the {noun} with a verdict on {score.name}"
        raise OptionError("--draw", "", n, allowed)
    rng = _random_stream(score, seed)
    # the last key sorts first: by band, at random within a band
    order = np.lexsort((rng.random(len(units)), np.array([band for band, _ in units])))
    places = np.floor((rng.random() + np.arange(n)) * len(units) / n).astype(np.int64)
    # rounding can reach one place beyond the last unit
    picked = [units[order[place]][1] for place in places.clip(max=len(units) - 1)]
    population = [(band, keys[0]) for band, keys in units]
    signature = _signature(run, chosen, population, n=n, seed=seed, unit=unit)
    return Draw(_shuffled(rng, picked), n / len(units), signature)


def _shuffled(rng: np.random.Generator, groups: Sequence[Sequence[Key]]) -> tuple[Key, ...]:
    """Return the keys of groups in random order; the keys of a group follow each other."""
    keys: list[Key] = []
    for place in rng.permutation(len(groups)):
        group = groups[place]
        for item in rng.permutation(len(group)):
            keys.append(group[item])
    return tuple(keys)


def _signature(
    run: JudgedRun,
    systems: Sequence[str],
    population: Iterable[tuple[int, Key]],
    **settings: int | str,
) -> str:
    """Return the signature of a draw from a population of strata and keys."""
    places = ".".join(str(run.systems.index(name)) for name in systems)
    pieces = (piece for code, key in population for piece in (str(code), *key))
    settings |= {"systems": places, "population": fingerprint(pieces), "v": VERSION}
    return str(Signature.of("draw", **settings))


def _random_stream(score: JudgedScore, seed: int) -> np.random.Generator:
    """Return the random numbers of a draw, which depend on the seed and the rubric."""
    # one random stream per rubric, so that a further rubric does not change the other draws
    return np.random.default_rng([seed, int(fingerprint([score.rubric.name], 8), 16)])


def _draw_unsure(
    run: JudgedRun, score: JudgedScore, n: int, *, seed: int, systems: Sequence[str]
) -> Draw:
    """Draw answers more often where the judge is unsure: see `draw`."""
    queries = [keys[0][1] for _, keys in _units(score, systems, "query")]
    least, most = FEWEST_LABELS * len(systems), len(queries) * len(systems)
    if not least <= n <= most:
        allowed = f"{least} to {most}: {FEWEST_LABELS} answers of each system or more, up to all "
        allowed += f"answers to queries that all systems answered, with a verdict on {score.name}"
        raise OptionError("--draw", "", n, allowed)
    rng = _random_stream(score, seed)
    # one number per query: the systems' answers to a query are drawn together where possible
    numbers = rng.random(len(queries))
    strata: dict[Key, int] = {}
    probabilities: dict[Key, float] = {}
    scores = []
    for name in systems:
        scores.append(np.array([score.scores[name, query] for query in queries]))
    quotas = [n // len(systems) + (place < n % len(systems)) for place in range(len(systems))]
    unequal, equal = [], []
    for of_system, quota in zip(scores, quotas, strict=True):
        unequal.append(_allocation(of_system, _sureness(of_system), quota))
        equal.append(_allocation(of_system, np.zeros_like(of_system), quota))
    variance_of_unequal = sum(variance for variance, _ in unequal)
    variance_of_equal = sum(variance for variance, _ in equal)
    plan = unequal if variance_of_unequal < _MOST_EFFECT * variance_of_equal else equal
    for system, (_, parts) in zip(systems, plan, strict=True):
        for code, (part, count) in enumerate(parts):
            for item in part:
                strata[system, queries[item]] = code
            for item in part[np.argsort(numbers[part])][:count]:
                probabilities[system, queries[item]] = count / len(part)
    by_query: dict[str, list[Key]] = {}
    for key in sorted(probabilities):
        by_query.setdefault(key[1], []).append(key)
    keys = _shuffled(rng, list(by_query.values()))
    population = ((code, key) for key, code in sorted(strata.items()))
    signature = _signature(run, systems, population, n=n, seed=seed, where="unsure")
    return Draw(keys, n / most, signature, strata, probabilities)


def _allocation(
    scores: FloatArray, codes: Strata, n: int
) -> tuple[float, list[tuple[NDArray[np.intp], int]]]:
    """Return the variance of the mean of n labels, and the (places, number of labels) of strata."""
    parts = []
    for level in np.unique(codes):
        parts.append(np.flatnonzero(codes == level))
    sizes = np.array([len(part) for part in parts])
    variances = np.array([(scores[part] * (1 - scores[part])).mean() for part in parts])
    counts = allocate_labels(sizes, np.sqrt(variances), n)
    variance = float((sizes / len(scores)) ** 2 @ (variances / counts))
    return variance, list(zip(parts, counts.tolist(), strict=True))


def _sureness(scores: FloatArray) -> Strata:
    """Return the stratum of each score: 0 for a sure 0, 1 for unsure, 2 for a sure 1."""
    codes = np.where(scores <= _SURE + 1e-9, 0, np.where(scores >= 1 - _SURE - 1e-9, 2, 1))
    for sure in (0, 2):
        if np.mean(codes == sure) < _LEAST_STRATUM:
            codes[codes == sure] = 1
    is_unsure = codes == 1
    ends = np.unique(codes[~is_unsure])
    if len(ends) and is_unsure.mean() < _LEAST_STRATUM:
        codes[is_unsure] = ends[np.round(scores[is_unsure] * (len(ends) - 1)).astype(np.int64)]
    return codes.astype(np.int64)


def draw_again(run: JudgedRun, score: JudgedScore, signature: str) -> Draw | None:
    """Repeat a draw from the signature on a sheet.

    Returns None if the signature is damaged, or if the run gives another draw. The result is None
    too if the scores changed since.
    """
    part = Signature.parse(signature).part
    unit: Unit = "query" if part("unit") == "query" else "answer"
    where: Where = "unsure" if is_unsure_draw(signature) else "everywhere"
    try:
        n, seed = int(part("n") or ""), int(part("seed") or "")
        systems = []
        for place in (part("systems") or "").split("."):
            systems.append(run.systems[int(place)])
        again = draw(run, score, n, seed=seed, unit=unit, systems=systems, where=where)
    except (ValueError, IndexError):  # somebody edited the cell of the sheet
        return None
    return again if again.signature == signature else None


def is_unsure_draw(signature: str) -> bool:
    """Return True if the signature is that of a draw where the judge is unsure."""
    return Signature.parse(signature).part("where") == "unsure"


def item_id(run: JudgedRun, rubric: str, key: Key) -> str:
    """Return the blinded id of an answer on a sheet: a hash of rubric, system, query and texts.

    It is the letter `a` and hexadecimal digits. A run without this answer raises KeyError.
    """
    item = run.answers[key]
    texts = [*(item.contexts or ()), *(item.queries or ())]
    # the letter in front keeps spreadsheets from reading a number
    return f"a{fingerprint([rubric, *key, *(texts if item.answer is None else [item.answer])])}"


def _units(
    score: JudgedScore, systems: Sequence[str], unit: Unit
) -> list[tuple[int, tuple[Key, ...]]]:
    """Return stratum and keys of each unit of the draw, sorted by key."""
    place = index_positions(systems)
    scores = {}
    for key, value in score.scores.items():
        if key[0] in place:
            scores[key] = value
    units: list[tuple[int, tuple[Key, ...]]] = []
    if unit == "answer":
        for key, value in sorted(scores.items()):
            units.append((place[key[0]] * _BANDS + _band(value), (key,)))
        return units
    for query in sorted({query for _, query in scores}):
        keys = tuple((system, query) for system in systems)
        if all(key in scores for key in keys):
            units.append((_band(math.fsum(scores[key] for key in keys) / len(keys)), keys))
    return units


def _band(score: float) -> int:
    """Return the number from 0 to 4 of the band of a score from 0 to 1."""
    # a rounding error must not move a score to the band below; 1 belongs to the last band
    return min(int(score * _BANDS + 1e-9), _BANDS - 1)


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
