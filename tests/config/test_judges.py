"""`metrics.judge`: rubrics by name and by file, one judge and several."""

import pytest

from ragbench.score.judge.nli import NLI

HEAD = "dataset: {type: beir, path: data}\nretrievers: {a: {type: bm25}}\nmetrics:\n  judge: "
RUBRIC = "name: faithfulness\nneeds: [question, answer]\nscale: {1: bad, 3: good}\n"


def judge(rubrics):
    return f"{HEAD}{{type: nli, rubrics: [{rubrics}]}}\n"


def test_a_file_becomes_an_absolute_path(load, here):
    (here / "mine.yaml").write_text(RUBRIC, encoding="utf-8")

    config = load(judge("correctness, mine.yaml"))

    [block] = config.metrics.judges.values()
    assert block.rubrics == ("correctness", here / "mine.yaml")
    assert config.resolved["metrics"]["judge"]["rubrics"] == ["correctness", "mine.yaml"]


def test_several_judges_keep_their_names(load):
    config = load(
        f"{HEAD}\n"
        "    strict: {type: python:tests.words:context_overlap}\n"
        "    lax: {type: python:tests.words:Words, rubrics: [faithfulness], when: available}\n"
    )

    assert {name: block.name for name, block in config.metrics.judges.items()} == {
        "strict": "strict",
        "lax": "lax",
    }
    assert config.metrics.judges["lax"].when == "available"


@pytest.mark.parametrize(
    ("block", "rubrics"),
    [
        ("{type: openai, model: m}", ["faithfulness", "answer_relevancy", "correctness"]),
        ("{type: nli}", ["faithfulness", "correctness"]),
        ("{type: 'python:tests.words:Tone'}", ["coherence", "fluency"]),
    ],
)
def test_without_rubrics_it_applies_the_usual_ones_or_all_that_it_can(load, block, rubrics):
    config = load(f"{HEAD}{block}\n")

    [judge] = config.metrics.judges.values()
    assert judge.rubrics == tuple(rubrics)
    assert config.resolved["metrics"]["judge"]["rubrics"] == rubrics


@pytest.mark.parametrize(
    ("block", "rubric", "allowed"),
    [
        ("type: nli", "answer_relevancy", ", ".join(NLI.served)),
        ("type: 'python:tests.words:Tone'", "faithfulness", "coherence, fluency"),
    ],
)
def test_a_judge_names_the_rubrics_that_it_can_apply(problems, block, rubric, allowed):
    [problem] = problems(f"{HEAD}{{{block}, rubrics: [{rubric}]}}\n")

    assert problem.found == f"this judge cannot apply '{rubric}'"
    assert problem.allowed == allowed


def test_no_judge_at_all(load):
    assert load(f"{HEAD}{{}}\n").metrics.judges == {}


@pytest.mark.parametrize(
    ("rubrics", "found"),
    [
        ("fluency", "this judge cannot apply 'fluency'"),
        ("faithfulnes", "unknown rubric 'faithfulnes'"),
        ("absent.yaml", "no such file: absent.yaml"),
        ("correctness, correctness", "'correctness' gives a second score named 'correctness'"),
        ("faithfulness, mine.yaml", "'mine.yaml' gives a second score named 'faithfulness'"),
        ("tone.yaml", "this judge cannot apply 'tone.yaml'"),
        ("broken.yaml", "'broken.yaml': line 2: nedes: unknown key"),
    ],
)
def test_mistakes_in_rubrics(problems, here, rubrics, found):
    (here / "mine.yaml").write_text(RUBRIC, encoding="utf-8")
    (here / "broken.yaml").write_text(RUBRIC.replace("needs", "nedes"), encoding="utf-8")
    tone = RUBRIC.replace("faithfulness", "tone")
    (here / "tone.yaml").write_text(tone, encoding="utf-8")
    position = rubrics.count(",")

    [problem] = problems(judge(rubrics))

    assert problem.found == found
    assert len(problem.allowed) < 250, "beside the right spelling a few names are enough"
    assert problem.path == f"metrics.judge.rubrics.{position}"
    assert problem.line == 4


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("{}", []),
        ("3", ["4:10: metrics.judge: 3 is not a mapping"]),
        ("{rubrics: [faithfulness]}", ["4:3: metrics.judge: missing key 'type'"]),
        ("{a: {rubrics: []}}", ["4:11: metrics.judge.a: missing key 'type'"]),
        (
            "{type: nli, rubrics: x}",
            ["4:31: metrics.judge.rubrics: 'x' is not a list of text or a mapping"],
        ),
        (
            "{type: nli, rubrics: [], when: never}",
            ["4:41: metrics.judge.when: unknown value 'never'"],
        ),
        (
            "{type: nli, rubrics: [], rubrik: 1}",
            ["4:35: metrics.judge: unknown key 'rubrik'"],
        ),
        (
            "{type: nlu, rubrics: [faithfulnes], when: never}",
            [
                "4:17: metrics.judge.type: unknown type 'nlu'",
                "4:32: metrics.judge.rubrics.0: unknown rubric 'faithfulnes'",
                "4:52: metrics.judge.when: unknown value 'never'",
            ],
        ),
    ],
)
def test_mistakes_in_the_block(load, lines, block, expected):
    text = f"{HEAD}{block}\n"
    if expected:
        assert lines(text) == expected
    else:
        assert load(text)
