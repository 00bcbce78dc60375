"""Local judges by name: their models, and the input that each model expects."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragbench import llm
from ragbench.embed.classifier import fill_template
from ragbench.json_yaml import load_yaml
from ragbench.llm.base import Role

_FILE = Path(__file__).parent / "presets.yaml"


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Model that says whether passages support a text, with the words of its input.

    `load_presets` returns them by name.

    Attributes:
        model: Name on the Hugging Face hub.
        head: Place of the classes in the output: that of an `InputForm`, or `chat` for a chat model
            behind a server.
        source: Page or file in which the authors publish the input.
        licence: Licence of the weights.
        size: Number of parameters.
        languages: Languages of the training data, as ISO 639-1 codes.
        ram: Memory for the weights.
        needs: Extra of ragbench, or `base_url` for a server.
        auc: Measured area under the ROC curve; None if it was not measured.
        template: Input text; empty for a pair of passage and text.
        summary: Template for an item without a question, where `template` has `{passages}`.
        passage: Form of each passage where the template has all `{passages}`.
        tokens: Ids of the decoded tokens for "unsupported" and "supported".
        label: Label of a supported text; None: the usual ones.
        system: System message of a chat model; empty for none.
        assistant: Message of the assistant before the last one; empty for none.
        user: Last message.
        documents: True if passages are sent as `documents` instead of in a message.
        answers: Words for "supported" and "unsupported" in a reply, in lower case.
        max_tokens: Longest reply of a chat model, in tokens.
    """

    model: str
    head: str
    source: str
    licence: str
    size: str
    languages: str
    ram: str
    needs: str
    auc: float | None = None
    template: str = ""
    summary: str = ""
    passage: str = ""
    tokens: tuple[int, ...] = ()
    label: str | None = None
    system: str = ""
    assistant: str = ""
    user: str = ""
    documents: bool = False
    answers: tuple[str, ...] = ()
    max_tokens: int = 1

    @property
    def reads_all(self) -> bool:
        """True if the model reads all passages at once."""
        return self.documents or "{passages}" in self.template + self.user

    def messages(self, question: str | None, passages: list[str], text: str) -> list[llm.Message]:
        """Return the messages for a chat model; `passages` is one unless it reads all.

        The system comes first, then assistant, then user; messages without words are left out.
        Several passages are separated by a blank line; without a question its gap is empty. `text`
        is the judged text.
        """
        gaps = {"question": question or "", "passages": "\n\n".join(passages), "text": text}
        gaps["passage"] = gaps["passages"]
        words: dict[Role, str] = {
            "system": self.system,
            "assistant": self.assistant,
            "user": self.user,
        }
        messages: list[llm.Message] = []
        for role, part in words.items():
            if part:
                messages.append(llm.Message(role, fill_template(part, gaps)))
        return messages

    def prompt(self, question: str | None, passages: list[str]) -> str:
        r"""Return the template with the question and all passages; `{text}` stays.

        Passages are numbered from 1 and joined by line breaks. Without a question, or with a blank
        one, the template is `summary`. Meant for presets whose template has `{passages}`.

        Example:
            >>> preset = load_presets()["lettucedetect"]
            >>> preset.prompt(None, ["It is red."])
            '\nSummarize the following text:\npassage 1: It is red.\noutput:\n'
        """
        lines = []
        for number, passage in enumerate(passages, start=1):
            lines.append(fill_template(self.passage, {"number": str(number), "passage": passage}))
        has_question = bool((question or "").strip())
        gaps = {
            "question": question or "",
            "num_passages": str(len(passages)),
            "passages": "\n".join(lines),
        }
        return fill_template(self.template if has_question else self.summary, gaps)


@functools.cache
def load_presets() -> Mapping[str, Preset]:
    """Return name -> preset of all presets, in the order of the file `presets.yaml`."""
    presets = load_yaml(_FILE.read_text(encoding="utf-8"), typed=True)
    lists = ("tokens", "answers")
    for keys in presets.values():
        # YAML has lists, a frozen preset tuples
        keys.update({part: tuple(keys[part]) for part in lists if part in keys})
    return {name: Preset(**keys) for name, keys in presets.items()}
