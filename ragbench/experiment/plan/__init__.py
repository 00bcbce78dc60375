"""Plan of a run: its systems, scores and judges, resolved before the first query is asked."""
