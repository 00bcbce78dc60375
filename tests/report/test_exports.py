"""Results of a run in other tools, as `ragbench report` writes and sends them."""

import csv
import io
import json
import re
import runpy
import shutil
import sys
from collections import Counter
from math import isnan

import pytest
from msgspec import structs

import ragbench as rb
from ragbench.data.runs.run_folder import read_comparisons, read_summary
from ragbench.report.export.mlflow import metric_names
from ragbench.report.export.otel import read_trace_id
from ragbench.report.formats import FORMATS, render
from ragbench.report.formats.base import Screen
from ragbench.report.formats.latex import Latex
from ragbench.report.results import score_report
from tests.commands import run_command
from tests.messages import lines_with
from tests.test_integrations import files, output_lines
from tests.test_services_page import programs_by_name

# the ids of OpenTelemetry: 16 bytes in hexadecimal digits
TRACES = {
    "0af7651916cd43dd8448eb211c80319c": ("Which moon is hot?", "Io is hot."),
    "1bf7651916cd43dd8448eb211c80319c": ("Which moon is icy?", "Europa is made of gold."),
    "2cf7651916cd43dd8448eb211c80319c": ("Which moon is large?", None),
}
DOCUMENTS = {"io": "Io is hot.", "europa": "Europa is icy.", "ganymede": "Ganymede is large."}
GOLD = dict(zip((question for question, _ in TRACES.values()), DOCUMENTS, strict=True))


