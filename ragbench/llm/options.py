"""Options that whatever asks a language model has, declared once for generators and judges.

A component inherits the dataclasses that it needs. Their order as bases is the order in which
lists, docs and resolved configs have the options.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import quote

from ragbench.errors import OptionError
from ragbench.llm.connected import Server
from ragbench.llm.limits import Limits
from ragbench.llm.usage import Prices
from ragbench.registry import Option

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
"""How long reasoning models think; each of them knows some of these."""
Mode = Literal["live", "batch"]
"""Whether calls are sent one by one, or in files."""

_IN_A_BATCH = 10_000  # calls under way


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Where a server that speaks the OpenAI protocol is."""

    base_url: Annotated[
        str | None, Option("URL of the server, up to and including `/v1`; default: OpenAI's.")
    ] = None
    api_key_env: Annotated[
        str, Option("Environment variable with the key; your own server needs none.")
    ] = "OPENAI_API_KEY"
    azure_endpoint: Annotated[
        str | None, Option("Azure resource, `https://NAME.openai.azure.com`; not with `base_url`.")
    ] = None
    azure_deployment: Annotated[
        str | None, Option("Deployment in `azure_endpoint`; default: the name of the model.")
    ] = None
    api_version: Annotated[
        str | None, Option("Version of the interface of `azure_endpoint`, such as `2024-10-21`.")
    ] = None

    def server(self, *, stream: bool = False, mode: Mode = "live", client: Any = None) -> Server:
        """Return the server that these name.

        Raises:
            OptionError: Options of Azure that do not fit together, or a stream in a batch.
        """
        if stream and mode == "batch":
            raise OptionError("openai", "stream", stream, "false with mode: batch")
        address = self.base_url
        if self.azure_endpoint:
            if address:
                allowed = "either azure_endpoint or base_url"
                raise OptionError("openai", "azure_endpoint", self.azure_endpoint, allowed)
            if not self.api_version:
                allowed = "with azure_endpoint: a version, such as 2024-10-21"
                raise OptionError("openai", "api_version", self.api_version, allowed)
            name = self.azure_deployment
            place = f"/deployments/{quote(name, safe='')}" if name else ""
            address = f"{self.azure_endpoint.rstrip('/')}/openai{place}"
            address += f"?api-version={quote(self.api_version, safe='')}"
        else:
            for option in ("azure_deployment", "api_version"):
                if (found := getattr(self, option)) is not None:
                    allowed = "only with azure_endpoint; in base_url they are written themselves"
                    raise OptionError("openai", option, found, allowed)
        return Server(address, self.api_key_env, stream, client, mode)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How a server makes a reply."""

    temperature: Annotated[
        float | None,
        Option("Randomness of replies; null is the default of the server.", ge=0, le=2),
    ] = 0.0
    max_tokens: Annotated[
        int | None, Option("Length limit of a reply with its reasoning, in tokens.", ge=1)
    ] = None
    seed: Annotated[int | None, Option("Seed of the sampling by the server.", ge=0)] = None
    reasoning_effort: Annotated[
        Effort | None, Option("How long a reasoning model thinks; null is its default.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How many calls there are, how long they may take, and how often they are tried again."""

    concurrency: Annotated[
        int,
        Option(
            "Largest number of concurrent calls; lowered while the server reports overload.", ge=1
        ),
    ] = 16
    timeout: Annotated[
        float | None, Option("Time limit of one reply, in seconds, retries included.", gt=0)
    ] = 60.0
    retries: Annotated[int, Option("Retries of errors that may be temporary.", ge=0)] = 6

    @property
    def limits(self) -> Limits:
        """The limits of the calls."""
        return Limits(concurrency=self.concurrency, timeout=self.timeout, retries=self.retries)


@dataclass(frozen=True, kw_only=True)
class ReplyOptions:
    """How replies come, and what else a server is told."""

    stream: Annotated[bool, Option("Receive replies as a stream.")] = False
    extra: Annotated[dict[str, Any] | None, Option("Further parameters that the server knows.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Whether calls are sent at once, or in files for half the price."""

    mode: Annotated[
        Mode,
        Option(
            "`batch` sends all calls in files of OpenAI's batch API, at half the price, answered "
            "within a day; `concurrency` and `timeout` do not apply then."
        ),
    ] = "live"

    def in_batches(self, limits: Limits) -> Limits:
        """Return the limits of the calls: in a batch, all are under way at once for hours."""
        if self.mode == "live":
            return limits
        return replace(limits, concurrency=_IN_A_BATCH, timeout=None)


@dataclass(frozen=True, kw_only=True)
class PriceOptions:
    """What calls cost."""

    prices: Annotated[str | None, Option("YAML file with prices of models.", refers_to="path")] = (
        None
    )

    def load_prices(self) -> Prices:
        """Read the file, or the built-in table."""
        return Prices.load(self.prices)
