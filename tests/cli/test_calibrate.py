"""`ragbench calibrate` end to end: run, draw, label, certify."""

import csv
import io
import json

import pytest

from tests.calibration.trial import JUDGE, judged
from tests.cli.bridges import bridge_records, label, truth
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


def test_draw_label_certify(calibrate, tmp_path, assert_message):
    code, out, notes = calibrate("--draw", 50, "-o", "sheet.csv")
    assert (code, out) == (0, "")
    assert_message(notes)

    rows = label(tmp_path / "sheet.csv", tmp_path / "done.csv", truth)
    questions = [row["question"] for row in rows if row["rubric"] == "answer_relevancy"]
    assert all(question.startswith("When was the bridge") for question in questions)
    assert {row["answer"][:2] for row in rows} == {"Th", "'="}
    code, tables, notes = calibrate("--labels", "done.csv", "-o", "judge.json")

    assert code == 0, notes
    assert_message(notes)
    certificate = json.loads((tmp_path / "judge.json").read_text(encoding="utf-8"))
    assert certificate["schema"] == "ragbench.certificate/1"
    assert list(certificate["rubrics"]) == ["faithfulness", "answer_relevancy"]
    entry = certificate["rubrics"]["faithfulness"]
    assert (entry["judge"], entry["model"]) == (JUDGE, "words/1")
    assert entry["labels"]["random"] is True
    assert entry["agreement"]["kappa"]["value"] == 1.0
    assert entry["agreement"]["kappa"]["interval"][0] < 0.95, "fifty labels prove no perfection"
    assert entry["corrected"]["good"]["status"] == "corrected"
    assert entry["rubric_fingerprint"] in entry["signature"]
    assert_message(lines_with(tables, "bridges: faithfulness by"))
    for part in ("Spearman's rho", "corrected mean", "lambda"):
        assert part in tables


@pytest.mark.parametrize("name", ["sheet.csv", "sheet.json"])
def test_draw_where_the_judge_is_unsure(calibrate, tmp_path, name, assert_message):
    arguments = ("--draw", 50, "--where", "unsure", "--rubric", "faithfulness", "-o", name)
    code, _, notes = calibrate(*arguments)
    assert code == 0, notes
    assert_message(notes)

    path, done = tmp_path / name, tmp_path / f"done{name[5:]}"
    if name == "sheet.csv":
        rows = label(path, done, truth)
    else:
        rows = json.loads(path.read_text(encoding="utf-8"))
        done.write_text(json.dumps([{**row, "label": truth(row)} for row in rows]))
    assert all(0 < float(row["probability"]) <= 1 for row in rows)
    code, tables, notes = calibrate("--labels", done.name, "-o", "judge.json")

    assert code == 0, notes
    assert_message(lines_with(tables, "by corrected mean: good"))
    certificate = json.loads((tmp_path / "judge.json").read_text(encoding="utf-8"))
    entry = certificate["rubrics"]["faithfulness"]
    assert entry["corrected"]["good"]["interval"][0] > 0.8
    assert entry["corrected_order"][0]["differs"] is True


@pytest.mark.parametrize(("options", "n"), [((), 60), (("--unit", "query"), 30)])
def test_more_than_all_answers_are_all_with_a_note(calibrate, options, n, assert_message):
    code, sheet, notes = calibrate("--draw", n + 1, "--rubric", "faithfulness", *options)

    assert code == 0, notes
    assert len([*csv.DictReader(io.StringIO(sheet))]) == 60
    assert_message(notes)
    _, _, notes = calibrate("--draw", n, "--rubric", "faithfulness", *options)
    assert "in place of" not in notes


def test_a_unit_is_for_a_draw_of_all_answers_alike(calibrate, assert_message):
    code, _, problem = calibrate("--draw", 50, "--where", "unsure", "--unit", "query")

    assert code == 2
    assert_message(problem)


def test_a_seed_of_0_is_a_seed(calibrate):
    _, _, notes = calibrate("--draw", 20, "--seed", 0)

    assert notes.rstrip().endswith("; seed 0")


