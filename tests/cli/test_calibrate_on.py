"""`ragbench calibrate CONFIG --on FILE`: judges on published sets, by scripted models."""

import re

import pytest

import ragbench as rb
from ragbench.json_yaml import load_json
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.commands import run_command
from tests.data import judged_sets as sets
from tests.messages import lines_with
from tests.score.judge.scripted import Script


def level_of(text):
    """Return 1, not supported, for the claims with a wrong fact, and for one that is right."""
    answer = text.rpartition("<answer")[2]
    return 1 if any(word in answer for word in ("1942", "large", "small", "Subway")) else 2


def outcome_of(text):
    """Prefer the answer with 1932; where neither or both have it, the one that stands first."""
    _, first, second = re.split(r"<answer-[AB]-\w+>\n", text)
    return "B" if "1932" in second and "1932" not in first else "A"


@pytest.fixture
def server():
    with ChatServer(Script(level=level_of, outcome=outcome_of)) as server:
        yield server


@pytest.fixture
def on(server, tmp_path, monkeypatch):
    """Call `calibrate --on` in a folder with the config c.yaml of the judge."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    rubrics = "[supported, answer_relevancy, pairwise]"
    judge = f"{{type: openai, model: m, base_url: '{server.url}', rubrics: {rubrics}}}"
    (tmp_path / "c.yaml").write_text(f"metrics:\n  judge: {judge}\n")
    for name, rows in sets.SETS.items():
        sets.write_jsonl(tmp_path / f"{name.split()[0]}.jsonl", rows)
    sets.write_jsonl(tmp_path / "response.jsonl", sets.RESPONSES)
    sets.write_jsonl(tmp_path / "source_info.jsonl", sets.SOURCES)

    def call(*arguments):
        return run_command("calibrate", *arguments, cwd=tmp_path)

    call.server = server
    return call


def certificate_of(done):
    assert done.returncode == 0, done.stderr
    return load_json(done.stdout)["rubrics"]


def test_a_claim_and_its_document_are_judged_without_a_question(on):
    # three claims, all as people say; answer_relevancy needs a question
    done = on("c.yaml", "--on", "LLM-AggreFact.jsonl", "--json")
    rubrics = certificate_of(done)
    assert list(rubrics) == ["supported"]
    assert rubrics["supported"]["agreement"]["raw"]["value"] == 1
    assert rubrics["supported"]["labels"]["queries"] == 2  # documents
    assert list(rubrics["supported"]["groups"]) == ["ExpertQA", "RAGTruth"]
    assert on.server.counters.requests == 3


def test_the_plan_stands_before_the_first_call_and_sends_nothing(on, assert_message):
    done = on("c.yaml", "--on", "LLM-AggreFact.jsonl", "--plan", "--set", "budget.tokens=10")
    assert (done.returncode, done.stdout, on.server.counters.requests) == (0, "", 0)
    assert_message(done.stderr)


def test_a_second_call_reads_the_stored_replies(on):
    first = on("c.yaml", "--on", "LLM-AggreFact.jsonl", "-o", "first.json")
    again = on("c.yaml", "--on", "LLM-AggreFact.jsonl", "-o", "second.json")
    assert on.server.counters.requests == 3
    assert "0 calls, 3 stored replies" in again.stderr
    assert first.stdout == again.stdout


def test_rows_with_an_unreadable_reply_are_asked_again_on_request(tmp_path, on, assert_message):
    # Two of three replies are readable, until the model is mended.
    broken, good = [True], Script(level=level_of)

    def script(body, times_asked):
        if broken and "1942" in str(body["messages"]):
            return "It is not supported."
        return good(body, times_asked)

    with ChatServer(script) as server:
        call = ("c.yaml", "--on", "LLM-AggreFact.jsonl")
        overrides = ("--set", f"metrics.judge.base_url={server.url}")
        first = on(*call, *overrides)
        broken.clear()
        sent = server.counters.requests
        again = on(*call, *overrides)
        assert (sent, server.counters.requests) == (4, 4), "an unreadable reply is sent back once"
        assert (first.returncode, again.returncode) == (3, 3)
        assert_message(lines_with(first.stderr, "without a score"))
        assert "0 calls, 4 stored replies" in again.stderr

        rubrics = certificate_of(on(*call, *overrides, "--retry-failed", "--json"))
        assert rubrics["supported"]["labels"]["n"] == 3
        assert server.counters.requests == 5, "the other rows are stored"
        # the new reply is stored in place of the unreadable one
        assert certificate_of(on(*call, *overrides, "--json")) == rubrics
        assert server.counters.requests == 5

    done = on(*call, "--retry-failed", "--plan")
    assert done.returncode == 2
    assert_message(done.stderr)


def test_a_budget_ends_the_judging_and_the_next_call_goes_on(on, assert_message):
    done = on("c.yaml", "--on", "LLM-AggreFact.jsonl", "--set", "budget.tokens=1")
    assert (done.returncode, on.server.counters.requests) == (3, 0)
    assert_message(done.stderr)
    rubrics = certificate_of(on("c.yaml", "--on", "LLM-AggreFact.jsonl", "--json"))
    assert rubrics["supported"]["labels"]["n"] == 3


def test_ragtruth_is_two_files_and_its_sources_are_the_units(on):
    # four responses: people reject the second, the judge also the last two
    done = on("c.yaml", "--on", "source_info.jsonl", "response.jsonl", "--rubric", "supported")
    assert "supported agrees with people on 2 of 4 answers" in done.stdout
    done = on("--on", "response.jsonl", "source_info.jsonl", "c.yaml", "--json")
    of = certificate_of(done)["supported"]
    assert of["agreement"]["raw"]["value"] == 0.5
    assert of["labels"]["queries"] == 3


def test_limit_draws_rows_by_label(on):
    done = on("c.yaml", "--on", "LLM-AggreFact.jsonl", "--limit", "2", "--json")
    assert certificate_of(done)["supported"]["labels"]["n"] == 2
    assert on.server.counters.requests == 2


def test_a_column_or_a_path_gives_the_groups(on, assert_message):
    columns = ["--column", "judge=metadata.gpt_4o", "--by"]
    done = on("--on", "FaithBench.jsonl", *columns, "metadata.summarizer", "--json")
    (of,) = certificate_of(done).values()
    assert {name: group["n"] for name, group in of["groups"].items()} == {
        "model/0": 2,
        "model/1": 2,
    }
    done = on("--on", "FaithBench.jsonl", *columns, "summarizer")
    assert done.returncode == 2
    assert_message(done.stderr)


def test_predictions_in_a_file_are_certified_without_a_call(on):
    # people 1 1 0 0, gpt_4o 1 1 0 1: 3 of 4; the score .9 .8 .7 .2 at 0.5: 1 1 1 0, 3 of 4
    for column, value in (("metadata.gpt_4o", 0.75), ("metadata.hhem-2.1", 0.75)):
        done = on("--on", "FaithBench.jsonl", "--column", f"judge={column}", "--json")
        (of,) = certificate_of(done).values()
        assert of["agreement"]["raw"]["value"] == value
        # passes right and fails right: 2 of 2 and 1 of 2, or 2 of 2 and 1 of 2
        assert of["agreement"]["balanced_accuracy"]["value"] == 0.75
        # two annotators who differ on the third and fourth sample alone: ann 1 1 1 1, bob 1 1 0 0
        assert of["ceiling"]["raw"]["value"] == 0.5
    assert on.server.counters.requests == 0


def test_a_table_of_passages_is_judged_by_a_rubric_of_passages(on, tmp_path):
    rows = []
    for number, name in enumerate(("large", "small", "Ceres")):
        rows.append({"question": "What?", "contexts": [name], "label": min(number, 1)})
    sets.write_jsonl(tmp_path / "passages.jsonl", rows)
    script = Script(level=lambda text: 4 if "Ceres" in text.rpartition("<passage")[2] else 1)
    with ChatServer(script) as server:
        judge = (
            f"{{type: openai, model: m, base_url: '{server.url}', rubrics: [passage_relevance]}}"
        )
        (tmp_path / "p.yaml").write_text(f"metrics:\n  judge: {judge}\n")
        done = on("p.yaml", "--on", "passages.jsonl", "--scale", "0..1", "--json")
    of = certificate_of(done)["passage_relevance"]
    assert of["agreement"]["raw"]["value"] == pytest.approx(2 / 3)  # 0 0 1 against 0 1 1


def test_predictions_beside_a_config_ask_no_judge(on):
    columns = ["--column", "judge=metadata.gpt_4o", "--json"]
    done = on("c.yaml", "--on", "FaithBench.jsonl", *columns)
    assert done.stdout == on("--on", "FaithBench.jsonl", *columns).stdout
    assert "no judge of c.yaml is asked" in done.stderr
    assert on.server.counters.requests == 0


def test_a_table_of_its_own_names_its_columns(on, tmp_path):
    rows = [{"query_id": "q", "answer": f"d{n}", "grade": n, "model": n // 2} for n in range(4)]
    sets.write_jsonl(tmp_path / "own.jsonl", rows)
    columns = ["--column", "label=grade", "--column", "judge=model", "--scale", "0..3"]
    (of,) = certificate_of(on("--on", "own.jsonl", *columns, "--json")).values()
    assert of["agreement"]["raw"]["value"] == 0.25  # 0 0 1 1 against 0 1 2 3
    assert of["labels"]["queries"] == 1


def test_pairs_are_judged_in_both_orders(on):
    # 1932 is right in p0 and p2; in p1 people prefer 1942
    done = on("c.yaml", "--on", "JudgeBench.jsonl", "--json")
    shares = certificate_of(done)["pairwise"]["shares"]
    values = {name: share["value"] for name, share in shares.items()}
    assert values == {
        "both_orders": pytest.approx(2 / 3),
        "together": pytest.approx(2 / 3),
        "first": pytest.approx(2 / 3),
        "second": pytest.approx(2 / 3),
        "same_side": 1,
        "position": 0,
    }


def test_rows_with_several_pairs_are_right_if_all_pairs_are(on, assert_message):
    # r0: 1932 beats both; r1: 1932 beats 1952 twice
    done = on("c.yaml", "--on", "RewardBench.jsonl", "--json")
    shares = certificate_of(done)["pairwise"]["shares"]
    assert (shares["whole_rows"]["value"], shares["whole_rows"]["n"]) == (1, 2)
    assert shares["both_orders"]["n"] == 4
    assert_message(on("c.yaml", "--on", "RewardBench.jsonl").stdout)


def test_a_judge_that_takes_the_first_answer_has_a_position_bias(tmp_path, on):
    script = Script(outcome=lambda text: "A")
    with ChatServer(script) as server:
        overrides = ["--set", f"metrics.judge.base_url={server.url}", "--json"]
        done = on("c.yaml", "--on", "ContextualJudgeBench.jsonl", *overrides)
    shares = certificate_of(done)["pairwise"]["shares"]
    assert [shares[name]["value"] for name in ("both_orders", "first", "second")] == [0, 1, 0]
    assert shares["position"]["value"] == 0.5
    assert "does not read the passages" in done.stderr


def test_uses_that_do_not_fit_are_refused(on, assert_message):
    for arguments in (
        ["--on", "JudgeBench.jsonl"],
        ["c.yaml", "--on", "FaithBench.jsonl", "--column", "judge=metadata.gpt_4o", "--plan"],
        ["c.yaml", "--on", "FaithBench.jsonl", "--ratings", "x.csv"],
        ["c.yaml", "--on", "FaithBench.jsonl", "--model", "m"],
        ["--on", "FaithBench.jsonl", "--column", "judge=metadata.gpt_5"],
        ["--on", "FaithBench.jsonl", "--column", "judges=metadata.gpt_4o"],
        ["c.yaml", "--on", "JudgeBench.jsonl", "--rubric", "supported"],
        ["c.yaml", "--on", "JudgeBench.jsonl", "--good", "1"],
        ["--on", "JudgeBench.jsonl", "--column", "judge=label"],
    ):
        done = on(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert_message(done.stderr)
    assert on.server.counters.requests == 0


def test_failed_verdicts_and_a_server_that_is_away_have_exit_codes(on, tmp_path):
    script = Script(level=2)

    def faulty(body, times_asked):
        text = body["messages"][1]["content"]
        return (
            Answer("no", status=400) if "1942" in text.rpartition("<answer")[2] else script(body, 1)
        )

    with ChatServer(faulty) as server:
        overrides = ["--set", f"metrics.judge.base_url={server.url}"]
        done = on("c.yaml", "--on", "LLM-AggreFact.jsonl", *overrides)
        assert done.returncode == 3
        assert "of 2 answers" in done.stdout
        done = on("c.yaml", "--on", "LLM-AggreFact.jsonl", *overrides, "--set", "max_failed=0.5")
        assert done.returncode == 0
    gone = ["--set", f"metrics.judge.base_url={server.url}", "--set", "metrics.judge.retries=0"]
    done = on("c.yaml", "--on", "RAGBench.jsonl", *gone)
    assert (done.returncode, done.stdout) == (7, "")


def test_a_config_of_an_experiment_lends_its_judge(on, tmp_path):
    text = (tmp_path / "c.yaml").read_text()
    sets.write_jsonl(tmp_path / "q.jsonl", [{"question": "When?", "answer": "1932"}])
    text += "dataset: {type: records, path: q.jsonl}\nretrievers: {bm25: {type: bm25}}\n"
    (tmp_path / "whole.yaml").write_text(text)
    done = on("whole.yaml", "--on", "LLM-AggreFact.jsonl", "--json")
    assert certificate_of(done)["supported"]["labels"]["n"] == 3


def test_a_judge_in_python_judges_a_set(tmp_path, on):
    code = "def supported(answer: str, contexts: list) -> bool:\n    return '1932' in answer\n"
    (tmp_path / "own_judge.py").write_text(code)
    (tmp_path / "own.yaml").write_text("metrics:\n  judge: {type: 'python:own_judge:supported'}\n")
    done = on("own.yaml", "--on", "LLM-AggreFact.jsonl", "--json")
    assert certificate_of(done)["supported"]["agreement"]["raw"]["value"] == 1
    assert "no calls" in done.stderr


def test_the_format_csv_has_all_numbers_of_pairs(on):
    done = on("c.yaml", "--on", "JudgeBench.jsonl", "--format", "csv")
    assert len(done.stdout.splitlines()) == 1 + 6
    assert "both_orders" in done.stdout


# query -> document -> grade of people, grade of the judge
GRADES = {
    "q1": {"d1": (3, 3), "d2": (0, 1), "d3": (1, 1)},
    "q2": {"d1": (0, 0), "d2": (2, 3), "d3": (0, 0)},
}


def grade_of(text):
    """Return the level, one above the grade of the judge, of the query and document in a prompt."""
    query = "q1" if "Question q1" in text else "q2"
    _, _, document = text.rpartition("Document ")
    return 1 + GRADES[query][document[:2]][1]


@pytest.fixture
def judged_pool(tmp_path):
    """A data set in the layout of BEIR, and qrels of people and judge, beside runs."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    sets.write_jsonl(
        folder / "queries.jsonl", [{"_id": q, "text": f"Question {q}"} for q in GRADES]
    )
    documents = [{"_id": f"d{n}", "title": "", "text": f"Document d{n}"} for n in (1, 2, 3)]
    sets.write_jsonl(folder / "corpus.jsonl", documents)
    people, judge, table = "", "", "query-id\tcorpus-id\tscore\n"
    for query, of_query in GRADES.items():
        for document, (grade, of_judge) in of_query.items():
            people += f"{query} 0 {document} {grade}\n"
            judge += f"{query} 0 {document} {of_judge}\n"
            table += f"{query}\t{document}\t{grade}\n"
    (folder / "qrels" / "test.tsv").write_text(table)
    (tmp_path / "people.qrels").write_text(people)
    (tmp_path / "judge.qrels").write_text(judge)
    for name, order in {"good": "132", "fair": "213", "poor": "312"}.items():
        lines = ""
        for query in GRADES:
            for rank, n in enumerate(order, start=1):
                lines += f"{query} Q0 d{n} {rank} {4 - rank} {name}\n"
        (tmp_path / f"{name}.run").write_text(lines)
    return tmp_path


