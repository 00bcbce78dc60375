"""Gates in continuous integration: JUnit XML, annotations and step summaries of GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from ragbench.records.gate import Decision, WorseQuery
from ragbench.records.summary import Summary
from ragbench.report.text import significant
from ragbench.types.display import printable


def render_junit(summary: Summary, seconds: float | None = None) -> str:
    """Return the gates of a run as JUnit XML, with foreign text escaped.

    `seconds` is the duration of the run; None leaves it out. A single gate has no duration. A run
    without gates is an empty suite, so that a reader of the file does not fail.

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
    # JUnit has no "undecided": such gates count as skipped
    skipped = sum(gate.verdict == "undecided" and not gate.refused for gate in gates)
    duration = {} if seconds is None else {"time": f"{seconds:.3f}"}
    root = ElementTree.Element("testsuites", {"name": "ragbench", **duration, **_text(counts)})
    attributes = {"name": name, **duration, **_text({**counts, "skipped": skipped})}
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    run = {"name": "run_id", "value": printable(summary.run_id)}
    ElementTree.SubElement(ElementTree.SubElement(suite, "properties"), "property", run)
    for gate in gates:
        _add_case(suite, name, gate)
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"


def _add_case(suite: ElementTree.Element, class_name: str, gate: Decision) -> None:
    """Add the test case of a gate; its class is the system, or `judge`, by which readers group."""
    text, why = printable(gate.gate), printable(why_of(gate))
    names = {"name": text, "classname": f"{class_name}.{printable(gate.system or 'judge')}"}
    case = ElementTree.SubElement(suite, "testcase", names)
    message = {"message": f"{text}: {why}"}
    details = "\n".join([why, *worst_lines(gate.worst_queries)])
    if gate.refused:
        ElementTree.SubElement(case, "error", {**message, "type": "refused"}).text = why
    elif gate.verdict == "fail":
        ElementTree.SubElement(case, "failure", {**message, "type": "fail"}).text = details
    elif gate.verdict == "undecided":
        skipped = ElementTree.SubElement(case, "skipped", {"message": f"undecided: {why}"})
        skipped.text = details if gate.worst_queries else None
    else:
        ElementTree.SubElement(case, "system-out").text = why


def _text(counts: Mapping[str, int]) -> dict[str, str]:
    return {key: str(count) for key, count in counts.items()}


# Largest step summary in bytes; GitHub shows nothing of a larger one.
SUMMARY_LIMIT = 1024 * 1024
# Largest comment. GitHub counts characters; as many bytes are never more of them.
COMMENT_LIMIT = 65_536

# verdict of a gate -> level of its annotation
_LEVELS = {"fail": "error", "undecided": "warning"}
_CUT = "\n\n(cut here: the run folder has all results)\n"


def annotate(gates: Sequence[Decision], file: str | None) -> list[str]:
    """Return a GitHub workflow command for each gate that did not pass; [] if all passed.

    The annotation stands at the line of the gate in `file`, the config relative to the repository.
    None, for gates of a command line, gives annotations without a file. A refused or failed gate is
    an error, an undecided one a warning. In the order of the gates.

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
            # a property also needs escapes for `:` and `,`, which separate properties
            name = _data(file).replace(":", "%3A").replace(",", "%2C")
            place = f"file={name}," + (f"line={gate.line}," if gate.line else "")
        system = f" ({gate.system})" if gate.system else ""
        text = _data(printable(f"{gate.gate}{system}: {why_of(gate)}"))
        lines.append(f"::{level} {place}title=gate {gate.verdict}::{text}")
    return lines


def fit_markdown(report: str, limit: int = SUMMARY_LIMIT) -> str:
    """Return a Markdown report, cut at a line end to at most `limit` bytes in UTF-8.

    A cut report ends with a note.
    """
    text = f"{report}\n"
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return text
    # "ignore" drops a character that the cut would split
    start = data[: limit - len(_CUT.encode())].decode("utf-8", "ignore")
    return f"{start.rpartition(chr(10))[0]}{_CUT}"


def worst_lines(worst: Sequence[WorseQuery]) -> list[str]:
    """Return the worst queries as lines of an aligned table: id, score, baseline score, question.

    A line of heads comes first. [] without queries; without the baseline column if no query has a
    baseline.
    """
    if not worst:
        return []
    rows = [("query", "score", "baseline", "")]
    for row in worst:
        scores = (significant(row.score), significant(row.baseline))
        rows.append((printable(row.query_id), *scores, printable(row.question)))
    width = max(len(query) for query, *_ in rows)
    has_baseline = any(row.baseline is not None for row in worst)
    return [
        f"  {query:{width}}  {score:>6}  {f'{base:8}  ' if has_baseline else ''}{text}".rstrip()
        for query, score, base, text in rows
    ]


def why_of(gate: Decision) -> str:
    """Return the reason of a verdict; a gate on a difference has both means first.

    Example:
        >>> why_of(
        ...     Decision(gate="g", system="a", verdict="fail", why="?", means=(0.594, 0.469)))
        '0.594 -> 0.469: ?'
    """
    means = () if gate.means is None else (" -> ".join(map(significant, gate.means)),)
    return ": ".join(filter(None, (*means, gate.why)))


# the escapes of a workflow command; % first, because the others contain it
def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
