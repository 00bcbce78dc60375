"""Markers that cite passages: which sentence they belong to, and what they name."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.score.judge.markers import in_brackets, lookalikes, marker_note, with_code
from ragbench.score.judge.sentences import cited_sentences, markers, without_markers
from ragbench.testing import ChatServer
from ragbench.text.tokenize import sentences
from tests.score.judge.test_long_answers import Limited


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("It opened [1]. It is red.", [("It opened.", {1}), ("It is red.", set())]),
        pytest.param("It opened. [1] It is red. [2]", [("It opened.", {1}), ("It is red.", {2})]),
        pytest.param("It opened.[1] It is red.[2]", [("It opened.", {1}), ("It is red.", {2})]),
        pytest.param("Both [1][3].", [("Both.", {1, 3})]),
        pytest.param("Both [1, 3; 5].", [("Both.", {1, 3, 5})]),
        pytest.param("Range [2-4].", [("Range.", {2, 3, 4})]),
        pytest.param("Note [^2].", [("Note.", {2})]),
        pytest.param("- a [1]\n- b\u30102\u3011", [("- a", {1}), ("- b", {2})]),
        pytest.param("It opened [doc1].", [("It opened.", {1})]),
        pytest.param("Both [Doc 1, doc_2; Source: 3].", [("Both.", {1, 2, 3})]),
        pytest.param("It opened [Source 1].", [("It opened.", {1})]),
        pytest.param("It opened [ref. 1 and 3].", [("It opened.", {1, 3})]),
        pytest.param("It opened [来源1].", [("It opened.", {1})]),
        pytest.param("It opened \u30102\u2020source\u3011.", [("It opened.", {2})]),
        pytest.param("It opened \u30102\u2020L1-L9\u3011.", [("It opened.", {2})]),
        pytest.param("It opened<cite>1, 2</cite>.", [("It opened.", {1, 2})]),
        pytest.param("It opened <cite>[doc1]</cite>.", [("It opened.", {1})]),
        pytest.param(
            'It opened. <cite id="2">It is red.</cite>',
            [("It opened.", set()), ("It is red.", {2})],
        ),
        pytest.param("It opened [1](https://a.org/b).", [("It opened.", {1})]),
        pytest.param("It is in `a[1]`.", [("It is in `a[1]`.", set())]),
        pytest.param("```\na[1]\n```\n[2]", [("```\na[1]\n```", {2})]),
        pytest.param("100 m², (1932) and (1).", [("100 m², (1932) and (1).", set())]),
        pytest.param("See [Figure 1], [a.pdf].", [("See [Figure 1], [a.pdf].", set())]),
        pytest.param("[1] opens it.", [("opens it.", {1})]),
        pytest.param("[2]", []),
        pytest.param("In [a] and [1932].", [("In [a] and [1932].", set())]),
        pytest.param("", []),
    ],
)
def test_sentences_and_what_they_cite(text, expected):
    assert [(text, set(cited)) for text, cited in cited_sentences(text)] == expected


def test_markers_and_text_are_parted():
    assert set(markers("a [1] b [3, 2]")) == {1, 2, 3}
    assert without_markers("a [1] b [3, 2].") == "a b."


@given(st.text(alphabet="ab. \n!?A", max_size=60))
def test_without_markers_sentences_are_what_they_are(text):
    assert [text for text, _ in cited_sentences(text)] == sentences(text)


@given(st.text(alphabet="ab. [1,2-]\u3010\u3011", max_size=60))
def test_what_sentences_cite_is_what_the_text_cites(text):
    cited_by_sentences = cited_sentences(text)
    assert set(markers(text)) >= {number for _, cited in cited_by_sentences for number in cited}
    assert all(sentence for sentence, _ in cited_by_sentences)


@pytest.mark.parametrize("blank", [" ", "\n", "\t "])
def test_an_answer_that_repeats_blanks_takes_no_longer_than_others(blank):
    # Bug: models repeat blanks; at each of 20,000 blanks the search began anew
    text = f"It is red [1].{blank * 100_000}It is old [2]."
    start = time.process_time()

    assert set(markers(text)) == {1, 2}
    assert without_markers(text).startswith("It is red.")
    assert [set(cited) for _, cited in cited_sentences(text)] == [{1}, {2}]
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("text", "forms", "expected"),
    [
        ("It opened (1).", "round", {1}),
        ("It opened (1, 3).", "round", {1, 3}),
        ("It opened (Source 2).", "all", {2}),
        ("It opened (1932).", "all", set()),
        ("(1) It opened.\n(2) It is red.", "all", set()),
        ("It opened\u00b9.", "round", set()),
        ("It opened\u00b9.", "superscript", {1}),
        ("It opened.\u00b9\u00b2", "superscript", {12}),
        ("It opened (1).", "superscript", set()),
        ("It has 100 m\u00b2, 5 cm\u00b3 and 10\u2076 stones.", "all", set()),
        ("It opened [1] (2)\u00b3.", "all", {1, 2, 3}),
    ],
)
def test_forms_that_an_option_names(text, forms, expected):
    assert set(markers(text, forms)) == expected


WRITERS = {
    "brackets": [
        "[{}]", "[doc{}]", "[Doc {}]", "[Source {}]", "[source: {}]", "[^{}]", "\u3010{}\u3011",
        "\u3010{}\u2020source\u3011", "<cite>{}</cite>", "<cite>[{}]</cite>", "[{}](https://a.org)",
    ],
    "round": ["({})", "(doc {})"],
}  # fmt: skip
WRITERS["superscript"] = ["{}"]
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
claims = st.lists(
    st.tuples(st.text("abcdefg ", min_size=4).map(str.strip), st.integers(0, 999)),
    min_size=1,
    max_size=4,
).filter(lambda parts: all(len(text) > 3 and " " not in text for text, _ in parts))


@given(claims, st.sampled_from(sorted(WRITERS)), st.data())
def test_every_form_is_read_where_it_is_named(parts, forms, data):
    writer = data.draw(st.sampled_from(WRITERS[forms]))
    text, plain = "", ""
    for word, number in parts:
        mark = writer.format(number)
        mark = mark.translate(RAISED) if forms == "superscript" else f" {mark}"
        text += f"The {word}{mark} stands. "
        plain += f"The {word} stands. "

    assert markers(text, forms) == [number for _, number in parts]
    assert without_markers(text, forms) == plain.strip()
    assert markers(text) == (markers(text, forms) if forms == "brackets" else [])


@given(st.text("a1 []().,-`²<cite>\n\u3010\u2020", max_size=80))
def test_code_holds_no_marker_and_stays_as_it_is(text):
    code = text.replace("`", "").replace("\n", " ")
    whole = f"See `x{code}`"

    assert markers(whole, "all") == []
    assert with_code(in_brackets(whole, "all")) == whole
    assert list(lookalikes(whole)) == []


@pytest.mark.parametrize(
    "text", ["[doc" + " " * 50_000, "`" * 50_000, "```" * 20_000, "(1" * 50_000, "<cite " * 20_000]
)
def test_markers_of_hostile_texts_take_linear_time(text):
    start = time.process_time()
    marker_note([text])
    cited_sentences(text, "all")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("answer", "options", "recall", "note"),
    [
        ("Tower 1 is 100 m high [doc1].", {}, 1.0, ""),
        ("Tower 1 is 100 m high (1).", {"citations": "round"}, 1.0, ""),
        ("Tower 1 is 100 m high (1).", {}, 0.0, "look like markers: (1) (option citations)"),
        ("Tower 1 is 100 m high.", {}, 0.0, ""),
    ],
)
def test_a_judge_tells_of_markers_that_it_does_not_read(
    answer, options, recall, note, assert_message
):
    row = {"question": "How high?", "answer": answer, "contexts": ["Tower 1 is 100 m high."]}
    with (
        ChatServer(Limited()) as server,
        rb.Judge("m", ["citation_recall"], base_url=server.url, **options) as judge,
    ):
        verdict = judge.score(**row)["citation_recall"]
        if note:
            with pytest.warns(match="no marker in 1 of 1") as caught:
                evaluation = rb.evaluate([row], metrics=[], judge=judge)
            assert_message(caught[0].message)
            assert any(text.endswith(note) for text in evaluation.notes)

    assert verdict.score == recall
    assert note in verdict.reasoning
    assert ("markers" in verdict.reasoning) is bool(note)
