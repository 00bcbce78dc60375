"""Calls of `evaluate` with arguments, rows and metric objects of ragas and deepeval."""

import ast
import dataclasses
import math
import re
import sys
import warnings
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.comparison.peer_metrics import read_metrics
from ragbench.score.judge.rubric import built_in_rubrics
from tests import peer_tools
from tests.lazy import Lazy

pd = Lazy("pandas")

ROWS = [
    {"user_input": "When?", "response": "In 1932.", "reference": "1932"},
    {"user_input": "Who?", "response": "Bradfield", "reference": "Bradfield"},
]


def metric(kind, **attributes):
    """An object of a class with a name, as a metric of another tool is one."""
    return type(kind, (), attributes)()


def quoted(answer, contexts):
    return any(answer in text for text in contexts)


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({}, "evaluate: data"),  # no data at all
        ({"dataset": ROWS, "test_cases": ROWS}, "evaluate"),  # the data twice, under two names
        # the judge twice, under two names
        (
            {"data": ROWS, "llm": "m", "judge": "n"},
            "evaluate",
        ),
        ({"data": ROWS, "judg": "m"}, "evaluate"),  # misspelt
        ({"data": ROWS, "metric": []}, "evaluate"),
        (
            {"data": ROWS, "column_map": {"user_input": "q", "response": "a"}},
            "evaluate",
        ),
        # failures are causes here, and never raise
        ({"data": ROWS, "raise_exceptions": False}, "evaluate"),
        ({"data": ROWS, "llm": metric("LlamaIndexLLMWrapper")}, "evaluate: judge"),
        (
            {"data": ROWS, "metrics": [metric("A", name="faithfulness", llm=object())] * 2},
            "evaluate: judge",
        ),
        (
            {
                "data": ROWS,
                "metrics": [metric("A", name="faithfulness", llm=object()) for _ in range(2)],
            },
            "evaluate: judge",
        ),
    ],
)
def test_arguments_without_a_counterpart_name_what_to_write(arguments, place, assert_message):
    with pytest.raises(rb.OptionError) as caught:
        rb.evaluate(**arguments)
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    "stated",
    [
        "topic_adherence",
        "Tone [GEval]",
        "factual_correctness(mode=precision)",
        metric("NoiseSensitivity", name="noise_sensitivity", mode="irrelevant"),
        "bleu_score(tokenize=zh)",
        "rougl",
        # the name is the user's, and so is the question
        metric("GEval", name="correctness", criteria="Is it short?"),
        metric("Voice", __name__="Voice Naturalness"),
        metric("Nameless"),  # an object without criteria
    ],
)
def test_metrics_without_a_counterpart(stated, assert_message):
    with pytest.raises(rb.OptionError) as raised:
        rb.evaluate(ROWS, [stated], judge=rb.Judge(type=quoted, rubrics=[]))
    assert_message(raised.value, "evaluate: metrics")
    assert "\n" not in str(raised.value)


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3),
    name=st.text("ab_ -é", min_size=1).filter(lambda text: text.strip(" -_")),
    params=st.lists(st.sampled_from(peer_tools.CASE[:5]), max_size=3, unique=True),
)
def test_the_rubric_of_a_message_is_a_rubric(steps, name, params):
    geval = peer_tools.GEval(
        name=name,
        evaluation_steps=[step[:40] for step in steps],
        evaluation_params=[SimpleNamespace(value=param) for param in params],
    )
    with pytest.raises(rb.OptionError) as raised:
        rb.evaluate(ROWS, [geval])

    [keys] = ast.literal_eval(re.search(r"metrics=(\[\{.*\}\])", raised.value.allowed)[1])
    with pytest.raises(rb.OptionError, match="a judge for"):
        rb.evaluate(ROWS, [keys])
    assert rb.Judge("m", [keys], client=print).rubrics[0].steps == tuple(keys["steps"])


