"""Refusals that the rule recognises, and answers that it takes for refusals, in eight languages.

    python benchmarks/refusals.py [--misses] [--write docs/cause-accuracy.md]

The replies of `refusals.txt` were written for it: refusals, and answers with negations, excuses and
quotations, in three sets, a line each below the name of its set and language. The set `build` may
be read while the rule is changed. The set `measure` must not be: it is every second reply of a list
of which the others are in `build`. The set `fresh` was written after the rule, and was measured
once. A change of the rule for replies of `fresh` moves these into `build`, and needs new ones.
`--misses` prints replies of `build` alone.

Bars on each of `measure` and `fresh`: recall >= 0.88 (a reply of which the rule is not sure counts
as missed), >= 0.60 in each language, and <= 0.02 of the answers taken for refusals.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragbench.text.refusals import refuses

REPLIES = Path(__file__).with_name("refusals.txt")
SETS = ("build", "measure", "fresh")
LEAST_RECALL, LEAST_IN_LANGUAGE, MOST_FALSE = 0.88, 0.60, 0.02


class Reply(NamedTuple):
    """Reply of the benchmark.

    Attributes:
        language: Code of its language.
        set: One of `SETS`.
        refuses: Whether it refuses.
        text: The reply.
    """

    language: str
    set: str
    refuses: bool
    text: str


class Rates(NamedTuple):
    """Result of the rule on the replies of one language and set, or of all languages.

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
    replies, name, language, kind = list[Reply](), "", "", ""
    for line in REPLIES.read_text(encoding="utf-8").split("\n"):
        if line.startswith("# "):
            name, language, kind = line.removeprefix("# ").split()
        elif line:
            replies.append(Reply(language, name, kind == "refusals", line))
    return replies


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
    """Yield the lines of a Markdown table: a row per language, columns per set."""
    columns = [f"{name}: refusals found | answers taken for one" for name in SETS]
    yield f"| language | {' | '.join(columns)} |"
    yield "|---" * (1 + 2 * len(SETS)) + "|"
    for language in (*dict.fromkeys(reply.language for reply in replies), "all"):
        cells = [language]
        for name in SETS:
            rates = rate([r for r in replies if r.set == name and language in ("all", r.language)])
            cells.append(f"{rates.recalled} of {rates.refusals}")
            cells.append(f"{rates.false} of {rates.answers}")
        yield f"| {' | '.join(cells)} |"


def check_bars(replies: list[Reply]) -> list[str]:
    """Return a sentence for each bar that `measure` or `fresh` misses; none if they meet all."""
    problems = []
    for name in SETS[1:]:
        problems += _check_set(name, [reply for reply in replies if reply.set == name])
    return problems


def _check_set(name: str, replies: list[Reply]) -> list[str]:
    """Return a sentence for each bar that the replies of a set miss."""
    total, problems = rate(replies), []
    if total.recalled < LEAST_RECALL * total.refusals:
        problems.append(f"{name}: recall is below {LEAST_RECALL}")
    for language in dict.fromkeys(reply.language for reply in replies):
        rates = rate([reply for reply in replies if reply.language == language])
        if rates.recalled < LEAST_IN_LANGUAGE * rates.refusals:
            problems.append(f"{name}: recall in {language} is below {LEAST_IN_LANGUAGE}")
    if total.false > MOST_FALSE * total.answers:
        problems.append(f"{name}: more than {MOST_FALSE} of the answers are taken for refusals")
    return problems


def main() -> None:
    """Print the table, the time per reply and the missed bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--misses", action="store_true", help="misses of the set build")
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
            if reply.set == "build" and (verdict := refuses(reply.text)) is not reply.refuses:
                print(f"{reply.language} {verdict}: {reply.text}")
    if arguments.write is not None:
        from gates import write  # beside this file, which tests load alone

        write(arguments.write, "\n".join(lines) + "\n\n", "refusals.py")
    if problems := check_bars(replies):
        raise SystemExit("; ".join(problems))


if __name__ == "__main__":
    main()
