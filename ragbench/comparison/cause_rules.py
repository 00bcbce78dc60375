"""Rules that name the cause of each query: whether its answer is right, or where it was lost.

The rules are pure functions of two records: the ranks of the gold documents (`RankingFacts`) and
the properties of the answer (`AnswerFacts`). They follow a query through a system: corpus,
retrieval, passages, answer. The first rule that applies names the cause, and `why` the facts that
decided.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple

from ragbench.records.causes import AnswerCause, Loss
from ragbench.registry import Option, OptionSet
from ragbench.score.text.right import WORDS
from ragbench.types import Cause

# Gold documents and spans that an answer needs.
Need = Literal["any", "all"]
# Hits that a generator reads if a retriever has none: as many as generators get by default.
DEFAULT_READ = 5
# First hits whose texts are searched for the gold answer of a query without judgements: to read
# all texts is slow.
_SEARCHED = 20


class RightAnswer(OptionSet):
    """Rule by which an answer counts as right.

    The fields are options of the config, block `causes.right`, which checks them; the constructor
    does not.
    """

    measure: Annotated[
        str | None,
        Option(
            "Metric or rubric that decides; default: correctness of a judge, else the "
            "words of the gold answers."
        ),
    ] = None
    min: Annotated[float, Option("Value from which an answer is right.", ge=0, le=1)] = 0.5
    words: Annotated[
        float,
        Option(
            "Where words decide: share of the content words of a gold answer, beyond "
            "those of the question, that a right answer has.",
            gt=0,
            le=1,
        ),
    ] = WORDS


class SupportedAnswer(OptionSet):
    """Rule by which an answer counts as supported by its passages.

    The fields are options of the config, block `causes.supported`, which checks them; the
    constructor does not.
    """

    measure: Annotated[
        str | None, Option("Rubric that decides; default: faithfulness of a judge.")
    ] = None
    min: Annotated[float, Option("Value from which an answer is supported.", ge=0, le=1)] = 0.5


class CauseRules(OptionSet):
    """Options of the rules that give each query its cause: the block `causes` of the config.

    The config checks the values; the constructor does not.

    Attributes:
        right: Rule for a right answer.
        supported: Rule for a supported answer.
    """

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
            "Where a question is not judged, and its gold answers have more than four "
            "content words: share of these words that a passage has which holds the "
            "answer.",
            gt=0,
            le=1,
        ),
    ] = 0.5
    need: Annotated[
        Need,
        Option("Gold documents that an answer needs: any of them, or all (questions of hops)."),
    ] = "any"
    right: RightAnswer = field(default_factory=RightAnswer)
    supported: SupportedAnswer = field(default_factory=SupportedAnswer)

    def found_measure(self, top_k: int) -> str:
        """Return the name of `found` at the number of hits that are read, as the causes count it.

        Example:
            >>> CauseRules(need="all").found_measure(top_k=100), CauseRules().found_measure(top_k=3)
            ('found(need=all)@5', 'found@3')
        """
        need = "(need=all)" if self.need == "all" else ""
        return f"found{need}@{min(self.read, top_k)}"

    @property
    def searched(self) -> int:
        """Number of first hits that are searched for the gold answer of an unjudged query."""
        return max(_SEARCHED, self.read)


class RankingFacts(NamedTuple):
    """Ranks at which a ranking meets the gold of one query, or its gold answer without judgements.

    Ranks count hits as they were retrieved, from 1. A gold document is met by any passage of it, a
    gold span by a passage that has a character of it.

    Attributes:
        failed: Name of the failure, such as `timeout`; None if there is a ranking.
        gold: Number of gold documents and spans, of alternatives one; None if the query has no
            judgements.
        example: Id of one gold document, or label of a span.
        missing: Gold documents that are not in the corpus, or not in the pool of the query; empty
            if that is not known.
        ranks: Rank and name of the gold that is met, best first.
        document_ranks: Ranks of passages of the documents whose gold spans no hit meets.
        retrieved: Number of hits.
        answer_rank: Rank of the first hit whose text has a gold answer; 0 if no hit has one. None
            if the query has judgements, or no gold answer that a text could have.
        answer_how: Subject and verb of the reason: what of a gold answer stands, or is, in that
            hit, or in none of the hits.
        unit: Kind of the gold: `span` if the query has gold spans.
        unplaced: Rank of the first passage that has no place in a document, and so may hold a gold
            span; 0 if there is none.
        ambiguous: Documents that hold the quoted gold passage, if no one of them is named as gold.
        searched: Documents that the query searches: those of the `corpus`, or of its `pool`.
    """

    failed: str | None = None
    gold: int | None = None
    example: str = ""
    missing: tuple[str, ...] = ()
    ranks: tuple[tuple[int, str], ...] = ()
    document_ranks: tuple[int, ...] = ()
    retrieved: int = 0
    answer_rank: int | None = None
    answer_how: str = "the gold answer stands"
    unit: Literal["document", "span"] = "document"
    unplaced: int = 0
    ambiguous: tuple[str, ...] = ()
    searched: Literal["corpus", "pool"] = "corpus"

    def met_at(self, need: Need) -> int:
        """Return the rank down to which hits meet any or all of the gold; 0 if they never do.

        Without judgements, it is the rank of the gold answer.
        """
        if self.gold is None:
            return self.answer_rank or 0
        if need == "all":
            return self.ranks[-1][0] if self.gold and len(self.ranks) == self.gold else 0
        return self.ranks[0][0] if self.ranks else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """Properties of one answer: its passages, and its checks by words or by a judge.

    Attributes:
        failed: Name of the failure, such as `timeout`; None if there is an answer.
        was_asked: False for a control that could not be asked, as it has no passages.
        unscored: Reason why there is no answer, or why a judge has not scored it; `SCORED` without
            one.
        passages: Number of passages that the generator read; None if that is not known.
        read: Names of the gold among these passages; None if the ranks of the hits decide.
        reads_document: True if another passage of a document with unread gold is among them.
        unread_answer: Loss of the passage of a gold document that has the gold answer, if another
            passage of the document is among them; None if nothing tells of one.
        forbidden: Id of the first forbidden passage among them; empty without one.
        holds_answer: True if the passages have the gold answer, by its words or by a judge; None
            if neither was applied.
        holds_how: Evidence for `holds_answer`, in words.
        refuses: True if the answer declines the question; None if neither rule nor judge is sure.
        refuses_how: Kind of refusal: `declines`, `is empty`, `is a refusal (judged)`.
        is_right: True if the answer is right; None without a gold answer, or without a score.
        right_how: Evidence for `is_right`: `token_f1 0.1 < 0.5`.
        is_supported: True if a judge found the answer supported by its passages; None if none did.
        has_unsupported: True if a judge found a claim in it that the passages do not support.
        supported_how: Evidence for `is_supported`, in words.
    """

    failed: str | None = None
    was_asked: bool = True
    unscored: Cause = Cause.SCORED
    passages: int | None = None
    read: frozenset[str] | None = None
    reads_document: bool = False
    unread_answer: Loss | None = None
    forbidden: str = ""
    holds_answer: bool | None = None
    holds_how: str = ""
    refuses: bool | None = False
    refuses_how: str = "declines"
    is_right: bool | None = None
    right_how: str = ""
    is_supported: bool | None = None
    has_unsupported: bool = False
    supported_how: str = ""


_NO_ANSWER = AnswerFacts()  # one for all queries: to make it takes as long as to find the cause


def cause_of_ranking(
    ranking: RankingFacts, rules: CauseRules, *, answerable: bool | None = None
) -> Loss:
    """Return the cause of a query of a retriever alone, as if a generator read its first hits.

    It is `found` if enough gold is among the first `rules.read` hits, else `not_in_corpus`,
    `not_retrieved`, `wrong_passage` or `ranked_too_low`. `answerable` is None if nothing tells
    whether the question has an answer. If it has none, and no gold document, the cause is
    `unknown`: a ranking cannot decline. A failed ranking is `failed`; without judgements and gold
    answer, or if a passage among these may hold a gold span, the cause is `unknown`.

    Example:
        >>> ranking = RankingFacts(gold=1, ranks=((14, "d12"),), retrieved=100)
        >>> cause_of_ranking(ranking, CauseRules())[:2]
        ('ranked_too_low', 'gold d12 at rank 14, a generator would read 5')
    """
    reader = f"a generator would read {rules.read}"
    if ranking.failed is not None:
        return Loss("failed", f"no ranking: {ranking.failed}")
    if answerable is False and not ranking.gold:
        return Loss("unknown", "the question has no answer, and a ranking cannot say so")
    if ranking.gold is None:
        return _cause_of_answer_rank(ranking, rules.read, reader)
    return _loss_before_reading(ranking, rules, rules.read, _NO_ANSWER, reader) or Loss(
        "found", f"{_first_gold(ranking)}, {reader}"
    )


_MAY_DECLINE = "the reply may decline or answer"


def cause_of_answer(
    ranking: RankingFacts | None,
    answer: AnswerFacts,
    rules: CauseRules,
    *,
    answerable: bool | None = None,
) -> Loss:
    """Return the cause of a query of a system that answers.

    `ranking` is None if the system has no ranking. `answerable` is None if nothing tells whether
    the question has an answer; if it has none, to decline is `right`, and any other answer
    `should_have_refused`. The cause is `unknown` where it is not sure that the answer declines, and
    nothing else tells. A failed answer is `failed`, one that was not asked for `unknown`; a right
    answer is `right` even if it refuses or its passages lack the gold. Another answer has the loss
    of its passages, if these lack the gold; else a refusal is `refused`, also if nothing tells
    whether the question has an answer, and a wrong answer is `unsupported`, `not_used` or
    `unknown`. One without a gold answer is `right` if a judge found it supported, `unsupported` if
    not, and else `unknown`.

    Example:
        >>> ranking = RankingFacts(gold=1, ranks=((1, "d12"),), retrieved=100)
        >>> answer = AnswerFacts(passages=5, is_right=False, right_how="token_f1 0.1 < 0.5")
        >>> cause_of_answer(ranking, answer, CauseRules())[:2]
        ('not_used', 'gold d12 at rank 1, reads 5; token_f1 0.1 < 0.5')
        >>> refusal = AnswerFacts(refuses=True)
        >>> cause_of_answer(ranking, refusal, CauseRules(), answerable=False).cause
        'right'
    """
    if not answer.was_asked:
        return Loss("unknown", f"not asked: {answer.failed}")
    if answer.failed is not None:
        return Loss("failed", f"no answer: {answer.failed}")
    if answerable is False:
        if answer.refuses:
            return Loss("right", f"the question has no answer, and the reply {answer.refuses_how}")
        if answer.refuses is None:
            return Loss("unknown", f"the question has no answer, and {_MAY_DECLINE}")
        return Loss("should_have_refused", "the question has no answer, and the reply gives one")
    loss, evidence = _loss_or_evidence(ranking, answer, rules)
    # a refusal with a right answer in it ("not in the passages; it is Paris") counts as the answer
    if answer.refuses and not answer.is_right:
        refusal = f"the answer {answer.refuses_how}"
        # what was not read explains a refusal better than the refusal itself
        if loss is not None:
            return Loss(loss.cause, _join(loss.why, refusal))
        # without any gold, refusals are counted all the same: weeks of logs are compared by them
        is_known = _should_answer(answer, answerable)
        doubt = "" if is_known else "nothing tells whether the question has an answer"
        return Loss("refused", _join(evidence, refusal, doubt))
    if answer.refuses is None and not answer.is_right and loss is None:
        return Loss("unknown", _join(evidence, answer.right_how, _MAY_DECLINE))
    if answer.is_right:
        # right from the memory of the model: right all the same, and `why` says so
        although = f"although {loss.why}" if loss else ""
        doubt = f"yet {answer.supported_how}" if answer.has_unsupported else ""
        why = _join(answer.right_how, although, doubt)
        return Loss("right", why, unsupported=answer.has_unsupported)
    return _cause_if_not_right(loss, evidence, answer)


def forbidden_first(loss: Loss, answer: AnswerFacts) -> Loss:
    """Return `read_forbidden` for an answer that is not right and has read a forbidden passage.

    The cause of another answer is returned as it is.

    Example:
        >>> forbidden_first(Loss("refused", "reads 5"), AnswerFacts(forbidden="hr-7"))[:2]
        ('read_forbidden', 'read hr-7, which must never come up; else refused: reads 5')
    """
    if loss.cause == "right" or not answer.forbidden or answer.failed is not None:
        return loss
    read = f"read {answer.forbidden}, which must never come up"
    return Loss("read_forbidden", _join(read, f"else {loss.cause}: {loss.why}"))


def right_value(
    loss: Loss, answer: AnswerFacts, *, answerable: bool | None = None
) -> tuple[float, Cause]:
    """Return (value of the metric `right`, its cause) of an answer with a cause.

    The value is 1 for a right answer and 0 for one that is not. It is NaN where there is no answer,
    where a judge failed to check it, and where nothing tells: without a gold answer and a judge, or
    if the reply may decline a question that has no answer.

    Example:
        >>> answer = AnswerFacts(is_right=False, right_how="token_f1 0.1 < 0.5")
        >>> right_value(cause_of_answer(None, answer, CauseRules()), answer)
        (0.0, <Cause.SCORED: 0>)
    """
    if loss.cause == "right":
        return 1.0, Cause.SCORED
    if answer.failed is not None or answer.unscored.failed:
        return math.nan, answer.unscored
    if answerable is False:
        is_wrong = answer.refuses is False
    else:
        is_wrong = answer.is_right is False or _is_wrong_by_support(loss, answer, answerable)
    if is_wrong:
        return 0.0, Cause.SCORED
    # nothing else is open: the question has or lacks an answer, or the passages support the reply
    if answer.refuses is None and (answerable is not None or answer.is_supported):
        return math.nan, Cause.UNSURE_REFUSAL
    return math.nan, answer.unscored or Cause.NO_REFERENCE


def _should_answer(answer: AnswerFacts, answerable: bool | None) -> bool:
    """Return True if a reply that declines is wrong: by gold, or since a judge looked at it."""
    has_verdict = answer.is_right is not None or answer.is_supported is not None
    return answerable is True or has_verdict


def _is_wrong_by_support(loss: Loss, answer: AnswerFacts, answerable: bool | None) -> bool:
    """Return True if an answer without a gold answer is unsupported, declines, or is lost."""
    if answer.refuses and _should_answer(answer, answerable):
        return True
    if answer.is_supported is None:
        return False
    # a supported answer is wrong if its passages lack the gold
    return not answer.is_supported or loss.cause != "unknown"


def _cause_if_not_right(loss: Loss | None, evidence: str, answer: AnswerFacts) -> Loss:
    """Return the cause of an answer that is wrong, or that was compared with no gold answer."""
    if loss is not None:
        return Loss(loss.cause, _join(loss.why, answer.right_how))
    if answer.is_supported is False:
        return Loss("unsupported", _join(evidence, answer.right_how, answer.supported_how))
    if answer.is_right is False:
        if evidence:
            return Loss("not_used", _join(evidence, answer.right_how))
        nothing = "nothing tells whether the answer was in what was read"
        return Loss("unknown", _join(answer.right_how, nothing))
    # a failed check by the gold answer tells nothing, even if the passages support the answer
    if answer.unscored.failed:
        return Loss("unknown", _join(answer.right_how or "a judgement failed", evidence))
    if answer.is_supported:
        reason = f"no gold answer, but {answer.supported_how}"
        return Loss("right", _join(reason, evidence))
    return Loss("unknown", _join("no gold answer to hold the answer against", evidence))


def _loss_or_evidence(
    ranking: RankingFacts | None, answer: AnswerFacts, rules: CauseRules
) -> tuple[Loss | None, str]:
    """Return (loss, "") if the passages lack what the answer needs, else (None, evidence)."""
    ranking = ranking or RankingFacts(gold=None)
    passages = answer.passages if answer.passages is not None else rules.read
    reader = f"reads {passages}"
    if ranking.failed is not None or (ranking.gold is None and ranking.answer_rank is None):
        # without ranks of gold, the texts of the passages or a judge of them decide
        if answer.holds_answer is None:
            return None, ""
        if answer.holds_answer:
            return None, answer.holds_how
        cause: AnswerCause = "ranked_too_low" if ranking.answer_rank else "not_retrieved"
        return Loss(cause, answer.holds_how), ""
    if ranking.gold is None:
        if answer.holds_answer:
            return None, answer.holds_how
        loss = _cause_of_answer_rank(ranking, passages, reader)
        return (None, loss.why) if loss.cause == "found" else (loss, "")
    early_loss = _loss_before_reading(ranking, rules, passages, answer, reader)
    if early_loss is not None:
        return early_loss, ""
    if answer.unread_answer is not None:
        return answer.unread_answer, ""
    if answer.read is None:
        return None, f"{_first_gold(ranking)}, {reader}"
    rank_of = {document: rank for rank, document in ranking.ranks}
    # documents that the ranking lacks come last: passages need not be hits of this ranking
    last = len(rank_of) + 1
    best = min(answer.read, key=lambda document: (rank_of.get(document, last), document))
    position = f" at rank {rank_of[best]}" if best in rank_of else " among the passages"
    return None, f"gold {best}{position}, {reader}"


def _loss_before_reading(
    ranking: RankingFacts,
    rules: CauseRules,
    depth: int,
    answer: AnswerFacts,
    reader: str,
) -> Loss | None:
    """Return the loss in corpus or retrieval; None if enough gold was read."""
    gold, read_gold = ranking.gold or 0, answer.read
    if gold == 0:
        return Loss("not_in_corpus", "judged, and no document is relevant")
    needed = gold if rules.need == "all" else 1
    if read_gold is None and needed == 1 and ranking.ranks and ranking.ranks[0][0] <= depth:
        return None  # the usual case, without a set: queries with many gold documents are slow
    read: Collection[str] = {name for rank, name in ranking.ranks if rank <= depth}
    if read_gold is not None:
        read = read_gold
    absent = []
    for document in ranking.missing:
        if document not in read:
            absent.append(document)
    if absent and gold - len(absent) < needed:
        count = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        return Loss("not_in_corpus", f"gold {absent[0]}{count} not in the {ranking.searched}")
    if len(read) >= needed:
        return None
    return _loss_in_ranking(ranking, read, needed - len(read), depth, answer, reader)


def _loss_in_ranking(
    ranking: RankingFacts,
    read: Collection[str],
    n_lacking: int,
    depth: int,
    answer: AnswerFacts,
    reader: str,
) -> Loss:
    """Return the loss of gold in the corpus of which too little was read, by the ranking."""
    have = f"{len(read)} of {ranking.gold} gold {ranking.unit}s read" if read else ""
    if 0 < ranking.unplaced <= depth:
        reason = f"the passage at rank {ranking.unplaced} has no place in a document, and may hold"
        return Loss("unknown", _join(have, f"{reason} the gold; {reader}"))
    unread = [(rank, name) for rank, name in ranking.ranks if name not in read]
    if len(unread) < n_lacking:
        return _loss_of_absent_gold(ranking, have, depth, answer)
    # of several that are needed, the lowest one decides
    rank, document = unread[n_lacking - 1]
    # several chunks of one document may fill the passages before this rank is reached
    if answer.read is not None and rank <= depth:
        reader = f"below the {depth} passages that were read"
    return Loss("ranked_too_low", _join(have, f"gold {document} at rank {rank}, {reader}"))


def _loss_of_absent_gold(ranking: RankingFacts, have: str, depth: int, answer: AnswerFacts) -> Loss:
    """Return the loss of gold that no hit meets: `wrong_passage` if its document was read."""
    n_absent = (ranking.gold or 0) - len(ranking.ranks)
    many = f"{n_absent} gold {ranking.unit}{'s' if n_absent > 1 else ''}"
    gold_text = f"gold {ranking.example}" if ranking.gold == 1 else many
    hits = f"among {ranking.retrieved} hits" if ranking.retrieved else "found: no hit at all"
    reason = f"{gold_text} not {hits}"
    # a query that lacks only documents as a whole has no wrong passage of them
    if ranking.unit == "document" or not ranking.document_ranks:
        return Loss("not_retrieved", _join(have, reason))
    best = ranking.document_ranks[0]
    other = f"its document is there with another passage, at rank {best}"
    is_read = answer.reads_document if answer.read is not None else best <= depth
    return Loss("wrong_passage" if is_read else "not_retrieved", _join(have, reason, other))


def _cause_of_answer_rank(ranking: RankingFacts, depth: int, reader: str) -> Loss:
    """Return the cause of a query without judgements, by the first hit that has a gold answer."""
    rank = ranking.answer_rank
    if ranking.ambiguous:
        places = ", ".join(ranking.ambiguous[:3])
        return Loss("unknown", f"the gold passage stands in {places}: none is named as gold")
    if rank is None:
        return Loss("unknown", "no judgement, and no gold answer to look for in the hits")
    if rank == 0:
        return Loss("not_retrieved", f"{ranking.answer_how} in none of {ranking.retrieved} hits")
    where = f"{ranking.answer_how} in the hit at rank {rank}, {reader}"
    return Loss("found" if rank <= depth else "ranked_too_low", where)


def _first_gold(ranking: RankingFacts) -> str:
    """Return the best gold and its rank as `gold d12 at rank 1`; empty if none was retrieved."""
    if not ranking.ranks:
        return ""
    rank, document = ranking.ranks[0]
    return f"gold {document} at rank {rank}"


def _join(*reasons: str) -> str:
    """Join the reasons that are not empty by `; `; return "" if all are."""
    return "; ".join(filter(None, reasons))
