"""Scores that tell nothing are said first, with the reason, and nothing is best by them."""

import json
import math
import re
from itertools import count

import pytest
from click.testing import CliRunner

import ragbench as rb
from ragbench.cli.run import command as run_command
from ragbench.errors import DataError
from ragbench.report.layout import lay_out
from ragbench.testing import ChatServer
from ragbench.types import ScoredDocument
from tests.messages import lines_with

MEASURES = ["mrr", "answer_hit@1", "answer_hit@2"]
TEXTS = {f"d{n}": f"Moon {n} is {word}." for n, word in enumerate(("hot", "icy", "dark", "red"))}

# numbers of the parts of documents
PARTS = count()


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def config(rows, retrievers=None, **more):
        (tmp_path / "docs").mkdir(exist_ok=True)
        for name, text in TEXTS.items():
            (tmp_path / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
        lines = "".join(json.dumps({"question": q, **row}) + "\n" for q, row in rows)
        (tmp_path / "qa.jsonl").write_text(lines, encoding="utf-8")
        systems = {"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}}
        return {
            "dataset": {"type": "records", "path": "qa.jsonl", "corpus": "docs"},
            "retrievers": systems if retrievers is None else retrievers,
            **more,
        }

    return config


def questions_with(gold):
    return [(f"Which moon is {word}?", gold(n)) for n, word in enumerate(("hot", "icy", "dark"))]


def families(experiment):
    return {family.measure: family for family in experiment.compared.measures}


SENTENCES = [
    (
        lambda n: {"reference": f"It is well known that the moon number {n} is like this."},
        "have 12",
    ),
    (lambda n: {"reference": "Nobody has ever been up there"}, "have 6 words in the median"),
    (lambda n: {"reference": "green"}, "no retrieved passage holds a gold answer word for word:"),
]


@pytest.mark.costly
@pytest.mark.parametrize(("gold", "expected"), SENTENCES)
def test_answers_that_no_passage_can_hold(write, gold, expected, assert_message):
    experiment = rb.run_experiment(write(questions_with(gold)))

    family = families(experiment)["answer_hit@5"]
    assert (family.best, family.tied_with_best) == (None, ())
    assert expected in family.tells_nothing
    assert_message(family.tells_nothing)
    [warning] = [text for text in experiment.record.warnings if text.startswith("found@5, answer")]
    assert_message(warning)
    markdown = (experiment.path / "report.md").read_text(encoding="utf-8")
    first, *_ = markdown.splitlines()
    assert_message(first)
    assert "**0.00**" not in markdown
    page = (experiment.path / "report.html").read_text(encoding="utf-8")
    assert page.count("tell nothing here: for 3 of 3") == 1, "said once, at the top"


@pytest.mark.parametrize("read", [1, 2, 3])
def test_causes_count_the_hits_that_answer_hit_counts(write, tmp_path, read):
    # The words of `dark moon` stand scattered in a passage, and 1932 only as 1,932 in another.
    gold = ("1932", "1,932", "dark moon", "hot since", "in 1 932 places")
    rows = [(f"Is moon {n} hot or icy?", {"reference": text}) for n, text in enumerate(gold)]
    config = write(rows, causes={"read": read})
    config["metrics"] = {"retrieval": {"measures": [f"answer_hit@{read}"]}}
    for name, text in (("d0", "hot since 1932"), ("d1", "icy in 1,932 places")):
        (tmp_path / "docs" / f"{name}.md").write_text(f"Moon {name} is {text}.", encoding="utf-8")

    experiment = rb.run_experiment(config)

    for system in experiment.summary["systems"]:
        hits = experiment.per_query[system["name"]][f"answer_hit@{read}"]
        causes = experiment.causes[system["name"]]
        assert {q for q, hit in hits.items() if hit} == {
            q for q, loss in causes.items() if loss.cause == "found"
        }


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_it_is_the_first_that_the_terminal_says_also_when_quiet(
    write, tmp_path, options, assert_message
):
    config = write(questions_with(SENTENCES[0][0]))
    (tmp_path / "c.yaml").write_text(json.dumps(config), encoding="utf-8")

    done = CliRunner().invoke(run_command, ["c.yaml", *options], catch_exceptions=False)

    assert_message(done.stdout.splitlines()[0])
    if options:
        assert "\n\n" not in done.stdout
        return
    assert " better" not in done.stdout.partition("\n\n")[2]


def test_answers_that_passages_hold_are_no_matter(write, assert_message):
    words = ("hot", "icy", "dark")
    experiment = rb.run_experiment(write(questions_with(lambda n: {"reference": words[n]})))

    # both systems are right everywhere: that is another reason
    family = families(experiment)["answer_hit@5"]
    assert_message(family.tells_nothing)


def test_systems_that_differ_have_a_best(write):
    config = write(
        questions_with(lambda n: {"relevant": f"d{n}"}), retrievers={"bm25": {"type": "bm25"}}
    )

    experiment = rb.run_experiment(config, retrievers={"bad": lambda question, top_k: ["d3.md"]})

    assert families(experiment)["ndcg@10"].best == "bm25"
    assert families(experiment)["ndcg@10"].tells_nothing is None
    assert not any("tell nothing" in text for text in experiment.record.warnings)


def test_hits_that_nobody_judged(write, assert_message):
    config = write(questions_with(lambda n: {"relevant": f"d{n}"}), retrievers={})

    experiment = rb.run_experiment(config, retrievers={"bad": lambda question, top_k: ["d3.md"]})

    family = families(experiment)["ndcg@10"]
    assert family.best is None
    assert_message(family.tells_nothing)


def test_hits_that_are_judged_and_wrong(write, assert_message):
    config = write(questions_with(lambda n: {"relevant": f"d{n}"}), retrievers={})
    wrong = {"hot": "d1.md", "icy": "d2.md", "dark": "d0.md"}

    experiment = rb.run_experiment(
        config,
        retrievers={"bad": lambda question, top_k: [wrong[question.split()[-1].rstrip("?")]]},
    )

    reason = families(experiment)["ndcg@10"].tells_nothing
    assert_message(reason)
    assert_message(families(experiment)["found@5"].tells_nothing)


def never(retrieved, judged):
    """A measure that is 0 whatever is found."""
    return 0.0


NEVER = "python:tests.experiment.test_doubts:never"


@pytest.mark.parametrize("rank", [None, 1, 2, 3])
def test_a_measure_of_zero_does_not_say_that_nothing_is_relevant(write, rank):
    # The oracle is the rank of the gold: whether it counts, not the value of the measure.
    names = {None: NEVER, 1: f"{NEVER}@1", 2: f"{NEVER}@2"}
    metrics = {"retrieval": {"measures": [*names.values(), "mrr@2", "iprec_at_recall@1.0"]}}
    # a last question, which no system answers, judges the other documents
    rows = [
        *questions_with(lambda n: {"relevant": ["d0", "d1"]}),
        ("Why?", {"relevant": ["d2", "d3"]}),
    ]
    hits = ["d2.md", "d3.md"]
    if rank is not None:
        hits.insert(rank - 1, "d0.md")
    other_hits = {"Why?": ["d0.md", "d1.md"]}

    experiment = rb.run_experiment(
        write(rows, retrievers={}, metrics=metrics),
        retrievers={"mine": lambda question, top_k: other_hits.get(question, hits)},
    )

    by_measure = families(experiment)
    reason = "no hit that counts is relevant to its query"
    for k, name in names.items():
        is_found = rank is not None and (k is None or rank <= k)
        assert by_measure[name].tells_nothing == (None if is_found else reason), name
    assert (by_measure["mrr@2"].tells_nothing == reason) is (rank in (None, 3))
    assert (by_measure["iprec_at_recall@1.0"].tells_nothing == reason) is (rank is None)


def test_gold_in_another_passage_of_its_document_has_its_own_reason(
    write, tmp_path, assert_message
):
    # The right file is hit, by a passage without the quote: its gold is not met.
    text = "Pay day is the 25th.\n\nLeave is 30 days.\n"
    facts = {"reference": "30 days", "relevant": "d0.md", "quote": "Leave is 30 days."}
    config = write([("How many days of leave?", facts)], retrievers={})
    (tmp_path / "docs" / "d0.md").write_text(text, "utf-8")
    passage = rb.Document(id="1", text="Pay day is the 25th.", metadata={"source": "docs/d0.md"})

    experiment = rb.run_experiment(config, retrievers={"bad": lambda question, top_k: [passage]})

    assert_message(families(experiment)["found@5"].tells_nothing)
    assert_message(lay_out(experiment.record, experiment.compared).lead)


class Hits:
    """Finds everything, under ids of its own."""

    def __init__(self, id_of):
        self.id_of = id_of

    def retrieve(self, queries, top_k):
        return [[self.id_of(name) for name in TEXTS] for _ in queries]


@pytest.mark.parametrize(
    ("id_of", "expected"),
    [
        (
            lambda name: ScoredDocument(f"u-{name}!", metadata={"n": 1, "doc": f"{name}.md"}),
            "mine: none of its 12 hits is known to the judgements, such as 'u-d0!', while metadata "
            "'doc' of the hits is; allowed: id_field: doc; or metrics.retrieval: match: "
            "{level: document, id: metadata.doc} where hits are parts of these",
        ),
        (
            # several chunks of each document
            lambda name: ScoredDocument(f"{name}.md::{next(PARTS)}"),
            "mine: none of its 12 hits is known to the judgements, such as 'd0.md::0', while what "
            "stands before '::' is; allowed: metrics.retrieval: match: {level: document, "
            'separator: "::"}',
        ),
        (
            lambda name: ScoredDocument(f"id {name}", metadata={"page": 1}),
            "mine: none of its 12 hits is known to the judgements, such as 'id%20d0'; allowed: ids "
            "such as 'd0.md' (judged) or 'd0.md' (corpus); id_field: one of page",
        ),
    ],
)
def test_ids_of_something_else_are_an_error_that_names_the_key(write, id_of, expected):
    config = write(questions_with(lambda n: {"relevant": f"d{n}"}))

    with pytest.raises(DataError) as caught:
        rb.run_experiment(config, retrievers={"mine": Hits(id_of)})

    assert str(caught.value) == expected


def test_one_known_hit_is_enough(write, assert_message):
    config = write(questions_with(lambda n: {"relevant": f"d{n}"}))
    ids = {"d0": "d0.md", "d1": "x", "d2": "y", "d3": "z"}

    experiment = rb.run_experiment(
        config, retrievers={"mine": Hits(lambda n: ScoredDocument(ids[n]))}
    )

    assert_message(experiment.record.warnings)


@pytest.mark.parametrize(
    "hit",
    [
        lambda name: ScoredDocument(f"/abs/docs/{name}.md"),
        lambda name: ScoredDocument(f"docs/{name}.md"),
        lambda name: ScoredDocument(f"C:\\docs\\{name.upper()}.MD"),
        lambda name: ScoredDocument(name),
        lambda name: ScoredDocument(f"uuid-{name}", metadata={"source": f"/abs/docs/{name}.md"}),
        lambda name: ScoredDocument(f"uuid-{name}", metadata={"file_path": f"../docs/{name}.md"}),
    ],
)
def test_hits_are_matched_with_documents_as_gold_ids_are(write, hit, assert_message):
    metrics = {"retrieval": {"measures": ["mrr"]}}
    config = write(questions_with(lambda n: {"relevant": f"d{n}"}), retrievers={}, metrics=metrics)

    experiment = rb.run_experiment(config, retrievers={"mine": Hits(hit)})

    # all documents in one order: the gold ones are at ranks 1, 2 and 3
    scores = experiment.per_query["mine"]["mrr"]
    assert list(scores.values()) == pytest.approx([1, 1 / 2, 1 / 3])
    assert experiment.record.warnings == ()
    assert_message(experiment.record.notes)


def test_a_name_of_several_documents_matches_none(write, tmp_path, assert_message):
    config = write(questions_with(lambda n: {"relevant": f"d{n}.md"}), retrievers={})
    for folder in ("old", "new"):
        (tmp_path / "docs" / folder).mkdir()
        (tmp_path / "docs" / folder / "leave.md").write_text("Leave.", encoding="utf-8")

    with pytest.raises(DataError) as error:
        rb.run_experiment(config, retrievers={"mine": lambda question, top_k: ["leave.md"]})
    assert_message(error.value)


def test_a_retriever_that_was_corrected_is_called_again(write, assert_message):
    config = write(questions_with(lambda n: {"relevant": f"d{n}.md"}), retrievers={})
    with pytest.raises(DataError) as error:
        rb.run_experiment(config, retrievers={"mine": lambda question, top_k: ["wrong"]})
    assert_message(error.value)

    corrected = {"mine": lambda question, top_k: ["d1.md"]}
    experiment = rb.run_experiment(config, retrievers=corrected)

    assert experiment.record.systems[0].scores["hit_rate@1"].mean == pytest.approx(1 / 3)


def write_lines(tmp_path, rows):
    lines = "".join(json.dumps({"question": question, **row}) + "\n" for question, row in rows)
    (tmp_path / "qa.jsonl").write_text(lines, encoding="utf-8")
    return {"dataset": {"type": "records", "path": "qa.jsonl"}, "retrievers": {}}


def summary_of(experiment, system):
    return next(s for s in experiment.summary["systems"] if s["name"] == system)


def test_ids_that_never_meet_have_no_score_and_no_verdict(tmp_path, monkeypatch):
    # Without a corpus, ids of which none is judged for any question may mean anything.
    monkeypatch.chdir(tmp_path)
    config = write_lines(tmp_path, questions_with(lambda n: {"relevant": "d"}))
    config["metrics"] = {"retrieval": {"measures": ["ndcg@10", "num_rel_ret"]}}
    config["gates"] = [{"measure": "ndcg@10", "min": 0.0}]

    experiment = rb.run_experiment(
        config,
        retrievers={
            "good": lambda question, top_k: ["x", "d"] if "hot" in question else ["x"],
            "mine": lambda question, top_k: ["u1"],
        },
    )

    warning = (
        "mine: none of its 3 hits is known to the judgements, such as 'u1' (judgements such as "
        "'d'): its measures of ids have no score (unknown_ids); make the ids equal, or set id_field"
    )
    assert warning in experiment.record.warnings
    assert all(map(math.isnan, experiment.per_query["mine"]["ndcg@10"].values()))
    scores = summary_of(experiment, "mine")["scores"]
    assert [scores[name]["mean"] for name in scores] == [None] * 3, "also of a sum"
    assert [scores[name]["not_applicable"] for name in scores] == [3] * 3
    # a system that finds the gold of one question alone has its honest zeros
    assert list(experiment.per_query["good"]["ndcg@10"].values()) == [
        pytest.approx(0.6309, abs=1e-4),
        0,
        0,
    ]
    [difference] = families(experiment)["ndcg@10"].comparisons
    assert (difference.difference, difference.p, difference.differs) == (None, None, None)
    verdicts = {gate.system: gate.verdict for gate in experiment.record.gates}
    assert verdicts == {"good": "pass", "mine": "undecided"}
    assert {loss.cause for loss in experiment.causes["mine"].values()} == {"unknown"}


def test_the_warning_on_ids_stands_before_the_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = questions_with(lambda n: {"relevant": "d", "contexts": [{"id": "u1", "text": "Hot."}]})
    config = write_lines(tmp_path, rows)
    (tmp_path / "c.yaml").write_text(json.dumps(config), encoding="utf-8")

    done = CliRunner().invoke(run_command, ["c.yaml"], catch_exceptions=False)

    warning = "warning: given: none of its 3 hits is known to the judgements, such as 'u1' ("
    assert done.exit_code == 2, "nothing was scored"
    assert 0 < done.stdout.index(warning) < done.stdout.index("\n\n")
    assert re.search(r"\ngiven +-( +-)*\n", done.stdout), "no score is 0"


@pytest.mark.parametrize("has_corpus", [True, False])
def test_an_app_that_returns_texts_alone_keeps_its_answer_metrics(
    write, tmp_path, has_corpus, assert_message
):
    rows = questions_with(lambda n: {"relevant": f"d{n}", "reference": f"moon {n}"})
    config = write(rows, retrievers={}) if has_corpus else write_lines(tmp_path, rows)

    experiment = rb.run_experiment(
        config, apps={"mine": lambda question: {"answer": "moon 1", "contexts": ["Some text."]}}
    )

    assert not [text for text in experiment.record.warnings if text.startswith("mine")]
    [note] = lines_with(experiment.record.notes, "no ids")
    assert_message(note)
    assert ("level: text" in note) is has_corpus, "texts of judged documents are in the corpus"
    scores = summary_of(experiment, "mine")["scores"]
    assert scores["ndcg@10"]["mean"] is None
    assert scores["token_f1"]["mean"] == pytest.approx((0.5 + 1 + 0.5) / 3)


def build_named_chain(metadata):
    """Return a chain with documents of these metadata."""
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    documents = [Document("Some text.", metadata=metadata)]
    return RunnableLambda(lambda question: {"answer": "moon 1", "context": documents})


def build_named_engine(metadata):
    """Return a query engine whose nodes have these metadata."""
    from llama_index.core.base.response.schema import Response
    from llama_index.core.query_engine import CustomQueryEngine
    from llama_index.core.schema import NodeWithScore, TextNode

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str):
            node = TextNode(text="Some text.", metadata=metadata)
            return Response("moon 1", source_nodes=[NodeWithScore(node=node, score=1.0)])

    return Engine()


@pytest.mark.parametrize(
    ("kind", "metadata", "keys"),
    [
        ("langchain", {"name": "docs/d1.md", "lang": "en"}, "name, lang"),
        ("langchain", {}, "metadata"),
        ("llama_index", {"name": "docs/d1.md"}, "name"),
    ],
)
def test_an_app_of_a_library_without_ids_is_told_of_id_field(write, kind, metadata, keys):
    pytest.importorskip({"langchain": "langchain_core", "llama_index": "llama_index.core"}[kind])
    rows = questions_with(lambda n: {"relevant": f"d{n}", "reference": f"moon {n}"})
    factory = {"langchain": "build_named_chain", "llama_index": "build_named_engine"}[kind]
    app = {"type": kind, "factory": f"{__name__}:{factory}", "args": {"metadata": metadata}}

    unnamed = rb.run_experiment(write(rows, retrievers={}, apps={"mine": app}))

    texts = [*unnamed.record.notes, *unnamed.record.warnings]
    [text] = [text for text in texts if text.startswith("mine: ") and "unknown_ids" in text]
    assert "set id_field to" in text
    assert keys in text
    assert "contexts" not in text
    assert summary_of(unnamed, "mine")["scores"]["found@5"]["mean"] is None
    if metadata:
        # what the note advises
        app = {**app, "id_field": "name"}
        named = rb.run_experiment(write(rows, retrievers={}, apps={"mine": app}))
        assert summary_of(named, "mine")["scores"]["found@5"]["mean"] == pytest.approx(1 / 3)


def test_a_service_that_sends_texts_alone_has_a_note_with_the_option(write, assert_message):
    rows = questions_with(lambda n: {"relevant": f"d{n}", "reference": f"moon {n}"})
    body = {"model": "m", "messages": [{"role": "user", "content": "{question}"}]}
    with ChatServer("Moon 1 is icy.") as server:
        service = {
            "type": "http",
            "url": f"{server.url}/chat/completions",
            "body": body,
            "answer": "$.choices[0].message.content",
            "texts": "$.choices[*].message.content",
        }
        by_id, by_text = (
            rb.run_experiment(write(rows, retrievers={}, apps={"service": service}, **rules))
            for rules in ({}, {"metrics": {"retrieval": {"match": {"level": "text"}}}})
        )

    assert_message(lines_with(by_id.record.notes, "no ids"))
    assert summary_of(by_id, "service")["scores"]["found@5"]["mean"] is None
    # what the note advises: one of three questions is about moon 1
    assert summary_of(by_text, "service")["scores"]["found@5"]["mean"] == pytest.approx(1 / 3)


def test_an_app_with_other_ids_over_a_corpus_is_warned_of(write, assert_message):
    rows = questions_with(lambda n: {"relevant": f"d{n}", "reference": f"moon {n}"})
    passage = {"id": "u1", "text": "Some text."}

    experiment = rb.run_experiment(
        write(rows),
        apps={"mine": lambda question: {"answer": "moon 1", "contexts": [passage]}},
    )

    assert_message(experiment.record.warnings)
    assert summary_of(experiment, "mine")["scores"]["ndcg@10"]["mean"] is None
    assert summary_of(experiment, "bm25")["scores"]["ndcg@10"]["mean"] > 0


def test_documents_of_passages_that_never_meet_the_gold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = write_lines(tmp_path, questions_with(lambda n: {"relevant": "d"}))
    match = {"level": "document", "id": "metadata.file"}
    config["metrics"] = {"retrieval": {"match": match, "measures": ["ndcg@10"]}}
    hit = {"id": "c1", "text": "Hot.", "metadata": {"file": "e"}}

    experiment = rb.run_experiment(config, retrievers={"mine": lambda question, top_k: [hit]})

    assert summary_of(experiment, "mine")["scores"]["ndcg@10"]["mean"] is None
    assert any("none of its 3 hits" in text for text in experiment.record.warnings)


def test_chunks_of_one_document_keep_their_texts(write):
    # The answer is in the second chunk of the document, at rank 2 of the passages.
    rows = [("Which moon is hot?", {"relevant": "d0", "reference": "volcanoes"})]
    chunks = ["Moon 0 is near.", "It has volcanoes."]
    config = write(rows, retrievers={}, metrics={"retrieval": {"measures": MEASURES}})

    experiment = rb.run_experiment(
        config,
        retrievers={
            "documents": lambda question, top_k: [
                *({"id": "d0.md", "text": text} for text in chunks),
                {"id": "d1.md", "text": "Moon 1."},
            ],
            "chunks": lambda question, top_k: [
                {"id": f"c{n}", "text": text, "metadata": {"source": "docs/d0.md"}}
                for n, text in enumerate(chunks)
            ],
        },
    )

    for name in ("documents", "chunks"):
        scores = [list(experiment.per_query[name][measure].values()) for measure in MEASURES]
        assert scores == [[1.0], [0.0], [1.0]], name