def test_the_same_draw_twice_and_another_seed(calibrate):
    one, same, other = (calibrate("--draw", 20, "--seed", seed)[1] for seed in (1, 1, 2))

    assert one == same != other
    assert len(list(csv.reader(io.StringIO(one)))) == 41


def test_the_certificate_is_the_same_file_every_time(calibrate, tmp_path):
    calibrate("--draw", 40, "-o", "sheet.csv")
    label(tmp_path / "sheet.csv", tmp_path / "done.csv", truth)

    _, printed, _ = calibrate("--labels", "done.csv", "-o", "one.json", "--json")
    calibrate("--labels", "done.csv", "-o", "two.json")

    one = (tmp_path / "one.json").read_text(encoding="utf-8")
    assert one == (tmp_path / "two.json").read_text(encoding="utf-8") == printed
    assert str(tmp_path) not in one


def test_two_raters(calibrate, tmp_path, assert_message):
    calibrate("--draw", 50, "-o", "sheet.csv", "--rubric", "answer_relevancy")
    for name, by in (("anna", truth), ("ben", lambda row: max(truth(row) - 1, 2))):
        label(tmp_path / "sheet.csv", tmp_path / f"{name}.csv", by)

    code, tables, problems = calibrate("--labels", "anna.csv", "--labels", "ben.csv")

    assert code == 0, problems
    assert_message(lines_with(tables, "anna:label, ben:label"))
    assert "people and people" in tables


def test_whole_queries_of_one_system(calibrate):
    _, text, _ = calibrate("--draw", 5, "--unit", "query", "--rubric", "faithfulness")
    _, single, _ = calibrate("--draw", 5, "--system", "good", "--rubric", "faithfulness")

    assert len(list(csv.DictReader(io.StringIO(text)))) == 10
    rows = list(csv.DictReader(io.StringIO(single)))
    assert [row for row in rows if "pirates" in row["answer"]] == []


def test_one_sheet_certifies_every_judge_of_a_rubric(calibrate, tmp_path):
    judges = {
        name: {
            "type": "python:tests.words:Words",
            "rubrics": ["faithfulness"],
            "language": language,
        }
        for name, language in (("strict", "de"), ("loose", "en"))
    }
    both = judged(tmp_path, "both", bridge_records(), judge=judges)
    calibrate("--draw", 50, "-o", "sheet.csv", of=both)
    rows = label(tmp_path / "sheet.csv", tmp_path / "done.csv", truth)

    code, text, problem = calibrate("--labels", "done.csv", "--json", of=both)

    assert (code, len(rows)) == (0, 50), problem
    rubrics = json.loads(text)["rubrics"]
    assert list(rubrics) == ["faithfulness(judge=strict)", "faithfulness(judge=loose)"]
    assert [entry["judge"] for entry in rubrics.values()] == ["strict", "loose"]
    assert all(entry["labels"]["random"] for entry in rubrics.values())
    _, text, _ = calibrate(
        "--labels", "done.csv", "--json", "--rubric", "faithfulness(judge=loose)", of=both
    )
    assert list(json.loads(text)["rubrics"]) == ["faithfulness(judge=loose)"]


