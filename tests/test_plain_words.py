"""`make words`: names and docstrings that an engineer of the field would have to decode."""

import pytest

from tests.house import read_once, read_package
from tests.plain_words import (
    ALLOWED_FILE,
    Allowed,
    find_excess,
    find_offenders,
    main,
    read_allowed,
)

PLAIN = '"""Rank documents."""\n\n\nclass Ranking:\n    """Hits of one query."""\n\n    hits = ()\n'
VAGUE = '''"""What a ranking has."""


class Ranking:
    """Hits of one query."""

    def search(self, given):
        """Return what was found."""
        found = given
        return found
'''


@pytest.fixture
def package(tmp_path):
    (tmp_path / "rank.py").write_text(PLAIN)
    (tmp_path / "search.py").write_text(VAGUE)
    return tmp_path


@pytest.mark.costly
def test_the_package_has_no_more_offenders_than_the_list_allows(repository):
    allowed = read_allowed(ALLOWED_FILE.read_text(encoding="utf-8"))
    offenders = find_offenders(read_once(repository / "ragbench"))

    assert find_excess(offenders, allowed) == [], "see `make words`"


def test_finds_each_kind_with_its_place(package, assert_message):
    offenders = [*map(str, find_offenders(read_package(package)))]

    assert_message(sorted(offenders))


def test_a_plain_package_has_no_offenders(package):
    (package / "search.py").unlink()

    assert [*find_offenders(read_package(package))] == []


def test_an_allowed_name_counts_in_its_own_file_alone(package, assert_message):
    offenders = [*find_offenders(read_package(package))]
    limits = {"docstring": 2, "class": 1}
    names = {("search.py", "given"), ("rank.py", "found")}

    (excess,) = find_excess(offenders, Allowed(frozenset(names), limits))

    assert_message(excess.splitlines())


def test_fewer_offenders_than_the_limit_are_no_excess(package):
    limits = {"name": 9, "docstring": 9, "class": 9}

    assert find_excess(find_offenders(read_package(package)), Allowed(frozenset(), limits)) == []


def test_reads_reasons_and_limits():
    allowed = read_allowed("# comment\n\nrank.py given key of a file\nlimit name 3\n")

    assert allowed == Allowed(frozenset({("rank.py", "given")}), {"name": 3})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rank.py given", "expected 3, got 2"),
        ("limit words 3", "limit 'words': allowed: name, docstring, class"),
        ("limit name many", "'many'"),
    ],
)
def test_a_line_without_reason_or_count_is_an_error(line, message):
    with pytest.raises(ValueError, match=message):
        read_allowed(line)


def test_prints_the_offenders_their_counts_and_the_share_of_comments(package, capsys):
    (package / "rank.py").write_text(PLAIN + "# Why.\n")

    main([str(package)])

    lines = capsys.readouterr().out.splitlines()
    assert "search.py:7: name: given" in lines
    assert [line.split()[:2] for line in lines[-4:]] == [
        ["name", "2,"],
        ["docstring", "2,"],
        ["class", "1,"],
        ["comments", "16.7"],
    ]
