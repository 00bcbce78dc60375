"""Small files in the form of published sets of judged answers, and hostile edits of them."""

from __future__ import annotations

import json

from ragbench.json_yaml import load_json

DOC = "The bridge opened in 1932. It was built by Dorman Long."
AGGREFACT = [
    {"dataset": "ExpertQA", "doc": DOC, "claim": "It opened in 1932.", "label": 1},
    {"dataset": "ExpertQA", "doc": DOC, "claim": "It opened in 1942.", "label": 0},
    {"dataset": "RAGTruth", "doc": "Ceres is small.", "claim": "Ceres is large.", "label": 0},
]
SOURCES = [
    {
        "source_id": "7",
        "task_type": "QA",
        "source_info": {"question": "When?", "passages": f"passage 1:{DOC}\n\npassage 2:No.\n\n"},
    },
    {"source_id": "8", "task_type": "Summary", "source_info": "Ceres is small."},
    {"source_id": "9", "task_type": "Data2txt", "source_info": {"name": "Subway", "stars": 3.0}},
]
SPAN = {"start": 13, "end": 17, "text": "1942", "label_type": "Evident Conflict"}
RESPONSES = [
    {"id": "0", "source_id": "7", "model": "gpt-4", "labels": [], "response": "In 1932."},
    {"id": "1", "source_id": "7", "model": "llama", "labels": [SPAN], "response": "In 1942."},
    {"id": "2", "source_id": "8", "model": "gpt-4", "labels": [], "response": "It is small."},
    {"id": "3", "source_id": "9", "model": "llama", "labels": [], "response": "A Subway."},
]


def _annotation(rater: str, *labels: str) -> dict[str, object]:
    return {"annot_id": 1, "annotator_id": rater, "label": [*labels], "summary_span": "x"}


FAITHBENCH = [
    {
        "sample_id": number,
        "source": DOC,
        "summary": f"Summary {number}.",
        "annotations": annotations,
        "metadata": {"summarizer": f"model/{number % 2}", "hhem-2.1": score, "gpt_4o": flag},
    }
    for number, (annotations, score, flag) in enumerate(
        [
            ([], 0.9, 1),
            ([_annotation("ann", "Benign")], 0.8, 1),
            ([_annotation("ann", "Benign"), _annotation("bob", "Questionable")], 0.7, 0),
            ([_annotation("bob", "Unwanted", "Unwanted.Intrinsic")], 0.2, 1),
        ]
    )
]
RAGBENCH = [
    {
        "id": str(number),
        "question": "When?",
        "documents": [DOC, "No."],
        "response": "In 1932.",
        "generation_model_name": "gpt-3.5",
        "adherence_score": number != 1,
        "ragas_faithfulness": 0.5 * number,
    }
    for number in range(3)
]
JUDGEBENCH = [
    {
        "pair_id": f"p{number}",
        "original_id": str(number),
        "question": "When?",
        "response_A": "In 1932.",
        "response_B": "In 1942.",
        "label": label,
    }
    for number, label in enumerate(["A>B", "B>A", "A>B"])
]
REWARDBENCH = [
    {"id": "r0", "prompt": "When?", "chosen": ["In 1932."], "rejected": ["In 1942.", "Never."]},
    {"id": "r1", "prompt": "When?", "chosen": ["1932", "In 1932."], "rejected": ["In 1952."]},
]
CONTEXTUAL = [
    {
        "question": "When?",
        "context": DOC,
        "positive_response": "In 1932.",
        "negative_response": "In 1942.",
        "question_id": f"q{number}",
    }
    for number in range(2)
]
SETS = {
    "LLM-AggreFact": AGGREFACT,
    "FaithBench": FAITHBENCH,
    "RAGBench": RAGBENCH,
    "JudgeBench": JUDGEBENCH,
    "RewardBench 2": REWARDBENCH,
    "ContextualJudgeBench": CONTEXTUAL,
}


def write_jsonl(path, rows):
    """Write rows as JSON lines; return the path."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def copy_of(rows):
    """Return rows that a test may edit."""
    return load_json(json.dumps(rows))
