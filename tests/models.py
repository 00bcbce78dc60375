"""Tiny models that the tests build: random weights, a few words."""

import string

WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "ran", "##s", "##ing", "é", "东", "京", "!"]
NLI_LABELS = ("contradiction", "entailment", "neutral")
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *string.ascii_lowercase[1:]]


def build_tiny_bert(folder, *, max_length=None, positions=512, seed=3):
    """A BERT of two layers; without `max_length` its tokeniser has no limit of its own."""
    import torch
    from transformers import BertModel

    torch.manual_seed(seed)
    return _saved(BertModel(_config(positions)), folder, max_length)


def build_tiny_nli(folder, *, labels=NLI_LABELS, max_length=None, positions=64, seed=31):
    """The same with a head for pairs of texts: a quarter or more of them for each label."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    by_number = dict(enumerate(labels))
    model = BertForSequenceClassification(
        _config(positions, id2label=by_number, label2id={name: n for n, name in by_number.items()})
    )
    with torch.no_grad():  # random weights hardly tell texts apart: pull them apart
        for name, weights in model.named_parameters():
            if weights.dim() == 2 and "position" not in name:
                weights.mul_(20)
    return _saved(model, folder, max_length)


def _config(positions, **options):
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
        **options,
    )


def _saved(model, folder, max_length):
    from transformers import BertTokenizerFast

    limit = {} if max_length is None else {"model_max_length": max_length}
    tokenizer = BertTokenizerFast(vocab={w: i for i, w in enumerate(VOCABULARY)}, **limit)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def build_tiny_embedder(folder, *, prompts=None, seed=3):
    """A sentence-transformers model: the tiny BERT, and the mean of its tokens, not normalised."""
    from sentence_transformers import SentenceTransformer

    bert = build_tiny_bert(f"{folder}-bert", max_length=64, seed=seed)
    SentenceTransformer(bert, prompts=prompts, device="cpu").save(str(folder))
    return str(folder)


def build_tiny_cross_encoder(folder, *, labels=1, positions=64, seed=3):
    """A BERT of two layers that gives a pair `labels` numbers."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
        num_labels=labels,
        initializer_range=0.4,  # so that scores differ
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab={w: i for i, w in enumerate(VOCABULARY)}).save_pretrained(folder)
    return str(folder)


PROMPT_WORDS = ["io", "has", "volcanoes", "and", "more", "europa", "an", "ocean", "which", "moon"]
PROMPT_WORDS += ["?", "Question", ":", "Answer", "[1]", "[2]"]


def build_tiny_gpt(folder):
    """A GPT-2 of one layer, 64 positions, words as tokens."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<unk>", "<end>", *PROMPT_WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<end>"
    ).save_pretrained(folder)
    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=len(vocabulary),
        n_positions=64,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def build_tiny_tagger(folder, *, positions=64, seed=31):
    """The tiny BERT with two classes for each token, as LettuceDetect's models have them."""
    import torch
    from transformers import BertForTokenClassification

    torch.manual_seed(seed)
    model = BertForTokenClassification(_config(positions, num_labels=2))
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.dim() == 2 and "position" not in name:
                weights.mul_(20)
    return _saved(model, folder, 64)


def build_tiny_t5(folder, *, kind="T5ForConditionalGeneration", wrapped=False, seed=5):
    """A T5 of one layer whose tokeniser has words as tokens and reads 64 of them.

    `wrapped`: as HHEM-2.1 is published: its weights have another prefix, its configuration is of a
    type that transformers lacks, and its tokeniser is that of its `foundation`.
    """
    import json
    from pathlib import Path

    import torch
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    words = ["<pad>", "</s>", "<unk>", "no", "yes", "predict", "Determine", "Premise", ":", *WORDS]
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    config = transformers.T5Config(
        vocab_size=256, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, num_labels=2,
        decoder_start_token_id=0, initializer_factor=1.0,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(config)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>", pad_token="<pad>",
        model_max_length=64, model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip
    model.save_pretrained(folder)
    if not wrapped:
        return str(folder)
    from safetensors.torch import save_file

    outer = Path(f"{folder}-wrapped")
    outer.mkdir()
    weights = {f"t5.{name}": value.clone() for name, value in model.state_dict().items()}
    save_file(weights, outer / "model.safetensors", metadata={"format": "pt"})
    names = {"model_type": "HHEMv2", "architectures": ["HHEMv2ForSequenceClassification"]}
    (outer / "config.json").write_text(json.dumps({**names, "foundation": str(folder)}))
    return str(outer)
