"""`summary.json` and `manifest.json` of a run folder, read strictly: all else relies on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragbench.data.runs.baseline_check import Checked
from ragbench.data.runs.run_folder import MANIFEST_SCHEMA, SUMMARY_SCHEMA, read_json
from ragbench.records.codec import kind


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the summary of a run folder.

    Raises:
        DataError: It is missing, or not what `ragbench run` writes; names the field.
    """
    summary = read_json(folder / "summary.json", SUMMARY_SCHEMA)
    top = Checked(folder / "summary.json", summary)
    for key in ("name", "run_id"):
        top.text(key)
    top.text_or_null("baseline")
    top.truth("complete")
    for system in top.items("systems"):
        _check_system(system)
    for gate in top.items("gates"):
        for key in ("gate", "system", "verdict", "why"):
            gate.text(key)
    return summary


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a run folder.

    Raises:
        DataError: It is missing, or not what `ragbench run` writes; names the field.
    """
    manifest = read_json(folder / "manifest.json", MANIFEST_SCHEMA)
    top = Checked(folder / "manifest.json", manifest)
    fingerprints = top.mapping("data")
    for part in fingerprints.fields:
        fingerprints.text(part)
    return manifest


def _check_system(system: Checked) -> None:
    system.text("name")
    for key in ("retriever", "generator"):
        system.text_or_null(key)
    scores = system.mapping("scores")
    for name in scores.fields:
        _check_score(scores.mapping(name))


def _check_score(score: Checked) -> None:
    score.number_or_null("mean")
    for key in ("n", "not_applicable"):
        score.whole_number(key)
    for key in ("direction", "aggregate"):
        score.word(key)
    score.text("signature")
    if "range" in score.fields:  # older runs have none; what needs it says so
        score.range()
    if "early" in score.fields:
        score.early()
    causes = score.mapping("failed")
    for cause in causes.fields:
        causes.whole_number(cause)
    for key in ("interval", "bounds"):
        ends = score.fields.get(key)
        if ends is not None and not _is_pair(ends):
            raise score.error(f"'{key}' is {kind(ends)}", allowed="[low, high], or null")


def _is_pair(ends: Any) -> bool:
    return (
        isinstance(ends, list)
        and len(ends) == 2
        and all(end is None or type(end) in (int, float) for end in ends)
    )
