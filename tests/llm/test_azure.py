"""Azure's addresses, keys and filters, with the real openai client over HTTP."""

import pytest

from ragbench.errors import OptionError
from ragbench.generate.chat import OpenAIGenerator
from ragbench.llm import CallFailure, ChatEngine, Limits, OpenAIChat, Replies
from ragbench.score.judge.judge import Judge
from ragbench.types import Cause
from tests.chat_server import Answer, ChatServer, exceed_context, filter_prompt
from tests.lazy import Lazy
from tests.llm.conftest import GOOD, asking

openai = Lazy("openai")

KEY = "azure-planted-0123456789"
ROW = {"question": "When did it open?", "answer": "In 1932.", "contexts": ["It opened in 1932."]}
LEVEL = '{"reasoning": "it says when", "level": 4}'


@pytest.fixture
def azure(monkeypatch):
    """A server with Azure's paths, which wants the key in the header `api-key`."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with ChatServer(LEVEL, key=KEY) as server:
        yield server


def test_the_server_is_one_that_azures_own_client_takes(azure):
    # Oracle: the client of Microsoft's documentation, with its own options
    client = openai.AzureOpenAI(
        azure_endpoint=azure.azure_endpoint, api_version="2024-10-21", api_key=KEY, max_retries=0
    )
    completion = client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "?"}]
    )
    assert completion.choices[0].message.content == LEVEL
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="another").chat.completions.create(model="m", messages=[])


@pytest.mark.parametrize(
    ("options", "path"),
    [
        pytest.param(
            {"base_url": "{}/openai/deployments/judge?api-version=2024-10-21"},
            "/openai/deployments/judge/chat/completions?api-version=2024-10-21",
            id="the classic address",
        ),
        pytest.param(
            {"base_url": "{}/openai/deployments/judge/chat/completions?api-version=2024-10-21"},
            "/openai/deployments/judge/chat/completions?api-version=2024-10-21",
            id="as the portal shows it",
        ),
        pytest.param(
            {"base_url": "{}/openai?api-version=2024-10-21"},
            "/openai/deployments/m/chat/completions?api-version=2024-10-21",
            id="the model is the deployment",
        ),
        pytest.param(
            {"azure_endpoint": "{}/", "api_version": "2024-10-21", "azure_deployment": "judge"},
            "/openai/deployments/judge/chat/completions?api-version=2024-10-21",
            id="AzureOpenAI's names",
        ),
        pytest.param(
            {"azure_endpoint": "{}", "api_version": "2024-10-21"},
            "/openai/deployments/m/chat/completions?api-version=2024-10-21",
            id="without a deployment",
        ),
    ],
)
def test_every_way_to_name_a_deployment(azure, options, path):
    where = {name: value.format(azure.azure_endpoint) for name, value in options.items()}
    with Judge(
        "m", ["answer_relevancy"], api_key_env="AZURE_OPENAI_API_KEY", retries=0, **where
    ) as judge:
        verdict = judge.score(**ROW)["answer_relevancy"]

    assert (verdict.score, verdict.reasoning) == (0.75, "it says when")
    (received,) = azure.received
    assert received.path == path
    assert received.headers["api-key"] == KEY
    assert "authorization" not in received.headers


def test_a_generator_on_azure(azure):
    generator = OpenAIGenerator(
        model="gpt",
        azure_endpoint=azure.azure_endpoint,
        api_version="2024-10-21",
        api_key_env="AZURE_OPENAI_API_KEY",
    )

    assert generator.generate("When?", []).answer == LEVEL
    generator.close()


def test_a_ready_client_of_azures(azure):
    client = openai.AzureOpenAI(
        azure_endpoint=azure.azure_endpoint, api_version="2024-10-21", api_key=KEY
    )
    with Judge("m", ["answer_relevancy"], client=client) as judge:
        assert judge.score(**ROW)["answer_relevancy"].score == 0.75


def test_another_query_goes_with_every_request(monkeypatch):
    # A gateway's version at an address of the OpenAI form; the key stays a bearer
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer(GOOD, key=KEY) as server:
        model = OpenAIChat(base_url=f"{server.url}?api-version=preview&team=rag")
        with ChatEngine(model) as engine:
            for i in range(2):
                engine.ask(asking(str(i)))

    assert [r.path for r in server.received] == [
        "/v1/chat/completions?api-version=preview&team=rag"
    ] * 2
    assert model.identity["base_url"] == f"{server.url}?api-version=preview&team=rag"


def test_a_key_in_the_query_is_found_nowhere(tmp_path):
    secret = "gateway-planted-987654"

    def script(request, times_asked):
        if "fail" in request["messages"][0]["content"]:
            return Answer(f"no such key: {secret}", status=403)
        return Answer(f"your key is {secret}")

    with ChatServer(script) as server, Replies(tmp_path / "replies.sqlite") as replies:
        model = OpenAIChat(base_url=f"{server.url}?api-key={secret}&api-version=2024-10-21")
        with ChatEngine(model, replies=replies) as engine:
            reply = engine.ask(asking())
            with pytest.raises(CallFailure) as caught:
                engine.ask(asking("fail"))

    assert f"api-key={secret}" in server.received[0].path
    assert model.identity["base_url"].endswith("/v1?api-key=***&api-version=2024-10-21")
    on_disk = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret not in f"{reply} {caught.value} {model.identity}"
    assert secret.encode() not in on_disk


@pytest.mark.parametrize(
    ("options", "place"),
    [
        # two addresses
        ({"azure_endpoint": "http://a", "base_url": "http://b/v1"}, "openai: azure_endpoint"),
        ({"azure_endpoint": "http://a"}, "openai: api_version"),  # Azure needs a version
        ({"api_version": "2024-10-21"}, "openai: api_version"),
        ({"azure_deployment": "x"}, "openai: azure_deployment"),
    ],
)
def test_options_that_do_not_fit_together(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        Judge("m", **options)
    assert_message(caught.value, place)


def test_azure_needs_a_key(monkeypatch, assert_message):
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    with pytest.raises(OptionError) as caught:
        Judge(
            "m",
            azure_endpoint="http://127.0.0.1:9",
            api_version="2024-10-21",
            api_key_env="AZURE_OPENAI_API_KEY",
        )
    assert_message(caught.value, "openai: api_key_env")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param(
            filter_prompt(hate="high", violence="medium"),
            Cause.REFUSED,
            id="Azure's filter",
        ),
        pytest.param(
            Answer("Flagged", status=400, error_code="content_policy_violation"),
            Cause.REFUSED,
            id="a gateway's",
        ),
        pytest.param(
            exceed_context(5000, 4096),
            Cause.TOO_LONG,
            id="OpenAI's words",
        ),
        pytest.param(
            exceed_context(5000, 4096, "llama.cpp"),
            Cause.TOO_LONG,
            id="llama.cpp",
        ),
        pytest.param(
            Answer(
                "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum "
                "context length is 2048 tokens and your request has 900 input tokens",
                status=400,
            ),
            Cause.TOO_LONG,
            id="vLLM",
        ),
        pytest.param(
            Answer("prompt is too long: 215000 tokens > 200000 maximum", status=400),
            Cause.TOO_LONG,
            id="Anthropic",
        ),
        pytest.param(
            Answer(
                "The input token count (1200000) exceeds the maximum number of tokens allowed "
                "(1048576).",
                status=400,
            ),
            Cause.TOO_LONG,
            id="Gemini",
        ),
        pytest.param(
            Answer(
                "Prompt contains 40000 tokens, too large for model with 32768 maximum context "
                "length",
                status=400,
            ),
            Cause.TOO_LONG,
            id="Mistral",
        ),
        pytest.param(
            Answer("Please reduce the length", status=400, error_code="context_length_exceeded"),
            Cause.TOO_LONG,
            id="a code alone",
        ),
        pytest.param(
            Answer("Request too large: tokens per minute, limit 6000", status=413),
            Cause.SERVER_ERROR,
            id="a rate is no length",
        ),
    ],
)
def test_what_no_repetition_mends_has_a_cause_of_its_own(serve, answer, cause, assert_message):
    server, engine = serve(answer, engine={"limits": Limits(retries=2)})

    with pytest.raises(CallFailure) as caught:
        engine.ask(asking(max_tokens=50))
    assert_message(caught.value)

    assert caught.value.cause is cause
    assert server.counters.requests == 1


def test_a_filter_over_the_reply_is_a_refusal(serve):
    _, engine = serve(Answer("", finish_reason="content_filter: PROHIBITED_CONTENT"))

    assert engine.ask(asking()).refused


def test_verdicts_and_answers_have_these_causes():
    with (
        ChatServer([filter_prompt(), exceed_context(9000, 8192)]) as server,
        Judge("m", ["answer_relevancy"], base_url=server.url) as judge,
    ):
        causes = [judge.score(**ROW)["answer_relevancy"].cause for _ in range(2)]

    assert causes == ["refused", "too_long"]
