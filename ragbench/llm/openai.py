"""Chat servers with the OpenAI protocol, through the `openai` package (extra `judge`)."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import getproxies_environment

from ragbench.errors import MissingExtra, OptionError, Phrase
from ragbench.llm import completions, failures
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.connections import ReplyIds, WatchedStream, watch_connections
from ragbench.llm.environment import BUNDLE, add_bundle, is_loopback, proxy_in_use, read_key
from ragbench.llm.failures import one_line
from ragbench.llm.threads import in_thread
from ragbench.secrets import mask_addresses, mask_secrets, redact
from ragbench.types import Cause

if TYPE_CHECKING:
    import ssl

_CONNECT_S = 10.0  # time limit of a connection alone; the call is then tried again
_TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR", BUNDLE, "SSLKEYLOGFILE")
_TRUST_NAMES = ", ".join(_TRUST)
_VERSION = re.compile(r"/v\d")  # in addresses of most servers with the protocol
_SHORTEST_SECRET = 8  # shorter keys, such as 'none' and 'local', are ordinary words in texts


class OpenAIChat(ChatModel):
    """Client of an OpenAI-compatible server; sends a request once, without retries.

    Parameters and response formats that the server refuses are left out, and the request is sent
    again without them. `complete` returns the reply and raises CallFailure if there is none. Log
    messages, errors and replies never hold the key.

    Args:
        base_url: URL of the server, up to and including `/v1`; None or empty means
            `OPENAI_BASE_URL`, else OpenAI. A query is sent with every request. Addresses of Azure,
            `https://NAME.openai.azure.com/openai` with or without `/deployments/NAME`, and
            `?api-version=...`, send the key in Azure's header.
        api_key_env: Environment variable with the key. A server of your own needs none.
        client: `openai.OpenAI` or `AsyncOpenAI` to use instead of the address. Its server, key and
            headers count, its retries do not, and it is not closed. A synchronous HTTP client
            inside it is used as well; an asynchronous one belongs to another loop and is not.
        keyless: True if nothing will be sent, so that no key is needed.
        keep_alive: False to open a connection for each request. Requests through a synchronous HTTP
            client have one each in any case, since its connections cannot be watched.

    Raises:
        MissingExtra: The package `openai` is not installed.
        OptionError: The address is invalid, the key is missing, or the client is of another type.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        client: Any = None,
        keyless: bool = False,
        keep_alive: bool = True,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtra("chat model 'openai'", "openai", "judge") from error
        # No limit on the reply: the sender limits the time of all tries together.
        time_limit = openai.Timeout(None, connect=_CONNECT_S)
        self._client: Any
        self._key_name = api_key_env if client is None else "the key of the client"
        self._owns_client = client is None
        masked_url = ""
        if client is None:
            address = Address.parse(base_url or os.environ.get("OPENAI_BASE_URL") or None)
            self._secrets, key = _key(api_key_env, address, keyless)
            if address is not None and address.query:
                masked_url = mask_secrets(address.text)
                self._secrets |= {"base_url": address.text} if masked_url != address.text else {}
            http = _http_client(keep_alive, address.url if address else "")
            self._client = _connect(
                address, api_key=key, max_retries=0, timeout=time_limit, http_client=http
            )
        else:
            if not isinstance(client, (openai.OpenAI, openai.AsyncOpenAI)):
                allowed = "an openai.OpenAI or openai.AsyncOpenAI"
                raise OptionError("openai", "client", Phrase(type(client).__name__), allowed)
            self._client, self._secrets = client, _secrets_of(client)
            Address.parse(str(client.base_url))
            self._owns_client = isinstance(client, openai.AsyncOpenAI)
            url = str(client.base_url)
            if self._owns_client:
                http = _http_client(keep_alive, url)
            else:
                http = _bounded_copy(client._client, url)
            options = {"max_retries": 0, "timeout": time_limit, "http_client": http}
            self._client = self._client.with_options(**options)
        _load_network_code()
        self._proxy = proxy_in_use(http, str(self._client.base_url), _http_package())
        self._is_synchronous = isinstance(self._client, openai.OpenAI)
        self._replies = ReplyIds()
        self._refused: dict[str, completions.Refusals] = {}
        self.identity: Mapping[str, str] = {
            "type": "openai",
            "base_url": masked_url or str(self._client.base_url).rstrip("/"),
        }

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, sent without the parameters that the model refuses.

        Raises:
            CallFailure: The call failed, and not for a parameter that can be left out.
        """
        model = request.model
        refused, refused_all = self._refused.get(model, completions.Refusals()), False
        try:
            while True:
                wording = completions.word_request(request, refused)
                try:
                    reply = await self._ask(wording)
                except CallFailure as failure:
                    more = completions.learn_refusals(wording, failure, refused)
                    if more is None:
                        refused_all = failure.status in completions.REFUSING
                        raise self._explained(failure, model) from None
                    refused = more
                else:
                    return completions.cut_at_stop(reply, request, wording)
        finally:
            # Not remembered if the request fails all the same: its error may have named a
            # parameter that it was not about.
            if not refused_all:
                self._refused[model] = self._refused.get(model, completions.Refusals()) | refused

    def parameters(self, request: ChatRequest) -> frozenset[str]:
        """Return the names of the parameters of a request that its model may refuse.

        All names in its body count but `messages`: the first call of a model tests its name too,
        and with it the key and the address.
        """
        wording = completions.word_request(request, completions.Refusals())
        return frozenset(wording.body.keys() - {"messages"})

    async def aclose(self) -> None:
        """Close the connections, unless the client belongs to the user."""
        if self._owns_client:
            await self._client.close()

    async def invoke(self, name: str, **arguments: Any) -> Any:
        """Call a method of the client, such as `files.create`, and return its result.

        Args:
            name: Path of the method, separated by dots.
            arguments: Keyword arguments of the method.

        Raises:
            CallFailure: The server answers with an error, or the connection fails.
            AttributeError: The client has no such method.
        """
        import openai

        method = functools.reduce(getattr, name.split("."), self._client)
        call = functools.partial(method, **arguments)
        try:
            return await (in_thread(call) if self._is_synchronous else call())
        except openai.APIConnectionError as error:
            raise self._connection_failure(error) from None
        except openai.APIError as error:
            raise failures.failure_of_exception(error, self.clean) from None

    async def _ask(self, wording: completions.Wording) -> ChatReply:
        import openai

        sent_s = time.monotonic()
        try:
            body, connection = await self._post(wording)
        except openai.APIConnectionError as error:
            raise self._connection_failure(error) from None
        except openai.APIStatusError as error:
            # `from None`, since the exception of the client holds the request with its headers.
            raise failures.failure_of_exception(error, self.clean) from None
        completion = completions.parse_body(body)
        if self._replies.is_repeated(completion.get("id"), body, wording.body, sent_s):
            # The reply to this request may still come, and be read as the one to the next request.
            if isinstance(connection, WatchedStream):
                connection.retire()
            if self._replies.has_several_ids:
                detail = f"the server repeated the earlier reply {one_line(completion['id'])}"
                raise CallFailure(Cause.SERVER_ERROR, detail, retryable=True)
        return completions.read_reply(completion).cleaned(self.clean)

    async def _post(self, wording: completions.Wording) -> tuple[str, Any]:
        """Return the JSON text of a completion, with secrets masked, and the network stream."""
        # The raw text: the client's own records accept bodies that are no completion, and building
        # them takes longer than the rest of a call.
        kind = _http_package().Response
        post = functools.partial(
            self._client.post, "/chat/completions", cast_to=kind, body=wording.body
        )
        response = await (in_thread(post) if self._is_synchronous else post())
        return self.clean(response.text), response.extensions.get("network_stream")

    def _connection_failure(self, error: BaseException) -> CallFailure:
        """Return the failure of a connection, with the address of the server and its proxy."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            detail = f"no connection to {self._place} within {_CONNECT_S:g} s"
            return CallFailure(Cause.TIMEOUT, detail, retryable=True)
        cause = error.__cause__ or error
        if isinstance(cause, CallFailure):
            return replace(cause, detail=self.clean(cause.detail))
        words = f"{self._place}: {type(cause).__name__}: {cause}".rstrip(": ")
        if "CERTIFICATE_VERIFY_FAILED" in words:
            words += f"; SSL_CERT_FILE or {BUNDLE} names a file of further certificates"
        return failures.failure_of_connection(self.clean(words), error)

    @property
    def _place(self) -> str:
        """Address of the server, and the proxy on the way to it."""
        address = self.identity["base_url"]
        return f"{address}, through {self._proxy}" if self._proxy else address

    def _explained(self, failure: CallFailure, model: str) -> CallFailure:
        """Return a failure with the address of the server, and the cure if it is fatal."""
        detail = self.clean(failure.detail)
        address = self.identity.get("base_url", "")
        if failure.status is not None and address not in detail:
            detail = f"{detail} ({address})"
        if self._proxy and failure.status is not None:
            detail = f"{detail}, through {self._proxy}"
        if cure := self._cure(failure, model, address):
            detail = f"{detail}; {cure}"
        return replace(failure, detail=detail)

    def _cure(self, failure: CallFailure, model: str, address: str) -> str:
        """Return the cure of a fatal failure in words; empty for another failure."""
        if not failure.fatal:
            return ""
        if failures.is_unknown_model(failure.words):
            return f"the server does not have the model {model!r}: check `model`"
        if failure.status == 401:
            return f"{self._key_name} may be expired, or the key of another server"
        if failure.status == 402:
            return f"the account of {self._key_name} has to be paid for"
        if failure.status == 403:
            return f"{self._key_name} may not have access to this model or address"
        if failure.status not in (200, 404):
            return ""
        if not address or is_azure(address) or _VERSION.search(urlsplit(address).path):
            return "the address may be wrong, or want a login in a browser"
        return f"/v1 may be missing in base_url: {address.removesuffix('/api')}/v1"

    def clean(self, text: str) -> str:
        """Return a text with the key and other secrets masked.

        A key of fewer than 8 characters stays.
        """
        return redact(text, self._secrets)


