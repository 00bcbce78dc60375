"""`alpha_ndcg` and `subtopic_recall` against ndeval, TREC's own program for diversity."""

import random

import pyndeval
import pytest

from ragbench.score.retrieval.diversity import alpha_ndcg, subtopic_recall
from ragbench.score.retrieval.subtopics import RankedSubtopics


@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_ndeval(seed):
    source = random.Random(seed)
    documents = [f"d{i}" for i in range(source.randint(2, 14))]
    judged = {d: {t for t in "abcd" if source.random() < 0.4} for d in documents}
    judged["d0"].add("a")
    ranking = source.sample([*documents, "x", "y"], source.randint(1, len(documents)))
    qrels = [
        pyndeval.SubtopicQrel("q", topic, document, 1)
        for document, topics in judged.items()
        for topic in sorted(topics)
    ]
    run = [pyndeval.ScoredDoc("q", d, -float(place)) for place, d in enumerate(ranking)]
    names = ["alpha-nDCG@5", "alpha-nDCG@10", "strec@5", "strec@10"]

    oracle = pyndeval.ndeval(qrels, run, measures=names)["q"]

    query = [RankedSubtopics.of(ranking, judged)]
    for k in (5, 10):
        assert alpha_ndcg(query, k=k)[0] == pytest.approx(oracle[f"alpha-nDCG@{k}"], abs=1e-9)
        assert subtopic_recall(query, k=k)[0] == pytest.approx(oracle[f"strec@{k}"], abs=1e-9)
