"""Requests to the model: questions about a passage, answers with passages, answers from memory.

The texts are those of `prompts.yaml`. Texts of documents and users stand in fences, as data.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.json_yaml import load_yaml
from ragbench.llm import ChatRequest, Limits, Message, Prices, server
from ragbench.questions.base import QuestionPassage
from ragbench.registry import Option
from ragbench.score.judge.methods.templates import Fence
from ragbench.text.languages import language_name
from ragbench.types import Document

# a name only: a sentence here would be a further instruction
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z -]{1,29}")
Material = Sequence[tuple[str, str]]


class QuestionModelOptions(
    server.ServerOptions,
    server.SamplingOptions,
    Limits,
    server.ReplyOptions,
    server.PriceOptions,
):
    """Options of the model that writes and answers questions.

    Its bases add the options of the server, of sampling, of limits, of connections and of prices.
    `max_tokens` None sets no limit.
    """

    model: Annotated[str, Option("The model, as the server calls it.")]
    max_tokens: Annotated[
        int | None, Option("Length limit of a reply with its reasoning, in tokens.", ge=1)
    ] = 1024

    def load_prices(self) -> Prices:
        """Return the prices of models; a message names their file as the command line does.

        Raises:
            DataError: The file cannot be read, or has an entry that is no price.
        """
        return replace(super().load_prices(), setting="--option prices=FILE.yaml")


class QuestionPrompts:
    """Prompts of one run for one model.

    `question`, `answer` and `closed_book` return requests with a JSON schema for the reply; nothing
    is sent.

    Args:
        options: Options of the model.
        language: Code or English name of the language of questions and answers; None for that of
            the passage.
        style: Questions of real users that set the style; empty for none.

    Raises:
        OptionError: The language is more than a name.
    """

    def __init__(
        self, options: QuestionModelOptions, language: str | None = None, style: Sequence[str] = ()
    ) -> None:
        if language is not None and not _LANGUAGE.fullmatch(language):
            raise OptionError("questions", "language", language, "a name, such as German")
        texts, self._style = _texts(), style
        name = texts["same_language"] if language is None else language_name(language).title()
        hints = texts["language"].replace("{language}", name)
        self._hints = hints + texts["style"] if style else hints
        self._base = options.base_request(options.model, options.extra)

    def question(
        self, kind: str, passage: QuestionPassage, earlier: Sequence[str] = ()
    ) -> ChatRequest:
        """Return the request for a question about a passage.

        The reply has `question`, and for `fact` also `answer` and `quote`.

        Args:
            kind: `fact` or `unanswerable`; any other text is a KeyError.
            passage: Passage with its document, whose title is shown.
            earlier: Questions that were written about the passage before.
        """
        material = [
            *_numbered("example", self._style),
            ("title", passage.document.title),
            ("passage", passage.text),
            *_numbered("earlier", earlier),
        ]
        hints = self._hints + _texts()["another"] if earlier else self._hints
        return self._request(kind, material, hints)

    def answer(self, question: str, passages: Sequence[Document]) -> ChatRequest:
        """Return the request for an answer from some passages, each with its title, best first.

        The reply has `found`, a truth value, and `answer`.
        """
        texts = [f"{passage.title}\n{passage.text}".strip() for passage in passages]
        material = [*_numbered("passage", texts), ("question", question)]
        return self._request("answer", material)

    def closed_book(self, question: str) -> ChatRequest:
        """Return the request for an answer from the memory of the model.

        The reply has `found`, a truth value, and `answer`.
        """
        return self._request("closed_book", [("question", question)])

    def _request(self, prompt: str, material: Material, hints: str = "") -> ChatRequest:
        """Return the request of a prompt of the file, with the texts of `material` in fences."""
        texts, fields = _texts(), _texts()["fields"][prompt]
        properties = {}
        for name, kind in fields.items():
            properties[name] = {"type": kind}
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": [*fields],
            "additionalProperties": False,
        }
        fence = Fence.around(text for _, text in material)
        blocks = "\n\n".join(starmap(fence.block, material))
        system = f"{texts[prompt]}{hints}{texts['material']}{texts['reply']}{json.dumps(schema)}"
        user = f"Fence word: {fence.token}\n\n{blocks}\n\n{texts['closing']}"
        messages = (Message("system", system), Message("user", user))
        return replace(self._base, messages=messages, schema=schema)


def _numbered(label: str, texts: Sequence[str]) -> Material:
    """Return pairs of a numbered label, such as `example-1`, and its text."""
    return [(f"{label}-{number}", text) for number, text in enumerate(texts, start=1)]


def prompt_version() -> int:
    """Return the version of the prompts."""
    return int(_texts()["version"])


@functools.cache
def _texts() -> Any:
    path = Path(__file__).with_name("prompts.yaml")
    return load_yaml(path.read_text(encoding="utf-8"), typed=True)
