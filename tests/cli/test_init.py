"""`ragbench init`: what it writes runs, or says what is missing."""

import csv
import json

import pytest
import pytrec_eval
import yaml
from click.testing import CliRunner

from ragbench import read_qrels, read_run
from ragbench.cli.configs import init, validate
from ragbench.cli.run import command as run_command
from ragbench.config.load import load_config
from ragbench.data.files.fields import content_id
from ragbench.errors import ConfigError, DataError
from tests.lazy import Lazy

rouge_scorer = Lazy("rouge_score.rouge_scorer")

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments, command=init):
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


def test_a_config_for_a_folder(here):
    result = invoke()

    assert result.exit_code == 0
    assert result.stdout == "wrote ragbench.yaml\n"
    assert "put your data into dataset" in result.stderr
    with pytest.raises(ConfigError) as caught:
        load_config("ragbench.yaml")
    [problem] = caught.value.problems
    assert problem.found == "no such file: dataset", "all that is missing is the data"
    (here / "dataset").mkdir()
    assert list(load_config("ragbench.yaml").retrievers) == ["bm25"]


def test_never_overwrites_the_file_of_records(here):
    write_csv(here / "qa.csv", [["question", "reference"], ["Who?", "Galle"]])

    result = invoke("--from", "qa.csv", "--force", "qa.csv")

    assert result.exit_code == 2
    assert "is the table; choose another" in result.stderr
    assert (here / "qa.csv").read_text(encoding="utf-8").startswith("question")


def test_never_overwrites_without_force(here):
    (here / "mine.yaml").write_text("precious\n", encoding="utf-8")

    result = invoke("mine.yaml")

    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (here / "mine.yaml").read_text(encoding="utf-8") == "precious\n"
    assert invoke("mine.yaml", "--force").exit_code == 0
    assert load_text(here / "mine.yaml")["dataset"]["type"] == "beir"


