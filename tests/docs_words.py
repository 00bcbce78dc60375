"""Measure the documentation: words, long sentences, pages without a link. `make words` prints it.

It fails where a page to read has more than 2,500 words.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

DOCS = Path(__file__).parents[1] / "docs"
# Words of a page to read, and of a sentence, that are too many.
MOST_WORDS, LONGEST = 2500, 30
_CODE = re.compile(r"^```.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([\w.-]+\.(?:md|ipynb))[#)]")
_TERM = re.compile(r"^\| ([^|`]+?) \|", re.MULTILINE)


def navigation() -> dict[str, list[str]]:
    """Return tab -> its pages, in the order of the site."""
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    tabs = {}
    for part in nav:
        for tab, entries in part.items():
            tabs[tab] = [e if isinstance(e, str) else next(iter(e.values())) for e in entries]
    return tabs


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the paragraphs and lists of a page; tables and code have none."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", _CODE.sub("", text)):
        if not block.lstrip().startswith(("|", "#")):
            yield from re.split(r"(?<=[.!?:]) +(?=[A-Z\"`*])", " ".join(block.split()))


def main() -> int:
    """Print the measures of all pages; return 1 if a page to read is too long."""
    tabs, links = navigation(), set[str]()
    texts = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")}
    for text in texts.values():
        links |= {*_LINK.findall(text)}
    too_long = []
    for tab, pages in tabs.items():
        print(f"{tab}: {len(pages)} pages, {sum(len(texts[p].split()) for p in pages)} words")
        for page in pages:
            n_words = len(texts[page].split())
            n_long = sum(len(s.split()) > LONGEST for s in sentences(texts[page]))
            print(f"  {page:20} {n_words:6} words, {n_long:3} sentences over {LONGEST} words")
            if tab == "Read" and n_words > MOST_WORDS:
                too_long.append(page)
    print("no page links:", ", ".join(sorted({*texts} - links - {"index.md"})) or "none")
    for page in too_long:
        print(f"{page}: more than {MOST_WORDS} words")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
