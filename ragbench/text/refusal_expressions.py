"""Expressions of refusals in eight languages, which stand in `refusals.txt`."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

_ACCENTS = re.compile("[\u0300-\u036f]")
# Nouns of documents become a letter, in a text that has no other upper case: those of retrieval
# (`the context`), other sources of answers (`the text`), and documents in general (`the manual`).
NOUNS = {"strong": "S", "source": "D", "paper": "P"}
_LETTERS = {"strong": "S", "source": "[SD]", "paper": "[SDP]"}


class RefusalLanguage(NamedTuple):
    """Expressions of one language, as text for `compiled`."""

    cue: str
    nouns: str
    refuses: str
    about: str
    opening: str
    but: str
    offer: str
    aside: str


def fold(text: str) -> str:
    """Return a text without accents, wide characters, `ß` and traditional Chinese characters."""
    apart = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart)).translate(_simple())


@functools.cache
def compiled(expression: str) -> re.Pattern[str]:
    """Return a compiled expression: few replies hold the cues of more than two languages."""
    return re.compile(expression)


@functools.cache
def _blocks() -> tuple[str, ...]:
    """Return the head of the file of expressions, and the lines of each language."""
    text = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8")
    return tuple(re.split(r"^\[\w+\]\n", text, flags=re.MULTILINE))


@functools.cache
def _simple() -> dict[int, str]:
    """Return the simple character of each traditional Chinese character that expressions have."""
    pairs = _definitions(_blocks()[0])["simple"].split()
    return {ord(pair[0]): pair[1] for pair in pairs}


@functools.cache
def refusal_languages() -> tuple[RefusalLanguage, ...]:
    """Return the expressions of each language in their order."""
    head, *blocks = map(fold, _blocks())
    shared = _definitions(head)
    return tuple(map(_language, blocks, itertools.repeat(shared)))


def _definitions(block: str) -> dict[str, str]:
    """Return the expressions of a block that have a name: its lines `name = expression`."""
    return dict(re.findall(r"^(\w+) = (.*)$", block, flags=re.MULTILINE))


def _language(block: str, shared: dict[str, str]) -> RefusalLanguage:
    """Return the expressions of a language, with the names in them replaced."""
    names = shared | _definitions(block)
    parts = names | _LETTERS

    def full(text: str) -> str:
        """Return a pattern without placeholders."""
        # the expression of a name may have names as well
        while (filled := re.sub(r"<(\w+)>", lambda name: parts[name[1]], text)) != text:
            text = filled
        return text

    def join(lines: str) -> str:
        """Return lines of patterns as one pattern."""
        unnamed = re.sub(r"^\w+ = .*$", "", lines, flags=re.MULTILINE)
        return full("|".join(filter(None, unnamed.splitlines())))

    general, about = block.split("about:\n")
    edge, separators = names["edge"], r"\W+(?:(?:<but>)\W+)?|<joint>|$"
    nouns = "|".join(f"(?P<{name}>{full(names[name])})" for name in NOUNS)
    return RefusalLanguage(
        cue=names["cue"],
        nouns=f"{edge}(?:{nouns}){edge}",
        refuses=join(general),
        about=join(about),
        opening=full(rf"\W*(?:<sorry>)(?:{separators})"),
        but=names["but"],
        offer=names["offer"],
        aside=full(names["aside"]),
    )
