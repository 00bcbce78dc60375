"""Anchors of gold quotes in documents that have changed: kept, moved, split, merged or gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise

from ragbench.data.files.gold import DocumentNames
from ragbench.text.languages import unicode_words
from ragbench.types import Document
from ragbench.types.lookups import index_by_id, take_items
from ragbench.types.spans import Span, locate_quote

_SHORTEST = 4  # words of a quote, or of a part of it: fewer may stand elsewhere by chance


@dataclass(frozen=True, slots=True)
class GoldQuote:
    """Gold label of a question: a quote in a document.

    Attributes:
        question: Id of the question, or its text without an id.
        document: The document as the label names it.
        text: The quote.
        place: Start and end of the quote in its document, in characters from 0, the end exclusive;
            None if the label names a document alone.
    """

    question: str
    document: str
    text: str
    place: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class QuoteAnchor:
    """Place of a gold quote in the documents of today, as `anchor_quotes` returns.

    Attributes:
        status: `kept`, `moved`, `split`, `merged` or `gone`.
        finding: Place of the quote now, in words.
        documents: Ids of the documents with the quote, or with its parts in order; empty if it is
            gone.
        span: The place of a label that was kept or moved; None for another one.
    """

    status: str
    finding: str
    documents: tuple[str, ...] = ()
    span: Span | None = None


def anchor_quotes(
    labels: Sequence[GoldQuote], documents: Sequence[Document], names: DocumentNames
) -> list[QuoteAnchor]:
    """Return the anchor of each label, in their order.

    A label is kept if its quote stands where the label says, `moved` if it stands in one other
    place, and `gone` if it stands nowhere. It is `split` if no document has the whole quote but two
    or more have its parts, and if several documents have the whole quote, or one has it twice, so
    that no place can be chosen. Labels of one question are `merged` if they named different
    documents and now have one, or if their places overlap and did not before. White space does not
    count; for parts, case and punctuation do not either. A quote of fewer than four words is `gone`
    if its document lacks it: other documents may have it by chance.

    Args:
        labels: The labels; none give [].
        documents: The documents of today.
        names: Names of these documents.
    """
    by_id = index_by_id(documents)
    homes = [_resolve(label.document, names) for label in labels]
    # most labels still stand in their own document; only the rest needs an index of the corpus
    anchors = []
    for label, home in zip(labels, homes, strict=True):
        anchors.append(None if home is None else _anchor_at_home(label, by_id[home]))
    lost = []
    for label, anchor in zip(labels, anchors, strict=True):
        if anchor is None:
            lost.append(label.text)
    search, placed = _QuoteSearch(documents, lost), []
    for label, anchor in zip(labels, anchors, strict=True):
        placed.append(search.anchor(label) if anchor is None else anchor)
    # last: whether labels are merged depends on the new places of all labels of a question
    return _mark_merged(labels, homes, placed)


def _resolve(name: str, names: DocumentNames) -> str | None:
    """Return the id of the document that a label names; None unless it is one document."""
    ids = names.resolve(name)
    return ids[0] if len(ids) == 1 else None


def _anchor_at_home(label: GoldQuote, document: Document) -> QuoteAnchor | None:
    """Return the anchor of a label in its own document; None if that lacks the quote."""
    text = document.text
    # before the search: a quote that stands twice is kept where its label says, not at its
    # first place
    if label.place is not None and text[slice(*label.place)].split() == label.text.split():
        return _anchor_at("kept", document, label.place, label)
    if (place := locate_quote(label.text, text)) is None:
        return None
    if label.place is None:
        return _anchor_at("kept", document, place, label)
    return _anchor_elsewhere(label, document, place)


def _anchor_elsewhere(label: GoldQuote, document: Document, place: tuple[int, int]) -> QuoteAnchor:
    """Return the anchor of a quote at another place than its label says, in one document."""
    # positions tell the copies apart, so that a choice would be a guess; a label without positions
    # means the quote in the document, and any copy of it will do
    if label.place is not None and _stands_twice(label.text, document.text, place):
        return QuoteAnchor("split", f"stands twice in {document.id}", (document.id,))
    return _anchor_at("moved", document, place, label)


def _anchor_at(
    status: str, document: Document, place: tuple[int, int], label: GoldQuote
) -> QuoteAnchor:
    """Return the anchor of a quote at one place in a document, with this status."""
    span = Span(document.id, *place, label.text)
    finding = f"stands in {document.id}"
    if label.place is not None:
        finding += f" from {span.start} to {span.end}"
    return QuoteAnchor(status, finding, (document.id,), span)


def _stands_twice(quote: str, text: str, place: tuple[int, int]) -> bool:
    """Return True if a quote also stands before or after its first place in a text."""
    start, end = place
    parts = (text[:start], text[end:])
    return any(locate_quote(quote, part) is not None for part in parts)


class _QuoteSearch:
    """Search for quotes and their parts, by an index of the word pairs of these quotes."""

    def __init__(self, documents: Sequence[Document], quotes: Iterable[str]) -> None:
        """Index the documents; without a quote no document is read."""
        self._documents = documents
        # only pairs of the lost quotes: an index of all pairs would be about as large as the corpus
        needed = set[tuple[str, str]]()
        for quote in quotes:
            needed.update(_needed_pairs(unicode_words(quote)))
        self._rows = defaultdict[tuple[str, str], list[int]](list)
        for row, document in enumerate(documents if needed else ()):
            # empty words mark the ends of the document, where a part may have one word alone
            words = ["", *unicode_words(document.text), ""]
            for pair in needed.intersection(pairwise(words)):
                self._rows[pair].append(row)
        # quotes that were lost together share candidates
        self._words_of = cache(self._join_words)

    def _join_words(self, row: int) -> str:
        return f" {' '.join(unicode_words(self._documents[row].text))} "

    def anchor(self, label: GoldQuote) -> QuoteAnchor:
        """Return the anchor of a label whose own document lacks its quote."""
        words = unicode_words(label.text)
        # this also guards `inner[0]`, which a quote of one word does not have
        if len(words) < _SHORTEST:
            return QuoteAnchor("gone", "is not in its document, and too short to be looked for")
        inner = take_items(self._rows, pairwise(words))
        # a document with all pairs may have them in different places: `locate_quote` decides
        rows = sorted(set(inner[0]).intersection(*inner[1:]))
        whole = []
        for document in map(self._documents.__getitem__, rows):
            place = locate_quote(label.text, document.text)
            if place is not None:
                whole.append((document, place))
        if len(whole) == 1:
            # one document, which may still have the quote twice
            return _anchor_elsewhere(label, *whole[0])
        documents, finding = tuple(document.id for document, _ in whole), "stands in each of "
        # parts come after whole quotes: each document with the whole quote has all its parts, too
        if not documents:
            documents, finding = tuple(self._parts(words)), "stands in parts in "
        if not documents:
            return QuoteAnchor("gone", "stands in no document")
        return QuoteAnchor("split", finding + ", ".join(documents), documents)

    def _parts(self, words: Sequence[str]) -> list[str]:
        """Return the ids of two or more documents with the parts of a quote, in its order."""
        # Each part has four words or more, or stands at an end of its document; parts may overlap,
        # as those of chunks do.
        rows = sorted({row for pair in _needed_pairs(words) for row in self._rows[pair]})
        parts, position = list[str](), 0
        while position < len(words):
            # greedy: the longest part from here leaves the fewest parts; the negative row lets the
            # first document of the corpus win a tie
            reaches = [(self._reach(row, words, position), -row) for row in rows]
            reach, row = max(reaches, default=(0, 0))
            # a hole: some words of the quote stand in no part, and its documents do not cover it
            if reach <= position:
                return []
            parts.append(self._documents[-row].id)
            position = reach
        # all parts in one document: the quote itself was edited there, and has no new place
        return parts if len(set(parts)) > 1 else []

    def _reach(self, row: int, words: Sequence[str], position: int) -> int:
        """Return the position behind the longest part of a quote from a word on in a document."""
        text, start, end = self._words_of(row), position, position
        while end < len(words) and f" {' '.join(words[start : end + 1])} " in text:
            end += 1
        if end == position:
            return 0
        # chunks overlap: a short rest of the quote may begin in words that the part before covers,
        # and counts as long enough with them
        while start > 0 and f" {' '.join(words[start - 1 : end])} " in text:
            start -= 1
        part = f" {' '.join(words[start:end])} "
        is_part = end - start >= _SHORTEST or text.startswith(part) or text.endswith(part)
        return end if is_part else 0


def _needed_pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the word pairs of a document that holds a part of a quote: one of them is enough."""
    # A part of one word is looked for at the ends of documents, as the neighbour of an empty word.
    yield from pairwise(words)
    for word in words:
        yield ("", word)
        yield (word, "")


