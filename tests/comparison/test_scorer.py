"""`rb.scorer`: the values of `rb.evaluate`, one question at a time, by the keys of other tools."""

import json
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

import ragbench as rb
from ragbench.testing import ChatServer

# Questions with everything, without gold, without answers and passages, and without an answer.
ROWS = [
    {
        "question": "When did it open?",
        "answer": "It opened in 1932",
        "retrieved": ["d3", "d1", "d7", "d1", "d9"],
        "reference": ["It opened in March 1932.", "1932"],
        "relevant": {"d1": 3, "d5": 1, "d9": 2, "d4": 0},
    },
    {
        "question": "Who built it?",
        "answer": "Dorman Long built the bridge",
        "retrieved": ["d8", "d2"],
        "reference": "Dorman Long and Co.",
        "relevant": ["d2", "d 6"],
    },
    {"question": "How long is it?", "answer": "1,149 m", "retrieved": ["d2"]},
    {"question": "Who paid?", "reference": "The state", "relevant": ["d1"]},
    {"question": "Why?", "answer": "So.", "reference": "For traffic.", "relevant": {"d4": 0}},
    {"question": "How?", "answer": "With care", "reference": "With care.", "relevant": ["d7"]},
    {"question": "Where?", "retrieved": [], "reference": "Sydney", "relevant": ["d3"]},
]
# The arithmetic of these is the same to the last bit on every machine.
EXACT = ("mrr", "map", "recall@3", "precision@3", "f1@3", "hit_rate@1", "bpref", "P_2", "rprec")
METRICS = ("rougeL", "rouge1.recall", "bleu", "token_f1", "exact_match", "chrf", "contains")


def apart(row):
    """The parts of a row as the three arguments."""
    parts = {"inputs": ("question",), "outputs": ("answer", "retrieved", "contexts")}
    parts["expectations"] = ("reference", "relevant")
    return {
        name: {key: row[key] for key in keys if row.get(key) is not None}
        for name, keys in parts.items()
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*EXACT, *METRICS, "ndcg@3", "ndcg(gain=exp)", "err(max=3)@4"])
def test_scores_are_those_of_evaluate(name):
    result = rb.evaluate(ROWS, [name])
    score = rb.scorer(name)

    for row, (query, expected) in zip(ROWS, result.per_query[name].items(), strict=True):
        scored = score(**apart(row))
        assert scored["cause"] == result.causes[name].get(query)
        if scored["cause"] is None:
            # libraries may round the logarithms and powers of arrays otherwise
            exact = name in (*EXACT, *METRICS)
            assert scored["score"] == (expected if exact else pytest.approx(expected, rel=1e-15))
        else:
            assert scored["score"] is None
            assert scored["reason"]
        json.dumps(scored, allow_nan=False)


