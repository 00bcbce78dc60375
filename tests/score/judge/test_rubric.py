"""Rubrics: the built-in ones are whole, files are read, and mistakes are named with their line."""

from dataclasses import FrozenInstanceError

import pytest

from ragbench.errors import DataError, OptionError
from ragbench.score.judge.base import JudgeFacts
from ragbench.score.judge.rubric import (
    DEFAULT_RUBRICS,
    built_in_rubrics,
    default_rubrics,
    describe_rubric,
    load_rubric,
    read_rubric,
)
from tests.score.judge.previews import preview

GOOD = """\
name: tone
asks: answer
needs: [question, answer]
scale: {1: rude or sloppy, 3: neutral, 5: warm and precise}
steps: [Read the question., Decide.]
examples: [{question: Why, answer: no, level: 1, reasoning: Rude.}]
method: rating
direction: higher
"""


@pytest.mark.parametrize("name", built_in_rubrics())
def test_built_in_rubrics_are_whole(name):
    rubric = load_rubric(name)
    assert rubric.name == name
    assert len(rubric.steps) >= 4, "four steps, as CONTRIBUTING says"
    scores = [rubric.score_of(example["level"]) for example in rubric.examples]
    assert sum(score > 1 / 2 for score in scores) >= 2, "two good examples"
    assert sum(score <= 1 / 2 for score in scores) >= 2, "two bad examples"
    assert {0.0, 1.0} <= set(scores)
    for example in rubric.examples:
        assert set(rubric.needs) <= set(example), "an example has what an item must have"
        assert example["reasoning"]
    assert len({str(example) for example in rubric.examples}) == len(rubric.examples)


def test_a_built_in_file_says_what_for_and_from_where():
    for name in built_in_rubrics():
        description = describe_rubric(name)
        assert all(len(part) > 20 for part in description), name
        assert description.measures.count("?") == 1, f"{name}: the question that the score answers"


def test_those_of_the_design_are_there():
    names = """faithfulness answer_relevancy context_relevancy context_precision context_recall
        context_utilization noise_sensitivity self_knowledge correctness factual_consistency
        hallucination conciseness coherence relevance fluency readability coverage diversity detail
        guidelines citation_precision citation_recall refusal nugget_recall pairwise
        conversation_completeness knowledge_retention"""
    assert set(names.split()) < set(built_in_rubrics())


def test_rubrics_on_claims_share_their_verdicts_and_name_their_formula():
    for name in built_in_rubrics():
        rubric = load_rubric(name)
        if rubric.method == "claims":
            assert rubric.formula == (name if name != "correctness" else "claim_f1"), name
            assert rubric.own_steps == (), name
        assert (rubric.verdicts == "shared") == (
            rubric.method in ("claims", "nuggets", "intentions", "retention")
        ), name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("asks: context", {"needs": ("answer", "contexts")}, id="what is judged"),
        pytest.param("asks: query", {"needs": ("answer", "queries")}, id="queries"),
        pytest.param("asks: pair", {"method": "pairwise"}, id="a pair is compared"),
        pytest.param("method: pairwise", {"asks": "pair", "needs": ("answer", "other")}, id="pair"),
        pytest.param("method: claims", {"formula": "claim_f1"}, id="claims against the reference"),
        pytest.param(
            "{method: claims, formula: hallucination}",
            {"needs": ("answer", "contexts", "reference")},
            id="what the formula is made of",
        ),
        pytest.param("method: nuggets", {"needs": ("answer", "question", "reference")}, id="gold"),
        pytest.param("guidelines: [Be kind.]", {"guidelines": ("Be kind.",)}, id="rules"),
    ],
)
def test_what_follows_from_other_keys(tmp_path, text, expected):
    more = text.strip("{}").replace(", ", "\n")
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nneeds: [answer]\nscale: {{1: bad, 3: good}}\n{more}\n", "utf-8")
    rubric = read_rubric(path)
    assert {key: getattr(rubric, key) for key in expected} == expected
    assert rubric.verdicts == "own"


def test_a_file_of_the_users(tmp_path, assert_message):
    path = tmp_path / "tone.yaml"
    path.write_text(GOOD, encoding="utf-8")
    rubric = load_rubric(str(path))

    assert (rubric.name, rubric.levels, rubric.needs) == ("tone", 5, ("question", "answer"))
    assert rubric.examples[0]["answer"] == "no", "a word, not false"
    assert [rubric.score_of(level) for level in (1, 2, 3, 5)] == [0.0, 0.25, 0.5, 1.0]
    assert rubric.meaning(3) == "neutral"
    assert_message(rubric.meaning(4))


