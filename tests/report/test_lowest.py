"""Page of a run with a judge and without gold: its lowest answers stand in place of causes."""

import base64
import gzip
import json
import re
import shutil

import pytest

import ragbench as rb
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import read_comparisons
from ragbench.experiment.fix import list_fixes_of_page
from ragbench.report.lowest import lowest_chapter
from ragbench.report.page.html import write_page

# numbers of the answers without a year that a passage has
INVENTED = {"llama": (1, 4, 5, 6, 8, 9), "gemma": ()}


def grounded(answer, contexts):
    is_grounded = answer.split()[-1] in contexts[0]
    return float(is_grounded), "as it says" if is_grounded else "no passage has <this> year"


def _run(folder, *, gold=False, slices=()):
    rows = []
    for n in range(10):
        for system, invented in INVENTED.items():
            year = 1955 if n in invented else 1910 + n
            row = {"id": f"q{n}", "question": f"When did bridge {n} open?", "system": system}
            row |= {"contexts": [f"In {1910 + n}."], "answer": f"It opened in {year}"}
            row |= {"reference": str(1910 + n)} if gold else {}
            rows.append({**row, "half": "ab"[n % 2]})
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "name": "no_gold",
        "dataset": {"type": "records", "path": str(path)},
        "metrics": {"judge": {"type": f"python:{__name__}:grounded"}},
        "statistics": {"slices": [*slices]},
        "output": str(folder / "runs"),
    }
    return rb.run_experiment(config).path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return _run(tmp_path_factory.mktemp("no_gold"), slices=["metadata.half"])


def _page(run):
    """Text of a page without scripts and styles, and the data of its queries."""
    html = (run / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<(script|style).*?</\1>", "", html, flags=re.DOTALL)
    packed = re.search(r'id="data">(.*?)</script>', html)[1]
    return text, json.loads(gzip.decompress(base64.b64decode(packed)))["queries"]


def test_the_page_begins_with_the_lowest_answers(run):
    text, data = _page(run)

    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles[:2] == ["3 of 6 questions that fail", "lowest answers by the judge"]
    # three with their texts, then the worst five of six
    of_system = re.findall(r'href="#queries&amp;q=(q\d)&amp;a=\w+"', text)
    assert of_system == ["q1", "q4", "q5"]
    links = re.findall(r'href="#queries&amp;q=(q\d)"', text)
    assert links == ["q1", "q4", "q5", "q6", "q8"]
    assert "no passage has &lt;this&gt; year" in text
    assert "6 of 10 answers are below the best score" in text
    assert "all 10 answers have the best score" in text
    assert "unknown" not in text
    assert all("cause" not in of for query in data for of in query["systems"].values())


def test_no_report_counts_unknown_causes(run):
    for name in ("report.md", "report.html"):
        text = _page(run)[0] if name.endswith("html") else (run / name).read_text()
        assert "where answers are lost" not in text
    assert "by metadata.half" in (run / "report.md").read_text()


def test_with_gold_the_causes_stay(tmp_path):
    run = _run(tmp_path, gold=True)

    text, data = _page(run)

    assert lowest_chapter(QueryViews(run)) is None
    assert "where answers are lost" in (run / "report.md").read_text()
    assert "lowest answers" not in text
    assert all(of["cause"] for query in data for of in query["systems"].values())


def test_the_page_is_made_again_alike(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    written = (copy / "report.html").read_bytes()
    (copy / "report.html").unlink()

    views = QueryViews(copy)
    fixes = list_fixes_of_page(views)
    write_page(copy / "report.html", views.summary, read_comparisons(copy), views, fixes)

    assert (copy / "report.html").read_bytes() == written
