"""The judge by a classifier behind a server, and claims that a chat model splits, on loopback."""

import json
import math

import pytest

import ragbench as rb
from ragbench import llm
from ragbench.errors import OptionError
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.classifier import Classifier
from ragbench.score.judge.model_judge import rehearse
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.judge.support import read_answer
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.retrieve.search_server import Reply, SearchServer
from tests.score.judge.scripted import Script

PASSAGES = ["It opened in 1923.", "It opened in 1932."]
ROW = {"question": "When did it open?", "answer": "In 1932 [2].", "contexts": PASSAGES}
SPLITTER = {"model": "chat", "base_url": "http://127.0.0.1:9/v1"}


def _predict(body):
    """As Hugging Face's `/predict` answers: labels by falling score, for each input."""
    rows = []
    for text_pair in body["inputs"]:
        supported = 0.875 if "1932" in text_pair[0] else 0.25
        labels = [("entailment", supported), ("neutral", 1 - supported)]
        labels.sort(key=lambda pair: -pair[1])
        rows.append([{"label": name, "score": score} for name, score in labels])
    return rows


def _served(server, **options):
    url = server.url.removesuffix("/search")
    return rb.Judge("m", type="classifier", base_url=url, **options)


def test_a_classification_server_gets_pairs_and_the_best_passage_counts(
    monkeypatch, assert_message
):
    monkeypatch.setenv("TOKEN", "secret-of-mine")
    with SearchServer(_predict) as server, _served(server, api_key_env="TOKEN") as judge:
        verdict = judge.score(**ROW)["supported"]

    [(path, headers, body)] = server.received
    assert (path, headers["Authorization"]) == ("/predict", "Bearer secret-of-mine")
    assert body == {"inputs": [[passage, "In 1932."] for passage in PASSAGES], "truncate": False}
    assert verdict.score == 0.875
    assert_message(verdict.reasoning)
    assert verdict.model == "m"


def test_many_passages_are_sent_in_requests_of_32():
    with SearchServer(_predict) as server, _served(server) as judge:
        verdict = judge.score(answer="a", contexts=[*["no"] * 39, PASSAGES[1]])["supported"]

    assert [len(body["inputs"]) for _, _, body in server.received] == [32, 8]
    assert (verdict.score, verdict.reasoning[-10:]) == (0.875, "passage 40")


def test_replies_are_stored_and_not_asked_for_again(tmp_path):
    with SearchServer(_predict) as server:
        for _ in range(2):
            with _served(server, replies=tmp_path / "r.sqlite") as judge:
                assert judge.score(**ROW)["supported"].score == 0.875

    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        ({"error": "no"}, "unreadable"),
        ([[{"label": "entailment", "score": 0.5}]], "unreadable"),
        ([[{"label": "entailment", "score": 0.5}]] * 3, "unreadable"),
        ([[1], [2]], "unreadable"),
        (Reply({"error": "busy"}, status=503), "server_error"),
        (Reply(b"<html>"), "malformed"),
    ],
)
def test_a_reply_of_another_form_fails_and_is_no_number(reply, cause):
    with SearchServer(lambda body: reply) as server, _served(server, retries=0) as judge:
        verdict = judge.score(**ROW)["supported"]

    assert (verdict.score, verdict.status, verdict.cause) == (None, "failed", cause)


def test_a_server_whose_model_lacks_the_label_is_an_error(assert_message):
    with (
        SearchServer(_predict) as server,
        _served(server, label="yes") as judge,
        pytest.raises(OptionError) as caught,
    ):
        judge.score(**ROW)
    assert_message(caught.value, "classifier: label")


def _chat(preset, answers):
    requests = []

    def script(body, times_asked):
        requests.append(body)
        return answers(body) if callable(answers) else answers

    with ChatServer(script) as server:
        judge = rb.Judge(type="classifier", preset=preset, base_url=server.url)
        with judge:
            return judge.score(**ROW)["supported"], requests


def test_bespoke_minicheck_reads_each_passage_and_the_probability_of_yes():
    # 0.6 / (0.6 + 0.2) = 0.75 for the second passage, 0.1 / (0.1 + 0.9) for the first

    def answers(body):
        if "1932." in body["messages"][1]["content"].partition("\nClaim")[0]:
            return Answer("Yes", alternatives={"Yes": {"Yes": 0.5, "yes": 0.1, "No": 0.2}})
        return Answer("No", alternatives={"No": {"Yes": 0.1, "No": 0.9}})

    verdict, requests = _chat("bespoke-minicheck", answers)

    assert verdict.score == pytest.approx(0.75)
    assert [m["role"] for m in requests[0]["messages"]] == ["system", "user"]
    assert {body["messages"][1]["content"] for body in requests} == {
        "Document: It opened in 1923.\nClaim: In 1932.",
        "Document: It opened in 1932.\nClaim: In 1932.",
    }
    assert {
        (body["max_tokens"], body["top_logprobs"], body["temperature"]) for body in requests
    } == {(1, 5, 0.0)}


