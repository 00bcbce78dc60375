"""`scorer`: a score as a function of inputs, outputs and expectations, for other evaluation tools.

MLflow, pydantic-evals, LangSmith and others call an application, and pass its inputs, its outputs
and the expected outputs to a function per score. `docs/integrations.md` has a program for each.
"""

from __future__ import annotations

import functools
import math
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ragbench.data.files.fields import Passages, error_maker, read_text, read_texts
from ragbench.data.files.gold import GoldIds, RankedIds, listed_ids
from ragbench.data.files.rows import Entry
from ragbench.data.loaders.questions import GOLD_PARTS, GoldColumns
from ragbench.errors import DataError, OptionError
from ragbench.records.codec import kind
from ragbench.score.retrieval import single
from ragbench.types.conversation import ToolCall, read_tool_calls
from ragbench.types.reasoning import Reasoning, check_reasoning, split_reasoning
from ragbench.types.scores import Cause
from ragbench.types.tables import PARTS, columns_by_part, columns_named, plain

if TYPE_CHECKING:
    from ragbench.comparison.peer_metrics import ScoreName
    from ragbench.score.judge.judge import Judge
    from ragbench.score.text.base import AnswerSources

Argument = Literal["inputs", "outputs", "expectations"]
# Value, reason and cause of one question, from its parts in a row.
Scored = tuple[float | None, str, Cause]
ScoreRow = Callable[[Entry], Scored]

# Argument -> parts that it may hold; a text or list alone is the first of them.
_TEXT_PARTS: Mapping[Argument, tuple[str, ...]] = {
    "inputs": ("question", "turns", "contexts"),
    "outputs": ("answer", "contexts", "queries", "tool_calls"),
    "expectations": ("reference", "expected_tool_calls"),
}
# The same for metrics of citations, which read the ids of the passages and the gold.
_CITATION_PARTS: Mapping[Argument, tuple[str, ...]] = {
    "inputs": ("question", "retrieved", "contexts"),
    "outputs": ("answer", "retrieved", "contexts"),
    "expectations": GOLD_PARTS,
}
# The same for measures, where a list alone is the first part, and a text no ranking.
_RANKING_PARTS: Mapping[Argument, tuple[str, ...]] = {
    "inputs": ("question", "retrieved", "contexts"),
    "outputs": ("retrieved", "contexts", "answer"),
    "expectations": GOLD_PARTS,
}
# Keys of `expectations` that some rubrics read, and tables do not have.
_RUBRIC_KEYS = ("guidelines", "nuggets", "other")
# Cause -> the part whose absence it tells, and its argument.
_MISSING: Mapping[Cause, tuple[str, Argument]] = {
    Cause.NO_JUDGEMENTS: ("relevant", "expectations"),
    Cause.NO_CONTEXTS: ("retrieved", "outputs"),
    Cause.MISSING_ANSWER: ("retrieved", "outputs"),
    Cause.NO_REFERENCE: ("reference", "expectations"),
    Cause.NO_ANSWER: ("answer", "outputs"),
    Cause.NO_EXPECTED_CALLS: ("expected_tool_calls", "expectations"),
    Cause.NO_TOOL_CALLS: ("tool_calls", "outputs"),
}

# Measures that have a function for one list, which needs no NumPy: with and without a cut-off.
# Any other form of a cut-off goes to the full parser, with its messages.
_PLAIN = re.compile(r"(hit_rate|precision|recall|f1|dcg|mrr|map|ndcg|rbp)(?:@([1-9]\d{0,8}))?")
# Measures that may have no cut-off here; the others go to the full parser without one.
_UNCUT = ("mrr", "map", "ndcg", "rbp")


class ScoreResult(TypedDict):
    """Score of one question, ready for JSON.

    Attributes:
        score: Value; None if there is none, never NaN.
        reason: Words of the judge, the ranks of relevant documents, or the part that is missing;
            empty for a value of a metric.
        cause: Word of the cause of a missing value, such as `no_reference`; None with a value.
    """

    score: float | None
    reason: str
    cause: str | None


