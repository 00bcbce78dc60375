"""Hits below the depth of a reranker follow in their order, or are left out with a warning."""

import json
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.experiment.stages.graph import stages_of
from ragbench.experiment.stages.retrieval import BuildRanking, Retrieve
from ragbench.files import cache_folder
from ragbench.records.manifest import Choices
from ragbench.rerank.base import with_tail
from ragbench.store.items import StageStore
from ragbench.types import ScoredDocument
from tests.commands import run_command
from tests.experiment.test_engine import engine_of, plan_of

CALLS = []


def backwards(question, hits):
    """Return the hits in the reverse order, which keeps their scores: they rise."""
    CALLS.append(len(hits))
    return hits[::-1]


def scored_backwards(question, hits):
    """Return the hits in the reverse order with scores of a model, some of them equal."""
    return [{"id": hit.id, "score": -float(place // 2)} for place, hit in enumerate(hits[::-1])]


def first_only(question, hits):
    """Select one hit, as a filter does."""
    return hits[:1]


ids = st.lists(st.sampled_from([f"d{n}" for n in range(20)]), unique=True, min_size=1, max_size=15)
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(ids, st.integers(1, 20), st.randoms(use_true_random=False), scores)
def test_the_tail_of_any_ranking_stays_in_its_order(names, depth, random, last):
    hits = [ScoredDocument(name, -float(place)) for place, name in enumerate(names)]
    head = random.sample(hits[:depth], len(hits[:depth]))
    # a falling score for each, down to `last`
    reranked = [ScoredDocument(hit.id, None if last is None else last) for hit in head]

    joined = with_tail(reranked, hits, depth)

    assert {hit.id for hit in joined} == set(names), "no hit is lost, and none comes twice"
    assert len(joined) == len(names)
    assert joined[: len(head)] == reranked, "the reranked hits are as the reranker returned them"
    assert [hit.id for hit in joined[len(head) :]] == names[depth:]
    tail = [hit.score for hit in joined[len(head) :]]
    if last is None:
        assert tail == [None] * len(tail)
    elif abs(last) < 1e300:  # near the end of the numbers, no smaller one is left
        falling = [last, *tail]
        assert all(first > second for first, second in pairwise(falling))


@given(ids, st.integers(1, 19), st.data())
def test_a_reranker_that_selects_has_no_tail(names, depth, data):
    hits = [ScoredDocument(name) for name in names]
    n_kept = data.draw(st.integers(0, len(hits[:depth]) - 1))

    assert with_tail(hits[:n_kept], hits, depth) == hits[:n_kept]


@given(st.floats(-1e6, 1e6), st.integers(2, 60))
def test_floats_of_32_bits_tell_the_scores_of_a_tail_apart(last, n_hits):
    # trec_eval 9, and so pytrec_eval, sorts by them, and ties by id: here against the order.
    names = [f"d{n:02}" for n in range(n_hits)]
    hits = [ScoredDocument(name) for name in names]
    joined = with_tail([ScoredDocument(names[0], last)], hits, 1)

    run = {"q": {hit.id: hit.score for hit in joined}}
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {names[-1]: 1}}, {"recip_rank"})

    assert evaluator.evaluate(run)["q"]["recip_rank"] == pytest.approx(1 / n_hits)


def experiment(folder, run, entries, top_k=100, qrels=None, measures=("recall@5",)):
    """Run rerankers over the rankings of a run file, named `source`."""
    return rb.run_experiment(config_of(folder, run, entries, top_k, qrels, measures))


def config_of(folder, run, entries, top_k=100, qrels=None, measures=("recall@5",)):
    """Return the config of rerankers over the rankings of a run file, named `source`."""
    judgements = qrels or {query: {next(iter(hits)): 1} for query, hits in run.items()}
    lines = (f"{q} 0 {d} {g}\n" for q, docs in judgements.items() for d, g in docs.items())
    (folder / "qrels").write_text("".join(lines))
    hits = (f"{q} Q0 {d} 1 {s} bm25\n" for q, docs in run.items() for d, s in docs.items())
    (folder / "source.run").write_text("".join(hits))
    (folder / "topics").write_text("".join(f"{query}\tabout {query}\n" for query in run))
    data = {"type": "trec", "qrels": str(folder / "qrels"), "topics": str(folder / "topics")}
    source = {"type": "run_file", "path": str(folder / "source.run")}
    return {
        "dataset": data,
        "retrievers": {"source": source, **entries},
        "metrics": {"retrieval": {"top_k": top_k, "measures": list(measures)}},
        "statistics": {"resamples": 100},
        "output": str(folder / "runs"),
        "cache": str(folder / "cache"),
    }


def ranked(config):
    """Return system -> query -> documents, as the stages of a run rank them."""
    plan = plan_of(config)
    with closing(StageStore(cache_folder(plan.config.cache))) as store:
        resources, engine = engine_of(plan, store)
        stages = stages_of(resources).stages
        ranks = [stage for stage in stages if isinstance(stage, BuildRanking)]
        outputs = engine.run([*(s for s in stages if isinstance(s, Retrieve)), *ranks])
    runs = {stage.name: outputs[stage].run for stage in ranks}
    return {name: documents_of(run) for name, run in runs.items()}


def documents_of(run):
    """Return query -> documents of a run, in the order of their ranks."""
    return {query: [document for document, _ in run.ranking(query)] for query in run.query_ids}


def rankings(result, name):
    """Query -> documents of a system in the run file of a run, which trec_eval would read."""
    return documents_of(rb.read_run(result.path / "rankings" / f"{name}.trec"))


def entry(function, depth, **more):
    return {
        "type": f"python:{__name__}:{function}",
        "retriever": "source",
        "depth": depth,
        "version": "1",
        **more,
    }


generated_runs = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(st.sampled_from([f"d{n}" for n in range(12)]), st.integers(0, 5), min_size=1),
    min_size=1,
)


