"""`mode: batch`: files and batches of OpenAI's API through the real client, over loopback."""

import asyncio
import json
from contextlib import ExitStack

import pytest

from ragbench.llm import Budget, Prices
from ragbench.llm.usage import upper_bound
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.chat import OpenAIJudge
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.methods.prompt import Prompts
from ragbench.score.judge.model_judge import rehearse
from ragbench.score.judge.rubric import load_rubric
from tests.chat_server import Answer, Batches, ChatServer, refuse
from tests.lazy import Lazy
from tests.score.judge.scripted import Script

openai = Lazy("openai")

pytestmark = pytest.mark.slow  # seconds in all: batches settle and are looked at

ROWS = [
    {"question": f"What is {n}?", "answer": f"It is {n}.", "contexts": [f"{n} is so.", "No."]}
    for n in range(6)
]
RUBRICS = ["faithfulness", "answer_relevancy"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    for name in ("_SETTLED_S", "_FIRST_POLL_S", "_LONGEST_POLL_S"):
        monkeypatch.setattr(f"ragbench.llm.batch.{name}", 0.05)
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


@pytest.fixture
def start(tmp_path):
    """Start a server with batches of a kind, and judges on it that share a store."""
    with ExitStack() as stack:
        servers = []

        def start(script=None, *, batches=None, rubrics=None, **options):
            if script is not None or not servers:
                server = ChatServer(script or Script(), batches=batches)
                servers.append(stack.enter_context(server))
            options = {"mode": "batch", "replies": tmp_path / "replies.sqlite", **options}
            if "client" not in options:
                options["base_url"] = servers[-1].url
            judge = Judge("gpt-4o-mini", rubrics or RUBRICS, **options)
            return servers[-1], stack.enter_context(judge)

        yield start


def made(server):
    """Lines of the first batch, and of all later ones, which a busy machine may cut in two."""
    first, *later = [batch["lines"] for batch in server.batches.made]
    return [first, sum(later)]


def lines_of(server, number=0):
    batch = server.batches.made[number]
    return [json.loads(line) for line in server.batches.files[batch["input_file_id"]].splitlines()]


def test_dependent_calls_are_successive_batches_at_half_the_price(start, tmp_path):
    server, judge = start()

    results = judge.score_many(ROWS)

    assert {v["faithfulness"].score for v in results} == {1.0}
    assert {v["answer_relevancy"].level for v in results} == {4.0}
    assert made(server) == [12, 6], "split and rate, check"
    assert {batch["completion_window"] for batch in server.batches.made} == {"24h"}
    used = [verdict.usage for verdicts in results for verdict in verdicts.values()]
    usual = Prices.load().of("gpt-4o-mini")
    whole = sum(u.input_tokens * usual.input + u.output_tokens * usual.output for u in used) / 1e6
    assert sum(usage.usd for usage in used) == pytest.approx(whole / 2)
    assert server.counters.most_asked == 1


def test_the_lines_of_a_file_are_those_of_the_api(start):
    server, judge = start()
    live, other = start(Script(), mode="live", replies=None)

    judge.score(**ROWS[0])
    other.score(**ROWS[0])

    [*first, last] = lines_of(server) + lines_of(server, 1)
    for line in (*first, last):
        assert list(line) == ["custom_id", "method", "url", "body"]
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert len(line["custom_id"]) == 64
    sent = sorted(json.dumps(line["body"], sort_keys=True) for line in (*first, last))
    requests = sorted(json.dumps(dict(r.body), sort_keys=True) for r in live.received)
    assert sent == requests, "the same bodies as one by one"


def test_a_batch_and_single_calls_answer_one_another(start):
    server, judge = start()
    judge.score_many(ROWS)
    calls = server.counters.requests

    _, live = start(mode="live")
    again = live.score_many(ROWS)

    assert {verdict["faithfulness"].status for verdict in again} == {"scored"}
    assert server.counters.requests == calls


def stop_with_a_noted_batch(judge, folder):
    """Ask about all rows, and give up when the number of the first batch is noted."""

    async def give_up():
        task = asyncio.ensure_future(judge.ascore_many(ROWS))
        while not any('"batch": "' in note.read_text() for note in folder.glob("batches/*.json")):
            assert not task.done()
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    judge.close()


def test_who_is_stopped_finds_the_batch_again_and_pays_nothing_twice(start, tmp_path):
    server, judge = start(batches=Batches(looks=10**6))
    stop_with_a_noted_batch(judge, tmp_path)
    assert [batch["lines"] for batch in server.batches.made] == [12]
    server.batches.looks = 0

    _, second = start()
    results = second.score_many(ROWS)

    assert {verdict["faithfulness"].status for verdict in results} == {"scored"}
    assert made(server) == [12, 6], "the first is read"
    assert server.counters.most_asked == 1
    used = [verdict.usage.usd for verdicts in results for verdict in verdicts.values()]
    assert sum(used) == pytest.approx(second._judge.totals().cost_usd)


@pytest.mark.parametrize("was_created", [True, False])
def test_a_batch_whose_number_was_not_noted(start, tmp_path, was_created):
    # Killed after the request to make it: it is looked for by name, and else made
    server, judge = start(batches=Batches(looks=10**6))
    stop_with_a_noted_batch(judge, tmp_path)
    [note] = (tmp_path / "batches").glob("*.json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "batch": None}))
    server.batches.looks = 0
    if not was_created:
        server.batches.made.clear()

    _, second = start()
    results = second.score_many(ROWS)

    assert {verdict["faithfulness"].status for verdict in results} == {"scored"}
    assert made(server) == [12, 6]
    assert server.counters.most_asked == (1 if was_created else 2)


def test_a_batch_that_was_made_though_its_answer_was_lost_is_not_made_twice(start):
    server, judge = start(batches=Batches(lost=1))

    results = judge.score_many(ROWS)

    assert {verdict["faithfulness"].status for verdict in results} == {"scored"}
    assert made(server) == [12, 6]


def test_what_is_stored_is_asked_anew_where_that_is_wanted(start, tmp_path):
    # A refused reply is not read from its old batch again
    answers = [Answer(refusal="no"), Answer('{"reasoning": "r", "level": 5}')]
    server, judge = start(answers, rubrics=["answer_relevancy"])
    assert judge.score(**ROWS[0])["answer_relevancy"].cause == "refused"

    with judge._replies.asking_again():
        again = judge.score(**ROWS[0])["answer_relevancy"]

    assert (again.status, again.score) == ("scored", 1.0)
    assert len(server.batches.made) == 2


def test_errors_of_lines_have_their_cause(start):
    good = Script(level=4)
    faults = {
        "What is 0?": Answer("held back", status=400, error_code="content_filter"),
        "What is 1?": Answer(
            "This model's maximum context length is 8192 tokens", 400, error_code="x"
        ),
        "What is 2?": Answer("not allowed", status=422),
        "What is 3?": Answer("I would rather not say."),
    }

    def script(body, times_asked):
        text = str(body["messages"])
        if "What is 4?" in text and times_asked == 0:
            return Answer("overloaded", status=500)
        return next((a for q, a in faults.items() if q in text), good(body, times_asked))

    server, judge = start(script, rubrics=["answer_relevancy"])

    results = [verdicts["answer_relevancy"] for verdicts in judge.score_many(ROWS)]

    assert [verdict.cause for verdict in results] == [
        "refused",
        "too_long",
        "server_error",
        "unreadable",
        "scored",
        "scored",
    ]
    assert "not allowed" in results[2].reasoning
    later = [line for n in range(1, len(server.batches.made)) for line in lines_of(server, n)]
    assert len(later) == 2, "the overloaded one, and the unreadable one with what was wrong"


def test_what_a_model_refuses_is_left_out_of_the_next_batch(start):
    good = Script()

    def script(body, times_asked):
        return refuse("temperature") if "temperature" in body else good(body, times_asked)

    server, judge = start(script, rubrics=["answer_relevancy"])

    results = [verdicts["answer_relevancy"] for verdicts in judge.score_many(ROWS)]

    assert {verdict.status for verdict in results} == {"scored"}
    assert {verdict.left_out for verdict in results} == {("temperature",)}
    assert [batch["lines"] for batch in server.batches.made] == [6, 6]
    assert "temperature" not in lines_of(server, 1)[0]["body"]


@pytest.mark.parametrize(
    ("end", "cause", "message"),
    [
        ("expired", "timeout", "expired"),
        ("cancelled", "server_error", "cancelled"),
        ("failed", "server_error", "Enqueued token limit"),
    ],
)
def test_a_batch_that_does_not_complete(start, end, cause, message):
    # The answered lines count; the other lines have their cause, and a new batch can ask them
    # again
    batches = Batches(ends=(end, "completed"), answered=0 if end == "failed" else 2)
    server, judge = start(batches=batches, rubrics=["answer_relevancy"])

    results = [verdicts["answer_relevancy"] for verdicts in judge.score_many(ROWS)]
    answered = 0 if end == "failed" else 2

    assert [verdict.cause for verdict in results].count("scored") == answered
    failed = [verdict for verdict in results if verdict.status == "failed"]
    assert {verdict.cause for verdict in failed} == {cause}
    assert all(message in verdict.reasoning for verdict in failed)

    _, second = start(rubrics=["answer_relevancy"])
    again = [verdicts["answer_relevancy"] for verdicts in second.score_many(ROWS)]

    assert {verdict.status for verdict in again} == {"scored"}
    assert [batch["lines"] for batch in server.batches.made] == [6, 6 - answered]


def test_a_server_without_batches_says_so_once_for_all(start, monkeypatch):
    def no_files(*_):
        return 404, json.dumps({"error": {"message": "no files here"}}).encode()

    server, judge = start()
    monkeypatch.setattr(Batches, "respond", no_files)

    results = judge.score_many(ROWS)

    assert {v.cause for verdicts in results for v in verdicts.values()} == {"server_error"}
    assert "no files here" in results[0]["faithfulness"].reasoning
    assert server.counters.requests == 0


def test_each_model_of_a_jury_has_its_own_batch(start):
    server = start()[0]
    options = {"models": ["a", "b"], "base_url": server.url, "mode": "batch"}
    with Judge(None, ["answer_relevancy"], **options) as jury:
        results = jury.score_many(ROWS)

    assert {verdicts["answer_relevancy"].status for verdicts in results} == {"scored"}
    models = [{line["body"]["model"] for line in lines_of(server, n)} for n in (0, 1)]
    assert sorted(map(sorted, models)) == [["a"], ["b"]]


@pytest.mark.parametrize("kind", ["OpenAI", "AsyncOpenAI"])
def test_a_ready_client(start, kind):
    server, _ = start()
    client = getattr(openai, kind)(base_url=server.url, api_key="sk-0123456789")

    _, judge = start(client=client)

    assert judge.score(**ROWS[0])["faithfulness"].score == 1.0
    assert len(server.batches.made) == 2


def test_no_key_is_written(start, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    _, judge = start(lambda body, n: Answer("bad key sk-very-secret-0123456789", status=400))
    verdicts = judge.score(**ROWS[0])

    assert "sk-very-secret" not in str(verdicts)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"sk-very-secret" not in path.read_bytes()


def test_the_estimate_counts_with_half_the_price():
    prices = []
    for mode in ("live", "batch"):
        judge = OpenAIJudge(model="gpt-4o-mini", base_url="http://127.0.0.1:9/v1", mode=mode)
        item = JudgedItem("Why?", "Because. So it is.", ["It is so."])
        prices.append(rehearse(judge, [item], [load_rubric("faithfulness")]).usd)

    assert prices[1] == pytest.approx([price / 2 for price in prices[0]])


def test_a_budget_counts_with_half_the_price(start):
    # A batch that fits the budget at half the price, and not at the whole price, is sent
    _, judge = start(rubrics=["answer_relevancy"], max_tokens=100)
    price = Prices.load().of("gpt-4o-mini")
    request = judge._judge.asking.request(
        "gpt-4o-mini", Prompts(judge.rubrics[0], JudgedItem("Q?", "A.")).rating(), 0, 5
    )
    whole = price.cost_usd(upper_bound(request))
    judge._judge.close()
    judge._judge.spend_from(Budget(usd=0.7 * whole))

    assert judge.score(question="Q?", answer="A.")["answer_relevancy"].status == "scored"


def test_files_are_split_where_they_are_too_long(start, monkeypatch):
    monkeypatch.setattr("ragbench.llm.batch._MOST_LINES", 4)
    server, judge = start(rubrics=["answer_relevancy"])

    judge.score_many(ROWS)

    assert sorted(batch["lines"] for batch in server.batches.made) == [2, 4]


def test_a_note_that_cannot_be_written_is_an_error_and_no_endless_wait(start, tmp_path):
    server, judge = start()
    (tmp_path / "batches").write_text("in the place of the folder", encoding="utf-8")

    verdicts = judge.score(**ROWS[0])

    assert {verdict.status for verdict in verdicts.values()} == {"failed"}
    assert {verdict.cause for verdict in verdicts.values()} == {"error"}
    assert not server.batches.made, "nothing was sent"
