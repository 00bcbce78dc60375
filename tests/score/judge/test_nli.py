"""The judge by a local model: its matrix against a cross-encoder's, counts, mistakes."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.embed.classifier import TextClassifier
from ragbench.errors import OptionError
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.grounding import Grounding, apply_formula
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.nli import NLI
from ragbench.score.judge.rubric import load_rubric
from tests.models import build_tiny_nli

RUBRICS = [load_rubric(name) for name in NLI.served]
SENTENCES = ["The cat sat.", "A dog ran.", "The cat sat on the mat.", "The mats ran!", "A dog."]
PASSAGES = ["a dog ran on the mat", "the cat sat", "the the dog"]
ITEM = JudgedItem(
    "the cat",
    "The cat sat on the mat. A dog ran [2]. The mats ran!",
    PASSAGES,
    ["The dog sat. The mats ran on the cat."],
)
CLAIMS = ["The cat sat on the mat.", "A dog ran.", "The mats ran!"]
GOLD = ["The dog sat.", "The mats ran on the cat."]


@pytest.fixture(scope="module")
def judge(tiny_nli):
    return NLI(model=tiny_nli, device="cpu")


@pytest.fixture(scope="module")
def rulings(tiny_nli):
    """Return the rulings of a cross-encoder on pairs of premise and hypothesis, at 0.5."""
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(tiny_nli, device="cpu")

    def rule(premises, hypotheses):
        pairs = [(premise, text) for text in hypotheses for premise in premises]
        rows = model.predict(pairs, apply_softmax=True, show_progress_bar=False)
        words = np.array(["contradicted", "supported", "not_mentioned"])
        rulings_of = np.where(
            rows[:, :2].max(axis=1) < 0.5, words[2], words[rows[:, :2].argmax(axis=1)]
        )
        return rulings_of.reshape(len(hypotheses), len(premises)).tolist()

    return rule


def test_every_rubric_is_its_formula_over_the_models_matrix(judge, rulings):
    matrix = Grounding(
        answer_passages=rulings(PASSAGES, CLAIMS),
        reference_passages=rulings(PASSAGES, GOLD),
        answer_reference=[row[0] for row in rulings([f"the cat {ITEM.references[0]}"], CLAIMS)],
        reference_answer=[row[0] for row in rulings([f"the cat {ITEM.answer}"], GOLD)],
        sentences=range(3),
        cited=[frozenset(), frozenset([2]), frozenset()],
    )
    ruling_values = {ruling for row in matrix.answer_passages for ruling in row}
    assert ruling_values == {"supported", "contradicted", "not_mentioned"}

    [verdicts] = judge.judge_all([ITEM], RUBRICS)

    for rubric in RUBRICS:
        expected = apply_formula(rubric.formula, matrix)
        verdict = verdicts[rubric.name]
        if verdict.score is None:
            assert verdict.cause == expected.word
        else:
            assert verdict.score == pytest.approx(expected), rubric.name
    assert "contradicted by passage" in verdicts["factual_consistency"].reasoning
    assert "cites passage 2" in verdicts["citation_recall"].reasoning


def test_each_distinct_pair_is_computed_once(tiny_nli, monkeypatch):
    # Over all rubrics, items, blocks and later calls
    computed = Counter()
    real = TextClassifier.probabilities

    def counted(self, pairs):
        computed.update(pairs)
        return real(self, pairs)

    monkeypatch.setattr(TextClassifier, "probabilities", counted)
    judge = NLI(model=tiny_nli, device="cpu")

    judge.judge_all([ITEM] * 70, RUBRICS)
    judge.judge_all([ITEM], RUBRICS)

    sources = len(PASSAGES) * (len(CLAIMS) + len(GOLD)) + len(CLAIMS) + len(GOLD)
    assert (len(computed), computed.total()) == (sources, sources)


def test_a_rubric_computes_only_what_it_is_made_of(tiny_nli, monkeypatch):
    computed = []
    real = TextClassifier.probabilities
    monkeypatch.setattr(
        TextClassifier,
        "probabilities",
        lambda self, pairs: (computed.extend(pairs), real(self, pairs))[1],
    )

    NLI(model=tiny_nli, device="cpu").judge(ITEM, load_rubric("faithfulness"))

    assert {premise for premise, _ in computed} == set(PASSAGES)
    assert {claim for _, claim in computed} == set(CLAIMS)


texts = st.lists(st.sampled_from(SENTENCES), max_size=3).map(" ".join)
items = st.builds(
    JudgedItem,
    question=st.sampled_from([None, "the cat"]),
    answer=st.none() | texts,
    contexts=st.none() | st.lists(texts | st.just(" "), max_size=3),
    references=st.lists(texts, max_size=2),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(several=st.lists(items, max_size=4))
def test_any_item_gets_a_verdict_and_together_is_as_alone(judge, several):
    results = judge.judge_all(several, RUBRICS)

    for item, verdicts in zip(several, results, strict=True):
        assert set(verdicts) == set(NLI.served)
        assert judge.judge_all([item], RUBRICS) == [verdicts]
        for verdict in verdicts.values():
            assert verdict.status in ("scored", "not_applicable")
            assert verdict.score is None or 0 <= verdict.score <= 1


def test_the_threshold_moves_verdicts_and_is_in_the_options(tiny_nli):
    assert NLI(model=tiny_nli).options == {"threshold": 0.5, "language": "en"}
    judge = NLI(model=tiny_nli, threshold=1.0)

    assert judge.judge(ITEM, load_rubric("faithfulness")).score == 0.0
    assert judge.options["threshold"] == 1.0


def test_a_rubric_without_claims_is_refused(tiny_nli, assert_message):
    with pytest.raises(OptionError) as caught:
        NLI(model=tiny_nli).judge(ITEM, load_rubric("fluency"))
    assert_message(caught.value, "nli: rubric")


def test_many_and_asynchronous_agree(tiny_nli):
    rows = [{"question": "the cat", "answer": a, "contexts": PASSAGES} for a in SENTENCES * 15]

    async def ask():
        async with Judge(tiny_nli, ["faithfulness"], type="nli") as judge:
            return await judge.ascore_many(rows)

    with Judge(tiny_nli, ["faithfulness"], type="nli") as judge:
        assert judge.score_many(rows) == asyncio.run(ask())


def test_a_model_that_raises_fails_its_items_and_no_others(tiny_nli, monkeypatch, assert_message):
    real = TextClassifier.probabilities

    def moody(self, pairs):
        if any("the the" in premise for premise, _ in pairs):
            raise RuntimeError("out of memory")
        return real(self, pairs)

    monkeypatch.setattr(TextClassifier, "probabilities", moody)
    judge = NLI(model=tiny_nli)
    faithfulness = load_rubric("faithfulness")

    failed = judge.judge(ITEM, faithfulness)
    fine = judge.judge(JudgedItem("x", "A dog ran.", ["the cat sat"]), faithfulness)

    assert (failed.status, failed.cause) == ("failed", "error")
    assert_message(failed.reasoning)
    assert fine.status == "scored"


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"model": "./nowhere"}, "nli: model"),  # no such folder
        ({"threshold": 0}, "nli: threshold"),  # every probability reaches 0
        ({"threshold": True}, "nli: threshold"),  # True is 1 in Python
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        NLI(**options)
    assert_message(caught.value, place)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("model", ["tiny_bert", "minilm"])
def test_a_model_without_classes_is_refused_before_its_weights_are_read(
    model, request, assert_message
):
    with pytest.raises(OptionError) as caught:
        Judge(request.getfixturevalue(model), type="nli")
    assert_message(caught.value, "nli: model")


@pytest.mark.slow(torch=True)
def test_a_model_with_other_classes_is_refused_before_its_weights_are_read(
    tmp_path, assert_message
):
    nameless = build_tiny_nli(tmp_path / "nameless", labels=("LABEL_0", "LABEL_1", "LABEL_2"))
    (Path(nameless) / "model.safetensors").unlink()
    with pytest.raises(OptionError) as caught:
        Judge(nameless, type="nli")
    assert_message(caught.value, "nli: model")


def _config(folder, model):
    rows = [
        {"id": f"q{n}", "question": "the cat", "contexts": PASSAGES, "answer": SENTENCES[n % 5]}
        for n in range(10)
    ]
    (folder / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {name: name for name in ("id", "question", "contexts", "answer")}
    return {
        "name": "local",
        "dataset": {"type": "records", "path": str(folder / "r.jsonl"), "columns": columns},
        "metrics": {"judge": {"type": "nli", "model": model, "rubrics": ["faithfulness"]}},
        "output": str(folder / "runs"),
    }


def test_in_an_experiment_the_signature_has_the_model_wherever_it_lies(tiny_nli, tmp_path):
    result = rb.run_experiment(_config(tmp_path, tiny_nli))

    summary = json.loads((result.path / "summary.json").read_text(encoding="utf-8"))
    score = summary["systems"][0]["scores"]["faithfulness"]
    assert score["n"] == 10
    assert "|judge:nli|model:sha256-" in score["signature"]
    assert "|threshold:0.5" in score["signature"]
    assert "device" not in score["signature"]
    assert str(tiny_nli) not in score["signature"]
