"""A second run of the quickstart, which has everything stored: its time, and that of starting up.

    python benchmarks/second_run.py [runs]

Each run is a fresh process. Starting up is importing what a run imports and ending again. CPU time,
the least of several runs taken in turns: a machine that is busy with other things counts little.
Bar: less than a second beyond starting up, and nothing made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bars import Bars

CONFIG = Path(__file__).resolve().parent.parent / "configs" / "quickstart.yaml"
BAR_S = 1.0
START = "import ragbench.cli, ragbench.config.options, ragbench.experiment.runner"


def cpu_s(arguments: list[str], folder: Path) -> float:
    """The CPU time of a process, that of the system included."""
    start = os.times()
    # compiled once, as an installed package is
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["RAGBENCH_CACHE"] = str(folder / "cache")
    environment["PYTHONPATH"] = str(CONFIG.parent.parent)
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = os.times()
    user = after.children_user - start.children_user
    return user + after.children_system - start.children_system


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = ["-m", "ragbench", "run", str(CONFIG), "--quiet"]
        first = cpu_s(run, folder)
        again, start = [], []
        for _ in range(runs):
            # starting Python and importing is no work of the run
            start.append(cpu_s(["-c", START], folder))
            again.append(cpu_s(run, folder))
        manifest = folder / "runs" / "quickstart" / "latest" / "manifest.json"
        work = json.loads(manifest.read_text(encoding="utf-8"))["work"]
    n_made = sum(stage["items"] - stage["stored"] for stage in work.values())
    beyond = min(again) - min(start)
    bars = Bars()
    bars.check(
        f"second run: {min(again):.2f} s of CPU time, {min(start):.2f} s of it starting up: "
        f"{beyond:.2f} s of work, less than {BAR_S:.1f} s; the first {first:.2f} s",
        beyond < BAR_S,
    )
    bars.check(f"{n_made} items made, at most 0", n_made == 0)
    bars.exit()


if __name__ == "__main__":
    main()
