"""Many predictions by many metrics: missing values, names, options, signatures, plug-ins."""

import subprocess
import sys

import numpy as np
import pytest

from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.score.retrieval.base import measure
from ragbench.score.text import GROUPS, METRICS
from ragbench.score.text.base import metric
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.notation import parse_metric, text_notes
from ragbench.score.text.tokenizers import remember_texts
from ragbench.types import Cause
from tests.score.text.scoring import score_texts


@metric("length", needs_reference=False, direction="lower", range=(0.0, float("inf")))
def length(prediction, references):
    """Count the characters."""
    return len(prediction)


@metric("broken")
def broken(prediction, references):
    """Return something else than a number."""
    return None


@metric("short", needs_reference=False)
def short(prediction, references):
    """Return 1 / length; an empty text raises."""
    return 1 / len(prediction)


@metric("outside", needs_reference=False, range=(0, 1))
def outside(prediction, references):
    """Return a value outside the range that it declares."""
    return float(prediction)


LENGTH = f"python:{__name__}:length"
OF_MODELS = ("bertscore", "semantic_similarity")
# Those that read tool calls; see `test_tool_calls.py`
OF_CALLS = ("tool_call_accuracy", "tool_call_correctness", "tool_call_count", "tool_call_f1")
# Those that read whether a question has an answer; see `test_abstention.py`
OF_REFUSALS = GROUPS["abstention"]
# Those that read gold documents; see `test_citation_gold.py`
OF_CITATIONS = GROUPS["citation_gold"]
# Those that read judgements of answers; see `test_judged_answers.py`
OF_JUDGEMENTS = (*GROUPS["citation_support"], *GROUPS["nuggets"], "words_over_limit")
OF_OTHERS = (*OF_MODELS, *OF_CALLS, *OF_REFUSALS, *OF_CITATIONS, *OF_JUDGEMENTS)
OF_WORDS = [name for name in METRICS.names() if name not in OF_OTHERS]


@pytest.mark.parametrize("name", OF_WORDS)
def test_every_metric_keeps_the_common_rules(name):
    assert_common_rules(name, bounds=(0.0, 1.0))


def test_metrics_of_models_keep_the_common_rules(minilm):
    assert_common_rules(f'bertscore(model="{minilm}",num_layers=6)', bounds=(-1.0, 1.0))
    assert_common_rules(f'semantic_similarity(model="{minilm}")', bounds=(-1.0, 1.0))


def assert_common_rules(name, bounds):
    predictions = ["the cat sat on mat 5", "", None, "x", None]
    references = [["the cat sat on mat 5"], ["a 5"], ["a 5"], [], []]
    (column,) = score_texts(predictions, references, [name])

    values = column.values.tolist()
    best, worst = (1.0, 0.0) if column.direction == "higher" else (0.0, 1.0)
    if column.aggregate == "mean":
        assert values[1] == worst, "an empty prediction is an answer"
        # six words: no longer n-gram; METEOR takes half a chunk's share of six words, cubed
        equal = {"rouge7": 0, "rouge8": 0, "rouge9": 0, "meteor": 1 - 0.5 / 6**3}.get(name, best)
        assert values[0] == pytest.approx(equal)
    assert np.isnan(values[2:]).all()
    causes = [Cause.NO_ANSWER, Cause.NO_REFERENCE, Cause.NO_REFERENCE]
    assert column.causes.tolist() == [Cause.SCORED, Cause.SCORED, *causes]
    bounds = {"ter": (0.0, np.inf)}.get(name, bounds)
    if column.aggregate == "corpus":
        bounds = (-np.inf, np.inf)
    assert (column.low, column.high) == bounds
    assert column.direction == ("lower" if name.startswith("ter") else "higher")
    assert column.signature.name == name.partition("(")[0]


def test_every_metric_says_what_it_equals_and_what_it_is_not_for():
    for name in METRICS.names():
        declaration = parse_metric(name).declaration
        assert len(declaration.equals) > 10, name
        assert len(declaration.not_for) > 10, name


def test_columns_come_in_order_under_the_callers_names():
    names = ["bleu", "rouge2.recall", "em", "rouge1", "rouge2.recall", "rouge1.fmeasure"]
    columns = score_texts(["a b"], [["a b c"]], names)
    assert [column.name for column in columns] == names
    assert [str(column.signature).split("|")[0] for column in columns] == [
        "bleu",
        "rouge2.recall",
        "exact_match",
        "rouge1",
        "rouge2.recall",
        "rouge1",
    ]
    assert columns[1].values.tolist() == [0.5]


