"""Chat models of LangChain, called by `ainvoke`, or by `invoke` in a thread."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ragbench.errors import OptionError, Phrase
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.completions import ask_json, check_end, read_logprobs, read_text
from ragbench.llm.error_words import find_field
from ragbench.llm.failures import failure_of_exception
from ragbench.llm.threads import in_thread
from ragbench.secrets import Redactor
from ragbench.types import Cause, Usage
from ragbench.types.reasoning import split_reasoning
from ragbench.types.records import usage_of_counts


class LangchainChat(ChatModel):
    """Chat model with `ainvoke(messages)` or `invoke(messages)`, or a function of messages.

    Parameters such as the temperature are those of the model, since vendors name them differently.
    Of a request, only the messages and `stop` reach the model, only the messages a function; a
    schema is put into words. `complete` returns the reply, and raises CallFailure if there is none.
    Set the retries of the model to 0, else it repeats calls that are not counted.

    Args:
        model: Chat model of LangChain, or a function, also an asynchronous one.
        version: Part of the storage key of replies; change it when the model's parameters change.

    Raises:
        OptionError: `model` cannot be called in any of these ways.
    """

    def __init__(self, model: Any, *, version: str = "") -> None:
        if not callable(getattr(model, "ainvoke", None) or getattr(model, "invoke", model)):
            allowed = "an object with ainvoke or invoke, or a function of messages"
            raise OptionError("langchain", "model", Phrase(type(model).__name__), allowed)
        self._model = model
        kind = model if inspect.isroutine(model) else type(model)
        self._clean = Redactor(_secrets_of(model))
        self.name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")
        self.identity: Mapping[str, str] = {
            "type": "langchain",
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "model": self.name,
            "temperature": str(getattr(model, "temperature", "")),
            "version": version,
        }

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request.

        Texts of the reply have no secret of the model. Its usage has no cost. `stop` is not sent to
        a function.

        Raises:
            CallFailure: The model raised an exception, returned no message, or called tools without
                a text.
        """
        messages = request.to_dict()["messages"]
        if request.schema is not None:
            messages[-1]["content"] = ask_json(messages[-1]["content"], request.schema)
        options = {"stop": list(request.stop)} if request.stop else {}
        try:
            message = await self._invoke(messages, options)
        except Exception as error:  # noqa: BLE001 - a user's model raises anything
            raise failure_of_exception(error, self._clean) from None
        return self._reply(message).cleaned(self._clean)

    async def aclose(self) -> None:
        """Do nothing: the model belongs to the user."""

    async def _invoke(self, messages: Any, options: Mapping[str, Any]) -> Any:
        """Return the message of the model, called by `ainvoke`, `invoke` or as a function."""
        if callable(ainvoke := getattr(self._model, "ainvoke", None)):
            return await ainvoke(messages, **options)
        if callable(invoke := getattr(self._model, "invoke", None)):
            return await in_thread(lambda: invoke(messages, **options))
        if inspect.iscoroutinefunction(self._model):
            return await self._model(messages)
        answer = await in_thread(lambda: self._model(messages))
        # A plain function may still return a coroutine.
        return await answer if inspect.isawaitable(answer) else answer

    def _reply(self, message: Any) -> ChatReply:
        """Return the reply of a message or text; raise a CallFailure for another object."""
        content = message if isinstance(message, str) else getattr(message, "content", None)
        if content is None:
            detail = f"the model returned a {type(message).__name__}, expected a message"
            raise CallFailure(Cause.MALFORMED, detail)
        details = getattr(message, "response_metadata", None) or {}
        usage = getattr(message, "usage_metadata", None) or {}
        refusal = (getattr(message, "additional_kwargs", None) or {}).get("refusal")
        fingerprint = details.get("system_fingerprint")
        finish_reason = _finish_reason(details)
        check_end(finish_reason)
        text = read_text(content, getattr(message, "tool_calls", None))
        return ChatReply(
            text=text,
            reasoning=split_reasoning(text)[0],
            finish_reason=finish_reason,
            refusal=str(refusal) if refusal else None,
            usage=read_usage(usage),
            logprobs=read_logprobs(details.get("logprobs")),
            model=str(details.get("model_name") or details.get("model") or self.name),
            system_fingerprint=None if fingerprint is None else str(fingerprint),
        )


def read_usage(metadata: Mapping[str, Any]) -> Usage:
    """Return the tokens of a message's `usage_metadata`, without a cost.

    Unknown tokens are None; unknown reasoning and cached tokens are 0.
    """
    sent, received = metadata.get("input_token_details"), metadata.get("output_token_details")
    sent = sent if isinstance(sent, Mapping) else {}
    received = received if isinstance(received, Mapping) else {}
    return usage_of_counts(
        metadata.get("input_tokens"),
        metadata.get("output_tokens"),
        metadata.get("total_tokens"),
        received.get("reasoning"),
        sent.get("cache_read"),
    )


def _finish_reason(details: Mapping[str, Any]) -> str:
    """Return why a message ended, by its metadata; a blocked prompt of Gemini has no reason."""
    for name in ("finish_reason", "stop_reason", "stopReason"):
        if details.get(name):
            return str(details[name])
    reason = find_field(details.get("prompt_feedback"), "block_reason")
    return f"content_filter: {reason}" if reason else ""


def _secrets_of(model: Any) -> dict[str, str]:
    """Return the attributes that a model declares as secret (pydantic), by name."""
    fields = getattr(model, "__dict__", {})
    secrets = {}
    for name, value in fields.items():
        reveal = getattr(value, "get_secret_value", None)
        if callable(reveal) and isinstance(secret := reveal(), str) and len(secret) >= 8:
            secrets[name] = secret
    return secrets
