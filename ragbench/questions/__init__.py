"""Questions made from documents: passages, prompts, candidates and the checks that they pass.

A model reads a passage and writes a question with its answer and a verbatim quote; `checks` has the
rules by which a candidate is kept. Without a model, `known_item` writes queries of rare terms.
"""
