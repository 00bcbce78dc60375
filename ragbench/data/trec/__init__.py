"""Runs and qrels in the files of TREC: read exactly, quickly, in constant memory."""
