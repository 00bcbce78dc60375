"""First sentences of `ragbench calibrate`, and the answers on which judge and people disagree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragbench.calibration.disagreements import Disagreement
from ragbench.calibration.earlier_agreement import ChangedAgreement, changed_parts
from ragbench.calibration.judged_run import Key
from ragbench.records import certificate as records
from ragbench.records.score import Ends
from ragbench.report.table import Block, Heading, Paragraph
from ragbench.report.text import counted, difference, listed, significant, with_interval
from ragbench.types.display import printable

# Disagreements that a terminal shows, and the characters of a text that it shows.
_LISTED, _CHARACTERS = 5, 300
# Systems whose corrected means, and raters whose numbers of labels, a sentence names.
_SHORT_LIST = 3

COLUMNS = (
    *("rubric", "system", "query_id", "question", "passages", "answer"),
    *("labels", "judge", "difference", "reason", "flip", "judge_before"),
)


def certificate_sentences(certificate: records.JudgeCertificate) -> tuple[str, ...]:
    """Return the sentences on each judge, the mean of people first, and on each pair of judges."""
    sentences: list[str] = []
    for name, rubric in certificate.rubrics.items():
        sentences += corrected_sentences({name: rubric})
        if rubric.bias is not None:
            sentences.append(f"{printable(name)}: {_bias(rubric.bias)}")
        sentences.append(_agreement(name, rubric))
    return (*sentences, *map(pair_sentence, certificate.pairs))


def corrected_sentences(rubrics: Mapping[str, records.CertifiedRubric]) -> Iterator[str]:
    """Yield the mean that people would have given over all answers, of each rubric that has one."""
    for name, rubric in rubrics.items():
        means, sizes, has_one = [], set(), len(rubric.corrected) == 1
        for system, of in rubric.corrected.items():
            if of.status == "corrected":
                subject = "" if has_one else f"{printable(system)} "
                means.append(f"{subject}{with_interval(of.mean, of.interval)}")
                sizes.add(of.n_judged)
        if len(means) > _SHORT_LIST:
            means[_SHORT_LIST:] = [counted(len(means) - _SHORT_LIST, "further systems")]
        size = f"all {sizes.pop()} answers" if len(sizes) == 1 else "all answers"
        part = size if has_one else f"{size} of each system"
        if means:
            yield f"{printable(name)} as people would judge {part}: {', '.join(means)}"


def _bias(bias: records.JudgeBias) -> str:
    """Return the means of judge and people in words, with their difference."""
    value, ends = difference(bias.difference, bias.interval)
    verdict = {True: "too lenient", False: "too harsh", None: "no bias is shown"}[bias.lenient]
    means = f"the judge says {significant(bias.judge)}, people {significant(bias.people)}"
    return f"{means}: off by {' '.join(filter(None, (value, ends)))}, {verdict}"


def _agreement(name: str, rubric: records.CertifiedRubric) -> str:
    """Return the agreement of a judge with people in words, and that of people with each other."""
    raw, n = rubric.agreement["raw"], counted(rubric.labels.n, "answers")
    subject = printable(name)
    if raw.value is None:
        rho = rubric.agreement["spearman"]
        return f"{subject} has Spearman's rho {with_interval(rho.value, rho.interval)} over {n}"
    share = _share(raw.value, raw.interval)
    if len(rubric.labels.raters) == 1:
        n_equal = round(raw.value * raw.n)
        return f"{subject} agrees with people on {n_equal} of {n} ({share})"
    text = f"{subject} agrees with people on {share} of {n} (mean over {_raters(rubric.labels)})"
    ceiling = rubric.ceiling.get("raw")
    if ceiling is None or ceiling.value is None:
        return text
    shared = f"{_share(ceiling.value, ceiling.interval)} of {counted(ceiling.n, 'answers')}"
    text += f"; people agree with each other on {shared}"
    return text if rubric.from_people is None else f"{text}, {_people_verdict(rubric.from_people)}"


def _raters(labels: records.LabelsRead) -> str:
    """Return the number of raters, with those of their labels if not all labelled all answers."""
    text, counts = counted(len(labels.raters), "raters"), [*labels.by_rater.values()]
    if all(count == labels.n for count in counts):
        return text
    numbers = listed([str(count) for count in counts])
    if len(counts) > _SHORT_LIST:
        numbers = f"{min(counts)} to {max(counts)}"
    return f"{text} with {numbers} labels"


def _people_verdict(of: records.PeopleDifference) -> str:
    """Return the difference between the agreement of people and that of the judge in words."""
    if not of.differs:
        return "no difference is shown"
    return f"surely {'more' if of.difference < 0 else 'less'} than with the judge"


def _share(value: float, ends: Ends | None) -> str:
    """Return a share with its interval in whole percent: `85 % [74, 92]`."""
    text = f"{value * 100:.0f} %"
    if ends is None or ends[0] is None or ends[1] is None:
        return text
    return f"{text} [{ends[0] * 100:.0f}, {ends[1] * 100:.0f}]"


def pair_sentence(pair: records.JudgePair) -> str:
    """Return the difference in agreement of two judges in words, with its verdict."""
    value, ends = difference(pair.difference * 100, _hundredfold(pair.interval))
    gain = f"{value} {ends} points on {counted(pair.answers, 'answers')}"
    names = printable(pair.score), printable(pair.against)
    if pair.differs:
        return f"{names[0]} surely agrees better with people than {names[1]}: {gain}"
    return f"no difference is shown between {names[0]} and {names[1]}: {gain}"


def change_lines(change: ChangedAgreement, questions: Mapping[Key, str]) -> Iterator[str]:
    """Yield the agreement before and after a change of a judge, and the answers that flipped."""
    flipped = change.flipped
    n_lost = sum(change.shares[key] < change.earlier_shares[key] for key in flipped)
    earlier_share = sum(change.earlier_shares.values()) / len(change.earlier_shares)
    share = sum(change.shares.values()) / len(change.shares)
    of_change = change.difference
    value, ends = difference(of_change.mean * 100, _hundredfold((of_change.lower, of_change.upper)))
    verdict = "no difference is shown"
    if of_change.lower > 0 or of_change.upper < 0:
        verdict = "surely better" if of_change.mean > 0 else "surely worse"
    gained = counted(len(flipped) - n_lost, "answers")
    sizes = f"{gained} came to agree, {n_lost} no longer {'does' if n_lost == 1 else 'do'}"
    answers = counted(len(change.shares), "answers")
    start = _change_start(change.score, earlier_share, change.parts, change.run)
    gain = f"{verdict} ({value} {ends} points)"
    yield f"{start}, now on {_share(share, None)} of the same {answers}: {gain}; {sizes}"
    for key in flipped[:_LISTED]:
        people, earlier_level, level = change.levels[key]
        system, query = key
        verdicts = f"people {_labels(people)}, judge {earlier_level:g} before, {level:g} now"
        yield f"  {printable(query)}, {printable(system)}: {verdicts}: {_cut(questions[key])}"


def _labels(labels: Iterable[float]) -> str:
    """Return labels in one text: `1, 0.5`."""
    return ", ".join(f"{label:g}" for label in labels)


def certificate_change_lines(
    earlier: records.RequiredCertificate, certificate: records.JudgeCertificate, file: str
) -> Iterator[str]:
    """Yield the agreement in an earlier certificate of a judge that changed, and the new one."""
    for name, rubric in certificate.rubrics.items():
        if (of_file := earlier.rubrics.get(name)) is None or "raw" not in of_file.agreement:
            continue
        parts = changed_parts(of_file.signature, rubric.signature)
        share, earlier_share = rubric.agreement["raw"].value, of_file.agreement["raw"].value
        if parts and share is not None and earlier_share is not None:
            yield f"{_change_start(name, earlier_share, parts, file)}, now on {_share(share, None)}"


def _change_start(score: str, share: float, parts: Sequence[str], place: str) -> str:
    """Return the agreement of a judge before a change in words."""
    agreement = f"{printable(score)} agreed on {_share(share, None)} before"
    if parts:
        agreement += f" its {listed(parts)} changed"
    return f"{agreement} ({printable(place)})" if place else agreement


def _hundredfold(ends: Ends) -> Ends:
    """Return limits in hundredths."""
    low, high = ends
    return (None if low is None else low * 100, None if high is None else high * 100)


def disagreement_blocks(disagreements: Sequence[Disagreement]) -> Iterator[Block]:
    """Yield the largest disagreements, each with texts, both labels and the reason of the judge."""
    disagreements = [of for of in disagreements if of.flip != "gained"]
    if not disagreements:
        return
    n = len(disagreements)
    more = (
        "" if n <= _LISTED else f", the {_LISTED} largest; all: --disagreements FILE.html or .csv"
    )
    yield Heading(f"{counted(n, 'disagreements')} with people{more}")
    for disagreement in disagreements[:_LISTED]:
        yield Paragraph(tuple(_lines(disagreement)), is_apart=True)


def _lines(disagreement: Disagreement) -> Iterator[str]:
    """Yield the lines of one disagreement."""
    labels = _labels(disagreement.labels.values())
    verdict = f"people {labels}, judge {disagreement.judge:.3g}"
    name = f"{disagreement.score}, {disagreement.query_id}, {disagreement.system}"
    yield printable(f"{name}: {verdict}")
    parts = {"question": disagreement.question}
    for n, text in enumerate(disagreement.passages[:3], start=1):
        parts[f"passage {n}"] = text
    parts |= {"answer": disagreement.answer, "reason": disagreement.reason}
    for part, text in parts.items():
        if text:
            yield f"  {part}: {_cut(text)}"


def _cut(text: str) -> str:
    """Return a printable text with at most 300 characters."""
    line = printable(text)
    return line if len(line) <= _CHARACTERS else f"{line[: _CHARACTERS - 4]} ..."


def disagreement_rows(disagreements: Sequence[Disagreement]) -> list[list[str | float | None]]:
    """Return the cells of all disagreements, in the order of `COLUMNS`."""
    rows: list[list[str | float | None]] = []
    for of in disagreements:
        labels = ", ".join(f"{rater}: {label:g}" for rater, label in of.labels.items())
        passages = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(of.passages, start=1))
        head = [of.score, of.system, of.query_id, of.question, passages, of.answer]
        rows.append([*head, labels, of.judge, of.difference, of.reason, of.flip, of.judge_before])
    return rows
