"""Differences between two runs of which nothing else differs: the noise of the app itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import file_name
from ragbench.data.runs.run_lines import Lines, read_answers
from ragbench.data.runs.run_list import CONFIG_FILE, changes, read_facts
from ragbench.records.manifest import FailedPrediction, Manifest
from ragbench.types.display import counted, printable

_LISTED = 5  # differing questions that the sentence names
# no record of a run has these
_DOUBT = "unless a server, a package, a database or the environment changed"


def own_noise(base: Path | None, head: Path | None) -> str:
    """Return the sentence on results that differ though config, code and data are the same.

    Such as `nothing changed that ragbench can see: these 12 differences are your app's own noise`,
    and what else may be their cause. The text is empty where something changed, nothing differs,
    or a side is no run folder.

    Raises:
        DataError: A run folder cannot be read.
    """
    if base is None or head is None:
        return ""
    if not all((folder / CONFIG_FILE).is_file() for folder in (base, head)):
        return ""
    old, new = read_facts(base), read_facts(head)
    if changes(old, new) or not is_same_code(old.manifest, new.manifest):
        return ""
    # stored results of components of ragbench alone are the same results
    if not (new.manifest.used or new.manifest.unseen):
        return ""
    queries = list(differing_queries(base, head))
    if not queries:
        return ""
    these = "this difference is" if len(queries) == 1 else f"these {len(queries)} differences are"
    labels = map(QueryViews(head).label, queries[:_LISTED])
    names = ", ".join(map(printable, labels))
    if len(queries) > _LISTED:
        names += f" and {counted(len(queries) - _LISTED, 'others')}"
    # many of them change no score, and are in no count of worse and better questions
    noise = f"your app's own noise ({names}), in hits or answers"
    return f"nothing changed that ragbench can see: {these} {noise}, {_DOUBT}"


def is_same_code(old: Manifest, new: Manifest) -> bool:
    """Return True if two runs had the same files, packages, environment, seed and choices."""
    # objects of Python count as changed: no manifest describes their code
    parts = ("ragbench", "python", "packages", "seed", "choices", "versions", "environment", "used")
    same = all(getattr(old, part) == getattr(new, part) for part in parts)
    return same and not old.live and not new.live


def differing_queries(base: Path, head: Path) -> Iterator[str]:
    """Yield the ids of the questions with another ranking or answer by a system of both runs."""
    old, new = QueryViews(base), QueryViews(head)
    common = []
    for system in new.summary.systems:
        if system.role != "control" and old.summary.system(system.name) is not None:
            common.append(system.name)
    old_ids = set(old.ids)
    ids = []
    for query in new.ids:
        if query in old_ids:
            ids.append(query)
    differs = dict.fromkeys(ids, False)
    for name in common:
        pairs = zip(results_of(old, name, ids), results_of(new, name, ids), strict=True)
        for query, (first, second) in zip(ids, pairs, strict=True):
            differs[query] |= first != second
    for query, is_other in differs.items():
        if is_other:
            yield query


def results_of(views: QueryViews, system: str, query_ids: Sequence[str]) -> Iterator[object]:
    """Yield the ranked passages and the answers of a system to each query, without their scores."""
    # Prompts, costs and times are left out: no score reads them.
    lines = Lines(views.folder / "predictions" / f"{file_name(system)}.jsonl")
    for query in query_ids:
        ranking = views.ranking(system, query, number=0)
        passages = None if ranking is None else (list(ranking.ids), ranking.row)
        answers: list[object] = []
        for answer in read_answers(lines, query):
            if isinstance(answer, FailedPrediction):
                answers.append(None)
            else:
                answers.append((answer.answer, answer.contexts, answer.tool_calls))
        yield passages, answers
