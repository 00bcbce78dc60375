"""The top of the page of a real run, which is also the brief page, in a browser."""

from __future__ import annotations

import re

import pytest

import ragbench as rb
from ragbench.experiment.pages import write_pages
from tests.report.chromium import address, expect, hidden_width, load, looks, unfold, violations

pytestmark = pytest.mark.slow  # seconds: a browser

# blocks of the top in their order on a narrow page, and on a telephone
BLOCKS = (".lead", ".losses", ".numbers", "#failing", "#changes", ".version")
ON_TELEPHONE = (".lead", ".losses", "#failing", ".numbers", "#changes", ".version")
TEXTS = "#results .lead p, #failing h3, #failing p, #changes li, .version"
# texts in the colour of good news; words of causes stand beside their colours
GREEN = """() => {
  const probe = document.createElement("p");
  probe.className = "better";
  document.querySelector("#results").append(probe);
  const green = getComputedStyle(probe).color;
  probe.remove();
  const leaves = [...document.querySelectorAll("#results *:not(svg *)")].filter(
    (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
  return leaves.filter((e) => getComputedStyle(e).color === green).map((e) => e.innerText);
}"""


@pytest.fixture(scope="module")
def run(finished_quickstart):
    """The folder of the quickstart's run."""
    [path] = (finished_quickstart.folder / "runs/quickstart").glob("2*")
    return path


@pytest.fixture(scope="module")
def brief(run, tmp_path_factory):
    """The brief page of that run."""
    path = tmp_path_factory.mktemp("brief") / "brief.html"
    write_pages([run], path, brief=True)
    return path


@pytest.mark.parametrize(("width", "blocks"), [(400, ON_TELEPHONE), (800, BLOCKS)])
def test_the_blocks_come_in_the_order_of_a_reader(run, visit, width, blocks):
    page = visit(run / "report.html", viewport={"width": width, "height": 900})

    tops = [page.locator(block).bounding_box()["y"] for block in blocks]
    folded = page.locator("details.kind").first.bounding_box()["y"]
    assert [*tops, folded] == sorted([*tops, folded])
    expect(page.locator("#failing li")).to_have_count(3)
    expect(page.locator("#changes li")).to_have_count(3)
    expect(page.locator(".numbers tbody tr")).to_have_count(3)
    assert page.locator(".numbers thead th").all_inner_texts() == [
        "system",
        "right answers",
        "gold in the first 5 hits",
    ]


def test_lost_questions_have_their_texts_and_lead_to_their_queries(run, visit):
    page = visit(run / "report.html")
    cards = page.locator("#failing li")

    causes = cards.locator("p.soft b").all_inner_texts()
    assert causes == ["not used", "should have refused", "ranked too low"], "the largest first"
    expect(cards.first).to_contain_text("OSIRIS-REx delivered about 120 grams")
    question = cards.first.locator("h3").inner_text()
    cards.first.get_by_role("link").click()
    expect(page.locator("#results")).to_be_hidden()
    expect(page.get_by_role("heading", name=question)).to_be_visible()
    expect(page.get_by_label("A: minilm/extractive")).to_contain_text("not used")


def test_a_count_of_a_cause_leads_to_its_questions(run, visit):
    page = visit(run / "report.html")

    page.locator(".losses").get_by_role("link", name="8 should have refused").first.click()
    expect(page.locator("#status")).to_have_text("8 of 78 queries · show all")


def test_everything_else_is_folded_by_kind(run, visit):
    page = visit(run / "report.html", viewport={"width": 1280, "height": 900})

    expect(page.locator("#results details[open]")).to_have_count(0)
    titles = page.locator("details.kind > summary").all_inner_texts()
    assert len(titles) == len(set(titles))
    assert {"retrieval", "generation", "what to change", "how to read it"} <= set(titles)
    expect(page.locator("#results table:visible")).to_have_count(1)
    assert page.locator("#results").bounding_box()["height"] < 1500