@pytest.mark.costly
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    generated_runs,
    st.integers(1, 6),
    st.integers(1, 14),
    st.sampled_from(["backwards", "scored_backwards"]),
)
def test_the_stages_of_a_run_keep_the_tail_of_any_run_file(run, depth, top_k, function):
    with tempfile.TemporaryDirectory() as folder:
        entries = {
            "reranked": entry(function, depth),
            "cascade": {**entry("backwards", 2), "retriever": "reranked"},
            "short": entry(function, depth, tail="drop"),
        }
        systems = ranked(config_of(Path(folder), run, entries, top_k, measures=["recall@1"]))

    reranked, cascade, short = (systems[name] for name in ("reranked", "cascade", "short"))
    for query, documents in systems["source"].items():
        head = documents[:depth][::-1]
        if depth > top_k:  # then the reranker sees hits below top_k, too
            order = sorted(run[query], key=lambda d: (run[query][d], d), reverse=True)
            head = order[:depth][::-1][:top_k]
        assert reranked[query] == [*head, *documents[depth:]]
        assert short[query] == head
        again = reranked[query]
        if top_k >= 2:
            assert cascade[query] == [*again[:2][::-1], *again[2:]]
        assert depth > top_k or set(reranked[query]) == set(documents)


def test_recall_of_the_whole_list_is_that_of_the_retriever(tmp_path, assert_message):
    # Gold at ranks 1 and 4 of 5; a reranker of depth 2 lost one: recall@5 1 / 2, and no word.
    run = {"q1": {f"d{n}": 10 - n for n in range(5)}}
    entries = {"kept": entry("backwards", 2), "dropped": entry("backwards", 2, tail="drop")}

    result = experiment(tmp_path, run, entries, top_k=5, qrels={"q1": {"d0": 1, "d3": 1}})

    means = {s["name"]: s["scores"]["recall@5"]["mean"] for s in result.summary["systems"]}
    assert means == {"source": 1.0, "kept": 1.0, "dropped": 0.5}
    assert_message([w for w in result.summary["warnings"] if "returned at most" in w])


def test_hits_that_a_reranker_rejects_stay_out_and_a_short_list_has_a_warning(
    tmp_path, assert_message
):
    run = {"q1": {f"d{n}": 10 - n for n in range(5)}}

    result = experiment(tmp_path, run, {"filter": entry("first_only", 3)}, top_k=5)

    assert rankings(result, "filter") == {"q1": ["d0"]}
    assert_message(result.summary["warnings"])


def test_a_short_retriever_is_no_fault_of_its_reranker(tmp_path):
    result = experiment(tmp_path, {"q1": {"d1": 2, "d2": 1}}, {"r": entry("backwards", 50)})

    assert not [w for w in result.summary["warnings"] if "returned at most" in w]


