"""Metrics of short answers, normalised as in SQuAD: `exact_match`, `contains`, `token_f1`."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from ragbench.registry import Option
from ragbench.score.text import base, tokenizers
from ragbench.text.languages import fold, fold_answer, split_unspaced
from ragbench.text.tokenize import Rules, normalize_answer
from ragbench.types.scores import Value

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


def answer_tokens(
    owner: str,
    tokenize: str = AUTO,
    articles: str = "en",
    squad: Rules = "unicode",
    *,
    join_digits: bool = True,
) -> Tokens:
    """Return a function that splits an answer into words without case, punctuation and articles.

    The words of the last 512 texts are cached; an empty text gives an empty tuple.

    Args:
        owner: Name of the metric in errors.
        tokenize: Tokenizer; an unknown one raises OptionError at the first text, and one whose
            package is missing MissingExtra.
        articles: Language whose articles do not count; an unknown one raises KeyError there.
        squad: Rules of the normalisation. With `script` and `mlqa` the tokenizer `auto` splits at
            white space, and with `mlqa` and the articles `zh` around Chinese characters too.
        join_digits: True makes `1,932` the word `1932`, as the SQuAD script does. False keeps them
            apart: one mark stands for any punctuation between digits.

    Example:
        >>> answer_tokens("contains")("The year 1889!"), answer_tokens("contains")("北京。")
        (('year', '1889'), ('北', '京'))
    """
    return functools.partial(_tokens, owner, tokenize, articles, squad, join_digits)


@functools.lru_cache(maxsize=512)  # metrics score row by row: only texts of one row repeat
def _tokens(
    owner: str, tokenize: str, articles: str, squad: Rules, join_digits: bool, text: str
) -> tuple[str, ...]:
    if not join_digits:
        text = _BETWEEN_DIGITS.sub(_mark_punctuation, text)
    text = normalize_answer(text, articles, squad)
    if squad != "unicode" and tokenize == AUTO:
        is_chinese = squad == "mlqa" and articles == "zh"
        return tuple((_MLQA_CHINESE.sub(r" \g<0> ", text) if is_chinese else text).split())
    return tuple(_splitter(owner, tokenize)(text))


_MLQA_CHINESE = re.compile("[\u4e00-\u9fa5]")  # the characters that the MLQA script sets apart

_BETWEEN_DIGITS = re.compile(r"(?<=\d)[^\w\s]+(?=\d)")


def _mark_punctuation(between: re.Match[str]) -> str:
    r"""Return the mark `\x01` for punctuation that normalisation would remove between digits.

    Other characters are returned as they are; invisible ones, such as soft hyphens, still vanish.
    """
    characters = between.group()
    vanishes = not fold_answer(characters) and any(fold(ord(c)) for c in characters)
    return "\x01" if vanishes else characters


@functools.cache
def _splitter(owner: str, name: str) -> Callable[[str], list[str]]:
    return split_unspaced if name == AUTO else tokenizers.tokenizer(owner, name, extra=(AUTO,))


def holds_run(tokens: Sequence[str], run: Sequence[str]) -> bool:
    """Return True if a text contains the tokens of `run` in a row; False for an empty run.

    Example:
        >>> holds_run(("i", "say", "no"), ("no",)), holds_run(("i", "know"), ("no",))
        (True, False)
    """
    # tokens have no spaces, so that a match of strings is a match of whole tokens
    return bool(run) and f" {' '.join(run)} " in f" {' '.join(tokens)} "


def _check(owner: str, options: base.Options) -> None:
    _splitter(owner, options["tokenize"])


def _notes(owner: str, texts: Sequence[str], options: base.Options) -> list[str]:
    notes = []
    squad = options.get("squad", "unicode")
    # exact_match compares whole answers: how they are split makes no difference
    splits_words = options["tokenize"] in ("none", "13a", "intl") or squad != "unicode"
    if splits_words and owner != "exact_match":
        advice = "tokenize=auto" if squad == "unicode" else "squad=unicode"
        notes = tokenizers.note_unspaced(owner, texts, f"{owner}({advice}) splits them")
    return notes + tokenizers.note_only_articles(owner, texts, options["articles"])


_EQUALS = (
    "the SQuAD script on ASCII; beyond it, letters of every script are normalised; with "
    "`squad=script` or `mlqa` the scripts of SQuAD and MLQA on any text"
)


def _facts(options: base.Options) -> dict[str, str]:
    """Return the parts of the signature: `normalize`, the rules of `squad`, and `references`.

    By default they are those from before the option `squad`, so that older signatures are equal.
    """
    rules = {"unicode": "squad", "script": "squad_script", "mlqa": "mlqa_script"}
    return {"normalize": rules[options["squad"]], "references": "best"}


@base.metric(
    "exact_match",
    check=functools.partial(_check, "exact_match"),
    facts=_facts,
    unsigned=frozenset({"squad"}),
    notes=functools.partial(_notes, "exact_match"),
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
        OptionError: No reference, or an option outside what is allowed.
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
    tokens = answer_tokens("exact_match", tokenize, articles, squad)
    answer = tokens(prediction)
    return Value(any(tokens(reference) == answer for reference in references))


@base.metric(
    "contains",
    check=functools.partial(_check, "contains"),
    facts={"normalize": "squad", "references": "any"},
    notes=functools.partial(_notes, "contains"),
    equals="its definition, by brute force",
    not_for="long answers that name everything; references of one common word",
)
def contains(
    prediction: str,
    references: str | Sequence[str],
    *,
    tokenize: AnswerTokenizer = AUTO,
    articles: Articles = "en",
) -> Value:
    """Return 1 where the words of a reference stand in the prediction, in a row, else 0.

    Both are normalised as for `exact_match`, whose `tokenize` and `articles` it takes. Whole words
    count: `no` is not in `know`. In scripts without spaces between words, characters count. A
    reference without a word is in nothing. An empty prediction gives 0.

    Raises:
        OptionError: No reference, or an option outside what is allowed.
        MissingExtra: The tokenizer needs a package that is not installed.

    Example:
        >>> contains("It was built in 1889, for the fair.", "1889"), contains("I know.", "no")
        (1.0, 0.0)
        >>> contains("答案是北京。", ["北京"])
        1.0
    """
    tokens = answer_tokens("contains", tokenize, articles)
    answer = tokens(prediction)
    gold = base.reference_list("contains", references)
    return Value(any(holds_run(answer, tokens(reference)) for reference in gold))


def _open_token_f1(options: base.Options) -> base.Scorer:
    """Return a scorer that compares a row once, and takes from it a value per metric.

    Values are precision, recall or F; of several references the one with the largest F counts. A
    tokenizer is looked up at the first row: OptionError or MissingExtra.
    """
    tokens = answer_tokens("token_f1", options["tokenize"], options["articles"], options["squad"])

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
    check=functools.partial(_check, "token_f1"),
    facts=_facts,
    unsigned=frozenset({"squad"}),
    notes=functools.partial(_notes, "token_f1"),
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
        OptionError: No reference, or an option outside what is allowed.
        MissingExtra: The tokenizer needs a package that is not installed.

    Example:
        Two of three words are right, and two of two are there: 2 * 2/3 * 1 / (2/3 + 1).

        >>> token_f1("in Paris, France", "Paris France")
        0.8

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
    """
    tokens = answer_tokens("token_f1", tokenize, articles, squad)
    return Value(_best(prediction, base.reference_list("token_f1", references), tokens).fmeasure)


def _best(prediction: str, references: Sequence[str], tokens: Tokens) -> base.RougeScore:
    mine = tokens(prediction)
    pairs = [(tokenizers.overlap(mine, Counter(gold), 1), gold) for gold in map(tokens, references)]
    scores = [base.RougeScore.of_counts(shared, len(mine), len(gold)) for shared, gold in pairs]
    return max(scores, key=lambda score: score.fmeasure)
