"""Chunkers that read unlike amounts of text are compared within the text of the baseline."""

from dataclasses import replace

import numpy as np
import pytest

import ragbench as rb
from ragbench.data.runs.run_folder import read_comparisons
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.records.causes import EQUAL_TEXT
from ragbench.report.headline import lead, lead_measure, leading_systems
from ragbench.report.layout import lay_out
from ragbench.report.page.front import build_front
from ragbench.report.results import render_terminal
from ragbench.types import ScoredDocument
from tests.commands import run_command

WORDS = 25  # of a document; with its space a word has ten characters
LARGE = 5  # words of a large chunk


def word(document, place):
    return f"w{document:03}x{place:04}"


def document_text(document):
    return " ".join(word(document, place) for place in range(WORDS))


def chunk_hit(document, first, n_words, score):
    text = " ".join(word(document, place) for place in range(first, first + n_words))
    return ScoredDocument(
        f"{document}-{first}-{n_words}", score, text=text, document=f"d{document}"
    )


def ranker(n_words, noise_of, signal):
    """Return a retriever of chunks whose words have noisy scores; the gold word has a signal."""

    def search(question, top_k):
        query = int(question.split()[1])
        scores = noise_of(query).copy()
        scores[query % len(scores), query % WORDS] += signal
        best = scores.reshape(len(scores), -1, n_words).max(axis=2)
        order = np.argsort(-best, axis=None)[:top_k]
        places = zip(*np.unravel_index(order, best.shape), strict=True)
        hits = []
        for rank, (document, chunk) in enumerate(places):
            hits.append(chunk_hit(document, chunk * n_words, n_words, float(-rank)))
        return hits

    return search


@pytest.fixture
def run_world(tmp_path, monkeypatch):
    """Run retrievers over documents of 25 words, each question with one gold word as its quote."""
    monkeypatch.chdir(tmp_path)
    return run_in_folder


def run_in_folder(
    retrievers, n_questions, n_documents, quotes=True, answers=False, generators=None, **config
):
    rows = []
    for query in range(n_questions):
        document = query % n_documents
        row = {"question": f"question {query}", "relevant": f"d{document}"}
        if quotes:
            row["quote"] = word(document, query % WORDS)
        if answers:
            row["reference"] = word(document, query % WORDS)
        rows.append(row)
    documents = {f"d{document}": document_text(document) for document in range(n_documents)}
    return rb.run_experiment(
        {"name": "chunks", **config},
        dataset=rows,
        documents=documents,
        retrievers=retrievers,
        generators=generators,
    )


def noise(seed, n_documents):
    return lambda query: np.random.default_rng((seed, query)).normal(size=(n_documents, WORDS))


def records_of(experiment):
    return experiment.record, read_comparisons(experiment.path)


def first_two(experiment):
    """Return the systems of the first sentence, and whether they surely differ."""
    summary, comparisons = records_of(experiment)
    assert lead_measure(summary, comparisons) == EQUAL_TEXT
    first, second = (system.name for system in leading_systems(EQUAL_TEXT, summary))
    return first, second, comparisons.reading.between(first, second).differs


def hits_in_turn(ranks, n_words):
    """Return a retriever of chunks of other documents, the gold chunk at a rank for each question.

    Without a rank, the gold chunk is no hit.
    """

    def search(question, top_k):
        query = int(question.split()[1])
        hits = []
        for rank in range(1, 8):
            document = query if rank == ranks[query] else 4 + rank
            hits.append(chunk_hit(document, 0 if n_words > 1 else query, n_words, -float(rank)))
        return hits

    return search


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """A finished run of small and large chunks, worked below by hand; no test changes it."""
    small, large = hits_in_turn([1, 6, None, 3], 1), hits_in_turn([1, 2, 1, 6], LARGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("by hand"))
        experiment = run_in_folder({"small": small, "large": large}, 4, 12)
        return replace(experiment, path=experiment.path.resolve())


def test_the_same_text_counts_by_hand(by_hand):
    # 5 words of 9 characters are 45; a chunk of five words with its spaces has 49, five have 245
    summary, comparisons = records_of(by_hand)
    readings = {system.name: system.reading for system in summary.systems}
    assert {name: reading.characters for name, reading in readings.items()} == {
        "small": 45,
        "large": 245,
    }
    # large: questions 0, 1 and 2 in five hits, and 0 and 2 in its first 45 characters
    by_hits = {system.name: system.scores["found@5"].mean for system in summary.systems}
    assert by_hits == {"small": 2 / 4, "large": 3 / 4}
    by_text = {name: reading.score.mean for name, reading in readings.items()}
    assert by_text == {"small": 2 / 4, "large": 2 / 4}
    pair = comparisons.reading.between("large", "small")
    assert (pair.difference, pair.n, pair.n_changed) == (0, 4, 2)


