"""`evaluate`: one call for rankings, answers and rubrics of a table."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ragbench as rb
from tests.chat_server import Answer, ChatServer
from tests.lazy import Lazy
from tests.score.judge.scripted import Script

openai = Lazy("openai")
pd = Lazy("pandas")

# as the quick start of ragas collects them
ROWS = [
    {
        "user_input": "When did the bridge open?",
        "retrieved_contexts": ["The bridge opened in 1932.", "It is made of steel."],
        "response": "It opened in 1932.",
        "reference": "In March 1932.",
    },
    {
        "user_input": "Who built it?",
        "retrieved_contexts": ["John Bradfield built the bridge."],
        "response": "It was John Bradfield.",
        "reference": "John Bradfield built it.",
    },
]
FOUR = ["faithfulness", "answer_relevancy", "context_precision", "context_recall"]
IDS = [
    {"id": "q1", "question": "a", "contexts": [{"id": "d1", "text": "x"}], "relevant": ["d1"]},
    {"id": "q2", "question": "b", "contexts": [], "relevant": ["d1", "d2"]},
    {"id": "q3", "question": "c", "contexts": [{"id": "d3", "text": "y"}], "relevant": None},
]


def quoted(answer, contexts):
    return any(answer in text for text in contexts)


def judged_by(server, **options):
    client = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0)
    return rb.Judge("m", client=client, **options)


@pytest.mark.costly
def test_the_quick_start_of_ragas_gives_its_four_metrics():
    with ChatServer(Script()) as server, judged_by(server) as judge:
        result = rb.evaluate(ROWS, metrics=FOUR, judge=judge)
        verdicts = rb.Judge("m", FOUR, base_url=server.url).score_many(ROWS)

    assert list(result.mean) == FOUR
    for name in FOUR:
        scores = [row[name].score for row in verdicts]
        assert list(result.per_query[name].values()) == scores
        assert result.mean[name] == pytest.approx(np.mean(scores))
        low, high = result.interval[name]
        assert low <= result.mean[name] <= high
    # one passage of two supports the only claim; the other question has one passage
    assert result.mean["context_precision"] == (1 / 2 + 1) / 2
    frame = result.to_pandas(texts=True)
    assert [*frame.columns] == [
        *("question", "contexts", "answer", "reference", *FOUR, "cause", "reason")
    ]
    assert frame["question"].tolist() == [row["user_input"] for row in ROWS]
    assert frame["contexts"].tolist() == [row["retrieved_contexts"] for row in ROWS]
    assert "claim 1: supported" in frame["reason"].iloc[0]


@pytest.mark.costly
def test_a_score_that_no_reply_was_read_for_has_the_first_error(assert_message):
    rows = [{"question": "When?", "answer": "In 1932.", "contexts": ["It opened in 1932."]}]
    judge = rb.Judge("m", ["faithfulness(as=ragas)"], client=lambda _: '{"sentences": []}')

    with pytest.warns(UserWarning, match="unreadable") as caught:
        result = rb.evaluate(rows, [], judge=judge)

    assert result.causes == {"faithfulness(as=ragas)": {result.query_ids[0]: "unreadable"}}
    [note] = [str(warning.message) for warning in caught]
    assert_message(note)
    assert "columns: " not in note, "another column mends no reply"


def test_a_failed_judgement_is_a_cause_and_never_a_silent_nan(assert_message):
    def script(body, times_asked):
        prompt = json.dumps(body["messages"])
        return Answer("down", status=400) if "Bradfield" in prompt else Script()(body, times_asked)

    with (
        ChatServer(script) as server,
        judged_by(server, rubrics=["answer_relevancy"]) as judge,
        pytest.warns(UserWarning, match="answer_relevancy: 1") as caught,
    ):
        result = rb.evaluate(ROWS, ["rougeL", "answer_relevancy"], judge=judge)
    assert_message(caught[0].message)

    first, second = result.query_ids
    assert result.causes == {"rougeL": {}, "answer_relevancy": {second: "server_error"}}
    assert result.mean["answer_relevancy"] == 0.75, "the mean is over the other row"
    assert result.summary["answer_relevancy"].failed == {"server_error": 1}
    frame = result.to_pandas(texts=True)
    assert frame["cause"].to_dict() == {first: "", second: "answer_relevancy: server_error"}
    assert math.isnan(frame.loc[second, "answer_relevancy"])
    assert repr(result).endswith(", 1 server_error>")
    assert "<td>1 server_error</td>" in result._repr_html_()


def test_without_metrics_all_that_the_rows_allow(assert_message):
    ranked = [{**row, "relevant": ["d1"]} for row in ROWS]

    metrics = ["right", "rouge1", "rouge2", "rougeL", "bleu", "token_f1"]
    assert list(rb.evaluate(ROWS).mean) == metrics
    assert list(rb.evaluate(IDS).mean) == ["ndcg@10", "recall@5", "mrr"]
    with pytest.warns(UserWarning, match="no retrieved id is") as caught:
        result = rb.evaluate(ranked)
    assert_message(caught[0].message)
    assert list(result.mean)[:4] == ["ndcg@10", "recall@5", "mrr", "right"]
    assert {*result.causes["mrr"].values()} == {"unknown_ids"}, "no false 0"
    judged = rb.evaluate(ROWS, judge=rb.Judge(type=quoted))
    assert list(judged.mean)[-2:] == ["token_f1", "quoted"]
    with pytest.raises(rb.DataError) as caught:
        rb.evaluate([{"user_input": "Why?"}])
    assert_message(caught.value)


def test_a_function_of_an_answer_is_a_judge():
    by_function, by_judge = (rb.evaluate(ROWS, judge=of) for of in (quoted, rb.Judge(type=quoted)))

    assert by_function.mean == by_judge.mean
    assert "quoted" in by_function.rubrics


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_result_that_is_no_number_names_the_metric(value, assert_message):
    def concise(answer, reference):
        return value

    with pytest.raises(rb.RagbenchError) as caught:
        rb.evaluate(ROWS, [concise])

    assert_message(caught.value)


def test_quoted_gold_that_is_no_chunk_is_not_scored_as_a_ranking():
    rows = [{**row, "reference_contexts": [row["reference"]]} for row in ROWS]

    assert "ndcg@10" not in rb.evaluate(rows).mean
    rows[0]["reference_contexts"] = [ROWS[0]["retrieved_contexts"][1]]
    assert rb.evaluate(rows, ["mrr"]).mean == {"mrr": (1 / 2 + 0) / 2}


def test_measures_metrics_and_rubrics_are_one_result():
    row = {**ROWS[0], "retrieved_contexts": [{"id": "d2", "text": "In 1932."}], "relevant": ["d2"]}

    result = rb.evaluate([row], ["quoted", "contains", "mrr"], judge=rb.Judge(type=quoted))

    assert result.mean == {"mrr": 1.0, "contains": 0.0, "quoted": 0.0}
    assert result.counts == {"predictions": 1, "without_prediction": 0, "without_reference": 0}
    assert rb.evaluate([row], "mrr").mean == {"mrr": 1.0}


NAMES = st.sampled_from([f"d{number}" for number in range(9)])
RANKINGS = st.lists(NAMES, max_size=8, unique=True)
RELEVANT = st.lists(NAMES, min_size=1, max_size=4, unique=True)


@pytest.mark.costly
@settings(max_examples=30)
@given(st.lists(st.tuples(RANKINGS, RELEVANT), min_size=1, max_size=4))
def test_rankings_have_the_bits_of_evaluate_run(pairs):
    rows = [
        {
            "id": f"q{number}",
            "question": "a",
            "contexts": [{"id": name, "text": "x"} for name in ranking],
            "relevant": relevant,
        }
        for number, (ranking, relevant) in enumerate(pairs)
    ]
    run = {f"q{number}": ranking for number, (ranking, _) in enumerate(pairs)}
    qrels = {f"q{number}": relevant for number, (_, relevant) in enumerate(pairs)}
    names = ["ndcg@10", "recall@5", "mrr"]

    retrieved = {name for ranking in run.values() for name in ranking}
    assume(not retrieved or retrieved & {name for ids in qrels.values() for name in ids})

    result, expected = rb.evaluate(rows, names), rb.evaluate_run(run, qrels, names)

    for part in ("mean", "interval", "per_query", "signature"):
        assert repr(getattr(result, part)) == repr(getattr(expected, part))


def test_a_question_without_judgements_has_a_cause_and_one_without_passages_zero():
    result = rb.evaluate(IDS)

    assert result.per_query["mrr"]["q2"] == 0
    assert {*result.causes["ndcg@10"].items()} == {("q3", "no_judgements")}
    assert (
        result.mean
        == rb.evaluate_run({"q1": ["d1"]}, {"q1": ["d1"], "q2": ["d1", "d2"]}, [*result.mean]).mean
    )
    assert result.counts["without_judgements"] == 1


def test_the_id_columns_of_ragas_are_rankings(assert_message):
    rows = [
        {"user_input": "a", "retrieved_context_ids": ["d1", "d2"], "reference_context_ids": ["d2"]},
        {"user_input": "b", "retrieved_context_ids": [], "reference_context_ids": ["d2"]},
    ]

    result = rb.evaluate(rows)

    run, qrels = {"a": ["d1", "d2"], "b": []}, {"a": ["d2"], "b": ["d2"]}
    expected = rb.evaluate_run(run, qrels, ["ndcg@10", "recall@5", "mrr"])
    assert (result.mean, result.interval) == (expected.mean, expected.interval)
    with pytest.warns(UserWarning, match="quoted: 2 no_contexts") as caught:
        rb.evaluate([{**row, "response": "x"} for row in rows], judge=rb.Judge(type=quoted))
    assert_message(caught[0].message)


def test_a_missing_list_of_passages_is_a_cause(assert_message):
    output = {"contexts": None, "answer": "It is."}
    rows = [*IDS[:2], {**IDS[0], "id": "q4", **output}, {**IDS[0], "id": "q5", "contexts": None}]

    with pytest.warns(UserWarning, match="mrr: 1 no_contexts, 1") as caught:
        result = rb.evaluate(rows, ["mrr"])
    assert_message(caught[0].message)

    assert result.causes == {"mrr": {"q4": "no_contexts", "q5": "missing_answer"}}
    assert result.mean == {"mrr": (1 + 0) / 2}


@pytest.mark.costly
def test_a_path_rows_and_frames_give_one_result(tmp_path):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    frame = pd.DataFrame(ROWS)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    of_ragas = SimpleNamespace(samples=ROWS, to_list=lambda: ROWS)
    deepeval = frame.set_axis(
        ["input", "retrieval_context", "actual_output", "expected_output"], axis=1
    )
    renamed = frame.rename(columns={"response": "said"})

    expected = rb.evaluate(ROWS).to_dict()

    tables = [str(path), tmp_path / "rows.csv", frame, polars.DataFrame(ROWS)]
    for table in [*tables, pyarrow.Table.from_pylist(ROWS), of_ragas, deepeval]:
        assert rb.evaluate(table).to_dict() == expected
    assert rb.evaluate(renamed, columns={"answer": "said"}).to_dict() == expected


@pytest.mark.slow
def test_a_data_set_of_hugging_face():
    # the folder of the repository has the name of the package
    dataset_of_rows = pytest.importorskip("datasets.arrow_dataset").Dataset.from_list

    table = dataset_of_rows(ROWS)

    assert rb.evaluate(table).to_dict() == rb.evaluate(ROWS).to_dict()


def test_documents_of_langchain_are_passages():
    documents = pytest.importorskip("langchain_core.documents")
    passages = [documents.Document("In 1932.", id="d2"), documents.Document("It opened in 1932.")]
    rows = [{**ROWS[0], "retrieved_contexts": passages, "relevant": ["d2"]}]

    for table in (rows, pd.DataFrame(rows)):
        result = rb.evaluate(table, ["mrr", "quoted"], judge=rb.Judge(type=quoted))
        assert result.mean == {"mrr": 1.0, "quoted": 1.0}
        assert result.texts["contexts"] == [["In 1932.", "It opened in 1932."]]


@pytest.mark.costly
def test_the_judge_may_be_its_arguments_or_a_chat_model():
    level = '{"reasoning": "so", "level": 5}'
    with ChatServer(Script(level=5)) as server:
        options = {"model": "m", "base_url": server.url, "rubrics": ["fluency"]}
        assert rb.evaluate(ROWS, [], judge=options).mean == {"fluency": 1.0}
    assert rb.evaluate(ROWS, ["coherence"], judge=lambda messages: level).mean == {"coherence": 1.0}


def test_rubrics_stand_in_metrics_or_in_the_judge():
    words = "python:tests.words:Words"
    own_judge = rb.Judge(type=words, rubrics=["correctness"])

    assert list(rb.evaluate(ROWS, ["faithfulness"], judge=own_judge).mean) == [
        "faithfulness",
        "correctness",
    ]
    assert list(rb.evaluate(ROWS, ["faithfulness"], judge=rb.Judge(type=words)).mean) == [
        "faithfulness"
    ]
    assert list(rb.evaluate(ROWS, [], judge=rb.Judge(type=words)).mean) == [
        *("faithfulness", "answer_relevancy", "correctness")
    ]
    calls = []
    rb.evaluate(ROWS, [], judge=own_judge, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("data", "options", "place"),
    [
        (ROWS, {"metrics": ["faithfulness"]}, "evaluate: judge"),  # a rubric without a judge
        (ROWS, {"metrics": ["faithfullness"]}, "evaluate: metrics"),
        (ROWS, {"metrics": ["rouge1(stemer=true)"]}, "rouge1: options"),
        (ROWS, {"metrics": ["recal@5"]}, "evaluate: metrics"),
        (ROWS, {"metrics": [rb.rouge]}, "evaluate: metrics"),  # a function of several scores
        (ROWS, {"confidence": 95}, "evaluate: confidence"),  # 95 is meant in percent
        (ROWS, {"columns": {"answr": "response"}}, "dataset: columns"),
        ([], {}, "dataset: data"),
        ("nowhere.csv", {}, "nowhere.csv"),  # no such file
        # two systems in one table
        ([{**ROWS[0], "system": name} for name in "xy"], {}, "evaluate"),
    ],
)  # fmt: skip
def test_mistakes_are_named(data, options, place, assert_message):
    with pytest.raises(rb.RagbenchError) as caught:
        rb.evaluate(data, **options)
    assert_message(caught.value, place)


def test_a_score_without_any_value_names_the_columns_that_were_read(assert_message):
    rows = [{"user_input": "Why?", "response": "So."}]

    with pytest.raises(rb.DataError) as caught:
        rb.evaluate(rows, ["rougeL"])
    assert_message(caught.value)
    with pytest.raises(rb.DataError) as caught:
        rb.evaluate(rows)
    assert_message(caught.value)


def test_ids_that_never_meet_score_nothing(assert_message):
    rows = [{"question": "a?", "retrieved_ids": ["d1"], "relevant_ids": ["e1"]}]

    with pytest.raises(rb.DataError) as caught:
        rb.evaluate(rows)
    assert_message(caught.value)


def test_passages_and_gold_answers_are_scored_by_answer_hit():
    # By hand: 'hot' stands in the first passage of q1, 'ice' in the second of q2: 1, 1/2, 1
    rows = [
        {"question": "q1", "contexts": ["Io is hot.", "Ceres."], "reference": "hot"},
        {"question": "q2", "contexts": ["Ceres.", "Europa has ice."], "reference": "ice"},
    ]

    expected = {"answer_hit@5": 1.0, "answer_hit@1": 0.5, "answer_hit@10": 1.0}
    assert rb.evaluate(rows).mean == expected
    assert rb.evaluate(rows, ["answer_hit@1"]).mean == {"answer_hit@1": 0.5}


def test_two_results_are_compared():
    better = [{**row, "response": row["reference"]} for row in ROWS]
    judge = rb.Judge(type=quoted)

    comparison = rb.compare(rb.evaluate(ROWS, judge=judge), rb.evaluate(better, judge=judge))

    measures = {difference["measure"] for difference in comparison.differences}
    assert measures == {"right", "rouge1", "rouge2", "rougeL", "bleu", "token_f1", "quoted"}


def test_rows_of_one_question_are_told(assert_message):
    row = {"question": "Who?", "answer": "I", "reference": "I"}
    with pytest.warns(UserWarning, match="earlier question"):
        result = rb.evaluate([row, {**row, "answer": "you"}], ["exact_match"])
    assert_message(result.notes)

    # a row per gold document
    row = {"question": "Who?", "retrieved": ["d1", "d2"]}
    with pytest.warns(UserWarning, match="one cell"):
        result = rb.evaluate([{**row, "relevant": "d1"}, {**row, "relevant": "d2"}], ["mrr"])
    assert_message(result.notes)


def test_no_scores_and_tables_in_place_of_results_are_refused(assert_message):
    row = {"question": "Who?", "answer": "I", "reference": "I"}
    with pytest.raises(rb.OptionError) as error:
        rb.evaluate([row], metrics=[])
    assert_message(error.value)

    pd = pytest.importorskip("pandas")
    with pytest.raises(rb.DataError) as refused:
        rb.compare(pd.DataFrame([row]), pd.DataFrame([row]))
    assert_message(refused.value)
