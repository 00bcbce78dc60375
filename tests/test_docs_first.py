"""First programs of the docs: a page's files and commands, in an empty folder."""

import json
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.docs_words import (
    MOST_IN_ALL,
    MOST_WORDS,
    long_sentences,
    navigation,
    orphans,
    sentences,
    terms,
    terms_before_meaning,
    texts,
    words,
)

BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if FILE.search(path.read_text("utf-8")))
# Pages that go on with the files of the page on the user's app.
CONTINUED = ("judging.md",)
# Pages whose commands need a repository of git, and pages that go on with the quickstart.
OF_GIT, OF_QUICKSTART = ("ci.md", "SKILL.md"), ("index.md", "read.md", "fix.md", "large.md")
# Package of a program -> its import in the files of a section, which cannot run without it.
PACKAGES = {"langchain_core": "langchain_core", "llama_index.core": "llama_index", "openai": "gpt-"}
# Pages to read, as the navigation has them.
TAB = "Read"


def write_files(page: str, folder: Path) -> None:
    for name, text in FILE.findall((DOCS / page).read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_the_first_programs_are_here():
    assert {"connect.md", "run-files.md", "noise.md", "no-questions.md"} <= {*PAGES}


def links_of(page: str) -> set[str]:
    """The pages that a page links to, without anchors."""
    return set(re.findall(r"\]\(([\w.-]+\.md)[#)]", (DOCS / page).read_text(encoding="utf-8")))


def test_the_pages_to_read_are_few_and_short():
    n_words = {page: len((DOCS / page).read_text("utf-8").split()) for page in navigation()[TAB]}

    assert len(n_words) <= 16
    assert sum(n_words.values()) <= 22_000


def test_no_page_is_too_long():
    pages = texts()

    n_words = {}
    for tab, names in navigation().items():
        n_words |= {page: words(pages[page], tab) for page in names}
    assert {page: n for page, n in n_words.items() if n > MOST_WORDS} == {}
    rows = "| a | b |\n" * 3 + "one two\n"
    assert [words(rows, tab) for tab in ("Read", "Look up", "Trust")] == [17, 17, 2]


def test_all_pages_together_are_short():
    pages = texts()
    n_words = [len(pages[page].split()) for names in navigation().values() for page in names]

    assert len(n_words) == len(pages), "each page is in the navigation"
    assert sum(n_words) <= MOST_IN_ALL


def test_every_page_to_read_has_an_example_that_runs():
    # programs in Python run in tests/test_docs_programs.py, all others here
    with_programs = {page for page, text in texts().items() if "\n```python\n" in text}

    assert {*navigation()[TAB]} <= {*PAGES, *OF_QUICKSTART, *with_programs}


def test_the_first_page_and_readme_have_one_task_and_five_doors(repository):
    first = (DOCS / "index.md").read_text(encoding="utf-8")
    readme = (repository / "README.md").read_text(encoding="utf-8")

    commands, output = (block.splitlines() for _, block in BLOCK.findall(first))
    assert (len(commands), len(output), first.count("![")) == (3, 5, 1)
    sentence = first.split("\n\n")[1]
    assert sentence == readme.split("\n\n")[1]
    assert len([*sentences(sentence)]) == 1
    doors = [line for line in first.splitlines() if line.startswith("- **")]
    rows = readme.partition("| you have | read |\n|---|---|\n")[2].partition("\n\n")[0]
    assert (len(doors), len(rows.splitlines())) == (5, 5)


@pytest.mark.parametrize("tab", [TAB, "Look up", "Trust"])
def test_the_sentences_are_short(tab):
    pages = texts()

    by_page = {page: long_sentences(pages[page]) for page in navigation()[tab]}
    assert {page: long for page, long in by_page.items() if long} == {}


def test_no_term_of_the_glossary_comes_before_its_meaning():
    pages = texts()
    needed = terms(pages["glossary.md"])

    assert {"gold", "baseline", "interval", "cause"} <= {*needed}
    terms_of = {page: terms_before_meaning(pages[page], needed) for page in navigation()[TAB]}
    assert {page: early for page, early in terms_of.items() if early} == {}


@pytest.mark.parametrize(
    ("text", "early"),
    [
        ("Its gold is read.", ["gold"]),
        ("## Gold\n\n`gold` is a key.\n\nIts gold is read. The **gold** answers.", []),
        ("Its gold is read.\n\nThe **gold** of a question answers it.", ["gold"]),
        ("The gold (what answers a question) is read.", []),
        ("Its [gold](glossary.md#data) is read.", []),
        ("Its [gold](data.md) is read.", []),
        ("Its [gold](other.md) is read.", []),
        ("Its gold is read, as [others](other.md) are.", ["gold"]),
        ("The document that answers (gold) is read.", []),
        ("| gold | the document that answers |", []),
        ("| x | its gold |", ["gold"]),
        ("```\ngold\n```\n\nGolden days.", []),
    ],
)
def test_a_term_has_its_meaning_where_a_page_first_uses_it(text, early):
    needed = terms("| term | meaning |\n|---|---|\n| gold | Correct. [Data](data.md) |\n")

    assert terms_before_meaning(text, needed) == early


def test_every_page_has_a_link():
    assert orphans(texts()) == []
    assert orphans({"index.md": "[a](a.md)", "a.md": "", "b.md": "[b](b.md)"}) == ["b.md"]


def test_the_list_for_coding_agents_names_pages_and_the_five_jobs():
    links = links_of("llms.txt")
    assert {"SKILL.md", "connect.md", "read.md", "ci.md"} <= links
    assert [link for link in links if not (DOCS / link).is_file()] == []
    headings = re.findall(r"^## (.*)$", (DOCS / "SKILL.md").read_text("utf-8"), re.MULTILINE)
    anchors = [re.sub(r"[^a-z0-9-]", "", head.lower().replace(" ", "-")) for head in headings]
    jobs = re.findall(r"SKILL\.md#([\w-]+)", (DOCS / "llms.txt").read_text("utf-8"))
    assert len(jobs) == 5
    assert jobs == anchors


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\]\([^)]*\)|[^\w\s-]", "", heading) for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading).strip("-").lower() for heading in plain}


