"""Words, stop words and stems together: BM25 over a real collection gives what others report."""

import gzip
import json

import bm25s
import numpy as np
import pytest
import pytrec_eval

from ragbench.text.analyzer import Analyzer


def test_bm25_on_scifact_is_where_it_should_be(lent_data):
    """0.6713 is what an established BM25 (k1 0.9, b 0.4, its own analysis) gets."""
    folder = lent_data / "scifact"
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as stream:
        corpus = [json.loads(line) for line in stream]
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = {row["_id"]: row["text"] for row in map(json.loads, lines)}
    qrels = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)

    analyze = Analyzer()
    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    index.index([analyze(f"{d['title']} {d['text']}") for d in corpus], show_progress=False)
    run = {}
    for query in qrels:
        scores = index.get_scores(analyze(queries[query]))
        best = np.argsort(-scores)[:100]
        run[query] = {corpus[row]["_id"]: float(scores[row]) for row in best}

    scored = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run).values()
    mean = np.mean([query["ndcg_cut_10"] for query in scored])
    assert mean == pytest.approx(0.6713, abs=0.01)
