"""Page of the answers on which a judge and people disagree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.calibration.disagreements import Disagreement
from ragbench.records.certificate import JudgeCertificate
from ragbench.report.judge_sentences import certificate_sentences
from ragbench.report.page.html import render_page, write_text


def write_disagreement_page(
    path: Path,
    disagreements: Sequence[Disagreement],
    certificate: JudgeCertificate,
    changes: Sequence[str] = (),
) -> None:
    """Write the page of disagreements and flipped answers; it makes no request.

    The sentences on the judges stand first, then `changes`, the lines on judges that changed.

    Raises:
        OSError: The page cannot be written.
    """
    sentences = [*certificate_sentences(certificate), *changes]
    page = render_page(
        "disagreements", name=certificate.run, sentences=sentences, disagreements=disagreements
    )
    write_text(path, page)
