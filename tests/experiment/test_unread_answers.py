"""Gold answers in the gold document, of which another passage was read: a loss of the passage."""

import gzip
import json
from collections import Counter, defaultdict
from itertools import islice

import pytest

import ragbench as rb
from ragbench.comparison.gold import loss_of_answer
from ragbench.score.text.gold_words import GoldWords
from ragbench.types import Document
from tests.commands import run_command

LEAVE = Document(
    "leave.md",
    "A new employee has 25 days of leave a year. It is approved by the head of the department. "
    "Yes, leave can be sold. There are 3 kinds of leave, and three years of it expire in March.",
)
PASSAGE = Document("leave.md#4", "Leave that is not taken expires, as everybody knows.")
SENTENCE = "It is approved by the head of the department within a month of the request at most."


@pytest.mark.parametrize(
    ("gold", "passage", "is_lost"),
    [
        pytest.param("25 days", PASSAGE.text, True, id="a number of two digits"),
        pytest.param("the head of the department", PASSAGE.text, True, id="two words"),
        pytest.param("25 days", "It is 25 days.", False, id="the passage has it"),
        pytest.param("25 days", "Twenty-five days, or 25 of them.", False, id="in another order"),
        pytest.param(
            "the head of the department", "The department's head decides.", False, id="inverted"
        ),
        pytest.param("yes", PASSAGE.text, False, id="yes"),
        pytest.param("3 years", PASSAGE.text, False, id="a digit may be a word"),
        pytest.param("three", PASSAGE.text, False, id="one word"),
        pytest.param("March", PASSAGE.text, False, id="one name"),
        pytest.param("30 days", PASSAGE.text, False, id="not in the document"),
        pytest.param(SENTENCE, PASSAGE.text, False, id="a sentence is said in other words"),
    ],
)
def test_strong_evidence_alone_is_a_loss_of_the_passage(gold, passage, is_lost):
    words = GoldWords([gold], "How is it?")
    passages = [Document("leave.md#4", passage)]

    loss = loss_of_answer(words, [LEAVE], passages, [], 0.5)

    assert (loss is not None and loss.cause == "wrong_passage") == is_lost


def test_a_lower_hit_with_the_answer_is_ranked_too_low():
    words, lower = GoldWords(["25 days"], "How long?"), Document("leave.md#0", LEAVE.text[:40])

    loss = loss_of_answer(words, [LEAVE], [PASSAGE], [PASSAGE, None, lower], 0.5)

    assert loss.cause == "ranked_too_low"
    assert loss.why.endswith("rank 3")


@pytest.fixture
def wrong_passage_run(tmp_path, monkeypatch):
    """A run of an app that reads another passage of each gold document."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"question": "How long is it?", "reference": "25 days", "relevant": "leave.md"},
        {"question": "Who is asked?", "reference": "the department head", "relevant": "leave.md"},
        {"question": "Is it sold?", "reference": "yes", "relevant": "leave.md"},
    ]

    def app(question):
        context = {"id": "leave.md", "text": PASSAGE.text}
        return {"answer": "as everybody knows", "contexts": [context]}

    documents = {LEAVE.id: LEAVE.text}
    return rb.run_experiment(
        {"name": "leave"}, dataset=rows, documents=documents, apps={"app": app}
    )


def test_an_app_that_reads_another_passage_has_that_cause(wrong_passage_run, assert_message):
    causes = [row.cause for row in wrong_passage_run.causes["app"].values()]

    # the document says the second one in other words, and yes stands anywhere
    assert causes == ["wrong_passage", "not_used", "not_used"]
    lines = run_command("explain", str(wrong_passage_run.path)).stdout
    assert_message("\n".join(line for line in lines.splitlines() if "gold answer" in line))


@pytest.mark.costly
def test_articles_with_known_places_have_no_false_loss(lent_data, tmp_path, monkeypatch):
    path = lent_data / "xquad-en" / "test.jsonl.gz"
    if not path.is_file():
        pytest.skip("no XQuAD")
    monkeypatch.chdir(tmp_path)
    documents, rows, starts = defaultdict(str), [], {}
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for question in map(json.loads, islice(stream, 150)):
            title, context = question["title"], question["context"]
            if (title, context) not in starts:
                starts[title, context] = len(documents[title])
                documents[title] += f"{context}\n\n"
            answer = question["answers"][0]
            start = starts[title, context] + answer["answer_start"]
            span = {"document": title, "start": start, "end": start + len(answer["text"])}
            rows.append((question["id"], question["question"], answer["text"], span))

    def causes(has_spans):
        table = []
        for name, question, answer, span in rows:
            row = {"id": name, "question": question, "reference": answer}
            row |= {"relevant": span["document"]}
            table.append(row | ({"reference_spans": [span]} if has_spans else {}))
        config = {
            "name": f"spans-{has_spans}",
            "retrievers": {"bm25": {"type": "bm25", "chunk": {"by": "sentences", "size": 1}}},
            "metrics": {"retrieval": {"measures": ["found@1"], "top_k": 20}, "generation": []},
        }
        run = rb.run_experiment(
            config,
            dataset=table,
            documents=dict(documents),
            generators={"wrong": lambda question, contexts: "qwertz"},
        )
        return {query: row.cause for query, row in run.causes["bm25/wrong"].items()}

    by_span, by_answer = causes(True), causes(False)

    passages = ("ranked_too_low", "wrong_passage")
    counts = Counter((by_span[q] in passages, by_answer[q] in passages) for q in by_span)
    used = [q for q, cause in by_span.items() if cause == "not_used"]
    assert len(used) > 100
    assert [q for q in used if by_answer[q] != "not_used"] == []
    # more than a third of the losses of a passage are seen without spans
    assert counts[True, True] > (counts[True, True] + counts[True, False]) / 3
