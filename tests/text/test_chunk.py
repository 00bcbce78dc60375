"""Chunks: worked by hand, as slices of any text, and as other splitters make them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.text.chunk import Chunker, Chunking
from ragbench.types import Document

TEXTS = st.lists(
    st.sampled_from(
        ["Io.", "a", "moon", "is", "hot!", "3.14", "東京都", "。", "don't", " ", "\n\n"]
    )
).map(" ".join) | st.text(max_size=40)
UNITS = {"words": r"\S+", "tokens": r"\w+|[^\w\s]"}


def cut(text, by="words", size=3, overlap=0, **options):
    return Chunker(Chunking(by=by, size=size, overlap=overlap, **options))(text)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"size": 2}, ["Io, Europa", "and Ganymede.", "Moons!"]),
        (
            {"size": 2, "overlap": 1},
            ["Io, Europa", "Europa and", "and Ganymede.", "Ganymede. Moons!"],
        ),
        ({"size": 4, "overlap": 3}, ["Io, Europa and Ganymede.", "Europa and Ganymede. Moons!"]),
        ({"size": 9}, ["Io, Europa and Ganymede. Moons!"]),
        ({"by": "sentences", "size": 1}, ["Io, Europa and Ganymede.", "Moons!"]),
        ({"by": "tokens", "size": 3}, ["Io, Europa", "and Ganymede.", "Moons!"]),
        ({"by": "tokens", "size": 2}, ["Io,", "Europa and", "Ganymede.", "Moons!"]),
    ],
)
def test_hand_worked(options, expected):
    assert [chunk.text for chunk in cut("Io, Europa and Ganymede. Moons!", **options)] == expected


def test_scripts_without_spaces_are_cut_between_letters():
    assert [chunk.text for chunk in cut("東京都は、首都。", size=4)] == ["東京都は、", "首都。"]


@settings(max_examples=30)
@given(
    TEXTS, st.sampled_from(["words", "sentences", "tokens"]), st.integers(1, 5), st.integers(0, 4)
)
def test_any_text(text, by, size, overlap):
    # Slices in order, that hold every character but white space, of the right size
    overlap = min(overlap, size - 1)
    chunks = cut(text, by, size, overlap)

    assert all(text[chunk.start : chunk.end] == chunk.text != "" for chunk in chunks)
    covered = {i for chunk in chunks for i in range(chunk.start, chunk.end)}
    assert {i for i, letter in enumerate(text) if not letter.isspace()} <= covered
    starts = [chunk.start for chunk in chunks]
    assert starts == sorted(set(starts))
    ends = [chunk.end for chunk in chunks]
    assert ends == sorted(set(ends)), "none lies within another"
    if overlap == 0:
        joined = "".join(chunk.text for chunk in chunks)
        assert re.sub(r"\s", "", joined) == re.sub(r"\s", "", text)
    if by in UNITS and text.isascii():
        counts = [len(re.findall(UNITS[by], chunk.text)) for chunk in chunks]
        assert counts[:-1] == [size] * len(counts[:-1])
        assert all(overlap < count <= size for count in counts[1:])


def test_chunks_of_a_document_keep_its_title_and_metadata():
    document = Document("d#1", "Io is hot.", "Moons", {"year": 1610})

    first, second = Chunker(Chunking(by="words", size=2)).chunks_of(document)

    assert (first.id, first.text, first.title) == ("d#1#0", "Io is", "Moons")
    assert (second.id, second.text) == ("d#1#1", "hot.")
    assert second.metadata == {"year": 1610, "chunk_start": 6, "chunk_end": 10}


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_document_without_text_is_one_chunk_with_its_title(text):
    [chunk] = Chunker(Chunking(by="words", size=2)).chunks_of(Document("d", text, "Moons"))

    assert (chunk.id, chunk.text, chunk.title) == ("d#0", "", "Moons")


def test_tokens_of_a_model(minilm):
    # Word pieces: `moonquakes` is moon, ##qua, ##kes; special tokens do not count
    import transformers

    text = "Moonquakes on Io."
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    assert len(tokenizer.tokenize(text)) == 6

    chunks = cut(text, "tokens", 3, tokenizer=minilm)

    assert [chunk.text for chunk in chunks] == ["Moonquakes", "on Io."]


class Splitter:
    """Split as LangChain does: sizes in characters, and pieces as texts."""

    def __init__(self, chunk_size, chunk_overlap):
        self.size, self.step = chunk_size, chunk_size - chunk_overlap

    def split_text(self, text):
        return [text[i : i + self.size] for i in range(0, len(text), self.step)]


class Shouting(Splitter):
    """Returns what does not stand in the text."""

    def split_text(self, text):
        return [text.upper()]


class Silent(Splitter):
    """Forgets to return texts."""

    def split_text(self, text):
        return [None]


class Empty(Splitter):
    """Forgets to return anything."""

    def split_text(self, text):
        return None


class Failing(Splitter):
    """Raises."""

    def split_text(self, text):
        raise ValueError("no model")


def Plain(chunk_size, chunk_overlap):
    """Returns no splitter."""
    return chunk_size


def langchain(name, text="abcab", size=3):
    return cut(text, "langchain", size, 1, factory=f"{__name__}:{name}")


def test_a_langchain_splitter_cuts_and_its_pieces_are_found_in_the_text():
    chunks = langchain("Splitter")

    assert [(c.text, c.start, c.end) for c in chunks] == [("abc", 0, 3), ("cab", 2, 5), ("b", 4, 5)]


def test_a_piece_that_the_splitter_changed_has_no_place():
    assert [(c.text, c.start, c.end) for c in langchain("Shouting")] == [("ABCAB", None, None)]


def test_a_splitter_that_is_none_is_an_error(assert_message):
    with pytest.raises(AdapterError) as caught:
        langchain("Plain")
    assert_message(caught.value)
    with pytest.raises(AdapterError) as caught:
        langchain("Silent")
    assert_message(caught.value)
    with pytest.raises(AdapterError) as caught:
        langchain("Empty")
    assert_message(caught.value)
    with pytest.raises(AdapterError) as caught:
        langchain("Failing")
    assert_message(caught.value)
    with pytest.raises(DataError, match="has no 'Spliter'"):
        langchain("Spliter")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (
            {"by": "words", "size": 2, "overlap": 2},
            "chunk: overlap",
        ),
        ({"by": "words", "size": 2, "overlap": -1}, "chunk: overlap"),
        ({"by": "words", "size": 0}, "chunk: size"),
        ({"by": "words", "size": 2, "tokenizer": "x"}, "chunk: tokenizer"),
        ({"by": "words", "size": 2, "factory": "a:B"}, "chunk: factory"),
        (
            {"by": "langchain", "size": 2},
            "chunk: factory",
        ),
    ],
)
def test_options_that_do_not_go_together(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        Chunking(**options)
    assert_message(caught.value, place)


@pytest.mark.usefixtures("minilm")  # beside what has loaded models already
def test_a_tokenizer_that_is_not_there_says_so(tmp_path, assert_message):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OptionError) as caught:
        cut("a", "tokens", 3, tokenizer=str(tmp_path))
    assert_message(caught.value, "chunk: tokenizer")
