"""Secrets that are removed from texts in all their forms, and texts that stay."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragbench.errors import Problem
from ragbench.secrets import (
    Redactor,
    is_placeholder,
    mask_addresses,
    secret_parts,
    secrets_of_process,
)
from tests.cli.echo_server import forms_of

KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=8, max_size=30).filter(
    lambda key: not is_placeholder(key) and not secret_parts(key) and key == " ".join(key.split())
)


@given(KEYS)
@example("lit/BEARER+9f8a7b6c")
@example("pa/ss+w\"o'rd<é>&\\x")
@example("ключ/от+всего")
@example("!!//??++&&")
@example("0000000%")
def test_no_form_of_a_secret_stays(key):
    clean = Redactor({"KEY": key})

    for form, text in forms_of(key).items():
        cleaned = clean(f"401: {text}, so.")
        assert text not in cleaned, form
        assert cleaned == "401: ${KEY}, so.", form


@given(st.text(), KEYS)
def test_a_text_without_the_secret_stays_as_it_is(text, key):
    cleaned = Redactor({"KEY": key})(text)

    assert cleaned == text or any(form in text for form in forms_of(key).values())


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("a", "a banana", "a banana"),
        ("another", "another one", "another one"),
        ("1234567", "of 1234567 queries", "of 1234567 queries"),
        ("12345", "of 12345 queries", "of 12345 queries"),
        ("pw1234", "pw1234, but pw12345 and 0.pw1234x", "${S}, but pw12345 and 0.pw1234x"),
        ("pw123456", "xpw123456x", "x${S}x"),
        ("none", "none", "none"),
        ("application/json", "application/json", "application/json"),
        ("Bearer abcdefgh", "Bearer of abcdefgh", "Bearer of ${S}"),
        ("session=abcdefgh; a=b", "abcdefgh a=b", "${S} a=b"),
        ("Basic bWU6aHVudGVyMg==", "me hunter2 me:hunter2", "me ${S} ${S}"),
        ("bWU6aHVudGVyMg==", "me hunter2 me:hunter2", "me ${S} ${S}"),
        (" abcdefgh1\n", "bad key abcdefgh1.", "bad key ${S}."),
        ("me:hunter22", "me hunter22", "me ${S}"),
        ("llama3:instruct", "to instruct", "to instruct"),
        ("https://h/x", "a word at //h/x", "a word at //h/x"),
        ("ab%2Fcdefgh%3D", "ab/cdefgh=", "${S}"),
        ("host=db password=abcd12", "abcd12 of db", "${S} of db"),
        ("http://me:pw@h/?sig=ab", "at me:pw@h, ?sig=ab, pw, ab", "at ***@h, ?sig=***, pw, ab"),
    ],
)
def test_what_is_short_or_a_word_stays(value, text, expected):
    assert Redactor({"S": value})(text) == expected


def test_addresses_in_printed_texts():
    text = "http://u:p@h/a and https://h/?token=x&k=1#f, me@h.org, std::map<a:b@c>"

    expected = "http://***@h/a and https://h/?token=***&k=1#f, me@h.org, std::map<a:b@c>"
    assert mask_addresses(text) == expected


def test_keys_of_the_process():
    variables = {"A_TOKEN": "abcdef123456", "B_TOKEN": "onlyletterslong", "C": "abcdef123456"}

    assert secrets_of_process({**variables, "D_KEY": "/etc/passwd1234"}) == {
        "A_TOKEN": "abcdef123456",
        "D_KEY": "/etc/passwd1234",
    }


def test_the_caret_stays_under_what_is_meant():
    line = "x: {token: abcdefghij, k1: wrong}"
    problem = Problem("no number", "c.yaml", 1, line.index("wrong") + 1, source=line, width=5)

    printed = str(problem.cleaned(Redactor({"T": "abcdefghij"})))

    assert printed.splitlines()[1:] == [
        "   1 | x: {token: ${T}, k1: wrong}",
        "     |                      ^^^^^",
    ]


def test_rows_of_numbers_are_no_broken_secret():
    table = "q1,1234\n5678,0.5\n"

    assert Redactor({"PIN": "12345678", "PORT": "4567,q"})(table) == table
