"""Page of benchmarks that load as published: rows of all forms, and numbers of the commands."""

import gzip
import json
import re
import shlex

import pytest

from ragbench.data.files.forms import FORMS
from ragbench.data.files.judged_forms import JUDGED_FORMS
from tests.commands import run_command
from tests.data.test_published_layouts import LAYOUTS, agent_folder, agent_run

pytestmark = pytest.mark.slow  # real runs

# Forms of tools, which are no data sets
TOOLS = {"pandas, orient='split'"}
RUNS = ("pircRBa1", "aplrob03a", "uwmtCR0", "THUIRr0301", "UIUC03Rd1", "MU03rob01")


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "published.md").read_text(encoding="utf-8")


def rows_of(page):
    """Return the cells of each row of the tables, without their heads."""
    rows = []
    for line in page.splitlines():
        if line.startswith("| "):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def command_of(row):
    """Return the words of the command in a row."""
    return shlex.split(re.search(r"`ragbench ([^`]+)`", row[1])[1])


def test_each_form_has_a_row(page):
    names = {form.name for form in (*FORMS, *JUDGED_FORMS)} - TOOLS
    cells = " ".join(row[0] for row in rows_of(page))

    assert not {name for name in names if name not in cells}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_loads_by_the_command_of_its_row(page, tmp_path, layout):
    name, _, detail = layout.partition(", ")
    rows = [row for row in rows_of(page) if re.search(rf"\b{name.split()[0]}\b", row[0])]
    row = next((row for row in rows if detail and detail in row[0]), rows[0])
    (tmp_path / "data").mkdir()
    (tmp_path / "here").mkdir()
    arguments = [*map(str, LAYOUTS[layout][0](tmp_path / "data"))]

    # folders of runs have a shorter way, which needs no config
    expected = command_of(row) if layout != "BrowseComp-Plus, runs" else ["init", "--from", "F"]
    assert expected[:2] == ["init", "--from"]
    assert ("--corpus" in arguments) <= ("--corpus" in expected), layout


@pytest.mark.parametrize("name", RUNS)
def test_the_means_of_trec_are_those_of_nist(page, tmp_path, lent_data, name):
    folder = lent_data / "trec-robust03"
    [run] = folder.glob(f"runs/*{name}*.gz")
    for file, path in (("qrels.txt", folder / "qrels.txt.gz"), (name, run)):
        (tmp_path / file).write_bytes(gzip.decompress(path.read_bytes()))
    [row] = [row for row in rows_of(page) if row[0].endswith(f"run {name}")]

    scored = run_command(*command_of(row), "--format", "json", cwd=tmp_path)

    [system] = json.loads(scored.stdout)["systems"]
    ours = f"{system['scores']['map']['mean']:.4f}"
    assert ours == row[3]
    assert row[2] == f"MAP {ours} (NIST)"


@pytest.mark.parametrize(
    ("start", "path"),
    [
        ("SciFact", "scifact"),
        ("Cranfield", "cranfield"),
        ("CACM", "cacm"),
        ("XQuAD", "xquad-en/test.jsonl.gz"),
    ],
)
def test_bm25_gives_the_number_of_the_page(page, tmp_path, lent_data, start, path):
    [row] = [row for row in rows_of(page) if row[0].startswith(f"{start}")]
    *words, file = command_of(row)
    if file.endswith(".jsonl"):
        (tmp_path / file).write_bytes(gzip.decompress((lent_data / path).read_bytes()))
    else:
        (tmp_path / file).symlink_to(lent_data / path)

    run_command(*words, file, cwd=tmp_path)
    # ten ranks, since no other measure is compared with the page
    ten = "metrics.retrieval={measures: [ndcg@10], top_k: 10}"
    options = ("--set", ten, "--set", "generators={}", "--set", "metrics.generation=[]")
    run_command("run", "ragbench.yaml", "--quiet", *options, cwd=tmp_path)

    summary = json.loads((tmp_path / "runs/ragbench/latest/summary.json").read_text())
    mean = summary["systems"][0]["scores"]["ndcg@10"]["mean"]
    assert f"{mean:.3f}" == re.match(r"[\d.]+", row[-1])[0]


def test_the_config_of_agents_runs(page, tmp_path):
    example = page.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "ragbench.yaml").write_text(example, encoding="utf-8")
    topics = tmp_path / "topics-qrels"
    topics.mkdir()
    (topics / "queries.tsv").write_text("1\tWhich moon?\n2\tWhich ring?\n", encoding="utf-8")
    (topics / "qrel_evidence.txt").write_text("1 Q0 d1 1\n2 Q0 d2 1\n", encoding="utf-8")
    (topics / "qrel_golds.txt").write_text("1 Q0 d1 1\n2 Q0 d9 1\n", encoding="utf-8")
    answers = [agent_run("1", ["d1"], ["moon", "hot moon"]), agent_run("2", ["d1"], ["ring"] * 4)]
    agent_folder(tmp_path / "runs" / "gpt-oss", answers)
    agent_folder(tmp_path / "runs" / "qwen", [agent_run("1", ["d1"]), agent_run("2", ["d2"])])

    means = {}
    for command in re.findall(r"^ragbench (score \S+ \S+ -m set_recall -c)", page, re.MULTILINE):
        scored = run_command(*command.split(), "--format", "json", cwd=tmp_path)
        [system] = json.loads(scored.stdout)["systems"]
        means[command.split()[1]] = system["scores"]["set_recall"]["mean"]
    ran = run_command("run", "ragbench.yaml", "--quiet", cwd=tmp_path)

    assert [*means.values()] == [0.5, 0.5]
    assert ran.returncode == 0, ran.stderr
    run = tmp_path / "runs/deep-research/latest"
    summary = json.loads((run / "summary.json").read_text())
    by_name = {system["name"]: system["scores"] for system in summary["systems"]}
    recalls = [by_name[name]["set_recall"]["mean"] for name in ("gpt-oss", "qwen")]
    assert recalls == [0.5, 1.0]
    assert by_name["gpt-oss/answers"]["tool_call_count(tool=search)"]["mean"] == 3
    assert {gate["verdict"] for gate in summary["gates"]} == {"pass"}
