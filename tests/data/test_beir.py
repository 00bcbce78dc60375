"""Folders in the BEIR layout: what is read, what is counted, and every broken reference."""

import shutil

import pytest

from ragbench.data.loaders.beir import Beir
from ragbench.errors import OptionError
from ragbench.registry import declared_options
from ragbench.types import Document, Query


def test_a_folder(folder, assert_message):
    collection = Beir(path=folder).load()

    assert collection.queries == [Query("q1", "question 1"), Query("q2", "question 2")]
    assert collection.documents == [
        Document("d1", "first text", "One"),
        Document("d2", "second text", "", {"year": 1999}),
        Document("d3"),
    ]
    assert collection.qrels is not None
    assert collection.qrels.to_dict() == {"q2": {"d2": 2}, "q1": {"d1": 1, "d2": 0}}
    assert collection.answers == {}
    assert_message(collection.notes)


def test_gzip_and_order_change_nothing(folder, write):
    fingerprints = Beir(path=folder).load().fingerprints
    for name in ("corpus.jsonl", "queries.jsonl"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).unlink()
        write(f"{name}.gz", "".join(reversed(lines)))
    (folder / "qrels" / "test.tsv").unlink()
    write("qrels/test.tsv.gz", "q1\td2\t0\r\nq1\td1\t1\r\nq2\td2\t2\r\n")

    assert Beir(path=folder).load().fingerprints == fingerprints


def test_answers(folder, write):
    write(
        "answers.jsonl",
        [
            {"query_id": "q1", "answers": ["gold", "golden"]},
            {"query_id": "q2", "answers": []},
            {"query_id": "q3", "answers": "of an unjudged query"},
        ],
    )

    assert Beir(path=folder).load().answers == {"q1": ["gold", "golden"]}


def test_answers_stand_in_for_judgements(folder, write, assert_message):
    write("answers.jsonl", [{"query_id": "q3", "answers": ["gold"]}])
    shutil.rmtree(folder / "qrels")

    collection = Beir(path=folder).load()

    assert [query.id for query in collection.queries] == ["q1", "q2", "q3"]
    assert collection.qrels is None
    assert_message(collection.notes)


def test_a_subtopic_column(folder, write, assert_message):
    write("qrels/test.tsv", "query-id\tcorpus-id\tscore\tsubtopic\nq1\td1\t0\tx\nq1\td1\t2\ty\n")

    collection = Beir(path=folder).load()

    assert collection.qrels is not None
    assert collection.qrels.to_dict() == {"q1": {"d1": 2}}
    assert collection.qrels.subtopics == {"q1": {"d1": {"x": 0, "y": 2}}}
    assert_message(collection.notes[-1])


def test_judgements_without_a_subtopic_beside_others(folder, write):
    # Judgements without a subtopic count for every other measure, and cover no subtopic
    write("qrels/test.tsv", "q1\td1\t2\nq1\td2\t1\tx\nq2\td1\t1\t\n")

    qrels = Beir(path=folder).load().qrels

    assert qrels.to_dict() == {"q1": {"d1": 2, "d2": 1}, "q2": {"d1": 1}}
    assert qrels.subtopics == {"q1": {"d2": {"x": 1}}}


def test_subtopics_of_a_random_split(folder, write):
    (folder / "qrels" / "test.tsv").unlink()
    write("qrels/train.tsv", "q1\td1\t1\tx\nq1\td1\t1\ty\nq2\td2\t1\tx\n")
    write("qrels/dev.tsv", "q3\td2\t1\tz\n")

    qrels = Beir(path=folder, split={"test": 0.99}).load().qrels

    assert qrels.subtopics == {
        "q1": {"d1": {"x": 1, "y": 1}}, "q2": {"d2": {"x": 1}}, "q3": {"d2": {"z": 1}},
    }  # fmt: skip


def test_no_subtopics_where_the_column_is_absent(folder):
    assert Beir(path=folder).load().qrels.subtopics is None


def test_a_document_that_the_corpus_lacks_is_kept(folder, write):
    # A loader does not know how hits are matched, and so not which documents can be retrieved
    write("qrels/test.tsv", "q1\td1\t1\nq1\td99\t1\n")

    assert Beir(path=folder).load().qrels.to_dict() == {"q1": {"d1": 1, "d99": 1}}


def test_an_id_that_starts_like_a_comment(folder, write):
    write("queries.jsonl", [{"_id": "#1", "text": "one"}])
    write("qrels/test.tsv", "#1\td1\t1\n")

    assert [query.id for query in Beir(path=folder).load().queries] == ["#1"]


def test_no_corpus(folder, assert_message):
    (folder / "corpus.jsonl").unlink()

    collection = Beir(path=folder).load()

    assert collection.documents is None
    assert_message(collection.notes)


def test_a_random_split_without_a_test_set(folder, write, assert_message):
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    write("qrels/train.tsv", "query-id\tcorpus-id\tscore\nq3\td1\t1\nq1\td1\t1\n")

    collection = Beir(path=folder, split={"test": 0.34, "seed": 1}).load()

    assert len(collection.queries) == 1
    assert collection.qrels is not None
    assert collection.qrels.query_ids == (collection.queries[0].id,)
    assert_message(collection.notes[-1])