def test_one_list_needs_no_numpy():
    code = (
        "import sys; import ragbench as rb; "
        "score = rb.scorer('ndcg@10')(outputs={'retrieved': ['b', 'a']}, "
        "expectations={'relevant': {'a': 1}}); "
        "assert score['reason'] == '1 of 1 relevant documents retrieved, at rank 2', score; "
        "sys.exit('numpy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "outputs", "expectations", "expected"),
    [
        # a text or a list alone
        ("exact_match", "In 1932", "in 1932.", 1.0),
        ("mrr", ["x", "a"], ["a", "b"], 1 / 2),
        ("exact_match", "1932", ["In 1931", "1932"], 1.0),
        # ragas, deepeval, LangSmith, and what people write
        ("exact_match", {"response": "1932"}, {"reference": "1932"}, 1.0),
        ("exact_match", {"actual_output": "1932"}, {"expected_output": "1932"}, 1.0),
        ("exact_match", {"answer": "1932"}, {"answer": "1932"}, 1.0),
        ("exact_match", {"Output": "1932"}, {"ground-truth": "1932"}, 1.0),
        ("exact_match", {"response": "1932"}, {"expected_response": "1932"}, 1.0),
        ("mrr", {"retrieved_context_ids": ["x", "a"]}, {"reference_context_ids": ["a"]}, 1 / 2),
        # ids of passages; gold passages by their words
        ("mrr", {"contexts": [{"text": "X"}, {"id": 4, "text": "A"}]}, {"relevant": [4]}, 1 / 2),
        ("mrr", {"retrieval_context": ["X", "A"]}, {"expected_context": "A"}, 1 / 2),
        ("recall@2", {"retrieved": "a; b"}, {"relevant": "b; c"}, 1 / 2),
        # grades beside ids: 1 / log2(3) of (2 + 1 / log2(3))
        ("ndcg@2", ["x", "a"], {"relevant": ["b", "a"], "grades": [2, 1]}, 0.23981246656813146),
        # two keys may look like ids; neither surely is one
        ("exact_match", "1932", {"reference": "1932", "source": "wiki", "page": 3}, 1.0),
        (
            "tool_call_f1",
            {"tool_calls": [{"name": "weather", "arguments": {"city": "Paris"}}]},
            {"expected_tools": [{"name": "weather", "arguments": {"city": "Paris"}}, "clock"]},
            2 / 3,
        ),
    ],
)  # fmt: skip
def test_keys_of_other_tools(name, outputs, expectations, expected):
    scored = rb.scorer(name)({"messages": []}, outputs, expectations)

    assert scored["cause"] is None, scored
    assert scored["score"] == pytest.approx(expected, rel=1e-15)


def test_passages_of_the_inputs_give_way_to_those_of_the_outputs():
    score = rb.scorer("hit_rate@1")
    inputs = {"question": "When?", "retrieved": ["a"]}

    assert score(inputs, "In 1932", {"relevant": ["a"]})["score"] == 1.0
    assert score(inputs, {"retrieved": ["b"]}, {"relevant": ["a"]})["score"] == 0.0


@pytest.mark.parametrize(
    ("name", "arguments", "cause"),
    [
        ("rougeL", {"outputs": "a"}, "no_reference"),
        (
            "rougeL",
            {"outputs": {"anser": "a", "model": "x"}, "expectations": "b"},
            "missing_answer",
        ),
        ("rougeL", {"outputs": "a", "expectations": {"reference": float("nan")}}, "no_reference"),
        ("ndcg@3", {"outputs": ["d1"]}, "no_judgements"),
        (
            "ndcg@3",
            {"outputs": "text", "expectations": ["d1"]},
            "no_contexts",
        ),
        (
            "ndcg@3",
            {"outputs": ["d1"], "expectations": {"relevant": {"d1": 0}}},
            "no_relevant",
        ),
        ("tool_call_f1", {"outputs": "a", "expectations": {"expected_tools": []}}, "no_tool_calls"),
        ("python:tests.comparison.test_scorer:never", {"outputs": "a"}, "malformed"),
    ],
)  # fmt: skip
def test_a_missing_part_is_a_cause(name, arguments, cause, assert_message):
    scored = rb.scorer(name)(**arguments)

    assert (scored["score"], scored["cause"]) == (None, cause)
    assert_message(scored["reason"])


def never(prediction):
    """A metric without any value."""
    return float("nan")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("ndgc@10", "scorer: name"),
        ("rougeLL", "scorer: name"),
        ("faithfulnes", "scorer: name"),
        ("faithfulness", "scorer: judge"),  # a rubric without a judge
        ("precision", "precision: k"),  # a cut-off is missing
        ("err@10", "scorer: name"),  # an option is missing
        ("alpha_ndcg@10", "scorer: name"),  # a measure of subtopics
        ("bleu.corpus", "scorer: name"),  # a metric of a whole corpus
        ("abstention.recall", "metric: name"),  # a metric of a whole run
    ],
)
def test_a_wrong_scorer_is_refused_when_it_is_made(name, place, assert_message):
    with pytest.raises(rb.OptionError) as caught:
        rb.scorer(name)
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("name", "outputs", "expectations", "place"),
    [
        ("rougeL", 3, None, "rougeL"),  # a number is no answer
        ("rougeL", {"answer": "a", "response": "b"}, None, "outputs"),  # two keys of one part
        ("rougeL", {"answer": ["a"]}, None, "rougeL"),
        # scores where ids in order are expected
        ("mrr", {"retrieved": {"a": 0.5}}, ["a"], "mrr: column 'retrieved'"),
        ("mrr", ["a"], {"relevant": {"a": 0.5}}, "mrr: column 'relevant'"),  # a grade is an integer
    ],
)
def test_a_wrong_form_is_an_error(name, outputs, expectations, place, assert_message):
    with pytest.raises(rb.DataError) as caught:
        rb.scorer(name)(None, outputs, expectations)
    assert_message(caught.value, place)


