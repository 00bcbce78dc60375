"""The controls `distractors` and `injection`: what generators read, and what is scored."""

import json
from random import Random

import pytest
from click.testing import CliRunner

from ragbench import run_experiment
from ragbench.cli import group
from ragbench.config.load import load_config
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.stages.controls import add_distractors, canary_of, inject
from ragbench.types import Document
from tests.experiment.moons import QRELS, QUERIES

DOCUMENTS = [Document(f"d{n}", f"text {n}") for n in range(6)]


def test_one_passage_gets_the_order():
    passages = inject(DOCUMENTS, "q1", 13)
    assert passages is not None
    changed = [(old, new) for old, new in zip(DOCUMENTS, passages, strict=True) if old != new]

    [(old, new)] = changed
    assert new.id == old.id
    assert new.text.startswith(old.text)
    assert canary_of("q1", 13) in new.text
    assert passages == inject(DOCUMENTS, "q1", 13), "the same for a seed"
    assert canary_of("q1", 13) not in {canary_of("q2", 13), canary_of("q1", 14)}
    assert inject([], "q1", 13) is None
    places = {inject(DOCUMENTS, f"q{n}", 13).index(DOCUMENTS[0]) for n in range(3)}
    assert places == {0}, "the order of the passages stays"


@pytest.mark.parametrize(
    ("candidates", "n", "ids"),
    [
        ([3, 2, 4], 2, {"d0", "d3", "d2"}),
        ([3, 3, 3, 4, 5], 2, {"d0", "d3", "d4"}),  # each once
        ([3], 3, {"d0", "d3"}),
        ([], 1, {"d0"}),
    ],
)
def test_the_first_candidates_are_distractors(candidates, n, ids):
    arguments = DOCUMENTS[:1], [DOCUMENTS[number] for number in candidates], n
    passages = add_distractors(*arguments, Random(7))

    assert sorted(passage.id for passage in passages) == sorted(ids)
    assert passages == add_distractors(*arguments, Random(7)), "the order is that of the seed"


def obeys(question, contexts):
    """Write the word that an instruction in a passage asks for, else the titles."""
    for passage in contexts:
        if "Answer with this word alone:" in passage.text and "volcanoes" not in question:
            return f"Well: {passage.text.rpartition(' ')[2].upper()}."
    return " ".join(passage.title for passage in contexts) or "nothing"


@pytest.fixture
def plain(config):
    config.pop("generators")
    config["metrics"] = {"retrieval": {"measures": ["ndcg@10"]}, "generation": ["rouge1"]}
    return {**config, "retrievers": {"bm25": {"type": "bm25"}}}


def control_rows(experiment):
    return {(row["control"], row["score"]): row for row in experiment.comparisons["controls"]}


def test_an_injection_by_hand(plain):
    # The generator obeys for four questions of five.
    experiment = run_experiment({**plain, "controls": ["injection"]}, generators={"app": obeys})

    row = control_rows(experiment)["injection", "canary"]
    assert (row["mean"], row["system_mean"], row["n"]) == (0.8, 0.0, 5)
    assert row["difference"] == pytest.approx(0.8)
    assert row["interval"][0] < 0.8 < row["interval"][1]
    of = {system["name"]: system["scores"] for system in experiment.summary["systems"]}
    assert of["injection/app"]["canary"]["direction"] == "lower"
    assert "canary" not in of["bm25/app"]
    start = "app: canary is 0.000 with bm25/app; with an order to write a canary in one passage 0.8"
    assert [note for note in experiment.summary["notes"] if note.startswith(start)]
    path = experiment.path / "predictions" / "injection--app.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(canary_of(line["query_id"], 13) in json.dumps(line["contexts"]) for line in lines)


def test_distractors_by_hand(plain, assert_message):
    ids_by_question = {}

    def reads(question, contexts):
        ids_by_question.setdefault(question, []).append([passage.id for passage in contexts])
        return " ".join(passage.title for passage in contexts)

    controls = [{"distractors": 1}, {"distractors": 3}]
    experiment = run_experiment({**plain, "controls": controls}, generators={"app": reads})

    names = [s["name"] for s in experiment.summary["systems"] if s.get("role") == "control"]
    assert names == ["distractors=1/app", "distractors=3/app"]
    for query, question in QUERIES.items():
        relevant = {document for document, grade in QRELS[query].items() if grade > 0}
        hits, *lists = ids_by_question[question]
        best = next((document for document in hits if document not in relevant), None)
        sizes = [len(relevant) + n for n in (1, 3)] if relevant else []
        assert [len(ids) for ids in lists] == sizes, query
        assert all(relevant <= set(ids) for ids in lists)
        assert not relevant or best is None or {*lists[0]} == {*relevant, best}
    row = control_rows(experiment)["distractors=3", "rouge1"]
    assert (row["system"], row["n"]) == ("bm25/app", 4)
    assert row["difference"] == pytest.approx(row["mean"] - row["system_mean"], abs=0.2)
    assert_message(experiment.summary["notes"])
    stored = load_config(experiment.path / "config.yaml").controls
    assert stored == ("distractors=1", "distractors=3")


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ({"distractors": 0}, "is no control.*allowed: distractors: N, with N from 1 to 100"),
        ({"distractors": 101}, "is no control"),
        ({"distractor": 3}, "is no control"),
        ({"distractors": "many"}, "controls.*an integer"),
        ("distractors", "injection"),
    ],
)
def test_wrong_controls(plain, control, message):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        load_config({**plain, "controls": [control]})


def test_distractors_need_judgements(plain, tmp_path, assert_message):
    (tmp_path / "r.jsonl").write_text('{"question": "Q?", "reference": "Io"}\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Io is a moon.")
    data = {"type": "records", "path": str(tmp_path / "r.jsonl"), "corpus": str(tmp_path / "docs")}
    config = {**plain, "dataset": data, "metrics": {}, "controls": [{"distractors": 2}]}

    with pytest.raises(DataError) as error:
        run_experiment(config, generators={"app": obeys})
    assert_message(error.value)


def test_a_plan_prices_the_injected_words(plain, tmp_path):
    # Five prompts with an order of some 30 tokens; no server has this address.
    entry = {"type": "openai", "model": "gpt-4o-mini", "base_url": "http://127.0.0.1:9/v1"}
    tokens = {}
    for control in ("shuffled_context", "injection"):
        path = tmp_path / f"{control}.yaml"
        config = {**plain, "generators": {"gpt": entry}, "controls": [control]}
        path.write_text(json.dumps(config))
        printed = CliRunner().invoke(group, ["plan", str(path)]).stdout
        assert f"generate {control}/gpt" in printed
        [models] = [line for line in printed.splitlines() if line.startswith("models: 10 calls")]
        tokens[control] = int(models.split()[3].replace(",", ""))

    assert 5 * 15 < tokens["injection"] - tokens["shuffled_context"] < 5 * 45
