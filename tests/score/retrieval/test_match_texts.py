"""`match: {level: text}`: by hand, against every pair compared plainly, and its cost."""

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.score.retrieval.passage_matching import GoldPassages, PassageWords, credit
from ragbench.text.tokenize import words

GOLD = "Io has hundreds of active volcanoes, the most of any moon."


def finds(gold, passage, overlap=0.8):
    return bool(GoldPassages({"g": PassageWords(gold)}, overlap).found_in(PassageWords(passage)))


def credited(gold, passages, grades=None, overlap=0.8):
    index = GoldPassages({name: PassageWords(text) for name, text in gold.items()}, overlap)
    return credit(map(PassageWords, passages), index, grades or dict.fromkeys(gold, 1)).documents


@pytest.mark.parametrize(
    ("passage", "expected"),
    [
        pytest.param(GOLD, True, id="the same text"),
        pytest.param("IO HAS hundreds of active volcanoes the most of any moon", True, id="form"),
        pytest.param(f"On moons. {GOLD} Europa has ice.", True, id="a longer chunk around it"),
        pytest.param("hundreds of active volcanoes", True, id="a shorter chunk out of it"),
        pytest.param("hundreds active volcanoes", False, id="3 of 11 words, not in a row"),
        pytest.param("moon any of most volcanoes active of hundreds has", True, id="9 of 11 words"),
        pytest.param("moon any of most volcanoes active of hundreds", False, id="8 of 11 words"),
        pytest.param("of any", True, id="a part, however short"),
        pytest.param("o", False, id="not a part of a word"),
        pytest.param("", False, id="an empty chunk"),
        pytest.param("?!", False, id="a chunk without a word"),
        pytest.param("Triton has geysers.", False, id="another text"),
    ],
)
def test_hand_worked(passage, expected):
    assert finds(GOLD, passage) is expected


def test_repeated_words_count_as_often_as_both_have_them():
    assert finds("no no no no no", "no x", overlap=0.2)
    assert not finds("no no no no no", "no x", overlap=0.21)


def test_an_empty_gold_passage_is_found_by_nothing():
    assert not finds("", "anything")
    assert not finds("", "")


def test_a_share_at_the_threshold_is_enough():
    # 11 of 20 words, whatever 0.55 * 20 is in floats
    gold = " ".join(f"w{n}" for n in range(20))

    assert finds(gold, "w0 w2 w4 w6 w8 w10 w12 w14 w16 w18 w19", overlap=0.55)


def test_scripts_without_spaces():
    assert finds("東京は日本の首都です。", "首都。東京は日本の首都です。人口は多い。")


@pytest.mark.parametrize(
    ("passages", "expected"),
    [
        pytest.param(["x", "alpha beta"], [None, "a"], id="the first that matches"),
        pytest.param(["alpha beta", "so alpha beta"], ["a", None], id="the second gains nothing"),
        pytest.param(["alpha beta gamma delta"], ["b"], id="one hit a rank: the better graded"),
        pytest.param(
            ["alpha beta gamma delta", "alpha beta"], ["b", "a"], id="the other stays open"
        ),
        pytest.param(["gamma delta", "alpha beta gamma delta"], ["b", "a"], id="what is open"),
    ],
)
def test_credits(passages, expected):
    gold = {"a": "alpha beta", "b": "gamma delta"}

    assert credited(gold, passages, {"a": 1, "b": 3}) == expected


def test_passages_that_match_several_are_counted():
    index = GoldPassages({"a": PassageWords("alpha beta"), "b": PassageWords("gamma delta")})
    both = PassageWords("alpha beta gamma delta")

    assert credit([both, both, both, None], index, {"a": 1, "b": 1}).several == 1


texts = st.lists(st.sampled_from(["no", "know", "the", "a.", "B", "c,"]), max_size=8).map(" ".join)
golds = st.dictionaries(st.sampled_from("ghij"), texts, max_size=4)


@settings(max_examples=30)
@given(golds, st.lists(texts, max_size=6), st.sampled_from([0.3, 0.5, 0.8, 1.0]))
def test_agrees_with_every_pair_compared(gold, passages, overlap):
    def matches(passage, text):
        have, want = words(passage), words(text)
        if not have or not want:
            return False
        windows = (want[i : i + len(have)] for i in range(len(want)))
        shared = sum((Counter(have) & Counter(want)).values())
        return have in list(windows) or shared / len(want) >= overlap

    grades = {name: place % 3 for place, name in enumerate(gold)}
    expected, still_open = [], set(gold)
    for passage in passages:
        candidates = [g for g in gold if g in still_open and matches(passage, gold[g])]
        best = max(candidates, key=lambda name: grades[name], default=None)
        still_open.discard(best)
        expected.append(best)

    assert credited(gold, passages, grades, overlap) == expected


@settings(max_examples=30)
@given(golds, st.lists(texts, max_size=6))
def test_each_gold_passage_is_credited_at_most_once(gold, passages):
    given_to = [name for name in credited(gold, passages) if name is not None]

    assert len(given_to) == len(set(given_to))


@pytest.mark.costly
def test_time_grows_with_the_length_of_the_texts():
    # Four times the words in four times the time, with room for noise; not in 16 times

    def seconds(n):
        gold = {f"g{i}": PassageWords(" ".join(f"w{i}x{j}" for j in range(n))) for i in range(5)}
        passages = [PassageWords(" ".join(f"w{i % 5}x{j}" for j in range(n))) for i in range(20)]
        best = float("inf")
        for _ in range(3):
            start = time.thread_time()
            credit(passages, GoldPassages(gold), dict.fromkeys(gold, 1))
            best = min(best, time.thread_time() - start)
        return best

    assert seconds(2000) < 10 * seconds(500)
