"""`Judge`: judge answers from Python, one or many, synchronously or not."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import OptionError
from ragbench.llm.server import speaks_openai
from ragbench.registry import check_values, declared_options
from ragbench.score.judge import JUDGES, base
from ragbench.score.judge.base import Rubric
from ragbench.score.judge.items import Rows, RubricInputs, item_of, items_of
from ragbench.score.judge.python import as_judge, judge_maker, name_of
from ragbench.score.judge.rubric import (
    default_rubrics,
    embedding_identity,
    load_rubric,
    not_applied,
)
from ragbench.score.judge.verdicts import ajudge_all, judge_all
from ragbench.types.scores import Verdict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ragbench.llm import Replies
    from ragbench.types import Document


class Judge(AbstractContextManager["Judge"], AbstractAsyncContextManager["Judge"]):
    """Judges answers by rubrics.

    A judgement that fails or does not apply is a verdict too, with its status and cause, never an
    exception. One judge may be used from many threads; it is also a context manager, with `with`
    and `async with`.

    Example:
        A function of the answer and its passages is a judge, and needs no model.

        >>> def quoted(answer, contexts):
        ...     return any(answer in text for text in contexts)
        >>> judge = Judge(type=quoted)
        >>> verdict = judge.score(answer="in 1932", contexts=["It opened in 1932."])["quoted"]
        >>> verdict.score, judge.score(answer="in 1932")["quoted"].cause
        (1.0, 'no_contexts')
    """

    def __init__(
        self,
        model: str | None = None,
        rubrics: Sequence[str | Path | Mapping[str, Any]] | None = None,
        *,
        type: str | object = "openai",
        replies: str | Path | None = None,
        client: Any = None,
        **options: Any,
    ) -> None:
        """Make a judge.

        Args:
            model: The model of a judge that has one.
            rubrics: Names of built-in rubrics, paths of rubric files, or mappings with the keys
                of such a file; by default faithfulness, answer_relevancy and correctness, or
                all of a judge that has none of these.
            type: Which judge: `openai`, `langchain`, `nli`, a plug-in's, or `python:module:Name`;
                also a class or an object of your own, or a function of `answer`, `question`,
                `contexts`, `references`, ..., by these names, that returns a number from 0 to 1,
                True or False, or `(number, reason)`, and gives one score, under its own name.
            replies: File in which replies are kept: what it holds is not asked again. None keeps
                none.
            client: What is asked in place of a server by its address: a ready `openai.OpenAI` or
                `AsyncOpenAI`, with its own server, key and HTTP settings; any object with
                `chat.completions.create`; a chat model of LangChain; or a function, also an
                asynchronous one, of messages `[{"role", "content"}]` that returns a text. The
                last two need no `model`.
            **options: Options of that judge, such as `base_url`, `timeout` or `samples`.

        Raises:
            MissingExtra: The judge needs a package that is not installed.
            OptionError: No such judge, rubric or option, a rubric that it cannot apply, or no key.
            DataError: A rubric file that is not a rubric, or a file that holds no replies.
        """
        self._made = (model, rubrics, type, replies, client, options)
        if type == "openai" and model is None and client is not None and "models" not in options:
            type = "openai" if speaks_openai(client) else "langchain"
        if model is not None:
            options = {**options, "model": model}
        self.type = type if isinstance(type, str) else name_of(type)
        inputs = {} if client is None else {"client": client}
        self._judge: base.RubricJudge = make_judge(type, options, inputs=inputs)
        named = default_rubrics(self._judge) if rubrics is None else rubrics
        self.rubrics = load_rubrics(named, self.type, self._judge)
        self._replies = self._kept(replies)

    def _kept(self, path: str | Path | None) -> Replies | None:
        """See that nothing is missing, and open the store of replies of a judge that asks."""
        if path is None:
            self._judge.check()
            return None
        if not self._judge.asks:
            raise OptionError(self.type, "replies", path, "a judge that asks models")
        from ragbench.llm import Replies

        replies = Replies(path)
        self._judge.keep_replies(replies)
        try:
            self._judge.check()
        # Ctrl-C too: there will be no judge whose `close` closes the file
        except BaseException:
            replies.close()
            raise
        return replies

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the judge again of what it was made with: never of a key or a connection.

        A key is read from its variable where the judge is made again, a model is loaded there.

        Raises:
            TypeError: It was made with a client, which may hold a key.
        """
        model, rubrics, kind, replies, client, options = self._made
        if client is not None:
            raise TypeError(
                "a judge with a client of yours cannot be pickled, since the client may hold a "
                "key: make the judge with base_url and api_key_env, or anew in each process"
            )
        make = functools.partial(type(self), type=kind, replies=replies, **options)
        return make, (model, rubrics)

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
        **more: Unpack[RubricInputs],
    ) -> dict[str, Verdict]:
        """Judge one answer by every rubric.

        Args:
            question: What was asked.
            answer: The system's answer; None where there is none, empty where it said nothing.
            contexts: The passages, best first.
            reference: The gold answer, or several.
            query_id: For the caller's own use.
            **more: What some rubrics need, by name: `queries`, `guidelines`, `other`, `nuggets`;
                `turns`, what was said before the question: messages `{role, content}`, also with
                `tool_calls`, `contexts` and messages of tools, as OpenAI, ragas and deepeval write
                them, or exchanges `{question, answer, contexts}`; and `tool_calls`, the tools that
                the system called: `{name, arguments, output}`.

        Returns:
            A verdict per rubric, by name.

        Raises:
            DataError: Contexts, references, queries or guidelines that are no texts; turns or tool
                calls of an unknown form.
        """
        item = item_of("score()", (question, answer, contexts, reference, query_id), more)
        return judge_all(self._judge, [item], self.rubrics)[0]

    def score_many(self, rows: Rows) -> list[dict[str, Verdict]]:
        """Judge many answers, as many at once as the judge can.

        Args:
            rows: Mappings with the arguments of `score` as keys, or a data frame (pandas, polars,
                Arrow) with such columns; the names of ragas and deepeval, and those that a file of
                records may have, are understood as well. What no rubric reads, such as gold
                passages, is left aside, and so is any other column of a data frame.

        Raises:
            DataError: A row with another key, or with contexts, references, queries or guidelines
                that are no texts.
        """
        return judge_all(self._judge, items_of(rows), self.rubrics)

    async def ascore(
        self,
        *,
        question: str | None = None,
        answer: str | None = None,
        contexts: Sequence[str | Document | Mapping[str, Any]] | None = None,
        reference: str | Sequence[str] | None = None,
        query_id: str = "",
        **more: Unpack[RubricInputs],
    ) -> dict[str, Verdict]:
        """Judge one answer as `score` does, without blocking the running loop.

        Arguments, result and errors are those of `score`.
        """
        item = item_of("ascore()", (question, answer, contexts, reference, query_id), more)
        return (await ajudge_all(self._judge, [item], self.rubrics))[0]

    async def ascore_many(self, rows: Rows) -> list[dict[str, Verdict]]:
        """Judge many answers, as `score_many` does, without blocking the running loop.

        May be cancelled: calls under way are given up, replies that came are kept.
        """
        return await ajudge_all(self._judge, items_of(rows), self.rubrics)

    def close(self) -> None:
        """Give back what the judge holds: connections, a model, the file of replies."""
        self._judge.close()
        if self._replies is not None:
            self._replies.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aexit__(self, *error: object) -> None:
        import asyncio

        # closing may wait: off the loop, so that other tasks go on
        await asyncio.to_thread(self.close)


