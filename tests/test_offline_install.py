"""The lines of docs/installing.md hold: the wheels are all that the core needs, and it runs."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from ragbench.errors import DISTRIBUTION
from tests.test_offline import HOOK

pytestmark = pytest.mark.slow(first=True)

HERE = """
import os, ragbench
assert ragbench.__file__.startswith(os.getcwd() + os.sep), ragbench.__file__
"""


def run(*command, cwd):
    environment = {
        **os.environ,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": str(cwd / "site"),
    }
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def commands(repository):
    """The two commands of the page, as lists of words."""
    page = (repository / "docs" / "installing.md").read_text(encoding="utf-8")
    _, section = page.split("## Without a network")
    return [shlex.split(line) for line in re.findall(r"```bash\n(.*)\n```", section)]


def test_installs_from_wheels_alone(repository, commands, tmp_path):
    build, install = commands
    assert build == ["pip", "wheel", "-w", "wheels", "."]
    assert install == ["pip", "install", "--no-index", "--find-links", "wheels", DISTRIBUTION]

    run(sys.executable, "-m", *build[:4], "-q", str(repository), cwd=tmp_path)
    run(sys.executable, "-m", *install, "-q", "--no-compile", "--target", "site", cwd=tmp_path)
    installed = list((tmp_path / "site").glob("*.dist-info"))
    assert len(installed) <= 30, "the core"

    config = str(repository / "configs" / "quickstart.yaml")
    # -S: nothing but what was installed
    run(sys.executable, "-S", "-c", f"{HERE}{HOOK}", "run", config, "--only", "bm25", cwd=tmp_path)
    assert (tmp_path / "runs" / "quickstart" / "latest" / "summary.json").exists()
