"""Protocol of a loader, and the parts that loaders share.

These are random test sets, and fingerprints of a data set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol, TypeVar, cast, get_args

from ragbench.errors import OptionError
from ragbench.registry import Option, check_allowed
from ragbench.signature import fingerprint, fingerprint_json, fingerprint_unordered
from ragbench.types import Answered, Collection, Document, Query
from ragbench.types.conversation import ToolCall, Turn
from ragbench.types.documents import record_ids
from ragbench.types.forbidden import forbidden_print
from ragbench.types.lookups import map_values, select_keys
from ragbench.types.reasoning import Reasoning
from ragbench.types.records import PoolStatistics, nuggets_fingerprint
from ragbench.types.spans import spans_fingerprint

_KEYS = {"test": "a number above 0 and below 1", "seed": "an integer >= 0"}
SplitOption = Annotated[
    Mapping[str, Any] | None, Option("Draw a random test set: {test: 0.2, seed: 13}.")
]
PoolOption = Annotated[
    Mapping[str, Any] | None,
    Option("BM25's statistics of a question with a pool: {statistics: corpus}, or pool."),
]
ReasoningOption = Annotated[
    Reasoning, Option("Whether the reasoning of a model (<think>) is cut from its answers.")
]

_WHOLE = 64  # hexadecimal digits of a whole SHA-256, for the pieces
Value = TypeVar("Value")


class Loader(Protocol):
    """Reader of a data set; the options of a loader are those of its constructor.

    `load()` returns the data set, or raises a DataError with the place of the fault.
    """

    def load(self) -> Collection:
        """Return the data set, with ids that are unique and refer to something.

        A loader may raise MissingExtra for a package that is not installed, or OptionError.

        Raises:
            DataError: A file or record cannot be read; names its place.
        """
        ...


class Previewed(ABC):
    """Loader that interprets a file: `ragbench validate` shows its first rows as they are read.

    A subclass implements `preview(count)`, which returns these rows as mappings of part -> value.
    """

    @abstractmethod
    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return the first `count` rows as the loader reads them, each as part -> value.

        All rows if there are fewer. The errors are those of `load`.
        """


