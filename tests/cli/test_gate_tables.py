"""`ragbench gate OLD NEW`: two files without a config, as teams whose app is not in Python have."""

import csv
import json
from xml.etree import ElementTree

import pytest

from tests.commands import run_command
from tests.messages import lines_with

N = 60


def rows(n_lost):
    """Rows whose gold document is the first hit, or the third in the first `n_lost` rows."""
    for n in range(N):
        hits = [f"d{n}", f"x{n}", f"y{n}"]
        hits = hits[::-1] if n < n_lost else hits
        answer = "no idea" if n < n_lost else f"It is {n}."
        ids = {"id": f"q{n}", "question": f"what is {n}", "retrieved": hits}
        yield {**ids, "relevant": [f"d{n}"], "answer": answer, "reference": str(n)}


def write_jsonl(path, n_lost, *left_out):
    lines = []
    for row in rows(n_lost):
        shortened = {key: value for key, value in row.items() if key not in left_out}
        lines.append(json.dumps(shortened) + "\n")
    path.write_text("".join(lines))


def write_changed(path, *left_out, **changes):
    """Write the rows without `left_out`, with other values in all rows but the first."""
    lines = []
    for n, row in enumerate(rows(0)):
        changed = {**row, **changes} if n else row
        lines.append(json.dumps({k: v for k, v in changed.items() if k not in left_out}) + "\n")
    path.write_text("".join(lines))


def write_csv(path, n_lost):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "question", "retrieved", "relevant"])
        for row in rows(n_lost):
            hits, gold = json.dumps(row["retrieved"]), json.dumps(row["relevant"])
            writer.writerow([row["id"], row["question"], hits, gold])


@pytest.fixture
def gate(tmp_path):
    def run(*arguments):
        done = run_command("gate", *arguments, cwd=tmp_path)
        return done.returncode, done.stdout.splitlines(), done.stderr

    return run


def test_ids_that_are_surely_worse_fail(tmp_path, gate, assert_message):
    write_jsonl(tmp_path / "old.jsonl", 2, "answer", "reference")
    write_csv(tmp_path / "new.csv", 20)

    code, lines, err = gate("old.jsonl", "new.csv", "--junit", "gate.xml")

    assert code == 1, err
    # ndcg of the third rank: 1 / log2(4) = 0.5; means 1 - 2 * 0.5 / 60 and 1 - 20 * 0.5 / 60
    assert_message(lines[:2])
    assert (tmp_path / "gate.xml").read_text().count("<failure") == 1


def test_junit_and_json_name_the_rows_of_tables_without_ids(tmp_path, gate):
    write_jsonl(tmp_path / "old.jsonl", 0, "id", "answer", "reference")
    write_jsonl(tmp_path / "new.jsonl", 20, "id", "answer", "reference")

    code, lines, err = gate("old.jsonl", "new.jsonl", "--json", "--junit", "gate.xml")

    assert code == 1, err
    [decision] = json.loads("\n".join(lines))["gates"]
    worst = [(query["row"], query["question"]) for query in decision["worst_queries"]]
    # each of the first 20 rows lost the same
    assert len(worst) == 5
    assert all(question == f"what is {row - 1}" for row, question in worst)
    _, *failed = ElementTree.parse(tmp_path / "gate.xml").find(".//failure").text.splitlines()
    assert failed == [f"row {row} {question}  1.00 -> 0.500" for row, question in worst]


def test_answers_that_are_wrong_are_counted(tmp_path, gate, assert_message):
    write_jsonl(tmp_path / "old.jsonl", 20, "retrieved", "relevant")
    write_jsonl(tmp_path / "new.jsonl", 2, "retrieved", "relevant")

    code, lines, err = gate("old.jsonl", "new.jsonl")

    assert code == 0, err
    assert_message(lines[:2])


