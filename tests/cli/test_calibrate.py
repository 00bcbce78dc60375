"""`ragbench calibrate` end to end: run, draw, label, certify."""

import csv
import io
import json
import sys

import pytest
import yaml

from ragbench.cli import main
from ragbench.testing import ChatServer
from tests.calibration.trial import judged
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

PLACES = ["Oslo", "Bergen", "Turku", "Malmo", "Reykjavik", "Tartu", "Aarhus"]


def _records():
    for number in range(30):
        place, year = PLACES[number % len(PLACES)], 1900 + 3 * number
        passage = f"The harbour bridge of {place} was opened in {year} after long work."
        answers = {
            "good": f"The harbour bridge of {place} was opened in {year}.",
            "bad": f"=The bridge of {place} was sold to pirates in {year + 1}.",
        }
        for system, answer in answers.items():
            yield {
                "id": f"q{number}",
                "question": f"When was the bridge of {place} opened, case {number}?",
                "contexts": [passage],
                "answer": answer,
                "system": system,
            }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    return judged(folder, "bridges", _records(), ["context_overlap", "question_overlap"])


@pytest.fixture
def calibrate(run, tmp_path, monkeypatch, capsysbinary):
    """Run `ragbench calibrate RUN` in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, of=run):
        monkeypatch.setattr(sys, "argv", ["ragbench", "calibrate", str(of), *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsysbinary.readouterr()
        return exited.value.code, printed.out.decode("utf-8"), printed.err.decode("utf-8")

    return call


def _label(path, to, by):
    """Fill the labels of a sheet: a function of the row."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with to.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": by(row)} for row in rows)
    return rows


def _truth(row):
    sold = "pirates" in row["answer"]
    return (0 if sold else 1) if row["rubric"] == "context_overlap" else (0.25 if sold else 1)


def _upside_down(row):
    return 5 if "pirates" in row["answer"] else 1


def test_draw_label_certify(calibrate, tmp_path):
    code, out, notes = calibrate("--draw", 50, "-o", "sheet.csv")
    assert (code, out) == (0, "")
    assert (
        "note: 100 rows to label: 50 of context_overlap, 50 of question_overlap; seed 13" in notes
    )

    rows = _label(tmp_path / "sheet.csv", tmp_path / "done.csv", _truth)
    asked = [row["question"] for row in rows if row["rubric"] == "question_overlap"]
    assert all(question.startswith("When was the bridge") for question in asked)
    assert {row["answer"][:2] for row in rows} == {"Th", "'="}
    code, tables, notes = calibrate("--labels", "done.csv", "-o", "judge.json")

    assert code == 0, notes
    assert "note: certificate: judge.json" in notes
    certificate = json.loads((tmp_path / "judge.json").read_text(encoding="utf-8"))
    assert certificate["schema"] == "ragbench.certificate/1"
    assert list(certificate["rubrics"]) == ["context_overlap", "question_overlap"]
    found = certificate["rubrics"]["context_overlap"]
    assert (found["judge"], found["model"]) == ("lexical", "lexical/2")
    assert found["labels"]["random"] is True
    assert found["agreement"]["kappa"]["value"] == 1.0
    assert found["agreement"]["kappa"]["interval"][0] < 0.95, "fifty labels prove no perfection"
    assert found["corrected"]["good"]["status"] == "corrected"
    assert found["rubric_fingerprint"] in found["signature"]
    assert tables.startswith(
        "bridges: context_overlap by judge lexical (lexical/2), against 1 rater"
    )
    for part in ("Spearman's rho", "people / judge", "bias, verbosity", "corrected mean", "lambda"):
        assert part in tables


def test_a_seed_of_0_is_a_seed(calibrate):
    _, _, notes = calibrate("--draw", 20, "--seed", 0)

    assert notes.rstrip().endswith("; seed 0")


def test_the_same_draw_twice_and_another_seed(calibrate):
    one, same, other = (calibrate("--draw", 20, "--seed", seed)[1] for seed in (1, 1, 2))

    assert one == same != other
    assert len(list(csv.reader(io.StringIO(one)))) == 41


def test_the_certificate_is_the_same_file_every_time(calibrate, tmp_path):
    calibrate("--draw", 40, "-o", "sheet.csv")
    _label(tmp_path / "sheet.csv", tmp_path / "done.csv", _truth)

    _, printed, _ = calibrate("--labels", "done.csv", "-o", "one.json", "--json")
    calibrate("--labels", "done.csv", "-o", "two.json")

    one = (tmp_path / "one.json").read_text(encoding="utf-8")
    assert one == (tmp_path / "two.json").read_text(encoding="utf-8") == printed
    assert str(tmp_path) not in one


