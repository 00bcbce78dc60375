"""`type: http` against a real server on loopback: good replies, bad ones, and none."""

import json
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.experiment.calls import Calls
from ragbench.retrieve.http import HttpRetriever
from ragbench.types import Cause, Query, Retrieved, ScoredDocument
from tests.outcomes import retrieve
from tests.retrieve.search_server import Reply, SearchServer

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

QUERIES = [Query("q1", "moons"), Query("q2", "the bad one"), Query("q3", "rings")]
GOOD = {"hits": [{"id": "a", "score": 1.5}, {"id": "b", "score": 3}]}


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch):
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


def ask(script, questions=QUERIES, calls=None, **options):
    with SearchServer(script) as server:
        retriever = HttpRetriever(url=server.url, **options)
        calls = calls or Calls("retriever 'mine'")
        return retrieve(retriever, questions, 10, calls), server


def test_a_question_is_posted_and_the_order_is_the_ranking():
    outcomes, server = ask(lambda body: GOOD, scores="$.hits[*].score")

    assert [outcome.value for outcome in outcomes] == [
        Retrieved([ScoredDocument("a", 1.5), ScoredDocument("b", 3.0)])
    ] * 3
    assert server.received[0][2] == {"query": "moons", "top_k": 10}
    assert server.connections == 1, "the connection stays open"


def test_a_body_headers_and_paths_of_ones_own():
    # As Elasticsearch answers: ids and texts deep inside, parts of it missing
    reply = {
        "hits": {
            "hits": [
                {"_id": 7, "_score": 2.0, "_source": {"body": "Io", "title": "Moon"}},
                {"_id": "x", "_score": None, "_source": {"body": "Rings"}},
            ]
        },
        "asked": ["io moon", "io orbit"],
    }
    outcomes, server = ask(
        lambda body: reply,
        QUERIES[:1],
        body={
            "query": {"match": {"body": "{question}"}},
            "size": "{top_k}",
            "tag": "id {query_id}",
        },
        ids="$.hits.hits[*]._id",
        scores="$.hits.hits[*]._score",
        texts="$.hits.hits[*]._source.body",
        titles="$.hits.hits[*]['_source'].title",
        queries="$.asked[*]",
        headers={"Authorization": "Bearer secret-token-123"},
    )

    assert outcomes[0].value == Retrieved(
        [ScoredDocument("7", 2.0, "Io", "Moon"), ScoredDocument("x", None, "Rings")],
        ["io moon", "io orbit"],
    )
    _, headers, body = server.received[0]
    assert headers["Authorization"] == "Bearer secret-token-123"
    assert body == {"query": {"match": {"body": "moons"}}, "size": 10, "tag": "id q1"}


def test_lists_beside_each_other():
    # As Chroma answers: one list for ids, one for distances; the order counts
    outcomes, _ = ask(
        lambda body: {"ids": [["a", "b"]], "distances": [[0.1, 0.7]]},
        QUERIES[:1],
        ids="ids[0][*]",
        scores="distances[0][*]",
    )

    assert outcomes[0].value.documents == [ScoredDocument("a", 0.1), ScoredDocument("b", 0.7)]


