"""Options that whatever asks a language model has, declared once for generators and judges."""

from __future__ import annotations

from typing import Annotated, Any

from ragbench.registry import Option

BaseUrl = Annotated[str | None, Option("The server, up to and with `/v1`; default: OpenAI's own.")]
ApiKeyEnv = Annotated[
    str, Option("Environment variable with the key; a server of your own needs none.")
]
Temperature = Annotated[
    float | None, Option("Randomness of replies; null leaves it to the server.", ge=0, le=2)
]
MaxTokens = Annotated[int | None, Option("Longest reply, in tokens.", ge=1)]
Seed = Annotated[int | None, Option("Seed of the server's sampling.", ge=0)]
Stream = Annotated[bool, Option("Take replies in pieces.")]
Extra = Annotated[dict[str, Any] | None, Option("Further parameters of the server's own.")]
Concurrency = Annotated[
    int, Option("Most calls at the same time; fewer while the server complains.", ge=1)
]
Timeout = Annotated[float | None, Option("Seconds for one reply, all tries.", gt=0)]
Retries = Annotated[int, Option("Further tries, where one can succeed.", ge=0)]
PriceFile = Annotated[str | None, Option("YAML file with prices of models.", refers_to="path")]
