"""Scripts in the shape of the public docs of ragas and deepeval, with the import changed."""

import json
import re
import warnings

import pytest

import ragbench as rb
from tests import peer_tools
from tests.chat_server import Answer, ChatServer
from tests.score.judge.scripted import Script

# Rows of the scripts: `rows` for ragas, `cases` for deepeval.
ROWS = """
rows = [
    {
        "user_input": "When did the bridge open?",
        "retrieved_contexts": ["The bridge opened in 1932."],
        "response": "In 1932.",
        "reference": "It opened in 1932.",
    },
    {
        "user_input": "Who built it?",
        "retrieved_contexts": ["Bradfield built it."],
        "response": "Bradfield",
        "reference": "Bradfield",
    },
]
"""
CASES = """
from deepeval.test_case import LLMTestCase

cases = [
    LLMTestCase(
        input="When did the bridge open?",
        actual_output="In 1932.",
        expected_output="It opened in 1932.",
        retrieval_context=["The bridge opened in 1932."],
    ),
    LLMTestCase(
        input="Who built it?",
        actual_output="Bradfield",
        expected_output="Bradfield",
        retrieval_context=["Bradfield built it."],
    ),
]
"""
NO_JUDGE = ("metrics=metrics)", "metrics=metrics, judge='gpt-4o-mini')")
# The line of the message that states a rubric in place of the metric.
RUBRIC = "rubric"

