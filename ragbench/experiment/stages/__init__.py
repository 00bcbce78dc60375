"""What a run does, stage by stage: retrieve, answer, judge, score, compare."""
