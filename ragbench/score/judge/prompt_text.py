"""The words of prompts: templates and worked examples, from the data files in `prompts/`."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.score.judge.base import Rubric
from ragbench.score.judge.fence import Fence
from ragbench.signature import fingerprint

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "prompts"
_STEPS = {
    "rating": ("rating",),
    "claims": ("claims", "verdicts"),
    "pairwise": ("pairwise",),
    "nuggets": ("nuggets", "assignment"),
}
"""Method -> the prompts that it sends, in order."""

Material = Sequence[tuple[str, str]]
"""Judged texts with their labels, in the order in which a judge reads them."""


def system_text(step: str, **values: Any) -> str:
    """Return the part of a prompt that says what to do; it holds nothing that is judged."""
    return _environment().get_template(f"{step}.system.j2").render(values).strip()


def user_text(step: str, material: Material, **values: Any) -> str:
    """Return the part of a prompt that holds what is judged, fenced.

    Judged texts are put in as values, which Jinja does not read as templates.
    """
    fence = Fence.around(text for _, text in material)
    template = _environment().get_template(f"{step}.user.j2")
    return template.render(fence=fence, material=_blocks(fence, material), **values).strip()


def worked(step: str) -> list[dict[str, str]]:
    """Return the worked examples of a prompt that several rubrics share, as it shows them."""
    return [
        shown_example(number, list(example["material"].items()), example["reply"])
        for number, example in enumerate(_examples()[step], start=1)
    ]


def shown_example(number: int, material: Material, reply: Mapping[str, Any]) -> dict[str, str]:
    """Return a worked example as prompts show it: material between tags, and the reply."""
    blocks = _blocks(Fence(f"example{number}"), material)
    return {"material": blocks, "reply": json.dumps(reply, ensure_ascii=False)}


def prompt_fingerprint(rubric: Rubric, *, few_shot: bool = True) -> str:
    """Return a short hash of all that a rubric's prompts say besides the item.

    It belongs into the signature of a score: it moves when a word of the rubric, of the templates
    or of the worked examples does.

    Example:
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> rubric = load_rubric("fluency")
        >>> prompt_fingerprint(rubric) == prompt_fingerprint(rubric, few_shot=False)
        False
    """
    names = [f"{step}.{part}.j2" for step in _STEPS[rubric.method] for part in ("system", "user")]
    names += ["material.j2", "reply.j2", *(["examples.yaml"] if few_shot else [])]
    texts = [(_FOLDER / name).read_text(encoding="utf-8") for name in names]
    return fingerprint([rubric.fingerprint, "few-shot" if few_shot else "zero-shot", *texts])


def _blocks(fence: Fence, material: Material) -> str:
    return "\n\n".join(fence.block(label, text) for label, text in material)


@functools.cache
def _environment() -> Environment:
    """The templates; a missing name is an error, and a text can reach nothing of Python."""
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=False,  # prompts are plain text, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@functools.cache
def _examples() -> Any:
    import yaml

    return yaml.safe_load((_FOLDER / "examples.yaml").read_text(encoding="utf-8"))
