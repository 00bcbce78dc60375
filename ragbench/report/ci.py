"""Gates and errors of a run for GitHub: annotations and summaries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ragbench.errors import (
    EXIT_MEANINGS,
    Problem,
    visible,
)
from ragbench.records.gate import Decision, Verdict, WorseQuery
from ragbench.records.manifest import query_label
from ragbench.records.summary import FIRST_TO_FAIL, Summary
from ragbench.report.text import listed, significant
from ragbench.types.display import printable


def why_incomplete(summary: Summary) -> str:
    """Return the reason why a run is incomplete, or an empty text for a complete run.

    The first failure of each system follows the reason.
    """
    if summary.complete:
        return ""
    if summary.unreachable:
        reason = f"no request was served by the server of {listed(summary.unreachable)}"
    elif summary.budget is not None and summary.budget.reached:
        reason = "the budget was reached"
    else:
        # a table has no systems that ran
        reason = "too many items failed" if summary.systems else "outputs are missing"
    return "; ".join([reason, *(w for w in summary.warnings if w.startswith(FIRST_TO_FAIL))])


# Characters of a line that counts gates.
_LINE = 80


def gate_counts(gates: Sequence[Decision], words: Mapping[Verdict, str]) -> str:
    """Return the number of gates of each verdict, and the conditions of those that passed.

    The line has at most 80 characters: conditions that do not fit become a number. Without gates
    it is empty.

    Args:
        gates: Decisions.
        words: Verdict -> word after its number, in the order of the line.

    Example:
        >>> gates = [
        ...     Decision(verdict="pass", why="", gate="right >= 0.8", system="ours"),
        ...     Decision(verdict="pass", why="", gate="mrr not worse", system="ours"),
        ... ]
        >>> gate_counts(gates, {"fail": "fail", "pass": "pass"})
        'gates: 2 pass (right >= 0.8, mrr not worse)'
    """
    counts = Counter(gate.verdict for gate in gates)
    parts = []
    for verdict, word in words.items():
        if counts[verdict]:
            parts.append(f"{counts[verdict]} {word}")
    if not parts:
        return ""
    line = f"gates: {', '.join(parts)}"
    names = [*_passed_conditions(gates)]
    for n_named in range(len(names), 0, -1):
        n_more = len(names) - n_named
        end = f" and {n_more} more" if n_more else ""
        whole = f"{line} ({', '.join(names[:n_named])}{end})"
        if len(whole) <= _LINE:
            return whole
    return line


def _passed_conditions(gates: Sequence[Decision]) -> Iterator[str]:
    """Yield the conditions that passed; one with decisions on several systems has their names."""
    n_decisions = Counter(gate.gate for gate in gates)
    passed: dict[str, list[str]] = {}
    for gate in gates:
        if gate.verdict == "pass":
            passed.setdefault(gate.gate, []).append(gate.system or "")
    for condition, systems in passed.items():
        name = printable(condition)
        if len(systems) > 1:
            name += f" for {len(systems)} systems"
        elif n_decisions[condition] > 1:
            name += f" for {printable(systems[0])}"
        yield name


# Largest step summary in bytes; GitHub shows nothing of a larger one.
SUMMARY_LIMIT = 1024 * 1024
# Largest comment. GitHub counts characters; as many bytes are never more of them.
COMMENT_LIMIT = 65_536

_CUT = "\n\n(cut here: the run folder has all results)\n"


def annotate(
    gates: Sequence[Decision], file: str | None, *, strict: bool = False, incomplete: str = ""
) -> list[str]:
    """Return a GitHub workflow command for each gate that did not pass, an incomplete run last.

    Args:
        gates: Decisions; an annotation stands at the line of its gate. A refused or failed gate is
            an error, an undecided one a warning, or a notice if its estimate is not worse.
        file: Config of the gates, relative to the repository; None, for gates of a command line,
            gives annotations without a file.
        strict: True makes undecided gates errors, as `--strict` does.
        incomplete: Reason why the run is incomplete, another error; empty for a complete run.

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
        if gate.level is None:
            continue
        level = "error" if strict else gate.level
        problem = Problem(gate_text(gate, why_of(gate)), file, gate.line)
        lines.append(_annotation(level, f"gate {gate.verdict}", problem))
    if incomplete:
        lines.append(_annotation("error", "incomplete", Problem(printable(incomplete), file)))
    return lines


