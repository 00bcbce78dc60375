"""The list of stages: a new stage is run, planned and paid for like all others."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from ragbench.config.load import load_config
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages import graph
from ragbench.experiment.stages.answers import AnswerQueries
from ragbench.experiment.stages.base import Slot, Stage
from ragbench.experiment.stages.keys import query_key
from ragbench.files import cache_folder
from ragbench.records.manifest import Choices
from ragbench.store.maintenance import stored_in
from tests.commands import run_command
from tests.experiment.moons import QUERIES
from tests.notebook import programs, run_cell


class CountWords(Stage):
    """A stage that nothing but the list of stages knows."""

    kind, version = "words", 1
    by_query = True
    counts = ()

    def items(self, inputs):
        group = self.group("the queries", ["words"])
        return [Slot(group, query_key(q), row) for row, q in enumerate(self.plan.queries)]

    def make(self, inputs, todo, keep, advance):
        CountWords.counts += (len(todo),)
        for row in todo:
            keep(row, {"words": len(self.plan.queries[row].text.split())})
            advance(1)

    def output(self, inputs, values):
        return sum(value["words"] for value in values if value is not None)

    def add(self, outputs, results):
        results.notes.append(f"{outputs[self]} words")

    def step(self, outputs, work):
        return self.node(work, len(self.plan.queries))


@pytest.fixture
def counted(monkeypatch):
    listed = graph.stages_of

    def with_words(resources):
        stages = listed(resources)
        words = CountWords(resources.plan, "count words")
        return replace(stages, stages=[*stages.stages, words])

    monkeypatch.setattr(CountWords, "counts", ())
    monkeypatch.setattr(graph, "stages_of", with_words)


@pytest.mark.costly
def test_the_stage_of_the_architecture_page_runs(repository, config, monkeypatch):
    (program,) = programs(repository / "docs" / "architecture.md")
    run_cell(program, "architecture.md", names := {"__name__": "cell"})
    listed = graph.stages_of

    def with_words(resources):
        stages = listed(resources)
        answering = [stage for stage in stages.stages if isinstance(stage, AnswerQueries)]
        counts = [names["CountWords"](stage) for stage in answering]
        return replace(stages, stages=[*stages.stages, *counts])

    monkeypatch.setattr(graph, "stages_of", with_words)

    experiment = run_experiment(config)

    rows = (experiment.path / "predictions" / "bm25--extractive.jsonl").read_text()
    words = sum(len((json.loads(row)["answer"] or "").split()) for row in rows.splitlines())
    assert f"count words of bm25/extractive: {words}" in experiment.summary["notes"]
    steps = {step.name: step for node in plan_nodes(config) for step in all_steps(node)}
    assert steps["count words of bm25/extractive"].stored == len(QUERIES)


def test_the_stage_of_the_architecture_page_passes_the_linter(repository):
    (program,) = programs(repository / "docs" / "architecture.md")
    place = "ragbench/experiment/stages/count_words.py"
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", place, "-"]

    linted = subprocess.run(command, input=program, cwd=repository, text=True, capture_output=True)

    assert linted.returncode == 0, linted.stdout


def all_steps(node):
    """A step and all below it."""
    return [node, *(below for after in node.after for below in all_steps(after))]


def plan_nodes(config):
    checked = load_config(config)
    plan = make_plan(checked, load_collection(checked), Choices(), LiveComponents())
    return graph.plan_run(plan).nodes


def planned(config):
    return {node.name: (node.items, node.stored) for node in plan_nodes(config)}


@pytest.mark.costly
@pytest.mark.usefixtures("counted")
def test_a_stage_of_the_list_is_planned_run_stored_and_counted(config):
    assert planned(config)["count words"] == (len(QUERIES), 0)

    experiment = run_experiment(config)

    words = sum(len(text.split()) for text in QUERIES.values())
    assert f"{words} words" in experiment.summary["notes"]
    assert planned(config)["count words"] == (len(QUERIES), len(QUERIES))
    manifest = json.loads((run_experiment(config).path / "manifest.json").read_text())
    assert manifest["work"]["count words"] == {"items": len(QUERIES), "stored": len(QUERIES)}
    assert CountWords.counts == (len(QUERIES),)
    stored = [item for item in stored_in(cache_folder()) if item.kind == "words"]
    assert [item.label for item in stored] == ["the queries"]
    assert run_command("cache").stdout.splitlines()[-1].split()[0] == "words"


@pytest.mark.costly
@pytest.mark.usefixtures("counted")
def test_no_stage_stores_a_secret(config, monkeypatch):
    # Whatever a service told it: it need not think of it itself.
    monkeypatch.setenv("A_TOKEN", "AAAAAAAA-told-back")

    def tell(self, inputs, todo, keep, advance):
        for row in todo:
            keep(row, {"words": 1, "told": f"401: bad key {self.plan.config.secrets['A_TOKEN']}"})

    monkeypatch.setattr(CountWords, "make", tell)
    retriever = {"type": f"python:{__name__}:find_nothing", "api_key": "${A_TOKEN}"}
    run_experiment({**config, "retrievers": {**config["retrievers"], "own": retriever}})

    (stored,) = (item for item in stored_in(cache_folder()) if item.kind == "words")
    text = stored.path.read_bytes()
    assert b"401: bad key ${A_TOKEN}" in text
    assert b"AAAAAAAA-told-back" not in text


def find_nothing(api_key):
    return lambda queries, top_k: [[] for _ in queries]


@pytest.mark.costly
@pytest.mark.usefixtures("counted")
def test_a_stage_of_the_list_takes_part_in_the_rounds_of_a_budget(config):
    run_experiment({**config, "budget": {"usd": 1}})

    assert CountWords.counts == (1, 1, 1, 1, 1)


def test_each_stage_stands_behind_those_that_it_reads(config, assert_message):
    checked = load_config(
        {
            **config,
            "retrievers": {
                "both": {"type": "fusion", "retrievers": ["bm25", "exact"]},
                **config["retrievers"],
            },
            "controls": ["no_context"],
        }
    )
    plan = make_plan(checked, load_collection(checked), Choices(only=("both",)), LiveComponents())
    planned = graph.plan_run(plan)

    assert_message([node.name for node in planned.nodes])
    [both] = [node for node in planned.nodes if node.name == "retrieve both"]
    assert [node.name for node in both.after] == ["score both", "generate both/extractive"]
