"""A real inference server: llama.cpp's own, over a tiny model with random weights.

What it says means nothing; protocol, grammar, log-probabilities, usage and errors are real.
"""

import csv
import math
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace

import pytest

from ragbench.llm import CallFailure, Limits, Replies, ask_structured
from tests.commands import run_command
from tests.llm.conftest import ask_many, asking, engine_before

VERDICT = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["yes", "no"]},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["verdict", "score"],
    "additionalProperties": False,
}

MODEL = """
import sys, numpy, gguf
width, layers, context = 32, 1, 4096
random = numpy.random.default_rng(0)
signs = "\\u2581 abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:{}[]\\"'()?!-_\\n"
tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
tokens += [sign.encode() for sign in signs]
kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
kinds += [gguf.TokenType.NORMAL] * len(signs)
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_context_length(context); writer.add_embedding_length(width)
writer.add_block_count(layers); writer.add_feed_forward_length(2 * width)
writer.add_head_count(4); writer.add_head_count_kv(4); writer.add_rope_dimension_count(width // 4)
writer.add_layer_norm_rms_eps(1e-5); writer.add_vocab_size(len(tokens))
writer.add_tokenizer_model("llama"); writer.add_token_list(tokens)
writer.add_token_scores([0.0] * 3 + [-1000.0] * 256 + [-1.0] * len(signs))
writer.add_token_types(kinds)
writer.add_bos_token_id(1); writer.add_eos_token_id(2); writer.add_unk_token_id(0)
writer.add_chat_template("{% for m in messages %}{{ m['content'] }}\\n{% endfor %}")
def weights(*shape): return (random.standard_normal(shape) * 0.3).astype(numpy.float32)
ones = numpy.ones(width, numpy.float32)
writer.add_tensor("token_embd.weight", weights(len(tokens), width))
writer.add_tensor("output.weight", weights(len(tokens), width))
writer.add_tensor("output_norm.weight", ones)
for name in ("attn_norm", "ffn_norm"): writer.add_tensor(f"blk.0.{name}.weight", ones)
for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
    writer.add_tensor(f"blk.0.{name}.weight", weights(width, width))
for name in ("ffn_gate", "ffn_up"):
    writer.add_tensor(f"blk.0.{name}.weight", weights(2 * width, width))
writer.add_tensor("blk.0.ffn_down.weight", weights(width, 2 * width))
writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file()
writer.close()
"""

SERVER = """
import sys, time, xllamacpp
options = xllamacpp.CommonParams()
options.model.path = sys.argv[1]
options.n_ctx, options.n_parallel, options.n_predict, options.warmup = 4096, 2, 64, False
options.cpuparams.n_threads = 1
options.hostnames, options.port = ["127.0.0.1"], int(sys.argv[2])
server = xllamacpp.Server(options)
print(server.listening_address, flush=True)
while True: time.sleep(1)
"""


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """The base URL of a real server; one for the whole session."""
    for package in ("xllamacpp", "gguf"):
        pytest.importorskip(package, reason=f"{package} is not installed: no real server to ask")
    model = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    subprocess.run([sys.executable, "-c", MODEL, str(model)], check=True, capture_output=True)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(model), str(free_port())],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = process.stdout.readline().strip()
        wait_until_up(f"{address}/v1/models")
        yield f"{address}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_up(url):
    deadline = time.monotonic() + 300
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.fixture
def engine(llama):
    with engine_before(llama, limits=Limits(timeout=60)) as engine:
        yield engine


def test_a_reply_with_usage_and_fingerprint(engine):
    reply = engine.ask(asking("Is the sky blue?", max_tokens=8, temperature=0.0, seed=1))

    assert reply.finish_reason == "length"
    assert reply.usage.output_tokens == 8
    assert reply.usage.input_tokens > len("Is the sky blue?") - 5  # a token is a letter here
    assert reply.model
    assert reply.system_fingerprint


