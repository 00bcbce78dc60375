"""Ratings of a judge and of people in one table, against SciPy and against published figures."""

import csv
import json

import numpy as np
import pytest

import ragbench as rb
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import ONE_SYSTEM
from ragbench.calibration.rating_tables import read_ratings
from ragbench.calibration.ratings import Ratings
from ragbench.errors import DataError, RagbenchError
from tests.calibration.trial import lent_rows
from tests.lazy import Lazy

scipy = Lazy("scipy.stats")

FIVE = LabelScale(1, 5)


@pytest.fixture
def write(tmp_path):
    def to(text, name="ratings.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return to


def _table(n=40):
    """Rows of two systems; the judge rates 0 to 100, two people 1 to 5."""
    rng = np.random.default_rng(4)
    for query in range(n):
        for system in ("Our System", "theirs"):
            level = int(rng.integers(1, 6))
            anna, ben = (int(np.clip(level + rng.integers(-1, 2), 1, 5)) for _ in range(2))
            yield [f"q {query}", system, 20 * level - int(rng.integers(0, 20)), anna, ben]


def test_one_table_makes_a_certificate(calibrate, write, tmp_path, assert_message):
    rows = list(_table())
    lines = [",".join(map(str, row)) for row in rows]
    path = write("\n".join(["question_id,system,gpt,anna,ben", *lines]))
    output = tmp_path / "judge.json"

    code, tables, notes = calibrate(
        "--ratings", path, "--scale", "1..5", "--judge-scale", "0..100", "--column", "judge=gpt",
        "--column", "label=anna", "--column", "label=ben", "--rubric", "faithfulness",
        "--model", "gpt-x", "-o", output,
    )  # fmt: skip

    assert code == 0, notes
    assert_message(tables)
    certificate = json.loads(output.read_text("utf-8"))
    assert certificate["systems"] == ["Our System", "theirs"]
    rubric = certificate["rubrics"]["faithfulness"]
    assert (rubric["model"], rubric["rubric_fingerprint"]) == ("gpt-x", "")
    gpt, anna, ben = np.array([row[2:] for row in rows], float).T
    item = rubric["correlations"]["item"]["coefficients"]
    for name, of in (
        ("pearson", scipy.pearsonr),
        ("spearman", scipy.spearmanr),
        ("kendall", scipy.kendalltau),
    ):
        assert item[name]["value"] == pytest.approx(of(gpt, (anna + ben) / 2)[0])
    assert rubric["ceiling"]["spearman"]["value"] == pytest.approx(scipy.spearmanr(anna, ben)[0])


def test_several_judges_and_gaps(write):
    # `judge_1` gave no rating to q1; q2 has no label, which a corrected mean may use
    path = write(
        '{"id": 1, "judge_1": null, "judge_2": 3, "label": 4}\n'
        '{"id": 2, "judge_1": 2, "judge_2": 3, "label": ""}\n'
        '{"id": 3, "judge_1": 5, "judge_2": 1, "label": 1, "answer": "It is."}\n',
        "ratings.jsonl",
    )

    run, labels = read_ratings(path, FIVE, rubric="tone")

    one, two = run.scores.values()
    assert list(run.scores) == ["tone(judge=judge_1)", "tone(judge=judge_2)"]
    assert one.scores == {("given", "2"): 0.25, ("given", "3"): 1.0}
    assert one.unscored == {("given", "1"): "no_rating"}
    assert len(two.scores) == 3
    assert labels["tone"].by_rater == {"label": {("given", "1"): 4.0, ("given", "3"): 1.0}}
    assert len(labels["tone"].draws) == 3


def test_a_random_sample_corrects_the_mean(calibrate, write):
    rows = list(_table(60))
    lines = [f"{q},{s},{j},{a if n < 80 else ''}" for n, (q, s, j, a, _) in enumerate(rows)]
    path = write("\n".join(["item,system,judge,label", *lines]))

    code, text, notes = calibrate(
        "--ratings", path, "--scale", "1..5", "--judge-scale", "0..100", "--random", "--json"
    )

    assert code == 0, notes
    corrected = json.loads(text)["rubrics"]["judge"]["corrected"]["theirs"]
    assert (corrected["n_labels"], corrected["n_judged"]) == (40, 60)


GOOD = "id,system,judge,label\n1,a,3,4\n2,a,2,1\n"
TWO_PEOPLE = "id,judge,anna,ben,note\n1,3,4,yes,short\n2,2,1,no,long\n"


@pytest.mark.parametrize(
    ("text", "options", "place"),
    [
        (GOOD, [], "TMP/ratings.csv:2: label"),  # no scale
        (GOOD, ["--scale", "1..5", "--judge-scale", "ten"], "--judge-scale"),
        (GOOD, ["--scale", "0..1"], "TMP/ratings.csv:2: judge"),  # 3 is off the scale of 0 to 1
        (GOOD.replace(",3,", ",30,"), ["--scale", "1..5"], "TMP/ratings.csv:2: judge"),
        (GOOD.replace(",4", ",good"), ["--scale", "1..5"], "TMP/ratings.csv:2: label"),
        # the same answer twice
        (GOOD.replace("2,a", "1,a"), ["--scale", "1..5"], "TMP/ratings.csv:3"),
        (GOOD.replace("judge", "gpt"), ["--scale", "1..5"], "TMP/ratings.csv:2"),
        (GOOD, ["--scale", "1..5", "--column", "judge=gpt"], "TMP/ratings.csv:2"),
        (GOOD, ["--scale", "1..5", "--column", "rater=label"], "--column: part"),
        # the only label column is the judge's
        (GOOD, ["--scale", "1..5", "--column", "judge=label"], "TMP/ratings.csv:2"),
        (
            GOOD,
            ["--scale", "1..5", "--column", "judge=label", "--column", "label=label"],
            "--column",
        ),
        # two columns for one part
        (
            GOOD,
            ["--scale", "1..5", "--column", "system=label", "--column", "system=judge"],
            "--column: system",
        ),
        (GOOD.replace("1,a", ",a"), ["--scale", "1..5"], "TMP/ratings.csv:2: id"),
        # no pair of judge and label
        (GOOD.replace(",4", ",").replace(",1\n", ",\n"), ["--scale", "1..5"], "TMP/ratings.csv"),
        (GOOD, ["--scale", "1..5", "--sample", "3"], "Usage"),
        (GOOD, ["--scale", "1..5", "--labels", "x"], "Usage"),
        (GOOD, ["--scale", "1..5", "--rubric", "a", "--rubric", "b"], "Usage"),
        (GOOD.replace(",4", ",1"), [], "TMP/ratings.csv:2: all labels are 1"),
        (GOOD, ["--scale", "1..5", "--by", "dataset"], "--by"),
        # no label at all
        ("id,judge,label\n1,1,\n2,0,\n", [], "TMP/ratings.csv"),
        # columns that may hold labels are named
        (TWO_PEOPLE, ["--scale", "1..5"], "TMP/ratings.csv:2"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_exit_2(calibrate, write, text, options, place, assert_message):
    code, out, problem = calibrate("--ratings", write(text), *options)

    assert (code, out) == (2, "")
    assert_message(problem, place)
    assert "Traceback" not in problem


def test_a_run_and_a_table_do_not_go_together(calibrate, write):
    assert "--ratings takes no RUN" in calibrate("runs/x", "--ratings", write(GOOD))[2]
    assert "Missing argument 'RUN'" in calibrate("--draw", 3)[2]
    with pytest.raises(RagbenchError, match="no such file"):
        read_ratings(write(GOOD).with_name("none.csv"), FIVE)


# Spearman's and Kendall's correlation of ROUGE-1 with experts, question by question
PUBLISHED = {  # Zhong et al. (2022), UniEval, table of SummEval; again in Liu et al. (2023), G-Eval
    "consistency": (0.160, 0.130),
    "relevance": (0.326, 0.252),
}


@pytest.mark.slow
def test_rouge_1_on_summeval_is_what_papers_print(lent_data, calibrate, tmp_path):
    # To .003, as the papers used another port of ROUGE; over all items some are .04 away
    references = {
        row["doc_id"]: row["references"]
        for row in lent_rows(lent_data / "summeval/documents.jsonl.gz")
    }
    path = tmp_path / "rouge.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "system", "judge", *PUBLISHED])
        for row in lent_rows(lent_data / "summeval/ratings.jsonl.gz"):
            scores = [
                rb.rouge(row["summary"], [reference], ["rouge1"], stemmer=True)["rouge1"].fmeasure
                for reference in references[row["doc_id"]]
            ]
            ratings = [row[aspect] for aspect in PUBLISHED]
            writer.writerow([row["doc_id"], row["system"], np.mean(scores), *ratings])

    coefficients = {}
    for aspect in PUBLISHED:
        options = ["--scale", "1..5", "--judge-scale", "0..1", "--column", f"label={aspect}"]
        code, text, problem = calibrate("--ratings", path, *options, "--json")
        assert code == 0, problem
        level = json.loads(text)["rubrics"]["judge"]["correlations"]["question"]
        coefficients[aspect] = [
            level["coefficients"][name]["value"] for name in ("spearman", "kendall")
        ]

    for aspect, values in PUBLISHED.items():
        assert coefficients[aspect] == pytest.approx(values, abs=0.003)


@pytest.mark.parametrize("column", ["answer", "document_id", "docid"])
def test_judged_passages_of_a_query_stand_apart_and_vary_together(tmp_path, column):
    # two queries with three passages each, the same ids in both
    rows = [f"q{n},d{m},{m},{n + m}" for n in (0, 1) for m in (0, 1, 2)]
    path = tmp_path / "passages.csv"
    path.write_text("\n".join([f"query_id,{column},judge,label", *rows, ""]))
    run, labels = read_ratings(path, LabelScale(0, 3))
    (score,) = run.scores.values()
    ratings = Ratings.of(score, next(iter(labels.values())), LabelScale(0, 3))
    assert len(ratings.keys) == 6
    assert ratings.queries.tolist() == ["q0"] * 3 + ["q1"] * 3
    assert run.systems == (ONE_SYSTEM,)
    path.write_text("\n".join([f"query_id,{column},judge,label", *rows, rows[-1], ""]))
    with pytest.raises(DataError):
        read_ratings(path, LabelScale(0, 3))
