"""Fewer examples of each property of scores, except where all of them run."""

from pathlib import Path

import pytest
from hypothesis import settings

_FOLDER = Path(__file__).parent
_EXAMPLES = 10


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let properties of scores take ten examples in the usual profile.

    There are two hundred of them, and they cost half of the time of these folders. CI runs all.
    """
    if settings.get_current_profile_name() != "quarter":
        return
    for item in items:
        test = getattr(item, "obj", None)
        if _FOLDER in item.path.parents and hasattr(test, "hypothesis"):
            own = getattr(test, "_hypothesis_internal_use_settings", None) or settings.default
            few = settings(own, max_examples=min(own.max_examples, _EXAMPLES))
            test._hypothesis_internal_use_settings = few
