"""Judges of a run: connected before anything is asked, their replies on disk before they count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from ragbench.experiment.stages.answers import AnswerQueries
from ragbench.experiment.stages.base import PENDING, Keep, Node, Slot, Stage, StoredStage, Workspace
from ragbench.experiment.stages.comparison import judge_warnings
from ragbench.experiment.stages.item_json import Stored, read_verdict
from ragbench.experiment.stages.keys import KEY_DIGITS, code_of, item_key
from ragbench.records.manifest import form_id
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.judged import JudgeResults, collect_verdicts
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.verdicts import judge_all, judge_on
from ragbench.secrets import redact
from ragbench.signature import fingerprint_json, order_key
from ragbench.store.items import StageItems
from ragbench.types import Cause, Verdict
from ragbench.types.rows import Mapped
from ragbench.types.scores import SentPrompt

_BLOCK = 64  # items

# Methods by which rubrics share no replies.
_ALONE = frozenset({"rating", "pairwise"})
# Options of judges that no verdict depends on.
_UNTOLD = frozenset(
    {"concurrency", "timeout", "retries", "api_key_env", "prices", "stream", "mode"}
)


def passage_texts(outcome: Outcome[Any]) -> list[str] | None:
    """Return the passages that an answer was made from, as the judge reads them."""
    if outcome.value is None or outcome.value.contexts is None:
        return None
    return [document.full_text for document in outcome.value.contexts]


class Verdicts(StoredStage):
    """What a judge says of some items by each of its rubrics; a file for each rubric."""

    kind, version = "judge", 1
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
        # of these items no more is read than the data set says
        self.bare: Sequence[JudgedItem] = judged
        self._rubrics = {rubric.name: rubric for rubric in judge.rubrics}

    def by_item(self) -> Sequence[Mapping[str, Verdict]]:
        """Return the verdicts on each item by rubric, without those that are not there."""
        verdicts, names = self.items(), list(self._rubrics)

        def of_item(start: int) -> dict[str, Verdict]:
            part = zip(names, verdicts[start : start + len(names)], strict=True)
            return {name: verdict for name, verdict in part if verdict is not None}

        return Mapped(of_item, range(0, len(verdicts), len(names)))

    def collected(self) -> JudgeResults:
        """Return the verdicts on all items as columns."""
        judge = self.judge
        return collect_verdicts(
            judge.judge, self.bare, judge.rubrics, self.by_item(), type_name=judge.type
        )

    @property
    def stores(self) -> bool:
        """A replay reads the replies themselves."""
        return not self.plan.choices.judge_replay

    def slots(self) -> list[Slot]:
        """Return the slots of all rubrics, item by item."""
        judge = self.judge
        files = [
            self.items_of_key(f"{self.name}: {name}", _judge_key(judge, rubric, self.plan))
            for name, rubric in self._rubrics.items()
        ]
        # where the judge's noise is measured, equal answers must not share it
        keys = (item_key(item, item.sample if judge.samples > 1 else 0) for item in self.judged)
        return [Slot(file, key, row) for row, key in enumerate(keys) for file in files]

    @cached_property
    def _prompt_items(self) -> StageItems:
        """The words of prompts, which many verdicts share, in a file of their own."""
        return self.items_of("words of prompts", ["prompts"])

    def read(self, stored: Stored) -> Verdict:
        """Read a verdict; prompts whose words are no longer stored are left out."""
        kept = {**stored}
        rows, known = kept.pop("prompts", ()), self.workspace.prompts
        for form in {row[0] for row in rows} - known.keys():
            if (words := self._prompt_items.get(form)) is not None:
                known[form] = tuple(words)
        prompts = tuple(
            SentPrompt(*known[form], fence, tuple(texts), to)
            for form, fence, texts, to in rows
            if form in known
        )
        return replace(read_verdict(kept), prompts=prompts)

    def write(self, value: Verdict) -> dict[str, Any]:
        """Write a verdict, and before it the words of its prompts."""
        known = self.workspace.prompts
        stored, rows = value.to_short_dict(), []
        for each in value.prompts:
            system, user = map(self.workspace.clean, (each.system, each.user))
            form = form_id(system, user)
            if form not in known:
                if self.stores and form not in self._prompt_items:
                    self._prompt_items.put(form, [system, user])
                known[form] = (system, user)
            rows.append([form, each.fence, list(each.texts), each.to])
        return {**stored, **({"prompts": rows} if rows else {})}

    def _groups(self, todo: Sequence[int]) -> dict[tuple[str, ...], list[int]]:
        """Return names of rubrics -> the items that are judged by these rubrics together.

        Rubrics of one method share replies, and each reply counts for the first verdict that rests
        on it: where a verdict is missing, all rubrics of its method judge the item again, from
        stored replies.
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
        """Return the method of a rubric, or its own name where it shares no reply."""
        method = self._rubrics[name].method
        return name if method in _ALONE else method

    def progress_total(self, todo: Sequence[int]) -> tuple[int, str]:
        """Progress counts items, not verdicts."""
        unit = "answers" if self.bare[-1].sample else "queries"
        return sum(map(len, self._groups(todo).values())), unit

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Judge in random order; what is left when the time is up has failed for that reason."""
        names, seed = list(self._rubrics), self.plan.config.seed
        todo_left = set(todo)
        for chosen, rows in self._groups(todo).items():
            order = sorted(rows, key=lambda row: order_key(seed, self.bare[row].query_id))
            rubrics = [self._rubrics[name] for name in chosen]
            for row, verdicts in self._judge(order, rubrics, advance):
                for name, verdict in verdicts.items():
                    position = row * len(names) + names.index(name)
                    todo_left.discard(position)
                    keep(position, verdict)
        minutes = self.workspace.budget.minutes or 0
        reason = f"not judged: the budget's {minutes:g} minutes are over"
        cause = Cause.OVER_BUDGET.word
        for position in sorted(todo_left):
            keep(position, Verdict(None, reasoning=reason, status="failed", cause=cause))

    def _judge(
        self, rows: Sequence[int], rubrics: Sequence[Rubric], advance: Advance
    ) -> Iterator[tuple[int, Mapping[str, Verdict]]]:
        """Yield each row with its verdicts: from models, from workers, or computed here.

        A judge that asks models watches the budget itself, and its replies are on disk as they
        come. The verdicts of another one are stored block by block, until the time is up.
        """
        executor, judge, budget = self.workspace.executor, self.judge.judge, self.workspace.budget
        if judge.asks:
            items = (self.judged[row] for row in rows)
            for number, verdicts in judge.judge_each(items, rubrics):
                advance(1)
                yield rows[number], verdicts
            return
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
    """Judge the answers of one system; a query without an answer is not judged."""

    def __init__(self, workspace: Workspace, answer: AnswerQueries, name: str) -> None:
        title, judge = f"judge {answer.system.name} ({name})", workspace.plan.judges[name]
        under = None if answer.is_recorded else answer
        super().__init__(workspace, title, name, judge, under=under)
        self.system, self._answer = answer.system, answer
        self.bare = Mapped(self._bare_at, range(len(self.plan.queries) * answer.samples))

    @property
    def computes(self) -> bool:
        """Return True if the judge computes here, and asks no server."""
        return self.judge.judge.computes

    def _items(self, answers: Answers) -> Sequence[JudgedItem]:
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
        """Return what the data set says of an item, without the output of the system."""
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
        """Judge the answers to some queries."""
        answers = self._answer.partial
        self.judged = self._items(answers)
        self.items(answers.rows(rows))

    def collect(self, results: Results) -> None:
        """Add the columns and the verdicts, what the judge took, and what makes them doubtful."""
        system, answers, before = self.system, self._answer.answers, judge_totals(self.judge)
        self.judged = self._items(answers)
        judged = self.collected()
        results.judge_uses.setdefault(system.name, {})[self.name] = judge_use(
            self.judge, judged, before
        )
        results.warnings += judge_warnings(system.name, self.name, self.judge, judged)
        for rubric, column in judged.columns.items():
            name = self.plan.judge_score(rubric, self.name)
            column = replace(with_failures_of(answers, column), name=name)
            results.add_samples(system, name, split_samples(column, answers.samples), "judge")
        rows = Mapped(partial(replace, judge=self.name), judged.rows)
        results.judgements.setdefault(system.name, []).append(rows)

    def forecast(self) -> Node | None:
        """Look up the verdicts; on an answer that is not there, those on one that is like it."""
        if self.system.role == "control":
            return None
        answers = self._answer.answers
        items = list(self._items(answers))
        for row, outcome in enumerate(answers.outcomes):
            if outcome == PENDING:
                query = row % len(self.plan.queries)
                example_item = self.workspace.example_item(query, self._answer.passages)
                # another answer is another question to a judge
                again = f" {items[row].sample}" if items[row].sample else ""
                items[row] = replace(example_item, answer=f"{example_item.answer}{again}")
        self.judged, judge = items, self.judge.judge
        verdicts = self.by_item()
        node = self.node(len(items) * len(self.judge.rubrics))
        if isinstance(judge, ModelJudge):
            # an item with some of its verdicts is asked for the rubrics that any item lacks
            todo = [item for item, stored in zip(items, verdicts, strict=True) if not stored]
            partly = [item for item, stored in zip(items, verdicts, strict=True) if stored]
            rubrics = [
                rubric
                for rubric in self.judge.rubrics
                if any(stored and rubric.name not in stored for stored in verdicts)
            ]
            cost = rehearse(judge, todo, self.judge.rubrics)
            node.cost = cost + rehearse(judge, partly, rubrics)
        return node


def _judge_key(judge: PlannedJudge, rubric: Rubric, plan: Plan) -> str:
    """All that a judge's verdicts by a rubric depend on but what is judged."""
    told = {name: value for name, value in judge.block.options.items() if name not in _UNTOLD}
    asked = judge.judge.signature_parts(rubric) if judge.judge.asks else {}
    hidden = plan.config.secrets
    # a price that is known at last prices what is stored: the verdicts are made of it again
    models = judge.judge.jury.models if isinstance(judge.judge, ModelJudge) else ()
    prices = judge.judge.load_prices() if isinstance(judge.judge, ModelJudge) else None
    priced = [prices is not None and prices.of(model) is not None for model in models]
    # mypy takes no class of a variable for hashable
    code: Any = type(judge.judge if judge.judge.component is None else judge.judge.component)
    return fingerprint_json(
        [
            __version__,
            Verdicts.version,
            judge.type,
            judge.judge.model,
            redact(repr(sorted(told.items())), hidden),
            rubric.fingerprint,
            dict(asked),
            priced,
            code_of(code),
        ],
        KEY_DIGITS,
    )
