"""`explain`, `show` and `runs`: what they print of runs, of old ones, and of broken ones."""

import gzip
import json
import re
import shutil
import subprocess

import pytest

import ragbench as rb
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import read_comparisons
from ragbench.data.runs.run_list import list_runs, read_commit
from ragbench.report.explanation import Explanation, explanation_report
from ragbench.report.formats import render
from ragbench.report.formats.base import Screen
from ragbench.report.page.data import pack_queries
from ragbench.report.text import significant
from tests.commands import run_command
from tests.experiment.conftest import config, data  # noqa: F401  fixtures
from tests.experiment.moons import QUERIES, moons_config, write_moons
from tests.messages import lines_with
from tests.report.asked import run_folder

HOSTILE = "<script>alert(1)</script> \x1b[31mred \u202eright to left"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    moons = {**moons_config(write_moons(folder / "moons")), "output": str(folder / "runs")}
    return rb.run_experiment(moons).path


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run, which a test may change."""
    shutil.copytree(finished.parent, tmp_path / "runs" / "moons", symlinks=True)
    return tmp_path / "runs" / "moons" / finished.name


def printed(*arguments):
    done = run_command(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.costly
def test_explain_counts_then_lists_the_queries(run, assert_message):
    text = printed("explain", run, "--verbose")

    lines = text.splitlines()
    assert_message(lines[0])
    assert lines[2].split()[0] == "bm25"
    assert_message(lines[2])
    assert "bm25 -> exact: " in text
    assert_message([line for line in lines if line.startswith("q5 ")])
    assert "q1  " not in text.partition("exact: ")[0], "what is right is counted, not listed"


@pytest.mark.costly
def test_explain_shows_lost_questions_in_four_lines(run, assert_message):
    # One of each cause in turn, with gold answer and answer, and the commands that show the others.
    text = printed("explain", run)

    counts, questions, commands = text.split("\n\n")
    systems = QueryViews(run).summary.systems
    read = {system.retriever for system in systems if system.retriever != system.name}
    names = [system.name for system in systems if system.name not in read]
    assert [line.split()[0] for line in counts.splitlines()[2:]] == names
    questions = re.split(r"\n(?! )", questions)
    assert 1 <= len(questions) <= 4
    assert all(len(question.splitlines()) <= 5 for question in questions)
    assert_message(questions[0])
    assert f"ragbench explain {run} --verbose" in commands


@pytest.mark.costly
@pytest.mark.parametrize("width", [40, 60, 100])
def test_explain_fits_the_terminal(run, width):
    # Sentences go on below, questions are cut, and nothing else is lost.
    views = QueryViews(run)
    rows = [row for by_query in views.causes.values() for row in by_query.values()]
    long = dict.fromkeys(views.ids, "How many of the moons " * 9)
    answered, mute = (
        Explanation(views.summary, read_comparisons(run), rows, texts) for texts in (long, {})
    )

    if width >= 60:  # names and bars are wider than less
        lines = _drawn(answered, width).splitlines()
        assert max(map(len, lines)) <= width
        assert any("How many" in line for line in lines)
        assert any(line.rstrip().endswith("...") or "...  " in line for line in lines)
    text, whole = (_drawn(mute, w) for w in (width, 10_000))
    assert len(text.splitlines()) > len(whole.splitlines())
    words, all_words = (sorted(w for w in t.split() if len(w) < 30) for t in (text, whole))
    assert words == all_words, "all but the bars, which need room"


def _drawn(explanation, width):
    """Return an explanation as a terminal of a width shows it."""
    return render(explanation_report(explanation), "table", Screen(width, is_terminal=True))


def test_one_system_is_explained_without_comparisons(config, tmp_path):  # noqa: F811
    config["retrievers"].pop("exact")
    config.pop("generators", None)
    run = rb.run_experiment(config).path
    (run / "comparisons.json").unlink()

    heads, counts = printed("explain", run).splitlines()[1:3]
    assert dict(zip(heads.split(), counts.split()[1:], strict=False))["found"] == "4"
    assert "report.html" in printed("report", run)


@pytest.mark.costly
def test_several_systems_need_their_comparisons(run, assert_message):
    (run / "comparisons.json").unlink()

    done = run_command("explain", run)

    assert done.returncode == 2
    assert_message(done.stderr)


@pytest.mark.costly
def test_explain_one_system_and_cause(run):
    text = printed("explain", run, "--system", "bm25", "--cause", "found")

    assert [line.split()[0] for line in text.splitlines() if " at rank " in line] == [
        "q1",
        "q2",
        "q3",
        "q4",
    ]
    assert "0.800 [0.376, 0.964]" in text, "Wilson's interval of 4 of 5"
    assert "exact" not in text


@pytest.mark.costly
def test_explain_as_json_and_markdown(run):
    explanation = json.loads(printed("explain", run, "--format", "json"))

    assert explanation["schema"] == "ragbench.explanation/1"
    for system in explanation["systems"]:
        rows = [row for row in explanation["queries"] if row["system"] == system["name"]]
        assert [row["query_id"] for row in rows] == list(QUERIES)
        for cause, count in system["causes"].items():
            assert sum(row["cause"] == cause for row in rows) == count
    assert {row["question"] for row in explanation["queries"]} == set(QUERIES.values())
    assert "| bm25 | 0 | 4, 0.800 " in printed("explain", run, "--format", "markdown")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "bm26"], "no system 'bm26'; did you mean 'bm25'?"),
        (["--cause", "lost"], "'lost' is not one of 'right'"),
    ],
)
def test_explain_says_what_there_is(run, arguments, message):
    done = run_command("explain", run, *arguments)

    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.costly
def test_explain_of_a_run_without_causes(run, assert_message):
    (run / "causes.csv").unlink()
    done = run_command("explain", run)

    assert done.returncode == 2
    assert_message(done.stderr)


@pytest.mark.costly
def test_causes_are_explained_without_the_files_of_the_fix_list(run):
    (run / "config.yaml").unlink()
    done = run_command("explain", run, "--verbose")

    assert done.returncode == 0
    assert "where answers are lost" in done.stdout
    assert "note: no fix list: " in done.stderr


@pytest.mark.costly
def test_show_has_everything_of_a_query(run):
    text = printed("show", run, "thick atmosphere")

    for part in (
        "q3: Which moon has a thick atmosphere?",
        "answer: Titan",
        "d3 (grade 3) Titan: Titan has a thick atmosphere",
        "bm25: found",
        "why: gold d3 at rank 1",
        "rank  score  grade  document",
        "ranking: as bm25",
        "read: d3",
        "7 of 7 words found",
    ):
        assert part in text
    assert re.search(r"\n  took: [\d.e+-]+ ms to retrieve\n", text)
    assert "exact" not in printed("show", run, "q3", "--system", "bm25")


def test_show_names_the_documents_that_bear_on_a_claim(tmp_path, assert_message):
    text = printed("show", run_folder(tmp_path, 4), "q3", "--system", "dense/gpt")

    claims = text.partition("  claims\n")[2].partition("  faithfulness by")[0]
    assert_message(claims.splitlines())
    words = printed("show", tmp_path, "q0", "--system", "dense/gpt")
    assert_message(lines_with(words, "1: supported by passage"))


def test_show_says_what_to_change(tmp_path, assert_message):
    text = printed("show", run_folder(tmp_path, 4), "q3", "--system", "bm25/gpt")

    assert_message(lines_with(text, "what to change"))


@pytest.mark.costly
def test_show_suggests(run, assert_message):
    done = run_command("show", run, "which moon")

    assert done.returncode == 2
    assert_message(done.stderr)


@pytest.mark.costly
def test_questions_without_ids_are_named_by_their_rows(tmp_path, assert_message):
    pytest.importorskip("pandas")
    questions = ["How hot is Io?", "How cold is Europa?", "What is Mars made of?"]
    rows = [{"question": text, "relevant": "io", "keep": "yes"} for text in questions]
    rows.insert(1, {**rows[0], "question": "Why?", "keep": "no"})
    result = rb.run_experiment(
        {"retrievers": {"bm25": {"type": "bm25"}}, "output": str(tmp_path)},
        dataset=rows,
        documents={"io": "Io is hot.", "europa": "Europa is cold."},
    )
    third = [*result.per_query["bm25"]["mrr@10"]][2]
    frame = result.to_pandas(texts=True)

    assert [*frame["row"]] == [1, 3, 4]
    assert len(third) == 12
    explained = printed("explain", result.path, "--verbose")
    assert_message(lines_with(explained, "What is Mars made of?"))
    assert third not in explained
    for name in ("4", "row 4", third, "made of"):
        head = f"row 4 ({third}): What is Mars made of?"
        assert printed("show", result.path, name).startswith(head)
    assert run_command("show", result.path, "2").returncode == 2
    page = json.loads(gzip.decompress(pack_queries(QueryViews(result.path)).packed))
    assert [query["row"] for query in page["queries"]] == [1, 3, 4]


@pytest.mark.costly
def test_show_sends_no_control_characters(config, data):  # noqa: F811
    path = data / "queries.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["text"] = HOSTILE
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = rb.run_experiment(config).path

    for text in (printed("show", run, "q1"), printed("explain", run, "--system", "bm25")):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "<script>" in text


@pytest.mark.costly
def test_runs_lists_what_changed(config, tmp_path, assert_message):  # noqa: F811
    first = rb.run_experiment(config).path
    config["retrievers"]["exact"]["k1"] = 1.5
    config["retrievers"]["third"] = {"type": "bm25", "stopwords": "none"}
    second = rb.run_experiment(config).path
    broken, half = tmp_path / "runs" / "moons" / "broken", tmp_path / "runs" / "moons" / "half"
    shutil.copytree(first, broken)
    (broken / "summary.json").write_text("{")
    half.mkdir()
    (half / "config.yaml").write_text("name: moons\n")

    lines = printed("runs").splitlines()
    assert [line.split()[0] for line in lines[:1]] == ["started"]
    assert f"moons/{first.name}" in lines[1]
    assert lines[1].endswith("the first run")
    assert f"moons/{second.name}" in lines[2]
    assert_message(lines[3])
    assert_message(lines[4])
    assert_message(lines[6])
    assert_message(lines[2][lines[2].index("retrievers.") :])
    assert lines[7].split() == ["system", "trend", "first", "last", "best", "in"]
    trend = {line.split()[0]: line for line in lines[8:11]}
    assert set(trend) == {"bm25/extractive", "exact/extractive", "third/extractive"}
    assert re.search(r" [▁█]{2}  | ▄▄ ", trend["exact/extractive"])
    assert re.match(r"third/extractive +[▁-█]  ", trend["third/extractive"]), (
        "the first run lacks it"
    )
    entries = list_runs(tmp_path / "runs" / "moons")
    assert [entry.problem is None for entry in entries] == [True, True, False, False]
    best = max(trend, key=lambda s: mean_of(second, s))
    assert mean_of(second, entries[1].system) == mean_of(second, best)
    listing = json.loads(printed("runs", "runs/moons", "--format", "json"))
    assert [run["path"] for run in listing["runs"]][:2] == [first.name, second.name]


@pytest.mark.costly
def test_runs_follow_a_score(config, assert_message):  # noqa: F811
    for k1 in (0.9, 3.0):
        config["retrievers"]["exact"]["k1"] = k1
        rb.run_experiment(config)
    entries = list_runs("runs", "rouge1")
    means = [entry.scores["exact/extractive"].mean for entry in entries]

    lines = printed("runs", "--score", "rouge1").splitlines()

    trend = next(line for line in lines if line.startswith("exact/extractive "))
    assert trend[trend.index("0.") :].split()[:2] == [significant(mean) for mean in means]
    assert_message(lines_with(lines, "rouge1 of moons over 2"))
    done = run_command("runs", "--score", "ruge1")
    assert (done.returncode, "did you mean 'rouge1'?" in done.stderr) == (2, True)


def mean_of(run, system):
    record = rb.load_experiment(run).record.system(system)
    return next(iter(record.scores.values())).mean


def test_runs_of_nothing(tmp_path):
    done = run_command("runs", tmp_path / "rums")
    assert (done.returncode, "no such folder" in done.stderr) == (2, True)
    done = run_command("runs", tmp_path)
    assert (done.returncode, "no run in it" in done.stderr) == (2, True)


@pytest.mark.skipif(shutil.which("git") is None, reason="makes a repository by git")
def test_commits_are_read_by_git(tmp_path, monkeypatch):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", tmp_path, *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    inner = tmp_path / "configs" / "deep"
    inner.mkdir(parents=True)
    assert read_commit(inner) is None, "no repository"
    git("init", "-q")
    assert read_commit(inner) is None, "no commit yet"
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert read_commit(inner) == git("rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "")
    assert read_commit(inner) is None, "no Git"


@pytest.mark.costly
def test_what_a_run_did_not_keep_is_not_said_to_be_missing(run, assert_message):
    (run / "questions.jsonl").unlink()

    text = printed("show", run, "q1")

    assert_message(lines_with(text, "questions, gold answers"))
    assert "no document is judged" not in text


@pytest.mark.costly
def test_the_folder_of_several_experiments_names_one(run):
    done = run_command("explain", run.parent.parent)

    assert done.returncode == 2
    assert f"did you mean '{run.parent}'?" in done.stderr


def test_show_prints_what_judges_and_generators_were_sent(tmp_path, assert_message):
    folder = run_folder(tmp_path / "run")
    form = {"id": "f1", "system": "Judge.\n  Be\tfair.", "user": "<q-[[fence]]>\n[[1]]\n[[2]]"}
    (folder / "prompts.jsonl").write_text(json.dumps(form) + "\n")
    path = folder / "judgements/dense--gpt.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    prompt = {"form": "f1", "fence": "ab", "texts": ["[[answer]]", HOSTILE], "to": "m (3 times)"}
    lost = {**prompt, "form": "no longer there"}
    path.write_text("".join(json.dumps({**r, "prompts": [prompt, lost]}) + "\n" for r in rows))

    text = printed("show", folder, "q1", "--prompts", "--system", "dense/gpt")

    head, _, sent = text.partition("  prompt of faithfulness by strict, sent to m (3 times)\n")
    assert_message(head[head.index("  prompt of the answer\n") :])
    assert sent.splitlines()[:5] == [
        "  system:",
        "  | Judge.",
        "  | Be fair.",
        "  user:",
        "  | <q-ab>",
    ]
    assert_message(sent.splitlines()[5])
    assert "\\x1b[31mred \\u202eright" in sent.splitlines()[6]
    assert "prompt of" not in printed("show", folder, "q1")


def contained(item):
    """Grade an answer of a log without gold answers."""
    return float(item.answer in item.contexts[0]), f"looked for {item.answer}"


def test_verdicts_of_a_judge_stand_in_place_of_unknown_causes(tmp_path, assert_message):
    table = [{"id": "a", "question": "Who?", "contexts": ["Ann"], "answer": "Ann", "system": "app"}]
    table.append({**table[0], "id": "b", "question": "When?", "answer": "1932"})
    table.append({**table[0], "id": "c", "question": "Where?", "answer": "Graz"})
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    judge = {"type": f"python:{__name__}:contained"}
    dataset = {"type": "records", "path": str(path)}
    settings = {"name": "log", "dataset": dataset, "metrics": {"judge": judge}}
    run = rb.run_experiment({**settings, "output": str(tmp_path / "runs")}).path

    printed = run_command("explain", run)

    assert printed.returncode == 0
    assert "unknown" not in printed.stdout
    assert_message(printed.stdout)
    # the run itself names them below its first sentence
    (tmp_path / "log.yaml").write_text(json.dumps({**settings, "output": str(tmp_path / "runs")}))
    lines = run_command("run", tmp_path / "log.yaml").stdout.splitlines()
    assert_message("\n".join(lines[:5]))
    lines = run_command("run", "--quiet", tmp_path / "log.yaml").stdout.splitlines()
    assert not [line for line in lines if line.startswith("lowest")]


_TURNS = """
from collections import Counter

