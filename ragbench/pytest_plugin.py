"""Plug-in for pytest: gates of `*.ragbench.yaml` as tests, a fixture, two assertions.

    pytest search.ragbench.yaml

collects one test per gate and system. The module imports pytest alone until a gate, the fixture or
an assertion is used, since every test session of an environment loads the plug-in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pytest

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from pathlib import Path

    from ragbench.experiment.pytest_runs import SharedRuns
    from ragbench.gates.base import Gate

_SUFFIXES = (".ragbench.yaml", ".ragbench.yml")
_SHARED = "ragbench_shared_folder"
_PAGE = "page"  # property of a gate's test: the page of its run
_runs: pytest.StashKey[SharedRuns] = pytest.StashKey()
_folder: pytest.StashKey[str] = pytest.StashKey()
# Options of the session, for the assertions: they are plain functions without fixtures.
_options: dict[str, Any] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--ragbench-baseline`, `--ragbench-update` and `--ragbench-strict`."""
    group = parser.getgroup("ragbench", "retrieval and answers")
    group.addoption(
        "--ragbench-baseline",
        metavar="FILE",
        help="baseline file that replaces the files of gates and assert_not_worse",
    )
    group.addoption(
        "--ragbench-update",
        action="store_true",
        help="write the baseline files instead of comparing with them",
    )
    group.addoption("--ragbench-strict", action="store_true", help="fail undecided gates")