class ScoreFunction:
    """Function that scores one question; `scorer` makes it. Threads may share it.

    A pickle holds the arguments of `scorer`, so that another process makes the function anew.

    A call with `inputs`, `outputs` and `expectations` returns a `ScoreResult`. Each is a mapping
    with the names of columns of records as keys, a text (question, answer, reference), or None; for
    a measure also a list of ids. A missing part gives a score of None with its cause, and a part of
    another form a DataError.

    Attributes:
        name: Name of the score, as the caller wrote it; some tools read it from `__name__`.
    """

    def __init__(
        self,
        name: str,
        score_row: ScoreRow,
        parts: Mapping[Argument, tuple[str, ...]],
        make: Callable[[], ScoreFunction],
    ) -> None:
        self.name = self.__name__ = name
        self._score_row, self._parts, self._make = score_row, parts, make

    def __reduce__(self) -> tuple[Callable[[], ScoreFunction], tuple[()]]:
        return self._make, ()

    def __repr__(self) -> str:
        return f"<ScoreFunction {self.name}>"

    def __call__(
        self, inputs: object = None, outputs: object = None, expectations: object = None
    ) -> ScoreResult:
        """Return the score of one question.

        Keys may have any name that columns of records may have, those of ragas and deepeval among
        them; other keys are ignored. None counts as an empty mapping.

        Args:
            inputs: `{"question": ...}`, also with `turns` or `contexts`; or the question.
            outputs: `{"answer": ..., "retrieved": [ids], "contexts": [passages]}`, also with
                `queries` and `tool_calls`; or the answer; for a measure also the list of ids.
            expectations: `{"reference": ..., "relevant": [ids] | {id: grade}}`, also with
                `reference_contexts`, `expected_tool_calls`, `guidelines`, `nuggets` or `other`; or
                the reference; for a measure also the list of ids. Without a reference, a key
                `answer` is the reference.

        Returns:
            Score; a part that is missing and a judgement that failed give None with the cause.

        Raises:
            DataError: An argument or a part has another form, or two keys could be one part.
            AdapterError: A measure or metric of the user fails.
            RagbenchError: The user has to act, as for a missing key.
        """
        arguments: dict[Argument, object] = {
            "inputs": inputs,
            "outputs": outputs,
            "expectations": expectations,
        }
        row: dict[str, Any] = {}
        for argument, value in arguments.items():
            # later arguments win: the passages of the application, not those of the test case
            row |= self._row(argument, value)
        score, reason, cause = self._score_row(Entry(self.name, None, row))
        if cause is Cause.SCORED:
            return {"score": score, "reason": reason, "cause": None}
        # a misspelled key looks like a missing part: the reason lists the keys
        if cause in _MISSING and not reason:
            part, place = _MISSING[cause]
            if cause is Cause.MISSING_ANSWER:
                part = self._parts[place][0]
            argument_value = arguments[place]
            reason = f"no '{part}' in {place}"
            if isinstance(argument_value, Mapping):
                reason += f" (keys: {', '.join(map(str, argument_value))})"
        return {"score": None, "reason": reason or cause.word, "cause": cause.word}

    def _row(self, argument: Argument, value: object) -> dict[str, Any]:
        """Return part -> value of one argument; parts without a key are absent, None has none."""
        if value is None:
            return {}
        if isinstance(value, Mapping):
            names = tuple(key for key in value if isinstance(key, str))
            keys = _keys_of_parts(argument, self._parts[argument], names)
            return {part: plain(value[key]) for part, key in keys.items()}
        # a text is never a ranking, also for measures: it becomes a part that they do not read
        if isinstance(value, str):
            return {_TEXT_PARTS[argument][0]: value}
        if isinstance(value, (list, tuple)):
            return {self._parts[argument][0]: plain(value)}
        raise DataError(f"{argument} is {kind(value)}", record=self.name, allowed="a mapping, text")


