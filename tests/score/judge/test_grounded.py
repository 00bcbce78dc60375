"""Method `claims`: hand-worked numbers from scripted verdicts, and how often the model is asked."""

import json
import re

import pytest

from ragbench.records.codec import from_line, to_line
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from ragbench.types import Verdict
from tests.score.judge.scripted import Script, user_text

GROUNDED = [name for name in built_in_rubrics() if load_rubric(name).method == "claims"]
ROW = {
    "question": "When did the bridge open, and what colour is it?",
    "answer": "It opened in 1932 [1]. It is green [2]. It is long.",
    "contexts": ["The bridge opened in 1932.", "It is red.", "Bananas."],
    "reference": "It opened in 1932. It is red.",
}
COLOURS = {"green", "red"}


def split(number, text):
    """Return a sentence as one claim; a sentence about length makes two."""
    line = fenced(text, f"sentence-{number}")
    return [line, "It is very long."] if line == "It is long." else [line]


def verdict(number, text):
    """Supported where the source has the last word of the claim; two colours contradict."""
    last = re.findall(r"\w+", fenced(text, f"claim-{number}").lower())[-1]
    if "<passage-1-" not in text:
        return ruling(last, fenced(text, "source"))
    rulings = [ruling(last, passage) for passage in passages_in(text)]
    best = next(
        (word for word in ("supported", "contradicted") if word in rulings), "not_mentioned"
    )
    numbers = [n for n, word in enumerate(rulings, start=1) if word == best != "not_mentioned"]
    return best, numbers


def ruling(last, source):
    words = set(re.findall(r"\w+", source.lower()))
    if last in words:
        return "supported"
    return "contradicted" if last in COLOURS and COLOURS & words else "not_mentioned"


def fenced(text, label):
    """Return the text between the tags of a label."""
    return re.search(rf"<{label}-[0-9a-f]{{12}}>\n(.*?)\n</", text, re.DOTALL).group(1)


def passages_in(text):
    """The passages of a prompt, in order."""
    return re.findall(r"<passage-\d+-[0-9a-f]{12}>\n(.*?)\n</", text, re.DOTALL)


@pytest.fixture
def ask_judge(judge_on):
    """Judge `ROW` with changes, by all grounded rubrics; returns the server and the verdicts."""

    def ask(options=(), **changes):
        script = Script(split=split, verdict=verdict)
        rubrics = changes.pop("rubrics", GROUNDED)
        server, judge = judge_on(script, rubrics=rubrics, **dict(options))
        return server, judge.score(**ROW | changes)

    return ask


