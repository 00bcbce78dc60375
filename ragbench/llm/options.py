"""Options that whatever asks a language model has, declared once for generators and judges.

A component inherits the dataclasses that it needs. Their order as bases is the order in which
lists, docs and resolved configs have the options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ragbench.llm.limits import Limits
from ragbench.llm.usage import Prices
from ragbench.registry import Option


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Where a server that speaks the OpenAI protocol is."""

    base_url: Annotated[
        str | None, Option("URL of the server, up to and including `/v1`; default: OpenAI's.")
    ] = None
    api_key_env: Annotated[
        str, Option("Environment variable with the key; your own server needs none.")
    ] = "OPENAI_API_KEY"


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How a server makes a reply."""

    temperature: Annotated[
        float | None,
        Option("Randomness of replies; null is the default of the server.", ge=0, le=2),
    ] = 0.0
    max_tokens: Annotated[int | None, Option("Length limit of a reply, in tokens.", ge=1)] = None
    seed: Annotated[int | None, Option("Seed of the sampling by the server.", ge=0)] = None


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
class PriceOptions:
    """What calls cost."""

    prices: Annotated[str | None, Option("YAML file with prices of models.", refers_to="path")] = (
        None
    )

    def load_prices(self) -> Prices:
        """Read the file, or the built-in table."""
        return Prices.load(self.prices)
