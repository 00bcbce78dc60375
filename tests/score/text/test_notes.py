"""Notes of metrics on texts for which they were not designed."""

import pytest

from ragbench.score.text.notation import text_notes

ENGLISH = ["The cat sat.", "a dog, in the U.S."]
JAPANESE, THAI, RUSSIAN = "東京です。", "ภาษาไทย", "Москва"


@pytest.mark.parametrize(
    "name",
    ["rouge1", "bleu", "chrf", "chrf++", "ter", "meteor", "token_f1", "exact_match", "contains"],
)
def test_nothing_is_said_about_english(name):
    assert text_notes(["a café", *ENGLISH * 6], [ENGLISH], [name]) == []


@pytest.mark.parametrize(
    ("name", "n_blind"),
    [
        ("rouge1(tokenize=rouge)", 3),
        ("bleu", 2),
        ("bleu(tokenize=intl)", 2),
        ("bleu.corpus", 2),
        ("chrf++", 2),
        ("chrf(word_order=1)", 2),
        ("ter", 2),
        ("token_f1(tokenize=none)", 2),
        ("contains(tokenize=13a)", 2),
    ],
)
def test_texts_that_a_metric_does_not_see_are_counted(name, n_blind):
    (note,) = text_notes([JAPANESE, "Tokyo", None, ""], [[THAI, RUSSIAN], ENGLISH], [name])
    family = name.partition("(")[0].partition(".")[0].replace("rouge1", "rouge")
    family = "chrf++" if family == "chrf" else family
    assert note.startswith(f"{family}: {n_blind} of 6 texts have ")


@pytest.mark.parametrize(
    "name",
    [
        "bleu(tokenize=char)",
        "bleu(tokenize=zh)",
        "chrf",
        "chrf++(word_order=0)",
        "ter(normalized=true,asian_support=true)",
        "exact_match",
        "exact_match(tokenize=none)",
        "token_f1",
        "contains",
        "rouge1",
        "rouge2(tokenize=unicode)",
    ],
)
def test_nothing_is_said_where_the_metric_sees_the_text(name):
    assert text_notes([JAPANESE, THAI], [[RUSSIAN]], [name]) == []


@pytest.mark.parametrize("name", ["exact_match", "token_f1", "contains"])
def test_answers_of_nothing_but_articles_are_counted(name, assert_message):
    # A choice of A, B and C: the SQuAD script has no word left to compare
    (note,) = text_notes(["A", "B", "a cat", ""], [["A"], ["the"]], [name])

    assert_message(note)
    assert text_notes(["A"], [["A"]], [f"{name}(articles=none)"]) == []


def test_a_note_is_given_once():
    names = ["bleu", "bleu2", "bleu.corpus", "bleu(smooth=floor)", "rougeL(tokenize=rouge)"]
    assert len(text_notes([JAPANESE], [], names)) == 2
