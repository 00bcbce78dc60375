"""The command `ragbench calibrate`, as its user calls it."""

import sys

import pytest

from ragbench.cli import main


@pytest.fixture
def calibrate(monkeypatch, capsysbinary):
    """Run `ragbench calibrate`: exit code, stdout, stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ragbench", "calibrate", *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsysbinary.readouterr()
        return exited.value.code, printed.out.decode(), printed.err.decode()

    return call
