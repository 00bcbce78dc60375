"""Pieces of gold: alternatives have one name, which is true of each of them."""

import ragbench as rb
from ragbench.comparison.gold import gold_pieces, met_ranks
from ragbench.data.runs.hit_list import StoredRanking, gold_names
from ragbench.records.manifest import HitsRow
from ragbench.types import Span
from tests.commands import run_command
from tests.experiment.moons import write_jsonl

QUOTE = "Io is hot."


def test_alternatives_share_a_name_that_has_each_of_them():
    spans = [Span("a", 0, 10, QUOTE), Span("c", 0, 4, "Cold"), Span("b", 5, 15, "Io is\nhot.")]

    pieces = gold_pieces({"a": 1, "b": 1, "c": 1}, spans)

    assert {piece.document: piece.need for piece in pieces} == {
        "a": "a 0-10 or b 5-15",
        "b": "a 0-10 or b 5-15",
        "c": "c 0-4",
    }
    assert met_ranks(pieces, [("b", Span("b", 0, 20))])[0] == ((1, "a 0-10 or b 5-15"),)


def test_many_alternatives_are_counted():
    spans = [Span(name, 0, 10, QUOTE) for name in "abcde"]

    names = {piece.need for piece in gold_pieces(dict.fromkeys("abcde", 1), spans)}

    assert names == {"a 0-10, b 0-10 or 3 more"}


def test_the_name_of_alternatives_has_the_grade_of_the_first():
    for names in ("ab", "abcd"):
        spans = [Span(name, 0, 10, QUOTE) for name in names]
        (need,) = {piece.need for piece in gold_pieces(dict.fromkeys(names, 2), spans)}
        row = HitsRow(query_id="q1", needs=("z", need))
        ranking = StoredRanking.of("bm25", {}, row)

        graded = gold_names({"z": 1, **dict.fromkeys(names, 2)}, spans, [ranking])

        assert graded == {need: 2, "z": 1}


def test_a_run_names_the_alternative_that_is_read(tmp_path, assert_message):
    (tmp_path / "docs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"Of moons. {QUOTE}")
    spans = [{"document": f"{name}.md", "quote": QUOTE} for name in ("a", "b")]
    row = {"id": "q1", "question": "Which?", "relevant": ["a.md", "b.md"], "retrieved": ["b.md"]}
    write_jsonl(tmp_path / "qa.jsonl", [{**row, "reference_spans": spans}])
    data = {"type": "records", "path": str(tmp_path / "qa.jsonl"), "corpus": str(tmp_path / "docs")}
    experiment = rb.run_experiment({"name": "r", "dataset": data, "output": str(tmp_path / "runs")})

    name = "a.md 10-20 or b.md 10-20"
    assert experiment.causes["given"]["q1"].why.startswith(f"gold {name} at rank 1")
    output = run_command("show", experiment.path, "q1").stdout
    assert_message(" ".join(output.split()))
