"""What metadata say: which queries are one unit, and which slices of them are looked at alone.

The YAML names both: `statistics: {cluster: metadata.topic, slices: [query_length]}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ragbench.comparison.differences import Slicing
from ragbench.comparison.matching import Met
from ragbench.config.metrics import METADATA
from ragbench.config.schema import ExperimentConfig, Match
from ragbench.data.files.rows import encode_spaces, id_problem
from ragbench.data.runs.run_folder import read_query_metadata
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.score.retrieval.passage_matching import before_last
from ragbench.types import Document, Qrels, Query, ScoredDocument
from ragbench.types.conversation import Entries
from ragbench.types.packed_documents import ids_of
from ragbench.types.rows import Mapped

PREFIX = "metadata."


def look_up(metadata: Mapping[str, Any], path: str) -> Any:
    """Return the value of `metadata.<key>`, or None where there is none.

    Dots lead into nested metadata; a key that holds the dots itself comes first.

    Example:
        >>> look_up({"source": {"doc": 7}}, "metadata.source.doc")
        7
    """
    return _follow(metadata, path.removeprefix(PREFIX))


def keys_of(many: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys that occur, as a config writes them, each once."""
    return list(dict.fromkeys(f"{PREFIX}{key}" for metadata in many for key in metadata))


def _follow(metadata: Mapping[str, Any], path: str) -> Any:
    if path in metadata:
        return metadata[path]
    key, dot, rest = path.partition(".")
    inner = metadata.get(key)
    return _follow(inner, rest) if dot and isinstance(inner, Mapping) else None


_NONE = "(none)"


def cluster_labels(
    config: ExperimentConfig, queries: Sequence[Query]
) -> tuple[list[str] | None, list[str]]:
    """Return the cluster of each query, and warnings; None where the config names no cluster."""
    path = config.statistics.cluster
    if path is None:
        return None, []
    place, names = "statistics.cluster", ids_of(queries)
    labels, lacking = clusters_by(path, names, _metadata(queries), file=config.path, record=place)
    text = f"{lacking} of {len(queries)} queries have no {path}; each is a cluster of its own"
    return labels, [text] if lacking else []


def _metadata(queries: Sequence[Query]) -> Sequence[Entries]:
    return Mapped(lambda query: query.metadata, queries)


def clusters_by(
    path: str,
    query_ids: Sequence[str],
    metadata: Sequence[Entries],
    *,
    file: object,
    record: str = "",
) -> tuple[list[str], int]:
    """Return the cluster of each query by its metadata, and how many lack the key.

    A query that lacks it is a cluster of its own; an error where all do, or values are no scalars.
    """
    values = _values(path, metadata, file, record)
    # a control character keeps the made labels apart from all that is read
    labels = [
        value[0] if value else f"\0{query}" for query, value in zip(query_ids, values, strict=True)
    ]
    return labels, values.count(())


def slicings(
    config: ExperimentConfig,
    queries: Sequence[Query],
    qrels: Qrels | None,
    answers: Mapping[str, Sequence[str]],
) -> list[Slicing]:
    """Return the slices that the config asks for, field by field."""
    relevant = None
    if qrels is not None:
        grades = [qrels.by_query.get(query, {}).values() for query in ids_of(queries)]
        relevant = [sum(grade > 0 for grade in each) for each in grades]
    needs = ""
    for field in config.statistics.slices or ():
        if field == "relevant" and relevant is None:
            needs = "relevant needs relevance judgements, and the data set has none"
        elif field == "answerable" and relevant is None and not answers:
            needs = "answerable needs relevance judgements or gold answers"
            needs += ", and the data set has neither"
        if needs:
            raise DataError(needs, file=config.path, record="statistics.slices")
    makers: dict[str, Callable[[], Slicing]] = {
        "query_length": lambda: _thirds(
            "query_length", [len(query.text.split()) for query in queries], "words"
        ),
        "relevant": lambda: _thirds("relevant", relevant or [], "relevant"),
        "answerable": lambda: _answerable(ids_of(queries), relevant, answers),
    }
    slices = []
    for field in config.statistics.slices or ():
        if field in makers:
            slices.append(makers[field]())
            continue
        # a query is in the slice of its value, or, of a list such as tags, of each of its values
        values = _values(field, _metadata(queries), config.path, "statistics.slices", lists=True)
        labels = [value or (_NONE,) for value in values]
        names = sorted({name for of in labels for name in of}, key=lambda n: (n == _NONE, n))
        slices.append(Slicing(field, tuple(names), labels))
    return slices


