"""Rows of CSV and Parquet files: against csv.DictReader and pyarrow, and their errors."""

import csv
import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.data.files.rows import read_csv, read_rows
from ragbench.errors import MissingExtra

# NUL is refused, and a lone surrogate is no UTF-8
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"))


@given(rows=st.lists(st.tuples(cells, cells), min_size=1), end=st.sampled_from(["\n", "\r\n"]))
def test_agrees_with_the_csv_module(tmp_path_factory, rows, end):
    """Any Unicode, quotes, commas and line ends inside of cells."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    path.write_bytes(stream.getvalue().encode())

    with path.open(encoding="utf-8", newline="") as file:
        expected = list(csv.DictReader(file))
    assert [entry.values for entry in read_csv(path)] == expected
    assert expected == [{"a": a, "b": b} for a, b in rows]


def test_lines_of_rows_with_multi_line_cells(write):
    path = write("a.csv", 'a,b\n"x\ny\n",1\n\nz,2\r\n"last\n",3')

    assert [(entry.line, entry.values["b"]) for entry in read_csv(path)] == [
        (2, "1"),
        (6, "2"),
        (7, "3"),
    ]


def test_a_short_row_has_missing_cells(write):
    [entry] = read_csv(write("a.csv", "a,b,c\n1,2\n"))

    assert entry.values == {"a": "1", "b": "2", "c": None}


def test_a_cell_longer_than_the_csv_module_allows(write):
    [entry] = read_csv(write("a.csv", "a,b\n" + "x" * 200_000 + ",1\n"))

    assert len(entry.values["a"]) == 200_000


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a.csv", "\na;b\n1,5;2\n"),
        ("a.csv", "a\tb\n1,5\t2\n"),
        ("a.tsv", "a\tb\n1,5\t2\n"),
        ("a.tsv.gz", "a\tb\n1,5\t2\n"),
    ],
)
def test_semicolons_and_tabs(write, name, raw):
    [entry] = read_rows(write(name, raw), "records")

    assert entry.values == {"a": "1,5", "b": "2"}


def test_a_comma_in_the_header_comes_first(write):
    [entry] = read_csv(write("a.csv", "a;x,b\n1,2\n"))

    assert entry.values == {"a;x": "1", "b": "2"}


def test_a_json_array(write):
    entries = list(read_rows(write("a.json", '[{"a": "x"},\n {"a": ["y", 1]}]'), "records"))

    assert [entry.values for entry in entries] == [{"a": "x"}, {"a": ["y", 1]}]
    assert [entry.place for entry in entries] == ["item 1", "item 2"]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"a": 1}', "a.json: an object with the keys a, expected an array of objects"),
        ('[{"a": 1}, 2]', "a.json: item 2: an integer, expected an object"),
        ("[]", "a.json: the array is empty"),
        (
            '{"a": 1}\n[2]\n',
            "a.json: bad JSON at column 1: Extra data; allowed: one JSON array; "
            "if each line is an object",
        ),
        (
            '{"a": [{"x": 1}], "b": [{"x": 1}]}',
            "a.json: an object with the keys a, b, expected an array of objects",
        ),
    ],
)
def test_json_that_is_no_array_of_objects(write, problem, raw, expected):
    path = write("a.json", raw)

    assert problem(lambda: list(read_rows(path, "records"))).startswith(expected)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a,b\n1,2\n3,4,5\n", "a.csv:3: 3 cells, expected 2 (a, b)"),
        (
            "a,b,a\n1,2,3\n",
            "a.csv:1: column 'a' is repeated; allowed: a name of its own for each column",
        ),
        ('a,b\n1,2\n"open,3\n4,5\n', "a.csv:3: bad CSV: unexpected end of data"),
        ('a,b\n"x"y,2\n', "a.csv:2: bad CSV: ',' expected after '\"'"),
        ("a,b\n", "a.csv: the file has no rows below its header"),
        ("", "a.csv: the file is empty"),
        ("a;b\n1;2;3\n", "a.csv:2: 3 cells, expected 2 (a, b)"),
        (
            b"a,b\n1,\xe9\n",
            "a.csv:2: bad UTF-8: 0xe9 at byte 3 of the line; allowed: UTF-8; in a spreadsheet, "
            "save the table as 'CSV UTF-8'",
        ),
    ],
)
def test_bad_csv_is_named_with_its_line(write, problem, raw, expected):
    path = write("a.csv", raw)

    assert problem(lambda: list(read_csv(path))) == expected


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"a": "x", "list": ["p", "q"]}, {"a": None, "list": []}]
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)

    entries = list(read_rows(path, "records"))

    assert [entry.values for entry in entries] == rows
    assert [entry.place for entry in entries] == ["row 1", "row 2"]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "a.parquet: the file is empty"),
        (b"not parquet at all", "a.parquet: cannot be read as Parquet: "),
    ],
)
def test_bad_parquet(write, problem, raw, expected):
    path = write("a.parquet", raw)

    assert problem(lambda: list(read_rows(path, "records"))).startswith(expected)


def test_parquet_without_pyarrow(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write("a.parquet", b"PAR1")

    with pytest.raises(
        MissingExtra,
        match=r"records: a\.parquet needs pyarrow: pip install 'ragbench-eval\[parquet\]'",
    ):
        list(read_rows(path, "records"))


def test_an_unknown_suffix(write, problem):
    path = write("a.xlsx", b"x")

    assert problem(lambda: list(read_rows(path, "records"))) == (
        "a.xlsx: cannot tell the format from 'a.xlsx'; "
        "allowed: .jsonl, .json, .csv, .tsv (also with .gz), .parquet"
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (" a , b\n1,2\n", {"a": "1", "b": "2"}),
        ("a,b,,\n1,2,,\n", {"a": "1", "b": "2"}),
        ("a,b\n1,2,\n", {"a": "1", "b": "2"}),
        ("a;b, c, or d;e\n1;2;3\n", {"a": "1", "b, c, or d": "2", "e": "3"}),
        ('"a;b",c\n1,2\n', {"a;b": "1", "c": "2"}),
    ],
    ids=["blanks", "columns-without-name", "cell-without-column", "semicolons", "quoted"],
)
def test_headers_as_spreadsheets_write_them(write, raw, expected):
    raw = raw.replace("b, c, or d", '"b, c, or d"')

    [entry] = read_csv(write("a.csv", raw))

    assert entry.values == expected


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param('[{"a": 1},\n {"a": 2}]', id="array"),
        pytest.param('{"a": 1}\n{"a": 2}\n', id="lines"),
    ],
)
def test_the_content_of_json_decides_not_its_name(write, name, raw):
    entries = list(read_rows(write(name, raw), "records"))

    assert [entry.values for entry in entries] == [{"a": 1}, {"a": 2}]


def test_the_only_array_inside_of_an_object_has_the_rows(write):
    path = write("a.json", '{"version": 1, "data": [{"a": 1}]}')

    assert [entry.values for entry in read_rows(path, "records")] == [{"a": 1}]


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        pytest.param('sep=;\na;b\n"x;y";2\n3;4\n', (3, 4), id="sep= of Excel"),
        pytest.param('"sep=;"\r\na;b\r\n"x;y";2\r\n3;4\r\n', (3, 4), id="quoted"),
        pytest.param('a,b\r"x;y",2\r3,4\r', (2, 3), id="line ends of Macintosh"),
    ],
)
def test_csv_of_spreadsheets(write, raw, lines):
    entries = list(read_csv(write("a.csv", raw)))

    assert [entry.values for entry in entries] == [{"a": "x;y", "b": "2"}, {"a": "3", "b": "4"}]
    assert tuple(entry.line for entry in entries) == lines
