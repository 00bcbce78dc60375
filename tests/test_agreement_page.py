"""docs/agreement.md is what benchmarks/agreement.py writes: its parts, and two columns computed."""

import importlib.util
import re

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def benchmark(repository):
    spec = importlib.util.spec_from_file_location(
        "agreement_benchmark", repository / "benchmarks/agreement.py"
    )
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs/agreement.md").read_text(encoding="utf-8")


def test_every_set_and_every_metric_has_its_rows(benchmark, page):
    # Without any data: a metric is in the tables of a set, or said not to be computed there.
    assert page.startswith(benchmark.HEAD)
    sections = re.split(r"(?m)^## ", page)[1:]
    assert len(sections) == len(benchmark.SETS) + 1, "and people with people"
    for text in sections[:-1]:
        for name in (*benchmark.LEXICAL_METRICS, *benchmark.NEURAL_METRICS):
            assert re.search(rf"(?m)^[|-] {re.escape(name)}(?: \(MiniLM\))?[ :]", text), name


def test_two_metrics_and_people_are_what_the_command_writes(benchmark, page, lent_data):
    rated = benchmark.llmbar(lent_data)
    lines = benchmark.section(rated, ["token_f1", "chrf"], report=lambda _: None)

    rows = [line for line in lines if line.startswith(("| token_f1", "| chrf"))]
    assert len(rows) == 2
    for line in [f"## {rated.title}", rated.about, *rows, *benchmark.people(lent_data)[:-1]]:
        assert line in page.splitlines()


def test_what_the_command_counts(benchmark):
    # Four pairs by hand: won, lost, tied, and one without a score.
    values = np.array([2.0, 1.0, 3.0, 4.0, 5.0, 5.0, np.nan, 1.0])
    preferred = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    rated = benchmark.RatedSet(
        name="four", title="Four", about="", items=[], groups=list("aabbccdd"), systems=[],
        ratings={"preferred": preferred}, table=benchmark.pair_table,
    )  # fmt: skip

    (*_, row) = benchmark.pair_table(rated, [benchmark.Scores("own", values)])

    assert row.startswith("| own | 0.500 [")
    assert row.endswith("] | 1 | 3 |")
