"""What an answer may rest on besides its own passages: what earlier turns found, what tools said.

A claim of the answer to "And in May?" may be grounded in a passage that was retrieved two turns
before, or in the output of a tool. Rubrics that ask whether an answer is grounded count both;
those that ask what was retrieved for this question, and citations, whose markers number the
answer's own passages, do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ragbench.score.judge.base import Item, Rubric
from ragbench.types.scores import Verdict

GROUNDED = frozenset(
    ("faithfulness", "factual_consistency", "hallucination", "self_knowledge", "noise_sensitivity")
)
"""The formulas over claims that ask what an answer rests on."""


def with_evidence(item: Item, rubric: Rubric) -> Item:
    r"""Return an item as a rubric sees it: with all that grounds its answer behind the passages.

    Each further text says in its first line where it comes from; a text comes once. What names
    the tool and its arguments is part of the text, since others wrote it: it stands inside the
    fence.

    Example:
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> from ragbench.types import ToolCall
        >>> item = Item("How warm?", "18 degrees.", tool_calls=(ToolCall("weather", {}, "18 °C"),))
        >>> with_evidence(item, load_rubric("faithfulness")).contexts
        ['Returned by the tool call weather({}):\n18 °C']
        >>> with_evidence(item, load_rubric("context_recall")).contexts is None
        True
    """
    counts_words = rubric.method == "overlap" and "contexts" in rubric.needs
    grounds = rubric.formula in GROUNDED or counts_words
    if not grounds or not (item.turns or item.tool_calls):
        return item
    more = _evidence(item)
    return replace(item, contexts=[*(item.contexts or ()), *more]) if more else item


def explained(verdict: Verdict, item: Item, shown: Item) -> Verdict:
    """Return a verdict whose reasons say what the passages are that are not the answer's own."""
    own, all_of_them = len(item.contexts or ()), shown.contexts or []
    lines = [
        f"passage {number}: {text.partition(chr(10))[0].rstrip(':')}"
        for number, text in enumerate(all_of_them[own:], start=own + 1)
    ]
    if not lines or verdict.status != "scored":
        return verdict
    return replace(verdict, reasoning="\n".join([verdict.reasoning, *lines]))


def _evidence(item: Item) -> list[str]:
    """The further texts, what belongs to this answer first, then the earlier turns in order."""
    seen, found = set(item.contexts or ()), []
    for origin, text in _texts(item):
        # a passage says the same wherever it came from; "18 degrees" does not
        if text.strip() and text not in seen:
            found.append(f"{origin}:\n{text}")
        if origin.startswith("Retrieved"):
            seen.add(text)
    return found


def _texts(item: Item) -> Iterator[tuple[str, str]]:
    """Each text with where it comes from."""
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
