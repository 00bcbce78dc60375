"""Lines of `ragbench gate` on scores, questions and a review made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from ragbench.comparison.matching import QueryChanges
from ragbench.data.runs.hit_list import Hit
from ragbench.data.runs.query_view import GoldDocument, QueryView, SystemView
from ragbench.records.comparison import ComparedRuns, RunSince
from ragbench.records.gate import Decision, Facts, WorseQuery
from ragbench.records.manifest import PredictionRow
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.formats import render
from ragbench.report.formats.base import Screen
from ragbench.report.gate import (
    ChangedScore,
    FailedGate,
    GateReview,
    WorseQueries,
    question_line,
    review_blocks,
    review_report,
    review_screen,
    verdict_line,
    with_link,
    worse_json,
)
from ragbench.report.table import SentenceList, TableReport, data_table

DECISION = Decision(
    verdict="fail",
    why="surely worse",
    gate="ndcg@10 not worse",
    system="ours",
    means=(0.557, 0.526),
    facts=Facts(difference=-0.031, interval=(-0.072, -0.005), n=70),
)
GAINS = np.array([-0.2] * 16 + [0.2] * 6 + [0.0] * 48 + [math.nan])
SCORE = ChangedScore("ndcg@10", "ours", DECISION, GAINS)
GOLD = ("bradley", "romer")


def line(*rankings, answers=("", "")):
    """The line of a question by the rankings of base and head, or of the head alone.

    Several answers of a side are separated by `|`.
    """
    views = []
    for ranking, answer in zip(rankings, answers, strict=False):
        texts = answer.split("|") if answer else ()
        rows = [PredictionRow(query_id="q48", answer=text, contexts=None) for text in texts]
        system = SystemView(
            name="ours",
            summary=SystemSummary(
                name="ours",
                retriever="ours",
                generator=None,
                type="retriever",
                ranking_of="ours",
                scores={},
            ),
            cause=None,
            why="",
            ranking=tuple(
                Hit(rank, name, 1.0, document=name, gold=(name,) if name in GOLD else ())
                for rank, name in enumerate(ranking, start=1)
            ),
            answers=tuple(rows),
            verdicts=(),
            scores={},
        )
        view = QueryView(
            id="q48",
            question="How was the speed\nof light found?",
            metadata={},
            answers=(),
            judged={"romer": 1, "bradley": 1},
            gold=tuple(GoldDocument(name, 1) for name in GOLD),
            needs=GOLD,
            systems=(system,),
        )
        views.append(({"q48": view}, "ours"))
    return question_line(views, WorseQuery(query_id="q48", score=0.0, baseline=0.5))


# the gold document romer stands at rank 3, then at none of ten
BASE, HEAD = ["a", "b", "romer"], ["dawn", *map(str, range(9))]
LINE = line(BASE, HEAD)
COMPARED = ComparedRuns(
    confidence=0.95,
    resamples=100,
    seed=1,
    sources=("main", "head"),
    queries=70,
    left_out={},
    systems=(),
    notes=(),
    runs=(RunSince(source="main", started=""), RunSince(source="head", started="", changed=("x",))),
)
BLIND = Decision(
    verdict="undecided", why="judge small was skipped: KEY is not set", gate="tone >= 0.5"
)


def worse(n):
    """Questions that got worse by `map`, of which each has the same line."""
    queries = [WorseQuery(query_id=f"q{i}", score=0.0, baseline=0.5) for i in range(n)]
    return WorseQueries("map", "ours", queries, lambda query: LINE, lambda query: f"What {query}?")


REVIEW = GateReview(
    scores=[SCORE],
    worse=[worse(1)],
    best=[],
    # seven removed questions: the line names five
    changes=QueryChanges(70, new=("q99",), removed=tuple(f"r{n}" for n in range(7))),
    compared=COMPARED,
    decisions=[DECISION, BLIND],
    failed=[],
    blind=[BLIND],
    facts=["ours: 3 became right (q1, q2, q3), 1 no longer right (q9)", ""],
    new_questions=[],
    config_changes=["judge added: small {model: m}"],
    skipped={"judge large": "KEY is not set"},
    summary=Summary(name="", systems=()),
    is_same=False,
)


def review_lines(review):
    return render(review_report(review)).splitlines()


def test_the_first_three_lines_are_for_the_reviewer(assert_message):
    assert_message(review_lines(REVIEW))


def gate_of(verdict, interval, score="map", decides=True):
    facts = Facts(difference=sum(interval) / 2, interval=interval, n=70)
    decision = structs.replace(DECISION, verdict=verdict, facts=facts)
    sign = 1 if sum(interval) > 0 else -1
    return ChangedScore(score, "ours", decision, np.array([sign * 0.2] * 9), decides)


def test_nothing_sure_stands_below_something_unsure(assert_message):
    loss, gain = gate_of("fail", (-0.3, -0.1)), gate_of("pass", (0.1, 0.3))
    drop, unsure = gate_of("fail", (-0.3, 0.1)), gate_of("pass", (-0.01, 0.02))
    least = Decision(
        verdict="fail", why="mean 0.5 over 60 queries", system="ours", gate="mrr >= 0.6"
    )
    within = structs.replace(DECISION, facts=Facts(difference=-0.1, interval=(-0.3, 0.1), n=70))
    review = replace(
        REVIEW,
        scores=[unsure, drop, gain, loss],
        failed=[FailedGate(within, "recall@5"), FailedGate(least, "mrr >= 0.6")],
    )

    lines = review_lines(review)[:8]

    assert_message([line.split(":")[0] for line in lines])


def test_an_unsure_loss_that_no_gate_decides_is_no_failure():
    assert " did not surely change: " in gate_of("fail", (-0.3, 0.1), decides=False).line


def test_from_the_ninth_line_on_the_news_stand_below_the_changed_judges(assert_message):
    review = replace(REVIEW, facts=[f"fact {n}" for n in range(8)])

    lines = review_lines(review)

    assert_message(lines[7:11])


@pytest.mark.parametrize(("n", "n_left"), [(12, 0), (13, 0), (20, 8)])
def test_more_news_are_counted(n, n_left):
    # one score and one gate without a look are news, too
    lines = review_lines(replace(REVIEW, facts=[f"fact {n}" for n in range(n)]))

    assert sum(line.startswith("fact ") for line in lines) == n - n_left
    assert [line for line in lines if line.startswith("and ")] == (
        [f"and {n_left} more lines on scores and facts: the page has all scores"] if n_left else []
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_screen_has_no_part_of_a_line_without_its_head(width):
    report = review_report(replace(REVIEW, worse=[worse(9)], facts=["fact"] * 9))
    moves = [f"  {n} right -> not used: q{n}" for n in range(20)]
    blocks = [*report.blocks[:3], SentenceList((*report.blocks[3].lines, "causes, a", *moves))]
    report = replace(report, blocks=(*blocks, *report.blocks[4:]))

    text = render(review_screen(report, Screen(width, is_terminal=True)), "table", Screen(width))

    lines = text.splitlines()
    assert len(lines) <= 24
    assert not any("right -> not used" in line or line.startswith("gate fail") for line in lines)
    assert sum(line.startswith("and ") and "more lines: " in line for line in lines) == 1
    assert lines[-1] == "gates: 1 fail, 1 undecided"


@pytest.mark.parametrize(("n", "n_more"), [(5, 0), (6, 1), (21, 16)])
def test_all_questions_that_got_worse_are_in_a_complete_report_and_in_json(n, n_more):
    other = replace(worse(2), measure="mrr")
    review = replace(REVIEW, worse=[worse(n), other])

    complete = render(review_report(review, is_complete=True)).splitlines()
    lines, listed = review_lines(review), worse_json(review)

    assert lines.count(LINE) == 5
    assert [line for line in lines if "more worse" in line] == (
        [f"and {n_more} more worse question{'s' * (n_more > 1)}: --verbose"] if n_more else []
    )
    assert complete.count(LINE) == n + 2, "of both scores"
    head = complete.index(f"ours: {n} questions got worse by map:")
    assert complete[head + 1 : head + 1 + n] == [LINE] * n
    assert not any("more worse" in line for line in complete)
    assert [entry["query_id"] for entry in listed[:n]] == [f"q{i}" for i in range(n)]
    assert listed[-1] == {
        **{"measure": "mrr", "system": "ours", "query_id": "q1", "score": 0.0, "baseline": 0.5},
        "question": "What q1?",
    }
    assert worse_json(replace(review, is_same=True)) == []


def test_the_comment_shows_foreign_text_as_it_is(assert_message):
    # would notify a user, link an issue, load a picture and run a command of GitLab
    hostile = "ask @alice about #1 ![x](https://evil.example/i.png) <img src=x> `a` --> /close"

    blocks = review_blocks(["ours got WORSE", "1 worse", hostile, hostile])
    review = TableReport(tuple(blocks), data_table((), ()))
    text = render(with_link(review, "https://ci.example/9"), "markdown").rstrip()

    escaped = (
        r"ask @&#8288;alice about #&#8288;1 !\[x\](https:&#8288;//evil.example/i.png) "
        r"&lt;img src=x&gt; \`a\` --&gt; /close"
    )
    assert text.count(escaped) == 2
    assert_message(text.replace(escaped, "ESCAPED"))


def test_an_incomplete_run_is_named_before_its_gates(assert_message):
    # a pass of an incomplete run would say too much
    cut_off = replace(REVIEW, summary=structs.replace(REVIEW.summary, complete=False))

    lines = review_lines(cut_off)

    assert_message(lines[2])


def test_equal_answers_of_an_incomplete_run_are_no_success(assert_message):
    summary = structs.replace(REVIEW.summary, complete=False)
    same = replace(REVIEW, is_same=True, summary=summary)

    assert_message(review_lines(same)[1])


def test_a_review_without_any_change_has_no_verdict(assert_message):
    same = replace(REVIEW, is_same=True, changes=QueryChanges(70), facts=[], skipped={})

    assert_message(review_lines(same))


@pytest.mark.parametrize(
    ("difference", "interval", "gain", "verdict", "words"),
    [
        (0.02, (0.01, 0.03), 0.02, "pass", "got BETTER: ter 0.500 -> 0.520 (+0.020, between"),
        (0.02, (-0.01, 0.05), 0.02, "pass", "did not surely change: ter 0.500 -> 0.520 (+0.020"),
        # lower is better: a rise is a loss, although its numbers are above 0
        (0.02, (0.01, 0.03), -0.02, "fail", "got WORSE: ter 0.500 -> 0.520 (+0.020, between"),
        (0.02, (-0.01, 0.05), -0.02, "pass", "did not surely change: ter 0.500 -> 0.520"),
        (0.02, (-0.01, 0.05), -0.02, "fail", "got WORSE, though not surely: ter 0.500 -> 0.520"),
        (
            0.02,
            (None, None),
            -0.02,
            "undecided",
            "did not surely change: ter",
        ),
    ],
)
def test_the_sentence_on_a_score(difference, interval, gain, verdict, words):
    facts = Facts(difference=difference, interval=interval)
    decision = structs.replace(DECISION, verdict=verdict, means=(0.5, 0.52), facts=facts)

    text = ChangedScore("ter", "a", decision, np.array([gain])).line

    assert text.startswith(f"a {words}")


def test_questions_without_both_scores_are_not_counted():
    assert SCORE.counts == "16 worse, 6 better of 70"


def test_sure_losses_then_sure_gains_then_right_answers_come_first():
    def passed(name, interval, gain):
        facts = Facts(difference=gain, interval=interval, n=60)
        return ChangedScore(
            name, "ours", structs.replace(DECISION, verdict="pass", facts=facts), GAINS + 1
        )

    sure, unsure = passed("map", (0.1, 0.3), 0.2), passed("map", (-0.1, 0.1), -0.01)
    right = passed("right", (-0.1, 0.2), 0.05)
    shuffled = [unsure, right, SCORE, sure]

    assert sorted(shuffled, key=lambda score: score.order) == [SCORE, sure, right, unsure]


def test_a_score_that_was_not_compared_says_why(assert_message):
    decision = Decision(verdict="undecided", why="only 3 of 9 unchanged (6 edited)")

    text = ChangedScore("ter", "a", decision, np.array([math.nan])).line

    assert_message(text)


def test_a_question_of_answers_shows_both(assert_message):
    text = line(BASE, BASE, answers=("In\n1676.", "Nobody knows."))

    assert_message(text)


def test_a_repeated_system_shows_the_first_answers_that_differ(assert_message):
    text = line(BASE, BASE, answers=("In 1676.|In 1676.", "In 1676.|Nobody knows."))

    assert_message(text)
    # answers with one beginning are shown from where they differ
    long = "It opened in the year in which the first rocket was built in the shed, "
    assert_message(line(BASE, BASE, answers=(f"{long}1932.", f"{long}1933.")))
    # equal answers explain nothing: the ranks may
    assert_message(line(BASE, HEAD, answers=("In 1676.", "In 1676.")))


def test_without_the_system_of_the_base_only_the_new_rank_is_shown(assert_message):
    assert_message(line(BASE))
    # the folder of a base whose rankings were deleted
    assert_message(line([], BASE))


def test_a_question_without_a_run_folder_has_its_id_and_scores():
    assert question_line([], WorseQuery(query_id="q1", score=0.5)) == "q1  0.500"


CHANGE = Facts(difference=-0.03902, interval=(-0.1036, 0.02056), n=70)
MEAN = Facts(mean=0.6073, interval=(0.5101, 0.6988), n=70)


@pytest.mark.parametrize(
    ("decision", "line"),
    [
        (
            Decision(
                verdict="fail",
                why="-0.03902 [-0.1036, +0.02056] over 70 queries: a drop by more than 0.01",
                means=(0.6, 0.561),
                facts=CHANGE,
            ),
            "ours got WORSE: ndcg 0.600 -> 0.561 (-0.039, between -0.104 and +0.021: no difference "
            "shown) over 70 queries: a drop by more than 0.01",
        ),
        (
            Decision(
                verdict="fail",
                why="-0.039 over these 70 queries: a drop by more than 0.01",
                means=(0.6, 0.561),
                facts=Facts(difference=-0.039, n=70),
            ),
            "ours got WORSE: ndcg 0.600 -> 0.561 (-0.039) over these 70 queries:"
            " a drop by more than 0.01",
        ),
        # `undecided: fail`: nothing shows that it got worse
        (
            Decision(
                verdict="fail",
                why="undecided, which counts as failed here: +0.1 over 9 queries",
                means=(0.5, 0.6),
                facts=Facts(difference=0.1),
            ),
            "ours FAILS: ndcg: 0.500 -> 0.600: undecided, which counts as failed here:"
            " +0.1 over 9 queries",
        ),
        (
            Decision(verdict="fail", why="mean 0.6073 over 70 queries", facts=MEAN),
            "ours FAILS: ndcg: mean 0.6073 over 70 queries, between 0.510 and 0.699",
        ),
        (
            Decision(
                verdict="fail", why="mean 0.6073 [0.5101, 0.6988] over 70 queries", facts=MEAN
            ),
            "ours FAILS: ndcg: mean 0.6073 [0.5101, 0.6988] over 70 queries",
        ),
        (
            Decision(verdict="undecided", why="refused: other data", refused=True),
            "ours FAILS: ndcg: refused: other data",
        ),
        (
            Decision(verdict="undecided", why="only 3 of 9 unchanged"),
            "ours is undecided: ndcg: only 3 of 9 unchanged",
        ),
    ],
)
def test_the_verdict_of_a_gate_has_each_number_once(decision, line):
    assert verdict_line(structs.replace(decision, system="ours"), "ndcg") == line


def test_a_verdict_without_a_system_is_on_the_judge(assert_message):
    assert_message(verdict_line(Decision(verdict="fail", why="kappa 0.4"), "tone"))
