"""Nuggets and support as TREC RAG counts them: hand-worked numbers, and what is asked for them."""

import json
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.published import (
    NuggetScore,
    nugget_score,
    ragas_correctness,
    support_score,
)
from ragbench.score.judge.rubric import load_rubric
from ragbench.types.records import ASSIGNMENTS, IMPORTANCES, Nugget
from tests.chat_server.answers import Answer
from tests.score.judge.scripted import Script

SCORES = get_args(NuggetScore)
WORDS = {"v": "vital", "o": "okay", "s": "support", "p": "partial_support", "n": "not_support"}


def assigned(importances, supports):
    """`vvo`, `spn` -> nuggets."""
    return [
        Nugget(f"fact {n}", WORDS[importance], WORDS[support])
        for n, (importance, support) in enumerate(zip(importances, supports, strict=True))
    ]


@pytest.mark.parametrize(
    ("importances", "supports", "expected"),
    [
        # vital: s p n, okay: s p; in full 1 of 3 and 2 of 5; credit 1.5 of 3 and 3 of 5;
        # weighted 1.5 and half of 1.5, of 3 and half of 2; strictly 1 and half of 1
        pytest.param("vvvoo", "spnsp", [1 / 3, 2 / 5, 3 / 8, 1 / 2, 3 / 5, 9 / 16], id="all words"),
        pytest.param("vv", "ss", [1, 1, 1, 1, 1, 1], id="all there"),
        pytest.param("vo", "nn", [0, 0, 0, 0, 0, 0], id="nothing there"),
        pytest.param("oo", "sp", [None, 1 / 2, 1 / 2, None, 3 / 4, 3 / 4], id="nothing vital"),
        pytest.param("", "", [None] * 6, id="no nuggets"),
    ],
)
def test_nugget_scores_by_hand(importances, supports, expected):
    nuggets = assigned(importances, supports)
    assert [nugget_score(nuggets, score) for score in SCORES] == expected


@given(st.lists(st.tuples(st.sampled_from(IMPORTANCES), st.sampled_from(ASSIGNMENTS))))
def test_what_all_nugget_scores_keep(drawn):
    nuggets = [Nugget(str(n), *words) for n, words in enumerate(drawn)]
    scores = {score: nugget_score(nuggets, score) for score in SCORES}
    for which in ("vital", "all", "weighted"):
        strict, lenient = scores[f"strict_{which}"], scores[which]
        assert (strict is None) == (lenient is None)
        if strict is not None:
            assert 0 <= strict <= lenient <= 1
    if scores["vital"] is not None:
        low, high = sorted([scores["vital"], scores["all"]])
        assert low - 1e-12 <= scores["weighted"] <= high + 1e-12, "between the two"


@pytest.mark.parametrize(
    ("levels", "precision", "recall"),
    [
        pytest.param("fpn", 1 / 2, 1 / 2, id="each cites"),
        pytest.param("f-", 1.0, 1 / 2, id="a sentence without a citation"),
        pytest.param("--", None, 0.0, id="no citations"),
        pytest.param("", None, None, id="no sentences"),
    ],
)
def test_support_by_hand(levels, precision, recall):
    words = {"f": "full_support", "p": "partial_support", "n": "no_support", "-": None}
    rulings = [words[letter] for letter in levels]
    assert support_score(rulings, "precision") == precision
    assert support_score(rulings, "recall") == recall


def test_names_have_options():
    names = ["nugget_recall", *(f"nugget_recall(score={score})" for score in SCORES)]
    rubrics = [load_rubric(name) for name in names]
    assert [rubric.formula for rubric in rubrics] == ["strict_vital", *SCORES]
    assert rubrics[0] == rubrics[1], "the default has no options in its name"
    assert rubrics[3].name == "nugget_recall(score=strict_weighted)"
    assert len({rubric.fingerprint for rubric in rubrics[1:]}) == len(SCORES)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("nugget_recall(score=al)", "nugget_recall: score"),
        ("nugget_recall(skore=all)", "nugget_recall: options"),
        ("nugget_recall(score=all,score=vital)", "nugget_recall: score"),
        ("fluency(score=all)", "fluency: options"),
        ("nugget_recal(score=all)", "rubric: name"),
    ],
)
def test_names_with_mistakes(name, place, assert_message):
    with pytest.raises(OptionError) as raised:
        load_rubric(name)
    assert_message(raised.value, place)


ROW = {"question": "When?", "answer": "In 1932.", "reference": "It opened in 1932. It is red."}
NUGGETS = [
    {"text": "it opened in 1932", "importance": "vital"},
    {"text": "it is red", "importance": "vital"},
    {"text": "it is long", "importance": "okay"},
]
VARIANTS = [f"nugget_recall(score={score})" for score in SCORES[1:]]


def test_all_scores_of_an_answer_take_two_calls(judge_on):
    nuggets = (("it opened in 1932", "vital"), ("it is long", "okay"), ("it is red", "vital"))
    script = Script(nuggets=nuggets, support=lambda n: ASSIGNMENTS[n - 1])
    _, judge = judge_on(script, rubrics=["nugget_recall", *VARIANTS])
    scores = {name: verdict.score for name, verdict in judge.score(**ROW).items()}

    # the vital ones come first: support, partial support; then the okay one, not supported
    assert [*scores.values()] == [1 / 2, 1 / 3, 1 / 2.5, 1.5 / 2, 1.5 / 3, 1.5 / 2.5]
    assert script.kinds == ["nuggets", "nugget"]
    assert [usage.output_tokens > 0 for usage in _usages(judge, ROW)] == [True] + [False] * 5


