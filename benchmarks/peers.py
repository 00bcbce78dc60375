"""Measure the peers on the same inputs, each in an environment of its own: `make peers`.

    python benchmarks/peers.py [--only NAME ...] [--task TASK ...] [--again] [--keep] [--render]

Tasks: `install` (packages, size, import), `rank` (against trec_eval), `text` (BLEU against
sacrebleu, ROUGE-L against rouge-score), `judge` (a scripted server on this machine fails for one of
ten questions: garbage, then status 500) and `gate` (pairs of runs of which the truth is known).
`--only ranx --task rank --again` makes the cells of ranx in that table again.

`peers.txt` holds the peers and their versions. Versions of what they depend on are those of the
last measurement, in `peers.json`; `--newest` resolves them anew. Results of a peer are kept in
`build/peers/NAME.json` after each task, so a measurement that was interrupted goes on; its
environment goes away at the end unless `--keep`. The tables are written to `docs/against.md`
between the marks. A peer that cannot be installed or run is a row that says why.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "against.md"
STORE = FOLDER / "peers.json"
BUILD = FOLDER.parent / "build" / "peers"
MARKS = "<!-- begin: make peers -->\n", "<!-- end: make peers -->\n"
TASKS = ("install", "rank", "text", "judge", "gate")
LIMIT_S = 400
# trec_eval has single precision in places; a wrong definition is far off
TOLERANCE = 1e-4
GARBAGE = "GARBAGE"
FAILURES = {"garbage": "a reply that is not JSON", "500": "status 500"}
MARGIN = 0.05
# True drop of the share of hits, by world
WORLDS = {"equal": 0.0, "margin": MARGIN, "drop": 0.2}
PAIRS, QUERIES = 400, 100
VERDICTS = ("fail", "undecided", "pass")
# A right sentence with two of garbage, a short answer, an equal one, another order, no common
# word, other forms of the words.
TEXTS = [
    (
        "The cat sat on the mat. Blue seven fish swim. Green nine dogs run.",
        "The cat sat on the mat.",
    ),
    ("In 1932.", "It opened in March 1932."),
    ("It opened in March 1932.", "It opened in March 1932."),
    ("In March 1932 it was opened by the state.", "It was opened by the state in March 1932."),
    ("No idea at all about this.", "Dorman Long and Co. built it."),
    ("The running dogs ran.", "The dog was running; dogs run."),
]

Result = dict[str, Any]


class Peer(NamedTuple):
    """A line of peers.txt: the module to import, and what `pip install` gets."""

    module: str
    packages: list[str]
    further: list[str]

    @property
    def short(self) -> str:
        """Name of its functions in peer_tasks.py."""
        return self.module.partition(".")[0]


def peers() -> dict[str, Peer]:
    """Return the peers by name, ragbench first."""
    table = {"ragbench": Peer("ragbench", ["."], ["openai"])}
    for line in (FOLDER / "peers.txt").read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            names, _, packages = line.partition(":")
            name, module = (part.strip() for part in names.split(","))
            first, _, further = packages.partition("|")
            table[name] = Peer(module, first.split(), further.split())
    return table


def rankings() -> Result:
    """Return 200 queries with 20 documents each; the scores of every second query have ties."""
    draw = random.Random(7)
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number in range(200):
        documents = [f"d{n}" for n in draw.sample(range(60), 20)]
        digits = 1 if number % 2 else 9
        scores = [round(draw.random(), digits) for _ in documents]
        run[f"q{number}"] = dict(zip(documents, scores, strict=True))
        judged = [f"d{n}" for n in draw.sample(range(60), 12)]
        grades = {document: draw.choice((0, 0, 1, 1, 2, 3)) for document in judged}
        # at least one relevant document: what a query without one scores is a convention
        qrels[f"q{number}"] = {**grades, judged[0]: 1}
    return {"run": run, "qrels": qrels}


def gate_pairs() -> dict[str, list[list[list[int]]]]:
    """Return pairs of runs by world: two lists of hits (0 or 1) over the same queries.

    A query has a chance of a hit of its own, .8 on average; the second run lost the world's drop
    on all of them. Runs are drawn independently, as two runs of a system that samples its answers.
    """
    draw = random.Random(11)
    worlds: dict[str, list[list[list[int]]]] = {}
    for world, drop in WORLDS.items():
        worlds[world] = []
        for _ in range(PAIRS):
            chances = [draw.uniform(0.6, 1.0) for _ in range(QUERIES)]
            old = [int(draw.random() < chance) for chance in chances]
            new = [int(draw.random() < chance - drop) for chance in chances]
            worlds[world].append([old, new])
    return worlds


def judged_rows() -> list[Result]:
    """Return ten questions with answer and passage; the judge fails for the third."""
    return [
        {
            "question": f"When did bridge {n} open?",
            "answer": f"It opened in 1932. {GARBAGE if n == 3 else ''}",
            "contexts": [f"Bridge {n} opened in 1932."],
        }
        for n in range(1, 11)
    ]


def inputs(task: str) -> Result:
    """Return the input of a task."""
    if task == "rank":
        query = {"q0": {"d1": 1}, "q1": {"d1": 1}}
        return {"rankings": rankings(), "unanswered": {"run": {"q0": {"d1": 1.0}}, "qrels": query}}
    if task == "gate":
        return {"margin": MARGIN, "pairs": gate_pairs()}
    return {"text": {"texts": TEXTS}, "judge": {"judged": judged_rows()}}.get(task, {})


def child(python: Path, task: str, peer: Peer, data: Result, url: str = "") -> Result:
    """Run a task of peer_tasks.py in an environment; an error is part of the result."""
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "inputs.json"), Path(scratch, "result.json")
        source.write_text(json.dumps(data), "utf-8")
        command = [python, FOLDER / "peer_tasks.py", task, peer.module, source, target, url]
        # a home without settings: telemetry is as it is after an install
        settings = {"HOME": scratch, "PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "none"}
        blas = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS")}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
                cwd=scratch,
                env={**settings, **blas},
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not ready after {LIMIT_S} s"}
        if not target.exists():
            return {"error": done.stderr.strip().rpartition("\n")[2][:160]}
        result: Result = json.loads(target.read_text("utf-8"))
        return result


def pip(python: Path, *arguments: str) -> str:
    """Run pip in an environment; return its output, or raise CalledProcessError with the reason."""
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=FOLDER.parent)
    return done.stdout


def pip_install(python: Path, packages: list[str], versions: Iterable[str]) -> None:
    """Install packages; what they depend on gets these versions."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as constraints:
        constraints.write("\n".join(versions))
        constraints.flush()
        pip(python, "install", "-q", "--no-compile", "--constraint", constraints.name, *packages)


