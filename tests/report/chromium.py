"""Chromium without a window, for the tests of pages; skipped with a reason where there is none.

`pip install playwright` and a Chromium are needed: `apt-get install chromium`, or `playwright
install chromium`.

The page draws after an event, so no test may look at it right after an action: `expect` waits until
what is said of the page is true, for as long as `PATIENCE`. `RAGBENCH_TEST_SLOWER=20` makes the
browser so many times slower, which shows a test that does not wait.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from contextlib import contextmanager

import pytest

from tests.lazy import Lazy

sync_api = Lazy("playwright.sync_api")

PATIENCE = 60_000  # ms; a machine may be busy, and waiting costs only a test that fails
SLOWER = float(os.environ.get("RAGBENCH_TEST_SLOWER", "1"))
VIEWPORT = {"width": 1400, "height": 900}
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def launched():
    """A browser."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    sandbox = [] if os.name == "nt" or os.geteuid() else ["--no-sandbox"]  # root has none
    sync_api.expect.set_options(timeout=PATIENCE)
    with sync_api.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=path, args=sandbox)
        except sync_api.Error as error:
            pytest.skip(f"no Chromium: {error.message.splitlines()[0]}")
        yield opened
        opened.close()


def expect(part, message=None):
    """Return an assertion on a part of a page, which waits until it holds."""
    return sync_api.expect(part, message)


def window_of(browser):
    """Open a window, which waits and is as slow as it is asked to be."""
    page = browser.new_context(viewport=VIEWPORT).new_page()
    page.set_default_timeout(PATIENCE)
    if SLOWER > 1:
        session = page.context.new_cdp_session(page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    return page


_numbers = itertools.count()


def address(path, fragment=""):
    """Return a new address of a file, so that the browser reads it again.

    A blank page in between would cost a new process of the browser.
    """
    return f"{path.as_uri()}?{next(_numbers)}{fragment}"


def go_to(page, fragment):
    """Go to another part of the page, as a link does."""
    page.goto(page.url.partition("#")[0] + fragment)


def load(page, path, fragment=""):
    """Open a report and wait until its script has run."""
    page.goto(address(path, fragment))
    expect(page.locator("#views, #review")).to_be_visible()
    if fragment.startswith("#queries"):
        expect(page.locator("#status")).to_contain_text("queries")


def unfold(page, title):
    """Open a folded part of the results and return it."""
    part = page.locator("#results details.kind", has=page.locator("h2", has_text=f"{title}"))
    part = part.filter(has=page.get_by_role("heading", name=title, exact=True)).first
    part.locator("summary").first.click()
    return part


def hidden_width(page):
    """Return the number of pixels of a page that are out of sight on the right."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def hidden_part(element):
    """Return the width and height in pixels of the hidden content of an element."""
    return element.evaluate("e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]")


def looks(page):
    """Show a page narrow in dark and wide in light: no colour depends on the width."""
    for width, scheme in ((400, "dark"), (1400, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        yield width, scheme


def violations(page, *, has_colors=True):
    """Return the findings of axe-core on a page; the rules on colours take most of the time."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is missing")
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe.AXE_SCRIPT)
    rules = {} if has_colors else {"color-contrast": {"enabled": False}}
    # what passes stays in the browser
    return page.evaluate(
        "rules => axe.run({rules, resultTypes: ['violations']}).then(found => found.violations.map("
        "each => [each.id, each.nodes.map(node => node.html.slice(0, 120))]))",
        rules,
    )


@contextmanager
def visits(window):
    """Yield a function that opens a page; console errors and further requests fail the test.

    All tests open their pages in one window: a new one costs three times as much. The page keeps
    nothing, so that none sees what another did.
    """
    addresses, problems = [], []

    def open_page(path, fragment="", *, viewport=VIEWPORT):
        addresses.append(path.as_uri())
        window.set_viewport_size(viewport)
        load(window, path, fragment)
        return window

    def check_request(request):
        if not addresses or re.split("[?#]", request.url)[0] != addresses[-1]:
            problems.append(f"request: {request.url[:200]}")

    listeners = {
        "console": lambda message: problems.append(f"console: {message.text}"),
        "pageerror": lambda error: problems.append(f"error: {error}"),
        "request": check_request,
    }
    for event, listener in listeners.items():
        window.on(event, listener)
    yield open_page
    # the reply comes after all events
    window.emulate_media(media="null", color_scheme="null")
    for event, listener in listeners.items():
        window.remove_listener(event, listener)
    assert problems == []
