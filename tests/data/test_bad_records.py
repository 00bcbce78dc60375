"""Records that are refused, each with its file, line and what would be right."""

import pytest

from ragbench.data.loaders.records import Records


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"id": "b", "question": ""}, "no question in column 'question'"),
        ({"id": "b"}, "no question in column 'question'"),
        ({"id": "b", "question": ["x"]}, "column 'question' is a list; allowed: text"),
        ({"question": "x"}, "no 'id' (keys: question)"),
        ({"id": "b c", "question": "x"}, "'id' holds white space: 'b c'; allowed: an id without"),
        (
            {"id": "a", "question": "Who?"},
            "question 'a' is repeated, first at line 1: 'Who?'; allowed: one row per question",
        ),
        (
            {"id": "b", "question": "x", "answer": 1.5},
            "column 'answer' is a number; allowed: text, such as '1.5'",
        ),
        (
            {"id": "b", "question": "x", "contexts": ["p", ["t", ["s"]]]},
            "column 'contexts': passage 2 is a list; allowed: text, or an object with id and text",
        ),
        (
            {"id": "b", "question": "x", "contexts": [{"id": "p"}]},
            "column 'contexts': passage 1 has no text; allowed: text, or the id of a document",
        ),
        (
            {"id": "b", "question": "x", "contexts": [{"id": [], "text": "t"}]},
            "column 'contexts': passage 1: 'id' is []; allowed: text or an integer",
        ),
        (
            {"id": "b", "question": "x", "contexts": [{"text": 5}]},
            "column 'contexts': passage 1: 'text' is an integer; allowed: text",
        ),
        (
            {"id": "b", "question": "x", "reference": [None]},
            "column 'reference': item 1 is null; allowed: text, or an object with text",
        ),
    ],
)
def test_bad_records_are_named(write, problem, row, expected):
    first = {"id": "a", "question": "Who?", "contexts": ["p"], "answer": "x", "reference": "r"}
    path = write("a.jsonl", [first, row])

    assert problem(lambda: Records(path=path).load()).startswith(f"a.jsonl:2: {expected}")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"question": "b?", "answer": "x"}, "no system in column 'system'"),
        (
            {"id": "a", "question": "a?", "system": "s/1", "answer": "x"},
            "question 'a' of system 's/1' is repeated, first at line 1: 'a?'",
        ),
        (
            {"id": "a", "question": "a?", "system": "s 1", "answer": "x"},
            "systems 's 1' and 's/1' would both be named 's-1'",
        ),
        (
            {"id": "a", "question": "other?", "system": "t", "answer": "x"},
            "'a' has another question at line 1",
        ),
        (
            {"id": "a", "question": "a?", "system": "t", "reference": "s", "answer": "x"},
            "'a' has another reference at line 1",
        ),
    ],
)
def test_systems_that_contradict_each_other(write, problem, row, expected):
    first = {"id": "a", "question": "a?", "system": "s/1", "reference": "r", "answer": "x"}
    path = write("a.jsonl", [first, {"id": "b", **row}])

    assert problem(lambda: Records(path=path).load()).startswith(f"a.jsonl:2: {expected}")


def test_a_printed_list_in_a_csv_cell(write, problem):
    path = write("a.csv", "question,contexts\n\"Who\nis it?\",\"['p' \n 'q, r']\"\n")
    [answered] = Records(path=path).load().recorded_answers["given"]
    assert [context.text for context in answered.contexts] == ["p", "q, r"]

    write("a.csv", "question,contexts\n\"Who\nis it?\",['p'\n")
    assert problem(lambda: Records(path=path).load()) == (
        "a.csv:2: column 'contexts': bad JSON at column 2: Expecting value; "
        'allowed: a list in a cell is JSON: ["first", "second"]'
    )


def test_numbers_in_a_csv_cell(write, problem):
    path = write("a.csv", 'question,reference\nWhere?,"[0, 1]"\nThen?,"[""[0, 1]"", ""x""]"\n')

    assert problem(lambda: Records(path=path).load()) == (
        "a.csv:2: column 'reference': item 1 is an integer; allowed: text, or an object with text"
    )
    write("a.csv", 'question,reference\nThen?,"[""[0, 1]"", ""x""]"\n')
    assert list(Records(path=path).load().answers.values()) == [["[0, 1]", "x"]]


def test_formulated_queries_alone_are_a_system(write):
    path = write("a.jsonl", [{"question": "Who?", "queries": ["who"]}])

    [answered] = Records(path=path).load().recorded_answers["given"]

    assert (answered.queries, answered.answer, answered.contexts) == (["who"], None, None)


def test_gold_or_generated(write, problem):
    path = write("a.jsonl.gz", [{"question": "Who?", "answer": "Me"}])

    text = problem(lambda: Records(path=path).load())
    assert "gold or generated" in text
    assert "reference: answer" in text
    assert Records(path=path, columns={"reference": "answer"}).load().recorded_answers == {}
    assert Records(path=path, columns={"answer": "answer"}).load().answers == {}
