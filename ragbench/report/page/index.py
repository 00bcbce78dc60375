"""The index of a page: what is known of every query at a glance, written piece by piece."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from ragbench.data.runs.query_view import QueryView, QueryViews
from ragbench.records.causes import CAUSE_CHANGES, CAUSE_SAYS, CAUSES
from ragbench.report.page.rankings import FirstHits, rounded
from ragbench.text.languages import load as load_stopwords
from ragbench.types import FloatArray
from ragbench.types.conversation import Json

_ROWS_AT_ONCE = 1_000
_MOST_SLICES = 60  # values of a field; one with more sorts nothing
LONGEST: Mapping[str, int] = {
    "question": 4_000,
    "passage": 2_000,
    "answer": 12_000,
    "reason": 4_000,
    "prompt": 12_000,
    "word": 300,
}
"""Characters of each kind of text; what is longer is cut, and says how long it was."""


def index_of(
    views: QueryViews,
    rankings: Mapping[str, FirstHits],
    ranking_of: Mapping[str, str],
    seen: Seen,
) -> dict[str, object]:
    """What is known of every query at a glance, but for where its part is."""
    ids, n = views.ids, len(views.ids)
    names, lacking = list(rankings), np.full(n, np.nan)
    return {
        "ids": Column(lambda rows: [shortened(each, "word") for each in ids[rows]], n),
        "values": {
            system.name: {
                score: Column(partial(_rounded, own.get(score, lacking)), n)
                for score in system.scores
            }
            for system in views.summary.systems
            if (own := views.columns.get(system.name)) is not None
        },
        "texts": Column(
            lambda rows: [shortened(views.question(each), "word") for each in ids[rows]], n
        ),
        **seen.index(),
        "causeWords": {name: CAUSE_SAYS[name].partition(": ")[2] for name in CAUSES},
        "causeChanges": CAUSE_CHANGES,
        "stopwords": sorted(load_stopwords("english")),
        "prompts": {
            form: [shortened(each.system, "prompt"), shortened(each.user, "prompt")]
            for form, each in views.prompts.items()
        },
        "rankings": names,
        "rankingOf": {system: names.index(name) for system, name in ranking_of.items()},
    }


def as_json(value: object) -> str:
    """Return a value as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class Column(NamedTuple):
    """A list of the index, a row for each query, that is made when it is written."""

    make: Callable[[slice], list[Json]]
    n: int


def _rounded(values: FloatArray, rows: slice) -> list[float | None]:
    return rounded(values[rows])


def pieces(value: object) -> Iterator[str]:
    """A value as JSON, some rows of its columns at a time."""
    if isinstance(value, Mapping):
        for place, (name, part) in enumerate(value.items()):
            yield f"{',' if place else '{'}{as_json(name)}:"
            yield from pieces(part)
        yield "}" if value else "{}"
    elif isinstance(value, Column):
        for first in range(0, value.n, _ROWS_AT_ONCE):
            rows = slice(first, min(first + _ROWS_AT_ONCE, value.n))
            yield ("," if first else "[") + as_json(value.make(rows))[1:-1]
        yield "]" if value.n else "[]"
    else:
        yield as_json(value)


def compressed(pieces: Iterable[str]) -> Iterator[bytes]:
    """JSON in gzip, the same bytes for the same text."""
    # a head without time and name, as `gzip.compress` writes it here
    yield gzip.compress(b"", 6, mtime=0)[:10]
    packer, size, check = zlib.compressobj(6, wbits=-zlib.MAX_WBITS), 0, 0
    for piece in pieces:
        data = piece.encode("utf-8", "backslashreplace")
        size, check = size + len(data), zlib.crc32(data, check)
        yield packer.compress(data)
    yield packer.flush() + struct.pack("<LL", check, size & 0xFFFFFFFF)


class _Words:
    """A column of few words: the number of each query's, which may be several; -1 for none."""

    def __init__(self, n: int) -> None:
        self._rows, self._sets = array("i", [-1]) * n, dict[tuple[str, ...], int]()
        self.names = set[str]()

    def __setitem__(self, row: int, words: Iterable[str]) -> None:
        if len(self.names) > _MOST_SLICES:  # no field that sorts anything
            return
        self._rows[row] = self._sets.setdefault(own := tuple(words), len(self._sets))
        self.names.update(own)

    def index(self) -> dict[str, object]:
        names = sorted(self.names)
        numbers = {name: number for number, name in enumerate(names)}
        each = [[numbers[name] for name in words] for words in self._sets]
        shown = [*(own[0] if len(own) == 1 else own for own in each), -1]
        rows = Column(lambda rows: [shown[own] for own in self._rows[rows]], len(self._rows))
        return {"names": [shortened(name, "word") for name in names], "rows": rows}


class Seen:
    """What the index says of the queries, gathered as they come by."""

    def __init__(self, n: int) -> None:
        self._facts = defaultdict[str, _Words](partial(_Words, n))
        self._causes = defaultdict[str, _Words](partial(_Words, n))
        self._failures: dict[str, dict[str, dict[str, str]]] = {}

    def add(self, row: int, view: QueryView) -> None:
        """Look at the query in a row."""
        for name, value in view.metadata.items():
            each = value if isinstance(value, list) else [value]
            if each and all(isinstance(one, (str, bool, int, float)) for one in each):
                self._facts[name][row] = dict.fromkeys(map(str, each))
        for system in view.systems:
            if system.cause is not None:
                self._causes[system.name][row] = [system.cause]
            for score, missing in system.unscored.items():
                if missing.status == "failed":
                    own = self._failures.setdefault(system.name, {}).setdefault(score, {})
                    own[str(row)] = missing.cause

    def index(self) -> dict[str, object]:
        """Return it."""
        return {
            "facts": {
                name: words.index()
                for name, words in self._facts.items()
                if 1 < len(words.names) <= _MOST_SLICES
            },
            "causes": {name: words.index() for name, words in self._causes.items()},
            "failures": self._failures,
        }


def shortened(text: str, kind: str, goes_on: bool = False) -> str:
    """Return a text, not longer than those of its kind may be."""
    most = LONGEST[kind]
    if len(text) <= most:
        return f"{text}…" if goes_on else text
    more = f"{len(text) - most:,} more characters"
    return f"{text[:most]}… ({more}{', and more' if goes_on else ''})"
