"""Citation markers of answers in the forms that systems write, rewritten to `[1]`.

`[1]`, `[1, 2]`, `[1-3]`, `[doc1]`, `[Source 1]`, `【1†source】` and `<cite>` are read always; `(1)`
and superscripts only by option, since they may be years, list marks or powers. Code holds no
marker.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

# Forms of markers that are read besides those in square brackets, 【】 and `<cite>`.
CitationForms = Literal["brackets", "round", "superscript", "all"]

_BLANK = r"[ \t\u00a0]{0,3}"  # bounded: several unbounded ones in a row would be quadratic
_WORDS = (
    r"docs?|documents?|sources?|passages?|contexts?|chunks?|refs?|references?|citations?|snippets?"
    r"|results?|quellen?|dokumente?|fuentes?|fontes?|источник|来源|文档|資料|出典"
)
_NAME = rf"(?:(?:{_WORDS}){_BLANK}[.:#_-]?{_BLANK}|[\^#])?"
_TO = rf"{_BLANK}[\u2013-]{_BLANK}"
# † is followed by the kind of source, as OpenAI's file search writes it
_ENTRY = rf"{_NAME}\d{{1,3}}(?:{_TO}{_NAME}\d{{1,3}})?(?:\u2020[^\]\u3011,;\n]{{0,80}})?"
_LIST = rf"{_BLANK}{_ENTRY}(?:{_BLANK}(?:[,;&]|and|und|y|et){_BLANK}{_ENTRY})*{_BLANK}"
_CODE = r"(?P<code>```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<code>.*?(?:</code>|\Z)|`[^`\n]+`)"
_LINK = r"(?:\(https?://[^()\s]{1,2000}\))?"
_ALWAYS = (
    rf"\[(?P<square>{_LIST})\]{_LINK}",
    rf"\u3010(?P<lenticular>{_LIST})\u3011",
    rf"<cite>\[?(?P<cite>{_LIST})\]?</cite>",
    rf"<cite {_BLANK}\w{{1,20}}=[\"'](?P<attribute>{_LIST})[\"']>(?P<quote>[^<]*)</cite>",
)
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_OPTIONAL = {
    # a line that begins with (1) is an item of a list
    "round": rf"(?<=[^\s])[ \t]*\((?P<round>{_LIST})\)",
    # after a digit or one or two letters it is a power or a unit, as in 10² and m²
    "superscript": (
        rf"(?:(?<=[^\W\d_]{{3}})|(?<=[.!?,;:)\]\"'”’»]))(?P<superscript>[{_SUPERSCRIPTS}]{{1,3}}"
        rf"(?:[,˒⁻][{_SUPERSCRIPTS}]{{1,3}})*)(?![{_SUPERSCRIPTS}⁺])"
    ),
}
_PART = re.compile(rf"(\d{{1,3}})(?:{_TO}{_NAME}(\d{{1,3}}))?(?:\u2020[^,;]*)?", re.IGNORECASE)
_TO_DIGITS = str.maketrans(_SUPERSCRIPTS + "˒⁻", "0123456789,-")
# Signs of markers in code -> characters that no text holds, until the markers are read.
_SIGNS = "[]()<>\u3010\u3011" + _SUPERSCRIPTS
_HIDE = {ord(sign): 0xFDD0 + n for n, sign in enumerate(_SIGNS)}
_SHOW = {hidden: sign for sign, hidden in _HIDE.items()}

# Marker of a text of `in_brackets`, with the blanks before it; only from the first of several
# blanks: starting at each would make the search quadratic.
MARKER = re.compile(r"(?<!\s)\s*\[(\d{1,3}(?:(?:-|, )\d{1,3})*)\]")
_LOOKALIKE = re.compile(r"\{\d{1,3}\}|\[[^\[\]\n]{1,40}\]|\u3010[^\u3010\u3011\n]{1,40}\u3011")
_MOST_EXAMPLES = 3  # markers in a message


@functools.cache
def _pattern(forms: CitationForms) -> re.Pattern[str]:
    names = _OPTIONAL if forms == "all" else [forms]
    optional = []
    for name, pattern in _OPTIONAL.items():
        if name in names:
            optional.append(pattern)
    return re.compile("|".join([_CODE, *_ALWAYS, *optional]), re.IGNORECASE | re.DOTALL)


def in_brackets(text: str, forms: CitationForms = "brackets") -> str:
    """Return a text with all markers as `[1]` or `[1, 3-5]`, and hidden brackets in its code.

    `with_code` makes the code visible again.

    Example:
        >>> in_brackets("It is red [doc1]. It is old \u30102\u2020source\u3011.")
        'It is red [1]. It is old [2].'
    """
    return _pattern(forms).sub(_rewrite, text)


def _rewrite(match: re.Match[str]) -> str:
    if match["code"]:
        return match["code"].translate(_HIDE)
    kind = match.lastgroup or ""
    if kind == "quote":  # the marker of a quote belongs behind it
        return f"{match['quote']} {_listed(match['attribute'])}"
    # superscripts stand right behind a word
    blank = " " if kind in ("round", "superscript") else ""
    return blank + _listed(match[kind].translate(_TO_DIGITS))


def _listed(entries: str) -> str:
    parts = []
    for part in _PART.finditer(entries):
        parts.append("-".join(filter(None, part.groups())))
    return f"[{', '.join(parts)}]"


def with_code(text: str) -> str:
    """Return a text of `in_brackets` with the brackets of its code."""
    return text.translate(_SHOW)


def lookalikes(text: str, forms: CitationForms = "brackets") -> Iterator[str]:
    """Yield the parts of a text that look like markers and are none in these forms."""
    if forms != "all":
        for match in _pattern("all").finditer(text):
            if match.lastgroup in _OPTIONAL and match.lastgroup != forms:
                yield match[0].strip()
    yield from _LOOKALIKE.findall(MARKER.sub("", in_brackets(text, "all")))


def marker_note(texts: Iterable[str], forms: CitationForms = "brackets") -> str:
    """Return a note on texts that cite nothing but have parts that look like markers, or "".

    Example:
        >>> marker_note(["It is red (1).", "It is old (2)."])
        'no marker in 2 of 2 answers; these look like markers: (1), (2) (option citations)'
    """
    n_texts, strange = 0, list[list[str]]()
    for text in texts:
        n_texts += 1
        if not MARKER.search(in_brackets(text, forms)):
            strange.append(list(lookalikes(text, forms)))
    parts = list(dict.fromkeys(chain.from_iterable(strange)))
    if not parts:
        return ""
    listed = ", ".join(parts[:_MOST_EXAMPLES]) + (" ..." if len(parts) > _MOST_EXAMPLES else "")
    start = f"no marker in {len(strange)} of {n_texts} answers"
    return f"{start}; these look like markers: {listed} (option citations)"