def annotate_error(code: int, text: str, problems: Sequence[Problem]) -> list[str]:
    """Return a GitHub workflow command for each problem of an error; one for all without problems.

    Args:
        code: Exit code, a key of `EXIT_MEANINGS`, whose meaning is the title.
        text: Message of the error, for an error without problems.
        problems: Mistakes with their places; files are relative to the repository.

    Example:
        >>> problem = Problem("1.4 is out of range", "c.yaml", 4, 34, "retrievers.bm25.b")
        >>> annotate_error(3, "", [problem])[0][:52]
        '::error file=c.yaml,line=4,col=34,title=incomplete::'
    """
    lines = []
    for problem in problems or [Problem(text)]:
        # a file without a line may be a folder or an option: the text names it
        placed = problem if problem.line else Problem(str(problem))
        lines.append(_annotation("error", EXIT_MEANINGS[code], placed))
    return lines


def _annotation(level: str, title: str, problem: Problem) -> str:
    """Return a GitHub workflow command with its text escaped."""
    values: dict[str, object] = {}
    if problem.file is not None:
        values = {"file": problem.file, "line": problem.line, "col": problem.column}
    pairs = []
    for name, value in {**values, "title": title}.items():
        if value is not None:
            # a property also needs escapes for `:` and `,`, which separate properties
            pairs.append(f"{name}={_data(str(value)).replace(':', '%3A').replace(',', '%2C')}")
    properties = ",".join(pairs)
    text = str(replace(problem, file=None, line=None, column=None, source=None))
    return f"::{level} {properties}::{_data(visible(text))}"


def error_summary(code: int, text: str) -> str:
    """Return a step summary of an error: the meaning of its exit code, and the message.

    It is Markdown without a line end. A code that is no key of `EXIT_MEANINGS`, such as 0, raises
    KeyError.
    """
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"### ragbench: {EXIT_MEANINGS[code]} (exit code {code})\n\n{fence}text\n{text}\n{fence}"


def fit_markdown(report: str, limit: int = SUMMARY_LIMIT) -> str:
    """Return a Markdown report, cut at a line end to at most `limit` bytes in UTF-8.

    Its end is a line end, which is added, or a note on the cut, for which `limit` must have room.
    """
    text = f"{report}\n"
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return text
    # "ignore" drops a character that the cut would split
    start = data[: limit - len(_CUT.encode())].decode("utf-8", "ignore")
    return f"{start.rpartition(chr(10))[0]}{_CUT}"


def worst_line(query: WorseQuery, measure: str = "") -> str:
    """Return a query (its row, in a table without ids) with its question and its scores.

    The question is left out if it is not known; the score of the baseline comes first. `measure` is
    the name of the scores, where no gate beside the line has it.

    Example:
        >>> query = WorseQuery(query_id="q12", score=0.0, baseline=0.5, question="Who?")
        >>> worst_line(query), worst_line(query, "mrr")
        ('q12 Who?  0.500 -> 0.00', 'q12 Who?  mrr 0.500 -> 0.00')
    """
    question = " ".join([query_label(query.query_id, query.row), *query.question.split()])
    scores = []
    for score in (query.baseline, query.score):
        if score is not None:
            scores.append(score)
    change = " -> ".join(map(significant, scores))
    return f"{printable(question)}  {f'{printable(measure)} ' if measure else ''}{change}"


def gate_text(gate: Decision, why: str) -> str:
    """Return condition, system and reason of a gate: `map >= 0.2 (bm25): it is 0.1`."""
    system = f" ({gate.system})" if gate.system else ""
    return printable(f"{gate.gate}{system}: {why}")


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
