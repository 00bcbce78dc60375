"""Baseline files: the same scores give the same bytes, and nothing else is read as one."""

import json
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.runs.run_scores import format_baseline, read_baseline, write_baseline
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.records.score import BASELINE_SCHEMA as SCHEMA
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn

IDS = st.text('abé"\\{}ß1', min_size=1, max_size=4)
CELLS = st.floats(0, 1) | st.sampled_from([cause for cause in Cause if cause])


def score(cells, **facts):
    values = [nan if isinstance(cell, Cause) else float(cell) for cell in cells]
    causes = [cell if isinstance(cell, Cause) else Cause.SCORED for cell in cells]
    return ScoreColumn(
        "mrr",
        np.array(values),
        np.array(causes, np.uint8),
        **{"signature": Signature.parse("mrr|v:1"), **facts},
    )


def system_of(name, columns):
    return SystemScores(name, name, None, columns, dict.fromkeys(columns, "retrieval"))


def stored(cells, ids=None, system="bm25", fingerprints=None, **facts):
    ids = ids or [f"q{n}" for n in range(len(cells))]
    return ScoredSystems(
        "runs/mine",
        {system: system_of(system, {"mrr": score(cells, **facts)})},
        ids,
        system,
        {"qrels": "1a2b"},
        fingerprints=fingerprints or {},
        name="mine",
    )


def cells_of(scores):
    return {
        (system.name, name, query): (float(value), int(cause))
        for system in scores.systems.values()
        for name, column in system.columns.items()
        for query, value, cause in zip(scores.query_ids, column.values, column.causes, strict=True)
    }


@settings(max_examples=15)
@given(st.lists(st.tuples(IDS, CELLS), min_size=1, unique_by=lambda pair: pair[0]), st.randoms())
def test_reads_back_what_was_written_in_any_order(pairs, random):
    shuffled = random.sample(pairs, len(pairs))
    scores = stored([cell for _, cell in pairs], [query for query, _ in pairs])
    other = stored([cell for _, cell in shuffled], [query for query, _ in shuffled])
    text = format_baseline(scores)

    assert format_baseline(other) == text
    assert json.loads(text)["schema"] == SCHEMA


@settings(max_examples=15)
@given(st.lists(CELLS, min_size=1))
def test_round_trip(tmp_path_factory, cells):
    path = tmp_path_factory.getbasetemp() / "made" / "folder" / "main.json"
    scores = stored(cells)

    write_baseline(path, scores)
    after = read_baseline(path)

    np.testing.assert_equal(cells_of(after), cells_of(scores))
    assert (after.name, after.baseline, dict(after.data)) == ("mine", "bm25", {"qrels": "1a2b"})
    assert format_baseline(after) == path.read_text(encoding="utf-8")


PRINTS = {"question": {"q0": "0" * 12, "q1": "1" * 12}, "answers": {"q1": "a" * 12}}


def test_what_each_query_was_is_kept(tmp_path):
    scores = stored([0.5, 1.0], fingerprints=PRINTS)
    other = stored([1.0, 0.5], ["q1", "q0"], fingerprints=PRINTS)

    write_baseline(tmp_path / "b.json", scores)

    text = (tmp_path / "b.json").read_text()
    assert read_baseline(tmp_path / "b.json").fingerprints == PRINTS
    assert format_baseline(other) == text
    assert '  "q0": ["000000000000", null],\n' in text
    assert '"query_parts": ["question", "answers"]' in text


def test_a_run_without_queries_has_a_text():
    assert json.loads(format_baseline(stored([])))["queries"] == 0


def test_a_file_of_scores_alone_does_not_say_what_its_queries_were(tmp_path):
    write_baseline(tmp_path / "b.json", stored([0.5, 1.0]))

    assert "query_" not in (tmp_path / "b.json").read_text()
    assert read_baseline(tmp_path / "b.json").fingerprints == {}


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        # a query without its answers
        (
            ', "aaaaaaaaaaaa"',
            "",
            "TMP/b.json",
        ),
        ('"answers"]', '"answer"]', "TMP/b.json"),  # an unknown part
        ('"answers"]', '"question"]', "TMP/b.json"),  # a part twice
        ('"q1": ["1', '"q2": ["1', "TMP/b.json: query_fingerprints"),  # a query without scores
    ],
)
def test_fingerprints_that_are_none_are_refused(tmp_path, old, new, place, assert_message):
    path = tmp_path / "b.json"
    text = format_baseline(stored([0.5, 1.0], fingerprints=PRINTS))
    assert old in text
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(DataError) as caught:
        read_baseline(path)
    assert_message(caught.value, place)


