"""Tokenizers by name, with the tokens of sacrebleu: 13a, intl, zh, char, none, ja-mecab, ..."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from typing import Annotated, Any

from ragbench.errors import MissingExtra, OptionError
from ragbench.registry import Option, nearest
from ragbench.text.memory import Memory

Tokenize = Callable[[str], list[str]]
"""Text -> its tokens in order."""
Tokenizer = Annotated[
    str,
    Option(
        "13a, intl (punctuation of every script), zh (Chinese), char, none (at white space), or "
        "ja-mecab, ko-mecab, flores101, flores200, spBLEU-1K where installed."
    ),
]

WORD_TOKENIZERS = frozenset({"13a", "intl", "none"})
"""Those that part words at white space and punctuation alone."""

_PACKAGES = {
    "ja-mecab": ("MeCab with the IPA dictionary", "pip install 'sacrebleu[ja]'"),
    "ko-mecab": ("MeCab-ko with its dictionary", "pip install 'sacrebleu[ko]'"),
}
_LONGEST = 64  # characters of a word that is worth remembering

_REMEMBERED = 100_000  # words

_SYMBOL = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_POINT_AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
_POINT_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")

# In this order: `&amp;lt;` becomes `<`, as in the original.
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))


def tokenizer(owner: str, name: str, lowercase: bool = False) -> Tokenize:
    """Return the tokenizer of that name.

    Args:
        owner: The metric, for messages.
        name: As sacrebleu calls it.
        lowercase: Whether texts become lower case first.

    Raises:
        OptionError: There is none of that name.
        MissingExtra: It needs a package, or a model, that is not there.

    Example:
        >>> tokenizer("bleu", "zh")("我有2个梨。"), tokenizer("bleu", "char")("a b")
        (['我', '有', '2', '个', '梨', '。'], ['a', 'b'])
    """
    split = _tokenizer(owner, name)
    return (lambda text: split(text.lower())) if lowercase else split


@functools.cache
def _tokenizer(owner: str, name: str) -> Tokenize:
    if name == "13a":
        return tokenize_13a
    if name == "none":
        return str.split
    if name == "char":
        return lambda text: list("".join(text.split()))
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        allowed = ", ".join(BLEU.TOKENIZERS)
        raise OptionError(owner, "tokenize", name, allowed, nearest(name, BLEU.TOKENIZERS))
    if name == "zh":
        return _chinese()
    theirs = _load(f"{owner}(tokenize={name})", name, BLEU)
    if name == "intl":
        return _by_word(functools.partial(_substitute, rules=theirs._re))
    return lambda text: str(theirs(text.rstrip())).split()


def _load(owner: str, name: str, bleu: Any) -> Any:
    """The tokenizer itself, or one sentence on what it lacks."""
    package, advice = _PACKAGES.get(name, ("sentencepiece", "pip install sentencepiece"))
    try:
        return bleu(tokenize=name).tokenizer
    except (ImportError, RuntimeError, AssertionError) as error:
        raise MissingExtra(owner, package, advice=advice) from error
    except (OSError, SystemExit) as error:  # the model of a sentencepiece tokenizer is fetched
        from sacrebleu.utils import SACREBLEU_DIR

        found = f"a model that cannot be fetched ({error})"
        raise MissingExtra(owner, found, advice=f"put it into {SACREBLEU_DIR}/models") from error


def _chinese() -> Tokenize:
    """`zh`: Chinese characters one by one, the rest by the rules of 13a."""
    from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

    theirs: Any = TokenizerZh
    apart = _Apart(theirs._is_chinese_char)
    rules = theirs()._post_tokenizer._re
    split = _by_word(functools.partial(_substitute, rules=rules))
    return lambda text: split(text.strip().translate(apart))


class _Apart(dict[int, "str | int"]):
    """Code point -> the character between spaces if it is a token of its own."""

    def __init__(self, is_token: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_token = is_token

    def __missing__(self, code: int) -> str | int:
        self[code] = f" {chr(code)} " if self._is_token(chr(code)) else code
        return self[code]


def _substitute(text: str, rules: list[tuple[re.Pattern[str], str]]) -> list[str]:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text.split()


def _by_word(split: Tokenize) -> Tokenize:
    """Apply rules word by word, from memory, where none of them looks across white space.

    What stands before and behind a word counts as white space, but for the first and the last
    word, which the rules may see at the very start and end of the text.
    """

    def split_padded(word: str, before: str = " ", after: str = " ") -> tuple[str, ...]:
        # no rule touches letters and digits alone
        return (word,) if word.isalnum() else tuple(split(f"{before}{word}{after}"))

    remembered = Memory(split_padded, longest=_LONGEST).__getitem__

    def tokenize(text: str) -> list[str]:
        words = text.split()
        if len(words) < 3:
            return split(text.rstrip())
        before = " " if text[0].isspace() else ""
        inner = itertools.chain.from_iterable(map(remembered, words[1:-1]))
        first, last = split_padded(words[0], before), split_padded(words[-1], after="")
        return [*first, *inner, *last]

    return tokenize


def _split(word: str) -> tuple[str, ...]:
    """Split the punctuation off one word without white space in it."""
    if word.isalnum():
        return (word,)
    word = _SYMBOL.sub(r" \1 ", f" {word} ")
    word = _POINT_AFTER_NON_DIGIT.sub(r"\1 \2 ", word)
    word = _POINT_BEFORE_NON_DIGIT.sub(r" \1 \2", word)
    return tuple(_DASH_AFTER_DIGIT.sub(r"\1 \2 ", word).split())


_split_remembered = Memory(_split, _REMEMBERED, _LONGEST).__getitem__


def tokenize_13a(text: str) -> list[str]:
    """Split a text into the tokens that sacrebleu's default tokeniser gives.

    No rule of 13a looks across white space once `<skipped>`, hyphenated line ends and the four
    entities are resolved, so that words can be split one by one and remembered.

    Example:
        >>> tokenize_13a("It's 3.14, e.g. &quot;pi&quot;.")
        ["It's", '3.14', ',', 'e', '.', 'g', '.', '"', 'pi', '"', '.']
    """
    text = text.rstrip()
    if "<skipped>" in text:
        text = text.replace("<skipped>", "")
    if "-\n" in text:
        text = text.replace("-\n", "")
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return list(itertools.chain.from_iterable(map(_split_remembered, text.split())))
