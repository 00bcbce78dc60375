"""From a ranking and judgements to the records that measures read, each made once.

A ranking keeps of every judged document its rank and its grade: enough for most measures. Those
of subtopics must know WHICH document stands there. For them the run is ranked against qrels that
have the number of the row in place of each grade: the ranking then says it at no further cost,
wherever the run comes from, and grades and subtopics are looked up by these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragbench.errors import DataError, OptionError
from ragbench.score.retrieval.base import RankedGrades, RankedSubtopics, no_average
from ragbench.score.retrieval.kernel.positions import TieGroups
from ragbench.score.retrieval.notation import Measure
from ragbench.score.retrieval.ranking import Ties, ideal_order
from ragbench.types import IntArray, Qrels
from ragbench.types.rows import borders

SUBTOPICS_ALLOWED = (
    "a fourth column 'subtopic' in BEIR qrels, TREC diversity qrels (query subtopic document "
    "grade), or {query: {document: {subtopic: grade}}}"
)
"""What gives judgements subtopics."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a run and its judgements hold, in each form that a measure asked for reads."""

    grades: RankedGrades
    """The grades in rank order; the rules for queries without a value read them too."""
    subtopics: Sequence[RankedSubtopics] = ()
    """The subtopics of each query; none where no measure reads them."""
    judged_share: float | None = None
    """Share of the retrieved documents that have a judgement; None where nothing was retrieved."""

    def read_by(self, measure: Measure) -> RankedGrades | Sequence[RankedSubtopics]:
        """Return the record that a measure is a function of."""
        return self.subtopics if measure.spec.reads == "subtopics" else self.grades


def subtopics_read_by(
    measures: Sequence[Measure], qrels: Qrels | Mapping[str, object] | None, ties: Ties = "docid"
) -> Qrels | None:
    """Return the qrels whose subtopics these measures read; None where none of them does.

    Refuses a measure that reads texts, which neither a run nor qrels hold.
    """
    for measure in measures:
        if measure.spec.reads == "passages":
            raise needs_texts(measure)
        if ties == "average" and not measure.spec.averages_ties:
            raise no_average(measure.spec.name)
    named = next((measure for measure in measures if measure.spec.reads == "subtopics"), None)
    if named is None:
        return None
    if not isinstance(qrels, Qrels) or qrels.subtopics is None:
        found = f"{named.written} needs subtopics, and the judgements have none"
        raise DataError(found, allowed=SUBTOPICS_ALLOWED)
    return qrels


def needs_texts(measure: Measure) -> OptionError:
    """Say that a measure reads texts, where there are only ids."""
    allowed = (
        "measures of a run and qrels; it looks for gold answers in the texts of the passages: name "
        "it under metrics.retrieval.measures of a config"
    )
    return OptionError("measure", "", measure.written, allowed)


def numbered(qrels: Qrels) -> Qrels:
    """Return the qrels with the number of the row, from 1, in place of each grade."""
    return replace(qrels, grades=np.arange(1, len(qrels) + 1))


def gather(ranked: RankedGrades, qrels: Qrels | None, *, judged_only: bool = False) -> Evidence:
    """Make the records of a ranking.

    `ranked` was ranked against the numbered qrels; where these are None, against the plain ones.
    """
    n_retrieved = int(ranked.n_retrieved.sum())
    judged_share = len(ranked.grades) / n_retrieved if n_retrieved else None
    if judged_only:
        grades_of = None if qrels is None else qrels.grades[ranked.grades - 1]
        ranked = without_unjudged(ranked, grades_of)
    if qrels is None:
        return Evidence(ranked, judged_share=judged_share)
    rows = ranked.grades - 1
    grades = replace(
        ranked, grades=qrels.grades[rows], judged_grades=ideal_order(qrels.grades, qrels.starts)
    )
    hits = list(zip(ranked.rank.tolist(), rows.tolist(), strict=True))
    borders = ranked.starts.tolist()
    topics = qrels.subtopics or {}
    subtopics = [
        RankedSubtopics.at_ranks(
            {rank: qrels.documents[row] for rank, row in hits[start:end]},
            _relevant(topics.get(query, {})),
        )
        for query, start, end in zip(ranked.query_ids, borders, borders[1:], strict=False)
    ]
    return Evidence(grades, subtopics, judged_share)


def _relevant(judged: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Document -> the subtopics under which its grade is 1 or above."""
    return {
        document: [topic for topic, grade in topics.items() if grade >= 1]
        for document, topics in judged.items()
    }


def without_unjudged(ranked: RankedGrades, grades: IntArray | None = None) -> RankedGrades:
    """Take the documents out of each ranking that have no grade, or a negative one.

    Those that are left close up. A ranking may be empty then. `grades` are given where `ranked` has
    something else in their place.

    Example:
        `new` is not judged, so `b` stands at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 0, "b": 1}}, {"q": {"a": 9, "new": 8, "b": 7}})
        >>> found = without_unjudged(ranked)
        >>> found.rank, found.n_retrieved
        (array([1, 2]), array([2]))
    """
    kept = np.flatnonzero((ranked.grades if grades is None else grades) >= 0)
    query = ranked.query[kept]
    counts = np.bincount(query, minlength=ranked.n_queries)
    starts = borders(counts.tolist(), ranked.n_queries)
    place = np.arange(len(kept)) - starts[query]

    def find_ties() -> TieGroups:
        """Tied documents still stand together: their group is what is left of it."""
        first = ranked.ties.first[kept]
        new = np.diff(first, prepend=-1).astype(bool) | np.diff(query, prepend=-1).astype(bool)
        edges = np.append(np.flatnonzero(new), len(kept))
        group = np.cumsum(new) - 1
        return TieGroups(place[edges[:-1]][group] + 1, place[edges[1:] - 1][group] + 1)

    return replace(
        ranked,
        query=query,
        rank=place + 1,
        grades=ranked.grades[kept],
        starts=starts,
        n_retrieved=counts,
        find_ties=find_ties if ranked.find_ties is not None else None,
    )
