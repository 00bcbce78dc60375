"""Preferences of people against a judge of pairs: forms of files, ties, position, intervals."""

import json

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

import ragbench as rb
from ragbench.calibration.pairs import certify_pairs, verdicts_in_file
from ragbench.data.loaders.pairs import Pairs, read_pairs
from ragbench.errors import DataError, RagbenchError
from ragbench.stats import mean_interval
from tests.chat_server import ChatServer
from tests.score.judge.scripted import Script

SIDES = {"1": 1.0, "2": 0.0, "tie": 0.5}


@pytest.fixture
def write(tmp_path):
    def to(rows, name="pairs.jsonl"):
        path = tmp_path / name
        text = rows if isinstance(rows, str) else "".join(json.dumps(r) + "\n" for r in rows)
        path.write_text(text, encoding="utf-8")
        return path

    return to


def _llmbar(n=12):
    """Rows as LLMBar has them; the longer output is the better one in three of four."""
    for i in range(n):
        texts = [f"short {i}", f"a much longer answer {i}"]
        better = 1 if i % 4 else 0
        yield {
            "instruction": f"Say {i}.",
            "output_1": texts[i % 2],
            "output_2": texts[1 - i % 2],
            "gold": 1 if (i % 2 == 0) == (better == 0) else 2,
        }


def _longer(text):
    """The longer of the two answers, wherever it stands; A where the judge cannot tell."""
    one, two = text.find("short"), text.find("a much longer")
    return "A" if two < one else "B"


def _run(tmp_path, dataset, script, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    with ChatServer(script, model="m-1") as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["pairwise"]}
        config = {"name": "bar", "dataset": dataset, "metrics": {"judge": judge},
                  "output": str(tmp_path / "runs")}  # fmt: skip
        return rb.run_experiment(config).path


@pytest.mark.costly
def test_llmbar_through_a_run(calibrate, write, tmp_path, monkeypatch):
    path = write(_llmbar())
    run = _run(tmp_path, {"type": "pairs", "path": str(path)}, Script(outcome=_longer), monkeypatch)

    code, tables, notes = calibrate(run, "--pairs", path, "-o", tmp_path / "judge.json")

    assert code == 0, notes
    assert "bar: pairwise by judge openai (m-1), against the preferences of 1 rater" in tables
    assert "12 votes on 12 pairs to 12 queries" in tables
    certificate = json.loads((tmp_path / "judge.json").read_text("utf-8"))
    assert certificate["schema"] == "ragbench.preferences/1"
    found = certificate["rubrics"]["pairwise"]
    accuracy = found["agreement"]["accuracy"]
    oracle = mean_interval([1.0] * 9 + [0.0] * 3)
    assert accuracy["value"] == 0.75
    assert accuracy["interval"] == pytest.approx([oracle.lower, oracle.upper])
    assert found["position"]["consistency"]["value"] == 1
    assert found["position"]["first_place"]["value"] == 0.5
    assert found["ceiling"] == {}


@pytest.mark.costly
def test_a_judge_that_prefers_a_place_has_half_and_says_so(calibrate, write, tmp_path, monkeypatch):
    path = write(_llmbar())
    run = _run(
        tmp_path, {"type": "pairs", "path": str(path)}, Script(outcome=lambda _: "A"), monkeypatch
    )

    code, tables, notes = calibrate(run, "--pairs", path)

    assert code == 0, notes
    assert "accuracy, a tie is half a hit   0.500" in tables
    assert "position consistency: 0.00 [" in tables
    assert "preference for the answer shown first: 1.00 [" in tables
    assert "12 where only the judge ties" in tables


def _votes(n=30, seed=3):
    """Three raters and a judge over n pairs, columns as a file of one's own has them."""
    rng = np.random.default_rng(seed)
    words = np.array(["1", "2", "tie"])
    for i in range(n):
        truth = rng.choice(words, p=[0.5, 0.4, 0.1])
        noisy = [truth if rng.random() < 0.7 else rng.choice(words) for _ in range(5)]
        for rater, vote in zip("abc", noisy[:3], strict=True):
            yield {"id": f"q{i % 20}", "system_1": "x" if i < 20 else "z", "system_2": "y",
                   "winner": vote, "rater": rater, "verdict": noisy[3],
                   "verdict_swapped": noisy[4]}  # fmt: skip


