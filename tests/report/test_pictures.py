"""Pictures: marks lie where the numbers are, and every picture is told in words."""

from __future__ import annotations

import re
from itertools import chain
from unicodedata import east_asian_width
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from ragbench.pictures.svg import Drawing, Scale
from ragbench.records.comparison import SliceDifference, no_comparisons
from ragbench.report.base import MeasureColumn, ScoreCell
from ragbench.report.page.html import interval_bars
from ragbench.report.pictures import (
    causes_picture,
    pictures,
    score_pictures,
    slice_pictures,
)
from tests.report import example
from tests.report.asked import results
from tests.report.pages import records
from tests.report.strategies import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def drawn_scores(summary, comparisons):
    return [*chain.from_iterable(score_pictures(summary, comparisons).values())]


def parsed(picture):
    """The file of a picture, which has to be XML, and words for those who do not see it."""
    root = ElementTree.fromstring(picture.svg(alone=True))
    assert root.get("role") == "img"
    assert root.get("aria-label").startswith(picture.title)
    return root


def numbers(text):
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_bars_share_an_axis_that_fits():
    # Scores from 0.1 to 0.3: on an axis from 0 to 1 they would lie in a fifth of it.
    cells = (
        ScoreCell("0.2", 0.2, ends=(0.1, 0.3)),
        ScoreCell("0.15", 0.15),
        ScoreCell("-"),
    )
    bars = interval_bars(MeasureColumn("m", "m", cells, ()))

    assert bars == [("M3 4H97", "M50 0V8"), ("", "M26.5 0V8"), None]


HUGE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=30)
@given(st.lists(HUGE, min_size=1, max_size=9))
def test_a_scale_keeps_every_value_on_it(values):
    scale = Scale.fit(values, 10, 110)

    places = [scale(value) for value in values]
    assert all(9.9 <= place <= 110.1 for place in places)
    assert sorted(places) == [scale(value) for value in sorted(values)]
    assert len(scale.ticks()) < 20


def test_an_interval_and_a_difference_are_where_they_should_be(assert_message):
    summary, comparisons = records(example.summary(), example.comparisons())
    drawn = {p.title: p for p in drawn_scores(summary, comparisons)}

    assert "ter (lower is better)" in drawn
    root = parsed(drawn["ndcg@10"])
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"bm25", "dense", "hybrid", "ndcg@10; triangle: surely the best"} <= set(texts)
    by_title = {
        path.find(f"{SVG}title").text: path for path in root.iter(f"{SVG}path") if len(path)
    }
    x = {name: numbers(by_title[f"{name} {value}"].get("d"))[0] for name, value in
         (("bm25", "0.402"), ("dense", "0.388"), ("hybrid", "0.446"))}  # fmt: skip
    assert x["dense"] < x["bm25"] < x["hybrid"]
    differences = parsed(drawn["ndcg@10: difference from the baseline"])
    titles = [mark.text for mark in differences.iter(f"{SVG}title")]
    assert_message(titles)


def test_causes_are_counted(assert_message):
    summary, _ = results()
    systems = (
        structs.replace(
            summary.systems[0], causes={"right": 61, "not_retrieved": 17, "not_used": 22}
        ),
        structs.replace(
            summary.systems[1], causes={"right": 70, "not_retrieved": 8, "not_used": 22}
        ),
    )
    bars = causes_picture(structs.replace(summary, systems=systems))

    assert_message(bars.words)
    widths = [float(rect.get("width")) for rect in parsed(bars).iter(f"{SVG}rect")]
    assert widths[0] / widths[1] == pytest.approx(61 / 17, rel=0.05)
    assert causes_picture(summary) is None


def test_slices_are_drawn(assert_message):
    row = SliceDifference(
        field="topic", slice="law", measure="map", system="dense", baseline="bm25",
        direction="higher", difference=-0.2, interval=(-0.3, -0.1), n=30, worse=True,
    )  # fmt: skip
    [slices] = slice_pictures(structs.replace(no_comparisons(), slices=(row,)))
    assert_message(slices.words)
    parsed(slices)


def test_twenty_series_are_told_apart():
    # By colour and shape together: eight colours alone come again.
    drawing = Drawing()
    for number in range(32):
        drawing.mark(0, 0, number, "")
    marks = [re.search('fill="(.*?)" d="(.*?)"', part).groups() for part in drawing.parts]
    assert len(set(marks)) == 32


@pytest.mark.parametrize(
    "name", [pytest.param("检索器" * 30, id="wide"), pytest.param("a" * 90, id="long"), "검색-bm25"]
)
def test_wide_names_have_room(name):
    # A wide character takes twice the room: no text begins before the picture or ends beyond.
    summary, comparisons = example.summary(), example.comparisons()
    summary["systems"][0]["name"] = name
    summary, comparisons = records(summary, comparisons)
    systems = tuple(structs.replace(s, causes={"right": 2, "failed": 1}) for s in summary.systems)
    caused = structs.replace(summary, systems=systems)
    drawn = [*drawn_scores(summary, comparisons), causes_picture(caused)]
    for picture in drawn:
        for text in parsed(picture).iter(f"{SVG}text"):
            columns = sum(1 + (east_asian_width(ch) in "WF") for ch in text.text)
            anchor, x = text.get("text-anchor", "start"), float(text.get("x"))
            start = x - 6.5 * columns * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            assert start >= 0
            assert start + 6.5 * columns <= picture.width


@pytest.mark.costly
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_texts(name):
    summary, comparisons = example.summary(), example.comparisons()
    summary["systems"][0]["name"] = name
    summary, comparisons = records(summary, comparisons)
    for picture in drawn_scores(summary, comparisons):
        root = parsed(picture)
        assert {element.tag for element in root.iter()} <= {
            f"{SVG}{tag}" for tag in ("svg", "style", "text", "path", "rect", "title")
        }


def test_all_pictures_have_names_of_their_own():
    drawn = pictures(*results(), score_pictures(*results()))

    assert "intervals-00-ndcg-10" in {p.name for p in drawn}
    assert len({p.name for p in drawn}) == len(drawn)