@dataclass(frozen=True, slots=True)
class Places:
    """Places of the parts of a data set, each as `file:line`, and the queries of other splits.

    `places` of a loader returns them; a row of a file without lines has `file: row 3`.

    Attributes:
        queries: Query id -> place of the question.
        judgements: (query id, document id) -> place of the judgement; empty without a file of them.
        answers: Query id -> place of the gold answers; empty without a file of them.
        other_splits: File name of each other split, such as `dev.tsv` -> its queries.
    """

    queries: Mapping[str, str]
    judgements: Mapping[tuple[str, str], str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    other_splits: Mapping[str, Sequence[Query]] = field(default_factory=dict)


class Located(ABC):
    """Loader that knows the lines of its files: `ragbench audit` names them.

    A subclass implements `places()`, which reads the files again and returns `Places`.
    """

    @abstractmethod
    def places(self) -> Places:
        """Return the places of the questions, judgements and gold answers.

        The files are read again. The errors are those of `load`.
        """


@dataclass(frozen=True, slots=True)
class RandomSplit:
    """Share of the queries in a random test set, and the seed of the draw.

    `parse_split` checks the values; the constructor does not.

    Attributes:
        test: Share of the queries that become the test set, above 0 and below 1.
        seed: Seed of the draw, an integer from 0.
    """

    test: float
    seed: int = 13


def parse_split(value: Mapping[str, Any] | None, owner: str) -> RandomSplit | None:
    """Return the option `split: {test: 0.2, seed: 13}` as a `RandomSplit`; None for None.

    The seed is 13 without one.

    Raises:
        OptionError: A key or value is wrong, or `test` is missing; `owner` names the loader.
    """
    if value is None:
        return None
    check_allowed(owner, "split", value, _KEYS)
    if "test" not in value:
        raise OptionError(owner, "split", dict(value), "{test: 0.2, seed: 13}")
    test, seed = value["test"], value.get("seed", 13)
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 < test < 1:
        raise OptionError(owner, "split.test", test, _KEYS["test"])
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(owner, "split.seed", seed, _KEYS["seed"])
    return RandomSplit(float(test), seed)


def parse_pool(value: Mapping[str, Any] | None, owner: str) -> PoolStatistics | None:
    """Return the statistics in the option `pool: {statistics: pool}`; None for None.

    Raises:
        OptionError: A key or value is wrong; `owner` names the loader.
    """
    if value is None:
        return None
    check_allowed(owner, "pool", value, ("statistics",))
    statistics = value.get("statistics", "corpus")
    if statistics not in get_args(PoolStatistics):
        allowed = ", ".join(get_args(PoolStatistics))
        raise OptionError(owner, "pool.statistics", statistics, allowed)
    return cast("PoolStatistics", statistics)


def draw_test_set(query_ids: Iterable[str], split: RandomSplit) -> frozenset[str]:
    """Return the ids of the test queries: those whose hashes with the seed are smallest.

    The draw depends on the ids and the seed alone, not on the order of the file, and a query that
    is added or removed moves at most one other. At least one query is drawn. Without queries the
    set is empty. The number is the rounded share; repeated ids count once.
    """
    # hashes, not a random generator: the draw must not depend on the order or the number of
    # queries
    by_hash = sorted(set(query_ids), key=lambda query: fingerprint([str(split.seed), query], 64))
    return frozenset(by_hash[: max(1, round(len(by_hash) * split.test))])


# Fields of a data set that have a value for some queries, by the ids of the queries.
OF_QUERIES = (
    "answers",
    "expected_tool_calls",
    "gold_spans",
    "ambiguous_gold",
    "excluded",
    "alternatives",
    "forbidden",
    "nuggets",
)


def keep_queries(collection: Collection, ids: frozenset[str], note: str) -> Collection:
    """Return a data set with only the queries in `ids`, and a further note; the corpus stays whole.

    Judgements, gold answers and recorded answers of other queries are left out, and so are systems
    without an answer to any query in `ids`. The given data set is not changed; without qrels they
    stay None. Fingerprints and gold passages stay those of the whole.
    """
    parts: dict[str, Any] = {}
    for name in OF_QUERIES:
        parts[name] = select_keys(getattr(collection, name), ids)
    recorded_answers: dict[str, list[Answered]] = {}
    for name, rows in collection.recorded_answers.items():
        for answered in rows:
            if answered.query_id in ids:
                recorded_answers.setdefault(name, []).append(answered)
    queries = []
    for query in collection.queries:
        if query.id in ids:
            queries.append(query)
    return replace(
        collection,
        queries=queries,
        qrels=None if collection.qrels is None else collection.qrels.of_queries(ids),
        recorded_answers=recorded_answers,
        notes=[*collection.notes, note],
        **parts,
    )


def finish_collection(collection: Collection, split: RandomSplit | None) -> Collection:
    """Return a data set with fingerprints, cut to a random test set if `split` is not None.

    The given data set is not changed. A test set adds a note.
    """
    if split is not None:
        ids = draw_test_set(record_ids(collection.queries), split)
        share = f"{len(ids)} of {len(collection.queries)} queries"
        note = f"random test set: {share} (test: {split.test:g}, seed: {split.seed})"
        collection = keep_queries(collection, ids, note)
    return replace(collection, fingerprints=fingerprint_collection(collection))


def fingerprint_collection(collection: Collection) -> dict[str, str]:
    """Return part -> fingerprint, for each part that a data set has.

    A fingerprint has 12 hexadecimal digits. Metadata of queries and grades of subtopics do not
    count. Parts are `queries`, `corpus`, `qrels`, `answers`, `spans`, `excluded`, `forbidden`,
    `pools`, `nuggets`, `expected_tool_calls` and `given`; none depends on the order of the records.
    `queries` is always there; the others only if the part is not None (corpus, qrels) or not empty.
    """
    prints = _fingerprint_queries(collection)
    if collection.documents is not None:
        prints["corpus"] = fingerprint(sorted(map(document_digest, collection.documents)))
    if collection.qrels is not None:
        prints["qrels"] = collection.qrels.fingerprint()
    if collection.answers:
        prints["answers"] = _print_by_id(collection.answers, sorted)
    if collection.gold_spans:
        spans = map_values(spans_fingerprint, collection.gold_spans)
        prints["spans"] = fingerprint_unordered(spans.items())
    if collection.excluded:
        prints["excluded"] = _print_by_id(collection.excluded, sorted)
    if collection.forbidden:
        prints["forbidden"] = forbidden_print(collection.forbidden)
    if collection.nuggets:
        nuggets = map_values(nuggets_fingerprint, collection.nuggets)
        prints["nuggets"] = fingerprint_unordered(nuggets.items())
    if collection.expected_tool_calls:
        prints["expected_tool_calls"] = _print_by_id(collection.expected_tool_calls, _digests)
    if collection.recorded_answers:
        prints["given"] = _print_by_id(collection.recorded_answers, _answers_digests)
    return prints


def _print_by_id(values: Mapping[str, Value], parts_of: Callable[[Value], Iterable[str]]) -> str:
    """Return the fingerprint of values in any order, each with its id and parts."""
    return fingerprint_unordered([name, *parts_of(value)] for name, value in values.items())


def _fingerprint_queries(collection: Collection) -> dict[str, str]:
    """Return the fingerprint of the queries, and of their pools if there are any."""
    pools = dict[str, tuple[str, ...]]()

    def rows() -> Iterator[list[str]]:
        """Yield the parts of each query, and collect the pools: large files are read once."""
        for query in collection.queries:
            if query.pool is not None:
                pools[query.id] = query.pool
            # without metadata: the same data in CSV have text where JSON has numbers
            yield [query.id, query.text, *_digests(query.turns)]

    prints = {"queries": fingerprint_unordered(rows())}
    if pools:
        prints["pools"] = _print_by_id(pools, sorted)
    return prints


def _digests(records: Iterable[Turn | ToolCall]) -> list[str]:
    """Return a hash of each turn or tool call, in order, in 64 hexadecimal digits."""
    return [fingerprint_json(record.to_dict(), _WHOLE) for record in records]


def document_digest(document: Document) -> str:
    """Return a hash of the id, title, text and metadata of a document, in 64 hexadecimal digits."""
    extra = fingerprint_json(dict(document.metadata), _WHOLE) if document.metadata else ""
    return fingerprint([document.id, document.title, document.text, extra], _WHOLE)


def _answers_digests(answers: Iterable[Answered]) -> list[str]:
    """Return the sorted hashes of the recorded answers of a system."""
    return sorted(map(_answered, answers))


def _answered(answered: Answered) -> str:
    """Return a hash of a recorded answer, with its passages, queries, tool calls and judgements."""
    # a missing answer is not an empty one, nor are missing passages an empty list
    answer = ["none"] if answered.answer is None else ["answer", answered.answer]
    contexts = answered.contexts
    passages = ["none"] if contexts is None else ["contexts", *map(document_digest, contexts)]
    pieces = [fingerprint(part, _WHOLE) for part in (answer, passages, answered.queries)]
    if answered.further:
        pieces.append(fingerprint(["further", *map(document_digest, answered.further)], _WHOLE))
    if answered.tool_calls is not None:
        pieces.append(fingerprint(_digests(answered.tool_calls), _WHOLE))
    if answered.error is not None:
        pieces.append(fingerprint(["error", answered.error], _WHOLE))
    if answered.judgements is not None:
        pieces.append(fingerprint_json(answered.judgements.to_list(), _WHOLE))
    return fingerprint([answered.query_id, *pieces], _WHOLE)
