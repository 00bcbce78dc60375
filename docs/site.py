"""Hook of MkDocs: links of a page to files outside docs/ lead to the repository."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\(\.\./([^)\s]+)\)")


def on_page_markdown(markdown: str, *, config: Any, **options: Any) -> str:
    """Return the text of a page; `../README.md` and other files outside docs/ get an address."""
    return _OUTSIDE.sub(rf"]({config.repo_url}/blob/main/\1)", markdown)
