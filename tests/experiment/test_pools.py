"""Pools of documents per question in whole experiments: systems, notes, signatures, stored hits."""

import json

import pytest

import ragbench as rb
from ragbench.errors import DataError
from ragbench.signature import Signature
from ragbench.types import Collection, Document, Qrels, Query
from tests.commands import run_command
from tests.messages import lines_with

N = 6


def sessions():
    """Return rows in the form of LongMemEval: each question has two sessions of its own."""
    rows = []
    for number in range(N):
        rows.append(
            {
                "question_id": f"q{number}",
                "question": "When did I sell my bike?",
                "answer": "in May",
                "answer_session_ids": [f"gold-{number}"],
                "haystack_dates": ["2023/05/20", "2023/05/21"],
                "haystack_session_ids": [f"dog-{number}", f"gold-{number}"],
                "haystack_sessions": [
                    [{"role": "user", "content": f"My dog {number} is called Rex."}],
                    [{"role": "user", "content": f"I sold bike {number} in May."}],
                ],
            }
        )
    return rows


def table(**pools):
    """Return rows whose pools are ids of the corpus; `pools` replaces those of some questions."""
    rows = []
    for number in range(N):
        pool = [f"dog-{number}", f"gold-{number}"]
        row = {"id": f"q{number}", "question": "When did I sell my bike?"}
        pool = pools.get(f"q{number}", pool)
        rows.append({**row, "relevant": [f"gold-{number}"], "pool": pool})
    return rows


def corpus():
    documents = []
    for number in range(N):
        documents.append({"id": f"dog-{number}", "text": f"My dog {number} is called Rex."})
        documents.append({"id": f"gold-{number}", "text": f"I sold bike {number} in May."})
    return documents


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a config over records in a file; return its result."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))

    def run_config(rows=None, retrievers=None, dataset=None, **config):
        (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows or table())))
        (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus())))
        data = {"type": "records", "path": "qa.jsonl", "corpus": "corpus.jsonl"}
        measures = {"retrieval": {"measures": ["hit_rate@1", "recall@5"], "top_k": 5}}
        whole = {
            "name": "pools",
            "dataset": {**data, **(dataset or {})},
            "retrievers": retrievers or {"bm25": {"type": "bm25"}},
            "metrics": measures,
            "output": "runs",
        }
        if dataset and dataset.get("corpus", "") is None:
            del whole["dataset"]["corpus"]
        return rb.run_experiment({**whole, **config})

    return run_config


def mean(result, measure, system="bm25"):
    [scores] = [s["scores"] for s in result.summary["systems"] if s["name"] == system]
    return scores[measure]["mean"]


def ids(result, system="bm25"):
    """Return query -> ids of the hits in the run folder."""
    rankings = {}
    for line in (result.path / f"rankings/{system}.trec").read_text().splitlines():
        query, _, document, *_ = line.split()
        rankings.setdefault(query, []).append(document)
    return rankings


def test_each_question_finds_its_own_session_alone(run):
    result, joint = run(), run(dataset={"columns": {"pool": None}})

    assert mean(result, "hit_rate@1") == 1.0
    assert mean(joint, "hit_rate@1") == pytest.approx(1 / N)
    assert all(documents == [f"gold-{q[1:]}"] for q, documents in ids(result).items())


def test_longmemeval_reads_as_published(run):
    result = run(sessions(), dataset={"corpus": None})

    assert mean(result, "hit_rate@1") == 1.0
    assert lines_with(result.record.dataset.notes, "read as LongMemEval")


def test_signatures_name_the_pools_and_the_statistics(run):
    results = [run(), run(dataset={"pool": {"statistics": "pool"}})]
    results += [run(table(q0=["gold-0"])), run(dataset={"columns": {"pool": None}})]

    texts = [r.summary["systems"][0]["scores"]["recall@5"]["signature"] for r in results]
    signatures = [*map(Signature.parse, texts)]
    corpus_of, pool_of, other_pools, none = signatures
    assert [s.part("statistics") for s in signatures] == ["corpus", "pool", "corpus", None]
    assert none.part("pool") is None
    assert corpus_of.part("pool") == pool_of.part("pool") != other_pools.part("pool")
    assert [part for part, *_ in corpus_of.differences(none)] == ["pool", "statistics"]


