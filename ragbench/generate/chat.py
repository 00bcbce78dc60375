"""Generators that ask a chat model: prompts, passages within a budget, `type: openai`."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ragbench.errors import DataError, OptionError
from ragbench.generate.base import Generator
from ragbench.json_yaml import YamlError, load_yaml
from ragbench.llm import (
    CallFailure,
    ChatModel,
    ChatRequest,
    Connected,
    Estimate,
    Limits,
    Message,
    Prices,
    Replies,
    estimate,
)
from ragbench.llm.server import (
    CallOptions,
    PriceOptions,
    ReplyOptions,
    SamplingOptions,
    ServerOptions,
)
from ragbench.registry import Option, nearest
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Cause, Document, Prediction, Query, Turn

if TYPE_CHECKING:
    from jinja2 import Template


_FOLDER = Path(__file__).with_name("prompts")
_NAMES = ("question", "passages")
_FIELDS = ("number", "id", "title", "text")
_ALLOWED_NAMES = f"{{{{ question }}}}, {{{{ passages }}}}, each with {', '.join(_FIELDS)}"
_KEYS = ("system", "user")
_ALLOWED_FILE = "system: text, user: a template with {{ question }}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told, for every question alike.

    Attributes:
        system: What comes first; empty for none.
        user: The template of the question, as the file has it.
        template: The same, ready.
    """

    system: str
    user: str
    template: Template

    @property
    def hash(self) -> str:
        """A short hash of both texts; it moves when a word of them does."""
        return fingerprint([self.system, self.user])

    def messages(
        self, question: str, passages: Sequence[Document], turns: Sequence[Turn] = ()
    ) -> tuple[Message, ...]:
        """Return the conversation that asks a question; no value in it is read as a template.

        What was said before the question, by user and assistant, stands before it.
        """
        listed = [
            {"number": number, "id": d.id, "title": d.title, "text": d.text}
            for number, d in enumerate(passages, start=1)
        ]
        user = self.template.render(question=question, passages=listed).strip()
        first = (Message("system", self.system),) if self.system else ()
        said = [Message(t.role, t.text) for t in turns if t.role != "system" and t.text]
        return (*first, *said, Message("user", user))

    def text(self, question: str, passages: Sequence[Document]) -> str:
        """Return the conversation as a person reads it."""
        turns = self.messages(question, passages)
        return "\n\n".join(f"{turn.role}:\n{turn.content}" for turn in turns)


def load_prompt(source: str, system: str | None = None, owner: str = "prompt") -> Prompt:
    """Read a prompt: a built-in name, a YAML file with `system` and `user`, or a .j2 template.

    A given `system` takes the place of the file's; `owner` is whose option it is, for messages.
    """
    built_in = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
    path = _FOLDER / f"{source}.yaml" if source in built_in else Path(source)
    if not os.path.isfile(path):
        allowed = f"{', '.join(built_in)}, or a file: .yaml with system and user, or .j2"
        raise OptionError(owner, "prompt", source, allowed, nearest(source, built_in))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as a prompt: {error}", file=path) from None
    told, user = ("", text) if path.suffix == ".j2" else _parts(text, path)
    return Prompt(told.strip() if system is None else system.strip(), user, _compiled(user, path))


def _parts(text: str, path: Path) -> tuple[str, str]:
    try:
        content = load_yaml(text, typed=True)
    except YamlError as error:
        found = f"no YAML: {error.problem}"
        raise DataError(found, file=path, line=error.line, allowed=_ALLOWED_FILE) from None
    if not isinstance(content, dict) or not isinstance(content.get("user"), str):
        raise DataError("no prompt: it has no text 'user'", file=path, allowed=_ALLOWED_FILE)
    for key, value in content.items():
        if key not in _KEYS:
            close = nearest(str(key), _KEYS)
            raise DataError(f"unknown key '{key}'", file=path, allowed=_ALLOWED_FILE, nearest=close)
        if not isinstance(value, str):
            raise DataError(f"'{key}' is not text", file=path, allowed=_ALLOWED_FILE)
    return content.get("system", ""), content["user"]


