"""Every Python program of the docs: its types hold, and it runs as a cell of a notebook does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chat_server import ChatServer
from tests.notebook import PAGES, programs, run_cell
from tests.score.judge.scripted import Script


def installed(program):
    try:
        for name in re.findall(r"^from (fastapi|langchain_core)", program, re.MULTILINE):
            __import__(name)
    except ImportError:
        return False
    return True


def test_every_page_with_a_program_is_here(repository):
    pages = [*(repository / "docs").glob("*.md"), repository / "README.md"]
    assert {str(page.relative_to(repository)) for page in pages if programs(page)} == {*PAGES}


@pytest.mark.slow
def test_the_programs_are_typed_strictly(repository, tmp_path):
    files = []
    # to analyse MLflow and its like takes minutes; tests/test_integrations.py runs their programs
    for page in sorted({*PAGES} - {"docs/integrations.md"}):
        for number, program in enumerate(programs(repository / page)):
            if installed(program):
                files.append(tmp_path / f"{Path(page).stem}_{number}.py")
                files[-1].write_text(program, encoding="utf-8")

    # with the cache of `make types`: to analyse the package anew takes most of a minute
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, files)],
        capture_output=True, text=True, check=False, cwd=repository,
    )  # fmt: skip

    assert len(files) >= len(PAGES)
    assert done.returncode == 0, done.stdout


@pytest.mark.costly
@pytest.mark.parametrize("page", ["application.md", "ci.md", "first-notebook.md", "own.md"])
def test_the_programs_run_in_a_running_loop(repository, tmp_path, monkeypatch, page):
    """Those of the other pages need a server or a run; the tests of these pages run them so."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(repository / "datasets")
    ran = [each for each in programs(repository / "docs" / page) if installed(each)]

    for program in ran:
        run_cell(program, page, {"__name__": "cell"})

    assert ran


@pytest.mark.costly
def test_the_quick_start_of_ragas_runs(repository, monkeypatch, capsys):
    with ChatServer(Script()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        (program,) = programs(repository / "docs/moving.md")
        names = {"__name__": "cell"}
        run_cell(program, "moving.md", names)

    assert capsys.readouterr().out.startswith("<Evaluation of 1:\n  faithfulness      1.00")
    assert [*names["frame"].columns][-6:] == [*names["names"], "cause", "reason"]


def test_the_program_on_causes_runs(repository, finished_quickstart, tmp_path, monkeypatch):
    finished_quickstart.copy_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    (program,) = programs(repository / "docs" / "explain.md")
    run_cell(program, "explain.md", names := {})
    assert names["view"].id == "q04"


@pytest.mark.costly
def test_the_service_answers_and_grades(repository, monkeypatch):
    testclient = pytest.importorskip("fastapi.testclient")
    service, *_ = programs(repository / "docs/application.md")
    names = {"__name__": "service"}
    run_cell(service, "application.md", names)
    names["SHARE"], logged = 1.0, []
    monkeypatch.setattr(names["log"], "info", lambda text, *given: logged.append(text % given))

    with testclient.TestClient(names["app"]) as client:
        said = client.get("/answer", params={"question": "When?"}).json()

    assert said == {"answer": "It opened in 1932."}
    assert logged == ["fluency scored 1.0"]
