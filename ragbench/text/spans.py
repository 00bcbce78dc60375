"""Where the words, sentences and tokens of a text stand."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from ragbench.errors import MissingExtra, OptionError
from ragbench.text.sentences import sentences
from ragbench.text.tokenize import UNSPACED

Span = tuple[int, int]
"""Start and end in a text, in characters; the end is behind the last one."""

# a letter of a script that parts words by no space is a word; marks that follow it stay with it
_WORD = re.compile(rf"[{UNSPACED}][^\w\s]*|[^\s{UNSPACED}]+")
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")


def word_spans(text: str) -> list[Span]:
    """Return the places of what stands between spaces, and of each letter of unspaced scripts.

    Example:
        >>> word_spans("Io, a moon")
        [(0, 3), (4, 5), (6, 10)]
        >>> len(word_spans("東京都 is Tokyo"))
        5
    """
    return [match.span() for match in _WORD.finditer(text)]


def token_spans(text: str) -> list[Span]:
    """Return the places of words and punctuation marks: tokens that depend on no model.

    Example:
        >>> text = "Io's 3.6 Mm."
        >>> [text[start:end] for start, end in token_spans(text)]
        ['Io', "'", 's', '3', '.', '6', 'Mm', '.']
    """
    return [match.span() for match in _TOKEN.finditer(text)]


def sentence_spans(text: str) -> list[Span]:
    """Return the places of the sentences.

    Example:
        >>> sentence_spans("Io is hot. Europa is cold.")
        [(0, 10), (11, 26)]
    """
    spans, end = [], 0
    for sentence in sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        spans.append((start, end))
    return spans


def tokenizer_spans(name: str) -> Callable[[str], list[Span]]:
    """Return what finds the tokens of a model, special ones left out.

    Raises:
        MissingExtra: transformers is not installed.
        OptionError: There is no such model, or its tokenizer cannot tell places.
    """
    tokenizer = _tokenizer(name)

    def spans(text: str) -> list[Span]:
        found = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [(start, end) for start, end in found["offset_mapping"] if end > start]

    return spans


@functools.lru_cache(maxsize=4)
def _tokenizer(name: str) -> Callable[..., dict[str, list[Span]]]:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra("chunk: tokenizer", "transformers", "huggingface") from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        allowed = f"a folder with a tokenizer, or a name of the hub ({reason})"
        raise OptionError("chunk", "tokenizer", name, allowed) from error
    if not tokenizer.is_fast:
        raise OptionError("chunk", "tokenizer", name, "a fast tokenizer, which tells places")
    made: Callable[..., dict[str, list[Span]]] = tokenizer
    return made
