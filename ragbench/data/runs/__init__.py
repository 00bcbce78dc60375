"""Readers and writers of run folders, their scores and summaries, and baseline files."""
