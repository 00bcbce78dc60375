"""Tasks of `make peers`, run in the environment of one peer: they import that peer alone.

    python peer_tasks.py TASK MODULE INPUTS.json RESULT.json URL

The result holds the values, CPU seconds, the peak of memory and each host beyond loopback that was
looked up or connected to, also where no network answered. A library that opens sockets in native
code or in another process is not seen.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Ranking measures by the names of pytrec_eval and of the peers.
MEASURES = {"ndcg_cut_10": "ndcg@10", "map": "map", "recall_5": "recall@5", "recip_rank": "mrr"}
# Gates whose decision takes long: pairs per world.
SLOW = {"regressgate": 100}
PASSED, FAILED, UNDECIDED = "pass", "fail", "undecided"


def reason(error: Exception) -> str:
    """Return the type of an error and the first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" *")]
    # colours of terminals, and addresses, which differ from run to run
    line = re.sub(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+", "", (lines or [""])[0])
    return f"{type(error).__name__}: {line}"[:120]


class Attempt:
    """Block in which a peer may raise anything: the error is a finding, and the block ends.

    Attributes:
        error: Reason of the error; empty without one.
    """

    error = ""

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        # Ctrl-C and the like are no findings
        if isinstance(error, Exception):
            self.error = reason(error)
        return isinstance(error, Exception)


def rank_pytrec_eval(data: Any) -> Any:
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(data["qrels"], set(MEASURES))
    return {
        query: {MEASURES[name]: values[name] for name in MEASURES}
        for query, values in evaluator.evaluate(data["run"]).items()
    }


def rank_ir_measures(data: Any) -> Any:
    import ir_measures

    names = {"nDCG@10": "ndcg@10", "AP": "map", "R@5": "recall@5", "RR": "mrr"}
    measures = [ir_measures.parse_measure(name) for name in names]
    values: dict[str, dict[str, float]] = {}
    for metric in ir_measures.iter_calc(measures, data["qrels"], data["run"]):
        values.setdefault(metric.query_id, {})[names[str(metric.measure)]] = metric.value
    return values


def rank_ranx(data: Any) -> Any:
    from ranx import Qrels, Run, evaluate

    run = Run(data["run"])
    evaluate(Qrels(data["qrels"]), run, list(MEASURES.values()), return_mean=False)
    return {
        query: {name: float(run.scores[name][query]) for name in MEASURES.values()}
        for query in data["run"]
    }


def rank_ragbench(data: Any) -> Any:
    import ragbench as rb

    result = rb.evaluate_run(data["run"], data["qrels"], list(MEASURES.values()))
    return {
        query: {name: result.per_query[name][query] for name in MEASURES.values()}
        for query in result.query_ids
    }


def rank(peer: str, data: Any, url: str) -> Any:
    """Return the values of all queries, and those of a judged query without a ranking."""
    score: Callable[[Any], Any] = globals()[f"rank_{peer}"]
    values = score(data["rankings"])
    unanswered: Any = None
    with Attempt() as attempt:
        unanswered = score(data["unanswered"]).get("q1", {}).get("ndcg@10", "left out")
    return {"values": values, "unanswered": attempt.error or unanswered}


def text_ragas(measure: str, prediction: str, reference: str) -> float:
    import ragas.metrics as metrics
    from ragas.dataset_schema import SingleTurnSample

    metric = metrics.BleuScore() if measure == "bleu" else metrics.RougeScore()
    sample = SingleTurnSample(response=prediction, reference=reference)
    return asyncio.run(metric.single_turn_ascore(sample))


def text_deepeval(measure: str, prediction: str, reference: str) -> float:
    from deepeval.scorer import Scorer

    if measure == "bleu":
        return Scorer.sentence_bleu_score([reference], prediction, "bleu4")
    return Scorer.rouge_score(reference, prediction, "rougeL")


def text_ragbench(measure: str, prediction: str, reference: str) -> float:
    import ragbench as rb

    if measure == "bleu":
        return rb.bleu(prediction, reference).score
    return rb.rouge(prediction, reference)["rougeL"].fmeasure


def text(peer: str, data: Any, url: str) -> Any:
    """Return BLEU and ROUGE-L of each pair, or the error of a measure."""
    score: Callable[[str, str, str], float] = globals()[f"text_{peer}"]
    values: dict[str, Any] = {}
    for measure in ("bleu", "rougeL"):
        with Attempt() as attempt:
            values[measure] = [float(score(measure, *pair)) for pair in data["texts"]]
        if attempt.error:
            values[measure] = attempt.error
    return values


def judge_ragas(data: Any, url: str) -> Any:
    from langchain_openai import ChatOpenAI
    from ragas import EvaluationDataset, RunConfig, evaluate
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import Faithfulness

    keys = {"question": "user_input", "answer": "response", "contexts": "retrieved_contexts"}
    rows = [{keys[key]: value for key, value in row.items()} for row in data]
    model = LangchainLLMWrapper(ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0))
    result = evaluate(
        EvaluationDataset.from_list(rows),
        [Faithfulness(llm=model)],
        run_config=RunConfig(timeout=30, max_retries=1),
        show_progress=False,
    )
    return {"mean": repr(result), "scores": [row["faithfulness"] for row in result.scores]}


