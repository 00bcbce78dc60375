"""Right answers, found gold and their causes in whole runs, counted by hand."""

import json

import pytest

import ragbench as rb


@pytest.fixture
def run(tmp_path):
    """Run an experiment over rows and documents; further keys join the config."""

    def runs(rows, documents=None, **config):
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / "qa.jsonl").write_text(text, encoding="utf-8")
        dataset = {"type": "records", "path": str(tmp_path / "qa.jsonl")}
        if documents:
            (tmp_path / "docs").mkdir(exist_ok=True)
            for name, content in documents.items():
                (tmp_path / "docs" / name).write_text(content, encoding="utf-8")
            dataset["corpus"] = str(tmp_path / "docs")
        places = {"output": str(tmp_path / "runs"), "cache": str(tmp_path / "cache")}
        live = {key: config.pop(key) for key in ("retrievers", "apps") if key in config}
        return rb.run_experiment({"name": "r", "dataset": dataset, **places, **config}, **live)

    return runs


def test_wrong_answers_without_passages_stay_in_the_denominator(run):
    # 30 right, 10 wrong, 5 missing: 30 of 45, none of which is unknown to `right`.
    rows = [
        {"id": f"q{n}", "question": f"City {n}?", "reference": f"Town{n}", "answer": answer}
        for n, answer in enumerate([f"Town{n}" for n in range(30)] + ["Rome"] * 10)
    ]
    rows += [{"id": f"m{n}", "question": f"And {n}?", "reference": "x"} for n in range(5)]

    experiment = run(rows, metrics={"generation": ["exact_match"]}, max_failed=1.0)

    (system,) = experiment.record.systems
    right = system.scores["right"]
    assert (right.mean, right.n, right.failed) == (0.75, 40, {"missing_answer": 5})
    assert right.bounds == (30 / 45, 35 / 45)
    assert (system.causes["right"], system.causes["failed"], system.causes["unknown"]) == (
        30,
        5,
        10,
    )


def test_a_quote_beside_a_named_document_is_gold_there_alone(run):
    # The same sentence in another office's file makes that file no gold.
    rule = "Unused days expire in March."
    documents = {"oslo.md": f"Oslo. {rule}", "porto.md": f"Porto. {rule}"}
    row = {"question": "Do days expire in Oslo?", "reference": "in March", "relevant": "oslo.md"}
    measures = {"retrieval": {"measures": ["hit_rate@1", "ndcg@10"]}}
    retrievers = {"porto": lambda question, top_k: ["porto.md"]}

    for quote in ({}, {"quote": rule}):
        experiment = run([row | quote], documents, metrics=measures, retrievers=retrievers)

        (system,) = experiment.record.systems
        means = {name: score.mean for name, score in system.scores.items()}
        assert means == {"found@5": 0, "hit_rate@1": 0, "ndcg@10": 0}
        assert system.causes["not_retrieved"] == 1
        assert experiment.record.dataset.judgements == 1


def test_a_quote_in_several_documents_is_no_gold_without_a_name(run, assert_message):
    rule = "Unused days expire in March."
    documents = {"oslo.md": f"Oslo. {rule}", "porto.md": f"Porto. {rule}", "io.md": "Io is hot."}
    rows = [
        {"id": "both", "question": "Do days expire?", "reference": "x", "quote": rule},
        {"id": "one", "question": "What is hot?", "reference": "Io", "quote": "Io is hot."},
    ]
    retrievers = {"all": lambda question, top_k: list(documents)}

    experiment = run(rows, documents, retrievers=retrievers)

    scores = experiment.record.systems[0].scores
    assert {name for name, score in scores.items() if score.n == 1} == set(scores)
    text = (experiment.path / "unscored.jsonl").read_text()
    assert {json.loads(line)["cause"] for line in text.splitlines()} == {"ambiguous_quote"}
    assert_message(experiment.record.warnings)
    lost = experiment.causes["all"]
    assert {query: loss.cause for query, loss in lost.items()} == {
        "both": "unknown",
        "one": "found",
    }


def test_the_right_document_with_the_wrong_passage(run):
    # The ranking of documents is perfect, and the passage with the gold is not in it.
    documents = {"hr.md": "Pay day is the 25th. A new employee has 30 days of leave."}
    row = {"id": "q", "question": "How many days of leave?", "reference": "30 days"}
    row |= {"relevant": "hr.md", "quote": "A new employee has 30 days of leave."}

    def app(question):
        hit = {"id": "5f0c", "text": "Pay day is the 25th.", "metadata": {"source": "hr.md"}}
        return {"answer": "the 25th", "contexts": [hit]}

    experiment = run([row], documents, apps={"chain": app})

    (system,) = experiment.record.systems
    means = {name: system.scores[name].mean for name in ("right", "found@5", "span_recall@5")}
    assert means == {"right": 0, "found@5": 0, "span_recall@5": 0}
    assert experiment.causes["chain"]["q"].cause == "wrong_passage"
    (line,) = (experiment.path / "hits" / "chain.jsonl").read_text().splitlines()
    (hit,) = json.loads(line)["hits"]
    assert (hit["id"], hit["document"], hit["start"], hit["end"]) == ("5f0c", "hr.md", 0, 20)


def test_a_gate_holds_the_share_of_right_answers(run):
    rows = [
        {"question": f"City {n}?", "reference": f"Town{n}", "answer": f"Town{n % 15}"}
        for n in range(20)
    ]

    experiment = run(
        rows, gates=[{"measure": "right", "min": 0.8}, {"measure": "right", "min": 0.7}]
    )

    assert [gate.verdict for gate in experiment.record.gates] == ["fail", "pass"]


def test_a_right_answer_that_invents_is_marked(run):
    # A judge finds words without support in two of three right answers.
    rows = [
        {
            "id": f"q{n}",
            "question": f"When {n}?",
            "reference": f"19{n}0",
            "answer": f"In 19{n}0, by a king.",
            # 1 of 2 words, or both
            "contexts": [f"It was 19{n}0{', when the king came' if n == 1 else ''}."],
        }
        for n in (1, 2, 3)
    ]

    judge = {"type": "python:tests.words:context_overlap"}
    experiment = run(
        rows,
        metrics={"generation": [], "judge": judge},
        causes={"supported": {"measure": "context_overlap", "min": 0.6}},
    )

    system = experiment.record.systems[0]
    assert (system.causes["right"], system.right_unsupported) == (3, 2)
    marks = {query: loss.unsupported for query, loss in experiment.causes["given"].items()}
    assert marks == {"q1": False, "q2": True, "q3": True}
