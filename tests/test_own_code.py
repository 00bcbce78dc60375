"""Components of users, named by `python:`, in a module next to the YAML file."""

import importlib
import json
import pickle
import re
import subprocess
import sys

import pytest
import yaml

import ragbench as rb
from ragbench.config.load import load_config
from ragbench.experiment.stages.keys import component_key
from ragbench.registry import load_object, looking_in
from ragbench.types import Verdict
from tests.commands import run_command
from tests.messages import lines_with
from tests.warm import PROGRAM

MODULE = """
from typing import Annotated

import ragbench as rb
from ragbench.types import Verdict


def polite(prediction, *, words: int = 3):
    return prediction.count("please") >= words


def shares(prediction: str, references: list[str]) -> float:
    wanted = references[0].split()
    return sum(word in prediction for word in wanted) / len(wanted)


@rb.metric("length", range=(0.0, 1.0), needs_reference=False)
def length(prediction, references, *, most: Annotated[int, rb.Option("Characters.", ge=1)] = 10):
    return min(1.0, len(prediction) / most)


def first_hit(retrieved, judged, *, bonus: float = 1.0):
    return bonus if retrieved and retrieved[0] else 0.0


def halves(text):
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


def pieces(text, *, n: int = 2):
    width = max(1, len(text) // n)
    return [text[at : at + width] for at in range(0, len(text), width)]


def grounded(answer, contexts, *, share: float = 0.5):
    words = answer.split()
    found = sum(word in contexts[0] for word in words) / len(words)
    return found >= share, f"{found:.0%}"


def declared(answer, references, *, most: Annotated[int, rb.Option("Words.", ge=1)] = 9):
    return len(answer.split()) <= most


def levels(item, rubric):
    return Verdict(0.25 if rubric.name == "fluency" else 0.75, reasoning=item.answer)


def seven(answer):
    return 7


def asks_too_much(answer, context):
    return 1.0


async def later(answer):
    return 1.0


CONSTANT = 3


def data(*, n=3):
    numbers = range(n)
    return {
        "queries": [{"id": f"q{i}", "text": f"fox {i}"} for i in numbers],
        "documents": [{"id": f"d{i}", "text": f"a fox {i} please please"} for i in numbers],
        "qrels": {f"q{i}": {f"d{i}": 1} for i in numbers},
        "answers": {f"q{i}": [f"fox {i}"] for i in numbers},
    }


class Brevity:
    label = "by length"
    model = "brevity-1"
    served = None
    options = {}

    def judge(self, item, rubric):
        return Verdict(1.0 if len(item.answer) < 80 else 0.0)
"""
CONFIG = {
    "dataset": {"type": "python:mine_alone:data", "n": 4},
    "retrievers": {
        "bm25": {"type": "bm25"},
        "cut": {
            "type": "bm25",
            "chunk": {"by": "langchain", "size": 9, "factory": "mine_alone:halves"},
        },
        "plain": {"type": "bm25", "chunk": {"by": "python:mine_alone:halves"}},
        "thirds": {"type": "bm25", "chunk": {"by": "python:mine_alone:pieces", "args": {"n": 3}}},
    },
    "generators": {"first": {"type": "extractive"}},
    "metrics": {
        "retrieval": {
            "top_k": 5,
            "measures": [
                "python:mine_alone:first_hit",
                "python:mine_alone:first_hit(bonus=2)@1",
                "hit_rate@1",
            ],
        },
        "generation": [
            "python:mine_alone:polite(words=2)",
            "python:mine_alone:shares",
            "python:mine_alone:length(most=8)",
        ],
        "judge": {
            "class": {"type": "python:mine_alone:Brevity", "rubrics": ["fluency"]},
            "plain": {"type": "python:mine_alone:grounded", "share": 0.25},
            "named": {"type": "python:mine_alone:declared", "most": 1, "rubrics": ["declared"]},
            "asked": {"type": "python:mine_alone:levels", "rubrics": ["fluency", "coherence"]},
            "wrong": {"type": "python:mine_alone:seven"},
        },
    },
}


