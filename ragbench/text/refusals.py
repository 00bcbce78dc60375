"""Refusals: whether a reply declines its question, by expressions of eight languages.

Languages are English, German, French, Spanish, Italian, Portuguese, Chinese and Japanese; their
expressions stand in `refusals.txt`. A reply in another language counts as an answer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ragbench.text.refusal_expressions import (
    NOUNS,
    RefusalLanguage,
    compiled,
    fold,
    refusal_languages,
)
from ragbench.text.tokenize import sentences

_LENGTH = 400  # characters of a sentence that are searched
_SENTENCES = 6  # as many long sentences of a reply are read: a refusal stands at its start
_MARKS = " .,!?。，、！"
# What others said is no refusal of the reply: quotations become a single mark.
_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|「[^「」]*」|『[^『』]*』')
# Typographic apostrophes become plain ones; marks of Markdown and invisible characters are removed.
_CLEAN = str.maketrans(
    dict.fromkeys("\u2019\u02bc\uff07\u00b4", "'")
    | dict.fromkeys("*`#_~\uff0a\uff03\u200b\ufeff\u00ad")
)
_ABOUT = re.compile(r"(?:\w+,? ){0,4}?[SD]")  # the start of a sentence about the passages


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
            _ABOUT.match(_mark_nouns(pieces[0], language)) for language in refusal_languages()
        )
        return None if is_unsure else False
    language, remainder = refusal
    for text in (remainder, *pieces[1:]):
        # what follows may be an answer, unless it is an offer of help
        if compiled(language.but).search(text) and not compiled(language.offer).search(text):
            return None
    return True


def _plain(sentence: str) -> str:
    """Return the start of a sentence folded, in lower case, with `_` for each quotation."""
    text = _QUOTED.sub("\0", sentence[:_LENGTH].translate(_CLEAN))
    return fold(text.casefold()).replace("\0", "_").strip()


# the same replies are read for scores, causes and the page
@functools.lru_cache(maxsize=4096)
def _find_refusal(plain: str) -> tuple[RefusalLanguage, str] | None:
    """Return the language of the refusal in a plain sentence, and the text after it."""
    for language, claim in _claims(plain):
        for match in _matches(claim, language):
            clauses = re.split(rf";|{language.but}", claim[: match.start()])
            first = "" if len(clauses) == 1 else clauses[0].strip(_MARKS)
            if not first or _ABOUT.match(first):
                return language, claim[match.end() :]
    return None


def _claims(plain: str) -> Iterator[tuple[RefusalLanguage, str]]:
    """Yield the languages whose cue is in a plain sentence, with the sentence for their search."""
    for language in refusal_languages():
        if compiled(language.cue).search(plain):
            claim = compiled(language.aside).sub("", _mark_nouns(plain, language))
            yield language, _without_politeness(claim, language) or claim


def _mark_nouns(plain: str, language: RefusalLanguage) -> str:
    """Return a plain sentence with a letter for each noun of documents."""
    return compiled(language.nouns).sub(lambda noun: NOUNS[noun.lastgroup or ""], plain)


def _without_politeness(claim: str, language: RefusalLanguage) -> str:
    """Return a claim without the words of politeness at its start and end."""
    opening = compiled(language.opening)
    while match := opening.match(claim):
        claim = claim[match.end() :]
    start, comma, end = claim.rpartition(",")
    return start if comma and opening.fullmatch(end.strip(_MARKS)) else claim


def _matches(claim: str, language: RefusalLanguage) -> Iterator[re.Match[str]]:
    """Yield the refusals in a claim; those about documents only if it names some."""
    names_documents = any(letter in claim for letter in NOUNS.values())
    if names_documents and (match := compiled(language.about).search(claim)):
        yield match
    if match := compiled(language.refuses).search(claim):
        yield match


def _is_polite(plain: str) -> bool:
    """Return True if a plain sentence has words of politeness only, and no refusal among them."""
    for language in refusal_languages():
        if not _without_politeness(_mark_nouns(plain, language), language):
            return _find_refusal(plain) is None
    return False