def test_the_order_of_metrics_and_repeated_texts_changes_nothing():
    predictions = ["a b", "b a", "a b"] * 3
    references = [["a b", "b"], ["a"], ["a b", "b"]] * 3
    names = OF_WORDS
    together = score_texts(predictions, references, names)
    for name, column in zip(names, together, strict=True):
        (alone,) = score_texts(predictions[::-1], references[::-1], [name])
        np.testing.assert_array_equal(alone.values[::-1], column.values)


def signature(references=None, name="bleu"):
    if references is None:
        references = (["a"], ["b", "c"])
    (column,) = score_texts(["x"] * len(references), references, [name])
    return str(column.signature)


def test_a_signature_tells_apart_what_numbers_depend_on():
    start = "bleu|order:effective|max_order:4|smooth:exp|tokenize:13a|lowercase:no|gold:"
    assert signature().startswith(start)
    assert signature().endswith("|v:1")
    different = [
        signature(),
        signature(name="bleu(tokenize=char)"),
        signature(name="bleu(smooth=floor)"),
        signature(name="bleu(max_order=2)"),
        signature(name="bleu.corpus"),
        signature(references=(["a", "b"], ["c"])),
        signature(name="rouge1"),
        signature(name="rouge1(stemmer=true)"),
    ]
    assert len(set(different)) == len(different)
    assert signature(["a", "b"]) == signature([["a"], ["b"]]), "one text stands for a list of one"
    assert signature(["a", ["b", "c"]]) == signature([["c", "b"], "a"]), "the order says nothing"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("rogue1", "metric: type"),
        ("rouge1.recal", "metric: name"),
        ("exact_match.recall", "metric: name"),
        ("", "metric: type"),
    ],
)
def test_a_wrong_name_names_the_nearest(name, place, assert_message):
    with pytest.raises(OptionError) as caught:
        parse_metric(name)
    assert_message(caught.value, place)


def test_one_call_may_have_a_metric_with_several_options():
    names = ["rouge1", "rouge1(stemmer=true)", "rouge2(stemmer=true).recall", "contains"]
    columns = score_texts(["running far"], [["runs far"]], names)
    assert [column.values.tolist() for column in columns] == [[0.5], [1.0], [1.0], [0.0]]
    assert [column.name for column in columns] == names
    signatures = [str(column.signature).split("|gold")[0] for column in columns]
    assert signatures[1] == "rouge1|references:best|stemmer:yes|tokenize:auto"
    assert signatures[2].startswith("rouge2.recall|")


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("rouge1(stemmer=false)", "rouge1"),
        ("rouge1.fmeasure", "rouge1"),
        ("rouge1.recall( stemmer = true )", "rouge1(stemmer=true).recall"),
        ("bleu(smooth_value=0.5, smooth=floor)", "bleu(smooth=floor,smooth_value=0.5)"),
        ("bleu(smooth_value=null)", "bleu"),
        ("bleu(tokenize='zh')", "bleu(tokenize=zh)"),
        ("bleu.precision2(lowercase=true)", "bleu(lowercase=true).precision2"),
        ("bleu.corpus(max_order=2)", "bleu.corpus(max_order=2)"),
        ("corpus_bleu", "bleu.corpus"),
        ("corpus_chrf(word_order=2)", "chrf.corpus(word_order=2)"),
        ("em", "exact_match"),
    ],
)
def test_spellings_of_a_metric_have_one_canonical_name(name, canonical):
    assert parse_metric(name).canonical == canonical
    assert parse_metric(canonical).canonical == canonical
    assert parse_metric(parse_metric(name)).name == name


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("rouge1(stemer=true)", "rouge1: options"),
        ("rouge1(stemmer=1)", "rouge1: stemmer"),
        ("rouge1(stemmer)", "rouge1: options"),
        ("rouge1(stemmer=true,stemmer=false)", "rouge1: stemmer"),
        ("bleu(smooth=no)", "bleu: smooth"),
        ("bleu(max_order=true)", "bleu: max_order"),
        ("bleu(tokenize=13b)", "bleu: tokenize"),
        (
            "contains(x=1)",
            "contains: options",
        ),
        (f"{LENGTH}(x=1)", ""),
        ("rouge1(stemmer=true", "metric: name"),
        ("rouge1.recall(stemmer=true).precision", "metric: name"),
    ],
)
def test_bad_options_say_what_is_allowed(name, place, assert_message):
    with pytest.raises(OptionError) as caught:
        score_texts(["a"], [["a"]], [name])
    assert_message(caught.value, place)


def test_a_scorer_serves_one_system_after_the_other():
    scorer = TextScorer(["rouge1", "bleu", "bleu.corpus"])
    gold = [["the cat sat"], ["a dog", "the dog"], []]
    done = []
    for predictions in (["the cat", "dog", "x"], ["a cat sat", None, "y"]):
        columns = scorer.score(predictions, gold, done.append)
        for column, alone in zip(
            columns, score_texts(predictions, gold, scorer.metrics), strict=True
        ):
            np.testing.assert_array_equal(column.values, alone.values)
    assert sum(done) == 2 * scorer.steps(3) == 18


