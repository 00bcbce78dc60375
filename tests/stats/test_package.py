"""Public names of `ragbench.stats`, and the packages that it does not import."""

import subprocess
import sys

import ragbench.stats


def test_public_names_exist_and_hide_no_module():
    for name in ragbench.stats.__all__:
        assert callable(getattr(ragbench.stats, name))
        assert f"ragbench.stats.{name}" not in sys.modules


def test_needs_numpy_alone():
    code = "import sys, ragbench.stats; print('scipy' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]
