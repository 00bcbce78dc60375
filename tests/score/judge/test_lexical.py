"""Word overlap: values worked by hand, what counts against a sentence, and what people say."""

import gzip
import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from ragbench.errors import OptionError
from ragbench.score.judge.base import Item
from ragbench.score.judge.lexical import Lexical, Sentence, Source
from ragbench.score.judge.rubric import load_rubric

PASSAGES = [
    "The harbour bridge was opened to traffic on 3 May 1932, after six years of work.",
    "Chief designer of the bridge was the engineer Anna Lindqvist. It cost 4,200,000 pounds.",
]
QUESTION = "When was the harbour bridge opened?"
MATCH = ["Norway beat Chile in the final. It was played in Lima in 1994, and was not shown on TV."]
SERVED = [load_rubric(name) for name in Lexical.served]
TEXTS = st.lists(st.sampled_from([*PASSAGES, QUESTION, "Not so.", "1931", "", "No."])).map(" ".join)
TERMS = st.lists(st.sampled_from("abcdef"), max_size=7)


def verdict(rubric, answer, contexts=PASSAGES, question=QUESTION, references=()):
    item = Item(question, answer, contexts, list(references))
    return Lexical().judge(item, load_rubric(rubric))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("It was opened on 3 May 1932.", 1.0, id="all words"),
        pytest.param("Bananas grow quickly.", 0.0, id="no word"),
        pytest.param(
            "It was opened on 3 May 1923.", 2 / 3 / 2, id="2 of 3, and a number not found"
        ),
        pytest.param("It cost 4200000 pounds.", 1.0, id="a number without its commas"),
        pytest.param("The engineer was Anna Lindqvist. Bananas grow.", 1 / 2, id="a mean"),
        pytest.param("The bridge delighted hungry pilots.", 1 / 4, id="1 of 4"),
        pytest.param("The bridge of 1932 was designed by Anna.", 1 - 1 / 8, id="of two passages"),
        pytest.param("I do not know. It was opened in 1932.", 1.0, id="a refusal says nothing"),
        pytest.param("1. It was opened in 1932.", 1.0, id="nor does the number of an item"),
        pytest.param("It was opened in 1932 [2].", 1.0, id="nor that of a citation"),
    ],
)
def test_context_overlap(answer, expected):
    assert verdict("context_overlap", answer).score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "expected", "why"),
    [
        ("Norway beat Chile in the final.", 1, "4 of 4 words found"),
        ("Chile beat Norway in the final.", 1 - 2 / 8, "2 in another order"),
        ("Norway did not beat Chile.", 1 / 2, "halved: negated on one side alone (beat)"),
        ("Norway didn\u2019t beat Chile.", 1 / 2, "negated on one side alone (beat)"),
        ("It was shown on TV.", 1 / 2, "negated on one side alone (shown)"),
        ("It was not shown on TV.", 1, "2 of 2 words found"),
        ("Not only did Norway beat Chile.", 1, "3 of 3 words found"),
        ("It was played in Lima in 1995.", 1 / 3, "halved: number not found (1995)"),
        ("It was played in Rome in 1994.", 1 / 3, "not rome; halved: name not found (rome)"),
        ("Rome was the place.", 0, "0 of 2 words found, not rome, place"),
        ("It was played in Rome in 1995.", 1 / 6, "number not found (1995), name not found (rome)"),
        ("In 1994 it was played in Lima.", 1 - 1 / 6, "1 in another order"),
    ],
)
def test_what_counts_against_a_sentence(answer, expected, why):
    found = verdict("context_overlap", answer, MATCH)
    assert found.score == pytest.approx(expected)
    assert why in found.reasoning
    if expected < 1:  # and against the same text as a reference
        assert verdict("reference_overlap", answer, references=MATCH).score < 1


def test_a_sentence_that_is_negated_or_swapped_is_worth_less_than_the_whole():
    said = "The northern bridge carries more trains than the southern bridge."
    swapped = "The southern bridge carries more trains than the northern bridge."
    negated = "The northern bridge does not carry more trains than the southern bridge."
    for rubric in ("context_overlap", "reference_overlap"):
        scores = [
            verdict(rubric, answer, [said, *PASSAGES], references=[said]).score
            for answer in (said, swapped, negated)
        ]
        assert scores[0] == 1.0
        assert max(scores[1:]) < 0.9


def in_order(left, right):
    """The longest common subsequence, by trying all."""
    for size in range(min(len(left), len(right)), 0, -1):
        if set(combinations(left, size)) & set(combinations(right, size)):
            return size
    return 0


@given(TERMS, TERMS)
def test_order_is_the_longest_common_subsequence(said, source):
    said = list(dict.fromkeys(said))
    if not said:
        return
    sentences = [Sentence("", tuple(terms), frozenset(), frozenset()) for terms in (said, source)]
    credit = Source(sentences[1:]).credit(sentences[0])
    shared = [term for term in said if term in source]
    assert credit.moved == len(shared) - in_order(shared, source)
    assert credit.score == pytest.approx((len(shared) - credit.moved / 2) / len(said))


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I don't know.",
        "I'm sorry, but I cannot answer that.",
        "The provided documents do not say when it was opened.",
        "There is not enough information in the context to answer.",
        "Unknown",
    ],
)
def test_an_answer_that_declines(answer):
    found = verdict("context_overlap", answer)
    assert (found.score, found.status, found.cause) == (None, "not_applicable", "no_claims")
    assert verdict("question_overlap", answer).score == 0.0
    assert verdict("reference_overlap", answer, references=["3 May 1932"]).score == 0.0


