"""Draw the pictures of the page for the docs: `report.png` and `query.png`.

    python docs/pictures.py

Runs the quickstart in a temporary folder and takes two screenshots of its page. Needs playwright
and a Chromium.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from ragbench.experiment.runner import run_experiment

DOCS = Path(__file__).resolve().parent
CONFIG = DOCS.parent / "configs" / "quickstart.yaml"
# name of the picture -> fragment of the address, window in pixels
PICTURES = {"report": ("", (1280, 860)), "query": ("#queries&q=q47", (1500, 1200))}
# the part of the question that is shown, in pixels below its first line
SHOWN, EDGE = 640, 12


def main() -> None:
    """Draw both pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        places = {"output": f"{folder}/runs", "cache": f"{folder}/cache"}
        page_file = run_experiment(CONFIG, places).path / "report.html"
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (fragment, (width, height)) in PICTURES.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(f"{page_file.as_uri()}{fragment}")
            page.wait_for_selector("#list li" if fragment else "#failing")
            path = DOCS / f"{name}.png"
            # of a question the texts alone: on a page of the docs, its list and filters are tiny
            box = page.locator("#detail").bounding_box() if fragment else None
            if box is None:
                page.screenshot(path=path)
                continue
            left, full = box["x"] - EDGE, box["width"] + 2 * EDGE
            page.screenshot(
                path=path, clip={"x": left, "y": box["y"], "width": full, "height": SHOWN}
            )
        browser.close()


if __name__ == "__main__":
    main()
