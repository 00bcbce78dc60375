"""Citations against gold ids: values by hand, sets by brute force, causes, and whole runs."""

import json
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.config.load import load_config
from ragbench.errors import DataError, OptionError
from ragbench.score.text import GROUPS
from ragbench.score.text.base import AnswerSources
from ragbench.score.text.citation_gold import citation_f1_of_gold
from ragbench.score.text.columns import TextScorer
from ragbench.types import Cause
from tests.conformance.reference import Pairs, Part, Reference

METRICS = PRECISION, RECALL, F1 = GROUPS["citation_gold"]


def columns_of(answers, sources, metrics=METRICS):
    return TextScorer(metrics).score(answers, [()] * len(answers), sources=sources)


def values_of(answer, documents, gold):
    columns = columns_of([answer], [AnswerSources(documents, frozenset(gold))])
    return [float(column.values[0]) for column in columns]


def sets_by_hand(numbers, documents, gold):
    """Precision, recall and F1 of sets, without the code of ragbench."""
    names = dict(enumerate(documents, start=1))
    cited = {names.get(number, f"none {number}") for number in numbers}
    hits = sum(document in gold for document in cited)
    precision = hits / len(cited) if cited else math.nan
    recall = hits / len(gold) if gold else math.nan
    if not gold:
        return math.nan, math.nan, math.nan
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return precision, recall, f1


def random_answers(times):
    """Yield 10,000 answers with up to six markers in any form, their passages and gold."""
    source = Random(54)
    forms = ("[{}]", "[doc{}]", "【{}】", "<cite>{}</cite>", "[Source {}]")
    for _ in range(10_000 * times):
        documents = source.choices("abcdef", k=source.randint(0, 6))
        gold = source.sample("abcdefgh", source.randint(0, 3))
        numbers = [source.randint(0, 8) for _ in range(source.randint(0, 6))]
        parts = [source.choice(forms).format(number) for number in numbers]
        yield numbers, "".join(f"It is so {part}. " for part in parts) or "No.", documents, gold


def of_sets(metric):
    def pairs(times) -> Pairs:
        cases = list(random_answers(times))
        sources = [AnswerSources(documents, frozenset(gold)) for _, _, documents, gold in cases]
        (column,) = columns_of([answer for _, answer, _, _ in cases], sources, [metric])
        place = METRICS.index(metric)
        for value, (numbers, _, documents, gold) in zip(column.values, cases, strict=True):
            yield value, sets_by_hand(numbers, documents, gold)[place]

    return pairs


CONFORMS_TO = [Reference(n, "plainly: sets of documents", 1e-12, of_sets(n)) for n in METRICS]


@pytest.mark.parametrize("reference", CONFORMS_TO, ids=lambda reference: reference.name)
def test_thousands_of_answers_equal_sets(reference):
    ours, theirs = zip(*reference.pairs(Part(4)), strict=True)

    assert list(ours) == pytest.approx(list(theirs), nan_ok=True, abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # passages of io, europa, io; gold io and titan
        ("Hot [1].", (1 / 1, 1 / 2, 2 / 3)),
        ("Hot [1][3], hot [1].", (1 / 1, 1 / 2, 2 / 3)),
        ("Hot [1, 2].", (1 / 2, 1 / 2, 1 / 2)),
        ("Hot [1-3].", (1 / 2, 1 / 2, 1 / 2)),
        ("Hot [1] and [9].", (1 / 2, 1 / 2, 1 / 2)),
        ("Hot [0] and [9].", (0, 0, 0)),
        ("Cold [2].", (0, 0, 0)),
        ("In 1932 `x[1]` (1).", (math.nan, 0, 0)),
        ("", (math.nan, 0, 0)),
    ],
)
def test_values_by_hand(answer, expected):
    values = values_of(answer, ["io", "europa", "io"], ["io", "titan"])

    assert values == pytest.approx(expected, nan_ok=True)


def test_a_marker_in_parentheses_is_read_by_option():
    sources = AnswerSources(["io"], frozenset(["io"]))

    assert citation_f1_of_gold("It is hot (1).", sources) == 0
    assert citation_f1_of_gold("It is hot (1).", sources, citations="round") == 1


def test_a_note_names_markers_that_are_not_read(assert_message):
    row = {"question": "What?", "answer": "Hot (1).", "contexts": passages("io")}

    with pytest.warns(UserWarning, match="citation_gold"):
        result = rb.evaluate([{**row, "relevant": ["io"], "reference": "Io (1)"}], [RECALL, F1])

    assert_message([note for note in result.notes if "citation_gold" in note])
    read = rb.evaluate([{**row, "relevant": ["io"]}], [f"{RECALL}(citations=round)"])
    assert read.mean == {f"{RECALL}(citations=round)": 1.0}
    assert not read.notes


@given(st.lists(st.integers(1, 4), max_size=5), st.sets(st.sampled_from("abcd"), min_size=1))
def test_order_and_repetition_of_markers_change_nothing(numbers, gold):
    def values(cited):
        return values_of(" ".join(f"So [{n}]." for n in cited), list("abcd"), gold)

    assert values(numbers) == pytest.approx(values([*reversed(numbers), *numbers]), nan_ok=True)


