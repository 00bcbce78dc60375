"""The results on the page, its tables and pictures, on the screen and on paper, in a browser."""

from __future__ import annotations

import json
import re

import pytest
from msgspec import structs

from ragbench.data.runs.query_view import QueryViews
from ragbench.records.causes import CAUSES
from ragbench.report.page import html
from tests.messages import lines_with
from tests.report import example
from tests.report.asked import results, run_folder
from tests.report.chromium import address, expect, hidden_part, unfold
from tests.report.pages import records

pytestmark = pytest.mark.slow  # seconds: a browser

# for each element, the number of lines of each of its texts
LINES_OF_TEXTS = """elements => elements.map(element => [...element.childNodes]
  .filter(node => node.nodeType === 3).map(node => {
    const range = document.createRange();
    range.selectNode(node);
    return new Set([...range.getClientRects()].map(box => box.top)).size;
  }))"""


def grown(n):
    """Return the results of the example with further retrievers, n in all."""
    summary, comparisons = records(example.summary(), example.comparisons())
    retriever = summary.system("hybrid")
    further = [structs.replace(retriever, name=f"b{k}") for k in range(n - 3)]
    return structs.replace(summary, systems=(*summary.systems, *further)), comparisons


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Three systems by two scores with differences, without queries: as several runs have it."""
    path = tmp_path_factory.mktemp("tables") / "both.html"
    html.write_page(path, *records(example.summary(), example.comparisons()))
    return path


def column(page, number, *texts):
    """The cells of a column begin with these texts, row by row."""
    cells = page.locator(f"#results .sheet >> nth=0 >> css=tbody tr > :nth-child({number + 1})")
    expect(cells).to_have_text([re.compile(rf"^{re.escape(text)}\b") for text in texts])


def test_a_table_is_sorted_filtered_and_its_columns_chosen(tmp_path, visit):
    html.write_page(tmp_path / "r.html", *grown(6))
    page = visit(tmp_path / "r.html")
    unfold(page, "retrieval")
    sheet = page.locator("#results .sheet").first
    column(page, 0, "bm25", "dense", "hybrid", "b0", "b1", "b2")

    sheet.get_by_role("button", name="ndcg@10").click()
    column(page, 1, "0.446", "0.446", "0.446", "0.446", "0.402", "0.388")
    expect(sheet.locator("th[aria-sort=descending]")).to_have_count(1)
    page.keyboard.press("Enter")
    column(page, 1, "0.388", "0.402", "0.446", "0.446", "0.446", "0.446")
    page.keyboard.press("Enter")
    column(page, 0, "bm25", "dense", "hybrid", "b0", "b1", "b2")
    tools = page.locator(".tools").first
    tools.get_by_label("systems").fill("DEN")
    expect(sheet.locator("tbody tr:visible")).to_have_count(1)
    tools.get_by_text("columns").click()
    tools.get_by_label("hit_rate@1").uncheck()
    expect(sheet.locator("thead th:visible")).to_have_count(2)


@pytest.mark.parametrize(("n", "n_tools"), [(5, 0), (6, 1)])
def test_tools_of_a_table_come_with_six_rows(tmp_path, visit, n, n_tools):
    html.write_page(tmp_path / "r.html", *grown(n))
    page = visit(tmp_path / "r.html")
    part = unfold(page, "retrieval")

    expect(part.locator(".sheet tbody tr:visible")).to_have_count(n)
    expect(part.locator(".tools")).to_have_count(n_tools)


@pytest.fixture
def clipboard(window):
    """Let pages read and write the clipboard."""
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield
    window.context.clear_permissions()


def test_a_table_is_copied_as_it_is_seen(tmp_path, visit, clipboard, assert_message):
    html.write_page(tmp_path / "r.html", *grown(6))
    page = visit(tmp_path / "r.html")
    unfold(page, "retrieval")
    tools = page.locator(".tools").first
    tools.get_by_label("systems").fill("b")
    sheet = page.locator("#results .sheet").first
    expect(sheet.locator("tbody tr:visible")).to_have_count(5)

    def copied(form):
        tools.get_by_role("button", name=form).click()
        expect(tools.get_by_text(f"copied as {form}")).to_be_visible()
        return page.evaluate("navigator.clipboard.readText()")

    assert copied("CSV").splitlines()[:2] == [
        '"system","ndcg@10","hit_rate@1"',
        '"bm25","0.402","0.300"',
    ]
    assert_message(copied("Markdown"), "| system |")
    assert_message(copied("LaTeX"), "\\begin{tabular}{lrr}")


def test_the_first_screen_says_what_is_best_and_what_not_to_trust(tables, visit, assert_message):
    page = visit(tables, viewport={"width": 1280, "height": 900})

    first = page.locator("#results").inner_text()
    assert_message(lines_with(first, " answers 41 of 60", "The gate is undecided: ", "ndcg@10: "))
    doubts = page.get_by_label("doubtful numbers").inner_text()
    assert_message(lines_with(doubts, "3 of 60 failed", "judge words"))
    assert page.get_by_label("doubtful numbers").bounding_box()["y"] < 900
    assert_message(unfold(page, "further results in words").inner_text())
    for title in ("retrieval", "generation"):
        for sheet in unfold(page, title).locator(".sheet:visible").all():
            assert hidden_part(sheet)[0] <= 0, "nothing out of sight"


def test_many_systems_leave_the_first_screen_to_the_results(tmp_path, visit):
    lost = {"right": 3, "failed": 1}
    systems = [
        structs.replace(results()[0].systems[0], name=f"retriever-{n}", causes=lost)
        for n in range(40)
    ]
    html.write_page(
        tmp_path / "r.html", structs.replace(results()[0], systems=tuple(systems)), results()[1]
    )
    page = visit(tmp_path / "r.html")

    assert page.locator(".numbers table").bounding_box()["y"] < 900
    expect(page.locator(".losses .stack")).to_have_count(2)
    expect(page.locator(".numbers tbody tr")).to_have_count(5)
    expect(page.locator(".numbers caption")).to_have_text("two main numbers of 5 of 40 systems")
    part = unfold(page, "where answers are lost, all systems")
    expect(part.locator("figure .scroll")).to_have_attribute("tabindex", "0")


def test_many_warnings_leave_the_first_screen_to_the_results(tmp_path, visit):
    summary, comparisons = results()
    warnings = [f"{n} of 78 verdicts failed" for n in range(40)]
    html.write_page(
        tmp_path / "r.html", structs.replace(summary, warnings=tuple(warnings)), comparisons
    )
    page = visit(tmp_path / "r.html")

    box = page.get_by_label("doubtful numbers")
    expect(box.locator("li:visible")).to_have_count(3)
    box.get_by_text("more").click()
    expect(box.get_by_text(warnings[-1])).to_be_visible()


def test_a_verdict_that_does_not_apply_has_not_failed(tmp_path, visit):
    folder = run_folder(tmp_path, 2)
    path = folder / "judgements/dense--gpt.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0] |= {"score": None, "status": "not_applicable", "cause": "no_claims"}
    rows[1] |= {"score": None, "status": "failed", "cause": "unreadable"}
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    html.write_page(folder / "report.html", *results(), QueryViews(folder, bare=True))

    for query, state, failed in (("q0", "does not apply: no claims", 0), ("q1", "unreadable", 1)):
        page = visit(folder / "report.html", f"#queries&q={query}&a=dense%2Fgpt")
        summary = page.get_by_label("A: dense/gpt").locator(".judged summary").first
        expect(summary).to_contain_text(f"faithfulness {state}")
        expect(summary.locator(".fail")).to_have_count(failed)


def test_pictures_have_words_and_a_view_of_their_own(tables, visit):
    page = visit(tables)

    page.get_by_role("link", name="Pictures").click()

    expect(page.locator("#results")).to_be_hidden()
    picture = page.get_by_role("img", name="ndcg@10: bm25 0.402; dense 0.388").first
    expect(picture).to_be_visible()


def test_twenty_systems_on_paper_keep_every_column(tmp_path, visit):
    # A4 upright: no table is wider than the paper.
    names = [f"retriever-{n:02}" for n in range(22)]
    measures = [f"measure_{n:02}@10" for n in range(14)]
    systems = [
        example.system(name, {m: example.score((0.5, 0.4, 0.6), m) for m in measures})
        for name in names
    ]
    many_records = records({"name": "many", "systems": systems, "baseline": names[0]}, {})
    html.write_page(tmp_path / "many.html", *many_records)
    page = visit(tmp_path / "many.html", viewport={"width": 718, "height": 1000})  # 190 mm
    page.locator(".kind:has(.tools) > summary").first.click()
    expect(page.locator(".tools").first).to_be_visible()
    page.emulate_media(media="print")
    expect(page.locator(".tools").first).to_be_hidden()

    widths = page.evaluate(
        "[...document.querySelectorAll('#results table')].map(t => t.scrollWidth)"
    )
    assert len(widths) >= 2
    assert max(widths) <= 718


def test_pictures_on_paper_are_whole(tables, visit):
    page = visit(tables, "#pictures", viewport={"width": 718, "height": 1000})  # 190 mm
    expect(page.locator("#pictures .picture:visible")).to_have_count(3)
    page.locator("#pictures details summary").click()
    page.emulate_media(media="print")

    visible = page.locator("#pictures .picture:visible")
    assert visible.count() > 5
    for box in (picture.bounding_box() for picture in visible.all()):
        assert 300 < box["width"] <= 718


def test_what_is_folded_is_printed(tables, visit):
    page = visit(tables)
    folded = page.locator("#results details:not([open])")
    n_folded = folded.count()
    assert n_folded > 1

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(folded).to_have_count(0)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(folded).to_have_count(n_folded)


def crowd(n):
    """Results with many apps that are in every table, long warnings, and many gates."""
    summary, comparisons = records(example.summary(), example.comparisons())
    pair, retriever = summary.system("bm25/gpt"), summary.systems[0]
    causes = dict.fromkeys(CAUSES, 6)
    scores = {**retriever.scores, **pair.scores}
    apps = [
        structs.replace(pair, name=f"{k:03}-an-app-with-a-long-name", causes=causes, scores=scores)
        for k in range(n)
    ]
    lines = tuple(f"doubt {k}: {'some words about a number, ' * 20}" for k in range(12))
    summary = structs.replace(
        summary, systems=(*summary.systems, *apps), warnings=lines, gates=summary.gates * 9
    )
    return structs.replace(summary, user_systems=tuple(app.name for app in apps)), comparisons


@pytest.mark.parametrize("n", [0, 200])
def test_a_brief_page_is_one_sheet_of_paper(tmp_path, window, n):
    # Printed by the browser: one page, with the first sentence and all that stands below it.
    pypdf = pytest.importorskip("pypdf", reason="pypdf counts the sheets")
    path = tmp_path / "brief.html"
    html.write_brief(path, *(crowd(n) if n else records(example.summary(), example.comparisons())))
    window.goto(address(path))
    (tmp_path / "brief.pdf").write_bytes(window.pdf(prefer_css_page_size=True))

    (sheet,) = pypdf.PdfReader(tmp_path / "brief.pdf").pages
    text = sheet.extract_text()
    first = (
        "000-an-app-with-a-long-name answers 34" if n else "hybrid/gpt answers 41 of 60 questions"
    )
    assert text.index(first) < text.index("right answers") < text.index("created by ragbench")
    words = " ".join(text.split())
    if n:
        assert f"two main numbers of 5 of {n + 5} systems" in words
        assert re.search(r"\band \d+ more$", text, re.M), "doubts that have no room"


def test_a_long_name_of_a_system_breaks_after_its_slash(tmp_path, visit):
    names = ("sentences/extractive", "paragraphs/extractive")
    systems = [example.system(n, {"rouge1": example.score((0.4, 0.3, 0.5), "r")}) for n in names]
    summary = {"name": "made", "baseline": names[0], "systems": systems}
    html.write_page(tmp_path / "r.html", *records(summary, {"baseline": names[0]}))
    page = visit(tmp_path / "r.html", viewport={"width": 400, "height": 900})

    heads = page.locator(".numbers tbody th")
    expect(heads).to_have_text(names)
    # each part of a name is a text of its own, which stands on one line
    lines = heads.evaluate_all(LINES_OF_TEXTS)
    assert lines == [[1, 1]] * 2
