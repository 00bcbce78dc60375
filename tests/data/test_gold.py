"""Gold documents of records: ids in any usual writing, grades, and quoted passages."""

import csv
import io
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.files.gold import DocumentNames, QuotedPassages
from ragbench.data.loaders.records import Records
from ragbench.types import Document

TEXTS = {
    "docs/venus/venera 13.md": "# Venera 13\n\nIt worked for 127 minutes, on the surface of Venus.",
    "docs/venus/maps.txt": "Radar looks through clouds.\nIt mapped most of Venus from orbit.",
    "docs/moon/maps.txt": "The far side of the Moon was unknown until a probe took pictures of it.",
    "docs/io.md": "Io has volcanoes, and it mapped most of Venus from orbit too.",
}
VENERA, RADAR, FAR, IO = "venus/venera%2013.md", "venus/maps.txt", "moon/maps.txt", "io.md"


@pytest.fixture
def load(write, tmp_path):
    """Load rows in some format beside the folder of documents."""
    for name, text in TEXTS.items():
        write(name, text)

    def loaded(rows, suffix=".jsonl", columns=None, corpus="docs"):
        rows = [{"question": f"{n}?", **row} for n, row in enumerate(rows)]
        path = tmp_path / f"qa{suffix}"
        if suffix == ".csv":
            stream = io.StringIO(newline="")
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
            write("qa.csv", stream.getvalue())
        elif suffix == ".json":
            write("qa.json", json.dumps(rows))
        elif suffix == ".parquet":
            pyarrow = pytest.importorskip("pyarrow")
            parquet = pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        else:
            write("qa.jsonl", rows)
        place = None if corpus is None else tmp_path / corpus
        return Records(path=path, columns=columns, corpus=place).load()

    return loaded


def grades(collection):
    return list(collection.qrels.to_dict().values())


@pytest.mark.parametrize(
    "ids",
    [
        f"{VENERA};{IO}",
        f"{VENERA} | {IO}",
        f"{VENERA}\n{IO}",
        "venus/venera 13.md, io.md",
        f'["{VENERA}", "{IO}"]',
        f"['{VENERA}', '{IO}']",
        f"['{VENERA}'\n '{IO}']",
        f"[{VENERA}, {IO}]",
        f'{{"{VENERA}": 1, "{IO}": 1}}',
        "venus/venera 13; io",
        "Venera 13|io.md",
        "VENUS/Venera 13.MD|Io",
        "docs/venus/venera 13.md;./io.md",
        "venus\\venera 13.md;io.md;io",
    ],
)
def test_ids_in_any_usual_writing(load, ids):
    for suffix in (".csv", ".jsonl", ".json"):
        assert grades(load([{"relevant": ids}], suffix)) == [{VENERA: 1, IO: 1}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([VENERA, "io"], {VENERA: 1, IO: 1}),
        ([{"id": VENERA, "grade": 3}, {"id": "io"}], {VENERA: 3, IO: 1}),
        ({"io": 2, VENERA: 0}, {IO: 2, VENERA: 0}),
        ("io", {IO: 1}),
    ],
)
def test_lists_and_objects(load, value, expected):
    assert grades(load([{"relevant": value}])) == [expected]
    if isinstance(value, list):
        assert grades(load([{"relevant": value}], ".parquet")) == [expected]


@pytest.mark.parametrize(
    ("relevant", "graded", "expected"),
    [
        ("io; venera 13", "2; 1", {IO: 2, VENERA: 1}),
        ("io; venera 13", "[2, 0]", {IO: 2, VENERA: 0}),
        ("io", "3", {IO: 3}),
        ("io; venera 13", '{"io": 2.0}', {IO: 2, VENERA: 1}),
        ('{"io": 3, "venera 13": 2}', '{"io": 1}', {IO: 1, VENERA: 2}),
        ('{"io": 3, "venera 13": 2}', "", {IO: 3, VENERA: 2}),
    ],
)
def test_grades(load, relevant, graded, expected):
    row = {"relevant": relevant, "grades": graded}

    assert grades(load([row], ".csv")) == [expected]


def test_rows_without_gold_are_counted_and_repeated_ids_too(load, assert_message):
    collection = load([{"relevant": "io.md;io"}, {"relevant": ""}, {"relevant": "nan"}], ".csv")

    assert grades(collection) == [{IO: 1}]
    assert_message(collection.notes)


def test_what_the_corpus_lacks_keeps_its_place(load):
    collection = load([{"relevant": "io"}, {"relevant": "ioo.md; x"}], ".csv")

    assert {name: place.rpartition("/")[2] for name, place in collection.gold_places.items()} == {
        "ioo.md": "qa.csv line 3",
        "x": "qa.csv line 3",
    }


