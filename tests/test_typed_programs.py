"""Public types: mypy finds the planted errors in programs of users, and no other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragbench.score.retrieval.base import MeasureFields, MeasureSpec
from ragbench.score.text.base import Declaration, MetricFields
from tests.notebook import programs

PAGE = Path(__file__).with_name("typed_programs.md")
PLANTED = re.compile(r"  # error: ([a-z-]+)$")
REPORTED = re.compile(r"program_(\d+)\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
# The part of pandas-stubs that the programs need.
PANDAS = """
from collections.abc import Iterator
from typing import Any

class DataFrame:
    columns: list[str]
    def __getitem__(self, name: str) -> Any: ...
    def join(self, other: DataFrame) -> DataFrame: ...
    def groupby(self, by: str) -> Iterator[tuple[str, DataFrame]]: ...
    def to_csv(self, path: str) -> None: ...

def read_csv(path: str) -> DataFrame: ...
"""


def planted_errors(texts):
    """Return (program, line, code) of each planted error, sorted."""
    errors = []
    for number, text in enumerate(texts):
        for line, source in enumerate(text.splitlines(), start=1):
            if planted := PLANTED.search(source):
                errors.append((number, line, planted[1]))
    return errors


def reported_errors(output):
    """Return (program, line, code) of each error that mypy reports, sorted."""
    rows = REPORTED.findall(output)
    return sorted((int(number), int(line), code) for number, line, code in rows)


@pytest.mark.slow
def test_mypy_finds_every_planted_error_and_no_other(cache):
    texts = programs(PAGE)
    # a folder that stays, since mypy needs a minute without its cache
    folder = cache.mkdir("typed_programs")
    (folder / "stubs" / "pandas").mkdir(parents=True, exist_ok=True)
    (folder / "stubs" / "pandas" / "__init__.pyi").write_text(PANDAS, encoding="utf-8")
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\nmypy_path = stubs\n")
    names = []
    for number, text in enumerate(texts):
        names.append(f"program_{number}.py")
        (folder / names[-1]).write_text(text, encoding="utf-8")

    process = subprocess.run(
        [sys.executable, "-m", "mypy", *names], cwd=folder, capture_output=True, text=True
    )

    assert reported_errors(process.stdout) == planted_errors(texts), process.stdout
    assert process.stdout.count(" error: ") == len(planted_errors(texts)), process.stdout


def test_half_of_the_programs_have_one_planted_error():
    texts = programs(PAGE)
    programs_with_error = [number for number, _, _ in planted_errors(texts)]

    assert len(texts) >= 30
    assert programs_with_error == sorted({*programs_with_error})
    assert abs(2 * len(programs_with_error) - len(texts)) <= 1


@pytest.mark.parametrize(
    ("keywords", "declaration", "named"),
    [
        (MetricFields, Declaration, ["names", "function"]),
        (MeasureFields, MeasureSpec, ["name", "low", "high", "group"]),
    ],
)
def test_the_keywords_of_a_decorator_are_the_fields_of_its_declaration(
    keywords, declaration, named
):
    fields = declaration.__annotations__

    assert [*named, *keywords.__annotations__] == [*fields]
    for name, annotation in keywords.__annotations__.items():
        assert annotation.__forward_arg__ == fields[name]