def test_hits_outside_the_pool_are_dropped_before_the_cut_and_counted(run, tmp_path):
    lines = []
    for number in range(N):
        ranked = [f"dog-{n}" for n in range(N)] + [f"gold-{number}"]
        lines += [f"q{number} Q0 {d} {r} {-r} tag\n" for r, d in enumerate(ranked)]
    (tmp_path / "old.trec").write_text("".join(lines))
    entries = {"saved": {"type": "run_file", "path": "old.trec"}, "bm25": {"type": "bm25"}}
    entries["both"] = {"type": "fusion", "retrievers": ["saved", "bm25"]}
    measures = {"retrieval": {"measures": ["recall@2"], "top_k": 2}}

    result = run(retrievers=entries, metrics=measures)

    assert ids(result, "saved") == {q: [f"dog-{q[1:]}", f"gold-{q[1:]}"] for q in ids(result)}
    assert ids(result, "both") == {q: [f"gold-{q[1:]}", f"dog-{q[1:]}"] for q in ids(result)}
    [note] = lines_with(result.record.notes, "outside the pool")
    assert note == f"saved: {OUTSIDE}: {N * (N - 1)}"
    assert not lines_with(result.record.warnings, "outside the pool")


OUTSIDE = "hits outside the pool of their question, dropped before scoring"
CALLS = []


def by_question(question, top_k, pool):
    CALLS.append(pool)
    return (pool or [])[:top_k]


def without_depth(question, pool):
    CALLS.append(pool)
    return pool or []


async def asynchronous(question, top_k, *, pool):
    CALLS.append(pool)
    return (pool or [])[:top_k]


def without_parameter(question, top_k):
    return [f"gold-{n}" for n in range(N)][:top_k]


class ByBatch:
    def retrieve(self, queries, top_k, *, pool=None):
        CALLS.append(pool)
        return [of_query or [] for of_query in pool or [[]] * len(queries)]


class ByBatchNoPool:
    def retrieve(self, queries, top_k):
        CALLS.append([query.pool for query in queries])
        return [[f"gold-{n}" for n in range(N)] for _ in queries]


def own(name):
    return {"own": {"type": f"python:{__name__}:{name}"}}


@pytest.mark.parametrize("name", ["by_question", "without_depth", "asynchronous"])
def test_own_code_gets_the_pool_of_a_question_or_of_each_query(run, name):
    rows = table(q1=None)
    CALLS.clear()
    one_by_one = run(rows, own(name))
    of_questions = sorted(CALLS, key=str)
    CALLS.clear()
    batch = run(rows, own("ByBatch"))

    pools = [None if row["pool"] is None else row["pool"] for row in rows]
    assert of_questions == sorted(pools, key=str)
    assert [pools] == CALLS
    assert ids(one_by_one, "own") == ids(batch, "own")


def test_own_code_without_pools_gets_no_argument_unless_it_needs_one(run):
    no_pool = {"columns": {"pool": None}}
    CALLS.clear()
    run(retrievers=own("ByBatch"), dataset=no_pool)
    assert CALLS == [None]
    CALLS.clear()
    run(retrievers=own("by_question"), dataset=no_pool)
    assert CALLS == [None] * N


@pytest.mark.parametrize("name", ["without_parameter", "ByBatchNoPool"])
def test_hits_of_own_code_outside_the_pool_are_counted(run, name, assert_message):
    result = run(retrievers=own(name))

    expected = {f"q{n}": [f"gold-{n}"] for n in range(N)}
    if name == "without_parameter":  # it was asked for 5 of 6 hits
        del expected["q5"]
    assert ids(result, "own") == expected
    assert lines_with(result.record.notes, f"own: {OUTSIDE}")
    assert_message(lines_with(result.record.warnings, "own: hits outside the pool"))


def n_asked(result):
    """Return the number of queries that the retriever was asked, without stored ones."""
    work = json.loads((result.path / "manifest.json").read_text())["work"]["retrieve bm25"]
    return work["items"] - work["stored"]


def test_stored_hits_belong_to_their_pool_and_statistics(run, tmp_path):
    run()
    again = run()
    other = run(table(q0=["gold-0"], q1=["gold-1"]))
    statistics = run(dataset={"pool": {"statistics": "pool"}})

    assert [*map(n_asked, (again, other, statistics))] == [0, 2, N]


def test_a_sweep_with_a_local_pool_of_workers_gives_the_same_rankings(run):
    swept = {"bm25": {"type": "bm25", "sweep": {"k1": [0.5, 2.0]}}, "plain": {"type": "bm25"}}
    here = run(retrievers=swept)
    workers = run(retrievers=swept, executor={"type": "local", "workers": 2})

    for name in ("bm25-k1=0.5", "bm25-k1=2.0", "plain"):
        assert ids(here, name) == ids(workers, name)


