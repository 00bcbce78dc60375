"""What a run folder names and only its user can trust: code, models, and addresses to ask."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

from ragbench.config.problems import Report
from ragbench.config.schema import ExperimentConfig, JudgeBlock
from ragbench.config.tree import Item
from ragbench.config.yaml_reader import decode, read_yaml
from ragbench.errors import DataError, OptionError
from ragbench.registry import PYTHON

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


def check_addresses(name: str, block: JudgeBlock | None, trusted: Sequence[str]) -> None:
    """Refuse to ask a judge at an address that its run folder names and the user does not.

    The folder may come from anybody, and the judge would send there the key of the user and what
    was judged. An address is trusted with all below its path; the provider's own needs no trust,
    and neither does what the user's environment says (`OPENAI_BASE_URL`).

    Raises:
        OptionError: The address, and the option that trusts it.
    """
    if block is None:
        return
    for address in _addresses(list(block.options.values())):
        where = address.partition("?")[0].rstrip("/") + "/"
        if any(where.startswith(own.partition("?")[0].rstrip("/") + "/") for own in trusted):
            continue
        key = block.options.get("api_key_env")
        sent = f", with the key in {key}" if key and os.environ.get(key) else ""
        found = f"judge '{name}' would ask {address}, an address from the run folder{sent}"
        raise OptionError("--trust", "", found, f"--trust {shlex.quote(address)}, if it is yours")


def _addresses(value: object) -> Iterator[str]:
    """Every address in the options of a judge, those of other packages included."""
    if isinstance(value, str) and re.match(r"\s*[A-Za-z][A-Za-z0-9+.-]*://", value):
        yield value.strip()
    elif isinstance(value, Mapping):
        yield from _addresses([*value.values()])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _addresses(part)
