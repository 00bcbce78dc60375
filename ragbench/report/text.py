"""Plain text of reports: numbers, and causes in words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.records.causes import (
    CAUSES,
    NOT_LOST,
    AnswerCause,
    CauseFlow,
    CauseMove,
    Quantity,
)
from ragbench.types.display import counted as counted
from ragbench.types.display import printable, quoted_start

if TYPE_CHECKING:
    from ragbench.records.score import SystemScore

MISSING = "-"
_MOST_FAILED = 4  # systems with failed items that a line names
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_FROM, _PLAIN_BELOW = -4, 6  # powers of ten that are written without an exponent
_SMALLEST_P = 0.0001


def significant(value: float | None) -> str:
    """Format a number with three significant digits and all digits before the point.

    From a million on and below 0.0001 it has an exponent. None is `-`. NaN and infinities are a
    ValueError, as in `interval`, `difference` and `probability`.

    Example:
        >>> [significant(x) for x in (0.4020000001, 1, 0, 1234.5, 0.00001234, None)]
        ['0.402', '1.00', '0.00', '1234', '1.23e-05', '-']
    """
    if value is None:
        return MISSING
    # adding 0.0 turns -0.0 into 0.0
    return _with_decimals(value + 0.0, _exponent(value), 2 - _exponent(value))


def ends_of(pair: Sequence[float | None] | None) -> tuple[float, float] | None:
    """Return both ends of an interval; None without one, or if an end is missing."""
    low, high = pair or (None, None)
    return None if low is None or high is None else (low, high)


def interval(pair: Sequence[float | None] | None) -> str:
    """Format an interval as `[0.368, 0.436]`; empty if an end is None.

    An end that is NaN or infinite is a ValueError.

    Example:
        >>> interval([0.368, 0.436]), interval([None, None]), interval(None)
        ('[0.368, 0.436]', '', '')
    """
    ends = ends_of(pair)
    return "" if ends is None else f"[{significant(ends[0])}, {significant(ends[1])}]"


def with_interval(value: float | None, pair: Sequence[float | None] | None) -> str:
    """Format a number with its interval, if it has one; a number of None is `-`."""
    return f"{significant(value)} {interval(pair)}".rstrip()


def difference(value: float, pair: Sequence[float | None] | None) -> tuple[str, str]:
    """Return a difference and its interval as text, with signs and the same number of decimals.

    The largest of the numbers has two significant digits, or three if that needs at most three
    decimals: the fourth decimal of a difference of means is noise. Huge and tiny numbers have
    exponents; zeros alone are `+0.00`. The interval is empty without both ends.

    Raises:
        ValueError: A number is NaN or infinite.

    Example:
        >>> difference(0.0441, [0.02299, 0.0656]), difference(-0.3125, None)
        (('+0.044', '[+0.023, +0.066]'), ('-0.312', ''))
    """
    ends = ends_of(pair)
    numbers = [value, *(ends or ())]
    exponent = max(_exponent(number) for number in numbers if number or not any(numbers))
    decimals = max(1 - exponent, min(2 - exponent, 3))
    first, *limits = [_with_decimals(n + 0.0, exponent, decimals, "+") for n in numbers]
    return first, f"[{', '.join(limits)}]" if limits else ""


def probability(p: float | None) -> str:
    """Format a p-value with two significant digits and at most four decimals; None is `-`.

    NaN is a ValueError.

    Example:
        >>> [probability(p) for p in (0.314, 0.0006, 0.00001, 1.0, None)]
        ['0.31', '0.0006', '<0.0001', '1.0', '-']
    """
    if p is None:
        return MISSING
    if p < _SMALLEST_P:
        return f"<{_SMALLEST_P}"
    return f"{p:.{min(4, 1 - _exponent(p))}f}"


def percent(share: float) -> str:
    """Format a share (0 to 1) as a percentage: `95 %`, `99.5 %`; of at most six digits."""
    return f"{share * 100:.6g} %"


def causes(failed: Iterable[tuple[str, int]]) -> str:
    """Format causes with their counts: ` (timeout 2)`, with a space first; empty for none."""
    words = ", ".join(f"{printable(cause)} {n}" for cause, n in failed)
    return f" ({words})" if words else ""


def bounds_words(score: SystemScore) -> str:
    """Return the means that failed queries and answers leave open; empty if none failed.

    Such as `mean from 0.669 to 1.00, had all been scored`.
    """
    bounds = ends_of(score.bounds)
    if bounds is None or bounds == (score.mean, score.mean):
        return ""
    low, high = map(significant, bounds)
    return f"mean from {low} to {high}, had all been scored"


# Cause of a score that does not apply -> words of a report.
_REASONS = {
    "no_relevant": "no relevant document",
    "no_judgements": "no judgement",
    "missing_query": "not in the run",
    "no_reference": "no gold answer",
    "no_contexts": "no passages",
    "no_answer": "no answer",
    "empty_ranking": "nothing retrieved",
    "no_claims": "no claim to check",
    "no_question": "no question",
    "no_queries": "no formulated query",
    "no_guidelines": "no guidelines",
    "no_citations": "no citation",
    "no_other": "no second answer",
    "nothing_to_use": "no fact of the gold answer in the passages",
    "no_turns": "no earlier turns",
    "no_expected_calls": "no gold tool calls",
    "no_tool_calls": "tool calls unknown",
    "unknown_ids": "ids unknown",
    "has_answer": "the question has an answer",
    "has_no_answer": "the question has no answer",
    "no_refusal": "the reply is no refusal",
    "unsure_refusal": "not sure if the reply refuses",
    "no_gold_span": "no gold span",
    "unplaced_passage": "a passage without a place in its document",
    "ambiguous_quote": "a gold passage in several documents",
    "no_number": "no number in the gold answer",
    "no_forbidden": "no forbidden documents",
    "unclear_passage": "a passage that may be forbidden",
}


def not_applicable(score: SystemScore) -> str:
    """Format the number of queries that a score does not apply to, with the reasons.

    A single reason has no number; summaries of older versions have no reasons.

    Example: 8 not applicable (no relevant document 5, no judgement 3)
    """
    text = f"{score.not_applicable} not applicable"
    counts = {}
    for c, n in score.not_applicable_causes.items():
        if n:
            counts[_REASONS.get(c, c)] = n
    if len(counts) == 1:
        return f"{text} ({printable(next(iter(counts)))})"
    return text + causes(counts.items())


def missing_reasons(scores: Iterable[SystemScore]) -> str:
    """Format the reasons of missing values, the most frequent first; empty without any.

    Example: : no relevant document, timeout
    """
    counts = Counter[str]()
    for score in scores:
        counts.update(score.failed)
        for cause, n in score.not_applicable_causes.items():
            counts[_REASONS.get(cause, cause)] += n
    words = ", ".join(printable(word) for word, n in counts.most_common() if n)
    return f": {words}" if words else ""


def failed_line(failures: Iterable[tuple[int, str]]) -> str:
    """Return a line with the failed items of systems, the most first; '' without any.

    Of more than four systems, three are named.

    Args:
        failures: Number of failed items of each system, and its name with the causes.

    Example:
        >>> failed_line([(2, "a (error 2)"), (9, "b (timeout 9)")])
        'failed: 9 of b (timeout 9), 2 of a (error 2)'
    """
    # a sort keeps the order of equals
    ordered = sorted(failures, key=lambda failure: -failure[0])
    parts = [f"{n} of {words}" for n, words in ordered]
    if len(parts) > _MOST_FAILED:
        n_all = sum(n for n, _ in ordered)
        start = ", ".join(parts[: _MOST_FAILED - 1])
        return f"failed: {n_all} of {len(parts)} systems: {start}, ..."
    return f"failed: {', '.join(parts)}" if parts else ""


def listed(words: Sequence[str], word: str = "and") -> str:
    """Join words as a sentence does: `a, b and c`, or with another `word` than "and"."""
    return f" {word} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def first_parts(text: str, most: int) -> str:
    """Return the parts of a text before a `;` that fit `most` characters; the first one always.

    Example:
        >>> first_parts("a loss; 20 queries decide; or a mean", 30)
        'a loss; 20 queries decide'
    """
    first, *further = text.split("; ")
    for part in further:
        if len(first) + len(part) + 2 > most:
            break
        first += f"; {part}"
    return first


def _exponent(value: float) -> int:
    """Return the power of ten of a number rounded to three digits; 0 for zero."""
    return int(f"{value:.2e}".partition("e")[2])


def _with_decimals(value: float, exponent: int, decimals: int, sign: str = "") -> str:
    """Format a number with decimals, or with an exponent if it is huge or tiny."""
    if _PLAIN_FROM <= exponent < _PLAIN_BELOW:
        return f"{value:{sign}.{max(0, decimals)}f}"
    return f"{value:{sign}.2e}"


# Sign of each cause in a bar of text.
CAUSE_SIGNS: Mapping[AnswerCause, str] = dict(zip(CAUSES, "#+!cnlwusraf?", strict=True))
_BAR = 30
# Causes of answers whose gold was read.
_READ: frozenset[AnswerCause] = frozenset({"not_used", "unsupported", "refused"})
_LISTED_MOVES, _LISTED_TEXTS = 6, 2
# id of a question without one: a hash of its text
_HASH = re.compile("[0-9a-f]{12}")


def sparkline(values: Sequence[float | None]) -> str:
    """Draw values as a line of bars from the smallest to the largest value; None is a gap.

    NaN and infinities are gaps too; equal values are drawn at half height, and no values give ''.

    Example:
        >>> sparkline([0.1, 0.2, None, 0.4])
        '▁▃ █'
    """
    finite = []
    for value in values:
        if value is not None and math.isfinite(value):
            finite.append(value)
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    # halves before the subtraction: the span of two huge numbers would overflow
    span = high / 2 - low / 2
    bars = []
    for value in values:
        if value is None or not math.isfinite(value):
            bars.append(" ")
        elif not span:
            bars.append(_BARS[3])
        else:
            bars.append(_BARS[round((value / 2 - low / 2) / span * (len(_BARS) - 1))])
    return "".join(bars)


def cause_words(cause: AnswerCause) -> str:
    """Return a cause in words: `not retrieved` for `not_retrieved`."""
    return cause.replace("_", " ")


def action_words(part: str) -> str:
    """Return a part that can help lost questions, with its verb.

    Example:
        >>> action_words("the prompt, or the model"), action_words("a reranker")
        ('change the prompt, or the model', 'add a reranker')
        >>> action_words("what failed: see unscored.jsonl")
        'mend what failed'
    """
    if part.startswith("what failed"):
        return "mend what failed"
    return f"add {part}" if part.startswith("a ") else f"change {part}"


def move_words(move: CauseMove) -> str:
    """Return the causes before and after a move: `not retrieved -> right`."""
    return f"{cause_words(move.before)} -> {cause_words(move.after)}"


def questions(number: Quantity) -> str:
    """Format a number of questions, of which repetitions may be parts.

    Example:
        >>> questions(26), questions(26.0), questions(77 / 3), questions(1 / 3)
        ('26', '26', '25.7', '0.33')
    """
    if isinstance(number, int):
        return str(number)
    return f"{number:.1f}".removesuffix(".0") if number >= 1 else f"{number:.2g}"


def total_of(causes: Mapping[AnswerCause, Quantity]) -> int:
    """Return the number of all questions of the counts of causes."""
    return round(sum(causes.values()))


def cause_sentence(causes: Mapping[AnswerCause, Quantity]) -> str:
    """Return the counts of the causes in one phrase, in the order of `CAUSES`, without zeros.

    Example:
        >>> cause_sentence({"right": 61, "not_retrieved": 17, "refused": 0, "not_used": 22})
        'of 100 queries: 61 right, 17 not retrieved, 22 not used'
    """
    counts = []
    for cause in CAUSES:
        if causes.get(cause):
            counts.append(f"{questions(causes[cause])} {cause_words(cause)}")
    return f"of {counted(total_of(causes), 'queries')}: {', '.join(counts)}"


def cause_bar(causes: Mapping[AnswerCause, Quantity], width: int = _BAR) -> str:
    """Draw shares as a bar of `width` signs, at least one for each cause that occurs.

    It is longer if more causes than signs occur, and '' for no query.

    Example:
        >>> cause_bar({"right": 8, "not_retrieved": 1, "not_used": 1}, width=10)
        '########nu'
    """
    total = sum(causes.values())
    if not total:
        return ""
    present = []
    for cause in CAUSES:
        if causes.get(cause):
            present.append(cause)
    cells = {}
    for cause in present:
        cells[cause] = max(1, round(width * causes[cause] / total))
    # the largest share absorbs the rounding errors
    largest = max(present, key=lambda cause: causes[cause])
    cells[largest] = max(1, cells[largest] + width - sum(cells.values()))
    return "".join(CAUSE_SIGNS[cause] * n for cause, n in cells.items())


def labelled(label: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return lines with a label, such as `note: ...`."""
    return tuple(f"{label}: {text}" for text in texts)