class OpenAILike(OpenAIChat):
    """Chat model over an object with `chat.completions.create`, the interface of `openai`.

    The method returns a completion of `openai` or an equal mapping; it may be asynchronous. The
    object is not checked. `complete` raises CallFailure for any exception of the method. The object
    is never closed, and there are no repeated replies to recognise.
    """

    def __init__(self, client: Any) -> None:
        self._secrets = _secrets_of(client)
        self._client, self._owns_client, self._proxy = client, False, ""
        self._key_name = "the key of the client"
        self._refused: dict[str, completions.Refusals] = {}
        kind = type(client)
        self.identity = {"type": "openai", "class": f"{kind.__module__}.{kind.__qualname__}"}

    async def _ask(self, wording: completions.Wording) -> ChatReply:
        create = self._client.chat.completions.create
        try:
            if inspect.iscoroutinefunction(create):
                completion = await create(**wording.body)
            else:
                answer = await in_thread(functools.partial(create, **wording.body))
                completion = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - a user's client raises anything
            raise failures.failure_of_exception(error, self.clean) from None
        dump = getattr(completion, "model_dump_json", None)
        body = dump() if callable(dump) else json.dumps(completion, default=vars)
        return completions.read_reply(self.clean(body)).cleaned(self.clean)


def is_azure(address: str) -> bool:
    """Return True for an address of Azure's classic interface.

    Its path has `/deployments/` or ends in `/openai`, and its query an `api-version`.
    """
    path, _, query = address.partition("?")
    by_deployment = "/deployments/" in path or path.rstrip("/").endswith("/openai")
    return by_deployment and "api-version=" in query


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server, split into URL and query; `Address.parse` returns it.

    Attributes:
        url: URL without its query, and without `/chat/completions` at its end.
        query: Parameters sent with every request.
        text: URL and query as the user wrote them.
    """

    url: str
    query: Mapping[str, str]
    text: str

    @classmethod
    def parse(cls, address: str | None) -> Address | None:
        """Return a parsed address; None for None.

        Raises:
            OptionError: It is no HTTP address, such as an empty text, or it holds credentials or a
                fragment.
        """
        # Credentials are refused, since the address goes into storage keys and files.
        if address is None:
            return None
        allowed = "http://... or https://..."
        try:
            parts = urlsplit(address)
            _ = parts.port  # raises the ValueError of an invalid port
        except ValueError:  # an unclosed bracket in the host, or an invalid port
            start = f"{address.partition(':')[0]}://..."
            raise OptionError("openai", "base_url", start, allowed) from None
        if "@" in parts.netloc or parts.fragment:
            bare = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
            problem = Phrase(f"{bare!r} with credentials or a fragment")
            allowed = "an address alone; the key goes into the variable that api_key_env names"
            raise OptionError("openai", "base_url", problem, allowed)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError("openai", "base_url", mask_secrets(address), allowed)
        # The portal of Azure shows the address with the path of the call.
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        return cls(f"{parts.scheme}://{parts.netloc}{path}", dict(parse_qsl(parts.query)), address)


def _http_client(keep_alive: bool, url: str) -> object:
    """Return an asynchronous HTTP client that follows no redirects and limits a reply's size."""
    # A redirect would send the question and the passages to another host.
    import openai

    proxies = getproxies_environment()
    names = []
    for name in ("http", "https", "all"):
        if proxies.get(name):
            names.append(name)
    source, allowed = "environment", f"{_TRUST_NAMES}: files that exist"
    try:
        context = _ssl_context(*map(os.environ.get, _TRUST))
        # Each proxy alone: the error of the client below would not name its variable.
        for name in names:
            source, allowed = f"{name.upper()}_PROXY", "a proxy such as http://host:3128"
            address = proxies[name] if "://" in proxies[name] else f"http://{proxies[name]}"
            # Reading the port raises the error of an invalid proxy here, not at the first call.
            _ = urlsplit(address).port
            _http_package().AsyncHTTPTransport(verify=context, proxy=address)
        client = openai.DefaultAsyncHttpxClient(
            verify=context,
            follow_redirects=False,
            trust_env=not is_loopback(urlsplit(url).hostname),
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [failures.async_bound_reply]},
        )
    except Exception as error:  # noqa: BLE001 - of several types, and it quotes logins of proxies
        problem = Phrase(f"{type(error).__name__}: {mask_addresses(str(error))}")
        raise OptionError("openai", source, problem, allowed) from None
    if not keep_alive or not watch_connections(client):
        client.headers["Connection"] = "close"
    return client