def test_a_fusion_of_few_hits_has_a_warning_too(tmp_path, assert_message):
    run = {"q1": {f"d{n}": 10 - n for n in range(9)}}
    fused = {"type": "fusion", "retrievers": ["source", "r"]}
    entries = {"r": entry("backwards", 9), "few": {**fused, "depth": 2}, "all": fused}

    result = experiment(tmp_path, run, entries)

    assert_message([w for w in result.summary["warnings"] if "returned at most" in w])


def test_another_tail_in_the_same_cache_asks_no_reranker_again(tmp_path):
    run = {"q1": {f"d{n}": 10 - n for n in range(4)}}
    CALLS.clear()

    def result(**tail):
        return rankings(experiment(tmp_path, run, {"r": entry("backwards", 2, **tail)}), "r")["q1"]

    assert result() == ["d1", "d0", "d2", "d3"]
    assert result(tail="drop") == ["d1", "d0"]
    assert result(tail="keep") == ["d1", "d0", "d2", "d3"]
    assert CALLS == [2]


def test_the_tail_of_another_source_is_not_that_of_the_stored_one(tmp_path):
    entries = {"r": entry("backwards", 2)}
    CALLS.clear()

    first = experiment(tmp_path, {"q1": {"d1": 9, "d2": 8, "d3": 7}}, entries)
    second = experiment(tmp_path, {"q1": {"d1": 9, "d2": 8, "d4": 7}}, entries)

    assert rankings(first, "r")["q1"] == ["d2", "d1", "d3"]
    assert rankings(second, "r")["q1"] == ["d2", "d1", "d4"]
    assert CALLS == [2], "the reranker got the same two hits"


def test_a_wrong_tail_is_an_error_with_its_place(tmp_path, assert_message):
    (tmp_path / "c.yaml").write_text(
        "dataset: {type: beir, path: .}\n"
        "retrievers:\n"
        "  bm25: {type: bm25}\n"
        "  r: {type: http, retriever: bm25, url: 'http://127.0.0.1:1', tail: kept}\n"
    )

    done = run_command("validate", "c.yaml", cwd=tmp_path)

    assert done.returncode == 2
    assert_message(done.stderr + done.stdout)


# A document of 70 words is longer than the 64 tokens that the tiny model reads.
def notes_on_pairs(result):
    return [note for note in result.summary["notes"] if "pairs of query and passage" in note]


@pytest.fixture
def long_pairs(config, data, tiny_cross_encoder):
    """Return a function that reranks three documents, all longer than the model reads."""
    with (data / "corpus.jsonl").open("a") as file:
        for name in ("a1", "a2", "a3"):
            row = {"_id": name, "title": name, "text": "moon mat " * 60}
            file.write(json.dumps(row) + "\n")
    model = {"type": "cross_encoder", "model": tiny_cross_encoder, "device": "cpu"}

    def run(depth, limit=None, **options):
        reranked = {**model, "retriever": "bm25", "depth": depth}
        entries = {"bm25": {"type": "bm25", **options}, "reranked": reranked}
        scores = {"metrics": {"retrieval": {"measures": ["ndcg@10"]}}}
        whole = {**config, "retrievers": entries, "generators": {}, **scores}
        return rb.run_experiment(whole, choices=Choices(limit=limit))

    return run


def n_pairs(result, depth):
    """Return the number of pairs that a reranker reads: the first `depth` hits of each query."""
    return sum(min(depth, len(hits)) for hits in rankings(result, "bm25").values())


@pytest.mark.parametrize("depths", [(5, 2), (2, 5)])
def test_notes_are_those_of_the_own_depth(long_pairs, depths):
    # Both notes stood in the second run, in each order.
    results = [long_pairs(depth) for depth in depths]
    notes = [notes_on_pairs(result) for result in results]

    for depth, result, of_run in zip(depths, results, notes, strict=True):
        assert len(of_run) == 1
        assert f" of {n_pairs(result, depth)} pairs" in of_run[0]
    assert [notes_on_pairs(long_pairs(depth)) for depth in depths] == notes, "all is stored"


def test_notes_on_stored_hits_stand_in_a_run_of_fewer_questions(long_pairs):
    notes = notes_on_pairs(long_pairs(5))

    assert notes_on_pairs(long_pairs(5, limit=2)) == notes


def test_notes_of_another_source_are_not_those_of_the_run(long_pairs):
    # With k1 of 0 the 60 moons of a long document count as one, and ties go to larger ids.
    assert len(notes_on_pairs(long_pairs(2))) == 1

    assert notes_on_pairs(long_pairs(2, k1=0.0)) == [], "no long document is among the first two"
