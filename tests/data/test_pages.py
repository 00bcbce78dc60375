"""Gold as file and page meets documents by `metadata.page`, counted from 0 or from 1."""

import pytest

import ragbench as rb

QUESTIONS = [
    {"question": "When does the office open?", "gold_doc": "rules.pdf", "page_number": 1},
    {"question": "What does a berth cost?", "gold_doc": "docs/rules.pdf", "page_number": "2"},
    {"question": "What does power cost?", "gold_doc": "prices.pdf", "page_number": 2.0},
]
TEXTS = {
    ("rules.pdf", 0): "The office opens at eight.",
    ("rules.pdf", 1): "A berth costs 40 euro a night.",
    ("rules.pdf", 2): "Dogs must be on a lead.",
    ("prices.pdf", 0): "Showers close at nine.",
    ("prices.pdf", 1): "Power costs two euro a day.",
}


def corpus(start=0):
    return [
        {"page_content": text, "metadata": {"source": file, "page": page + start}}
        for (file, page), text in TEXTS.items()
    ]


@pytest.fixture(autouse=True)
def work_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def scores_of(dataset, search, start=0):
    experiment = rb.run_experiment(
        dataset=dataset,
        documents=[{"text": d["page_content"], "metadata": d["metadata"]} for d in corpus(start)],
        retrievers={"mine": search},
    )
    return experiment, [*experiment.per_query["mine"]["hit_rate@1"].values()]


@pytest.mark.parametrize("start", [0, 1])
def test_the_page_counts_and_not_only_the_file(start, assert_message):
    # By hand: the first page of each file is the gold of the first question alone

    def search(question, k):
        file = "prices.pdf" if "power" in question else "rules.pdf"
        return [{"id": "x1", "text": "...", "metadata": {"source": f"/srv/{file}", "page": start}}]

    experiment, values = scores_of(QUESTIONS, search, start)

    assert values == [1, 0, 0]
    notes = experiment.summary["dataset"]["notes"]
    assert_message(notes, "columns")


def test_any_chunk_of_a_page_is_its_gold_once():
    rows = [{"question": "q", "relevant": "a.pdf", "page": 1}]
    chunks = [
        {"id": f"c{n}", "text": f"text {n}", "metadata": {"source": "a.pdf", "page": page}}
        for n, page in enumerate((1, 1, 2))
    ]

    experiment = rb.run_experiment(
        dataset=rows, documents=chunks, retrievers={"mine": lambda question, k: ["c1", "c0", "c2"]}
    )

    scores = {name: [*v.values()] for name, v in experiment.per_query["mine"].items()}
    assert (scores["ndcg@10"], scores["precision@5"]) == ([1.0], [1 / 5])


def test_recorded_passages_have_pages():
    # By hand: the gold pages are at ranks 2 and 1: mrr 3/4
    contexts = [
        {"text": TEXTS[page], "metadata": {"source": page[0], "page": page[1]}} for page in TEXTS
    ]
    rows = [
        {"question": "a", "contexts": [contexts[2], contexts[0]], "gold_doc": "rules.pdf", "p": 1},
        {"question": "b", "contexts": [contexts[4]], "gold_doc": "prices.pdf", "p": 2},
    ]

    result = rb.evaluate(rows, ["mrr"], columns={"page": "p"})

    assert result.mean == {"mrr": 0.75}


def test_a_page_without_documents_of_pages_is_metadata():
    rows = [{"question": "q", "relevant": "d1", "page": 3, "retrieved": ["d1"]}]

    assert rb.evaluate(rows, ["mrr"]).mean == {"mrr": 1.0}


def test_a_page_that_is_no_number_is_refused(assert_message):
    rows = [{"question": "q", "relevant": "a.pdf", "p": "iv", "retrieved": ["a.pdf"]}]

    with pytest.raises(rb.DataError) as caught:
        rb.evaluate(rows, columns={"page": "p"})
    assert_message(caught.value)
