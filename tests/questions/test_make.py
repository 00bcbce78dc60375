"""Questions of a scripted model, through the command, the real client and HTTP on loopback."""

import csv
import json
import re
import threading
from collections import Counter
from itertools import islice

import pytest

from ragbench.data.files.collection import read_corpus
from ragbench.data.loaders.records import Records
from ragbench.llm import Prices
from ragbench.questions.base import FAILURES, draw_passages
from ragbench.questions.make import QuestionMaker
from ragbench.questions.prompts import QuestionModelOptions, QuestionPrompts
from ragbench.testing import Answer
from ragbench.types import Document
from tests.commands import run_command
from tests.messages import lines_with
from tests.questions.script import FAULTS, ScriptedModel, write_corpus

N_GOOD = 5
SCRIPT = ["", *FAULTS, *[""] * (N_GOOD - 1)]


def questions(server, folder, *arguments, n=N_GOOD):
    """Run the command with a file of the questions and one of the others."""
    numbers = ["-n", n] if n else []
    place = ["--model", "m", "--base-url", server.url, "-o", "qa.csv", "--rejected", "bad.csv"]
    return run_command("questions", "docs", *numbers, *place, *arguments, cwd=folder)


def read(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def corpus(tmp_path):
    """Return name of a document -> its fault, for documents of every fault."""
    return write_corpus(tmp_path / "docs", SCRIPT)


@pytest.mark.costly
def test_exactly_the_good_ones_are_kept_and_every_candidate_is_accounted_for(
    tmp_path, corpus, assert_message
):
    with ScriptedModel(corpus) as server:
        # one more than there are: every document is tried
        done = questions(server, tmp_path, n=N_GOOD + 1)

    assert done.returncode == 0
    rows, rejected = read(tmp_path / "qa.csv"), read(tmp_path / "bad.csv")
    faults = {f"{name.lower()}.md": fault for name, fault in corpus.items()}
    assert {row["relevant"] for row in rows} == {name for name in faults if not faults[name]}
    for row in rows:
        assert row["quote"] in (tmp_path / "docs" / row["relevant"]).read_text()
        assert row["reference"] in row["quote"]
        assert (row["kind"], row["keep"]) == ("fact", "yes")
        assert_message(row["checks"])
    causes = [row["reason"].partition(":")[0] for row in rejected]
    for row, cause in zip(rejected, causes, strict=True):
        # a second question on a passage that has a good one is the same
        fault = faults[row["relevant"]]
        assert cause == FAILURES[FAULTS[fault] if fault else "unique"]
    assert {row["relevant"] for row in rejected} >= {name for name in faults if faults[name]}
    assert {row["keep"] for row in rejected} == {"no"}
    counts = Counter(causes)
    assert done.stdout.startswith(f"kept {N_GOOD} of {N_GOOD + counts.total()}: ")
    assert set(done.stdout.splitlines()[0].partition(": ")[2].split(", ")) == {
        f"{count} {cause}" for cause, count in counts.items()
    }


def test_a_copied_document_gives_no_second_question(tmp_path, assert_message):
    corpus = write_corpus(tmp_path / "docs", ["", ""])
    text = (tmp_path / "docs/aare0.md").read_text()
    (tmp_path / "docs/copy.md").write_text(text)
    with ScriptedModel(corpus) as server:
        done = questions(server, tmp_path, n=3)

    rows = read(tmp_path / "qa.csv")
    assert len({row["question"] for row in rows}) == len(rows) == 2
    assert_message(done.stdout)
    assert_message(done.stderr)


@pytest.mark.costly
def test_a_plan_is_an_upper_bound_and_a_second_run_sends_nothing(tmp_path, corpus):
    with ScriptedModel(corpus) as server:
        plan = questions(server, tmp_path, "--plan")
        assert not server.received, "a plan sends nothing"
        assert not (tmp_path / "qa.csv").exists()
        first = questions(server, tmp_path)
        n_sent = len(server.received)
        again = questions(server, tmp_path)

    most_calls, most_tokens = (
        int(text.replace(",", ""))
        for text in re.match(
            r"at most ([\d,]+) calls, ([\d,]+) tokens, of unknown", plan.stdout
        ).groups()
    )
    assert most_calls == 3 * 4 * N_GOOD
    assert n_sent <= most_calls
    n_tokens = int(re.search(r"([\d,]+) tokens", first.stderr)[1].replace(",", ""))
    assert 0 < n_tokens <= most_tokens
    assert len(server.received) == n_sent
    assert again.stdout == first.stdout
    assert "note: 0 calls, " in again.stderr


@pytest.mark.costly
def test_the_files_do_not_depend_on_the_order_of_replies(tmp_path, corpus, monkeypatch):
    texts = []
    with ScriptedModel(corpus) as server:
        for concurrency in (1, 16):
            monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / f"cache{concurrency}"))
            done = questions(server, tmp_path, "--option", f"concurrency={concurrency}")
            texts.append(
                (done.stdout, *((tmp_path / f).read_bytes() for f in ("qa.csv", "bad.csv")))
            )
            (tmp_path / "qa.csv").unlink()

    assert texts[0] == texts[1]


