"""Reproduce a run from its folder, and report the differences of environment and numbers."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product, starmap
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.config.load import load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import KeyPath, Report, dotted
from ragbench.config.variables import names_in
from ragbench.config.yaml_reader import read_file
from ragbench.data.runs.run_folder import (
    SystemTable,
    read_manifest,
    read_summary,
    read_tables,
    resolve_run_folder,
)
from ragbench.errors import ConfigError, DataError, OptionError, Phrase
from ragbench.experiment.plan.records import Repetition
from ragbench.experiment.result import Experiment
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices, EnvironmentVariable, Manifest
from ragbench.records.summary import Summary
from ragbench.registry import checking_imports, code_folders
from ragbench.report.progress import Progress
from ragbench.secrets import MASK
from ragbench.types.lookups import attributes_of, index_positions

# Scheme of a URL: `https://`.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check_trust(config: ExperimentConfig, judges: Iterable[str], trusted: Sequence[str]) -> None:
    """Refuse judges that would send data to an address, or a variable, of the run folder.

    A run folder may come from anybody: an address in it would get the user's key and the judged
    texts, and a variable, in `api_key_env` or as `${NAME}`, would be sent. The default address and
    key of a provider need no trust, and neither do those of the environment (`OPENAI_BASE_URL`).
    A `${NAME}` counts wherever the config has it, also without judges. A variable without a value
    in the environment needs no trust, and neither does OPENAI_API_KEY.

    Args:
        config: Config of the run folder.
        judges: Names of the judges that will be called; unknown names are ignored.
        trusted: Addresses and variables that the user trusts; an address with all paths below.

    Raises:
        OptionError: An address or variable is not trusted; the message has the options to pass.
    """
    all_blocks, called = config.metrics.judges or {}, set(judges)
    blocks = {}
    for name, block in all_blocks.items():
        if name in called:
            blocks[name] = block
    problems, needed = [], []
    for name, block in blocks.items():
        key = block.options.get("api_key_env")
        sent = f", with the key in {key}" if key and os.environ.get(key) else ""
        for address in _addresses(block.options, trusted):
            needed.append(address)
            problems.append(
                f"judge '{name}' that would ask {address}, an address from the run folder{sent}"
            )
    key_variables = []
    for block in blocks.values():
        key_variables.append(str(block.options.get("api_key_env") or ""))
    # variables of the file that are no keys too: their values would be sent as text of prompts
    for variable in dict.fromkeys([*key_variables, *config.environment]):
        # the key of OpenAI is meant for its own server; other addresses are refused above
        is_sent = os.environ.get(variable) and variable != "OPENAI_API_KEY"
        if is_sent and variable not in trusted:
            needed.append(variable)
            problems.append(f"{variable}, a variable in the run folder that would be sent")
    if problems:
        allowed = " ".join(f"--trust {shlex.quote(text)}" for text in needed)
        problem = Phrase("; ".join(problems))
        raise OptionError("--trust", "", problem, f"{allowed}, if it is yours")


def _addresses(options: Mapping[str, object], trusted: Sequence[str]) -> Iterator[str]:
    """Yield the addresses in the options of a judge that are not trusted."""
    prefixes = tuple(map(_url_prefix, trusted))
    # any option may be an address: judges of other packages have their own names for it
    for _, text in texts_of(list(options.values())):
        address = text.strip()
        if _ADDRESS.match(address) and not _url_prefix(address).startswith(prefixes):
            yield address


def _url_prefix(address: str) -> str:
    """Return an address without its query, with a slash: so `a` is no prefix of `ab`."""
    return address.partition("?")[0].rstrip("/") + "/"


def texts_of(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield path and text of every string in a value of the config; `path` is that of the value.

    The path of a list item is its index from 0 as text. Keys are not yielded.
    """
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from texts_of(part, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from texts_of(part, (*path, str(index)))
    elif isinstance(value, str):
        yield path, value


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Run and its repetition, with their differences, a phrase each; `reproduce` creates it.

    Attributes:
        original: Folder of the run.
        again: Repetition of the run.
        environment: Differences of environment variables, and the values that were used.
        surroundings: Differences of versions, machine and data.
        numbers: Differences of scores, signatures and rankings; [] if the run is reproduced.
    """

    original: Path
    again: Experiment
    environment: list[str] = field(default_factory=list)
    surroundings: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)


def reproduce(
    run: Path,
    progress: Progress | None = None,
    *,
    trust: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run the config of a run folder again, without stored items, and compare the results.

    Environment variables have their recorded values, secrets those of now. Replies of models are
    read from the store, so that nothing is paid twice. The new run folder lies beside that of the
    run, and `latest` stays. Other errors are those of `run_experiment`.

    Args:
        run: Run folder, or folder of an experiment, whose newest run it is.
        progress: Display of the progress; None shows nothing.
        trust: Allow imports of modules from the run folder and the folder of its experiment.
        tell: Function that gets a line for each module before it is imported.

    Raises:
        DataError: There is no such run, a part of it cannot be repeated, or it needs `trust`.
        ConfigError: The config is wrong, with paths from the folder and with those from its former
            place.
    """
    folder = resolve_run_folder(run).resolve()
    manifest = read_manifest(folder)
    if live := manifest.live:
        raise DataError(
            f"the run had Python objects, which no file holds: {', '.join(live)}",
            file=folder,
            allowed="a run whose components are all in its config",
        )
    choices = structs.replace(manifest.choices, retry_failed=False)
    working_folder = Path.cwd()
    search = code_folders([working_folder])
    if trust:
        search.append(folder)
    elif working_folder.is_relative_to(folder):
        # a folder on the module path can also shadow modules that other packages import later
        search.clear()
    with checking_imports(partial(_check_import, folder, trust, tell)):
        config = _load_config(folder, manifest.environment, search)
    summary = read_summary(folder)
    _require_secrets(config, choices, summary, folder)
    environment = [*_environment(config, manifest.environment, folder)]
    # the repetition records the variables of the run, apart from secrets, which are those of now
    variables = {}
    for name, variable in config.environment.items():
        if variable.secret and name in os.environ:
            variables[name] = variable
    recorded = {**config.environment, **manifest.environment, **variables}
    with tempfile.TemporaryDirectory(prefix="ragbench-") as stages:
        again = run_experiment(
            replace(config, environment=recorded),
            choices=choices,
            progress=progress,
            repetition=Repetition(summary.run_id, folder.parent, Path(stages)),
        )
    new = read_manifest(again.path)
    numbers = _numbers(folder, again.path, manifest, new)
    return Reproduction(folder, again, environment, [*_surroundings(manifest, new)], [*numbers])


def _check_import(
    folder: Path, trust: bool, tell: Callable[[str], None], module: str, files: Sequence[Path]
) -> None:
    """Report the import of a module by `tell`; `files` are those of the module, or empty."""
    if not files:  # a module of the folder is not on the module path without --trust
        place = folder.joinpath(*module.split("."))
        files = []
        for path in (place, place.with_suffix(".py")):
            if path.exists():
                files.append(path)
    folders = [folder] if Path.cwd().is_relative_to(folder.parent) else [folder, folder.parent]
    is_inside = any(starmap(Path.is_relative_to, product(files, folders)))
    if is_inside and not trust:
        raise DataError(f"'{module}' runs code from the run folder; pass --trust to allow it")
    tell(f"imports: {module} from {files[0] if files else 'nowhere that is known'}")


def _load_config(
    folder: Path, recorded: Mapping[str, EnvironmentVariable], code: Sequence[Path]
) -> ExperimentConfig:
    """Return the config of a run folder, with the recorded values of environment variables."""
    file = folder / "config.yaml"
    # a placeholder: whether the run needs the secret is known only when the config is read
    absent = {}
    for name, variable in recorded.items():
        if variable.secret and variable.set:
            absent[name] = MASK
    plain = {}
    for name, v in recorded.items():
        if v.value is not None:
            plain[name] = v.value
    variables = {**absent, **os.environ, **plain}
    try:
        return load_config(file, environment=variables, code=code)
    except ConfigError:
        # the folder may have been moved alone: its place was below the output of the config
        summary, tree = read_summary(folder), read_file(file, Report())
        output = None if tree is None else tree.text("output")
        with contextlib.suppress(ConfigError, DataError):
            home = Path(output or "") / summary.name / summary.run_id
            return load_config(file, base_dir=home, environment=variables, code=code)
        raise


def _require_secrets(
    config: ExperimentConfig, choices: Choices, summary: Summary, folder: Path
) -> None:
    """Check that each secret of a component of the run is set."""
    for path, text in texts_of(config.resolved):
        if path[:2] == ("metrics", "judge"):
            is_used = choices.judge
        elif path[0] in ("retrievers", "generators", "apps") and choices.only:
            is_used = any(path[1] in (s.name, s.retriever, s.generator) for s in summary.systems)
        else:
            is_used = True
        missing = []
        for name in names_in(text):
            if name not in os.environ:
                missing.append(name)
        if is_used and missing:
            raise DataError(
                f"{dotted(path)} needs the secret {missing[0]}, which is not set",
                file=folder / "config.yaml",
                allowed=f"the environment variable {missing[0]} with the value that it had",
            )


def _environment(
    config: ExperimentConfig, recorded: Mapping[str, EnvironmentVariable], folder: Path
) -> Iterator[str]:
    """Yield a phrase for each environment variable that differs from the recorded one."""
    for name, old in recorded.items():
        value = os.environ.get(name)
        # secrets are those of now, other variables have their recorded values
        if old.secret and old.set != (value is not None):
            earlier, current = ("set", "not set") if value is None else ("not set", "set")
            change = f"{name} was {earlier} then, and is {current} now"
            yield f"{change}; it counts only if a model asks for it"
        elif not old.secret and value != old.value:
            current = "not set" if value is None else f"'{value}'"
            used = f"'{old.value}'" if old.set else "the default"
            yield f"{name} is {current}; {used} is used, as recorded"
    # a config.yaml that was edited after the run may use further variables
    config_text = (folder / "config.yaml").read_text(encoding="utf-8")
    for name in dict.fromkeys(names_in(config_text)):
        if name not in recorded:
            yield f"{name} was not recorded; its value of now is used, or its default"
    for path, text in texts_of(config.resolved):
        if MASK in text:
            yield f"{dotted(path)} held a secret, which no file keeps; {MASK} stands for it"


def _surroundings(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield a phrase for each difference of versions, platform and data."""

    def facts(manifest: Manifest) -> dict[str, Any]:
        names = ("ragbench", "python", "platform")
        software = attributes_of(manifest, names)
        return {**software, **manifest.packages, **manifest.data}

    return _changes(facts(old), facts(new), "{0} was {1}, is {2}")


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], template: str) -> Iterator[str]:
    """Yield the template with name, old and new value for each value that differs."""
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield template.format(name, old.get(name), new.get(name))


def _numbers(old: Path, new: Path, old_manifest: Manifest, new_manifest: Manifest) -> Iterator[str]:
    """Yield a phrase for each difference of signatures, scores, rankings and hits of two runs."""
    signatures = old_manifest.signatures, new_manifest.signatures
    yield from _changes(*signatures, "signature of {0} was {1}, is {2}")
    yield from _scores(read_tables(old / "per_query.csv"), read_tables(new / "per_query.csv"))
    for folder in ("rankings", "passages", "hits"):
        for path in sorted(old.glob(f"{folder}/*")):
            again = new / path.relative_to(old)
            if not again.is_file() or again.read_bytes() != path.read_bytes():
                yield f"{path.relative_to(old)} differs"


def _scores(old: Mapping[str, SystemTable], new: Mapping[str, SystemTable]) -> Iterator[str]:
    """Yield a phrase for each system or score that differs, with the number of queries."""
    for system in dict.fromkeys([*old, *new]):
        if system not in old or system not in new:
            yield f"{system} is only in the {'old' if system in old else 'new'} run"
            continue
        ids, again = old[system].query_ids, new[system]
        # -1, a query that the new run lacks, reads the NaN that is appended to its values
        row_of = index_positions(again.query_ids)
        rows = np.array([row_of.get(query, -1) for query in ids], np.int64)
        for name, values in old[system].columns.items():
            new_values = np.append(again.columns.get(name, np.full(len(row_of), np.nan)), np.nan)
            new_values = new_values[rows]
            both_missing = np.isnan(values) & np.isnan(new_values)
            is_changed = (values != new_values) & ~both_missing
            if not is_changed.any():
                continue
            sizes = np.abs(values - new_values)[is_changed]
            sizes = sizes[~np.isnan(sizes)]
            most = f", by up to {sizes.max():.3g}" if sizes.size else ""
            n_changed = int(is_changed.sum())
            yield f"{name} of {system} differs on {n_changed} of {len(ids)} queries{most}"