def test_a_judge_that_ran_elsewhere_by_its_definition(write):
    """Votes, ties and two orders, counted here by hand; kappa by scikit-learn."""
    rows = list(_votes())
    read = read_pairs(write(rows))

    certificate = certify_pairs("own", {}, [verdicts_in_file(read, "gpt-x")], read)

    found = certificate.rubrics["pairwise"]
    people = np.array([SIDES[r["winner"]] for r in rows])
    both = [(SIDES[r["verdict"]], SIDES[r["verdict_swapped"]]) for r in rows]
    judge = np.array([one if one == two else 0.5 for one, two in both])
    decided = people != 0.5
    hits = np.where(judge == 0.5, 0.5, judge == people)[decided]
    value = {name: each.value for name, each in found.agreement.items()}
    assert value["accuracy"] == pytest.approx(hits.mean())
    assert value["same"] == pytest.approx((people == judge).mean())
    clear = decided & (judge != 0.5)
    assert value["accuracy_decided"] == pytest.approx((people == judge)[clear].mean())
    either_way = [np.concatenate((2 * side, 2 - 2 * side)) for side in (people, judge)]
    assert value["kappa"] == pytest.approx(cohen_kappa_score(*either_way))
    assert found.position["consistency"].value == pytest.approx(
        np.mean([one == two for one, two in both[::3]])
    )
    done = found.outcomes
    assert done.same + done.opposite + done.judge_tie == decided.sum()
    assert done.people_tie + done.both_tie == (~decided).sum()
    assert (found.labels.votes, found.labels.pairs, found.labels.queries) == (90, 30, 20)
    trios = people.reshape(-1, 3)
    alike = [a == b for trio in trios for i, a in enumerate(trio) for b in np.delete(trio, i)]
    assert found.ceiling["same"].value == pytest.approx(np.mean(alike))
    for each in [*found.agreement.values(), *found.ceiling.values(), *found.position.values()]:
        assert each.interval[0] < each.value < each.interval[1]


def test_the_order_of_a_row_changes_nothing(write):
    turned = {"1": "2", "2": "1", "tie": "tie"}
    rows = list(_votes())
    swapped = [
        r if n % 2 else {
            **r, "system_1": r["system_2"], "system_2": r["system_1"],
            "winner": turned[r["winner"]], "verdict": turned[r["verdict_swapped"]],
            "verdict_swapped": turned[r["verdict"]],
        }
        for n, r in enumerate(rows)
    ]  # fmt: skip

    one, other = (
        certify_pairs("own", {}, [verdicts_in_file(read, "m")], read)
        for read in (read_pairs(write(rows)), read_pairs(write(swapped, "swapped.jsonl")))
    )

    assert one == other


def _talk(*replies):
    asked = zip(("Plan.", "Shorter."), replies, strict=True)
    return [
        {"role": role, "content": text}
        for turn in asked
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]


MT_BENCH = [
    {
        "question_id": 81,
        "model_a": "alpaca 13b",
        "model_b": "gpt",
        "winner": winner,
        "judge": person,
        "turn": turn,
        "conversation_a": _talk("A1", "A2"),
        "conversation_b": _talk("B1", "B2"),
    }
    for turn in (1, 2)
    for person, winner in (("expert_0", "model_b"), ("expert_1", "tie (inconsistent)"))
]


def test_mt_bench(write):
    path = write(MT_BENCH)

    collection = Pairs(path=path).load()
    rows = read_pairs(path)

    assert [q.id for q in collection.queries] == ["81", "81-turn2"]
    assert collection.queries[1].text == "Plan.\n\nShorter."
    assert [a.answer for a in collection.given["alpaca-13b"]] == ["A1", "A1\n\nA2"]
    assert list(collection.given) == ["alpaca-13b", "gpt"]
    assert [(r.rater, r.winner) for r in rows] == [("expert_0", 0.0), ("expert_1", 0.5)] * 2


