"""Rubrics: the built-in ones are whole, files are read, and mistakes are named with their line."""

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
    assert len(rubric.steps) >= 4
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
        said = describe_rubric(name)
        assert all(len(part) > 20 for part in said), name
        assert said.measures.count("?") == 1, f"{name}: the question that the score answers"


def test_those_of_the_design_are_there():
    named = """faithfulness answer_relevancy context_relevancy context_precision context_recall
        context_utilization noise_sensitivity self_knowledge correctness factual_consistency
        hallucination conciseness coherence relevance fluency readability coverage diversity detail
        guidelines citation_precision citation_recall refusal nugget_recall pairwise
        conversation_completeness knowledge_retention"""
    assert set(named.split()) < set(built_in_rubrics())


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


def test_a_file_of_the_users(tmp_path):
    path = tmp_path / "tone.yaml"
    path.write_text(GOOD, encoding="utf-8")
    rubric = load_rubric(str(path))

    assert (rubric.name, rubric.levels, rubric.needs) == ("tone", 5, ("question", "answer"))
    assert rubric.examples[0]["answer"] == "no", "a word, not false"
    assert [rubric.score_of(level) for level in (1, 2, 3, 5)] == [0.0, 0.25, 0.5, 1.0]
    assert rubric.meaning(3) == "neutral"
    assert rubric.meaning(4) == "between 'neutral' and 'warm and precise'"


def test_the_fingerprint_follows_the_content_not_the_form(tmp_path):
    path = tmp_path / "tone.yaml"
    path.write_text(GOOD, encoding="utf-8")
    start = read_rubric(path).fingerprint
    path.write_text("# a comment\n" + GOOD.replace("direction: higher\n", ""), encoding="utf-8")
    assert read_rubric(path).fingerprint == start
    path.write_text(GOOD.replace("neutral", "so-so"), encoding="utf-8")
    assert read_rubric(path).fingerprint != start


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("method:", "methd:", r":7: methd: unknown key; did you mean 'method'\? allowed: name, "),
        ("name: tone\n", "", r"name: missing; allowed: a rubric has name, needs, scale"),
        ("name: tone", "name: a b", r":1: name: 'a b'; allowed: letters"),
        ("[question, answer]", "[question, anser]", r":3: needs: 'anser'; did you mean 'answer'"),
        ("[question, answer]", "answer", r":3: needs: 'answer'; allowed: a list of texts"),
        ("asks: answer", "asks: answers", r":2: asks: 'answers'; did you mean 'answer'\?"),
        ("method: rating", "method: stars", r":7: method: 'stars'; allowed: rating, claims"),
        ("direction: higher", "direction: up", r":8: direction: 'up'; allowed: higher, lower"),
        (
            "{1: rude or",
            "{0: rude or",
            r":4: scale: {.0.: .*; allowed: a mapping",
        ),
        ("{1: rude or", "{2: rude or", r":4: scale: {'2': .*; allowed"),
        ("3: neutral, 5: warm and precise", "", r":4: scale: .*texts for 1 and n"),
        ("level: 1", "level: 6", r":6: examples: number 1 has level 6; allowed: an integer from"),
        ("reasoning: Rude", "reason: Rude", r"number 1 has 'reason'; did you mean 'reasoning'"),
        ("[{question", "[4, {question", r":6: examples: number 1 is '4'; allowed: a mapping"),
        ("direction:", "name:", r":1: name: repeated on line 8; allowed: once"),
        ("steps: [", "steps: [[", r":6: not YAML: "),
        (
            "method: rating",
            "formula: claim_f1",
            r":7: formula: no effect with method: rating; allowed: method",
        ),
        (
            "method: rating",
            "verdicts: own",
            r":7: verdicts: no effect with method: rating; allowed: method",
        ),
        (
            "method: rating",
            "method: pairwise",
            r":7: method: pairwise cannot be combined with asks: answer; allowed: asks: pair",
        ),
        (
            "asks: answer",
            "asks: pair",
            r":7: method: rating cannot be combined with asks: pair; allowed: method: pairwise",
        ),
        ("method: rating", "guidelines: one", r":7: guidelines: 'one'; allowed: a list of texts"),
        ("question: Why", "question: [Why]", r"number 1: question is \['Why'\]; allowed: a text"),
        (
            "question: Why",
            "contexts: Why",
            r"number 1: contexts is 'Why'; allowed: a list of texts",
        ),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path, old, new, message):
    path = tmp_path / "tone.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"tone\.yaml.*" + message):
        read_rubric(path)


@pytest.mark.parametrize("content", [b"", b"- a\n", b"\xff\xfe\x00"])
def test_what_is_no_rubric_at_all(tmp_path, content):
    path = tmp_path / "tone.yaml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"tone\.yaml: (not a mapping|cannot be read)"):
        read_rubric(path)


def test_an_unknown_name():
    with pytest.raises(OptionError, match=r"found 'faithfullness', allowed: .*mean 'faithfulness'"):
        load_rubric("faithfullness")


def test_what_is_asked_by_default():
    def asked(served):
        return default_rubrics(JudgeFacts(served=served))

    assert asked(None) == DEFAULT_RUBRICS
    assert asked(["refusal", "correctness", "faithfulness"]) == ("faithfulness", "correctness")
    assert asked(["refusal"]) == ("refusal",)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("method: claims\nexamples: [{answer: a, level: 1, reasoning: b}]", "examples"),
        ("method: nuggets\nexamples: [{answer: a, level: 1, reasoning: b}]", "examples"),
        ("method: claims\nverdicts: shared\nsteps: [Read.]", "steps"),
        ("method: support\nsteps: [Read.]", "steps"),
    ],
)
def test_what_no_judge_is_shown_is_refused(tmp_path, text, key):
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nneeds: [answer]\nscale: {{1: bad, 3: good}}\n{text}\n", "utf-8")
    line = 4 + text.partition(key)[0].count("\n")
    with pytest.raises(DataError, match=rf"own.yaml:{line}: {key}: no judge is shown the {key}"):
        read_rubric(path)


def test_own_steps_of_claims_are_sent(tmp_path):
    path = tmp_path / "own.yaml"
    text = "name: own\nneeds: [answer, contexts]\nscale: {1: bad, 3: good}\nmethod: claims\n"
    path.write_text(f"{text}steps: [Dates are exact.]\n", "utf-8")
    assert any("Dates are exact." in step.prompt.system for step in preview(read_rubric(path)))
