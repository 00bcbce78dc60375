"""Where answers are lost: one cause for each query of a system, from what was measured.

The rules are functions of facts: what the ranking holds of the gold documents (`Found`), and what
is known of the answer (`Said`). They look at a query in the order in which it goes through a
system, and the first rule that applies names the cause; `why` has the facts that it looked at.
Each query takes constant time besides reading its ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple

from ragbench.records.causes import AnswerCause, Lost
from ragbench.registry import Option

DEFAULT_READ = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RightAnswer:
    """When an answer is right."""

    measure: Annotated[
        str | None,
        Option(
            "Metric or rubric that decides; default: correctness of a judge, else the words of "
            "the gold answers."
        ),
    ] = None
    min: Annotated[float, Option("Value from which an answer is right.", ge=0, le=1)] = 0.5
    words: Annotated[
        float,
        Option(
            "Where words decide: share of the content words of a gold answer, beyond those of the "
            "question, that a right answer has.",
            gt=0,
            le=1,
        ),
    ] = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedAnswer:
    """When an answer is supported by the passages that it was made from."""

    measure: Annotated[
        str | None, Option("Rubric that decides; default: faithfulness of a judge.")
    ] = None
    min: Annotated[float, Option("Value from which an answer is supported.", ge=0, le=1)] = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRules:
    """By which rules each query gets the cause of its loss."""

    blocks: ClassVar[Mapping[str, str]] = {
        "right": "When an answer is right.",
        "supported": "When an answer is supported by what was read.",
    }

    read: Annotated[
        int, Option("Hits that a generator would read, for a retriever alone.", ge=1)
    ] = DEFAULT_READ
    relevant: Annotated[int, Option("Smallest grade of a gold document.", ge=1)] = 1
    words: Annotated[
        float,
        Option(
            "Where a question is not judged: share of the content words of a gold answer that a "
            "passage has which holds it.",
            gt=0,
            le=1,
        ),
    ] = 0.5
    need: Annotated[
        Literal["any", "all"],
        Option("Gold documents that an answer needs: any of them, or all (questions of hops)."),
    ] = "any"
    right: RightAnswer = field(default_factory=RightAnswer)
    supported: SupportedAnswer = field(default_factory=SupportedAnswer)


class Found(NamedTuple):
    """What a ranking has of the gold documents of one query; without them, of the gold answer.

    Attributes:
        failed: Why there is no ranking, as a word; None where there is one.
        gold: How many documents are relevant; None where the query is not judged.
        example: The id of one of them.
        missing: Relevant documents that the corpus does not have; empty too where it is not known.
        ranks: Rank and id of each relevant document that was retrieved, best first.
        retrieved: How many hits there are.
        answer_rank: Of a query that is not judged: rank of the first hit with a gold answer in its
            text; 0 where none has one; None where it was not looked for.
    """

    failed: str | None = None
    gold: int | None = None
    example: str = ""
    missing: tuple[str, ...] = ()
    ranks: tuple[tuple[int, str], ...] = ()
    retrieved: int = 0
    answer_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What is known of one answer.

    Attributes:
        failed: Why there is no answer, as a word; None where there is one.
        asked: Whether the question was asked: a control without its passages is not.
        passages: How many passages were read; None where that is not known.
        read: Which relevant documents were read; None where the ranking says it.
        holds_answer: Of a query that is not judged: whether what was read tells the gold answer, by
            its words or by a judge; None where nothing says so.
        holds_how: What says so.
        refuses_how: `declines`, `is empty`, `is a refusal (judged)`.
        is_right: None where there is no gold answer, or nothing compared them.
        right_how: What compared them: `token_f1 0.1 < 0.5`.
        is_supported: None where no judge said so.
    """

    failed: str | None = None
    asked: bool = True
    passages: int | None = None
    read: frozenset[str] | None = None
    holds_answer: bool | None = None
    holds_how: str = ""
    refuses: bool = False
    refuses_how: str = "declines"
    is_right: bool | None = None
    right_how: str = ""
    is_supported: bool | None = None
    supported_how: str = ""


def cause_of_ranking(found: Found, rules: CauseRules, *, answerable: bool | None = None) -> Lost:
    """Say where a retriever alone loses a query.

    `answerable` is whether the question has an answer; None where nothing says so. Where it has
    none, there is nothing to find, and a ranking cannot decline.

    Example:
        >>> cause_of_ranking(Found(gold=1, ranks=((14, "d12"),), retrieved=100), CauseRules())
        Lost(cause='ranked_too_low', why='gold d12 at rank 14, a generator would read 5')
    """
    reader = f"a generator would read {rules.read}"
    if found.failed is not None:
        return Lost("failed", f"no ranking: {found.failed}")
    if answerable is False:
        return Lost("unknown", "the question has no answer, and a ranking cannot say so")
    if found.gold is None:
        return _of_texts(found, rules.read, reader)
    return _retrieval(found, rules, rules.read, None, reader) or Lost(
        "right", f"{_first(found)}, {reader}"
    )


