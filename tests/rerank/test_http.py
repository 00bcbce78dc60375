"""`type: http` with `retriever:` against a real server on loopback: good replies and bad ones."""

import json
import re

import pytest

import ragbench as rb
from ragbench.errors import OptionError
from ragbench.experiment.calls import Calls
from ragbench.experiment.plan.components import RerankingRetriever
from ragbench.records.manifest import Choices
from ragbench.rerank.http import HttpReranker
from ragbench.types import Cause, Query, ScoredDocument
from tests.outcomes import retrieve
from tests.retrieve.search_server import Reply, SearchServer

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

KEY = "sk-a-secret-key-of-the-test"
HITS = [
    ScoredDocument("a", 3.0, "Io is hot."),
    ScoredDocument("b", 2.0, "has lakes", "Titan", {"year": 1655}, "whole"),
    ScoredDocument("c", 1.0, "Rings."),
]


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch):
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


def results(*pairs):
    return {"results": [{"index": i, "relevance_score": score} for i, score in pairs]}


def ask(script, hits=HITS, top_k=10, **options):
    with SearchServer(script) as server:
        reranker = RerankingRetriever(HttpReranker(url=server.url, **options), "first", 50)
        queries = [Query("q1", "moons")]
        calls = Calls("retriever 'mine'")
        [outcome] = retrieve(reranker, queries, top_k, calls, rankings=[[hits]])
        return outcome, server


def test_the_request_and_the_order_of_the_scores():
    outcome, server = ask(lambda body: results((2, 0.25), (0, 0.5), (1, 0.75)), model="rerank-v3")

    documents = outcome.value.documents
    assert [(hit.id, hit.score) for hit in documents] == [("b", 0.75), ("a", 0.5), ("c", 0.25)]
    assert (documents[0].text, documents[0].title, documents[0].document) == (
        "has lakes",
        "Titan",
        "whole",
    )
    [(_, headers, body)] = server.received
    assert body == {
        "query": "moons",
        "documents": ["Io is hot.", "Titan has lakes", "Rings."],
        "top_n": 3,
        "model": "rerank-v3",
    }
    assert "Authorization" not in headers


def test_top_k_is_asked_for_and_kept():
    outcome, server = ask(lambda body: results((1, 0.5), (2, 0.5), (0, 0.1)), top_k=2)

    assert [hit.id for hit in outcome.value.documents] == ["b", "c"]
    assert server.received[0][2]["top_n"] == 2
    assert "model" not in server.received[0][2]


def test_no_hits_are_not_sent():
    outcome, server = ask(lambda body: results(), hits=[])

    assert outcome.value.documents == []
    assert server.received == []


def test_the_key_is_read_from_the_environment_and_stands_in_no_message(monkeypatch):
    monkeypatch.setenv("RERANK_KEY", KEY)

    outcome, server = ask(
        lambda body: Reply({"message": f"bad key {KEY}"}, 401), api_key_env="RERANK_KEY"
    )

    assert server.received[0][1]["Authorization"] == f"Bearer {KEY}"
    assert outcome.cause is Cause.SERVER_ERROR
    assert "the server answered 401" in outcome.detail
    assert KEY not in outcome.detail


def test_a_key_that_is_not_set_is_an_error_before_anything_is_sent(monkeypatch, assert_message):
    monkeypatch.delenv("RERANK_KEY", raising=False)
    with pytest.raises(OptionError) as caught:
        HttpReranker(url="http://127.0.0.1:9/rerank", api_key_env="RERANK_KEY")
    assert_message(caught.value, "http: api_key_env")


def test_an_overloaded_server_is_asked_again():
    answers = iter([Reply({}, 503), Reply({}, 429), Reply(results((1, 2), (0, 1), (2, 0)))])

    outcome, server = ask(lambda body: next(answers))

    assert [hit.id for hit in outcome.value.documents] == ["b", "a", "c"]
    assert len(server.received) == 3


