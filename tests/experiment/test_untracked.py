"""Folders that a run creates are not tracked by Git; those that existed before are left alone."""

import subprocess

import pytest

import ragbench as rb


def run(**keys):
    config = {
        "name": "moons",
        "retrievers": {"bm25": {"type": "bm25"}},
        "metrics": {"retrieval": {"measures": ["mrr"]}},
        **keys,
    }
    rows = [{"question": f"which is moon number {n}", "relevant": [f"d{n}"]} for n in range(3)]
    texts = [{"id": f"d{n}", "text": f"moon number {n}"} for n in range(3)]
    return rb.run_experiment(config, dataset=rows, documents=texts)


def git(*arguments):
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGBENCH_CACHE", raising=False)
    git("init", "-q")
    return tmp_path


def test_git_sees_neither_runs_nor_cache(checkout):
    run()

    assert git("status", "--porcelain") == []
    for folder in ("runs", ".ragbench"):
        assert (checkout / folder / ".gitignore").read_text("utf-8") == "*\n"


def test_a_folder_of_the_user_gets_no_gitignore(checkout):
    (checkout / "runs").mkdir()
    (checkout / "runs/main.json").write_text("{}", "utf-8")

    run()
    run(output=".")

    assert not (checkout / ".gitignore").exists()
    assert not (checkout / "runs/.gitignore").exists()
    assert not (checkout / "moons/.gitignore").exists()
    git("add", "runs/main.json")


def test_a_gitignore_that_the_user_changed_or_deleted_stays_so(checkout):
    run()
    (checkout / "runs/.gitignore").write_text("moons\n", "utf-8")
    (checkout / ".ragbench/.gitignore").unlink()
    run()

    assert (checkout / "runs/.gitignore").read_text("utf-8") == "moons\n"
    assert not (checkout / ".ragbench/.gitignore").exists()


def test_nested_folders_are_created_with_one_gitignore(checkout):
    run(output="results/nightly", cache="work/cache")

    assert [str(p.relative_to(checkout)) for p in sorted(checkout.rglob(".gitignore"))] == [
        "results/nightly/.gitignore",
        "work/cache/.gitignore",
    ]
