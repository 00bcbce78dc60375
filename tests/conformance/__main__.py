"""Compare everything with what it has to agree with: `python -m tests.conformance`."""

from __future__ import annotations

import argparse
import sys

from tests.conformance.page import PAGE, above_their_bar, render


def main() -> int:
    """Write the page; with `--times` print it instead. 1 where a difference is above its bar."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--times", type=int, default=1, metavar="N", help="N times the cases; print, write nothing"
    )
    choice.add_argument(
        "--new", action="store_true", help="compare only what the page does not have"
    )
    arguments = parser.parse_args()
    page = render(arguments.times, PAGE.read_text(encoding="utf-8") if arguments.new else "")
    if arguments.times == 1:
        PAGE.write_text(page, encoding="utf-8", newline="\n")
    else:
        sys.stdout.write(page)
    for line in above_their_bar(page):
        sys.stderr.write(f"above its bar: {line}\n")
    return 1 if above_their_bar(page) else 0


if __name__ == "__main__":
    sys.exit(main())
