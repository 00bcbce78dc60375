"""Tables that a person reviewed, read back by the command; the page itself is in `tests/report`."""

import csv
import json
import re

import pytest

from ragbench.data.runs.run_folder import to_csv
from tests.commands import run_command

COLUMNS = ["id", "question", "reference", "relevant", "quote", "kind", "checks", "keep"]
IO = "Io is the innermost\nof the large moons."


def cells(n, **changes):
    return {
        **{"id": f"q-{n}", "question": f"What is moon {n}?", "reference": "a moon"},
        **{"relevant": "io.md", "quote": IO, "kind": "fact", "checks": "quote unique"},
        **{"keep": "yes", **changes},
    }


def write(path, *rows):
    header = list(dict.fromkeys(name for row in rows for name in row))
    table = [[row.get(name, "") for name in header] for row in rows]
    path.write_text(to_csv(header, table), encoding="utf-8")


def read(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def command(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/io.md").write_text(f"# Io\n\nSeen in 1610. {IO} It is hot.\n")
    # longer than the part of a document that the page holds
    (tmp_path / "docs/far.md").write_text("# Far\n\n" + "Nothing. " * 5_000)
    return lambda *arguments: run_command("questions", *arguments, cwd=tmp_path)


def test_quotes_stand_as_in_the_document_and_edited_questions_lose_their_other_checks(
    tmp_path, command, assert_message
):
    first = cells(1, reviewed="yes")
    edited = cells(2, quote="Io is the innermost of the large moons.", reviewed="edited")
    dropped = cells(3, quote="nowhere to see", keep="no", reviewed="yes")
    # a row without a mark is not reviewed: its quote is not looked up
    unseen = cells(4, quote="also nowhere", keep="")
    write(tmp_path / "saved.csv", first, edited, dropped, unseen)

    done = command("docs", "--reviewed", "saved.csv", "-o", "qa.csv")

    assert_message(done.stdout.splitlines())
    expected = [first, {**edited, "quote": IO, "checks": "quote"}, dropped, {**unseen}]
    rows = [{"comment": "", "reviewed": "", **row} for row in expected]
    assert read(tmp_path / "qa.csv") == rows
    assert command("docs", "--reviewed", "qa.csv", "-o", "qa.csv").returncode == 0  # the same again
    assert read(tmp_path / "qa.csv") == rows


def test_without_documents_an_edited_question_has_no_checks(tmp_path, command):
    write(tmp_path / "saved.csv", cells(1, quote="nowhere", reviewed="edited"))

    done = command("--reviewed", "saved.csv", "-o", "qa.csv")

    assert (done.returncode, "quotes were not looked up" in done.stderr) == (0, True)
    assert read(tmp_path / "qa.csv")[0]["checks"] == ""


def test_shares_of_kinds_and_of_reasons_are_told_apart(tmp_path, command, assert_message):
    rows = [cells(n, reviewed="yes", keep="no" if n < 2 else "yes") for n in range(8)]
    rows += [cells(8, kind="unanswerable", quote="", relevant="", reviewed="yes")]
    reason = {"reviewed": "yes", "keep": "no"}
    rows += [cells(9, reason="duplicates: nearly 'x'", **{**reason, "keep": "yes"})]
    rows += [cells(n, reason="pointing at the text: 'it'", **reason) for n in (10, 11)]
    write(tmp_path / "saved.csv", *rows)

    done = command("--reviewed", "saved.csv", "-o", "qa.csv")

    # Wilson's limits of 7/9, 6/8, 1/1, 1/3 and 0/2 by scipy.stats.binomtest
    assert_message(done.stdout.splitlines()[1:-1])


def test_a_kept_quote_that_stands_nowhere_is_an_error_and_nothing_is_written(
    tmp_path, command, assert_message
):
    write(tmp_path / "saved.csv", *(cells(n, quote="io is", reviewed="yes") for n in range(7)))

    done = command("docs", "--reviewed", "saved.csv", "-o", "qa.csv")

    assert done.returncode == 2
    assert_message(done.stderr)
    assert not (tmp_path / "qa.csv").exists()


@pytest.mark.parametrize(
    ("earlier", "is_replaced"),
    [
        ([cells(1, question="Edited by hand?"), cells(2)], True),
        ([cells(1), cells(2, question="Edited by hand?")], False),
        ([cells(1), cells(2, keep="no")], False),
        ([cells(1)], False),
        ([cells(1), cells(3)], False),
        ([cells(2), cells(1)], False),
    ],
    ids=["reviewed row", "other text", "other mark", "fewer", "other question", "other order"],
)
def test_a_table_is_replaced_only_if_it_differs_in_reviewed_rows(
    tmp_path, command, earlier, is_replaced
):
    write(tmp_path / "saved.csv", cells(1, reviewed="yes"), cells(2))
    write(tmp_path / "qa.csv", *earlier)
    content = (tmp_path / "qa.csv").read_bytes()

    done = command("--reviewed", "saved.csv", "-o", "qa.csv")

    assert done.returncode == (0 if is_replaced else 2)
    assert ((tmp_path / "qa.csv").read_bytes() != content) == is_replaced


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("docs --review qa.csv --reviewed qa.csv -o a.html", "one of them"),
        ("docs --review qa.csv -o a.html -n 3", "take CORPUS and -o alone"),
        ("docs --reviewed qa.csv -o a.csv --seed 0", "take CORPUS and -o alone"),
        ("docs --review qa.csv -o a.html --rejected b.csv", "take CORPUS and -o alone"),
        ("docs --review qa.csv", "pass -o FILE"),
        ("--review qa.csv -o a.html", "--review needs CORPUS"),
        ("docs --review qa.csv -o qa.csv", "--review needs -o FILE.html"),
        ("docs --review none.csv -o a.html", "no such file"),
        ("docs --review bad.csv -o a.html", "no 'question'"),
        ("--reviewed mark.csv -o a.csv", "column 'keep' has 'perhaps'"),
        ("--reviewed word.csv -o a.csv", "column 'reviewed' has 'no'"),
        ("docs", "Missing option '--model'."),
        ("", "Missing argument 'CORPUS'."),
    ],
)
def test_a_mistake_is_named(tmp_path, command, arguments, message):
    write(tmp_path / "qa.csv", cells(1))
    write(tmp_path / "bad.csv", {"id": "q", "query": "Why?"})
    write(tmp_path / "mark.csv", cells(1, keep="perhaps"))
    write(tmp_path / "word.csv", cells(1, reviewed="no"))

    done = command(*arguments.split())

    assert done.returncode == 2
    assert message in done.stderr