def test_two_raters_and_a_retest(calibrate, run, tmp_path):
    calibrate("--draw", 50, "-o", "sheet.csv", "--rubric", "question_overlap")
    for name, by in (("anna", _truth), ("ben", lambda row: max(_truth(row) - 0.25, 0.25))):
        _label(tmp_path / "sheet.csv", tmp_path / f"{name}.csv", by)

    code, tables, problems = calibrate(
        "--labels", "anna.csv", "--labels", "ben.csv", "--retest", run
    )

    assert code == 0, problems
    assert "against 2 raters: anna:label, ben:label" in tables
    assert "people and people" in tables
    assert "test-retest: 0.00 [0.00, " in tables


def test_whole_queries_of_one_system(calibrate):
    _, text, _ = calibrate("--draw", 5, "--unit", "query", "--rubric", "context_overlap")
    _, single, _ = calibrate("--draw", 5, "--system", "good", "--rubric", "context_overlap")

    assert len(list(csv.DictReader(io.StringIO(text)))) == 10
    rows = list(csv.DictReader(io.StringIO(single)))
    assert [row for row in rows if "pirates" in row["answer"]] == []


def test_one_sheet_certifies_every_judge_of_a_rubric(calibrate, tmp_path):
    judges = {
        name: {"type": "lexical", "rubrics": ["context_overlap"], "language": language}
        for name, language in (("strict", "de"), ("loose", "en"))
    }
    both = judged(tmp_path, "both", _records(), judge=judges)
    calibrate("--draw", 50, "-o", "sheet.csv", of=both)
    rows = _label(tmp_path / "sheet.csv", tmp_path / "done.csv", _truth)

    code, text, problem = calibrate("--labels", "done.csv", "--json", of=both)

    assert (code, len(rows)) == (0, 50), problem
    found = json.loads(text)["rubrics"]
    assert list(found) == ["context_overlap(judge=strict)", "context_overlap(judge=loose)"]
    assert [each["judge"] for each in found.values()] == ["strict", "loose"]
    assert all(each["labels"]["random"] for each in found.values())
    _, text, _ = calibrate(
        "--labels", "done.csv", "--json", "--rubric", "context_overlap(judge=loose)", of=both
    )
    assert list(json.loads(text)["rubrics"]) == ["context_overlap(judge=loose)"]


def test_a_rubric_of_the_users_own_is_found_again(calibrate, tmp_path, repository, monkeypatch):
    source = repository / "ragbench/score/judge/rubrics/faithfulness.yaml"
    rubric = tmp_path / "faithfulness.yaml"
    text = source.read_text(encoding="utf-8").partition("\nsteps:")[0]  # which no judge is shown
    rubric.write_text(text.replace("or do not say it", "or differ twice"), "utf-8")
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    with ChatServer(Script(level=lambda text: 3)) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": [str(rubric)]}
        own = judged(tmp_path, "own", _records(), judge=judge)

    code, _, problem = calibrate("--draw", 5, of=own)
    assert code == 0, problem

    rubric.write_text(rubric.read_text(encoding="utf-8").replace("twice", "thrice"), "utf-8")
    code, _, problem = calibrate("--draw", 5, of=own)
    assert code == 2
    assert "rubric 'faithfulness' is not the one that the judge applied: " in problem


