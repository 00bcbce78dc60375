"""Gate `certificate`: people agree with the judge of a run, as `ragbench calibrate` measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from ragbench.data.runs.run_folder import read_record
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError
from ragbench.gates.base import DecideBy, Gate, GatedRun, GateNames, GateProblem, within
from ragbench.records.certificate import KAPPA, AgreementFound, RequiredCertificate
from ragbench.records.gate import Decision, Facts
from ragbench.registry import Option, nearest


class Certificate(Gate):
    """People agree with the judge of this run, by the file of `ragbench calibrate`.

    The gate names no systems; `decide_systems` yields one decision. It raises a DataError if
    `file`, the path that the config sets, is None or no certificate of the rubric.

    Attributes:
        certificate: File written by `ragbench calibrate`; needs `rubric` and `min_kappa`.
        rubric: certificate: the rubric.
        min_kappa: certificate: smallest allowed kappa of judge and people.
        decide: `interval` compares the lower end of kappa's interval; `mean` and None kappa itself.
    """

    subject = "certificate"
    of = "judge"
    score_key = "rubric"
    conditions = ("min_kappa",)
    file_key = "certificate"

    certificate: Annotated[str, Option(refers_to="path")]
    rubric: Annotated[str, Option()]
    min_kappa: Annotated[float, Option(ge=-1, le=1)]
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

    def _read_certificate(self, file: Path) -> tuple[str | None, AgreementFound]:
        """Return the model of the judge, and its agreement with people by the rubric.

        The model is None if the certificate names none.

        Raises:
            DataError: The file cannot be read, or lacks the rubric or its kappa.
        """
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
        return certified.model, certified.agreement[KAPPA]

    def decide_systems(self, run: GatedRun) -> Iterator[Decision]:
        """Yield the decision, without a system: the judge is the same for all systems.

        It is undecided if the run was judged by another model, or not by this rubric, or as
        `decide_kappa` says.

        Raises:
            DataError: The gate has no file, or it cannot be read or lacks the rubric or its kappa.
        """
        if self.file is None:
            allowed = "the path of a certificate of `ragbench calibrate`"
            raise DataError(f"no certificate {self.certificate}", allowed=allowed)
        model, kappa = self._read_certificate(self.file)
        scores = [
            system.scores[self.rubric]
            for system in (() if run.summary is None else run.summary.systems)
            if self.rubric in system.scores
        ]
        # systems may have been judged by several models
        models = {score.model for score in scores if score.judge is not None}
        if not models:
            yield run.not_scored(self.rubric)
        elif models != {model}:
            judges = ", ".join(sorted(map(str, models - {model})))
            why = (
                f"the certificate is of {model}, and this run was judged by {judges}: calibrate it"
            )
            yield Decision("undecided", why)
        else:
            yield self.decide_kappa(kappa)

    def decide_kappa(self, kappa: AgreementFound) -> Decision:
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
            return Decision("undecided", why, facts=facts)
        interval = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
        why = f"kappa {kappa.value:.4g}{interval} over {kappa.n} labelled answers"
        return Decision(within(compared, self.min_kappa, None), why, facts=facts)