BAD = [
    (Reply(b"<html>Bad Gateway</html>"), Cause.MALFORMED, "the reply is no JSON: '<html>Bad"),
    (Reply(b""), Cause.MALFORMED, "the reply is empty"),
    (Reply(b'{"hits": [{"id": "a"'), Cause.MALFORMED, "the reply is no JSON"),
    (Reply(b"\xff\xfe{}"), Cause.MALFORMED, "the reply is no JSON"),
    (Reply([1, 2]), Cause.MALFORMED, r"the reply has \[1, 2\] instead of 'hits'"),
    (Reply({"hit": []}), Cause.MALFORMED, r"no 'hits' \(path .*\); did you mean 'hit'\?"),
    (Reply({"hits": None}), Cause.MALFORMED, r"has None at \$\.hits instead of a list"),
    (
        Reply({"hits": [{"id": "a"}, {"_id": "b"}]}),
        Cause.MALFORMED,
        r"no 'id' at \$\.hits\[1\] .*did you mean '_id'",
    ),
    (
        Reply({"hits": [{"id": None, "score": 1}]}),
        Cause.MALFORMED,
        "hit 1 has the id None, allowed: text",
    ),
    (
        Reply(b'{"hits": [{"id": "a", "score": NaN}]}'),
        Cause.MALFORMED,
        "hit 1 has the score NaN",
    ),
    (Reply({"hits": [{"id": "a", "score": "high"}]}), Cause.MALFORMED, "has the score 'high'"),
    (Reply({"error": "no index"}, 404), Cause.SERVER_ERROR, "the server answered 404: .*no index"),
    (Reply({"error": "busy"}, 503), Cause.SERVER_ERROR, "answered 503: .*; tried 3 times"),
    (Reply(b"", 302, {"Location": "/other"}), Cause.SERVER_ERROR, "302: .*not followed"),
    (Reply(b"", cut=True), Cause.SERVER_ERROR, "the connection failed: .*; tried 3 times"),
    (Reply(GOOD, missing=9), Cause.SERVER_ERROR, "IncompleteRead.*9 more expected.*3 times"),
    (Reply(GOOD, wait_s=5), Cause.TIMEOUT, "did not answer within 0.4 s"),
    (Reply(b"", drip=True), Cause.TIMEOUT, "did not answer within 0.4 s"),
]


@pytest.mark.parametrize(("reply", "cause", "message"), BAD, ids=[case[2][:24] for case in BAD])
def test_a_bad_reply_fails_its_query_alone(reply, cause, message):
    outcomes, _ = ask(
        lambda body: reply if "bad" in body["query"] else GOOD,
        scores="$.hits[*].score",
        timeout=0.4 if cause is Cause.TIMEOUT else 60.0,
    )

    first, second, third = outcomes
    assert [len(outcome.value.documents) for outcome in (first, third)] == [2, 2]
    assert second.value is None
    assert second.cause is cause
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(second.detail)
    assert second.detail.startswith("retriever 'mine': ")


def test_an_overloaded_server_is_asked_again_when_it_says():
    replies = iter([Reply({}, 429, {"Retry-After": "0.01"}), Reply({}, 500), GOOD])

    outcomes, server = ask(lambda body: next(replies), QUERIES[:1])

    assert outcomes[0].value is not None
    assert len(server.received) == 3


def test_a_connection_that_the_server_gave_up_is_replaced():
    # Also without retries: an idle connection that was closed is no failure of the question
    with SearchServer(lambda body: GOOD) as server:
        retriever = HttpRetriever(url=server.url, retries=0)
        retriever.retrieve(QUERIES[:1], 10)
        retriever._endpoint._idle[0].sock.shutdown(socket.SHUT_RDWR)  # as its peer would
        assert len(retriever.retrieve(QUERIES[:1], 10)[0].documents) == 2


def test_questions_are_asked_at_once():
    together = threading.Barrier(3, timeout=300)

    def script(body):
        together.wait()
        return GOOD

    outcomes, _ = ask(script, calls=Calls("retriever 'mine'", None, 3))

    assert all(outcome.value is not None for outcome in outcomes)


def test_no_secret_is_in_a_message(assert_message):
    outcomes, _ = ask(
        lambda body: Reply({"error": "no user for secret-token-123 and k=query-secret"}, 401),
        QUERIES[:1],
        headers={"Authorization": "Bearer secret-token-123"},
    )

    assert "secret-token-123" not in outcomes[0].detail
    assert_message(outcomes[0].detail)


def test_a_url_keeps_its_query_and_messages_do_not():
    with SearchServer(lambda body: Reply({"error": "key-12345678 is wrong"}, 403)) as server:
        retriever = HttpRetriever(url=f"{server.url}?key=key-12345678")
        [outcome] = retrieve(retriever, QUERIES[:1], 10, Calls("r"))

    assert server.received[0][0] == "/search?key=key-12345678"
    assert "12345678" not in outcome.detail