# Tools pass the same keys for every question; the bound is for keys that are data.
@functools.lru_cache(maxsize=1024)
def _keys_of_parts(
    argument: Argument, parts: tuple[str, ...], names: tuple[str, ...]
) -> dict[str, str]:
    """Return part -> the key of an argument that holds it; parts without a key are absent."""
    # a document or source is not surely an id, and tables too need a corpus to tell
    sure = columns_named(names, PARTS["relevant"].sure)
    of_tables = []
    for part in parts:
        if part in PARTS:
            of_tables.append(part)
    keys = columns_by_part(of_tables, names, None if sure else {"relevant": None}, argument)
    if argument == "expectations" and "reference" in parts and "reference" not in keys:
        # what is expected as answer is the reference
        expected = columns_by_part(("answer",), names, None, argument)
        keys |= {"reference": expected["answer"]} if expected else {}
    return keys | {name: name for name in parts if name in _RUBRIC_KEYS and name in names}


def scorer(
    name: ScoreName,
    *,
    judge: Judge | str | Mapping[str, Any] | object = None,
    reasoning: Reasoning = "cut",
) -> ScoreFunction:
    """Return a function that scores one question by a measure, metric or rubric.

    Values are those of `evaluate`. The function fits tools that run an application and score what
    it returns, such as MLflow, pydantic-evals and LangSmith.

    Args:
        name: Name of a measure of rankings (`ndcg@10`), metric of answers (`rougeL`) or rubric
            (`faithfulness`); a rubric may also be the path of its file or a mapping.
        judge: Judge of a rubric, as `evaluate` takes it; measures and metrics need none. One that
            is created here stays open: pass a `Judge` to close it.
        reasoning: `cut` scores answers without the reasoning of a model in front of them, such as
            `<think>`; `keep` scores them as they are. References stay as they are.

    Raises:
        OptionError: No score has the name, another `reasoning`, a rubric has no judge, or one
            question does not decide the score.
        DataError: A file is no rubric, or a model is not in the cache of the hub, which cannot be
            reached.
        MissingExtra: The metric or judge needs a package that is not installed.
        RagbenchError: The user has to act, as for a missing key.

    Example:
        >>> mrr = scorer("mrr")
        >>> mrr(outputs={"retrieved": ["d3", "d1"]}, expectations={"relevant": ["d1"]})
        {'score': 0.5, 'reason': '1 of 1 relevant documents retrieved, at rank 2', 'cause': None}
        >>> scorer("exact_match")(outputs="In 1932", expectations="in 1932")["score"]
        1.0
    """
    check_reasoning("scorer", reasoning)
    label, make = str(name), functools.partial(scorer, name, judge=judge, reasoning=reasoning)
    # before the imports below: these measures have to work, and start fast, without NumPy
    if (match := _PLAIN.fullmatch(label)) and (match[2] or match[1] in _UNCUT):
        cutoff = None if match[2] is None else int(match[2])
        function = getattr(single, "average_precision" if match[1] == "map" else match[1])
        score_ranking = _ranking_scorer(_of_list(function, cutoff))
        return ScoreFunction(label, score_ranking, _RANKING_PARTS, make)
    from ragbench.comparison.score_kinds import kind_of_score, open_judge

    opened = open_judge(judge)
    score_kind = kind_of_score(name, opened, "scorer", "name")
    if score_kind == "retrieval":
        return ScoreFunction(label, _ranking_scorer(_of_measure(label)), _RANKING_PARTS, make)
    # a rubric without a judge was refused above
    if score_kind == "generation" or opened is None:
        parts = _CITATION_PARTS if _reads_citations(label) else _TEXT_PARTS
        return ScoreFunction(label, _metric_scorer(label, reasoning), parts, make)
    expectations = (*_TEXT_PARTS["expectations"], *_RUBRIC_KEYS)
    if isinstance(name, Mapping):
        label = str(name.get("name"))
    return ScoreFunction(
        label,
        _rubric_scorer(opened, name, reasoning),
        {**_TEXT_PARTS, "expectations": expectations},
        make,
    )


