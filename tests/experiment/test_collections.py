"""A config on several collections: their runs, the common summary, and refused configs."""

import csv
import io
import itertools
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec import structs

import ragbench as rb
from ragbench.cli.report import command as report
from ragbench.cli.run import command as run
from ragbench.cli.run import plan
from ragbench.config.load import load_config
from ragbench.errors import ConfigError, DataError, OptionError
from ragbench.experiment.base_run import load_for_gate
from ragbench.experiment.pages import write_pages
from ragbench.experiment.pytest_runs import collect_gates
from ragbench.records.collections import (
    CollectionRun,
    CollectionsSummary,
    MacroMeasure,
    MacroScore,
)
from ragbench.records.comparison import Difference
from ragbench.report.collections import collections_report
from ragbench.report.formats import render
from tests.chat_server import ChatServer
from tests.experiment.splits import write_splits
from tests.messages import lines_with


@pytest.fixture
def several(tmp_path, monkeypatch):
    """A config on two splits of one data set, as if they were two."""
    monkeypatch.chdir(tmp_path)
    folder = str(write_splits(tmp_path / "data"))
    return {
        "name": "sets",
        "datasets": {
            name: {"type": "beir", "path": folder, "split": split}
            for name, split in (("many", "train"), ("few", "test"))
        },
        "retrievers": {"bm25": {"type": "bm25"}, "weak": {"type": "bm25", "k1": 0.0}},
        "metrics": {"retrieval": {"measures": ["mrr@10", "map"]}},
        "gates": [{"measure": "mrr@10", "system": "bm25", "min": 0.1}],
    }


@pytest.mark.slow
def test_the_table_has_the_numbers_of_the_runs_and_their_macro_mean(several):
    runs = rb.run_collections(several)

    assert [run.name for run in runs.record.runs] == ["many", "few"]
    assert [run.queries for run in runs.record.runs] == [7, 6]
    [_, measure, _] = runs.record.measures
    assert (measure.measure, measure.kind) == ("mrr@10", "retrieval")
    for row in measure.systems:
        means = {
            name: e.record.system(row.system).scores["mrr@10"].mean
            for name, e in runs.experiments.items()
        }
        assert row.means == means
        assert row.mean == pytest.approx(np.mean([*means.values()]), abs=1e-12)
        assert row.interval[0] < row.mean < row.interval[1]
    [test] = measure.comparisons
    differences = []
    for experiment in runs.experiments.values():
        scores = experiment.per_query
        values = [
            scores["weak"]["mrr@10"][q] - scores["bm25"]["mrr@10"][q]
            for q in scores["bm25"]["mrr@10"]
        ]
        differences.append([d for d in values if not np.isnan(d)])
    assert test.n == sum(map(len, differences)) == 13
    observed = np.mean([*map(np.mean, differences)])
    assert test.difference == pytest.approx(observed, abs=1e-12)
    # every swap of the two systems, query by query within the collections
    flat = [d / len(part) / 2 for part in differences for d in part]
    sums = [np.dot(signs, flat) for signs in itertools.product([1, -1], repeat=len(flat))]
    assert test.p == pytest.approx(np.mean(np.abs(sums) >= abs(observed) - 1e-12), abs=1e-12)
    assert runs.summary["schema"] == "ragbench.collections/1"
    assert "macro mean" in str(runs)
    assert repr(runs).startswith("CollectionRuns(")


@pytest.mark.slow
def test_a_system_of_some_collections_is_named_and_left_out(several, assert_message):
    # The sweep is decided on each collection by itself: here the winners differ.
    several["retrievers"]["tuned"] = {
        "type": "bm25",
        "k1": 0.5,
        "sweep": {"b": [0.0, 0.5]},
        "select": {"on": "train", "measure": "map"},
    }
    # the other collection has its splits the other way round
    folder = write_splits(Path("turned"))
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "train.tsv")
    several["datasets"]["few"] |= {"path": str(folder), "split": "train"}

    runs = rb.run_collections(several)
    winners = [e.record.selected[0].system for e in runs.experiments.values()]
    assert winners == ["tuned-b=0.0", "tuned-b=0.5"]
    assert [row.system for row in runs.record.measures[0].systems] == ["bm25", "weak"]
    assert_message(runs.record.notes)


