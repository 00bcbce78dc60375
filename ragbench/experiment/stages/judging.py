"""Judging stages: the verdicts of each judge on the answers of each system."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, takewhile
from typing import Any

from msgspec import structs

from ragbench import __version__
from ragbench.executors.base import blocks_of
from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.records import (
    Answers,
    Results,
    Work,
    judge_totals,
    judge_use,
    split_samples,
    with_failures_of,
)
from ragbench.experiment.stages import keys
from ragbench.experiment.stages.answers import AnswerQueries
from ragbench.experiment.stages.base import (
    ItemGroup,
    Keep,
    Output_co,
    Outputs,
    Slot,
    Stage,
    Step,
    example_item,
)
from ragbench.experiment.stages.comparison import judge_warnings
from ragbench.experiment.stages.resources import VERDICT_VERSION, VERDICTS, Resources
from ragbench.llm import Totals
from ragbench.records.codec import from_line
from ragbench.records.manifest import PromptRow
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.markers import marker_note
from ragbench.score.judge.model_judge import ModelJudge, combine_repeats, rehearse
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
from ragbench.types import Cause, Verdict
from ragbench.types.documents import full_texts
from ragbench.types.json_fields import optional
from ragbench.types.lookups import attributes_of, index_by_name, take_items
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

    The result is None where it failed, does not tell its passages, or has ids without a text alone;
    beside others with a text, an id alone has an empty one.
    """
    if outcome.value is None or outcome.value.contexts is None:
        return None
    texts = full_texts(outcome.value.contexts)
    return texts if any(texts) or not texts else None


class StoredVerdict(Verdict, kw_only=True):
    """Row of a verdict in the store, whose prompts refer to the words of their forms.

    Attributes:
        sent: Prompts that were sent; the field `prompts` is empty.
    """

    sent: tuple[PromptRow, ...] = optional(())


def _verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """Return the fields of a verdict, without those of a stored one."""
    return attributes_of(verdict, Verdict.__struct_fields__)


