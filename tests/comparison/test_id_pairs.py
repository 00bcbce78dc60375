"""Ids of gold and hits in different spellings, through `rb.evaluate` and `rb.evaluate_run`."""

import re
import unicodedata
import warnings
from html import escape

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.comparison.evaluate import evaluate_run_file
from ragbench.comparison.id_pairs import IdPair, QuestionIds, pair_ids
from ragbench.types.byte_ids import TextIds
from ragbench.types.spellings import are_plain

HAS_SPELLING = "may have another spelling in the hits"
MATCHED = "matched one to one with hits of another spelling"


def evaluate(questions):
    """Return the scores and the notes on spellings of (gold ids, hits) of each question."""
    rows = [
        {"question": f"Which {number}?", "relevant": gold, "retrieved": hits}
        for number, (gold, hits) in enumerate(questions)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = rb.evaluate(rows, ["ndcg@10", "recall@5", "mrr"])
    scores = [list(values.values()) for values in result.per_query.values()]
    return scores, [note for note in result.notes if "spelling" in note]


# a question whose ids meet, so that no rule for ids that never meet applies
MEETING = (["met", "Boeing_747"], ["met", "Boeing_747"])


@pytest.mark.parametrize(
    ("gold", "hit"),
    [
        ("90", "090"),
        ("doc-007", "doc-7"),
        ("Straße.md", "strasse.md"),
        ("Gebühren.md", unicodedata.normalize("NFD", "Gebühren.md")),
        ("plan.md", "PLAN.MD"),
        ("plan.md", "docs/plan.md"),
        ("srv/docs/plan.md", "docs\\plan.md"),
        ("plan", "plan.md"),
        ("docs/plan", "plan.pdf"),
        ("my plan.md", "my_plan.md"),
        ("my\u00a0plan.md", "My plan.md"),
        ("plan.md", "plan.md#3"),
        ("plan.md", "plan.md_chunk_12"),
        ("docs/Plan 7.md", "plan_07.md::0"),
    ],
)
def test_one_spelling_of_a_gold_id_is_that_id(gold, hit):
    # The hit is at rank 2, hence a reciprocal rank of 1/2
    scores, notes = evaluate([MEETING, ([gold], ["other", hit])])

    assert scores[2] == [1, 0.5]
    assert len(notes) == 1
    assert notes[0].startswith(f"1 gold id {MATCHED}")


@pytest.mark.parametrize(
    ("gold", "hits"),
    [
        ("doc1", ["doc10", "doc2", "doc"]),
        ("doc-1", ["doc1", "doc-2", "doc-10"]),
        ("1.5", ["1.05", "15", "1.50"]),
        ("v1.10", ["v1.1", "v1.10.0"]),
        ("report", ["report-2023", "reports"]),
        ("report-2023", ["report-2024", "report-1"]),
        ("plan.md", ["plan.pdf", "myplan.md"]),
        ("new/plan.md", ["old/plan.md", "new/plan.pdf"]),
        ("os.path", ["os", "os.walk"]),
        ("plan.md#1", ["plan.md", "plan.md#2"]),
        ("a", []),
        # numbers behind ids of this table are no parts, as an id that meets shows
        ("Apollo", ["Apollo_11"]),
    ],
)
def test_an_honest_miss_has_no_note(gold, hits):
    scores, notes = evaluate([MEETING, ([gold], hits)])

    assert scores[2] == [1, 0]
    assert not notes


@pytest.mark.parametrize(
    ("questions", "gold", "hit"),
    [
        # two hits are like one gold id
        ([(["90"], ["090"]), (["90"], ["0090"])], "90", "090"),
        # a hit is like two gold ids
        ([(["a/plan.md"], ["plan.md"]), (["b/plan.md"], [])], "a/plan.md", "plan.md"),
        ([(["a/plan.md"], ["plan.md"]), (["b/plan.md"], ["b/plan.md"])], "a/plan.md", "plan.md"),
        # the other side has the id in both spellings
        ([(["90"], ["090"]), (["5"], ["5", "90"])], "90", "090"),
        ([(["90"], ["090"]), (["090"], ["090"])], "90", "090"),
        # a document has two chunks
        ([(["a"], ["a#1"]), (["b"], ["b#1"]), (["c"], ["a#2"])], "a", "a#1"),
    ],
)
def test_ids_that_are_not_one_to_one_are_told(questions, gold, hit, assert_message):
    scores, notes = evaluate([MEETING, *questions])

    assert scores[2][1] == 0
    assert len(notes) == 1
    assert_message(notes[0])
    line = 'match: {level: document, separator: "#"}'
    assert (line in notes[0]) == ("#" in hit)


@pytest.mark.parametrize(
    "questions",
    [
        # both sides have both ids
        [(["docs/README.md"], ["README.md"]), (["README.md"], ["docs/README.md"])],
        # a ranking has both ids, and so has the gold of a question
        [(["docs/README.md"], ["README.md"]), (["x"], ["x", "README.md", "docs/README.md"])],
        [(["90"], ["090"]), (["90", "090"], ["090", "1"])],
    ],
)
def test_ids_that_stand_side_by_side_are_two_documents(questions):
    assert not evaluate([MEETING, *questions])[1]


def test_two_documents_of_a_corpus_are_no_spellings_of_one():
    questions = [QuestionIds({"docs/plan.md": 1}, ["plan.md"])]
    pair = IdPair("docs/plan.md", "plan.md")

    assert pair_ids(questions).matched == [pair]
    assert pair_ids(questions, ["docs/plan.md"]).matched == [pair]
    assert not pair_ids(questions, ["docs/plan.md", "plan.md"]).matched
    assert pair_ids(questions, ["docs/plan.md", "old/plan.md"]).unclear == [pair]


@pytest.mark.parametrize("hit", ["7.0", "7.00", "007", "+7.0"])
def test_a_number_in_another_form_is_that_number(hit):
    is_same = hit != "+7.0"

    assert bool(pair_ids([QuestionIds({"7": 1}, [hit])]).matched) == is_same


def test_a_part_of_a_numbered_document_has_one_number_more():
    question_ids = QuestionIds({"doc_2": 1}, ["doc_2"])

    assert pair_ids([question_ids, QuestionIds({"doc_1": 1}, ["doc_1_0"])]).matched
    assert not any(pair_ids([question_ids, QuestionIds({"doc": 1}, ["doc_1"])]))


def test_irrelevant_documents_need_no_hit():
    assert not any(pair_ids([QuestionIds({"90": 0, "5": 1}, ["090", "5"])]))


CHANGES = {
    "case": str.upper,
    "unicode": lambda name: unicodedata.normalize("NFD", name),
    "folder": lambda name: f"/srv/{name}",
    "no folder": lambda name: name.rpartition("/")[2],
    "ending": lambda name: name if name.endswith(".md") else f"{name}.md",
    "no ending": lambda name: name.removesuffix(".md"),
    "blank": lambda name: name.replace("_", " "),
    "hard blank": lambda name: name.replace("_", "\u00a0"),
    "zeros": lambda name: re.sub(r"(?<!\d)(?=\d)", "00", name),
    "point": lambda name: f"{name}.0" if name.isdecimal() else name,
}
PARTS = {"part": lambda name: f"{name}#0", "chunk": lambda name: f"{name}_chunk_3"}
# no id is like another one, though some share names, endings and numbers
NAMES = "7 17 a docs/a_17.md b.md docs/c.md old/c.md é.md docs/ü_7 plan plan-2023 d/e/f"
IDS = st.lists(st.sampled_from(NAMES.split(" ")), min_size=1, unique=True)


@settings(max_examples=20)
@given(st.data())
def test_scores_of_other_spellings_are_those_of_the_table_or_told(data):
    # The oracle is the table with one spelling of each id
    clean = [MEETING, *data.draw(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=5))]
    side = data.draw(st.sampled_from([0, 1]))
    # a hit alone may be a chunk, of one document
    parts = st.lists(st.sampled_from([*PARTS] if side else [None]), max_size=side)
    changes = CHANGES | PARTS
    changed = []
    for question in clean:
        names = data.draw(st.lists(st.sampled_from([*CHANGES]), max_size=2)) + data.draw(parts)
        ids = question[side]
        for name in names if question is not MEETING else ():
            ids = [*map(changes[name], ids)]
        # two files of one name, without their folders, are one id
        assume(len({*ids}) == len(ids))
        changed.append((ids, question[1]) if side == 0 else (question[0], ids))

    scores, notes = evaluate(changed)

    assert any(HAS_SPELLING in note for note in notes) or scores == evaluate(clean)[0]


