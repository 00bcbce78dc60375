"""`match:` in whole experiments: what is folded, what is credited, what is said about it."""

import json

import pytest
import pytrec_eval

import ragbench as rb
from ragbench.data.files.trec_files import read_run
from tests.commands import run_command
from tests.experiment.moons import CORPUS, write_jsonl
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes

DOCUMENT = {"level": "document", "id": "metadata.doc_id"}
SEPARATOR = {"level": "document", "separator": "#"}


@pytest.fixture
def config(config):
    """The config with one retriever: what is tested needs no second one."""
    del config["retrievers"]["exact"]
    return config


@pytest.fixture
def chunked(config, data):
    """The moons, each cut into its title and its text: twelve chunks of six documents."""
    rows = [
        {"_id": f"{doc}#{part}", "text": text, "metadata": {"doc_id": doc, "part": part}}
        for doc, texts in CORPUS.items()
        for part, text in enumerate(texts)
    ]
    write_jsonl(data / "corpus.jsonl", rows)
    config["generators"] = {}
    return config


def with_match(config, match, measures=("recall@2", "mrr", "ndcg@2"), **rules):
    config["metrics"] = {"retrieval": {"match": match, "measures": list(measures), **rules}}
    return config


def scores_of(experiment, system):
    return next(s["scores"] for s in experiment.summary["systems"] if s["name"] == system)


def chunks_of_two(question, top_k):
    """Six chunks of two documents, then a third one."""
    return ["d6#0", "d6#1", "d2#1", "d2#0", "d1#1"][:top_k]


@pytest.mark.parametrize("match", [DOCUMENT, SEPARATOR])
def test_k_counts_documents(chunked, match):
    # q2 wants d2 and d6: ranks 1 and 3 as chunks, 1 and 2 as documents.
    experiment = rb.run_experiment(with_match(chunked, match), retrievers={"mine": chunks_of_two})

    per_query = experiment.per_query["mine"]
    assert per_query["recall@2"]["q2"] == 1.0
    assert per_query["mrr"]["q1"] == pytest.approx(1 / 3)
    (rule,) = match.items() - {("level", "document")}
    expected = f"match:document({rule[0]}={rule[1]})"
    for name, score in scores_of(experiment, "mine").items():
        assert expected in score["signature"], name


def test_level_id_leaves_signatures_alone(config):
    config["generators"] = {}
    plain = rb.run_experiment(config)
    by_id = rb.run_experiment({**config, "metrics": {"retrieval": {"match": {"level": "id"}}}})

    for name, score in scores_of(plain, "bm25").items():
        assert "match:" not in score["signature"]
        assert scores_of(by_id, "bm25")[name]["signature"] == score["signature"]


def test_trec_eval_on_the_written_rankings_gives_our_numbers(chunked, data):
    experiment = rb.run_experiment(with_match(chunked, SEPARATOR, no_relevant="zero"))
    qrels = rb.read_qrels(data / "qrels" / "test.tsv").to_dict()

    run = read_run(experiment.path / "rankings" / "bm25.trec")
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {"recall.2", "recip_rank", "ndcg_cut.2"})
    theirs = oracle.evaluate(run.to_dict())
    for ours, name in (
        ("recall@2", "recall_2"),
        ("mrr", "recip_rank"),
        ("ndcg@2", "ndcg_cut_2"),
    ):
        for query, value in experiment.per_query["bm25"][ours].items():
            assert value == pytest.approx(theirs.get(query, {}).get(name, 0.0), abs=1e-9)
    # the hits as retrieved are kept beside the folded ranking: their ids have the separator
    passages = read_run(experiment.path / "passages" / "bm25.trec")
    assert {name.partition("#")[1] for name in passages.documents} == {"#"}


def test_a_generator_still_gets_the_chunks(chunked):
    def parrot(question, contexts):
        return " ".join(context.id for context in contexts)

    experiment = rb.run_experiment(
        with_match(chunked, SEPARATOR),
        retrievers={"mine": chunks_of_two},
        generators={"parrot": parrot},
    )

    lines = (experiment.path / "predictions" / "mine--parrot.jsonl").read_text().splitlines()
    # folding is for scores; prompts hold chunks in their retrieved order
    assert json.loads(lines[0])["answer"] == "d6#0 d6#1 d2#1 d2#0 d1#1"


