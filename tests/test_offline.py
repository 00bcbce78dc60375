"""Nothing is sent anywhere: the quickstart under an audit hook that refuses every connection."""

import subprocess
import sys

import pytest

HOOK = """
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise RuntimeError(f"{event} {arguments[1:]}")
sys.addaudithook(refuse)
sys.argv = ["ragbench", *sys.argv[1:]]
from ragbench.cli import main
main()
"""


@pytest.mark.slow
def test_the_quickstart_opens_no_connection(repository, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HOOK, "run", str(repository / "configs" / "quickstart.yaml")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "quickstart" / "latest" / "summary.json").exists()


def test_the_hook_would_notice():
    code = "import socket; socket.create_connection(('127.0.0.1', 9), 0.1)"
    done = subprocess.run(
        [sys.executable, "-c", HOOK.split("sys.argv")[0] + code],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "RuntimeError: socket." in done.stderr
