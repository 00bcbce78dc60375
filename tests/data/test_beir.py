"""Folders in the BEIR layout: what is read, what is counted, and every broken reference."""

import shutil

import pytest

from ragbench.data.loaders.beir import Beir
from ragbench.errors import OptionError
from ragbench.registry import declared_options
from ragbench.types import Document, Query


def test_a_folder(folder):
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
    assert collection.notes == [
        "1 empty document: d3",
        "1 query without a judgement in the split left out",
    ]


def test_gzip_and_order_change_nothing(folder, write):
    before = Beir(path=folder).load().fingerprints
    for name in ("corpus.jsonl", "queries.jsonl"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).unlink()
        write(f"{name}.gz", "".join(reversed(lines)))
    (folder / "qrels" / "test.tsv").unlink()
    write("qrels/test.tsv.gz", "q1\td2\t0\r\nq1\td1\t1\r\nq2\td2\t2\r\n")

    assert Beir(path=folder).load().fingerprints == before


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


def test_answers_stand_in_for_judgements(folder, write):
    write("answers.jsonl", [{"query_id": "q3", "answers": ["gold"]}])
    shutil.rmtree(folder / "qrels")

    collection = Beir(path=folder).load()

    assert [query.id for query in collection.queries] == ["q1", "q2", "q3"]
    assert collection.qrels is None
    assert "no judgements: all queries are taken" in collection.notes


def test_a_subtopic_column(folder, write):
    write("qrels/test.tsv", "query-id\tcorpus-id\tscore\tsubtopic\nq1\td1\t0\tx\nq1\td1\t2\ty\n")

    collection = Beir(path=folder).load()

    assert collection.qrels is not None
    assert collection.qrels.to_dict() == {"q1": {"d1": 2}}
    assert collection.qrels.subtopics == {"q1": {"d1": {"x": 0, "y": 2}}}
    assert collection.notes[-1] == (
        "judgements that repeat a pair under another subtopic, whose best grade counts: 1"
    )


def test_judgements_without_a_subtopic_beside_others(folder, write):
    """They count for every other measure; they cover nothing."""
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
    """Whether it can be found depends on how hits are matched, which a loader does not know."""
    write("qrels/test.tsv", "q1\td1\t1\nq1\td99\t1\n")

    assert Beir(path=folder).load().qrels.to_dict() == {"q1": {"d1": 1, "d99": 1}}


def test_an_id_that_starts_like_a_comment(folder, write):
    write("queries.jsonl", [{"_id": "#1", "text": "one"}])
    write("qrels/test.tsv", "#1\td1\t1\n")

    assert [query.id for query in Beir(path=folder).load().queries] == ["#1"]


def test_no_corpus(folder):
    (folder / "corpus.jsonl").unlink()

    collection = Beir(path=folder).load()

    assert collection.documents is None
    assert "no corpus.jsonl: only stored rankings can be scored" in collection.notes


def test_a_random_split_without_a_test_set(folder, write):
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    write("qrels/train.tsv", "query-id\tcorpus-id\tscore\nq3\td1\t1\nq1\td1\t1\n")

    collection = Beir(path=folder, split={"test": 0.34, "seed": 1}).load()

    assert len(collection.queries) == 1
    assert collection.qrels is not None
    assert collection.qrels.query_ids == (collection.queries[0].id,)
    assert collection.notes[-1] == "random test set: 1 of 3 queries (test: 0.34, seed: 1)"


def test_a_random_split_with_a_test_set(folder, problem):
    assert problem(lambda: Beir(path=folder, split={"test": 0.5}).load()) == (
        "qrels/test.tsv: a random split of a data set that has a test set; "
        "allowed: split: test, or --limit for a sample of it"
    )


