"""Passages of an app with a vector store: as they were retrieved, on the page and in `show`."""

import gzip
import json
import re
import shutil

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import read_comparisons, read_summary
from ragbench.experiment.runner import run_experiment
from ragbench.report.page.data import pack_queries
from ragbench.report.page.html import write_page
from ragbench.report.query import render_query
from tests.commands import run_command
from tests.report.chromium import expect, hidden_width
from tests.report.test_page import assert_accessible
from tests.report.vector_app import DOCUMENTS, QUESTIONS, store

# Options of the apps: parts of 90 characters with their starts; of 70 without, more than 10 read.
APPS = {"starts": (90, True, 4), "texts": (70, False, 12)}


def write_run(output):
    """Run both apps on the questions, each with the quote that answers it."""
    rows = [
        dict(zip(("question", "reference", "relevant", "quote"), row, strict=True))
        for row in QUESTIONS
    ]
    apps = {
        name: {
            "type": "langchain",
            "factory": "tests.report.vector_app:chain",
            "args": dict(zip(("size", "has_starts", "k"), options, strict=True)),
        }
        for name, options in APPS.items()
    }
    config = {"apps": apps, "output": str(output / "runs"), "cache": str(output / "cache")}
    return run_experiment(config, dataset=rows, documents=DOCUMENTS).path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("passages"))


def expected_hits(app, question, document, quote):
    """Return document, start, end, text and mark of each hit, by the store itself."""
    size, has_starts, k = APPS[app]
    gold = DOCUMENTS[document].index(quote)
    hits = []
    for part in store(size, has_starts=has_starts).similarity_search(question, k=k):
        name, text = part.metadata["source"].removeprefix("docs/"), part.page_content
        # without starts the words of a part are searched, which white space around them is not
        words = text if has_starts else text.strip()
        start = DOCUMENTS[name].index(words)
        end = start + len(words)
        mark = ""
        if name == document:
            is_gold = start < gold + len(quote) and gold < end
            span = f"{document} {gold}-{gold + len(quote)}"
            mark = f"has gold {span}" if is_gold else "right document, other passage"
        hits.append((name, start, end, text, mark))
    return hits


@pytest.mark.parametrize("app", list(APPS))
def test_each_hit_keeps_its_own_text_its_place_and_its_mark(run, app):
    views = QueryViews(run)
    for view, (question, _, document, quote) in zip(views, QUESTIONS, strict=True):
        hits = view.system(app).ranking

        assert [
            (hit.document, hit.start, hit.end, hit.text, hit.mark) for hit in hits
        ] == expected_hits(app, question, document, quote)
        assert [hit.rank for hit in hits] == list(range(1, APPS[app][2] + 1))
        assert [hit.read for hit in hits] == [(hit.rank,) for hit in hits]
    views.close()


@pytest.mark.slow  # seconds: a browser
def test_every_rank_shows_the_passage_itself_with_its_place_and_who_read_it(run, visit):
    page = visit(run / "report.html", "#queries&sort=given&a=starts&b=texts")

    for row, (question, _, document, quote) in enumerate(QUESTIONS):
        expect(page.get_by_role("heading", name=question)).to_be_visible()
        for letter, app in zip("AB", APPS, strict=True):
            hits = expected_hits(app, question, document, quote)
            rows = page.get_by_label(f"{letter}: {app}").locator(".hits li")
            expect(rows).to_have_count(len(hits))
            expect(rows.locator(".passage")).to_have_text([text for *_, text, _ in hits])
            ranks = range(1, len(hits) + 1)
            expect(rows.locator(".hit")).to_contain_text(
                [
                    f"#{rank} {name} characters {start} to {end} ·"
                    for rank, (name, start, end, *_) in zip(ranks, hits, strict=True)
                ]
            )
            badges = rows.locator(".badges")
            expect(badges).to_contain_text([f"read as passage {rank}" for rank in ranks])
            expect(badges).to_contain_text([mark for *_, mark in hits])
        if row < len(QUESTIONS) - 1:
            page.get_by_role("link", name="next").click()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_the_document_of_a_passage_is_one_click_away(run, visit, width):
    # The document has a character of two UTF-16 units before the end of the passage.
    viewport = {"width": width, "height": 900}
    page = visit(run / "report.html", "#queries&sort=given&a=texts&b=none", viewport=viewport)
    page.get_by_label("find").fill(QUESTIONS[3][0])
    expect(page.get_by_role("heading", name=QUESTIONS[3][0])).to_be_visible()
    rows = page.get_by_label("A: texts").locator(".hits li")

    for rank, (name, start, end, _, _) in enumerate(expected_hits("texts", *QUESTIONS[3][::2], "")):
        details = rows.nth(rank).locator("details.document")
        details.locator("summary").click()
        expect(details.locator("pre")).to_have_text(DOCUMENTS[name])
        expect(details.locator("mark")).to_have_text(DOCUMENTS[name][start:end])
    assert hidden_width(page) <= 0


@pytest.mark.slow
def test_passages_and_their_documents_are_accessible(run, visit):
    page = visit(run / "report.html", "#queries&sort=given&a=starts&b=none")
    page.locator("details.document summary").first.click()
    expect(page.locator("details.document mark").first).to_be_visible()

    assert_accessible(page)


def test_show_prints_passages_and_never_ids_alone(run, golden):
    printed = run_command("show", run, "What may a hotel cost?", "--hits", "12").stdout

    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", printed), "ids of the store are no names"
    tables = re.findall(r"^  rank .*?(?=^  answer:)", printed, re.MULTILINE | re.DOTALL)
    golden("show_passages.txt", "\n".join(tables))


def test_a_run_folder_without_hits_still_opens(run, tmp_path):
    # An older version has no `hits/`: passages follow the ranking of documents.
    old = shutil.copytree(run, tmp_path / "old")
    shutil.rmtree(old / "hits")

    views = QueryViews(old)
    view = next(iter(views))
    hits = view.system("starts").ranking
    parts = [text for *_, text, _ in expected_hits("starts", *QUESTIONS[0][::2], "")]
    assert {hit.document for hit in hits if hit.rank is not None} <= set(DOCUMENTS)
    assert [hit.text for hit in hits if hit.rank is None] == parts
    assert "right document" not in render_query(view)
    views = QueryViews(old, bare=True)
    write_page(old / "report.html", read_summary(old), read_comparisons(old), views)
    packed = json.loads(gzip.decompress(pack_queries(views).packed))
    assert packed["queries"][0]["systems"]["starts"]["answers"][0]["ranks"] == [0, 0, 0, 0]
