"""Vectors of texts, for what compares them by meaning; torch loads on first use."""
