"""`ragbench score --predictions`: pairing, formats, metrics, mistakes."""

import csv
import gzip
import io
import json

import pytest
import sacrebleu

from ragbench.data.files.answer_pairs import read_pairs
from ragbench.errors import DataError
from tests.lazy import Lazy

rouge_scorer = Lazy("rouge_score.rouge_scorer")

PREDICTIONS = """\
{"query_id": "q1", "answer": "the cat sat on the mat"}
{"query_id": "q2", "answer": ""}
{"query_id": "q9", "answer": "a stray"}
"""
REFERENCES = """\
{"query_id": "q1", "answers": ["a cat sat on the mat", "the cat"]}
{"query_id": "q2", "reference": "gold"}
{"query_id": "q3", "answers": ["never answered"]}
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """Predictions and references, as tables and as lines, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jsonl").write_text(PREDICTIONS)
    (tmp_path / "r.jsonl").write_text(REFERENCES)
    # no line break at the end, and CR LF in the references: both name two lines
    (tmp_path / "p.txt").write_text("the cat sat on the mat\nno")
    (tmp_path / "r.txt").write_bytes(b"a cat sat on the mat\r\nyes\r\n")
    (tmp_path / "r2.txt").write_text("the cat\nno\n")
    return tmp_path


@pytest.fixture
def system(score):
    """Return a function that scores and returns the only system of the JSON."""

    def of(*arguments, expected=0):
        code, text, problems = score(*arguments, "--format", "json")
        assert code == expected, problems
        (scored,) = json.loads(text)["systems"]
        return scored

    return of


def rouge1(prediction, *references):
    return (
        rouge_scorer.RougeScorer(["rouge1"]).score_multi(references, prediction)["rouge1"].fmeasure
    )


def bleu(prediction, *references):
    return sacrebleu.BLEU(effective_order=True).sentence_score(prediction, references).score / 100


def test_tables_are_paired_by_query(system):
    scored = system(
        *("--predictions", "p.jsonl", "--references", "r.jsonl"),
        *("-m", "rouge1", "-m", "bleu", "-q"),
        expected=3,
    )

    cat = "the cat sat on the mat"
    assert scored["per_query"]["rouge1"] == {
        "q1": rouge1(cat, "a cat sat on the mat", "the cat"),
        # q3 has no answer and q9 no reference
        "q2": 0.0,
        "q3": None,
        "q9": None,
    }
    assert scored["per_query"]["bleu"]["q1"] == bleu(cat, "a cat sat on the mat", "the cat")
    bleus = scored["scores"]["bleu"]
    assert (bleus["n"], bleus["not_applicable"], bleus["failed"]) == (2, 1, {"missing_answer": 1})
    assert (scored["counts"]["without_prediction"], scored["counts"]["without_reference"]) == (1, 1)


def test_lines_are_paired_by_number(system):
    one = system("--predictions", "p.txt", "--references", "r.txt", "-m", "rouge1", "-q")
    two = system(
        *("--predictions", "p.txt", "--references", "r.txt", "--references", "r2.txt"),
        *("-m", "rouge1", "-q"),
    )

    cat = rouge1("the cat sat on the mat", "a cat sat on the mat")
    assert one["per_query"]["rouge1"] == {"1": cat, "2": 0.0}
    assert two["per_query"]["rouge1"] == {"1": cat, "2": 1.0}


def test_line_ends_are_no_text(workplace):
    # an empty line is an empty answer; blanks at the end of a line stay
    (workplace / "p.txt").write_bytes(b"one\r\n\ntwo ")
    (workplace / "r.txt").write_bytes(b"1\n2\n3")

    pairs = read_pairs("p.txt", ["r.txt"])

    assert pairs.predictions == ["one", "", "two "]
    assert pairs.references == [["1"], ["2"], ["3"]]


def test_tables_of_references_add_up(workplace):
    (workplace / "more.jsonl").write_text('{"query_id": "q1", "reference": "a third"}\n')

    pairs = read_pairs("p.jsonl", ["r.jsonl", "more.jsonl"])

    assert pairs.references[0] == ["a cat sat on the mat", "the cat", "a third"]


def test_ids_of_two_numberings_are_refused(workplace, assert_message):
    # Bug: each answer was scored against the reference of another question
    answers = "id,question,answer\n0,Why?,a\n1,How?,b\n"
    references = "id,question,reference\n1,why? ,a\n2,How?,b\n"
    (workplace / "p.csv").write_text(answers)
    (workplace / "r.csv").write_text(references)
    (workplace / "reworded.csv").write_text(references.replace("why", "Who"))

    assert read_pairs("p.csv", ["reworded.csv"]).ids == ["1", "2", "0"]
    with pytest.raises(DataError) as caught:
        read_pairs("p.csv", ["r.csv"])
    assert_message(caught.value, "p.csv")


