"""A whole app behind a URL: `type: http`."""

from __future__ import annotations

from typing import Annotated, Any

from ragbench.adapters.http import Endpoint, Headers, Retries, Timeout, Url
from ragbench.generate.http_answer import (
    AnswerPath,
    AnswerPaths,
    HttpService,
    InputTokens,
    OutputTokens,
    Usd,
)
from ragbench.registry import Option
from ragbench.types import Prediction


class HttpApp(HttpService):
    """Post each question to a URL and read answer and passages off the JSON.

    The order of the passages is the ranking that is scored; one without an id gets a hash of its
    text.
    """

    def __init__(
        self,
        *,
        url: Url,
        body: Annotated[
            dict[str, Any] | None,
            Option('What is sent; default: `{question: "{question}"}`.'),
        ] = None,
        answer: AnswerPath = "$.answer",
        texts: Annotated[str | None, Option("Path to the texts of the passages.")] = None,
        ids: Annotated[str | None, Option("Path to the ids of the passages.")] = None,
        titles: Annotated[str | None, Option("Path to the titles of the passages.")] = None,
        queries: Annotated[str | None, Option("Path to queries that it formulated.")] = None,
        input_tokens: InputTokens = None,
        output_tokens: OutputTokens = None,
        usd: Usd = None,
        headers: Headers = None,
        timeout: Timeout = 60.0,
        retries: Retries = 2,
    ) -> None:
        """Check the options; nothing is sent before the first question.

        Raises:
            OptionError: The URL, the body or a path cannot be one.
        """
        super().__init__(
            Endpoint("http", url, headers, timeout=timeout, retries=retries),
            body or {"question": "{question}"},
            ("question",),
            AnswerPaths(
                answer,
                texts=texts,
                ids=ids,
                titles=titles,
                queries=queries,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                usd=usd,
            ),
        )

    def answer(self, question: str) -> Prediction:
        """Post a question.

        Raises:
            CallFailure: The server does not answer, or not with JSON.
            AdapterError: The JSON has no answer where the paths say.
        """
        return self._ask({"question": question})
