"""Texts of messages in golden files: `tests/golden/messages/<folder>/<module>.txt`.

A test asserts the type, the place and the code of a message; its words stand in one file, so that a
better sentence changes no test. Each section begins with the name of a test, and its indented lines
are the message:

    ## test_refuses_a_bad_grade[a word]
      qrels/test.tsv:2: grade 'x'; allowed: an integer

`...` in a section stands for any text, such as a path or a time that differs between runs. `make
golden` keeps a section that still fits its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

MESSAGES = Path(__file__).resolve().parent / "golden" / "messages"
REPOSITORY = MESSAGES.parents[2]
# Six names or more after "allowed: ": a list that grows with each component of a contributor.
_NAMES = re.compile(r"(?<=allowed: )(?:[\w.@:/-]+, ){5,}(?:\.\.\. \(\d+ more\)|[\w.@:/-]+)")


# What differs between two runs: the port of a server, the address of an object, the name of a run.
_MASKS = (
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+"), "PORT"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b"), "RUN"),
    (_NAMES, "NAMES"),
)


def golden_file(module: Path) -> Path:
    """Return the file with the messages of a test module."""
    return MESSAGES / module.relative_to(REPOSITORY / "tests").with_suffix(".txt")


def render(message: object) -> str:
    """Return the text of an error, a text, or several of them as lines."""
    if isinstance(message, Iterable) and not isinstance(message, str):
        return "\n".join(map(render, message))
    return str(message)


def lines_with(message: object, *phrases: str) -> list[str]:
    """Return the lines of a long text, or of several texts, that hold one of the phrases."""
    lines = render(message).split("\n")
    return [line for line in lines if any(phrase in line for phrase in phrases)]


def mask(text: str, temporary: Path) -> str:
    """Replace folders, ports, addresses, runs and long lists of names by a word each.

    Line breaks at the end are left out.
    """
    text = re.sub(rf"{re.escape(str(temporary))}/[^/\s'\":;,]+", "TMP", text)
    text = text.replace(str(REPOSITORY), "REPOSITORY")
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text.rstrip("\n")


def fits(text: str, section: str) -> bool:
    """Return True if the text equals the section, in which `...` stands for any text."""
    pattern = ".*?".join(map(re.escape, section.split("...")))
    return re.fullmatch(pattern, text, re.DOTALL) is not None


@lru_cache(maxsize=8)
def read_messages(path: Path) -> Mapping[str, str]:
    """Return the message of each section; empty if there is no such file."""
    sections: dict[str, list[str]] = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    name = ""
    for line in text.split("\n"):
        if line.startswith("## "):
            name = line.removeprefix("## ")
            sections[name] = []
        elif name:
            sections[name].append(line.removeprefix("  "))
    # line breaks at the end of a section are left out, as in `mask`
    return {name: "\n".join(lines).rstrip("\n") for name, lines in sections.items()}


def write_message(path: Path, name: str, text: str, tests: str) -> None:
    """Write a section, and drop those of functions that the source `tests` no longer has."""
    from ragbench.files import locked_beside

    with locked_beside(path):  # each worker of xdist writes the sections of its own tests
        read_messages.cache_clear()
        messages = dict(read_messages(path))
        if name not in messages or not fits(text, messages[name]):
            messages[name] = text
        lines = []
        for section, message in sorted(messages.items(), key=_turn):
            if f"def {function_of(section)}(" in tests:
                indented = [f"  {line}" if line else "" for line in message.split("\n")]
                lines += [f"## {section}", *indented, ""]
        path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
        read_messages.cache_clear()


def _turn(item: tuple[str, str]) -> tuple[str, int]:
    """Return the order of a section: by the name of its test, then by its number."""
    name, _, number = item[0].rpartition(" ")
    return (name, int(number)) if name and number.isdigit() else (item[0], 1)


def function_of(section: str) -> str:
    """Return the name of the function whose message a section has."""
    return re.split(r"[\[ ]", section, maxsplit=1)[0].rpartition(".")[2]
