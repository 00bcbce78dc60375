"""The shape of the package: directions of imports, and the page that describes it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def test_imports_point_down(repository):
    tool = Path(sys.executable).parent / "lint-imports"
    if not tool.exists():
        tool = Path(shutil.which("lint-imports") or pytest.fail("import-linter is not installed"))

    done = subprocess.run(
        [tool, "--no-cache"], cwd=repository, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


def test_every_folder_is_on_the_architecture_page(repository):
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [p.name for p in (repository / "ragbench").iterdir() if (p / "__init__.py").exists()]

    missing = [name for name in folders if f"{name}/" not in page]

    assert not missing


def test_no_module_is_called_utils(repository):
    names = {path.stem for path in (repository / "ragbench").rglob("*.py")}

    assert not names & {"utils", "helpers", "common", "misc", "manager"}
