"""Write `ranx_fusion.json`: what ranx makes of random rankings. Needs ranx, the suite does not.

python tests/retrieve/ranx_fusion.py
"""

import json
import random
from importlib.metadata import version
from pathlib import Path

PATH = Path(__file__).with_suffix(".json")
METHODS = {"rrf": "rrf", "isr": "isr", "weighted": "wsum", "combsum": "sum", "combmnz": "mnz"}


def cases(count=12, seed=13):
    """Yield rankings of two or three retrievers: few distinct scores, often tied or missing."""
    draw = random.Random(seed)
    for _ in range(count):
        yield [
            dict.fromkeys(draw.sample("abcdefgh", draw.randint(1, 6)), 0.0)
            | {d: draw.choice([-1.5, 0.25, 0.5, 3.0]) for d in draw.sample("abcdefgh", 3)}
            for _ in range(draw.choice([2, 3]))
        ]


def main():
    import ranx

    rows = []
    for number, rankings in enumerate(cases()):
        weights = [0.5, 2.0, 1.25][: len(rankings)]
        for method, theirs in METHODS.items():
            norm = None if method in ("rrf", "isr") else "min-max"
            params = {"rrf": {"k": 7}, "weighted": {"weights": weights}}.get(method)
            ranked = [
                dict(sorted(hits.items(), key=lambda hit: (hit[1], hit[0]), reverse=True))
                for hits in rankings
            ]
            runs = [ranx.Run({"q": hits}) for hits in ranked]
            options = {} if params is None else {"params": params}
            fused = ranx.fuse(runs, method=theirs, norm=norm, **options).to_dict()["q"]
            rows.append(
                {"case": number, "rankings": ranked, "method": method}
                | (params or {})
                | {"fused": fused}
            )
    lines = ",\n".join(json.dumps(row) for row in rows)
    PATH.write_text(f'{{"made by": "ranx {version("ranx")}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
