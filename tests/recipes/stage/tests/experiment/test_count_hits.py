"""`metrics.retrieval.count_hits`: the number of hits, counted once for each new ranking."""

import json

import ragbench as rb

CONFIG = {
    "dataset": {"type": "beir", "path": "datasets/example"},
    "retrievers": {"bm25": {"type": "bm25"}},
    "metrics": {"retrieval": {"measures": ["mrr"], "top_k": 3}},
}


def run(repository, folder, **options):
    """Return a run that counts hits, and the counts of its stages."""
    data = {"type": "beir", "path": str(repository / "datasets/example")}
    retrieval = {**CONFIG["metrics"]["retrieval"], **options}
    config = {**CONFIG, "dataset": data, "metrics": {"retrieval": retrieval}}
    return rb.run_experiment({**config, "output": str(folder)})


def counts_of(experiment):
    """Return (number of items, stored ones) of the stage that counts."""
    manifest = json.loads((experiment.path / "manifest.json").read_text())
    work = manifest["work"]["count hits of bm25"]
    return work["items"], work["stored"]


def test_hits_are_counted_once_for_each_ranking(repository, tmp_path):
    first = run(repository, tmp_path, count_hits=True)
    rows = (first.path / "rankings" / "bm25.trec").read_text().splitlines()

    assert f"bm25: {len(rows)} hits in all" in first.summary["notes"]
    n, stored = counts_of(first)
    assert (n > 0, stored) == (True, 0)
    assert counts_of(run(repository, tmp_path, count_hits=True)) == (n, n)
    # another depth is another ranking
    assert counts_of(run(repository, tmp_path, count_hits=True, top_k=4)) != (n, n)


def test_no_run_counts_hits_unasked(repository, tmp_path):
    notes = run(repository, tmp_path).summary["notes"]

    assert not [note for note in notes if "hits in all" in note]
