"""`python -m ragbench` is `ragbench`."""

import os
import sys


def main() -> None:
    """Run the command line and exit with its code, by SystemExit.

    Ctrl-C ends it with code 130, also during its imports.
    """
    try:
        from ragbench.cli import main as run

        run()
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        os._exit(130)


if __name__ == "__main__":
    # `-m` puts the working directory first, where a run folder may have a module named like one
    # of ours or Python's; the command `ragbench` does not look there either
    if not getattr(sys.flags, "safe_path", False) and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    main()
