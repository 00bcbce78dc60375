"""Whatever stands in a file: it is read, or a `DataError` names it; nothing else is raised."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files.answer_judgements import read_assignments, read_support
from ragbench.data.files.collection import read_topics
from ragbench.data.files.predictions import read_predictions
from ragbench.data.files.trec_files import read_qrels, read_run
from ragbench.data.loaders.beir import Beir
from ragbench.data.loaders.records import Records
from ragbench.data.loaders.trec import read_trec_corpus
from ragbench.data.loaders.trec_rag import TrecRag
from ragbench.errors import DataError

# pieces of the formats in any order, so that files get past their first line
pieces = st.one_of(
    st.sampled_from(
        [b"\n", b"\r\n", b"\t", b" ", b",", b'"', b"\0", b"\xff", b"#", b"nan", b"null}"]
    ),
    st.sampled_from([b'{"_id": "a", "text": "t"}', b'{"question": "q", "answer": 1}', b'{"id": ']),
    st.sampled_from([b"question,answer\n", b"query-id\tcorpus-id\tscore\n", b"a\ta\t1\n"]),
    st.sampled_from(
        [b"q Q0 d 1 0.5 t\n", b"q 0 d 1\n", b"<DOC>\n", b"<DOCNO>a</DOCNO>", b"\n</DOC>\n"]
    ),
    st.sampled_from(
        [
            b'{"run_id": "r", "topic_id": "t", "topic": "?", "references": ["d"], "answer": []}',
            b'{"run_id": "r", "topic_id": "t", "sentences": [{"citations": [{"support": 2}]}]}',
            b'{"run_id": "r", "qid": "t", "nuggets": [{"text": "a", "importance": "vital"}]}',
        ]
    ),
    st.sampled_from([b"<top>", b"<num>", b"<title>", b"</top>"]),
)
contents = st.binary(max_size=30) | st.lists(pieces, max_size=8).map(b"".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "qrels").mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "t"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "a", "text": "t"}\n')
    return folder


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("run", read_run),
        ("qrels.txt", read_qrels),
        ("topics", read_topics),
        ("docs.sgml", lambda path: list(read_trec_corpus(path))),
        ("p.jsonl", read_predictions),
        ("p.csv", read_predictions),
        ("r.jsonl", lambda path: Records(path=path).load()),
        ("r.csv", lambda path: Records(path=path).load()),
        ("r.csv.gz", lambda path: Records(path=path).load()),
        ("a.jsonl", lambda path: TrecRag(answers=path).load()),
        ("s.jsonl", lambda path: read_support([path])),
        ("n.jsonl", lambda path: read_assignments([path])),
        ("qrels/test.tsv", lambda path: Beir(path=path.parent.parent).load()),
    ],
)
@settings(max_examples=15)
@given(content=contents)
def test_read_or_named(folder, name, read, content):
    path = folder / name
    path.write_bytes(content)

    try:
        read(path)
    except DataError as error:
        assert str(path) in str(error)  # noqa: PT017 - many contents are fine