def test_one_query_is_one_line():
    first = format_baseline(stored([0.5, 1.0, Cause.NO_RELEVANT])).splitlines()
    after = format_baseline(stored([0.5, 0.0, Cause.NO_RELEVANT])).splitlines()

    changed = [(x.strip(), y.strip()) for x, y in zip(first, after, strict=True) if x != y]

    assert changed[-1] == ('"q1": [1.0],', '"q1": [0.0],')
    assert len(changed) == 2, "the query's line and that of the mean"
    assert '    "q2": ["no_relevant"]' in after


def test_scores_are_sorted_by_name(tmp_path):
    first, second = score([1.0]), score([0.0])
    texts = [
        format_baseline(ScoredSystems("x", {"s": system_of("s", columns)}, ["q"], "s"))
        for columns in ({"mrr": first, "map": second}, {"map": second, "mrr": first})
    ]

    assert texts[0] == texts[1]
    assert '"q": [0.0, 1.0]' in texts[0], "map, then mrr"


def test_unbounded_ranges_and_totals_are_kept(tmp_path):
    facts = {"aggregate": "corpus", "low": 0.0, "high": inf, "total": 0.31, "direction": "lower"}
    write_baseline(tmp_path / "b.json", stored([0.5, 0.25], **facts))

    (system,) = read_baseline(tmp_path / "b.json").systems.values()

    column = system.columns["mrr"]
    assert {name: getattr(column, name) for name in facts} == facts


def test_systems_without_scores_are_left_out(tmp_path):
    whole = stored([1.0])
    empty = {"empty": system_of("empty", {})}

    write_baseline(tmp_path / "b.json", ScoredSystems("x", {**empty, **whole.systems}, ["q0"]))

    assert [*read_baseline(tmp_path / "b.json").systems] == ["bm25"]
    with pytest.raises(DataError, match="nothing was scored"):
        write_baseline(tmp_path / "c.json", ScoredSystems("x", empty, ["q0"]))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (SCHEMA, "ragbench.summary/1", "TMP/b.json"),  # the schema of another file
        # the mean no longer fits
        ('"q1": [0.5]', '"q1": [0.7]', "TMP/b.json: systems.bm25.scores.mrr"),
        # two values for one measure
        ('"q1": [0.5]', '"q1": [0.5, 1]', "TMP/b.json: systems.bm25.per_query"),
        # neither a number nor a cause
        ('"q1": [0.5]', '"q1": [null]', "TMP/b.json: systems.bm25.per_query"),
        ('"q1": [0.5]', '"q1": [true]', "TMP/b.json: systems.bm25.per_query"),
        ('"q1": [0.5]', '"q1": [NaN]', "TMP/b.json"),  # NaN is no JSON
        ('"q1": [0.5]', '"q0": [0.5]', "TMP/b.json"),
        # misspelt cause
        ('"q1": [0.5]', '"q1": ["timeuot"]', "TMP/b.json: systems.bm25.per_query"),
        # the count no longer fits
        ('"q1": [0.5]', '"q1": ["timeout"]', "TMP/b.json: systems.bm25.scores.mrr"),
        # a merge conflict
        (
            '    "q0": [1.0],',
            "<<<<<<< HEAD",
            "TMP/b.json:15",
        ),
        ('"higher"', '"highest"', "TMP/b.json: systems.bm25.scores.mrr.direction"),
        ('"queries": 2', '"queries": 3', "TMP/b.json: systems"),
        ('"range": [0.0, 1.0]', '"range": [0.0]', "TMP/b.json: systems.bm25.scores.mrr.range"),
        ('"signature"', '"signatur"', "TMP/b.json: systems.bm25.scores.mrr"),
        ('{"qrels": "1a2b"}', "[]", "TMP/b.json: data"),
    ],
)
def test_mistakes_name_their_place(tmp_path, old, new, place, assert_message):
    path = tmp_path / "b.json"
    text = format_baseline(stored([1.0, 0.5]))
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")

    with pytest.raises(DataError) as caught:
        read_baseline(path)
    assert_message(caught.value, place)


def test_no_file_is_one_line(tmp_path, assert_message):
    with pytest.raises(DataError) as caught:
        read_baseline(tmp_path / "none.json")
    assert_message(caught.value, "TMP/none.json")
