"""CSV of ours: harmless in a spreadsheet, and exactly what it was when it is read back."""

import csv
import io
import math
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench.data.files.formulas import inert, original
from ragbench.data.files.rows import read_csv
from ragbench.data.runs import run_folder
from ragbench.data.runs.run_folder import (
    csv_lines,
    csv_rows,
    csv_tables,
    read_tables,
    to_csv,
)
from ragbench.data.runs.run_lines import (
    format_causes,
    format_fingerprints,
    read_causes,
    read_fingerprints,
)
from ragbench.records.causes import CauseRow, Loss
from ragbench.stats.mean import finite

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# Python 3.10 reads no NUL; bytes of TREC ids are halves of characters here
CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=("Cs",))
HOSTILE = st.one_of(
    st.text(CHARACTERS),
    st.text("'=+-@\t\r\n,\"a;|", max_size=6),
    st.binary(max_size=6).map(
        lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    ),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "made.csv"


def cells_of(file):
    """Return system -> query -> column -> value of a file, None for an empty cell."""
    return {
        system: {
            query: {name: finite(float(values[row])) for name, values in table.columns.items()}
            for row, query in enumerate(table.query_ids)
        }
        for system, table in read_tables(file).items()
    }


def write(file, text):
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return file


@given(st.lists(st.lists(HOSTILE, min_size=1, max_size=4), min_size=1, max_size=5))
@example([["=cmd|' /C calc'!A0", "'=x", "''=x", "'x", ""]])
@example([[""], ["\r"], ["a\rb"], ["'"]])
def test_cells_read_back_exactly(file, rows):
    assert list(csv_rows(write(file, to_csv(rows[0], rows[1:])))) == rows


@given(HOSTILE)
def test_no_cell_is_a_formula(text):
    ((cell,),) = csv.reader(io.StringIO(to_csv([text], []), newline=""))

    # Excel takes `;` for the end of a cell where decimals are written with a comma
    for part in re.split("[;\t]", cell):
        assert not part.lstrip('"\ufeff \u00a0').startswith(STARTS)
    assert original(inert(text)) == text


@pytest.mark.parametrize("start", ["", " ", "\u00a0", '"', "' ", "q;", 'q; "', "q\t", "\t", ";;"])
def test_signs_and_blanks_before_a_formula_do_not_wake_it(start):
    for sign in "=+-@\uff1d":
        text = f"{start}{sign}cmd|' /C calc'!A0"

        assert f"'{sign}" not in text
        assert re.search(r"(^|[;\t])['\"\s]*'[\"\s]*" + re.escape(sign), inert(text)), sign
        assert original(inert(text)) == text


@settings(max_examples=30)
@given(
    st.dictionaries(
        HOSTILE,
        st.dictionaries(
            HOSTILE, st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1
        ),
        min_size=1,
        max_size=3,
    )
)
@example({"bm25": {"=cmd": 0.1, "-1": -0.5, "'=cmd": None}})
def test_scores_per_query_read_back_exactly(file, scores):
    rows = [[system, query, x] for system, by in scores.items() for query, x in by.items()]
    read_scores = cells_of(write(file, to_csv(["system", "query_id", "=map"], rows)))

    assert read_scores == {s: {q: {"=map": x} for q, x in by.items()} for s, by in scores.items()}


TEXTS = st.one_of(st.text(CHARACTERS), st.text("'=+-@\t\r\n,\"a;|", max_size=6))


@given(st.lists(TEXTS, min_size=3, max_size=3))
@example(["=1+1", "'- 5", ""])
def test_a_table_that_people_edit_reads_back_exactly(file, texts):
    for columns in (["question", "checks", "keep"], ["item", "rubric", "draw"]):
        (row,) = read_csv(write(file, to_csv(columns, [texts])))
        assert [*row.values.values()] == texts


def test_an_apostrophe_of_another_file_stays(file):
    (row,) = read_csv(write(file, "question,keep\n'=' or '==' in SQL?,yes\n"))

    assert row.values == {"question": "'=' or '==' in SQL?", "keep": "yes"}


def test_a_number_that_is_missing_is_an_empty_cell():
    row = [math.nan, np.float64("nan"), math.inf, -math.inf, None, np.float64(0.5), -0.0, 3]
    assert to_csv(["a"], [row]) == "a\n,,,,,0.5,-0.0,3.0\n"


@given(st.lists(HOSTILE, unique=True, min_size=1))
def test_fingerprints_and_causes_read_back_exactly(file, queries):
    prints = {"question": {query: f"{n:012x}" for n, query in enumerate(queries)}}
    assert read_fingerprints(write(file, "".join(format_fingerprints(queries, prints)))) == prints

    lost = [Loss("right", f"={query}") for query in queries]
    causes = read_causes(write(file, "".join(format_causes({"-s": [lost]}, queries))))
    assert causes == {
        "-s": {
            query: CauseRow(system="-s", query_id=query, cause=row.cause, why=row.why)
            for query, row in zip(queries, lost, strict=True)
        }
    }


NUMBERS = st.sampled_from([0.0, -0.0, 0.5, 1e-7, 1e300]) | st.floats()


@settings(max_examples=30)
@given(
    st.lists(st.tuples(HOSTILE, HOSTILE, NUMBERS, NUMBERS), max_size=9),
    st.lists(HOSTILE, max_size=3),
    st.integers(1, 4),
)
@example([("q\ud800", "", 0.5, math.nan), ("q\udcff", "a\nb", math.inf, -0.0)], ["s", "é"], 4096)
def test_tables_by_columns_are_the_lines_of_their_rows(rows, systems, at_once):
    # Numbers without a value and with few of them, bytes of ids, halves of characters
    header = ["system", "query_id", "why", "map", "none", "=mrr"]
    by_rows = [
        [system, query, why, *(finite(x) for x in (one, math.nan, other))]
        for system in systems
        for query, why, one, other in rows
    ]
    queries, whys, ones, others_reasons = zip(*rows, strict=True) if rows else ((), (), (), ())
    tables = [
        [s, queries, whys, np.array(ones, float), None, np.array(others_reasons)] for s in systems
    ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "_ROWS", at_once)
        pieces = list(csv_tables(header, len(rows), tables))

    lines = list(csv_lines(header, by_rows))
    assert "".join(pieces) == "".join(lines)
    encoded = [b"".join(map(run_folder._encode, part)) for part in (pieces, lines)]
    assert encoded[0] == encoded[1], "as the files of a run are written"


def test_files_that_somebody_edited_are_read_as_they_stand(file):
    write(file, "system,query_id,map\nbm25,=q1,0.5\nbm25,'q2,\n")

    assert cells_of(file) == {"bm25": {"=q1": {"map": 0.5}, "'q2": {"map": None}}}
