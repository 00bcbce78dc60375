"""Print how large the package is: files, code lines, comments, folders, long functions.

`make house` prints these figures; none of them is a limit. CI fails on the direction and the
circles of imports (import-linter), on complexity and the number of parameters (ruff), and on
functions of more than `LONG_FUNCTION` lines or of more than `COMPLEX_FUNCTION` paths
(`tests/test_architecture.py`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import median

LONG_FUNCTION = 60
COMPLEX_FUNCTION = 20  # the last of rank C in radon; ruff's C901 does not look into comprehensions
LONG_COMPREHENSION = 4
LONG_MODULE = 450

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)


@dataclass(frozen=True)
class SourceFile:
    """A parsed Python file of a package."""

    path: Path
    """Relative to the folder of the package."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes, parents first."""
        return list(ast.walk(self.tree))

    @cached_property
    def statements(self) -> list[ast.AST]:
        """The module, and every statement and `except` or `case` branch in it, parents first."""
        statements: list[ast.AST] = [self.tree]
        for node in statements:  # grows meanwhile; expressions, nine in ten nodes, are left out
            for block in _BLOCKS:
                statements.extend(getattr(node, block, ()))
        return statements

    @cached_property
    def docstring_lines(self) -> set[int]:
        """Line numbers of all statements that are a text alone."""
        return _lines_of(node for node in self.statements if _is_text(node))

    @cached_property
    def comment_lines(self) -> set[int]:
        """Line numbers of comments that have a line of their own."""
        lines = enumerate(self.text.splitlines(), 1)
        return {number for number, line in lines if line.lstrip().startswith("#")}

    @property
    def comments(self) -> int:
        """Count the lines with a comment, behind code or alone."""
        lines = self.text.splitlines()
        return len(self.comment_lines) + sum("  # " in lines[n - 1] for n in self.code_lines)

    @cached_property
    def code_lines(self) -> set[int]:
        """Line numbers that are neither blank, comment nor docstring."""
        lines = enumerate(self.text.splitlines(), 1)
        filled = {number for number, line in lines if line.strip()}
        return filled - self.comment_lines - self.docstring_lines

    @property
    def import_lines(self) -> set[int]:
        return _lines_of(n for n in self.statements if isinstance(n, (ast.Import, ast.ImportFrom)))

    def long_functions(self) -> list[str]:
        """Functions of more than `LONG_FUNCTION` lines; docstrings do not count."""
        return [
            f"{self.path}:{node.lineno} {node.name}"
            for node in self.statements
            if isinstance(node, _FUNCTIONS)
            and node.end_lineno - node.lineno >= LONG_FUNCTION
            and len(_lines_of([node]) - self.docstring_lines) > LONG_FUNCTION
        ]

    def complex_functions(self) -> list[str]:
        """Functions of more than `COMPLEX_FUNCTION` paths, as radon counts them."""
        return [
            f"{self.path}:{node.lineno} {node.name}"
            for node in self.statements
            if isinstance(node, _FUNCTIONS) and count_paths(node) > COMPLEX_FUNCTION
        ]

    @cached_property
    def comprehensions(self) -> list[ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp]:
        return [node for node in self.nodes if isinstance(node, _COMPREHENSIONS)]

    def dense_expressions(self) -> list[str]:
        """Comprehensions that should be loops, and conditional expressions inside others."""
        places = []
        for node in self.comprehensions:
            if len(_lines_of([node])) > LONG_COMPREHENSION:
                places.append(f"{self.path}:{node.lineno} long comprehension")
            if len(node.generators) > 1 and any(part.ifs for part in node.generators):
                places.append(f"{self.path}:{node.lineno} two `for` and a condition")
        for outer in self.nodes:
            if isinstance(outer, ast.IfExp):
                inner = [node for node in ast.walk(outer) if isinstance(node, ast.IfExp)]
                if len(inner) > 1:
                    places.append(f"{self.path}:{outer.lineno} nested conditional")
        return places

    def stray_strings(self) -> list[str]:
        """Strings that stand alone and document neither a definition nor the name above them."""
        places = []
        for node in self.statements:
            for block_name in _BLOCKS:
                block = getattr(node, block_name, ())
                target: ast.AST | None = node if isinstance(node, _DOCUMENTED) else None
                for statement in block:
                    if _is_text(statement) and target is None:
                        places.append(f"{self.path}:{statement.lineno}")
                    is_assignment = isinstance(statement, (ast.Assign, ast.AnnAssign))
                    target = statement if is_assignment else None
        return places


