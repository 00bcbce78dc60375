"""Seeded cases of the awkward kind: rankings with ties and odd ids, scores, differences."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray

IDS = ["d", "d1", "d10", "d2", "D2", "a b", "x#3", "é", "e\u0301", "語", "\uffee", "\U0001f600"]
# Scores that 32-bit floats hold exactly: trec_eval 9 and 10 order them alike.
EXACT = [-1.5, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0**-126, 1024.0]
# Scores that tie as 32-bit floats, or leave their range.
ROUGH = [*EXACT, 1e-45, 1e38, -1e38, 1e39, 1e40, 1.00000001, 1.0, 0.1, 0.1 + 1e-9, 1e-300]
GRADES = [-2, -1, 0, 0, 0, 1, 1, 1, 2, 3, 4, 7]

Qrels = dict[str, dict[str, int]]
Scores = dict[str, dict[str, float]]


def draw(seed: int, n: int, scores: list[float] = EXACT) -> tuple[Qrels, Scores]:
    """Draw n queries with judgements, and a run that lacks some of them and has others.

    pytrec_eval crashes on a query without a grade from 0 up, and on one without a hit, so neither
    is drawn; other tests look at those.
    """
    source = random.Random(seed)
    qrels, run = {}, {}
    for number in range(n):
        ids = [*IDS, *(f"n{i}" for i in range(source.choice([0, 0, 5, 60])))]
        judged = source.sample(ids, source.randint(1, min(len(ids), 25)))
        grades = {document: source.choice(GRADES) for document in judged}
        grades[judged[0]] = abs(grades[judged[0]])
        qrels[f"q{number}"] = grades
        hits = source.sample(ids, source.randint(1, len(ids)))
        if source.random() < 0.95:
            few = source.sample(scores, source.randint(1, len(scores)))
            run[f"q{number}"] = {document: source.choice(few) for document in hits}
    run["unjudged"] = {"d": 1.0}
    return qrels, run


def with_repetitions(run: Scores, seed: int) -> dict[str, list[Any]]:
    """Return ranked lists that repeat some of their documents further down."""
    source = random.Random(seed)
    lists = {}
    for query, hits in run.items():
        ranking = sorted(hits, key=lambda document: -hits[document])
        lists[query] = [*ranking, *source.choices(ranking, k=3)]
    return lists


def samples(times: int, n: int, size: tuple[int, int] = (3, 40)) -> Iterator[Array]:
    """Scores as evaluations give them: few values, many alike, now and then any number."""
    rng = np.random.default_rng(5)
    for _ in range(n * times):
        length = int(rng.integers(*size))
        few = rng.choice([0.0, 0.1, 0.25, 0.5, 2 / 3, 1.0], length)
        yield np.where(rng.random(length) < 0.7, few, rng.random(length))


def differences(times: int, n: int, size: tuple[int, int] = (3, 40)) -> Iterator[Array]:
    rng = np.random.default_rng(6)
    for values in samples(times, n, size):
        d = values * rng.choice([-1.0, 0.0, 1.0], len(values)) + 0.05 * rng.random()
        if np.ptp(d) > 1e-9:  # a t test of equal differences is among the odd inputs
            yield d
