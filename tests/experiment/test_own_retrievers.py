"""Functions of users as retrievers, generators and apps, in runs: shapes, threads and limits."""

import functools
import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import AdapterError
from ragbench.experiment.runner import run_experiment
from ragbench.generate.python import as_app, as_generator, declared
from ragbench.retrieve.python import as_retriever, read_hits, to_retriever
from ragbench.types import Document, Query
from tests.lazy import Lazy

pd = Lazy("pandas")

ORDER = {"when": ["c1", "c2"], "what": ["c2", "c1"], "may": ["c3", "c4"], "is": ["c4", "c1"]}
QUESTIONS = dict(zip(ORDER, ["c1", "c2", "c3", "c4"], strict=True))
CONNECTION = sqlite3.connect(":memory:")


def first(question):
    return ORDER[question.split()[0]]


async def asynchronous(question, top_k):
    return first(question)[:top_k]


async def parts(question):
    for hit in first(question):
        yield hit


def by_keyword(question, *, top_k):
    return first(question)[:top_k]


def pieces(question, top_k):
    yield from first(question)


@pytest.fixture
def run(tmp_path):
    """Run an experiment with one retriever over four questions; return its result."""

    def of(retriever, **more):
        rows = [f"{n},{word} is it,{gold}\n" for n, (word, gold) in enumerate(QUESTIONS.items())]
        (tmp_path / "qa.csv").write_text("id,question,relevant\n" + "".join(rows))
        return run_experiment(
            {
                "name": "own",
                "dataset": {"type": "records", "path": str(tmp_path / "qa.csv")},
                "retrievers": {} if callable(retriever) else {"mine": retriever},
                "metrics": {"retrieval": {"measures": ["mrr"]}},
                "output": str(tmp_path / "runs"),
                "cache": str(tmp_path / "cache"),
                **more,
            },
            retrievers={"mine": retriever} if callable(retriever) else None,
        )

    return of


def with_weight(question, alpha=0.5, mode="hybrid"):
    return first(question) if (alpha, mode) == (0.5, "hybrid") else []


def depth_behind_another(question, index=None, top_k=10):
    return first(question)[:top_k] if index is None else []


def usual_depth(question, k=1):
    return first(question)[:k]


def numbers_alone(*arguments):
    return first(arguments[0])[: arguments[1]]


@functools.wraps(asynchronous)
def decorated(*arguments):
    return first(arguments[0])[: arguments[1]]


@pytest.mark.parametrize(
    "function",
    [
        first,
        asynchronous,
        parts,
        by_keyword,
        pieces,
        with_weight,
        depth_behind_another,
        usual_depth,
        numbers_alone,
        decorated,
    ],
)
def test_every_shape_of_a_function_gives_its_hits(function):
    retriever = as_retriever(function, {}, "retriever 'mine'")

    answers = retriever.retrieve([Query("q1", "what is it"), Query("q2", "may it")], 2)

    assert answers == [["c2", "c1"], ["c3", "c4"]]


def test_top_k_goes_to_the_parameter_of_its_name():
    class Search:
        def retrieve(self, queries, weight=1.0, top_k=10):
            return [first(query.text)[:top_k] if weight == 1.0 else [] for query in queries]

    retriever = to_retriever(as_retriever(Search(), {}, "retriever 'mine'"))

    assert retriever.retrieve([Query("q1", "what is it")], 2) == [["c2", "c1"]]


def test_contexts_go_to_the_parameter_of_their_name():
    def function(question, temperature=0.5, contexts=()):
        return f"{temperature} {len(contexts)}"

    def without(question, temperature=0.5):
        return f"{temperature}"

    for target in (function, SimpleNamespace(generate=function)):
        generator = declared(as_generator(target, {}, "mine"))
        assert generator.generate_for(Query("q1", "?"), [Document("a")]) == "0.5 1"
    assert as_generator(without, {}, "mine").generate("?", [Document("a")]) == "0.5"


