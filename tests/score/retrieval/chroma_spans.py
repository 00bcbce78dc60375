"""Write `chroma_spans.json`: chunks and gold of Chroma's chunking evaluation, as positions alone.

    git clone https://github.com/brandonstarxel/chunking_evaluation
    pip install tiktoken
    python -m tests.score.retrieval.chroma_spans chunking_evaluation

Chunks are windows of 800 tokens of cl100k_base, each 400 tokens after the one before, as the report
cuts with TokenTextSplitter; a window is placed as its framework does, without a full stop at its
end. The gold is that of `questions_df.csv`. The repository is under the MIT licence; no text of it
is kept.
"""

import csv
import json
import sys
from pathlib import Path

SIZE, STEP = 800, 400


def chunks_of(text, encoding):
    tokens, chunks, start = encoding.encode(text), [], 0
    while True:
        window = encoding.decode(tokens[start : start + SIZE]).removesuffix(".")
        place = text.index(window)
        chunks.append((place, place + len(window)))
        if start + SIZE >= len(tokens):
            return chunks
        start += STEP


def write(clone, encoding):
    folder = Path(clone, "chunking_evaluation/evaluation_framework/general_evaluation_data")
    corpora = {}
    with (folder / "questions_df.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            gold = [(g["start_index"], g["end_index"]) for g in json.loads(row["references"])]
            corpora.setdefault(row["corpus_id"], {"chunks": [], "gold": []})["gold"].append(gold)
    for name, corpus in corpora.items():
        text = (folder / "corpora" / f"{name}.md").read_text(encoding="utf-8")
        corpus["chunks"] = chunks_of(text, encoding)
    data = json.dumps(corpora, separators=(",", ":")).replace('"gold"', '\n"gold"')
    Path(__file__).with_suffix(".json").write_text(f"{data}\n", encoding="utf-8")


if __name__ == "__main__":
    import tiktoken

    write(sys.argv[1], tiktoken.get_encoding("cl100k_base"))
