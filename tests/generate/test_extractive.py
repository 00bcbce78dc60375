"""The extractive generator: what it picks, by hand, by property, and on real questions."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.generate.extractive import Extractive
from ragbench.registry import check_repeat
from ragbench.text.tokenize import normalize_answer, sentences
from ragbench.types import Document

BRIDGE = "The bridge is red. It was opened in 1932. Ships pass under the bridge."
TEXTS = st.lists(
    st.sampled_from(["The bridge opened.", "In 1932!", "It is red.", "東京です。", "", "The."]),
    max_size=5,
).map(" ".join)


def answer(question, *texts, **options):
    contexts = [Document(str(rank), text) for rank, text in enumerate(texts)]
    return Extractive(**options).generate(question, contexts).answer


@pytest.mark.parametrize(
    ("question", "texts", "n", "expected"),
    [
        pytest.param("When was it opened?", [BRIDGE], 1, "It was opened in 1932.", id="the word"),
        pytest.param(
            "Is it opened for ships?",
            [BRIDGE],
            2,
            "It was opened in 1932. Ships pass under the bridge.",
            id="in the order of the passage",
        ),
        pytest.param("opened?", ["It is red.", BRIDGE], 1, "It was opened in 1932.", id="second"),
        pytest.param("opened", ["Opened now.", "Opened then."], 1, "Opened now.", id="rank"),
        pytest.param(
            "red bridge",
            ["A red bridge stands. A red bridge stood. Bridge painters love it."],
            2,
            "A red bridge stands. A red bridge stood.",
            id="both words beat one, though repeated",
        ),
        pytest.param(
            "bridge",
            ["The bridge, red. The red bridge. Bridge traffic."],
            2,
            "The bridge, red. Bridge traffic.",
            id="what is said twice is chosen once",
        ),
        pytest.param("moon?", [BRIDGE], 1, "The bridge is red.", id="no word: the first"),
        pytest.param("red?", ["It is\nred."], 1, "It is red.", id="on one line"),
        pytest.param("red?", ["Red.", "Red."], 2, "Red.", id="the same passage twice"),
        pytest.param("why?", [], 2, "", id="no passages"),
        pytest.param("why?", ["", " "], 2, "", id="empty passages"),
    ],
)
def test_worked_by_hand(question, texts, n, expected):
    assert answer(question, *texts, sentences=n) == expected


@given(TEXTS, st.lists(TEXTS, max_size=4), st.integers(1, 4))
def test_an_answer_is_made_of_sentences_of_the_passages_in_order(question, texts, n):
    parts = sentences(answer(question, *texts, sentences=n))
    everything = iter(" ".join(sentence.split()) for text in texts for sentence in sentences(text))
    assert len(parts) <= n
    assert all(sentence in everything for sentence in parts)


@pytest.mark.parametrize("n", [0, 21, True, 2.0])
def test_bad_options_say_what_is_allowed(n, assert_message):
    with pytest.raises(OptionError) as caught:
        Extractive(sentences=n)
    assert_message(caught.value, "extractive: sentences")


def test_it_finds_answers_that_the_head_of_the_passage_lacks(lent_data):
    # XQuAD: the first two sentences have 57 % of the answers, these two 90 % and more
    with gzip.open(lent_data / "xquad-en" / "test.jsonl.gz", "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream][::4]

    def share(answers):
        gold = [[normalize_answer(a["text"]) for a in row["answers"]] for row in rows]
        texts = map(normalize_answer, answers)
        return sum(any(g in t for g in gs) for t, gs in zip(texts, gold, strict=True)) / len(rows)

    head = share(" ".join(sentences(row["context"])[:2]) for row in rows)
    ours = share(answer(row["question"], row["context"]) for row in rows)
    assert head < 0.65
    assert ours > 0.88


def test_it_has_one_answer_only(assert_message):
    check_repeat(Extractive(), 1)
    with pytest.raises(OptionError) as caught:
        check_repeat(Extractive(), 2)
    assert_message(caught.value, "extractive: repeat")