def installed(python: Path) -> list[str]:
    """Return NAME==VERSION of each package, without those of every environment."""
    listed = json.loads(pip(python, "list", "--format", "json"))
    pins = [f"{entry['name']}=={entry['version']}" for entry in listed]
    return sorted(
        pin for pin in pins if not pin.startswith(("pip==", "setuptools==", "ragbench=="))
    )


def site_mb(folder: Path) -> int:
    """Return the size of the packages in MB, as pip lays them, before anything is compiled."""
    site = next(folder.glob("lib/python*/site-packages"))
    files = (path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    bare = ("pip", "setuptools", "_distutils_hack", "pkg_resources")
    sizes = [path.stat().st_size for path in files if path.relative_to(site).parts[0] not in bare]
    return round(sum(sizes) / 1e6)


def install(python: Path, peer: Peer, versions: dict[str, list[str]]) -> Result:
    """Install a peer in its environment and measure it; return an error where that fails."""
    folder = python.parent.parent
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    try:
        pip_install(python, peer.packages, versions.get("packages", []))
        size, pins = site_mb(folder), installed(python)
        measured = measure_import(python, peer)
        further = []
        if peer.further:
            pip_install(python, peer.further, versions.get("further", []))
            further = installed(python)
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stderr.splitlines()]
        reasons = [line for line in lines if "error" in line.lower()] or lines[-1:]
        return {"error": reasons[0][:160]}
    return {**measured, "mb": size, "versions": {"packages": pins, "further": further}}


def measure_import(python: Path, peer: Peer) -> Result:
    """Import three times after a first time that compiles; return the median and all hosts."""
    first = child(python, "start", peer, {})
    again = [child(python, "start", peer, {}) for _ in range(3)]
    return {
        "error_of_import": first.get("error", ""),
        "cpu_s": statistics.median(one.get("cpu_s", 0.0) for one in again),
        "peak_mb": max(one.get("peak_mb", 0.0) for one in again),
        "hosts": sorted({host for one in again for host in one.get("hosts", [])}),
    }


def run_task(python: Path, task: str, peer: Peer) -> Result:
    """Return the result of a task in the environment of a peer; of `judge`, one per failure."""
    if task != "judge":
        return child(python, task, peer, inputs(task))
    return {name: judge_task(python, peer, name) for name in FAILURES}


