"""Which column plays which part, and when a reader must be told."""

import pytest

from ragbench.data.files.columns import check_mapping, resolve_columns
from ragbench.errors import OptionError


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
    ("present", "columns", "expected"),
    [
        (
            ["question", "answer"],
            None,
            "logs.csv: cannot tell whether the column 'answer' is gold or generated; "
            "allowed: columns: {question: question, reference: answer} where it is gold, "
            "columns: {question: question, answer: answer} where a system wrote it",
        ),
        (
            ["prompt", "id", "answer"],
            {"question": "prompt"},
            "logs.csv: cannot tell whether the column 'answer' is gold or generated; "
            "allowed: columns: {question: prompt, reference: answer} where it is gold, "
            "columns: {question: prompt, answer: answer} where a system wrote it",
        ),
        (
            ["question", "gold"],
            {"reference": "glod"},
            "logs.csv: columns.reference: no column 'glod' (columns: question, gold); "
            "did you mean 'gold'?",
        ),
        (
            ["question", "user_input"],
            None,
            "logs.csv: columns 'question' and 'user_input' could both be the question; "
            "allowed: one of them: columns: {question: question} or "
            "columns: {question: user_input}",
        ),
        (
            ["ask", "answer"],
            None,
            "logs.csv: no column with the question (columns: ask, answer); "
            "allowed: one of question, user_input, input, query, or columns: {question: NAME} "
            "(with ragbench init: --column question=NAME)",
        ),
        (
            ["question", "gold", "target"],
            None,
            "logs.csv: columns 'gold' and 'target' could both be the reference; "
            "allowed: one of them: columns: {reference: gold} or columns: {reference: target}",
        ),
        (
            ["question", "answer", "context"],
            None,
            "logs.csv: cannot tell whether the column 'answer' is gold or generated; "
            "allowed: columns: {question: question, reference: answer} where it is gold, "
            "columns: {question: question, answer: answer} where a system wrote it",
        ),
    ],
)
def test_refused(problem, present, columns, expected):
    assert problem(lambda: resolve_columns(present, columns, "logs.csv")) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"context": "passages"},
            "columns: found 'context', allowed: id, question, contexts, retrieved, answer, "
            "reference, ... (12 more); did you mean 'contexts'?",
        ),
        (
            {"answer": "text", "reference": "text"},
            "columns.reference: found 'text', allowed: another column than that of answer",
        ),
        (
            {"relevant": ["a", "b"]},
            "columns.relevant: found ['a', 'b'], allowed: the name of a column, or null",
        ),
        ({"answer": 3}, "columns.answer: found 3, allowed: the name of a column, or null"),
    ],
)
def test_bad_mappings_say_what_is_allowed(columns, expected):
    with pytest.raises(OptionError) as caught:
        check_mapping(columns, "records")

    assert str(caught.value) == f"records: {expected}"
