"""`type: http` of generators and of whole apps, against a real server on loopback."""

import pytest

from ragbench.errors import AdapterError, OptionError
from ragbench.generate import APPS
from ragbench.generate.http import HttpApp, HttpGenerator
from ragbench.generate.python import CallableApp, as_app
from ragbench.types import Document, Prediction, Usage
from tests.retrieve.search_server import SearchServer

PASSAGES = [Document("io", "It erupts.", "Io")]


def test_question_and_passages_are_posted():
    reply = {"answer": "Io", "usage": {"in": 9, "out": 1}, "cost": 0.5}
    with SearchServer(lambda body: reply) as server:
        generator = HttpGenerator(
            url=server.url, input_tokens="$.usage.in", output_tokens="usage.out", usd="cost"
        )
        prediction = generator.generate("Which?", PASSAGES)

    assert server.received[0][2] == {
        "question": "Which?",
        "contexts": [{"id": "io", "title": "Io", "text": "It erupts."}],
    }
    assert prediction == Prediction("Io", None, Usage(9, 1, 0.5))


def test_an_app_tells_what_it_retrieved():
    reply = {
        "out": [{"text": "Io"}],
        "sources": [{"id": "b", "text": "x"}, {"text": "It erupts.", "title": "Io"}],
        "searched": ["io moon"],
    }
    with SearchServer(lambda body: reply) as server:
        app = HttpApp(
            url=server.url,
            body={"messages": [{"role": "user", "content": "{question}"}]},
            answer="out[0].text",
            texts="sources[*].text",
            ids="sources[*].id",
            titles="sources[*].title",
            queries="searched[*]",
        )
        prediction = app.answer("Which?")

    assert server.received[0][2]["messages"][0]["content"] == "Which?"
    assert prediction.contexts[0] == Document("b", "x")
    assert prediction.contexts[1].id.startswith("text-")
    assert prediction.contexts[1].title == "Io"
    assert prediction.queries == ["io moon"]


@pytest.mark.parametrize(
    "reply",
    [
        {"answr": "x"},  # misspelt
        {"answer": None},
        {"answer": "x", "sources": [{"text": 3}]},
        {"answer": "x", "sources": [{}]},  # neither id nor text
    ],
)
def test_a_bad_reply_says_what_is_wrong(reply, assert_message):
    with SearchServer(lambda body: reply) as server:
        app = HttpApp(url=server.url, texts="sources[*].text")
        with pytest.raises(AdapterError) as caught:
            app.answer("Which?")
        assert_message(caught.value)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"answer": "a[*]"}, "http: answer"),  # several values
        ({"texts": "a"}, "http: texts"),
        ({"ids": "a[*]"}, "http: texts"),  # ids without texts
        ({"body": {"q": "{context}"}}, "http: body"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        HttpApp(url="http://127.0.0.1:1/", **options)
    assert_message(caught.value, place)


def test_apps_of_ones_own():
    class Mine:
        def __init__(self, word="a"):
            self.word = word

        def answer(self, question):
            return Prediction(f"{self.word} {question}", PASSAGES)

    assert as_app(Mine, {"word": "b"}, "app 'mine'").answer("why?").contexts == PASSAGES
    assert as_app(lambda question: question, {}, "app 'mine'").answer("why?") == Prediction("why?")
    with pytest.raises(AdapterError, match="instead of an answer"):
        as_app(lambda question: None, {}, "app 'mine'").answer("why?")
    assert CallableApp.is_opaque


def test_the_family_loads_its_members():
    from langchain_core.runnables import RunnableLambda

    assert APPS.load("http") is HttpApp
    live = as_app(RunnableLambda(lambda question: "x"), {}, "app 'live'")
    assert isinstance(live, APPS.load("langchain"))
