"""Mistakes in calls and files of `ragbench score`."""

import subprocess
import sys

import pytest

from tests.commands import run_command

pytestmark = pytest.mark.usefixtures("runs")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("", "no judgements: pass QRELS RUN..., or --qrels and --run"),
        ("--run a.run", "no judgements"),
        ("qrels", "no run for the judgements qrels"),
        ("--qrels qrels", "no run for the judgements qrels"),
        ("qrels a.run --run b.run", "--run, not both"),
        ("qrels a.run a.run", "the run a.run is passed twice"),
        ("qrels a.run ./a.run", "the run ./a.run is passed twice"),
        ("qrels - -", "the run - is passed twice"),
        ("- a.run", "the judgements must be a file"),
        ("qrels a.run -n", "-n without -q leaves nothing to print"),
        ("qrels a.run -c --missing skip", "-c and --missing skip contradict each other"),
        ("qrels a.run -M 0", "0 is not in the range x>=1"),
        ("qrels a.run -l 0", "0 is not in the range x>=1"),
        ("qrels a.run -N 0", "0 is not in the range x>=1"),
        ("qrels a.run -m utility.1,-1,0,1", "the number of documents in the collection where d is"),
        ("qrels a.run -R prefs", "'prefs' is not 'qrels'"),
        ("qrels a.run -T csv", "'csv' is not 'trec_results'"),
        ("qrels a.run -Z z", "No such option"),
        ("qrels a.run -m relstring", "relstring is text of single queries: -q --format trec"),
        ("qrels a.run -m relstring -q", "relstring is text of single queries"),
        ("qrels a.run -m relstring --format trec", "relstring is text of single queries"),
        ("qrels a.run -m ndgc@10", "did you mean 'ndcg@10'?"),
        ("qrels a.run -m runid", "measure: found 'runid', allowed: a measure beside it"),
        ("qrels a.run -m answer_hit@5", "it needs gold answers and the texts of the passages"),
        ("qrels a.run -m alpha_ndcg@5", "alpha_ndcg@5 needs subtopics, and the judgements have no"),
        ("qrels a.run -m redundancy@5 --ties average", "redundancy: ties: found 'average'"),
        ("qrels none.run", "none.run: no such file"),
        ("none a.run", "none: no such file"),
        ("a.run qrels", "a.run:1: 6 columns, expected 4"),
        ("qrels bad.run", "bad.run:2: score 'x'; allowed: a number"),
        ("qrels other.run", "other.run: no query of the run is judged; allowed: "),
        ("qrels other.run -c", "such as 'q1'"),
    ],
)
def test_mistakes_are_told_in_one_line_and_exit_2(runs, score, arguments, problem):
    (runs / "bad.run").write_text("q1 Q0 d1 1 1.0 t\nq1 Q0 d2 2 x t\n")
    (runs / "other.run").write_text("7 Q0 d1 1 1.0 t\n")

    code, text, printed = score(*arguments.split())

    assert code == 2
    assert problem in printed
    assert "Traceback" not in printed
    assert text == ""


def test_a_depth_beyond_any_file_changes_nothing(tmp_path):
    (tmp_path / "q").write_text("q1 0 d1 1\n")
    (tmp_path / "r").write_text("q1 Q0 d1 1 2.0 t\n")
    command = ["score", "q", "r", "--format", "trec", "-m", "map"]

    plain, deep = (run_command(*command, *more, cwd=tmp_path) for more in ([], ["-M", "9" * 20]))

    assert deep.returncode == 0, deep.stderr
    assert deep.stdout == plain.stdout


@pytest.mark.costly
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("score q - <&-", "standard input is closed"),
        ("score q r >&-", "cannot write the result: standard output is closed"),
    ],
)
def test_closed_streams_are_said(tmp_path, command, message):
    (tmp_path / "q").write_text("q1 0 d1 1\n")
    (tmp_path / "r").write_text("q1 Q0 d1 1 2.0 t\n")

    done = subprocess.run(
        f"{sys.executable} -m ragbench {command}",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert message in done.stderr


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path):
    (tmp_path / "q").write_text("q1 0 d\x1b[31m\a 1 2 3 4\nq1 0 d\x07\n")

    done = run_command("score", "q", "q", cwd=tmp_path)

    assert done.returncode == 2
    assert not {"\x1b", "\a"} & set(done.stderr)