@pytest.mark.costly
def test_systems_of_a_run_as_their_owner_names_them(calibrate, write, tmp_path, monkeypatch):
    """Three systems compared by the run, a file of votes without a word of the answers."""
    systems = {"Our System": "short", "theirs": "a much longer", "old": "a much longer old"}
    records = [
        {"id": f"q{i}", "question": f"Say {i}.", "answer": f"{text} {i}", "system": name}
        for i in range(6)
        for name, text in systems.items()
    ]
    path = write(records, "records.jsonl")
    columns = {name: name for name in ("id", "question", "answer", "system")}
    dataset = {"type": "records", "path": str(path), "columns": columns}
    run = _run(tmp_path, dataset, Script(outcome=_longer), monkeypatch)
    lines = [f"q{i},theirs,Our System,{'theirs' if i else 'Our System'}" for i in range(6)]
    votes = write(
        "\n".join(["query_id,system_a,system_b,winner", *lines, "q1,old,theirs,"]), "v.csv"
    )

    code, text, notes = calibrate(run, "--pairs", votes, "--json")

    assert code == 0, notes
    found = json.loads(text)["rubrics"]["pairwise"]
    assert found["agreement"]["accuracy"]["value"] == pytest.approx(5 / 6)
    assert (found["labels"]["pairs"], found["labels"]["without_label"]) == (6, 1)
    code, _, problem = calibrate(
        run, "--pairs", write("id,system_1,system_2,winner\nq1,theirs,ours,1\n", "w.csv")
    )
    assert code == 2
    assert (
        "w.csv:2: system 'ours' is in no judged pair; allowed: Our-System, old, theirs" in problem
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 1, "winner": "3", "verdict": "1"}], "winner: '3'; allowed: 1, 2 or tie"),
        ([{"id": 1, "winner": True, "verdict": "1"}], "winner: True; allowed: 1, 2 or tie"),
        ([{"question": "?", "winner": 1}], "no pair of answers (columns: question, winner)"),
        ([{"id": 1, "system_1": "a", "system_2": "a", "winner": 1}], "both answers are of 'a'"),
        ([{"id": 1, "winner": 1}], "no verdict of a judge; allowed: a column verdict"),
        ([{"id": 1, "winner": "", "verdict": 1}], "no row says which answer is preferred"),
        (
            [{"id": 1, "winner": 1, "rater": "a", "verdict": 1}] * 2,
            "'a' compares answer_1 and answer_2 on '1' twice",
        ),
    ],
)
def test_mistakes_say_where(calibrate, write, rows, message):
    code, out, problem = calibrate("--pairs", write(rows))

    assert (code, out) == (2, "")
    assert message in problem


def test_a_data_set_needs_its_texts_and_a_run_its_pairs(
    write, calibrate, finished_quickstart, tmp_path
):
    with pytest.raises(DataError, match="no question or no answer"):
        Pairs(path=write([{"id": 1, "winner": 1}])).load()
    with pytest.raises(RagbenchError, match="did you mean 'winner'"):
        read_pairs(write([{"id": 1, "winner": 1}]), {"winer": "x"})
    changed = [{"id": 1, "question": "?", "answer_1": f"{n}", "answer_2": "b"} for n in "xy"]
    with pytest.raises(DataError, match="'1' of 'answer_1' has another answer before"):
        Pairs(path=write(changed)).load()
    finished_quickstart.copy_to(tmp_path)
    code, _, problem = calibrate(tmp_path / "runs/quickstart", "--pairs", write(_llmbar()))
    assert code == 2
    assert "no pairs were judged in this run" in problem


def test_llmbar_as_it_is_published(lent_data):
    """A hundred pairs; 42 of them are won by the first output."""
    path = lent_data / "llmbar/natural.jsonl.gz"

    collection, rows = Pairs(path=path).load(), read_pairs(path)

    assert len(collection.queries) == len({row.key for row in rows}) == 100
    assert sum(row.winner == 1 for row in rows) == 42
    assert {row.rater for row in rows} == {None}
