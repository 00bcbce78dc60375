"""What is kept of a config: YAML that reads back as the same config, and the environment's part."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ragbench import secrets
from ragbench.config.components import CHUNK, options_of
from ragbench.config.problems import KeyPath, Report, dotted
from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import Item, Quoted, Reference, ScalarError, Substituted, resolve, text_of
from ragbench.config.variables import (
    LONG,
    escaped,
    in_secret_option,
    is_hidden,
    is_secret_value,
    is_told_by,
    reads_environment,
)
from ragbench.records.manifest import EnvironmentVariable
from ragbench.registry import declared_options
from ragbench.secrets import Redactor
from ragbench.text.chunk import Chunking

if TYPE_CHECKING:
    from ragbench.score.text.base import Metric


_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes wherever YAML 1.1 or 1.2 would read it as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal parts twice: a config is for people."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_style(value))


def _style(value: str) -> str | None:
    # `$${` and `${NAME}` alike: only quotes keep a number that comes in its place a text
    if isinstance(value, Quoted) and "${" in value:
        return '"'
    if _CONTROL.search(value):  # breaks of lines among them, which other styles fold into blanks
        return '"'
    if "${" in value:
        return None
    try:
        return None if isinstance(resolve(value), str) else '"'
    except ScalarError:
        return '"'


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    word = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))
    return yaml.ScalarNode("tag:yaml.org,2002:float", word)


# 1e-05 is a number in YAML 1.2, not in the 1.1 that PyYAML writes
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(Quoted, _text)
_Dumper.add_representer(tuple, _Dumper.represent_list)
_Dumper.add_representer(float, _number)


def _is_after_flag(flag: object, value: object) -> bool:
    """Whether a value follows an option of a command line that holds a secret."""
    if not (isinstance(flag, str) and isinstance(value, str)):
        return False
    if not (flag.startswith("-") and secrets.is_secret_option(flag)):
        return False
    return value[:1] != "-" and not (secrets.is_placeholder(value) or reads_environment(value))


def _masked(value: Any, elsewhere: Redactor, path: KeyPath = ()) -> Any:
    """The config without literal secrets: told by their keys and their form, or `elsewhere`."""
    if isinstance(value, Mapping):
        return {key: _masked(entry, elsewhere, (*path, str(key))) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        before = [None, *value]
        return [
            secrets.MASK if _is_after_flag(flag, entry) else _masked(entry, elsewhere, path)
            for flag, entry in zip(before, value, strict=False)
        ]
    if isinstance(value, str):
        if reads_environment(value) or secrets.is_placeholder(value):
            return value
        masked = secrets.mask_secrets(value)
        if is_secret_value(path, value) or (masked == value and secrets.looks_secret(value)):
            return secrets.MASK
        return Quoted(elsewhere(masked)) if isinstance(value, Quoted) else elsewhere(masked)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return secrets.MASK if is_number and in_secret_option(path) else value


def dump_config(config: ExperimentConfig, folder: Path | None = None) -> str:
    """Return the config as it was resolved, as YAML.

    Sweeps, defaults and the values of variables are written out; `${VAR}` stands for secrets alone,
    and a secret that stands in the config itself is replaced by `***`. Read with the same
    `base_dir` and secrets, a config without such a one gives an equal config, whatever else the
    environment has. Paths are relative to `folder`, where it is given.
    """
    # a literal secret is hidden where it stands once more: not what is but a header's value
    repeated = {
        f'"{place}"': config.secrets[place]  # in quotes it is no variable: `***` is written
        for place in config.literal_secrets
        if secrets.is_secret_option(place.rpartition(".")[2])
        or secrets.looks_secret(config.secrets[place])
        or not in_secret_option(tuple(place.split(".")))  # told by its form
    }
    resolved = _masked(config.resolved, Redactor(repeated))
    if folder is not None:
        _move_paths(config, resolved, folder.absolute())
    return yaml.dump(resolved, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _move_paths(config: ExperimentConfig, resolved: dict[str, Any], folder: Path) -> None:
    _move_options(config.dataset.cls, config.dataset.options, resolved["dataset"], folder)
    if config.cache_also:
        resolved["cache_also"] = [_relative(path, folder) for path in config.cache_also]
    for block in ("retrievers", "generators", "apps"):
        for name, component in getattr(config, block).items():
            written = resolved[block][name]
            _move_options(component.cls, component.options, written, folder)
            if component.chunk is not None:
                _move_options(Chunking, asdict(component.chunk), written[CHUNK], folder)
    metrics = resolved.get("metrics") or {}
    if config.metrics.generation is not None and "generation" in metrics:
        metrics["generation"] = [
            _move_metric(named.metric, written, folder)
            for named, written in zip(config.metrics.generation, metrics["generation"], strict=True)
        ]
    fill = config.metrics.retrieval.fill
    if fill is not None and isinstance(fill.rubric, Path):
        metrics["retrieval"]["fill"]["rubric"] = _relative(fill.rubric, folder)
    judge = metrics.get("judge") or {}
    for name, checked in (config.metrics.judges or {}).items():
        written = judge if checked.name is None else judge[name]
        _move_options(checked.cls, checked.options, written, folder)
        if "rubrics" in written:
            written["rubrics"] = [
                _relative(rubric, folder) if isinstance(rubric, Path) else rubric
                for rubric in checked.rubrics
            ]
    for gate, written in zip(config.gates, resolved.get("gates", ()), strict=False):
        key = gate.file_key
        if gate.file is not None and key is not None and not reads_environment(str(written[key])):
            written[key] = _relative(gate.file, folder)


def _move_metric(metric: Metric, written: str, folder: Path) -> str:
    declared = declared_options(metric.declaration.function)
    paths = {
        name: _relative(value, folder)
        for name, value in metric.chosen.items()
        if declared[name].option.refers_to and os.path.isabs(str(value))
    }
    if not paths or reads_environment(written):
        return written
    return escaped(replace(metric, chosen={**metric.chosen, **paths}).canonical)


def _move_options(
    cls: Any, options: Mapping[str, Any], written: dict[str, Any], folder: Path
) -> None:
    for key, option in options_of(cls).items():
        value = options.get(key)
        if key not in written or reads_environment(str(written[key])):
            continue
        names = ("path_or_name", "folder_or_name")
        is_there = option.option.refers_to in names and os.path.isabs(str(value))
        if option.option.refers_to == "path" or is_there:
            written[key] = _relative(value, folder)


def _relative(path: Any, folder: Path) -> Any:
    if isinstance(path, (list, tuple)):
        return [_relative(part, folder) for part in path]
    if path is None:
        return None
    try:
        return escaped(Path(os.path.relpath(path, folder)).as_posix())
    except ValueError:  # on another drive
        return escaped(str(path))


@dataclass(frozen=True)
class Environment:
    """The variables that a config names, and its secrets: in them, or in the config itself."""

    references: Mapping[str, Reference]
    """By name, in the order of the file."""
    hidden: frozenset[str]
    literal: Mapping[str, str]
    """Secrets that stand in the config itself, by their dotted keys."""
    defaults: Mapping[str, str]
    """What stands in the config beside or in the place of a variable that holds a secret."""

    @property
    def secrets(self) -> dict[str, str]:
        """Values that must not be written anywhere, by the names of their variables."""
        found = {name: r.value for name, r in self.references.items() if name in self.hidden}
        return {**found, **self.defaults, **self.literal}

    def record(self) -> dict[str, EnvironmentVariable]:
        """Return the variables as a manifest records them: values, but of secrets none."""
        return {
            name: variable_record(each.value if each.is_set else None, secret=name in self.hidden)
            for name, each in self.references.items()
        }


def variable_record(value: str | None, *, secret: bool) -> EnvironmentVariable:
    """Return what is kept of a variable; None is one that is not set."""
    if not secret or value is None:
        return EnvironmentVariable(set=value is not None, value=value, secret=secret)
    return EnvironmentVariable(set=True, secret=True)


def environment_of(tree: Item, written: object) -> Environment:
    """Return the variables of a tree, and tell which are secret.

    That is said by their names, by the keys or the declarations of options that they are in, and by
    the form of their values; a secret in one place is one in all. `written` is the same tree
    as plain data, in which declared secrets are marked.
    """
    references: dict[str, Reference] = {}
    hidden: set[str] = set()
    declared = {each.item.path for each in _substituted(written) if each.secret}
    for item in tree.scalars():
        for reference in item.references():
            references[reference.name] = reference
            if item.path in declared or is_hidden(item, reference):
                hidden.add(reference.name)
    values = [references[name].value for name in hidden]
    for name, reference in references.items():
        if any(is_told_by(reference.value, value) for value in values):
            hidden.add(name)
    literal, defaults = {}, {}
    for item in tree.scalars():
        place = dotted(item.path)
        if _is_literal(item, declared):
            literal[place] = str(item.value)
        beside = [part for part in _beside(item, hidden) if len(part) >= LONG]
        for number, part in enumerate(beside):
            if not secrets.is_placeholder(part):
                defaults[f'"{place}" {number}' if number else place] = part
    literal |= {dotted(item.path): str(item.value) for item in _after_flags(tree)}
    return Environment(references, frozenset(hidden), literal, defaults)


def report_secret_paths(tree: Item, found: Environment, report: Report) -> None:
    """Report secrets in what becomes the name of a folder, which nobody could take out again."""
    for key in ("name", "output", "cache", "cache_also"):
        for item in () if (block := tree.get(key)) is None else block.scalars():
            value = str(item.value)
            if value.startswith(("/", "~", "./")) and os.path.exists(value):
                continue  # a folder that is there, such as that of `SECRETS_DIR`
            told = [each.name for each in item.references() if each.name in found.hidden]
            told += [name for name, secret in found.secrets.items() if is_told_by(value, secret)]
            if told:
                what = f"${{{told[0]}}}" if told[0] in found.references else "what stands there"
                what = f"{what}, a secret, would be part of the name of a folder"
                report.wrong(item, what, "a name without it")


def _is_literal(item: Item, declared: Collection[KeyPath]) -> bool:
    """Return True if a scalar without a variable is a secret, or holds one."""
    value = str(item.value)
    if item.parts or secrets.is_placeholder(value) or type(item.value) not in (str, int, float):
        return False
    is_declared = item.path in declared and not secrets.is_harmless(item.path[-1])
    is_named = is_declared or is_secret_value(item.path, value)
    return is_named or secrets.looks_secret(value)


def _after_flags(item: Item) -> Iterator[Item]:
    """The elements of lists that follow `--api-key` or the like."""
    if isinstance(item.value, tuple):
        for flag, part in itertools.pairwise(item.items):
            if _is_after_flag(flag.value, part.value) and not part.parts:
                yield part
    for part in item.items or [entry.item for entry in item.entries.values()]:
        yield from _after_flags(part)


def _beside(item: Item, hidden: Collection[str]) -> Iterator[str]:
    """The texts in a scalar with a variable that holds a secret, and the defaults that count."""
    if not any(reference.name in hidden for reference in item.references()):
        return
    for part in item.parts:
        if isinstance(part, str):
            yield part.strip()
        elif not part.value and part.default:
            yield text_of(part.default)


def _substituted(written: object) -> Iterator[Substituted]:
    if isinstance(written, Substituted):
        yield written
    elif isinstance(written, (Mapping, list, tuple)):
        for part in written.values() if isinstance(written, Mapping) else written:
            yield from _substituted(part)


def recorded(written: Any, hidden: Collection[str]) -> Any:
    """Return plain data with the values of variables in it; `${NAME}` stands for secrets alone.

    Read again, in an environment with the same secrets, it gives the very same values.
    """
    if isinstance(written, Substituted):
        item = written.item
        if not item.parts:  # a secret that is declared, and stands there itself
            stays = secrets.is_placeholder(item.written) or secrets.is_harmless(item.path[-1])
            text = item.written if stays else secrets.MASK
            return Quoted(text) if item.quoted else text
        if all(reference.name not in hidden for reference in item.references()):
            return escaped(item.value) if isinstance(item.value, str) else item.value
        text = ""
        for is_secret, parts in itertools.groupby(_kept(item.parts, hidden), lambda part: part[1]):
            run = "".join(part for part, _ in parts)
            if is_secret and text.endswith("$"):
                # `$` before `${` would escape it: all its variables stay
                return Quoted(item.written) if item.quoted else item.written
            text += run if is_secret else escaped(run)
        return Quoted(text) if item.quoted else text
    if isinstance(written, Mapping):
        return {key: recorded(part, hidden) for key, part in written.items()}
    if isinstance(written, (list, tuple)):
        return [recorded(part, hidden) for part in written]
    return written


def _kept(
    parts: Sequence[str | Reference], hidden: Collection[str], *, masks: bool = False
) -> Iterator[tuple[str, bool]]:
    """The texts that stay, and which of them are references to secrets.

    A secret that is not set is not asked for again: its default stays, unless that is one itself.
    """
    for part in parts:
        if isinstance(part, str):
            yield (secrets.MASK if masks and not secrets.is_placeholder(part) else part), False
        elif part.name in hidden and part.value:
            yield f"${{{part.name}}}", True
        elif part.value:
            yield part.value, False
        else:
            yield from _kept(part.default or (), hidden, masks=masks or part.name in hidden)
