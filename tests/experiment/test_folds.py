"""A sweep that is tuned on all folds but one, against a loop over settings and folds."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

import ragbench as rb
from ragbench.config.json_schema import config_schema
from ragbench.config.load import load_config
from ragbench.config.schema import DEFAULT_SEED
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.queries import fold_labels
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.pytest_runs import collect_gates
from ragbench.experiment.stages.graph import plan_run
from ragbench.fixes.cross_fitting import parts_of
from ragbench.records.manifest import Choices
from ragbench.report.results import render_terminal
from ragbench.types import Query
from tests.experiment.moons import write_jsonl

DOCUMENTS = [f"d{number}" for number in range(12)]
SELECT = {"folds": 4, "measure": "mrr@5"}


def write_world(folder, seed, n_queries=20, n_settings=4):
    """Write questions in groups of two, a judged document each, and a ranking per setting."""
    draw, folder = random.Random(seed), Path(folder)
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(folder / "corpus.jsonl", [{"_id": name, "text": name} for name in DOCUMENTS])
    names = [f"q{number}" for number in range(n_queries)]
    rows = []
    for number, name in enumerate(names):
        rows.append({"_id": name, "text": f"{name}?", "metadata": {"topic": f"t{number // 2}"}})
    write_jsonl(folder / "queries.jsonl", rows)
    gold = {name: draw.choice(DOCUMENTS) for name in names}
    lines = [f"{name}\t{document}\t1" for name, document in gold.items()]
    header = "query-id\tcorpus-id\tscore"
    (folder / "qrels/test.tsv").write_text("\n".join([header, *lines, ""]))
    runs = []
    for setting in range(n_settings):
        run = {name: draw.sample(DOCUMENTS, 5) for name in names}
        lines = []
        for name, documents in run.items():
            for rank, document in enumerate(documents, start=1):
                lines.append(f"{name} Q0 {document} {rank} {10 - rank} s{setting}")
        (folder / f"{setting}.trec").write_text("\n".join([*lines, ""]))
        runs.append(run)
    return gold, runs


def config_of(folder, **changes):
    """Return a config with a sweep over the run files of a world."""
    paths = sorted(str(path) for path in Path(folder).glob("*.trec"))
    return {
        "name": "s",
        "dataset": {"type": "beir", "path": str(folder)},
        "retrievers": {
            "tuned": {"type": "run_file", "sweep": {"path": paths}, "select": SELECT},
            "first": {"type": "run_file", "path": paths[0]},
        },
        "metrics": {"retrieval": {"measures": ["mrr@5", "recall@5"]}},
        "statistics": {"resamples": 100},
        **changes,
    }


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_world("data", seed=1)
    return config_of("data")


def reciprocal_rank(documents, relevant):
    """Return 1 / rank of the relevant document among five, else 0."""
    return 1 / (documents.index(relevant) + 1) if relevant in documents else 0.0


def cross_validate(gold, runs, fold_of):
    """Return (setting of each fold, value of each query) by a loop over folds and settings."""
    winners, values = {}, {}
    for fold in sorted(set(fold_of.values())):
        best_sum, winners[fold] = -1.0, -1
        for setting, run in enumerate(runs):
            outside = [name for name in gold if fold_of[name] != fold]
            total = sum(reciprocal_rank(run[name], gold[name]) for name in outside)
            if total > best_sum + 1e-9:
                best_sum, winners[fold] = total, setting
        for name in gold:
            if fold_of[name] == fold:
                values[name] = reciprocal_rank(runs[winners[fold]][name], gold[name])
    return winners, values


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_rankings_are_those_of_a_loop_over_settings_and_folds(
    seed, clustered, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    gold, runs = write_world("data", seed)
    statistics = {"resamples": 100, **({"cluster": "metadata.topic"} if clustered else {})}
    config = config_of("data", seed=seed, statistics=statistics)

    experiment = rb.run_experiment(config)

    labels = [f"t{n // 2}" if clustered else f"q{n}?" for n in range(20)]
    parts = parts_of(20, seed, labels, 4).tolist()
    fold_of = dict(zip(gold, parts, strict=True))
    winners, values = cross_validate(gold, runs, fold_of)
    names = load_config(config).retrievers["tuned"].options["retrievers"]
    choices = experiment.record.folds
    assert [choice.system for choice in choices] == [names[winners[fold]] for fold in range(4)]
    assert [choice.queries for choice in choices] == [Counter(parts)[fold] for fold in range(4)]
    assert {(c.sweep, c.folds, c.seed, c.combinations) for c in choices} == {("tuned", 4, seed, 4)}
    for choice in choices:
        outside = [name for name in gold if fold_of[name] != choice.fold - 1]
        run = runs[winners[choice.fold - 1]]
        mean = sum(reciprocal_rank(run[name], gold[name]) for name in outside) / len(outside)
        assert choice.mean == pytest.approx(mean)
        assert choice.n == len(outside)
    assert experiment.per_query["tuned"]["mrr@5"] == pytest.approx(values)
    assert [system.name for system in experiment.record.systems] == ["tuned", "first"]


def test_the_judgement_of_a_query_never_moves_its_own_ranking(world):
    base = rb.run_experiment(world)
    for name in ("q0", "q7", "q13"):
        path = Path("data/qrels/test.tsv")
        lines = path.read_text(encoding="utf-8").splitlines()
        others = [line for line in lines if not line.startswith(f"{name}\t")]
        path.write_text("\n".join([*others, f"{name}\td11\t1", ""]), encoding="utf-8")
        again = rb.run_experiment(world)
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        assert ranking_of(name, again) == ranking_of(name, base)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_grades_gaps_and_ties_are_weighed_as_pytrec_eval_does(seed, tmp_path, monkeypatch):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    monkeypatch.chdir(tmp_path)
    _, runs = write_world("data", seed, n_settings=3)
    draw, names = random.Random(seed), [f"q{number}" for number in range(20)]
    qrels = {}
    for name in names:
        judged = draw.sample(DOCUMENTS, 6)
        grades = (0, 0, 0, 1, 2) if name not in ("q2", "q9") else (0,)
        qrels[name] = {document: draw.choice(grades) for document in judged}
    lines = ["query-id\tcorpus-id\tscore"]
    for name, grades in qrels.items():
        lines += [f"{name}\t{document}\t{grade}" for document, grade in grades.items()]
    Path("data/qrels/test.tsv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    runs.append(runs[0])  # of equal means the first setting wins
    for setting, run in enumerate(runs):
        lines = []
        for name in names:
            if (setting, name) == (1, "q4"):
                run[name] = []  # a ranking that is missing scores 0
            for rank, document in enumerate(run[name]):
                lines.append(f"{name} Q0 {document} {rank + 1} {3 - rank // 2} s{setting}")
        Path(f"data/{setting}.trec").write_text("\n".join([*lines, ""]), encoding="utf-8")
    config = config_of("data", metrics={"retrieval": {"measures": ["ndcg@5"]}})
    config["retrievers"]["tuned"]["select"] = {"folds": 5, "measure": "ndcg@5"}

    experiment = rb.run_experiment(config)

    relevant = [name for name, grades in qrels.items() if max(grades.values()) > 0]
    values = []
    for run in runs:
        ranked = {}
        for name, documents in run.items():
            ranked[name] = {d: float(3 - rank // 2) for rank, d in enumerate(documents)} or {
                "": 0.0
            }
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_5"})
        scores = evaluator.evaluate(ranked)
        values.append({name: scores[name]["ndcg_cut_5"] for name in relevant})
    parts = parts_of(20, 13, [f"{name}?" for name in names], 5).tolist()
    fold_of = dict(zip(names, parts, strict=True))
    expected = {}
    for choice in experiment.record.folds:
        outside = [name for name in relevant if fold_of[name] != choice.fold - 1]
        means = [sum(of_run[name] for name in outside) / len(outside) for of_run in values]
        best = next(n for n, mean in enumerate(means) if mean > max(means) - 1e-9)
        assert choice.system == f"tuned-path=data_{best}.trec"
        assert choice.n == len(outside)
        assert choice.mean == pytest.approx(means[best])
        inside = [name for name in relevant if fold_of[name] == choice.fold - 1]
        expected |= {name: values[best][name] for name in inside}
    column = experiment.per_query["tuned"]["ndcg@5"]
    assert {name: column[name] for name in relevant} == pytest.approx(expected)


def ranking_of(name, experiment):
    """Return the lines of a query in the ranking of `tuned`."""
    lines = (experiment.path / "rankings/tuned.trec").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{name} ")]


def test_the_choice_is_told_and_signed(world, assert_message):
    record = rb.run_experiment(world, choices=Choices(only=("tuned",))).record

    [system] = record.systems
    assert system.name == "tuned"
    assert_message(next(note for note in record.notes if note.startswith("tuned, best of")))
    assert system.scores["mrr@5"].signature.endswith("|folds:4,seed=13,by=mrr@5")


def test_a_stored_config_repeats_the_choice(world):
    experiment = rb.run_experiment(world)

    saved = load_config(experiment.path / "config.yaml")
    again = rb.run_experiment(saved).record
    assert saved.retrievers["tuned"].type == "cross_validated"
    assert again.folds == experiment.record.folds
    assert again.systems == experiment.record.systems


def test_a_plan_has_the_choice_and_no_score_of_a_combination(world):
    config = load_config(world)
    collection = load_collection(config)

    def steps():
        plan = make_plan(config, collection, Choices(), LiveComponents())
        nodes = {node.name: node for node in plan_run(plan).nodes}
        inner = [inner.name for node in nodes.values() for inner in node.after]
        return nodes["choose tuned by mrr@5"], inner

    node, inner = steps()
    assert (node.items, node.stored, node.unit) == (4, 4, "folds")
    assert inner == ["score tuned", "score first"]


def test_gates_of_pytest_leave_the_combinations_out(world):
    world["gates"] = [{"measure": "mrr@5", "min": 0.0}]
    file = Path("s.ragbench.yaml")
    file.write_text(json.dumps(world), encoding="utf-8")

    tests = collect_gates(file, None, update=False).tests

    assert [system for _, system in tests] == ["tuned", "first"]


def test_a_combination_that_fails_counts_as_the_worst_value(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gold, _ = write_world("data", seed=2)
    Path("unsteady.py").write_text(
        "import json\n"
        "from pathlib import Path\n"
        "class Search:\n"
        "    def __init__(self, rank):\n"
        "        self.rank, self.gold = rank, json.loads(Path('gold.json').read_text())\n"
        "    def retrieve(self, queries, top_k):\n"
        "        if self.rank == 1 and any(int(query.id[1:]) % 3 for query in queries):\n"
        "            raise RuntimeError('down')\n"
        "        others = [f'x{n}' for n in range(self.rank - 1)]\n"
        "        return [[*others, self.gold[query.id]] for query in queries]\n",
        encoding="utf-8",
    )
    Path("gold.json").write_text(json.dumps(gold), encoding="utf-8")
    config = config_of("data")
    # rank 1 in a third of the queries, and no answer to the others: a third, below rank 2
    search = {"type": "python:unsteady:Search", "sweep": {"rank": [1, 2]}, "select": SELECT}
    config["retrievers"] = {"tuned": search}

    record = rb.run_experiment(config).record
    assert {choice.system for choice in record.folds} == {"tuned-rank=2"}
    assert [choice.mean for choice in record.folds] == pytest.approx([0.5] * 4)


def test_a_fold_whose_other_queries_all_fail_is_named(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    gold, _ = write_world("data", seed=2)
    folds = parts_of(len(gold), DEFAULT_SEED, [f"{query}?" for query in gold], 4).tolist()
    up = [query for query, fold in zip(gold, folds, strict=True) if fold == 1]
    Path("partly.py").write_text(
        "import json\n"
        "from pathlib import Path\n"
        "def search(question, top_k, *, rank=1):\n"
        "    up = json.loads(Path('up.json').read_text())\n"
        "    if question.rstrip('?') not in up:\n"
        "        raise RuntimeError('down')\n"
        "    return [f'x{rank}', up[question.rstrip('?')]]\n",
        encoding="utf-8",
    )
    Path("up.json").write_text(json.dumps({q: gold[q] for q in up}), encoding="utf-8")
    config = config_of("data")
    search = {"type": "python:partly:search", "sweep": {"rank": [1, 2]}, "select": SELECT}
    config["retrievers"] = {"tuned": search}

    record = rb.run_experiment(config).record

    # the others have fold 2 outside, whose queries have hits
    assert [choice.fold for choice in record.folds] == [1, 3, 4]
    [note] = [note for note in record.notes if "outside" in note]
    assert_message(note)


def test_a_sweep_whose_calls_all_fail_leaves_the_scores_of_the_others(world):
    Path("down.py").write_text(
        "def search(question, top_k):\n    raise RuntimeError('connection refused')\n",
        encoding="utf-8",
    )
    weights = {"weights": [[0.5, 0.5], [0.2, 0.8]]}
    tuned = {"type": "fusion", "retrievers": ["first", "own"], "method": "weighted"}
    world["retrievers"]["own"] = {"type": "python:down:search"}
    world["retrievers"]["tuned"] = {**tuned, "sweep": weights}
    plain = rb.run_experiment(world)
    world["retrievers"]["tuned"] = {**tuned, "sweep": weights, "select": SELECT}

    experiment = rb.run_experiment(world)

    assert not experiment.record.folds
    assert any("folds 1, 2, 3 and 4 of 4" in note for note in experiment.record.notes)
    swept = plain.record.system("tuned-weights=0.5_0.5")
    scores = {system.name: system.scores["mrr@5"] for system in experiment.record.systems}
    assert scores["tuned"].failed == swept.scores["mrr@5"].failed == {"error": 20}
    assert scores["first"].mean == pytest.approx(plain.record.system("first").scores["mrr@5"].mean)
    rows = (experiment.path / "unscored.jsonl").read_text(encoding="utf-8").splitlines()
    details = [row["detail"] for row in map(json.loads, rows) if row["system"] == "tuned"]
    assert {detail.partition(" (query")[0] for detail in details} == {
        "retriever 'own': RuntimeError: connection refused"
    }


def test_repeated_questions_share_a_fold():
    queries = [Query("a", "What?"), Query("b", "What? "), Query("c", ""), Query("d", "")]
    assert fold_labels(queries, None) == ["What?", "What?", "c", "d"]
    assert fold_labels(queries, ["x", "y", "x", "y"]) == ["x", "y", "x", "y"]


@pytest.mark.slow
def test_a_reranker_and_a_fusion_are_tuned_and_read(world):
    Path("turn.py").write_text(
        "class Turn:\n"
        "    def __init__(self, n):\n"
        "        self.n = n\n"
        "    def rerank(self, queries, hits, top_k):\n"
        "        return [rows[self.n:] + rows[:self.n] for rows in hits]\n",
        encoding="utf-8",
    )
    paths = world["retrievers"]["tuned"]["sweep"]["path"]
    world["retrievers"] = {
        "a": {"type": "run_file", "path": paths[0]},
        "b": {"type": "run_file", "path": paths[1]},
        "mixed": {
            "type": "fusion",
            "retrievers": ["a", "b"],
            "sweep": {"weights": [[1, 0], [1, 1], [0, 1]]},
            "select": SELECT,
        },
        "turned": {
            "type": "python:turn:Turn",
            "retriever": "a",
            "sweep": {"n": [0, 1, 2]},
            "select": {**SELECT, "folds": 3},
        },
        "both": {"type": "fusion", "retrievers": ["mixed", "turned"]},
    }

    record = rb.run_experiment(world).record

    assert [system.name for system in record.systems] == ["a", "b", "mixed", "turned", "both"]
    assert Counter(choice.sweep for choice in record.folds) == {"mixed": 4, "turned": 3}


@pytest.mark.parametrize(
    "select",
    [
        {"folds": 1, "measure": "map"},
        {"folds": 5},
        {"folds": 5, "on": "train", "measure": "map"},
        {"measure": "map"},
        {"folds": "x", "measure": "map"},
        {"folds": 5, "measure": "mpa"},
        {"folds": 5, "measure": "ndcg@500"},
        {"fold": 5, "measure": "map"},
    ],
    ids=lambda select: json.dumps(select),
)
def test_a_wrong_choice_is_refused_in_one_line(world, select, assert_message):
    world["retrievers"]["tuned"]["select"] = select
    with pytest.raises(ConfigError) as error:
        load_config(world)

    [problem] = error.value.problems
    assert_message(str(problem))


@pytest.mark.parametrize(
    ("changes", "select"),
    [
        ({}, {**SELECT, "folds": 21}),
        ({"statistics": {"cluster": "metadata.topic"}}, {**SELECT, "folds": 11}),
        ({}, {"folds": 5, "measure": "alpha_ndcg@5"}),
    ],
    ids=["queries", "clusters", "subtopics"],
)
def test_folds_that_the_data_do_not_have_are_refused(world, changes, select, assert_message):
    world["retrievers"]["tuned"]["select"] = select
    with pytest.raises(DataError) as error:
        rb.run_experiment({**world, **changes})

    assert_message(error.value)
    assert not Path("runs").exists()


def test_folds_of_a_sweep_over_a_sweep_with_folds_are_refused(world, assert_message):
    world["retrievers"] |= {
        "between": {"type": "fusion", "retrievers": ["tuned", "first"]},
        "outer": {
            "type": "fusion",
            "retrievers": ["between", "first"],
            "sweep": {"k": [1, 60]},
            "select": SELECT,
        },
    }
    with pytest.raises(ConfigError) as error:
        load_config(world)

    assert_message(str(error.value))


def test_a_retriever_that_searches_a_tuned_one_is_refused(world, assert_message):
    world["retrievers"]["more"] = {"type": "rm3", "retriever": "tuned"}
    with pytest.raises(DataError) as error:
        rb.run_experiment(world)

    assert_message(error.value)


def test_a_combination_is_no_baseline(world, assert_message):
    config = {**world, "statistics": {"baseline": "tuned-path=data_0.trec"}}
    with pytest.raises(rb.OptionError) as error:
        rb.run_experiment(config)

    assert_message(error.value)


def test_the_schema_has_both_ways():
    schema = json.dumps(config_schema())
    assert '"required": ["measure"]' in schema
    assert '"const": "cross_validated"' in schema


def test_the_first_screen_has_the_choice_of_each_fold(world):
    experiment = rb.run_experiment(world)

    [note] = [note for note in experiment.record.notes if note.startswith("tuned, best of")]
    screen = render_terminal(experiment.record, experiment.compared, verbose=False)
    assert f"note: {note}" in screen
    # however many other notes there are, of the data set too
    facts = structs.replace(experiment.record.dataset, notes=tuple(f"fact {n}" for n in range(30)))
    crowded = structs.replace(experiment.record, dataset=facts)
    assert f"note: {note}" in render_terminal(crowded, experiment.compared, verbose=False)
