"""The fix list counts what causes and `found` count, also of spans, chunks and gold answers."""

import itertools
import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.runs.run_lines import read_causes
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.types import ScoredDocument
from tests.experiment.moons import write_jsonl

pytestmark = pytest.mark.slow  # real runs

WORDS = ("Io", "Titan", "Europa", "lava", "ice", "orbits", "cold", "hot", "Saturn", "Mars")
N_QUESTIONS = 6


def sentence(rng):
    return " ".join(rng.choices(WORDS, k=4)) + "."


KINDS = ("spans", "documents", "mixture", "answer", "nothing", "declined", "irrelevant")


def gold_of(rng, texts, kind):
    """Gold of a question: spans, documents, alternatives, a mixture, an answer, or nothing."""
    names = rng.sample(sorted(texts), rng.randint(1, 2))
    quotes = [rng.choice(texts[name].split("\n")) for name in names]
    spans = [{"document": n, "quote": q} for n, q in zip(names, quotes, strict=True)]
    if kind == "spans":
        # each document that has a quote is an alternative
        everywhere = [name for name, text in texts.items() if quotes[0] in text]
        spans += [{"document": name, "quote": quotes[0]} for name in everywhere]
        spans = [json.loads(text) for text in dict.fromkeys(map(json.dumps, spans))]
        return {"relevant": [*{s["document"]: 0 for s in spans}], "reference_spans": spans}
    if kind == "mixture":
        return {"relevant": names, "reference_spans": spans[:1], "reference": "the moon Titan"}
    if kind == "documents":
        return {"relevant": names}
    if kind == "irrelevant":
        return {"relevant": dict.fromkeys(names, 0), "reference": quotes[0].rstrip(".")}
    answers = {"answer": quotes[0].rstrip("."), "declined": "I don't know."}
    return {"reference": answers[kind]} if kind in answers else {}


def write_data(rng, folder):
    """Write documents, some of whose sentences stand in several, and questions; return texts."""
    pool = [sentence(rng) for _ in range(7)]
    texts = {f"d{n}.md": "\n".join(rng.sample(pool, rng.randint(1, 4))) for n in range(5)}
    (folder / "docs").mkdir()
    for name, text in texts.items():
        (folder / "docs" / name).write_text(text)
    rows = [
        {"id": f"q{n}", "question": f"{n} {sentence(rng)}", **gold_of(rng, texts, kind)}
        for n, kind in enumerate(rng.choices(rng.sample(KINDS, 3), k=N_QUESTIONS))
    ]
    # a table without any gold is refused
    rows[0] = {"id": "q0", "question": sentence(rng), "relevant": ["d0.md"]}
    write_jsonl(folder / "qa.jsonl", rows)
    return texts


class Store:
    """Hits of own ids: passages with and without a place, whole documents, and failures."""

    def __init__(self, rng, texts):
        self.hits = {}
        for n in range(N_QUESTIONS):
            hits = [self.hit(rng, texts, number) for number in range(rng.randint(0, 7))]
            self.hits[str(n)] = hits if rng.random() < 0.9 else None

    def hit(self, rng, texts, number):
        name = rng.choice(sorted(texts))
        text = rng.choice(texts[name].split("\n"))
        start = texts[name].index(text)
        place = {"start": start, "end": start + len(text)}
        return rng.choice(
            [
                ScoredDocument(f"p{number}", -number, text=text, document=name, metadata=place),
                ScoredDocument(f"p{number}", -number, text=text, document=name),
                ScoredDocument(f"p{number}", -number, text=f"About {text}", document=name),
                ScoredDocument(f"p{number}", -number, text="a text of no document"),
                ScoredDocument(name, -number),
                ScoredDocument(f"p{number}", -number),
            ]
        )

    def __call__(self, question, top_k):
        hits = self.hits[question.split()[0]] if question[0].isdigit() else []
        if hits is None:
            raise RuntimeError("no reply")
        return list({hit.id: hit for hit in hits}.values())


