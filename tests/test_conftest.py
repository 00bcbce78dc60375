"""What the workers of pytest-xdist report of a test, and how they end."""

import os
from types import SimpleNamespace

import pytest

from tests.conftest import leave_at_once, select_reports

PHASES = ("setup", "call", "teardown")


def phases_sent(outcomes, **options):
    """Return the phases whose reports are sent, of tests with these outcomes."""
    reports = [
        SimpleNamespace(when=phase, passed=outcome == "passed")
        for phase, outcome in zip(PHASES, outcomes, strict=True)
    ]
    option = SimpleNamespace(**{"xmlpath": None, "durations": None, "reportchars": "a", **options})
    return [report.when for report in select_reports(reports, SimpleNamespace(option=option))]


@pytest.mark.parametrize("phase", range(3))
@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_all_phases_of_a_test_that_does_not_pass_are_reported(phase, outcome):
    outcomes = ["passed"] * 3
    outcomes[phase] = outcome

    assert phases_sent(outcomes) == [*PHASES]


def test_the_call_of_a_test_that_passes_is_reported():
    assert phases_sent(["passed"] * 3) == ["call"]


@pytest.mark.parametrize(
    "option", [{"xmlpath": "a.xml"}, {"durations": 20}, {"reportchars": "P"}, {"reportchars": "A"}]
)
def test_all_phases_are_reported_where_an_option_shows_them(option):
    assert phases_sent(["passed"] * 3, **option) == [*PHASES]


def test_a_worker_ends_at_once_and_its_forks_do_not(monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)

    leave_at_once(os.getppid())
    assert codes == []
    leave_at_once(os.getpid())
    assert codes == [0]
