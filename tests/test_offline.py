"""The quickstart in a watched process: it connects to nothing, and imports what it uses."""

import json
import os
import re
import subprocess
import sys

import pytest

RUN = "runs/quickstart"
WATCH = """
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise RuntimeError(f"{event} {arguments[1:]}")
sys.addaudithook(refuse)
"""
HOOK = f"""{WATCH}
sys.argv = ["ragbench", *sys.argv[1:]]
from ragbench.cli import main
main()
"""
COMMANDS = f"""{WATCH}
import json, warnings
warnings.filterwarnings("error", category=EncodingWarning, module="ragbench")
from ragbench.cli import main
for number, words in enumerate(json.loads(sys.argv[1])):
    sys.argv = ["ragbench", *words]
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
    if number == 0:
        print("imported", *{{name.partition(".")[0] for name in sys.modules}}, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def process(repository, tmp_path_factory):
    """Run the quickstart from an empty cache and read its run, in one process that is watched.

    Python warns in it where a text file is opened without an encoding: Windows would take cp1252.
    """
    folder = tmp_path_factory.mktemp("offline")
    run = ["run", str(repository / "configs" / "quickstart.yaml"), "--limit", "5"]
    commands = [run, *(["explain", RUN], ["report", RUN], ["runs"], ["cache"])]
    environment = {"PYTHONPATH": str(repository), "RAGBENCH_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", COMMANDS, json.dumps(commands)],
        cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert (folder / RUN / "latest" / "summary.json").exists(), done.stderr
    return done


@pytest.mark.slow
def test_no_connection_is_opened_and_every_text_file_names_its_encoding(process):
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_a_run_loads_no_foreign_library_that_it_does_not_use(process):
    # Libraries of other packages stay unloaded; the cache is empty, so that all is computed.
    (line,) = re.findall(r"^imported (.*)$", process.stderr, re.MULTILINE)

    unused = {"sklearn", "pandas", "pyarrow", "nltk", "torch", "transformers", "openai"}
    assert "numpy" in line.split()
    assert not unused & {*line.split()}


def test_the_hook_would_notice():
    code = "import socket; socket.create_connection(('127.0.0.1', 9), 0.1)"
    done = subprocess.run(
        [sys.executable, "-c", WATCH + code],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "RuntimeError: socket." in done.stderr