def _compiled(user: str, path: Path) -> Template:
    """The template, checked: it asks the question, and every name is one that it gets."""
    from jinja2 import StrictUndefined, TemplateError, meta
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        autoescape=False,  # prompts are plain text, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    used: set[str] = set()
    try:
        used = meta.find_undeclared_variables(environment.parse(user))
        template = environment.from_string(user)
        # with a passage, so that what stands in a loop over passages is tried as well
        template.render(question="", passages=[dict.fromkeys(_FIELDS, "")])
    except Exception as error:  # noqa: BLE001 - a template divides by zero, adds texts to numbers
        line = getattr(error, "lineno", None)
        unknown = next((name for name in sorted(used) if name not in _NAMES), None)
        close = None if unknown is None else nearest(unknown, _NAMES)
        kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
        raise DataError(
            f"{kind}{error}".rstrip(".: "),
            file=path,
            line=line,
            allowed=_ALLOWED_NAMES,
            nearest=close,
        ) from None
    if "question" not in used:
        raise DataError("the template does not ask the question", file=path, allowed=_ALLOWED_NAMES)
    return template


_CHARACTERS_A_TOKEN = 4
_WORD = re.compile(r"\s*\S+")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without the model's tokeniser.

    Four ASCII characters are a token, as OpenAI's help page says of English; every other character
    counts as one, which is about what Chinese and Japanese take, and more than other scripts do.
    """
    plain = sum(character < "\x80" for character in text)
    return -(-plain // _CHARACTERS_A_TOKEN) + len(text) - plain


def fit(
    passages: Sequence[Document], budget: int | None, count: Callable[[str], int] = estimate_tokens
) -> list[Document]:
    """Return the passages that fit into a budget of tokens, best first.

    Whole passages are taken as long as they fit. The first that does not is cut after the last
    word that does, or left out where not one fits; those after it are left out. None takes all.
    """
    if budget is None:
        return list(passages)
    kept: list[Document] = []
    left = budget
    for passage in passages:
        tokens = count(passage.full_text)
        if tokens <= left:
            kept.append(passage)
            left -= tokens
            continue
        if (cut := _cut(passage, left, count)) is not None:
            kept.append(cut)
        break
    return kept


def _cut(passage: Document, left: int, count: Callable[[str], int]) -> Document | None:
    """The passage up to the last word that fits, found by halving; None where none does."""
    ends = [match.end() for match in _WORD.finditer(passage.text)]
    low, high = 0, len(ends)
    while low < high:
        # rounded up: at two neighbours the lower one would be tried for ever
        middle = (low + high + 1) // 2
        text = replace(passage, text=passage.text[: ends[middle - 1]]).full_text
        low, high = (middle, high) if count(text) <= left else (low, middle - 1)
    return replace(passage, text=passage.text[: ends[low - 1]]) if low else None


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """What a model is told."""

    prompt: Annotated[
        str,
        Option(
            "A built-in prompt, a YAML file with system and user, or a .j2 template.",
            refers_to="path_or_name",
        ),
    ] = "qa"
    system: Annotated[str | None, Option("System text; default: the prompt's.")] = None


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Where an answer ends, and how much of the passages it is made from."""

    stop: Annotated[list[str] | None, Option("Texts that end an answer.")] = None
    context_tokens: Annotated[
        int | None,
        Option(
            "Tokens of all passages: the first that does not fit is cut after a word, "
            "the rest is left out; null: no limit.",
            ge=1,
        ),
    ] = None