def test_the_page_has_the_quote_in_its_part_of_a_long_document(tmp_path, command):
    far = tmp_path / "docs/far.md"
    far.write_text(far.read_text() + "The last moon is far. " + "Nothing. " * 5_000)
    long = cells(1, relevant="far.md", quote="The last moon is far.")
    lost = cells(2, relevant="far.md", quote="The first moon.")
    write(tmp_path / "qa.csv", long, lost, cells(3, relevant="", quote=""), cells(4, relevant="x"))

    assert command("docs", "--review", "qa.csv", "-o", "a.html").returncode == 0

    page = (tmp_path / "a.html").read_text()
    data = json.loads(re.search('id="data">(.*?)</script>', page)[1])
    [(title, text)], [(_, start)], unanswerable, unknown = data["passages"]
    assert title == "far.md: Far"
    assert 2_400 < len(text) < 2_440
    assert text.count("The last moon is far.") == 1
    assert (text[:2], text[-2:]) == ("… ", " …")
    assert start.startswith("# Far\n\nNothing.")
    assert unanswerable == [["no gold document: the documents must not answer this question", ""]]
    assert unknown == [["gold document 'x' is not in the corpus", ""]]
    assert not re.search(r"https?://|src=|@import|url\(", page.replace(data["name"], ""))