BAD = [
    (Reply(b"<html>Bad Gateway</html>"), Cause.MALFORMED, "the reply is no JSON: '<html>"),
    (Reply([1]), Cause.MALFORMED, r"the reply is \[1\], allowed: \{results"),
    (Reply({"data": []}), Cause.MALFORMED, r"the reply is \{'data': \[\]\}, allowed: \{results"),
    (Reply({"results": [7]}), Cause.MALFORMED, r"results\[0\] is 7, allowed: \{index: 0 to 2"),
    (Reply(results((3, 1))), Cause.MALFORMED, r"results\[0\] is \{'index': 3,"),
    (Reply(results((True, 1))), Cause.MALFORMED, r"results\[0\] is \{'index': True"),
    (Reply(results((0, 1), (0, 2))), Cause.MALFORMED, r"results\[1\] is .*each once"),
    (Reply(results((0, None))), Cause.MALFORMED, r"results\[0\] is .*a number"),
    (Reply(results((0, float("nan")))), Cause.MALFORMED, r"results\[0\] is .*a number"),
    (Reply(results((0, float("inf")))), Cause.MALFORMED, r"results\[0\] is .*a number"),
    (Reply(results((0, 10**400))), Cause.MALFORMED, r"results\[0\] is .*a number"),
    (Reply(results((0, 1))), Cause.MALFORMED, r"1 result, allowed: 3 \(top_n\)"),
    (Reply({"message": "no such model"}, 404), Cause.SERVER_ERROR, "404: .*no such model"),
    (Reply({}, 500), Cause.SERVER_ERROR, "answered 500: .*; tried 3 times"),
    (Reply(b"", cut=True), Cause.SERVER_ERROR, "the connection failed: .*; tried 3 times"),
    (Reply(results(), wait_s=5), Cause.TIMEOUT, "did not answer within 0.4 s"),
    (Reply(b"", drip=True), Cause.TIMEOUT, "did not answer within 0.4 s"),
]


@pytest.mark.parametrize(("reply", "cause", "detail"), BAD)
def test_a_bad_reply_fails_the_query_by_cause(reply, cause, detail):
    outcome, _ = ask(lambda body: reply, timeout=0.4 if cause is Cause.TIMEOUT else 60.0)

    assert outcome.cause is cause
    assert re.search(f"retriever 'mine': .*{detail}", outcome.detail), outcome.detail


def test_a_hit_without_text_is_told(assert_message):
    outcome, server = ask(lambda body: results((0, 1)), hits=[ScoredDocument("a")])

    assert outcome.cause is Cause.MALFORMED
    assert_message(outcome.detail)
    assert server.received == []


def test_in_an_experiment(example_data, tmp_path, monkeypatch):
    # Three hits of bm25 in the reverse order, then the others; its key stands in no file
    monkeypatch.setenv("RERANK_KEY", KEY)
    monkeypatch.chdir(tmp_path)

    def reverse(body):
        return results(*((n, n) for n in range(len(body["documents"]))))

    with SearchServer(reverse) as server:
        reranker = {"type": "http", "retriever": "bm25", "url": server.url, "depth": 3}
        experiment = rb.run_experiment(
            {
                "dataset": {"type": "beir", "path": str(example_data)},
                "retrievers": {
                    "bm25": {"type": "bm25"},
                    "best": {**reranker, "api_key_env": "RERANK_KEY"},
                },
                "generators": {},
                "metrics": {"retrieval": {"measures": ["mrr"]}},
            },
            choices=Choices(limit=6),
        )

    first, again = (
        rb.read_run(experiment.path / "rankings" / f"{name}.trec") for name in ("bm25", "best")
    )
    for query in again.query_ids:
        expected = [document for document, _ in first.ranking(query)]
        reordered = expected[2::-1] + expected[3:]
        assert [document for document, _ in again.ranking(query)] == reordered
    assert not any(KEY in path.read_text() for path in experiment.path.rglob("*") if path.is_file())
    assert json.loads((experiment.path / "summary.json").read_text())["complete"]


def test_a_service_may_change_and_so_is_asked_again_in_each_run():
    assert HttpReranker.is_opaque
