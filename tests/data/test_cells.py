"""Cells that hold ids or texts: each notation and each door gives the same numbers."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.files.collection import corpus_of, read_corpus
from ragbench.data.loaders.python import collection_of
from tests.lazy import Lazy

pd = Lazy("pandas")
polars = Lazy("polars")
pyarrow = Lazy("pyarrow")
parquet = Lazy("pyarrow.parquet")


def numpy_print(ids):
    """Return the print of an array, without commas between its items."""
    with np.printoptions(threshold=10_000):
        return str(np.array(ids))


def numpy_repr(ids):
    with np.printoptions(threshold=10_000):
        return repr(np.array(ids, dtype=object))


# Notations in which any text can stand, and those of ids without separators, quotes or brackets.
QUOTED = (json.dumps, repr, lambda ids: repr(tuple(ids)), numpy_print, numpy_repr)
JOINED = tuple(separator.join for separator in (";", " | ", "\n", "\t", "、", "；", ", "))
BARE = (*JOINED, lambda ids: f"[{', '.join(ids)}]", lambda ids: ", ".join(f"‘{i}’" for i in ids))
NUMBERED = (lambda ids: " ".join(ids), lambda ids: f"[{' '.join(ids)}]")

TITLES = st.text("abé文 12;|,、'\"[](){}/-", min_size=1, max_size=8).map(str.strip)
NAMES = st.from_regex(r"[a-zé文]{2}[a-z1-9]{0,3}(\.md)?", fullmatch=True)
CODES = st.from_regex(r"doc[1-9]{1,3}", fullmatch=True)


def rows_of(ids):
    """Return a strategy of (ranking, gold) of some questions, of these ids."""
    lists = st.lists(
        ids.filter(bool), min_size=1, max_size=5, unique_by=lambda name: tuple(name.split())
    )
    pair = lists.flatmap(lambda ranking: st.tuples(st.just(ranking), subsets(ranking)))
    return st.lists(pair, min_size=1, max_size=4)


def subsets(ranking):
    return st.lists(st.sampled_from(ranking), min_size=1, max_size=3, unique=True)


def ndcg(rows):
    """Return the mean nDCG@10 of the lists themselves."""
    return math.fsum(rb.ndcg(ranking, gold, k=10) for ranking, gold in rows) / len(rows)


def table_of(rows, write):
    """Return rows of a table with cells that a notation writes."""
    return [
        {"question": f"Question {n}?", "retrieved": write(ranking), "relevant": write(gold)}
        for n, (ranking, gold) in enumerate(rows)
    ]


def doors_of(table, folder):
    """Yield the rows of a table, and the same rows in frames and in files."""
    frame = pd.DataFrame(table)
    yield table
    yield frame
    yield polars.DataFrame(table)
    yield pyarrow.Table.from_pylist(table)
    lines = [json.dumps(row) for row in table]
    (folder / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    yield folder / "a.jsonl"
    (folder / "a.json").write_text(json.dumps(table), encoding="utf-8")
    yield folder / "a.json"
    parquet.write_table(pyarrow.Table.from_pylist(table), folder / "a.parquet")
    yield folder / "a.parquet"
    if all(isinstance(value, str) for row in table for value in row.values()):
        # the default of pandas writes its index as a nameless column
        frame.to_csv(folder / "a.csv")
        yield folder / "a.csv"
        yield pd.read_csv(folder / "a.csv")
        frame.to_csv(folder / "b.csv", sep=";", index=False, encoding="utf-8-sig")
        yield folder / "b.csv"


def check_doors(rows, write, folder):
    expected = pytest.approx(ndcg(rows))
    for data in doors_of(table_of(rows, write), folder):
        assert rb.evaluate(data, ["ndcg@10"]).mean["ndcg@10"] == expected, data


@settings(max_examples=15, deadline=None)  # at ten doors each
@given(rows_of(TITLES), st.sampled_from((*QUOTED, list)))
def test_any_text_stands_in_a_list_at_each_door(tmp_path_factory, rows, write):
    check_doors(rows, write, tmp_path_factory.mktemp("cells"))


@settings(max_examples=15, deadline=None)
@given(rows_of(NAMES), st.sampled_from(BARE))
def test_plain_names_need_no_quotes_at_each_door(tmp_path_factory, rows, write):
    check_doors(rows, write, tmp_path_factory.mktemp("cells"))


@settings(max_examples=15, deadline=None)
@given(rows_of(CODES), st.sampled_from((*QUOTED, *BARE, *NUMBERED)))
def test_numbered_ids_may_stand_between_blanks(tmp_path_factory, rows, write):
    check_doors(rows, write, tmp_path_factory.mktemp("cells"))


@settings(max_examples=25, deadline=None)
@given(rows_of(TITLES))
def test_a_text_of_a_list_is_one_id_elsewhere(rows):
    # The gold stands bare in its cell, whatever separators and quotes it has
    rows = [(ranking, gold[:1]) for ranking, gold in rows]
    table = [
        {"question": f"{n}?", "retrieved": json.dumps(ranking), "relevant": gold[0]}
        for n, (ranking, gold) in enumerate(rows)
    ]
    passages = [
        {**row, "contexts": [{"id": name, "text": name} for name in ranking]}
        for row, (ranking, _) in zip(table, rows, strict=True)
    ]
    for row in passages:
        del row["retrieved"]

    assert rb.evaluate(table, ["ndcg@10"]).mean["ndcg@10"] == pytest.approx(ndcg(rows))
    assert rb.evaluate(passages, ["ndcg@10"]).mean["ndcg@10"] == pytest.approx(ndcg(rows))


@settings(max_examples=25, deadline=None)
@given(rows_of(TITLES.filter(lambda name: "/" not in name)))  # no other document has a file name
def test_a_name_of_the_corpus_is_one_id(rows):
    documents = {name.replace(" ", "%20"): "text" for ranking, _ in rows for name in ranking}
    table = [{"question": f"{n}?", "relevant": gold[0]} for n, (_, gold) in enumerate(rows)]
    qrels = collection_of(table, documents=documents).qrels.to_dict()

    assert [*map(list, qrels.values())] == [[gold[0].replace(" ", "%20")] for _, gold in rows]


@pytest.mark.parametrize(
    ("retrieved", "relevant", "expected"),
    [
        pytest.param("[12  7 33]", "[7]", 1 / math.log2(3), id="NumPy: rank 2 of [12, 7, 33]"),
        pytest.param("[ 5 18]", "[18  5]", 1.0, id="NumPy: both of two"),
        pytest.param("('a', 'b')", "('b',)", 1 / math.log2(3), id="tuples: rank 2"),
        pytest.param("[np.int64(4), np.int64(7)]", "7", 1 / math.log2(3), id="NumPy 2: rank 2"),
        pytest.param("tensor([4, 7])", "{7}", 1 / math.log2(3), id="torch, a set as gold: rank 2"),
        pytest.param("d1 d2 d3", "d2", 1 / math.log2(3), id="blanks: rank 2"),
        pytest.param("'a', 'b'", "'b'", 1 / math.log2(3), id="quotes without brackets: rank 2"),
        pytest.param("[‘a’, “b”]", "b", 1 / math.log2(3), id="quotes of Word: rank 2"),
        pytest.param("文書5；文書6", "文書6", 1 / math.log2(3), id="Chinese semicolon: rank 2"),
        pytest.param("文書1、文書2", "文書2", 1 / math.log2(3), id="Japanese comma: rank 2"),
        pytest.param("7;12", "7.0", 1.0, id="7.0 is 7: rank 1"),
        pytest.param("9,7.0", "[[7, 8]]", 1 / math.log2(3), id="7.0 is 7 of two alternatives"),
        pytest.param("Plan (2024).md;O'Neil.md", "O'Neil.md", 1 / math.log2(3), id="file names"),
    ],
)  # fmt: skip
def test_notations_worked_by_hand(tmp_path, retrieved, relevant, expected):
    row = {"question": "Where?", "retrieved": retrieved, "relevant": relevant}
    pd.DataFrame([row]).to_csv(tmp_path / "a.csv", index=False)

    for data in ([row], pd.DataFrame([row]), tmp_path / "a.csv"):
        assert rb.evaluate(data, ["ndcg@10"]).mean["ndcg@10"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "cell",
    [
        "[583 335 ... 284]", "['a' ... 'b']", "['a', ..., 'b']", "[a, ..., b]", "a', 'b'", "['a'",
        "a; b]", "[['a'], 'b']", "(a, b)", "Getting  started", "2024 Q1", '"a', "1.2345E+18",
        "9007199254740993.0", "[[['a']]]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("part", ["retrieved", "relevant"])
def test_other_notations_are_refused_at_each_door(tmp_path, part, cell):
    table = [{"question": "Where?", "retrieved": "a", "relevant": "a", part: cell}]

    for data in doors_of(table, tmp_path):
        with pytest.raises(rb.DataError, match=f"column '{part}': "):
            rb.evaluate(data)


@pytest.mark.parametrize("cell", ["[['a'], ['b']]", "[array(['a']), array(['b'])]"])
def test_inner_lists_are_gold_and_no_ranking(tmp_path, cell):
    table = [{"question": "Where?", "retrieved": "b;a", "relevant": cell}]

    for data in doors_of(table, tmp_path):
        assert rb.evaluate(data, ["recall@1"]).mean == {"recall@1": 1 / 2}
    for data in doors_of([{**table[0], "retrieved": cell, "relevant": "a"}], tmp_path):
        with pytest.raises(rb.DataError, match="column 'retrieved': "):
            rb.evaluate(data)


@pytest.mark.parametrize("cell", ["{'a', 'b'}", "frozenset({'a'})", "set()", {"a", "b"}])
def test_a_set_is_gold_and_no_ranking(cell):
    gold = {"question": "Where?", "retrieved": ["a", "c"], "relevant": cell}
    size = 2 if cell in ("{'a', 'b'}", {"a", "b"}) else 1

    if cell != "set()":
        assert rb.evaluate([gold], ["recall@5"]).mean["recall@5"] == 1 / size
    for part in ("retrieved", "contexts"):
        row = {"question": "Where?", "relevant": "a", part: cell}
        if isinstance(cell, str) and part == "contexts":
            row[part] = cell.replace("set()", "{'a'}")
        with pytest.raises(rb.DataError, match="a set has no order"):
            rb.evaluate([row])


GRADES = {"c1": 2, "c2": 1}


def map_tables():
    """Yield a table with a MAP column id -> grade, as each library writes it."""
    kind = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    column = pyarrow.array([[*GRADES.items()]], kind)
    table = {"question": ["Where?"], "retrieved": [["c2", "c1"]]}
    arrow = pyarrow.table({**table, "relevant": column})
    yield arrow
    yield arrow.to_pandas()
    yield polars.from_arrow(arrow)
    yield pd.DataFrame({**table, "relevant": [GRADES]})
    yield [{"question": "Where?", "retrieved": ["c2", "c1"], "relevant": str(GRADES)}]


@pytest.mark.parametrize("number", range(5))
def test_a_map_gives_grades(tmp_path, number):
    # (1 + 2 / log2(3)) / (2 + 1 / log2(3)) = .8597
    table = [*map_tables()][number]

    assert rb.evaluate(table, ["ndcg@10"]).mean["ndcg@10"] == pytest.approx(0.8597, abs=1e-4)
    if number == 0:
        parquet.write_table(table, tmp_path / "a.parquet")
        mean = rb.evaluate(tmp_path / "a.parquet", ["ndcg@10"]).mean
        assert mean["ndcg@10"] == pytest.approx(0.8597, abs=1e-4)


WORDS = st.lists(st.from_regex(r"[a-z]{3,6}( [a-z\[(']{1,4}){0,2}", fullmatch=True), min_size=1)


@settings(max_examples=12, deadline=None)
@given(WORDS, WORDS, st.sampled_from((*QUOTED, list)))
def test_lists_of_texts_are_lists_at_each_door(tmp_path_factory, contexts, answers, write):
    folder = tmp_path_factory.mktemp("texts")
    row = {"question": "Where?", "contexts": write(contexts), "reference": write(answers)}
    row["answer"] = answers[-1]

    for data in doors_of([row, {**row, "question": "When?"}], folder):
        collection = collection_of(data)
        assert [*collection.answers.values()] == [answers, answers]
        for answered in collection.recorded_answers["given"]:
            assert [passage.text for passage in answered.contexts] == contexts


@pytest.mark.parametrize(
    "text", ['{"name": "x"}', "[1, 2]", "(see above)", "array", "[redacted] x"]
)
def test_other_texts_in_brackets_stay(text):
    rows = [{"question": "Where?", "answer": text, "reference": text}]

    assert [*collection_of(rows).answers.values()] == [[text]]


def test_a_version_that_stands_alone_stays():
    # A retriever of the user returns `1.0`, too: it is the number 1 only beside an id 1
    rows = [{"question": "Where?", "relevant": "1.0"}, {"question": "When?", "relevant": "2.0;3"}]

    assert [*collection_of(rows).qrels.to_dict().values()] == [{"1.0": 1}, {"2.0": 1, "3": 1}]
    for documents in ({"1": "a", "2": "b", "3": "c"}, {1: "a", 2: "b", 3: "c"}):
        qrels = collection_of(rows, documents=documents).qrels
        assert [*qrels.to_dict().values()] == [{"1": 1}, {"2": 1, "3": 1}]


INDEXES = st.lists(st.one_of(st.integers(), st.none()), min_size=2, max_size=2)


@settings(max_examples=20, deadline=None)
@given(INDEXES)
def test_a_nameless_column_is_no_part(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("nameless")
    documents = [{"id": name, "text": f"{name} is hot"} for name in ("io", "sol")]
    table = [{"question": f"is {name} hot", "reference": "yes"} for name in ("io", "sol")]
    for name, rows in (("documents", documents), ("table", table)):
        indexed = [{"": number, **row} for number, row in zip(numbers, rows, strict=True)]
        pd.DataFrame(indexed).to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.json").write_text(json.dumps(indexed), encoding="utf-8")
    read = [read_corpus(folder / "documents.csv"), read_corpus(folder / "documents.json")]
    frame = pd.read_csv(folder / "documents.csv").rename(columns={"Unnamed: 0": ""})

    for corpus in (*read, corpus_of(frame)):
        assert [(d.id, d.title, d.metadata) for d in corpus.documents] == [
            ("io", "", {}), ("sol", "", {}),
        ]  # fmt: skip
    for file in ("table.csv", "table.json"):
        collection = collection_of(folder / file)
        assert not collection.recorded_answers
        assert [query.metadata for query in collection.queries] == [{}, {}]


def test_two_nameless_columns_of_a_multiindex(tmp_path):
    frame = pd.DataFrame({"question": ["a?", "b?"], "reference": ["x", "y"]})
    frame.index = pd.MultiIndex.from_tuples([(0, "a"), (1, "b")])
    frame.to_csv(tmp_path / "a.csv")

    collection = collection_of(tmp_path / "a.csv")

    assert [query.text for query in collection.queries] == ["a?", "b?"]
    assert not collection.recorded_answers


def test_a_long_cell_is_read_in_linear_time():
    for cell in ("[" * 3_000, "'" + " " * 40_000, "[" + " 1" * 20_000 + " x]", "(" * 40_000 + ")"):
        with pytest.raises(rb.DataError):
            rb.evaluate([{"question": "Where?", "retrieved": cell, "relevant": "a"}])
