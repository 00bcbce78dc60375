"""Results of all origins are compared by question and gold, whatever the order of the rows."""

import json
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.runs.run_scores import read_run_scores, write_baseline
from ragbench.testing import ChatServer

CONFIG = {"metrics": {"retrieval": {"measures": ["mrr@10"]}, "generation": ["token_f1"]}}
MEASURES = ("mrr@10", "token_f1")
ORIGINS = ("evaluate", "experiment", "run folder", "baseline", "evaluate_run")
# Part of a row -> the words of the message if it was edited, and the measures that depend on it
EDITS = {
    "question": ("question text differs", MEASURES),
    "relevant": ("judgements differ", ("mrr@10",)),
    "reference": ("gold answers differ", ("token_f1",)),
}
OTHER_VALUES = {"question": "Else?", "relevant": ["d4"], "reference": "something else"}


@pytest.fixture(scope="module", autouse=True)
def work_folder(tmp_path_factory):
    """Run folders and caches of all examples lie in one folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("same_questions"))
        yield


@dataclass(frozen=True)
class QuestionRow:
    """Question with its gold, and what two systems answered and retrieved."""

    id: str
    question: str
    reference: str
    relevant: list[str]
    answers: tuple[str, str]
    rankings: tuple[list[str], list[str]]

    def as_mapping(self, system):
        """Return the row as users pass it, with the answer and passages of one system."""
        contexts = [{"id": name, "text": f"On {name}."} for name in self.rankings[system]]
        return {
            "id": self.id,
            "question": self.question,
            "reference": self.reference,
            "relevant": self.relevant,
            "answer": self.answers[system],
            "contexts": contexts,
        }

    def gain(self, measure):
        """Return the gain of the second system, by the scorers of single texts and lists."""
        if measure == "token_f1":
            first, second = (rb.token_f1(answer, self.reference) for answer in self.answers)
        else:
            first, second = (rb.mrr(hits, self.relevant, k=10) for hits in self.rankings)
        return second - first


WORDS = st.sampled_from(["Io", "Europa", "Io and Europa", "the moon Io", "no moon"])
DOCUMENTS = st.permutations(["d1", "d2", "d3", "d4"])


@st.composite
def tables(draw):
    n = draw(st.integers(6, 20))
    # ids in an order that is not that of the numbers
    names = draw(st.permutations([str(number) for number in range(n)]))
    texts, pairs = st.tuples(WORDS, WORDS), st.tuples(DOCUMENTS, DOCUMENTS)
    relevant = st.sampled_from([["d1"], ["d2", "d3"]])
    return [
        QuestionRow(name, f"On {name}?", draw(WORDS), draw(relevant), draw(texts), draw(pairs))
        for name in names
    ]


def result_of(origin, table, system):
    """Return the scores of a system as a source that `rb.compare` takes."""
    rows = [row.as_mapping(system) for row in table]
    if origin == "evaluate":
        return rb.evaluate(rows, [*MEASURES])
    if origin == "evaluate_run":
        run = {row.id: row.rankings[system] for row in table}
        return rb.evaluate_run(run, {row.id: row.relevant for row in table}, ["mrr@10"])
    experiment = rb.run_experiment(CONFIG, dataset=rows)
    if origin == "baseline":
        file = f"baseline-{experiment.path.name}.json"
        write_baseline(file, read_run_scores(experiment.path))
        return file
    return experiment if origin == "experiment" else experiment.path


def numbers_of(comparison):
    """Return the entries of a comparison without the names of the systems."""
    names = ("system", "baseline")
    return [
        {key: value for key, value in entry.items() if key not in names}
        for entry in comparison.differences
    ]


def shared_measures(*origins):
    return MEASURES[:1] if "evaluate_run" in origins else MEASURES


@settings(max_examples=12)
@given(tables(), st.sampled_from(ORIGINS), st.sampled_from(ORIGINS), st.randoms())
def test_equal_questions_compare_with_the_same_numbers_in_any_order(table, one, other, chance):
    shuffled = [chance.sample(table, len(table)) for _ in range(2)]
    measures = shared_measures(one, other)

    compared, turned = (
        rb.compare(result_of(one, base, 0), result_of(other, run, 1), measures=measures)
        for base, run in [(table, table), shuffled]
    )

    assert numbers_of(turned) == numbers_of(compared)
    entries = {entry["measure"]: entry for entry in compared.differences}
    assert [*entries] == [*measures]
    for measure, entry in entries.items():
        assert entry["n"] == len(table)
        assert entry["difference"] == pytest.approx(np.mean([row.gain(measure) for row in table]))
    unknown = [note for note in compared.record.notes if "questions of" in note]
    assert len(unknown) == ((one == "evaluate_run") != (other == "evaluate_run"))


def test_p_values_and_intervals_are_the_same_in_any_order():
    # With 60 changed questions the p-value is of random flips, which are drawn row by row.
    chance = random.Random(7)
    new = [
        {**row, "answer": f"{row['answer']} or{' else' * chance.randint(0, 5)}"}
        for row in plain_rows(60)
    ]
    base = rb.evaluate(plain_rows(60), ["token_f1"])

    turned_base = rb.evaluate(plain_rows(60)[::-1], ["token_f1"])
    results = [
        rb.compare(base, rb.evaluate(new, ["token_f1"])),
        rb.compare(base, rb.evaluate(new[::-1], ["token_f1"])),
        rb.compare(turned_base, rb.evaluate(new, ["token_f1"])),
    ]

    entries = [numbers_of(result) for result in results]
    assert entries[0] == entries[1] == entries[2]
    assert 0 < entries[0][0]["p_adjusted"] < 1


@settings(max_examples=12)
@given(
    tables(),
    st.sampled_from(ORIGINS),
    st.sampled_from(ORIGINS),
    st.sampled_from([*EDITS]),
    st.data(),
)
def test_edited_questions_and_gold_are_refused_or_left_out(table, one, other, part, data):
    ids = sorted(row.id for row in table)
    edited = data.draw(st.sets(st.sampled_from(ids), min_size=1))
    value = {part: OTHER_VALUES[part]}
    changed = [replace(row, **value) if row.id in edited else row for row in table]
    base = result_of(one, table, 0)
    run = result_of(other, data.draw(st.permutations(changed)), 1)
    measures, (words, dependent) = shared_measures(one, other), EDITS[part]
    # a run of ids has no text
    if (part == "question" and "evaluate_run" in (one, other)) or not {*measures} & {*dependent}:
        assert rb.compare(base, run, measures=measures).record.queries == len(table)
        return

    with pytest.raises(rb.DataError) as refused:
        rb.compare(base, run, measures=measures)

    counts = f"{words} in {len(edited)} of {len(table)} common queries"
    first, *hints = str(refused.value).splitlines()
    assert first.startswith(counts)
    assert all(line.startswith("--intersect compares") for line in hints)
    if 2 * len(edited) <= len(table):
        common = rb.compare(base, run, measures=measures, intersect=True)
        assert [{*queries} for queries in common.record.differing.values()] == [edited]
        unedited = [row for row in table if row.id not in edited]
        for entry in common.differences:
            gains = [row.gain(entry["measure"]) for row in unedited]
            assert entry["difference"] == pytest.approx(np.mean(gains))
    decisions = rb.check_gates(run, f"{dependent[0]} drop > 0.9", baseline=base)
    n_unchanged = len(table) - len(edited)
    if n_unchanged < 0.8 * len(table):
        assert [decision["verdict"] for decision in decisions] == ["undecided"]


def plain_rows(n=30, reference="w{}", answer="w{} and more"):
    """Return rows without passages; every answer has the reference among its words."""
    return [
        {
            "id": str(i),
            "question": f"q{i}?",
            "answer": answer.format(i),
            "reference": reference.format(i),
        }
        for i in range(n)
    ]


def without_ids(rows):
    return [{key: value for key, value in row.items() if key != "id"} for row in rows]


@pytest.mark.parametrize("rows_of", [list, without_ids], ids=["ids", "hashes as ids"])
def test_other_gold_answers_are_refused_and_gates_are_undecided(rows_of, assert_message):
    old = rb.evaluate(rows_of(plain_rows()), ["token_f1"])
    new = rb.evaluate(rows_of(plain_rows(reference="another {}")), ["token_f1"])

    with pytest.raises(rb.DataError) as refused:
        rb.compare(old, new)
    (decision,) = rb.check_gates(new, "token_f1 drop > 0.01", baseline=old)

    (line,) = str(refused.value).splitlines()
    assert_message(line)
    assert decision["verdict"] == "undecided"
    assert decision["refused"]


def test_a_few_other_gold_answers_are_counted_as_edited():
    rows = plain_rows()
    edited = [{**row, "reference": "else"} if row["id"] in ("3", "17") else row for row in rows]
    old, new = (rb.evaluate(table, ["token_f1"]) for table in (rows, edited))

    compared = rb.compare(old, new, intersect=True)

    assert dict(compared.record.differing) == {"answers": ("3", "17")}
    assert [entry["difference"] for entry in compared.differences] == [0.0]
    assert compared.differences[0]["n"] == 28


def test_the_order_of_the_rows_is_no_other_gold(assert_message):
    rows = plain_rows(answer="w{}")

    compared = rb.compare(rb.evaluate(rows, ["token_f1"]), rb.evaluate(rows[::-1], ["token_f1"]))

    assert_message(repr(compared))


def test_other_questions_under_the_same_ids_are_refused(assert_message):
    islands = [{**row, "question": f"Is Java {row['id']} an island?"} for row in plain_rows()]
    old, new = (rb.evaluate(rows, ["exact_match"]) for rows in (plain_rows(), islands))

    with pytest.raises(rb.DataError) as refused:
        rb.compare(old, new)

    (line,) = str(refused.value).splitlines()
    assert_message(line)


def test_a_refused_measure_is_not_among_those_that_can_be_compared():
    # The gold answers are the same words, of other questions.
    rows = plain_rows()
    turned = [
        {**row, "reference": other["reference"]}
        for row, other in zip(rows, rows[::-1], strict=True)
    ]
    old, new = (rb.evaluate(table, ["token_f1"]) for table in (rows, turned))
    assert old.signature == new.signature

    with pytest.raises(rb.DataError) as refused:
        rb.compare(old, new)

    assert "the others can be" not in str(refused.value)


def rubric(guideline):
    return {
        "name": "polite",
        "asks": "answer",
        "needs": ["answer", "reference"],
        "guidelines": [guideline],
        "scale": {1: "bad", 5: "good"},
        "method": "rating",
    }


@pytest.mark.costly
def test_verdicts_compare_by_judge_and_question():
    rows = plain_rows(8)

    def judged(table, model="m1", guideline="Be polite."):
        judge = rb.Judge(model, [rubric(guideline)], base_url=server.url)
        return rb.evaluate(table, ["token_f1"], judge=judge)

    with ChatServer(lambda request: json.dumps({"reasoning": "r", "level": 4})) as server:
        server_judge = {"type": "openai", "model": "m1", "base_url": server.url}
        config = {"metrics": {"judge": {**server_judge, "rubrics": [rubric("Be polite.")]}}}
        experiment = rb.run_experiment(config, dataset=rows)
        turned, other_gold = judged(rows[::-1]), judged(plain_rows(8, "else {}"))
        other_model, other_rubric = judged(rows, "m2"), judged(rows, guideline="Be rude.")

    compared = rb.compare(experiment, turned, measures=["polite"])
    assert [entry["difference"] for entry in compared.differences] == [0.0]
    for result, reason in [
        (other_gold, "gold answers differ in 8 of 8"),
        (other_model, "model is m1 in .* and m2 in b"),
        (other_rubric, "rubric is .* in .* and .* in b"),
    ]:
        with pytest.raises(rb.DataError, match=reason):
            rb.compare(experiment, result, measures=["polite"])


def call_rows(tool):
    """Return rows of which the first two have gold calls of a tool."""
    call = {"name": "find", "arguments": {}}
    return [
        {
            "id": str(i),
            "question": f"q{i}?",
            "answer": "done",
            "reference": "done",
            "tool_calls": [call],
            "expected_tool_calls": [{**call, "name": tool} if i < 2 else call],
        }
        for i in range(10)
    ]


def test_other_gold_tool_calls_are_other_gold(assert_message):
    config = {"metrics": {"generation": ["tool_call_f1", "token_f1"]}}
    old, turned, new = (
        rb.run_experiment(config, dataset=rows)
        for rows in (call_rows("find"), call_rows("find")[::-1], call_rows("search"))
    )

    assert rb.compare(old, turned, measures="tool_call_f1").differences[0]["difference"] == 0
    assert rb.compare(old, new, measures="token_f1").record.queries == 10
    with pytest.raises(rb.DataError) as error:
        rb.compare(old, new, measures="tool_call_f1")
    assert_message(error.value)
    common = rb.compare(old, new, measures="tool_call_f1", intersect=True)
    assert dict(common.record.differing) == {"tool_calls": ("0", "1")}


def test_a_question_that_is_now_marked_as_unanswerable_is_edited(assert_message):
    # The reply that was wrong is right by the mark alone.
    rows = [{**row, "answer": "I do not know.", "answerable": True} for row in plain_rows(10)]
    marked = [{**row, "answerable": row["id"] != "4"} for row in rows]
    old, new = (rb.evaluate(table, ["right"]) for table in (rows, marked))
    assert new.per_query["right"]["4"] > old.per_query["right"]["4"]

    with pytest.raises(rb.DataError) as error:
        rb.compare(old, new)
    assert_message(error.value)
    assert rb.compare(old, new, intersect=True).differences[0]["difference"] == 0


@pytest.mark.parametrize("name", ["bleu.corpus", "token_f1", "answer_hit@3", "found@3"])
def test_signatures_do_not_depend_on_the_order_of_the_rows(name):
    rows = [{**row, "contexts": [row["answer"]]} for row in plain_rows(12)]
    config = {"metrics": {"retrieval": {"measures": ["answer_hit@3", "found@3"]}}}
    config["metrics"]["generation"] = ["token_f1", "bleu.corpus"]
    shuffled = random.Random(1).sample(rows, len(rows))

    first, second = (
        read_run_scores(rb.run_experiment(config, dataset=table).path).systems["given"]
        for table in (rows, shuffled)
    )

    assert first.columns[name].signature == second.columns[name].signature


def test_right_is_compared_after_a_new_question_where_a_judge_decides_some():
    # The judge decides the questions without a gold answer; it has judged one more of them.
    rows = [{**row, "contexts": [row["answer"]]} for row in plain_rows(8)]
    rows = [row if int(row["id"]) % 2 else {**row, "reference": None} for row in rows]
    judge = {"type": "python:tests.words:context_overlap"}
    config = {"metrics": {"judge": judge}, "causes": {"supported": {"measure": "context_overlap"}}}
    old, new = (rb.run_experiment(config, dataset=table) for table in (rows[:6], rows))
    assert "supported:" in str(
        read_run_scores(old.path).systems["given"].columns["right"].signature
    )

    compared = rb.compare(old, new, measures="right", intersect=True)

    assert compared.record.queries == 6
    assert dict(compared.record.left_out) == {str(new.path): 2}


def test_runs_of_one_second_that_draw_the_same_digits_have_folders_of_their_own(monkeypatch):
    digits = iter(["07e2", "07e2", "c5b1"])
    monkeypatch.setattr("secrets.token_hex", lambda n: next(digits))
    monkeypatch.setattr("time.strftime", lambda form, moment=None: "20260721-084205")
    ranking = ["d1", "d2"]
    table = [
        QuestionRow(n, f"On {n}?", "Io", ["d1"], ("Io", "Io"), (ranking, ranking)) for n in "123"
    ]
    rows = [row.as_mapping(0) for row in table]

    folders = [rb.run_experiment(CONFIG, dataset=rows).path.name for _ in range(2)]

    assert folders == ["20260721-084205-07e2", "20260721-084205-c5b1"]
