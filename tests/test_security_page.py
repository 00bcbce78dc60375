"""SECURITY.md names the tests that show what it promises: each of them exists."""

import re

import pytest

TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.costly
def test_every_named_test_exists(repository):
    tests = TEST_NAME.findall((repository / "SECURITY.md").read_text(encoding="utf-8"))

    assert len(tests) > 20
    for file, name in tests:
        text = (repository / file).read_text(encoding="utf-8")
        assert not name or f"\ndef {name}(" in text, f"{file}::{name}"


def test_every_promise_names_a_test(repository):
    text = (repository / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!promise \|).*", text, re.MULTILINE)

    assert rows
    assert all(TEST_NAME.search(row) for row in rows)


def test_the_readme_leads_there(repository):
    assert "blob/main/SECURITY.md)" in (repository / "README.md").read_text(encoding="utf-8")
