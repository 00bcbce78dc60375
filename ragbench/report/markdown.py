"""`report.md`: tables that render well in a pull request, with folded details."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragbench.records.causes import CAUSES
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report import base
from ragbench.report import text as fmt
from ragbench.report.ci import worst_line
from ragbench.report.layout import lay_out
from ragbench.types.display import printable

_FOREIGN = re.compile(
    r"""
      (?P<interval> \[ [-+]?\d [-+\d.e,\ ]* \] (?![(\[:]) )  # [0.368, 0.436] is no link in Markdown
    # mentions, issues, links, GH-1, mail, commits; GitHub's words are ASCII, and `_` ends one
    | (?P<active> (?<![a-z0-9_])[@\#](?=\w) | :(?=//) | (?<=www)(?=\.)
        | (?<=\w)\#(?=\d) | (?<=(?<![a-z0-9])GH)-(?=\d) | (?<=[\w.+-])@(?=[\w-]+\.\w)
        | (?<=\w)@(?=[0-9a-f]{7,40}(?![a-z0-9_]))(?!\d+\b)  # k may be large
        | :(?=(?:[0-9]*[a-z_+-][a-z0-9_+-]*|100|1234):) )  # :tada:
      # lists, headings, and commands of GitLab at the start of a line: /close
    | (?P<start> ^(?: -(?=[-\s]|$) | [+\#](?=[\#\s]|$) | \d+(?=[.)](?:\s|$)) | /(?=[a-z]) ) )
    | (?P<sign> [\\`*\[\]<>|~&$] | (?<![^\W_])_ | _(?![^\W_]) )  # hit_rate stays readable
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_JOINER = "&#8288;"  # an invisible character that breaks up mentions and links


class Markdown(str):
    """Text that is Markdown already, built from escaped parts; `escape` leaves it unchanged."""

    __slots__ = ()


def render_markdown(summary: Summary, comparisons: Comparisons) -> str:
    """Return the results as GitHub-flavoured Markdown; the first line is the main result.

    The text ends with a line end.
    """
    page = lay_out(summary, comparisons)
    # a reviewer of a pull request looks for the gates first
    place = 1 if page.gates else 0
    first, *headlines = filter(
        None, (*page.headlines[:place], page.lead, page.noise_sentence, *page.headlines[place:])
    )
    blocks = [[f"ragbench: {escape(page.name)}: {escape(first)}"]]
    blocks += [[escape(line)] for line in (*headlines, page.subject)]
    if page.gates:
        rows = [(gate.verdict, gate.gate, gate.system or "", gate.why) for gate in page.gates]
        blocks.append(table_lines(base.GATE_HEADS, rows))
    for gate in (gate for gate in page.gates if gate.worst_queries):
        subject = f"{gate.gate} ({gate.system})" if gate.system else gate.gate
        lines = list_lines(map(worst_line, gate.worst_queries))
        blocks.append([f"{escape(subject)}, {gate.verdict}; the worst queries:", "", *lines])
    blocks.append([f"- warning: {escape(warning)}" for warning in page.warnings])
    if page.runs:
        blocks += _chapter(page.runs)
    for section in page.sections:
        blocks += section_blocks(section)
    blocks += _causes(summary, comparisons)
    for chapter in (page.slices, *page.preferences, page.noise, page.audit):
        blocks += [] if chapter is None else _chapter(chapter)
    if page.legend:
        lines = [f"- {escape(sign)}: {escape(meaning)}" for sign, meaning in page.legend]
        blocks += [["### how to read it"], lines]
    if page.notes:
        blocks += [["### notes"], list_lines(page.notes)]
    if page.details:
        tables = [block for grid in page.details for block in _grid(grid)]
        blocks += folded("counts, bounds, costs and signatures", tables)
    return join_blocks(blocks)


def render_chapter(name: str, chapter: base.Chapter) -> str:
    """Return a chapter as a Markdown report of its own, with a line end at the end.

    The first line has the name and the first headline. A ValueError without a headline.
    """
    first, *headlines = map(escape, chapter.headlines)
    head = [f"ragbench: {escape(name)}: {first}"]
    return join_blocks([head, *([line] for line in headlines), *_chapter(chapter)])


def join_blocks(blocks: Iterable[Sequence[str]]) -> str:
    """Join blocks of lines with an empty line between them, without empty blocks.

    It ends with a line end, also without blocks.
    """
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def folded(title: str, blocks: Iterable[list[str]]) -> list[list[str]]:
    """Return blocks folded under a title that a reader clicks to open."""
    return [["<details>", f"<summary>{escape(title)}</summary>"], *blocks, ["</details>"]]


def list_lines(texts: Iterable[str]) -> list[str]:
    """Return texts as escaped items of a list."""
    return [f"- {escape(text)}" for text in texts]


def escape(text: str) -> str:
    r"""Return a text with escapes, so that a paragraph, list item or table cell shows it literally.

    A `Markdown` text is returned unchanged. Line ends stay: the text must be on one line.

    Example:
        >>> print(escape("a|b <b> hit_rate@1 _x_ @you"))
        a\|b &lt;b&gt; hit_rate@1 \_x\_ @&#8288;you
    """
    return text if isinstance(text, Markdown) else _FOREIGN.sub(_neutral, text)


def _neutral(match: re.Match[str]) -> str:
    """Return the escaped form of a match of `_FOREIGN`."""
    text = match.group()
    if match.lastgroup == "interval":
        return text
    if match.lastgroup == "active" or (match.lastgroup == "start" and text.isdigit()):
        return text + _JOINER
    return f"\\{text}" if match.lastgroup == "start" else _ENTITIES.get(text, f"\\{text}")


def table_lines(
    heads: Iterable[str], rows: Iterable[Iterable[str]], numbers: bool = False
) -> list[str]:
    """Return the lines of a table with escaped cells.

    With `numbers` all columns but the first are aligned right. Without rows only head and rule
    remain.
    """
    head, *body = ([escape(cell) for cell in row] for row in (heads, *rows))
    # GitHub aligns a column by its rule
    rule = [":--", *["--:" if numbers else ":--"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]


def section_blocks(section: base.Section) -> list[list[str]]:
    """Return the blocks of a section: scores, differences if it compares, and counts."""
    measures = section.measures
    titles = [measure.title for measure in measures]
    columns = [map(_score, measure.scores) for measure in measures]
    rows = zip(section.systems, *columns, strict=True)
    blocks = [[f"### {escape(section.title)}"], *([escape(label)] for label in section.labels)]
    blocks.append(table_lines(["system", *titles], rows, numbers=True))
    if section.against:
        changes = [[cell.text for cell in measure.differences] for measure in measures]
        rows = zip(section.systems, *changes, strict=True)
        blocks.append(table_lines([section.against, *titles], rows, numbers=True))
    return [*blocks, list_lines(section.counts)]


def _causes(summary: Summary, comparisons: Comparisons) -> list[list[str]]:
    """Return the table of causes, and the queries that moved from each baseline, folded.

    [] if no system has causes.
    """
    systems = [system for system in summary.systems if system.causes]
    if not systems:
        return []
    blocks = [["### where answers are lost"], share_table(systems)]
    moves = [line for flow in comparisons.causes for line in fmt.flow_lines(flow)]
    return blocks + (folded("which queries moved", [list_lines(moves)]) if moves else [])


def share_table(systems: Sequence[SystemSummary]) -> list[str]:
    """Return the lines of a Markdown table: queries of each cause, with shares and intervals.

    The numbers are those of `cause_shares`: a system with `causes` alone has 0 everywhere. A cause
    that no system has is left out; a system without it has 0. Without any cause the table has the
    names of the systems alone, without systems only its head and rule.
    """
    present = [cause for cause in CAUSES if any(s.causes.get(cause) for s in systems)]
    rows = []
    for system in systems:
        shares = [system.cause_shares.get(cause) for cause in present]
        cells = [
            f"{s.count}, {fmt.with_interval(s.share, s.interval)}" if s else "0" for s in shares
        ]
        rows.append([printable(system.name), *cells])
    return table_lines(["system", *map(fmt.cause_words, present)], rows, numbers=True)


def _chapter(chapter: base.Chapter) -> list[list[str]]:
    """Return the blocks of a chapter: heading, labels and tables."""
    blocks = [[f"### {escape(chapter.title)}"], *([escape(label)] for label in chapter.labels)]
    return [*blocks, *(block for grid in chapter.grids for block in _grid(grid))]


def _grid(grid: base.Grid) -> list[list[str]]:
    """Return the blocks of a table: its caption, then its lines."""
    return [[escape(grid.caption)], table_lines(grid.heads, grid.rows, not grid.words)]


def _score(cell: base.ScoreCell) -> str:
    """Return a cell as `Markdown` text, with interval; a sure best is bold, letters raised."""
    value = f"**{cell.value}**" if cell.mark == "best" else cell.value
    value += f"<sup>{cell.letters}</sup>" if cell.letters else ""
    remark = " ".join(filter(None, (base.SIGNS[cell.mark], cell.interval)))
    return Markdown(f"{value} {escape(remark)}".rstrip())
