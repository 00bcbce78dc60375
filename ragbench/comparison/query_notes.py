"""Notes on the queries that the means of rankings count as 0, or leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ragbench.records.score import RunCounts
from ragbench.types import Cause, ScoreColumn
from ragbench.types.lookups import omit_empty

# Rule -> words for one query, and for several.
_NO_DOCUMENT = {
    "zero": ("has no {} and counts 0", "have no {} and count 0"),
    "skip": (
        "has no {} and is left out of retrieval means",
        "have no {} and are left out of retrieval means",
    ),
}
_MISSING = {"zero": "counted as 0", "skip": "left out"}
# Causes of the queries that a run is not scored by, whatever the rule for relevant documents.
_OUTSIDE = (Cause.NO_JUDGEMENTS, Cause.MISSING_QUERY)


class ScoredRankings(NamedTuple):
    """Columns of a system by measures of rankings, and the counts of its run.

    Attributes:
        columns: Score columns; those of answers are ignored.
        counts: Counts of the run; None if unknown: queries that count as 0 then have no note.
    """

    columns: Collection[ScoreColumn]
    counts: RunCounts | None


def relevance_notes(systems: Mapping[str, ScoredRankings]) -> list[str]:
    """Return notes on the queries without a document of the grade that a measure asks for.

    A note has their number and whether they count as 0 or are left out; without such queries there
    is none. A note of all systems with rankings comes once, another one with the name of its
    system in front. `systems` has the scores by the name of the system.

    Example:
        >>> from ragbench.score.retrieval.score_run import score_run
        >>> scored = score_run({}, {"q": {"a": 2}, "p": {"b": 1}}, ["mrr(rel=2)"])
        >>> relevance_notes({"bm25": ScoredRankings(scored.columns, scored.counts)})
        ['1 of 2 queries has no document of grade 2 and counts 0']
    """
    by_name = {}
    for name, scored in systems.items():
        # only measures of rankings say what they do without a relevant document
        if any(column.signature.part("no_relevant") for column in scored.columns):
            by_name[name] = _notes_of(scored)
    n_systems = Counter(chain.from_iterable(by_name.values()))
    lines: dict[str, None] = {}
    for name, notes in by_name.items():
        for note in notes:
            is_of_all = n_systems[note] == len(by_name)
            lines[note if is_of_all else f"{name}: {note}"] = None
    return list(lines)


def _notes_of(scored: ScoredRankings) -> list[str]:
    """Return the notes of one system; measures of one grade and rule share a note."""
    without_grade = {} if scored.counts is None else scored.counts.without_grade
    notes = []
    for column in scored.columns:
        # scores of answers have no such rule
        if (rule := column.signature.part("no_relevant")) is None:
            continue
        grade = column.signature.part("rel") or "1"
        n = int((column.causes == Cause.NO_RELEVANT).sum())
        if rule == "zero" and (column.causes == Cause.SCORED).any():
            n = without_grade.get(grade, 0)
        document = "relevant document" if grade == "1" else f"document of grade {grade}"
        n_queries = int((~np.isin(column.causes, _OUTSIDE)).sum())
        words = _NO_DOCUMENT[rule][n != 1].format(document)
        notes += [f"{n} of {n_queries} queries {words}"] if n else []
    return list(dict.fromkeys(notes))


def reading_notes(
    columns: Iterable[ScoreColumn],
    counts: RunCounts,
    hints: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, int]:
    """Return note -> number of the queries that a run lacks, and of its surplus queries and hits.

    Numbers of 0 are left out. `hints` has the option that changes a rule `missing`, by the rule;
    the rule is in the signatures of the columns.
    """
    rules = (column.signature.part("missing") for column in columns)
    rule = next(filter(None, rules), "zero")
    notes = {
        f"judged queries that the run lacks, {_MISSING[rule]}{hints.get(rule, '')}": counts.missing,
        "queries of the run without judgements, left out": counts.without_judgements,
        "repeated documents, each counted once at its best score": counts.duplicates,
    }
    return omit_empty(notes)
