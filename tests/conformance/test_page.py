"""Pages on conformance: they are whole, not stale, and nothing on them is above its bar."""

import re

import pytest

from ragbench.score.retrieval import MEASURES
from ragbench.score.text import METRICS
from tests.conformance import measures, metrics, statistics
from tests.conformance.examples import EXAMPLES, score
from tests.conformance.page import (
    DOCS,
    PAGES,
    SECTIONS,
    above_their_bar,
    public_statistics,
    render,
    section,
    without_figures,
)
from tests.conformance.reference import Part, Reference, compare

PUBLIC = [
    *((name, measures) for name in MEASURES.table),
    *((name, metrics) for name in METRICS.table),
    *((name, statistics) for name in public_statistics()),
]


@pytest.mark.parametrize(("name", "module"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_everything_is_held_against_something_or_says_why_not(name, module, repository):
    by = [reference.by for reference in module.REFERENCES if reference.name == name]
    reason = module.WITHOUT_REFERENCE.get(name, "")

    assert bool(by) != bool(reason), "a Reference, or a reason in WITHOUT_REFERENCE of its test"
    assert len({*by}) == len(by), "two lines say the same"
    if reason:
        (tests,) = re.findall(r"tests/\S+\.py", reason)
        assert name in (repository / tests).read_text(encoding="utf-8")


def test_nothing_is_held_against_something_that_is_not_there():
    names = {(name, module) for name, module in PUBLIC}
    for module in (measures, metrics, statistics):
        names_in_module = {reference.name for reference in module.REFERENCES} | {
            *module.WITHOUT_REFERENCE
        }
        assert {(name, module) for name in names_in_module} <= names


@pytest.mark.slow(first=True)  # seconds each: a case in twenty of every reference
@pytest.mark.filterwarnings("ignore")  # the other packages' own
@pytest.mark.parametrize("heading", SECTIONS)
def test_the_page_is_what_the_command_writes(heading):
    new_section = SECTIONS[heading](Part(20), "").rstrip()
    [name] = [name for name, (_, headings) in PAGES.items() if heading in headings]
    old_section = section((DOCS / name).read_text(encoding="utf-8"), heading)

    assert without_figures(new_section) == without_figures(old_section), (
        "stale: run make conformance"
    )
    assert above_their_bar(new_section) == above_their_bar(old_section) == []


def test_the_command_writes_all_sections(monkeypatch):
    for heading in SECTIONS:
        monkeypatch.setitem(SECTIONS, heading, lambda times, page: f"{times} times\n{page}")

    pages = {name: render(name, 3) for name in PAGES}

    text = "\n".join(pages.values())
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [*SECTIONS]
    for name, page in pages.items():
        assert {section(page, heading) for heading in PAGES[name][1]} == {"3 times"}
        assert page.startswith((DOCS / name).read_text(encoding="utf-8").partition("\n## ")[0])


def test_what_a_page_has_is_not_compared_again(monkeypatch, assert_message):
    def pairs(times):
        yield 1.0, 1.25

    references = [Reference("map", by, 0.0, pairs) for by in ("theirs", "plainly")]
    monkeypatch.setattr(measures, "REFERENCES", references)
    line = "| `map` | theirs | 7 | 0 | 0 |"

    *_, first, second = SECTIONS["Measures of rankings"](1, f"{line}\n").splitlines()

    assert first == line
    assert_message(second)


@pytest.mark.parametrize(
    ("ours", "theirs", "bar", "holds", "largest"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.0], 0.0, True, 0.0, id="the same bits"),
        pytest.param([1.0], [1.0 + 2**-52], 0.0, False, 2**-52, id="the last bit"),
        pytest.param([1.0], [1.0 + 2**-52], 1e-12, True, 2**-52, id="within the bar"),
        pytest.param([float("nan")], [float("nan")], 0.0, True, 0.0, id="both have no value"),
        pytest.param([float("nan")], [0.0], 1.0, False, float("inf"), id="one has no value"),
        pytest.param([float("inf")], [float("inf")], 0.0, True, 0.0, id="both infinite"),
        pytest.param([1.0, 2.0], [1.0], 1.0, False, float("inf"), id="not as many"),
        pytest.param([], [], 1.0, False, 0.0, id="nothing compared"),
    ],
)
def test_what_is_equal(ours, theirs, bar, holds, largest):
    agreement = compare(Reference("a", "b", bar, lambda times: [(ours, theirs)] * times))

    assert (agreement.holds, agreement.largest) == (holds, largest)


def test_a_difference_above_its_bar_is_found_on_the_page(assert_message):
    lines = "| `a` | b | 1,000 | 2.0e-13 | 1.0e-12 |\n| `c` | d | 5 | 2.0e-12 | 1.0e-12 |\n"

    assert_message(above_their_bar(lines))
    assert without_figures(lines) == without_figures(lines.replace("2.0e", "3.0e"))
    assert without_figures(lines) != without_figures(lines.replace("`c` | d", "`c` | e"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["example"])
def test_the_true_value_is_what_ragbench_says(example):
    values = score(example)

    for name, true in example["values"].items():
        assert values[name] == pytest.approx(true, abs=5e-8), name
