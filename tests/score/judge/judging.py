"""Rubrics applied to items, and the columns of scores that they make."""

from ragbench.score.judge.verdicts import collect_verdicts, judge_all


def judge_items(judge, items, rubrics, *, type_name):
    verdicts = judge_all(judge, items, rubrics)
    return collect_verdicts(judge, items, rubrics, verdicts, type_name=type_name)
