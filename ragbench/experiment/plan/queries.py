"""Queries of a run, and their clusters and slices by metadata, judgements and gold answers.

The YAML names the latter: `statistics: {cluster: metadata.topic, slices: [query_length]}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.comparison.slices import (
    Slicing,
    look_up,
    metadata_of,
    metadata_values,
    slicings,
)
from ragbench.config.schema import ExperimentConfig, Match
from ragbench.data.files.rows import encode_spaces, id_problem
from ragbench.errors import DataError, OptionError
from ragbench.generate.base import Generator
from ragbench.records.manifest import Choices
from ragbench.retrieve.base import Retriever
from ragbench.score.retrieval.passage_matching import before_last
from ragbench.signature import fingerprint
from ragbench.types import Collection, Document, Qrels, Query, ScoredDocument
from ragbench.types.conversation import Entries
from ragbench.types.documents import record_ids


def choose_queries(
    collection: Collection, choices: Choices, seed: int
) -> tuple[Sequence[Query], list[str]]:
    """Return (queries of the run in the order of the file; a warning about a sample, or none).

    Args:
        collection: Data set with all queries.
        choices: `limit` takes a random sample, which depends on the seed and the query ids alone;
            `queries` takes those of these ids.
        seed: Seed of the sample.

    Raises:
        OptionError: `limit` is below 1.
    """
    queries, limit, warnings = collection.queries, choices.limit, list[str]()
    if limit is not None and limit < len(queries):
        if limit < 1:
            raise OptionError("run", "limit", limit, "an integer >= 1")
        by_chance = sorted(record_ids(queries), key=lambda name: fingerprint([str(seed), name]))
        warnings = [f"a random sample of {limit} of {len(queries)} queries (--limit, seed {seed})"]
        sampled_ids = frozenset(by_chance[:limit])
        queries = [query for query in queries if query.id in sampled_ids]
    if choices.queries:
        chosen = frozenset(choices.queries)
        queries = [query for query in queries if query.id in chosen]
    return queries, warnings


def coverage_warnings(
    noun: str,
    components: Mapping[str, Retriever] | Mapping[str, Generator],
    queries: Sequence[Query],
    run_queries: Sequence[Query],
) -> Iterator[str]:
    """Yield a warning for each component whose stored results lack queries of the run.

    Args:
        noun: "retriever" or "generator", for messages.
        components: Components by name; those without stored results are left out.
        queries: Queries of the data set.
        run_queries: Queries of the run.

    Raises:
        DataError: A component has none of the queries of the data set, or the answer to one of them
            is that to another question.
    """
    for name, component in components.items():
        stored = component.query_ids
        if stored is None:
            continue
        absent_ids = {query.id for query in queries if not _has_result(component, query)}
        if len(absent_ids) == len(queries):
            example = min(stored, default="nothing")
            allowed = f"queries such as '{queries[0].id}'"
            if isinstance(component, Generator):
                allowed += ", or the questions without ids"
            raise DataError(
                f"{noun} '{name}' has none of the {len(queries)} queries of the data set; it has "
                f"'{example}'",
                allowed=allowed,
            )
        n_absent = len(absent_ids.intersection(record_ids(run_queries)))
        if n_absent:
            yield f"{noun} '{name}' has nothing for {n_absent} of {len(run_queries)} queries"


def _has_result(component: Retriever | Generator, query: Query) -> bool:
    """Return True if the stored results of a component have a query."""
    if isinstance(component, Generator):
        return component.has_answer(query)
    return component.query_ids is None or query.id in component.query_ids


def cluster_labels(
    config: ExperimentConfig, queries: Sequence[Query]
) -> tuple[list[str] | None, list[str]]:
    """Return (cluster of each query, or None if the config names none; warnings).

    The clusters are those of `clusters_by`. The list of warnings has one if queries lack the
    metadata; else it is empty.

    Raises:
        DataError: No query has the metadata, or values are lists or mappings.
    """
    path = config.statistics.cluster
    if path is None:
        return None, []
    place, names = "statistics.cluster", record_ids(queries)
    metadata = metadata_of(queries)
    labels, n_without = clusters_by(path, names, metadata, file=config.path, record=place)
    text = f"{n_without} of {len(queries)} queries have no {path}; each is a cluster of its own"
    return labels, [text] if n_without else []


def fold_labels(queries: Sequence[Query], clusters: Sequence[str] | None) -> list[str]:
    """Return the label of each query; those of one label share a fold of a cross-validation.

    It is the cluster, or else the question with its pool, since a repeated question has been seen;
    a query without a text has its id.
    """
    if clusters is not None:
        return list(clusters)
    labels = []
    for query in queries:
        label = query.text.strip() or query.id
        # the same question about other documents has not been seen
        labels.append(label if query.pool is None else f"{label}\0{fingerprint(query.pool)}")
    return labels


def clusters_by(
    path: str,
    query_ids: Sequence[str],
    metadata: Sequence[Entries],
    *,
    file: object,
    record: str = "",
) -> tuple[list[str], int]:
    """Return (cluster of each query by its metadata, number of queries without the key).

    A query without the key, or with a null, is a cluster of its own, whose label is its id after a
    NUL. Other labels are the values as text, so that 1 and '1' are one cluster.

    Args:
        path: Key, such as `metadata.topic`.
        query_ids: Ids of the queries.
        metadata: Metadata of each query.
        file: Config or metadata file, for messages.
        record: Place in the file, for messages.

    Raises:
        DataError: All queries lack the key, or a value is a list or a mapping.
    """
    values = metadata_values(path, metadata, file, record)
    # no text of a file contains NUL: the label of a single query equals no value
    labels = []
    for query, value in zip(query_ids, values, strict=True):
        labels.append(value[0] if value else f"\0{query}")
    return labels, values.count(())


def config_slicings(
    config: ExperimentConfig,
    queries: Sequence[Query],
    qrels: Qrels | None,
    answers: Mapping[str, Sequence[str]],
) -> list[Slicing]:
    """Return the slices of the queries by the fields of `statistics.slices`, as `slicings` does."""
    fields, place = config.statistics.slices or (), "statistics.slices"
    return slicings(fields, queries, qrels, answers, file=config.path, record=place)


def document_id(passage: Document | ScoredDocument, match: Match) -> str | None:
    """Return the id of the document that contains a passage, by the rule of `match`.

    The part of the passage's id before its last separator, or a value of its metadata; None where
    the metadata lack it, or the value is neither text nor integer, or no valid id. An id without
    the separator is the id of the document itself. A `match` with neither `id` nor `separator`
    raises a ValueError.
    """
    if match.id is None:
        return before_last(passage.id, match.separator or "")
    value = look_up(passage.metadata, match.id)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    identifier = encode_spaces(str(value))  # as ids of judgements and of hits are written
    return None if id_problem(identifier) else identifier
