"""Vectors of texts, for components that compare by meaning; torch is imported on first use."""
