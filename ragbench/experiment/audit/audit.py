"""Audit of the data set of a config: all checks, and the differences that it can detect."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from ragbench.comparison.hit_documents import PoolFilter
from ragbench.config.schema import AuditRules, ExperimentConfig
from ragbench.data.loaders.base import Located, Places
from ragbench.experiment.audit import gold, questions
from ragbench.experiment.audit.audited import AuditedSet
from ragbench.experiment.plan.queries import config_slicings
from ragbench.records.audit import ALL_QUERIES, FINDING_KINDS, Audit, Detectable
from ragbench.retrieve.run_file import RunFile
from ragbench.stats.planning import typical_detectable
from ragbench.types import Collection
from ragbench.types.documents import record_ids
from ragbench.types.lookups import index_by_id, omit_empty, select_keys

_CHECKS = (
    questions.check_repeated,
    questions.check_splits,
    gold.check_documents,
    gold.check_duplicates,
    gold.check_answers,
    gold.check_copied,
    gold.check_kinds,
    gold.check_pool,
    questions.check_language,
    questions.check_length,
)


def audit_test_set(config: ExperimentConfig, collection: Collection) -> Audit:
    """Return the suspected faults of a data set, and the differences that it can detect.

    No model is asked, and no retriever is run: rankings come from run files and records. Findings
    are in the order of `FINDING_KINDS`, and empty without a fault.

    Args:
        config: Names the loader, the run files, and the kinds of questions.
        collection: The data set, as `load_collection` returns it.

    Raises:
        DataError: A file has changed since it was loaded and cannot be read, or `statistics.slices`
            names metadata that no query has.
    """
    audited = audited_set(config, collection)
    findings = [*chain.from_iterable(check(audited) for check in _CHECKS)]
    findings.sort(key=lambda finding: [*FINDING_KINDS].index(finding.kind))
    return Audit(
        queries=len(audited.queries),
        findings=tuple(findings),
        detects=tuple(_detects(config, collection, audited)),
        notes=tuple(_notes(audited)),
    )


def audited_set(config: ExperimentConfig, collection: Collection) -> AuditedSet:
    """Return the parts of a data set that checks read.

    Run files, and the files of a loader that knows the lines of its records, are read again.

    Raises:
        DataError: Such a file has changed since it was loaded, and cannot be read.
    """
    dataset, qrels = config.dataset, collection.qrels
    places = Places({})
    # a loader of the user may be a function, which has no places
    if isinstance(dataset.cls, type) and issubclass(dataset.cls, Located):
        places = dataset.cls(**dataset.options).places()
    ids = set(record_ids(collection.queries))
    judged = {} if qrels is None else select_keys(qrels.by_query, ids)
    gold_of = {}
    for q, docs in judged.items():
        relevant = []
        for document, grade in docs.items():
            if grade > 0:
                relevant.append(document)
        gold_of[q] = relevant
    corpus = index_by_id(collection.documents or ())
    names = set(chain.from_iterable(gold_of.values()))
    texts = {}
    for name in names:
        if name in corpus:
            texts[name] = corpus[name]
    return AuditedSet(
        queries=collection.queries,
        judged=judged,
        gold=omit_empty(gold_of),
        corpus=collection.documents,
        texts={**collection.gold_passages, **texts},
        answers=collection.answers,
        rankings=_rankings(config, collection),
        places=places,
        rules=config.audit or AuditRules(),
        words=config.causes.words,
        matches_ids=config.metrics.retrieval.match.level == "id" and not collection.gold_passages,
    )


def _rankings(config: ExperimentConfig, collection: Collection) -> dict[str, dict[str, list[str]]]:
    """Return the hits that are stored: of run files and of recorded systems, by name and query."""
    rankings: dict[str, dict[str, list[str]]] = {}
    for name, answered in collection.recorded_answers.items():
        rankings[name] = {}
        for answer in answered:
            rankings[name][answer.query_id] = record_ids(answer.ranking or ())
    for name, component in config.retrievers.items():
        if component.cls is RunFile:
            retriever, pools = RunFile(**component.options), PoolFilter(collection.documents)
            top_k = config.metrics.retrieval.top_k
            hits = retriever.retrieve(collection.queries, top_k)
            rankings[name] = {}
            for query, ranking in zip(collection.queries, hits, strict=True):
                is_inside = pools.inside(query.pool)
                inside = ranking if is_inside is None else filter(is_inside, ranking)
                rankings[name][query.id] = record_ids(islice(inside, top_k))
    return rankings


def _detects(
    config: ExperimentConfig, collection: Collection, audited: AuditedSet
) -> Iterator[Detectable]:
    """Yield the detectable differences of each kind of scores, for all queries and each slice."""
    queries, statistics = collection.queries, config.statistics
    if statistics.slices is None and any(map(audited.question_kind, queries)):
        config = replace(config, statistics=replace(statistics, slices=(audited.rules.kind,)))
    labels: dict[str, Sequence[Sequence[str]]] = {"": [(ALL_QUERIES,)] * len(queries)}
    for slicing in config_slicings(config, queries, collection.qrels, collection.answers):
        labels[f"{slicing.field}: "] = slicing.labels
    scores: dict[str, Mapping[str, object]]
    scores = {"measures of rankings": audited.gold, "metrics of answers": audited.answers}
    for name, scored in scores.items():
        for prefix, of_queries in labels.items():
            counts = Counter[str]()
            for query, of_query in zip(queries, of_queries, strict=True):
                if query.id in scored:
                    counts.update(of_query)
            for label, n in counts.items():
                yield Detectable(
                    scores=name,
                    slice=f"{prefix}{label}",
                    queries=n,
                    graded=_finite_pair(typical_detectable(n)),
                    hits=_finite_pair(typical_detectable(n, hits=True)),
                )


def _finite_pair(differences: tuple[float, float]) -> tuple[float, float] | None:
    """Return the differences, or None if so few queries do not show one of them."""
    return differences if all(map(math.isfinite, differences)) else None


def _notes(audited: AuditedSet) -> Iterator[str]:
    """Yield a sentence for each part that the data lack, so that its checks say nothing."""
    if not audited.judged:
        yield "no judgements: gold documents are not checked"
    if audited.corpus is None:
        yield "no corpus: gold documents are not looked for"
    if not audited.answers:
        yield "no gold answers: whether gold documents have them is not checked"
    if audited.judged and not audited.rankings:
        yield "no stored ranking (run_file, records): whether one system was pooled is not checked"