@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=5))
def test_a_table_of_one_spelling_has_no_note(questions):
    assert not evaluate([MEETING, *questions])[1]


@given(st.lists(st.text("a01.Aé ", min_size=1), min_size=2, max_size=4, unique=True))
def test_plain_ids_have_one_spelling(ids):
    gold, *hits = ids

    assert not are_plain(ids) or not any(pair_ids([QuestionIds({gold: 1}, hits)]))


PLAIN_IDS = ["7", "70", "1.05", "d17", "ug7v899j", "é", ""]


@pytest.mark.parametrize("pack", [list, TextIds.packed], ids=["list", "packed"])
@pytest.mark.parametrize(
    "other", ["07", "7.0", "D17", "a b", "a_b", "a-1", "a/b", "a:1", "a#1", "a.md", "a\\b"]
)
def test_an_id_that_may_have_another_spelling_is_not_plain(pack, other):
    # the last of many: ids are looked at in blocks
    assert are_plain(pack(PLAIN_IDS * 10_000))
    assert not are_plain(pack([*PLAIN_IDS * 10_000, other]))


def test_scores_of_runs_stay_and_tell(tmp_path):
    qrels = {"q1": {"doc1": 1}, "q2": {"doc2": 1}}
    run = {"q1": {"doc1": 1.0}, "q2": {"DOC2": 1.0}}
    path = tmp_path / "my.run"
    path.write_text("q1 Q0 doc1 1 1.0 me\nq2 Q0 DOC2 1 1.0 me\n", encoding="utf-8")

    in_memory = rb.evaluate_run(run, qrels, ["mrr"])
    in_frames = rb.evaluate_run(rb.Run.from_dict(run), rb.Qrels.from_dict(qrels), ["mrr"])
    from_file = evaluate_run_file(path, rb.Qrels.from_dict(qrels), ["mrr"])

    for result in (in_memory, in_frames, from_file):
        assert result.mean["mrr"] == 0.5
        assert any(
            HAS_SPELLING in note and "such as 'doc2' and 'DOC2'" in note for note in result.notes
        )
    assert not rb.evaluate_run(run, {"q1": {"doc1": 1}, "q2": {"doc3": 1}}, ["mrr"]).notes


