"""First programs of the docs: a page's files and commands, in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.commands import run_command

BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if FILE.search(path.read_text("utf-8")))
# Pages that go on with the files of the first run with a table.
CONTINUED = ("first-langchain.md", "first-llamaindex.md", "judge-costs.md")
# First pages by what a reader has, and pages by what a reader wants to do.
START = (
    *("first-table.md", "first-langchain.md", "first-llamaindex.md", "first-notebook.md"),
    *("weekly.md", "no-questions.md"),
)
TASKS = {
    *("score-zero.md", "three-numbers.md", "for-your-team.md", "judge-costs.md", "moving.md"),
    *("from-deepeval.md", "from-trec-eval.md", "against.md"),
}
# Page -> package without which its program cannot run.
NEEDS = {
    "first-langchain.md": "langchain_core",
    "first-llamaindex.md": "llama_index.core",
    "judge-costs.md": "openai",
}


def write_files(page: str, folder: Path) -> None:
    for name, text in FILE.findall((DOCS / page).read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_the_first_programs_are_here():
    first = {f"first-{name}.md" for name in ("table", "langchain", "llamaindex")}
    assert first | {"from-trec-eval.md"} <= {*PAGES}


def links_of(page: str) -> set[str]:
    """The pages that a page links to, without anchors."""
    return set(re.findall(r"\]\(([\w.-]+\.md)[#)]", (DOCS / page).read_text(encoding="utf-8")))


def test_the_list_for_coding_agents_names_pages():
    links = links_of("llms.txt")
    assert {"SKILL.md", *START} <= links
    assert [link for link in links if not (DOCS / link).is_file()] == []


def test_every_task_is_two_clicks_from_the_start_of_the_site():
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    tabs = {name: str(entries) for tab in nav for name, entries in tab.items()}
    one_click = links_of("index.md")
    two_clicks = one_click.union(*map(links_of, one_click))

    assert {*START, "score-zero.md", "three-numbers.md"} <= one_click
    assert two_clicks >= TASKS
    assert [page for page in START if page not in tabs["Start"]] == []
    assert [page for page in TASKS if page not in tabs["Do"] + tabs["Trust"]] == []


@pytest.mark.costly
@pytest.mark.parametrize("page", PAGES)
def test_a_first_program_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")  # `plan` asks for it and sends nothing
    if page in NEEDS:
        pytest.importorskip(NEEDS[page], reason=f"{page}: {NEEDS[page]} is not installed")
    if page in CONTINUED:
        write_files("first-table.md", tmp_path)
    write_files(page, tmp_path)
    printed = ""
    for language, block in BLOCK.findall((DOCS / page).read_text("utf-8")):
        if language == "text":
            # lines of each block follow each other; tables may have other gaps
            missing = lines_of(block) - lines_of(printed)
            assert not missing, f"{page} shows {missing}, and its commands print\n{printed}"
            continue
        for command in block.splitlines():
            done = run_command(*shlex.split(command)[1:], cwd=tmp_path)
            printed += done.stdout + done.stderr
            assert done.returncode == 0, f"{command}\n{printed}"


def lines_of(text: str) -> set[str]:
    return {" ".join(line.split()) for line in text.splitlines()}
