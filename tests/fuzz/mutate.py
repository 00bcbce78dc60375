"""Inputs made of a corpus: bytes changed, cut, doubled, joined, and words of the formats put in."""

from __future__ import annotations

import random
from collections.abc import Sequence

_WORDS = (
    *(
        b'"',
        b"'",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"\n",
        b"\t",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(
        b"NaN",
        b"Infinity",
        b"-1",
        b"1e999",
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'""',
        b"- ",
        b"&a ",
        b"*a",
    ),
    *(
        b"<<: ",
        b"!!python/object",
        b"\\ud800",
        b"\xed\xa0\x80",
        b"9" * 400,
        b"[" * 3_000,
        b'{"a":' * 2_000,
    ),
)


def mutated(corpus: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a change of one of the inputs."""
    data = bytearray(rng.choice(corpus))
    # mostly one change: a reader refuses an input of many changes early
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        position = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0 and data:
            data[position % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[position:position] = rng.choice(_WORDS)
        elif kind == 2:
            del data[position : position + rng.randrange(1, 20)]
        elif kind == 3:
            data[position:position] = data[position : position + rng.randrange(1, 60)]
        elif kind == 4:
            other = rng.choice(corpus)
            start = rng.randrange(len(other) + 1)
            # the head of one input with the tail of another, which may be of another kind
            data[position:] = other[start:]
        elif kind == 5:
            del data[position:]
        else:
            word = rng.choice(_WORDS)
            data[position : position + len(word)] = word
    return bytes(data)
