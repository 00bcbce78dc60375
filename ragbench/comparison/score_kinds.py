"""Scores of a call of `evaluate` by their names: measures, metrics and rubrics, and the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ragbench.comparison.peer_calls import judge_arguments
from ragbench.comparison.peer_metrics import PeerMetrics, ScoreName, read_metrics
from ragbench.errors import OptionError, RagbenchError
from ragbench.records.causes import LEAK_READ
from ragbench.records.score import Kind
from ragbench.registry import nearest
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.text import METRICS
from ragbench.score.text.base import Metric
from ragbench.score.text.notation import parse_metric


def read_names(
    metrics: Sequence[object], judge: Judge | None, *, is_ragas_call: bool = False
) -> PeerMetrics:
    """Return the names of the scores of a call, with notes on those of another tool.

    Texts are names of ragas if the call has arguments of ragas.
    """
    metrics = [metrics] if isinstance(metrics, (str, Path, Mapping)) else metrics
    if not (metrics or judge):
        raise OptionError("evaluate", "metrics", metrics, "names of scores; None for the defaults")
    is_score = partial(_is_score, judge=judge)
    return read_metrics(metrics, is_score, is_ragas_call=is_ragas_call)


def names_by_kind(names: Sequence[ScoreName], judge: Judge | None) -> dict[Kind, list[Any]]:
    """Return kind -> names of its scores, measures parsed; [] for a kind without scores."""
    by_kind: dict[Kind, list[Any]] = {kind: [] for kind in _PARSERS}
    for name in names:
        kind = kind_of_score(name, judge, "evaluate", "metrics")
        # parsed here, since `official` names several measures
        is_ranked = kind == "retrieval"
        by_kind[kind] += parse_measures(name, trec_eval_defaults=True) if is_ranked else [name]
    return by_kind


def opened_judge(judge: object) -> AbstractContextManager[Judge | None]:
    """Return a context of the judge, which closes it only if it is created here."""
    opened = open_judge(judge)
    return nullcontext(opened) if opened is None or opened is judge else opened


def open_judge(judge: object) -> Judge | None:
    """Return the judge of a model name, of a mapping of arguments of `Judge`, or of a client.

    A `Judge` and None are returned as they are. The caller has to close a judge that is new.

    Raises:
        OptionError: An unknown judge, rubric or option, or no key.
        DataError: A file is no rubric, or code or a model cannot be loaded.
        MissingExtra: The judge needs a package that is not installed.
        AdapterError: The factory of a chat model fails.
    """
    if judge is None or isinstance(judge, Judge):
        return judge
    options = {"model": judge} if isinstance(judge, str) else judge
    return Judge(**(options if isinstance(options, Mapping) else judge_arguments(judge)))


_PARSERS: Mapping[Kind, Callable[[Any], object]] = {
    "retrieval": partial(parse_measures, trec_eval_defaults=True),
    "generation": parse_metric,
    "judge": load_rubric,
}


def kind_of_score(name: Any, judge: Judge | None, owner: str, option: str) -> Kind:
    """Return the kind of the score with a name: `retrieval`, `generation` or `judge`.

    A path, a mapping and a name of the judge's rubrics are `judge`, without reading the file.
    `owner` and its `option` are named in messages.

    Raises:
        OptionError: No score has the name, an option of the name is wrong, or it is a rubric and
            there is no judge.
        DataError: A file is no rubric.
        RagbenchError: Code of the user cannot be loaded.
    """
    errors: list[RagbenchError] = []
    kind = _find_kind(name, judge, errors)
    if kind is not None:
        return _with_judge(name, judge, owner) if kind == "judge" else kind
    # a wrong option of one kind of score says more than that the other kinds lack the name
    for problem in errors:
        if not isinstance(problem, OptionError) or problem.option not in ("", "name", "type"):
            raise problem
    # the parser of measures knows the cut-off, too: ndcg10 is nearer to ndcg@10 than to ndcg
    close = next((e.nearest for e in errors if isinstance(e, OptionError) and e.nearest), None)
    score_names = [*MEASURES.names(), *METRICS.names(), *built_in_rubrics()]
    allowed = "a measure, metric or rubric of `ragbench list`, or the file of a rubric"
    if close is not None:
        score_names.append(close)
    raise OptionError(owner, option, name, allowed, nearest(str(name), score_names) or close)


def _find_kind(name: Any, judge: Judge | None, errors: list[RagbenchError]) -> Kind | None:
    """Return the kind of the score with a name; None, with the errors of all parsers, if none."""
    own_names = [] if judge is None else [rubric.name for rubric in judge.rubrics]
    if isinstance(name, (Path, Mapping)) or name in own_names:
        return "judge"
    if name == LEAK_READ:
        return "generation"
    if isinstance(name, (Metric, Measure)):
        return "generation" if isinstance(name, Metric) else "retrieval"
    for kind, parse in _PARSERS.items():
        try:
            # an object, such as a measure of ir_measures, has its name as text
            parse(str(name))
        except RagbenchError as error:
            errors.append(error)
        else:
            return kind
    return None


def _is_score(name: str, judge: Judge | None) -> bool:
    return _find_kind(name, judge, []) is not None


def _with_judge(name: object, judge: Judge | None, owner: str) -> Kind:
    if judge is None:
        allowed = f"a judge for {name}: judge='gpt-4o-mini', or a Judge"
        raise OptionError(owner, "judge", None, allowed)
    return "judge"
