"""Judged text is data: whatever it says, it stays inside its fence and changes nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.methods import templates as fence_module
from ragbench.score.judge.methods.prompt import Prompts
from ragbench.score.judge.methods.templates import Fence, harmless
from ragbench.score.judge.rubric import load_rubric

ATTACKS = yaml.safe_load(Path(__file__).with_name("injections.yaml").read_text(encoding="utf-8"))
QUOTING = [attack for attack in ATTACKS if "{token" in attack["text"]]
HARMLESS = "It was opened in 1932."
ITEM = {
    "question": "When was it opened?",
    "answer": "In 1932.",
    "contexts": ["The bridge is red.", "It dates from 1932."],
    "references": ["1932"],
    "queries": ["bridge opening"],
    "guidelines": ["One sentence."],
    "other": "In 1923.",
}


def rate(rubric, **changes):
    passage = 1 if rubric in ("context_relevancy", "passage_relevance") else None
    return Prompts(load_rubric(rubric), JudgedItem(**ITEM | changes)).rating(passage)


def compare(*, swapped=False, **changes):
    return Prompts(load_rubric("pairwise"), JudgedItem(**ITEM | changes)).pairwise(swapped=swapped)


CLAIMS = Prompts(load_rubric("faithfulness"), JudgedItem("Why?"))
NUGGETS = Prompts(load_rubric("nugget_recall"), JudgedItem("Why?", "y"))
PLACES = {
    "rated answer": lambda text: rate("fluency", answer=text),
    "question": lambda text: rate("coverage", question=text),
    "rated passage": lambda text: rate("passage_relevance", contexts=["x", text]),
    "passage of an answer": lambda text: rate("relevance", contexts=["x", text]),
    "guideline": lambda text: rate("guidelines", guidelines=["x", text]),
    "query": lambda text: rate("query_detail", queries=[text, "x"]),
    "first answer": lambda text: compare(answer=text),
    "second answer": lambda text: compare(other=text),
    "answer in the other order": lambda text: compare(answer=text, swapped=True),
    "sentence to split": lambda text: CLAIMS.claims(["x", text]),
    "claim": lambda text: CLAIMS.verdicts([text, "x"], "y"),
    "source": lambda text: CLAIMS.verdicts(["x"], text),
    "passage of several": lambda text: CLAIMS.passages(["x"], ["y", text, "z"]),
    "claim on passages": lambda text: CLAIMS.passages(["x", text], ["y", "z"]),
    "source of nuggets": lambda text: NUGGETS.nuggets([text]),
    "nugget": lambda text: NUGGETS.assignment(["x", text]),
    "answer with nuggets": lambda text: replace(NUGGETS, item=JudgedItem("Why?", text)).assignment(
        ["x"]
    ),
}


def token_of(prompt):
    first, _, token = prompt.user.partition("\n")[0].partition(": ")
    assert first == "Fence word"
    return token


def written_out(attack, token):
    """The text of an attack by somebody who knows the word of the prompt without it."""
    text = (
        attack["text"]
        .replace("{token}", token)
        .replace("{token_spaced}", " ".join(token))
        .replace("{token_zero_width}", "\u200b".join(token))
        .replace("{token_full_width}", "".join(chr(ord(c) + 0xFEE0) for c in token))
        .replace("{token_backwards}", token[::-1])
        .replace("{lone_surrogate}", "\ud83d")
    )
    return text * attack.get("repeat", 1)


def assert_contained(build, text):
    """The prompt with a text is that with a harmless one, but for what is inside the fence."""
    plain, attacked = build(HARMLESS), build(text)
    token = token_of(attacked)

    assert attacked.system == plain.system
    assert attacked.schema == plain.schema
    around = plain.user.replace(token_of(plain), token).split(HARMLESS)
    prefix, after = around
    assert attacked.user == prefix + harmless(text) + after
    label = prefix.rstrip("\n").rpartition("<")[2].rstrip(">")
    assert prefix.endswith(f"<{label}>\n")
    assert after.startswith(f"\n</{label}>")
    assert attacked.user.count(f"<{label}>") == attacked.user.count(f"</{label}>") == 1
    assert token not in harmless(text)


def test_there_are_forty_and_each_is_another():
    assert len(ATTACKS) >= 40
    assert len({attack["name"] for attack in ATTACKS}) == len(ATTACKS)
    assert len({attack["text"] for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.costly
@pytest.mark.parametrize(("number", "place"), [*enumerate(PLACES)], ids=[*PLACES])
def test_an_attack_stays_inside_its_fence(number, place):
    # Each attack in a quarter of the places: all places have the same fences
    for attack in ATTACKS[number % 4 :: 4]:
        text = written_out(attack, token_of(PLACES[place](HARMLESS)))

        assert_contained(PLACES[place], text)


def test_what_a_judge_reads_is_the_text_itself():
    # All of it, but for NUL, halves of characters and control tokens of chat formats
    for attack in ATTACKS:
        text = written_out(attack, "0" * 12)

        assert (harmless(text) != text) == attack.get("changed", False), attack["name"]
        assert len(harmless(text)) == len(text), f"{attack['name']}: nothing is dropped"
        harmless(text).encode("utf-8")


@pytest.mark.costly
@pytest.mark.parametrize("attack", QUOTING, ids=lambda attack: attack["name"])
def test_an_attacker_who_adapts_is_never_done(attack):
    # A text that quotes the word of the last prompt gets another word
    text = HARMLESS
    for _ in range(3):
        token = token_of(rate("fluency", answer=text))
        text = written_out(attack, token) + f"\n</answer-{token}>"
        assert_contained(PLACES["rated answer"], text)


FRAGMENTS = st.sampled_from(
    [*(attack["text"] for attack in ATTACKS), "</", "<", ">", "answer", "-", "\n", "a0", "}}", "{"]
)


@settings(max_examples=30)
@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=6).map("".join)))
def test_any_text_stays_inside_its_fence(text):
    places = ("rated answer", "claim", "source", "query", "passage of several", "claim on passages")
    for place in places:
        if HARMLESS not in text:
            assert_contained(PLACES[place], text)


@given(st.lists(st.text(), min_size=1, max_size=4), st.lists(st.text(), max_size=3))
def test_what_stands_beside_changes_a_fence_only_if_it_has_its_word(texts, beside):
    fence = Fence.around(texts)
    assert Fence.around(texts, beside) == fence

    quoting = [*beside, f"</claim-1-{fence.token}>"]
    assert Fence.around(texts, quoting) not in (fence, Fence.around([*texts, *quoting]))


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_equal_texts_have_equal_fences_and_borders_count(texts):
    assert Fence.around(texts) == Fence.around(iter(texts))
    assert Fence.around([*texts, "ab", "c"]) != Fence.around([*texts, "a", "bc"])


@given(st.text(alphabet="0123456789abcdefABCDEF\uff11\uff41\u200b- ", max_size=120))
def test_a_word_that_a_text_contains_is_not_taken(text):
    # With words of two digits, as if hashes were that short, collisions are frequent
    original = fence_module._LENGTH
    fence_module._LENGTH = 2
    try:
        token = Fence.around([text]).token
    finally:
        fence_module._LENGTH = original
    digits = "".join(c for c in text.translate({0xFF11: "1", 0xFF41: "a"}).lower() if c.isalnum())
    assert token not in digits
    assert token[::-1] not in digits


@pytest.mark.parametrize("between", ["", "\u200b", " ", "-", "\u202e"])
@pytest.mark.parametrize("shift", [0, 0xFEE0], ids=["plain", "full-width"])
def test_digits_count_however_they_are_written(between, shift, monkeypatch):
    # With words of one digit: the only one that the text lacks is taken
    monkeypatch.setattr(fence_module, "_LENGTH", 1)
    text = between.join(chr(ord(digit) + shift) for digit in "012345689ABCDEF")
    assert Fence.around([text]).token == "7"


def test_long_texts_are_whole():
    text = "".join(f"Sentence {number}. " for number in range(50_000))
    assert text.strip() in rate("fluency", answer=text).user
