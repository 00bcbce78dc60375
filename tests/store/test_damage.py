"""Damaged files: no cut and no flipped bit stops a run or brings a wrong row; losses are said."""

import functools
import os
import random
import re
import shutil
import warnings
from contextlib import closing, nullcontext, suppress

import pytest

from ragbench.errors import DataError
from ragbench.llm import ChatReply, Replies
from ragbench.store.database import Store
from ragbench.store.maintenance import verify
from ragbench.store.sqlite_file import DamagedCache
from tests.store.rows import query

pytestmark = pytest.mark.slow  # seconds in all: many damaged copies of real files

N = 600
KEYS = [f"{i:064x}" for i in range(N)]
PAGE = 8192
# The bytes of the header that say whose file it is, and of which version: others are refused.
OWNER = range(60, 72)


@functools.cache  # each is compared dozens of times
def text_of(i):
    """Mostly short; one in 50 goes over several pages of the file."""
    return random.Random(i).randbytes(12_000 if i % 50 == 0 else 40 + i % 300).hex()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "replies.sqlite"
    with Replies(path) as replies:
        stored = [replies.store(key, ChatReply(text_of(i))) for i, key in enumerate(KEYS)]
        [call.result() for call in stored]
    return path


@pytest.fixture
def path(whole, tmp_path):
    path = tmp_path / "replies.sqlite"
    shutil.copy(whole, path)
    return path


