"""The published examples, and the page that is made of them."""

import pytest

from ragbench.score.retrieval import MEASURES
from tests.conformance.examples import EXAMPLES, score
from tests.conformance.page import oracles_of, render


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["example"])
def test_the_true_value_is_what_ragbench_says(example):
    values = score(example)

    for name, true in example["values"].items():
        assert values[name] == pytest.approx(true, abs=5e-8), name


@pytest.mark.parametrize("name", MEASURES.table)
def test_every_measure_has_an_oracle(name):
    assert oracles_of(name)


def test_the_page_is_what_the_examples_and_the_oracles_say(repository, request):
    path = repository / "docs" / "conformance.md"
    if request.config.getoption("--update-golden"):
        path.write_text(render(), encoding="utf-8", newline="\n")

    assert path.read_text(encoding="utf-8") == render(), "stale: run make golden"
