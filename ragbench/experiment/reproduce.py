"""A run made once more from what its folder holds, and what differs."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragbench.config.components import options_of
from ragbench.config.load import load_config, named_keys
from ragbench.config.problems import KeyPath, dotted
from ragbench.config.schema import ExperimentConfig
from ragbench.config.variables import names_in
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
from ragbench.experiment.session import Progress
from ragbench.json_yaml import load_yaml
from ragbench.records.codec import Record, from_json
from ragbench.records.manifest import Choices, EnvironmentVariable, Manifest
from ragbench.records.summary import Summary
from ragbench.registry import guarded_by
from ragbench.secrets import MASK, secret_fingerprint
from ragbench.store.maintenance import stored_in

_HERE, _HERE_OF_RAY = ("localhost", "127.0.0.1", "::1"), ("auto", "local")
_ALLOWED = "the module where you keep it; --trust takes code from the run folder"
_TRUST = "--trust, if you know who wrote the run folder"


@contextmanager
def path_without(folder: Path) -> Iterator[None]:
    """Keep a folder, and what lies in it, off the path for modules as long as the block runs."""
    before, folders = [*sys.path], _folders_of(folder)
    sys.path[:] = [entry for entry in before if not _lies_in(Path(entry or "."), *folders)]
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in before if entry not in sys.path] + sys.path


class CodeOfOthers:
    """Says what is imported for a run folder, and from where; refuses it unless it is trusted.

    What lies in the folder is somebody else's, and what is installed would do what the folder
    says, as `os:system` would; what the user keeps at hand may be imported.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None], *, trusted: bool) -> None:
        self._folders, self._tell, self._trusted = _folders_of(folder), tell, trusted
        self._told: set[str] = set()

    def before(self, module: str, places: Sequence[Path | None]) -> None:
        """Refuse a module of the run folder, and one that is installed; tell of others."""
        inside = [place for place in places if place and _lies_in(place, *self._folders)]
        if inside and not self._trusted:
            found = f"the module '{module}' lies in the run folder"
            raise DataError(found, file=inside[0], allowed=_ALLOWED)
        if _is_installed(places[-1]):
            self._refuse(module)
        if module not in self._told:
            self._told.add(module)
            self._tell(f"imports: {module} from {places[-1] or 'nowhere that is known'}")

    def after(self, path: str, homes: Sequence[str]) -> None:
        """Refuse what a module of the user's has from an installed one."""
        for home in homes:
            file = getattr(sys.modules.get(home), "__file__", None)
            if _is_installed(None if file is None else Path(file).resolve()):
                self._refuse(path)

    def _refuse(self, name: str) -> None:
        if not self._trusted:
            found = f"'{name}' is no code of yours, and would be given what the run folder says"
            raise DataError(found, allowed=_TRUST)


def _folders_of(folder: Path) -> tuple[Path, ...]:
    """A run folder, and that of its experiment, unless one works in it."""
    return (folder,) if Path.cwd().is_relative_to(folder.parent) else (folder, folder.parent)


def _is_installed(place: Path | None) -> bool:
    """Whether code is Python's, ragbench's or that of an installed package."""
    paths = sysconfig.get_paths()
    homes = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    homes |= {str(Path(__file__).parents[1]), *site.getsitepackages(), site.getusersitepackages()}
    return place is None or _lies_in(place, *(Path(home).resolve() for home in homes))


def refuse_models_in(folder: Path, config: ExperimentConfig) -> None:
    """Refuse models that lie in a run folder: the folder of a model may hold code as well."""
    for name, own in _options_of(config).items():
        for _, text in texts_of(own if name != "dataset" else {}):  # folders of data hold none
            if os.path.isdir(text) and _lies_in(Path(text), *_folders_of(folder)):
                found = f"what '{name}' loads lies in the run folder"
                raise DataError(found, file=text, allowed=_ALLOWED.replace("module", "model"))


def _options_of(config: ExperimentConfig) -> Mapping[str, Mapping[str, object]]:
    """What is given to whatever a config names, with the values of variables; paths absolute."""
    systems = {**config.retrievers, **config.generators, **config.apps}
    around = {"dataset": config.dataset, "executor": config.executor}
    named = {**systems, **(config.metrics.judges or {}), **around}
    metrics = {each.metric.name: each.metric.options for each in config.metrics.generation or ()}
    return metrics | {name: each.options for name, each in named.items() if each is not None}


def _lies_in(place: Path, *folders: Path) -> bool:
    return any(map(place.resolve().is_relative_to, folders))


