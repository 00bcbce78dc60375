"""Processes that start with everything imported: forks of one that imported it once.

Each is a process of its own, with the arguments, folder, environment and streams that it is given,
and can be killed; to import is most of what a small command, or a model, costs. That commands that
start from nothing do and print the same is what `tests/cli/test_processes.py` is for.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from tests import quick_disk

# What nearly all commands that are started import; one that is killed cannot say so.
RUN = [
    *("ragbench.cli.run", "ragbench.experiment.runner", "ragbench.experiment.stages.graph"),
    *("ragbench.report.page.html", "ragbench.score.judge.chat", "ragbench.retrieve.bm25"),
    *("bm25s", "jinja2.sandbox", "openai", "rich"),
]

# Functions without arguments whose results stay the same: tables of characters, and expressions.
CACHED = {
    "ragbench.text.languages": ("marks", "_token"),
    "ragbench.text.numbers": ("_token",),
    "ragbench.text.refusal_expressions": ("refusal_languages",),
    "ragbench.text.tokenize": ("_unicode_word",),
    "ragbench.score.retrieval.notation": ("_built_in_names",),
}

# What the program `ragbench` is.
PROGRAM = "import sys; from ragbench.cli import main; sys.argv[0] = 'ragbench'; main()"

_PYTHON = """
import os, runpy, sys
sys.executable = {path!r}
_, *words = sys.argv
if words[0] == "-u":
    del words[0]  # what a fork prints waits in no buffer for another one
if words[0] == "-c":
    sys.argv = ["-c", *words[2:]]
    exec(words[1], {{"__name__": "__main__"}})
elif words[0] == "-m":
    sys.argv = words[1:]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
else:
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")
"""

_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"3"], [0, 1, 2])
    server.sendall(json.dumps([{code!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    with server.makefile() as told:
        pid, code = told.readline(), told.readline()
if code.startswith("-"):
    os.kill(os.getpid(), -int(code))
sys.exit(int(code) if code else "the server of processes has ended")
"""


class Process:
    """A process, as `subprocess.Popen` with pipes for its input and output, and errors if asked."""

    def __init__(
        self, server: socket.socket, stdin: IO[Any], stdout: IO[Any], stderr: IO[Any] | None
    ) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._told = server.makefile("rb", buffering=0)
        server.close()
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Return the exit code, where it has ended."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a process", timeout or 0)
            with self._told:
                self.returncode = int(self._told.readline())
        return self.returncode

    def communicate(self) -> tuple[Any, Any]:
        """Close its input, read what it says to the end, and wait for it."""
        with ThreadPoolExecutor(1) as reader:
            wrong = reader.submit(self.stderr.read) if self.stderr else None
            with suppress(BrokenPipeError):
                self.stdin.close()
            output = self.stdout.read(), wrong and wrong.result()
        for stream in (self.stdout, self.stderr):
            if stream:
                stream.close()
        self.wait()
        return output


