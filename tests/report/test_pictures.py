"""Pictures: they lie where the numbers are, and their curves are those of trec_eval."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from unicodedata import east_asian_width
from xml.etree import ElementTree

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.runs.query_view import QueryViews
from ragbench.records.causes import CauseFlow, CauseMove
from ragbench.records.comparison import ControlDifference, SliceDifference, no_comparisons
from ragbench.records.summary import SystemSummary
from ragbench.report.base import Measure, ScoreCell
from ragbench.report.page.html import all_pictures, interval_bars
from ragbench.report.pictures.charts import Curves, causes_pictures, curve_pictures
from ragbench.report.pictures.draw import (
    control_pictures,
    difference_picture,
    interval_pictures,
    judge_pictures,
    slice_pictures,
    trade_pictures,
)
from ragbench.report.pictures.svg import Drawing, Scale
from tests.report import example
from tests.report.asked import results, run_folder
from tests.report.pages import records
from tests.report.strategies import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture):
    """The file of a picture, which has to be XML, and words for those who do not see it."""
    root = ElementTree.fromstring(picture.svg(alone=True))
    assert root.get("role") == "img"
    assert root.get("aria-label").startswith(picture.title)
    return root


def numbers(text):
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", text)]


@pytest.mark.costly
def test_curves_are_those_of_trec_eval():
    seed = random.Random(17)
    curves, run, qrels, own = Curves(), [], [], []
    ranks, judged_grades = [], []
    for q in range(30):
        documents = [f"d{n}" for n in range(150)]
        relevant = seed.sample(documents, seed.randrange(0, 9))
        found = seed.sample(documents, 120)
        for rank, d in enumerate(found, start=1):
            run.append(ir_measures.ScoredDoc(f"q{q}", d, float(1000 - rank)))
        grades = {d: seed.randrange(1, 4) for d in relevant}
        qrels += [ir_measures.Qrel(f"q{q}", d, grades.get(d, 0)) for d in documents]
        best_first = sorted(grades, key=lambda d: -grades[d])
        ranks.append([found.index(d) + 1 if d in found else 0 for d in best_first])
        judged_grades.append([grades[d] for d in best_first])
        own += [rb.ndcg(found, grades, k=7)] if grades else []
    sizes = [len(each) for each in ranks]
    flat = [np.array([n for some in each for n in some]) for each in (ranks, judged_grades)]
    curves.add("bm25", *flat, np.concatenate(([0], np.cumsum(sizes))))
    judged = [
        f"q{q}" for q in range(30) if any(j.query_id == f"q{q}" and j.relevance for j in qrels)
    ]
    assert 20 < len(judged) < 30, "some have nothing relevant, and are left out"
    names = {
        "R@7": ("recall", 6), "R@100": ("recall", 99), "P@1": ("precision", 0),
        "P@20": ("precision", 19), "IPrec@0.3": ("interpolated", 3),
        "IPrec@1.0": ("interpolated", 10), "nDCG@1": ("ndcg", 0), "nDCG@10": ("ndcg", 9),
        "nDCG@100": ("ndcg", 99),
    }  # fmt: skip
    for name, (kind, place) in names.items():
        measure = ir_measures.parse_measure(name)
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}
        expected = sum(theirs[q] for q in judged) / len(judged)
        ours = curves.means(getattr(curves, kind))["bm25"][place]
        assert ours == pytest.approx(expected, abs=1e-9), name
    ours = curves.means(curves.ndcg)["bm25"][6]
    assert ours == pytest.approx(sum(own) / len(own), abs=1e-12), "as the measure has it"
    assert len([parsed(picture) for picture in curve_pictures(curves)]) == 4
    assert list(curve_pictures(Curves())) == []


def test_bars_share_an_axis_that_fits():
    """Scores from 0.1 to 0.3: on an axis from 0 to 1 they would lie in a fifth of it."""
    cells = (
        ScoreCell("0.2", mean=0.2, ends=(0.1, 0.3)),
        ScoreCell("0.15", mean=0.15, ends=None),
        ScoreCell("-"),
    )
    bars = interval_bars(Measure("m", "m", cells, (), ()))

    assert bars == [("M3 4H97", "M50 0V8"), ("", "M26.5 0V8"), None]


HUGE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=200)
@given(st.lists(HUGE, min_size=1, max_size=9))
def test_a_scale_keeps_every_value_on_it(values):
    scale = Scale.fit(values, 10, 110)

    places = [scale(value) for value in values]
    assert all(9.9 <= place <= 110.1 for place in places)
    assert sorted(places) == [scale(value) for value in sorted(values)]
    assert len(scale.ticks()) < 20


def test_an_interval_and_a_difference_are_where_they_should_be():
    summary, comparisons = records(example.summary(), example.comparisons())
    found = {p.title: p for p in interval_pictures(summary, comparisons)}

    assert "ter (lower is better)" in found
    root = parsed(found["ndcg@10"])
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"bm25", "dense", "hybrid", "difference from the baseline"} <= set(texts)
    assert "ndcg@10; triangle: the best" in texts
    titles = [mark.text for mark in root.iter(f"{SVG}title")]
    assert "+0.0442 against bm25" in titles
    by_title = {
        path.find(f"{SVG}title").text: path for path in root.iter(f"{SVG}path") if len(path)
    }
    x = {name: numbers(by_title[f"{name} {value}"].get("d"))[0] for name, value in
         (("bm25", "0.402"), ("dense", "0.388"), ("hybrid", "0.446"))}  # fmt: skip
    assert x["dense"] < x["bm25"] < x["hybrid"]


def test_the_front_has_what_nothing_beats():
    summary, _ = records(example.summary(), example.comparisons())
    summary = summary.__class__(
        name="s",
        systems=tuple(
            SystemSummary(
                name=name,
                retriever=name,
                generator=None,
                type="retriever",
                ranking_of=name,
                scores={"ndcg@10": score_of(summary, mean)},
                usd=usd,
            )
            for name, mean, usd in (("cheap", 0.4, 1.0), ("poor", 0.3, 2.0), ("good", 0.6, 5.0))
        ),
    )
    [picture] = trade_pictures(summary)

    assert picture.told.endswith("on the front: cheap, good")
    parsed(picture)


def score_of(summary, mean):
    return replace(summary.systems[0].scores["ndcg@10"], mean=mean)


def test_causes_are_counted_and_their_flow_is_drawn():
    summary, _ = results()
    systems = (
        replace(summary.systems[0], causes={"right": 61, "not_retrieved": 17, "not_used": 22}),
        replace(summary.systems[1], causes={"right": 70, "not_retrieved": 8, "not_used": 22}),
    )
    moves = (CauseMove(before="not_retrieved", after="right", queries=("q1",) * 9),)
    flow = CauseFlow(system="dense", baseline="bm25", same=91, moves=moves)
    bars, flows = causes_pictures(
        replace(summary, systems=systems), replace(no_comparisons(), causes=(flow,))
    )

    assert bars.told.startswith("of 100 questions bm25 has 61 right, 17 not retrieved, 22 not used")
    widths = [float(rect.get("width")) for rect in parsed(bars).iter(f"{SVG}rect")]
    assert widths[0] / widths[1] == pytest.approx(61 / 17, rel=0.05)
    assert flows.told == "9 from not retrieved to right"
    parsed(flows)


def test_judges_controls_slices_and_queries_are_drawn():
    summary, _ = results()
    judged = {
        name: replace(summary.systems[2].scores["rouge1"], judge=judge)
        for name, judge in (("f(judge=a)", "a"), ("f(judge=b)", "b"))
    }
    summary = replace(summary, systems=(replace(summary.systems[2], scores=judged),))
    values = {
        "bm25/gpt": {"f(judge=a)": [0.0, 0.5, 1.0, None], "f(judge=b)": [0.05, 0.9, 1.0, 1.0]}
    }
    spread_a, spread_b, agreement = judge_pictures(summary, values)
    assert spread_a.told == "bm25/gpt: 1 lowest, 1 highest, of 3"
    assert agreement.told == "2 of 3 answers lie within 0.1 of each other"
    control = ControlDifference(
        control="gold_context", generator="gpt", score="rouge1", mean=0.8, system="bm25/gpt",
        system_mean=0.5, difference=0.3, interval=(0.2, 0.4), n=10,
    )  # fmt: skip
    row = SliceDifference(
        field="topic", slice="law", measure="map", system="dense", baseline="bm25",
        direction="higher", difference=-0.2, interval=(-0.3, -0.1), n=30, worse=True,
    )  # fmt: skip
    made = replace(no_comparisons(), controls=(control,), slices=(row,))
    [controls], [slices] = control_pictures(made), slice_pictures(made)
    assert controls.told == "gold_context/gpt 0.8; bm25/gpt 0.5"
    assert slices.told == "law: dense -0.2 over 30 queries"
    queries = difference_picture("map", "dense", "bm25", [("q1", 1, 0), ("q2", 0, 0), ("q3", 0, 1)])
    assert queries.told == "1 query up, 1 down, 1 the same"
    for picture in (spread_a, spread_b, agreement, controls, slices, queries):
        parsed(picture)


def test_what_loses_is_orange_whichever_way_is_better():
    for lower, colours in ((False, ["#d55e00", "#009e73"]), (True, ["#009e73", "#d55e00"])):
        made = difference_picture("ter", "a", "b", [("q1", 1, 0), ("q2", 0, 1)], lower=lower)
        assert [bar.get("fill") for bar in parsed(made).iter(f"{SVG}rect")] == colours


def test_twenty_series_are_told_apart():
    """By colour and shape together: eight colours alone come again."""
    drawing = Drawing()
    for number in range(32):
        drawing.mark(0, 0, number, "")
    marks = [re.search('fill="(.*?)" d="(.*?)"', part).groups() for part in drawing.parts]
    assert len(set(marks)) == 32


def test_controls_are_no_choice():
    summary, _ = results()
    chosen = replace(summary.systems[0], usd=1.0)
    control = replace(chosen, name="gold_context/gpt", role="control", usd=0.5)
    other = replace(summary.systems[1], usd=2.0)
    found = list(trade_pictures(replace(summary, systems=(chosen, control, other))))
    assert found
    assert all("gold_context" not in picture.told for picture in found)


@pytest.mark.parametrize(
    "name", [pytest.param("检索器" * 30, id="wide"), pytest.param("a" * 90, id="long"), "검색-bm25"]
)
def test_wide_names_have_room(name):
    """A wide character takes twice the room: no text begins before the picture or ends beyond."""
    summary, comparisons = example.summary(), example.comparisons()
    summary["systems"][0]["name"] = name
    summary, comparisons = records(summary, comparisons)
    systems = tuple(replace(s, causes={"right": 2, "failed": 1}) for s in summary.systems)
    moves = (CauseMove(before="should_have_refused", after="right", queries=("q1",)),)
    flows = tuple(
        CauseFlow(system=a, baseline=b, same=9, moves=moves)
        for a, b in ((name, "bm25"), ("bm25", name))
    )
    caused = replace(summary, systems=systems), replace(comparisons, causes=flows)
    pictures = [
        each
        for narrow in (False, True)
        for each in (
            *interval_pictures(summary, comparisons, narrow),
            *causes_pictures(*caused, narrow),
        )
    ]
    for picture in pictures:
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
    for picture in interval_pictures(summary, comparisons):
        root = parsed(picture)
        assert {each.tag for each in root.iter()} <= {
            f"{SVG}{tag}" for tag in ("svg", "style", "text", "path", "rect", "title")
        }


def test_all_pictures_of_a_folder_have_names_of_their_own(tmp_path):
    summary, comparisons = results()
    found = all_pictures(summary, comparisons, run_folder(tmp_path))

    assert {"recall-over-k", "precision-recall", "intervals-00-ndcg-10"} <= {p.name for p in found}
    assert len({p.name for p in found}) == len(found)
    recall = next(p for p in found if p.name == "recall-over-k")
    assert "dense: 1 at k 10" in recall.told
    assert len(QueryViews(tmp_path)) == 12
