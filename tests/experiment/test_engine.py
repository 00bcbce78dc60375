"""The engine: stages keep no state, a plan touches nothing, and interrupted rounds end the same."""

import ast
import json
import os
import re
from contextlib import closing, suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.config.load import load_config
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages.base import ItemGroup, Outputs, Slot, Stage
from ragbench.experiment.stages.engine import Engine
from ragbench.experiment.stages.graph import plan_run, stages_of
from ragbench.experiment.stages.resources import PromptWords, Resources
from ragbench.files import cache_folder
from ragbench.records.manifest import Choices
from ragbench.report.progress import Progress
from ragbench.store.items import StageItems, StageStore
from tests.chat_server import ChatServer
from tests.experiment.moons import FEW_SCORES, QUERIES, moons_place
from tests.score.judge.scripted import Script


def plan_of(config):
    checked = load_config(config)
    return make_plan(checked, load_collection(checked), Choices(), LiveComponents())


def engine_of(plan, store):
    resources = Resources(plan=plan, run_token="token", prompts=PromptWords(plan, store))
    return resources, Engine(resources, store, Progress(quiet=True))


class ReadOnlyItems(StageItems):
    """Stored items that refuse every write."""

    def put(self, item, value):
        raise AssertionError(f"{self.stage} {item} was written")

    def refuse(self, item):
        raise AssertionError(f"{self.stage} {item} was removed")


class ReadOnlyStore(StageStore):
    """A store that refuses every write."""

    def items(self, stage, label, key):
        return ReadOnlyItems(self._store, stage, key, label)


CALLS = []


def search(question, top_k):
    CALLS.append(question)
    return ["d1", "d2"]


def answer(question):
    CALLS.append(question)
    return {"answer": "Io", "contexts": ["d1"]}


def with_all_stages(config, url):
    """The config with a stage of every class."""
    model = {"type": "openai", "model": "m", "base_url": url}
    place = f"python:{__name__}"
    return {
        **config,
        "retrievers": {
            **config["retrievers"],
            "both": {"type": "fusion", "retrievers": ["bm25", "exact"]},
            "own": {"type": f"{place}:search", "version": "1"},
        },
        "generators": {**config["generators"], "gpt": {**model, "repeat": 2, "temperature": 1}},
        "apps": {"app": {"type": f"{place}:answer", "version": "1"}},
        "controls": ["gold_context", "no_context", "shuffled_context", "injection"],
        "metrics": {
            "retrieval": {"measures": ["ndcg@10"], "fill": {"judge": "j", "depth": 2}},
            "generation": ["rouge1"],
            "judge": {"j": {**model, "rubrics": ["faithfulness", "pairwise"]}},
        },
        "statistics": {"resamples": 100},
    }


def attributes_of(holder, depth=2):
    """Read all attributes of an object, and those of what they hold."""
    for name in dir(holder):
        if not name.startswith("__"):
            value = getattr(holder, name)
            if depth and type(value).__module__.startswith("ragbench."):
                attributes_of(value, depth - 1)


@pytest.fixture(scope="module")
def chat():
    """A model that answers questions and judges."""
    judge = Script()

    def reply(body, times_asked):
        return judge(body, times_asked) if "response_format" in body else "Io"

    with pytest.MonkeyPatch.context() as patch, ChatServer(reply) as server:
        patch.setenv("OPENAI_API_KEY", "k")
        yield server


class WholeRun(NamedTuple):
    """A run with a stage of every class, and its plan before; nobody changes its cache."""

    config: dict[str, Any]
    cache: str
    before: dict[str, Any]
    """Step of the plan before the run, by name."""
    work: dict[str, Any]
    """What the manifest says of each stage."""


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory, chat):
    folder = tmp_path_factory.mktemp("whole")
    with moons_place(folder) as moons:
        config = with_all_stages({**moons, "output": str(folder / "runs")}, chat.url)
        before = steps_of(config)
        run = run_experiment(config)
        assert chat.received
        assert CALLS
        cache = os.environ["RAGBENCH_CACHE"]
    work = json.loads((run.path / "manifest.json").read_text())["work"]
    return WholeRun(config, cache, before, work)


def steps_of(config):
    """Return the steps of a plan by name."""
    return {step.name: step for step in flat(plan_run(plan_of(config)).nodes)}


