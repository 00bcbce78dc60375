"""Metrics of short answers, normalised as in SQuAD: `exact_match` and `token_f1`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Annotated

from ragbench.registry import Option
from ragbench.score.text import base, tokenizers
from ragbench.score.text.answer_words import (
    AUTO,
    AnswerTokenizer,
    Articles,
    check_tokenizer,
    note_words,
    splitter,
)
from ragbench.text.tokenize import Rules, normalize_answer
from ragbench.types.scores import Value

Script = Annotated[
    Rules,
    Option(
        "unicode (letters of every script are normalised), script (to the letter as the SQuAD "
        "script: ASCII punctuation alone is removed), mlqa (to the letter as the MLQA script, in "
        "the language of `articles`); with the scripts auto is their way to split words."
    ),
]
# Function that returns the normalised words of an answer.
Tokens = Callable[[str], "tuple[str, ...]"]


def squad_tokens(
    owner: str, tokenize: str = AUTO, articles: str = "en", squad: Rules = "unicode"
) -> Tokens:
    """Return a function that splits an answer into words without case, punctuation and articles.

    Args:
        owner: Name of the metric in errors.
        tokenize: Tokenizer; an unknown one raises OptionError at the first text, and one whose
            package is missing MissingExtra.
        articles: Language whose articles do not count; an unknown one raises KeyError there.
        squad: Rules of the normalisation. With `script` and `mlqa` the tokenizer `auto` splits at
            white space, and with `mlqa` and the articles `zh` around Chinese characters too.

    Example:
        >>> squad_tokens("token_f1")("The year 1,889!"), squad_tokens("token_f1")("北京。")
        (('year', '1889'), ('北', '京'))
    """
    return functools.partial(_tokens, owner, tokenize, articles, squad)


@functools.lru_cache(maxsize=512)  # metrics score row by row: only texts of one row repeat
def _tokens(owner: str, tokenize: str, articles: str, squad: Rules, text: str) -> tuple[str, ...]:
    text = normalize_answer(text, articles, squad)
    if squad != "unicode" and tokenize == AUTO:
        is_chinese = squad == "mlqa" and articles == "zh"
        return tuple((_MLQA_CHINESE.sub(r" \g<0> ", text) if is_chinese else text).split())
    return tuple(splitter(owner, tokenize)(text))


_MLQA_CHINESE = re.compile("[\u4e00-\u9fa5]")  # the characters that the MLQA script sets apart

_EQUALS = (
    "the SQuAD script on ASCII; beyond it, letters of every script are normalised; with "
    "`squad=script` or `mlqa` the scripts of SQuAD and MLQA on any text"
)


def _facts(options: base.Options) -> dict[str, str]:
    # The defaults are the parts from before the option `squad`, so that older signatures are equal.
    rules = {"unicode": "squad", "script": "squad_script", "mlqa": "mlqa_script"}
    return {"normalize": rules[options["squad"]], "references": "best"}


@base.metric(
    "exact_match",
    check=functools.partial(check_tokenizer, "exact_match"),
    facts=_facts,
    unsigned=frozenset({"squad"}),
    notes=functools.partial(note_words, "exact_match"),
    equals=_EQUALS,
    not_for="answers in whole sentences",
)
def exact_match(
    prediction: str,
    references: str | Sequence[str],
    *,
    tokenize: AnswerTokenizer = AUTO,
    articles: Articles = "en",
    squad: Script = "unicode",
) -> Value:
    """Return 1 where a prediction equals a reference after normalisation, else 0.

    Case, punctuation, articles, full-width forms and white space do not count. An empty or blank
    prediction gives 0, except by the rules of a script; other texts without a word after
    normalisation are equal. Of several references one must be equal.

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.
        tokenize: Tokenizer of both texts.
        articles: Language whose articles do not count.
        squad: Rules of the normalisation; with `script` and `mlqa` auto splits as these scripts do.

    Raises:
        OptionError: No reference, or an option that is not allowed.
        MissingExtra: The tokenizer needs a package that is not installed.

    Example:
        >>> exact_match("The Eiffel Tower!", ["eiffel tower", "la tour Eiffel"])
        1.0
        >>> exact_match("北京 大学。", "北京大学"), exact_match("der Rhein", "Rhein", articles="de")
        (1.0, 1.0)

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
    """
    references = base.reference_list("exact_match", references)
    # a reference of articles alone is empty too, but an empty prediction matches nothing
    if squad == "unicode" and not prediction.strip():
        return Value()
    tokens = squad_tokens("exact_match", tokenize, articles, squad)
    answer = tokens(prediction)
    return Value(any(tokens(reference) == answer for reference in references))


def _open_token_f1(options: base.Options) -> base.Scorer:
    """Return a scorer that compares a row once, and takes from it a value per metric."""
    tokens = squad_tokens("token_f1", options["tokenize"], options["articles"], options["squad"])

    def reader_of(metrics: Sequence[base.Metric]) -> base.RowReader:
        def read(prediction: str, references: Sequence[str]) -> list[float]:
            best = _best(prediction, references, tokens)
            return [getattr(best, metric.part) for metric in metrics]

        return read

    return base.row_scorer(reader_of)


@base.metric(
    "token_f1",
    parts=("fmeasure", "precision", "recall"),
    open=_open_token_f1,
    check=functools.partial(check_tokenizer, "token_f1"),
    facts=_facts,
    unsigned=frozenset({"squad"}),
    notes=functools.partial(note_words, "token_f1"),
    equals=_EQUALS,
    not_for="long answers, whose words overlap by chance",
)
def token_f1(
    prediction: str,
    references: str | Sequence[str],
    *,
    tokenize: AnswerTokenizer = AUTO,
    articles: Articles = "en",
    squad: Script = "unicode",
) -> Value:
    """Return the F1 of the words that a prediction shares with its best reference.

    Words are those of the normalised texts (see `exact_match`); repeated words count as often as
    both sides have them. In scripts without spaces between words, characters count. A pair in which
    a text has no word gives 0. Values are from 0 to 1; `token_f1.precision` and `.recall` are those
    of the reference with the best F, the first of equals.

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.
        tokenize: Tokenizer of both texts.
        articles: Language whose articles do not count.
        squad: Rules of the normalisation; with `script` and `mlqa` auto splits as these scripts do.

    Raises:
        OptionError: No reference, or an option that is not allowed.
        MissingExtra: The tokenizer needs a package that is not installed.

    Example:
        Two of three words are right, and two of two are there: 2 * 2/3 * 1 / (2/3 + 1).

        >>> token_f1("in Paris, France", "Paris France")
        0.8

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
    """
    tokens = squad_tokens("token_f1", tokenize, articles, squad)
    return Value(_best(prediction, base.reference_list("token_f1", references), tokens).fmeasure)


def _best(prediction: str, references: Sequence[str], tokens: Tokens) -> base.OverlapScore:
    mine = tokens(prediction)
    scores = []
    for gold in map(tokens, references):
        matches = tokenizers.clipped_matches(mine, [gold], 1)
        scores.append(base.OverlapScore.of_counts(matches, len(mine), len(gold)))
    return max(scores, key=lambda score: score.fmeasure)