def test_bad_inputs_say_where(assert_message):
    with pytest.raises(DataError) as caught:
        score_texts(["a", "b"], [["a"]], ["bleu"])
    assert_message(caught.value)
    with pytest.raises(DataError, match=r"predictions\[1\]: found 3"):
        score_texts(["a", 3], [["a"], ["b"]], ["bleu"])
    with pytest.raises(DataError) as caught:
        score_texts(["a"], [[None]], ["bleu"])
    assert_message(caught.value)


def test_a_metric_of_the_users(assert_message):
    (column,) = score_texts(["abc", None], [[], []], [LENGTH])
    assert column.values[0] == 3.0
    assert column.causes.tolist() == [Cause.SCORED, Cause.NO_ANSWER]
    assert (column.direction, column.high) == ("lower", float("inf"))
    with pytest.raises(AdapterError) as caught:
        score_texts(["a"], [["a"]], [f"python:{__name__}:broken"])
    assert_message(caught.value)
    with pytest.raises(AdapterError) as caught:
        score_texts(["a"], [["a"]], ["python:math:sqrt"])
    assert_message(caught.value)
    with pytest.raises(OptionError) as caught:
        parse_metric("python:math:pi")
    assert_message(caught.value)


def test_an_exception_of_a_declared_metric_names_the_metric():
    message = r"metric 'python:.*:short': ZeroDivisionError: division by zero"
    with pytest.raises(AdapterError, match=message):
        score_texts(["a", ""], [[], []], [f"python:{__name__}:short"])


@pytest.mark.parametrize("value", ["-0.1", "1.1", "inf"])
def test_a_declared_metric_stays_in_its_range(value):
    name = f"python:{__name__}:outside"
    message = rf"metric '{name}': found {value}, allowed: finite numbers from 0 to 1"
    with pytest.raises(AdapterError, match=message):
        score_texts([value], [[]], [name])
    (column,) = score_texts(["1.0000000001", "nan"], [[], []], [name])
    assert column.causes.tolist()[0] == Cause.SCORED


@pytest.mark.parametrize("ends", [1, None, (1, 0), (0, 0), (0,), (0, "1"), "ab"])
def test_a_range_is_two_numbers(ends, assert_message):
    for declare in (metric("mine", range=ends), lambda function: measure("mine", range=ends)):
        with pytest.raises(OptionError) as caught:
            declare(length)
        assert_message(caught.value, "mine: range")


def test_a_metric_has_its_name_in_brackets(assert_message):
    with pytest.raises(OptionError) as caught:
        metric(length)  # a bare `@metric`
    assert_message(caught.value)


def test_notes_count_the_texts_that_rouge_cannot_see(assert_message):
    predictions, references = ["東京", "Tokyo", None, "!"], [["данные", "a"], [], [], ["1"]]
    _, note = text_notes(predictions, references, ["bleu", "rougeL(tokenize=rouge)"])
    assert_message(note)
    assert text_notes(predictions, references, ["chrf"]) == []
    assert text_notes(["Tokyo"], [["a"]], ["rouge1"]) == []


@pytest.mark.costly
def test_single_texts_load_nothing_heavy():
    code = """
import sys
from ragbench.score.text.rouge import rouge
from ragbench.score.text.bleu import bleu
from ragbench.score.text.chrf import chrf
from ragbench.score.text.squad import exact_match
from ragbench.score.text.squad import token_f1
from ragbench.score.text.contains import contains
from ragbench.score.text.numeric_match import numeric_match
rouge("a b", "a"), bleu("a b", "a"), chrf("a b", "a")
exact_match("a", "b"), token_f1("a", "b"), contains("a 1", "b 1"), numeric_match("1", "1")
heavy = {"numpy", "nltk", "yaml", "pydantic", "click", "torch", "sklearn"}
print(sorted(heavy & set(sys.modules)))
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


def test_texts_that_come_again_are_tokenized_once():
    split = []

    def tokenize(text):
        split.append(text)
        return text.split()

    texts = remember_texts(tokenize)
    for _ in range(2):
        for gold in ("the cat", "a dog"):
            assert texts(gold) == gold.split()
    assert split == ["the cat", "a dog"]


def test_a_system_with_other_references_is_signed_by_them():
    # Facts of the references are stored for the next system with the same references
    scorer = TextScorer(["contains"])

    def signed(gold):
        return str(scorer.score(["a cat"], gold)[0].signature)

    first = signed([["a cat"]])
    assert signed([["a", "cat"]]) != first
    assert (
        signed(["a cat"])
        == first
        == str(score_texts(["a cat"], ["a cat"], ["contains"])[0].signature)
    )
