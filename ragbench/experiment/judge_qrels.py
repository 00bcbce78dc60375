"""Grades of a judge against qrels of people, and the order of systems under both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.judged_set import key_of, run_of_rows
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.rater_agreement import agreement_record
from ragbench.calibration.rating_tables import judged_scores
from ragbench.comparison.evaluate import evaluate_run
from ragbench.config.schema import ExperimentConfig
from ragbench.data.files.judged_qrels import GRADE, pair_of, read_judged_qrels
from ragbench.data.files.judged_rows import JudgedSet
from ragbench.data.files.trec_files import read_run
from ragbench.data.loaders.python import PASSED
from ragbench.errors import DataError
from ragbench.experiment.audit.judged import plan_passage_judge
from ragbench.experiment.judge_set import SetJudge, with_cost
from ragbench.experiment.plan.plan import load_collection
from ragbench.experiment.plan.records import PlannedFill
from ragbench.records.certificate import SystemOrder
from ragbench.stats.agreement import mean_agreement
from ragbench.stats.correlation import kendall_tau_b
from ragbench.types import Qrels
from ragbench.types.lookups import index_by_id

MEASURE = "ndcg@10"


def read_passages(config: ExperimentConfig, file: Path) -> tuple[JudgedSet, int]:
    """Return (the judged passages of qrels, number of pairs that the data set has no text of).

    Raises:
        DataError: The config has no documents, or the qrels cannot be read or fit no query.
    """
    collection = None if config.dataset.type == PASSED else load_collection(config)
    if collection is None or collection.documents is None:
        problem = "qrels have no texts, and the config has no documents"
        allowed = "the queries and documents of the qrels, such as {type: beir, path: FOLDER}"
        raise DataError(problem, file=config.path, record="dataset", allowed=allowed)
    documents = index_by_id(collection.documents)
    texts = {name: document.full_text for name, document in documents.items()}
    questions = {query.id: query.text for query in collection.queries}
    return read_judged_qrels(file, texts, questions)


def plan_grader(config: ExperimentConfig, rows: JudgedSet) -> tuple[SetJudge, PlannedFill]:
    """Return the judge of passages of a config with the cost of grading, and its rules.

    Raises:
        DataError: No judge can grade, or people have grades that it does not give.
        ConfigError, OptionError, AdapterError: As `plan_passage_judge` raises them.
    """
    fill = plan_passage_judge(config)
    top = max(int(row.entry.values[GRADE]) for row in rows.rows)
    if top > fill.top_grade or top == 1 < fill.top_grade:
        problem = f"people grade up to {top}, {fill.rubric.name} up to {fill.top_grade}"
        allowed = "a rubric of as many levels, or metrics.retrieval.fill: {relevant_from: LEVEL}"
        raise DataError(problem, file=rows.files[0], allowed=f"{allowed} for grades of 0 and 1")
    planned = replace(fill.judge, rubrics=[fill.rubric], pairwise=[])
    judge = SetJudge(fill.name, planned, [fill.rubric])
    return with_cost(config, [judge], rows)[0], fill


def with_grades(run: JudgedRun, fill: PlannedFill) -> JudgedRun:
    """Return a run of verdicts on passages with the grades of the rules in place of the scores."""

    def grade(value: float) -> float:
        level = 1 + value * (fill.rubric.levels - 1)
        return fill.grade_of(round(level, 9)) / fill.top_grade

    scores = {}
    for name, score in run.scores.items():
        grades = {key: grade(value) for key, value in score.scores.items()}
        scores[name] = replace(score, scores=grades)
    return replace(run, scores=scores)


def rated_qrels(
    rows: JudgedSet, judge: Qrels, file: Path, *, rubric: str | None, model: str
) -> tuple[JudgedRun, LabelScale]:
    """Return (the grades of qrels, read from `file`, as a run of a judge, scale of all grades).

    Raises:
        DataError: The qrels have no grade of any pair of the set.
    """
    grades = judge.by_query
    tops = []
    for of in grades.values():
        tops.append(max(of.values()))
    scale = LabelScale(0, max(1, *tops, *(int(row.entry.values[GRADE]) for row in rows.rows)))
    ratings = {}
    for row in rows.rows:
        query, document = pair_of(row)
        if (grade := grades.get(query, {}).get(document)) is not None:
            ratings[key_of(row)] = scale.score(max(grade, 0))
    if not ratings:
        allowed = f"grades of pairs that {rows.files[0].name} judges"
        raise DataError("no pair that people judged", file=file, allowed=allowed)
    keys = [key_of(row) for row in rows.rows]
    name = file.name.partition(".")[0]
    return run_of_rows(rows, judged_scores({name: ratings}, keys, rubric, model)), scale


def lone_pairs(people: Qrels, judge: Qrels) -> tuple[int, int]:
    """Return (number of pairs that people alone judged, number that the judge alone judged)."""
    n_people, n_judge = (sum(map(len, of.by_query.values())) for of in (people, judge))
    n_both = 0
    for query, grades in people.by_query.items():
        n_both += len(grades.keys() & judge.by_query.get(query, {}).keys())
    return n_people - n_both, n_judge - n_both


def pairs_of(rows: JudgedSet, qrels: Qrels) -> Qrels:
    """Return the grades of the pairs of a set; pairs without a grade are left out."""
    grades: dict[str, dict[str, int]] = {}
    for row in rows.rows:
        query, document = pair_of(row)
        if (grade := qrels.by_query.get(query, {}).get(document)) is not None:
            grades.setdefault(query, {})[document] = grade
    return Qrels.from_dict(grades)


def common_pairs(people: Qrels, judge: Qrels) -> tuple[Qrels, Qrels]:
    """Return (grades of people, grades of the judge) of the pairs that both judged."""
    of_people, of_judge = dict[str, dict[str, int]](), dict[str, dict[str, int]]()
    for query, grades in people.by_query.items():
        judged = judge.by_query.get(query, {})
        for document in grades:
            if document in judged:
                of_people.setdefault(query, {})[document] = grades[document]
                of_judge.setdefault(query, {})[document] = judged[document]
    return Qrels.from_dict(of_people), Qrels.from_dict(of_judge)


def graded_pairs(rows: JudgedSet, score: JudgedScore, top: int) -> Qrels:
    """Return the grades that a judge gave to the pairs of a set, up to `top`."""
    grades: dict[str, dict[str, int]] = {}
    for row in rows.rows:
        if (value := score.scores.get(key_of(row))) is not None:
            query, document = pair_of(row)
            grades.setdefault(query, {})[document] = round(value * top)
    return Qrels.from_dict(grades)


def system_order(
    people: Qrels, judge: Qrels, runs: Sequence[Path], confidence: float
) -> SystemOrder:
    """Return the means of systems under the qrels of people and of a judge, and their tau.

    Each mean is over all pairs of its qrels: `common_pairs` gives both the same. A query without a
    relevant document, and one that a run lacks, counts as 0, as in trec_eval with all queries.

    Raises:
        DataError: A run cannot be read.
    """
    means = []
    for qrels in (people, judge):
        means.append({run.stem: _mean(run, qrels) for run in runs})
    table = np.array([[of[run.stem] for of in means] for run in runs])
    tau = mean_agreement(kendall_tau_b, [table], "ordinal", None, confidence, rare=False)
    return SystemOrder(measure=MEASURE, people=means[0], judge=means[1], tau=agreement_record(tau))


def _mean(run: Path, qrels: Qrels) -> float:
    """Return the mean of a run under some qrels."""
    evaluation = evaluate_run(read_run(run), qrels, [MEASURE], no_relevant="zero")
    return evaluation.mean[MEASURE]
