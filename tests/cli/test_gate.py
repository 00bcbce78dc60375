"""`ragbench gate`: pull requests in a Git repository, run folders and baseline files."""

import json
import math
import os
import re
import shutil
import subprocess

import pytest

from ragbench.experiment.base_run import load_for_gate, open_base
from tests.commands import run_command
from tests.conftest import REPOSITORY
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs of base and head

N = 20
CONFIG = """\
# search of our documents
name: search
dataset: {type: records, path: qa.jsonl, corpus: data/corpus.jsonl}
retrievers:
  bm25: {type: bm25}
  ours: {type: "python:search:Search"}
metrics: {retrieval: {measures: [ndcg@10, mrr]}}
statistics: {resamples: 200}
"""
JUDGE = "judge: {type: openai, model: m, rubrics: [faithfulness]}"
# the gold document m<n> has its word five times; with k1: 0 all documents with the word tie
SEARCH = """\
class Search:
    def retrieve(self, queries, top_k):
        # the gold document first
        ids = [query.text.split()[-1] for query in queries]
        return [["m" + name, "a" + name][:top_k] for name in ids]
"""
WORDS = ["filler", "words", "of", "no", "use"]


def rows(items):
    return "".join(json.dumps(item) + "\n" for item in items)


def question(n):
    return {"id": f"q{n}", "question": f"what is word{n}", "relevant": [f"m{n}"]}


def documents():
    for n in range(N + 1):
        for side in "ab":
            yield {"_id": f"{side}{n}", "text": " ".join([f"word{n}", *WORDS])}
            yield {"_id": f"z{side}{n}", "text": " ".join([f"word{n}", *WORDS])}
        yield {"_id": f"m{n}", "text": f"word{n} " * 5 + WORDS[0]}


def git(repository, *arguments):
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def quick_base(request):
    """Start the process of the base with everything imported; one test starts it as users do."""
    if request.function is not test_a_typo_changes_nothing:
        request.getfixturevalue("warm_base")


@pytest.fixture(scope="module")
def first_commit(tmp_path_factory):
    """A repository with the branches `main` and `pr`, whose corpus Git does not track."""
    folder = tmp_path_factory.mktemp("first")
    files = {
        "search.yaml": CONFIG,
        "search.py": SEARCH.replace("text.split()[-1]", 'text.split()[-1].removeprefix("word")'),
        "qa.jsonl": rows(map(question, range(N))),
        ".gitignore": "data\n.ragbench\nruns\n",
        "data/corpus.jsonl": rows(documents()),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "a")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    git(folder, "checkout", "-qb", "pr")
    return folder


