"""Stored answers, by query id or by question."""

import pytest

from ragbench.errors import DataError, OptionError
from ragbench.generate.base import MissingPrediction
from ragbench.generate.predictions import Predictions
from ragbench.registry import check_repeat
from ragbench.types import Query


def test_answers_by_id_and_by_question(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(
        '{"query_id": "q1", "answer": "by id"}\n'
        '{"question": "Why?", "answer": "by text", "contexts": ["passage"]}\n'
        '{"query_id": "q3", "answer": null}\n'
        '{"query_id": "q4", "answer": ""}\n'
    )
    generator = Predictions(path=path)

    assert generator.generate_for(Query("q1", "x"), []).answer == "by id"
    assert generator.generate_for(Query("q1", "x"), []).contexts is None
    by_text = generator.generate_for(Query("q2", "Why?"), [])
    assert by_text.answer == "by text"
    assert [document.text for document in by_text.contexts] == ["passage"]
    assert generator.generate_for(Query("q4", ""), []).answer == "", "empty is an answer"
    for query in (Query("q3", "x"), Query("q9", "x")):
        with pytest.raises(MissingPrediction):
            generator.generate_for(query, [])


def test_several_answers_to_a_query_are_numbered(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("query_id,sample,answer\nq1,1,second\nq1,0,first\nq2,0,only\n")
    generator = Predictions(path=path)

    assert generator.generate_for(Query("q1", "x"), []).answer == "first"
    assert generator.generate_sample(Query("q1", "x"), [], 1).answer == "second"
    with pytest.raises(MissingPrediction):
        generator.generate_sample(Query("q2", "x"), [], 1)
    assert generator.n_stored == 2
    with pytest.raises(OptionError, match="predictions: repeat"):
        check_repeat(generator, 2)


def test_a_column_sample_of_other_meaning_is_left_alone(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"query_id": "q1", "sample": "blue", "answer": "a"}\n')

    assert Predictions(path=path).generate_for(Query("q1", "x"), []).answer == "a"


def test_questions_meet_whatever_their_case_and_spaces(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text('question,answer\n"Why  not ",a\nHow?,b\nhow?,c\n')
    generator = Predictions(path=path)

    assert generator.generate_for(Query("q1", "why not"), []).answer == "a"
    assert generator.generate_for(Query("q2", "how?"), []).answer == "c"
    assert not generator.has_answer(Query("q3", "HOW?")), "two rows have other answers"


def test_a_row_with_the_id_of_another_query_is_refused(tmp_path, assert_message):
    # Bug: ids of two numberings met, and each query got the answer to another one
    path = tmp_path / "p.jsonl"
    path.write_text(
        '{"id": 0, "question": "Why?", "answer": "a"}\n'
        '{"id": 1, "question": "How?", "answer": "b"}\n'
    )
    generator = Predictions(path=path)

    assert generator.has_answer(Query("1", "How so?")), "a question may be worded anew"
    assert not generator.has_answer(Query("2", "How so?"))
    with pytest.raises(DataError) as caught:
        generator.has_answer(Query("1", "why?"))
    assert_message(caught.value, "TMP/p.jsonl")
