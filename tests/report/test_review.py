"""Review of questions by keys alone in a real browser, saved, and read back by the command."""

from __future__ import annotations

import csv

import pytest

from ragbench.data.runs.run_folder import csv_rows, to_csv
from tests.calibration.trial import judged
from tests.chat_server import ChatServer
from tests.cli.test_audit_judge import DOCUMENTS, audit, level, write_set
from tests.commands import run_command
from tests.lazy import Lazy
from tests.messages import lines_with
from tests.report.chromium import expect, looks, violations
from tests.report.strategies import HOSTILE
from tests.score.judge.scripted import Script

scipy = Lazy("scipy.stats")

pytestmark = pytest.mark.slow  # seconds: a browser

N = 20
HEADER = ["id", "question", "reference", "relevant", "quote", "kind", "checks", "keep"]
TEXTS = [
    *(
        "=HYPERLINK(1)",
        " '+1; =2",
        "\x1c@x",
        'a "quote", and\ttab',
        "a\nline\n end",
        "'=1",
        "a\r\nb\rc",
    ),
    *("</script><script>window.owned = 1</script>", "<img src=x onerror='window.owned = 1'>"),
    *(text for text in HOSTILE if text not in ("\ud800", "", "line\nbreak\r\ttab")),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Write 20 documents, and questions about them with hostile texts; return folder and rows."""
    folder = tmp_path_factory.mktemp("review")
    (folder / "docs").mkdir()
    rows = []
    for i in range(N):
        (folder / f"docs/d{i}.md").write_text(
            f"# Bridge {i}\n\n" + "Filler stands here. " * 200 + f"\nBridge {i} was\nopened in "
            f"{1900 + i} by the king. " + "More filler stands here. " * 200
        )
        quote = f"Bridge {i} was\nopened in {1900 + i} by the king."
        checks = "quote answered unique"
        rows.append(
            [f"q-{i}", TEXTS[i % len(TEXTS)], str(i), f"d{i}.md", quote, "fact", checks, "yes"]
        )
    rows[-1] = ["q-19", "What did bridge 3 cost?", "No answer", "", "", "unanswerable", "x", ""]
    (folder / "qa.csv").write_text(to_csv(HEADER, rows), encoding="utf-8")
    done = run_command("questions", "docs", "--review", "qa.csv", "-o", "review.html", cwd=folder)
    assert (done.returncode, done.stdout.split(" to ")[0]) == (0, "wrote review.html: 20 questions")
    return folder, rows


def expect_state(page, number, state):
    expect(page.locator("#status")).to_contain_text(f"question {number} of {N}: {state}")


def keep_twelve(page, expected):
    """Keep questions; each key goes on to the next one."""
    keys = page.keyboard
    expect(page.locator("mark")).to_have_text("Bridge 0 was\nopened in 1900 by the king.")
    for i in range(12):
        expect_state(page, i + 1, "not reviewed")
        keys.press("k")
        expected[i][-1] = "yes"
    expect_state(page, 13, "not reviewed; 12 reviewed")


def edit_the_next(page, expected):
    """Edit question and quote; letters in a field are no keys."""
    keys = page.keyboard
    keys.press("e")
    expect(page.locator("#question")).to_be_focused()
    keys.press("ControlOrMeta+a")
    keys.type("When was bridge 12 opened, k or d?")
    keys.press("Tab")
    keys.press("Tab")
    keys.press("ControlOrMeta+a")
    keys.type("opened in 1912 by the queen")
    expect(page.locator("#quote-note")).to_contain_text("does not stand")
    for _ in "queen":
        keys.press("Backspace")
    keys.type("king")
    expect(page.locator("mark")).to_have_text("opened in 1912 by the king")
    keys.press("Escape")
    expect_state(page, 13, "kept with edits")
    expected[12][1], expected[12][4] = (
        "When was bridge 12 opened, k or d?",
        "opened in 1912 by the king",
    )
    expected[12][-1] = "edited"


def review_the_rest(page, expected):
    """Drop one with a comment, move, leave one out, and decide on the others."""
    keys = page.keyboard
    keys.press("j")
    keys.press("c")
    keys.type("=too easy")
    keys.press("Escape")
    keys.press("d")
    expected[13][7:] = ["no", "=too easy", "yes"]
    keys.press("ArrowLeft")
    expect_state(page, 14, "dropped; 14 reviewed")
    keys.press("ArrowUp")
    keys.press("ArrowRight")
    keys.press("ArrowDown")
    expect_state(page, 15, "not reviewed")
    for i in range(14, 18):
        keys.press("k" if i % 2 else "d")
        expected[i][7], expected[i][-1] = ("yes" if i % 2 else "no"), "yes"
    keys.press("j")  # question 19 is not reviewed
    expect_state(page, 20, "not reviewed")
    expect(page.locator("#passages .soft")).to_have_text(
        "no gold document: the documents must not answer this question"
    )
    keys.press("k")
    expected[19][7], expected[19][-1] = "yes", "yes"
    expect_state(page, 20, "kept; 19 reviewed")


def reload_until_stored(page, position):
    """Reload the page; the renderer of a busy machine writes to the storage a moment later."""
    for _ in range(20):
        page.reload()
        page.locator("#status").wait_for()
        if f"question {position} of" in page.locator("#status").inner_text():
            return
        page.wait_for_timeout(500)


def test_twenty_questions_are_reviewed_with_keys_alone_saved_and_read_back(
    rows, visit, assert_message
):
    folder, rows = rows
    expected = [[*row, "", ""] for row in rows]
    page = visit(folder / "review.html")
    keep_twelve(page, expected)
    edit_the_next(page, expected)
    reload_until_stored(page, 13)  # the browser has stored all of it, with the place
    expect_state(page, 13, "kept with edits; 13 reviewed")
    review_the_rest(page, expected)
    with page.expect_download() as download:
        page.keyboard.press("s")
    assert download.value.suggested_filename == "qa.reviewed.csv"
    saved = folder / "saved.csv"
    download.value.save_as(saved)
    assert page.evaluate("window.owned") is None

    # byte by byte what the other tables of the package would hold
    assert saved.read_bytes() == to_csv([*HEADER, "comment", "reviewed"], expected).encode()

    done = run_command("questions", "docs", "--reviewed", "saved.csv", "-o", "qa.csv", cwd=folder)

    def share(k, n):
        ends = scipy.binomtest(k, n).proportion_ci(method="wilson")
        return f"{k} of {n}", f"{k / n:.2f} [{ends.low:.2f}, {ends.high:.2f}]"

    (fact, fact_share), (total, total_share) = share(15, 18), share(16, 19)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert_message(lines)
    assert [line.partition(": ")[2] for line in lines[2:4]] == [
        f"{fact}: {fact_share}",
        ": ".join(share(1, 1)),
    ]
    assert total in lines[1]
    assert lines[1].endswith(total_share)
    expected[12][6] = "quote"  # the other checks were of the earlier question
    table = to_csv([*HEADER, "comment", "reviewed"], expected)
    assert (folder / "qa.csv").read_bytes() == table.encode()
    with (folder / "qa.csv").open(newline="") as stream:
        assert [row["keep"] for row in csv.DictReader(stream)].count("no") == 3


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    """Draw the same answers to a page and to a table; return their folder and the run."""
    folder = tmp_path_factory.mktemp("labels")
    records = [
        {
            "id": f"q{i}",
            "question": f"How long is bridge {i}?",
            "contexts": [f"Bridge {i} is {i}0 m long.", "</script>Rain."],
            "answer": f"=Bridge {i} is long.",
        }
        for i in range(4)
    ]
    run = judged(folder, "bridges", records, ("faithfulness", "answer_relevancy"))
    for name in ("sheet.html", "drawn.csv"):
        done = run_command("calibrate", run, "--draw", 4, "-o", name, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder, run


def test_drawn_answers_are_labelled_with_keys_and_the_saved_sheet_is_read(
    sheet, visit, assert_message
):
    folder, run = sheet
    header, *rows = csv_rows(folder / "drawn.csv")
    page = visit(folder / "sheet.html")
    for i, row in enumerate(rows):
        expect(page.locator("#status")).to_have_text(
            f"answer {i + 1} of 8: not labelled; {i} labelled"
        )
        expect(page.locator("#passages .text").nth(1)).to_have_text(row[header.index("answer")])
        level = 1 if row[1] == "faithfulness" else 2 + i % 4
        page.keyboard.press("9")  # no level of the scale
        page.keyboard.press(str(level))
        row[header.index("label")] = str(level)
    page.keyboard.press("e")
    page.keyboard.press("Backspace")
    page.keyboard.type("3")
    page.keyboard.press("Tab")
    page.keyboard.type("half, true")
    page.keyboard.press("Escape")
    rows[-1][header.index("label")], rows[-1][header.index("comment")] = "3", "half, true"
    with page.expect_download() as download:
        page.keyboard.press("s")
    assert download.value.suggested_filename == "sheet.csv"
    download.value.save_as(folder / "sheet.csv")

    assert (folder / "sheet.csv").read_bytes() == to_csv(header, rows).encode()
    done = run_command("calibrate", run, "--labels", "sheet.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert_message(lines_with(done.stdout, "4 answers to 4 queries"))


def test_doubtful_gold_is_graded_with_keys_saved_and_read_back(tmp_path, visit, monkeypatch):
    monkeypatch.delenv("RAGBENCH_CACHE", raising=False)
    write_set(tmp_path)
    with ChatServer(Script(level=level), model="m-1") as server:
        assert audit(tmp_path, server, "--judge", "-o", "doubtful.html").returncode == 0
        page = visit(tmp_path / "doubtful.html")
        for i, (name, grade) in enumerate((("titan", "0"), ("copy", "1"))):
            status = f"passage {i + 1} of 3: not labelled; {i} labelled"
            expect(page.locator("#status")).to_have_text(status)
            expect(page.locator("#passages")).to_contain_text(DOCUMENTS[name])
            page.keyboard.press("2")  # no grade of the judgements
            page.keyboard.press(grade)
        expect(page.locator("#status")).to_have_text("passage 3 of 3: not labelled; 2 labelled")
        with page.expect_download() as download:
            page.keyboard.press("s")
        assert download.value.suggested_filename == "doubtful.csv"
        download.value.save_as(tmp_path / "doubtful.csv")
        done = audit(tmp_path, server, "--reviewed", "doubtful.csv", "-o", "corrected.tsv")
    assert done.stdout.splitlines()[0] == "2 of 3 passages labelled"
    corrected = (tmp_path / "corrected.tsv").read_text().splitlines()
    assert {"q1\ttitan\t0", "q1\tcopy\t1"} <= {*corrected}


@pytest.mark.parametrize("name", ["review.html", "sheet.html"])
def test_the_page_is_accessible_in_both_colours(rows, sheet, visit, name):
    page = visit((rows if name == "review.html" else sheet)[0] / name)
    for width, scheme in looks(page):
        assert violations(page) == [], (width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
