"""Gold spans of tables: `reference_spans`, and quotes beside or without `relevant`."""

import csv
import io
import json

import pytest

from ragbench.data.loaders.records import Records
from ragbench.errors import DataError
from ragbench.types import Span

IO, EUROPA = "Io has volcanoes.\nIt is hot\nand dry.", "Europa has ice. It has ice floes."


@pytest.fixture
def load(write, tmp_path):
    """Load rows as JSON lines, or as CSV with lists as JSON; return the gold spans by question."""
    write("docs/io.md", IO)
    write("docs/europa.md", EUROPA)

    def loaded(*rows, suffix=".jsonl", corpus=True):
        rows = [{"id": f"q{n}", "question": f"{n}?", **row} for n, row in enumerate(rows)]
        if suffix == ".csv":
            stream = io.StringIO(newline="")
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            cells = (
                {k: v if isinstance(v, str) else json.dumps(v) for k, v in r.items()} for r in rows
            )
            writer.writerows(cells)
        content = rows if suffix == ".jsonl" else stream.getvalue()
        write(f"qa{suffix}", content)
        place = tmp_path / "docs" if corpus else None
        return Records(path=tmp_path / f"qa{suffix}", corpus=place).load()

    return loaded


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([{"document": "io.md", "start": 0, "end": 2}], [("io.md", 0, 2)]),
        ([{"document": "io", "quote": "hot and dry"}], [("io.md", 24, 35)]),
        (
            {"document": "io.md", "start": 24, "end": 35, "quote": "hot and dry"},
            [("io.md", 24, 35)],
        ),
        # the second place of the quote, which the positions tell apart
        ([{"document": "europa", "start": 23, "end": 26, "quote": "ice"}], [("europa.md", 23, 26)]),
        (
            [{"document": "io", "start": 0, "end": 2}, {"document": "europa", "quote": "Europa"}],
            [("io.md", 0, 2), ("europa.md", 0, 6)],
        ),
    ],
)
def test_reference_spans_are_positions_or_quotes(load, suffix, spans, expected):
    collection = load({"reference_spans": spans}, suffix=suffix)

    texts = {"io.md": IO, "europa.md": EUROPA}
    gold = [Span(name, start, end, texts[name][start:end]) for name, start, end in expected]
    assert collection.gold_spans == {"q0": gold}
    assert collection.qrels.to_dict() == {"q0": dict.fromkeys([span.document for span in gold], 1)}


@pytest.mark.parametrize(
    "row",
    [
        {"relevant": "io.md", "quote": "It is hot and dry."},
        {"relevant": "", "quote": "It is hot and dry."},
        {"relevant": "io.md", "quote": "<1-hop>\n\nIt is hot and dry."},
    ],
)
def test_a_quote_is_a_span_of_its_relevant_document_or_of_the_one_that_holds_it(load, row):
    (span,) = load(row, suffix=".csv").gold_spans["q0"]

    assert (span.document, span.quote) == ("io.md", "It is hot\nand dry.")
    assert IO[span.start : span.end] == span.quote


def test_a_quote_of_two_documents_is_a_span_of_the_named_one_or_of_none(load):
    rows = [{"relevant": "europa.md", "quote": " has "}, {"relevant": "", "quote": "has"}]

    collection = load(*rows, suffix=".csv")

    assert [span.document for span in collection.gold_spans["q0"]] == ["europa.md"]
    assert collection.ambiguous_gold == {"q1": ["europa.md", "io.md"]}
    assert collection.qrels.to_dict() == {"q0": {"europa.md": 1}}


@pytest.mark.parametrize("relevant", ["io.md", ""])
def test_a_repeated_quote_is_one_of_the_different_ones(load, relevant):
    hot, dry = {"relevant": relevant, "quote": "It is hot"}, {"relevant": relevant, "quote": "dry."}

    assert "2 of 2 gold passages found in the corpus" in load(hot, dry).notes
    assert "2 of 2 different gold passages found in the corpus" in load(hot, dry, hot).notes


def test_a_quote_is_not_searched_outside_the_named_document(load):
    collection = load({"relevant": "io.md", "quote": "Europa"})

    assert collection.qrels.to_dict() == {"q0": {"io.md": 1}}
    assert collection.gold_spans == {"q0": []}
    note = "1 of them not word for word in the named documents, which count as a whole"
    assert any(note in text for text in collection.notes)


@pytest.mark.parametrize(
    "lost",
    [
        {"document": "io", "quote": "Io has lava."},
        {"document": "io", "start": 0, "end": 99},
        {"document": "io", "start": 0, "end": 2, "quote": "Europa"},
        {"document": "callisto", "start": 0, "end": 2},
    ],
    ids=["not there", "behind the end", "other text at the positions", "no such document"],
)
def test_a_question_has_no_span_if_a_part_of_its_gold_is_lost(load, lost):
    span = {"document": "io", "start": 0, "end": 2}

    gold = load({"reference_spans": [span, lost]}, {"reference_spans": [span]}).gold_spans

    assert gold == {"q0": [], "q1": [Span("io.md", 0, 2, "Io")]}


def test_further_rows_of_a_question_add_spans_and_repeated_ones_count_once(load):
    rows = [
        {"id": "q", "question": "?", "relevant": "io", "quote": quote}
        for quote in ("Io has", "It is hot", "Io has")
    ]

    gold = load(*rows).gold_spans["q"]

    assert [span.quote for span in gold] == ["Io has", "It is hot"]


def test_positions_need_no_corpus_and_quotes_do(load, assert_message):
    place = {"document": "io.md", "start": 0, "end": 2}
    assert load({"reference_spans": [place]}, corpus=False).gold_spans == {
        "q0": [Span("io.md", 0, 2)]
    }

    with pytest.raises(DataError) as caught:
        load({"reference_spans": [{"document": "io.md", "quote": "Io"}]}, corpus=False)
    assert_message(caught.value, "TMP/qa.jsonl:1: column 'reference_spans'")


@pytest.mark.parametrize(
    "span",
    [
        "io.md",
        {"document": "io"},
        {"document": "io", "start": 0},
        {"document": "io", "start": 2, "end": 2},
        {"document": "io", "start": -1, "end": 2},
        {"document": "io", "start": True, "end": 2},
        {"document": "io", "start": 0, "quote": "Io"},
        {"document": "io", "quote": " "},
        {"quote": "Io"},
    ],
    ids=str,
)
def test_other_forms_are_refused_with_their_line(load, span, assert_message):
    with pytest.raises(DataError) as caught:
        load({"reference_spans": None}, {"reference_spans": [span]})
    assert_message(caught.value, "TMP/qa.jsonl:2: column 'reference_spans'")


def test_the_fingerprint_is_that_of_the_quotes_wherever_they_stand(load, write):
    row = {"reference_spans": [{"document": "io", "quote": "It is hot"}]}
    fingerprint = load(row).fingerprints["spans"]

    write("docs/io.md", f"A moon. {IO}")
    assert load(row).fingerprints["spans"] == fingerprint

    write("docs/io.md", IO.replace("hot", "cold"))
    other = {"reference_spans": [{"document": "io", "quote": "It is cold"}]}
    assert load(other).fingerprints["spans"] != fingerprint


def test_rows_of_no_gold_have_no_span(load):
    collection = load({"relevant": "io"}, {"relevant": "europa"})

    assert collection.gold_spans == {}
    assert "spans" not in collection.fingerprints
