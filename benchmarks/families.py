"""Statistics against what they promise: coverage, false verdicts, families, power, speed.

    python benchmarks/families.py [--trials 1000]

Simulates families of comparisons, and pairs of samples, of which the truth is known. Intervals,
gates and plans are in `gates.py`.

Bars: families err in at most 5 % under Holm and max-T; intervals of two samples of different
queries miss in at most 6 %; 100,000 permutations of 1,000 queries for
all 45 pairs of 10 systems 200 times as fast as scipy. Simulated shares may miss a bar by two
standard errors, which are 1.5 points of 6 % in 1,000 trials. A longer run takes 10,000.
"""

from __future__ import annotations

import os

# CPU time is of one thread: threads of BLAS that wait for each other burn it without working.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

if __name__ == "__main__":
    import argparse

    from bars import Bars
    from family_trials import families, permutations
    from trials import add_trials
    from unpaired_trials import unpaired

    arguments = argparse.ArgumentParser(description="what statistics promise, simulated")
    add_trials(arguments, 1_000, 10_000, "families, and pairs of samples of a cell")
    trials, bars = arguments.parse_args().trials, Bars()
    families(trials, bars)
    unpaired(trials, bars)
    permutations(bars)
    bars.exit()
