"""The pytest plug-in: gates of `*.ragbench.yaml` as tests, a fixture, two assertions.

    pytest search.ragbench.yaml

collects one test per gate. Nothing but pytest is imported until one of these is used, since every
test session of an environment loads this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ragbench.experiment.pytest_runs import SharedRuns
    from ragbench.records.gate import Decision

_SUFFIXES = (".ragbench.yaml", ".ragbench.yml")
_SHARED = "ragbench_shared_folder"
_runs: pytest.StashKey[SharedRuns] = pytest.StashKey()
_folder: pytest.StashKey[str] = pytest.StashKey()
# The options of the session, for the assertions, which no fixture reaches.
_options: dict[str, Any] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("ragbench", "retrieval and answers")
    group.addoption(
        "--ragbench-baseline",
        metavar="FILE",
        help="baseline file instead of those that gates and assert_not_worse name",
    )
    group.addoption(
        "--ragbench-update",
        action="store_true",
        help="write the baseline files instead of comparing with them",
    )
    group.addoption(
        "--ragbench-strict", action="store_true", help="what the data cannot decide fails"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep the options where the assertions find them."""
    for name in ("baseline", "update", "strict"):
        _options[name] = config.getoption(f"ragbench_{name}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name a folder, in which the workers of xdist tell each other what has been run."""
    import tempfile

    if _folder not in node.config.stash:
        node.config.stash[_folder] = tempfile.mkdtemp(prefix="ragbench-")
    node.workerinput[_SHARED] = node.config.stash[_folder]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the shared folder."""
    _options.clear()
    if _folder in config.stash:
        import shutil

        shutil.rmtree(config.stash[_folder], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the gates that are undecided, which pytest counts among what is skipped."""
    undecided = [
        report
        for report in terminalreporter.stats.get("skipped", ())
        if any(f"{suffix}::" in report.nodeid for suffix in _SUFFIXES)
    ]
    if undecided:
        from ragbench.errors import visible

        terminalreporter.section("ragbench: undecided gates, neither passed nor failed")
        for report in undecided:
            terminalreporter.line(report.nodeid)
            terminalreporter.line(visible(str(report.longrepr[2])))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect experiments whose name says that they are tests."""
    if not file_path.name.endswith(_SUFFIXES):
        return None
    found: pytest.Collector = ExperimentFile.from_parent(parent, path=file_path)
    return found


@pytest.fixture(scope="session")
def ragbench_run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that runs an experiment, each once a session, also with xdist.

    It takes a YAML file and `overrides`, or what else `ragbench.run_experiment` takes, which is
    run each time that it is asked for.
    """

    def run(source: Any, overrides: Mapping[str, Any] | None = None, **live: Any) -> Any:
        from ragbench.experiment.runner import run_experiment

        if live or isinstance(source, Mapping):
            return run_experiment(source, overrides, **live)
        return _shared_runs(request.config).run(source, overrides)

    return run


def assert_retrieval(
    run: Any, qrels: Any, at_least: Mapping[str, float], *, decide: str = "mean"
) -> None:
    """Assert that the measures of a run reach their limits.

    Args:
        run: Query id -> document id -> score, or what else `ragbench.evaluate_run` takes.
        qrels: Query id -> document id -> grade, likewise.
        at_least: Measure -> the smallest value that passes.
        decide: `mean`, or `interval` for the lower end of its 95 % interval.

    Raises:
        AssertionError: One does not; names each that failed.

    Example:
        >>> qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
        >>> run = {"q1": {"d1": 2.0}, "q2": {"d7": 2.0, "d2": 1.0}}
        >>> assert_retrieval(run, qrels, {"mrr@10": 0.75, "recall@10": 1.0})
    """
    from ragbench.comparison.evaluate import evaluate_run

    __tracebackhide__ = True
    by = {"decide": decide} if decide != "mean" else {}  # the default, which the text leaves out
    gates = [{"measure": name, "min": least, **by} for name, least in at_least.items()]
    _judge(_decide(evaluate_run(run, qrels, list(at_least)), gates))


def assert_not_worse(
    now: Any, baseline: Any = None, *, measures: Mapping[str, float], system: str | None = None
) -> None:
    """Assert that no measure dropped by more than its margin, by the rule of gates.

    What the data cannot decide is a warning, or fails with `--ragbench-strict`. With
    `--ragbench-update` the baseline file is written, and nothing compared.

    Args:
        now: An experiment, a run folder, or what `ragbench.evaluate_run` returns.
        baseline: The same, or a baseline file; `--ragbench-baseline` takes the place of a file.
        measures: Measure -> the largest drop of its mean that passes.
        system: The only system that is compared; default: all that both have.

    Raises:
        AssertionError: One did; shows intervals and the queries that lost most.
        DataError: They may not be compared.
    """
    from ragbench.errors import DataError, OptionError

    __tracebackhide__ = True
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
    decisions = _decide(now, gates, baseline)
    wrong = [decision for decision in decisions if decision.refused or decision.facts.n is None]
    if any(decision.refused for decision in wrong) or len(wrong) == len(decisions):
        raise DataError("; ".join(dict.fromkeys(decision.why for decision in wrong)))
    _judge(decisions)


def _decide(run: Any, gates: list[dict[str, Any]], baseline: Any = None) -> list[Decision]:
    from ragbench.experiment.gates import check_gates
    from ragbench.records.codec import from_json
    from ragbench.records.gate import Decision

    return [from_json(Decision, entry) for entry in check_gates(run, gates, baseline)]


def _judge(decisions: Sequence[Decision]) -> None:
    """Raise what failed, warn of what is undecided."""
    from ragbench.errors import visible
    from ragbench.report.ci import worst_lines

    __tracebackhide__ = True
    fatal = ("fail", "undecided") if _options.get("strict") else ("fail",)
    failed, undecided = [], []
    for decision in decisions:
        head = f"{decision.gate} ({decision.system}): {decision.verdict}: {decision.why}"
        # pytest prints the text of an assertion as it is
        text = visible("\n".join([head, *worst_lines(decision.worst_queries)]))
        if decision.verdict in fatal:
            failed.append(text)
        elif decision.verdict == "undecided":
            undecided.append(text)
    if failed:
        raise AssertionError("\n".join(failed))
    for text in undecided:
        warnings.warn(pytest.PytestWarning(text), stacklevel=3)


def _shared_runs(config: pytest.Config) -> SharedRuns:
    from pathlib import Path

    from ragbench.experiment.pytest_runs import SharedRuns

    if _runs not in config.stash:
        shared = getattr(config, "workerinput", {}).get(_SHARED)
        config.stash[_runs] = SharedRuns(Path(shared) if shared else None)
    return config.stash[_runs]


class GateFailed(Exception):
    """A gate that did not pass; its text is all that there is to say."""


class ExperimentFile(pytest.File):
    """A YAML file with gates."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item per gate; with `--ragbench-update` also one per baseline file."""
        from ragbench.errors import RagbenchError
        from ragbench.experiment.pytest_runs import collect_gates

        option = self.config.getoption
        try:
            found = collect_gates(
                self.path, option("ragbench_baseline"), update=option("ragbench_update")
            )
        except RagbenchError as error:
            raise self.CollectError(str(error)) from error
        if found.idle:
            self.warn(pytest.PytestCollectionWarning(found.idle))
        for file, costs in found.baselines.items():
            yield BaselineItem.from_parent(
                self, name=f"write {file.name}", file=file, costs=costs, found=found
            )
        for gate in found.gates:
            yield GateItem.from_parent(self, name=gate[0], gate=gate, found=found)


class _Item(pytest.Item):
    """A test whose failures are sentences, not tracebacks."""

    def __init__(self, *, found: Any, **named: Any) -> None:
        super().__init__(**named)
        self.found = found

    def experiment(self) -> Any:
        """Return the experiment of the file, with its tables in the report of the test."""
        from ragbench.report.terminal import render_terminal

        experiment = _shared_runs(self.config).run(self.path, self.found.overrides)
        tables = render_terminal(experiment.record, experiment.compared)
        self.add_report_section("call", "ragbench", tables)
        return experiment

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message of an error that a user can act on."""
        from ragbench.errors import RagbenchError, visible

        if isinstance(excinfo.value, (GateFailed, RagbenchError)):
            return visible(str(excinfo.value))
        return super().repr_failure(excinfo)


class GateItem(_Item):
    """A gate as a test."""

    def __init__(self, *, gate: tuple[str, int | None], **named: Any) -> None:
        super().__init__(**named)
        self.gate = gate

    def runtest(self) -> None:
        """Fail or skip as the verdict says."""
        from ragbench.experiment.pytest_runs import outcome_of

        verdict, why, facts = outcome_of(self.experiment(), self.gate)
        self.user_properties.extend(facts)
        if verdict == "fail" or (verdict == "undecided" and _options.get("strict")):
            raise GateFailed(why)
        if verdict == "undecided":
            raise pytest.skip.Exception(why, _use_item_location=True)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return file and line of the gate."""
        # not the name alone, whose points pytest would show as colons
        return self.path, (self.gate[1] or 1) - 1, f"gate {self.name}"


class BaselineItem(_Item):
    """Writes a baseline file."""

    def __init__(self, *, file: Path, costs: bool, **named: Any) -> None:
        super().__init__(**named)
        self.file, self.costs = file, costs

    def runtest(self) -> None:
        """Run the experiment and keep its scores."""
        from ragbench.experiment.pytest_runs import keep_baseline

        keep_baseline(self.experiment(), str(self.file), costs=self.costs)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file."""
        return self.path, None, f"baseline: {self.name}"
