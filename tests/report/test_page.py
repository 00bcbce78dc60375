"""The page as people use it, in a real browser: see `chromium.py`."""

from __future__ import annotations

import json
import re

import pytest
from msgspec import structs

from ragbench.data.runs.query_view import QueryViews
from ragbench.experiment.runner import run_experiment
from ragbench.records.codec import to_json
from ragbench.report.page import html
from ragbench.score.judge.support import Support, support_verdict
from tests.report.asked import PAIRS, RETRIEVERS, results, run_folder, write_example
from tests.report.chromium import expect, go_to, hidden_width, load, looks, unfold, violations
from tests.report.strategies import HOSTILE

pytestmark = pytest.mark.slow  # seconds: a browser

SCRIPTS = (
    "<script>window.owned = 1</script>",
    "</script><script>window.owned = 1</script>",
    "<svg onload='window.owned = 1'>",
    "<img src=x onerror='window.owned = 1'>",
    "javascript:window.owned=1",
    "[x](javascript:window.owned=1)",
    "<!--data--><!--<script>",
    "{{ 7 * 7 }}",
    "\u202egnp.exe\u2066",
    "\x1b[2J\x07",
    *HOSTILE,
)


@pytest.fixture(scope="module")
def example_page(tmp_path_factory):
    return write_example(tmp_path_factory.mktemp("page"))


def listed(page, *ids):
    """The list has these queries and no others."""
    expect(page.locator("#list li b")).to_have_text(list(ids))


def title(page, number):
    """A query is drawn, with all that stands under its heading."""
    expect(page.get_by_role("heading", name=f"number {number}?")).to_be_visible()


def test_a_click_leads_from_the_results_to_the_query_on_which_systems_differ_most(
    example_page, visit
):
    page = visit(example_page)
    expect(page.locator("#results")).to_be_visible()

    page.get_by_role("link", name="Queries").click()

    expect(page.locator("#results")).to_be_hidden()
    for place in range(3):  # dense is 1 above bm25 on q0
        expect(page.locator("#list li b").nth(place)).to_have_text(f"q{place}")
    title(page, 0)
    for text in ("Everest", "#3", "read as passage 1", "0.00200 USD", "12.5 ms", "gpt-9"):
        expect(page.locator("#detail")).to_contain_text(text)
    expect(page.locator("#detail"), "what a query lacks leaves no trace").not_to_contain_text(
        "null"
    )


def test_scores_of_rankings_and_of_answers_have_tables_of_their_own(example_page, visit):
    page = visit(example_page, "#queries&q=q4")
    title(page, 4)

    for kind, score, systems in (("rankings", "ndcg@10", RETRIEVERS), ("answers", "rouge1", PAIRS)):
        table = page.get_by_label(f"{kind}: scores on this query")
        expect(table.locator("thead th")).to_have_text(["system", score])
        expect(table.locator("tbody th")).to_contain_text(systems)
    expect(table.locator("tbody th").first.locator("small")).to_have_text("not retrieved")
    page.get_by_label("rankings: scores on this query").get_by_role("link", name="dense").click()
    expect(page).to_have_url(re.compile("b=dense"))


def test_what_is_read_supported_matched_and_said_is_marked(example_page, visit):
    page = visit(example_page, "#queries&q=q4")
    title(page, 4)
    side = page.get_by_label("A: dense/gpt")

    first = side.locator(".hits li").first
    expect(first).to_contain_text("supports claim 1")
    expect(first).to_contain_text("relevant, grade 2")
    expect(first.locator(".evidence")).to_have_text("The peak of 4 is Everest.")
    match = first.locator("mark.match", has_text="mountains")
    expect(match, "as the question's word").to_have_count(1)
    expect(side.locator(".claims li").nth(1)).to_contain_text("not supported by any passage")
    expect(side.locator("mark.gold-word", has_text="Everest").first).to_be_visible()
    expect(side.locator("mark.unique", has_text="highest"), "not in the other").to_have_count(1)
    third = page.get_by_label("B: bm25/gpt").locator(".hits li").nth(2)
    expect(third).to_contain_text("not read")
    prompt = side.locator("details", has=page.get_by_text("Prompt", exact=True)).locator("pre")
    expect(prompt).to_contain_text("Query 4 has mountains.")


