"""The block `statistics`: which test and correction go together, and what sorts the queries."""

from __future__ import annotations

from typing import Any

from ragbench.config.blocks import check_block
from ragbench.config.matching import METADATA
from ragbench.config.references import Context, check_reference
from ragbench.config.scoring_blocks import SLICES, Statistics
from ragbench.config.tree import Item
from ragbench.registry import nearest


def check_statistics(item: Item, context: Context) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check the block; what is wrong goes into the context's report.

    Returns:
        The valid values, and the block as plain data with its defaults.
    """
    values, written = check_block(item, Statistics, context.report)
    baseline = item.get("baseline")
    # without retrievers the systems are those of the records, known when they are read
    if baseline is not None and isinstance(baseline.value, str) and context.retrievers:
        check_reference(baseline, context)
    _check_test(item, values, context)
    if values.get("correction") == "bh":
        values["correction"] = "benjamini_hochberg"
    cluster, slices = item.get("cluster"), item.get("slices")
    if cluster is not None and isinstance(cluster.value, str):
        _check_field(cluster, (), context)
    if slices is not None and values.get("slices"):
        for field in slices.items:
            _check_field(field, SLICES, context)
        values["slices"] = tuple(dict.fromkeys(values["slices"]))
    return values, written


def _check_test(item: Item, values: dict[str, Any], context: Context) -> None:
    """Refuse what a test cannot do."""
    test, correction = values.get("test", "randomization"), item.get("correction")
    if correction is not None and correction.value == "max_t" and test != "randomization":
        found = f"max_t is made of sign flips, and the test is {test}"
        context.report.add(correction.place, correction.path, found, "test: randomization")
    if test == "mcnemar" and values.get("cluster") is not None:
        place = item.entries["test"].item
        found = "mcnemar counts single queries, and the units are clusters"
        context.report.add(place.place, place.path, found, "randomization, t, wilcoxon")


def _check_field(item: Item, words: tuple[str, ...], context: Context) -> None:
    value = str(item.value)
    if value not in words and not METADATA.fullmatch(value):
        found = f"{item.shown()} is no key of the metadata"
        allowed = "metadata.<key>, such as metadata.topic"
        if words:
            found, allowed = f"unknown field {item.shown()}", f"{', '.join(words)}, {allowed}"
        context.report.add(item.place, item.path, found, allowed, nearest(value, words))