def cause_of_answer(
    found: Found | None, said: Said, rules: CauseRules, *, answerable: bool | None = None
) -> Lost:
    """Say where a system that answers loses a query; `found` is None of one without a ranking.

    Example:
        >>> found = Found(gold=1, ranks=((1, "d12"),), retrieved=100)
        >>> said = Said(passages=5, is_right=False, right_how="token_f1 0.1 < 0.5")
        >>> cause_of_answer(found, said, CauseRules())
        Lost(cause='not_used', why='gold d12 at rank 1, reads 5; token_f1 0.1 < 0.5')
        >>> cause_of_answer(found, Said(refuses=True), CauseRules(), answerable=False).cause
        'right'
    """
    if not said.asked:
        return Lost("unknown", f"not asked: {said.failed}")
    if said.failed is not None:
        return Lost("failed", f"no answer: {said.failed}")
    if answerable is False:
        if said.refuses:
            return Lost("right", f"the question has no answer, and the reply {said.refuses_how}")
        return Lost("should_have_refused", "the question has no answer, and the reply gives one")
    unread, facts = _reading(found, said, rules)
    if said.refuses and not said.is_right:
        how = f"the answer {said.refuses_how}"
        lost = unread or Lost("refused", facts)
        return Lost(lost.cause, _joined(lost.why, how))
    if said.is_right:
        although = f"although {unread.why}" if unread else ""
        doubt = "" if said.is_supported in (None, True) else f"yet {said.supported_how}"
        return Lost("right", _joined(said.right_how, although, doubt))
    return _wrong(unread, facts, said)


def _wrong(unread: Lost | None, facts: str, said: Said) -> Lost:
    """The cause of an answer that is wrong, or that was compared with no gold answer."""
    if unread is not None:
        return Lost(unread.cause, _joined(unread.why, said.right_how))
    if said.is_supported is False:
        return Lost("unsupported", _joined(facts, said.right_how, said.supported_how))
    if said.is_right is False:
        if facts:
            return Lost("not_used", _joined(facts, said.right_how))
        nothing = "nothing tells whether the answer was in what was read"
        return Lost("unknown", _joined(said.right_how, nothing))
    if said.is_supported:
        how = f"no gold answer, but {said.supported_how}"
        return Lost("right", _joined(how, facts))
    return Lost("unknown", _joined("no gold answer to hold the answer against", facts))


def _reading(found: Found | None, said: Said, rules: CauseRules) -> tuple[Lost | None, str]:
    """The loss before the answer, if what it needs was not read; and the facts where it was.

    The facts are empty where nothing tells.
    """
    ranking = found or Found(gold=None)
    passages = said.passages if said.passages is not None else rules.read
    reader = f"reads {passages}"
    if ranking.failed is not None or (ranking.gold is None and ranking.answer_rank is None):
        if said.holds_answer is None:
            return None, ""
        if said.holds_answer:
            return None, said.holds_how
        cause: AnswerCause = "ranked_too_low" if ranking.answer_rank else "not_retrieved"
        return Lost(cause, said.holds_how), ""
    if ranking.gold is None:
        if said.holds_answer:
            return None, said.holds_how
        lost = _of_texts(ranking, passages, reader)
        return (None, lost.why) if lost.cause == "right" else (lost, "")
    lost_there = _retrieval(ranking, rules, passages, said.read, reader)
    if lost_there is not None:
        return lost_there, ""
    if said.read is None:
        return None, f"{_first(ranking)}, {reader}"
    where = {name: rank for rank, name in ranking.ranks}
    best = min(said.read, key=lambda name: (where.get(name, len(where) + 1), name))
    at = f" at rank {where[best]}" if best in where else " among the passages"
    return None, f"gold {best}{at}, {reader}"


def _retrieval(
    found: Found, rules: CauseRules, read: int, known: frozenset[str] | None, reader: str
) -> Lost | None:
    """The loss before anything is read; None where what is needed was read.

    `known` are the gold documents that were read; where it is None, the first `read` ranks say so.
    """
    gold = found.gold or 0
    if gold == 0:
        return Lost("not_in_corpus", "judged, and no document is relevant")
    needed = gold if rules.need == "all" else 1
    if known is None and needed == 1 and found.ranks and found.ranks[0][0] <= read:
        return None  # as below, without a look at the others
    is_read = known if known is not None else {d for rank, d in found.ranks if rank <= read}
    absent = [name for name in found.missing if name not in is_read]
    if absent and gold - len(absent) < needed:
        return Lost("not_in_corpus", f"gold {_some(absent)} not in the corpus")
    if len(is_read) >= needed:
        return None
    have = f"{len(is_read)} of {gold} gold documents read" if is_read else ""
    below = [(rank, name) for rank, name in found.ranks if name not in is_read]
    lacking = needed - len(is_read)
    if len(below) < lacking:
        away = gold - len(found.ranks)
        what = f"{away} gold document{'s' if away > 1 else ''}"
        what = f"gold {found.example}" if gold == 1 else what
        return Lost("not_retrieved", _joined(have, f"{what} not among {found.retrieved} hits"))
    # of several that are needed, the lowest one decides
    rank, name = below[lacking - 1]
    if known is not None and rank <= read:  # several passages of one document were read before it
        reader = f"below the {read} passages that were read"
    return Lost("ranked_too_low", _joined(have, f"gold {name} at rank {rank}, {reader}"))


def _of_texts(found: Found, read: int, reader: str) -> Lost:
    """The loss of a query without judgements, by where its gold answer stands in the hits."""
    rank = found.answer_rank
    if rank is None:
        return Lost("unknown", "no judgement, and no gold answer to look for in the hits")
    if rank == 0:
        return Lost("not_retrieved", f"the gold answer stands in none of {found.retrieved} hits")
    where = f"the gold answer stands in the hit at rank {rank}, {reader}"
    return Lost("right" if rank <= read else "ranked_too_low", where)


def _first(found: Found) -> str:
    if not found.ranks:
        return ""
    rank, name = found.ranks[0]
    return f"gold {name} at rank {rank}"


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