@pytest.fixture
def project(tmp_path):
    """A folder with a module and a config, beside the working directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine_alone.py").write_text(MODULE)
    (folder / "own.yaml").write_text(yaml.safe_dump({**CONFIG, "output": str(tmp_path / "runs")}))
    return folder


@pytest.mark.costly
def test_a_module_beside_the_config_has_every_kind(project, tmp_path, assert_message):
    checked = run_command("validate", "project/own.yaml", cwd=tmp_path)
    done = run_command("run", "project/own.yaml", "--quiet", cwd=tmp_path)

    assert checked.returncode == 0, checked.stderr
    assert "is created by a run only" in checked.stdout
    assert done.returncode == 3, "a judge that always fails is no success"
    assert_message(lines_with(done.stdout, "0 to"))
    (summary,) = (tmp_path / "runs" / "own").glob("2*/summary.json")
    systems = {
        system["name"]: system["scores"] for system in json.loads(summary.read_text())["systems"]
    }
    bm25, pair, cut = (systems[name] for name in ("bm25", "bm25/first", "cut/first"))
    plain, thirds = (systems[f"{name}/first"] for name in ("plain", "thirds"))
    assert bm25["python:mine_alone:first_hit"]["mean"] == bm25["hit_rate@1"]["mean"] == 1.0
    assert bm25["python:mine_alone:first_hit(bonus=2)@1"]["mean"] == 2.0
    assert pair["python:mine_alone:polite(words=2)"]["mean"] == 1.0
    assert pair["python:mine_alone:shares"]["mean"] == 1.0
    assert pair["python:mine_alone:length(most=8)"]["mean"] == 1.0
    assert cut["python:mine_alone:polite(words=2)"]["mean"] < 1.0
    lengths = "python:mine_alone:length(most=8)"
    assert cut[lengths]["mean"] == plain[lengths]["mean"] >= thirds[lengths]["mean"]
    means = {name: score["mean"] for name, score in pair.items() if "judge=" in name}
    assert means == {
        "fluency(judge=class)": 1.0,
        "grounded(judge=plain)": 1.0,
        "declared(judge=named)": 0.0,
        "fluency(judge=asked)": 0.25,
        "coherence(judge=asked)": 0.75,
        "seven(judge=wrong)": None,
    }
    assert pair["seven(judge=wrong)"]["failed"] == {"error": 4}
    assert "|code:" in pair["grounded(judge=plain)"]["signature"]
    assert "|share:0.25|" in pair["grounded(judge=plain)"]["signature"]
    assert "code:" in bm25["python:mine_alone:first_hit"]["signature"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("python:mine_alone:polit", "did you mean 'polite'"),
        ("python:mine_alone:polite(wrds=1)", "did you mean 'words'"),
        ("python:mine_alone:data", r"a function of \(prediction\) or \(prediction, references\)"),
        ("python:no_such_module:polite", "looked in .*project"),
    ],
)
def test_a_name_that_leads_nowhere_says_where_it_was_looked_for(project, name, message):
    metrics = {"generation": [name]}

    with pytest.raises(rb.ConfigError, match=message):
        load_config({**CONFIG, "metrics": metrics}, base_dir=project)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"type": "python:mine_alone:asks_too_much"}, "did you mean 'contexts'"),
        ({"type": "python:mine_alone:later"}, "an async function"),
        ({"type": "python:mine_alone:grounded", "shape": 1}, "did you mean 'share'"),
        ({"type": "python:mine_alone:grounded", "share": "all"}, "allowed: a number"),
        ({"type": "python:mine_alone:declared", "most": 0}, "an integer >= 1"),
        ({"type": "python:mine_alone:grounded", "rubrics": ["fluency"]}, "allowed: grounded"),
        ({"type": "python:mine_alone:CONSTANT"}, "a class with judge"),
    ],
)
def test_a_function_that_cannot_judge_is_refused_at_its_place(project, judge, message):
    with pytest.raises(rb.ConfigError, match=message):
        load_config({**CONFIG, "metrics": {"judge": judge}}, base_dir=project)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ({"by": "python:mine_alone:halvs"}, "did you mean 'halves'"),
        ({"by": "python:mine_alone:halves", "size": 3}, "halves does not take it"),
        ({"by": "python:mine_alone:pieces", "args": {"m": 3}}, "allowed: n"),
        ({"by": "python:mine_alone:Brevity"}, "missing key 'size'"),
        ({"by": "words", "size": 3, "args": {"n": 3}}, "no args; or by: python:module:name"),
        ({"by": "words"}, "missing key 'size'"),
    ],
)
def test_a_splitter_that_does_not_fit_is_refused_at_its_place(project, chunk, message):
    retrievers = {"cut": {"type": "bm25", "chunk": chunk}}

    with pytest.raises(rb.ConfigError, match=message):
        load_config({**CONFIG, "retrievers": retrievers}, base_dir=project)


def half(answer, contexts=(), *, most: int = 3):
    return 0.5 if len(answer) <= most and not contexts else 0.0


def shorter(answer, other):
    return len(answer) < len(other), "fewer letters"


class NamedJudge:
    """A judge that is made already."""

    label, model, served, options = "own", "own-1", None, {}

    def judge(self, item, rubric):
        return Verdict(1.0, reasoning=rubric.name)


def test_python_takes_a_function_a_class_and_a_judge():
    with rb.Judge(type=half, most=2) as judge:
        scores = [judge.score(answer=text)["half"].score for text in ("no", "long")]
        copy = pickle.loads(pickle.dumps(judge))
        assert [*scores, copy.score(answer="no")["half"].score] == [0.5, 0.0, 0.5]
        assert judge.score(answer="no", contexts=["p"])["half"].score == 0.0
        assert judge.score(answer=None)["half"].cause == "no_answer"
        assert judge.model == "tests.test_own_code:half"
    verdict = rb.Judge(type=shorter).score(answer="a", other="bcd")["shorter"]
    assert (verdict.score, verdict.reasoning) == (1.0, "fewer letters")
    for kind in (NamedJudge, NamedJudge()):
        assert rb.Judge(type=kind, rubrics=["fluency"]).score(answer="a")["fluency"].score == 1.0
    with pytest.raises(rb.OptionError, match="did you mean 'most'"):
        rb.Judge(type=half, mots=2)
    wrong = rb.Judge(type=lambda answer: None).score(answer="a")
    assert [failed.status for failed in wrong.values()] == ["failed"]
    assert "a number from 0 to 1" in next(iter(wrong.values())).reasoning


def test_score_looks_in_the_working_directory(project):
    (project / "answers.txt").write_text("please wait\n")
    options = ["--predictions", "answers.txt", "--references", "answers.txt"]

    done = run_command("score", *options, "-m", "python:mine_alone:polite(words=1)", cwd=project)

    assert done.returncode == 0, done.stderr
    assert re.search(r"polite\(words=1\)\s+1\.00", done.stdout)


def test_a_measure_that_returns_no_number_is_refused_with_its_query(project, assert_message):
    config = {
        "dataset": CONFIG["dataset"],
        "retrievers": {"bm25": {"type": "bm25"}},
        "metrics": {"retrieval": {"measures": ["python:mine_alone:first_hit(bonus=-1)"]}},
        "output": str(project / "runs"),
    }
    (project / "negative.yaml").write_text(yaml.safe_dump(config))

    with pytest.raises(rb.AdapterError) as error:
        rb.run_experiment(project / "negative.yaml")
    assert_message(error.value)


@pytest.mark.costly
@pytest.mark.parametrize("metric", ["generation", "retrieval"])
def test_code_that_raises_ends_a_run_with_its_name(project, tmp_path, metric):
    bad = "def bad(first, second): raise KeyError('lost')"
    (project / "bad_alone.py").write_text(bad)
    names = ["python:bad_alone:bad"]
    config = {**CONFIG, "output": str(tmp_path / "runs")}
    config["metrics"] = {metric: {"measures": names} if metric == "retrieval" else names}
    (project / "bad.yaml").write_text(yaml.safe_dump(config))

    done = run_command("run", "project/bad.yaml", "--quiet", cwd=tmp_path)

    assert done.returncode == 2
    assert "'python:bad_alone:bad'" in done.stderr
    assert "KeyError: 'lost'" in done.stderr


def test_a_rubric_may_be_a_mapping():
    rubric = {"name": "short", "needs": ["answer"], "scale": {1: "long", 2: "short"}}

    with rb.Judge(rubrics=[rubric], client=lambda m: '{"reasoning": "r", "level": 2}') as judge:
        assert judge.score(answer="A text.")["short"].score == 1.0
    with pytest.raises(rb.DataError, match="did you mean 'scale'"):
        rb.Judge(rubrics=[{**rubric, "scales": {}}], client=lambda m: "")


@pytest.mark.costly
def test_the_page_on_own_code_runs(repository, tmp_path, warm):
    page = (repository / "docs" / "own.md").read_text(encoding="utf-8")
    module, judge = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (config,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.py").write_text(module)
    (tmp_path / "mine.yaml").write_text(config)
    (tmp_path / "judge.py").write_text(judge)

    done = run_command("run", "mine.yaml", "--quiet", cwd=tmp_path)
    warm.write_python(tmp_path / "python")
    completed = subprocess.run(
        [tmp_path / "python", "judge.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.returncode == 0, done.stderr
    assert completed.stdout == "1.0\n"


@pytest.mark.costly
def test_people_label_what_a_function_judged_without_its_being_imported(
    project, tmp_path, repository, assert_message
):
    # A run folder is data; a rubric that its config holds, or a function had, is known.
    brief = {"name": "brief", "needs": ["answer"], "scale": {1: "long", 2: "short"}}
    judge = {
        "plain": {"type": "python:mine_alone:grounded"},
        "written": {"type": "python:mine_alone:levels", "rubrics": [brief]},
    }
    (project / "judged.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "judged",
                "dataset": {"type": "beir", "path": str(repository / "datasets" / "example")},
                "generators": CONFIG["generators"],
                "retrievers": {"bm25": {"type": "bm25"}},
                "metrics": {"judge": judge},
                "output": str(tmp_path / "runs"),
            }
        )
    )
    done = run_command("run", "project/judged.yaml", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (project / "mine_alone.py").write_text("raise SystemExit('imported')")

    drawn = run_command("calibrate", "runs/judged", "--draw", "2", "-o", "s.csv", cwd=tmp_path)
    probed = run_command("calibrate", "runs/judged", "--probe", "position", cwd=tmp_path)

    assert drawn.returncode == 0, drawn.stderr
    assert_message(drawn.stderr)
    assert probed.returncode == 2
    assert "runs code that a run folder names" in probed.stderr


@pytest.mark.parametrize("value", [1, 2])
def test_a_module_of_one_test_is_not_that_of_the_next(value, tmp_path):
    # Two tests in either order: `own_modules` of conftest.py forgets what the first imported.
    (tmp_path / "mine_of_each.py").write_text(f"VALUE = {value}\n")
    sys.path.insert(0, str(tmp_path))

    import mine_of_each

    assert value == mine_of_each.VALUE
    assert not [path for path in sys.path[1:] if "is_not_that_of_the_next" in path]


@pytest.mark.slow
def test_values_of_corrected_code_are_computed_again(tmp_path, warm):
    # Values were those of the first code for ever, under the signature of the new one.
    code = """\
