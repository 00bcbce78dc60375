"""Every kept input, and some hundred new ones for each target."""

import random

import pytest

from tests.fuzz.__main__ import CORPUS, corpus_of
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
