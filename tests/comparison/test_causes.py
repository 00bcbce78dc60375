"""Causes of lost answers: each rule by hand, the words of answers, and properties of any facts."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.cause_rules import (
    AnswerFacts,
    CauseRules,
    cause_of_answer,
    cause_of_ranking,
    right_value,
)
from ragbench.comparison.cause_rules import (
    RankingFacts as Ranking,
)
from ragbench.comparison.causes import SystemCauses, flow_of
from ragbench.comparison.slices import Slicing
from ragbench.records.causes import CAUSES, Loss
from ragbench.report.text import flow_lines
from ragbench.score.text.gold_words import GoldWords, has_no_answer
from ragbench.types import Cause

FIRST = Ranking(gold=1, example="d12", ranks=((1, "d12"),), retrieved=100)
LOW = Ranking(gold=1, example="d12", ranks=((14, "d12"),), retrieved=100)
FOURTH = Ranking(gold=1, ranks=((4, "d12"),))
NOWHERE = Ranking(gold=1, example="d12", retrieved=100)
ABSENT = Ranking(gold=1, example="d12", missing=("d12",), retrieved=100)
NONE_RELEVANT = Ranking(gold=0, retrieved=100)
UNJUDGED = Ranking(retrieved=10)
SPAN = Ranking(gold=1, example="d12 0-9", unit="span", document_ranks=(9,), retrieved=100)
TWO = Ranking(gold=2, example="d1", ranks=((2, "d1"), (9, "d2")), retrieved=100)
ALL = CauseRules(need="all")


@pytest.mark.parametrize(
    ("ranking", "rules", "cause"),
    [
        (FIRST, CauseRules(), "found"),
        (LOW, CauseRules(), "ranked_too_low"),
        (LOW, CauseRules(read=14), "found"),
        (NOWHERE, CauseRules(), "not_retrieved"),
        (Ranking(gold=2), CauseRules(), "not_retrieved"),
        (ABSENT, CauseRules(), "not_in_corpus"),
        (NONE_RELEVANT, CauseRules(), "not_in_corpus"),
        (UNJUDGED, CauseRules(), "unknown"),
        (
            Ranking(answer_rank=0, retrieved=10),
            CauseRules(),
            "not_retrieved",
        ),
        (Ranking(answer_rank=5, retrieved=10), CauseRules(), "found"),
        (Ranking(answer_rank=6, retrieved=10), CauseRules(), "ranked_too_low"),
        (Ranking(failed="timeout", gold=1), CauseRules(), "failed"),
        (TWO, CauseRules(), "found"),
        (TWO, ALL, "ranked_too_low"),
        (TWO, CauseRules(need="all", read=9), "found"),
        (
            Ranking(gold=2, ranks=((2, "d1"),), retrieved=9),
            ALL,
            "not_retrieved",
        ),
        (
            Ranking(gold=2, missing=("d2",), ranks=((2, "d1"),)),
            ALL,
            "not_in_corpus",
        ),
        (
            Ranking(gold=2, missing=("d2",), ranks=((2, "d1"),)),
            CauseRules(),
            "found",
        ),
        # the sixth passage is not read; of two spans in one passage both are
        (
            Ranking(gold=1, example="d1 0-9", unit="span", retrieved=9, unplaced=5),
            CauseRules(),
            "unknown",
        ),
        (
            Ranking(gold=1, example="d1 0-9", unit="span", retrieved=9, unplaced=6),
            CauseRules(),
            "not_retrieved",
        ),
        (
            Ranking(gold=2, unit="span", ranks=((1, "d1 0-9"),), retrieved=9),
            ALL,
            "not_retrieved",
        ),
        # the document is read, and its passage with the gold is nowhere
        (
            Ranking(gold=1, example="d1 0-9", unit="span", document_ranks=(2, 7), retrieved=9),
            CauseRules(),
            "wrong_passage",
        ),
        (
            Ranking(gold=1, example="d1 0-9", unit="span", document_ranks=(7,), retrieved=9),
            CauseRules(),
            "not_retrieved",
        ),
        (
            Ranking(
                gold=1, unit="span", ranks=((7, "d1 0-9"),), document_ranks=(2, 7), retrieved=9
            ),
            CauseRules(),
            "ranked_too_low",
        ),
        (
            Ranking(ambiguous=("a.md", "b.md"), retrieved=9),
            CauseRules(),
            "unknown",
        ),
        (
            Ranking(gold=2, unit="span", ranks=((5, "d1 0-9"), (5, "d1 9-12")), unplaced=1),
            ALL,
            "found",
        ),
    ],
)
def test_rankings(ranking, rules, cause, assert_message):
    lost = cause_of_ranking(ranking, rules)

    assert lost.cause == cause
    assert_message(lost.why)


WRONG = {"is_right": False, "right_how": "token_f1 0.1 < 0.5"}
RIGHT = {"is_right": True, "right_how": "token_f1 0.9 >= 0.5"}
LOW_FAITH = {"is_supported": False, "supported_how": "faithfulness 0.2 < 0.5"}
INVENTS = LOW_FAITH | {"has_unsupported": True}
HIGH_FAITH = {"is_supported": True, "supported_how": "faithfulness 1 >= 0.5"}
READ = {"read": frozenset(["d12"]), "passages": 5}
UNREAD = {"read": frozenset(), "passages": 5}


@pytest.mark.parametrize(
    ("ranking", "facts", "answerable", "cause"),
    [
        (FIRST, READ | RIGHT, True, "right"),
        (NOWHERE, UNREAD | RIGHT, True, "right"),
        (FIRST, READ | RIGHT | INVENTS, True, "right"),
        (FIRST, READ | WRONG, True, "not_used"),
        (FIRST, READ | WRONG | HIGH_FAITH, True, "not_used"),
        (FIRST, READ | WRONG | LOW_FAITH, True, "unsupported"),
        (LOW, UNREAD | WRONG, True, "ranked_too_low"),
        (LOW, UNREAD | WRONG | LOW_FAITH, True, "ranked_too_low"),
        (NOWHERE, UNREAD | WRONG, True, "not_retrieved"),
        (FIRST, UNREAD | WRONG, True, "ranked_too_low"),
        (ABSENT, UNREAD | WRONG, True, "not_in_corpus"),
        (FIRST, READ | WRONG | {"refuses": True}, True, "refused"),
        (NOWHERE, UNREAD | WRONG | {"refuses": True}, True, "not_retrieved"),
        (FIRST, READ | RIGHT | {"refuses": True}, True, "right"),
        (NONE_RELEVANT, {"refuses": True}, False, "right"),
        (NONE_RELEVANT, READ | WRONG, False, "should_have_refused"),
        (FIRST, {"failed": "timeout"}, True, "failed"),
        (NONE_RELEVANT, {"failed": "missing_answer"}, False, "failed"),
        (FIRST, {"failed": "no_relevant", "was_asked": False}, True, "unknown"),
        (UNJUDGED, READ | {"read": None}, None, "unknown"),
        (UNJUDGED, LOW_FAITH, None, "unsupported"),
        (UNJUDGED, HIGH_FAITH, None, "right"),
        (NOWHERE, UNREAD | HIGH_FAITH, True, "not_retrieved"),
        (UNJUDGED, WRONG | {"holds_answer": True, "holds_how": "x"}, True, "not_used"),
        (UNJUDGED, WRONG | {"holds_answer": False}, True, "not_retrieved"),
        (UNJUDGED, WRONG, True, "unknown"),
        (UNJUDGED, {"refuses": True}, None, "refused"),
        (FIRST, READ | WRONG | {"refuses": None}, True, "unknown"),
        (FIRST, READ | RIGHT | {"refuses": None}, True, "right"),
        (NOWHERE, UNREAD | WRONG | {"refuses": None}, True, "not_retrieved"),
        (NONE_RELEVANT, {"refuses": None}, False, "unknown"),
        (None, UNREAD | WRONG, True, "unknown"),
        (FIRST, WRONG | {"passages": 3}, True, "not_used"),
        (
            Ranking(gold=1, ranks=((4, "d12"),)),
            WRONG | {"passages": 3},
            True,
            "ranked_too_low",
        ),
        (NOWHERE, READ | WRONG, True, "not_used"),
        (SPAN, UNREAD | WRONG | {"reads_document": True}, True, "wrong_passage"),
        (SPAN, UNREAD | WRONG, True, "not_retrieved"),
    ],
)
def test_answers(ranking, facts, answerable, cause, assert_message):
    lost = cause_of_answer(ranking, AnswerFacts(**facts), CauseRules(), answerable=answerable)

    assert lost.cause == cause
    assert_message(lost.why)


def test_a_right_answer_with_unsupported_claims_is_flagged():
    invents = AnswerFacts(**READ | RIGHT | INVENTS)
    grounded = AnswerFacts(**READ | RIGHT | HIGH_FAITH)

    assert cause_of_answer(FIRST, invents, CauseRules()).unsupported
    assert not cause_of_answer(FIRST, grounded, CauseRules()).unsupported


@pytest.mark.parametrize(
    ("facts", "answerable", "value", "cause"),
    [
        (RIGHT, True, 1, Cause.SCORED),
        (WRONG, True, 0, Cause.SCORED),
        (WRONG | {"refuses": True}, True, 0, Cause.SCORED),
        (WRONG | {"refuses": None}, True, 0, Cause.SCORED),
        # without a gold answer: a judge of the passages, or the gold documents, may tell
        (HIGH_FAITH, None, 1, Cause.SCORED),
        (LOW_FAITH, None, 0, Cause.SCORED),
        ({"refuses": True}, True, 0, Cause.SCORED),
        ({"refuses": True}, None, None, Cause.NO_REFERENCE),
        ({"refuses": None}, None, None, Cause.NO_REFERENCE),
        ({"refuses": None}, True, None, Cause.UNSURE_REFUSAL),
        ({}, None, None, Cause.NO_REFERENCE),
        # a reply that may decline, or answer with support; either is wrong without support
        (HIGH_FAITH | {"refuses": None}, None, None, Cause.UNSURE_REFUSAL),
        (LOW_FAITH | {"refuses": None}, True, 0, Cause.SCORED),
        (HIGH_FAITH | {"refuses": True}, None, 0, Cause.SCORED),
        # a question without an answer is right if the reply declines
        ({"refuses": True}, False, 1, Cause.SCORED),
        ({"refuses": False}, False, 0, Cause.SCORED),
        ({"refuses": None}, False, None, Cause.UNSURE_REFUSAL),
        # a failed answer, and one that was not asked for
        ({"failed": "timeout", "unscored": Cause.TIMEOUT}, True, None, Cause.TIMEOUT),
        ({"failed": "timeout", "unscored": Cause.TIMEOUT}, False, None, Cause.TIMEOUT),
        (
            {"failed": "no_relevant", "was_asked": False, "unscored": Cause.NO_RELEVANT},
            True,
            None,
            Cause.NO_RELEVANT,
        ),
        # the judge of the answer failed
        ({"unscored": Cause.SERVER_ERROR}, True, None, Cause.SERVER_ERROR),
        ({"unscored": Cause.SERVER_ERROR, "refuses": True}, True, None, Cause.SERVER_ERROR),
        (HIGH_FAITH | {"unscored": Cause.SERVER_ERROR}, True, None, Cause.SERVER_ERROR),
        (LOW_FAITH | {"unscored": Cause.SERVER_ERROR}, True, None, Cause.SERVER_ERROR),
    ],
)
def test_the_value_of_right(facts, answerable, value, cause):
    answer = AnswerFacts(**facts)
    loss = cause_of_answer(UNJUDGED, answer, CauseRules(), answerable=answerable)

    right, unscored = right_value(loss, answer, answerable=answerable)

    assert (None if math.isnan(right) else right, unscored) == (value, cause)


founds = st.builds(
    Ranking,
    failed=st.sampled_from([None, None, "error"]),
    gold=st.sampled_from([None, 0, 1, 2]),
    example=st.just("a"),
    missing=st.sampled_from([(), ("a",)]),
    ranks=st.sampled_from([(), ((1, "b"),), ((7, "b"),), ((2, "b"), (8, "c"))]),
    retrieved=st.integers(0, 10),
    answer_rank=st.sampled_from([None, 0, 3, 9]),
    ambiguous=st.sampled_from([(), (), ("a", "b")]),
    # never empty, or the reason would lack its subject
    answer_how=st.just("the gold answer stands"),
)
saids = st.builds(
    AnswerFacts,
    failed=st.sampled_from([None, None, None, "timeout"]),
    passages=st.sampled_from([None, 0, 5]),
    read=st.sampled_from([None, frozenset(), frozenset("b")]),
    holds_answer=st.sampled_from([None, True, False]),
    refuses=st.sampled_from([None, True, False]),
    holds_how=st.just("has it"),
    is_right=st.sampled_from([None, True, False]),
    right_how=st.just("token_f1 0.5"),
    is_supported=st.sampled_from([None, True, False]),
    supported_how=st.just("faithfulness 0.5"),
    unscored=st.sampled_from([Cause.SCORED, Cause.NO_CLAIMS, Cause.UNREADABLE]),
)
rules = st.builds(CauseRules, read=st.integers(1, 8), need=st.sampled_from(["any", "all"]))
answerables = st.sampled_from([None, True, False])
VERDICTS = ("should_have_refused", "not_used", "unsupported")


@given(founds, saids, rules, answerables)
@settings(max_examples=30)
def test_each_has_one_cause_and_a_reason(ranking, facts, rules, answerable):
    answer = cause_of_answer(ranking, facts, rules, answerable=answerable)
    value, _ = right_value(answer, facts, answerable=answerable)
    assert (answer.cause == "right") == (value == 1)
    # causes by which the generator is wrong are a verdict
    if answer.cause in VERDICTS and not facts.unscored.failed:
        assert value == 0
    for lost in (cause_of_ranking(ranking, rules), answer):
        assert lost.cause in CAUSES
        assert lost.why
        assert "  " not in lost.why
        assert not lost.why.startswith(";")


@given(founds, saids, answerables)
@settings(max_examples=30)
def test_a_generator_that_reads_more_loses_nothing_to_rank(ranking, facts, answerable):
    few, many = CauseRules(read=2), CauseRules(read=10)
    if cause_of_ranking(ranking, few).cause == "found":
        assert cause_of_ranking(ranking, many).cause == "found"


@pytest.mark.parametrize(
    ("gold", "question", "answer", "right"),
    [
        (["Paris"], "What is the capital of France?", "It is Paris, France.", True),
        (["Paris"], "What is the capital of France?", "The capital of France is Lyon.", False),
        (["127 minutes"], "How long did it work?", "It worked for 45 minutes.", False),
        (["127 minutes"], "How long did it work?", "For 127 minutes on Venus.", True),
        (["Gustave Eiffel"], "Who built it?", "Gustave Flaubert built it.", False),
        (["Gustave Eiffel"], "Who built it?", "It was Eiffel.", True),
        (["It was MESSENGER that went there in 2011.", "MESSENGER"], "Who?", "In 2011.", False),
        (["yes"], "Is Io a moon?", "Yes, it is.", True),
        (["no"], "Is Io a planet?", "Yes, no doubt.", False),
        (["no"], "Is Io a planet?", "No information is given about this.", False),
        (["no"], "Is Io a planet?", "No, it is a moon.", True),
        (["No, parking is not allowed."], "Is parking allowed?", "Yes, parking is allowed.", False),
        (["Yes, dogs are allowed."], "May I bring my pet?", "No, no dogs are allowed.", False),
        (["Yes, dogs are allowed."], "May I bring my pet?", "Yes, dogs are welcome.", True),
        (["the red ball"], "Is the red ball or the blue ball bigger?", "the blue ball", False),
        (["the red ball"], "Is the red ball or the blue ball bigger?", "The red ball.", True),
        (["the red ball"], "Is the red ball or the blue ball bigger?", "Red.", True),
        (["5 March 2020"], "When?", "On 5 April 2020.", False),
        (["5 May 2020"], "When?", "On 5 April 2020.", False),
        (["May 5, 2020"], "When?", "April 5, 2020", False),
        (["5 May 2020"], "When?", "It was on 5 May 2020.", True),
        (["roughly 40 %"], "How much?", "40 %", True),
        (["$100"], "How much?", "$100,000", False),
        (["100000"], "How much?", "$100,000", True),
        (["Io", "Europa"], "Which moon?", "Europa.", True),
        (
            ["the big red spot of Jupiter"],
            "What is a storm?",
            "A storm of Jupiter: the red spot",
            True,
        ),
        (["Io"], "Which moon?", "", False),
        (["!?"], "Which moon?", "Io", False),
    ],
)
def test_words_decide(gold, question, answer, right):
    assert GoldWords(gold, question).share(answer).reaches(0.4) is right


LONG = "The refund is paid to the card that was charged, by a bank."


@pytest.mark.parametrize(
    ("gold", "passage", "how"),
    [
        ("30 days", "paid within 30 days.", 'the gold answer stands ("within 30 days.")'),
        ("30 days", "in 30 minutes, or the next business day", ""),
        ("1932", "in 1,932 cases", 'the gold answer stands ("in 1,932 cases")'),
        ("15 %", "a rate of 1.5 %", ""),
        ("Gustave Eiffel", "It was Eiffel.", ""),
        (LONG, f"So: {LONG}", 'the gold answer stands ("The refund is paid'),
        (LONG, "A refund is paid to your card.", "3 of 5 words of the gold answer are"),
        (LONG, "It is charged.", ""),
        # a short sentence says the same in other words of one sentence
        ("It lasts 24 months.", "Red. Its guarantee lasts 24 months.", "3 of 3 words of the gold"),
        ("It lasts 24 months.", "It runs for 24 months.", "2 of 3 words of the gold answer are"),
        ("It lasts 24 months.", "It lasts 12 months.", ""),
        ("It lasts 24 months.", "24 colours. It lasts months.", ""),
        ("lasts 24 months", "It runs for 24 months.", ""),
        ("What I get is Brno.", "You get Brno.", "1 of 1 words of the gold answer are"),
        ("What I get is Brno.", "Brno is a city.", ""),
    ],
)
def test_passages_hold_short_answers_word_by_word_and_long_ones_by_their_words(gold, passage, how):
    match = GoldWords([gold], "What do I get?").find_in(passage, 0.5)

    assert match.startswith(how)
    assert bool(match) == bool(how)


@pytest.mark.parametrize(
    ("gold", "share"), [("30 days", ""), ("It lasts 24 months.", "67%"), (LONG, "50%")]
)
def test_the_words_that_were_looked_for_have_the_share_that_counts(gold, share):
    target = GoldWords([gold], "What do I get?").name_target(0.5)

    assert ("%" in target, share in target) == (bool(share), True)


def test_gold_that_says_there_is_none():
    assert has_no_answer(["The documents do not say."])
    assert has_no_answer(["Le texte ne le dit pas.", ""])
    assert not has_no_answer(["Io", "unknown"])
    assert not has_no_answer(["None"]), "Venus has none: a right answer"
    assert not has_no_answer([])


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), max_size=4),
    st.sets(st.sampled_from("abcdef"), max_size=4),
    st.sampled_from([1, 3, 5]),
)
@settings(max_examples=30)
def test_gold_is_found_where_any_gold_document_is_read(places, missing, read):
    # Also where the corpus lacks some of what is relevant
    gold = sorted({*places, *missing})
    ranks = tuple(sorted((rank, name) for name, rank in places.items()))
    ranking = Ranking(gold=len(gold), missing=tuple(sorted(missing)), ranks=ranks, retrieved=9)

    cause, why, _ = cause_of_ranking(ranking, CauseRules(read=read))

    if ranks and ranks[0][0] <= read:
        assert (cause, why.partition(",")[0]) == (
            "found",
            f"gold {ranks[0][1]} at rank {ranks[0][0]}",
        )
    elif len(missing) == len(gold):
        assert cause == "not_in_corpus"
    else:
        assert cause == ("ranked_too_low" if ranks else "not_retrieved")


def test_shares_have_wilsons_interval():
    # 17 of 100 by the formula: (p + z^2/2n -+ z sqrt(pq/n + z^2/4n^2)) / (1 + z^2/n)
    lost = [Loss("right", "x")] * 83 + [Loss("refused", "x")] * 17
    shares = SystemCauses(lost).shares(0.95)

    z, p, n = NormalDist().inv_cdf(0.975), 0.17, 100
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    expected = [(p + z**2 / (2 * n) + sign * half) / (1 + z**2 / n) for sign in (-1, 1)]
    assert shares["refused"].count == 17
    assert shares["refused"].interval == pytest.approx(expected)
    assert set(shares) == {"right", "refused"}


causes = st.lists(st.tuples(st.sampled_from(CAUSES), st.sampled_from(CAUSES)), min_size=1)


@given(causes)
@settings(max_examples=30)
def test_counts_add_up_and_flows_keep_every_query(pairs):
    ids = [f"q{number}" for number in range(len(pairs))]
    old_causes, after = zip(*pairs, strict=True)
    flow = flow_of("new", "old", [*zip(old_causes)], [*zip(after)], ids)
    moved = [query for move in flow.moves for query in move.queries]

    assert flow.same + len(moved) == len(ids) == len({*moved}) + flow.same
    for move in flow.moves:
        for query in move.queries:
            assert pairs[ids.index(query)] == (move.before, move.after)
    counted = SystemCauses([Loss(cause, "x") for cause in after])
    assert sum(counted.counts().values()) == len(ids)
    assert list(counted.counts()) == list(CAUSES)
    labels = [("even" if number % 2 else "odd",) for number in range(len(ids))]
    sliced = counted.by_slice([Slicing("f", ("even", "odd"), labels)])["f"]
    assert sum(n for counts in sliced.values() for n in counts.values()) == len(ids)
    assert all(n for counts in sliced.values() for n in counts.values()), "no cause without queries"


def test_each_of_three_repetitions_is_a_third_of_its_query():
    names = [["right", "refused"], ["right", "not_used"], ["not_used", "not_used"]]
    first, *further = [[Loss(cause, "x") for cause in causes] for causes in names]
    counted = SystemCauses(first, further)

    # right 2 of 6, refused 1, not used 3: thirds of a query
    counts = {cause: n for cause, n in counted.counts().items() if n}
    assert counts == {"right": pytest.approx(2 / 3), "not_used": 1, "refused": pytest.approx(1 / 3)}
    assert isinstance(counts["not_used"], int), "whole numbers stay integers"
    assert counted.shares(0.95)["right"].share == pytest.approx(1 / 3)
    labels = [("a",), ("b",)]
    sliced = counted.by_slice([Slicing("f", ("a", "b"), labels)])["f"]
    assert sliced["a"] == {"right": pytest.approx(2 / 3), "not_used": pytest.approx(1 / 3)}


@pytest.mark.parametrize(
    ("old", "new", "same", "moves"),
    [
        # two of three repetitions stay, in any order
        (
            ["right", "right", "refused"],
            ["refused", "right", "not_used"],
            2 / 3,
            {("right", "not_used"): 1 / 3},
        ),
        # right 1/2 and refused 1/2 against right: half of the query moves
        (["right", "refused"], ["right"], 1 / 2, {("refused", "right"): 1 / 2}),
        (["right"], ["refused", "refused"], 0, {("right", "refused"): 1}),
    ],
    ids=["three to three", "two to one", "one to two"],
)
def test_parts_of_a_query_move(old, new, same, moves):
    flow = flow_of("new", "old", [old], [new], ["q1"])

    assert flow.same == pytest.approx(same)
    assert {(move.before, move.after): move.count for move in flow.moves} == pytest.approx(moves)
    assert all(move.queries == ("q1",) for move in flow.moves)


def test_gold_that_an_app_read_and_did_not_use_was_found():
    # From a retriever alone to an app: only the gold that is no longer read is lost.
    old = [["found"], ["found"], ["found"], ["not_retrieved"]]
    new = [["not_used"], ["not_retrieved"], ["right"], ["right"]]

    flow = flow_of("app", "bm25", old, new, ["q1", "q2", "q3", "q4"])

    assert flow_lines(flow)[0].startswith("bm25 -> app: 1 became found, 1 no longer found; ")