# Value and cause of a ranking and its judgements.
ScoreRanking = Callable[[list[str], dict[str, int]], tuple[float, Cause]]


def _ranking_scorer(score_ranking: ScoreRanking) -> ScoreRow:
    """Return a function that reads the ranking and the gold of a row, and scores them."""

    def score(entry: Entry) -> Scored:
        ranking, gold = _ranking_and_gold(entry)
        if not gold:
            return None, "", Cause.NO_JUDGEMENTS
        # scored also without a ranking: if the gold alone leaves no value, that cause comes first
        value, cause = score_ranking(ranking or [], gold)
        if ranking is None and cause is Cause.SCORED:
            answered = entry.values.get("answer") is not None
            return None, "", Cause.NO_CONTEXTS if answered else Cause.MISSING_ANSWER
        relevant = []
        for document, grade in gold.items():
            if grade > 0:
                relevant.append(document)
        # a document that was retrieved twice counts at its first rank, as in the measures
        distinct = enumerate(dict.fromkeys(ranking or ()), 1)
        ranks = []
        for rank, document in distinct:
            if gold.get(document, 0) > 0:
                ranks.append(str(rank))
        reason = f"{len(ranks)} of {len(relevant)} relevant documents retrieved"
        if ranks:
            reason += f", at rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"
        return value, reason, cause

    return score


def _ranking_and_gold(entry: Entry) -> tuple[list[str] | None, dict[str, int]]:
    """Return (ids of the ranking, None if the row has none; grade of each judged document)."""
    row = entry.values
    ids_given = "retrieved" in row
    columns = []
    for part in ("retrieved", "relevant"):
        if part in row:
            columns.append(part)
    # a comma separates ids only in a table of ids
    listed = listed_ids([entry], columns)
    if ids_given:
        ranking = RankedIds(None, listed, ids_given).ranking(entry, "retrieved")
    else:
        passages = Passages().read(entry, "contexts")
        ranking = None if passages is None else [passage.id for passage in passages]
    gold_columns = {}
    for part in GOLD_PARTS:
        if part in row:
            gold_columns[part] = part
    reader = GoldColumns(gold_columns, (), None, GoldIds(None, listed, ids_given))
    return ranking, reader.read(entry).grades


def _of_list(function: Callable[..., float], cutoff: int | None) -> ScoreRanking:
    """Return a function that scores a ranking by a measure of one list, without NumPy."""

    def score(ranking: list[str], gold: dict[str, int]) -> tuple[float, Cause]:
        value = float(function(ranking, gold, k=cutoff))
        return value, Cause.NO_RELEVANT if math.isnan(value) else Cause.SCORED

    return score


def _of_measure(name: str) -> ScoreRanking:
    """Return a function that scores a ranking by a measure, as a run of one query."""
    from ragbench.score.retrieval.notation import parse_measure
    from ragbench.score.retrieval.score_run import score_run
    from ragbench.types import Run

    measure = parse_measure(name)
    if measure.spec.reads not in ("grades", "gold"):
        allowed = f"a measure of ids and grades; this one needs {measure.spec.needs}"
        raise OptionError("scorer", "name", name, allowed)
    for option in measure.spec.from_qrels.keys() - measure.options.keys():
        # one question does not show the largest grade of the scale
        raise OptionError("scorer", "name", name, f"a value of {option}, as in err(max=3)")

    def score(ranking: list[str], gold: dict[str, int]) -> tuple[float, Cause]:
        (column,) = score_run(Run.from_rankings({"q": ranking}), {"q": gold}, measure).columns
        return float(column.values[0]), Cause(int(column.causes[0]))

    return score


