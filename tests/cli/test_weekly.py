"""Weekly numbers from traces: the commands of docs/weekly.md, from an export to the trend."""

import json
import re
import shlex
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from ragbench.data.runs.run_list import list_runs
from tests.commands import run_command
from tests.messages import lines_with

MONDAY = datetime(2025, 10, 13, 8, tzinfo=timezone.utc)
FACTS = [
    ("How many days of leave do I get?", "You get 27 days of leave.", "27 days"),
    ("Where can I park?", "Parking is in lot B.", "lot B"),
    ("How do I order a laptop?", "Order it in the portal.", "portal"),
    ("Which VPN do we use?", "We use WireGuard.", "WireGuard"),
]
# Week -> answers of 40 that miss the fact
MISSES = {42: 4, 43: 6, 44: 20}


def spans(week, n):
    """The two spans of the n-th trace of a week, as Phoenix exports them; its gold answer."""
    question, text, gold = FACTS[(n + n // 7 * week) % len(FACTS)]
    text = "Opening hours are 8 to 18." if n < MISSES[week] else text
    answer = "I do not know." if n < MISSES[week] else text
    start = MONDAY + timedelta(weeks=week - 42, hours=4 * n)
    question = f"{question} ({week}-{n})"
    for name, kind, parent, extra in (
        ("app", "CHAIN", None, {"output.value": answer}),
        ("search", "RETRIEVER", "app", {"retrieval.documents": [{"document.content": text}]}),
    ):
        yield (
            {
                "name": name,
                "context": {"trace_id": f"w{week}-{n}", "span_id": name},
                "parent_id": parent,
                "start_time": start.isoformat(),
                "end_time": (start + timedelta(seconds=2)).isoformat(),
                "status_code": "OK",
                "attributes": {"openinference.span.kind": kind, "input.value": question, **extra},
            },
            f"{question},{gold}",
        )


def write_traces(folder):
    """Write traces.jsonl, a file for each week, and gold.csv."""
    golds, lines = dict.fromkeys(["question,reference"]), {}
    for week in MISSES:
        for n in range(40):
            for span, gold in spans(week, n):
                lines.setdefault(week, []).append(json.dumps(span) + "\n")
                golds[gold] = None
        (folder / f"week{week}.jsonl").write_text("".join(lines[week]))
    (folder / "traces.jsonl").write_text("".join(line for of in lines.values() for line in of))
    (folder / "gold.csv").write_text("\n".join(golds) + "\n")


def ragbench(*arguments, code=0):
    done = run_command(*arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def summary_of(run):
    return json.loads(Path(run, "summary.json").read_text(encoding="utf-8"))


@pytest.mark.costly
def test_the_weeks_of_an_export_are_slices(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    write_traces(tmp_path)
    ragbench("init", "--from", "traces.jsonl")
    config = Path("ragbench.yaml").read_text(encoding="utf-8")
    assert_message(lines_with(config, "[week(metadata.time)]"))
    Path("ragbench.yaml").write_text(
        config.replace("# gold: gold.csv", "gold: gold.csv"), encoding="utf-8"
    )

    out = ragbench("run", "ragbench.yaml", "--set", "metrics.generation=[contains]")

    block = out.split("\n\nby week(metadata.time)\n")[1].split("\n\n")[0]
    # Wilson's intervals of 36, 34 and 20 of 40, as scipy's proportion_ci(method="wilson") has them
    assert [re.split(r"  +", line) for line in block.splitlines()] == [
        ["slice", "system", "right", "where answers are lost"],
        *(
            [week, "given", share, f"of 40 queries: {right} right, {40 - right} not retrieved"]
            for week, share, right in (
                ("2025-W42", "0.900 [0.769, 0.960]", 36),
                ("2025-W43", "0.850 [0.709, 0.929]", 34),
                ("2025-W44", "0.500 [0.352, 0.648]", 20),
            )
        ),
    ]
    (summary,) = Path("runs").glob("ragbench/2*/summary.json")
    (recorded,) = json.loads(summary.read_text())["systems"]
    score = recorded["scores_by"]["week(metadata.time)"]["2025-W44"]["right"]
    assert (score["mean"], score["n"]) == (0.5, 40)
    for page in ("report.html", "report.md"):
        text = summary.with_name(page).read_text()
        assert "by week(metadata.time)" in text
        assert "2025-W43" in text


@pytest.mark.slow
def test_a_run_for_each_week_is_followed_and_compared(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    write_traces(tmp_path)
    dataset = {"type": "traces", "path": "week42.jsonl", "gold": "gold.csv"}
    config = {"name": "app", "dataset": dataset, "metrics": {"generation": ["contains"]}}
    Path("app.yaml").write_text(json.dumps(config), encoding="utf-8")
    for week in MISSES:
        ragbench("run", "app.yaml", "--set", f"dataset.path=week{week}.jsonl", "--quiet")
    weeks = [str(run.path) for run in list_runs("runs/app")]

    out = ragbench("runs", "runs/app")

    assert_message(lines_with(out, "app over 3 runs, oldest"))
    assert "not comparable" not in out
    systems = (summary_of(run)["systems"][0] for run in weeks)
    signatures = {system["scores"]["contains"]["signature"] for system in systems}
    assert len(signatures) == 3, "the gold answers differ, which alone is no warning"

    table = ragbench("compare", weeks[0], weeks[2], "--unpaired")
    (line,) = (line for line in table.splitlines() if line.startswith("right  "))
    # Newcombe: -.4 - sqrt((.5 - .3520)^2 + (.9604 - .9)^2), -.4 + sqrt((.6480 - .5)^2 + ...)
    assert "-0.400" in line
    assert "[-0.560, -0.203]" in line
    assert line.split()[-4:] == ["worse", "40,", "40", "-"]
    lost = table.split("where answers are lost\n")[1].splitlines()[:2]
    assert_message([line.partition("  of ")[2] for line in lost])

    table = ragbench("compare", weeks[0], weeks[1], "--unpaired")
    assert "not shown" in next(line for line in table.splitlines() if line.startswith("right  "))

    # other options still break the trend
    ragbench("run", "app.yaml", "--set", "dataset.path=week42.jsonl", "--quiet")
    summary = list_runs("runs/app")[-1].path / "summary.json"
    summary.write_text(re.sub(r"\bright\|(.*?)v:\d", r"right|\1v:99", summary.read_text()))
    assert "the two are not comparable" in ragbench("runs", "runs/app")


@pytest.mark.slow
def test_the_page_on_weekly_numbers_runs(repository, tmp_path, monkeypatch):
    # Every command of the page, in order; RUN1, RUN2 ... stand for the runs, oldest first.
    monkeypatch.chdir(tmp_path)
    write_traces(tmp_path)
    page = (repository / "docs" / "weekly.md").read_text(encoding="utf-8")
    printed = ""
    for language, block in re.findall(r"^```(bash|yaml|text)\n(.*?)^```", page, re.M | re.S):
        if language == "yaml":
            Path("ragbench.yaml").write_text(block, encoding="utf-8")
        elif language == "text":
            # names of runs hold the time; their width differs from that of RUN1
            masked = re.sub(r"(\d{8}-)?\d{6}-[0-9a-f]{4}", "RUN", printed)
            block = re.sub(r"RUN\d", "RUN", block)
            assert " ".join(block.split()) in " ".join(masked.split())
        for line in block.splitlines() if language == "bash" else ():
            runs = list_runs("runs/app") if Path("runs/app").exists() else []
            for number, run in enumerate(runs, start=1):
                line = line.replace(f"RUN{number}", run.path.name)
            program, *arguments = shlex.split(line)
            assert program == "ragbench"
            printed += ragbench(*arguments)
