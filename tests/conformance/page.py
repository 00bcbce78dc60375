"""Writes `docs/conformance*.md`: everything that is computed, and what it is compared with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ragbench import stats
from ragbench.score.retrieval import MEASURES
from ragbench.score.text import METRICS
from tests.conformance import measures, metrics, statistics
from tests.conformance.examples import EXAMPLES, score
from tests.conformance.odd_inputs import ODD_INPUTS, show
from tests.conformance.reference import Reference, compare

DOCS = Path(__file__).parents[2] / "docs"

INTRODUCTION = """\
# Conformance

Every measure, metric, statistic and coefficient of agreement has a reference implementation here,
with the number of compared values and the largest difference. This page has the measures of
rankings. Further pages: [metrics of answers and statistics](conformance-answers.md), [odd inputs
and published examples](conformance-examples.md).

`make conformance` (`python -m tests.conformance`) writes the pages; `make generated` adds new rows.
A test computes every row again on a twentieth of the cases. It fails if a page is out of date, if a
difference exceeds its bar, or if a score has no row.

The bar is the largest allowed difference. A bar of 0 asks for the same bits. A bar of 1e-12
allows another order of the same sums, or the logarithm of another library. Larger bars allow for
32-bit floats, an optimiser or random draws, as the row says. `plainly` marks a reference that the
tests write out from the definition.
"""

ANSWERS_INTRODUCTION = """\
# Conformance: metrics of answers and statistics

[Conformance](conformance.md) explains the columns.
"""

EXAMPLES_INTRODUCTION = """\
# Conformance: odd inputs and published examples

[Conformance](conformance.md) has the reference of each score.
"""

MEASURES_TEXT = """\
The random cases contain ties, documents retrieved twice, negative grades, queries without a hit
or a relevant document, ids in several scripts, and scores such as 1e-45, -0.0 and 1e39. Values
are compared query by query.

- pytrec_eval is trec_eval 9; the reference of `trec_eval: 9`. The tests also compare `trec_eval:
  10` with it, on scores that 32-bit floats represent exactly. `iprec_at_recall` and `11pt_avg`
  are excluded, because version 10 rounds recall differently. Other relevance levels, judged
  documents only, and repeated documents are compared too.
