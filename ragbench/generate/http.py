"""A service that answers from passages: `type: http`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from ragbench.adapters.http import Endpoint, Headers, Retries, Timeout, Url
from ragbench.adapters.templates import PASSAGE_PLACES, passage_values
from ragbench.generate.http_answer import (
    AnswerPath,
    AnswerPaths,
    HttpService,
    InputTokens,
    OutputTokens,
    Usd,
)
from ragbench.registry import Option
from ragbench.types import Document, Prediction


class HttpGenerator(HttpService):
    """Post each question with its passages to a URL and read the answer off the JSON.

    A server that is overloaded or breaks off is asked again within `timeout`; what is then still
    wrong fails that question alone.
    """

    def __init__(
        self,
        *,
        url: Url,
        body: Annotated[
            dict[str, Any] | None,
            Option(
                "What is sent, with {question}, {context}, {texts} or {contexts}; default: "
                '`{question: "{question}", contexts: "{contexts}"}`.'
            ),
        ] = None,
        answer: AnswerPath = "$.answer",
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
            body or {"question": "{question}", "contexts": "{contexts}"},
            ("question", *PASSAGE_PLACES),
            AnswerPaths(answer, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd),
        )

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction:
        """Post a question.

        Raises:
            CallFailure: The server does not answer, or not with JSON.
            AdapterError: The JSON has no answer where the path says.
        """
        return self._ask({"question": question, **passage_values(contexts)})
