"""One fixed example: three retrievers, two generators, failures, a lower-is-better score.

And a browser, for pages.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.report.example import comparisons, summary


@pytest.fixture
def example() -> tuple[dict[str, Any], dict[str, Any]]:
    """The summary and the comparisons of the example; the figures are invented."""
    return summary(), comparisons()


@pytest.fixture(scope="module")
def browser():
    from tests.report.chromium import launched

    with launched() as opened:
        yield opened


@pytest.fixture
def visit(browser):
    """Open a page; fail on an error in its console, and on a request beside the page itself."""
    from tests.report.chromium import visits

    with visits(browser) as opened:
        yield opened
