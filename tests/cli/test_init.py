"""`ragbench init`: what it writes runs, or says what is missing."""

import csv
import json

import pytest
import pytrec_eval
import yaml
from click.testing import CliRunner

from ragbench import read_qrels, read_run
from ragbench.cli.configs import validate
from ragbench.cli.init import init
from ragbench.cli.run import command as run_command
from ragbench.config.load import load_config
from ragbench.data.files.fields import content_id
from ragbench.errors import ConfigError, DataError
from ragbench.questions.base import COLUMNS
from tests.lazy import Lazy
from tests.messages import lines_with

rouge_scorer = Lazy("rouge_score.rouge_scorer")

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments, command=init):
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


def test_a_config_for_a_folder(workplace, assert_message):
    result = invoke()

    assert result.exit_code == 0
    assert result.stdout == "wrote ragbench.yaml\n"
    assert_message(result.stderr)
    with pytest.raises(ConfigError) as caught:
        load_config("ragbench.yaml")
    [problem] = caught.value.problems
    assert problem.found == "no such file: dataset", "all that is missing is the data"
    (workplace / "dataset").mkdir()
    assert list(load_config("ragbench.yaml").retrievers) == ["bm25"]


def test_never_overwrites_the_file_of_records(workplace, assert_message):
    write_csv(workplace / "qa.csv", [["question", "reference"], ["Who?", "Galle"]])

    result = invoke("--from", "qa.csv", "--force", "qa.csv")

    assert result.exit_code == 2
    assert_message(result.stderr)
    assert (workplace / "qa.csv").read_text(encoding="utf-8").startswith("question")


def test_never_overwrites_without_force(workplace):
    (workplace / "mine.yaml").write_text("precious\n", encoding="utf-8")

    result = invoke("mine.yaml")

    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (workplace / "mine.yaml").read_text(encoding="utf-8") == "precious\n"
    assert invoke("mine.yaml", "--force").exit_code == 0
    assert load_text(workplace / "mine.yaml")["dataset"]["type"] == "beir"


