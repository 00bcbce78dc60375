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
    ("text", "expected"),
    [
        pytest.param("§seed: 1\n", ["missing key 'dataset'"], id="no dataset"),
        pytest.param("§dataset: {type: beir, path: data}\n", ["missing key 'retrievers'"]),
        pytest.param(
            "dataset: {type: beir, path: data}\n§retrievers: {}\n", ["retrievers: no retriever"]
        ),
        pytest.param(
            "dataset: {type: beir, path: data}\nretrievers:§\n",
            ["retrievers: an empty value is not a mapping"],
        ),
        pytest.param(
            "§dataset: {path: data}\nretrievers: {a: {type: bm25}}\n",
            ["dataset: missing key 'type'"],
        ),
        pytest.param(
            "§dataset: {type: beir}\nretrievers: {a: {type: bm25}}\n",
            ["dataset: missing key 'path'"],
        ),
        pytest.param(
            "dataset: §data\nretrievers: {a: {type: bm25}}\n", ["dataset: 'data' is not a mapping"]
        ),
        pytest.param(
            "dataset: {type: beir, path: §dta}\nretrievers: {a: {type: bm25}}\n",
            ["dataset.path: no such file: dta"],
        ),
        pytest.param(
            "dataset: {type: beir, path: data, split: {§tst: 1}}\nretrievers: {a: {type: bm25}}\n",
            ["dataset.split: unknown key 'tst'"],
        ),
        pytest.param(
            "dataset: {type: beir, path: data, split: {test: §2}}\nretrievers: {a: {type: bm25}}\n",
            ["dataset.split.test: found 2"],
        ),
        pytest.param(HEAD + "§retreivers: {}\n", ["unknown key 'retreivers'"]),
        pytest.param(HEAD + "seed: §1.5\n", ["seed: 1.5 is not an integer"]),
        pytest.param(HEAD + "seed: §true\n", ["seed: true is not an integer"]),
        pytest.param(HEAD + "seed: §'1'\n", ["seed: '1' is not an integer"]),
        pytest.param(HEAD + "seed: §-1\n", ["seed: -1 is out of range"]),
        pytest.param(HEAD + "seed: §[]\n", ["seed: [] is not an integer"]),
        pytest.param(HEAD + "seed:§\n", ["seed: an empty value is not an integer"]),
        pytest.param(HEAD + "name: §a/b\n", ["name: 'a/b' is not a name"]),
        pytest.param(HEAD + "name: §..\n", ["name: '..' is not a name"]),
        pytest.param(HEAD + "name: §2024\n", ["name: 2024 is not text"]),
        pytest.param(HEAD + "max_failed: §.nan\n", ["max_failed: .nan is out of range"]),
        pytest.param(HEAD + "  §a b: {type: bm25}\n", ["retrievers: 'a b' is not a name"]),
        pytest.param(HEAD + "  §x=1: {type: bm25}\n", ["retrievers: 'x=1' is not a name"]),
        pytest.param(HEAD + "  x: §bm25\n", ["retrievers.x: 'bm25' is not a mapping"]),
        pytest.param(HEAD + "  §x: {k1: 1}\n", ["retrievers.x: missing key 'type'"]),
        pytest.param(HEAD + "  x: {type: §3}\n", ["retrievers.x.type: 3 is not text"]),
        pytest.param(HEAD + "  x: {type: §bm52}\n", ["retrievers.x.type: unknown type 'bm52'"]),
        pytest.param(
            HEAD + "  x: {type: bm25, k1: §.inf}\n", ["retrievers.x.k1: .inf is out of range"]
        ),
        pytest.param(
            HEAD + "  x: {type: bm25, variant: §lucen}\n",
            ["retrievers.x.variant: unknown value 'lucen'"],
        ),
        pytest.param(
            HEAD + "  x: {type: bm25, timeout: §0}\n", ["retrievers.x.timeout: 0 is out of range"]
        ),
        pytest.param(
            HEAD
            + "  x: {type: bm25}\ngenerators: {g: {type: openai, model: m, §sampels: 2, "
            + "prompt: §qa.yaml}}\n",
            ["generators.g: unknown key 'sampels'", "generators.g.prompt: no such file: qa.yaml"],
        ),
        pytest.param(
            HEAD + "  x: {type: run_file, path: §old.trec}\n",
            ["retrievers.x.path: no such file: old.trec"],
        ),
        pytest.param(
            HEAD + "generators: {g: {type: extractive, retrievers: [§bm52, bm25]}}\n",
            ["generators.g.retrievers.0: no retriever 'bm52'"],
        ),
        pytest.param(
            HEAD + "generators: {g: {type: extractive, passages: §0}}\n",
            ["generators.g.passages: 0 is out of range"],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: §ndcg@10}}\n",
            ["metrics.retrieval.measures: 'ndcg@10' is not a list of text"],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§ndgc@10, §3]}}\n",
            [
                "metrics.retrieval.measures.0: unknown measure 'ndgc@10'",
                "metrics.retrieval.measures.1: 3 is not text",
            ],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§recall]}}\n",
            ["metrics.retrieval.measures.0: 'recall' has no k"],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [map, ndcg@10, §nDCG@10]}}\n",
            ["metrics.retrieval.measures.2: 'nDCG@10' is the same as 'ndcg@10'"],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§ndcg(gain=exp,base=2)@10]}}\n",
            ["metrics.retrieval.measures.0: 'ndcg(gain=exp' has no ')'"],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {top_k: 10, measures: [§ndcg@20]}}\n",
            ["metrics.retrieval.measures.0: 'ndcg@20' looks deeper than top_k"],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {trec_eval: §8}}\n",
            ["metrics.retrieval.trec_eval: unknown value 8"],
        ),
        pytest.param(
            HEAD + "metrics: {generation: [rouge1, §rogue2]}\n",
            ["metrics.generation.1: unknown metric 'rogue2'"],
        ),
        pytest.param(
            HEAD + "metrics: {generation: [§answer_hit@1, §faithfulness]}\n",
            [
                "metrics.generation.0: 'answer_hit@1' is a measure of rankings",
                "metrics.generation.1: 'faithfulness' is a rubric of judges",
            ],
        ),
        pytest.param(
            HEAD + "metrics: {retrieval: {measures: [§rougeL]}}\n",
            ["metrics.retrieval.measures.0: 'rougeL' is a metric of answers"],
        ),
        pytest.param(
            HEAD + "metrics: {judge: {type: nli, rubrics: [§ndcg@10]}}\n",
            ["metrics.judge.rubrics.0: 'ndcg@10' is a measure of rankings"],
        ),
        pytest.param(
            HEAD + "metrics: {judge: {type: nli, rubrics: [§faithfulnes]}}\n",
            ["metrics.judge.rubrics.0: unknown rubric 'faithfulnes'"],
        ),
        pytest.param(
            HEAD + "metrics: {judge: {type: nli, rubrics: [§tone.yaml]}}\n",
            ["metrics.judge.rubrics.0: no such file: tone.yaml"],
        ),
        pytest.param(
            HEAD + "metrics: {judge: {a: {type: §lexikal, rubrics: []}}}\n",
            ["metrics.judge.a.type: unknown type 'lexikal'"],
        ),
        pytest.param(
            HEAD + "statistics: {baseline: §bm26}\n", ["statistics.baseline: no retriever 'bm26'"]
        ),
        pytest.param(
            HEAD + "statistics: {confidence: §1}\n", ["statistics.confidence: 1 is out of range"]
        ),
        pytest.param(
            HEAD + "  §bm25: {type: bm25, b: 2}\n",
            ["retrievers: the key 'bm25' is repeated; its first place is line 3"],
            id="repeated, the first value is checked",
        ),
        pytest.param(
            HEAD + "seed: §x\n§seed: z\n§seed: y\n",
            [
                "seed: 'x' is not an integer",
                "the key 'seed' is repeated; its first place is line 4",
                "the key 'seed' is repeated; its first place is line 4",
            ],
            id="repeated twice, every repetition is reported",
        ),
    ],
)
def test_one_mistake(problems, text, expected):
    """The marks in the text are the places of the problems, in order."""
    found = problems(text.replace("§", ""))

    assert [_message(problem) for problem in found] == expected
    assert sorted({(problem.line, problem.column) for problem in found}) == _marks(text)


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


