"""BERTScore against bert-score of each pair alone, on a real model and on a tiny one."""

import gzip
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ragbench as rb
from ragbench.embed.base import find_checkpoint
from ragbench.embed.encoders import TokenEncoder
from ragbench.errors import DataError, OptionError
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.notation import text_notes
from ragbench.score.text.token_vectors import EncodedTexts
from tests.models import build_tiny_bert, build_tiny_gpt
from tests.score.text.scoring import score_texts

PAIRS = [
    ("the cat sat on the mat", "the dog sat on a mat !"),
    ("é 东京", "京 东 é"),
    ("cats ran", "the cat ran the dog ran the cat ran on the mat " * 4),
    ("xyz", "the cat"),
    ("the cat sat on the mat", "the cat sat on the mat"),
    ("the " * 700, "a dog"),
    ("a", "[SEP] cat [CLS]"),
]
PREDICTIONS, REFERENCES = (list(side) for side in zip(*PAIRS, strict=True))


class Oracle:
    """bert-score, one pair per call: what a pair has alone."""

    def __init__(self, model, num_layers, **options):
        import bert_score

        self.scorer = bert_score.BERTScorer(
            model_type=model, num_layers=num_layers, device="cpu", nthreads=0, **options
        )
        # bert-score fails where the tokeniser has no limit; this is the mend that its users know
        limit = self.scorer._model.config.max_position_embeddings
        self.scorer._tokenizer.model_max_length = min(
            self.scorer._tokenizer.model_max_length, limit
        )

    def __call__(self, predictions, references):
        rows = []
        for prediction, gold in zip(predictions, references, strict=True):
            alone = self.scorer.score([prediction], [gold])
            rows.append([part.item() for part in alone])
        return np.array(rows)


