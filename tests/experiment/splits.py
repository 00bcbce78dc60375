"""Documents that repeat a few words, and questions in two splits that no retriever gets all right.

The splits are small enough for all swaps of two systems to be counted.
"""

import random

from tests.experiment.moons import write_jsonl

WORDS = ["red", "green", "blue", "fast", "slow", "round", "flat", "cold", "warm", "old"]


def write_splits(folder):
    """Write the data set as files of BEIR, splits `train` (7 questions) and `test` (6)."""
    draw = random.Random(3)
    (folder / "qrels").mkdir(parents=True)
    documents = {f"d{n}": draw.choices(WORDS, k=draw.randint(3, 12)) for n in range(30)}
    rows = [{"_id": name, "text": " ".join(words)} for name, words in documents.items()]
    write_jsonl(folder / "corpus.jsonl", rows)
    queries = {f"q{n}": draw.sample(WORDS, 3) for n in range(13)}
    rows = [{"_id": name, "text": " ".join(words)} for name, words in queries.items()]
    write_jsonl(folder / "queries.jsonl", rows)
    for split, ids in (("train", [*queries][:7]), ("test", [*queries][7:])):
        lines = ["query-id\tcorpus-id\tscore"]
        for query in ids:
            shared = {name: len({*w} & {*queries[query]}) for name, w in documents.items()}
            best = sorted(documents, key=lambda name: -shared[name])[:3]
            lines += [f"{query}\t{name}\t1" for name in best]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join([*lines, ""]))
    return folder
