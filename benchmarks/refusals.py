"""Refusals that the rule recognises, and answers that it takes for refusals, in eight languages.

    python benchmarks/refusals.py [--misses] [--write docs/explain.md]

The replies of `refusals.jsonl` were written for it: refusals, and answers with negations, excuses
and quotations. The half `build` may be read while the rule is changed; the half `measure`
must not be, so `--misses` prints replies of the half `build` alone.

Bars on the half `measure`: recall >= 0.90 (a reply of which the rule is not sure counts as missed),
>= 0.70 in each language, and <= 0.02 of the answers taken for refusals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragbench.text.refusals import refuses

REPLIES = Path(__file__).with_name("refusals.jsonl")
LEAST_RECALL, LEAST_IN_LANGUAGE, MOST_FALSE = 0.90, 0.70, 0.02


class Reply(NamedTuple):
    """Reply of the benchmark.

    Attributes:
        language: Code of its language.
        half: `build` or `measure`.
        refuses: Whether it refuses.
        text: The reply.
    """

    language: str
    half: str
    refuses: bool
    text: str


class Rates(NamedTuple):
    """Result of the rule on the replies of one language and half, or of all languages.

    Attributes:
        refusals: Number of refusals.
        recalled: Number of them that the rule recognises.
        answers: Number of answers.
        false: Number of them that the rule takes for refusals.
        unsure: Number of replies of which the rule is not sure.
    """

    refusals: int
    recalled: int
    answers: int
    false: int
    unsure: int


def read_replies() -> list[Reply]:
    """Return the replies of the file, in its order."""
    lines = REPLIES.read_text(encoding="utf-8").splitlines()
    return [Reply(**json.loads(line)) for line in lines]


def rate(replies: list[Reply]) -> Rates:
    """Return the result of the rule on replies."""
    counts = Counter((reply.refuses, refuses(reply.text)) for reply in replies)
    refusals = sum(count for (refusal, _), count in counts.items() if refusal)
    return Rates(
        refusals,
        counts[True, True],
        len(replies) - refusals,
        counts[False, True],
        counts[True, None] + counts[False, None],
    )


def table(replies: list[Reply]) -> Iterator[str]:
    """Yield the lines of a Markdown table: a row per language and half, and the two halves."""
    yield "| language | half | refusals | recall | answers | taken for refusals | not sure |"
    yield "|---|---|---|---|---|---|---|"
    languages = dict.fromkeys(reply.language for reply in replies)
    for name in (*languages, "all"):
        for half in ("build", "measure"):
            rates = rate([r for r in replies if r.half == half and name in ("all", r.language)])
            yield (
                f"| {name} | {half} | {rates.refusals} | {rates.recalled / rates.refusals:.3f} | "
                f"{rates.answers} | {rates.false / rates.answers:.3f} | {rates.unsure} |"
            )


def check_bars(replies: list[Reply]) -> list[str]:
    """Return a sentence for each bar that the half `measure` misses; none if it meets all."""
    measured = [reply for reply in replies if reply.half == "measure"]
    languages = dict.fromkeys(reply.language for reply in measured)
    rates = {name: rate([r for r in measured if r.language == name]) for name in languages}
    total = Rates(*map(sum, zip(*rates.values(), strict=True)))
    problems = []
    if total.recalled < LEAST_RECALL * total.refusals:
        problems.append(f"recall is below {LEAST_RECALL}")
    for name, language_rates in rates.items():
        if language_rates.recalled < LEAST_IN_LANGUAGE * language_rates.refusals:
            problems.append(f"recall in {name} is below {LEAST_IN_LANGUAGE}")
    if total.false > MOST_FALSE * total.answers:
        problems.append(f"more than {MOST_FALSE} of the answers are taken for refusals")
    return problems


def main() -> None:
    """Print the table, the time per reply and the missed bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--misses", action="store_true", help="misses of the half build")
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    replies = read_replies()
    lines = list(table(replies))
    print("\n".join(lines))
    start = time.process_time()
    for reply in replies:
        refuses(reply.text)
    took = (time.process_time() - start) / len(replies)
    print(f"{1e6 * took:.0f} microseconds a reply")
    if arguments.misses:
        for reply in replies:
            if reply.half == "build" and (verdict := refuses(reply.text)) is not reply.refuses:
                print(f"{reply.language} {verdict}: {reply.text}")
    if arguments.write is not None:
        from gates import write  # beside this file, which tests load alone

        write(arguments.write, "\n".join(lines) + "\n\n", "refusals.py")
    if problems := check_bars(replies):
        raise SystemExit("; ".join(problems))


if __name__ == "__main__":
    main()
