"""Checks of questions: repeated ones, those of another split, outliers of language and length."""

from __future__ import annotations

import math
import statistics
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ragbench.experiment.audit.audited import AuditedSet
from ragbench.records.audit import Finding
from ragbench.text.languages import built_in, load
from ragbench.text.similar_questions import same_questions
from ragbench.text.tokenize import words
from ragbench.types import Query
from ragbench.types.conversation import Turn
from ragbench.types.documents import record_ids

_CLEAR = 2  # stop words by which a language must lead
_MOST = 0.9  # share of the questions in the language of the set
_FEWEST = 10  # questions below which nothing is an outlier
_FARTHEST = 4.0  # times as long, or as short, as the median
_SPREADS = 5.0  # robust standard deviations of the logarithm of the length
_MAD_TO_SD = 1.4826  # for normal values
_LONGEST = 100  # characters of a question


def shorten(text: str) -> str:
    """Return a text on one line, in quotes; behind 100 characters it is cut, with dots."""
    line = " ".join(text.split())
    return f"'{line}'" if len(line) <= _LONGEST else f"'{line[:_LONGEST]} ...'"


def check_repeated(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the questions that repeat an earlier one, the same in words or nearly so.

    Questions of conversations are the same only with the same earlier turns, and never nearly;
    questions with pools only with the same pool.
    """
    first_query: dict[object, Query] = {}
    single = []
    for query in audited.queries:
        key = _key(query)
        if key is None:
            continue
        first = first_query.setdefault(key, query)
        if first is not query:
            problem = f"query {query.id} repeats query {first.id}: {shorten(query.text)}"
            yield audited.finding("repeated_question", query, problem)
        elif not query.turns:
            single.append(query)
    texts = [query.text for query in single]
    pairs = same_questions(texts, _main_language(texts) or "none")
    nearest: dict[int, tuple[float, int]] = {}
    for row, later, similarity in pairs:
        nearest[later] = max(nearest.get(later, (0.0, 0)), (similarity, -row))
    for later, (_, row) in sorted(nearest.items()):
        query, first = single[later], single[-row]
        if query.pool != first.pool:
            continue
        problem = (
            f"query {query.id} asks nearly the same as query {first.id}: {shorten(query.text)}, "
            f"{shorten(first.text)}"
        )
        yield audited.finding("nearly_repeated_question", query, problem)


def _key(query: Query) -> tuple[tuple[str, ...], tuple[Turn, ...], Sequence[str] | None] | None:
    """Return the words, earlier turns and pool of a question; None without a word."""
    sequence = tuple(words(query.text))
    return (sequence, query.turns, query.pool) if sequence else None


def check_splits(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the questions that another split has as well, by their ids or words.

    A file that judges all of the queries has other judgements of them, and is no other split.
    """
    query_ids = set(record_ids(audited.queries))
    for split, split_queries in audited.places.other_splits.items():
        ids = set(record_ids(split_queries))
        if ids >= query_ids:
            continue
        by_key = {}
        for other in split_queries:
            if (key := _key(other)) is not None:
                by_key[key] = other.id
        for query in audited.queries:
            other_id = query.id if query.id in ids else by_key.get(_key(query) or ((), (), None))
            if other_id is not None:
                same = "" if other_id == query.id else f" as query {other_id}"
                problem = f"query {query.id} is in {split} too{same}: {shorten(query.text)}"
                yield audited.finding("question_in_another_split", query, problem)


def check_language(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the questions in another language or script than at least 90 % of the questions.

    Languages with stop words are told by these, other ones by their script. A question that shows
    too little of its language does not count; nothing if fewer than 10 questions show it.
    """
    labels = [_language(query.text) for query in audited.queries]
    counts = Counter(filter(None, labels))
    if not counts or counts.total() < _FEWEST:
        return
    main, n_main = counts.most_common(1)[0]
    if n_main < _MOST * counts.total():
        return
    for query, label in zip(audited.queries, labels, strict=True):
        if label and label != main:
            languages = f"is {label.title()}, the set is {main.title()}"
            problem = f"query {query.id} {languages}: {shorten(query.text)}"
            yield audited.finding("language_outlier", query, problem)


def _main_language(texts: Sequence[str]) -> str | None:
    """Return the language, of those with stop words, of most texts; None if none has any."""
    counts = Counter(label for label in map(_language, texts) if label in built_in())
    return counts.most_common(1)[0][0] if counts else None


# both the nearly repeated questions and the outliers need it
@lru_cache(maxsize=20_000)
def _language(text: str) -> str | None:
    """Return the language of a text, or its script if that is not Latin; None if unclear."""
    scripts: Counter[str] = Counter()
    for letter in filter(str.isalpha, text):
        scripts[unicodedata.name(letter, "").partition(" ")[0]] += 1
    if not scripts:
        return None
    script, n_letters = scripts.most_common(1)[0]
    if script != "LATIN":
        # a name in another script does not make the question one of it
        return script.lower() if n_letters > scripts.total() / 2 else None
    tokens = words(text, "none")
    hits = Counter({name: sum(map(load(name).__contains__, tokens)) for name in built_in()})
    (best, n_best), (_, n_second) = hits.most_common(2)
    return best if n_best >= n_second + _CLEAR else None


def check_length(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the questions at least four times as long, or as short, as the median question.

    They must be far from it by the spread of the set, too: 5 robust standard deviations of the
    logarithm of the number of words. Fewer than 10 questions yield nothing.
    """
    lengths = [len(words(query.text)) for query in audited.queries]
    logs = [math.log(max(length, 1)) for length in lengths]
    if len(logs) < _FEWEST:
        return
    middle = statistics.median(logs)
    spread = _MAD_TO_SD * statistics.median(abs(value - middle) for value in logs)
    limit = max(math.log(_FARTHEST), _SPREADS * spread)
    for query, length, value in zip(audited.queries, lengths, logs, strict=True):
        if abs(value - middle) >= limit:
            problem = (
                f"query {query.id} has {length} words, the median is {math.exp(middle):.0f}: "
                f"{shorten(query.text)}"
            )
            yield audited.finding("length_outlier", query, problem)
