"""Notebooks of the docs: their cells run in order and show what is stored in them."""

import ast
import json
import re
from pathlib import Path

import pytest

from tests.notebook import run_cell

DOCS = Path(__file__).parents[1] / "docs"
BOOKS = sorted(DOCS.glob("*.ipynb"))
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


@pytest.mark.costly
@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_the_cells_show_what_is_stored(book, tmp_path, monkeypatch, capsys):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for source, outputs in cells(book, "code"):
        names["shown"] = None
        run_cell(as_cell(source), book.name, names)
        printed, text, formats = stored(outputs)
        assert RUN_ID.sub("ID", capsys.readouterr().out) == RUN_ID.sub("ID", printed)
        value = names["shown"]
        # only pandas knows how wide its text is
        if value is not None and not isinstance(value, pandas.DataFrame):
            assert RUN_ID.sub("ID", repr(value)) == RUN_ID.sub("ID", text)
            assert hasattr(value, "_repr_html_") == ("text/html" in formats)
            assert hasattr(value, "_repr_svg_") == ("image/svg+xml" in formats)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_the_texts_link_to_pages(book):
    links = [
        link for text, _ in cells(book, "markdown") for link in re.findall(r"\]\((.*?)\)", text)
    ]
    assert links
    assert [link for link in links if not (DOCS / link).is_file()] == []


def test_there_are_two_notebooks():
    assert [book.stem for book in BOOKS] == ["notebook-compare", "notebook-run"]
