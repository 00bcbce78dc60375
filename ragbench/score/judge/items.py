"""Items for a judge: made of Python's arguments and tables, with all that an answer may rest on.

A claim of the answer to "And in May?" may be grounded in a passage that was retrieved two turns
before, or in the output of a tool. Rubrics that ask whether an answer is grounded count both;
those that ask what was retrieved for this question, and citations, whose markers number the
answer's own passages, do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from ragbench.errors import DataError
from ragbench.registry import nearest, shown
from ragbench.score.judge.base import JudgedItem, Rubric, missing_verdict
from ragbench.types.conversation import Entries, Fail, read_tool_calls, read_turns
from ragbench.types.records import ASSIGNMENTS, IMPORTANCES, Nugget
from ragbench.types.scores import Verdict
from ragbench.types.tables import PARTS, Table, columns_by_part, folded, is_frame, rows_of

if TYPE_CHECKING:
    from ragbench.types import ToolCall, Turn

# A data frame, or mappings: a row for each answer.
Rows = Table | Iterable[Mapping[str, Any]]


class RubricInputs(TypedDict, total=False):
    """Inputs of some rubrics besides question, answer, passages and reference.

    Attributes:
        queries: Queries that the system formulated, for rubrics that judge queries.
        guidelines: Rules for this answer, for rubrics that need them.
        other: Answer of another system, for rubrics that compare a pair.
        turns: Messages before the question.
        tool_calls: Tools that the system called.
        nuggets: Facts of a good answer: `text`, `importance` (vital or okay) and, if people have
            checked this answer, `assignment`. None: the judge extracts them from the reference.
    """

    queries: Sequence[str] | None
    guidelines: str | Sequence[str] | None
    other: str | None
    turns: Sequence[Turn | Entries] | None
    tool_calls: Sequence[ToolCall | Entries] | None
    nuggets: Sequence[Nugget | Mapping[str, str]] | None


# Inputs of most rubrics, in the order of the parameters of `Judge.score`.
_INPUTS = ("question", "answer", "contexts", "reference", "query_id")
_ROW_KEYS = (*_INPUTS, *RubricInputs.__annotations__)


def _texts(row: Mapping[str, Any], name: str) -> list[str] | None:
    """The texts of contexts or references: texts, {id, text} mappings, or `Document` objects."""
    value, texts = row.get(name), []
    if value is None:
        return None
    for part in [value] if isinstance(value, str) else value:
        text = part.get("text") if isinstance(part, Mapping) else getattr(part, "full_text", part)
        if not isinstance(text, str):
            raise DataError(f"'{name}' holds {shown(part)}", allowed="texts, {id, text}, Document")
        texts.append(text)
    return texts


def _failing(name: str) -> Fail:
    return lambda found, allowed: DataError(f"'{name}': {found}", allowed=allowed)


def _nugget(value: object) -> Nugget:
    """A nugget of a mapping, or of a `Nugget`, in the form of TREC RAG."""
    given = value._asdict() if isinstance(value, Nugget) else value
    if not isinstance(given, Mapping) or not {"text", "importance"} <= set(given):
        raise DataError(f"'nuggets' holds {shown(value)}", allowed="mappings of text, importance")
    nugget = Nugget(given["text"], given["importance"], given.get("assignment"))
    if not isinstance(nugget.text, str) or nugget.importance not in IMPORTANCES:
        allowed = f"a text, and an importance of {' or '.join(IMPORTANCES)}"
        raise DataError(f"'nuggets' holds {shown(value)}", allowed=allowed)
    if nugget.assignment not in (None, *ASSIGNMENTS):
        found = f"'nuggets' holds the assignment {shown(nugget.assignment)}"
        raise DataError(found, allowed=", ".join(ASSIGNMENTS))
    return nugget


_SAME = ("question", "contexts", "answer", "reference", "queries", "turns", "tool_calls")
# Part of a table -> argument of `Judge.score`.
_PARTS = {"id": "query_id", **dict(zip(_SAME, _SAME, strict=True))}


def items_of(rows: Rows) -> list[JudgedItem]:
    """Return the rows as items, all of them checked before the first is judged."""
    table = is_frame(rows)
    mappings = rows_of(rows, "rows") if table else list(_mappings(rows))
    names = _arguments(list(dict.fromkeys(str(key) for row in mappings for key in row)))
    return [
        _read_item(
            f"rows[{number}]",
            {
                names.get(str(key), str(key)): value
                for key, value in row.items()
                # a data frame may have any other column, and fills empty cells with None
                if (key in names and value is not None)
                or not (table or key in names or folded(str(key)) in _UNREAD)
            },
        )
        for number, row in enumerate(mappings)
    ]


def _mappings(rows: object) -> Iterable[Mapping[str, Any]]:
    if isinstance(rows, (str, Mapping)) or not isinstance(rows, Iterable):
        found = "a mapping" if isinstance(rows, Mapping) else f"found {type(rows).__name__}"
        raise DataError(f"rows: {found}", allowed="a list of mappings, or a data frame")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"rows[{number}]: found {type(row).__name__}", allowed="a mapping")
        yield row


def _arguments(columns: Sequence[str]) -> dict[str, str]:
    """Column -> the argument of `Judge.score` that it is."""
    arguments = {name: name for name in columns if name in _ROW_KEYS}
    free = [part for part, argument in _PARTS.items() if argument not in arguments]
    parts = columns_by_part(free, [name for name in columns if name not in arguments], None, "rows")
    return arguments | {parts[part]: _PARTS[part] for part in parts}


# Columns that a table may have and no rubric reads.
_UNREAD = {
    folded(name)
    for part in ("relevant", "reference_contexts", "grades", "system", "expected_tool_calls")
    for name in PARTS[part].sure
}


def item_of(place: str, inputs: Sequence[object], more: Mapping[str, Any]) -> JudgedItem:
    """Return the item of one call of `Judge.score`.

    `inputs` are question, answer, contexts, reference and query id; `more` are inputs by name.
    `place` names the call in messages.

    Raises:
        DataError: `more` has another name, or an input has the wrong form.
    """
    return _read_item(place, {**dict(zip(_INPUTS, inputs, strict=True)), **more})


def _read_item(place: str, row: Mapping[str, Any]) -> JudgedItem:
    for key in row:
        if key not in _ROW_KEYS:
            allowed, close = ", ".join(_ROW_KEYS), nearest(str(key), _ROW_KEYS)
            raise DataError(f"{place} has '{key}'", allowed=allowed, nearest=close)
    turns, calls, nuggets = map(row.get, ("turns", "tool_calls", "nuggets"))
    return JudgedItem(
        contexts=_texts(row, "contexts"),
        references=_texts(row, "reference") or [],
        queries=_texts(row, "queries"),
        guidelines=_texts(row, "guidelines") or [],
        turns=() if turns is None else read_turns(turns, _failing("turns")),
        tool_calls=None if calls is None else read_tool_calls(calls, _failing("tool_calls")),
        nuggets=None if nuggets is None else tuple(map(_nugget, nuggets)),
        **{key: row[key] for key in ("question", "answer", "query_id", "other") if key in row},
    )


# The formulas over claims that ask what an answer rests on.
GROUNDED = frozenset(
    ("faithfulness", "factual_consistency", "hallucination", "self_knowledge", "noise_sensitivity")
)


def with_evidence(item: JudgedItem, rubric: Rubric) -> JudgedItem:
    r"""Return an item as a rubric sees it: with all that grounds its answer behind the passages.

    Each further text says in its first line where it comes from; a text comes once. What names
    the tool and its arguments is part of the text, since others wrote it: it stands inside the
    fence.

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
    if rubric.formula not in GROUNDED or not (item.turns or item.tool_calls):
        return item
    # the further texts, what belongs to this answer first, then the earlier turns in order
    seen, more = set(item.contexts or ()), []
    for origin, text in _further(item):
        # a passage says the same wherever it came from; "18 degrees" does not
        if text.strip() and text not in seen:
            more.append(f"{origin}:\n{text}")
        if origin.startswith("Retrieved"):
            seen.add(text)
    return replace(item, contexts=[*(item.contexts or ()), *more]) if more else item