def load_text(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_records_with_answers_run_at_once(workplace):
    (workplace / "data").mkdir()
    write_csv(
        workplace / "data" / "qa log.csv",
        [
            # names of columns in the spelling of several tools
            ["Question", "answer", "contexts", "ground_truth", "topic"],
            ["Who wrote it?", "Ann wrote it.", json.dumps(["Ann wrote it in 1999."]), "Ann", "x"],
            ["When?", "In 1999.", json.dumps(["Ann wrote it in 1999."]), "1999", "y"],
        ],
    )

    result = invoke("configs/qa.yaml", "--from", "data/qa log.csv")

    assert result.exit_code == 0
    dataset = load_text(workplace / "configs" / "qa.yaml")["dataset"]
    assert dataset["path"] == "../data/qa log.csv"
    assert dataset["columns"] == {
        "question": "Question",
        "contexts": "contexts",
        "answer": "answer",
        "reference": "ground_truth",
    }
    validated = invoke("configs/qa.yaml", command=validate)
    assert validated.exit_code == 0
    assert validated.stdout.startswith("ok: configs/qa.yaml\n")


def test_records_without_answers_need_a_corpus(workplace, assert_message):
    write_csv(workplace / "qa.csv", [["question", "reference"], ["Who?", "Ann"]])

    result = invoke("--from", "qa.csv")

    assert_message(result.stderr)
    with pytest.raises(ConfigError, match="no such file: documents"):
        load_config("ragbench.yaml")
    (workplace / "documents").mkdir()
    (workplace / "documents" / "a.txt").write_text("Ann wrote it.", encoding="utf-8")
    assert invoke("ragbench.yaml", command=validate).exit_code == 0


def test_an_answer_alone_is_refused_since_it_may_be_gold(workplace, assert_message):
    write_csv(workplace / "qa.csv", [["question", "answer"], ["Who?", "Ann"]])

    with pytest.raises(DataError) as error:
        invoke("--from", "qa.csv")
    assert_message(error.value, "qa.csv")
    assert not (workplace / "ragbench.yaml").exists()


def test_a_response_alone_has_no_gold_and_no_config(workplace, assert_message):
    write_csv(workplace / "qa.csv", [["question", "response"], ["Who?", "Ann"]])

    with pytest.raises(DataError, match="nothing to score") as caught:
        invoke("--from", "qa.csv")

    assert_message(str(caught.value))
    assert not (workplace / "ragbench.yaml").exists()
    assert invoke("--from", "qa.csv", "--column", "reference=response").exit_code == 0


def test_passages_and_gold_answers_run_at_once(workplace):
    write_csv(
        workplace / "ctx.csv",
        [["question", "contexts", "reference"], ["Who?", json.dumps(["Ann did.", "Bo."]), "Bo"]],
    )

    assert invoke("--from", "ctx.csv").exit_code == 0
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert run.exit_code == 0
    [system] = json.loads(run.stdout)["systems"]
    means = {name: score["mean"] for name, score in system["scores"].items()}
    # `Bo` stands in the second of two passages
    assert means == {"found@5": 1, "answer_hit@5": 1, "answer_hit@1": 0, "answer_hit@10": 1}


def test_a_file_without_questions(workplace, assert_message):
    write_csv(workplace / "qa.csv", [["a", "b"], ["1", "2"]])

    with pytest.raises(DataError) as error:
        invoke("--from", "qa.csv")
    assert_message(error.value, "qa.csv")
    assert not (workplace / "ragbench.yaml").exists()


def test_a_file_that_is_not_there(workplace):
    with pytest.raises(DataError, match=r"qa\.csv"):
        invoke("--from", "qa.csv")


@pytest.mark.parametrize("column", ["no", "a: b", "ä 'x'", "${X}", "1", 'say "q"', "#"])
def test_odd_column_names_survive(workplace, column):
    (workplace / "qa.jsonl").write_text(
        json.dumps({"question": "q", "answer": "a", "contexts": ["c"], "reference": "r"}) + "\n",
        encoding="utf-8",
    )
    name = workplace / "qa.yaml"
    invoke("qa.yaml", "--from", "qa.jsonl")
    from ragbench.config.scaffold import _scalar

    text = name.read_text(encoding="utf-8").replace("answer: answer", f"answer: {_scalar(column)}")
    name.write_text(text, encoding="utf-8")

    assert load_config(name).dataset.options["columns"]["answer"] == column


@pytest.fixture
def table(workplace, repository):
    """60 questions of the example collection with answers and gold files, and a folder of these."""
    example = repository / "datasets" / "example"
    lines = {
        name: [json.loads(line) for line in (example / name).read_text("utf-8").splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl", "answers.jsonl")
    }
    (workplace / "docs").mkdir()
    for row in lines["corpus.jsonl"]:
        text = f"# {row['title']}\n\n{row['text']}\n"
        (workplace / "docs" / f"{row['_id']}.md").write_text(text, encoding="utf-8")
    gold = read_qrels(example / "qrels" / "test.tsv").to_dict()
    answers = {row["query_id"]: row["answers"][0] for row in lines["answers.jsonl"]}
    rows = [
        {
            "question": row["text"],
            "answer": answers[row["_id"]],
            "source document": [f"{d}.md" for d, grade in gold[row["_id"]].items() if grade > 0],
        }
        for row in lines["queries.jsonl"]
        if row["_id"] in answers and any(grade > 0 for grade in gold.get(row["_id"], {}).values())
    ]
    return rows[:60]


def write_table(rows, path):
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        values = [[*row.values()] for row in rows]
        cells = [[q, a, "; ".join(gold)] for q, a, gold in values]
        write_csv(path, [list(rows[0]), *cells])


def test_a_table_and_a_folder_run_at_once(workplace, table):
    # The scores are those that pytrec_eval and rouge-score give for what was found.
    write_table(table, workplace / "qa.parquet")
    write_table(table, workplace / "qa.csv")
    configs = []
    # lists of gold files in Parquet, one cell with semicolons in CSV
    for name in ("qa.parquet", "qa.csv"):
        done = invoke("--from", name, "--corpus", "docs/", "--force")
        assert done.exit_code == 0
        configs.append((workplace / "ragbench.yaml").read_text("utf-8").replace(name, "TABLE"))
    # the config depends on the table alone, not on its format
    assert configs[0] == configs[1]
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert run.exit_code == 0, run.output
    summary = json.loads(run.stdout)
    scores = {entry["name"]: entry["scores"] for entry in summary["systems"]}
    assert list(scores) == ["bm25", "bm25/extractive"]
    qrels = {content_id(row["question"]): dict.fromkeys(row["source document"], 1) for row in table}
    folder = workplace / "runs" / "ragbench" / summary["timing"]["run_id"]
    rankings = read_run(folder / "rankings" / "bm25.trec").to_dict()
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.10", "map"})
    # the oracle reads the ranking that the run wrote, with gold from the table
    expected = oracle.evaluate(rankings).values()
    assert len(rankings) >= 55, "a query that finds nothing has no row in the file: it counts as 0"
    for measure, theirs in {"ndcg@10": "ndcg_cut_10", "recall@10": "recall_10"}.items():
        mean = sum(entry[theirs] for entry in expected) / 60
        assert scores["bm25"][measure]["mean"] == pytest.approx(mean, abs=1e-9)
    predictions = (folder / "predictions" / "bm25--extractive.jsonl").read_text("utf-8")
    answered = {row["query_id"]: row["answer"] for row in map(json.loads, predictions.splitlines())}
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    rouge = [
        scorer.score(row["answer"], answered[content_id(row["question"])])["rougeL"].fmeasure
        for row in table
    ]
    mean = scores["bm25/extractive"]["rougeL"]["mean"]
    assert mean == pytest.approx(sum(rouge) / 60, abs=1e-9)


def test_the_users_own_app_is_the_second_system(workplace, table, assert_message):
    # The lines of the app run once their # are away, and the first line of the result is on it.
    write_table(table[:20], workplace / "qa.csv")
    (workplace / "myapp.py").write_text("def answer(question):\n    return 'no idea'\n", "utf-8")
    invoke("--from", "qa.csv", "--corpus", "docs")
    config = workplace / "ragbench.yaml"
    text = config.read_text("utf-8").replace("# apps:", "apps:").replace("#   mychain", "  mychain")
    config.write_text(text, "utf-8")

    run = invoke("ragbench.yaml", "--quiet", command=run_command)

    assert list(load_config(config).apps) == ["mychain"]
    assert_message(lines_with(run.stdout, " lost: "))


def test_what_was_understood_is_said(workplace, table, assert_message):
    write_table(table, workplace / "qa.csv")

    result = invoke("--from", "qa.csv", "--corpus", "docs", "-o", "my qa.yaml")

    assert result.stdout == "wrote my qa.yaml\n"
    assert_message(result.stderr.splitlines()[0])
    assert_message(result.stderr)
    assert_message(result.stderr.splitlines()[-1])


def test_long_documents_are_cut_and_scored_as_documents(workplace, assert_message):
    (workplace / "docs").mkdir()
    for name, word in (("a", "volcano"), ("b", "glacier"), ("c", "desert")):
        # 603 words: longer than a chunk, and the answer is in the middle
        text = " ".join(["filler"] * 300 + [word] * 3 + ["filler"] * 300)
        (workplace / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    write_csv(
        workplace / "qa.csv",
        [["query", "file"], ["Where is the volcano?", "a"], ["Where is the desert?", "c.md"]],
    )

    invoke("--from", "qa.csv", "--corpus", "docs")
    text = (workplace / "ragbench.yaml").read_text(encoding="utf-8")
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert_message(lines_with(text, "# 3 documents, 603 words"))
    assert load_text(workplace / "ragbench.yaml")["dataset"]["columns"] == {
        "question": "query",
        "relevant": "file",
    }
    systems = {system["name"]: system["scores"] for system in json.loads(run.stdout)["systems"]}
    assert list(systems) == ["chunks"]
    assert systems["chunks"]["hit_rate@1"]["mean"] == 1.0


def test_a_column_with_few_known_documents_is_named(workplace, assert_message):
    (workplace / "docs").mkdir()
    (workplace / "docs" / "guide.md").write_text("text", encoding="utf-8")
    # one of three cells is the name of a document
    rows = [["question", "topic"], ["Who?", "Guide"], ["What?", "b"], ["Why?", "c"]]
    write_csv(workplace / "qa.csv", rows)

    arguments = ("--from", "qa.csv", "--corpus", "docs")
    result = CliRunner().invoke(init, arguments)

    assert_message(result.stderr)
    assert isinstance(result.exception, DataError)
    assert not (workplace / "ragbench.yaml").exists(), "it would score nothing"
    assert invoke(*arguments, "--column", "relevant=topic").exit_code == 0


def test_gold_that_names_what_metadata_say(workplace, assert_message):
    rows = [{"page_content": f"text {n}", "metadata": {"source": f"f{n // 2}"}} for n in range(4)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (workplace / "chunks.jsonl").write_text(lines, encoding="utf-8")
    write_csv(
        workplace / "qa.csv", [["question", "source_doc"], ["text 3", "f1"], ["text 0", "f0"]]
    )

    result = invoke("--from", "qa.csv", "--corpus", "chunks.jsonl")
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert_message(result.stderr)
    score = json.loads(run.stdout)["systems"][0]["scores"]["hit_rate@1"]
    assert (score["mean"], score["n"]) == (1.0, 2)


def test_gold_that_the_corpus_does_not_know(workplace, assert_message):
    (workplace / "docs").mkdir()
    (workplace / "docs" / "guide.md").write_text("text", encoding="utf-8")
    write_csv(
        workplace / "qa.csv", [["question", "source_doc"], ["Who?", "guides"], ["What?", "b"]]
    )

    with pytest.raises(DataError) as caught:
        invoke("--from", "qa.csv", "--corpus", "docs")

    assert_message(str(caught.value))
    assert not (workplace / "ragbench.yaml").exists()


@pytest.mark.parametrize(("n_gold", "need"), [(1, "any"), (2, "all")])
def test_a_set_whose_answers_need_all_gold_says_so(workplace, n_gold, need):
    sessions = {f"s{number}": f"Clue {number} of the bike." for number in range(n_gold)}
    row = {
        "question_id": "q",
        "question": "When did I sell my bike?",
        "answer": "in May",
        "answer_session_ids": [*sessions],
        "haystack_dates": ["2023/05/20"] * n_gold,
        "haystack_session_ids": [*sessions],
        "haystack_sessions": [[{"role": "user", "content": text}] for text in sessions.values()],
    }
    (workplace / "memory.json").write_text(json.dumps([row]), encoding="utf-8")

    assert invoke("--from", "memory.json").exit_code == 0

    assert load_config("ragbench.yaml").causes.need == need
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)
    found = "found(need=all)@5" if need == "all" else "found@5"
    assert json.loads(run.stdout)["systems"][0]["scores"][found]["mean"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a.yaml", "-o", "b.yaml"], "FILE and --output mean the same; pass one of them"),
        (["--corpus", "docs"], "--corpus needs --from TABLE, the questions"),
    ],
)
def test_options_that_do_not_go_together(arguments, expected):
    result = invoke(*arguments)

    assert result.exit_code == 2
    assert expected in result.stderr


def test_gold_that_the_corpus_lacks_in_part_is_named_with_its_row(workplace, table, assert_message):
    table[3]["source document"] = ["io-volcano.md"]
    write_table(table, workplace / "qa.csv")
    invoke("--from", "qa.csv", "--corpus", "docs")

    validated = invoke("ragbench.yaml", command=validate)

    assert_message(lines_with(validated.stdout, "documents are not in the"))


def test_a_table_with_an_empty_column_of_gold_and_blanks_in_its_header(workplace):
    (workplace / "docs").mkdir()
    (workplace / "docs" / "a.md").write_text("Ann wrote it.", encoding="utf-8")
    write_csv(workplace / "qa.csv", [["question ", " answer", "source_doc"], ["Who?", "Ann", ""]])

    result = invoke("--from", "qa.csv", "--corpus", "docs")

    assert "note: column 'source_doc' is empty in every row and is not used\n" in result.stderr
    columns = load_text(workplace / "ragbench.yaml")["dataset"]["columns"]
    assert columns == {"question": "question", "reference": "answer"}
    assert invoke("ragbench.yaml", command=validate).exit_code == 0


def test_columns_of_other_names_are_said(workplace, assert_message):
    (workplace / "docs").mkdir()
    (workplace / "docs" / "d1.md").write_text("Galle sah Neptun.", encoding="utf-8")
    (workplace / "docs" / "d2.md").write_text("Piazzi sah Ceres.", encoding="utf-8")
    write_csv(
        workplace / "qa.csv",
        [
            ["Frage", "Antwort", "Beste Quelle"],
            ["Wer sah Neptun?", "Galle", "d1.md"],
            ["Wer sah Ceres?", "Piazzi", "d2.md"],
        ],
    )
    table = ("--from", "qa.csv", "--corpus", "docs")

    with pytest.raises(DataError) as error:
        invoke(*table)
    assert_message(error.value, "qa.csv")
    result = invoke(
        *(*table, "--column", "question=Frage", "--column", "reference=Antwort"),
        *("--column", "relevant=Beste Quelle"),
    )

    assert result.exit_code == 0, result.stderr
    config = yaml.safe_load((workplace / "ragbench.yaml").read_text(encoding="utf-8"))
    assert config["dataset"]["columns"] == {
        "question": "Frage",
        "reference": "Antwort",
        "relevant": "Beste Quelle",
    }
    assert_message(result.stderr)
    assert invoke("ragbench.yaml", command=run_command).exit_code == 0


def test_a_bare_answer_is_what_is_said_of_it(workplace, assert_message):
    write_csv(workplace / "qa.csv", [["question", "answer"], ["Who?", "Galle"]])

    with pytest.raises(DataError) as error:
        invoke("--from", "qa.csv")
    assert_message(error.value, "qa.csv")
    gold = invoke("--from", "qa.csv", "-o", "gold.yaml", "--column", "reference=answer")

    assert gold.exit_code == 0
    columns = load_text(workplace / "gold.yaml")["dataset"]["columns"]
    assert columns == {"question": "question", "reference": "answer"}
    with pytest.raises(DataError) as error:
        invoke("--from", "qa.csv", "-o", "made.yaml", "--column", "answer=answer")
    assert_message(error.value, "qa.csv")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("fragen=Frage", "unknown part 'fragen'; allowed: id, question,"),
        ("question", "found 'question', allowed: NAME=VALUE"),
        ("question=", "found 'question=', allowed: NAME=VALUE"),
        ("=Frage", "found '=Frage', allowed: NAME=VALUE"),
        ("question=b", "question has one column: 'a' or 'b'"),
    ],
)
def test_a_wrong_column_is_refused(workplace, column, message):
    write_csv(workplace / "qa.csv", [["a", "b"], ["Who?", "Galle"]])

    result = invoke("--from", "qa.csv", "--column", "question=a", "--column", column)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (workplace / "ragbench.yaml").exists()


