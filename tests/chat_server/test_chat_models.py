"""Replies of the scripted models, as the client of the openai package reads them."""

import pytest

from tests.chat_server import ChatServer, ReasoningModel, exceed_context, filter_prompt, refuse
from tests.lazy import Lazy

openai = Lazy("openai")

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How many?"}]}


def ask(server, **options):
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        return client.chat.completions.create(**ASKED, **options)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("answer", "error", "code", "param"),
    [
        (refuse("temperature", 0.0), "BadRequestError", "unsupported_value", "temperature"),
        (refuse("stop"), "BadRequestError", "unsupported_parameter", "stop"),
        (refuse("logprobs"), "PermissionDeniedError", None, None),
        (refuse("seed", 3, "fastapi"), "UnprocessableEntityError", None, None),
        (refuse("seed", 3, "plain"), "BadRequestError", None, None),
        (filter_prompt(), "BadRequestError", "content_filter", "prompt"),
        (exceed_context(9, 8), "BadRequestError", "context_length_exceeded", "messages"),
        (exceed_context(9, 8, "llama.cpp"), "BadRequestError", "400", None),
    ],
)
def test_the_client_raises_what_it_raises_for_the_real_thing(answer, error, code, param):
    with ChatServer(answer) as server, pytest.raises(getattr(openai, error)) as caught:
        ask(server)

    assert (caught.value.code, caught.value.param) == (code, param)


@pytest.mark.parametrize("tags", [False, True])
def test_reasoning_comes_beside_the_text_or_in_it(tags):
    with ChatServer(ReasoningModel("four", thoughts="2 + 2", tags=tags)) as server:
        reply = ask(server)

    message = reply.choices[0].message
    assert message.content == ("<think>\n2 + 2\n</think>\n\nfour" if tags else "four")
    assert getattr(message, "reasoning_content", None) == (None if tags else "2 + 2")
    if not tags:
        assert reply.usage.completion_tokens_details.reasoning_tokens == 5
        assert reply.usage.completion_tokens == 6


@pytest.mark.parametrize(
    ("key", "sent", "taken"),
    [("secret", "secret", True), ("secret", "x", False), (None, "x", True)],
)
def test_a_key_is_asked_for(key, sent, taken):
    with ChatServer("ok", key=key) as server:
        with openai.OpenAI(base_url=server.url, api_key=sent, max_retries=0) as client:
            if taken:
                assert client.chat.completions.create(**ASKED).choices[0].message.content == "ok"
            else:
                with pytest.raises(openai.AuthenticationError):
                    client.chat.completions.create(**ASKED)
        assert server.counters.requests == taken


def test_azures_address_needs_a_version():
    with ChatServer("ok") as server:
        address = f"{server.azure_endpoint}/openai/deployments/m"
        with (
            openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client,
            pytest.raises(openai.NotFoundError),
        ):
            client.chat.completions.create(**ASKED)
