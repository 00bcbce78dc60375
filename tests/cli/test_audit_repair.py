"""`ragbench audit --repair`: 300 planted changes of documents, and files that stay whole."""

import csv
import json
import random
from itertools import count

import pytest

from tests.commands import run_command

CONFIG = """\
dataset: {{type: records, path: {0}, corpus: corpus.jsonl}}
retrievers: {{bm25: {{type: bm25}}}}
"""
CHANGES = {
    "kept": ("unchanged", "copied", "rest rewritten", "other white space"),
    "moved": ("renamed", "to another document", "joined"),
    "split": ("halves", "chunks with overlap", "three chunks", "halves amid others", "two copies"),
    "merged": ("both in a new one", "one into the other"),
    "gone": (
        *("deleted", "a word replaced", "a word inserted", "other order", "document deleted"),
        "short and elsewhere",
    ),
}


class Planter:
    """Documents of today, and the labels of earlier ones, whose fate is known."""

    def __init__(self, seed):
        self.random, self.words, self.names = random.Random(seed), count(), count()
        self.documents, self.cases = {}, []

    def sentence(self):
        """A sentence of 8 to 14 words that stand nowhere else."""
        words = [f"w{next(self.words)}" for _ in range(self.random.randint(8, 14))]
        return f"{' '.join(words).capitalize()}."

    def name(self):
        return f"d{next(self.names)}"

    def plant(self, status, change):
        """Plant a change, and add the labels of a question with their status and new document."""
        quote, sentence_before, after = self.sentence(), self.sentence(), self.sentence()
        old, other, text = self.name(), self.name(), f"{sentence_before}\n{quote} {after}"
        words, second = quote.split(), self.sentence()
        cut = self.random.randint(3, len(words) - 3)
        # the documents of today; a label that moved is in the first one
        documents = self.changed(old, sentence_before, words, after, cut)[change]
        quotes = [(old, quote, text)]
        if change == "short and elsewhere":
            quotes = [(old, " ".join(words[1:4]), text)]
        if status == "merged":
            quotes.append((other, second, f"{second} {after}"))
            name = other if change == "one into the other" else self.name()
            documents = [(name, f"{second} {after} {text}")]
        self.documents |= documents
        labels = [
            {"document": d, "quote": q, "start": t.index(q), "end": t.index(q) + len(q)}
            for d, q, t in quotes
        ]
        self.cases.append((status, next(iter(dict(documents)), None), labels))

    def changed(self, old, sentence_before, words, after, cut):
        """Documents of today by change, for a document `before quote after` that was `old`."""
        quote, text = " ".join(words), f"{sentence_before}\n{' '.join(words)} {after}"
        head, tail = " ".join(words[:cut]), " ".join(words[cut:])

        def amid(part):
            return self.name(), f"{self.sentence()} {part} {self.sentence()}"

        return {
            "unchanged": [(old, text)],
            "copied": [(old, text), amid(quote)],
            "rest rewritten": [(old, f"{sentence_before}\n{quote} {self.sentence()}")],
            "other white space": [(old, text.replace(tail, tail.replace(" ", "\n", 1)))],
            "shifted": [(old, f"{self.sentence()} {text}")],
            "renamed": [(self.name(), text)],
            "to another document": [amid(quote), (old, f"{sentence_before} {after}")],
            "joined": [(self.name(), f"{self.sentence()} {text}")],
            "halves": [(old, f"{sentence_before} {head}"), (self.name(), f"{tail} {after}")],
            "chunks with overlap": [
                (old, f"{sentence_before} {' '.join(words[: cut + 1])}"),
                (self.name(), f"{' '.join(words[cut - 1 :])} {after}"),
            ],
            "three chunks": [
                (old, f"{sentence_before} {words[0]}"),
                (self.name(), words[1]),
                (self.name(), f"{' '.join(words[2:])} {after}"),
            ],
            "halves amid others": [amid(" ".join(words[:4])), amid(" ".join(words[4:]))],
            "two copies": [amid(quote), amid(quote)],
            "both in a new one": [],
            "one into the other": [],
            "deleted": [(old, f"{sentence_before} {after}")],
            "a word replaced": [(old, text.replace(f" {words[cut]} ", " other ", 1))],
            "a word inserted": [(old, text.replace(f" {words[cut]} ", f" {words[cut]} not ", 1))],
            "other order": [(old, f"{sentence_before} {' '.join(reversed(words))}")],
            "document deleted": [],
            "short and elsewhere": [(old, sentence_before), amid(quote)],
        }


