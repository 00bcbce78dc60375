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


def list_bars(replies: list[Reply]) -> Iterator[tuple[str, bool]]:
    """Yield a sentence for each bar of `measure` and `fresh`, and True if it is met."""
    for name in SETS[1:]:
        of_set = [reply for reply in replies if reply.set == name]
        total = rate(of_set)
        recall = total.recalled / total.refusals
        yield f"{name}: recall {recall:.3f}, at least {LEAST_RECALL}", recall >= LEAST_RECALL
        by_language = {}
        for language in dict.fromkeys(reply.language for reply in of_set):
            rates = rate([reply for reply in of_set if reply.language == language])
            by_language[language] = rates.recalled / rates.refusals
        worst = min(by_language, key=by_language.__getitem__)
        least = by_language[worst]
        sentence = (
            f"{name}: recall {least:.3f} in {worst}, the lowest, at least {LEAST_IN_LANGUAGE}"
        )
        yield sentence, least >= LEAST_IN_LANGUAGE
        false = total.false / total.answers
        sentence = (
            f"{name}: {false:.3f} of the answers are taken for refusals, at most {MOST_FALSE}"
        )
        yield sentence, false <= MOST_FALSE


def main() -> None:
    """Print the table, the time per reply and the bars; end the process."""
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
    from bars import Bars

    bars = Bars()
    for sentence, is_met in list_bars(replies):
        bars.check(sentence, is_met)
    bars.exit()


if __name__ == "__main__":
    main()
