"""The one door through which texts go to files, to the terminal and to logs: without secrets.

What is looked for are the exact values of secrets, as they are and as servers and libraries write
them: percent-encoded, escaped for JSON, HTML or Python, in base64, and all in capitals or in small
letters. What is short stands in many
texts, and is no secret there: of values of 6 or 7 letters those are looked for that mix letters
with others, as whole words; of shorter ones none but in its own address. Lines may be broken
within a value of 12 letters or more. What somebody disguises on purpose, such as backwards or in
hexadecimal digits, is not found.
"""

from __future__ import annotations

import base64
import binascii
import functools
import html.entities
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote, urlsplit

from ragbench.secrets import (
    MASK,
    is_placeholder,
    is_secret_in_query,
    secrets_in_text,
    secrets_in_url,
)

SHORTEST = 6
"""Letters of a secret from which it is replaced in texts."""
_SHORTEST_ANYWHERE = 8  # of shorter ones, only whole words
_SHORTEST_BROKEN = 12  # rows of numbers, read as one, hold any shorter number
_SHORTEST_WORD = 8  # of a value of several words, such as `Bearer` and a key
_SCHEMES = frozenset(("negotiate", "aws4-hmac-sha256"))  # of the header Authorization
_MEDIA_TYPE = re.compile(r"(?:application|text|image|audio|multipart)/[\w.+*-]+")
_IN_BASE64 = re.compile(r"[\w+/=-]")
_RUN = re.compile("[A-Za-z0-9]+")
_BREAK = re.compile(r"=?(?:\r?\n[ \t]*|(?:\\+r)?\\+n)")
"""The end of a line within a value, as it is or escaped; that of quoted-printable has a `=`."""
_LOOK = 4096
"""Characters around a value in base64 that may belong to it."""


@dataclass(frozen=True, slots=True)
class _Needle:
    anchor: str
    """What stands in every text that holds it: looked for first, which is quick."""
    pattern: Callable[[], str]
    """How it is found; made and compiled for the first text that has the anchor."""
    shown: str
    in_base64: bool = False
    """Whether it is in base64: all of the word that it stands in goes then."""
    letters: str = ""
    """It as it is, to be found where lines are broken within it."""

    def replace_in(self, text: str) -> str:
        """Return the text without it."""
        found = _compiled(self.pattern())
        if self.in_base64:
            return _without_words(text, found, self.shown)
        return found.sub(lambda _: self.shown, text)


def _joined(text: str) -> str:
    """The text without ends of lines, then again without those of quoted-printable."""
    plain = text.replace("\\\\", "\\").replace("\\r", "").replace("\\n", "\n")
    texts = [plain]
    if "=\n" in plain or "=\r" in plain:
        texts.append(plain.replace("=\r\n", "\n").replace("=\n", "\n"))
    return "\n".join("".join(map(str.strip, each.split("\n"))) for each in texts)


def _without_broken(text: str, needle: _Needle) -> str:
    """Replace what stands on several lines, as mail and base64 are wrapped."""
    letters = f"(?:{_BREAK.pattern})?".join(map(re.escape, needle.letters))
    if needle.in_base64:
        return _without_words(text, _compiled(letters), needle.shown)
    return _compiled(letters).sub(lambda _: needle.shown, text)


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class Redactor:
    """Writes `${NAME}` wherever a text holds the value of a secret; compiled once.

    NAME is a variable, or the place of a secret in a config; `***` stands for a part of an address.

    Example:
        >>> clean = Redactor({"API_KEY": "sk-12/34", "PIN": "4"})
        >>> clean("401: bad key sk-12/34, 'sk-12%2F34', 4 times")
        "401: bad key ${API_KEY}, '${API_KEY}', 4 times"
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        shown: dict[str, str] = {}
        needles: list[_Needle] = []
        for name, value in secrets.items():
            parts = secrets_in_url(value)
            needles += _needles_of_address(value) if parts else ()
            for part in parts or _parts_of(value):
                if _is_replaced(part):
                    shown.setdefault(part, MASK if parts or '"' in name else f"${{{name}}}")
        for value in sorted(shown, key=len, reverse=True):  # the whole before its parts
            needles += _needles_of(value, shown[value])
            others = {value.upper(), value.lower()} - {value}
            needles += (_plain_needle(each, shown[value]) for each in sorted(others))
        self._needles = needles
        self._long = [each for each in needles if len(each.letters) >= _SHORTEST_BROKEN]
        self._anchors = [(each.anchor, each) for each in needles]

    def __call__(self, text: str) -> str:
        """Return the text without secrets."""
        # nearly all texts hold no secret, and are looked through but once
        for needle in [needle for anchor, needle in self._anchors if anchor in text]:
            text = needle.replace_in(text)
        if self._long and ("\n" in text or "\\n" in text):
            joined = _joined(text)
            for needle in self._long:
                if needle.letters in joined and needle.letters not in text:
                    text = _without_broken(text, needle)
        return text

    def __bool__(self) -> bool:
        return bool(self._needles)


def _is_replaced(value: str) -> bool:
    if len(value) < _SHORTEST_ANYWHERE:  # as long as words and numbers of texts: no such one
        is_mixed = re.search("[A-Za-z]", value) and re.search("[^A-Za-z]", value)
        return len(value) >= SHORTEST and bool(is_mixed)
    return not is_placeholder(value)


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text without secrets, as a `Redactor` of them does.

    Example:
        >>> redact("no host in http://me:hunter2@h/v1", {"URL": "http://me:hunter2@h/v1"})
        'no host in http://***@h/v1'
    """
    return redactor(secrets)(text)


