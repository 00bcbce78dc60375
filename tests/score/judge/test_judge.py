"""`Judge` from Python: one and many, asynchronous, missing inputs, failures, bad arguments."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.records.codec import to_json
from ragbench.score.judge import JUDGES, base
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.chat import OpenAIJudge
from ragbench.score.judge.judge import Judge, load_rubrics, make_judge
from ragbench.score.judge.python import as_judge, missing_members
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.judge.verdicts import apply_rubric
from ragbench.types import Cause, Document, Verdict
from tests.score.judge.judging import judge_items
from tests.words import Tone

ROW = {
    "question": "When did it open?",
    "answer": "It opened in 1932.",
    "contexts": ["It opened in 1932."],
    "reference": "1932",
}


class Moody:
    """A judge that fails on some answers."""

    label, model, served, options = "moody", "moody/1", None, {}
    closed = 0

    def judge(self, item, rubric):
        if item.answer == "boom":
            raise RuntimeError("no mood")
        return Verdict(1.0, level=5)

    def close(self):
        type(self).closed += 1


WORDS = "python:tests.words:Words"
MOODY = f"python:{__name__}:Moody"


def test_by_default_the_usual_rubrics():
    verdicts = Judge(type=WORDS).score(**ROW)
    assert {name: v.score for name, v in verdicts.items()} == pytest.approx(
        {"faithfulness": 1.0, "answer_relevancy": 0.0, "correctness": 2 / 3}
    )
    assert json.loads(json.dumps(verdicts["correctness"].to_dict()))["status"] == "scored"


def test_by_default_all_that_it_can_where_it_has_none_of_the_usual_rubrics():
    assert list(Judge(type=Tone).score(**ROW)) == ["coherence", "fluency"]


@pytest.mark.parametrize(
    ("changes", "causes"),
    [
        ({"answer": None}, ["no_answer", "no_answer", "no_answer"]),
        ({"contexts": None}, ["no_contexts", "scored", "scored"]),
        ({"contexts": []}, ["no_contexts", "scored", "scored"]),
        ({"reference": None}, ["scored", "scored", "no_reference"]),
        ({"reference": []}, ["scored", "scored", "no_reference"]),
        ({"question": None}, ["scored", "no_question", "scored"]),
        ({"answer": ""}, ["no_claims", "scored", "scored"]),
    ],
)
def test_missing_inputs_are_not_zero(changes, causes):
    verdicts = Judge(type=WORDS).score(**ROW | changes).values()
    assert [verdict.cause for verdict in verdicts] == causes
    for verdict in verdicts:
        assert (verdict.score is None) == (verdict.status == "not_applicable")
        assert verdict.reasoning


@pytest.mark.parametrize(
    ("rubric", "item", "cause"),
    [
        ("query_detail", JudgedItem("Why?"), "no_queries"),
        ("query_detail", JudgedItem("Why?", queries=[]), "no_queries"),
        ("query_detail", JudgedItem(" ", queries=["why"]), "no_question"),
        ("guidelines", JudgedItem("Why?", "So."), "no_guidelines"),
        ("pairwise", JudgedItem("Why?", "So."), "no_other"),
        ("pairwise", JudgedItem("Why?", None, other="So."), "no_answer"),
        ("passage_relevance", JudgedItem("Why?", contexts=[]), "no_contexts"),
        ("nugget_recall", JudgedItem("Why?", "So."), "no_reference"),
        ("coherence", JudgedItem(), "no_answer"),
        ("coherence", JudgedItem(answer=""), "scored"),
        ("faithfulness", JudgedItem(None, "So.", ["So."]), "scored"),
        ("guidelines", JudgedItem("Why?", "So.", guidelines=["Be kind."]), "scored"),
        ("query_detail", JudgedItem("Why?", queries=["why"]), "scored"),
        ("pairwise", JudgedItem("Why?", "So.", other=""), "scored"),
    ],
)
def test_what_a_rubric_needs_beyond_an_answer(rubric, item, cause):
    verdict = apply_rubric(Moody(), item, load_rubric(rubric))
    assert verdict.cause == cause
    assert (verdict.score is None) == (cause != "scored") == bool(verdict.reasoning)


@pytest.mark.parametrize(
    "names",
    [
        ("user_input", "response", "retrieved_contexts", "reference"),
        ("input", "actual_output", "retrieval_context", "expected_output"),
        ("question", "response", "contexts", "expected_output"),
    ],
    ids=["ragas", "deepeval", "mixed"],
)
def test_the_names_of_ragas_and_deepeval_are_arguments_too(names):
    judge = Judge(type=WORDS)
    renamed = dict(zip(names, ROW.values(), strict=True))

    assert judge.score(**renamed) == judge.score(**ROW)
    assert asyncio.run(judge.ascore(**renamed)) == judge.score(**ROW)


def test_an_input_that_comes_twice_is_refused(assert_message):
    judge = Judge(type=WORDS)

    with pytest.raises(DataError, match=r"score\(\) has 'response'"):
        judge.score(answer="In 1932.", response="In 1933.")
    with pytest.raises(DataError) as caught:
        judge.score(response="In 1932.", actual_output="In 1933.")
    assert_message(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("question", 5), ("answer", 1932), ("answer", ["x"]), ("other", 0.5)]
)
def test_an_input_that_is_no_text_is_refused(name, value, assert_message):
    judge = Judge(type=WORDS)
    row = {"question": "When?", "answer": "In 1932.", name: value}

    with pytest.raises(DataError) as caught:
        judge.score(**row)
    assert_message(caught.value)
    with pytest.raises(DataError) as caught:
        judge.score_many([row])
    assert_message(caught.value)


@pytest.mark.parametrize("score", ["x", 5, -0.5, float("nan"), None])
def test_a_verdict_of_a_function_has_a_score_from_0_to_1(score, assert_message):
    def score_answer(answer):
        return Verdict(score)

    verdict = Judge(type=score_answer).score(answer="In 1932.").popitem()[1]

    assert (verdict.score, verdict.status) == (None, "failed")
    assert_message(verdict.reasoning)


class Plain:
    """A judge of the user without the protocol, which returns what it was made with."""

    label, model, options, served = "plain", "plain-1", {}, None

    def __init__(self, value=1.0):
        self.value = value

    def judge(self, item, rubric):
        return self.value


@pytest.mark.parametrize("value", ["x", None, 5, Verdict(7.0), {"score": 1}])
def test_what_a_class_returns_is_read_as_of_a_function(value, assert_message):
    verdict = Judge(type=Plain(value), rubrics=["fluency"]).score(answer="So.")["fluency"]

    assert (verdict.status, verdict.cause) == ("failed", "error")
    assert_message(verdict.reasoning)
    assert Judge(type=Plain(0.5), rubrics=["fluency"]).score(answer="So.")["fluency"].score == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label", 5),
        ("model", None),
        ("options", None),
    ],
)
def test_members_of_a_class_have_their_types(name, value, assert_message):
    judge = Plain()
    assert missing_members(judge) is None
    setattr(judge, name, value)
    assert_message(missing_members(judge))


def same(answer, reference):
    return answer == reference


def last(answer, references):
    return answer == references[-1]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), st.sampled_from("abcd"))
def test_a_function_of_one_reference_judges_by_the_best_of_all(references, answer):
    row = {"answer": answer, "reference": references}

    with Judge(type=same) as judge, Judge(type=last) as of_all:
        assert judge.score(**row)["same"].score == float(answer in references)
        assert of_all.score(**row)["last"].score == float(answer == references[-1])


def test_documents_of_langchain_are_passages():
    documents = pytest.importorskip("langchain_core.documents")
    passages = [documents.Document("It opened"), {"text": "in"}, Document("d1", "1932.")]
    judge = Judge(type=lambda answer, contexts: " ".join(contexts) == answer)

    (verdict,) = judge.score(answer="It opened in 1932.", contexts=passages).values()
    (of_row,) = judge.score_many([{"answer": "It opened in 1932.", "contexts": passages}])[
        0
    ].values()

    assert verdict.score == of_row.score == 1.0


def test_guidelines_of_the_rubric_are_enough():
    rubric = replace(load_rubric("guidelines"), guidelines=("Be kind.",))
    assert apply_rubric(Moody(), JudgedItem("Why?", "So."), rubric).cause == "scored"


def test_rows_carry_queries_guidelines_and_another_answer():
    judge = Judge(type=MOODY, rubrics=["query_detail", "guidelines", "pairwise"])
    row = ROW | {"queries": ["opening"], "guidelines": "Be kind.", "other": "In 1931."}
    assert {verdict.cause for verdict in judge.score_many([row])[0].values()} == {"scored"}


def test_many_and_asynchronous_agree_with_one():
    rows = [ROW, ROW | {"answer": "Bananas."}, ROW | {"reference": ["1931", "1932"]}]
    with Judge(type=WORDS) as judge:
        one_by_one = [judge.score(**row) for row in rows]
        assert judge.score_many(rows) == one_by_one

    async def ask():
        async with Judge(type=WORDS) as judge:
            return await judge.ascore_many(rows), await judge.ascore(**ROW)

    many, one = asyncio.run(ask())
    assert many == one_by_one
    assert one == one_by_one[0]


def test_a_judge_that_raises_gives_a_failed_verdict():
    with Judge(type=MOODY, rubrics=["faithfulness"]) as judge:
        verdict = judge.score(**ROW | {"answer": "boom"})["faithfulness"]
        assert (verdict.score, verdict.status, verdict.cause) == (None, "failed", "error")
        assert verdict.reasoning == "RuntimeError: no mood"
    assert Moody.closed == 1


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"type": "nly"}, "judge: type"),
        ({"model": "x"}, ""),
        ({"langage": "de"}, ""),
        ({"client": object()}, ""),
        ({"replies": "r.sqlite"}, ""),
        ({"rubrics": ["faithful"]}, "rubric: name"),
        (
            {"rubrics": ["correctness"] * 2},
            "",
        ),
        (
            {"rubrics": ["fluency"]},
            "",
        ),
    ],
)
def test_bad_arguments_say_what_is_allowed(arguments, place, assert_message):
    with pytest.raises(OptionError) as caught:
        Judge(**{"type": WORDS} | arguments)
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"temperature": 9.0}, "openai: temperature"),
        ({"repeat": 0}, "openai: repeat"),
        ({"combine": "best"}, "openai: combine"),
        ({"mode": "later"}, "openai: mode"),
    ],
)
def test_a_judge_from_python_checks_what_the_config_checks(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        OpenAIJudge(model="m", **options)
    assert_message(caught.value, place)


def test_a_rubric_that_a_judge_does_not_serve(tmp_path, assert_message):
    path = tmp_path / "tone.yaml"
    path.write_text("name: tone\nneeds: [answer]\nscale: {1: rude, 5: warm}\n", encoding="utf-8")
    with pytest.raises(OptionError) as caught:
        Judge(type=WORDS, rubrics=[path])
    assert_message(caught.value)
    assert Judge(type=MOODY, rubrics=[path]).score(answer="x")["tone"].level == 5


def test_a_row_with_another_key(assert_message):
    with pytest.raises(DataError) as caught:
        Judge(type=WORDS).score_many([ROW, {"awnser": "x"}])
    assert_message(caught.value)


def test_columns_for_experiments():
    judge = make_judge(WORDS, {"language": "de"})
    rubrics = load_rubrics(["faithfulness", "correctness"], WORDS, judge)
    items = [
        JudgedItem("When?", "It opened in 1932.", ["It opened in 1932."], ["1932"], "q1"),
        JudgedItem("When?", None, [], [], "q2"),
    ]
    judged = judge_items(judge, items, rubrics, type_name="words")

    context, reference = judged.columns.values()
    np.testing.assert_array_equal(context.values, [1.0, np.nan])
    assert context.causes.tolist() == [Cause.SCORED, Cause.NO_ANSWER]
    start = "faithfulness|judge:words|model:words/1|rubric:"
    assert str(context.signature).startswith(start)
    assert "|language:de|code:" in str(context.signature)
    reworded = judge_items(
        judge, [replace(items[0], question="Pray, when?"), items[1]], rubrics, type_name="words"
    )
    assert reworded.columns["faithfulness"].signature != context.signature
    assert "|gold:" in str(reference.signature)
    assert [(row.query_id, row.rubric) for row in judged.rows] == [
        ("q1", "faithfulness"),
        ("q2", "faithfulness"),
        ("q1", "correctness"),
        ("q2", "correctness"),
    ]
    assert to_json(judged.rows[1]) == {
        "query_id": "q2",
        "rubric": "faithfulness",
        "score": None,
        "level": None,
        "reasoning": "there is no answer to judge",
        "status": "not_applicable",
        "cause": "no_answer",
        "raw": "",
        "weighted": False,
        "samples": [],
        "spread": None,
        "usage": {"input_tokens": 0, "output_tokens": 0, "usd": 0.0},
        "judge": "words",
        "model": "words/1",
    }


def test_failures_are_kept_in_the_column():
    judge = make_judge(MOODY, {})
    rubrics = load_rubrics(["answer_relevancy"], MOODY, judge)
    items = [JudgedItem("Why?", "boom"), JudgedItem("Why?", "x")]
    column = judge_items(judge, items, rubrics, type_name=MOODY).columns["answer_relevancy"]
    assert column.causes.tolist() == [Cause.ERROR, Cause.SCORED]
    assert column.details == {0: "RuntimeError: no mood"}


def test_contexts_may_be_records():
    judge = Judge(type="python:tests.words:context_overlap")
    text = "Piazzi found Ceres."
    row = {"question": "Who found Ceres?", "answer": text}

    scores = [
        judge.score(**row, contexts=[context])["context_overlap"].score
        for context in (text, {"id": "d1", "text": text}, Document("d1", text))
    ]

    assert scores == [1.0, 1.0, 1.0]
    for contexts in ([3], 3):
        with pytest.raises(DataError, match="'contexts' holds 3"):
            judge.score(**row, contexts=contexts)
    with pytest.raises(DataError, match="'nuggets' holds 3"):
        judge.score(**row, nuggets=3)


def test_an_object_of_ones_own_gets_what_it_lacks_and_keeps_what_it_has(assert_message):
    class Plain:
        label, model, options = "plain", "plain/1", {}

        def judge(self, item, rubric):
            return Verdict(0.5)

    class Many(Plain):
        served, computes = ["fluency"], True
        missing_key = "MY_KEY"

        def judge_all(self, items, rubrics, advance=None):
            return [{"fluency": Verdict(0.25)} for _ in items]

        async def ajudge_all(self, items, rubrics):
            return self.judge_all(items, rubrics)

        def check(self):
            self.checked = True

    plain, many = as_judge(Plain()), as_judge(Many())

    assert (plain.served, plain.own_rubric) == (None, None)
    assert not plain.computes
    assert (type(plain.component), plain.label, plain.judge(JudgedItem(), None).score) == (
        Plain,
        "plain",
        0.5,
    )
    plain.close()
    assert (plain.takes_many, plain.asks, plain.missing_key) == (False, False, None)
    assert (many.takes_many, many.asks) == (True, False)
    many.check()
    assert many.component.checked
    assert (many.served, many.computes, many.missing_key) == (["fluency"], True, "MY_KEY")
    with pytest.raises(OptionError) as caught:
        load_rubrics(["correctness"], "mine", many)
    assert_message(caught.value)
    assert as_judge(many) is many


@pytest.mark.parametrize("method", ["judge_all", "ajudge_all"])
def test_an_object_with_one_of_two_methods_for_many_is_asked_one_by_one(method):
    # with one method alone, a script and a notebook would judge in two ways
    class HalfMany:
        label, model, options = "half", "half/1", {}

        def judge(self, item, rubric):
            return Verdict(0.5)

    setattr(HalfMany, method, lambda self, items, rubrics, advance=None: [])

    assert not as_judge(HalfMany()).takes_many


@pytest.mark.parametrize("type_name", list(JUDGES.table))
def test_what_is_known_of_a_judge_before_it_is_made_is_what_its_class_declares(type_name):
    cls = JUDGES.load(type_name)
    assert issubclass(cls, base.RubricJudge)
    facts = base.judge_facts(cls)
    assert facts.served == cls.served
    assert not facts.is_judge
