"""Results in a notebook: short representations with scores, escaped tables, data frames."""

import base64
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from msgspec import structs

import ragbench as rb
from ragbench.types.scores import Verdict
from tests.messages import lines_with

HOSTILE = "<script>alert(1)</script>\u202e\x1b"
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}}
RUN = {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d1": 2.0, "d2": 1.0}}


def picture(html):
    """The image that a notebook shows, which has to be XML."""
    data = re.search('<img alt="[^"]*" src="data:image/svg[+]xml;base64,([^"]*)">', html)[1]
    return ElementTree.fromstring(base64.b64decode(data))


def test_an_evaluation_shows_its_scores(assert_message):
    result = rb.evaluate_run(RUN, QRELS, ["mrr@10"])

    assert_message(repr(result))
    assert_message(result._repr_html_())


@pytest.mark.costly
def test_an_experiment_is_short_and_has_scores(moons_run, assert_message):
    of_others = replace(moons_run, record=structs.replace(moons_run.record, name=HOSTILE))
    assert repr(of_others).isprintable(), "a summary.json may hold any name"

    assert len(repr(moons_run)) < 500
    mean = moons_run.summary["systems"][0]["scores"]["found@5"]["mean"]
    assert f"bm25: found@5 {mean:#.3g}" in repr(moons_run)
    html = moons_run._repr_html_()
    assert "<td>bm25/extractive</td>" in html
    [rankings, answers] = re.findall("<table><caption>.*?: (.*?)</caption>(.*?)</table>", html)
    assert [name for name, _ in (rankings, answers)] == ["rankings", "answers"]
    assert f"<td>{mean:#.3g}<br>[" in rankings[1]
    assert "ndcg@10" not in answers[1]
    root = picture(html)
    assert_message(root.get("aria-label"))


@pytest.mark.costly
def test_an_experiment_as_a_frame(moons_run):
    pytest.importorskip("pandas")
    frame = moons_run.to_pandas()

    assert len(frame) == 4 * 5
    row = frame.loc[("bm25/extractive", "q2")]
    assert row["token_f1"] == moons_run.per_query["bm25/extractive"]["token_f1"]["q2"]
    assert row["cause"] == moons_run.causes["bm25/extractive"]["q2"].cause
    assert frame["ndcg@10"].isna()["bm25"].tolist() == [False] * 4 + [True]
    assert moons_run.queries["q2"].answers == ("Europa",)


@pytest.mark.costly
def test_the_texts_and_pictures_of_an_experiment(moons_run, assert_message):
    pytest.importorskip("pandas")
    frame = moons_run.to_pandas(texts=True)

    assert [*frame.columns][:5] == ["question", "answer", "reference", "cause", "found@5"]
    row = frame.loc[("bm25/extractive", "q2")]
    assert row["question"] == "Where is an ocean beneath the ice?"
    assert row["answer"].startswith("Europa hides an ocean")
    assert row["reference"] == "Europa"
    why = moons_run.causes["bm25/extractive"]["q2"].why
    assert row["reason"].startswith(f"{why}; context_overlap: ")
    assert frame["answer"].isna()["bm25"].all()

    for kind in ("causes", "scores", "differences"):
        ElementTree.fromstring(moons_run.plot(kind)._repr_svg_())
    assert moons_run.plot().title == "where answers are lost"
    means = moons_run.plot("scores", "rouge1")
    assert means.words.startswith("bm25/extractive 0.")
    assert_message(moons_run.plot("differences", "rouge1").title)
    with pytest.raises(rb.OptionError) as error:
        moons_run.plot("scores", "rouge")
    assert_message(error.value)
    with pytest.raises(rb.OptionError) as error:
        moons_run.plot("loss")
    assert_message(error.value)


def test_the_picture_of_an_evaluation_and_its_file(tmp_path, assert_message):
    means = rb.evaluate_run(RUN, QRELS, ["mrr@10", "ndcg@10"]).plot()
    means.save(tmp_path / "means.svg")

    root = ElementTree.fromstring(means._repr_svg_())
    assert_message(root.get("aria-label"))
    assert_message(repr(means))
    assert (tmp_path / "means.svg").read_text("utf-8") == means.svg(alone=True)
    with pytest.raises(rb.OptionError) as error:
        means.save(tmp_path / "means.jpg")
    assert_message(error.value)


@pytest.mark.costly
def test_a_comparison(moons_run):
    pytest.importorskip("pandas")
    comparison = rb.compare(moons_run)
    frame = comparison.to_pandas()
    assert comparison.plot().title.startswith(
        f"{comparison.to_dict()['measures'][0]['measure']}: diff"
    )

    assert set(frame["system"]) >= {"exact"}
    html = comparison._repr_html_()
    assert len(frame) == html.count("<tr>") - 1
    first = frame.iloc[0]
    sentence = f"{first['system']} {first['measure']} "
    assert sentence in repr(comparison)
    assert f"{first['system']} {first['difference']:+.3g} against" in picture(html).get(
        "aria-label"
    )
    assert "<th>verdict</th>" in html


def test_a_verdict(assert_message):
    verdict = Verdict(0.5, 3, reasoning=HOSTILE + "long " * 100, raw="x" * 10_000)

    assert len(repr(verdict)) < 250
    assert_message(repr(verdict))
    failed = repr(Verdict(None, status="failed", cause="timeout"))
    assert_message(failed)


def test_foreign_texts_are_inert_in_a_notebook():
    html = Verdict(0.5, reasoning=HOSTILE)._repr_html_()

    assert "&lt;script&gt;" in html
    for raw in ("<script", "\u202e", "\x1b"):
        assert raw not in html


LONG = "word " * 1000
HIT = rb.ScoredDocument("d1", 0.5, text=LONG)
MANY = {f"q{n}": {f"d{k}": 1 for k in range(50)} for n in range(50)}


def quoted(answer):
    return True


RECORDS = (
    rb.Collection([rb.Query("q1", LONG)] * 50, [rb.Document("d1", LONG)] * 50),
    rb.Document("d1", LONG, metadata=dict.fromkeys("abcdefgh", LONG)),
    rb.Judge(type=quoted),
    rb.Option("Number of hits.", ge=1),
    rb.Prediction(LONG, [rb.Document("d1", LONG)] * 50),
    rb.Problem(LONG[:200], file="a.yaml", line=3),
    rb.Qrels.from_dict(MANY),
    rb.Query("q1", LONG),
    rb.Retrieved([HIT] * 50),
    rb.Run.from_dict(MANY),
    HIT,
    rb.Span("d1", 3, 500, quote=LONG[:400]),
    rb.ToolCall("search", {"text": LONG}),
    rb.Turn("user", LONG, (LONG,) * 50),
    Verdict(0.5, 3, reasoning=LONG, raw=LONG),
)
# shown by the tests above, or with a model by the tests of these scorers
ELSEWHERE = {
    rb.CollectionRuns,
    rb.Comparison,
    rb.Evaluation,
    rb.Experiment,
    rb.JudgeCalibration,
    rb.BERTScorer,
    rb.SemanticSimilarity,
}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_and_judges_are_short(record):
    text = repr(record)

    assert type(record).__name__ in text
    assert len(text) < 600
    assert " at 0x" not in text


def test_every_public_class_has_a_representation_of_its_own():
    public = {value for name in rb.__all__ if isinstance(value := getattr(rb, name), type)}
    classes = {kind for kind in public if not issubclass(kind, Exception)}

    assert classes == {type(record) for record in RECORDS} | ELSEWHERE
    assert [kind for kind in classes if kind.__repr__ is object.__repr__] == []


SEARCH = {"name": "own", "retrievers": {"bm25": {"type": "bm25"}}}


@pytest.mark.costly
def test_questions_and_documents_of_a_notebook(tmp_path, monkeypatch, assert_message):
    monkeypatch.chdir(tmp_path)
    questions = [{"question": "How hot is Io?", "reference": "hot", "relevant": "io"}]
    documents = {"io": "Io is hot.", "europa": "Europa is cold."}

    def search(question, top_k):
        return ["europa", "io"]

    experiment = rb.run_experiment(
        dataset=questions, documents=documents, retrievers={"mine": search}
    )
    of_texts = rb.run_experiment(
        SEARCH, dataset=[{"question": "Hot?", "reference": "hot"}], documents=[*documents.values()]
    )

    assert experiment.record.systems[0].scores["mrr@10"].mean == 0.5
    assert of_texts.record.systems[0].scores["answer_hit@1"].mean == 1
    assert_message(lines_with(str(experiment), "1 of"))
    assert experiment.record.dataset.documents == of_texts.record.dataset.documents == 2


def test_documents_need_questions(assert_message):
    with pytest.raises(rb.OptionError) as error:
        rb.run_experiment({**SEARCH, "dataset": {"type": "beir", "path": "."}}, documents=["a"])
    assert_message(error.value)


def test_metadata_of_every_form_are_columns_of_an_experiment(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    of_first = {"tags": ["law", 2, None], "nested": {"parts": ["a"]}, "tenant": "t1", "empty": []}
    rows = [
        {"question": "a?", "answer": "x", "reference": "x", **of_first},
        {"question": "b?", "answer": "y", "reference": "y", "tenant": "t2"},
    ]

    config = {"statistics": {"slices": ["tenant", "tags"]}}
    experiment = rb.run_experiment(config, dataset=rows)

    frame = experiment.to_pandas(texts=True)
    assert frame["tags"].iloc[0] == ["law", 2]
    assert frame["nested"].iloc[0] == {"parts": ["a"]}
    assert frame["empty"].iloc[0] == []
    assert frame["tenant"].tolist() == ["t1", "t2"]
    by_field = experiment.record.systems[0].causes_by
    assert {field: [*slices] for field, slices in by_field.items()} == {
        "tenant": ["t1", "t2"],
        "tags": ["2", "law", "(none)"],
    }
