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
    "written",
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
def test_ids_in_any_usual_writing(load, written):
    for suffix in (".csv", ".jsonl", ".json"):
        assert grades(load([{"relevant": written}], suffix)) == [{VENERA: 1, IO: 1}]


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


def test_rows_without_gold_are_counted_and_repeated_ids_too(load):
    collection = load([{"relevant": "io.md;io"}, {"relevant": ""}, {"relevant": "nan"}], ".csv")

    assert grades(collection) == [{IO: 1}]
    assert "2 of 3 rows name no gold document" in collection.notes
    assert "1 gold ids stand twice in their row and count once" in collection.notes
    assert (
        "1 gold document spelled otherwise than in the corpus: 'io' is 'io.md'" in collection.notes
    )


def test_what_the_corpus_lacks_keeps_its_place(load):
    collection = load([{"relevant": "io"}, {"relevant": "ioo.md; x"}], ".csv")

    assert {name: place.rpartition("/")[2] for name, place in collection.gold_places.items()} == {
        "ioo.md": "qa.csv line 3",
        "x": "qa.csv line 3",
    }


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"relevant": True},
            "column 'relevant': a truth value; "
            "allowed: an id, a JSON list of ids, ids between ;, or an object {id: grade}; "
            "columns: {relevant: null} if 'relevant' holds no gold documents",
        ),
        (
            {"relevant": ["io", {"id": "x"}]},
            "column 'relevant': ['io', {'id': 'x'}]; allowed: an id",
        ),
        ({"relevant": ["io", None]}, "column 'relevant': ['io', None]; allowed: an id"),
        (
            {"relevant": {"id": "io.md;io"}},
            "column 'relevant': an object with several ids; allowed",
        ),
        ({"relevant": '["io"'}, "column 'relevant': bad JSON at column 6: Expecting ',' delimiter"),
        (
            {"relevant": "maps.txt"},
            "column 'relevant': 'maps.txt' fits 'moon/maps.txt' or 'venus/maps.txt'; "
            "allowed: the whole path in the corpus folder",
        ),
        ({"relevant": {"io": 1, "io.md": 2}}, "column 'relevant': 'io.md' has two grades"),
        ({"relevant": {"io": 0.5}}, "column 'relevant': grade 0.5; allowed: an integer"),
        (
            {"relevant": ["io", "venera 13"], "grades": [1]},
            "column 'grades': 1 grades for 2 gold documents; allowed: one grade for each",
        ),
        ({"relevant": "io", "grades": "good"}, "column 'grades': grade 'good'; allowed: an"),
    ],
)
def test_bad_gold_is_named(load, problem, row, expected):
    assert problem(lambda: load([{"relevant": "io"}, row])).startswith(f"qa.jsonl:2: {expected}")


def test_a_named_column_without_any_gold(load, problem):
    rows = [{"gold": ""}, {"gold": ""}]

    assert problem(lambda: load(rows, ".csv", {"relevant": "gold"})) == (
        "qa.csv: gold: no row has any gold; "
        "allowed: the ids of gold documents, or gold passages, in one row at least"
    )


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


def test_quotes_are_found_in_the_corpus(load):
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
    assert collection.warnings == [
        "3 of 7 gold passages stand in no document of the corpus and are left out: "
        "line 4: 'The far side of the Moon was unknown to any probe'; "
        "line 5: 'worked for 127 hours'; line 6: 'nowhere at all'",
        "1 of 7 gold passages stand in several documents, and their questions have no gold "
        "document (ambiguous_quote): name it in a column `relevant`: line 3: 'it mapped most of "
        f"Venus from orbit' in {IO}, {RADAR}",
    ]


def test_a_long_quote_with_an_error_is_placed_and_counted(load):
    quote = TEXTS["docs/moon/maps.txt"].replace("pictures", "photographs") + " Yes."
    collection = load([{"reference_contexts": quote.replace("photographs of", "pictures of")}])

    assert grades(collection) == [{FAR: 1}]
    assert any("1 of them not word for word" in note for note in collection.notes)


