"""Class `Judge`: judge one or many answers from Python, synchronously or asynchronously."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ragbench.errors import OptionError, Phrase
from ragbench.files import cache_folder
from ragbench.llm.server import speaks_openai
from ragbench.llm.usage import BudgetOptions, read_budget
from ragbench.registry import check_values, declared_options
from ragbench.score.base import Advance
from ragbench.score.judge import JUDGES, base
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.items import Passage, Rows, RubricInputs, item_of, items_of
from ragbench.score.judge.markers import marker_note
from ragbench.score.judge.python import as_judge, judge_maker, name_of
from ragbench.score.judge.rubric import (
    default_rubrics,
    embedding_identity,
    load_rubric,
    not_applied,
)
from ragbench.score.judge.verdicts import (
    ajudge_all,
    collect_verdicts,
    count_alike,
    judge_all,
    levels_note,
    mixed_rubrics,
)
from ragbench.store.database import REPLIES_FILE
from ragbench.types import ScoreColumn
from ragbench.types.lookups import index_by_name, item_names
from ragbench.types.progress_line import Counted, ProgressChoice, in_notebook, shown_progress
from ragbench.types.reasoning import Reasoning, check_reasoning
from ragbench.types.scores import Verdict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ragbench.llm import Replies


class Judge(AbstractContextManager["Judge"], AbstractAsyncContextManager["Judge"]):
    """Judge of answers by rubrics.

    A judgement that fails or does not apply is a verdict with a status and a cause, not an
    exception; an error that the user has to fix, such as a missing key, is raised. A judge can be
    shared by threads, and closed by `with` or `async with`.

    `model` is the name of a model, as the server calls it, and `options` those of the judge type,
    such as `base_url`. Creating a judge checks rubrics, package and key: OptionError, MissingExtra
    or DataError. `score` judges one answer and `score_many` the rows of a table. They return rubric
    -> verdict; an answer that lacks an input has `not_applicable`. Raises DataError for inputs with
    an unknown name or a wrong form.

    Attributes:
        rubrics: Rubrics that each answer is judged by, in order.
        type: Type of the judge, or `module:name` of code of the user.

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
        replies: str | Path | Literal[False] | None = None,
        client: Any = None,
        reasoning: Reasoning = "cut",
        budget: BudgetOptions | None = None,
        **options: Any,
    ) -> None:
        """Create a judge and check its rubrics, package, key and model.

        Args:
            model: Name of the model; None for a judge without one.
            rubrics: Names of built-in rubrics, paths of rubric files, or mappings with the keys
                of such a file. By default faithfulness, answer_relevancy and correctness, as far
                as the judge can apply them; if it can apply none of them, all that it can. An empty
                list gives none.
            type: Type of the judge: `openai`, `langchain`, `classifier`, `nli`, that of a plug-in,
                or `python:module:Name`. Also your own class or object; or a function with
                parameters `answer`, `question`, `contexts`, `references`, ... that returns a number
                from 0 to 1, True or False, or `(number, reason)`: its only score has the function's
                name.
            replies: File that stores replies, so that no request is sent twice. None: no file, but
                in a notebook that of the cache folder, `.ragbench`, unless `client` is a function
                or a chat model. False: no file.
            client: Client to use instead of a server address: an `openai.OpenAI` or `AsyncOpenAI`
                with its own server, key and HTTP settings; any object with
                `chat.completions.create`; a chat model of LangChain; or a function, also an
                asynchronous one, of messages `[{"role", "content"}]` that returns a text. The
                last two need no `model`.
            reasoning: `keep` leaves the reasoning of a system, such as `<think>`, in the answers
                that are judged; references always stay as they are.
            budget: Limits on all calls together: `usd`, `tokens`, `minutes` from now on. When one
                is reached, verdicts fail with the cause `over_budget`. None: no limit.
            **options: Options of the judge type, such as `base_url`, `timeout` or `repeat`.

        Raises:
            MissingExtra: The judge needs a package that is not installed.
            OptionError: A judge, rubric or option is unknown or does not fit, a key is missing, or
                `budget` limits dollars and the price of the model is unknown.
            AdapterError: The factory of a chat model fails. Exceptions of your own class or
                function that creates a judge are passed on.
            DataError: A file is wrong, code of `type` cannot be imported, or a model cannot be
                loaded.
        """
        check_reasoning("Judge", reasoning)
        self._reasoning: Reasoning = reasoning
        self._arguments = (model, rubrics, type, replies, client, options)
        self._limits = budget
        if model is not None:
            options = {**options, "model": model}
        elif type == "openai" and client is not None and "models" not in options:
            # without a type and a model, the kind of client decides between these two
            type = "openai" if speaks_openai(client) else "langchain"
        self.type = type if isinstance(type, str) else name_of(type)
        inputs = {} if client is None else {"client": client}
        self._judge: base.RubricJudge = make_judge(type, options, inputs=inputs)
        sources = default_rubrics(self._judge) if rubrics is None else rubrics
        self.rubrics = load_rubrics(sources, self.type, self._judge)
        self._replies: Replies | None = None
        if not self._judge.asks:
            _refuse_unused(self.type, replies=replies or None, budget=budget)
        if budget is not None:
            self._judge.spend_from(read_budget(budget))
        if replies is None and self._judge.asks and (client is None or speaks_openai(client)):
            replies = _notebook_replies()
        if replies:
            self._keep_replies(replies)
        try:
            self._judge.check()
            if budget is not None and budget.get("usd") is not None:
                _check_prices(self._judge)
        # Ctrl-C too: there will be no judge whose `close` closes the file
        except BaseException:
            self.close()
            raise

    def _keep_replies(self, file: str | Path) -> None:
        from ragbench.llm import Replies

        self._replies = Replies(file)
        self._judge.keep_replies(self._replies)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor, never a key or a connection.

        Unpickling reads the key from its environment variable and loads the model again.

        Raises:
            TypeError: The judge has a client, which may hold a key.
        """
        model, rubrics, kind, replies, client, options = self._arguments
        if client is not None:
            raise TypeError(
                "a judge with a client of yours cannot be pickled, since the client may hold a "
                "key: make the judge with base_url and api_key_env, or anew in each process"
            )
        make = functools.partial(
            type(self),
            type=kind,
            replies=replies,
            reasoning=self._reasoning,
            budget=self._limits,
            **options,
        )
        return make, (model, rubrics)

    def __repr__(self) -> str:
        rubrics = ", ".join(item_names(self.rubrics))
        # a judge without a model has its type as the name of its method
        kind = " ".join(dict.fromkeys([self.type, self.model]))
        return f"<Judge {kind}: {rubrics}>"

    @property
    def label(self) -> str:
        """Description of the kind of judge, in one sentence."""
        return self._judge.label

    @property
    def model(self) -> str:
        """Name of the model, or of the method with its version; `a+b` for the models of a jury."""
        return self._judge.model

    def score(
        self,
        *,
        question: str | None = None,
        answer: str | None = None,
        contexts: Sequence[Passage] | None = None,
        reference: str | Sequence[str] | None = None,
        query_id: str = "",
        **more: Unpack[RubricInputs],
    ) -> dict[str, Verdict]:
        """Judge one answer by every rubric.

        Args:
            question: Question of the user.
            answer: Answer of the system; None if there is none, empty if it returned no text.
            contexts: Passages, best first: texts, `{id, text}`, or documents, also of LangChain.
            reference: Gold answer, or several of them.
            query_id: Id of the query; no rubric reads it.
            **more: Inputs of some rubrics: `queries`, `guidelines`, `other`, `nuggets`; `turns`,
                the messages before the question: `{role, content}`, also with `tool_calls`,
                `contexts` and messages of tools, as in OpenAI, ragas and deepeval, or exchanges
                `{question, answer, contexts}`; and `tool_calls`, the tools that the system
                called: `{name, arguments, output}`. Also the names of ragas and deepeval:
                `user_input`, `response`, `retrieved_contexts`; `input`, `actual_output`,
                `retrieval_context`, `expected_output`.

        Returns:
            Rubric -> verdict, in the order of `rubrics`; scores are from 0 to 1, None for a verdict
            that failed or does not apply.

        Raises:
            DataError: An input has another form or name, or comes twice.
            RagbenchError: The user has to act, as for a missing key or a full disk.
        """
        inputs = (question, answer, contexts, reference, query_id)
        item = item_of("score()", inputs, more, self._reasoning)
        return judge_all(self._judge, [item], self.rubrics)[0]

    def score_many(
        self, rows: Rows, *, progress: ProgressChoice = None
    ) -> list[dict[str, Verdict]]:
        """Judge many answers concurrently; return rubric -> verdict per row, in order.

        If only some replies have token probabilities, the scores of all rows are those of the
        levels alone.

        Args:
            rows: Mappings with the arguments of `score` as keys, or a data frame (pandas, polars,
                Arrow) with such columns. Column names of ragas, deepeval and record files are
                understood too. Columns that no rubric reads, such as gold passages, are ignored,
                and so is any other column of a data frame.
            progress: None shows a line on stderr after two seconds, in a terminal or a notebook;
                True anywhere, False never. Or a function that is called with the number of judged
                rows so far and in all.

        Raises:
            DataError: `rows` are no table, or a row has a wrong key or value. No answer is judged
                then.
            RagbenchError: The user has to act, as for a missing key or a full disk.
        """
        items = items_of(rows, self._reasoning)
        with shown_progress(progress, "judge") as report:
            advance = report and Counted(report, len(items))
            verdicts = judge_all(self._judge, items, self.rubrics, advance)
        return [dict(by_rubric) for by_rubric in count_alike(verdicts, self.rubrics)]

    async def ascore(
        self,
        *,
        question: str | None = None,
        answer: str | None = None,
        contexts: Sequence[Passage] | None = None,
        reference: str | Sequence[str] | None = None,
        query_id: str = "",
        **more: Unpack[RubricInputs],
    ) -> dict[str, Verdict]:
        """Judge one answer as `score` does, without blocking the running loop.

        Arguments and result (rubric -> verdict) are those of `score`. Raises DataError for an input
        with an unknown name or a wrong form, RagbenchError if the user has to act.
        """
        inputs = (question, answer, contexts, reference, query_id)
        item = item_of("ascore()", inputs, more, self._reasoning)
        return (await ajudge_all(self._judge, [item], self.rubrics))[0]

    async def ascore_many(
        self, rows: Rows, *, progress: ProgressChoice = None
    ) -> list[dict[str, Verdict]]:
        """Judge many answers as `score_many` does, without blocking the running event loop.

        The result is rubric -> verdict per row, in order. Cancelling aborts the requests in
        progress; replies that have arrived stay stored. Raises DataError for rows of another form,
        RagbenchError if the user has to act.
        """
        items = items_of(rows, self._reasoning)
        with shown_progress(progress, "judge") as report:
            advance = report and Counted(report, len(items))
            verdicts = await ajudge_all(self._judge, items, self.rubrics, advance)
        return [dict(by_rubric) for by_rubric in count_alike(verdicts, self.rubrics)]

    def close(self) -> None:
        """Close connections and the file of replies, and unload the model.

        A second call does nothing more. A later `score` connects again; but with a file of replies
        it raises a DataError, before it asks, unless the file has the replies.
        """
        self._judge.close()
        if self._replies is not None:
            self._replies.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aexit__(self, *error: object) -> None:
        import asyncio

        # in a thread: closing may block, and other tasks of the event loop must go on
        await asyncio.to_thread(self.close)


def _refuse_unused(kind: str, **options: object) -> None:
    """Raise an OptionError for a value of an option that only a judge that asks models reads."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(kind, name, value, f"a judge that asks models, or no {name}")


