"""Exported traces as records: every example of `docs/data.md` loads, and paths lead inside."""

import re

import pytest

from ragbench.config.load import load_config
from ragbench.data.files.jsonl import Entry
from ragbench.data.files.table import with_paths
from ragbench.data.loaders.records import Records
from ragbench.errors import DataError


@pytest.fixture
def blocks(repository):
    """Language -> the code blocks of the page."""
    page = (repository / "docs" / "data.md").read_text(encoding="utf-8")
    found = {"json": [], "yaml": []}
    for language, text in re.findall(r"```(\w+)\n(.*?)```", page, flags=re.DOTALL):
        found[language].append(text)
    return found


@pytest.mark.parametrize(("number", "name"), [(0, "langsmith"), (1, "langfuse")])
def test_the_examples_of_the_page_load(blocks, tmp_path, number, name):
    (tmp_path / f"{name}.jsonl").write_text(blocks["json"][number])
    (tmp_path / "c.yaml").write_text(blocks["yaml"][number])

    dataset = load_config(tmp_path / "c.yaml").dataset
    collection = dataset.cls(**dataset.options).load()

    [query] = collection.queries
    [answered] = collection.given["given"]
    assert query.text == "Which moon is hot?"
    assert answered.answer == "Io."
    [passage] = answered.contexts
    assert passage.text == "Io is hot."
    if name == "langsmith":
        assert passage.metadata == {"source": "io.md", "type": "Document"}
    else:
        assert passage.id == "io"


def test_the_other_configs_of_the_page_are_right(blocks, tmp_path):
    (tmp_path / "c.yaml").write_text(blocks["yaml"][2] + "retrievers: {a: {type: bm25}}\n")

    assert load_config(tmp_path / "c.yaml").dataset.options["subset"] == "covidqa"


def test_a_column_of_that_very_name_comes_first():
    [entry] = with_paths([Entry("x", 1, {"a.b": 1, "a": {"b": 2}})], {"question": "a.b"})

    assert entry.values["a.b"] == 1


def test_rows_without_the_path_have_null():
    rows = [{"a": {"b": 2}}, {"a": 5}, {"a": []}, {}]
    found = with_paths([Entry("x", n, row) for n, row in enumerate(rows)], {"question": "a.b"})

    assert [entry.values["a.b"] for entry in found] == [2, None, None, None]
    assert all(set(row) <= {"a"} for row in rows), "the rows themselves are left alone"


def test_a_path_that_leads_nowhere_is_no_column(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input": {"query": "?"}, "output": "!"}\n')
    with pytest.raises(DataError, match=r"no column 'input.qery' \(columns: input, output\)"):
        Records(path=tmp_path / "x.jsonl", columns={"question": "input.qery"}).load()
