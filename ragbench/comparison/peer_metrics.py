"""Metrics of ragas and deepeval in a call of `evaluate`, by the names of ragbench."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.comparison.function_scores import score_of_function
from ragbench.comparison.peer_calls import part_of
from ragbench.errors import OptionError
from ragbench.registry.peer_names import counterpart, has_ragas_formula, peer_key
from ragbench.score.judge.base import NEEDS
from ragbench.score.judge.published import RAGAS
from ragbench.types import ScoreColumn

# Name of a measure, metric or rubric; or the file of a rubric, or the keys of one.
ScoreName = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PeerMetrics:
    """Metrics of a call by the names of ragbench; `read_metrics` returns it.

    Attributes:
        names: Scores, each once.
        notes: A sentence for each metric that ragbench scores by another name, and one on the
            metrics of ragas with the same name and another formula.
        thresholds: Score -> threshold of its metric object.
    """

    names: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    thresholds: dict[str, float] = field(default_factory=dict)


def read_metrics(
    metrics: Sequence[object], is_score: Callable[[str], bool], *, is_ragas_call: bool = False
) -> PeerMetrics:
    """Return the names of metrics, which may be objects or have the names of another tool.

    Args:
        metrics: Names, files and mappings of scores, and metric objects.
        is_score: Returns True for the name of a score of ragbench.
        is_ragas_call: True for a call with arguments of ragas: a text such as `faithfulness` then
            is the name of a metric of ragas.

    Raises:
        OptionError: A metric has no counterpart, or has an option that the counterpart lacks.
    """
    call, namesakes = PeerMetrics(), list[str]()
    for metric in metrics:
        if isinstance(metric, (Path, Mapping)):
            call.names.append(metric)
            continue
        if inspect.isroutine(metric):
            call.names.append(score_of_function(metric))
            continue
        text = metric if isinstance(metric, str) else _name_of(metric, is_score)
        _check_mode(metric, text)
        score = text if is_score(text) else _score_of(text, metric, is_score)
        if score not in call.names or score == text:
            call.names.append(score)
        if peer_key(score) not in (key := peer_key(text), key.removesuffix("_metric")):
            call.notes.append(_name_note(text, score))
        # a metric of deepeval has no `name`
        elif score in RAGAS and (is_ragas_call or hasattr(metric, "name")):
            namesakes.append(score)
        threshold = getattr(metric, "threshold", None)
        if isinstance(threshold, (int, float)):
            call.thresholds[score] = float(threshold)
    if namesakes:
        call.notes.append(_formula_note(list(dict.fromkeys(namesakes))))
    return call


def _name_note(name: str, score: str) -> str:
    """Return a note on a metric of another tool that is scored by another name."""
    if has_ragas_formula(name):
        return f"{name} is scored as {score}; '{score}(as=ragas)' has the formula of ragas"
    return f"{name} is scored as {score}, whose formula may differ"


def _formula_note(names: Sequence[str]) -> str:
    """Return a note on metrics of ragas whose name is that of a rubric with another formula."""
    forms = ", ".join(f"'{name}(as=ragas)'" for name in names)
    return f"scored by the formula of ragbench; that of ragas: {forms}"


def _name_of(metric: object, is_score: Callable[[str], bool]) -> str:
    """Return the name of a metric object: its `name`, else its `__name__`, else its text."""
    # a measure of ir_measures has its cut-off in its text alone
    if is_score(text := str(metric)):
        return text
    kind = metric.__name__ if isinstance(metric, type) else type(metric).__name__
    names = [getattr(metric, key, None) for key in ("name", "__name__")]
    name = next((name for name in names if isinstance(name, str)), kind)
    # `name` of a GEval is the user's: it may be that of a rubric with another question
    if counterpart(kind) == "" or any(getattr(metric, key, None) for key in _CRITERIA):
        raise _own_rubric(name, metric)
    return name


def _score_of(text: str, metric: object, is_score: Callable[[str], bool]) -> str:
    """Return the score in place of a metric of another tool; the text itself if it is no metric."""
    score, mode = counterpart(text), _mode_of(metric, text)
    if score == "":
        raise _own_rubric(text, metric)
    if "(" in text and mode is None:
        return text  # options, which no other score has
    key = peer_key(text).removesuffix("_metric")
    if key == "rouge_score":
        kind = getattr(metric, "rouge_type", score)
        return str(kind) if mode in (None, "fmeasure") else f"{kind}.{mode}"
    if score is not None:
        return score
    is_text = isinstance(metric, str)
    if is_score(key) and not (is_text and mode is None):
        return key
    if is_text or hasattr(metric, "NAME"):
        return text  # a wrong name, for which `evaluate` suggests another
    raise _own_rubric(text, metric)


# Metric of ragas -> the only mode that has a counterpart.
_MODES = {"factual_correctness": "f1", "noise_sensitivity": "relevant"}


def _check_mode(metric: object, text: str) -> None:
    """Check that the counterpart of a metric has its mode; raise OptionError for another one."""
    key, mode = peer_key(text), _mode_of(metric, text)
    if mode is not None and mode != _MODES.get(key, mode):
        allowed = f"{key} alone, or a rubric of yours with another formula"
        raise OptionError("evaluate", "metrics", f"{key}(mode={mode})", allowed)


def _mode_of(metric: object, text: str) -> str | None:
    """Return the mode of a metric of ragas, from the object or its heading."""
    match = re.search(r"\(mode=(\w+)", text)
    mode = getattr(metric, "mode", None) if match is None else match[1]
    return mode if isinstance(mode, str) else None


# Attributes of metrics of the user: GEval, GEval, AspectCritic.
_CRITERIA = ("evaluation_steps", "criteria", "definition")


# Metrics of ragas with a prompt of the user.
_WITH_PROMPT = ("discrete_metric", "numeric_metric", "ranking_metric")


def _criteria_of(metric: object) -> list[str]:
    """Return the criteria of a metric object as steps of a rubric; [] for a text or without any."""
    kind = peer_key(type(metric).__name__)
    # metrics of ragas itself have a prompt too
    prompt = getattr(metric, "prompt", None) if kind in _WITH_PROMPT else None
    candidates = [getattr(metric, key, None) for key in _CRITERIA]
    for steps in (*candidates, getattr(prompt, "instruction", prompt)):
        texts = [steps] if isinstance(steps, str) else steps
        if isinstance(texts, (list, tuple)) and texts:
            return [" ".join(str(text).split()) for text in texts]
    return []


def _own_rubric(name: str, metric: object) -> OptionError:
    """Return the error for a metric without counterpart, with a rubric that states its criteria."""
    params = getattr(metric, "evaluation_params", None) or ()
    parts = []
    for param in params:
        parts.append(part_of(str(getattr(param, "value", param))))
    needs = [part for part in NEEDS if part in parts] or ["question", "answer"]
    if "answer" not in needs:
        needs.append("answer")
    rubric = {
        "name": re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "own_rubric",
        "needs": needs,
        "scale": {1: "no", 2: "in part", 3: "yes"},
        "steps": _criteria_of(metric) or ["state your criteria here"],
    }
    allowed = f"a rubric of yours in its place: metrics=[{rubric}]"
    return OptionError("evaluate", "metrics", name, allowed)


def threshold_note(
    thresholds: Mapping[str, float], columns: Mapping[str, ScoreColumn]
) -> list[str]:
    """Return a list with a note on the gates in place of thresholds of metric objects; else []."""
    signs = {"higher": ">=", "lower": "<="}
    gates = []
    for name, threshold in thresholds.items():
        if name in columns:
            gates.append(f"{name} {signs[columns[name].direction]} {threshold:g}")
    return [f"thresholds decide nothing here: rb.check_gates(result, {gates})"] if gates else []