- `rbp` of trec_eval 10 is no reference: it reads two uninitialised variables.
- `ties: average`, plainly, is the mean over all orders of tied documents.
"""

METRICS_TEXT = """\
The cases are predictions with one to three references. They contain repeated words, punctuation,
entities, several scripts, unusual spaces and empty texts. The two metrics with a model use tiny
models with random weights; other tests use a trained model.
"""

STATISTICS_TEXT = """\
The cases are typical scores of an evaluation: few distinct values, many ties. Two bootstraps draw
different resamples, so their limits are compared in units of the standard error of the mean.
"""

WITHOUT_TEXT = """\
All other scores have a row on the other two pages.
"""

ODD_TEXT = """\
For these inputs a package returns a value against its own definition, refuses valid input, or
returns several values for one input. Both columns are computed when this page is written.
"""

EXAMPLES_TEXT = """\
Worked examples of teaching material, with the value that ragbench computes. Where a source
printed another one, it says why.
"""


def public_statistics() -> list[str]:
    """Return the functions of `ragbench.stats`; its records are what these return."""
    return [name for name in stats.__all__ if not isinstance(getattr(stats, name), type)]


def _comparisons(module: ModuleType, names: Iterable[str], times: int, page: str) -> str:
    """Print a row a comparison, by name; rows that a page has are not compared again."""
    old_rows = {(line[1], line[2], line[5]): line.groups() for line in _LINE.finditer(page)}
    by_name = [r for name in names for r in module.REFERENCES if r.name == name]
    alone = [[reference] for reference in by_name if reference.by != measures.TIES]
    with_ties = [reference for reference in by_name if reference.by == measures.TIES]
    rows = []
    for references in [*alone, with_ties]:
        if references:
            head = _head(references)
            rows.append(old_rows.get(head) or _row(head, references, times))
    return _table(["", "compared with", "values", "largest difference", "bar"], rows)


def _head(references: Sequence[Reference]) -> tuple[str, str, str]:
    """Return what tells a row from others: names, reference and bar."""
    cell = ", ".join(f"`{reference.name}`" for reference in references)
    return cell, references[0].by, _number(references[0].bar)


def _row(
    head: tuple[str, str, str], references: Sequence[Reference], times: int
) -> tuple[str, ...]:
    """Compare the references of a row: all values, and the largest difference."""
    name, by, bar = head
    agreements = [compare(reference, times) for reference in references]
    values = sum(agreement.values for agreement in agreements)
    return name, by, f"{values:,}", _number(max(a.largest for a in agreements)), bar


def _number(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def _without_reference(*_: object) -> str:
    reasons: dict[str, str] = {}
    for module in (measures, metrics, statistics):
        reasons |= module.WITHOUT_REFERENCE
    rows = [[f"`{name}`", reason] for name, reason in reasons.items()]
    return f"{WITHOUT_TEXT}\n{_table(['', 'why, and what is tested instead'], rows)}"


def _odd_inputs(*_: object) -> str:
    rows = [[odd.by, odd.subject, show(odd.theirs), show(odd.ours), odd.why] for odd in ODD_INPUTS]
    head = ["reference", "input", "it gives", "ragbench gives", "what ragbench does"]
    return f"{ODD_TEXT}\n{_table(head, rows)}"


def _examples(*_: object) -> str:
    rows = []
    for example in EXAMPLES:
        values = score(example)
        text = "<br>".join(f"`{name}` {values[name]:.4f}" for name in example["values"])
        note = example.get("why", "")
        rows.append([example["source"], _setting(example), example.get("printed", ""), text, note])
    head = ["source", "example", "printed", "true", "note"]
    return f"{EXAMPLES_TEXT}\n{_table(head, rows)}"


def _setting(example: dict[str, Any]) -> str:
    ties = example.get("ties")
    return f"{example['example']} (`ties: {ties}`)" if ties else example["example"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _section_of(text: str, module: ModuleType, names: Iterable[str]) -> Callable[[int, str], str]:
    return lambda times, page: f"{text}\n{_comparisons(module, names, times, page)}"


# Heading -> what stands below it, given how many times the cases, and a page to keep lines of.
SECTIONS: dict[str, Callable[[int, str], str]] = {
    "Measures of rankings": _section_of(MEASURES_TEXT, measures, MEASURES.table),
    "Metrics of answers": _section_of(METRICS_TEXT, metrics, METRICS.table),
    "Statistics and agreement": _section_of(STATISTICS_TEXT, statistics, public_statistics()),
    "Without a reference": _without_reference,
    "Odd inputs": _odd_inputs,
    "Published examples": _examples,
}


# page -> its first lines and its sections
PAGES = {
    "conformance.md": (INTRODUCTION, ("Measures of rankings",)),
    "conformance-answers.md": (
        ANSWERS_INTRODUCTION,
        ("Metrics of answers", "Statistics and agreement"),
    ),
    "conformance-examples.md": (
        EXAMPLES_INTRODUCTION,
        ("Without a reference", "Odd inputs", "Published examples"),
    ),
}


def render(name: str, times: int = 1, page: str = "") -> str:
    """Return a page; what it has already is not compared again."""
    introduction, headings = PAGES[name]
    parts = [f"## {h}\n\n{SECTIONS[h](times, section(page, h))}" for h in headings]
    return "\n".join([introduction, *parts])


def section(page: str, heading: str) -> str:
    """Return the text below a heading of a page."""
    return re.split(r"^## ", page.partition(f"## {heading}\n\n")[2], flags=re.MULTILINE)[0].rstrip()


# A comparison: name, with what, values, largest difference, bar.
_LINE = re.compile(r"^\| (`[^|]+`) \| ([^|]+) \| ([\d,]+) \| (\S+) \| (\S+) \|$", re.MULTILINE)


def without_figures(text: str) -> str:
    """Leave out counts and differences: a test takes fewer cases, a machine has other last bits."""
    return _LINE.sub(r"| \1 | \2 | \5 |", text)


def above_their_bar(text: str) -> list[str]:
    """Return the lines whose largest difference is above its bar."""
    return [line[0] for line in _LINE.finditer(text) if float(line[4]) > float(line[5])]
