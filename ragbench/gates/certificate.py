"""Gate `certificate`: people agree with the judge of a run, as `ragbench calibrate` measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from ragbench.comparison.signatures import unlike_parts
from ragbench.data.runs.run_folder import read_record
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError
from ragbench.gates.base import DecideBy, Gate, GatedRun, GateNames, GateProblem, within
from ragbench.records.certificate import KAPPA, AgreementResult, RequiredCertificate, RequiredRubric
from ragbench.records.gate import Decision, Facts
from ragbench.records.summary import Summary
from ragbench.registry import Option, nearest
from ragbench.signature import Signature

# Parts of signatures that change with the judged questions, and not with the judge.
_OF_DATA = frozenset({"queries", "gold", "nuggets"})
# Parts whose values are hashes, which tell a reader nothing.
_HASHES = frozenset({"rubric", "prompt", "examples", "extra"})
# Parts that have other names for readers.
_NAMES = {
    "": "the name of the rubric",
    "judge": "the type of the judge",
    "extra": "the request parameters",
    "passages": "the form of the passages",
    "window": "the window of the passages",
    "weighted": "the weighting of levels",
    "in_words": "the format of replies",
    "v": "the definition of the score",
}


class Certificate(Gate):
    """People agree with the judge of this run, by the file of `ragbench calibrate`.

    The gate names no systems; `decide_systems` yields one decision. It raises a DataError if
    `file`, the path that the config sets, is None or no certificate of the rubric.

    Attributes:
        decide: `interval` compares the lower end of kappa's interval; `mean` and None kappa itself.
    """

    quantity_key = "certificate"
    quantity_kind = "judge"
    score_key = "rubric"
    conditions = ("min_kappa",)
    file_key = "certificate"

    certificate: Annotated[
        str,
        Option(
            "File written by `ragbench calibrate`; needs `rubric` and `min_kappa`.",
            refers_to="path",
        ),
    ]
    rubric: Annotated[str, Option("Rubric in the certificate.")]
    min_kappa: Annotated[
        float, Option("Smallest allowed kappa between judge and people.", ge=-1, le=1)
    ]
    decide: DecideBy = None

    @property
    def text(self) -> str:
        """Condition as summaries show it."""
        how = f" ({self.decide})" if self.decide else ""
        return f"kappa of {self.rubric} >= {self.min_kappa:g} in {self.certificate}{how}"

    def check(self, names: GateNames) -> Iterator[GateProblem]:
        """Yield a problem if the gate names a system: a certificate is of a judge."""
        if self.system is not None:
            problem = "a certificate is of a judge, not of a system"
            yield GateProblem("system", problem, at_key=True)

    def read(
        self, baselines: dict[Path, ScoredSystems], baseline: ScoredSystems | None = None
    ) -> None:
        """Check that the certificate can be read and has the kappa of the rubric.

        Nothing is added to `baselines`. A gate without `file` passes.

        Raises:
            DataError: The file cannot be read, or lacks the rubric or its kappa.
        """
        if self.file is not None:
            self._read_certificate(self.file)

    def _read_certificate(self, file: Path) -> RequiredRubric:
        """Return the certified rubric."""
        rubrics = read_record(file, RequiredCertificate).rubrics
        if self.rubric not in rubrics:
            raise DataError(
                f"no rubric '{self.rubric}'",
                file=self.certificate,
                allowed=", ".join(rubrics),
                nearest=nearest(self.rubric, rubrics),
            )
        certified = rubrics[self.rubric]
        if KAPPA not in certified.agreement:
            allowed = "the file as `ragbench calibrate` wrote it"
            raise DataError(f"'{self.rubric}' has no kappa", file=self.certificate, allowed=allowed)
        return certified

    def decide_systems(self, run: GatedRun) -> Iterator[Decision]:
        """Yield the decision, without a system: the judge is the same for all systems.

        It is undecided if the verdicts of the run come from another judge, rubric or prompt than
        the certified ones, or as `decide_kappa` says.

        Raises:
            DataError: The gate has no file, or it cannot be read or lacks the rubric or its kappa.
        """
        if self.file is None:
            allowed = "the path of a certificate of `ragbench calibrate`"
            raise DataError(f"no certificate {self.certificate}", allowed=allowed)
        certified = self._read_certificate(self.file)
        scored = _signatures(run.summary, self.rubric)
        if not scored:
            yield run.not_scored(self.rubric)
        elif why := self._explain_unlike(Signature.parse(certified.signature), scored):
            yield Decision(verdict="undecided", why=why)
        else:
            yield self.decide_kappa(certified.agreement[KAPPA])

    def _explain_unlike(self, certified: Signature, scored: Sequence[Signature]) -> str:
        """Return in words why the certificate is not of the scores of a run; empty if it is."""
        if certified.part("rubric") is None:
            nothing = f"{self.certificate} does not tell the rubric and the prompt of its judge"
            return f"{nothing}: calibrate a run of this judge"
        if mixed := [part for other in (certified, *scored) for part in other.mixtures]:
            mixed_names = ", ".join(dict.fromkeys(_name(part) for part in mixed))
            return f"{mixed_names} is not the same for all verdicts: judge all alike, and calibrate"
        parts = dict.fromkeys(part for other in scored for part in unlike_parts(certified, other))
        names = []
        for part in parts:
            if part not in _OF_DATA:
                names.append(_describe(part, certified, scored))
        if not names:
            return ""
        *first, last = names
        text = f"{', '.join(first)} and {last}" if first else last
        return f"{text} changed since {self.certificate}: calibrate it"

    def decide_kappa(self, kappa: AgreementResult) -> Decision:
        """Return the decision by the kappa of a certificate, or by the lower end of its interval.

        It is undecided if kappa is not defined: equal labels everywhere say nothing about the
        judge; with `decide: interval`, also without an interval. It passes if the compared number
        is at least `min_kappa`, else fails.
        """
        low, high = kappa.interval
        compared = low if self.decide == "interval" else kappa.value
        facts = Facts(kappa=kappa.value, interval=kappa.interval, n=kappa.n)
        if kappa.value is None or compared is None:
            reason = f": {kappa.reason}" if kappa.reason else ""
            why = f"kappa is not defined{reason}; label more answers"
            return Decision(verdict="undecided", why=why, facts=facts)
        interval = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
        why = f"kappa {kappa.value:.4g}{interval} over {kappa.n} labelled answers"
        return Decision(verdict=within(compared, self.min_kappa, None), why=why, facts=facts)


def _signatures(summary: Summary | None, rubric: str) -> list[Signature]:
    """Return the signatures of a judge's scores by a rubric, in the order of the systems."""
    systems = () if summary is None else summary.systems
    scores = []
    for system in systems:
        if rubric in system.scores:
            scores.append(system.scores[rubric])
    # systems may have been judged by several models
    signatures = []
    for score in scores:
        if score.judge is not None:
            signatures.append(Signature.parse(score.signature))
    return signatures


def _describe(part: str, certified: Signature, scored: Sequence[Signature]) -> str:
    """Return the name of a signature part, with its old and new values unless they are hashes."""
    name = _name(part)
    if part in _HASHES:
        return name
    values = dict.fromkeys(_value(part, signature) for signature in scored)
    return f"{name} ({_value(part, certified)}, now {', '.join(values)})"


def _name(part: str) -> str:
    return _NAMES.get(part, f"the {part}")


def _value(part: str, signature: Signature) -> str:
    return (signature.part(part) if part else signature.name) or "none"
