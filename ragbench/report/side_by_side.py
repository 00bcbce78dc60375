"""Several runs as one summary: every page can draw it as it draws that of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def join_summaries(
    summaries: Sequence[Json], names: Sequence[str], label: Callable[[int, str], str]
) -> dict[str, Any]:
    """Put the systems of several runs on one page, told apart by their labels.

    Args:
        summaries: The contents of summary.json; the first is the base of the others.
        names: What the page calls each run; no two are the same.
        label: What the page calls a system: takes the number of its run, and its name.

    Returns:
        A mapping like that of summary.json.
    """
    runs = list(enumerate(summaries))
    return {
        "name": " and ".join(names),
        "complete": all(each["complete"] for each in summaries),
        "dataset": _common(summaries, "dataset") or {},
        "confidence": _common(summaries, "confidence") or 0.95,
        # no system is called so: names have no blanks
        "baseline": f"run {names[0]}",
        "judges": {k: v for each in summaries for k, v in (each.get("judges") or {}).items()},
        "systems": [
            {**system, "name": label(run, system["name"])}
            for run, each in runs
            for system in each["systems"]
        ],
        "gates": [
            {**gate, "system": label(run, gate["system"])}
            for run, each in runs
            for gate in each["gates"]
        ],
        "warnings": _of_each(summaries, names, "warnings") + _filled(summaries, names),
        "notes": _of_each(summaries, names, "notes") + _left_out(summaries, names),
    }


def _common(summaries: Sequence[Json], key: str) -> Any:
    """What all runs say alike; None where they differ."""
    first = summaries[0].get(key)
    return first if all(each.get(key) == first for each in summaries) else None


def _of_each(summaries: Sequence[Json], names: Sequence[str], key: str) -> list[str]:
    return [
        f"{name}: {line}"
        for name, each in zip(names, summaries, strict=True)
        for line in each.get(key) or ()
    ]


def _filled(summaries: Sequence[Json], names: Sequence[str]) -> list[str]:
    """Say which judgements a model made: they are never taken for those of people."""
    return [
        f"{name}: {each['fill']['model']} judgements are by {each['fill']['model_name']}"
        for name, each in zip(names, summaries, strict=True)
        if each.get("fill")
    ]


def _left_out(summaries: Sequence[Json], names: Sequence[str]) -> list[str]:
    return [
        f"{name}: what judges prefer is on the page of the run alone"
        for name, each in zip(names, summaries, strict=True)
        if each.get("preferences")
    ]
