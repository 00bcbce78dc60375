"""The lines of docs/installing.md install the core without a network, and the quickstart runs."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.test_offline import HOOK

pytestmark = pytest.mark.slow


def run(*command, cwd):
    # what the quickstart imports is compiled then; pip would compile all that is installed
    environment = {**os.environ, "PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
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
    assert install == ["pip", "install", "--no-index", "--find-links", "wheels", "ragbench"]

    run(sys.executable, "-m", *build[:4], "-q", str(repository), cwd=tmp_path)
    # without a pip of its own, whose installation takes longer than that of the core
    run(sys.executable, "-m", "venv", "--without-pip", "offline", cwd=tmp_path)
    python = str(tmp_path / "offline" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, *install[1:], "-q", cwd=tmp_path)
    run(python, "-c", HOOK, "run", str(repository / "configs" / "quickstart.yaml"), cwd=tmp_path)

    assert (tmp_path / "runs" / "quickstart" / "latest" / "summary.json").exists()
    installed = run(*pip, "list", "--format=freeze", cwd=tmp_path).split()
    assert "ragbench" in [line.partition("==")[0] for line in installed]
    assert len(installed) <= 30, "the core"
