"""A large corpus in the cache: the same documents, not parsed again, and no change is missed."""

import builtins
import gc
import gzip
import io
import json
import os
import random
import tracemalloc

import pytest

from ragbench.data.loaders import beir
from ragbench.data.loaders.base import fingerprint_collection
from ragbench.data.loaders.beir import Beir
from ragbench.data.loaders.records import HuggingFace, Records
from ragbench.data.loaders.trec import Trec
from ragbench.errors import DataError
from ragbench.store.arrays import ArrayStore
from ragbench.types import Document
from ragbench.types.packed_documents import PackedDocuments, hash_documents, record_ids


def words(seed, n):
    return " ".join(random.Random(seed).choices(["cat", "fox", "évian", "sky", "☂ rain"], k=n))


@pytest.fixture
def folder(tmp_path):
    """A corpus of more than 1 MiB, with titles, metadata, an empty document and odd ids."""
    path = tmp_path / "data"
    (path / "qrels").mkdir(parents=True)
    rows = [{"_id": f"d{n}é", "title": words(n, n % 3), "text": words(n, 120)} for n in range(2500)]
    rows[7] |= {"metadata": {"year": 1999, "tags": ["a", None, 1.5]}, "source": "x"}
    rows[8] |= {"title": "", "text": " "}
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (path / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (path / "queries.jsonl").write_text('{"_id": "q1", "text": "fox sky"}')
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td7é\t1\n")
    return path


def load(folder, cache=None, loader=Beir, **options):
    made = loader(**(options or {"path": folder}))
    made.arrays = None if cache is None else ArrayStore(cache)
    return made.load()


@pytest.mark.costly
def test_the_same_documents(folder, tmp_path):
    plain, packed = load(folder), load(folder, tmp_path / "cache")

    documents = packed.documents
    assert isinstance(documents, PackedDocuments)
    assert list(documents) == plain.documents
    assert documents[7] == plain.documents[7]
    assert documents[7].metadata["tags"] == ["a", None, 1.5]
    for part in (slice(-3, None), slice(5, 900, 7), slice(9, 4), slice(None, None, -1)):
        assert documents[part] == plain.documents[part]
    with pytest.raises(IndexError):
        documents[2500]
    assert documents.by_id["d9é"] == plain.documents[9]
    assert (documents.by_id.get("x"), "x" in documents.by_id) == (None, False)
    assert (record_ids(documents), len(documents.by_id)) == (record_ids(plain.documents), 2500)
    assert hash_documents(documents) == hash_documents(plain.documents)
    assert packed.fingerprints == plain.fingerprints == fingerprint_collection(packed)
    assert packed.notes == plain.notes
    assert "1 empty document: d8é" in plain.notes


@pytest.mark.costly
def test_it_is_not_parsed_again(folder, tmp_path, monkeypatch):
    first = load(folder, tmp_path / "cache")
    monkeypatch.setattr(beir, "read_documents", lambda path: pytest.fail("parsed again"))

    again = load(folder, tmp_path / "cache")

    assert list(again.documents) == list(first.documents)
    assert again.fingerprints == first.fingerprints


@pytest.mark.costly
def test_a_change_that_times_and_sizes_hide_is_seen(folder, tmp_path):
    """As by a copy that keeps the time of change, in the same file."""
    before = load(folder, tmp_path / "cache")
    path = folder / "corpus.jsonl"
    stat = path.stat()
    text = path.read_text(encoding="utf-8").replace("fox", "vox", 1)
    with path.open("r+", encoding="utf-8") as stream:
        stream.write(text)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_ino) == (stat.st_size, stat.st_ino)

    after = load(folder, tmp_path / "cache")

    assert after.fingerprints["corpus"] != before.fingerprints["corpus"]
    assert sum(a != b for a, b in zip(after.documents, before.documents, strict=True)) == 1


