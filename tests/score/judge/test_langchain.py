"""`type: langchain`: chat models of langchain-core, and anything that looks like one."""

import json

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.score.judge.judge import Judge

ROW = {"question": "When did it open?", "answer": "It opened in 1932."}
GOOD = json.dumps({"reasoning": "it says when", "level": 4})


class PlainModel:
    """A chat model of the user's own."""

    model_name = "plain-1"

    def __init__(self, says=GOOD):
        self.says, self.asked = says, []

    def invoke(self, messages, **options):
        self.asked.append(messages)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def failing_factory(**options):
    raise ValueError("no such deployment")


def test_a_chat_model_of_langchain():
    model = GenericFakeChatModel(messages=iter([AIMessage(GOOD)]))
    with Judge(type="langchain", rubrics=["answer_relevancy"], client=model) as judge:
        verdict = judge.score(**ROW)["answer_relevancy"]

    assert (verdict.score, verdict.level, verdict.reasoning) == (0.75, 4.0, "it says when")
    assert not verdict.weighted


def test_a_factory_with_arguments(tmp_path):
    # The schema goes with the prompt in words; replies are kept under the arguments
    arguments = {
        "type": "langchain",
        "rubrics": ["answer_relevancy"],
        "factory": f"{__name__}:PlainModel",
        "replies": tmp_path / "replies.sqlite",
    }
    with Judge(**arguments, args={"says": GOOD}) as judge:
        verdict = judge.score(**ROW)["answer_relevancy"]
        assert judge.model == "plain-1"
    with Judge(**arguments, args={"says": GOOD.replace("4", "5")}) as judge:
        other = judge.score(**ROW)["answer_relevancy"]

    assert (verdict.score, verdict.model, other.score) == (0.75, "plain-1", 1.0)


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        (ValueError("boom"), "error"),
        (3, "malformed"),
        ("I would say four.", "unreadable"),
        (TimeoutError("slow"), "timeout"),
    ],
)
def test_failures_are_verdicts(says, cause):
    with Judge(
        type="langchain", rubrics=["answer_relevancy"], client=PlainModel(says), retries=0
    ) as judge:
        verdict = judge.score(**ROW)["answer_relevancy"]

    assert (verdict.score, verdict.status, verdict.cause) == (None, "failed", cause)


@pytest.mark.parametrize(
    ("options", "error", "place"),
    [
        ({}, OptionError, "langchain: factory"),
        ({"factory": "no.such:thing"}, DataError, ""),
        ({"factory": f"{__name__}:PlainModle"}, DataError, ""),
        (
            {"factory": f"{__name__}:failing_factory"},
            AdapterError,
            "",
        ),
        ({"client": object()}, OptionError, "langchain: model"),
    ],
)
def test_mistakes(options, error, place, assert_message):
    with pytest.raises(error) as caught:
        Judge(type="langchain", rubrics=["answer_relevancy"], **options)
    assert_message(caught.value, place)
