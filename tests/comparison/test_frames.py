"""Data frames in `evaluate` and `run_experiment`: columns, index, slices, names and files."""

import csv
import io
import json
import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.testing import ChatServer
from tests.commands import run_command
from tests.lazy import Lazy

pd = Lazy("pandas")

COLUMNS = {"answer": "bot"}


@cache
def scored_frame():
    """Return three rows of an app, with an index that is not in order."""
    return pd.DataFrame(
        {
            "question": ["where one?", "where two?", "where three?"],
            "bot": ["Paris", "Rome", "Oslo"],
            "reference": ["Paris", "Bonn", "Oslo"],
            "tenant": pd.Categorical(["a", "b", "b"]),
            "asked": pd.to_datetime(["2026-01-05", "2026-01-06", "2026-01-12"]),
            "cause": [7, 8, 9],
        },
        index=[31, 12, 77],
    )


@pytest.fixture
def result():
    return rb.evaluate(scored_frame(), ["exact_match"], columns=COLUMNS, slices=["tenant"])


def test_scores_join_the_frame_by_its_index(result):
    scores = result.to_pandas()

    assert [*scores.columns] == ["exact_match"]
    assert scored_frame().join(scores)["exact_match"].tolist() == [1.0, 0.0, 1.0]


def test_texts_keep_every_column_with_its_type(result):
    frame = result.to_pandas(texts=True)

    parts = ["query_id", "question", "contexts", "answer", "reference"]
    further = ["tenant", "asked", "table.cause"]
    assert [*frame.columns] == [*parts, *further, "exact_match", "cause"]
    assert frame["tenant"].dtype == scored_frame()["tenant"].dtype
    assert frame["asked"].equals(scored_frame()["asked"])
    assert frame.groupby("tenant", observed=True)["exact_match"].mean().tolist() == [1.0, 0.5]
    assert frame["query_id"].tolist() == [*result.query_ids]


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_rows_that_are_left_out_keep_the_others_in_place(order, dropped):
    frame = pd.DataFrame(
        {
            "question": [f"where is {n}?" for n in order],
            "answer": [str(n) for n in order],
            "reference": ["3"] * 6,
            "keep": ["no" if n in dropped else "yes" for n in order],
        },
        index=[f"row {n}" for n in order],
    )
    if len(dropped) == 6:
        return
    scores = rb.evaluate(frame, ["exact_match"]).to_pandas()["exact_match"]

    expected = {f"row {n}": float(n == 3) for n in order if n not in dropped}
    assert scores.to_dict() == expected


def test_rows_and_files_have_their_further_columns(tmp_path):
    rows = [{"user_input": "where?", "response": "x", "reference": "x", "tenant": "a"}]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    for data in (rows, path):
        frame = rb.evaluate(data, ["exact_match"]).to_pandas(texts=True)
        assert frame.index.name == "query_id"
        assert frame["tenant"].tolist() == ["a"]


def test_several_index_levels_stay_levels():
    frame = scored_frame().set_index(["tenant", "cause"])
    scores = rb.evaluate(frame, ["exact_match"], columns=COLUMNS).to_pandas()

    assert scores.index.equals(frame.index)


def test_slices_have_their_own_means_and_intervals(result, assert_message):
    alone = rb.evaluate(scored_frame().iloc[1:], ["exact_match"], columns=COLUMNS)

    summary = result.slices["tenant"]["b"]["exact_match"]
    assert (summary.mean, summary.n) == (0.5, 2)
    assert summary.interval == alone.summary["exact_match"].interval
    assert_message(repr(result))
    assert "<caption>by tenant</caption>" in result._repr_html_()
    by_week = rb.evaluate(
        scored_frame().astype({"asked": str}),
        ["exact_match"],
        columns=COLUMNS,
        slices=["week(metadata.asked)"],
    )
    assert [*by_week.slices["week(metadata.asked)"]] == ["2026-W02", "2026-W03"]
    for wrong in (["tenent"], "tenant", ["week(asked)"]):
        with pytest.raises(rb.RagbenchError) as error:
            rb.evaluate(scored_frame(), ["exact_match"], columns=COLUMNS, slices=wrong)
        assert_message(error.value)