@pytest.mark.costly
def test_a_file_that_changes_while_it_is_read_is_refused(folder, tmp_path, monkeypatch):
    def read(path):
        yield Document("a", "x" * (1 << 20))
        with path.open("a") as stream:
            stream.write("\n")

    monkeypatch.setattr(beir, "read_documents", read)

    with pytest.raises(DataError, match="was changed while it was read"):
        load(folder, tmp_path / "cache")
    monkeypatch.undo()
    assert len(load(folder, tmp_path / "cache").documents) == 2500


@pytest.mark.costly
def test_a_mistake_is_named_as_ever(folder, tmp_path):
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('\n{"_id": "d3é", "text": "again"}\n')

    for cache in (None, tmp_path / "cache"):
        with pytest.raises(DataError, match=r"corpus.jsonl:2501: _id 'd3é' is repeated, first at"):
            load(folder, cache)


def test_small_ones_are_not_kept(folder, tmp_path):
    (folder / "corpus.jsonl").write_text('{"_id": "d7é", "text": "fox"}\n', encoding="utf-8")

    assert load(folder, tmp_path / "cache").documents == [Document("d7é", "fox")]
    assert not (tmp_path / "cache").exists()


@pytest.mark.costly
def test_trec_documents_of_several_files(tmp_path):
    corpus = tmp_path / "docs"
    corpus.mkdir()
    for name, n, length in (("a.sgml", 1000, 200), ("b.sgml.gz", 10, 20)):
        documents = (
            f"<DOC>\n<DOCNO> {name}-{i} </DOCNO>\n<TEXT>{words(i, length)}</TEXT>\n</DOC>\n"
            for i in range(n)
        )
        data = "".join(documents).encode()
        (corpus / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "qrels").write_text("1 0 a.sgml-1 1\n")
    (tmp_path / "topics").write_text("1\tfox\n")
    options = {name: tmp_path / name for name in ("qrels", "topics")} | {"corpus": corpus}

    plain = load(None, loader=Trec, **options)
    packed = load(None, tmp_path / "cache", loader=Trec, **options)

    assert isinstance(packed.documents, PackedDocuments)
    assert list(packed.documents) == plain.documents
    assert len(plain.documents) == 1010
    assert packed.fingerprints == plain.fingerprints


def held(made):
    """Bytes that are held of what was made, and the data set."""
    gc.collect()
    tracemalloc.start()
    found = made.load()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size, found


def passed():
    """A data set whose documents come one by one: 1.3 MB, as 1 MiB and more are kept in files."""
    documents = ({"id": f"d{n}", "text": f"{n} cats. " * 100} for n in range(1_300))
    return {"queries": [{"id": "q1", "text": "cats"}], "documents": documents}


@pytest.mark.costly
def test_many_documents_of_other_loaders_are_not_held(tmp_path):
    """Of texts of 900 bytes their ids are in memory; `huggingface` packs with the same method."""
    corpus, rows = tmp_path / "corpus.jsonl", tmp_path / "rows.jsonl"
    corpus.write_text("\n".join(map(json.dumps, passed()["documents"])))
    rows.write_text('{"id": "q1", "question": "cats?", "relevant": ["d7"], "reference": "7"}\n')
    made = Records(path=rows, corpus=corpus)
    assert HuggingFace.load_packed is Records.load_packed
    plain = made.load()
    made.arrays = ArrayStore(tmp_path / "cache")
    made.load()

    size, found = held(made)

    assert isinstance(found.documents, PackedDocuments)
    assert list(found.documents) == plain.documents
    assert (found.notes, found.fingerprints) == (plain.notes, plain.fingerprints)
    assert size / len(found.documents) < 450, "more than 1,100 where texts were held"


def test_a_corpus_that_cannot_be_opened_is_named(folder, tmp_path, monkeypatch):
    open_file = builtins.open

    def refuse(file, *arguments, **options):
        if str(file).endswith("corpus.jsonl"):
            raise PermissionError(13, "Permission denied")
        return open_file(file, *arguments, **options)

    for module in (builtins, io):
        monkeypatch.setattr(module, "open", refuse)
    with pytest.raises(DataError, match=r"corpus\.jsonl: cannot be read: Permission denied"):
        load(folder, tmp_path / "cache")