@pytest.mark.slow
def test_the_command_prints_and_writes_one_table(several, tmp_path, assert_message):
    config = tmp_path / "m.yaml"
    config.write_text(json.dumps({**several, "name": "both"}))
    done = CliRunner().invoke(run, [str(config)], catch_exceptions=False)

    assert done.exit_code == 0
    assert done.stdout.startswith("found@5: bm25 and weak have the best macro mean, 1.00\n")
    assert re.search("\nsystem +many +few +macro mean", done.stdout)
    folder = tmp_path / "runs" / "both"
    assert {"many", "few", "latest"} <= {path.name for path in folder.iterdir()}
    html = (folder / "latest" / "report.html").read_text()
    assert_message(lines_with(html, "systems over"))
    assert "macro mean" in html
    markdown = (folder / "latest" / "report.md").read_text()
    write_pages([folder])
    assert (folder / "latest" / "report.md").read_text() == markdown
    table = CliRunner().invoke(report, [str(folder), "--format", "csv"], catch_exceptions=False)
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    macro = [row for row in rows if row["measure"] == "mrr@10" and not row["collection"]]
    stored = json.loads((folder / "latest" / "collections.json").read_text())["measures"][1]
    assert [float(row["mean"]) for row in macro] == [row["mean"] for row in stored["systems"]]
    assert float(macro[1]["p"]) == stored["comparisons"][0]["p"]
    latex = CliRunner().invoke(report, [str(folder), "--format", "latex"], catch_exceptions=False)
    assert_message(lines_with(latex.stdout, "& few"))
    assert latex.stdout.count(r" & macro mean & vs bm25 & p & verdict \\") == 3
    assert latex.stdout.count(r"\begin{table}") == 3
    table = CliRunner().invoke(
        report, [str(folder), "--format", "markdown"], catch_exceptions=False
    )
    assert_message(lines_with(table.stdout, "| vs"))
    # a run over several data sets is read as the runs on each
    with pytest.raises(DataError) as error:
        rb.load_experiment(folder)
    assert_message(error.value, "TMP/runs/both/RUN")
    assert rb.load_experiment(folder / "few").record.dataset.queries == 6

    several["gates"] = [{"measure": "mrr@10", "system": "weak", "min": 1.0}]
    config.write_text(json.dumps({**several, "name": "both"}))
    failed = CliRunner().invoke(
        run, [str(config), "--json", "--junit", "junit.xml"], catch_exceptions=False
    )
    assert failed.exit_code == 1
    verdicts = [r["gates"][0]["verdict"] for r in json.loads(failed.stdout)["runs"]]
    assert "fail" in verdicts
    assert "many: weak" in (tmp_path / "junit.xml").read_text()
    quiet = CliRunner().invoke(run, [str(config), "--quiet"], catch_exceptions=False)
    lines = quiet.stdout.splitlines()
    assert_message(lines[0])
    assert lines[-1].startswith("report: ")
    assert "macro mean [" not in quiet.stdout

    planned = CliRunner().invoke(plan, [str(config), "--json"], catch_exceptions=False)
    names = [part["name"] for part in json.loads(planned.stdout)["collections"]]
    assert names == ["many", "few"]


def _judged(several, server, **more):
    """Thirteen paid calls: one for each recorded answer of the two collections."""
    for name, n in (("many", 7), ("few", 6)):
        rows = [
            {
                "id": f"{name}{i}",
                "question": f"{name} {i}?",
                "contexts": ["Io."],
                "answer": f"{name} {i}.",
            }
            for i in range(n)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        Path(f"{name}.jsonl").write_text(text, encoding="utf-8")
    judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["fluency"]}
    return {
        "name": "paid",
        "datasets": {n: {"type": "records", "path": f"{n}.jsonl"} for n in ("many", "few")},
        "metrics": {"judge": judge | {"concurrency": 1, "max_tokens": 50}},
        **more,
    }


@pytest.mark.slow
def test_a_budget_holds_for_all_collections_together(several):
    # A call takes about 1,140 tokens: seven of the first collection, three of the second.
    with ChatServer('{"reasoning": "short", "level": 5}') as server:
        runs = rb.run_collections(_judged(several, server, budget={"tokens": 12_000}))

    many, few = (e.record.budget for e in runs.experiments.values())
    assert (many.reached, few.reached) == (False, True)
    assert few.limits == {"tokens": 12_000 - many.spent.tokens}
    assert 0 < few.spent.tokens <= 12_000 - many.spent.tokens


