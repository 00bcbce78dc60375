"""Diversity against ndeval, TREC's own program for it, and against its definition, plainly."""

import math
import random

import pyndeval
import pytest

import ragbench as rb
from ragbench.comparison.evaluate import evaluate_run_file
from ragbench.score.retrieval.base import RankedSubtopics
from ragbench.score.retrieval.diversity import alpha_ndcg, subtopic_recall


@pytest.mark.parametrize("seed", range(16))
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


def drawn(seed):
    """Several queries with subtopics and graded judgements, and a run with ties and misses."""
    source = random.Random(seed)
    documents = [f"d{i}" for i in range(12)]
    qrels = {
        f"q{n}": {
            document: {
                topic: source.choice([0, 1, 1, 2]) for topic in "abcd" if source.random() < 0.4
            }
            for document in source.sample(documents, 8)
        }
        for n in range(6)
    }
    qrels = {q: {d: topics for d, topics in docs.items() if topics} for q, docs in qrels.items()}
    run = {
        query: {d: float(source.randint(0, 4)) for d in source.sample([*documents, "x"], 9)}
        for query in [*list(qrels)[:5], "unjudged"]
    }
    return qrels, run


def in_order(hits):
    return sorted(hits, key=lambda document: (hits[document], document), reverse=True)


def ndeval(qrels, run, names):
    """Values of ndeval, which gets falling scores: it breaks ties in its own way."""
    judged = [
        pyndeval.SubtopicQrel(query, topic, document, grade)
        for query, docs in qrels.items()
        for document, topics in docs.items()
        for topic, grade in topics.items()
    ]
    hits = [
        pyndeval.ScoredDoc(query, document, -float(place))
        for query, docs in run.items()
        for place, document in enumerate(in_order(docs))
    ]
    return pyndeval.ndeval(judged, hits, measures=names)


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(8))
def test_evaluate_run_and_files_agree_with_ndeval(seed, tmp_path):
    # Nested qrels, TREC's four columns, and the BEIR table say the same, ties and misses too.
    qrels, run = drawn(seed)
    rows = [
        (q, d, t, g) for q, docs in qrels.items() for d, ts in docs.items() for t, g in ts.items()
    ]
    (tmp_path / "trec.txt").write_text("".join(f"{q} {t} {d} {g}\n" for q, d, t, g in rows))
    header = "query-id\tcorpus-id\tscore\tsubtopic\n"
    beir = header + "".join(f"{q}\t{d}\t{g}\t{t}\n" for q, d, t, g in rows)
    (tmp_path / "beir.tsv").write_text(beir)
    rb.write_run(run, tmp_path / "run.txt")
    oracle = ndeval(qrels, run, ["alpha-nDCG@5", "strec@5"])
    names = {"alpha_ndcg@5": "alpha-nDCG@5", "subtopic_recall@5": "strec@5"}

    ours = rb.evaluate_run(run, qrels, [*names, "redundancy@5", "ndcg@5"])
    files = [
        evaluate_run_file(tmp_path / "run.txt", rb.read_qrels(tmp_path / name), list(ours.columns))
        for name in ("trec.txt", "beir.tsv")
    ]

    for name, theirs in names.items():
        for query, value in ours.per_query[name].items():
            if value == value:
                expected = oracle.get(query, {}).get(theirs, 0.0)
                assert value == pytest.approx(expected, abs=1e-9), (name, query)
    for other in files:
        assert other.signature == ours.signature
        for name in ours.columns:
            assert other.per_query[name] == pytest.approx(ours.per_query[name], nan_ok=True)


@pytest.mark.parametrize("seed", range(8))
def test_redundancy_plainly(seed):
    qrels, run = drawn(seed)

    scores = rb.evaluate_run(run, qrels, ["redundancy@5"]).per_query["redundancy@5"]

    for query, judged in qrels.items():
        relevant = [
            {topic for topic, grade in judged.get(document, {}).items() if grade > 0}
            for document in in_order(run.get(query, {}))[:5]
        ]
        relevant = [topics for topics in relevant if topics]
        repeated = [t for i, t in enumerate(relevant) if t <= set().union(*relevant[:i])]
        expected = len(repeated) / len(relevant) if relevant else math.nan
        assert scores[query] == pytest.approx(expected, nan_ok=True)