def test_names_of_other_tools_are_scored_with_a_note(assert_message):
    names = ["bleu_score", metric("ExactMatch", name="exact_match"), "rouge_score(mode=recall)"]
    with pytest.warns(UserWarning, match="is scored as") as caught:
        result = rb.evaluate(ROWS, names)

    assert_message(caught[0].message)
    assert list(result.mean) == ["bleu", "exact_match", "rougeL.recall"]
    assert len(result.notes) == 2, "exact_match has its name"
    assert result["bleu_score"] == result["bleu"]


def test_metrics_of_ragas_with_the_name_of_a_rubric_have_a_note(assert_message):
    kinds = ("context_precision", "faithfulness")
    scores = {*kinds, "exact_match"}
    of_ragas = [metric(name, name=name) for name in (*kinds, "exact_match")]

    call = read_metrics(of_ragas, scores.__contains__)

    assert call.names == [*kinds, "exact_match"]
    [note] = call.notes
    assert_message(note)
    # the names of ragbench, and metrics of deepeval, are no metrics of ragas
    of_deepeval = metric("FaithfulnessMetric", __name__="Faithfulness")
    assert read_metrics([*kinds, of_deepeval], {*kinds}.__contains__).notes == []


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("llm_context_precision_with_reference", "context_precision(as=ragas)"),
        ("context_precision_without_reference", "context_utilization(as=ragas)"),
        ("LLMContextRecall", "context_recall(as=ragas)"),
        ("response_relevancy", "answer_relevancy(as=ragas)"),
        ("answer_correctness", "correctness(as=ragas)"),
        # no rubric has the formula of these
        ("factual_correctness", None),
        ("non_llm_context_recall", None),
        ("nv_response_groundedness", None),
        ("faithfulness_with_hhem", None),
        # of deepeval
        ("Contextual Recall", None),
    ],
)
def test_a_metric_of_ragas_by_another_name_has_its_form(name, form, assert_message):
    is_score = {*built_in_rubrics()}.__contains__
    for metric_of_ragas in (name, metric(name, name=name)):
        [note] = read_metrics([metric_of_ragas], is_score).notes
        assert_message(note)
        assert re.findall(r"\w+\(as=ragas\)", note) == ([] if form is None else [form])