MATCHES = (
    {"level": "id"},
    {"level": "document", "separator": "#"},
    {"level": "text", "overlap": 0.8},
)


def config_of(folder, need, read, match, retrievers):
    return {
        "name": "found",
        "dataset": {"type": "records", "path": str(folder / "qa.jsonl"), "corpus": "docs"},
        "retrievers": retrievers,
        "causes": {"need": need, "read": read},
        "metrics": {"retrieval": {"match": match}},
        "statistics": {"resamples": 100},
        "max_failed": 1.0,
        "output": str(folder / "runs"),
    }


RETRIEVERS = {
    "whole": {"type": "bm25"},
    "tuned": {"type": "bm25", "k1": 3.0, "b": 0.0, "stopwords": "none"},
    "sentences": {"type": "bm25", "chunk": {"by": "sentences", "size": 1}},
    "words": {"type": "bm25", "chunk": {"by": "words", "size": 5, "overlap": 2}},
}


def counts_of(experiment, retriever):
    """(Causes `found`, questions that `found` can judge, failed ones too) of a retriever."""
    rows = read_causes(experiment.path / "causes.csv")[retriever].values()
    scores = experiment.record.system(retriever).scores
    score = next(score for name, score in scores.items() if name.startswith("found"))
    return sum(r.cause == "found" for r in rows), score.n + sum(score.failed.values())


@pytest.mark.costly
@settings(max_examples=4)  # runs of five retrievers
@given(seed=st.integers(0, 10**6), need=st.sampled_from(["any", "all"]), read=st.integers(1, 4))
def test_counts_are_those_of_causes_of_the_measure_and_of_changed_runs(seed, need, read):
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        folder = Path(place)
        patch.chdir(folder)
        patch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
        store = Store(rng, write_data(rng, folder))
        measure = "found(need=all)" if need == "all" else "found"
        match = rng.choice(MATCHES[:1] * 3 + MATCHES[1:])

        def run(read, retrievers=RETRIEVERS):
            config = config_of(folder, need, read, match, retrievers)
            # `found` is there anyhow; each further measure costs a run some milliseconds
            config["metrics"]["retrieval"]["measures"] = ["recall@5"]
            return rb.run_experiment(config, retrievers={"store": store})

        experiment, other = run(read), rng.randint(1, 5)
        changed = run(other)
        fusions = {}
        for name in (*RETRIEVERS, "store"):
            if counts_of(experiment, name)[1] == 0:
                continue
            fixes = list_fixes(RunReader(experiment.path, name))
            column = experiment.per_query[name][f"{measure}@{read}"]
            assert (fixes.found, fixes.of) == counts_of(experiment, name)
            assert fixes.found == [*column.values()].count(1)
            for change in list_fixes(RunReader(experiment.path, name), other).changes:
                is_ranking = change.kind in ("passages", "retriever")
                if is_ranking and change.passages == other != read:
                    expected = counts_of(changed, change.retriever)
                    assert (change.found, change.of) == expected, change.text
                if change.fusion:
                    fusions[f"f{len(fusions)}"] = change
        if fusions:
            entries = {name: change.fusion for name, change in itertools.islice(fusions.items(), 3)}
            fused = run(other, {**RETRIEVERS, **{n: fusion_entry(f) for n, f in entries.items()}})
            for name in entries:
                assert (fusions[name].found, fusions[name].of) == counts_of(fused, name)


def fusion_entry(fusion):
    weights = {"weights": list(fusion.weights)} if fusion.weights else {}
    return {
        "type": "fusion",
        "retrievers": list(fusion.retrievers),
        "method": fusion.method,
        **weights,
    }


IO = "Io has volcanoes. Io is hot. It orbits Jupiter in 42 hours. Io is small."
PLACES = {"quote": "It orbits Jupiter in 42 hours.", "document": "io.md"}


