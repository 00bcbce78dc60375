"""Published sets of judged answers, as published: labels, passages and units by hand."""

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.data.files.judged_forms import JUDGED_FORMS
from ragbench.data.files.judged_qrels import read_judged_qrels, sort_trec_files
from ragbench.data.files.judged_rows import read_judged_rows
from ragbench.data.loaders.records import Records
from ragbench.errors import DataError, OptionError
from tests.data import judged_sets as sets

LONGEST = 200  # characters of a message, without the path of the file


def read(tmp_path, *tables, **columns):
    """Return the rows of tables, written as JSON lines."""
    files = [sets.write_jsonl(tmp_path / f"{n}.jsonl", table) for n, table in enumerate(tables)]
    return read_judged_rows(files, columns)


def labels_of(rows):
    return [row.entry.values["label"] for row in rows.rows]


def test_aggrefact_has_a_claim_and_its_document_but_no_question(tmp_path):
    rows = read(tmp_path, sets.AGGREFACT)
    assert rows.form == "LLM-AggreFact"
    assert labels_of(rows) == ["supported", "unsupported", "unsupported"]
    first, second, third = rows.rows
    assert (first.question, first.contexts, first.answer) == (
        None,
        [sets.DOC],
        "It opened in 1932.",
    )
    # claims about one document are one unit
    assert first.unit == second.unit != third.unit
    assert [row.id for row in rows.rows] == ["row-1", "row-2", "row-3"]


