"""`python -m ragbench` is `ragbench`."""

from ragbench.cli import main

if __name__ == "__main__":
    main()