def test_questions_of_a_table_without_ids_are_named_by_their_rows(tmp_path, gate):
    write_jsonl(tmp_path / "old.jsonl", 0, "id", "retrieved", "relevant")
    write_jsonl(tmp_path / "new.jsonl", 2, "id", "retrieved", "relevant")

    _, lines, _ = gate("old.jsonl", "new.jsonl")

    assert lines[1].endswith("0 became right, 2 no longer right (row 1, row 2)")
    assert lines[2].startswith("row 1 what is 0  right 1.00 -> 0.00")


@pytest.mark.parametrize(("margin", "exit_code"), [("0.05", 1), ("0.4", 0)])
def test_the_margin_of_a_named_score_decides(tmp_path, gate, margin, exit_code, assert_message):
    write_jsonl(tmp_path / "old.jsonl", 0)
    write_jsonl(tmp_path / "new.jsonl", 20)

    code, lines, err = gate("old.jsonl", "new.jsonl", "-m", "mrr", "--max-drop", margin)

    assert code == exit_code, err
    assert_message(lines[0])


def test_run_files_and_a_baseline_file_may_stand_for_either(tmp_path, gate, assert_message):
    write_jsonl(tmp_path / "old.jsonl", 0)
    for name, gold in (("old.run", "d"), ("new.run", "x")):
        lines = [f"q{n} Q0 {gold if n < 30 else 'd'}{n} 1 1.0 t\n" for n in range(N)]
        (tmp_path / name).write_text("".join(lines))
    (tmp_path / "gold.qrels").write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(N)))

    code, lines, err = gate("old.run", "new.run", "--qrels", "gold.qrels", "--quiet")

    assert code == 1, err
    assert_message(lines[0])
    config = "name: r\ndataset: {type: records, path: old.jsonl}\n"
    (tmp_path / "r.yaml").write_text(config)
    assert run_command("run", "r.yaml", cwd=tmp_path).returncode == 0
    assert run_command("baseline", "runs/r", "-o", "base.json", cwd=tmp_path).returncode == 0
    for base in ("base.json", "runs/r"):
        write_jsonl(tmp_path / "new.jsonl", 20)

        code, lines, err = gate(base, "new.jsonl", "-m", "mrr@10")

        assert code == 1, err
        assert_message(lines[0])


@pytest.mark.parametrize("hits", [["z"], []], ids=["unknown ids", "empty"])
@pytest.mark.parametrize("left_out", [(), ("answer", "reference")], ids=["answers", "ids alone"])
def test_rankings_that_never_meet_the_gold_of_the_base_score_0(tmp_path, gate, hits, left_out):
    write_changed(tmp_path / "old.jsonl", *left_out)
    lines = [json.dumps({**row, "retrieved": hits}) + "\n" for row in rows(0)]
    (tmp_path / "new.jsonl").write_text("".join(lines))

    code, lines, err = gate("old.jsonl", "new.jsonl")

    assert code == 1, err
    assert "ndcg@10 1.00 -> 0.00" in lines[0]


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"answer": None}, "answer"), ({"retrieved": None}, "retrieved documents")],
)
def test_answers_and_rankings_that_are_missing_make_a_table_incomplete(
    tmp_path, gate, changes, part, assert_message
):
    write_changed(tmp_path / "old.jsonl")
    write_changed(tmp_path / "new.jsonl", **changes)

    code, lines, err = gate("old.jsonl", "new.jsonl")

    assert code == 3, err
    assert_message(lines[1], "59 of 60 questions")


def test_missing_answers_of_a_table_are_not_tried_again(tmp_path, gate):
    write_changed(tmp_path / "old.jsonl")
    lines = []
    for n, row in enumerate(rows(0)):
        lines.append(json.dumps(row if n % 4 else {**row, "answer": None}) + "\n")
    (tmp_path / "new.jsonl").write_text("".join(lines))

    _, lines, _ = gate("old.jsonl", "new.jsonl", "-m", "contains", "--max-drop", "0.05")

    failures = lines_with(lines, "failures on 15 queries could turn pass")
    assert failures
    assert not lines_with(failures, "tries again")


