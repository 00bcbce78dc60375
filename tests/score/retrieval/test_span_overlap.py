"""Overlap with gold spans: against a bit per character, and values worked by hand."""

import json
import math
import random
from math import isnan
from pathlib import Path

import numpy as np
import pytest

import ragbench as rb
from ragbench.errors import OptionError
from ragbench.score.retrieval import span_overlap
from ragbench.score.retrieval.base import RetrievedSpans
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.retrieval.score_run import Rules, score_passages
from ragbench.types import Cause, Span

WITHOUT_REFERENCE = dict.fromkeys(
    ("span_recall", "span_precision", "span_iou"),
    "the formulas of Chroma, which has no package: 10,000 random cases against a bit for each "
    "character, and a published figure",
)
NAMES = ("span_recall", "span_precision", "span_iou")


def random_spans(chance, most):
    """Spans of up to three documents of 40 characters; some empty, many overlapping."""
    spans = []
    for _ in range(chance.randint(0, most)):
        start, end = sorted((chance.randint(0, 40), chance.randint(0, 40)))
        spans.append(Span(chance.choice("abc"), start, end))
    return spans


def bits(spans):
    """A bit per character: documents lie side by side in one integer."""
    mask = 0
    for span in spans:
        shift = 40 * "abc".index(span.document)
        mask |= ((1 << (span.end - span.start)) - 1) << (span.start + shift)
    return mask


def by_bits(hits, gold, k):
    retrieved, relevant = bits(hits[:k]), bits(gold)
    if not relevant:
        return dict.fromkeys(NAMES, math.nan)
    both = (retrieved & relevant).bit_count()
    return {
        "span_recall": both / relevant.bit_count(),
        "span_precision": both / retrieved.bit_count() if retrieved else 0.0,
        "span_iou": both / (retrieved | relevant).bit_count(),
    }


def test_random_cases_equal_a_bit_per_character():
    chance = random.Random(13)
    cases = [(random_spans(chance, 6), random_spans(chance, 4)) for _ in range(1_000)]
    record = RetrievedSpans(*zip(*cases, strict=True))
    k = 3

    expected = [by_bits(hits, gold, k) for hits, gold in cases]

    for name in NAMES:
        values = getattr(span_overlap, name)(record, k=k)
        np.testing.assert_array_equal(values, [case[name] for case in expected])
    for (hits, gold), case in zip(cases[:100], expected, strict=False):
        for name in NAMES:
            mappings = [{"document": s.document, "start": s.start, "end": s.end} for s in hits]
            value = getattr(rb, name)(mappings, gold, k=k)
            assert value == case[name] or (isnan(value) and isnan(case[name]))


@pytest.mark.parametrize(
    ("hits", "k", "recall", "precision", "iou"),
    [
        pytest.param(
            [("d", 0, 10)], None, 10 / 40, 1.0, 10 / 40, id="10 of 40 gold, all retrieved"
        ),
        pytest.param([("d", 0, 80)], None, 1.0, 40 / 80, 40 / 80, id="80 hold all 40"),
        pytest.param(
            [("d", 0, 20), ("d", 10, 30)], None, 30 / 40, 1.0, 30 / 40, id="overlap counts once"
        ),
        pytest.param([("e", 0, 40)], None, 0.0, 0.0, 0.0, id="equal positions, other document"),
        pytest.param([("d", 50, 60), ("d", 0, 40)], 1, 0.0, 0.0, 0.0, id="gold behind the cut-off"),
        pytest.param(
            [("d", 50, 60), ("d", 0, 40)], 2, 1.0, 40 / 50, 40 / 50, id="gold at the cut-off"
        ),
        pytest.param([], 5, 0.0, 0.0, 0.0, id="nothing retrieved"),
        pytest.param([("d", 5, 5)], 5, 0.0, 0.0, 0.0, id="an empty passage"),
    ],
)
def test_values_worked_by_hand(hits, k, recall, precision, iou):
    hits, gold = [Span(*hit) for hit in hits], [Span("d", 0, 25), Span("d", 20, 40)]

    assert rb.span_recall(hits, gold, k=k) == recall
    assert rb.span_precision(hits, gold, k=k) == precision
    assert rb.span_iou(hits, gold, k=k) == iou


def test_a_query_has_no_value_without_gold_or_with_an_unplaced_passage_up_to_the_cut_off():
    gold, hit = Span("d", 0, 4), Span("d", 0, 2)
    record = RetrievedSpans([[hit], [None, hit], [hit, None], [None]], [[], [gold], [gold], []])

    columns = score_passages(record, parse_measures(["span_recall@1", "span_recall@2"]), Rules())

    none, lost, fine = Cause.NO_GOLD_SPAN, Cause.UNPLACED_PASSAGE, Cause.SCORED
    assert [column.causes.tolist() for column in columns] == [
        [none, lost, fine, none],
        [none, lost, lost, none],
    ]
    np.testing.assert_array_equal(columns[0].values, [np.nan, np.nan, 0.5, np.nan])


def test_the_signature_moves_with_the_gold_and_not_with_the_passages():
    def signature(hit, gold):
        record = RetrievedSpans([[Span("d", 0, hit)]], [gold])
        return str(score_passages(record, parse_measures("span_iou@3"), Rules())[0].signature)

    assert signature(2, [Span("d", 0, 4)]) == signature(3, [Span("d", 0, 4)])
    assert signature(2, [Span("d", 0, 4)]) != signature(2, [Span("d", 0, 5)])


@pytest.mark.parametrize("values", [["d1"], [("d", 0, 1)], [{"document": "d"}], [None], 3], ids=str)
def test_anything_but_spans_is_refused(values, assert_message):
    with pytest.raises(OptionError) as caught:
        rb.span_recall(values, [Span("d", 0, 1)])
    assert_message(caught.value)
    with pytest.raises(OptionError):
        rb.span_iou([Span("d", 0, 1)], values)


def test_a_measure_of_spans_needs_a_cut_off():
    with pytest.raises(OptionError, match="span_recall@"):
        parse_measures(["span_recall"])


def test_the_published_precision_of_chunks_of_800_tokens_is_reproduced():
    # Precision-Omega of TokenTextSplitter, 800 tokens, overlap 400: 4.7 +- 3.1 %.
    # Smith and Troynikov (2024), table of results: 472 questions over five corpora, each with all
    # chunks that touch its gold. As these hold all of the gold, it is their IoU. The positions are
    # written by `chroma_spans.py`; cl100k_base was that of bpe-openai 0.1.4, not of tiktoken.
    corpora = json.loads(Path(__file__).with_name("chroma_spans.json").read_text("utf-8"))
    passages, gold = [], []
    for name, corpus in corpora.items():
        chunks = [Span(name, *place) for place in corpus["chunks"]]
        for places in corpus["gold"]:
            spans = [Span(name, *place) for place in places]
            touching = (
                c for c in chunks if any(c.start <= s.end and s.start <= c.end for s in spans)
            )
            passages.append(list(touching))
            gold.append(spans)

    values = 100 * span_overlap.span_iou(RetrievedSpans(passages, gold))

    assert len(values) == 472
    assert (round(values.mean(), 1), round(values.std(), 1)) == (4.7, 3.1)