def _values(
    path: str, many: Sequence[Mapping[str, Any]], file: object, record: str, *, lists: bool = False
) -> list[tuple[str, ...]]:
    """Return what each query's metadata say, as texts; several only where lists are allowed."""
    found = [look_up(metadata, path) for metadata in many]
    each = [v if lists and isinstance(v, (list, tuple)) else [v] for v in found]
    bad = next((v for own in each for v in own if isinstance(v, (list, Mapping))), None)
    if bad is not None:
        kind = "a list" if isinstance(bad, list) else "a mapping"
        where = f"{path} is {kind}" if bad in found else f"a value of the list {path} is {kind}"
        allowed = "text, numbers, true or false" + (", or a list of these" if lists else "")
        raise DataError(f"{where} in the queries", file=file, record=record, allowed=allowed)
    if all(value is None for value in found):
        keys = keys_of(many)
        raise DataError(
            f"no query has {path}",
            file=file,
            record=record,
            allowed=", ".join(keys) or f"{PREFIX}<key>, and the queries have no metadata",
            nearest=nearest(path, keys),
        )
    return [tuple(dict.fromkeys(str(v) for v in own if v is not None)) for own in each]


def _answerable(
    names: Sequence[str], relevant: list[int] | None, answers: Mapping[str, Sequence[str]]
) -> Slicing:
    """A query is answerable if it has a gold answer or a relevant document."""
    labels = [
        ("answerable" if count or answers.get(query) else "unanswerable",)
        for query, count in zip(names, relevant or [0] * len(names), strict=True)
    ]
    return Slicing("answerable", ("answerable", "unanswerable"), labels)


def _thirds(field: str, counts: Sequence[int], unit: str) -> Slicing:
    """Cut counts into up to three slices of about equal size; equal counts stay together."""
    values = np.asarray(counts)
    cuts = np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf")
    third = (values[:, np.newaxis] > cuts).sum(axis=1)
    names = {}
    for number in np.unique(third).tolist():
        low, high = values[third == number].min(), values[third == number].max()
        names[number] = f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
    return Slicing(field, tuple(names.values()), [(names[number],) for number in third.tolist()])


def common_clusters(path: str, met: Met) -> list[str]:
    """Return the cluster of each common query, which every source that has metadata gives alike.

    Refuses bets, whose unit is the single query.
    """
    if not METADATA.fullmatch(path):
        raise OptionError("compare", "cluster", path, "metadata.<key>, such as metadata.topic")
    ids = list(met.sources[0].query_ids)
    found = {
        source.source: labels
        for source in met.sources
        if (labels := source_clusters(path, source, ids)) is not None
    }
    if not found:
        named = ", ".join(source.source for source in met.sources)
        allowed = (
            "a run folder of this version among them, of a data set whose queries have metadata"
        )
        raise DataError(f"no metadata of the queries in {named}", allowed=allowed)
    (first, labels), *others = found.items()
    for other, theirs in others:
        for query, here, there in zip(ids, labels, theirs, strict=True):
            if here != there:
                found_in = f"is {here!r} in {first} and {there!r} in {other}"
                raise DataError(f"{path} of query {query!r} {found_in}")
    return labels


def source_clusters(path: str, source: ScoredSystems, ids: Sequence[str]) -> list[str] | None:
    """Return the clusters of some queries by one source; None where it has no metadata."""
    if source.metadata is None:
        return None
    known = read_query_metadata(source.metadata)
    metadata = [known.get(query, {}) for query in ids]
    return clusters_by(path, ids, metadata, file=source.metadata)[0]


def document_id(passage: Document | ScoredDocument, match: Match) -> str | None:
    """Return the id of the document that a passage is of; None where its metadata lack it."""
    if match.id is None:
        return before_last(passage.id, match.separator or "")
    value = look_up(passage.metadata, match.id)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    identifier = encode_spaces(str(value))  # as ids of judgements and of hits are written
    return None if id_problem(identifier) else identifier
