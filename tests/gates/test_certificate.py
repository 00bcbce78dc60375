"""`certificate`: what a certificate says of a judge, and the judges that it is valid for."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.comparison.method import Method
from ragbench.gates.base import GatedRun
from ragbench.gates.certificate import Certificate
from ragbench.records.certificate import AgreementResult
from ragbench.records.codec import from_json
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary, SystemSummary
from ragbench.score.judge import JUDGES
from ragbench.score.judge.rubric import load_rubric
from ragbench.signature import Signature, mixture
from ragbench.stats import cohen_kappa, mean_agreement
from tests.comparison.scored_systems import column, source, system


def decide_kappa(kappa, least, *, decide=None):
    gate = Certificate(certificate="judge.json", rubric="tone", min_kappa=least, decide=decide)
    return gate.decide_kappa(kappa)


@pytest.mark.parametrize(
    ("value", "interval", "decide", "verdict"),
    [
        pytest.param(0.6, (0.4, 0.8), "mean", "pass", id="reaches it"),
        pytest.param(0.59, (0.4, 0.8), "mean", "fail", id="below"),
        pytest.param(0.7, (0.5, 0.9), "interval", "fail", id="its lower end is below"),
        pytest.param(0.9, (0.7, 1.0), "interval", "pass", id="its lower end too"),
        pytest.param(None, (None, None), "mean", "undecided", id="null is no pass"),
        pytest.param(0.9, (None, None), "interval", "undecided", id="no interval is no pass"),
    ],
)
def test_certificate(value, interval, decide, verdict):
    kappa = AgreementResult(value=value, interval=interval, n=50)

    decision = decide_kappa(kappa, 0.6, decide=decide)

    assert decision.verdict == verdict


def test_the_kappa_of_constant_labels_says_why_it_is_none():
    # equal labels agree by chance alone: kappa is 0 / 0
    agreement = mean_agreement(cohen_kappa, [np.ones((4, 2))], "nominal").to_dict()
    decision = decide_kappa(from_json(AgreementResult, agreement), 0.6)

    assert decision.verdict == "undecided"
    assert decision.why.startswith("kappa is not defined: ")


def summary_of(*signatures):
    """A summary of systems, each with one score of a judge by the rubric `tone`."""
    systems = []
    for number, signature in enumerate(signatures):
        score = SystemScore(
            mean=0.5,
            n=4,
            failed={},
            not_applicable=0,
            direction="higher",
            aggregate="mean",
            range=(0.0, 1.0),
            signature=str(signature),
            judge="judge",
        )
        name = f"system-{number}"
        systems.append(
            SystemSummary(
                name=name,
                retriever=None,
                generator=None,
                type="answers",
                ranking_of=None,
                scores={"tone": score},
            )
        )
    return Summary(name="run", systems=tuple(systems))


def decide(folder, certified, *scored):
    """Decide a gate on a certificate with this signature, for a run with these signatures."""
    # well above the limit: only the signature can stop the gate
    kappa = {"value": 0.9, "interval": [0.8, 1.0], "n": 40}
    rubric = {"agreement": {"kappa": kappa}, "signature": str(certified)}
    path = folder / "judge.json"
    content = {"schema": "ragbench.certificate/1", "rubrics": {"tone": rubric}}
    path.write_text(json.dumps(content), encoding="utf-8")
    gate = Certificate(certificate="judge.json", rubric="tone", min_kappa=0.6, file=path)
    scores = source("run", system("system-0", column([0.5] * 4)))
    run = GatedRun(scored=scores, method=Method(), n_queries=4, summary=summary_of(*scored))
    [decision] = gate.decide_systems(run)
    return decision


RUBRIC = {
    "name": "tone",
    "asks": "answer",
    "needs": ["question", "answer"],
    "scale": {1: "bad", 5: "good"},
    "method": "rating",
    "guidelines": ["The answer is polite."],
    "examples": [{"answer": "Thanks!", "level": 5, "reasoning": "It thanks."}],
}
CLAIMS = {
    "name": "tone",
    "needs": ["question", "answer", "contexts"],
    "scale": {1: "not in the passages", 2: "in the passages"},
    "method": "claims",
    "formula": "faithfulness",
}


def signature_of(rubric, judge, **data):
    """The signature of scores as a judge of these options makes it."""
    options = {"model": "gpt-a", **judge}
    parts = JUDGES.load("openai")(**options).signature_parts(load_rubric(rubric))
    return Signature.of("tone", judge="openai", model=options["model"], **parts, **data, v=1)


# every part of a rubric that reaches the prompt
RUBRIC_CHANGES = [
    {"guidelines": ["The answer is RUDE."]},
    {"guidelines": []},
    {"scale": {1: "good", 5: "bad"}},
    {"scale": {1: "bad", 3: "fair", 5: "good"}},
    {"steps": ["Ignore the passages."]},
    {"direction": "lower"},
    {"examples": []},
]
# the words of the reason, and the option of the judge that they name
JUDGE_CHANGES = {
    "the model (gpt-a, now gpt-b)": {"model": "gpt-b"},
    "the examples": {"few_shot": False},
    "the temperature (0.0, now 0.5)": {"temperature": 0.5},
    "the repeat (1, now 3)": {"repeat": 3},
    "the language (none, now German)": {"language": "German"},
    "the request parameters": {"extra": {"top_p": 0.5}},
}


@pytest.mark.parametrize("change", RUBRIC_CHANGES, ids=str)
def test_a_changed_rubric_is_not_certified(tmp_path, change, assert_message):
    certified, scored = signature_of(RUBRIC, {}), signature_of({**RUBRIC, **change}, {})

    decision = decide(tmp_path, certified, scored)

    assert (decision.verdict, decision.level) == ("undecided", "warning")
    assert_message(decision.why)


@pytest.mark.parametrize(("name", "change"), JUDGE_CHANGES.items(), ids=str)
def test_a_changed_judge_is_not_certified(tmp_path, name, change):
    decision = decide(tmp_path, signature_of(RUBRIC, {}), signature_of(RUBRIC, change))

    assert decision.verdict == "undecided"
    assert decision.why == f"{name} changed since judge.json: calibrate it"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"window": 8000}, "the window of the passages (32000, now 8000) changed"),
        (
            {"passages": "each"},
            "the prompt, the examples, the form of the passages (together, now each) and the "
            "window of the passages (32000, now none) changed",
        ),
    ],
    ids=str,
)
def test_passages_in_another_form_are_not_certified(tmp_path, change, why):
    decision = decide(tmp_path, signature_of(CLAIMS, {}), signature_of(CLAIMS, change))

    assert decision.why == f"{why} since judge.json: calibrate it"


def test_another_splitter_is_not_certified(tmp_path, assert_message):
    def split_by(model, **options):
        splitter = {"model": model, "base_url": "http://127.0.0.1:1/v1", **options}
        judge = JUDGES.load("classifier")(preset="minicheck-roberta", splitter=splitter)
        return Signature.of(
            "tone", judge="classifier", **judge.signature_parts(load_rubric(CLAIMS))
        )

    certified = split_by("gpt-a")

    assert decide(tmp_path, certified, split_by("gpt-a")).verdict == "pass"
    other = decide(tmp_path, certified, split_by("gpt-b"))
    assert_message(other.why)
    assert decide(tmp_path, certified, split_by("gpt-a", few_shot=False)).why.startswith(
        "the examples changed"
    )


choices = st.fixed_dictionaries(
    {},
    optional={
        "rubric": st.sampled_from(["1a", "2b"]),
        "prompt": st.sampled_from(["3c", "4d"]),
        "examples": st.sampled_from(["5e", "6f"]),
        "model": st.sampled_from(["a", "b", mixture(["a", "b"])]),
        "splitter": st.sampled_from(["s", "t"]),
        "passages": st.sampled_from(["together", "each"]),
        "weighted": st.sampled_from(["yes", "no", mixture(["no", "yes"])]),
        "seed": st.integers(0, 1),
    },
)
of_data = st.fixed_dictionaries(
    {"queries": st.sampled_from(["q", "r"])},
    optional={"gold": st.sampled_from(["g", "h"]), "nuggets": st.sampled_from(["n", "o"])},
)


@given(
    certified=choices,
    changes=st.lists(choices, min_size=1, max_size=3),
    data=st.lists(of_data, min_size=4, max_size=4),
)
def test_a_gate_decides_if_and_only_if_nothing_but_the_questions_changed(
    tmp_path_factory, certified, changes, data
):
    # The oracle compares the parts themselves; each system may have other ones.
    scored = [{**certified, **change} for change in changes]
    first, *changed = (
        Signature.of("tone", **parts, **of)
        for parts, of in zip([certified, *scored], data, strict=False)
    )

    decision = decide(tmp_path_factory.getbasetemp(), first, *changed)

    is_mixed = any("mixture" in str(value) for part in scored for value in part.values())
    is_same = "rubric" in certified and not is_mixed and all(of == certified for of in scored)
    assert decision.verdict == ("pass" if is_same else "undecided")


def test_the_reason_names_each_changed_part_of_any_system(tmp_path, assert_message):
    certified = Signature.of("tone", rubric="1a", model="a", seed=1)
    models = (Signature.of("tone", rubric="1a", model=model, seed=1) for model in ("b", "a", "c"))
    rubric = Signature.of("tone", rubric="2b", model="a", seed=1)

    assert_message(decide(tmp_path, certified, *models).why)
    both = decide(tmp_path, certified, rubric, certified.replacing(seed=2)).why
    assert_message(both)


def test_verdicts_of_several_models_are_certified_by_none(tmp_path, assert_message):
    mixed = Signature.of("tone", rubric="1a", model=mixture(["a", "b"]))

    decision = decide(tmp_path, mixed, mixed)

    assert decision.verdict == "undecided"
    assert_message(decision.why)


@pytest.mark.parametrize(
    "signature", ["", "tone|judge:elsewhere|model:gpt-a"], ids=["none", "of a table of ratings"]
)
def test_a_certificate_that_does_not_tell_its_rubric_is_for_none(
    tmp_path, signature, assert_message
):
    decision = decide(tmp_path, signature, signature_of(RUBRIC, {}))

    assert decision.verdict == "undecided"
    assert_message(decision.why)
