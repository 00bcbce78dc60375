"""Noise in words and tables: the line of the terminal, and the chapter of the page."""

import pytest

from ragbench.records.comparison import no_comparisons
from ragbench.report.noise import noise_chapter, noise_sentence, purchase_sentence
from tests.report import example
from tests.report.pages import records


def share(value):
    return {"share": value, "low": max(0.0, value - 0.1), "high": min(1.0, value + 0.1)}


FLIPS = [{"query_id": f"q{n}", "pass_rate": 1 / 3, "passed": 2, "failed": 0} for n in range(13)]
# .05 x the roots of .64, .32 and .04 are .04, .028 and .01
NOISE = {
    "n": 80,
    "half_width": 0.05,
    "questions": share(0.64),
    "app": share(0.32),
    "judge": share(0.04),
    "buy": [{"level": "questions", "times": 2.0, "half_width": 0.0354}],
    "flips_by": "app",
    "flipping": FLIPS,
}


def summary_with(noise, system="hybrid/gpt"):
    """The example, in which a system was repeated."""
    record = example.summary()
    next(s for s in record["systems"] if s["name"] == system)["noise"] = {"right": noise}
    return records(record, example.comparisons())[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            "+-0.05: 0.04 from the questions, 0.03 from your app, 0.01 from the judge "
            "(squares add up); 13 of 80 questions flip",
        ),
        (
            {"judge": None, "flips_by": "app or judge"},
            "+-0.05: 0.04 from the questions, 0.03 from your app (squares add up); "
            "13 of 80 questions flip (app or judge)",
        ),
        (
            {"flips_by": None, "n_partly_failed": 9},
            "+-0.05: 0.04 from the questions, 0.03 from your app, 0.01 from the judge "
            "(squares add up); 9 of 80 questions fail in some repeats",
        ),
        (
            {"questions": share(0.0), "app": share(0.0), "judge": None, "flipping": []},
            "+-0.05: no score varies; 0 of 80 questions flip",
        ),
        ({"half_width": None}, ""),
    ],
    ids=["all", "unrepeated judge", "graded", "constant", "no interval"],
)
def test_the_line_splits_the_half_width(changes, expected):
    start = "right of hybrid/gpt has an interval of " if expected else ""
    assert noise_sentence("right", summary_with(NOISE | changes)) == start + expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"questions": share(0.0), "app": share(0.0), "judge": None, "flipping": []},
            "; 0 of 80 questions flip, 12 fail in some repeats",
        ),
        (
            {"judge": None},
            "; without failures +-0.05: 0.04 from the questions, 0.03 from your app "
            "(squares add up); 13 of 80 questions flip, 12 fail in some repeats",
        ),
    ],
    ids=["the answers are equal", "the answers vary too"],
)
def test_failed_repetitions_leave_the_score_open(changes, expected):
    record = example.summary()
    system = next(s for s in record["systems"] if s["name"] == "hybrid/gpt")
    system["noise"] = {"right": NOISE | {"n_partly_failed": 12} | changes}
    system["scores"]["right"] = {**system["scores"]["faithfulness"], "mean": 1.0} | {
        "bounds": [0.8, 1.0]
    }
    summary, _ = records(record, example.comparisons())

    start = "right of hybrid/gpt: mean from 0.800 to 1.00, had all been scored"
    assert noise_sentence("right", summary) == start + expected


def test_a_score_other_than_right_is_named():
    record = example.summary()
    system = next(s for s in record["systems"] if s["name"] == "hybrid")
    system["noise"] = {"ndcg@10": NOISE | {"flips_by": None}}
    summary, _ = records(record, example.comparisons())

    start = "ndcg@10 of hybrid has an interval of +-0.05: "
    assert noise_sentence("ndcg@10", summary).startswith(start)


def test_a_repeated_judge_has_the_line_where_right_was_not_repeated():
    record = example.summary()
    system = next(s for s in record["systems"] if s["name"] == "hybrid/gpt")
    del system["scores"]["faithfulness"]["bounds"]
    graded = NOISE | {"flips_by": None, "app": None, "flipping": []}
    system["noise"] = {"rouge1": graded | {"judge": None}, "faithfulness": graded}
    summary, _ = records(record, example.comparisons())
    text = "faithfulness of hybrid/gpt has an interval of +-0.05: 0.04 from the questions, "
    text += "0.01 from the judge (squares add up)"

    assert noise_sentence("right", summary) == text
    system["noise"] = {"rouge1": graded | {"judge": None}}
    summary, _ = records(record, example.comparisons())
    assert noise_sentence("right", summary) == ""


def test_purchases_of_an_equal_sum_are_compared():
    buy = [*NOISE["buy"], {"level": "app", "times": 3.0, "half_width": 0.0444}]
    text = "twice the cost leaves +-0.0354 with 2 x the questions, +-0.0444 with 3 x the app"

    assert purchase_sentence("right", summary_with(NOISE | {"buy": buy})) == text
    assert purchase_sentence("right", summary_with(NOISE)) == "", "one purchase is no choice"


def test_the_chapter_lists_shares_and_flipping_questions():
    chapter = noise_chapter(summary_with(NOISE), no_comparisons())

    shares, flips = chapter.grids
    [row] = shares.rows
    assert [str(cell) for cell in row][:4] == ["hybrid/gpt", "right", "0.0500", "64% [54%, 74%]"]
    assert "2 x questions: +-0.0354" in str(row[-1])
    assert len(flips.rows) == 13


def test_a_run_without_repeats_has_no_chapter():
    summary, _ = records(example.summary(), example.comparisons())

    assert noise_chapter(summary, no_comparisons()) is None
    assert noise_sentence("right", summary) == ""