def test_the_worst_rows_come_first(result, assert_message):
    assert result.worst(2)["answer"].tolist() == ["Rome", "Paris"]
    ter = rb.evaluate(scored_frame(), ["ter"], columns=COLUMNS)
    assert ter.worst(1)["answer"].tolist() == ["Rome"], "a lower edit rate is better"
    for options in ({"n": 0}, {"score": "exakt"}):
        with pytest.raises(rb.OptionError) as error:
            result.worst(**options)
        assert_message(error.value)


def test_csv_has_the_rows_of_the_frame(result, tmp_path):
    result.to_csv(tmp_path / "scores.csv")
    text = (tmp_path / "scores.csv").read_text("utf-8")

    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["answer"] for row in rows] == ["Paris", "Rome", "Oslo"]
    assert [float(row["exact_match"]) for row in rows] == [1.0, 0.0, 1.0]
    assert result.to_csv() == text
    assert result.to_csv(texts=False).splitlines()[0] == "query_id,exact_match"


def test_an_experiment_keeps_index_and_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = scored_frame().rename(columns={"bot": "answer"})
    experiment = rb.run_experiment(
        {"name": "nb", "metrics": {"generation": ["exact_match"]}}, dataset=frame
    )

    scores = experiment.to_pandas().loc["given"]
    assert frame.drop(columns="cause").join(scores)["exact_match"].tolist() == [1.0, 0.0, 1.0]
    texts = experiment.to_pandas(texts=True)
    assert texts.groupby("tenant")["exact_match"].mean().to_dict() == {"a": 1.0, "b": 0.5}
    assert texts["table.cause"].tolist() == [7, 8, 9]
    loaded = rb.load_experiment(experiment.path).to_pandas(texts=True)
    assert loaded.index.names == ["system", "query_id"]
    assert loaded["tenant"].tolist() == ["a", "b", "b"]


def test_results_are_compared_under_their_names(result, assert_message):
    other = rb.evaluate(scored_frame().assign(bot="Paris"), ["exact_match"], columns=COLUMNS)
    comparison = rb.compare({"v1": result, "v2": other})

    [difference] = comparison.differences
    assert (difference["system"], difference["baseline"]) == ("v2", "v1")
    assert difference["difference"] == pytest.approx(-1 / 3)
    [moved] = comparison.record.moved
    assert [query.question for query in moved.queries] == ["where three?"]
    bars = comparison.plot(kind="queries")
    # one of three answers is worse: two bars without height, and one below the axis
    assert bars.words == "v2 against v1: 0 queries better, 1 worse, 2 equal"
    assert bars.svg().count("<rect") == 3
    latex = comparison.to_latex(caption="Bots", label="tab:bots", plain=True)
    assert [latex.count(text) for text in (r"\caption{Bots}", r"\label{tab:bots}")] == [1, 1]
    assert latex.count(r"\begin{tabular}{lr}") == latex.count(r"\begin{table}") == 1
    for base, runs in (({"v1": result}, []), ({"v1": result, "v2": other}, [other])):
        with pytest.raises(rb.OptionError) as error:
            rb.compare(base, *runs)
        assert_message(error.value)


def test_rankings_are_compared_as_they_are(tmp_path, assert_message):
    judged = {f"q{n}": {"d": 1} for n in range(8)}
    first = {query: {"x": 2.0, "d": 1.0} for query in judged}
    lists = {query: ["d", "x"] for query in judged}
    rows = [(query, "d", 1.0) for query in judged]
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    rb.write_run(rb.Run.from_dict(first), tmp_path / "first.run")

    for better in (lists, frame, rb.Run.from_dict({q: {"d": 1.0} for q in judged})):
        for base in (first, tmp_path / "first.run"):
            [entry] = rb.compare(base, better, qrels=judged, measures="mrr").differences
            assert entry["difference"] == 0.5
    [entry] = rb.compare({"a": first, "b": lists}, qrels=judged, measures=["mrr"]).differences
    assert (entry["system"], entry["difference"]) == ("b", 0.5)
    with pytest.raises(rb.DataError) as error:
        rb.compare(first, lists)
    assert_message(error.value)