def test_columns_need_a_table(workplace, assert_message):
    result = invoke("--column", "question=a")

    assert result.exit_code == 2
    assert_message(result.stderr)


@pytest.mark.parametrize("year", [2024, 2026])
def test_answers_of_trec_rag(workplace, assert_message, year):
    ids = {"run_id": "r1", "topic_id": "t1", "topic": "When did it open?"}
    if year == 2026:
        metadata = {"run_id": "r1", "narrative_id": "rag2026-1", "narrative": "When?"}
        ids = {"metadata": {**metadata, "run_desc": "BM25"}}
    sentences = [{"text": "It opened in 1932.", "citations": [0]}]
    row = {**ids, "references": ["doc_1"], "answer": sentences}
    (workplace / "run.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    result = invoke("--from", "run.jsonl")

    assert_message(result.stderr)
    assert yaml.safe_load((workplace / "ragbench.yaml").read_text())["dataset"] == {
        "type": "trec_rag",
        "answers": "run.jsonl",
    }
    result = invoke("ragbench.yaml", "-q", command=run_command)
    assert result.exit_code == 0
    assert "words_over_limit: r1 has 0.00" in result.stdout


def test_answers_from_passages_without_gold_get_a_judge(workplace, assert_message):
    rows = [["question", "contexts", "answer", "human"], ["Who?", "Ann did.", "Ann", "5"]]
    write_csv(workplace / "qa.csv", rows)

    result = invoke("--from", "qa.csv")

    assert_message(result.stderr)
    config = load_config("ragbench.yaml")
    assert [*(config.metrics.judges or {})] == ["openai"]


def test_a_part_that_has_a_column_is_suggested_for_no_other(workplace, assert_message):
    names = ["question", "response", "reference", "score", "passage"]
    rows = [names, ["Who called?", "Ann called.", "Ann", "5", "Ann called the office at noon."]]
    write_csv(workplace / "qa.csv", rows)
    assert_message(invoke("--from", "qa.csv").stderr)
    rows = [row[:-1] for row in rows]
    write_csv(workplace / "qa.csv", rows)
    assert_message(invoke("--from", "qa.csv", "--force").stderr)


@pytest.mark.parametrize(
    ("further", "named"),
    [
        ([], []),
        (["reason"], []),  # of a table with failed candidates
        (["comment", "reviewed"], []),  # of the review page
        (["topic"], ["topic"]),  # of the user
    ],
)
def test_columns_of_made_questions_are_known(workplace, further, named):
    (workplace / "docs").mkdir(exist_ok=True)
    (workplace / "docs" / "a.txt").write_text("A berth costs forty euro a night.")
    row = dict.fromkeys([*COLUMNS, *further], "word")
    row |= {"id": "q-1", "question": "What does a berth cost?", "reference": "", "keep": "yes"}
    row |= {"relevant": "a.txt", "quote": "A berth costs forty euro", "reviewed": "yes"}
    row = {name: row[name] for name in [*COLUMNS, *further]}
    (workplace / "q.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")

    result = invoke("--from", "q.csv", "--corpus", "docs")

    assert result.exit_code == 0
    told = [line for line in result.stderr.splitlines() if "not recognised" in line]
    assert len(told) == len(named)
    assert all(f": {name} (" in line for name, line in zip(named, told, strict=True))
