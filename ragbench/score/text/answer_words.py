"""Words of answers: whether an answer or a passage holds a gold answer, word by word.

`contains`, `answer_hit`, the causes of `ragbench explain` and `ragbench audit` decide by it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal

from ragbench.registry import Option
from ragbench.score.text import base, tokenizers
from ragbench.text.languages import split_unspaced
from ragbench.text.numbers import read_token, split_numbers
from ragbench.text.tokenize import ARTICLES, normalize_answer

AUTO = "auto"

AnswerTokenizer = Annotated[
    str,
    Option(
        "auto (words at white space; Chinese, Japanese, Thai, Lao, Khmer and Burmese by "
        "character), none (at white space alone), or another tokenizer of bleu."
    ),
]
Articles = Annotated[
    Literal["en", "ar", "de", "es", "nl", "pt", "vi", "zh", "none"],
    Option("The language whose articles do not count; zh and none: no articles."),
]

# Word that stands for a number token: a control character, which normalisation keeps.
NUMBER = "\x01"


class AnswerWords:
    """Normalised words of a text, in order; words with a digit are number tokens.

    Words are equal if their texts are, number tokens if they have a reading in common.

    Attributes:
        n_words: Number of words.
    """

    __slots__ = ("_line", "_numbers", "n_words")

    def __init__(self, words: Sequence[str], numbers: Iterable[str] = ()) -> None:
        """Store words, and the texts of the number tokens that `NUMBER` stands for, in order."""
        # words have no blanks, so that a match of lines is a match of whole words
        self._line = f" {' '.join(words)} "
        self._numbers = tuple(numbers)
        self.n_words = len(words)

    def find(self, run: AnswerWords) -> int:
        """Return the place of the first word at which all words of `run` stand in a row, or -1.

        An empty run stands nowhere.
        """
        start = self._line.find(run._line) if run.n_words else -1
        while start >= 0:
            if self._has_numbers(run, start):
                return self._line.count(" ", 0, start)
            start = self._line.find(run._line, start + 1)
        return -1

    def holds(self, run: AnswerWords) -> bool:
        """Return True if all words of `run` stand here, in a row; False for an empty run."""
        return self.find(run) >= 0

    def starts_with(self, run: AnswerWords) -> bool:
        """Return True if the words of `run` are the first ones."""
        return self.find(run) == 0

    def is_equal(self, other: AnswerWords) -> bool:
        """Return True if both have the same number of words, and these are equal."""
        return self.n_words == other.n_words and self.starts_with(other)

    def _has_numbers(self, run: AnswerWords, start: int) -> bool:
        """Return True if the number tokens from a place of the line on are those of `run`."""
        if not run._numbers:
            return True
        first = self._line.count(NUMBER, 0, start)
        numbers = self._numbers[first : first + len(run._numbers)]
        pairs = zip(numbers, run._numbers, strict=True)
        return all(
            one == other or read_token(one).equals(read_token(other)) for one, other in pairs
        )


# Function that returns the words of a text.
ReadWords = Callable[[str], AnswerWords]


def answer_words(owner: str, tokenize: str = AUTO, articles: str = "en") -> ReadWords:
    """Return a function that returns the words of a text, without case, punctuation and articles.

    Number tokens are words by `ragbench.text.numbers`, whatever the tokenizer. The words of the
    last 512 texts are cached; an empty text has no words.

    Args:
        owner: Name of the metric in errors.
        tokenize: Tokenizer; an unknown one raises OptionError at the first text, and one whose
            package is missing MissingExtra.
        articles: Language whose articles do not count; an unknown one raises KeyError there.

    Example:
        >>> words = answer_words("contains")
        >>> words("It costs $1,500 a year.").holds(words("1500 a year"))
        True
    """
    return functools.partial(_answer_words, owner, tokenize, articles)


@functools.lru_cache(maxsize=512)  # metrics score row by row: only texts of one row repeat
def _answer_words(owner: str, tokenize: str, articles: str, text: str) -> AnswerWords:
    between, numbers = split_numbers(text.replace(NUMBER, " "))
    line = f" {NUMBER} ".join(between)
    if tokenize == AUTO and articles != "ar":
        # three times as fast as the search of articles in the text; Arabic has them inside of words
        dropped = ARTICLES[articles]
        words = split_unspaced(normalize_answer(line, "none"))
        return AnswerWords([word for word in words if word not in dropped], numbers)
    return AnswerWords(splitter(owner, tokenize)(normalize_answer(line, articles)), numbers)


@functools.cache
def splitter(owner: str, name: str) -> Callable[[str], list[str]]:
    """Return the function that splits a normalised text into words, by the name of a tokenizer.

    Raises:
        OptionError: The tokenizer is unknown; `owner` is the metric in the message.
        MissingExtra: The tokenizer needs a package that is not installed.
    """
    return split_unspaced if name == AUTO else tokenizers.tokenizer(owner, name, extra=(AUTO,))


def check_tokenizer(owner: str, options: base.Options) -> None:
    """Raise the errors of `splitter` for the option `tokenize` of a metric."""
    splitter(owner, options["tokenize"])


def note_words(owner: str, texts: Sequence[str], options: base.Options) -> list[str]:
    """Return notes on texts that the words of a metric tell little of: unspaced, articles alone."""
    notes = []
    squad = options.get("squad", "unicode")
    # exact_match compares whole answers: how they are split makes no difference
    splits_words = options["tokenize"] in ("none", "13a", "intl") or squad != "unicode"
    if splits_words and owner != "exact_match":
        advice = "tokenize=auto" if squad == "unicode" else "squad=unicode"
        notes = tokenizers.note_unspaced(owner, texts, f"{owner}({advice}) splits them")
    return notes + tokenizers.note_only_articles(owner, texts, options["articles"])
