"""Pictures of docs/screens.md: all are there, are small, and load nothing from elsewhere."""

import re
import runpy

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
SCREENS = DOCS / "screens"


def test_every_picture_is_on_the_page_and_every_link_leads_to_one():
    script = runpy.run_path(str(DOCS / "screens.py"))
    names = {f"{name}-{width}.svg" for name in script["COMMANDS"] for width in script["TERMINALS"]}
    names |= {f"page-{width}.png" for width in script["WINDOWS"]}

    links = re.findall(r"\]\(screens/([^)]+)\)", (DOCS / "screens.md").read_text("utf-8"))
    assert set(links) == names == {path.name for path in SCREENS.iterdir()}
    assert sum(path.stat().st_size for path in SCREENS.iterdir()) <= script["MOST_BYTES"]


def test_a_picture_of_a_terminal_loads_nothing():
    for path in SCREENS.glob("*.svg"):
        text = path.read_text("utf-8")
        assert "@font-face" not in text, path.name
        assert set(re.findall(r"https?://[^\s\"\']+", text)) <= {
            "http://www.w3.org/2000/svg",
            "https://www.textualize.io",
        }, path.name