@pytest.mark.parametrize("fails", [False, True])
def test_where_the_baseline_has_no_hits_others_read_its_mean(run_world, fails):
    # Bug: they read nothing there, and failures of the baseline were theirs
    found, large = hits_in_turn([1, 1, 1, 1], 1), hits_in_turn([1, 1, 1, 1], LARGE)

    def base(question, top_k):
        if question in ("question 1", "question 3"):
            if fails:
                raise LookupError("no index")
            return []
        return found(question, top_k)

    experiment = run_world({"base": base, "large": large}, 4, 12, max_failed=1.0)

    readings = {system.name: system.reading.score for system in experiment.record.systems}
    assert (readings["large"].mean, readings["large"].n, readings["large"].failed) == (1.0, 4, {})
    n_failed = sum(readings["base"].failed.values())
    assert (readings["base"].mean, n_failed) == ((1.0, 2) if fails else (0.5, 0))


@pytest.mark.parametrize(
    ("n_words", "n_found"),
    [
        pytest.param(4, 0, id="39 characters end before the fifth word"),
        pytest.param(5, 1, id="49 characters hold it"),
    ],
)
def test_the_last_hit_is_cut_where_the_text_ends(run_world, n_words, n_found):
    # the gold of question 4 is the fifth word of its document, at characters 40 to 49
    retrievers = {
        "base": lambda question, top_k: [chunk_hit(0, 10, n_words, 1.0)],
        "large": lambda question, top_k: [chunk_hit(4, 0, LARGE, 2.0), chunk_hit(0, 0, LARGE, 1.0)],
    }

    experiment = run_world(retrievers, 5, 5)

    _, large = experiment.record.systems
    # the first word of document 0, which is the gold of question 0, is in the second hit
    assert (large.reading.score.mean, large.scores["found@5"].mean) == (n_found / 5, 2 / 5)


def test_about_equal_texts_are_compared_by_hits(run_world):
    retrievers = {
        "four": lambda question, top_k: [chunk_hit(0, 0, 4, 1.0)],
        "five": lambda question, top_k: [chunk_hit(0, 0, 4, 1.0)],
    }

    summary, comparisons = records_of(run_world(retrievers, 5, 5))

    assert [system.reading for system in summary.systems] == [None, None]
    assert comparisons.reading is None
    assert lead_measure(summary, comparisons) == "found@5"


def test_whole_documents_as_gold_cannot_compare_chunks(run_world, assert_message):
    retrievers = {"small": hits_in_turn([1, 1, 1, 1], 1), "large": hits_in_turn([1] * 4, LARGE)}

    experiment = run_world(retrievers, 4, 12, quotes=False)

    summary, comparisons = records_of(experiment)
    readings = {system.name: system.reading for system in summary.systems}
    assert [reading.score for reading in readings.values()] == [None, None]
    assert comparisons.reading is None
    assert lead_measure(summary, comparisons) == "found@5"
    assert_message(lead(summary, comparisons) + "\n" + summary.notes[-1])


def test_a_short_gold_answer_in_its_document_stands_for_a_quote(run_world, assert_message):
    small, large = hits_in_turn([1, 6, None, 3], 1), hits_in_turn([1, 2, 1, 6], LARGE)

    experiment = run_world({"small": small, "large": large}, 4, 12, quotes=False, answers=True)

    summary, comparisons = records_of(experiment)
    found = {system.name: system.reading.score.mean for system in summary.systems}
    assert found == {"small": 2 / 4, "large": 2 / 4}  # as by quotes
    # there, any passage of a gold document counts by hits
    page = lay_out(summary, comparisons)
    [by_hits] = [line for line in page.headlines if "5 hits" in line]
    [note] = [note for note in page.notes if "any chunk" in note]
    title = run_command("explain", str(experiment.path)).stdout.partition("\n")[0]
    assert_message("\n".join((page.lead, by_hits, note, title)))
    heads = build_front(summary, comparisons, page).numbers.heads
    assert heads[:2] == ("gold in equal text", "gold document in the first 5 hits")