@pytest.fixture
def repository(first_commit, tmp_path):
    """A copy of the first commit."""
    return shutil.copytree(first_commit, tmp_path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def first_run(first_commit, tmp_path_factory):
    """The first commit with a finished run, for tests whose base needs no run by Git."""
    folder = shutil.copytree(first_commit, tmp_path_factory.mktemp("run"), dirs_exist_ok=True)
    assert run_command("run", "search.yaml", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def run_repository(first_run, tmp_path):
    """A copy of the first commit with its run in `runs/search`."""
    return shutil.copytree(first_run, tmp_path, symlinks=True, dirs_exist_ok=True)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def gate(repository, base, *options, env=None):
    done = run_command("gate", "search.yaml", "--base", base, *options, cwd=repository, env=env)
    assert len(git(repository, "worktree", "list").splitlines()) == 1, "the tree is removed"
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_worse_ranking_fails_and_a_new_question_is_counted(repository, assert_message):
    edit(repository / "search.yaml", "bm25: {type: bm25}", "bm25: {type: bm25, k1: 0}")
    (repository / "qa.jsonl").write_text(rows(map(question, range(N + 1))))
    git(repository, "commit", "-qam", "worse")

    code, lines, err = gate(repository, "main", "--junit", "gate.xml")

    assert code == 1, err
    suite = (repository / "gate.xml").read_text()
    assert suite.count('<failure message="ndcg@10') == 1
    assert "\nq0 what is word0  1.00 -&gt; " in suite
    verdict, new, worst = lines[:3]
    assert_message(verdict)
    assert ", between -" in verdict
    assert_message(verdict)
    assert_message(new)
    assert new.endswith("; ours has ndcg@10 1.00")
    assert_message(worst)
    assert "gold m0: rank 1 -> rank " in worst
    assert any(line.startswith("changed since main@") and "k1: 0.9 -> 0" in line for line in lines)
    assert "gates: 1 fail, 1 pass (ndcg@10 not worse for ours)" in lines
    assert sum("what is word" in line for line in lines) == 5, "the five worst, each once"
    # the run folder of the head has the decisions, and its page says so
    page = repository / lines[-1].removeprefix("report: ")
    summary = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    assert sorted(entry["verdict"] for entry in summary["gates"]) == ["fail", "pass"]
    lost = [query for entry in summary["gates"] for query in entry.get("worst_queries", ())]
    assert lost[0]["question"].startswith("what is word")
    assert summary["notes"][-1].startswith("gates were decided against the base main@")
    assert "The gate failed</b>: 1 failed, 1 passed" in page.read_text(encoding="utf-8")
    assert page.with_name("junit.xml").read_text(encoding="utf-8").count("<failure") == 1


def test_each_question_that_got_worse_is_in_verbose_and_in_json(run_repository):
    edit(run_repository / "search.py", '[["m" + name, "a" + name]', '[["a" + name, "m" + name]')
    base = (run_repository / "runs/search/latest").resolve()

    (code, verbose, err), (_, in_json, _) = (
        gate(run_repository, base, option) for option in ("--verbose", "--json")
    )

    assert code == 1, err
    worse = json.loads("\n".join(in_json))["worse_queries"]
    assert sorted(query["query_id"] for query in worse) == sorted(f"q{n}" for n in range(N))
    for query in worse:
        number = query["query_id"].removeprefix("q")
        text = f"what is word{number}"
        assert (query["system"], query["measure"]) == ("ours", "ndcg@10")
        assert (query["baseline"], query["question"]) == (1.0, text)
        assert query["score"] == pytest.approx(1 / math.log2(3))
        assert sum(f"{text}  ndcg@10 1.00 -> 0.631" in line for line in verbose) == 1


def test_the_page_shows_what_the_command_prints(repository):
    page = (REPOSITORY / "docs" / "gates.md").read_text(encoding="utf-8")
    config = page.split("```yaml\n")[1].split("gates:")[0]
    block = page.split("switches the stemmer")[1].split("```text\n")[1].split("```")[0]
    shutil.copytree(REPOSITORY / "datasets" / "example", repository / "datasets" / "example")
    (repository / "search.yaml").write_text(config)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "base")
    edit(repository / "search.yaml", "bm25: {type: bm25}", "bm25: {type: bm25, stemmer: none}")

    code, lines, err = gate(repository, "HEAD", "--quiet")

    assert (code, lines) == (1, block.splitlines()), err


@pytest.mark.parametrize(
    ("line", "exit_code", "kind"),
    [
        ("raise KeyboardInterrupt", 130, "interrupted"),
        ("__import__('os')._exit(42)", 2, "bad usage, config or data"),
    ],
)
def test_a_base_that_ends_early_passes_on_a_code_with_a_meaning(
    repository, line, exit_code, kind, assert_message
):
    edit(repository / "search.py", "        return", f"        {line}\n        return")
    git(repository, "commit", "-qam", "broken")
    edit(repository / "search.py", f"        {line}\n", "")

    code, _, err = gate(repository, "HEAD", "--junit", "gate.xml")

    assert code == exit_code
    assert_message(err.splitlines()[-1])
    assert f'type="{kind}"' in (repository / "gate.xml").read_text()


def test_an_error_in_data_of_the_base_names_the_path_in_the_repository(repository, capfd):
    (repository / "qa.jsonl").write_text(rows(map(question, range(N))) + "{bad\n")
    git(repository, "commit", "-qam", "broken")
    (repository / "qa.jsonl").write_text(rows(map(question, range(N))))

    code, _, _ = gate(repository, "HEAD")
    err = capfd.readouterr().err  # of the process of the base

    assert code == 2
    assert err.startswith(f"qa.jsonl:{N + 1}: bad JSON")
    assert "ragbench-" not in err.replace(str(repository), "")


def test_questions_that_are_not_compared_come_first(repository):
    # Bug: "nothing changed", though a part of the questions was removed
    edited = [{**question(n), "question": f"what are word{n}"} for n in range(2)]
    (repository / "qa.jsonl").write_text(rows([*edited, *map(question, range(3, N))]))

    code, lines, _ = gate(repository, "main")

    assert code == 0
    assert lines[0].startswith(f"3 of {N} questions were edited or removed, and are not compared")
    assert lines[-2] == "gates: pass, as nothing else changed"


def test_the_run_of_the_base_has_no_page(repository, tmp_path_factory):
    output = tmp_path_factory.mktemp("base")

    done = run_command("gate", "search.yaml", "--base", "x", "--as-base", output, cwd=repository)

    assert done.returncode == 0, done.stderr
    names = {path.name for path in output.rglob("*")}
    assert "per_query.csv" in names
    assert not names & {"report.html", "report.md"}


def test_a_typo_changes_nothing(repository):
    edit(repository / "search.yaml", "# search of", "# retrieval of")
    edit(repository / "search.py", "# the gold document first", "# the best document first")

    code, lines, _ = gate(repository, "main")

    assert (code, lines[0].partition(":")[0]) == (0, "nothing changed")
    assert lines[1:-1] == ["gates: pass, as nothing changed"]
    page = (repository / lines[-1].removeprefix("report: ")).read_text(encoding="utf-8")
    assert "The gate passed</b>: 1 passed" in page


FLAKY = """\
import random

class Search:
    def retrieve(self, queries, top_k):
        ids = [query.text.split()[-1].removeprefix("word") for query in queries]
        pairs = [["m" + name, "a" + name] for name in ids]
        return [random.sample(pair, 2) for pair in pairs]
"""


@pytest.mark.parametrize("change", ["nothing", "files", "config"])
def test_a_system_that_uses_nothing_that_changed_passes(repository, change, assert_message):
    # Half of the rankings of `ours` flip by chance.
    (repository / "search.py").write_text(FLAKY)
    (repository / "other.py").write_text("x = 0\n")
    git(repository, "add", "other.py")
    git(repository, "commit", "-qam", "flaky")
    if change == "files":
        (repository / "search.py").write_text("# a comment\n" + FLAKY)
        for name in ("README.md", "NEW.md", "new.json", "other.py"):
            (repository / name).write_text("x = 1\n")
    elif change == "config":
        edit(repository / "search.yaml", "bm25: {type: bm25}", "bm25: {type: bm25, k1: 0.8}")

    code, lines, err = gate(repository, "HEAD")

    assert code == 0, err
    assert_message(re.sub(r"\d+", "N", next(line for line in lines if line.startswith("ours: "))))


def test_other_rankings_with_equal_scores_are_unchanged_and_no_noise(repository):
    # The second document of `ours` has no grade: its scores are the same in all runs.
    flaky = FLAKY.replace("[random.sample(pair, 2) for pair in pairs]", "PAIRS")
    flaky = flaky.replace(
        "PAIRS", "[[gold, random.choice([other, 'b0'])] for gold, other in pairs]"
    )
    (repository / "search.py").write_text(flaky)
    git(repository, "commit", "-qam", "flaky")
    (repository / "README.md").write_text("A search.\n")

    code, lines, err = gate(repository, "HEAD", "--verbose")

    assert code == 0, err
    assert "ours is unchanged: ndcg@10 1.00" in lines
    assert not any("nothing that this system uses changed" in line for line in lines)


# the first run of the head loses the first rank of two questions; later runs may not
ONCE = """\
        first = not os.path.exists(os.environ["SEEN"])
        open(os.environ["SEEN"], "w").close()
        lost = "07" if first or ALWAYS else ""
        return [["m" + name, "a" + name][:top_k][:: -1 if name in lost else 1] for name in ids]
"""


@pytest.mark.parametrize(
    ("always", "options", "exit_code"),
    [(False, (), 0), (True, (), 1), (False, ("--recheck", "0"), 1)],
)
def test_a_loss_that_is_not_sure_is_looked_at_again(
    repository, tmp_path_factory, always, options, exit_code
):
    code = (repository / "search.py").read_text()
    code = f"import os\nALWAYS = {always}\n" + code.split("        return")[0] + ONCE
    (repository / "search.py").write_text(code)
    environment = {**os.environ, "SEEN": str(tmp_path_factory.mktemp("seen") / "seen")}

    code, lines, err = gate(repository, "HEAD", *options, env=environment)

    assert code == exit_code, err
    # equal scores need no third look
    times = "once" if always else "3 times"
    again = f"looked at again: 2 changed questions ran {times} more on both sides; "
    assert any(line.startswith(again) for line in lines) == (not options)
    has_failed = any(line.startswith("ours got WORSE, though not surely: ") for line in lines)
    assert has_failed == bool(exit_code)


def test_a_base_that_cannot_run_again_takes_no_further_look(run_repository, assert_message):
    saved = ("baseline", "runs/search", "-o", "main.json")
    assert run_command(*saved, cwd=run_repository).returncode == 0
    lost = '[["m" + name, "a" + name][:: -1 if name in "07" else 1]'
    edit(run_repository / "search.py", '[["m" + name, "a" + name]', lost)

    code, lines, err = gate(run_repository, "main.json")

    assert code == 1, err
    assert_message(lines_with(lines, "not looked at again"))


def test_passages_that_lose_the_gold_span_fail_though_the_documents_stay(
    repository, assert_message
):
    # The ranking is the same single document; none of its first sentences is the gold one.
    quote = "The last line has the gold."
    text = "".join(f"Rivers and bridges, part {n}.\n" for n in range(40)) + quote
    (repository / "data/corpus.jsonl").write_text(rows([{"_id": "d", "text": text}]))
    span = {"document": "d", "quote": quote}
    parts = [{**question(n), "question": f"rivers, part {n}", "relevant": ["d"]} for n in range(N)]
    (repository / "qa.jsonl").write_text(rows({**q, "reference_spans": [span]} for q in parts))
    edit(repository / "search.yaml", '  ours: {type: "python:search:Search"}\n', "")
    with (repository / "search.yaml").open("a") as stream:
        stream.write("gates:\n  - {measure: found@5, max_drop: 0.1}\n")
    run_command("run", "search.yaml", cwd=repository)
    edit(
        repository / "search.yaml", "{type: bm25}", "{type: bm25, chunk: {by: sentences, size: 1}}"
    )

    code, lines, err = gate(repository, "runs/search")

    assert code == 1, err
    assert_message(lines[0])
    assert "gates: 1 fail" in lines
    # moved places that change no score are no `nothing changed`, and pass
    edit(repository / "search.yaml", "{by: sentences, size: 1}", "{by: sentences, size: 2}")

    code, lines, err = gate(repository, "runs/search")

    assert code == 0
    assert_message(lines[0])


def test_an_equal_answer_from_other_passages_is_a_change(repository):
    # Scores of answers by judges read the passages of the prompt too.
    generator = "generators: {first: {type: extractive, sentences: 1, passages: 2}}\nstatistics:"
    edit(repository / "search.yaml", "statistics:", generator)
    answered = [{**question(n), "reference": f"word{n}"} for n in range(N)]
    (repository / "qa.jsonl").write_text(rows(answered))
    assert run_command("run", "search.yaml", cwd=repository).returncode == 0
    edit(repository / "search.yaml", "passages: 2", "passages: 1")

    code, lines, err = gate(repository, "runs/search")

    assert code == 0, err
    assert " is unchanged: " in lines[0]


def test_an_output_outside_of_the_repository_changes_nothing(
    repository, tmp_path_factory, assert_message
):
    output = tmp_path_factory.mktemp("runs")
    edit(repository / "search.yaml", "# search of", f"output: {output}  #")
    git(repository, "commit", "-qam", "another output")

    code, lines, err = gate(repository, "HEAD")

    assert (code, len(lines)) == (0, 3), err
    assert_message(lines[:2])
    assert (output / "search/latest").exists()


def test_a_base_and_a_head_that_fail_alike_are_incomplete(repository, assert_message):
    # All answers failed on both sides, which was `nothing changed` with exit code 0.
    line = "        # the gold document first\n"
    edit(repository / "search.py", line, "        raise ValueError('away')\n")
    git(repository, "commit", "-qam", "away")

    code, lines, err = gate(repository, "HEAD", "--junit", "gate.xml")

    assert (code, lines[1].partition(":")[0]) == (3, "nothing changed"), err
    assert_message(lines[0])
    assert_message(lines[2], "ours: 20 of 20")
    assert 'type="incomplete"' in (repository / "gate.xml").read_text()


def test_code_of_the_base_comes_from_the_base_and_a_judge_without_a_key_is_skipped(
    repository, assert_message
):
    generators = "generators: {extractive: {type: extractive}}\n"
    gates = "gates:\n  - {measure: ndcg@10, system: ours, max_drop: 0.1}\n"
    gates += "  - {measure: faithfulness, max_drop: 0.1, undecided: fail}\n"
    edit(repository / "search.yaml", "metrics: {", f"metrics: {{{JUDGE}, ")
    with (repository / "search.yaml").open("a") as stream:
        stream.write(generators + gates)
    git(repository, "commit", "-qam", "with a judge")
    # from here on the head alone changes, without a commit
    edit(repository / "search.py", "[:top_k]", "[top_k::-1]")
    keyless = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}

    code, lines, err = gate(repository, "HEAD", env=keyless)

    assert code == 1, err
    assert_message(lines[0])
    assert_message(lines[1])
    assert "gates: 2 fail" in lines