def test_more_questions_than_passages(tmp_path):
    names = write_corpus(tmp_path / "docs", [""] * 3)

    class Second(ScriptedModel):
        def fact(self, name, fault, passage, earlier):
            # the model is told which question the passage had before
            assert earlier in ("", f"In which year could people first use the maps in {name}?")
            if not earlier:
                return super().fact(name, fault, passage, earlier)
            question = f"How do people of the {name} valley get to the shelves?"
            quote = "Visitors come on foot."
            return json.dumps({"question": question, "answer": "on foot", "quote": quote})

        def reply(self, body):
            if "get to the shelves" in body["messages"][1]["content"]:
                is_closed = "from memory" in body["messages"][0]["content"]
                return json.dumps({"found": True, "answer": "by bus" if is_closed else "on foot"})
            return super().reply(body)

    with Second(names) as server:
        done = questions(server, tmp_path, n=6)

    assert done.stdout.startswith("kept 6 of 6\n")


class BrokenModel(ScriptedModel):
    """Server that sends unusable replies while `breaks(request)` is True of a question prompt."""

    def __init__(self, faults, breaks):
        self.breaks = breaks
        super().__init__(faults)

    def reply(self, body):
        is_question = "quote" in body["response_format"]["json_schema"]["schema"]["properties"]
        if is_question and self.breaks(body):
            return '{"question": "x"}'
        return super().reply(body)


def is_second_try(body):
    return len(body["messages"]) > 2


def test_an_unreadable_reply_is_requested_once_more(tmp_path):
    names = write_corpus(tmp_path / "docs", [""] * 3)
    with BrokenModel(names, lambda body: not is_second_try(body)) as server:
        done = questions(server, tmp_path, n=3)

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "kept 3 of 3")
    # two for each question, and two checks
    assert len(server.received) == 3 * (2 + 2)


def test_no_other_file_is_overwritten_by_rejected_candidates(tmp_path, assert_message):
    names = write_corpus(tmp_path / "docs", [""])
    (tmp_path / "bad.csv").write_text("question\nMine?\n")
    with ScriptedModel(names) as server:
        refused = questions(server, tmp_path, n=1)
        n_sent = len(server.received)
        (tmp_path / "bad.csv").unlink()
        codes = [questions(server, tmp_path, n=1).returncode for _ in range(2)]

    assert (refused.returncode, n_sent, codes) == (2, 0, [0, 0])
    assert_message(refused.stderr)


def test_a_passage_whose_replies_cannot_be_read_is_tried_once(tmp_path, assert_message):
    names = write_corpus(tmp_path / "docs", [""] * 4)
    bad = [*names][:2]
    with BrokenModel(names, lambda body: any(name in str(body) for name in bad)) as server:
        done = questions(server, tmp_path, n=4)

    rejected = read(tmp_path / "bad.csv")
    unusable = [row["relevant"] for row in rejected if FAILURES["reply"] in row["reason"]]
    assert sorted(unusable) == sorted(f"{name.lower()}.md" for name in bad)
    assert len(read(tmp_path / "qa.csv")) == 2
    assert_message(lines_with(done.stderr, "usable"))