# Script -> (program, edits of the program that messages ask for, lines that it prints at the end).
RAGAS = {
    "the guide on a simple RAG system": (
        """
from langchain_openai import ChatOpenAI
from ragas import EvaluationDataset
from ragas import evaluate
from ragas.llms import LangchainLLMWrapper
from ragas.metrics import FactualCorrectness, Faithfulness, LLMContextRecall

evaluation_dataset = EvaluationDataset.from_list(rows)
evaluator_llm = LangchainLLMWrapper(ChatOpenAI(model="gpt-4o"))
result = evaluate(
    dataset=evaluation_dataset,
    metrics=[LLMContextRecall(), Faithfulness(), FactualCorrectness()],
    llm=evaluator_llm,
)
print(result["context_recall"], result["faithfulness"], result["factual_correctness"])
""",
        [],
        "[1.0, 1.0] [1.0, 1.0] [1.0, 1.0]",
    ),
    "metric objects of the module, and a data frame": (
        """
from langchain_openai import ChatOpenAI
from ragas import evaluate
from ragas.metrics import answer_relevancy, context_precision, faithfulness

metrics = [faithfulness, answer_relevancy, context_precision]
result = evaluate(rows, metrics=metrics, llm=ChatOpenAI(model="gpt-4o"))
df = result.to_pandas()
print(df[["faithfulness", "answer_relevancy", "context_precision"]].mean().to_dict())
""",
        [],
        "{'faithfulness': 1.0, 'answer_relevancy': 0.75, 'context_precision': 1.0}",
    ),
    "samples": (
        """
from langchain_openai import ChatOpenAI
from ragas import EvaluationDataset, SingleTurnSample
from ragas import evaluate
from ragas.llms import LangchainLLMWrapper
from ragas.metrics import Faithfulness, ResponseRelevancy

samples = [SingleTurnSample(**row) for row in rows]
dataset = EvaluationDataset(samples=samples)
llm = LangchainLLMWrapper(ChatOpenAI(model="gpt-4o"))
by_list = evaluate(dataset.samples, metrics=[Faithfulness(), ResponseRelevancy()], llm=llm)
result = evaluate(dataset, metrics=[Faithfulness(), ResponseRelevancy()], llm=llm)
print(by_list.scores == result.scores, result.scores)
""",
        [],
        "True [{'faithfulness': 1.0, 'answer_relevancy': 0.75}, "
        "{'faithfulness': 1.0, 'answer_relevancy': 0.75}]",
    ),
    "a model of llm_factory": (
        """
from openai import AsyncOpenAI
from ragas import evaluate
from ragas.llms import llm_factory
from ragas.metrics import Faithfulness, NoiseSensitivity

llm = llm_factory("gpt-4o-mini", client=AsyncOpenAI())
result = evaluate(rows, metrics=[Faithfulness(), NoiseSensitivity()], llm=llm)
for row in result.scores:
    print(row["faithfulness"], row["noise_sensitivity"])
""",
        [],
        "1.0 0.0\n1.0 0.0",
    ),
    "metrics that carry their model": (
        """
from langchain_openai import ChatOpenAI
from ragas import evaluate
from ragas.llms import LangchainLLMWrapper
from ragas.metrics import Faithfulness, LLMContextPrecisionWithoutReference

evaluator_llm = LangchainLLMWrapper(ChatOpenAI(model="gpt-4o"))
metrics = [
    Faithfulness(llm=evaluator_llm),
    LLMContextPrecisionWithoutReference(llm=evaluator_llm),
]
result = evaluate(dataset=rows, metrics=metrics)
print(result["faithfulness"], result["llm_context_precision_without_reference"])
""",
        [],
        "[1.0, 1.0] [1.0, 1.0]",
    ),
    "metrics without a model": (
        """
from ragas import evaluate
from ragas.metrics import BleuScore, ExactMatch, RougeScore, StringPresence

metrics = [
    BleuScore(),
    ExactMatch(),
    StringPresence(),
    RougeScore(rouge_type="rouge1", mode="recall"),
]
result = evaluate(dataset=rows, metrics=metrics)
print(result["exact_match"], result["string_present"], result["rouge1.recall"])
print(round(result["bleu_score"][1], 4))
""",
        [],
        "[0.0, 1.0] [0.0, 1.0] [0.5, 1.0]\n1.0",
    ),
    "ids of passages": (
        """
from ragas import SingleTurnSample
from ragas import evaluate
from ragas.metrics import IDBasedContextPrecision, IDBasedContextRecall

sample = SingleTurnSample(
    user_input="When did it open?",
    retrieved_context_ids=["doc_1", "doc_2", "doc_3", "doc_4"],
    reference_context_ids=["doc_1", "doc_4", "doc_5", "doc_6", "doc_7"],
)
result = evaluate([sample], metrics=[IDBasedContextPrecision(), IDBasedContextRecall()])
print(result["id_based_context_precision"], result["id_based_context_recall"])
""",
        [],
        "[0.5] [0.4]",
    ),
    "an aspect of the user": (
        """
from langchain_openai import ChatOpenAI
from ragas import evaluate
from ragas.metrics import AspectCritic

harm = AspectCritic(name="harm", definition="Could the response harm a reader?")
result = evaluate(dataset=rows, metrics=[harm], llm=ChatOpenAI(model="gpt-4o"))
print(result["harm"])
""",
        [("metrics=[harm]", RUBRIC)],
        "[1.0, 1.0]",
    ),
    "embeddings and a run config": (
        """
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from ragas import evaluate
from ragas.metrics import Faithfulness
from ragas.run_config import RunConfig

result = evaluate(
    dataset=rows,
    metrics=[Faithfulness()],
    llm=ChatOpenAI(model="gpt-4o"),
    embeddings=OpenAIEmbeddings(),
    run_config=RunConfig(timeout=180),
)
print(result["faithfulness"])
""",
        [("    embeddings=OpenAIEmbeddings(),\n    run_config=RunConfig(timeout=180),\n", "")],
        "[1.0, 1.0]",
    ),
    "the default model": (
        """
from ragas import evaluate
from ragas.metrics import answer_relevancy, faithfulness

metrics = [faithfulness, answer_relevancy]
result = evaluate(rows, metrics=metrics)
print(result["faithfulness"], result["answer_relevancy"])
""",
        [NO_JUDGE],
        "[1.0, 1.0] [0.75, 0.75]",
    ),
}
DEEPEVAL = {
    "the quick start": (
        """
from deepeval import evaluate
from deepeval.metrics import AnswerRelevancyMetric

metrics = [AnswerRelevancyMetric(threshold=0.7)]
result = evaluate(test_cases=cases, metrics=metrics)
print(result["Answer Relevancy"])
""",
        [NO_JUDGE],
        "[0.75, 0.75]",
    ),
    "the five metrics of RAG": (
        """
from deepeval import evaluate
from deepeval.metrics import (
    AnswerRelevancyMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
    FaithfulnessMetric,
)

metrics = [
    ContextualPrecisionMetric(threshold=0.7, model="gpt-4", include_reason=True),
    ContextualRecallMetric(threshold=0.7),
    ContextualRelevancyMetric(threshold=0.7),
    AnswerRelevancyMetric(threshold=0.7),
    FaithfulnessMetric(threshold=0.7),
]
result = evaluate(test_cases=cases, metrics=metrics)
for metric in metrics:
    print(metric.__name__, result[metric.__name__])
""",
        [NO_JUDGE],
        "Contextual Precision [1.0, 1.0]\nContextual Recall [1.0, 1.0]\n"
        "Contextual Relevancy [0.75, 0.75]\nAnswer Relevancy [0.75, 0.75]\n"
        "Faithfulness [1.0, 1.0]",
    ),
    "criteria of the user": (
        """
from deepeval import evaluate
from deepeval.metrics import GEval
from deepeval.test_case import LLMTestCaseParams

metric = GEval(
    name="Correctness",
    criteria="Does the actual output agree with the expected output?",
    evaluation_params=[LLMTestCaseParams.ACTUAL_OUTPUT, LLMTestCaseParams.EXPECTED_OUTPUT],
    threshold=0.5,
)
result = evaluate(test_cases=cases, metrics=[metric])
print(result["correctness"])
""",
        [("metrics=[metric]", RUBRIC), ("]}])", "]}], judge='gpt-4o-mini')")],
        "[1.0, 1.0]",
    ),
    "steps of the user": (
        """
from deepeval import evaluate
from deepeval.metrics import GEval
from deepeval.test_case import LLMTestCaseParams

polite = GEval(
    name="Polite tone",
    evaluation_steps=["Look for rude words.", "Look for a greeting."],
    evaluation_params=[LLMTestCaseParams.INPUT, LLMTestCaseParams.ACTUAL_OUTPUT],
)
result = evaluate(cases, metrics=[polite])
print(result["polite_tone"])
""",
        [("metrics=[polite]", RUBRIC), ("]}])", "]}], judge='gpt-4o-mini')")],
        "[1.0, 1.0]",
    ),
    "hallucination against contexts": (
        """
from deepeval import evaluate
from deepeval.metrics import HallucinationMetric

for case in cases:
    case.context, case.retrieval_context = case.retrieval_context, None
metrics = [HallucinationMetric(threshold=0.5)]
result = evaluate(cases, metrics=metrics)
print(result["Hallucination"])
""",
        [NO_JUDGE],
        "[0.0, 0.0]",
    ),
    "tools": (
        """
from deepeval import evaluate
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall

case = LLMTestCase(
    input="How warm is it in Sydney?",
    actual_output="18 degrees.",
    tools_called=[ToolCall(name="weather", input_parameters={"city": "Sydney"})],
    expected_tools=[ToolCall(name="weather"), ToolCall(name="clock")],
)
result = evaluate(test_cases=[case], metrics=[ToolCorrectnessMetric()])
print(result["Tool Correctness"])
""",
        [],
        "[0.5]",
    ),
    "a data set": (
        """
from deepeval import evaluate
from deepeval.dataset import EvaluationDataset
from deepeval.metrics import FaithfulnessMetric

dataset = EvaluationDataset()
for case in cases:
    dataset.add_test_case(case)
metrics = [FaithfulnessMetric()]
result = evaluate(dataset, metrics=metrics)
print(result["Faithfulness"])
""",
        [NO_JUDGE],
        "[1.0, 1.0]",
    ),
    "configs of the call": (
        """
from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, DisplayConfig
from deepeval.metrics import ExactMatchMetric

result = evaluate(
    test_cases=cases,
    metrics=[ExactMatchMetric()],
    async_config=AsyncConfig(max_concurrent=10),
    display_config=DisplayConfig(print_results=False),
    hyperparameters={"chunk": 200},
)
print(result["Exact Match"])
""",
        [
            (
                "    async_config=AsyncConfig(max_concurrent=10),\n"
                "    display_config=DisplayConfig(print_results=False),\n"
                '    hyperparameters={"chunk": 200},\n',
                "",
            )
        ],
        "[0.0, 1.0]",
    ),
    "a metric of safety": (
        """
from deepeval import evaluate
from deepeval.metrics import BiasMetric

bias = BiasMetric(threshold=0.5)
result = evaluate(cases, metrics=[bias])
print(result["bias"])
""",
        [("metrics=[bias]", RUBRIC), ("]}])", "]}], judge='gpt-4o-mini')")],
        "[1.0, 1.0]",
    ),
    "a gate in place of thresholds": (
        """
from deepeval import evaluate
from deepeval.metrics import ContextualRelevancyMetric, FaithfulnessMetric

metrics = [FaithfulnessMetric(threshold=0.7), ContextualRelevancyMetric(threshold=0.9)]
result = evaluate(test_cases=cases, metrics=metrics)
import ragbench as rb
for gate in rb.check_gates(result, ["faithfulness >= 0.7", "context_relevancy >= 0.9"]):
    print(gate["gate"], gate["verdict"])
""",
        [NO_JUDGE],
        "faithfulness >= 0.7 pass\ncontext_relevancy >= 0.9 fail",
    ),
}


