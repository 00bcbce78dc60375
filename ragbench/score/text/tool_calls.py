"""Metrics of tool calls: `tool_call_accuracy`, `tool_call_f1`, `tool_call_correctness`.

The definitions are those of ragas (the first two) and deepeval (the third). `tool_call_count` needs
no gold calls. No model is called.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from ragbench.errors import DataError
from ragbench.registry import Option
from ragbench.score.text.base import metric
from ragbench.types.conversation import Entries, Json, ToolCall, read_tool_calls
from ragbench.types.lookups import item_names, map_values

# Tool calls in a form that `read_tool_calls` reads.
Calls = Sequence[ToolCall | Entries | str]
Arguments = Annotated[
    Literal["share", "exact", "names", "ignore"],
    Option(
        "What a call of the right tool counts: the share of its arguments that are right, 1 only "
        "where all are (exact), the share of their names, or always 1 (ignore)."
    ),
]


class CallScores(NamedTuple):
    """Precision and recall of tool calls, each value 0..1; `tool_call_f1` returns it.

    Attributes:
        f1: Harmonic mean of the two.
        precision: Share of the calls that are gold.
        recall: Share of the gold calls that were made.
    """

    f1: float
    precision: float
    recall: float


@metric(
    "tool_call_accuracy",
    reads="tool_calls",
    equals="ragas' ToolCallAccuracy (`order` is its strict_order)",
    not_for="systems that may call more tools than needed: one call too many gives 0",
)
def tool_call_accuracy(
    calls: Calls,
    expected: Calls,
    *,
    order: Annotated[
        Literal["strict", "any"],
        Option("Whether the calls have to come in the order of the gold ones."),
    ] = "strict",
    arguments: Arguments = "share",
) -> float:
    """Return the mean share of correct arguments if the tools are the gold ones, else 0.

    0 unless the names of the tools are the gold ones, as many, and in their order. Then the mean
    over the gold calls of the share of its arguments that the call in its place gives with the same
    value (further ones do not count; a gold call without arguments wants none). With `order=any`
    both lists are sorted by name and arguments first. Other words of `arguments` count 1 or 0 for
    all arguments (`exact`), the share of their names (`names`), or always 1 (`ignore`). No call
    where none is expected gives 1.

    Args:
        calls: Calls of the system, in order.
        expected: Gold calls, in order.
        arguments: Value of a call of the right tool: the share of its right arguments, 1 if all
            are right (exact), the share of their names, or 1 (ignore).

    Raises:
        DataError: An entry of one of the lists is no tool call.
        OptionError: An option has another word.

    Example:
        >>> gold = [{"name": "search", "arguments": {"query": "Io", "limit": 5}}]
        >>> tool_call_accuracy([{"name": "search", "arguments": {"query": "Io"}}], gold)
        0.5

    References:
        ragas, Tool Call Accuracy.
    """
    actual, gold = _read(calls, "calls"), _read(expected, "expected")
    if order == "any":
        actual, gold = sorted(actual, key=_sort_key), sorted(gold, key=_sort_key)
    # ragas gives no credit for arguments if the sequence of tools differs
    if item_names(actual) != item_names(gold):
        return 0.0
    if not gold:
        return 1.0
    worth = _ACCURACY[arguments]
    pairs = zip(gold, actual, strict=True)
    return math.fsum(worth(want.arguments, call.arguments) for want, call in pairs) / len(gold)


@metric(
    "tool_call_f1",
    parts=CallScores._fields,
    reads="tool_calls",
    equals="ragas' ToolCallF1 to its 4 digits, but 1 where no call is expected and none made",
    not_for="how often a tool is called: equal calls count once",
)
def tool_call_f1(
    calls: Calls,
    expected: Calls,
    *,
    arguments: Annotated[
        Literal["exact", "names", "ignore"],
        Option(
            "Parts of a call that must be equal besides the tool: all arguments, their "
            "names, or none."
        ),
    ] = "exact",
) -> CallScores:
    """Return F1, precision and recall of the calls, as sets: neither order nor repetition counts.

    A call is gold where a gold one has its name and its arguments, with `names` those of its
    arguments alone, with `ignore` its name alone. No call where none is expected gives 1; all are 0
    where no call is gold, as where only one of the two sides is empty.

    Args:
        calls: Calls of the system, in order.
        expected: Gold calls, in order.

    Raises:
        DataError: An entry of one of the lists is no tool call.
        OptionError: `arguments` has another word.

    Example:
        >>> gold = [{"name": "search", "arguments": {"query": "Io"}}, "clock"]
        >>> tool_call_f1(["clock", "weather"], gold)
        CallScores(f1=0.5, precision=0.5, recall=0.5)

    References:
        ragas, Tool Call F1.
    """
    actual = _identities(_read(calls, "calls"), arguments)
    gold = _identities(_read(expected, "expected"), arguments)
    if not actual and not gold:
        return CallScores(1.0, 1.0, 1.0)
    both = len(actual & gold)
    # also if only one side is empty, which would divide by 0 below
    if not both:
        return CallScores(0.0, 0.0, 0.0)
    return CallScores(2 * both / (len(actual) + len(gold)), both / len(actual), both / len(gold))


@metric(
    "tool_call_correctness",
    reads="tool_calls",
    equals="deepeval's ToolCorrectnessMetric; its defaults are arguments=ignore",
    not_for="calls too many, which cost nothing unless order=exact (tool_call_f1 counts them)",
)
def tool_call_correctness(
    calls: Calls,
    expected: Calls,
    *,
    order: Annotated[
        Literal["any", "strict", "exact"],
        Option(
            "any: each gold call takes the best call that is left; strict: as many as "
            "possible in the order of the gold ones; exact: the same calls in the same "
            "order and no others."
        ),
    ] = "any",
    arguments: Arguments = "share",
) -> float:
    """Return the share of the gold calls that were made, in part where arguments differ.

    A call of the right tool counts the share of the arguments of either that both have with the
    same value, within objects likewise. With `order=any` each gold call, in their order, takes the
    best call that no earlier one took; with `strict` the calls count that follow each other as the
    gold ones do, chosen for the largest sum (a weighted longest common subsequence); with `exact`
    the score is 1 where both lists are as long and each call counts 1, else 0. Other words of
    `arguments` count 1 or 0 for all arguments (`exact`), the share of their names (`names`), or
    always 1 (`ignore`). No call where none is expected gives 1; calls where none is expected give
    0.

    Args:
        calls: Calls of the system, in order.
        expected: Gold calls, in order.
        arguments: Value of a call of the right tool: the share of its right arguments, 1 if all
            are right (exact), the share of their names, or 1 (ignore).

    Raises:
        DataError: An entry of one of the lists is no tool call.
        OptionError: An option has another word.

    Example:
        >>> gold = [{"name": "search", "arguments": {"query": "Io"}}, {"name": "clock"}]
        >>> made = [{"name": "clock"}, {"name": "search", "arguments": {"query": "Io"}}]
        >>> tool_call_correctness(made, gold), tool_call_correctness(made, gold, order="strict")
        (1.0, 0.5)

    References:
        deepeval, Tool Correctness.
    """
    actual, gold = _read(calls, "calls"), _read(expected, "expected")
    worth = _CORRECTNESS[arguments]

    def value(want: ToolCall, call: ToolCall) -> float:
        return worth(want.arguments, call.arguments) if want.name == call.name else 0.0

    if order == "exact":
        pairs = zip(gold, actual, strict=False)
        return float(len(actual) == len(gold) and all(value(*pair) == 1 for pair in pairs))
    if not gold:
        return float(not actual)
    match = _in_order if order == "strict" else _best_matches
    return match(gold, actual, value) / len(gold)


@metric(
    "tool_call_count",
    reads="tool_calls",
    direction="lower",
    range=(0.0, math.inf),
    needs_reference=False,
    equals="the tool calls of an answer that BrowseComp-Plus reports",
    not_for="whether the calls were the right ones: fewer calls are better at equal answers alone",
)
def tool_call_count(
    calls: Calls,
    expected: Calls = (),
    *,
    tool: Annotated[str, Option("Tool whose calls are counted; empty counts all calls.")] = "",
) -> float:
    """Return the number of tool calls behind an answer, such as the searches of an agent.

    Lower is better. Gold calls are not needed. An answer without recorded calls has no value; one
    that records an empty list made none.

    Args:
        calls: Calls of the system.
        expected: Gold calls, which are not read.

    Raises:
        DataError: An entry of the list is no tool call.

    Example:
        >>> made = ["search", {"name": "get_document", "arguments": {"docid": "7"}}, "search"]
        >>> tool_call_count(made), tool_call_count(made, tool="search")
        (3.0, 2.0)

    References:
        Chen et al. (2025), BrowseComp-Plus: search calls per answer.
    """
    names = item_names(_read(calls, "calls"))
    return float(names.count(tool) if tool else len(names))


_Value = Callable[[ToolCall, ToolCall], float]
# Function that returns the credit for arguments, those of the gold call first.
_Worth = Callable[[Entries, Entries], float]


def _best_matches(gold: Sequence[ToolCall], actual: Sequence[ToolCall], value: _Value) -> float:
    """Return the sum of the values of greedy matches: each gold call takes the best call left."""
    candidates, total = list(actual), 0.0
    for want in gold:
        values = [value(want, call) for call in candidates]
        if (best := max(values, default=0.0)) > 0:
            total += best
            del candidates[values.index(best)]
    return total


def _in_order(gold: Sequence[ToolCall], actual: Sequence[ToolCall], value: _Value) -> float:
    """Return the largest sum over pairs in the same order on both sides (weighted LCS)."""
    previous = [0.0] * (len(actual) + 1)
    for want in gold:
        row = [0.0]
        for place, call in enumerate(actual, start=1):
            row.append(max(previous[place], row[-1], previous[place - 1] + value(want, call)))
        previous = row
    return previous[-1]


def _read(calls: Calls, name: str) -> list[ToolCall]:
    """Return a list of tool calls, checked; `name` is that of the argument."""

    def fail(problem: str, allowed: str) -> DataError:
        """Return the error of a list of calls."""
        return DataError(f"'{name}': {problem}", allowed=allowed)

    return list(read_tool_calls(calls, fail))


def _identities(calls: Sequence[ToolCall], arguments: str) -> set[tuple[str, str]]:
    """Return (name, arguments) of the calls, as far as they are compared."""
    identities = set()
    for call in calls:
        compared: Json = {}
        if arguments != "ignore":
            compared = call.arguments if arguments == "exact" else sorted(call.arguments)
        identities.add((call.name, _canonical(compared)))
    return identities


def _canonical(value: Json) -> str:
    """Return a JSON value as text that is equal for equal values: keys are sorted, 5.0 is 5."""
    return json.dumps(_numbers(value), sort_keys=True, default=str)


def _numbers(value: Json) -> Json:
    """Return a JSON value whose whole numbers are integers."""
    if isinstance(value, Mapping):
        return map_values(_numbers, value)
    if isinstance(value, (list, tuple)):
        return [_numbers(item) for item in value]
    # JSON has one kind of number: a model may write 5.0 for 5
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _same(one: Json, other: Json) -> bool:
    return _canonical(one) == _canonical(other)


def _sort_key(call: ToolCall) -> tuple[str, ...]:
    # as texts, since JSON values of two types cannot be compared
    key = [call.name]
    for name in sorted(call.arguments):
        key += [name, str(call.arguments[name])]
    return tuple(key)


def _share_of_gold(gold: Entries, called: Entries) -> float:
    """Return the share of gold arguments that `called` has with the same value, from 0 to 1."""
    if not gold:
        return float(not called)
    return sum(name in called and _same(gold[name], called[name]) for name in gold) / len(gold)


def _share_of_gold_names(gold: Entries, called: Entries) -> float:
    return len(gold.keys() & called.keys()) / len(gold) if gold else float(not called)


def _share_of_both(gold: Entries, called: Entries) -> float:
    """Return the share of all arguments on which both agree; objects count in part."""
    if _same(gold, called):
        return 1.0
    total = 0.0
    for name in gold.keys() & called.keys():
        one, other = gold[name], called[name]
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            total += _share_of_both(one, other)
        else:
            total += _same(one, other)
    return total / len(gold.keys() | called.keys())


def _share_of_both_names(gold: Entries, called: Entries) -> float:
    either = gold.keys() | called.keys()
    return len(gold.keys() & called.keys()) / len(either) if either else 1.0


_ACCURACY: dict[str, _Worth] = {
    "share": _share_of_gold,
    "exact": _same,
    "names": _share_of_gold_names,
    "ignore": lambda gold, arguments: 1.0,
}
_CORRECTNESS = _ACCURACY | {"share": _share_of_both, "names": _share_of_both_names}
