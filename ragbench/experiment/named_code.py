"""What a run folder names and only its user can trust: code, models, and addresses to ask."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from urllib.parse import urlsplit

from ragbench.config.load import named_keys
from ragbench.config.problems import KeyPath, Report
from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import Item
from ragbench.config.variables import names_in
from ragbench.config.yaml_reader import decode, read_yaml
from ragbench.errors import DataError, OptionError
from ragbench.records.manifest import EnvironmentVariable
from ragbench.registry import PYTHON

_HERE = ("localhost", "127.0.0.1", "::1")
_ALLOWED = "the module where you keep it; --trust takes code from the run folder"


@contextmanager
def path_without(folder: Path) -> Iterator[None]:
    """Keep a folder, and what lies in it, off the path for modules as long as the block runs."""
    before = [*sys.path]
    sys.path[:] = [entry for entry in before if not _lies_in(Path(entry or "."), folder)]
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in before if entry not in sys.path] + sys.path


def places_of_code(file: Path, search: Sequence[Path]) -> dict[str, Path | None]:
    """Return the modules that a YAML file names, and where each would be imported from.

    Nothing is imported. None stands for a module that is not found, or that Python has built in.
    """
    report = Report()
    try:
        text = decode(file.read_bytes(), str(file), report)
    except OSError:  # reading the config says so
        return {}
    tree = None if text is None else read_yaml(text, str(file), report)
    names = {} if tree is None else dict.fromkeys(_modules(tree))
    return {name: _place(name, search) for name in names}


def refuse_code_in(folder: Path, places: dict[str, Path | None]) -> None:
    """Refuse modules that lie in a run folder, which somebody else may have written."""
    for name, place in places.items():
        if place is not None and _lies_in(place, folder):
            found = f"the module '{name}' lies in the run folder"
            raise DataError(found, file=place, allowed=_ALLOWED)


def refuse_models_in(folder: Path, config: ExperimentConfig) -> None:
    """Refuse models that lie in a run folder: the folder of a model may hold code as well."""
    systems = (config.retrievers, config.generators, config.apps, config.metrics.judges or {})
    for name, component in ((n, each) for block in systems for n, each in block.items()):
        for value in component.options.values():
            if isinstance(value, (str, Path)) and _is_folder_in(Path(value), folder):
                found = f"what '{name}' loads lies in the run folder"
                raise DataError(found, file=value, allowed=_ALLOWED.replace("module", "model"))


def _modules(item: Item, key: str = "") -> Iterator[str]:
    for name, entry in item.entries.items():
        yield from _modules(entry.item, name)
    for part in item.items:
        yield from _modules(part)
    text = str(item.value)
    if text.startswith(PYTHON) or (key == "factory" and ":" in text):
        yield text.removeprefix(PYTHON).partition(":")[0]


def _place(module: str, search: Sequence[Path]) -> Path | None:
    """Where the package of a module is, by the path for modules; it is not imported."""
    top = module.partition(".")[0]
    if (file := getattr(sys.modules.get(top), "__file__", None)) is not None:
        return Path(file).resolve()
    found = PathFinder.find_spec(top, [*map(str, search), *sys.path])
    if found is None:
        return None
    inside = found.submodule_search_locations
    return Path(next(iter(inside)) if inside else found.origin or top).resolve()


def _lies_in(place: Path, folder: Path) -> bool:
    return place.resolve().is_relative_to(folder)


def _is_folder_in(place: Path, folder: Path) -> bool:
    return place.is_absolute() and place.is_dir() and _lies_in(place, folder)


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
    systems = (config.retrievers, config.generators, config.apps)
    options = [each.options for block in systems for each in block.values()]
    options += [each.options for each in (config.metrics.judges or {}).values()]
    found = [
        f"{address}, an address from the run folder, would be asked"
        for address in dict.fromkeys(_addresses(options))
        if urlsplit(address).hostname not in _HERE
    ]
    keys = [*named_keys(config)]
    known = {name for name, each in recorded.items() if each.value is not None}
    named = [*keys, *(name for name in config.environment if name not in {*keys, *known})]
    found += [
        f"{variable}, a variable that the run folder names, would be given to what it asks"
        for variable in _variables_of_now(named)
    ]
    if found:
        allowed = "--trust, if you know who wrote the run folder"
        raise DataError("; ".join(found), file=folder / "config.yaml", allowed=allowed)


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
