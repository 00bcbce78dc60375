"""Scores: measures of rankings, metrics of answers, and judges, each a column of values."""
