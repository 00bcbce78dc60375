"""Hits of foreign libraries with ids that the judgements know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from numbers import Integral
from typing import Annotated, Any
from uuid import UUID

from ragbench.data.files.collection import encode_spaces
from ragbench.data.files.rows import id_problem
from ragbench.errors import AdapterError
from ragbench.registry import Option, nearest, shown
from ragbench.signature import fingerprint
from ragbench.types import ScoredDocument

IdField = Annotated[str | None, Option("Metadata key with the ids that the judgements use.")]

_USUAL = ("_id", "id")


class HitReader:
    """Gives hits their ids, and remembers where these come from.

    The id is `metadata[id_field]`, else the id that the library gives, else `_id` or `id` of the
    metadata, else a hash of the text, which no judgement knows: `notes` says so.

    Example:
        >>> reader = HitReader("doc")
        >>> reader.read(own_id="7f3a", text="Io", metadata={"doc": "io"}, score=None).id
        'io'
        >>> reader.read(own_id=None, text="Io", metadata={"dok": 1}, score=None).id[:5]
        'text-'
        >>> reader.notes[1]
        '1 hits have no id: a hash of their text stands in its place; id_field? they have dok'
    """

    def __init__(self, id_field: str | None) -> None:
        self._field = id_field
        self._from: Counter[str] = Counter()
        self._keys: tuple[str, ...] = ()

    def read(
        self, *, own_id: Any, text: str | None, metadata: Mapping[str, Any] | None, score: Any
    ) -> ScoredDocument:
        """Return a hit; it needs an id or a text."""
        known = metadata if isinstance(metadata, Mapping) else {}
        identifier = self._identifier(own_id, text, known)
        title = known.get("title")
        return ScoredDocument(
            identifier, score, text, title if isinstance(title, str) else None, known
        )

    def _identifier(self, own_id: Any, text: str | None, metadata: Mapping[str, Any]) -> str:
        if self._field is not None:
            if _is_known(value := metadata.get(self._field)):
                return str(value)
            self._from["other"] += 1
            self._keys = tuple(map(str, metadata))
        for value in (own_id, *(metadata.get(key) for key in _USUAL)):
            if _is_known(value):
                return str(value)
        if not text:
            raise AdapterError(
                "a hit has neither an id nor a text, allowed: an id, or a text to make one of"
            )
        self._from["hash"] += 1
        self._keys = tuple(map(str, metadata))
        return f"text-{fingerprint([text], 16)}"

    @property
    def notes(self) -> list[str]:
        """Where ids are not what they were asked to be; a sentence each."""
        found, keys = [], ", ".join(self._keys) or "no metadata"
        if count := self._from["other"]:
            close = nearest(self._field or "", self._keys)
            hint = f"; did you mean '{close}'?" if close else ""
            found.append(f"{count} hits have no metadata '{self._field}', but {keys}{hint}")
        if count := self._from["hash"]:
            found.append(
                f"{count} hits have no id: a hash of their text stands in its place; "
                f"id_field? they have {keys}"
            )
        return found


def checked_id(value: Any, owner: str) -> str:
    """Return an id as run files hold it: text, with white space written as in a URL.

    Example:
        >>> checked_id("my doc", "hit 1"), checked_id(7, "hit 1")
        ('my%20doc', '7')
    """
    if not is_id(value):
        raise AdapterError(f"{owner} has the id {shown(value)}, allowed: text")
    # run files are split at white space; ids of a folder of documents are written so, too
    identifier = encode_spaces(str(value))
    if why := id_problem(identifier):
        raise AdapterError(f"{owner}: the id {value!r} {why}")
    return identifier


def is_id(value: Any) -> bool:
    """Whether a value can be an id: a text, a whole number or a UUID."""
    return not isinstance(value, bool) and isinstance(value, (str, Integral, UUID))


def _is_known(value: Any) -> bool:
    return is_id(value) and value != ""
