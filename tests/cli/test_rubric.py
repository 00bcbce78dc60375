"""`ragbench list rubrics NAME`."""

import json

import pytest
from click.testing import CliRunner

from ragbench.cli.list import command
from ragbench.errors import DataError, OptionError
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from tests.score.judge.previews import preview


def invoke(*arguments):
    words = ["rubrics", *map(str, arguments)]
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", built_in_rubrics())
def test_every_prompt_is_printed_whole(name):
    # The task of each prompt is that of the method; the judged texts are the example's.
    text = invoke(name)
    prompts = json.loads(invoke(name, "--json"))["prompts"]

    systems = {prompt.system for _, prompt in preview(load_rubric(name))}
    assert systems == {prompt["system"] for prompt in prompts}
    for number, prompt in enumerate(prompts, start=1):
        head = f"=== {number} of {len(prompts)}: "
        for part in ("system", "user"):
            assert f"{head}{part}\n{prompt[part]}\n" in text


@pytest.mark.parametrize("name", ["fluency", "pairwise", "context_relevancy"])
def test_a_prompt_that_needs_no_earlier_reply_is_the_one_that_is_sent(name):
    prompts = json.loads(invoke(name, "--json"))["prompts"]
    sent = [(prompt.system, prompt.user) for _, prompt in preview(load_rubric(name))]

    assert [(shown_prompt["system"], shown_prompt["user"]) for shown_prompt in prompts][
        : len(sent)
    ] == sent


def test_json_has_the_facts_of_the_rubric_and_the_schemas():
    facts = json.loads(invoke("hallucination", "--json"))

    assert facts["needs"] == ["question", "answer", "contexts", "reference"]
    assert facts["method"] == "claims"
    assert len(facts["prompts"]) == 3
    assert [*facts["prompts"][0]["schema"]["properties"]] == ["sentence_1"]


def test_a_file_of_the_users_without_examples(tmp_path):
    path = tmp_path / "tone.yaml"
    path.write_text("name: tone\nneeds: [answer]\nscale: {1: rude, 5: warm}\n", encoding="utf-8")
    text = invoke(path)
    assert text.startswith("tone: judges the answer, by rating; needs answer\n")
    assert "\n5: warm\n" in text


def test_other_kinds_have_no_more_to_show(assert_message):
    result = CliRunner().invoke(command, ["measures", "ndcg"])

    assert result.exit_code == 2
    assert_message(result.stderr)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [("fluensy", OptionError, "did you mean 'fluency'"), ("bad.yaml", DataError, "name: missing")],
)
def test_mistakes(tmp_path, monkeypatch, name, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("needs: []\nscale: {1: a, 2: b}\n", encoding="utf-8")
    with pytest.raises(error, match=message):
        invoke(name)
