"""`to_otel`: scores of an answer as OpenTelemetry events, for services that trace their calls.

A score is an event `gen_ai.evaluation.result` of the semantic conventions for generative AI
(https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/), a log record.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, overload

from ragbench.errors import MissingExtra, OptionError
from ragbench.types.lookups import all_are
from ragbench.types.scores import Cause, Verdict

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.trace import Span

EVENT = "gen_ai.evaluation.result"
_EVALUATION = "gen_ai.evaluation"

# Verdict of a judge, result of `scorer` (`{"score", "reason", "cause"}`), or number of a metric.
Scored = Verdict | Mapping[str, Any] | float
_ALLOWED = (
    "score name -> verdict, as Judge.score returns, or result, as {'ndcg@10': scorer(...)}; or a "
    "list of these"
)


@overload
def to_otel(
    verdicts: Mapping[str, Scored],
    *,
    response_id: str | None = None,
    span: Span | None = None,
    logger_provider: LoggerProvider | None = None,
) -> int: ...


@overload
def to_otel(
    verdicts: Iterable[Mapping[str, Scored]],
    *,
    logger_provider: LoggerProvider | None = None,
) -> int: ...


def to_otel(
    verdicts: Mapping[str, Scored] | Iterable[Mapping[str, Scored]],
    *,
    response_id: str | None = None,
    span: Span | None = None,
    logger_provider: LoggerProvider | None = None,
) -> int:
    """Emit the scores of an answer as OpenTelemetry events, and return their number.

    Each score is an event `gen_ai.evaluation.result`: `gen_ai.evaluation.name`, `.score.value`,
    `.score.label` and `.explanation` (the words of the judge), `gen_ai.response.id`, and
    `error.type` for a failed score. A score without a value has none, never 0, and its cause in
    `ragbench.cause`. Question, answer and passages are not sent; an explanation may quote them.

    Args:
        verdicts: Score name -> verdict, result of `scorer`, or number; or a list of these, as
            `Judge.score_many` returns.
        response_id: Id of the response that was scored, as the server of its model gave it.
        span: Span of the call that was scored, the parent of the events; None takes the current
            one. A background task passes the span of its request.
        logger_provider: Provider of the events; None takes the global one. Without a provider of
            the SDK, OpenTelemetry drops them.

    Raises:
        OptionError: A score has no name or another form, or several answers have one id or span.
        MissingExtra: `opentelemetry-api` is not installed.

    Example:
        >>> judge = rb.Judge("gpt-4o-mini", ["faithfulness"])                    # doctest: +SKIP
        >>> rb.to_otel(judge.score(answer="In 1932.", contexts=["It opened."]))  # doctest: +SKIP
        1
    """
    answers = _answers_of(verdicts)
    for name, value in (("response_id", response_id), ("span", span)):
        if value is not None and len(answers) > 1:
            raise OptionError("to_otel", name, value, "None for several answers: call it for each")
    events = []
    for answer in answers:
        for name, scored in answer.items():
            events.append(event_attributes(name, *_parts_of(name, scored)))
    try:
        from opentelemetry._logs import LogRecord, SeverityNumber, get_logger
        from opentelemetry.trace import set_span_in_context
    except ImportError as error:
        raise MissingExtra("rb.to_otel", "opentelemetry-api", "otel") from error
    logger = get_logger("ragbench", logger_provider=logger_provider)
    more = {} if response_id is None else {"gen_ai.response.id": response_id}
    for attributes in events:
        logger.emit(
            LogRecord(
                timestamp=time.time_ns(),
                context=None if span is None else set_span_in_context(span),
                severity_number=SeverityNumber.INFO,
                attributes=attributes | more,
                event_name=EVENT,
            )
        )
    return len(events)


def event_attributes(
    name: str, value: float, level: float | None, status: str, cause: str, explanation: str
) -> dict[str, str | float]:
    """Return the attributes of the event of a score, by their names in the conventions.

    A score without a value has no number. The label is the level of a verdict, `scored`, or the
    status. An empty explanation is left out.

    Args:
        name: Name of the score.
        value: Value of the score; NaN for none.
        level: Level of the verdict; None without one.
        status: `failed` or `not_applicable`, of a score without a value.
        cause: Word of the cause of a missing value; empty if it is not known.
        explanation: Words of the judge, the error, or the missing part.

    Example:
        >>> event_attributes("fluency", 0.75, 4, "scored", "", "It reads well.")
        {'gen_ai.evaluation.name': 'fluency', 'gen_ai.evaluation.score.value': 0.75,
         'gen_ai.evaluation.score.label': 'level 4',
         'gen_ai.evaluation.explanation': 'It reads well.'}
    """
    attributes: dict[str, str | float] = {f"{_EVALUATION}.name": name}
    if not isnan(value):
        attributes[f"{_EVALUATION}.score.value"] = value
        attributes[f"{_EVALUATION}.score.label"] = "scored" if level is None else f"level {level:g}"
    else:
        attributes[f"{_EVALUATION}.score.label"] = status
        attributes["ragbench.cause"] = cause
        if status == "failed":
            attributes["error.type"] = cause
        explanation = explanation or cause
    if explanation:
        attributes[f"{_EVALUATION}.explanation"] = explanation
    return attributes


def _answers_of(verdicts: object) -> Sequence[Mapping[str, Scored]]:
    """Return the scores of each answer; raise OptionError for another form."""
    if isinstance(verdicts, Mapping):
        return [verdicts]
    if isinstance(verdicts, Iterable) and not isinstance(verdicts, str):
        answers = [*verdicts]
        if all_are(answers, Mapping):
            return answers
    raise OptionError("to_otel", "verdicts", verdicts, _ALLOWED)


def _parts_of(name: str, scored: object) -> tuple[float, float | None, str, str, str]:
    """Return (value, level, status, cause, explanation) of a score; raise OptionError if none."""
    if isinstance(scored, Verdict):
        cause = "" if scored.status == "scored" else scored.cause
        return float(scored), scored.level, scored.status, cause, scored.reasoning
    if isinstance(scored, Mapping) and {"score", "reason", "cause"} <= scored.keys():
        value, word = scored["score"], scored["cause"] or ""
        failed = bool(word) and Cause[word.upper()].failed
        number = float("nan") if value is None else float(value)
        return number, None, "failed" if failed else "not_applicable", word, scored["reason"]
    if isinstance(scored, (int, float)):
        return float(scored), None, "not_applicable", "", ""
    raise OptionError("to_otel", f"verdicts[{name!r}]", scored, _ALLOWED)