@pytest.mark.parametrize(("options", "exit_code"), [((), 0), (("--require-judge",), 2)])
def test_a_skipped_judge_is_undecided_and_the_default_decision_takes_its_place(
    repository, options, exit_code, assert_message
):
    edit(repository / "search.yaml", "metrics: {", f"metrics: {{{JUDGE}, ")
    with (repository / "search.yaml").open("a") as stream:
        stream.write("generators: {extractive: {type: extractive}}\n")
        stream.write("gates: [{measure: faithfulness, min: 0.8}]\n")
    git(repository, "commit", "-qam", "with a judge")
    # one of 20 rankings loses a rank, which is less than the default margin
    edit(repository / "search.py", "[:top_k]", '[:top_k][:: -1 if name == "3" else 1]')
    keyless = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}

    code, lines, err = gate(repository, "HEAD", *options, env=keyless)

    assert code == exit_code, err
    if code == 2:
        assert "OPENAI_API_KEY" in err
        return
    assert_message(lines[0], "undecided: faithfulness >= 0.8")
    assert_message(lines_with(lines, "gates: "))


def test_a_gate_on_a_new_system_is_undecided(run_repository, assert_message):
    edit(run_repository / "search.yaml", "metrics:", "  twin: {type: bm25, k1: 0}\nmetrics:")
    with (run_repository / "search.yaml").open("a") as stream:
        stream.write("gates: [{measure: ndcg@10, system: [ours, twin], max_drop: 0.1}]\n")

    code, lines, err = gate(run_repository, "runs/search")

    assert code == 0, err
    assert_message(lines_with(lines, "gate added: ", "gates: "))