def test_granite_guardian_gets_documents_and_yes_means_ungrounded():
    text = "<think>\n</think>\n<score> yes </score>"
    verdict, [body] = _chat(
        "granite-guardian", Answer(text, alternatives={"yes": {"yes": 0.8, "no": 0.2}})
    )

    assert verdict.score == pytest.approx(0.2)
    assert verdict.reasoning.endswith("by all passages together")
    assert [m["role"] for m in body["messages"]] == ["assistant", "user"]
    assert body["messages"][0]["content"] == "In 1932."
    assert body["documents"] == [
        {"doc_id": "0", "text": PASSAGES[0]},
        {"doc_id": "1", "text": PASSAGES[1]},
    ]


def test_lynx_gets_question_and_all_passages():
    reply = '{"REASONING": ["It may FAIL", "but no"], "SCORE": "PASS"}'
    verdict, [body] = _chat("lynx", reply)

    [message] = body["messages"]
    assert verdict.score == 1.0
    assert f"\n{ROW['question']}\n\n--\nDOCUMENT:\n" in message["content"]
    assert f"\n{PASSAGES[0]}\n\n{PASSAGES[1]}\n\n--\nANSWER:\nIn 1932.\n" in message["content"]
    assert verdict.raw == reply


@pytest.mark.parametrize(
    ("text", "tokens", "probability"),
    [
        pytest.param("FAIL", None, 0.0, id="no-log-probabilities"),
        pytest.param("**PASS**.", None, None, id="markdown-is-no-verdict"),
        pytest.param("fail, so pass", [("fail", 0.9), (" pass", 0.8)], 1.0, id="last-token"),
        pytest.param('"PASS"', [('"', 1.0), ("PASS", 0.5), ('"', 1.0)], 1.0, id="quotes"),
        pytest.param("<score>no pass</score>", None, 1.0, id="tags-without-blanks"),
        pytest.param('{"REASONING":["may pass"],"SCORE":"FAIL"}', None, 0.0, id="compact-json"),
        pytest.param('{"SCORE": "PASS", "REASONING": "no fail"}', None, 1.0, id="score-first"),
        pytest.param("fail. PASS", [("fail", 0.9), ("PA", 0.8)], 1.0, id="verdict-of-two-tokens"),
        pytest.param("maybe", None, None, id="neither"),
        pytest.param("", None, None, id="empty"),
    ],
)
def test_a_verdict_is_read_from_the_last_word_of_the_two(text, tokens, probability, assert_message):
    logprobs = tokens and tuple(llm.TokenLogprob(t, math.log(p)) for t, p in tokens)
    reply = llm.ChatReply(text, logprobs=logprobs)

    if probability is None:
        with pytest.raises(llm.CallFailure) as caught:
            read_answer(reply, ("pass", "fail"))
        assert_message(caught.value)
    else:
        assert read_answer(reply, ("pass", "fail")) == probability


def test_a_reply_that_the_token_limit_ended_has_a_verdict_only_if_it_is_one_word(assert_message):
    cut = llm.ChatReply('{"REASONING": ["It does not fail', finish_reason="length")
    with pytest.raises(llm.CallFailure) as caught:
        read_answer(cut, ("pass", "fail"))
    assert_message(caught.value)

    assert read_answer(llm.ChatReply("Yes", finish_reason="length"), ("yes", "no")) == 1.0


@pytest.mark.parametrize("preset", ["lynx", "granite-guardian", "bespoke-minicheck"])
def test_blank_passages_send_no_request(preset):
    with (
        ChatServer("pass") as server,
        rb.Judge(type="classifier", preset=preset, base_url=server.url) as judge,
    ):
        verdict = judge.score(question="?", answer="a", contexts=["", " "])["supported"]

    assert (verdict.score, verdict.reasoning) == (0.0, "all passages are empty")
    assert server.counters.requests == 0


def _long(evidence):
    """A passage of 400 characters with its evidence at the end."""
    return ("It is old. " * 40)[: 400 - len(evidence)] + evidence


def test_a_server_reads_a_passage_that_is_too_long_in_windows():
    # Of 400 characters, windows of 250 and then of 156 fit into the 200 that the model reads

    def script(body):
        if any(len(passage) > 200 for passage, _ in body["inputs"]):
            message = "Input validation error: `inputs` must have less than 64 tokens. Given: 99"
            return Reply({"error": message, "error_type": "Validation"}, status=413)
        return _predict(body)

    with SearchServer(script) as server, _served(server) as judge:
        verdict = judge.score(answer="a", contexts=["It is red.", _long("in 1932.")])["supported"]

    lengths = [[len(passage) for passage, _ in body["inputs"]] for _, _, body in server.received]
    assert lengths == [[10, 400], [10], [400], [250], [156], [156], [250], [156], [156]]
    assert (verdict.score, verdict.reasoning[-10:]) == (0.875, " passage 2")


