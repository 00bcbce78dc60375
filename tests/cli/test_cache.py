"""`ragbench cache`: sizes, pruning, checksums; what was paid for stays unless it is asked for."""

import io
import json
import os
import sys
import time
from pathlib import Path

import pytest

from ragbench.cli import main
from ragbench.embed.cache import CachedEmbedder
from ragbench.llm import ChatReply, Replies
from ragbench.store.database import CACHE_FILE, REPLIES_FILE
from ragbench.store.maintenance import stored_in
from tests.commands import run_command
from tests.embed.tables import Table
from tests.store.rows import damage, query


@pytest.fixture
def cache(after_quickstart, quickstart):
    """The cache of a quickstart, with one vector and one reply."""
    folder = Path("cache")
    CachedEmbedder(Table({"a text": [1, 1]}), folder / CACHE_FILE).encode(["a text"])
    with Replies(folder / REPLIES_FILE) as replies:
        replies.store("k", ChatReply("yes")).result()
    return folder


def files(folder):
    """All but `.gitignore` and the file of claims, of which another run may hold a lock."""
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return paths - {".gitignore", f".{REPLIES_FILE}.claims"}


def test_sizes_by_stage(cache, quickstart):
    code, text, _ = quickstart("cache")

    kinds = [line.split()[0] for line in text.splitlines()[1:]]
    assert code == 0
    assert kinds == ["retrieve", "generate", "score", "compare", "embed", "replies"]
    assert text.startswith("cache: ")


def kinds_in(folder):
    return {entry.kind for entry in stored_in(folder)}


def set_used(path, days, where="1"):
    """Let entries have been used some days ago."""
    query(path, f"UPDATE entries SET used_at = ? WHERE {where}", [time.time() - days * 86_400])


def test_prune_by_age_leaves_what_was_of_use_and_replies(cache, quickstart):
    old = [entry for entry in stored_in(cache) if entry.kind == "score"]
    set_used(cache / CACHE_FILE, 40, "kind IN ('score', 'embed')")
    set_used(cache / REPLIES_FILE, 40)
    size = (cache / CACHE_FILE).stat().st_size

    code, text, _ = quickstart("cache", "prune", "--older-than", "30d")

    assert code == 0
    assert text.startswith(f"removed {len(old) + 1} entries")
    assert kinds_in(cache) == {"retrieve", "generate", "compare", "replies"}
    assert (cache / CACHE_FILE).stat().st_size < size


def test_prune_by_size_takes_the_longest_unused_first(cache, quickstart):
    set_used(cache / CACHE_FILE, 1, "kind != 'compare'")
    (newest,) = [entry for entry in stored_in(cache) if entry.kind == "compare"]

    quickstart("cache", "prune", "--max-size", newest.size)

    assert kinds_in(cache) == {"compare", "replies"}


@pytest.mark.parametrize("name", [CACHE_FILE, REPLIES_FILE])
def test_verify_finds_a_file_that_was_cut(cache, quickstart, name):
    os.truncate(cache / name, (cache / name).stat().st_size // 2)

    code, text, _ = quickstart("cache", "verify")

    assert code == 2
    assert f"{name}: 1 damaged item (" in text


def test_verify_finds_damage_of_each_kind(cache, quickstart, assert_message):
    assert quickstart("cache", "verify")[0] == 0
    ((number,),) = query(cache / CACHE_FILE, "SELECT min(rowid) FROM rows WHERE kind = 'generate'")
    damage(cache / CACHE_FILE, "kind = 'embed' OR rowid = ?", [number])
    damage(cache / REPLIES_FILE)

    code, text, _ = quickstart("cache", "verify")

    assert code == 2
    assert_message(text)
    assert text.endswith("3 damaged items\n")


def test_clear_removes_nothing_where_nobody_can_be_asked(cache, quickstart, assert_message):
    old_files = files(cache)

    code, _, problem = quickstart("cache", "clear")

    assert code == 2
    assert_message(problem)
    assert files(cache) == old_files


def test_clear_keeps_replies_unless_asked(cache, quickstart):
    assert quickstart("cache", "clear", "--yes")[0] == 0
    assert files(cache) == {REPLIES_FILE}

    assert quickstart("cache", "clear", "--yes", "--replies")[0] == 0
    assert files(cache) == set()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "pass --older-than AGE"),
        (("--older-than", "30"), "found '30', allowed: a number and its unit, as in 12h, 30d, 8w"),
        (("--max-size", "big"), "found 'big', allowed: a number and its unit, as in 500M, 2G"),
    ],
)
def test_bad_arguments(quickstart, arguments, message):
    code, _, problems = quickstart("cache", "prune", *arguments)

    assert code == 2
    assert message in problems


SLOW = """
import subprocess, sys
class App:
    asked = 0
    def answer(self, question):
        App.asked += 1
        if App.asked == 30:  # others stand in the cache by now
            command = [sys.executable, "-m", "ragbench", "cache", "clear", "--yes", "--replies"]
            print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return "b c"
"""


@pytest.mark.slow
def test_a_cache_that_is_cleared_under_a_run_changes_no_number(tmp_path):
    rows = [{"question": f"a{n}?", "reference": "b"} for n in range(60)]
    (tmp_path / "qa.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    (tmp_path / "c.yaml").write_text(
        "dataset: {type: records, path: qa.jsonl}\napps: {s: {type: 'python:slow:App'}}\n"
        "metrics: {generation: [token_f1]}\n",
        encoding="utf-8",
    )
    env = {**os.environ, "RAGBENCH_CACHE": str(tmp_path / "cache")}

    done = run_command("run", "c.yaml", "--json", cwd=tmp_path, env=env)

    assert done.returncode == 0, done.stderr
    assert "removed 1 entry" in done.stderr
    (system,) = json.loads(done.stdout)["systems"]
    score = system["scores"]["token_f1"]
    assert (score["n"], score["failed"]) == (60, {})


class TypedTerminal(io.StringIO):
    """A standard input that somebody types into."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("typed", "code"), [("y\n", 0), ("what\nyes\n", 0), ("n\n", 130), ("\n", 130), ("", 130)]
)
def test_the_question_before_a_removal_goes_through_the_door(
    after_quickstart, monkeypatch, capsys, typed, code
):
    folder = after_quickstart / "ca\x1b[31mche"
    (after_quickstart / "cache").rename(folder)
    monkeypatch.setattr(sys, "argv", ["ragbench", "cache", "--path", str(folder), "clear"])
    monkeypatch.setattr(sys, "stdin", TypedTerminal(typed))
    monkeypatch.setattr(os, "_exit", sys.exit)

    with pytest.raises(SystemExit) as exited:
        main()

    printed = capsys.readouterr().err
    assert exited.value.code == code
    assert "\x1b" not in printed
    assert "ca␛[31mche? [y/N]:" in printed
    assert bool(stored_in(folder)) == bool(code)


def test_one_entry_is_one_entry(tmp_path, monkeypatch, quickstart):
    monkeypatch.chdir(tmp_path)
    with Replies(tmp_path / REPLIES_FILE) as replies:
        replies.store("k", ChatReply("yes")).result()

    code, text, _ = quickstart("cache", "--path", tmp_path)

    assert code == 0
    assert all(line.endswith("1 entry") for line in text.splitlines())