def _bounded_copy(http_client: Any, url: str) -> object:
    """Return a copy of a user's synchronous HTTP client with the limits of `_http_client`."""
    # Without `__del__`: the copy must not close the connections that the original still uses.
    copy_type: Any = type("Guarded", (type(http_client),), {"__del__": lambda self: None})
    copy = copy_type.__new__(copy_type)
    vars(copy).update(vars(http_client))
    copy.follow_redirects = False
    if is_loopback(urlsplit(url).hostname):
        copy._mounts = {}  # proxies, of the environment or of the user
    # In lower case, as the names are listed: other names would be sent beside them.
    copy.headers = {**http_client.headers, "accept-encoding": "identity", "connection": "close"}
    hooks = http_client.event_hooks
    copy.event_hooks = {**hooks, "response": [*hooks["response"], failures.bound_reply]}
    return copy


@functools.cache
def _ssl_context(*_values: str | None) -> ssl.SSLContext:
    """Return the SSL context, cached by the values of the `_TRUST` environment variables."""
    # Cached, since it takes 25 ms even for a local server.
    context: ssl.SSLContext = _http_package().create_ssl_context()
    add_bundle(context)
    return context


def _http_package() -> Any:
    """Return the package on which `openai` builds its clients, which differs between versions."""
    import openai

    return importlib.import_module(openai.DefaultAsyncHttpxClient.__mro__[1].__module__)


