"""Write what docs/ has of the code and of measurements: reference, metrics, rubrics, scale.

python docs/generate.py
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

RUBRICS = Path(__file__).with_name("rubrics.md")
START, END = "<!-- generated: rubrics -->\n", "<!-- end -->\n"

COMMANDS_HEAD = """# Commands

Generated from the code by `make generated`; do not edit. These are the texts of
`ragbench COMMAND --help`.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
"""

HEAD = """# Components and their options

Generated from the code by `make generated`; do not edit. In a table of options, `null` means that
the option is not set, as if the line were missing, unless its text says what `null` does.
[Commands](commands.md) have a page of their own.
"""


def commands() -> str:
    """Return the page with the help of each command."""
    from ragbench.cli import _COMMANDS
    from ragbench.errors import EXIT_MEANINGS

    parts = [COMMANDS_HEAD + "".join(f"| {n} | {words} |\n" for n, words in EXIT_MEANINGS.items())]
    for name in _COMMANDS:
        parts.append(f"## ragbench {name}\n\n```text\n{_printed_by(name, '--help')}```\n")
    return "\n".join(parts)


def reference() -> str:
    """Return the page with the options of each component."""
    parts = [HEAD]
    catalog = json.loads(_printed_by("list", "--all", "--json"))
    for kind, entries in catalog.items():
        if kind == "rubrics":
            parts.append("## Rubrics\n\nEach with its meaning: [rubrics](rubrics.md).\n")
            continue
        parts.append(f"## {kind.capitalize()}\n")
        parts += _for_all(kind)
        group = None
        for same in _alike(entries):
            if same[0].get("group") != group:
                group = same[0]["group"]
                parts.append(f"### {group.capitalize()}\n")
            parts.append(_component(same))
    return "\n".join(parts)


METRICS_HEAD = """# Metrics of answers

Generated from the code by `make generated`; do not edit. The [reference](reference.md) explains the
options, [scores](scores.md) the measures of rankings, and [conformance](conformance.md) lists the
reference implementation of each metric.

