"""The metrics of ragas by its formulas: equal replies give what ragas 0.4.3 gave for them."""

import json
import re
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.published import RAGAS, ragas_precision
from ragbench.score.judge.rubric import load_rubric
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer

ROW = {
    "question": "When did the bridge open, and what colour is it?",
    "answer": "The bridge opened in 1932. The bridge is green. It is made of steel. It is long.",
    "contexts": ["No bananas.", "It opened in 1932.", "Paint: green, on steel.", "Not far."],
    "reference": "The bridge opened in 1932. The bridge is red. It is made of steel.",
}
QUESTIONS = [
    {"question": "When did the bridge open?", "noncommittal": 0},
    {"question": "What is it made of?", "noncommittal": 1},
    {"question": "Which colour does the bridge have?", "noncommittal": 0},
]
NAMES = [f"{name}(as=ragas)" for name in RAGAS]


def split(text):
    return [f"{part}." for part in re.split(r"\.\s*", text) if part]


def says(source, statement):
    """Return 1 if the source has the last word of a statement, else 0."""
    return int(re.findall(r"\w+", statement)[-1] in source)


def reply(kind, texts, n_questions=0):
    """Return the reply of the model to the judged texts, by the first key of the reply."""
    if kind == "question":
        return QUESTIONS[n_questions % 3]
    if kind == "TP":
        own_statements, gold = texts["own"], texts["gold"]
        lists = {
            "TP": [statement for statement in own_statements if statement in gold],
            "FP": [statement for statement in own_statements if statement not in gold],
            "FN": [statement for statement in gold if statement not in own_statements],
        }
        return {
            key: [{"statement": statement, "reason": "so it is"} for statement in verdicts]
            for key, verdicts in lists.items()
        }
    if kind == "split":
        return {"statements": split(texts["text"])}
    if kind == "reason":
        verdict = says(texts["answer"], texts["passage"])
        return {"reason": "so it is", "verdict": verdict}
    key, statements = "verdict", texts.get("statements")
    if kind == "classifications":
        key, statements = "attributed", split(texts["answer"])
    verdicts = [
        {"statement": statement, "reason": "so it is", key: says(texts["context"], statement)}
        for statement in statements
    ]
    return {"statements" if kind == "statements" else kind: verdicts}


class RagasModel:
    """Reads our prompts."""

    def __init__(self):
        self.kinds = []

    def __call__(self, body, times_asked):
        text = body["messages"][1]["content"]
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        kind = next(iter(properties))
        texts = dict(re.findall(r"<([a-z0-9-]+)-[0-9a-f]{12}>\n(.*?)\n</", text, re.DOTALL))
        if kind == "statements" and "text" in texts:
            kind = "split"

        def many(label):
            return [value for key, value in texts.items() if key.startswith(f"{label}-")]

        texts |= {"statements": many("statement"), "own": many("answer"), "gold": many("reference")}
        self.kinds.append(kind)
        return Answer(json.dumps(reply(kind, texts, self.kinds.count("question") - 1)))


# What `ragas.metrics.collections` of 0.4.3 printed for `ROW`, where its model replied by `reply`
# and its embeddings were those of all-MiniLM-L6-v2; correctness is its AnswerCorrectness
OF_RAGAS = {
    "answer_relevancy": 0.6324589429055999,
    "faithfulness": 0.75,
    "context_precision": 0.5833333333041666,
    "context_recall": 0.6666666666666666,
    "context_utilization": 0.5833333333041666,
    "correctness": 0.6434082160628023,
    "noise_sensitivity": 0.25,
}


@pytest.fixture
def judged():
    """Judge `ROW` with changes by some rubrics; returns the verdicts and the kinds of requests."""
    with ExitStack() as stack:

        def judge(names, model=None, **changes):
            script = model or RagasModel()
            server = stack.enter_context(ChatServer(script))
            model_judge = stack.enter_context(Judge("m", names, base_url=server.url))
            return model_judge.score(**ROW | changes), script

        yield judge