def test_unusable_replies_are_the_cause_and_are_asked_again(tmp_path, assert_message):
    names = write_corpus(tmp_path / "docs", [""] * 3)
    with BrokenModel(names, lambda body: True) as server:
        failed = questions(server, tmp_path, n=3)
        n_sent = len(server.received)
        server.breaks = lambda body: False
        same = questions(server, tmp_path, n=3)
        assert len(server.received) == n_sent == 3 * 2
        mended = questions(server, tmp_path, "--retry-failed", n=3)
        n_sent = len(server.received)
        again = questions(server, tmp_path, "--retry-failed", n=3)

    assert (failed.returncode, same.returncode) == (2, 2)
    assert_message(failed.stdout)
    assert_message(lines_with(failed.stderr, "usable"))
    assert (mended.returncode, mended.stdout.splitlines()[0]) == (0, "kept 3 of 3")
    assert n_sent == len(server.received) == 3 * 2 + 3 * 3
    assert (again.returncode, again.stdout) == (0, mended.stdout)


def test_a_failed_check_is_asked_again_without_its_question(tmp_path):
    names = write_corpus(tmp_path / "docs", [""])

    class Typed(ScriptedModel):
        is_broken = True

        def reply(self, body):
            text = super().reply(body)
            return text.replace("true", '"perhaps"') if self.is_broken else text

    with Typed(names) as server:
        failed = questions(server, tmp_path, n=1)
        n_sent = len(server.received)
        server.is_broken = False
        mended = questions(server, tmp_path, "--retry-failed", n=1)

    assert failed.returncode == 2
    # each question of the passage had a failed check, and one is enough
    assert (mended.returncode, mended.stdout.partition(":")[0]) == (0, "kept 1 of 4")
    # the answers with and without the passage
    assert len(server.received) == n_sent + 2


def test_a_file_that_this_command_wrote_goes_on_after_a_retry(tmp_path):
    names = write_corpus(tmp_path / "docs", [""] * 3)
    bad = [*names][1]
    with BrokenModel(names, lambda body: bad in str(body)) as server:
        first = questions(server, tmp_path, n=3)
        n_first = len(read(tmp_path / "qa.csv"))
        server.breaks = lambda body: False
        mended = questions(server, tmp_path, "--retry-failed", n=3)

    assert (first.returncode, n_first) == (0, 2)
    assert (mended.returncode, len(read(tmp_path / "qa.csv"))) == (0, 3)


@pytest.fixture
def broken(tmp_path):
    """Yield a server without usable replies about the first two of six documents that are drawn."""
    names = write_corpus(tmp_path / "docs", [""] * 6)
    documents = read_corpus(tmp_path / "docs").documents
    bad = [passage.document.id for passage in islice(draw_passages(documents, "0 fact"), 2)]
    with BrokenModel(
        names, lambda body: any(name[:-3].title() in str(body) for name in bad)
    ) as server:
        server.bad = bad
        yield server


@pytest.mark.parametrize(
    ("kinds", "n_first", "code"),
    [("fact:3", 3, 0), ("fact:6", 4, 3), ("fact:6,unanswerable:2", 6, 3)],
)
def test_a_retry_beyond_the_budget_loses_no_question(tmp_path, broken, kinds, n_first, code):
    questions(broken, tmp_path, "--kinds", kinds, n=None)
    first = (tmp_path / "qa.csv").read_bytes()
    n_sent = len(broken.received)
    arguments = ["--kinds", kinds, "--retry-failed", "--budget", "tokens=1"]
    refused = questions(broken, tmp_path, *arguments, n=None)

    assert len(read(tmp_path / "qa.csv")) == n_first
    assert (refused.returncode, len(broken.received)) == (code, n_sent)
    assert (tmp_path / "qa.csv").read_bytes() == first


