"""Calls and input tokens of a judge per item, by the number of passages, beside those of others.

    python benchmarks/judge_calls.py [--peers PYTHON]

One item is judged on a scripted server. It counts requests, and what they send in words and signs,
spaces included, which is about twice the tokens of a model. Every answer has the form that is asked
for, each list three parts. Bars: at 10 passages 2 calls for faithfulness, 6 for the usual four
rubrics, 9 for seven, and no more at 20.

`--peers` is the Python of another environment in which ragas or deepeval are installed; the same
item goes through those metrics of theirs that have the same purpose, on the same server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from bars import Bars

KS = (1, 5, 10, 20)
USUAL = ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
SETS = {
    "faithfulness": USUAL[:1],
    "the usual four": USUAL,
    "seven": (*USUAL, "correctness", "noise_sensitivity", "hallucination"),
}
BARS = {"faithfulness": 2, "the usual four": 6, "seven": 9}  # calls at k = 10
PEERS = ("ragas", "deepeval")
QUESTION = "When was the harbour bridge opened, who designed it, and how long did the work take?"
ANSWER = "It was opened on 3 May 1932. Anna Lindqvist designed it. The work took six years."
REFERENCE = (
    "The bridge, designed by Anna Lindqvist, was opened in May 1932 after six years of work."
)
FILLER = (
    "The quay has a fish market, two ferries and a lighthouse; in winter the market moves to the "
    "square, and the ferries leave once an hour. "
)


def passages(k: int) -> list[str]:
    """So many passages of about a hundred words, each another."""
    return [f"{number}. The harbour bridge was opened in 1932. {FILLER * 4}" for number in range(k)]


def filled(schema: Mapping[str, Any], top: Mapping[str, Any], name: str = "") -> Any:
    """A value of a JSON schema; a list has three parts, a list of numbers one."""
    if "$ref" in schema:
        return filled(top["$defs"][schema["$ref"].rpartition("/")[2]], top, name)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    for key in ("anyOf", "allOf"):
        if key in schema:
            return filled(schema[key][0], top, name)
    kind = schema.get("type")
    if kind == "object":
        return {key: filled(part, top, key) for key, part in schema.get("properties", {}).items()}
    if kind == "array":
        many = 1 if schema["items"].get("type") in ("integer", "number") else 3
        return [filled(schema["items"], top, name) for _ in range(many)]
    text = "yes" if name == "verdict" else "The harbour bridge was opened in 1932."
    return {"integer": 1, "number": 1, "boolean": True}.get(str(kind), text)


def asked_schema(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a request asks for: its response format, or the one in its words."""
    response_schema = (body.get("response_format") or {}).get("json_schema")
    if response_schema:
        schema: Mapping[str, Any] = response_schema["schema"]
        return schema
    text = "\n".join(str(message["content"]) for message in body["messages"])
    start = text.rfind("JSON Schema:")
    if start < 0:
        return {}
    parsed: Mapping[str, Any] = json.JSONDecoder().raw_decode(text, text.index("{", start))[0]
    return parsed


def script(body: Mapping[str, Any], times_asked: int) -> str:
    schema = asked_schema(body)
    if not schema:  # a score in words, as G-Eval asks for it
        return json.dumps({"reason": "It does.", "score": 8})
    return json.dumps(filled(schema, schema))


def sent(server: Any, already: int) -> tuple[int, int]:
    """Requests since so many, and the words and signs of their messages."""
    from tests.chat_server.answers import Answer, usage

    new = list(server.received)[already:]
    chats = [one.body for one in new if one.path.endswith("/chat/completions")]
    return len(chats), sum(usage(body, Answer())["prompt_tokens"] for body in chats)


def count_ours(k: int, rubrics: tuple[str, ...], **options: Any) -> tuple[int, int]:
    from ragbench.score.judge.judge import Judge
    from tests.chat_server import ChatServer

    with (
        ChatServer(script) as server,
        Judge("m", rubrics, base_url=server.url, **options) as judge,
    ):
        verdicts = judge.score(
            question=QUESTION, answer=ANSWER, contexts=passages(k), reference=REFERENCE
        )
        assert {verdict.status for verdict in verdicts.values()} == {"scored"}, verdicts
        return sent(server, 0)