def flat(nodes):
    """All steps, each before those below it."""
    return [step for node in nodes for step in (node, *flat(node.after))]


@pytest.mark.costly
def test_the_plan_of_a_run_counts_what_it_makes(whole_run, monkeypatch):
    # Upper limits are those of items that depend on hits or answers which are not there yet.
    monkeypatch.setenv("RAGBENCH_CACHE", whole_run.cache)
    steps, work = whole_run.before, whole_run.work

    after = steps_of(whole_run.config)

    assert steps.keys() == after.keys() <= work.keys()
    for name, step in steps.items():
        items = work[name]["items"]
        assert step.stored == 0
        assert items <= step.items if step.at_most else items == step.items
    open_steps = {name for name, step in after.items() if step.stored < step.items}
    # pairs of answers are judged again in each run, from the stored replies
    assert open_steps == {"judge pairs (j)"}
    assert {name for name, step in after.items() if step.at_most} == open_steps


@pytest.mark.costly
@pytest.mark.parametrize("is_stored", [False, True])
def test_attributes_of_a_planned_run_write_and_call_nothing(
    whole_run, chat, is_stored, monkeypatch
):
    if is_stored:
        monkeypatch.setenv("RAGBENCH_CACHE", whole_run.cache)
    chat.received.clear()
    CALLS.clear()
    plan = plan_of(whole_run.config)

    with closing(ReadOnlyStore(cache_folder())) as store:
        resources, engine = engine_of(plan, store)
        stages = stages_of(resources).stages
        outputs = engine.run(stages, make=False)
        for stage in stages:
            attributes_of(stage)
            if stage in outputs:
                attributes_of(outputs[stage])
                work = engine.counters.work.get(stage.title)
                stage.step(outputs.of([*stage.inputs, stage]), work)

    # pairs of answers are judged again in each run, from the stored replies
    pending = {type(stage).__name__ for stage in stages if not outputs.is_complete(stage)}
    names = {type(stage).__name__ for stage in stages}
    assert pending == ({"JudgePairs"} if is_stored else names)
    assert not chat.received
    assert CALLS == []


# Names by which stages once decided themselves when their items were made.
DECISIONS = {"collect", "pay_for", "forecast", "is_known", "dry", "PENDING", "UNKNOWN"}


def names_in(tree):
    """The names that a module defines, reads or takes as parameters."""
    for node in ast.walk(tree):
        yield from (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))


