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
from tests.cli.echo_server import EchoServer, written
from tests.commands import run_command

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

ODD = "pa/ss+w\"o'rd<é>&\\x"
LITERAL = {
    "bearer": "lit/BEARER+9f8a7b6c",
    "short header": "pw12345",
    "tenant": "tenant-5f4d3c2b1a",
    "session": "c00kie5e551on",
    "url key": "QUERYSECRET12345",
    "password of basic": "b4s1c/pass+word",
    "option": "optionkey-77aa66bb",
    "dsn": "dsnPASS-42-word",
    "nested": "nested-99-secret",
    "in a list": "inlist-88-secret",
    "number": "8417263509",
    "proxy": "pr0xyPASS-31",
    "odd": ODD,
    "declared": "declared-seed-phrase-3",
    "dataset": "dataset-token-17x",
    "generator header": "gen/header/KEY-1",
    "generator url": "genQUERY-key-55",
    "app header": "appHEADER+key/2",
    "app url": "appQUERY-key-66",
    "default": "sk-default-literal-1",
    "set": "set-on-cmdline-44",
    "pem": "MIIEvQIBADANBgkqhkiG9w0B",
    "form": "ghp_formOfAKeyOfAVendor1",
    "connection": "adoPASS-71-word",
    "libpq": "libpqPASS-72-word",
    "flag": "flag-value-73-abc",
    "flag with a sign": "flag-value-74-abc",
    "command": "commandBEARER75abc",
    "prompt": "sk-prompt-76-abcdef",
    "second of a text": "sk-second-77-abcdef",
    "json in a text": "jsontext-78-abcdef",
    "any key": "7b2dkey79abcdef",
    "environment": "environment-80-abc",
    "fragment": "fragment-81-abcdef",
    "stripped": "stripped-82-abcdef",
    "swept": "swept-83-abcdef",
    "account": "account-84-pass",
    "body": "body-87-abcdef",
    "extra": "extra-88-abcdef",
    "model": "langchain-89-abcdef",
}
VARIABLES = {
    "SEARCH_TOKEN": "env/search+token=1",
    "RERANK_KEY": "env-rerank-key-2",
    "CHAT_KEY": "sk-env-chat-key-3",
    "JUDGE_KEY": "sk-env-judge-key-4",
    "MY_DSN": "postgresql://me:env-dsn-pass-5@db/x",
    "DB_PASSWORD": "env-client-secret-6",
    "AMBIENT_API_KEY": "ambient-key-7-unnamed",
    "BASIC": "Basic " + base64.b64encode(b"you:env-basic-pass-8").decode(),
    "ENCODED": base64.b64encode(b"you:env-encoded-pass-9").decode(),
}
SECRETS = {
    **LITERAL,
    **VARIABLES,
    "MY_DSN": "env-dsn-pass-5",
    "BASIC": "env-basic-pass-8",
    "ENCODED": "env-encoded-pass-9",
}

COMPONENTS = """
import logging, os, sys, warnings
from types import SimpleNamespace
from typing import Annotated
import ragbench as rb
from ragbench.registry import Option
from ragbench.types import Collection, Document, Query, Qrels
from tests.cli.echo_server import written

def forms(value):
    if isinstance(value, dict):
        return " ".join(map(forms, value.values()))
    if isinstance(value, (list, tuple)):
        return " ".join(map(forms, value))
    return " ".join(" ".join(written(each).values()) for each in (str(value), str(value).strip()))

def tell(*values):
    text = f"{values!r} {forms(values)} {forms(os.environ['AMBIENT_API_KEY'])}"
    print(text); print(text, file=sys.stderr)
    warnings.warn(text); logging.getLogger("mine").error(text)
    return text

class Data:
    def __init__(self, auth_token): self.auth_token = auth_token
    def load(self):
        tell(self.auth_token)
        return Collection(
            queries=[Query(f"q{n}", f"moon {n}") for n in range(9)],
            documents=[Document("d1", "moon"), Document("d2", "rings")],
            qrels=Qrels.from_dict({f"q{n}": {"d1": 1} for n in range(9)}),
            answers={f"q{n}": ["moon"] for n in range(9)},
        )

class Model:
    model_name = "m"
    def __init__(self, api_key):
        self.api_key = api_key
    def invoke(self, messages, **options):
        text = tell(self.api_key)
        told = {"model_name": f"m {text}", "finish_reason": "stop", "system_fingerprint": text}
        refusal = {"refusal": text} if "moon 4" in str(messages) else {}
        return SimpleNamespace(content=text, response_metadata=told, additional_kwargs=refusal)

class Search:
    def __init__(self, seed_phrase: Annotated[str, Option("Words.", secret=True)] = "", **options):
        self.options = {**options, "seed_phrase": seed_phrase}
        if os.environ.get("CRASH"):
            import ragbench.experiment.runner as runner
            def boom(*arguments, **more): raise RuntimeError(tell(self.options))
            runner.write_run = boom
    def retrieve(self, queries, top_k):
        text = tell(self.options)
        if any("3" in query.text for query in queries):
            raise ValueError(text)
        return [[rb.ScoredDocument("d1", 1.0, text, text)] for _ in queries]
"""