def spans():
    """The rows of an OpenInference export: each trace retrieves `io` alone; one call failed."""
    for trace, (question, answer) in TRACES.items():
        root = {"input.value": question} | ({} if answer is None else {"output.value": answer})
        hit = {"document.id": "io", "document.content": DOCUMENTS["io"]}
        documents = {f"retrieval.documents.0.{key}": value for key, value in hit.items()}
        # the second span is a child of the first
        for number, kind, values in ((1, "CHAIN", root), (2, "RETRIEVER", documents)):
            yield {
                "name": kind.lower(),
                "context": {"trace_id": trace, "span_id": str(number)},
                "parent_id": None if number == 1 else "1",
                "status_code": "ERROR" if answer is None and number == 1 else "OK",
                "status_message": "no server" if answer is None and number == 1 else "",
                "attributes": {"openinference.span.kind": kind, **values},
            }


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run over traces, with a judge, a failed answer and a retriever beside."""
    folder = tmp_path_factory.mktemp("exports")
    gold = ({"question": q, "relevant": [d], "reference": DOCUMENTS[d]} for q, d in GOLD.items())
    config = {
        "name": "moons",
        "dataset": {
            "type": "traces",
            "path": write_lines(folder / "traces.jsonl", spans()),
            "gold": write_lines(folder / "gold.jsonl", gold),
            "corpus": write_lines(
                folder / "corpus.jsonl", ({"_id": d, "text": t} for d, t in DOCUMENTS.items())
            ),
        },
        "retrievers": {"bm25": {"type": "bm25"}},
        "metrics": {
            "retrieval": {"top_k": 2, "measures": ["mrr", "precision(rel=1)@2"]},
            "generation": ["rouge1", "bleu.corpus"],
            "judge": {"type": "python:tests.words:Words", "rubrics": ["faithfulness"]},
        },
        # one of three answers failed, which must not end the run
        "max_failed": 1.0,
        "output": str(folder / "runs"),
        "cache": str(folder / "cache"),
    }
    return rb.run_experiment(config).path


@pytest.fixture(scope="module")
def summary(run):
    return read_summary(run)


def report(run, *arguments, code=0, env=None):
    """Return the stdout and stderr of the command."""
    done = run_command("report", run, *arguments, cwd=run.parent, env=env)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def send(run, url, code=0, **variables):
    # the variables that every exporter of OpenTelemetry reads
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": "1", **variables}
    return report(run, "--to", "otel", code=code, env=env)


def test_csv_has_every_score_with_all_digits(run, summary):
    out, _ = report(run, "--format", "csv")

    rows = list(csv.DictReader(io.StringIO(out)))
    expected = {(s.name, name): e for s in summary.systems for name, e in s.scores.items()}
    assert [(row["system"], row["score"]) for row in rows] == list(expected)
    for row in rows:
        score = expected[row["system"], row["score"]]
        assert float(row["mean"]) == score.mean
        # equal floats: CSV has all digits, unlike the tables
        assert [float(row["low"]), float(row["high"])] == list(score.interval)
        assert (int(row["n"]), int(row["n_failed"])) == (score.n, score.n_failed)
        assert row["signature"] == score.signature


def test_markdown_and_latex_have_mean_and_interval_of_each_cell(
    run, summary, tmp_path, assert_message
):
    markdown, _ = report(run, "--format", "markdown")
    printed, _ = report(run, "--format", "latex", "-o", tmp_path / "scores.tex")

    latex = (tmp_path / "scores.tex").read_text(encoding="utf-8")
    assert printed == f"latex: {tmp_path / 'scores.tex'}\n"
    # by hand: `io` is first for its own question, and gold of none of the two others; the
    # interval is Wilson's for 1 of 3
    assert_message(lines_with(markdown, "0.333 = [0.0615, 0.792]"))
    assert_message(lines_with(latex, "given & 0.333$^{=}$"))
    assert "vs " not in markdown
    tables = re.findall(r"\\begin{tabular}{(l+)}\n\\toprule\n(.*?)\\bottomrule", latex, re.DOTALL)
    assert len(tables) == len({score.kind for s in summary.systems for score in s.scores.values()})
    for columns, body in tables:
        lines = body.replace("\\midrule\n", "").splitlines()
        assert all(line.count(" & ") == len(columns) - 1 for line in lines)
        assert all(line.endswith(r" \\") for line in lines)


def wide_report(summary, run):
    """Scores of one system by five measures."""
    system = summary.systems[0]
    scores = {f"mrr@{k}": system.scores["mrr"] for k in range(1, 6)}
    wide = structs.replace(summary, systems=(structs.replace(system, scores=scores),))
    return score_report(wide, structs.replace(read_comparisons(run), measures=()))


@pytest.mark.parametrize(
    ("options", "columns"),
    [({}, ["llllll"]), ({"columns": 3}, ["llll", "lll"]), ({"plain": True}, ["lrrrrr"])],
)
def test_a_latex_table_has_all_measures_or_as_many_as_columns_says(options, columns, summary, run):
    latex = Latex(**options).render(wide_report(summary, run), Screen())

    tables = re.findall(r"\\begin{tabular}{(\w+)}\n\\toprule\n(.*?)\\bottomrule", latex, re.DOTALL)
    assert [letters for letters, _ in tables] == columns
    for letters, body in tables:
        heads, _, *rows = body.splitlines()
        assert {line.count(" & ") for line in (heads, *rows)} == {len(letters) - 1}
    assert [f"mrr@{k}" in latex for k in range(1, 6)] == [True] * 5
    assert ("scriptsize" in latex) == ("plain" not in options)
    # a table is scaled, and closes the box, only if it is wider than a page
    n_scaled = latex.count(r"\resizebox{\linewidth}{!}{%")
    assert n_scaled == latex.count(r"\end{tabular}}") == (not options)
    assert ("graphicx" in latex) == bool(n_scaled)
    assert latex.count("{") == latex.count("}")


def test_caption_and_label_of_a_latex_table(summary, run):
    latex = Latex(caption="50 % of A_1", label="tab:a_1", columns=3)

    lines = latex.render(wide_report(summary, run), Screen()).splitlines()

    captions = [line for line in lines if line.startswith(r"\caption")]
    assert captions == [r"\caption{50 \% of A\_1}", r"\caption{50 \% of A\_1, continued.}"]
    labels = [line for line in lines if line.startswith(r"\label")]
    assert labels == [r"\label{tab:a_1}", r"\label{tab:a_1-2}"]


def test_the_command_prints_the_measures_that_it_names(run):
    options = ("--format", "latex", "--plain", "--caption", "Scores", "--label", "tab:s")
    out, _ = report(run, "-m", "mrr", *options)

    heads = [line for line in out.splitlines() if line.startswith("system")]
    assert heads == [r"system & mrr \\"]
    assert out.count(r"\caption{Scores}") == out.count(r"\label{tab:s}") == 1
    assert "scriptsize" not in out


@pytest.mark.parametrize(
    "options",
    [
        ("--format", "latex", "-m", "nope"),
        ("-m", "mrr"),
        ("--format", "csv", "--plain"),
        ("--format", "latex", "--label", "a%b"),
    ],
)
def test_options_of_a_table_that_do_not_fit_are_refused(options, run, assert_message):
    _, err = report(run, *options, code=2)

    assert_message(err.splitlines()[-1])


def test_only_a_sure_best_is_bold(run, summary, assert_message):
    # bm25 finds each gold document first; three questions cannot show that this is better.
    latex = render(score_report(summary, read_comparisons(run)), "latex")

    assert_message(lines_with(latex, "bm25 & 1.00$^{=}$"))
    assert r"\textbf" not in latex


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_without_scores(form, run, summary):
    systems = tuple(structs.replace(system, scores={}) for system in summary.systems)
    bare = structs.replace(summary, systems=systems)
    text = render(score_report(bare, read_comparisons(run)), form)

    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "latex,csv"], f"latex,csv: allowed: {', '.join(FORMATS)}"),
        (["--format", "csv", "--brief"], "--format csv takes one RUN alone"),
        (["--format", "csv", "--figures", "f"], "--format csv takes one RUN alone"),
        (
            ["--to", "otel", "--format", "csv"],
            "--to takes one RUN, without -o, --brief, --figures and --format",
        ),
        (["--to", "mlflow", "."], "--to takes one RUN"),
        (["--to", "otel", "-o", "x.json"], "--to takes one RUN, without -o"),
    ],
)
def test_options_that_do_not_go_together(run, arguments, message):
    _, error = report(run, *arguments, code=2)

    assert message in error


@pytest.fixture
def collector():
    """The class of the collector, where the extra `otel` is installed."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from tests.report.collector import Collector

    return Collector


