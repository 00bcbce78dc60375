"""Time that a browser takes to load the page of a run with 5,000 questions.

    python benchmarks/page_load.py [questions]

Needs playwright and a Chromium. The run is made here, its answers by rule. Loading ends with the
`load` event of the results; opening the queries, which the browser then unpacks, is printed beside
it. The least of five loads in a fresh window counts: a machine may be busy. Bar: half a second.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bars import Bars
from playwright.sync_api import Browser, sync_playwright

from ragbench.experiment.runner import run_experiment

BAR_S = 0.5
LOADS = 5
WORDS = (Path(__file__).parent / "refusals.txt").read_text(encoding="utf-8").split()
LOADED_MS = "performance.timing.loadEventEnd - performance.timing.navigationStart"


def write_questions(path: Path, n: int) -> None:
    """Write a table of questions with five passages and an answer each, three of five right."""
    draw = random.Random(13)
    with path.open("w", encoding="utf-8") as file:
        for row in range(n):
            passages = []
            for place in range(5):
                text = f"{row} {' '.join(draw.choices(WORDS, k=60))}"
                passages.append({"id": f"d{row}-{place}", "title": f"Page {row}", "text": text})
            line = {
                "id": f"q{row}",
                "question": f"When was bridge number {row} opened?",
                "reference": f"in {1000 + row}",
                "contexts": passages,
                "answer": f"in {1000 + row}" if draw.random() < 0.6 else "in 999",
            }
            file.write(f"{json.dumps(line)}\n")


def load_s(browser: Browser, page_file: Path) -> tuple[float, float]:
    """Return the seconds until the results are loaded, and until the queries are unpacked."""
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.wait_for_function("performance.timing.loadEventEnd > 0")
    loaded = page.evaluate(LOADED_MS) / 1000
    start = time.perf_counter()
    page.click("#to-queries")
    page.wait_for_selector("#list li")
    unpacked = time.perf_counter() - start
    page.close()
    return loaded, unpacked


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as started:
        table = Path(name) / "questions.jsonl"
        write_questions(table, n)
        config = {
            "name": "page",
            "dataset": {"type": "records", "path": str(table)},
            "metrics": {"generation": ["rougeL"]},
            "output": f"{name}/runs",
            "cache": f"{name}/cache",
        }
        page_file = run_experiment(config).path / "report.html"
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        times = [load_s(browser, page_file) for _ in range(LOADS)]
        browser.close()
        size = page_file.stat().st_size / 1e6
    loaded, unpacked = (min(of) for of in zip(*times, strict=True))
    bars = Bars()
    bars.check(
        f"page of {n:,} questions, {size:.1f} MB: loaded in {loaded:.2f} s, less than {BAR_S} s; "
        f"queries opened in {unpacked:.2f} s more",
        loaded < BAR_S,
    )
    bars.exit()


if __name__ == "__main__":
    main()
