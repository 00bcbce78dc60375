"""Secrets in every place that a config has for one, told back by everybody: none is written."""

import base64
import gzip
import json
import os
import re
import subprocess
import zlib
from contextlib import closing
from sqlite3 import connect

import pytest
import yaml

from ragbench.config.load import load_config
from ragbench.errors import ConfigError
from tests.cli.echo_server import EchoServer, forms_of
from tests.cli.planted import COMPONENTS, LITERAL, SECRETS, VARIABLES, config
from tests.commands import run_command

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"


class Shell:
    """Runs commands in a folder, and keeps all that they print."""

    def __init__(self, folder, program):
        self.folder, self.program, self.printed = folder, program, b""
        (folder / "tmp").mkdir()
        names = ("PATH", "PYTHONPATH", "HOME", "LANG")
        self.environment = {
            **{name: os.environ[name] for name in names if name in os.environ},
            **VARIABLES,
            "TMPDIR": str(folder / "tmp"),
            "PYTHONWARNINGS": "always",
        }

    def __call__(self, *command, code=(0,), **environment):
        """Run a command as a process of its own: the user's code prints, warns and logs."""
        done = subprocess.run(
            [self.program, *map(str, command)],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
        self._keep(command, done, code)

    def read(self, *command, code=(0,)):
        """Run a command that runs none of the user's code."""
        done = run_command(*command, cwd=self.folder, env=self.environment)
        self._keep(command, done, code)

    def _keep(self, command, done, code):
        printed = f"\n$ {command[0]}\n{done.stdout}{done.stderr}"
        self.printed += printed.encode("utf-8", "surrogateescape")
        assert done.returncode in code, printed[-3000:]


# What is looked for: most secrets are the same in many forms.
FORMS = {
    text.encode(): f"{name}: {form}"
    for name, secret in SECRETS.items()
    for form, text in forms_of(secret).items()
}


def leaks(content):
    """The secrets that bytes hold, in which form, and where."""
    return {
        f"{description}: {content[max(0, start - 60) : start + 60]!r}"
        for form, description in FORMS.items()
        if (start := content.find(form)) >= 0
    }


def leaks_in(folder, ignored):
    """The same of all files, what databases have compressed included."""
    leaking = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name in ignored:
            continue
        content = path.read_bytes()
        if path.suffix == ".sqlite":
            with closing(connect(path)) as database:
                for (table,) in database.execute(_TABLES).fetchall():
                    for row in database.execute(f'SELECT * FROM "{table}"'):
                        content += b"".join(map(_plain, row))
        if path.name == "report.html":
            content += _unpacked(content)
        if leaked := leaks(content):
            leaking[str(path.relative_to(folder))] = leaked
    return leaking


def _unpacked(page):
    """Return the decompressed texts of the queries of a page."""
    blocks = re.findall(
        rb'<script type="application/octet-stream" id="[^"]*">([^<]*)</script>', page
    )
    assert blocks, "the queries are in the page"
    return b"".join(gzip.decompress(base64.b64decode(block)) for block in blocks)


def _plain(cell):
    if not isinstance(cell, bytes):
        return str(cell).encode()
    try:
        return json.dumps(json.loads(zlib.decompress(cell)), ensure_ascii=False).encode() + cell
    except (zlib.error, ValueError):
        return cell


@pytest.mark.slow(first=True)
def test_no_planted_secret_is_written(tmp_path, warm):
    (tmp_path / "hostile.py").write_text(COMPONENTS)
    shell = Shell(tmp_path, warm.folder / "ragbench")
    with EchoServer() as server:
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(config(server.url), allow_unicode=True))
        more = ("--set", f"retrievers.own.access_token={LITERAL['set']}")
        shell("validate", "c.yaml", *more)
        shell("plan", "c.yaml", *more)
        shell("run", "c.yaml", *more, code=(0, 3))
        shell("run", "c.yaml", *more, "--retry-failed", "--json", code=(0, 3))
        shell("run", "c.yaml", *more, code=(70,), CRASH="1")
        run = "runs/planted/latest"
        shell("reproduce", run, code=(0, 1, 2, 3))
        shell.read("report", run)
        shell.read("compare", run, run, code=(0, 1, 2, 3))
        shell.read("baseline", run, "-o", "base.json", code=(0, 1, 2, 3))
        shell.read("calibrate", run, "--draw", "2", code=(0, 1, 2, 3))
        shell.read("cache", "verify", code=(0, 1, 2))
        shell.read("cache")
        for wrong in (
            f"retrievers.no.token={LITERAL['set']}: [",
            f"retrievers.no={{type: http, headers: {{X-A: {LITERAL['set']}}}, url: 3",
            f"api_key:{LITERAL['set']}",
        ):
            shell.read("run", "c.yaml", "--set", wrong, code=(2,))

    assert server.requests > 50
    assert leaks(shell.printed) == set()
    assert leaks_in(tmp_path, ("c.yaml", "hostile.py")) == {}
    logs = [*(tmp_path / "tmp").glob("*.log")]
    assert ["RuntimeError" in log.read_text() for log in logs] == [True]
    assert b"retrievers.own.api_key holds a secret" in shell.printed
    assert b"write ${NAME} there" in shell.printed
    page = (tmp_path / run / "report.html").read_text()
    assert page.count("a") > 1000, "a header of one letter hides nothing"


