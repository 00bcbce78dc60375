"""`ragbench rubric show`."""

import json

import pytest
from click.testing import CliRunner

from ragbench.cli.rubric import command, preview
from ragbench.errors import DataError, OptionError
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric


def invoke(*arguments):
    result = CliRunner().invoke(command, ["show", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", built_in_rubrics())
def test_prints_every_prompt_whole(name):
    text = invoke(name)
    prompts = preview(load_rubric(name))
    for number, (purpose, prompt) in enumerate(prompts, start=1):
        assert f"=== {number} of {len(prompts)}: {purpose}: system\n{prompt.system}\n" in text
        assert f": {purpose}: user\n{prompt.user}\n" in text


def test_json_has_what_the_text_has():
    shown = json.loads(invoke("hallucination", "--json", "--zero-shot"))
    assert shown["needs"] == ["question", "answer", "contexts", "reference"]
    assert [prompt["purpose"] for prompt in shown["prompts"]] == [
        "split the answer into claims",
        "check the claims of the answer against the passages",
        "check the claims of the answer against the reference",
    ]
    assert "Example" not in shown["prompts"][0]["system"]
    assert shown["fingerprint"] != json.loads(invoke("hallucination", "--json"))["fingerprint"]


def test_a_file_of_the_users_without_examples(tmp_path):
    path = tmp_path / "tone.yaml"
    path.write_text("name: tone\nneeds: [answer]\nscale: {1: rude, 5: warm}\n", encoding="utf-8")
    text = invoke(path)
    assert text.startswith("tone: asks of answer, by rating; needs answer\n")
    assert "\n5: warm\n" in text


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [("fluensy", OptionError, "did you mean 'fluency'"), ("bad.yaml", DataError, "name: missing")],
)
def test_mistakes(tmp_path, monkeypatch, name, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("needs: []\nscale: {1: a, 2: b}\n", encoding="utf-8")
    with pytest.raises(error, match=message):
        invoke(name)
