"""A run made once more from what its folder holds, and what differs."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ragbench.config.load import load_config
from ragbench.config.problems import KeyPath, Report, dotted
from ragbench.config.schema import ExperimentConfig
from ragbench.config.variables import names_in
from ragbench.config.yaml_reader import read_file
from ragbench.data.runs.run_folder import (
    read_manifest,
    read_per_query,
    read_summary,
    resolve_run_folder,
)
from ragbench.errors import ConfigError, DataError, OptionError
from ragbench.experiment.plan.records import Repetition
from ragbench.experiment.result import Experiment
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages.base import RunProgress
from ragbench.records.manifest import Choices, EnvironmentVariable, Manifest
from ragbench.records.summary import Summary
from ragbench.registry import checking_imports
from ragbench.secrets import MASK

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check_trust(config: ExperimentConfig, judges: Iterable[str], trusted: Sequence[str]) -> None:
    """Refuse to ask judges with what their run folder names and the user does not.

    The folder may come from anybody. An address would be sent the key of the user and what was
    judged; a variable, in `api_key_env` or as `${NAME}`, would be sent itself. An address is
    trusted with all below its path; the provider's own and its key need no trust, and neither does
    what the user's environment says (`OPENAI_BASE_URL`).

    Raises:
        OptionError: The addresses and variables, and the option that trusts them.
    """
    every, asked = config.metrics.judges or {}, set(judges)
    blocks = {name: block for name, block in every.items() if name in asked}
    found, needed = [], []
    for name, block in blocks.items():
        # every address in the options, those of components of other packages included
        texts = (text.strip() for _, text in texts_of(list(block.options.values())))
        for address in (text for text in texts if _ADDRESS.match(text)):
            where = address.partition("?")[0].rstrip("/") + "/"
            if any(where.startswith(own.partition("?")[0].rstrip("/") + "/") for own in trusted):
                continue
            key = block.options.get("api_key_env")
            sent = f", with the key in {key}" if key and os.environ.get(key) else ""
            needed.append(address)
            found.append(
                f"judge '{name}' would ask {address}, an address from the run folder{sent}"
            )
    named = [str(block.options.get("api_key_env") or "") for block in blocks.values()]
    # every variable that the file writes, a secret or not: its value would be sent as text
    for variable in dict.fromkeys([*named, *config.environment]):
        # the key of OpenAI is made for its own server
        is_sent = os.environ.get(variable) and variable != "OPENAI_API_KEY"
        if is_sent and variable not in trusted:
            needed.append(variable)
            found.append(f"{variable}, a variable that the run folder names, would be sent")
    if found:
        allowed = " ".join(f"--trust {shlex.quote(each)}" for each in needed)
        raise OptionError("--trust", "", "; ".join(found), f"{allowed}, if it is yours")


def texts_of(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield every text of a value of the config, with its place."""
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
    """A run, the same once more, and what differs.

    Attributes:
        environment: What the environment has otherwise, and what was used instead; a phrase each.
        surroundings: What differs around it: versions, machine, data; a phrase each.
        numbers: What differs in its results; empty where it was reproduced.
    """

    original: Path
    again: Experiment
    environment: list[str] = field(default_factory=list)
    surroundings: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)


