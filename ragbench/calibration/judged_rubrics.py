"""The rubrics that a finished run was judged by, as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.score.judge.methods.prompt import prompt_fingerprint
from ragbench.score.judge.rubric import Rubric, built_in_rubrics, load_rubric, read_rubric
from ragbench.signature import Signature


def find_rubric(name: str, signature: str, files: Sequence[Path]) -> Rubric:
    """Find the rubric that a judge applied, by its fingerprint or that of its prompts.

    Args:
        name: The rubric.
        signature: The signature of its score: judges that ask models note what they were sent.
        files: The rubric files of the run.

    Raises:
        DataError: It is no longer what it was.
    """
    parts = dict(Signature.parse(signature).parts)
    known = [load_rubric(name)] if name in built_in_rubrics() else []
    known += [rubric for rubric in map(read_rubric, files) if rubric.name == name]
    wanted, sent = parts.get("rubric"), parts.get("prompt")
    for rubric in known:
        if wanted == rubric.fingerprint or (wanted is None and sent in _prompts(rubric)):
            return rubric
    here = ", ".join(
        rubric.fingerprint if wanted else "/".join(_prompts(rubric)) for rubric in known
    )
    raise DataError(
        f"rubric '{name}' is not the one that the judge applied: {wanted or sent} then, "
        f"{here or 'none'} now",
        allowed="the rubric as it was, or a new run",
    )


def rubric_files(config: Mapping[str, Any]) -> list[Path]:
    """Return the rubric files that the judges of a config name, those that are still there."""
    judge = (config.get("metrics") or {}).get("judge") or {}
    blocks = [judge, *(block for block in judge.values() if isinstance(block, dict))]
    names = [name for block in blocks for name in block.get("rubrics") or []]
    paths = [config["folder"] / name for name in names if name.endswith((".yaml", ".yml"))]
    return [path for path in paths if path.is_file()]


def _prompts(rubric: Rubric) -> list[str]:
    """Fingerprints of the prompts, with worked examples and without."""
    return [prompt_fingerprint(rubric, few_shot=few_shot) for few_shot in (True, False)]