def query_name(query: str, questions: Mapping[str, str]) -> str:
    """Return the id of a query with the start of its question; the question alone for a hash.

    A table without ids has hashes of its questions, which tell a reader nothing. Without the
    question, the id is returned.

    Example:
        >>> texts = {"q1": "Which moon is hot?", "58c86c02cbd8": "Who found it?"}
        >>> print(query_name("q1", texts), query_name("58c86c02cbd8", texts), query_name("q2", {}))
        q1 'Which moon is hot?' 'Who found it?' q2
    """
    text = questions.get(query)
    if not text:
        return printable(query)
    if _HASH.fullmatch(query):
        return quoted_start(text)
    return f"{printable(query)} {quoted_start(text)}"


def short_name(query: str, question: str) -> str:
    """Return the id of a query beside its question; of a hash, the first words of the question.

    Example:
        >>> short_name("q1", "Which moon is hot?"), short_name("58c86c02cbd8", "Who found it?")
        ('q1', "'Who found it?'")
    """
    return quoted_start(question, 30) if question and _HASH.fullmatch(query) else printable(query)


def moved_questions(moves: Sequence[CauseMove]) -> str:
    """Return the number of questions of some moves, with a remark if only some repeats moved.

    Example:
        >>> from msgspec import structs
        >>> move = CauseMove(before="right", after="not_used", queries=("q1", "q2"))
        >>> moved_questions([structs.replace(move, n=2 / 3)]), moved_questions([move])
        ('2 (in some repeats)', '2')
    """
    names = set[str]()
    for move in moves:
        names.update(move.queries)
    is_part = any(move.count < len(move.queries) - 1e-9 for move in moves)
    return f"{len(names)}{' (in some repeats)' if is_part else ''}"


