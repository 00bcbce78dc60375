"""`type: huggingface` on folders in the layout of the hub."""

import json
import sys

import pytest

from ragbench.data.loaders.records import HuggingFace, Records
from ragbench.errors import DataError, MissingExtra, OptionError

# all columns of rungalileo/ragbench, as its feature list names them
RAGBENCH = {
    "id": "7",
    "question": "Which moon is hot?",
    "documents": ["Io is hot.", "Europa is cold."],
    "response": "Io.",
    "generation_model_name": "gpt-3.5-turbo",
    "annotating_model_name": "gpt-4-1106-preview",
    "dataset_name": "moons_test",
    "documents_sentences": [[["0a", "Io is hot."]], [["1a", "Europa is cold."]]],
    "response_sentences": [["a", "Io."]],
    "sentence_support_information": [
        {
            "response_sentence_key": "a",
            "explanation": "The first document says so.",
            "supporting_sentence_keys": ["0a"],
            "fully_supported": True,
        }
    ],
    "unsupported_response_sentence_keys": [],
    "adherence_score": True,
    "overall_supported_explanation": "Supported.",
    "relevance_explanation": "The first document names the moon.",
    "all_relevant_sentence_keys": ["0a"],
    "all_utilized_sentence_keys": ["0a"],
    "relevance_score": 0.5,
    "utilization_score": 0.5,
    "completeness_score": 1.0,
}


@pytest.fixture
def folder(tmp_path):
    """A folder in the hub's layout: a file a split."""
    data_folder = tmp_path / "moons"
    data_folder.mkdir()
    for split in ("train", "test"):
        write(data_folder / f"{split}.jsonl", [RAGBENCH | {"id": f"{split}-{n}"} for n in range(4)])
    return data_folder


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_columns_of_ragbench_are_known(folder):
    collection = HuggingFace(path=str(folder)).load()

    assert [query.id for query in collection.queries] == [f"test-{n}" for n in range(4)]
    answered = collection.recorded_answers["given"][0]
    assert answered.answer == "Io."
    assert [passage.text for passage in answered.contexts] == RAGBENCH["documents"]
    assert collection.queries[0].metadata["adherence_score"] is True


def test_it_reads_as_records_do(folder):
    ours, theirs = HuggingFace(path=str(folder)), Records(path=folder / "test.jsonl")

    assert ours.load().fingerprints == theirs.load().fingerprints
    assert ours.preview(2) == theirs.preview(2)


def test_columns_can_be_named(folder):
    columns = {"system": "generation_model_name", "answer": None, "reference": "response"}
    collection = HuggingFace(path=str(folder), split="train", columns=columns).load()

    assert list(collection.recorded_answers) == ["gpt-3.5-turbo"]
    assert collection.answers["train-0"] == ["Io."]


def test_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")

    for path in folder.glob("*.jsonl"):
        path.unlink()
    table = pyarrow.Table.from_pylist([{"question": "?", "reference": "!", "id": "q"}])
    pyarrow.parquet.write_table(table, folder / "test.parquet")

    assert HuggingFace(path=str(folder)).load().answers == {"q": ["!"]}


def test_a_random_split_of_the_only_one(folder, assert_message):
    with pytest.raises(DataError) as caught:
        HuggingFace(path=str(folder), split={"test": 0.5, "seed": 1}).load()
    assert_message(caught.value)
    (folder / "test.jsonl").unlink()

    assert len(HuggingFace(path=str(folder), split={"test": 0.5, "seed": 1}).load().queries) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"split": "dev"},
        {"columns": {"question": "frage"}},
        {"subset": "covidqa"},
    ],
)
def test_mistakes_name_the_data_set(folder, options, assert_message):
    with pytest.raises(DataError) as caught:
        HuggingFace(path=str(folder), **options).load()
    assert_message(caught.value)


def test_a_wrong_row_has_its_number(folder, assert_message):
    write(folder / "test.jsonl", [RAGBENCH, RAGBENCH | {"question": " ", "id": "8"}])

    with pytest.raises(DataError) as caught:
        HuggingFace(path=str(folder)).load()
    assert_message(caught.value, "TMP/moons/test.jsonl:2")


def test_options_are_checked_without_the_package():
    with pytest.raises(OptionError, match="did you mean 'question'"):
        HuggingFace(path="x", columns={"questio": "q"})


def test_the_missing_package_is_named(monkeypatch, assert_message):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra) as caught:
        HuggingFace(path="x").load()
    assert_message(caught.value)
