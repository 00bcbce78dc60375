"""Tables and bars of causes of an HTML page, as a reader sees them."""

from __future__ import annotations

import re
from collections import defaultdict
from html.parser import HTMLParser


class PageReader(HTMLParser):
    """Reader of a page.

    Attributes:
        tables: Caption -> rows of each table with this caption, a mapping from head to text.
        causes: System -> cause -> number of its questions, by the bars of the picture.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[dict[str, str]]] = defaultdict(list)
        self.causes: dict[str, dict[str, int]] = defaultdict(dict)
        self._caption, self._heads, self._row = "", [], []
        self._text: list[str] | None = None
        self._bar: tuple[str, str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "table":
            self._caption, self._heads = "", []
        elif tag == "tr":
            self._row = []
        elif tag in ("caption", "th", "td", "title"):
            self._text = []
        elif tag == "rect" and "data-cause" in values:
            self._bar = values["data-system"], values["data-cause"]
        elif tag == "br" and self._text is not None:
            self._text.append(" ")

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = "".join(self._text or []).strip()
        if tag in ("caption", "th", "td", "title"):
            self._text = None
        if tag == "caption":
            self._caption = text
        elif tag in ("th", "td"):
            self._row.append(text)
        elif tag == "tr" and not self._heads:
            self._heads = self._row
        elif tag == "tr":
            self.tables[self._caption].append(dict(zip(self._heads, self._row, strict=False)))
        elif tag == "title" and self._bar:
            # such as docs: 5 of 8 not retrieved
            system, cause = self._bar
            count = re.match(r"(\d+) of \d+ ", text.removeprefix(f"{system}: "))
            assert count, text
            self.causes[system][cause] = int(count[1])
            self._bar = None
