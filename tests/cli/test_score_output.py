"""Streams, inputs and imports of `ragbench score`."""

import csv
import gzip
import io
import json
import re
import subprocess
import sys

import pytest

from tests.cli.run_files import RUN_A, write_qrels, write_trec
from tests.commands import run_command
from tests.test_public import HEAVY

pytestmark = [pytest.mark.usefixtures("runs"), pytest.mark.slow]


def process(*arguments, **options):
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "ragbench", "score", *map(str, arguments)],
        capture_output=True,
        check=False,
        **options,
    )


@pytest.mark.parametrize("form", ["table", "trec", "json", "csv"])
def test_golden(score, golden, form):
    _, text, _ = score(
        *("qrels", "a.run", "b.run", "-q", "--format", form),
        *("-m", "recip_rank", "-m", "ndcg_cut.1,10", "-m", "num_rel_ret", "-m", "err@5"),
    )

    # the fingerprint of the judgements has its own tests
    golden(f"score_{form}.txt", re.sub(r"qrels:[0-9a-f]{12}", "qrels:FINGERPRINT", text))


def test_no_summary_leaves_the_queries(score):
    arguments = ("qrels", "a.run", "-m", "map", "-q", "-n")

    for form in ("table", "trec", "csv"):
        _, text, _ = score(*arguments, "--format", form)
        assert "q1" in text
        assert "all" not in text
    _, text, _ = score("qrels", "a.run", "-q", "-n", "--format", "trec")
    assert {line.split("\t")[1] for line in text.splitlines()} == {"q1", "q2", "q3"}
    _, text, _ = score(*arguments, "--format", "json")
    assert "scores" not in json.loads(text)["systems"][0]


def test_queries_stand_in_the_order_of_their_bytes(score):
    _, text, _ = score("qrels", "a.run", "-m", "map", "-q", "-c", "--format", "trec")

    assert [line.split("\t")[1] for line in text.splitlines()] == ["q1", "q10", "q2", "q3", "all"]


def test_json_has_the_weight_of_every_number(score):
    _, text, _ = score("qrels", "a.run", "-m", "mrr", "-q", "--format", "json")

    scores = json.loads(text)
    (system,) = scores["systems"]
    assert (scores["schema"], scores["qrels"]) == ("ragbench.scores/1", "qrels")
    assert (system["name"], system["file"]) == ("alpha", "a.run")
    low, high = system["scores"]["mrr"]["interval"]
    assert low < system["scores"]["mrr"]["mean"] < high
    assert system["scores"]["mrr"]["n"] == 3
    assert system["scores"]["mrr"]["not_applicable"] == 1
    assert "missing:skip|no_relevant:zero" in system["scores"]["mrr"]["signature"]
    assert system["counts"]["missing"] == system["counts"]["without_judgements"] == 1
    assert system["per_query"] == {"mrr": {"q1": 1.0, "q2": 0.5, "q3": 0.0}}


def test_csv_has_all_digits(score):
    _, text, _ = score("qrels", "a.run", "b.run", "-m", "mrr", "-m", "ndcg", "--format", "csv")

    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["system"], row["query_id"]) for row in rows] == [("alpha", "all"), ("beta", "all")]
    assert float(rows[0]["mrr"]) == 0.5


def test_notes_say_what_the_means_leave_out(score, assert_message):
    _, text, notes = score("qrels", "a.run", "b.run", "-m", "map", "--format", "csv")

    assert "note" not in text
    assert_message(notes.splitlines())


def test_standard_input_plain_and_gzip(score, means):
    expected = means("qrels", "a.run", "-m", "map", "-m", "mrr")

    for content in (RUN_A.encode(), gzip.compress(RUN_A.encode())):
        code, text, _ = score(
            "qrels", "-", "-m", "map", "-m", "mrr", "--format", "json", stdin=content
        )
        (system,) = json.loads(text)["systems"]
        assert code == 0
        assert (system["name"], system["file"]) == ("alpha", "-")
        assert {name: entry["mean"] for name, entry in system["scores"].items()} == expected


def test_gzip_files(runs, score):
    plain = score("qrels", "a.run", "-m", "map")
    for name in ("qrels", "a.run"):
        (runs / f"{name}.gz").write_bytes(gzip.compress((runs / name).read_bytes()))

    assert score("qrels.gz", "a.run.gz", "-m", "map") == plain


def test_runs_of_one_tag_are_named_by_their_file(runs, score):
    (runs / "c.run").write_text(RUN_A)

    _, text, _ = score("qrels", "a.run", "c.run", "-m", "map")

    assert text.splitlines()[0].split() == ["measure", "a.run", "c.run"]
    for more in ((), ("-q", "-n")):
        _, text, _ = score("qrels", "a.run", "c.run", "--format", "trec", "-m", "map", *more)
        names = [line.split("\t")[2] for line in text.splitlines() if line.startswith("runid")]
        assert names == ["a.run", "c.run"]


def test_many_runs_go_into_tables_below_each_other(runs, score):
    for number in range(8):
        (runs / f"{number}.run").write_text(RUN_A.replace("alpha", f"system-{number}"))

    _, text, _ = score("qrels", *(f"{number}.run" for number in range(8)), "-m", "map")

    heads = [line.split()[1:] for line in text.splitlines() if line.startswith("measure")]
    assert [name for head in heads for name in head] == [f"system-{n}" for n in range(8)]
    assert len(heads) > 1
    assert max(map(len, text.splitlines())) <= 100


def test_ids_that_are_not_utf8_come_out_as_they_went_in(runs):
    (runs / "q").write_bytes(b"\xe9 0 d 1\n")
    (runs / "r").write_bytes(b"\xe9 Q0 d 1 1.0 t\xe8st\n")

    done = process("q", "r", "-q", "-n", "-m", "map", "--format", "trec")
    as_json = run_command("score", "q", "r", "-q", "-m", "map", "--format", "json")

    assert done.stdout == b"map                   \t\xe9\t1.0000\n"
    assert json.loads(as_json.stdout)["systems"][0]["per_query"] == {"map": {"\udce9": 1.0}}


# With the records that they read they would be a sixth of a small command.
OF_RUN_FOLDERS = ["ragbench.data.runs.run_folder", "ragbench.report.sections"]


def test_loads_numpy_and_click_alone():
    forms = {"trec": OF_RUN_FOLDERS, "json": OF_RUN_FOLDERS, "csv": []}
    code = (
        "import sys; from ragbench.cli import main\n"
        f"for form, unloaded in {forms}.items():\n"
        "  sys.argv = ['ragbench', 'score', 'qrels', 'a.run', '--format', form]\n"
        "  try: main()\n"
        f"  except SystemExit: print(form, *[m for m in [*{[*HEAVY]}, *unloaded]"
        " if m in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    lines = [line for line in done.stderr.splitlines() if line.startswith((*forms,))]
    assert lines == [f"{form} numpy click" for form in forms]


def test_a_reader_that_goes_away_is_no_error(runs, assert_message):
    queries = {f"q{n}": {"d": 1.0} for n in range(5_000)}
    write_qrels(runs / "q", {query: {"d": 1} for query in queries})
    write_trec(runs / "r", queries)
    command = f"{sys.executable} -m ragbench score q r -q -m map -m mrr --format trec | head -1"

    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert_message(done.stdout)


def test_help_names_every_option_of_trec_eval_that_is_there():
    done = process("--help")

    for option in ("-m,", "-q,", "-c,", "-l,", "-M,", "-n,", "--ties", "--trec-eval", "--format"):
        assert option in done.stdout.decode()