def test_quotes_that_all_are_lost_are_an_error(load, problem):
    assert problem(lambda: load([{"reference_contexts": "not there"}])) == (
        "qa.jsonl: reference_contexts: none of the 1 gold passages stands in the corpus, such as "
        "line 1: 'not there'; "
        "allowed: texts that documents of the corpus hold, or ids in `relevant`"
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

    found, exactly = QuotedPassages([quote], documents).place(quote)

    assert str(number) in found
    assert exactly
    padded = [f" {' '.join(text.replace('漢字', '漢 字').split())} " for text in texts]
    line = f" {quote.replace('漢字', '漢 字')} "
    assert found == [str(n) for n, text in enumerate(padded) if line in text]


@given(st.lists(st.text("ab./ ", min_size=1, max_size=6), unique=True))
@example(["..a"])
def test_an_id_always_means_itself(ids):
    names = DocumentNames([Document(name) for name in ids])

    assert all(names.resolve(name) == [name] for name in ids if name == name.strip())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("7", ["007"]),
        ("7.0", ["007"]),
        ("PLAN_07", ["docs/my%20plan/Plan%207.md"]),
        ("docs/my_plan/plan 7.md", ["docs/my%20plan/Plan%207.md"]),
        ("8", ["08.md", "docs/8.txt"]),
        ("17", []),
    ],
)
def test_zeros_blanks_and_case_are_no_difference_of_names(written, expected):
    ids = ["007", "docs/my%20plan/Plan%207.md", "08.md", "docs/8.txt"]

    assert DocumentNames([Document(name) for name in ids]).resolve(written) == expected


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_a_row_for_each_gold_document(load, suffix):
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
    assert "3 of the rows repeat a question; their gold is put together" in collection.notes


def test_a_row_for_each_judgement_with_its_grade(load, problem):
    rows = [
        {"query_id": "q1", "question": "Which?", "doc_id": "io.md", "relevance": "2"},
        {"query_id": "q1", "question": "Which?", "doc_id": "moon/maps.txt", "relevance": "0"},
    ]

    assert grades(load(rows, ".csv")) == [{IO: 2, FAR: 0}]
    again = {**rows[0], "relevance": "1"}
    assert "csv:4: 'q1': 'io.md' has two grades" in problem(lambda: load([*rows, again], ".csv"))


def test_one_question_with_two_gold_answers_is_told_with_its_text(load, problem):
    rows = [{"question": "Who?", "reference": name, "relevant": "io.md"} for name in ("Ann", "Bo")]

    said = problem(lambda: load(rows))

    assert "has another reference at line 1 than here, where the question is 'Who?'" in said


def test_a_question_may_have_several_ids(load):
    rows = [
        {"id": name, "question": "Which?", "relevant": document}
        for name, document in (("1", "io.md"), ("2", "moon/maps.txt"))
    ]

    assert grades(load(rows)) == [{IO: 1}, {FAR: 1}]


@pytest.mark.parametrize(
    ("written", "expected"),
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
def test_absolute_paths_are_known_by_their_end(written, expected):
    documents = [Document(name, "text") for name in (VENERA, RADAR, FAR, IO)]

    assert DocumentNames(documents, "docs").resolve(written) == ([expected] if expected else [])


@pytest.mark.parametrize("key", ["is_relevant", "relevant", "label"])
@pytest.mark.parametrize("values", [(False, True), (0, 1)])
def test_flags_of_gold_objects_are_grades(key, values):
    relevant = [{"id": name, key: value} for name, value in zip("ab", values, strict=True)]
    rows = [{"question": "Which?", "retrieved": ["a", "b"], "relevant": relevant}]

    assert rb.evaluate(rows, ["mrr"]).mean["mrr"] == 0.5
