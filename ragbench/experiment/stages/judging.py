"""Judges of a run: connected before anything is asked, their replies on disk before they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragbench.config.schema import Component, RetrievalMetrics
from ragbench.errors import AdapterError, DataError, MissingExtra
from ragbench.experiment.plan.components import connect, connect_generator
from ragbench.experiment.records import Filled, JudgeUse, PlannedFill, PlannedJudge, Ranked
from ragbench.experiment.stages.answers import document_of
from ragbench.generate.base import Generator
from ragbench.llm import Budget, Replies, Totals
from ragbench.score.judge.base import AskingJudge, CheckedJudge, Item
from ragbench.score.judge.verdicts import Judged
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.store.replies import REPLIES_FILE
from ragbench.types import Cause, Document, Qrels, Query


@contextmanager
def connected(
    judges: Mapping[str, PlannedJudge],
    folder: Path,
    also: Sequence[Path] = (),
    *,
    replay: bool,
    budget: Budget | None = None,
    generators: Mapping[str, tuple[Component | None, Generator]] | None = None,
) -> Iterator[Replies | None]:
    """Connect judges and generators for as long as a run takes: to servers, and to stored replies.

    Args:
        judges: Judges by name.
        folder: The cache folder.
        also: Cache folders of others.
        replay: Whether models answer from stored replies alone.
        budget: What all calls may cost together.
        generators: Generators by name, with what the config says of them.

    Yields:
        The stored replies; None where nobody asks models.

    Raises:
        ConfigError: A key or a model is missing, or a server's address is wrong.
        MissingExtra: A package is not installed.
        DataError: The store cannot be used, there is none to replay, or a model cannot be fetched.
    """
    with ExitStack() as stack:
        made = generators or {}
        asking = any(isinstance(planned.judge, AskingJudge) for planned in judges.values())
        replies = None
        if asking or any(generator.asks is not None for _, generator in made.values()):
            others = [other / REPLIES_FILE for other in also if (other / REPLIES_FILE).is_file()]
            replies = stack.enter_context(
                Replies(folder / REPLIES_FILE, also=others, replay=replay)
            )
        for name, (component, generator) in made.items():
            connect_generator(name, component, generator, replies, budget)
            if generator.asks is not None:
                stack.callback(generator.asks.close)
        for planned in judges.values():
            if isinstance(planned.judge, AskingJudge):
                planned.judge.spend_from(budget)
            connect(planned, replies)
            if isinstance(planned.judge, CheckedJudge):
                stack.callback(planned.judge.close)
        yield replies


def readiness(name: str, planned: PlannedJudge) -> str | None:
    """Say why a run would not start with a judge; None where it would.

    Raises:
        ConfigError: Its options are wrong, whatever the environment.
    """
    if planned.missing_key is not None:
        return f"judge '{name}' needs a key: {planned.missing_key} is not set"
    if isinstance(planned.judge, CheckedJudge):
        try:
            connect(planned, None)
        except (MissingExtra, AdapterError, DataError) as error:
            return str(error)
        planned.judge.close()
    return None


def missing_keys(generators: Mapping[str, Generator]) -> list[str]:
    """Say which generators lack a key, so that a run would not start; a phrase each."""
    return [
        f"generator '{name}' needs a key: {generator.missing_key} is not set"
        for name, generator in generators.items()
        if generator.missing_key is not None
    ]


def use_of(planned: PlannedJudge, judged: Judged, before: Totals) -> JudgeUse:
    """Return what a judge took, from what it had taken before."""
    paid = paid_since(before, totals_of(planned))
    return JudgeUse(judged.models, judged.usage, paid, judged.spreads)


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
    """Return a copy of what a judge has sent and paid so far; nothing for one that asks nobody."""
    if not isinstance(planned.judge, AskingJudge):
        return Totals()
    return planned.judge.totals()


def warnings_on(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Say what makes a judge's numbers doubtful; a sentence each."""
    found = mixture(system, name, planned, judged)
    for rubric, counts in judged.failures().items():
        total = sum(
            row["rubric"] == rubric and row.get("cause") != Cause.STOPPED_EARLY.word
            for row in judged.rows
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


_NOT_ITS_OWN = ("queries", "gold", "v")
"""Parts of a judge's signature that fingerprints of the grades stand for."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A query and a passage that a retriever found for it."""

    query: Query
    document: str
    text: str


def fill_judgements(
    fill: PlannedFill,
    rankings: Sequence[Ranked],
    people: Qrels | None,
    corpus: Mapping[str, Document],
    rules: RetrievalMetrics,
    judge: Callable[[str, Sequence[Item], str, PlannedJudge], Judged],
) -> Filled:
    """Let the judge grade what the best hits of all retrievers have and people have not judged.

    Each pair of query and passage is graded once, however many retrievers found it. A judgement
    that fails is no grade: the pair stays unjudged, and is counted.

    Args:
        fill: Who grades what.
        rankings: What the retrievers found for the same queries.
        people: The judgements that there are; they are never changed.
        corpus: Documents by id; the text of one that is in it is what is graded.
        rules: How ties are ordered.
        judge: Applies the rubrics of a judge to items: given the stage's name, the items, the
            judge's name, and the judge.

    References:
        Upadhyay et al. (2024), UMBRELA: open-source reproduction of the Bing RELevance Assessor.
    """
    known = {} if people is None else people.by_query
    pool = list(_pool(rankings, fill.rules.depth, corpus, rules))
    unjudged = [pair for pair in pool if pair.document not in known.get(pair.query.id, {})]
    asked = [pair for pair in unjudged if pair.text.strip()]
    items = [
        Item(question=pair.query.text, contexts=[pair.text], query_id=pair.query.id)
        for pair in asked
    ]
    before = totals_of(fill.judge)
    grading = replace(fill.judge, rubrics=[fill.rubric])
    judged = judge(f"judge passages ({fill.name})", items, fill.name, grading)
    rows = [_row(pair, row, fill) for pair, row in zip(asked, judged.rows, strict=True)]
    grades: dict[str, dict[str, int]] = {}
    for row in rows:
        if row["grade"] is not None:
            grades.setdefault(row["query_id"], {})[row["document_id"]] = row["grade"]
    counts = {
        "pairs": len(pool),
        "people": len(pool) - len(unjudged),
        "model": sum(map(len, grades.values())),
        "failed": dict(Counter(row["cause"] for row in rows if row["status"] == "failed")),
        "without_text": len(unjudged) - len(asked),
    }
    return Filled(
        qrels=_merged(known, grades),
        source=_source(fill, judged, people, grades),
        counts=counts,
        rows=rows,
        models=judged.models,
        use=use_of(fill.judge, judged, before),
        warnings=[*_doubts(fill, counts, people), *mixture("fill", fill.name, fill.judge, judged)],
    )


def _pool(
    rankings: Sequence[Ranked], depth: int, corpus: Mapping[str, Document], rules: RetrievalMetrics
) -> Iterator[_Pair]:
    """Yield the best hits of all retrievers, each pair once, query by query."""
    ties = "docid" if rules.ties == "average" else rules.ties
    orders = [ranked_documents(r.run, ties=ties, trec_eval=rules.trec_eval) for r in rankings]
    queries = rankings[0].queries if rankings else ()
    for row, query in enumerate(queries):
        found: dict[str, str] = {}
        for ranking, order in zip(rankings, orders, strict=True):
            best = order.get(query.id, [])[:depth]
            texts = _texts(ranking, row, corpus)
            for document in best:
                # a retriever may return ids alone where another one brings the text
                found[document] = found.get(document) or texts.get(document, "")
        for document, text in found.items():
            yield _Pair(query, document, text)


def _texts(ranking: Ranked, row: int, corpus: Mapping[str, Document]) -> dict[str, str]:
    """Id -> text of the hits of a query: the corpus' where it has them, else the retriever's."""
    value = ranking.outcomes[row].value
    texts = {}
    for hit in reversed([] if value is None else value.documents):
        document = corpus.get(hit.id) or document_of(hit, corpus)
        texts[hit.id] = "" if document is None else document.full_text
    return texts


def _row(pair: _Pair, row: Mapping[str, Any], fill: PlannedFill) -> dict[str, Any]:
    """A verdict with the passage that it is on, and its grade."""
    level, score = row["level"], row["score"]
    if level is None and score is not None:
        level = 1 + score * (fill.rubric.levels - 1)
    grade = None if score is None else fill.grade_of(level)
    ids = {"query_id": pair.query.id, "document_id": pair.document, "grade": grade}
    return {**ids, "by": "model", **row, "judge": fill.name}


def _merged(
    people: Mapping[str, Mapping[str, int]], grades: Mapping[str, Mapping[str, int]]
) -> Qrels:
    """All judgements; where people have judged, theirs."""
    queries = dict.fromkeys([*people, *grades])
    return Qrels.from_dict({q: {**grades.get(q, {}), **people.get(q, {})} for q in queries})


def _source(
    fill: PlannedFill,
    judged: Judged,
    people: Qrels | None,
    grades: Mapping[str, Mapping[str, int]],
) -> str | None:
    if not grades:
        return None
    parts = {
        "people": None if people is None else people.fingerprint(),
        "grades": Qrels.from_dict(grades).fingerprint(),
        "depth": fill.rules.depth,
        "relevant_from": fill.rules.relevant_from,
        **{
            key: value
            for key, value in judged.columns[fill.rubric.name].signature.parts
            if key not in _NOT_ITS_OWN
        },
    }
    said = ",".join(f"{key}={value}" for key, value in parts.items() if value is not None)
    return f"{'' if people is None else 'people+'}model({fill.rubric.name},{said})"


def _doubts(fill: PlannedFill, counts: Mapping[str, Any], people: Qrels | None) -> list[str]:
    """Say what makes the grades doubtful; a sentence each."""
    found = []
    failed = sum(counts["failed"].values())
    if failed:
        causes = ", ".join(f"{count} {cause}" for cause, count in counts["failed"].items())
        found.append(
            f"fill: judge {fill.name}: {failed} of {failed + counts['model']} passages could not "
            f"be graded ({causes}); they stay unjudged, which measures take for not relevant"
        )
    if counts["without_text"]:
        found.append(
            f"fill: {counts['without_text']} passages have no text and stay unjudged, which "
            "measures take for not relevant"
        )
    theirs = int(people.grades.max()) if people is not None and len(people) else 0
    if counts["model"] and theirs >= 1 and theirs != fill.top_grade:
        found.append(
            f"fill: people grade up to {theirs}, the model up to {fill.top_grade}: the same "
            "relevance counts differently; a rubric with as many levels, or `relevant_from` for "
            "grades of 0 and 1, would agree"
        )
    return found
