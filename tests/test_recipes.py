"""The recipes of CONTRIBUTING hold: each is followed in a copy of the repository.

What a recipe adds lies in `tests/recipes/`, a folder for each kind of component. The test puts it
into the copy, adds the one line of the table, runs what `make generated` runs for all of them, and
compares the files that have changed with those that CONTRIBUTING names. Then the new components are
used, every step of `make check` runs in the copy, and the quick tests of everything that reads a
table must pass as they stand.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.warm import Warm

RECIPES = Path(__file__).with_name("recipes")
COPIED = ("ragbench", "benchmarks", "configs", "docs", "tests", "datasets")

pytestmark = pytest.mark.slow(first=True)


class Recipe(NamedTuple):
    """Edits of a contributor who follows a recipe."""

    kind: str
    """The folder of `tests/recipes/`, and the heading of CONTRIBUTING: `A table format`."""
    name: str
    """Name of the new component."""
    into: str
    """The file that gets one or more lines."""
    after: str
    """Text of the file before the new lines."""
    line: str
    """The new lines."""
    listed: str
    """Argument of `ragbench list` that shows the component; empty if none does."""
    tests: tuple[str, ...]
    """The tests of the copy that must find it, as pytest names them."""
    code: str
    """Python code that uses the component."""
    further: tuple[tuple[str, str, str], ...] = ()
    """Further edits, each as file, text before the new lines, and the lines."""


MEASURES = "ragbench/score/retrieval/__init__.py"
METRICS = "ragbench/score/text/__init__.py"
RETRIEVERS = "ragbench/retrieve/__init__.py"
GATES = "ragbench/gates/__init__.py"
FORMATS = "ragbench/report/formats/__init__.py"
STAGES = "ragbench/experiment/stages/graph.py"
OPTIONS = "ragbench/config/schema.py"
CASES = "tests/score/judge/rubric_cases.yaml"
# The tests that name what there is, beside those of the components: no addition may break one.
READING_TABLES = (
    *(f"tests/cli/test_{name}.py" for name in ("list", "rubric", "schema", "validate")),
    *(f"tests/config/test_{name}.py" for name in ("gates", "json_schema", "mistakes", "options")),
    *("tests/gates/test_kinds.py", "tests/registry", "tests/test_public.py"),
    *("tests/conformance/test_page.py", "tests/score/text/test_columns.py"),
    *(f"tests/score/retrieval/test_{name}.py" for name in ("common", "notation", "single")),
    *("tests/score/judge/test_rubric.py", "tests/score/judge/test_rubric_cases.py"),
    "tests/report/test_formats.py",
)
# The cases of them that belong to one measure, metric or rubric: to another they are blind.
OF_OTHERS = "(score or conformance) and ["
# The slow case of them that a new format could break.
ORDER_OF_FORMATS = "one_line_of_the_registry and runs"
# What the commands import of other packages: imported once for all of them.
PACKAGES = "numpy, yaml, click, jinja2.sandbox, bm25s, pytest, hypothesis, jsonschema, scipy.stats"
FOLLOWED = [
    Recipe(
        "measure",
        "best_grade",
        MEASURES,
        '        "mrr": f"{_PACKAGE}.first_hits:reciprocal_rank",\n',
        '        "best_grade": f"{_PACKAGE}.best_grade:best_grade",\n',
        "measures",
        (
            "tests/score/retrieval/test_best_grade.py",
            "tests/score/retrieval/test_common.py",
            "tests/conformance/test_page.py",
        ),
        "run, qrels = {'q': {'a': 2.0, 'b': 1.0}}, {'q': {'a': 1, 'b': 2}}\n"
        "result = rb.evaluate_run(run, qrels, ['best_grade@1', 'best_grade@2'])\n"
        "assert result.mean == {'best_grade@1': 0.5, 'best_grade@2': 1.0}, result.mean",
    ),
    Recipe(
        "metric",
        "same_length",
        METRICS,
        '        "ter": f"{_PACKAGE}.ter:ter",\n',
        '        "same_length": f"{_PACKAGE}.same_length:same_length",\n',
        "metrics",
        ("tests/score/text/test_same_length.py", "tests/conformance/test_page.py"),
        "names = ['same_length', 'same_length(unit=characters)']\n"
        "result = rb.evaluate_texts(['a cat'], ['the dog'], names)\n"
        "assert result.mean == dict(zip(names, (1.0, 0.0))), result.mean",
    ),
    Recipe(
        "retriever",
        "by_title",
        RETRIEVERS,
        '        "bm25": "ragbench.retrieve.bm25:BM25",\n',
        '        "by_title": "ragbench.retrieve.by_title:ByTitle",\n',
        "retrievers",
        ("tests/retrieve/test_by_title.py",),
        "data = {'type': 'beir', 'path': 'datasets/example'}\n"
        "one = {'dataset': data, 'retrievers': {'new': {'type': 'by_title', 'descending': True}}}\n"
        "experiment = rb.run_experiment({**one, 'metrics': {'retrieval': {'measures': ['mrr']}}})\n"
        "values = experiment.per_query['new']['mrr'].values()\n"
        "assert values and all(value >= 0 or value != value for value in values)",
    ),
    Recipe(
        "rubric",
        "politeness",
        CASES,
        "",
        "politeness:\n"
        '  good: {answer: "With pleasure: the library opens at nine."}\n'
        '  bad: {answer: "Read the sign on the door."}\n',
        "rubrics",
        ("tests/score/judge/test_rubric.py", "tests/score/judge/test_rubric_cases.py"),
        "from ragbench.score.judge.rubric import describe_rubric, load_rubric\n"
        "assert load_rubric('politeness').levels == 3 and describe_rubric('politeness').source",
    ),
    Recipe(
        "gate",
        "zeros",
        GATES,
        '        "drop": "ragbench.gates.drop:Drop",\n',
        '        "zeros": "ragbench.gates.zeros:Zeros",\n',
        "gates",
        ("tests/gates/test_zeros.py",),
        "evaluation = rb.evaluate_run({'q': {'d': 1.0}}, {'q': {'d': 1}}, ['mrr'])\n"
        "(found,) = rb.check_gates(evaluation, '{measure: mrr, max_zeros: 0}')\n"
        "assert (found['gate'], found['verdict']) == ('mrr zeros <= 0', 'pass'), found",
    ),
    Recipe(
        "table format",
        "tsv",
        FORMATS,
        '    "latex": f"{_PACKAGE}.latex:Latex",\n',
        '    "tsv": f"{_PACKAGE}.tsv:TSV",\n',
        "",
        ("tests/report/test_tsv.py", "tests/report/test_formats.py"),
        "for command in ('report', 'compare', 'explain', 'fix', 'runs', 'calibrate', 'gate'):\n"
        "    usage = ''.join(run_command(command, '--help').stdout.split())\n"
        "    assert '[table|markdown|csv|latex|tsv' in usage, usage",
    ),
    Recipe(
        "stage",
        "count_hits",
        STAGES,
        "    yield rank\n",
        "    if stage.plan.config.metrics.retrieval.count_hits:\n        yield CountHits(stage)\n",
        "",
        ("tests/experiment/test_count_hits.py",),
        "data = {'type': 'beir', 'path': 'datasets/example'}\n"
        "one = {'dataset': data, 'retrievers': {'bm25': {'type': 'bm25'}}}\n"
        "counts = {'measures': ['mrr'], 'count_hits': True}\n"
        "experiment = rb.run_experiment({**one, 'metrics': {'retrieval': counts}})\n"
        "assert any('hits in all' in note for note in experiment.summary['notes'])",
        (
            (
                STAGES,
                "from ragbench.experiment.stages.comparison import Compare\n",
                "from ragbench.experiment.stages.count_hits import CountHits\n",
            ),
            (
                OPTIONS,
                "    match: Match = field(default_factory=Match)\n",
                '    count_hits: Annotated[bool, Option("Count the hits, in a note.")] = False\n',
            ),
        ),
    ),
]


@pytest.fixture
def copy(repository, tmp_path):
    for name in COPIED:
        shutil.copytree(repository / name, tmp_path / "copy" / name)  # with what is compiled
    for name in ("pyproject.toml", "README.md", "Makefile"):
        shutil.copy(repository / name, tmp_path / "copy")
    return tmp_path / "copy"


FROM_THE_COPY = """
import runpy, sys
def forget():
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("ragbench", "tests"):
            del sys.modules[name]