def plant(seed, *, positions):
    """Return a planter with 150 labels, 30 of each status, in random order of the questions."""
    planter = Planter(seed)
    for status, changes in CHANGES.items():
        # only a label with a position sees that the text before it grew
        further = ("shifted",) if status == ("moved" if positions else "kept") else ()
        names = (*changes, *further)
        for number in range(15 if status == "merged" else 30):
            planter.plant(status, names[number % len(names)])
    planter.random.shuffle(planter.cases)
    documents = list(planter.documents.items())
    planter.random.shuffle(documents)
    return planter.cases, [{"_id": name, "text": text} for name, text in documents]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_table(path, cases):
    """Write the table of `ragbench questions`, a row per label."""
    header = ["id", "question", "reference", "relevant", "quote", "kind", "checks", "keep"]
    rows = [
        [f"q{n}", f"What is {n}?", "That.", label["document"], label["quote"], "fact", "quote", ""]
        for n, (_, _, labels) in enumerate(cases)
        for label in labels
    ]
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])


def write_records(path, cases):
    """Write records with positions, a row per question."""
    rows = [
        {"id": f"q{n}", "question": f"What is {n}?", "reference": "That.", "reference_spans": spans}
        for n, (_, _, spans) in enumerate(cases)
    ]
    write_lines(path, rows)


