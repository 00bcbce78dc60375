"""The package as a house: how big it is, how many rooms, how crowded; `make house` prints it.

Read by AST and tokens, with the standard library alone. Each figure with a limit must keep it, and
`tests/test_architecture.py` holds that in CI. A limit is a ratchet: when a figure has fallen, lower
its limit in the same change; raise one only with a reason beside it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import median

from tests.source import Function, Module, read_modules

LIMITS: dict[str, float] = {
    # what came since the goals were set: score and tilting intervals, plans by them, histories of
    # commits and their evidence; queries held against each other, values of variables, failures of
    # single answers; words of every script; models that refuse options; one redactor, one door for
    # what is printed; salvage of damaged caches, calls that runs share; where answers are lost, and
    # single queries shown; judges that ran elsewhere, correlations by level; tables with gold in
    # any writing over a corpus of files; passages that are read together, batches of calls;
    # nuggets and support of TREC RAG, the metrics of ragas; earlier turns and tool calls; every
    # query on the page, pictures; tables and functions that a program holds; rows of one question;
    # traces of five tools, and their writer; workers, here and on Ray; pages of several runs, with
    # their trends; pictures for papers; claims as data; what judges were sent; indexes
    # and corpora that are mapped; rankings and tables by columns; a start of `score`
    # without modules that it does not use; searches over chunks, and by rm3, on workers; questions
    # and gold of many records, which are read one by one
    "files": 340,
    "lines": 85_392,
    "imports, % of code": 10,
    "modules in a folder": 15,
    "modules in a family's folder": 17,
    "modules over 450 lines": 0,
    "functions over 60 lines": 0,
    "functions more complex than 12": 0,
    "functions with more than 8 parameters": 0,
    "names that differ by a letter": 0,
    "modules under 100 lines with one user": 0,
    "circles inside folders": 0,
    # bodies of requests and errors, which clients and servers write as they like
    "Any": 977,
    "dict[str, Any]": 316,
    "results read by string key": 0,
}
"""Figure -> the most that it may be."""

GOALS: dict[str, float] = {
    "files": 340,
    "lines": 52_500,
    "imports, % of code": 10.0,
    "modules under 100 lines with one user": 0,
    "results read by string key": 0,
}
"""Figure -> where its limit has to go; for all others the limit is the goal."""

FAMILIES = {
    "cli": "a command each",
    "score/retrieval": "a group of measures each",
    "score/text": "a metric each",
    "stats": "a statistic each",
}
"""Folder of like files -> what each of its files is; such a folder may be larger."""

RESULTS = (
    *("calibration", "cli", "comparison", "data.runs", "experiment", "gates", "records", "report"),
)
"""The folders in which a mapping that is read by a string key is a result, see `reads_by_key`."""

AT_THE_BORDER = {
    "records.summary": ("renewed", "_without_times"),  # JSON of older versions, for the codec
    "experiment.stages.item_json": ("has_value",),  # of each item that is spooled: it must be quick
    "experiment.stages.judging": ("read",),  # a stored item, of which it makes a verdict
}
"""Module -> its functions that are given JSON and make a record of it, so that they read keys."""

LONG_MODULE, SHORT_MODULE = 450, 100
LONG_FUNCTION, COMPLEX_FUNCTION, MANY_PARAMETERS = 60, 12, 8


class House:
    """The modules of a package, and what they measure."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = {module.name: module for module in read_modules(root)}

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        return {name: module.imported(self.modules) for name, module in self.modules.items()}

    @cached_property
    def functions(self) -> list[Function]:
        return [each for module in self.modules.values() for each in module.functions()]

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """Code, import and docstring lines."""
        modules = self.modules.values()
        return (
            sum(len(module.code_lines) for module in modules),
            sum(len(module.import_lines) for module in modules),
            sum(len(module.docstring_lines) for module in modules),
        )

    @cached_property
    def folders(self) -> dict[str, list[Module]]:
        """Folder, relative to the root -> its modules without `__init__`."""
        found: dict[str, list[Module]] = defaultdict(list)
        for module in self.modules.values():
            if not module.is_package:
                found[module.path.parent.relative_to(self.root).as_posix()].append(module)
        return found

    def crowded(self, families: bool) -> list[str]:
        """Folders by how many modules they hold, the fullest first."""
        counts = [(len(m), f) for f, m in self.folders.items() if (f in FAMILIES) is families]
        return [f"{folder} {count}" for count, folder in sorted(counts, reverse=True)]

    def long_modules(self) -> list[str]:
        return [name for name, module in self.modules.items() if module.lines > LONG_MODULE]

    def functions_beyond(self, what: str, limit: int, rule: str) -> list[str]:
        """Functions beyond a limit whose definition gives no reason for it."""
        return [
            f"{each.name} {getattr(each, what)}"
            for each in self.functions
            if getattr(each, what) > limit and rule not in each.excepted
        ]

    def alike(self) -> list[str]:
        """Pairs of modules of one folder whose names a reader would confuse."""
        return [
            f"{folder}: {a}, {b}"
            for folder, modules in self.folders.items()
            for a, b in combinations(sorted(module.path.stem for module in modules), 2)
            if _confusable(a, b)
        ]

    def single_user(self) -> list[str]:
        """Short modules that one other module imports, and no table names."""
        users = Counter(name for imported in self.imports.values() for name in imported)
        return [
            name
            for name, module in self.modules.items()
            if module.lines < SHORT_MODULE
            and not module.is_package
            and users[name] == 1
            and name not in self._named
        ]

    @cached_property
    def _named(self) -> set[str]:
        """Modules that a table loads by name: members of families, homes of public names."""
        found = set()
        for module in self.modules.values():
            for node in module.nodes:
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    word, colon, _ = node.value.partition(":")
                    # a bare word that a module happens to be called by names none
                    found.add(word)
                    if colon or word.startswith("."):
                        found.add(f"{module.folder}.{word.removeprefix('.')}")
        return found & self.modules.keys()

    def circles(self) -> list[str]:
        """Modules and folders side by side that import each other in a circle."""
        found = []
        for folder in {module.folder for module in self.modules.values()}:
            graph: dict[str, set[str]] = defaultdict(set)
            for name, imported in self.imports.items():
                here = _child(folder, name)
                there = {child for other in imported if (child := _child(folder, other))}
                if here:
                    graph[here] |= there - {here}
            found += [f"{folder}: {', '.join(sorted(circle))}" for circle in _circles(graph)]
        return found

    def anys(self) -> list[str]:
        return [
            module.name
            for module in self.modules.values()
            for node in module.nodes
            if isinstance(node, ast.Name) and node.id == "Any"
        ]

    def mappings_of_any(self) -> list[str]:
        """Annotations `dict[str, Any]` and `Mapping[str, Any]`."""
        return [
            module.name
            for module in self.modules.values()
            for node in module.nodes
            if isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)  # unparsed are those alone that may be one
            and ast.unparse(node) in ("dict[str, Any]", "Mapping[str, Any]")
        ]

    def string_keys(self) -> list[str]:
        """Reads of results by a string key."""
        return [
            module.name
            for module in self.modules.values()
            if f"{module.name}.".startswith(tuple(f"{self.root.name}.{f}." for f in RESULTS))
            for _ in reads_by_key(
                module.tree, AT_THE_BORDER.get(module.name.removeprefix(f"{self.root.name}."), ())
            )
        ]