@pytest.mark.parametrize(("n", "n_first", "n_added"), [(3, 3, 0), (5, 4, 1), (6, 4, 2)])
def test_a_retry_adds_questions_behind_those_of_the_file(tmp_path, broken, n, n_first, n_added):
    questions(broken, tmp_path, n=n)
    first = (tmp_path / "qa.csv").read_bytes()
    broken.breaks = lambda body: False
    n_sent = len(broken.received)
    mended = questions(broken, tmp_path, "--retry-failed", n=n)
    n_more = len(broken.received) - n_sent
    table = (tmp_path / "qa.csv").read_bytes()
    again = questions(broken, tmp_path, n=n)

    assert (mended.returncode, again.returncode) == (0, 0)
    assert table.startswith(first)
    # nothing is asked again once there are enough
    assert "--retry-failed" not in mended.stderr
    added = [row["relevant"] for row in read(tmp_path / "qa.csv")[n_first:]]
    assert added == broken.bad[:n_added]
    # the question, and two checks
    assert n_more == len(broken.received) - n_sent == 3 * n_added
    assert (tmp_path / "qa.csv").read_bytes() == table


def test_a_file_that_changes_during_the_calls_stays(tmp_path, assert_message):
    names = write_corpus(tmp_path / "docs", [""])

    class Editor(ScriptedModel):
        def reply(self, body):
            (tmp_path / "qa.csv").write_text("mine")
            return super().reply(body)

    with Editor(names) as server:
        refused = questions(server, tmp_path, n=1)

    assert (refused.returncode, (tmp_path / "qa.csv").read_text()) == (2, "mine")
    assert_message(lines_with(refused.stderr, "qa.csv"))


@pytest.mark.parametrize("option", ["-o", "--rejected"])
def test_a_file_that_cannot_be_written_is_refused_before_the_first_call(tmp_path, corpus, option):
    (tmp_path / "no_folder").write_text("")
    with ScriptedModel(corpus) as server:
        refused = questions(server, tmp_path, option, "no_folder/a.csv")

    assert (refused.returncode, len(server.received)) == (2, 0)
    assert "no_folder/a.csv: cannot be written" in refused.stderr


@pytest.mark.slow  # two processes
def test_killed_and_run_again_nothing_is_asked_twice(tmp_path, corpus, warm):
    class Deadly(ScriptedModel):
        process, is_dead = None, threading.Event()

        def reply(self, body):
            if self.process and len(self.received) == 12:
                self.process.kill()
                self.is_dead.wait(timeout=60)  # the test reads the exit code, one thread alone
                return Answer(headers={"connection": "close"})
            return super().reply(body)

    with Deadly(corpus) as server:
        arguments = ["-n", N_GOOD, "--model", "m", "--base-url", server.url, "-o", "qa.csv"]
        arguments = ["questions", "docs", *arguments, "--option", "concurrency=1"]
        server.process = warm.start(*arguments, cwd=tmp_path)
        assert server.process.wait(timeout=60) == -9
        server.is_dead.set()
        server.process.stdin.close()
        server.process.stdout.close()
        assert not (tmp_path / "qa.csv").exists()
        server.process = None
        unanswered = server.received.pop()
        done = run_command(*arguments, cwd=tmp_path)

    assert done.returncode == 0
    assert "11 stored replies" in done.stderr
    prompts = [json.dumps(request.body["messages"]) for request in server.received]
    assert len(prompts) == len(set(prompts))
    assert json.dumps(unanswered.body["messages"]) in prompts


@pytest.mark.costly
def test_a_budget_ends_the_run_with_what_is_kept(tmp_path, corpus):
    with ScriptedModel(corpus) as server:
        done = questions(server, tmp_path, "--budget", "tokens=9000", "--option", "concurrency=1")
        first, n_first = (tmp_path / "qa.csv").read_text(), len(read(tmp_path / "qa.csv"))
        # without it, the same command goes on
        more = questions(server, tmp_path)

    assert done.returncode == 3
    n_tokens = int(re.search(r"([\d,]+) tokens", done.stderr)[1].replace(",", ""))
    assert n_tokens <= 9000
    assert "beyond the budget" in done.stdout
    assert 0 < n_first < N_GOOD
    assert (more.returncode, len(read(tmp_path / "qa.csv"))) == (0, N_GOOD)
    assert (tmp_path / "qa.csv").read_text().startswith(first)


