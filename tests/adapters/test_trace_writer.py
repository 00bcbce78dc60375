"""Traces written from LangChain and LlamaIndex are read back as what happened."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import ragbench as rb
from ragbench.data.loaders.traces import Traces


def langchain_app(fail_on=""):
    """A chain with a retriever, a formatted prompt and a chat model that knows its tokens."""
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    class Search(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [
                Document("Io is hot.", id="io", metadata={"source": "io.md"}),
                Document("Europa is cold.", id="europa"),
            ]

    def answer(asked, config):
        if asked["question"] == fail_on:
            raise TimeoutError("no reply")
        documents = Search().invoke(asked["question"], config=config)
        usage = {"input_tokens": 30, "output_tokens": 2, "total_tokens": 32}
        reply = AIMessage("Io.", usage_metadata=usage, response_metadata={"model_name": "tiny"})
        model = GenericFakeChatModel(messages=iter([reply]))
        texts = "\n".join(each.page_content for each in documents)
        said = model.invoke(f"{texts}\n{asked['question']}", config=config)
        return {"answer": said.content, "documents": documents}

    return RunnableLambda(answer, name="app")


def test_a_chain_of_langchain(tmp_path):
    path = tmp_path / "traces.jsonl"
    handler = rb.TraceWriter(path).langchain()
    app = langchain_app(fail_on="Which moon is old?")
    config = {"callbacks": [handler], "metadata": {"session_id": "visit"}}

    app.invoke({"question": "Which moon is hot?"}, config=config)
    app.invoke({"question": "Why?"}, config=config)
    with pytest.raises(TimeoutError):
        app.invoke({"question": "Which moon is old?"}, config=config)
    collection = Traces(path=path).load()

    first, second, third = collection.queries
    one, _, failed = collection.given["given"]
    assert first.text == "Which moon is hot?"
    assert one.answer == "Io."
    assert [(d.id, d.text) for d in one.contexts] == [
        ("io", "Io is hot."),
        ("europa", "Europa is cold."),
    ]
    assert one.contexts[0].metadata["source"] == "io.md"
    assert (one.usage.input_tokens, one.usage.output_tokens) == (30, 2)
    assert one.latency_ms > 0
    assert (first.metadata["model"], first.metadata["session"]) == ("tiny", "visit")
    assert [turn.text for turn in second.turns] == ["Which moon is hot?", "Io."]
    assert len(third.turns) == 4
    assert (failed.answer, failed.error) == (None, "TimeoutError: no reply")
    assert collection.warnings == []


def test_a_retriever_that_finds_nothing_has_no_passages(tmp_path):
    pytest.importorskip("langchain_core")
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    class Nothing(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return []

    def answer(question, config):
        Nothing().invoke(question, config=config)
        return "I do not know."

    handler = rb.TraceWriter(tmp_path / "t.jsonl").langchain()
    RunnableLambda(answer).invoke("Why?", config={"callbacks": [handler]})

    [row] = Traces(path=tmp_path / "t.jsonl").load().given["given"]
    assert row.contexts == []


def test_many_threads_write_one_file(tmp_path):
    handler = rb.TraceWriter(tmp_path / "t.jsonl").langchain()
    app = langchain_app()

    def ask(number):
        app.invoke({"question": f"Question {number}?"}, config={"callbacks": [handler]})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(40)))

    collection = Traces(path=tmp_path / "t.jsonl").load()
    assert sorted(query.text for query in collection.queries) == sorted(
        f"Question {number}?" for number in range(40)
    )
    assert all(len(row.contexts) == 2 for row in collection.given["given"])


def test_secrets_of_the_environment_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-a1b2c3d4e5f6g7h8")
    from langchain_core.runnables import RunnableLambda

    def answer(question):
        raise ValueError("bad key sk-a1b2c3d4e5f6g7h8")

    handler = rb.TraceWriter(tmp_path / "t.jsonl").langchain()
    with pytest.raises(ValueError, match="bad key"):
        RunnableLambda(answer).invoke("Why?", config={"callbacks": [handler]})

    text = (tmp_path / "t.jsonl").read_text()
    assert "sk-a1b2c3d4e5f6g7h8" not in text
    assert "bad key ${SHOP_API_KEY}" in text


def test_the_session_of_a_writer(tmp_path):
    handler = rb.TraceWriter(tmp_path / "t.jsonl", session="s1").langchain()
    langchain_app().invoke({"question": "Why?"}, config={"callbacks": [handler]})

    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row["attributes"].get("session.id") for row in rows if row["parent_id"] is None] == [
        "s1"
    ]


def test_a_query_engine_of_llama_index(tmp_path):
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import MockLLM
    from llama_index.core.postprocessor import SimilarityPostprocessor
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import get_response_synthesizer
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Search(BaseRetriever):
        def _retrieve(self, query_bundle):
            if query_bundle.query_str == "Fail?":
                raise TimeoutError("no index")
            nodes = [("io", "Io is hot.", 0.9), ("europa", "Europa is cold.", 0.2)]
            return [NodeWithScore(node=TextNode(id_=i, text=t), score=s) for i, t, s in nodes]

    engine = RetrieverQueryEngine(
        retriever=Search(),
        response_synthesizer=get_response_synthesizer(llm=MockLLM(max_tokens=5)),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.5)],
    )
    writer = rb.TraceWriter(tmp_path / "t.jsonl")
    with writer.llama_index():
        answer = engine.query("Which moon is hot?")
        with pytest.raises(TimeoutError):
            engine.query("Fail?")
    engine.query("Not heard?")

    collection = Traces(path=tmp_path / "t.jsonl").load()
    one, failed = collection.given["given"]
    union, _ = collection.given["given-union"]
    assert [query.text for query in collection.queries] == ["Which moon is hot?", "Fail?"]
    assert one.answer == answer.response
    assert [(d.id, d.text) for d in one.contexts] == [("io", "Io is hot.")]
    assert [(d.id, d.metadata["score"]) for d in union.contexts] == [("io", 0.9), ("europa", 0.2)]
    assert failed.error == "TimeoutError: no index"
