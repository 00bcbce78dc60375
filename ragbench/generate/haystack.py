"""Pipelines of Haystack as apps: `type: haystack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from ragbench.adapters import libraries, templates
from ragbench.errors import AdapterError
from ragbench.registry import FactoryArgs, Option, shown
from ragbench.types import Prediction

# Outputs that hold answers, and attributes of an answer with its text, the most final first.
_ANSWERS = ("answers", "replies")
_TEXTS = ("data", "text")


class HaystackApp:
    """Answer by a pipeline of Haystack that retrieves and generates.

    The answer is the first of `answers`, else of `replies`, of the last component with such an
    output. The `documents` of the last component that returns some are the retrieved passages.
    Tokens are unknown. `args` are keyword arguments of the factory; `id_field` is a metadata key
    with the ids of documents, None takes their own. OptionError for a wrong input or path, for a
    pipeline without an open socket of a usual name, and unless exactly one of `factory` and
    `client` is set; AdapterError for an object that is no pipeline, DataError for a factory that
    cannot be imported. `answer` returns a prediction, and raises AdapterError without an answer.
    """

    is_opaque = True

    def __init__(
        self,
        *,
        factory: libraries.Factory = None,
        args: FactoryArgs = None,
        input: Annotated[
            dict[str, Any] | None,
            Option(
                'Inputs by component: `{retriever: {query: "{question}"}}`; default: the '
                "question in the open sockets `query`, `question` and `text`."
            ),
        ] = None,
        answer: Annotated[
            str | None,
            Option("Path to the answer in the result of the pipeline, such as `$.llm.replies[0]`."),
        ] = None,
        id_field: libraries.IdField = None,
        client: Any = None,
    ) -> None:
        owner = "app 'haystack'"
        # before the factory runs, which may connect to a server
        if input is not None:
            templates.check_template(input, ("question",), "haystack", "input")
        self._answer = None if answer is None else templates.JsonPath(answer, "haystack", "answer")
        pipeline = libraries.resolve_client(client, factory, args, owner)
        if not libraries.is_pipeline(pipeline):
            raise AdapterError(f"{owner}: found {shown(pipeline)}, allowed: a pipeline of Haystack")
        self._run, self._id_field = libraries.SyncOrAsync(pipeline, "run", "run_async"), id_field
        self._input = libraries.question_inputs(pipeline, "input") if input is None else input
        # A pipeline returns only outputs that no other component takes, unless they are named.
        outputs = pipeline.outputs(include_components_with_connected_outputs=True)
        self._named = {name for name, o in outputs.items() if o.keys() & {"documents", *_ANSWERS}}

    def answer(self, question: str) -> Prediction:
        """Return the answer of the pipeline; errors of its components are passed on.

        `contexts` is None if no component returned documents.

        Raises:
            AdapterError: No component returned an answer, or a document has neither an id nor a
                text.
        """
        data = templates.fill(self._input, {"question": question})
        result = self._run(data=data, include_outputs_from=self._named)
        documents = libraries.last_output(result, "documents")
        reader = libraries.HitReader(self._id_field)
        hits = [reader.read_haystack(d, n) for n, d in enumerate(documents or (), start=1)]
        contexts = None if documents is None else [hit.to_document() for hit in hits]
        return Prediction(self._text(result), contexts)

    def _text(self, result: Mapping[str, Any]) -> str:
        """Return the stripped text, perhaps empty, of the answer in the outputs of the pipeline.

        It is at the path `answer`. Without a path it is the first of `answers`, else of `replies`,
        of the last component that returns such a list.

        Raises:
            AdapterError: There is none.
        """
        if self._answer is not None:
            answer = self._answer.one(result)
        else:
            lists = (libraries.last_output(result, name) for name in _ANSWERS)
            answer = next((answers[0] for answers in lists if answers), None)
        texts = (answer, *(getattr(answer, name, None) for name in _TEXTS))
        for text in texts:
            if isinstance(text, str):
                return text.strip()
        allowed = "answers or replies of a component; else a path: 'answer: $.llm.replies[0]'"
        raise AdapterError(f"found {shown(result)} instead of an answer, allowed: {allowed}")