def test_a_judge_over_http_gives_score_and_words():
    rows = [{"question": "When?", "answer": "It opened in 1932.", "contexts": ["In 1932."]}]
    reply = '{"reasoning": "It reads well.", "level": 4}'
    with ChatServer([reply, "what?", "what?"]) as server:
        # a stored reply is no request: the same item of `evaluate` has the same reply
        options = {"model": "any", "rubrics": ["conciseness"], "base_url": server.url}
        with rb.Judge(**options, retries=0) as judge:
            score = rb.scorer("fluency", judge=judge)
            first = score(**apart(rows[0]))
            # the rubric of the scorer alone is judged, not those of the judge
            assert len(server.received) == 1
            second = score("When?", "It opened.")
    with ChatServer([reply]) as server:
        expected = rb.evaluate(rows, ["fluency"], judge={"model": "any", "base_url": server.url})

    assert first == {"score": 0.75, "reason": "It reads well.", "cause": None}
    assert expected.mean["fluency"] == first["score"]
    assert (second["score"], second["cause"]) == (None, "unreadable")
    assert second["reason"]


def quoted(answer, contexts):
    """A judge that needs no model."""
    return any(answer in text for text in contexts), "looked for the words"


def test_a_function_is_a_judge():
    score = rb.scorer("quoted", judge=rb.Judge(type=quoted))
    passages = [{"id": "d1", "title": "Bridge", "text": "It opened in 1932."}]

    assert score.name == score.__name__ == "quoted"
    assert score(None, {"answer": "in 1932", "contexts": passages}) == {
        "score": 1.0,
        "reason": "looked for the words",
        "cause": None,
    }
    assert score(None, "in 1932")["cause"] == "no_contexts"


def test_a_rubric_reads_guidelines_of_the_expectations():
    prompts = []

    def ask(messages):
        prompts.append(messages[-1]["content"])
        return '{"reasoning": "Both hold.", "level": 1}'

    score = rb.scorer("guidelines", judge=rb.Judge(rubrics=["guidelines"], client=ask))
    score("When?", "In 1932.", {"guidelines": ["Name the year."]})

    assert "Name the year." in "".join(prompts)
    assert score("When?", "In 1932.")["cause"] == "no_guidelines"


SCORERS = {
    "mrr": {},
    "err(max=3)@4": {},
    "rougeL": {"reasoning": "keep"},
    "quoted": {"judge": rb.Judge(type=quoted)},
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_pickled_scorer_gives_the_same_scores(name):
    score = rb.scorer(name, **SCORERS[name])
    row = {**apart(ROWS[0]), "inputs": {"contexts": ["It opened in 1932."]}}

    again = pickle.loads(pickle.dumps(score))

    assert again.name == name
    assert again(**row) == score(**row)
    assert score(**row)["score"] is not None


def test_cloudpickle_copies_a_scorer():
    cloudpickle = pytest.importorskip("cloudpickle")
    row = apart(ROWS[0])
    score = rb.scorer("token_f1")

    again = pickle.loads(cloudpickle.dumps(lambda: score(**row)))

    assert again() == score(**row)


@pytest.mark.costly
def test_a_scorer_works_in_a_pool_of_spawned_processes():
    score, answers = rb.scorer("exact_match"), ["in 1932", "In 1933"]
    context = multiprocessing.get_context("spawn")

    with ProcessPoolExecutor(1, mp_context=context) as pool:
        results = [*pool.map(score, [None] * 2, answers, ["In 1932"] * 2)]

    assert [result["score"] for result in results] == [1.0, 0.0]
