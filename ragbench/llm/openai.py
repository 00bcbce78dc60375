"""Any server that speaks the OpenAI chat protocol, through the `openai` package (extra `judge`)."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import getproxies_environment

from ragbench.errors import MissingExtra, OptionError
from ragbench.llm import completions, failures
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.threads import in_thread
from ragbench.records.codec import clean_tree
from ragbench.secrets import mask_addresses, mask_secrets, redact
from ragbench.types import Cause

if TYPE_CHECKING:
    import ssl

_CONNECT_S = 10.0  # a server that does not even accept a connection is asked again
_TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_TRUST_NAMES = ", ".join(_TRUST)
_SHORTEST_SECRET = 8  # 'none' and 'local' are no keys, and stand in many texts


class OpenAIChat(ChatModel):
    """Asks an OpenAI-compatible server; one call, no retries of the client's own.

    What a server turns out not to know (a response format, a parameter's name) is left out of
    later calls. Log messages, errors and replies never hold the key.

    Args:
        base_url: The server, up to and with `/v1`; None or empty: OpenAI's own. A query is sent
            with every request. Azure's addresses, `https://NAME.openai.azure.com/openai` with or
            without `/deployments/NAME`, and `?api-version=...`, get the key as Azure wants it.
        api_key_env: The environment variable that holds the key. A server of one's own needs none.
        stream: Whether to take replies in pieces, for servers that cut connections which are
            silent for long.
        client: A ready `openai.OpenAI` or `AsyncOpenAI` in place of the address and the variable:
            its server, key and headers count, its retries do not, and it is not closed. The HTTP
            client inside is used as well, unless it is asynchronous: that belongs to another loop.
        keyless: Whether nothing will be sent, so that no key is asked for.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        stream: bool = False,
        client: Any = None,
        keyless: bool = False,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtra("chat model 'openai'", "openai", "judge") from error
        patience = openai.Timeout(None, connect=_CONNECT_S)
        self._client: Any
        self._owns_client = client is None
        where = ""
        if client is None:
            address = Address.parse(base_url or os.environ.get("OPENAI_BASE_URL") or None)
            self._secrets, key = _key(api_key_env, address, keyless)
            if address is not None and address.query:
                where = mask_secrets(address.written)
                self._secrets |= {"base_url": address.written} if where != address.written else {}
            self._client = _connected(address, api_key=key, max_retries=0, timeout=patience)
        else:
            if not isinstance(client, (openai.OpenAI, openai.AsyncOpenAI)):
                allowed = "an openai.OpenAI or openai.AsyncOpenAI"
                raise OptionError("openai", "client", type(client).__name__, allowed)
            self._client, self._secrets = client, _secrets_of(client)
            Address.parse(str(client.base_url))
            self._owns_client = isinstance(client, openai.AsyncOpenAI)
            http = _http_client() if self._owns_client else _guarded(client._client)
            options = {"max_retries": 0, "timeout": patience, "http_client": http}
            self._client = self._client.with_options(**options)
        self._waits = isinstance(self._client, openai.OpenAI)
        if self._waits and stream:
            found = "a synchronous client with stream"
            raise OptionError("openai", "client", found, "an openai.AsyncOpenAI, or no stream")
        self._stream = stream
        self._refused: dict[str, completions.Refused] = {}
        self.identity: Mapping[str, str] = {
            "type": "openai",
            "base_url": where or str(self._client.base_url).rstrip("/"),
        }

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request; what the model refuses is left out, now and later.

        It is remembered only if the request is then not refused as a whole: an error may name a
        parameter that it is not about.
        """
        model = request.model
        known, refused_all = self._refused.get(model, completions.Refused()), False
        try:
            while True:
                wording = completions.word(request, known, stream=self._stream)
                try:
                    reply = await self._ask(wording)
                except CallFailure as failure:
                    more = completions.learn(wording, failure, known)
                    if more is None:
                        refused_all = failure.status in completions.REFUSING
                        raise
                    known = more
                else:
                    return completions.as_asked(reply, request, wording)
        finally:
            if not refused_all:
                self._refused[model] = self._refused.get(model, completions.Refused()) | known

    def parameters(self, request: ChatRequest) -> frozenset[str]:
        """Return what a request asks for that its model may refuse, by name."""
        wording = completions.word(request, completions.Refused(), stream=self._stream)
        return frozenset(wording.body.keys() - {"model", "messages"})

    async def aclose(self) -> None:
        """Give back the connections."""
        if self._owns_client:
            await self._client.close()

    async def invoke(self, name: str, **arguments: Any) -> Any:
        """Return what a method of the client returns, such as `files.create`.

        Raises:
            CallFailure: The server refuses, or there is no connection.
        """
        import openai

        method = functools.reduce(getattr, name.split("."), self._client)
        call = functools.partial(method, **arguments)
        try:
            return await (in_thread(call) if self._waits else call())
        except openai.APIConnectionError as error:
            raise self._connection_failure(error) from None
        except openai.APIError as error:
            raise failures.failure_of_exception(error, self.clean) from None

    async def _ask(self, wording: completions.Wording) -> ChatReply:
        import openai

        try:
            body = await (self._streamed(wording) if self._stream else self._whole(wording))
        except openai.APIConnectionError as error:
            raise self._connection_failure(error) from None
        except openai.APIStatusError as error:
            # `from None`: the client's exception holds the request with its headers
            raise failures.failure_of_exception(error, self.clean) from None
        except openai.APIError as error:  # an error in the middle of a stream has no status
            told = clean_tree(error.body, self.clean)
            raise failures.failure_of_body(told, self.clean(error.message)) from None
        return completions.read_completion(body).cleaned(self.clean)

    async def _whole(self, wording: completions.Wording) -> str:
        # the text as it came: the client's own records accept what is no completion, and take
        # longer to make than the rest of a call
        post = functools.partial(
            self._client.post, "/chat/completions", cast_to=str, body=wording.body
        )
        return self.clean(await (in_thread(post) if self._waits else post()))

    async def _streamed(self, wording: completions.Wording) -> str:
        import openai
        from openai.types.chat import ChatCompletionChunk

        chunks = []
        stream = await self._client.post(
            "/chat/completions",
            cast_to=ChatCompletionChunk,
            body=wording.body,
            stream=True,
            stream_cls=openai.AsyncStream[ChatCompletionChunk],
        )
        try:
            async for chunk in stream:
                chunks.append(chunk.to_dict())
        except (openai.APIError, ValueError):
            raise
        except Exception as error:  # noqa: BLE001 - the HTTP library's own errors, unwrapped
            raise self._connection_failure(error) from None
        finally:
            await stream.close()
        return self.clean(completions.join_chunks(chunks))

    def _connection_failure(self, error: BaseException) -> CallFailure:
        import openai

        if isinstance(error, openai.APITimeoutError):
            detail = f"no connection within {_CONNECT_S:g} s"
            return CallFailure(Cause.TIMEOUT, detail, retryable=True)
        cause = error.__cause__ or error
        if isinstance(cause, CallFailure):
            return replace(cause, detail=self.clean(cause.detail))
        where = self.identity["base_url"]
        words = f"{where}: {type(cause).__name__}: {cause}".rstrip(": ")
        return failures.failure_of_connection(self.clean(words))

    def clean(self, text: str) -> str:
        """Return a text of the server's without secrets."""
        return redact(text, self._secrets)


class OpenAILike(OpenAIChat):
    """Asks an object of the user's that has the interface of `openai`: `chat.completions.create`.

    What it returns is a completion as `openai` has it, or the same as a mapping.
    """

    def __init__(self, client: Any) -> None:
        self._secrets = _secrets_of(client)
        self._client, self._owns_client, self._stream = client, False, False
        self._refused: dict[str, completions.Refused] = {}
        kind = type(client)
        self.identity = {"type": "openai", "class": f"{kind.__module__}.{kind.__qualname__}"}

    async def _ask(self, wording: completions.Wording) -> ChatReply:
        create = self._client.chat.completions.create
        try:
            if inspect.iscoroutinefunction(create):
                made = await create(**wording.body)
            else:
                made = await in_thread(functools.partial(create, **wording.body))
                made = await made if inspect.isawaitable(made) else made
        except Exception as error:  # noqa: BLE001 - a user's client raises anything
            raise failures.failure_of_exception(error, self.clean) from None
        dump = getattr(made, "model_dump_json", None)
        body = dump() if callable(dump) else json.dumps(made, default=vars)
        return completions.read_completion(self.clean(body))


def is_azure(address: str) -> bool:
    """Tell whether an address is of Azure's classic interface: by deployment and version."""
    path, _, query = address.partition("?")
    by_deployment = "/deployments/" in path or path.rstrip("/").endswith("/openai")
    return by_deployment and "api-version=" in query


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is.

    Attributes:
        url: The address without its query.
        query: What goes with every request.
        written: Address and query as they were written.
    """

    url: str
    query: Mapping[str, str]
    written: str

    @classmethod
    def parse(cls, address: str | None) -> Address | None:
        """Read an address, refused where it holds credentials: it goes into keys and files."""
        if address is None:
            return None
        allowed = "http://... or https://..."
        try:
            parts = urlsplit(address)
            _ = parts.port  # read when it is asked for
        except ValueError:  # a host in half a bracket, or what is no port
            found = f"{address.partition(':')[0]}://..."
            raise OptionError("openai", "base_url", found, allowed) from None
        if "@" in parts.netloc or parts.fragment:
            bare = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
            found = f"{bare} with credentials or a fragment"
            allowed = "an address alone; the key goes into the variable that api_key_env names"
            raise OptionError("openai", "base_url", found, allowed)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError("openai", "base_url", mask_secrets(address), allowed)
        # Azure's portal shows the address of the call itself
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        return cls(f"{parts.scheme}://{parts.netloc}{path}", dict(parse_qsl(parts.query)), address)


def _http_client() -> object:
    """A client that follows no redirect: another host would get the question and the passages.

    And that reads no more of a reply than an answer could be.
    """
    import openai

    try:
        for name, proxy in getproxies_environment().items():
            _ = name == "no" or urlsplit(proxy).port  # else it is read when it is too late
        return openai.DefaultAsyncHttpxClient(
            verify=_trusted(*map(os.environ.get, _TRUST)),
            follow_redirects=False,
            headers={"Accept-Encoding": ", ".join(failures.ENCODINGS)},
            event_hooks={"response": [failures.async_bound_reply]},
        )
    except Exception as error:  # noqa: BLE001 - of several kinds, and it quotes logins of proxies
        found = f"{type(error).__name__}: {mask_addresses(str(error))}"
        allowed = f"a proxy such as http://host:3128, files that are there: *_PROXY, {_TRUST_NAMES}"
        raise OptionError("openai", "environment", found, allowed) from None


def _guarded(http_client: Any) -> object:
    """A user's synchronous client with its connections, bounded as `_http_client` is."""
    # the original closes the connections when it is gone, and no copy of it before
    guarded: Any = type("Guarded", (type(http_client),), {"__del__": lambda self: None})
    own = guarded.__new__(guarded)
    vars(own).update(vars(http_client))
    own.follow_redirects = False
    own.headers = {**http_client.headers, "Accept-Encoding": ", ".join(failures.ENCODINGS)}
    hooks = http_client.event_hooks
    own.event_hooks = {**hooks, "response": [*hooks["response"], failures.bound_reply]}
    return own


@functools.cache
def _trusted(*_values: str | None) -> ssl.SSLContext:
    """What a client of these variables trusts, made once: it takes 25 ms, however local a server.

    By the package that `openai` builds its clients with, which is not the same in all versions.
    """
    import openai

    package = openai.DefaultAsyncHttpxClient.__mro__[1].__module__
    made: ssl.SSLContext = importlib.import_module(package).create_ssl_context()
    return made


def _connected(address: Address | None, **options: Any) -> Any:
    """The client for an address; None is OpenAI's own."""
    import openai

    options["http_client"] = _http_client()
    if address is None:
        return openai.AsyncOpenAI(**options)
    query = dict(address.query)
    if is_azure(address.written):
        version = query["api-version"]
        return openai.AsyncAzureOpenAI(
            base_url=address.url, api_version=version, default_query=query, **options
        )
    return openai.AsyncOpenAI(base_url=address.url, default_query=query or None, **options)


def _key(name: str, address: Address | None, keyless: bool) -> tuple[dict[str, str], str]:
    """The secrets to keep out of texts, and the key to send."""
    key = os.environ.get(name, "")
    own = address is not None and not is_azure(address.written)
    if not key and not own and not keyless:
        allowed = "the name of an environment variable that holds the key"
        either = f"{allowed}; or base_url, for a server that needs none"
        found = f"{name} (not set)"
        raise OptionError("openai", "api_key_env", found, allowed if address else either)
    return {name: key} if len(key) >= _SHORTEST_SECRET else {}, key or "none"


def _secrets_of(client: object) -> dict[str, str]:
    key = str(getattr(client, "api_key", None) or "")
    return {"client.api_key": key} if len(key) >= _SHORTEST_SECRET else {}
