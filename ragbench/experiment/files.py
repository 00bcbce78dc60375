"""From the results of a run to the files of its run folder."""

from __future__ import annotations

import functools
import platform
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import chain, islice
from pathlib import Path

import numpy as np

from ragbench import __version__
from ragbench.config.dump import dump_config
from ragbench.data.files.trec_files import run_lines
from ragbench.data.loaders.python import PASSED
from ragbench.data.runs.query_view import PROMPTS_FILE, QUESTIONS_FILE, TEXTS_FILE
from ragbench.data.runs.run_folder import (
    QUERIES_FILE,
    csv_tables,
    file_name,
    json_lines,
    metadata_rows,
    to_json,
    write_run_folder,
)
from ragbench.data.runs.run_lines import (
    CAUSES_FILE,
    FINGERPRINTS_FILE,
    fingerprint_queries,
    format_causes,
    format_fingerprints,
)
from ragbench.data.runs.run_list import read_commit
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import FileRankings
from ragbench.experiment.gates import gate_run
from ragbench.experiment.plan.records import Noun, Plan, Repetition
from ragbench.experiment.records import Answers, Results, RetrieverRun
from ragbench.experiment.result import Experiment
from ragbench.experiment.stages.matching import document_of
from ragbench.experiment.summary import format_costs, make_summary
from ragbench.records import codec
from ragbench.records.codec import Record, cleaned
from ragbench.records.manifest import (
    FailedPrediction,
    Manifest,
    Passage,
    PredictionRow,
    PromptForm,
    QuestionRow,
    StageWork,
    TextRow,
    UnscoredRow,
    VerdictRow,
)
from ragbench.report.ci import render_junit
from ragbench.report.markdown import render_markdown
from ragbench.report.page.html import write_page
from ragbench.secrets import redactor
from ragbench.types import Cause, Document, ScoreColumn, ScoredDocument
from ragbench.types.rows import Mapped

# Packages whose version may move a number.
_PACKAGES = ("numpy", "bm25s", "nltk", "sacrebleu", "PyYAML")
# Hits of each ranking whose texts are kept; generators mostly read fewer.
SHOWN_HITS = 10
# Characters that are kept of one text.
LONGEST_TEXT = 8_000
_AT_ONCE = 1_000  # queries whose fingerprints are in memory
# Characters that are kept of all texts of a run; the texts of later queries are left out.
MOST_CHARACTERS = 64_000_000


def make_manifest(plan: Plan, results: Results, started: float) -> Manifest:
    """Return versions, data fingerprints, signatures, seeds and timings; never a secret."""
    filled, work = results.filled, results.work
    named: tuple[tuple[Noun, Iterable[str]], ...]
    named = (("retriever", plan.retrievers), ("generator", plan.generators), ("app", plan.apps))
    components = {name: plan.component(noun, name) for noun, names in named for name in names}
    return Manifest(
        ragbench=__version__,
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        packages={name: _version(name) for name in _PACKAGES},
        seed=plan.config.seed,
        choices=plan.choices,
        live=(
            *(["dataset"] if plan.config.dataset.type == PASSED else []),
            *sorted(name for name, component in components.items() if component is None),
        ),
        versions={
            name: component.version
            for name, component in components.items()
            if component is not None and component.version is not None
        },
        environment=plan.config.environment,
        commit=read_commit(plan.config.path.parent if plan.config.path else Path()),
        data=dict(plan.collection.fingerprints),
        queries=len(plan.queries),
        signatures={
            name: str(column.signature)
            for system in results.systems
            for name, column in system.columns.items()
        },
        judging={
            system: {name: use.manifest() for name, use in uses.items()}
            for system, uses in results.judge_uses.items()
        },
        judging_passages=None if filled is None else filled.use.manifest(),
        judging_pairs={each.judge: each.use.manifest() for each in results.preferences},
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        # never below 0: a clock may be set back in the meantime
        seconds=max(0.0, round(time.time() - started, 3)),
        stages={name: round(each.seconds, 4) for name, each in work.items()},
        work={name: StageWork(items=each.items, stored=each.stored) for name, each in work.items()},
    )


@functools.cache  # a search through all packages, for each run of a process
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def write_run(
    plan: Plan, results: Results, started: float, repetition: Repetition | None = None
) -> Experiment:
    """Write the run folder, whole or not at all, and return the experiment."""
    # the random part keeps runs of the same second apart
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
    run_id = f"{stamp}-{secrets.token_hex(2)}"
    experiment = Path(plan.config.output) / plan.config.name
    home = experiment if repetition is None else repetition.runs

    # the one door through which every text goes that somebody else wrote
    clean = redactor(plan.config.secrets)
    summary = cleaned(gate_run(plan, results, make_summary(plan, results, run_id)), clean)
    manifest = cleaned(make_manifest(plan, results, started), clean)
    if repetition is not None:
        manifest = replace(manifest, reproduces=repetition.of)
    contents: dict[str, str | Iterable[str]] = {
        "config.yaml": dump_config(plan.config, home / run_id),
        "manifest.json": to_json(codec.to_json(manifest)),
        "summary.json": to_json(codec.to_json(summary)),
        "comparisons.json": to_json(codec.to_json(results.comparisons)),
        "report.md": render_markdown(summary, results.comparisons),
        "junit.xml": render_junit(summary, manifest.seconds),
        **_query_files(plan, results, clean),
    }

    def finish(folder: Path) -> None:
        # read from the folder, as `ragbench report` does: both write the same page
        write_page(folder / "report.html", summary, results.comparisons, folder)

    folder = write_run_folder(home, run_id, contents, finish=finish, is_latest=repetition is None)
    return Experiment(folder, summary, results.comparisons)


