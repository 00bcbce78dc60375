"""The record that a measure reads, made of generated qrels and a run."""

import numpy as np

from ragbench.score.retrieval.base import RetrievedPassages, RetrievedSpans
from ragbench.score.retrieval.found import MetGold
from ragbench.score.retrieval.leak import ForbiddenRanks
from ragbench.score.retrieval.ranking import rank, ranked_documents
from ragbench.score.retrieval.score_run import gather
from ragbench.types import Qrels, Run, Span


def record(measure, qrels, run):
    """Grades; or as many subtopics as the grade; or ids as texts, the relevant ones as answers.

    Or ids as documents of one character each, the relevant ones as gold spans; or the relevant ones
    as forbidden documents.
    """
    makers = {"grades": rank, "subtopics": subtopics, "passages": passages, "spans": spans}
    makers["gold"] = lambda qrels, run: MetGold.of_grades(rank(qrels, run))
    makers["forbidden"] = forbidden
    return makers[measure.spec.reads](qrels, run)


def subtopics(qrels, run):
    judged = Qrels.from_dict(with_subtopics(qrels))
    return gather(rank(judged, run), judged, with_subtopics=True).subtopics


def with_subtopics(qrels):
    return {
        query: {doc: dict.fromkeys(map(str, range(1, g + 1)), 1) for doc, g in judged.items()}
        for query, judged in qrels.items()
    }


def forbidden(qrels, run):
    ranks = MetGold.of_grades(rank(qrels, run))
    return ForbiddenRanks(ranks.any_rank, np.zeros_like(ranks.any_rank), ranks.causes)


def passages(qrels, run):
    lists = ranked_documents(Run.from_dict(run))
    answers = [[doc for doc, g in judged.items() if g >= 1] for judged in qrels.values()]
    return RetrievedPassages([lists.get(query, []) for query in qrels], answers)


def spans(qrels, run):
    record = passages(qrels, run)
    places = (
        [[Span(doc, 0, 1) for doc in docs] for docs in part] for part in vars(record).values()
    )
    return RetrievedSpans(*places)
