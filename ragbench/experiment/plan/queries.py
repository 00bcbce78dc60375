"""Queries of a run, and their clusters and slices by metadata, judgements and gold answers.

The YAML names the latter: `statistics: {cluster: metadata.topic, slices: [query_length]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ragbench.comparison.differences import Slicing, thirds_of
from ragbench.comparison.gold import answerable_questions
from ragbench.comparison.matching import Matching
from ragbench.config.metrics import METADATA, PERIOD
from ragbench.config.schema import ExperimentConfig, Match
from ragbench.data.files.rows import encode_spaces, id_problem
from ragbench.data.runs.run_folder import read_query_metadata
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.data.traces.spans import read_time
from ragbench.errors import DataError, OptionError
from ragbench.generate.base import Generator
from ragbench.records.manifest import Choices
from ragbench.registry import nearest
from ragbench.retrieve.base import Retriever
from ragbench.score.retrieval.passage_matching import before_last
from ragbench.signature import fingerprint
from ragbench.types import Collection, Document, Qrels, Query, ScoredDocument
from ragbench.types.conversation import Entries
from ragbench.types.documents import record_ids
from ragbench.types.rows import Mapped

PREFIX = "metadata."


def look_up(metadata: Mapping[str, Any], path: str) -> Any:
    """Return the value at `metadata.<key>`; None where there is none.

    Dots lead into nested mappings; a key that contains the dots itself comes first. The prefix
    `metadata.` of `path` may be left out.

    Example:
        >>> look_up({"source": {"doc": 7}}, "metadata.source.doc")
        7
    """
    return _nested_value(metadata, path.removeprefix(PREFIX))


def keys_of(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the distinct keys of the entries as a config writes them, in order of first use.

    They are outermost keys with a prefix, such as `metadata.topic`; [] without any.
    """
    return list(dict.fromkeys(f"{PREFIX}{key}" for entry in entries for key in entry))