def check_trust(config: ExperimentConfig, judges: Iterable[str], trusted: Sequence[str]) -> None:
    """Refuse to ask judges with what their run folder names and the user does not.

    The folder may come from anybody. An address would be sent the key of the user and what was
    judged; a variable, in `api_key_env` or as `${NAME}`, would be sent itself. An address is
    trusted with all below its path; the provider's own and its key need no trust, and neither does
    what the user's environment says (`OPENAI_BASE_URL`).

    Raises:
        OptionError: The addresses and variables, and the option that trusts them.
    """
    blocks = {
        name: block for name, block in (config.metrics.judges or {}).items() if name in judges
    }
    found, needed = [], []
    for name, block in blocks.items():
        for address in _addresses(list(block.options.values())):
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
    for variable in _variables_of_now([*named, *(name for _, name in references(config))]):
        if variable not in trusted:
            needed.append(variable)
            found.append(f"{variable}, a variable that the run folder names, would be sent")
    if found:
        allowed = " ".join(f"--trust {shlex.quote(each)}" for each in needed)
        raise OptionError("--trust", "", "; ".join(found), f"{allowed}, if it is yours")


def refuse_sending(
    folder: Path, config: ExperimentConfig, recorded: Mapping[str, EnvironmentVariable]
) -> None:
    """Refuse to repeat a run that sends anything to addresses, or variables, of its folder.

    This machine may be asked, and a variable whose value was recorded gives that value.
    """
    options = _options_of(config)
    addresses = dict.fromkeys(_addresses([*options.values()]))
    executor = config.executor
    if executor is not None and (where := executor.options.get("address")):
        addresses[where if "://" in where or where in _HERE_OF_RAY else f"ray://{where}"] = None
    found = [
        f"{address}, an address from the run folder, would be asked"
        for address in addresses
        if address not in _HERE_OF_RAY and urlsplit(address).hostname not in _HERE
    ]
    keys = [*named_keys(config)]
    known = {name for name, each in recorded.items() if each.value is not None}
    named = [*keys, *(name for name in config.environment if name not in {*keys, *known})]
    found += [
        f"{variable}, a variable that the run folder names, would be given to what it asks"
        for variable in _variables_of_now(named)
    ]
    if found:
        raise DataError("; ".join(found), file=folder / "config.yaml", allowed=_TRUST)


def references(config: ExperimentConfig) -> Iterator[tuple[KeyPath, str]]:
    """Where a resolved config names variables, and which."""
    return ((path, name) for path, text in texts_of(config.resolved) for name in names_in(text))