@pytest.mark.parametrize("part", ["answer", "retrieved"])
def test_a_part_that_is_missing_everywhere_makes_a_table_incomplete(
    tmp_path, gate, part, assert_message
):
    write_changed(tmp_path / "old.jsonl")
    write_jsonl(tmp_path / "new.jsonl", 0, part)

    code, lines, err = gate("old.jsonl", "new.jsonl")

    assert code == 3, err
    assert_message(lines[1], "60 of 60 questions")


def test_answers_that_the_base_lacks_as_well_are_not_missed(tmp_path, gate):
    write_changed(tmp_path / "old.jsonl", answer=None)
    write_changed(tmp_path / "new.jsonl", answer=None)

    code, _, err = gate("old.jsonl", "new.jsonl")

    assert code == 0, err


@pytest.fixture
def sources(tmp_path):
    """A table, its run folder and its baseline file as names of the base."""
    write_jsonl(tmp_path / "old.jsonl", 0)
    (tmp_path / "r.yaml").write_text("name: r\ndataset: {type: records, path: old.jsonl}\n")
    assert run_command("run", "r.yaml", cwd=tmp_path).returncode == 0
    assert run_command("baseline", "runs/r", "-o", "base.json", cwd=tmp_path).returncode == 0
    return "old.jsonl", "runs/r", "base.json"


def test_empty_rankings_everywhere_are_a_loss_whatever_the_base_is(tmp_path, gate, sources):
    lines = [json.dumps({**row, "retrieved": []}) + "\n" for row in rows(0)]
    (tmp_path / "new.jsonl").write_text("".join(lines))

    for base in sources:
        code, lines, err = gate(base, "new.jsonl")

        assert code == 1, err
        assert "ndcg@10 1.00 -> 0.00" in lines[0]


def test_rankings_of_the_base_that_meet_no_gold_are_refused(tmp_path, gate, assert_message):
    write_jsonl(tmp_path / "new.jsonl", 0)
    lines = [json.dumps({**row, "retrieved": ["z"]}) + "\n" for row in rows(0)]
    (tmp_path / "old.jsonl").write_text("".join(lines))

    code, lines, err = gate("old.jsonl", "new.jsonl")

    assert (code, lines) == (2, [])
    assert_message(lines_with(err, "old.jsonl"))