def _nested_value(metadata: Mapping[str, Any], path: str) -> Any:
    if path in metadata:
        return metadata[path]
    key, dot, inner_path = path.partition(".")
    inner = metadata.get(key)
    return _nested_value(inner, inner_path) if dot and isinstance(inner, Mapping) else None


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
        DataError: A component has none of the queries of the data set.
    """
    for name, component in components.items():
        stored = component.query_ids
        if stored is None:
            continue
        # stored results are found by the id or the text of a query
        if not any(query.id in stored or query.text in stored for query in queries):
            example = min(stored, default="nothing")
            raise DataError(
                f"{noun} '{name}' has none of the {len(queries)} queries of the data set; it has "
                f"'{example}'",
                allowed=f"queries such as '{queries[0].id}'",
            )
        absent = sum(query.id not in stored and query.text not in stored for query in run_queries)
        if absent:
            yield f"{noun} '{name}' has nothing for {absent} of {len(run_queries)} queries"


_NO_VALUE = "(none)"  # slice of the queries without a value


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
    metadata = _metadata_of(queries)
    labels, n_without = clusters_by(path, names, metadata, file=config.path, record=place)
    text = f"{n_without} of {len(queries)} queries have no {path}; each is a cluster of its own"
    return labels, [text] if n_without else []


def _metadata_of(queries: Sequence[Query]) -> Sequence[Entries]:
    return Mapped(lambda query: query.metadata, queries)


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
    values = _values(path, metadata, file, record)
    # no text of a file contains NUL: the label of a single query equals no value
    labels = []
    for query, value in zip(query_ids, values, strict=True):
        labels.append(value[0] if value else f"\0{query}")
    return labels, values.count(())


def slicings(
    config: ExperimentConfig,
    queries: Sequence[Query],
    qrels: Qrels | None,
    answers: Mapping[str, Sequence[str]],
) -> list[Slicing]:
    """Return the slices of the queries by each field of `statistics.slices`; empty without fields.

    They are in the order of the fields. `query_length` (words between white space) and `relevant`
    (documents with a grade above 0) are cut into up to three slices by `thirds_of`. A query is
    `answerable` by `answerable_questions`, else `unanswerable`, also if nothing tells. By metadata,
    slices are sorted by their names, queries without a value are the last slice, `(none)`, and a
    query with a list is in a slice per value. `week(metadata.time)` takes the week of each value;
    `day` and `month` likewise.

    Args:
        config: Config whose fields name `query_length`, `relevant`, `answerable`, metadata, or a
            period of metadata.
        queries: Queries of the run.
        qrels: Judgements; None without any.
        answers: Gold answers by query id.

    Raises:
        DataError: The data lack what a field needs, or a value of metadata is of another type.
    """
    slices = []
    for field in config.statistics.slices or ():
        lacks = ""
        if field == "relevant" and qrels is None:
            lacks = "relevance judgements, and the data set has none"
        elif field == "answerable" and qrels is None and not answers:
            lacks = "relevance judgements or gold answers, and the data set has neither"
        if lacks:
            allowed, problem = "slices without it", f"{field} needs {lacks}"
            raise DataError(problem, file=config.path, record=_SLICES, allowed=allowed)
        if field == "query_length":
            slices.append(thirds_of(field, [len(query.text.split()) for query in queries], "words"))
        elif field == "relevant":
            judged = {} if qrels is None else qrels.by_query
            grades = [judged.get(query, {}).values() for query in record_ids(queries)]
            n_relevant = [sum(grade > 0 for grade in of_query) for of_query in grades]
            slices.append(thirds_of(field, n_relevant, "relevant"))
        elif field == "answerable":
            words = ("answerable", "unanswerable")  # both are slices, also if one is empty
            has_answer = answerable_questions(queries, answers, qrels)
            labels = [(words[0 if answerable else 1],) for answerable in has_answer]
            slices.append(Slicing(field, words, labels))
        else:
            slices.append(_metadata_slices(field, queries, config.path))
    return slices


def _metadata_slices(field: str, queries: Sequence[Query], file: object) -> Slicing:
    """Return the slices by a key of metadata, or by a period of its times."""
    # a query with a list, such as tags, is in the slice of each of its values
    period = PERIOD.fullmatch(field)
    path = field if period is None else period[2]
    values = _values(path, _metadata_of(queries), file, _SLICES, lists=True)
    if period is not None:
        for row, query in enumerate(queries):
            place = f"{_SLICES}: {field}: query {query.id}"
            values[row] = _periods(values[row], period[1], place)
    labels = [value or (_NO_VALUE,) for value in values]
    names = sorted(set(chain(*labels)), key=lambda name: (name == _NO_VALUE, name))
    return Slicing(field, tuple(names), labels)


def _values(
    path: str, metadata: Sequence[Entries], file: object, record: str, *, lists: bool = False
) -> list[tuple[str, ...]]:
    """Return the values of a metadata key as texts, a tuple per query; empty where it has none."""
    values = [look_up(entry, path) for entry in metadata]
    parts = []
    for value in values:
        parts.append(value if lists and isinstance(value, (list, tuple)) else [value])
    bad = next((part for part in chain(*parts) if isinstance(part, (list, Mapping))), None)
    if bad is not None:
        kind = "a list" if isinstance(bad, list) else "a mapping"
        where = f"{path} is {kind}" if bad in values else f"a value of the list {path} is {kind}"
        allowed = "text, numbers, true or false" + (", or a list of these" if lists else "")
        raise DataError(f"{where} in the queries", file=file, record=record, allowed=allowed)
    if all(value is None for value in values):
        keys = keys_of(metadata)
        raise DataError(
            f"no query has {path}",
            file=file,
            record=record,
            allowed=", ".join(keys) or f"{PREFIX}<key> of queries with metadata; these have none",
            nearest=nearest(path, keys),
        )
    return [tuple(dict.fromkeys(str(part) for part in row if part is not None)) for row in parts]


# Option of the config that names the fields of slices, for messages.
_SLICES = "statistics.slices"
# Period -> format of its label; weeks are those of ISO 8601, which start on Monday
_PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}


def _periods(times: Sequence[str], period: str, record: str) -> tuple[str, ...]:
    """Return the days, weeks or months of times in UTC, each once; blank texts are left out."""
    labels: dict[str, None] = {}
    for text in filter(str.strip, times):
        if (time := read_time(text)) is None:
            allowed = (
                "ISO 8601, such as 2025-10-13T08:00:00Z, or a number of s, ms, us or ns since 1970"
            )
            raise DataError(f"'{text}' is no time", record=record, allowed=allowed)
        labels[time.strftime(_PERIODS[period])] = None
    return tuple(labels)


def common_clusters(path: str, runs: Matching) -> list[str]:
    """Return the cluster of each query, in the order of the sources' queries.

    Sources without metadata are left out. Labels are those of `clusters_by`.

    Args:
        path: Key, such as `metadata.topic`.
        runs: Runs and baseline files over the same queries.

    Raises:
        OptionError: `path` is no key of metadata.
        DataError: No source has metadata, a source lacks the key or has lists in it, or two
            disagree on the cluster of a query.
    """
    if not METADATA.fullmatch(path):
        raise OptionError("compare", "cluster", path, "metadata.<key>, such as metadata.topic")
    ids = list(runs.sources[0].query_ids)
    labels_by_source = {}
    for source in runs.sources:
        of_source = source_clusters(path, source, ids)
        if of_source is not None:
            labels_by_source[source.source] = of_source
    if not labels_by_source:
        names = ", ".join(dict.fromkeys(source.source for source in runs.sources))
        allowed = (
            "a run folder of this version among them, of a data set whose queries have metadata"
        )
        raise DataError(f"no metadata of the queries in {names}", allowed=allowed)
    (first, labels), *other_sources = labels_by_source.items()
    for other, other_labels in other_sources:
        for query, label, other_label in zip(ids, labels, other_labels, strict=True):
            if label != other_label:
                difference = f"is {label!r} in {first} and {other_label!r} in {other}"
                allowed = "runs of one data set, or --cluster with another key"
                raise DataError(f"{path} of query {query!r} {difference}", allowed=allowed)
    return labels


def shared_cluster(sources: Sequence[ScoredSystems]) -> str | None:
    """Return the key of metadata by which all runs among the sources cluster their queries.

    The result is None if a run has no clusters or those of another key, without runs, and if no
    source has metadata.
    """
    keys = {source.summary.cluster for source in sources if source.summary is not None}
    has_metadata = any(source.metadata is not None for source in sources)
    return keys.pop() if len(keys) == 1 and has_metadata else None


def source_clusters(path: str, source: ScoredSystems, ids: Sequence[str]) -> list[str] | None:
    """Return the clusters of the queries `ids` by one source; None where it has no metadata.

    They are in the order of `ids`; an id that its metadata lack is a cluster of its own.

    Raises:
        DataError: Its metadata cannot be read, all queries lack the key, or a value is a list or a
            mapping.
    """
    if source.metadata is None:
        return None
    metadata_of = read_query_metadata(source.metadata)
    metadata = [metadata_of.get(query, {}) for query in ids]
    return clusters_by(path, ids, metadata, file=source.metadata)[0]


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