def mistakes():
    """Configs with a mistake on, or beside, a line with a secret."""
    right = config("http://127.0.0.1:1")
    retriever = right["retrievers"]["own"]
    text = yaml.safe_dump(right, allow_unicode=True, width=1000)
    yield text.replace("retries: 1", "retires: 1")
    yield text.replace(f"api_key: {LITERAL['option']}", f"api_key: {LITERAL['option']}: x")
    yield text.replace("X-Short: pw12345", "X-Short: pw12345: x")
    yield text.replace("X-Short: pw12345", "X-Short: pw12345\n      X-Short: pw12345")
    yield text.replace(f"dsn: {retriever['dsn']}", f"dsn: [{retriever['dsn']}")
    yield text.replace(f"{LITERAL['dataset']}", f"'{LITERAL['dataset']}")
    yield text.replace("url: http", "url: {a: 1}\n      url2: http")
    yield text.replace("url: http", "url: {a: 1}\n    url2: http")
    yield text.replace("type: python:hostile:Data", "type: python:hostile:Nothing")
    yield text.replace("X-Short: pw12345", "X-Short: >-\n          first\n         pw12345")
    yield text.replace("X-Short: pw12345", "? X-Short\n        : pw12345: x")
    yield text.replace("      X-Short: pw12345", "\tX-Short: pw12345")
    flow = f"{{type: http, headers: {{X-A: {LITERAL['tenant']}, X-Short: pw12345]}}"
    yield text.replace("retrievers:\n", f"retrievers:\n  flow: {flow}\n")
    metric = f'- "python:hostile:polite(api_key={LITERAL["option"]})"'
    yield text.replace("- token_f1", metric).replace("class Model", "def polite")


def test_the_name_of_a_score_holds_no_secret(example_data):
    config = {
        "dataset": {"type": "beir", "path": str(example_data)},
        "retrievers": {"b": {"type": "bm25"}},
        "generators": {"e": {"type": "extractive"}},
        "metrics": {
            "generation": ["python:tests.cli.test_written_secrets:polite(api_key=${A_KEY})"]
        },
    }

    with pytest.raises(ConfigError, match="allowed: no secret") as error:
        load_config(config, environment={"A_KEY": "abcdefgh"})

    assert "abcdefgh" not in str(error.value)


def polite(prediction: str, *, api_key: str = "") -> bool:
    return bool(prediction and api_key)


def test_all_texts_beside_a_secret_are_hidden(example_data):
    config = load_config(
        {
            "dataset": {"type": "beir", "path": str(example_data)},
            "retrievers": {"b": {"type": "bm25"}},
            "generators": {
                "g": {
                    "type": "http",
                    "url": "http://h",
                    "headers": {"X-A": "first-text-1${A_TOKEN}second-text-2"},
                }
            },
        },
        environment={"A_TOKEN": "abcdefgh"},
    )

    assert {"first-text-1", "abcdefgh", "second-text-2"} <= {*config.secrets.values()}


@pytest.mark.parametrize("wrong", [*mistakes()])
def test_no_secret_is_in_the_excerpt_of_a_mistake(wrong, tmp_path):
    (tmp_path / "hostile.py").write_text(COMPONENTS)
    path = tmp_path / "wrong.yaml"
    path.write_text(wrong)

    with pytest.raises(ConfigError) as error:
        load_config(path, environment=VARIABLES)

    assert leaks(str(error.value).encode()) == set()
    assert "wrong.yaml:" in str(error.value)