def test_a_labelled_sheet_is_never_overwritten(calibrate, tmp_path):
    (tmp_path / "sheet.csv").write_text("precious", encoding="utf-8")

    code, _, problem = calibrate("--draw", 5, "-o", "sheet.csv")

    assert code == 2
    assert "sheet.csv exists: a new sheet would replace its labels" in problem
    assert (tmp_path / "sheet.csv").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --draw N or --labels FILE"),
        (["--draw", "5", "--labels", "x.csv"], "either --draw N or --labels FILE"),
        (["--draw", "5", "--scale", "1..5"], "--scale is for --labels and"),
        (["--labels", "x.csv", "--seed", "3"], "--seed is for --draw and --probe"),
        (["--draw", "5", "--probe", "position"], "either --draw N or --labels FILE"),
        (["--draw", "5", "--sample", "3"], "--sample is for --probe"),
        (["--draw", "5", "--trust", "http://x"], "--trust is for --probe"),
        (["--probe", "position", "--unit", "query"], "--unit is for --draw"),
        (["--probe", "verbosity"], "'verbosity' is not one of"),
        (["--probe", "position", "--rubric", "contxt_overlap"], "did you mean 'context_overlap'?"),
        (["--draw", "61"], "--draw: found 61, allowed: 1 to 60, the answers with a verdict on"),
        (["--draw", "5", "--rubric", "contxt_overlap"], "did you mean 'context_overlap'?"),
        (["--draw", "5", "--system", "god"], "--system: found 'god', allowed: good, bad; did you"),
        (["--labels", "x.csv"], "x.csv: no such file"),
        (["--labels", "x.csv", "--scale", "five"], "--scale: found 'five', allowed: two different"),
        (["--labels", "x.csv", "--column", "mine"], "--column mine: expected NAME=COLUMN"),
        (["--labels", "x.csv", "--confidence", "95"], "95.0 is not in the range 0<x<1"),
        (["--draw", "5", "-o", "/dev/null/sheet.csv"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(calibrate, arguments, message):
    code, out, problem = calibrate(*arguments)

    assert (code, out) == (2, "")
    assert message in problem
    assert "Traceback" not in problem


def test_a_good_label_is_on_the_scale(calibrate, tmp_path):
    calibrate("--draw", 5, "-o", "sheet.csv", "--rubric", "context_overlap")
    _label(tmp_path / "sheet.csv", tmp_path / "done.csv", _truth)

    code, _, problem = calibrate("--labels", "done.csv", "--good", 4)

    assert code == 2
    assert "--good: found 4.0, allowed: a label on 0..1" in problem


def test_a_run_without_a_judge(calibrate, tmp_path, repository):
    import ragbench as rb

    config = {
        "name": "plain",
        "dataset": {"type": "beir", "path": str(repository / "datasets" / "example")},
        "retrievers": {"bm25": {"type": "bm25"}},
        "output": str(tmp_path / "runs"),
    }
    folder = rb.run_experiment(config).path

    code, _, problem = calibrate("--draw", 5, of=folder)

    assert code == 2
    assert "no verdicts of a judge in this run" in problem


def test_questions_that_changed_since_the_run_are_refused(calibrate, tmp_path):
    records = list(_records())[:20]
    folder = judged(tmp_path, "moving", records)
    path = tmp_path / "moving.jsonl"
    path.write_text(path.read_text().replace("When was", "Why was"), encoding="utf-8")

    code, _, problem = calibrate("--draw", 5, of=folder)

    assert code == 2
    assert "the queries are no longer those of the run: fingerprint" in problem


def test_probes_alone_and_in_the_certificate(calibrate, tmp_path):
    """Word overlap takes an order for one more sentence, and does not obey it."""
    probes = ["--probe", "position", "--probe", "authority", "--probe", "injection"]
    code, tables, notes = calibrate(*probes, "--sample", 40, "-o", "probes.json")

    assert code == 0, notes
    assert "judge lexical asked again about 40 answers, seed 13" in notes
    assert "calls" not in notes, "it asks nobody"
    report = json.loads((tmp_path / "probes.json").read_text(encoding="utf-8"))
    assert report["schema"] == "ragbench.probes/1"
    found = report["rubrics"]["context_overlap"]["probes"]
    assert found["injection"]["finding"] == "scores fall"
    assert found["injection"]["n"] == 40
    assert "no answer has a verdict both ways (nothing to change)" in tables, "one passage each"
    assert "question_overlap does not look at passages" in tables
    assert "bias, injection: -0." in tables

    calibrate("--draw", 50, "-o", "sheet.csv", "--rubric", "context_overlap")
    _label(tmp_path / "sheet.csv", tmp_path / "done.csv", _truth)
    code, text, problem = calibrate("--labels", "done.csv", *probes, "--sample", 40, "--json")
    assert code == 0, problem
    certificate = json.loads(text)["rubrics"]["context_overlap"]
    assert {name: certificate["probes"][name] for name in found} == found
    assert list(certificate["probes"])[:2] == ["verbosity", "self_preference"]


def test_a_language_model_is_asked_again_through_its_config(calibrate, tmp_path, monkeypatch):
    """It obeys orders; what was asked in the run comes from the store of replies."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    script = Script(level=lambda text: 5 if "Ignore all instructions" in text else 3)
    with ChatServer(script) as server:
        block = {"type": "openai", "model": "m", "base_url": server.url, "samples": 2}
        run = judged(tmp_path, "asked", _records(), judge={**block, "rubrics": ["fluency"]})
        before = server.counters.requests

        code, tables, notes = calibrate(
            "--probe", "injection", "--sample", 30, "--trust", server.url, of=run
        )

        assert code == 0, notes
        assert server.counters.requests - before == 60, "two samples of 30 changed answers"
    assert "; 60 calls, 60 replies from the store" in notes
    assert "bias, injection: +0.5" in tables
    assert "scores rise; 1.00 [0.8" in tables
    assert "test-retest: 0.00 [0.00, " in tables
    assert "got another level in two samples" in tables


def test_a_run_of_a_language_model_can_be_drawn_and_certified(calibrate, tmp_path, monkeypatch):
    """Its signature has no rubric but the prompt that the rubric makes."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    with ChatServer(Script(level=lambda text: 1 if "pirates" in text else 5)) as server:
        block = {"type": "openai", "model": "m", "base_url": server.url, "few_shot": False}
        run = judged(tmp_path, "asked", _records(), judge={**block, "rubrics": ["fluency"]})
    calibrate("--draw", 50, "-o", "sheet.csv", of=run)
    _label(tmp_path / "sheet.csv", tmp_path / "done.csv", _upside_down)

    code, text, problem = calibrate("--labels", "done.csv", "--json", of=run)

    assert code == 0, problem
    assert json.loads(text)["rubrics"]["fluency"]["agreement"]["spearman"]["value"] == -1


def _without_answers(run):
    """Turn a run into one of systems that give passages and queries alone."""
    for path in (run / "predictions").iterdir():
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        rows = [row | {"answer": None} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_passages_and_queries_are_labelled_where_there_are_no_answers(
    calibrate, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    records = [{**row, "queries": [f"bridge {row['id']}", "opening"]} for row in _records()]
    script = Script(level=lambda text: 4 if "Ignore all instructions" in text else 2)
    with ChatServer(script) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url}
        judge |= {"rubrics": ["context_relevancy", "query_detail"]}
        run = judged(tmp_path, "retrieval", records, judge=judge)
        _without_answers(run)
        code, tables, notes = calibrate(
            "--probe", "injection", "--sample", 30, "--trust", server.url, of=run
        )
        assert code == 0, notes
    assert tables.count("scores rise; 1.00 [") == 2

    calibrate("--draw", 20, "-o", "sheet.csv", of=run)
    rows = _label(tmp_path / "sheet.csv", tmp_path / "done.csv", lambda row: 2)
    assert {row["answer"] for row in rows} == {""}
    assert len({row["item"] for row in rows}) == 40
    for row in rows:
        of_queries = row["rubric"] == "query_detail"
        assert ("[2] opening" in row["queries"]) is of_queries
        assert ("harbour bridge" in row["passages"]) is not of_queries

    code, text, problem = calibrate("--labels", "done.csv", "--json", of=run)
    assert code == 0, problem
    found = json.loads(text)["rubrics"]
    assert found["query_detail"]["agreement"]["raw"]["value"] == 1
    assert "no answers" in found["query_detail"]["probes"]["verbosity"]["reason"]


def test_a_verdict_without_a_prediction_is_an_item_all_the_same(calibrate, tmp_path):
    run = judged(tmp_path, "bare", _records(), ["context_overlap"])
    for path in (run / "predictions").iterdir():
        path.unlink()

    code, out, notes = calibrate("--draw", 10, of=run)

    assert code == 0, notes
    assert len({row["item"] for row in csv.DictReader(io.StringIO(out))}) == 10


def test_the_samples_of_a_jury_are_compared_within_each_model(calibrate, tmp_path, monkeypatch):
    """One model always says 5, the other 1, then 2: one of the two pairs of each answer differs."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))

    def script(body, times_asked):
        level = 5 if body["model"] == "kind" else 1 + body["seed"] % 2
        return json.dumps({"reasoning": "so", "level": level})

    with ChatServer(script) as server:
        judge = {"type": "openai", "models": ["kind", "harsh"], "base_url": server.url}
        judge |= {"samples": 2, "seed": 4, "rubrics": ["fluency"]}
        run = judged(tmp_path, "jury", _records(), judge=judge)
        asked = ["--probe", "authority", "--sample", 5, "--trust", server.url]
        code, text, notes = calibrate(*asked, "--json", of=run)

    assert code == 0, notes
    found = json.loads(text)["rubrics"]["fluency"]["retest"]
    assert (found["flip_rate"], found["n"]) == (0.5, 60)


@pytest.mark.parametrize(
    ("trusted", "asks"),
    [
        pytest.param([], False, id="nobody said so"),
        pytest.param(["{url}"], True, id="the address"),
        pytest.param(["{url}/"], True, id="with a slash"),
        pytest.param(["{origin}"], True, id="the server"),
        pytest.param(["{origin}/v"], False, id="the start of a word"),
        pytest.param(["https://api.openai.com/v1"], False, id="another one"),
    ],
)
def test_a_key_goes_to_no_address_that_only_a_run_folder_names(
    calibrate, tmp_path, monkeypatch, trusted, asks
):
    """The judge's address was changed in the folder: whose it is, only the user can say."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-users-own-key")
    with ChatServer(Script(level=3)) as server, ChatServer(Script(level=3)) as foreign:
        block = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["fluency"]}
        run = judged(tmp_path, "asked", _records(), judge=block)
        config = run / "config.yaml"
        config.write_text(config.read_text("utf-8").replace(server.url, foreign.url), "utf-8")
        origin = foreign.url.removesuffix("/v1")
        options = [
            word
            for text in trusted
            for word in ("--trust", text.format(url=foreign.url, origin=origin))
        ]

        code, _, problem = calibrate("--probe", "injection", "--sample", 3, *options, of=run)

        assert (foreign.counters.requests > 0) is asks
    assert code == (0 if asks else 2), problem
    if not asks:
        assert f"judge 'openai' would ask {foreign.url}, an address from the run folder" in problem
        assert "with the key in OPENAI_API_KEY" in problem
        assert f"allowed: --trust {foreign.url}, if it is yours" in problem
        assert "sk-the-users" not in problem


@pytest.mark.parametrize(
    ("change", "trusted", "asks"),
    [
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, [], False),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, ["OPENAI_API_KEY"], False),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, ["AWS_SECRET_ACCESS_KEY"], True),
        ({"model": "${AWS_SECRET_ACCESS_KEY}"}, [], False),
        ({"extra": {"user": "a ${NOT_SET:-${AWS_SECRET_ACCESS_KEY}}"}}, [], False),
        ({"api_key_env": "NOT_SET"}, [], True),
    ],
)
def test_no_variable_is_sent_that_only_a_run_folder_names(
    calibrate, tmp_path, monkeypatch, change, trusted, asks
):
    """Also where the address is the provider's own, or the one of the user's environment."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-users-own-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-the-users-own-key")
    with ChatServer(Script(level=3)) as server:
        block = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["fluency"]}
        run = judged(tmp_path, "asked", _records(), judge=block)
        config = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
        config["metrics"]["judge"] |= change
        (run / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
        before = server.counters.requests
        options = [word for each in (server.url, *trusted) for word in ("--trust", each)]

        code, _, problem = calibrate("--probe", "injection", "--sample", 3, *options, of=run)

        assert (server.counters.requests > before) is asks
    assert code == (0 if asks else 2), problem
    if not asks:
        named = "AWS_SECRET_ACCESS_KEY, a variable that the run folder names, would be sent"
        assert named in problem
        assert "allowed: --trust AWS_SECRET_ACCESS_KEY, if it is yours" in problem
    assert "aws-the-users" not in problem


def test_systems_are_named_as_their_owner_wrote_them(calibrate, tmp_path):
    """`Original Ground Truth` is `Original-Ground-Truth` in the run that renamed it."""
    names = {"good": "Original Ground Truth", "bad": "org/one, v2"}
    records = [{**row, "system": names[row["system"]]} for row in _records()]
    run = judged(tmp_path, "named", records, ["context_overlap"])
    lines = [f'{row["id"]},"{row["system"]}",{0.5 if row["id"] < "q2" else 1}' for row in records]
    (tmp_path / "labels.csv").write_text("query_id,system,label\n" + "\n".join(lines), "utf-8")

    code, tables, problem = calibrate("--labels", "labels.csv", of=run)
    assert code == 0, problem
    assert "60 answers to 30 queries" in tables

    code, text, problem = calibrate("--draw", 3, "--system", "Original Ground Truth", of=run)
    assert code == 0, problem
    assert "pirates" not in text
    (tmp_path / "labels.csv").write_text("query_id,system,label\nq1,Original Truth,1\n", "utf-8")
    code, _, problem = calibrate("--labels", "labels.csv", of=run)
    assert code == 2
    assert "labels.csv:2: system 'Original Truth' was not judged" in problem
    assert "did you mean 'Original-Ground-Truth'?" in problem
