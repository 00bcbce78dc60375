"""What GitHub Actions shows: annotations at the lines of gates, and the summary of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.report.digits import printable

Json = Mapping[str, Any]

SUMMARY_LIMIT = 1024 * 1024
"""Bytes that GitHub takes from one step; more, and it shows nothing at all."""

_LEVELS = {"fail": "error", "undecided": "warning"}
_CUT = "\n\n(cut here: the report in the run folder has the rest)\n"


def annotate(summary: Json, file: str | None) -> list[str]:
    """Return a workflow command for each gate that did not pass, at its line of the config.

    Args:
        summary: The content of summary.json.
        file: The config, relative to the repository; None where gates are from a command line.

    Example:
        >>> gate = {"gate": "map >= 0.2", "system": "bm25", "verdict": "fail", "why": "50 % less",
        ...         "line": 7}
        >>> annotate({"gates": [gate]}, "a,b.yaml")
        ['::error file=a%2Cb.yaml,line=7,title=gate fail::map >= 0.2 (bm25): 50 %25 less']

    References:
        GitHub Actions, Workflow commands, Setting an error message; the escapes are those of
        its toolkit's `command.ts`.
    """
    lines = []
    for gate in summary["gates"]:
        if gate["verdict"] not in _LEVELS:
            continue
        level = "error" if gate.get("refused") else _LEVELS[gate["verdict"]]
        place = "" if file is None else f"file={_property(file)},"
        place += f"line={gate['line']}," if file is not None and gate.get("line") else ""
        system = f" ({gate['system']})" if gate.get("system") else ""
        text = _data(printable(f"{gate['gate']}{system}: {gate['why']}"))
        lines.append(f"::{level} {place}title=gate {gate['verdict']}::{text}")
    return lines


def step_summary(report: str) -> str:
    """Return a Markdown page, cut to what GitHub takes."""
    text = f"{report}\n"
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= SUMMARY_LIMIT:
        return text
    kept = data[: SUMMARY_LIMIT - len(_CUT.encode())].decode("utf-8", "ignore")
    return f"{kept.rpartition(chr(10))[0]}{_CUT}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