def _query_files(
    plan: Plan, results: Results, clean: Callable[[str], str]
) -> dict[str, str | Iterable[str]]:
    """Return the files of a run folder with lines for queries, answers or texts, by path."""
    ids = plan.ids
    contents: dict[str, str | Iterable[str]] = {
        "per_query.csv": _per_query(ids, results.systems),
        "costs.csv": format_costs(results.systems, ids),
        FINGERPRINTS_FILE: _fingerprints(plan, results),
        QUESTIONS_FILE: _lines(_question_rows(plan, results), clean),
        CAUSES_FILE: format_causes(
            {name: causes.losses for name, causes in results.causes.items()}, ids
        ),
        "unscored.jsonl": _lines(_unscored(plan, results), clean),
    }
    texts = _lines(_text_rows(plan, results), clean)
    metadata = map(clean, json_lines(map(codec.to_json, metadata_rows(plan.queries))))
    for name, lines in ((QUERIES_FILE, metadata), (TEXTS_FILE, texts)):
        if (first := next(lines, None)) is not None:
            contents[name] = chain([first], lines)
    for name, ranking in results.rankings.items():
        contents[f"rankings/{file_name(name)}.trec"] = _ranking_lines(ranking)
        if ranking.unmatched is not None:
            contents[f"passages/{file_name(name)}.trec"] = run_lines(ranking.unmatched)
    for name, answers in results.answers.items():
        lines = _lines(_predictions(plan, answers), clean)
        contents[f"predictions/{file_name(name)}.jsonl"] = lines
    verdicts: dict[str, Iterable[VerdictRow]] = {
        file_name(name): chain.from_iterable(rows) for name, rows in results.judgements.items()
    }
    verdicts |= {f"pairs/{file_name(each.judge)}": each.rows for each in results.preferences}
    if (filled := results.filled) is not None:
        verdicts[f"passages/{file_name(filled.counts.judge)}"] = filled.rows
    for path, rows in verdicts.items():
        contents[f"judgements/{path}.jsonl"] = _lines(rows, clean)
    if results.prompts:
        # sorted: stored ones are found in another order than they were made in
        forms = sorted(results.prompts.items())
        contents[PROMPTS_FILE] = _lines(
            (PromptForm(id=form, system=system, user=user) for form, (system, user) in forms), clean
        )
    return contents


def _lines(rows: Iterable[Record], clean: Callable[[str], str]) -> Iterator[str]:
    return json_lines(codec.to_json(cleaned(row, clean)) for row in rows)


def _ranking_lines(ranking: RetrieverRun) -> Iterator[str]:
    """Read the rankings of a file when they are written: not all of them may be in memory."""
    yield from run_lines(ranking.run)


def _per_query(ids: Sequence[str], systems: Sequence[SystemScores]) -> Iterator[str]:
    names = list(dict.fromkeys(name for system in systems for name in system.columns))
    tables = (
        [s.name, ids, *(s.columns[name].values if name in s.columns else None for name in names)]
        for s in systems
    )
    return csv_tables(["system", "query_id", *names], len(ids), tables)


