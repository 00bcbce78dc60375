"""Random draw of answers for people to label, which a seed repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.signature import Signature, fingerprint
from ragbench.stats.mean import FEWEST_LABELS
from ragbench.stats.stratified import Strata, allocate_labels
from ragbench.types import FloatArray
from ragbench.types.lookups import index_positions, select_in_order

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
        n: Number of answers, or of queries; if there are fewer, all are drawn.
        seed: Equal seeds give equal draws.
        unit: `answer` or `query`; `where="unsure"` draws answers.
        systems: Systems to draw from; empty: all of them.
        where: `everywhere` gives all answers the same probability.

    Returns:
        The drawn answers in random order; with `unit="query"` or `where="unsure"`, the answers to
        one query follow each other.

    Raises:
        OptionError: n is below 1 (20 a system for `where="unsure"`), or the run has no such system.
        DataError: No answer has a verdict, or for `where="unsure"`, too few have one.
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
    noun = "answers" if unit == "answer" else "queries that all systems answered"
    if not units:
        allowed = "a run whose judge scored answers; see its unscored.jsonl"
        raise DataError(
            f"no {noun} with a verdict on {score.name}", file=run.folder, allowed=allowed
        )
    if n < 1:
        raise OptionError("--draw", "", n, f"1 or more of {len(units)} {noun} with a verdict")
    n = min(n, len(units))
    rng = _random_stream(score, seed)
    # the last key sorts first: by band, at random within a band
    population = [(band, keys[0]) for band, keys in units]
    bands = np.array([band for band, _ in population])
    order = np.lexsort((rng.random(len(units)), bands))
    places = np.floor((rng.random() + np.arange(n)) * len(units) / n).astype(np.int64)
    # rounding can reach one place beyond the last unit
    picked = [units[place][1] for place in order[places.clip(max=len(units) - 1)]]
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
    pieces = list[str]()
    for code, key in population:
        pieces += (str(code), *key)
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
    if most < least:
        problem = f"too few queries with a verdict on {score.name} for all systems: {len(queries)}"
        allowed = f"{FEWEST_LABELS} or more, or a draw without --where unsure"
        raise DataError(problem, file=run.folder, allowed=allowed)
    if n < least:
        allowed = f"{least} or more: {FEWEST_LABELS} answers of each system"
        raise OptionError("--draw", "", n, allowed)
    n = min(n, most)
    rng = _random_stream(score, seed)
    # one number per query: the systems' answers to a query are drawn together where possible
    numbers = rng.random(len(queries))
    strata: dict[Key, int] = {}
    probabilities: dict[Key, float] = {}
    unequal, equal = [], []
    variance_of_unequal = variance_of_equal = 0.0
    for place, name in enumerate(systems):
        scores = np.array([score.scores[name, query] for query in queries])
        quota = n // len(systems) + (place < n % len(systems))
        variance, parts = _allocation(scores, _sureness(scores), quota)
        variance_of_unequal += variance
        unequal.append(parts)
        variance, parts = _allocation(scores, np.zeros_like(scores), quota)
        variance_of_equal += variance
        equal.append(parts)
    plan = unequal if variance_of_unequal < _MOST_EFFECT * variance_of_equal else equal
    for system, parts in zip(systems, plan, strict=True):
        for code, (part, count) in enumerate(parts):
            for item in part:
                strata[system, queries[item]] = code
            for item in part[np.argsort(numbers[part])][:count]:
                probabilities[system, queries[item]] = count / len(part)
    by_query: dict[str, list[Key]] = {}
    for key in sorted(probabilities):
        by_query.setdefault(key[1], []).append(key)
    keys = _shuffled(rng, list(by_query.values()))
    population = [(code, key) for key, code in sorted(strata.items())]
    signature = _signature(run, systems, population, n=n, seed=seed, where="unsure")
    return Draw(keys, n / most, signature, strata, probabilities)


def _allocation(
    scores: FloatArray, codes: Strata, n: int
) -> tuple[float, list[tuple[NDArray[np.intp], int]]]:
    """Return the variance of the mean of n labels, and the (places, number of labels) of strata."""
    parts, spreads = [], []
    for level in np.unique(codes):
        part = np.flatnonzero(codes == level)
        parts.append(part)
        spreads.append((scores[part] * (1 - scores[part])).mean())
    sizes, variances = np.array(list(map(len, parts))), np.array(spreads)
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
        values = list(select_in_order(scores, keys).values())
        if len(values) == len(keys):
            units.append((_band(math.fsum(values) / len(keys)), keys))
    return units


def _band(score: float) -> int:
    """Return the number from 0 to 4 of the band of a score from 0 to 1."""
    # a rounding error must not move a score to the band below; 1 belongs to the last band
    return min(int(score * _BANDS + 1e-9), _BANDS - 1)
