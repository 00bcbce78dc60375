r"""Baseline files: `ragbench.baseline/1`, the scores of a run per query, to be committed.

JSON with a line per score and a line per system and query, so that a diff shows what moved:

    "per_query": {
     "q1": [1, 0.63],
     "q2": ["no_relevant", "timeout"]
    }

A line has the scores in the order of `scores`; where there is no value it has the cause.
Equal scores give equal bytes: queries, systems and scores are sorted, and there is no time, run
id or version in it. A system without any score is left out. What queries cost is no such thing,
and stands there only where it is asked for: `cost_columns`, and `costs` with a line per query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.data.files.jsonl import no_constant, unique_keys
from ragbench.data.runs.baseline_check import Checked
from ragbench.data.runs.run_folder import COST_COLUMNS, to_json_line
from ragbench.data.runs.run_scores import StoredScore, StoredScores, StoredSystem
from ragbench.errors import DataError
from ragbench.files import write_atomically
from ragbench.types import Cause, FloatArray

SCHEMA = "ragbench.baseline/1"
_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)


def write_baseline(path: str | Path, scores: StoredScores, *, costs: bool = False) -> None:
    """Write a baseline file, whole or not at all; missing folders are made.

    Args:
        path: The file.
        scores: Of a run.
        costs: Whether to keep what each query cost, for gates with `max_increase`. Times differ
            from run to run, so that the bytes do too.

    Raises:
        DataError: The file cannot be written, or there is nothing to write.
    """
    if not any(system.scores for system in scores.systems) or not len(scores.query_ids):
        raise DataError("nothing was scored", file=path, allowed="a run with systems and queries")
    if costs and not any(system.costs for system in scores.systems):
        found = "the run does not say what its queries cost"
        raise DataError(found, file=path, allowed="a run of this version: run the experiment again")
    try:
        write_atomically(Path(path), format_baseline(scores, costs=costs))
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def format_baseline(scores: StoredScores, *, costs: bool = False) -> str:
    """Return the text of a baseline file.

    Example:
        >>> from ragbench.data.runs.run_scores import *
        >>> import numpy as np
        >>> mrr = StoredScore("retrieval", "higher", "mean", 0, 1, 1.0, "mrr|v:1",
        ...                   np.array([1.0, np.nan]), np.array([0, 1], np.uint8))
        >>> bm25 = StoredSystem("bm25", "bm25", None, {"mrr": mrr})
        >>> text = format_baseline(StoredScores("mine", "bm25", {}, ["q2", "q1"], [bm25]))
        >>> print(text[text.index(' "q1"') : text.index("}", text.index('"q2"'))].rstrip())
         "q1": ["no_relevant"],
            "q2": [1.0]
    """
    head = {
        "schema": SCHEMA,
        "name": scores.name,
        "baseline": scores.baseline,
        "data": dict(sorted(scores.data.items())),
        "queries": len(scores.query_ids),
    }
    scored = (system for system in scores.systems if system.scores)
    systems = sorted(scored, key=lambda system: system.name)
    rows = np.array(sorted(range(len(scores.query_ids)), key=lambda i: scores.query_ids[i]))
    ids = [scores.query_ids[row] for row in rows]
    lines = [f" {_key(key)}{to_json_line(value)}," for key, value in head.items()]
    seed = int(scores.facts.get("seed") or 0)
    parts = [_system(system, rows, ids, costs, seed) for system in systems]
    return "\n".join(["{", *lines, ' "systems": {', ",\n".join(parts), " }", "}", ""])


def _system(system: StoredSystem, rows: Any, ids: list[str], costs: bool, seed: int) -> str:
    names = sorted(system.scores)
    heads = (f"    {_key(name)}{to_json_line(_head(system.scores[name], seed))}" for name in names)
    cells = [list(_cells(system.scores[name], rows)) for name in names]
    queries = (
        f"    {_key(query)}{to_json_line(list(line))}"
        for query, line in zip(ids, zip(*cells, strict=True), strict=True)
    )
    return "\n".join(
        [
            f"  {_key(system.name)}{{",
            f'   "retriever": {to_json_line(system.retriever)},',
            f'   "generator": {to_json_line(system.generator)},',
            '   "scores": {',
            ",\n".join(heads),
            "   },",
            '   "per_query": {',
            ",\n".join(queries),
            "   }" + (_costs(system, rows, ids) if costs and system.costs else ""),
            "  }",
        ]
    )


def _costs(system: StoredSystem, rows: Any, ids: list[str]) -> str:
    """What each query cost, null where it is not known."""
    columns = [system.costs[name][rows].tolist() for name in system.costs]
    queries = (
        f"    {_key(query)}{to_json_line([None if isnan(cell) else cell for cell in line])}"
        for query, line in zip(ids, zip(*columns, strict=True), strict=True)
    )
    return "\n".join(
        [
            ",",
            f'   "cost_columns": {to_json_line(list(system.costs))},',
            '   "costs": {',
            ",\n".join(queries),
            "   }",
        ]
    )


def _key(name: str) -> str:
    return f"{to_json_line(name)}: "


def _head(score: StoredScore, seed: int) -> dict[str, Any]:
    return {
        "mean": score.mean,
        "n": int(np.count_nonzero(score.causes == Cause.SCORED)),
        "kind": score.kind,
        "direction": score.direction,
        "aggregate": score.aggregate,
        "range": [end if isfinite(end) else None for end in (float(score.low), float(score.high))],
        "signature": score.signature,
        # intervals allow for the looks of a judge, and bets are in the order that the seed gives
        **({} if score.early is None else {"early": {"seed": seed, **score.early}}),
    }


def _cells(score: StoredScore, rows: Any) -> Iterator[float | str]:
    for value, cause in zip(score.values[rows].tolist(), score.causes[rows].tolist(), strict=True):
        yield value if cause == Cause.SCORED else Cause(cause).word


def read_baseline(path: str | Path) -> StoredScores:
    """Read a baseline file strictly.

    Raises:
        DataError: It is missing, not JSON, of another schema, or not what `write_baseline`
            writes; names the system and query.
    """
    top = Checked(path, _parse(Path(path)))
    if top.fields.get("schema") != SCHEMA:
        raise top.error(f"found schema {top.fields.get('schema')!r}", allowed=SCHEMA)
    systems = top.mapping("systems")
    names = list(systems.fields)
    if not names:
        raise systems.error("found no system", allowed="at least one")
    query_ids = list(systems.mapping(names[0]).mapping("per_query").fields)
    if top.whole_number("queries") != len(query_ids):
        found = f"{top.whole_number('queries')} queries, but {names[0]} has {len(query_ids)}"
        raise top.error(found, allowed="a line for every query: write the baseline again")
    return StoredScores(
        name=top.text("name"),
        baseline=top.text_or_null("baseline"),
        data={part: top.mapping("data").text(part) for part in top.mapping("data").fields},
        query_ids=query_ids,
        systems=[_read_system(systems.mapping(name), name, query_ids) for name in names],
    )


def _parse(path: Path) -> Any:
    try:
        text = path.read_bytes().decode("utf-8")
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except FileNotFoundError as error:
        raise DataError("no such file", file=path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except json.JSONDecodeError as error:
        if mark := _CONFLICT.search(text):
            line, allowed = text.count("\n", 0, mark.start()) + 1, "the baseline written again"
            raise DataError("conflict of a merge", file=path, line=line, allowed=allowed) from error
        raise DataError(f"not JSON: {error.msg}", file=path, line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}", file=path) from error


def _read_system(system: Checked, name: str, query_ids: list[str]) -> StoredSystem:
    heads, lines = system.mapping("scores"), system.mapping("per_query")
    if list(lines.fields) != query_ids:
        raise lines.error(
            "the queries are not those of the first system", allowed="one line per query, in order"
        )
    columns = zip(*(lines.cells(query, len(heads.fields)) for query in query_ids), strict=True)
    scores = {
        score: _read_score(heads.mapping(score), list(column))
        for score, column in zip(heads.fields, columns, strict=True)
    }
    retriever, generator = system.text_or_null("retriever"), system.text_or_null("generator")
    return StoredSystem(name, retriever, generator, scores, _read_costs(system, query_ids))


def _read_costs(system: Checked, query_ids: list[str]) -> dict[str, FloatArray]:
    """What each query cost; older files, and most others, do not say."""
    if "costs" not in system.fields:
        return {}
    lines, names = system.mapping("costs"), system.fields.get("cost_columns")
    if list(lines.fields) != query_ids:
        raise lines.error("the queries are not those of the scores", allowed="one line per query")
    if not isinstance(names, list) or tuple(names) != COST_COLUMNS:
        raise system.error(f"cost_columns is {names!r}", allowed=", ".join(COST_COLUMNS))
    rows = [lines.numbers_or_null(query, len(names)) for query in query_ids]
    return dict(zip(COST_COLUMNS, np.array(rows, np.float64).T, strict=True))


def _read_score(head: Checked, cells: list[tuple[float, Cause]]) -> StoredScore:
    values = np.array([value for value, _ in cells], np.float64)
    causes = np.array([cause for _, cause in cells], np.uint8)
    mean, aggregate = head.number_or_null("mean"), head.word("aggregate")
    scored = values[causes == Cause.SCORED]
    if len(scored) != head.whole_number("n") or (mean is None and len(scored) > 0):
        raise head.error(f"n is {head.fields['n']}, but {len(scored)} queries have a value")
    if aggregate == "mean" and mean is not None and not np.isclose(mean, scored.mean(), 1e-9, 0):
        raise head.error(f"mean is {mean!r}, but that of the queries is {float(scored.mean())!r}")
    low, high = head.range()
    return StoredScore(
        kind=head.word("kind"),
        direction=head.word("direction"),
        aggregate=aggregate,
        low=low,
        high=high,
        mean=mean,
        signature=head.text("signature"),
        values=values,
        causes=causes,
        early=head.early() if "early" in head.fields else None,
    )
