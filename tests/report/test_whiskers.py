"""The axis of the interval drawings, and that nothing is drawn outside it."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragbench.report.html import charts
from tests.report.example import score, system
from tests.report.pages import lay_out

finite = st.floats(allow_nan=False, allow_infinity=False)


def draw(*values):
    """Draw one measure of as many systems as there are (mean, low, high)."""
    systems = [system(f"s{i}", {"m": score(v, "m")}) for i, v in enumerate(values)]
    (section,) = lay_out({"name": "drawing", "systems": systems}, {}).sections
    (chart,) = charts(section)
    return chart


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        pytest.param([(0.4, 0.3, 0.5)], ["0.00", "1.00"], id="shares have the whole axis"),
        pytest.param([(2, 1, 3), (5, 4, 6)], ["1.00", "6.00"], id="else the range of the data"),
        pytest.param([(7, 7, 7)], ["0.00", "7.00"], id="one value: from zero"),
        pytest.param([(-7, -7, -7)], ["-7.00", "0.00"], id="one negative value: to zero"),
    ],
)
def test_axis(values, axis):
    assert [text for _, _, text in draw(*values).axis] == axis


@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=4))
@example([(1.7e308, 1.7e308, 1.7e308)])
@example([(-1.7e308, -1.7e308, 1.7e308)])
@example([(-5e-324, -5e-324, 0.0)])
def test_everything_lies_on_the_axis(values):
    chart = draw(*values)

    places = [float(x) for x in re.findall(r"[MH](-?[\d.]+)", chart.lines + chart.dots)]
    assert len(places) == 3 * len(values)
    assert all(6 <= x <= 226 for x in places)


def test_a_system_without_a_value_keeps_its_row():
    chart = draw(None, (0.5, 0.4, 0.6))

    assert (chart.names, chart.dots) == ("s0\ns1", "M116 27h0")


def test_a_long_name_is_shortened_beside_the_drawing_only():
    (section,) = lay_out(
        {"name": "long", "systems": [system("x" * 40, {"m": score((0.5, 0.4, 0.6), "m")})]}, {}
    ).sections

    assert charts(section)[0].names == "x" * 25 + "…"
    assert section.systems == ("x" * 40,)
