"""`ragbench report` as users call it: the page of a run again, and several side by side."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ragbench as rb
from ragbench.experiment.pages import write_figures
from tests.commands import run_command
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

QUERIES = [f"q{n}" for n in range(12)]


def ragbench(*arguments, cwd, code=0):
    """Run the command; return what it printed on stdout, and on stderr."""
    done = run_command(*arguments, cwd=cwd)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def retriever(rank):
    """Find the document of a question at a rank."""
    return lambda question, top_k: [f"x{n}" for n in range(rank - 1)] + [f"d{question}"]


def experiment(folder, name, retrievers, judged=QUERIES, fields=()):
    """Run an experiment whose scores can be said beforehand."""
    data = folder / f"{name}-data"
    (data / "qrels").mkdir(parents=True)
    metadata = dict.fromkeys(fields, "x")
    rows = [json.dumps({"_id": q, "text": q, "metadata": metadata}) for q in QUERIES]
    (data / "queries.jsonl").write_text("\n".join(rows))
    (data / "corpus.jsonl").write_text(
        "\n".join(json.dumps({"_id": f"d{q}", "title": "", "text": q}) for q in QUERIES)
    )
    lines = ["query-id\tcorpus-id\tscore", *(f"{q}\td{q}\t1" for q in judged)]
    (data / "qrels" / "test.tsv").write_text("\n".join(lines))
    config = {
        "name": name,
        "dataset": {"type": "beir", "path": str(data), "split": "test"},
        "metrics": {"retrieval": {"top_k": 10, "measures": ["mrr@10"]}},
        "statistics": {"slices": [f"metadata.{field}" for field in fields]},
        "output": str(folder / "runs"),
    }
    return rb.run_experiment(config, retrievers=retrievers)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two runs over the same questions: `ours` is worse in the second, `new` is only there."""
    folder = tmp_path_factory.mktemp("finished")
    experiment(folder, "old", {"ours": retriever(1), "theirs": retriever(2)})
    experiment(folder, "now", {"ours": retriever(4), "new": retriever(2)})
    return folder / "runs"


