"""Scores between two levels: what passes, and whom split raters disagree with."""

import json

import numpy as np
import pytest

import ragbench as rb
from ragbench.calibration.judged_run import JudgedScore
from ragbench.calibration.label_scale import LabelScale
from ragbench.errors import OptionError
from ragbench.score.judge.rubric import load_rubric
from tests.lazy import Lazy

pd = Lazy("pandas")

# score of the judge -> labels of people, 1 for pass; two thirds of the answers score 0.5
ROWS = []
for number in range(30):
    score = (0.0, 0.5, 0.5)[number % 3] if number < 24 else 1.0
    label = int(score == 1.0 or number % 12 == 1)
    row = {"id": f"q{number}", "question": f"{number}?", "answer": f"{score}", "human": label}
    ROWS.append({**row, "contexts": ["a passage"]})


def share(answer):
    return float(answer)


@pytest.mark.parametrize(
    ("judge_good", "confusion", "words"),
    [
        # 8 answers score 0, 16 score 0.5, 6 score 1; people pass 2 of those with 0.5
        (None, {"pass": {"pass": 6, "fail": 2}, "fail": {"pass": 0, "fail": 22}}, "above 0.5"),
        (0.5, {"pass": {"pass": 8, "fail": 0}, "fail": {"pass": 14, "fail": 8}}, "from 0.5"),
        (0.6, {"pass": {"pass": 6, "fail": 2}, "fail": {"pass": 0, "fail": 22}}, "from 0.6"),
    ],
)
def test_half_is_no_pass_unless_the_user_says_so(judge_good, confusion, words):
    result = rb.evaluate(ROWS, judge=share)
    check = rb.calibrate(result, "human", scale="0..1", judge_good=judge_good)

    rubric = check.certificate.rubrics["share"]
    assert rubric.confusion == confusion
    assert rubric.judge_good == f"scores {words}"
    wrong = confusion["pass"]["fail"] + confusion["fail"]["pass"]
    assert len(check.disagreements) == wrong
    assert rubric.agreement["raw"].value == pytest.approx(1 - wrong / 30)


@pytest.mark.parametrize(
    ("options", "n_pass"),
    [((), 6), (("--judge-good", 0.5), 22), (("--judge-good", 0.6), 6)],
)
def test_the_command_has_the_same_rule(tmp_path, calibrate, options, n_pass):
    lines = ["query_id,judge,label"]
    for row in ROWS:
        lines.append(f"{row['id']},{row['answer']},{row['human']}")
    (tmp_path / "ratings.csv").write_text("\n".join(lines))

    code, printed, _ = calibrate(
        "--ratings", tmp_path / "ratings.csv", "--scale", "0..1", *options, "--json"
    )

    assert code == 0
    [rubric] = json.loads(printed)["rubrics"].values()
    assert sum(of["pass"] for of in rubric["confusion"].values()) == n_pass


@pytest.mark.parametrize(("passing", "levels"), [(None, [0, 0, 1, 1]), (0.5, [0, 0, 0, 1])])
def test_half_is_the_worse_level_where_lower_is_better(passing, levels):
    score = JudgedScore(
        *("hallucination", load_rubric("hallucination"), "judge", "model", "", {}, {}),
        passing=passing,
    )
    scale = LabelScale.of_score(score, LabelScale(0, 1))

    assert scale.nearest_levels(np.array([0.0, 0.4, 0.5, 0.6])).tolist() == levels


@pytest.mark.parametrize("score", ["0.0", "1.0"])
def test_split_raters_disagree_with_neither_level(score):
    rows = [{**row, "answer": score} for row in ROWS]
    labels = pd.DataFrame({"id": [row["id"] for row in rows], "a": 1, "b": 0})

    check = rb.calibrate(rb.evaluate(rows, judge=share), labels, scale="0..1")

    assert check.disagreements == []


@pytest.mark.parametrize(("answer", "n"), [("0.25", 0), ("0.5", 0), ("0.0", 30), ("0.75", 30)])
def test_raters_between_two_of_five_levels_disagree_with_neither(answer, n):
    rows = [{**row, "answer": answer} for row in ROWS]
    labels = pd.DataFrame({"id": [row["id"] for row in rows], "a": 2, "b": 3})

    check = rb.calibrate(rb.evaluate(rows, judge=share), labels, scale="1..5")

    assert len(check.disagreements) == n


@pytest.mark.parametrize(("judge_good", "scale"), [(1.5, "0..1"), (-0.1, "0..1"), (0.5, "1..5")])
def test_a_passing_score_needs_two_levels_and_a_score(judge_good, scale):
    rows = [{**row, "human": row["human"] + 1} for row in ROWS] if scale == "1..5" else ROWS
    with pytest.raises(OptionError, match="--judge-good"):
        rb.calibrate(rb.evaluate(rows, judge=share), "human", scale=scale, judge_good=judge_good)
