"""`evaluate`: measures of rankings, metrics of answers and rubrics of a judge for one table."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ragbench.comparison.evaluate import evaluate_run
from ragbench.comparison.evaluation import Evaluation
from ragbench.comparison.forbidden import forbidden_ranks, leak_read_column
from ragbench.comparison.gold import met_gold
from ragbench.comparison.input_table import input_table
from ragbench.comparison.passage_places import unplaced_warning
from ragbench.comparison.peer_calls import PeerArguments, read_arguments
from ragbench.comparison.peer_metrics import ScoreName, threshold_note
from ragbench.comparison.query_notes import ScoredRankings, relevance_notes
from ragbench.comparison.scorable import nothing_to_score
from ragbench.comparison.score_kinds import (
    names_by_kind,
    opened_judge,
    read_names,
)
from ragbench.comparison.slices import answerable_questions, slicings
from ragbench.comparison.table_gold import TablePassages, table_facts, table_parts
from ragbench.comparison.table_records import (
    gold_answers,
    records_of,
    with_gold_ids,
    without_excluded,
)
from ragbench.comparison.table_right import right_column
from ragbench.comparison.text_scores import PairFacts, score_pairs, with_failed_answers
from ragbench.data.loaders.python import collection_of
from ragbench.data.runs.run_lines import fingerprint_queries
from ragbench.errors import DataError, OptionError
from ragbench.log import log_notes
from ragbench.records.causes import LEAK_READ, RIGHT
from ragbench.records.score import Kind, RunCounts
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.judge import Judge, JudgedItems, judge_items
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.found import MetGold
from ragbench.score.retrieval.leak import ForbiddenRanks
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.score_run import (
    Rules,
    score_forbidden,
    score_gold,
    score_passages,
)
from ragbench.score.text import DEFAULT_METRICS
from ragbench.score.text.base import AnswerSources, CallRows
from ragbench.score.text.notation import parse_metric
from ragbench.types import (
    Answered,
    Cause,
    Collection,
    Query,
    ScoreColumn,
)
from ragbench.types.display import list_counts, shorten_line
from ragbench.types.documents import record_ids
from ragbench.types.lookups import index_by_name
from ragbench.types.progress_line import Counted, ProgressChoice, Report, shown_progress
from ragbench.types.reasoning import Reasoning, check_reasoning
from ragbench.types.records import reasoning_notes
from ragbench.types.tables import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Default measures of a table with ids of retrieved and of relevant documents.
DEFAULT_MEASURES = ("ndcg@10", "recall@5", "mrr")
DEFAULT_FORBIDDEN_MEASURES = ("leak@5",)
# Default measures of a table with passages and gold answers alone.
DEFAULT_ANSWER_MEASURES = ("answer_hit@5", "answer_hit@1", "answer_hit@10")

# Causes of a score that a further column of the table may mend.
_PARTS_LACK = frozenset(
    {
        "missing_answer",
        "no_answer",
        "no_contexts",
        "no_expected_calls",
        "no_forbidden",
        "no_gold_span",
        "no_judgements",
        "no_queries",
        "no_question",
        "no_reference",
        "no_relevant",
        "no_tool_calls",
        "no_turns",
    }
)
# Characters of the first error in a note.
_LONGEST_ERROR = 120


def evaluate(
    data: str | Path | Table | Collection | None = None,
    metrics: Sequence[object] | None = None,
    *,
    judge: Judge | str | Mapping[str, Any] | object = None,
    columns: Mapping[str, str | None] | None = None,
    confidence: float = 0.95,
    progress: ProgressChoice = None,
    reasoning: Reasoning = "cut",
    slices: Sequence[str] = (),
    **peer: Unpack[PeerArguments],
) -> Evaluation:
    """Score the passages and answers of one system, a row per question.

    Calls in the form of ragas and deepeval are read, too: their data, metric objects, `dataset=`,
    `test_cases=` and `llm=`.

    Args:
        data: Path of a file of records (JSON lines, JSON, CSV, Parquet), a data frame (pandas,
            polars, Arrow, Hugging Face), a list of mappings, of samples of ragas or of test cases
            of deepeval, or an `EvaluationDataset` of either. Columns have the names that files of
            records may have, those of ragas and deepeval among them. Also a `Collection` with
            recorded answers.
        metrics: Names of measures of rankings (`ndcg@10`), metrics of answers (`rougeL`) and
            rubrics (`faithfulness`), in any order; a rubric may also be the path of its file or a
            mapping. Metrics of ragas and deepeval, objects or names, count as their counterparts,
            with a note if the name differs. None: ndcg@10, recall@5 and mrr if documents are
            judged; right, rouge1, rouge2, rougeL, bleu and token_f1 if there are answers and gold
            answers; answer_hit@5, @1 and @10 if there are passages and gold answers alone; the
            rubrics of the judge.
        judge: `Judge`, whose own rubrics are applied, too, unless they are the default ones and
            `metrics` names rubrics; or the name of a model; or the arguments of `Judge` in a
            mapping; or a function that judges, of `answer` and other parts; or a client as `Judge`
            takes it, such as a chat model of LangChain, also in a wrapper of ragas. None: the `llm`
            of metric objects, or else no rubrics.
        columns: Columns with other names than the usual ones: `{"answer": "bot_reply"}`.
        confidence: Level of the intervals.
        progress: None shows a line on stderr after two seconds, in a terminal or a notebook; True
            anywhere, False never. Or a function that is called with the number of judged rows so
            far and in all.
        reasoning: `cut` scores answers without the reasoning of a model in front of them, such as
            `<think>`; `keep` scores them as they are. Gold answers stay as they are.
        slices: Columns that sort the questions into slices, whose scores are in `result.slices`;
            also `query_length`, `relevant`, `answerable` and `week(metadata.<column>)`.
        **peer: `dataset` or `test_cases` in place of `data`, and `llm` in place of `judge`.

    Returns:
        Scores of the questions, in the order of the rows, by their ids or else by hashes of their
        texts; measures come first, then metrics, then rubrics. A question without a value, as its
        judgement failed or it lacks a part, is NaN, with its cause in `causes`, in the repr and in
        the data frame. By measures an empty list of passages scores 0; a missing one has no value,
        and no question has one if no retrieved id is that of a judged document.

    Raises:
        DataError: A file, column or row cannot be read, a question is repeated, rows are of several
            systems, or there is nothing to score.
        OptionError: A score or option is unknown, a rubric comes without a judge, or `data` is of
            another type.
        MissingExtra: A metric, the judge or a file needs a package that is not installed.
        AdapterError: Code of the user fails.
        RagbenchError: The user has to act, as for a missing key.

    Warns:
        UserWarning: Something makes scores doubtful, or reasoning was cut; one warning for each of
            the `notes`.

    Example:
        >>> rows = [{"user_input": "When?", "response": "1932", "reference": "In 1932.",
        ...          "retrieved_contexts": ["It opened in 1932."]}]
        >>> def quoted(answer, contexts):
        ...     return any(answer in text for text in contexts)
        >>> evaluate(rows, ["exact_match"], judge=Judge(type=quoted)).mean
        {'exact_match': 0.0, 'quoted': 1.0}
    """
    check_reasoning("evaluate", reasoning)
    data, judge = read_arguments(data, judge, metrics, peer)
    collection = collection_of(data, columns, reasoning=reasoning)
    if isinstance(slices, str):
        raise OptionError("evaluate", "slices", slices, "names of columns, in a list")
    # before anything is judged: an unknown column costs nothing then
    chosen = slicings(
        slices,
        collection.queries,
        collection.qrels,
        collection.answers,
        file="evaluate",
        record="slices",
    )
    evaluation = evaluate_collection(
        collection,
        metrics,
        judge=judge,
        confidence=confidence,
        progress=progress,
        is_ragas_call=bool({"dataset", "llm"} & peer.keys()),
    )
    table = input_table(data, collection)
    if table.index is not None and not table.index.is_unique:
        note = "labels of the index repeat, so that `join` would pair rows of equal labels"
        evaluation = replace(evaluation, notes=(*evaluation.notes, note))
    evaluation = replace(evaluation, table=table, slicings=tuple(chosen))
    log_notes(evaluation.notes)
    for note in evaluation.notes:
        warnings.warn(note, stacklevel=2)
    return evaluation


def evaluate_collection(
    collection: Collection,
    metrics: Sequence[object] | None = None,
    *,
    judge: object = None,
    confidence: float = 0.95,
    progress: ProgressChoice = False,
    zero_unknown_ids: bool = False,
    is_ragas_call: bool = False,
) -> Evaluation:
    """Score the recorded passages and answers of a collection as `evaluate` does.

    The notes of the evaluation are not raised as warnings. Errors are those of `evaluate`.

    Args:
        collection: Data set with the records of one system.
        metrics: Scores, as `evaluate` takes them.
        judge: Judge, as `evaluate` takes it.
        confidence: Level of the intervals.
        progress: As `evaluate` takes it.
        zero_unknown_ids: True scores a table as 0 if no retrieved id is one of a judged document;
            False gives it no value.
        is_ragas_call: True for a call with arguments of ragas, whose names get a note if ragbench
            has another formula.
    """
    records, id_notes = with_gold_ids(records_of(collection), collection)
    gold = gold_answers(collection)
    items = [*map(_item, collection.queries, records, gold)]
    ranked_records, notes = without_excluded(records, collection)
    hits, relevant = _hits_and_grades(ranked_records, collection)
    strays = _stray_ids(hits, relevant)
    has_doubtful_ids = bool(strays) and not zero_unknown_ids
    with opened_judge(judge) as opened:
        if metrics is None:
            metrics = _default_scores(collection, records, has_strays=bool(strays))
            if not (metrics or opened):
                raise nothing_to_score(collection)
        call = read_names(metrics, opened, is_ragas_call=is_ragas_call)
        by_kind = names_by_kind(call.names, opened)
        of_gold, by_ids = _score_gold(collection, ranked_records, by_kind["retrieval"])
        ranked = evaluate_run(hits, relevant, by_ids, confidence=confidence)
        labels = [measure.label for measure in by_kind["retrieval"]]
        rankings = _ranking_columns(labels, of_gold, ranked, records, has_strays=has_doubtful_ids)
        # a function counts judged rows alone
        line = False if callable(progress) else progress
        with shown_progress(line, "metrics") as report:
            sources = _sources(collection, records, has_known_ids=not has_doubtful_ids)
            paired = _score_answers(collection, items, sources, by_kind["generation"], report)
        judged_items = _judge_rows(opened, items, by_kind["judge"], progress)
    verdicts, scores, judge_notes, rubrics = judged_items
    names = by_kind["generation"]
    answered = _answer_columns(names, paired.columns, collection, records, scores)
    kinds: dict[str, Kind] = {}
    for kind, part in zip(by_kind, (rankings, answered, scores), strict=True):
        kinds |= dict.fromkeys(part, kind)
    evaluation = replace(
        ranked,
        columns={**rankings, **answered, **scores},
        input_counts=paired.input_counts if answered or scores else ranked.input_counts,
        # those of a run: `paired` has positions in place of ids
        fingerprints=fingerprint_queries(collection.queries, collection, collection.qrels),
        kinds=kinds,
        texts=_texts_of(items, gold),
        verdicts=dict(zip(relevant, verdicts, strict=bool(verdicts))),
        query_notes=_relevance_notes(rankings, ranked),
        rubrics=rubrics,
    )
    _refuse_unscored(evaluation, collection, strays)
    notes += [*collection.warnings, *reasoning_notes({"": records}), *(strays if by_ids else ())]
    notes += [*(id_notes if by_kind["retrieval"] else ()), *of_gold.notes, *paired.notes]
    notes += [*call.notes, *judge_notes, *threshold_note(call.thresholds, evaluation.columns)]
    notes += _missing_notes(evaluation, _columns(collection))
    return replace(evaluation, notes=tuple(notes))


def _hits_and_grades(
    records: Sequence[Answered], collection: Collection
) -> tuple[dict[str, list[str]], dict[str, dict[str, int]]]:
    """Return query id -> ids of its hits, and query id -> grades of its judged documents."""
    judged = {} if collection.qrels is None else collection.qrels.to_dict()
    hits, relevant = {}, {}
    for record in records:
        hits[record.query_id] = [hit.id for hit in record.ranking or ()]
        # a question without judgements has a row as well, with a cause
        relevant[record.query_id] = judged.get(record.query_id, {})
    return hits, relevant


def _judge_rows(
    judge: Judge | None,
    items: Sequence[JudgedItem],
    rubrics: Sequence[Any],
    progress: ProgressChoice,
) -> JudgedItems:
    """Return the verdicts of a judge on all rows; none without a judge."""
    if judge is None:
        return JudgedItems([], {}, [], {})
    with shown_progress(progress, "judge") as report:
        return judge_items(judge, items, rubrics, report and Counted(report, len(items)))


def _refuse_unscored(evaluation: Evaluation, collection: Collection, strays: Sequence[str]) -> None:
    """Raise a `DataError` if no score applies to any row."""
    # Failed calls of a judge are no such case.
    for column in evaluation.columns.values():
        causes = set(map(Cause, np.unique(column.causes).tolist())) - {Cause.MISSING_ANSWER}
        has_failed = any(cause.failed for cause in causes)
        if has_failed or np.isfinite(column.values).any():
            return
    if strays:
        allowed = "ids of one kind in both columns"
        raise DataError(f"nothing to score: {strays[0]}", allowed=allowed)
    raise nothing_to_score(collection, causes=_missing_notes(evaluation))


def _relevance_notes(rankings: Mapping[str, ScoreColumn], ranked: Evaluation) -> tuple[str, ...]:
    """Return notes on the questions without a relevant document; `ranked` has their counts."""
    counts = ranked.input_counts if isinstance(ranked.input_counts, RunCounts) else None
    return tuple(relevance_notes({"": ScoredRankings(rankings.values(), counts)}))


def _default_scores(
    collection: Collection, records: Sequence[Answered], *, has_strays: bool
) -> list[ScoreName]:
    """Return the measures and metrics that the records and their gold allow; [] for none."""
    # quoted gold passages often differ from all retrieved chunks, and would score 0
    can_match = not (has_strays and collection.gold_passages)
    has_ranking = has_texts = has_answer = knows_passages = is_read = False
    for record in records:
        has_ranking |= bool(record.contexts)
        has_texts |= any(hit.full_text for hit in record.contexts or ())
        has_answer |= record.answer is not None
        knows_passages |= record.contexts is not None
        is_read |= record.answer is not None and record.contexts is not None
    is_ranked = has_ranking and bool(collection.qrels) and can_match
    is_answered = has_answer and bool(collection.answers)
    names: list[ScoreName] = [*DEFAULT_MEASURES] if is_ranked else []
    if collection.answers and has_texts and not (is_ranked or is_answered):
        names += DEFAULT_ANSWER_MEASURES
    names += DEFAULT_METRICS if is_answered else ()
    if collection.forbidden and knows_passages:
        names += DEFAULT_FORBIDDEN_MEASURES
        names += [LEAK_READ] if is_read else []
    return names


def _score_answers(
    collection: Collection,
    items: Sequence[JudgedItem],
    sources: Sequence[AnswerSources],
    names: Sequence[str],
    report: Report | None,
) -> Evaluation:
    """Return the scores of the answers by metrics besides `right`."""
    questions, answers, calls, expected_calls = [], [], [], []
    for query, item in zip(collection.queries, items, strict=True):
        questions.append(query.text)
        answers.append(item.answer)
        calls.append(item.tool_calls)
        expected_calls.append(collection.expected_tool_calls.get(query.id))
    answerable = answerable_questions(collection.queries, collection.answers, collection.qrels)
    return score_pairs(
        answers,
        gold_answers(collection),
        [name for name in names if not _is_of_rows(name)],
        progress=report,
        reasoning="keep",
        facts=PairFacts(questions, answerable, CallRows(calls, expected_calls), sources),
    )


def _sources(
    collection: Collection, records: Sequence[Answered], *, has_known_ids: bool
) -> list[AnswerSources]:
    """Return the documents of the passages of each record, and the gold of its question."""
    judged = {} if collection.qrels is None else collection.qrels.by_query
    sources = []
    for record in records:
        contexts, grades = record.contexts, judged.get(record.query_id)
        documents = None if contexts is None else [passage.id for passage in contexts]
        of_record = AnswerSources.of_grades(documents, grades, has_known_ids=has_known_ids)
        sources.append(of_record)
    return sources


def _is_of_rows(name: Any) -> bool:
    """Return True for `right` and `leak_read`, which read the passages and gold of a whole row."""
    return name == LEAK_READ or parse_metric(name).canonical == RIGHT


def _answer_columns(
    names: Sequence[Any],
    columns: Mapping[str, ScoreColumn],
    collection: Collection,
    records: Sequence[Answered],
    judged: Mapping[str, ScoreColumn],
) -> dict[str, ScoreColumn]:
    """Return the columns of metrics in the order of their names, `right` by causes and judges."""
    ordered = dict[str, ScoreColumn]()
    for name in names:
        if name == LEAK_READ:
            ordered[LEAK_READ] = _leak_read(collection, records)
            continue
        metric = parse_metric(name)
        if metric.canonical == RIGHT:
            column = right_column(collection, records, judged)
            ordered[metric.name] = replace(column, name=metric.name)
        else:
            ordered[metric.name] = with_failed_answers(columns[metric.name])
    return ordered


def _leak_read(collection: Collection, records: Sequence[Answered]) -> ScoreColumn:
    """Return the column `leak_read` of the passages that were read, without hits below them."""
    read, contexts, lacks_answer = [], [], []
    for record in records:
        read.append(replace(record, further=[]))
        contexts.append(record.contexts)
        lacks_answer.append(record.answer is None)
    ranks = _forbidden_ranks(collection, TablePassages.of(collection, read), LEAK_READ)
    column = leak_read_column(ranks, contexts, collection.fingerprint("forbidden"))
    return column.without_scores(np.array(lacks_answer), Cause.MISSING_ANSWER)


def _texts_of(items: Sequence[JudgedItem], gold: Sequence[Sequence[str]]) -> dict[str, list[Any]]:
    """Return part -> value of each item: question, contexts, answer and reference."""
    parts: dict[str, list[Any]] = {"question": [], "contexts": [], "answer": [], "reference": []}
    for item, texts in zip(items, gold, strict=True):
        parts["question"].append(item.question)
        parts["contexts"].append(item.contexts)
        parts["answer"].append(item.answer)
        parts["reference"].append(texts[0] if len(texts) == 1 else texts or None)
    return parts


def _item(query: Query, record: Answered, gold: Sequence[str]) -> JudgedItem:
    """Return the judged item of a question; passages are None if none of them has a text."""
    contexts = None if record.contexts is None else [hit.full_text for hit in record.contexts]
    # in a table of ids a judge has nothing to read
    if contexts and not any(contexts):
        contexts = None
    return JudgedItem(
        query.text,
        record.answer,
        contexts,
        list(gold),
        query.id,
        record.queries or None,
        turns=query.turns,
        tool_calls=record.tool_calls,
    )


class _GoldScores(NamedTuple):
    """Scores by measures that compare passages with gold spans or gold answers."""

    columns: Mapping[str, ScoreColumn]  # name of the measure -> its column; empty without measures
    notes: list[str]  # A note on passages that cannot be placed, or none


def _score_gold(
    collection: Collection, records: Sequence[Answered], names: Sequence[Any]
) -> tuple[_GoldScores, list[Any]]:
    """Return (scores of each record by measures of gold, names of the measures of ids)."""
    by_data: dict[str, list[Measure]] = {"spans": [], "gold": [], "passages": [], "forbidden": []}
    by_ids = []
    for measure in parse_measures(names):
        if measure.spec.reads in by_data:
            by_data[measure.spec.reads].append(measure)
        else:
            by_ids.append(measure.label)
    if not any(by_data.values()):
        return _GoldScores({}, []), [*names]
    by_place = by_data["spans"]
    if by_place and not any(collection.gold_spans.values()):
        problem = f"{by_place[0].label} needs gold spans ({_columns(collection)})"
        raise DataError(problem, allowed="a column reference_spans: {document, start, end}")
    passages = TablePassages.of(collection, records)
    columns = score_passages(passages.placed.spans, by_place, Rules())
    texts = []
    for hits in passages.hits:
        texts.append([hit.to_document().full_text for hit in hits])
    answers = RetrievedPassages(texts, gold_answers(collection))
    columns += score_passages(answers, by_data["passages"], Rules())
    ranks = _met_gold(collection, records, passages)
    columns += score_gold(ranks, by_data["gold"], Rules(), **table_parts(collection))
    if by_data["forbidden"]:
        measures = by_data["forbidden"]
        of_forbidden = _forbidden_ranks(collection, passages, measures[0].label)
        print_of_all = collection.fingerprint("forbidden")
        columns += score_forbidden(of_forbidden, measures, Rules(), forbidden=print_of_all)
    notes = []
    if by_place:
        notes = unplaced_warning("evaluate", record_ids(collection.queries), passages.placed)
    return _GoldScores(index_by_name(columns), notes), by_ids


def _forbidden_ranks(collection: Collection, passages: TablePassages, name: str) -> ForbiddenRanks:
    """Return the ranks of forbidden passages for a score; raise `DataError` without any."""
    if not collection.forbidden:
        problem = f"{name} needs forbidden documents ({_columns(collection)})"
        raise DataError(problem, allowed="a column forbidden: ids, field=value or spans")
    forbidden = [collection.forbidden.get(query.id) for query in collection.queries]
    unknown = range(len(forbidden)) if passages.has_unknown_ids else ()
    return forbidden_ranks(passages.hits, forbidden, collection.documents, unknown)


def _met_gold(
    collection: Collection, records: Sequence[Answered], passages: TablePassages
) -> MetGold:
    """Return the ranks at which the passages of all records meet their gold."""
    answerable = answerable_questions(collection.queries, collection.answers, collection.qrels)
    facts = table_facts(collection, passages, answerable)
    unknown = []
    if passages.has_unknown_ids and collection.qrels is not None:
        judged = collection.qrels.by_query
        for row, (query, record) in enumerate(zip(collection.queries, records, strict=True)):
            if query.id in judged and record.contexts is not None:
                unknown.append(row)
    return met_gold(facts, unknown)


def _ranking_columns(
    labels: Sequence[str],
    of_gold: _GoldScores,
    by_ids: Evaluation,
    records: Sequence[Answered],
    *,
    has_strays: bool,
) -> dict[str, ScoreColumn]:
    """Return the columns of measures of rankings, in the order of `labels`, with their causes."""
    columns = {}
    for label in labels:
        by_id = by_ids.columns.get(label)
        column = of_gold.columns[label] if by_id is None else by_id
        doubtful = has_strays and by_id is not None
        columns[label] = _with_causes(column, records, has_strays=doubtful)
    return columns


def _with_causes(
    column: ScoreColumn, records: Sequence[Answered], *, has_strays: bool
) -> ScoreColumn:
    """Return the column of a measure with causes as in an experiment."""
    has_contexts, has_answer = [], []
    for record in records:
        has_contexts.append(record.contexts is not None)
        has_answer.append(record.answer is not None)
    lacks = ~np.array(has_contexts, bool)
    column = column.without_scores(lacks & np.array(has_answer, bool), Cause.NO_CONTEXTS)
    column = column.without_scores(lacks, Cause.MISSING_ANSWER)
    return column.without_scores(has_strays, Cause.UNKNOWN_IDS)


def _stray_ids(
    hits: Mapping[str, Sequence[str]], relevant: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Return a list with one note if no retrieved id is that of a judged document; else []."""
    retrieved = dict.fromkeys(chain.from_iterable(hits.values()))
    judged = dict.fromkeys(chain.from_iterable(relevant.values()))
    if not (retrieved and judged) or retrieved.keys() & judged.keys():
        return []
    pair = f"'{next(iter(retrieved))}' is retrieved, '{next(iter(judged))}' is relevant"
    return [f"no retrieved id is that of a relevant document: {pair}"]


def _columns(collection: Collection) -> str:
    """Return the note on the columns that were read; empty for data that are no table."""
    for note in collection.notes:
        if note.startswith("columns: "):
            return note
    return ""


def _missing_notes(evaluation: Evaluation, columns: str = "") -> list[str]:
    """Return notes on scores with failed items or no value, each with its first error."""
    groups = defaultdict[str, list[str]](list)
    for name, causes in evaluation.causes.items():
        score = evaluation.summary[name]
        # unknown ids have a note of their own
        if score.failed or not (score.n or "unknown_ids" in causes.values()):
            counts = list_counts(Counter(causes.values()))
            ending = "; the mean is over the others" if score.n else ": no value"
            error = next(evaluation.columns[name].failure_texts(), "")
            if error:
                ending += f"; the first error: {shorten_line(error, _LONGEST_ERROR)}"
            if columns and not score.n and not _PARTS_LACK.isdisjoint(causes.values()):
                ending += f" ({columns})"
            groups[f"{counts} of {len(evaluation.query_ids)} rows{ending}"].append(name)
    notes = []
    for note, names in groups.items():
        notes.append(f"{', '.join(names)}: {note}")
    return notes