def test_a_labelled_sheet_is_never_overwritten(calibrate, tmp_path, assert_message):
    (tmp_path / "sheet.csv").write_text("precious", encoding="utf-8")

    code, _, problem = calibrate("--draw", 5, "-o", "sheet.csv")

    assert code == 2
    assert_message(problem)
    assert (tmp_path / "sheet.csv").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass one of --draw N, --labels FILE"),
        (["--draw", "5", "--labels", "x.csv"], "pass one of --draw N, --labels FILE"),
        (["--draw", "5", "--scale", "1..5"], "--scale is for --labels, --on, --probe and"),
        (["--labels", "x.csv", "--seed", "3"], "--seed is for --draw, --on and --probe"),
        (["--draw", "5", "--probe", "position"], "pass one of --draw N, --labels FILE"),
        (["--draw", "5", "--sample", "3"], "--sample is for --probe"),
        (["--draw", "5", "--trust", "http://x"], "--trust is for --probe"),
        (["--probe", "position", "--unit", "query"], "--unit is for --draw"),
        (["--probe", "verbosity"], "'verbosity' is not 'position'"),
        (["--probe", "position", "--rubric", "faithfulnes"], "did you mean 'faithfulness'?"),
        (["--draw", "0"], "--draw: found 0, allowed: 1 or more of 60 answers with a verdict"),
        (["--draw", "5", "--rubric", "faithfulnes"], "did you mean 'faithfulness'?"),
        (["--draw", "5", "--system", "god"], "--system: found 'god', allowed: good, bad; did you"),
        (["--labels", "x.csv"], "x.csv: no such file"),
        (["--labels", "x.csv", "--scale", "five"], "--scale: found 'five', allowed: two different"),
        (["--labels", "x.csv", "--column", "mine"], "found 'mine', allowed: NAME=VALUE"),
        (["--labels", "x.csv", "--confidence", "95"], "95.0 is not in the range 0<x<1"),
        (["--draw", "5", "-o", "/dev/null/sheet.csv"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(calibrate, arguments, message):
    code, out, problem = calibrate(*arguments)

    assert (code, out) == (2, "")
    assert message in problem
    assert "Traceback" not in problem


def test_a_good_label_is_on_the_scale(calibrate, tmp_path, assert_message):
    calibrate("--draw", 5, "-o", "sheet.csv", "--rubric", "faithfulness")
    label(tmp_path / "sheet.csv", tmp_path / "done.csv", truth)

    code, _, problem = calibrate("--labels", "done.csv", "--good", 4)

    assert code == 2
    assert_message(problem)


def test_a_run_without_a_judge(calibrate, tmp_path, repository, assert_message):
    import ragbench as rb
    from ragbench.records.manifest import Choices

    config = {
        "name": "plain",
        "dataset": {"type": "beir", "path": str(repository / "datasets" / "example")},
        "retrievers": {"bm25": {"type": "bm25"}},
        "statistics": {"resamples": 100},
        "output": str(tmp_path / "runs"),
    }
    folder = rb.run_experiment(config, choices=Choices(limit=3)).path

    code, _, problem = calibrate("--draw", 5, of=folder)

    assert code == 2
    assert_message(problem)


def test_questions_that_changed_since_the_run_are_refused(calibrate, tmp_path, assert_message):
    records = list(bridge_records())[:20]
    folder = judged(tmp_path, "moving", records)
    path = tmp_path / "moving.jsonl"
    path.write_text(path.read_text().replace("When was", "Why was"), encoding="utf-8")

    code, _, problem = calibrate("--draw", 5, of=folder)

    assert code == 2
    assert_message(problem)


def test_a_verdict_without_a_prediction_is_an_item_all_the_same(calibrate, tmp_path):
    run = judged(tmp_path, "bare", bridge_records(), ["faithfulness"])
    for path in (run / "predictions").iterdir():
        path.unlink()

    code, out, notes = calibrate("--draw", 10, of=run)

    assert code == 0, notes
    assert len({row["item"] for row in csv.DictReader(io.StringIO(out))}) == 10


def test_systems_are_named_as_their_owner_wrote_them(calibrate, tmp_path, assert_message):
    # `Original Ground Truth` is `Original-Ground-Truth` in the run that renamed it.
    names = {"good": "Original Ground Truth", "bad": "org/one, v2"}
    records = [{**row, "system": names[row["system"]]} for row in bridge_records()]
    run = judged(tmp_path, "named", records, ["faithfulness"])
    lines = [f'{row["id"]},"{row["system"]}",{0.5 if row["id"] < "q2" else 1}' for row in records]
    (tmp_path / "labels.csv").write_text("query_id,system,label\n" + "\n".join(lines), "utf-8")

    code, tables, problem = calibrate("--labels", "labels.csv", of=run)
    assert code == 0, problem
    assert "60 answers to 30 queries" in tables

    code, text, problem = calibrate("--draw", 3, "--system", "Original Ground Truth", of=run)
    assert code == 0, problem
    assert "pirates" not in text
    (tmp_path / "labels.csv").write_text("query_id,system,label\nq1,Original Truth,1\n", "utf-8")
    code, _, problem = calibrate("--labels", "labels.csv", of=run)
    assert code == 2
    assert_message(problem)
