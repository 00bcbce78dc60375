"""Records that are refused, each with its file, line and what would be right."""

import pytest

from ragbench.data.loaders.records import Records


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"id": "b", "question": ""}, "a.jsonl:2"),  # an empty question
        ({"id": "b"}, "a.jsonl:2"),  # no question at all
        ({"id": "b", "question": ["x"]}, "a.jsonl:2"),  # a question is one text
        ({"question": "x"}, "a.jsonl:2"),
        ({"id": "b c", "question": "x"}, "a.jsonl:2"),  # run files separate by blanks
        (
            {"id": "a", "question": "Who?"},
            "a.jsonl:2",
        ),
        (
            {"id": "b", "question": "x", "answer": 1.5},
            "a.jsonl:2",
        ),
        # a list in a list
        (
            {"id": "b", "question": "x", "contexts": ["p", ["t", ["s"]]]},
            "a.jsonl:2: column 'contexts'",
        ),
        (
            {"id": "b", "question": "x", "contexts": [{"id": "p"}]},
            "a.jsonl:2: column 'contexts'",
        ),
        (
            {"id": "b", "question": "x", "contexts": [{"id": [], "text": "t"}]},
            "a.jsonl:2: column 'contexts'",
        ),
        (
            {"id": "b", "question": "x", "contexts": [{"text": 5}]},
            "a.jsonl:2: column 'contexts'",
        ),
        (
            {"id": "b", "question": "x", "reference": [None]},
            "a.jsonl:2: column 'reference'",
        ),
    ],
)
def test_bad_records_are_named(write, problem, row, place, assert_message):
    first = {"id": "a", "question": "Who?", "contexts": ["p"], "answer": "x", "reference": "r"}
    path = write("a.jsonl", [first, row])

    assert_message(problem(lambda: Records(path=path).load()), place)


@pytest.mark.parametrize(
    "row",
    [
        {"question": "b?", "answer": "x"},
        # a system answers a question once
        {"id": "a", "question": "a?", "system": "s/1", "answer": "x"},
        # two names for one file of predictions
        {"id": "a", "question": "a?", "system": "s 1", "answer": "x"},
        {"id": "a", "question": "other?", "system": "t", "answer": "x"},  # one id, two questions
        # one question, two gold answers
        {"id": "a", "question": "a?", "system": "t", "reference": "s", "answer": "x"},
    ],
)
def test_systems_that_contradict_each_other(write, problem, row, assert_message):
    first = {"id": "a", "question": "a?", "system": "s/1", "reference": "r", "answer": "x"}
    path = write("a.jsonl", [first, {"id": "b", **row}])

    assert_message(problem(lambda: Records(path=path).load()), "a.jsonl:2")


def test_a_printed_list_in_a_csv_cell(write, problem, assert_message):
    path = write("a.csv", "question,contexts\n\"Who\nis it?\",\"['p' \n 'q, r']\"\n")
    [answered] = Records(path=path).load().recorded_answers["given"]
    assert [context.text for context in answered.contexts] == ["p", "q, r"]

    write("a.csv", "question,contexts\n\"Who\nis it?\",['p'\n")
    assert_message(problem(lambda: Records(path=path).load()), "a.csv:2: column 'contexts'")


def test_numbers_in_a_csv_cell(write, problem, assert_message):
    path = write("a.csv", 'question,reference\nWhere?,"[0, 1]"\nThen?,"[""[0, 1]"", ""x""]"\n')

    assert_message(problem(lambda: Records(path=path).load()), "a.csv:2: column 'reference'")
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
