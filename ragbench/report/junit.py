"""Gates and errors of a run as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from ragbench.errors import (
    EXIT_INCOMPLETE,
    EXIT_MEANINGS,
    EXIT_UNREACHABLE,
    visible,
)
from ragbench.records.gate import Decision
from ragbench.records.summary import Summary
from ragbench.report.ci import why_incomplete, why_of, worst_line
from ragbench.types.display import printable


def render_junit(summary: Summary, seconds: float | None = None, *, strict: bool = False) -> str:
    """Return the gates of a run as JUnit XML, with foreign text escaped.

    A run without gates is an empty suite, so that a reader of the file does not fail. An incomplete
    run has one more test case, with an error.

    Args:
        summary: Summary of the run.
        seconds: Duration of the run; None leaves it out. A single gate has no duration.
        strict: True counts undecided gates as errors, as `--strict` does; else they are skipped.

    Example:
        >>> gate = Decision(gate="map >= 0.2", system="bm25", verdict="fail", why="it is 0.1")
        >>> text = render_junit(Summary(name="mine", systems=(), gates=(gate,)))
        >>> [line.strip() for line in text.splitlines() if "<failure" in line]
        ['<failure message="map &gt;= 0.2: it is 0.1" type="fail">it is 0.1</failure>']
    """
    name = f"ragbench.{printable(summary.name)}"
    suite = ElementTree.Element("testsuite", {"name": name})
    run = {"name": "run_id", "value": printable(summary.run_id)}
    ElementTree.SubElement(ElementTree.SubElement(suite, "properties"), "property", run)
    for gate in summary.gates:
        _add_case(suite, gate, strict)
    if not summary.complete:
        code = EXIT_UNREACHABLE if summary.unreachable else EXIT_INCOMPLETE
        _add_error(suite, "complete", code, why_incomplete(summary))
    return _write_suite(suite, {} if seconds is None else {"time": f"{seconds:.3f}"})


def render_error(code: int, text: str) -> str:
    """Return JUnit XML with one error, for a command that ended before its gates were decided.

    The type of the error is the meaning of the exit code, its message the first line of `text`. A
    code that is no key of `EXIT_MEANINGS`, such as 0, raises KeyError.
    """
    suite = ElementTree.Element("testsuite", {"name": "ragbench"})
    _add_error(suite, "gates", code, text)
    return _write_suite(suite, {})


def _write_suite(suite: ElementTree.Element, duration: Mapping[str, str]) -> str:
    """Return a suite as the text of a JUnit file, with a line end; adds its counts and duration."""
    parts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {}
    for name, tag in parts.items():
        counts[name] = str(len(suite.findall(f"testcase/{tag}")))
    counts = {"tests": str(len(suite.findall("testcase"))), **counts}
    suite.attrib.update({**duration, **counts})
    del counts["skipped"]  # the root has no such attribute
    root = ElementTree.Element("testsuites", {"name": "ragbench", **duration, **counts})
    root.append(suite)
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"


def _add_error(suite: ElementTree.Element, name: str, code: int, text: str) -> None:
    """Add a test case with an error, whose type is the meaning of the exit code, to a suite."""
    class_name = suite.get("name", "")
    case = ElementTree.SubElement(suite, "testcase", {"name": name, "classname": class_name})
    attributes = {"message": printable(text.partition("\n")[0]), "type": EXIT_MEANINGS[code]}
    # XML has no U+FFFE and U+FFFF
    details = re.sub("[\ufffe\uffff]", "\ufffd", visible(text))
    ElementTree.SubElement(case, "error", attributes).text = details


def _add_case(suite: ElementTree.Element, gate: Decision, strict: bool) -> None:
    """Add the test case of a gate; its class is the system, or `judge`, by which readers group."""
    text, why = printable(gate.gate), printable(why_of(gate))
    class_name = f"{suite.get('name')}.{printable(gate.system or 'judge')}"
    case = ElementTree.SubElement(suite, "testcase", {"name": text, "classname": class_name})
    message = {"message": f"{text}: {why}"}
    details = "\n".join([why, *map(worst_line, gate.worst_queries)])
    if gate.refused or gate.verdict == "fail" or (gate.verdict == "undecided" and strict):
        tag = "failure" if gate.verdict == "fail" and not gate.refused else "error"
        message["type"] = "refused" if gate.refused else gate.verdict
        ElementTree.SubElement(case, tag, message).text = why if gate.refused else details
    elif gate.verdict == "undecided":  # JUnit has no such verdict
        skipped = ElementTree.SubElement(case, "skipped", {"message": f"undecided: {why}"})
        skipped.text = details if gate.worst_queries else None
    else:
        ElementTree.SubElement(case, "system-out").text = why