@pytest.mark.parametrize("keys", [("data", "llm"), ("dataset", "judge"), ("dataset", "llm")])
def test_names_of_rubrics_are_those_of_ragas_in_its_calls(keys, assert_message):
    names = ["context_recall", "faithfulness", "exact_match"]
    rows = [{**row, "retrieved_contexts": ["In 1932."]} for row in ROWS]

    def call(*keys):
        arguments = dict(zip(keys, (rows, rb.Judge("m", [], client=lambda _: "no")), strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return rb.evaluate(metrics=names, **arguments)

    assert not [note for note in call("data", "judge").notes if "as=ragas" in note]
    [note] = [note for note in call(*keys).notes if "as=ragas" in note]
    assert_message(note)


def test_two_names_of_one_score_count_once():
    with pytest.warns(UserWarning, match="string_present is scored"):
        result = rb.evaluate(ROWS, ["string_present", "contains"])
    assert list(result.mean) == ["contains"]


def test_thresholds_are_named_as_gates(assert_message):
    metrics = [metric("Exact", __name__="Exact Match", threshold=0.9), "ter"]
    with pytest.warns(UserWarning, match="check_gates") as caught:
        result = rb.evaluate(ROWS, metrics)
    assert_message(caught[0].message)
    assert [gate["verdict"] for gate in rb.check_gates(result, ["exact_match >= 0.9"])] == ["fail"]


def test_a_model_applies_no_rubric_that_the_script_does_not_name():
    def refuse(messages):
        raise AssertionError("no request")

    result = rb.evaluate(dataset=ROWS, metrics=["exact_match"], llm=refuse)
    assert list(result.mean) == ["exact_match"]


TEXTS = st.sampled_from(["In 1932.", "1932", "It opened in 1932, they say.", "Bradfield", "?"])
FORMS = {
    "mappings": lambda rows: rows,
    "samples": lambda rows: [peer_tools.SingleTurnSample(**row) for row in rows],
    "data set of ragas": peer_tools.Samples.from_list,
    "test cases": lambda rows: [as_case(row) for row in rows],
    "data set of deepeval": lambda rows: SimpleNamespace(test_cases=[*map(as_case, rows)]),
    "dataclasses": lambda rows: [DataRow(**row) for row in rows],
    "data frame": lambda rows: pd.DataFrame(rows),
}
CASE_OF = {"user_input": "input", "response": "actual_output", "reference": "expected_output"}


@dataclasses.dataclass
class DataRow:
    user_input: str
    response: str
    reference: str | None = None
    _private: int = 0


def as_case(row):
    return peer_tools.LLMTestCase(**{CASE_OF[key]: value for key, value in row.items()})


@settings(max_examples=25, deadline=None)
@given(
    drawn=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4),
    form=st.sampled_from([*FORMS]),
)
def test_rows_in_any_form_have_the_same_scores(drawn, form):
    rows = [
        {"user_input": f"question {n}", "response": answer, "reference": gold}
        for n, (answer, gold) in enumerate(drawn)
    ]
    names = ["exact_match", "token_f1"]
    expected = rb.evaluate(rows, names)
    result = rb.evaluate(FORMS[form](rows), names)

    assert result.per_query == expected.per_query
    assert result.scores == [
        {name: result.per_query[name][query] for name in names} for query in result.query_ids
    ]
    assert [result[name] for name in names] == [
        [row[name] for row in result.scores] for name in names
    ]


def test_samples_are_rows_of_a_judge_and_of_texts():
    samples = [peer_tools.SingleTurnSample(**row) for row in ROWS]
    cases = [peer_tools.LLMTestCase(input="?", actual_output="a", retrieval_context=["a b"])]

    assert rb.Judge(type=quoted).score_many(cases)[0]["quoted"].score == 1.0
    texts = rb.evaluate_texts(samples, metrics=["exact_match"])
    assert texts["exact_match"] == [0.0, 1.0]


def test_a_score_that_a_result_lacks(assert_message):
    result = rb.evaluate([*ROWS, {"user_input": "Why?", "response": "So."}], ["exact_match"])

    assert math.isnan(result["Exact Match"][2])
    assert math.isnan(result.scores[2]["exact_match"])
    with pytest.raises(rb.OptionError) as caught:
        result["exact_macth"]
    assert_message(caught.value)


def test_contexts_in_a_column_context_are_no_traces():
    rows = [
        {"input": "When?", "actual_output": "1932", "expected_output": "1932", "context": context}
        for context in (["It opened in 1932."], "It opened in 1932.")
    ]
    for row in rows:
        result = rb.evaluate([row], judge=rb.Judge(type=quoted))
        assert result["quoted"] == [1.0]


def test_a_data_frame_without_pandas_names_what_to_install(monkeypatch, assert_message):
    result = rb.evaluate(ROWS, ["exact_match"])
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(rb.MissingExtra) as caught:
        result.to_pandas()
    assert_message(caught.value)
    with pytest.raises(rb.MissingExtra) as caught:
        result.worst()
    assert_message(caught.value)
    with pytest.raises(rb.MissingExtra) as caught:
        rb.compare(result, result).to_pandas()
    assert_message(caught.value)


def test_tool_calls_of_a_table():
    # Two calls are expected, one of them was made, with another argument
    row = {
        "question": "How warm?",
        "answer": "18",
        "tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}],
        "expected_tool_calls": [
            {"name": "weather", "arguments": {"city": "Oslo"}},
            {"name": "clock", "arguments": {}},
        ],
    }
    result = rb.evaluate(
        [row], ["tool_call_correctness(arguments=ignore)", "tool_call_correctness"]
    )
    assert result.scores == [
        {"tool_call_correctness(arguments=ignore)": 0.5, "tool_call_correctness": 0.0}
    ]
