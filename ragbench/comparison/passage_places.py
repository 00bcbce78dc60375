"""Places of retrieved passages in the documents of a corpus, for gold spans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ragbench.comparison.hit_documents import document_resolver
from ragbench.data.files.gold import QuotedPassages
from ragbench.score.retrieval.base import RetrievedSpans
from ragbench.types import Document, ScoredDocument, Span
from ragbench.types.lookups import index_by_id
from ragbench.types.spans import locate_quote

# Metadata with the start and end of a passage: of chunks by `chunk:`, of LangChain and Chroma, and
# of records.
_STARTS = ("chunk_start", "start_index", "start")
_ENDS = ("chunk_end", "end_index", "end")
# Shorter texts would lose half of their words or more with the two at their ends.
_FEW_WORDS = 4


class PlacedRankings(NamedTuple):
    """Places of the passages of all queries, and the passages without one, by `place_rankings`.

    Attributes:
        spans: Places and gold spans of each query.
        documents: Document of each passage of each query; its own id if no document is known.
        unplaced: (row of the query, rank, id) of each passage that cannot be placed.
    """

    spans: RetrievedSpans
    documents: list[list[str]]
    unplaced: list[tuple[int, int, str]]

    def first(self, k: int) -> PlacedRankings:
        """Return the places of the first k passages of each query."""
        unplaced = []
        for entry in self.unplaced:
            if entry[1] <= k:
                unplaced.append(entry)
        return PlacedRankings(
            RetrievedSpans([places[:k] for places in self.spans.passages], self.spans.gold),
            [names[:k] for names in self.documents],
            unplaced,
        )


def place_rankings(
    rankings: Sequence[Sequence[ScoredDocument]],
    gold: Sequence[Sequence[Span]],
    documents: Sequence[Document] | None,
    *,
    all_queries: bool = False,
) -> PlacedRankings:
    """Return the places of ranked hits in the documents; queries without gold have no places.

    A hit is placed in the document that it names: by the positions in its metadata if its text
    stands there, else at the first place of its text; white space does not matter. One without text
    is the whole document. The text of a hit without a document of the corpus is searched in all
    documents; a gold document of the query comes first. Without a corpus, positions are taken as
    they are, and a hit without them has no place.

    Args:
        rankings: Hits of each query, best first.
        gold: Gold spans of each query.
        documents: Corpus; None without one.
        all_queries: True places the hits of queries without gold as well.
    """
    placer = _Placer(documents)
    passages = []
    for row, gold_spans in enumerate(gold):
        if gold_spans or all_queries:
            for hit in rankings[row]:
                passages.append((row, hit))
    # all texts at once: each search of its own would read the whole corpus
    placer.index(hit for _, hit in passages)
    spans: list[list[Span | None]] = [[] for _ in rankings]
    names: list[list[str]] = [[] for _ in rankings]
    unplaced = []
    for row, hit in passages:
        span = placer.place(hit, gold[row])
        spans[row].append(span)
        names[row].append(placer.document(hit) if span is None else span.document)
        if span is None:
            unplaced.append((row, len(spans[row]), hit.id))
    return PlacedRankings(RetrievedSpans(spans, gold), names, unplaced)


def unplaced_warning(system: str, query_ids: Sequence[str], placed: PlacedRankings) -> list[str]:
    """Return a list with one warning that counts unplaced passages and names one; else [].

    It begins with `system`; the rows of `placed` are those of `query_ids`.
    """
    if not placed.unplaced:
        return []
    row, _, name = placed.unplaced[0]
    n_passages = sum(map(len, placed.documents))
    n_queries = len({row for row, _, _ in placed.unplaced})
    return [
        f"{system}: {len(placed.unplaced)} of {n_passages} passages stand in no document of the "
        f"corpus, such as '{name}' of '{query_ids[row]}': {n_queries} of "
        f"{sum(map(bool, placed.spans.gold))} queries have no value by measures of spans that "
        "reach one (unplaced_passage)"
    ]


class _Placer:
    """Search for the places of hits in a corpus; without documents, by their metadata alone."""

    def __init__(self, documents: Sequence[Document] | None) -> None:
        self._documents = documents or ()
        self._by_id: Mapping[str, Document] | None = None
        if documents is not None:
            self._by_id = index_by_id(documents)
        self._resolve = document_resolver(self._documents)
        self._holders = dict[str, list[str]]()

    def index(self, hits: Iterable[ScoredDocument]) -> None:
        """Search the corpus for the texts of all hits whose document is unknown."""
        if self._by_id is None:
            return
        texts = dict.fromkeys(
            hit.text for hit in hits if hit.text and self.document(hit) not in self._by_id
        )
        if texts:
            quoted = QuotedPassages(texts, self._documents)
            self._holders = {text: quoted.place(_whole_words(text))[0] for text in texts}

    def place(self, hit: ScoredDocument, gold: Iterable[Span]) -> Span | None:
        """Return the place of a hit; None if its document or its place is unknown."""
        name, place = self.document(hit), _positions(hit)
        # without a corpus there is no text to compare with: positions are trusted
        if self._by_id is None:
            return None if place is None else Span(name, *place)
        if name in self._by_id:
            return _place_in(self._by_id[name], hit, place)
        holders, of_gold = self._holders.get(hit.text or "", ()), {span.document for span in gold}
        # positions count within a document, and it is not certain which one they belong to
        placed = []
        for holder in holders:
            span = _place_in(self._by_id[holder], hit, None)
            if span is not None:
                placed.append(span)
        # a boilerplate text stands in many documents: taking another one would be a false miss
        return max(placed, key=lambda span: span.document in of_gold, default=None)

    def document(self, hit: ScoredDocument) -> str:
        """Return the id of the document of a hit, or its own id if no document is known."""
        if hit.document is not None or self._by_id is None:
            return hit.document or str(hit.metadata.get("document", hit.id))
        if hit.id in self._by_id:
            return hit.id
        return self._resolve(hit) or hit.id


def _whole_words(text: str) -> str:
    """Return a text without its first and last word; a text of up to four words as it is."""
    # a chunk of so many characters may begin and end within words, which the index lacks
    words = text.split()
    return " ".join(words[1:-1]) if len(words) > _FEW_WORDS else text


def _positions(hit: ScoredDocument) -> tuple[int, int] | None:
    """Return start and end of a hit by its metadata; None if they are unknown or impossible."""
    start = next((hit.metadata[key] for key in _STARTS if key in hit.metadata), None)
    end = next((hit.metadata[key] for key in _ENDS if key in hit.metadata), None)
    if end is None and isinstance(start, int) and hit.text:
        end = start + len(hit.text)
    # `True` is an int, and LangChain writes -1 for a text that it did not find
    return (start, end) if type(start) is type(end) is int and 0 <= start <= end else None


def _place_in(
    document: Document, hit: ScoredDocument, place: tuple[int, int] | None
) -> Span | None:
    """Return the place of a hit in its document; None if its text does not stand there."""
    if hit.text is None:
        return Span(document.id, 0, len(document.text))
    # positions may count bytes or tokens, or belong to another version of the document
    if place is not None and document.text[slice(*place)].split() == hit.text.split():
        return Span(document.id, *place)
    if not hit.text.strip():
        # a blank passage holds nothing; unplaced, it would take the value from the whole query
        return Span(document.id, 0, 0)
    # some systems put the title before the text
    texts = (hit.text, hit.text.removeprefix(document.title))
    place = next(filter(None, (locate_quote(text, document.text) for text in texts)), None)
    return None if place is None else Span(document.id, *place)
