"""Column `forbidden` of records: ids, values of metadata and spans, read strictly."""

import json

import pytest

from ragbench.data.loaders.records import Records
from ragbench.errors import DataError
from ragbench.types import Span

CORPUS = [
    {"id": "a", "text": "Pay is public.", "tenant": "x", "old": False},
    {"id": "b", "text": "Pay is secret.", "tenant": "y", "old": True},
    {"id": "k=v", "text": "An id with an equals sign.", "tenant": "acme corp"},
]


@pytest.fixture
def load(tmp_path):
    """Load a row with a cell as JSON lines or CSV; return what its question forbids."""

    def loaded(cell, suffix=".jsonl", corpus=True):
        row = {"id": "q1", "question": "What is the pay?", "forbidden": cell}
        path = tmp_path / f"qa{suffix}"
        text = json.dumps(row) + "\n"
        if suffix == ".csv":
            text = cell if isinstance(cell, str) else json.dumps(cell)
            text = 'id,question,forbidden\nq1,What is the pay?,"' + text.replace('"', '""') + '"\n'
        path.write_text(text, encoding="utf-8")
        (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, CORPUS)))
        place = tmp_path / "corpus.jsonl" if corpus else None
        return Records(path=path, corpus=place).load()

    return loaded


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("b", ["b"]),
        (["b", "gone"], ["b", "gone"]),
        ("b; a", ["a", "b"]),
        ("tenant=y", ["tenant=y"]),
        (["tenant=acme corp", "a"], ["a", "tenant=acme corp"]),
        ("tenant = y; old=true; b", ["b", "old=true", "tenant=y"]),
        ("k=v", ["k=v"]),
        ([{"document": "b", "start": 7, "end": 13}], ["b 7-13"]),
        ({"document": "b", "quote": "secret"}, ["b 7-13"]),
        (["a", {"document": "b", "quote": "secret"}], ["a", "b 7-13"]),
        ("", None),
        ([], None),
    ],
)
def test_cells_name_documents_metadata_and_spans(load, suffix, cell, labels):
    collection = load(cell, suffix)

    forbidden = collection.forbidden.get("q1")
    assert (forbidden and forbidden.labels) == labels
    assert ("forbidden" in collection.fingerprints) == (labels is not None)


@pytest.mark.parametrize(
    "cell",
    [
        [["a"], ["b"]],
        {"tenant": "y"},
        {"b": 1},
        True,
        ["b", None],
        "tenat=y",
        "tenant=x, tenant=y",
        "tenant=",
        [{"document": "b", "start": 7, "end": 99}],
        [{"document": "b", "quote": "public"}],
        [{"document": "b"}],
        "[a, b",
    ],
    ids=json.dumps,
)
def test_other_cells_are_refused_in_one_line(load, assert_message, cell):
    with pytest.raises(DataError) as caught:
        load(cell)

    assert caught.value.problem.line == 1
    assert len(str(caught.value).splitlines()) == 1
    assert_message(caught.value)


def test_without_a_corpus_cells_count_as_they_are_written(load):
    cell = ["b", "region=eu", {"document": "b", "start": 2, "end": 5}]

    forbidden = load(cell, corpus=False).forbidden["q1"]

    assert forbidden.documents == {"b"}
    assert forbidden.fields == {("region", "eu")}
    assert forbidden.spans == (Span("b", 2, 5),)


@pytest.mark.parametrize("other", ["a", "tenant=y", [{"document": "b", "start": 0, "end": 3}], ""])
def test_another_cell_is_another_data_set(load, other):
    assert load("b").fingerprints != load(other).fingerprints


def test_order_is_no_other_data_set(load):
    assert load("b; tenant=x; a").fingerprints == load("a; b; tenant=x").fingerprints
