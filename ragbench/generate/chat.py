"""Generators that call a chat model: prompts, passages within a token budget, `type: openai`."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import structs

from ragbench import llm
from ragbench.errors import DataError, OptionError
from ragbench.generate.base import Generator
from ragbench.json_yaml import YamlError, load_yaml
from ragbench.llm import server
from ragbench.registry import Option, OptionSet, nearest, quote
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Cause, Document, Prediction, Query, Turn
from ragbench.types.lookups import all_are

if TYPE_CHECKING:
    from jinja2 import Template


_FOLDER = Path(__file__).with_name("prompts")
_FIELDS = ("number", "id", "title", "text")
_ALLOWED_NAMES = f"{{{{ question }}}}, {{{{ passages }}}}, each with {', '.join(_FIELDS)}"
_KEYS = {"system", "user"}
_ALLOWED_FILE = "system: text, user: a template with {{ question }}"


@dataclass(frozen=True, slots=True)
class GeneratorPrompt:
    """Prompt of a generator: a system message and a template of the user message.

    `load_prompt` makes it. `messages` fills in a question and its passages.

    Attributes:
        system: System message; empty for none.
        user: Source of the template.
        template: Compiled template.
    """

    system: str
    user: str
    template: Template

    @property
    def hash(self) -> str:
        """Short hash of both texts, part of the key of stored answers."""
        return fingerprint([self.system, self.user])

    def messages(
        self, question: str, passages: Sequence[Document], turns: Sequence[Turn] = ()
    ) -> tuple[llm.Message, ...]:
        """Return the messages for a question: system message, earlier turns, user message.

        The user message is stripped, earlier turns are as given; an empty system message is left
        out. An error of the template, such as a division by zero, is passed on.

        Args:
            question: Text of the question.
            passages: Passages, best first; numbered from 1.
            turns: Earlier turns; turns of the system and turns with an empty text are left out.
        """
        # Values are inserted once: braces in a passage are not read as a template.
        numbered_passages = []
        for number, document in enumerate(passages, start=1):
            values = {"id": document.id, "title": document.title, "text": document.text}
            numbered_passages.append({"number": number, **values})
        user = self.template.render(question=question, passages=numbered_passages).strip()
        system = (llm.Message("system", self.system),) if self.system else ()
        history = []
        for turn in turns:
            if turn.role != "system" and turn.text:
                history.append(llm.Message(turn.role, turn.text))
        return (*system, *history, llm.Message("user", user))

    def text(self, question: str, passages: Sequence[Document]) -> str:
        """Return the messages for a question as one text, for people.

        Messages are separated by blank lines, each led by its role; earlier turns are not shown.
        """
        messages = self.messages(question, passages)
        return "\n\n".join(f"{message.role}:\n{message.content}" for message in messages)


def load_prompt(source: str, system: str | None = None, owner: str = "prompt") -> GeneratorPrompt:
    """Return a prompt from its built-in name, a YAML file or a .j2 template.

    A `.j2` file has no system message of its own; any other file is read as YAML.

    Args:
        source: Built-in name, or path of a YAML file with `system` and `user` or of a template.
        system: System message that replaces that of the file; None keeps it.
        owner: Component with the option, for messages.

    Raises:
        OptionError: There is no such prompt or file.
        DataError: The file cannot be read, has other keys, or its template is invalid.
    """
    built_in = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
    # A built-in name takes precedence over a file of that name.
    path = _FOLDER / f"{source}.yaml" if source in built_in else Path(source)
    if not os.path.isfile(path):
        allowed = f"{', '.join(built_in)}, or a file: .yaml with system and user, or .j2"
        raise OptionError(owner, "prompt", source, allowed, nearest(source, built_in))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as a prompt: {error}", file=path) from None
    file_system, user = ("", text) if path.suffix == ".j2" else _parts(text, path)
    chosen_system = file_system if system is None else system
    return GeneratorPrompt(chosen_system.strip(), user, _compile(user, path))


def _parts(text: str, path: Path) -> tuple[str, str]:
    """Return the system message and the template of a YAML file; raise a DataError if invalid."""
    try:
        content = load_yaml(text, typed=True)
    except YamlError as error:
        problem = f"no YAML: {error.problem}"
        raise DataError(problem, file=path, line=error.line, allowed=_ALLOWED_FILE) from None
    is_text = isinstance(content, dict) and all_are(content.values(), str)
    if not (is_text and "user" in content and content.keys() <= _KEYS):
        raise DataError(f"no prompt: found {quote(content)}", file=path, allowed=_ALLOWED_FILE)
    return content.get("system", ""), content["user"]


def _compile(user: str, path: Path) -> Template:
    """Return the compiled template of a user message."""
    from jinja2 import StrictUndefined, TemplateError, meta
    from jinja2.sandbox import SandboxedEnvironment

    # Sandboxed and strict: a template is a user's file, and a misspelt name must be an error.
    environment = SandboxedEnvironment(
        autoescape=False,  # prompts are plain text, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        names = meta.find_undeclared_variables(environment.parse(user))
        template = environment.from_string(user)
        # With one passage, so that the body of a loop over passages is tried as well.
        template.render(question="", passages=[dict.fromkeys(_FIELDS, "")])
    except Exception as error:  # noqa: BLE001 - a template divides by zero, adds texts to numbers
        kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
        problem, line = f"{kind}{error}".rstrip(".: "), getattr(error, "lineno", None)
        raise DataError(problem, file=path, line=line, allowed=_ALLOWED_NAMES) from None
    if "question" not in names:
        raise DataError("the template does not ask the question", file=path, allowed=_ALLOWED_NAMES)
    return template


_CHARACTERS_A_TOKEN = 4  # OpenAI's rule of thumb for English
_WORD = re.compile(r"\S+")


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text, without a tokeniser.

    Four ASCII characters count as one token, OpenAI's rule for English. Any other character counts
    as one token: about right for Chinese and Japanese, too many for other scripts.
    """
    n_ascii = sum(character < "\x80" for character in text)
    # Rounded up.
    return -(-n_ascii // _CHARACTERS_A_TOKEN) + len(text) - n_ascii


def fit(
    passages: Sequence[Document], budget: int | None, count: Callable[[str], int] = estimate_tokens
) -> list[Document]:
    """Return the passages that fit into a token budget, in their order.

    The first passage that does not fit is cut after its last word that fits, or left out if no word
    does; all later passages are left out. The title counts too; a cut passage is a copy.

    Args:
        passages: Passages, best first.
        budget: Number of tokens; None takes all passages.
        count: Returns the number of tokens of a text.
    """
    if budget is None:
        return list(passages)
    fitting: list[Document] = []
    remaining = budget
    for passage in passages:
        tokens = count(passage.full_text)
        if tokens <= remaining:
            fitting.append(passage)
            remaining -= tokens
            continue
        if (cut := _cut(passage, remaining, count)) is not None:
            fitting.append(cut)
        break
    return fitting


def _cut(passage: Document, budget: int, count: Callable[[str], int]) -> Document | None:
    """Return a passage cut after the last word that fits, by bisection; None if no word fits."""
    ends = [match.end() for match in _WORD.finditer(passage.text)]
    low, high = 0, len(ends)
    while low < high:
        # Rounded up: else two neighbours would give the lower one for ever.
        middle = (low + high + 1) // 2
        text = structs.replace(passage, text=passage.text[: ends[middle - 1]]).full_text
        low, high = (middle, high) if count(text) <= budget else (low, middle - 1)
    return structs.replace(passage, text=passage.text[: ends[low - 1]]) if low else None


class PromptOptions(OptionSet):
    """Prompt of a generator; `load_prompt` reads it and raises the errors."""

    prompt: Annotated[
        str,
        Option(
            "A built-in prompt, a YAML file with system and user, or a .j2 template.",
            refers_to="path_or_name",
        ),
    ] = "qa"
    system: Annotated[str | None, Option("System text; default: the prompt's.")] = None


class AnswerOptions(OptionSet):
    """End of answers, and token budget of the passages."""

    stop: Annotated[list[str] | None, Option("Texts that end an answer.")] = None
    context_tokens: Annotated[
        int | None,
        Option(
            "Tokens of all passages: the first that does not fit is cut after a word, "
            "the rest is left out; null: no limit.",
            ge=1,
        ),
    ] = None


class ChatGenerator(llm.Connected, Generator):
    """Generator that answers by one chat model.

    `generate_for` returns a prediction. It raises CallFailure if the call fails, or the model
    refuses or runs out of tokens.

    Args:
        connect: Returns the client of the model, given the store of replies.
        prompt: Prompt for all questions.
        request: Request without messages: the model and its parameters.
        context_tokens: Token budget of the passages.
        limits: Limits of the calls.
        prices: Returns the prices of models.

    Attributes:
        prompt: Prompt for all questions.
        prompt_hash: Hash of the prompt; None for a chain, whose prompt is in the user's code.
    """

    asks = True

    def __init__(
        self,
        connect: Callable[[llm.Replies | None], llm.ChatModel],
        prompt: GeneratorPrompt,
        request: llm.ChatRequest,
        *,
        context_tokens: int | None = None,
        limits: llm.Limits | None = None,
        prices: Callable[[], llm.Prices] = llm.Prices.load,
    ) -> None:
        super().__init__(connect, limits=limits, prices=prices)
        self.prompt, self._request, self._context_tokens = prompt, request, context_tokens
        self.prompt_hash: str | None = prompt.hash
        self._left_out: set[str] = set()

    @property
    def temperature(self) -> float | None:
        """Temperature of the requests; None leaves it to the server."""
        return self._request.temperature

    @property
    def models(self) -> tuple[str, ...]:
        """Name of the model, as in requests."""
        return (self._request.model,)

    def prompt_text(self, question: str, contexts: Sequence[Document]) -> str | None:
        """Return the prompt for people; None if the prompt is in the user's code."""
        return None if self.prompt_hash is None else self.prompt.text(question, contexts)

    def signature_parts(self) -> Mapping[str, Any]:
        """Return the inputs of answers besides question and passages: model and parameters.

        Parameters that are not set are None; `left_out` names those that the server has refused so
        far, joined by `+`. `prompt`, `stop` and `extra` are hashes.
        """
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
        """Return the answer of the model from the passages that fit; each sample is a call.

        The contexts of the prediction are the passages as sent, cut to the budget. Its latency is
        that of the original call, also for a stored reply. The text is stripped, with reasoning
        that the caller may cut; latency is in milliseconds. Other errors of `ChatEngine.ask` and of
        connecting are passed on, such as an OptionError for a missing key.

        Raises:
            CallFailure: The call failed, the model refused, or the reply ran out of tokens.

        """
        passages = fit(contexts, self._context_tokens)
        reply = self.engine.ask(replace(self._request_for(query, passages), sample=sample))
        if reply.refused:
            reason = reply.refusal or f"finish reason {reply.finish_reason}"
            raise llm.CallFailure(Cause.REFUSED, reason, replies=(reply,))
        # Refused parameters belong to the signature: the answers were made without them.
        self._left_out.update(reply.left_out)
        if reply.ran_out:
            raise llm.CallFailure(Cause.OUT_OF_TOKENS, reply.ran_out, replies=(reply,))
        return Prediction(
            reply.text.strip(),
            passages,
            reply.usage,
            latency_ms=reply.latency_ms,
            left_out=reply.left_out,
        )

    def estimate(
        self,
        questions: Sequence[tuple[Query, Sequence[Document], int]],
        counted: llm.CountedRequests | None = None,
        salt: str = "",
    ) -> llm.Estimate:
        """Return an estimate of calls, tokens and cost; send nothing.

        Args:
            questions: Queries with their passages, and the number of the sample.
            counted: Requests that other components make as well.
            salt: Word that tells passages that stand for others from those of other stages.
        """

        def ask(model: llm.ChatModel) -> None:
            for query, contexts, sample in questions:
                request = self._request_for(query, fit(contexts, self._context_tokens))
                asyncio.run(model.complete(replace(request, sample=sample)))

        place = {**self.server, "salt": salt} if salt else self.server
        return llm.estimate(ask, self.load_prices(), counted, place)

    def _request_for(self, query: Query, passages: Sequence[Document]) -> llm.ChatRequest:
        messages = self.prompt.messages(query.text, passages, query.turns)
        return replace(self._request, messages=messages)


class OpenAIGeneratorOptions(
    server.ServerOptions,
    PromptOptions,
    server.SamplingOptions,
    AnswerOptions,
    llm.Limits,
    server.ReplyOptions,
    server.PriceOptions,
):
    """Options of a generator on a chat server.

    Limits that are out of range raise an OptionError; the generator checks the other values.
    """

    model: Annotated[str, Option("The model, as the server calls it.")]


class OpenAIGenerator(ChatGenerator):
    """Answer by a language model on a server with the OpenAI protocol.

    The passages are numbered, best first. The tokens of `context_tokens` are estimated: four ASCII
    characters, or one other character, each. Options are those of `OpenAIGeneratorOptions`, with
    `model` required. `generate_for` returns a prediction, and raises CallFailure if the call fails,
    or the model refuses or runs out of tokens.
    """

    declares = OpenAIGeneratorOptions

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        """Check the options; no key is needed and nothing is sent before the first question.

        `client` replaces the server address; None uses the address.

        Raises:
            OptionError: Unknown prompt, options of Azure that do not fit together, a malformed
                address, or a limit that is out of range.
            DataError: The prompt file cannot be read or is invalid.
            TypeError: An unknown option, or no `model`.
        """
        chosen = OpenAIGeneratorOptions(**options)
        self._server = server.Server.from_options(chosen, client=client)
        super().__init__(
            self._server.connect,
            load_prompt(chosen.prompt, chosen.system, "openai"),
            replace(chosen.base_request(chosen.model, chosen.extra), stop=tuple(chosen.stop or ())),
            context_tokens=chosen.context_tokens,
            limits=chosen,
            prices=chosen.load_prices,
        )

    @property
    def server(self) -> Mapping[str, str]:
        """Identity of the server in the keys of replies."""
        return self._server.identity

    @property
    def missing_key(self) -> str | None:
        """Name of the environment variable whose key is missing; None if no key is missing."""
        return self._server.missing_key