@pytest.mark.parametrize(
    ("row", "place"),
    [
        # a truth value
        (
            {"relevant": True},
            "qa.jsonl:2: column 'relevant'",
        ),
        (
            {"relevant": ["io", {"id": "x"}]},
            "qa.jsonl:2: column 'relevant'",
        ),
        ({"relevant": ["io", None]}, "qa.jsonl:2: column 'relevant'"),
        # two ids for one grade
        (
            {"relevant": {"id": "io.md;io"}},
            "qa.jsonl:2: column 'relevant'",
        ),
        ({"relevant": '["io"'}, "qa.jsonl:2: column 'relevant'"),  # not closed
        # two documents fit
        (
            {"relevant": "maps.txt"},
            "qa.jsonl:2: column 'relevant'",
        ),
        # one document, two spellings, two grades
        ({"relevant": {"io": 1, "io.md": 2}}, "qa.jsonl:2: column 'relevant'"),
        ({"relevant": {"io": 0.5}}, "qa.jsonl:2: column 'relevant'"),
        # a grade is missing
        (
            {"relevant": ["io", "venera 13"], "grades": [1]},
            "qa.jsonl:2: column 'grades'",
        ),
        ({"relevant": "io", "grades": "good"}, "qa.jsonl:2: column 'grades'"),
    ],
)
def test_bad_gold_is_named(load, problem, row, place, assert_message):
    assert_message(problem(lambda: load([{"relevant": "io"}, row])), place)


def test_a_named_column_without_any_gold(load, problem, assert_message):
    rows = [{"gold": ""}, {"gold": ""}]

    assert_message(problem(lambda: load(rows, ".csv", {"relevant": "gold"})), "qa.csv: gold")


def test_likely_columns_are_gold_where_the_corpus_knows_them(load):
    rows = [{"source": "io"}, {"source": "venera 13.md"}, {"source": "lost"}]

    assert grades(load(rows)) == [{IO: 1}, {VENERA: 1}, {"lost": 1}]
    assert load(rows, corpus=None).qrels is None
    assert load([{"source": "web"}, {"source": "io"}, {"source": "wiki"}]).qrels is None


def test_ids_without_a_corpus_are_taken_as_they_are(load):
    rows = [{"relevant": "a b; c", "contexts": [{"id": "c", "text": "t"}]}]

    collection = load(rows, corpus=None)

    assert grades(collection) == [{"a%20b": 1, "c": 1}]
    assert collection.gold_places == {}


def test_rows_of_systems_must_agree_on_gold(load, problem):
    rows = [
        {"id": "q", "question": "a?", "system": name, "answer": "x", "relevant": gold}
        for name, gold in (("s", "io"), ("t", ["io.md"]), ("u", "venera 13"))
    ]

    assert grades(load(rows[:2])) == [{IO: 1}]
    expected = (
        "qa.jsonl:3: 'q' has other gold documents at line 1 than here, where the question is 'a?'"
    )
    assert problem(lambda: load(rows)).startswith(expected)


def test_quotes_are_found_in_the_corpus(load, assert_message):
    rows = [
        {"reference_contexts": ["IT WORKED for 127 minutes"]},
        {"reference_contexts": "<1-hop>\n\nradar looks through\nclouds"},
        {"reference_contexts": ["it mapped most of Venus from orbit"]},
        {"reference_contexts": ["The far side of the Moon was unknown to any probe"]},
        {"reference_contexts": ["worked for 127 hours"]},
        {"reference_contexts": ["volcanoes", "nowhere at all"]},
    ]

    collection = load(rows)

    # the third quote stands in two documents, none of which the row names: its question has no gold
    assert grades(collection) == [{VENERA: 1}, {RADAR: 1}, {IO: 1}]
    assert [*collection.ambiguous_gold.values()] == [[IO, RADAR]]
    assert_message(collection.warnings)


def test_a_long_quote_with_an_error_is_placed_and_counted(load):
    quote = TEXTS["docs/moon/maps.txt"].replace("pictures", "photographs") + " Yes."
    collection = load([{"reference_contexts": quote.replace("photographs of", "pictures of")}])

    assert grades(collection) == [{FAR: 1}]
    assert any("1 of them not word for word" in note for note in collection.notes)


def test_quotes_that_all_are_lost_are_an_error(load, problem, assert_message):
    assert_message(
        problem(lambda: load([{"reference_contexts": "not there"}])), "qa.jsonl: reference_contexts"
    )


@settings(max_examples=30)
@given(st.data())
def test_any_part_of_a_document_is_placed_there(data):
    words = st.lists(st.sampled_from(["io", "venus", "moon", "a", "漢字", "x1"]), min_size=1)
    texts = data.draw(st.lists(words.map(" ".join), min_size=1, max_size=4))
    number = data.draw(st.integers(0, len(texts) - 1))
    chosen = texts[number].split()
    start = data.draw(st.integers(0, len(chosen) - 1))
    quote = " ".join(chosen[start : data.draw(st.integers(start + 1, len(chosen)))])
    documents = [Document(str(n), text) for n, text in enumerate(texts)]

    span, exactly = QuotedPassages([quote], documents).place(quote)

    assert str(number) in span
    assert exactly
    padded = [f" {' '.join(text.replace('漢字', '漢 字').split())} " for text in texts]
    line = f" {quote.replace('漢字', '漢 字')} "
    assert span == [str(n) for n, text in enumerate(padded) if line in text]