def _check_prices(judge: base.RubricJudge) -> None:
    """Check that each model of a judge has a price, which a budget in dollars needs."""
    from ragbench.llm import Connected

    if isinstance(judge, Connected):
        for model, entry in judge.unpriced().items():
            problem = Phrase(f"a limit, with {model!r}, whose price is not known")
            raise OptionError("budget", "usd", problem, entry)


@functools.cache
def _notebook_replies() -> Path | None:
    """Return the file of replies of a notebook, told once; None elsewhere."""
    if not in_notebook():
        return None
    path = cache_folder() / REPLIES_FILE
    text = f"note: replies of judges are stored in {path}: Judge(replies=False) turns it off"
    sys.stderr.write(f"{text}\n")
    return path


class JudgedItems(NamedTuple):
    """Verdicts of a judge on many items, from `judge_items`.

    Attributes:
        verdicts: Rubric -> verdict of each item, in order.
        columns: Score column of each rubric.
        notes: Sentences on scores of several models, and on unweighted levels.
        rubrics: Name of each score column -> its rubric.
    """

    verdicts: Sequence[Mapping[str, Verdict]]
    columns: Mapping[str, ScoreColumn]
    notes: Sequence[str]
    rubrics: Mapping[str, Rubric]


def judge_items(
    judge: Judge,
    items: Sequence[JudgedItem],
    names: Sequence[str | Path | Mapping[str, Any]],
    advance: Advance | None = None,
) -> JudgedItems:
    """Judge items by some rubrics and by those that the judge was created with, each once.

    A judge that was created without rubrics adds its default ones only if there are no names. The
    rubrics of `names` come first.

    Args:
        judge: Judge from Python.
        items: Items to judge.
        names: Rubrics besides those of the judge, as `Judge` takes them.
        advance: Called with the number of items that were completed since the last call.

    Raises:
        OptionError: No rubric has a name, a name comes twice, or the judge cannot apply it.
        DataError: A file is no rubric, or an embedding model is not in the cache of the hub, which
            cannot be reached.
        RagbenchError: The user has to act, as for a missing key or package.
    """
    kind, model = judge.type, judge._judge
    loaded_rubrics = load_rubrics(names, kind, model, judge.rubrics)
    if not loaded_rubrics or judge._arguments[1] is not None:
        loaded_rubrics += judge.rubrics
    rubrics = list(index_by_name(loaded_rubrics).values())
    verdicts = judge_all(model, items, rubrics, advance)
    judged = collect_verdicts(model, items, rubrics, verdicts, type_name=kind)
    mixed = mixed_rubrics([judged.weightings])
    notes = [levels_note(mixed)] if mixed else []
    for name, column in judged.columns.items():
        if "model" in column.signature.mixtures:
            notes.append(
                f"{name}: the server answered as several models, so that the score is a mixture, "
                "which is compared with no other: name the snapshot of the model"
            )
    if any(rubric.reads_citations for rubric in rubrics):
        answers = []
        for item in items:
            if item.answer is not None:
                answers.append(item.answer)
        notes += filter(None, [marker_note(answers, model.citations)])
    by_name = index_by_name(rubrics)
    return JudgedItems(count_alike(verdicts, rubrics), judged.columns, notes, by_name)