def _child(folder: str, name: str) -> str | None:
    """The direct child of a folder that a module is or lies in; None where it lies elsewhere."""
    if not name.startswith(f"{folder}."):
        return None
    return name.removeprefix(f"{folder}.").partition(".")[0]


def _circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of nodes of which each reaches each."""
    reach = {node: _reached(graph, node) for node in graph}
    groups = {
        frozenset({node} | {other for other in reach[node] if node in reach.get(other, ())})
        for node in graph
        if node in reach[node]
    }
    return [set(group) for group in groups]


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for node in graph.get(waiting.pop(), set()) - found:
            found.add(node)
            waiting.append(node)
    return found


def _confusable(a: str, b: str) -> bool:
    """Whether two names differ by a plural, an ending, or a single letter."""
    if a.rstrip("s") == b.rstrip("s"):
        return True
    if abs(len(a) - len(b)) > 1 or min(len(a), len(b)) < 4:
        return False
    same = sum(block.size for block in SequenceMatcher(None, a, b).get_matching_blocks())
    return max(len(a), len(b)) - same <= 1


_NO_RESULTS = ("options", "choices", "given", "rules", "environ", "environment", "entry.values")
"""What is no result: options, variables, and the rows of tables that people write."""


def reads_by_key(tree: ast.AST, without: Collection[str] = ()) -> list[str]:
    """Return the reads of mappings by a string key that are no tables, options or variables.

    `x["name"]`, `x.get("name")` and `x.pop("name")` read one. So does `"name" in x` where `x` is
    annotated as `dict[str, Any]`, or read by a key elsewhere in its module: of a text, a set or a
    table of one kind of value, it asks something else. What makes a record of JSON right there is
    exempt by name: `AT_THE_BORDER`.
    """
    found, asked, mappings = [], [], set()
    left_out = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in without
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            source, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr not in ("get", "pop"):
                continue
            source, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            source, key = node.comparators[0], node.left
        elif isinstance(node, ast.arg) and node.annotation is not None:
            if re.match(r"(dict|Mapping|MutableMapping)\[str, Any\]", ast.unparse(node.annotation)):
                mappings.add(node.arg)
            continue
        else:
            continue
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            continue  # before the rest, which takes long
        whole = ast.unparse(source)
        name = whole.rpartition(".")[2]
        # a word for a type, as in Literal["zero"], stands in an annotation and reads nothing
        if name == "Literal" or name.isupper() or not {name, whole}.isdisjoint(_NO_RESULTS):
            continue
        if isinstance(node, ast.Compare):
            asked.append((whole, ast.unparse(node)))
        else:
            mappings.add(whole)
            found.append(ast.unparse(node))
    return found + [text for whole, text in asked if whole in mappings]


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    value: float
    shown: list[str] = field(default_factory=list)
    """What is counted, or what is the worst."""

    @property
    def limit(self) -> float | None:
        return LIMITS.get(self.name)

    @property
    def kept(self) -> bool:
        return self.limit is None or self.value <= self.limit


def measure(root: Path) -> list[Figure]:
    """Measure the package that lies in a folder; no figure without a limit that takes seconds."""
    house = House(root)
    code, imports, docstrings = house.sizes
    lines = [module.lines for module in house.modules.values()]
    ordinary, families = house.crowded(False), house.crowded(True)

    def counted(name: str, found: list[str]) -> Figure:
        return Figure(name, len(found), found)

    def most(name: str, folders: list[str]) -> Figure:
        return Figure(name, int(folders[0].split()[-1]) if folders else 0, folders[:5])

    def beyond(name: str, what: str, limit: int, rule: str) -> Figure:
        return counted(name, house.functions_beyond(what, limit, rule))

    return [
        Figure("files", len(lines)),
        Figure("lines", sum(lines)),
        Figure("code lines", code),
        Figure("median file, lines", median(lines)),
        Figure("imports, % of code", 100 * imports / code),
        Figure("docstrings, % of code", round(100 * docstrings / code, 1)),
        most("modules in a folder", ordinary),
        most("modules in a family's folder", families),
        counted("modules over 450 lines", house.long_modules()),
        beyond("functions over 60 lines", "lines", LONG_FUNCTION, "long:"),
        beyond("functions more complex than 12", "complexity", COMPLEX_FUNCTION, "C901"),
        beyond("functions with more than 8 parameters", "parameters", MANY_PARAMETERS, "PLR0913"),
        counted("names that differ by a letter", house.alike()),
        counted("modules under 100 lines with one user", house.single_user()),
        counted("circles inside folders", house.circles()),
        counted("Any", house.anys()),
        counted("dict[str, Any]", house.mappings_of_any()),
        counted("results read by string key", house.string_keys()),
    ]


def comments(root: Path) -> Figure:
    """How much is said beside the code; to find comments takes as long as all else."""
    house = House(root)
    count = sum(module.comments for module in house.modules.values())
    return Figure("comments, % of code", round(100 * count / house.sizes[0], 1))


def main() -> int:
    """Print the table; with -v also what is counted. 1 where a limit is broken."""
    root = Path(__file__).parents[1] / "ragbench"
    figures = [*measure(root), comments(root)]
    print(f"{'figure':<40}{'value':>10}{'limit':>10}{'goal':>10}")
    for figure in figures:
        limit = "" if figure.limit is None else f"{figure.limit:,g}"
        goal = f"{GOALS[figure.name]:,g}" if figure.name in GOALS else limit
        broken = "" if figure.kept else "  broken"
        value = f"{figure.value:,.2f}".removesuffix(".00")
        print(f"{figure.name:<40}{value:>10}{limit:>10}{goal:>10}{broken}")
        if figure.shown and (broken or "-v" in sys.argv):
            for line, count in Counter(figure.shown).most_common(60):
                print(f"    {line}{f' {count}x' if count > 1 else ''}")
    return any(not figure.kept for figure in figures)


if __name__ == "__main__":
    sys.exit(main())
