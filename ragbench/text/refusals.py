"""Refusals: whether a reply declines its question, by expressions of eight languages.

Languages are English, German, French, Spanish, Italian, Portuguese, Chinese and Japanese; their
expressions stand in `refusals.txt`. A reply in another language counts as an answer.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

from ragbench.text.tokenize import sentences

_LENGTH = 400  # characters of a sentence that are searched: the expressions take quadratic time
_MARKS = " .,!?。，、！"
_SENTENCES = 6  # as many long sentences of a reply are read: a refusal stands at its start
# What others said is no refusal of the reply: quotations become a single mark.
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|『[^』]*』')
# Typographic apostrophes become plain ones, and marks of Markdown are removed.
_CLEAN = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'", **dict.fromkeys("*`#")})
_GAP = "[^.;。；]{0,60}?"
_LEAD = r"(?:\w+,? ){0,4}?"  # words before the noun of a sentence about the passages


class _Language(NamedTuple):
    """Expressions of one language, as `_read` returns them.

    Attributes:
        refuses: Text of the expression found in a sentence that refuses, for `_compiled`.
        source: Expression of the start of a sentence about the passages.
        sorry: Expression of a whole sentence of politeness.
        but: Expression found in what may be an answer after a refusal.
        offer: Expression found in advice or an offer of help.
        cited: Expression of a phrase that names the origin of an answer (`according to the text`).
    """

    refuses: str
    source: re.Pattern[str]
    sorry: re.Pattern[str]
    but: re.Pattern[str]
    offer: re.Pattern[str]
    cited: re.Pattern[str]


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
    _, languages = _read()
    whole = _QUOTED.fullmatch(reply.strip())
    start = (whole.group()[1:-1] if whole else reply)[: _SENTENCES * _LENGTH]
    pieces = [piece for piece in map(_plain, sentences(start)) if piece.strip(_MARKS)]
    while len(pieces) > 1 and any(p.sorry.fullmatch(pieces[0].strip(_MARKS)) for p in languages):
        del pieces[0]
    # some models write `None` for an answer that they do not have
    if not pieces or pieces[0].strip(_MARKS) == "none":
        return True
    refusal = _find_refusal(pieces[0])
    if refusal is None:
        about_sources = any(p.source.match(pieces[0]) for p in languages)
        is_unsure = about_sources and any(map(_find_refusal, pieces[1:]))
        return None if is_unsure else False
    language, remainder = refusal
    may_answer = any(
        language.but.search(text) and not language.offer.search(text)
        for text in (remainder, *pieces[1:])
    )
    return None if may_answer else True


def _plain(sentence: str) -> str:
    """Return the start of a sentence in lower case, composed, with `_` for each quotation."""
    text = unicodedata.normalize("NFC", sentence[:_LENGTH]).lower().translate(_CLEAN)
    return _QUOTED.sub("_", text).strip()


def _find_refusal(plain: str) -> tuple[_Language, str] | None:
    """Return the language of the refusal in a plain sentence, and the text after it; None if none.

    A clause before it that answers, as in `it opened in 1932, but the texts lack the day`, makes
    the sentence an answer.
    """
    cue, languages = _read()
    if not cue.search(plain):
        return None
    for language in languages:
        claim = language.cited.sub("", plain)
        if match := _compiled(language.refuses).search(claim):
            clauses = re.split(rf"[;；]|{language.but.pattern}", claim[: match.start()])
            first = "" if len(clauses) == 1 else clauses[0].strip(_MARKS)
            if not first or language.sorry.fullmatch(first) or language.source.match(first):
                return language, claim[match.end() :]
    return None


# Compiled at first use: 0.01 s for each language, and a short run may hold no cue of a refusal.
_compiled = functools.cache(re.compile)


@functools.cache
def _read() -> tuple[re.Pattern[str], tuple[_Language, ...]]:
    """Return the cue of all refusals, and the expressions of each language in their order."""
    text = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8")
    head, *blocks = re.split(r"^\[\w+\]\n", text, flags=re.MULTILINE)
    return re.compile(head.partition("cue = ")[2].strip()), tuple(map(_compile, blocks))


def _compile(block: str) -> _Language:
    """Return the expressions of the lines of a language, with the names in them replaced.

    A line `name = expression` defines `<name>`; the other lines are joined to `refuses`.
    """
    lines = [line for line in block.splitlines() if line and not line.startswith("#")]
    definitions = {line: match for line in lines if (match := re.match(r"(\w+) = (.*)", line))}
    parts = {"gap": _GAP} | {match[1]: match[2] for match in definitions.values()}

    def full(text: str) -> str:
        # the expression of a name may have names as well
        while (filled := re.sub(r"<(\w+)>", lambda name: parts[name[1]], text)) != text:
            text = filled
        return text

    return _Language(
        full("|".join(line for line in lines if line not in definitions)),
        re.compile(full(_LEAD + parts["source"])),
        *(re.compile(full(parts[name])) for name in ("sorry", "but", "offer", "cited")),
    )
