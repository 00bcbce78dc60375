"""Clipped n-gram matches of many rows at once, by NumPy: a third of the time of row by row."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragbench.types import IntArray

# Tokens of a prediction, and of each of its references.
TokenRow = tuple[Sequence[str], Sequence[Sequence[str]]]


class _Grams(NamedTuple):
    """N-grams of the texts of all rows, each with the place where it starts."""

    starts: IntArray  # position of the first token, among the tokens of all texts
    ends: IntArray  # position behind the last token of the same text
    rows: IntArray  # row of the text
    texts: IntArray  # 0 for a prediction, 1 and up for the references of its row
    codes: (
        IntArray  # number of the n-gram: equal n-grams of a row have one, those of two rows never
    )


def clipped_matches_of_rows(rows: Sequence[TokenRow], order: int) -> IntArray:
    """Return the clipped matches of each row for n = 1 to `order`, of shape (rows, order).

    They are those of `tokenizers.clipped_matches`. There is at least one row, and each row has at
    least one reference.

    Example:
        >>> clipped_matches_of_rows([("a b a".split(), ["b a".split()]), ([], [["a"]])], 2)
        array([[2, 1],
               [0, 0]])
    """
    tokens, grams, n_tokens = _unigrams(rows)
    n_texts = 1 + max(len(references) for _, references in rows)
    n_codes = len(rows) * n_tokens
    matches = np.zeros((len(rows), order), np.int64)
    for n in range(1, order + 1):
        clipped = _clipped_counts(grams, n_texts, n_codes)
        row_of_code = np.zeros(n_codes, np.int64)
        row_of_code[grams.codes] = grams.rows
        matches[:, n - 1] = np.bincount(row_of_code, clipped, minlength=len(rows))
        # an n-gram that does not match is no part of a longer one that does
        longer = (clipped[grams.codes] > 0) & (grams.starts + n < grams.ends)
        grams = _Grams(*(column[longer] for column in grams))
        if not len(grams.codes):
            break
        distinct, codes = np.unique(
            grams.codes * n_tokens + tokens[grams.starts + n], return_inverse=True
        )
        grams, n_codes = grams._replace(codes=codes), len(distinct)
    return matches


def _unigrams(rows: Sequence[TokenRow]) -> tuple[IntArray, _Grams, int]:
    """Return the tokens of all texts as numbers, their unigrams, and how many tokens differ."""
    texts = list[Sequence[str]]()
    owners = list[tuple[int, int]]()
    for row, (prediction, references) in enumerate(rows):
        texts += [prediction, *references]
        owners += [(row, text) for text in range(1 + len(references))]
    lengths = np.array([len(text) for text in texts], np.int64)
    numbers = defaultdict[str, int](itertools.count().__next__)
    all_tokens = map(numbers.__getitem__, itertools.chain.from_iterable(texts))
    tokens = np.fromiter(all_tokens, np.int64, int(lengths.sum()))
    row_of_text, text_of_row = np.array(owners, np.int64).T
    row_of_token: IntArray = np.repeat(row_of_text, lengths)
    grams = _Grams(
        starts=np.arange(len(tokens)),
        ends=np.repeat(np.cumsum(lengths), lengths),
        rows=row_of_token,
        texts=np.repeat(text_of_row, lengths),
        codes=row_of_token * len(numbers) + tokens,
    )
    return tokens, grams, len(numbers)


def _clipped_counts(grams: _Grams, n_texts: int, n_codes: int) -> IntArray:
    """Return the matches of each code: its count in the prediction, at most that of a reference."""
    counts = [
        np.bincount(grams.codes[grams.texts == text], minlength=n_codes) for text in range(n_texts)
    ]
    clipped: IntArray = np.minimum(counts[0], np.maximum.reduce(counts[1:]))
    return clipped