@pytest.mark.costly
@pytest.mark.parametrize("passages", ["together", "each"])
def test_hand_worked(ask_judge, passages, assert_message):
    # Answer: 1932 [1], green [2], long, very long. Reference: 1932, red.
    _, verdicts = ask_judge({"passages": passages})

    assert {name: verdict.score for name, verdict in verdicts.items()} == pytest.approx(
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
    first, second, *_ = verdicts["hallucination"].reasoning.splitlines()
    assert_message(first)
    assert_message(second)


@pytest.mark.costly
@pytest.mark.parametrize("passages", ["together", "each"])
def test_claims_are_data_as_well_as_words(ask_judge, passages):
    # The verdicts have the claims of each rubric alone; stored verdicts are equal to new ones
    _, verdicts = ask_judge({"passages": passages})
    texts = ["It opened in 1932.", "It is green.", "It is long.", "It is very long."]

    judged = [
        (claim.whose, claim.text, claim.ruling, claim.passages, claim.against, claim.other)
        for claim in verdicts["hallucination"].claims
    ]
    assert judged == [
        ("answer", texts[0], "supported", (1,), (), "supported"),
        ("answer", texts[1], "contradicted", (), (2,), "contradicted"),
        ("answer", texts[2], "not_mentioned", (), (), "not_mentioned"),
        ("answer", texts[3], "not_mentioned", (), (), "not_mentioned"),
    ]
    assert [claim.other for claim in verdicts["faithfulness"].claims] == [None] * 4
    recalled = [(c.whose, c.text, c.passages, c.other) for c in verdicts["context_recall"].claims]
    assert recalled == [
        ("reference", "It opened in 1932.", (1,), None),
        ("reference", "It is red.", (2,), None),
    ]
    assert {claim.ruling for claim in verdicts["correctness"].claims} == {None}
    for verdict in verdicts.values():
        assert from_line(Verdict, to_line(verdict)) == verdict


def test_several_samples_have_no_claims_in_common(ask_judge):
    _, verdicts = ask_judge({"repeat": 2, "temperature": 1.0}, rubrics=["faithfulness"])

    assert verdicts["faithfulness"].score == 1 / 4
    assert verdicts["faithfulness"].claims == ()


def test_all_rubrics_together_ask_each_thing_once(ask_judge):
    # 2 splits; 2 texts against the passages; each text against the other
    server, verdicts = ask_judge()

    assert server.counters.requests == 2 + 2 + 2
    assert server.counters.most_asked == 1
    counted = [verdict.usage.output_tokens for verdict in verdicts.values()]
    assert sum(n > 0 for n in counted) < len(counted), "shared replies are counted once"


@pytest.mark.costly
@pytest.mark.parametrize(
    ("rubric", "calls", "by_each"),
    [
        pytest.param("faithfulness", 1 + 1, 1 + 3, id="split, passages"),
        pytest.param("context_recall", 1 + 1, 1 + 3, id="split the reference, passages"),
        pytest.param("correctness", 2 + 2, 2 + 2, id="two splits, each against the other"),
        pytest.param("context_utilization", 1 + 1 + 1, 1 + 3 + 1, id="split, passages, the answer"),
    ],
)
def test_one_rubric_asks_for_no_more_than_it_needs(ask_judge, rubric, calls, by_each):
    together, _ = ask_judge(rubrics=[rubric])
    one_by_one, _ = ask_judge({"passages": "each"}, rubrics=[rubric])

    assert (together.counters.requests, one_by_one.counters.requests) == (calls, by_each)


USUAL = ["faithfulness", "answer_relevancy", "context_precision", "context_recall"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("rubrics", "calls"),
    [
        pytest.param(["faithfulness"], 2, id="faithfulness"),
        pytest.param(USUAL, 5, id="the usual four"),
        pytest.param([*USUAL, "correctness", "noise_sensitivity", "hallucination"], 7, id="seven"),
    ],
)
def test_calls_do_not_grow_with_the_passages(ask_judge, rubrics, calls):
    contexts = [f"Passage about {number}." for number in range(20)]

    server, verdicts = ask_judge(rubrics=rubrics, contexts=contexts)

    assert server.counters.requests == calls
    assert {verdict.status for verdict in verdicts.values()} == {"scored"}


HOPS = ["The film was directed by Ana Ruiz.", "Ana Ruiz was born in Lima.", "Lima lies in Peru."]
HOP = {
    "question": "Where was the director of the film born?",
    "answer": "The director of the film was born in Lima [1][2].",
    "contexts": HOPS,
    "reference": "The director of the film was born in Lima.",
}


def test_a_claim_that_needs_two_passages_is_supported(judge_on):
    # No passage says it by itself; the judge names the two that say it together
    script = Script(verdict=lambda n, text: ("supported_together", [2, 1]))
    rubrics = ["faithfulness", "context_recall", "context_precision", "citation_precision"]
    _, judge = judge_on(script, rubrics=[*rubrics, "citation_recall", "factual_consistency"])

    verdicts = judge.score(**HOP)
    one_cited = judge.score(**HOP | {"answer": "The director of the film was born in Lima [1]."})

    assert {name: verdict.score for name, verdict in verdicts.items()} == pytest.approx(
        {
            "faithfulness": 1.0,
            "context_recall": 1.0,
            "context_precision": 2 / 3,
            "citation_precision": 1.0,
            "citation_recall": 1.0,
            "factual_consistency": 1.0,
        }
    )
    line = "claim 1, cites passage 1, 2: supported by passages 1 and 2 together (it says so): "
    assert verdicts["faithfulness"].reasoning.startswith(line)
    assert one_cited["citation_recall"].score == 0.0, "the other passage is needed as well"
    assert one_cited["citation_precision"].score == 1.0, "and this one has a part in it"


def test_passages_beyond_the_window_are_read_in_as_few_calls_as_needed(judge_on, assert_message):
    # Numbers of a later request are those of its own passages
    long = " ".join(["filler"] * 500)
    contexts = [f"{long} {number}" for number in range(6)]

    def last_of_those_shown(number, text):
        return "supported", [len(passages_in(text))]

    script = Script(verdict=last_of_those_shown)
    server, judge = judge_on(script, rubrics=["faithfulness", "context_precision"], window=4_500)
    whole, wide = judge_on(script, rubrics=["faithfulness"])

    verdicts = judge.score(**HOP | {"contexts": contexts})
    wide.score(**HOP | {"contexts": contexts})

    windows = [passages_in(request.body["messages"][1]["content"]) for request in server.received]
    of_answer = [len(passages) for passages in windows if passages]
    assert of_answer == [2, 2, 2], "the claims of both texts are the same, and asked about once"
    assert verdicts["context_precision"].score == 3 / 6
    assert_message(verdicts["faithfulness"].reasoning)
    assert whole.counters.requests == 2
    for request in server.received:
        assert len(json.dumps(request.body)) / 3 < 4_900


def test_empty_passages_keep_their_numbers_and_are_not_asked_about(judge_on):
    script = Script(verdict=lambda n, text: ("supported", [2]))
    server, judge = judge_on(script, rubrics=["citation_precision"])

    verdicts = judge.score(**HOP | {"contexts": ["  ", HOPS[0], HOPS[1]]})
    none = judge.score(**HOP | {"contexts": ["", " "]})

    assert verdicts["citation_precision"].score == 1 / 2
    assert none["citation_precision"].score == 0.0
    assert server.counters.requests == 2 + 1, "nothing is asked about texts without a word"


WRONG = {
    "out of range": {"claim_1": {"reason": "r", "passages": [4], "verdict": "supported"}},
    "zero": {"claim_1": {"reason": "r", "passages": [0], "verdict": "supported"}},
    "negative": {"claim_1": {"reason": "r", "passages": [-1], "verdict": "contradicted"}},
    "out of range, not mentioned": {
        "claim_1": {"reason": "r", "passages": [9], "verdict": "not_mentioned"}
    },
    "named twice": {"claim_1": {"reason": "r", "passages": [1, 1], "verdict": "supported"}},
    "none named": {"claim_1": {"reason": "r", "passages": [], "verdict": "supported"}},
    "none contradicts": {"claim_1": {"reason": "r", "passages": [], "verdict": "contradicted"}},
    "together alone": {
        "claim_1": {"reason": "r", "passages": [2], "verdict": "supported_together"}
    },
    "a word": {"claim_1": {"reason": "r", "passages": ["first"], "verdict": "supported"}},
    "a fraction": {"claim_1": {"reason": "r", "passages": [1.5], "verdict": "supported"}},
    "no list": {"claim_1": {"reason": "r", "passages": 1, "verdict": "supported"}},
    "no verdict": {"claim_1": {"reason": "r", "passages": [1]}},
    "no passages": {"claim_1": {"reason": "r", "verdict": "supported"}},
    "another claim": {"claim_2": {"reason": "r", "passages": [1], "verdict": "supported"}},
    "claim zero": {"claim_0": {"reason": "r", "passages": [1], "verdict": "supported"}},
    "a list": [{"claim": 1, "passages": [1], "verdict": "supported"}],
    "nothing": {},
}
RIGHT = {"claim_1": {"reason": "r", "passages": [1], "verdict": "supported"}}
TWICE = f'{{"claim_1": {json.dumps(RIGHT["claim_1"])}, "claim_1": {json.dumps(RIGHT["claim_1"])}}}'


WRONG_TEXTS = {name: json.dumps(reply) for name, reply in WRONG.items()} | {"twice": TWICE}


@pytest.mark.costly
@pytest.mark.parametrize(
    ("reply", "mended"),
    [
        *(pytest.param(reply, False, id=name) for name, reply in WRONG_TEXTS.items()),
        pytest.param(WRONG_TEXTS["out of range"], True, id="out of range, then right"),
    ],
)
def test_numbers_that_mean_nothing_are_asked_for_once_more_and_never_scored(
    judge_on, reply, mended
):
    good = Script()

    def script(body, times_asked):
        if "passage-1" not in user_text(body):
            return good(body, times_asked)
        again = body["messages"][-1]["content"].startswith("This could not be read")
        return json.dumps(RIGHT) if again and mended else reply

    server, judge = judge_on(script, rubrics=["faithfulness"])

    verdict = judge.score(**HOP)["faithfulness"]

    assert server.counters.requests == 1 + 2
    if mended:
        assert (verdict.status, verdict.score) == ("scored", 1.0)
    else:
        assert (verdict.status, verdict.cause, verdict.score) == ("failed", "unreadable", None)


def test_of_several_references_the_best_one_counts(ask_judge):
    _, verdicts = ask_judge(
        rubrics=["correctness", "hallucination"],
        reference=["It is blue.", "It opened in 1932. It is green. It is long."],
    )

    assert verdicts["correctness"].score == pytest.approx(1.0)
    assert verdicts["hallucination"].score == 0.0, "lower is better"


@pytest.mark.parametrize("answer", ["", "   ", "[1]"])
def test_an_answer_without_sentences_makes_no_claim(ask_judge, answer):
    server, verdicts = ask_judge(rubrics=["faithfulness", "citation_recall"], answer=answer)

    assert {verdict.cause for verdict in verdicts.values()} == {"no_claims"}
    assert server.counters.requests == 0


def test_an_empty_answer_recalls_nothing_of_the_reference(ask_judge):
    server, verdicts = ask_judge(rubrics=["context_utilization"], answer="")

    assert verdicts["context_utilization"].score == 0.0
    assert server.counters.requests == 1 + 1, "the empty answer is not asked about"


def test_what_is_not_there_is_not_zero(ask_judge):
    _, verdicts = ask_judge(answer="It opened in 1932.", contexts=["Bananas."])

    assert verdicts["citation_precision"].cause == "no_citations"
    assert verdicts["context_utilization"].cause == "nothing_to_use"
    assert verdicts["context_recall"].score == 0.0


def test_a_split_that_fails_fails_what_needs_it_and_is_not_asked_again(judge_on):
    good = Script(split=split, verdict=verdict)

    def script(body, times_asked):
        is_split = "sentence_3" in str(body["response_format"])
        return "I would rather not." if is_split else good(body, times_asked)

    server, judge = judge_on(script, rubrics=GROUNDED)

    verdicts = judge.score(**ROW)

    for name in ("faithfulness", "correctness", "citation_recall", "hallucination"):
        assert (verdicts[name].status, verdicts[name].cause) == ("failed", "unreadable")
        assert "I would rather not." in verdicts[name].raw
    assert verdicts["context_recall"].score == 1.0
    splits = [r for r in server.received if "sentence_3" in str(r.body["response_format"])]
    assert len(splits) == 2, "asked once, and once more with what was wrong"
