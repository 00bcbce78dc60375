"""Records in three formats: the reading, the systems that they carry, and what is refused."""

import csv
import gzip
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.loaders.records import Records
from ragbench.errors import DataError
from ragbench.types import Answered, Document, Query

# NUL is refused in CSV; questions must not be blank
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
questions = texts.map(lambda text: f"Why {text}?")
rows = st.fixed_dictionaries(
    {
        "question": questions,
        "contexts": st.lists(texts, min_size=1, max_size=3),
        "answer": texts,
        "reference": st.lists(texts.map(lambda text: f"x{text}"), min_size=1, max_size=2),
    }
)
tables = st.lists(rows, min_size=1, max_size=4, unique_by=lambda row: row["question"])


def as_csv(table):
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(table[0]))
    writer.writeheader()
    for row in table:
        writer.writerow({k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()})
    return stream.getvalue().encode()


@settings(max_examples=30)
@given(tables, st.randoms(use_true_random=False))
def test_formats_and_row_orders_read_alike(tmp_path_factory, table, random):
    folder = tmp_path_factory.getbasetemp()
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, table)))
    shuffled = random.sample(table, len(table))
    (folder / "b.csv").write_bytes(as_csv(shuffled))

    one, other = Records(path=folder / "a.jsonl").load(), Records(path=folder / "b.csv").load()

    assert one.fingerprints == other.fingerprints
    assert [query.text for query in one.queries] == [row["question"] for row in table]
    assert list(one.answers.values()) == [row["reference"] for row in table]
    predictions = one.recorded_answers["given"]
    assert [answered.answer for answered in predictions] == [row["answer"] for row in table]
    assert [[d.text for d in a.contexts] for a in predictions] == [row["contexts"] for row in table]
    assert [query.id for query in one.queries] == [answered.query_id for answered in predictions]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        *((cell, True) for cell in ("true", "TRUE", "yes", "1")),
        *((cell, False) for cell in ("false", "False", " no ", "0")),
        ("", None),
    ],
)
@pytest.mark.parametrize("column", ["answerable", "is_impossible"])
def test_a_cell_on_whether_a_question_has_an_answer_is_a_boolean(tmp_path, column, cell, value):
    (tmp_path / "a.csv").write_text(f"question,reference,{column}\nWhy?,So,{cell}\n")

    (query,) = Records(path=tmp_path / "a.csv").load().queries

    assert query.metadata[column] is value


def test_a_cell_that_is_no_boolean_is_an_error_and_a_typed_value_is_not(tmp_path, assert_message):
    (tmp_path / "a.csv").write_text("question,reference,answerable\nWhy?,So,yes\nHow?,So,partly\n")
    row = {"question": "Why?", "reference": "So", "answerable": "partly", "is_impossible": 0}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))

    with pytest.raises(DataError) as raised:
        Records(path=tmp_path / "a.csv").load()
    (query,) = Records(path=tmp_path / "a.jsonl").load().queries

    assert_message(raised.value, "TMP/a.csv:3")
    assert query.metadata == {"answerable": "partly", "is_impossible": False}


def test_parquet_reads_alike(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = [
        {"id": 1, "question": "a?", "contexts": [{"id": "p", "text": "t"}], "answer": "x"},
        {"id": 2, "question": "b?", "contexts": [], "answer": None},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, table)))

    one = Records(path=tmp_path / "a.parquet").load()

    assert one.fingerprints == Records(path=tmp_path / "a.jsonl").load().fingerprints
    assert one.recorded_answers["given"] == [
        Answered("1", "x", [Document("p", "t")]),
        Answered("2", None, []),
    ]


def test_everything_that_a_record_can_say(write, assert_message):
    path = write(
        "logs.jsonl",
        [
            {
                "id": "q1",
                "question": "Who?",
                "contexts": ["plain", {"id": "p 2", "text": "t", "title": "T", "page": 3}],
                "answer": "Me",
                "reference": "You",
                "queries": ["who is it", "who"],
                "topic": "people",
                "metadata": {"language": "en"},
            },
            {"id": 2, "question": "What?", "reference": ["a", {"text": "b"}, ""]},
        ],
    )

    collection = Records(path=path).load()

    assert collection.queries == [
        Query("q1", "Who?", {"topic": "people", "language": "en"}),
        Query("2", "What?"),
    ]
    assert collection.documents is None
    assert collection.qrels is None
    assert collection.answers == {"q1": ["You"], "2": ["a", "b"]}
    [answered] = collection.recorded_answers["given"]
    assert (answered.query_id, answered.answer) == ("q1", "Me")
    assert answered.queries == ["who is it", "who"]
    assert answered.contexts is not None
    assert answered.contexts[1] == Document("p%202", "t", "T", {"page": 3})
    assert_message(collection.notes)


