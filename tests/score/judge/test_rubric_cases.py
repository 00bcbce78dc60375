"""A good and a bad case for every built-in rubric: well-formed and no example."""

from itertools import product
from pathlib import Path

import yaml

from ragbench.score.judge.rubric import built_in_rubrics, load_rubric

CASES = yaml.safe_load(Path(__file__).with_name("rubric_cases.yaml").read_text(encoding="utf-8"))


def test_every_rubric_has_its_cases():
    assert set(CASES) == set(built_in_rubrics())


def test_a_case_has_what_the_rubric_needs_and_is_no_example():
    for name, side in product(built_in_rubrics(), ("good", "bad")):
        rubric, case = load_rubric(name), CASES[name][side]
        assert set(case) == set(rubric.needs), f"{side} case of {name}"
        assert CASES[name]["good"] != CASES[name]["bad"], f"{side} case of {name}"
        for example in rubric.examples:
            assert {key: example.get(key) for key in case} != case, f"{side} case of {name}"
