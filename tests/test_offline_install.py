"""The lines of docs/installing.md hold: the wheels are all that the core needs, and it runs.

With each change, the wheel of the package is built and installed, and stands beside links to what
it requires. `make release` downloads and installs that as well, as the page says.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from ragbench.errors import DISTRIBUTION
from tests.test_offline import HOOK

pytestmark = pytest.mark.slow(first=True)
# True in `make release`: pip gets the dependencies too, over the network.
FULL = "RAGBENCH_TEST_DOWNLOADS" in os.environ

NO_NETWORK = """
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


def link_requirements(distribution, site):
    """Link the files of what an installed distribution requires into a folder, and what that does.

    Extras are left out.
    """
    for line in distribution.requires or ():
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        required = metadata.distribution(requirement.name)
        for name in {file.parts[0] for file in required.files} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(required.locate_file(name))
                link_requirements(required, site)


def test_installs_from_wheels_alone(repository, commands, tmp_path):
    build, install = commands
    assert build == ["pip", "wheel", "-w", "wheels", "."]
    assert install == ["pip", "install", "--no-index", "--find-links", "wheels", DISTRIBUTION]
    site = tmp_path / "site"

    alone = [] if FULL else ["--no-deps"]
    build_options = (
        [] if FULL else ["--no-build-isolation"]
    )  # isolated, pip downloads the build backend
    run(
        sys.executable,
        "-m",
        *build[:4],
        "-q",
        *alone,
        *build_options,
        str(repository),
        cwd=tmp_path,
    )
    target = ["-q", "--no-compile", "--target", "site"]
    run(sys.executable, "-m", *install, *alone, *target, cwd=tmp_path)
    if not FULL:
        [installed] = metadata.distributions(name=DISTRIBUTION, path=[str(site)])
        link_requirements(installed, site)
    assert 10 <= len(list(site.glob("*.dist-info"))) <= 30, "the core"

    config = str(repository / "configs" / "quickstart.yaml")
    # -S: nothing but what was installed
    few = ("--limit", "12", "--only", "bm25")
    run(sys.executable, "-S", "-c", f"{NO_NETWORK}{HOOK}", "run", config, *few, cwd=tmp_path)
    assert (tmp_path / "runs" / "quickstart" / "latest" / "summary.json").exists()
