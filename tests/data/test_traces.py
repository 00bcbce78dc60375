"""Exported traces as records: every example of the docs loads, and paths lead inside."""

import re

import pytest

from ragbench.config.load import load_config
from ragbench.data.files.columns import with_paths
from ragbench.data.files.rows import Entry
from ragbench.data.loaders.records import Records
from ragbench.data.traces.values import documents_in
from ragbench.errors import DataError


@pytest.fixture
def blocks(repository):
    """Language -> the code blocks of the sections on traces and on public data sets."""
    page = ""
    for name, head in (("traces.md", "Traces from production"), ("data.md", "Public data sets")):
        text = (repository / "docs" / name).read_text(encoding="utf-8")
        page += text.partition(f"## {head}\n")[2].partition("\n## ")[0]
    by_language = {"json": [], "yaml": []}
    for language, text in re.findall(r"```(\w+)\n(.*?)```", page, flags=re.DOTALL):
        by_language.setdefault(language, []).append(text)
    return by_language


@pytest.mark.parametrize(("number", "name"), [(0, "langfuse"), (1, "log")])
def test_the_examples_of_the_page_load(blocks, tmp_path, number, name):
    (tmp_path / f"{name}.jsonl").write_text(blocks["json"][number])
    (tmp_path / "c.yaml").write_text(blocks["yaml"][number + 1])

    dataset = load_config(tmp_path / "c.yaml").dataset
    collection = dataset.cls(**dataset.options).load()

    [query] = collection.queries
    [answered] = collection.recorded_answers["given"]
    assert query.text == "Which moon is hot?"
    assert answered.answer == "Io."
    [passage] = answered.contexts
    assert passage.text == "Io is hot."
    if name == "langfuse":
        assert passage.id == "io"
        assert answered.usage.input_tokens == 41


def test_the_other_configs_of_the_page_are_right(blocks, tmp_path):
    (tmp_path / "c.yaml").write_text(blocks["yaml"][3] + "retrievers: {a: {type: bm25}}\n")

    assert load_config(tmp_path / "c.yaml").dataset.options["subset"] == "covidqa"


def test_a_column_of_that_very_name_comes_first():
    [entry] = with_paths([Entry("x", 1, {"a.b": 1, "a": {"b": 2}})], {"question": "a.b"})

    assert entry.values["a.b"] == 1


def test_rows_without_the_path_have_null():
    rows = [{"a": {"b": 2}}, {"a": 5}, {"a": []}, {}]
    rows_with_paths = with_paths(
        [Entry("x", n, row) for n, row in enumerate(rows)], {"question": "a.b"}
    )

    assert [entry.values["a.b"] for entry in rows_with_paths] == [2, None, None, None]
    assert all(set(row) <= {"a"} for row in rows), "the rows themselves are left alone"


def test_a_path_that_leads_nowhere_is_no_column(tmp_path, assert_message):
    (tmp_path / "x.jsonl").write_text('{"input": {"query": "?"}, "output": "!"}\n')
    with pytest.raises(DataError) as caught:
        Records(path=tmp_path / "x.jsonl", columns={"question": "input.qery"}).load()
    assert_message(caught.value, "TMP/x.jsonl: columns.question")


def test_keys_with_dots_and_json_texts_are_part_of_a_path():
    row = {"attributes": {"input.value": '{"q.text": ["Why?"]}', "input": {"other": 1}}}
    [entry] = with_paths([Entry("x", 1, row)], {"question": "attributes.input.value.q.text.0"})

    assert entry.values["attributes.input.value.q.text.0"] == "Why?"


def observations(*kinds):
    return [
        {
            "id": f"t{number}",
            "input": f"Question {number}?",
            "observations": [{"type": kind, "output": ["Io is hot."]}],
        }
        for number, kind in enumerate(kinds)
    ]


def test_steps_of_one_kind_are_read_by_their_place(write):
    path = write("logs.jsonl", observations("RETRIEVER", "RETRIEVER"))
    columns = {"question": "input", "contexts": "observations.0.output"}

    assert len(Records(path=path, columns=columns).load().queries) == 2


def test_an_export_of_traces_as_records_names_the_loader(write, problem, assert_message):
    path = write("logs.jsonl", observations("RETRIEVER"))

    assert_message(problem(lambda: Records(path=path).load()), "logs.jsonl:1")


@pytest.mark.parametrize(
    "output",
    [
        pytest.param({"output": {"documents": ["Io is hot."]}}, id="documents of an output"),
        pytest.param({"output": "2 hits", "result": ["Io is hot."]}, id="a text, then a list"),
        pytest.param({"value": {"return": ["Io is hot."]}}, id="an output of an output"),
    ],
)
def test_passages_are_found_below_the_keys_of_tools(output):
    assert documents_in(output) == ["Io is hot."]