def test_what_the_retriever_says_of_its_hit_comes_first(chunked):
    def search(question, top_k):
        return [
            {"id": "x1", "metadata": {"source": {"doc": "d2"}}},
            # a flat key with a dot means the same as a nested one
            {"id": "x2", "metadata": {"source.doc": "d6"}},
            {"id": "x3", "metadata": {"source": {"doc": "d2"}}},
        ]

    match = {"level": "document", "id": "metadata.source.doc"}
    chunked["retrievers"] = {}

    experiment = rb.run_experiment(with_match(chunked, match), retrievers={"mine": search})

    assert experiment.per_query["mine"]["recall@2"]["q2"] == 1.0


def test_numbers_as_document_ids(chunked, data):
    (data / "qrels" / "test.tsv").write_text("q1\t7\t1\n")
    chunked["retrievers"] = {}

    def search(question, top_k):
        return [{"id": "a", "metadata": {"doc_id": 7}}, {"id": "b", "metadata": {"doc_id": 8}}]

    # without a corpus only the metadata of hits names their documents
    (data / "corpus.jsonl").unlink()
    experiment = rb.run_experiment(
        with_match(chunked, DOCUMENT, ["mrr"]), retrievers={"mine": search}
    )

    assert experiment.per_query["mine"]["mrr"] == {"q1": 1.0}


def test_too_few_documents_are_counted(chunked, assert_message):
    # top_k 3 leaves chunks of two documents; k is 3.
    experiment = rb.run_experiment(
        with_match(chunked, SEPARATOR, ["recall@3"], top_k=3), retrievers={"mine": chunks_of_two}
    )

    assert_message(experiment.summary["warnings"])


def test_enough_documents_need_no_warning(chunked):
    experiment = rb.run_experiment(
        with_match(chunked, SEPARATOR, ["recall@3", "map"]), retrievers={"mine": chunks_of_two}
    )

    assert not [w for w in experiment.summary["warnings"] if "after folding" in w and "mine" in w]


def test_passages_without_the_key_are_counted(chunked, assert_message):
    def search(question, top_k):
        # `homeless` is not in the corpus and has no metadata
        return ["d6#0", "homeless", "d2#1"]

    experiment = rb.run_experiment(with_match(chunked, DOCUMENT), retrievers={"mine": search})

    assert_message(experiment.summary["warnings"])
    assert experiment.per_query["mine"]["recall@2"]["q2"] == 0.5


def test_a_key_that_no_passage_has_is_refused(chunked, assert_message):
    match = {"level": "document", "id": "metadata.docid"}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(with_match(chunked, match))
    assert_message(error.value, "metrics.retrieval.match.id")


def test_texts_cut_otherwise_are_found(config):
    # Chunks of another cut, with ids of their own: the title and half of the text.
    def search(question, top_k):
        return [
            {"id": "d1", "text": "Titan has lakes."},  # an id that is judged, and another text
            {"id": "c1", "text": "Io: Io has hundreds of active volcanoes, the most of any moon."},
            {"id": "c2", "text": "hundreds of active volcanoes"},
            {"id": "c3", "text": "Europa hides an ocean of salt water beneath its ice. And more."},
        ]

    config["generators"], config["retrievers"] = {}, {}
    match = {"level": "text", "overlap": 0.9}

    experiment = rb.run_experiment(
        with_match(config, match, ["mrr", "num_rel_ret", "precision@3"]),
        retrievers={"mine": search},
    )

    scores = experiment.per_query["mine"]
    assert scores["mrr"] == pytest.approx(
        {"q1": 1 / 2, "q2": 1 / 4, "q3": 0, "q4": 0, "q5": float("nan")}, nan_ok=True
    )
    assert scores["num_rel_ret"]["q1"] == 1.0, "c2 matches what is credited to c1"
    assert scores["precision@3"]["q1"] == pytest.approx(1 / 3)
    assert "match:text(overlap=0.9)" in scores_of(experiment, "mine")["mrr"]["signature"]
    ranking = read_run(experiment.path / "rankings" / "mine.trec").ranking("q1")
    # the id d1 is judged, but its text matches nothing: `d1~` keeps it apart from gold d1
    assert [name for name, _ in ranking] == ["d1~", "d1", "c2", "c3"]
    passages = read_run(experiment.path / "passages" / "mine.trec").ranking("q1")
    assert [name for name, _ in passages] == ["d1", "c1", "c2", "c3"]


