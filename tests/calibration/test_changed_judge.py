"""Agreement before and after a change of the rubric: the answers that flipped."""

import csv
import json
import os
import shutil

import pytest

import ragbench as rb
from ragbench.calibration.earlier_agreement import changed_agreements, changed_parts
from ragbench.calibration.judged_run import read_judged_run
from ragbench.calibration.label_files import read_labels
from ragbench.registry import source_print
from ragbench.score.judge.python import as_judge
from ragbench.score.judge.rubric import load_rubric

# answers of people: 20 good ones, 20 bad ones
LABELS = {f"q{n:02}": "yes" if n < 20 else "no" for n in range(40)}


# Step of the rubric -> numbers of the answers on which the judge is wrong.
WRONG = {"Old.": range(12, 24), "New.": range(18, 21)}


class Judge:
    """Judge that is right on all answers but some, by the steps of its rubric."""

    def __init__(self):
        self.label, self.model, self.options = "planted", "planted/1", {}

    def judge(self, item, rubric):
        number = int(item.answer.split()[-1])
        is_good = (number < 20) is not (number in WRONG[rubric.steps[0]])
        return rb.Verdict(score=float(is_good))


def _run(tmp_path, step):
    rubric = {"name": "grounded", "needs": ["answer"], "scale": {"no": "-", "yes": "+"}}
    config = {
        "name": "loop",
        "dataset": {"type": "records", "path": str(tmp_path / "answers.jsonl")},
        "metrics": {
            "judge": {"type": f"python:{__name__}:Judge", "rubrics": [{**rubric, "steps": [step]}]}
        },
        "output": str(tmp_path / "runs"),
    }
    return rb.run_experiment(config).path


@pytest.fixture
def folder(tmp_path):
    with (tmp_path / "answers.jsonl").open("w") as stream:
        for n, query in enumerate(LABELS):
            row = {"id": query, "question": f"{n}?", "contexts": ["-"], "answer": f"Answer {n}"}
            stream.write(json.dumps(row) + "\n")
    with (tmp_path / "labels.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("query_id", "label"), *LABELS.items()])
    return tmp_path


def test_the_function_of_a_judge_is_a_part_that_changes():
    earlier, later = (f"polite|judge:function|model:m:polite|code:{code}" for code in "ab")

    assert changed_parts(earlier, later) == ("code",)
    assert changed_parts(earlier, earlier) == ()


def test_the_source_of_a_class_is_a_part_of_its_signature():
    parts = as_judge(Judge()).signature_parts(load_rubric("fluency"))

    assert parts["code"] == source_print(Judge)


def test_a_new_rubric_is_compared_with_the_run_before(folder, calibrate, assert_message):
    _run(folder, "Old.")
    run = _run(folder, "New.")

    code, out, _ = calibrate(run, "--labels", folder / "labels.csv")

    assert code == 0
    # wrong before: 12 to 23; now: 18 to 20
    assert_message("\n".join(out.splitlines()[3:9]))
    judged = read_judged_run(run)
    labels = read_labels([folder / "labels.csv"], judged, [*judged.scores.values()], None, {})
    (change,) = changed_agreements(judged, judged.scores, labels, scale=None, confidence=0.95)
    flipped = {query for _, query in change.flipped}
    assert flipped == {f"q{n:02}" for n in (*range(12, 18), *range(21, 24))}
    assert change.difference.mean == pytest.approx(9 / 40)
    assert change.difference.lower > 0


def test_flipped_answers_are_in_the_file_and_on_the_page(folder, calibrate, assert_message):
    _run(folder, "Old.")
    run = _run(folder, "New.")
    options = (run, "--labels", folder / "labels.csv", "--disagreements")

    code, _, notes = calibrate(*options, folder / "d.csv")

    assert code == 0
    assert_message(notes)
    with (folder / "d.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["query_id"]: row for row in csv.DictReader(stream)}
    flips = {query: row["flip"] for query, row in rows.items()}
    # wrong before: 12 to 23; now: 18 to 20
    gained = dict.fromkeys([f"q{n}" for n in (*range(12, 18), *range(21, 24))], "gained")
    assert flips == dict.fromkeys(["q18", "q19", "q20"], "") | gained
    assert (rows["q12"]["judge_before"], rows["q12"]["judge"]) == ("1.0", "2.0")
    code, _, _ = calibrate(*options, folder / "d.html")
    page = (folder / "d.html").read_text(encoding="utf-8")
    assert page.count("came to agree</p>") == 9
    assert page.count("<h2>") == 12
    assert "before its rubric changed" in page


def test_the_same_rubric_and_a_first_run_have_no_change(folder):
    for _ in range(2):
        judged = read_judged_run(_run(folder, "Old."))
        labels = read_labels([folder / "labels.csv"], judged, [*judged.scores.values()], None, {})
        options = {"scale": None, "confidence": 0.95}
        assert not [*changed_agreements(judged, judged.scores, labels, **options)]


def test_answers_that_changed_meanwhile_are_left_out(folder):
    _run(folder, "Old.")
    path = folder / "answers.jsonl"
    path.write_text(path.read_text().replace('"Answer 30"', '"Another answer 30"'))
    judged = read_judged_run(_run(folder, "New."))
    labels = read_labels([folder / "labels.csv"], judged, [*judged.scores.values()], None, {})

    (change,) = changed_agreements(judged, judged.scores, labels, scale=None, confidence=0.95)

    assert len(change.shares) == 39
    assert ("given", "q30") not in change.shares


def test_without_an_earlier_run_the_certificate_in_the_file_is_compared(
    folder, calibrate, assert_message
):
    options = ("--labels", folder / "labels.csv", "-o", folder / "judge.json")
    earlier = _run(folder, "Old.")
    assert calibrate(earlier, *options)[0] == 0
    shutil.rmtree(earlier)

    run = _run(folder, "New.")
    code, out, _ = calibrate(run, *options)

    assert code == 0
    assert_message(out.splitlines()[3])
    # the file has the new certificate now
    assert "agreed on" not in calibrate(run, *options)[1]


def test_a_damaged_earlier_run_is_a_note(folder, calibrate, assert_message):
    earlier = _run(folder, "Old.")
    (earlier / "summary.json").write_text("{")
    run = _run(folder, "New.")
    later = (run / "summary.json").stat().st_mtime
    os.utime(earlier / "summary.json", (later - 5, later - 5))

    code, out, error = calibrate(run, "--labels", folder / "labels.csv")

    assert code == 0
    assert "grounded agrees with people on 37 of 40" in out
    assert_message(error)