A metric is between 0 and 1 unless its range says otherwise. It treats several references as its
reference implementation does. An empty answer scores 0 (TER: the value of sacrebleu). An item
without a reference has no score, and is counted. Neither holds for `abstention.*`: an empty answer
refuses, and no reference is needed ([refusals](explain.md#scores-of-refusals)). `citation_gold.*`
read gold documents in place of references, `citation_support.*`, `nuggets.*` and `words_over_limit`
the [judgements of answers](data.md#trec-rag). An answer that a system lacks is failed, and is
counted by cause. Two numbers can be compared only if their signatures are
equal; `gold` is a hash of the gold answers.
"""


def metrics() -> str:
    """Return the page on the metrics of answers."""
    entries = json.loads(_printed_by("list", "metrics", "--all", "--json"))["metrics"]
    parts = [METRICS_HEAD]
    for same in _alike(entries):
        entry, names = same[0], ", ".join(f"`{each['name']}`" for each in same)
        rows = [
            ("parts", ", ".join(f"`.{part}`" for part in entry["parts"]) or "none"),
            ("range", _range(entry)),
            ("equal to", entry["equals"]),
            ("not for", entry["not_for"]),
            ("signature", _signature_cell(entry["name"])),
        ]
        table = "".join(f"| {key} | {value} |\n" for key, value in rows)
        parts.append(f"## {names}\n\n{entry['help']}.\n\n| | |\n|---|---|\n{table}")
    return "\n".join(parts)


def _range(entry: dict[str, Any]) -> str:
    low, high = (f"{end:g}" if end is not None else "unbounded" for end in entry["range"])
    return f"{low} to {high}, {entry['direction']} is better"


def _signature_cell(name: str) -> str:
    if name in ("pass^k", "pass@k"):
        return "that of `right`, with the number of repetitions"
    return f"`{_cell(_signature(name))}`"


def _signature(name: str) -> str:
    """What the values of a metric depend on; `...` for the references and what a model decides."""
    from ragbench.score.text.columns import shared_signature
    from ragbench.score.text.notation import parse_metric

    metric = parse_metric(name)
    if not callable(metric.declaration.facts):
        return str(replace(shared_signature(metric, "..."), name=metric.signed_name))
    # facts of a model would have to load or look up the model
    fixed = replace(metric, declaration=replace(metric.declaration, facts={}))
    return str(replace(shared_signature(fixed, "..."), name=f"{metric.signed_name}|..."))


def rubrics() -> str:
    """Return the page of rubrics with its table as the rubrics have it."""
    before, _, rest = RUBRICS.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    entries = json.loads(_printed_by("list", "rubrics", "--json"))["rubrics"]
    rows = "".join(_rubric(entry) for entry in entries)
    head = "| rubric | asks | needs | method | better | offline | measures | limits | source |\n"
    return f"{before}{START}{head}|{'---|' * 9}\n{rows}{END}{after}"


def _rubric(entry: dict[str, Any]) -> str:
    cells = [
        f"`{entry['name']}`",
        entry["asks"],
        ", ".join(entry["needs"]),
        entry["method"],
        entry["direction"],
        ", ".join(f"`{name}`" for name in ("classifier", "nli") if name in entry["judges"]),
        *(_cell(entry[part]) for part in ("measures", "limits", "source")),
    ]
    return f"| {' | '.join(cells)} |\n"


def _printed_by(*arguments: str) -> str:
    """What the command prints at a fixed width."""
    from ragbench.cli import main

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    before, environment = (sys.argv, sys.stdout, sys.stderr), os.environ.copy()
    sys.argv, sys.stdout = ["ragbench", *arguments], printed
    os.environ["COLUMNS"] = "90"
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
    finally:
        sys.argv, sys.stdout, sys.stderr = before
        os.environ.clear()
        os.environ.update(environment)
    printed.seek(0)
    return printed.read()


def _alike(entries: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The entries; those that differ in nothing but their name together."""
    shared: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        rest = {key: value for key, value in entry.items() if key != "name"}
        shared.setdefault(str(rest), []).append(entry)
    return list(shared.values())


def _component(same: list[dict[str, Any]]) -> str:
    entry, names = same[0], ", ".join(f"**`{each['name']}`**" for each in same)
    text = f"{names} {entry['help']}\n"
    return f"{text}\n{_table(entry['options'])}" if entry["options"] else text


def _table(options: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"| `{o['name']}` | {_cell(o['allowed'])} | {_default(o)} | {_cell(o['help'])} |\n"
        for o in options
    )
    return f"| option | allowed | default | |\n|---|---|---|---|\n{rows}"


def _for_all(kind: str) -> list[str]:
    """What is said of all members of a family: the keys that each takes besides its own."""
    if kind == "gates":
        return ["The keys of an entry of `gates` say which of these it is. See [gates](ci.md).\n"]
    from ragbench.config.components import common_keys
    from ragbench.generate import APPS, GENERATORS
    from ragbench.rerank import RERANKERS
    from ragbench.retrieve import RETRIEVERS

    families = {"retrievers": RETRIEVERS, "rerankers": RERANKERS, "generators": GENERATORS}
    family = {**families, "apps": APPS}.get(kind)
    if family is None:
        return []
    common = common_keys(family)
    of_code = common_keys(family, is_code=True)
    code_keys = {name: key for name, key in of_code.items() if name not in common}
    tables = [
        _table(
            [
                {
                    "name": name,
                    "allowed": key.allowed,
                    "required": key.required,
                    "default": None if key.required else key.default,
                    "help": key.option.help,
                }
                for name, key in keys
            ]
        )
        for keys in (common.items(), code_keys.items())
    ]
    return [f"Each takes besides:\n\n{tables[0]}", f"A `python:` type also takes:\n\n{tables[1]}"]


def _default(option: dict[str, Any]) -> str:
    return "required" if option["required"] else f"`{json.dumps(option['default'])}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


SCALE = Path(__file__).with_name("scale.md")
MEASUREMENTS = Path(__file__).parents[1] / "benchmarks" / "scale.jsonl"
MEASURED, PREDICTED = "<!-- generated: measured -->\n", "<!-- generated: predicted -->\n"
DOCUMENTS, QUERIES, JUDGEMENTS, SYSTEMS, HITS = 1e9, 1e6, 1e7, 10, 100
Line = dict[str, Any]


def scale() -> str:
    """Return the page on scale with what `benchmarks/scale.py` has measured, and what follows."""
    page = SCALE.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in MEASUREMENTS.read_text(encoding="utf-8").splitlines()]
    tables = {MEASURED: _measured(lines), PREDICTED: _predicted(lines)}
    for start, table in tables.items():
        before, _, rest = page.partition(start)
        page = f"{before}{start}{table}{END}{rest.partition(END)[2]}"
    return page


def _measured(lines: list[Line]) -> str:
    searched = [
        (
            f"{line['documents']:,}, {line['retriever']}"
            + (f" ({line['width']} numbers)" if line.get("width", 384) != 384 else ""),
            f"{line['read_s'] + line['index_s']:,.0f} s, {line['peak_mb']:,} MB",
            f"{line['again_read_s'] + line['again_index_s']:.1f} s",
            f"{1000 * line['again_search_s'] / line['queries']:.1f} ms",
            f"{line['again_peak_mb']:,} MB",
            f"{line['cache_mb']:,.0f} MB",
        )
        for line in lines
        if line["part"] == "documents"
    ]
    runs = [
        (
            f"{line['documents']:,}, {line['run']}",
            f"{line['cpu_s']:.1f} s",
            f"{line['peak_mb']:,} MB",
        )
        for line in lines
        if line["part"] == "run"
    ]
    rows = [
        (
            f"{line['rows']:,}, {line['workers']}",
            f"{line['cpu_s']:,.1f} s",
            f"{1e6 * line['cpu_s'] / line['rows']:.2f} us",
            f"{line['wall_s']:,.1f} s",
            f"{line['peak_mb']:,} MB",
        )
        for line in lines
        if line["part"] == "rows"
    ]
    judged = [
        (
            f"{line['judgements']:,}",
            f"{line['judge_s']:.1f} s",
            f"{line['peak_mb']} MB",
            f"{line['cache_mb']} MB",
            f"{line['input_tokens'] / line['judgements']:,.0f} + "
            f"{line['output_tokens'] / line['judgements']:.0f}",
        )
        for line in lines
        if line["part"] == "judgements"
    ]
    return "\n".join(
        [
            _grid(
                "documents, retriever|first: CPU, memory|again: ready after|a query|memory|kept",
                searched,
            ),
            _grid("documents, `ragbench run` over `bm25`|CPU|memory", runs),
            _grid("rows, workers|CPU|CPU a row|wall|memory", rows),
            _grid("judgements|CPU|memory|replies kept|tokens each", judged),
        ]
    )


def _predicted(lines: list[Line]) -> str:
    bm25 = [line for line in lines if line.get("retriever") == "bm25"]
    exact = [line for line in lines if line.get("retriever") == "exact"]
    judged = [line for line in lines if line["part"] == "judgements"]
    scored = max((line for line in lines if line["part"] == "rows"), key=lambda line: line["rows"])
    stored = [line for line in lines if line.get("run") == "stored"]
    ids = _slope(stored, "documents", lambda line: line["peak_mb"])
    building = _slope(bm25, "documents", lambda line: line["index_peak_mb"])
    indexing = _slope(bm25, "documents", lambda line: line["read_s"] + line["index_s"])
    kept = _slope(bm25, "documents", lambda line: line["cache_mb"])
    vectors = _slope(exact, "documents", lambda line: line["cache_mb"])
    per_query = {
        name: _slope(found, "documents", lambda line: line["again_search_s"] / line["queries"])
        for name, found in (("bm25", bm25), ("exact", exact))
    }
    calls = _slope(judged, "judgements", lambda line: line["judge_s"])
    replies = _slope(judged, "judgements", lambda line: line["cache_mb"])
    tokens = {
        name: judged[-1][f"{name}_tokens"] / judged[-1]["judgements"]
        for name in ("input", "output")
    }
    rows, a_row = QUERIES * SYSTEMS * HITS, scored["cpu_s"] / scored["rows"]
    found = [
        (
            "the corpus of a run that has all stored",
            f"{1000 * ids:.2g} kB of memory a document, for its id and text",
            f"{_tb(ids * DOCUMENTS)} of memory",
        ),
        (
            "an index of `bm25`",
            f"{1e6 * indexing:.0f} us, {1000 * building:.2g} kB of memory while it is built, "
            f"{1000 * kept:.2g} kB of disk a document",
            f"{_hours(indexing * DOCUMENTS)}, {_tb(building * DOCUMENTS)} of memory, "
            f"{_tb(kept * DOCUMENTS)} of disk",
        ),
        (
            "search by `bm25`",
            f"{1e9 * per_query['bm25']:.2g} ns a query and document",
            _hours(per_query["bm25"] * DOCUMENTS * QUERIES),
        ),
        (
            "vectors of 384 numbers",
            f"{1000 * vectors:.2g} kB of disk a document",
            f"{_tb(vectors * DOCUMENTS)}, and the time of the model",
        ),
        (
            "exact search in them",
            f"{1e9 * per_query['exact']:.2g} ns a query and document",
            _hours(per_query["exact"] * DOCUMENTS * QUERIES),
        ),
        (
            f"scoring {SYSTEMS} run files, {HITS} hits a query",
            f"{1e6 * a_row:.2g} us a row",
            f"{_hours(a_row * rows)}, {_tb(scored['peak_mb'])} of memory",
        ),
        (
            "calls of a judge, in the run itself",
            f"{1000 * calls:.2g} ms, {1000 * replies:.2g} kB of disk each",
            f"{_hours(calls * JUDGEMENTS)}, {_tb(replies * JUDGEMENTS)} of disk",
        ),
        (
            "what the calls cost",
            f"{tokens['input']:,.0f} + {tokens['output']:.0f} tokens each (`fluency`)",
            f"the price of {tokens['input'] * JUDGEMENTS / 1e6:,.0f} million input and "
            f"{tokens['output'] * JUDGEMENTS / 1e6:,.0f} million output tokens",
        ),
    ]
    sizes = f"{DOCUMENTS:,.0f} documents, {QUERIES:,.0f} queries, {JUDGEMENTS:,.0f} judgements"
    return _grid(f"what|measured|{sizes}", found)


def _slope(lines: list[Line], size: str, value: Callable[[Line], float]) -> float:
    """How much a value grows with a size, from the smallest to the largest that was measured."""
    small, *_, large = sorted(lines, key=lambda line: line[size])
    return (value(large) - value(small)) / (large[size] - small[size])


def _hours(seconds: float) -> str:
    return (
        f"{seconds / 3600:,.0f} core hours"
        if seconds > 7200
        else f"{seconds / 60:,.0f} core minutes"
    )


def _tb(megabytes: float) -> str:
    return f"{megabytes / 1e6:.1f} TB" if megabytes > 1e6 else f"{megabytes / 1000:,.0f} GB"


def _grid(head: str, rows: Iterable[Sequence[str]]) -> str:
    titles = head.split("|")
    body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n{body}"


SUMMARY_HEAD = """# Every field of summary.json

Generated from the code by `make generated`; do not edit. Each run folder has a `summary.json`. Its
key `schema` says `{version}`: keys may be added, but none changes its meaning. `ragbench schema
summary` prints its JSON Schema, which is also in
[configs/summary.schema.json](../configs/summary.schema.json). The schema is that of one version of
ragbench, and refuses keys that this version does not write.

`NAME` stands for a name that your config or data give, and `[]` for the items of a list. A key that
is not *always* there is left out where it has nothing to tell, or in files of earlier versions.
"""


def summary() -> str:
    """Return the page on the fields of summary.json: a table for each kind of object."""
    from ragbench.records.json_schema import summary_schema

    schema = summary_schema()
    # definition -> its places in the file, the outermost first; '' is the file itself
    places: dict[str, list[str]] = {"": []}
    waiting, tables = [""], list[tuple[str, str]]()
    for name in waiting:
        entry = schema["$defs"][name] if name else schema
        prefix = f"{places[name][0]}." if name else ""
        rows = []
        for key, value in entry["properties"].items():
            kind, inner, end = _json_kind(value)
            if inner and inner not in places:
                waiting.append(inner)
            if inner:
                places.setdefault(inner, []).append(f"{prefix}{key}{end}")
            always = "yes" if key in entry["required"] else ""
            rows.append((f"`{key}`", kind, always, _cell(value["description"])))
        tables.append((entry["description"], _grid("key|value|always|meaning", rows)))
    parts = [SUMMARY_HEAD.format(version=schema["title"])]
    for (_, here), (description, table) in zip(places.items(), tables, strict=True):
        title, *more = (f"`{place}`" for place in here) if here else ("The whole file",)
        also = f" Also {', '.join(more)}." if more else ""
        parts.append(f"## {title}\n\n{description}{also}\n\n{table}")
    return "\n".join(parts)


def _json_kind(value: dict[str, Any]) -> tuple[str, str, str]:
    """Return (type in words, its definition or '', what follows the key in a path)."""
    if "anyOf" in value:
        kind, inner, end = _json_kind(value["anyOf"][0])
        return f"{kind}, or null", inner, end
    if "$ref" in value:
        return "object", value["$ref"].rpartition("/")[2], ""
    if "enum" in value:
        return " \\| ".join(f"`{word}`" for word in value["enum"]), "", ""
    if "const" in value:
        return f"`{value['const']}`", "", ""
    if "prefixItems" in value:
        return f"list of {value['minItems']}", "", ""
    if value.get("type") == "array":
        kind, inner, end = _json_kind(value["items"])
        return f"list of: {kind}", inner, f"[]{end}"
    if value.get("type") == "object":
        kind, inner, end = _json_kind(value["additionalProperties"])
        return f"object of: {kind}", inner, f".NAME{end}"
    return value.get("type", "any"), "", ""


PAGES = {
    "commands.md": commands,
    "reference.md": reference,
    "metrics.md": metrics,
    "rubrics.md": rubrics,
    "scale.md": scale,
    "summary.md": summary,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        Path(__file__).with_name(name).write_text(page(), encoding="utf-8", newline="\n")
