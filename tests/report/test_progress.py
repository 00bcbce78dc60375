"""A bar on a terminal, plain lines elsewhere, nothing when quiet."""

import io
import logging
import re
import sys
import threading

import pytest

from ragbench.cli.output import Door
from ragbench.errors import OptionError
from ragbench.report.progress import SECONDS_VARIABLE, Progress, StageProgress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(text):
    return re.sub(r"in [\d.]+ s", "in T", text).splitlines()


def test_a_plain_line_for_each_stage_when_it_ends(assert_message):
    stream = io.StringIO()
    progress = Progress(stream=stream)

    with progress.stage("load", 1, "files") as stage:
        # a line is written at the end of a stage, not at its beginning
        assert stream.getvalue() == ""
        stage.advance()
    with progress.stage("retrieve bm25", 66) as stage:
        # blocks of two queries
        for _ in range(33):
            stage.advance(2)

    assert_message(lines(stream.getvalue()))


def test_what_is_not_done_is_said(assert_message):
    stream = io.StringIO()
    with Progress(stream=stream).stage("judge", 10, "verdicts") as stage:
        stage.advance(7)

    assert_message(lines(stream.getvalue()))


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
    # pipelines set it, and rich obeys
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    progress = Progress(stream=stream)
    with progress.stage("retrieve [b]x[/b] :smile:", 2) as outer:
        with progress.stage("rerank", 4) as inner:
            inner.advance(4)
        outer.advance(2)

    assert "\x1b[" in stream.getvalue()
    # the bar of rich
    assert "━" in stream.getvalue()
    bare = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", stream.getvalue()).replace("\r", "\n")
    assert {"rerank: 4 queries in T", "retrieve [b]x[/b] :smile:: 2 queries in T"} <= set(
        lines(bare)
    )


def bare_lines(stream):
    """The lines of a terminal, without escapes; a return starts a new one."""
    bare = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", stream.getvalue()).replace("\r", "\n")
    return lines(bare)


def test_text_of_libraries_stands_on_lines_of_its_own_above_the_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", stream)
    # a handler that was made before the bar holds the old stream
    logger = logging.getLogger("library of the user")
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler()])
    progress = Progress()
    with progress.stage("answer", 2) as stage:
        logger.warning("request 1 of [b]x[/b]")
        # as the bars of tqdm: a return goes back, and the last text counts
        for text in ("\r 50 %", "\r100 %", "\n", "half a "):
            sys.stderr.write(text)
            sys.stderr.flush()
        sys.stderr.writelines(["line\n", "next\n"])
        print("printed")
        logging.StreamHandler().stream.write("by a handler of the stage\n")
        sys.stdout.write("without a break")
        during = sys.stderr
        assert (during.isatty(), during.encoding) == (True, stream.encoding)
        stage.advance(2)

    texts = ["request 1 of [b]x[/b]", "100 %", "half a line", "next", "printed"]
    texts += ["without a break", "by a handler of the stage", "answer: 2 queries in T"]
    lines = [line.strip() for line in bare_lines(stream)]
    assert [text for text in texts if text not in lines] == []
    assert "50 %" not in stream.getvalue()
    assert (sys.stderr, sys.stdout, logger.handlers[0].stream) == (stream, stream, stream)
    # a library may still write to the stream of the stage
    during.write("late")
    assert stream.getvalue().endswith("late"), "a library may keep the stream"


def test_text_above_the_bar_is_made_safe_as_elsewhere(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", Door(stream, is_stderr=True))
    with Progress(stream=stream).stage("answer", 2):
        sys.stderr.write("text of a model \x1b[2J\n")

    assert "text of a model" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()


def test_a_stream_that_is_no_terminal_is_left_alone(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    with Progress(stream=Terminal()).stage("answer", 2):
        assert sys.stdout is pipe
        print("result")

    assert pipe.getvalue() == "result\n"


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


class Listened(io.StringIO):
    """A stream that tells when something was written to it."""

    def __init__(self):
        super().__init__()
        self.heard = threading.Event()

    def write(self, text):
        count = super().write(text)
        self.heard.set()
        return count


def test_a_stage_that_lasts_says_how_far_it_is(monkeypatch, assert_message):
    monkeypatch.setenv(SECONDS_VARIABLE, "0.01")
    stream = Listened()
    with Progress(stream=stream).stage("index dense", 1400, "documents") as stage:
        stage.advance(400)
        stream.heard.clear()
        assert stream.heard.wait(300), "whatever computes says nothing itself"
        stage.advance(1000)

    *meanwhile, last = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"index dense: 400 of 1400 documents after [\d.]+ s, [\d.e+]+ a second, .+ left",
        meanwhile[-1],
    )
    assert_message(lines(last))


def test_what_is_brief_says_nothing_of_a_stage_that_is_soon_over(monkeypatch):
    stream = Listened()
    with Progress(stream=stream, brief=True).stage("score", 2) as stage:
        stage.advance(2)
    assert stream.getvalue() == ""

    monkeypatch.setenv(SECONDS_VARIABLE, "0.01")
    with Progress(stream=stream, brief=True).stage("score", 2) as stage:
        assert stream.heard.wait(300)
        stage.advance(2)
    assert lines(stream.getvalue())[-1] == "score: 2 queries in T"


def test_seconds_of_zero_leave_the_last_line_alone(monkeypatch):
    monkeypatch.setenv(SECONDS_VARIABLE, "0")
    n_threads = threading.active_count()
    with Progress(stream=io.StringIO()).stage("load", 1):
        assert threading.active_count() == n_threads, "nobody waits to say a line"


@pytest.mark.parametrize("value", ["often", "-1", "nan", "inf"])
def test_seconds_that_are_none(monkeypatch, value):
    monkeypatch.setenv(SECONDS_VARIABLE, value)
    message = f"progress: RAGBENCH_PROGRESS: found '{value}', allowed: seconds between two lines"
    with pytest.raises(OptionError, match=message):
        Progress(stream=io.StringIO())


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 10, 12, "judge: 0 of 10 verdicts after 12.0 s"),
        (2, 10, 240, "judge: 2 of 10 verdicts after 4 min 0 s, 0.5 a minute, 16 min 0 s left"),
        (10, 10, 5, "judge: 10 of 10 verdicts after 5.00 s"),
        (30, None, 10, "judge: 30 verdicts after 10.0 s, 3 a second"),
    ],
)
def test_how_far_how_fast_and_how_long(done, total, seconds, text):
    stage = StageProgress("judge", total, "verdicts", None)
    stage.advance(done)

    assert stage.progress_line(seconds) == text


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


def test_hostile_names_do_not_move_the_cursor(assert_message):
    stream = io.StringIO()
    with Progress(stream=stream).stage("a\x1b[2Jb\nc", None):
        pass

    assert_message(lines(stream.getvalue()))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.00 s"), (9.99, "9.99 s"), (9.999, "10.0 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"),
     (3599.6, "1 h 0 min")],
)  # fmt: skip
def test_durations_round_into_the_next_unit(seconds, text):
    assert duration(seconds) == text