def judge_deepeval(data: Any, url: str, go_on: bool = False) -> Any:
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models import OpenAIModel
    from deepeval.test_case import LLMTestCase

    model = OpenAIModel(
        "gpt-4o-mini",
        api_key="none",
        base_url=url,
        cost_per_input_token=0,
        cost_per_output_token=0,
    )
    cases = [
        LLMTestCase(
            input=row["question"], actual_output=row["answer"], retrieval_context=row["contexts"]
        )
        for row in data
    ]
    result = evaluate(
        cases,
        [FaithfulnessMetric(model=model, async_mode=False)],
        async_config=AsyncConfig(run_async=False),
        error_config=ErrorConfig(ignore_errors=go_on),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
    )
    metrics = [(test.metrics_data or [])[:1] for test in result.test_results]
    return {"mean": "", "scores": [one[0].score if one else None for one in metrics]}


def judge_phoenix(data: Any, url: str, go_on: bool = False) -> Any:
    import pandas
    from phoenix.evals import LLM, evaluate_dataframe
    from phoenix.evals.metrics import FaithfulnessEvaluator

    model = LLM(provider="openai", model="gpt-4o-mini", base_url=url, api_key="none")
    rows = [
        {"input": row["question"], "output": row["answer"], "context": row["contexts"][0]}
        for row in data
    ]
    table = evaluate_dataframe(
        pandas.DataFrame(rows), [FaithfulnessEvaluator(llm=model)], hide_tqdm_bar=True,
        exit_on_error=not go_on, max_retries=1,
    )  # fmt: skip
    column = table["faithfulness_score"]
    scores = [value["score"] if isinstance(value, dict) else None for value in column]
    return {"mean": "", "scores": scores}


def judge_ragbench(data: Any, url: str) -> Any:
    import ragbench as rb

    with rb.Judge("m", ["faithfulness"], base_url=url, retries=0) as judge:
        result = rb.evaluate(data, judge=judge)
    causes = sorted({cause for cause in result.causes["faithfulness"].values() if cause})
    scores = list(result.per_query["faithfulness"].values())
    return {"mean": repr(result), "scores": scores, "causes": causes}


# Peers that stop at the first failed judgement: the option that goes on.
GO_ON = {"deepeval": "ErrorConfig(ignore_errors=True)", "phoenix": "exit_on_error=False"}


def judge(peer: str, data: Any, url: str) -> Any:
    """Return, by option, the mean that a peer prints, its scores (None: no value), its causes."""
    score: Callable[..., Any] = globals()[f"judge_{peer}"]
    results = {}
    for option in ("", *([GO_ON[peer]] if peer in GO_ON else [])):
        with Attempt() as attempt:
            result = score(data["judged"], url, *([True] if option else []))
            values = [None if x is None or x != x else float(x) for x in result["scores"]]
            results[option] = {**result, "scores": values}
        if attempt.error:
            results[option] = {"error": attempt.error}
    return results


