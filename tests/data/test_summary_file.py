"""Run folders that somebody edited: a clear error or the whole truth, never another exception."""

import contextlib
import copy
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.runs.run_folder import read_manifest, read_summary
from ragbench.data.runs.run_scores import read_run_scores
from ragbench.errors import DataError
from ragbench.experiment.pages import write_pages
from ragbench.records.manifest import Choices

JUNK = [None, "x", -1, 1.5, True, [], {}, ["x"], {"x": 1}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, repository):
    """The run folder of a small experiment with retrieval, answers, a judge and a gate."""
    root = tmp_path_factory.mktemp("run")
    config = {
        "name": "small",
        "dataset": {"type": "beir", "path": str(repository / "datasets/example"), "split": "test"},
        "retrievers": {"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}},
        "generators": {"extractive": {"type": "extractive"}},
        "metrics": {"generation": ["rouge1"]},
        "gates": [{"measure": "ndcg@10", "min": 0.1}],
        "output": str(root),
        "cache": str(root / "cache"),
    }
    return rb.run_experiment(config, choices=Choices(limit=8)).path


@pytest.fixture
def copied(folder, tmp_path):
    """A copy of the folder."""
    return Path(shutil.copytree(folder, tmp_path / "run"))


def nodes(value, path=()):
    """Every place in a JSON value."""
    yield path
    if isinstance(value, (dict, list)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nodes(child, (*path, key))


def replaced(value, path, junk):
    """The value with junk at one place; `del` where the junk is `...`."""
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if junk is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = junk
    return changed


@pytest.mark.costly
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("name", ["summary.json", "manifest.json", "comparisons.json"])
def test_any_field_may_be_spoilt(folder, copied, name, data):
    value = json.loads((folder / name).read_text())
    places = [path for path in nodes(value) if path]
    # by depth first: else nearly all places are deep inside of scores
    depth = data.draw(st.sampled_from(sorted({len(path) for path in places})))
    path = data.draw(st.sampled_from([path for path in places if len(path) == depth]))
    changed = replaced(value, path, data.draw(st.sampled_from([*JUNK, ...])))
    (copied / name).write_text(json.dumps(changed))

    for read in (read_summary, read_manifest, read_run_scores, lambda run: write_pages([run])):
        with contextlib.suppress(DataError):
            read(copied)


def test_the_field_is_named(folder, tmp_path, assert_message):
    spoilt = Path(shutil.copytree(folder, tmp_path / "run"))
    summary = json.loads((spoilt / "summary.json").read_text())
    summary["systems"][1]["scores"]["rouge1"]["mean"] = "0.5"
    (spoilt / "summary.json").write_text(json.dumps(summary))

    with pytest.raises(DataError) as caught:
        rb.load_experiment(spoilt)

    assert_message(caught.value, "TMP/run/summary.json: systems.1.scores.rouge1.mean")


@pytest.mark.parametrize("cell", ["nan", "inf", "-Infinity", "1,5", "x"])
def test_a_cell_that_is_no_number_is_refused(folder, tmp_path, cell):
    spoilt = Path(shutil.copytree(folder, tmp_path / "run"))
    lines = (spoilt / "per_query.csv").read_text().splitlines()
    first = lines[1].split(",")
    lines[1] = ",".join([*first[:2], cell, *first[3:]])
    (spoilt / "per_query.csv").write_text("\n".join(lines))

    with pytest.raises(DataError, match=r"per_query\.csv:2: "):
        read_run_scores(spoilt)
