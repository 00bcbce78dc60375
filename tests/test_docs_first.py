"""First programs of the docs: a page's files and commands, in an empty folder."""

import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.commands import run_command
from tests.docs_words import MOST_WORDS

BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if FILE.search(path.read_text("utf-8")))
# Pages that go on with the files of the page on the user's app.
CONTINUED = ("judging.md",)
# Package of a program -> its import in the files of a section, which cannot run without it.
PACKAGES = {"langchain_core": "langchain_core", "llama_index.core": "llama_index", "openai": "gpt-"}
# Pages to read, as the navigation has them.
TAB = "Read"


def write_files(page: str, folder: Path) -> None:
    for name, text in FILE.findall((DOCS / page).read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_the_first_programs_are_here():
    assert {"connect.md", "run-files.md"} <= {*PAGES}


def links_of(page: str) -> set[str]:
    """The pages that a page links to, without anchors."""
    return set(re.findall(r"\]\(([\w.-]+\.md)[#)]", (DOCS / page).read_text(encoding="utf-8")))


def pages_of(tab: str) -> list[str]:
    """The pages of a part of the navigation, in its order."""
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    (entries,) = (entries for part in nav for name, entries in part.items() if name == tab)
    return [page if isinstance(page, str) else next(iter(page.values())) for page in entries]


def test_the_pages_to_read_are_few_and_short():
    n_words = {page: len((DOCS / page).read_text("utf-8").split()) for page in pages_of(TAB)}

    assert len(n_words) <= 16
    assert sum(n_words.values()) <= 22_000
    assert [page for page, n in n_words.items() if n > MOST_WORDS] == []


def test_the_list_for_coding_agents_names_pages():
    links = links_of("llms.txt")
    assert {"SKILL.md", "connect.md", "read.md", "ci.md"} <= links
    assert [link for link in links if not (DOCS / link).is_file()] == []


def test_every_page_to_read_is_two_clicks_from_the_start():
    one_click = links_of("index.md")
    two_clicks = one_click.union(*map(links_of, one_click))

    assert {"connect.md", "no-questions.md", "read.md", "ci.md", "judging.md"} <= one_click
    assert [page for page in pages_of(TAB)[1:] if page not in two_clicks] == []


def sections_of(page: str) -> list[str]:
    """The parts of a page that need no package that is absent here, beginning with the lead."""
    parts = re.split(r"^(?=## )", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    absent = [word for name, word in PACKAGES.items() if not is_installed(name)]
    return [part for part in parts if not any(word in part for word in absent)]


def is_installed(name: str) -> bool:
    """True if a package or module can be imported."""
    top = name.partition(".")[0]
    return find_spec(top) is not None and find_spec(name) is not None


@pytest.mark.costly
@pytest.mark.parametrize("page", PAGES)
def test_a_first_program_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")  # `plan` asks for it and sends nothing
    if page in CONTINUED:
        write_files("connect.md", tmp_path)
    write_files(page, tmp_path)
    sections, printed = sections_of(page), ""
    if not any(BLOCK.search(section) for section in sections):
        pytest.skip(f"{page}: its packages are not installed")
    for language, block in BLOCK.findall("".join(sections)):
        if language == "text":
            # lines of each block follow each other; tables may have other gaps
            missing = lines_of(block) - lines_of(printed)
            assert not missing, f"{page} shows {missing}, and its commands print\n{printed}"
            continue
        for command in block.splitlines():
            done = run_command(*shlex.split(command)[1:], cwd=tmp_path)
            printed += done.stdout + done.stderr
            assert done.returncode == 0, f"{command}\n{printed}"


def test_the_jobs_of_coding_agents_give_the_json_that_is_shown(tmp_path):
    # Each example of JSON is a part of what the command above it prints.
    write_files("connect.md", tmp_path)
    page, printed = (DOCS / "SKILL.md").read_text("utf-8"), ""
    jobs = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert len(jobs) == 5
    assert all(len(job.split()) <= 400 for job in jobs)
    for language, block in re.findall(
        r"^```(bash|json)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    ):
        if language == "json":
            assert_part_of(json.loads(block), json.loads(printed))
            continue
        for command in block.splitlines():
            done = run_command(*shlex.split(command)[1:], cwd=tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            printed = done.stdout


def assert_part_of(part, whole):
    """Every value of an example stands in the same place of the output; lists may be longer."""
    if isinstance(part, dict):
        for key, value in part.items():
            assert_part_of(value, whole[key])
    elif isinstance(part, list) and part and isinstance(part[0], dict):
        for value, of_whole in zip(part, whole, strict=False):
            assert_part_of(value, of_whole)
    else:
        assert part == (pytest.approx(whole, abs=1e-4) if isinstance(part, list) else whole)


def lines_of(text: str) -> set[str]:
    return {" ".join(line.split()) for line in text.splitlines()}