def test_pieces_are_joined_and_a_list_of_answers_is_refused():
    def nothing(question):
        yield from ()

    assert as_app(nothing, {}, "mine").answer("?").answer == ""
    assert as_app(lambda question: ["yes"], {}, "mine").answer("?").answer == "yes"
    with pytest.raises(AdapterError, match=r"found \['yes', 'no'\] instead of an answer"):
        as_app(lambda question: ["yes", "no"], {}, "mine").answer("?")


@pytest.mark.parametrize("adapter", [as_generator, as_app])
def test_answers_may_be_awaited_or_come_in_pieces(adapter):
    async def awaited(question):
        return f"{question}!"

    async def streamed(question):
        for piece in (question, "!"):
            yield piece

    for function in (awaited, streamed):
        component = adapter(function, {}, "mine")
        arguments = ["yes", []] if adapter is as_generator else ["yes"]
        answer = getattr(component, "generate" if adapter is as_generator else "answer")(*arguments)
        assert getattr(answer, "answer", answer) == "yes!"


@given(st.permutations("abcdef"), st.randoms())
def test_a_frame_of_pyterrier_is_read_by_its_ranks(order, random):
    frame = pd.DataFrame({"qid": "1", "docid": range(6), "docno": order, "rank": np.arange(6)})
    frame["score"] = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    shuffled = frame.iloc[random.sample(range(6), 6)]

    assert [hit.id for hit in read_hits(shuffled, 10).documents] == order


@given(st.sets(st.text("abc", min_size=1)), st.sampled_from([set, frozenset]))
def test_a_set_is_no_ranking(ids, kind):
    with pytest.raises(AdapterError, match="found a set, which has no order"):
        read_hits(kind(ids), 3)


def test_empty_rankings_are_counted(run, assert_message):
    experiment = run(lambda question: first(question) if question[0] == "w" else [])
    assert_message(experiment.summary["warnings"])


def test_a_store_that_refuses_many_hits_names_top_k(run, assert_message):
    def search(question, top_k):
        if top_k > 4:
            raise ValueError(f"results {top_k} cannot be greater than the number of elements 4")
        return first(question)

    experiment = run(search)

    assert_message(experiment.summary["warnings"])
    rules = {"retrieval": {"measures": ["mrr"], "top_k": 4}}
    assert run(search, metrics=rules).summary["systems"][0]["scores"]["mrr"]["mean"] == 1.0


@pytest.mark.parametrize(
    "words",
    [
        "Cannot return the results in a contiguous 2D array. Probably ef or M is too small",
        "n_results must not be above the number of vectors",
        "Result window is too large",
    ],
)
def test_a_store_that_refuses_the_number_of_hits_in_other_words_names_top_k(
    run, words, assert_message
):
    def search(question, top_k):
        raise RuntimeError(words)

    [warning] = [w for w in run(search).summary["warnings"] if words[:9] in w]
    assert_message(warning)


def test_a_connection_of_another_thread_says_how(run):
    experiment = run(lambda question: CONNECTION.execute("select 1").fetchall())
    thread_warnings = [
        warning for warning in experiment.summary["warnings"] if "ProgrammingError" in warning
    ]
    assert "connect in the function" in thread_warnings[0]


def test_a_run_file_of_equal_scores_is_told(run, tmp_path):
    (tmp_path / "tied.run").write_text("0 Q0 c1 1 0 r\n0 Q0 c2 2 0 r\n1 Q0 c2 1 0 r\n")
    experiment = run({"type": "run_file", "path": str(tmp_path / "tied.run")})
    assert any("$5 = 1 / $4" in note for note in experiment.summary["notes"])


@pytest.mark.parametrize("block", ["retrievers", "generators", "apps"])
def test_an_entry_of_a_config_is_no_object(block, tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    data = {"queries": [{"id": "q", "text": "a"}], "documents": [{"id": "d", "text": "a"}]}
    data["qrels"] = {"q": {"d": 1}}
    components = {"retrievers": {"one": lambda question, top_k: ["d"]}}
    components[block] = {"mine": {"type": "bm25"}}

    with pytest.raises(AdapterError) as error:
        run_experiment(dataset=data, **components)

    assert_message(error.value)
