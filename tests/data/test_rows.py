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
    # Any Unicode, quotes, commas and line ends inside of cells
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
    "raw",
    [
        '{"a": 1}',
        '[{"a": 1}, 2]',  # a number among objects
        "[]",
        '{"a": 1}\n[2]\n',  # lines and an array
        '{"a": [{"x": 1}], "b": [{"x": 1}]}',  # two arrays: either may be the rows
    ],
)
def test_json_that_is_no_array_of_objects(write, problem, raw, assert_message):
    path = write("a.json", raw)

    assert_message(problem(lambda: list(read_rows(path, "records"))), "a.json")


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("a,b\n1,2\n3,4,5\n", "a.csv:3"),  # a cell without a column
        # two columns of one name
        (
            "a,b,a\n1,2,3\n",
            "a.csv:1",
        ),
        ('a,b\n1,2\n"open,3\n4,5\n', "a.csv:3"),  # the end of the file closes no quote
        ('a,b\n"x"y,2\n', "a.csv:2"),  # text behind a closing quote
        ("a,b\n", "a.csv"),
        ("", "a.csv"),
        ("a;b\n1;2;3\n", "a.csv:2"),
        # Latin 1
        (
            b"a,b\n1,\xe9\n",
            "a.csv:2",
        ),
    ],
)
def test_bad_csv_is_named_with_its_line(write, problem, raw, place, assert_message):
    path = write("a.csv", raw)

    assert_message(problem(lambda: list(read_csv(path))), place)


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
    "raw",
    [
        b"",
        b"not parquet at all",
    ],
)
def test_bad_parquet(write, problem, raw, assert_message):
    path = write("a.parquet", raw)

    assert_message(problem(lambda: list(read_rows(path, "records"))), "a.parquet")


def test_parquet_without_pyarrow(write, monkeypatch, assert_message):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write("a.parquet", b"PAR1")

    with pytest.raises(
        MissingExtra,
    ) as caught:
        list(read_rows(path, "records"))
    assert_message(caught.value)


def test_an_unknown_suffix(write, problem, assert_message):
    path = write("a.xlsx", b"x")

    assert_message(problem(lambda: list(read_rows(path, "records"))), "a.xlsx")


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
