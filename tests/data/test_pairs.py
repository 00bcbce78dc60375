"""Pairs of answers as a data set: the forms of LLMBar, MT-bench and one's own."""

import json

import pytest

from ragbench.data.loaders.pairs import Pairs, read_pairs
from ragbench.errors import DataError, RagbenchError


@pytest.fixture
def write(tmp_path):
    def to(rows, name="pairs.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return to


def test_a_file_without_systems_is_two(write):
    rows = [{"instruction": "Say 1.", "output_1": "one", "output_2": "two", "label": 1}]

    collection = Pairs(path=write(rows)).load()

    assert [query.text for query in collection.queries] == ["Say 1."]
    answers = {name: [each.answer for each in of] for name, of in collection.given.items()}
    assert answers == {"answer_1": ["one"], "answer_2": ["two"]}


def test_turns_of_a_conversation_are_questions_of_their_own(write):
    def talk(*texts):
        roles = ("user", "assistant") * 2
        return [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)]

    row = {
        "question_id": 7,
        "model_a": "a",
        "model_b": "b",
        "winner": "tie (inconsistent)",
        "judge": "anna",
        "conversation_a": talk("Hi.", "A one.", "More?", "A two."),
        "conversation_b": talk("Hi.", "B one.", "More?", "B two."),
    }

    first, second = read_pairs(write([{**row, "turn": 1}, {**row, "turn": 2}]))

    assert (first.query_id, first.question, first.answers) == ("7", "Hi.", ("A one.", "B one."))
    assert (second.query_id, second.question) == ("7-turn2", "Hi.\n\nMore?")
    assert second.answers == ("A one.\n\nA two.", "B one.\n\nB two.")


OWN = {"id": 1, "question": "?", "answer_1": "a", "answer_2": "b"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "?", "winner": 1}], "no pair of answers (columns: question, winner)"),
        ([{**OWN, "system_1": "a", "system_2": "a"}], "both answers are of 'a'"),
        ([{**OWN, "answer_1": None}], "no question or no answer"),
        ([OWN, {**OWN, "answer_1": "x"}], "'1' of 'answer_1' has another answer in an earlier row"),
        ([OWN, {**OWN, "question": "!"}], "'1' has another question in an earlier row"),
        ([{**OWN, "answer_1": [{"role": "x"}]}], "a conversation with {'role': 'x'}"),
        ([{**OWN, "answer_1": True}], "answer: True"),
    ],
)
def test_mistakes_say_where(write, rows, message):
    with pytest.raises(DataError) as caught:
        Pairs(path=write(rows)).load()
    assert message in str(caught.value)


def test_an_unknown_part_is_refused(write):
    with pytest.raises(RagbenchError, match="did you mean 'system_1'"):
        read_pairs(write([OWN]), {"sistem_1": "x"})


def test_llmbar_as_it_is_published(lent_data):
    collection = Pairs(path=lent_data / "llmbar/natural.jsonl.gz").load()

    assert len(collection.queries) == 100
    assert [len(answers) for answers in collection.given.values()] == [100, 100]
