"""Nuggets for the queries of a finished run, made by its judge of what all systems retrieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ragbench.config.load import load_saved
from ragbench.data.files.rows import read_jsonl
from ragbench.data.runs.run_folder import file_name, read_manifest, read_summary, resolve_run_folder
from ragbench.errors import DataError, OptionError
from ragbench.experiment.costs import totals_of
from ragbench.experiment.plan.components import build_judge, connected
from ragbench.experiment.plan.plan import load_collection
from ragbench.experiment.plan.records import PlannedJudge
from ragbench.experiment.reproduce import check_trust
from ragbench.experiment.session import Progress, Silent
from ragbench.files import cache_folder
from ragbench.llm import CallFailure, Totals
from ragbench.records.manifest import PredictionRow
from ragbench.registry import nearest
from ragbench.score.judge.base import Item
from ragbench.score.judge.model_judge import ModelJudge
from ragbench.types import Query
from ragbench.types.records import Nugget


@dataclass(frozen=True, slots=True)
class MadeNuggets:
    """What a judge made of the passages of a run."""

    judge: str
    """The judge's name."""
    queries: Sequence[Query]
    """All queries of the data set, in its order, that a system has passages for."""
    nuggets: Mapping[str, tuple[Nugget, ...]]
    """Query id -> its nuggets, perhaps none; a query that failed is absent."""
    failures: Mapping[str, str]
    """Query id -> why there are none."""
    passages: int
    """How many passages were read."""
    totals: Totals
    """What was sent and paid."""

    def rows(self) -> list[dict[str, object]]:
        """Return the lines of the file, in the form of TREC RAG."""
        return [
            {
                "qid": query.id,
                "query": query.text,
                "nuggets": [
                    {"text": nugget.text, "importance": nugget.importance}
                    for nugget in self.nuggets[query.id]
                ],
            }
            for query in self.queries
            if query.id in self.nuggets
        ]


def make_nuggets(
    run: Path,
    judge: str | None = None,
    *,
    depth: int = 20,
    trusted: Sequence[str] = (),
    progress: Progress | None = None,
) -> MadeNuggets:
    """Let the judge of a finished run make nuggets of the passages that all its systems retrieved.

    Args:
        run: A run folder, or the folder of an experiment, whose newest run is used.
        judge: The judge by name; None where the run has one that asks a model.
        depth: How many passages of each system are read; equal texts once.
        trusted: Addresses that may be asked, and variables that may be sent, although only the run
            folder names them.
        progress: What shows how far it is; None shows nothing.

    Raises:
        DataError: There is no run, it has no passages, or its data have changed.
        OptionError: It has no such judge, none that asks a model, or one at an address or with
            a variable that is not trusted.
    """
    folder = resolve_run_folder(run)
    config = load_saved(folder / "config.yaml")
    blocks = config.metrics.judges or {}
    name, planned, asked = _chosen({each: build_judge(blocks[each]) for each in blocks}, judge)
    check_trust(config, [name], trusted)
    pool = _pool(folder, depth)
    if not pool:
        allowed = "a run with answers from retrieved passages"
        raise DataError("no passages in this run", file=folder / "predictions", allowed=allowed)
    collection = load_collection(config)
    # passages come from the run itself: its documents may have changed
    part = "queries"
    then, now = read_manifest(folder).data.get(part), collection.fingerprints.get(part)
    if then != now:
        found = f"the queries are no longer those of the run: fingerprint {then} then, {now} now"
        raise DataError(found, file=folder / "config.yaml", allowed="the data as they were")
    queries = [query for query in collection.queries if query.id in pool]
    items = [Item(question=q.text, contexts=pool[q.id], query_id=q.id) for q in queries]
    bars = progress or Silent()
    with connected({name: planned}, cache_folder(), replay=False):
        with bars.stage(f"make nuggets ({name})", len(items)) as stage:
            made = asked.make_nuggets(items, stage.advance)
        totals = totals_of(planned)
    return MadeNuggets(
        judge=name,
        queries=queries,
        nuggets={
            query.id: found
            for query, found in zip(queries, made, strict=True)
            if not isinstance(found, CallFailure)
        },
        failures={
            query.id: f"{found.cause.word}: {found.detail}"
            for query, found in zip(queries, made, strict=True)
            if isinstance(found, CallFailure)
        },
        passages=sum(len(pool[query.id]) for query in queries),
        totals=totals,
    )


def _chosen(
    judges: Mapping[str, PlannedJudge], name: str | None
) -> tuple[str, PlannedJudge, ModelJudge]:
    """The judge of that name, or the first that asks a model."""
    asking = {
        each: planned.judge
        for each, planned in judges.items()
        if isinstance(planned.judge, ModelJudge)
    }
    if not asking:
        allowed = "a run whose config has a judge that asks a model"
        raise OptionError("nuggets", "judge", name or ", ".join(judges) or None, allowed)
    if name is not None and name not in asking:
        raise OptionError("nuggets", "judge", name, ", ".join(asking), nearest(name, asking))
    chosen = name or next(iter(asking))
    return chosen, judges[chosen], asking[chosen]


def _pool(folder: Path, depth: int) -> dict[str, list[str]]:
    """Query id -> the passages of all systems, the best of each first, equal texts once."""
    lists: dict[str, list[list[str]]] = {}
    for system in read_summary(folder).systems:
        path = folder / "predictions" / f"{file_name(system.name)}.jsonl"
        for entry in read_jsonl(path) if path.is_file() else ():
            row = entry.as_record(PredictionRow)
            texts = [" ".join(filter(None, (each.title, each.text))) for each in row.contexts or ()]
            if texts:
                lists.setdefault(row.query_id, []).append(texts[:depth])
    return {
        query: list(
            dict.fromkeys(filter(None, (text for rank in zip_longest(*found) for text in rank)))
        )
        for query, found in lists.items()
    }
