"""The store of replies: keys, sharing, kills, damage, replays."""

import json
import random
import sqlite3
import subprocess
import threading
import time
import zlib
from collections import Counter
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.llm import (
    ChatReply,
    ChatRequest,
    DamagedCache,
    Message,
    Replies,
    TokenLogprob,
    Usage,
)
from ragbench.llm.replies import request_key
from ragbench.records.codec import from_json, to_json
from tests.chat_server import ChatServer
from tests.llm.conftest import GOOD, asking
from tests.store.rows import forge, query

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

SERVER = {"type": "openai", "base_url": "http://127.0.0.1/v1"}

texts = st.text(max_size=4)
numbers = st.none() | st.integers(0, 3) | st.sampled_from([0.0, 0.5, 1.0])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-1, 1) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
requests = st.builds(
    ChatRequest,
    model=st.sampled_from(["a", "b"]),
    messages=st.lists(
        st.builds(Message, st.sampled_from(["user", "assistant"]), texts), max_size=2
    ).map(tuple),
    temperature=numbers,
    max_tokens=st.none() | st.integers(1, 2),
    seed=st.none() | st.integers(0, 1),
    stop=st.lists(texts, max_size=1).map(tuple),
    schema=st.none() | st.dictionaries(texts, json_values, max_size=2),
    top_logprobs=st.integers(0, 1),
    extra=st.dictionaries(texts, json_values, max_size=2),
    sample=st.integers(0, 1),
)


