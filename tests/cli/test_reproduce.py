"""`ragbench reproduce`: the same numbers, or what differs."""

import shutil
from pathlib import Path

import pytest

from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


@pytest.fixture
def after_small_run(judged_quickstart, tmp_path):
    """The test's folder as a run over twelve queries leaves it."""
    judged_quickstart.copy_to(tmp_path)


def test_an_option_changed_by_hand(after_small_run, quickstart, assert_message):
    config = Path("runs/quickstart/latest/config.yaml").resolve()
    text = config.read_text()
    assert "sentences: 2" in text
    config.write_text(text.replace("sentences: 2", "sentences: 1"))

    code, text, _ = quickstart("reproduce", "runs/quickstart", "--quiet")

    assert code == 1
    assert_message(lines_with(text, "differs: rouge1 of"))


def test_live_objects_are_refused(quickstart, repository, assert_message):
    def search(question, top_k):
        return []

    config = repository / "configs" / "quickstart.yaml"
    only = Choices(limit=3, only=("mine",))
    run_experiment(config, {"generators": {}}, retrievers={"mine": search}, choices=only)

    code, _, problems = quickstart("reproduce", "runs/quickstart", "--quiet")

    assert code == 2
    assert_message(problems)


def test_a_run_folder_that_was_moved_by_itself(
    after_small_run, quickstart, tmp_path, assert_message
):
    # Its paths start from where it was written, which CI does not keep.
    moved = tmp_path / "artifacts" / "main" / "run"
    shutil.copytree(Path("runs/quickstart/latest").resolve(), moved)

    code, text, problems = quickstart("reproduce", str(moved), "--quiet")

    assert code == 0, problems
    assert_message(lines_with(text, "and every ranking is the"))


def test_no_run(quickstart):
    code, _, problems = quickstart("reproduce", "nothing")

    assert code == 2
    assert "no run here" in problems


def test_changed_data(quickstart, tmp_path, example_data):
    shutil.copytree(example_data, tmp_path / "data")
    smaller = ("--set", f"dataset.path={tmp_path / 'data'}", "--limit", "12", "--only", "bm25")
    quickstart("run", "CONFIG", "--quiet", *smaller)
    path = tmp_path / "data" / "queries.jsonl"
    path.write_text(path.read_text().replace("?", " please?", 1))

    code, text, problems = quickstart("reproduce", "runs/quickstart", "--quiet")

    assert "changed: queries was" in text, problems
    assert code in (0, 1)