def test_aggrefact_in_csv_has_labels_as_texts(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("dataset,doc,claim,label\nX,It is red.,Red.,1\nX,It is red.,Blue.,0\n")
    rows = read_judged_rows([path], {})
    assert labels_of(rows) == ["supported", "unsupported"]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_ragtruth_joins_its_two_files_in_any_order(tmp_path, is_reversed):
    tables = [sets.RESPONSES, sets.SOURCES][:: -1 if is_reversed else 1]
    rows = read(tmp_path, *tables)
    assert labels_of(rows) == ["supported", "unsupported", "supported", "supported"]
    assert [(row.system, row.id) for row in rows.rows] == [
        ("gpt-4", "7"),
        ("llama", "7"),
        ("gpt-4", "8"),
        ("llama", "9"),
    ]
    question, summary, data = rows.rows[0], rows.rows[2], rows.rows[3]
    assert (question.question, question.contexts) == ("When?", [sets.DOC, "No."])
    assert (summary.question, summary.contexts) == (None, ["Ceres is small."])
    assert json.loads(data.contexts[0]) == {"name": "Subway", "stars": 3.0}


def test_faithbench_counts_the_worst_annotation_and_silence_as_support(tmp_path):
    # none; Benign alone; Benign and Questionable; Unwanted
    rows = read(tmp_path, sets.FAITHBENCH)
    assert labels_of(rows) == ["supported", "supported", "unsupported", "unsupported"]
    # who annotated some sample has read all of them
    yes, no = "supported", "unsupported"
    assert [row.raters for row in rows.rows] == [
        {"ann": yes, "bob": yes},
        {"ann": yes, "bob": yes},
        {"ann": yes, "bob": no},
        {"ann": yes, "bob": no},
    ]
    assert [row.system for row in rows.rows] == ["model/0", "model/1"] * 2
    assert len({row.unit for row in rows.rows}) == 1


def test_a_rater_of_less_than_a_tenth_of_a_file_has_not_read_it(tmp_path):
    rows = sets.copy_of([sets.FAITHBENCH[0]] * 21)
    for number, row in enumerate(rows):
        row["sample_id"] = number
        spoken = ["often"] * (number < 3) + ["once"] * (number == 0)
        row["annotations"] = [{"annotator": name, "label": ["Unwanted"]} for name in spoken]
    table = read(tmp_path, rows)
    assert [row.raters for row in table.rows][2:4] == [
        {"often": "unsupported"},
        {"often": "supported"},
    ]


def test_batches_of_faithbench_keep_their_ids_apart(tmp_path):
    rows = read(tmp_path, sets.FAITHBENCH, sets.FAITHBENCH)
    assert [row.id for row in rows.rows] == [f"{f}-{n}" for f in range(2) for n in range(4)]


def test_faithbench_as_one_object_with_samples(tmp_path):
    path = tmp_path / "batch_1.json"
    path.write_text(json.dumps({"samples": sets.FAITHBENCH}))
    rows = read_judged_rows([path], {})
    assert (rows.form, len(rows.rows)) == ("FaithBench", 4)


def test_ragbench_reads_the_flag_of_adherence(tmp_path):
    rows = read(tmp_path, sets.RAGBENCH)
    assert labels_of(rows) == ["supported", "unsupported", "supported"]
    row = rows.rows[0]
    assert (row.question, row.contexts, row.system) == ("When?", [sets.DOC, "No."], "gpt-3.5")


def test_pairs_have_the_preferred_answer_first(tmp_path):
    rows = read(tmp_path, sets.JUDGEBENCH)
    assert rows.are_pairs
    assert [(row.answer, row.other) for row in rows.rows] == [
        ("In 1932.", "In 1942."),
        ("In 1942.", "In 1932."),
        ("In 1932.", "In 1942."),
    ]
    contextual = read(tmp_path, sets.CONTEXTUAL).rows[0]
    assert (contextual.contexts, contextual.answer, contextual.other) == (
        [sets.DOC],
        "In 1932.",
        "In 1942.",
    )


def test_ids_of_contextualjudgebench_are_those_of_questions(tmp_path):
    other = {**sets.CONTEXTUAL[0], "negative_response": "Never."}
    rows = read(tmp_path, [sets.CONTEXTUAL[0], other])
    assert [(row.id, row.unit) for row in rows.rows] == [("q0", "q0"), ("q0-2", "q0")]


@pytest.mark.parametrize("name", ["LLM-AggreFact", "FaithBench", "JudgeBench", "RewardBench 2"])
def test_a_set_for_judges_is_no_data_set_of_questions(tmp_path, assert_message, name):
    path = sets.write_jsonl(tmp_path / "set.jsonl", sets.SETS[name])
    with pytest.raises(DataError) as caught:
        Records(path=path).load()
    assert_message(caught.value, "TMP/set.jsonl")


def test_named_columns_read_a_set_for_judges_as_questions(tmp_path):
    path = sets.write_jsonl(tmp_path / "set.jsonl", sets.CONTEXTUAL)
    columns = {"id": "question_id", "question": "question", "reference": "positive_response"}
    assert len(Records(path=path, columns=columns).load().queries) == 2


def test_a_folder_of_tables_is_no_file_of_trec(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    sets.write_jsonl(folder / "test.jsonl", sets.AGGREFACT)
    assert sort_trec_files([folder]) is None
    assert len(read_judged_rows([folder], {}).rows) == 3


def test_each_chosen_answer_of_rewardbench_meets_each_rejected_one(tmp_path):
    rows = read(tmp_path, sets.REWARDBENCH)
    assert [(row.id, row.answer, row.other) for row in rows.rows] == [
        ("r0-1-1", "In 1932.", "In 1942."),
        ("r0-1-2", "In 1932.", "Never."),
        ("r1-1-1", "1932", "In 1952."),
        ("r1-2-1", "In 1932.", "In 1952."),
    ]
    assert len({row.unit for row in rows.rows}) == 2


def test_another_table_needs_a_column_of_labels(tmp_path, assert_message):
    rows = [{"id": "a", "answer": "Io.", "human": 4}, {"id": "b", "answer": "Mars.", "human": 1}]
    table = read(tmp_path, rows, label=["human"])
    assert table.label_columns == ("human",)
    assert [row.answer for row in table.rows] == ["Io.", "Mars."]
    with pytest.raises(DataError) as caught:
        read(tmp_path, rows)
    assert_message(caught.value, "TMP/0.jsonl:1")


def test_several_judged_passages_of_a_query_stand_apart(tmp_path):
    rows = [{"query_id": "q", "answer": name, "label": 1} for name in ("d1", "d2", "d3")]
    table = read(tmp_path, rows)
    assert [row.id for row in table.rows] == ["q", "q-2", "q-3"]
    assert {row.unit for row in table.rows} == {table.rows[0].unit}
    with pytest.raises(DataError):
        read(tmp_path, [*rows, rows[0]])


def test_one_file_of_ragtruth_names_the_other(tmp_path, assert_message):
    with pytest.raises(DataError) as caught:
        read(tmp_path, sets.RESPONSES)
    assert_message(caught.value, "TMP/0.jsonl:1")
    with pytest.raises(DataError) as caught:
        read(tmp_path, sets.RESPONSES, sets.SOURCES[1:])
    assert_message(caught.value, "TMP/0.jsonl:1")


@given(n=st.integers(1, 60), seed=st.integers(0, 5), share=st.floats(0, 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_draw_has_each_label_to_within_one_row_of_its_share(tmp_path, n, seed, share):
    rows = []
    for number in range(60):
        label = int(number < 60 * share)
        rows.append({"doc": f"{number}", "claim": "It is.", "label": label})
    table = read(tmp_path, rows)
    drawn = table.draw(n, seed)
    assert len(drawn.rows) == n
    assert len({row.id for row in drawn.rows}) == n
    assert [row.id for row in drawn.rows] == [row.id for row in table.draw(n, seed).rows]
    total, part = Counter(labels_of(table)), Counter(labels_of(drawn))
    for label, count in total.items():
        assert abs(part[label] - n * count / 60) <= 1


def test_a_draw_of_no_row_is_refused(tmp_path):
    with pytest.raises(OptionError):
        read(tmp_path, sets.AGGREFACT).draw(0, 1)


def edits_of(name, rows):
    """Yield (name of the edit, edited rows) for a set: keys, types, ids and labels."""
    form = next(form for form in JUDGED_FORMS if form.name == name)
    keys = dict.fromkeys(key.partition(".")[0] for key in form.keys)
    keys |= dict.fromkeys(column.partition(".")[0] for column in form.columns.values())
    for place in (0, len(rows) - 1):
        for key in keys:
            if key not in rows[place]:
                continue
            for label, value in (("number", 1.5), ("object", {"a": 1}), ("null", None)):
                edited = sets.copy_of(rows)
                edited[place][key] = value
                yield f"{key} of row {place} is a {label}", edited
            edited = sets.copy_of(rows)
            del edited[place][key]
            yield f"row {place} without {key}", edited
    yield "a repeated row", [*rows, rows[0]]
    yield "no row", []


@pytest.mark.parametrize("name", sets.SETS)
def test_an_edited_set_is_read_or_gives_one_clear_line(tmp_path, name):
    for edit, rows in edits_of(name, sets.SETS[name]):
        try:
            table = read(tmp_path, rows)
        except DataError as error:
            text = str(error).replace(str(tmp_path), "")
            assert "\n" not in text, edit
            assert len(text) <= LONGEST, edit
            assert "0.jsonl" in text, edit
        else:
            # what is read has an answer and, without a pair, a label
            assert all(row.answer is not None for row in table.rows), edit
            assert table.are_pairs or table.label_columns, edit


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([{**sets.AGGREFACT[0], "label": 2}], "1"),
        ([sets.AGGREFACT[0], {**sets.AGGREFACT[1], "label": "maybe"}], "2"),
        ([sets.JUDGEBENCH[0], {**sets.JUDGEBENCH[1], "label": "A=B"}], "2"),
        ([{**sets.RAGBENCH[0], "adherence_score": "partly"}], "1"),
        (
            [
                sets.FAITHBENCH[0],
                {**sets.FAITHBENCH[1], "annotations": [{"annotator": "a", "label": ["Odd"]}]},
            ],
            "2",
        ),
        ([sets.RAGBENCH[0], sets.RAGBENCH[0]], "2"),
        ([sets.FAITHBENCH[0], sets.FAITHBENCH[0]], "2"),
        ([{**sets.REWARDBENCH[0], "chosen": "In 1932."}], "1"),
    ],
)
def test_an_unknown_label_and_a_repeated_id_name_their_line(tmp_path, assert_message, rows, place):
    with pytest.raises(DataError) as caught:
        read(tmp_path, rows)
    assert_message(caught.value, f"TMP/0.jsonl:{place}")


QRELS = ["q1 0 d1 3", "q1 0 d2 0", "q2 0 d1 -2"]


def test_qrels_are_pairs_of_query_and_document(tmp_path):
    path = tmp_path / "a.qrels"
    path.write_text("\n".join(QRELS))
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 2.5 a\n")
    files = sort_trec_files([path, tmp_path / "a.run"])
    assert (files.qrels, files.runs) == ([path], [tmp_path / "a.run"])
    questions, texts = {"q1": "When?", "q2": "Where?"}, {"d1": "In 1932.", "d2": " "}
    rows, n_without = read_judged_qrels(path, texts, questions)
    pairs = [(row.id, row.unit, row.question, row.contexts) for row in rows.rows]
    assert pairs == [
        ("q1/d1", "q1", "When?", ["In 1932."]),
        ("q2/d1", "q2", "Where?", ["In 1932."]),
    ]
    assert [row.entry.values["grade"] for row in rows.rows] == [3, 0]
    assert n_without == 1  # the text of d2 is blank


def edited_qrels():
    """Yield edits of a line of qrels: fields taken away or added, grades that are none."""
    for place, line in enumerate(QRELS):
        fields = line.split()
        for edit in (fields[:3], [*fields, "x"], [*fields[:3], "high"], [*fields[:3], "1.5"], []):
            lines = [*QRELS[:place], " ".join(edit), *QRELS[place + 1 :]]
            yield pytest.param(lines, id=f"line {place + 1}: {' '.join(edit)}")
        yield pytest.param([*QRELS, line], id=f"line {place + 1} repeated")
    yield pytest.param(["# a comment"], id="a comment alone")
    yield pytest.param(["q3 0 d9 1"], id="a query that is unknown")


@pytest.mark.parametrize("lines", [*edited_qrels()])
def test_edited_qrels_are_read_or_give_one_clear_line(tmp_path, lines):
    path = tmp_path / "a.qrels"
    path.write_text("\n".join(lines))
    try:
        if sort_trec_files([path]) is not None:
            rows, _ = read_judged_qrels(path, {"d1": "In 1932."}, {"q1": "When?", "q2": "Where?"})
            assert rows.rows
        else:
            read_judged_rows([path], {})
    except DataError as error:
        text = str(error).replace(str(tmp_path), "")
        assert "\n" not in text
        assert len(text) <= LONGEST
        assert "a.qrels" in text