@pytest.mark.slow
def test_a_killed_run_goes_on_and_pays_no_answer_twice(several, warm):
    # The tenth request kills the run, in the middle of the second collection.
    children = []

    def script(body, times_asked):
        if server.counters.requests == 10:
            children[0].kill()
        return '{"reasoning": "short", "level": 5}'

    with ChatServer(script) as server:
        text = json.dumps(_judged(several, server))
        Path("c.json").write_text(text, encoding="utf-8")
        children.append(warm.start("run", "c.json", "--quiet"))
        children[0].communicate()
        assert children[0].returncode == -signal.SIGKILL
        stopped = server.counters.requests

        runs = rb.run_collections("c.json")

    # the tenth reply reached no one, and is the only one that is asked for again
    assert (stopped, server.counters.requests, server.counters.most_asked) == (10, 14, 2)
    scores = [e.record.systems[0].scores["fluency"] for e in runs.experiments.values()]
    assert [score.n for score in scores] == [7, 6]


def test_a_table_in_latex_has_all_collections(assert_message):
    names, means = ["a", "b_1", "c", "d"], [0.1, 0.2, 0.3, 0.4]
    score = MacroScore(
        system="bm25",
        means=dict(zip(names, means, strict=True)),
        mean=0.25,
        interval=(0.125, 0.5),
        intervals=dict.fromkeys(names, (0.05, 0.45)),
    )
    measure = MacroMeasure(measure="map", kind="retrieval", direction="higher", systems=(score,))
    test = Difference(system="bm25", baseline="weak", difference=0.5, p_adjusted=0.25)
    tables = {}
    for comparisons in ((), (test,)):
        summary = CollectionsSummary(
            name="sets", run_id="r", confidence=0.9, resamples=9, seed=1, correction="holm",
            runs=tuple(CollectionRun(name=n, run=n, queries=9, complete=True) for n in names),
            measures=(structs.replace(measure, comparisons=comparisons),),
        )  # fmt: skip
        lines = render(collections_report(summary), "latex").splitlines()
        tables[len(comparisons)] = [line for line in lines if " & " in line]

    assert_message(tables[0])
    assert_message(tables[1][0])
    assert " & +0.500 & 0.25 & " in tables[1][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": {"type": "beir", "path": "data"}}, "'datasets' beside 'dataset'"),
        ({"datasets": {}}, "{} is not a mapping of data sets"),
        ({"datasets": {"latest": {"type": "beir", "path": "data"}}}, "'latest' is not a name"),
        ({"datasets": {"a/b": {"type": "beir", "path": "data"}}}, "'a/b' is not a name"),
        ({"datasets": {"a": {"type": "bier", "path": "data"}}}, r"datasets.a.type: unknown type"),
        (
            {"gates": [{"measure": "mrr@10", "system": "bm25", "against": "base.json"}]},
            "'against' a file, of one data set",
        ),
    ],
)
def test_a_wrong_config_is_refused(several, change, message, tmp_path):
    (tmp_path / "base.json").write_text("{}")
    with pytest.raises(ConfigError, match=message):
        load_config({**several, **change})


def test_all_mistakes_of_all_data_sets_are_reported_once(several):
    several["datasets"]["few"]["split"] = 3
    several["retrievers"]["bm25"]["k1"] = "x"
    with pytest.raises(ConfigError) as caught:
        load_config(several)

    assert len(caught.value.problems) == 2


def test_each_collection_has_a_config_of_its_own(several):
    config = load_config(several, overrides={"datasets.few.split": "test"})

    few = config.collections["few"]
    assert (few.name, few.output) == ("few", "runs/sets")
    assert few.resolved["dataset"]["path"].endswith("data")
    assert "datasets" not in few.resolved
    assert not few.collections


def test_what_reads_one_data_set_says_so(several, assert_message):
    file = Path("sets.ragbench.yaml")
    file.write_text(json.dumps(several), encoding="utf-8")
    for read in (
        lambda: rb.run_experiment(several),
        lambda: load_for_gate(file, ()),  # before a base is run
        lambda: collect_gates(file, None, update=False),
        lambda: collect_gates(file, None, update=True),
    ):
        with pytest.raises(DataError) as error:
            read()
        assert_message(error.value)
    single = {**several, "dataset": several["datasets"]["few"]}
    del single["datasets"]
    with pytest.raises(OptionError, match="a config with `datasets`"):
        rb.run_collections(single)
