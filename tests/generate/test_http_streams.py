"""`stream:` of `http` apps, against a real server on loopback."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.adapters.streams import read_events
from ragbench.errors import AdapterError, OptionError
from ragbench.generate.http import HttpApp
from ragbench.types import Document, Usage
from tests.retrieve.search_server import Reply, SearchServer

SOURCES = {"sources": [{"id": "io", "text": "It erupts."}, {"id": "b", "text": "x"}]}
DELTAS = [{"delta": "Io "}, {"delta": None}, SOURCES, {"delta": "erupts"}, {**SOURCES, "usage": 7}]


def as_sse(events, end="\n"):
    return "".join(f": ping{end}event: delta{end}data: {event}{end}{end}" for event in events)


def ask(body, **options):
    with SearchServer(lambda _: Reply(body.encode())) as server:
        prediction = HttpApp(url=server.url, **options).answer("Which?")
    return prediction, server.received[0]


@pytest.mark.parametrize(
    ("stream", "body"),
    [
        ("sse", as_sse([*map(json.dumps, DELTAS), "[DONE]"])),
        ("ndjson", "\n".join(map(json.dumps, DELTAS))),
    ],
)
def test_pieces_are_joined_and_sources_read_from_any_event(stream, body):
    paths = {"ids": "$.sources[*].id", "texts": "sources[*].text", "output_tokens": "$.usage"}

    prediction, (_, headers, _) = ask(body, stream=stream, answer="$.delta", **paths)

    assert prediction.answer == "Io erupts"
    assert prediction.contexts == [Document("io", "It erupts."), Document("b", "x")]
    assert prediction.usage == Usage(None, 7, None)
    assert (
        headers["Accept"] == {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}[stream]
    )


def test_plain_text_is_the_answer():
    assert ask("42 moons\n", stream="text", answer="$")[0].answer == "42 moons\n"


def test_pieces_of_text_stay_text_even_numbers():
    assert ask(as_sse(["4", "2"]), stream="sse", answer="$")[0].answer == "42"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_any_pieces_come_back(pieces, end):
    events = [json.dumps({"d": piece}, ensure_ascii=False) for piece in pieces]

    for stream, body in (("sse", as_sse(events, end)), ("ndjson", end.join(events))):
        data = read_events(body.encode(), stream)
        assert [json.loads(event)["d"] for event in data] == pieces


@pytest.mark.parametrize(
    "body",
    [
        "event: error\ndata: too many\n\n",  # an error event of the server
        as_sse(['{"other": "x"}']),  # no answer in any event
        "",
    ],
)
def test_a_stream_without_an_answer_is_an_error(body, assert_message):
    with pytest.raises(AdapterError) as caught:
        ask(body, stream="sse", answer="$.delta")
    assert_message(caught.value)


def test_a_broken_stream_is_a_failure():
    with SearchServer(lambda _: Reply(b"data: Io\n\n", missing=9)) as server:
        app = HttpApp(url=server.url, stream="sse", answer="$", retries=0, timeout=1)
        with pytest.raises(Exception, match=r"IncompleteRead|did not answer"):
            app.answer("Which?")


def test_other_forms_are_refused():
    with pytest.raises(OptionError, match="sse"):
        HttpApp(url="http://127.0.0.1:1", stream="websocket")