def judge_task(python: Path, peer: Peer, failure: str) -> Result:
    """Return the result of a judge on a server that fails for one question in the given way."""
    from judge_calls import script

    from tests.chat_server import ChatServer
    from tests.chat_server.answers import Answer

    def answer(body: Any, times_asked: int) -> Answer | str:
        if GARBAGE not in json.dumps(body["messages"]):
            return script(body, times_asked)
        if failure == "500":
            return Answer("internal error", status=500)
        return "I had rather talk about the weather."

    with ChatServer(answer) as server:
        result = child(python, "judge", peer, inputs("judge"), server.url)
        return {**result, "requests": server.counters.requests}


def tasks_of(peer: Peer) -> list[str]:
    """Return the tasks that a peer has a function for, with its install."""
    source = (FOLDER / "peer_tasks.py").read_text("utf-8")
    return [task for task in TASKS if task == "install" or f"def {task}_{peer.short}(" in source]


def measure(name: str, peer: Peer, options: argparse.Namespace) -> Result:
    """Return the results of a peer; those of an earlier, interrupted measurement are reused."""
    target, folder = BUILD / f"{name}.json", BUILD / name
    key = [*peer.packages, *peer.further]
    stored = json.loads(STORE.read_text("utf-8")).get(name, {}) if STORE.exists() else {}
    results: Result = {"key": key}
    if target.exists():
        results_of_peer = json.loads(target.read_text("utf-8"))
        results = results_of_peer if results_of_peer["key"] == key else results
    elif options.task and stored.get("key") == key:
        results = stored
    requested = [task for task in tasks_of(peer) if task in (options.task or TASKS)]
    if not options.again:
        requested = [task for task in requested if task not in results]
    python = folder / "bin" / "python"
    versions = results.get("install", stored.get("install", {})).get("versions", {})
    if stored.get("key") != key or options.newest:
        versions = {}
    for task in requested:
        print(f"{name}: {task}", file=sys.stderr)
        if task == "install" or not python.exists():
            results["install"] = install(python, peer, versions)
        if "error" not in results["install"] and task != "install":
            results[task] = run_task(python, task, peer)
        results["date"] = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
        results["python"] = ".".join(map(str, sys.version_info[:2]))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(results), "utf-8")
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def oracle_rankings() -> Result:
    """Return the values of trec_eval."""
    from peer_tasks import rank_pytrec_eval

    values: Result = rank_pytrec_eval(rankings())
    return values


def oracle_texts() -> list[dict[str, float]]:
    """Return BLEU by sacrebleu and ROUGE-L by rouge-score."""
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    rouge = RougeScorer(["rougeL"])
    return [
        {
            "bleu": sacrebleu.sentence_bleu(prediction, [reference]).score / 100,
            "rougeL": rouge.score(reference, prediction)["rougeL"].fmeasure,
        }
        for prediction, reference in TEXTS
    ]


def compare(rows: Iterable[tuple[str, float | None, float]]) -> Result:
    """Compare (place, value, right value): how many, how many are wrong, the first of them."""
    table = list(rows)
    bad = [row for row in table if row[1] is None or not abs(row[1] - row[2]) < TOLERANCE]
    return {"of": len(table), "wrong": len(bad), "first": bad[0] if bad else None}


def judge_rankings(values: Result, right: Result) -> Result:
    """Compare the queries with distinct scores and those with ties with trec_eval."""

    def rows(tied: bool) -> Iterable[tuple[str, float | None, float]]:
        for query, expected in right.items():
            if int(query[1:]) % 2 == tied:
                for measure_name, value in expected.items():
                    yield (
                        f"{measure_name} of {query}",
                        values.get(query, {}).get(measure_name),
                        value,
                    )

    return {"distinct": compare(rows(False)), "tied": compare(rows(True))}


def judge_texts(values: Result, right: list[dict[str, float]]) -> Result:
    """Compare each score with its library; the error of a measure stays."""

    def rows(name: str) -> Iterable[tuple[str, float | None, float]]:
        for (prediction, reference), value, pair in zip(TEXTS, values[name], right, strict=True):
            yield f'"{prediction}" for "{reference}"', value, pair[name]

    return {
        name: scores if isinstance(scores, str) else compare(rows(name))
        for name, scores in values.items()
    }


def wrong_cell(counted: Result | str) -> str:
    """Return the cell: wrong values of all, with the first; or the error."""
    if isinstance(counted, str):
        return counted
    if not counted["wrong"]:
        return f"0 of {counted['of']}"
    place, value, right = counted["first"]
    text = "no value" if value is None else f"{value:.4f}"
    return f"**{counted['wrong']} of {counted['of']}**: {place} is {text}, right {right:.4f}"