def _usages(judge, row):
    return [verdict.usage for verdict in judge.score(**row).values()]


def test_given_nuggets_are_not_made_again(judge_on):
    script = Script(support=lambda n: "support" if n == 1 else "not_support")
    server, judge = judge_on(script, rubrics=["nugget_recall", "nugget_recall(score=all)"])
    row = {**ROW, "reference": None, "nuggets": NUGGETS}
    assert [verdict.score for verdict in judge.score(**row).values()] == [1 / 2, 1 / 3]
    assert script.kinds == ["nugget"], "no reference is needed, and none is read"
    prompt = server.received[0].body["messages"][1]["content"]
    assert "it is long" in prompt
    assert "okay" not in prompt, "importance is not shown"


def test_what_people_have_assigned_is_asked_of_nobody(judge_on):
    server, judge = judge_on(rubrics=["nugget_recall(score=vital)"])
    words = ("support", "partial_support", "support")
    nuggets = [{**nugget, "assignment": word} for nugget, word in zip(NUGGETS, words, strict=True)]
    (verdict,) = judge.score(question="When?", answer="In 1932.", nuggets=nuggets).values()
    assert verdict.score == 3 / 4
    assert not server.received


def test_no_given_nuggets_is_no_score(judge_on):
    server, judge = judge_on(rubrics=["nugget_recall"])
    (verdict,) = judge.score(**ROW, nuggets=[]).values()
    assert verdict.cause == "no_claims"
    assert not server.received


@pytest.mark.parametrize(
    "nugget",
    [
        {"text": "it is red"},
        {"text": "it is red", "importance": "high"},
        {"text": 3, "importance": "vital"},
        {"text": "a", "importance": "vital", "assignment": "yes"},
    ],
)
def test_nuggets_of_another_form(nugget, assert_message):
    judge = Judge(type="openai", model="m", base_url="http://127.0.0.1:9/v1", rubrics=["fluency"])
    with judge, pytest.raises(DataError) as caught:
        judge.score(**ROW, nuggets=[nugget])
    assert_message(caught.value)


def test_at_most_twenty_nuggets_are_kept_the_vital_ones_first(judge_on):
    nuggets = [(f"okay {n}", "okay") for n in range(15)] + [
        (f"vital {n}", "vital") for n in range(15)
    ]
    script = Script(
        nuggets=tuple(nuggets), support=lambda n: "support" if n <= 15 else "not_support"
    )
    _, judge = judge_on(script, rubrics=["nugget_recall", "nugget_recall(score=all)"])
    assert [verdict.score for verdict in judge.score(**ROW).values()] == [1.0, 15 / 20]


def fenced(text, label):
    return re.findall(rf"<{label}-[0-9a-f]{{12}}>\n(.*?)\n</", text, re.DOTALL)


class Support:
    """A passage has a statement in full, or only its first word."""

    def __call__(self, body, times_asked):
        text = body["messages"][1]["content"]
        (passage,) = fenced(text, "passage")
        statements = fenced(text, r"statement-\d+")
        return Answer(
            json.dumps(
                {
                    f"statement_{n}": {
                        "reason": "so it is",
                        "verdict": self.level(statement, passage),
                    }
                    for n, statement in enumerate(statements, start=1)
                }
            )
        )

    def level(self, statement, passage):
        if statement.rstrip(".") in passage:
            return "full_support"
        return "partial_support" if statement.split()[0] in passage else "no_support"


CITING = {
    "question": "What of the bridge?",
    # in full by [2], in part by [1], by a passage that is not there, without a citation, in full
    "answer": "It opened in 1932 [2][1]. It is blue [1]. It is old [7]. It is long. It is red [1].",
    "contexts": ["It is red.", "It opened in 1932."],
}


def test_support_of_sentences_by_what_they_cite_first(judge_on, assert_message):
    server, judge = judge_on(Support(), rubrics=["support_precision", "support_recall"])
    verdicts = judge.score(**CITING)
    assert verdicts["support_precision"].score == (1 + 0.5 + 0 + 1) / 4
    assert verdicts["support_recall"].score == (1 + 0.5 + 0 + 0 + 1) / 5
    assert len(server.received) == 2, "one for each passage, shared by both scores"
    lines = verdicts["support_recall"].reasoning.splitlines()
    assert_message(lines[2])
    assert_message(lines[3])


@pytest.mark.parametrize(
    ("answer", "causes", "recall"),
    [("It is red.", ("no_citations", "scored"), 0.0), ("", ("no_claims", "no_claims"), None)],
)
def test_without_citations(judge_on, answer, causes, recall):
    server, judge = judge_on(Support(), rubrics=["support_precision", "support_recall"])
    precise, complete = judge.score(**{**CITING, "answer": answer}).values()
    assert (precise.cause, complete.cause) == causes
    assert complete.score == recall
    assert not server.received


@pytest.mark.parametrize(
    ("counts", "cosine", "expected"),
    [
        pytest.param((1, 1, 1), 0.8, 0.575, id="0.75 x 2 / 4 + 0.25 x 0.8"),
        # ragas takes two texts without statements for agreement
        pytest.param((0, 0, 0), 0.8, 0.95, id="no statement: 0.75 x 1 + 0.25 x 0.8"),
        pytest.param((0, 1, 0), -0.4, 0.0, id="0.25 x -0.4, cut to 0"),
        pytest.param((1, 0, 0), 1.0000001, 1.0, id="a cosine above 1 by rounding, cut to 1"),
    ],
)
def test_correctness_of_ragas_by_hand(counts, cosine, expected):
    assert ragas_correctness(*counts, cosine=cosine) == pytest.approx(expected)