def test_chunkers_that_all_find_the_same_gold_are_named_together(run_world, assert_message):
    sizes = {"one": 1, "four": 4, "five": LARGE}
    retrievers = {name: hits_in_turn([1] * 4, size) for name, size in sizes.items()}

    summary, comparisons = records_of(run_world(retrievers, 4, 12))

    page = lay_out(summary, comparisons)
    [by_hits] = [line for line in page.headlines if "5 hits" in line]
    assert_message(f"{page.lead}\n{by_hits}")


def test_the_answers_of_a_system_that_reads_more_have_the_ratio_of_texts(run_world, assert_message):
    retrievers = {"small": hits_in_turn([6] * 4, 1), "large": hits_in_turn([2] * 4, LARGE)}
    generators = {"first": lambda question, contexts: " ".join(c.text for c in contexts)}

    experiment = run_world(retrievers, 4, 12, answers=True, generators=generators)

    summary, comparisons = records_of(experiment)
    readings = {system.name: system.reading.characters for system in summary.systems}
    assert readings["large/first"] / readings["small/first"] == 245 / 45
    assert_message(lead(summary, comparisons))


def test_the_screen_has_equal_text_hits_and_characters(by_hand, assert_message):
    summary, comparisons = records_of(by_hand)

    assert_message(render_terminal(summary, comparisons, verbose=False, run="runs/chunks"))
    [section] = [s for s in lay_out(summary, comparisons).sections if s.kind == "retrieval"]
    assert [measure.name for measure in section.measures][:2] == [EQUAL_TEXT, "found@5"]


def test_fixes_and_causes_have_the_text_that_is_read(by_hand):
    path = by_hand.path

    fixes = list_fixes(RunReader(path))
    ratios = {change.text: change.text_ratio for change in fixes.changes if change.text_ratio}
    assert ratios == {"use large instead": 245 / 45}
    _, row = run_command("fix", str(path)).stdout.split("use large instead")[:2]
    assert "with 5.4 times the text" in row.partition("\n")[0]
    head, first, second = run_command("explain", str(path)).stdout.splitlines()[1:4]
    assert head.endswith("characters read")
    assert (first.split()[-1], second.split()[-1]) == ("45", "245")


def test_the_brief_page_names_equal_text(by_hand):
    summary, comparisons = records_of(by_hand)

    front = build_front(summary, comparisons, lay_out(summary, comparisons))

    assert front.lead == (lead(summary, comparisons),)
    heads = ("gold in equal text", "gold in the first 5 hits", "characters read")
    assert front.numbers.heads == heads
    rows = {name: [number.score.text for number in row] for name, row in front.numbers.rows}
    assert rows == {"small": ["0.500", "0.500", "45"], "large": ["0.500", "0.750", "245"]}


def test_hits_with_less_text_than_the_baseline_are_told(run_world, assert_message):
    small, large = hits_in_turn([None] * 4, 1), hits_in_turn([1, 2, 1, 6], LARGE)
    metrics = {"retrieval": {"top_k": 7}}

    experiment = run_world({"large": large, "small": small}, 4, 12, metrics=metrics)

    notes = [note for note in experiment.record.notes if "top_k" in note]
    assert_message("\n".join(notes))


WORLDS = {
    "the same search in chunks of five words": (3.0, 3.0, "small"),
    "a search that is better in large chunks": (1.5, 6.0, "large"),
}


@pytest.mark.costly
@pytest.mark.parametrize(("signal", "signal_large", "best"), WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("baseline", ["small", "large"])
def test_the_sentence_names_the_chunker_that_is_better_in_equal_text(
    run_world, signal, signal_large, best, baseline
):
    retrievers = {
        "small": ranker(1, noise(1, 8), signal),
        "large": ranker(LARGE, noise(2, 8), signal_large),
    }
    ordered = {baseline: retrievers[baseline], **retrievers}

    # five large chunks have the text of 27 small ones
    scores = {"retrieval": {"top_k": 30, "measures": ["recall@5"]}}

    experiment = run_world(ordered, 100, 8, metrics=scores)

    summary, comparisons = records_of(experiment)
    by_hits = {system.name: system.scores["found@5"].mean for system in summary.systems}
    assert by_hits["large"] > by_hits["small"]  # whatever is better: five times as much text
    first, _, differs = first_two(experiment)
    assert (first, differs) == (best, True)
    assert lead(summary, comparisons).startswith("reading equal text")
    # the baseline reads its first five hits, as before
    [of_baseline] = [s for s in summary.systems if s.name == baseline]
    assert of_baseline.reading.score.mean == of_baseline.scores["found@5"].mean
