"""Readers that take linear time find what the shortest pattern for them finds."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench.data.files.collection import read_corpus
from ragbench.data.files.formulas import inert
from ragbench.data.loaders.trec import read_trec_corpus
from ragbench.score.judge.methods.templates import split_user_text

FORMULA = re.compile(r"""(?:^|(?<=[;\t]))(?=[\s'"\ufeff]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])""")


@settings(max_examples=500)
@given(st.text("=;\t\n\r '\"\ufeff\x0b\x85a-", max_size=12))
def test_formulas_begin_where_the_cells_of_a_sheet_do(text):
    assert inert(text) == FORMULA.sub("'", text)


# of overlapping parts the first one counts
APART = re.compile(rb"<(DOCNO|TITLE|HEADLINE|HEAD|TTL)>.*?</\1>", re.IGNORECASE | re.DOTALL)
TITLE = re.compile(rb"<(TITLE|HEADLINE|HEAD|TTL)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
TEXT = re.compile(rb"<TEXT>(.*?)</TEXT>", re.IGNORECASE | re.DOTALL)


def plain(parts):
    texts = (re.sub("<[^<>]*>", " ", part.decode()).strip() for part in parts)
    return "\n".join(texts)


PIECES = st.sampled_from(
    ["<TITLE>", "</title>", "<HEAD>", "</HEAD>", "<TEXT>", "</TEXT>", "<docno>",
     "</DOCNO>", "a", " ", "\n", "<b>"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@example(["<TITLE>", "<docno>", "</title>", "a", "</DOCNO>"])
@given(st.lists(PIECES, max_size=14))
def test_parts_of_a_trec_document_are_those_of_its_tags(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("trec") / "a.xml"
    content = ("<DOCNO> d </DOCNO>" + "".join(pieces)).encode()
    path.write_bytes(b"<DOC>\n" + content + b"\n</DOC>\n")
    texts = TEXT.findall(content) or [APART.sub(b" ", content)]
    titles = plain(match[2] for match in TITLE.finditer(content))

    (document,) = read_trec_corpus(path)

    assert document.id == "d"
    assert document.title == " ".join(titles.split())
    assert document.text.split() == plain(texts).split()


BLOCK = re.compile(r"<([^<>\n]+)-93>\n((?:(?!-93>).)*?)\n</\1-93>", re.DOTALL)
FENCED = st.sampled_from(
    ["<a-93>\nx\n</a-93>", "<b-93>\n\n</b-93>", "<a-93>", "</a-93>", "-93>", "<", "\n<", "</", "a",
     "a-93>\n", "\n</a-93>", "\n", "93", ">"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@example(["<a-93>", "\n</a-93>"])
@given(st.lists(FENCED, max_size=8))
def test_judged_texts_are_those_between_two_tags_of_the_fence(pieces):
    user = "Fence word: 93\n" + "".join(pieces)

    template, token, texts = split_user_text(user)

    assert (token, texts) == ("93", [match[2] for match in BLOCK.finditer(user)])
    for number, text in enumerate(texts, 1):
        template = template.replace(f"\n[[{number}]]\n", f"\n{text}\n", 1)
    assert template.replace("[[fence]]", "93") == user


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# Title ##", "Title"),
        ("#\tTitle\t#  ", "Title"),
        ("   ###### C#", "C#"),
        ("# a # b", "a # b"),
        ("# a ## #", "a ##"),
        ("####### seven", "a.md"),
        ("#no blank", "a.md"),
        ("# ##", "a.md"),
        ("#  ", "a.md"),
    ],
)
def test_the_heading_of_a_line(tmp_path, line, title):
    (tmp_path / "a.md").write_text(line, encoding="utf-8")

    assert read_corpus(tmp_path).documents[0].title == title
