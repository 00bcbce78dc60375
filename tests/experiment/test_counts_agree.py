"""Every door of a run counts the same questions under the same causes, and all of them."""

import csv
import gzip
import json
import re
import string
from collections import Counter

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.cli import group
from ragbench.data.runs.query_view import QueryViews
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.report.layout import lay_out
from ragbench.report.page.data import pack_queries

# Kind of an answer -> answer and ids of the passages that were read; None is a call that fails
ANSWERS = {
    "right": ("It is five metres tall.", ["gold"]),
    "wrong": ("It is blue.", ["gold"]),
    "refused": ("I don't know.", ["gold"]),
    "lost": ("It is blue.", ["other"]),
    "forbidden": ("It is blue.", ["old", "gold"]),
    "failed": None,
}
TEXTS = {"gold": "It is five metres tall.", "other": "The sea is wide.", "old": "It is blue."}


class MixedApp:
    """App with a given kind of answer for each question."""

    def __init__(self, kinds):
        self.kinds = kinds

    def answer(self, question):
        kind = self.kinds[question]
        if ANSWERS[kind] is None:
            raise RuntimeError("down")
        text, ids = ANSWERS[kind]
        passages = [{"id": name, "text": TEXTS[name]} for name in ids]
        return {"answer": text, "contexts": passages}


def run_of(folder, kinds, has_gold, saved):
    """Return the config, app, rows and documents of a run; a file lacks its failed answers."""
    names = [f"How tall is tower {letter}?" for letter in string.ascii_lowercase[: len(kinds)]]
    rows, lines = [], []
    for place, name in enumerate(names):
        row = {"id": f"q{place}", "question": name, "forbidden": ["old"]}
        if has_gold[place]:
            row |= {"reference": "five metres", "relevant": ["gold"]}
        rows.append(row)
        if ANSWERS[saved[place]] is not None:
            line = {"query_id": f"q{place}", "answer": ANSWERS[saved[place]][0]}
            lines.append(json.dumps(line) + "\n")
    folder.mkdir()
    (folder / "answers.jsonl").write_text("".join(lines))
    config = {
        "name": "mix",
        "output": str(folder / "runs"),
        "cache": str(folder / "cache"),
        "retrievers": {"bm25": {"type": "bm25"}},
        "generators": {"saved": {"type": "predictions", "path": str(folder / "answers.jsonl")}},
    }
    app = MixedApp(dict(zip(names, kinds, strict=True)))
    documents = [{"id": name, "text": text} for name, text in TEXTS.items()]
    return config, app, rows, documents


def causes_of_csv(path):
    counts = {}
    with (path / "causes.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            of_system = counts.setdefault(row["system"], Counter())
            of_system[row["cause"]] += 1
    return counts


def causes_of_page(path):
    counts = {}
    views = QueryViews(path, bare=True)
    for query in json.loads(gzip.decompress(pack_queries(views).packed))["queries"]:
        for system, entry in query["systems"].items():
            causes = entry.get("causes") or [entry["cause"]]
            for cause in causes:
                counts.setdefault(system, Counter())[cause] += 1 / len(causes)
    return counts


def check_sentences(run, n):
    """Check the counts of the first sentence of a run, and of `explain`, by the record."""
    lead = re.match(r"(\S+) answers (\d+) of (\d+)", lay_out(run.record, run.compared).lead)
    if lead is None:  # no answer has a verdict: the sentence has another score
        assert run.record.system("mine").scores["right"].n == 0
        return
    name, right, judged = lead.groups()
    system = run.record.system(name)
    n_unjudged = sum(system.unjudged.values())
    assert (int(right), int(judged)) == (system.causes["right"], n - n_unjudged)
    explanation = CliRunner().invoke(group, ["explain", str(run.path)]).stdout
    told = re.search(rf"(\d+) answers? of {name} (?:is|are) not judged", explanation)
    # the sentence stands where no question is lost
    assert told is None or int(told[1]) == n_unjudged


@st.composite
def mixtures(draw):
    """Kinds of the answers of an app and of a file, and which questions have gold."""
    n = draw(st.integers(2, 9))
    kinds = st.lists(st.sampled_from(list(ANSWERS)), min_size=n, max_size=n)
    saved = draw(kinds.filter(lambda of: {*of} != {"failed"}))
    has_gold = [True, *draw(st.lists(st.booleans(), min_size=n - 1, max_size=n - 1))]
    return draw(kinds), has_gold, saved


@pytest.mark.slow
@settings(  # no shrinking: each example is a run
    max_examples=6,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(mixtures())
def test_all_doors_count_the_same_causes(tmp_path_factory, mixture):
    kinds, has_gold, saved = mixture
    folder = tmp_path_factory.mktemp("counts") / "run"
    config, app, rows, documents = run_of(folder, *mixture)

    run = rb.run_experiment(config, dataset=rows, documents=documents, apps={"mine": app.answer})

    n = len(kinds)
    summary = json.loads((run.path / "summary.json").read_text())
    told = CliRunner().invoke(group, ["explain", str(run.path), "--format", "json"])
    explained = {of["name"]: of["causes"] for of in json.loads(told.stdout)["systems"]}
    of_csv, of_page = causes_of_csv(run.path), causes_of_page(run.path)
    for system in summary["systems"]:
        name, counts = system["name"], Counter(system["causes"])
        assert counts.total() == pytest.approx(n), name
        for other in (explained[name], of_csv[name], of_page[name]):
            present = {cause: count for cause, count in other.items() if count}
            assert present == pytest.approx({c: k for c, k in counts.items() if k}), name
    for name, of_answers in (("mine", kinds), ("bm25/saved", saved)):
        counts = next(s["causes"] for s in summary["systems"] if s["name"] == name)
        pairs = list(zip(of_answers, has_gold, strict=True))
        assert counts["right"] == sum(kind == "right" and gold for kind, gold in pairs), name
        assert counts["failed"] == sum(kind == "failed" for kind, _ in pairs), name
    check_sentences(run, n)
    fixes = list_fixes(RunReader(run.path))
    found = run.record.system(fixes.system).scores["found@5"]
    assert fixes.found == pytest.approx(round((found.mean or 0) * found.n))
    assert fixes.of == found.n + found.n_failed == sum(has_gold)