def test_declining_is_right_where_the_reference_declines():
    assert verdict("reference_overlap", "I don't know.", references=["Unanswerable."]).score == 1.0
    assert verdict("reference_overlap", "In 1932.", references=["Unanswerable."]).score == 0.0


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        pytest.param(QUESTION, "The harbour bridge was opened in 1932.", 1.0, id="all of it"),
        pytest.param(QUESTION, "In 1932.", 0.0, id="a right answer without a word of it"),
        pytest.param(QUESTION, "The harbour bridge is red.", 2 / 3, id="2 of 3 words"),
        pytest.param(QUESTION, QUESTION, 1.0, id="the question itself"),
        pytest.param("Who is it?", "It is Anna.", 2 / 3, id="stop words alone: who, is, it"),
    ],
)
def test_question_overlap(question, answer, expected):
    assert verdict("question_overlap", answer, question=question).score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "references", "expected"),
    [
        pytest.param("It was opened in 1932.", ["opened 1932"], 1.0, id="same content"),
        pytest.param("In 1932.", ["opened 1932"], 2 / 3, id="P 1, R 1/2"),
        pytest.param("Opened 1923.", ["opened 1932"], 0.25, id="P and R 1/2, halved: a number"),
        pytest.param("It is not approved.", ["It is approved."], 0.5, id="halved: negated"),
        pytest.param("1932", ["Anna", "in 1932"], 1.0, id="the best reference"),
        pytest.param("It is it.", ["It is it."], 1.0, id="stop words alone"),
        pytest.param("No.", ["No"], 1.0, id="no is a word where there is no other"),
        pytest.param("Bananas.", ["opened 1932"], 0.0, id="nothing in common"),
        pytest.param("", ["opened 1932"], 0.0, id="empty"),
        pytest.param("4200000", ["4,200,000"], 1.0, id="commas of a number"),
        pytest.param("Red. It opened in 1932.", ["Red."], 1 / 2, id="sentences by their words"),
    ],
)
def test_reference_overlap(answer, references, expected):
    found = verdict("reference_overlap", answer, references=references)
    assert found.score == pytest.approx(expected)


def test_reasoning_says_what_the_scores_are_made_of():
    found = verdict("context_overlap", "It was opened in 1932. Anna slept.")
    assert found.reasoning.splitlines() == [
        "sentence 1: 1.00: 2 of 2 words found: It was opened in 1932.",
        "sentence 2: 0.50: 1 of 2 words found, not slept: Anna slept.",
    ]
    found = verdict("reference_overlap", "opened 1923", references=["Anna", "opened 1932"])
    assert found.reasoning.splitlines() == [
        "reference 2 of 2: precision 0.25, recall 0.25",
        "sentence 1: 0.25: 1 of 2 words found, not 1923; halved: number not found (1923): "
        "opened 1923",
        "reference sentence 1: 0.25: 1 of 2 words found, not 1932; halved: number not found "
        "(1932): opened 1932",
    ]
    found = verdict("question_overlap", "The bridge opened.")
    assert found.reasoning == "the answer has 2 of 3 words of the question (bridg, open)"


@settings(deadline=None)  # three rubrics, twice: wall time says nothing on a busy machine
@given(TEXTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_any_verdict_is_a_score_or_says_why_not(answer, question, texts):
    judge, item = Lexical(), Item(question, answer, texts, texts)
    for rubric in SERVED:
        found = judge.judge(item, rubric)
        assert found == judge.judge(item, rubric)
        assert found.reasoning
        if found.score is None:
            assert found.cause in ("no_claims", "no_question")
        else:
            assert 0.0 <= found.score <= 1.0


def test_what_is_copied_scores_1():
    text = " ".join(PASSAGES)
    assert verdict("context_overlap", text).score == 1.0
    assert verdict("reference_overlap", text, references=[text]).score == 1.0


def test_other_languages():
    judge = Lexical(language="de")
    passage = ["Das Haus wurde 1932 gebaut."]
    item = Item("Wann?", "Die Häuser wurden gebaut.", passage)
    assert judge.judge(item, load_rubric("context_overlap")).score == 1.0
    assert judge.options == {"language": "de"}
    noun = Item("Wann?", "Es war ein Schloss, das gebaut wurde.", passage)
    assert judge.judge(noun, load_rubric("context_overlap")).score == 1 / 2, "a noun is no name"


def test_a_rubric_of_judges():
    with pytest.raises(OptionError, match="rubric: found 'faithfulness', allowed: context_overlap"):
        verdict("faithfulness", "It is red.")


def test_it_tells_some_hallucinated_answers_of_ragtruth(lent_data):
    """Human labels: far from perfect, and far from chance."""
    with gzip.open(lent_data / "ragtruth-qa" / "test.jsonl.gz", "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    scores = [verdict("context_overlap", row["response"], row["passages"]).score for row in rows]
    scored = np.array([score is not None for score in scores])
    sound = np.array([not row["labels"] for row in rows])
    assert scored.mean() > 0.95
    assert roc_auc_score(sound[scored], np.array(scores)[scored].astype(float)) > 0.73
