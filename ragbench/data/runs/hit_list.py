"""Hits of one query: passages as they were retrieved, with their places, their gold and readers.

A run folder has a ranking of documents, as measures score it. Where hits are passages, `hits/` adds
the passages themselves; this module joins them with the passages that an answer was made from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from msgspec import structs

from ragbench.data.runs.run_lines import Texts
from ragbench.records.manifest import ANSWER, HitsRow, StoredHit, TextRow
from ragbench.types import Document, FloatArray, Span
from ragbench.types.lookups import index_by_id
from ragbench.types.spans import is_named_first

# Number of characters of one text that a run folder stores.
LONGEST_TEXT = 8_000


class Hit(NamedTuple):
    """Retrieved passage of a ranking: a document, or a part of one.

    Attributes:
        rank: From 1, in the order that was scored; None for a passage that the system read and the
            ranking lacks.
        id: Id of the passage itself.
        score: Score of the retriever, higher is better; None without a rank.
        grade: Grade of the judgement of its document; None if that is not judged.
        title: Title of the passage; empty without one.
        text: Text of the passage itself; None if the run folder does not hold it: only texts near
            the top are stored.
        cut: True if the text continues.
        read: Numbers of the passage in the prompt, from 1; empty if the generator did not get it,
            and for a retriever alone.
        document: Id of its document; None if it is not known.
        start: Position of its first character in the document; None for a whole document, and if
            the place is not known.
        end: Position after the last character.
        gold: Names of the gold that it meets: a document, a span with its alternatives as
            `name_alternatives` writes them, or `answer` for the words of a gold answer.
        is_beside: True for a passage of a gold document that does not meet the gold span in it, or
            whose place is not known.
        is_forbidden: True for a passage that must never come up.
    """

    rank: int | None
    id: str
    score: float | None
    grade: int | None = None
    title: str = ""
    text: str | None = None
    cut: bool = False
    read: tuple[int, ...] = ()
    document: str | None = None
    start: int | None = None
    end: int | None = None
    gold: tuple[str, ...] = ()
    is_beside: bool = False
    is_forbidden: bool = False

    @property
    def place(self) -> str:
        """Place in the document, as `250 to 480`; empty for a whole document or if unknown."""
        return "" if self.start is None else f"{self.start} to {self.end}"

    @property
    def label(self) -> str:
        """Name for a reader, as `io.md 250 to 480`; without a document the id and first words."""
        if self.document is not None:
            return f"{self.document} {self.place}".rstrip()
        words = " ".join((self.text or "").split())
        start = words if len(words) <= _LABEL else f"{words[:_LABEL]}..."
        return f'{self.id} "{start}"' if start else self.id

    @property
    def mark(self) -> str:
        """Relation to the gold in words, or that the hit is forbidden; empty for other hits.

        Of a whole document the grade tells it, and the mark is empty.
        """
        if self.is_forbidden:
            return "must never come up"
        if self.gold == (ANSWER,):
            return "has the gold answer"
        spans = []
        for name in self.gold:
            if name != self.document:
                spans.append(name)
        if spans:
            return f"has gold {', '.join(spans)}"
        if not self.is_beside:
            return ""
        return f"right document, {'place unknown' if self.start is None else 'other passage'}"


# Characters of a passage that stand in for the name of an unknown document.
_LABEL = 40


class StoredRanking:
    """Ranking of a query in a run folder; ids and scores are decoded when they are read.

    Attributes:
        source: System that has the ranking, as `ranking_of` names it.
        row: Passages, places and gold; None for a ranking of documents whose gold is documents.
    """

    def __init__(
        self, source: str, documents: str, values: FloatArray, row: HitsRow | None
    ) -> None:
        """Take the hits of a run file, best first.

        Args:
            source: System that has the ranking.
            documents: Ids of the hits, joined by line ends.
            values: Score of each hit.
            row: Row of the query in `hits/`; None without one.
        """
        self.source, self.row = source, row
        self._documents, self._values = documents, values

    @classmethod
    def of(cls, source: str, scores: Mapping[str, float], row: HitsRow | None) -> StoredRanking:
        """Return the ranking of id -> score of a run file, best first, and its row in `hits/`."""
        return cls(source, "\n".join(scores), np.array([*scores.values()], np.float64), row)

    @cached_property
    def scores(self) -> Mapping[str, float]:
        """Score of each hit."""
        return dict(self.first(len(self._values)))

    @cached_property
    def ids(self) -> Sequence[str]:
        """Ids of the hits, in the order that was scored."""
        if self.row is None:
            return list(self.scores)
        names = {hit.id for hit in self.row.hits}
        ids = []
        for name in self.scores:
            if name not in names:
                ids.append(name)
        # hits of equal scores: a run file does not tell in which order they were scored
        for hit in sorted(self.row.hits, key=lambda hit: hit.rank):
            ids.insert(hit.rank - 1, hit.id)
        return ids

    def first(self, n: int) -> list[tuple[str, float]]:
        """Return id and score of the first n hits of the run file."""
        names = self._documents.split("\n", n) if self._documents else []
        return list(zip(names, self._values[:n].tolist(), strict=False))

    def gold_ranks(self, names: Iterable[str]) -> dict[str, int]:
        """Return the rank of the first hit that meets each gold, by its name; 0 without one."""
        if self.row is not None:
            ranks = dict.fromkeys(names, 0)
            for hit in sorted(self.row.hits, key=lambda hit: -hit.rank):
                for name in hit.gold:
                    if name in ranks:
                        ranks[name] = hit.rank
            return ranks
        # in the text: a ranking has many hits, and few are gold
        text, ranks = f"\n{self._documents}\n", {}
        for name in names:
            place = text.find(f"\n{name}\n")
            ranks[name] = text.count("\n", 0, place + 1)
        return ranks


def gold_names(
    judged: Mapping[str, int], spans: Sequence[Span], rankings: Iterable[StoredRanking]
) -> dict[str, int]:
    """Return the names of the gold of a query, as `Hit.gold` has them, with their grades.

    They are its gold documents; of a document with gold spans, the spans that a ranking can meet.
    The best grade comes first.
    """
    needs: Sequence[str] = sorted(name for name, grade in judged.items() if grade > 0)
    for ranking in rankings:
        if ranking.row is not None and ranking.row.needs not in ((), (ANSWER,)):
            needs = ranking.row.needs
            break
    grades = dict(judged)
    for name, span in product(needs, spans):
        if is_named_first(span, name):
            grades[name] = judged.get(span.document, 0)
    return {name: grades.get(name, 0) for name in sorted(needs, key=lambda n: -grades.get(n, 0))}


def list_hits(
    ranking: StoredRanking,
    judged: Mapping[str, int],
    spans: Sequence[Span],
    texts: Texts,
    depth: int | None = None,
    more: Collection[str] = (),
) -> list[Hit]:
    """Return the hits of a query with their own texts, best first.

    Args:
        ranking: The ranking.
        judged: Grades of the judged documents.
        spans: Gold spans of the query.
        texts: Stored texts of the query.
        depth: Number of hits; None for all.
        more: Ids of hits that are returned at any rank.
    """
    stored = {} if ranking.row is None else index_by_id(ranking.row.hits)
    with_spans = {span.document for span in spans}
    has_texts = bool(texts)
    # the first hits alone, unless a system read others: rankings may be long
    ids = ranking.ids if depth is None or more else ranking.ids[:depth]
    hits = []
    for rank, name in enumerate(ids, start=1):
        if depth is not None and rank > depth and name not in more:
            continue
        passage = stored.get(name)
        document = _document_of(name, ranking, passage, judged)
        grade = judged.get(document or name)
        title, text, is_cut = "", None, False
        if has_texts:
            row = _own_text(texts, ranking.source, name, document, passage)
            title, text, is_cut = text_fields(row)
        is_gold_document = grade is not None and grade > 0
        start, end, is_beside = None, None, False
        gold: tuple[str, ...] = ()
        if passage is not None:
            start, end, gold = passage.start, passage.end, passage.gold
            is_beside = is_gold_document and document in with_spans and not gold
        elif ranking.row is None and is_gold_document:
            gold = (name,)
        score, forbidden = ranking.scores.get(name), passage is not None and passage.forbidden
        fields = rank, name, score, grade, title, text, is_cut, (), document, start, end, gold
        hits.append(Hit(*fields, is_beside, forbidden))
    return hits


def _document_of(
    name: str, ranking: StoredRanking, passage: StoredHit | None, judged: Mapping[str, int]
) -> str | None:
    """Return the document of a hit; None if it is not known."""
    if ranking.row is None:
        return name
    if passage is not None and passage.document is not None:
        return passage.document
    return name if name in judged else None


def _own_text(
    texts: Texts, source: str, name: str, document: str | None, passage: StoredHit | None
) -> TextRow | None:
    """Return the text of a passage itself, not of its document; None if it is not stored."""
    row = texts(source, name)
    if passage is None or passage.start is None or passage.end is None or document is None:
        return row
    if row is not None and (name != document or row.system is not None):
        return row
    # the passage has the id of its document, or only the text of the document is stored
    whole = row or texts(None, document)
    text = "" if whole is None else whole.text or ""
    if whole is None or passage.start > len(text):
        return None
    part, is_cut = text[passage.start : passage.end], whole.cut and passage.end > len(text)
    return structs.replace(whole, title=whole.title if row else None, text=part, cut=is_cut)


def text_fields(passage: Document | TextRow | None) -> tuple[str, str | None, bool]:
    """Return (title, text, whether the text is cut); ('', None, False) for None."""
    if passage is None:
        return "", None, False
    return passage.title or "", passage.text, isinstance(passage, TextRow) and passage.cut


def join_contexts(hits: Sequence[Hit], contexts: Sequence[Document]) -> list[int | None]:
    """Return for each passage of an answer its index in `hits`; None if it is none of the hits.

    A passage is the hit with its id and text, else the one with its id, else the one with its text;
    white space does not matter. Passages with one text, as one that was read twice, may be one hit;
    others never are.
    """
    joined: dict[int, int] = {}
    for key in (_id_and_text, _id, _text):
        free = []
        for place, hit in enumerate(hits):
            if place not in joined.values():
                free.append((place, hit))
        places = defaultdict[Hashable, list[int]](list)
        for place, hit in reversed(free):
            places[key(hit)].append(place)
        for number, context in _unjoined(contexts, joined):
            name = key(context)
            if name is not None and places[name]:
                joined[number] = places[name].pop()
    # passages that were read twice
    texts = {}
    for number, place in joined.items():
        texts[_text(contexts[number])] = place
    for number, context in _unjoined(contexts, joined):
        if _text(context) is not None and _text(context) in texts:
            joined[number] = texts[_text(context)]
    return [joined.get(number) for number in range(len(contexts))]


def _unjoined(
    contexts: Sequence[Document], joined: Mapping[int, int]
) -> list[tuple[int, Document]]:
    """Return number and passage of the contexts without a hit."""
    pairs = []
    for number, context in enumerate(contexts):
        if number not in joined:
            pairs.append((number, context))
    return pairs


def _id_and_text(passage: Hit | Document) -> Hashable:
    """Return id and text; None without a text."""
    text = _text(passage)
    return None if text is None else (passage.id, text)


def _id(passage: Hit | Document) -> Hashable:
    """Return the id."""
    return passage.id


def _text(passage: Hit | Document) -> Hashable:
    """Return the text with single blanks, as far as a run folder stores it; None for no words."""
    return " ".join((passage.text or "")[:LONGEST_TEXT].split()) or None


def mark_read(
    hits: Sequence[Hit], contexts: Sequence[Document], judged: Collection[str] = ()
) -> tuple[Hit, ...]:
    """Return the hits with the numbers under which an answer got them, then its other passages.

    The texts of read passages are those of the answer, which are whole; stored ones may be cut.
    Another passage whose id is among those of `judged` documents is the document.
    """
    read: dict[int, list[int]] = defaultdict(list)
    passages = []
    for number, place in enumerate(join_contexts(hits, contexts), start=1):
        context = contexts[number - 1]
        if place is None:
            other = Hit(None, context.id, None, None, *text_fields(context), (number,))
            document = context.id if context.id in judged else None
            passages.append(other._replace(document=document))
        else:
            read[place].append(number)
    marked = list(hits)
    for place, numbers in read.items():
        hit, context = hits[place], contexts[numbers[0] - 1]
        hit = hit._replace(title=context.title or hit.title, text=context.text, cut=False)
        marked[place] = hit._replace(read=tuple(numbers))
    return (*marked, *passages)