def explain_evidence(verdict: Verdict, item: JudgedItem, shown: JudgedItem) -> Verdict:
    """Return a verdict whose reasons say what the passages are that are not the answer's own."""
    own, all_of_them = len(item.contexts or ()), shown.contexts or []
    lines = [
        f"passage {number}: {text.partition(chr(10))[0].rstrip(':')}"
        for number, text in enumerate(all_of_them[own:], start=own + 1)
    ]
    if not lines or verdict.status != "scored":
        return verdict
    return replace(verdict, reasoning="\n".join([verdict.reasoning, *lines]))


def judge_with_evidence(
    item: JudgedItem, rubric: Rubric, judge: Callable[[JudgedItem, Rubric], Verdict]
) -> Verdict:
    """Judge an item after adding the evidence that the rubric counts; say what is missing, if so.

    `judge` is called only for an item that has all that the rubric needs; what it raises passes.
    """
    completed = with_evidence(item, rubric)
    return missing_verdict(completed, rubric) or explain_evidence(
        judge(completed, rubric), item, completed
    )


def _further(item: JudgedItem) -> Iterator[tuple[str, str]]:
    """Each further text with where it comes from."""
    own = item.tool_calls or ()
    for call in own:
        yield f"Returned by the tool call {call.written}", call.output or ""
    for number, turn in enumerate(item.turns, start=1):
        for text in turn.contexts:
            yield f"Retrieved for turn {number} of the conversation", text
        for call in turn.tool_calls:
            if call not in own:
                place = f"in turn {number} of the conversation"
                yield f"Returned by the tool call {call.written} {place}", call.output or ""