@pytest.fixture
def runs(finished, tmp_path):
    """Copies of these, which a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "runs", symlinks=True))


def test_a_brief_page_of_one_run(runs, tmp_path):
    printed, _ = ragbench("report", "runs/now", "--brief", "-o", "boss.html", cwd=tmp_path)

    assert printed == "report: boss.html\n"
    page = (tmp_path / "boss.html").read_text("utf-8")
    # the gold of `ours` is at rank 4 of the 5 that would be read
    first = "<p>new finds the gold of 12 of 12 questions in its first 5 hits, baseline ours "
    whole = (runs / "now" / "latest" / "report.html").read_text("utf-8")
    assert page.index(first) < page.index("mrr@10")
    assert first in whole
    assert "<script" not in page
    assert len(page) < len(whole) / 2


@pytest.mark.parametrize(
    "arguments", [["-o", "boss.pdf"], ["-o", "boss.md"], [], ["runs/old", "-o", "boss.html"]]
)
def test_a_brief_page_is_html_of_one_run(runs, tmp_path, arguments, assert_message):
    _, error = ragbench("report", "runs/now", "--brief", *arguments, cwd=tmp_path, code=2)

    assert_message(error)


def test_the_page_of_one_run_is_the_page_that_the_run_wrote(runs):
    folder = (runs / "old" / "latest").resolve()
    pages = {name: (folder / name).read_bytes() for name in ("report.html", "report.md")}
    for name in pages:
        (folder / name).write_text("spoilt")

    out, _ = ragbench("report", "runs/old", cwd=runs.parent)

    assert {name: (folder / name).read_bytes() for name in pages} == pages
    assert out.splitlines() == [f"report: {folder / name}" for name in pages]


def test_a_page_without_a_fix_list_if_a_file_of_it_is_missing(runs, tmp_path):
    folder = shutil.copytree((runs / "old" / "latest").resolve(), tmp_path / "run")
    (folder / "questions.jsonl").unlink()

    out, _ = ragbench("report", str(folder), cwd=tmp_path)

    assert out.splitlines()[0].startswith("no fix list: ")
    assert (folder / "report.html").stat().st_size > 10_000


def test_pictures_are_files_that_stand_alone(runs):
    out, _ = ragbench("report", "runs/old", "--figures", "figures", cwd=runs.parent)

    paths = [runs.parent / line.removeprefix("figure: ") for line in out.splitlines()]
    assert {"causes.svg", "differences-01-mrr-10.svg", "queries-01-mrr-10.svg"} <= {
        path.name for path in paths
    }
    for path in paths:
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.get("aria-label")
    _, err = ragbench("report", "runs/old", "runs/now", "--figures", "x", cwd=runs.parent, code=2)
    assert "--figures takes one RUN" in err


def test_fields_whose_names_differ_by_a_sign_have_a_picture_each(tmp_path):
    systems = {"ours": retriever(1), "new": retriever(2)}
    run = experiment(tmp_path, "signs", systems, fields=("a_b", "a-b"))

    paths = write_figures(run.path, tmp_path / "figures")

    assert len(set(paths)) == len(paths) == len(list((tmp_path / "figures").iterdir()))
    twins = {"slices-metadata-a-b-mrr-10.svg", "slices-metadata-a-b-mrr-10-2.svg"}
    assert twins <= {p.name for p in paths}


def test_a_format_of_pictures_is_refused(runs, assert_message):
    _, error = ragbench("report", "runs/old", "--format", "pdf", cwd=runs.parent, code=2)

    words = " ".join(error.split())
    assert_message(words)


def test_several_runs_stand_side_by_side_each_against_its_namesake(runs, assert_message):
    out, _ = ragbench("report", "runs/old", "runs/now", "-o", "both.md", cwd=runs.parent)

    moved, report_line = out.splitlines()
    assert_message(moved)
    assert report_line == "report: both.md"
    page = (runs.parent / "both.md").read_text()
    assert_message(lines_with(page, "and now: now against old"))
    assert_message(lines_with(page, "mrr@10: baseline ours (old) has"))
    _, tables = page.split("### retrieval")
    table = [line for line in tables.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    values = {row[0]: row[2].split(" ")[0] for row in rows[2:6]}
    assert values == {
        "ours (old)": "**1.00**",
        "ours (now)": "0.250",
        "theirs": "0.500",
        "new": "0.500",
    }
    against = {row[0]: row[2] for row in rows[8:12]}
    assert against["ours (now)"].startswith("-0.750 [")
    assert against["ours (now)"].endswith("worse")
    assert "ours (now): -" not in against["new"], "nothing in the first run is its base"


def test_a_run_without_its_config_is_compared_and_not_said_to_have_changed(runs):
    folder = (runs / "now" / "latest").resolve()
    (folder / "config.yaml").unlink()

    out, _ = ragbench("report", "runs/old", "runs/now", "-o", "both.md", cwd=runs.parent)
    compared, _ = ragbench("compare", "runs/old", "runs/now", "--verbose", cwd=runs.parent)

    assert out == "report: both.md\n"
    assert "ours (now)" in compared
    assert "changed since" not in compared


def test_runs_over_other_judgements_are_shown_and_not_compared(runs, tmp_path, assert_message):
    experiment(tmp_path, "less", {"ours": retriever(1)}, judged=QUERIES[:6])

    out, _ = ragbench("report", "runs/old", "runs/less", "-o", "both.html", cwd=tmp_path)
    ragbench("report", "runs/old", "runs/less", "-o", "both.md", cwd=tmp_path)

    assert_message(out)
    page = (tmp_path / "both.md").read_text()
    assert_message(lines_with(page, "6 questions in its first"))
    assert " 12 of 12: not compared" in page
    assert_message(lines_with(page, "not compared: queries: 6"))
    assert "worse" not in page
    assert "**" not in page
    assert "ours (less)" in (tmp_path / "both.html").read_text()


def test_the_same_run_twice_is_told_apart(runs, assert_message):
    ragbench("report", "runs/old", "runs/old", "-o", "both.md", cwd=runs.parent)

    page = (runs.parent / "both.md").read_text()
    assert "identical" in page
    assert_message(lines_with(page, "#&#8288;2) | +0.000 ["))


def test_what_changed_what_moved_and_why(tmp_path, assert_message):
    # The gold document goes from rank 1 to 6, below what is read, on half of the questions.
    experiment(tmp_path, "old", {"ours": retriever(1)})

    def half(question, top_k):
        return retriever(6 if question in QUERIES[:6] else 1)(question, top_k)

    experiment(tmp_path, "now", {"ours": half})
    for name in ("old", "now"):
        (data,) = (tmp_path / "runs" / name).glob("2*/config.yaml")
        text = data.read_text().replace(f"{name}-data", "data")
        data.write_text(text.replace("seed: 13", "seed: 7") if name == "now" else text)

    out, _ = ragbench("report", "runs/old", "runs/now", cwd=tmp_path)
    ragbench("report", "runs/old", "runs/now", "-o", "both.md", cwd=tmp_path)
    compared, _ = ragbench("compare", "runs/old", "runs/now", "--verbose", cwd=tmp_path)

    assert_message(out.splitlines())
    assert_message(
        lines_with((tmp_path / "side-by-side.html").read_text(), "changed, what moved</h2>")
    )
    page = (tmp_path / "both.md").read_text()
    assert_message(lines_with(page, "found@5 | 1.00 | 0.500"))
    assert "| worse | 0 | 6 | 6 |" in page
    assert_message(lines_with(page, "; and 1 more", "q0 | 1.00 | 0.00"))
    _, changed = compared.split("changed since runs/old\n")
    assert changed.startswith("  runs/now: seed: 13 -> 7\n")
    _, moved = compared.split("6 found -> ranked too low\n")
    assert moved.startswith("    q0 'q0'\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'RUN...'"),
        (["runs/odl"], "runs/odl: no run here; did you mean 'old'?"),
        # the cache lies beside it, and is not meant
        (["ragbench.yaml"], "ragbench.yaml: no run here; allowed: a run folder"),
        (["runs/old", "-o", "page.pdf"], "-o page.pdf: a page ends in .html or .md"),
        (["runs/old", "-o", "runs/x.md/y.md"], "runs/x.md/y.md: cannot be written"),
    ],
)
def test_mistakes_are_one_line(runs, arguments, message):
    (runs / "x.md").write_text("a file")
    (runs.parent / ".ragbench").mkdir()

    _, err = ragbench("report", *arguments, cwd=runs.parent, code=2)

    assert message in err.splitlines()[-1]


@pytest.mark.parametrize("name", ["summary.json", "comparisons.json"])
@pytest.mark.parametrize("text", ["", "[]", "{", "\ud800", '{"schema": 1}', "[" * 100_000])
def test_a_spoilt_file_is_named(runs, name, text):
    folder = Path(shutil.copytree((runs / "old" / "latest").resolve(), runs / "spoilt"))
    (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))

    _, err = ragbench("report", "runs/spoilt", cwd=runs.parent, code=2)

    assert err.startswith((f"runs/spoilt/{name}: ", f"runs/spoilt/{name}:1: "))
    assert len(err.splitlines()) == 1