def cost_cells(result: Result) -> list[str]:
    """Return CPU seconds and the peak of memory."""
    if "cpu_s" not in result:
        return ["-", "-"]
    return [f"{result['cpu_s']:.2f}", f"{result['peak_mb']:.0f}"]


def install_row(results: Result) -> list[str]:
    """Return packages, size, import time and memory, whether the import works, and hosts."""
    facts = results["install"]
    parts = [results.get(task, {}) for task in TASKS]
    parts += results.get("judge", {}).values()
    hosts = sorted({host for part in parts for host in part.get("hosts", [])})
    works = facts["error_of_import"] or "works"
    count = len(facts["versions"]["packages"]) + (results["key"][0] == ".")
    return [str(count), str(facts["mb"]), *cost_cells(facts), works, ", ".join(hosts) or "none"]


def rank_row(results: Result) -> list[str]:
    """Return wrong values of rankings, and the value of a judged query without a ranking."""
    result = results["rank"]
    if "error" in result:
        return [result["error"], "-", "-", *cost_cells(result)]
    counts = result["compared"]
    missing = result["values"]["unanswered"]
    text = f"{missing:g}" if isinstance(missing, float | int) else missing
    cells = [wrong_cell(counts["distinct"]), wrong_cell(counts["tied"]), text]
    return [*cells, *cost_cells(result)]


def text_row(results: Result) -> list[str]:
    """Return wrong values of BLEU and ROUGE-L."""
    result = results["text"]
    if "error" in result:
        return [result["error"], "-", *cost_cells(result)]
    return [*(wrong_cell(result["compared"][n]) for n in ("bleu", "rougeL")), *cost_cells(result)]


def judge_cell(result: Result) -> str:
    """Return the fate of the failed judgement and of the nine good ones, by option."""
    if "error" in result:
        return f"no scores: {result['error']}"
    parts = []
    for option, values in result["values"].items():
        parts.append((f"with `{option}`: " if option else "") + fate(values))
    return "; ".join(parts)


def fate(values: Result) -> str:
    """Return the fate of the failed judgement in one evaluation, and the printed mean."""
    if "error" in values:
        return f"no scores: {values['error']}"
    scores = values["scores"]
    good = [score for score in scores if score is not None]
    failed = f"{len(scores) - len(good)} without a value" if len(scores) == 10 else "cut short"
    if len(good) == len(scores) == 10:
        failed = f"counted as {scores[2]:g}"
    printed = f"prints `{' '.join(values['mean'].split())}`" if values["mean"] else "prints no mean"
    return f"{len(good)} scored, {failed}, {printed}"


def judge_row(results: Result) -> list[str]:
    """Return the cells for a garbage reply and for status 500, with requests and cost."""
    tasks = results["judge"]
    requests = " / ".join(str(tasks[name]["requests"]) for name in FAILURES)
    return [
        *(judge_cell(tasks[name]) for name in FAILURES),
        requests,
        *cost_cells(tasks["garbage"]),
    ]


def gate_row(results: Result) -> list[str]:
    """Return the shares of fail, undecided and pass in each world, and CPU per decision."""
    result = results["gate"]
    if "error" in result:
        return ["-", result["error"], *["-"] * len(WORLDS)]
    cells = []
    for world in WORLDS:
        counts = result["counts"][world]
        pairs = sum(counts.values())
        cells.append(" / ".join(f"{100 * counts[verdict] / pairs:.1f}" for verdict in VERDICTS))
    return [str(pairs), *cells, f"{1000 * result['cpu_s'] / (len(WORLDS) * pairs):.0f}"]


class Table(NamedTuple):
    """A table of the page: its title, what it says above, its columns and its row of a peer."""

    title: str
    about: str
    columns: tuple[str, ...]
    row: Callable[[Result], list[str]]


