"""Documents from JSON lines and from folders of text files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.data.files.collection import empty_note, encode_spaces, read_corpus, read_documents
from ragbench.types import Document

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(texts, texts), min_size=1))
def test_any_text_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    lines = [
        json.dumps({"_id": str(n), "title": title, "text": text}, ensure_ascii=False)
        for n, (title, text) in enumerate(rows)
    ]
    path.write_bytes("\n".join(lines).encode())

    expected = [Document(str(n), text, title) for n, (title, text) in enumerate(rows)]
    assert read_documents(path) == expected


def test_optional_fields_and_further_keys(write):
    path = write(
        "corpus.jsonl.gz",
        [
            {"_id": 7, "text": "t", "title": None, "metadata": None},
            {"_id": "b", "text": "", "url": "u", "metadata": {"year": 1999}},
        ],
    )

    first, second = read_documents(path)

    assert first == Document("7", "t")
    assert second == Document("b", metadata={"url": "u", "year": 1999})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"_id": "d1", "text": "again"}, "_id 'd1' is repeated, first at line 1"),
        ({"_id": "d2"}, "no 'text' (keys: _id)"),
        ({"_id": "d2", "text": None}, "'text' is null; allowed: text"),
        ({"_id": "d2", "text": "t", "title": 3}, "'title' is an integer; allowed: text or null"),
        ({"_id": "d2", "text": "t", "metadata": []}, "'metadata' is a list; allowed: an object"),
        ({"id": "d2", "text": "t"}, "no '_id' (keys: id, text); did you mean 'id'?"),
    ],
)
def test_bad_documents_are_named(write, problem, fields, expected):
    path = write("corpus.jsonl", [{"_id": "d1", "text": "t"}, fields])

    assert problem(lambda: read_documents(path)).startswith(f"corpus.jsonl:2: {expected}")


def test_a_folder_of_texts(write, tmp_path):
    write("docs/b.md", "intro\n```sh\n# not a heading\n```\n## The title ##\nbody\n")
    write("docs/a b/c.TXT", "# no markdown here\n")
    write("docs/empty.md", "")
    write("docs/.git/x.md", "hidden")
    write("docs/image.png", b"\x89PNG\xff")

    documents = read_corpus(tmp_path / "docs")

    assert [(d.id, d.title) for d in documents] == [
        ("a%20b/c.TXT", "c.TXT"),
        ("b.md", "The title"),
        ("empty.md", "empty.md"),
    ]
    assert documents[1].text.startswith("intro\n```sh\n")
    assert documents[2].text == ""


def test_folders_and_files_that_are_no_corpus(write, tmp_path, problem):
    write("docs/x.pdf", "x")
    table = write("corpus.csv", "x")

    assert problem(lambda: read_corpus(tmp_path / "docs")) == (
        "docs: no documents in the folder; allowed: .txt and .md files"
    )
    assert problem(lambda: read_corpus(table)) == (
        "corpus.csv: 'corpus.csv' is no corpus; "
        "allowed: .jsonl, .jsonl.gz, a folder of .txt and .md files"
    )
    assert problem(lambda: read_corpus(tmp_path / "no.jsonl")) == "no.jsonl: no such file"
    write("bad/a.txt", b"ok\n\xff\n")
    assert problem(lambda: read_corpus(tmp_path / "bad")) == (
        "bad/a.txt:2: bad UTF-8: 0xff at byte 1 of the line"
    )


@given(st.text())
def test_encoded_names_survive_a_split(name):
    encoded = encode_spaces(name)

    assert encoded.encode("utf-8", "surrogatepass").split() == (
        [encoded.encode("utf-8", "surrogatepass")] if name else []
    )


def test_empty_documents_are_counted():
    full, blank = Document("f", "text"), [Document(f"e{n}", " ") for n in range(7)]

    assert empty_note([full]) is None
    assert empty_note([full, blank[0]]) == "1 empty document: e0"
    assert empty_note(blank) == "7 empty documents: e0, e1, e2, e3, e4, ..."
    assert empty_note([Document("t", "", "a title")]) is None
