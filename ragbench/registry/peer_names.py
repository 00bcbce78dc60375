"""Names of metrics in ragas and deepeval, with the score of ragbench for the same purpose.

`evaluate` reads metrics of these tools by this table, and messages suggest from it. The formulas
differ where docs/moving.md and docs/ragas-formulas.md say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Score of ragbench -> metrics of ragas (0.1 to 0.4) and deepeval (to 4.3), as `peer_key` writes
# them. A name that is also one of ragbench, such as `faithfulness`, is absent.
_PEERS = {
    "answer_relevancy": "response_relevancy",
    "bleu": "bleu_score sentence_bleu_score",
    "chrf": "chrf_score",
    "contains": "string_present string_presence",
    "context_precision": (
        "llm_context_precision_with_reference context_precision_with_reference "
        "non_llm_context_precision_with_reference"
    ),
    # the formula of deepeval is that of ragas
    "context_precision(as=ragas)": "contextual_precision",
    "context_recall": "llm_context_recall non_llm_context_recall contextual_recall",
    "context_relevancy": "context_relevance nv_context_relevance contextual_relevancy",
    "context_utilization": (
        "llm_context_precision_without_reference context_precision_without_reference"
    ),
    "correctness": "factual_correctness answer_correctness answer_accuracy nv_accuracy",
    "faithfulness": (
        "response_groundedness nv_response_groundedness faithfulnesswith_hhem "
        "faithfulness_with_hhem"
    ),
    "rougeL": "rouge_score",
    "semantic_similarity": "answer_similarity",
    "set_p": "id_based_context_precision",
    "set_recall": "id_based_context_recall",
    # the default of deepeval
    "tool_call_correctness(arguments=ignore)": "tool_correctness",
}
# Metrics without a counterpart: a rubric of the user takes their place.
_ALONE = (
    "agent_goal_accuracy agent_goal_accuracy_with_reference agent_goal_accuracy_without_reference "
    "arena_g_eval conversational_jev_eval jev_eval "
    "argument_correctness aspect_critic bias context_entity_recall conversational_dag "
    "conversational_g_eval custom_metric dag discrete_metric domain_specific_rubrics g_eval "
    "goal_accuracy instance_rubrics instance_specific_rubrics json_correctness misuse non_advice "
    "non_llm_string_similarity numeric_metric pattern_match pii_leakage plan_adherence "
    "plan_quality prompt_alignment quoted_spans_alignment ranking_metric role_adherence "
    "role_violation rubrics_score "
    "rubrics_score_with_reference rubrics_score_without_reference simple_criteria_score "
    "step_efficiency summarization summarization_score summary_score task_completion tool_use "
    "topic_adherence topic_adherence_score toxicity turn_relevancy"
)
# Metrics of ragas with another name than the score whose form `as=ragas` has their formula.
_OF_RAGAS = (
    "answer_correctness",
    "context_precision_with_reference",
    "context_precision_without_reference",
    "llm_context_precision_with_reference",
    "llm_context_precision_without_reference",
    "llm_context_recall",
    "response_relevancy",
)
_SCORE_OF: Mapping[str, str] = {
    peer: score for score, peers in _PEERS.items() for peer in peers.split()
} | dict.fromkeys(_ALONE.split(), "")

# Place before a capital letter that begins a word: Bleu|Score, LLM|Context, G|Eval.
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def peer_key(name: str) -> str:
    """Return a name in the form of the table, without options: lower case and underscores.

    A heading of deepeval may end with a class in brackets, that of a metric with criteria of the
    user: this class replaces the name.

    Example:
        >>> peer_key("ContextualPrecisionMetric"), peer_key("Contextual Precision")
        ('contextual_precision_metric', 'contextual_precision')
        >>> peer_key("rouge_score(mode=fmeasure)"), peer_key("Politeness [GEval]")
        ('rouge_score', 'g_eval')
    """
    text = name.strip()
    if text.endswith(")"):
        text = text.partition("(")[0]
    if text.endswith("]"):
        text = text[:-1].rpartition("[")[2] or text
    words = re.split(r"[\W_]+", _WORD.sub("_", text).lower())
    return "_".join(filter(None, words))


def counterpart(name: str) -> str | None:
    """Return the score of ragbench in place of a metric of ragas or deepeval.

    The text is empty if that metric has no counterpart. The result is None for a name that is no
    such metric, or that ragbench has too.

    Example:
        >>> counterpart("FactualCorrectness"), counterpart("bias"), counterpart("faithfulness")
        ('correctness', '', None)
    """
    key = peer_key(name)
    return _SCORE_OF.get(key, _SCORE_OF.get(key.removesuffix("_metric")))


def has_ragas_formula(name: str) -> bool:
    """Return True for a metric of ragas by another name whose formula `as=ragas` computes.

    `as=ragas` stands behind the name of its counterpart.

    Example:
        >>> [has_ragas_formula(name) for name in ("AnswerCorrectness", "FactualCorrectness")]
        [True, False]
    """
    return peer_key(name) in _OF_RAGAS