def texts_of(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every text of a resolved config, with its place."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from texts_of(part, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from texts_of(part, (*path, str(index)))
    elif isinstance(value, str):
        yield path, value


def _variables_of_now(names: Iterable[str]) -> list[str]:
    """Those that are set, each once, without the one whose key is made for its provider."""
    return [n for n in dict.fromkeys(names) if os.environ.get(n) and n != "OPENAI_API_KEY"]


def _addresses(value: object) -> Iterator[str]:
    """Every address in the options of components, those of other packages included."""
    if isinstance(value, str) and re.match(r"\s*[A-Za-z][A-Za-z0-9+.-]*://", value):
        yield value.strip()
    elif isinstance(value, Mapping):
        yield from _addresses([*value.values()])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _addresses(part)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A run, the same once more, and what differs."""

    original: Path
    again: Experiment
    environment: list[str] = field(default_factory=list)
    """What the environment has otherwise, and what was used instead; a phrase each."""
    surroundings: list[str] = field(default_factory=list)
    """What differs around it: versions, machine, data; a phrase each."""
    numbers: list[str] = field(default_factory=list)
    """What differs in its results; empty where it was reproduced."""


def reproduce(
    run: Path,
    progress: Progress | None = None,
    *,
    trust: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run again what a run folder holds, without anything that stages have stored.

    Values of variables are those that were recorded; secrets come from the environment. Replies of
    models are read from the store, so that nothing is paid twice. The new run folder lies beside
    that of the run, and `latest` stays. A run with live objects is refused: no file holds them.

    The config is that of the folder, and `tell` is told what code will be imported for it, before
    it is. Without `trust`, code and models that lie in the folder itself are refused, and so
    are addresses of other machines and variables of the environment that the folder names.
    """
    folder = resolve_run_folder(run).resolve()
    with nullcontext() if trust else path_without(folder):
        return _repeated(folder, progress, trust, tell)


def _repeated(
    folder: Path, progress: Progress | None, trust: bool, tell: Callable[[str], None]
) -> Reproduction:
    manifest = read_manifest(folder)
    if live := manifest.live:
        raise DataError(
            f"the run had live objects: {', '.join(live)}",
            file=folder,
            allowed="a run whose components are all in its config",
        )
    choices = replace(manifest.choices, retry_failed=False)
    here = Path.cwd()
    search = [here, folder] if trust else [here] if not here.is_relative_to(folder) else []
    with guarded_by(CodeOfOthers(folder, tell, trusted=trust)):
        config = _load_config(folder, manifest.environment, search)
    if not trust:
        refuse_models_in(folder, config)
        refuse_sending(folder, config, manifest.environment)
        if config.cache and not _lies_in(Path(config.cache), here):
            # no folder is made where the run folder says; one that is there is the user's own
            config = replace(config, cache=config.cache if stored_in(Path(config.cache)) else None)
    summary = read_summary(folder)
    _require_secrets(config, choices, summary, folder)
    environment = [*_environment(config, manifest.environment, folder)]
    # what the run has recorded, its repetition has too; but secrets are those of now
    now = {name: each for name, each in config.environment.items() if name in os.environ}
    config = replace(
        config,
        environment={
            **config.environment,
            **manifest.environment,
            **{name: each for name, each in now.items() if each.secret},
        },
    )
    with tempfile.TemporaryDirectory(prefix="ragbench-") as stages:
        repetition = Repetition(summary.run_id, folder.parent, Path(stages))
        again = run_experiment(config, choices=choices, progress=progress, repetition=repetition)
    new = read_manifest(again.path)
    numbers = _numbers(folder, again.path, manifest, new)
    return Reproduction(folder, again, environment, [*_surroundings(manifest, new)], [*numbers])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written(Record):
    output: str = ""


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
        found = load_yaml(file.read_text(encoding="utf-8"))
        summary = read_summary(folder)
        with contextlib.suppress(ConfigError, DataError):
            output = from_json(_Written, found).output
            home = Path(output) / summary.name / summary.run_id
            return load_config(file, base_dir=home, environment=variables, code=code)
        raise


def _require_secrets(
    config: ExperimentConfig, choices: Choices, summary: Summary, folder: Path
) -> None:
    """Refuse to run without a secret that a component of the run is given."""
    for path, name in references(config):
        if name not in os.environ and _is_used(path, config, choices, summary):
            raise DataError(
                f"{dotted(path)} needs the secret {name}, which is not set",
                file=folder / "config.yaml",
                allowed=f"the environment variable {name} with the value that it had",
            )


def _is_used(path: KeyPath, config: ExperimentConfig, choices: Choices, summary: Summary) -> bool:
    """Whether what stands in a config is part of the run, of which there may be less."""
    if path[:2] == ("metrics", "judge"):
        return choices.judge
    if path[0] not in ("retrievers", "generators", "apps") or not choices.only:
        return True
    systems = summary.systems
    names = [name for each in systems for name in (each.name, each.retriever, each.generator)]
    used = {name for name in names if name is not None}
    waiting = [config.retrievers[name] for name in used if name in config.retrievers]
    while waiting:
        component = waiting.pop()
        # what it reads: the one that it reorders, those that it joins or expands
        named = {component.retriever or ""}
        for key, option in options_of(component.cls).items():
            if option.option.refers_to == "retriever":
                value = component.options.get(key)
                named |= {value} if isinstance(value, str) else {*(value or ())}
        found = {name for name in named - used if name in config.retrievers}
        used |= found
        waiting += [config.retrievers[name] for name in found]
    return path[1] in used


def _environment(
    config: ExperimentConfig, known: Mapping[str, EnvironmentVariable], folder: Path
) -> Iterator[str]:
    for name, was in known.items():
        value = os.environ.get(name)
        yield from _secret(name, was, value) if was.secret else _plain(name, was, value)
    # of a config.yaml that was edited
    written = (folder / "config.yaml").read_text(encoding="utf-8")
    for name in dict.fromkeys(name for name in names_in(written) if name not in known):
        now = config.environment.get(name)
        used = "its default" if now is None or not now.set else "the secret of now"
        if now is not None and now.set and not now.secret:
            used = f"'{now.value}' of now"
        yield f"{name} was not recorded, so that its value then is not known; {used} is used"
    for path, text in texts_of(config.resolved):
        if MASK in text:
            yield f"{dotted(path)} held a secret, which no file keeps; {MASK} stands for it"


def _plain(name: str, was: EnvironmentVariable, value: str | None) -> Iterator[str]:
    """What is recorded stands in the config, so that nothing of now counts."""
    if value == was.value:
        return
    now = "not set" if value is None else f"'{value}'"
    if was.set:
        yield f"{name} is {now}; '{was.value}' is used, as recorded"
    else:
        yield f"{name} is {now} now, but was not set then; the default is used, as recorded"


def _secret(name: str, was: EnvironmentVariable, value: str | None) -> Iterator[str]:
    if not was.set:
        if value is not None:
            yield f"{name} is set now, but was not then; it is used only if a model asks for it"
    elif value is None:
        yield f"{name} was set then, but is not now; no model that is asked needs it"
    elif was.fingerprint != secret_fingerprint(value):
        yield f"{name} has another value now; the new one is used"


def _surroundings(old: Manifest, new: Manifest) -> Iterator[str]:
    own = [{"ragbench": m.ragbench, "python": m.python, "platform": m.platform} for m in (old, new)]
    for was, now in (own, (old.packages, new.packages), (old.data, new.data)):
        for name in dict.fromkeys([*was, *now]):
            if was.get(name) != now.get(name):
                yield f"{name} was {was.get(name)}, is {now.get(name)}"


def _numbers(old: Path, new: Path, was: Manifest, now: Manifest) -> Iterator[str]:
    for name in dict.fromkeys([*was.signatures, *now.signatures]):
        before, after = was.signatures.get(name), now.signatures.get(name)
        if before != after:
            yield f"signature of {name} was {before}, is {after}"
    yield from _scores(read_per_query(old / "per_query.csv"), read_per_query(new / "per_query.csv"))
    for pattern in ("rankings/*", "passages/*"):
        for path in sorted(old.glob(pattern)):
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
