"""Queries from JSON lines, tab-separated lines and TREC topics."""

import pytest

from ragbench.data.files.collection import read_queries, read_topics
from ragbench.types import Query

# the form of the TREC ad hoc topics, with made-up content; the second closes its tags
TOPICS = """
<top>

<num> Number: 301
<title> Tidal mills

<desc> Description:
How were tidal mills
built?

<narr> Narrative:
Any region counts.
</top>
<top><num>302</num><title>Topic: Salt: its trade</title>
<desc>Who traded salt?</desc></top>
"""


def test_trec_topics(write):
    first, second = read_topics(write("topics.txt", TOPICS))

    assert first == Query(
        "301",
        "Tidal mills",
        {"description": "How were tidal mills built?", "narrative": "Any region counts."},
    )
    assert second == Query("302", "Salt: its trade", {"description": "Who traded salt?"})


def test_a_part_that_stands_twice_is_one_text(write):
    raw = "<top>\n<num>1<title>Salt: </title> no part <title>its trade</title>\n</top>\n"

    assert read_topics(write("topics.txt", raw)) == [Query("1", "Salt: its trade")]


def test_another_part_of_the_topic(write, problem):
    path = write("topics.txt", TOPICS)

    assert [query.text for query in read_topics(path, "description")] == [
        "How were tidal mills built?",
        "Who traded salt?",
    ]
    assert problem(lambda: read_topics(path, "narrative")) == (
        "topics.txt:14: topic '302' has no narrative"
    )


def test_tabbed_topics_whatever_the_field(write):
    path = write("topics.tsv", "\ufeff1\tfirst  query\r\n\r\n2\tthe\tsecond\r\n")

    assert read_topics(path, "description") == [
        Query("1", "first  query"),
        Query("2", "the\tsecond"),
    ]


def test_json_topics(write):
    path = write("topics.jsonl.gz", [{"_id": 1, "text": "one", "lang": "en"}])

    assert read_topics(path) == [Query("1", "one", {"lang": "en"})]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("1\tone\n2 two\n", "topics:2: no tab: '2 two'; allowed: id<TAB>text"),
        ("1\tone\n2\t\n", "topics:2: no tab: '2'; allowed: id<TAB>text"),
        ("1\tone\n1\ttwo\n", "topics:2: topic '1' is repeated, first at line 1"),
        ("1 2\tone\n", "topics:1: 'num' holds white space: '1 2'; allowed: an id"),
        ("<top>\n<num> 1\n<title> t\n", "topics:1: <top> is not closed"),
        ("<top>\n<num> 1\n<top>\n", "topics:1: <top> is not closed"),
        ("<top>\n<title> t\n</top>", "topics:1: no 'num' (keys: title)"),
        ("<top>\n<num> 1\n</top>", "topics:1: topic '1' has no title"),
        ("<xml>\n</xml>", "topics: no topics; allowed: <top> ... </top>, or id<TAB>text lines"),
        ("\n\n", "topics: no topics; allowed: <top> ... </top>, or id<TAB>text lines"),
    ],
)
def test_bad_topics_are_named(write, problem, raw, expected):
    path = write("topics", raw)

    assert problem(lambda: read_topics(path)).startswith(expected)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"_id": "q1", "text": "again"}, "_id 'q1' is repeated, first at line 1"),
        ({"_id": "q2", "text": " "}, "query 'q2' has an empty text"),
        ({"_id": "q2", "text": ["a"]}, "'text' is a list; allowed: text"),
    ],
)
def test_bad_queries_are_named(write, problem, fields, expected):
    path = write("queries.jsonl", [{"_id": "q1", "text": "t"}, fields])

    assert problem(lambda: read_queries(path)) == f"queries.jsonl:2: {expected}"
