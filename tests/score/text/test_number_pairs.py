"""200 answers with numbers beside gold answers, by all that decides whether an answer is right."""

import itertools
import re

import pytest

import ragbench as rb
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.passage_matching import answer_hit
from ragbench.score.text.gold_words import GoldWords
from tests.score.text.number_pairs import RIGHT, WRONG


def test_half_of_the_pairs_are_right():
    assert (len(RIGHT), len(WRONG), len({pair[:2] for pair in RIGHT + WRONG})) == (100, 100, 200)


@pytest.mark.parametrize(("value", "pairs"), [(1.0, RIGHT), (0.0, WRONG)])
def test_all_rules_decide_alike(value, pairs):
    for answer, gold, why in pairs:
        decisions = {
            "contains": rb.contains(answer, gold),
            "hit": answer_hit(RetrievedPassages([[answer]], [[gold]]))[0],
            "gold words": float(GoldWords([gold], "Which one?").share(answer).reaches(0.4)),
        }
        assert decisions == dict.fromkeys(decisions, value), (answer, gold, why)


def test_the_rules_of_the_page_hold(repository):
    page = (repository / "docs" / "languages.md").read_text(encoding="utf-8")
    rows = page.partition("| rule | equal | not equal |\n")[2].partition("\n\n")[0].splitlines()[1:]

    columns = zip(*(row.split(" | ")[1:] for row in rows), strict=True)
    for value, cells in zip((1.0, 0.0), columns, strict=True):
        groups = [re.findall("`(.*?)`", group) for cell in cells for group in cell.split(";")]
        pairs = [pair for group in groups for pair in itertools.permutations(group, 2)]
        assert len(pairs) >= 18
        assert {pair: rb.contains(*pair) for pair in pairs} == dict.fromkeys(pairs, value)
