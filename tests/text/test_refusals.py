"""Refusals: the bars of the benchmark, decisions, and forms of a reply that change no decision."""

import importlib.util
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text import refusal_expressions, refusals
from ragbench.text.refusals import is_refusal, refuses
from ragbench.text.tokenize import sentences

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "refusals.py"
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "zh", "ja")


def _load():
    """Return the module of the benchmark, which is in no package."""
    spec = importlib.util.spec_from_file_location("refusals_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REPLIES = _load().read_replies()
TEXTS = st.sampled_from([reply.text for reply in REPLIES if reply.set == "build"])


@pytest.fixture(scope="module")
def benchmark():
    return _load()


def test_the_rule_meets_the_bars(benchmark):
    missed = [sentence for sentence, is_met in benchmark.list_bars(REPLIES) if not is_met]

    assert missed == []


@pytest.mark.parametrize("name", ["build", "measure", "fresh"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("refusal", [True, False])
def test_sets_have_refusals_and_answers_of_each_language(name, language, refusal):
    expected = (name, language, refusal)
    rows = [r for r in REPLIES if (r.set, r.language, r.refuses) == expected]

    assert len(rows) >= 15


def test_no_reply_is_in_two_sets():
    assert len({reply.text for reply in REPLIES}) == len(REPLIES)


def test_a_benchmark_that_misses_is_told(benchmark, assert_message):
    replies = []
    for name in ("measure", "fresh"):
        replies += [benchmark.Reply("en", name, True, "It opened in 1932.")] * 2
        replies += [benchmark.Reply("en", name, False, "I don't know.")]

    missed = [sentence for sentence, is_met in benchmark.list_bars(replies) if not is_met]

    assert len(missed) == 6
    assert_message(missed)


def test_the_cue_is_in_every_refusal(monkeypatch):
    # The cue only saves time: with one that every text has, the same replies are refusals
    texts = [reply.text for reply in REPLIES if reply.refuses]
    decisions = [is_refusal(text) for text in texts]
    languages = [language._replace(cue="") for language in refusals.refusal_languages()]
    monkeypatch.setattr(refusals, "refusal_languages", lambda: languages)
    monkeypatch.setattr(refusals, "_find_refusal", refusals._find_refusal.__wrapped__)  # no cache

    assert [is_refusal(text) for text in texts] == decisions


@given(TEXTS)
def test_the_form_of_letters_does_not_matter(text):
    # Capitals, separate accents, wide forms, typographic apostrophes and marks of Markdown
    wide = {ord(mark): chr(ord(mark) + 0xFEE0) for mark in ",!?():"}
    forms = {
        "capitals": text.upper(),
        "separate accents": unicodedata.normalize("NFD", text),
        "wide marks": text.translate(wide),
        "apostrophes": text.replace("'", "\u2019"),
        "bold": f"**{text}**",
        "emoji": f"{text} \N{CONFUSED FACE}",
    }
    # sentences end elsewhere where marks are wide, and where nothing is in lower case
    if len(sentences(text)) > 1 or any(mark in text for mark in '"“„«「『'):
        del forms["capitals"], forms["wide marks"]

    assert {name: refuses(form) for name, form in forms.items()} == dict.fromkeys(
        forms, refuses(text)
    )


@given(TEXTS)
def test_accents_and_apostrophes_may_lack(text):
    # Users type `nao sei` and `weiss ich nicht`
    apart = unicodedata.normalize("NFD", text.replace("ß", "ss"))
    plain = "".join(letter for letter in apart if not "\u0300" <= letter <= "\u036f")

    assert refuses(unicodedata.normalize("NFC", plain)) is refuses(text)


@given(TEXTS)
def test_traditional_characters_are_read_as_simple_ones(text):
    traditional = {ord(simple): chr(char) for char, simple in refusal_expressions._simple().items()}

    assert refuses(text.translate(traditional)) is refuses(text)


def _is_english_refusal(reply):
    """Return True for a sentence of the set `build` that the rule recognises as a refusal."""
    is_sentence = reply.text.endswith(".") and len(sentences(reply.text)) == 1
    return reply.set == "build" and reply.language == "en" and is_sentence and refuses(reply.text)


# each worker imports this module, and one draws from the 300 replies that the rule has read
REFUSALS = st.deferred(
    lambda: st.sampled_from([reply.text for reply in REPLIES if _is_english_refusal(reply)])
)


@given(
    REFUSALS,
    st.sampled_from(["Sorry.", "Thank you for your question.", "Good question!", "Hello!"]),
    st.sampled_from(["Please contact the museum.", "Can I help you with something else?"]),
)
def test_politeness_and_offers_around_a_refusal(refusal, opening, offer):
    assert refuses(f"{opening} {refusal} {offer}") is True


@given(REFUSALS)
def test_an_answer_before_or_after_a_refusal(refusal):
    assert refuses(f"It opened in 1932. {refusal}") is False
    assert refuses(f"{refusal} However, it probably opened in 1932.") is None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("I don't know.", True),
        ("I don\u2019t know.", True),
        ("The **provided passages** do not mention the mass. They tell of its colour.", True),
        ("Sorry. Unfortunately. I could not find it.", True),
        ('"I don\'t know."', True),
        ("None", True),
        ("", True),
        (" \n", True),
        ("...", True),
        ("I can't answer this. However, you may contact the museum.", True),
        ("It is red. The passages do not mention more.", False),
        ("It is red, but the passages do not mention more.", False),
        ("Unfortunately, the bridge was not opened until 1932.", False),
        ("He said: \u201cI don't know.\u201d", False),
        ("According to the documents, the device does not contain lead.", False),
        ("No.", False),
        ("Jeg ved det ikke.", False),  # Danish: no language of the rule
        ("I don't know the day, but it was in May.", None),
        ("The context does not say. In general, it takes a week.", None),
        ("The passages describe the bridge. No passage names a year.", None),
        ("Je ne sais pas, mais c'est probablement Paris.", None),
        ("dont know, sorry", True),
        ("cant find it in the docs", True),
        ("UNFORTUNATELY I DO NOT HAVE ACCESS TO THAT INFORMATION.", True),
        ("**Answer:** N/A", True),
        ("Ｎ／Ａ", True),
        ("I only have information about orders.", True),
        ("Das liegt ausserhalb dessen, was ich beantworten kann.", True),
        ("nao sei, desculpe", True),
        ("Não disponho dessa informação.", True),  # Portugal
        ("Não tenho essa informação.", True),  # Brazil
        ("資料庫中沒有這個型號的紀錄。", True),
        ("资料库中没有这个型号的记录。", True),
        ("Our sources of income do not include advertising.", False),
        ("The context menu does not appear on touch screens.", False),
        ("The contract does not mention a fee for cancellation.", False),
        ("If the answer is not in the documents, the assistant says so.", False),
        ("It was withdrawn because the article did not cite its sources.", False),
        ("It is unknown who built the tower.", False),
    ],
)
def test_decisions(reply, expected):
    assert refuses(reply) is expected


def test_a_reply_is_searched_at_its_start():
    # The expressions search 400 characters of a sentence, and 2,400 of a reply
    assert is_refusal("I don't know" + " and so on" * 10_000)
    assert not is_refusal("and so on " * 10_000 + "I don't know")
    assert refuses("The passages are old. " * 10_000 + "They do not say.") is False


@pytest.mark.parametrize(
    "piece",
    ["text not ", "ich kann das, ", "so very ", "gracias por ", "je ne le texte ", "资料没有我不"],
)
def test_a_search_takes_linear_time(piece):
    # Twice the text takes twice the time, where a part of a refusal repeats

    def seconds(length):
        text = (piece * 400)[:length]
        is_refusal(text)  # compiles
        times = []
        for _ in range(7):
            start = time.perf_counter()
            is_refusal(text)
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds(400) < 3.5 * seconds(200) + 0.001
