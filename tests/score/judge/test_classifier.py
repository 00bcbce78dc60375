"""The judge by a classifier: probabilities as the authors' code has them, on tiny models."""

import json

import pytest

import ragbench as rb
from ragbench.embed.base import Checkpoint
from ragbench.embed.classifier import InputForm, TextClassifier
from ragbench.errors import OptionError
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.judge.support import label_column
from tests.models import build_tiny_nli, build_tiny_t5, build_tiny_tagger

pytestmark = pytest.mark.slow(torch=True)

SUPPORTED = load_rubric("supported")
PASSAGES = ["a dog ran on the mat", "the cat sat", "the the dog"]
ANSWER = "the cat sat on the mat!"
LONG = "the cat sat on the mat " * 30 + "a dog ran"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("classifiers")
    return {
        "two": build_tiny_nli(root / "two", labels=("unsupported", "supported")),
        "minicheck-roberta": build_tiny_nli(root / "nameless", labels=("LABEL_0", "LABEL_1")),
        "minicheck-flan-t5": build_tiny_t5(root / "seq2seq"),
        "hhem": build_tiny_t5(root / "encoder", kind="T5ForTokenClassification", wrapped=True),
        "foundation": str(root / "encoder"),
        "lettucedetect": build_tiny_tagger(root / "tagger"),
    }


def _judge(folders, preset, **options):
    name = {} if preset == "two" else {"preset": preset}
    return rb.Judge(folders[preset], type="classifier", device="cpu", **name, **options)


