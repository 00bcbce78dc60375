"""Chat models and chains of LangChain as generators and apps: `type: langchain`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from ragbench.adapters.factory import Factory, FactoryArgs, resolve_client
from ragbench.adapters.hits import IdField
from ragbench.adapters.templates import PASSAGE_PLACES, check_template, passage_values
from ragbench.errors import OptionError
from ragbench.generate.chain import Chain
from ragbench.generate.chat import AnswerOptions, ChatGenerator, PromptOptions
from ragbench.generate.prompt import load_prompt
from ragbench.llm import ChatRequest, LangchainChat, Totals
from ragbench.llm.options import CallOptions
from ragbench.registry import Option
from ragbench.signature import fingerprint_json
from ragbench.types import Document, Prediction, Query

_DEFAULT_INPUT = {"question": "{question}", "context": "{context}"}


@dataclass(frozen=True, kw_only=True)
class ChainOptions:
    """What a chain gets, and where it has its answer."""

    input: Annotated[
        str | dict[str, Any] | None,
        Option(
            "What a chain gets, with {question}, {context}, {texts} or {contexts}; default: "
            '`{question: "{question}", context: "{context}"}`.'
        ),
    ] = None
    answer: Annotated[
        str | None, Option("Path to the answer in what a chain returns; default: the usual.")
    ] = None
    id_field: Annotated[
        str | None, Option("Metadata key with the ids of the passages of a chain.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class LangchainGeneratorOptions(PromptOptions, AnswerOptions, ChainOptions, CallOptions):
    """What a generator of langchain is made with."""

    factory: Factory = None
    args: FactoryArgs = None
    version: Annotated[str | None, Option("A word that you change when its answers change.")] = None
    retries: Annotated[
        int, Option("Retries of a chat model, for errors that may be temporary.", ge=0)
    ] = 6


class LangchainGenerator(ChatGenerator):
    """Answer by a chat model, a Runnable or a chain of langchain.

    A chat model is told the prompt, and its replies are kept; a chain gets `input` and does the
    rest itself. Where a chain retrieves, its own passages, heard through callbacks, are what its
    answers are judged by. Temperature and the like are those that the model was made with.
    """

    declares = LangchainGeneratorOptions
    is_opaque = True

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        chosen = LangchainGeneratorOptions(**options)
        owner = "generator 'langchain'"
        made = resolve_client(client, chosen.factory, chosen.args, owner)
        identity = fingerprint_json([chosen.factory, chosen.args, chosen.version])
        super().__init__(
            lambda replies: LangchainChat(made, version=identity),
            load_prompt(chosen.prompt, chosen.system, "langchain"),
            ChatRequest(_name_of(made, chosen.factory), (), stop=tuple(chosen.stop or ())),
            context_tokens=chosen.context_tokens,
            limits=chosen.limits,
        )
        self._identity = identity
        self._chain: Chain | None = None
        if is_chat_model(made):
            _refuse("a chat model", chosen, ChainOptions)
            return
        _refuse("a chain", chosen, PromptOptions, AnswerOptions)
        template = _DEFAULT_INPUT if chosen.input is None else chosen.input
        check_template(template, ("question", *PASSAGE_PLACES), "langchain", "input")
        self._chain = Chain(
            made, template, answer=chosen.answer, id_field=chosen.id_field, owner=owner
        )

    @property
    def prompt_hash(self) -> str | None:
        """A short hash of the prompt; None where a chain has its own."""
        return super().prompt_hash if self._chain is None else None

    def signature_parts(self) -> Mapping[str, Any]:
        """Return what answers depend on besides question and passages."""
        return {**super().signature_parts(), "arguments": self._identity}

    def check(self) -> None:
        """Connect to a chat model; a chain is ready."""
        if self._chain is None:
            super().check()

    def totals(self) -> Totals:
        """Return what a chat model has cost; a chain's calls are in the usage of its answers."""
        return super().totals() if self._chain is None else Totals()

    def _answered(self, query: Query, contexts: Sequence[Document], sample: int) -> Prediction:
        if self._chain is None:
            return super()._answered(query, contexts, sample)
        return self._chain.ask(query.text, passage_values(contexts))


def is_chat_model(target: Any) -> bool:
    """Tell a chat model, also with options bound to it or fallbacks, from a chain."""
    while (
        inner := getattr(target, "bound", None) or getattr(target, "runnable", None)
    ) is not None:
        target = inner
    return callable(getattr(target, "get_num_tokens_from_messages", None))


def _name_of(made: Any, factory: str | None) -> str:
    name = getattr(made, "model_name", None) or getattr(made, "model", None)
    return name if isinstance(name, str) else factory or type(made).__name__


def _refuse(kind: str, chosen: LangchainGeneratorOptions, *groups: type) -> None:
    for field in itertools.chain.from_iterable(map(fields, groups)):
        value = getattr(chosen, field.name)
        if value != field.default:
            raise OptionError("langchain", field.name, value, f"nothing: the object is {kind}")


class LangchainApp:
    """Answer by a chain of langchain that retrieves for itself.

    The passages that its retrievers return are heard through callbacks, so that its retrieval and
    its faithfulness are scored without a change to its code.
    """

    is_opaque = True

    def __init__(
        self,
        *,
        factory: Factory = None,
        args: FactoryArgs = None,
        input: Annotated[
            str | dict[str, Any], Option('The input: a text, or `{input: "{question}"}`.')
        ] = "{question}",
        answer: Annotated[
            str | None, Option("Path to the answer in what it returns; default: the usual.")
        ] = None,
        id_field: IdField = None,
        client: Any = None,
    ) -> None:
        owner = "app 'langchain'"
        made = resolve_client(client, factory, args, owner)
        check_template(input, ("question",), "langchain", "input")
        self._chain = Chain(made, input, answer=answer, id_field=id_field, owner=owner)

    def answer(self, question: str) -> Prediction:
        """Ask the chain."""
        return self._chain.ask(question, {})