@pytest.mark.parametrize(
    ("preset", "outcome"), [("bespoke-minicheck", (1.0, "scored")), ("lynx", (None, "too_long"))]
)
def test_a_chat_model_reads_a_passage_alone_in_windows_and_all_passages_not(preset, outcome):
    def answers(body, times_asked):
        text = body["messages"][-1]["content"]
        if "It is old. " * 25 in text:
            return Answer("maximum context length is 64 tokens", status=400)
        return "Yes" if "1932" in text else "No"

    with (
        ChatServer(answers) as server,
        rb.Judge(type="classifier", preset=preset, base_url=server.url) as judge,
    ):
        verdict = judge.score(question="?", answer="a", contexts=[_long("1932")])["supported"]

    assert (verdict.score, verdict.cause) == outcome


def test_claims_are_split_by_the_chat_model_and_checked_by_the_classifier():
    # Two claims with 0.875 and 0.25: the expected share is 0.5625
    script = Script(split=lambda n, text: ["It opened in 1932.", "It is red."])

    def predict(body):
        return [
            [{"label": "entailment", "score": 0.875 if "1932" in p and "1932" in t else 0.25}]
            for p, t in body["inputs"]
        ]

    with ChatServer(script) as chat, SearchServer(predict) as server:
        splitter = {"model": "chat", "base_url": chat.url}
        with _served(server, rubrics=["faithfulness", "supported"], splitter=splitter) as judge:
            verdicts = judge.score(**ROW)
            parts = judge._judge.signature_parts(judge.rubrics[0])

    verdict = verdicts["faithfulness"]
    assert script.kinds == ["sentence"]
    assert verdict.score == pytest.approx(0.5625)
    assert [(c.text, c.ruling, c.passages, c.probability) for c in verdict.claims] == [
        ("It opened in 1932.", "supported", (2,), 0.875),
        ("It is red.", "not_mentioned", (), 0.25),
    ]
    assert verdicts["supported"].score == 0.875
    assert (parts["splitter"], parts["temperature"]) == ("chat", 0.0)
    assert "splitter" not in judge._judge.signature_parts(load_rubric("supported"))


@pytest.mark.slow
def test_a_local_model_checks_the_claims_of_a_chat_model(tiny_nli):
    from sentence_transformers import CrossEncoder

    passages = ["the cat sat", "a dog ran"]
    claims = ["the cat sat on the mat", "the mats ran!"]
    model = CrossEncoder(tiny_nli, device="cpu")
    best = [
        max(model.predict([(p, c) for p in passages], apply_softmax=True)[:, 1]) for c in claims
    ]
    with ChatServer(Script(split=lambda n, text: claims)) as chat:
        splitter = {"model": "chat", "base_url": chat.url}
        options = {"type": "classifier", "rubrics": ["faithfulness"], "splitter": splitter}
        with rb.Judge(tiny_nli, **options) as judge:
            verdict = judge.score(question="?", answer="a cat.", contexts=passages)["faithfulness"]

    assert verdict.score == pytest.approx(sum(best) / 2, abs=1e-5)


def test_faithfulness_without_a_chat_model_is_refused_with_the_way_out(assert_message):
    with SearchServer(_predict) as server, pytest.raises(OptionError) as caught:
        _served(server, rubrics=["faithfulness"])

    assert_message(caught.value)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"preset": "lynx"}, "classifier: base_url"),
        (
            {"preset": "hhem", "base_url": "http://h"},
            "classifier: preset",
        ),
        ({"model": "m", "base_url": "h"}, "classifier: url"),
        ({"model": "m", "splitter": {}}, "classifier: splitter: model"),
        ({"model": "chat", "splitter": SPLITTER}, "classifier: splitter: model"),
        ({"model": "m", "splitter": {**SPLITTER, "samples": 3}}, "classifier: splitter: options"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        rb.Judge(type="classifier", **options)
    assert_message(caught.value, place)


def test_a_rehearsal_counts_the_requests_and_sends_none():
    # A request for each of two passages of three answers
    judge = Classifier(preset="bespoke-minicheck", base_url="http://127.0.0.1:9/v1")
    items = [JudgedItem(**{**ROW, "answer": answer}) for answer in ("In 1932.", "Ever.", "No.")]

    estimate = rehearse(judge, items, [load_rubric("supported")])

    assert estimate.calls == (6.0, 6.0)


@pytest.mark.costly
def test_in_an_experiment_the_config_is_checked_and_scored(tmp_path):
    rows = [{"id": "a", **ROW}, {"id": "b", **ROW, "contexts": PASSAGES[:1]}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with SearchServer(_predict) as server:
        url = server.url.removesuffix("/search")
        result = rb.run_experiment(
            {
                "name": "served",
                "dataset": {"type": "records", "path": str(tmp_path / "r.jsonl")},
                "metrics": {"judge": {"type": "classifier", "model": "m", "base_url": url}},
                "output": str(tmp_path / "runs"),
                "cache": str(tmp_path / "cache"),
            }
        )

    [system] = result.summary["systems"]
    assert system["scores"]["supported"]["mean"] == pytest.approx((0.875 + 0.25) / 2)
    assert "|judge:classifier|model:m" in system["scores"]["supported"]["signature"]
