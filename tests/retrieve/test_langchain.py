"""`type: langchain` with langchain's own stores, retrievers and Runnables."""

import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from ragbench.errors import AdapterError, OptionError
from ragbench.experiment.calls import Calls
from ragbench.experiment.stages.rankings import rank_outcomes
from ragbench.retrieve.frameworks import LangchainRetriever
from ragbench.retrieve.python import as_retriever
from ragbench.types import Cause, Query
from tests.outcomes import retrieve
from tests.retrieve.foreign import store

QUERY = Query("q1", "Io has volcanoes.")


def ids(retriever, top_k=10, query=QUERY):
    [outcome] = retrieve(retriever, [query], top_k, Calls("retriever 'mine'"))
    assert outcome.value is not None, outcome.detail
    return [hit.id for hit in outcome.value.documents]


def by_store(question):
    """The order of the real store, which the adapter must keep."""
    documents = store().similarity_search(question, k=10)
    return [document.metadata["doc"] for document in documents]


@pytest.mark.parametrize("top_k", [1, 3])
def test_a_vector_store_is_asked_for_top_k(top_k):
    retriever = LangchainRetriever(factory="tests.retrieve.foreign:store", id_field="doc")

    assert ids(retriever, top_k) == by_store(QUERY.text)[:top_k]
    assert len(retriever.retrieve([QUERY], 2)[0]) == 2, "the store itself is asked for no more"
    assert ids(retriever, 1) == ["io"], "the same text has the same embedding"


@pytest.mark.parametrize(
    "options",
    [
        {"factory": "tests.retrieve.foreign:retriever", "args": {"k": 3}},
        {"factory": "tests.retrieve.foreign:ready"},
        {"client": RunnableLambda(lambda question: store().similarity_search(question, k=3))},
        {"client": store().as_retriever(search_kwargs={"k": 3}) | RunnableLambda(lambda d: d)},
    ],
    ids=["retriever", "object", "Runnable", "sequence"],
)
def test_whatever_it_is_it_is_asked(options):
    assert ids(LangchainRetriever(**options, id_field="doc"), 3) == by_store(QUERY.text)


class AsyncRunnable(BaseRetriever):
    """As retrievers over asynchronous drivers are written."""

    def _get_relevant_documents(self, query, *, run_manager):
        raise NotImplementedError

    async def _aget_relevant_documents(self, query, *, run_manager):
        return [Document(threading.current_thread().name, id=f"about {query}")]


def test_what_is_only_asynchronous_runs_in_one_loop():
    async def search(question):
        return [Document(threading.current_thread().name, id="x")]

    for client in (AsyncRunnable(), RunnableLambda(search)):
        retriever = LangchainRetriever(client=client)
        answers = retriever.retrieve([QUERY, QUERY], 5)
        assert {hits[0].text for hits in answers} == {"ragbench-adapter"}


class Distances:
    """A store whose number is a distance: the best comes first and has the smallest."""

    def similarity_search_with_score(self, question, k):
        return [(Document("a", id="near"), 0.1), (Document("b", id="far"), 0.9)][:k]


def test_the_order_counts_and_never_the_number():
    retriever = LangchainRetriever(client=Distances())
    outcomes = retrieve(retriever, [QUERY], 10, Calls("r"))

    run = rank_outcomes("mine", retriever, ["q1"], outcomes, None).run

    assert [document for document, _ in run.ranking("q1")] == ["near", "far"]


def test_a_store_without_scores_is_asked_without():
    class Plain:
        def similarity_search_with_score(self, question, k):
            raise NotImplementedError

        def similarity_search(self, question, k):
            return [Document("a", id="a")]

    assert ids(LangchainRetriever(client=Plain())) == ["a"]


