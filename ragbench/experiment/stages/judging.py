"""Judging stages: the verdicts of each judge on the answers of each system."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, takewhile
from typing import Any

from ragbench import __version__
from ragbench.executors.base import blocks_of
from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.records import (
    Answers,
    Results,
    judge_totals,
    judge_use,
    split_samples,
    with_failures_of,
)
from ragbench.experiment.stages import stored_items
from ragbench.experiment.stages.answers import AnswerQueries
from ragbench.experiment.stages.base import PENDING, Keep, Slot, Stage, Step, StoredStage, Workspace
from ragbench.experiment.stages.comparison import judge_warnings
from ragbench.records.codec import to_json
from ragbench.records.manifest import form_id
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.markers import marker_note
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.verdicts import (
    JudgeResults,
    collect_verdicts,
    judge_all,
    judge_on,
    levels_note,
    mixed_rubrics,
)
from ragbench.secrets import redact
from ragbench.signature import fingerprint_json, order_key
from ragbench.store.items import StageItems
from ragbench.types import Cause, Verdict
from ragbench.types.rows import Mapped
from ragbench.types.scores import SentPrompt

# Items that are judged here at a time; the verdicts of a block are stored together.
_BLOCK = 64

# Methods whose rubrics have a reply each; rubrics of another method share their replies.
_OWN_REPLY_METHODS = frozenset({"rating", "pairwise"})
# Options of judges that do not change verdicts, and are no part of the keys.
_NO_KEY = frozenset(
    {"concurrency", "timeout", "retries", "api_key_env", "prices", "mode", "keep_alive"}
)


def passage_texts(outcome: Outcome[Any]) -> list[str] | None:
    """Return the texts of the passages of an answer, with titles; [] if its list is empty.

    None where it failed, does not tell its passages, or has ids without a text alone; beside others
    with a text, an id alone has an empty one.
    """
    if outcome.value is None or outcome.value.contexts is None:
        return None
    texts = [document.full_text for document in outcome.value.contexts]
    return texts if any(texts) or not texts else None


class Verdicts(StoredStage):
    """Stage that judges items by each rubric of a judge; each rubric has stored items of its own.

    `by_item` returns the verdicts, and `collected` their score columns; both make missing ones. A
    judgement that fails is a verdict with a cause. It has a slot per item and rubric, item by item.

    Attributes:
        name: Name of the judge.
        judge: Judge with its rubrics.
        judged: Items to judge; those of an answer are read on access.
        bare: The same items without the output of the system, as far as the data set has them.
    """

    kind, version = "judge", 2
    unit = "verdicts"

    def __init__(
        self,
        workspace: Workspace,
        title: str,
        name: str,
        judge: PlannedJudge,
        judged: Sequence[JudgedItem] = (),
        under: Stage | None = None,
    ) -> None:
        super().__init__(workspace, title, under)
        self.name, self.judge = name, judge
        self.judged: Sequence[JudgedItem] = judged
        # without answers, which are not read again to collect the verdicts
        self.bare: Sequence[JudgedItem] = judged
        self._rubrics = {rubric.name: rubric for rubric in judge.rubrics}

    def by_item(self) -> Sequence[Mapping[str, Verdict]]:
        """Return rubric -> verdict of each item, in their order; a missing verdict has no entry.

        Verdicts that are not stored are made; in a forecast they are missing.
        """
        verdicts, names = self.items(), list(self._rubrics)

        def of_item(start: int) -> dict[str, Verdict]:
            part = zip(names, verdicts[start : start + len(names)], strict=True)
            return {name: verdict for name, verdict in part if verdict is not None}

        return Mapped(of_item, range(0, len(verdicts), len(names)))

    def collected(self) -> JudgeResults:
        """Return the verdicts on all items as score columns, rows, usage and models.

        Verdicts that are not stored are made.
        """
        judge = self.judge
        return collect_verdicts(
            judge.judge, self.bare, judge.rubrics, self.by_item(), type_name=judge.type
        )

    @property
    def stores(self) -> bool:
        """Return False for a replay, which makes all verdicts from stored replies again."""
        return not self.plan.choices.judge_replay

    def slots(self) -> list[Slot]:
        """Return the slots of all rubrics, item by item."""
        judge = self.judge
        files = [
            self.items_of_key(f"{self.name}: {name}", _judge_key(judge, rubric, self.plan))
            for name, rubric in self._rubrics.items()
        ]
        # several samples of a judge measure its noise: equal answers must not share a verdict
        keys = (
            stored_items.item_key(item, item.sample if judge.samples > 1 else 0)
            for item in self.judged
        )
        return [Slot(file, key, row) for row, key in enumerate(keys) for file in files]

    @cached_property
    def _prompt_items(self) -> StageItems:
        """Stored words of prompts by id, which many verdicts share."""
        return self.items_of("words of prompts", ["prompts"])

    def read(self, stored: stored_items.Stored) -> Verdict:
        """Return a verdict with its prompts, without those whose words are no longer stored.

        Raises DataError, TypeError, ValueError or LookupError for another form.
        """
        fields = {**stored}
        rows, known_prompts = fields.pop("prompts", ()), self.workspace.prompts
        for form in {row[0] for row in rows} - known_prompts.keys():
            if (words := self._prompt_items.get(form)) is not None:
                known_prompts[form] = tuple(words)
        prompts = tuple(
            SentPrompt(*known_prompts[form], fence, tuple(texts), to)
            for form, fence, texts, to in rows
            if form in known_prompts
        )
        return replace(stored_items.read_verdict(fields), prompts=prompts)

    def write(self, value: Verdict) -> dict[str, Any]:
        """Return a verdict as JSON, after the words of its prompts are stored."""
        known_prompts = self.workspace.prompts
        rows = []
        for prompt in value.prompts:
            system, user = map(self.workspace.clean, (prompt.system, prompt.user))
            prompt_id = form_id(system, user)
            if prompt_id not in known_prompts:
                if self.stores and prompt_id not in self._prompt_items:
                    self._prompt_items.put(prompt_id, [system, user])
                known_prompts[prompt_id] = (system, user)
            rows.append([prompt_id, prompt.fence, list(prompt.texts), prompt.to])
        return {**to_json(value), "prompts": rows}

    def _groups(self, todo: Sequence[int]) -> dict[tuple[str, ...], list[int]]:
        """Return the rows of the items to judge, by the names of the rubrics that judge them.

        Rubrics of one method share replies, and the tokens of a reply count for the first verdict
        that uses it. So where a verdict is missing, all rubrics of its method judge the item again,
        from stored replies. Rows are from 0.
        """
        names = list(self._rubrics)
        missing: dict[int, set[str]] = {}
        for position in todo:
            row, number = divmod(position, len(names))
            missing.setdefault(row, set()).add(self._shares_replies_with(names[number]))
        groups: dict[tuple[str, ...], list[int]] = {}
        for row, methods in missing.items():
            chosen = tuple(name for name in names if self._shares_replies_with(name) in methods)
            groups.setdefault(chosen, []).append(row)
        return groups

    def _shares_replies_with(self, name: str) -> str:
        """Return the method of a rubric; its own name if its method shares no replies.

        The methods `rating` and `pairwise` share none.
        """
        method = self._rubrics[name].method
        return name if method in _OWN_REPLY_METHODS else method

    def progress_total(self, todo: Sequence[int]) -> tuple[int, str]:
        """Return the number of items, not of verdicts, and their unit: `queries` or `answers`.

        Raises:
            IndexError: There are no items.
        """
        unit = "answers" if self.bare[-1].sample else "queries"
        return sum(map(len, self._groups(todo).values())), unit

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Judge items in random order, and keep the verdicts.

        Items without a verdict when the time is up get one with the cause `OVER_BUDGET`.
        """
        names, seed = list(self._rubrics), self.plan.config.seed
        unjudged = set(todo)
        for rubric_names, rows in self._groups(todo).items():
            order = sorted(rows, key=lambda row: order_key(seed, self.bare[row].query_id))
            rubrics = [self._rubrics[name] for name in rubric_names]
            for row, verdicts in self._judge(order, rubrics, advance):
                for name, verdict in verdicts.items():
                    position = row * len(names) + names.index(name)
                    unjudged.discard(position)
                    keep(position, verdict)
        # no verdict came for these: the judge stopped when the time was up
        minutes = self.workspace.budget.minutes or 0
        reason = f"not judged: the budget's {minutes:g} minutes are over"
        cause = Cause.OVER_BUDGET.word
        for position in sorted(unjudged):
            keep(position, Verdict(None, reasoning=reason, status="failed", cause=cause))

    def _judge(
        self, rows: Sequence[int], rubrics: Sequence[Rubric], advance: Advance
    ) -> Iterator[tuple[int, Mapping[str, Verdict]]]:
        """Yield the row of each judged item with its verdicts by rubric.

        A judge that asks models checks the budget itself, and its replies are stored when they
        come. Another judge computes blocks, here or on workers, until the time is up. Rows without
        a verdict when the time is up are not yielded.
        """
        executor, judge, budget = self.workspace.executor, self.judge.judge, self.workspace.budget
        if judge.asks:
            items = (self.judged[row] for row in rows)
            for number, verdicts in judge.judge_each(items, rubrics):
                advance(1)
                yield rows[number], verdicts
            return
        # read one by one, so that not all answers are in memory
        items = (self.judged[row] for row in takewhile(lambda _: not budget.time_is_up, rows))
        if executor is not None and judge.computes:
            options = self.judge.block.options
            blocks = judge_on(executor, items, rubrics, judge, self.judge.type, options)
        else:
            parts = blocks_of(items, _BLOCK)
            blocks = (judge_all(judge, part, rubrics) for part in parts)
        for row, verdicts in zip(rows, chain.from_iterable(blocks), strict=False):
            advance(1)
            yield row, verdicts


