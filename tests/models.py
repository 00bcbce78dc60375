"""Tiny models that the tests build: random weights, a few words."""

import string

WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "ran", "##s", "##ing", "é", "东", "京", "!"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *string.ascii_lowercase[1:]]


def build_tiny_bert(folder, *, max_length=None, positions=512, seed=3):
    """A BERT of two layers; without `max_length` its tokeniser has no limit of its own."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    limit = {} if max_length is None else {"model_max_length": max_length}
    tokenizer = BertTokenizerFast(vocab={w: i for i, w in enumerate(VOCABULARY)}, **limit)
    BertModel(config).save_pretrained(folder)
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
