"""Method `rating`: levels, their probabilities, passages one by one."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.llm import ChatReply, TokenLogprob
from ragbench.score.judge.methods.rating import level_probabilities
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.judge.verdicts import count_alike
from ragbench.types.scores import Verdict
from tests.chat_server.answers import Answer
from tests.score.judge.scripted import Script

ROW = {"question": "When did it open?", "answer": "It opened in 1932."}


def reply_with(*tokens):
    """A reply whose tokens are (text, {alternative: probability})."""
    return ChatReply(
        "".join(text for text, _ in tokens),
        logprobs=tuple(
            TokenLogprob(
                text,
                math.log(top.get(text, 1.0)),
                tuple((other, math.log(chance)) for other, chance in top.items()),
            )
            for text, top in tokens
        ),
    )


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        pytest.param(
            [('{"level": ', {}), ("4", {"4": 0.6, "2": 0.2})], {4: 0.75, 2: 0.25}, id="0.6 / 0.8"
        ),
        pytest.param(
            [('{"level":', {}), (" 4", {" 4": 0.3, "4": 0.3, " 5": 0.4})],
            {4: 0.6, 5: 0.4},
            id="with and without a space: 0.3 + 0.3",
        ),
        pytest.param(
            [('"level": ', {}), ("4", {"4": 0.5, "9": 0.3, "four": 0.1, "3": 0.1})],
            {4: 5 / 6, 3: 1 / 6},
            id="no level has no share: 0.5 / 0.6",
        ),
        pytest.param(
            [('"level": ', {}), ("4", {"5": 0.5})], {4: 2 / 3, 5: 1 / 3}, id="drawn, not listed: 1"
        ),
        pytest.param(
            [('"level": 1, then "level":', {}), ("4", {"4": 1.0})], {4: 1.0}, id="the last one"
        ),
        pytest.param([('"level": 4', {})], None, id="no token of its own"),
        pytest.param([('"level": ', {}), ("3", {"3": 1.0})], None, id="not what was read"),
        pytest.param([("four", {})], None, id="no level at all"),
        pytest.param([], None, id="no tokens"),
    ],
)
def test_probabilities_of_levels(tokens, expected):
    probabilities = level_probabilities(reply_with(*tokens), 4, 5)

    assert probabilities == (expected if expected is None else pytest.approx(expected, abs=1e-12))


def test_a_scale_of_ten_is_not_weighted():
    tokens = [('"level": ', {}), ("1", {"1": 1.0})]
    assert level_probabilities(reply_with(*tokens), 1, 9) == {1: 1.0}
    assert level_probabilities(reply_with(*tokens), 1, 10) is None


@given(st.dictionaries(st.sampled_from("123456789ab \n"), st.floats(1e-9, 1.0), min_size=1))
def test_probabilities_are_a_distribution_over_the_scale(top):
    probabilities = level_probabilities(
        reply_with(('"level": ', {}), ("2", {"2": 0.5, **top})), 2, 5
    )

    assert set(probabilities) <= set(range(1, 6))
    assert 2 in probabilities
    assert math.fsum(probabilities.values()) == pytest.approx(1.0, abs=1e-12)


def test_the_score_is_the_expectation(judge_on):
    # (0.75 * 4 + 0.25 * 2 - 1) / 4 = 0.625
    script = Script(level=4, alternatives={"4": {"4": 0.6, "2": 0.2}})
    _, judge = judge_on(script, rubrics=["answer_relevancy"])

    verdict = judge.score(**ROW)["answer_relevancy"]

    assert verdict.weighted
    assert verdict.level == pytest.approx(3.5, abs=1e-6)
    assert verdict.score == pytest.approx(0.625, abs=1e-6)
    assert verdict.reasoning == "since it is so"
    assert '"level": 4' in verdict.raw


NO_YES = {"scale": {"no": "It is rude.", "yes": "It is polite."}}
STARS = {"scale": {1: "bad", 2: "fair", 3: "good"}}


@pytest.mark.parametrize(
    ("scale", "reply", "level"),
    [
        (NO_YES, "yes", 2),
        (NO_YES, "No", 1),
        (NO_YES, True, 2),
        (NO_YES, "yes: It is polite.", 2),
        (NO_YES, "fail", 1),
        (NO_YES | {"direction": "lower"}, "pass", 1),
        (NO_YES, "2", 2),
        (STARS, "Good ", 3),
        (STARS, "yes", None),
        (STARS, True, None),
        (NO_YES, "perhaps", None),
    ],
)
def test_the_name_of_a_level_is_read_as_its_number(judge_on, scale, reply, level):
    rubric = {"name": "polite", "needs": ["answer"], **scale}
    server, judge = judge_on(Script(level=reply), rubrics=[rubric])

    verdict = judge.score(answer="Good morning.")["polite"]

    assert verdict.level == level
    assert (verdict.cause == "unreadable") is (level is None)
    # words are for reading: servers refuse keywords that are none of JSON Schema
    schema = server.received[0].body["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]["level"]) == {"type", "enum"}


def test_without_log_probabilities_the_level_counts(judge_on):
    def script(body, times_asked):
        if body.get("logprobs"):
            return Answer("logprobs is not supported", status=400, param="logprobs")
        return Script(level=2)(body, times_asked)

    server, judge = judge_on(script, rubrics=["answer_relevancy"])

    verdicts = [
        row_verdicts["answer_relevancy"]
        for row_verdicts in judge.score_many([ROW, {**ROW, "answer": "x"}])
    ]

    assert [(v.score, v.level, v.weighted) for v in verdicts] == [(0.25, 2.0, False)] * 2
    judge.score(**ROW | {"answer": "y"})
    assert not server.received[-1].body.get("logprobs"), "found out once"


def test_each_passage_is_rated(judge_on):
    # Levels 5 and 1 of 5: ((5 - 1) / 4 + (1 - 1) / 4) / 2
    script = Script(level=lambda text: 5 if "opened" in text else 1)
    server, judge = judge_on(script, rubrics=["context_relevancy"])
    passages = ["The bridge opened in 1932.", "Bananas are yellow."]

    verdict = judge.score(question="When?", contexts=passages)["context_relevancy"]

    assert (verdict.score, verdict.level) == (0.5, 3.0)
    assert server.counters.requests == 2
    first, second = verdict.reasoning.splitlines()
    assert first.startswith("passage 1: level 5")
    assert second.startswith("passage 2: level 1")
    assert all(
        "Bananas" not in r.body["messages"][1]["content"]
        or "1932" not in r.body["messages"][1]["content"]
        for r in server.received
    )


def test_one_unreadable_passage_fails_the_item(judge_on):
    # A mean over the other passages would favour passages that are easy to judge
    good = Script(level=5)
    script = lambda body, n: "no" if "Bananas" in str(body) else good(body, n)  # noqa: E731
    _, judge = judge_on(script, rubrics=["context_relevancy"])

    verdict = judge.score(question="When?", contexts=["In 1932.", "Bananas."])["context_relevancy"]

    assert (verdict.score, verdict.cause) == (None, "unreadable")
    assert "no" in verdict.raw.split("\n\n")


def test_a_mean_of_levels_is_weighted_only_if_all_are(judge_on):
    # A server behind a proxy may return log-probabilities for some replies alone
    bare = {"choices": [{"message": {"content": '{"reasoning": "", "level": 4}'}}]}
    good = Script(level=4)

    def script(body, times_asked):
        is_bare = "Bananas" in str(body["messages"])
        return Answer(body=json.dumps(bare).encode()) if is_bare else good(body, times_asked)

    _, judge = judge_on(script, rubrics=["context_relevancy"])

    rows = [
        {"question": "When?", "contexts": texts} for texts in (["1932."], ["1932.", "Bananas."])
    ]
    one, both = (judge.score(**row)["context_relevancy"] for row in rows)

    assert (one.weighted, both.weighted) == (True, False)
    assert both.score == 0.75


ratings = st.builds(
    lambda level, probable, weighted: Verdict(
        (probable - 1) / 4 if weighted else (level - 1) / 4,
        level=probable if weighted else level,
        weighted=weighted,
        plain_level=level if weighted else None,
    ),
    st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]),
    st.floats(1.0, 5.0),
    st.booleans(),
)
failures = st.just(Verdict(None, status="failed", cause="timeout"))


@given(st.lists(st.one_of(ratings, failures), min_size=1))
def test_many_verdicts_are_all_weighted_or_none(verdicts):
    # By hand: the score of a level is (level - 1) / 4, and that of probabilities is its own
    rubric = load_rubric("coherence")

    counted = [
        row["coherence"] for row in count_alike([{"coherence": v} for v in verdicts], [rubric])
    ]

    weighted = all(v.weighted for v in verdicts if v.score is not None)
    for verdict, result in zip(verdicts, counted, strict=True):
        by_level = verdict.level if verdict.plain_level is None else verdict.plain_level
        expected = verdict.score if weighted or by_level is None else (by_level - 1) / 4
        assert result.score == expected
        assert result.weighted == (weighted and verdict.score is not None)
    assert count_alike([{"coherence": v} for v in counted], [rubric]) == [
        {"coherence": v} for v in counted
    ], "a second time changes nothing"


@pytest.mark.parametrize("combine", ["mean", "median", "majority"])
def test_a_jury_is_weighted_only_if_all_its_models_are(judge_on, combine):
    # Levels 4 and 2 have the mean 3; each model expects 0.6 x 4 + 0.4 x 2 = 3.2

    def script(body, times_asked):
        level = 4 if body["model"] == "a" else 2
        answer = Script(level=level, alternatives={str(level): {"4": 0.6, "2": 0.4}})
        reply = answer(body, times_asked)
        if body["model"] == "b" and "bare" in str(body["messages"]):
            bare = {"choices": [{"message": {"content": reply.text}}]}
            return Answer(body=json.dumps(bare).encode())
        return reply

    _, judge = judge_on(script, model=None, models=["a", "b"], rubrics=["fluency"], combine=combine)

    both, one = (judge.score(**ROW | {"answer": text})["fluency"] for text in ("x", "bare"))

    assert (both.weighted, both.plain_level, both.plain_samples) == (True, 3.0, (0.75, 0.25))
    assert (one.weighted, one.plain_level, one.level, one.samples) == (False, None, 3, (0.75, 0.25))
    if combine != "majority":
        assert both.level == pytest.approx(3.2)