class Verdicts(Stage[Output_co]):
    """Stage that judges items by each rubric of a judge; each rubric has stored items of its own.

    A judgement that fails is a verdict with a cause. It has a slot per item and rubric, item by
    item. A judge of own code that is repeated has these slots for each repetition of an item.

    Attributes:
        name: Name of the judge.
        judge: Judge with its rubrics.
    """

    kind, version = VERDICTS, VERDICT_VERSION
    unit = "verdicts"

    def __init__(
        self,
        resources: Resources,
        title: str,
        name: str,
        judge: PlannedJudge,
        inputs: Sequence[Stage[Any]],
        under: Stage[Any] | None = None,
    ) -> None:
        super().__init__(resources.plan, title, inputs, under)
        self._resources, self.name, self.judge = resources, name, judge
        self._rubrics = index_by_name(judge.rubrics)
        # models repeat their requests by themselves
        self._repeat = 1 if judge.judge.asks else judge.repeat

    @abstractmethod
    def judged_items(self, inputs: Outputs) -> Sequence[JudgedItem]:
        """Return the items to judge; those of an answer are read on access."""

    def bare_items(self, inputs: Outputs) -> Sequence[JudgedItem]:
        """Return the same items without the output of the system, as far as the data set has them.

        Answers are not read again for queries, samples and gold answers.
        """
        return self.judged_items(inputs)

    def is_pending(self, inputs: Outputs, row: int) -> bool:
        """Return True if the item at `row` is not there yet; by default False."""
        return False

    def by_item(self, values: Sequence[Verdict | None]) -> Sequence[Mapping[str, Verdict]]:
        """Return rubric -> verdict of each item, in their order; a pending one has no entry.

        The verdict of a repeated judge is that of all its repetitions together.
        """
        n = len(self._rubrics)

        def of_item(start: int) -> dict[str, Verdict]:
            verdicts = {}
            for number, (name, rubric) in enumerate(self._rubrics.items()):
                repeats = values[start + number : start + n * self._repeat : n]
                present = []
                for verdict in repeats:
                    if verdict is not None:
                        present.append(verdict)
                if len(present) == self._repeat:
                    verdicts[name] = combine_repeats(present, rubric)
            return verdicts

        return Mapped(of_item, range(0, len(values), n * self._repeat))

    def results_of(
        self,
        items: Sequence[JudgedItem],
        values: Sequence[Verdict | None],
        by_level: Collection[str] = (),
    ) -> JudgeResults:
        """Return the verdicts on all items as score columns, rows, usage and models.

        Args:
            items: Items, as `bare_items` returns them.
            values: Verdicts in the order of the slots; none is pending.
            by_level: Rubrics whose verdicts are counted by their levels alone.
        """
        judge = self.judge
        return collect_verdicts(
            judge.judge,
            items,
            judge.rubrics,
            self.by_item(values),
            type_name=judge.type,
            by_level=by_level,
        )

    @property
    def stores(self) -> bool:
        """Return False for a replay, which makes all verdicts from stored replies again."""
        return not self.plan.choices.judge_replay

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return the slots of all rubrics, item by item."""
        judge, slots, groups = self.judge, list[Slot | None](), []
        for name, rubric in self._rubrics.items():
            groups.append(ItemGroup(f"{self.name}: {name}", _judge_key(judge, rubric, self.plan)))
        for row, item in enumerate(self.judged_items(inputs)):
            # repeats of a judge measure its noise: equal answers must not share a verdict
            sample = item.sample if judge.repeat > 1 else 0
            key = None if self.is_pending(inputs, row) else keys.item_key(item, sample)
            for number in range(self._repeat):
                # the first repetition has the key of a single one, so that it is kept
                of_repeat = key if key is None or not number else f"{key}-{number}"
                for group in groups:
                    slots.append(Slot(group, of_repeat, row * self._repeat + number))
        return slots

    def payer(self, results: Results) -> str:
        """Return the judge, if it calls models."""
        return f"judge {self.name}" if self.judge.judge.asks else ""

    def totals(self) -> Totals:
        """Return calls, tokens and cost of the judge so far."""
        return judge_totals(self.judge)

    def read(self, line: bytes) -> Verdict:
        """Return a stored verdict with its prompts, without those whose words are not stored.

        Another form raises a DataError, ValueError or LookupError.
        """
        row, prompts = from_line(StoredVerdict, line), list[SentPrompt]()
        if row.cause == Cause.SCORED.word and row.score is None:
            raise ValueError("neither a score nor a cause")
        for sent in row.sent:
            words = self._resources.prompts.find(sent.form)
            if words is not None:
                prompts.append(SentPrompt(*words, sent.fence, sent.texts, sent.to))
        return Verdict(**{**_verdict_fields(row), "prompts": tuple(prompts)})

    def write(self, value: Verdict) -> StoredVerdict:
        """Return the row of a verdict, after the words of its prompts are stored."""
        sent = []
        for prompt in value.prompts:
            form = self._resources.prompts.add(prompt.system, prompt.user)
            sent.append(PromptRow(form=form, fence=prompt.fence, texts=prompt.texts, to=prompt.to))
        return StoredVerdict(**{**_verdict_fields(value), "prompts": ()}, sent=tuple(sent))

    def _groups(self, todo: Sequence[int]) -> dict[tuple[str, ...], list[int]]:
        """Return the rows of the items to judge, by the names of the rubrics that judge them."""
        # repetitions of an item have rows of their own, one after the other
        # Rubrics of one method share replies, and the tokens of a reply count for the first verdict
        # that uses it. So where a verdict is missing, all rubrics of its method judge the item
        # again, from stored replies.
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
        """Return the method of a rubric; its own name if its method shares no replies."""
        method = self._rubrics[name].method
        return name if method in _OWN_REPLY_METHODS else method

    def progress_total(self, inputs: Outputs, todo: Sequence[int]) -> tuple[int, str]:
        """Return the number of items, also if several rubrics judge them, and their unit."""
        unit = "answers" if self.bare_items(inputs)[-1].sample else "queries"
        unit = unit if self._repeat == 1 else "verdicts"
        return sum(map(len, self._groups(todo).values())), unit

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Judge items in random order, and keep the verdicts.

        Items without a verdict when the time is up get one with the cause `OVER_BUDGET`.
        """
        names, seed = list(self._rubrics), self.plan.config.seed
        items, bare, unjudged = self.judged_items(inputs), self.bare_items(inputs), set(todo)
        for rubric_names, rows in self._groups(todo).items():
            order = sorted(
                rows, key=lambda row: order_key(seed, bare[row // self._repeat].query_id)
            )
            rubrics = take_items(self._rubrics, rubric_names)
            for row, verdicts in self._judge(items, order, rubrics, advance):
                for name, verdict in verdicts.items():
                    position = row * len(names) + names.index(name)
                    unjudged.discard(position)
                    keep(position, verdict)
        # no verdict came for these: the judge stopped when the time was up
        minutes = self._resources.budget.minutes or 0
        reason = f"not judged: the budget's {minutes:g} minutes are over"
        cause = Cause.OVER_BUDGET.word
        for position in sorted(unjudged):
            keep(position, Verdict(None, reasoning=reason, status="failed", cause=cause))

    def _judge(
        self,
        judged: Sequence[JudgedItem],
        rows: Sequence[int],
        rubrics: Sequence[Rubric],
        advance: Advance,
    ) -> Iterator[tuple[int, Mapping[str, Verdict]]]:
        """Yield the row of each judged item with its verdicts by rubric."""
        # A judge that asks models checks the budget itself. Another judge computes blocks until the
        # time is up; rows without a verdict by then are not yielded.
        executor, judge, budget = self._resources.executor, self.judge.judge, self._resources.budget
        if judge.asks:
            items = (judged[row] for row in rows)
            for number, verdicts in judge.judge_each(items, rubrics):
                advance(1)
                yield rows[number], verdicts
            return
        # read one by one, so that not all answers are in memory
        in_time = takewhile(lambda _: not budget.time_is_up, rows)
        items = (judged[row // self._repeat] for row in in_time)
        if executor is not None and judge.computes:
            options = self.judge.block.options
            blocks = judge_on(executor, items, rubrics, judge, self.judge.type, options)
        else:
            parts = blocks_of(items, _BLOCK)
            blocks = (judge_all(judge, part, rubrics) for part in parts)
        for row, verdicts in zip(rows, chain.from_iterable(blocks), strict=False):
            advance(1)
            yield row, verdicts


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """Verdicts of one judge on the answers of one system.

    Attributes:
        verdicts: Verdicts in the order of the slots; None where one is pending.
        results: Verdicts as score columns and rows, with usage and models; None if one is pending.
    """

    verdicts: Sequence[Verdict | None]
    results: JudgeResults | None


class JudgeAnswers(Verdicts[JudgedAnswers]):
    """Stage that judges the answers of one system; no judge is asked about a failed answer.

    A failed answer has a verdict too, with its cause.

    Attributes:
        answer: Stage that answers.
        system: System whose answers are judged.
    """

    by_query = True

    def __init__(self, resources: Resources, answer: AnswerQueries, name: str) -> None:
        title, judge = f"judge {answer.system.name} ({name})", resources.plan.judges[name]
        under = None if answer.is_recorded else answer
        super().__init__(resources, title, name, judge, (answer,), under)
        self.answer, self.system = answer, answer.system

    def judged_items(self, inputs: Outputs) -> Sequence[JudgedItem]:
        """Return the item of each answer, read on access; its `answer` is None where it failed."""
        answers = inputs[self.answer]

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

    def bare_items(self, inputs: Outputs) -> Sequence[JudgedItem]:
        """Return the items without answers: question, gold answers and nuggets."""
        return Mapped(self._bare_at, range(len(self.plan.queries) * self.answer.samples))

    def _bare_at(self, row: int) -> JudgedItem:
        """Return the item of an answer without the answer."""
        sample, number = divmod(row, len(self.plan.queries))
        query = self.plan.queries[number]
        return JudgedItem(
            question=query.text,
            references=list(self.plan.collection.answers.get(query.id, ())),
            query_id=query.id,
            nuggets=self.judge.nuggets_of(query.id),
            sample=sample,
            turns=query.turns,
            first_reply=self._first_reply,
        )

    @property
    def _first_reply(self) -> int:
        """Number of the first reply in a further look of a gate, which asks a judge anew."""
        if self.judge.judge.same_results:
            return 0
        return self.plan.choices.look * self.answer.samples * self.judge.repeat

    def is_pending(self, inputs: Outputs, row: int) -> bool:
        """Return True if the answer at `row` is not made yet."""
        return inputs[self.answer].outcomes[row].is_pending

    def output(self, inputs: Outputs, values: Sequence[Verdict | None]) -> JudgedAnswers:
        """Return the verdicts, and their results unless some are pending."""
        if None in values:
            return JudgedAnswers(values, None)
        return JudgedAnswers(values, self.results_of(self.bare_items(inputs), values))

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add columns, verdicts, usage and warnings of the judge to the results.

        A row of each answer; failed answers have no score and their own cause.
        """
        system, judged = self.system, outputs[self].results
        if judged is None:
            return
        self._add_results(outputs[self.answer], judged, results)
        use = judge_use(judged, outputs.paid(self))
        results.judge_uses.setdefault(system.name, {})[self.name] = use
        results.warnings += judge_warnings(system.name, self.name, self.judge, judged)
        if any(rubric.reads_citations for rubric in self.judge.rubrics):
            items = self.judged_items(outputs)
            answers = (item.answer for item in items if item.answer is not None)
            if note := marker_note(answers, self.judge.judge.citations):
                results.notes.append(f"{system.name}: {note}")

    def count_levels(self, outputs: Outputs, results: Results, rubrics: Collection[str]) -> None:
        """Replace weighted scores by some rubrics in the results by those of the levels alone.

        `add` added them before. Columns, rows and the spread of samples are replaced.
        """
        verdicts = outputs[self].verdicts
        judged = self.results_of(self.bare_items(outputs), verdicts, by_level=rubrics)
        self._add_results(outputs[self.answer], judged, results)
        uses = results.judge_uses[self.system.name]
        uses[self.name] = replace(uses[self.name], spreads=judged.spreads)

    def _add_results(self, answers: Answers, judged: JudgeResults, results: Results) -> None:
        """Set the columns and rows of the judge in the results."""
        for rubric, column in judged.columns.items():
            name = self.plan.judge_score(rubric, self.name)
            column = replace(with_failures_of(answers, column), name=name)
            results.add_samples(self.system, name, split_samples(column, answers.samples), "judge")
        rows = Mapped(partial(structs.replace, judge=self.name), judged.rows)
        results.judgements.setdefault(self.system.name, {})[self.name] = rows

    def step(self, outputs: Outputs, work: Work | None) -> Step | None:
        """Return a step with stored verdicts and the cost of the others; None for a control."""
        if self.system.role == "control":
            return None
        node, judge = self.node(work, 0), self.judge.judge
        if not isinstance(judge, ModelJudge):
            return node
        outcomes, verdicts = outputs[self.answer].outcomes, self.by_item(outputs[self].verdicts)
        todo, examples, partly_judged = list[JudgedItem](), list[JudgedItem](), list[JudgedItem]()
        for row, item in enumerate(self._expected_items(outputs)):
            if outcomes[row].is_pending:
                examples.append(item)
            else:
                (partly_judged if verdicts[row] else todo).append(item)
        # an upper limit: of items with some verdicts, each rubric that any item lacks
        rubrics = []
        for rubric in self.judge.rubrics:
            if any(stored and rubric.name not in stored for stored in verdicts):
                rubrics.append(rubric)
        counted = self._resources.counted
        cost = rehearse(judge, todo, self.judge.rubrics, counted)
        # other systems have the same examples, and other answers in the run
        cost += rehearse(judge, examples, self.judge.rubrics, counted, self.system.name)
        node.cost = cost + rehearse(judge, partly_judged, rubrics, counted)
        return node

    def _expected_items(self, outputs: Outputs) -> list[JudgedItem]:
        """Return the items to judge, with the gold answer and a number for a pending answer."""
        # The length of the prompts is estimated from them. Rubrics on citations ask about cited
        # passages alone.
        reads_citations = any(rubric.reads_citations for rubric in self.judge.rubrics)
        marker = " [1]" if reads_citations else ""
        items = list(self.judged_items(outputs))
        for row, outcome in enumerate(outputs[self.answer].outcomes):
            if outcome.is_pending:
                query = row % len(self.plan.queries)
                example = example_item(self.plan, query, self.answer.passages)
                # numbered: a prompt on the gold answer or another sample would be counted once
                sample = items[row].sample
                answer = f"{sample} {example.answer}{marker}"
                items[row] = replace(example, answer=answer, sample=sample)
        return items


def count_alike(
    plan: Plan, stages: Sequence[JudgeAnswers], outputs: Outputs, results: Results
) -> None:
    """Count verdicts by one rubric alike: weighted by token probabilities, or none.

    A server may return probabilities for some replies alone, and a system would be better or worse
    by that. The scores of all systems are then replaced by those of the levels, with a note.
    """
    by_judge: dict[str, list[JudgeAnswers]] = {}
    for stage in stages:
        by_judge.setdefault(stage.name, []).append(stage)
    for name, of_judge in by_judge.items():
        weightings = []
        for stage in of_judge:
            judged = outputs[stage].results
            if judged is not None:
                weightings.append(judged.weightings)
        rubrics = mixed_rubrics(weightings)
        for stage in of_judge if rubrics else ():
            stage.count_levels(outputs, results, rubrics)
        if rubrics:
            scores = [plan.judge_score(rubric, name) for rubric in rubrics]
            results.notes.append(levels_note(scores))


def _judge_key(judge: PlannedJudge, rubric: Rubric, plan: Plan) -> str:
    """Return the key of a judge's verdicts by a rubric: a hash of its options, model and code."""
    options = {}
    for name, value in judge.block.options.items():
        if name not in _NO_KEY:
            options[name] = value
    signature = judge.judge.signature_parts(rubric) if judge.judge.asks else {}
    secrets = plan.config.secrets
    # verdicts without a cost are made again, from stored replies, when a price becomes known
    models = judge.judge.jury.models if isinstance(judge.judge, ModelJudge) else ()
    prices = judge.judge.load_prices() if isinstance(judge.judge, ModelJudge) else None
    priced = []
    for model in models:
        priced.append(prices is not None and prices.of(model) is not None)
    # `Any`: mypy does not take the class of a variable for hashable
    code: Any = type(judge.judge if judge.judge.component is None else judge.judge.component)
    return fingerprint_json(
        [
            __version__,
            VERDICT_VERSION,
            judge.type,
            judge.judge.model,
            redact(repr(sorted(options.items())), secrets),
            rubric.fingerprint,
            dict(signature),
            priced,
            keys.code_of(code),
            *filter(None, [keys.own_code(judge.type)]),
        ],
        keys.KEY_DIGITS,
    )