@rb.metric("half")
def half(prediction, references):
    return 0.5


def is_short(prediction):
    return len(prediction) < 5


def first_grade(retrieved, judged):
    return float(retrieved[0] or 0)


def test_metrics_may_be_functions(assert_message):
    metrics = [rb.token_f1, half, is_short, rb.bleu]
    result = rb.evaluate(scored_frame(), metrics, columns=COLUMNS)

    assert [*result.mean] == ["token_f1", "half", "is_short", "bleu"]
    assert result.mean["half"] == 0.5
    assert result.mean["is_short"] == pytest.approx(2 / 3)
    texts = rb.evaluate_texts(["Paris"], ["Paris"], [rb.token_f1, is_short])
    assert texts.mean == {"token_f1": 1.0, "is_short": 0.0}
    rows = [{"question": "q", "retrieved": ["d", "x"], "relevant": ["d"]}]
    assert rb.evaluate(rows, [first_grade, rb.ndcg]).mean == {"first_grade": 1.0, "ndcg": 1.0}

    def right(prediction, references):
        return 1.0

    def judge(answer, contexts):
        return 1.0

    for wrong in (right, judge, lambda prediction: 1.0, rb.rouge):
        with pytest.raises(rb.OptionError) as error:
            rb.evaluate(scored_frame(), [wrong], columns=COLUMNS)
        assert_message(error.value)
    with pytest.raises(rb.OptionError) as error:
        rb.evaluate_texts(["a"], ["b"], [first_grade])
    assert_message(error.value)


def test_unlike_functions_of_one_name_are_not_compared():
    def half(prediction, references):
        return 0.25

    signatures = []
    for function in (half, globals()["half"]):
        result = rb.evaluate(scored_frame(), [function], columns=COLUMNS)
        signatures.append(result.signature["half"])
    assert signatures[0] != signatures[1]


def test_metrics_may_name_a_rubric_of_the_judge():
    rubric = {
        **{"name": "polite", "asks": "answer", "needs": ["answer"]},
        **{"scale": {1: "rude", 5: "polite"}, "method": "rating"},
    }
    with ChatServer(json.dumps({"reasoning": "x", "level": 4})) as server:
        judge = rb.Judge("m", [rubric], base_url=server.url)
        result = rb.evaluate(scored_frame(), ["polite", "rougeL"], judge=judge, columns=COLUMNS)

    assert [*result.mean] == ["rougeL", "polite"]
    assert not math.isnan(result.mean["polite"])


