"""Languages: their names and stop words, and the words of texts in any script.

Latin, Greek, Cyrillic, Arabic, Hebrew, Indic scripts and Hangul have spaces between their words.
Han, kana, Thai, Lao, Khmer and Burmese have none: there each character, with its marks, is a token.
Stop words are one list per language, `stopwords/<language>.txt`, or a file of the user.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest

# Scripts that are written without spaces, as the inside of a class: Thai, Lao, Myanmar, Khmer,
# kana, Han. Their digits and punctuation are left out.
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u109d"
    "\u1780-\u17d3\u17d7\u17dc\u17dd\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)

# Punctuation that separates words without a space: dashes and dots of Latin texts, commas and full
# stops of Arabic, Ethiopic, Tibetan, Burmese, Khmer and Indic texts. Other punctuation is removed,
# as in the SQuAD script, so that `e-mail` and `email` are equal; wide marks of East Asian texts
# separate words too, because their glyphs include the space.
_SEPARATORS = frozenset(
    "—―…\u0589\u05c3\u060c\u061b\u061f\u06d4\u0964\u0965\u0f0b\u0f0c\u0f0d\u0f0e\u0f14\u104a\u104b"
    "\u1361\u1362\u1363\u1364\u1365\u1366\u1367\u1368\u17d4\u17d5\u17d6"
)
# compatibility forms with another meaning: 10² is not 102, and ½ is not 12
_OTHER_MEANING = ("<super>", "<sub>", "<fraction>")
_TATWEEL = "\u0640"  # a line between two Arabic letters, without a meaning
_PICTURES = 0x2300  # symbols from here on are pictures (emoji, dingbats), below signs such as ©

_FOLDER = Path(__file__).with_name("stopwords")


def data_lines(name: str) -> Iterator[str]:
    """Yield the lines of a data file of this package, without comments, which begin with `#`.

    Lines have no line end; empty ones are yielded too.
    """
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    return (line for line in lines if not line.startswith("#"))


# Code -> name of the languages with a stemmer.
LANGUAGES: dict[str, str] = {}
for _line in data_lines("languages.txt"):
    _code, _, _name = _line.partition(" ")
    LANGUAGES[_code] = _name


def fold(code: int) -> str:
    """Return the form of a character that texts are compared by; empty for an invisible one.

    Full-width and other compatibility forms become the usual ones (NFKC), except superscripts,
    subscripts and fractions; case is folded (`ß` is `ss`). Joiners, soft hyphens and marks of
    direction, variation selectors and Arabic tatweel are removed. `code` is the code point.

    Example:
        >>> [fold(ord(character)) for character in "Ｔ２ẞ²"]
        ['t', '2', 'ss', '²']
    """
    character = chr(code)
    if unicodedata.category(character) == "Cf" or character == _TATWEEL or 0xFE00 <= code <= 0xFE0F:
        return ""
    if unicodedata.decomposition(character).startswith(_OTHER_MEANING):
        return character
    # twice: folding may leave a form that is not composed
    folded = unicodedata.normalize("NFKC", character).casefold()
    return unicodedata.normalize("NFKC", folded)


class CharacterTable(dict[int, str]):
    """Table for `str.translate` that computes the entry of a character when it is first met.

    A table of all characters would take longer than the texts of a short run. `write` returns the
    text that replaces a character.

    Example:
        >>> "tokyo".translate(CharacterTable(str.upper))
        'TOKYO'
    """

    def __init__(self, write: Callable[[str], str]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, code: int) -> str:
        self[code] = text = self._write(chr(code))
        return text


@cache
def drop_punctuation(character: str) -> str:
    """Return a character, or an empty text for ASCII punctuation or a mark of another script.

    Example:
        >>> "".join(map(drop_punctuation, "C++, «東京。»"))
        'C 東京'
    """
    is_mark = character in "$+<=>^`|~" or unicodedata.category(character)[0] == "P"
    return "" if is_mark else character


@cache
def _keep_words(character: str) -> str:
    category = unicodedata.category(character)
    is_picture = category in ("So", "Sk") and ord(character) >= _PICTURES
    return character if category[0] in "LNM" or is_picture else " "


def _folded(character: str, write: Callable[[str], str]) -> str:
    """Return a folded character, of which each part is written by `write`."""
    folded = fold(ord(character))
    text = "".join(map(write, folded))
    # width is that of the original character: folding makes wide ones narrow
    is_wide = unicodedata.east_asian_width(character) in "WF"
    return " " if not text and folded and (is_wide or character in _SEPARATORS) else text


_WITHOUT_PUNCTUATION = CharacterTable(partial(_folded, write=drop_punctuation))
_WORDS_ALONE = CharacterTable(partial(_folded, write=_keep_words))


def fold_answer(text: str) -> str:
    """Return a text folded by `fold`, without punctuation.

    White space stays; a wide mark or one that separates words becomes a space.

    Example:
        >>> fold_answer("「Ｔｏｋｙｏ」、Straße!").split()
        ['tokyo', 'strasse']
    """
    return _composed(text.translate(_WITHOUT_PUNCTUATION))


def _composed(text: str) -> str:
    # the capital İ folds to i and a combining dot, which the small i of a text does not have
    return unicodedata.normalize("NFC", text).replace("i\u0307", "i")


@cache
def marks() -> str:
    """Return all combining marks of letters, such as vowel signs of Thai.

    All are below U+10000.
    """
    signs = map(chr, range(0x300, 0x10000))
    return "".join(sign for sign in signs if unicodedata.category(sign) in ("Mn", "Mc"))


@cache
def _token() -> re.Pattern[str]:
    """Return a pattern of a character of an unspaced script with its marks, or a spaced word."""
    return re.compile(rf"[{UNSPACED}][{marks()}]*|[^\s{UNSPACED}]+")


def split_unspaced(text: str) -> list[str]:
    """Return the words of a text; scripts without spaces are split into characters.

    A character keeps its marks, such as Thai vowels. Case and punctuation stay.

    Example:
        >>> split_unspaced("iphone15的价格 ok"), split_unspaced("กินข้าว")
        (['iphone15', '的', '价', '格', 'ok'], ['กิ', 'น', 'ข้', 'า', 'ว'])
    """
    return text.split() if text.isascii() else _token().findall(text)


def unicode_words(text: str) -> list[str]:
    """Return the words of a text, folded: letters, digits and marks of any script.

    Scripts without spaces are split into characters; emoji are words. The words of an ASCII text
    are those of rouge-score.

    Example:
        >>> unicode_words("Ναι, 3.5 % у Кафé!"), unicode_words("東京タワー 👍")
        (['ναι', '3', '5', 'у', 'кафé'], ['東', '京', 'タ', 'ワ', 'ー', '👍'])
    """
    return split_unspaced(_composed(text.translate(_WORDS_ALONE)))


def is_latin(text: str) -> bool:
    """Return True if at least half of the words have a Latin letter.

    Numbers and emoji do not count; a text without any letter is Latin.

    Example:
        >>> is_latin("le café à Αθήνα"), is_latin("iPhone 15 的价格"), is_latin("1889")
        (True, False, True)
    """
    if text.isascii():
        return True
    balance = 0
    for word in unicode_words(text):
        if any(map(str.isalpha, word)):
            balance += 1 if any(map(_is_latin_letter, word)) else -1
    return balance >= 0


@cache
def _is_latin_letter(character: str) -> bool:
    return unicodedata.name(character, "").startswith("LATIN ")


def language_name(language: str) -> str:
    """Return the English name, in lower case, of a language given by code or name.

    An unknown language is returned in lower case: the caller checks it.

    Example:
        >>> language_name("de"), language_name("German")
        ('german', 'german')
    """
    word = language.strip().lower()
    return LANGUAGES.get(word, word)


def load(name: str) -> frozenset[str]:
    """Return a set of stop words, in lower case.

    The name is a language (`english` or `en`), `none` for the empty set, or the path of a file with
    one word per line, where lines that start with `#` are comments.

    Raises:
        OptionError: The name is neither a language with a list nor a file.
        DataError: The file cannot be read, or is no text in UTF-8.
    """
    if name == "none":
        return frozenset()
    if (language := language_name(name)) in built_in():
        return _read_built_in(_FOLDER / f"{language}.txt")
    path = Path(name)
    if path.is_file():
        return _read(path)
    allowed = f"{', '.join([*built_in(), 'none'])}, or the path of a file"
    raise OptionError("stopwords", "name", name, allowed, nearest(name, built_in()))


@functools.cache
def built_in() -> tuple[str, ...]:
    """Return the names of the lists that ragbench contains, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


def _read(path: Path) -> frozenset[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as UTF-8 text: {error}", file=path) from error
    words = set()
    for line in text.splitlines():
        word = unicodedata.normalize("NFC", line.strip().lower())
        if word and not word.startswith("#"):
            words.add(word)
    return frozenset(words)


_read_built_in = functools.cache(_read)
