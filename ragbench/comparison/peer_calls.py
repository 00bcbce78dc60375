"""Calls of `evaluate` in the form of ragas and deepeval: arguments, metric objects and models.

None of the two packages is imported: their objects are recognised by public attributes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from ragbench.comparison.function_scores import score_of_function
from ragbench.errors import OptionError, Phrase
from ragbench.llm.server import speaks_openai
from ragbench.registry import nearest
from ragbench.registry.peer_names import counterpart, peer_key
from ragbench.score.judge.base import NEEDS
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.published import RAGAS
from ragbench.score.judge.python import takes_item
from ragbench.types import ScoreColumn
from ragbench.types.tables import PARTS

# Name of a measure, metric or rubric; or the file of a rubric, or the keys of one.
ScoreName = str | Path | Mapping[str, Any]

_JUDGES = "judge='gpt-4o-mini', a chat model of LangChain, or rb.Judge(model=..., base_url=...)"


class PeerArguments(TypedDict, total=False):
    """Arguments of `evaluate` by their names in ragas and deepeval.

    Attributes:
        dataset: Data, as ragas names them.
        test_cases: Data, as deepeval names them.
        llm: Judge, as ragas names it.
    """

    dataset: Any
    test_cases: Any
    llm: Any


_CALLS = "leave it out, or judge=rb.Judge('gpt-4o-mini', timeout=60, concurrency=8)"
_LEAVE_OUT = "leave it out"
# Argument of ragas or deepeval without a counterpart -> what to write.
_REMEDIES: Mapping[str, str] = {
    "embeddings": "leave it out; only rubrics such as 'answer_relevancy(as=ragas)' embed texts",
    "raise_exceptions": "leave it out: result.causes has the failures",
    "ignore_errors": "leave it out: result.causes has the failures",
    "error_config": "leave it out: result.causes has the failures",
    "show_progress": "leave it out, or progress=print",
    "token_usage_parser": "leave it out: result.verdicts has the usage",
    **dict.fromkeys(
        ("run_config", "batch_size", "async_config", "run_async", "max_concurrent", "cache_config",
         "throttle_value", "use_cache", "write_cache"),
        _CALLS,
    ),
    **dict.fromkeys(
        ("experiment_name", "callbacks", "return_executor", "allow_nest_asyncio", "classifiers",
         "metric_collection", "hyperparameters", "mcp_servers", "identifier", "official",
         "display_config", "print_results", "show_indicator", "verbose_mode",
         "skip_on_missing_params"),
        _LEAVE_OUT,
    ),
}  # fmt: skip
_ARGUMENTS = ("data", "metrics", "judge", "columns", "confidence", "progress", "reasoning")


def read_arguments(
    data: object, judge: object, metrics: object, peer: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Return the data and the judge of a call, which may have the names of another tool.

    A model of ragas, `llm`, applies no rubric besides those of `metrics`.

    Args:
        data: Data by our name; None without them.
        judge: Judge by our name; None without one.
        metrics: Metrics of the call; None without any.
        peer: Further arguments of the call.

    Raises:
        OptionError: An argument is unknown, has no counterpart or comes twice; or the data or a
            usable model are missing.
    """
    extra = {}
    for key in peer:
        if key not in PeerArguments.__annotations__:
            extra[key] = peer[key]
    if extra:
        raise _no_arguments(extra)
    by_name = {"data": data, "dataset": peer.get("dataset"), "test_cases": peer.get("test_cases")}
    data = _only(by_name)
    if data is None:
        allowed = "rows, a data frame or a path: evaluate(rows, metrics=['faithfulness'])"
        raise OptionError("evaluate", "data", None, allowed)
    judge = _only({"judge": judge, "llm": peer.get("llm")})
    llm = peer.get("llm") or (_model_of(metrics) if judge is None else None)
    # a script that names `bleu_score` alone pays for no rubric
    if llm is None or metrics is None or isinstance(llm, (Judge, Mapping)):
        return data, llm if judge is None else judge
    arguments = {"model": llm} if isinstance(llm, str) else judge_arguments(llm)
    return data, {**arguments, "rubrics": []}


