"""docs/agreement.md is what benchmarks/agreement.py writes: its parts, and two columns computed."""

import importlib
import re

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def benchmark(repository):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(repository / "benchmarks")
        yield importlib.import_module("agreement")


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
    scores = [benchmark.score(("llmbar", name, lent_data)) for name in ("token_f1", "chrf")]
    lines = benchmark.section(rated, scores)

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


def test_rows_that_are_not_checked(benchmark):
    lines = [
        "## Set",
        "",
        "| ter | 0.5 | 9 |",
        "| terse | 0.4 | 9 |",
        "- meteor: not computed: why",
    ]

    assert benchmark.absent_metrics(lines) == ["meteor"]
    assert benchmark.known_rows(lines, {"ter", "meteor"}) == ["## Set", "| terse | 0.4 | 9 |"]


@pytest.mark.parametrize(("figure", "code"), [("0.590", 0), ("0.591", 1)])
def test_a_figure_that_is_not_that_of_the_page_fails(benchmark, monkeypatch, figure, code):
    heading = "## LLMBar"
    page = f"# Page\n\n{heading}\n\n| token_f1 | 0.590 |\n| meteor | 0.600 |\n\n## People\n\nthree"
    computed = [
        heading,
        "",
        f"| token_f1 | {figure} |",
        "",
        "- meteor: not computed: no WordNet",
        "",
    ]
    monkeypatch.setattr(benchmark, "sections", lambda data, jobs: {"llmbar": computed})
    monkeypatch.setattr(benchmark, "people", lambda data: ["## People", "", "three", ""])

    with pytest.raises(SystemExit) as ended:
        benchmark.check(page, None, [])

    assert ended.value.code == code
