"""The source of a package, module by module and function by function: by AST and tokens alone."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)


@dataclass(frozen=True)
class Function:
    """One function or method."""

    name: str
    lines: int
    """Without its docstring."""
    complexity: int
    """As ruff counts it for C901."""
    parameters: int
    excepted: str
    """The comment beside its name: `noqa: PLR0913  why`, or `long: why`."""


@dataclass(frozen=True)
class Module:
    """One file of the package, read."""

    path: Path
    name: str
    """Dotted, `ragbench.cli.run`; a package has the name of its folder."""
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def folder(self) -> str:
        """The dotted name of its folder."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def docstring_lines(self) -> set[int]:
        """Lines of every string that stands for itself."""
        return _covered(node for node in self.nodes if _is_text(node))

    def strings_of_nothing(self) -> list[str]:
        """Strings that stand for themselves and document neither what they open nor a name."""
        found = []
        for node in self.nodes:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                before: ast.AST | None = node if isinstance(node, _DOCUMENTED) else None
                for each in block if isinstance(block, list) else ():
                    if _is_text(each) and before is None:
                        found.append(f"{self.name}:{each.lineno}")
                    before = each if isinstance(each, (ast.Assign, ast.AnnAssign)) else None
        return found

    @cached_property
    def import_lines(self) -> set[int]:
        return _covered(n for n in self.nodes if isinstance(n, (ast.Import, ast.ImportFrom)))

    @property
    def comments(self) -> int:
        """How many there are, without the reasons and orders for tools."""
        tools = ("# noqa", "# type:", "# pragma")
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        comments = (t.string for t in tokens if t.type == tokenize.COMMENT)
        return sum(not comment.startswith(tools) for comment in comments)

    @cached_property
    def code_lines(self) -> set[int]:
        """Lines with anything but comments, blanks and docstrings."""
        starts = (line.lstrip() for line in self.text.split("\n"))
        found = {n for n, start in enumerate(starts, 1) if start and not start.startswith("#")}
        # a blank line within a text is one of its lines
        texts = (n for n in self.nodes if isinstance(n, (ast.Constant, ast.JoinedStr)))
        return (found | _covered(n for n in texts if n.end_lineno != n.lineno)) - (
            self.docstring_lines
        )

    def functions(self) -> Iterator[Function]:
        source = self.text.splitlines()
        for node in self.nodes:
            if isinstance(node, _FUNCTIONS):
                body = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                head = " ".join(source[node.lineno - 1 : node.body[0].lineno])
                arguments = node.args
                named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                yield Function(
                    f"{self.name}:{node.name}",
                    len(set(body) - self.docstring_lines),
                    1 + _decisions(node.body),
                    sum(argument.arg not in ("self", "cls") for argument in named),
                    head.partition("  # ")[2],
                )

    def imported(self, modules: Mapping[str, Module]) -> set[str]:
        """The modules of the package that it imports, wherever in it the import stands."""
        found = set()
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                # `from package import module` imports the module, `from module import name` not
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= (inner & modules.keys()) or {node.module}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names} & modules.keys()
        return found - {self.name}


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a string alone."""
    constant = node.value if isinstance(node, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


def _covered(nodes: Iterator[ast.AST]) -> set[int]:
    found: set[int] = set()
    for node in nodes:
        found.update(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]
    return found


def _decisions(statements: list[ast.stmt]) -> int:
    """Count the branches of a body as ruff does for C901: statements, no conditions in them."""
    count = 0
    for node in statements:
        if isinstance(node, ast.ClassDef):
            count += _decisions([n for n in node.body if isinstance(n, ast.FunctionDef)])
            continue
        for name in ("body", "orelse", "finalbody"):
            count += _decisions(getattr(node, name, []))
        if isinstance(node, (ast.If, ast.For, ast.AsyncFor, ast.While, *_FUNCTIONS)):
            count += 1
        elif isinstance(node, ast.Try):
            count += len(node.handlers) + bool(node.orelse)
            count += sum(_decisions(handler.body) for handler in node.handlers)
        elif isinstance(node, ast.Match):
            count += sum(1 + _decisions(case.body) for case in node.cases)
            # `case _:` is the else of a match
            count -= ast.unparse(node.cases[-1].pattern) == "_"
    return count


def read_modules(root: Path) -> Iterator[Module]:
    """Yield every module below the folder of a package, in the order of their paths."""
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(path, name, path.read_text(encoding="utf-8"))