@functools.cache
def _load_network_code() -> None:
    """Import the modules of connections, which `anyio` otherwise imports at the first request."""
    # A process that forks while another thread imports leaves its child half of a module.
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal():
        pass


def _connect(address: Address | None, **options: Any) -> Any:
    """Return the asynchronous client of an address, created with further options."""
    import openai

    if address is None:
        return openai.AsyncOpenAI(**options)
    query = dict(address.query)
    if is_azure(address.text):
        version = query["api-version"]
        return openai.AsyncAzureOpenAI(
            base_url=address.url, api_version=version, default_query=query, **options
        )
    return openai.AsyncOpenAI(base_url=address.url, default_query=query or None, **options)


def _key(name: str, address: Address | None, keyless: bool) -> tuple[dict[str, str], str]:
    """Return the secrets to mask in texts, by name, and the key to send."""
    key = read_key(name)
    needs_key = address is None or is_azure(address.text)
    if not key and needs_key and not keyless:
        allowed = "an environment variable that holds the key: set it, or name another"
        either = f"{allowed}; or base_url, for a server that needs none"
        problem = Phrase(f"{name!r}, which is not set")
        raise OptionError("openai", "api_key_env", problem, allowed if address else either)
    return {name: key} if len(key) >= _SHORTEST_SECRET else {}, key or "none"


def _secrets_of(client: object) -> dict[str, str]:
    key = str(getattr(client, "api_key", None) or "")
    return {"client.api_key": key} if len(key) >= _SHORTEST_SECRET else {}
