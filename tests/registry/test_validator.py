"""YAML and Python judge the value of an option alike, whatever it is and whoever declares it."""

import itertools
import math

import pytest

import ragbench
from ragbench.config import components, judges, schema
from ragbench.config.gates import gate_options
from ragbench.config.options import INVALID, check_value
from ragbench.config.problems import Report
from ragbench.config.tree import PythonReader
from ragbench.data import LOADERS
from ragbench.errors import OptionError
from ragbench.generate import APPS, GENERATORS
from ragbench.registry import declared_options
from ragbench.rerank import RERANKERS
from ragbench.retrieve import RETRIEVERS
from ragbench.score.judge import JUDGES
from ragbench.score.retrieval import MEASURES
from ragbench.score.text import METRICS

FAMILIES = (LOADERS, RETRIEVERS, RERANKERS, GENERATORS, APPS, JUDGES, MEASURES, METRICS)
BLOCKS = (
    *(components.Common, components.RerankerCommon, components.GeneratorCommon),
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


def python_takes(option, value):
    try:
        option.check("owner", value)
    except OptionError:
        return False
    return True


def yaml_takes(option, value):
    report = Report()
    taken = check_value(PythonReader(report).read(value, ("x",)), option, report) is not INVALID
    assert taken is not bool(report)
    return taken


@pytest.mark.costly
def test_yaml_and_python_take_the_same_values_of_every_option():
    pairs = list(itertools.product(options(), ODD))
    differing = [
        (option.name, option.annotation, value)
        for option, value in pairs
        if python_takes(option, value) != yaml_takes(option, value)
    ]

    assert not differing
    assert len(pairs) > 8000


@pytest.mark.costly
def test_what_yaml_takes_stays_what_it_is_or_gets_its_type():
    """The converted value is equal to the written one, and has no mismatch either."""
    for option, value in itertools.product(options(), ODD):
        if not option.mismatches(value):
            assert not option.mismatches(option.converted(value))


def test_elements_of_lists_are_checked_before_anything_is_made():
    with pytest.raises(OptionError) as caught:
        ragbench.Judge(type="openai", models=[1, 2])

    assert str(caught.value) == "openai: models: found [1, 2], allowed: a list of text, or null"
