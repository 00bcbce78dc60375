"""Gold of a query as pieces of evidence: documents as a whole, and spans of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragbench.types import Span


@dataclass(frozen=True, slots=True)
class GoldPiece:
    """Piece of evidence for the answer to a query: a document as a whole, or a span of it.

    Attributes:
        document: Id of the document.
        grade: Grade of the document.
        span: Part of the document that has the evidence; None for the whole document.
        need: Name of what the piece provides. Pieces with one name are alternatives: a query that
            needs all of its gold needs one piece of each name.
    """

    document: str
    grade: int
    span: Span | None
    need: str

    def is_met_by(self, document: str | None, place: Span | None) -> bool:
        """Return True if a passage of a document, at a place in it, has any of the evidence."""
        if self.span is None:
            return document == self.document
        return place is not None and place.overlaps(self.span)


def gold_pieces(
    grades: Mapping[str, int], spans: Iterable[Span] = (), relevant: int = 1
) -> list[GoldPiece]:
    """Return the pieces of evidence of a query: its spans, and relevant documents without a span.

    Spans of documents that are not relevant are left out. Spans with one quote are alternatives, as
    where two relevant documents hold a sentence.

    Args:
        grades: Grade of each judged document.
        spans: Gold spans.
        relevant: Smallest grade of a relevant document.

    Example:
        >>> pieces = gold_pieces({"a": 1, "b": 2, "c": 0}, [Span("a", 0, 9, "Pay day.")])
        >>> [(piece.document, piece.need) for piece in pieces]
        [('a', 'a 0-9'), ('b', 'b')]
    """
    pieces, names = list[GoldPiece](), dict[str, str]()
    for span in spans:
        if grades.get(span.document, relevant - 1) >= relevant:
            # white space may differ between two documents that hold a quote
            quote = " ".join(span.quote.split()) or span.label
            need = names.setdefault(quote, span.label)
            pieces.append(GoldPiece(span.document, grades[span.document], span, need))
    with_span = {piece.document for piece in pieces}
    for document, grade in grades.items():
        if grade >= relevant and document not in with_span:
            pieces.append(GoldPiece(document, grade, None, document))
    return pieces


def met_ranks(
    pieces: Sequence[GoldPiece], hits: Iterable[tuple[str | None, Span | None]]
) -> tuple[tuple[tuple[int, str], ...], tuple[int, ...]]:
    """Return (rank and need of each need that is met, best first; ranks of the gold documents).

    Args:
        pieces: Pieces of evidence of a query.
        hits: Document and place of each hit, best first; None where they are unknown.

    Example:
        >>> pieces = gold_pieces({"a": 1}, [Span("a", 0, 9)])
        >>> met_ranks(pieces, [("a", Span("a", 9, 20)), ("a", Span("a", 5, 20))])
        (((2, 'a 0-9'),), (1, 2))
    """
    first, documents = dict[str, int](), {piece.document for piece in pieces}
    document_ranks = list[int]()
    for rank, (document, place) in enumerate(hits, start=1):
        if document in documents:
            document_ranks.append(rank)
        for piece in pieces:
            if piece.need not in first and piece.is_met_by(document, place):
                first[piece.need] = rank
    ranks = sorted((rank, need) for need, rank in first.items())
    return tuple(ranks), tuple(document_ranks)