def test_equal_passages_have_equal_ids(write):
    table = [{"question": f"{n}?", "contexts": ["same", f"other {n}"]} for n in range(2)]
    first, second = Records(path=write("a.jsonl", table)).load().recorded_answers["given"]

    assert first.contexts[0].id == second.contexts[0].id
    assert first.contexts[1].id != second.contexts[1].id


def test_passages_find_their_document(write):
    corpus = write(
        "corpus.jsonl",
        [{"_id": "d1", "title": "T", "text": "alpha"}, {"_id": "d2", "text": "beta"}],
    )
    passages = [
        "T alpha",
        "alpha",
        {"id": "d2"},
        {"text": "beta"},
        {"id": "x", "text": "beta"},
        "y",
    ]
    path = write("a.jsonl", [{"question": "?!", "contexts": passages}])

    collection = Records(path=path, corpus=corpus).load()

    assert [document.id for document in collection.documents or ()] == ["d1", "d2"]
    [answered] = collection.recorded_answers["given"]
    ids = [document.id for document in answered.contexts or ()]
    assert ids[:5] == ["d1", "d1", "d2", "d2", "x"]
    assert len(ids[5]) == 12


def test_retrieved_ids_have_the_texts_of_the_corpus(write):
    corpus = write("corpus.jsonl", [{"_id": "d1", "text": "alpha"}, {"_id": "d2", "text": "beta"}])
    path = write("a.jsonl", [{"question": "?!", "retrieved": ["d2", "gone"], "relevant": ["d2"]}])

    [answered] = Records(path=path, corpus=corpus).load().recorded_answers["given"]

    assert answered.contexts == [Document("d2", "beta"), Document("gone", "")]


def test_empty_documents_are_noted_once(write):
    corpus = write("corpus.jsonl", [{"_id": "d1", "text": ""}, {"_id": "d2", "text": "beta"}])

    notes = Records(path=write("a.jsonl", [{"question": "?!"}]), corpus=corpus).load().notes

    assert notes.count("1 empty document: d1") == 1


def test_a_system_per_value(write, assert_message):
    path = write(
        "a.jsonl",
        [
            {"question": "a?", "system": "org/one", "answer": "1", "reference": "r", "cost": 1},
            {"question": "a?", "system": "two", "answer": "2", "reference": "r", "cost": 2},
            {"question": "b?", "system": "two", "answer": "3", "reference": None, "cost": 2},
        ],
    )

    collection = Records(path=path).load()

    assert {name: len(answers) for name, answers in collection.recorded_answers.items()} == {
        "org-one": 1,
        "two": 2,
    }
    assert_message(collection.notes)
    assert [dict(query.metadata) for query in collection.queries] == [{}, {"cost": 2}]
    assert len(collection.answers) == 1


def test_a_log_may_hold_a_question_again(write, assert_message):
    # Each row counts; where rows have ids or systems, a repeated row is a mistake
    rows = [{"question": "Who?", "response": text} for text in ("Me", "You", "Me")]
    read = Records(path=write("a.jsonl", [*rows, {"question": "When?", "response": "Now"}])).load()

    first, second, third, other = (query.id for query in read.queries)
    assert [second, third] == [f"{first}-2", f"{first}-3"]
    assert other not in (first, second, third)
    assert [prediction.answer for prediction in read.recorded_answers["given"]] == [
        "Me",
        "You",
        "Me",
        "Now",
    ]
    assert [query.text for query in read.queries] == ["Who?", "Who?", "Who?", "When?"]
    assert any("2 rows with an earlier question" in note for note in read.warnings)
    again = write("b.jsonl", [{**row, "system": "s"} for row in rows])
    with pytest.raises(DataError) as caught:
        Records(path=again).load()
    assert_message(caught.value, "TMP/b.jsonl:2")


def test_questions_of_systems_in_two_spellings_are_named(write, assert_message):
    # without ids the texts join the systems, and these two have no question in common
    rows = [
        {"question": text, "answer": "a", "system": system}
        for system, text in (("one", "Why so?"), ("two", "why  so?"))
    ]
    read = Records(path=write("r.jsonl", rows)).load()
    ids = Records(path=write("i.jsonl", [rows[0] | {"id": 1}, rows[1] | {"id": 2}]))

    assert len(read.queries) == 2
    assert_message(read.warnings[0])
    assert len(read.warnings) == 1
    assert ids.load().warnings == []