def make_judge(
    named: str | object,
    options: Mapping[str, Any],
    *,
    inputs: Mapping[str, Any] | None = None,
) -> base.RubricJudge:
    """Make a judge from its type, or from what the user passed, and its options.

    `inputs` are live objects, such as a `client`.
    """
    type_name = named if isinstance(named, str) else name_of(named)
    factory = JUDGES.load(named) if isinstance(named, str) else judge_maker(named)
    check_values(type_name, declared_options(factory), options)
    for name in (given := inputs or {}):
        if name not in inspect.signature(factory).parameters:
            raise OptionError(type_name, name, given[name], "a judge that takes one")
    return as_judge(factory(**options, **given))


def load_rubrics(
    names: Sequence[str | Path | Mapping[str, Any]], type_name: str, judge: base.RubricJudge
) -> list[Rubric]:
    """Load rubrics and check that a judge can apply them."""
    if isinstance(names, (str, Path, Mapping)):
        names = [names]
    own = judge.own_rubric
    rubrics = [load_rubric(own if own and name == own["name"] else name) for name in names]
    seen: set[str] = set()
    for rubric in rubrics:
        if (allowed := not_applied(rubric, judge)) is not None:
            raise OptionError(f"judge '{type_name}'", "rubrics", rubric.name, allowed)
        if rubric.name in seen:
            raise OptionError(f"judge '{type_name}'", "rubrics", rubric.name, "each name once")
        seen.add(rubric.name)
        # raises here where its model or package is missing, not at the first answer
        embedding_identity(rubric)
    return rubrics
