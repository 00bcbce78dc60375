"""`contains`: whether the words of a gold answer stand in an answer."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ragbench.score.text import base
from ragbench.score.text.answer_words import (
    AUTO,
    AnswerTokenizer,
    Articles,
    answer_words,
    check_tokenizer,
    note_words,
)
from ragbench.types.scores import Value


@base.metric(
    "contains",
    check=functools.partial(check_tokenizer, "contains"),
    facts={"normalize": "numbers", "references": "any"},
    notes=functools.partial(note_words, "contains"),
    equals="its definition, by brute force",
    not_for="long answers that name everything; references of one common word",
    # 2: signs and inner punctuation of numbers count
    version=2,
)
def contains(
    prediction: str,
    references: str | Sequence[str],
    *,
    tokenize: AnswerTokenizer = AUTO,
    articles: Articles = "en",
) -> Value:
    """Return 1 where the words of a reference stand in the prediction, in a row, else 0.

    Case, punctuation and articles do not count. Whole words count: `no` is not in `know`. In
    scripts without spaces between words, characters count. Words with a digit keep sign, inner
    punctuation and percent: 15 is not in 1.5 or 15 %, nor 5 in -5; 1500 is in $1,500, and 1234, as
    1.234, in 1.234. Dates and units are not converted. A reference without a word is in nothing. An
    empty prediction gives 0.

    Raises:
        OptionError: No reference, or an option that is not allowed.
        MissingExtra: The tokenizer needs a package that is not installed.

    Example:
        >>> contains("It was built in 1889, for the fair.", "1889"), contains("I know.", "no")
        (1.0, 0.0)
        >>> contains("It costs 1 500 €.", ["$1,500"]), contains("It costs 1 500 €.", "1500")
        (0.0, 1.0)
        >>> contains("答案是北京。", ["北京"])
        1.0
    """
    words = answer_words("contains", tokenize, articles)
    answer = words(prediction)
    gold = base.reference_list("contains", references)
    return Value(any(answer.holds(words(reference)) for reference in gold))
