"""Notebooks of the docs: their cells run in order and show what is stored in them."""

import ast
import json
import re
import socket
from pathlib import Path

import pytest

from tests.notebook import run_cell

DOCS = Path(__file__).parents[1] / "docs"
BOOKS = COMPARE, JUDGE, RUN = sorted(DOCS.glob("*.ipynb"))
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


def cells(book, kind):
    content = json.loads(book.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] == kind:
            yield "".join(cell["source"]), cell.get("outputs", [])


def stored(outputs):
    """Printed text, and the text and the formats of the last value."""
    printed = "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream")
    data = next((o["data"] for o in outputs if o["output_type"] == "execute_result"), {})
    return printed, "".join(data.get("text/plain", "")), {*data}


def as_cell(source):
    """The program of a cell, which keeps the value of its last line as `shown`."""
    tree = ast.parse(source)
    if isinstance(tree.body[-1], ast.Expr):
        name = ast.Name("shown", ast.Store())
        tree.body[-1] = ast.Assign([name], tree.body[-1].value)
    return ast.unparse(ast.fix_missing_locations(tree))


def free_port():
    """Return a port that no server of this machine has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run(book, capsys, port=8731):
    """Run the cells of a notebook, compare their output with the stored one; return their names."""
    pandas = pytest.importorskip("pandas")
    names = {"__name__": "__main__"}
    for source, outputs in cells(book, "code"):
        names["shown"] = None
        run_cell(as_cell(source.replace("port=8731", f"port={port}")), book.name, names)
        printed, text, formats = stored(outputs)
        assert RUN_ID.sub("ID", capsys.readouterr().out) == RUN_ID.sub("ID", printed)
        value = names["shown"]
        # only pandas knows how wide its text is
        if value is not None and not isinstance(value, pandas.DataFrame):
            assert RUN_ID.sub("ID", repr(value)) == RUN_ID.sub("ID", text)
            assert hasattr(value, "_repr_html_") == ("text/html" in formats)
            assert hasattr(value, "_repr_svg_") == ("image/svg+xml" in formats)
    return names


@pytest.mark.costly
def test_the_cells_of_an_experiment_show_what_is_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert run(RUN, capsys)["experiment"].path.is_dir()


@pytest.mark.costly
def test_a_notebook_that_runs_again_sends_no_further_request(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # the address of the server is a part of the key of a reply
    port, requests = free_port(), []

    for _ in range(2):
        requests.append(len(run(COMPARE, capsys, port)["server"].received))

    # v2 repeats two of the six answers of v1
    assert requests == [10, 0]


@pytest.mark.costly
def test_the_hour_of_a_judge_asks_once_for_each_rubric(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    port = free_port()

    first, again = (run(JUDGE, capsys, port) for _ in range(2))

    assert (first["requests"], again["requests"]) == ([30, 30], [0, 0])
    # the rubric that names added facts is right on all of them
    flips = again["after"].flipped
    assert {of.flip for of in flips} == {"gained"}
    assert {of.query_id.partition("-")[2] for of in flips} == {"added"}
    assert (tmp_path / "judge.json").is_file()


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_notebook_is_short(book):
    content = json.loads(book.read_text(encoding="utf-8"))

    assert len(content["cells"]) <= 12


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_the_texts_link_to_pages(book):
    links = [
        link for text, _ in cells(book, "markdown") for link in re.findall(r"\]\((.*?)\)", text)
    ]
    assert links
    assert [link for link in links if not (DOCS / link).is_file()] == []


def test_there_are_three_notebooks():
    names = ["notebook-compare", "notebook-judge", "notebook-run"]
    assert [book.stem for book in BOOKS] == names