@given(st.lists(st.text("ab./ ", min_size=1, max_size=6), unique=True))
@example(["..a"])
def test_an_id_always_means_itself(ids):
    names = DocumentNames([Document(name) for name in ids])

    assert all(names.resolve(name) == [name] for name in ids if name == name.strip())


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("7", ["007"]),
        ("7.0", ["007"]),
        ("PLAN_07", ["docs/my%20plan/Plan%207.md"]),
        ("docs/my_plan/plan 7.md", ["docs/my%20plan/Plan%207.md"]),
        ("8", ["08.md", "docs/8.txt"]),
        ("17", []),
    ],
)
def test_zeros_blanks_and_case_are_no_difference_of_names(spelling, expected):
    ids = ["007", "docs/my%20plan/Plan%207.md", "08.md", "docs/8.txt"]

    assert DocumentNames([Document(name) for name in ids]).resolve(spelling) == expected


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_a_row_for_each_gold_document(load, suffix, assert_message):
    rows = [
        {"question": "Which?", "reference": "Io", "relevant": "io.md"},
        {"question": "Which?", "reference": "Io", "relevant": "moon/maps.txt"},
        {"question": "Which?", "reference": "Io", "relevant": "io.md"},
        {"question": "Who?", "reference": "", "relevant": "io.md"},
        {"question": "Who?", "reference": "Ann", "relevant": "io.md"},
    ]

    collection = load(rows, suffix)

    assert grades(collection) == [{IO: 1, FAR: 1}, {IO: 1}]
    assert list(collection.answers.values()) == [["Io"], ["Ann"]]
    assert not collection.recorded_answers
    assert_message(collection.notes)


def test_a_row_for_each_judgement_with_its_grade(load, problem, assert_message):
    rows = [
        {"query_id": "q1", "question": "Which?", "doc_id": "io.md", "relevance": "2"},
        {"query_id": "q1", "question": "Which?", "doc_id": "moon/maps.txt", "relevance": "0"},
    ]

    assert grades(load(rows, ".csv")) == [{IO: 2, FAR: 0}]
    again = {**rows[0], "relevance": "1"}
    assert_message(problem(lambda: load([*rows, again], ".csv")), "qa.csv:4: 'q1'")


def test_one_question_with_two_gold_answers_is_told_with_its_text(load, problem, assert_message):
    rows = [{"question": "Who?", "reference": name, "relevant": "io.md"} for name in ("Ann", "Bo")]

    message = problem(lambda: load(rows))

    assert_message(message, "qa.jsonl:2")


def test_a_question_may_have_several_ids(load):
    rows = [
        {"id": name, "question": "Which?", "relevant": document}
        for name, document in (("1", "io.md"), ("2", "moon/maps.txt"))
    ]

    assert grades(load(rows)) == [{IO: 1}, {FAR: 1}]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (r"C:\Users\me\docs\venus\venera 13.md", VENERA),
        ("/home/me/docs/io.md", IO),
        ("file:///srv/docs/venus/maps.txt", RADAR),
        ("../elsewhere/venus/maps.txt", RADAR),  # the folder had another name there
        ("/home/me/docs/venus/nowhere.md", None),
        ("/home/me/docs/mars/io.md", None),  # within the folder, but not there
        ("mars/io.md", None),
    ],
)
def test_absolute_paths_are_known_by_their_end(path, expected):
    documents = [Document(name, "text") for name in (VENERA, RADAR, FAR, IO)]

    assert DocumentNames(documents, "docs").resolve(path) == ([expected] if expected else [])


@pytest.mark.parametrize("key", ["is_relevant", "relevant", "label"])
@pytest.mark.parametrize("values", [(False, True), (0, 1)])
def test_flags_of_gold_objects_are_grades(key, values):
    relevant = [{"id": name, key: value} for name, value in zip("ab", values, strict=True)]
    rows = [{"question": "Which?", "retrieved": ["a", "b"], "relevant": relevant}]

    assert rb.evaluate(rows, ["mrr"]).mean["mrr"] == 0.5


@pytest.mark.parametrize("part", ["relevant", "retrieved"])
def test_an_empty_object_in_a_list_is_no_empty_list(part, assert_message):
    row = {"question": "q", "retrieved": ["d1"], "relevant": ["d1"]}

    with pytest.raises(rb.DataError) as caught:
        rb.evaluate([row, {**row, "question": "r", part: [{}]}], ["mrr"])

    assert_message(caught.value, f"dataset: row 2: column '{part}'")
    assert rb.evaluate([row, {**row, "question": "r", part: []}], ["mrr"]).summary["mrr"].n > 0
