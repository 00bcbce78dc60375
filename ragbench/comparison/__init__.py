"""Systems and their scores: summaries, paired comparisons, the set tied with the best."""