class JudgeAnswers(Verdicts):
    """Stage that judges the answers of one system; no judge is asked about a failed answer.

    `collect` adds columns, verdicts and usage to the results. A failed answer has a row too, with
    its cause.

    Attributes:
        system: System whose answers are judged.
        weightings: Rubric -> whether its scored verdicts are weighted by token probabilities: True,
            False, or both; empty before `collect`.
    """

    def __init__(self, workspace: Workspace, answer: AnswerQueries, name: str) -> None:
        title, judge = f"judge {answer.system.name} ({name})", workspace.plan.judges[name]
        under = None if answer.is_recorded else answer
        super().__init__(workspace, title, name, judge, under=under)
        self.system, self._answer = answer.system, answer
        self.bare = Mapped(self._bare_at, range(len(self.plan.queries) * answer.samples))
        self.weightings: Mapping[str, set[bool]] = {}
        self._verdicts: Sequence[Mapping[str, Verdict]] = ()

    def _items(self, answers: Answers) -> Sequence[JudgedItem]:
        """Return the item of each answer, read on access; its `answer` is None where it failed."""

        def item_at(row: int) -> JudgedItem:
            outcome = answers.outcomes[row]
            if (value := outcome.value) is None:
                return self._bare_at(row)
            return replace(
                self._bare_at(row),
                answer=value.answer,
                contexts=passage_texts(outcome),
                queries=value.queries or None,
                tool_calls=value.tool_calls,
            )

        return Mapped(item_at, range(len(answers.outcomes)))

    def _bare_at(self, row: int) -> JudgedItem:
        """Return the item of an answer without the answer: question, gold answers and nuggets."""
        sample, number = divmod(row, len(self.plan.queries))
        query = self.plan.queries[number]
        return JudgedItem(
            question=query.text,
            references=list(self.plan.collection.answers.get(query.id, ())),
            query_id=query.id,
            nuggets=self.judge.nuggets_of(query.id),
            sample=sample,
            turns=query.turns,
        )

    def pay_for(self, rows: Sequence[int]) -> None:
        """Judge the stored answers to some queries, and store the verdicts.

        The answering stage must have paid for these queries: its `partial` is read. Queries without
        an answer are skipped, and so are answers with a stored verdict. Once the budget is spent,
        the other answers get no verdict, without an error.

        Args:
            rows: Positions of the queries in the plan.

        Raises:
            RagbenchError: The user has to act, as for a missing key.
        """
        answers = self._answer.partial
        self.judged = self._items(answers)
        self.items(answers.rows(rows))

    def collect(self, results: Results) -> None:
        """Add columns, verdicts, usage and warnings of the judge to the results.

        A row of each answer; failed answers have no score and their own cause.
        """
        system, totals_before = self.system, judge_totals(self.judge)
        self.judged = self._items(self._answer.answers)
        self._verdicts = self.by_item()
        judged = self._add_verdicts(results, by_level=())
        self.weightings = judged.weightings
        results.judge_uses.setdefault(system.name, {})[self.name] = judge_use(
            self.judge, judged, totals_before
        )
        results.warnings += judge_warnings(system.name, self.name, self.judge, judged)
        if any(rubric.reads_citations for rubric in self.judge.rubrics):
            answers = (item.answer for item in self.judged if item.answer is not None)
            if note := marker_note(answers, self.judge.judge.citations):
                results.notes.append(f"{system.name}: {note}")

    def count_levels(self, results: Results, rubrics: Collection[str]) -> None:
        """Replace weighted scores by some rubrics in the results by those of the levels alone.

        `collect` added them before. Columns, rows and the spread of samples are replaced.
        """
        judged = self._add_verdicts(results, by_level=rubrics)
        uses = results.judge_uses[self.system.name]
        uses[self.name] = replace(uses[self.name], spreads=judged.spreads)

    def _add_verdicts(self, results: Results, by_level: Collection[str]) -> JudgeResults:
        """Set the columns and rows of the results, by levels alone for some rubrics."""
        judge, answers = self.judge, self._answer.answers
        judged = collect_verdicts(
            judge.judge,
            self.bare,
            judge.rubrics,
            self._verdicts,
            type_name=judge.type,
            by_level=by_level,
        )
        for rubric, column in judged.columns.items():
            name = self.plan.judge_score(rubric, self.name)
            column = replace(with_failures_of(answers, column), name=name)
            results.add_samples(self.system, name, split_samples(column, answers.samples), "judge")
        rows = Mapped(partial(replace, judge=self.name), judged.rows)
        results.judgements.setdefault(self.system.name, {})[self.name] = rows
        return judged

    def forecast(self) -> Step | None:
        """Return a step with stored verdicts and the cost of the others; None for a control.

        A pending answer is replaced by the gold answer and a number, to estimate the length of the
        prompts.
        """
        if self.system.role == "control":
            return None
        answers = self._answer.answers
        items = list(self._items(answers))
        for row, outcome in enumerate(answers.outcomes):
            if outcome == PENDING:
                query = row % len(self.plan.queries)
                example_item = self.workspace.example_item(query, self._answer.passages)
                # numbered: a prompt on the gold answer or another sample would be counted once
                answer = f"{example_item.answer} {items[row].sample}"
                items[row] = replace(example_item, answer=answer)
        self.judged, judge = items, self.judge.judge
        verdicts = self.by_item()
        node = self.node(len(items) * len(self.judge.rubrics))
        if isinstance(judge, ModelJudge):
            # an upper limit: of items with some verdicts, each rubric that any item lacks
            todo = [item for item, stored in zip(items, verdicts, strict=True) if not stored]
            partly_judged = [item for item, stored in zip(items, verdicts, strict=True) if stored]
            rubrics = [
                rubric
                for rubric in self.judge.rubrics
                if any(stored and rubric.name not in stored for stored in verdicts)
            ]
            cost = rehearse(judge, todo, self.judge.rubrics)
            node.cost = cost + rehearse(judge, partly_judged, rubrics)
        return node


