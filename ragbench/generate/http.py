"""Generators and apps behind a URL: `type: http`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ragbench.adapters import templates
from ragbench.adapters.http import EndpointOptions
from ragbench.adapters.json_path import JsonPath, Place
from ragbench.adapters.libraries import HitReader
from ragbench.adapters.streams import MEDIA_TYPES, Stream, read_events, value_of_event
from ragbench.errors import AdapterError, OptionError
from ragbench.generate.base import Generator
from ragbench.registry import Option, OptionSet, quote
from ragbench.types import Document, Prediction, Usage
from ragbench.types.lookups import map_values
from ragbench.types.records import read_count

# Options whose paths match one value per passage.
_MANY = ("texts", "ids", "titles")
_OPTIONAL = (*_MANY, "queries", "input_tokens", "output_tokens", "usd")


class HttpService:
    """Client that posts a body to a URL and reads the answer from the JSON reply.

    Base class of `HttpGenerator` and `HttpApp`; `_ask` sends the request and returns a prediction.

    Args:
        chosen: Options of the generator or app.
        body: Default body, with places in braces.
        places: Places that a body may have.

    Raises:
        OptionError: The URL, a header, the proxy, a path or a place of the body is invalid, or the
            paths do not fit together.
    """

    is_opaque = True

    def __init__(
        self,
        chosen: HttpGeneratorOptions | HttpAppOptions,
        body: Mapping[str, Any],
        places: Sequence[str],
    ) -> None:
        self._stream: Stream | None = getattr(chosen, "stream", None)
        if self._stream not in (None, *MEDIA_TYPES):
            raise OptionError("http", "stream", self._stream, ", ".join(MEDIA_TYPES))
        accept = MEDIA_TYPES[self._stream] if self._stream else "application/json"
        self._endpoint = chosen.connect(chosen.url, chosen.headers, accept)
        # An answer is one text: `[*]` would match several.
        self._answer = JsonPath(chosen.answer, "http", "answer", many=False)
        # a generator has no options of passages and queries
        self._paths = {}
        for option in _OPTIONAL:
            path = getattr(chosen, option, None)
            if path is not None:
                many = True if option in _MANY else None
                self._paths[option] = JsonPath(path, "http", option, many=many)
        if ("ids" in self._paths or "titles" in self._paths) and "texts" not in self._paths:
            raise OptionError("http", "texts", None, "a path to the texts of the passages")
        if self._stream:
            self._answer = _in_events(self._answer)
            self._paths = map_values(_in_events, self._paths)
        self._body = chosen.body or body
        templates.check_template(self._body, places, "http", "body")

    def _ask(self, values: Mapping[str, Any]) -> Prediction:
        """Return the answer with its passages, queries and usage."""
        body = templates.fill(self._body, values)
        if self._stream is None:
            reply = self._endpoint.post(body)
            answer = self._answer.one(reply)
        else:
            reply = read_events(self._endpoint.send_raw("POST", body), self._stream)
            # texts that are whole answers, or pieces of one, stay texts, even a number
            if self._stream != "text" and self._answer.text != "$[*]":
                reply = list(map(value_of_event, reply))
            pieces = filter(_is_text, self._answer.find(reply, required=False).values())
            answer = "".join(pieces) or None
        if not isinstance(answer, str):
            allowed = "text; the option `answer` has the path to it in the reply"
            raise AdapterError(f"found {quote(answer)} instead of an answer, allowed: {allowed}")
        # Counts, costs and queries are optional: a wrong type counts as unknown.
        n_input, n_output = self._value("input_tokens", reply), self._value("output_tokens", reply)
        usd = self._value("usd", reply)
        is_cost = isinstance(usd, (int, float)) and not isinstance(usd, bool)
        # NaN fails the comparison, so it is refused as well.
        usd = float(usd) if is_cost and 0 <= usd < float("inf") else None
        usage = Usage(read_count(n_input), read_count(n_output), usd)
        queries = list(filter(_is_text, self._all("queries", reply).values()))
        return Prediction(answer, self._passages(reply), usage, queries)

    def _passages(self, reply: Any) -> list[Document] | None:
        """Return the passages of a reply; None without a path to their texts."""
        if "texts" not in self._paths:
            return None
        # some events of a stream have sources, most have none
        texts = self._paths["texts"].find(reply, required=self._stream is None)
        if self._stream is not None and not texts:
            raise AdapterError(f"no event has passages at the path {self._paths['texts'].text}")
        ids, titles = self._all("ids", reply), self._all("titles", reply)
        reader = HitReader(None)
        passages = []
        for number, (place, text) in enumerate(texts.items(), start=1):
            if not isinstance(text, str):
                raise AdapterError(f"passage {number} is {quote(text)}, allowed: text")
            # Matched by place: matched by number, a passage without an id would shift the others.
            hit = reader.read(own_id=ids.get(place), text=text)
            title = titles.get(place)
            passage = Document(hit.id, text, title if isinstance(title, str) else "")
            # a stream may send its sources again, beside the whole answer
            if self._stream is None or passage not in passages:
                passages.append(passage)
        return passages

    def _all(self, option: str, reply: Any) -> Mapping[Place, Any]:
        """Return the values of an optional path by place; empty without a path or values."""
        path = self._paths.get(option)
        return {} if path is None else path.find(reply, required=False)

    def _value(self, option: str, reply: Any) -> Any:
        """Return the value at an optional path, in a stream that of the last event with one."""
        value = None
        for other in self._all(option, reply).values():
            if other is not None and (value is None or self._stream is not None):
                value = other
        return value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _in_events(path: JsonPath) -> JsonPath:
    """Return the path of the same values in every event of a stream."""
    return JsonPath(f"$[*]{path.text.removeprefix('$')}")


class ReplyPathOptions(OptionSet):
    """Paths of the answer, its tokens and its cost in a reply, in the form of `JsonPath`.

    A number without a path is unknown.
    """

    answer: Annotated[str, Option("Path to the answer.")] = "$.answer"
    input_tokens: Annotated[str | None, Option("Path to the number of tokens that were sent.")] = (
        None
    )
    output_tokens: Annotated[str | None, Option("Path to the number of tokens of the answer.")] = (
        None
    )
    usd: Annotated[str | None, Option("Path to the cost in US dollars.")] = None


class HttpGeneratorOptions(ReplyPathOptions, EndpointOptions):
    """Options of a generator behind a URL; `HttpGenerator` checks them."""

    body: Annotated[
        dict[str, Any] | None,
        Option(
            "Body of the request, with {question}, {context}, {texts} or {contexts}; "
            'default: `{question: "{question}", contexts: "{contexts}"}`.'
        ),
    ] = None


class HttpAppOptions(ReplyPathOptions, EndpointOptions):
    """Options of an app behind a URL; `HttpApp` checks them.

    Without `texts`, the passages are unknown; `ids` and `titles` need it.
    """

    body: Annotated[
        dict[str, Any] | None, Option('Body of the request; default: `{question: "{question}"}`.')
    ] = None
    texts: Annotated[str | None, Option("Path to the texts of the passages.")] = None
    ids: Annotated[str | None, Option("Path to the ids of the passages.")] = None
    titles: Annotated[str | None, Option("Path to the titles of the passages.")] = None
    queries: Annotated[str | None, Option("Path to the queries that the server formulated.")] = None
    stream: Annotated[
        Stream | None,
        Option(
            "Form of a reply in pieces: server-sent events, JSON lines or text. Paths "
            "are then those in an event: `answer` of a piece, `ids` and `texts` of the "
            "sources in any event; `$` is an event of text."
        ),
    ] = None


class HttpGenerator(HttpService, Generator):
    """Post each question with its passages to a URL and read the answer from the JSON reply.

    An overloaded server or a broken connection is tried again within `timeout`; a failure after
    that concerns this question only. The first question sends the first request. Options are those
    of `HttpGeneratorOptions`, with `url` required.
    """

    declares = HttpGeneratorOptions

    def __init__(self, **options: Any) -> None:
        chosen = HttpGeneratorOptions(**options)
        body = {"question": "{question}", "contexts": "{contexts}"}
        super().__init__(chosen, body, ("question", *templates.PASSAGE_PLACES))

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction:
        """Return the answer to a question.

        Tokens and cost in US dollars are None where the reply has none; `contexts` is always None,
        and `queries` empty.

        Raises:
            CallFailure: The request failed, or the reply is no JSON.
            AdapterError: The reply has no text at the path of the answer.
        """
        return self._ask({"question": question, **templates.passage_values(contexts)})


class HttpApp(HttpService):
    """Post each question to a URL and read answer and passages from the JSON reply.

    The order of the passages is scored as a ranking. A passage without an id gets a hash of its
    text. Options are those of `HttpAppOptions`, with `url` required.
    """

    declares = HttpAppOptions
    passages_advice = 'name the path to them: texts: "$.sources[*].text"'

    def __init__(self, **options: Any) -> None:
        chosen = HttpAppOptions(**options)
        super().__init__(chosen, {"question": "{question}"}, ("question",))

    def answer(self, question: str) -> Prediction:
        """Return the answer to a question.

        `contexts` is None without a path to texts; tokens and cost in US dollars are None where the
        reply has none.

        Raises:
            CallFailure: The request failed, or the reply is no JSON.
            AdapterError: The reply has no text at the path of the answer, or no texts of passages
                at their path.
        """
        return self._ask({"question": question})
