"""What a run is narrowed to: a sample of the queries, some of the systems, no judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.signature import fingerprint
from ragbench.types import Query


@dataclass(frozen=True, slots=True)
class Choices:
    """What the caller narrows a run to."""

    limit: int | None = None
    """A seeded sample of this many queries."""
    only: tuple[str, ...] = ()
    """Names of retrievers, generators or pairs; empty means all."""
    judge: bool = True
    """Whether judges are asked."""
    judge_replay: bool = False
    """Whether judges answer from stored replies alone; what is missing is an error."""
    retry_failed: bool = False
    """Whether items that failed before are asked again."""


def sample(queries: list[Query], limit: int | None, seed: int) -> tuple[list[Query], list[str]]:
    """A random sample that depends on the seed and the ids alone, in the order of the file."""
    if limit is None or limit >= len(queries):
        return queries, []
    if limit < 1:
        raise OptionError("run", "limit", limit, "an integer >= 1")
    by_chance = sorted(queries, key=lambda query: fingerprint([str(seed), query.id]))
    chosen = {query.id for query in by_chance[:limit]}
    warning = f"a random sample of {limit} of {len(queries)} queries (--limit, seed {seed})"
    return [query for query in queries if query.id in chosen], [warning]


def narrow(
    retrievers: list[str], pairs: list[tuple[str, str]], given: list[str], only: Sequence[str]
) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """Keep what `only` names; a generator keeps all its retrievers, a pair its own."""
    if not only:
        return retrievers, pairs, given
    generators = dict.fromkeys(generator for _, generator in pairs)
    allowed = [*retrievers, *generators, *(f"{r}/{g}" for r, g in pairs), *given]
    for name in only:
        if name not in allowed:
            raise OptionError("run", "only", name, ", ".join(allowed), nearest(name, allowed))
    some_retrievers = {name for name in only if name in retrievers}
    some_generators = {name for name in only if name in generators}

    def wanted(retriever: str, generator: str) -> bool:
        if f"{retriever}/{generator}" in only:
            return True
        if not some_retrievers and not some_generators:
            return False
        return (not some_retrievers or retriever in some_retrievers) and (
            not some_generators or generator in some_generators
        )

    kept = [pair for pair in pairs if wanted(*pair)]
    asked = [r for r in retrievers if r in only or any(r == left for left, _ in kept)]
    return asked, kept, [name for name in given if name in only]
