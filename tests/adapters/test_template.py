"""Bodies with places: what is filled, and what stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.adapters.templates import check_template, fill, passage_values
from ragbench.errors import OptionError
from ragbench.types import Document


def test_a_place_alone_is_the_value_and_inside_a_text_it_is_text():
    template = ["{n}", {"key {n}": "n is {n}", "list": "{texts}", "other": "{unknown} {}"}, 3]

    assert fill(template, {"n": 5, "texts": ["a", "b"]}) == [
        5,
        {"key {n}": "n is 5", "list": ["a", "b"], "other": "{unknown} {}"},
        3,
    ]
    assert fill("x {texts}", {"texts": ["a", "b"]}) == "x a\n\nb"


@given(st.text())
def test_what_is_put_in_is_never_read_as_a_template(text):
    assert fill("<{a}>", {"a": text, "b": "no"}) == f"<{text}>"


def test_passages():
    values = passage_values([Document("1", "Io.", "Moon"), Document("2", "Rings.")])

    assert values["texts"] == ["Moon Io.", "Rings."]
    assert values["context"] == "Moon Io.\n\nRings."
    assert fill("see {contexts}", values) == "see Io.\n\nRings."


def test_a_template_asks_the_question():
    check_template({"a": ["b {question}"]}, ["question"], "http", "body")
    with pytest.raises(OptionError, match=r"http: body: found '\{qestion\}'.*'question'"):
        check_template({"a": "{qestion}"}, ["question"], "http", "body")
