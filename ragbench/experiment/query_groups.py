"""Which queries belong together: clusters that are one unit, and slices that are looked at alone.

The YAML names both: `statistics: {cluster: metadata.topic, slices: [query_length]}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ragbench.comparison.slices import Slicing
from ragbench.config.schema import ExperimentConfig
from ragbench.errors import DataError
from ragbench.experiment.metadata import PREFIX, keys_of, look_up
from ragbench.registry import nearest
from ragbench.types import Qrels, Query

_NONE = "(none)"


def cluster_labels(
    config: ExperimentConfig, queries: Sequence[Query]
) -> tuple[list[str] | None, list[str]]:
    """Return the cluster of each query, and warnings.

    A query whose metadata lack the key is a cluster of its own.

    Returns:
        A label per query, None where the config names no cluster; one sentence where keys lack.

    Raises:
        DataError: No query has the key, or its values are lists or mappings.
    """
    path = config.statistics.cluster
    if path is None:
        return None, []
    metadata = {query.id: query.metadata for query in queries}
    labels, lacking = clusters_by(path, metadata, file=config.path, record="statistics.cluster")
    text = f"{lacking} of {len(queries)} queries have no {path}; each is a cluster of its own"
    return labels, [text] if lacking else []


def clusters_by(
    path: str, metadata: Mapping[str, Mapping[str, Any]], *, file: object, record: str = ""
) -> tuple[list[str], int]:
    """Return the cluster of each query of a mapping, and how many lack the key.

    Args:
        path: `metadata.<key>`; a query that lacks it is a cluster of its own.
        metadata: Query id -> its metadata.
        file: What errors name.
        record: The place in it.

    Raises:
        DataError: No query has the key, or its values are lists or mappings.
    """
    values = _values(path, list(metadata.values()), file, record)
    # a control character keeps the made labels apart from all that is read
    labels = [
        f"\0{query}" if value is None else value
        for query, value in zip(metadata, values, strict=True)
    ]
    return labels, values.count(None)


def slicings(
    config: ExperimentConfig,
    queries: Sequence[Query],
    qrels: Qrels | None,
    answers: Mapping[str, Sequence[str]],
) -> list[Slicing]:
    """Return the slices that the config asks for, field by field.

    Raises:
        DataError: The data do not have what a field sorts by.
    """
    relevant = None if qrels is None else _count_relevant(queries, qrels)
    makers: dict[str, Callable[[], Slicing]] = {
        "query_length": lambda: _thirds(
            "query_length", [len(query.text.split()) for query in queries], "words"
        ),
        "relevant": lambda: _thirds("relevant", _known(config, relevant), "relevant"),
        "answerable": lambda: _answerable(config, queries, relevant, answers),
    }
    return [
        makers[field]() if field in makers else _by_metadata(config, field, queries)
        for field in config.statistics.slices or ()
    ]


def _by_metadata(config: ExperimentConfig, field: str, queries: Sequence[Query]) -> Slicing:
    metadata = [query.metadata for query in queries]
    values = _values(field, metadata, config.path, "statistics.slices")
    labels = [value or _NONE for value in values]
    return Slicing(
        field, tuple(sorted(set(labels), key=lambda name: (name == _NONE, name))), labels
    )


def _values(
    path: str, many: Sequence[Mapping[str, Any]], file: object, record: str
) -> list[str | None]:
    """Return what each query's metadata say, as text; None where they say nothing."""
    found = [look_up(metadata, path) for metadata in many]
    bad = next((value for value in found if isinstance(value, (list, Mapping))), None)
    if bad is not None:
        kind = "a list" if isinstance(bad, list) else "a mapping"
        problem, allowed = f"{path} is {kind} in the queries", "text, numbers, true or false"
        raise DataError(problem, file=file, record=record, allowed=allowed)
    if all(value is None for value in found):
        keys = keys_of(many)
        raise DataError(
            f"no query has {path}",
            file=file,
            record=record,
            allowed=", ".join(keys) or f"{PREFIX}<key>, and the queries have no metadata",
            nearest=nearest(path, keys),
        )
    return [None if value is None else str(value) for value in found]


def _count_relevant(queries: Sequence[Query], qrels: Qrels) -> list[int]:
    grades = qrels.by_query
    return [sum(grade > 0 for grade in grades.get(query.id, {}).values()) for query in queries]


def _known(config: ExperimentConfig, relevant: list[int] | None) -> list[int]:
    if relevant is None:
        raise _needs(config, "relevant needs relevance judgements, and the data set has none")
    return relevant


def _answerable(
    config: ExperimentConfig,
    queries: Sequence[Query],
    relevant: list[int] | None,
    answers: Mapping[str, Sequence[str]],
) -> Slicing:
    """A query is answerable if it has a gold answer or a relevant document."""
    if relevant is None and not answers:
        text = "answerable needs relevance judgements or gold answers, and the data set has neither"
        raise _needs(config, text)
    counts = relevant or [0] * len(queries)
    labels = [
        "answerable" if count or answers.get(query.id) else "unanswerable"
        for query, count in zip(queries, counts, strict=True)
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
    return Slicing(field, tuple(names.values()), [names[number] for number in third.tolist()])


def _needs(config: ExperimentConfig, found: str) -> DataError:
    return DataError(found, file=config.path, record="statistics.slices")