def gate_statgate(margin: float, pairs: Any) -> Iterator[str]:
    from statgate import GateSettings, evaluate_gate
    from statgate.records import EvalRecord

    names = {"SHIP": PASSED, "BLOCK": FAILED, "INCONCLUSIVE": UNDECIDED}
    for pair in pairs:
        files = [
            [EvalRecord(case_id=f"q{n}", passed=bool(hit)) for n, hit in enumerate(hits)]
            for hits in pair
        ]
        report = evaluate_gate(*files, GateSettings(margin=margin, seed=1))
        yield names[report.verdict.value]


def gate_regressgate(margin: float, pairs: Any) -> Iterator[str]:
    from regressgate import GateConfig, RunReport, compare_reports

    # a drop without evidence is a warning, exit code 0
    names = {"regression": FAILED, "warn": UNDECIDED}
    for pair in pairs:
        files = [
            RunReport.model_validate(
                {
                    "regressgate_version": "0.1.0",
                    "created_at": "",
                    "target": "",
                    "repeats": 1,
                    "cases": [
                        {"id": f"q{n}", "trials": [{"passed": bool(hit), "latency_s": 0}]}
                        for n, hit in enumerate(hits)
                    ],
                }
            )
            for hits in pair
        ]
        # its 10,000 permutations take over a second of CPU in pure Python
        config = GateConfig(margin=margin, permutations=1_000)
        yield names.get(compare_reports(*files, config).verdict, PASSED)


def gate_ragbench(margin: float, pairs: Any) -> Iterator[str]:
    import ragbench as rb

    qrels = {f"q{n}": {"d": 1} for n in range(len(pairs[0][0]))}
    for pair in pairs:
        old, new = (
            rb.evaluate_run(
                {f"q{n}": {"d" if hit else "x": 1.0} for n, hit in enumerate(hits)},
                qrels,
                ["hit_rate@1"],
            )
            for hits in pair
        )
        (gate,) = rb.check_gates(new, {"measure": "hit_rate@1", "max_drop": margin}, old)
        yield gate["verdict"]


def gate(peer: str, data: Any, url: str) -> Any:
    """Return the verdicts of the pairs of each world."""
    decide: Callable[[float, Any], Iterator[str]] = globals()[f"gate_{peer}"]
    margin, count = data["margin"], SLOW.get(peer)
    return {world: list(decide(margin, pairs[:count])) for world, pairs in data["pairs"].items()}


def start(module: str, data: Any, url: str) -> None:
    """Import the peer, and no more."""
    importlib.import_module(module)


TASKS: dict[str, Callable[[str, Any, str], Any]] = {
    "start": start, "rank": rank, "text": text, "judge": judge, "gate": gate,
}  # fmt: skip


def main() -> None:
    task, module, inputs, target, url = sys.argv[1:6]
    hosts: set[str] = set()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.getaddrinfo"):
            host = arguments[1] if event == "socket.connect" else arguments[0]
            host = host[0] if isinstance(host, tuple) else host
            name = host.decode() if isinstance(host, bytes) else str(host)
            if not name.startswith(("127.", "localhost", "::1", "/", "None")):
                hosts.add(name)

    sys.addaudithook(watch)
    result: dict[str, Any] = {}

    def save() -> None:
        Path(target).write_text(json.dumps({**result, "hosts": sorted(hosts)}), "utf-8")

    # registered first, so called last: after what a peer reports when the process ends
    atexit.register(save)
    begin = time.process_time()
    with Attempt() as attempt:
        data = json.loads(Path(inputs).read_text("utf-8"))
        peer = module if task == "start" else module.partition(".")[0]
        result["values"] = TASKS[task](peer, data, url)
    if attempt.error:
        result["error"] = attempt.error
    result["cpu_s"] = time.process_time() - begin
    scale = 1 if sys.platform == "darwin" else 1024
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6


if __name__ == "__main__":
    main()