def read_table(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def repair(folder, table, *options):
    (folder / "c.yaml").write_text(CONFIG.format(table), encoding="utf-8")
    result = run_command("audit", "c.yaml", "--repair", "--json", *options, cwd=folder)
    return result.returncode, json.loads(result.stdout), result.stderr


@pytest.mark.parametrize("table", ["qa.csv", "qa.jsonl"])
def test_150_planted_labels_have_the_right_status_and_only_two_of_five_are_written(
    tmp_path, table, assert_message
):
    is_table = table == "qa.csv"
    cases, documents = plant(13, positions=not is_table)
    (write_table if is_table else write_records)(tmp_path / table, cases)
    write_lines(tmp_path / "corpus.jsonl", documents)
    old_bytes = (tmp_path / table).read_bytes()

    code, report, notes = repair(tmp_path, table, "--strict", "-o", f"new-{table}")

    planted = [
        (f"q{n}", label["quote"], s) for n, (s, _, labels) in enumerate(cases) for label in labels
    ]
    assert [(x["query_id"], x["quote"], x["status"]) for x in report["labels"]] == planted
    assert report["counts"] == dict.fromkeys(CHANGES, 30)
    assert (code, (tmp_path / table).read_bytes()) == (1, old_bytes)
    texts = {document["_id"]: document["text"] for document in documents}
    if is_table:
        old, new = (read_table(tmp_path / name) for name in (table, f"new-{table}"))
        fates = [(status, name) for status, name, labels in cases for _ in labels]
        n_open = 90
        for row, changed, (status, name) in zip(old, new, fates, strict=True):
            expected = {"moved": {"relevant": name}, "kept": {}}.get(status, {"keep": "no"})
            assert changed == row | expected
    else:
        old, new = (read_lines(tmp_path / n) for n in (table, f"new-{table}"))
        n_open = 75
        for row, changed, (status, name, (span, *_)) in zip(old, new, cases, strict=True):
            if status == "moved":
                start = texts[name].index(span["quote"])
                place = {"document": name, "start": start, "end": start + len(span["quote"])}
                row["reference_spans"] = [span | place]
            assert changed == row | ({} if status in ("moved", "kept") else {"keep": False})
    assert report["open_rows"] == n_open
    assert_message(notes)


def small(folder, *rows, corpus=None):
    """Write a table of (id, relevant, quote) and a corpus beside it."""
    cells = [[name, f"What is {name}?", *row] for name, *row in rows]
    with (folder / "qa.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["id", "question", "relevant", "quote"], *cells])
    documents = corpus or {"b": "Io is a moon of Jupiter.", "c": "Titan has a thick air."}
    write_lines(folder / "corpus.jsonl", [{"_id": n, "text": t} for n, t in documents.items()])


def test_the_table_itself_is_replaced_only_if_it_is_named(tmp_path, assert_message):
    small(tmp_path, ("q1", "a", "Io is a moon of Jupiter."))
    old_bytes = (tmp_path / "qa.csv").read_bytes()

    assert repair(tmp_path, "qa.csv")[0] == 0
    assert (tmp_path / "qa.csv").read_bytes() == old_bytes
    repair(tmp_path, "qa.csv", "-o", "qa.csv")

    assert_message((tmp_path / "qa.csv").read_text())
    _, report, _ = repair(tmp_path, "qa.csv")
    assert report["counts"]["kept"] == 1


def test_another_existing_file_is_never_written_over(tmp_path):
    small(tmp_path, ("q1", "a", "Io is a moon of Jupiter."))
    (tmp_path / "mine.csv").write_text("mine")
    (tmp_path / "c.yaml").write_text(CONFIG.format("qa.csv"))
    for target, problem in (
        ("mine.csv", "mine.csv: exists and holds something else"),
        ("c.yaml", "c.yaml: is written in the format of qa.csv"),
    ):
        result = run_command("audit", "c.yaml", "--repair", "-o", target, cwd=tmp_path)
        assert result.returncode == 2
        assert problem in result.stderr
    assert (tmp_path / "mine.csv").read_text() == "mine"


def test_one_of_several_documents_is_renamed_and_an_unclear_one_is_not(tmp_path):
    quote = "Io is a moon of Jupiter."
    rows = (
        ("q1", "a; c", quote),  # the corpus lacks a alone
        ("q2", "a; d", quote),  # either may have had it
        ("q3", "a; b", "Titan has a thick air."),
        ("q4", "a; b", quote),
        ("q5", "c", ""),
    )
    small(tmp_path, *rows)
    _, report, _ = repair(tmp_path, "qa.csv", "-o", "new.csv")

    assert [label["status"] for label in report["labels"]] == ["moved", "gone", "moved", "kept"]
    assert report["unquoted"] == 5
    new = read_table(tmp_path / "new.csv")
    assert [row["relevant"] for row in new] == ['["b", "c"]', "a; d", '["c", "b"]', "a; b", "c"]
    assert [row["keep"] for row in new] == ["", "no", "", "", ""]


def test_gold_documents_follow_their_spans(tmp_path):
    io, air = "Io is a moon of Jupiter.", "Titan has a thick air."
    spans = [
        {"document": "a", "quote": io, "note": 1},
        {"document": "a", "quote": air, "start": 40, "end": 62},
        {"document": "c", "start": 0, "end": 5},
    ]
    rows = [
        {"id": "q1", "question": "Io?", "relevant": {"a": 2, "c": 1}, "reference_spans": spans},
        {"id": "q2", "question": "Air?", "relevant": "c; d", "reference_spans": [spans[1]]},
    ]
    small(tmp_path, ("q", "", ""))
    write_lines(tmp_path / "qa.jsonl", rows)
    _, report, _ = repair(tmp_path, "qa.jsonl", "-o", "new.jsonl")

    assert [label["status"] for label in report["labels"]] == ["moved"] * 3
    first, second = read_lines(tmp_path / "new.jsonl")
    moved = [
        {"document": "b", "quote": io, "note": 1},
        {"document": "c", "quote": air, "start": 0, "end": 22},
    ]
    assert first == rows[0] | {
        "relevant": {"b": 2, "c": 2},
        "reference_spans": [*moved, spans[2]],
    }
    assert second == rows[1] | {"reference_spans": [moved[1]]}


def test_a_name_that_two_documents_have_today_is_looked_up_by_its_quote(tmp_path):
    (tmp_path / "qa.csv").write_text("id,question,relevant,quote\nq,Io?,a.md,Io is a moon.\n")
    corpus = [{"_id": "x/a.md", "text": "Io is a moon."}, {"_id": "y/a.md", "text": "Titan."}]
    write_lines(tmp_path / "corpus.jsonl", corpus)
    _, report, _ = repair(tmp_path, "qa.csv")
    (label,) = report["labels"]
    assert (label["status"], label["documents"]) == ("moved", ["x/a.md"])


def test_the_text_lists_every_label_to_correct(tmp_path, assert_message):
    moved = [(f"m{n}", "a", "Io is a moon of Jupiter.") for n in range(6)]
    lost = [(f"g{n}", "c", "Titan has no air at all.") for n in range(6)]
    small(tmp_path, *moved, *lost)
    (tmp_path / "c.yaml").write_text(CONFIG.format("qa.csv"))
    result = run_command("audit", "c.yaml", "--repair", cwd=tmp_path)
    lines = result.stdout.splitlines()
    assert_message(lines[0])
    assert_message(lines[2:4])
    assert_message(lines[8:11])
    assert len(lines) == 17
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ('[{"quote": "x"}]', "column 'reference_spans': {'quote': 'x'}"),
        (
            '[{"document": "b", "quote": "x", "start": 1}]',
            "column 'reference_spans': {'document': 'b', 'quote': 'x', 'start': 1}",
        ),
        ('[{"document": "b", "start": 0, "end": 2}]', "no gold has a quote to look for"),
        ("oops", "column 'reference_spans'"),
    ],
)
def test_spans_that_cannot_be_read_are_refused(tmp_path, cell, problem):
    small(tmp_path, ("q1", "", ""))
    write_lines(tmp_path / "qa.jsonl", [{"id": "q", "question": "Io?", "reference_spans": cell}])
    (tmp_path / "c.yaml").write_text(CONFIG.format("qa.jsonl"))
    result = run_command("audit", "c.yaml", "--repair", cwd=tmp_path)
    assert result.returncode == 2
    assert problem in result.stderr


