"""Every kind of mistake alone, with its place, and ten of them at once."""

import functools

import pytest

from ragbench.config.load import load_config
from ragbench.errors import EXIT_BAD_INPUT, ConfigError, shorten_names
from ragbench.experiment.runner import run_experiment
from ragbench.generate.predictions import Predictions
from ragbench.records.manifest import Choices
from ragbench.registry import PYTHON
from ragbench.rerank import RERANKERS
from ragbench.retrieve import RETRIEVERS
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import spec_of

HEAD = "dataset: {type: beir, path: data}\nretrievers:\n  bm25: {type: bm25}\n"

TEN_MISTAKES = """\
name: ten
seed: thirteen
dataset: {type: beir, path: dtaa, split: test}
retrievers:
  bm25: {type: bm25, k1: 0.9, b: 1.4}
  second: {type: bm52}
  third: {type: bm25, stemer: porter}
metrics:
  retrieval: {measures: [ndgc@10, recall@200, map], ties: dociid}
statistics: {baseline: bm26}
max_failed: 0.1
max_failed: 7
"""


def without_lists(text):
    """Put `<retrievers>` and `<measures>` where exactly those that there are must be listed."""
    types = dict.fromkeys((*RETRIEVERS.names(), *RERANKERS.names(), f"{PYTHON}module:Name"))
    specs = {name: spec_of(MEASURES.load(name)) for name in MEASURES.names()}
    measures = [f"{n}@{s.at}" if s.cutoff == "required" else n for n, s in specs.items()]
    for word, names in (("retrievers", types), ("measures", measures)):
        listed = f"allowed: {shorten_names(', '.join(names))}\n"
        assert text.count(listed) == 1, listed
        text = text.replace(listed, f"allowed: <{word}>\n")
    return text


def test_ten_mistakes_at_once(load, golden):
    with pytest.raises(ConfigError) as caught:
        load(TEN_MISTAKES.replace("max_failed: 0.1\n", ""))

    assert len(caught.value.problems) == 10
    assert caught.value.exit_code == EXIT_BAD_INPUT
    golden("ten_mistakes.txt", without_lists(f"{caught.value}\n"))