def read_replies(path):
    """The numbers of the replies that a run gets; a wrong one, and a run that ends, are errors."""
    numbers = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Replies(path) as replies:
            for i, key in enumerate(KEYS):
                if (reply := replies.get(key)) is not None:
                    assert reply.text == text_of(i)
                    numbers.append(i)
            for i in (0, N // 2, N - 1):  # what is lost is asked for and stored again
                replies.store(KEYS[i], ChatReply(text_of(i))).result()
                assert replies.get(KEYS[i]).text == text_of(i)
    assert all(warning.category is DamagedCache for warning in warned)
    return numbers, [str(warning.message) for warning in warned]


def flip(path, places, rng):
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def test_a_whole_file_is_opened_without_a_word(path):
    numbers, warned = read_replies(path)

    assert (len(numbers), warned) == (N, [])


@pytest.mark.parametrize("part", [0.02, 0.3, 0.5, 0.9, 0.99])
def test_a_cut_keeps_what_is_before_it(path, part):
    size = path.stat().st_size
    # a disk that was full, or an interrupted copy, leaves such a file
    os.truncate(path, int(size * part))

    numbers, warned = read_replies(path)

    assert len(numbers) >= N * part / 3 - 10  # a page that leads to many others may be lost
    assert len(warned) == 1
    (copied,) = re.findall(r"; (\d+) replies were copied", warned[0])
    assert int(copied) == len(numbers)
    aside = path.with_name("replies.damaged-1.sqlite")
    assert "the damaged file is kept as replies.damaged-1.sqlite" in warned[0]
    assert aside.stat().st_size == int(size * part)
    again, warned = read_replies(path)
    assert (again, warned) == (sorted({*numbers, 0, N // 2, N - 1}), [])


@pytest.mark.parametrize("cut", [1, 15, 17, 60, 99, 100, 101, 511, 4096, PAGE, PAGE + 1])
def test_a_cut_near_the_beginning_stops_a_run_only_where_the_owner_is_not_known(path, cut):
    os.truncate(path, cut)

    with nullcontext() if cut >= 72 else suppress(DataError):
        assert read_replies(path)[0] == [], "SQLite takes the shortest for new ones"


def test_replies_before_and_after_damaged_pages_are_copied(path):
    with path.open("r+b") as stream:
        for page in (9, 12, 20):
            stream.seek(page * PAGE)
            # a page of these bytes is no page of SQLite
            stream.write(b"\xff" * PAGE)

    numbers, warned = read_replies(path)

    (copied,) = re.findall(r"; (\d+) replies were copied", warned[0])
    # a page has some 25 replies, and twelve pages are between the damaged ones
    assert int(copied) == len(numbers) >= N - 13 * 30


@pytest.mark.parametrize("seed", range(1))
def test_no_flipped_bit_stops_a_run_or_brings_a_wrong_reply(path, whole, seed):
    # Flips fall anywhere, and once more where SQLite keeps what it needs first.
    rng = random.Random(seed)
    size = whole.stat().st_size
    heads = [i for i in range(100 + 60) if i not in OWNER]
    for _ in range(2):
        for places in (
            [rng.choice(heads)],
            [rng.randrange(size // PAGE) * PAGE + rng.randrange(12)],
            rng.sample(range(100, size), rng.choice([1, 8])),
        ):
            for old in path.parent.iterdir():
                old.unlink()
            shutil.copy(whole, path)
            flip(path, places, rng)

            numbers, notes = read_replies(path)

            # a page has some 25 replies, and a flip may hit the chains of long ones; without
            # its first page SQLite reads nothing of a file
            assert len(numbers) >= N - 130 * len(places) or min(places) < PAGE, places
            assert notes or len(numbers) == N, places


def test_damage_during_a_run_is_mended_in_it(path):
    # Another process, a disk or a copy may damage an open file.
    with Replies(path) as replies:  # beyond what SQLite keeps of a file in memory, 2 MB
        more = [ChatReply(random.Random(i).randbytes(8000).hex()) for i in range(350)]
        for stored in [replies.store(f"{i}", reply) for i, reply in enumerate(more)]:
            stored.result()
    with Replies(path) as replies, Replies(path) as other:
        with path.open("r+b") as stream:
            for page in range(6, 12):
                stream.seek(page * PAGE)
                stream.write(b"\xff" * PAGE)
        # before SQLite meets a damaged page, a reply may have lost its end, which is told as well
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            numbers = [i for i, key in enumerate(KEYS) if replies.get(key)]
        assert "were copied into a new file" in str(warned[-1].message)
        replies.store(KEYS[1], ChatReply(text_of(1))).result()
        assert N // 4 < len(numbers) < N
        assert other.get(KEYS[1]).text == text_of(1), "the other one goes on with the new file"


def test_a_damaged_file_of_a_replay_is_refused_and_stays(path, assert_message):
    os.truncate(path, path.stat().st_size // 2)
    old_bytes = path.read_bytes()

    with pytest.raises(DataError) as error:
        Replies(path, replay=True)
    assert_message(error.value, "TMP/replies.sqlite")
    assert path.read_bytes() == old_bytes


@pytest.mark.parametrize("cut", [50, 3000, 100_000])
def test_a_damaged_file_of_others_ends_no_run_and_stays(path, tmp_path, cut):
    theirs = path.rename(tmp_path / "theirs.sqlite")
    os.truncate(theirs, cut)

    with Replies(path, also=[theirs]) as replies:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for i, key in enumerate(KEYS):
                assert (reply := replies.get(key)) is None or reply.text == text_of(i)
        assert "theirs.sqlite" in str(warned[0].message)
        replies.store(KEYS[0], ChatReply(text_of(0))).result()
        assert replies.get(KEYS[0]).text == text_of(0)
    assert theirs.stat().st_size == cut


def test_another_programs_damaged_file_is_not_moved(tmp_path, assert_message):
    path = tmp_path / "replies.sqlite"
    query(path, "CREATE TABLE theirs (key TEXT PRIMARY KEY, b)")
    query(path, f"INSERT INTO theirs VALUES {', '.join(f'({i}, {i})' for i in range(5000))}")
    os.truncate(path, path.stat().st_size // 2)

    with pytest.raises(DataError) as error:
        Replies(path)
    assert_message(error.value, "TMP/replies.sqlite")
    assert [file.name for file in tmp_path.glob("replies*")] == ["replies.sqlite"]


@pytest.mark.parametrize("offset", [0, 100, 4 * PAGE, 300_000, 700_000])
def test_vectors_and_items_come_through_the_same_door(tmp_path, offset):
    path = tmp_path / "cache.sqlite"
    blobs = {f"{i}": random.Random(i).randbytes(800) for i in range(1000)}
    with closing(Store(path)) as store:
        store.put("embed", "", blobs)
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\xff" * 3)

    with warnings.catch_warnings(), closing(Store(path)) as store:
        warnings.simplefilter("ignore", DamagedCache)
        rows = dict(store.find("embed", "", list(blobs)))
        assert len(rows) >= 1000 - 200 or offset < PAGE
        assert all(blobs[item] == blob for item, blob in rows.items())
        store.put("embed", "", blobs)
        assert len(dict(store.find("embed", "", list(blobs)))) == 1000


def test_verify_counts_and_changes_nothing(path):
    with path.open("r+b") as stream:
        stream.seek(9 * PAGE)
        stream.write(b"\xff" * PAGE)
    old_bytes = path.read_bytes()

    problems = list(verify(path.parent))

    assert {place for place, _, _ in problems} == {path}
    counts = {description: n for _, n, description in problems}
    assert counts.pop("damaged pages") == 1
    # the page is the end of a long reply in some layouts, which follow the time of the writes
    assert sum(counts.values()) <= 1
    assert path.read_bytes() == old_bytes