def count_paths(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the cyclomatic complexity of a function as radon counts it.

    Unlike C901, comprehensions, their conditions and the operands of `and` and `or` count.
    Functions that are defined inside count by themselves.
    """
    paths, nodes = 1, list[ast.AST](function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, _FUNCTIONS):
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Try):
            paths += len(node.handlers) + bool(node.orelse)
        elif isinstance(node, ast.BoolOp):
            paths += len(node.values) - 1
        elif isinstance(node, (ast.If, ast.IfExp, ast.Assert)):
            paths += 1
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            paths += 1 + bool(node.orelse)
        elif isinstance(node, ast.comprehension):
            paths += 1 + len(node.ifs)
        elif isinstance(node, ast.Match):
            paths += len(node.cases)
    return paths


def _is_text(node: ast.AST) -> bool:
    constant = node.value if isinstance(node, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


def _lines_of(nodes: Iterable[ast.AST]) -> set[int]:
    lines: set[int] = set()
    for node in nodes:
        lines.update(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]
    return lines


def read_package(root: Path) -> Iterator[SourceFile]:
    """Yield every Python file below a folder, in the order of their paths."""
    for path in sorted(root.rglob("*.py")):
        yield SourceFile(path.relative_to(root), path.read_text(encoding="utf-8"))


@cache
def read_once(root: Path) -> tuple[SourceFile, ...]:
    """Return the Python files of a package that nobody changes meanwhile, parsed only once."""
    return tuple(read_package(root))


def print_sizes(root: Path) -> None:
    """Print the figures of a package, then its largest folders, modules and functions."""
    files = list(read_package(root))
    code = {file: len(file.code_lines) for file in files}
    total = sum(code.values())
    comments = sum(file.comments for file in files)
    docstrings = sum(len(file.docstring_lines) for file in files)
    imports = sum(len(file.import_lines) for file in files)
    comprehensions = sum(len(file.comprehensions) for file in files)
    folders: Counter[str] = Counter()
    for file, lines in code.items():
        folders[file.path.parent.as_posix()] += lines
    modules = Counter(file.path.parent.as_posix() for file in files)
    for name, figure in (
        ("files", f"{len(files):,}"),
        ("code lines", f"{total:,}"),
        ("code lines of the median file", f"{median(code.values()):g}"),
        ("lines of the median file", f"{median(len(f.text.splitlines()) for f in files):g}"),
        ("imports, % of code", f"{100 * imports / total:.1f}"),
        ("docstrings, % of code", f"{100 * docstrings / total:.1f}"),
        ("comments, % of code", f"{100 * comments / total:.1f}"),
        ("comprehensions per 100 code lines", f"{100 * comprehensions / total:.1f}"),
    ):
        print(f"{name:<40}{figure:>10}")
    print("\ncode lines of each folder, and its modules")
    for folder, lines in folders.most_common():
        print(f"{folder:<40}{lines:>10,}{modules[folder]:>6}")
    print(f"\nmodules of more than {LONG_MODULE} code lines")
    for file, lines in code.items():
        if lines > LONG_MODULE:
            print(f"{file.path} {lines}")
    print(f"\nfunctions of more than {LONG_FUNCTION} lines")
    for name in (name for file in files for name in file.long_functions()):
        print(name)


if __name__ == "__main__":
    print_sizes(Path(__file__).parents[1] / "ragbench")