def test_one_passage_for_several_gold_ones_is_noted(config):
    def search(question, top_k):
        return [{"id": "whole", "text": " ".join(text for _, text in CORPUS.values())}]

    config["generators"], config["retrievers"] = {}, {}

    experiment = rb.run_experiment(
        with_match(config, {"level": "text"}, ["recall@1"]), retrievers={"mine": search}
    )

    # one passage holds both gold texts of q2 and may stand for only one of them
    assert experiment.per_query["mine"]["recall@1"]["q2"] == 1 / 2
    note = "mine: 2 passages match several gold passages; each counts for one, the best graded"
    assert note in experiment.summary["notes"]


def test_level_text_on_the_same_cut_is_level_id(config):
    config["generators"] = {}
    names = ["ndcg@5", "map", "recall@3"]
    by_id = rb.run_experiment(with_match(config, {"level": "id"}, names))

    by_text = rb.run_experiment(with_match(config, {"level": "text", "overlap": 1}, names))

    for name in names:
        assert by_text.per_query["bm25"][name] == pytest.approx(
            by_id.per_query["bm25"][name], nan_ok=True
        )


def test_texts_that_are_not_known_are_counted_or_refused(config, assert_message):
    config["generators"], config["retrievers"] = {}, {}
    with_match(config, {"level": "text"}, ["mrr"])

    some = rb.run_experiment(config, retrievers={"mine": lambda q, k: ["d1", "unknown"]})
    assert_message(some.summary["warnings"])
    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config, retrievers={"mine": lambda q, k: ["unknown"]})
    assert_message(error.value, "metrics.retrieval.match")


def test_answer_hit_looks_into_passages_whatever_is_folded(chunked):
    experiment = rb.run_experiment(
        with_match(chunked, SEPARATOR, ["answer_hit@1", "answer_hit@4"]),
        retrievers={"mine": chunks_of_two},
    )

    scores = experiment.per_query["mine"]
    assert (scores["answer_hit@1"]["q2"], scores["answer_hit@4"]["q2"]) == (0.0, 1.0)
    assert "match" not in scores_of(experiment, "mine")["answer_hit@1"]["signature"]


@pytest.mark.parametrize(
    ("match", "removed_id", "reason"),
    [
        ({"level": "id"}, "d6", "are not in the corpus"),
        (SEPARATOR, "d6", "have no passage in the corpus"),
        (DOCUMENT, "d6", "have no passage in the corpus"),
        ({"level": "text"}, "d6", "have no text in the corpus"),
    ],
)
def test_stale_judgements_are_counted(config, data, match, removed_id, reason):
    part = "#0" if match["level"] == "document" else ""
    rows = [
        {"_id": f"{doc}{part}", "text": text, "metadata": {"doc_id": doc}}
        for doc, (_, text) in CORPUS.items()
        if doc != removed_id
    ]
    write_jsonl(data / "corpus.jsonl", rows)

    summary = rb.run_experiment(with_match(config, match)).summary

    assert (
        f"1 of 6 judged documents {reason}, such as 'd6'; no system can find "
        "them: the judgements look stale"
    ) in summary["warnings"]


def test_judgements_of_nothing_in_the_corpus_are_refused(chunked, assert_message):
    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(chunked)
    assert_message(error.value, "metrics.retrieval.match")