def assert_equal(scores, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.array(scores), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("layer", [1, 2])
def test_agrees_with_bert_score_on_a_tiny_model(tiny_bert, layer):
    # Unicode, cut texts, special tokens inside a text, tokens that the model does not know
    ours = rb.bertscore(PREDICTIONS, REFERENCES, model=tiny_bert, num_layers=layer, device="cpu")

    assert_equal(ours, Oracle(tiny_bert, layer)(PREDICTIONS, REFERENCES))


def test_agrees_with_bert_score_on_a_real_model(minilm, lent_data):
    folder = lent_data / "bert-score-example"
    predictions, first, second = (
        (folder / name).read_text(encoding="utf-8").splitlines()[:4]
        for name in ("hyps.txt", "refs.txt", "refs2.txt")
    )
    several = [list(texts) for texts in zip(first, second, strict=True)]
    with (
        gzip.open(folder / "hyps_long.txt.gz", "rt", encoding="utf-8") as answers,
        gzip.open(folder / "refs_long.txt.gz", "rt", encoding="utf-8") as gold,
    ):
        predictions += answers.read().splitlines()[::800]
        several += [[text] for text in gold.read().splitlines()[::800]]

    scores = rb.bertscore(predictions, several, model=minilm, num_layers=6, device="cpu")

    assert_equal(scores, Oracle(minilm, 6)(predictions, several))


def test_agrees_with_bert_score_with_idf(tiny_bert):
    # Weights from all references, a repeated one counted twice
    predictions, references = [*PREDICTIONS, "a cat"], [*REFERENCES, REFERENCES[0]]
    oracle = Oracle(tiny_bert, 2, idf=True, idf_sents=None)
    oracle.scorer.compute_idf(references)

    ours = rb.bertscore(predictions, references, model=tiny_bert, num_layers=2, idf=True)

    assert_equal(ours, oracle(predictions, references))


@pytest.fixture
def baseline(tmp_path):
    path = tmp_path / "baseline.tsv"
    path.write_text("LAYER,P,R,F\n0,0.5,0.5,0.5\n1,0.3,0.2,0.25\n2,0.61,0.47,0.53\n")
    return str(path)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # bert-score's
def test_agrees_with_bert_score_rescaled(tiny_bert, baseline):
    options = {"lang": "en", "rescale_with_baseline": True, "baseline_path": baseline}
    ours = rb.bertscore(
        PREDICTIONS, REFERENCES, model=tiny_bert, num_layers=2, rescale=True, baseline=baseline
    )

    assert_equal(ours, Oracle(tiny_bert, 2, **options)(PREDICTIONS, REFERENCES))


def test_several_references_give_the_best_of_each_part(tiny_bert):
    scorer = rb.BERTScorer(tiny_bert, num_layers=2, device="cpu")
    gold = ["the cat sat", "a dog ran on the mat", ""]
    (best,) = scorer.score(["the dog"], [gold])
    scores_of_first = scorer.score(["the dog"] * 2, gold[:2])

    assert_equal(best, [max(part) for part in zip(*scores_of_first, strict=True)], 1e-6)


@pytest.mark.parametrize("options", [{}, {"idf": True}])
def test_empty_texts_score_0(tiny_bert, baseline, options):
    predictions, references = ["", "cat", " \n", "cat", "cat"], ["cat", "", "", ["", "cat"], "cat"]
    scores = rb.bertscore(predictions, references, model=tiny_bert, num_layers=2, **options)

    assert scores[:3] == [(0, 0, 0)] * 3
    assert scores[3] == scores[4]
    rescaled = rb.bertscore(
        [""], ["cat"], model=tiny_bert, num_layers=2, rescale=True, baseline=baseline
    )
    assert rescaled == [(0, 0, 0)]


def test_tokens_of_every_reference_weigh_nothing(tiny_bert):
    # One reference: log((1 + 1) / (1 + 1)) = 0 for each of its tokens
    ((precision, recall, fmeasure),) = rb.bertscore(
        ["dog"], ["cat"], model=tiny_bert, num_layers=2, idf=True
    )

    assert precision != 0, "the reference does not have the token of the prediction"
    assert (recall, fmeasure) == (0, 0)


def test_a_pair_has_one_score_whatever_it_is_computed_with(tiny_bert):
    alone = rb.BERTScorer(tiny_bert, num_layers=2, device="cpu", batch_tokens=1)
    together = rb.BERTScorer(tiny_bert, num_layers=2, device="cpu", batch_tokens=5000)
    expected = [alone.score([p], [r])[0] for p, r in PAIRS]

    assert_equal(together.score(PREDICTIONS, REFERENCES), expected, 1e-6)
    assert_equal(together.score(PREDICTIONS[::-1], REFERENCES[::-1]), expected[::-1], 1e-6)


def count_encoded(scorer):
    """The texts that a scorer's model computes from now on."""
    encoded = []

    def hook(module, arguments, keywords):
        encoded.extend(map(tuple, (arguments[0] * keywords["attention_mask"]).tolist()))

    scorer._encoder._model.register_forward_pre_hook(hook, with_kwargs=True)
    return encoded


def test_each_distinct_text_is_computed_once_and_references_stay(tiny_bert, tmp_path):
    folder = shutil.copytree(tiny_bert, tmp_path / "copy")
    # batches of another size, so that the loaded model is not one that other tests use
    scorer = rb.BERTScorer(str(folder), num_layers=2, device="cpu", batch_tokens=1)
    encoded = count_encoded(scorer)
    gold = ["the cat", "a dog ran", "the cat", "on the mat"]

    scorer.score(["cat", "dog", "dog", "on the mat"], gold)
    assert len(encoded) == 5, "the cat, a dog ran, on the mat, cat, dog"
    scorer.score(["ran", "cat", "the mat", "the cat"], gold)
    assert len(encoded) == 5 + 3, "ran, cat, the mat"


def test_references_beyond_the_room_for_them_are_computed_again(tiny_bert):
    encoder = TokenEncoder(find_checkpoint("bertscore", tiny_bert), 2, device="cpu")
    vectors = {}
    for room in (0, 10_000):
        texts = EncodedTexts(encoder, kept_bytes=room)
        rows = [("cat", ("the cat",)), ("dog", ("the cat", "dog"))]
        tokens = texts.tokens(["cat", "dog", "the cat"])
        for block, rows_of_block in texts.blocks(rows, tokens):
            assert sorted(block) == [0, 1]
            vectors[room] = dict(rows_of_block)
        assert set(texts._vectors) == (set() if room == 0 else {"the cat", "dog"})

    assert_equal(vectors[0]["the cat"], vectors[10_000]["the cat"], 1e-6)


def test_a_folder_named_after_another_model_is_what_its_configuration_says(tmp_path, tiny_bert):
    folder = shutil.copytree(tiny_bert, tmp_path / "my-t5-small")

    renamed = rb.bertscore(["the cat"], ["a dog"], model=str(folder), num_layers=2)
    assert renamed == rb.bertscore(["the cat"], ["a dog"], model=tiny_bert, num_layers=2)


@pytest.mark.slow(torch=True)
def test_an_empty_text_scores_0_with_a_model_without_start_and_end_tokens(tmp_path):
    scorer = rb.BERTScorer(build_tiny_gpt(tmp_path / "gpt"), num_layers=1, device="cpu")

    scores = scorer.score(["", "io", "io"], ["io", "", "io"])
    assert_equal(scores, [[0, 0, 0], [0, 0, 0], [1, 1, 1]])


def test_threads_may_share_a_scorer(tiny_bert):
    scorer = rb.BERTScorer(tiny_bert, num_layers=2, device="cpu")
    expected = scorer.score(PREDICTIONS, REFERENCES)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(scorer.score, PREDICTIONS, REFERENCES) for _ in range(8)]

    for call in calls:
        assert_equal(call.result(), expected, 1e-6)