def test_nobody_listens():
    with socket.socket() as silent:
        # bound, so that no other process listens there
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/search"
        [outcome] = retrieve(HttpRetriever(url=url, retries=0), QUERIES[:1], 10, Calls("r"))

    assert outcome.cause is Cause.SERVER_ERROR
    assert "refused" in outcome.detail


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"url": "localhost:9200"}, "http: url"),
        ({"url": "http://user:pass@host/x"}, "http: url"),  # a login
        ({"body": {"q": "{querry}"}}, "http: body"),
        ({"body": {"q": "fixed"}}, "http: body"),  # the same body for every question
        ({"ids": "$.hits.id"}, "http: ids"),
        ({"scores": "$.hits[*].[["}, "http: scores"),
        ({"queries": ""}, "http: queries"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        HttpRetriever(**{"url": "http://127.0.0.1:1/", **options})
    assert_message(caught.value, place)


def test_json_that_comes_back_is_what_was_sent():
    # Characters beyond ASCII, quotes and halves of characters survive the way there
    outcomes, server = ask(
        lambda body: {"hits": [{"id": body["query"]}]}, [Query("q", 'Wo? "Ä" 雪 {top_k}')]
    )

    assert server.received[0][2]["query"] == 'Wo? "Ä" 雪 {top_k}'
    assert outcomes[0].value.documents[0].id.startswith("Wo?")
    assert json.dumps(server.received[0][2])


@pytest.mark.parametrize(
    "status",
    [
        401,
        402,
        403,
        404,
    ],
)
def test_a_server_that_refuses_access_gets_one_request(status, assert_message):
    reached = set()
    outcomes, server = ask(
        lambda body: Reply({"error": "no"}, status), calls=Calls("app 'mine'", reached=reached)
    )

    assert len(server.received) == 1
    assert {outcome.cause for outcome in outcomes} == {Cause.SERVER_ERROR}
    assert {outcome.detail for outcome in outcomes} == {outcomes[0].detail}
    assert f"the server answered {status}: " in outcomes[0].detail
    assert_message(outcomes[0].detail)
    assert reached == {False}, "a run exits with 7"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply({"error": "blocked by the content policy"}, 403), id="moderation"),
        pytest.param(Reply({"error": "invalid parameter"}, 422), id="this request"),
        pytest.param(Reply({"error": "broken"}, 501), id="this error"),
    ],
)
def test_the_words_of_a_refusal_decide_before_its_status(reply):
    outcomes, server = ask(lambda body: GOOD if "rings" in body["query"] else reply)

    assert [outcome.value is None for outcome in outcomes] == [True, True, False]
    assert len(server.received) == 3


@given(
    st.lists(st.sampled_from([200, 400, 401, 403, 404, 422]), min_size=1, max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_requests_go_on_after_a_reply_until_the_key_is_refused_three_times(statuses):
    # The number of requests, counted by the rule from the list of statuses
    replies = iter(
        [GOOD if status == 200 else Reply({"error": "no"}, status) for status in statuses]
    )
    queries = [Query(f"q{place}", "moons") for place in range(len(statuses))]

    _, server = ask(lambda body: next(replies), queries)

    expected, has_replied, in_a_row = 0, False, 0
    for status in statuses:
        expected += 1
        has_replied = has_replied or status == 200
        in_a_row = in_a_row + 1 if status == 401 else 0
        if (status in (401, 403, 404) and not has_replied) or in_a_row == 3:
            break
    assert len(server.received) == expected


def test_an_unknown_host_is_tried_again_for_one_question_only(monkeypatch):
    looked_up = []

    def unknown(address, *options, **more):
        looked_up.append(address)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    retriever = HttpRetriever(url="http://search.invalid/", retries=2)

    outcomes = list(retrieve(retriever, QUERIES, 10, Calls("r")))

    assert len(looked_up) == 3 + 1 + 1
    assert all("Name or service not known" in outcome.detail for outcome in outcomes)
