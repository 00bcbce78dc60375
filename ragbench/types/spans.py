"""Spans: parts of documents by position, and the rule that finds a quoted text in a document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from ragbench.errors import DataError
from ragbench.signature import fingerprint
from ragbench.types.json_fields import Prose, Record, optional


class Span(Record, kw_only=False):
    """Part of the text of a document: gold evidence, or a retrieved passage.

    Creating one raises DataError unless 0 <= start <= end.

    Attributes:
        document: Id of the document.
        start: Position of the first character in the text of the document (without its title),
            from 0.
        end: Position after the last character.
        quote: Text of the span as its source quotes it; empty if the source has positions alone.
    """

    document: str
    start: int
    end: int
    quote: Prose = optional("")

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            problem = f"span of '{self.document}': start {self.start}, end {self.end}"
            raise DataError(problem, allowed="0 <= start <= end, in characters")

    @property
    def label(self) -> str:
        """Document and positions, such as `io.md 32-58`."""
        return f"{self.document} {self.start}-{self.end}"

    def overlaps(self, other: Span) -> bool:
        """Return True if two spans have a character of one document in common."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return self.document == other.document and start < end


def name_alternatives(spans: Iterable[Span]) -> str:
    """Return a name for spans of which one is as good as another: their labels, or the first two.

    Equal spans count once. The name begins with the label of the first span.

    Example:
        >>> name_alternatives([Span("a", 0, 9), Span("b", 4, 13)])
        'a 0-9 or b 4-13'
        >>> name_alternatives([Span(name, 0, 9) for name in "abcd"])
        'a 0-9, b 0-9 or 2 more'
    """
    labels = list(dict.fromkeys(span.label for span in spans))
    if len(labels) > 2:
        labels = [", ".join(labels[:2]), f"{len(labels) - 2} more"]
    return " or ".join(labels)


def is_named_first(span: Span, name: str) -> bool:
    """Return True if a name of `name_alternatives` begins with a span, or is its label.

    Example:
        >>> is_named_first(Span("a", 0, 9), "a 0-9 or b 4-13"), is_named_first(Span("a", 0, 9), "a")
        (True, False)
    """
    return name.startswith((f"{span.label} or ", f"{span.label}, ")) or name == span.label


def locate_quote(quote: str, text: str) -> tuple[int, int] | None:
    r"""Return start and end of the first place of a quote in a text; None if it stands nowhere.

    Case and punctuation count. A run of white space equals any other one, and white space at the
    ends of the quote is left out. A place that equals the quote character by character comes before
    one with other white space. A blank quote stands nowhere. The end is exclusive.

    Example:
        >>> locate_quote("hot and dry", "Io is hot and\n  dry.")
        (6, 19)
    """
    words = quote.split()
    if not words:
        return None
    # most texts are copies, and a search for one is a hundred times faster than a pattern
    start = text.find(quote.strip())
    if start >= 0:
        return start, start + len(quote.strip())
    # escaped words: a quote may have brackets or dots, which are no pattern
    match = re.search(r"\s+".join(map(re.escape, words)), text)
    return None if match is None else match.span()


def spans_fingerprint(spans: Iterable[Span]) -> str:
    """Return a hash of gold spans, in any order: of their quotes, else of their positions.

    It has 12 hexadecimal digits. A quote that moves within its document keeps the hash. A span that
    comes twice changes the hash.
    """
    # by quote, so that an edit elsewhere in a document does not make it another test set
    rows = []
    for span in spans:
        rows.append((span.document, span.quote or f"{span.start}:{span.end}"))
    return fingerprint(chain.from_iterable(sorted(rows)))


def count_characters(spans: Iterable[Span]) -> int:
    """Return the number of characters in the union of spans: those of an overlap count once.

    Characters of different documents are different ones.

    Example:
        >>> count_characters([Span("a", 0, 4), Span("a", 2, 6), Span("b", 0, 1)])
        7
    """
    total, ends = 0, dict[str, int]()
    # one sort for all documents is enough: `ends` has a position for each of them
    for span in sorted(spans, key=lambda span: span.start):
        # the part of the span behind all earlier spans of its document
        end = ends.get(span.document, 0)
        total += max(span.end - max(span.start, end), 0)
        ends[span.document] = max(span.end, end)
    return total
