"""`Judge`: judge answers from Python, one or many, synchronously or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ragbench.errors import DataError, NotBuiltYet, OptionError
from ragbench.registry import declared_options, nearest, shown
from ragbench.score.judge import JUDGES, base
from ragbench.score.judge.base import WHY_MISSING, Item, missing_input, not_applicable
from ragbench.score.judge.rubric import Rubric, default_rubrics, load_rubric
from ragbench.types.scores import Cause, Verdict

if TYPE_CHECKING:
    from ragbench.types import Document

_ROW_KEYS = (
    "question",
    "answer",
    "contexts",
    "reference",
    "query_id",
    "queries",
    "guidelines",
    "other",
)


class Judge:
    """Judges answers by rubrics.

    A judgement that fails or does not apply is a verdict too, with its status and cause, never an
    exception. One judge may be used from many threads; it is also a context manager, with `with`
    and `async with`.

    Example:
        >>> judge = Judge(type="lexical", rubrics=["faithfulness"])
        >>> verdict = judge.score(
        ...     question="When was it opened?",
        ...     answer="It was opened in 1932.",
        ...     contexts=["The bridge opened in 1932."],
        ... )["faithfulness"]
        >>> verdict.score, judge.score(answer="It was opened in 1932.")["faithfulness"].cause
        (1.0, 'no_contexts')
    """

    def __init__(
        self,
        model: str | None = None,
        rubrics: Sequence[str | Path] | None = None,
        *,
        type: str = "openai",
        **options: Any,
    ) -> None:
        """Make a judge.

        Args:
            model: The model of a judge that has one.
            rubrics: Names of built-in rubrics, or paths of rubric files; by default
                faithfulness, answer_relevancy and correctness.
            type: Which judge: `lexical`, a plug-in's, or `python:module:Name`.
            **options: Options of that judge.

        Raises:
            NotBuiltYet: The design has this type of judge, this version does not.
            OptionError: No such judge, rubric or option, or a rubric that it cannot apply.
            DataError: A rubric file that is not a rubric.
        """
        if type in JUDGES.planned:
            hint = 'type="lexical" judges offline, by word overlap'
            raise NotBuiltYet(f"judge '{type}' is not built yet in this version; {hint}")
        if model is not None:
            options["model"] = model
        self.type = type
        self._judge: base.Judge = make_judge(type, options)
        named = default_rubrics(self._judge.served) if rubrics is None else rubrics
        self.rubrics = load_rubrics(named, type, self._judge)

    @property
    def label(self) -> str:
        """One sentence that says what kind of judge this is."""
        return self._judge.label

    @property
    def model(self) -> str:
        """What gives the verdicts."""
        return self._judge.model

    def score(
        self,
        *,
        question: str | None = None,
        answer: str | None = None,
        contexts: Sequence[str | Document | Mapping[str, Any]] | None = None,
        reference: str | Sequence[str] | None = None,
        query_id: str = "",
        queries: Sequence[str] | None = None,
        guidelines: str | Sequence[str] | None = None,
        other: str | None = None,
    ) -> dict[str, Verdict]:
        """Judge one answer by every rubric.

        Args:
            question: What was asked.
            answer: The system's answer; None where there is none, empty where it said nothing.
            contexts: The passages, best first.
            reference: The gold answer, or several.
            query_id: For the caller's own use.
            queries: The queries that the system formulated, for rubrics that ask of them.
            guidelines: Rules for this answer, for rubrics that need them.
            other: Another system's answer, for rubrics that ask of a pair.

        Returns:
            A verdict per rubric, by name.

        Raises:
            DataError: Contexts, references, queries or guidelines that are no texts.
        """
        item = Item(
            question,
            answer,
            contexts=_texts("contexts", contexts),
            references=_texts("reference", reference) or [],
            query_id=query_id,
            queries=_texts("queries", queries),
            guidelines=_texts("guidelines", guidelines) or [],
            other=other,
        )
        return {rubric.name: apply_rubric(self._judge, item, rubric) for rubric in self.rubrics}

    def score_many(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Verdict]]:
        """Judge many answers; each row has the arguments of `score` as keys.

        Raises:
            DataError: A row with another key.
        """
        checked = [_check_row(number, row) for number, row in enumerate(rows)]
        return [self.score(**row) for row in checked]

    async def ascore(self, **row: Any) -> dict[str, Verdict]:
        """Judge one answer without blocking the running loop; takes what `score` takes."""
        import asyncio

        return await asyncio.to_thread(self.score, **row)

    async def ascore_many(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Verdict]]:
        """Judge many answers without blocking the running loop; may be cancelled between two.

        Raises:
            DataError: A row with another key than `score` has arguments.
        """
        checked = [_check_row(number, row) for number, row in enumerate(rows)]
        return [await self.ascore(**row) for row in checked]

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        close = getattr(self._judge, "close", None)
        if close is not None:
            close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)


def make_judge(
    type_name: str, options: Mapping[str, Any], search: Sequence[Path] = ()
) -> base.Judge:
    """Make a judge from its type and options.

    Raises:
        OptionError: No such judge or option, or a value outside what is allowed.
        NotBuiltYet: The design has this type of judge, this version does not.
    """
    factory = JUDGES.load(type_name, search)
    declared = declared_options(factory)
    for name, value in options.items():
        if name not in declared:
            allowed = ", ".join(declared) or "no options"
            raise OptionError(type_name, "options", name, allowed, nearest(name, declared))
        declared[name].check(type_name, value)
    judge: base.Judge = factory(**options)
    return judge


def load_rubrics(names: Sequence[str | Path], type_name: str, judge: base.Judge) -> list[Rubric]:
    """Load rubrics and check that a judge can apply them.

    Raises:
        OptionError: No such rubric, one that the judge cannot apply, or two of the same name.
        DataError: A file that is not a rubric.
    """
    if isinstance(names, (str, Path)):
        names = [names]
    rubrics = [load_rubric(name) for name in names]
    seen: set[str] = set()
    for rubric in rubrics:
        if judge.served is not None and rubric.name not in judge.served:
            allowed = f"the rubrics that judge '{type_name}' can apply: {', '.join(judge.served)}"
            raise OptionError(f"judge '{type_name}'", "rubrics", rubric.name, allowed)
        if rubric.name in seen:
            raise OptionError(f"judge '{type_name}'", "rubrics", rubric.name, "each name once")
        seen.add(rubric.name)
    return rubrics


def apply_rubric(judge: base.Judge, item: Item, rubric: Rubric) -> Verdict:
    """Judge one item by one rubric; whatever goes wrong becomes a verdict that says so."""
    cause = missing_input(item, rubric)
    if cause is not None:
        return not_applicable(cause, WHY_MISSING[cause])
    try:
        return judge.judge(item, rubric)
    except Exception as error:  # noqa: BLE001 - a judge of the user's may raise anything
        reason = f"{type(error).__name__}: {error}"
        return Verdict(None, reasoning=reason, status="failed", cause=Cause.ERROR.word)


def _texts(name: str, value: Any) -> list[str] | None:
    """The texts of contexts or references: texts, {id, text} mappings, or `Document` objects."""
    if value is None:
        return None
    return [_text(name, item) for item in ([value] if isinstance(value, str) else value)]


def _text(name: str, item: Any) -> str:
    found = item.get("text") if isinstance(item, Mapping) else getattr(item, "full_text", item)
    if not isinstance(found, str):
        raise DataError(f"'{name}' holds {shown(item)}", allowed="texts, {id, text}, Document")
    return found


def _check_row(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    for key in row:
        if key not in _ROW_KEYS:
            allowed = ", ".join(_ROW_KEYS)
            close = nearest(str(key), _ROW_KEYS)
            raise DataError(f"rows[{number}] has '{key}'", allowed=allowed, nearest=close)
    return dict(row)
