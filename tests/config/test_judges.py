"""`metrics.judge`: rubrics by name and by file, one judge and several."""

import pytest

from ragbench.score.judge.nli import NLI

HEAD = "dataset: {type: beir, path: data}\nretrievers: {a: {type: bm25}}\nmetrics:\n  judge: "
RUBRIC = "name: faithfulness\nneeds: [question, answer]\nscale: {1: bad, 3: good}\n"


def judge(rubrics):
    return f"{HEAD}{{type: nli, rubrics: [{rubrics}]}}\n"


def test_a_file_becomes_an_absolute_path(load, config_folder):
    (config_folder / "mine.yaml").write_text(RUBRIC, encoding="utf-8")

    config = load(judge("correctness, mine.yaml"))

    [block] = config.metrics.judges.values()
    assert block.rubrics == ("correctness", config_folder / "mine.yaml")
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
def test_a_judge_names_the_rubrics_that_it_can_apply(
    problems, block, rubric, allowed, assert_message
):
    [problem] = problems(f"{HEAD}{{{block}, rubrics: [{rubric}]}}\n")

    assert_message(problem.found)
    assert problem.allowed == allowed


def test_no_judge_at_all(load):
    assert load(f"{HEAD}{{}}\n").metrics.judges == {}


@pytest.mark.parametrize(
    ("rubrics", "place"),
    [
        ("fluency", ""),
        ("faithfulnes", ""),
        ("absent.yaml", ""),
        ("correctness, correctness", ""),  # the same rubric twice
        ("faithfulness, mine.yaml", ""),  # two rubrics of one name
        ("tone.yaml", ""),
        ("broken.yaml", "'broken.yaml'"),
    ],
)
def test_mistakes_in_rubrics(problems, config_folder, rubrics, place, assert_message):
    (config_folder / "mine.yaml").write_text(RUBRIC, encoding="utf-8")
    (config_folder / "broken.yaml").write_text(RUBRIC.replace("needs", "nedes"), encoding="utf-8")
    tone = RUBRIC.replace("faithfulness", "tone")
    (config_folder / "tone.yaml").write_text(tone, encoding="utf-8")
    position = rubrics.count(",")

    [problem] = problems(judge(rubrics))

    assert_message(problem.found, place)
    assert len(problem.allowed) < 250, "beside the right spelling a few names are enough"
    assert problem.path == f"metrics.judge.rubrics.{position}"
    assert problem.line == 4


def test_an_empty_block_has_no_judge(load):
    assert load(f"{HEAD}{{}}\n")


@pytest.mark.parametrize(
    ("block", "places"),
    [
        ("3", ["4:10"]),
        ("{rubrics: [faithfulness]}", ["4:3"]),
        ("{a: {rubrics: []}}", ["4:11"]),
        ("{type: nli, rubrics: x}", ["4:31"]),
        ("{type: nli, rubrics: [], when: never}", ["4:41"]),
        ("{type: nli, rubrics: [], rubrik: 1}", ["4:35"]),
        ("{type: nlu, rubrics: [faithfulnes], when: never}", ["4:17", "4:32", "4:52"]),
    ],
)
def test_mistakes_in_the_block(lines, block, places, assert_message):
    messages = lines(f"{HEAD}{block}\n")

    assert [message.partition(": ")[0] for message in messages] == places
    assert_message(messages)
