"""Several runs on one page: what changed, what moved, and how a score went on."""

import math
import shutil
from xml.etree import ElementTree

import pytest

import ragbench as rb
from ragbench.data.runs.run_list import list_runs
from ragbench.experiment.pages import write_pages
from ragbench.records.score import SystemScore
from ragbench.report.text import sparkline
from ragbench.report.trend_pictures import trend_picture
from ragbench.report.trends import trends_of
from ragbench.types.display import printable
from tests.experiment.moons import QUERIES, moons_config, write_moons
from tests.report.chromium import expect, hidden_width, looks, violations
from tests.report.strategies import HOSTILE

pytestmark = pytest.mark.slow  # seconds: real runs, and a browser

SCRIPT = "<script>window.owned = 1</script> \u202egnp.exe"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Three runs: a poor one, a better one, and one that lacks a system; hostile questions."""
    folder = tmp_path_factory.mktemp("several")
    data = write_moons(folder / "moons")
    path = data / "queries.jsonl"
    questions = path.read_text()
    for text in QUERIES.values():
        questions = questions.replace(text, f"{text} {SCRIPT}")
    path.write_text(questions)
    places = {"output": str(folder / "runs"), "cache": str(folder / "cache")}
    config = {**moons_config(data), **places}
    config["retrievers"]["exact"]["k1"] = 0.0
    config["metrics"] |= {"retrieval": {"measures": ["ndcg@10", "map"]}, "generation": ["rouge1"]}
    runs = [rb.run_experiment(config, {"retrievers.bm25.stopwords": "none"}).path]
    runs.append(rb.run_experiment(config).path)
    del config["retrievers"]["exact"]
    runs.append(rb.run_experiment(config).path)
    return runs


@pytest.fixture
def several(finished, tmp_path):
    """Copies of them, which a test may change."""
    shutil.copytree(finished[0].parent, tmp_path / "moons", symlinks=True)
    return [tmp_path / "moons" / run.name for run in finished]


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([0.0, 0.5, 1.0], "▁▅█"),
        ([3.0, 3.0], "▄▄"),
        ([None, 1.0, math.nan, 0.0], " █ ▁"),
        ([-1.7e308, 1.7e308], "▁█"),
        ([], ""),
    ],
)
def test_values_as_a_line_of_bars(values, drawn):
    assert sparkline(values) == drawn


def score(mean, ends=(None, None)):
    return SystemScore(
        mean=mean,
        interval=ends,
        n=9,
        failed={},
        not_applicable=0,
        bounds=ends,
        direction="higher",
        aggregate="mean",
        range=(0.0, 1.0),
        signature="m|v:1",
    )


def test_a_trend_is_a_line_for_each_system_with_a_gap_where_a_run_lacks_it(assert_message):
    trend = {
        "a": [score(0.2, (0.1, 0.3)), score(0.4, (0.3, 0.5)), None, score(0.8, (0.7, 0.9))],
        HOSTILE[0]: [None, None, score(0.5), None],
    }
    picture = trend_picture("trend-0", "m", ["r1", "r2", "r3", HOSTILE[0]], trend)
    root = ElementTree.fromstring(picture.svg(alone=True))

    svg = "{http://www.w3.org/2000/svg}"
    lines = [
        element.get("d")
        for element in root.iter(f"{svg}path")
        if element.get("stroke-width") == "2"
    ]
    ((x, y), (u, v)) = [map(float, point.split()) for point in lines[0][1:].split("L")]
    assert len(lines) == 1, "what is alone is joined with nothing"
    assert (x < u, y > v) == (True, True), "from left to right, and up"
    assert [element.text for element in root.iter(f"{svg}title")][:3] == [
        "a 0.200 in run 1, r1",
        "a 0.400 in run 2, r2",
        f"a 0.800 in run 4, {printable(HOSTILE[0])}",
    ]
    assert_message(root.get("aria-label"))


def test_other_judgements_break_a_trend(several, tmp_path, assert_message):
    (trends,) = trends_of(list_runs(several[0].parent, "ndcg@10"))
    assert (trends.breaks, set(trends.systems)) == ((), {"bm25", "exact"})
    assert [value is None for value in trends.systems["exact"]] == [False, False, True]

    text = (several[2] / "summary.json").read_text()
    changed = text.replace("no_relevant:skip", "no_relevant:zero")
    assert changed != text
    (several[2] / "summary.json").write_text(changed)
    (trends,) = trends_of(list_runs(several[0].parent, "ndcg@10"))
    assert trends.breaks == (trends.runs[2],)
    assert_message(trends.notes[0])


def test_the_page_of_several_runs_in_a_browser(several, tmp_path, visit):
    path = tmp_path / "side.html"
    notes = []
    write_pages(several, path, notes.append)
    page = visit(path, viewport={"width": 1280, "height": 900})

    assert len(notes) == 2
    lead = page.locator(".lead p").first
    expect(lead).to_contain_text("retrievers.bm25.stopwords: none -> ")
    expect(page.get_by_role("heading", name="what changed, what moved")).to_be_visible()
    trend = page.get_by_role("img", name="over 3 runs")
    expect(trend.first).to_be_visible()
    rows = page.get_by_role("region", name="what changed, what moved: the runs").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(2)).to_contain_text("without retrievers.exact")
    page.locator(".kind > summary", has_text="moved most on").first.click()
    moved = page.get_by_role("region", name="moved most on").first
    expect(moved).to_contain_text("<script>window.owned = 1</script>")
    assert "\u202e" not in page.locator("body").inner_text()
    assert page.evaluate("window.owned") is None
    assert hidden_width(page) <= 0
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 upright
    widths = page.evaluate(
        "[...document.querySelectorAll('#results table, #results .picture')]"
        ".map(each => each.getBoundingClientRect().right)"
    )
    assert len(widths) > 8
    assert max(widths) <= 719


def test_the_page_of_several_runs_is_accessible(several, tmp_path, visit):
    write_pages(several, tmp_path / "side.html")
    page = visit(tmp_path / "side.html")
    for _ in looks(page):
        assert violations(page) == []
        assert hidden_width(page) <= 0
