"""Number tokens: tokens with a digit, whose sign and inner punctuation count.

    1,500 = 1 500 = 1'500 = $1,500    group separators count in groups of three alone
    1.234 = 1,234 = 1234              a number with two readings (1234 and 1.234) equals both
    100,000 is not 100                a comma before three zeros is always that of a group
    .5 = 0.5 = 0,50; +5 = 5           zeros at the ends of a decimal and a plus change nothing
    25°C = 25 °C; 5km = 5 km          a unit is a word of its own
    1.5 is not 15, -5 not 5, 5 % not 5, 1/2 not 12, 2.1.0 not 210

Ranges, dates, times, versions and identifiers (`COVID-19`) are one token each. `C++` and `C#` are
number tokens, too, since their signs count. Dates and units are not converted.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from ragbench.text.languages import UNSPACED, CharacterTable, fold

_LETTER = rf"[^\W\d_{UNSPACED}]"
_ALNUM = rf"[^\W_{UNSPACED}]"
_VULGAR = "¼-¾⅐-⅞"
_CURRENCY = "[$¢-¥฿₠-⃀]"
# 1 500: one to three digits, then groups of three; no longer group may follow
_BLANKS = r"[1-9][0-9]{0,2}(?:[ ][0-9]{3})+(?![0-9])"
_FIGURE = rf"(?:{_BLANKS}|[0-9]+)(?:[.,'][0-9]+)*[{_VULGAR}]?"
# a limit, since a long row of figures would be read again from each of them
_FIGURES = rf"{_FIGURE}(?:[-/:]{_FIGURE}){{,9}}"
_PART = rf"(?:{_BLANKS}{_ALNUM}*|{_ALNUM}+)"
_END = rf"(?:[.,:/'-]{_LETTER}+)*(?![.,:/'-]?{_ALNUM})"
_ORDINAL = rf"(?i:st|nd|rd|th|er|ers|ern|[eè]re|[eè]me)(?!{_LETTER})"
_TOKEN = rf"""
    # no sign behind a word, or a number with its unit: COVID-19, 5-10, 3月-5月
    (?P<sign>
        (?<!{_ALNUM})(?<![0-9][{UNSPACED}'"”])(?<![])}}%°.+/-])
        [-+](?={_CURRENCY}?[ ]?[.]?[0-9])
    )?
    (?:(?P<currency>{_CURRENCY})[ ]?(?P<inner_sign>[-+])?(?=[.]?[0-9]))?
    (?P<body>
        [0-9]{{1,3}}[ ](?:[0-9]{{1,2}}/[0-9]{{1,3}}|[{_VULGAR}])(?!{_ALNUM})  # 2 1/2
        | (?:(?<!{_ALNUM})(?<![.])[.](?=[0-9]))?
        (?:
            # letters behind a number are words of their own if no digit follows: 5km, 10-year-old
            {_FIGURES}(?=(?!{_ORDINAL}){_LETTER}{{2}}{_ALNUM}*{_END})
            | {_FIGURES}{_LETTER}*(?=(?:-{_LETTER}{{2,}}|/{_LETTER}+|'s){_END})
            | {_PART}(?:[.,:']{_ALNUM}+|(?<=[0-9][eE])[+][0-9]+|[-/]{_PART})*
        )
    )
    (?P<name_sign>(?<={_LETTER})(?:[+][+]|[#])(?!{_ALNUM}))?
    (?P<percent>[ ]?[%‰])?
    (?:[ ]?(?P<currency_behind>{_CURRENCY})(?![ ]?[0-9]))?
"""
# Characters of which each number token has one: places at which a text is looked at.
_MARK = re.compile(rf"[\d{_VULGAR}+#$\xa2-\xa5฿₠-⃀\uff0b\uff03]")
_ASCII_MARK = re.compile("[0-9+#$]")
_HAS_FIGURE = re.compile(rf"[0-9{_VULGAR}]")
# Writings of ASCII characters that have no decomposition to them.
_PLAIN = str.maketrans(
    "\u2010\u2011\u2012\u2013\u2212\u2019\u02bc\u2044\u2215\u066b\u066c\u066a", "-----''//.'%"
)
# compatibility forms with another meaning: 10² is not 102
_OTHER_MEANING = ("<super>", "<sub>", "<fraction>")


@functools.cache
def _token() -> re.Pattern[str]:
    """Return the pattern of a number token."""
    # compiled on first use: that takes 25 ms, and most commands read no number
    return re.compile(_TOKEN, re.VERBOSE)


class SplitText(NamedTuple):
    """Text split at its number tokens: `between[0] tokens[0] between[1] tokens[1] ...`.

    Attributes:
        between: Parts of the text around the tokens, without invisible characters; one more than
            tokens.
        tokens: Number tokens as they are written; `read_token` reads them.
    """

    between: list[str]
    tokens: list[str]


def split_numbers(text: str) -> SplitText:
    """Split a text at its number tokens.

    Invisible characters are dropped, and letters with accents composed (NFC), if the text has a
    token beyond ASCII.

    Example:
        >>> split_numbers("It costs 1 500 €, or 5-10 % less in C++.").tokens
        ['1 500 €', '5-10 %', 'C++']
    """
    mark = _ASCII_MARK if text.isascii() else _MARK
    if not mark.search(text):
        return SplitText([text], [])
    plain = text
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_VISIBLE)
        plain = _write_plain(text)
    between, tokens, end = list[str](), list[str](), 0
    for start, stop in _find_tokens(plain, mark):
        between.append(text[end:start])
        tokens.append(text[start:stop])
        end = stop
    return SplitText([*between, text[end:]], tokens)


def _find_tokens(text: str, mark: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each number token of a text in plain characters."""
    end = 0
    while match := mark.search(text, end):
        place = match.start()
        # from the word around a mark on: ten times as fast as a match of all words of the text
        word = max(end, text.rfind(" ", end, place) + 1)
        token = next((t for t in _token().finditer(text, word) if t.end() > place), None)
        if token is None:
            return
        # marks before the next token are skipped, so that a line of marks is searched once
        end = token.start() if token.start() > place else token.end()
        if end == token.end() and (token["name_sign"] or _HAS_FIGURE.search(token["body"])):
            yield token.span()


def _write_plain(text: str) -> str:
    """Return a text with ASCII digits, signs, blanks and separators; its length stays."""
    return text if text.isascii() else text.translate(_PLAIN_FORMS)


def _plain(character: str) -> str:
    """Return the ASCII character, or currency sign, that a character of a number stands for."""
    if unicodedata.category(character) == "Nd":
        return str(unicodedata.decimal(character))
    if unicodedata.decomposition(character).startswith(_OTHER_MEANING):
        return character
    plain = unicodedata.normalize("NFKC", character.translate(_PLAIN))
    is_plain = len(plain) == 1 and (plain.isascii() or unicodedata.category(plain) == "Sc")
    return plain if is_plain else character


_PLAIN_FORMS = CharacterTable(_plain)
_VISIBLE = CharacterTable(lambda character: character if fold(ord(character)) else "")


class NumberToken(NamedTuple):
    """Readings of a number token; `equals` compares two tokens.

    Attributes:
        parts: Readings of each part, signs between parts included: `5-10 %` has the parts `5`, `-`,
            `10` and `%`. Most parts have one reading; `1.234` has `1.234` and `1234`.
        currency: Currency sign, or an empty text.
    """

    parts: tuple[frozenset[str], ...]
    currency: str

    def equals(self, other: NumberToken) -> bool:
        """Return True if each part has a reading in common with that of the other token.

        Currencies must be equal if both tokens have one.

        Example:
            >>> one, other = read_token("1.234"), read_token("1'234")
            >>> one.equals(other), one.equals(read_token("1.2340")), other.equals(read_token("1.2"))
            (True, True, False)
        """
        if self.currency and other.currency and self.currency != other.currency:
            return False
        pairs = zip(self.parts, other.parts, strict=False)
        is_equal = len(self.parts) == len(other.parts)
        for part, other_part in pairs:
            is_equal = is_equal and not part.isdisjoint(other_part)
        return is_equal

    @property
    def divisor(self) -> int:
        """100 for a number of percent, 1000 of per mille, else 1: the value by it is the share."""
        last = self.parts[-1]
        if "‰" in last:
            return 1000
        return 100 if "%" in last else 1

    def values(self) -> list[frozenset[Fraction]]:
        """Return the numbers of the token, each with the values of its readings; 5 % is 5.

        A range has two numbers. A fraction has one, as has a number with letters behind it (`3rd`).
        Dates, times, versions and identifiers have none, nor has a fraction of 0.

        Example:
            >>> [sorted(map(float, readings)) for readings in read_token("1.234-5").values()]
            [[1.234, 1234.0], [5.0]]
        """
        parts = [part for part in self.parts if part.isdisjoint("%‰")]
        signs = parts[1::2]
        if signs == [frozenset("/")]:
            numbers = [_fraction(*parts[::2])]
        elif len(parts) == 1 or signs == [frozenset("-")]:
            numbers = [_values(part) for part in parts[::2]]
        else:
            return []
        return numbers if all(numbers) else []


_SEPARATOR = re.compile("([-/:])")
# GPT-4 is GPT4
_HYPHEN_IN_NAME = rf"(?<={_LETTER})-(?=[0-9])|(?<=[0-9])-(?={_LETTER})"
_EXPONENT = "(?:e([-+]?[0-9]{1,3}))?"
_DECIMAL = re.compile(rf"(?=[.,]?[0-9])([0-9]*)(?:[.,]([0-9]+))?{_EXPONENT}")
_GROUPED = re.compile(
    rf"([1-9][0-9]{{0,2}}([., '])[0-9]{{3}}(?:\2[0-9]{{3}})*)(?:(?!\2)[.,]([0-9]+))?{_EXPONENT}"
)
_VERSION = re.compile("v(?=[0-9]+[.][0-9])")
_LONGEST_NUMBER = 4000  # digits: Python converts no longer texts to numbers
_FRACTION = re.compile("(-?)(?:([0-9]{1,9}) )?([0-9]{1,9})/([0-9]{1,9})")
_LEADING_NUMBER = rf"(-?)([0-9][0-9.,' ]*){_LETTER}*"


@functools.lru_cache(maxsize=10_000)  # numbers such as years repeat
def read_token(text: str) -> NumberToken:
    """Return the readings of a token of `split_numbers`; raise ValueError for another text.

    Example:
        >>> read_token("-$1.50"), read_token("C++")
        (NumberToken(parts=(frozenset({'-1.5'}),), currency='$'), \
    NumberToken(parts=(frozenset({'c++'}),), currency=''))
    """
    token = _token().fullmatch(_write_plain(text))
    if token is None:
        raise ValueError(f"no number token: {text!r}")
    body = re.sub(f"[{_VULGAR}]", _write_fraction, token["body"]).casefold().strip()
    parts = [_readings(body)]
    if not _DECIMAL.fullmatch(body):  # the sign in 1e-3 separates no parts
        parts = list(map(_readings, _SEPARATOR.split(re.sub(_HYPHEN_IN_NAME, "", body))))
    if token["name_sign"]:
        parts[-1] = frozenset(reading + token["name_sign"] for reading in parts[-1])
    if "-" in (token["sign"], token["inner_sign"]):
        parts[0] = frozenset(r if r == "0" else f"-{r}" for r in parts[0])
    if token["percent"]:
        parts.append(frozenset(token["percent"].strip()))
    currency = token["currency"] or token["currency_behind"] or ""
    return NumberToken(tuple(parts), currency)


def _write_fraction(vulgar: re.Match[str]) -> str:
    return " " + unicodedata.normalize("NFKC", vulgar.group()).replace("\N{FRACTION SLASH}", "/")


def _readings(part: str) -> frozenset[str]:
    """Return the readings of a part as plain decimals, or the part itself if it is no number."""
    readings = set()
    grouped = _GROUPED.fullmatch(part)
    # nobody writes 100 as 100,000: no decimal has a comma and three zeros
    is_decimal = not (grouped and part.endswith(",000"))
    if is_decimal and (decimal := _DECIMAL.fullmatch(part)):
        readings.add(_plain_decimal(decimal[1], decimal[2], decimal[3]))
    if grouped:
        whole = re.sub("[^0-9]", "", grouped[1])
        readings.add(_plain_decimal(whole, grouped[3], grouped[4]))
    return frozenset(readings or {_VERSION.sub("", part)})


def _plain_decimal(whole: str, fraction: str | None, power: str | None) -> str:
    """Return a number without exponent, and without zeros at the ends of a decimal."""
    if not fraction and not power:
        return whole
    digits = whole + (fraction or "")
    point = len(whole) + int(power or 0)
    digits = digits.rjust(len(digits) - min(point, 0), "0").ljust(point, "0")
    point = max(point, 0)
    digits, decimals = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
    return f"{digits}.{decimals}" if decimals else digits


def _values(readings: frozenset[str]) -> frozenset[Fraction]:
    """Return the values of a part; none for one that does not start with a number."""
    values = set()
    for reading in readings:
        number = re.fullmatch(_LEADING_NUMBER, reading)
        if number is None or len(reading) > _LONGEST_NUMBER:
            continue
        for decimal in _readings(number[2]):
            if re.fullmatch("[0-9]+([.][0-9]+)?", decimal):
                values.add(Fraction(number[1] + decimal))
    return frozenset(values)


def _fraction(over: frozenset[str], under: frozenset[str]) -> frozenset[Fraction]:
    """Return the value of `1/2` or `2 1/2` by its parts; none for other parts, and for `1/0`."""
    is_clear = len(over) == len(under) == 1
    match = _FRACTION.fullmatch(f"{min(over)}/{min(under)}") if is_clear else None
    if match is None or not int(match[4]):
        return frozenset()
    value = int(match[2] or 0) + Fraction(int(match[3]), int(match[4]))
    return frozenset([-value if match[1] else value])
