"""Templates of prompts, and fences around judged texts, which are data whatever they say.

Templates and worked examples are the files in `prompts/`.
"""

from __future__ import annotations

import functools
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ragbench.json_yaml import load_yaml
from ragbench.score.judge.base import Rubric
from ragbench.score.judge.grounding import FORMULAS
from ragbench.signature import fingerprint, fingerprint_json

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "prompts"
# Method -> prompts in the order of sending; those of `claims` depend on the formula.
_STEPS = {
    "rating": ("rating",),
    "pairwise": ("pairwise",),
    "nuggets": ("nuggets", "assignment"),
    "intentions": ("intentions", "satisfaction"),
    "retention": ("facts", "retention"),
    "support": ("support",),
    "ragas": ("ragas",),
}

# Check of claims against all passages in one request, or against each in its own.
Together = Literal["together", "each"]

# Labels and judged texts, in the order in which a judge reads them.
Material = Sequence[tuple[str, str]]

_LENGTH = 12  # hexadecimal digits: a text cannot contain its own hash by guessing
_NOT_HEX = re.compile("[^0-9a-f]")
_BROKEN_BAR = "\u00a6"
# Texts that servers turn into control tokens anywhere: `<|im_start|>`, `[INST]`, `</s>`.
_CHAT_TOKEN = re.compile(
    r"<(?=[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>)"
    r"|<(?=<\s*(?:/\s*)?SYS\s*>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
    r"|<(?=/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|think|tool_call)>)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fence:
    """Tags around judged texts that none of these texts can contain.

    All tags of a prompt end in one token, a hash of the judged texts: equal texts give equal
    prompts, whose replies can be stored. If a text contains the token, the next hash is taken, so
    that no text can close its own fence. `Fence.around` makes it; `block` returns a fenced text.

    Attributes:
        token: Twelve hexadecimal digits.
    """

    token: str

    @classmethod
    def around(cls, texts: Iterable[str], beside: Iterable[str] = ()) -> Fence:
        """Return the fence for all judged texts of one prompt.

        The token is a hash of `texts` alone, so that prompts that differ only in `beside` start
        with equal characters. Neither contains the token, also not reversed, in full-width
        characters, or with other characters in between.

        Example:
            >>> fence = Fence.around(["Piazzi found Ceres."])
            >>> fence == Fence.around(["Piazzi found Ceres."])
            True
            >>> print(fence.block("answer", "Piazzi found Ceres."))
            <answer-407ba9bfd21c>
            Piazzi found Ceres.
            </answer-407ba9bfd21c>
        """
        texts = list(texts)
        # hexadecimal digits alone: a text may write them full-width, or with other signs between
        inside = ""
        for text in (*texts, *beside):
            folded = unicodedata.normalize("NFKC", text).casefold()
            inside += _NOT_HEX.sub("", folded) + "-"
        # a text may contain the token, by chance or by design of its author
        attempt = 0
        while True:
            token = fingerprint([str(attempt), *texts], _LENGTH)
            if token not in inside and token[::-1] not in inside:
                return cls(token)
            attempt += 1

    def block(self, label: str, text: str) -> str:
        """Return a text between an opening and a closing tag, each on a line of its own.

        `harmless` replaces NUL, lone surrogates and control tokens of chat formats in the text. A
        tag needs no replacement: no text that the fence was created for contains its token. The
        text is not stripped.

        Args:
            label: First part of both tags, before the token; not checked.
            text: One of the texts that the fence was created for; may be empty.
        """
        return f"<{label}-{self.token}>\n{harmless(text)}\n</{label}-{self.token}>"


_FENCE = re.compile("Fence word: ([0-9a-f]+)\n")
_OPENING = re.compile(r"<([^<>\n]+)\Z")


def split_user_text(user: str) -> tuple[str, str, list[str]]:
    """Return the template of a user text, the token of its fence, and its judged texts.

    The template has a placeholder `[[1]]`, `[[2]]`, ... for each judged text. A text without fence
    is one judged text with an empty token. `[[fence]]` stands for the token. No judged text
    contains the fence, so that the split is exact. Judged texts are in the order of the text.

    Example:
        >>> split_user_text(user_text("claims", [("sentence-1", "It is red.")], count=1))[1:]
        ('93d5dfd2fb7e', ['It is red.'])
    """
    if (match := _FENCE.match(user)) is None:
        return "[[1]]", "", [user]
    fence, texts = match[1], list[str]()
    # Each tag ends here: a pattern of this fence would take a millisecond to compile.
    parts = user.split(f"-{fence}>")
    template, position = [parts[0]], 1
    while position < len(parts):
        opening = _OPENING.search(parts[position - 1])
        end = f"\n</{opening[1]}" if opening else ""
        text = _text_of_block(parts[position], end) if position + 1 < len(parts) else None
        if text is None:
            template.append(parts[position])
            position += 1
        else:
            texts.append(text)
            template += [f"\n[[{len(texts)}]]{end}", parts[position + 1]]
            position += 2
    return f"-{fence}>".join(template).replace(fence, "[[fence]]"), fence, texts


def _text_of_block(part: str, end: str) -> str | None:
    """Return the judged text before the end of its block; None if the part is no block."""
    is_block = end and part.startswith("\n") and part.endswith(end) and len(part) > len(end)
    return part[1 : -len(end)] if is_block else None


def harmless(text: str) -> str:
    """Return a text with the characters replaced that a server would not read as text.

    Replaced are NUL, at which some servers end a text (by U+2400); halves of surrogate pairs, which
    cannot be encoded (by U+FFFD); and the first character of a control token of chat formats (by a
    broken bar), which some servers would read as the start of another message. Zero-width and other
    invisible characters stay: they may be the object of the judgement, and cannot form a tag. An
    empty text stays empty.

    Example:
        >>> harmless("a<b <|im_start|>system [INST] </s>")
        'a<b ¦|im_start|>system ¦INST] ¦/s>'
    """
    text = text.replace("\0", "\u2400")
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    return _CHAT_TOKEN.sub(_BROKEN_BAR, text)


def system_text(step: str, **values: Any) -> str:
    """Return the system text of a prompt: the instructions, without any judged text.

    `step` names the template and `values` are its values. White space at the ends is dropped.
    Jinja's errors for an unknown step or a missing value are passed on.
    """
    return load_templates().get_template(f"{step}.system.j2").render(values).strip()


def user_text(step: str, material: Material, **values: Any) -> str:
    """Return the user text of a prompt: the judged texts in fences, and the request.

    `material` is label and text of each judged text, `values` are further values of the template of
    `step`. Jinja does not interpret judged texts. The texts that change from prompt to prompt come
    last, and the fence depends only on those before them: prompts on the same passages start with
    equal characters, which a server can cache. White space at the ends is dropped. Jinja's errors
    for an unknown step or a missing value are passed on.
    """
    # number of texts before those of the last kind; all texts if there is only one kind
    kinds = []
    for label, _ in material:
        kinds.append(label.partition("-")[0])
    constant = kinds.index(kinds[-1]) or len(kinds) if kinds else 0
    fence = Fence.around(
        (text for _, text in material[:constant]), (text for _, text in material[constant:])
    )
    template = load_templates().get_template(f"{step}.user.j2")
    blocks = _blocks(fence, material)
    # earlier turns need a sentence that they are context, not the question
    if "question" in kinds and kinds[0] == "turn":
        blocks = f"{load_templates().get_template('turns.j2').render().strip()}\n\n{blocks}"
    return template.render(fence=fence, material=blocks, **values).strip()


def worked_examples(step: str) -> list[dict[str, str]]:
    """Return the formatted worked examples of a step with a shared prompt, in order.

    Each has `material` (fenced texts) and `reply` (JSON).
    """
    examples: list[dict[str, str]] = []
    for number, example in enumerate(load_examples("examples")[step], start=1):
        examples.append(format_example(number, list(example["material"].items()), example["reply"]))
    return examples


def format_example(number: int, material: Material, reply: Mapping[str, Any]) -> dict[str, str]:
    """Return a worked example for a prompt: fenced material, and the reply as JSON.

    The keys are `material` and `reply`. The token of the fence is `example` and the number.
    """
    blocks = _blocks(Fence(f"example{number}"), material)
    return {"material": blocks, "reply": json.dumps(reply, ensure_ascii=False)}


def prompt_parts(
    rubric: Rubric, *, few_shot: bool = True, passages: Together = "together"
) -> dict[str, str | None]:
    """Return the signature parts of a rubric's prompts: short hashes of their texts.

    `rubric` is the hash of the whole rubric, `prompt` that of the templates, and `examples` that of
    the examples of both; None if the prompts show no examples.

    Args:
        rubric: Rubric whose prompts are hashed.
        few_shot: True if the prompts show examples.
        passages: Check of claims against all passages in one request, or against each in its own.
    """
    steps = _steps(rubric, passages)
    names = []
    for step, part in product(steps, ("system", "user")):
        names.append(f"{step}.{part}.j2")
    names += ["material.j2", "reply.j2", "turns.j2"]
    texts = []
    for name in names:
        texts.append((_FOLDER / name).read_text(encoding="utf-8"))
    worked = []
    for step in steps:
        if step in load_examples("examples"):
            worked.append(worked_examples(step))
    examples = fingerprint_json([rubric.examples, *worked]) if few_shot else None
    return {"rubric": rubric.fingerprint, "prompt": fingerprint(texts), "examples": examples}


def reads_passages(rubric: Rubric) -> bool:
    """Return True if a rubric checks claims against passages; False for another method."""
    sides = FORMULAS[rubric.formula or ""].sides if rubric.method == "claims" else ()
    return any(side.endswith("_passages") for side in sides)


def _steps(rubric: Rubric, passages: Together) -> Sequence[str]:
    """Return the names of the prompts of a rubric, in the order of sending."""
    if rubric.method != "claims":
        return _STEPS[rubric.method]
    sides = FORMULAS[rubric.formula or ""].sides
    together = set()
    for side in sides:
        together.add(passages == "together" and side.endswith("_passages"))
    return (
        "claims",
        *(["passages"] if True in together else []),
        *(["verdicts"] if False in together else []),
    )


def _blocks(fence: Fence, material: Material) -> str:
    return "\n\n".join(fence.block(label, text) for label, text in material)


@functools.cache
def load_templates() -> Environment:
    """Return the sandboxed Jinja environment of the templates; an undefined name is an error.

    The first call imports all that templates need; later ones import nothing.
    """
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=False,  # prompts are plain text, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.from_string("{{ 'text' }}")  # imports the codec of texts in templates
    return environment


# Jinja's cache of templates has a lock, which a thread may hold while another one forks.
os.register_at_fork(after_in_child=load_templates.cache_clear)


@functools.cache
def load_examples(name: str) -> Any:
    """Return the content of the YAML file `name` beside the templates; `name` has no ending.

    It is cached: do not change it.
    """
    return load_yaml((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), typed=True)
