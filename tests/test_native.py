"""Native Python inputs, such as data frames, mappings and arrays, and plain outputs."""

import asyncio
import inspect
import json
import math
import pickle
import warnings

import numpy as np
import pytest

import ragbench as rb
from ragbench import testing
from ragbench.score.text.base import UnseenText
from tests.chat_server import ChatServer
from tests.lazy import Lazy
from tests.words import context_overlap

pd = Lazy("pandas")

RAGAS = {
    "user_input": "When was it opened?",
    "response": "It was opened in 1932.",
    "retrieved_contexts": ["The bridge opened in 1932."],
    "reference": "In 1932.",
    "reference_contexts": ["gold"],
}
DEEPEVAL = {
    "input": "When was it opened?",
    "actual_output": "It was opened in 1932.",
    "retrieval_context": ["The bridge opened in 1932."],
    "expected_output": "In 1932.",
}


def frames(rows):
    yield rows
    yield pd.DataFrame(rows)
    # the packages are optional, and a frame of each must give the same
    for package, name in (("polars", "DataFrame"), ("pyarrow", "Table")):
        try:
            frame_class = getattr(__import__(package), name)
        except ImportError:
            continue
        yield frame_class.from_pylist(rows) if package == "pyarrow" else frame_class(rows)


@pytest.mark.parametrize("row", [RAGAS, DEEPEVAL], ids=["ragas", "deepeval"])
def test_tables_of_any_kind_are_scored_and_judged(row):
    judge = rb.Judge(type="python:tests.words:context_overlap")

    for table in frames([row, row]):
        result = rb.evaluate_texts(table, metrics=["contains", "rouge1"])
        assert result.counts["predictions"] == 2
        assert (
            result.mean
            == rb.evaluate_texts(
                ["It was opened in 1932."], ["In 1932."], ["contains", "rouge1"]
            ).mean
        )
        assert [v["context_overlap"].score for v in judge.score_many(table)] == [1.0, 1.0]


def test_columns_of_frames_stand_for_lists_and_what_is_missing_is_none():
    frame = pd.DataFrame({"said": ["a fox", None], "gold": [["the fox", "a fox"], "b"]})

    by_column = rb.evaluate_texts(frame["said"], frame["gold"], ["rouge1"])
    by_row = rb.evaluate_texts(
        frame, metrics=["rouge1"], columns={"answer": "said", "reference": "gold"}
    )

    assert by_column.counts == by_row.counts
    assert by_column.counts["without_prediction"] == 1
    assert rb.evaluate_texts(np.array(["a"]), np.array(["a"]), ["rouge1"]).mean == {"rouge1": 1.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([{"answer": "a"}], None, ["bleu"]), "no column with the reference"),
        (([{"response": "a", "actual_output": "b"}], None, ["bleu"]), "could both be the answer"),
        (([RAGAS], ["a"], ["bleu"]), "references beside a table"),
        ((["a"], None, ["bleu"]), "references: found NoneType"),
        ((["a"], ["b"], "bleu"), "names of metrics, in a list"),
        ((["a"], ["b"], ()), "names of metrics, in a list"),
    ],
)
def test_what_is_no_table_of_texts_is_refused(arguments, message):
    with pytest.raises(rb.RagbenchError, match=message):
        rb.evaluate_texts(*arguments)


def test_a_row_with_an_unknown_key_is_refused_and_gold_is_left_aside(assert_message):
    judge = rb.Judge(type="python:tests.words:context_overlap")

    with pytest.raises(rb.DataError, match="did you mean 'question'"):
        judge.score_many([{"qestion": "a"}])
    with pytest.raises(rb.DataError, match=r"rows\[0\]: found int"):
        judge.score_many([3])
    with pytest.raises(rb.DataError) as error:
        judge.score_many({"answer": "a"})
    assert_message(error.value)
    assert judge.score_many([{**RAGAS, "relevant": ["d1"]}])[0]["context_overlap"].score == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rb.bleu(None, "a"), "bleu: prediction: found None, allowed: a text"),
        (lambda: rb.rouge(["a"], ["a"]), r"rouge: prediction: found \['a'\].*evaluate_texts"),
        (lambda: rb.rouge("a", [["a"]]), r"rouge: reference\[0\]: found \['a'\], allowed: a text"),
        (lambda: rb.chrf("a", {"a": 1}), "chrf: references: found {'a': 1}"),
        (lambda: rb.token_f1("a", ["a", None]), r"token_f1: references\[1\]: found None"),
        (lambda: rb.exact_match(prediction="a", references=3), "exact_match: references: found 3"),
        (lambda: rb.ter("a", None), "ter: references: found None"),
        (lambda: rb.contains("a", []), r"contains: references: found \[\]"),
    ],
)
def test_what_is_no_text_is_refused_by_name(call, message):
    with pytest.raises(rb.OptionError, match=message):
        call()


def test_results_are_numbers_and_can_be_written_down():
    results = [
        rb.bleu("a b c", "a b d"),
        rb.rouge("a b", "a"),
        rb.rouge("a b", "a")["rouge1"],
        rb.chrf("a", "b"),
        rb.ter("a", "b"),
        rb.token_f1("a b", ["b"]),
        rb.exact_match("a", "a"),
        rb.contains("a b", "b"),
        rb.ndcg(["d1"], {"d1"}),
        rb.Judge(type=context_overlap).score(answer="It is red.", contexts=["It is red."])[
            "context_overlap"
        ],
    ]

    for result in results:
        assert math.isfinite(float(result))
        assert isinstance(json.loads(json.dumps(result.to_dict())), dict)
    parts = ("precision", "recall", "fmeasure")
    full, none = dict.fromkeys(parts, 1.0), dict.fromkeys(parts, 0.0)
    assert rb.rouge("a", "a") == {"rouge1": full, "rouge2": none, "rougeL": full}
    assert repr(rb.exact_match("a", "a")) == "1.0"
    assert rb.recall([], []).to_dict() == {"score": None}
    verdict = rb.Judge(type=context_overlap).score(answer="It is red.")["context_overlap"]
    assert math.isnan(float(verdict))


