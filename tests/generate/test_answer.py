"""All shapes in which people return answers, and what is said of anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangchainDocument

from ragbench.errors import AdapterError
from ragbench.generate.python import read_answer
from ragbench.types import Document, Prediction, ScoredDocument
from tests.lazy import Lazy

pd = Lazy("pandas")


def test_text_and_predictions_are_answers():
    prediction = Prediction("yes")

    assert read_answer("") == Prediction("")
    assert read_answer(prediction) == prediction
    assert read_answer({"answer": "yes"}) == prediction
    assert read_answer({"answer": "yes", "contexts": None, "queries": None}) == prediction


@pytest.mark.parametrize(
    "passage",
    [
        pytest.param(Document("d1", "Io erupts.", "Io"), id="ours"),
        pytest.param(ScoredDocument("d1", 2.0, "Io erupts.", "Io"), id="a hit"),
        pytest.param({"id": "d1", "text": "Io erupts.", "title": "Io"}, id="a mapping"),
        pytest.param(
            LangchainDocument("Io erupts.", id="d1", metadata={"title": "Io"}), id="of langchain"
        ),
    ],
)
@pytest.mark.parametrize("shape", ["mapping", "Prediction"])
def test_passages_in_every_shape(passage, shape):
    value = {"answer": "yes", "contexts": [passage], "queries": ["Io?"]}
    answer = value if shape == "mapping" else Prediction("yes", [passage], queries=["Io?"])

    read = read_answer(answer)

    [document] = read.contexts
    assert (read.answer, read.queries) == ("yes", ["Io?"])
    assert (document.id, document.text, document.title) == ("d1", "Io erupts.", "Io")
    assert type(document) is Document


@given(st.lists(st.text(min_size=1), max_size=5, unique=True))
def test_texts_are_passages_with_ids_of_their_own(texts):
    passages = read_answer({"answer": "yes", "contexts": texts}).contexts

    assert [document.text for document in passages] == texts
    assert len({document.id for document in passages}) == len(texts)
    assert passages == read_answer({"answer": "no", "contexts": iter(texts)}).contexts


def test_ids_are_written_as_in_run_files():
    read = read_answer({"answer": "yes", "contexts": [{"id": "my doc", "text": "Io"}]})

    assert [document.id for document in read.contexts] == ["my%20doc"]


@pytest.mark.parametrize(
    "answer", [None, 3, ["text"], Prediction(None), {"answer": None}, {"result": "x"}]
)
def test_anything_else_is_no_answer(answer, assert_message):
    with pytest.raises(AdapterError) as caught:
        read_answer(answer)
    assert_message(caught.value)


@pytest.mark.parametrize(
    "parts",
    [
        {"contexts": "Io"},  # one text is no list of passages
        {"contexts": 3},
        {"contexts": {"d1": "Io"}},  # a mapping has no order
        {"contexts": ["Io", 3]},
        {"contexts": [{"txt": "Io"}]},
        {"contexts": [{"id": "d1", "text": 3}]},
        {"contexts": [""]},  # neither id nor text
        {"contexts": [{"id": "a\0b"}]},  # run files end an id there
        {"queries": "Io"},
        {"queries": [1]},
        {"usage": {"input": 3}},
        {"latency_ms": float("nan")},  # NaN is no time
        {"latency_ms": "fast"},
        {"latency_ms": -1.0},  # before the question
    ],
)
def test_refuses(parts, assert_message):
    with pytest.raises(AdapterError) as caught:
        read_answer(Prediction("yes", **parts))

    assert_message(caught.value)


def test_a_frame_is_no_list_of_passages(assert_message):
    # the parts of a frame are the names of its columns
    frame = pd.DataFrame({"id": ["d1"], "text": ["Io"]})

    with pytest.raises(AdapterError) as caught:
        read_answer({"answer": "yes", "contexts": frame})

    assert_message(caught.value)