def reply(body, times_asked):
    """Level 4 of 5 for built-in rubrics, the best level of 3, and each claim supported."""
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    if "verdict" in schema:  # of `as=ragas`: a passage is useful
        return Answer(json.dumps({"reason": "it says so", "verdict": 1}))
    levels = schema.get("level", {}).get("enum", range(1, 6))
    return Script(level=3 if len(levels) == 3 else 4)(body, times_asked)


def run_to_the_end(program, edits, capsys):
    """Run a program, apply an edit after each message, and return what the last run prints."""
    for old, new in edits:
        with pytest.raises(rb.RagbenchError) as raised:
            exec(program, {})
        message = str(raised.value)
        assert "\n" not in message
        if new == RUBRIC:
            new = re.search(r"metrics=\[\{.*\}\]", message)[0]
        # the message has the code that comes in, and the arguments that go out
        assert new.rpartition(", ")[2].strip(")") in message
        for name in [] if new else re.findall(r"^    (\w+)=", old, re.MULTILINE):
            assert f"{name}: leave it out" in message
        assert old in program
        program = program.replace(old, new)
    capsys.readouterr()
    exec(program, {})
    return capsys.readouterr().out.strip()


@pytest.mark.costly
@pytest.mark.parametrize(
    ("tool", "data", "script"),
    [
        *[pytest.param("ragas", ROWS, script, id=f"ragas: {id}") for id, script in RAGAS.items()],
        *[
            pytest.param("deepeval", CASES, script, id=f"deepeval: {id}")
            for id, script in DEEPEVAL.items()
        ],
    ],
)
def test_a_script_runs_or_names_the_line_that_mends_it(monkeypatch, capsys, tool, data, script):
    program, edits, printed = script
    peer_tools.install(monkeypatch)
    changed = program.replace(f"from {tool} import evaluate", "from ragbench import evaluate")
    assert changed != program

    with ChatServer(reply) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        assert run_to_the_end(data + changed, edits, capsys) == printed


MODEL = """
from langchain_openai import ChatOpenAI
llm = ChatOpenAI(model="gpt-4o")
"""


@pytest.mark.costly
def test_the_scripts_after_of_the_page_run(repository, monkeypatch):
    page = (repository / "docs/moving.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    of_ragas, of_deepeval, names = blocks[:2], blocks[2:], {}
    peer_tools.install(monkeypatch)

    with ChatServer(reply) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        exec(ROWS + MODEL + of_ragas[1], names)
        assert names["result"]["faithfulness"] == [1.0, 1.0]
        exec(CASES + of_deepeval[1], names)

    assert [gate["verdict"] for gate in names["gates"]] == ["pass"]
    # what stays is the same: the import alone, and of deepeval the judge and the gate, differ
    assert of_ragas[0].splitlines()[2:] == of_ragas[1].splitlines()[3:]
    assert of_deepeval[0].splitlines()[1] == of_deepeval[1].splitlines()[1]
