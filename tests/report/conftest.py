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
    from tests.report.chromium import tab

    page = tab(browser)
    yield page
    page.context.close()


@pytest.fixture(scope="package")
def unguarded_window(browser):
    """A page without a policy of content: axe-core is a script from elsewhere."""
    from tests.report.chromium import tab

    page = tab(browser, bypass_csp=True)
    yield page
    page.context.close()


@pytest.fixture
def unguarded(unguarded_window):
    """Yield the shared page, which is emptied after the test."""
    yield unguarded_window
    unguarded_window.goto("about:blank")


@pytest.fixture
def visit(browser, window):
    """Open a page; fail on an error in its console, and on a request beside the page itself."""
    from tests.report.chromium import visits

    with visits(browser, window) as opened:
        yield opened
