"""Stages of a run: retrieve, answer, judge, score, compare, and find causes."""