def verdict_reader(
    judge: Judge, name: str | Path | Mapping[str, Any]
) -> Callable[[JudgedItem], Verdict]:
    """Return a function that judges an item by one rubric, also one that the judge does not have.

    `name` is a rubric of the judge, or a rubric as `Judge` takes it. The function raises
    `RagbenchError` where the user has to act, as for a missing key. A failed judgement, and an item
    that lacks a part, is a verdict.

    Raises:
        OptionError: No rubric has the name, or the judge cannot apply it.
        DataError: A file is no rubric, or an embedding model is not in the cache of the hub, which
            cannot be reached.
        MissingExtra: The rubric's embedding model needs sentence-transformers.
    """
    model = judge._judge
    rubrics = []
    for rubric in judge.rubrics:
        if rubric.name == name:
            rubrics.append(rubric)
    rubrics = rubrics or load_rubrics([name], judge.type, model)
    return lambda item: judge_all(model, [item], rubrics)[0][rubrics[0].name]


def make_judge(
    target: str | object,
    options: Mapping[str, Any],
    *,
    inputs: Mapping[str, Any] | None = None,
) -> base.RubricJudge:
    """Return a judge from a type name, or from a user's class, object or function.

    `inputs` are live objects that a config cannot hold, such as a `client`.
    Exceptions of the user's code that creates the judge are passed on. A missing key or package is
    found by `check` of the judge, not here.

    Raises:
        OptionError: The type is unknown, the judge has no such option or input, or an option has a
            wrong value.
        DataError: The target is neither a judge nor a factory of judges, or code of the user cannot
            be imported.
    """
    type_name = target if isinstance(target, str) else name_of(target)
    factory = JUDGES.load(target) if isinstance(target, str) else judge_maker(target)
    check_values(type_name, declared_options(factory), options)
    for name in (objects := inputs or {}):
        if name not in inspect.signature(factory).parameters:
            raise OptionError(type_name, name, objects[name], f"a judge that takes a {name}")
    return as_judge(factory(**options, **objects))