def strictly(value):
    """A value in which true is not 1, as in JSON, but 1.0 is."""
    if isinstance(value, dict):
        return {key: strictly(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [strictly(part) for part in value]
    return (isinstance(value, bool), value)


@settings(max_examples=15)
@given(requests, requests)
def test_keys_are_equal_if_and_only_if_requests_are(one, other):
    same = strictly(one.to_dict()) == strictly(other.to_dict())

    assert (request_key(SERVER, one) == request_key(SERVER, other)) is same


@settings(max_examples=15)
@given(requests, st.randoms())
def test_the_order_of_keys_does_not_count(request, rng):
    def shuffled(value):
        if not isinstance(value, dict):
            return value
        pairs = [(key, shuffled(part)) for key, part in value.items()]
        rng.shuffle(pairs)
        return dict(pairs)

    other = replace(request, schema=shuffled(request.schema), extra=shuffled(request.extra))

    assert request_key(SERVER, request) == request_key(SERVER, other)


@settings(max_examples=15)
@given(requests, st.sampled_from([f.name for f in fields(ChatRequest)]))
def test_every_field_is_in_the_key(request, name):
    # A field that is added later and forgotten in `to_dict` turns this red
    changed = {
        "model": "c",
        "messages": (Message("system", "xyz"),),
        "temperature": 0.25,
        "max_tokens": 77,
        "seed": 77,
        "stop": ("xyz",),
        "schema": {"xyz": 1},
        "top_logprobs": 77,
        "extra": {"xyz": 1},
        "reasoning_effort": "high",
        "sample": 77,
    }
    other = replace(request, **{name: changed[name]})

    assert request_key(SERVER, request) != request_key(SERVER, other)


def test_the_server_is_in_the_key():
    other = {**SERVER, "base_url": "http://elsewhere/v1"}

    assert request_key(SERVER, asking()) != request_key(other, asking())


@pytest.mark.parametrize("extra", [{"x": float("nan")}, {"x": object()}])
def test_what_json_cannot_hold_is_an_option_error(extra, assert_message):
    with pytest.raises(OptionError) as caught:
        request_key(SERVER, asking(extra=extra))
    assert_message(caught.value)


counts = st.integers(0, 2**53)
replies_made = st.builds(
    ChatReply,
    text=st.text(),
    finish_reason=texts,
    refusal=st.none() | texts,
    usage=st.builds(Usage, st.none() | counts, st.none() | counts, st.none() | st.floats(0, 1)),
    logprobs=st.none()
    | st.lists(
        st.builds(TokenLogprob, texts, st.floats(-9, 0), st.just((("a", -0.5), ("b", -1.0)))),
        max_size=2,
    ).map(tuple),
    model=texts,
    system_fingerprint=st.none() | texts,
)


@given(replies_made)
def test_any_reply_comes_back_as_it_was(reply):
    assert from_json(ChatReply, json.loads(json.dumps(to_json(reply)))) == reply


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replies.sqlite"


def stored(path, *keys, text="yes"):
    with Replies(path) as replies:
        for key in keys:
            replies.store(key, ChatReply(text)).result()


def test_half_characters_survive(path):
    stored(path, "k", text="\ud83d")

    with Replies(path) as replies:
        assert replies.get("k").text == "\ud83d"


def test_the_first_of_two_processes_wins(path):
    # Both go on with the same reply, so that their results are equal
    with Replies(path) as one, Replies(path) as other:
        one.store("k", ChatReply("first")).result()

        assert other.store("k", ChatReply("second")).result().text == "first"
        assert other.get("k").text == "first"


@pytest.mark.parametrize("damage", ["blob = x'00'", "blob = substr(blob, 2)", "checksum = x''"])
def test_a_damaged_reply_is_asked_again(path, damage, assert_message):
    stored(path, "k", "other")
    query(path, f"UPDATE rows SET {damage} WHERE item = 'k'")

    with Replies(path) as replies:
        with pytest.warns(DamagedCache, match="replies") as caught:
            assert replies.get("k") is None
        assert_message(caught[0].message)
        assert replies.get("other").text == "yes"
        assert replies.store("k", ChatReply("new")).result().text == "new"
        assert replies.get("k").text == "new"


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"text": ' + "[" * 200 + "]" * 200 + "}", "[]", "1", '{"text": 1}', "{}"],
)
def test_a_reply_of_somebody_else_with_a_right_checksum_is_asked_again(path, text):
    stored(path, "k")
    packed = zlib.compress(text.encode())
    forge(path, "item = 'k'", packed)

    with Replies(path) as replies, pytest.warns(DamagedCache, match="the reply k is damaged"):
        assert replies.get("k") is None


def test_one_that_makes_far_more_than_it_has_is_asked_again(path, monkeypatch):
    # A row of 4 MB would make 4 GB of memory
    stored(path, "k")
    packed = zlib.compress(json.dumps(to_json(ChatReply("x" * (1 << 20)))).encode())
    assert len(packed) < 3_000
    forge(path, "item = 'k'", packed)

    with Replies(path) as replies:
        assert len(replies.get("k").text) == 1 << 20, "up to 64 MiB it is read"
        monkeypatch.setattr("ragbench.llm.replies._FREE_BYTES", 1_000)
        with pytest.warns(DamagedCache, match="the reply k is damaged"):
            assert replies.get("k") is None


@pytest.mark.parametrize("size", [100, 5000])
def test_a_file_that_is_no_database_is_named(path, size, assert_message):
    path.write_bytes(random.Random(1).randbytes(size))

    with pytest.raises(DataError) as caught:
        Replies(path)
    assert_message(caught.value)


def test_another_programs_database_is_left_alone(path, assert_message):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()

    with pytest.raises(DataError) as caught:
        Replies(path)
    assert_message(caught.value)


def test_a_newer_schema_is_refused(path, assert_message):
    stored(path, "k")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()

    with pytest.raises(DataError) as caught:
        Replies(path)
    assert_message(caught.value)


def test_a_replay_sends_nothing_and_names_what_is_missing(serve, path, assert_message):
    with Replies(path) as replies:
        _, engine = serve(engine={"replies": replies})
        engine.ask(asking("known"))
    with Replies(path, replay=True) as replies:
        server, engine = serve(engine={"replies": replies})
        engine.model.identity = {**engine.model.identity}
        with pytest.raises(DataError) as caught:
            engine.ask(asking("unknown"))
        assert_message(caught.value)

        assert server.counters.requests == 0


def test_a_replay_needs_a_file(path, assert_message):
    with pytest.raises(DataError) as caught:
        Replies(path, replay=True)
    assert_message(caught.value)


def test_a_replay_from_a_folder_that_may_only_be_read(path):
    stored(path, "k")
    path.parent.chmod(0o555)
    path.chmod(0o444)
    try:
        with Replies(path, replay=True) as replies:
            assert replies.get("k").text == "yes"
            with pytest.raises(DataError, match="replayed and not written"):
                replies.store("other", ChatReply("no"))
    finally:
        path.parent.chmod(0o755)


def test_a_shared_store_is_read_after_the_own(path, tmp_path):
    team = tmp_path / "team.sqlite"
    stored(team, "k", "both", text="theirs")
    stored(path, "both", text="mine")

    with Replies(path, also=[team]) as replies:
        assert replies.get("k").text == "theirs"
        assert replies.get("both").text == "mine"
        assert len(replies) == 1


def test_a_full_disk_is_an_error_that_names_the_file(path, warm, assert_message):
    # A limit on the size of files stands for the disk; in a process of its own
    code = (
        "import resource, sys\n"
        "from ragbench.errors import DataError\n"
        "from ragbench.llm import ChatReply, Replies\n"
        "import random, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        "replies = Replies(sys.argv[1])\n"
        "try:\n"
        "    for i in range(1000):\n"
        "        text = random.Random(i).randbytes(2000).hex()\n"
        "        replies.store(f'k{i}', ChatReply(text)).result()\n"
        "except DataError as error: print(i, error)\n"
    )

    status, output = warm.run(code, str(path))

    assert status == 0
    n_stored, message = output.split(" ", 1)
    assert_message(message)
    with Replies(path) as replies:
        assert len(replies) == int(n_stored) > 10


JUDGE = """
import sys
from ragbench.llm import *
path, url, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
asked = (ChatRequest('m', (Message('user', f'question {i}'),)) for i in range(n))
with Replies(path) as replies:
    limits = Limits(concurrency=8)
    with ChatEngine(OpenAIChat(base_url=url), replies=replies, limits=limits) as engine:
        texts = [reply.text for _, reply in engine.map(engine.aask, asked)]
print(len(texts), len(set(texts)))
"""
CONCURRENCY = 8


def start(warm, path, url, n):
    return warm.popen(["-c", JUDGE, str(path), url, str(n)], stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_kill_9_loses_no_stored_reply(path, warm):
    # Killed twice in the middle: what was stored is not asked again
    kills, n = 2, 80
    with ChatServer(GOOD, latency_s=0.02) as server:
        for kill in range(1, kills + 1):
            process = start(warm, path, server.url, n)
            n_requests = server.counters.requests
            while server.counters.requests < n_requests + 20 + 7 * kill:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.005)
            process.kill()
            process.communicate()
        process = start(warm, path, server.url, n)
        out, errors = process.communicate()

    assert process.returncode == 0, errors
    assert out.split() == [str(n), "1"]
    counts = Counter(server.counters.asked.values())
    assert sum(counts.values()) == n, "every question was asked"
    assert server.counters.requests - n <= kills * CONCURRENCY, "only those in flight at a kill"
    with Replies(path) as replies:
        assert len(replies) == n


@pytest.mark.slow
def test_two_processes_share_a_store(path, warm):
    n = 40
    with ChatServer(GOOD, latency_s=0.01) as server:
        both = [start(warm, path, server.url, n) for _ in range(2)]
        ends = [process.communicate() for process in both]

        assert [out.split()[0] for out, _ in ends] == [str(n)] * 2, ends
        requests = server.counters.requests
        third = start(warm, path, server.url, n)
        third.communicate()

    assert server.counters.requests == requests, "all of it is stored"
    with Replies(path) as replies:
        assert len(replies) == n


def test_many_threads_open_fresh_files_at_once(tmp_path):
    # A thread that reads the version must not see half of a table that another thread creates
    together, errors = threading.Barrier(8), []

    def open_each():
        for i in range(6):
            together.wait()
            try:
                Replies(tmp_path / f"{i}.sqlite").close()
            except DataError as error:
                errors.append(error)

    threads = [threading.Thread(target=open_each) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []


def test_many_processes_open_a_fresh_file_at_once(path, warm):
    # SQLite may say 'locked' at once when several switch a fresh file to WAL
    code = (
        "import sys\nfrom ragbench.llm import *\n"
        "with Replies(sys.argv[1]) as r: r.store(sys.argv[2], ChatReply('x')).result()"
    )
    processes = [warm.popen(["-c", code, str(path), f"k{i}"]) for i in range(6)]
    for process in processes:
        process.communicate()

    assert [process.returncode for process in processes] == [0] * 6
    with Replies(path) as replies:
        assert len(replies) == 6


def test_asking_again_leaves_out_what_is_old_and_takes_its_place(path):
    with Replies(path) as replies:
        replies.store("k", ChatReply("first")).result()
        time.sleep(0.01)
        with replies.asking_again():
            assert replies.get("k") is None
            replies.store("k", ChatReply("second")).result()
            assert replies.get("k").text == "second"
        assert (replies.get("k").text, len(replies)) == ("second", 1)
        replies.store("k", ChatReply("third")).result()
        assert replies.get("k").text == "second", "outside, the first one stays"
