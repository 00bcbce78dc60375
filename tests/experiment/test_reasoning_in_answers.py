"""Reasoning in answers, through every door by which an answer enters: it changes no score."""

import csv
import json
import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.rating_tables import read_ratings
from ragbench.cli import main
from ragbench.comparison.text_scores import score_pairs
from ragbench.data.files.answer_pairs import read_pairs
from ragbench.data.loaders.records import Records
from ragbench.data.loaders.traces import Traces
from ragbench.errors import OptionError
from ragbench.experiment.runner import run_experiment
from ragbench.generate.langchain import LangchainGenerator
from ragbench.types import Answered, Collection, Prediction, Query, Turn
from tests.chat_server import ChatServer
from tests.experiment.moons import write_jsonl
from tests.generate.test_haystack import AnswerPipeline
from tests.reasoning_forms import BLOCKS, REASONING
from tests.retrieve.search_server import SearchServer

QUESTIONS = ["Which port?", "Which city?", "Which lake?"]
ANSWERS = ["Tolk", "Mird is the city.", "I don't know."]
GOLD = ["Varn", "Mird", "Strel"]
# Reasoning that names the gold answer: read whole, every answer would hold it.
THOUGHT = "<think>\nIs it {gold}?\n</think>\n\n{answer}"


def with_reasoning(answers=ANSWERS):
    """The answers behind reasoning that names the gold answers."""
    pairs = zip(GOLD, answers, strict=True)
    return [THOUGHT.format(gold=gold, answer=answer) for gold, answer in pairs]


def rows_of(answers):
    return [
        {"id": f"q{n}", "question": question, "answer": answer, "reference": gold}
        for n, (question, answer, gold) in enumerate(zip(QUESTIONS, answers, GOLD, strict=True))
    ]


def quoted(answer, references):
    return any(text in answer for text in references)


def evaluated(data, **options):
    """Answers and values of `evaluate`, by a metric and by a judge."""
    # a table without passages warns; the warning does not depend on reasoning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = rb.evaluate(data, ["token_f1"], judge=rb.Judge(type=quoted), **options)
    return [
        result.texts["answer"],
        *(list(values.values()) for values in result.per_query.values()),
        list(result.fingerprints),
    ]


def by_list(answers, folder):
    return evaluated(rows_of(answers))


def by_frame(answers, folder):
    pandas = pytest.importorskip("pandas")
    return evaluated(pandas.DataFrame(rows_of(answers)))


def by_jsonl(answers, folder):
    write_jsonl(folder / "r.jsonl", rows_of(answers))
    return evaluated(folder / "r.jsonl"), Records(path=folder / "r.jsonl").load().fingerprints


def by_json(answers, folder):
    (folder / "r.json").write_text(json.dumps(rows_of(answers)))
    return evaluated(folder / "r.json"), Records(path=folder / "r.json").preview()


def by_csv(answers, folder):
    with (folder / "r.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, ["id", "question", "answer", "reference"])
        writer.writeheader()
        writer.writerows(rows_of(answers))
    return evaluated(folder / "r.csv")


def by_parquet(answers, folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows_of(answers)), folder / "r.parquet")
    return evaluated(folder / "r.parquet")


def chat_of(question, answer):
    """A conversation with two answers of an assistant, the second after the output of a tool."""
    return [
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer, "tool_calls": [{"name": "maps"}]},
        {"role": "tool", "content": "3 places"},
        {"role": "assistant", "content": answer},
    ]


def by_conversation(answers, folder):
    """Without ids: the hash of the earlier turns, too, does not depend on reasoning."""
    triples = zip(QUESTIONS, answers, GOLD, strict=True)
    rows = [{"messages": chat_of(q, answer), "reference": gold} for q, answer, gold in triples]
    write_jsonl(folder / "c.jsonl", rows)
    collection = Records(path=folder / "c.jsonl", columns={"turns": "messages"}).load()
    return (
        collection.queries,
        collection.fingerprints,
        evaluated(rows, columns={"turns": "messages"}),
    )


def by_collection(answers, folder):
    return evaluated(collection_of(answers))


def collection_of(answers):
    """A data set that a program makes, with an earlier turn."""
    return Collection(
        queries=[
            Query(f"q{n}", question, turns=(Turn("user", "Hi"), Turn("assistant", answers[n])))
            for n, question in enumerate(QUESTIONS)
        ],
        answers={f"q{n}": [gold] for n, gold in enumerate(GOLD)},
        recorded_answers={"mine": [Answered(f"q{n}", answer) for n, answer in enumerate(answers)]},
    )


