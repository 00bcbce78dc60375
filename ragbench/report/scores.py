"""The formats of `ragbench score`: a table for people, CSV, and JSON with every number's weight."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.comparison.evaluate import SCHEMA, Evaluation
from ragbench.comparison.systems import finite
from ragbench.report.text import interval, printable, side_by_side, significant
from ragbench.types.checks import id_bytes
from ragbench.types.scores import Cause

ALL = "all"
"""What stands in the place of the query in a row that is about all of them, as in trec_eval."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One run, or one file of predictions, with its scores."""

    name: str
    """What it is called in every format: the tag of the run, or the file where tags are equal."""
    source: str
    """The file, as the user named it."""
    evaluation: Evaluation
    relevance: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Query -> the grades at the top of its ranking, where the caller wants to see them."""
    missing: frozenset[str] = frozenset()
    """The judged queries that the run lacks."""

    def rows(self) -> Iterator[tuple[str, dict[str, float | None]]]:
        """Yield (query, score -> value) in the order of the ids' bytes, as trec_eval prints them.

        A query that no score looked at (the run lacks it, or it has no judgement) has no row;
        a value is None where a score does not apply to a query.
        """
        columns = self.evaluation.columns
        values = {name: column.values.tolist() for name, column in columns.items()}
        causes = [column.causes.tolist() for column in columns.values()]
        queries = self.evaluation.query_ids
        for row in sorted(range(len(queries)), key=lambda row: id_bytes(queries[row])):
            if all(of_score[row] in _NOT_LOOKED_AT for of_score in causes):
                continue
            of_query = ((name, of_score[row]) for name, of_score in values.items())
            yield queries[row], {name: v if v == v else None for name, v in of_query}


_NOT_LOOKED_AT = frozenset({Cause.MISSING_QUERY, Cause.NO_JUDGEMENTS})


def render_csv(systems: Sequence[Scored], *, per_query: bool = False, summary: bool = True) -> str:
    """Write the scores as CSV with all their digits; an empty cell where there is no value.

    Queries stand before the row of all of them, whose `query_id` is `all`.
    """
    # here, as in `_counts`: what run folders are read with would be a part of each start of `score`
    from ragbench.data.runs.run_folder import to_csv

    rows: list[list[str | float | None]] = []
    names = list(systems[0].evaluation.columns)
    for scored in systems:
        if per_query:
            rows += [[scored.name, query, *values.values()] for query, values in scored.rows()]
        if summary:
            means = scored.evaluation.mean
            rows.append([scored.name, ALL, *(finite(means[name]) for name in names)])
    return to_csv(["system", "query_id", *names], rows)


def render_json(
    systems: Sequence[Scored], *, per_query: bool = False, summary: bool = True, **facts: Any
) -> str:
    """Write the scores as JSON; null where there is no value.

    The entries of `systems` are like those of summary.json; `facts`, what the numbers rest on,
    stand beside them.
    """
    content = {
        "schema": SCHEMA,
        "confidence": systems[0].evaluation.confidence,
        **facts,
        "systems": [_system(scored, per_query, summary) for scored in systems],
    }
    # plain ASCII: an id whose bytes are not UTF-8 would make the whole output unreadable
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _system(scored: Scored, per_query: bool, summary: bool) -> dict[str, Any]:
    evaluation = scored.evaluation
    found: dict[str, Any] = {
        "name": scored.name,
        "file": scored.source,
        "counts": evaluation.counts,
    }
    if summary:
        found["scores"] = {name: score.to_dict() for name, score in evaluation.summary.items()}
    if per_query:
        rows = list(scored.rows())
        found["per_query"] = {
            name: {query: values[name] for query, values in rows} for name in evaluation.columns
        }
    return found


Key = tuple[str | None, str]
"""Query and score of a row; None stands for all queries."""


def render_table(
    systems: Sequence[Scored],
    *,
    per_query: bool = False,
    summary: bool = True,
    notes: Sequence[str] = (),
    width: int = 100,
) -> str:
    """Draw the scores as aligned text, with intervals and counts, then the notes.

    Runs that do not fit beside each other at this width go into a further table below.
    """
    keys = _keys(systems, per_query, summary)
    heads = ("query", "measure") if per_query else ("measure",)
    start = [
        [head, *(printable(ALL if key[place] is None else key[place]) for key in keys)]
        for place, head in enumerate(heads, start=2 - len(heads))
    ]
    columns = [[printable(scored.name), *_cells(scored, keys)] for scored in systems]
    lines = side_by_side(start, columns, width)
    lines += _counts(systems) if summary else []
    return "\n".join([*lines, *(f"note: {printable(note)}" for note in notes)]) + "\n"


def _counts(systems: Sequence[Scored]) -> list[str]:
    """How many queries stand behind the numbers: once where all systems agree."""
    from ragbench.report.sections import count_lines

    by_system = {}
    for scored in systems:
        scores = {name: score.record() for name, score in scored.evaluation.summary.items()}
        by_system[scored.name] = count_lines({scored.name: scores}, list(scores))
    if len(set(map(tuple, by_system.values()))) == 1:
        return by_system[systems[0].name]
    return [f"{printable(name)}: {line}" for name, lines in by_system.items() for line in lines]


def _keys(systems: Sequence[Scored], per_query: bool, summary: bool) -> list[Key]:
    """(query, score) of every row; a query is shown if any of the systems has it."""
    found = {query for scored in systems for query, _ in scored.rows()} if per_query else set()
    names = list(systems[0].evaluation.columns)
    keys: list[Key] = [(query, name) for query in sorted(found, key=id_bytes) for name in names]
    return keys + ([(None, name) for name in names] if summary else [])


def _cells(scored: Scored, keys: Sequence[Key]) -> list[str]:
    rows = dict(scored.rows()) if any(query is not None for query, _ in keys) else {}
    of_all = scored.evaluation.summary
    sums = {name for name, score in of_all.items() if score.aggregate == "sum"}
    cells = []
    for query, name in keys:
        if query is None:
            value, ends = finite(of_all[name].mean), interval([*map(finite, of_all[name].interval)])
        else:
            value, ends = rows.get(query, {}).get(name), ""
        text = f"{value:.0f}" if value is not None and name in sums else significant(value)
        cells.append(f"{text} {ends}".rstrip())
    return cells