@pytest.mark.costly
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("§seed: 1\n", id="no dataset"),
        pytest.param("§dataset: {type: beir, path: data}\n"),
        pytest.param("dataset: {type: beir, path: data}\n§retrievers: {}\n"),
        pytest.param(
            "dataset: {type: beir, path: data}\nretrievers:§\n",
        ),
        pytest.param(
            "§dataset: {path: data}\nretrievers: {a: {type: bm25}}\n",
        ),
        pytest.param(
            "§dataset: {type: beir}\nretrievers: {a: {type: bm25}}\n",
        ),
        pytest.param("dataset: §data\nretrievers: {a: {type: bm25}}\n"),
        pytest.param(
            "dataset: {type: beir, path: §dta}\nretrievers: {a: {type: bm25}}\n",
        ),
        pytest.param(
            "dataset: {type: beir, path: data, split: {§tst: 1}}\nretrievers: {a: {type: bm25}}\n",
        ),
        pytest.param(
            "dataset: {type: beir, path: data, split: {test: §2}}\nretrievers: {a: {type: bm25}}\n",
        ),
        pytest.param(HEAD + "§retreivers: {}\n"),
        pytest.param(HEAD + "seed: §1.5\n"),
        pytest.param(HEAD + "seed: §true\n"),
        pytest.param(HEAD + "seed: §'1'\n"),
        pytest.param(HEAD + "seed: §-1\n"),
        pytest.param(HEAD + "seed: §[]\n"),
        pytest.param(HEAD + "seed:§\n"),
        pytest.param(HEAD + "name: §a/b\n"),
        pytest.param(HEAD + "name: §..\n"),
        pytest.param(HEAD + "name: §2024\n"),
        pytest.param(HEAD + "max_failed: §.nan\n"),
        pytest.param(HEAD + "  §a b: {type: bm25}\n"),
        pytest.param(HEAD + "  §x=1: {type: bm25}\n"),
        pytest.param(HEAD + "  x: §bm25\n"),
        pytest.param(HEAD + "  §x: {k1: 1}\n"),
        pytest.param(HEAD + "  x: {type: §3}\n"),
        pytest.param(HEAD + "  x: {type: §bm52}\n"),
        pytest.param(HEAD + "  x: {type: bm25, k1: §.inf}\n"),
        pytest.param(
            HEAD + "  x: {type: bm25, variant: §lucen}\n",
        ),
        pytest.param(HEAD + "  x: {type: bm25, timeout: §0}\n"),
        pytest.param(
            HEAD
            + "  x: {type: bm25}\ngenerators: {g: {type: openai, model: m, §sampels: 2, "
            + "prompt: §qa.yaml}}\n",
        ),
        pytest.param(
            HEAD + "  x: {type: run_file, path: §old.trec}\n",
        ),
        pytest.param(
            HEAD + "generators: {g: {type: extractive, retrievers: [§bm52, bm25]}}\n",
        ),
        pytest.param(
            HEAD + "generators: {g: {type: extractive, passages: §0}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: §ndcg@10}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§ndgc@10, §3]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§recall]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [map, ndcg@10, §nDCG@10]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§ndcg(gain=exp,base=2)@10]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {top_k: 10, measures: [§ndcg@20]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {trec_eval: §8}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {generation: [rouge1, §rogue2]}\n",
        ),
        pytest.param(
            HEAD + "metrics: {generation: [§answer_hit@1, §faithfulness]}\n",
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§rougeL]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {judge: {type: nli, rubrics: [§ndcg@10]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {judge: {type: nli, rubrics: [§faithfulnes]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {judge: {type: nli, rubrics: [§tone.yaml]}}\n",
        ),
        pytest.param(
            HEAD + "metrics: {judge: {a: {type: §lexikal, rubrics: []}}}\n",
        ),
        pytest.param(HEAD + "statistics: {baseline: §bm26}\n"),
        pytest.param(HEAD + "statistics: {confidence: §1}\n"),
        pytest.param(
            HEAD + "  §bm25: {type: bm25, b: 2}\n",
            id="repeated, the first value is checked",
        ),
        pytest.param(
            HEAD + "seed: §x\n§seed: z\n§seed: y\n",
            id="repeated twice, every repetition is reported",
        ),
    ],
)
def test_one_mistake(problems, text, assert_message):
    # The marks in the text are the places of the problems, in order
    mistakes = problems(text.replace("§", ""))

    assert_message(_message(problem) for problem in mistakes)
    assert sorted({(problem.line, problem.column) for problem in mistakes}) == _marks(text)


def _message(problem):
    return f"{problem.path}: {problem.found}" if problem.path else problem.found


def _marks(text):
    """The 1-based line and column of each mark, once the marks are gone."""
    return [
        (number, position - earlier + 1)
        for number, line in enumerate(text.split("\n"), start=1)
        for earlier, position in enumerate(i for i, char in enumerate(line) if char == "§")
    ]


def test_an_executor_that_is_not_there_is_an_option_like_any_other(problems):
    [problem] = problems(HEAD + "executor: {type: rays}\n")

    assert (problem.path, problem.allowed) == ("executor.type", "local, ray, python:module:Name")
    assert problem.found == "unknown type 'rays'"


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("retreivers: {}\n", "retrievers"),
        ("  x: {type: bm52}\n", "bm25"),
        ("  x: {type: bm25, stemer: porter}\n", "stemmer"),
        ("  x: {type: bm25, variant: lucen}\n", "lucene"),
        ("statistics: {baseline: bm26}\n", "bm25"),
        ("metrics: {retrieval: {measures: [ndgc@10]}}\n", "ndcg@10"),
        ("metrics: {generation: [rogue1]}\n", "rouge1"),
        ("metrics: {judge: {type: nli, rubrics: [faithfulnes]}}\n", "faithfulness"),
        ("generators: {g: {type: predictions, path: ./dta}}\n", "./data"),
    ],
)
def test_nearest_right_spelling(problems, text, nearest):
    [problem] = problems(HEAD + text)

    assert problem.nearest == nearest


def test_what_is_allowed_is_said(problems):
    [problem] = problems(f"{HEAD}  x: {{type: bm25, b: 1.4}}\n")

    assert str(problem) == (
        "c.yaml:4:24: retrievers.x.b: 1.4 is out of range\n"
        "   4 |   x: {type: bm25, b: 1.4}\n"
        "     |                      ^^^ allowed: a number from 0 to 1"
    ).replace("4:24", "4:22")


