"""`manifest.json`: what a run depended on, and what it took."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib import metadata
from typing import Any

from ragbench import __version__
from ragbench.data.runs.run_folder import MANIFEST_SCHEMA
from ragbench.experiment.records import Choices, Noun, Plan, Results
from ragbench.secrets import redact

_PACKAGES = ("numpy", "bm25s", "nltk", "sacrebleu", "PyYAML")
"""Packages whose version may move a number."""


def make_manifest(plan: Plan, results: Results, choices: Choices, started: float) -> dict[str, Any]:
    """Return versions, data fingerprints, signatures, seeds and timings; never a secret."""
    return {
        "schema": MANIFEST_SCHEMA,
        "ragbench": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "seed": plan.config.seed,
        "choices": asdict(choices),
        "live": sorted(
            name
            for noun, names in _components(plan)
            for name in names
            if plan.component(noun, name) is None
        ),
        "versions": {
            name: redact(component.version, plan.config.environment)
            for noun, names in _components(plan)
            for name in names
            if (component := plan.component(noun, name)) is not None
            if component.version is not None
        },
        "data": dict(plan.collection.fingerprints),
        "queries": len(plan.queries),
        "signatures": {
            name: str(column.signature)
            for system in results.systems
            for name, column in system.columns.items()
        },
        "judging": {
            system: {name: use.manifest() for name, use in uses.items()}
            for system, uses in results.judge_uses.items()
        },
        **({"judging_passages": results.filled.use.manifest()} if results.filled else {}),
        **(
            {"judging_pairs": {each.judge: each.use.manifest() for each in results.preferences}}
            if results.preferences
            else {}
        ),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        # never below 0: a clock may be set back in the meantime
        "seconds": max(0.0, round(time.time() - started, 3)),
        "stages": {name: round(work.seconds, 4) for name, work in results.work.items()},
        "work": {
            name: {"items": work.items, "stored": work.stored}
            for name, work in results.work.items()
        },
    }


def _components(plan: Plan) -> tuple[tuple[Noun, Iterable[str]], ...]:
    return (
        ("retriever", plan.retrievers),
        ("generator", plan.generators),
        ("app", plan.apps),
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
