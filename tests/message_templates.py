"""Collect the templates of messages in the package, and print those that break the rules of style.

A template is the text of an error, a note, a warning or a usage error, with typical values for what
is known only at run time: a file is `data/questions.csv`, an id `q17`, a measure `ndcg@10`. Three
rules are checked: at most `LONGEST` characters a line, no part that is said twice (`error: error`,
a file named by the text and by the place), and no id of a query without the text of its question.

`python -m tests.message_templates` prints the offenders and their counts; `--all` every template.
`tests/message_templates.txt` has the reviewed ones, with a reason each.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from tests.house import SourceFile, read_package

REVIEWED_FILE = Path(__file__).with_name("message_templates.txt")
LONGEST = 200

# A part of a template: the text, or the expression of an unknown value in braces.
_HOLE = re.compile("\x01([^\x02]*)\x02")
# Ending of the last word of an expression -> a typical value of it.
_TYPICAL = (
    ("query_id|qid|query", "q17"),
    ("question|text|sentence|title|quote|utterance", "What is the capital of Norway?"),
    ("file|path|folder|source|place|where|origin|config|run", "data/questions.csv"),
    ("line|number|count|n|k|rows|len|rank|level|grade|size|total|position", "12"),
    ("url|address|endpoint", "http://localhost:8000/v1"),
    ("error|reason|cause|detail|problem|fault|why|strerror|found", "connection refused by server"),
    ("allowed|names|columns|systems|keys|measures|labels|choices|known", "bm25, dense, hybrid"),
    ("measure|metric", "ndcg@10"),
    ("noun|word|kind|type|verb|unit", "answer"),
    ("plural|s|end|ending|mark|extra_s", "s"),
)
_OTHER_VALUE = "bm25-tuned"

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Parameters of the errors that hold the parts of a text, in the order of their positions.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "DataError": ("found",),
    "OptionError": ("owner", "option", "found", "allowed", "nearest"),
    "Problem": ("found", "file", "line", "column", "path", "allowed", "nearest", "source"),
    "GateProblem": ("key", "found", "allowed", "nearest"),
    "MissingExtra": ("subject", "package", "extra"),
    "CallFailure": ("cause", "detail"),
}
_OF_DATA = ("FolderLocked", "DiskFull", "UnknownIds", "UnclearColumns", "UnclearAnswer")
_OF_TEXT = (
    *("AdapterError", "ExportError", "Unreadable", "Broken", "UnclearTrace", "TextTooLong"),
    *("UsageError", "BadParameter", "ClickException", "YamlError", "ScalarError", "WorkerEnded"),
    *("ValueError", "TypeError", "RuntimeError"),
)
_SINKS = re.compile("(write_)?notes?|warn(ing)?s?|refuse|echo|echo_wrapped|fail")
_NOTE_FUNCTION = re.compile("(.*_)?(notes?|warnings?|advice|hint|remark)(_of|_for)?")


@dataclass(frozen=True)
class Template:
    """Text of a message, with typical values in place of unknown ones.

    Attributes:
        path: File, relative to the folder of the package.
        line: Line of the call that makes the message.
        kind: Class of the error, or `note`.
        text: The filled text.
        holes: Expressions of the unknown values, in order.
        file: Expression of the file that the error names as its place; '' without one.
    """

    path: str
    line: int
    kind: str
    text: str
    holes: tuple[str, ...]
    file: str = ""

    @property
    def longest_line(self) -> int:
        return max(map(len, self.text.split("\n")))

    @property
    def faults(self) -> list[str]:
        """Rules that the template breaks: `long`, `twice`, `id alone`."""
        faults = []
        if self.longest_line > LONGEST:
            faults.append("long")
        if _is_said_twice(self):
            faults.append("twice")
        if _has_id_alone(self.holes):
            faults.append("id alone")
        return faults

    def __str__(self) -> str:
        """Render as `path:line: kind: length: text`."""
        return f"{self.path}:{self.line}: {self.kind}: {self.longest_line}: {self.text}"


def _is_said_twice(template: Template) -> bool:
    """Return True if a first word repeats, or the text begins with the file of the place."""
    repeats = re.match(r"(error|note|warning): ?\1\b", template.text) is not None
    return repeats or (template.file != "" and template.file in template.holes)


_ID = re.compile(r"\b(query_ids?|qid|query\.id|question_id)\b")
_QUESTION = re.compile(r"question|text|describe|query_label|quote|excerpt", re.IGNORECASE)


def _has_id_alone(holes: Sequence[str]) -> bool:
    """Return True if a value is the id of a query, and none is the text of the question."""
    ids = [hole for hole in holes if _ID.search(hole) and not hole.startswith("len(")]
    others = [hole for hole in holes if hole not in ids]
    return bool(ids) and not any(_QUESTION.search(hole) for hole in [*others, *ids])


@dataclass
class _Module:
    """Constants, functions and imported names of a module."""

    path: str
    constants: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> (module, name)


@dataclass
class _Scope:
    """Values of local names, which are expressions or texts."""

    module: _Module
    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    depth: int = 0


class Package:
    """Modules of a package, with the texts that their expressions stand for."""

    def __init__(self, files: Iterable[SourceFile]) -> None:
        self.files = list(files)
        self.modules: dict[str, _Module] = {}
        self._local: dict[Function, dict[str, list[ast.expr]]] = {}
        self.makers: defaultdict[str, list[tuple[_Module, Function]]] = defaultdict(list)
        for file in self.files:
            module = _read_module(file)
            self.modules[file.path.as_posix()] = module
            for node in file.nodes:
                if isinstance(node, _FUNCTIONS) and _makes_error(node):
                    self.makers[node.name].append((module, node))

    def templates(self) -> Iterator[Template]:
        """Yield the templates of all modules, in the order of paths and lines."""
        for file in self.files:
            module = self.modules[file.path.as_posix()]
            templates = self._templates_of(file.tree, module, None)
            yield from sorted(templates, key=lambda template: template.line)

    def _templates_of(
        self, node: ast.AST, module: _Module, function: Function | None
    ) -> Iterator[Template]:
        """Yield the templates below a node, which stands in a function or in none."""
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, _FUNCTIONS) else function
            yield from self._templates_of(child, module, inner)
            if isinstance(child, ast.Call):
                yield from self._of_call(child, _Scope(module, self._values(function)))
            elif function is not None and _is_returned_note(child, function):
                yield from self._notes(child.value, _Scope(module, self._values(function)))

    def _values(self, function: Function | None) -> dict[str, list[ast.expr]]:
        """Return the values of the local names of a function, which are read once."""
        if function is None:
            return {}
        if function not in self._local:
            self._local[function] = _local_values(function)
        return self._local[function]

    def _of_call(self, call: ast.Call, scope: _Scope) -> Iterator[Template]:
        """Yield the template of a call that makes an error, or the notes that it is given."""
        name = _last_name(call.func)
        text = self._error_text(call, scope)
        if text is not None:
            file = next((ast.unparse(k.value) for k in call.keywords if k.arg == "file"), "")
            yield _template(scope.module.path, call.lineno, name, text, file)
        elif _is_sink(call.func):
            for argument in call.args:
                yield from self._notes(argument, scope)

    def _notes(self, node: ast.expr, scope: _Scope) -> Iterator[Template]:
        """Yield a template for each text of an expression: a text, or a list of them."""
        if isinstance(node, (ast.List, ast.Tuple)):
            for element in node.elts:
                yield from self._notes(element, scope)
        elif isinstance(node, ast.IfExp):
            yield from self._notes(node.body, scope)
            yield from self._notes(node.orelse, scope)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            yield from self._notes(node.elt, scope)
        elif isinstance(node, (ast.JoinedStr, ast.Constant, ast.BinOp, ast.Name)):
            text = self.text_of(node, scope)
            if len(_HOLE.sub("", text).split()) > 2:
                yield _template(scope.module.path, node.lineno, "note", text)

    def text_of(self, node: ast.expr | None, scope: _Scope) -> str:
        """Return the text of an expression, with the unknown values marked as holes."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text_of(part, scope) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            text = self.text_of(node.value, scope)
            return f"'{text}'" if node.conversion == ord("r") else text
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.text_of(node.left, scope) + self.text_of(node.right, scope)
        if isinstance(node, ast.IfExp):
            return self._longest([node.body, node.orelse], scope)
        if isinstance(node, ast.BoolOp):
            return self._longest(node.values, scope)
        if isinstance(node, ast.Name):
            return self._text_of_name(node, scope)
        if isinstance(node, ast.Call):
            return self._text_of_call(node, scope)
        return _hole(node)

    def _longest(self, nodes: Iterable[ast.expr], scope: _Scope) -> str:
        return max((self.text_of(node, scope) for node in nodes), key=lambda text: len(_fill(text)))

    def _text_of_name(self, node: ast.Name, scope: _Scope) -> str:
        if node.id in scope.texts:
            return scope.texts[node.id]
        expressions = [v for v in scope.values.get(node.id, ()) if _is_text(v)]
        if expressions and scope.depth < 6:
            # a text that grows is read once: `text = f"{text}, and more"`
            further = {name: values for name, values in scope.values.items() if name != node.id}
            inner = _Scope(scope.module, further, scope.texts, scope.depth + 1)
            return self._longest(expressions, inner)
        constant = self._constant(node.id, scope.module)
        return _hole(node) if constant is None else constant

    def _constant(self, name: str, module: _Module) -> str | None:
        """Return the text of a constant of the module, or of one that it imports."""
        if name in module.constants:
            return self.text_of(module.constants[name], _Scope(module, depth=5))
        path, original = module.imports.get(name, ("", ""))
        source = self.modules.get(path)
        return self._constant(original, source) if source is not None else None

    def _text_of_call(self, call: ast.Call, scope: _Scope) -> str:
        name = _last_name(call.func)
        if name == "join" and isinstance(call.func, ast.Attribute):
            return self._joined(call, scope)
        if name in ("str", "repr", "quote", "printable") and len(call.args) == 1:
            return self.text_of(call.args[0], scope)
        error = self._error_text(call, scope)
        if error is not None:
            return error
        function = scope.module.functions.get(name)
        if function is not None and scope.depth < 4:
            return self._returned(function, call, scope, scope.module)
        path, original = scope.module.imports.get(name, ("", ""))
        source = self.modules.get(path)
        if source is not None and original in source.functions and scope.depth < 4:
            return self._returned(source.functions[original], call, scope, source)
        return _hole(call)

    def _joined(self, call: ast.Call, scope: _Scope) -> str:
        """Return the text of `separator.join(...)`: its elements, or three typical names."""
        assert isinstance(call.func, ast.Attribute)
        separator = self.text_of(call.func.value, scope)
        argument = call.args[0]
        if isinstance(argument, (ast.List, ast.Tuple)):
            return separator.join(self.text_of(element, scope) for element in argument.elts)
        return f"\x01names_of({ast.unparse(argument)}).names\x02"

    def _returned(self, function: Function, call: ast.Call, scope: _Scope, module: _Module) -> str:
        """Return the longest text that a function returns for the arguments of a call."""
        returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        expressions = [node for node in returns if node is not None and _is_text(node)]
        if not expressions:
            return _hole(call)
        texts = self._bound(function, call, scope)
        inner = _Scope(module, self._values(function), texts, scope.depth + 1)
        return self._longest(expressions, inner)

    def _bound(self, function: Function, call: ast.Call, scope: _Scope) -> dict[str, str]:
        """Return parameter -> text of its argument."""
        parameters = [argument.arg for argument in function.args.args if argument.arg != "self"]
        texts = {}
        for parameter, node in zip(parameters, call.args, strict=False):
            texts[parameter] = self.text_of(node, scope)
        for keyword in call.keywords:
            if keyword.arg is not None:
                texts[keyword.arg] = self.text_of(keyword.value, scope)
        return texts

    def _error_text(self, call: ast.Call, scope: _Scope) -> str | None:
        """Return the message of a call that makes an error; None for any other call."""
        name = _last_name(call.func)
        if name in _OF_TEXT:
            return self.text_of(call.args[0], scope) if call.args else None
        kind = "DataError" if name in _OF_DATA else name
        if kind in _PARAMETERS:
            return self._assembled(kind, call, scope)
        if name == "problem":
            return self._assembled_at(call, scope)
        maker = self._maker(call.func, name, scope.module)
        if maker is None or scope.depth > 3:
            return None
        module, function = maker
        return self._returned_error(function, call, scope, module)

    def _maker(
        self, called: ast.expr, name: str, module: _Module
    ) -> tuple[_Module, Function] | None:
        """Return the function that a call names: of the module, imported by it, or a method."""
        makers = self.makers.get(name, ())
        source = module.imports.get(name, ("", ""))[0]
        for maker in makers:
            if maker[0] is module or maker[0].path == source:
                return maker
        return makers[0] if makers and isinstance(called, ast.Attribute) else None

    def _returned_error(
        self, function: Function, call: ast.Call, scope: _Scope, module: _Module
    ) -> str | None:
        texts = self._bound(function, call, scope)
        inner = _Scope(module, self._values(function), texts, scope.depth + 1)
        calls = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        messages = [self._error_text(node, inner) for node in calls if isinstance(node, ast.Call)]
        return max((m for m in messages if m is not None), key=len, default=None)

    def _assembled_at(self, call: ast.Call, scope: _Scope) -> str:
        """Return the text of `Place.problem`, whose hint stands below the quoted line."""
        parts = self._parts(("found", "path", "allowed", "nearest"), call, scope)
        head = f"configs/example.yaml:12:8: {parts.get('path', '')}: {parts.get('found', '')}"
        return f"{head}\n     | ^^^ {_hint(parts)}"

    def _assembled(self, kind: str, call: ast.Call, scope: _Scope) -> str:
        """Return the message of an error class for the arguments of a call."""
        parts = self._parts(_PARAMETERS[kind], call, scope)
        if kind == "OptionError":
            place = ": ".join(parts[key] for key in ("owner", "option") if parts.get(key))
            return f"{place}: found '{parts.get('found', '')}', {_hint(parts)}"
        if kind == "MissingExtra":
            advice = parts.get("advice", f"pip install 'ragbench-eval[{parts.get('extra', '')}]'")
            return f"{parts.get('subject', '')} needs {parts.get('package', '')}: {advice}"
        if kind == "CallFailure":
            return f"{parts.get('cause', '')}: {parts.get('detail', '')}"
        if kind in ("Problem", "GateProblem"):
            head = f"configs/example.yaml:12:8: {parts.get('path', 'gates.0')}: {parts['found']}"
            return f"{head}\n     | ^^^ {_hint(parts)}"
        file = "\x01place.file\x02:12" if "file" in parts or "line" in parts else ""
        head = ": ".join(part for part in (file, parts.get("record", ""), parts["found"]) if part)
        hint = _hint(parts)
        return f"{head}; {hint}" if hint else head

    def _parts(self, names: Sequence[str], call: ast.Call, scope: _Scope) -> dict[str, str]:
        parts = {k.arg: k.value for k in call.keywords if k.arg is not None}
        parts |= dict(zip(names, call.args, strict=False))
        return {
            name: self.text_of(node, scope)
            for name, node in parts.items()
            if not (isinstance(node, ast.Constant) and node.value is None)
        }


