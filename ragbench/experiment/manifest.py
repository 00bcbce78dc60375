"""`manifest.json`: what a run depended on, and what it took."""

from __future__ import annotations

import platform
import sys
import time
from importlib import metadata
from typing import Any

from ragbench import __version__
from ragbench.experiment.plan import Plan
from ragbench.experiment.results import Results
from ragbench.secrets import redact

_PACKAGES = ("numpy", "bm25s", "nltk", "sacrebleu", "PyYAML")
"""Packages whose version may move a number."""


def make_manifest(plan: Plan, results: Results, started: float) -> dict[str, Any]:
    """Return versions, data fingerprints, signatures, seeds and timings; never a secret."""
    return {
        "schema": "ragbench.manifest/1",
        "ragbench": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "seed": plan.config.seed,
        "versions": {
            name: redact(component.version, plan.config.environment)
            for name, component in plan.components.items()
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
        "seconds": round(time.time() - started, 3),
        "stages": {name: round(seconds, 4) for name, seconds in results.seconds.items()},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