forget()
sys.path.insert(0, "")
how, what, *words = sys.argv[1:]
sys.argv = [what, *words]
try:
    if how == "module":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif how == "code":
        exec(what, {"__name__": "__main__"})
    else:
        runpy.run_path(what, run_name="__main__")
finally:
    forget()  # the next process reads what the next recipe has changed
"""


@pytest.fixture
def call(copy, tmp_path):
    """Run Python in the copy, in processes that have other packages imported, but nothing of it."""
    (tmp_path / "warm").mkdir()
    server = Warm(tmp_path / "warm", PACKAGES, ())
    environment = {**os.environ, "PYTHONPATH": str(copy)}

    def called(*command):
        words = ["-c", FROM_THE_COPY, *command]
        process = server.popen(words, cwd=copy, env=environment, stderr=subprocess.PIPE)
        process.stdin.close()
        with process.stdout, process.stderr:
            printed, errors = (
                stream.read().decode() for stream in (process.stdout, process.stderr)
            )
        assert process.wait() == 0, printed + errors
        return printed

    yield called
    server.close()


def generate(repository, call):
    """Run the commands of `make generated` in the copy, with this Python."""
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^generated:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    for line in lines.splitlines():
        program, *arguments = line.split()
        if program != "$(BIN)/python":
            call("module", program.removeprefix("$(BIN)/"), *arguments)
        elif arguments[0] == "-m":
            call("module", *arguments[1:])
        else:
            call("file", *arguments)


def check_steps(repository):
    """Return the commands of each step of `make check` but `test`, as the Makefile has them.

    `make check` fills the cache of mypy first: without it, `types` takes half a minute.
    """
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    (steps,) = re.findall(r"^check: (.*?)  ##", makefile, re.MULTILINE)
    assert "test" in steps.split()
    for step in steps.split():
        if step != "test" and (step != "types" or (repository / ".mypy_cache").exists()):
            (lines,) = re.findall(rf"^{step}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
            # the programs of docs/ and of users are as they were
            for line in lines.splitlines():
                if not line.endswith(("tests.notebook", "tests.typed_programs")):
                    yield line.split()


def run_check_steps(copy, repository):
    """Run style, types, imports and dependencies on the copy, as `make check` does."""
    commands = list(check_steps(repository))
    assert len(commands) >= 4
    if (repository / ".mypy_cache").exists():
        # a copy: the next mypy of the repository finds its own modules
        shutil.copytree(repository / ".mypy_cache", copy / ".mypy_cache")
    for program, *arguments in commands:
        tool = program.replace("$(BIN)", str(Path(sys.executable).parent))
        done = subprocess.run(
            [tool, *arguments],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, f"{program} {arguments}\n{done.stdout}{done.stderr}"


def contents(copy):
    files = (path for path in copy.rglob("*") if path.is_file())
    return {
        path.relative_to(copy).as_posix(): path.read_bytes()
        for path in files
        if "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def named_in_contributing(repository, recipe):
    """The files that the section of a kind names, the generated ones as patterns."""
    page = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    heading = rf"^### A {recipe.kind}\n(.*?)(?=^##)"
    (section,) = re.findall(heading, page, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^(\d)\. ", section, re.MULTILINE) == ["1", "2", "3", "4"]
    assert "`make generated`" in section
    paths = re.findall(r"`([\w<>/.*-]+\.\w+)`", section.replace("<name>", recipe.name))
    return {path for path in paths if "/" in path}


def follow(recipe, copy):
    """Do what a recipe says before it generates."""
    folder = RECIPES / recipe.kind.replace(" ", "_")
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    for into, start, lines in ((recipe.into, recipe.after, recipe.line), *recipe.further):
        text = (copy / into).read_text(encoding="utf-8")
        assert text.count(start) == 1 or not start
        after = start or text
        (copy / into).write_text(text.replace(after, after + lines, 1), encoding="utf-8")


USED = """
from tests.commands import run_command
def listed(what):
    return run_command("list", what).stdout