def config(url):
    basic = base64.b64encode(f"me:{LITERAL['password of basic']}".encode()).decode()
    s = LITERAL
    return {
        "name": "planted",
        "dataset": {"type": "python:hostile:Data", "auth_token": s["dataset"]},
        "retrievers": {
            "web": {
                "type": "http",
                "url": f"{url}/search?api_key={s['url key']}&k=3",
                "retries": 1,
                "headers": {
                    "Authorization": f"Bearer {s['bearer']}",
                    "X-Short": s["short header"],
                    "X-Letter": "a",
                    "X-Tenant": s["tenant"],
                    "Cookie": f"session={s['session']}; theme=dark",
                    "X-Env": "${SEARCH_TOKEN}",
                    "X-Default": "${NOT_SET_TOKEN:-" + s["default"] + "}",
                },
                "texts": "$.hits[*].text",
                "queries": "$.queries[*]",
            },
            "basic": {
                "type": "http",
                "url": f"{url}/search",
                "retries": 0,
                "headers": {"Authorization": f"Basic {basic}"},
                "texts": "$.hits[*].text",
            },
            "envbasic": {
                "type": "http",
                "url": f"{url}/search",
                "retries": 0,
                "headers": {"Authorization": "${BASIC}"},
            },
            "encoded": {
                "type": "http",
                "url": f"{url}/search",
                "retries": 0,
                "headers": {"Authorization": "Basic ${ENCODED}"},
                "texts": "$.hits[*].text",
            },
            "own": {
                "type": "python:hostile:Search",
                "api_key": s["option"],
                "dsn": f"postgresql://me:{s['dsn']}@db:5432/x",
                "proxy": f"http://user:{s['proxy']}@proxy:3128",
                "settings": {"password": s["nested"], "tokens": [{"token": s["in a list"]}]},
                "pin": int(s["number"]),
                "passphrase": s["odd"],
                "seed_phrase": s["declared"],
                "other": "${MY_DSN}",
                "client_secret": "${DB_PASSWORD}",
                "github": s["form"],
                "private_key": "-----BEGIN PRIVATE KEY-----\n" + s["pem"] + "\n-----END",
                "database": f"Server=tcp:db;User ID=me;Password={s['connection']};Encrypt=yes",
                "store": f"host=db user=me password={s['libpq']} dbname=x",
                "args": ["--token", s["flag"], f"--api-key={s['flag with a sign']}"],
                "command": f"curl -H 'Authorization: Bearer {s['command']}' http://h",
                "prompt": f"Not {s['prompt']}, nor {s['second of a text']}.",
                "json": json.dumps({"api_key": s["json in a text"], "k": 3}),
                "pinecone_key": s["any key"],
                "env": {"PINECONE_KEY": s["environment"]},
                "back": f"https://h/cb#access_token={s['fragment']}",
                "api_token": f" {s['stripped']}\n",
                "account": {"user": "me", "pass": s["account"]},
            },
            "swept": {"type": "python:hostile:Search", "sweep": {"api_key": [s["swept"], "none"]}},
            "reranked": {
                "type": "http",
                "retriever": "own",
                "url": f"{url}/rerank",
                "api_key_env": "RERANK_KEY",
                "retries": 1,
            },
        },
        "generators": {
            "service": {
                "type": "http",
                "url": f"{url}/answer?token={s['generator url']}",
                "answer": "$.answer",
                "headers": {"X-Whatever": s["generator header"]},
                "body": {"q": "{question}", "api_key": s["body"]},
                "retries": 1,
            },
            "model": {
                "type": "langchain",
                "factory": "hostile:Model",
                "args": {"api_key": s["model"]},
            },
            "chat": {
                "type": "openai",
                "model": "m",
                "base_url": f"{url}/v1",
                "api_key_env": "CHAT_KEY",
                "extra": {"api_key": s["extra"]},
                "retries": 1,
            },
        },
        "apps": {
            "whole": {
                "type": "http",
                "url": f"{url}/app?{s['app url']}",
                "answer": "$.answer",
                "texts": "$.hits[*].text",
                "headers": {"X-App": s["app header"]},
                "retries": 0,
            }
        },
        "metrics": {
            "retrieval": {"measures": ["ndcg@10"]},
            "generation": ["token_f1"],
            "judge": {
                "type": "openai",
                "model": "m",
                "base_url": f"{url}/v1",
                "api_key_env": "JUDGE_KEY",
                "retries": 1,
                "rubrics": ["correctness"],
            },
        },
        "max_failed": 1.0,
    }


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"


