"""Every Python program of the docs runs as a cell of a notebook does; `make types` checks types."""

import pytest

from tests.chat_server import ChatServer
from tests.notebook import PAGES, installed, programs, run_cell
from tests.score.judge.scripted import Script


def test_every_page_with_a_program_is_here(repository):
    pages = [*(repository / "docs").glob("*.md"), repository / "README.md"]
    assert {str(page.relative_to(repository)) for page in pages if programs(page)} == {*PAGES}


@pytest.mark.costly
@pytest.mark.parametrize(
    "page", ["application.md", "calibration.md", "connect.md", "gates.md", "gates-ci.md", "own.md"]
)
def test_the_programs_run_in_a_running_loop(repository, tmp_path, monkeypatch, page):
    # Programs of other pages need a server or a run; tests of their own run them.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(repository / "datasets")
    ran = [path for path in programs(repository / "docs" / page) if installed(path)]

    for program in ran:
        run_cell(program, page, {"__name__": "cell"})

    assert ran


@pytest.mark.costly
def test_the_quick_start_of_ragas_runs(repository, monkeypatch, capsys, assert_message):
    with ChatServer(Script()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        (program,) = programs(repository / "docs/moving.md")
        names = {"__name__": "cell"}
        with pytest.warns(UserWarning, match=r"context_precision\(as=ragas\)"):
            run_cell(program, "moving.md", names)

    assert names["lowest"]["faithfulness"].tolist() == names["result"]["faithfulness"]
    assert_message(capsys.readouterr().out)
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
    _, service, *_ = programs(repository / "docs/application.md")
    names = {"__name__": "service"}
    run_cell(service, "application.md", names)
    names["SHARE"], logged = 1.0, []
    monkeypatch.setattr(names["log"], "info", lambda text, *values: logged.append(text % values))

    with testclient.TestClient(names["app"]) as client:
        reply = client.get("/answer", params={"question": "When?"}).json()

    assert reply == {"answer": "It opened in 1932."}
    assert logged == ["fluency 1.00"]