def _mark_merged(
    labels: Sequence[GoldQuote], homes: Sequence[str | None], anchors: Sequence[QuoteAnchor]
) -> list[QuoteAnchor]:
    """Return the anchors, with the labels of a question as merged that now have one place."""
    by_question = defaultdict[str, list[tuple[int, Span, Span]]](list)
    for row, (label, home, anchor) in enumerate(zip(labels, homes, anchors, strict=True)):
        if anchor.span is not None:
            new = anchor.span
            # a label without positions is compared as if it always stood at its new place, so that
            # two of them from one document never count as merged
            old = Span(home or label.document, *(label.place or (new.start, new.end)))
            by_question[label.question].append((row, old, new))
    merged = set[int]()
    for group in by_question.values():
        for one, other in combinations(group, 2):
            if _are_merged(one, other):
                merged.update((one[0], other[0]))
    marked = list(anchors)
    for row in merged:
        finding = f"{anchors[row].finding}, as another label"
        # no span: a merged label must not be written back before a person has read it
        marked[row] = replace(anchors[row], status="merged", finding=finding, span=None)
    return marked


def _are_merged(first: tuple[int, Span, Span], second: tuple[int, Span, Span]) -> bool:
    """Return True if two labels, each as (row, old place, new place), now have one place."""
    (_, old, new), (_, other_old, other_new) = first, second
    if new.document != other_new.document:
        return False
    return old.document != other_old.document or (
        # `>` of truth values: they overlap now, and did not before
        new.overlaps(other_new) > old.overlaps(other_old)
    )
