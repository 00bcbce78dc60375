"""Public types: half of the programs that mypy checks have a planted error."""

import pytest

from ragbench.score.retrieval.base import MeasureFields, MeasureSpec
from ragbench.score.text.base import Declaration, MetricFields
from tests.notebook import programs
from tests.typed_programs import PAGE, planted_errors, reported_errors


def test_an_error_is_read_where_it_is_planted():
    text = "import ragbench\n\nragbench.ndcg()  # error: call-arg\n"
    output = 'program_0.py:3: error: Missing positional argument "qrels"  [call-arg]'

    assert planted_errors([text]) == reported_errors(output) == [(0, 3, "call-arg")]


def test_half_of_the_programs_have_one_planted_error():
    texts = programs(PAGE)
    programs_with_error = [number for number, _, _ in planted_errors(texts)]

    assert len(texts) >= 30
    assert programs_with_error == sorted({*programs_with_error})
    assert abs(2 * len(programs_with_error) - len(texts)) <= 1


@pytest.mark.parametrize(
    ("keywords", "declaration", "named"),
    [
        (MetricFields, Declaration, ["names", "function"]),
        (MeasureFields, MeasureSpec, ["name", "low", "high", "group"]),
    ],
)
def test_the_keywords_of_a_decorator_are_the_fields_of_its_declaration(
    keywords, declaration, named
):
    fields = declaration.__annotations__

    assert [*named, *keywords.__annotations__] == [*fields]
    for name, annotation in keywords.__annotations__.items():
        assert annotation.__forward_arg__ == fields[name]
