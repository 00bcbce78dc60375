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


def test_another_part_of_the_topic(write, problem, assert_message):
    path = write("topics.txt", TOPICS)

    assert [query.text for query in read_topics(path, "description")] == [
        "How were tidal mills built?",
        "Who traded salt?",
    ]
    assert_message(problem(lambda: read_topics(path, "narrative")), "topics.txt:14")


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
    "raw",
    [
        "1\tone\n2 two\n",  # a blank for the tab
        "1\tone\n2\t\n",
        "1\tone\n1\ttwo\n",
        "1 2\tone\n",
        "<top>\n<num> 1\n<title> t\n",  # not closed
        "<top>\n<num> 1\n<top>\n",
        "<top>\n<title> t\n</top>",
        "<top>\n<num> 1\n</top>",
        "<xml>\n</xml>",
        "\n\n",
    ],
)
def test_bad_topics_are_named(write, problem, raw, assert_message):
    path = write("topics", raw)

    assert_message(problem(lambda: read_topics(path)))


@pytest.mark.parametrize(
    "fields",
    [
        {"_id": "q1", "text": "again"},
        {"_id": "q2", "text": " "},
        {"_id": "q2", "text": ["a"]},
    ],
)
def test_bad_queries_are_named(write, problem, fields, assert_message):
    path = write("queries.jsonl", [{"_id": "q1", "text": "t"}, fields])

    assert_message(problem(lambda: read_queries(path)), "queries.jsonl:2")