def test_a_collector_gets_each_score_of_each_question(run, summary, collector, assert_message):
    from tests.report.collector import attributes

    variables = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cr3t-word,x-team=moons",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }
    with collector() as server:
        out, err = send(run, server.url, **variables)

    scores = {(s.name, name): e for s in summary.systems for name, e in s.scores.items()}
    events = [(record, attributes(record)) for record in server.records]
    sent = Counter(
        (e["ragbench.query_id"], e["ragbench.system"], e["gen_ai.evaluation.name"])
        for _, e in events
    )
    assert sent == Counter((trace, *key) for trace in TRACES for key in scores)
    assert_message(out)
    columns = rb.load_experiment(run).per_query
    for record, event in events:
        system, name = event["ragbench.system"], event["gen_ai.evaluation.name"]
        query = event["ragbench.query_id"]
        assert record.event_name == "gen_ai.evaluation.result"
        assert record.trace_id.hex() == (query if system == "given" else "")
        assert event["gen_ai.evaluation.evaluator.version"] == scores[system, name].signature
        value = columns[system][name][query]
        assert event.get("gen_ai.evaluation.score.value", "none") == (
            "none" if isnan(value) else value
        )
    [(path, headers)] = server.headers
    assert (path, headers["authorization"]) == ("/v1/logs", "Bearer s3cr3t-word")
    assert "s3cr3t" not in out + err
    assert server.resources[0]["service.name"] == "ragbench"
    assert server.resources[0]["deployment.environment"] == "test"


def test_the_level_of_a_verdict_is_the_label(run, collector, tmp_path):
    from tests.report.collector import attributes

    copied = shutil.copytree(run, tmp_path / "run")
    path = copied / "judgements" / "given.jsonl"
    rows = [json.loads(line) | {"level": 3.0} for line in path.read_text("utf-8").splitlines()]
    write_lines(path, rows)
    with collector() as server:
        send(copied, server.url)

    labels = {
        (event["gen_ai.evaluation.name"], event["gen_ai.evaluation.score.label"])
        for event in map(attributes, server.records)
        if event["ragbench.query_id"] == next(iter(TRACES))
    }
    assert ("faithfulness", "level 3") in labels
    assert ("rouge1", "scored") in labels