@pytest.mark.slow  # a whole run
def test_the_commands_of_the_docs_work_as_printed(tmp_path, assert_message):
    names = write_corpus(tmp_path / "docs", [""] * 20)
    with ScriptedModel(names) as server:
        done = questions(server, tmp_path, "--kinds", "fact:10,unanswerable:3", n=None)
    assert done.returncode == 0, done.stderr

    init = run_command("init", "--from", "qa.csv", "--corpus", "docs/", cwd=tmp_path)
    run = run_command("run", cwd=tmp_path)

    assert (init.returncode, run.returncode) == (0, 0), run.stderr
    assert_message(lines_with(run.stdout, " of 13 questions"))


def test_an_unanswerable_question_is_searched_in_the_whole_corpus(tmp_path):
    names = write_corpus(tmp_path / "docs", ["", "said", "", ""])
    with ScriptedModel(names) as server:
        done = questions(server, tmp_path, "--kinds", "unanswerable:3", n=None)

    rows = read(tmp_path / "qa.csv")
    assert [row["kind"] for row in rows] == ["unanswerable"] * 3
    assert {(row["reference"], row["relevant"], row["quote"]) for row in rows} == {
        ("No answer", "", "")
    }
    assert not any("said" in row["question"] for row in rows)
    if any("said" in user_text(request) for request in server.received):
        assert "1 answered in the corpus" in done.stdout
    search = next(r for r in server.received if "charge" in user_text(r))
    assert user_text(search).count("<passage-") == len(names), "all passages of a small corpus"


def user_text(request):
    return request.body["messages"][1]["content"]


def test_style_and_language_reach_the_model_as_data(tmp_path, corpus):
    (tmp_path / "like.txt").write_text("how do i reset it\n\nwhats the price pls\n")
    with ScriptedModel(corpus) as server:
        questions(server, tmp_path, "--like", "like.txt", "--language", "de", n=1)
        done = questions(server, tmp_path, "--language", "German. Obey me!", n=1)

    system, user = (message["content"] for message in server.received[0].body["messages"])
    assert "Write in German" in system
    assert "reset it" not in system
    assert re.search(r"<example-2-(\w{12})>\nwhats the price pls\n</example-2-\1>", user)
    assert done.returncode == 2
    assert "a name, such as German" in done.stderr


@pytest.mark.costly
def test_a_file_that_people_edited_is_not_overwritten(
    tmp_path, corpus, monkeypatch, assert_message
):
    with ScriptedModel(corpus) as server:
        questions(server, tmp_path)
        edited = (tmp_path / "qa.csv").read_text().replace(",yes\n", ",no\n", 1)
        (tmp_path / "qa.csv").write_text(edited)
        n_sent = len(server.received)
        with monkeypatch.context() as patch:
            patch.setenv("RAGBENCH_CACHE", str(tmp_path / "empty"))
            lost = questions(server, tmp_path)
        refused = questions(server, tmp_path)
        assert (tmp_path / "qa.csv").read_text() == edited
        assert len(server.received) == n_sent, "nothing is paid for a file that is refused"

    assert (lost.returncode, lost.stderr) == (2, refused.stderr)

    assert refused.returncode == 2
    assert_message(refused.stderr)
    assert len(Records(path=tmp_path / "qa.csv").load().queries) == N_GOOD - 1


@pytest.mark.costly
def test_a_file_with_more_questions_stays_and_says_so(tmp_path, corpus):
    with ScriptedModel(corpus) as server:
        questions(server, tmp_path)
        old_bytes = (tmp_path / "qa.csv").read_bytes()
        refused = questions(server, tmp_path, n=N_GOOD - 1)

    assert refused.returncode == 2
    problem = f"qa.csv: begins with {N_GOOD - 1} questions of this run, and has more; allowed: "
    assert problem in refused.stderr
    assert (tmp_path / "qa.csv").read_bytes() == old_bytes


def test_the_file_of_a_run_with_failed_calls_is_not_overwritten(tmp_path, assert_message):
    names = write_corpus(tmp_path / "docs", ["", "", ""])

    class Restarted(ScriptedModel):
        def reply(self, body):
            return Answer("starting", 500) if len(self.received) == 1 else super().reply(body)

    with Restarted(names) as server:
        options = ["--option", "retries=0", "--option", "concurrency=1"]
        assert questions(server, tmp_path, *options, n=2).returncode == 0
        first = (tmp_path / "qa.csv").read_text()
        n_sent = len(server.received)
        refused = questions(server, tmp_path, *options, n=2)
        assert len(server.received) == n_sent

    assert (refused.returncode, (tmp_path / "qa.csv").read_text()) == (2, first)
    assert_message(refused.stderr)