def test_qrels_of_a_judge_are_compared_with_those_of_people(on, judged_pool):
    runs = ["good.run", "fair.run", "poor.run"]
    done = on("--on", "people.qrels", *runs, "--ratings", "judge.qrels", "--json")
    (of,) = certificate_of(done).values()
    # 4 of 6 pairs agree; both queries are units
    assert of["agreement"]["raw"]["value"] == pytest.approx(4 / 6)
    assert (of["labels"]["n"], of["labels"]["queries"]) == (6, 2)
    assert of["scale"] == [0, 3]
    # nDCG@3 of q1 under people: good 3 + 1/log2(3), fair 3/log2(3) + 1/2, poor 1 + 3/log2(3),
    # over 3 + 1/log2(3); of q2: 2/2, 2, 2/2, over 2
    order = of["systems"]
    log3 = 1.5849625
    ideal = 3 + 1 / log3
    assert order["people"]["good"] == pytest.approx((1 + 0.5) / 2)
    assert order["people"]["fair"] == pytest.approx(((3 / log3 + 0.5) / ideal + 1) / 2)
    assert order["people"]["poor"] == pytest.approx(((1 + 3 / 2 * 0 + 3 / log3) / ideal + 0.5) / 2)
    assert order["tau"]["n"] == 3


def test_systems_are_scored_under_all_rows_of_both_qrels(on, judged_pool, assert_message):
    # people alone judge d3 and d5 of q1, the judge alone d4 of q2
    people = (judged_pool / "people.qrels").read_text() + "q1 0 d5 2\n"
    (judged_pool / "people.qrels").write_text(people)
    judge = (judged_pool / "judge.qrels").read_text().replace("q1 0 d3 1\n", "") + "q2 0 d4 3\n"
    (judged_pool / "judge.qrels").write_text(judge)
    runs = ["good.run", "fair.run", "poor.run"]

    done = on("--on", "people.qrels", *runs, "--ratings", "judge.qrels", "--json")

    (of,) = certificate_of(done).values()
    assert of["agreement"]["raw"]["n"] == 5
    assert_message(done.stderr)
    for side in ("people", "judge"):
        for run in runs:
            paths = (judged_pool / run, judged_pool / f"{side}.qrels")
            scored = rb.evaluate_run(*paths, ["ndcg@10"], no_relevant="zero")
            mean = of["systems"][side][run.removesuffix(".run")]
            assert mean == pytest.approx(scored.mean["ndcg@10"])