def _class_probability(folder, *texts):
    """Softmax over the classes; the second one is "supported"."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")
    with torch.no_grad():
        logits = AutoModelForSequenceClassification.from_pretrained(folder)(**tokens).logits
    return float(logits.softmax(-1)[0, 1])


def _published(folders, preset, passage, text):
    """The probability by the code that the authors publish."""
    import torch
    import transformers

    folder = folders["foundation" if preset == "hhem" else preset]
    if preset == "two":
        return _class_probability(folder, passage, text)
    if preset == "minicheck-roberta":  # the end token of the tiny BERT
        return _class_probability(folder, f"{passage}[SEP]{text}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if preset == "hhem":
        prompt = "<pad> Determine if the hypothesis is true given the premise?\n\n"
        prompt += f"Premise: {passage}\n\nHypothesis: {text}"
        model = transformers.T5ForTokenClassification.from_pretrained(folder).eval()
        with torch.no_grad():
            logits = model(**tokenizer(prompt, return_tensors="pt")).logits
        return float(logits[:, 0, :].softmax(-1)[0, 1])
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokens = tokenizer(f"predict: {passage}</s>{text}", return_tensors="pt")
    first = torch.zeros((1, 1), dtype=torch.long)
    with torch.no_grad():
        logits = model(**tokens, decoder_input_ids=first).logits.squeeze(1)
    return float(logits[:, torch.tensor([3, 209])].softmax(-1)[0, 1])


@pytest.mark.parametrize("preset", ["two", "minicheck-roberta", "minicheck-flan-t5", "hhem"])
def test_the_score_is_the_probability_of_the_best_passage(folders, preset):
    expected = [_published(folders, preset, passage, ANSWER) for passage in PASSAGES]
    assert len({round(value, 4) for value in expected}) == 3, "the passages differ"

    [verdicts] = _judge(folders, preset).score_many([{"answer": ANSWER, "contexts": PASSAGES}])

    verdict = verdicts["supported"]
    assert list(verdicts) == ["supported"], "the default rubric"
    assert verdict.score == pytest.approx(max(expected), abs=1e-5)
    best = expected.index(max(expected)) + 1
    assert verdict.reasoning == f"supported with probability {max(expected):.3g}, by passage {best}"


def test_the_entailment_label_of_three_counts(tiny_nli):
    from sentence_transformers import CrossEncoder

    rows = CrossEncoder(tiny_nli, device="cpu").predict(
        [(passage, ANSWER) for passage in PASSAGES], apply_softmax=True, show_progress_bar=False
    )

    verdict = rb.Judge(tiny_nli, type="classifier").score(answer=ANSWER, contexts=PASSAGES)

    assert verdict["supported"].score == pytest.approx(rows[:, 1].max(), abs=1e-5)
    other_label = rb.Judge(tiny_nli, type="classifier", label="Contradiction")
    contradicted = other_label.score(answer=ANSWER, contexts=PASSAGES)["supported"].score
    assert contradicted == pytest.approx(rows[:, 0].max(), abs=1e-5)


@pytest.mark.parametrize("preset", ["two", "minicheck-flan-t5", "hhem"])
def test_a_long_passage_is_read_in_windows(folders, preset):
    # The answer stands at its end, far behind the 64 tokens that the models read
    judge = _judge(folders, preset)
    classifier = judge._judge._loaded()
    cut = classifier._cut_template if classifier._form.template else classifier._cut

    windows = list(cut(LONG, ANSWER))

    ran = classifier._tokenizer.convert_tokens_to_ids("ran")
    tokens = [window["input_ids"] for window in windows]
    assert [ran in ids for ids in tokens] == [False] * (len(tokens) - 1) + [True]
    assert len(tokens) > 3
    assert max(map(len, tokens)) <= 64
    assert 0 <= judge.score(answer=ANSWER, contexts=[LONG])["supported"].score <= 1


@pytest.mark.parametrize("preset", ["two", "minicheck-flan-t5", "hhem", "lettucedetect"])
def test_neighbours_do_not_move_a_bit(folders, preset):
    judge = _judge(folders, preset)._judge
    items = [
        JudgedItem("the cat?", answer, [*PASSAGES[:n], LONG])
        for n, answer in enumerate([ANSWER, "the mats ran! a dog sat", "東京"])
    ]

    together = judge.judge_all(items, [SUPPORTED])
    judge.close()

    for item, verdicts in zip(items, together, strict=True):
        assert judge.judge_all([item], [SUPPORTED]) == [verdicts]
        judge.close()


def test_unsupported_spans_are_those_of_the_authors_code(folders):
    import torch
    import transformers

    folder, answer = folders["lettucedetect"], "the cat sat on the dog. the mat ran! a dog"
    prompt = "\nSummarize the following text:\npassage 1: a dog ran\npassage 2: the cat\noutput:\n"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(prompt, answer, return_tensors="pt", return_offsets_mapping=True)
    offsets = tokens.pop("offset_mapping")[0].tolist()
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        probabilities = model(**tokens).logits.softmax(-1)[0, :, 1].tolist()
    start = len(offsets) - len(tokenizer(answer, add_special_tokens=False)["input_ids"]) - 1
    spans = []
    previous = False
    for (begin, end), value in list(zip(offsets, probabilities, strict=True))[start:-1]:
        if value >= 0.5 and previous:
            spans[-1] = (spans[-1][0], end, max(spans[-1][2], value))
        elif value >= 0.5:
            spans.append((begin, end, value))
        previous = value >= 0.5
    assert spans, "some of the text is unsupported"

    verdict = _judge(folders, "lettucedetect").score(
        answer=f"{answer} [1]", contexts=["a dog ran", "", "the cat"]
    )["supported"]

    assert verdict.score == pytest.approx(1 - max(probabilities[start:-1]), abs=1e-5)
    assert [claim.text for claim in verdict.claims] == [answer[b:e] for b, e, _ in spans]
    assert [claim.probability for claim in verdict.claims] == pytest.approx(
        [1 - value for _, _, value in spans], abs=1e-5
    )
    assert {claim.ruling for claim in verdict.claims} == {"not_mentioned"}
    assert f": {answer[spans[0][0] : spans[0][1]]}" in verdict.reasoning


def test_a_token_is_as_unsupported_as_in_its_worst_window(folders):
    # As the authors' code has it: the largest probability over the parts of a long prompt
    import torch
    import transformers

    judge = _judge(folders, "lettucedetect")._judge
    classifier = judge._loaded()
    windows = [
        {name: torch.tensor([ids]) for name, ids in window.items()}
        for window in classifier._cut(LONG, ANSWER)
    ]
    model = transformers.AutoModelForTokenClassification.from_pretrained(folders["lettucedetect"])
    size = len(classifier._places(ANSWER))
    with torch.no_grad():
        rows = [model(**window).logits.softmax(-1)[0, :, 1] for window in windows]
    tokens = torch.stack([row[-size - 1 : -1] for row in rows])
    assert len(windows) > 3
    assert float(tokens.max()) > float(tokens.min(0).values.max()), "the windows disagree"

    [(largest, _)] = classifier.spans([(LONG, ANSWER)])

    assert largest == pytest.approx(float(tokens.max()), abs=1e-5)


def test_tools_count_as_passages(folders, assert_message):
    judge = _judge(folders, "two")
    call = {"name": "look", "arguments": {}, "output": "the cat sat"}

    verdict = judge.score(question="?", answer=ANSWER, contexts=["a dog"], tool_calls=[call])

    assert_message(verdict["supported"].reasoning)


@pytest.mark.parametrize(
    ("item", "outcome"),
    [
        ({"answer": "[1]", "contexts": PASSAGES}, (None, "no_claims")),
        ({"answer": ANSWER, "contexts": []}, (None, "no_contexts")),
        ({"contexts": PASSAGES}, (None, "no_answer")),
        ({"answer": ANSWER, "contexts": [" "]}, (0.0, "scored")),
    ],
)
def test_what_cannot_be_judged_has_a_cause(folders, item, outcome):
    verdict = _judge(folders, "two").score(**item)["supported"]

    assert (verdict.score, verdict.cause) == outcome


@pytest.mark.parametrize(
    ("labels", "label", "place"),
    [
        (("no", "yes"), None, "classifier: model"),
        (("LABEL_0", "LABEL_1", "LABEL_2"), None, "classifier: model"),
        (("no", "yes"), "maybe", "classifier: label"),
    ],
)
def test_a_model_without_the_label_is_refused_with_its_labels(labels, label, place, assert_message):
    with pytest.raises(OptionError) as caught:
        label_column(Checkpoint("classifier", "m", None), dict(enumerate(labels)), label)
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, "classifier: model"),
        ({"preset": "gpt"}, "classifier: preset"),
        ({"model": "./nowhere"}, "classifier: model"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        rb.Judge(type="classifier", **options)
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("preset", "folder"), [("hhem", "two"), ("lettucedetect", "two"), ("two", "minicheck-flan-t5")]
)
def test_a_model_of_another_kind_is_refused(folders, preset, folder):
    with pytest.raises(OptionError, match="classifier: model: found "):
        _judge({**folders, preset: folders[folder]}, preset).score(answer="a", contexts=["b"])


def test_weights_that_are_missing_are_an_error_not_random(folders, tmp_path, assert_message):
    # The encoder of another model: its classes would be drawn at random
    from tests.models import build_tiny_bert

    folder = build_tiny_bert(tmp_path / "bert")
    with pytest.raises(OptionError) as caught:
        TextClassifier(
            Checkpoint("x", folder, tmp_path / "bert"), lambda c, n: [0], form=InputForm()
        )
    assert_message(caught.value, "x: model")


def test_in_an_experiment_verdicts_and_signature_are_stored(folders, tmp_path):
    rows = [
        {"id": f"q{n}", "question": "the cat", "contexts": PASSAGES, "answer": answer}
        for n, answer in enumerate([ANSWER, "a dog ran", "the mat"])
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = {"type": "classifier", "model": folders["lettucedetect"], "preset": "lettucedetect"}
    config = {
        "name": "local",
        "dataset": {"type": "records", "path": str(tmp_path / "r.jsonl")},
        "metrics": {"judge": judge},
        "output": str(tmp_path / "runs"),
    }

    result = rb.run_experiment(config)

    [system] = json.loads((result.path / "summary.json").read_text(encoding="utf-8"))["systems"]
    score = system["scores"]["supported"]
    assert score["n"] == 3
    assert "|judge:classifier|model:sha256-" in score["signature"]
    assert "|preset:lettucedetect" in score["signature"]
    [path] = (result.path / "judgements").glob("*.jsonl")
    stored = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    claims = [claim for row in stored for claim in row.get("claims", [])]
    assert claims
    assert all(0 <= claim["probability"] <= 0.5 for claim in claims)
