"""`report.md`: tables that render well in a pull request, details folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragbench.records.causes import CAUSES, AnswerCause
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.base import COST_HEADS, SLICE_HEADS, Chapter, Layout, ScoreCell, Section
from ragbench.report.layout import lay_out
from ragbench.report.text import cause_words, flow_lines, printable, with_interval

_FOREIGN = re.compile(
    r"""
      (?P<kept> \[ [-+]?\d [-+\d.e,\ ]* \] (?![(\[:]) )  # [0.368, 0.436] means nothing to Markdown
    # mentions, issues, links, GH-1, mail, commits; GitHub's words are ASCII, and `_` ends one
    | (?P<active> (?<![a-z0-9_])[@\#](?=\w) | :(?=//) | (?<=www)(?=\.)
        | (?<=\w)\#(?=\d) | (?<=(?<![a-z0-9])GH)-(?=\d) | (?<=[\w.+-])@(?=[\w-]+\.\w)
        | (?<=\w)@(?=[0-9a-f]{7,40}(?![a-z0-9_]))(?!\d+\b)  # k may be large
        | :(?=(?:[0-9]*[a-z_+-][a-z0-9_+-]*|100|1234):) )  # :tada:
      # lists, headings, and what GitLab does at the start of a line: /close
    | (?P<start> ^(?: -(?=[-\s]|$) | [+\#](?=[\#\s]|$) | \d+(?=[.)](?:\s|$)) | /(?=[a-z]) ) )
    | (?P<sign> [\\`*\[\]<>|~&$] | (?<![^\W_])_ | _(?![^\W_]) )  # hit_rate stays readable
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_JOINER = "&#8288;"  # has no width: the text looks the same and does nothing


def render_markdown(summary: Summary, comparisons: Comparisons) -> str:
    """Draw the results as GitHub-flavoured Markdown, `ragbench: <name>: ` and the result first."""
    page = lay_out(summary, comparisons)
    first, *others = page.headlines
    blocks = [[f"ragbench: {escape(page.name)}: {escape(first)}"]]
    blocks += [[escape(sentence)] for sentence in others]
    blocks.append([escape(page.subject)])
    if page.gates:
        rows = [(g.verdict, g.gate, g.system, g.why) for g in page.gates]
        blocks.append(table_lines(["verdict", "gate", "system", "why"], map(_escaped, rows)))
    for gate in (gate for gate in page.gates if gate.worst):
        subject = f"{gate.gate} ({gate.system})" if gate.system else gate.gate
        lines = [f"- {escape(query)}: {escape(text)}" for query, text in gate.worst]
        blocks.append([f"{escape(subject)}, {gate.verdict}; the worst queries:", "", *lines])
    if page.warnings:
        blocks.append([f"- warning: {escape(warning)}" for warning in page.warnings])
    if page.runs:
        blocks += _chapter(page.runs)
    for section in page.sections:
        blocks += _section(section)
    blocks += _causes(summary, comparisons)
    if page.slices:
        blocks.append(["### slices"])
        if page.slices.rows:
            blocks.append(table_lines(SLICE_HEADS, map(_escaped, page.slices.rows)))
        blocks.append([f"- {escape(line)}" for line in page.slices.lines])
    for preference in page.preferences:
        blocks += _chapter(preference)
    if page.legend:
        blocks.append(["### how to read it"])
        blocks.append([f"- {escape(sign)}: {escape(meaning)}" for sign, meaning in page.legend])
    if page.notes:
        blocks.append(["### notes"])
        blocks.append([f"- {escape(note)}" for note in page.notes])
    if page.sections:
        blocks += _details(page)
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def render_chapter(name: str, chapter: Chapter) -> str:
    """Draw one part as a page of its own."""
    first, *others = map(escape, chapter.headlines)
    blocks = [[f"ragbench: {escape(name)}: {first}"], *([line] for line in others)]
    return "\n\n".join("\n".join(block) for block in [*blocks, *_chapter(chapter)]) + "\n"


def escape(text: str) -> str:
    r"""Make a text show as it is, in a paragraph, a list item and a table cell.

    Example:
        >>> print(escape("a|b <b> hit_rate@1 _x_ @you"))
        a\|b &lt;b&gt; hit_rate@1 \_x\_ @&#8288;you
    """
    return _FOREIGN.sub(_neutral, text)


def _neutral(match: re.Match[str]) -> str:
    found = match.group()
    if match.lastgroup == "kept":
        return found
    if match.lastgroup == "active":
        return found + _JOINER
    if match.lastgroup == "start":
        return found + _JOINER if found.isdigit() else f"\\{found}"
    return _ENTITIES.get(found, f"\\{found}")


def _escaped(row: Iterable[str]) -> list[str]:
    return [escape(cell) for cell in row]


def table_lines(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False
) -> list[str]:
    """Draw a table of cells that are escaped already; numbers stand right, names left."""
    rule = [":--", *["--:" if numbers else ":--"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in [head, rule, *rows]]


def _section(section: Section) -> list[list[str]]:
    head = ["system", *(escape(measure.title) for measure in section.measures)]
    names = [escape(system) for system in section.systems]
    columns = [[_score(cell) for cell in measure.scores] for measure in section.measures]
    blocks = [[f"### {escape(section.title)}"], *([escape(label)] for label in section.labels)]
    blocks.append(table_lines(head, zip(names, *columns, strict=True), numbers=True))
    if section.against:
        columns = [
            [escape(cell.text) for cell in measure.differences] for measure in section.measures
        ]
        head = [escape(section.against), *head[1:]]
        blocks.append(table_lines(head, zip(names, *columns, strict=True), numbers=True))
    blocks.append([f"- {escape(line)}" for line in section.counts])
    return blocks


def _causes(summary: Summary, comparisons: Comparisons) -> list[list[str]]:
    """Draw where answers are lost, with what moved against each baseline folded."""
    systems = [system for system in summary.systems if system.causes]
    if not systems:
        return []
    blocks = [["### where answers are lost"], share_table(systems)]
    moved = [escape(line) for flow in comparisons.causes for line in flow_lines(flow)]
    if moved:
        blocks.append(["<details>", "<summary>which queries moved</summary>"])
        blocks.append([f"- {line}" for line in moved])
        blocks.append(["</details>"])
    return blocks


def share_table(systems: Sequence[SystemSummary]) -> list[str]:
    """Draw how many queries have which cause, with shares and their intervals."""
    present = [cause for cause in CAUSES if any(s.causes.get(cause) for s in systems)]
    rows = [
        [escape(printable(system.name)), *(_share(system, cause) for cause in present)]
        for system in systems
    ]
    return table_lines(["system", *map(cause_words, present)], rows, numbers=True)


def _share(system: SystemSummary, cause: AnswerCause) -> str:
    found = system.cause_shares.get(cause)
    if found is None:
        return "0"
    return f"{found.count}, {escape(with_interval(found.share, found.interval))}"


def _chapter(chapter: Chapter) -> list[list[str]]:
    blocks = [[f"### {escape(chapter.title)}"]]
    blocks += [[escape(label)] for label in chapter.labels]
    for grid in chapter.grids:
        blocks.append([escape(grid.caption)])
        blocks.append(table_lines(_escaped(grid.heads), map(_escaped, grid.rows), not grid.words))
    return blocks


def _score(cell: ScoreCell) -> str:
    value = f"**{cell.value}**" if cell.mark == "best" else cell.value
    return value + escape(cell.text[len(cell.value) :])


def _details(page: Layout) -> list[list[str]]:
    """Fold what only a careful reader needs: counts and bounds of each score, signatures."""
    blocks = [["<details>", "<summary>counts, bounds, costs and signatures</summary>"]]
    head = ["system", "measure", "mean", "scored", "failed", "not applicable", "bounds"]
    for section in page.sections:
        blocks += [[escape(text)] for text in (section.title, *section.labels)]
        blocks.append(table_lines(head, _detail_rows(section)))
    if page.costs:
        blocks.append(["time, tokens and money"])
        blocks.append(table_lines(COST_HEADS, map(_escaped, page.costs), numbers=True))
    if page.signatures:
        blocks.append(["signatures"])
        blocks.append(table_lines(["measure", "signature"], map(_escaped, page.signatures)))
    return [*blocks, ["</details>"]]


def _detail_rows(section: Section) -> list[list[str]]:
    rows = []
    for row, system in enumerate(section.systems):
        for measure in section.measures:
            cell, detail = measure.scores[row], measure.details[row]
            if detail is not None:
                mean = f"{cell.value} {cell.interval}".rstrip()
                counts = map(str, (detail.scored, detail.failed, detail.not_applicable))
                rows.append(_escaped([system, measure.name, mean, *counts, detail.bounds]))
    return rows