def test_causes():
    gold = frozenset(["io"])
    rows = {
        "It is hot [1].": (AnswerSources(["io"], None), Cause.NO_JUDGEMENTS),
        "It is so [1].": (AnswerSources(["io"], frozenset()), Cause.NO_RELEVANT),
        None: (AnswerSources(["io"], gold), Cause.NO_ANSWER),
        "So [1].": (AnswerSources(None, gold), Cause.NO_CONTEXTS),
        "Yes [1].": (AnswerSources(["io"], gold, has_known_ids=False), Cause.UNKNOWN_IDS),
        "Hot.": (AnswerSources(["io"], gold), Cause.NO_CITATIONS),
        "Hot [1].": (AnswerSources([], gold), Cause.SCORED),
    }
    precision, recall, f1 = columns_of(list(rows), [sources for sources, _ in rows.values()])

    causes = [cause for _, cause in rows.values()]
    assert precision.causes.tolist() == causes
    causes[-2] = Cause.SCORED
    assert recall.causes.tolist() == f1.causes.tolist() == causes
    assert str(precision.signature).startswith("citation_gold.precision|citations:brackets|qrels:")


def test_texts_alone_are_refused(assert_message):
    with pytest.raises(OptionError) as caught:
        rb.evaluate_texts(["a [1]"], ["a"], [F1])
    assert_message(caught.value, "metric: name")


def passages(*names):
    return [{"id": name, "text": f"Text of {name}."} for name in names]


ROWS = [
    ("q1", "Hot [1] and [2].", passages("io", "europa"), ["io", "titan"]),
    ("q2", "Cold.", passages("io", "europa"), ["europa"]),
    ("q3", "Far [2].", passages("io", "europa"), ["europa"]),
]
# Precision, recall and F1 of the rows, by hand.
EXPECTED = [(1 / 2, 1 / 2, 1 / 2), (math.nan, 0, 0), (1, 1, 1)]


def records():
    keys = ("id", "answer", "contexts", "relevant")
    return [{"question": f"What of {row[0]}?", **dict(zip(keys, row, strict=True))} for row in ROWS]


def test_evaluate_and_the_scorer_by_hand():
    result = rb.evaluate(records(), metrics=METRICS)

    for place, name in enumerate(METRICS):
        values = [row[place] for row in EXPECTED]
        assert result[name] == pytest.approx(values, nan_ok=True)
        score = rb.scorer(name)
        values = [None if math.isnan(value) else value for value in values]
        for row, value in zip(records(), values, strict=True):
            gold = {"relevant": row["relevant"]}
            assert score(row["question"], row, gold)["score"] == value
    outputs = {"answer": "So [2].", "retrieved": ["a", "b"]}
    assert rb.scorer(F1)("Why?", outputs, ["b"])["score"] == 1


def test_a_run_and_its_gates_by_hand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(json.dumps(row) + "\n" for row in records())
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")

    experiment = rb.run_experiment(
        {
            "dataset": {"type": "records", "path": "rows.jsonl"},
            "metrics": {"generation": ["citation_gold"], "retrieval": {"measures": []}},
            "gates": [{"measure": RECALL, "min": 0.6}],
        }
    )

    (scores,) = experiment.per_query.values()
    for place, name in enumerate(METRICS):
        values = [row[place] for row in EXPECTED]
        assert list(scores[name].values()) == pytest.approx(values, nan_ok=True)
    (system,) = experiment.summary["systems"]
    counts = system["scores"][PRECISION]
    assert (counts["mean"], counts["n"], counts["not_applicable"]) == (0.75, 2, 1)
    assert [gate["verdict"] for gate in experiment.summary["gates"]] == ["fail"]


def cites_two(question, contexts):
    return "It is so [1][2]."


def test_chunks_and_paths_count_as_their_documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documents = {f"d{n}": f"Moon {n} has rings. " * 20 for n in range(1, 4)}
    corpus = [json.dumps({"id": name, "text": text}) for name, text in documents.items()]
    (tmp_path / "corpus.jsonl").write_text("\n".join(corpus), encoding="utf-8")
    row = {"id": "q1", "question": "Which rings has moon 1?", "relevant": ["d1"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")

    def app(question):
        return {"answer": "It is so [1][2].", "contexts": passages("/srv/d1", "d3")}

    experiment = rb.run_experiment(
        {
            "dataset": {"type": "records", "path": "rows.jsonl", "corpus": "corpus.jsonl"},
            "retrievers": {"cut": {"type": "bm25", "chunk": {"by": "words", "size": 8}}},
            "metrics": {"generation": [PRECISION]},
        },
        generators={"mine": cites_two},
        apps={"app": app},
    )

    values = {name: scores.get(PRECISION) for name, scores in experiment.per_query.items()}
    # both chunks of the first system are of d1
    assert values == {"cut": None, "cut/mine": {"q1": 1.0}, "app": {"q1": 0.5}}


def test_data_without_gold_documents_are_refused(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    row = {"question": "Why?", "answer": "So [1].", "contexts": ["So."], "reference": "So."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    config = {
        "dataset": {"type": "records", "path": "rows.jsonl"},
        "metrics": {"generation": ["citation_gold"]},
    }

    assert load_config(config).metrics.generation
    with pytest.raises(DataError) as caught:
        rb.run_experiment(config)
    assert_message(caught.value, "metrics.generation")