def own_calls(tree):
    """The methods that a class of a module calls of itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner in ("self", "super()"):
                yield node.func.attr


def test_the_engine_alone_decides_when_items_are_made(repository):
    experiment = repository / "ragbench" / "experiment"
    texts = {path: path.read_text("utf-8") for path in experiment.rglob("*.py")}
    engine = ast.parse(texts.pop(experiment / "stages/engine.py"))
    assert {"items", "make"} <= {*names_in(engine)}
    assert len(texts) > 40

    # most modules have none of the words, also not in their texts and comments
    own_call = r"(?:self|super\(\))\s*\.\s*(?:items|make)"
    words = re.compile(rf"\b(?:{'|'.join([*DECISIONS, own_call])})\b")
    trees = {path: ast.parse(text) for path, text in texts.items() if words.search(text)}
    assert [path for path, tree in trees.items() if DECISIONS & {*names_in(tree)}] == []
    assert [path for path, tree in trees.items() if {"items", "make"} & {*own_calls(tree)}] == []


def test_a_stage_reads_its_inputs_alone(config):
    class Read(Stage):
        def __init__(self, plan, stages, inputs):
            super().__init__(plan, inputs=inputs)
            self.stages = stages

        def output(self, inputs, values):
            return [1, *(inputs[stage] for stage in self.stages)]

    plan = plan_of(config)
    first = Read(plan, (), ())
    with closing(StageStore(cache_folder())) as store:
        _, engine = engine_of(plan, store)
        second = Read(plan, (first,), (first,))
        assert engine.run([second])[second] == [1, [1]]
        with pytest.raises(KeyError):
            engine.run([first, Read(plan, (first,), ())])


def test_a_run_leaves_every_stage_as_it_was(config):
    config["controls"] = ["gold_context", "shuffled_context"]
    plan = plan_of(config)
    with closing(StageStore(cache_folder())) as store:
        resources, engine = engine_of(plan, store)
        stages = stages_of(resources).stages
        attributes = [dict(vars(stage)) for stage in stages]

        outputs = engine.run(stages)

        assert all(outputs.is_complete(stage) for stage in stages)
        for stage, old_values in zip(stages, attributes, strict=True):
            assert vars(stage).keys() == old_values.keys()
            assert all(value is old_values[name] for name, value in vars(stage).items())


class Interrupted(Exception):
    """A kill in the middle of a stage."""


class Count(Stage):
    """Numbers by query: the sum of those of its inputs, plus 1; `log` has those that were made."""

    kind, version = "count", 1
    by_query = True

    def __init__(self, plan, name, inputs, log, lives):
        super().__init__(plan, f"count {name}", inputs)
        self.name, self.log, self.lives = name, log, lives

    def sums(self, inputs):
        columns = [inputs[stage] for stage in self.inputs]
        rows = zip(*columns, strict=True) if columns else [()] * len(self.plan.queries)
        return [None if None in row else sum(row) for row in rows]

    def items(self, inputs):
        group = ItemGroup(self.name, self.name)
        return [
            Slot(group, None if value is None else f"{row} {value}", row)
            for row, value in enumerate(self.sums(inputs))
        ]

    def make(self, inputs, todo, keep, advance):
        sums = self.sums(inputs)
        for row in todo:
            if self.lives and next(self.lives, None) is None:
                raise Interrupted
            self.log.append((self.name, row))
            keep(row, {"number": sums[row] + 1})

    def read(self, line):
        return json.loads(line)["number"]

    def output(self, inputs, values):
        return list(values)


N = len(QUERIES)
# for each stage, the numbers of its inputs among the stages before it
GRAPHS = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        *(st.sets(st.integers(0, number - 1)) if number else st.just(set()) for number in range(n))
    )
)


@pytest.fixture(scope="module")
def moons_plan(tmp_path_factory):
    with moons_place(tmp_path_factory.mktemp("moons")) as config:
        yield plan_of(config)


def numbers_by_hand(graph):
    """The number of each stage: 1 more than the sum of its inputs."""
    numbers = []
    for inputs in graph:
        numbers.append(1 + sum(numbers[number] for number in inputs))
    return numbers


@given(
    graph=GRAPHS,
    rounds=st.lists(st.sets(st.integers(0, N - 1)), max_size=3),
    kills=st.lists(st.integers(0, 12), max_size=3),
)
def test_interrupted_rounds_make_each_item_once(moons_plan, tmp_path_factory, graph, rounds, kills):
    folder, log = tmp_path_factory.mktemp("store"), []

    def go(lives):
        with closing(StageStore(folder)) as store:
            stages = []
            for name, inputs in enumerate(graph):
                sources = [stages[number] for number in sorted(inputs)]
                stages.append(Count(moons_plan, str(name), sources, log, lives))
            outputs, (_, engine) = Outputs(), engine_of(moons_plan, store)
            for rows in rounds:
                engine.run(stages, outputs, rows)
                for stage in stages:
                    assert {row for row, v in enumerate(outputs[stage]) if v is not None} >= rows
            engine.run(stages, outputs)
            assert all(outputs.is_complete(stage) for stage in stages)
            return [outputs[stage] for stage in stages]

    for n_items in kills:
        with suppress(Interrupted):
            go(iter(range(n_items)))
    values = go(None)

    assert values == [[number] * N for number in numbers_by_hand(graph)]
    assert len(log) == len(set(log)) == N * len(graph)


@pytest.mark.costly
def test_a_budget_counts_what_all_its_rounds_paid(config, chat):
    judge = {"type": "openai", "model": "m", "base_url": chat.url, "rubrics": ["correctness"]}
    config["metrics"] = {**FEW_SCORES, "judge": judge}

    run = run_experiment({**config, "budget": {"tokens": 10**6}})

    paid = json.loads((run.path / "manifest.json").read_text())["judging"]
    calls = [use["calls"] for of_system in paid.values() for use in of_system.values()]
    assert sum(calls) == len(chat.received) > 0
