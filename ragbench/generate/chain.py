"""A chain of LangChain, or any object with `invoke`, asked for an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.adapters.hits import HitReader
from ragbench.adapters.sync_or_async import Either
from ragbench.adapters.templates import JsonPath, fill
from ragbench.errors import AdapterError
from ragbench.generate.listener import Heard, callbacks_of
from ragbench.llm.completions import read_text
from ragbench.registry import shown
from ragbench.types import Prediction, Usage

_ANSWERS = ("answer", "output", "result", "output_text", "text")
_CONTEXTS = ("context", "source_documents", "documents", "contexts")


class Chain:
    """Calls a chain and reads its answer, the passages that it retrieved, and its tokens.

    Args:
        target: Has `invoke` or `ainvoke`.
        template: What it is called with: a text, or a mapping of them, with places.
        answer: Path to the answer in what it returns; None looks for it.
        id_field: Key of the passages' metadata that holds their ids.
        owner: For messages.

    Raises:
        AdapterError: The object has neither method.
        OptionError: The path is none.
    """

    def __init__(
        self, target: Any, template: Any, *, answer: str | None, id_field: str | None, owner: str
    ) -> None:
        self._invoke, self._template, self._id_field = Either(target, "invoke"), template, id_field
        self._answer = None if answer is None else JsonPath(answer, "langchain", "answer")
        if not self._invoke:
            allowed = "an object with invoke or ainvoke"
            raise AdapterError(f"{owner}: found {shown(target)}, allowed: {allowed}")

    def ask(self, question: str, values: Mapping[str, Any]) -> Prediction:
        """Return the answer to a question.

        The contexts are what its retrievers returned, heard through callbacks; else the documents
        in its answer; None where there is neither.

        Raises:
            AdapterError: What it returns is no answer.
        """
        heard = Heard(question, HitReader(self._id_field))
        given = fill(self._template, {"question": question, **values})
        if self._invoke.takes("config"):
            result = self._invoke(given, config={"callbacks": callbacks_of(heard)})
        else:
            result = self._invoke(given)
        if heard.passages is None and (documents := _documents_in(result)):
            heard.add(documents)
        text = self._text(result, heard)
        return Prediction(text, heard.passages, heard.usage, heard.queries)

    def _text(self, result: Any, heard: Heard) -> str:
        found = result if self._answer is None else self._answer.one(result)
        if self._answer is None and isinstance(result, Mapping):
            found = next((result[key] for key in _ANSWERS if key in result), result)
        content = getattr(found, "content", found)
        if content is not found and heard.usage == Usage():
            heard.answered(found)  # a message, of a model that tells no callbacks
        if isinstance(content, str):
            return content.strip()
        if isinstance(content, list) and content is not found:
            return read_text(content).strip()
        hint = "text, a message, or a mapping with answer; else answer: a path to it"
        raise AdapterError(f"found {shown(result)} instead of an answer, allowed: {hint}")


def _documents_in(result: Any) -> Sequence[Any]:
    """The documents that a chain returns beside its answer, under one of the usual names."""
    if not isinstance(result, Mapping):
        return ()
    for key in _CONTEXTS:
        found = result.get(key)
        if isinstance(found, list) and found and all(hasattr(d, "page_content") for d in found):
            return found
    return ()
