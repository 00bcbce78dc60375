"""Damaged files: no cut and no flipped bit stops a run or brings a wrong row."""

import functools
import os
import random
import shutil
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ragbench.errors import DataError
from ragbench.llm import ChatReply, Replies
from ragbench.llm.engine import request_key
from ragbench.store.database import DamagedDatabase, open_shared
from ragbench.store.replies import REPLIES, DamagedReply
from ragbench.store.salvage import is_log_damaged, log_of, records
from ragbench.store.vectors import VECTORS, DamagedVectors, EmbeddingCache, vector_key
from tests.llm.conftest import asking

pytestmark = pytest.mark.slow  # seconds in all: many damaged copies of real files

N = 600
SERVER = {"type": "openai", "base_url": "http://127.0.0.1/v1"}
KEYS = [request_key(SERVER, asking(f"question {i}")) for i in range(N)]
SCHEMA_VERSION = range(60, 64)
"""The bytes of the header that say which ragbench wrote a file: a newer one's is refused."""


@functools.cache  # each is compared dozens of times
def text_of(i):
    """Mostly short; one in 50 goes over several pages of the file."""
    return random.Random(i).randbytes(6000 if i % 50 == 0 else 40 + i % 300).hex()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A store as a kill of its writer leaves it: some of the replies are in the log alone.

    What a kill leaves are the files as they are, and so they are copied from under a writer.
    """
    path = tmp_path_factory.mktemp("killed") / "replies.sqlite"
    with Replies(tmp_path_factory.mktemp("open") / "replies.sqlite") as replies:
        for start in range(0, len(KEYS), 10):  # small commits, as a run makes them
            if start == N // 2:  # as SQLite does from time to time
                with closing(sqlite3.connect(replies.path)) as connection:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            chosen = list(enumerate(KEYS))[start : start + 10]
            done = [replies.store(key, ChatReply(text_of(i))) for i, key in chosen]
            [each.result() for each in done]
        copy_of(replies.path, path)
    assert log_of(path).stat().st_size > 100_000
    return path


@pytest.fixture(scope="module")
def closed(killed, tmp_path_factory):
    path = tmp_path_factory.mktemp("closed") / "replies.sqlite"
    copy_of(killed, path)
    Replies(path).close()
    assert not log_of(path).exists()
    return path


def copy_of(source, path):
    for old in path.parent.glob("replies*"):
        old.unlink()
    shutil.copy(source, path)
    if log_of(source).exists():
        shutil.copy(log_of(source), log_of(path))


def held(path):
    """The numbers of the replies that a run gets; a wrong one, and a run that ends, are errors."""
    found = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Replies(path) as replies:
            for i, key in enumerate(KEYS):
                reply = replies.get(key)
                if reply is not None:
                    assert reply.text == text_of(i)
                    found.append(i)
            for i in (0, N // 2, N - 1):  # what is lost is asked for and stored again
                replies.store(KEYS[i], ChatReply(text_of(i))).result()
                assert replies.get(KEYS[i]).text == text_of(i)
    assert all(each.category in (DamagedDatabase, DamagedReply) for each in told)
    return found, [str(each.message) for each in told]


def whole_in(path):
    """The replies that the bytes hold whole, whatever SQLite can make of them."""
    rows = [row for row, in_table in records(path, 4096) if in_table and len(row) == 5]
    found = {row[0] for row in rows if REPLIES.fits(row[0], row[2], row[3])}
    return {i for i, key in enumerate(KEYS) if key in found}


def cut_points(size, count, seed):
    chosen = random.Random(seed).sample(range(size), count)
    return [0, 1, 15, 16, 17, 60, 99, 100, 101, 511, 4095, 4096, 4097, size - 1, *chosen]


def test_a_cut_at_any_byte_keeps_what_is_before_it(closed, tmp_path):
    path = tmp_path / "replies.sqlite"
    content = closed.read_bytes()
    for cut in cut_points(len(content), 12, seed=1):
        copy_of(closed, path)
        os.truncate(path, cut)
        expected = whole_in(path)

        found, told = held(path)

        assert set(found) >= expected, cut
        assert told or len(found) == N or cut < 100, cut  # SQLite takes what is shorter for new
        if told:
            assert "salvaged" in told[0]
            assert "damaged-1.sqlite" in told[0]
            assert (tmp_path / "replies.damaged-1.sqlite").stat().st_size == cut


def test_the_message_counts_what_was_kept(closed, tmp_path):
    path = tmp_path / "replies.sqlite"
    copy_of(closed, path)
    os.truncate(path, closed.stat().st_size // 2)

    found, told = held(path)

    assert len(told) == 1
    assert "replies.sqlite: damaged (" in told[0]
    assert f"; {len(found)} replies were salvaged, at least " in told[0]
    assert N // 4 < len(found) < 3 * N // 4
    again, told = held(path)
    assert (again, told) == (sorted({*found, 0, N // 2, N - 1}), [])


@pytest.mark.parametrize("seed", range(4))
def test_no_flipped_bit_stops_a_run_or_brings_a_wrong_reply(closed, tmp_path, seed):
    """Flips fall anywhere, and once more where SQLite keeps what it needs first."""
    rng = random.Random(seed)
    path = tmp_path / "replies.sqlite"
    size = closed.stat().st_size
    heads = [i for i in range(100 + 60) if i not in SCHEMA_VERSION]
    for _ in range(4):
        for places in (
            [rng.choice(heads)],
            [rng.randrange(size // 4096) * 4096 + rng.randrange(12)],
            rng.sample(range(100, size), rng.choice([1, 8])),
        ):
            copy_of(closed, path)
            flip(path, places, rng)

            found, _ = held(path)

            # a page has some ten replies, and a flip may hit the chains of long ones
            assert len(found) >= N - 60 * len(places), places


def flip(path, places, rng):
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_log_costs_no_more_than_its_page(killed, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "replies.sqlite"
    log = log_of(path)
    frame = 24 + 4096
    frames = log_of(killed).stat().st_size // frame
    for place in (
        rng.randrange(32),
        32 + rng.randrange(frames - 9) * frame + rng.randrange(24),
        32 + rng.randrange(frames - 9) * frame + rng.randrange(frame),
    ):
        copy_of(killed, path)
        flip(log, [place], rng)

        found, told = held(path)

        assert len(found) >= N - 60, (place, told)


def test_a_cut_log_and_a_bad_index_beside_it_cost_only_what_was_cut_off(killed, tmp_path):
    path = tmp_path / "replies.sqlite"
    size = log_of(killed).stat().st_size
    for cut in cut_points(size, 8, seed=3):
        copy_of(killed, path)
        os.truncate(log_of(path), cut)
        path.with_name("replies.sqlite-shm").write_bytes(random.Random(cut).randbytes(32768))
        expected = whole_in(path)

        found, _ = held(path)

        # frames behind the last whole commit are not replayed: a kill leaves such, too
        assert len(found) >= len(expected) - 20, cut


def test_a_file_and_its_log_both_cut(killed, tmp_path):
    path = tmp_path / "replies.sqlite"
    copy_of(killed, path)
    os.truncate(path, path.stat().st_size // 2)
    expected = whole_in(path)

    found, told = held(path)

    assert len(found) > N // 3
    assert set(found) >= expected
    assert "salvaged" in told[0]


def test_a_log_of_a_kill_is_not_damaged(killed):
    assert not is_log_damaged(killed)


def test_damage_during_a_run_is_mended_in_it(closed, tmp_path):
    """What SQLite meets when the file is open: another process, a disk, a copy over it."""
    path = tmp_path / "replies.sqlite"
    copy_of(closed, path)
    with Replies(path) as replies:  # beyond what SQLite keeps of a file in memory, 2 MB
        more = [ChatReply(random.Random(i).randbytes(4000).hex()) for i in range(600)]
        for stored in [replies.store(f"{i}", each) for i, each in enumerate(more)]:
            stored.result()
    with Replies(path) as replies, Replies(path) as other:
        size = closed.stat().st_size
        with path.open("r+b") as stream:
            for start in range(4096, size // 2, 4096):
                stream.seek(start)
                stream.write(b"\xff" * 4096)
        with pytest.warns(DamagedDatabase, match="salvaged"):
            found = [i for i, key in enumerate(KEYS) if replies.get(key)]
        replies.store(KEYS[1], ChatReply(text_of(1))).result()
        assert N // 4 < len(found) < N
        assert other.get(KEYS[1]).text == text_of(1), "the other one goes on with the new file"


def test_a_damaged_file_of_a_replay_stays_as_it_is(closed, tmp_path):
    path = tmp_path / "replies.sqlite"
    copy_of(closed, path)
    os.truncate(path, closed.stat().st_size // 2)
    before = path.read_bytes()

    with pytest.warns(DamagedDatabase, match="the file is left as it is"):
        replies = Replies(path, replay=True)
    with replies:
        assert sum(replies.get(key) is not None for key in KEYS) > N // 4
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*damaged*"))


def opened_and_asked(path, theirs):
    replies = Replies(path, also=[theirs])
    return replies, sum(replies.get(key) is not None for key in KEYS)


@pytest.mark.parametrize("cut", [0, 50, 3000, 100_000, 360_000])
def test_a_damaged_file_of_others_ends_no_run(closed, tmp_path, cut):
    path, theirs = tmp_path / "replies.sqlite", tmp_path / "theirs.sqlite"
    shutil.copy(closed, theirs)
    os.truncate(theirs, cut)

    with pytest.warns(DamagedDatabase, match=r"theirs\.sqlite"):
        replies, found = opened_and_asked(path, theirs)
    with replies:
        assert (found > 0) is (cut >= 100_000)
        replies.store(KEYS[0], ChatReply(text_of(0))).result()
        assert replies.get(KEYS[0]).text == text_of(0)
    assert theirs.stat().st_size == cut


def test_what_is_no_store_of_others_is_named_and_left_out(tmp_path):
    theirs = tmp_path / "theirs.sqlite"
    theirs.write_bytes(b"no database at all, but long enough to be read as one" * 100)

    with pytest.warns(DamagedDatabase, match=r"theirs\.sqlite: is damaged or no.*are left out"):
        replies = Replies(tmp_path / "replies.sqlite", also=[theirs])
    replies.close()


def test_another_programs_file_is_not_moved(tmp_path):
    path = tmp_path / "replies.sqlite"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE theirs (key TEXT PRIMARY KEY, b, c, d, e)")
        rows = [(str(i), i, i, i, "x" * 300) for i in range(500)]
        connection.executemany("INSERT INTO theirs VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    os.truncate(path, path.stat().st_size // 2)

    with pytest.raises(DataError, match="is damaged or no store of replies"):
        Replies(path)
    assert [each.name for each in tmp_path.iterdir()] == ["replies.sqlite"]


@pytest.mark.parametrize("at", [0, 100, 65_536, 300_000, 700_000])
def test_vectors_come_through_the_same_door(tmp_path, at):
    path = tmp_path / "embeddings.sqlite"
    keys = [vector_key("m", "", str(i)) for i in range(1000)]
    vectors = {key: np.full(200, i, np.float32) for i, key in enumerate(keys)}
    with EmbeddingCache(path) as stored:
        stored.store(vectors)
        stored.store_lengths(dict.fromkeys(keys, 7))
    with path.open("r+b") as stream:
        stream.seek(at)
        stream.write(b"\xff" * 3)
    theirs = tmp_path / "theirs.sqlite"
    shutil.copy(path, theirs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedDatabase)
        warnings.simplefilter("ignore", DamagedVectors)
        for files in ([path], [tmp_path / "own.sqlite", theirs]):
            with EmbeddingCache(files[0], files[1:]) as stored:
                found = dict(stored.find(keys))
                assert len(found) >= 1000 - 80  # a page has 78
                assert all(found[key].tobytes() == vectors[key].tobytes() for key in found)
                stored.store(vectors)
                stored.lengths(keys)
                assert len(dict(stored.find(keys))) == 1000


def test_a_whole_file_is_opened_without_a_word(closed, tmp_path):
    path = tmp_path / "replies.sqlite"
    copy_of(closed, path)
    before = path.read_bytes()

    found, told = held(path)

    assert (len(found), told) == (N, [])
    with open_shared(path, REPLIES, thorough=True) as shared:
        assert len(shared) == N
    assert len(path.read_bytes()) == len(before)
    assert VECTORS.rows == "vectors"


@pytest.fixture
def another(killed, tmp_path):
    """A whole store that was copied over one whose log stayed; returns it and its keys."""
    path, whole = tmp_path / "here" / "replies.sqlite", tmp_path / "whole" / "replies.sqlite"
    path.parent.mkdir()
    copy_of(killed, path)
    keys = [request_key(SERVER, asking(f"another {i}")) for i in range(20)]
    with Replies(whole) as replies:
        [replies.store(key, ChatReply(f"reply {i}")).result() for i, key in enumerate(keys)]
    shutil.copy(whole, path)
    return path, keys


def test_a_log_of_another_file_hides_no_reply(another):
    """SQLite believes any log that lies beside a file: all replies in the file were gone."""
    path, keys = another
    with pytest.warns(DamagedDatabase, match="its write-ahead log is of another file"):
        replies = Replies(path)
    with replies:
        assert [replies.get(key).text for key in keys] == [f"reply {i}" for i in range(20)]
        found = {i: replies.get(key) for i, key in enumerate(KEYS)}
        assert all(reply.text == text_of(i) for i, reply in found.items() if reply)


def test_nor_in_a_store_that_is_only_read(another, tmp_path):
    path, keys = another
    before = path.read_bytes()
    with pytest.warns(DamagedDatabase, match="of another file.*the file is left as it is"):
        shared = open_shared(path, REPLIES)
    with shared:
        query = "SELECT key FROM replies"
        found = {key for (key,) in shared.use(lambda each: each.execute(query).fetchall())}
    assert found >= {*keys}
    assert path.read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="looks its locks up there")
def test_the_look_beneath_a_log_lets_go_of_no_lock(tmp_path):
    """A file that is opened and closed beside SQLite takes all locks of the process with it."""
    path = tmp_path / "replies.sqlite"

    def locks():
        of_file = f":{path.stat().st_ino} "
        lines = Path("/proc/locks").read_text("utf-8").splitlines()
        return [line.split()[3:] for line in lines if of_file in line]

    with Replies(path) as one:
        one.store("k", ChatReply("yes")).result()
        assert one.get("k").text == "yes"
        held = locks()
        assert held
        with Replies(path) as other:
            assert other.get("k").text == "yes"
        assert locks() == held