@pytest.fixture
def moons(tmp_path, monkeypatch):
    """A question on a sentence of Io, which only its third sentence answers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/io.md").write_text(IO)
    row = {"id": "q", "question": "Io?", "relevant": ["io.md"], "reference_spans": [PLACES]}
    write_jsonl(tmp_path / "qa.jsonl", [row])
    return tmp_path


@pytest.mark.costly
def test_a_question_without_a_relevant_document_does_not_count(moons):
    # The first line of the run and all changes of the list count the same questions.
    none = {"id": "none", "question": "Moon?", "relevant": {"io.md": 0}, "reference": "Jupiter"}
    write_jsonl(moons / "qa.jsonl", [{"id": "q", "question": "Io?", "relevant": ["io.md"]}, none])
    experiment = run_moons(moons, {"a": {"type": "bm25"}, "b": {"type": "bm25", "b": 0.0}})

    fixes = list_fixes(RunReader(experiment.path))

    assert (fixes.found, fixes.of) == (1, 1)
    assert experiment.record.system("a").scores["found@2"].n == 1
    assert fixes.changes
    assert {change.of for change in fixes.changes} == {1}
    assert not fixes.remaining
    assert fixes.notes[0].endswith("do not count: 1")


def run_moons(folder, retrievers, **stores):
    match = {"level": "id"}
    return rb.run_experiment(config_of(folder, "any", 2, match, retrievers), retrievers=stores)


@pytest.mark.costly
def test_chunkers_are_counted_by_the_passage_that_has_the_quote(moons, assert_message):
    # The three sentences with the word Io come first; the sentence of the quote lacks the word.
    retrievers = {
        "sentences": {"type": "bm25", "chunk": {"by": "sentences", "size": 1}},
        "halves": {"type": "bm25", "chunk": {"by": "sentences", "size": 2}},
    }
    folder = run_moons(moons, retrievers).path

    fixes = list_fixes(RunReader(folder, "sentences"))

    assert (fixes.system, fixes.found, fixes.of) == ("sentences", 0, 1)
    [swap] = [change for change in fixes.changes if change.kind == "retriever"]
    assert (swap.text, swap.found, swap.rescued) == ("use halves instead", 1, ("q",))
    assert_message([note for note in fixes.notes if "fusions" in note])


@pytest.mark.costly
def test_repeats_are_dropped_as_by_a_store_that_drops_them(moons):
    hits = [
        ScoredDocument(f"p{n}", text=text, document="io.md")
        for n, text in enumerate(["Io has volcanoes.", "Io has volcanoes.", PLACES["quote"]])
    ]

    def distinct(question, top_k):
        return list({hit.text: hit for hit in reversed(hits)}.values())[::-1]

    experiment = run_moons(moons, {}, store=lambda question, top_k: hits, distinct=distinct)

    fixes = list_fixes(RunReader(experiment.path, "store"))
    [change] = [change for change in fixes.changes if change.kind == "near_duplicates"]
    assert (fixes.found, fixes.of) == counts_of(experiment, "store") == (0, 1)
    assert (change.found, change.of) == counts_of(experiment, "distinct") == (1, 1)


@pytest.mark.costly
def test_a_file_of_an_older_run_is_named(moons, assert_message):
    folder = run_moons(moons, {"bm25": RETRIEVERS["sentences"]}).path
    (folder / "hits/bm25.jsonl").unlink()

    with pytest.raises(rb.DataError) as error:
        list_fixes(RunReader(folder))
    assert_message(error.value, "TMP/runs/found/RUN/causes.csv")


@pytest.mark.costly
def test_passages_beyond_those_that_are_searched_for_an_answer_are_refused(moons, assert_message):
    write_jsonl(moons / "qa.jsonl", [{"id": "q", "question": "Io?", "reference": "42 hours"}])
    folder = run_moons(moons, {"bm25": RETRIEVERS["sentences"]}).path

    fixes = list_fixes(RunReader(folder))

    assert max(change.passages for change in fixes.changes) == 20
    assert_message(fixes.notes)
    with pytest.raises(rb.OptionError) as error:
        list_fixes(RunReader(folder), 21)
    assert_message(error.value)
