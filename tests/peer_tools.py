"""Stand-ins for ragas, deepeval and langchain_openai, with the public attributes of their objects.

Neither tool is a dependency of the tests. The attributes are those of ragas 0.4.3 and deepeval
4.3.1.
"""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.lazy import Lazy

openai = Lazy("openai")

# Fields of a sample of ragas and of a test case of deepeval.
SAMPLE = [
    *("user_input", "retrieved_contexts", "reference_contexts", "retrieved_context_ids"),
    *("reference_context_ids", "response", "multi_responses", "reference", "rubrics"),
    *("persona_name", "query_style", "query_length"),
]
CASE = [
    *("input", "actual_output", "expected_output", "context", "retrieval_context", "metadata"),
    *("tools_called", "comments", "expected_tools", "token_cost", "completion_time", "name"),
    "tags",
]


def record(class_name: str, names: list[str], **defaults: Any) -> type:
    """Return a class whose objects have all fields, as those of pydantic do."""

    def create(self: Any, **fields: Any) -> None:
        vars(self).update({**dict.fromkeys(names), **defaults, **fields})

    def dump(self: Any) -> dict[str, Any]:
        return dict(vars(self))

    return type(class_name, (), {"__init__": create, "model_dump": dump})


SingleTurnSample = record("SingleTurnSample", SAMPLE)
LLMTestCase = record("LLMTestCase", CASE, flaky=False, multimodal=False)


class Samples:
    """`EvaluationDataset` of ragas."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    @classmethod
    def from_list(cls, rows: list[dict[str, Any]]) -> Samples:
        return cls([SingleTurnSample(**row) for row in rows])

    def to_list(self) -> list[dict[str, Any]]:
        rows = [sample.model_dump() for sample in self.samples]
        return [{key: value for key, value in row.items() if value is not None} for row in rows]


class Cases:
    """`EvaluationDataset` of deepeval."""

    def __init__(self, goldens: list[Any] | None = None) -> None:
        self.goldens, self.test_cases = goldens or [], []

    def add_test_case(self, case: Any) -> None:
        self.test_cases.append(case)


def ragas_metric(class_name: str, name: str, **defaults: Any) -> type:
    """Return a class of metrics with a name; their text is long, as it has the prompt."""

    def create(self: Any, **options: Any) -> None:
        vars(self).update({"name": name, "llm": None, **defaults, **options})

    def text(self: Any) -> str:
        return f"{class_name}(name={self.name!r}, prompt={'Given a text, do so. ' * 40!r})"

    return type(class_name, (), {"__init__": create, "__repr__": text})


def deepeval_metric(class_name: str, heading: str) -> type:
    """Return a class of metrics whose heading is `__name__`, with a threshold and a model."""

    def create(self: Any, threshold: float = 0.5, model: str = "gpt-5.4", **options: Any) -> None:
        self.threshold, self.evaluation_model = threshold, model
        vars(self).update(options)

    return type(class_name, (), {"__init__": create, "__name__": property(lambda self: heading)})


class GEval:
    """Metric of deepeval with criteria of the user."""

    def __init__(self, name: str, threshold: float = 0.5, **options: Any) -> None:
        self.name, self.threshold = name, threshold
        self.criteria = options.get("criteria")
        self.evaluation_steps = options.get("evaluation_steps")
        self.evaluation_params = options.get("evaluation_params")

    @property
    def __name__(self) -> str:
        return f"{self.name} [GEval]"


class ChatOpenAI:
    """Chat model of LangChain, which sends its messages over HTTP."""

    def __init__(self, model: str) -> None:
        self.model_name = model

    def invoke(self, messages: list[dict[str, Any]]) -> str:
        schema = json.loads(messages[-1]["content"].rpartition("JSON schema:\n")[2])
        with openai.OpenAI() as client:
            reply = client.chat.completions.create(
                model=self.model_name,
                messages=messages,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "schema": schema},
                },
            )
        return str(reply.choices[0].message.content)


def llm_factory(model: str, client: Any) -> SimpleNamespace:
    """Return a model as ragas 0.4 creates it: a client of instructor around that of openai."""
    return SimpleNamespace(model=model, client=SimpleNamespace(client=client), model_args={})


PARAMS = SimpleNamespace(
    **{name.upper(): SimpleNamespace(value=name) for name in CASE[:5]},
)
RAGAS = {
    "ragas": {"EvaluationDataset": Samples, "SingleTurnSample": SingleTurnSample},
    "ragas.llms": {
        "LangchainLLMWrapper": lambda model: SimpleNamespace(langchain_llm=model),
        "llm_factory": llm_factory,
    },
    "ragas.metrics": {
        "AspectCritic": ragas_metric("AspectCritic", "aspect"),
        "BleuScore": ragas_metric("BleuScore", "bleu_score"),
        "ExactMatch": ragas_metric("ExactMatch", "exact_match"),
        "FactualCorrectness": ragas_metric("FactualCorrectness", "factual_correctness", mode="f1"),
        "Faithfulness": ragas_metric("Faithfulness", "faithfulness"),
        "IDBasedContextPrecision": ragas_metric("IDBased", "id_based_context_precision"),
        "IDBasedContextRecall": ragas_metric("IDBased", "id_based_context_recall"),
        "LLMContextPrecisionWithoutReference": ragas_metric(
            "LLMContextPrecisionWithoutReference", "llm_context_precision_without_reference"
        ),
        "LLMContextRecall": ragas_metric("LLMContextRecall", "context_recall"),
        "NoiseSensitivity": ragas_metric("NoiseSensitivity", "noise_sensitivity", mode="relevant"),
        "ResponseRelevancy": ragas_metric("ResponseRelevancy", "answer_relevancy"),
        "RougeScore": ragas_metric(
            "RougeScore", "rouge_score", rouge_type="rougeL", mode="fmeasure"
        ),
        "StringPresence": ragas_metric("StringPresence", "string_present"),
        "answer_relevancy": ragas_metric("AnswerRelevancy", "answer_relevancy")(),
        "context_precision": ragas_metric("ContextPrecision", "context_precision")(),
        "faithfulness": ragas_metric("Faithfulness", "faithfulness")(),
    },
    "ragas.run_config": {"RunConfig": lambda **options: SimpleNamespace(**options)},
    "langchain_openai": {"ChatOpenAI": ChatOpenAI, "OpenAIEmbeddings": SimpleNamespace},
}
DEEPEVAL = {
    "deepeval": {},
    "deepeval.dataset": {"EvaluationDataset": Cases},
    "deepeval.evaluate": {"AsyncConfig": SimpleNamespace, "DisplayConfig": SimpleNamespace},
    "deepeval.metrics": {
        "GEval": GEval,
        **{
            f"{''.join(heading.split())}Metric": deepeval_metric(
                f"{''.join(heading.split())}Metric", heading
            )
            for heading in (
                "Answer Relevancy", "Bias", "Contextual Precision", "Contextual Recall",
                "Contextual Relevancy", "Exact Match", "Faithfulness", "Hallucination",
                "Summarization", "Tool Correctness",
            )
        },
    },
    "deepeval.test_case": {
        "LLMTestCase": LLMTestCase,
        "LLMTestCaseParams": PARAMS,
        "ToolCall": lambda name, input_parameters=None: {
            "name": name,
            "input_parameters": input_parameters,
        },
    },
}  # fmt: skip


def install(monkeypatch: Any) -> None:
    """Make the stand-ins importable for the time of a test."""
    for name, members in {**RAGAS, **DEEPEVAL}.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
