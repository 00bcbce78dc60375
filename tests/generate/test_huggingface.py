"""`type: huggingface` on a tiny model with random weights, which the test builds."""

import pytest

from ragbench.errors import OptionError
from ragbench.generate.huggingface import HuggingfaceGenerator
from ragbench.llm import CallFailure
from ragbench.registry import check_repeat
from ragbench.types import Cause, Document, Query, Usage
from ragbench.types.records import without_reasoning

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

PASSAGES = [Document("1", "io has volcanoes and more"), Document("2", "europa has an ocean")]


def generator(model, **options):
    defaults = {"system": "", "max_tokens": 5, "device": "cpu"}
    return HuggingfaceGenerator(model=model, **{**defaults, **options})


def test_greedy_answers_are_those_of_transformers(tiny_gpt):
    # The library itself, asked with the same tokens
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    gpt = generator(tiny_gpt)
    prediction = gpt.generate("which moon ?", PASSAGES)

    tokenizer = AutoTokenizer.from_pretrained(tiny_gpt)
    model = AutoModelForCausalLM.from_pretrained(tiny_gpt)
    text = gpt.prompt.messages("which moon ?", PASSAGES)[-1].content + "\n\nAnswer:"
    tokens = tokenizer.encode(text)
    for _ in range(5):
        with torch.no_grad():
            best = int(model(torch.tensor([tokens])).logits[0, -1].argmax())
        tokens.append(best)
        if best == 1:
            break
    n_new = len(tokens) - len(tokenizer.encode(text))
    expected = tokenizer.decode(tokens[-n_new:], skip_special_tokens=True).strip()
    assert prediction.answer == expected
    assert prediction.usage == Usage(len(tokenizer.encode(text)), n_new, 0.0)
    assert prediction.contexts == PASSAGES


def test_a_seed_fixes_an_answer_whatever_was_asked_before(tiny_gpt):
    import torch

    gpt = generator(tiny_gpt, temperature=1.5, max_tokens=8)
    state = torch.random.get_rng_state()
    first = gpt.generate("which moon ?", PASSAGES)
    gpt.generate("ocean ?", [])

    assert gpt.generate("which moon ?", PASSAGES).answer == first.answer
    other_answers = {
        generator(tiny_gpt, temperature=1.5, max_tokens=8, seed=seed)
        .generate("which moon ?", PASSAGES)
        .answer
        for seed in range(4)
    }
    assert len(other_answers) > 1
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's seed is untouched"


def test_passages_are_cut_by_the_models_own_tokens(tiny_gpt):
    prediction = generator(tiny_gpt, context_tokens=7).generate("which moon ?", PASSAGES)

    assert [document.text for document in prediction.contexts] == [
        "io has volcanoes and more",
        "europa has",
    ]


def test_a_model_reads_no_more_than_it_can(tiny_gpt, assert_message):
    long = [Document(str(n), "io has volcanoes and more " * 4) for n in range(5)]

    prediction = generator(tiny_gpt).generate("which moon ?", long)

    assert 0 < len(prediction.contexts) < 5
    assert prediction.usage.input_tokens <= 59
    with pytest.raises(CallFailure) as caught:
        generator(tiny_gpt).generate("moon " * 70, [])
    assert_message(caught.value)
    assert caught.value.cause is Cause.TOO_LONG


def test_reasoning_is_no_answer(tiny_gpt, monkeypatch, assert_message):
    # A local model writes reasoning between tags; if all tokens are reasoning, there is no answer
    gpt = generator(tiny_gpt)
    gpt.check()
    texts = iter([("<think>which ?</think>\n\nio", 5), ("<think>which", 5)])
    monkeypatch.setattr(gpt, "_continue", lambda *a, **o: next(texts))

    assert without_reasoning(gpt.generate("which moon ?", PASSAGES)).answer == "io"
    with pytest.raises(CallFailure) as caught:
        gpt.generate("which moon ?", PASSAGES)
    assert_message(caught.value)
    assert caught.value.cause is Cause.OUT_OF_TOKENS


def test_an_answer_ends_at_a_stop_text(tiny_gpt):
    whole = generator(tiny_gpt, max_tokens=12, temperature=2.0).generate("ocean ?", []).answer
    word = whole.split()[2]

    cut = generator(tiny_gpt, max_tokens=12, temperature=2.0, stop=[word])

    assert cut.generate("ocean ?", []).answer == whole.split(word, 1)[0].strip()


def test_what_an_answer_depends_on(tiny_gpt):
    parts = generator(tiny_gpt).signature_parts()

    assert parts["model"].startswith("sha256-")
    assert parts["prompt"] != generator(tiny_gpt, system="Be rude.").signature_parts()["prompt"]


def test_no_such_model(assert_message):
    with pytest.raises(OptionError) as caught:
        generator("/nowhere")
    assert_message(caught.value, "huggingface: model")


def test_a_further_answer_takes_the_next_seed(tiny_gpt, assert_message):
    options = {"temperature": 1.5, "max_tokens": 8}
    gpt, query = generator(tiny_gpt, seed=20, **options), Query("q", "which moon ?")
    answers = [gpt.generate_sample(query, PASSAGES, sample).answer for sample in range(3)]

    alone = [generator(tiny_gpt, seed=20 + n, **options) for n in range(3)]
    assert answers == [other.generate(query.text, PASSAGES).answer for other in alone]
    check_repeat(gpt, 3)
    with pytest.raises(OptionError) as caught:
        check_repeat(generator(tiny_gpt), 2)
    assert_message(caught.value, "huggingfacegenerator: repeat")
