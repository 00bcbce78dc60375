"""Counts of questions by gold: measures, causes, fix list and first line agree.

The data sets are random: gold documents, spans and quotes, alternatives, several of them, chunks,
apps, stored answers, failures and refusals. What a hit meets is decided here by plain intervals.
"""

from __future__ import annotations

import html
import json
import random
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.records.causes import CAUSES
from ragbench.report.headline import lead, lead_measure
from ragbench.report.text import cause_words
from tests.commands import run_command
from tests.report.page_tables import PageReader

WORDS = [f"w{number}" for number in range(60)]
TOP_K = 8
N_ROWS = 8


class World:
    """Random corpus, questions and systems; `draw` has every choice."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        # passages that a generator reads, and whether it needs one gold passage or all
        self.read = self.draw.choice([1, 2, 3])
        self.need = self.draw.choice(["any", "all"])
        # a word stands once in a document, so that a text has one place in it
        self.texts = {f"d{number}.md": " ".join(self.draw.sample(WORDS, 30)) for number in range(5)}
        self.rows = [self._row(number) for number in range(N_ROWS)]
        self.hits = {
            (name, row["question"]): self._hits(name)
            for name in ("docs", "chunks", "app")
            for row in self.rows
        }

    def part(self, document: str) -> tuple[int, int, str]:
        """Return start, end and text of some words of a document."""
        words, first = self.texts[document].split(), self.draw.randrange(24)
        last = first + self.draw.randint(2, 6)
        # the blank before the first word, unless the part begins the document
        start = len(" ".join(words[:first])) + bool(first)
        text = " ".join(words[first:last])
        return start, start + len(text), text

    def _row(self, number: int) -> dict[str, object]:
        row: dict[str, object] = {
            "id": f"q{number}",
            "question": f"Question {number}?",
            "reference": self.draw.choice(["w1", "w2 w3", "I do not know."]),
        }
        documents = self.draw.sample(sorted(self.texts), self.draw.choice([1, 1, 2]))
        kind = self.draw.choice(["documents", "spans", "quote", "answers"])
        if kind != "answers":
            row["relevant"] = documents
        if kind == "spans":
            places = [(name, *self.part(name)[:2]) for name in documents]
            row["reference_spans"] = [
                {"document": name, "start": start, "end": end} for name, start, end in places
            ]
        if kind == "quote":
            row["quote"] = self.part(documents[0])[2]
        if self.draw.random() < 0.7:
            row["answer"] = self.draw.choice(["w1", "w2 w3", "w9", "I do not know.", ""])
        return row

    def _hits(self, name: str) -> list[tuple[str, int, int]] | None:
        """Return (document, start, end) of each hit; None for a failure."""
        # a retriever that is down for one query of ten
        if self.draw.random() < 0.1:
            return None
        hits = []
        for _ in range(self.draw.randrange(TOP_K)):
            document = self.draw.choice(sorted(self.texts))
            start, end, _ = self.part(document)
            whole = (document, 0, len(self.texts[document]))
            hits.append(whole if name == "docs" else (document, start, end))
        # equal parts would be one hit twice
        return list(dict.fromkeys(hits))

    def search(self, name: str):
        """Return a retriever of documents, or of chunks with ids of their own."""

        def retrieve(question: str, top_k: int):
            hits = self.hits[name, question]
            if hits is None:
                raise RuntimeError("down")
            if name == "docs":
                return [document for document, _, _ in hits]
            return [
                {
                    "id": f"{name}-{document}-{start}-{end}",
                    "text": self.texts[document][start:end],
                    "metadata": {"source": f"docs/{document}"},
                }
                for document, start, end in hits
            ]

        return retrieve

    def answer(self, question: str):
        """Return the answer of an app with its passages."""
        contexts = self.search("app")(question, TOP_K)
        return {
            "answer": random.Random(question).choice(["w1", "w9", "It is not said."]),
            "contexts": contexts,
        }

    def needs(self, row: dict[str, object]) -> list[list[tuple[str, int, int]]]:
        """Return the gold of a row: for each need, its alternatives."""
        whole = {name: (name, 0, len(text)) for name, text in self.texts.items()}
        documents = list(row.get("relevant", ()))
        spans = [(s["document"], s["start"], s["end"]) for s in row.get("reference_spans", ())]
        needs = [[span] for span in spans]
        if quote := row.get("quote"):
            places = [(n, self.texts[n].find(quote), len(quote)) for n in documents]
            alternatives = [(n, start, start + size) for n, start, size in places if start >= 0]
            needs += [alternatives]
        placed = {document for need in needs for document, _, _ in need}
        return needs + [[whole[name]] for name in documents if name not in placed]

    def met_at(self, name: str, row: dict[str, object]) -> int:
        """Return the number of first hits that meet the gold of a row; 0 if they never do."""
        firsts = []
        for need in self.needs(row):
            ranks = [
                rank
                for rank, (document, start, end) in enumerate(self.hits[name, row["question"]], 1)
                if any(d == document and start < e and s < end for d, s, e in need)
            ]
            firsts.append(min(ranks, default=0))
        if self.need == "all":
            return max(firsts) if all(firsts) else 0
        return min(filter(None, firsts), default=0)

    def run(self, folder: Path) -> rb.Experiment:
        """Run the experiment in a folder."""
        docs = folder / "docs"
        docs.mkdir()
        for name, text in self.texts.items():
            (docs / name).write_text(text)
        lines = "".join(f"{json.dumps(row)}\n" for row in self.rows)
        (folder / "qa.jsonl").write_text(lines)
        config = {
            "name": "gold",
            "dataset": {"type": "records", "path": str(folder / "qa.jsonl"), "corpus": str(docs)},
            "metrics": {
                "retrieval": {"top_k": TOP_K, "measures": ["recall@5"]},
                "generation": ["contains"],
            },
            "causes": {"read": self.read, "need": self.need},
            "generators": {"quotes": {"type": "extractive", "passages": self.read}},
            "statistics": {"resamples": 200},
            "output": str(folder / "runs"),
            "cache": str(folder / "cache"),
            "max_failed": 1.0,
        }
        return rb.run_experiment(
            config,
            retrievers={"docs": self.search("docs"), "chunks": self.search("chunks")},
            apps={"app": self.answer},
        )


@pytest.mark.costly
@settings(max_examples=9)  # each runs an experiment of eight questions
@given(st.integers(0, 10**6))
def test_all_counts_are_those_of_one_notion_of_gold(seed):
    world = World(seed)
    with tempfile.TemporaryDirectory() as place:
        experiment = world.run(Path(place))
        need = "(need=all)" if world.need == "all" else ""
        measure = f"found{need}@{world.read}"
        for system in experiment.record.systems:
            scores, causes = experiment.per_query[system.name], experiment.causes[system.name]
            counts = Counter(loss.cause for loss in causes.values())
            assert {name: n for name, n in system.causes.items() if n} == counts
            assert sum(counts.values()) == len(world.rows)
            if "right" in scores:
                values = scores["right"]
                assert {q for q, v in values.items() if v == 1} == {
                    q for q, loss in causes.items() if loss.cause == "right"
                }
                score = system.scores["right"]
                assert round((score.mean or 0) * score.n) == counts["right"]
                assert set(values.values()) <= {0.0, 1.0} or any(v != v for v in values.values())
            if system.generator is None and system.name in ("docs", "chunks"):
                check_ranking(world, system.name, scores[measure], causes)
                fixes = list_fixes(RunReader(experiment.path, system.name))
                assert fixes.found == counts["found"]
        check_sentences(experiment)
        check_tables(experiment, measure)


def check_tables(experiment, found_measure):
    """Hold the tables and bars of both pages against the causes of each question."""
    counts = {
        system: Counter(loss.cause for loss in causes.values())
        for system, causes in experiment.causes.items()
    }
    page = PageReader((experiment.path / "report.html").read_text(encoding="utf-8"))
    assert page.causes == counts
    assert causes_in_markdown(experiment) == counts
    for kind, measure, cause in (
        ("retrieval", found_measure, "found"),
        ("generation", "right", "right"),
    ):
        check_means(page, experiment, kind, measure, {name: n[cause] for name, n in counts.items()})
    check_changes(page, experiment, counts)


def check_means(page, experiment, kind, measure, counts):
    """Hold the means of a measure, times the scored questions, against counts of its cause."""
    means, scored = {}, {}
    for caption, rows in page.tables.items():
        for row in rows:
            if caption.startswith("mean and interval") and measure in row:
                means[row["system"]] = row[measure]
            elif caption.startswith(f"{kind}: scored") and measure in row:
                scored[row["system"]] = row[measure]
    systems = experiment.record.systems
    assert means.keys() == scored.keys() == {s.name for s in systems if measure in s.scores}
    for system, cell in means.items():
        # "5 / 3 / 0 [0.125, 0.500]", and "0.200 =[0.0362, 0.624]"; "-" without a score
        n, n_failed, n_missing = map(int, re.findall(r"\d+", scored[system])[:3])
        assert n + n_failed + n_missing == N_ROWS
        mean = re.match(r"\d\.\d+", cell)
        assert (mean is None) == (n == 0), cell
        n_met = 0 if mean is None else round(float(mean[0]) * n)
        if system in counts and (kind == "generation" or system in ("docs", "chunks")):
            assert n_met == counts[system], (system, cell)


def check_changes(page, experiment, counts):
    """Hold the questions of the fix list against the causes of its systems."""
    fixes = list_fixes(RunReader(experiment.path))
    for row in page.tables["changes"]:
        rescued, lost = map(int, re.findall(r"\d+", row["+/-"]))
        n = int(row["found"].split(" of ")[0])
        assert n == fixes.found + rescued - lost, row
        system = re.fullmatch(r"use (docs|chunks) instead", row["change"])
        if system:
            assert n == counts[system[1]]["found"], row
    losses = {cause_words(cause): cause for cause in CAUSES}
    text = (experiment.path / "report.html").read_text(encoding="utf-8")
    groups = re.findall(
        r"<summary>(\d+) questions? of (\S+), (.*?): (?:change|add|mend) .*?</details>", text, re.S
    )
    parts = re.split(r"<summary>\d+ questions? of ", text)[1:]
    assert len(groups) == len(parts) > 0
    for (n, system, reason), part in zip(groups, parts, strict=True):
        queries = re.findall(r"#queries&amp;q=(q\d+)", part.partition("</details>")[0])
        assert int(n) == len(queries)
        if reason in losses:
            causes = {experiment.causes[system][query].cause for query in queries}
            assert causes == {losses[reason]}, reason


def causes_in_markdown(experiment):
    """Return system -> cause -> number of questions, by the table of report.md."""
    text = (experiment.path / "report.md").read_text(encoding="utf-8")
    lines = text.partition("### where answers are lost\n")[2].strip().partition("\n\n")[0]
    heads, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines.split("\n")
    )
    names = {cause_words(cause): cause for cause in CAUSES}
    counts = {}
    for system, *cells in rows:
        # the number, then its share with an interval
        numbers = [int(cell.partition(",")[0]) for cell in cells]
        pairs = zip(heads[1:], numbers, strict=True)
        counts[system] = {names[head]: number for head, number in pairs if number}
    return counts


def check_sentences(experiment):
    """Hold the first line, `explain` and the pages against the causes of each question."""
    causes = experiment.causes
    line = lead(experiment.record, experiment.compared)
    verb = r"(answers|finds) (?:the gold of |all gold of )?"
    pattern = rf"(?:baseline )?(\S+) {verb}(\d+) of (\d+) questions"
    match = re.match(pattern, line)
    assert match, line
    name, verb, n, total = match.groups()
    counts = Counter(loss.cause for loss in causes[name].values())
    assert int(n) == counts["right" if verb == "answers" else "found"], line
    measure = lead_measure(experiment.record, experiment.compared)
    scores = experiment.per_query[name][measure].values()
    n_failed = experiment.record.system(name).causes.get("failed", 0)
    n_judged = sum(value == value for value in scores)
    assert int(total) == n_judged + (n_failed if verb == "answers" else 0), line
    for page in ("report.md", "report.html"):
        text = html.unescape((experiment.path / page).read_text(encoding="utf-8"))
        assert f"{name} {verb} " in text
        assert f"{n} of {total} questions" in text
    explained = run_command("explain", experiment.path, "--format", "json").stdout
    for system in json.loads(explained)["systems"]:
        counts = Counter(loss.cause for loss in causes[system["name"]].values())
        assert {cause: n for cause, n in system["causes"].items() if n} == counts


def check_ranking(world, name, values, causes):
    """Hold the score and the cause of each query of a retriever against plain intervals."""
    check_losses(world, name, causes)
    for row in world.rows:
        query = row["id"]
        assert (causes[query].cause == "found") == (values[query] == 1), query
        if "relevant" in row and world.hits[name, row["question"]] is not None:
            rank = world.met_at(name, row)
            assert (values[query] == 1) == (0 < rank <= world.read), query


def check_losses(world, name, causes):
    """Hold the losses of retrieval of each judged query against plain intervals."""
    for row in world.rows:
        query, cause, hits = row["id"], causes[row["id"]].cause, world.hits[name, row["question"]]
        if "relevant" not in row or hits is None:
            continue
        rank = world.met_at(name, row)
        if cause in ("not_retrieved", "wrong_passage"):
            assert rank == 0, query
        if cause == "ranked_too_low":
            assert rank > world.read, query
        if cause == "wrong_passage":
            documents = {document for need in world.needs(row) for document, _, _ in need}
            assert documents & {document for document, _, _ in hits[: world.read]}, query
