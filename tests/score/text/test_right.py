"""The metric `right`: by hand, and equal to what a run counts, whatever the answers."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.score.text.base import AskedQuestion
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.right import right
from ragbench.types import Cause

WITHOUT_REFERENCE = {"right": "a rule of its own: values by hand, and equal to the causes of a run"}


@pytest.mark.parametrize(
    ("question", "gold", "answer", "value"),
    [
        ("What is the capital of France?", ["Paris"], "It is Paris.", 1),
        # the words of the question do not count
        ("What is the capital of France?", ["The capital is Paris."], "The capital is Lyon.", 0),
        ("How long?", ["127 minutes"], "For 45 minutes.", 0),
        ("What share?", ["15 %"], "A share of 1.5 %.", 0),
        ("Is Io a moon?", ["yes"], "Yes, it is.", 1),
        ("Which moon?", ["Io", "Europa"], "Europa.", 1),
        ("Which moon?", ["Io"], "", 0),
    ],
)
def test_values_by_hand(question, gold, answer, value):
    assert right(answer, AskedQuestion(question, gold)) == value


@pytest.mark.parametrize(
    ("answer", "value"),
    [("I don't know.", 1), ("It was Mars.", 0), ("I don't know, but it may be Mars.", math.nan)],
)
def test_a_question_without_an_answer_is_right_if_the_reply_declines(answer, value):
    question = AskedQuestion("Who won in 2031?", [], answerable=False)

    assert right(answer, question) == pytest.approx(value, nan_ok=True)


@pytest.mark.filterwarnings("ignore:right. 2 no_reference")
def test_a_reply_that_declines_is_wrong_if_gold_documents_have_the_answer():
    replies = ["I don't know.", "Io.", "I don't know, but it may be Mars.", None]
    rows = [
        {"id": f"q{n}", "question": "Which?", "relevant": ["d1"], "response": reply}
        for n, reply in enumerate(replies)
    ]

    result = rb.evaluate([*rows, {"id": "q", "question": "Who?", "response": "No."}], ["right"])

    assert result.per_query["right"] == pytest.approx(
        {"q0": 0, "q1": math.nan, "q2": math.nan, "q3": math.nan, "q": math.nan}, nan_ok=True
    )
    assert result.causes["right"] == {
        "q1": "no_reference",
        "q2": "unsure_refusal",
        "q3": "missing_answer",
        "q": "no_reference",
    }


@pytest.mark.filterwarnings("ignore:.* no value")
def test_a_judge_of_gold_answers_leaves_replies_that_decline_wrong():
    def correctness(answer, reference):
        return answer == reference

    rows = [
        {"id": "q0", "question": "Which?", "relevant": ["d1"], "response": "I don't know."},
        {"id": "q1", "question": "Which?", "relevant": ["d1"], "response": "Io."},
        {"id": "q2", "question": "Which?", "reference": "Io", "response": "Io"},
    ]

    result = rb.evaluate(rows, ["right"], judge=rb.Judge(type=correctness))

    expected = {"q0": 0, "q1": math.nan, "q2": 1}
    assert result.per_query["right"] == pytest.approx(expected, nan_ok=True)


def test_causes_of_items_without_a_value():
    questions = ["When?", "When?", "Who?"]
    gold = [["1932"], [], ["The text does not say."]]
    answers = [None, "1932", "I don't know, but it may be Mars."]

    (column,) = TextScorer(["right"]).score(answers, gold, questions=questions)

    causes = [Cause(int(cause)) for cause in column.causes]
    assert causes == [Cause.NO_ANSWER, Cause.NO_REFERENCE, Cause.UNSURE_REFUSAL]


def test_the_share_of_words_is_an_option():
    row = {"question": "What?", "reference": "red green blue white black", "answer": "red green"}

    means = rb.evaluate([row], ["right", "right(words=0.5)"]).mean

    assert means == {"right": 1, "right(words=0.5)": 0}


answers = st.sampled_from(
    ["Paris", "It is Paris.", "Lyon", "", "I do not know.", "I do not know, but it may be Lyon."]
)
# an empty one is not given: the question has gold documents alone
gold_answers = st.sampled_from(["Paris", "It is Paris, on the Seine", "The text does not say.", ""])


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore:right. .* no value")
@settings(max_examples=12)
@given(st.lists(st.tuples(gold_answers, answers), min_size=1, max_size=6))
def test_tables_and_runs_count_the_same(tmp_path_factory, pairs):
    rows = [
        {"id": f"q{n}", "question": f"Question {n}?", "answer": answer}
        | ({"reference": gold} if gold else {"relevant": ["d1"], "contexts": ["d1"]})
        for n, (gold, answer) in enumerate(pairs)
    ]
    rows.append({"id": "q", "question": "Where?", "reference": "Paris", "answer": "Paris"})
    folder = tmp_path_factory.mktemp("right")
    config = {"name": "r", "output": str(folder), "cache": str(folder / "cache")}
    experiment = rb.run_experiment(config, dataset=rows)

    of_table = rb.evaluate(rows, ["right"])

    of_run = experiment.per_query["given"]["right"]
    assert of_table.per_query["right"] == pytest.approx(of_run, nan_ok=True)
    assert str(of_table.signature["right"]) == str(
        experiment.record.systems[0].scores["right"].signature
    )
    n_right = experiment.record.systems[0].causes["right"]
    assert n_right == sum(value == 1 for value in of_run.values())