def test_temperature_zero_says_the_same_again(engine):
    request = asking("Is the sky blue?", max_tokens=8, temperature=0.0, seed=1)

    one, two = (engine.ask(replace(request, sample=n)) for n in (0, 0))

    assert one.text == two.text


@pytest.mark.costly
def test_a_schema_holds_even_for_a_model_that_knows_nothing(engine):
    request = asking("Judge!", schema=VERDICT, max_tokens=60, temperature=1.0, seed=5)

    for sample in range(5):
        answer = engine.run(ask_structured(engine.aask, replace(request, sample=sample)))

        assert answer.value["verdict"] in ("yes", "no")
        assert answer.value["score"] in range(1, 6)
        assert len(answer.replies) == 1


def test_log_probabilities_of_the_verdict(engine):
    # A judge that weighs levels by their probabilities needs them
    request = asking("Judge!", max_tokens=4, temperature=0.0, top_logprobs=3)

    logprobs = engine.ask(request).logprobs

    assert 1 <= len(logprobs) <= 4  # a byte that is no sign yet is not listed
    for token in logprobs:
        assert token.logprob <= 0
        assert len(token.top) == 3
        assert sum(math.exp(logprob) for _, logprob in token.top) <= 1 + 1e-6
        assert [p for _, p in token.top] == sorted((p for _, p in token.top), reverse=True)


def test_its_errors_are_failures_by_cause(engine):
    # A schema with a type that it cannot compile, a prompt longer than its context
    for request, cause, message in (
        (asking("x " * 5000, max_tokens=1), "too_long", "too long for the model: .*2048"),
        (asking("x", extra={"response_format": {"type": "poem"}}), "server_error", "400"),
    ):
        with pytest.raises(CallFailure, match=message) as caught:
            engine.ask(request)

        assert caught.value.cause.word == cause
        assert len(caught.value.attempts) == 1, "asking again would not help"


def test_an_output_that_its_parser_rejects(engine):
    # `json_object` with random weights: a 500, or a reply; never a crash.
    # A 500 on JSON that was cut at its limit is unreadable, another one an error of the server.
    request = asking("x", max_tokens=8, extra={"response_format": {"type": "json_object"}})

    (outcome,) = ask_many(engine, [request])

    if isinstance(outcome, CallFailure):
        assert outcome.cause.word in ("server_error", "unreadable")
    else:
        assert outcome.finish_reason in ("length", "stop")


@pytest.mark.costly
def test_many_calls_are_kept(llama, tmp_path):
    # its server has few threads, and keeps one for seconds where a connection stays open
    limits = Limits(concurrency=6, timeout=60)
    with (
        Replies(tmp_path / "replies.sqlite") as replies,
        engine_before(llama, replies=replies, limits=limits) as engine,
    ):
        requests = [asking(f"question {i}", max_tokens=4, temperature=0.0) for i in range(50)]
        first = [reply.text for reply in ask_many(engine, requests)]
        second = ask_many(engine, requests)

    assert [reply.text for reply in second] == first
    assert all(reply.stored for reply in second)


@pytest.mark.costly
def test_every_question_of_a_real_model_is_kept_or_refused_with_a_reason(llama, tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("io", "titan"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"The moon {name} was found in 1610.\n" * 9)
    words = f"questions docs -n 2 --model tiny --base-url {llama} -o qa.csv --rejected bad.csv"

    first, second = (run_command(*words.split(), cwd=tmp_path) for _ in range(2))

    with (tmp_path / "bad.csv").open(newline="", encoding="utf-8") as stream:
        reasons = [row["reason"] for row in csv.DictReader(stream)]
    assert len(reasons) == 2, "weights are random: no passage has a usable reply, nor a next turn"
    assert all(reasons)
    assert first.stdout == second.stdout
    assert first.stdout.startswith("kept 0 of 2: ")
    assert not (tmp_path / "qa.csv").exists()
    assert " 0 calls, 2 stored replies" in second.stderr
