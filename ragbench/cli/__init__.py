"""Command line `ragbench`: runs a command, prints its errors, and exits with its code."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

import click

from ragbench import __version__ as __version__
from ragbench import errors
from ragbench.cli.commands import group
from ragbench.cli.output import GATED, behind, echo, open_doors, report_failure
from ragbench.secrets import note_secrets, printed, secrets_of_process

_ISSUES = "https://github.com/ragbench/ragbench/issues"


# New objects before Python searches them for reference cycles. A run hardly has cycles: the default
# of 700 costs an experiment over run files a twentieth of its time and saves no memory.
_OBJECTS_TO_A_COLLECTION = 200_000


def main() -> None:
    """Run the command line and exit; results go to stdout, all else to stderr.

    It does not return: it raises SystemExit with the exit code, or ends the process with 130 if
    interrupted.
    """
    # SIGTERM and SIGHUP interrupt as Ctrl-C does, so that a run ends with code 130 and resumes;
    # `nohup` sets SIGHUP to be ignored, which stays
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
    gc.set_threshold(_OBJECTS_TO_A_COLLECTION, *gc.get_threshold()[1:])
    # at exit Python searches all objects for cycles, which took `score` 20 ms for nothing
    atexit.register(gc.freeze)
    is_closed = sys.stdout is None  # as after `>&-` in a shell
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    note_secrets(secrets_of_process(os.environ))
    streams = open_doors()
    doors = sys.stdout, sys.stderr
    try:
        code = _finished(is_closed)
    finally:
        sys.stdout, sys.stderr = streams
        if "logging" in sys.modules:  # else no library has a handler, and none is imported here
            from ragbench.log import move_handlers

            for door, stream in zip(doors, streams, strict=True):
                move_handlers(door, stream)
    sys.exit(code)


def _finished(is_closed: bool) -> int:
    """Run the command and return its exit code; 2, not 0, if stdout cannot be written."""
    code = _exit_code()
    if is_closed and code == 0:
        code = _fail(errors.EXIT_BAD_INPUT, "cannot write the result: standard output is closed")
    try:
        sys.stdout.flush()
    except OSError as error:  # a full disk is noticed only when the buffer is flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), behind(sys.stdout).fileno())
        if not isinstance(error, BrokenPipeError):
            code = code or _fail(_code_of(error), f"cannot write the result: {error.strerror}")
    return code


def _exit_code() -> int:
    """Run the command, print and report the message of its error, and return the exit code."""
    try:
        code = group.main(standalone_mode=False)
        code = code if isinstance(code, int) else 0
        if code and sys.argv[1] not in GATED:
            _report(code, f"ragbench {sys.argv[1]}: exit code {code}; its output says why")
        return code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except click.ClickException as error:
        error.show(sys.stderr)
        _report(errors.EXIT_BAD_INPUT, error.format_message())
        return errors.EXIT_BAD_INPUT
    except errors.RagbenchError as error:
        # the raw text: `str(error)` cuts long lines, and a cut secret is not recognised
        return _fail(error.exit_code, Exception.__str__(error), error.problems)
    except (BrokenPipeError, SystemExit):  # click turns the first into the second
        # the reader of the pipe ended first, as in `ragbench list | head`: no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), behind(sys.stdout).fileno())
        return 0
    except OSError as error:
        # errors of a file name, a disk or a permission: the user can mend them, they are no bugs;
        # a file that is missing was to be there, and the log names it
        is_missing = isinstance(error, FileNotFoundError)
        if is_missing and error.filename is not None:
            return _internal_error()
        verb, where = "write", "the result"
        if is_missing:  # without a name: `os.getcwd` in a folder that was removed
            verb, where = "use", "the working directory"
        elif error.filename is not None:
            verb, where = "use", os.fsdecode(error.filename)
        return _fail(_code_of(error), f"cannot {verb} {where}: {error.strerror}")
    except BaseException as error:  # noqa: BLE001 - a bug: print one line, log the traceback
        return _interrupted() if errors.is_interrupt(error) else _internal_error()


def _code_of(error: OSError) -> int:
    return errors.EXIT_NO_SPACE if errors.is_disk_full(error) else errors.EXIT_BAD_INPUT


def _fail(code: int, text: str, problems: Sequence[errors.Problem] = ()) -> int:
    """Print the message of an error on stderr, report it to CI, and return the exit code."""
    echo(printed(text), err=True)
    _report(code, text, problems)
    return code


def _report(code: int, text: str, problems: Sequence[errors.Problem] = ()) -> None:
    """Report an error to CI: annotations, step summary, and the file of `--junit`."""
    report_failure(code, text, problems, sys.argv[1:])


def _interrupted() -> NoReturn:
    """Print that Ctrl-C stopped the command, and exit with its code."""
    _fail(errors.EXIT_INTERRUPTED, "interrupted")
    sys.stdout.flush()
    sys.stderr.flush()
    # `sys.exit` would wait for threads that a component has not ended
    os._exit(errors.EXIT_INTERRUPTED)


def _internal_error() -> int:
    """Log the traceback without secrets in a temporary file, and return exit code 70."""
    import tempfile
    import traceback

    descriptor, log = tempfile.mkstemp(prefix="ragbench-", suffix=".log")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(printed(traceback.format_exc()))
    text = f"internal error; please report it at {_ISSUES}, with {log}"
    return _fail(errors.EXIT_INTERNAL, text)
