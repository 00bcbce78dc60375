"""Published sets for checking judges: the keys of their rows, and the columns behind them.

A form is a line of `JUDGED_FORMS`, as in `forms.py`. Its parts are those of a judged row: `id`,
`unit` (rows with an equal one are not independent), `system`, `question`, `contexts`, `answer`,
`other` (the answer that people like less), `label`, and `raters` (rater -> label).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.data.files.forms import Content, Form, Values, is_true, parsed
from ragbench.errors import list_names

SUPPORTED, UNSUPPORTED = "supported", "unsupported"
# Severity of a label of FaithBench -> word; misspelt ones are in the published files.
_FAITHBENCH_LABELS = {
    "Benign": SUPPORTED,
    "Questionable": UNSUPPORTED,
    "Unwanted": UNSUPPORTED,
    "Unwanted.Intrinsic": UNSUPPORTED,
    "Unwanted.Instrinsic": UNSUPPORTED,
    "Unwanted.Extrinsic": UNSUPPORTED,
}
_PREFERENCES = {"A>B": ("response_A", "response_B"), "B>A": ("response_B", "response_A")}


@dataclass(frozen=True, slots=True)
class JudgedForm(Form):
    """Form of the rows of published judgements.

    Attributes:
        join: Column by which rows of two files are one; empty for a set in one file.
        silence: Label of a row about which a rater said nothing; empty if such a row has no label.
        group: Column by which the set is usually reported in parts; empty for none.
        ids_repeat: True if the id is that of a question or source, which several rows may share.
        asks: Objects that the labels may judge, in the words of `asks` of a rubric.
    """

    join: str = ""
    silence: str = ""
    group: str = ""
    ids_repeat: bool = False
    asks: tuple[str, ...] = ("answer",)


def _support(is_supported: bool) -> str:
    return SUPPORTED if is_supported else UNSUPPORTED


def _claim(values: Values) -> Content:
    """Return a row of LLM-AggreFact, whose label is 1 for a supported claim."""
    return [{**values, "label": _support(is_true(values["label"]))}], []


def _with_adherence(values: Values) -> Content:
    """Return a row of RAGBench, whose label is true for an answer that its documents support."""
    return [{**values, "label": _support(is_true(values["adherence_score"]))}], []


def _with_source(values: Values) -> Content:
    """Return a response of RAGTruth: any hallucinated span makes it unsupported."""
    source, question = parsed(values["source_info"]), None
    if not isinstance(values["labels"], list):
        raise ValueError("labels is no list")
    if isinstance(source, Mapping) and {"question", "passages"} <= source.keys():
        question = source["question"]
        contexts = re.split(r"^passage \d+:", source["passages"], flags=re.MULTILINE)
        contexts = [text.strip() for text in contexts if text.strip()]
    else:
        # rows of data-to-text have an object in place of passages, those of summaries an article
        contexts = [source if isinstance(source, str) else json.dumps(source, ensure_ascii=False)]
    label = _support(not values["labels"])
    return [{**values, "question": question, "contexts": contexts, "label": label}], []


def _with_annotations(values: Values) -> Content:
    """Return a summary of FaithBench with its worst annotation; without any it is supported."""
    raters: dict[str, str] = {}
    for annotation in values["annotations"]:
        rater = annotation.get("annotator_id") or annotation["annotator"]
        raters[rater] = _worst([raters.get(rater, SUPPORTED), *_words(annotation["label"])])
    return [{**values, "label": _worst(raters.values()), "raters": raters}], []


def _words(labels: Any) -> Iterable[str]:
    """Yield the word of each label of an annotation."""
    for label in [labels] if isinstance(labels, str) else labels:
        if label not in _FAITHBENCH_LABELS:
            raise ValueError(f"label {label!r}, not one of {list_names([*_FAITHBENCH_LABELS])}")
        yield _FAITHBENCH_LABELS[label]


def _worst(words: Iterable[str]) -> str:
    return UNSUPPORTED if UNSUPPORTED in list(words) else SUPPORTED


def _labelled_pair(values: Values) -> Content:
    """Return a pair of JudgeBench, the better answer first."""
    if values["label"] not in _PREFERENCES:
        raise ValueError(f"label {values['label']!r}, neither A>B nor B>A")
    better, worse = _PREFERENCES[values["label"]]
    return [{**values, "answer": values[better], "other": values[worse]}], []


def _chosen_pairs(values: Values) -> Content:
    """Return a pair of each chosen and each rejected answer of RewardBench 2."""
    rows: list[Values] = []
    for key in ("chosen", "rejected"):
        if not isinstance(values[key], list) or not values[key]:
            raise ValueError(f"{key} is no list of answers")
    for first, better in enumerate(values["chosen"], start=1):
        for second, worse in enumerate(values["rejected"], start=1):
            pair = {"pair": f"{values['id']}-{first}-{second}", "answer": better, "other": worse}
            rows.append({**values, **pair})
    return rows, []


# Each form has the keys of one published layout; the first one that fits counts.
JUDGED_FORMS = (
    JudgedForm(
        "LLM-AggreFact",
        ("doc", "claim", "label"),
        {"unit": "doc", "contexts": "doc", "answer": "claim"},
        _claim,
        group="dataset",
    ),
    JudgedForm(
        "RAGTruth",
        ("source_id", "model", "labels", "response", "source_info"),
        {"id": "source_id", "system": "model", "answer": "response"},
        _with_source,
        join="source_id",
        group="task_type",
    ),
    JudgedForm(
        "FaithBench",
        ("sample_id", "source", "summary", "annotations"),
        {
            "id": "sample_id",
            "unit": "source",
            "system": "metadata.summarizer",
            "contexts": "source",
            "answer": "summary",
        },
        _with_annotations,
        silence=SUPPORTED,
    ),
    JudgedForm(
        "RAGBench",
        ("id", "documents", "response", "adherence_score"),
        {"system": "generation_model_name", "contexts": "documents", "answer": "response"},
        _with_adherence,
    ),
    JudgedForm(
        "JudgeBench",
        ("pair_id", "question", "response_A", "response_B", "label"),
        {"id": "pair_id", "unit": "original_id"},
        _labelled_pair,
    ),
    JudgedForm(
        "RewardBench 2",
        ("id", "prompt", "chosen", "rejected"),
        {"id": "pair", "unit": "id", "question": "prompt"},
        _chosen_pairs,
    ),
    JudgedForm(
        "ContextualJudgeBench",
        ("question", "context", "positive_response", "negative_response"),
        {"contexts": "context", "answer": "positive_response", "other": "negative_response"},
        ids_repeat=True,
    ),
)


def find_judged_form(values: Values) -> JudgedForm | None:
    """Return the first form of `JUDGED_FORMS` that a row fits; None if it fits none."""
    for form in JUDGED_FORMS:
        if form.fits(values):
            return form
    return None