def test_events_have_reasons_and_failures(run, collector, assert_message):
    # A failed answer has the cause and no number; the judge's reason is the explanation.
    from tests.report.collector import attributes

    with collector() as server:
        send(run, server.url)

    events = {
        (e["ragbench.query_id"], e["gen_ai.evaluation.name"]): e
        for e in map(attributes, server.records)
        if e["ragbench.system"] == "given"
    }
    hot, icy, failed = TRACES
    assert events[hot, "faithfulness"]["gen_ai.evaluation.score.value"] == 1.0
    assert events[hot, "faithfulness"]["gen_ai.evaluation.score.label"] == "scored"
    explanation = events[icy, "faithfulness"]["gen_ai.evaluation.explanation"]
    assert explanation == "0 of 3 words found"
    explanation = events[hot, "mrr"]["gen_ai.evaluation.explanation"]
    assert_message(explanation)
    for name in ("faithfulness", "rouge1"):
        event = events[failed, name]
        assert "gen_ai.evaluation.score.value" not in event
        assert event["gen_ai.evaluation.score.label"] == "failed"
        assert event["error.type"] == event["ragbench.cause"]
        assert "no server" in event["gen_ai.evaluation.explanation"]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ((401, "text/plain", b"bad key s3cr3t-word"), "answered 401 Unauthorized"),
        ((302, "text/plain", b""), "answered 302 Found"),
        ((200, "text/html", b"<html>"), "answered with no message of OTLP"),
        ((200, "application/x-protobuf", b"\xff\xff"), "answered with no message of OTLP"),
        (
            (200, "application/json", b'{"partialSuccess": {"rejectedLogRecords": "4"}}'),
            "rejected 4 scores of a request",
        ),
        ((200, "application/x-protobuf", b"\n\x04\x08\x03\x12\x00"), "rejected 3 scores"),
    ],
)
def test_a_collector_that_refuses_is_an_error(run, collector, reply, problem):
    with collector(reply) as server:
        out, err = send(run, server.url, code=2)

    assert out == ""
    [line] = err.splitlines()
    assert line.startswith(f"the OTLP collector {server.url}/v1/logs {problem}")
    assert "; 0 of " in line
    assert "s3cr3t" not in line


def test_scores_that_were_taken_before_an_error_are_counted(
    run, collector, monkeypatch, assert_message
):
    monkeypatch.setattr("ragbench.report.export.otel._BATCH", 4)
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    shutdown, closed = OTLPLogExporter.shutdown, []
    monkeypatch.setattr(
        OTLPLogExporter, "shutdown", lambda self: (closed.append(True), shutdown(self))
    )
    accepted = (200, "application/json", b"{}")
    with collector(accepted, accepted, (400, "text/plain", b"")) as server:
        _, err = send(run, server.url, code=2)

    assert_message(err)
    assert closed == [True]
    assert_message(err)


def test_a_collector_that_cannot_be_reached_ends_with_7(run, collector, assert_message):
    with collector() as server:
        pass  # the port is free again

    url = server.url.replace("//", "//me:s3cr3t-word@")
    _, err = send(run, url, code=7, OTEL_EXPORTER_OTLP_TIMEOUT="0.1")

    assert_message(err)
    assert "s3cr3t" not in err


def test_another_protocol_is_refused(run, collector, assert_message):
    _, err = send(run, "http://127.0.0.1:9", code=2, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")

    assert_message(err)


@pytest.mark.parametrize(
    ("of_logs", "of_all", "code"),
    [("http/protobuf", "grpc", 0), ("", "http/protobuf", 0), ("", "", 0), ("", "grpc", 2)],
)
def test_the_protocol_of_logs_comes_first_and_an_empty_one_is_none(
    run, collector, of_logs, of_all, code
):
    protocols = {
        "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": of_logs,
        "OTEL_EXPORTER_OTLP_PROTOCOL": of_all,
    }
    with collector() as server:
        send(run, server.url, code=code, **protocols)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0AF7651916CD43DD8448EB211C80319C", 0x0AF7651916CD43DD8448EB211C80319C),
        ("0x0af7651916cd43dd8448eb211c80319c", 0x0AF7651916CD43DD8448EB211C80319C),
        ("tr-0af7651916cd43dd8448eb211c80319c", 0x0AF7651916CD43DD8448EB211C80319C),
        ("0af76519-16cd-43dd-8448-eb211c80319c", 0x0AF7651916CD43DD8448EB211C80319C),
        ("0af7651916cd43dd", 0),
        ("q1", 0),
        ("", 0),
    ],
)
def test_ids_of_traces(text, number):
    assert read_trace_id(text) == number


