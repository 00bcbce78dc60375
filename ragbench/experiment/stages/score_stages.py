"""The score, judge and compare stages, each measure, metric and rubric of a system by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench import __version__
from ragbench.experiment.records import Answers, Plan, PlannedJudge, Ranked, Work
from ragbench.experiment.stages.answering_stages import Stages
from ragbench.experiment.stages.item_json import (
    read_column,
    read_verdict,
    write_column,
    write_verdict,
)
from ragbench.experiment.stages.keys import KEY_DIGITS, STAGE_VERSIONS, code_of, versions_of
from ragbench.experiment.stages.scores import (
    Gold,
    ScoredRanking,
    judged_items,
    score_answers,
    score_ranking,
    with_failures_of,
)
from ragbench.llm import Budget
from ragbench.records.codec import from_json, to_json
from ragbench.records.comparison import Comparisons
from ragbench.score.base import Advance, Look, ScoreColumn
from ragbench.score.judge.base import AskingJudge, Item, Rubric
from ragbench.score.judge.verdicts import Judged, collect_verdicts, judge_all
from ragbench.score.text.base import Metric
from ragbench.score.text.columns import TextScorer
from ragbench.secrets import redact
from ragbench.signature import fingerprint, fingerprint_json, order_key
from ragbench.store.items import StageFile
from ragbench.types import Cause, Verdict

_LIBRARIES = ("rouge-score", "sacrebleu", "nltk", "bert-score", "sentence-transformers", "torch")
"""Distributions whose version may move what a metric gives."""

_BLOCK = 64  # items

_UNTOLD = frozenset({"concurrency", "timeout", "retries", "api_key_env", "prices", "stream"})
"""Options of judges that no verdict depends on."""


class Scores:
    """What rankings and answers are worth; what is stored of it is not computed again.

    Args:
        stages: The stages before, with their files and the counts.
        replay: Whether judges answer from stored replies alone: stored verdicts do not count then.
    """

    def __init__(self, stages: Stages, *, replay: bool = False) -> None:
        self.stages, self.plan, self.replay = stages, stages.plan, replay
        self._scorers: dict[tuple[Metric, ...], TextScorer] = {}

    def of_ranking(self, ranking: Ranked, gold: Gold) -> ScoredRanking:
        """Score a retriever's ranking by every measure of the plan."""
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        if not plan.measures:
            return score_ranking(ranking, gold, (), rules)
        file = self._file("score", ranking.name, _ranking_parts(ranking, gold, plan))
        missing = [name for name in plan.measures if name not in file]
        title = f"score {ranking.name}"
        self.stages.work[title] = Work(len(plan.measures), len(plan.measures) - len(missing))
        if missing and self.stages.dry:
            return ScoredRanking()
        if missing:
            with self.stages.timed(title, len(missing), "measures") as stage:
                found = score_ranking(ranking, gold, missing, rules)
                for name, column in found.columns.items():
                    about = {"counts": found.counts, "warnings": found.warnings}
                    file.put(name, {"column": self._column(column), **about})
                stage.advance(len(missing))
        stored = [file.get(name) for name in plan.measures]
        scored = ScoredRanking()
        for name, kept in zip(plan.measures, stored, strict=True):
            scored.columns[name] = read_column(kept["column"])
            scored.counts = scored.counts or kept["counts"]
            scored.warnings += [w for w in kept["warnings"] if w not in scored.warnings]
        return scored

    def of_answers(self, answers: Answers) -> list[list[ScoreColumn]]:
        """Score a system's answers by every metric of the plan, each sample by itself.

        Returns:
            Per metric its columns, one for each sample.
        """
        plan = self.plan
        if not plan.metrics:
            return []
        samples = [(each, self._texts_file(each)) for each in answers.each()]
        keys = [(_metric_key(metric), metric) for metric in plan.metrics]
        missing = [[m for key, m in keys if key not in file] for _, file in samples]
        n_missing, n_all = sum(map(len, missing)), len(plan.metrics) * len(samples)
        title = f"score {answers.name}"
        if answers.name in plan.apps:  # whose ranking is scored as well
            title += " (answers)"
        self.stages.work[title] = Work(n_all, n_all - n_missing)
        if n_missing and self.stages.dry:
            return []
        if n_missing:
            n = len(plan.queries)
            size = sum(self._scorer(tuple(metrics)).steps(n) for metrics in missing if metrics)
            with self.stages.timed(title, size, "scores") as stage:
                for (each, file), metrics in zip(samples, missing, strict=True):
                    self._score_texts(each, file, metrics, stage.advance)
        found = [self._columns_of(each, file) for each, file in samples]
        return [list(columns) for columns in zip(*found, strict=True)]

    def _texts_file(self, answers: Answers) -> StageFile:
        """The scores of these texts, whichever system wrote them."""
        texts = [o.value.answer if o.value is not None else None for o in answers.outcomes]
        gold = [self.plan.collection.answers.get(query.id, ()) for query in self.plan.queries]
        return self._file("score", answers.name, [_texts_parts(texts, gold)])

    def _score_texts(
        self, answers: Answers, file: StageFile, metrics: Sequence[Metric], advance: Advance
    ) -> None:
        if not metrics:
            return
        plan, scorer = self.plan, self._scorer(tuple(metrics))
        found = score_answers(answers, plan.queries, plan.collection.answers, scorer, advance)
        for metric, column in zip(metrics, found, strict=True):
            file.put(_metric_key(metric), self._column(column))

    def _columns_of(self, answers: Answers, file: StageFile) -> list[ScoreColumn]:
        columns = [read_column(file.get(_metric_key(metric))) for metric in self.plan.metrics]
        # causes are those of this system, whoever scored the same texts before
        named = [replace(c, name=m.name) for c, m in zip(columns, self.plan.metrics, strict=True)]
        return [with_failures_of(answers, column) for column in named]

    def _scorer(self, metrics: tuple[Metric, ...]) -> TextScorer:
        """What scores, with its models; kept for the next system."""
        if metrics not in self._scorers:
            self._scorers[metrics] = TextScorer(metrics)
        return self._scorers[metrics]

    def by_judge(self, answers: Answers, name: str, judge: PlannedJudge) -> Judged:
        """Let a judge look at a system's answers; stored verdicts count.

        Args:
            answers: The system's answers.
            name: The judge's name.
            judge: The judge.
        """
        items = judged_items(answers, self.plan.queries, self.plan.collection.answers)
        title = f"judge {answers.name} ({name})"
        verdicts = self.verdicts(title, items, name, judge, range(len(items)))
        return self.collected(answers, items, judge, verdicts)

    def collected(
        self,
        answers: Answers,
        items: Sequence[Item],
        judge: PlannedJudge,
        verdicts: Sequence[Mapping[str, Verdict]],
        look: Look | None = None,
    ) -> Judged:
        """Turn verdicts on a system's answers into columns; what has no answer failed."""
        judged = collect_verdicts(judge.judge, items, judge.rubrics, verdicts, type_name=judge.type)
        columns = {
            rubric: replace(with_failures_of(answers, column), look=look)
            for rubric, column in judged.columns.items()
        }
        return replace(judged, columns=columns)

    def judged(self, title: str, items: Sequence[Item], name: str, judge: PlannedJudge) -> Judged:
        """Let a judge apply its rubrics to items; stored verdicts count."""
        verdicts = self.verdicts(title, items, name, judge, range(len(items)))
        return collect_verdicts(judge.judge, items, judge.rubrics, verdicts, type_name=judge.type)

    def verdicts(
        self,
        title: str,
        items: Sequence[Item],
        name: str,
        judge: PlannedJudge,
        rows: Sequence[int],
    ) -> list[dict[str, Verdict]]:
        """Return per item its verdicts, those of `rows` complete, of others what is stored."""
        files = {
            rubric.name: self.stages.store.file(
                "judge", f"{name}: {rubric.name}", _judge_key(judge, rubric, self.plan)
            )
            for rubric in judge.rubrics
        }
        # where the judge's noise is measured, equal answers must not share it
        keys = [_item_key(item, item.sample if judge.samples > 1 else 0) for item in items]
        found = [self._stored(files, key) for key in keys]
        stored = sum(len(verdicts) for verdicts in found)
        self.stages.work.setdefault(title, Work(len(items) * len(judge.rubrics), stored))
        if self.stages.dry:
            return found
        # what is stored of them has failed: its replies are of no use
        again = {
            row
            for row in rows
            if any(keys[row] in file for name, file in files.items() if name not in found[row])
        }
        for asked_again in (False, True):
            chosen = [row for row in rows if (row in again) == asked_again]
            todo = _grouped(chosen, judge.rubrics, found)
            if not todo:
                continue
            size = sum(len(group) for _, group in todo)
            unit = "answers" if items[-1].sample else "queries"
            with (
                self.stages.timed(title, size, unit) as stage,
                self.stages.asking(again=asked_again),
            ):
                for rubrics, group in todo:
                    order = self._in_random_order(group, items)
                    for block in self._blocks(order, judge):
                        asked = [items[row] for row in block]
                        given = judge_all(judge.judge, asked, rubrics, stage.advance)
                        for row, verdicts in zip(block, given, strict=True):
                            found[row] |= self._keep(files, keys[row], verdicts)
                    left = _over_time(rubrics, self.stages.budget)
                    for row in order:
                        found[row] = {**left, **found[row]}
        return found

    def _in_random_order(self, rows: Sequence[int], items: Sequence[Item]) -> list[int]:
        seed = self.plan.config.seed
        return sorted(rows, key=lambda row: order_key(seed, items[row].query_id))

    def _blocks(self, rows: Sequence[int], judge: PlannedJudge) -> Iterator[Sequence[int]]:
        """Rows that are judged at once; none when the time is up.

        A judge that asks models gets all: it watches the budget itself, and its replies are on
        disk as they come. The verdicts of another one are stored block by block.
        """
        size = len(rows) if isinstance(judge.judge, AskingJudge) else _BLOCK
        for start in range(0, len(rows), size):
            if self.stages.budget.time_is_up and not isinstance(judge.judge, AskingJudge):
                return
            yield rows[start : start + size]

    def _stored(self, files: Mapping[str, StageFile], key: str) -> dict[str, Verdict]:
        """The stored verdicts on an item; in a replay none, which reads the replies themselves."""
        if self.replay:
            return {}
        kept = {name: file.get(key) for name, file in files.items() if key in file}
        kept = {
            name: verdict
            for name, verdict in kept.items()
            if verdict.get("status") != "failed" or not self.stages.may_retry(files[name], key)
        }
        return {name: read_verdict(verdict) for name, verdict in kept.items()}

    def _keep(
        self, files: Mapping[str, StageFile], key: str, verdicts: Mapping[str, Verdict]
    ) -> dict[str, Verdict]:
        """Store the verdicts on an item and return them as they will be read."""
        found = {}
        for rubric, verdict in verdicts.items():
            kept = self._without_secrets(write_verdict(verdict))
            found[rubric] = read_verdict(kept)
            if kept.get("cause") != Cause.OVER_BUDGET.word and not self.replay:
                files[rubric].put(key, kept)
                self.stages.retried(files[rubric], key)
        return found

    def compared(self, parts: Sequence[str], make: Callable[[], Comparisons]) -> Comparisons:
        """Return the comparisons of a run; `parts` is all that they depend on."""
        file = self._file("compare", self.plan.config.name, parts)
        stored = "comparisons" in file
        self.stages.work["compare"] = Work(1, int(stored))
        if not stored:
            with self.stages.timed("compare", 1, "comparisons") as stage:
                file.put("comparisons", to_json(make()))
                stage.advance(1)
        # as JSON has it, also where it was just made
        found = json.loads(json.dumps(file.get("comparisons")))
        return from_json(Comparisons, found)

    def _file(self, stage: str, of: str, parts: Sequence[str]) -> StageFile:
        version = f"{__version__} {STAGE_VERSIONS[stage]}"
        return self.stages.store.file(stage, of, fingerprint([version, *parts], KEY_DIGITS))

    def _column(self, column: ScoreColumn) -> dict[str, Any]:
        stored = write_column(column)
        environment = self.plan.config.environment
        details = {row: redact(text, environment) for row, text in stored["details"].items()}
        return {**stored, "details": details}

    def _without_secrets(self, stored: dict[str, Any]) -> dict[str, Any]:
        environment = self.plan.config.environment
        for key in ("reasoning", "raw"):
            if key in stored:
                stored[key] = redact(stored[key], environment)
        return stored