def test_progress_counts_every_row(tiny_bert):
    progress = []
    scorer = rb.BERTScorer(tiny_bert, num_layers=2, device="cpu", batch_tokens=8)
    scorer.score(PREDICTIONS * 3, REFERENCES * 3, advance=progress.append)

    assert sum(progress) == 3 * len(PAIRS)
    assert len(progress) > 1


@pytest.mark.parametrize(
    ("predictions", "references"),
    [
        pytest.param("a", ["b"], id="text"),
        pytest.param(["a"], [], id="lengths"),
        pytest.param([None], ["a"], id="None"),
        pytest.param(["a"], [[]], id="no reference"),
    ],
)
def test_texts_that_cannot_be_paired(tiny_bert, predictions, references, assert_message):
    with pytest.raises(DataError) as caught:
        rb.bertscore(predictions, references, model=tiny_bert, num_layers=2)
    assert_message(caught.value)


def metric_name(model, options="", part=""):
    return f'bertscore(model="{model}",num_layers=2,device=cpu{options}){part}'


def test_as_a_metric_it_gives_the_same(tiny_bert):
    names = [metric_name(tiny_bert), metric_name(tiny_bert, part=".precision")]
    names.append(metric_name(tiny_bert, part=".recall"))
    fmeasure, precision, recall = score_texts(
        [*PREDICTIONS, None, "a"], [*([r] for r in REFERENCES), ["a"], []], names
    )
    expected = rb.bertscore(PREDICTIONS, REFERENCES, model=tiny_bert, num_layers=2)

    scores = np.stack([precision.values, recall.values, fmeasure.values], axis=1)
    assert_equal(scores[:-2], expected, 1e-6)
    assert np.isnan(scores[-2:]).all()
    assert (fmeasure.low, fmeasure.high) == (-1, 1)


def test_idf_weighs_by_all_references_also_where_a_system_has_no_answer(tiny_bert):
    # Otherwise two systems would be scored with different weights under one signature
    scorer = TextScorer([metric_name(tiny_bert, ",idf=true")])
    gold = [["the cat sat"], ["a dog ran"], ["the mat"]]
    (whole,) = scorer.score(["the cat", "a cat", "a mat"], gold)
    (partial,) = scorer.score(["the cat", None, "a mat"], gold)
    alone = rb.bertscore(
        ["the cat", "a cat", "a mat"], gold, model=tiny_bert, num_layers=2, idf=True
    )

    assert_equal(whole.values, [score.fmeasure for score in alone], 1e-6)
    assert whole.values.all()
    assert_equal(partial.values[[0, 2]], whole.values[[0, 2]], 1e-6)
    assert partial.signature == whole.signature


def signed(name, gold="a"):
    (column,) = score_texts(["x"], [[gold]], [name])
    return dict(column.signature.parts)


def test_the_signature_has_what_the_numbers_depend_on(tiny_bert, tmp_path, baseline):
    plain = signed(metric_name(tiny_bert))
    copy = shutil.copytree(tiny_bert, tmp_path / "elsewhere")
    other = build_tiny_bert(tmp_path / "other", seed=4)

    assert plain["model"].startswith("sha256-")
    assert (plain["layer"], plain["idf"], plain["rescale"]) == ("2", "no", "no")
    assert signed(metric_name(copy, ",batch_tokens=9")) == plain, "neither place nor batch"
    assert signed(metric_name(other)) != plain
    assert signed(metric_name(tiny_bert), gold="b") != plain
    assert signed(f'bertscore(model="{tiny_bert}",num_layers=1)') != plain
    assert signed(metric_name(tiny_bert, ",idf=true")) != plain
    rescaled = metric_name(tiny_bert, f',rescale=true,baseline="{baseline}"')
    assert signed(rescaled)["rescale"] not in ("no", "yes")
    assert score_texts(["x"], [["a"]], [rescaled])[0].low == -np.inf


def test_texts_that_were_cut_are_counted(tiny_bert, assert_message):
    name = metric_name(tiny_bert)
    (note,) = text_notes(["the " * 600, "a"], [["the " * 511], ["b"]], [name])

    assert_message(note)
    assert text_notes(["the " * 510], [["b"]], [name]) == []


def test_a_gpu_that_is_not_there_is_refused(tiny_bert, assert_message):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(OptionError) as caught:
        rb.bertscore(["a"], ["a"], model=tiny_bert, num_layers=2, device="cuda")
    assert_message(caught.value, "bertscore: device")


def test_a_gpu_gives_the_same_scores(tiny_bert):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU here")
    on_cpu, on_gpu = (
        rb.bertscore(PREDICTIONS, REFERENCES, model=tiny_bert, num_layers=2, device=device)
        for device in ("cpu", "cuda")
    )
    assert_equal(on_gpu, on_cpu)
