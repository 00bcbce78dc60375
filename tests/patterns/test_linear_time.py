"""Patterns of the package take steps in proportion to the length of any text.

Steps are counted, not seconds. Patterns and hostile texts are collected by rule, so that a pattern
is tested as soon as the package has it.
"""

import re
from collections import defaultdict
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import secrets
from ragbench.cli import cache as cache_command
from ragbench.cli import output
from ragbench.experiment.calls import Outcome
from ragbench.experiment.stages import retrieval
from ragbench.llm import completions
from ragbench.questions import checks
from ragbench.score.judge import markers
from ragbench.text import chunk, tokenize
from ragbench.text.refusals import is_refusal
from ragbench.types import Cause
from ragbench.types.spans import locate_quote
from tests.patterns.hostile import has_open_repeat, hostile_texts
from tests.patterns.machine import Machine, TooManySteps
from tests.patterns.places import (
    METHODS,
    PatternUse,
    names_with_patterns,
    open_places,
    pattern_uses,
)

pytestmark = pytest.mark.slow  # some hundred texts for each pattern

EXAMPLES = {
    "ragbench.cli.cache:_amount": lambda: cache_command._amount(
        "1h", {"h": 1.0, "d": 24.0}, "", ""
    ),
    "ragbench.cli.output:write_drawn": lambda: output.write_drawn("", ["\x1b[1m", "\x1b[0m"]),
    "ragbench.experiment.stages.retrieval:_with_remedy": lambda: retrieval._with_remedy(
        Outcome(None, Cause.ERROR, "10 hits"), 10
    ),
    "ragbench.llm.completions:_name_pattern": lambda: completions._name_pattern.__wrapped__("seed"),
    "ragbench.questions.checks:_pointers": checks._pointers.__wrapped__,
    "ragbench.score.judge.markers:_pattern": lambda: markers._pattern.__wrapped__("all"),
    "ragbench.secrets:_base64_pattern": lambda: secrets._base64_pattern.__wrapped__("aB+/"),
    "ragbench.secrets:_pattern": lambda: secrets._pattern.__wrapped__("a b/\u00e9"),
    "ragbench.secrets:_place_pattern": lambda: secrets._place_pattern.__wrapped__("me:pw@"),
    "ragbench.text.chunk:pattern_spans": lambda: [
        chunk.pattern_spans(pattern, "a b") for pattern in (chunk._WORD, chunk._TOKEN)
    ],
    "ragbench.text.tokenize:_article": lambda: [
        *map(tokenize._article.__wrapped__, tokenize.ARTICLES)
    ],
    "ragbench.text.tokenize:_unicode_word": tokenize._unicode_word.__wrapped__,
    "ragbench.types.spans:locate_quote": lambda: locate_quote("a b c", "a\nb"),
}
"""Calls of the functions that make a pattern of their arguments."""

SHORT_TEXTS = {"ragbench.text.refusal_expressions:compiled", "ragbench.text.refusals:_find_refusal"}
"""Functions whose patterns read 400 characters of a sentence, whatever its length."""


@cache
def open_uses():
    """Return module -> its patterns with a repeat without a limit."""
    uses = defaultdict(list)
    for use in pattern_uses(EXAMPLES):
        if has_open_repeat(use.pattern):
            uses[use.module].append(use)
    return uses


def use_of(pattern, method):
    return PatternUse("", "", re.compile(pattern), method)


def steps(use, text, most):
    """Return the steps of a pattern on a text; `most` + 1 if it takes more."""
    machine = Machine(use.pattern, most)
    try:
        machine.spans(text, use.method)
    except TooManySteps:
        return most + 1
    return machine.steps


def grows_faster(use, hostile, length, most):
    """Return True if twice the text takes more than 2.6 times the further steps, or too many."""
    counts = [steps(use, hostile.of_length(size * length), most) for size in (1, 2, 4)]
    if counts[-1] > most:
        return True
    return counts[2] - counts[1] > 2.6 * (counts[1] - counts[0]) + 3 * length


def sample(use, texts):
    """Return some of the texts, over all parts of a pattern; a long pattern has thousands."""
    n = 80 if len(use.pattern.pattern) < 1000 else 25
    return texts[:: 1 + len(texts) // n]


@pytest.mark.parametrize("module", names_with_patterns())
def test_twice_the_text_takes_twice_the_steps(module):
    for use in open_uses()[module]:
        for hostile in sample(use, hostile_texts(use.pattern)):
            # a repeat with a limit, such as {1,40}, grows until it is reached
            if grows_faster(use, hostile, 16, 20_000):
                assert not grows_faster(use, hostile, 200, 600_000), (use, hostile)


def test_each_pattern_of_arguments_has_an_example():
    assert open_places() == EXAMPLES.keys() | SHORT_TEXTS


@pytest.mark.parametrize("sentence", ["I don't know. ", "It opened in 1932, "])
def test_a_refusal_is_read_from_the_start(sentence):
    start = (sentence * 50)[:400]

    assert {is_refusal(start + end) for end in ("", " " * 9, "I don't know", ";" * 99)} == {
        is_refusal(start)
    }


@pytest.mark.parametrize("module", names_with_patterns())
def test_steps_are_of_the_matches_of_re(module):
    """The machine finds what `re` finds, so that it counts the steps of the same search."""
    for use in open_uses()[module]:
        for hostile in sample(use, hostile_texts(use.pattern)[::7]):
            text = hostile.of_length(12)
            assert Machine(use.pattern).spans(text, use.method) == spans_of_re(use, text), hostile


def spans_of_re(use, text):
    pattern = re.compile(use.pattern.pattern, use.pattern.flags)
    if isinstance(pattern.pattern, bytes):
        text = text.encode("latin-1", "replace")
    if use.method in ("match", "fullmatch", "search"):
        match = getattr(pattern, use.method)(text)
        return [match.span()] if match else []
    return [match.span() for match in pattern.finditer(text)]


SLOW = [
    r"\s+$",
    r"(a|a)*b",
    r"<T>.*?</T>",
    r"(a+)+b",
    r"\s*x\s*\s*y",
    r"(?:a?){9,}b",
    r"(\w+)\s*\1!",
]


@pytest.mark.parametrize("pattern", SLOW)
def test_patterns_that_are_known_to_be_slow_are_found(pattern):
    use = use_of(pattern, "search")

    assert any(grows_faster(use, text, 64, 60_000) for text in hostile_texts(use.pattern))


PARTS = st.sampled_from(
    ["a", "b*", "[ab]+?", "(a|b)", "(?:ab)*", r"\b", "^", "c{1,2}", "(?=b)", "$"]
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(PARTS, min_size=1, max_size=5), st.text("abc\n", max_size=12), st.sampled_from(METHODS)
)
def test_the_machine_matches_as_re_does(parts, text, method):
    use = use_of("".join(parts), method)

    assert Machine(use.pattern).spans(text, method) == spans_of_re(use, text)