def value():
    return {value}

class Judge:
    label, model, options, served = "mine", "mine-1", {{}}, None

    def judge(self, item, rubric):
        return value()

def metric(prediction):
    return value()

def measure(retrieved, judged):
    return value()

def verdict(answer):
    return value()
"""
    names = [f"python:corrected:{name}" for name in ("measure", "metric", "verdict", "Judge")]
    config = {
        "name": "own",
        "dataset": {"type": "records", "path": "rows.json", "corpus": "corpus.json"},
        "retrievers": {"bm25": {"type": "bm25"}},
        "generators": {"first": {"type": "extractive"}},
        "metrics": {
            "retrieval": {"measures": names[:1]},
            "generation": names[1:2],
            "judge": {
                "one": {"type": names[2]},
                "two": {"type": names[3], "rubrics": ["fluency"]},
            },
        },
    }
    rows = [{"question": f"Where is {name}?", "relevant": name} for name in ("io", "titan")]
    corpus = [{"id": name, "text": f"{name} is hot"} for name in ("io", "titan")]
    for name, value in (("own.yaml", config), ("rows.json", rows), ("corpus.json", corpus)):
        (tmp_path / name).write_text(json.dumps(value))
    means = []
    for value in (0.25, 0.5, 0.5):
        (tmp_path / "corrected.py").write_text(code.format(value=value))
        # a process each: this one would keep the functions of the first
        assert warm.run(PROGRAM, "run", "own.yaml", "--quiet", cwd=tmp_path)[0] == 0
        systems = rb.load_experiment(tmp_path / "runs" / "own").record.systems
        scores = (item for system in systems for item in system.scores.items())
        means.append({score.mean for name, score in scores if name not in ("found@5", "right")})

    assert means == [{0.25}, {0.5}, {0.5}]


@pytest.mark.parametrize(
    "entry", [{"type": "python:resumed:search"}, {"type": "langchain", "factory": "resumed:search"}]
)
def test_a_run_is_not_resumed_with_the_hits_of_the_code_before_a_correction(entry, tmp_path):
    module = tmp_path / "resumed.py"
    module.write_text("def search(question='', top_k=1):\n    return ['a']\n")

    def key(**changes):
        data = {"type": "records", "path": "qa.csv"}
        config = {"dataset": data, "retrievers": {"mine": entry | changes}}
        component = load_config(config, base_dir=tmp_path).retrievers["mine"]
        load_object("resumed:search")  # as the run does that creates it
        return component_key(component, "token", {})

    (tmp_path / "qa.csv").write_text("question,reference\nWhat?,That.\n")
    with looking_in([tmp_path]):
        first, same, declared = key(), key(), key(version="v1")
        module.write_text(module.read_text().replace("['a']", "['b']"))
        assert first == same != key()
        assert declared == key(version="v1"), "the user says that it did not change"


def test_a_module_that_is_loaded_again_replaces_its_functions(tmp_path, monkeypatch):
    # As in a notebook, after an edit: metrics kept the function of the first import.
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = tmp_path / "reloaded.py"
    values = []
    for value in (0.25, 0.5):
        functions = ("measure(retrieved, judged)", "metric(prediction)", "verdict(answer)")
        module.write_text("".join(f"def {name}:\n    return {value}\n" for name in functions))
        importlib.reload(importlib.import_module("reloaded"))
        run = rb.evaluate_run({"q": {"a": 1.0}}, {"q": {"a": 1}}, ["python:reloaded:measure"])
        texts = rb.evaluate_texts(["a"], ["b"], ["python:reloaded:metric"])
        verdict = rb.Judge(type="python:reloaded:verdict").score(answer="a")["verdict"]
        values.append([*run.mean.values(), *texts.mean.values(), verdict.score])

    assert values == [[0.25] * 3, [0.5] * 3]
