"""Families: built-in types, `python:` paths, entry points, unknown and unbuilt names."""

import sys

import pytest

from ragbench.errors import DataError, OptionError
from ragbench.registry import Family, load_object, nearest, summary_line

FAMILY = Family(
    "retriever",
    "ragbench.tests",
    table={"path": "pathlib:Path", "fusion": "pathlib:PurePath"},
)


def test_loads_a_built_in_type():
    from pathlib import Path

    assert FAMILY.load("path") is Path


def test_loads_from_the_users_folder(tmp_path, monkeypatch):
    (tmp_path / "my_search_module.py").write_text("import my_neighbour\nclass Mine: pass\n")
    (tmp_path / "my_neighbour.py").write_text("")
    monkeypatch.setattr(sys, "path", list(sys.path))

    assert FAMILY.load("python:my_search_module:Mine", [tmp_path]).__name__ == "Mine"


def test_an_entry_point_of_an_installed_package_joins_the_table(tmp_path, monkeypatch):
    installed = tmp_path / "their_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n"
    )
    (installed / "entry_points.txt").write_text("[ragbench.tests]\ntheirs = their_module:Theirs\n")
    (tmp_path / "their_module.py").write_text("class Theirs: pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert FAMILY.names() == ["path", "fusion", "theirs"]
    assert FAMILY.load("theirs").__name__ == "Theirs"


def test_the_first_of_two_packages_on_the_path_counts(tmp_path, monkeypatch):
    for name in ("second", "first"):
        installed = tmp_path / name / f"{name}-1.0.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (installed / "entry_points.txt").write_text(f"[ragbench.tests]\nx = of_{name}:X\n")
        (tmp_path / name / f"of_{name}.py").write_text(f"class X: name = '{name}'\n")
        monkeypatch.syspath_prepend(tmp_path / name)

    assert FAMILY.load("x").name == "first"


def test_unknown_type_names_the_nearest():
    with pytest.raises(OptionError, match="did you mean 'fusion'"):
        FAMILY.load("fuson")


@pytest.mark.parametrize(
    "path",
    [
        "pathlib",  # no name after a colon
        "no_such_module_here:X",  # no such module
        "pathlib:Pth",  # misspelt
    ],
)
def test_bad_path_is_a_data_error(path, assert_message):
    with pytest.raises(DataError) as caught:
        load_object(path)

    assert_message(caught.value)


def test_a_module_that_raises_is_a_data_error(tmp_path, monkeypatch, assert_message):
    (tmp_path / "my_broken_module.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))

    with pytest.raises(DataError) as caught:
        load_object("my_broken_module:X", [tmp_path])
    assert_message(caught.value)


@pytest.mark.parametrize(
    ("word", "expected"), [("Fusion", "fusion"), ("bm24", "bm25"), ("zzz", None)]
)
def test_nearest(word, expected):
    assert nearest(word, ["fusion", "bm25"]) == expected


def test_summary_line_is_the_first_of_the_docstring():
    assert summary_line(Family).startswith("Family of components")
    assert not summary_line(Family).endswith(".")


def test_a_plug_in_that_cannot_be_loaded_names_itself(tmp_path, monkeypatch, assert_message):
    installed = tmp_path / "broken_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[ragbench.tests]\nbroken = no_such_module:X\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(DataError) as caught:
        FAMILY.load("broken")
    assert_message(caught.value)
