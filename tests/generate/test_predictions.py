"""Stored answers, by query id or by question."""

import pytest

from ragbench.generate.base import MissingPrediction
from ragbench.generate.predictions import Predictions
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