def reproduce(
    run: Path,
    progress: RunProgress | None = None,
    *,
    trust: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run again what a run folder holds, without anything that stages have stored.

    Values of variables are those that were recorded; secrets come from the environment. Replies of
    models are read from the store, so that nothing is paid twice. The new run folder lies beside
    that of the run, and `latest` stays. A run with live objects is refused: no file holds them.

    The config is run as `run` would run it, and `tell` gets a line for each module before it is
    imported for it. A module in the folder itself is imported with `trust` only.
    """
    folder = resolve_run_folder(run).resolve()
    manifest = read_manifest(folder)
    if live := manifest.live:
        raise DataError(
            f"the run had live objects: {', '.join(live)}",
            file=folder,
            allowed="a run whose components are all in its config",
        )
    choices = replace(manifest.choices, retry_failed=False)
    here = Path.cwd()
    # a folder on the path for modules would also serve what other packages import later on
    search = [here, folder] if trust else [here] if not here.is_relative_to(folder) else []
    with checking_imports(partial(_check_import, folder, trust, tell)):
        config = _load_config(folder, manifest.environment, search)
    summary = read_summary(folder)
    _require_secrets(config, choices, summary, folder)
    environment = [*_environment(config, manifest.environment, folder)]
    # the repetition records what the run has recorded, apart from secrets, which are those of now
    now = {name: each for name, each in config.environment.items() if name in os.environ}
    secret = {name: each for name, each in now.items() if each.secret}
    recorded = {**config.environment, **manifest.environment, **secret}
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
    """Print what is imported; refuse a module of the run folder, or of the experiment's."""
    if not files:  # it may still be in the folder, which is on the path with --trust only
        place = folder.joinpath(*module.split("."))
        files = [path for path in (place, place.with_suffix(".py")) if path.exists()]
    folders = [folder] if Path.cwd().is_relative_to(folder.parent) else [folder, folder.parent]
    inside = any(file.is_relative_to(each) for file in files for each in folders)
    if inside and not trust:
        raise DataError(f"'{module}' runs code from the run folder; pass --trust to allow it")
    tell(f"imports: {module} from {files[0] if files else 'nowhere that is known'}")


def _load_config(
    folder: Path, known: Mapping[str, EnvironmentVariable], code: Sequence[Path]
) -> ExperimentConfig:
    """The config of a run folder, whose paths start from where the folder was written."""
    file = folder / "config.yaml"
    # a secret that is not set may not be needed: that is seen when the config is known
    absent = {name: MASK for name, each in known.items() if each.secret and each.set}
    plain = {name: each.value for name, each in known.items() if each.value is not None}
    variables = {**absent, **os.environ, **plain}
    try:
        return load_config(file, environment=variables, code=code)
    except ConfigError:
        # a folder that was moved by itself, as CI keeps it: where this working directory writes
        summary, tree = read_summary(folder), read_file(file, Report())
        output = None if tree is None else tree.text("output")
        with contextlib.suppress(ConfigError, DataError):
            home = Path(output or "") / summary.name / summary.run_id
            return load_config(file, base_dir=home, environment=variables, code=code)
        raise


def _require_secrets(
    config: ExperimentConfig, choices: Choices, summary: Summary, folder: Path
) -> None:
    """Refuse to run without a secret that a component of the run is given."""
    for path, text in texts_of(config.resolved):
        if path[:2] == ("metrics", "judge"):
            is_used = choices.judge
        elif path[0] in ("retrievers", "generators", "apps") and choices.only:
            is_used = any(path[1] in (s.name, s.retriever, s.generator) for s in summary.systems)
        else:
            is_used = True
        missing = [name for name in names_in(text) if name not in os.environ]
        if is_used and missing:
            raise DataError(
                f"{dotted(path)} needs the secret {missing[0]}, which is not set",
                file=folder / "config.yaml",
                allowed=f"the environment variable {missing[0]} with the value that it had",
            )


def _environment(
    config: ExperimentConfig, recorded: Mapping[str, EnvironmentVariable], folder: Path
) -> Iterator[str]:
    for name, was in recorded.items():
        value = os.environ.get(name)
        now = "not set" if value is None else f"'{value}'"
        # a secret is that of now; any other value stands in the config as it was recorded
        if was.secret and was.set and value is None:
            yield f"{name} was set then, but is not now; no model that is asked needs it"
        elif was.secret and not was.set and value is not None:
            yield f"{name} is set now, but was not then; it is used only if a model asks for it"
        elif not was.secret and was.set and value != was.value:
            yield f"{name} is {now}; '{was.value}' is used, as recorded"
        elif not was.secret and value != was.value:
            yield f"{name} is {now} now, but was not set then; the default is used, as recorded"
    # of a config.yaml that was edited
    written = (folder / "config.yaml").read_text(encoding="utf-8")
    for name in dict.fromkeys(name for name in names_in(written) if name not in recorded):
        variable = config.environment.get(name)
        used = "its default" if variable is None or not variable.set else "the secret of now"
        if variable is not None and variable.set and not variable.secret:
            used = f"'{variable.value}' of now"
        yield f"{name} was not recorded, so that its value then is not known; {used} is used"
    for path, text in texts_of(config.resolved):
        if MASK in text:
            yield f"{dotted(path)} held a secret, which no file keeps; {MASK} stands for it"


def _surroundings(old: Manifest, new: Manifest) -> Iterator[str]:
    then, now = (
        {"ragbench": m.ragbench, "python": m.python, "platform": m.platform, **m.packages, **m.data}
        for m in (old, new)
    )
    return _changes(then, now, "{0} was {1}, is {2}")


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], words: str) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield words.format(name, old.get(name), new.get(name))


def _numbers(old: Path, new: Path, was: Manifest, now: Manifest) -> Iterator[str]:
    yield from _changes(was.signatures, now.signatures, "signature of {0} was {1}, is {2}")
    yield from _scores(read_per_query(old / "per_query.csv"), read_per_query(new / "per_query.csv"))
    for path in [*sorted(old.glob("rankings/*")), *sorted(old.glob("passages/*"))]:
        again = new / path.relative_to(old)
        if not again.is_file() or again.read_bytes() != path.read_bytes():
            yield f"{path.relative_to(old)} differs"


def _scores(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for system in dict.fromkeys([*old, *new]):
        if system not in old or system not in new:
            yield f"{system} is only in the {'old' if system in old else 'new'} run"
            continue
        before, after = old[system], new[system]
        for name in dict.fromkeys(name for row in before.values() for name in row):
            pairs = [(row[name], after.get(query, {}).get(name)) for query, row in before.items()]
            changed = [(a, b) for a, b in pairs if a != b]
            if not changed:
                continue
            apart = [abs(a - b) for a, b in changed if a is not None and b is not None]
            most = f", by up to {max(apart):.3g}" if apart else ""
            yield f"{name} of {system} differs on {len(changed)} of {len(pairs)} queries{most}"