def _only(values: Mapping[str, Any]) -> Any:
    """Return the only value that is not None; None without one. Raises OptionError for several."""
    stated = {}
    for name, value in values.items():
        if value is not None:
            stated[name] = value
    if len(stated) > 1:
        names = " and ".join(f"{name}=" for name in stated)
        raise OptionError("evaluate", "", Phrase(names), "one of them")
    return next(iter(stated.values()), None)


def _no_arguments(extra: Mapping[str, Any]) -> OptionError:
    """Return the error for arguments that `evaluate` lacks, with what to write for each."""
    remedies = {}
    for name, value in extra.items():
        if name == "column_map" and isinstance(value, Mapping):
            columns = {}
            for part, column in value.items():
                columns[_part_of(part)] = column
            remedies[name] = f"columns={columns}"
        elif name not in _REMEDIES:
            near = nearest(name, [*_ARGUMENTS, *PeerArguments.__annotations__])
            problem = Phrase(f"an unknown argument {name}=")
            return OptionError("evaluate", "", problem, ", ".join(_ARGUMENTS), near)
        else:
            remedies[name] = _REMEDIES[name]
    names = ", ".join(f"{name}=" for name in remedies)
    allowed = "; ".join(f"{name}: {remedy}" for name, remedy in remedies.items())
    return OptionError("evaluate", "", Phrase(names), allowed)


def _part_of(name: str) -> str:
    """Return the part of a table with a column name, such as `question`; else the name itself."""
    for part, names in PARTS.items():
        if name in names.sure:
            return part
    return name


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


def read_metrics(metrics: Sequence[object], is_score: Callable[[str], bool]) -> PeerMetrics:
    """Return the names of metrics, which may be objects or have the names of another tool.

    Args:
        metrics: Names, files and mappings of scores, and metric objects.
        is_score: Returns True for the name of a score of ragbench.

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
            call.notes.append(f"{text} is scored as {score}, whose formula may differ")
        # a metric of deepeval has no `name`
        elif score in RAGAS and score not in namesakes and hasattr(metric, "name"):
            namesakes.append(score)
        threshold = getattr(metric, "threshold", None)
        if isinstance(threshold, (int, float)):
            call.thresholds[score] = float(threshold)
    if namesakes:
        call.notes.append(_formula_note(namesakes))
    return call


def _formula_note(names: Sequence[str]) -> str:
    """Return a note on metrics of ragas whose name is that of a rubric with another formula."""
    return (
        f"the formula of ragbench, not that of ragas: {', '.join(names)}; "
        f"'{names[0]}(as=ragas)' has that of ragas"
    )


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
        parts.append(_part_of(str(getattr(param, "value", param))))
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


def _model_of(metrics: object) -> object:
    """Return the model that metric objects of ragas carry as `llm`."""
    listed = metrics if isinstance(metrics, (list, tuple)) else ()
    model = None
    for metric in listed:
        other = getattr(metric, "llm", None)
        if model is not None and other is not None and other is not model:
            raise OptionError("evaluate", "judge", Phrase("metrics with several models"), _JUDGES)
        model = other if model is None else model
    return model


def judge_arguments(judge: object) -> Mapping[str, Any]:
    """Return the arguments of `Judge` for a client or model, also in a wrapper of ragas.

    A function of a part of an item, such as `answer`, is a judge itself.

    Raises:
        OptionError: No request can be sent through the object.
    """
    if inspect.isroutine(judge) and takes_item(judge):
        return {"type": judge}
    chat_model = getattr(judge, "langchain_llm", judge)
    if speaks_openai(chat_model) or callable(
        getattr(chat_model, "ainvoke", None) or getattr(chat_model, "invoke", chat_model)
    ):
        return {"client": chat_model}
    # `llm_factory` of ragas: a client of instructor around one of openai
    client = getattr(judge, "client", None)
    client = getattr(client, "client", client)
    name = getattr(judge, "model", None)
    if isinstance(name, str) and speaks_openai(client):
        return {"client": client, "model": name}
    raise OptionError("evaluate", "judge", Phrase(f"an object of {type(judge).__name__}"), _JUDGES)