def test_only_what_is_surely_better_is_green(run, visit):
    page = visit(run / "report.html")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # unfolds

    texts = [text for text in page.evaluate(GREEN) if "[" not in text and text.strip()]
    assert len(texts) > 5
    for text in texts:
        assert re.search(r" \*$|\bbetter\b|^\+\d", text.partition("\n")[0]), text
    # minilm leads by right answers, which is not sure
    best = page.locator(".numbers tr", has_text="minilm/extractive")
    expect(best.locator(".better")).to_have_count(0)


def test_at_most_four_pictures_come_without_a_click(run, visit):
    page = visit(run / "report.html")
    n = page.locator("figure:visible").count()
    page.get_by_role("link", name="Pictures").click()

    assert 2 <= n + page.locator("#pictures figure:visible").count() <= 4
    more = page.locator("#pictures details")
    more.locator("summary").click()
    expect(more.locator("figure:visible").nth(10)).to_be_visible()


def test_the_first_lost_question_is_in_sight_on_a_telephone(run, visit):
    page = visit(run / "report.html", viewport={"width": 400, "height": 900})
    assert hidden_width(page) <= 0

    question = page.locator("#failing h3").first
    box = question.bounding_box()
    assert box["y"] + box["height"] <= 900
    page.get_by_role("link", name="questions that fail").click()
    expect(question).to_be_in_viewport(ratio=1)
    assert float(question.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")) >= 14


def test_the_brief_page_is_the_top_of_the_page_on_one_sheet(run, brief, window, tmp_path):
    pypdf = pytest.importorskip("pypdf", reason="pypdf counts the sheets")
    load(window, run / "report.html")
    whole = window.locator(TEXTS).all_inner_texts()

    window.goto(address(brief))
    assert window.locator(TEXTS).all_inner_texts() == whole
    expect(window.locator("details, script, button")).to_have_count(0)
    (tmp_path / "brief.pdf").write_bytes(window.pdf(prefer_css_page_size=True))
    (sheet,) = pypdf.PdfReader(tmp_path / "brief.pdf").pages
    text = " ".join(sheet.extract_text().split())
    assert "answers 32 of 78 questions" in text
    assert text.index("questions that fail") < text.index("worth trying") < text.index("ragbench 0")


def test_accessible_folded_and_unfolded(run, visit):
    page = visit(run / "report.html")
    for is_folded in (True, False):
        if not is_folded:
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
        for look in looks(page):
            # unfolded, the page has all colours
            assert violations(page, has_colors=not is_folded) == [], (is_folded, look)
            assert hidden_width(page) <= 0, (is_folded, look)


def test_the_brief_page_is_accessible(brief, window):
    window.goto(address(brief))
    for look in looks(window):
        assert violations(window) == [], look


def test_choosers_of_columns_fit_a_telephone(tmp_path, visit):
    rows = [
        {"question": f"{n}?", "reference": "yes", "answer": "yes", "system": f"s{place}"}
        for n in range(3)
        for place in range(7)
    ]
    scores = ["exact_match", "contains", "token_f1", "rouge1", "rouge2", "rougeL", "bleu"]
    config = {"metrics": {"generation": scores}, "output": str(tmp_path)}
    path = rb.run_experiment(config, dataset=rows).path

    page = visit(path / "report.html", viewport={"width": 400, "height": 900})
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

    expect(page.locator(".tools fieldset").first).to_be_visible()
    assert hidden_width(page) <= 0


def test_the_list_of_changes_has_no_commands(run, visit):
    page = visit(run / "report.html")
    part = unfold(page, "what to change")

    assert "ragbench " not in part.inner_text()
    assert "ragbench " not in page.locator("#changes").inner_text()


def test_a_cut_off_at_the_first_hit_is_written_as_one(tmp_path):
    rows = [{"question": f"{n}?", "retrieved": ["a"], "relevant": ["a"]} for n in range(3)]
    config = {"metrics": {"retrieval": {"measures": ["found@1"]}}, "output": str(tmp_path)}

    path = rb.run_experiment(config, dataset=rows).path

    assert "gold in the first hit<" in (path / "report.html").read_text(encoding="utf-8")