def redactor(secrets: Mapping[str, str]) -> Redactor:
    """Return what removes some secrets; the same object for the same ones."""
    return _redactor(tuple(secrets.items()))


@functools.lru_cache(maxsize=64)
def _redactor(secrets: tuple[tuple[str, str], ...]) -> Redactor:
    return Redactor(dict(secrets))


def _parts_of(value: str) -> Iterator[str]:
    """A secret, and its long words: `Bearer` and a key, the lines of a certificate, of a cookie."""
    bare = value.strip()
    if _MEDIA_TYPE.fullmatch(bare):
        return
    yield value
    yield bare  # as servers read a header
    yield from secrets_in_text(value)
    words = re.split(r"[\s;,]+", bare)
    for word in words if len(words) > 1 else ():
        if len(word) >= _SHORTEST_WORD and word.lower() not in _SCHEMES and "-----" not in word:
            yield word
            yield from (p for p in word.strip('"').split("=") if len(p) >= _SHORTEST_WORD)
    decoded = _from_base64(words[-1]) if len(words) <= 2 else ""
    for pair, tells in ((decoded, ""), ("" if "://" in bare else bare, "[^A-Za-z]")):
        user, _, password = pair.partition(":")
        if user and re.search(tells, password) and re.fullmatch(r"[^\x00-\x20\x7f-\x9f]+", pair):
            yield pair
            yield password
    if "%" in bare and unquote(bare) != bare:
        yield unquote(bare)


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""


def _needles_of_address(value: str) -> Iterator[_Needle]:
    """What is secret in an address by its place, which may be short: `me:pw@`, `?key=ab`."""
    parts = urlsplit(value.strip())
    user = parts.netloc.rpartition("@")[0]
    if ":" in user:
        anchor = f"{user}@"
        yield _Needle(anchor, partial(re.escape, anchor), f"{MASK}@")
    for piece in re.split("[&;]", parts.query):
        name, equals, written = piece.partition("=")
        if equals and is_secret_in_query(unquote(name), written):
            yield _Needle(piece, partial(_in_query, piece), f"{name}={MASK}")


def _in_query(piece: str) -> str:
    return rf"(?<=[?&;]){re.escape(piece)}(?![\w%])"


def _plain_needle(value: str, shown: str) -> _Needle:
    return _Needle(_anchor(value), partial(_plain_pattern, value), shown, letters=value)


