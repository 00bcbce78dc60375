"""Whole apps: asked once, scored on both sides, compared with the baseline; and controls."""

import json

import pytest

from ragbench.errors import ConfigError, DataError, OptionError
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from ragbench.types import Document, Prediction
from tests.commands import run_command
from tests.experiment.moons import ANSWERS, CORPUS, QUERIES
from tests.experiment.test_stages import contents, work
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

QUESTIONS_SENT = []


@pytest.fixture
def config(config):
    """The config with one retriever: what is tested needs no second one."""
    del config["retrievers"]["exact"]
    return config


def perfect(question):
    """Finds the right moon, and names it."""
    QUESTIONS_SENT.append(question)
    [query] = [q for q, text in QUERIES.items() if text == question]
    gold = {"q1": "d1", "q2": "d2", "q3": "d3", "q4": "d5", "q5": "d4"}[query]
    title, text = CORPUS[gold]
    return Prediction(ANSWERS.get(query, ["?"])[0], [Document(gold, text, title)], queries=["moon"])


@pytest.fixture(autouse=True)
def forget():
    QUESTIONS_SENT.clear()


def system(experiment, name):
    return next(s for s in experiment.summary["systems"] if s["name"] == name)


def test_an_app_is_one_system_with_both_sides(config):
    experiment = run_experiment(config, apps={"prod": perfect})

    prod = system(experiment, "prod")
    assert prod["role"] == "app"
    assert prod["scores"]["ndcg@10"]["mean"] > 0.9
    assert prod["scores"]["rouge1"]["mean"] == 1.0
    assert prod["scores"]["context_overlap"]["judge"] == "python:tests.words:context_overlap"
    assert sorted(QUESTIONS_SENT, key=QUESTIONS_SENT.index) == QUESTIONS_SENT
    assert len(QUESTIONS_SENT) == len(QUERIES), "once for both sides"
    rows = (experiment.path / "predictions" / "prod.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["queries"] == ["moon"]
    assert (experiment.path / "rankings" / "prod.trec").is_file()


def test_it_is_compared_with_the_baseline_and_its_pair(config):
    experiment = run_experiment(config, apps={"prod": perfect})

    against = {
        family["measure"]: comparison["baseline"]
        for family in experiment.comparisons["measures"]
        for comparison in family["comparisons"]
        if comparison["system"] == "prod"
    }
    assert (against["ndcg@10"], against["rouge1"]) == ("bm25", "bm25/extractive")


def test_an_app_alone_is_enough(config):
    alone = {key: value for key, value in config.items() if key not in ("retrievers", "generators")}

    experiment = run_experiment(alone, apps={"prod": perfect})

    assert [s["name"] for s in experiment.summary["systems"]] == ["prod"]
    assert experiment.exit_code == 0


def test_an_app_that_does_not_say_what_it_retrieved_has_one_side(config, assert_message):
    experiment = run_experiment(config, apps={"prod": lambda question: "Io"})

    assert_message(lines_with(experiment.summary["notes"], "no answer has passages"), "prod")
    scores = system(experiment, "prod")["scores"]
    assert "ndcg@10" not in scores
    assert scores["rouge1"]["n"] == 4
    assert scores["context_overlap"]["n"] == 0


def test_an_app_may_return_a_mapping(config):
    def search(question):
        answer = perfect(question)
        contexts = [{"id": d.id, "text": d.text} for d in answer.contexts]
        return {"answer": answer.answer, "contexts": contexts}

    experiment = run_experiment(config, apps={"prod": search})

    assert lines_with(experiment.summary["notes"], "no answer has passages") == []
    scores = system(experiment, "prod")["scores"]
    assert scores["ndcg@10"]["mean"] > 0.9
    assert scores["rouge1"]["mean"] == 1.0


def test_passages_that_are_ids_have_the_text_of_the_corpus(config):
    # An answer was judged by empty passages, and had context_overlap 0 without a word.
    def search(question):
        answer = perfect(question)
        return {"answer": answer.answer, "contexts": [{"id": d.id} for d in answer.contexts]}

    experiment = run_experiment(config, apps={"prod": search, "told": perfect})

    by_id, by_text = (
        system(experiment, name)["scores"]["context_overlap"] for name in ("prod", "told")
    )
    assert by_id["mean"] == by_text["mean"] > 0


def test_what_is_no_answer_is_said_with_the_result(config, assert_message):
    # Passages that are none made an internal error; the cause stood in unscored.jsonl alone.
    alone = {key: value for key, value in config.items() if key not in ("retrievers", "generators")}
    wrong = Prediction("Io", [3])

    experiment = run_experiment(alone, apps={"prod": lambda question: wrong})

    assert experiment.exit_code == 3
    assert system(experiment, "prod")["scores"]["rouge1"]["failed"] == {"malformed": 4}
    first, *later_warnings = experiment.summary["warnings"][1:]
    assert_message(first)
    assert_message(later_warnings)


def test_a_failed_call_fails_on_both_sides(config):
    def flaky(question):
        if question == QUERIES["q2"]:
            raise RuntimeError("down")
        return perfect(question)

    experiment = run_experiment(config, apps={"prod": flaky})

    scores = system(experiment, "prod")["scores"]
    assert (scores["ndcg@10"]["failed"], scores["rouge1"]["failed"]) == ({"error": 1}, {"error": 1})
    assert experiment.exit_code == 3
    text = (experiment.path / "unscored.jsonl").read_text()
    assert "app 'prod': RuntimeError: down (query 'q2')" in text


APP = "def answer(question, **options):\n    return 'Io ' + str(options)\n"


@pytest.fixture
def app_config(config, tmp_path, monkeypatch):
    (tmp_path / "moon_app.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    return {**config, "apps": {"prod": {"type": "python:moon_app:answer", "version": "1"}}}


def test_apps_in_the_config(app_config):
    first = run_experiment(app_config)
    second = run_experiment(app_config)

    assert system(first, "prod")["scores"]["rouge1"]["n"] == 4
    assert work(second) == {}
    assert contents(first) == contents(second)
    only = run_experiment(app_config, choices=Choices(only=("prod",)))
    assert [s["name"] for s in only.summary["systems"]] == ["prod"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apps": {"prod": {"type": "langchian"}}}, "did you mean 'langchain'"),
        ({"apps": {"prod": {"type": "python:moon_app:nothing"}}}, "has no 'nothing'"),
        ({"apps": [1]}, "apps"),
        ({"controls": ["gold"]}, "controls"),
        ({"controls": ["gold_contxt"]}, "gold_context"),
    ],
)
def test_mistakes(app_config, change, message):
    with pytest.raises(ConfigError, match=message):
        run_experiment({**app_config, **change})


def test_a_name_that_a_retriever_has(app_config, assert_message):
    app_config["apps"] = {"bm25": app_config["apps"]["prod"]}

    with pytest.raises(ConfigError) as error:
        run_experiment(app_config)
    assert_message(error.value, "apps.bm25")


def test_one_name_for_a_retriever_and_a_generator(config, tmp_path):
    # As in the design: `saved` is a run file and a file of predictions.
    rows = [json.dumps({"query_id": q, "answer": "Io"}) for q in QUERIES]
    (tmp_path / "predictions.jsonl").write_text("\n".join(rows) + "\n")
    config = {
        **config,
        "retrievers": {"saved": {"type": "bm25"}},
        "generators": {"saved": {"type": "predictions", "path": "predictions.jsonl"}},
    }

    experiment = run_experiment(config)

    assert system(experiment, "saved/saved")["scores"]["rouge1"]["mean"] == 0.25


def test_controls_need_a_generator(config, assert_message):
    # They were left out without a word.
    config = {**config, "controls": ["no_context"], "generators": {}}

    with pytest.raises(DataError) as error:
        run_experiment(config, apps={"prod": perfect})
    assert_message(error.value)


def test_stored_answers_have_no_controls(config, tmp_path):
    # They do not depend on the passages: `no_context` would say what the model knows.
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps({"query_id": q, "answer": "Io"}) + "\n" for q in QUERIES))
    stored = {"saved": {"type": "predictions", "path": str(path)}, **config["generators"]}

    experiment = run_experiment({**config, "controls": ["no_context"], "generators": stored})

    controls = [s["name"] for s in experiment.summary["systems"] if s.get("role") == "control"]
    assert controls == ["no_context/extractive"]
    assert any("'saved' has no controls" in text for text in experiment.summary["warnings"])


