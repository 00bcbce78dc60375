"""Configs that are right: defaults, types, paths, and what Python callers may pass."""

from pathlib import Path

import numpy as np
import pytest

from ragbench.config.load import load_config
from ragbench.data.loaders.beir import Beir
from ragbench.errors import ConfigError
from ragbench.retrieve.bm25 import BM25
from tests.config.conftest import VALID


def test_a_dataset_and_one_retriever_are_enough(load, config_folder):
    config = load()

    assert config.name == "c"
    assert config.seed == 13
    assert config.dataset.cls is Beir
    assert config.dataset.options == {"path": config_folder / "data", "split": "test"}
    assert config.retrievers["bm25"].cls is BM25
    assert config.retrievers["bm25"].options["k1"] == 0.9
    assert config.retrievers["bm25"].timeout is None
    assert config.metrics.retrieval.top_k == 100
    assert config.metrics.retrieval.measures is None, "the default depends on the data"
    assert config.metrics.generation is None
    assert config.metrics.judges is None
    assert config.statistics.confidence == 0.95
    assert config.statistics.resamples == 10_000
    assert config.max_failed == 0.0
    assert config.output == "runs"
    assert config.path == Path("c.yaml")


def test_what_is_given_is_taken(load):
    config = load(
        "name: n\nseed: 1_000\n"
        "dataset: {type: beir, path: data, split: {test: 0.5}}\n"
        "retrievers: {a: {type: bm25, k1: 1, timeout: 2.5, concurrency: 4, version: v7}}\n"
        "generators: {g: {type: extractive, passages: 3, retrievers: [a]}}\n"
        "metrics:\n"
        "  retrieval: {top_k: 20, measures: ['ndcg@10', map], missing: skip, match: {level: id}}\n"
        "  generation: []\n"
        "  judge:\n"
        "    one: {type: python:tests.words:context_overlap, when: available}\n"
        "statistics: {baseline: a, resamples: 500}\n"
        "executor: {type: local}\n"
    )

    assert (config.name, config.seed) == ("n", 1000)
    assert config.dataset.options["split"] == {"test": 0.5}
    retriever = config.retrievers["a"]
    assert (retriever.timeout, retriever.concurrency, retriever.version) == (2.5, 4, "v7")
    assert retriever.options["k1"] == 1
    assert "timeout" not in retriever.options
    generator = config.generators["g"]
    assert (generator.retrievers, generator.passages) == (("a",), 3)
    assert config.metrics.retrieval.measures == ("ndcg@10", "map")
    assert config.metrics.retrieval.missing == "skip"
    assert config.metrics.generation == ()
    [rubric] = config.metrics.judges["one"].rubrics
    assert rubric["name"] == "context_overlap"
    assert config.metrics.judges["one"].when == "available"
    assert config.statistics.baseline == "a"


def test_a_judge_without_a_name_is_named_by_its_type(load):
    config = load(
        "dataset: {type: beir, path: data}\nretrievers: {a: {type: bm25}}\n"
        "metrics: {judge: {type: python:tests.words:reference_overlap}}\n"
    )

    assert list(config.metrics.judges) == ["python:tests.words:reference_overlap"]
    [judge] = config.metrics.judges.values()
    assert judge.name is None


def test_paths_are_relative_to_the_file(config_folder):
    (config_folder / "configs").mkdir()
    (config_folder / "configs" / "c.yaml").write_text(
        "dataset: {type: beir, path: ../data}\nretrievers: {a: {type: bm25}}\n", encoding="utf-8"
    )

    config = load_config("configs/c.yaml")

    assert config.dataset.options["path"] == config_folder / "data"
    assert config.resolved["dataset"]["path"] == "../data"


def test_a_model_is_a_folder_relative_to_the_file_or_a_name(config_folder):
    (config_folder / "configs" / "org" / "name").mkdir(parents=True)  # a folder that holds no model
    (config_folder / "models" / "mini").mkdir(parents=True)
    (config_folder / "models" / "mini" / "config.json").write_text("{}")
    (config_folder / "configs" / "c.yaml").write_text(
        "dataset: {type: beir, path: ../data}\nretrievers:\n"
        "  a: {type: dense, model: ../models/mini}\n  b: {type: dense, model: org/name}\n",
        encoding="utf-8",
    )

    retrievers = load_config("configs/c.yaml").retrievers

    assert Path(retrievers["a"].options["model"]).samefile(config_folder / "models" / "mini")
    assert retrievers["b"].options["model"] == "org/name"


