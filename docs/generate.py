"""Write the pages of docs/ that come from the code and from measurements.

python docs/generate.py
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

RUBRICS = Path(__file__).with_name("rubrics.md")
START, END = "<!-- generated: rubrics -->\n", "<!-- end -->\n"

COMMANDS_HEAD = """# Commands

Generated from the code by `make generated`; do not edit. These are the texts of
`ragbench COMMAND --help`. Further pages: [compare, and more](commands-compare.md),
[check](commands-check.md).

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
"""

COMMANDS_MORE = """# Commands: {title}

Generated from the code by `make generated`; do not edit. [Exit codes](commands.md#exit-codes) hold
for all commands.

"""


def commands() -> str:
    """Return the page with the exit codes and the help of the first commands."""
    from ragbench.errors import EXIT_MEANINGS

    codes = "".join(f"| {n} | {words} |\n" for n, words in EXIT_MEANINGS.items())
    return f"{COMMANDS_HEAD}{codes}\n{_helps('Start', 'Read')}"


def commands_compare() -> str:
    """Return the page with the help of the commands that compare, and of the rest."""
    return COMMANDS_MORE.format(title="compare, and more") + _helps("Compare", "More")


def commands_check() -> str:
    """Return the page with the help of the commands that check configs, data and judges."""
    return COMMANDS_MORE.format(title="check") + _helps("Check")


def _helps(*groups: str) -> str:
    from ragbench.cli.commands import GROUPS

    names = [name for group in groups for name in GROUPS[group]]
    return "\n".join(
        f"## ragbench {name}\n\n```text\n{_printed_by(name, '--help')}```\n" for name in names
    )


REFERENCE_HEAD = """# {title}

Generated from the code by `make generated`; do not edit. An option without a default is not set
(`null`), unless its text says what `null` does. Several components have the [shared
options](#shared-options); another default stands in brackets.
{links}"""

REFERENCE_LINKS = """
Further pages: [generators and apps](reference-answers.md), [loaders, gates and
executors](reference-data.md), [measures of rankings](reference-measures.md), [metrics of
answers](metrics.md), [judges](reference-judges.md), [rubrics](rubrics.md), [commands](commands.md).
"""

# page -> its title and the families that it has
REFERENCES = {
    "reference.md": ("Retrievers and rerankers", ("retrievers", "rerankers")),
    "reference-answers.md": ("Generators and apps", ("generators", "apps")),
    "reference-data.md": ("Loaders, gates and executors", ("loaders", "gates", "executors")),
    "reference-judges.md": ("Judges", ("judges",)),
}
Entry = dict[str, Any]


def reference(name: str) -> str:
    """Return a page with the options of each component of its families."""
    title, kinds = REFERENCES[name]
    families = {kind: _entries(kind) for kind in kinds}
    common = {kind: _keys_of_all(kind) for kind in kinds}
    shared = _shared([*chain(*families.values()), *chain(*common.values())])
    links = REFERENCE_LINKS if name == "reference.md" else ""
    parts = [REFERENCE_HEAD.format(title=title, links=links)]
    for kind, entries in families.items():
        parts.append(f"## {kind.capitalize()}\n")
        parts += [f"{keys['name']}\n{_options(keys, shared)}" for keys in common[kind]]
        parts += [_component(same, shared) for same in _alike(entries)]
    return "\n".join([*parts, _shared_table(shared)])


MEASURES_HEAD = """# Measures of rankings

Generated from the code by `make generated`; do not edit. Write a measure as `ndcg@10`, or with
options: `recall(rel=2)@10`. [Scores](scores.md) has the rules, [conformance](conformance.md) the
reference implementations. Several measures have the [shared options](#shared-options); another
default stands in brackets.
"""
MEASURES_COLUMNS = "| measure | score of each query | options |\n|---|---|---|\n"


def measures() -> str:
    """Return the page on the measures of rankings: a table for each group."""
    entries = _entries("measures")
    shared, parts, group = _shared(entries), [MEASURES_HEAD], None
    for same in _alike(entries):
        if same[0]["group"] != group:
            group = same[0]["group"]
            parts.append(f"\n## {group.capitalize()}\n\n{MEASURES_COLUMNS}")
        names = ", ".join(f"`{entry['name']}`" for entry in same)
        options = _own_and_shared(same[0], shared)
        cell = "; ".join([*map(_inline, options[0]), *options[1]])
        score = _cell(same[0]["help"]).removeprefix("Score each query ").removeprefix("by ")
        parts.append(f"| {names} | {score} | {cell} |\n")
    return "".join([*parts, "\n", _shared_table(shared)])


def _inline(option: Entry) -> str:
    default = "required" if option["required"] else f"default {_default(option)}"
    help_text = _cell(option["help"]).rstrip(".")
    return f"`{option['name']}` ({_cell(option['allowed'])}; {default}): {help_text}"


def _entries(kind: str) -> list[Entry]:
    entries: list[Entry] = json.loads(_printed_by("list", kind, "--all", "--json"))[kind]
    return entries


def _shared(entries: list[Entry]) -> dict[str, Entry]:
    """Return name -> option that several components have, its most frequent form and default."""
    groups = _alike([{**entry, "name": f"{n}"} for n, entry in enumerate(entries)])
    counts = Counter(json.dumps(option) for same in groups for option in same[0]["options"])
    forms: dict[str, Counter[tuple[str, str]]] = {}
    for text, count in counts.items():
        option = json.loads(text)
        forms.setdefault(option["name"], Counter())[_form(option)] += count
    shared = {}
    for text, _ in counts.most_common():
        option = json.loads(text)
        form, count = forms[option["name"]].most_common(1)[0]
        if count > 1 and form == _form(option):
            shared.setdefault(option["name"], option)
    return shared


def _form(option: Entry) -> tuple[str, str]:
    return option["allowed"], option["help"]


def _own_and_shared(entry: Entry, shared: dict[str, Entry]) -> tuple[list[Entry], list[str]]:
    """Return the options that only this component has, and the names of the others."""
    own, names = [], []
    for option in entry["options"]:
        common = shared.get(option["name"])
        if common is None or _form(common) != _form(option):
            own.append(option)
        elif _default(common) == _default(option):
            names.append(f"`{option['name']}`")
        else:
            names.append(f"`{option['name']}` ({_default(option)})")
    return own, names


def _shared_table(shared: dict[str, Entry]) -> str:
    options = [shared[name] for name in sorted(shared)]
    return f"## Shared options\n\n{_table(options)}" if options else ""


METRICS_HEAD = """# Metrics of answers: {title}

Generated from the code by `make generated`; do not edit. Each metric has a [reference
implementation](conformance-answers.md). Several metrics have the [shared
options](#shared-options); another default stands in brackets.
{text}"""

METRICS_RULES = """
Also: [models, tool calls, citations and refusals](metrics-more.md).

- A score is from 0 to 1 and higher is better, unless a range is given.
- Several references are treated as by the reference implementation.
- An empty answer scores 0 (TER: the value of sacrebleu). An item without a reference has no score,
  and is counted. An absent answer is failed, and is counted by cause.
- Two numbers can be compared only if their signatures are equal; `gold` is a hash of the gold
  answers.
"""

METRICS_EXCEPTIONS = """
The rules are those of the [metrics of words](metrics.md). Exceptions:

- `abstention.*`: an empty answer refuses, and no reference is needed
  ([refusals](explain.md#scores-of-refusals)).
- `citation_gold.*` read gold documents in place of references.
- `citation_support.*`, `nuggets.*` and `words_over_limit` read the [judgements of
  answers](data.md#trec-rag).
"""
FIRST_OF_MORE = "tool_call_accuracy"


def metrics() -> str:
    """Return the page on the metrics of words and numbers."""
    head = METRICS_HEAD.format(title="words and numbers", text=METRICS_RULES)
    return _metrics(head, _metric_entries()[0])


def metrics_more() -> str:
    """Return the page on the metrics of models, tool calls, citations and refusals."""
    title = "models, tool calls, citations, refusals"
    return _metrics(METRICS_HEAD.format(title=title, text=METRICS_EXCEPTIONS), _metric_entries()[1])


def _metric_entries() -> tuple[list[Entry], list[Entry]]:
    entries = _entries("metrics")
    first = [entry["name"] for entry in entries].index(FIRST_OF_MORE)
    return entries[:first], entries[first:]


def _metrics(head: str, entries: list[Entry]) -> str:
    shared, parts = _shared(entries), [head]
    for same in _alike(entries):
        entry, names = same[0], ", ".join(f"`{each['name']}`" for each in same)
        rows = [
            ("Parts", ", ".join(f"`.{part}`" for part in entry["parts"])),
            ("Range", _range(entry)),
            ("Equal to", entry["equals"]),
            ("Not for", entry["not_for"]),
            ("Signature", _signature_of(entry["name"])),
        ]
        facts = "".join(f"- {key}: {value}\n" for key, value in rows if value)
        parts.append(f"## {names}\n\n{entry['help']}.\n\n{facts}{_options(entry, shared)}")
    return "\n".join([*parts, _shared_table(shared)])


def _range(entry: dict[str, Any]) -> str:
    """Return the range of a metric; '' for 0 to 1 where higher is better."""
    low, high = (f"{end:g}" if end is not None else "unbounded" for end in entry["range"])
    if (low, high, entry["direction"]) == ("0", "1", "higher"):
        return ""
    return f"{low} to {high}, {entry['direction']} is better"


def _signature_of(name: str) -> str:
    if name in ("pass^k", "pass@k"):
        return "that of `right`, with the number of repetitions"
    return f"`{_signature(name)}`"


def _signature(name: str) -> str:
    """Return the signature of a metric; `...` is a part that references or a model decide."""
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
    rows = "".join(_rubric(entry) for entry in _rubric_entries())
    head = "| rubric | asks | needs | method | better | offline |\n"
    return _with_generated(RUBRICS, START, f"{head}|{'---|' * 6}\n{rows}")


# page -> the methods of its rubrics
RUBRIC_METHODS = {
    "rubrics-claims.md": ("claims", "nuggets", "support"),
    "rubrics-ratings.md": ("rating", "pairwise", "intentions", "retention"),
}


def rubric_texts(name: str) -> str:
    """Return a page with what each of its rubrics measures, its limits and its source."""
    head = "| rubric | measures | not for | source |\n|---|---|---|---|\n"
    rows = "".join(
        f"| `{entry['name']}` | {' | '.join(_cell(entry[part]) for part in TEXTS)} |\n"
        for entry in _rubric_entries()
        if entry["method"] in RUBRIC_METHODS[name]
    )
    return _with_generated(RUBRICS.with_name(name), START, head + rows)


TEXTS = ("measures", "limits", "source")


def _rubric_entries() -> list[Entry]:
    entries: list[Entry] = json.loads(_printed_by("list", "rubrics", "--json"))["rubrics"]
    return entries


def _with_generated(path: Path, start: str, text: str) -> str:
    """Return the text of a page with another text between `start` and the end mark."""
    before, _, rest = path.read_text(encoding="utf-8").partition(start)
    return f"{before}{start}{text}{END}{rest.partition(END)[2]}"


def _rubric(entry: Entry) -> str:
    cells = [
        f"`{entry['name']}`",
        entry["asks"],
        ", ".join(entry["needs"]),
        entry["method"],
        entry["direction"],
        ", ".join(f"`{name}`" for name in ("classifier", "nli") if name in entry["judges"]),
    ]
    return f"| {' | '.join(cells)} |\n"


def _printed_by(*arguments: str) -> str:
    """Return the output of a command at a fixed width."""
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


def _component(same: list[Entry], shared: dict[str, Entry]) -> str:
    names = ", ".join(f"**`{entry['name']}`**" for entry in same)
    return f"{names} {same[0]['help']}\n{_options(same[0], shared)}"


def _options(entry: Entry, shared: dict[str, Entry]) -> str:
    """Return the table of the options of one component, and the names of its shared options."""
    own, names = _own_and_shared(entry, shared)
    table = f"\n{_table(own)}" if own else ""
    return table + (f"\nShared options: {', '.join(names)}\n" if names else "")


def _table(options: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"| `{o['name']}` | {_cell(o['allowed'])} | {_default_cell(o)} | {_cell(o['help'])} |\n"
        for o in options
    )
    return f"| option | allowed | default | |\n|---|---|---|---|\n{rows}"


def _keys_of_all(kind: str) -> list[Entry]:
    """Return the keys that each member of a family takes, and those of `python:` types alone."""
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
    tables = []
    for sentence, keys in (("Each takes:", common), ("A `python:` type takes:", code_keys)):
        options = [
            {
                "name": name,
                "allowed": key.allowed,
                "required": key.required,
                "default": None if key.required else key.default,
                "help": key.option.help,
            }
            for name, key in keys.items()
        ]
        tables.append({"name": sentence, "help": "", "options": options})
    return tables


def _default_cell(option: Entry) -> str:
    """Return the default for a table; '' where the option is not set by default."""
    default = _default(option)
    return "" if default == "`null`" else default


def _default(option: Entry) -> str:
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
    """Return the growth of a value per unit of a size, from the smallest to the largest size."""
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


SUMMARY_HEAD = """# summary.json: {title}

Generated from the code by `make generated`; do not edit. `NAME` stands for a name that your config
or data give, and `[]` for the items of a list. Keys in bold are always there. Others are left out
where they have nothing to tell.
{links}"""

SUMMARY_LINKS = """
Each run folder has a `summary.json`. Its key `schema` says `{version}`: keys may be added, but none
changes its meaning. `ragbench schema summary` prints its JSON Schema, which is also in
[configs/summary.schema.json](../configs/summary.schema.json); it refuses keys that this version
does not write. Further pages: [scores of a system](summary-systems.md), [gates, audit and
preferences](summary-decisions.md).
"""

# page -> its title and the keys of the file whose objects it has
SUMMARY_PARTS = {
    "summary-systems.md": ("scores of a system", ("systems",)),
    "summary-decisions.md": (
        "gates, audit and preferences",
        ("gates", "audit", "preferences", "selected", "folds"),
    ),
}


def summary(name: str) -> str:
    """Return a page on the fields of summary.json: a table for each kind of object."""
    from ragbench.records.json_schema import summary_schema

    title, keys = SUMMARY_PARTS.get(name, ("the whole file", ()))
    elsewhere = [key for _, others in SUMMARY_PARTS.values() for key in others]
    links = "" if keys else SUMMARY_LINKS.format(version=summary_schema()["title"])
    parts = [SUMMARY_HEAD.format(title=title, links=links)]
    for key, text in _summary_objects():
        if key in keys or (not keys and key not in elsewhere):
            parts.append(text)
    return "\n".join(parts)


def _summary_objects() -> Iterator[tuple[str, str]]:
    """Yield (key of the file, section of the page) for each kind of object; '' is the file."""
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
            name = f"**`{key}`**" if key in entry["required"] else f"`{key}`"
            rows.append((name, kind, _cell(value["description"])))
        tables.append((entry["description"], _grid("key|value|meaning", rows)))
    for (_, here), (description, table) in zip(places.items(), tables, strict=True):
        title, *more = (f"`{place}`" for place in here) if here else ("The whole file",)
        also = f" Also {', '.join(more)}." if more else ""
        key = re.split(r"\W", here[0], maxsplit=1)[0] if here else ""
        yield key, f"## {title}\n\n{description}{also}\n\n{table}"


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
    "commands-compare.md": commands_compare,
    "commands-check.md": commands_check,
    **{name: partial(reference, name) for name in REFERENCES},
    "reference-measures.md": measures,
    "metrics.md": metrics,
    "metrics-more.md": metrics_more,
    "rubrics.md": rubrics,
    "rubrics-claims.md": partial(rubric_texts, "rubrics-claims.md"),
    "rubrics-ratings.md": partial(rubric_texts, "rubrics-ratings.md"),
    "scale.md": scale,
    **{name: partial(summary, name) for name in ("summary.md", *SUMMARY_PARTS)},
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        Path(__file__).with_name(name).write_text(page(), encoding="utf-8", newline="\n")