def test_a_table_with_half_of_the_questions_is_incomplete(tmp_path, gate, assert_message):
    write_jsonl(tmp_path / "old.jsonl", 0)
    half = (tmp_path / "old.jsonl").read_text().splitlines(keepends=True)[: N // 2]
    (tmp_path / "new.jsonl").write_text("".join(half))

    code, lines, err = gate("old.jsonl", "new.jsonl")

    assert code == 3, err
    assert_message(lines[:3])


@pytest.mark.parametrize("key", ["id", None])
def test_a_question_in_two_rows_is_refused(tmp_path, gate, assert_message, key):
    lines = []
    for row in rows(0):
        kept = {name: value for name, value in row.items() if key or name != "id"}
        lines.append(json.dumps(kept) + "\n")
    (tmp_path / "old.jsonl").write_text("".join(lines))
    (tmp_path / "new.jsonl").write_text("".join([*lines, lines[0]]))

    code, lines, err = gate("old.jsonl", "new.jsonl")

    assert (code, lines) == (2, [])
    assert_message(lines_with(err, "new.jsonl"))


@pytest.mark.parametrize("left_out", [("reference", "retrieved", "relevant"), ("relevant",)])
def test_tables_without_gold_are_refused(tmp_path, gate, assert_message, left_out):
    write_jsonl(tmp_path / "old.jsonl", 0, "reference", *left_out)

    code, lines, err = gate("old.jsonl", "old.jsonl")

    assert (code, lines) == (2, [])
    assert_message(lines_with(err, "old.jsonl"))


def test_a_table_without_a_question_is_told_the_names_of_columns(tmp_path, gate, assert_message):
    lines = [json.dumps({"id": str(n), "text": "x", "foo": "y"}) + "\n" for n in range(3)]
    (tmp_path / "old.jsonl").write_text("".join(lines))

    code, lines, err = gate("old.jsonl", "old.jsonl")

    assert (code, lines) == (2, [])
    assert_message(lines_with(err, "old.jsonl"))


@pytest.mark.parametrize("measure", ["tokenf1", "ndgc@10", "faithfulness"])
def test_a_score_that_no_table_has_is_refused(gate, sources, assert_message, measure):
    for base in sources:
        code, lines, err = gate(base, base, "-m", measure)

        assert (code, lines) == (2, [])
        assert_message(lines_with(err, "gate:"))


def test_judgements_beside_tables_are_refused(tmp_path, gate, assert_message):
    write_jsonl(tmp_path / "old.jsonl", 0)
    (tmp_path / "gold.qrels").write_text("q0 0 d0 1\n")

    code, lines, err = gate("old.jsonl", "old.jsonl", "--qrels", "gold.qrels")

    assert (code, lines) == (2, [])
    assert_message(lines_with(err, "old.jsonl"))


def test_the_decision_is_printed_for_programs(tmp_path, gate):
    write_jsonl(tmp_path / "old.jsonl", 0, "answer", "reference")
    write_jsonl(tmp_path / "new.jsonl", 20, "answer", "reference")

    code, lines, err = gate("old.jsonl", "new.jsonl", "--json")

    assert code == 1, err
    decision = json.loads("".join(lines))
    assert (decision["verdict"], decision["exit_code"], decision["complete"]) == ("fail", 1, True)
    assert decision["lines"][0].startswith("new.jsonl got WORSE: ndcg@10 1.00 -> 0.833 ")
    [gate_of_table] = decision["gates"]
    assert gate_of_table["means"] == pytest.approx([1, 1 - 20 * 0.5 / 60])
    # no formula for a spreadsheet, which CSV would mark with an apostrophe
    _, lines, _ = gate("old.jsonl", "new.jsonl", "--format", "csv")
    assert ',"1.00 -> 0.833: -0.1667' in lines[1]
    assert gate("old.jsonl", "new.jsonl", "--json", "--format", "csv")[0] == 2


@pytest.mark.parametrize("form", ["csv", "markdown", "latex", "json"])
def test_a_gate_that_passes_is_a_row(tmp_path, gate, form):
    write_jsonl(tmp_path / "old.jsonl", 0, "answer", "reference")

    code, lines, err = gate("old.jsonl", "old.jsonl", "--format", form)

    assert code == 0, err
    assert any("ndcg@10 not worse" in line for line in lines)


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize("option", ["--max-drop", "--recheck"])
def test_a_number_that_is_not_finite_is_a_usage_error(
    tmp_path, gate, option, number, assert_message
):
    write_jsonl(tmp_path / "old.jsonl", 0)

    code, lines, err = gate("old.jsonl", "old.jsonl", option, number)

    assert (code, lines) == (2, [])
    assert_message(lines_with(err, option))


@pytest.mark.parametrize(
    "arguments",
    [
        ("old.jsonl",),
        ("old.jsonl", "new.jsonl", "--base", "main"),
        ("old.jsonl", "new.jsonl", "--recheck", "1"),
        ("old.jsonl", "absent.jsonl"),
        ("old.yaml", "--base", "main", "-m", "mrr"),
    ],
)
def test_what_does_not_belong_together_is_an_error(tmp_path, gate, arguments):
    write_jsonl(tmp_path / "old.jsonl", 0)
    write_jsonl(tmp_path / "new.jsonl", 0)

    code, lines, _ = gate(*arguments)

    assert (code, lines) == (2, [])
