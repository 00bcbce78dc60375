"""`type: haystack` of apps: pipelines of the shape that Haystack has, and its own where it is."""

from types import SimpleNamespace

import pytest

from ragbench.errors import AdapterError, OptionError
from ragbench.generate.haystack import HaystackApp
from ragbench.generate.python import as_app
from ragbench.types import Document
from tests.retrieve.test_haystack import document

DOCUMENTS = {"documents": [document("io"), document("b", "Europa.")]}
SOCKETS = {"search": {"query": {}}, "prompt": {"question": {}, "template": {}}, "llm": {"seed": {}}}


class AnswerPipeline:
    """As a pipeline is asked: it returns the outputs that nothing takes, and those named."""

    def __init__(self, result=None, sockets=SOCKETS):
        self.result, self.sockets, self.asked = result, sockets, []

    def get_component(self, name):
        return name

    def inputs(self):
        return self.sockets

    def outputs(self, include_components_with_connected_outputs=False):
        assert include_components_with_connected_outputs
        return {"search": {"documents": {}}, "prompt": {"prompt": {}}, "llm": {"replies": {}}}

    def run(self, data, include_outputs_from=None):
        self.asked.append((data, include_outputs_from))
        result = self.result or {"search": DOCUMENTS, "llm": {"replies": [" Io has volcanoes."]}}
        return {n: o for n, o in result.items() if n != "search" or n in include_outputs_from}


def test_the_open_sockets_get_the_question_and_the_documents_are_the_passages():
    pipeline = AnswerPipeline()

    prediction = as_app(pipeline, {}, "app 'mine'").answer("volcanoes?")

    data = {"search": {"query": "volcanoes?"}, "prompt": {"question": "volcanoes?"}}
    assert pipeline.asked == [(data, {"search", "llm"})]
    assert prediction.answer == "Io has volcanoes."
    assert prediction.contexts == [Document("io", "Io."), Document("b", "Europa.")]


@pytest.mark.parametrize(
    ("llm", "path"),
    [
        ({"replies": [SimpleNamespace(text="Io.", meta={})]}, None),
        ({"answers": [SimpleNamespace(data="Io.", query="?")], "replies": ["Europa."]}, None),
        ({"said": [{"text": "Io."}]}, "$.answers.said[0].text"),
    ],
    ids=["message", "answer", "path"],
)
def test_what_pipelines_answer(llm, path):
    # The name of a component is no output
    prediction = HaystackApp(client=AnswerPipeline({"answers": llm}), answer=path).answer("Which?")

    assert prediction.answer == "Io."
    assert prediction.contexts is None, "unknown: nothing returned documents"


def test_an_input_that_is_named_replaces_the_sockets():
    pipeline = AnswerPipeline()
    HaystackApp(client=pipeline, input={"llm": {"prompt": "Q: {question}"}}).answer("Which?")

    assert pipeline.asked[0][0] == {"llm": {"prompt": "Q: Which?"}}


@pytest.mark.parametrize(
    ("options", "error", "place"),
    [
        ({"client": 3}, AdapterError, ""),
        (
            {"client": AnswerPipeline(sockets={"llm": {"prompt": {}}})},
            OptionError,
            "haystack: input",
        ),
        ({"client": AnswerPipeline(), "input": {"a": "{qestion}"}}, OptionError, "haystack: input"),
        ({"client": AnswerPipeline(), "answer": "$["}, OptionError, "haystack: answer"),
    ],
)
def test_wrong_options_are_refused_before_the_first_question(options, error, place, assert_message):
    with pytest.raises(error) as caught:
        HaystackApp(**options)
    assert_message(caught.value, place)


@pytest.mark.parametrize("result", [{"llm": {}}, {"llm": {"replies": []}}, {"llm": 3}])
def test_no_answer_is_malformed(result, assert_message):
    with pytest.raises(AdapterError) as caught:
        HaystackApp(client=AnswerPipeline(result)).answer("Which?")
    assert_message(caught.value)


def test_the_real_package(monkeypatch):
    # Its own retriever, prompt builder and answer builder, with a model that echoes
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "false")
    haystack = pytest.importorskip("haystack", reason="Haystack is not installed")
    from haystack.components.builders import AnswerBuilder, PromptBuilder
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    @haystack.component
    class Echo:
        @haystack.component.output_types(replies=list[str])
        def run(self, prompt: str):
            return {"replies": [prompt.upper()]}

    store = InMemoryDocumentStore()
    texts = {"io": "Io has volcanoes", "b": "Europa has an ocean"}
    store.write_documents([haystack.Document(id=id, content=text) for id, text in texts.items()])
    pipeline = haystack.Pipeline()
    pipeline.add_component("search", InMemoryBM25Retriever(store, top_k=1))
    pipeline.add_component("prompt", PromptBuilder("{{question}} {{documents[0].content}}"))
    pipeline.add_component("llm", Echo())
    pipeline.connect("search", "prompt.documents")
    pipeline.connect("prompt", "llm")

    for has_builder in (False, True):
        if has_builder:
            pipeline.add_component("answers", AnswerBuilder())
            pipeline.connect("llm.replies", "answers.replies")
        prediction = as_app(pipeline, {}, "app 'mine'").answer("volcanoes?")
        assert prediction.answer == "VOLCANOES? IO HAS VOLCANOES"
        assert [passage.id for passage in prediction.contexts] == ["io"]
