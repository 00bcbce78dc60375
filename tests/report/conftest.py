"""A fixed example: three retrievers, two generators, failures, a lower-is-better score.

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


@pytest.fixture(scope="package")
def browser():
    from tests.report.chromium import launched

    with launched() as opened:
        yield opened


@pytest.fixture(scope="package")
def window(browser):
    """Return the browser window in which tests open their pages, one after the other."""
    from tests.report.chromium import window_of

    page = window_of(browser)
    yield page
    page.context.close()


@pytest.fixture
def visit(window):
    """Open a page; fail on an error in its console, and on a request beside the page itself."""
    from tests.report.chromium import visits

    with visits(window) as open_page:
        yield open_page