def load_rubrics(
    names: Sequence[str | Path | Mapping[str, Any]],
    type_name: str,
    judge: base.RubricJudge,
    judge_rubrics: Sequence[Rubric] = (),
) -> list[Rubric]:
    """Load rubrics by name, path or mapping, and check that the judge can apply them.

    A single name is a list of one. A name of `judge_rubrics`, those of the judge, is that rubric.

    Raises:
        OptionError: No rubric has a name, the judge cannot apply a rubric, a name comes twice, or a
            rubric's embedding model does not exist.
        DataError: A file is no rubric, or an embedding model is not in the cache of the hub, which
            cannot be reached.
        MissingExtra: A rubric's embedding model needs sentence-transformers.
    """
    if isinstance(names, (str, Path, Mapping)):
        names = [names]
    keys, own_by_name = judge.own_rubric, index_by_name(judge_rubrics)
    rubrics = []
    for name in names:
        if isinstance(name, str) and name in own_by_name:
            rubrics.append(own_by_name[name])
        else:
            rubrics.append(load_rubric(keys if keys and name == keys["name"] else name))
    loaded: set[str] = set()
    for rubric in rubrics:
        if (allowed := not_applied(rubric, judge)) is not None:
            raise OptionError(f"judge '{type_name}'", "rubrics", rubric.name, allowed)
        if rubric.name in loaded:
            raise OptionError(f"judge '{type_name}'", "rubrics", rubric.name, "each name once")
        loaded.add(rubric.name)
        # a missing embedding model or package is an error here, not at the first answer
        embedding_identity(rubric)
    return rubrics