def test_questions_alone_are_no_system(write):
    collection = Records(path=write("a.csv", "question,reference\nWho?,Me\n")).load()

    assert collection.recorded_answers == {}
    assert list(collection.answers.values()) == [["Me"]]


def test_an_empty_csv_answer_is_an_answer(write):
    path = write("a.csv", "question,answer,contexts,reference\nWho?,,,\n")

    collection = Records(path=path).load()

    assert collection.recorded_answers["given"] == [Answered(collection.queries[0].id, "", None)]
    assert collection.answers == {}


def test_split(write, assert_message):
    path = write("a.jsonl", [{"question": f"{n}?", "reference": "r"} for n in range(10)])

    collection = Records(path=path, split={"test": 0.3}).load()

    assert len(collection.queries) == len(collection.answers) == 3
    assert_message(collection.notes[-1])


def test_preview(write):
    path = write(
        "a.csv",
        'user_input,response,retrieved_contexts\nWho?,Me,"[""p""]"\nWhat?,It,\nWhy?,So,\n',
    )

    first, second = Records(path=path).preview()

    assert first["question"] == "Who?"
    assert first["contexts"] == ["p"]
    assert (second["contexts"], second["answer"]) == (None, "It")
    assert list(first) == ["question", "contexts", "answer"]


def lines_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_xquad(lent_data):
    path = lent_data / "xquad-en" / "test.jsonl.gz"
    collection = Records(path=path, columns={"contexts": "context", "reference": "answers"}).load()

    expected = lines_of(path)
    assert len(collection.queries) == 1190
    assert (
        len({answered.contexts[0].id for answered in collection.recorded_answers["given"]}) == 240
    )
    assert collection.answers == {
        row["id"]: [a["text"] for a in row["answers"]] for row in expected
    }


def test_aragog(lent_data):
    for path in sorted((lent_data / "aragog-rag-runs").glob("*.jsonl.gz")):
        collection = Records(path=path).load()
        assert [len(collection.queries), len(collection.answers)] == [107, 107]
        expected = [row["contexts"] for row in lines_of(path)]
        assert [
            [d.text for d in a.contexts] for a in collection.recorded_answers["given"]
        ] == expected


def test_ragtruth(lent_data):
    collection = Records(
        path=lent_data / "ragtruth-qa" / "test.jsonl.gz",
        columns={
            "id": "source_id",
            "contexts": "passages",
            "answer": "response",
            "system": "model",
        },
    ).load()

    assert len(collection.queries) == 148
    assert len(collection.recorded_answers) == 6
    assert sum(map(len, collection.recorded_answers.values())) == 829


def test_hotpotqa(lent_data):
    path = lent_data / "hotpotqa-sample" / "sample.jsonl.gz"
    collection = Records(path=path, corpus=path).load()

    expected = lines_of(path)
    assert collection.answers == {row["_id"]: [row["answer"]] for row in expected}
    assert collection.qrels.to_dict() == {
        row["_id"]: {title.replace(" ", "%20"): 1 for title, _ in row["supporting_facts"]}
        for row in expected
    }
    titles = {title for row in expected for title, _ in row["context"]}
    assert {document.title for document in collection.documents} == titles


def test_rows_that_people_dropped_are_left_out(tmp_path, assert_message):
    (tmp_path / "a.csv").write_text(
        "id,question,reference,keep\n1,Who?,Galle,\n2,When?,1846,No\n3,Where?,Berlin,yes\n"
    )

    collection = Records(path=tmp_path / "a.csv").load()

    assert [query.id for query in collection.queries] == ["1", "3"]
    assert [*collection.answers] == ["1", "3"]
    assert_message(collection.notes)


def test_a_column_keep_without_yes_and_no_is_metadata(tmp_path):
    (tmp_path / "a.csv").write_text("question,reference,keep\nWho?,Galle,cold\nWhen?,1846,\n")

    queries = Records(path=tmp_path / "a.csv").load().queries

    assert [query.metadata["keep"] for query in queries] == ["cold", ""]


@pytest.mark.parametrize(
    ("cells", "place"),
    [
        (("no", "maybe"), "TMP/a.csv:3"),
        (("no", "No"), "TMP/a.csv"),
    ],
)
def test_a_column_keep_that_cannot_be_followed_is_refused(tmp_path, cells, place, assert_message):
    rows = "".join(f"Who {n}?,Galle,{cell}\n" for n, cell in enumerate(cells))
    (tmp_path / "a.csv").write_text(f"question,reference,keep\n{rows}")

    with pytest.raises(DataError) as caught:
        Records(path=tmp_path / "a.csv").load()

    assert_message(caught.value, place)
