"""Columns and their parts, and the cases in which a reader has to name them."""

import pytest

from ragbench.data.files.column_contents import ColumnContents
from ragbench.data.files.columns import check_mapping, resolve_columns
from ragbench.data.files.gold import DocumentNames
from ragbench.data.files.rows import Entry
from ragbench.errors import OptionError
from ragbench.types import Document


@pytest.mark.parametrize(
    ("present", "columns", "expected"),
    [
        pytest.param(
            ["id", "question", "contexts", "answer", "reference", "queries", "system"],
            None,
            {
                name: name
                for name in [
                    "id",
                    "question",
                    "contexts",
                    "answer",
                    "reference",
                    "queries",
                    "system",
                ]
            },
            id="ours",
        ),
        pytest.param(
            ["user_input", "response", "retrieved_contexts", "reference"],
            None,
            {
                "question": "user_input",
                "contexts": "retrieved_contexts",
                "answer": "response",
                "reference": "reference",
            },
            id="ragas",
        ),
        pytest.param(
            ["input", "actual_output", "expected_output", "retrieval_context"],
            {},
            {
                "question": "input",
                "contexts": "retrieval_context",
                "answer": "actual_output",
                "reference": "expected_output",
            },
            id="deepeval",
        ),
        pytest.param(
            ["question", "answer"],
            {"reference": "answer"},
            {"question": "question", "reference": "answer"},
            id="gold",
        ),
        pytest.param(
            ["question", "answer"],
            {"answer": "answer"},
            {"question": "question", "answer": "answer"},
            id="generated",
        ),
        pytest.param(
            ["question", "answer", "contexts"],
            None,
            {"question": "question", "contexts": "contexts", "answer": "answer"},
            id="contexts show that a system answered",
        ),
        pytest.param(
            ["question", "answer", "system"],
            None,
            {"question": "question", "answer": "answer", "system": "system"},
            id="so does the name of a system",
        ),
        pytest.param(
            ["question", "response"],
            None,
            {"question": "question", "answer": "response"},
            id="response is never gold",
        ),
        pytest.param(
            ["q", "id", "question"],
            {"question": "q", "id": None},
            {"question": "q"},
            id="null switches a part off",
        ),
        pytest.param(
            ["QID", "Prompt", "Gold Answer", "x"],
            None,
            {"id": "QID", "question": "Prompt", "reference": "Gold Answer"},
            id="likely names, however they are written",
        ),
        pytest.param(
            ["query", "question", "ground_truth", "reference"],
            None,
            {"question": "question", "reference": "reference"},
            id="sure names come first",
        ),
        pytest.param(
            ["input", "expected_output", "context", "retrieval_context", "actual_output"],
            None,
            {
                "question": "input",
                "contexts": "retrieval_context",
                "answer": "actual_output",
                "reference": "expected_output",
                "reference_contexts": "context",
            },
            id="a context beside retrieved ones is gold",
        ),
        pytest.param(
            ["question", "context", "answers"],
            None,
            {"question": "question", "reference": "answers", "reference_contexts": "context"},
            id="a context that no system answered from is gold",
        ),
        pytest.param(
            ["question", "context", "response"],
            None,
            {"question": "question", "contexts": "context", "answer": "response"},
            id="a context beside a response was retrieved",
        ),
        pytest.param(
            ["question", "source_doc", "grades", "source", "reference"],
            None,
            {
                "question": "question",
                "reference": "reference",
                "relevant": "source_doc",
                "grades": "grades",
            },
            id="gold documents",
        ),
        pytest.param(
            ["question", "source", "grades"],
            None,
            {"question": "question"},
            id="what only may be gold is not, without a corpus that knows it",
        ),
        pytest.param(
            ["question", "input"], {"question": "input"}, {"question": "input"}, id="told which"
        ),
    ],
)
def test_resolved(present, columns, expected):
    assert resolve_columns(present, columns, "logs.csv") == expected


@pytest.mark.parametrize(
    ("present", "columns", "place"),
    [
        (
            ["question", "answer"],
            None,
            "logs.csv",
        ),
        (
            ["prompt", "id", "answer"],
            {"question": "prompt"},
            "logs.csv",
        ),
        (
            ["question", "gold"],
            {"reference": "glod"},
            "logs.csv: columns.reference",
        ),
        (
            ["question", "user_input"],
            None,
            "logs.csv",
        ),
        (
            ["ask", "answer"],
            None,
            "logs.csv",
        ),
        (
            ["question", "gold", "target"],
            None,
            "logs.csv",
        ),
        (
            ["question", "answer", "context"],
            None,
            "logs.csv",
        ),
    ],
)
def test_refused(problem, present, columns, place, assert_message):
    assert_message(problem(lambda: resolve_columns(present, columns, "logs.csv")), place)


@pytest.mark.parametrize(
    ("columns", "place"),
    [
        # not a part of a record
        (
            {"context": "passages"},
            "records: columns",
        ),
        # one column for two parts
        (
            {"answer": "text", "reference": "text"},
            "records: columns.reference",
        ),
        (
            {"relevant": ["a", "b"]},
            "records: columns.relevant",
        ),
        ({"answer": 3}, "records: columns.answer"),
    ],
)
def test_bad_mappings_say_what_is_allowed(columns, place, assert_message):
    with pytest.raises(OptionError) as caught:
        check_mapping(columns, "records")

    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("cells", "corpus", "part"),
    [
        (["c1", "doc-2"], None, "relevant"),
        (["docs/a.md", "b.pdf"], None, "relevant"),
        (["5", "3"], None, ""),
        (["Guide", "Sports"], None, ""),
        (["c1", "doc-2"], ["x"], ""),
        (["c1", "c7"], ["c1"], "relevant"),
        (["Io is hot and dry.", "It is cold there."], None, "reference"),
    ],
)
def test_cells_alone_tell_the_part_of_a_column(cells, corpus, part):
    entries = [Entry("qa.csv", n, {"column": cell}) for n, cell in enumerate(cells, start=2)]
    names = None if corpus is None else DocumentNames([Document(name, "") for name in corpus])

    contents = ColumnContents(entries, names)
    assert contents.likely_part("column") == part
    assert contents.likely_part("column", ["question", part]) == ""


@pytest.mark.parametrize(
    ("column", "part"),
    [
        ("passage", "contexts"),
        ("gold_snippet", "reference_contexts"),
        ("bot reply", "answer"),
        ("correctReply", "reference"),
        ("human answer", "reference"),
        ("expert_answer", "reference"),
        ("verifiedAnswer", "reference"),
        ("right answer", "reference"),
        ("manual_answer", "reference"),
        ("annotator answer", "reference"),
        ("gold reply", "reference"),
        ("answer key", "reference"),
        ("verified llm answer", "answer"),
        ("comment", "reference"),  # nothing but the cells
    ],
)
def test_a_word_tells_the_part_of_a_column_of_texts(column, part):
    texts = ["Io is hot and dry.", "It is cold there."]
    entries = [Entry("qa.csv", n, {column: text}) for n, text in enumerate(texts, start=2)]

    assert ColumnContents(entries, None).likely_part(column, {"question"}) == part