def of_peer(python: str, peer: str, k: int) -> dict[str, tuple[int, int]] | str:
    """Metric -> its calls and tokens; why not, where the peer does not run."""
    from tests.chat_server import ChatServer

    with ChatServer(script) as server:
        environment = {**os.environ, "OPENAI_API_KEY": "none", "PYTHONPATH": ""}
        command = [python, __file__, "--inside", peer, server.url, str(k)]
        counts: dict[str, tuple[int, int]] = {}
        with subprocess.Popen(
            command,
            env={**environment, "DEEPEVAL_TELEMETRY_OPT_OUT": "1", "RAGAS_DO_NOT_TRACK": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            already = 0
            for line in process.stdout:  # a metric has ended, and waits until it is counted
                if not line.startswith("done "):
                    continue
                counts[line.split(maxsplit=1)[1].strip()] = sent(server, already)
                already = len(server.received)
                process.stdin.write("go on\n")
                process.stdin.flush()
            assert process.stderr is not None
            errors = process.stderr.read()
    if process.returncode:
        return errors.strip().rpartition("\n")[2]
    return counts


def inside(peer: str, url: str, k: int) -> None:
    """Run a peer's metrics one by one, in its own environment; its versions are those installed."""
    metrics = _ragas(url, k) if peer == "ragas" else _deepeval(url, k)
    for name, run in metrics.items():
        run()
        print("done", name, flush=True)
        sys.stdin.readline()


def _ragas(url: str, k: int) -> dict[str, Any]:
    import asyncio
    import warnings

    warnings.simplefilter("ignore")
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_openai import ChatOpenAI
    from ragas import metrics as m
    from ragas.dataset_schema import SingleTurnSample
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.llms import LangchainLLMWrapper

    llm = LangchainLLMWrapper(ChatOpenAI(model="m", base_url=url, api_key="none"))
    vectors = LangchainEmbeddingsWrapper(DeterministicFakeEmbedding(size=8))
    sample = SingleTurnSample(
        user_input=QUESTION, response=ANSWER, retrieved_contexts=passages(k), reference=REFERENCE
    )
    metrics = {
        "faithfulness": m.Faithfulness(llm=llm),
        "answer_relevancy": m.ResponseRelevancy(llm=llm, embeddings=vectors),
        "context_precision": m.LLMContextPrecisionWithReference(llm=llm),
        "context_recall": m.LLMContextRecall(llm=llm),
        "correctness": m.FactualCorrectness(llm=llm),
        "noise_sensitivity": m.NoiseSensitivity(llm=llm),
    }
    loop = asyncio.new_event_loop()  # one for all: with another its client would send twice
    return {
        name: lambda metric=metric: loop.run_until_complete(metric.single_turn_ascore(sample))
        for name, metric in metrics.items()
    }


def _deepeval(url: str, k: int) -> dict[str, Any]:
    from deepeval import metrics as m
    from deepeval.models import OpenAIModel
    from deepeval.test_case import LLMTestCase, SingleTurnParams

    model = OpenAIModel(
        "gpt-4o-mini",
        api_key="none",
        base_url=url,
        cost_per_input_token=0,
        cost_per_output_token=0,
    )
    case = LLMTestCase(
        input=QUESTION,
        actual_output=ANSWER,
        expected_output=REFERENCE,
        retrieval_context=passages(k),
        context=passages(k),
    )
    parts = [SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT]
    correct = "Does the actual output say what the expected output says?"
    usual = {"model": model, "async_mode": False}
    metrics = {
        "faithfulness": m.FaithfulnessMetric(**usual),
        "answer_relevancy": m.AnswerRelevancyMetric(**usual),
        "context_precision": m.ContextualPrecisionMetric(**usual),
        "context_recall": m.ContextualRecallMetric(**usual),
        "correctness": m.GEval("correctness", evaluation_params=parts, criteria=correct, **usual),
        "hallucination": m.HallucinationMetric(**usual),
    }
    return {
        name: lambda metric=metric: metric.measure(case, _show_indicator=False)
        for name, metric in metrics.items()
    }


def report(name: str, rubrics: str, counts: Mapping[int, tuple[int, int]]) -> None:
    calls = " ".join(f"{counts[k][0]:>5}" for k in KS)
    tokens = " ".join(f"{counts[k][1]:>7,}" for k in KS)
    print(f"{name:28} {rubrics:16} {calls}   {tokens}")


def peers(python: str) -> None:
    for peer in PEERS:
        by_k = {k: of_peer(python, peer, k) for k in KS}
        failed = [outcome for outcome in by_k.values() if isinstance(outcome, str)]
        if failed:
            print(f"{peer} does not run there: {failed[0]}")
            continue
        counts = {k: outcome for k, outcome in by_k.items() if not isinstance(outcome, str)}
        for name, rubrics in SETS.items():
            absent = [rubric for rubric in rubrics if rubric not in counts[KS[0]]]
            sums = {
                k: (
                    sum(outcome[rubric][0] for rubric in rubrics if rubric in outcome),
                    sum(outcome[rubric][1] for rubric in rubrics if rubric in outcome),
                )
                for k, outcome in counts.items()
            }
            report(f"{peer}{' without' if absent else ''} {', '.join(absent)}", name, sums)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", help="the Python of an environment with ragas and deepeval")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.inside[0], options.inside[1], int(options.inside[2]))
        return
    print(f"{'one item':45} calls at k = {KS}    input tokens at those k")
    bars, calls = Bars(), {}
    for name, rubrics in SETS.items():
        counts = {k: count_ours(k, rubrics) for k in KS}
        report("ragbench", name, counts)
        calls[name] = counts[10][0], counts[20][0]
    for name, rubrics in SETS.items():
        report(
            "ragbench, passages: each",
            name,
            {k: count_ours(k, rubrics, passages="each") for k in KS},
        )
    if options.peers:
        peers(options.peers)
    for name, (of_ten, of_twenty) in calls.items():
        bars.check(
            f"{name}: {of_ten} calls at 10 passages, at most {BARS[name]}; {of_twenty} at 20, "
            "no more than at 10",
            of_ten <= BARS[name] and of_twenty == of_ten,
        )
    bars.exit()


if __name__ == "__main__":
    main()
