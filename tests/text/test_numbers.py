"""Number tokens: formats of numbers by Python, readings by hand, and properties of any text."""

import re
import unicodedata
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragbench.text.numbers import read_token, split_numbers

# separators of groups and of decimals: English, German, French (three blanks), Swiss (two marks)
STYLES = [
    (",", "."),
    (".", ","),
    (" ", ","),
    ("\u00a0", ","),
    ("\u202f", ","),
    ("'", "."),
    ("’", "."),
]
UNGROUPED = [("", "."), ("", ",")]

digits = st.integers(0, 10**12)
decimals = st.text("0123456789", max_size=6)
signs = st.sampled_from(["", "-", "\u2212", "+"])
styles = st.sampled_from([*STYLES, *UNGROUPED])


def write(whole, fraction, style):
    """Return a number in a style; Python writes the groups."""
    groups, point = style
    text = f"{whole:,}".replace(",", groups)
    return f"{text}{point}{fraction}" if fraction else text


def token_of(text):
    """Return the token of a text that is one number token."""
    between, (token,) = split_numbers(text)
    assert not "".join(between).strip()
    return read_token(token)


@given(digits, decimals, styles, styles, signs)
def test_a_number_equals_itself_in_every_style(whole, fraction, style, other, sign):
    one, two = (token_of(sign + write(whole, fraction, s)) for s in (style, other))

    assert one.equals(two)
    assert two.equals(one)


@given(digits, decimals, styles, st.sampled_from(["", "-"]))
def test_a_value_of_a_number_is_that_of_python(whole, fraction, style, sign):
    (values,) = token_of(sign + write(whole, fraction, style)).values()

    assert Fraction(f"{sign}{whole}.{fraction or 0}") in values
    # a second reading moves the point by three places
    assert len(values) <= 2
    assert (
        len(
            {
                value * 1000**place
                for place, value in enumerate(sorted(values, key=abs, reverse=True))
            }
        )
        == 1
    )


@given(digits, st.text("0123456789", min_size=1, max_size=6), styles, styles, st.data())
def test_another_digit_sign_or_place_of_the_point_makes_another_number(
    whole, fraction, style, other, data
):
    assume(int(f"{whole}{fraction}"))
    text = write(whole, fraction, style)
    one = token_of(text)
    # with three decimals, groups and a decimal point look alike: two readings
    assume(all(len(part.parts[0]) == 1 for part in (one, token_of(write(whole, fraction, other)))))
    place = data.draw(st.sampled_from([m.start() for m in re.finditer("[0-9]", text)]))
    digit = data.draw(st.sampled_from([d for d in "0123456789" if d != text[place]]))
    changed = f"{text[:place]}{digit}{text[place + 1 :]}"
    if re.match("0[0-9]|0[., '’\u00a0\u202f][0-9]{3}(?![0-9])", changed):
        return  # not a number with groups: a zero before them

    assert not one.equals(token_of(changed))
    assert not one.equals(token_of(f"-{write(whole, fraction, other)}"))
    assert not one.equals(token_of(write(whole * 10 + int(fraction[0]), fraction[1:], other)))
    assert not one.equals(token_of(f"{write(whole, fraction, other)} %"))


@given(digits, decimals, styles)
def test_digits_of_other_scripts_are_digits(whole, fraction, style):
    text = write(whole, fraction, style)
    wide = text.translate({ord(c): ord(c) + 0xFEE0 for c in "0123456789.,"})
    arabic = text.translate({ord(str(d)): chr(0x660 + d) for d in range(10)})

    assert token_of(text).equals(token_of(wide))
    assert token_of(text).equals(token_of(arabic))


words = st.sampled_from(["costs", "(about)", "東京", "is", "at", "°C", "…", "no."])
numbers = st.builds(write, digits, decimals, styles)


@given(st.lists(words, min_size=1), numbers, st.lists(words, min_size=1))
def test_a_number_between_words_is_one_token(prefix, number, after):
    text = " ".join([*prefix, number, *after])

    assert [token.strip() for token in split_numbers(text).tokens] == split_numbers(number).tokens


@given(
    st.text(st.characters(max_codepoint=0xFFFF))
    | st.text("0123456789.,' -+/:%$€#eAkm年½²\u00a0\u2212\n", max_size=30)
)
def test_no_digit_and_no_character_is_lost(text):
    between, tokens = split_numbers(text)

    assert len(between) == len(tokens) + 1
    assert not any(re.search(r"\d", part) for part in between)
    assert all(read_token(token).equals(read_token(token)) for token in tokens)
    joined = "".join(part + token for part, token in zip(between, [*tokens, ""], strict=True))
    assert letters_of(joined) == letters_of(text)


def letters_of(text):
    """Return letters and decimal digits of a text, digits as ASCII."""
    composed = unicodedata.normalize("NFKC", text)
    letters = [c for c in composed if unicodedata.category(c) in ("Lu", "Ll", "Lo", "Nd")]
    return [str(unicodedata.decimal(c, c)) for c in letters]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It costs 5.", ["5"]),
        ("1. Paris 2. Rome", ["1", "2"]),
        ("5-10, COVID-19 and 2024-05-03", ["5-10", "COVID-19", "2024-05-03"]),
        ("(-5) x=-5 5 -5", ["-5", "-5", "5", "-5"]),
        ("at 10:30 from 192.168.0.1", ["10:30", "192.168.0.1"]),
        ("$1,500 or 1 500 € or -$5", ["$1,500", "1 500 €", "-$5"]),
        ("5 $10 notes", ["5", "$10"]),
        ("25°C 5km 120km/h 10-year-old", ["25", "5", "120", "10"]),
        ("5G 1st 1990s 10²", ["5G", "1st", "1990s", "10²"]),
        ("2 1/2 2½ ½", ["2 1/2", "2½", "½"]),
        ("C++ C# a+b # +", ["C++", "C#"]),
        ("3月-5月是-5度", ["3", "5", "-5"]),
        ("in 2020 500 people, 12 345 6", ["2020", "500", "12 345", "6"]),
        ("1e3 1.5e-3 1E+3", ["1e3", "1.5e-3", "1E+3"]),
        ("...5 .5 a.5", ["5", ".5", "a.5"]),
        ("no number", []),
        ("", []),
    ],
)
def test_tokens_worked_by_hand(text, tokens):
    assert split_numbers(text).tokens == tokens


@pytest.mark.parametrize(
    ("token", "values"),
    [
        ("1.234", [{Fraction(1234), Fraction(1234, 1000)}]),
        ("1.5e-3", [{Fraction(15, 10000)}]),
        ("1e3", [{1000}]),
        ("-1/2", [{Fraction(-1, 2)}]),
        ("2½", [{Fraction(5, 2)}]),
        ("5-10", [{5}, {10}]),
        ("33.5 %", [{Fraction(335, 10)}]),
        ("3rd", [{3}]),
        ("007", [{7}]),
        *((text, []) for text in ("1/0", "10:30", "2.1.0", "2024-05-03", "COVID-19", "1,00,000")),
    ],
)
def test_values_worked_by_hand(token, values):
    assert read_token(token).values() == values


def test_a_text_that_is_no_token_is_refused():
    with pytest.raises(ValueError, match="no number token: 'a b'"):
        read_token("a b")