def _hint(parts: Mapping[str, str]) -> str:
    nearest = "did you mean 'bm25-tuned'? " if parts.get("nearest") else ""
    allowed = f"allowed: {parts['allowed']}" if parts.get("allowed") else ""
    return f"{nearest}{allowed}".strip()


def _read_module(file: SourceFile) -> _Module:
    module = _Module(file.path.as_posix())
    for node in file.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            module.constants[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            module.constants[node.target.id] = node.value
        elif isinstance(node, _FUNCTIONS):
            module.functions[node.name] = node
    for node in file.nodes:
        source = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and source.startswith("ragbench."):
            path = f"{source.removeprefix('ragbench.').replace('.', '/')}.py"
            for name in node.names:
                module.imports[name.asname or name.name] = (path, name.name)
    return module


def _makes_error(function: Function) -> bool:
    """Return True for a function whose annotation says that it returns an error."""
    returns = "" if function.returns is None else ast.unparse(function.returns)
    return re.search(r"(Error|Unreadable|CallFailure|MissingExtra|Problem)\b", returns) is not None


def _local_values(function: Function) -> dict[str, list[ast.expr]]:
    """Return local name -> the expressions that a function assigns to it."""
    values: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            _assign(target, node.value, values)
    return values


def _assign(target: ast.expr, value: ast.expr, values: dict[str, list[ast.expr]]) -> None:
    """Add the value of an assignment, or those of several names: `a, b = 1, 2`."""
    if isinstance(target, ast.Name):
        values[target.id].append(value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for name, element in zip(target.elts, value.elts, strict=False):
            _assign(name, element, values)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, (ast.JoinedStr, ast.IfExp, ast.BinOp, ast.BoolOp, ast.Call, ast.Name))


def _is_returned_note(node: ast.AST, function: Function) -> TypeGuard[ast.Return | ast.Yield]:
    """Return True for what a function returns or yields whose name ends in `notes` and the like."""
    is_output = isinstance(node, (ast.Return, ast.Yield)) and node.value is not None
    return is_output and _NOTE_FUNCTION.fullmatch(function.name) is not None


def _is_sink(function: ast.expr) -> bool:
    """Return True for a call that takes notes: `echo(...)`, `notes.append(...)`."""
    name = _last_name(function)
    if name in ("append", "extend") and isinstance(function, ast.Attribute):
        name = _last_name(function.value)
    return _SINKS.fullmatch(name.strip("_")) is not None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _hole(node: ast.AST | None) -> str:
    return f"\x01{'' if node is None else ast.unparse(node)}\x02"


def _typical(expression: str) -> str:
    """Return a typical value of an expression, by the last name in it."""
    if expression.startswith(("len(", "sum(", "counted(")):
        return "12"
    names = re.findall(r"[A-Za-z_]\w*", expression)
    last = names[-1] if names else ""
    for pattern, value in _TYPICAL:
        if re.fullmatch(rf"(.*_)?({pattern})", last):
            return value
    return _OTHER_VALUE


def _fill(text: str) -> str:
    return _HOLE.sub(lambda match: _typical(match[1]), text)


def _template(path: str, line: int, kind: str, text: str, file: str = "") -> Template:
    return Template(path, line, kind, _fill(text), tuple(_HOLE.findall(text)), file)


def collect(root: Path) -> list[Template]:
    """Return the templates of a package, each once."""
    return [*dict.fromkeys(Package(read_package(root)).templates())]


def read_reviewed(text: str) -> frozenset[tuple[str, str]]:
    """Read the lines `PATH | FAULT | REASON`; `#` begins a comment.

    Raises:
        ValueError: A line has another form, such as a fault without a reason.
    """
    reviewed = set()
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            path, fault, _ = line.split(" | ", maxsplit=2)
            reviewed.add((path, fault))
    return frozenset(reviewed)


def find_offenders(
    templates: Iterable[Template], reviewed: frozenset[tuple[str, str]]
) -> list[str]:
    """Return `fault: template` for each fault that is not reviewed."""
    return [
        f"{fault}: {template}"
        for template in templates
        for fault in template.faults
        if (template.path, fault) not in reviewed
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the offenders, or all templates, and the counts; return 1 if one is not reviewed."""
    templates = collect(Path(__file__).parents[1] / "ragbench")
    if "--all" in arguments:
        print(*templates, sep="\n")
    offenders = find_offenders(templates, read_reviewed(REVIEWED_FILE.read_text(encoding="utf-8")))
    for offender in offenders:
        print(offender, file=sys.stderr)
    faults = Counter(fault for template in templates for fault in template.faults)
    counts = ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items()))
    print(f"{len(templates)} messages; {counts or 'no fault'}; not reviewed: {len(offenders)}")
    return 1 if offenders else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