def test_the_fingerprint_follows_the_content_not_the_form(tmp_path):
    path = tmp_path / "tone.yaml"
    path.write_text(GOOD, encoding="utf-8")
    start = read_rubric(path).fingerprint
    path.write_text("# a comment\n" + GOOD.replace("direction: higher\n", ""), encoding="utf-8")
    assert read_rubric(path).fingerprint == start
    path.write_text(GOOD.replace("neutral", "so-so"), encoding="utf-8")
    assert read_rubric(path).fingerprint != start


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("method:", "methd:", "TMP/tone.yaml:7: methd"),
        ("name: tone\n", "", "TMP/tone.yaml: name"),
        ("name: tone", "name: a b", "TMP/tone.yaml:1: name"),
        ("[question, answer]", "[question, anser]", "TMP/tone.yaml:3: needs"),
        ("[question, answer]", "answer", "TMP/tone.yaml:3: needs"),
        ("asks: answer", "asks: answers", "TMP/tone.yaml:2: asks"),
        ("method: rating", "method: stars", "TMP/tone.yaml:7: method"),
        ("direction: higher", "direction: up", "TMP/tone.yaml:8: direction"),
        (
            "{1: rude or",
            "{0: rude or",
            "TMP/tone.yaml:4: scale",
        ),
        ("{1: rude or", "{2: rude or", "TMP/tone.yaml:4: scale"),
        ("3: neutral, 5: warm and precise", "", "TMP/tone.yaml:4: scale"),
        ("level: 1", "level: 6", "TMP/tone.yaml:6: examples"),
        ("reasoning: Rude", "reason: Rude", "TMP/tone.yaml:6: examples"),
        ("[{question", "[4, {question", "TMP/tone.yaml:6: examples"),  # an example is a mapping
        ("direction:", "name:", "TMP/tone.yaml:1: name"),  # a key twice
        ("steps: [", "steps: [[", "TMP/tone.yaml:6"),
        (
            "method: rating",
            "formula: claim_f1",
            "TMP/tone.yaml:7: formula",
        ),
        (
            "method: rating",
            "verdicts: own",
            "TMP/tone.yaml:7: verdicts",
        ),
        (
            "method: rating",
            "method: pairwise",
            "TMP/tone.yaml:7: method",
        ),
        (
            "asks: answer",
            "asks: pair",
            "TMP/tone.yaml:7: method",
        ),
        ("method: rating", "guidelines: one", "TMP/tone.yaml:7: guidelines"),
        ("question: Why", "question: [Why]", "TMP/tone.yaml:6: examples"),
        (
            "question: Why",
            "contexts: Why",
            "TMP/tone.yaml:6: examples",
        ),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path, old, new, place, assert_message):
    path = tmp_path / "tone.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_rubric(path)
    assert_message(caught.value, place)


@pytest.mark.parametrize("content", [b"", b"- a\n", b"\xff\xfe\x00"])
def test_what_is_no_rubric_at_all(tmp_path, content, assert_message):
    path = tmp_path / "tone.yaml"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_rubric(path)
    assert_message(caught.value, "TMP/tone.yaml")


def test_an_unknown_name(assert_message):
    with pytest.raises(OptionError) as caught:
        load_rubric("faithfullness")
    assert_message(caught.value, "rubric: name")


def test_what_is_asked_by_default():
    def default_names(served):
        return default_rubrics(JudgeFacts(served=served))

    assert default_names(None) == DEFAULT_RUBRICS
    assert default_names(["refusal", "correctness", "faithfulness"]) == (
        "faithfulness",
        "correctness",
    )
    assert default_names(["refusal"]) == ("refusal",)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("method: claims\nexamples: [{answer: a, level: 1, reasoning: b}]", "examples"),
        ("method: nuggets\nexamples: [{answer: a, level: 1, reasoning: b}]", "examples"),
        ("method: claims\nverdicts: shared\nsteps: [Read.]", "steps"),
        ("method: support\nsteps: [Read.]", "steps"),
    ],
)
def test_what_no_judge_is_shown_is_refused(tmp_path, text, key, assert_message):
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nneeds: [answer]\nscale: {{1: bad, 3: good}}\n{text}\n", "utf-8")
    line = 4 + text.partition(key)[0].count("\n")
    with pytest.raises(DataError) as caught:
        read_rubric(path)
    assert_message(caught.value, f"TMP/own.yaml:{line}: {key}")


def test_own_steps_of_claims_are_sent(tmp_path):
    path = tmp_path / "own.yaml"
    text = "name: own\nneeds: [answer, contexts]\nscale: {1: bad, 3: good}\nmethod: claims\n"
    path.write_text(f"{text}steps: [Dates are exact.]\n", "utf-8")
    assert any("Dates are exact." in step.prompt.system for step in preview(read_rubric(path)))


def test_a_rubric_cannot_be_changed():
    # The judges of a process share the rubrics that it has read.
    with pytest.raises(FrozenInstanceError):
        load_rubric("fluency").name = "politeness"


YES_NO = {1: "no: It invents.", 2: "yes: All stands in the passages."}


@pytest.mark.parametrize(
    ("scale", "levels"),
    [
        ("{no: It invents., yes: All stands in the passages.}", YES_NO),
        ("{Yes: All stands in the passages., No: It invents.}", YES_NO),
        ("{0: no, 1: yes}", {1: "no", 2: "yes"}),
        ("{fail: rude, pass: polite}", {1: "fail: rude", 2: "pass: polite"}),
        ("{false: rude, true: polite}", {1: "false: rude", 2: "true: polite"}),
        ("{pass: pass, fail: fail}", {1: "fail", 2: "pass"}),
    ],
)
def test_a_scale_of_two_words_is_two_levels(tmp_path, scale, levels):
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nneeds: [answer]\nscale: {scale}\n", "utf-8")

    rubric = read_rubric(path)

    assert rubric.scale == levels
    assert (rubric.score_of(1), rubric.score_of(2)) == (0, 1)


def test_a_scale_of_booleans_from_python_and_examples_by_word():
    examples = [{"answer": "Hm.", "level": "no", "reasoning": "It is cold."}]
    keys = {"name": "own", "needs": ["answer"], "examples": examples}

    assert load_rubric({**keys, "scale": {"no": "cold", "yes": "kind"}}).examples[0]["level"] == 1
    scale = {False: "cold", True: "kind"}
    assert load_rubric({"name": "own", "needs": ["answer"], "scale": scale}).levels == 2


def test_pass_is_no_worse_end(tmp_path, assert_message):
    path = tmp_path / "own.yaml"
    scale = "scale: {fail: rude, pass: polite}\ndirection: lower\n"
    path.write_text(f"name: own\nneeds: [answer]\n{scale}", "utf-8")

    with pytest.raises(DataError) as caught:
        read_rubric(path)

    assert_message(caught.value, "TMP/own.yaml:3: scale")
