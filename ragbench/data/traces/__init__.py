"""Traces of tracing tools: their spans, in one form, and what part each played."""
