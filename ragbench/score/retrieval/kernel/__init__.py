"""Joins a run with its judgements: ids, ranks and tie groups, all queries at once by arrays."""
