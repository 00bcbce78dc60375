"""Measure the documentation: words, long sentences, orphans, terms. `make words` prints it.

It fails where a page or all pages have too many words, or where no page links a page. Of pages of
measurements, rows of tables do not count.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

DOCS = Path(__file__).parents[1] / "docs"
# Words of a page, of a sentence and of all pages that are too many.
MOST_WORDS, LONGEST, MOST_IN_ALL = 2500, 30, 97_700
# Glossary terms that every reader of the field knows, or that are everyday words as well.
FAMILIAR = {
    "answer", "app", "budget", "cache", "chunk", "claim", "control", "corpus", "cost", "cut-off",
    "depth", "document", "experiment", "failed", "family", "fill", "generator", "hit", "item",
    "judge", "key", "measure", "metric", "not applicable", "passage", "pool", "prediction", "query",
    "ranking", "reference", "reply", "report", "reranker", "retriever", "run", "stage", "summary",
    "system", "trace", "TREC", "usage",
}  # fmt: skip
_CODE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([\w.-]+\.(?:md|ipynb))[#)]")
_TERM = re.compile(r"^\| ([^|`]+?) \|(.*)\|$", re.MULTILINE)
_INLINE = re.compile(r"`[^`]*`|\]\([^)]*\)")


def navigation() -> dict[str, list[str]]:
    """Return tab -> its pages, in the order of the site."""
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    tabs = {}
    for part in nav:
        for tab, entries in part.items():
            tabs[tab] = [e if isinstance(e, str) else next(iter(e.values())) for e in entries]
    return tabs


def words(text: str, tab: str) -> int:
    """Count the words of a page, as `wc -w` does; under Trust, rows of tables do not count."""
    lines = [line for line in text.splitlines() if tab != "Trust" or not line.startswith("|")]
    return len(" ".join(lines).split())


def texts() -> dict[str, str]:
    """Return page -> its text."""
    return {page.name: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))}


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, list items and headings of a page without its code."""
    yield from re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=#+ )", _CODE.sub("", text))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the paragraphs and lists of a page; tables and code have none."""
    for block in _blocks(text):
        if not block.lstrip().startswith(("|", "#")):
            yield from re.split(r"(?<=[.!?:]) +(?=[A-Z\"`*\[])", " ".join(block.split()))


def long_sentences(text: str) -> list[str]:
    """Return the sentences of more than 30 words."""
    return [sentence for sentence in sentences(text) if len(sentence.split()) > LONGEST]


def orphans(pages: dict[str, str]) -> list[str]:
    """Return the pages that no other page links."""
    links = {"index.md"}
    for name, text in pages.items():
        links |= {*_LINK.findall(text)} - {name}
    return sorted({*pages} - links)


def terms(glossary: str) -> dict[str, set[str]]:
    """Return each term of the glossary that needs a meaning, and the pages that its row links."""
    needed = {}
    for names, meaning in _TERM.findall(glossary):
        for name in re.split(", | / ", re.sub(r" \(.*?\)", "", names)):
            if name != "term" and name not in FAMILIAR:
                needed[name] = {"glossary.md", *_LINK.findall(meaning)}
    return needed


def terms_before_meaning(text: str, needed: dict[str, set[str]]) -> list[str]:
    """Return the terms whose first use on a page has no meaning and no link to one.

    A meaning is the term in bold, in a link or in brackets, a sentence "TERM is the ...", words in
    brackets behind the term, or a row of a table that begins with it. A link in the same paragraph
    to the glossary, or to a page that the row of the term in the glossary links, is one too.
    """
    early = []
    for term, pages in needed.items():
        word = re.compile(rf"(?<![\w-]){re.escape(term)}(?:e?s)?(?![\w-])", re.IGNORECASE)
        use = _first_use(text, word)
        if use and not ({*_LINK.findall(use)} & pages or _explains(use, word.pattern)):
            early.append(term)
    return early


def _first_use(text: str, word: re.Pattern[str]) -> str | None:
    """Return the first row or paragraph that uses a word, up to the end of the word's sentence."""
    for block in _blocks(text):
        if block.lstrip().startswith("#"):
            continue
        is_table = block.lstrip().startswith("|")
        for part in block.splitlines() if is_table else [" ".join(block.split())]:
            if word.search(_INLINE.sub("]", part)):
                return part
    return None


def _explains(use: str, word: str) -> bool:
    """Return True if a row or paragraph says what the word means."""
    forms = (rf"\*\*[^*]*{word}[^*]*\*\*", rf"{word} (is|are|means|says) (an?|the|what|how)\b")
    forms += (rf"{word} \(", rf"\({word}\)", rf"^\| [^|]*{word}[^|]*\|")
    forms += (rf"\[[^\]]*{word}[^\]]*\]\([\w.-]+\.md",)
    return any(re.search(form, use, re.IGNORECASE) for form in forms)


def main() -> int:
    """Print the measures of all pages; return 1 if a page is too long or an orphan."""
    tabs, pages = navigation(), texts()
    needed = terms(pages["glossary.md"])
    problems = []
    for tab, names in tabs.items():
        print(f"{tab}: {len(names)} pages, {sum(len(pages[p].split()) for p in names)} words")
        for page in names:
            n_words, n_long = len(pages[page].split()), len(long_sentences(pages[page]))
            print(f"  {page:24} {n_words:6} words, {n_long:3} sentences over {LONGEST} words")
            if words(pages[page], tab) > MOST_WORDS:
                problems.append(f"{page}: more than {MOST_WORDS} words")
    for page in tabs["Read"]:
        if early := terms_before_meaning(pages[page], needed):
            print(f"terms before their meaning: {page}: {', '.join(early)}")
    n_words = sum(len(pages[page].split()) for names in tabs.values() for page in names)
    print(f"all pages: {n_words} words")
    if n_words > MOST_IN_ALL:
        problems.append(f"all pages: more than {MOST_IN_ALL} words")
    problems += [f"{page}: no page links it" for page in orphans(pages)]
    print("\n".join(problems) or "no page is too long, and each has a link")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
