"""Compare everything with what it has to agree with: `python -m tests.conformance`."""

from __future__ import annotations

import argparse
import sys

from tests.conformance.page import DOCS, PAGES, above_their_bar, render


def main() -> int:
    """Write the pages; with `--times` print them. 1 where a difference is above its bar."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--times", type=int, default=1, metavar="N", help="N times the cases; print, write nothing"
    )
    choice.add_argument(
        "--new", action="store_true", help="compare only what the pages do not have"
    )
    arguments = parser.parse_args()
    above = []
    for name in PAGES:
        file = DOCS / name
        old_page = file.read_text(encoding="utf-8") if arguments.new else ""
        page = render(name, arguments.times, old_page)
        if arguments.times == 1:
            file.write_text(page, encoding="utf-8", newline="\n")
        else:
            sys.stdout.write(page)
        above += above_their_bar(page)
    for line in above:
        sys.stderr.write(f"above its bar: {line}\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
