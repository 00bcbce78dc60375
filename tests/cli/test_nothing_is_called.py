"""`validate` and `plan` import what a config names, and call nothing of it."""

import json
import sys

import pytest

from tests.commands import run_command

MODULE = """
from pathlib import Path
from typing import Annotated
from ragbench.registry import Option
from ragbench.score.retrieval.base import measure

def called(*arguments, **options):
    Path("called").write_text("called")
    raise RuntimeError("called")

class Search:
    def __init__(self, boost: Annotated[float, Option("Boost.", ge=0)] = 1.0):
        called()
    def index(self, corpus):
        called()
    def retrieve(self, queries, top_k):
        called()

class Reranker:
    __init__ = __getattr__ = called
    def rerank(self, queries, hits, top_k):
        called()

class Answers:
    def __init__(self, **options):
        called()
    def generate(self, question, contexts):
        called()

class App:
    def __init__(self, key="k"):
        called()
    def answer(self, question):
        called()

class Verdicts:
    def __init__(self, strict=False):
        called()
    def judge(self, item, rubric):
        called()

def grounded(answer, contexts):
    called()

class Nothing:
    def __init__(self):
        called()

class Data:
    def __init__(self):
        called()
    load = called

@measure("own", range=(0.0, 1.0))
def own(ranked):
    called()

def build(size, *, k=3):
    called()

def splitter(chunk_size, chunk_overlap):
    called()

load = called
"""
# every kind of component that may be code of the user
SYSTEMS = """
retrievers:
  bm25: {type: bm25}
  own: {type: "python:watched_code:Search", boost: 2}
  ordered: {type: "python:watched_code:Reranker", retriever: bm25}
  chain: {type: langchain, factory: "watched_code:build", args: {size: 3}}
  nodes: {type: llama_index, factory: "watched_code:build", args: {size: 3}}
  hay: {type: haystack, factory: "watched_code:build", args: {size: 3, k: 1}}
  cut: {type: bm25, chunk: {by: langchain, size: 9, overlap: 0, factory: "watched_code:splitter"}}
  joined: {type: fusion, retrievers: [bm25, own]}
generators:
  told: {type: "python:watched_code:Answers", retrievers: [own]}
  model: {type: langchain, factory: "watched_code:build", args: {size: 3}, retrievers: [bm25]}
apps:
  shop: {type: "python:watched_code:App"}
  linked: {type: langchain, factory: "watched_code:build", args: {size: 3}}
metrics:
  retrieval: {measures: [ndcg@10, "python:watched_code:own"]}
  judge:
    chat: {type: langchain, factory: "watched_code:build", args: {size: 1}, rubrics: [fluency]}
    own: {type: "python:watched_code:Verdicts", strict: true, rubrics: [fluency]}
    plain: {type: "python:watched_code:grounded"}
"""
# components in the order of the config; `bm25` and `joined` are made
NOT_MADE = """
retriever 'own' (watched_code:Search)
retriever 'ordered' (watched_code:Reranker)
retriever 'chain' (watched_code:build)
retriever 'nodes' (watched_code:build)
retriever 'hay' (watched_code:build)
retriever 'cut' (watched_code:splitter)
generator 'told' (watched_code:Answers)
generator 'model' (watched_code:build)
app 'shop' (watched_code:App)
app 'linked' (watched_code:build)
judge 'chat' (watched_code:build)
judge 'own' (watched_code:Verdicts)
""".strip().splitlines()


