"""Every kept input, and sixty new ones for each target; `make fuzz` tries as many as one likes."""

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz import figures
from tests.fuzz.__main__ import CORPUS, corpus_of, ends_well, fuzz_at_random, fuzz_by_coverage
from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS, try_one

pytestmark = pytest.mark.slow  # up to a second for each target


@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_ends_well(name):
    inputs = corpus_of(name)

    assert len(inputs) > 1, "a target without a corpus finds little"
    for data in inputs:
        try_one(name, data)


@pytest.mark.parametrize("name", TARGETS)
def test_new_inputs_end_well(name):
    # With a seed: what is red here is red again.
    rng, inputs = random.Random(0), corpus_of(name)
    for _ in range(25):
        try_one(name, mutated(inputs, rng))


def test_every_corpus_has_its_target():
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def test_seconds_are_those_of_the_processor(monkeypatch):
    # A machine that does something else for an hour takes nothing from what is tried.
    used, waited = iter(range(1_000)), iter(range(0, 10**9, 3_600))
    monkeypatch.setattr(time, "process_time", lambda: float(next(used)))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(waited)))

    done = fuzz_at_random("stage", seconds=5, seed=0)

    assert (done.inputs, done.by, done.findings) == (5, "chance", 0)


def test_the_longest_go_at_a_target_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FIGURES", tmp_path / "figures.json")
    figures.FIGURES.write_text("[]")
    for seconds in (1.0, 600.0, 5.0):
        figures.record(figures.Fuzzed("stage", "chance", 7, 0, seconds))

    assert figures.recorded()["stage"].seconds == 600.0


def test_an_end_of_the_fuzzer_is_a_finding():
    first = figures.Fuzzed("stage", "coverage", 7, 1, 2.0)

    both = first.plus(figures.Fuzzed("stage", "coverage", 3, 0, 4.0), ended=1)

    assert both == figures.Fuzzed("stage", "coverage", 10, 2, 6.0)


def test_an_input_at_which_the_fuzzer_ended_is_tried_alone(tmp_path, monkeypatch, warm):
    # Kept when the fuzzer's own memory was used up, it is a finding if it fails by itself.
    monkeypatch.chdir(Path(__file__).parents[2])
    warm.write_python(tmp_path / "python")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    broken = tmp_path / "a_folder"
    broken.mkdir()
    good = CORPUS / "run" / "small.trec"

    assert ends_well("run", good)
    assert not ends_well("run", broken)


@pytest.mark.parametrize(("alone", "findings"), [(True, 0), (False, 1)])
def test_an_end_counts_where_its_input_fails_alone(tmp_path, monkeypatch, alone, findings):
    monkeypatch.setattr(fuzz, "FINDINGS", tmp_path)
    monkeypatch.setattr(fuzz, "ends_well", lambda name, path: alone)
    (tmp_path / "run").mkdir()

    def end_at_an_input(command, **_):
        (tmp_path / "run" / "oom-1").write_bytes(b"q 0 d 1")
        figures_of_it = {"target": "run", "by": "coverage", "inputs": 3, "findings": 0}
        fuzz.left_in("run").write_text(json.dumps({**figures_of_it, "seconds": 5.0}))
        return subprocess.CompletedProcess(command, 71)

    monkeypatch.setattr(subprocess, "run", end_at_an_input)

    done = fuzz_by_coverage("run", seconds=5, seed=0)

    assert (done.findings, done.inputs) == (findings, 3)
