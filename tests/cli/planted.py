"""A config with a secret in every place that has one, and components that tell theirs back."""

import base64
import json

ODD = "pa/ss+w\"o'rd<é>&\\x"
# each place of a config that may hold a secret has another value, so that a leak names its place
LITERAL = {
    "bearer": "lit/BEARER+9f8a7b6c",
    # shorter than most keys, and no word
    "short header": "pw12345",
    "tenant": "tenant-5f4d3c2b1a",
    "session": "c00kie5e551on",
    "url key": "QUERYSECRET12345",
    "password of basic": "b4s1c/pass+word",
    "option": "optionkey-77aa66bb",
    "dsn": "dsnPASS-42-word",
    "nested": "nested-99-secret",
    "in a list": "inlist-88-secret",
    # a key of digits alone, which YAML reads as a number
    "number": "8417263509",
    # the password within an address
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
    # the beginning of a private key in PEM
    "pem": "MIIEvQIBADANBgkqhkiG9w0B",
    # known as a secret by its form, whatever its key is called
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
    # no config names it; code of the user reads it from the environment
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
from tests.cli.echo_server import in_all_forms

def forms(value):
    if isinstance(value, dict):
        return " ".join(map(forms, value.values()))
    if isinstance(value, (list, tuple)):
        return " ".join(map(forms, value))
    return " ".join(in_all_forms([str(value), str(value).strip()]))

def tell(*values):
    text = f"{values!r} {forms(values)} {forms(os.environ['AMBIENT_API_KEY'])}"
    # components tell their secrets on every way out of a process
    print(text); print(text, file=sys.stderr)
    warnings.warn(text); logging.getLogger("mine").error(text)
    return text

class Data:
    def __init__(self, auth_token): self.auth_token = auth_token
    def load(self):
        tell(self.auth_token)
        return Collection(
            queries=[Query(f"q{n}", f"moon {n}") for n in range(2, 5)],
            documents=[Document("d1", "moon"), Document("d2", "rings")],
            qrels=Qrels.from_dict({f"q{n}": {"d1": 1} for n in range(2, 5)}),
            answers={f"q{n}": ["moon"] for n in range(2, 5)},
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
        # one query fails, so that the secret is in an error as well
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
                "retries": 0,
            },
        },
        # each reads what another of the retrievers tells: 27 pairs would only tell it again
        "generators": {
            "service": {
                "type": "http",
                "retrievers": ["own"],
                "url": f"{url}/answer?token={s['generator url']}",
                "answer": "$.answer",
                "headers": {"X-Whatever": s["generator header"]},
                "body": {"q": "{question}", "api_key": s["body"]},
                "retries": 0,
            },
            "model": {
                "type": "langchain",
                "retrievers": ["reranked"],
                "factory": "hostile:Model",
                "args": {"api_key": s["model"]},
            },
            "chat": {
                "type": "openai",
                "retrievers": ["web"],
                "model": "m",
                "base_url": f"{url}/v1",
                "api_key_env": "CHAT_KEY",
                "extra": {"api_key": s["extra"]},
                "retries": 0,
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
                "retries": 0,
                "rubrics": ["correctness"],
            },
        },
        "statistics": {"resamples": 100},
        "max_failed": 1.0,
    }