@pytest.fixture
def workplace(tmp_path, example_data):
    (tmp_path / "watched_code.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


def _config(workplace, dataset, systems=SYSTEMS):
    (workplace / "c.yaml").write_text(f"dataset: {dataset}\n{systems}", encoding="utf-8")


@pytest.mark.costly
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_no_class_and_no_factory_is_called(workplace, example_data, command):
    _config(workplace, f"{{type: beir, path: '{example_data}'}}")

    few = ("--limit", 4) if command == "plan" else ()
    done = run_command(command, "c.yaml", *few, cwd=workplace)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not (workplace / "called").exists()
    for name in NOT_MADE:
        assert f"{name} is created by a run only" in done.stdout
    assert "'bm25'" not in done.stdout, "what is ours is made"


@pytest.mark.costly
def test_plan_counts_the_stages_of_what_is_not_made(workplace, example_data):
    _config(workplace, f"{{type: beir, path: '{example_data}'}}")

    done = run_command("plan", "c.yaml", "--json", "--limit", 4, cwd=workplace)

    plan = json.loads(done.stdout)
    stages = {stage["stage"]: stage for stage in plan["stages"]}
    assert {"retrieve own", "retrieve chain", "answer shop"} <= stages.keys()
    assert stages["retrieve own"]["items"] == plan["queries"]
    assert plan["not_made"] == NOT_MADE


@pytest.mark.parametrize("command", ["validate", "plan"])
@pytest.mark.parametrize("name", ["Data", "load"])
def test_a_data_set_in_python_is_not_loaded(workplace, command, name, assert_message):
    _config(workplace, f"{{type: 'python:watched_code:{name}'}}")

    done = run_command(command, "c.yaml", cwd=workplace)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not (workplace / "called").exists()
    assert f"python:watched_code:{name}" in done.stdout
    if command == "plan":
        planned = json.loads(run_command("plan", "c.yaml", "--json", cwd=workplace).stdout)
        assert planned["queries"] is None
        assert_message(planned["not_made"][0])


ANSWERING = """
retrievers: {bm25: {type: bm25}}
generators: {first: {type: extractive}}
"""
DENSE = "retrievers: {bm25: {type: bm25}, own: {type: dense}}"
KEYLESS = "metrics: {judge: {type: openai, model: m, rubrics: [fluency]}"


@pytest.mark.parametrize("command", ["validate", "plan"])
@pytest.mark.parametrize(
    ("name", "systems", "package", "message"),
    [
        ("load", f"{ANSWERING}{KEYLESS}}}", None, "found 'OPENAI_API_KEY', which is not set"),
        (
            "load",
            f"retrievers: {{b: {{type: bm25}}}}\n{KEYLESS}, retrieval: {{fill: {{}}}}}}",
            None,
            "found 'OPENAI_API_KEY', which is not set",
        ),
        ("load", DENSE, "sentence_transformers", "'dense' needs sentence-transformers"),
        (
            "load",
            f"{ANSWERING}metrics: {{generation: [bertscore]}}",
            "bert_score",
            "metric 'bertscore' needs bert-score",
        ),
        (
            "Nothing",
            ANSWERING,
            None,
            "watched_code:Nothing has no method load, allowed: a class with load",
        ),
    ],
)
def test_a_data_set_in_python_hides_no_missing_key_or_package(
    workplace, monkeypatch, command, name, systems, package, message
):
    if package is not None:
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    _config(workplace, f"{{type: 'python:watched_code:{name}'}}", systems)

    done = run_command(command, "c.yaml", cwd=workplace, env={"HOME": str(workplace), "PATH": ""})

    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (workplace / "called").exists()


@pytest.mark.parametrize(
    ("systems", "options"),
    [
        (f"{ANSWERING}{KEYLESS}}}", ["--no-judge", "--only", "bm25"]),
        # answers may be in the data, or not: only a run can tell
        (f"retrievers: {{b: {{type: bm25}}}}\n{KEYLESS}}}", ["--only", "recorded"]),
        (f"{KEYLESS}}}", []),
        (DENSE, ["--only", "bm25"]),
        ("controls: [gold_context]\n" + ANSWERING, ["--only", "bm25/first"]),
    ],
)
def test_a_plan_refuses_nothing_that_a_run_may_accept(workplace, monkeypatch, systems, options):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    _config(workplace, "{type: 'python:watched_code:load'}", systems)

    done = run_command(
        "plan", "c.yaml", *options, cwd=workplace, env={"HOME": str(workplace), "PATH": ""}
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{type: langchain, factory: 'watched_code:build', args: {sise: 3}}", "'size'?"),
        ("{type: langchain, factory: 'watched_code:build', args: {}}", "missing argument 'size'"),
        ("{type: langchain, factory: 'watched_code:build'}", "missing argument 'size'"),
        ("{type: haystack, factory: 'watched_code:bild'}", "did you mean 'build'?"),
        (
            "{type: langchain, factory: 'watched_code:__name__', args: {a: 1}}",
            "is an object and takes no arguments",
        ),
        ("{type: 'python:watched_code:Search', boost: -1}", "boost: -1 is out of range"),
        ("{type: 'python:watched_code:Nothing'}", "watched_code:Nothing has no method retrieve"),
    ],
)
def test_what_can_be_told_without_a_call_is_told(workplace, example_data, entry, message):
    _config(workplace, f"{{type: beir, path: '{example_data}'}}", f"retrievers: {{x: {entry}}}\n")

    done = run_command("validate", "c.yaml", cwd=workplace)

    assert done.returncode == 2
    assert message in done.stderr
    assert not (workplace / "called").exists()


@pytest.mark.costly
def test_a_run_calls_each_factory_once(workplace, example_data):
    (workplace / "counted_code.py").write_text(
        "def build(n):\n"
        "    with open('calls', 'a') as stream:\n"
        "        stream.write(f'{n}\\n')\n"
        "    class Store:\n"
        "        def similarity_search(self, question, k):\n"
        "            return []\n"
        "    return Store()\n",
        encoding="utf-8",
    )
    entry = "{type: langchain, factory: 'counted_code:build', args: {n: 1}}"
    _config(workplace, f"{{type: beir, path: '{example_data}'}}", f"retrievers: {{x: {entry}}}\n")

    for command in ("validate", "plan"):
        assert run_command(command, "c.yaml", cwd=workplace).returncode == 0
    assert not (workplace / "calls").exists()
    done = run_command("run", "c.yaml", "--quiet", "--limit", 4, cwd=workplace)

    assert done.returncode == 0, done.stderr
    assert (workplace / "calls").read_text() == "1\n"
