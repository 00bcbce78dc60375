"""`python -m ragbench` is `ragbench`."""

import os
import sys

if __name__ == "__main__":
    # `-m` puts the working directory first, where a run folder may have a module named like one
    # of ours or Python's; the command `ragbench` does not look there either
    if not getattr(sys.flags, "safe_path", False) and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    from ragbench.cli import main

    main()
