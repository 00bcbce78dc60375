"""What continuous integration shows: JUnit XML, annotations and summaries of GitHub, pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from ragbench.records.gate import Decision, WorseQuery
from ragbench.records.summary import Summary
from ragbench.report.text import printable, significant


def render_junit(summary: Summary, seconds: float | None = None) -> str:
    """Write the gates of a run as JUnit XML, foreign text escaped and control characters shown.

    `seconds` is how long the run took; of a single gate no time is known, and none is said. A run
    without gates is an empty suite: a reader then has a file, and nothing to count.

    Example:
        >>> gate = Decision(gate="map >= 0.2", system="bm25", verdict="fail", why="it is 0.1")
        >>> text = render_junit(Summary(name="mine", systems=(), gates=(gate,)))
        >>> [line.strip() for line in text.splitlines() if "<failure" in line]
        ['<failure message="map &gt;= 0.2: it is 0.1" type="fail">it is 0.1</failure>']
    """
    gates = summary.gates
    name = f"ragbench.{printable(summary.name)}"
    counts = {
        "tests": len(gates),
        "failures": sum(gate.verdict == "fail" for gate in gates),
        "errors": sum(gate.refused for gate in gates),
    }
    skipped = sum(gate.verdict == "undecided" and not gate.refused for gate in gates)
    took = {} if seconds is None else {"time": f"{seconds:.3f}"}
    root = ElementTree.Element("testsuites", {"name": "ragbench", **took, **_text(counts)})
    of_suite = {"name": name, **took, **_text({**counts, "skipped": skipped})}
    suite = ElementTree.SubElement(root, "testsuite", of_suite)
    run = {"name": "run_id", "value": printable(summary.run_id)}
    ElementTree.SubElement(ElementTree.SubElement(suite, "properties"), "property", run)
    for gate in gates:
        _add_case(suite, name, gate)
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"


def _add_case(suite: ElementTree.Element, class_name: str, gate: Decision) -> None:
    """Add one case; classes are systems, so that readers group by them."""
    text, why = printable(gate.gate), printable(why_of(gate))
    names = {"name": text, "classname": f"{class_name}.{printable(gate.system or 'judge')}"}
    case = ElementTree.SubElement(suite, "testcase", names)
    message = {"message": f"{text}: {why}"}
    said = "\n".join([why, *worst_lines(gate.worst_queries)])
    if gate.refused:
        ElementTree.SubElement(case, "error", {**message, "type": "refused"}).text = why
    elif gate.verdict == "fail":
        ElementTree.SubElement(case, "failure", {**message, "type": "fail"}).text = said
    elif gate.verdict == "undecided":
        skipped = ElementTree.SubElement(case, "skipped", {"message": f"undecided: {why}"})
        skipped.text = said if gate.worst_queries else None
    else:
        ElementTree.SubElement(case, "system-out").text = why


def _text(counts: Mapping[str, int]) -> dict[str, str]:
    return {key: str(count) for key, count in counts.items()}


# Bytes that GitHub takes from one step; more, and it shows nothing at all.
SUMMARY_LIMIT = 1024 * 1024

_LEVELS = {"fail": "error", "undecided": "warning"}
_CUT = "\n\n(cut here: the report in the run folder has the rest)\n"


def annotate(gates: Sequence[Decision], file: str | None) -> list[str]:
    """Return a workflow command for each gate that did not pass, at its line of the config.

    The file is relative to the repository; None where gates are from a command line.

    Example:
        >>> gate = Decision(
        ...     gate="map >= 0.2", system="bm25", verdict="fail", why="50 % less", line=7)
        >>> annotate([gate], "a,b.yaml")
        ['::error file=a%2Cb.yaml,line=7,title=gate fail::map >= 0.2 (bm25): 50 %25 less']

    References:
        GitHub Actions, Workflow commands, Setting an error message; the escapes are those of
        its toolkit's `command.ts`.
    """
    lines = []
    for gate in gates:
        if gate.verdict not in _LEVELS:
            continue
        level = "error" if gate.refused else _LEVELS[gate.verdict]
        place = ""
        if file is not None:
            name = _data(file).replace(":", "%3A").replace(",", "%2C")
            place = f"file={name}," + (f"line={gate.line}," if gate.line else "")
        system = f" ({gate.system})" if gate.system else ""
        text = _data(printable(f"{gate.gate}{system}: {why_of(gate)}"))
        lines.append(f"::{level} {place}title=gate {gate.verdict}::{text}")
    return lines


def step_summary(report: str) -> str:
    """Return a Markdown page, cut to what GitHub takes."""
    text = f"{report}\n"
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= SUMMARY_LIMIT:
        return text
    kept = data[: SUMMARY_LIMIT - len(_CUT.encode())].decode("utf-8", "ignore")
    return f"{kept.rpartition(chr(10))[0]}{_CUT}"


def worst_lines(worst: Sequence[WorseQuery]) -> list[str]:
    """Write the worst queries as an aligned table, with what they had; nothing where none is."""
    if not worst:
        return []
    rows = [("query", "score", "baseline", "")]
    for row in worst:
        scores = (significant(row.score), significant(row.baseline))
        rows.append((printable(row.query_id), *scores, printable(row.question)))
    width = max(len(query) for query, *_ in rows)
    alone = all(each.baseline is None for each in worst)  # compared with nothing
    return [
        f"  {query:{width}}  {score:>6}  {'' if alone else f'{before:8}  '}{text}".rstrip()
        for query, score, before, text in rows
    ]


def why_of(gate: Decision) -> str:
    """Write the numbers behind a verdict: of a gate on a difference both means first.

    Example:
        >>> why_of(
        ...     Decision(gate="g", system="a", verdict="fail", why="?", means=(0.594, 0.469)))
        '0.594 -> 0.469: ?'
    """
    means = () if gate.means is None else (" -> ".join(map(significant, gate.means)),)
    return ": ".join(filter(None, (*means, gate.why)))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
