"""Questions and gold answers of a finished run, for what looks at its answers again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragbench.calibration.sheet import Question
    from ragbench.calibration.verdicts import JudgedRun


def read_questions(run: JudgedRun) -> Mapping[str, Question]:
    """Read questions and gold answers of the run's data set, by query id.

    Raises:
        DataError: The data set is not what it was.
    """
    from ragbench.calibration.sheet import Question
    from ragbench.config import load_config
    from ragbench.errors import DataError
    from ragbench.experiment.load import load_collection

    collection = load_collection(load_config(run.folder / "config.yaml"))
    for part in ("queries", "answers"):
        then, now = run.data.get(part), collection.fingerprints.get(part)
        if then != now:
            raise DataError(
                f"the {part} are no longer those of the run: fingerprint {then} then, {now} now",
                file=run.folder / "config.yaml",
                allowed="the data as they were, or a new run",
            )
    return {
        query.id: Question(query.text, collection.answers.get(query.id, ()))
        for query in collection.queries
    }
