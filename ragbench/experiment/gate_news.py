"""Facts for the first lines of `ragbench gate`: answers, failures, corpus, questions, judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.comparison.pairs import PairedScores
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.run_folder import read_manifest
from ragbench.data.runs.run_lines import CAUSES_FILE, read_cause_rows
from ragbench.data.runs.run_list import CONFIG_FILE, read_config
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import RagbenchError
from ragbench.experiment.plan.components import loads_by_code
from ragbench.experiment.plan.plan import load_collection
from ragbench.records.causes import RIGHT
from ragbench.report.text import counted, significant
from ragbench.signature import fingerprint
from ragbench.types.display import printable
from ragbench.types.lookups import index_positions, take_items

_MOST_NAMES = 5  # questions or documents that a line names


def names_of_first(ids: Sequence[str]) -> str:
    """Return up to 5 ids in brackets, and the number of others; empty without ids.

    Example:
        >>> names_of_first(["q1", "q2"]), names_of_first("abcdefg")
        (' (q1, q2)', ' (a, b, c, d, e and 2 more)')
    """
    if not ids:
        return ""
    n_more = len(ids) - _MOST_NAMES
    more = f" and {n_more} more" if n_more > 0 else ""
    return f" ({printable(', '.join(ids[:_MOST_NAMES]))}{more})"


def answers_line(system: str, pairs: PairedScores, label: Callable[[str], str]) -> str:
    """Return the sentence on answers that became right, and no longer right; '' without any.

    `label` returns the name of a query for a reader. Of several repetitions the majority counts.
    """
    gains = np.nan_to_num(pairs.gains).tolist()
    won, lost = [], []
    for query, gain in zip(pairs.query_ids, gains, strict=True):
        if gain > 0.5:
            won.append(label(query))
        elif gain < -0.5:
            lost.append(label(query))
    if not won and not lost:
        return ""
    became = f"{len(won)} became right{names_of_first(won)}"
    return f"{printable(system)}: {became}, {len(lost)} no longer right{names_of_first(lost)}"


def failure_lines(
    base: ScoredSystems, head: ScoredSystems, label: Callable[[str], str]
) -> Iterator[str]:
    """Yield a line for each system with failures: `ours: 7 of 60 questions failed`.

    Of a system with several answers to a question it counts answers. Failures of the base have a
    line if the head has none. `label` returns the name of a query for a reader.
    """
    failures = _failures_of(head)
    for name, (words, queries) in failures.items():
        of = f", on {counted(len(queries), 'questions')}" if words.endswith("answers") else ""
        yield f"{printable(name)}: {words} failed{of}{names_of_first([*map(label, queries)])}"
    for name, (words, _) in _failures_of(base).items():
        if name in head.systems and name not in failures:
            yield f"{printable(name)}: {words} failed before, and none now"


def _failures_of(source: ScoredSystems) -> dict[str, tuple[str, list[str]]]:
    """Return system -> number of its failures in words, and their queries; {} without any."""
    if source.folder is None:
        return {}
    causes = read_cause_rows(source.folder / CAUSES_FILE)
    failures = {}
    for name in source.systems:
        rows = causes.get(name, {})
        n_answers = n_failed = 0
        queries = []
        for query, repeats in rows.items():
            n = sum(row.cause == "failed" for row in repeats)
            n_answers, n_failed = n_answers + len(repeats), n_failed + n
            if n:
                queries.append(query)
        is_repeated = n_answers > len(rows)
        unit = "answers" if is_repeated else "questions"
        if queries:
            failures[name] = f"{n_failed} of {counted(n_answers, unit)}", queries
    return failures


def corpus_lines(
    base: ScoredSystems, head: ScoredSystems, config: ExperimentConfig, places: Mapping[Path, Path]
) -> Iterator[str]:
    """Yield the documents that were renamed or removed, and new doubts about judged documents.

    Args:
        base: Scores of the base.
        head: Scores of the head.
        config: Config of the head.
        places: Folder of the head -> folder of the base; empty if the files of the base are gone.
    """
    if base.folder is None or head.folder is None:
        return
    corpora = [read_manifest(folder).data.get("corpus") for folder in (base.folder, head.folder)]
    if corpora[0] != corpora[1]:
        changed = document_changes(config, places) if all(corpora) and places else ""
        yield f"corpus CHANGED{changed and ': '}{changed}"
    old_warnings = () if base.summary is None else base.summary.warnings
    for warning in () if head.summary is None else head.summary.warnings:
        if " in the corpus" in warning and warning not in old_warnings:
            yield printable(warning)


def document_changes(config: ExperimentConfig, places: Mapping[Path, Path]) -> str:
    """Return the renamed, removed, new and edited documents in words, by name and count.

    The result is empty if the data set is read by code of the user, or cannot be read.
    """
    if loads_by_code(config):
        return ""
    try:
        old, new = (_documents(part) for part in (_moved(config, places), config))
    except RagbenchError:  # the base run read its data, so that its files have moved since
        return ""
    by_text: dict[str, list[str]] = {}
    for name, text in new.items():
        if name not in old:
            by_text.setdefault(text, []).append(name)
    renamed, removed = [], []
    for name, text in old.items():
        if name in new:
            continue
        if by_text.get(text):
            renamed.append(f"{name} -> {by_text[text].pop()}")
        else:
            removed.append(name)
    added = list(chain.from_iterable(by_text.values()))
    edited = []
    for name, text in old.items():
        if new.get(name, text) != text:
            edited.append(name)
    groups = {"renamed": renamed, "removed": removed, "new": added, "edited": edited}
    parts = []
    for word, names in groups.items():
        if names:
            parts.append(f"{len(names)} {word}{names_of_first(names)}")
    return ", ".join(parts)


def _documents(config: ExperimentConfig) -> dict[str, str]:
    """Return document -> fingerprint of its text; {} without a corpus."""
    # Titles do not count: that of a file is its name, and would change with it.
    documents = load_collection(config).documents
    return {document.id: fingerprint([document.text]) for document in documents or ()}


def _moved(config: ExperimentConfig, places: Mapping[Path, Path]) -> ExperimentConfig:
    """Return a config whose data set is read from the base."""

    def move(value: object) -> object:
        if isinstance(value, (list, tuple)):
            return type(value)(map(move, value))
        if isinstance(value, (str, Path)) and Path(value).is_absolute():
            for head, base in places.items():
                if Path(value).is_relative_to(head):
                    return type(value)(base / Path(value).relative_to(head))
        return value

    options = {key: move(value) for key, value in config.dataset.options.items()}
    return replace(config, dataset=replace(config.dataset, options=options))


def new_question_lines(
    head: ScoredSystems, new: Sequence[str], measures: Sequence[str], label: Callable[[str], str]
) -> Iterator[str]:
    """Yield a line on the scores of new questions by system; nothing without new questions.

    The score is `right`, else the first of the measures that the system has. `label` returns the
    name of a query for a reader.
    """
    if not new:
        return
    row_of = index_positions(head.query_ids)
    rows = take_items(row_of, new)
    parts = []
    for name, system in head.systems.items():
        names = [name for name in (RIGHT, *measures) if name in system.columns]
        measure = next(iter(names), None)
        if measure is None:
            continue
        values = system.columns[measure].values[rows]
        if np.isnan(values).all():
            parts.append(f"{printable(name)} has no {measure}")
        elif measure == RIGHT:
            wrong = []
            for query, value in zip(new, values, strict=True):
                if not value > 0:
                    wrong.append(label(query))
            n_right = int(np.nansum(values > 0))
            parts.append(f"{printable(name)} is right on {n_right}, wrong on {len(wrong)}")
            parts[-1] += names_of_first(wrong)
        else:
            parts.append(
                f"{printable(name)} has {measure} {significant(float(np.nanmean(values)))}"
            )
    of_new = names_of_first([*map(label, new)])
    yield f"{counted(len(new), 'new questions')}{of_new}: {'; '.join(parts)}"


def judge_and_gate_lines(base: ScoredSystems, head: ScoredSystems) -> Iterator[str]:
    """Yield a line for each judge and gate that was added, removed or changed since the base.

    There is no line if either side has no config: a baseline file has none.
    """
    folders = base.folder, head.folder
    configs = []
    for folder in folders:
        if folder is None or not (folder / CONFIG_FILE).is_file():
            return
        configs.append(read_config(folder))
    old, new = configs
    yield from _differences("judge", _judges(old), _judges(new))
    yield from _changed_judge_files(base, head)
    yield from _differences("gate", _gates(old), _gates(new))


# Parts of the signature of a judged score that stand in files, and not in the config
_PARTS_IN_FILES = ("rubric", "prompt", "code")


def _changed_judge_files(base: ScoredSystems, head: ScoredSystems) -> Iterator[str]:
    """Yield a line on the judged scores whose rubric, prompt or function changed in its file."""
    scores_by_change: dict[str, dict[str, None]] = {}
    for name, system in head.systems.items():
        old = base.systems[name].columns if name in base.systems else {}
        for score, column in system.columns.items():
            if system.kinds[score] != "judge" or score not in old:
                continue
            signatures = old[score].signature, column.signature
            parts = []
            for part in _PARTS_IN_FILES:
                if signatures[0].part(part) != signatures[1].part(part):
                    parts.append(part)
            if parts:
                scores_by_change.setdefault(" and ".join(parts), {})[score] = None
    for change, scores in scores_by_change.items():
        yield printable(f"judge changed: {change} of {', '.join(scores)}")


def _differences(
    noun: str, old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the added, removed and changed entries of two mappings, by the name of the entry."""
    for name, options in new.items():
        if name not in old:
            yield printable(f"{noun} added: {name}")
        elif old[name] != options:
            keys = dict.fromkeys((*old[name], *options))
            changed = []
            for key in keys:
                if old[name].get(key) != options.get(key):
                    changed.append(key)
            texts = []
            for key in changed:
                texts.append(f"{key}: {old[name].get(key)} -> {options.get(key)}")
            yield printable(f"{noun} changed: {name}: {'; '.join(texts)}")
    for name in old:
        if name not in new:
            yield printable(f"{noun} removed: {name}")


def _judges(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return judge -> its options; {} without a judge."""
    block = (config.get("metrics") or {}).get("judge") or {}
    return {block["type"]: block} if isinstance(block.get("type"), str) else dict(block)


# Keys of a gate that are no part of its name
_OPTIONS_OF_GATES = ("decide", "undecided", "identical", "by")


def _gates(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return subject, system and condition of a gate -> its options; {} without gates."""
    gates: dict[str, Mapping[str, Any]] = {}
    for gate in config.get("gates") or ():
        words = []
        for number, (key, value) in enumerate(gate.items()):
            text = ", ".join(value) if isinstance(value, list) else str(value)
            if number == 0:
                words.append(text)
            elif key in ("system", "against"):
                words.append(f"{key} {text}")
            elif key not in _OPTIONS_OF_GATES:
                words.append(key)
        name = " ".join(words)
        while name in gates:  # two gates with one condition
            name += "'"
        gates[name] = gate
    return gates
