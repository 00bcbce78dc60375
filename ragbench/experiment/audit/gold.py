"""Checks of gold: its documents and answers, and the judgements as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from ragbench.comparison.slices import answerable_questions
from ragbench.experiment.audit.audited import AuditedSet
from ragbench.experiment.audit.questions import shorten
from ragbench.records.audit import Finding
from ragbench.score.text.gold_words import GoldWords, has_no_answer
from ragbench.text.near_duplicates import near_duplicates
from ragbench.text.similar_questions import copied_words
from ragbench.text.tokenize import words
from ragbench.types.documents import full_texts, record_ids

# Share of their words that two documents with the same content have in common
_SAME_CONTENT = 0.9
_SHORTEST_DOCUMENT = 8  # words; shorter ones, such as bare titles, are alike by chance
_POOL = 0.95  # share of the judged documents among the first hits of a system
_JUDGED = 5  # judged documents of a query that can show a pool
_LISTED = 3  # documents that a finding names


def _listed(names: Sequence[str]) -> str:
    """Return up to 3 names, with dots if there are more: `a, b, c ...`."""
    return ", ".join(names[:_LISTED]) + (" ..." if len(names) > _LISTED else "")


def check_documents(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the gold documents that the corpus lacks, or that have no text.

    Without a corpus nothing is yielded.
    """
    if audited.corpus is None:
        return
    for query in audited.queries:
        for name in audited.gold.get(query.id, ()):
            document = audited.texts.get(name)
            if document is not None and not document.full_text.strip():
                problem = f"gold document {name} of query {query.id} has no text"
                yield audited.finding("gold_empty", query, problem, document=name)
            elif document is None and audited.matches_ids:
                problem = f"gold document {name} of query {query.id} is not in the corpus"
                yield audited.finding("gold_not_in_corpus", query, problem, document=name)


def check_duplicates(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the gold documents with a copy in the corpus that the query has no judgement of.

    A copy shares 90 % of the words; documents of fewer than 8 words are passed over.
    """
    gold = set(chain.from_iterable(audited.gold.values()))
    corpus = audited.corpus or ()
    ids, texts = record_ids(corpus), full_texts(corpus)
    rows = []
    for row, name in enumerate(ids):
        if name in gold and len(set(words(texts[row]))) >= _SHORTEST_DOCUMENT:
            rows.append(row)
    copies: dict[str, list[str]] = {}
    for row, other, _ in near_duplicates(texts, _SAME_CONTENT, rows=rows):
        copies.setdefault(ids[row], []).append(ids[other])
        copies.setdefault(ids[other], []).append(ids[row])
    for query in audited.queries:
        for name in audited.gold.get(query.id, ()):
            judged = audited.judged[query.id]
            unjudged = []
            for copy in copies.get(name, ()):
                if copy not in judged:
                    unjudged.append(copy)
            if unjudged:
                problem = f"gold document {name} of query {query.id} has an unjudged copy"
                problem += f": {_listed(unjudged)}"
                yield audited.finding("gold_has_unjudged_duplicate", query, problem, document=name)


def check_answers(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the questions whose gold answer stands in none of their gold documents.

    It stands there by the rule of `answer_hit`, or if the gold documents together have its content
    words: all of a short answer, the share `causes.words` of a long one. Answers of yes and no,
    refusals, and questions with a gold document without text are passed over.
    """
    for query in audited.queries:
        answers, documents = audited.answers.get(query.id), audited.gold_documents(query)
        # a gold document that is missing may have the answer, and is a finding of its own
        is_whole = 0 < len(documents) == len(audited.gold.get(query.id, ()))
        if not answers or not is_whole or has_no_answer(answers):
            continue
        gold, text = GoldWords(answers, query.text), "\n".join(full_texts(documents))
        if not gold.can_be_found or gold.find_in(text, audited.words):
            continue
        share = gold.share(text)
        if share.whole or share.n_shared == share.n_gold:
            continue
        names = _listed(record_ids(documents))
        problem = (
            f"the answer to query {query.id} is not in its gold ({names}), which has "
            f"{share.words}: {shorten(min(answers, key=len))}"
        )
        place = audited.places.answers.get(query.id)
        yield audited.finding("answer_not_in_gold", query, problem, place=place)


def check_copied(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the questions with over 90 % of their words in one sentence of a gold document.

    Question words such as `which` do not count; questions of fewer than 5 other words are passed
    over.
    """
    for query in audited.queries:
        for document in audited.gold_documents(query):
            copied = copied_words(query.text, document.title, document.text)
            if copied is not None:
                problem = (
                    f"query {query.id} has {copied[0]} of {copied[1]} words from one sentence of "
                    f"{document.id}: {shorten(query.text)}"
                )
                yield audited.finding("question_copied", query, problem)
                break  # one finding per question


def check_kinds(audited: AuditedSet) -> Iterator[Finding]:
    """Yield multi-document questions with one gold document, and unanswerable ones with gold.

    Kinds are those of `audit:` in the config; metadata such as `answerable: false` count as well.
    """
    # by the metadata alone: gold answers and judgements may be the mistake
    answerable = answerable_questions(audited.queries, {}, None)
    for query, is_answerable in zip(audited.queries, answerable, strict=True):
        kind, gold = audited.question_kind(query), audited.gold.get(query.id, ())
        if kind in audited.rules.multi_document and len(gold) == 1:
            problem = f"query {query.id} is of the kind {kind} and has one gold document: {gold[0]}"
            yield audited.finding("one_gold_document", query, problem)
        if gold and (kind in audited.rules.unanswerable or is_answerable is False):
            problem = f"query {query.id} has no answer by its metadata, but gold: {_listed(gold)}"
            yield audited.finding("unanswerable_with_gold", query, problem, document=gold[0])


def check_pool(audited: AuditedSet) -> Iterator[Finding]:
    """Yield the systems whose first hits are nearly all that was judged.

    Where a query has n judged documents, its first n hits count; 95 % of all judged documents are
    among these. Queries with fewer than 5 judged documents show no pool, and nothing is yielded if
    most judged queries are such.
    """
    judged = {}
    for query, documents in audited.judged.items():
        if len(documents) >= _JUDGED:
            judged[query] = documents
    n_judged = sum(map(len, judged.values()))
    if 2 * len(judged) < len(audited.judged):
        return
    for system, ranking in audited.rankings.items():
        n_hits = 0
        for query, documents in judged.items():
            n_hits += len(documents.keys() & set(ranking.get(query, ())[: len(documents)]))
        if n_judged and n_hits >= _POOL * n_judged:
            problem = (
                f"{n_hits} of {n_judged} judged documents are the first hits of {system}: "
                "the judgements are a pool of this one system"
            )
            yield audited.finding("one_pool", None, problem)
