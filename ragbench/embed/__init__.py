"""Vectors of texts: models by folder or hub name, sentence embeddings, vectors of tokens.

Shared by what compares texts by meaning; torch and what stands on it load on first use.
"""