calls = Counter()


def ask(question):
    calls[question] += 1
    right = "25 days" if "leave" in question else "I do not know."
    return ("I do not know.", right, "In general, it takes a week: 3 days")[calls[question] - 1]
"""


@pytest.fixture(scope="module")
def repeated(tmp_path_factory):
    """A run whose app answers three times: refused, right or refused, and unknown."""
    folder = tmp_path_factory.mktemp("repeated")
    (folder / "three_turns.py").write_text(_TURNS)
    (folder / "qa.csv").write_text(
        "question,answer\nHow many days of leave?,25 days\nWho approves?,the head of all\n"
    )
    (folder / "my.yaml").write_text(
        "dataset: {type: records, path: qa.csv,\n"
        "  columns: {question: question, reference: answer}}\n"
        "apps: {mine: {type: 'python:three_turns:ask', repeat: 3}}\n"
    )
    assert run_command("run", "my.yaml", cwd=folder).returncode == 0
    return folder / "runs" / "my"


@pytest.mark.costly
def test_a_repeated_question_is_listed_once_with_its_causes(repeated, assert_message):
    lines = printed("explain", repeated).splitlines()

    assert [line[:5] for line in lines if line.startswith("row")] == ["row 1", "row 2"]
    assert_message([line for line in lines if " of 3 repeats" in line])


@pytest.mark.costly
def test_a_flipping_question_has_its_row_also_where_another_cause_is_selected(repeated):
    text = printed("explain", repeated, "--cause", "failed")

    assert text.partition("\nquestions that flip")[2].splitlines()[2].startswith("row 1  ")
