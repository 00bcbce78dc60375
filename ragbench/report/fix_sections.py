"""Groups of lost questions, and contracts of generators, as sections of a fix list."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.records.contract import GeneratorContract, PassageKind
from ragbench.records.fixes import FixList
from ragbench.report.base import Grid
from ragbench.report.text import draw, with_interval
from ragbench.types.display import printable

_GROUPS = 5  # that are listed, those of the smallest p-values
_LISTED = 10  # ids in the terminal
_ROWS = 200  # questions on the page
_PASSAGES: dict[PassageKind, str] = {
    "gold_read": "gold read",
    "gold_first": "gold first",
    "gold_lower": "gold lower",
    "gold_not_read": "gold not read",
    "gold_alone": "gold alone",
    "wrong_passages": "wrong passages",
}
_RATE_HEADS = ("passages", "questions", "right")
_PAIR_HEADS = ("pair", "predicted right", "counted")


def group_lines(fixes: FixList) -> Iterator[str]:
    """Yield a sentence for each group of lost questions, with their ids; or that there is none.

    Nothing without lost questions.
    """
    groups = fixes.groups
    if groups is None or not groups.lost:
        return
    yield ""
    for place, sentence in enumerate(groups.sentences[:_GROUPS]):
        yield printable(sentence)
        # Without groups there is still one sentence, which has no questions.
        queries = groups.groups[place].queries if groups.groups else ()
        names = [printable(fixes.labels.get(query, query)) for query in queries[:_LISTED]]
        if names:
            yield f"  {', '.join(names)}{', ...' if len(queries) > _LISTED else ''}"
    if len(groups.groups) > _GROUPS:
        yield f"  and {len(groups.groups) - _GROUPS} more groups: --json"


def contract_lines(fixes: FixList, width: int) -> Iterator[str]:
    """Yield the shares of right answers of each generator, and the predictions of its pairs."""
    for contract in fixes.contracts:
        shares = [
            f"{rate.right:.0%} with {_PASSAGES[rate.passages]}"
            for rate in contract.rates
            # First and lower gold are parts of `gold read`: beside it in one sentence they read as
            # others.
            if rate.right is not None and rate.passages not in ("gold_first", "gold_lower")
        ]
        yield ""
        yield from draw(
            [[f"{printable(contract.generator)} is right on {', '.join(shares)}"]], width
        )
        rows = [
            (f"  {pair}", f"predicted {right}", counted and f"counted {counted}")
            for pair, right, counted in _pair_rows(contract)
        ]
        yield from draw(list(zip(*rows, strict=True)), width) if rows else ()


def section_grids(fixes: FixList) -> Iterator[Grid]:
    """Yield tables of the groups, then of the shares and the predictions of each generator."""
    groups = fixes.groups
    if groups is not None and groups.lost:
        lines = tuple((printable(sentence),) for sentence in groups.sentences)
        yield Grid("what lost questions have in common", ("group",), lines, words=True)
        phrases: dict[str, list[str]] = {}
        for group in groups.groups:
            for query in group.queries:
                phrases.setdefault(query, []).append(printable(group.phrase))
        rows = tuple((printable(query), "; ".join(texts)) for query, texts in phrases.items())
        if rows:
            heads = ("question", "has in common")
            yield Grid("lost questions of these groups", heads, rows[:_ROWS], True, True)
    for contract in fixes.contracts:
        name = printable(contract.generator)
        rates = tuple(
            (
                _PASSAGES[rate.passages],
                str(rate.questions),
                with_interval(rate.right, rate.interval),
            )
            for rate in contract.rates
        )
        yield Grid(f"{name}: share of right answers by what it reads", _RATE_HEADS, rates, True)
        if pairs := tuple(_pair_rows(contract)):
            yield Grid(f"{name}: right answers of its pairs", _PAIR_HEADS, pairs, True)


def _pair_rows(contract: GeneratorContract) -> Iterator[tuple[str, str, str]]:
    """Yield pair, predicted count with limits, and the count of the run; '' if it has none."""
    for pair in contract.pairs:
        low, high = pair.interval
        predicted = f"{pair.predicted:.0f} [{low:.0f}, {high:.0f}] of {pair.questions}"
        counted = "" if pair.right is None else str(pair.right)
        yield printable(f"{pair.retriever}/{contract.generator}"), predicted, counted
