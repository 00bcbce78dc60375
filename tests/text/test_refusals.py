"""Refusals: the bars of the benchmark, and the decisions that the documentation names."""

import importlib.util
from pathlib import Path

import pytest

from ragbench.text import refusals
from ragbench.text.refusals import is_refusal, refuses

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "refusals.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("refusals_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rule_meets_the_bars(benchmark):
    assert benchmark.check_bars(benchmark.read_replies()) == []


def test_halves_are_as_large(benchmark):
    """Thirty refusals and answers in each of eight languages, every second one only to measure."""
    replies = benchmark.read_replies()
    for language in ("en", "de", "fr", "es", "it", "pt", "zh", "ja"):
        for refusal in (True, False):
            rows = [r.half for r in replies if (r.language, r.refuses) == (language, refusal)]
            assert len(rows) >= 30
            assert rows == (["build", "measure"] * len(rows))[: len(rows)]
    assert len({reply.text for reply in replies}) == len(replies)


def test_a_benchmark_that_misses_is_told(benchmark):
    missed = [benchmark.Reply("en", "measure", True, "It opened in 1932.")] * 2
    taken = [benchmark.Reply("en", "measure", False, "I don't know.")]

    assert benchmark.check_bars([*missed, *taken]) == [
        "recall is below 0.9",
        "recall in en is below 0.7",
        "more than 0.02 of the answers are taken for refusals",
    ]


def test_the_cue_is_in_every_refusal(benchmark):
    """The cue only saves time: without it the same sentences are refusals."""
    cue, languages = refusals._read()
    plain = [refusals._plain(reply.text) for reply in benchmark.read_replies() if reply.refuses]
    found = [
        text for text in plain if any(refusals._compiled(p.refuses).search(text) for p in languages)
    ]

    assert len(found) > 250
    assert [text for text in found if not cue.search(text)] == []


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("I don't know.", True),
        ("I don\u2019t know.", True),
        ("The **provided passages** do not mention the mass. They tell of its colour.", True),
        ("Sorry. Unfortunately. I could not find it.", True),
        ('"I don\'t know."', True),
        ("None", True),
        ("", True),
        (" \n", True),
        ("...", True),
        ("I can't answer this. However, you may contact the museum.", True),
        ("It is red. The passages do not mention more.", False),
        ("It is red, but the passages do not mention more.", False),
        ("Unfortunately, the bridge was not opened until 1932.", False),
        ("He said: \u201cI don't know.\u201d", False),
        ("According to the documents, the device does not contain lead.", False),
        ("No.", False),
        ("Jeg ved det ikke.", False),  # Danish: no language of the rule
        ("I don't know the day, but it was in May.", None),
        ("The context does not say. In general, it takes a week.", None),
        ("The passages describe the bridge. No passage names a year.", None),
        ("Je ne sais pas, mais c'est probablement Paris.", None),
    ],
)
def test_decisions(reply, expected):
    assert refuses(reply) is expected


def test_long_replies_take_no_quadratic_time():
    """The expressions search 400 characters of a sentence, and 2,400 of a reply."""
    assert is_refusal("I don't know" + " and so on" * 10_000)
    assert not is_refusal("and so on " * 10_000 + "I don't know")
    assert refuses("The passages are old. " * 10_000 + "They do not say.") is False
