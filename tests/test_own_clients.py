"""Whatever can be asked is a client of judges and generators: functions, chains, other clients."""

import asyncio

import pytest
import yaml

import ragbench as rb
from ragbench.generate.chat import OpenAIGenerator
from ragbench.generate.langchain import LangchainGenerator
from ragbench.types import Document
from tests.test_own_code import CONFIG, project  # noqa: F401  a fixture

REPLY = '{"reasoning": "yes", "level": 5}'


def ask(messages):
    assert messages[-1]["role"] == "user"
    return REPLY


async def ask_later(messages):
    await asyncio.sleep(0)
    return ask(messages)


class Client:
    """A client with the interface of `openai`, but from another package."""

    def __init__(self, returns=None):
        self.chat = self.completions = self
        self.returns, self.asked = returns, []

    def create(self, **body):
        self.asked.append(body)
        if self.returns is not None:
            raise self.returns
        message = {"role": "assistant", "content": REPLY}
        return {"model": body["model"], "choices": [{"message": message}]}


class Waiting(Client):
    async def create(self, **body):
        return super().create(**body)


class Chain:
    def invoke(self, messages):
        return REPLY


@pytest.mark.parametrize(
    ("model", "client"),
    [
        (None, ask),
        (None, ask_later),
        ("m", ask),
        (None, Chain()),
        ("m", Client()),
        ("m", Waiting()),
    ],
    ids=["function", "asynchronous", "named", "chain", "like openai", "like AsyncOpenAI"],
)
def test_a_client_may_be_any_object_that_can_be_asked(model, client):
    with rb.Judge(model, ["fluency"], client=client) as judge:
        assert judge.score(answer="A text.")["fluency"].score == 1.0


def test_a_client_that_fails_is_a_failed_verdict_and_one_that_cannot_be_asked_is_refused():
    with rb.Judge("m", ["fluency"], client=Client(ValueError("no such thing"))) as judge:
        assert "no such thing" in judge.score(answer="A text.")["fluency"].reasoning
    with pytest.raises(rb.OptionError, match="a function of messages"):
        rb.Judge("m", ["fluency"], client=3).score(answer="A text.")


@pytest.mark.parametrize(
    "client", [ask, ask_later, Client(), Waiting()], ids=["function", "asynchronous", "a", "b"]
)
def test_the_client_of_a_generator_may_be_any_object_that_can_be_asked(client, assert_message):
    generator = OpenAIGenerator(model="m", client=client)
    passages = [Document("d", "The bridge opened in 1932.")]

    assert generator.generate("When?", passages).answer == REPLY
    generator.close()
    if isinstance(client, Client):
        assert_message(client.asked[-1]["messages"][-1]["content"])


@pytest.mark.costly
def test_a_chat_model_of_langchain_and_a_function_of_messages_answer_in_a_run(project, tmp_path):  # noqa: F811
    chat = pytest.importorskip("langchain_core.language_models.fake_chat_models")
    model = chat.FakeListChatModel(responses=["a fox please"])
    config = {
        "dataset": CONFIG["dataset"],
        "retrievers": {"bm25": {"type": "bm25"}},
        "metrics": {"generation": ["token_f1"]},
        "output": str(tmp_path / "runs"),
    }
    generators = {
        "model": LangchainGenerator(client=model),
        "chat": OpenAIGenerator(model="m", client=model),
        "function": OpenAIGenerator(model="m", client=lambda messages: "fox 1"),
    }
    (project / "clients.yaml").write_text(yaml.safe_dump(config))

    done = rb.run_experiment(project / "clients.yaml", generators=generators)

    means = {system["name"]: system["scores"] for system in done.summary["systems"]}
    f1 = {name: scores["token_f1"]["mean"] for name, scores in means.items() if "/" in name}
    assert f1["bm25/model"] == f1["bm25/chat"] == pytest.approx(0.5)
    assert f1["bm25/function"] == pytest.approx((3 * 0.5 + 1) / 4)