def _fingerprints(plan: Plan, results: Results) -> Iterator[str]:
    """What each query was: its text, the judgements that scored it, and its gold answers."""
    qrels = results.qrels(plan)
    judged = {} if qrels is None else qrels.query_fingerprints()
    for first in range(0, max(len(plan.ids), 1), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        names, answers = plan.ids[rows], plan.collection.answers
        gold = {name: answers.get(name, ()) for name in names} if answers else {}
        prints = {**fingerprint_queries(plan.queries[rows], None, gold), **judged}
        yield from islice(format_fingerprints(names, prints), 1 if first else 0, None)


def _unscored(plan: Plan, results: Results) -> Iterator[UnscoredRow]:
    """Yield the queries without a score, then the answers without one, whatever their query has."""
    columns: list[tuple[str, str, ScoreColumn, int | None]] = [
        (system.name, name, column, None)
        for system in results.systems
        for name, column in system.columns.items()
    ]
    columns += [
        (system, name, column, sample)
        for system, scores in results.samples.items()
        for name, samples in scores.items()
        for sample, column in enumerate(samples)
    ]
    for system, name, column, sample in columns:
        for row in np.flatnonzero(column.causes != Cause.SCORED).tolist():
            cause = Cause(int(column.causes[row]))
            yield UnscoredRow(
                system=system,
                query_id=plan.ids[row],
                measure=name,
                status=cause.status,
                cause=cause.word,
                detail=column.details.get(row, ""),
                sample=sample,
            )


def _predictions(plan: Plan, answers: Answers) -> Iterator[PredictionRow | FailedPrediction]:
    """Yield the answers, those to one query together, numbered where there are several."""
    samples = answers.by_sample()
    generator = plan.generators.get(plan.system(answers.name).generator or "")
    for row, query in enumerate(plan.queries):
        for number, sample in enumerate(samples):
            outcome, numbered = sample.outcomes[row], number if len(samples) > 1 else None
            prediction, ms = outcome.value, outcome.latency_ms
            if prediction is None:
                yield FailedPrediction(
                    query_id=query.id,
                    sample=numbered,
                    cause=outcome.cause.word,
                    detail=outcome.detail,
                )
                continue
            contexts, calls = prediction.contexts, prediction.tool_calls
            # texts that nobody writes stand for the passages, which are stored beside the prompt
            marks = [replace(p, text=f"[[passage {n}]]") for n, p in enumerate(contexts or (), 1)]
            yield PredictionRow(
                query_id=query.id,
                sample=numbered,
                answer=prediction.answer,
                contexts=None
                if contexts is None
                else tuple(Passage(id=c.id, title=c.title, text=c.text) for c in contexts),
                queries=tuple(prediction.queries or ()),
                tool_calls=None if calls is None else tuple(calls),
                prompt=None if generator is None else generator.prompt_text(query.text, marks),
                usage=prediction.usage,
                latency_ms=None if ms is None else round(ms, 3),
            )


def _question_rows(plan: Plan, results: Results) -> Iterator[QuestionRow]:
    qrels = results.qrels(plan)
    judged = {} if qrels is None else qrels.by_query
    for query in plan.queries:
        yield QuestionRow(
            query_id=query.id,
            question=query.text,
            answers=tuple(plan.collection.answers.get(query.id, ())),
            judged=judged.get(query.id, {}),
        )


def _text_rows(plan: Plan, results: Results) -> Iterator[TextRow]:
    """Yield the texts of gold documents, and of the first hits of each ranking, each text once.

    A second text under the same id, as adapters may give, is that of one system and query.
    """
    kept: dict[str, int] = {}
    characters = 0
    for system, query, document in _documents(plan, results):
        # a hash, so that texts are not held; two of one id hardly share it
        print_ = hash((document.text, document.title)) & sys.maxsize
        is_first = document.id not in kept
        if kept.setdefault(document.id, print_) == print_ and not is_first:
            continue
        characters += min(len(document.text), LONGEST_TEXT)
        if characters > MOST_CHARACTERS:
            return
        yield TextRow(
            id=document.id,
            title=document.title or None,
            text=document.text[:LONGEST_TEXT],
            system=None if is_first else system,
            query_id=None if is_first else query,
            cut=len(document.text) > LONGEST_TEXT,
        )


def _documents(plan: Plan, results: Results) -> Iterator[tuple[str, str, Document]]:
    """Query by query: its gold documents, then the first hits of every ranking."""
    qrels = results.qrels(plan)
    judged, corpus = {} if qrels is None else qrels.by_query, plan.corpus
    seen: set[str] = set()
    hits_of = {name: _shown_hits(ranking, corpus) for name, ranking in results.rankings.items()}
    for row, query in enumerate(plan.queries):
        for name, grade in judged.get(query.id, {}).items():
            if grade > 0 and name in corpus and name not in seen:
                seen.add(name)
                yield "", query.id, corpus[name]
        for system, hits in hits_of.items():
            for hit in hits[row]:
                if hit.text is None and hit.id in seen:
                    continue
                document = document_of(hit, corpus)
                if document is not None:
                    if hit.text is None:
                        seen.add(hit.id)
                    yield system, query.id, document


def _shown_hits(
    ranking: RetrieverRun, corpus: Mapping[str, Document]
) -> Sequence[Sequence[ScoredDocument]]:
    """Return the first hits of each query; of a run file only hits that the corpus has."""
    outcomes = ranking.outcomes
    if isinstance(outcomes, FileRankings):
        if not corpus:
            return [()] * len(outcomes)
        # a list, made file by file: not all files may be in memory when queries are walked
        depth = min(outcomes.top_k, SHOWN_HITS)
        first = FileRankings(outcomes.query_ids, outcomes.read, depth)
        values = (outcome.value for outcome in first)
        return [[h for h in value.documents if h.id in corpus] if value else () for value in values]
    return Mapped(lambda o: o.value.documents[:SHOWN_HITS] if o.value else (), outcomes)