def test_controls_by_hand(config, data):
    # Gold passages, none, and those of another question, through a generator that quotes.
    ids_by_question = {}

    def quotes(question, contexts):
        ids_by_question.setdefault(question, []).append([passage.id for passage in contexts])
        return " ".join(passage.title for passage in contexts) or "nothing"

    names = ["gold_context", "no_context", "shuffled_context"]
    config = {**config, "generators": {}, "retrievers": {"bm25": {"type": "bm25"}}}
    experiment = run_experiment({**config, "controls": names}, generators={"quotes": quotes})

    of = {s["name"]: s for s in experiment.summary["systems"] if s.get("role") == "control"}
    assert [*of] == [f"{name}/quotes" for name in names]
    lists = ids_by_question[QUERIES["q2"]]
    assert ["d2", "d6"] in lists, "the relevant documents, the most relevant first"
    assert [] in lists
    first_ids = {question: id_lists[0] for question, id_lists in ids_by_question.items()}
    assert all(
        id_lists[-1] in first_ids.values()
        for id_lists in ids_by_question.values()
        if len(id_lists) == 4
    )
    # q5 has no relevant document: the control does not apply, which is no failure
    gold = of["gold_context/quotes"]["scores"]["rouge1"]
    assert (gold["n"], gold["failed"]) == (4, {})
    rows = {(row["control"], row["score"]): row for row in experiment.comparisons["controls"]}
    row = rows["gold_context", "rouge1"]
    assert row["system"] == "bm25/quotes"
    assert row["difference"] == pytest.approx(row["mean"] - row["system_mean"])
    assert row["interval"][0] <= row["difference"] <= row["interval"][1]
    assert any(note.startswith("quotes: right is ") for note in experiment.summary["notes"])
    compared = {
        name
        for family in experiment.comparisons["measures"]
        for name in [*family["tied_with_best"], *(c["system"] for c in family["comparisons"])]
    }
    assert not compared & set(of), "no system competes with a control"


