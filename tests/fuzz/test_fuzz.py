"""Every kept input, and some hundred new ones for each target."""

import random
import time

import pytest

from tests.fuzz import figures
from tests.fuzz.__main__ import CORPUS, corpus_of, fuzz_at_random
from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS, try_one

pytestmark = pytest.mark.slow  # up to a second for each target


@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_ends_well(name):
    kept = corpus_of(name)

    assert len(kept) > 1, "a target without a corpus finds little"
    for data in kept:
        try_one(name, data)


@pytest.mark.parametrize("name", TARGETS)
def test_new_inputs_end_well(name):
    """With a seed: what is red here is red again."""
    rng, kept = random.Random(0), corpus_of(name)
    for _ in range(300):
        try_one(name, mutated(kept, rng))


def test_every_corpus_has_its_target():
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def test_seconds_are_those_of_the_processor(monkeypatch):
    """A machine that does something else for an hour takes nothing from what is tried."""
    used, waited = iter(range(1_000)), iter(range(0, 10**9, 3_600))
    monkeypatch.setattr(time, "process_time", lambda: float(next(used)))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(waited)))

    done = fuzz_at_random("stage", seconds=5, seed=0)

    assert (done.inputs, done.by, done.findings) == (5, "chance", 0)


def test_the_longest_go_at_a_target_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "KEPT", tmp_path / "figures.json")
    figures.KEPT.write_text("[]")
    for seconds in (1.0, 600.0, 5.0):
        figures.record(figures.Fuzzed("stage", "chance", 7, 0, seconds))

    assert figures.recorded()["stage"].seconds == 600.0


def test_an_end_of_the_fuzzer_is_a_finding():
    first = figures.Fuzzed("stage", "coverage", 7, 1, 2.0)

    both = first.plus(figures.Fuzzed("stage", "coverage", 3, 0, 4.0), ended=1)

    assert both == figures.Fuzzed("stage", "coverage", 10, 2, 6.0)