def test_a_data_set_without_a_table_is_refused(tmp_path, assert_message):
    text = "dataset: {type: beir, path: .}\nretrievers: {bm25: {type: bm25}}\n"
    (tmp_path / "c.yaml").write_text(text)
    result = run_command("audit", "c.yaml", "--repair", cwd=tmp_path)
    assert result.returncode == 2
    assert_message(result.stderr)
    result = run_command("audit", "c.yaml", "-o", "x.csv", cwd=tmp_path)
    assert result.returncode == 2
    assert_message(result.stderr)


def test_grades_of_a_column_of_their_own_follow_documents_that_are_two_now(
    tmp_path, assert_message
):
    # Two quotes of the old document, each in another file: both new documents have its grade.
    texts = {"a%20b": "one two three four", "b": "five six seven eight"}
    spans = json.dumps([{"document": "old", "quote": text} for text in texts.values()])
    row = {"id": "q1", "question": "?", "relevant": "old", "grades": "2", "reference_spans": spans}
    with (tmp_path / "qa.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([[*row], [*row.values()]])
    rows = [{"_id": name, "text": text} for name, text in texts.items()]
    write_lines(tmp_path / "corpus.jsonl", rows)
    (tmp_path / "c.yaml").write_text(CONFIG.format("qa.csv"))

    done = run_command("audit", "c.yaml", "--repair", "-o", "new.csv", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert_message(done.stdout)
    (row,) = read_table(tmp_path / "new.csv")
    assert (row["relevant"], row["grades"]) == ('["a%20b", "b"]', "[2, 2]")
    (tmp_path / "c.yaml").write_text(CONFIG.format("new.csv"))
    again = run_command("audit", "c.yaml", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