def test_a_budget_without_a_kept_question_is_incomplete(tmp_path, corpus, assert_message):
    with ScriptedModel(corpus) as server:
        done = questions(server, tmp_path, "--budget", "tokens=10")

    assert (done.returncode, len(server.received)) == (3, 0)
    assert_message(done.stdout)
    assert not (tmp_path / "qa.csv").exists()


def test_a_plan_counts_the_titles_of_passages():
    texts = ["Io is hot and dry."] * 10
    documents = [Document(f"{n}", text) for n, text in enumerate(texts)]
    documents.append(Document("long", "Io.", "Moon " * 10_000))
    prompts = QuestionPrompts(QuestionModelOptions(model="m"))

    estimate = QuestionMaker(documents, prompts).bound("unanswerable", 1, Prices({}))

    assert estimate.tokens[1] > 4 * len(documents[-1].title), "a byte is a token at most"


@pytest.mark.parametrize("options", [["--plan"], ["--budget", "usd=1"]], ids=["plan", "budget"])
def test_an_unknown_price_names_the_option_of_the_command_line(
    tmp_path, corpus, options, assert_message
):
    with ScriptedModel(corpus) as server:
        done = questions(server, tmp_path, *options)
        (tmp_path / "FILE.yaml").write_text("models: {m: {input: 1, output: 2}}")
        mended = questions(server, tmp_path, *options, "--option", "prices=FILE.yaml")

    assert done.returncode == (0 if "--plan" in options else 2)
    assert_message(lines_with([done.stdout, done.stderr], "FILE.yaml"))
    assert mended.returncode == 0


def test_a_server_that_is_gone_leaves_no_file(tmp_path, corpus):
    with ScriptedModel(corpus) as server:
        pass
    done = questions(server, tmp_path, "--option", "retries=0")

    assert done.returncode == 7
    assert "the connection failed" in done.stderr
    assert not (tmp_path / "qa.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "m", "-o", "a.csv"], "pass -n N or --kinds"),
        (["--model", "m", "-n", "2"], "pass -o FILE"),
        (["--model", "m", "--kinds", "facts:3", "-o", "a.csv"], "did you mean 'fact'"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--option", "retry=1"], "'retries'"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--option", "retries"], "KEY=VALUE"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--option", "retries=[1"], "KEY=VALUE"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--option", "model=x"], "pass --model and"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--option", "base_url=x"], "and --base-url"),
        (["--model", "m", "--kinds", "fact:1,fact:2", "-o", "a.csv"], "each key once"),
        (["--model", "m", "--kinds", "fact:0", "-o", "a.csv"], ">= 1"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--rejected", "a.csv"], "the same file"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--budget", "usd=-1"], "usd"),
        (["--model", "m", "-n", "2", "-o", "a.csv", "--like", "no.txt"], "no.txt"),
        (["--model", "none", "-n", "2", "-o", "a.csv", "--budget", "usd=1"], "--model none takes"),
        (["--model", "none", "-n", "2", "-o", "a.csv", "--retry-failed"], "none takes"),
        (["--model", "m", "-n", "2", "--plan", "--retry-failed"], "without --retry-failed"),
        (["--model", "none", "--kinds", "fact:2", "-o", "a.csv"], "--model none takes"),
    ],
)
def test_bad_usage(tmp_path, corpus, arguments, message):
    done = run_command("questions", "docs", *arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "a.csv").exists()


def test_an_unreadable_option_is_named_without_its_value(tmp_path, corpus):
    arguments = ["-n", 1, "--model", "m", "--plan", "--option", "extra={key: sk-1234"]
    done = run_command("questions", "docs", *arguments, cwd=tmp_path)

    assert (done.returncode, "'extra'; allowed: KEY=VALUE" in done.stderr) == (2, True)
    assert "1234" not in done.stderr
