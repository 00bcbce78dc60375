"""Judged items from arguments and tables, and the evidence that may ground an answer.

A claim of the answer to "And in May?" may rest on a passage retrieved two turns earlier, or on the
output of a tool. Rubrics on groundedness count both. Rubrics on the retrieval for this question,
and on citations, whose markers number the passages of this answer, count neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol, TypedDict

from msgspec import structs

from ragbench.errors import DataError
from ragbench.registry import nearest, quote
from ragbench.score.judge.base import JudgedItem, Rubric, missing_verdict
from ragbench.types import Document, ToolCall, Turn
from ragbench.types.conversation import Entries, Fail, read_tool_calls, read_turns
from ragbench.types.lookups import select_in_order
from ragbench.types.reasoning import Reasoning, split_reasoning
from ragbench.types.records import ASSIGNMENTS, IMPORTANCES, Nugget
from ragbench.types.scores import Verdict
from ragbench.types.tables import PARTS, Table, columns_by_part, folded, is_frame, row_of, rows_of

# A data frame, mappings, or samples of ragas or deepeval: a row for each answer.
Rows = Table | Iterable[Mapping[str, Any]]


class LangChainDocument(Protocol):
    """Document of LangChain, or any object with the attribute `page_content`.

    Attributes:
        page_content: Text of the document.
    """

    page_content: str


# Text, document, or `{id, text}`.
Passage = str | Document | LangChainDocument | Mapping[str, Any]


class RubricInputs(TypedDict, total=False):
    """Inputs of some rubrics, and the names of ragas and deepeval for question, answer and so on.

    Each key may be absent or None. Two names of one input, such as `answer` and `response`, are an
    error, also if one of them is None.

    Attributes:
        queries: Queries that the system formulated, for rubrics that judge queries.
        guidelines: Rules for this answer, for rubrics that need them.
        other: Answer of another system, for rubrics that compare a pair.
        turns: Messages before the question.
        tool_calls: Tools that the system called.
        nuggets: Facts of a good answer: `text`, `importance` (vital or okay) and, if people have
            checked this answer, `assignment`. None: the judge extracts them from the reference.
        user_input: Question, as ragas names it.
        response: Answer, as ragas names it.
        retrieved_contexts: Passages, as ragas names them.
        input: Question, as deepeval names it.
        actual_output: Answer, as deepeval names it.
        retrieval_context: Passages, as deepeval names them.
        expected_output: Reference, as deepeval names it.
    """

    queries: Sequence[str] | None
    guidelines: str | Sequence[str] | None
    other: str | None
    turns: Sequence[Turn | Entries] | None
    tool_calls: Sequence[ToolCall | Entries] | None
    nuggets: Sequence[Nugget | Mapping[str, str]] | None
    user_input: str | None
    response: str | None
    retrieved_contexts: Sequence[Passage] | None
    input: str | None
    actual_output: str | None
    retrieval_context: Sequence[Passage] | None
    expected_output: str | Sequence[str] | None


# Inputs of most rubrics, in the order of the parameters of `Judge.score`.
_INPUTS = ("question", "answer", "contexts", "reference", "query_id")
_ROW_KEYS = (*_INPUTS, "queries", "guidelines", "other", "turns", "tool_calls", "nuggets")


def _texts(place: str, row: Mapping[str, Any], name: str) -> list[str] | None:
    """Return the texts of a column of texts, `{id, text}` mappings or documents; None if absent."""
    value, texts = row.get(name), []
    if value is None:
        return None
    is_list = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    for part in value if is_list else [value]:
        # a document of ours or of LangChain
        text = getattr(part, "full_text", getattr(part, "page_content", part))
        text = part.get("text") if isinstance(part, Mapping) else text
        if not isinstance(text, str):
            problem = f"'{name}' holds {quote(part)}"
            raise DataError(problem, record=place, allowed="texts, {id, text}, Document")
        texts.append(text)
    return texts


def _failing(place: str) -> Fail:
    """Return a function that makes the error of a place."""
    return lambda problem, allowed: DataError(problem, record=place, allowed=allowed)


def _nugget(place: str, value: object) -> Nugget:
    """Return the nugget of a mapping or `Nugget` in the form of TREC RAG."""
    fields = structs.asdict(value) if isinstance(value, Nugget) else value
    if isinstance(fields, Mapping) and isinstance(fields.get("text"), str):
        importance, assignment = fields.get("importance"), fields.get("assignment")
        if importance in IMPORTANCES and assignment in (None, *ASSIGNMENTS):
            return Nugget(fields["text"], importance, assignment)
    allowed = f"importance ({', '.join(IMPORTANCES)}), assignment ({', '.join(ASSIGNMENTS)})"
    problem = f"'nuggets' holds {quote(value)}"
    raise DataError(problem, record=place, allowed=f"mappings of text, {allowed}")


# Part of a table -> argument of `Judge.score`.
_PARTS = {"id": "query_id"} | {
    name: name
    for name in ("question", "contexts", "answer", "reference", "queries", "turns", "tool_calls")
}


def items_of(rows: Rows, reasoning: Reasoning = "cut") -> list[JudgedItem]:
    """Read one item per row of a data frame or list of mappings, after checking all rows.

    Column names of ragas, deepeval and record files are understood. A data frame and objects may
    have other columns; a mapping with an unknown key is an error. Values that are None and columns
    that no rubric reads, such as gold passages, are left out. The query id is not checked.
    Reasoning of models is cut from answers, also from those of other systems and of earlier turns,
    unless `reasoning` is `keep`.

    Raises:
        DataError: The rows are no table, two columns could be one input, or a row has a wrong key
            or value.
    """
    mappings, is_table = _mappings(rows)
    names = _arguments(list(dict.fromkeys(map(str, chain.from_iterable(mappings)))), "rows")
    items = []
    for number, row in enumerate(mappings):
        inputs = {}
        for key, value in row.items():
            if key in names:
                # a table fills empty cells with None
                if value is not None:
                    inputs[names[key]] = value
            elif not is_table and folded(str(key)) not in _UNREAD:
                # no input: `_read_item` refuses it; a table may have any other column
                inputs[names.get(str(key), str(key))] = value
        items.append(_read_item(f"rows[{number}]", inputs, reasoning))
    return items


def _mappings(rows: object) -> tuple[list[Mapping[str, Any]], bool]:
    """Return (rows as mappings, True if they may have columns that are no input)."""
    if is_frame(rows):
        return [*rows_of(rows, "rows")], True
    if isinstance(rows, (str, Mapping)) or not isinstance(rows, Iterable):
        kind = type(rows).__name__
        raise DataError(f"rows: found {kind}", allowed="a list of mappings, or a data frame")
    mappings, are_objects = [], False
    for number, item in enumerate(rows):
        row = row_of(item)
        if row is None:
            raise DataError(f"rows[{number}]: found {type(item).__name__}", allowed="a mapping")
        mappings.append(row)
        # an object has all fields of its class
        are_objects |= row is not item
    return mappings, are_objects


def _arguments(columns: Sequence[str], owner: str) -> dict[str, str]:
    """Return column -> argument of `Judge.score`; columns that are no argument are absent."""
    arguments = {}
    for name in columns:
        if name in _ROW_KEYS:
            arguments[name] = name
    # exact names of arguments take precedence over recognised names
    free = []
    for part, argument in _PARTS.items():
        if argument not in arguments:
            free.append(part)
    parts = columns_by_part(free, [name for name in columns if name not in arguments], None, owner)
    return arguments | {parts[part]: _PARTS[part] for part in parts}


# Columns that a table may have but no rubric reads.
_UNREAD_PARTS = ("relevant", "reference_contexts", "grades", "system", "expected_tool_calls")
_UNREAD = set(map(folded, chain.from_iterable(PARTS[part].sure for part in _UNREAD_PARTS)))


def item_of(
    place: str, inputs: Sequence[object], more: Mapping[str, Any], reasoning: Reasoning = "cut"
) -> JudgedItem:
    """Return the judged item of one call of `Judge.score`.

    `inputs` are question, answer, contexts, reference and query id; `more` are inputs by name,
    those of ragas and deepeval among them. `place` names the call in messages. A text as reference
    or guideline is a list of one. The query id is not checked. Reasoning is cut as by `items_of`.

    Raises:
        DataError: `more` has another name or a second name of an input, or another input has the
            wrong form.
        ValueError: `inputs` are not five.
    """
    stated = {}
    for name, value in zip(_INPUTS, inputs, strict=True):
        if value is not None:
            stated[name] = value
    stated.update(more)
    names = _arguments(list(stated), place)
    row = {}
    for name, value in stated.items():
        row[names.get(name, name)] = value
    return _read_item(place, row, reasoning)


def _read_item(place: str, row: Mapping[str, Any], reasoning: Reasoning) -> JudgedItem:
    """Return a row as an item, with its inputs checked."""
    for key in row:
        if key not in _ROW_KEYS:
            allowed, close = ", ".join(_ROW_KEYS), nearest(str(key), _ROW_KEYS)
            raise DataError(f"{place} has '{key}'", allowed=allowed, nearest=close)
    for name in ("question", "answer", "other"):
        if not isinstance(value := row.get(name), str | None):
            problem = f"'{name}' is {quote(value)}"
            raise DataError(problem, record=place, allowed="a text, or None")
    answers = {}
    for name in ("answer", "other"):
        if name in row:
            answers[name] = row[name]
    if reasoning == "cut":
        answers = {name: text and split_reasoning(text)[1] for name, text in answers.items()}
    inputs = answers | select_in_order(row, ("question", "query_id"))
    if (turns := row.get("turns")) is not None:
        inputs["turns"] = read_turns(turns, _failing(f"{place}: turns"), reasoning=reasoning)
    if (calls := row.get("tool_calls")) is not None:
        inputs["tool_calls"] = read_tool_calls(calls, _failing(f"{place}: tool_calls"))
    if (nuggets := row.get("nuggets")) is not None:
        entries = nuggets if isinstance(nuggets, Iterable) else [nuggets]
        inputs["nuggets"] = tuple(_nugget(place, entry) for entry in entries)
    return JudgedItem(
        contexts=_texts(place, row, "contexts"),
        references=_texts(place, row, "reference") or [],
        queries=_texts(place, row, "queries"),
        guidelines=_texts(place, row, "guidelines") or [],
        **inputs,
    )


# Formulas over claims that measure whether an answer is grounded, and the rubric without claims.
GROUNDED = frozenset(
    ("faithfulness", "factual_consistency", "hallucination", "self_knowledge", "noise_sensitivity")
)
_SUPPORTED = "supported"


def with_evidence(item: JudgedItem, rubric: Rubric) -> JudgedItem:
    r"""Return the item with all evidence for its answer appended to the passages.

    Evidence is the output of tools and the passages of earlier turns, under a line that names its
    origin. Blank texts, texts of passages that are there already, and calls of earlier turns that
    are calls of this answer are left out; equal outputs of two calls both stay. The item is
    returned unchanged if the rubric does not measure groundedness, or if there is no further
    evidence. Outputs of this answer's tools come first, then passages and outputs of earlier turns,
    oldest first.

    Example:
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> from ragbench.types import ToolCall
        >>> calls = (ToolCall("weather", {}, "18 °C"),)
        >>> item = JudgedItem("How warm?", "18 degrees.", tool_calls=calls)
        >>> with_evidence(item, load_rubric("faithfulness")).contexts
        ['Returned by the tool call weather({}):\n18 °C']
        >>> with_evidence(item, load_rubric("context_recall")).contexts is None
        True
    """
    # retrieval scores and citations are about the passages of this answer only
    is_grounding = rubric.formula in GROUNDED or rubric.name == _SUPPORTED
    if not is_grounding or not (item.turns or item.tool_calls):
        return item
    passages, evidence = set(item.contexts or ()), []
    # the origin is part of the text, inside its fence: others wrote the arguments of the calls
    for origin, text in _further_evidence(item):
        # equal passages are one; equal outputs of two calls, such as "18 degrees", are not
        if text.strip() and text not in passages:
            evidence.append(f"{origin}:\n{text}")
        if origin.startswith("Retrieved"):
            passages.add(text)
    return replace(item, contexts=[*(item.contexts or ()), *evidence]) if evidence else item


def explain_evidence(verdict: Verdict, item: JudgedItem, completed: JudgedItem) -> Verdict:
    """Return the verdict with the origin of each added passage appended to its reasoning.

    `completed` is the item after `with_evidence`. A verdict without score, or without added
    passages, is returned unchanged. Each passage has a line, with numbers behind those of the item.
    """
    n_retrieved = len(item.contexts or ())
    evidence = (completed.contexts or [])[n_retrieved:]
    lines = []
    for number, text in enumerate(evidence, start=n_retrieved + 1):
        lines.append(f"passage {number}: {text.partition(chr(10))[0].rstrip(':')}")
    if not lines or verdict.status != "scored":
        return verdict
    return structs.replace(verdict, reasoning="\n".join([verdict.reasoning, *lines]))


def judge_with_evidence(
    item: JudgedItem, rubric: Rubric, judge: Callable[[JudgedItem, Rubric], Verdict]
) -> Verdict:
    """Return the verdict of `judge` on an item with its evidence.

    The reasoning of a scored verdict ends with a line per added passage. An item that lacks a part
    that the rubric needs gets a `not_applicable` verdict, and `judge` is not called. Exceptions of
    `judge` are not caught.
    """
    completed = with_evidence(item, rubric)
    missing = missing_verdict(completed, rubric)
    if missing is not None:
        return missing
    return explain_evidence(judge(completed, rubric), item, completed)


def _further_evidence(item: JudgedItem) -> Iterator[tuple[str, str]]:
    """Yield origin and text of tool outputs and earlier passages, this answer's calls first."""
    calls = item.tool_calls or ()
    for call in calls:
        yield f"Returned by the tool call {call.written}", call.output or ""
    for number, turn in enumerate(item.turns, start=1):
        for text in turn.contexts:
            yield f"Retrieved for turn {number} of the conversation", text
        for call in turn.tool_calls:
            # records of whole conversations repeat the calls of the last answer
            if call not in calls:
                place = f"in turn {number} of the conversation"
                yield f"Returned by the tool call {call.written} {place}", call.output or ""
