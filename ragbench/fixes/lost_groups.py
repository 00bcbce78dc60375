"""Groups of questions that a system loses more often than chance would give.

Questions share values of their metadata, words, a length, a language, or gold documents. A group is
named if Fisher's exact test, adjusted for all groups, finds too many lost questions in it.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ragbench.comparison.slices import thirds_of
from ragbench.errors import OptionError
from ragbench.records.causes import NOT_LOST, CauseRow
from ragbench.records.fixes import LostGroup, LostGroups
from ragbench.records.manifest import QuestionRow
from ragbench.score.retrieval.passage_matching import before_last
from ragbench.stats.marked_groups import overrepresentation_of
from ragbench.text.languages import built_in, is_latin, load
from ragbench.text.tokenize import words
from ragbench.types import IntArray

# Questions of a group; what fewer questions share is a list of questions, and costs the others.
FEWEST = 5
# Fields of groups beside metadata and counts, in the order of the tests
_FIELDS = ("language", "document", "file", "word", "number")
# An adjusted p-value is at least 1 / (permutations + 1), so a small alpha needs many.
_FEWEST_RESAMPLES, _MOST_RESAMPLES = 999, 99_999
# Stop words of one language that a question has, so that it counts as written in that language.
_STOP_WORDS = 2


def find_lost_groups(
    rows: Sequence[QuestionRow],
    metadata: Mapping[str, Mapping[str, Any]],
    causes: Mapping[str, CauseRow],
    *,
    relevant: int = 1,
    alpha: float = 0.05,
    seed: int = 0,
) -> LostGroups:
    """Return the groups with more lost questions than chance would give.

    Lost is every cause but `right` and `found`; questions of cause `unknown`, or without one, do
    not count.
    If lost questions are a random draw, the chance that any group is named is at most `alpha`.
    Groups overlap, and each is tested by itself: of two that share their lost questions, either may
    be the reason. Of groups of the same questions, the first is tested, in the order metadata,
    language, documents, words, counts. A group has five questions or more, and not all. Groups are
    in ascending order of their p-values; there are none if no question, or every one, is lost.

    Args:
        rows: Questions with their judgements.
        metadata: Query id -> plain metadata; a missing one has none.
        causes: Query id -> cause of one system.
        relevant: Smallest grade of a gold document.
        alpha: Chance of naming any group if there is none; below 1e-5 no group is named.
        seed: Equal seeds give equal p-values.

    Raises:
        OptionError: `alpha` is outside (0, 1), or the seed is no integer from 0.
    """
    if not 0 < alpha < 1:
        raise OptionError("find_lost_groups", "alpha", alpha, "a number between 0 and 1")
    questions, lost = [], []
    for row in rows:
        loss = causes.get(row.query_id)
        if loss is not None and loss.cause != "unknown":
            questions.append(row)
            lost.append(loss.cause not in NOT_LOST)
    rows, is_lost = questions, np.array(lost, np.bool_)
    by_members: dict[bytes, tuple[str, str, IntArray]] = {}
    for field, value, members in (
        _groups(rows, metadata, relevant) if 0 < is_lost.sum() < len(rows) else ()
    ):
        # All questions are no group: its p-value is always 1, and it adds a test.
        if FEWEST <= len(members) < len(rows):
            # Groups of the same questions have one p-value. Two names for it would read as two
            # findings.
            by_members.setdefault(members.tobytes(), (field, value, members))
    groups = list(by_members.values())
    resamples = max(_FEWEST_RESAMPLES, math.ceil(min(1 / alpha, _MOST_RESAMPLES)))
    rows_of_groups = [members for *_, members in groups]
    test = overrepresentation_of(is_lost, rows_of_groups, resamples=resamples, seed=seed)
    significant = []
    # By the raw p-values: adjusted ones have steps of 1 / 1,000 and tie often.
    for place in np.argsort(test.p_values, kind="stable").tolist():
        if test.adjusted[place] > alpha:
            continue
        field, value, members = groups[place]
        significant.append(
            LostGroup(
                field=field,
                value=value,
                lost=int(test.marked[place]),
                questions=len(members),
                expected=float(test.expected[place]),
                p_adjusted=float(test.adjusted[place]),
                queries=tuple(rows[row].query_id for row in members[is_lost[members]]),
            )
        )
    n_lost = int(is_lost.sum())
    return LostGroups(
        lost=n_lost, questions=len(rows), tried=len(groups), groups=tuple(significant)
    )


def _groups(
    rows: Sequence[QuestionRow], metadata: Mapping[str, Mapping[str, Any]], relevant: int
) -> Iterator[tuple[str, str, IntArray]]:
    """Yield (field, value, rows) of the groups: by metadata, by `_FIELDS`, then by counts."""
    # rows of each value: a label of each row for each word would fill the memory
    members = defaultdict[str, defaultdict[str, list[int]]](lambda: defaultdict(list))
    vocabularies, n_gold = list[tuple[str, ...]](), list[int]()
    for place, row in enumerate(rows):
        vocabulary = frozenset(words(row.question))
        gold = []
        for document, grade in row.judged.items():
            if grade >= relevant:
                gold.append(document)
        # equal words of all questions are one object
        vocabularies.append(tuple(map(sys.intern, vocabulary)))
        n_gold.append(len(gold))
        values = [*_metadata_values(metadata.get(row.query_id, {}), "metadata")]
        for field, value in chain(values, _field_values(row.question, vocabulary, gold)):
            members[field][sys.intern(value)].append(place)
    # Metadata that the first questions lack must still precede the other fields.
    for field in sorted(members, key=lambda name: _FIELDS.index(name) if name in _FIELDS else -1):
        for value, places in members[field].items():
            # most words and documents are those of one question
            if len(places) >= FEWEST:
                yield field, value, np.array(list(dict.fromkeys(places)), np.int64)
    uses = Counter(chain.from_iterable(vocabularies))
    n_rare = [sum(uses[word] == 1 for word in vocabulary) for vocabulary in vocabularies]
    lengths = [len(row.question.split()) for row in rows]
    for slicing in (
        thirds_of("rare words", n_rare, "words that no other question has"),
        thirds_of("length", lengths, "words"),
        thirds_of("gold", n_gold, "gold documents"),
    ):
        for value, column in zip(slicing.names, slicing.members().T, strict=True):
            yield slicing.field, value, np.flatnonzero(column)


def _field_values(
    question: str, vocabulary: frozenset[str], gold: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the fields of a question, such as `word`, with their values."""
    if language := _language(question, vocabulary):
        yield "language", language
    for document in gold:
        yield "document", document
    # Several chunks of one file count once, or the question would be in the group twice.
    for file in dict.fromkeys(before_last(document, "#") for document in gold):
        yield "file", file
    for word in sorted(vocabulary):
        yield "word", word
    if any(character.isdigit() for character in question):
        yield "number", "a number"


def _metadata_values(metadata: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield path and value as texts of plain metadata, also of lists and nested mappings."""
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            yield from _metadata_values(value, f"{path}.{key}")
            continue
        for part in value if isinstance(value, list) else [value]:
            yield f"{path}.{key}", str(part)


def _language(question: str, vocabulary: frozenset[str]) -> str:
    """Return the language whose stop words a question has most; '' if none is sure."""
    if not is_latin(question):
        return "a script other than Latin"
    counts = {}
    for name, stops in _stop_words().items():
        counts[name] = len(vocabulary & stops)
    *_, second, most = sorted(counts.values())
    # A lead of one stop word: languages share some, such as `in`, and a tie tells nothing.
    if most < max(_STOP_WORDS, second + 1):
        return ""
    return max(counts, key=counts.__getitem__).capitalize()


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """Return language -> its stop words."""
    return {name: load(name) for name in built_in()}