def pytest_configure(config: pytest.Config) -> None:
    """Store the options for the assertions."""
    for name in ("baseline", "update", "strict"):
        _options[name] = config.getoption(f"ragbench_{name}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name a common folder for the workers of xdist, so that they share finished runs."""
    import tempfile

    if _folder not in node.config.stash:
        node.config.stash[_folder] = tempfile.mkdtemp(prefix="ragbench-")
    node.workerinput[_SHARED] = node.config.stash[_folder]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the options and the shared folder, if there is one."""
    _options.clear()
    if _folder in config.stash:
        import shutil

        shutil.rmtree(config.stash[_folder], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Return the report of a test; its short summary has the first line of our messages."""
    report = yield
    crash = getattr(report.longrepr, "reprcrash", None)
    if call.excinfo is None or crash is None or not call.excinfo.traceback:
        return report
    if call.excinfo.traceback[-1].frame.f_globals.get("__name__") == __name__:
        crash.message = str(call.excinfo.value).partition("\n")[0]
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the undecided gates, which pytest counts as skipped tests, and pages of the runs.

    A page is that of a gate that did not pass.
    """
    undecided, pages = [], dict[str, None]()
    for outcome in ("failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            if not report.nodeid.partition("::")[0].endswith(_SUFFIXES):
                continue
            if report.skipped:
                undecided.append(report)
            # the page is the first property; a later one of this name is of a system
            for name, value in report.user_properties[:1]:
                if name == _PAGE:
                    pages[value] = None
    if undecided:
        terminalreporter.section("ragbench: undecided gates, neither passed nor failed")
    for report in undecided:
        terminalreporter.line(report.nodeid)
        terminalreporter.line(f"  {report.longrepr[2].removeprefix('Skipped: ')}")
    for page in pages:
        terminalreporter.line(f"ragbench page: {page}")


def _raise_at_caller(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function of tests, so that a traceback of its errors ends in the test."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        from ragbench.errors import RagbenchError

        __tracebackhide__ = True
        try:
            return function(*args, **options)
        except (RagbenchError, AssertionError) as error:
            raise error.with_traceback(None) from None

    return call


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for `*.ragbench.yaml` and `*.ragbench.yml` files; None for other files."""
    if not file_path.name.endswith(_SUFFIXES):
        return None
    collector: pytest.Collector = ExperimentFile.from_parent(parent, path=file_path)
    return collector


@pytest.fixture(scope="session")
def ragbench_run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that runs an experiment once per session, also with xdist.

    The function takes a YAML file and `overrides`. It also takes a config as a mapping, and the
    other arguments of `ragbench.run_experiment`; such an experiment runs at each call. It returns
    an `Experiment`, and raises as `run_experiment` does.
    """

    @_raise_at_caller
    def run(source: Any, overrides: Mapping[str, Any] | None = None, **live: Any) -> Any:
        from ragbench.experiment.runner import run_experiment

        if live or isinstance(source, Mapping):
            return run_experiment(source, overrides, progress=False, **live)
        return _shared_runs(request.config).run(source, overrides)

    return run


@_raise_at_caller
def assert_retrieval(
    run: Any, qrels: Any, at_least: Mapping[str, float], *, decide: str = "mean"
) -> None:
    """Assert that the measures of a run reach their limits; without measures nothing fails.

    An undecided measure, such as one without values, is a warning, or fails with
    `--ragbench-strict`. It has no warning if its mean reaches the limit.

    Args:
        run: Query id -> document id -> score, or another run of `ragbench.evaluate_run`.
        qrels: Query id -> document id -> grade, likewise.
        at_least: Measure -> the smallest value that passes.
        decide: `mean`, or `interval` for the lower end of its 95 % interval.

    Raises:
        AssertionError: A measure is below its limit; the message has each of these measures with
            its interval and worst queries.
        DataError: The run or the qrels have a wrong form.
        OptionError: A measure is unknown.
        ConfigError: A limit or `decide` is not allowed.
        AdapterError: A measure of the user fails.

    Example:
        >>> qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
        >>> run = {"q1": {"d1": 2.0}, "q2": {"d7": 2.0, "d2": 1.0}}
        >>> assert_retrieval(run, qrels, {"mrr@10": 0.75, "recall@10": 1.0})
    """
    from ragbench.comparison.evaluate import evaluate_run

    by = {"decide": decide} if decide != "mean" else {}  # messages leave out the default
    gates = [{"measure": name, "min": least, **by} for name, least in at_least.items()]
    _judge(evaluate_run(run, qrels, list(at_least)), gates)


@_raise_at_caller
def assert_not_worse(
    now: Any, baseline: Any = None, *, measures: Mapping[str, float], system: str | None = None
) -> None:
    """Assert that no measure dropped by more than its margin, by the rule of gates.

    An undecided measure is a warning if its mean is worse, or fails with `--ragbench-strict`. With
    `--ragbench-update` and a baseline file, the function writes the file and compares nothing.
    Without measures nothing fails.

    Args:
        now: An experiment, a run folder, or a result of `ragbench.evaluate_run`.
        baseline: Any of these, or a baseline file (`*.json`); `--ragbench-baseline` replaces a file
            or None.
        measures: Measure -> the largest drop of its mean that passes.
        system: The system to compare; None compares all systems of both sides.

    Raises:
        AssertionError: A measure dropped; the message has both means, the interval of their
            difference, and the queries that lost most.
        DataError: A comparison is refused, no measure can be compared, or a source cannot be read.
        OptionError: There is no baseline.
        ConfigError: A measure or the system is unknown, or a margin is not allowed.
    """
    from ragbench.errors import OptionError

    is_file = baseline is None or str(baseline).endswith(".json")
    if is_file and _options.get("baseline"):
        baseline = _options["baseline"]
    if baseline is None:
        allowed = "a baseline, or pytest --ragbench-baseline FILE"
        raise OptionError("assert_not_worse", "baseline", None, allowed)
    if is_file and _options.get("update"):
        from ragbench.experiment.pytest_runs import keep_baseline

        keep_baseline(now, baseline)
        return
    only = {} if system is None else {"system": system}
    gates = [{"measure": name, "max_drop": most, **only} for name, most in measures.items()]
    _judge(now, gates, baseline)


def _judge(run: Any, gates: list[dict[str, Any]], baseline: Any = None) -> None:
    """Raise an AssertionError for failed gates, also undecided if strict; else warn of these."""
    from ragbench.experiment.pytest_runs import decide_assertion

    strict = bool(_options.get("strict"))
    failed, undecided = decide_assertion(run, gates, baseline, strict=strict)
    if failed:
        raise AssertionError("\n".join(failed))
    for text in undecided:
        # at the line of the test, three calls above
        warnings.warn(pytest.PytestWarning(text), stacklevel=4)


def _shared_runs(config: pytest.Config) -> SharedRuns:
    """Return the runs of the session, shared with other workers of xdist; created once."""
    from pathlib import Path

    from ragbench.experiment.pytest_runs import SharedRuns

    if _runs not in config.stash:
        shared = getattr(config, "workerinput", {}).get(_SHARED)
        config.stash[_runs] = SharedRuns(Path(shared) if shared else None)
    return config.stash[_runs]


class GateFailed(Exception):
    """Error of a gate that did not pass; pytest prints its message without a traceback."""


class ExperimentFile(pytest.File):
    """YAML file with gates, collected as a test per gate and system.

    `pytest_collect_file` makes it. `collect` yields the tests, and raises CollectError for a config
    with mistakes.
    """

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item per gate and system; with `--ragbench-update` one per baseline file first.

        Raises:
            CollectError: The config has mistakes.
        """
        from ragbench.errors import RagbenchError
        from ragbench.experiment.pytest_runs import collect_gates

        option = self.config.getoption
        try:
            gates_of_file = collect_gates(
                self.path, option("ragbench_baseline"), update=option("ragbench_update")
            )
        except RagbenchError as error:
            raise self.CollectError(str(error)) from error
        if gates_of_file.idle:
            self.warn(pytest.PytestCollectionWarning(gates_of_file.idle))
        for file in gates_of_file.baselines:
            yield BaselineItem.from_parent(
                self, name=f"write {file.name}", file=file, gates=gates_of_file
            )
        for gate, system in gates_of_file.tests:
            name = f"{gate.text}[{system}]" if system else gate.text  # like a parameter of pytest
            yield GateItem.from_parent(
                self, name=name, gate=gate, system=system, gates=gates_of_file
            )


class _Item(pytest.Item):
    """Test whose failures are messages without a traceback; `gates` has the gates of its file."""

    def __init__(self, *, gates: Any, **options: Any) -> None:
        super().__init__(**options)
        self.gates = gates

    def experiment(self) -> Any:
        """Return the experiment of the file, run once per session; add its page to the report."""
        experiment = _shared_runs(self.config).run(self.path, self.gates.overrides)
        # one path for all workers of xdist, of which the first has a relative one
        page = experiment.path.resolve() / "report.html"
        self.user_properties.append((_PAGE, str(page)))
        return experiment

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message of a failed gate or a user's mistake, else the usual traceback."""
        from ragbench.errors import RagbenchError, visible

        if not isinstance(excinfo.value, (GateFailed, RagbenchError)):
            return super().repr_failure(excinfo)
        error = GateFailed(visible(str(excinfo.value))).with_traceback(excinfo.tb)
        message = pytest.ExceptionInfo.from_exception(error).getrepr(style="value")
        if message.reprcrash is not None:  # where other tests have the line of their assertion
            path, line, _ = self.reportinfo()
            message.reprcrash.path, message.reprcrash.lineno = str(path), (line or 0) + 1
            message.reprcrash.message = str(error).partition("\n")[0]
        return message


class GateItem(_Item):
    """Gate on a system as a test, which runs the experiment of its file.

    `runtest` raises GateFailed for a failed gate, and skips an undecided one, or fails it with
    `--ragbench-strict`. `options` are those of `_Item`: `gates`, and `name` and `parent` of pytest.

    Attributes:
        gate: The gate.
        system: Name of the system; None for all decisions on the gate.
    """

    def __init__(self, *, gate: Gate, system: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.gate, self.system = gate, system

    def runtest(self) -> None:
        """Run the experiment; fail for a failed gate, skip for an undecided one.

        Raises:
            GateFailed: The gate failed, or is undecided with `--ragbench-strict`.
            RagbenchError: The run failed.
        """
        from ragbench.experiment.pytest_runs import outcome_of

        strict = bool(_options.get("strict"))
        experiment = self.experiment()
        verdict, why, facts = outcome_of(experiment, self.gate, self.system, strict=strict)
        self.user_properties.extend(facts)
        if verdict == "fail":
            raise GateFailed(why)
        if verdict == "undecided":
            raise pytest.skip.Exception(why, _use_item_location=True)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return file, line from 0 (0 if it is unknown) and title: `gate` and the test's name."""
        # pytest shows the points of a bare name as colons, hence the word before it
        return self.path, (self.gate.place.line or 1) - 1, f"gate {self.name}"


class BaselineItem(_Item):
    """Test that runs the experiment of the file and writes its scores as a baseline file.

    Collected with `--ragbench-update` only, one test per baseline file that a gate names. It
    replaces an existing file, also after an incomplete run, but not if nothing was scored, and
    fails with the message of a `RagbenchError`. `options` are those of `_Item`: `gates`, and `name`
    and `parent` of pytest.
    """

    def __init__(self, *, file: Path, **options: Any) -> None:
        super().__init__(**options)
        self.file = file

    def runtest(self) -> None:
        """Run the experiment and write its scores to the baseline file.

        It raises a RagbenchError if the run failed, nothing was scored, or the file cannot be
        written.
        """
        from ragbench.experiment.pytest_runs import keep_baseline

        keep_baseline(self.experiment(), str(self.file))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return file, None for the line, and title: `baseline:` and the test's name."""
        return self.path, None, f"baseline: {self.name}"
