"""Calls of `evaluate` in the form of ragas and deepeval: arguments and models.

None of the two packages is imported: their objects are recognised by public attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypedDict

from ragbench.errors import OptionError, Phrase
from ragbench.llm.server import speaks_openai
from ragbench.registry import nearest
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.python import takes_item
from ragbench.types.tables import PARTS

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
                columns[part_of(part)] = column
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


def part_of(name: str) -> str:
    """Return the part of a table with a column name, such as `question`; else the name itself."""
    for part, names in PARTS.items():
        if name in names.sure:
            return part
    return name


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
