"""The clusters of queries that finished runs have in common: `ragbench compare --cluster`."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.comparison.comparable import Met
from ragbench.comparison.scored import ScoredSystems
from ragbench.config.metrics import METADATA
from ragbench.data.query_metadata import read_query_metadata
from ragbench.errors import DataError, OptionError
from ragbench.experiment.query_groups import clusters_by


def common_clusters(path: str, met: Met) -> list[str]:
    """Return the cluster of each common query, which every source that has metadata gives alike.

    Raises:
        OptionError: `path` is no `metadata.<key>`.
        DataError: No source has metadata, or they lack the key or differ; bets, whose unit is the
            single query.
    """
    if not METADATA.fullmatch(path):
        raise OptionError("compare", "cluster", path, "metadata.<key>, such as metadata.topic")
    ids = list(met.sources[0].query_ids)
    found = {
        source.source: labels
        for source in met.sources
        if (labels := source_clusters(path, source, ids)) is not None
    }
    _refuse_bets(path, met.sources)
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
                differ = (
                    f"{path} of query {query!r} is {here!r} in {first} and {there!r} in {other}"
                )
                raise DataError(differ)
    return labels


def source_clusters(path: str, source: ScoredSystems, ids: Sequence[str]) -> list[str] | None:
    """Return the clusters of some queries by one source; None where it has no metadata.

    Raises:
        DataError: The file is damaged, or its queries lack the key.
    """
    if source.metadata is None:
        return None
    metadata = read_query_metadata(source.metadata)
    labels, _ = clusters_by(path, {query: metadata.get(query, {}) for query in ids},
                            file=source.metadata)  # fmt: skip
    return labels


def _refuse_bets(path: str, sources: Sequence[ScoredSystems]) -> None:
    for source in sources:
        for system in source.systems.values():
            for name, column in system.columns.items():
                if column.look is not None and column.look.always_valid:
                    found = (
                        f"{name} has bets on single queries, and the units are clusters ({path})"
                    )
                    raise DataError(found, file=source.source)