def test_a_random_split_with_a_test_set(folder, problem, assert_message):
    assert_message(problem(lambda: Beir(path=folder, split={"test": 0.5}).load()), "qrels/test.tsv")


def test_splits_that_contradict_each_other(folder, write, problem, assert_message):
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    write("qrels/train.tsv", "q3\td1\t1\nq1\td1\t2\n")

    assert_message(
        problem(lambda: Beir(path=folder, split={"test": 0.5}).load()), "qrels/train.tsv:2"
    )


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        (
            "Q-1\td1\t1\n",
            "qrels/test.tsv:2",
        ),
        # every missing query, with its line
        (
            "x1\td1\t1\nx1\td2\t1\nx2\td2\t0\n",
            "qrels/test.tsv:2",
        ),
        # the first five of ten
        (
            "".join(f"x{n}\td1\t1\n" for n in range(10)),
            "qrels/test.tsv:2",
        ),
        ("q1\td1\tx\n", "qrels/test.tsv:2"),
        ("q1\td1\t1.0\n", "qrels/test.tsv:2"),  # a float
        ("q1\td1\t\n", "qrels/test.tsv:2"),
        # blanks for tabs
        (
            "q1 d1 1\n",
            "qrels/test.tsv:2",
        ),
        # judged twice
        (
            "q1\td1\t1\n\nq1\td1\t1\n",
            "qrels/test.tsv:4",
        ),
        ("q 1\td1\t1\n", "qrels/test.tsv:2"),
        (b"q1\td\xff\t1\n", "qrels/test.tsv:2"),  # no UTF-8
        # a header alone
        (
            "",
            "qrels/test.tsv",
        ),
    ],
)
def test_bad_judgements_are_named(folder, write, problem, rows, place, assert_message):
    raw = rows if isinstance(rows, bytes) else rows.encode()
    write("qrels/test.tsv", b"query-id\tcorpus-id\tscore\n" + raw)

    assert_message(problem(lambda: Beir(path=folder).load()), place)


@pytest.mark.parametrize(
    "row",
    [
        {"query_id": "q-2", "answers": []},
        {"query_id": "q1", "answers": []},  # a query twice
        {"query_id": "q2", "answer": ["a"]},
        {"query_id": "q2", "answers": 5},
        {"query_id": "q2", "answers": ["a", None]},
    ],
)
def test_bad_answers_are_named(folder, write, problem, row, assert_message):
    write("answers.jsonl", [{"query_id": "q1", "answers": ["a"]}, row])

    assert_message(problem(lambda: Beir(path=folder).load()), "answers.jsonl:2")


def test_a_split_that_does_not_exist(folder, write, problem, assert_message):
    write("qrels/train.tsv.gz", "q1\td1\t1\n")

    assert_message(problem(lambda: Beir(path=folder, split="tset").load()), "FOLDER")


def test_folders_that_lack_something(folder, problem, tmp_path, assert_message):
    assert problem(lambda: Beir(path=tmp_path / "no").load()) == "no: no such folder"
    assert_message(problem(lambda: Beir(path=folder / "corpus.jsonl").load()), "corpus.jsonl")
    shutil.rmtree(folder / "qrels")
    assert_message(problem(lambda: Beir(path=folder).load()), "FOLDER")
    (folder / "queries.jsonl").unlink()
    assert_message(problem(lambda: Beir(path=folder).load()), "FOLDER")


def test_options(assert_message):
    options = declared_options(Beir)

    assert [(name, option.required) for name, option in options.items()] == [
        ("path", True),
        ("split", False),
    ]
    assert options["path"].option.refers_to == "path"
    assert options["split"].check("beir", {"test": 0.2}) == {"test": 0.2}
    with pytest.raises(OptionError) as caught:
        options["split"].check("beir", 3)
    assert_message(caught.value, "beir: split")


@pytest.mark.parametrize(
    ("name", "split", "documents", "queries", "judgements"),
    [
        ("scifact", "train", 5183, 809, 919),
        ("cranfield", "test", 1400, 225, 1837),
        ("cacm", "test", 3204, 52, 796),
    ],
)
def test_lent_collections(lent_data, name, split, documents, queries, judgements):
    collection = Beir(path=lent_data / name, split=split).load()

    assert collection.documents is not None
    assert collection.qrels is not None
    sizes = (len(collection.documents), len(collection.queries), len(collection.qrels))
    assert sizes == (documents, queries, judgements)


def test_traps_of_the_lent_collections(lent_data, assert_message):
    cranfield = Beir(path=lent_data / "cranfield").load()
    original = Beir(path=lent_data / "cranfield", split="original").load()
    codes = original.qrels

    assert cranfield.notes == ["2 empty documents: 471, 995"]
    assert codes is not None
    assert set(codes.grades.tolist()) == {-1, 1, 2, 3, 4}
    assert_message(original.notes[-1])
    assert_message(Beir(path=lent_data / "cacm").load().notes)
