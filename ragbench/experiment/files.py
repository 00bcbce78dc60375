"""Files of a run folder, written from the results of the run."""

from __future__ import annotations

import functools
import math
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ragbench import __version__
from ragbench.config.resolved import dump_config
from ragbench.config.schema import Component
from ragbench.data.files.trec_files import run_lines
from ragbench.data.loaders.python import PASSED
from ragbench.data.runs.hit_list import LONGEST_TEXT
from ragbench.data.runs.query_view import (
    HITS_FOLDER,
    PASSAGES_FOLDER,
    PROMPTS_FILE,
    QUESTIONS_FILE,
    REPEATS_FOLDER,
    TEXTS_FILE,
    QueryViews,
)
from ragbench.data.runs.run_folder import (
    QUERIES_FILE,
    csv_tables,
    file_name,
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
from ragbench.experiment.calls import FileRankings, answer_row
from ragbench.experiment.costs import format_costs
from ragbench.experiment.fix import list_fixes_of_page
from ragbench.experiment.plan.records import Noun, Plan, Repetition
from ragbench.experiment.records import Answers, Results, RetrieverRun
from ragbench.experiment.result import Experiment
from ragbench.experiment.stages.matching import document_of
from ragbench.experiment.stored_judgements import verdicts_of_data
from ragbench.records import codec
from ragbench.records.codec import cleaned
from ragbench.records.manifest import (
    SHOWN_HITS,
    AnswerKey,
    Manifest,
    MetadataRow,
    PromptForm,
    QuestionRow,
    StageWork,
    TextRow,
    UnscoredRow,
    VerdictRow,
)
from ragbench.records.summary import Summary
from ragbench.report.junit import render_junit
from ragbench.report.layout import lay_out
from ragbench.report.page.html import page_bytes, render_html
from ragbench.report.results import render_markdown
from ragbench.secrets import redactor
from ragbench.types import Cause, Document, FloatArray, Query, ScoreColumn, ScoredDocument
from ragbench.types.byte_ids import TextIds
from ragbench.types.json_fields import Record
from ragbench.types.rows import Mapped

# Packages whose versions may change a score.
_PACKAGES = ("numpy", "bm25s", "nltk", "sacrebleu", "PyYAML")
# Number of characters of all texts of a run; texts of later queries are left out beyond it, so that
# a run folder and its page stay small enough to be opened and sent.
MOST_CHARACTERS = 64_000_000
# Number of characters of documents that are stored only because a passage of them was retrieved.
MOST_DOCUMENTS = 8_000_000


def make_manifest(plan: Plan, results: Results, started: float) -> Manifest:
    """Return versions, fingerprints, signatures, seeds and timings of a run; never a secret.

    `started` is the start of the run, in seconds since the epoch. An app, retriever or generator
    that was passed as an object stands in `live`, and so does a data set from Python. The commit is
    that of the folder of the config, else of the working directory; None without one.
    """
    filled, stages = results.filled, results.work
    families: tuple[tuple[Noun, Iterable[str]], ...]
    families = (("retriever", plan.retrievers), ("generator", plan.generators), ("app", plan.apps))
    components: dict[str, Component | None] = {}
    for noun, names in families:
        for name in names:
            components[name] = plan.component(noun, name)
    live, versions = [], {}
    for name, component in components.items():
        if component is None:
            live.append(name)
        elif component.version is not None:
            versions[name] = component.version
    live.sort()
    signatures, stage_work = {}, {}
    for system in results.systems:
        for name, column in system.columns.items():
            signatures[name] = str(column.signature)
    for name, work in stages.items():
        stage_work[name] = StageWork(items=work.items, stored=work.stored)
    judging = {}
    for name, uses in results.judge_uses.items():
        judging[name] = {judge: use.manifest() for judge, use in uses.items()}
    return Manifest(
        ragbench=__version__,
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        packages={name: _version(name) for name in _PACKAGES},
        seed=plan.config.seed,
        choices=plan.choices,
        live=("dataset", *live) if plan.config.dataset.type == PASSED else tuple(live),
        versions=versions,
        environment=plan.config.environment,
        commit=read_commit(plan.config.path.parent if plan.config.path else Path()),
        data=dict(plan.collection.fingerprints),
        queries=len(plan.queries),
        signatures=signatures,
        judging=judging,
        judging_passages=None if filled is None else filled.use.manifest(),
        judging_pairs={pairs.judge: pairs.use.manifest() for pairs in results.preferences},
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        # never negative: the clock may be set back during a run
        seconds=max(0.0, round(time.time() - started, 3)),
        stages={name: round(work.seconds, 4) for name, work in stages.items()},
        work=stage_work,
        kept_failures=results.kept_failures,
        used=results.used,
        files=results.files,
        unseen=results.unseen,
        token=results.token,
    )


@functools.cache  # `metadata` searches all installed packages each time
def _version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def write_run(
    plan: Plan,
    results: Results,
    summary: Summary,
    started: float,
    repetition: Repetition | None = None,
) -> Experiment:
    """Write the run folder, whole or not at all, and return the experiment.

    Its path is `<output>/<name>/<id of the run>`. A repetition is written into its own folder,
    without `latest`. The page is made from the written files, unless the config wants none. Secrets
    of the config are masked in all texts; names and ids stay.

    Raises:
        DataError: The folder cannot be written.
    """
    experiment, run_id = Path(plan.config.output) / plan.config.name, summary.run_id
    home = experiment if repetition is None else repetition.runs

    # every text of data, models and servers passes it: any may repeat a secret
    clean = redactor(plan.config.secrets)
    summary = cleaned(summary, clean)
    manifest = cleaned(make_manifest(plan, results, started), clean)
    if repetition is not None:
        manifest = structs.replace(manifest, reproduces=repetition.of)
    contents: dict[str, str | Iterable[str]] = {
        "config.yaml": dump_config(plan.config, home / run_id),
        "manifest.json": to_json(codec.to_json(manifest)),
        "summary.json": to_json(codec.to_json(summary)),
        "comparisons.json": to_json(codec.to_json(results.comparisons)),
        "junit.xml": render_junit(summary, manifest.seconds),
        **_query_files(plan, results, clean),
    }

    def finish(folder: Path) -> None:
        if not plan.config.has_page:
            return
        # from the files, as `ragbench report` reads them: both write the same page
        views = QueryViews(folder, bare=True)
        for name, ranking in results.rankings.items():
            # packed ids are those of a file: written and read again, the ranking is the same
            if isinstance((run := ranking.run).documents, TextIds):
                views.keep_run(name, run)
        views.keep_columns(_stored_columns(plan.ids, results.systems))
        fixes = list_fixes_of_page(views)
        page = lay_out(summary, results.comparisons)
        html = render_html(summary, results.comparisons, views, fixes, page)
        text = render_markdown(summary, results.comparisons, views.question, page)
        # the folder gets its name when all its files are on disk
        (folder / "report.html").write_bytes(page_bytes(html))
        (folder / "report.md").write_bytes(page_bytes(text))

    folder = write_run_folder(home, run_id, contents, finish=finish, is_latest=repetition is None)
    return Experiment(folder, summary, results.comparisons)


def _query_files(
    plan: Plan, results: Results, clean: Callable[[str], str]
) -> dict[str, str | Iterable[str]]:
    """Return path -> pieces of the text, for files with a line per query, answer or verdict."""
    # Texts are made when they are written, so that memory stays bounded.
    ids = plan.ids
    contents: dict[str, str | Iterable[str]] = {
        "per_query.csv": _per_query(ids, results.systems),
        "costs.csv": format_costs(results.systems, ids),
        FINGERPRINTS_FILE: _fingerprints(plan, results),
        QUESTIONS_FILE: _lines(_question_rows(plan, results), clean),
        CAUSES_FILE: format_causes(
            {name: causes.repeats for name, causes in results.causes.items()}, ids
        ),
        "unscored.jsonl": _lines(_unscored(plan, results), clean),
    }
    texts = _lines(_text_rows(plan, results), clean)
    metadata = map(clean, (f"{codec.to_line(row)}\n" for row in _metadata_rows(plan.queries)))
    for name, lines in ((QUERIES_FILE, metadata), (TEXTS_FILE, texts)):
        if (first := next(lines, None)) is not None:
            contents[name] = chain([first], lines)
    contents |= _ranking_files(results, clean)
    for name, answers in results.answers.items():
        contents[f"predictions/{file_name(name)}.jsonl"] = _predictions(plan, answers, clean)
    verdicts: dict[str, Iterable[VerdictRow]] = {}
    for name, by_judge in results.judgements.items():
        verdicts[file_name(name)] = chain.from_iterable(by_judge.values())
    for name in results.answers:
        # a file without verdicts is not written
        of_data = verdicts_of_data(plan, name)
        if (first_verdict := next(of_data, None)) is not None:
            of_judges = verdicts.get(file_name(name), ())
            verdicts[file_name(name)] = chain(of_judges, [first_verdict], of_data)
    verdicts |= {f"pairs/{file_name(pairs.judge)}": pairs.rows for pairs in results.preferences}
    if (filled := results.filled) is not None:
        verdicts[f"passages/{file_name(filled.counts.judge)}"] = filled.rows
    for path, rows in verdicts.items():
        contents[f"judgements/{path}.jsonl"] = _lines(rows, clean)
    if results.prompts:
        # sorted: a resumed run finds stored prompts in another order than the first run
        forms = sorted(results.prompts.items())
        prompts = (PromptForm(id=form, system=system, user=user) for form, (system, user) in forms)
        contents[PROMPTS_FILE] = _lines(prompts, clean)
    return contents


def _metadata_rows(queries: Sequence[Query]) -> Iterator[MetadataRow]:
    """Yield a row of plain metadata for each query; nothing if no query has any."""
    if any(_plain_metadata(query.metadata) for query in queries):
        for query in queries:
            yield MetadataRow(query_id=query.id, metadata=_plain_metadata(query.metadata))


def _plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata with a form in JSON, also in mappings and lists; dates become texts."""
    # null, NaN, infinities and other objects are left out
    plain: dict[str, Any] = {}
    for key, value in metadata.items():
        part = _plain_value(value)
        if part is not None:
            plain[str(key)] = part
    return plain


def _plain_value(value: object) -> object:
    """Return a value of metadata with a form in JSON; None for null and other objects."""
    if isinstance(value, Mapping):
        return _plain_metadata(value)
    if isinstance(value, (list, tuple)):
        values = []
        for part in value:
            part = _plain_value(part)
            if part is not None:
                values.append(part)
        return values
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, date):
        return str(value)
    return value if isinstance(value, (str, bool, int, float)) else None


def _ranking_files(results: Results, clean: Callable[[str], str]) -> dict[str, str | Iterable[str]]:
    """Return path -> pieces of the text, for the files with rankings and their hits."""
    contents: dict[str, str | Iterable[str]] = {}
    for name, ranking in results.rankings.items():
        contents[f"rankings/{file_name(name)}.trec"] = _ranking_lines(ranking)
        if ranking.unmatched is not None:
            contents[f"{PASSAGES_FOLDER}/{file_name(name)}.trec"] = run_lines(ranking.unmatched)
        if name in results.hits:
            contents[f"{HITS_FOLDER}/{file_name(name)}.jsonl"] = _lines(results.hits[name], clean)
    for name, rankings in results.further_rankings.items():
        hits = results.further_hits.get(name, {})
        for ranking in rankings:
            file = f"{REPEATS_FOLDER}/{file_name(name)}.{ranking.number}"
            contents[f"rankings/{file}.trec"] = _ranking_lines(ranking)
            if ranking.unmatched is not None:
                contents[f"{PASSAGES_FOLDER}/{file}.trec"] = run_lines(ranking.unmatched)
            if ranking.number in hits:
                contents[f"{HITS_FOLDER}/{file}.jsonl"] = _lines(hits[ranking.number], clean)
    return contents


def _lines(rows: Iterable[Record], clean: Callable[[str], str]) -> Iterator[str]:
    """Yield the JSON line of each record, with its line end, in their order."""
    return (f"{codec.to_line(cleaned(row, clean))}\n" for row in rows)


def _ranking_lines(ranking: RetrieverRun) -> Iterator[str]:
    """Yield the text of the run file of a ranking, in pieces, as `run_lines` does."""
    # a generator function: `ranking.run` of a large run file would fill the memory for all at once
    yield from run_lines(ranking.run)


def _per_query(ids: Sequence[str], systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield the text of `per_query.csv`: a header, then a line per system and query."""
    names = _column_names(systems)
    tables: list[list[Any]] = []
    for system in systems:
        columns = map(system.columns.get, names)
        values = [None if column is None else column.values for column in columns]
        tables.append([system.name, ids, *values])
    return csv_tables(["system", "query_id", *names], len(ids), tables)


def _column_names(systems: Sequence[SystemScores]) -> list[str]:
    """Return the names of the scores of all systems, each once."""
    return list(dict.fromkeys(chain.from_iterable(system.columns for system in systems)))


def _stored_columns(
    ids: Sequence[str], systems: Sequence[SystemScores]
) -> dict[str, dict[str, FloatArray]]:
    """Return the columns of `per_query.csv` as they are read from it: system -> score -> values."""
    empty, stored = np.full(len(ids), np.nan), dict[str, dict[str, FloatArray]]()
    for system in systems:
        stored[system.name] = {}
        for name in _column_names(systems):
            column = system.columns.get(name)
            values = empty if column is None else column.values[: len(ids)]
            stored[system.name][name] = np.where(np.isfinite(values), values, np.nan)
    return stored


def _fingerprints(plan: Plan, results: Results) -> Iterator[str]:
    """Yield the lines of `fingerprints.csv`: a header, then the fingerprints of each query."""
    prints = fingerprint_queries(plan.queries, plan.collection, results.qrels(plan))
    yield from format_fingerprints(plan.ids, prints)


def _unscored(plan: Plan, results: Results) -> Iterator[UnscoredRow]:
    """Yield a row for each query without a score, by system and score, then for each sample."""
    columns: list[tuple[str, str, ScoreColumn, int | None]] = []
    for scored in results.systems:
        for name, column in scored.columns.items():
            columns.append((scored.name, name, column, None))
    for system, scores in results.samples.items():
        for name, samples in scores.items():
            for n, column in enumerate(samples):
                columns.append((system, name, column, n))
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
        # that of several samples holds the repetitions of all of them
        if sample is not None or name not in results.samples.get(system, {}):
            yield from _unscored_repeats(plan.ids, system, name, column, sample or 0)


def _unscored_repeats(
    ids: Sequence[str], system: str, name: str, column: ScoreColumn, sample: int
) -> Iterator[UnscoredRow]:
    """Yield a row for each repetition of a judge without a score, where others have one."""
    if column.answer_causes is None:
        return
    is_missing = column.answer_causes != Cause.SCORED
    is_missing[column.causes != Cause.SCORED] = False
    for row, number in np.argwhere(is_missing).tolist():
        cause = Cause(int(column.answer_causes[row, number]))
        yield UnscoredRow(
            system=system,
            query_id=ids[row],
            measure=name,
            status=cause.status,
            cause=cause.word,
            sample=sample,
            repeat=number,
            repeats=column.answer_causes.shape[1],
        )


def _predictions(plan: Plan, answers: Answers, clean: Callable[[str], str]) -> Iterator[str]:
    """Yield the lines of answers and failures, query by query; of several, each has its number."""
    samples = answers.by_sample()
    generator = plan.generators.get(plan.system(answers.name).generator or "")
    for row, query in enumerate(plan.queries):
        for number, sample in enumerate(samples):
            outcome, prompt = sample.outcomes[row], None
            if outcome.value is not None and generator is not None:
                # the prompt refers to the passages, whose texts are in `contexts`: not stored twice
                passages = enumerate(outcome.value.contexts or (), 1)
                marks = []
                for n, passage in passages:
                    marks.append(structs.replace(passage, text=f"[[passage {n}]]"))
                prompt = generator.prompt_text(query.text, marks)
            numbered = number if len(samples) > 1 else None
            key = AnswerKey(query_id=query.id, sample=numbered, prompt=prompt)
            # the row of the store follows: the same keys and values
            line = codec.join_lines(cleaned(key, clean), cleaned(answer_row(outcome), clean))
            yield f"{line}\n"


def _question_rows(plan: Plan, results: Results) -> Iterator[QuestionRow]:
    """Yield question and gold of each query, in order: answers, judgements and spans, or none."""
    qrels = results.qrels(plan)
    judged = {} if qrels is None else qrels.by_query
    for query in plan.queries:
        yield QuestionRow(
            query_id=query.id,
            question=query.text,
            answers=tuple(plan.collection.answers.get(query.id, ())),
            judged=judged.get(query.id, {}),
            spans=tuple(plan.collection.gold_spans.get(query.id, ())),
            row=query.row,
        )


def _text_rows(plan: Plan, results: Results) -> Iterator[TextRow]:
    """Yield the texts of gold documents and of the first 10 hits of each ranking."""
    # A hit whose text is not that of the corpus, such as a chunk with the id of its document, has a
    # row of its own with its system and query.
    common: dict[str, int] = {}  # id -> hash of the text without system and query
    yielded: set[str] = set()  # ids whose common text is yielded
    characters = 0
    for system, query, document in chain(_documents(plan, results), _hit_documents(plan, results)):
        whole = plan.corpus.get(document.id, document)
        if document.text == whole.text and not document.title:
            document = whole  # a store that keeps texts without their titles
        text_hash = _text_hash(document)
        is_common = common.setdefault(document.id, _text_hash(whole)) == text_hash
        if is_common and document.id in yielded:
            continue
        if is_common:
            yielded.add(document.id)
        characters += min(len(document.text), LONGEST_TEXT)
        if characters > MOST_CHARACTERS:
            return
        yield TextRow(
            id=document.id,
            title=document.title or None,
            text=document.text[:LONGEST_TEXT],
            system=None if is_common else system,
            query_id=None if is_common else query,
            cut=len(document.text) > LONGEST_TEXT,
        )


def _text_hash(document: Document) -> int:
    """Return a hash of text and title: the texts themselves would not fit into memory."""
    # a clash would need one id too
    return hash((document.text, document.title)) & sys.maxsize


def _documents(plan: Plan, results: Results) -> Iterator[tuple[str, str, Document]]:
    """Yield (system, query id, document): query by query gold documents, then first hits."""
    qrels = results.qrels(plan)
    judged, corpus = {} if qrels is None else qrels.by_query, plan.corpus
    yielded: set[str] = set()
    hits_of = []
    for name, ranking in results.rankings.items():
        for repeat in (ranking, *results.further_rankings.get(name, ())):
            hits_of.append((name, _shown_hits(repeat, corpus)))
    for row, query in enumerate(plan.queries):
        for name, grade in judged.get(query.id, {}).items():
            if grade > 0 and name in corpus and name not in yielded:
                yielded.add(name)
                yield "", query.id, corpus[name]
        for system, hits in hits_of:
            for hit in hits(row):
                if hit.text is None and hit.id in yielded:
                    continue
                document = document_of(hit, corpus)
                if document is not None:
                    if hit.text is None:
                        yielded.add(hit.id)
                    yield system, query.id, document


def _hit_documents(plan: Plan, results: Results) -> Iterator[tuple[str, str, Document]]:
    """Yield (system, query id, document) of the documents with passages in `hits/`."""
    # Documents end before the one that would make more than `MOST_DOCUMENTS` characters.
    characters, yielded = 0, set[str]()
    for system, first_rows in results.hits.items():
        for row in chain(first_rows, *results.further_hits.get(system, {}).values()):
            for name in dict.fromkeys(hit.document or hit.id for hit in row.hits):
                if name not in plan.corpus or name in yielded:
                    continue
                document = plan.corpus[name]
                characters += min(len(document.text), LONGEST_TEXT)
                if characters > MOST_DOCUMENTS:
                    return
                yielded.add(name)
                yield system, row.query_id, document


def _shown_hits(
    ranking: RetrieverRun, corpus: Mapping[str, Document]
) -> Callable[[int], Sequence[ScoredDocument]]:
    """Return the function of a row that returns the first 10 hits of its query."""
    # in a run file, each document is a hit of its first query alone
    outcomes = ranking.outcomes
    if not isinstance(outcomes, FileRankings):
        first_hits = Mapped(lambda o: o.value.documents[:SHOWN_HITS] if o.value else (), outcomes)
        return first_hits.__getitem__
    # all hits of a large file do not fit into memory, and `_documents` yields each document once
    new_hits: dict[int, list[ScoredDocument]] = {}
    ids: set[str] = set()
    depth = min(outcomes.top_k, SHOWN_HITS)
    files = FileRankings(outcomes.query_ids, outcomes.read, depth) if corpus else ()
    for row, outcome in enumerate(files):
        for hit in outcome.value.documents if outcome.value else ():
            if hit.id in corpus and hit.id not in ids:
                ids.add(hit.id)
                new_hits.setdefault(row, []).append(hit)
    return lambda row: new_hits.get(row, ())
