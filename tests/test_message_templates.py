"""Messages of the package: their length, parts that are said twice, and ids of queries alone."""

import pytest

from tests.house import SourceFile, read_once
from tests.message_templates import (
    LONGEST,
    REVIEWED_FILE,
    Package,
    find_offenders,
    read_reviewed,
)

LONG = "word " * 50


@pytest.fixture(scope="module")
def templates(repository):
    return list(Package(read_once(repository / "ragbench")).templates())


def collect(tmp_path, source):
    """Return the templates of a package with one module."""
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    return list(Package([SourceFile(path.relative_to(tmp_path), source)]).templates())


@pytest.mark.costly
def test_messages_are_short_and_name_the_question(templates):
    reviewed = read_reviewed(REVIEWED_FILE.read_text(encoding="utf-8"))

    assert find_offenders(templates, reviewed) == [], "see `python -m tests.message_templates`"


@pytest.mark.costly
def test_the_messages_of_the_package_are_found(templates):
    kinds = {template.kind for template in templates}

    assert len(templates) > 1200
    assert {"DataError", "OptionError", "AdapterError", "UsageError", "CallFailure"} <= kinds
    assert sum(template.kind == "note" for template in templates) > 250


@pytest.mark.costly
def test_a_reviewed_file_still_has_the_fault(templates):
    faults = {(template.path, fault) for template in templates for fault in template.faults}

    assert read_reviewed(REVIEWED_FILE.read_text(encoding="utf-8")) <= faults


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param(
            "raise DataError('no rows', file=path, line=n, allowed='one row')",
            "data/questions.csv:12: no rows; allowed: one row",
            id="place, found, allowed",
        ),
        pytest.param(
            "raise OptionError('map', 'k', k, f'an integer from {LEAST}')\nLEAST = 1",
            "map: k: found '12', allowed: an integer from 1",
            id="a constant of the module",
        ),
        pytest.param(
            "def f(error):\n    text = f'no file: {error}'\n    raise AdapterError(text)",
            "no file: connection refused by server",
            id="a local name",
        ),
        pytest.param(
            "def _bad(found: str) -> DataError:\n    return DataError(found, allowed='one')\n"
            "raise _bad('two')",
            "two; allowed: one",
            id="a function that makes the error",
        ),
        pytest.param(
            "def f(is_short):\n    notes.append('a note' if is_short else 'a much longer note')",
            "a much longer note",
            id="both texts of a condition",
        ),
        pytest.param(
            "def size_notes(names):\n    return [f'no sizes are known: {\", \".join(names)}']",
            "no sizes are known: bm25, dense, hybrid",
            id="the notes that a function returns",
        ),
        pytest.param(
            "output.refuse((a, 'pass one of the two'))", "pass one of the two", id="usage"
        ),
    ],
)
def test_a_message_is_read_from_the_code(tmp_path, source, text):
    assert text in [template.text for template in collect(tmp_path, source)]


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        pytest.param(f"notes.append('{LONG}')", ["long"], id="a long note"),
        pytest.param(
            f"raise DataError('no rows', allowed='{LONG}')", ["long"], id="long with its hint"
        ),
        pytest.param("raise DataError(f'{path}: no rows', file=path)", ["twice"], id="file twice"),
        pytest.param("notes.append('error: error in the file')", ["twice"], id="a word twice"),
        pytest.param(
            "raise DataError(f'query {query_id} has no text')", ["id alone"], id="an id alone"
        ),
        pytest.param(
            "raise DataError(f'query {query_id} {quoted_start(question)} has no text')",
            [],
            id="an id with its question",
        ),
        pytest.param("raise DataError('no rows', file=path, allowed='one row')", [], id="plain"),
    ],
)
def test_faults(tmp_path, source, faults):
    found = [fault for template in collect(tmp_path, source) for fault in template.faults]

    assert found == faults


def test_a_fault_without_a_reason_is_no_review():
    assert read_reviewed("# why\n\na/b.py | long | a list\n") == {("a/b.py", "long")}
    with pytest.raises(ValueError, match="unpack"):
        read_reviewed("a/b.py | long")


def test_only_files_that_are_not_reviewed_offend(tmp_path):
    [template] = collect(tmp_path, f"notes.append('{LONG}')")

    assert template.longest_line > LONGEST
    assert find_offenders([template], frozenset({("module.py", "long")})) == []
    assert [line.partition(":")[0] for line in find_offenders([template], frozenset())] == ["long"]