class Warm:
    """A server of processes, which ends with this object."""

    def __init__(
        self, folder: Path, imports: str = "ragbench.cli", modules: Sequence[str] = RUN
    ) -> None:
        self.folder = folder
        """Folder of the program `ragbench`, to be put before all others of `PATH`."""
        self._address = str(folder / "socket")
        self.write_program(folder / "ragbench", PROGRAM)
        self._server = subprocess.Popen(
            [
                *(sys.executable, "-c", f"import {imports}, tests.warm as w; w.serve()"),
                *(self._address, *modules),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == "listening\n"

    def write_program(self, path: Path, code: str) -> None:
        """Write a program that has the server run code with its arguments."""
        client = _CLIENT.format(python=sys.executable, address=self._address, code=code)
        path.write_text(client, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def write_python(self, path: Path) -> None:
        """Write a program that runs a module (`-m NAME`) or a script as Python would."""
        self.write_program(path, _PYTHON.format(path=str(path)))

    def popen(self, command: list[str], **options: Any) -> Process:
        """Start `[python, ..., "-c", CODE, ARGUMENTS...]`, as `subprocess.Popen` would."""
        index = command.index("-c")
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._address)
        (read, stdin), (stdout, write) = os.pipe(), os.pipe()
        errors, wrong = os.pipe() if options.get("stderr") == subprocess.PIPE else (None, 2)
        socket.send_fds(server, [b"3"], [read, write, wrong])
        where, environment = options.get("cwd") or Path.cwd(), options.get("env") or os.environ
        order = [command[index + 1], command[index + 2 :], str(where), dict(environment)]
        server.sendall(json.dumps(order).encode())
        server.shutdown(socket.SHUT_WR)
        os.close(read)
        os.close(write)
        if errors is not None:
            os.close(wrong)
        kind = "" if options.get("text") else "b"
        error_stream = None if errors is None else os.fdopen(errors, f"r{kind}")
        return Process(
            server, os.fdopen(stdin, f"w{kind}"), os.fdopen(stdout, f"r{kind}"), error_stream
        )

    def start(self, *arguments: object, **options: Any) -> Process:
        """Start `ragbench ARGUMENTS`."""
        return self.popen(["-c", PROGRAM, *map(str, arguments)], **options)

    def run(self, code: str, *arguments: str, **options: Any) -> tuple[int, str]:
        """Run code to its end; exit code and stdout."""
        process = self.popen(["-c", code, *arguments], **options)
        process.stdin.close()
        with process.stdout:
            printed = process.stdout.read().decode()
        return process.wait(), printed

    def close(self) -> None:
        """End the server, which ends when its input does."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(timeout=300)
        self._server.stdout.close()


def serve() -> None:
    """Fork for each connection; learn from each fork that has ended what to import for the next."""
    import gc
    import importlib

    def learn(names: list[str]) -> None:
        for name in names:
            with suppress(ImportError):  # made by its package, not found by its name
                importlib.import_module(name)
        _fill_caches()
        _fill_caches_of_classes()

    learn(sys.argv[2:])
    os.fsync, sqlite3.connect = quick_disk.fsync, quick_disk.connect
    learnt, teach = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        print("listening", flush=True)
        while True:
            gc.freeze()  # else each fork copies what its first collection touches
            ready, _, _ = select.select([listener, learnt, 0], [], [])
            with suppress(ChildProcessError):  # there is none
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if 0 in ready:
                return
            if learnt in ready:
                for file in os.read(learnt, 1 << 16).decode().splitlines():
                    learn(Path(file).read_text(encoding="utf-8").split())
                continue
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _wait_for_one(connection, teach)


def _fill_caches() -> None:
    """Compute what each process computes once from the imported modules, a third of a small run."""
    if page := sys.modules.get("ragbench.report.page.html"):
        page._template("page")
    for name, functions in CACHED.items():
        if module := sys.modules.get(name):
            for function in functions:
                getattr(module, function)()
    if "openai" in sys.modules and (client := sys.modules.get("ragbench.llm.openai")):
        client._ssl_context(*map(os.environ.get, client._TRUST))
    if family := sys.modules.get("ragbench.registry.family"):
        for folder in sys.path:
            family._entry_points(folder)
    if files := sys.modules.get("ragbench.experiment.files"):
        for package in files._PACKAGES:
            files._version(package)
    if used_files := sys.modules.get("ragbench.experiment.used_files"):
        used_files._MODULES.real_paths()


def _fill_caches_of_classes() -> None:
    """Compute the fields and options of all imported classes."""
    if codec := sys.modules.get("ragbench.records.codec"):
        for record in _with_subclasses(codec.Record):
            codec._cleaners(record)
            codec._holds_flat_records(record)
            codec._decoder(record)
    if options := sys.modules.get("ragbench.registry.options"):
        for option_set in _with_subclasses(options.OptionSet):
            options.declared_options(option_set)


def _with_subclasses(kind: type) -> list[type]:
    """Return a class and its imported subclasses, at any depth."""
    kinds = [kind]
    for subclass in kind.__subclasses__():
        kinds += _with_subclasses(subclass)
    return kinds


def _wait_for_one(connection: socket.socket, teach: int) -> NoReturn:
    """Start a process, and tell who asked for it how it ended."""
    _, (*streams,), _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as request:
        order = json.load(request)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _run(*order, streams, teach)
    for stream in (0, 1, *streams):
        os.close(stream)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(
    code: str,
    words: list[str],
    folder: str,
    environment: dict[str, str],
    streams: list[int],
    teach: int,
) -> NoReturn:
    """Become the process that was asked for."""
    import tempfile
    import traceback
    import warnings

    modules, address = {*sys.modules}, sys.argv[1]
    os.setsid()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    os.closerange(3, teach)
    for number in (signal.SIGTERM, signal.SIGHUP):  # `nohup` and `&` had the server ignore them
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["-c", *words]
    tempfile.tempdir = None  # it is asked for again
    if filters := environment.get("PYTHONWARNINGS"):
        warnings._processoptions(filters.split(","))
    # those of the server were made for other files
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", buffering=1, encoding="utf-8", closefd=False, errors="backslashreplace"
    )
    status: object = 0
    try:
        exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
    except SystemExit as left:
        status = left.code
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        status = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        _teach(sys.modules.keys() - modules, address, teach)
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def _teach(names: set[str], address: str, teach: int) -> None:
    """Report the imported modules of packages, without modules of tests."""
    import ragbench

    packages = tuple({sys.prefix, sys.base_prefix, str(Path(ragbench.__file__).parent)})
    files = {name: getattr(sys.modules[name], "__file__", None) or "" for name in names}
    foreign = [name for name, file in files.items() if file.startswith(packages)]
    if foreign:
        lesson = f"{address}.{os.getpid()}"
        Path(lesson).write_text(" ".join(foreign), encoding="utf-8")
        os.write(teach, f"{lesson}\n".encode())  # a short line is written at once