def test_links_from_outside_the_site_lead_to_pages_and_anchors(repository):
    # `make docs` looks at links between pages; these are of messages, configs and root pages
    anchors = {page.name: anchors_of(page) for page in DOCS.glob("*.md")}
    assert "a-score-is-000" in anchors["read.md"]
    globs = ("*.md", "*.yml", "Makefile", "configs/*.yaml", "benchmarks/*.py", "ragbench/**/*.py")
    dead = []
    for file in sorted({path for glob in globs for path in repository.glob(glob)}):
        links = re.findall(r"docs/([a-z-]+\.md)(?:#([\w-]+))?", file.read_text(encoding="utf-8"))
        for page, anchor in {*links} - {("plan.md", "")}:  # a path of users, in a docstring
            if page not in anchors or anchor not in {"", *anchors[page]}:
                dead.append((file.name, page, anchor))
    assert dead == []


def test_every_page_to_read_is_two_clicks_from_the_start():
    one_click = links_of("index.md")
    two_clicks = one_click.union(*map(links_of, one_click))

    assert {"connect.md", "no-questions.md", "read.md", "ci.md", "judging.md"} <= one_click
    assert [page for page in navigation()[TAB][1:] if page not in two_clicks] == []


def sections_of(page: str) -> list[str]:
    """The parts of a page that need no package that is absent here, beginning with the lead."""
    parts = re.split(r"^(?=## )", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    absent = [word for name, word in PACKAGES.items() if not is_installed(name)]
    return [part for part in parts if not any(word in part for word in absent)]


def is_installed(name: str) -> bool:
    """True if a package or module can be imported."""
    top = name.partition(".")[0]
    return find_spec(top) is not None and find_spec(name) is not None


@pytest.mark.parametrize("page", OF_QUICKSTART)
def test_a_page_on_the_quickstart_shows_what_its_commands_print(
    page, repository, finished_quickstart, warm_cache, tmp_path
):
    finished_quickstart.copy_to(tmp_path)
    for name in ("configs", "datasets"):
        (tmp_path / name).symlink_to(repository / name)
    printed = finished_quickstart.done.stdout + finished_quickstart.done.stderr
    for language, block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if language == "text":
            assert lines_of(block) <= lines_of(printed), f"{page} shows other lines than\n{printed}"
            continue
        for command in block.splitlines():
            words = shlex.split(command, comments=True)
            if words[0] == "ragbench" and words[1:] != ["run", "configs/quickstart.yaml"]:
                done = run_command(*words[1:], cwd=tmp_path)
                assert done.returncode == 0, f"{command}\n{done.stderr}"
                printed += done.stdout + done.stderr


@pytest.mark.usefixtures("warm_base")
def test_the_gate_of_a_pull_request_prints_what_the_page_shows(repository, tmp_path):
    write_files("ci.md", tmp_path)
    shutil.copytree(repository / "datasets/example", tmp_path / "datasets/example")
    config = tmp_path / "search.ragbench.yaml"

    def git(*words: str) -> None:
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "base")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    change = "{type: bm25, stemmer: none}"
    config.write_text(config.read_text("utf-8").replace("{type: bm25}", change), encoding="utf-8")
    page = (DOCS / "ci.md").read_text(encoding="utf-8")
    (command, shown) = (block for _, block in BLOCK.findall(page))
    first, last = shown.split("...\n")

    done = run_command(*shlex.split(command)[1:], cwd=tmp_path)

    assert change in page
    assert done.returncode == 1
    assert done.stdout.startswith(first)
    text, _, report = done.stdout.rpartition("report: ")
    assert text.endswith(last)
    assert (tmp_path / report.strip()).is_file()


@pytest.mark.costly
@pytest.mark.parametrize("page", [page for page in PAGES if page not in OF_GIT])
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


def test_the_jobs_of_coding_agents_give_the_json_that_is_shown(tmp_path, monkeypatch):
    # Each example of JSON is a part of what the command above it prints.
    monkeypatch.setenv("OPENAI_API_KEY", "unused")  # `plan` asks for it and sends nothing
    for name in ("connect.md", "judging.md", "SKILL.md"):
        write_files(name, tmp_path)
    page, printed = (DOCS / "SKILL.md").read_text("utf-8"), ""
    jobs = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert len(jobs) == 5
    assert all(len(job.split()) <= 400 for job in jobs)
    assert all("```json\n{" in job for job in jobs)
    exit_code = 0
    for language, block in re.findall(
        r"^```(bash|json)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    ):
        if language == "json":
            assert_part_of(json.loads(block), json.loads(printed))
            assert exit_code == json.loads(block).get("exit_code", 0)
            continue
        for command in block.splitlines():
            done = run_command(*shlex.split(command)[1:], cwd=tmp_path)
            assert done.returncode in (0, 1), f"{command}\n{done.stderr}"
            printed, exit_code = done.stdout, done.returncode


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