@pytest.mark.parametrize("asks", [True, False], ids=["judge of a config", "qrels of a judge"])
def test_systems_are_scored_under_the_documents_of_the_draw(on, judged_pool, asks):
    config = (judged_pool / "c.yaml").read_text()
    config += "dataset: {type: beir, path: beir}\nretrievers: {bm25: {type: bm25}}\n"
    (judged_pool / "graded.yaml").write_text(config)
    with ChatServer(Script(level=grade_of)) as server:
        server_of = ["--set", f"metrics.judge.base_url={server.url}"]
        files = ["--on", "people.qrels", "good.run", "fair.run", "--limit", "4"]
        if asks:
            done = on("graded.yaml", *files, *server_of, "--json")
        else:
            done = on(*files, "--ratings", "judge.qrels", "--json")
        (of,) = certificate_of(done).values()
        assert server.counters.requests == (4 if asks else 0)
    assert of["agreement"]["raw"]["n"] == 4
    # the draw of a judge that agrees with people gives both the same means
    drawn = "people.qrels"
    same = on("--on", drawn, "good.run", "fair.run", "--limit", "4", "--ratings", drawn, "--json")
    (own,) = certificate_of(same).values()
    assert own["systems"]["judge"] == own["systems"]["people"] == of["systems"]["people"]
    whole = on("--on", drawn, "good.run", "fair.run", "--ratings", drawn, "--json")
    (of_all,) = certificate_of(whole).values()
    assert of_all["systems"]["people"] != own["systems"]["people"]


