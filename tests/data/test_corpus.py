"""Documents from JSON lines and from folders of text files."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files.collection import corpus_notes, read_corpus, read_documents
from ragbench.data.files.rows import encode_spaces
from ragbench.errors import DataError, MissingExtra
from ragbench.types import Document

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(texts, texts), min_size=1))
def test_any_text_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "corpus.jsonl"
    lines = [
        json.dumps({"_id": str(n), "title": title, "text": text}, ensure_ascii=False)
        for n, (title, text) in enumerate(rows)
    ]
    path.write_bytes("\n".join(lines).encode())

    expected = [Document(str(n), text, title) for n, (title, text) in enumerate(rows)]
    assert list(read_documents(path)) == expected


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


@pytest.mark.costly
@pytest.mark.parametrize(
    "fields",
    [
        {"_id": "d1", "text": "again"},  # the same id twice
        {"_id": "d2"},
        {"_id": "d2", "text": None},
        {"_id": "d2", "text": "t", "title": 3},  # a title is a text
        {"_id": "d2", "text": "t", "metadata": []},
    ],
)
def test_bad_documents_are_named(write, problem, fields, assert_message):
    path = write("corpus.jsonl", [{"_id": "d1", "text": "t"}, fields])

    assert_message(problem(lambda: list(read_documents(path))), "corpus.jsonl:2")


def test_a_folder_of_texts(write, tmp_path):
    write("docs/b.md", "intro\n```sh\n# not a heading\n```\n## The title ##\nbody\n")
    write("docs/a b/c.TXT", "# no markdown here\n")
    write("docs/empty.md", "")
    write("docs/.git/x.md", "hidden")
    write("docs/image.png", b"\x89PNG\xff")

    documents = read_corpus(tmp_path / "docs").documents

    assert [(d.id, d.title) for d in documents] == [
        ("a%20b/c.TXT", "c.TXT"),
        ("b.md", "The title"),
        ("empty.md", "empty.md"),
    ]
    assert documents[1].text.startswith("intro\n```sh\n")
    assert documents[2].text == ""


def test_folders_and_files_that_are_no_corpus(write, tmp_path, problem, assert_message):
    write("docs/x.png", "x")
    table = write("corpus.xlsx", "x")

    assert_message(problem(lambda: read_corpus(tmp_path / "docs")))
    assert_message(problem(lambda: read_corpus(table)), "corpus.xlsx")
    assert_message(problem(lambda: read_corpus(tmp_path / "no.jsonl")), "no.jsonl")
    write("bad/a.txt", b"ok\n\xff\n")
    assert_message(problem(lambda: read_corpus(tmp_path / "bad")), "bad/a.txt:2")


@settings(max_examples=30)
@given(st.text())
def test_encoded_names_survive_a_split(name):
    encoded = encode_spaces(name)

    assert encoded.encode("utf-8", "surrogatepass").split() == (
        [encoded.encode("utf-8", "surrogatepass")] if name else []
    )


def test_white_space_of_ascii_is_encoded_as_in_a_url():
    names = "a b\tc\nd\re\vf\fg\u00a0h", "%20", ""

    assert [*map(encode_spaces, names)] == ["a%20b%09c%0Ad%0De%0Bf%0Cg\u00a0h", "%20", ""]


def test_empty_documents_are_counted():
    full, blank = Document("f", "text"), [Document(f"e{n}", " ") for n in range(7)]

    assert corpus_notes([full]) == corpus_notes(None) == []
    assert corpus_notes([full, blank[0]]) == ["1 empty document: e0"]
    assert corpus_notes(blank) == ["7 empty documents: e0, e1, e2, e3, e4, ..."]
    assert corpus_notes([Document("t", "", "a title")]) == []


def pdf(*pages):
    """A PDF with a line of text on each page, as the standard has it."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(len(pages)))}] "
        f"/Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    tail = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    tail += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + tail.encode()


@pytest.mark.costly
def test_pdf_and_html_files(write, tmp_path):
    write("docs/a.pdf", pdf("Io has volcanoes.", "So has Earth."))
    write(
        "docs/b.html",
        b"<html><head><title>The\n Moon</title><style>p {}</style></head><body>"
        b"<script>var x = 1;</script><p>Far &amp; <b>near</b></p>\n<p>caf\xe9</p></body>",
    )

    first, second = read_corpus(tmp_path / "docs").documents

    assert (first.id, first.title) == ("a.pdf", "a.pdf")
    assert first.text == "Io has volcanoes.\n\nSo has Earth."
    assert (second.title, second.text) == ("The Moon", "Far &\nnear\ncafé")


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [("a.pdf", "pypdf", "pypdf"), ("a.html", "bs4", "beautifulsoup4")],
)
def test_without_the_extra(write, tmp_path, monkeypatch, name, module, package, assert_message):
    write(f"docs/{name}", b"x")
    write("docs/b.md", "text")
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtra) as caught:
        read_corpus(tmp_path / "docs")

    assert_message(caught.value)


def test_a_broken_pdf(write, tmp_path, problem, assert_message):
    write("docs/a.pdf", b"%PDF-1.4 and no more")

    assert_message(problem(lambda: read_corpus(tmp_path / "docs")), "docs/a.pdf")


def test_other_files_of_a_folder_are_counted(write, tmp_path, assert_message):
    for name in ("a.md", "b.docx", "c.docx", "LICENSE", ".hidden.png"):
        write(f"docs/{name}", "text")

    [note] = read_corpus(tmp_path / "docs").notes

    assert_message(note)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.csv", "id,title,content,year\na b,T,text one,1999\n7,,text two,\n"),
        ("c.tsv", "doc_id\ttitle\tbody\tyear\na b\tT\ttext one\t1999\n7\t\ttext two\t\n"),
        (
            "c.json",
            '[{"_id": "a b", "title": "T", "page_content": "text one", "year": "1999"},'
            ' {"_id": 7, "title": null, "page_content": "text two", "year": ""}]',
        ),
        (
            "c.jsonl",
            [
                {"id": "a b", "title": "T", "text": "text one", "metadata": {"year": "1999"}},
                {"id": 7, "text": "text two", "year": ""},
            ],
        ),
    ],
)
def test_tables_of_documents(write, name, content):
    documents = read_corpus(write(name, content)).documents

    assert documents == [
        Document("a%20b", "text one", "T", {"year": "1999"}),
        Document("7", "text two", "", {"year": ""}),
    ]


def test_documents_without_ids_are_known_by_their_texts(write, assert_message):
    path = write("c.jsonl", [{"page_content": text} for text in ("one", "two", "one")])

    corpus = read_corpus(path)

    assert [document.text for document in corpus.documents] == ["one", "two"]
    assert_message(corpus.notes)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("id,text\na,x\na,y\n", "c.csv:3"),
        ("id,words\na,x\n", "c.csv:2"),
        ("id,text\n,x\n", "c.csv:2"),
    ],
)
def test_bad_tables_of_documents(write, problem, content, place, assert_message):
    path = write("c.csv", content)

    assert_message(problem(lambda: read_corpus(path)), place)


def test_a_page_that_cannot_be_read_is_named(write, tmp_path, monkeypatch, assert_message):
    write("docs/a.html", b"<p>x</p>")

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError) as caught:
        read_corpus(tmp_path / "docs")
    assert_message(caught.value, "TMP/docs/a.html")
