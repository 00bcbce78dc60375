"""Clusters of the queries of runs that are compared."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.comparison.matching import Matching
from ragbench.config.metrics import METADATA
from ragbench.data.runs.run_folder import read_query_metadata
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError, OptionError
from ragbench.experiment.plan.queries import clusters_by


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
    keys = set()
    for source in sources:
        if source.summary is not None:
            keys.add(source.summary.cluster)
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