def test_wrong_labels_and_options_for_them_cost_no_verdict(on, tmp_path, assert_message):
    rows = [{"id": n, "answer": "A", "contexts": ["A"], "label": n} for n in range(3)]
    sets.write_jsonl(tmp_path / "levels.jsonl", rows)
    claims = "LLM-AggreFact.jsonl"
    for options in ([claims, "--by", "nope"], [claims, "--good", "7"], ["levels.jsonl"]):
        done = on("c.yaml", "--on", *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert_message(done.stderr)
    assert on.server.counters.requests == 0


def test_rows_without_a_label_or_a_group_are_counted(on, tmp_path, assert_message):
    rows = []
    for n in range(6):
        label, group = ("yes", "no", "")[n % 3], "ab"[n % 2] if n else ""
        rows.append({"id": n, "answer": f"{n}", "label": label, "model": n % 2, "set": group})
    sets.write_jsonl(tmp_path / "gaps.jsonl", rows)

    done = on("--on", "gaps.jsonl", "--column", "judge=model", "--by", "set")

    assert done.returncode == 0, done.stderr
    assert_message(done.stderr)
    assert_message("\n".join(line for line in done.stdout.splitlines() if "note:" in line))


def test_a_judge_grades_the_passages_of_qrels(on, judged_pool, assert_message):
    config = (judged_pool / "c.yaml").read_text()
    config += "dataset: {type: beir, path: beir}\nretrievers: {bm25: {type: bm25}}\n"
    (judged_pool / "graded.yaml").write_text(config)
    with ChatServer(Script(level=grade_of)) as server:
        options = ["--set", f"metrics.judge.base_url={server.url}"]
        done = on("graded.yaml", "--on", "people.qrels", "good.run", "fair.run", *options, "--json")
        of = certificate_of(done)["passage_relevance"]
        assert server.counters.requests == 6
    assert of["agreement"]["raw"]["value"] == pytest.approx(4 / 6)
    assert of["labels"]["queries"] == 2
    assert list(of["systems"]["judge"]) == ["good", "fair"]
    binary = "q1 0 d1 1\nq1 0 d9 0\n"
    (judged_pool / "binary.qrels").write_text(binary)
    done = on("graded.yaml", "--on", "binary.qrels")
    assert done.returncode == 2
    assert_message(done.stderr)


def test_qrels_need_the_texts_of_a_data_set(on, judged_pool, assert_message):
    for arguments in (
        ["c.yaml", "--on", "people.qrels"],
        ["--on", "people.qrels", "judge.qrels"],
        ["--on", "LLM-AggreFact.jsonl", "--ratings", "judge.qrels"],
    ):
        done = on(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert_message(done.stderr)