"""


def use_of(recipe):
    """A program that finds a component in the list and uses it."""
    if not recipe.listed:
        return recipe.code
    return f"assert '  {recipe.name}  ' in listed('{recipe.listed}')\n{recipe.code}"


def test_a_recipe_touches_what_contributing_names(copy, repository, call):
    # All of them in one copy: then what they have added is used and tested.
    #
    # A test that lists what is declared elsewhere would be one more file to touch: it fails here.
    old_files = contents(copy)
    for recipe in FOLLOWED:
        follow(recipe, copy)
    generate(repository, call)
    new_files = contents(copy)
    assert old_files.keys() <= new_files.keys()
    touched = {path for path in new_files if new_files[path] != old_files.get(path)}
    patterns = {p for followed in FOLLOWED for p in named_in_contributing(repository, followed)}
    matches = {pattern: fnmatch.filter(touched, pattern) for pattern in patterns}
    assert [pattern for pattern, paths in matches.items() if not paths] == []
    assert touched == {path for paths in matches.values() for path in paths}

    call("code", "\n".join(["import ragbench as rb", USED, *map(use_of, FOLLOWED)]))
    run_check_steps(copy, repository)
    new = [
        test
        for followed in FOLLOWED
        for test in followed.tests
        if not test.startswith(READING_TABLES)
    ]
    # what the steps before it have imported, of other packages, is there already
    ignored = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    options = ("-rp", "-p", "no:cacheprovider", "--hypothesis-profile=fast", *ignored)
    names = " or ".join(followed.name for followed in FOLLOWED)
    quick = f"not slow and not costly and (not ({OF_OTHERS}) or {names})"
    # the order of the formats does not matter
    selected = ("-k", f"{quick} or {ORDER_OF_FORMATS}")
    output = call("module", "pytest", "-q", *options, *selected, *READING_TABLES, *new)
    passed = re.findall("^PASSED (.*)$", output, re.MULTILINE)
    assert re.search(r"^\d{3,4} passed", output.splitlines()[-1]), output
    for recipe in FOLLOWED:
        for test in recipe.tests:
            lines = [line for line in passed if line.startswith(test)]
            assert any(recipe.name in line for line in lines), (recipe.name, test)
