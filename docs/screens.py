"""Make the screenshots of docs/screens/: the terminal as SVG, the page of a run as PNG.

python docs/screens.py [--page]

`--page` makes those of the page alone. The terminal needs a system with pseudo terminals, the page
playwright and a Chromium (`apt-get install chromium`).
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(__file__).with_name("screens")
# columns of a terminal -> its colours: one is light, as many terminals are
TERMINALS = {60: DIMMED_MONOKAI, 80: DEFAULT_TERMINAL_THEME, 120: DIMMED_MONOKAI}
COMMANDS = {
    "run": "run my.yaml",
    "explain": "explain runs/quickstart",
    "compare": "compare old/quickstart runs/quickstart",
    "gate": "gate my.yaml --base old/quickstart",
}
# pixels of the window of a browser
WINDOWS = {400: 900, 1280: 900}
# all files together
MOST_BYTES = 1_000_000
# fonts that rich loads from another server
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


def main(arguments: list[str]) -> None:
    """Make all screenshots, or those of the page, and print the size of the folder."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_config(folder)
        ragbench(folder, "run my.yaml --quiet --set output=old --set retrievers.bm25.stemmer=none")
        ragbench(folder, "run my.yaml --quiet")
        if "--page" not in arguments:
            draw_terminals(folder)
        *_, page = sorted(folder.glob("runs/quickstart/*-*/report.html"))
        draw_page(page)
    n_bytes = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{FOLDER.name}: {n_bytes / 1000:,.0f} kB")
    if n_bytes > MOST_BYTES:
        sys.exit(f"{FOLDER} has {n_bytes} bytes, allowed: {MOST_BYTES}")


def write_config(folder: Path) -> None:
    """Write the config of the quickstart as my.yaml into a folder."""
    text = (ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8")
    data = (ROOT / "datasets").as_posix()
    (folder / "my.yaml").write_text(text.replace("../datasets", data), encoding="utf-8")


def ragbench(folder: Path, line: str, width: int | None = None) -> str:
    """Run a command in a folder, on a terminal of a width or without one; return its output."""
    program = [sys.executable, "-m", "ragbench", *line.split()]
    variables = {**os.environ, "RAGBENCH_CACHE": str(folder / "cache"), "TERM": "xterm-256color"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        variables.pop(name, None)
    if width is None:
        done = subprocess.run(program, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"ragbench {line}: exit code {done.returncode}")
        return done.stdout
    host, client = pty.openpty()
    fcntl.ioctl(client, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with subprocess.Popen(
        program,
        cwd=folder,
        env=variables,
        stdin=client,
        stdout=client,
        stderr=subprocess.DEVNULL,
    ):
        os.close(client)
        output = read_all(host)
    os.close(host)
    return output.decode("utf-8").replace("\r\n", "\n")


def read_all(host: int) -> bytes:
    """Return what a process writes on a terminal until it ends."""
    output = b""
    while True:
        try:
            data = os.read(host, 65_536)
        except OSError:  # Linux reports the end of a terminal as an error
            return output
        if not data:
            return output
        output += data


def draw_terminals(folder: Path) -> None:
    """Write an SVG for each command and width; the id of the run is the same each time."""
    for name, line in COMMANDS.items():
        for width, theme in TERMINALS.items():
            text = _RUN_ID.sub("20261129-120000-0000", ragbench(folder, line, width))
            console = Console(file=StringIO(), record=True, width=width, force_terminal=True)
            console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=True)
            svg = console.export_svg(
                title=f"ragbench {line}", theme=theme, unique_id=f"{name}-{width}"
            )
            path = FOLDER / f"{name}-{width}.svg"
            path.write_text(_FONT_FACE.sub("", svg), encoding="utf-8")


def draw_page(page: Path) -> None:
    """Write a PNG of the first screen of the page of a run for each window."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for width, height in WINDOWS.items():
            tab = browser.new_page(viewport={"width": width, "height": height})
            tab.goto(page.as_uri())
            tab.wait_for_selector("#views")
            tab.screenshot(path=FOLDER / f"page-{width}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
