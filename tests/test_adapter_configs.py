"""The example configs of adapters, run as they are against servers on loopback."""

import json
import runpy

import pytest

from ragbench import run_experiment
from ragbench.records.manifest import Choices
from tests.chat_server import ChatServer
from tests.retrieve.search_server import Reply, SearchServer

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

FEW = Choices(limit=6)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def systems(experiment):
    return {system["name"]: system for system in experiment.summary["systems"]}


def predictions(experiment, system):
    lines = (experiment.path / "predictions" / f"{system}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_langchain(repository):
    experiment = run_experiment(repository / "configs" / "langchain.yaml", choices=FEW)

    by_name = systems(experiment)
    assert by_name["now"]["scores"]["recall@10"]["failed"] == {}
    assert by_name["now"]["scores"]["recall@10"]["mean"] > 0
    [first, *_] = predictions(experiment, "now")
    assert len(first["contexts"]) == 4, "what the chain retrieved"
    assert first["answer"] == first["contexts"][0]["text"]
    [row] = next(
        family["comparisons"]
        for family in experiment.comparisons["measures"]
        if family["measure"] == "token_f1"
    )
    assert (row["system"], row["baseline"]) == ("new", "now")
    assert 0 < row["p"] <= 1
    assert row["difference"] != 0


def test_apps(repository):
    experiment = run_experiment(repository / "configs" / "apps.yaml", choices=FEW)

    by_name = systems(experiment)
    assert all(by_name[name]["scores"]["recall@10"]["n"] > 0 for name in ("prod", "plain"))
    assert all(by_name[name]["scores"]["ndcg@10"]["failed"] == {} for name in ("prod", "plain"))
    assert {name for name in by_name if by_name[name].get("role") == "control"} == {
        f"{control}/extractive" for control in ("gold_context", "no_context", "shuffled_context")
    }
    assert by_name["prod"]["scores"]["rouge1"]["failed"] == {}


def test_openai(repository, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer("An answer of the server.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        experiment = run_experiment(repository / "configs" / "openai.yaml", choices=FEW)

    rows = predictions(experiment, "bm25--gpt") + predictions(experiment, "minilm--gpt")
    assert {row["answer"] for row in rows} == {"An answer of the server."}
    assert all(row["usage"]["usd"] > 0 and row["latency_ms"] > 0 for row in rows)
    assert server.counters.requests <= len(rows) == 12


def test_http(repository, monkeypatch):
    requests = []

    def script(body):
        requests.append(body)
        if "passages" in body:
            return {"answer": body["passages"][0]}
        if len(requests) == 3:
            return Reply({"error": "token secret-of-tests is unknown"}, 401)
        return {"hits": [{"id": "io-volcanoes", "score": 2}, {"id": "europa-ocean", "score": 1}]}

    with SearchServer(script) as server:
        for name in ("SEARCH_URL", "ANSWER_URL"):
            monkeypatch.setenv(name, server.url)
        monkeypatch.setenv("SEARCH_TOKEN", "secret-of-tests")
        experiment = run_experiment(
            repository / "configs" / "http.yaml",
            {"retrievers.service.concurrency": 1},  # so that the third question is known
            choices=FEW,
        )

    assert server.received[0][1]["Authorization"] == "Bearer secret-of-tests"
    files = [path for path in experiment.path.rglob("*") if path.is_file()]
    assert files
    assert all(b"secret-of-tests" not in path.read_bytes() for path in files)
    rows = map(json.loads, (experiment.path / "unscored.jsonl").read_text().splitlines())
    failed = [row for row in rows if row["system"] == "service" and row["status"] == "failed"]
    [query] = {row["query_id"] for row in failed}
    assert {row["cause"] for row in failed} == {"server_error"}
    for row in failed:
        assert row["detail"].startswith("retriever 'service': the server answered 401")
        assert row["detail"].endswith(f"(query '{query}')")


def test_live_objects_of_langchain(repository):
    myapp = runpy.run_path(str(repository / "configs" / "myapp.py"))
    folder = repository / "datasets" / "example"
    experiment = run_experiment(
        {
            "dataset": {"type": "beir", "path": str(folder), "split": "test"},
            "metrics": {"retrieval": {"match": {"level": "document", "id": "metadata.doc_id"}}},
        },
        retrievers={"mine": myapp["build_retriever"](k=4)},
        generators={"chain": lambda question, contexts: "x"},
        choices=FEW,
    )

    score = systems(experiment)["mine"]["scores"]["ndcg@10"]
    assert (score["failed"], score["n"] + score["not_applicable"]) == ({}, 6)
