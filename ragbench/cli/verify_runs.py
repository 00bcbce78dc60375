"""`ragbench score QRELS RUN --verify`: the same values by pytrec_eval, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from ragbench.cli.verification import Check, report_checks
from ragbench.comparison.evaluate_files import evaluate_run_file
from ragbench.data.trec_files import read_run
from ragbench.report.scores.trec_eval import trec_eval_parts
from ragbench.score.retrieval.trec_eval import FAMILIES
from ragbench.types import Qrels
from ragbench.types.cells import id_bytes

if TYPE_CHECKING:
    from ragbench.report.scores.base import Scored
    from ragbench.score.retrieval.notation import Measure
    from ragbench.score.retrieval.score_run import Rules

Nested = dict[str, dict[str, float]]
Number = TypeVar("Number", int, float)

_PACKAGE = "pytrec_eval"
_NOT_OF_PEER = frozenset({"unj", "yaap"})
"""What trec_eval has and pytrec_eval has not."""


def verify_runs(
    judged: Qrels,
    systems: Sequence[Scored],
    measures: Mapping[str, Measure],
    level: int,
    rules: Rules,
) -> int:
    """Score every query again with pytrec_eval and report the largest difference.

    pytrec_eval compares scores as 32-bit floats, so ours are computed that way for this, whatever
    the rules of the call. Where it is not installed, that is said, and nothing is checked.

    Returns:
        The exit code: 1 where a difference is more than rounding.
    """
    parts = {name: _part(measure, level) for name, measure in measures.items()}
    known = {name: part for name, part in parts.items() if part and rules.ties == "docid"}
    differences: dict[str, dict[str, float]] = {name: {} for name in measures}
    for scored in systems if known else ():
        peer = _values_of_peer(scored.source, judged, set(known.values()), level, rules)
        if peer is None:
            click.echo("verify: nothing is checked without pytrec-eval-terrier", err=True)
            return 0
        ours = evaluate_run_file(
            scored.source,
            judged,
            list(measures),
            missing=rules.missing,
            no_relevant=rules.no_relevant,
            trec_eval=9,
            depth=rules.depth,
            judged_only=rules.judged_only,
        ).per_query
        for name, part in known.items():
            for query, difference in _differences(ours[name], peer, "_".join(filter(None, part))):
                differences[name][f"{scored.name} {query}"] = difference
    return report_checks([Check(name, _PACKAGE, found) for name, found in differences.items()])


def _part(measure: Measure, level: int) -> tuple[str, str] | None:
    """Return pytrec_eval's family and cut-off of a measure; None where it cannot be asked."""
    part = trec_eval_parts(measure, level)
    if part is None or part[0] in _NOT_OF_PEER:
        return None
    family, parameter = part
    at = measure.options.get(measure.spec.at, measure.k)
    # parameters that are no cut-offs do not come through, and cut-offs are named by two digits
    cut = family in FAMILIES and at is not None and float(parameter) == at
    return part if cut or not parameter else None


def _differences(ours: Mapping[str, float], peer: Nested, key: str) -> Iterator[tuple[str, float]]:
    """Yield (query, absolute difference) of the queries that both have a value for."""
    for query, value in ours.items():
        theirs = peer.get(_ascending_alike(query), {})
        # 0 / 0 in trec_eval, where -J leaves nothing of a ranking
        if theirs and value == value and theirs[key] == theirs[key]:
            yield query, abs(value - theirs[key])


def _values_of_peer(
    run: str, qrels: Qrels, parts: set[tuple[str, str]], level: int, rules: Rules
) -> Nested | None:
    """Query -> measure -> value; None where pytrec_eval is not installed."""
    try:
        import pytrec_eval
    except ImportError:
        return None
    # it crashes on queries that have nothing but negative grades
    judged = {q: docs for q, docs in qrels.to_dict().items() if max(docs.values()) >= 0}
    requests = {".".join(filter(None, part)) for part in parts}
    evaluator = pytrec_eval.RelevanceEvaluator(_renamed(judged), requests, level, rules.judged_only)
    hits = {q: _best(docs, rules.depth) for q, docs in read_run(run).to_dict().items()}
    values: Nested = evaluator.evaluate(_renamed(hits))
    return values


def _best(documents: Mapping[str, float], depth: int | None) -> Mapping[str, float]:
    """The first `depth` documents in trec_eval 9's order."""
    if depth is None:
        return documents
    import numpy as np

    hits = sorted(documents.items(), key=lambda hit: (np.float32(hit[1]), id_bytes(hit[0])))
    return dict(hits[::-1][:depth])


def _renamed(nested: Mapping[str, Mapping[str, Number]]) -> dict[str, dict[str, Number]]:
    return {
        _ascending_alike(query): {_ascending_alike(d): number for d, number in documents.items()}
        for query, documents in nested.items()
    }


def _ascending_alike(identifier: str) -> str:
    """An id that pytrec_eval can hold whatever the bytes, and that sorts as these bytes do."""
    return id_bytes(identifier).decode("latin-1")
