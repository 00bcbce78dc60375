"""Run files and judgements for the tests of `ragbench score`."""

import random

QRELS = """\
q1 0 d1 1
q1 0 d2 2
q1 0 d3 0
q2 0 d4 1
q3 0 d5 0
q10 0 d6 1
"""
RUN_A = """\
q2 Q0 d9 1 3.0 alpha
q2 Q0 d4 2 2.0 alpha
q1 Q0 d2 1 0.9 alpha
q1 Q0 d3 2 0.5 alpha
q1 Q0 d1 3 0.5 alpha
q3 Q0 d5 1 1.0 alpha
stray Q0 d5 1 1.0 alpha
"""
RUN_B = """\
q1 Q0 d1 1 2.0 beta
q1 Q0 d1 2 1.0 beta
q10 Q0 d6 1 1.0 beta
"""


def write_trec(path, run, tag="made"):
    lines = (
        f"{query} Q0 {document} 0 {value} {tag}\n"
        for query, hits in run.items()
        for document, value in hits.items()
    )
    path.write_text("".join(lines), encoding="utf-8")


def write_qrels(path, qrels):
    rows = ((q, d, grade) for q, judged in qrels.items() for d, grade in judged.items())
    path.write_text("".join(f"{q} 0 {d} {grade}\n" for q, d, grade in rows), encoding="utf-8")


def made_up(seed):
    """Judgements and a run: ties, misses, nothing relevant to q5; the scores fit in floats."""
    rng = random.Random(seed)
    documents = [f"d{n}" for n in range(40)]
    qrels = {f"q{n}": {d: rng.choice([0, 0, 1, 2]) for d in documents[:20]} for n in range(12)}
    qrels["q5"] = dict.fromkeys(documents[:5], 0)
    run = {
        f"q{n}": {d: rng.randrange(8) / 4 for d in rng.sample(documents, rng.randint(1, 40))}
        for n in range(2, 14)
    }
    return qrels, run


JUDGE = "{type: python:tests.words:Words, rubrics: [faithfulness]}"
# The options of `run` that give a small judged run of the quickstart, with two scores of a kind.
JUDGED_RUN = (
    *("--quiet", "--limit", "12", "--only", "bm25,exact", "--set", f"metrics.judge={JUDGE}"),
    *("--set", "metrics.retrieval.measures=[ndcg@10, answer_hit@5]"),
    *("--set", "metrics.generation=[rouge1, token_f1]", "--set", "statistics.resamples=200"),
)
