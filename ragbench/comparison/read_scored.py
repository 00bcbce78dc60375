"""One reader for everything that holds scores: run folders, baselines, TREC runs, evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ragbench.comparison.evaluate import Evaluation
from ragbench.comparison.evaluate_files import evaluate_run_file, refuse_unjudged
from ragbench.comparison.scored import ScoredSystems, from_evaluation, from_stored
from ragbench.data.baseline import read_baseline
from ragbench.data.query_metadata import QUERIES_FILE
from ragbench.data.run_folder import LATEST, file_name, resolve_run_folder
from ragbench.data.run_scores import read_run_scores
from ragbench.errors import DataError
from ragbench.registry import nearest
from ragbench.types import Qrels

DEFAULT_MEASURES = ("ndcg@10", "recall@10", "mrr@10", "map")
"""Measures of run files where nobody names one."""


@runtime_checkable
class HasRunFolder(Protocol):
    """A finished experiment."""

    path: Path
    """Its run folder."""


Source = str | Path | Evaluation | HasRunFolder | ScoredSystems
"""What can be compared."""


def read_scored(
    source: Source,
    *,
    name: str | None = None,
    qrels: Qrels | None = None,
    measures: Sequence[str] = DEFAULT_MEASURES,
) -> ScoredSystems:
    """Read scored systems from wherever they are.

    Args:
        source: A run folder or the folder of an experiment (its newest run), a baseline file, a
            TREC run file, or what `evaluate_run`, `evaluate_texts` and `run_experiment` return.
        name: What messages and tables call it; None takes the path.
        qrels: The judgements of a TREC run file; nothing else needs them.
        measures: What a TREC run file is scored by, by the rules of an experiment: a judged query
            that it lacks counts as 0, one without a relevant document does not apply.

    Raises:
        DataError: There is nothing, or not what it should be; a run file without judgements.
        OptionError: An unknown measure.
    """
    if isinstance(source, ScoredSystems):
        return source
    if isinstance(source, Evaluation):
        return from_evaluation(name or "evaluation", source)
    if isinstance(source, HasRunFolder):
        source = source.path
    if not isinstance(source, (str, Path)):
        raise DataError(
            f"found {type(source).__name__}",
            allowed="a path, an experiment, or what evaluate_run returns",
        )
    path, shown = Path(source), name or str(source)
    if path.is_dir() or (path.name == LATEST and path.is_file()):
        return _read_run(path, shown)
    if not path.exists():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(
            "no such file or folder",
            file=path,
            allowed="a run folder, the folder of an experiment, a baseline file, a TREC run",
            nearest=nearest(path.name, siblings),
        )
    if not needs_qrels(path):
        return from_stored(shown, read_baseline(path))
    if qrels is None:
        raise DataError(
            "a run file has no scores of its own",
            file=path,
            allowed="--qrels with its judgements, or a baseline file",
        )
    evaluation = evaluate_run_file(path, qrels, measures)
    refuse_unjudged(evaluation, path)
    return from_evaluation(shown, evaluation, path)


def needs_qrels(source: Source) -> bool:
    """Tell whether a source is a run file: a file that does not start as JSON does."""
    if not isinstance(source, (str, Path)):
        return False
    path = Path(source)
    if not path.is_file() or path.name == LATEST:
        return False
    with path.open("rb") as stream:
        start = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    # a merge may leave its mark in the first line of a baseline file
    return not start.startswith((b"{", b"[", b"<<<<<<<"))


def _read_run(path: Path, shown: str) -> ScoredSystems:
    folder = resolve_run_folder(path)
    stored = read_run_scores(folder)
    files = {
        system.retriever: folder / "rankings" / f"{file_name(system.retriever)}.trec"
        for system in stored.systems
        if system.retriever is not None
    }
    at_hand = {name: file for name, file in files.items() if file.is_file()}
    metadata = folder / QUERIES_FILE
    return from_stored(shown, stored, at_hand, metadata if metadata.is_file() else None)
