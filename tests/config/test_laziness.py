"""Naming the package costs nothing; loading a config does not load what it does not use."""

import subprocess
import sys

HEAVY = ("numpy", "pydantic", "yaml", "click", "scipy", "torch", "sacrebleu", "bm25s")


def modules_after(code):
    program = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_the_package_is_free():
    loaded = modules_after("import ragbench.config")

    assert not loaded & set(HEAVY)