TABLES = {
    "install": Table(
        "Install and import",
        "CPU seconds and the peak of memory are those of a process that imports the package, the "
        "median of three. Hosts are those that any of the tasks on this page looked up or "
        "connected to, beyond this machine.",
        ("packages", "MB", "import, s", "import, MB", "in a new environment", "hosts contacted"),
        install_row,
    ),
    "rank": Table(
        "Rankings",
        "nDCG@10, MAP, recall@5 and MRR of 200 queries with judgements (qrels), against trec_eval. "
        "Half of the queries "
        "have tied scores. The unanswered query is one that is judged and has no ranking: its "
        "nDCG@10.",
        ("wrong, distinct scores", "wrong, tied scores", "unanswered query", "CPU, s", "MB"),
        rank_row,
    ),
    "text": Table(
        "BLEU and ROUGE-L",
        "Six pairs of texts, against sacrebleu and rouge-score.",
        ("BLEU, wrong", "ROUGE-L, wrong", "CPU, s", "MB"),
        text_row,
    ),
    "judge": Table(
        "One failed judgement of ten",
        "Faithfulness of ten answers by a scripted server that supports each claim, and that "
        "fails whenever it sees the third answer. Requests are those of both runs.",
        ("a reply that is not JSON", "status 500", "requests", "CPU, s", "MB"),
        judge_row,
    ),
    "gate": Table(
        "Gates",
        "A gate (a rule that fails a change for the worse) decides on pairs of runs over "
        f"{QUERIES} queries, hit or not, with a margin of {MARGIN}. All have the same pairs, a "
        "slow tool fewer of them. Of regressgate, 1,000 permutations are drawn in place of its "
        "10,000, which take ten times as long. It also asks for three trials a query, and gets "
        "one. Cells are the shares of fail / undecided (too few queries to say) / pass in %. A "
        "warning that lets the build pass counts as undecided. Equal systems should never fail, "
        "and a drop of "
        f"{WORLDS['drop']} should. At a true drop of exactly the margin both fail and pass are "
        "wrong, at most 2.5 % each for an interval of 95 %. CPU is in milliseconds per case.",
        ("pairs", "equal systems", "drop = margin", f"drop of {WORLDS['drop']}", "CPU, ms"),
        gate_row,
    ),
}  # fmt: skip


def table_lines(task: str, rows: dict[str, Result]) -> list[str]:
    """Return the lines of one table in Markdown."""
    table = TABLES[task]
    columns = ("", "version", *table.columns)
    lines = [f"### {table.title}", "", table.about]
    command = f"python benchmarks/peers.py --only NAME --task {task} --again"
    lines += [f"`{command}` makes a row anew.", ""]
    lines += [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, results in rows.items():
        facts = results.get("install", {})
        version = results["key"][0].partition("==")[2] or "this checkout"
        if "error" in facts:
            if task == "install":
                cells = [f"not installed: {facts['error']}", *["-"] * (len(table.columns) - 1)]
                lines.append(line_of([name, version, *cells]))
        elif task in results:
            lines.append(line_of([name, version, *table.row(results)]))
    return [*lines, ""]


def line_of(cells: list[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def render(rows: dict[str, Result]) -> str:
    """Return the part of the page between the marks."""
    dates = sorted({results["date"] for results in rows.values()})
    pythons = sorted({results["python"] for results in rows.values()})
    day = " and ".join(dict.fromkeys([dates[0], dates[-1]]))
    lines = [f"Measured on {day} with Python {', '.join(pythons)}.", ""]
    for task in TASKS:
        lines += table_lines(task, rows)
    missing = ", ".join(name for name in peers() if name not in rows)
    return "\n".join([*lines, *([f"Not measured yet: {missing}.", ""] if missing else [])])


def page_with(page: str, text: str) -> str:
    """Return the page with another text between its marks."""
    head, _, end = page.partition(MARKS[0])
    _, _, tail = end.partition(MARKS[1])
    return f"{head}{MARKS[0]}\n{text}\n{MARKS[1]}{tail}"


def compact(results: Result) -> Result:
    """Return results with the comparison with the oracle in place of the values themselves."""
    if "values" in (rank := results.get("rank", {})) and "values" in rank["values"]:
        rank["compared"] = judge_rankings(rank["values"].pop("values"), oracle_rankings())
    if "values" in (text := results.get("text", {})):
        text["compared"] = judge_texts(text.pop("values"), oracle_texts())
    if "values" in (gate := results.get("gate", {})):
        worlds = gate.pop("values")
        gate["counts"] = {
            world: {verdict: verdicts.count(verdict) for verdict in VERDICTS}
            for world, verdicts in worlds.items()
        }
    return results


def main() -> None:
    table = peers()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=table, default=list(table), metavar="NAME")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=[], metavar="TASK")
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument("--newest", action="store_true", help="resolve dependencies anew")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--render", action="store_true", help="write the page, measure nothing")
    options = parser.parse_args()
    stored: Result = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    for name in [] if options.render else options.only:
        stored[name] = compact(measure(name, table[name], options))
        rows = {name: stored[name] for name in table if name in stored}
        STORE.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", "utf-8")
    rows = {name: stored[name] for name in table if name in stored}
    text = render(rows)
    PAGE.write_text(page_with(PAGE.read_text("utf-8"), text), "utf-8")
    print(text)


if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent))
    main()
