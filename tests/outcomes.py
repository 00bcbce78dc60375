"""Outcomes of retrievers and generators as lists; the package itself holds no outcomes."""

from ragbench.experiment.stages import answers, retrieval


def in_order(numbered):
    """The outcomes of pairs of position and outcome, in the order of the items."""
    return [outcome for _, outcome in sorted(numbered, key=lambda pair: pair[0])]


def retrieve(retriever, queries, top_k, calls, rankings=None):
    return in_order(retrieval.retrieve(retriever, queries, top_k, calls, rankings))


def generate(generator, queries, contexts, calls):
    """Return the answer to each query from its passages."""
    tasks = [answers.GeneratorRequest(*pair, 0) for pair in zip(queries, contexts, strict=True)]
    return in_order(answers.generate(generator, tasks, calls))