def test_equal_replies_give_the_values_of_ragas(judged, minilm):
    models = {name: f",model={minilm}" if RAGAS[name].embeds else "" for name in RAGAS}
    names = {f"{name}(as=ragas{models[name]})": name for name in RAGAS}
    verdicts, model = judged([*names])
    scores = {names[name]: verdict.score for name, verdict in verdicts.items()}
    assert scores == pytest.approx(OF_RAGAS, abs=1e-6)
    # answer and reference are split once, for three metrics
    assert model.kinds.count("split") == 2
    assert model.kinds.count("question") == 3
    # once against all passages together, and then answer and reference against each of them, and
    # the answer against the reference
    assert model.kinds.count("statements") == 1 + 2 * 4 + 1


def test_ours_and_theirs_differ_where_definitions_do(judged):
    # Our context precision is a share; that of ragas is an average precision over supported
    # passages
    verdicts, _ = judged(["context_precision(as=ragas)"], contexts=["No bananas."] * 9 + ["steel"])
    assert [verdict.score for verdict in verdicts.values()] == [1 / 10]
    verdicts, _ = judged(["context_precision(as=ragas)"], contexts=["steel"] + ["No bananas."] * 9)
    assert [verdict.score for verdict in verdicts.values()] == [1.0]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([(0, "a"), (1, "b"), (1, "c")], 0.5, id="one is committal"),
        pytest.param([(1, "a"), (1, "b"), (1, "c")], 0.0, id="all are noncommittal"),
        pytest.param([(0, ""), (0, "b"), (0, "b")], 0.5, id="no question is not counted"),
        pytest.param([(0, ""), (0, ""), (0, " ")], 0.0, id="no question at all"),
    ],
)
def test_questions_of_an_answer(judged, monkeypatch, answers, expected):
    def cosines(model, text, texts):
        return [0.5] * len(texts)

    monkeypatch.setattr("ragbench.score.judge.methods.ragas._embedded_cosines", cosines)
    monkeypatch.setattr("ragbench.score.judge.judge.embedding_identity", lambda rubric: None)
    monkeypatch.setattr("ragbench.score.judge.model_judge.embedding_identity", lambda rubric: None)
    replies = [{"question": text, "noncommittal": mark} for mark, text in answers]
    remaining = iter(replies)

    def script(body, times_asked):
        return Answer(json.dumps(next(remaining)))

    verdicts, _ = judged(["answer_relevancy(as=ragas)"], script)
    (verdict,) = verdicts.values()
    assert verdict.score == expected


def test_an_answer_without_statements_has_no_faithfulness(judged):
    verdicts, model = judged(["faithfulness(as=ragas)"], answer="")
    assert [verdict.cause for verdict in verdicts.values()] == ["no_claims"]
    assert model.kinds == []


def test_of_several_references_the_best_counts(judged):
    verdicts, _ = judged(
        ["context_recall(as=ragas)"], reference=["It is red.", "It opened in 1932."]
    )
    assert [verdict.score for verdict in verdicts.values()] == [1.0]


@given(st.lists(st.booleans(), max_size=30))
def test_average_precision_as_ragas_writes_it(useful):
    marks = np.array(useful, dtype=float)
    precisions = [marks[: i + 1].mean() * marks[i] for i in range(len(marks))]
    assert ragas_precision(useful) == pytest.approx(sum(precisions) / (marks.sum() + 1e-10))


def test_names():
    rubric = load_rubric("context_utilization(as=ragas)")
    assert (rubric.method, rubric.needs) == ("ragas", ("question", "answer", "contexts"))
    assert load_rubric("faithfulness(as=own)") == load_rubric("faithfulness")
    with pytest.raises(OptionError, match="a model with as=ragas"):
        load_rubric("answer_relevancy(model=a)")
    with pytest.raises(OptionError, match="model=a"):
        load_rubric("faithfulness(as=ragas,model=a)")
    with pytest.raises(OptionError, match="judge 'nli': rubrics"):
        Judge(type="nli", rubrics=["faithfulness(as=ragas)"])


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_shown(name):
    from tests.score.judge.previews import RAGAS_STEPS, preview

    prompts = preview(load_rubric(name))
    assert [step.prompt.schema["type"] for step in prompts] == ["object"] * len(prompts)
    assert len(prompts) == len(RAGAS_STEPS[name.partition("(")[0]])