def load_text(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_records_with_answers_run_at_once(here):
    (here / "data").mkdir()
    write_csv(
        here / "data" / "qa log.csv",
        [
            ["Question", "answer", "contexts", "ground_truth", "topic"],
            ["Who wrote it?", "Ann wrote it.", json.dumps(["Ann wrote it in 1999."]), "Ann", "x"],
            ["When?", "In 1999.", json.dumps(["Ann wrote it in 1999."]), "1999", "y"],
        ],
    )

    result = invoke("configs/qa.yaml", "--from", "data/qa log.csv")

    assert result.exit_code == 0
    dataset = load_text(here / "configs" / "qa.yaml")["dataset"]
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


def test_records_without_answers_need_a_corpus(here):
    write_csv(here / "qa.csv", [["question", "reference"], ["Who?", "Ann"]])

    result = invoke("--from", "qa.csv")

    assert "put the documents that answer the questions into dataset.corpus" in result.stderr
    with pytest.raises(ConfigError, match="no such file: documents"):
        load_config("ragbench.yaml")
    (here / "documents").mkdir()
    (here / "documents" / "a.txt").write_text("Ann wrote it.", encoding="utf-8")
    assert invoke("ragbench.yaml", command=validate).exit_code == 0


def test_an_answer_alone_is_refused_since_it_may_be_gold(here):
    write_csv(here / "qa.csv", [["question", "answer"], ["Who?", "Ann"]])

    with pytest.raises(DataError, match="is the column 'answer' the gold answer"):
        invoke("--from", "qa.csv")
    assert not (here / "ragbench.yaml").exists()


def test_a_response_alone_has_no_gold_and_no_config(here):
    write_csv(here / "qa.csv", [["question", "response"], ["Who?", "Ann"]])

    with pytest.raises(DataError, match="nothing to score") as caught:
        invoke("--from", "qa.csv")

    assert "column reference (gold answers)" in str(caught.value)
    assert not (here / "ragbench.yaml").exists()
    assert invoke("--from", "qa.csv", "--column", "reference=response").exit_code == 0


def test_passages_and_gold_answers_run_at_once(here):
    write_csv(
        here / "ctx.csv",
        [["question", "contexts", "reference"], ["Who?", json.dumps(["Ann did.", "Bo."]), "Bo"]],
    )

    assert invoke("--from", "ctx.csv").exit_code == 0
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert run.exit_code == 0
    [system] = json.loads(run.stdout)["systems"]
    means = {name: score["mean"] for name, score in system["scores"].items()}
    assert means == {"found@5": 1, "answer_hit@5": 1, "answer_hit@1": 0, "answer_hit@10": 1}


def test_a_file_without_questions(here):
    write_csv(here / "qa.csv", [["a", "b"], ["1", "2"]])

    with pytest.raises(DataError, match=r"qa\.csv: no column with the question"):
        invoke("--from", "qa.csv")
    assert not (here / "ragbench.yaml").exists()


def test_a_file_that_is_not_there(here):
    with pytest.raises(DataError, match=r"qa\.csv"):
        invoke("--from", "qa.csv")


@pytest.mark.parametrize("column", ["no", "a: b", "ä 'x'", "${X}", "1", 'say "q"', "#"])
def test_odd_column_names_survive(here, column):
    (here / "qa.jsonl").write_text(
        json.dumps({"question": "q", "answer": "a", "contexts": ["c"], "reference": "r"}) + "\n",
        encoding="utf-8",
    )
    name = here / "qa.yaml"
    invoke("qa.yaml", "--from", "qa.jsonl")
    from ragbench.config.scaffold import _scalar

    text = name.read_text(encoding="utf-8").replace("answer: answer", f"answer: {_scalar(column)}")
    name.write_text(text, encoding="utf-8")

    assert load_config(name).dataset.options["columns"]["answer"] == column


@pytest.fixture
def table(here, repository):
    """60 questions of the example collection with answers and gold files, and a folder of these."""
    example = repository / "datasets" / "example"
    lines = {
        name: [json.loads(line) for line in (example / name).read_text("utf-8").splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl", "answers.jsonl")
    }
    (here / "docs").mkdir()
    for each in lines["corpus.jsonl"]:
        text = f"# {each['title']}\n\n{each['text']}\n"
        (here / "docs" / f"{each['_id']}.md").write_text(text, encoding="utf-8")
    gold = read_qrels(example / "qrels" / "test.tsv").to_dict()
    answers = {each["query_id"]: each["answers"][0] for each in lines["answers.jsonl"]}
    rows = [
        {
            "question": each["text"],
            "answer": answers[each["_id"]],
            "source document": [f"{d}.md" for d, grade in gold[each["_id"]].items() if grade > 0],
        }
        for each in lines["queries.jsonl"]
        if each["_id"] in answers and any(grade > 0 for grade in gold.get(each["_id"], {}).values())
    ]
    return rows[:60]


def write_table(rows, path):
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        written = [[*row.values()] for row in rows]
        cells = [[q, a, "; ".join(gold)] for q, a, gold in written]
        write_csv(path, [list(rows[0]), *cells])


def test_a_table_and_a_folder_run_at_once(here, table):
    """The scores are those that pytrec_eval and rouge-score give for what was found."""
    write_table(table, here / "qa.parquet")
    write_table(table, here / "qa.csv")
    written = []
    for name in ("qa.parquet", "qa.csv"):
        done = invoke("--from", name, "--corpus", "docs/", "--force")
        assert done.exit_code == 0
        written.append((here / "ragbench.yaml").read_text("utf-8").replace(name, "TABLE"))
    assert written[0] == written[1]
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert run.exit_code == 0, run.output
    summary = json.loads(run.stdout)
    scores = {each["name"]: each["scores"] for each in summary["systems"]}
    assert list(scores) == ["bm25", "bm25/extractive"]
    qrels = {content_id(row["question"]): dict.fromkeys(row["source document"], 1) for row in table}
    folder = here / "runs" / "ragbench" / summary["timing"]["run_id"]
    found = read_run(folder / "rankings" / "bm25.trec").to_dict()
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.10", "map"})
    expected = oracle.evaluate(found).values()
    assert len(found) >= 55, "a query that finds nothing has no row in the file: it counts as 0"
    for measure, theirs in {"ndcg@10": "ndcg_cut_10", "recall@10": "recall_10"}.items():
        mean = sum(each[theirs] for each in expected) / 60
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


def test_the_users_own_app_is_the_second_system(here, table):
    """The lines of the app run once their # are away, and the first line of the result is on it."""
    write_table(table[:20], here / "qa.csv")
    (here / "myapp.py").write_text("def answer(question):\n    return 'no idea'\n", "utf-8")
    invoke("--from", "qa.csv", "--corpus", "docs")
    config = here / "ragbench.yaml"
    text = config.read_text("utf-8").replace("# apps:", "apps:").replace("#   mychain", "  mychain")
    config.write_text(text, "utf-8")

    run = invoke("ragbench.yaml", "--quiet", command=run_command)

    assert list(load_config(config).apps) == ["mychain"]
    assert run.stdout.startswith("mychain answers 0 of 20 questions; lost: "), run.output


def test_what_was_understood_is_said(here, table):
    write_table(table, here / "qa.csv")

    result = invoke("--from", "qa.csv", "--corpus", "docs", "-o", "my qa.yaml")

    assert result.stdout == "wrote my qa.yaml\n"
    assert result.stderr.splitlines()[0] == (
        "note: columns: question = question, relevant = source document (the gold documents), "
        "reference = answer (the gold answer)"
    )
    assert "gold documents are in the corpus" in result.stderr
    assert "column 'answer' is read as the gold answer" in result.stderr
    assert result.stderr.splitlines()[-1] == "next: ragbench run 'my qa.yaml'"


def test_long_documents_are_cut_and_scored_as_documents(here):
    (here / "docs").mkdir()
    for name, word in (("a", "volcano"), ("b", "glacier"), ("c", "desert")):
        text = " ".join(["filler"] * 300 + [word] * 3 + ["filler"] * 300)
        (here / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    write_csv(
        here / "qa.csv",
        [["query", "file"], ["Where is the volcano?", "a"], ["Where is the desert?", "c.md"]],
    )

    invoke("--from", "qa.csv", "--corpus", "docs")
    text = (here / "ragbench.yaml").read_text(encoding="utf-8")
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert "# 3 documents, 603 words in the median: long ones" in text
    assert load_text(here / "ragbench.yaml")["dataset"]["columns"] == {
        "question": "query",
        "relevant": "file",
    }
    systems = {each["name"]: each["scores"] for each in json.loads(run.stdout)["systems"]}
    assert list(systems) == ["chunks"]
    assert systems["chunks"]["hit_rate@1"]["mean"] == 1.0


def test_a_column_with_few_known_documents_is_named(here):
    (here / "docs").mkdir()
    (here / "docs" / "guide.md").write_text("text", encoding="utf-8")
    rows = [["question", "topic"], ["Who?", "Guide"], ["What?", "b"], ["Why?", "c"]]
    write_csv(here / "qa.csv", rows)

    arguments = ("--from", "qa.csv", "--corpus", "docs")
    result = CliRunner().invoke(init, arguments)

    assert (
        "note: 1 of the 3 ids in column 'topic' are in the corpus; if they are the gold documents, "
        "write relevant: topic\n"
    ) in result.stderr
    assert isinstance(result.exception, DataError)
    assert not (here / "ragbench.yaml").exists(), "it would score nothing"
    assert invoke(*arguments, "--column", "relevant=topic").exit_code == 0


def test_gold_that_names_what_metadata_say(here):
    rows = [{"page_content": f"text {n}", "metadata": {"source": f"f{n // 2}"}} for n in range(4)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (here / "chunks.jsonl").write_text(lines, encoding="utf-8")
    write_csv(here / "qa.csv", [["question", "source_doc"], ["text 3", "f1"], ["text 0", "f0"]])

    result = invoke("--from", "qa.csv", "--corpus", "chunks.jsonl")
    run = invoke("ragbench.yaml", "--quiet", "--json", command=run_command)

    assert "gold documents are named by metadata.source of the corpus" in result.stderr
    found = json.loads(run.stdout)["systems"][0]["scores"]["hit_rate@1"]
    assert (found["mean"], found["n"]) == (1.0, 2)


def test_gold_that_the_corpus_does_not_know(here):
    (here / "docs").mkdir()
    (here / "docs" / "guide.md").write_text("text", encoding="utf-8")
    write_csv(here / "qa.csv", [["question", "source_doc"], ["Who?", "guides"], ["What?", "b"]])

    with pytest.raises(DataError) as caught:
        invoke("--from", "qa.csv", "--corpus", "docs")

    assert str(caught.value) == (
        "qa.csv line 2: none of the 2 gold documents of 'source_doc' is in the corpus, such as "
        "'guides'; did you mean 'guide.md'? allowed: ids such as 'guide.md'"
    )
    assert not (here / "ragbench.yaml").exists()


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


def test_gold_that_the_corpus_lacks_in_part_is_named_with_its_row(here, table):
    table[3]["source document"] = ["io-volcano.md"]
    write_table(table, here / "qa.csv")
    invoke("--from", "qa.csv", "--corpus", "docs")

    validated = invoke("ragbench.yaml", command=validate)

    assert (
        "judged documents are not in the corpus, such as 'io-volcano.md' (qa.csv line 5)"
        in validated.stdout
    )


def test_a_table_with_an_empty_column_of_gold_and_blanks_in_its_header(here):
    (here / "docs").mkdir()
    (here / "docs" / "a.md").write_text("Ann wrote it.", encoding="utf-8")
    write_csv(here / "qa.csv", [["question ", " answer", "source_doc"], ["Who?", "Ann", ""]])

    result = invoke("--from", "qa.csv", "--corpus", "docs")

    assert "note: column 'source_doc' is empty in every row and is not used\n" in result.stderr
    columns = load_text(here / "ragbench.yaml")["dataset"]["columns"]
    assert columns == {"question": "question", "reference": "answer"}
    assert invoke("ragbench.yaml", command=validate).exit_code == 0


def test_columns_of_other_names_are_said(here):
    (here / "docs").mkdir()
    (here / "docs" / "d1.md").write_text("Galle sah Neptun.", encoding="utf-8")
    (here / "docs" / "d2.md").write_text("Piazzi sah Ceres.", encoding="utf-8")
    write_csv(
        here / "qa.csv",
        [
            ["Frage", "Antwort", "Beste Quelle"],
            ["Wer sah Neptun?", "Galle", "d1.md"],
            ["Wer sah Ceres?", "Piazzi", "d2.md"],
        ],
    )
    table = ("--from", "qa.csv", "--corpus", "docs")

    with pytest.raises(DataError, match=r"with ragbench init: --column question=NAME"):
        invoke(*table)
    result = invoke(
        *(*table, "--column", "question=Frage", "--column", "reference=Antwort"),
        *("--column", "relevant=Beste Quelle"),
    )

    assert result.exit_code == 0, result.stderr
    written = yaml.safe_load((here / "ragbench.yaml").read_text(encoding="utf-8"))
    assert written["dataset"]["columns"] == {
        "question": "Frage",
        "reference": "Antwort",
        "relevant": "Beste Quelle",
    }
    assert "2 of 2 gold documents are in the corpus" in result.stderr
    assert invoke("ragbench.yaml", command=run_command).exit_code == 0


def test_a_bare_answer_is_what_is_said_of_it(here):
    write_csv(here / "qa.csv", [["question", "answer"], ["Who?", "Galle"]])

    with pytest.raises(DataError, match="--column reference=answer"):
        invoke("--from", "qa.csv")
    gold = invoke("--from", "qa.csv", "-o", "gold.yaml", "--column", "reference=answer")

    assert gold.exit_code == 0
    columns = load_text(here / "gold.yaml")["dataset"]["columns"]
    assert columns == {"question": "question", "reference": "answer"}
    with pytest.raises(
        DataError, match=r"nothing to score \(columns: .*answer = answer\): no gold"
    ):
        invoke("--from", "qa.csv", "-o", "made.yaml", "--column", "answer=answer")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("fragen=Frage", "unknown part 'fragen'; allowed: id, question,"),
        ("question", "found 'question', allowed: NAME=VALUE"),
        ("question=", "found 'question=', allowed: NAME=VALUE"),
        ("=Frage", "found '=Frage', allowed: NAME=VALUE"),
        ("question=b", "question has one column: 'a' or 'b'"),
    ],
)
def test_a_wrong_column_is_refused(here, column, said):
    write_csv(here / "qa.csv", [["a", "b"], ["Who?", "Galle"]])

    result = invoke("--from", "qa.csv", "--column", "question=a", "--column", column)

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not (here / "ragbench.yaml").exists()


def test_columns_need_a_table(here):
    result = invoke("--column", "question=a")

    assert result.exit_code == 2
    assert "--column needs --from TABLE" in result.stderr
