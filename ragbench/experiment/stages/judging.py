"""Judges of a run: connected before anything is asked, their replies on disk before they count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice, tee
from typing import Any

from ragbench import __version__
from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.records import Answers, EarlyJudge, JudgeUse, Results
from ragbench.experiment.stages.answers import Answer
from ragbench.experiment.stages.base import PENDING, Keep, Node, Slot, Stage, StoredStage, Workspace
from ragbench.experiment.stages.columns import add_samples, split_samples, with_failures_of
from ragbench.experiment.stages.item_json import Stored, read_verdict, write_verdict
from ragbench.experiment.stages.keys import KEY_DIGITS, STAGE_VERSIONS, code_of
from ragbench.llm import Totals
from ragbench.records.manifest import form_id
from ragbench.redaction import redact
from ragbench.score.base import Advance, Look
from ragbench.score.judge.base import AskingJudge, Item, Rubric
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.verdicts import Judged, collect_verdicts, computes, judge_all, judge_on
from ragbench.signature import fingerprint_json, order_key
from ragbench.store.items import StageFile
from ragbench.types import Cause, Verdict
from ragbench.types.scores import SentPrompt

_BLOCK = 64  # items

_ALONE = frozenset({"rating", "pairwise"})
"""Methods by which rubrics share no replies."""
_UNTOLD = frozenset(
    {"concurrency", "timeout", "retries", "api_key_env", "prices", "stream", "mode"}
)
"""Options of judges that no verdict depends on."""


def use_of(planned: PlannedJudge, judged: Judged, before: Totals) -> JudgeUse:
    """Return what a judge took, from what it had taken before."""
    paid = paid_since(before, totals_of(planned))
    return JudgeUse(judged.models, judged.usage, paid, judged.spreads, judged.left_out)


def paid_since(before: Totals, now: Totals, others: Totals | None = None) -> Totals:
    """Return what was sent and paid between two counts, together with others."""
    others = others or Totals()
    return Totals(
        **{
            name: getattr(others, name) + getattr(now, name) - getattr(before, name)
            for name in Totals.__slots__
            if name != "models"
        }
    )


def totals_of(planned: PlannedJudge) -> Totals:
    """Return a copy of what a judge has sent and paid so far; nothing without a model."""
    if not isinstance(planned.judge, AskingJudge):
        return Totals()
    return planned.judge.totals()


def warnings_on(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Say what makes a judge's numbers doubtful; a sentence each."""
    found = mixture(system, name, planned, judged)
    for rubric, counts in judged.failures().items():
        total = sum(
            row.rubric == rubric and row.cause != Cause.STOPPED_EARLY.word for row in judged.rows
        )
        causes = ", ".join(f"{count} {cause}" for cause, count in counts.items())
        found.append(
            f"{system}: judge {name}: {sum(counts.values())} of {total} verdicts on {rubric} "
            f"failed ({causes}); kept in judgements/, the mean is over the others"
        )
    return found


