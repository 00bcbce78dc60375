"""Models of the judge `classifier` behind servers, as chat models of the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ragbench import llm
from ragbench.adapters.http import Endpoint
from ragbench.json_yaml import load_json
from ragbench.llm.threads import in_thread


class ClassificationEndpoint(llm.ChatModel):
    """Client of a classification server, in the form of Hugging Face's `POST /predict`.

    The message of a request is the JSON list of its inputs, a text or a pair each; the text of a
    reply is the JSON that the server returns: for each input its labels with their scores. Inputs
    that are too long for the model are refused, not cut. `complete` raises CallFailure for a failed
    call; it is not repeated.

    Args:
        url: URL of the server, without `/predict`.
        api_key_env: Environment variable with the key; None, or one that is not set, sends none.

    Raises:
        OptionError: The URL is invalid.
    """

    def __init__(self, url: str, api_key_env: str | None) -> None:
        key = os.environ.get(api_key_env or "", "")
        headers = {"Authorization": f"Bearer {key}"} if key else None
        address = f"{url.rstrip('/')}/predict"
        # the engine limits time and repeats calls
        self._endpoint = Endpoint("classifier", address, headers, timeout=3600.0, retries=0)
        self.identity: Mapping[str, str] = {"type": "predict", "url": self._endpoint.address}

    async def complete(self, request: llm.ChatRequest) -> llm.ChatReply:
        """Return the labels and scores of the inputs as JSON, in their order.

        Raises:
            CallFailure: The call failed, or the reply is no JSON.
            ValueError: The last message of the request is no JSON.
        """
        inputs = load_json(request.messages[-1].content)
        body = {"inputs": inputs, "truncate": False}
        reply = await in_thread(lambda: self._endpoint.post(body))
        return llm.ChatReply(json.dumps(reply), model=request.model)

    async def aclose(self) -> None:
        """Do nothing: connections are closed with the object."""


class RoutedModels(llm.ChatModel):
    """Several models behind one engine, chosen by the name of the model in a request.

    `complete` returns the reply of that model, and raises KeyError for another name, CallFailure
    for a failed call. `identity` joins those of the models.

    Args:
        models: Name -> client.
    """

    def __init__(self, models: Mapping[str, llm.ChatModel]) -> None:
        self._models = models
        identity = {}
        for name, model in models.items():
            for key, value in model.identity.items():
                identity[f"{name}.{key}"] = value
        self.identity: Mapping[str, str] = identity

    async def complete(self, request: llm.ChatRequest) -> llm.ChatReply:
        """Return the reply of the model that the request names; raise KeyError for another name.

        Raises:
            CallFailure: The call failed.
        """
        return await self._models[request.model].complete(request)

    async def aclose(self) -> None:
        """Close the connections of all models."""
        for model in self._models.values():
            await model.aclose()