def test_a_saved_result_is_loaded_as_it_was(result, tmp_path):
    path = tmp_path / "result.json"
    result.save(path)
    loaded = rb.load(path)

    assert loaded.to_dict() == result.to_dict()
    assert repr(loaded) == repr(result)
    frame, expected = loaded.to_pandas(texts=True), result.to_pandas(texts=True)
    pd.testing.assert_frame_equal(
        frame, expected.astype({"tenant": str}), check_index_type=False, check_dtype=False
    )
    assert frame["asked"].dt.day.tolist() == [5, 6, 12]
    assert scored_frame().join(loaded.to_pandas())["exact_match"].tolist() == [1.0, 0.0, 1.0]
    [entry] = rb.compare(path, result).differences
    assert (entry["difference"], entry["n"]) == (0.0, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_saved_verdicts_and_runs(tmp_path):
    rows = [{"question": "q?", "answer": "a", "reference": "b", "contexts": ["c"]}]

    def quoted(answer, contexts):
        return answer in contexts

    judged = rb.evaluate(rows, ["exact_match"], judge=rb.Judge(type=quoted))
    run = rb.evaluate_run({"q1": ["d", "e"]}, {"q1": {"e": 1}, "q2": {"f": 1}}, ["mrr", "ndcg@5"])
    for number, evaluation in enumerate((judged, run)):
        path = tmp_path / f"{number}.json"
        evaluation.save(path)
        loaded = rb.load(path)
        assert loaded.to_dict() == evaluation.to_dict()
        assert loaded.verdicts == evaluation.verdicts
        assert loaded.causes == evaluation.causes
        assert loaded.signature == evaluation.signature
        assert loaded.counts == evaluation.counts


def test_what_cannot_be_saved_or_loaded_is_named(result, tmp_path, assert_message):
    odd = rb.evaluate(
        scored_frame().assign(thing=[object(), 1, 2]), ["exact_match"], columns=COLUMNS
    )
    with pytest.raises(rb.DataError) as error:
        odd.save(tmp_path / "odd.json")
    assert_message(error.value)
    assert not any(tmp_path.iterdir())
    path = tmp_path / "result.json"
    result.save(path)
    whole = json.loads(path.read_text("utf-8"))
    without_counts = {key: value for key, value in whole.items() if key != "pair_counts"}
    short = {**whole, "query_ids": whole["query_ids"][:2]}
    for wrong in ({}, {**whole, "schema": "ragbench.scores/1"}, short, without_counts):
        path.write_text(json.dumps(wrong), "utf-8")
        with pytest.raises(rb.DataError) as error:
            rb.load(path)
        assert_message(error.value)


@pytest.mark.parametrize("word", ["None", "nan", "<NA>", "null"])
def test_missing_values_that_became_texts_are_told(word, assert_message):
    frame = scored_frame().assign(bot=["Paris", word, word])
    with pytest.warns(UserWarning, match="counts as a text") as caught:
        result = rb.evaluate(frame, ["exact_match"], columns=COLUMNS)

    assert_message(caught[0].message)
    assert result.summary["exact_match"].n == 3
    with pytest.warns(UserWarning, match="missing_answer") as caught:
        rb.evaluate(
            scored_frame().assign(bot=["Paris", None, None]), ["exact_match"], columns=COLUMNS
        )
    assert len(caught) == 1


def test_a_missing_answer_fails_and_does_not_leave_the_mean(tmp_path):
    whole = scored_frame().assign(bot=["Paris", "Rome", "Oslo"])
    part = scored_frame().assign(bot=["Paris", None, None])
    with pytest.warns(UserWarning, match="missing_answer"):
        result = rb.evaluate(part, ["exact_match", "rouge1"], columns=COLUMNS)

    for score in ("exact_match", "rouge1"):
        assert result.summary[score].failed == {"missing_answer": 2}
        assert result.summary[score].bounds == (pytest.approx(1 / 3), 1.0)
    for name, frame in (("old", whole), ("new", part)):
        rows = frame.rename(columns={"bot": "answer"}).drop(columns="asked")
        rows.to_json(tmp_path / f"{name}.jsonl", orient="records", lines=True)
    options = ["gate", "old.jsonl", "new.jsonl", "-m", "exact_match", "--max-drop", "0.3"]
    assert run_command(*options, cwd=tmp_path).returncode == 3


@pytest.mark.parametrize("name", ["reference", "expected", "gold"])
def test_a_function_of_one_reference_gets_each_of_them(name):
    space = {}
    exec(f"def same(answer, {name}): return answer == {name}", space)
    frame = scored_frame().assign(reference=[["Lyon", "Paris"], ["Bonn"], ["Oslo"]])

    result = rb.evaluate(frame, [space["same"], "exact_match"], columns=COLUMNS)

    assert result["same"] == result["exact_match"] == [1.0, 0.0, 1.0]


def test_numbers_of_numpy_are_numbers():
    np = pytest.importorskip("numpy")

    def half_of(prediction):
        return np.float32(0.5)

    def is_long(prediction):
        return np.bool_(len(prediction) > 4)

    result = rb.evaluate(scored_frame(), [half_of, is_long], columns=COLUMNS)
    assert result["half_of"] == [0.5] * 3
    assert result["is_long"] == [1.0, 0.0, 0.0]


def test_measures_of_lists_are_the_measures_of_a_table():
    rows = [
        {"question": "a?", "retrieved": ["d1", "d2"], "relevant": ["d2"]},
        {"question": "b?", "retrieved": ["d3", "d1"], "relevant": ["d3"]},
    ]
    functions = [rb.f1, rb.recall, rb.precision, rb.average_precision, rb.ndcg, rb.mrr]

    result = rb.evaluate(rows, functions)

    assert [*result.mean] == [function.__name__ for function in functions]
    for function in functions:
        expected = [function(row["retrieved"], {*row["relevant"]}) for row in rows]
        assert result[function.__name__] == pytest.approx(expected)


def test_unpaired_rankings_have_the_queries_of_their_own(tmp_path):
    judged = {f"q{n}": {"d": 1} for n in range(40)}
    first = {f"q{n}": {"d": 1.0} if n % 4 else {"x": 2.0, "d": 1.0} for n in range(30)}
    second = {f"q{n}": {"d": 1.0} for n in range(30, 40)}
    rb.write_run(rb.Run.from_dict(first), tmp_path / "first.run")

    for base in (first, tmp_path / "first.run"):
        [entry] = rb.compare(base, second, qrels=judged, measures="mrr", unpaired=True).differences
        mean = sum(1.0 if n % 4 else 0.5 for n in range(30)) / 30
        assert entry["difference"] == pytest.approx(1 - mean)


def test_repeated_labels_and_columns_are_told(assert_message):
    with pytest.warns(UserWarning, match="labels of the index repeat"):
        rb.evaluate(scored_frame().set_axis([1, 1, 2]), ["exact_match"], columns=COLUMNS)
    twice = scored_frame().join(scored_frame()[["tenant"]].rename(columns={"tenant": "x"}))
    twice.columns = [*scored_frame().columns, "tenant"]
    with pytest.raises(rb.DataError) as error:
        rb.evaluate(twice, ["exact_match"], columns=COLUMNS)
    assert_message(error.value)


def test_wrong_arguments_are_named(result, tmp_path, assert_message):
    calls = [
        lambda: result.worst("5"),
        lambda: result.to_csv(io.StringIO()),
        lambda: rb.fuse({"a": {"q": ["d"]}, "b": {"q": ["d"]}}, weights=[1, 2]),
        lambda: rb.fuse([{"q": ["d"]}, {"q": ["d"]}]),
        lambda: rb.evaluate(scored_frame(), [rb.hit_rate], columns=COLUMNS),
        lambda: rb.evaluate(
            scored_frame().assign(cost=[1.0, math.inf, 2.0]), ["exact_match"], columns=COLUMNS
        ).save(tmp_path / "x"),
    ]
    for call in calls:
        with pytest.raises((rb.OptionError, rb.DataError)) as error:
            call()
        assert_message(error.value)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_table_is_no_run(tmp_path, suffix, assert_message):
    path = tmp_path / f"answers.{suffix}"
    path.write_text('{"question": "a?", "answer": "x"}\n', "utf-8")

    with pytest.raises(rb.DataError) as error:
        rb.compare(path, path)
    assert_message(error.value)


def test_texts_of_one_index_in_another_order_are_refused(assert_message):
    # Bug: pandas pairs two Series by their labels, and these were paired by position
    answers, gold = scored_frame()["bot"], scored_frame()["reference"]

    for references in (gold, gold.reset_index(drop=True), gold.to_list()):
        assert rb.evaluate_texts(answers, references, ["exact_match"]).mean["exact_match"] == 2 / 3
    with pytest.raises(rb.OptionError) as caught:
        rb.evaluate_texts(answers, gold.sort_index(), ["exact_match"])
    assert_message(caught.value, "evaluate_texts: references")
