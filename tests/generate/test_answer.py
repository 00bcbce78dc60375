"""All shapes in which people return answers, and what is said of anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangchainDocument

from ragbench.errors import AdapterError
from ragbench.generate.python import read_answer
from ragbench.types import Document, Prediction, ScoredDocument


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
    given = {"answer": "yes", "contexts": [passage], "queries": ["Io?"]}
    answer = given if shape == "mapping" else Prediction("yes", [passage], queries=["Io?"])

    found = read_answer(answer)

    [document] = found.contexts
    assert (found.answer, found.queries) == ("yes", ["Io?"])
    assert (document.id, document.text, document.title) == ("d1", "Io erupts.", "Io")
    assert type(document) is Document


@given(st.lists(st.text(min_size=1), max_size=5, unique=True))
def test_texts_are_passages_with_ids_of_their_own(texts):
    found = read_answer({"answer": "yes", "contexts": texts}).contexts

    assert [document.text for document in found] == texts
    assert len({document.id for document in found}) == len(texts)
    assert found == read_answer({"answer": "no", "contexts": iter(texts)}).contexts


def test_ids_are_written_as_in_run_files():
    found = read_answer({"answer": "yes", "contexts": [{"id": "my doc", "text": "Io"}]})

    assert [document.id for document in found.contexts] == ["my%20doc"]


@pytest.mark.parametrize(
    "answer", [None, 3, ["text"], Prediction(None), {"answer": None}, {"result": "x"}]
)
def test_anything_else_is_no_answer(answer):
    with pytest.raises(AdapterError, match="instead of an answer, allowed: text"):
        read_answer(answer)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"contexts": "Io"}, "found 'Io' as contexts, allowed: a list of texts"),
        ({"contexts": 3}, "found 3 as contexts"),
        ({"contexts": {"d1": "Io"}}, "found {'d1': 'Io'} as contexts"),
        ({"contexts": ["Io", 3]}, "passage 2 is 3, allowed: texts, documents"),
        ({"contexts": [{"txt": "Io"}]}, "passage 1 is {'txt': 'Io'}, allowed: texts"),
        ({"contexts": [{"id": "d1", "text": 3}]}, "passage 1 is {'id': 'd1', 'text': 3}"),
        ({"contexts": [""]}, "neither an id nor a text"),
        ({"contexts": [{"id": "a\0b"}]}, "passage 1: the id 'a\\x00b' holds a NUL"),
        ({"queries": "Io"}, "found 'Io' as queries, allowed: a list of texts"),
        ({"queries": [1]}, "found [1] as queries"),
        ({"usage": {"input": 3}}, "found {'input': 3} as usage"),
        ({"latency_ms": float("nan")}, "found nan as latency_ms, allowed: a number >= 0"),
        ({"latency_ms": "fast"}, "found 'fast' as latency_ms"),
        ({"latency_ms": -1.0}, "found -1.0 as latency_ms"),
    ],
)
def test_refuses(parts, message):
    with pytest.raises(AdapterError) as caught:
        read_answer(Prediction("yes", **parts))

    assert message in str(caught.value)
