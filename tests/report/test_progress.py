"""A bar on a terminal, plain lines elsewhere, nothing when quiet."""

import io
import re
import threading

import pytest

from ragbench.report.progress import Progress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(text):
    return re.sub(r"in [\d.]+ s", "in T", text).splitlines()


def test_a_plain_line_for_each_stage_when_it_ends():
    stream = io.StringIO()
    progress = Progress(stream=stream)

    with progress.stage("load", 1, "files") as stage:
        assert stream.getvalue() == ""
        stage.advance()
    with progress.stage("retrieve bm25", 66) as stage:
        for _ in range(33):
            stage.advance(2)

    assert lines(stream.getvalue()) == ["load: 1 file in T", "retrieve bm25: 66 queries in T"]


def test_what_is_not_done_is_said():
    stream = io.StringIO()
    with Progress(stream=stream).stage("judge", 10, "verdicts") as stage:
        stage.advance(7)

    assert lines(stream.getvalue()) == ["judge: 7 of 10 verdicts in T"]


def test_a_stage_that_stops_says_where_and_the_error_goes_on():
    stream = io.StringIO()

    def stop():
        with Progress(stream=stream).stage("judge", 10, "verdicts") as stage:
            stage.advance(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert re.fullmatch(r"judge: stopped after 3 of 10, [\d.]+ s\n", stream.getvalue())


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_quiet_is_silent(stream):
    with Progress(quiet=True, stream=stream).stage("load", 2) as stage:
        stage.advance(2)

    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar_and_the_same_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    progress = Progress(stream=stream)
    with progress.stage("retrieve [b]x[/b] :smile:", 2) as outer:
        with progress.stage("rerank", 4) as inner:
            inner.advance(4)
        outer.advance(2)

    assert "\x1b[" in stream.getvalue()
    assert "━" in stream.getvalue()
    bare = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", stream.getvalue()).replace("\r", "\n")
    assert {"rerank: 4 queries in T", "retrieve [b]x[/b] :smile:: 2 queries in T"} <= set(
        lines(bare)
    )


def test_no_color_leaves_the_bar_and_drops_the_colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with Progress(stream=stream).stage("load", 2) as stage:
        stage.advance(2)

    assert "load" in stream.getvalue()
    assert not re.search(r"\x1b\[(?:3|4|9)\d", stream.getvalue())


def test_a_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Progress(stream=stream).stage("load", 2) as stage:
        stage.advance(2)

    assert lines(stream.getvalue()) == ["load: 2 queries in T"]


def test_threads_lose_no_count():
    with Progress(quiet=True).stage("judge", 8000) as stage:
        threads = [
            threading.Thread(target=lambda: [stage.advance() for _ in range(1000)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert stage.done == 8000


def test_hostile_names_do_not_move_the_cursor():
    stream = io.StringIO()
    with Progress(stream=stream).stage("a\x1b[2Jb\nc", None):
        pass

    assert lines(stream.getvalue()) == [r"a\x1b[2Jb c: 0 queries in T"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.00 s"), (9.99, "9.99 s"), (9.999, "10.0 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"),
     (3599.6, "1 h 0 min")],
)  # fmt: skip
def test_durations_round_into_the_next_unit(seconds, text):
    assert duration(seconds) == text
