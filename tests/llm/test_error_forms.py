"""Errors in the forms of many servers: their words, what is given up, and what ends a run."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.llm import CallFailure, ChatEngine, Limits, OpenAIChat
from ragbench.llm.error_words import error_words
from ragbench.llm.failures import failure_of_status
from ragbench.llm.openai import OpenAILike
from ragbench.types import Cause
from tests.chat_server import Answer, ChatServer
from tests.commands import run_command
from tests.experiment.moons import write_moons
from tests.llm.conftest import GOOD, ask_many, asking, engine_before

# Forms in which servers write a message; the last ones are of proxies.
FORMS = {
    "openai": lambda t: {"error": {"message": t, "type": "invalid", "param": None, "code": None}},
    "gemini": lambda t: [{"error": {"code": 400, "message": t, "status": "INVALID_ARGUMENT"}}],
    "tgi": lambda t: {"error": t, "error_type": "validation"},
    "errors": lambda t: {"errors": [{"message": t}]},
    "list of texts": lambda t: {"errors": [t]},
    "vllm": lambda t: {"object": "error", "message": t, "type": "BadRequestError", "code": 400},
    "fastapi": lambda t: {"detail": t},
    "pydantic": lambda t: {"detail": [{"type": "x", "loc": ["body"], "msg": t, "input": True}]},
    "bedrock": lambda t: {"Message": t},
    "anthropic": lambda t: {"type": "error", "error": {"type": "invalid_request", "message": t}},
    "openrouter": lambda t: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps({"error": {"message": t}}), "provider_name": "P"},
        }
    },
    "json text": lambda t: t,
    "plain": lambda t: t.encode(),
    "html": lambda t: (
        f"<!DOCTYPE html><html><head><title>400</title><style>{'a {}' * 400}</style></head>"
        f"<body><h1>Bad Request</h1><p>{_escape(t)}</p></body></html>"
    ).encode(),
    "xml": lambda t: (
        f"<?xml version='1.0'?><Error><Message>{_escape(t)}</Message></Error>".encode()
    ),
}


def _escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def in_form(name, text):
    body = FORMS[name](text)
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def failure_at(server_answer, **request):
    with (
        ChatServer(server_answer) as server,
        engine_before(server.url, limits=Limits(retries=0)) as engine,
    ):
        with pytest.raises(CallFailure) as caught:
            engine.ask(asking(**request))
        return caught.value, server


# Words without markup, quotes and braces at their start, which are forms of their own.
WORDS = st.lists(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, categories=["L", "N", "P"])),
    min_size=1,
    max_size=8,
).map(" ".join)


@settings(deadline=None)
@given(form=st.sampled_from(sorted(FORMS)), words=WORDS.map(lambda text: f"sorry {text}"))
def test_every_text_reaches_the_words(form, words):
    line = " ".join(words.split())

    assert line in error_words(in_form(form, words).decode())


TREES = st.recursive(
    st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9),
    lambda part: (
        st.lists(part, max_size=4)
        | st.dictionaries(st.sampled_from(["error", "message", "x", "Detail", "code"]), part)
    ),
    max_leaves=12,
)


def leaves(tree):
    if isinstance(tree, str):
        return [tree]
    return [t for part in (tree.values() if isinstance(tree, dict) else tree) for t in leaves(part)]


@given(TREES)
def test_no_leaf_of_any_tree_is_lost(tree):
    words = error_words(json.dumps(tree))

    assert all(leaf in words for leaf in leaves(tree))
    assert "{" not in words


# every form with one status, every status in one form: neither reads the other
@pytest.mark.parametrize(
    ("form", "status"), [*((form, 400) for form in FORMS), ("openai", 404), ("plain", 500)]
)
def test_a_message_has_words_and_url(form, status):
    failure, server = failure_at(Answer(status=status, body=in_form(form, "the tap is shut")))

    assert f"the server answered {status}: " in failure.detail
    assert "the tap is shut" in failure.detail
    assert f"({server.url}/chat/completions)" in failure.detail


@pytest.mark.parametrize("form", FORMS)
def test_a_message_is_cut_and_keeps_no_secret(form, monkeypatch):
    key = "sk-abcdefgh12345678"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    failure, server = failure_at(
        Answer(status=400, body=in_form(form, f"no {key} " + "x" * 50 + " long" * 400))
    )

    assert key not in failure.detail + failure.words
    words = failure.detail.removesuffix(f" ({server.url}/chat/completions)")
    assert len(words) <= len("the server answered 400: ") + 500 + len(" ...")


@pytest.mark.parametrize(
    ("name", "form", "status"),
    [
        *(("logprobs", form, 400) for form in FORMS),
        ("logprobs", "openai", 403),
        ("logprobs", "html", 422),
        ("temperature", "openai", 400),
        ("temperature", "plain", 422),
    ],
)
def test_a_refused_parameter_is_given_up(name, form, status):
    words = f"Unknown parameter: {name} is not supported by this model"

    def script(request, times_asked):
        return Answer(status=status, body=in_form(form, words)) if name in request else GOOD

    with ChatServer(script) as server, engine_before(server.url) as engine:
        reply = engine.ask(asking(temperature=0.0, top_logprobs=2))

    assert (reply.left_out, server.counters.requests) == ((name,), 2)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"errors": {"logprobs": ["is not permitted"]}}, id="the key names it"),
        pytest.param(
            {"detail": [{"loc": ["body", "logprobs"], "msg": "Extra inputs are not permitted"}]},
            id="the place names it",
        ),
        pytest.param(
            [{"error": {"message": "not supported", "param": "logprobs"}}], id="param in a list"
        ),
        pytest.param(
            [{"error": {"message": 'Invalid JSON payload: Unknown name "responseLogprobs"'}}],
            id="in the spelling of Gemini",
        ),
        pytest.param(
            {"error": {"message": "x" * 3000 + " logprobs is not supported"}}, id="far behind"
        ),
    ],
)
def test_a_parameter_is_found_wherever_it_stands(body):
    def script(request, times_asked):
        refused = Answer(status=400, body=json.dumps(body).encode())
        return refused if "logprobs" in request else GOOD

    with ChatServer(script) as server, engine_before(server.url) as engine:
        assert engine.ask(asking(top_logprobs=2)).left_out == ("logprobs",)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        *((form, "This model's maximum context length is 4096 tokens") for form in FORMS),
        ("openai", "Requested tokens (5000) exceed\n context window of 4096"),
        ("html", "Requested tokens (5000) exceed\n context window of 4096"),
        ("openai", "Input length 9 exceeds context length"),
    ],
)
def test_a_long_prompt_is_too_long_in_any_form(form, words):
    failure, _ = failure_at(Answer(status=400, body=in_form(form, words)))

    assert failure.cause is Cause.TOO_LONG


REFUSALS = [
    pytest.param(400, "Output blocked by content filtering policy", id="Anthropic"),
    pytest.param(400, "The guardrail blocked the request", id="Bedrock"),
    pytest.param(400, "Prompt blocked: blockReason PROHIBITED_CONTENT", id="Gemini"),
    pytest.param(
        403, 'm requires moderation. Your input was flagged for "violence"', id="OpenRouter"
    ),
    pytest.param(400, "The response was filtered: content_filter", id="Azure"),
    pytest.param(400, "Your request was rejected by our safety system", id="OpenAI"),
    pytest.param(403, "Content violates usage guidelines", id="xAI"),
    pytest.param(400, "Content Exists Risk", id="DeepSeek"),
]


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_refusals_of_prompts(status, words):
    refuse_in("openai", status, words)


@pytest.mark.parametrize("form", ["gemini", "plain", "openrouter"])
def test_a_refusal_of_a_prompt_in_other_forms(form):
    refuse_in(form, 400, "Output blocked by content filtering policy")


def refuse_in(form, status, words):
    """Refuse the first prompt in a form of errors, and answer the second."""
    refused = Answer(status=status, body=in_form(form, words))
    with ChatServer([refused, GOOD]) as server, engine_before(server.url) as engine:
        first, second = (ask_many(engine, [asking(text)])[0] for text in ("one", "two"))

    assert first.cause is Cause.REFUSED
    assert second.text == GOOD, "a refusal concerns one prompt"
    assert server.counters.requests == 2


@pytest.mark.parametrize(
    "choice",
    [
        {"finish_reason": "refusal"},
        {"finish_reason": None, "stop_reason": "refusal"},
        {"finish_reason": "SAFETY"},
        {"finish_reason": "stop", "native_finish_reason": "PROHIBITED_CONTENT"},
        {"finish_reason": "guardrail_intervened"},
        {"finish_reason": "content_filter: PROHIBITED_CONTENT"},
        None,
        {"finish_reason": "error", "error": {"code": 403, "message": "flagged by moderation"}},
    ],
)
def test_refusals_in_replies(choice):
    body = {"choices": [], "promptFeedback": {"blockReason": "SAFETY"}}
    if choice is not None:
        body = {"choices": [{"message": {"role": "assistant", "content": ""}, **choice}]}
    with (
        ChatServer(Answer(body=json.dumps(body).encode())) as server,
        rb.Judge("m", ["coherence"], base_url=server.url) as judge,
    ):
        verdict = judge.score(answer="The toll is 4 euros.")["coherence"]

    assert verdict.cause == "refused"
    assert server.counters.requests == 1


@pytest.mark.parametrize("reason", ["abort", "error", "insufficient_system_resource"])
def test_a_reply_that_the_server_broke_off_is_asked_again(reason):
    # vLLM, OpenRouter and DeepSeek send the part that they have, with status 200
    part = Answer("The toll is", finish_reason=reason)
    with ChatServer([part, GOOD]) as server, engine_before(server.url) as engine:
        reply = ask_many(engine, [asking()])[0]
    with ChatServer(part) as server, engine_before(server.url, limits=Limits(retries=1)) as engine:
        failure = ask_many(engine, [asking()])[0]

    assert (reply.text, [tried.cause for tried in reply.attempts]) == (GOOD, ["server_error"])
    assert reason in reply.attempts[0].detail
    assert (failure.cause, len(failure.attempts)) == (Cause.SERVER_ERROR, 2)
    assert failure.usage.output_tokens > 0


LOGIN = b"<!DOCTYPE html><html><title>Sign in</title><body>Your password, please</body></html>"
# Status, body, words of the cure.
ENDINGS = [
    pytest.param(401, b'{"error": {"message": "Incorrect key"}}', "OPENAI_API_KEY may be expired"),
    pytest.param(402, b'{"error": {"message": "Insufficient Balance"}}', "has to be paid for"),
    pytest.param(403, b"Forbidden", "OPENAI_API_KEY may not have access"),
    pytest.param(404, b"404 page not found", "/v1 may be missing in base_url: http://127.0.0.1:"),
    pytest.param(404, b'{"error": "model \\"m\\" not found, try pulling it"}', "the model 'm'"),
    pytest.param(400, b'{"error": {"message": "m is not a valid model ID"}}', "the model 'm'"),
    pytest.param(200, LOGIN, "/v1 may be missing in base_url: http://127.0.0.1:"),
]


@pytest.mark.parametrize(("status", "body", "cure"), ENDINGS)
def test_a_server_that_cannot_be_used_gets_one_request(status, body, cure):
    with (
        ChatServer(Answer(status=status, body=body)) as server,
        engine_before(server.url.removesuffix("/v1")) as engine,
    ):
        outcomes = ask_many(engine, [asking(f"q{n}", temperature=0.0) for n in range(30)])
        assert engine.totals.unreachable == 30

    assert server.counters.requests == 1
    assert {o.detail for o in outcomes} == {outcomes[0].detail}
    assert cure in outcomes[0].detail
    assert server.url.removesuffix("/v1") in outcomes[0].detail
    assert outcomes[0].exit_code == 7


@pytest.mark.parametrize("kind", ["address", "client like openai"])
def test_requests_without_parameters_are_tested_by_one_too(kind):
    import openai

    with ChatServer(Answer("Incorrect key", status=401)) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        model = OpenAIChat(base_url=server.url) if kind == "address" else OpenAILike(client)
        with ChatEngine(model) as engine:
            outcomes = ask_many(engine, [asking(f"q{n}") for n in range(30)])

    assert server.counters.requests == 1
    assert {o.exit_code for o in outcomes} == {7}


@pytest.mark.parametrize("status", [403, 404])
def test_after_a_reply_such_an_error_concerns_its_prompt(status):
    def script(request, times_asked):
        is_bad = "bad" in request["messages"][0]["content"]
        return Answer("no", status=status) if is_bad else GOOD

    with ChatServer(script) as server, engine_before(server.url) as engine:
        ask_many(engine, [asking("good")])
        outcomes = ask_many(engine, [asking(f"bad {n}") for n in range(9)] + [asking("fine")])

    assert [isinstance(o, CallFailure) for o in outcomes] == [True] * 9 + [False]


def test_a_flagged_account_is_no_refusal():
    failure = failure_of_status(403, "Your account was flagged, see our policy", headers={})

    assert (failure.cause, failure.fatal) == (Cause.SERVER_ERROR, True)


@pytest.mark.costly
@pytest.mark.parametrize("role", ["generator", "judge"])
@pytest.mark.parametrize(("status", "body", "cure"), [ENDINGS[0], ENDINGS[3], ENDINGS[6]])
def test_a_run_ends_with_one_message(tmp_path, role, status, body, cure):
    write_moons(tmp_path / "moons")
    with ChatServer(Answer(status=status, body=body)) as server:
        url = server.url.removesuffix("/v1")
        entry = f"type: openai, model: m, base_url: {url}"
        blocks = f"generators: {{g: {{{entry}}}}}\n"
        if role == "judge":
            blocks = (
                "generators: {e: {type: extractive}}\n"
                f"metrics: {{judge: {{{entry}, rubrics: [fluency, coherence]}}}}\n"
            )
        (tmp_path / "c.yaml").write_text(
            f"dataset: {{type: beir, path: moons}}\nretrievers: {{b: {{type: bm25}}}}\n{blocks}"
        )
        done = run_command("run", "c.yaml", cwd=tmp_path)
        n_requests = server.counters.requests

    assert (done.returncode, n_requests) == (7, 1), done.stderr
    assert (done.stdout + done.stderr).count(re.sub(r"http:.*", "", cure)) == 1
