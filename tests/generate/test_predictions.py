"""Stored answers, by query id or by question."""

import pytest

from ragbench.errors import OptionError
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
