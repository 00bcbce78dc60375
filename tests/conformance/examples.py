"""Reads `examples.yaml`, and scores its examples as a user would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ragbench import evaluate_run

EXAMPLES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("examples.yaml").read_text(encoding="utf-8")
)


def score(example: dict[str, Any]) -> dict[str, float]:
    """Return measure -> the mean that ragbench computes for an example."""
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for number, query in enumerate(example["queries"]):
        grades = query["grades"]
        scores = query.get("scores", range(0, -len(grades), -1))
        ids = [f"d{place:02}" for place in range(len(grades))]
        run[f"q{number}"] = dict(zip(ids, map(float, scores), strict=True))
        missed = {f"m{place:02}": grade for place, grade in enumerate(query.get("missed", []))}
        qrels[f"q{number}"] = dict(zip(ids, grades, strict=True)) | missed
    return evaluate_run(run, qrels, list(example["values"]), ties=example.get("ties", "docid")).mean