def test_run_folders_and_baseline_files_are_bases_too(run_repository, assert_message):
    # Take the newest earlier run of an experiment: the run of the head moves `latest`.
    saved = ("baseline", "runs/search", "-o", "main.json")
    assert run_command(*saved, cwd=run_repository).returncode == 0
    edit(run_repository / "search.yaml", "bm25: {type: bm25}", "bm25: {type: bm25, k1: 0}")

    run = (run_repository / "runs/search/latest").resolve()
    for base in ("runs/search", "main.json", run):
        code, lines, err = gate(run_repository, base, "--quiet")

        assert code == 1, err
        assert_message(lines[0])
        assert ("gold m0: rank 1 -> rank " in lines[1]) == (base != "main.json")
        assert lines[3:] == ["gates: 1 fail, 1 pass (ndcg@10 not worse for ours)"]


def test_the_scores_of_a_renamed_generator_are_not_compared(repository):
    old = "generators: {old: {type: extractive, retrievers: [bm25]}}\nstatistics:"
    edit(repository / "search.yaml", "statistics:", old)
    answered = [{**question(n), "reference": "filler"} for n in range(N)]
    (repository / "qa.jsonl").write_text(rows(answered))
    assert run_command("run", "search.yaml", cwd=repository).returncode == 0
    edit(repository / "search.yaml", "{old:", "{new:")

    code, lines, err = gate(repository, "runs/search")

    assert code == 0, err
    assert [line.split(":")[0] for line in lines if " is unchanged: " in line] == [
        "bm25 is unchanged",
        "ours is unchanged",
    ]
    assert any("with generators.new" in line for line in lines)