def test_a_run_without_any_judged_hit_tells(tmp_path, assert_message):
    qrels = {"q1": {"doc1": 1}, "q2": {"doc2": 0, "doc3": 1}}
    run = {"q0": {"doc1": 1.0}, "q1": {}, "q2": {"page": 2.0, "other": 1.0}}
    path = tmp_path / "my.run"
    path.write_text("q0 Q0 doc1 1 1 me\nq2 Q0 page 1 2 me\nq2 Q0 other 2 1 me\n", encoding="utf-8")

    results = [rb.evaluate_run(run, qrels, ["mrr"]), rb.evaluate_run(path, qrels, ["mrr"])]
    with path.open("rb") as stream:
        results.append(evaluate_run_file(stream, rb.Qrels.from_dict(qrels), ["mrr"]))

    notes = [result.notes for result in results]
    assert notes[0] == notes[1]
    assert_message(notes[0])
    # a stream cannot be read again: its note has no example
    assert notes[2][0].startswith("no hit is a judged document:")
    # a judged hit shows that the ids are of one kind, also with grade 0
    judged = {**run, "q2": {"doc2": 1.0}}
    assert not rb.evaluate_run(judged, qrels, ["mrr"]).notes
    assert not rb.evaluate_run({"q1": {}}, qrels, ["mrr"]).notes


@pytest.mark.parametrize("names", [("judged", "empty"), ("empty", "judged")])
def test_a_query_without_a_judgement_is_no_example(names):
    gold = {"judged": {"d": 1}, "empty": {}}
    run = {name: {f"hit-{name}": 1.0} for name in names}

    [note] = rb.evaluate_run(run, {name: gold[name] for name in names}, ["mrr"]).notes

    assert "hit 'hit-judged' where 'd' is judged" in note


def test_a_comparison_has_the_notes_of_its_results(assert_message):
    qrels = {f"q{number}": {f"d{number}": 1} for number in range(6)}
    run = {query: dict.fromkeys(gold, 1.0) for query, gold in qrels.items()}
    spelled = {query: {f"{name}.md": 1.0 for name in gold} for query, gold in qrels.items()}
    foreign = {query: {"x": 1.0} for query in qrels}

    of_runs = rb.compare({"a": run, "b": spelled, "c": foreign}, qrels=qrels, measures=["mrr"])
    results = {}
    for name, ranking in (("a", run), ("b", spelled), ("c", foreign)):
        results[name] = rb.evaluate_run(ranking, qrels, ["mrr"])
    of_results = rb.compare(results)

    assert of_runs.record.notes == of_results.record.notes
    assert_message(of_results.record.notes)
    for note in of_results.record.notes:
        assert f"note: {note}" in str(of_results)
        assert f"<p>note: {escape(note)}</p>" in of_results._repr_html_()
    # notes that all results share have no name
    alike = rb.compare(results["c"], results["c"]).record.notes
    assert alike[0].startswith("no hit is a judged document")
