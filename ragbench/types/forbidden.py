"""Documents that must never come up for a question: superseded, revoked, or of another tenant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.signature import fingerprint, fingerprint_unordered
from ragbench.types.ids import id_text
from ragbench.types.spans import Span, spans_fingerprint


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Documents, metadata and spans that must never come up for one question.

    The constructor checks nothing. `one | other` has those of both.

    Attributes:
        documents: Ids of documents.
        fields: Pairs of a field of the metadata and its value as text: all documents with this
            value are forbidden.
        spans: Parts of documents; a passage is forbidden if it has a character of one.
    """

    documents: frozenset[str] = frozenset()
    fields: frozenset[tuple[str, str]] = frozenset()
    spans: tuple[Span, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.documents or self.fields or self.spans)

    def __or__(self, other: Forbidden) -> Forbidden:
        spans = dict.fromkeys((*self.spans, *other.spans))
        documents, fields = self.documents | other.documents, self.fields | other.fields
        return Forbidden(documents, fields, tuple(spans))

    def has_metadata(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if one of the fields has its forbidden value in the metadata of a document.

        A list has each of its values. True and False equal the texts in any case, 7 and 7.0 the
        text `7`.

        Example:
            >>> forbidden = Forbidden(fields=frozenset({("tenant", "b")}))
            >>> forbidden.has_metadata({"tenant": ["a", "b"]}), forbidden.has_metadata({})
            (True, False)
        """
        for field, value in self.fields:
            items = metadata.get(field)
            values = items if isinstance(items, (list, tuple, set, frozenset)) else [items]
            if any(_equals(item, value) for item in values):
                return True
        return False

    @property
    def labels(self) -> list[str]:
        """Ids, `field=value` and spans as texts, each group sorted."""
        fields = []
        for field, value in sorted(self.fields):
            fields.append(f"{field}={value}")
        return [*sorted(self.documents), *fields, *(span.label for span in self.spans)]

    def fingerprint(self) -> str:
        """Return a hash that does not depend on any order, in 12 hexadecimal digits."""
        fields = []
        for field, value in sorted(self.fields):
            fields.append(f"{field}={value}")
        spans = spans_fingerprint(self.spans) if self.spans else ""
        return fingerprint([*sorted(self.documents), "fields", *fields, "spans", spans])


def _equals(item: object, value: str) -> bool:
    """Return True if a value of metadata equals a text."""
    if isinstance(item, bool):
        return value.casefold() == str(item).casefold()
    try:
        return id_text(item) == value
    except ValueError:
        return item is not None and str(item) == value


NOTHING_FORBIDDEN = Forbidden()


def forbidden_fingerprints(
    forbidden: Mapping[str, Forbidden], ids: Iterable[str]
) -> dict[str, str]:
    """Return query -> fingerprint of its forbidden documents, for those of `ids` that have any."""
    prints = {}
    for query in ids:
        if of_query := forbidden.get(query):
            prints[query] = of_query.fingerprint()
    return prints


def forbidden_print(forbidden: Mapping[str, Forbidden]) -> str:
    """Return a hash of the forbidden documents of all queries, in any order of these."""
    return fingerprint_unordered([query, f.fingerprint()] for query, f in forbidden.items())