def test_the_tree_of_the_base_is_removed_after_an_interrupt(repository, monkeypatch):
    monkeypatch.chdir(repository)
    config = load_for_gate(repository / "search.yaml", ())

    context = open_base("main", repository / "search.yaml", config, ["--quiet"])
    tree = context.__enter__().scored.folder
    assert tree.exists()
    context.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    assert not tree.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(
    ("base", "remote", "advice"),
    [
        ("nowhere", "", "such as main"),
        ("--nothing", "", "such as main"),
        ("origin/main", "", "such as main"),
        ("origin/later", "origin", "git fetch origin later"),
        ("feat", "", "such as feature"),
    ],
)
def test_an_unknown_reference_is_an_error_with_a_branch_or_a_command(
    repository, base, remote, advice
):
    git(repository, "branch", "feature")
    if remote:
        git(repository, "remote", "add", remote, str(repository))

    code, lines, err = gate(repository, base)

    assert (code, lines) == (2, [])
    [line] = [line for line in err.splitlines() if f"'{base}'" in line]
    assert advice in line


def test_a_base_without_the_config_passes_and_the_first_lines_are_those_of_the_run(
    repository, assert_message
):
    git(repository, "rm", "-q", "--cached", "search.yaml")
    git(repository, "commit", "-qm", "without config")
    with (repository / "search.yaml").open("a") as stream:
        stream.write("gates:\n  - {measure: ndcg@10, max_drop: 0.1}\n")

    code, lines, err = gate(repository, "HEAD", "--junit", "gate.xml")

    assert code == 0, err
    assert_message(lines[0])
    assert_message(lines[1])
    assert lines[-3:-1] == [
        "HEAD has no such config",
        "gates: none decided, as there is no base yet",
    ]
    assert_message(lines_with((repository / "gate.xml").read_text(), 'name="ragbench.search'))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("search.yaml", "search.yaml:5:16: retrievers.bm25.type: unknown type 'bm'"),
        ("qa.jsonl", "search.yaml:3:32: dataset.path: no such file: qa.jsonl"),
    ],
)
def test_a_base_with_a_broken_config_or_without_data_is_an_error(
    repository, name, line, assert_message
):
    text = (repository / name).read_text()
    if name == "qa.jsonl":
        git(repository, "rm", "-q", name)
    else:
        edit(repository / name, "{type: bm25}", "{type: bm}")
    git(repository, "commit", "-qam", "broken")
    (repository / name).write_text(text)
    git(repository, "add", "-A")

    code, lines, err = gate(repository, "HEAD")

    assert (code, lines) == (2, [])
    assert_message(err.splitlines()[-1])
    assert f" cannot be run: {line}" in err.splitlines()[-1]


