"""Fewer examples of each property of scores than of other properties."""

from pathlib import Path

import pytest
from hypothesis import settings

_FOLDER = Path(__file__).parent
# Profile -> largest number of examples of a property
_EXAMPLES = {"quarter": 10, "all": 40}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let properties of scores take ten examples in the usual profile, and forty in CI.

    There are two hundred of them, and they cost half of the time of these folders. What another
    package computes as well is compared on thousands of cases by `python -m tests.conformance`.
    """
    most = _EXAMPLES.get(settings.get_current_profile_name())
    if most is None:
        return
    for item in items:
        test = getattr(item, "obj", None)
        if _FOLDER in item.path.parents and hasattr(test, "hypothesis"):
            own_settings = (
                getattr(test, "_hypothesis_internal_use_settings", None) or settings.default
            )
            few = settings(own_settings, max_examples=min(own_settings.max_examples, most))
            test._hypothesis_internal_use_settings = few
