"""Signatures: everything that a number depends on, in one line that can be compared.

    ndcg@10|gain:linear|ties:docid|missing:zero|no_relevant:skip|qrels:3f1c9a|v:1

Two numbers may be compared if and only if their signatures are equal. The version in a signature
is that of the DEFINITION, which moves only when numbers move; the package version is in the
manifest and is not compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a score and the parts that it depends on.

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
        """Build a signature; None leaves a part out, true and false read yes and no."""
        said = ((key, _word(value)) for key, value in parts.items() if value is not None)
        return cls(name, tuple(said))

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read what `str` wrote."""
        name, *parts = text.split("|")
        pairs = (part.partition(":") for part in parts)
        return cls(name, tuple((key, value) for key, _, value in pairs))

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.parts)])

    def part(self, name: str) -> str | None:
        """Return what a part says; None where the signature does not have it.

        Example:
            >>> Signature.parse("bleu|tokenize:13a|v:1").part("tokenize")
            '13a'
        """
        return dict(self.parts).get(name)

    def with_parts(self, **parts: Any) -> Signature:
        """Return a signature with further parts at its end."""
        return Signature(self.name, self.parts + Signature.of("", **parts).parts)

    def replacing(self, **parts: Any) -> Signature:
        """Return a signature with other values of the parts that it has.

        Example:
            >>> str(Signature.of("map", qrels="3f1c", v=1).replacing(qrels="none", gain="exp"))
            'map|qrels:none|v:1'
        """
        new = dict(Signature.of("", **parts).parts)
        return Signature(self.name, tuple((key, new.get(key, old)) for key, old in self.parts))

    def differences(self, other: Signature) -> list[tuple[str, str | None, str | None]]:
        """List (part, here, there) for every part in which two signatures differ."""
        mine, theirs = {"": self.name, **dict(self.parts)}, {"": other.name, **dict(other.parts)}
        keys = dict.fromkeys([*mine, *theirs])
        return [(k, mine.get(k), theirs.get(k)) for k in keys if mine.get(k) != theirs.get(k)]


def _word(value: Any) -> str:
    """A part's value as one word; the two separators cannot occur in it."""
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return text.replace("|", "%7C").replace("\n", "%0A")


def order_key(seed: int, identifier: str) -> str:
    """Return what sorts identifiers into an order that depends on them and the seed alone.

    Example:
        >>> sorted(["q1", "q2", "q3"], key=lambda query: order_key(13, query))
        ['q3', 'q1', 'q2']
    """
    return fingerprint([str(seed), identifier])


def fingerprint(pieces: Iterable[bytes | str], length: int = 12) -> str:
    """Return the first hexadecimal digits of a SHA-256 over pieces of content.

    Each piece is preceded by its length, so that moving a border changes the fingerprint.

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


def fingerprint_json(value: Any, length: int = 12) -> str:
    """Fingerprint a JSON-like value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return fingerprint([text], length)