def test_a_repeated_block_invents_no_mistake(lines):
    text = HEAD + "statistics: {baseline: bm25}\nretrievers: {other: {type: bm25}}\n"

    assert lines(text) == ["5:1: the key 'retrievers' is repeated; its first place is line 2"]


def test_no_such_config():
    with pytest.raises(ConfigError, match=r"^nowhere\.yaml: no such file; allowed: a YAML file"):
        load_config("nowhere.yaml")


def test_a_folder_is_no_config():
    with pytest.raises(ConfigError, match="data: a folder, not a file"):
        load_config("data")


def test_a_mapping_has_paths_without_positions():
    with pytest.raises(ConfigError) as caught:
        load_config({"dataset": {"type": "beir", "path": "data"}, "retrievers": {"a": {"type": 1}}})

    assert str(caught.value).startswith("retrievers.a.type: 1 is not text; allowed: bm25")


def test_circles_are_found(lines, monkeypatch):
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

    found = lines(f"{HEAD}  a: {kind}b}}\n  b: {kind}c}}\n  c: {kind}b}}\n  d: {kind}d}}\n")

    assert [line.split(": ", 2)[2] for line in found] == [
        "the retrievers refer to each other: b -> c -> b",
        "the retrievers refer to each other: d -> d",
    ]


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
    """The options are each right there; making the component shows that they do not go together."""
    found = problems(REFUSED.replace("§", ""))

    assert [problem.path for problem in found] == [
        "retrievers.bm25.b",
        "retrievers.few.retrievers",
        "retrievers.where.url",
        "generators.same.repeat",
        "metrics.judge.base_url",
        "metrics.judge.rubrics.0",
        "seed",
    ]
    assert sorted({(problem.line, problem.column) for problem in found}) == _marks(REFUSED)
    assert "hunter22" not in "".join(map(repr, found))


def test_a_file_is_read_for_that_only_where_the_config_is_refused_anyway(tmp_path, monkeypatch):
    made = []
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"query_id": "q1", "answer": "a"}\n')
    text = HEAD + f"generators: {{told: {{type: predictions, path: {answers}, repeat: 2}}}}\n"
    init = Predictions.__init__

    @functools.wraps(init)  # its options are read off its signature
    def counted(self, **given):
        made.append(1)
        init(self, **given)

    monkeypatch.setattr(Predictions, "__init__", counted)
    (tmp_path / "c.yaml").write_text(text)

    load_config(tmp_path / "c.yaml")
    assert not made
    (tmp_path / "c.yaml").write_text(f"{text}seed: x\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml")

    assert [problem.path for problem in caught.value.problems] == [
        "generators.told.repeat",
        "seed",
    ]


def test_several_judges_that_refuse_are_one_error(tmp_path):
    """A run may do without judges, so that none is made before it is known which are asked."""
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