def named_queries(flow: CauseFlow) -> Iterator[str]:
    """Yield the queries that `flow_lines` names with their texts."""
    for move in flow.moves:
        yield from move.queries[:_LISTED_TEXTS]


def flow_lines(flow: CauseFlow, questions: Mapping[str, str] | None = None) -> list[str]:
    """Return lines on the queries whose cause differs between a baseline and a system.

    The first line has the totals. A line per pair of causes follows, with its first queries.
    `questions` has the texts of queries by their ids.
    """
    gained, lost = list[CauseMove](), list[CauseMove]()
    good = "right"
    for move in flow.moves:
        # an app is right where a retriever alone has found the gold: neither is lost, and gold that
        # an app read and did not use was found
        is_kept = move.before == "found" and move.after in _READ
        if move.before not in NOT_LOST and move.after in NOT_LOST:
            gained.append(move)
        elif move.before in NOT_LOST and move.after not in NOT_LOST and not is_kept:
            lost.append(move)
        # of a retriever alone, the gold is found
        if "found" in (move.before, move.after):
            good = "found"
    changed = ""
    if gained or lost:
        changed = f"{moved_questions(gained)} became {good}, "
        changed += f"{moved_questions(lost)} no longer {good}; "
    head = f"{printable(flow.baseline)} -> {printable(flow.system)}: {changed}"
    n_moved = len(flow.moved_queries())
    n_same = round(sum(move.count for move in flow.moves) + flow.same) - n_moved
    lines = [f"{head}{moved_questions(flow.moves)} moved, {n_same} did not"]
    for move in flow.moves:
        names = listed_queries(move.queries, questions or {})
        lines.append(f"{moved_questions([move])} {move_words(move)}: {names}")
    return lines


def listed_queries(queries: Sequence[str], questions: Mapping[str, str]) -> str:
    """Return the names of the first queries, and the number of others: `q1, q2 and 3 more`.

    These are 6 ids, or 2 with the start of their questions.
    """
    most = _LISTED_TEXTS if any(query in questions for query in queries) else _LISTED_MOVES
    names = ", ".join(query_name(query, questions) for query in queries[:most])
    more = len(queries) - most
    return f"{names} and {more} more" if more > 0 else names
