"""Generated results: any names, any finite numbers, missing scores, failures, comparisons."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><b>",
    "'\"><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "a|b`c`[d](http://e.f)*g*_h_",
    "\u202eRTL \u05d0\u05d1\u05d2",
    "\x1b[31mred\x07",
    "x" * 300,
    "\U0001f469\u200d\U0001f52c naïve e\u0301",
    "漢字かな交じり",
    "line\nbreak\r\ttab",
    "\ud800",
    "@someone #12 www.a.b -- &amp; \\",
    "",
]
# files of a run have null for these
finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.sampled_from(HOSTILE) | st.text(max_size=8)
interval = st.none() | st.tuples(finite, finite).map(lambda ends: sorted(ends))
counts = st.integers(0, 3)


@st.composite
def scores(draw: st.DrawFn, measure: str, direction: str, judge: str | None) -> dict[str, Any]:
    mean = draw(st.none() | finite)
    score: dict[str, Any] = {
        "mean": mean,
        "interval": None if mean is None else draw(interval),
        "n": draw(counts),
        "failed": draw(st.dictionaries(names, counts, max_size=2)),
        "not_applicable": draw(counts),
        "bounds": draw(interval),
        "direction": direction,
        "aggregate": "mean",
        "signature": f"{measure}|v:{draw(counts)}",
    }
    # only scores of judges have a model
    return score if judge is None else score | {"judge": judge, "model": draw(names)}


@st.composite
def results(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A summary and its comparisons; systems may lack a measure, and measures a comparison."""
    measures = draw(st.lists(names, max_size=4, unique=True))
    directions = {m: draw(st.sampled_from(["higher", "lower"])) for m in measures}
    kinds = {m: draw(st.sampled_from(["retrieval", "generation", "judge"])) for m in measures}
    judge = draw(names)
    systems = []
    for name in draw(st.lists(names, max_size=4, unique=True)):
        # a system may lack measures that others have
        has = draw(st.lists(st.sampled_from(measures), unique=True)) if measures else []
        by_measure = {
            m: draw(scores(m, directions[m], judge if kinds[m] == "judge" else None)) for m in has
        }
        pair = draw(st.booleans())
        systems.append(
            {
                "name": name,
                "retriever": name,
                "generator": "g" if pair else None,
                "scores": by_measure,
            }
        )
    system_names = [system["name"] for system in systems]
    summary = {
        "schema": "ragbench.summary/1",
        "name": draw(names),
        "run_id": "r",
        "complete": draw(st.booleans()),
        "systems": systems,
        "gates": [],
        "dataset": {"name": draw(names), "queries": draw(counts), "notes": [draw(names)]},
        "baseline": draw(st.none() | st.sampled_from(system_names)) if system_names else None,
        "warnings": [draw(names)],
        "judges": {judge: {"type": "t", "model": draw(names), "label": draw(names)}},
    }
    families = [
        draw(family(m, directions[m], kinds[m], system_names)) for m in measures if system_names
    ]
    comparisons = {"baseline": summary["baseline"], "measures": families}
    if system_names:
        comparisons["slices"] = draw(st.lists(slice_row(system_names), max_size=3))
    return summary, comparisons


@st.composite
def slice_row(draw: st.DrawFn, systems: list[str]) -> dict[str, Any]:
    return {
        "field": draw(names),
        "slice": draw(names),
        "measure": draw(names),
        "system": draw(st.sampled_from(systems)),
        "baseline": draw(st.sampled_from(systems)),
        "direction": draw(st.sampled_from(["higher", "lower"])),
        "difference": draw(st.none() | finite),
        "interval": draw(interval),
        "n": draw(counts),
        "p_adjusted": draw(st.none() | st.floats(0, 1)),
        "worse": draw(st.none() | st.booleans()),
    }


@st.composite
def family(
    draw: st.DrawFn, measure: str, direction: str, kind: str, systems: list[str]
) -> dict[str, Any]:
    some = st.sampled_from(systems)
    rows = [
        {
            "system": system,
            "baseline": draw(some),
            "difference": draw(st.none() | finite),
            "interval": draw(interval),
            "n_changed": draw(counts),
            "p_adjusted": draw(st.none() | st.floats(0, 1)),
            "differs": draw(st.none() | st.booleans()),
            "minimum_detectable": draw(st.none() | finite),
        }
        for system in draw(st.lists(some, unique=True, max_size=3))
    ]
    return {
        "measure": measure,
        "direction": direction,
        "kind": kind,
        "best": draw(st.none() | some),
        "tied_with_best": draw(st.lists(some, unique=True, max_size=3)),
        "comparisons": rows,
    }
