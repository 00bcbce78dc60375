"""YAML and Python judge the value of an option alike, whatever it is and whoever declares it."""

import itertools
import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

import ragbench
from ragbench.cli import compare, score
from ragbench.comparison import method
from ragbench.comparison.evaluation import Evaluation
from ragbench.config import components, judges, schema
from ragbench.config.gates import gate_options
from ragbench.config.options import INVALID, check_value
from ragbench.config.tree import PythonReader, Report
from ragbench.data import LOADERS
from ragbench.errors import OptionError
from ragbench.generate import APPS, GENERATORS
from ragbench.registry import declared_options
from ragbench.rerank import RERANKERS
from ragbench.retrieve import RETRIEVERS
from ragbench.score.judge import JUDGES
from ragbench.score.retrieval import MEASURES, score_run
from ragbench.score.text import METRICS

FAMILIES = (LOADERS, RETRIEVERS, RERANKERS, GENERATORS, APPS, JUDGES, MEASURES, METRICS)
BLOCKS = (
    *(method.Method, score_run.Rules, Evaluation),
    *(components.Common, components.RerankerCommon, components.GeneratorCommon),
    components.AnswerCommon,
    *(judges.JudgeCommon, schema.Top, schema.BudgetLimits, schema.Match),
    *(schema.Fill, schema.RetrievalMetrics, schema.Statistics),
)
ODD = [
    *(None, True, False, 0, 1, -1, 10**20, 0.0, 0.5, 2.5, -0.5, 10.0, math.inf, math.nan),
    *("", "a", "1", "docid", "none", [], ["a"], ["a", 1], [1], [0.5], [None], [["a"]], ["x", {}]),
    *({}, {"a": "b"}, {"a": 1}, {"a": None}, {"a": {"b": 1}}, {"a": ["b"]}),
]


def options():
    for family in FAMILIES:
        for name in family.names():
            yield from declared_options(family.load(name)).values()
    yield from itertools.chain.from_iterable(declared_options(b).values() for b in BLOCKS)
    yield from gate_options().values()


def rules():
    """An option of each type and range: half of them differ from another one by name alone."""
    by_rule = {}
    for option in options():
        bounds = option.option and replace(option.option, help="")
        by_rule.setdefault(repr((option.annotation, bounds)), option)
    return by_rule.values()


def python_takes(option, value):
    try:
        option.check("owner", value)
    except OptionError:
        return False
    return True


def yaml_takes(option, value):
    report = Report()
    is_accepted = (
        check_value(PythonReader(report).read(value, ("x",)), option, report) is not INVALID
    )
    assert is_accepted is not bool(report)
    return is_accepted


@pytest.mark.costly
def test_yaml_and_python_take_the_same_values_of_every_option():
    pairs = list(itertools.product(rules(), ODD))
    differing = [
        (option.name, option.annotation, value)
        for option, value in pairs
        if python_takes(option, value) != yaml_takes(option, value)
    ]

    assert not differing
    assert len(pairs) > 3000


@pytest.mark.costly
def test_what_yaml_takes_stays_what_it_is_or_gets_its_type():
    # The converted value is equal to the written one, and has no mismatch either
    for option, value in itertools.product(rules(), ODD):
        if not option.mismatches(value):
            assert not option.mismatches(option.converted(value))


def test_elements_of_lists_are_checked_before_anything_is_made(assert_message):
    with pytest.raises(OptionError) as caught:
        ragbench.Judge(type="openai", models=[1, 2])

    assert_message(caught.value, "openai: models")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"resamples": 5}, "compare: resamples"),  # fewer resamples than an interval needs
        ({"confidence": 2}, "compare: confidence"),  # a share, not a number of standard errors
        ({"confidence": "0.9"}, "compare: confidence"),
        ({"family": "al"}, "compare: family"),
        ({"seed": -1}, "compare: seed"),
        ({"moved": -1}, "compare: moved"),
        ({"intersect": "x"}, "compare: intersect"),
    ],
)
def test_compare_judges_its_options_as_the_yaml_does(options, place, assert_message):
    scored = ragbench.evaluate_run({"q": {"d": 1.0}}, {"q": {"d": 1}}, ["mrr"])

    with pytest.raises(OptionError) as caught:
        ragbench.compare(scored, scored, **options)
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"confidence": "0.9"}, "evaluate: confidence"),
        ({"judged_only": "x"}, "score_run: judged_only"),
        ({"ties": "last"}, "score_run: ties"),
        ({"trec_eval": True}, "score_run: trec_eval"),
        ({"missing": "no"}, "score_run: missing"),
    ],
)
def test_evaluate_run_judges_its_options_as_the_yaml_does(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        ragbench.evaluate_run({"q": {"d": 1.0}}, {"q": {"d": 1}}, ["mrr"], **options)
    assert_message(caught.value, place)


def test_the_command_line_offers_the_words_that_are_declared():
    def words(command, option):
        (parameter,) = (candidate for candidate in command.params if candidate.name == option)
        return {*parameter.type.choices}

    rules, method_options = declared_options(score_run.Rules), declared_options(method.Method)
    for option in ("ties", "trec_eval", "missing"):
        assert words(score.command, option) == {*map(str, get_args(rules[option].annotation))}
    assert words(score.command, "no_relevant") == {*get_args(score_run.NoRelevant)}
    assert words(compare.command, "family") == {*get_args(method_options["family"].annotation)}


def test_numbers_of_numpy_are_numbers():
    scored = ragbench.evaluate_run(
        {"q": {"d": 1.0}}, {"q": {"d": 1}}, ["mrr"], confidence=np.float32(0.9)
    )
    options = {"seed": np.int64(3), "resamples": np.int64(500), "confidence": np.float32(0.9)}

    tree = ragbench.compare(scored, scored, **options).to_dict()

    assert (tree["seed"], tree["resamples"]) == (3, 500)
    assert type(tree["seed"]) is int
