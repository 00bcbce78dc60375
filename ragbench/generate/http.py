"""Generators and apps behind a URL: `type: http`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ragbench.adapters import templates
from ragbench.adapters.http import EndpointOptions
from ragbench.adapters.libraries import HitReader
from ragbench.errors import AdapterError, OptionError
from ragbench.generate.base import Generator
from ragbench.llm.completions import read_count
from ragbench.registry import Option, shown
from ragbench.types import Document, Prediction, Usage

_MANY = ("texts", "ids", "titles")


class HttpService:
    """Posts a body with places in braces to a URL and reads the answer off the JSON it returns.

    Further `paths` lead to `texts`, `ids`, `titles`, `queries` of the reply, which are lists.
    """

    is_opaque = True

    def __init__(
        self,
        chosen: HttpGeneratorOptions | HttpAppOptions,
        body: Mapping[str, Any],
        places: Sequence[str],
        **paths: str | None,
    ) -> None:
        self._endpoint = chosen.endpoint()
        self._answer = templates.JsonPath(chosen.answer, "http", "answer")
        if self._answer.has_star:
            raise OptionError("http", "answer", chosen.answer, "a path without [*]")
        paths |= {"input_tokens": chosen.input_tokens, "output_tokens": chosen.output_tokens}
        self._paths = {
            option: templates.JsonPath(path, "http", option)
            for option, path in {**paths, "usd": chosen.usd}.items()
            if path is not None
        }
        for option in _MANY:
            if option in self._paths and not self._paths[option].has_star:
                raise OptionError("http", option, paths[option], "a path with [*]")
        if ("ids" in self._paths or "titles" in self._paths) and "texts" not in self._paths:
            raise OptionError("http", "texts", None, "a path to the texts of the passages")
        self._body = chosen.body or body
        templates.check_template(self._body, places, "http", "body")

    def _ask(self, values: Mapping[str, Any]) -> Prediction:
        """Return the answer with its passages, queries and usage."""
        reply = self._endpoint.post(templates.fill(self._body, values))
        answer = self._answer.one(reply)
        if not isinstance(answer, str):
            raise AdapterError(f"found {shown(answer)} instead of an answer, allowed: text")
        usage = Usage(
            read_count(self._value("input_tokens", reply)),
            read_count(self._value("output_tokens", reply)),
            _number(self._value("usd", reply)),
        )
        queries = [text for text in self._all("queries", reply).values() if isinstance(text, str)]
        return Prediction(answer, self._passages(reply), usage, queries)

    def _passages(self, reply: Any) -> list[Document] | None:
        if "texts" not in self._paths:
            return None
        texts = self._paths["texts"].find(reply)
        ids, titles = self._all("ids", reply), self._all("titles", reply)
        reader = HitReader(None)
        found = []
        for number, (place, text) in enumerate(texts.items(), start=1):
            if not isinstance(text, str):
                raise AdapterError(f"passage {number} is {shown(text)}, allowed: text")
            # by place, not by number: a passage without an id would shift all others'
            hit = reader.read(own_id=ids.get(place), text=text)
            title = titles.get(place)
            found.append(Document(hit.id, text, title if isinstance(title, str) else ""))
        return found

    def _all(self, option: str, reply: Any) -> Mapping[templates.Place, Any]:
        path = self._paths.get(option)
        return {} if path is None else path.find(reply, required=False)

    def _value(self, option: str, reply: Any) -> Any:
        return next(iter(self._all(option, reply).values()), None)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # nan is in no range either
    return float(value) if is_number and 0 <= value < float("inf") else None


@dataclass(frozen=True, kw_only=True)
class ReplyPathOptions:
    """Where a reply has its answer, and what that took."""

    answer: Annotated[str, Option("Path to the answer.")] = "$.answer"
    input_tokens: Annotated[str | None, Option("Path to the number of tokens that were sent.")] = (
        None
    )
    output_tokens: Annotated[str | None, Option("Path to the number of tokens of the answer.")] = (
        None
    )
    usd: Annotated[str | None, Option("Path to the cost in US dollars.")] = None


@dataclass(frozen=True, kw_only=True)
class HttpGeneratorOptions(ReplyPathOptions, EndpointOptions):
    """What a generator behind a URL is made with."""

    body: Annotated[
        dict[str, Any] | None,
        Option(
            "What is sent, with {question}, {context}, {texts} or {contexts}; default: "
            '`{question: "{question}", contexts: "{contexts}"}`.'
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HttpAppOptions(ReplyPathOptions, EndpointOptions):
    """What an app behind a URL is made with."""

    body: Annotated[
        dict[str, Any] | None, Option('What is sent; default: `{question: "{question}"}`.')
    ] = None
    texts: Annotated[str | None, Option("Path to the texts of the passages.")] = None
    ids: Annotated[str | None, Option("Path to the ids of the passages.")] = None
    titles: Annotated[str | None, Option("Path to the titles of the passages.")] = None
    queries: Annotated[str | None, Option("Path to queries that it formulated.")] = None


class HttpGenerator(HttpService, Generator):
    """Post each question with its passages to a URL and read the answer off the JSON.

    A server that is overloaded or breaks off is asked again within `timeout`; what is then still
    wrong fails that question alone. Nothing is sent before the first question.
    """

    declares = HttpGeneratorOptions

    def __init__(self, **options: Any) -> None:
        chosen = HttpGeneratorOptions(**options)
        body = {"question": "{question}", "contexts": "{contexts}"}
        super().__init__(chosen, body, ("question", *templates.PASSAGE_PLACES))

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction:
        """Post a question; no JSON, or none with an answer at its path, fails it."""
        return self._ask({"question": question, **templates.passage_values(contexts)})


class HttpApp(HttpService):
    """Post each question to a URL and read answer and passages off the JSON.

    The order of the passages is the ranking that is scored; one without an id gets a hash of its
    text.
    """

    declares = HttpAppOptions

    def __init__(self, **options: Any) -> None:
        chosen = HttpAppOptions(**options)
        super().__init__(
            chosen,
            {"question": "{question}"},
            ("question",),
            texts=chosen.texts,
            ids=chosen.ids,
            titles=chosen.titles,
            queries=chosen.queries,
        )

    def answer(self, question: str) -> Prediction:
        """Post a question; no JSON, or none with an answer at its path, fails it."""
        return self._ask({"question": question})
