"""Audit of a test set without a model: suspected faults with their places."""