def _over_time(rubrics: Sequence[Rubric], budget: Budget) -> dict[str, Verdict]:
    """The verdicts on what was left out when the time was up."""
    reason = f"not judged: the budget's {budget.minutes or 0:g} minutes are over"
    verdict = Verdict(None, reasoning=reason, status="failed", cause=Cause.OVER_BUDGET.word)
    return {rubric.name: verdict for rubric in rubrics}


def column_parts(columns: Mapping[str, ScoreColumn]) -> list[str]:
    """Return hashes of columns, for the keys of what is made of them."""
    return [f"{name} {fingerprint_json(write_column(c))} {c.look}" for name, c in columns.items()]


def _grouped(
    rows: Sequence[int], rubrics: Sequence[Rubric], verdicts: Sequence[Mapping[str, Verdict]]
) -> list[tuple[list[Rubric], list[int]]]:
    """Rubrics, with the rows that are judged by just these.

    Rubrics over claims share their replies, and each reply counts for the first verdict that
    rests on it: where one of them is missing all of them are given anew, from stored replies.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        lacking = [rubric for rubric in rubrics if rubric.name not in verdicts[row]]
        shares = any(rubric.method == "claims" for rubric in lacking)
        names = tuple(
            rubric.name
            for rubric in rubrics
            if rubric in lacking or (shares and rubric.method == "claims")
        )
        if names:
            groups.setdefault(names, []).append(row)
    return [
        ([rubric for rubric in rubrics if rubric.name in names], found)
        for names, found in groups.items()
    ]


def _ranking_parts(ranking: Ranked, gold: Gold, plan: Plan) -> list[str]:
    """All that the scores of a ranking depend on but the measures."""
    rules, prints = plan.config.metrics.retrieval, plan.collection.fingerprints
    pieces: list[str] = []
    for query, outcome in zip(ranking.queries, ranking.outcomes, strict=True):
        pieces += [query.id, outcome.cause.word, outcome.detail]
        hits = [] if outcome.value is None else outcome.value.documents
        for hit in hits:
            pieces += [hit.id, repr(hit.score), hit.title or "", hit.text or ""]
            pieces += [fingerprint_json(dict(hit.metadata))] if hit.metadata else []
    qrels = "none" if gold.qrels is None else gold.qrels.fingerprint()
    return [
        repr(replace(rules, measures=None)),
        ranking.name,
        fingerprint(pieces, KEY_DIGITS),
        fingerprint(ranking.run.query_ids),
        qrels,
        repr(gold.source),
        prints.get("answers", "none"),
        prints.get("corpus", "none"),
    ]


def _texts_parts(texts: Sequence[str | None], gold: Sequence[Sequence[str]]) -> str:
    pieces: list[str] = []
    for text, references in zip(texts, gold, strict=True):
        pieces += ["none"] if text is None else ["text", text]
        pieces += [str(len(references)), *references]
    return fingerprint(pieces, KEY_DIGITS)


def _metric_key(metric: Metric) -> str:
    """A metric with its options, the content of the files they name, and the code behind it."""
    facts = metric.declaration.facts
    known = facts(metric.options) if callable(facts) else facts
    definition = (metric.canonical, metric.declaration.version, dict(known))
    return fingerprint_json([*definition, versions_of(_LIBRARIES)])


def _judge_key(judge: PlannedJudge, rubric: Rubric, plan: Plan) -> str:
    """All that a judge's verdicts by a rubric depend on but what is judged."""
    block = judge.block
    options = {} if block is None else {**block.options}
    told = {name: value for name, value in options.items() if name not in _UNTOLD}
    asked = judge.judge.signature_parts(rubric) if isinstance(judge.judge, AskingJudge) else {}
    hidden = plan.config.environment
    return fingerprint_json(
        [
            __version__,
            STAGE_VERSIONS["judge"],
            judge.type,
            judge.judge.model,
            redact(repr(sorted(told.items())), hidden),
            rubric.fingerprint,
            dict(asked),
            code_of(type(judge.judge)),
        ],
        KEY_DIGITS,
    )


def _item_key(item: Item, sample: int) -> str:
    """The hash of all that a judge sees of an item, and of which sample of its noise it is."""
    parts = (item.query_id, item.question, item.answer, item.contexts, item.references)
    more = (item.queries, item.guidelines, item.other)
    return fingerprint_json([*parts, *more, *([sample] if sample else [])], KEY_DIGITS)