class CountAlike(Stage):
    """Stage that counts verdicts by one rubric alike: weighted by token probabilities, or none.

    A server may return probabilities for some replies alone, and a system would be better or worse
    by that. `collect` then replaces the scores of all systems by those of the levels, with a note.
    It stores nothing.
    """

    def __init__(self, workspace: Workspace, stages: Sequence[JudgeAnswers]) -> None:
        super().__init__(workspace)
        self._stages = stages

    def collect(self, results: Results) -> None:
        """Replace columns and rows of rubrics with and without weighted verdicts, and add notes."""
        by_judge: dict[str, list[JudgeAnswers]] = {}
        for stage in self._stages:
            by_judge.setdefault(stage.name, []).append(stage)
        for name, stages in by_judge.items():
            rubrics = mixed_rubrics(stage.weightings for stage in stages)
            for stage in stages if rubrics else ():
                stage.count_levels(results, rubrics)
            if rubrics:
                scores = [self.plan.judge_score(rubric, name) for rubric in rubrics]
                results.notes.append(levels_note(scores))


def _judge_key(judge: PlannedJudge, rubric: Rubric, plan: Plan) -> str:
    """Return the key of a judge's verdicts by a rubric: a hash of its options, model and code.

    The judged items are in the keys of the items. It has 32 hexadecimal digits.
    """
    options = {name: value for name, value in judge.block.options.items() if name not in _NO_KEY}
    signature = judge.judge.signature_parts(rubric) if judge.judge.asks else {}
    secrets = plan.config.secrets
    # verdicts without a cost are made again, from stored replies, when a price becomes known
    models = judge.judge.jury.models if isinstance(judge.judge, ModelJudge) else ()
    prices = judge.judge.load_prices() if isinstance(judge.judge, ModelJudge) else None
    priced = [prices is not None and prices.of(model) is not None for model in models]
    # `Any`: mypy does not take the class of a variable for hashable
    code: Any = type(judge.judge if judge.judge.component is None else judge.judge.component)
    return fingerprint_json(
        [
            __version__,
            Verdicts.version,
            judge.type,
            judge.judge.model,
            redact(repr(sorted(options.items())), secrets),
            rubric.fingerprint,
            dict(signature),
            priced,
            stored_items.code_of(code),
            *filter(None, [stored_items.own_code(judge.type)]),
        ],
        stored_items.KEY_DIGITS,
    )