class Shell:
    """Runs commands in a folder, and keeps all that they print."""

    def __init__(self, folder, program):
        self.folder, self.program, self.printed = folder, program, b""
        (folder / "tmp").mkdir()
        kept = ("PATH", "PYTHONPATH", "HOME", "LANG")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
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
        told = f"\n$ {command[0]}\n{done.stdout}{done.stderr}"
        self.printed += told.encode("utf-8", "surrogateescape")
        assert done.returncode in code, told[-3000:]


def leaks(content):
    """The secrets that bytes hold, in which form, and where."""
    return {
        f"{name}: {form}: {content[max(0, at - 60) : at + 60]!r}"
        for name, secret in SECRETS.items()
        for form, text in written(secret).items()
        if (at := content.find(text.encode())) >= 0
    }


def leaks_in(folder, ignored):
    """The same of all files, what databases have compressed included."""
    found = {}
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
            found[str(path.relative_to(folder))] = leaked
    return found


def _unpacked(page):
    """What the page holds of the queries, which is compressed."""
    blocks = re.findall(
        rb'<script type="application/octet-stream" id="[^"]*">([^<]*)</script>', page
    )
    assert len(blocks) > 1, "an index, and parts"
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
    assert b"${API_KEY}" in shell.printed
    page = (tmp_path / run / "report.html").read_text()
    assert page.count("a") > 1000, "a header of one letter hides nothing"


def mistakes():
    """Configs with a mistake on, or beside, a line with a secret."""
    right = config("http://127.0.0.1:1")
    own = right["retrievers"]["own"]
    text = yaml.safe_dump(right, allow_unicode=True, width=1000)
    yield text.replace("retries: 1", "retires: 1")
    yield text.replace(f"api_key: {LITERAL['option']}", f"api_key: {LITERAL['option']}: x")
    yield text.replace("X-Short: pw12345", "X-Short: pw12345: x")
    yield text.replace("X-Short: pw12345", "X-Short: pw12345\n      X-Short: pw12345")
    yield text.replace(f"dsn: {own['dsn']}", f"dsn: [{own['dsn']}")
    yield text.replace(f"{LITERAL['dataset']}", f"'{LITERAL['dataset']}")
    yield text.replace("url: http", "url: {a: 1}\n      url2: http")
    yield text.replace("url: http", "url: {a: 1}\n    url2: http")
    yield text.replace("type: python:hostile:Data", "type: python:hostile:Nothing")
    yield text.replace("X-Short: pw12345", "X-Short: >-\n          first\n         pw12345")
    yield text.replace("X-Short: pw12345", "? X-Short\n        : pw12345: x")
    yield text.replace("      X-Short: pw12345", "\tX-Short: pw12345")
    flow = f"{{type: http, headers: {{X-A: {LITERAL['tenant']}, X-Short: pw12345]}}"
    yield text.replace("retrievers:\n", f"retrievers:\n  flow: {flow}\n")
    named = f'- "python:hostile:polite(api_key={LITERAL["option"]})"'
    yield text.replace("- token_f1", named).replace("class Model", "def polite")


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
