"""METEOR by nltk: `meteor`, for English texts; needs the database of WordNet."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any

from ragbench.errors import MissingExtra
from ragbench.registry import Option
from ragbench.score.text.base import Options, metric, reference_list
from ragbench.score.text.tokenizers import Tokenizer, tokenizer
from ragbench.signature import fingerprint
from ragbench.types.scores import Value

_FILES = tuple(
    form.format(part)
    for part, form in product(("noun", "verb", "adj", "adv"), ("index.{}", "data.{}", "{}.exc"))
)
_LISTS = ("lexnames", "index.sense")  # which nltk reads besides; no score depends on them
_VERSION = re.compile(rb"Word[Nn]et (\d[\d.]*\+?) Copyright")
# the reader of nltk has one position in each file
_LOCK = threading.Lock()


def find_wordnet() -> list[Any]:
    """Return pointers of nltk to the database files of WordNet, in the order of `_FILES`.

    nltk searches `NLTK_DATA` and its usual folders, also for `corpora/wordnet.zip`.

    Raises:
        MissingExtra: nltk does not find one of the files that it reads.
    """
    import nltk.data

    try:
        pointers = [nltk.data.find(f"corpora/wordnet/{name}") for name in (*_FILES, *_LISTS)]
        return pointers[: len(_FILES)]
    except LookupError as error:
        advice = "python -m nltk.downloader wordnet"
        raise MissingExtra("metric 'meteor'", "the database of WordNet", advice=advice) from error


@functools.cache
def _wordnet_version() -> str:
    """Return release and fingerprint of the database, such as `3.0-` and a hash."""
    files = []
    for pointer in find_wordnet():
        with pointer.open() as stream:
            files.append(stream.read())
    release = _VERSION.search(files[_FILES.index("data.adj")])
    return f"{release[1].decode() if release else '?'}-{fingerprint(files)}"


def _check(options: Options) -> None:
    find_wordnet()
    tokenizer("meteor", options["tokenize"])


def _facts(options: Options) -> dict[str, str]:
    return {"references": "best", "stemmer": "porter", "wordnet": _wordnet_version()}


@metric(
    "meteor",
    computes=True,
    check=_check,
    facts=_facts,
    equals="nltk's meteor_score on the same tokens and the same WordNet, bit for bit",
    not_for="other languages than English; comparing with papers that use Java METEOR 1.5, which "
    "has other weights and paraphrases",
)
def meteor(
    prediction: str,
    references: str | Sequence[str],
    *,
    alpha: Annotated[
        float, Option("Weight of recall against precision, 1 is recall.", ge=0, le=1)
    ] = 0.9,
    beta: Annotated[
        float, Option("How steeply the penalty grows with the chunks.", ge=0, le=100)
    ] = 3.0,
    gamma: Annotated[
        float, Option("The largest penalty for words out of order.", ge=0, le=1)
    ] = 0.5,
    tokenize: Tokenizer = "13a",
) -> Value:
    """Score how many words of a prediction its best reference has, as words, stems or synonyms.

    A weighted mean of precision and recall, less up to `gamma` of it for words that stand in
    another order. The score is that of nltk's `meteor_score` on the same tokens, bit for bit; nltk
    leaves the tokens to the caller, here they are those of 13a unless `tokenize` says otherwise.
    Stems and synonyms are English. Two equal texts score a little below 1: they are one chunk. An
    empty prediction gives 0. Values are from 0 to 1. The first call loads WordNet, which takes some
    seconds and some 200 MB of memory; threads wait for each other.

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.
        tokenize: Tokenizer of both texts.

    Raises:
        OptionError: No reference, or an option that is not allowed.
        MissingExtra: nltk does not find WordNet, or the tokenizer needs a package that is not
            installed; the message says how to get it.

    References:
        Lavie and Agarwal (2007), METEOR: An Automatic Metric for MT Evaluation with High Levels
        of Correlation with Human Judgments.
    """
    from nltk.translate.meteor_score import meteor_score

    split = tokenizer("meteor", tokenize)
    gold = [split(text) for text in reference_list("meteor", references)]
    words = split(prediction)
    with _LOCK:
        _wordnet_version()  # a clear error without the database
        return Value(meteor_score(gold, words, alpha=alpha, beta=beta, gamma=gamma))