@pytest.mark.parametrize(
    ("tool", "package", "advice"),
    [
        ("otel", "opentelemetry", "pip install 'ragbench-eval[otel]'"),
        ("mlflow", "mlflow", "pip install mlflow"),
    ],
)
def test_a_missing_package_is_named(run, monkeypatch, tool, package, advice):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    _, err = report(run, "--to", tool, code=2)

    assert err.startswith(f"report --to {tool} needs ")
    assert err.endswith(f": {advice}\n")


def test_names_are_those_that_mlflow_takes_and_never_equal():
    scores = ["ndcg@10", "NDCG@10", "f(a)", "f[a]", "f_a", "@", "x" * 300, "x" * 301, "f.low"]

    names = metric_names(scores)

    assert list(names) == scores
    assert len({name.casefold() for name in names.values()}) == len(scores)
    assert all(re.fullmatch(r"[\w.-]{1,230}", name) for name in names.values())
    assert names["f.low"] == "f.low"
    # a name does not depend on the order of the scores
    assert metric_names(scores[::-1]) == names


@pytest.fixture(scope="module")
def mlflow_folder(tmp_path_factory):
    """The folder of a store of MLflow, `mlflow.db`, which the first test that runs creates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        pytest.importorskip("mlflow", reason="MLflow is the user's own package")
        pytest.importorskip("alembic", reason="a SQLite store needs all of MLflow")
        yield tmp_path_factory.mktemp("mlflow")


@pytest.fixture
def store(mlflow_folder, monkeypatch):
    """The address of that store, whose folder is the working directory."""
    uri = f"sqlite:///{mlflow_folder / 'mlflow.db'}"
    monkeypatch.chdir(mlflow_folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages of MLflow
@pytest.mark.parametrize(
    ("read_programs", "imported", "name"),
    [
        pytest.param(files, "bridge.py", "mlflow_scores.py", id="integrations.md"),
        pytest.param(programs_by_name, "quality.py", "mlflow_feedback.py", id="services.md"),
    ],
)
def test_the_program_of_a_page_on_mlflow_prints_what_the_page_says(
    repository, mlflow_folder, store, monkeypatch, capsys, read_programs, imported, name
):
    import mlflow

    texts = read_programs(repository)
    for file in (imported, name):
        (mlflow_folder / file).write_text(texts[file], encoding="utf-8")
    monkeypatch.syspath_prepend(mlflow_folder)
    runpy.run_path(name, run_name="__main__")
    mlflow.set_tracking_uri(None)

    expected = output_lines(texts[name])
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line in expected] == expected, printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages of MLflow
def test_mlflow_has_a_run_per_system_and_nothing_behind_a_link(run, summary, tmp_path, store):
    from mlflow.tracking import MlflowClient

    copied = shutil.copytree(run, tmp_path / "run")
    (tmp_path / "private").write_text("not for MLflow", encoding="utf-8")
    (copied / "report.html").unlink()
    (copied / "report.html").symlink_to(tmp_path / "private")
    out, _ = report(copied, "--to", "mlflow", env={"MLFLOW_TRACKING_URI": store})

    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("moons")
    runs = {
        tracked.info.run_name: tracked for tracked in client.search_runs([experiment.experiment_id])
    }
    assert out.count("\n") == len(runs) == len(summary.systems)
    for system in summary.systems:
        logged = runs[system.name]
        names = metric_names(system.scores)
        expected = {}
        for name, score in system.scores.items():
            expected[names[name]] = score.mean
            expected[f"{names[name]}/low"], expected[f"{names[name]}/high"] = score.interval
            expected[f"{names[name]}/n"] = score.n
            expected[f"{names[name]}/failed"] = score.n_failed
            expected[f"{names[name]}/not_applicable"] = score.not_applicable
            tags = logged.data.tags
            assert tags[f"ragbench.signature.{names[name]}"] == score.signature
            assert tags[f"ragbench.score.{names[name]}"] == name
        assert logged.data.metrics == expected
        assert logged.info.status == "FINISHED"
        files = {file.path for file in client.list_artifacts(logged.info.run_id)}
        # a link in the place of the page may lead to any file
        assert files == {"summary.json", "manifest.json", "config.yaml", "report.md"}