class ChatGenerator(Connected, Generator):
    """Answers questions by one chat model."""

    asks = True

    def __init__(
        self,
        connect: Callable[[Replies | None], ChatModel],
        prompt: Prompt,
        request: ChatRequest,
        *,
        context_tokens: int | None = None,
        limits: Limits | None = None,
        prices: Callable[[], Prices] = Prices.load,
    ) -> None:
        super().__init__(connect, limits=limits, prices=prices)
        self.prompt, self._request, self._context_tokens = prompt, request, context_tokens
        # A short hash of the prompt; None where another one's code has it.
        self.prompt_hash: str | None = prompt.hash
        self._left_out: set[str] = set()

    @property
    def temperature(self) -> float | None:
        """The randomness that is asked for; None leaves it to the server."""
        return self._request.temperature

    def prompt_text(self, question: str, contexts: Sequence[Document]) -> str | None:
        """Return the prompt; None where another one's code has it."""
        return None if self.prompt_hash is None else self.prompt.text(question, contexts)

    def signature_parts(self) -> Mapping[str, Any]:
        """Return what answers depend on besides question and passages."""
        request = self._request
        return {
            "model": request.model,
            "prompt": self.prompt_hash,
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "reasoning_effort": request.reasoning_effort,
            "stop": fingerprint_json(request.stop) if request.stop else None,
            "extra": fingerprint_json(dict(request.extra)) if request.extra else None,
            "context_tokens": self._context_tokens,
            "left_out": "+".join(sorted(self._left_out)) or None,
        }

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Answer from the passages that fit, in a call and with a seed of its own for each sample.

        Earlier turns of the query are messages. The contexts of the prediction are the passages as
        the model saw them, so that it is judged by these; its latency is that of the reply, also
        where that was stored. A refusal is a `CallFailure`.
        """
        passages = fit(contexts, self._context_tokens)
        reply = self.engine.ask(replace(self._asking(query, passages), sample=sample))
        if reply.refused:
            said = reply.refusal or f"finish reason {reply.finish_reason}"
            raise CallFailure(Cause.REFUSED, said, replies=(reply,))
        self._left_out.update(reply.left_out)
        if reply.ran_out:
            raise CallFailure(Cause.OUT_OF_TOKENS, reply.ran_out, replies=(reply,))
        return Prediction(
            reply.text.strip(),
            passages,
            reply.usage,
            latency_ms=reply.latency_ms,
            left_out=reply.left_out,
        )

    def estimate(self, asked: Sequence[tuple[Query, Sequence[Document]]]) -> Estimate:
        """Estimate what answering questions from passages takes; nothing is sent."""

        def ask(model: ChatModel) -> None:
            for query, contexts in asked:
                request = self._asking(query, fit(contexts, self._context_tokens))
                asyncio.run(model.complete(request))

        return estimate(ask, self.load_prices())

    def _asking(self, query: Query, passages: Sequence[Document]) -> ChatRequest:
        messages = self.prompt.messages(query.text, passages, query.turns)
        return replace(self._request, messages=messages)


@dataclass(frozen=True, kw_only=True)
class OpenAIGeneratorOptions(
    ServerOptions,
    PromptOptions,
    SamplingOptions,
    AnswerOptions,
    CallOptions,
    ReplyOptions,
    PriceOptions,
):
    """What a generator on a server is made with."""

    model: Annotated[str, Option("The model, as the server calls it.")]


class OpenAIGenerator(ChatGenerator):
    """Answer by a language model on a server that speaks the OpenAI protocol.

    The passages are numbered, best first. The tokens of `context_tokens` are estimated: four ASCII
    characters, or one other character, each.
    """

    declares = OpenAIGeneratorOptions

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        """Make a generator; nothing is sent, and no key is needed, before the first question."""
        chosen = OpenAIGeneratorOptions(**options)
        self._server = chosen.server(stream=chosen.stream, client=client)
        super().__init__(
            self._server.connect,
            load_prompt(chosen.prompt, chosen.system, "openai"),
            ChatRequest(
                chosen.model,
                (),
                temperature=chosen.temperature,
                max_tokens=chosen.max_tokens,
                seed=chosen.seed,
                stop=tuple(chosen.stop or ()),
                extra=chosen.extra or {},
                reasoning_effort=chosen.reasoning_effort,
            ),
            context_tokens=chosen.context_tokens,
            limits=chosen.limits,
            prices=chosen.load_prices,
        )

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        return self._server.missing_key
