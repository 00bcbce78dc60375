"""`type: langchain` with langchain's own chat models, chains and retrievers."""

import pytest
from langchain_core.documents import Document as LangchainDocument
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool

from ragbench.errors import AdapterError, OptionError
from ragbench.generate.langchain import LangchainApp, LangchainGenerator
from ragbench.llm import Replies
from ragbench.types import Document, Query, Usage
from tests.retrieve.foreign import store

PASSAGES = [Document("io", "It has volcanoes.", "Io"), Document("b", "Europa has an ocean.")]
ASK = ChatPromptTemplate.from_template("{context}\n{question}")


def models(*texts, **facts):
    message = AIMessage(
        texts[0],
        usage_metadata={"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
        response_metadata={"model_name": "gpt-4o-mini"},
    )
    return GenericFakeChatModel(messages=iter([message]))


def echo(message):
    return message if isinstance(message, str) else str(message)


def chain_over(retriever, model):
    """The chain of every tutorial."""
    parts = {"context": retriever, "question": RunnablePassthrough()}
    return parts | ASK | model | StrOutputParser()


def test_a_chat_model_is_told_the_prompt_and_its_replies_are_kept(tmp_path):
    answers = []
    # the second model would answer otherwise: its answer comes from the store
    for text in ("Io.", "another answer, never asked for"):
        generator = LangchainGenerator(client=FakeListChatModel(responses=[text]), system="Brief.")
        with Replies(tmp_path / "replies.sqlite") as replies:
            generator.keep_replies(replies)
            generator.check()
            answers.append(generator.generate("Which moon?", PASSAGES).answer)
            generator.close()

    assert answers == ["Io.", "Io."]
    assert generator.asks
    assert generator.prompt_hash is not None


@pytest.mark.parametrize(
    "model", [FakeListChatModel(responses=["x"]).bind(stop=["a"]), models("x").with_retry()]
)
def test_a_chat_model_with_options_bound_is_one(model):
    generator = LangchainGenerator(client=model)
    assert generator.generate("Which?", PASSAGES).answer == "x"
    generator.close()


def test_a_chain_gets_question_and_context():
    chain = ASK | RunnableLambda(lambda prompt: prompt.to_messages()[0].content)

    prediction = LangchainGenerator(client=chain).generate("Which moon?", PASSAGES)

    assert prediction.answer == "Io It has volcanoes.\n\nEuropa has an ocean.\nWhich moon?"
    assert prediction.contexts is None, "it retrieved nothing: the passages that it was given count"


@pytest.mark.parametrize("kind", [LangchainGenerator, LangchainApp])
def test_what_the_users_own_chain_retrieved_is_what_it_is_judged_by(kind):
    retriever = store().as_retriever(search_kwargs={"k": 2})
    # LangChain itself tells what the chain retrieves
    expected = [document.metadata["doc"] for document in retriever.invoke("Io has volcanoes.")]
    generator = kind(
        client=chain_over(retriever, models("It erupts.")), input="{question}", id_field="doc"
    )

    question = "Io has volcanoes."
    prediction = (
        generator.generate(question, [])
        if kind is LangchainGenerator
        else generator.answer(question)
    )

    assert prediction.answer == "It erupts."
    assert [document.id for document in prediction.contexts] == expected
    assert prediction.contexts[0].text == "Io has volcanoes."
    # prices of gpt-4o-mini, in USD for a million tokens
    assert prediction.usage == Usage(9, 2, pytest.approx((9 * 0.15 + 2 * 0.6) / 1e6))
    assert prediction.queries == []


class Several(BaseRetriever):
    """Asks another retriever several queries, as a MultiQueryRetriever does."""

    inner: BaseRetriever

    def _get_relevant_documents(self, query, *, run_manager):
        documents = []
        for part in ("Titan has lakes.", "Io has volcanoes."):
            # without these callbacks LangChain tells nobody of the inner calls
            config = {"callbacks": run_manager.get_child()}
            documents += self.inner.invoke(part, config=config)
        # another order than that of the inner retriever, which must not count
        return documents[:3][::-1]


def test_the_outermost_retriever_counts_and_its_own_queries_are_formulated_ones():
    inner = store().as_retriever(search_kwargs={"k": 2})
    outer = Several(inner=inner)
    expected = [document.metadata["doc"] for document in outer.invoke("volcanoes and lakes?")]

    prediction = LangchainApp(client=chain_over(outer, models("x")), id_field="doc").answer(
        "volcanoes and lakes?"
    )

    assert [document.id for document in prediction.contexts] == list(dict.fromkeys(expected))
    assert prediction.queries == ["Titan has lakes.", "Io has volcanoes."]


def test_documents_in_the_answer_count_where_no_retriever_was_heard():
    documents = [LangchainDocument("Io.", id="io")]
    chain = RunnableLambda(lambda inputs: {"answer": inputs["input"], "context": documents})

    prediction = LangchainApp(client=chain, input={"input": "{question}"}).answer("why?")

    assert prediction.answer == "why?"
    assert prediction.contexts == [Document("io", "Io.")]
    assert prediction.usage == Usage(), "unknown, not 0"


@pytest.mark.parametrize(
    ("result", "path", "expected"),
    [
        ("text ", None, "text"),
        ({"result": "a"}, None, "a"),
        (AIMessage("b"), None, "b"),
        ({"answer": AIMessage([{"type": "text", "text": "c"}])}, None, "c"),
        ({"deep": [{"said": "d"}]}, "$.deep[0].said", "d"),
    ],
)
def test_what_chains_return(result, path, expected):
    app = LangchainApp(client=RunnableLambda(lambda question: result), answer=path)

    assert app.answer("why?").answer == expected


@pytest.mark.parametrize("result", [None, 3, ["a"], {"no": "answer"}, {"answer": None}])
def test_anything_else_is_malformed(result, assert_message):
    app = LangchainApp(client=RunnableLambda(lambda question: result))

    with pytest.raises(AdapterError) as caught:
        app.answer("why?")
    assert_message(caught.value)


def test_an_object_that_only_looks_like_a_chain():
    class Plain:
        async def ainvoke(self, inputs):
            return f"asked {inputs}"

    assert LangchainApp(client=Plain()).answer("why?").answer == "asked why?"


@pytest.mark.parametrize(
    ("client", "options", "place"),
    [
        (
            models("x"),
            {"input": "{question}"},
            "langchain: input",
        ),
        (RunnableLambda(echo), {"system": "x"}, "langchain: system"),
        (RunnableLambda(echo), {"context_tokens": 5}, "langchain: context_tokens"),
        (RunnableLambda(echo), {"input": {"q": "{qustion}"}}, "langchain: input"),
        (RunnableLambda(echo), {"answer": "$["}, "langchain: answer"),
    ],
)
def test_options_that_would_do_nothing_are_refused(client, options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        LangchainGenerator(client=client, **options)
    assert_message(caught.value, place)


def test_further_answers_are_asked_for_and_kept_apart(tmp_path):
    query, answers = Query("q", "Which moon?"), []
    for texts in (["Io.", "Europa."], ["never asked for"]):
        generator = LangchainGenerator(client=FakeListChatModel(responses=texts), concurrency=1)
        with Replies(tmp_path / "replies.sqlite") as replies:
            generator.keep_replies(replies)
            answers.append([generator.generate_sample(query, PASSAGES, n).answer for n in range(2)])
            generator.close()
    chain = LangchainGenerator(client=RunnableLambda(lambda inputs: f"{inputs['question']} Io."))

    assert answers == [["Io.", "Europa."]] * 2
    assert chain.generate_sample(query, PASSAGES, 1).answer == "Which moon? Io."


def keyed_chain(key):
    """A chain of a mapping with the question under a key, as in LangChain's guides."""
    question = RunnableLambda(lambda inputs: inputs[key])
    retriever = store().as_retriever(search_kwargs={"k": 1})
    parts = RunnablePassthrough.assign(context=question | retriever, question=question)
    return parts | ASK | RunnableLambda(lambda prompt: prompt.to_string())


MESSAGES = ChatPromptTemplate.from_messages([("system", "Brief."), MessagesPlaceholder("messages")])
SHOUT = RunnableLambda(lambda prompt: prompt.to_messages()[-1].content.upper())


@pytest.mark.parametrize(
    "chain",
    [
        chain_over(store().as_retriever(), SHOUT),
        *map(keyed_chain, ("question", "input", "query")),
        ChatPromptTemplate.from_template("{input}") | SHOUT,
        MESSAGES | SHOUT,
        RunnableLambda(lambda inputs: inputs["question"].upper()),
        RunnableLambda(
            lambda inputs: {"messages": [HumanMessage(inputs["messages"][0]["content"])]}
        ),
    ],
    ids=["text", "question", "input", "query", "prompt", "messages", "function", "state"],
)
def test_an_app_gets_the_question_in_the_form_that_it_takes(chain):
    app = LangchainApp(client=chain)

    answers = [app.answer(question).answer for question in ("Has Io lakes?", "Has Titan lakes?")]

    assert [answer.lower().split("\n")[-1] for answer in answers] == [
        "has io lakes?",
        "has titan lakes?",
    ]


def test_the_form_of_the_input_is_tried_once_and_never_after_a_paid_call():
    forms = []

    def answer(inputs):
        forms.append(inputs)
        return models("Io.").invoke(inputs["input"]).content

    app = LangchainApp(client=RunnableLambda(answer))
    assert [app.answer("Which?").answer, app.answer("Who?").answer] == ["Io.", "Io."]
    assert forms == ["Which?", {"question": "Which?"}, {"input": "Which?"}, {"input": "Who?"}]

    def fail(inputs):
        forms.append(inputs)
        models("Io.").invoke(inputs)
        raise ValueError("after the call")

    forms.clear()
    with pytest.raises(ValueError, match="after the call"):
        LangchainApp(client=RunnableLambda(fail)).answer("Which?")
    assert forms == ["Which?"]


def test_a_server_that_is_down_chooses_no_form():
    def fail(inputs):
        raise ConnectionResetError("down")

    with pytest.raises(ConnectionResetError, match="down"):
        LangchainApp(client=RunnableLambda(fail)).answer("Which?")


def test_an_unusual_input_is_named_in_one_line(assert_message):
    chain = keyed_chain("frage") | (lambda text: {"antwort": text.split("\n")[-1]})
    message = (
        "chain accepts no usual input .*as {question: ...}: KeyError: 'frage'.*allowed: 'input:"
    )

    with pytest.raises(AdapterError, match=message):
        LangchainApp(client=chain).answer("Which?")
    with pytest.raises(AdapterError) as caught:
        LangchainApp(client=chain, input={"frage": "{question}"}).answer("Which?")
    assert_message(caught.value)
    named_input = LangchainApp(client=chain, input={"frage": "{question}"}, answer="$.antwort")
    assert named_input.answer("Which?").answer == "Which?"


def test_documents_that_a_tool_returns_beside_its_text_are_the_passages():
    @tool(response_format="content_and_artifact")
    def search(query: str):
        """Search, as the agent of LangChain's guide to RAG does."""
        return "Io has volcanoes.", [LangchainDocument("Io has volcanoes.", id="io")]

    def agent(question):
        call = {"name": "search", "args": {"query": question}, "id": "1", "type": "tool_call"}
        reply = search.invoke(call)
        assert isinstance(reply, ToolMessage)
        return {"messages": [HumanMessage(question), reply, AIMessage(reply.content)]}

    prediction = LangchainApp(client=RunnableLambda(agent)).answer("volcanoes?")

    assert prediction.answer == "Io has volcanoes."
    assert prediction.contexts == [Document("io", "Io has volcanoes.")]


def test_chunks_that_share_the_id_of_their_document_keep_their_texts():
    chunks = [LangchainDocument(text, metadata={"source": "io"}) for text in ("a", "b", "a")]
    app = LangchainApp(
        client=RunnableLambda(lambda question: {"answer": question, "context": chunks}),
        id_field="source",
    )

    passages = [(passage.id, passage.text) for passage in app.answer("Which?").contexts]
    assert passages == [("io", "a"), ("io", "b")]


def test_each_question_is_a_conversation_of_its_own():
    def answer(inputs, config):
        return " ".join(config["configurable"][key] for key in ("thread_id", "session_id"))

    app = LangchainApp(client=RunnableLambda(answer))

    assert app.answer("Which?").answer != app.answer("Which?").answer


def test_an_agent_of_langgraph():
    pytest.importorskip("langgraph", reason="LangGraph is not installed")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    retriever = store().as_retriever(search_kwargs={"k": 2})

    def answer(state):
        hits = retriever.invoke(state["messages"][-1].content)
        return {"messages": [AIMessage(f"{len(state['messages'])} {hits[0].page_content}")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    app = LangchainApp(client=graph.compile(checkpointer=InMemorySaver()), id_field="doc")

    for question in ("Io has volcanoes.", "Titan has lakes."):
        prediction = app.answer(question)
        assert prediction.answer.startswith("1 "), "each question is a conversation of its own"
        assert len(prediction.contexts) == 2


def test_the_advice_and_the_page_name_the_keys_of_documents(repository):
    keys = LangchainApp.passages_advice.partition(" documents as ")[2].split(", ")
    page = (repository / "docs" / "adapters.md").read_text(encoding="utf-8")

    for key in keys:
        app = LangchainApp(client=RunnableLambda(_answer_with(key)))
        assert [passage.text for passage in app.answer("Which?").contexts] == ["Io is hot."]
        assert f"`{key}`" in page


def _answer_with(key):
    return lambda _: {"answer": "Io", key: [LangchainDocument("Io is hot.")]}
