"""Find names and docstrings that an engineer of the field would have to decode.

`make words` prints the offenders with their places, and the share of comments. It fails on
offenders that `tests/plain_words.txt` does not allow.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.house import SourceFile, read_package

ALLOWED_FILE = Path(__file__).with_name("plain_words.txt")

# Participles, pronouns and adverbs that stand where a noun belongs.
_VAGUE = re.compile(
    "found|each|known|own|made|said|told|given|heard|asked|shown|kept|wanted|named|written|left"
    "|lacking|missing_of|before|others|what|whose|at|seen|met|come|gone|taken|held|rest|much"
    "|first_of|thing|things|stuff|here|there|now|then|such",
    re.IGNORECASE,
)
_CLAUSE = r"what|whether|whose|that|those|which|one|each|how|where|who|it"
# A docstring that begins so has no verb, and usually no noun of the field.
_RIDDLE = re.compile(
    rf"((the one|the ones|all that|of|{_CLAUSE})\b"
    rf"|(return|give|say|tell|yield|keep|take|make|ask) (all that|{_CLAUSE})\b)",
    re.IGNORECASE,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_KINDS = ("name", "docstring", "class")


@dataclass(frozen=True)
class Offender:
    """A name or a docstring that is not plain.

    Attributes:
        kind: `name`, `docstring`, or `class` (a class name that the package has twice).
        path: The file, relative to the folder of the package.
        name: The name itself; of a docstring, the definition that it describes.
        text: The name, or the first line of the docstring.
    """

    kind: str
    path: str
    line: int
    name: str
    text: str

    def __str__(self) -> str:
        """Render as `path:line: kind: text`."""
        return f"{self.path}:{self.line}: {self.kind}: {self.text}"


@dataclass(frozen=True)
class Allowed:
    """Offenders that may stay.

    Attributes:
        names: (path, name) of each offender that has a reason to stay.
        limits: The largest number of other offenders of each kind; a kind without one has 0.
    """

    names: frozenset[tuple[str, str]]
    limits: dict[str, int]


def read_allowed(text: str) -> Allowed:
    """Read the lines `limit KIND COUNT` and `PATH NAME REASON`; `#` begins a comment.

    Raises:
        ValueError: A line has another form, such as a name without a reason.
    """
    names, limits = set(), {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        first, second, third = line.split(maxsplit=2)
        if first != "limit":
            names.add((first, second))
        elif second in _KINDS:
            limits[second] = int(third)
        else:
            raise ValueError(f"limit {second!r}: allowed: {', '.join(_KINDS)}")
    return Allowed(frozenset(names), limits)


def find_offenders(files: Iterable[SourceFile]) -> Iterator[Offender]:
    """Yield the offenders of each file, then the class names that several places use."""
    classes: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for file in files:
        path = file.path.as_posix()
        for node in file.nodes:
            for name, line in _names(node):
                if _VAGUE.fullmatch(name.strip("_")):
                    yield Offender("name", path, line, name, name)
            if isinstance(node, _DOCUMENTED):
                first_line = (ast.get_docstring(node) or "").partition("\n")[0]
                if _RIDDLE.match(first_line):
                    name, line = getattr(node, "name", "module"), getattr(node, "lineno", 1)
                    yield Offender("docstring", path, line, name, first_line)
            if isinstance(node, ast.Module):
                for statement in node.body:
                    if isinstance(statement, ast.ClassDef):
                        classes[statement.name].append((path, statement.lineno))
    for name, places in sorted(classes.items()):
        if len(places) > 1:
            text = f"{name} is also in {', '.join(f'{path}:{line}' for path, line in places[1:])}"
            yield Offender("class", *places[0], name, text)


def _names(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the name of an assigned variable, a parameter or a function, with its line."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, node.lineno
    elif isinstance(node, ast.arg):
        yield node.arg, node.lineno
    elif isinstance(node, _FUNCTIONS):
        yield node.name, node.lineno


def find_excess(offenders: Iterable[Offender], allowed: Allowed) -> list[str]:
    """Return a message for each kind with more offenders than its limit, places included."""
    by_kind: defaultdict[str, list[Offender]] = defaultdict(list)
    for offender in offenders:
        if (offender.path, offender.name) not in allowed.names:
            by_kind[offender.kind].append(offender)
    return [
        "\n".join([f"{kind}: {len(group)}, at most {limit} allowed", *map(str, group)])
        for kind, group in by_kind.items()
        if len(group) > (limit := allowed.limits.get(kind, 0))
    ]


def main(arguments: Sequence[str]) -> int:
    """Print all offenders and their counts; return 1 if a kind has too many of them."""
    root = Path(*arguments) if arguments else Path(__file__).parents[1] / "ragbench"
    files = list(read_package(root))
    offenders = list(find_offenders(files))
    allowed = read_allowed(ALLOWED_FILE.read_text(encoding="utf-8"))
    excess = find_excess(offenders, allowed)
    for offender in offenders:
        has_reason = (offender.path, offender.name) in allowed.names
        print(f"{offender}{' (allowed)' if has_reason else ''}")
    counts = Counter(offender.kind for offender in offenders)
    comments = sum(file.comments for file in files) / sum(len(file.code_lines) for file in files)
    for kind in _KINDS:
        print(f"{kind:<12}{counts[kind]:>6}, limit {allowed.limits.get(kind, 0)}")
    print(f"{'comments':<12}{100 * comments:>6.1f} % of the code lines")
    for message in excess:
        print(message.partition("\n")[0], file=sys.stderr)
    return 1 if excess else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
