"""`manifest.json`: what a run depended on, and what it took."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib import metadata

from ragbench import __version__
from ragbench.experiment.plan.records import Choices, Noun, Plan
from ragbench.experiment.records import Results
from ragbench.records.manifest import Manifest, StageWork

_PACKAGES = ("numpy", "bm25s", "nltk", "sacrebleu", "PyYAML")
"""Packages whose version may move a number."""


def make_manifest(plan: Plan, results: Results, choices: Choices, started: float) -> Manifest:
    """Return versions, data fingerprints, signatures, seeds and timings; never a secret."""
    filled, work = results.filled, results.work
    components = {
        name: plan.component(noun, name) for noun, names in _components(plan) for name in names
    }
    return Manifest(
        ragbench=__version__,
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        packages={name: _version(name) for name in _PACKAGES},
        seed=plan.config.seed,
        choices=asdict(choices),
        live=tuple(sorted(name for name, component in components.items() if component is None)),
        versions={
            name: component.version
            for name, component in components.items()
            if component is not None and component.version is not None
        },
        data=dict(plan.collection.fingerprints),
        queries=len(plan.queries),
        signatures={
            name: str(column.signature)
            for system in results.systems
            for name, column in system.columns.items()
        },
        judging={
            system: {name: use.manifest() for name, use in uses.items()}
            for system, uses in results.judge_uses.items()
        },
        judging_passages=None if filled is None else filled.use.manifest(),
        judging_pairs={each.judge: each.use.manifest() for each in results.preferences},
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        # never below 0: a clock may be set back in the meantime
        seconds=max(0.0, round(time.time() - started, 3)),
        stages={name: round(each.seconds, 4) for name, each in work.items()},
        work={name: StageWork(items=each.items, stored=each.stored) for name, each in work.items()},
    )


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
