"""The rules of candidates that need no model, and the table."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.data.loaders.records import Records
from ragbench.questions import checks
from ragbench.questions.base import QuestionCandidate, QuestionPassage, to_table
from ragbench.types import Document

texts = st.text(st.sampled_from("ab .\n"), min_size=1)


@given(texts, texts, texts)
def test_a_quote_is_a_slice_of_the_document_in_any_white_space(text_before, quote, after):
    text = text_before + quote + after
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
    ("question", "problem"),
    [
        ("When was the old bridge over the Aare opened?", "one sentence has 8 of its 8 words"),
        ("When was the new bridge over the Aare opened?", ""),  # 7 of 8
        ("When was the bridge opened?", ""),  # 4 words are too few to tell
        ("", ""),
    ],
)
def test_a_copied_question(question, problem):
    text = "Nobody came. The old bridge over the Aare was opened in 1932. It rained."
    passage = QuestionPassage(Document("a", text), text)

    assert checks.copy_problem(question, passage) == problem


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
    first = candidate("What is the monthly price of the family plan Alpha?")
    other = candidate("What is the monthly price of the family plan Beta?")
    same = candidate("The family plan Alpha: what is the monthly price?")

    assert checks.KeptQuestions([first]).check(other).checks == ("unique",)
    assert checks.KeptQuestions([]).check(first).checks == ("unique",)
    done = checks.KeptQuestions([other, first]).check(same)
    assert (done.failure, done.reason) == ("unique", f"nearly '{first.question}'")


def test_a_question_with_the_quote_and_answer_of_another_one_repeats_it():
    gold = {"reference": "5 francs", "quote": "Plan A costs 5 francs."}
    first = replace(candidate("How much is plan A?"), **gold)
    again = replace(candidate("What must a customer pay for the cheapest offer?"), **gold)
    unanswerable = replace(again, quote="", reference="No answer")

    assert checks.KeptQuestions([first]).check(again).failure == "unique"
    assert checks.KeptQuestions([unanswerable]).check(unanswerable).failure == "unique"
    repeated = replace(unanswerable, question="Since when does plan A exist?")
    assert checks.KeptQuestions([unanswerable]).check(repeated).failure == ""


def test_a_short_quote_may_stand_in_one_document_only():
    documents = [Document("a", "It takes 25 days."), Document("b", "Or 25 days, or 3 weeks.")]
    passage = QuestionPassage(documents[0], documents[0].text)

    assert "other documents" in checks.quote_problem("25 days", passage, documents)
    assert checks.quote_problem("takes 25", passage, documents) == ""
    assert "word by word" in checks.quote_problem("", passage, documents)


def test_a_cell_is_no_formula_and_reads_back_as_it_was(tmp_path):
    row = candidate("=HYPERLINK(1)", name="-a.md").check("quote", "")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/-a.md").write_text("It is colder:\n- 5 degrees at night.")
    gold = replace(row, reference="-5 degrees", quote="- 5 degrees at night.")
    (tmp_path / "qa.csv").write_text(to_table([gold]))

    assert to_table([row]).splitlines()[1].split(",")[1:5] == ["'=HYPERLINK(1)", "", "'-a.md", ""]
    data = Records(path=tmp_path / "qa.csv", corpus=tmp_path / "docs").load()
    (query,) = data.queries
    assert query.text == "=HYPERLINK(1)"
    assert data.answers == {query.id: ["-5 degrees"]}
    assert data.qrels.to_dict() == {query.id: {"-a.md": 1}}


def test_a_candidate_that_failed_no_check_has_no_reason(assert_message):
    row = candidate("Why?").check("quote", "")
    table = to_table([row, row.check("unique", "nearly 'Why?'")], reasons=True)
    cells = [line.rpartition(",")[2] for line in table.splitlines()]
    assert_message(cells)
