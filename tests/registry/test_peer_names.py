"""Names of metrics of ragas and deepeval: each counterpart exists, in any spelling of the name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError, RagbenchError
from ragbench.registry import peer_names
from ragbench.registry.peer_names import counterpart
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.text.notation import parse_metric

PEERS = [*peer_names._SCORE_OF]


def is_score(name):
    for parse in (parse_measure, parse_metric, load_rubric):
        try:
            parse(name)
        except RagbenchError:
            continue
        return True
    return False


@pytest.mark.parametrize("peer", PEERS)
def test_a_counterpart_is_a_score_and_its_peer_is_none(peer):
    score = counterpart(peer)

    assert score == "" or is_score(score)
    assert not is_score(peer)


@pytest.mark.parametrize("peer", [*peer_names._OF_RAGAS])
def test_a_metric_with_the_formula_of_ragas_has_a_rubric_with_it(peer):
    assert is_score(f"{counterpart(peer)}(as=ragas)")


@pytest.mark.parametrize(
    ("peer", "score"),
    [
        ("factual_correctness", "correctness"),
        ("bleu_score", "bleu"),
        ("rouge_score", "rougeL"),
        ("chrf_score", "chrf"),
        ("contextual_relevancy", "context_relevancy"),
        ("GEval", ""),
        ("context_entity_recall", ""),
        ("topic_adherence", ""),
        ("faithfulness", None),
        ("retriever", None),
    ],
)
def test_names_of_the_quick_starts(peer, score):
    assert counterpart(peer) == score


@given(st.sampled_from([peer for peer in PEERS if not peer.endswith("_metric")]))
def test_any_spelling_of_a_name_has_the_same_counterpart(peer):
    words = peer.split("_")
    heading = " ".join(word.title() for word in words)
    # a letter alone joins the next word: GEval
    spellings = [heading, f"{heading.replace(' ', '')}Metric", peer.upper(), f"{peer}(mode=f1)"]

    assert {counterpart(spelling) for spelling in spellings} == {counterpart(peer)}


@pytest.mark.parametrize(
    ("parse", "name", "near"),
    [
        (parse_metric, "bleu_score", "bleu"),
        (parse_metric, "factual_correctness", None),
        (load_rubric, "factual_correctness", "correctness"),
        (load_rubric, "contextual_precision", "context_precision(as=ragas)"),
        (load_rubric, "topic_adherence", None),
        (load_rubric, "faithfullness", "faithfulness"),
    ],
)
def test_messages_suggest_the_counterpart_where_it_is_allowed(parse, name, near):
    with pytest.raises(OptionError) as raised:
        parse(name)
    assert raised.value.nearest == near
