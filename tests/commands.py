"""The command line called in this process: a child process would do and print the same.

That it would is what `tests/cli/test_processes.py` says, for a command of each kind.
"""

from __future__ import annotations

import io
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from subprocess import CompletedProcess

from ragbench import secrets
from ragbench.cli import main

_ROOT = Path(__file__).resolve().parents[1]


def run_command(
    *arguments: object,
    cwd: str | Path = ".",
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> CompletedProcess[str]:
    """Call `ragbench ARGUMENTS`; exit code, stdout and stderr as `subprocess.run` gives them."""
    words = ["ragbench", *map(str, arguments)]
    exited = partial(_exit_code, words)
    return CompletedProcess(words, *call(exited, cwd=cwd, env=env, stdin=stdin))


def run_on_terminal(
    *arguments: object, width: int, cwd: str | Path = ".", env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Call `ragbench ARGUMENTS` with a terminal as stdout; return the exit code and its text."""
    import fcntl
    import pty
    import termios

    host, client = pty.openpty()
    fcntl.ioctl(client, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    python_stdout, words = sys.__stdout__, ["ragbench", *map(str, arguments)]
    with ThreadPoolExecutor(1) as reader:
        # a terminal holds some kilobytes that nobody has read
        text = reader.submit(_read_terminal, host)
        with open(client, "w", encoding="utf-8") as stream:
            sys.__stdout__ = stream  # its width is asked for
            try:
                code, _, _ = call(partial(_exit_code, words), cwd=cwd, env=env, stdout=stream)
            finally:
                sys.__stdout__ = python_stdout
        return code, text.result().replace("\r\n", "\n")


def _read_terminal(host: int) -> str:
    """Read a terminal until its programs have closed it, and close it."""
    output = b""
    with open(host, "rb", buffering=0) as terminal:
        while True:
            try:
                data = terminal.read(65_536)
            except OSError:  # Linux reports the end of a terminal as an error
                data = b""
            if not data:
                return output.decode("utf-8")
            output += data


def _exit_code(words: list[str]) -> int:
    """Call the command line with these words; return its exit code."""
    arguments_before, sys.argv = sys.argv, words
    try:
        main()
    except SystemExit as left:
        return left.code
    finally:
        sys.argv = arguments_before


def call(
    function: Callable[[], int],
    *,
    cwd: str | Path = ".",
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    stdout: io.TextIOWrapper | None = None,
) -> tuple[int, str, str]:
    """Call what a program calls; exit code, stdout and stderr; no stdout if a stream has it."""
    printed, errors = _stream(), _stream()
    secrets_before = secrets._noted
    secrets._noted = {}  # a process knows the secrets of its own config alone
    with _place(Path(cwd).resolve(), os.environ if env is None else env):
        streams = sys.stdin, sys.stdout, sys.stderr
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), encoding="utf-8")
        sys.stdout, sys.stderr = stdout or printed, errors
        try:
            code = function()
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            secrets._noted = secrets_before
    assert isinstance(code, int), "a program exits with a number"
    return int(code), _text(printed), _text(errors)


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def _set_variables(variables: Mapping[str, str]) -> None:
    """Change `os.environ` to these variables; to set each of them anew takes long."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


@contextmanager
def _place(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A working directory, an environment, and a path for modules, which end with the call.

    The modules of the folder are its own, as in a process: `mine.py` of another test is set aside
    meanwhile, and that of this one is forgotten afterwards.
    """
    variables, path = dict(os.environ), [*sys.path]
    set_aside = {
        name: sys.modules.pop(name)
        for name in (file.stem for file in folder.glob("*.py"))
        if name in sys.modules
    }
    last_module = next(reversed(sys.modules))
    folder_before = Path.cwd()
    changed = dict(environment)
    os.chdir(folder)
    _set_variables(changed)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(folder_before)
        _set_variables(variables)
        sys.path[:] = path
        # the root of this project has no modules of a test, but those of the package and of .venv
        imported = [*takewhile(lambda name: name != last_module, reversed(sys.modules))]
        for name in () if folder == _ROOT else imported:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin and Path(origin).resolve().is_relative_to(folder):
                del sys.modules[name]
        sys.modules.update(set_aside)
