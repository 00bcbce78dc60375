"""What a loader is, and what all loaders share: a random test set, fingerprints of the content.

Two files with the same documents in another order, or in another format, have the same
fingerprint; one changed character gives another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

from ragbench.errors import OptionError
from ragbench.registry import Option, nearest
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Answered, Collection, Document, Query, ToolCall
from ragbench.types.packed_documents import PackedDocuments

_KEYS = {"test": "a number above 0 and below 1", "seed": "an integer >= 0"}
SplitOption = Annotated[
    Mapping[str, Any] | None, Option("Draw a random test set: {test: 0.2, seed: 13}.")
]

_WHOLE = 64  # hexadecimal digits of a whole SHA-256, for the pieces


class Loader(Protocol):
    """Reads a data set; its options are those of its constructor."""

    def load(self) -> Collection:
        """Return the data set, checked: ids are unique and refer to something.

        Raises:
            DataError: A file or record that cannot be read, with its place.
        """
        ...


class Previewed(ABC):
    """A loader whose reading needs a look; `ragbench validate` shows its first rows."""

    @abstractmethod
    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return how the first rows were read: part -> value."""


@dataclass(frozen=True, slots=True)
class RandomSplit:
    """Which share of the queries is drawn, and by which seed."""

    test: float
    """The share of the queries that become the test set, above 0 and below 1."""
    seed: int = 13


def parse_split(value: Mapping[str, Any] | None, owner: str) -> RandomSplit | None:
    """Read `{test: 0.2, seed: 13}`; None is none."""
    if value is None:
        return None
    for key in value:
        if key not in _KEYS:
            close = nearest(str(key), _KEYS)
            raise OptionError(owner, "split", key, ", ".join(_KEYS), close)
    if "test" not in value:
        raise OptionError(owner, "split", dict(value), "{test: 0.2, seed: 13}")
    test, seed = value["test"], value.get("seed", 13)
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 < test < 1:
        raise OptionError(owner, "split.test", test, _KEYS["test"])
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(owner, "split.seed", seed, _KEYS["seed"])
    return RandomSplit(float(test), seed)


def draw_test_set(query_ids: Iterable[str], split: RandomSplit) -> frozenset[str]:
    """Draw the test queries: the share of the ids whose hashes with the seed are smallest.

    The draw depends on the ids and the seed alone, not on the order of the file, and a query
    that is added or removed moves at most one other. At least one query is drawn.
    """
    by_hash = sorted(set(query_ids), key=lambda query: fingerprint([str(split.seed), query], 64))
    return frozenset(by_hash[: max(1, round(len(by_hash) * split.test))])


def keep_queries(collection: Collection, wanted: frozenset[str], note: str) -> Collection:
    """Return a data set cut down to some queries, with a note; the corpus stays whole."""
    given = {
        name: [answered for answered in answers if answered.query_id in wanted]
        for name, answers in collection.given.items()
    }
    return replace(
        collection,
        queries=[query for query in collection.queries if query.id in wanted],
        qrels=None if collection.qrels is None else collection.qrels.of_queries(wanted),
        answers={query: gold for query, gold in collection.answers.items() if query in wanted},
        expected_tool_calls={
            query: calls
            for query, calls in collection.expected_tool_calls.items()
            if query in wanted
        },
        given={name: answers for name, answers in given.items() if answers},
        notes=[*collection.notes, note],
    )


def finished(collection: Collection, split: RandomSplit | None) -> Collection:
    """Return a data set as loaders do: cut to its test set, with the fingerprints of its parts."""
    if split is not None:
        collection = split_at_random(collection, split)
    return replace(collection, fingerprints=fingerprint_collection(collection))


def split_at_random(collection: Collection, split: RandomSplit) -> Collection:
    """Return a data set with the drawn test queries only."""
    wanted = draw_test_set((query.id for query in collection.queries), split)
    note = (
        f"random test set: {len(wanted)} of {len(collection.queries)} queries "
        f"(test: {split.test:g}, seed: {split.seed})"
    )
    return keep_queries(collection, wanted, note)


def fingerprint_collection(collection: Collection) -> dict[str, str]:
    """Return the fingerprint of every part that a data set has."""
    # without metadata of queries: a CSV file has them as text where JSON has numbers
    found = {"queries": _rows(map(_query, collection.queries))}
    if collection.documents is not None:
        found["corpus"] = fingerprint_documents(collection.documents)
    if collection.qrels is not None:
        found["qrels"] = collection.qrels.fingerprint()
    if collection.answers:
        found["answers"] = _rows([q, *sorted(gold)] for q, gold in collection.answers.items())
    if collection.expected_tool_calls:
        expected = collection.expected_tool_calls.items()
        found["expected_tool_calls"] = _rows([query, *_calls(gold)] for query, gold in expected)
    if collection.given:
        systems = collection.given.items()
        found["given"] = _rows([name, *sorted(map(_answered, given))] for name, given in systems)
    return found


def fingerprint_documents(documents: Sequence[Document]) -> str:
    """Return the fingerprint of a corpus; at hand where it is packed."""
    if isinstance(documents, PackedDocuments):
        return documents.fingerprint
    return fingerprint(sorted(map(document_digest, documents)))


def _rows(rows: Iterable[list[str]]) -> str:
    return fingerprint(sorted(fingerprint(row, _WHOLE) for row in rows))


def _query(query: Query) -> list[str]:
    turns = [fingerprint_json(turn.to_dict(), _WHOLE) for turn in query.turns]
    return [query.id, query.text, *turns]


def _calls(calls: Iterable[ToolCall]) -> list[str]:
    return [fingerprint_json(call.to_dict(), _WHOLE) for call in calls]


def document_digest(document: Document) -> str:
    """Return a hash of all that a document has."""
    extra = fingerprint_json(dict(document.metadata), _WHOLE) if document.metadata else ""
    return fingerprint([document.id, document.title, document.text, extra], _WHOLE)


def _answered(answered: Answered) -> str:
    # a missing answer is not an empty one, nor are missing passages an empty list
    answer = ["none"] if answered.answer is None else ["answer", answered.answer]
    contexts = answered.contexts
    passages = ["none"] if contexts is None else ["contexts", *map(document_digest, contexts)]
    pieces = [fingerprint(part, _WHOLE) for part in (answer, passages, answered.queries)]
    if answered.tool_calls is not None:
        pieces.append(fingerprint(_calls(answered.tool_calls), _WHOLE))
    if answered.error is not None:
        pieces.append(fingerprint(["error", answered.error], _WHOLE))
    return fingerprint([answered.query_id, *pieces], _WHOLE)
