"""Models by path or hub name: what identifies them, and what is said where they are not there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ragbench.embed.base import find_checkpoint, folder_digest, need_packages
from ragbench.errors import MissingExtra, OptionError


@pytest.fixture
def folder(tmp_path):
    """Files that look like a model."""
    model_folder = tmp_path / "here"
    model_folder.mkdir()
    (model_folder / "config.json").write_text(
        '{"model_type": "bert", "_name_or_path": "/somewhere"}'
    )
    (model_folder / "model.safetensors").write_bytes(b"weights")
    (model_folder / "tokenizer.json").write_text("{}")
    (model_folder / "README.md").write_text("a model")
    return model_folder


def test_a_copy_elsewhere_is_the_same_model(folder, tmp_path):
    copy = tmp_path / "there" / "other-name"
    shutil.copytree(folder, copy)
    (copy / "README.md").write_text("moved")
    config = {"transformers_version": "9", "_name_or_path": "/elsewhere", "model_type": "bert"}
    (copy / "config.json").write_text(json.dumps(config))

    assert folder_digest(copy) == folder_digest(folder)
    identity = find_checkpoint("bertscore", str(copy)).identity
    assert identity == f"sha256-{folder_digest(folder)}"
    assert str(tmp_path) not in identity


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_other_content_is_another_model(folder, name):
    digest = folder_digest(folder)
    (folder / name).write_text('{"model_type": "roberta"}')

    assert folder_digest(folder) != digest


def test_a_name_on_the_hub_stands_for_itself():
    assert find_checkpoint("bertscore", "microsoft/deberta-base").identity == (
        "microsoft/deberta-base"
    )


@pytest.mark.parametrize(
    "model", ["./absent", "/absent/model", "~/absent", "a/b/c", "", " ", None, 5, ["a"]]
)
def test_a_path_without_a_model_is_refused(model, assert_message):
    with pytest.raises(OptionError) as caught:
        find_checkpoint("bertscore", model)
    assert_message(caught.value, "bertscore: model")


def test_a_folder_without_a_model_is_refused(tmp_path, monkeypatch, assert_message):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(OptionError) as caught:
        find_checkpoint("bertscore", "empty")
    assert_message(caught.value, "bertscore: model")


def test_what_is_absent_is_named_with_its_extra(assert_message):
    with pytest.raises(MissingExtra) as caught:
        need_packages("metric 'bertscore'", "bertscore", {"json": "json", "no_such": "nope"})
    assert_message(caught.value)


ABSENT = """
import sys
for name in ("torch", "transformers", "bert_score", "sentence_transformers"):
    sys.modules[name] = None
import ragbench as rb
for name in ("bertscore", "semantic_similarity"):
    try:
        rb.evaluate_texts(["a"], ["a"], [name])
    except rb.MissingExtra as error:
        print(error)
"""


@pytest.mark.costly
def test_without_the_packages_the_extra_is_named(assert_message):
    done = subprocess.run(
        [sys.executable, "-c", ABSENT], capture_output=True, text=True, check=True
    )

    assert_message(done.stdout.splitlines())


OFFLINE = """
import json, sys
from ragbench.cli import main
for sys.argv in json.loads(sys.argv[1]):
    try:
        main()
    except SystemExit as left:
        print("ended with", left.code, file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_is_one_line(minilm, tmp_path, assert_message):
    # Left alone, transformers would try for three quarters of a minute, and say so each time
    texts, rows = tmp_path / "texts.txt", tmp_path / "r.jsonl"
    texts.write_text("a cat\n")
    rows.write_text('{"question": "the cat", "contexts": ["a cat"], "answer": "a cat"}\n')
    judge = {"type": "nli", "model": "someone/some-nli", "rubrics": ["faithfulness"]}
    config = {
        "dataset": {"type": "records", "path": str(rows)},
        "metrics": {"judge": judge},
        "output": str(tmp_path / "runs"),
    }
    (tmp_path / "c.json").write_text(json.dumps(config))
    names = ("bertscore", "semantic_similarity")
    files = ("--predictions", str(texts), "--references", str(texts))
    commands = [*(["score", *files, "-m", name] for name in names), ["run", "c.json"]]
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    environment.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            OFFLINE,
            json.dumps([["ragbench", *command] for command in commands]),
        ],
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    *scored, judged, last_output = done.stderr.split("ended with 2\n")
    assert (done.returncode, last_output) == (0, ""), done.stderr
    for name, output in zip(names, scored, strict=True):
        (line,) = output.strip().splitlines()
        assert f"{name}: model '" in line
        assert_message(line)
    assert "Traceback" not in judged
    assert_message(judged)


def test_a_model_may_be_a_path(folder):
    assert find_checkpoint("bertscore", folder) == find_checkpoint("bertscore", str(folder))