ANSWERS = """\
def answer(question):
    number = int(question.split("word")[1])
    return {"answer": f"m{number}" if number % 5 else "none", "contexts": CONTEXTS}
"""


@pytest.mark.parametrize("base", ["texts", "ids"])
def test_measures_of_ids_decide_only_where_passages_have_ids(repository, base, assert_message):
    # The head returns texts alone: no base to lose, or the ids of the base.
    texts, ids = '["word1"]', '[{"id": f"m{number}", "text": "word1"}]'
    for name, contexts in (("old", ids if base == "ids" else texts), ("new", texts)):
        code = ANSWERS.replace("CONTEXTS", contexts)
        code = code if name == "new" else code.replace("% 5", "% 4")
        (repository / f"app_{base}_{name}.py").write_text(code)
        (repository / f"{name}.yaml").write_text(
            "dataset: {type: records, path: qa.jsonl, corpus: data/corpus.jsonl,\n"
            "  columns: {id: id, question: question, relevant: relevant, reference: gold}}\n"
            f"apps: {{mine: {{type: 'python:app_{base}_{name}:answer'}}}}\n"
        )
    items = [{**question(n), "gold": f"m{n}"} for n in range(N)]
    (repository / "qa.jsonl").write_text(rows(items))
    assert run_command("run", "old.yaml", cwd=repository).returncode == 0

    done = run_command("gate", "new.yaml", "--base", "runs/old", "--json", cwd=repository)

    verdicts = {of["gate"]: of["verdict"] for of in json.loads(done.stdout)["gates"]}
    expected = {"right not worse": "pass"}
    if base == "ids":
        expected["ndcg@10 not worse"] = "undecided"
    assert verdicts == expected
    assert_message(json.loads(done.stdout)["lines"][-1])


