"""TREC collections: qrels, topics and documents together."""

import pytest

from ragbench.data.loaders.trec import Trec, read_trec_corpus
from ragbench.types import Document, Query

CORPUS = b"""<DOC>
<DOCNO> AB-1 </DOCNO>
<HEADLINE>
Salt &amp; sea
</HEADLINE>
<TEXT>
<P>First part.</P>
</TEXT>
<DATE>unread</DATE>
<TEXT>Second part.</TEXT>
</DOC>

<doc>
<docno>\xff2</docno>
Body with caf\xe9 and 1 < 2.
</doc>
"""


@pytest.fixture
def files(write):
    return {
        "qrels": write("qrels.txt", b"1 0 AB-1 1\n1 0 \xff2 0\n2 0 AB-1 -1\n"),
        "topics": write("topics.tsv", "1\tsalt\n2\tsea\n3\tunjudged\n"),
        "corpus": write("docs/ab.sgml.gz", CORPUS).parent,
    }


def test_a_collection(files, assert_message):
    collection = Trec(**files).load()

    assert collection.queries == [Query("1", "salt"), Query("2", "sea")]
    assert collection.documents == [
        Document("AB-1", "First part.\nSecond part.", "Salt & sea"),
        Document("\udcff2", "Body with caf\ufffd and 1 < 2."),
    ]
    assert collection.qrels is not None
    assert collection.qrels.to_dict() == {"1": {"AB-1": 1, "\udcff2": 0}, "2": {"AB-1": -1}}
    assert_message(collection.notes)
    assert set(collection.fingerprints) == {"queries", "corpus", "qrels"}


def test_the_chosen_part_of_a_topic_is_its_query(files, write):
    topic = "<top><num>{0}<title>t{0}<desc>Description: d{0}</top>\n"
    files["topics"] = write("topics.txt", topic.format(1) + topic.format(2))

    queries = Trec(**files, field="description").load().queries

    assert [query.text for query in queries] == ["d1", "d2"]


def test_hidden_files_and_folders_hold_no_documents(files, write):
    write("docs/.ab.sgml", "text outside of a document")
    write("docs/.git/HEAD", "text outside of a document")

    assert len(Trec(**files).load().documents) == 2


def test_no_corpus_and_a_random_split(files, assert_message):
    del files["corpus"]
    collection = Trec(**files, split={"test": 0.5}).load()

    assert collection.documents is None
    assert len(collection.queries) == 1
    assert_message(collection.notes[0])


def test_subtopics_as_iterations(files, write, assert_message):
    files["qrels"] = write("diversity.txt", "1 1 AB-1 0\n1 2 AB-1 1\n")

    assert_message(Trec(**files).load().notes[-1])


def test_json_corpus_is_the_same_corpus(files, write):
    rows = [{"_id": "AB-1", "title": "Salt & sea", "text": "First part.\nSecond part."}]
    write("docs/ab.sgml.gz", CORPUS[: CORPUS.index(b"<doc>")])
    files["qrels"] = write("qrels.txt", "1 0 AB-1 1\n")
    sgml = Trec(**files).load()

    files["corpus"] = write("corpus.jsonl", rows)

    assert Trec(**files).load().fingerprints == sgml.fingerprints


@pytest.mark.parametrize(
    ("qrels", "place"),
    [
        ("1 0 AB-1 1\n30 0 AB-1 1\n", "qrels.txt:2"),  # no such topic
        ("1 0 AB-1 x\n", "qrels.txt:1"),  # a word
    ],
)
def test_bad_references_are_named(files, write, problem, qrels, place, assert_message):
    files["qrels"] = write("qrels.txt", qrels)

    assert_message(problem(lambda: Trec(**files).load()), place)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("<DOC>\n<TEXT>x</TEXT>\n</DOC>\n", ""),
        ("<DOC>\n<DOCNO>a b</DOCNO>\n</DOC>\n", ""),  # a blank in an id
        ("\n<DOC>\n<DOCNO>a</DOCNO>\n", ""),  # the file ends first
        ("<DOC>\n<DOC>\n", ""),
        ("stray\n", ""),
        ("\n", "a.sgml"),
        (
            "<DOC>\n<DOCNO>a</DOCNO>\n</DOC>\n" * 2,
            "",
        ),
    ],
)
def test_bad_documents_are_named(write, problem, raw, place, assert_message):
    path = write("a.sgml", raw)

    assert_message(problem(lambda: list(read_trec_corpus(path))), place)


def test_a_number_repeated_in_another_file(write, problem, assert_message):
    write("docs/a", "<DOC>\n<DOCNO>x</DOCNO>\n</DOC>\n")
    path = write("docs/b", "<DOC>\n<DOCNO>x</DOCNO>\n</DOC>\n").parent

    assert_message(problem(lambda: list(read_trec_corpus(path))))
