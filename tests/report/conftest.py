"""One fixed example: three retrievers, two generators, failures, a lower-is-better score."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report.example import comparisons, summary


@pytest.fixture
def example() -> tuple[dict[str, Any], dict[str, Any]]:
    """The summary and the comparisons of the example; the figures are invented."""
    return summary(), comparisons()