def test_claims_of_a_verdict_lead_to_the_passages_that_bear_on_them(example_page, visit):
    page = visit(example_page, "#queries&q=q5")
    title(page, 5)
    side = page.get_by_label("A: dense/gpt")

    expect(side.locator(".claims").nth(0).locator("li")).to_have_text(
        [
            "The peak of 5 is Everest. supported by passage 1",
            "Moon contradicted by passage 2 not supported by the gold answer",
        ]
    )
    expect(side.locator(".claims").nth(1).locator("li")).to_have_text(
        ["Gold: The peak of 5 is Everest. supported by passage 1"]
    )
    first, second = (side.locator(".hits li").nth(place) for place in (0, 1))
    expect(first).to_contain_text("supports claim 1")
    expect(first).to_contain_text("supports gold claim 1")
    expect(first.locator(".evidence")).to_have_text("The peak of 5 is Everest.")
    expect(second).to_contain_text("contradicts claim 2")


def test_claims_that_the_page_leaves_out_are_counted(tmp_path, visit):
    # The first claim is a span that a classifier of tokens finds unsupported.
    folder = run_folder(tmp_path, 2)
    path = folder / "judgements/dense--gpt.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["claims"] = [{"text": f"claim {n}", "ruling": "supported"} for n in range(1, 104)]
    spans = support_verdict("Moon.", {0: Support(0.1, (("Moon", 0.9),))}).claims
    rows[1]["claims"][:1] = map(to_json, spans)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    html.write_page(folder / "report.html", *results(), QueryViews(folder, bare=True))

    side = visit(folder / "report.html", "#queries&q=q1&a=dense%2Fgpt").get_by_label("A: dense/gpt")

    expect(side.locator(".claims li")).to_have_count(100)
    span = "Moon not supported by any passage probability of support 0.100"
    expect(side.locator(".claims li").first).to_have_text(span)
    sentence = "faithfulness: the first 100 of 103 claims; all are in judgements/ of the run folder"
    expect(side.get_by_text(sentence)).to_be_visible()


def test_how_long_retrieval_took_stands_above_the_ranking(example_page, visit):
    page = visit(example_page, "#queries&q=q4&a=dense&b=bm25")
    title(page, 4)

    expect(page.get_by_label("A: dense")).to_contain_text("4.25 ms to retrieve")
    expect(page.get_by_label("B: bm25")).not_to_contain_text("to retrieve")


def test_a_query_of_several_tags_is_in_the_slice_of_each(example_page, visit):
    page = visit(example_page, "#queries&sort=given")
    title(page, 0)

    page.get_by_label("slice").select_option(label="tags: high")
    listed(page, "q0", "q3", "q6", "q9")
    chips = page.locator("#detail .chip")
    expect(chips).to_have_text(["topic: even", "tags: earth", "tags: high"])
    chips.nth(1).click()
    expect(page.locator("#list li")).to_have_count(12)


def test_previous_next_and_the_address_say_the_same(example_page, visit):
    page = visit(example_page, "#queries&sort=given")
    title(page, 0)

    page.get_by_role("link", name="next").click()
    title(page, 1)
    expect(page.locator("#position")).to_have_text("2 of 12")
    page.keyboard.press("ArrowRight")
    title(page, 2)
    expect(page).to_have_url(re.compile("q=q2"))
    expect(page.locator("#position")).to_have_text("3 of 12")
    page.go_back()
    title(page, 1)
    page.get_by_role("link", name="previous").click()
    title(page, 0)
    expect(page).to_have_url(re.compile("q=q0"))

    again = visit(example_page, "#" + page.url.split("#")[1])
    title(again, 0)


def test_a_part_of_a_bar_of_causes_leads_to_its_queries(tmp_path, visit):
    folder, (summary, comparisons) = run_folder(tmp_path), results()
    lost = {"ranked_too_low": 4, "not_retrieved": 8}
    systems = (
        *summary.systems[:2],
        structs.replace(summary.systems[2], causes=lost),
        summary.systems[3],
    )
    html.write_page(
        tmp_path / "r.html",
        structs.replace(summary, systems=systems),
        comparisons,
        QueryViews(folder, bare=True),
    )
    page = visit(tmp_path / "r.html")

    page.locator("#results .stack [data-cause=ranked_too_low]").click()

    expect(page.locator("#status")).to_have_text("4 of 12 queries · show all")
    listed(page, "q0", "q3", "q6", "q9")
    expect(page.get_by_label("A: bm25/gpt")).to_contain_text("ranked too low")
    page.get_by_role("link", name="show all").click()
    expect(page.locator("#status")).to_have_text("12 of 12 queries")


