"""Signatures, lines of everything that a number depends on, and fingerprints of content.

    ndcg@10|gain:linear|ties:docid|missing:zero|no_relevant:skip|qrels:3f1c9a|v:1

Two numbers may be compared if and only if their signatures are equal and no part is a mixture, such
as `model:mixture(a+b)`: verdicts of two models in one column. The version in a signature is the
version of the DEFINITION, which changes only when numbers change. The version of the package is in
the manifest and is not compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Start of the value of a part in which the values of one score differ: `mixture(a+b)`.
_MIXTURE = "mixture("
_BLOCK = 1 << 20  # bytes of a file that are read at once


@dataclass(frozen=True, slots=True)
class Signature:
    """Name of a score with the parts that it depends on, as (key, value) in order.

    Equal parts in another order are another signature.

    Example:
        >>> str(Signature("bleu", (("tokenize", "13a"), ("v", "1"))))
        'bleu|tokenize:13a|v:1'
        >>> Signature.parse("bleu|tokenize:13a|v:1") == Signature.of("bleu", tokenize="13a", v=1)
        True
    """

    name: str
    parts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, **parts: Any) -> Signature:
        """Build a signature; a part that is None is left out, True and False become yes and no.

        Other values become text, in which `|` and line breaks are escaped.
        """
        texts = []
        for key, value in parts.items():
            if value is None:
                continue
            text = str(value)
            if isinstance(value, bool):
                text = "yes" if value else "no"
            texts.append((key, text.replace("|", "%7C").replace("\n", "%0A")))
        return cls(name, tuple(texts))

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Parse the text of a signature; a part without a colon has an empty value."""
        name, *parts = text.split("|")
        pairs = []
        for part in parts:
            key, _, value = part.partition(":")
            pairs.append((key, value))
        return cls(name, tuple(pairs))

    @property
    def mixtures(self) -> list[str]:
        """Parts in which the values of the score differ; see `mixture`.

        Example:
            >>> Signature.of("coherence", model=mixture(["a", "b"]), v=1).mixtures
            ['model']
        """
        parts = []
        for part, value in self.parts:
            if value.startswith(_MIXTURE):
                parts.append(part)
        return parts

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.parts)])

    def part(self, name: str) -> str | None:
        """Return the value of a part; None if the signature lacks it.

        Example:
            >>> Signature.parse("bleu|tokenize:13a|v:1").part("tokenize")
            '13a'
        """
        return dict(self.parts).get(name)

    def with_parts(self, **parts: Any) -> Signature:
        """Return a signature with further parts at its end; those that are None are left out."""
        return Signature(self.name, self.parts + Signature.of("", **parts).parts)

    def replacing(self, **parts: Any) -> Signature:
        """Return a signature with other values of existing parts; new parts are ignored.

        A part whose new value is None stays as it is.

        Example:
            >>> str(Signature.of("map", qrels="3f1c", v=1).replacing(qrels="none", gain="exp"))
            'map|qrels:none|v:1'
        """
        replacements = dict(Signature.of("", **parts).parts)
        return Signature(
            self.name, tuple((key, replacements.get(key, old)) for key, old in self.parts)
        )

    def without(self, parts: Collection[str]) -> Signature:
        """Return a signature without some parts; names that it lacks are ignored.

        Example:
            >>> str(Signature.of("map", qrels="3f1c", v=1).without({"qrels", "gold"}))
            'map|v:1'
        """
        return Signature(self.name, tuple(part for part in self.parts if part[0] not in parts))

    def differences(self, other: Signature) -> list[tuple[str, str | None, str | None]]:
        """Return (part, own value, other value) for each difference; the name is the part "".

        A part that one signature lacks has the value None there. Order makes no difference.
        """
        own_parts = {"": self.name, **dict(self.parts)}
        other_parts = {"": other.name, **dict(other.parts)}
        differences = []
        for key in dict.fromkeys([*own_parts, *other_parts]):
            value, other_value = own_parts.get(key), other_parts.get(key)
            if value != other_value:
                differences.append((key, value, other_value))
        return differences


def mixture(values: Iterable[str]) -> str:
    """Return the value of a part that is not the same for all values of a score: `mixture(a+b)`.

    A score with such a part is compared with no other, not even with one of the same mixture.
    """
    return f"{_MIXTURE}{'+'.join(values)})"


def order_key(seed: int, identifier: str) -> str:
    """Return a sort key (12 hexadecimal digits) that puts identifiers into a random order.

    The order of two identifiers does not depend on the others, so that samples stay stable.

    Example:
        >>> sorted(["q1", "q2", "q3"], key=lambda query: order_key(13, query))
        ['q3', 'q1', 'q2']
    """
    return fingerprint([str(seed), identifier])


def fingerprint(pieces: Iterable[bytes | str], length: int = 12) -> str:
    """Return the first `length` (at most 64) hexadecimal digits of a SHA-256 over pieces.

    Moving text between pieces changes the fingerprint.

    Example:
        >>> fingerprint(["ab", "c"]) == fingerprint(["a", "bc"])
        False
    """
    digest = hashlib.sha256()
    for piece in pieces:
        data = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:length]


def fingerprint_unordered(rows: Iterable[Iterable[str]], length: int = 12) -> str:
    """Return the fingerprint of rows of texts, whatever the order of the rows.

    A repeated row counts as often as it stands there; the order of the texts in a row counts.

    Example:
        >>> one = fingerprint_unordered([["q1", "Io"], ["q2", "Europa"]])
        >>> one == fingerprint_unordered([["q2", "Europa"], ["q1", "Io"]])
        True
    """
    return fingerprint(sorted(fingerprint(row, 64) for row in rows), length)


def file_digest(path: Path) -> bytes:
    """Return the SHA-256 of the bytes of a file; raise an OSError if it cannot be read."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.digest()


def fingerprint_json(value: Any, length: int = 12) -> str:
    """Return the fingerprint of a JSON-like value; the order of keys does not matter.

    Values that JSON lacks count by their text. Keys that JSON lacks raise TypeError.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return fingerprint([text], length)