def _metric_scorer(name: str, reasoning: Reasoning) -> ScoreRow:
    """Return a function that scores the answer of a row by a metric of answers."""
    from ragbench.score.text.base import CallRows
    from ragbench.score.text.columns import TextScorer
    from ragbench.score.text.notation import parse_metric

    metric = parse_metric(name)
    # idf weights come from all references, so that one row cannot give the value of `evaluate`
    if metric.declaration.aggregate == "corpus" or metric.options.get("idf"):
        allowed = "a metric of one answer; rb.evaluate_texts has those of all answers together"
        raise OptionError("scorer", "name", name, allowed)
    text_scorer, lock = TextScorer([metric]), threading.Lock()
    is_of_citations = metric.declaration.reads == "citations"
    # without rows: a metric that cannot be computed from one row is refused here
    text_scorer.score([], [], calls=CallRows([], []), sources=[])

    def score(entry: Entry) -> Scored:
        calls = CallRows([_calls(entry, "tool_calls")], [_calls(entry, "expected_tool_calls")])
        answer = read_text(entry, "answer", entry.values.get("answer"))
        if answer is not None and reasoning == "cut":
            answer = split_reasoning(answer)[1]
        question = read_text(entry, "question", entry.values.get("question"))
        # a scorer keeps the tokens of its last texts, which threads would mix up
        with lock:
            (column,) = text_scorer.score(
                [answer],
                [_references(entry)],
                calls=calls,
                questions=[question or ""],
                sources=[_sources(entry)] if is_of_citations else None,
            )
        value, cause = float(column.values[0]), Cause(int(column.causes[0]))
        if cause is Cause.NO_ANSWER:
            # as in `evaluate`: a system that does not answer has failed
            return None, "", Cause.MISSING_ANSWER
        if cause is Cause.SCORED and not math.isfinite(value):
            return None, f"the metric returned {value}", Cause.MALFORMED
        return value, "", cause

    return score


def _reads_citations(name: str) -> bool:
    """Return True for a metric that reads the citations of an answer."""
    from ragbench.score.text.notation import parse_metric

    return parse_metric(name).declaration.reads == "citations"


def _sources(entry: Entry) -> AnswerSources:
    """Return the documents of the passages of a row, and its gold documents."""
    from ragbench.score.text.base import AnswerSources

    documents, grades = _ranking_and_gold(entry)
    return AnswerSources.of_grades(documents, grades or None)


def _rubric_scorer(judge: Judge, name: ScoreName, reasoning: Reasoning) -> ScoreRow:
    """Return a function that has a judge score a row by one rubric."""
    from ragbench.score.judge.items import items_of
    from ragbench.score.judge.judge import verdict_reader

    read_verdict = verdict_reader(judge, name)

    def score(entry: Entry) -> Scored:
        passages = Passages().read(entry, "contexts")
        texts = {
            "question": read_text(entry, "question", entry.values.get("question")),
            "answer": read_text(entry, "answer", entry.values.get("answer")),
            "reference": _references(entry),
            "contexts": None if passages is None else [passage.full_text for passage in passages],
        }
        (item,) = items_of([{**entry.values, **texts}], reasoning)
        verdict = read_verdict(item)
        return verdict.score, verdict.reasoning, Cause[verdict.cause.upper()]

    return score


def _references(entry: Entry) -> list[str]:
    """Return the gold answers of a row, without blank ones."""
    texts = read_texts(entry, "reference") or []
    references = []
    for text in texts:
        if text.strip():
            references.append(text)
    return references


def _calls(entry: Entry, part: str) -> tuple[ToolCall, ...] | None:
    """Return the tool calls of a part; None if the row lacks it."""
    value = entry.values.get(part)
    return None if value is None else read_tool_calls(value, error_maker(entry, part))
