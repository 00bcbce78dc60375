"""Gold ids whose hits have another spelling, in runs with and without a corpus."""

import json

import pytest
from click.testing import CliRunner

import ragbench as rb
from ragbench.cli.run import command as run_command

METRICS = {"retrieval": {"measures": ["mrr", "recall@1"]}}
OTHER_SPELLING = "may have another spelling in the hits"


def table(tmp_path, rows, **config):
    """Write questions with ids, and return the config of a run over them."""
    rows = [{"question": f"Which page is {n}?", **row} for n, row in enumerate(rows)]
    path = tmp_path / "qa.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    data = {"type": "records", "path": str(path), **config}
    return {"dataset": data, "retrievers": {}, "metrics": METRICS}


def mean(experiment, system, measure="mrr"):
    [summary] = [s for s in experiment.summary["systems"] if s["name"] == system]
    return summary["scores"][measure]["mean"]


def on_spellings(texts):
    return [text for text in texts if "spelling" in text]


@pytest.mark.parametrize("n_in_folder", [1, 4, 6, 10])
def test_bare_names_meet_their_files_however_many_are_in_a_folder(tmp_path, n_in_folder):
    folder = tmp_path / "docs"
    (folder / "guides").mkdir(parents=True)
    for n in range(10):
        place = folder / "guides" if n < n_in_folder else folder
        (place / f"page{n}.md").write_text(f"Page {n}.", encoding="utf-8")
    gold = [{"relevant": f"page{n}.md"} for n in range(10)]

    experiment = rb.run_experiment(
        table(tmp_path, gold, corpus=str(folder)),
        retrievers={"mine": lambda question, top_k: [f"page{question[-2]}.md"]},
    )

    assert mean(experiment, "mine") == 1
    sentence = f"mine: {n_in_folder} of 10 hits were matched with documents of the corpus by path, "
    assert any(note.startswith(sentence) for note in experiment.record.notes)
    assert not [text for text in experiment.record.warnings if "have ids" in text]


@pytest.mark.parametrize("has_own_retriever", [False, True])
@pytest.mark.parametrize("n_changed", [0, 1, 3, 6])
def test_a_table_of_ids_meets_for_any_number_of_questions(
    tmp_path, monkeypatch, has_own_retriever, n_changed
):
    monkeypatch.chdir(tmp_path)
    ranked = [[f"2{n}", f"09{n}" if n < n_changed else f"9{n}"] for n in range(6)]
    rows = [{"relevant": [f"9{n}"]} for n in range(6)]
    retrievers = {}
    if has_own_retriever:
        retrievers["mine"] = lambda question, top_k: ranked[int(question[-2])]
    else:
        rows = [{**row, "retrieved": hits} for row, hits in zip(rows, ranked, strict=True)]
    system = "mine" if has_own_retriever else "given"

    experiment = rb.run_experiment(table(tmp_path, rows), retrievers=retrievers)

    assert mean(experiment, system) == 0.5
    noun = "gold id" if n_changed == 1 else "gold ids"
    note = (
        f"{system}: {n_changed} {noun} matched one to one with hits of another spelling: "
        "'90' is '090'"
    )
    assert on_spellings(experiment.record.notes) == ([note] if n_changed else [])
    assert not on_spellings(experiment.record.warnings)
    # causes count the hits that the scores count
    assert {loss.cause for loss in experiment.causes[system].values()} == {"found"}


def test_ids_that_are_not_one_to_one_are_told_before_the_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"relevant": ["a.md"], "retrieved": ["a.md#1", "a.md#2"]},
        {"relevant": ["b.md"], "retrieved": ["b.md"]},
    ]
    (tmp_path / "c.yaml").write_text(json.dumps(table(tmp_path, rows)), encoding="utf-8")

    done = CliRunner().invoke(run_command, ["c.yaml"], catch_exceptions=False)

    sentence = (
        f"warning: given: 1 gold id {OTHER_SPELLING}, such as 'a.md' and 'a.md#1', "
        "and count as other documents; "
        'metrics.retrieval.match: {level: document, separator: "#"}'
    )
    assert 0 <= done.stdout.replace("\n", " ").find(sentence) < done.stdout.index("\n\n")
    # the line that the warning names
    match = {"level": "document", "separator": "#"}
    config = table(tmp_path, rows)
    config["metrics"] = {"retrieval": {**METRICS["retrieval"], "match": match}}
    experiment = rb.run_experiment(config)
    assert mean(experiment, "given") == 1
    assert not on_spellings(experiment.record.warnings)


def test_documents_of_chunks_in_another_spelling_are_told(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"relevant": ["a.md"], "retrieved": ["A.md#1"]},
        {"relevant": ["b.md"], "retrieved": ["b.md#1"]},
    ]
    config = table(tmp_path, rows)
    match = {"level": "document", "separator": "#"}
    config["metrics"] = {"retrieval": {**METRICS["retrieval"], "match": match}}

    experiment = rb.run_experiment(config)

    assert mean(experiment, "given") == 0.5
    [warning] = on_spellings(experiment.record.warnings)
    assert_message(warning)


def test_a_run_file_meets_gold_in_another_spelling(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"q{n}", "relevant": [f"9{n}"]} for n in range(3)]
    lines = [f"q{n} Q0 {'0' if n else ''}9{n} 1 1.0 me\n" for n in range(3)]
    (tmp_path / "my.run").write_text("".join(lines), encoding="utf-8")
    config = table(tmp_path, rows)
    config["retrievers"] = {"old": {"type": "run_file", "path": "my.run"}}

    experiment = rb.run_experiment(config)

    assert mean(experiment, "old") == 1
    assert_message(on_spellings(experiment.record.notes))


def test_honest_misses_over_a_corpus_have_no_note(tmp_path):
    folder = tmp_path / "docs"
    (folder / "old").mkdir(parents=True)
    for name in ("plan.md", "old/plan.md", "old/plan-2.md", "Plan.txt"):
        (folder / name).write_text(f"Text of {name}.", encoding="utf-8")
    gold = [{"relevant": "plan.md"}, {"relevant": "old/plan-2.md"}]
    hits = {"0": ["old/plan.md", "Plan.txt"], "1": ["old/plan-2.md"]}

    experiment = rb.run_experiment(
        table(tmp_path, gold, corpus=str(folder)),
        retrievers={"mine": lambda question, top_k: hits[question[-2]]},
    )

    assert mean(experiment, "mine") == 0.5
    assert not on_spellings([*experiment.record.notes, *experiment.record.warnings])