def _needles_of(value: str, shown: str) -> Iterator[_Needle]:
    yield _plain_needle(value, shown)
    data = value.encode("utf-8", "surrogateescape")
    for before, cut in ((0, 0), (1, 2), (2, 3)):
        # the letters that the secret alone decides, wherever in the encoded bytes it begins
        written = base64.b64encode(b"\0" * before + data).decode()
        core = written[cut : (before + len(data)) * 8 // 6]
        yield _Needle(_anchor(core), partial(_pattern, core, base64=True), shown, True, core)


def _anchor(value: str) -> str:
    """The longest run of letters and digits, which no encoding changes."""
    return max(_RUN.findall(value), key=len, default="")


def _plain_pattern(value: str) -> str:
    found = _pattern(value)
    if len(value) >= _SHORTEST_ANYWHERE:
        return found
    return rf"(?<![A-Za-z0-9]){found}(?![A-Za-z0-9])"


@functools.lru_cache(maxsize=4096)
def _pattern(value: str, *, base64: bool = False) -> str:
    """How a value is found, each of its letters as it is or in any encoding."""
    other = {"+": "-", "/": "_"} if base64 else {}
    pieces = []
    for piece in re.findall(r"\s+|.", value, re.DOTALL):
        if piece.isspace():
            pieces.append(r"(?:\s|\+|%(?:25)*(?:20|0[aAdD])|\\+[nrt])+")
        elif _RUN.fullmatch(piece):
            pieces.append(piece)
        else:
            ways = [*_ways(piece), *(re.escape(also) for also in other.get(piece, ""))]
            pieces.append(f"(?:{'|'.join(ways)})")
    return "".join(pieces)


def _ways(letter: str) -> Iterator[str]:
    """The encodings of one letter, as patterns; backslashes and `%25` may be doubled."""
    data = letter.encode("utf-8", "surrogateescape")
    yield from _bytes_of(data)
    code = ord(letter)
    yield rf"&(?:amp;)*#(?:0*{code}|[xX]0*{_hex(f'{code:x}')});"
    named = html.entities.codepoint2name.get(code) or {39: "apos", 47: "sol"}.get(code)
    if named:
        yield rf"&(?:amp;)*{named};"
    units = letter.encode("utf-16-be", "surrogatepass")
    yield "".join(rf"\\+u{_hex(units[i : i + 2].hex())}" for i in range(0, len(units), 2))
    if code > 127:
        yield rf"\\+U{_hex(f'{code:08x}')}"
        yield re.escape(data.decode("latin-1"))  # UTF-8 that a server took for Latin-1
    if 127 < code < 256:
        yield from _bytes_of(bytes([code]))
    # the letter itself comes last: `&amp;` begins with it, too
    yield r"\\+" if letter == "\\" else rf"\\*{re.escape(letter)}"


def _bytes_of(data: bytes) -> Iterator[str]:
    for start in ("%(?:25)*", r"\\+x"):
        yield "".join(f"{start}{_hex(f'{byte:02x}')}" for byte in data)


def _hex(digits: str) -> str:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits)


def _without_words(text: str, pattern: re.Pattern[str], shown: str) -> str:
    """Replace each match together with what it belongs to: all letters of base64 around it."""
    pieces, done = [], 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        while start > max(done, match.start() - _LOOK) and _IN_BASE64.match(text[start - 1]):
            start -= 1
        while end < min(len(text), match.end() + _LOOK) and _IN_BASE64.match(text[end]):
            end += 1
        pieces += [text[done:start], shown]
        done = end
    return "".join([*pieces, text[done:]])


_CREDENTIALS = re.compile(r"(?<=://)[^\s/@:'\"<>]*:[^\s/@'\"<>]+(?=@)")
_IN_QUERY = re.compile(r"(?<=[?&])([\w.%-]+)=([^\s&#'\"<>]+)")


def mask_addresses(text: str) -> str:
    """Write `***` for the credentials of any address, and for what its query has by its name.

    Example:
        >>> mask_addresses("GET http://me:pw@host/v1?api_key=ab&k=10")
        'GET http://***@host/v1?api_key=***&k=10'
    """
    if "://" not in text:
        return text

    def masked(match: re.Match[str]) -> str:
        name, value = match.groups()
        is_secret = is_secret_in_query(unquote(name), value, named=True)
        return f"{name}={MASK}" if is_secret else match[0]

    return _IN_QUERY.sub(masked, _CREDENTIALS.sub(MASK, text))


_noted: Mapping[str, str] = {}
"""The secrets that this process knows; replaced whole, since other threads may be printing."""


def note_secrets(secrets: Mapping[str, str]) -> None:
    """Remember secrets of a config that is read, for whatever is printed from then on."""
    global _noted
    _noted = {**_noted, **secrets}


def printed(text: str) -> str:
    """Return a text as it may be printed or logged: without secrets of any config that was read."""
    return mask_addresses(redactor(_noted)(text))