def test_a_tilde_is_the_home_folder(config_folder, load, monkeypatch):
    (config_folder / "home" / "corpus").mkdir(parents=True)
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(config_folder / "home"))

    config = load("dataset: {type: beir, path: ~/corpus}\nretrievers: {a: {type: bm25}}\n")

    assert config.dataset.options["path"] == config_folder / "home" / "corpus"


def test_a_cutoff_may_reach_top_k(load):
    rules = "metrics: {retrieval: {top_k: 10, measures: [ndcg@10]}}\n"

    assert load(VALID + rules).metrics.retrieval.measures == ("ndcg@10",)


def test_a_path_of_another_class_is_read(config_folder):
    class Place:
        def __fspath__(self):
            return str(config_folder / "exp.yaml")

    (config_folder / "exp.yaml").write_text(
        "dataset: {type: beir, path: data}\nretrievers: {a: {type: bm25}}\n"
    )

    assert load_config(Place()) == load_config(config_folder / "exp.yaml")


def test_base_dir_moves_the_paths(config_folder, load):
    (config_folder / "elsewhere" / "data").mkdir(parents=True)

    assert (
        load(base_dir="elsewhere").dataset.options["path"] == config_folder / "elsewhere" / "data"
    )


def test_a_mapping_may_hold_python_values(config_folder):
    config = load_config(
        {
            "seed": np.int64(7),
            "dataset": {"type": "beir", "path": config_folder / "data"},
            "retrievers": {"a": {"type": "bm25", "k1": np.float64(1.5)}},
            "metrics": {"retrieval": {"measures": ("map",)}},
        }
    )

    assert config.name == "experiment"
    assert config.seed == 7
    assert type(config.seed) is int
    assert config.retrievers["a"].options["k1"] == 1.5
    assert config.metrics.retrieval.measures == ("map",)


@pytest.mark.parametrize(
    ("value", "shown_value"),
    [(object(), "object"), (b"x", "bytes"), ("\ud800", "half a character"), ({1: 2}, "not text")],
)
def test_a_mapping_with_anything_else_is_refused(value, shown_value):
    with pytest.raises(ConfigError, match=shown_value):
        load_config({"dataset": {"type": "beir", "path": "data", "split": value}})


def test_live_retrievers_count(config_folder):
    source = {
        "dataset": {"type": "beir", "path": "data"},
        "generators": {"g": {"type": "extractive", "retrievers": ["mine"]}},
    }

    config = load_config(source, live_retrievers=["mine"])

    assert config.generators["g"].retrievers == ("mine",)
    with pytest.raises(ConfigError, match="no retriever 'mine'"):
        load_config(source)


def test_records_need_no_retriever(config_folder):
    (config_folder / "qa.jsonl").write_text("{}\n", encoding="utf-8")

    config = load_config({"dataset": {"type": "records", "path": "qa.jsonl"}})

    assert config.retrievers == {}


def test_columns_are_checked_with_their_places(lines, config_folder, assert_message):
    (config_folder / "qa.jsonl").write_text("{}\n", encoding="utf-8")

    assert_message(lines("dataset: {type: records, path: qa.jsonl, columns: {qestion: q}}\n"))
    assert_message(lines("dataset: {type: records, path: qa.jsonl, columns: {id: 3}}\n"))


def test_a_file_of_stop_words_is_relative_to_the_config(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.txt").write_text("moon\n")
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "text": "x"}\n')
    (tmp_path / "configs" / "c.yaml").write_text(
        "dataset: {type: beir, path: ..}\n"
        "retrievers:\n"
        "  mine: {type: bm25, stopwords: mine.txt}\n"
        "  german: {type: bm25, stopwords: german}\n"
    )
    monkeypatch.chdir(tmp_path)

    retrievers = load_config("configs/c.yaml").retrievers

    assert retrievers["mine"].options["stopwords"] == str(tmp_path / "configs" / "mine.txt")
    assert retrievers["german"].options["stopwords"] == "german"
