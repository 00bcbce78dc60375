"""Method `claims`: hand-worked numbers from scripted verdicts, and how often the model is asked."""

import re

import pytest

from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from tests.score.judge.scripted import Script

GROUNDED = [name for name in built_in_rubrics() if load_rubric(name).method == "claims"]
ROW = {
    "question": "When did the bridge open, and what colour is it?",
    "answer": "It opened in 1932 [1]. It is green [2]. It is long.",
    "contexts": ["The bridge opened in 1932.", "It is red.", "Bananas."],
    "reference": "It opened in 1932. It is red.",
}
COLOURS = {"green", "red"}


def split(number, text):
    """Each sentence is a claim; one that is about length makes two."""
    line = fenced(text, f"sentence-{number}")
    return [line, "It is very long."] if line == "It is long." else [line]


def verdict(number, text):
    """Supported where the source has the last word of the claim; two colours contradict."""
    source = set(re.findall(r"\w+", fenced(text, "source").lower()))
    last = re.findall(r"\w+", fenced(text, f"claim-{number}").lower())[-1]
    if last in source:
        return "supported"
    return "contradicted" if last in COLOURS and COLOURS & source else "not_mentioned"


def fenced(text, label):
    """What stands between the tags of a label."""
    return re.search(rf"<{label}-[0-9a-f]{{12}}>\n(.*?)\n</", text, re.DOTALL).group(1)


@pytest.fixture
def asked(judge_on):
    """Judge `ROW` with changes, by all grounded rubrics; returns the server and the verdicts."""

    def ask(**changes):
        script = Script(split=split, verdict=verdict)
        server, judge = judge_on(script, rubrics=changes.pop("rubrics", GROUNDED))
        return server, judge.score(**ROW | changes)

    return ask


def test_hand_worked(asked):
    """Answer: 1932 [1], green [2], long, very long. Reference: 1932, red."""
    _, found = asked()

    assert {name: verdict.score for name, verdict in found.items()} == pytest.approx(
        {
            "citation_precision": 1 / 2,
            "citation_recall": 1 / 4,
            "context_precision": 2 / 3,
            "context_recall": 2 / 2,
            "context_utilization": 1 / 2,
            "correctness": 2 * (1 / 4) * (1 / 2) / (1 / 4 + 1 / 2),
            "factual_consistency": 3 / 4,
            "faithfulness": 1 / 4,
            "hallucination": 3 / 4,
            "noise_sensitivity": 0,
            "self_knowledge": 0,
        }
    )
    first, second, *_ = found["hallucination"].reasoning.splitlines()
    assert first == (
        "claim 1, cites passage 1: supported by passage 1 (it says so); "
        "supported by reference 1 (it says so): It opened in 1932."
    )
    assert "contradicted by passage 2" in second


def test_all_rubrics_together_ask_each_thing_once(asked):
    """2 splits; 2 texts x 3 passages; each text against the other."""
    server, found = asked()

    assert server.counters.requests == 2 + 2 * 3 + 2
    assert server.counters.most_asked == 1
    counted = [verdict.usage.output_tokens for verdict in found.values()]
    assert sum(n > 0 for n in counted) < len(counted), "shared replies are counted once"


@pytest.mark.parametrize(
    ("rubric", "calls"),
    [
        pytest.param("faithfulness", 1 + 3, id="split, 3 passages"),
        pytest.param("context_recall", 1 + 3, id="split the reference, 3 passages"),
        pytest.param("correctness", 2 + 2, id="two splits, each against the other"),
        pytest.param("context_utilization", 1 + 3 + 1, id="split, 3 passages, the answer"),
    ],
)
def test_one_rubric_asks_for_no_more_than_it_needs(asked, rubric, calls):
    server, _ = asked(rubrics=[rubric])

    assert server.counters.requests == calls


def test_of_several_references_the_best_one_counts(asked):
    _, found = asked(
        rubrics=["correctness", "hallucination"],
        reference=["It is blue.", "It opened in 1932. It is green. It is long."],
    )

    assert found["correctness"].score == pytest.approx(1.0)
    assert found["hallucination"].score == 0.0, "lower is better"


@pytest.mark.parametrize("answer", ["", "   ", "[1]"])
def test_an_answer_without_sentences_makes_no_claim(asked, answer):
    server, found = asked(rubrics=["faithfulness", "citation_recall"], answer=answer)

    assert {verdict.cause for verdict in found.values()} == {"no_claims"}
    assert server.counters.requests == 0


def test_an_empty_answer_recalls_nothing_of_the_reference(asked):
    server, found = asked(rubrics=["context_utilization"], answer="")

    assert found["context_utilization"].score == 0.0
    assert server.counters.requests == 1 + 3, "the empty answer is not asked about"


def test_what_is_not_there_is_not_zero(asked):
    _, found = asked(answer="It opened in 1932.", contexts=["Bananas."])

    assert found["citation_precision"].cause == "no_citations"
    assert found["context_utilization"].cause == "nothing_to_use"
    assert found["context_recall"].score == 0.0


def test_a_split_that_fails_fails_what_needs_it_and_is_not_asked_again(judge_on):
    good = Script(split=split, verdict=verdict)

    def script(body, times_asked):
        is_split = "sentence_3" in str(body["response_format"])
        return "I would rather not." if is_split else good(body, times_asked)

    server, judge = judge_on(script, rubrics=GROUNDED)

    found = judge.score(**ROW)

    for name in ("faithfulness", "correctness", "citation_recall", "hallucination"):
        assert (found[name].status, found[name].cause) == ("failed", "unreadable")
        assert "I would rather not." in found[name].raw
    assert found["context_recall"].score == 1.0
    splits = [r for r in server.received if "sentence_3" in str(r.body["response_format"])]
    assert len(splits) == 2, "asked once, and once more with what was wrong"
