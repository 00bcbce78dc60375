"""Refusals: whether a reply declines its question, by expressions of eight languages.

Languages are English, German, French, Spanish, Italian, Portuguese, Chinese and Japanese; their
expressions stand in `refusals.txt`. A reply in another language counts as an answer.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragbench.text.tokenize import sentences

_LENGTH = 400  # characters of a sentence that are searched
_SENTENCES = 6  # as many long sentences of a reply are read: a refusal stands at its start
_MARKS = " .,!?。，、！"
# What others said is no refusal of the reply: quotations become a single mark.
_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|「[^「」]*」|『[^『』]*』')
_ACCENTS = re.compile("[\u0300-\u036f]")
# Typographic apostrophes become plain ones; marks of Markdown and invisible characters are removed.
_CLEAN = str.maketrans(
    dict.fromkeys("\u2019\u02bc\uff07\u00b4", "'")
    | dict.fromkeys("*`#_~\uff0a\uff03\u200b\ufeff\u00ad")
)
# Nouns of documents become a letter, in a text that has no other upper case: those of retrieval
# (`the context`), other sources of answers (`the text`), and documents in general (`the manual`).
_NOUNS = {"strong": "S", "source": "D", "paper": "P"}
_LETTERS = {"strong": "S", "source": "[SD]", "paper": "[SDP]"}
_ABOUT = re.compile(r"(?:\w+,? ){0,4}?[SD]")  # the start of a sentence about the passages


class _Language(NamedTuple):
    """Expressions of one language, as text for `_compiled`."""

    cue: str
    nouns: str
    refuses: str
    about: str
    opening: str
    but: str
    offer: str
    aside: str


def is_refusal(sentence: str) -> bool:
    """Return True if a sentence refuses to answer, by its first 400 characters.

    Quotations in it do not count.

    Example:
        >>> is_refusal("The passages do not mention a date."), is_refusal("It opened in 1932.")
        (True, False)
        >>> is_refusal("Dazu kann ich nichts sagen."), is_refusal("Leider erst 1932.")
        (True, False)
    """
    return _find_refusal(_plain(sentence)) is not None


def refuses(reply: str) -> bool | None:
    """Return True if a reply declines its question, False if it answers, None if that is not sure.

    The first sentence decides, after sentences of politeness. It is not sure where a refusal is
    followed by what may be an answer (`I don't know the day, but it was in May`), and where a
    sentence about the passages is followed by a refusal. An answer that says afterwards what is
    missing is an answer; an empty reply declines.

    Example:
        >>> refuses("Sorry. I could not find the date."), refuses("It opened in 1932.")
        (True, False)
        >>> refuses("Paris. The texts do not say more."), refuses(" ")
        (False, True)
        >>> print(refuses("The context does not say. In general, it is Paris."))
        None
    """
    whole = _QUOTED.fullmatch(reply.strip())
    start = (whole.group()[1:-1] if whole else reply)[: _SENTENCES * _LENGTH]
    pieces = [piece for piece in map(_plain, sentences(start)) if piece.strip(_MARKS)]
    while len(pieces) > 1 and _is_polite(pieces[0]):
        del pieces[0]
    # some models write `None` for an answer that they do not have
    if not pieces or pieces[0].strip(_MARKS) == "none":
        return True
    refusal = _find_refusal(pieces[0])
    if refusal is None:
        # the cheaper question first: it seldom compiles expressions
        is_unsure = any(map(_find_refusal, pieces[1:])) and any(
            _ABOUT.match(_mark_nouns(pieces[0], language)) for language in _read()
        )
        return None if is_unsure else False
    language, remainder = refusal
    for text in (remainder, *pieces[1:]):
        # what follows may be an answer, unless it is an offer of help
        if _compiled(language.but).search(text) and not _compiled(language.offer).search(text):
            return None
    return True


def _plain(sentence: str) -> str:
    """Return the start of a sentence folded, in lower case, with `_` for each quotation."""
    text = _QUOTED.sub("\0", sentence[:_LENGTH].translate(_CLEAN))
    return _fold(text.casefold()).replace("\0", "_").strip()


def _fold(text: str) -> str:
    """Return a text without accents, wide characters, `ß` and traditional Chinese characters."""
    apart = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart)).translate(_simple())


# the same replies are read for scores, causes and the page
@functools.lru_cache(maxsize=4096)
def _find_refusal(plain: str) -> tuple[_Language, str] | None:
    """Return the language of the refusal in a plain sentence, and the text after it."""
    for language, claim in _claims(plain):
        for match in _matches(claim, language):
            clauses = re.split(rf";|{language.but}", claim[: match.start()])
            first = "" if len(clauses) == 1 else clauses[0].strip(_MARKS)
            if not first or _ABOUT.match(first):
                return language, claim[match.end() :]
    return None


def _claims(plain: str) -> Iterator[tuple[_Language, str]]:
    """Yield the languages whose cue is in a plain sentence, with the sentence for their search."""
    for language in _read():
        if _compiled(language.cue).search(plain):
            claim = _compiled(language.aside).sub("", _mark_nouns(plain, language))
            yield language, _without_politeness(claim, language) or claim


def _mark_nouns(plain: str, language: _Language) -> str:
    """Return a plain sentence with a letter for each noun of documents."""
    return _compiled(language.nouns).sub(lambda noun: _NOUNS[noun.lastgroup or ""], plain)


def _without_politeness(claim: str, language: _Language) -> str:
    """Return a claim without the words of politeness at its start and end."""
    opening = _compiled(language.opening)
    while match := opening.match(claim):
        claim = claim[match.end() :]
    start, comma, end = claim.rpartition(",")
    return start if comma and opening.fullmatch(end.strip(_MARKS)) else claim


def _matches(claim: str, language: _Language) -> Iterator[re.Match[str]]:
    """Yield the refusals in a claim; those about documents only if it names some."""
    names_documents = any(letter in claim for letter in _NOUNS.values())
    if names_documents and (match := _compiled(language.about).search(claim)):
        yield match
    if match := _compiled(language.refuses).search(claim):
        yield match


def _is_polite(plain: str) -> bool:
    """Return True if a plain sentence has words of politeness only, and no refusal among them."""
    for language in _read():
        if not _without_politeness(_mark_nouns(plain, language), language):
            return _find_refusal(plain) is None
    return False


@functools.cache
def _compiled(expression: str) -> re.Pattern[str]:
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
def _read() -> tuple[_Language, ...]:
    """Return the expressions of each language in their order."""
    head, *blocks = map(_fold, _blocks())
    shared = _definitions(head)
    return tuple(map(_language, blocks, itertools.repeat(shared)))


def _definitions(block: str) -> dict[str, str]:
    """Return the expressions of a block that have a name: its lines `name = expression`."""
    return dict(re.findall(r"^(\w+) = (.*)$", block, flags=re.MULTILINE))


def _language(block: str, shared: dict[str, str]) -> _Language:
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
    nouns = "|".join(f"(?P<{name}>{full(names[name])})" for name in _NOUNS)
    return _Language(
        cue=names["cue"],
        nouns=f"{edge}(?:{nouns}){edge}",
        refuses=join(general),
        about=join(about),
        opening=full(rf"\W*(?:<sorry>)(?:{separators})"),
        but=names["but"],
        offer=names["offer"],
        aside=full(names["aside"]),
    )
