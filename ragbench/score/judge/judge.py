"""`Judge`: judge answers from Python, one or many, synchronously or not."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ragbench.errors import DataError, OptionError
from ragbench.registry import check_values, declared_options, nearest, shown
from ragbench.score.judge import JUDGES, base
from ragbench.score.judge.base import AskingJudge, CheckedJudge, Item, Rubric
from ragbench.score.judge.rubric import default_rubrics, load_rubric
from ragbench.score.judge.verdicts import ajudge_all, judge_all
from ragbench.types.scores import Verdict

if TYPE_CHECKING:
    from ragbench.llm import Replies
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
        replies: str | Path | None = None,
        client: Any = None,
        **options: Any,
    ) -> None:
        """Make a judge.

        Args:
            model: The model of a judge that has one.
            rubrics: Names of built-in rubrics, or paths of rubric files; by default
                faithfulness, answer_relevancy and correctness.
            type: Which judge: `openai`, `langchain`, `nli`, `lexical`, a plug-in's, or
                `python:module:Name`.
            replies: File in which replies are kept: what it holds is not asked again. None keeps
                none.
            client: A ready `openai.OpenAI` or `AsyncOpenAI`, with its own server, key and HTTP
                settings; for `langchain`, a chat model.
            **options: Options of that judge, such as `base_url`, `timeout` or `samples`.

        Raises:
            MissingExtra: The judge needs a package that is not installed.
            OptionError: No such judge, rubric or option, a rubric that it cannot apply, or no key.
            DataError: A rubric file that is not a rubric, or a file that holds no replies.
        """
        if model is not None:
            options["model"] = model
        self.type = type
        inputs = {} if client is None else {"client": client}
        self._judge: base.Judge = make_judge(type, options, inputs=inputs)
        named = default_rubrics(self._judge.served) if rubrics is None else rubrics
        self.rubrics = load_rubrics(named, type, self._judge)
        self._replies = self._kept(replies)

    def _kept(self, path: str | Path | None) -> Replies | None:
        """See that nothing is missing, and open the store of replies of a judge that asks."""
        if path is not None and not isinstance(self._judge, AskingJudge):
            raise OptionError(self.type, "replies", path, "a judge that asks models")
        if path is None or not isinstance(self._judge, AskingJudge):
            if isinstance(self._judge, CheckedJudge):
                self._judge.check()
            return None
        from ragbench.llm import Replies

        replies = Replies(path)
        self._judge.keep_replies(replies)
        try:
            self._judge.check()
        except BaseException:
            replies.close()
            raise
        return replies

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
        item = item_of(
            question=question,
            answer=answer,
            contexts=contexts,
            reference=reference,
            query_id=query_id,
            queries=queries,
            guidelines=guidelines,
            other=other,
        )
        return judge_all(self._judge, [item], self.rubrics)[0]

    def score_many(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Verdict]]:
        """Judge many answers, as many at once as the judge can.

        Each row has the arguments of `score` as keys.

        Raises:
            DataError: A row with another key, or with contexts, references, queries or guidelines
                that are no texts.
        """
        return judge_all(self._judge, items_of(rows), self.rubrics)

    async def ascore(self, **row: Any) -> dict[str, Verdict]:
        """Judge one answer without blocking the running loop; takes what `score` takes."""
        return (await self.ascore_many([row]))[0]

    async def ascore_many(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Verdict]]:
        """Judge many answers, as `score_many` does, without blocking the running loop.

        May be cancelled: calls under way are given up, replies that came are kept.
        """
        return await ajudge_all(self._judge, items_of(rows), self.rubrics)

    def close(self) -> None:
        """Give back what the judge holds: connections, a model, the file of replies."""
        close = getattr(self._judge, "close", None)
        if close is not None:
            close()
        if self._replies is not None:
            self._replies.close()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)


def make_judge(
    type_name: str,
    options: Mapping[str, Any],
    search: Sequence[Path] = (),
    *,
    inputs: Mapping[str, Any] | None = None,
) -> base.Judge:
    """Make a judge from its type and options.

    `python:` looks in `search` first; `inputs` are live objects, such as a `client`.
    """
    factory = JUDGES.load(type_name, search)
    check_values(type_name, declared_options(factory), options)
    for name in (given := inputs or {}):
        if name not in inspect.signature(factory).parameters:
            raise OptionError(type_name, name, given[name], "a judge that takes one")
    judge: base.Judge = factory(**options, **given)
    return judge


def load_rubrics(names: Sequence[str | Path], type_name: str, judge: base.Judge) -> list[Rubric]:
    """Load rubrics and check that a judge can apply them."""
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


def items_of(rows: Iterable[Mapping[str, Any]]) -> list[Item]:
    """Return the rows as items, all of them checked before the first is judged."""
    return [item_of(**_check_row(number, row)) for number, row in enumerate(rows)]


def item_of(
    *,
    contexts: Any = None,
    reference: Any = None,
    queries: Any = None,
    guidelines: Any = None,
    **texts: Any,
) -> Item:
    """Return an item of the arguments of `Judge.score`."""
    return Item(
        contexts=_texts("contexts", contexts),
        references=_texts("reference", reference) or [],
        queries=_texts("queries", queries),
        guidelines=_texts("guidelines", guidelines) or [],
        **texts,
    )


def _check_row(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    for key in row:
        if key not in _ROW_KEYS:
            allowed = ", ".join(_ROW_KEYS)
            close = nearest(str(key), _ROW_KEYS)
            raise DataError(f"rows[{number}] has '{key}'", allowed=allowed, nearest=close)
    return dict(row)