APP = """\
from collections import Counter

n_calls = Counter()

def ask(question):
    n_calls[question] += 1
    if FAILS and n_calls[question] % 2 == 0:
        raise ValueError("away")
    return "yes"
"""


@pytest.mark.slow
def test_failed_repeats_are_counted_as_answers(tmp_path):
    # Each of 8 questions has two answers; of `bad` the second one fails.
    questions = [f"q{n},what is {n}?,yes\n" for n in range(8)]
    (tmp_path / "q.csv").write_text("id,question,reference\n" + "".join(questions))
    for name, fails in (("good", False), ("bad", True)):
        (tmp_path / f"{name}_app.py").write_text(f"FAILS = {fails}\n{APP}")
        text = f"name: {name}\ndataset: {{type: records, path: q.csv}}\nmax_failed: 1.0\n"
        text += f"apps: {{mine: {{type: 'python:{name}_app:ask', repeat: 2}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
        done = run_command("run", f"{name}.yaml", cwd=tmp_path)
        assert "right" in done.stdout, done.stderr

    worse = run_command("gate", "runs/good", "runs/bad", cwd=tmp_path).stdout.splitlines()
    better = run_command("gate", "runs/bad", "runs/good", cwd=tmp_path).stdout.splitlines()

    line = "mine: 8 of 16 answers failed, on 8 questions (q0, q1, q2, q3, q4 and 3 more)"
    assert line in worse
    assert better[0] == "mine: 8 of 16 answers failed before, and none now"
    assert not [line for line in better if "unchanged" in line]
