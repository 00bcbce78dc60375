"""A good and a bad case for every built-in rubric: well-formed and no example."""

from pathlib import Path

import pytest
import yaml

from ragbench.score.judge.rubric import built_in_rubrics, load_rubric

CASES = yaml.safe_load(Path(__file__).with_name("rubric_cases.yaml").read_text(encoding="utf-8"))


def test_every_rubric_has_its_cases():
    assert set(CASES) == set(built_in_rubrics())


@pytest.mark.parametrize("name", built_in_rubrics())
def test_a_case_has_what_the_rubric_needs_and_is_no_example(name):
    rubric, good, bad = load_rubric(name), CASES[name]["good"], CASES[name]["bad"]
    assert set(good) == set(bad) == set(rubric.needs)
    assert good != bad
    for example in rubric.examples:
        assert {key: example.get(key) for key in good} not in (good, bad)
