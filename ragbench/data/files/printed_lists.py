"""Lists and objects in the text of a cell, as JSON, Python, NumPy and people write them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from typing import Any

from ragbench.data.files.rows import parse_json
from ragbench.types.lookups import is_list_of

# A call around the printed items, as in `np.int64(7)`, `array([1, 2])` and `frozenset({'a'})`.
_CALLS = (
    "array|asarray|tensor|Index|Series|list|tuple|set|frozenset|deque|dict_keys|dict_values|str_|"
    "u?int(?:8|16|32|64)|float(?:16|32|64)"
)
_CALL = re.compile(rf"(?:\w+\.)?(?:{_CALLS})\(")
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
# Straight quotes, and those of word processors: ‘a’, “a”, „a“, «a».
_QUOTED = (
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|"
    "[‘\u201a][^‘’\u201a]*[’‘]|[“„][^“”„]*[”“]|«[^«»]*»"
)
QUOTES = "'\"‘’\u201a“”„«»"
_NUMPY_ITEM = re.compile(
    rf"\s+|(?P<item>{_QUOTED}|[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\.\.)", re.DOTALL
)
# Between ids in a cell. Commas separate in brackets and beside quotes: titles hold commas.
SEPARATORS = re.compile(r"[;|\n\r\t、；]+")
COMMAS = re.compile(r"[,，]")
_PIECE = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?P<separator>[,，;|\n\r\t、；])|"
    rf"(?P<bare>[^{QUOTES}\[\](){{}},，;|\n\r\t、；]+)",
    re.DOTALL,
)
_ABBREVIATED = ("...", "…")


class AbbreviatedError(ValueError):
    """A printed list with `...`, which has lost items."""

    def __init__(self) -> None:
        super().__init__("is abbreviated: '...' stands for items that are lost")


def pieces_of(text: str, separators: re.Pattern[str]) -> list[str]:
    """Return the parts of a text between separators, without white space and empty parts."""
    pieces = []
    for piece in separators.split(text):
        piece = piece.strip()
        if piece:
            pieces.append(piece)
    return pieces


def is_printed(text: str) -> bool:
    """Return True for a text in the notation of a list, a set or an object: in brackets, or a call.

    Example:
        >>> is_printed("['a']"), is_printed("(a, b)"), is_printed("(a) b"), is_printed("array([1])")
        (True, True, False, True)
    """
    first, last = text[:1], text[-1:]
    return first in ("[", "{") or (last == ")" and (first == "(" or bool(_CALL.match(text))))


def read_printed(text: str) -> Any:
    """Return the value of a JSON text, or of a list, tuple, set or dictionary that Python printed.

    Prints of NumPy, whose items have no commas between them, give lists.

    Raises:
        AbbreviatedError: Items are left out, as `...` says.
        ValueError: The text is no such notation; says what JSON misses.

    Example:
        >>> read_printed("['a' 'b']"), read_printed("[12  7]"), read_printed("('a', 'b')")
        (['a', 'b'], [12, 7], ('a', 'b'))
    """
    try:
        # JSON first: it is what a cell should hold
        return parse_json(text)
    except ValueError as error:
        value = _read_python(text)
        if value is None:
            value = _read_numpy(text)
        if value is None:
            raise error
        return value


class _Unwrapped(ast.NodeTransformer):
    """Transformer that replaces calls such as `np.int64(7)` by their arguments."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Return the argument of a call; a call without any stays, as `set()`."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if not re.fullmatch(_CALLS, name or "") or len(node.args) != 1:
            return node
        argument: ast.AST = self.visit(node.args[0])
        return argument

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Return a constant; raise AbbreviatedError for `...`."""
        if node.value is Ellipsis:
            raise AbbreviatedError
        return node


def _read_python(text: str) -> Any:
    """Return a list, tuple, set or dictionary that Python printed; None for other text."""
    try:
        source = text.strip()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a backslash in a text
            tree = ast.parse(source, mode="eval").body
        if isinstance(tree, ast.Constant):
            return None
        tree = _Unwrapped().visit(tree)
        items = ast.literal_eval(tree)
        # without a call around them, whose options may be texts, as in `array(['a'], dtype='O')`
        source = ast.get_source_segment(source, tree) or source
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except AbbreviatedError:
        raise
    # literal_eval raises TypeError for a set of lists
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        return None
    if not isinstance(items, (list, tuple, set, dict)):
        return None
    # NumPy writes no commas, and Python would join such texts to one
    texts = []
    for token in tokens:
        if token.type == tokenize.STRING:
            texts.append(token.string)
    if is_list_of(items, str) and len(texts) > len(items):
        return [ast.literal_eval(text) for text in texts]
    return items


def _read_numpy(text: str) -> list[Any] | None:
    """Return the texts or numbers that NumPy printed with blanks between them; None for others."""
    if text[:1] != "[" or text[-1:] != "]":
        return None
    items, position, end = list[Any](), 1, len(text) - 1
    while position < end:
        match = _NUMPY_ITEM.match(text, position, end)
        if match is None:
            return None
        if match["item"] is not None:
            items.append(match["item"])
        position = match.end()
    if "..." in items and len(items) > 1:
        raise AbbreviatedError
    return [*map(_value_of, items)]


def _value_of(item: str) -> Any:
    """Return the text in quotes, or the number, of an item; other text as it is."""
    if item[0] in "'\"":
        try:
            return ast.literal_eval(item)
        except (SyntaxError, ValueError):
            return item[1:-1]
    if item[0] in QUOTES:
        return item[1:-1]
    try:
        return int(item)
    except ValueError:
        return float(item) if item[0] in "+-0123456789" else item


def read_ids(text: str) -> Any:
    """Return the ids in a cell in brackets or with quotes: those of `read_printed`, or bare words.

    Bare words and quoted texts stand between commas or other separators, as in `[a, 'b']` and in
    `'a', 'b'`.

    Raises:
        AbbreviatedError: Items are left out, as `...` says.
        ValueError: The text is no such notation.

    Example:
        >>> read_ids("[a, ‘b’]"), read_ids("'a', b"), read_ids("[d1 d2]")
        (['a', 'b'], ['a', 'b'], ['d1', 'd2'])
    """
    problem = ValueError("has quotes or brackets, and is no list")
    is_tuple = text[0] == "("
    if is_printed(text):
        try:
            return read_printed(text)
        except AbbreviatedError:
            raise
        except ValueError as error:
            problem = error
        if _BRACKETS.get(text[0]) != text[-1] or text[0] == "{":
            raise problem
        text = text[1:-1]
    parts = _parts(text)
    if parts is None:
        raise problem
    ids = list[str]()
    for pieces in parts:
        quoted = []
        for piece in pieces:
            if piece[0] in QUOTES:
                quoted.append(piece)
        if len(quoted) == len(pieces):
            ids += (str(_value_of(piece)) for piece in quoted)
        # `(a)` is more likely a title than a tuple
        elif len(pieces) == 1 and not is_tuple:
            ids += split_words(pieces[0])
        else:
            raise problem
    if any(name in _ABBREVIATED for name in ids) and len(ids) > 1:
        raise AbbreviatedError
    return ids


def _parts(text: str) -> list[list[str]] | None:
    """Return the quoted and bare pieces between separators; None for an open quote or a bracket."""
    parts: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None:
            return None
        if match["separator"]:
            parts.append([])
        elif piece := match[0].strip():
            parts[-1].append(piece)
        position = match.end()
    groups = []
    for pieces in parts:
        if pieces:
            groups.append(pieces)
    return groups


def split_words(text: str) -> list[str]:
    """Return the ids between blanks if they differ in their digits alone; else the text as one id.

    Raises:
        ValueError: Each word has a digit or blanks come in runs, so that it may be one id or many.

    Example:
        >>> split_words("d1 d2 d30"), split_words("Getting started 2")
        (['d1', 'd2', 'd30'], ['Getting started 2'])
    """
    words = text.split()
    if len(words) < 2:
        return [text]
    shapes = {re.sub(r"\d+", "0", word) for word in words}
    if len(shapes) == 1 and "0" in words[0].translate(_DIGITS):
        return words
    if all("0" in word.translate(_DIGITS) for word in words) or "  " in text:
        raise ValueError("may be one id or several between blanks")
    return [text]


_DIGITS = str.maketrans("123456789", "0" * 9)


def is_marked(text: str) -> bool:
    """Return True if a text has a quote at an end, or a bracket without its partner."""
    if text[0] in QUOTES or text[-1] in QUOTES:
        return True
    expected = list[str]()
    for letter in text:
        if letter in _BRACKETS:
            expected.append(_BRACKETS[letter])
        elif letter in _BRACKETS.values() and (not expected or expected.pop() != letter):
            return True
    return bool(expected)