def test_the_command_says_how_hits_are_matched(chunked, tmp_path, assert_message):
    (tmp_path / "c.yaml").write_text(
        "dataset: {type: beir, path: moons}\n"
        "retrievers: {bm25: {type: bm25}}\n"
        'metrics: {retrieval: {match: {level: document, separator: "#"}, measures: [recall@10]}}\n'
    )

    validated = run_command("validate", "c.yaml", cwd=tmp_path)
    done = run_command("run", "c.yaml", cwd=tmp_path)

    assert_message(validated.stdout)
    assert done.returncode == 0, done.stderr
    assert_message(lines_with(done.stdout + done.stderr, "than 10"))
    (report,) = tmp_path.glob("runs/c/2*/report.md")
    assert "match:document(separator=" in report.read_text()
    saved = next(tmp_path.glob("runs/c/2*/config.yaml"))
    assert run_command("validate", str(saved), cwd=saved.parent).returncode == 0


def chunked_by_us(config, **match):
    config["generators"] = {"extractive": {"type": "extractive", "sentences": 1}}
    config["retrievers"] = {
        "plain": {"type": "bm25"},
        "whole": {"type": "bm25", "chunk": {"by": "words", "size": 999}},
        "cut": {"type": "bm25", "chunk": {"by": "words", "size": 4}},
    }
    return with_match(config, match or {"level": "id"}, ("recall@2", "mrr", "ndcg@2"))


def test_chunks_are_folded_for_scoring_and_given_to_generators(config):
    experiment = rb.run_experiment(chunked_by_us(config))

    for measure, scores in experiment.per_query["whole"].items():
        assert scores == pytest.approx(experiment.per_query["plain"][measure], nan_ok=True)
    assert all(" nothing here: " in text for text in experiment.summary["warnings"])
    ranking = read_run(experiment.path / "rankings" / "cut.trec").ranking("q1")
    assert {name for name, _ in ranking} <= set(CORPUS)
    passages = read_run(experiment.path / "passages" / "cut.trec").ranking("q1")
    assert all(name.split("#")[0] in CORPUS for name, _ in passages)
    lines = (experiment.path / "predictions" / "cut--extractive.jsonl").read_text().splitlines()
    contexts = [passage for line in lines for passage in json.loads(line)["contexts"]]
    assert contexts
    for context in contexts:
        assert len(context["text"].split()) <= 4
        assert context["text"] in CORPUS[context["id"].split("#")[0]][1]


def test_chunks_of_documents_that_are_folded_themselves(chunked):
    # A chunk of `d1#1` is of `d1#1`, whose document is `d1`.
    for match in (DOCUMENT, SEPARATOR):
        chunked["retrievers"] = {
            "plain": {"type": "bm25"},
            "cut": {"type": "bm25", "chunk": {"by": "words", "size": 999}},
        }
        experiment = rb.run_experiment(with_match(chunked, match, ("mrr", "recall@2")))

        for measure, scores in experiment.per_query["cut"].items():
            assert scores == pytest.approx(experiment.per_query["plain"][measure], nan_ok=True)


def test_stored_chunks_are_read_again_and_not_those_of_another_size(config):
    first = rb.run_experiment(chunked_by_us(config))
    again = rb.run_experiment(config)
    config["retrievers"]["cut"]["chunk"]["size"] = 2
    other = rb.run_experiment(config)

    for name in ("rankings", "passages"):
        texts = [(run.path / name / "cut.trec").read_text() for run in (first, again, other)]
        assert texts[0] == texts[1] != texts[2]


def test_gold_passages_without_a_corpus_are_matched_by_their_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "user_input": "Where are volcanoes?",
            "retrieved_contexts": ["Mars is red.", "On Io there are volcanoes, many of them."],
            "reference_contexts": ["There are many volcanoes on Io."],
        },
        {
            "user_input": "What is red?",
            "retrieved_contexts": ["Io is yellow."],
            "reference_contexts": ["Mars is red."],
        },
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "ragas.jsonl").write_text(lines, encoding="utf-8")

    experiment = rb.run_experiment({"dataset": {"type": "records", "path": "ragas.jsonl"}})

    [system] = experiment.record.systems
    assert system.scores["mrr@10"].mean == pytest.approx((1 / 2 + 0) / 2)
    assert "match:text(overlap=0.8)" in system.scores["mrr@10"].signature
