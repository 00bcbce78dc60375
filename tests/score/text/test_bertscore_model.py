"""The layer table and the baselines of BERTScore against the installed bert-score."""

import pytest

from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.score.text.bertscore import (
    choose_layer,
    find_baseline,
    layer_table,
    read_baseline,
)

pytestmark = pytest.mark.slow(torch=True)  # seconds in all: real runs, servers or many made cases


def test_the_table_is_that_of_bert_score():
    utils = pytest.importorskip("bert_score.utils")

    assert layer_table() == utils.model2layers


def test_the_default_model_is_that_of_bert_score():
    utils = pytest.importorskip("bert_score.utils")
    from ragbench.score.text.bertscore import DEFAULT_MODEL

    assert utils.lang2model["en"] == DEFAULT_MODEL


def test_no_table_is_read_without_bert_score(monkeypatch, tmp_path):
    """The work folder of a user may hold a `utils.py` of its own."""
    (tmp_path / "utils.py").write_text("model2layers = {'roberta-large': 1}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragbench.score.text.bertscore.find_spec", lambda name: None)
    layer_table.cache_clear()

    with pytest.raises(MissingExtra, match=r"ragbench-eval\[bertscore\]"):
        choose_layer("roberta-large", None)


@pytest.mark.parametrize(
    ("model", "layer", "expected"),
    [
        pytest.param("roberta-large", None, 17, id="the table's"),
        pytest.param("roberta-large", 3, 3, id="what is given"),
        pytest.param("FacebookAI/roberta-large", None, 17, id="under its owner on the hub"),
        pytest.param("microsoft/deberta-base", None, 9, id="listed with its owner"),
    ],
)
def test_layers(model, layer, expected):
    assert choose_layer(model, layer) == expected


def test_a_model_without_a_layer_says_so(assert_message):
    with pytest.raises(OptionError) as caught:
        choose_layer("roberta-bse", None)
    assert_message(caught.value, "bertscore: num_layers")
    with pytest.raises(OptionError) as caught:
        choose_layer("someone/roberta-large", None)
    assert_message(caught.value, "bertscore: num_layers")


@pytest.mark.parametrize(
    ("model", "language"),
    [("roberta-large", "en"), ("bert-base-chinese", "zh"), ("microsoft/deberta-base", "en")],
)
def test_the_baselines_are_those_that_bert_score_ships(model, language):
    bert_score = pytest.importorskip("bert_score")
    pandas = pytest.importorskip("pandas")
    from pathlib import Path

    folder = Path(bert_score.__file__).parent / "rescale_baseline"
    table = pandas.read_csv(folder / language / f"{model}.tsv")
    layer = choose_layer(model, None)

    baseline = read_baseline(find_baseline(model, language), layer)
    assert baseline == pytest.approx(tuple(table.iloc[layer])[1:])


@pytest.mark.parametrize(
    ("model", "baseline"),
    [
        pytest.param("roberta-large", "tlh", id="tlh"),
        pytest.param("mine", "en", id="mine"),
    ],
)
def test_a_baseline_that_is_not_there_says_so(model, baseline, assert_message):
    pytest.importorskip("bert_score")

    with pytest.raises(OptionError) as caught:
        find_baseline(model, baseline)
    assert_message(caught.value, "bertscore: baseline")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("LAYER,P,R,F\n0,0.1,0.2,0.3\n", id="short"),
        pytest.param("LAYER,P\n0,0.1\n1,0.1\n", id="columns"),
        pytest.param("LAYER,P,R,F\n0,a,b,c\n1,a,b,c\n", id="words"),
        pytest.param("LAYER,P,R,F\n0,1,1,1\n1,1,1,1\n", id="1 divides by 0"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, assert_message):
    path = tmp_path / "baseline.tsv"
    path.write_text(content)

    with pytest.raises(DataError) as caught:
        read_baseline(find_baseline("mine", str(path)), 1)
    assert_message(caught.value, "TMP/baseline.tsv")