def test_a_repeated_block_invents_no_mistake(lines, assert_message):
    text = HEAD + "statistics: {baseline: bm25}\nretrievers: {other: {type: bm25}}\n"

    assert_message(lines(text))


def test_no_such_config(assert_message):
    with pytest.raises(ConfigError) as caught:
        load_config("nowhere.yaml")
    assert_message(caught.value, "nowhere.yaml")


def test_a_folder_is_no_config(assert_message):
    with pytest.raises(ConfigError) as caught:
        load_config("data")
    assert_message(caught.value)


def test_a_mapping_has_paths_without_positions(assert_message):
    with pytest.raises(ConfigError) as caught:
        load_config({"dataset": {"type": "beir", "path": "data"}, "retrievers": {"a": {"type": 1}}})

    assert_message(caught.value, "retrievers.a.type")


def test_circles_are_found(lines, monkeypatch, assert_message):
    monkeypatch.syspath_prepend(".")
    with open("circular.py", "w", encoding="utf-8") as stream:
        stream.write(
            "from typing import Annotated\n"
            "from ragbench.registry import Option\n"
            "class Wrap:\n"
            "    def __init__(self, *, retriever: "
            "Annotated[str, Option('Inner one.', refers_to='retriever')]): ...\n"
        )
    kind = '{type: "python:circular:Wrap", retriever: '

    messages = lines(f"{HEAD}  a: {kind}b}}\n  b: {kind}c}}\n  c: {kind}b}}\n  d: {kind}d}}\n")

    assert_message(messages)


REFUSED = """\
dataset: {type: beir, path: data}
retrievers:
  bm25: {type: bm25, b: §2}
  few: {type: fusion, retrievers: §[bm25]}
  where: {type: http, url: §"ftp://example.org"}
generators: {same: {type: extractive, repeat: §3}}
metrics:
  judge:
    type: openai
    model: m
    base_url: §"http://me:hunter22@host/v1"
    rubrics: [§faithfulnes]
seed: §x
"""


def test_what_a_component_refuses_is_said_beside_all_else(problems):
    # The options are each right there; making the component shows that they do not go together
    mistakes = problems(REFUSED.replace("§", ""))

    assert [problem.path for problem in mistakes] == [
        "retrievers.bm25.b",
        "retrievers.few.retrievers",
        "retrievers.where.url",
        "generators.same.repeat",
        "metrics.judge.base_url",
        "metrics.judge.rubrics.0",
        "seed",
    ]
    assert sorted({(problem.line, problem.column) for problem in mistakes}) == _marks(REFUSED)
    assert "hunter22" not in "".join(map(repr, mistakes))


def test_a_file_is_read_for_that_only_where_the_config_is_refused_anyway(tmp_path, monkeypatch):
    retrievers = []
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"query_id": "q1", "answer": "a"}\n')
    text = HEAD + f"generators: {{told: {{type: predictions, path: {answers}}}}}\n"
    init = Predictions.__init__

    @functools.wraps(init)  # its options are read off its signature
    def counted(self, **options):
        retrievers.append(1)
        init(self, **options)

    monkeypatch.setattr(Predictions, "__init__", counted)
    (tmp_path / "c.yaml").write_text(text)

    load_config(tmp_path / "c.yaml")
    assert not retrievers
    (tmp_path / "c.yaml").write_text(f"{text}seed: x\n")
    with pytest.raises(ConfigError):
        load_config(tmp_path / "c.yaml")
    assert retrievers


def test_several_judges_that_refuse_are_one_error(tmp_path):
    # A run may do without judges, so no judge is created before the run knows its rubrics
    url = "http://me:hunter22@host/v1"
    judge = {"type": "openai", "model": "m", "base_url": url}
    config = {
        "dataset": {"type": "records", "path": str(tmp_path / "qa.jsonl")},
        "metrics": {"judge": {"a": judge, "b": judge, "c": {**judge, "base_url": "host"}}},
        "output": str(tmp_path / "runs"), "cache": str(tmp_path / "cache"),
    }  # fmt: skip
    (tmp_path / "qa.jsonl").write_text('{"question": "a?", "answer": "b", "reference": "b"}\n')

    with pytest.raises(ConfigError) as caught:
        run_experiment(config)

    assert [problem.path for problem in caught.value.problems] == [
        f"metrics.judge.{name}.base_url" for name in "abc"
    ]
    assert run_experiment(config, choices=Choices(judge=False)).path.is_dir()