def mixture(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Warn where a server answered as more models than were asked."""
    if len(judged.models) <= len(planned.judge.model.split("+")):
        return []
    return [
        f"{system}: judge {name}: the server answered as {len(judged.models)} models, "
        f"{', '.join(judged.models)}: the scores are a mixture"
    ]


def passage_texts(outcome: Outcome[Any]) -> list[str] | None:
    """Return the passages that an answer was made from, as the judge reads them."""
    if outcome.value is None or outcome.value.contexts is None:
        return None
    return [document.full_text for document in outcome.value.contexts]


class Verdicts(StoredStage):
    """What a judge says of some items by each of its rubrics; a file for each rubric."""

    unit = "verdicts"

    def __init__(
        self,
        workspace: Workspace,
        title: str,
        name: str,
        judge: PlannedJudge,
        items: Sequence[Item],
    ) -> None:
        super().__init__(workspace, title)
        self.name, self.judge, self._items = name, judge, items
        self._rubrics = {rubric.name: rubric for rubric in judge.rubrics}

    def by_item(self, rows: Collection[int] | None = None) -> list[dict[str, Verdict]]:
        """Return per item its verdicts, those of `rows` complete, of others what is stored."""
        found, names = self.items(rows), list(self._rubrics)
        return [
            {
                name: verdict
                for name, verdict in zip(names, found[start : start + len(names)], strict=True)
                if verdict is not None
            }
            for start in range(0, len(found), len(names))
        ]

    def collected(self) -> Judged:
        """Return the verdicts on all items as columns."""
        return collect_verdicts(
            self.judge.judge,
            self._items,
            self.judge.rubrics,
            self.by_item(),
            type_name=self.judge.type,
        )

    @property
    def stores(self) -> bool:
        """A replay reads the replies themselves."""
        return not self.workspace.replay

    def slots(self) -> list[Slot | None]:
        """One for each rubric, item by item."""
        judge = self.judge
        files = [
            self.workspace.store.file(
                "judge", f"{self.name}: {name}", _judge_key(judge, rubric, self.plan)
            )
            for name, rubric in self._rubrics.items()
        ]
        # where the judge's noise is measured, equal answers must not share it
        keys = [_item_key(item, item.sample if judge.samples > 1 else 0) for item in self._items]
        return [Slot(file, key, row) for row, key in enumerate(keys) for file in files]

    @cached_property
    def _forms(self) -> StageFile:
        """The words of prompts, which many verdicts share, in a file of their own."""
        return self.workspace.file("judge", "words of prompts", ["prompts"])

    def read(self, stored: Stored) -> Verdict:
        """Read a verdict; prompts whose words are no longer stored are left out."""
        kept = {**stored}
        rows, known = kept.pop("prompts", ()), self.workspace.prompts
        for form in {row[0] for row in rows} - known.keys():
            if (words := self._forms.get(form)) is not None:
                known[form] = tuple(words)
        prompts = tuple(
            SentPrompt(*known[form], fence, tuple(texts), to)
            for form, fence, texts, to in rows
            if form in known
        )
        return replace(read_verdict(kept), prompts=prompts)

    def write(self, value: Verdict) -> dict[str, Any]:
        """Write a verdict, and before it the words of its prompts."""
        clean, known = self.workspace.without_secrets, self.workspace.prompts
        stored, rows = write_verdict(value), []
        for each in value.prompts:
            (words,) = clean({"prompt": [each.system, each.user]}).values()
            form = form_id(*words)
            if form not in known:
                if self.stores and form not in self._forms:
                    self._forms.put(form, words)
                known[form] = tuple(words)
            rows.append([form, each.fence, list(each.texts), each.to])
        return clean({**stored, **({"prompts": rows} if rows else {})})

    def _groups(self, todo: Sequence[int]) -> list[tuple[list[str], list[int]]]:
        """Names of rubrics, with the items that are judged by just these.

        Rubrics of one method share replies, and each reply counts for the first verdict that rests
        on it: where one of them is missing all of them are given anew, from stored replies.
        """
        names = list(self._rubrics)
        lacking: dict[int, set[str]] = {}
        for at in todo:
            row, number = divmod(at, len(names))
            lacking.setdefault(row, set()).add(names[number])
        alike: dict[str, set[str]] = {}
        for name, rubric in self._rubrics.items():
            alike.setdefault(name if rubric.method in _ALONE else rubric.method, set()).add(name)
        groups: dict[tuple[str, ...], list[int]] = {}
        for row, missing in lacking.items():
            wanted = set().union(*(group for group in alike.values() if group & missing))
            groups.setdefault(tuple(name for name in names if name in wanted), []).append(row)
        return [(list(chosen), rows) for chosen, rows in groups.items()]

    def shown(self, todo: Sequence[int]) -> tuple[int, str]:
        """Progress counts items, not verdicts."""
        unit = "answers" if self._items[-1].sample else "queries"
        return sum(len(rows) for _, rows in self._groups(todo)), unit

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Judge in random order; what is left when the time is up has failed for that reason."""
        names, seed, missing = list(self._rubrics), self.plan.config.seed, set(todo)
        for chosen, rows in self._groups(todo):
            order = sorted(rows, key=lambda row: order_key(seed, self._items[row].query_id))
            rubrics = [self._rubrics[name] for name in chosen]
            left = {(row, n): row * len(names) + names.index(n) for row in order for n in chosen}
            for block, given in self._judged(order, rubrics, advance):
                for row, verdicts in zip(block, given, strict=True):
                    for name, verdict in verdicts.items():
                        keep(left.pop((row, name)), verdict)
            for at in left.values():
                if at in missing:
                    keep(at, self._over_time())

    def _judged(
        self, rows: Sequence[int], rubrics: Sequence[Rubric], advance: Advance
    ) -> Iterator[tuple[Sequence[int], list[dict[str, Verdict]]]]:
        """Blocks of rows with what the judge says of them, here or on workers."""
        pool, judge = self.workspace.pool, self.judge
        if pool is None or not computes(judge.judge):
            for block in self._blocks(rows, _BLOCK):
                asked = [self._items[row] for row in block]
                yield block, judge_all(judge.judge, asked, rubrics, advance)
            return
        order = (row for [row] in self._blocks(rows, 1))
        taken, given = tee(order)
        items = (self._items[row] for row in given)
        options = judge.block.options
        found = judge_on(pool, items, len(rows), rubrics, judge.judge, judge.type, options)
        for verdicts in found:
            advance(len(verdicts))
            yield list(islice(taken, len(verdicts))), verdicts

    def _blocks(self, rows: Sequence[int], size: int) -> Iterator[Sequence[int]]:
        """Items that are judged at once; none when the time is up.

        A judge that asks models gets all: it watches the budget itself, and its replies are on
        disk as they come. The verdicts of another one are stored block by block.
        """
        asks = isinstance(self.judge.judge, AskingJudge)
        size = len(rows) if asks else size
        for start in range(0, len(rows), size):
            if self.workspace.budget.time_is_up and not asks:
                return
            yield rows[start : start + size]

    def _over_time(self) -> Verdict:
        minutes = self.workspace.budget.minutes or 0
        reason = f"not judged: the budget's {minutes:g} minutes are over"
        return Verdict(None, reasoning=reason, status="failed", cause=Cause.OVER_BUDGET.word)


class JudgeAnswers(Stage):
    """What a judge says of a system's answers.

    One that looks at all systems side by side is asked by `early` what it said.
    """

    unit = "verdicts"

    def __init__(
        self,
        workspace: Workspace,
        answer: Answer,
        name: str,
        early: Callable[[], EarlyJudge] | None = None,
    ) -> None:
        title = f"judge {answer.system.name} ({name})"
        super().__init__(workspace, title, None if answer.is_recorded else answer)
        self.name, self.judge, self.system = name, self.plan.judges[name], answer.system
        self._answer, self._early = answer, early
        self.by_query = answer.by_query and early is None

    @property
    def computes(self) -> bool:
        """Whether the judge computes here, and asks no server."""
        return computes(self.judge.judge)

    @property
    def answers(self) -> Answers:
        """What is judged."""
        return self._answer.answers

    @cached_property
    def items(self) -> list[Item]:
        """The answers as the judge sees them."""
        return self._items(self.answers)

    def _items(self, answers: Answers) -> list[Item]:
        """The answers as the judge sees them; a query without an answer is not judged."""
        references = self.plan.collection.answers
        return [
            Item(
                question=query.text,
                answer=None if outcome.value is None else outcome.value.answer,
                contexts=passage_texts(outcome),
                references=list(references.get(query.id, ())),
                query_id=query.id,
                queries=None if outcome.value is None else outcome.value.queries or None,
                nuggets=self.judge.nuggets_of(query.id),
                sample=sample,
                turns=query.turns,
                tool_calls=None if outcome.value is None else outcome.value.tool_calls,
            )
            for sample, each in enumerate(answers.each())
            for query, outcome in zip(self.plan.queries, each.outcomes, strict=True)
        ]

    def _verdicts(self, items: Sequence[Item]) -> Verdicts:
        return Verdicts(self.workspace, self.title, self.name, self.judge, items)

    def pay_for(self, rows: Sequence[int]) -> None:
        """Judge the answers to some queries."""
        if self._early is None:
            answers = self._answer.partial
            known = [row for row in answers.rows(rows) if answers.outcomes[row] != PENDING]
            self._verdicts(self._items(answers)).items(known)

    def verdicts(self, rows: Sequence[int]) -> list[dict[str, Verdict]]:
        """Return the verdicts on the answers to some queries, and what is stored of others."""
        return self._verdicts(self.items).by_item(self.answers.rows(rows))

    def collected(
        self, verdicts: Sequence[Mapping[str, Verdict]], look: Look | None = None
    ) -> Judged:
        """Turn verdicts into columns; what has no answer failed."""
        judge = self.judge
        judged = collect_verdicts(
            judge.judge, self.items, judge.rubrics, verdicts, type_name=judge.type
        )
        columns = {
            rubric: replace(with_failures_of(self.answers, column), look=look)
            for rubric, column in judged.columns.items()
        }
        return replace(judged, columns=columns)

    def collect(self, results: Results) -> None:
        """Add the columns and the verdicts, what the judge took, and what makes them doubtful."""
        system, before = self.system, totals_of(self.judge)
        if self._early is None:
            judged = self.collected(self.verdicts(range(len(self.plan.queries))))
            use = use_of(self.judge, judged, before)
        else:
            early = self._early()
            judged = early.judged[system.name]
            use = replace(use_of(self.judge, judged, before), paid=early.paid[system.name])
        results.judge_uses.setdefault(system.name, {})[self.name] = use
        results.warnings += warnings_on(system.name, self.name, self.judge, judged)
        for rubric, column in judged.columns.items():
            name = self.plan.judge_score(rubric, self.name)
            columns = split_samples(replace(column, name=name), self._answer.samples)
            add_samples(results, system, name, columns, "judge")
        rows = results.judgements.setdefault(system.name, [])
        rows.extend(replace(row, judge=self.name) for row in judged.rows)

    def forecast(self) -> Node | None:
        """Look up the verdicts; on an answer that is not there, those on one that is like it."""
        if self.system.role == "control":
            return None
        items = list(self.items)
        for row, outcome in enumerate(self.answers.outcomes):
            if outcome == PENDING:
                query = row % len(self.plan.queries)
                imagined = self.workspace.imagined(query, self._answer.passages)
                # another answer is another question to a judge
                again = f" {items[row].sample}" if items[row].sample else ""
                items[row] = replace(imagined, answer=f"{imagined.answer}{again}")
        verdicts = self._verdicts(items).by_item()
        node = self.node(len(items) * len(self.judge.rubrics))
        if isinstance(self.judge.judge, ModelJudge):
            own = self.workspace.own(range(len(items)))
            todo = [items[row] for row in own if not verdicts[row]]
            partly = [items[row] for row in own if verdicts[row]]
            lacking = [
                rubric
                for rubric in self.judge.rubrics
                if any(had and rubric.name not in had for had in verdicts)
            ]
            cost = rehearse(self.judge.judge, todo, self.judge.rubrics)
            node.cost = cost + rehearse(self.judge.judge, partly, lacking)
        return node


def _judge_key(judge: PlannedJudge, rubric: Rubric, plan: Plan) -> str:
    """All that a judge's verdicts by a rubric depend on but what is judged."""
    told = {name: value for name, value in judge.block.options.items() if name not in _UNTOLD}
    asked = judge.judge.signature_parts(rubric) if isinstance(judge.judge, AskingJudge) else {}
    hidden = plan.config.secrets
    # a price that is known at last prices what is stored: the verdicts are made of it again
    models = judge.judge.jury.models if isinstance(judge.judge, ModelJudge) else ()
    prices = judge.judge.load_prices() if isinstance(judge.judge, ModelJudge) else None
    priced = [prices is not None and prices.of(model) is not None for model in models]
    return fingerprint_json(
        [
            __version__,
            STAGE_VERSIONS["judge"],
            judge.type,
            judge.judge.model,
            redact(repr(sorted(told.items())), hidden),
            rubric.fingerprint,
            dict(asked),
            priced,
            code_of(type(judge.judge)),
        ],
        KEY_DIGITS,
    )


def _item_key(item: Item, sample: int) -> str:
    """The hash of all that a judge sees of an item, and of which sample of its noise it is."""
    parts = (item.query_id, item.question, item.answer, item.contexts, item.references)
    more = (item.queries, item.guidelines, item.other)
    said = [
        *(turn.to_dict() for turn in item.turns),
        *(call.to_dict() for call in item.tool_calls or ()),
    ]
    nuggets = [] if item.nuggets is None else [{"nuggets": item.nuggets}]
    last = [*nuggets, *([sample] if sample else []), *([said] if said else [])]
    return fingerprint_json([*parts, *more, *last], KEY_DIGITS)
