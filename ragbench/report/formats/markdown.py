"""Reports as GitHub-flavoured Markdown, for pull requests and report.md."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ragbench.report.formats.base import Screen
from ragbench.report.table import (
    SIGNS,
    Block,
    Fold,
    Heading,
    Legend,
    Link,
    Paragraph,
    SentenceList,
    Table,
    TableCell,
    TableReport,
)
from ragbench.report.text import MISSING

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


class Markdown:
    """GitHub-flavoured Markdown; letters are in `<sup>`, and a sure best is bold."""

    is_exact = False

    def render(self, report: TableReport, screen: Screen) -> str:
        """Return the blocks of a report, with an empty line between them."""
        blocks = filter(None, _blocks(report.blocks))
        return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def escape(text: str) -> str:
    r"""Return a text with escapes, so that a paragraph, list item or table cell shows it literally.

    Line ends stay: the text must be on one line.

    Example:
        >>> print(escape("a|b <b> hit_rate@1 _x_ @you"))
        a\|b &lt;b&gt; hit_rate@1 \_x\_ @&#8288;you
    """
    return _FOREIGN.sub(_neutral, text)


def _neutral(match: re.Match[str]) -> str:
    """Return the escaped form of a match of `_FOREIGN`."""
    text = match.group()
    if match.lastgroup == "interval":
        return text
    if match.lastgroup == "active" or (match.lastgroup == "start" and text.isdigit()):
        return text + _JOINER
    return f"\\{text}" if match.lastgroup == "start" else _ENTITIES.get(text, f"\\{text}")


def _blocks(blocks: Iterable[Block]) -> Iterator[Sequence[str]]:
    """Yield the lines of each block of Markdown; a block without lines is left out."""
    for block in blocks:
        if isinstance(block, Heading):
            yield [f"### {escape(block.text)}"]
        elif isinstance(block, Paragraph):
            mark = "**" if block.is_strong else ""
            # Markdown shows the two blanks between the parts of a line as one
            yield [f"{mark}{escape(line.replace('  ', ' · '))}{mark}" for line in block.lines]
        elif isinstance(block, SentenceList):
            yield _items(block.lines)
        elif isinstance(block, Legend):
            yield [f"- {escape(sign)}: {escape(text)}" for sign, text in block.entries]
        elif isinstance(block, Link):
            yield [f"[{escape(block.text)}]({block.url})"]
        elif isinstance(block, Fold):
            yield ["<details>", f"<summary>{escape(block.title)}</summary>"]
            yield from _blocks(block.blocks)
            yield ["</details>"]
        else:
            yield [escape(block.caption)] if block.caption else []
            yield _table_lines(block)
            yield _items(block.notes)


def _items(lines: Sequence[str]) -> list[str]:
    """Return sentences as items of nested lists, indented as the sentences are."""
    items = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        text = line.lstrip()
        items.append(f"{line.removesuffix(text)}- {escape(text.replace('  ', ' · '))}")
    return items


def _table_lines(table: Table) -> list[str]:
    """Return the lines of a table with escaped cells; numbers are aligned right."""
    places, heads, rules = [], [], []
    for place, column in enumerate(table.columns):
        if column.kind != "bar":
            places.append(place)
            heads.append(escape(column.head))
            # GitHub aligns a column by its rule
            rules.append("--:" if column.kind == "number" else ":--")
    lines = []
    for cells in (heads, rules):
        lines.append(f"| {' | '.join(cells)} |")
    for row in table.rows:
        cells = [_cell(row[place]) for place in places]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cell(cell: TableCell) -> str:
    """Return a cell with its interval; a sure best is bold, letters are raised."""
    # a lone dash is no list in a cell
    text = cell.text if cell.text == MISSING else escape(cell.text)
    value = f"**{text}**" if cell.mark == "best" else text
    value += f"<sup>{cell.letters}</sup>" if cell.letters else ""
    remark = " ".join(filter(None, (SIGNS[cell.mark], cell.interval)))
    return f"{value} {escape(remark)}".rstrip()