def test_csv_and_gzip(workplace, system):
    tables = ("--predictions", "p.jsonl", "--references", "r.jsonl")
    expected = system(*tables, "-m", "rouge1", "-q", expected=3)
    rows = [json.loads(line) for line in PREDICTIONS.splitlines()]
    with open(workplace / "p.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["query_id", "answer"])
        writer.writeheader()
        writer.writerows(rows)
    (workplace / "r.jsonl.gz").write_bytes(gzip.compress(REFERENCES.encode()))

    packed = ("--predictions", "p.csv", "--references", "r.jsonl.gz")
    scored = system(*packed, "-m", "rouge1", "-q", expected=3)

    assert scored["per_query"] == expected["per_query"]
    assert scored["scores"] == expected["scores"]


def test_a_list_in_a_csv_cell_is_json(workplace, system):
    (workplace / "r.csv").write_text('query_id,answers\nq1,"[""x"", ""the cat sat on the mat""]"\n')

    scored = system("--predictions", "p.jsonl", "--references", "r.csv", "-m", "rouge1", "-q")

    assert scored["per_query"]["rouge1"]["q1"] == 1.0


def test_the_question_is_the_key_where_there_is_no_id(workplace, system):
    (workplace / "p.jsonl").write_text('{"question": "Who?", "answer": "me"}\n')
    (workplace / "r.jsonl").write_text('{"question": "Who?", "reference": "me"}\n')

    scored = system("--predictions", "p.jsonl", "--references", "r.jsonl", "-m", "rouge1", "-q")

    assert scored["per_query"] == {"rouge1": {"Who?": 1.0}}


def test_a_null_answer_and_a_lacking_row_raise_no_mean(workplace, system):
    # Right, null and no row: the mean is between 1/3 and 1.
    (workplace / "a.jsonl").write_text('{"id": 1, "answer": "x"}\n{"id": 2, "answer": null}\n')
    (workplace / "b.csv").write_text("id,reference\n1,x\n2,y\n3,z\n")

    scored = system(
        *("--predictions", "a.jsonl", "--references", "b.csv", "-m", "exact_match"), expected=3
    )

    score = scored["scores"]["exact_match"]
    assert (score["n"], score["failed"]) == (1, {"missing_answer": 2})
    assert score["bounds"] == pytest.approx([1 / 3, 1])


def test_several_files_are_several_systems(workplace, score):
    (workplace / "other").mkdir()
    (workplace / "other" / "p.txt").write_text("the cat\nyes\n")

    both = ("--predictions", "p.txt", "--predictions", "other/p.txt")
    code, text, _ = score(*both, "--references", "r.txt", "-m", "exact_match", "--format", "json")

    systems = json.loads(text)["systems"]
    assert code == 0
    assert [(system["name"], system["scores"]["exact_match"]["mean"]) for system in systems] == [
        ("p.txt", 0.5),
        ("other/p.txt", 0.5),
    ]


def test_the_default_is_rouge_and_bleu_as_a_table(score, golden):
    code, text, notes = score("--predictions", "p.jsonl", "--references", "r.jsonl")

    assert (code, notes) == (3, "")
    assert [line.split()[0] for line in text.splitlines()[1:5]] == [
        *("rouge1", "rouge2", "rougeL", "bleu")
    ]
    golden("score_predictions.txt", text)


def test_csv_output(score, assert_message):
    _, text, notes = score(
        *("--predictions", "p.jsonl", "--references", "r.jsonl"),
        *("-m", "rouge1", "-q", "--format", "csv"),
    )

    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["query_id"] for row in rows] == ["q1", "q2", "q3", "q9", "all"]
    assert [row["rouge1"] for row in rows[1:4]] == ["0.0", "", ""]
    assert {row["system"] for row in rows} == {"p.jsonl"}
    assert_message(notes.splitlines())


def test_texts_that_rouge_cannot_see_are_noted(workplace, score, assert_message):
    (workplace / "p.txt").write_text("東京\n")
    (workplace / "r.txt").write_text("東京\n")

    files = ("--predictions", "p.txt", "--references", "r.txt")
    _, text, _ = score(*files, "-m", "rouge1(tokenize=rouge)")

    assert_message(text)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            "--predictions p.jsonl",
            "--references is missing; predictions and references belong together",
        ),
        (
            "--references r.jsonl",
            "--predictions is missing; predictions and references belong together",
        ),
        ("--predictions p.txt --references r.txt q", "q is for runs"),
        ("--predictions p.txt --references r.txt --run a", "--run is for runs"),
        ("--predictions p.txt --references r.txt -c", "-c is for runs"),
        ("--predictions p.txt --references r.txt -M 5", "-M is for runs"),
        ("--predictions p.txt --references r.txt --format trec", "--format trec is for runs"),
        ("--predictions p.txt --references r.txt -n", "-n without -q"),
        ("--predictions p.txt --references r.txt -m rogue1", "did you mean 'rouge1'?"),
        ("--predictions p.jsonl --references r.txt", "p.jsonl is a table and r.txt is a text file"),
        ("--predictions p.txt --references short.txt", "short.txt: 1 line, but p.txt has 2"),
        ("--predictions none.txt --references r.txt", "none.txt: no such file"),
        ("--predictions bad.jsonl --references r.jsonl", "bad.jsonl:1: "),
        ("--predictions p.jsonl --references p.jsonl", "p.jsonl:1: no gold answer"),
        ("--predictions p.jsonl --references both.jsonl", "both.jsonl:1: answers and reference"),
        ("--predictions p.jsonl --references twice.jsonl", "twice.jsonl:2: "),
        (
            "--predictions p.jsonl --references other.jsonl",
            "the same query_id in both, such as 'x'",
        ),
    ],
)
def test_mistakes_are_told_in_one_line_and_exit_2(workplace, score, arguments, problem):
    (workplace / "short.txt").write_text("one\n")
    (workplace / "bad.jsonl").write_text("{\n")
    (workplace / "both.jsonl").write_text(
        '{"query_id": "q1", "answers": ["a"], "reference": "a"}\n'
    )
    (workplace / "twice.jsonl").write_text('{"query_id": "q1", "reference": "a"}\n' * 2)
    (workplace / "other.jsonl").write_text('{"query_id": "x", "reference": "a"}\n')

    code, text, printed = score(*arguments.split())

    assert code == 2
    assert problem in printed
    assert text == ""