@pytest.mark.parametrize("limits", [{"usd": 1}, {"dollars": 1}, 1, {"usd": "1"}, {"usd": -1}])
def test_a_judge_refuses_a_budget_that_it_cannot_keep(limits, assert_message):
    with pytest.raises(rb.OptionError) as caught:
        # a model without a known price
        rb.Judge("mine", ["fluency"], base_url="http://127.0.0.1:9/v1", budget=limits)
    assert_message(caught.value, "budget")


def test_a_judge_without_a_model_has_no_budget():
    with pytest.raises(rb.OptionError, match="or no budget"):
        rb.Judge(type=context_overlap, budget={"tokens": 1})


def test_a_judge_spends_its_budget_and_no_more():
    # 1000 tokens at 2.5 and 18 at 10 per million: .00268 a call, 18 of which fit into .05
    reply = testing.Answer('{"reasoning": "It reads well.", "level": 4}', prompt_tokens=1000)
    rows = [{"question": "When?", "answer": f"In {year}."} for year in range(1932, 1962)]
    with testing.ChatServer(reply) as server:
        options = {"base_url": server.url, "budget": {"usd": 0.05}}
        with rb.Judge("gpt-4o", ["fluency"], **options) as judge:
            verdicts = [by_rubric["fluency"] for by_rubric in judge.score_many(rows)]
        again = pickle.loads(pickle.dumps(judge))

    assert 15 <= [verdict.status for verdict in verdicts].count("scored") <= 18
    assert {verdict.cause for verdict in verdicts} == {"scored", "over_budget"}
    assert again._limits == {"usd": 0.05}


def test_the_asynchronous_twins_have_the_signatures_of_the_others():
    for name in ("score", "score_many"):
        ours, theirs = (inspect.signature(getattr(rb.Judge, n)) for n in (name, f"a{name}"))
        assert ours == theirs


def test_a_judge_is_pickled_without_its_key(monkeypatch, assert_message):
    monkeypatch.setenv("SOME_KEY", "first-secret-of-mine")
    reply = '{"reasoning": "yes", "level": 5}'
    with ChatServer(reply, key="second-secret-of-mine") as server:
        judge = rb.Judge("m", ["fluency"], base_url=server.url, api_key_env="SOME_KEY")
        judge.score(answer="A text.")
        pickled = pickle.dumps(judge)
        monkeypatch.setenv("SOME_KEY", "second-secret-of-mine")
        again = pickle.loads(pickled)

        assert b"secret-of-mine" not in pickled
        assert again.score(answer="A text.")["fluency"].status == "scored"
        assert again.score(answer="A text.")["fluency"].score == 1.0

    with pytest.raises(TypeError) as error:
        pickle.dumps(rb.Judge(type="langchain", client=_Model(), rubrics=["fluency"]))
    assert_message(error.value)


class _Model:
    def invoke(self, messages):
        return '{"reasoning": "yes", "level": 5}'


def test_what_metrics_do_not_see_is_warned_of_once():
    with pytest.warns(UnseenText, match="a script without spaces") as caught:
        result = rb.evaluate_texts(["東京です"], [["東京"]], ["bleu", "bleu1"])

    assert len(caught) == len(result.notes) == 1
    assert caught[0].filename == __file__


def test_all_of_it_runs_under_a_running_loop():
    judge = rb.Judge(type="langchain", client=_Model(), rubrics=["fluency"])

    async def cell():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            awaited = await judge.ascore_many([{"response": "A text."}])
            one = await judge.ascore(answer="A text.")
            blocking = judge.score_many([{"actual_output": "A text."}])
            texts = rb.evaluate_texts([DEEPEVAL], metrics=["bleu"])
        return awaited[0], one, blocking[0], texts

    *verdicts, texts = asyncio.run(cell())

    assert [verdict["fluency"].score for verdict in verdicts] == [1.0, 1.0, 1.0]
    assert texts.summary["bleu"].n == 1


@pytest.mark.costly
def test_an_experiment_takes_a_data_set_from_the_program(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    rows = [{**RAGAS, "user_input": f"When was bridge {i} opened?"} for i in range(6)]

    async def cell(table):
        config = {"metrics": {"generation": ["contains"]}, "output": str(tmp_path / "runs")}
        return rb.run_experiment(config, dataset=table)

    (tmp_path / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    for table in (*frames(rows), tmp_path / "rows.json"):
        experiment = asyncio.run(cell(table))
        (system,) = experiment.summary["systems"]
        assert (system["name"], system["scores"]["contains"]["mean"]) == ("given", 1.0)
    (tmp_path / "c.yaml").write_text(
        "dataset: {type: records, path: nowhere.jsonl}\nretrievers: {bm25: {type: bm25}}\n"
    )
    documents = pd.DataFrame({"id": ["d1", "d2"], "text": ["a red fox", "a blue bird"]})
    parts = {"queries": [{"id": "q1", "text": "fox"}], "documents": documents}
    finished = rb.run_experiment("c.yaml", dataset={**parts, "qrels": {"q1": {"d1": 1}}})

    assert finished.summary["systems"][0]["scores"]["ndcg@10"]["mean"] == 1.0
    with pytest.raises(rb.OptionError) as error:
        rb.run_experiment({}, dataset=3)
    assert_message(error.value)