def test_gold_needs_judgements(config, tmp_path, assert_message):
    (tmp_path / "r.jsonl").write_text('{"question": "Q?", "reference": "Io"}\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Io is a moon.")
    data = {"type": "records", "path": str(tmp_path / "r.jsonl"), "corpus": str(tmp_path / "docs")}

    with pytest.raises(DataError) as error:
        run_experiment({**config, "dataset": data, "controls": ["gold_context"]})
    assert_message(error.value)


def test_the_delta_of_a_reranker_is_said(config, tmp_path, monkeypatch, assert_message):
    (tmp_path / "moon_order.py").write_text(
        "def backwards(question, hits):\n    return hits[::-1]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = {"type": "python:moon_order:backwards", "retriever": "bm25", "depth": 4}

    experiment = run_experiment(
        {**config, "retrievers": {"bm25": {"type": "bm25"}, "worse": entry}}
    )

    [row] = [r for r in experiment.comparisons["over_sources"] if r["measure"] == "ndcg@10"]
    assert (row["system"], row["over"]) == ("worse", "bm25")
    assert row["difference"] < 0
    # five hits are read, and the same four documents are among them in any order
    assert_message(" ".join(experiment.summary["notes"]))


def test_a_baseline_that_only_leaves_out_is_replaced_by_the_first_system(config, assert_message):
    for key in ("retrievers", "generators", "controls"):
        config.pop(key, None)
    config["apps"] = {name: {"type": f"python:{__name__}:perfect"} for name in ("prod", "next")}
    config["statistics"] = {"baseline": "prod"}

    experiment = run_experiment(config, choices=Choices(only=("next",)))

    assert experiment.summary["baseline"] == "next"
    config["statistics"] = {"baseline": "prd"}
    with pytest.raises(OptionError) as error:
        run_experiment(config)
    assert_message(error.value)


def test_a_file_that_an_app_misses_in_another_folder_names_that_of_the_config(
    tmp_path, assert_message
):
    (tmp_path / "sub").mkdir()
    code = "import pathlib\n\ndef answer(question):\n    "
    code += "return pathlib.Path('facts.txt').read_text()\n"
    (tmp_path / "facts_app.py").write_text(code)
    (tmp_path / "q.jsonl").write_text('{"question": "why", "reference": "so"}\n')
    (tmp_path / "facts.txt").write_text("so")
    config = "name: f\ndataset: {type: records, path: q.jsonl}\n"
    app = "apps: {mine: {type: 'python:facts_app:answer'}}\n"
    (tmp_path / "f.yaml").write_text(config + app)

    elsewhere = run_command("run", "../f.yaml", cwd=tmp_path / "sub")

    assert elsewhere.returncode == 3
    lines = lines_with(elsewhere.stdout + elsewhere.stderr, "the first to fail")
    assert_message(lines[0])
    assert run_command("run", "f.yaml", cwd=tmp_path).returncode == 0
