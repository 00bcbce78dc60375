"""Nothing foreign reaches a terminal as a command to it, whatever file or argument it stands in."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.cli.commands import COMMANDS
from ragbench.errors import DataError, OptionError, RagbenchError, shortened, visible
from tests.commands import run_command

# What a terminal obeys, but line breaks and tabs.
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202egnp.exe\x08\x7f"
_words = st.text(
    st.sampled_from([*"ab \"'{}:#-", *HOSTILE, "\x00", "\x85", "\u2066", "\u2028", "é"]),
    min_size=1,
    max_size=30,
)


def _texts(line):
    """Hostile values in a line of YAML, as a quoted scalar and as it is."""
    return [json.dumps(line), f"'{line}'", line]


def test_each_character_is_one_that_is_seen():
    for character in (*HOSTILE, "\x00", "\x1f", "\u2029", "\udc9b"):
        printed, is_hidden = visible(character), OBEYED.match(character) or character == "\udc9b"
        assert len(printed) == 1, repr(character)
        assert (printed != character) == bool(is_hidden), repr(character)


def test_of_a_long_line_the_middle_is_left_out():
    line = shortened("a" * 40_000 + "b" * 40_000)

    assert len(line) == 800
    assert re.fullmatch("a+ ... b+", line)
    assert shortened(f"{'x' * 700}\n{'y' * 700}") == f"{'x' * 700}\n{'y' * 700}"


@pytest.mark.parametrize(
    "error", [DataError(HOSTILE * 9_000, file=HOSTILE), OptionError("a", HOSTILE, HOSTILE, HOSTILE)]
)
def test_errors_are_harmless_wherever_they_are_shown(error):
    assert isinstance(error, RagbenchError)
    assert not OBEYED.search(str(error))
    assert max(map(len, str(error).split("\n"))) <= 800


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run over records whose every text is hostile, and the files that it came from."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        {"question": f"{HOSTILE} {n}", "contexts": [HOSTILE], "answer": f"{HOSTILE} one",
         "reference": f"{HOSTILE} two", "system": f"s{HOSTILE}"}
        for n in range(4)
    ]  # fmt: skip
    (folder / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ids = [f"q{n}{HOSTILE.replace(' ', '')}".replace("\r", "") for n in range(3)]
    qrels = "".join(f"{i} 0 d{i} 1\n" for i in ids)
    run = "".join(f"{i} Q0 d{i} 1 1.0 tag{i}\n" for i in ids)
    (folder / "a.qrels").write_bytes(qrels.encode())
    (folder / "a.trec").write_bytes(run.encode())
    (folder / "bad.qrels").write_bytes(
        qrels.replace(" 1\n", f" {HOSTILE}\n".replace("\r", "")).encode()
    )
    (folder / "bad.trec").write_bytes(
        run.replace("1.0", f"1.0{HOSTILE}".replace("\r", "")).encode()
    )
    (folder / "c.yaml").write_text(
        "dataset: {type: records, path: records.jsonl}\n"
        "metrics: {generation: [rouge1], judge: {type: python:tests.words:context_overlap}}\n"
        "gates: [{measure: rouge1, min: 0.99}]\n"
    )
    done = run_command("run", "c.yaml", cwd=folder)
    assert done.returncode == 1, done.stderr
    return folder


LINES = [
    "demo HOSTILE",
    "audit c.yaml", "audit c.yaml --json",
    "questions records.jsonl -n 2 --model none -o q.csv", "questions HOSTILE --model HOSTILE",
    "questions records.jsonl --reviewed HOSTILE -o q.csv",
    "validate c.yaml", "plan c.yaml", "plan c.yaml --json", "run c.yaml", "run c.yaml --json",
    "run c.yaml --only HOSTILE", "run HOSTILE.yaml", "validate c.yaml --set HOSTILE=1",
    "validate c.yaml --set name=HOSTILE", "validate c.yaml --set seed=HOSTILE",
    "report runs/c", "report runs/HOSTILE", "report runs/c -o HOSTILE", "compare runs/c",
    "compare runs/c runs/c --format markdown", "compare runs/c runs/c --format json",
    "compare runs/c runs/c --format latex", "gate runs/c runs/c -m HOSTILE",
    "compare runs/c -m HOSTILE", "compare runs/HOSTILE",
    "compare a.trec a.trec --qrels a.qrels", "compare a.trec bad.trec --qrels a.qrels",
    "baseline runs/c -o out.json", "baseline HOSTILE -o out.json",
    "score a.qrels a.trec", "score a.qrels a.trec --format table -q", "score a.qrels bad.trec",
    "score bad.qrels a.trec", "score a.qrels a.trec --format json -q", "score HOSTILE HOSTILE",
    "score a.qrels a.trec -m HOSTILE", "calibrate runs/c --labels records.jsonl",
    "calibrate runs/c --draw 2 --rubric HOSTILE", "calibrate HOSTILE --draw 2",
    "explain runs/c", "explain runs/c --format json", "explain runs/c --format markdown",
    "explain runs/c --system HOSTILE", "explain runs/c --cause HOSTILE", "show runs/c HOSTILE",
    "fix runs/c", "fix HOSTILE", "fix runs/c --system HOSTILE",
    "runs", "runs --format json", "runs HOSTILE",
    "cache --HOSTILE",
    "cache prune --older-than HOSTILE", "list HOSTILE", "list", "schema HOSTILE",
    "list rubrics HOSTILE", "init HOSTILE/HOSTILE", "init --from HOSTILE.csv", "reproduce HOSTILE",
    "reproduce runs/c", "HOSTILE", "--HOSTILE",
    "gate c.yaml --base runs/c", "gate c.yaml --base HOSTILE", "gate HOSTILE --base runs/c",
]  # fmt: skip


def test_every_command_is_here():
    assert {line.split()[0] for line in LINES} >= COMMANDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_no_command_prints_what_a_terminal_obeys(folder, line):
    hostile = HOSTILE.replace("\0", "").replace(" ", "_")
    words = [word.replace("HOSTILE", hostile) for word in line.split()]

    done = run_command(*words, cwd=folder)

    assert not OBEYED.search(done.stdout), (line, OBEYED.search(done.stdout))
    assert not OBEYED.search(done.stderr), (line, OBEYED.search(done.stderr))
    assert done.returncode in (0, 1, 2, 3), done.stderr
    if "--json" in line or "format json" in line:
        assert json.loads(done.stdout)


FIELDS = [
    "name: VALUE", "seed: VALUE", "VALUE: 1", "dataset: VALUE", "dataset: {type: VALUE}",
    "dataset: {type: records, path: VALUE}", "dataset: {type: records, VALUE: x}",
    "retrievers: {VALUE: {type: bm25}}", "retrievers: {x: {type: VALUE}}",
    "retrievers: {x: {type: bm25, k1: VALUE}}", "retrievers: {x: {type: 'python:VALUE:x'}}",
    "generators: {x: {type: openai, model: VALUE, prompt: VALUE}}", "apps: {x: VALUE}",
    "metrics: {generation: [VALUE]}", "metrics: {retrieval: {measures: [VALUE]}}",
    "metrics: {judge: {type: python:tests.words:Words, rubrics: [VALUE]}}", "gates: [VALUE]",
    "gates: [{measure: VALUE, min: 1}]", "statistics: {test: VALUE}", "budget: {usd: VALUE}",
    "output: VALUE", "cache: VALUE", "# VALUE\nseed: x",
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])
@given(field=st.sampled_from(FIELDS), value=_words, form=st.sampled_from([0, 1, 2]))
def test_no_field_of_a_config_does_either(folder, field, value, form):
    text = "dataset: {type: records, path: records.jsonl}\n" if "dataset" not in field else ""
    text += field.replace("VALUE", _texts(value)[form])
    (folder / "fuzzed.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))

    done = run_command("validate", "fuzzed.yaml", cwd=folder)

    printed = done.stdout + done.stderr
    assert not OBEYED.search(printed), printed
    assert max(map(len, done.stderr.split("\n"))) <= 800
    assert done.returncode in (0, 2), printed


@pytest.mark.slow
def test_csv_for_programs_keeps_ids_and_json_escapes_them(folder):
    piped = run_command("score", "a.qrels", "a.trec", "--format", "csv", "-q", cwd=folder)

    assert "\u202egnp.exe" in piped.stdout
    escaped = run_command("score", "a.qrels", "a.trec", "--format", "json", "-q", cwd=folder)
    assert "\\u202egnp.exe" in escaped.stdout
    assert "\u202egnp.exe" in json.dumps(json.loads(escaped.stdout), ensure_ascii=False)


@pytest.mark.slow
def test_a_terminal_gets_colours_and_bars_and_nothing_else(folder, warm):
    # On a pseudo terminal: only what we and rich draw, for which names are made harmless.
    host, client = pty.openpty()
    with subprocess.Popen(
        [warm.folder / "ragbench", "run", "c.yaml", "--set", "output=again"],
        cwd=folder, stdout=client, stderr=client, stdin=client, close_fds=True,
        env={**os.environ, "TERM": "xterm"},
    ) as process:  # fmt: skip
        os.close(client)
        output = b""
        while True:
            try:
                block = os.read(host, 65536)
            except OSError:
                break
            if not block:
                break
            output += block
    os.close(host)
    text = output.decode("utf-8")
    assert process.returncode == 1
    assert "\x1b[1m" in text, "colours are there"
    # moves, clears and colours of rich and of ours; line ends of the terminal
    drawn = re.sub(r"\x1b\[[0-9;]*[mKAGJ]|\x1b\[\?25[lh]|\r", "", text)
    assert not OBEYED.search(drawn), repr(drawn[OBEYED.search(drawn).start() - 60 :][:120])
    assert "\x1b[2J" not in text


def test_functions_raise_harmless_texts(tmp_path):
    with pytest.raises(RagbenchError) as raised:
        rb.read_run(Path(tmp_path / "x\x1b[2J"))
    assert not OBEYED.search(str(raised.value))