def by_traces(answers, folder):
    """Three traces of one session: earlier answers are turns of later questions."""
    spans = [
        {
            "context": {"trace_id": f"t{n}", "span_id": f"s{n}"},
            "name": "app",
            "start_time": f"2026-01-01T00:00:0{n}Z",
            "attributes": {
                "openinference.span.kind": "CHAIN",
                "session.id": "one",
                "input.value": question,
                "output.value": answers[n],
            },
        }
        for n, question in enumerate(QUESTIONS)
    ]
    write_jsonl(folder / "t.jsonl", spans)
    collection = Traces(path=folder / "t.jsonl").load()
    # two earlier questions and their answers
    assert len(collection.queries[2].turns) == 4
    return (
        collection.queries,
        collection.fingerprints,
        collection.recorded_answers["given"][0].answer,
    )


def by_texts(answers, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lists = rb.evaluate_texts(answers, GOLD, ["token_f1"])
        table = rb.evaluate_texts(rows_of(answers), metrics=["token_f1"])
    return lists.per_query, table.per_query


def by_judge(answers, folder):
    rows = rows_of(answers)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": answers[0]}]
    one = {"question": "Which?", "response": answers[0], "reference": GOLD[0], "turns": turns}
    quotes = []

    def looks(answer, turns, other):
        quotes.append((answer, other, turns))
        return True

    rb.Judge(type=looks).score(**one, other=answers[1])
    return rb.Judge(type=quoted).score(**one), rb.Judge(type=quoted).score_many(rows), quotes


def by_scorer(answers, folder):
    metric, rubric = rb.scorer("token_f1"), rb.scorer("quoted", judge=rb.Judge(type=quoted))
    outputs = [*answers, *({"answer": answer} for answer in answers)]
    pairs = [*zip(outputs, [*GOLD, *GOLD], strict=True)]
    return [
        score(outputs=output, expectations=gold)
        for output, gold in pairs
        for score in (metric, rubric)
    ]


def by_pairs(answers, folder):
    """As `ragbench score --predictions`, from tables and from lines of text."""
    tables = folder / "p.jsonl", folder / "g.jsonl"
    write_jsonl(
        tables[0], [{"query_id": row["id"], "answer": row["answer"]} for row in rows_of(answers)]
    )
    write_jsonl(
        tables[1],
        [{"query_id": row["id"], "reference": row["reference"]} for row in rows_of(answers)],
    )
    pairs = read_pairs(str(tables[0]), [str(tables[1])])
    return score_pairs(pairs.predictions, pairs.references, ["token_f1"]).per_query


def by_ratings(answers, folder):
    rows = [
        {"query_id": row["id"], "answer": row["answer"], "judge": 0.5, "label": 1}
        for row in rows_of(answers)
    ]
    write_jsonl(folder / "l.jsonl", rows)
    run, _ = read_ratings(folder / "l.jsonl", LabelScale.parse("0..1"))
    return [item.answer for item in run.answers.values()]


DOORS = (
    by_list,
    by_frame,
    by_jsonl,
    by_json,
    by_csv,
    by_parquet,
    by_conversation,
    by_collection,
    by_traces,
    by_texts,
    by_judge,
    by_scorer,
    by_pairs,
    by_ratings,
)


@pytest.fixture
def without_reasoning(door, tmp_path):
    """What a door gives for the answers alone."""
    return door(ANSWERS, tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize("door", DOORS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=st.lists(st.sampled_from(BLOCKS), min_size=3, max_size=3), reasoning=REASONING)
def test_reasoning_changes_nothing(door, without_reasoning, blocks, reasoning, tmp_path):
    texts = [
        block.format(reasoning=reasoning, answer=answer)
        for block, answer in zip(blocks, ANSWERS, strict=True)
    ]

    # every door must give the same with and without the block of reasoning, whatever it gives
    assert door(texts, tmp_path) == without_reasoning


class AnsweringEngine:
    """A query engine as LlamaIndex has it."""

    def __init__(self, reply):
        self.reply = reply

    def query(self, question):
        return SimpleNamespace(response=self.reply(question), source_nodes=[])


class AnsweringChain:
    """A chain as LangChain has it."""

    def __init__(self, reply):
        self.reply = reply

    def invoke(self, question):
        return {"answer": self.reply(question)}


class TalkModel:
    """A chat model as LangChain has it."""

    def __init__(self, reply):
        self.reply = reply

    def get_num_tokens_from_messages(self, messages):
        return 0

    def invoke(self, messages):
        return SimpleNamespace(content=self.reply(question_in(messages[-1]["content"])))


class AnsweringPipeline(AnswerPipeline):
    """A pipeline as Haystack has it."""

    def __init__(self, reply):
        super().__init__()
        self.reply = reply

    def run(self, data, include_outputs_from=None):
        return {"llm": {"replies": [self.reply(data["search"]["query"])]}}


def question_in(text):
    return next(question for question in QUESTIONS if question in text)


@contextmanager
def doors(answers, folder):
    """Yield a function that runs all generators and apps, and the servers that it asks."""
    by_question = dict(zip(QUESTIONS, answers, strict=True))
    reply = by_question.__getitem__
    folder.mkdir()
    write_jsonl(
        folder / "p.jsonl", [{"question": q, "answer": text} for q, text in by_question.items()]
    )

    def run(**entries):
        http = {"type": "http", "url": web.url, "version": "1", **entries}
        config = {
            "name": "doors",
            "output": str(folder / "runs"),
            "retrievers": {"bm25": {"type": "bm25"}},
            "generators": {
                "file": {"type": "predictions", "path": str(folder / "p.jsonl"), **entries},
                "chat": {"type": "openai", "model": "m", "base_url": chat.url, **entries},
                "http": http,
            },
            "apps": {"url": http},
            "metrics": {"generation": ["token_f1"], "retrieval": {"measures": []}},
        }
        return run_experiment(
            config,
            generators={
                "function": lambda question, contexts: reply(question),
                "model": LangchainGenerator(client=TalkModel(reply)),
            },
            apps={
                "mapping": lambda question: {"answer": reply(question), "contexts": ["A port."]},
                "prediction": lambda question: Prediction(reply(question)),
                "chain": AnsweringChain(reply),
                "engine": AnsweringEngine(reply),
                "pipeline": AnsweringPipeline(reply),
            },
            dataset=rows_of(answers),
            documents=["A port.", "A city."],
        )

    with (
        pytest.MonkeyPatch.context() as patch,
        ChatServer(lambda body, n: reply(question_in(body["messages"][-1]["content"]))) as chat,
        SearchServer(lambda body: {"answer": reply(body["question"])}) as web,
    ):
        patch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
        yield run, (chat.received, web.received)


def stored_answers(experiment):
    """System -> the answers in its file of predictions."""
    return {
        path.stem: [json.loads(line)["answer"] for line in path.read_text().splitlines()]
        for path in sorted((experiment.path / "predictions").iterdir())
    }


def means(experiment):
    return {
        system["name"]: system["scores"]["token_f1"]["mean"]
        for system in experiment.summary["systems"]
        if system["type"] != "retriever"
    }


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")


# The records, five generators and six apps.
N_SYSTEMS = 12


@pytest.mark.slow
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(block=st.sampled_from(BLOCKS), reasoning=REASONING)
def test_reasoning_of_any_system_changes_nothing(block, reasoning, tmp_path):
    texts = [block.format(reasoning=reasoning, answer=answer) for answer in ANSWERS]

    folder = Path(mkdtemp(dir=tmp_path))
    with doors(texts, folder / "one") as (run, _):
        one = run()
    with doors(ANSWERS, folder / "two") as (run, _):
        two = run()

    assert stored_answers(one) == stored_answers(two)
    assert set(map(tuple, stored_answers(one).values())) == {tuple(ANSWERS)}
    assert len(stored_answers(one)) == N_SYSTEMS
    assert means(one) == means(two)
    [note] = [note for note in one.summary["notes"] if "reasoning was cut" in note]
    assert note.endswith("from 3 of 3 answers; the option reasoning: keep leaves it in")
    assert note.count(",") == N_SYSTEMS - 1
    assert not [note for note in two.summary["notes"] if "reasoning" in note]


@pytest.mark.slow
def test_the_other_choice_asks_nothing_again(tmp_path):
    texts = with_reasoning()
    with doors(texts, tmp_path / "doors") as (run, requests):
        run()
        n_requests = [*map(len, requests)]
        complete, cut = run(reasoning="keep"), run(reasoning="cut")

    assert n_requests == [3, 6], "three questions to one chat model, and to two services"
    assert [*map(len, requests)] == n_requests
    for name in ("bm25--chat", "bm25--file", "bm25--http", "url"):
        assert stored_answers(complete)[name] == texts
        assert stored_answers(cut)[name] == ANSWERS
    assert stored_answers(complete)["chain"] == ANSWERS, "a live object has no entry with keys"


def test_two_wrong_answers_name_the_gold_in_their_reasoning(tmp_path, assert_message):
    # Only one of Tolk, Mird and a refusal is right; all three reasonings hold the gold answer.
    texts = with_reasoning(["Tolk", "Mird", "I don't know."])
    rows = [{**row, "contexts": [f"It is {row['reference']}."]} for row in rows_of(texts)]
    write_jsonl(tmp_path / "r.jsonl", rows)
    config = {
        "name": "r",
        "output": str(tmp_path / "runs"),
        "dataset": {"type": "records", "path": str(tmp_path / "r.jsonl")},
        "metrics": {"generation": ["exact_match"]},
    }

    cut = run_experiment(config)
    complete = run_experiment(config, {"dataset.reasoning": "keep"})

    [system] = cut.summary["systems"]
    assert system["scores"]["exact_match"]["mean"] == pytest.approx(1 / 3)
    assert {name: n for name, n in system["causes"].items() if n} == {
        "right": 1,
        "not_used": 1,
        "refused": 1,
    }
    [note] = [note for note in cut.summary["notes"] if "reasoning" in note]
    assert_message(note)
    assert stored_answers(complete) == {"given": texts}
    assert not [note for note in complete.summary["notes"] if "reasoning" in note]


def test_python_counts_and_keeps_reasoning():
    # The first answer is wrong, and names the gold answer in its reasoning alone.
    texts = ["<think>\nIs it Varn ?\n</think>\nin city Mird", "Mird", "Strel"]
    note = "reasoning was cut from 1 of 3 answers; the option reasoning: keep leaves it in"

    with pytest.warns(UserWarning, match="reasoning was cut"):
        table = rb.evaluate(rows_of(texts), ["token_f1"])
    with pytest.warns(UserWarning, match="reasoning was cut"):
        lists = rb.evaluate_texts(texts, GOLD, ["token_f1"])
    complete = rb.evaluate(rows_of(texts), ["token_f1"], reasoning="keep")

    assert note in table.notes
    assert note in lists.notes
    assert [*table.per_query["token_f1"].values()] == [0.0, 1.0, 1.0]
    assert complete.texts["answer"] == texts
    assert complete.notes == ()
    values = rb.evaluate_texts(texts, GOLD, ["token_f1"], reasoning="keep").per_query["token_f1"]
    assert values["0"] > 0
    assert rb.scorer("token_f1", reasoning="keep")(outputs=texts[0], expectations="Varn")["score"]
    judge = rb.Judge(type=quoted, reasoning="keep")
    assert judge.score(answer=texts[0], reference="Varn")["quoted"].score == 1.0
    assert rb.Judge(type=quoted).score(answer=texts[0], reference="Varn")["quoted"].score == 0.0


def test_a_reference_stays_as_it_is():
    # A gold answer with such tags is what the user wants to see.
    gold = "<think>\nHm.\n</think>\n\nTolk"
    row = {"question": "Which?", "answer": "Tolk", "reference": gold}

    result = rb.evaluate([row], ["exact_match"], judge=rb.Judge(type=quoted))

    assert result.texts["reference"] == [gold]
    assert result.mean == {"exact_match": 0.0, "quoted": 0.0}


@pytest.mark.parametrize(
    "call",
    [
        lambda option: rb.evaluate(rows_of(ANSWERS), ["bleu"], reasoning=option),
        lambda option: rb.evaluate_texts(ANSWERS, GOLD, ["bleu"], reasoning=option),
        lambda option: rb.scorer("rouge1", reasoning=option),
        lambda option: rb.Judge(type=quoted, reasoning=option),
    ],
)
def test_another_choice_is_refused(call, assert_message):
    with pytest.raises(OptionError) as error:
        call("drop")
    assert_message(error.value)


@pytest.mark.parametrize(("option", "answer"), [("cut", "b"), ("keep", "<think>a</think>b")])
def test_loaders_keep_reasoning(tmp_path, option, answer):
    text = "<think>a</think>b"
    chat = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": text}]
    write_jsonl(tmp_path / "r.jsonl", [{"question": "Why?", "response": text}])
    write_jsonl(tmp_path / "c.jsonl", [{"turns": [*chat, *chat]}])
    collections = [
        Records(path=tmp_path / name, reasoning=option).load() for name in ("r.jsonl", "c.jsonl")
    ]

    assert [rows["given"][0].answer for rows in (c.recorded_answers for c in collections)] == [
        answer
    ] * 2
    assert collections[1].queries[0].turns[1].text == answer


def test_lines_of_text_and_the_option_of_the_command(tmp_path, monkeypatch, capsys, assert_message):
    # Gold is one of two words: F1 is 2/3 without the reasoning, and 2/4 with it.
    (tmp_path / "p.txt").write_text("<think>one</think>Tolk port\n")
    (tmp_path / "g.txt").write_text("Tolk\n")
    files = ["--predictions", str(tmp_path / "p.txt"), "--references", str(tmp_path / "g.txt")]

    def score(*options):
        arguments = ["ragbench", "score", *files, "-m", "rouge1", "--format", "json", *options]
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 0
        printed = capsys.readouterr()
        return json.loads(printed.out)["systems"][0]["scores"]["rouge1"]["mean"], printed.err

    value, notes = score()
    assert value == pytest.approx(2 / 3)
    assert_message(notes)
    value, notes = score("--reasoning", "keep")
    # think, one, think, tolk, port: a precision of 1/5, a recall of 1
    assert value == pytest.approx(2 * 0.2 / 1.2)
    assert "reasoning" not in notes