def test_filters_and_order(example_page, visit):
    page = visit(example_page, "#queries")
    title(page, 0)
    count = page.locator("#status")

    page.get_by_role("checkbox", name="failed").check()
    expect(count).to_contain_text("1 of 12")
    listed(page, "q2")
    expect(page.get_by_label("A: dense/gpt")).to_contain_text("no answer: timeout")
    page.get_by_role("checkbox", name="failed").uncheck()
    expect(count).to_contain_text("12 of 12")
    page.get_by_label("slice").select_option(label="topic: Moon")
    expect(count).to_contain_text("6 of 12")
    page.get_by_label("system A").select_option("bm25/gpt")
    page.get_by_label("cause").select_option("ranked_too_low")
    expect(count).to_contain_text("2 of 12")
    listed(page, "q3", "q9")
    page.get_by_label("slice").select_option("")
    expect(count).to_contain_text("4 of 12")
    page.get_by_label("cause").select_option("")
    expect(count).to_contain_text("12 of 12")
    page.get_by_label("A from").fill("0.25")
    expect(count).to_contain_text("6 of 12")
    page.get_by_label("sorted by").select_option("high")
    expect(page.locator("#list li b").first).to_have_text("q11")


def test_search_reaches_answers_and_passages(example_page, visit):
    page = visit(example_page, "#queries")
    title(page, 0)

    page.get_by_label("find").fill("peak of 7 is")
    expect(page.locator("#status")).to_have_text("1 of 12 queries · show all")
    listed(page, "q7")
    page.get_by_label("in answers and passages").uncheck()
    expect(page.locator("#status")).to_have_text("0 of 12 queries · show all")
    expect(page.locator("#list li")).to_have_count(0)


def test_questions_without_ids_are_named_by_their_rows(tmp_path, visit):
    config = {"retrievers": {"bm25": {"type": "bm25"}}, "output": str(tmp_path)}
    rows = [{"question": f"How hot is {name}?", "relevant": "io"} for name in ("Io", "Mars")]
    run = run_experiment(config, dataset=rows, documents={"io": "Io is hot."})
    page = visit(run.path / "report.html", "#queries")

    listed(page, "row 1", "row 2")
    page.get_by_label("find").fill("row 2")
    listed(page, "row 2")
    expect(page.locator("#detail")).to_contain_text("How hot is Mars?")


def test_the_keyboard_alone_is_enough(example_page, visit):
    page = visit(example_page)
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "to-queries":
            break
    expect(page.locator("#to-queries")).to_be_focused()
    page.keyboard.press("Enter")
    title(page, 0)
    second = page.locator("#list a[data-row='1']")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.row") == "1":
            break
    expect(second).to_be_focused()
    page.keyboard.press("Enter")
    title(page, 1)
    expect(second, "it stays where it was").to_be_focused()


def test_a_query_says_within_one_screen_what_to_change(example_page, visit):
    page = visit(example_page, "#queries&q=q3&a=dense%2Fgpt&b=bm25%2Fgpt")
    title(page, 3)

    change = page.get_by_label("B: bm25/gpt").locator(".cause .change")
    expect(change).to_have_text("What to change: a reranker, or more passages for the generator")
    expect(change).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("A: dense/gpt").locator(".answer .answer-text")).to_be_in_viewport()


def test_tables_answer_before_the_data_have_come(example_page, visit):
    # The file ends where its data begin, as it does for a browser that still reads it.
    cut = example_page.with_name("cut.html")
    cut.write_text(example_page.read_text().partition('<script type="application/octet-stream"')[0])
    page = visit(cut)

    unfold(page, "retrieval")
    sheet = page.locator("#results .sheet").first
    sheet.get_by_role("button", name="ndcg@10").click()
    expect(sheet.locator("th[aria-sort=descending]")).to_have_count(1)


def test_a_page_says_how_many_queries_it_leaves_out(tmp_path, visit):
    path = write_example(tmp_path, 12, queries=8)
    page = visit(path, "#queries&sort=given")

    # of the answers to q2 one failed, and has no difference
    listed(page, "q0", "q1", *(f"q{row}" for row in range(3, 9)))
    left_out = "then those on which the systems differ most. The other 4 queries are in"
    expect(page.get_by_text(left_out)).to_be_visible()
    go_to(page, "#queries&q=q9")
    expect(page.get_by_text("This page has no query q9.")).to_be_visible()


def test_hostile_texts_do_nothing(tmp_path, visit):
    # Every field holds every text: no script runs, nothing is asked for, no line is turned.
    scripts = " ".join(SCRIPTS)
    path = write_example(tmp_path, 4, scripts, field=scripts)
    page = visit(path, "#queries&q=q1")
    title(page, 1)

    assert page.evaluate("window.owned") is None
    elements = page.locator("#detail script, #detail svg, #detail img, #results script")
    expect(elements).to_have_count(0)
    text = page.locator("body").inner_text()
    assert "<script>window.owned = 1</script>" in text
    assert "\\u202egnp.exe" in text
    assert not set("\u202e\u2066\x1b\x07") & set(text)
    expect(page.locator("a[href^='javascript']")).to_have_count(0)
    expect(page.locator("h1")).not_to_contain_text("49")