@pytest.mark.parametrize("select", [{"on": "train"}, {"folds": 3}])
def test_a_sweep_is_selected_within_the_pools(run, tmp_path, select):
    (tmp_path / "splits").mkdir()
    for name in ("train", "test"):
        path = tmp_path / f"splits/{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, table())), encoding="utf-8")
    data = {"type": "huggingface", "path": "splits", "split": "test", "corpus": "corpus.jsonl"}
    swept = {"type": "bm25", "sweep": {"k1": [0.5, 2.0]}, "select": select}
    swept["select"] = {**select, "measure": "recall@5"}

    result = run(retrievers={"tuned": swept}, dataset=data)

    [system] = result.summary["systems"]
    assert system["scores"]["hit_rate@1"]["mean"] == 1.0
    assert all(
        documents == [f"gold-{q[1:]}"] for q, documents in ids(result, system["name"]).items()
    )


def test_gold_outside_the_pool_is_no_fault_of_the_retriever(run):
    result = run(table(q0=["dog-0", "dog-1"], q1=[]))

    causes = result.causes["bm25"]
    assert [causes[q].cause for q in ("q0", "q1", "q2")] == ["not_in_corpus"] * 2 + ["found"]
    assert causes["q0"].why == "gold gold-0 not in the pool"
    for printed in (
        run_command("fix", str(result.path)).stdout,
        run_command("show", str(result.path), "q0").stdout,
    ):
        assert "the pool of the question" in printed
        assert "the corpus, or how" not in printed


def test_one_question_about_several_pools_is_no_repetition(run, tmp_path):
    run(table(q1=["dog-0", "gold-0"]))
    data = {"type": "records", "path": "qa.jsonl", "corpus": "corpus.jsonl"}
    (tmp_path / "audit.yaml").write_text(json.dumps({"dataset": data}), encoding="utf-8")

    printed = run_command("audit", "audit.yaml", cwd=tmp_path).stdout

    assert len(lines_with(printed, "repeats query")) == 1
    assert "query q1 repeats query q0" in printed


def test_several_data_sets_have_pools_of_their_own(run, tmp_path):
    run()
    data = {"type": "records", "path": str(tmp_path / "qa.jsonl")}
    data["corpus"] = str(tmp_path / "corpus.jsonl")
    config = {
        "datasets": {"own": data, "joint": {**data, "columns": {"pool": None}}},
        "retrievers": {"bm25": {"type": "bm25"}},
        "metrics": {"retrieval": {"measures": ["hit_rate@1"]}},
        "output": "runs",
    }

    (tmp_path / "both.yaml").write_text(json.dumps(config), encoding="utf-8")

    code = run_command("run", "both.yaml", cwd=tmp_path).returncode

    means = {}
    for name in ("own", "joint"):
        summary = json.loads((tmp_path / f"runs/both/{name}/latest/summary.json").read_text())
        means[name] = summary["systems"][0]["scores"]["hit_rate@1"]["mean"]
    assert (code, means) == (0, {"own": 1.0, "joint": pytest.approx(1 / N)})


def test_a_resumed_run_asks_for_the_other_questions_alone(run):
    run(table()[:2])

    assert n_asked(run()) == N - 2


def test_a_collection_from_python_checks_its_pools(tmp_path):
    documents = [Document("a", "moon of Jupiter"), Document("b", "moon")]
    queries = [Query("q1", "moon", pool=("a",)), Query("q2", "moon")]
    data = Collection(queries, documents, Qrels.from_dict({"q1": {"a": 1}, "q2": {"b": 1}}))
    config = {"retrievers": {"bm25": {"type": "bm25"}}, "output": str(tmp_path)}

    result = rb.run_experiment(config, dataset=data)

    assert ids(result) == {"q1": ["a"], "q2": ["b", "a"]}
    with pytest.raises(DataError) as error:
        rb.run_experiment(config, dataset=Collection([Query("q", "?", pool=("c",))], documents))
    assert "'c'" in str(error.value)
    rows = {"queries": [{"id": "q1", "text": "moon", "pool": ["b"]}], "documents": documents}
    rows["qrels"] = {"q1": {"b": 1}}
    assert ids(rb.run_experiment(config, dataset=rows)) == {"q1": ["b"]}
