"""What pyproject.toml asks for, and what is locked of it for contributors."""

import re
import sys

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def locked(repository):
    """The lines of the lock as requirements, each an exact version."""
    lines = (repository / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines]


def test_the_lock_names_versions_and_nothing_of_a_machine(repository):
    for line in (repository / "requirements.lock").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[a-z0-9.-]+==[0-9][\w.+!]*( ; [\w .*'=<>!()-]+)?", line), line


def test_all_that_is_asked_for_is_locked_within_its_bounds(project, locked):
    asked = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    for requirement in map(Requirement, asked):
        found = [each for each in locked if each.name == requirement.name.lower()]
        assert found, f"{requirement.name} is not locked: make lock"
        for each in found:
            [version] = [part.version for part in each.specifier]
            assert requirement.specifier.contains(version), f"{each}: make lock"


def test_the_core_says_from_which_versions_on(project):
    """`make lowest` runs the tests of the core with these, `make lock` finds the newest."""
    for requirement in map(Requirement, project["dependencies"]):
        assert [part.operator for part in requirement.specifier] == [">="], requirement
