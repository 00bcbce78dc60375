"""`certificate`: people agree with the judge of a run, as `ragbench calibrate` found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from ragbench.data.runs.run_folder import read_record
from ragbench.errors import DataError
from ragbench.gates.base import (
    DecideBy,
    Decision,
    Entry,
    Gate,
    GatedRun,
    GateFiles,
    KnownNames,
    within,
)
from ragbench.records.certificate import (
    KAPPA,
    AgreementFound,
    RequiredCertificate,
)
from ragbench.records.gate import Facts
from ragbench.registry import Option, nearest


@dataclass(frozen=True, kw_only=True)
class Certificate(Gate):
    """People agree with the judge of this run, by the file of `ragbench calibrate`."""

    subject = "certificate"
    of = "judge"
    conditions = ("min_kappa",)
    file_key = "certificate"

    certificate: Annotated[
        str,
        Option(
            "File written by `ragbench calibrate`; needs `rubric` and `min_kappa`.",
            refers_to="path",
        ),
    ]
    rubric: Annotated[str, Option("certificate: the rubric.")]
    min_kappa: Annotated[
        float, Option("certificate: smallest allowed kappa of judge and people.", ge=-1, le=1)
    ]
    decide: DecideBy = None

    @property
    def about(self) -> str:
        """The rubric, by which a judge scores."""
        return self.rubric

    @property
    def text(self) -> str:
        """The condition."""
        how = f" ({self.decide})" if self.decide else ""
        return f"kappa of {self.rubric} >= {self.min_kappa:g} in {self.certificate}{how}"

    def check(self, entry: Entry, known: KnownNames, *, complete: bool = True) -> None:
        """It is of no system."""
        if self.system is not None:
            entry.wrong("system", "a certificate is of a judge, not of a system", at_key=True)

    def read(self, files: GateFiles) -> None:
        """Read the certificate, which has to have the rubric with its kappa."""
        if self.file is None:
            return
        certificate = read_record(self.file, RequiredCertificate)
        rubrics = certificate.rubrics
        if self.rubric not in rubrics:
            raise DataError(
                f"no rubric '{self.rubric}'",
                file=self.certificate,
                allowed=", ".join(rubrics),
                nearest=nearest(self.rubric, rubrics),
            )
        if KAPPA not in rubrics[self.rubric].agreement:
            raise DataError(f"'{self.rubric}' has no kappa", file=self.certificate)
        files.certificates[self.file] = certificate

    def verdicts(self, run: GatedRun) -> Iterator[tuple[str | None, Decision]]:
        """Decide it once: a judge is the same for all systems."""
        yield None, self._decision(run)

    def _decision(self, run: GatedRun) -> Decision:
        if self.file is None:
            raise DataError(f"no certificate {self.certificate}")
        certificate = run.files.certificates[self.file]
        certified = certificate.rubrics[self.rubric].model
        scores = [
            each.scores[self.rubric]
            for each in (() if run.summary is None else run.summary.systems)
            if self.rubric in each.scores
        ]
        models = [score.model for score in scores if score.judge is not None]
        others = sorted({str(model) for model in models if model != certified})
        if not models:
            return run.not_scored(self.rubric)
        if others:
            judges = ", ".join(others)
            why = f"the certificate is of {certified}, and this run was judged by {judges}"
            return Decision("undecided", why)
        return self.decide_kappa(certificate.rubrics[self.rubric].agreement[KAPPA])

    def decide_kappa(self, kappa: AgreementFound) -> Decision:
        """Decide by the kappa of a certificate, or the lower end of its interval.

        Undecided where kappa is not defined: labels that are all the same say nothing of the judge.
        """
        value, (low, high) = kappa.value, kappa.interval
        compared = low if self.decide == "interval" else value
        facts = Facts(kappa=value, interval=kappa.interval, n=kappa.n)
        if value is None or compared is None:
            reason = f": {kappa.reason}" if kappa.reason else ""
            return Decision("undecided", f"kappa is not defined{reason}", facts)
        shown = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
        why = f"kappa {value:.4g}{shown} over {kappa.n} labelled answers"
        return Decision(within(compared, self.min_kappa, None), why, facts)
