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
    named = dict(enumerate(labels))
    model = BertForSequenceClassification(
        _config(positions, id2label=named, label2id={name: n for n, name in named.items()})
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