def test_a_megabyte_is_cut_and_said(tmp_path, visit):
    # In each of some thirty places, where 200,000 characters are still in all.
    path = write_example(tmp_path, 1, "long " * 200_000)

    assert path.stat().st_size < 200_000
    page = visit(path, "#queries&q=q0")
    expect(page.get_by_text("more characters)").first).to_be_visible()


def test_the_policy_forbids_what_is_not_the_script_of_the_page(example_page, window):
    # A script that somebody adds to the file does not run, nor does a request leave.
    spoilt = example_page.with_name("spoilt.html")
    added = "<script>window.owned = 1</script><img src='http://127.0.0.1:9/x'></main>"
    spoilt.write_text(example_page.read_text().replace("</main>", added, 1))
    ends = []
    listeners = {
        "requestfailed": lambda request: ends.append(request.failure),
        "requestfinished": lambda request: ends.append("sent") if "9/x" in request.url else 0,
    }
    for event, listener in listeners.items():
        window.on(event, listener)

    load(window, spoilt)

    assert window.evaluate("window.owned") is None
    assert set(ends) <= {"csp"}
    for event, listener in listeners.items():
        window.remove_listener(event, listener)


def assert_accessible(page):
    """axe-core finds nothing, and nothing sticks out of the window."""
    for _ in looks(page):
        assert not page.locator(".picture:visible").evaluate_all(
            "all => all.filter(e => e.parentElement.scrollWidth > e.parentElement.clientWidth)"
            ".length"
        ), "no picture scrolls sideways"
        assert violations(page) == []
        assert hidden_width(page) <= 0


@pytest.mark.parametrize("fragment", ["", "#pictures", "#queries&q=q1"])
def test_accessible_at_every_width_in_light_and_dark(example_page, visit, fragment):
    page = visit(example_page, fragment)
    if "q1" in fragment:
        title(page, 1)

    assert_accessible(page)


def test_what_to_change_leads_to_its_questions(finished_quickstart, visit):
    # The list of the command, on the page of a real run.
    [path] = (finished_quickstart.folder / "runs/quickstart").glob("2*/report.html")
    page = visit(path)
    chapter = unfold(page, "what to change")

    expect(chapter).to_contain_text("minilm finds 63 of 70 at 5")
    assert "ragbench " not in chapter.inner_text(), "a reader may have no terminal"
    best = "fuse with bm25 (weighted 0.5 : 0.5)"
    expect(chapter).to_contain_text(
        f"no change is surely better; the largest promise is {best}: +1"
    )
    row = chapter.get_by_role("table", name="changes").locator("tbody tr", has_text=best)
    expect(row.locator("th, td")).to_contain_text(
        [best, "+1 -0", "64 of 70", "no difference shown (+1, from -2 to +5)"]
    )

    # one group of questions for the same changes, named by their texts
    titles = chapter.locator("details > summary").all_inner_texts()
    assert len(titles) == len(set(titles)) > 3
    group = chapter.locator("details", has_text="questions of minilm/extractive, not used")
    group.locator("summary").click()
    links = group.get_by_role("link")
    expect(links).to_have_count(31)
    question = links.first.inner_text()
    assert question.endswith("?")
    links.first.click()
    expect(page.locator("#results")).to_be_hidden()
    expect(page.get_by_role("heading", name=question)).to_be_visible()


@pytest.mark.parametrize(("n", "n_hidden"), [(5, 2), (6, 0)])
def test_filters_of_the_list_come_with_six_queries(tmp_path, visit, n, n_hidden):
    page = visit(write_example(tmp_path, n), "#queries")
    expect(page.locator("#list li")).to_have_count(n)

    expect(page.locator("#filters [data-many]")).to_have_count(2)
    expect(page.locator("#filters [data-many][hidden]")).to_have_count(n_hidden)


def test_a_telephone_folds_the_filters_of_the_list(example_page, visit):
    page = visit(example_page, "#queries", viewport={"width": 400, "height": 900})
    expect(page.locator("#list li").first).to_be_in_viewport()

    expect(page.get_by_label("A from")).to_be_hidden()
    page.locator("#further summary").click()
    expect(page.get_by_label("A from")).to_be_visible()


def test_a_point_of_the_picture_opens_its_query(example_page, visit):
    page = visit(example_page, "#queries&q=q3")
    title(page, 3)

    page.get_by_text("Picture of the differences").click()
    bars = page.locator("#chart svg").first
    label = "A above B on 12, below on 0, the same on 0 queries"
    expect(bars).to_have_attribute("aria-label", label)
    bars.locator("a rect").last.click()
    title(page, 0)
