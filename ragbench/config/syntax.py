"""Messages of the YAML parser, said in our words and with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragbench.config.problems import Place, Report

_QUOTE = 'a value with a bracket, a brace or a comma in quotes: "precision[rel=2]@5"'
_QUOTE_VARIABLE = '"${VAR}" in quotes'
_CLOSING = {"[": "]", "{": "}"}


def explain(
    error: Any,
    lines: list[str],
    place_at: Callable[[int, int, int | None], Place],
    path: tuple[str, ...],
    report: Report,
) -> None:
    """Report a syntax error at the character that a person would change."""
    mark, opened = error.problem_mark or error.context_mark, error.context_mark
    character = _character(lines, mark)
    problem, context = str(error.problem), str(error.context or "")
    if "flow" in context and opened is not None:
        bracket = _character(lines, opened)
        if bracket in _CLOSING and (opened.line != mark.line or not character):
            place = place_at(opened.line, opened.column, 1)
            report.add(place, path, f"'{bracket}' is not closed", f"a '{_CLOSING[bracket]}'")
            return
    if "quoted scalar" in context and "end of stream" in problem and opened is not None:
        report.add(
            place_at(opened.line, opened.column, 1), path, "the quote is not closed", "a quote"
        )
        return
    found, allowed = _words(problem, context, character)
    if character == "{" and lines[mark.line][: mark.column].endswith("$"):
        found, allowed = "'${' inside braces or brackets", _QUOTE_VARIABLE
    report.add(place_at(mark.line, mark.column, 1), path, found, allowed)


def _words(problem: str, context: str, character: str) -> tuple[str, str | None]:
    """What was found, and what to write instead."""
    if character == "\t":
        return "a tab in the indentation", "spaces"
    if "cannot start any token" in problem:
        return f"a value cannot start with '{character}'", "the value in quotes"
    if "mapping values are not allowed" in problem:
        return "': ' inside a value", "the value in quotes, or the key on a line of its own"
    if "flow" in context:
        found = f"'{character}' is not expected here" if character else "the file ends too early"
        return found, f"a comma between values; {_QUOTE}"
    if "could not find expected ':'" in problem:
        return "a key without ':'", "key: value"
    if "block" in context:
        return "the indentation does not fit the lines above", "the same column for each key"
    return f"not YAML: {problem}", None


def _character(lines: list[str], mark: Any) -> str:
    line = lines[mark.line] if mark.line < len(lines) else ""
    return line[mark.column : mark.column + 1]