@pytest.mark.parametrize(
    ("document", "field", "expected", "notes"),
    [
        (Document("t", id="own", metadata={"doc": "d"}), "doc", "d", 0),
        (Document("t", id="own", metadata={"doc": 7}), "doc", "7", 0),
        (Document("t", id="own", metadata={"doc": "d"}), None, "own", 0),
        (Document("t", id="own"), "doc", "own", 1),
        (Document("t", metadata={"_id": "meta"}), None, "meta", 0),
        (Document("t"), None, "text-", 1),
    ],
)
def test_where_ids_come_from(document, field, expected, notes):
    retriever = LangchainRetriever(client=RunnableLambda(lambda q: [document]), id_field=field)
    [[hit]] = retriever.retrieve([QUERY], 5)

    assert hit.id[:5] == expected
    assert len(retriever.notes) == notes


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_hash_of_a_text_is_its_own(one, other):
    chain = RunnableLambda(lambda q: [Document(one), Document(other)])
    [[first, second]] = LangchainRetriever(client=chain).retrieve([QUERY], 5)

    assert (first.id == second.id) == (one == other)


def test_notes_say_what_the_ids_are_and_reach_the_reader(assert_message):
    retriever = LangchainRetriever(factory="tests.retrieve.foreign:store", id_field="dok")
    outcomes = retrieve(retriever, [QUERY], 10, Calls("r"))

    notes = rank_outcomes("mine", retriever, ["q1"], outcomes, None).notes

    assert_message(notes)


def test_a_limit_of_its_own_is_said_once(assert_message):
    retriever = LangchainRetriever(factory="tests.retrieve.foreign:retriever", id_field="doc")
    queries = [Query("a", "one"), Query("b", "two")]
    outcomes = retrieve(retriever, queries, 100, Calls("r"))

    warnings = rank_outcomes("mine", retriever, ["a", "b"], outcomes, None, 100).warnings

    assert_message(warnings)
    assert rank_outcomes("mine", retriever, ["a", "b"], outcomes, None, 2).warnings == []


def test_the_bad_answers_of_one_query_fail_it_alone(assert_message):
    answers = {
        "none": None,
        "text": "a text",
        "hole": [Document("a", id="a"), None],
        "nan": [(Document("a", id="a"), float("nan"))],
        "pair": [("a", 1.0)],
        "empty": [SimpleNamespace(page_content="", metadata={})],
    }

    def search(question):
        if question == "raises":
            raise ZeroDivisionError("index is gone")
        return answers.get(question, [Document("t", id="ok")])

    queries = [Query(text, text) for text in ("fine", *answers, "raises", "last")]
    retriever = as_retriever(RunnableLambda(search), {}, "retriever 'mine'")
    outcomes = dict(
        zip(
            (query.id for query in queries),
            retrieve(retriever, queries, 10, Calls("retriever 'mine'")),
            strict=True,
        )
    )

    assert {q for q, outcome in outcomes.items() if outcome.value is not None} == {"fine", "last"}
    assert {outcomes[q].cause for q in answers} == {Cause.MALFORMED}
    assert outcomes["raises"].cause is Cause.ERROR
    assert_message(outcomes["hole"].detail)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, OptionError),  # neither a factory nor a client
        # the factory raises
        (
            {"factory": "tests.retrieve.foreign:failing"},
            AdapterError,
        ),
        ({"factory": "tests.retrieve.foreign:nothing"}, AdapterError),  # the factory returns None
        # a mapping retrieves nothing
        (
            {"factory": "tests.retrieve.foreign:TEXTS"},
            AdapterError,
        ),
        # misspelt argument
        (
            {"factory": "tests.retrieve.foreign:store", "args": {"sise": 3}},
            OptionError,
        ),
        # an object takes no arguments
        (
            {"factory": "tests.retrieve.foreign:ready", "args": {"k": 3}},
            OptionError,
        ),
    ],
)
def test_what_cannot_be_made_is_said_before_anything_is_asked(options, error, assert_message):
    with pytest.raises(error) as caught:
        LangchainRetriever(**options)
    assert_message(caught.value)


def test_live_objects_of_langchain_are_told_by_what_they_have():
    for live in (
        store(),
        store().as_retriever(),
        RunnableLambda(lambda q: [Document("a", id="a")]),
    ):
        assert isinstance(as_retriever(live, {}, "retriever 'live'"), LangchainRetriever)