def test_splits_that_contradict_each_other(folder, write, problem):
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    write("qrels/train.tsv", "q3\td1\t1\nq1\td1\t2\n")

    assert problem(lambda: Beir(path=folder, split={"test": 0.5}).load()) == (
        "qrels/train.tsv:2: document 'd1' of query 'q1' has grade 2 here and 1 in another split"
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            "Q-1\td1\t1\n",
            "qrels/test.tsv:2: query 'Q-1' is not in queries.jsonl; did you mean 'q1'?",
        ),
        (
            "x1\td1\t1\nx1\td2\t1\nx2\td2\t0\n",
            "qrels/test.tsv:2: query 'x1' is not in queries.jsonl; 1 more missing: 'x2' (line 4)",
        ),
        (
            "".join(f"x{n}\td1\t1\n" for n in range(10)),
            "qrels/test.tsv:2: query 'x0' is not in queries.jsonl; 9 more missing: "
            "'x1' (line 3), 'x2' (line 4), 'x3' (line 5), 'x4' (line 6) and 5 others",
        ),
        ("q1\td1\tx\n", "qrels/test.tsv:2: grade 'x'; allowed: an integer from"),
        ("q1\td1\t1.0\n", "qrels/test.tsv:2: grade '1.0'; allowed: an integer from"),
        ("q1\td1\t\n", "qrels/test.tsv:2: grade ''; allowed: an integer from"),
        (
            "q1 d1 1\n",
            "qrels/test.tsv:2: 1 column, expected 3 between tabs, or 4 with a subtopic "
            "(query-id corpus-id score): 'q1 d1 1'",
        ),
        (
            "q1\td1\t1\n\nq1\td1\t1\n",
            "qrels/test.tsv:4: document 'd1' of query 'q1' is judged twice, first at line 2",
        ),
        ("q 1\td1\t1\n", "qrels/test.tsv:2: query-id holds white space: 'q 1'; allowed: an id"),
        (b"q1\td\xff\t1\n", "qrels/test.tsv:2: bad UTF-8 in corpus-id: b'd\\xff'"),
        (
            "",
            "qrels/test.tsv: no judgements; allowed: lines with query-id",
        ),
    ],
)
def test_bad_judgements_are_named(folder, write, problem, rows, expected):
    raw = rows if isinstance(rows, bytes) else rows.encode()
    write("qrels/test.tsv", b"query-id\tcorpus-id\tscore\n" + raw)

    assert problem(lambda: Beir(path=folder).load()).startswith(expected)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"query_id": "q-2", "answers": []},
            "query 'q-2' is not in queries.jsonl; did you mean 'q2'?",
        ),
        ({"query_id": "q1", "answers": []}, "query_id 'q1' is repeated, first at line 1"),
        (
            {"query_id": "q2", "answer": ["a"]},
            "no 'answers' (keys: query_id, answer); did you mean",
        ),
        ({"query_id": "q2", "answers": 5}, "'answers' is 5; allowed: a list of texts"),
        ({"query_id": "q2", "answers": ["a", None]}, "'answers' is ['a', None]; allowed: a list"),
    ],
)
def test_bad_answers_are_named(folder, write, problem, row, expected):
    write("answers.jsonl", [{"query_id": "q1", "answers": ["a"]}, row])

    assert problem(lambda: Beir(path=folder).load()).startswith(f"answers.jsonl:2: {expected}")


def test_a_split_that_does_not_exist(folder, write, problem):
    write("qrels/train.tsv.gz", "q1\td1\t1\n")

    assert problem(lambda: Beir(path=folder, split="tset").load()) == (
        "FOLDER: no qrels/tset.tsv; did you mean 'test'? allowed: test, train"
    )


def test_folders_that_lack_something(folder, problem, tmp_path):
    assert problem(lambda: Beir(path=tmp_path / "no").load()) == "no: no such folder"
    assert problem(lambda: Beir(path=folder / "corpus.jsonl").load()) == (
        "corpus.jsonl: a file, expected a folder"
    )
    shutil.rmtree(folder / "qrels")
    assert problem(lambda: Beir(path=folder).load()) == (
        "FOLDER: no qrels/test.tsv and no answers.jsonl: nothing to score against"
    )
    (folder / "queries.jsonl").unlink()
    assert problem(lambda: Beir(path=folder).load()) == (
        "FOLDER: no queries.jsonl (the folder has corpus.jsonl); "
        "allowed: a folder of BEIR: queries.jsonl, corpus.jsonl, qrels/"
    )


def test_options():
    options = declared_options(Beir)

    assert [(name, option.required) for name, option in options.items()] == [
        ("path", True),
        ("split", False),
    ]
    assert options["path"].option.refers_to == "path"
    assert options["split"].check("beir", {"test": 0.2}) == {"test": 0.2}
    with pytest.raises(OptionError, match=r"beir: split: found 3, allowed: text or a mapping"):
        options["split"].check("beir", 3)


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


def test_traps_of_the_lent_collections(lent_data):
    cranfield = Beir(path=lent_data / "cranfield").load()
    original = Beir(path=lent_data / "cranfield", split="original").load()
    codes = original.qrels

    assert cranfield.notes == ["2 empty documents: 471, 995"]
    assert codes is not None
    assert set(codes.grades.tolist()) == {-1, 1, 2, 3, 4}
    assert (
        original.notes[-1] == "judgements with a negative grade, which count as not relevant: 225"
    )
    assert Beir(path=lent_data / "cacm").load().notes == [
        "12 queries without a judgement in the split left out"
    ]
