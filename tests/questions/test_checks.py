"""The rules of candidates that need no model, and the table."""

# ruff: noqa: RUF001 - questions in other scripts

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.questions import checks
from ragbench.questions.base import QuestionCandidate, QuestionPassage, to_table
from ragbench.types import Document

texts = st.text(st.sampled_from("ab .\n"), min_size=1)


@given(texts, texts, texts)
def test_a_quote_is_a_slice_of_the_document_in_any_white_space(before, quote, after):
    text = before + quote + after
    spaced = "  ".join(quote.split())

    place = checks.find_quote(spaced, text)

    assert place in text
    assert place.split() == spaced.split()


@pytest.mark.parametrize(
    "quote", ["", " \n", "the Bridge", "bridge, the", "bridges", "the bridge opened"]
)
def test_other_words_case_or_punctuation_are_no_quote(quote):
    assert checks.find_quote(quote, "When the bridge was opened, all came.") == ""


@pytest.mark.parametrize(
    "question",
    [
        "What does the passage say about leave?",
        "According to the document, who pays the fee?",
        "Which rules are listed above for the pool?",
        "What is the penalty in this section?",
        "When did he write the first letter?",
        "When was it opened?",
        "Was steht laut dem Text über den Urlaub?",
        "Welche der oben genannten Gebühren gilt?",
        "Selon le texte, qui paie les frais ?",
        "Según el documento, ¿quién paga?",
        "Secondo il testo, chi paga la tassa?",
        "Segundo o texto, quem paga a taxa?",
        "根据上述内容，谁付费？",
        "上記の料金は誰が払いますか？",
        "?",
    ],
)
def test_questions_that_point_at_a_text(question):
    assert checks.pointing_words(question)


@pytest.mark.parametrize(
    "question",
    [
        "How many days of leave does a new employee of Galle have?",
        "What is ragbench?",
        "How long does it take to renew a Swiss passport?",
        "Who wrote the textbook of Titchmarsh?",
        "Wie hoch ist die Kurtaxe in Chur?",
        "Qui a fondé la ville de Berne ?",
        "¿Cuándo se abrió el puente de Aare?",
        "東京タワーの高さは何メートルですか？",
    ],
)
def test_questions_that_say_what_they_are_about(question):
    assert checks.pointing_words(question) == ""


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ("When was the bridge opened?", 4 / 5),
        ("Who pays?", 0.0),
        ("The bridge was opened in 1932", 1.0),
        ("", 0.0),
    ],
)
def test_copied_share(question, share):
    passage = "Nobody came. The bridge was opened in 1932. It rained."
    assert checks.copied_share(question, passage) == pytest.approx(share)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("25 days", True),
        ("It is 25 days a year.", True),
        ("30 days", False),
        ("25", True),  # a word of two, F1 2/3
        ("I do not know.", False),
        ("", False),
    ],
)
def test_an_answer_is_right_by_the_rule_of_explain(answer, expected):
    assert checks.is_match(answer, "25 days", "How much leave do people have?") is expected


def candidate(question, passage="Plan A costs 5 francs.", name="a"):
    return QuestionCandidate(QuestionPassage(Document(name, passage), passage), "fact", question)


def test_questions_on_two_things_in_the_same_words_are_two_questions():
    first = candidate("What is the monthly price of the family plan Alpha?", "Plan Alpha costs 5.")
    other = candidate("What is the monthly price of the family plan Beta?", "Plan Beta costs 7.")
    same = candidate("The family plan Alpha: what is the monthly price?", "Plan Alpha costs 5.")
    # as much alike, and both words are in both passages
    vague = candidate("What is the monthly price of the family plan Beta?", "Alpha or Beta: 7.")

    assert checks.check_repetition(other, [first]).checks == ("unique",)
    assert checks.check_repetition(first, []).checks == ("unique",)
    for repetition, questions in [(same, [other, first]), (vague, [first])]:
        done = checks.check_repetition(repetition, questions)
        assert (done.failure, done.reason) == ("unique", f"nearly '{first.question}'")


def test_a_short_quote_may_stand_in_one_document_only():
    documents = [Document("a", "It takes 25 days."), Document("b", "Or 25 days, or 3 weeks.")]
    passage = QuestionPassage(documents[0], documents[0].text)

    assert "other documents" in checks.quote_problem("25 days", passage, documents)
    assert checks.quote_problem("takes 25", passage, documents) == ""
    assert "word by word" in checks.quote_problem("", passage, documents)


def test_a_cell_is_no_formula():
    row = candidate("=HYPERLINK(1)", name="-a.md").check("quote", "")

    assert to_table([row]).splitlines()[1].split(",")[1:5] == ["'=HYPERLINK(1)", "", "'-a.md", ""]
