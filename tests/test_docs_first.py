"""First programs of the docs: a page's files and commands, in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest

from tests.commands import run_command

FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if FILE.search(path.read_text("utf-8")))
# Pages that go on with the files of the first run with a table.
CONTINUED = ("first-langchain.md", "judge-costs.md")


def write_files(page: str, folder: Path) -> None:
    for name, text in FILE.findall((DOCS / page).read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_the_first_programs_are_here():
    assert {"first-table.md", "first-langchain.md", "from-trec-eval.md"} <= {*PAGES}


def test_the_list_for_coding_agents_names_pages():
    links = re.findall(r"\]\(([^)]+)\)", (DOCS / "llms.txt").read_text(encoding="utf-8"))
    assert "SKILL.md" in links
    assert [link for link in links if not (DOCS / link).is_file()] == []


@pytest.mark.costly
@pytest.mark.parametrize("page", PAGES)
def test_a_first_program_runs(page, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")  # `plan` asks for it and sends nothing
    if page == "first-langchain.md":
        pytest.importorskip("langchain_core")
    if page in CONTINUED:
        write_files("first-table.md", tmp_path)
    write_files(page, tmp_path)
    for command in "".join(COMMANDS.findall((DOCS / page).read_text("utf-8"))).splitlines():
        done = run_command(*shlex.split(command)[1:], cwd=tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
