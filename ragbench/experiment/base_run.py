"""Base of `ragbench gate`: a run folder, a baseline file, or a run of an older commit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from msgspec import structs

from ragbench.comparison.sources import read_scored
from ragbench.config.load import load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import (
    EXIT_INCOMPLETE,
    EXIT_MEANINGS,
    EXIT_OK,
    EXIT_UNDECIDED,
    DataError,
    RagbenchError,
)
from ragbench.experiment.gate_noise import changes_code
from ragbench.experiment.plan.components import build, calls_code
from ragbench.experiment.plan.plan import check_single
from ragbench.experiment.reproduce import texts_of
from ragbench.experiment.used_files import UsedFiles
from ragbench.experiment.watched_files import watch_files
from ragbench.files import cache_folder, write_file
from ragbench.records.manifest import Choices
from ragbench.registry import PYTHON, nearest

_SHORT = 8  # digits of a commit
_MAIN_BRANCHES = ("main", "master")
_FIRST_LOOK = Choices()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBase:
    """Base of a comparison; `open_base` yields it.

    Attributes:
        scored: Scores of its systems.
        places: Folder of the head -> folder of the base with the same files; empty if the base is
            no Git reference.
        changed: Files of the difference between base and head; None if it is not known.
        used: Files that the run of the base imported or opened, and folders that it listed, which
            end with `/`.
        hidden: Reason why it may have used others; empty without one.
        again: Runs the base once more on the questions of a further look, with a budget in USD or
            None; None if the base cannot be run.
    """

    scored: ScoredSystems
    places: Mapping[Path, Path] = field(default_factory=dict)
    changed: frozenset[str] | None = None
    used: frozenset[str] = frozenset()
    hidden: str = ""
    again: Callable[[Choices, float | None], ScoredSystems] | None = None

    def with_used(self, files: UsedFiles) -> GateBase:
        """Return the base with further files that a run used."""
        used = set(self.used).union(*map(files.names_below, self.places))
        return replace(self, used=frozenset(used), hidden=self.hidden or files.hidden)


def load_for_gate(
    path: Path,
    overrides: Sequence[str],
    output: Path | None = None,
    *,
    require_judge: bool = False,
) -> ExperimentConfig:
    """Return a config whose judges run only if their keys and packages are available.

    Args:
        path: YAML file.
        overrides: `key=value` texts of `--set`.
        output: Folder in place of `output` of the config; None keeps that.
        require_judge: True makes a missing key or package of a judge an error of the run.

    Raises:
        ConfigError: The config is wrong; all its problems at once.
        DataError: The config has several data sets.
    """
    config = load_config(path, overrides=overrides)
    check_single(config)
    judges = config.metrics.judges or {}
    when: Literal["always", "available"] = "always" if require_judge else "available"
    judges = {name: replace(judge, when=when) for name, judge in judges.items()}
    metrics = replace(config.metrics, judges=judges or None)
    return replace(config, metrics=metrics, output=str(output or config.output))


def without_keyless_generators(
    config: ExperimentConfig,
) -> tuple[ExperimentConfig, dict[str, str]]:
    """Return a config without the generators whose key is missing, and the reason of each.

    So a pull request from a fork, which has no secrets, keeps its retrieval gates. A config
    without other retrievers or apps keeps its generators: the run names the missing key.
    """
    skipped = {}
    for name, component in config.generators.items():
        is_built_in = not component.type.startswith(PYTHON) and not calls_code(component)
        generator = build("generator", name, component, None) if is_built_in else None
        if generator is not None and generator.missing_key is not None:
            skipped[name] = f"{generator.missing_key} is not set"
    if not skipped or not (config.retrievers or config.apps):
        return config, {}
    generators = {}
    for name, component in config.generators.items():
        if name not in skipped:
            generators[name] = component
    controls = config.controls if generators else ()
    return replace(config, generators=generators, controls=controls), skipped


@contextmanager
def open_base(
    reference: str, path: Path, config: ExperimentConfig, options: Sequence[str]
) -> Iterator[GateBase | None]:
    """Yield the base of a comparison; its files exist during the block only.

    The result is None if the commit of a Git reference has no such config: there is no base yet.

    Args:
        reference: Run folder or baseline file if there is such a path, else a Git reference. The
            config of its merge base with the current commit is run, in a process and a working tree
            of its own, which is removed at the end of the block in any case.
        path: YAML file of the experiment.
        config: Config of the head, which names the cache and the data outside of Git.
        options: Options of the command line for the run of the base.

    Raises:
        DataError: The source cannot be read, Git does not know the reference, or the base cannot be
            run.
    """
    if os.path.exists(reference):
        yield GateBase(scored=read_scored(reference))
        return
    absent = f"no such file: {reference}"
    root = Path(_git(path.absolute().parent, "rev-parse", "--show-toplevel", record=absent))
    _check_reference(root, reference)
    commit = _git(root, "merge-base", "--end-of-options", reference, "HEAD")
    name = f"{reference}@{commit[:_SHORT]}"
    with tempfile.TemporaryDirectory(prefix="ragbench-") as folder:
        temporary = Path(folder).resolve()
        tree = _mirrored(root, temporary)
        try:
            _git(root, "worktree", "add", "--detach", str(tree), commit)
            if not (tree / path.parent.resolve().relative_to(root) / path.name).exists():
                yield None
                return
            _link_untracked(root, tree, path, config)
            tree_of_base = BaseTree(root, temporary, path, name, options, config)
            folder_of_run, used = tree_of_base.run()

            def again(choices: Choices, usd: float | None) -> ScoredSystems:
                """Return the scores of a further run of the base on some questions."""
                return read_scored(tree_of_base.run(choices, usd)[0], name=name)

            yield GateBase(
                scored=read_scored(folder_of_run, name=name),
                places={root: tree},
                changed=_changed_files(root, tree, commit),
                used=frozenset(used.files),
                hidden=used.hidden,
                again=again,
            )
        finally:
            _git(root, "worktree", "remove", "--force", str(tree), check=False)


def read_look(path: Path | None, choices: Choices) -> Choices:
    """Return choices with the questions and the number of a look that `BaseTree.run` wrote."""
    if path is None:
        return choices
    number, *queries = path.read_text(encoding="utf-8").split("\n")
    return structs.replace(choices, queries=tuple(queries), look=int(number))


@contextmanager
def _paths_in_repository() -> Iterator[None]:
    """Name files in the errors of the block by their paths in the repository."""
    try:
        yield
    except RagbenchError as error:
        root = _git(Path.cwd(), "rev-parse", "--show-toplevel")

        def clean(text: str) -> str:
            return text.replace(f"{root}/", "")

        error.problems = tuple(problem.cleaned(clean) for problem in error.problems)
        error.args = tuple(clean(text) if isinstance(text, str) else text for text in error.args)
        raise


@contextmanager
def stored_errors(output: Path) -> Iterator[None]:
    """Write a RagbenchError of the block beside the output of the base, and raise it again.

    The process of the head repeats its message, a line for each problem, in comments and JUnit.
    """
    try:
        with _paths_in_repository():
            yield
    except RagbenchError as error:
        write_file(_error_file(output), "\n".join(error_lines(error)))
        raise


def error_lines(error: RagbenchError) -> list[str]:
    """Return a line for each problem of an error, without its source; else its message."""
    problems = []
    for problem in error.problems:
        problems.append(str(replace(problem, source=None)))
    lines = []
    for text in problems or [Exception.__str__(error)]:
        lines.append(" ".join(text.split()))
    return lines


def _error_file(output: Path) -> Path:
    """Return the file with the errors of a run of the base, beside its output folder."""
    return output.with_name(f"{output.name}.errors")


def _mirrored(path: Path, temporary: Path) -> Path:
    """Return the place of a path below a temporary folder, with all of its parents."""
    # A relative path from an output to the tree is then the same as in the run of the head.
    whole = Path(os.path.abspath(path))
    return temporary / whole.relative_to(whole.anchor)


def _git(folder: Path, *arguments: str, check: bool = True, record: str = "") -> str:
    """Return the output of a Git command in a folder, without white space around it."""
    # No hook of the user is called.
    # In a checkout of another user Git refuses, and names the setting that allows it: a checkout
    # can run filters, which that user chose.
    command = ["git", "-c", f"core.hooksPath={os.devnull}", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, encoding="utf-8", errors="surrogateescape"
        )
    except OSError as error:
        raise DataError(f"git cannot be called: {error.strerror}", file=folder) from error
    if check and done.returncode:
        reason = " ".join(done.stderr.split()) or "no common commit: fetch the whole history"
        allowed = "a run folder, a baseline file, or a Git reference"
        problem = f"git {arguments[0]}: {reason}"
        raise DataError(problem, file=folder, record=record, allowed=allowed)
    return done.stdout.strip()


def _check_reference(root: Path, reference: str) -> None:
    """Raise a DataError for a reference that Git does not know, with a command or a branch."""
    commit = f"{reference}^{{commit}}"
    if _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", commit, check=False):
        return
    remotes = _git(root, "remote").split()
    remote, _, branch = reference.partition("/")
    allowed = "a run folder, a baseline file, or a Git reference"
    if branch and remote in remotes:
        allowed = f"git fetch {remote} {branch}, or a branch of this clone"
    else:
        branches = _git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        name = branch if branch in branches else nearest(reference, branches)
        if name is None:
            name = next((main for main in _MAIN_BRANCHES if main in branches), None)
        if name is not None:
            allowed = f"{allowed}, such as {name}"
    problem = f"no file and no Git reference '{reference}'"
    raise DataError(problem, file=root, allowed=allowed)


def _link_untracked(root: Path, tree: Path, path: Path, config: ExperimentConfig) -> None:
    """Link files that the config names and that Git does not track into the tree of the base."""
    # Such files, as a large corpus, have no older version: base and head read the same.
    folder = config.base.absolute()
    paths = []
    for _, text in texts_of(config.resolved):
        place = folder / text
        if text and place.is_relative_to(root) and os.path.exists(place):
            paths.append(str(place))
    if not paths:
        return
    untracked = _git(root, "ls-files", "--others", "--directory", "-z", "--", *paths)
    for name in filter(None, untracked.split("\0")):
        link = tree / name.rstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(link):
            link.symlink_to(root / name)


def _changed_files(root: Path, tree: Path, commit: str) -> frozenset[str]:
    """Return the files that differ between a commit and the checkout, new ones included."""
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", commit)
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    files = filter(None, f"{tracked}\0{new}".split("\0"))
    changed = []
    for file in files:
        if changes_code(tree / file, root / file):
            changed.append(file)
    return frozenset(changed)


@dataclass(frozen=True, slots=True)
class BaseFiles:
    """Files that a run of the base used, as its process reports them.

    Attributes:
        files: Paths relative to the repository, as `UsedFiles.names_below` returns them.
        hidden: Reason why it may have used others; empty without one.
    """

    files: tuple[str, ...] = ()
    hidden: str = ""

    @classmethod
    def read(cls, path: Path) -> BaseFiles:
        """Return the record of a file that `stored_files` wrote."""
        hidden, *files = path.read_text(encoding="utf-8", errors="surrogateescape").split("\0")
        return cls(tuple(files), hidden)


@contextmanager
def stored_files(output: Path) -> Iterator[None]:
    """Write the files that the run of the base uses during the block beside its output."""
    root = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel"))
    with watch_files() as used:
        yield
    text = "\0".join([used.hidden, *sorted(used.names_below(root))])
    write_file(_files_file(output), text.encode("utf-8", "surrogateescape"))


def _files_file(output: Path) -> Path:
    """Return the file with the files that a run of the base used, beside its output folder."""
    return output.with_name(f"{output.name}.files")


@dataclass(frozen=True, slots=True)
class BaseTree:
    """Working tree of the base, in which its config is run.

    Attributes:
        root: Root of the repository.
        temporary: Folder with the tree.
        path: YAML file of the experiment.
        name: Name of the base in messages.
        options: Options of the command line for the run.
        config: Config of the head.
    """

    root: Path
    temporary: Path
    path: Path
    name: str
    options: Sequence[str]
    config: ExperimentConfig

    def run(
        self, choices: Choices = _FIRST_LOOK, usd: float | None = None
    ) -> tuple[Path, BaseFiles]:
        """Run the config of the base in another process; return its run folder and used files.

        Args:
            choices: Questions to ask and number of the look; the default asks all.
            usd: Largest cost in US dollars; None sets no limit.

        Raises:
            DataError: The base cannot be run.
        """
        # The cache is that of the head. Modules are imported from the tree, also those of a package
        # that is installed from the checkout.
        folder = self._in_tree(Path.cwd())
        folder.mkdir(parents=True, exist_ok=True)
        modules = []
        for place in sys.path:
            in_tree = self._in_tree(place)
            if place and "-packages" not in place and in_tree != Path(place).resolve():
                modules.append(str(in_tree))
        inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        environment = {
            **os.environ,
            "RAGBENCH_CACHE": str(cache_folder(self.config.cache).absolute()),
            "PYTHONPATH": os.pathsep.join([*modules, *inherited]),
        }
        # a config at the same relative place, so that both runs record the same paths
        relative = os.path.relpath(self._in_tree(self.path), folder)
        output = self._output(f"-{choices.look}" if choices.look else "")
        command = [sys.executable, "-m", "ragbench", "gate", relative, "--base", self.name]
        command += [*self.options, "--as-base", str(output)]
        if choices.look:
            look = output.with_name(f"{output.name}.look")
            write_file(look, "\n".join([str(choices.look), *choices.queries]))
            command += ["--queries", str(look)]
        if usd is not None:
            command.append(f"--set=budget.usd={usd}")
        code = subprocess.run(command, cwd=folder, env=environment).returncode
        if code not in (EXIT_OK, EXIT_INCOMPLETE):
            raise self._error(code, _error_file(output))
        run_folder = next(path for path in output.iterdir() if path.is_dir())
        return run_folder, BaseFiles.read(_files_file(output))

    def _in_tree(self, place: str | Path) -> Path:
        """Return the place of a file of the checkout in the tree; other paths as they are."""
        whole, tree = Path(place).absolute().resolve(), _mirrored(self.root, self.temporary)
        return tree / whole.relative_to(self.root) if whole.is_relative_to(self.root) else whole

    def _output(self, suffix: str) -> Path:
        """Return the output folder of a run, at the same relative place as that of the head."""
        tree = _mirrored(self.root, self.temporary)
        output = self._in_tree(self.config.output).with_name(f"{self.temporary.name}{suffix}")
        if not output.is_relative_to(tree):
            output = _mirrored(Path(f"{self.config.output}{suffix}"), self.temporary)
            if tree.is_relative_to(output):  # other folders than that of the run are in it
                output = self.temporary / f"runs{suffix}"
        return output

    def _error(self, code: int, messages: Path) -> DataError:
        """Return the error of a run that ended with another code than 0 and 3."""
        reason = f"exit code {code}; its errors stand above"
        if messages.exists():
            reason = "; ".join(messages.read_text(encoding="utf-8").splitlines())
        error = DataError(f"the base {self.name} cannot be run: {reason}", file=self.path)
        if code > EXIT_UNDECIDED and code in EXIT_MEANINGS:  # as for a full disk: not the config
            error.exit_code = code
        return error
