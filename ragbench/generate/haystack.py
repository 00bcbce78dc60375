"""Pipelines of Haystack as apps: `type: haystack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from ragbench.adapters import libraries, templates
from ragbench.adapters.json_path import JsonPath
from ragbench.errors import AdapterError
from ragbench.registry import FactoryArgs, Option, quote
from ragbench.types import Prediction

# Outputs that hold answers, and attributes of an answer with its text, the most final first.
_ANSWERS = ("answers", "replies")
_TEXTS = ("data", "text")


class HaystackApp:
    """Answer by a pipeline of Haystack that retrieves and generates.

    The answer is the first of `answers`, else of `replies`, of the last component with such an
    output. The `documents` of the last component that returns some are the retrieved passages.
    Tokens are unknown. `args` are keyword arguments of the factory; `id_field` is a metadata key
    with the ids of documents, None takes their own. `answer` returns a prediction, and raises
    AdapterError without an answer.
    """

    is_opaque = True
    passages_advice = "let a component return `documents`"

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
        self._answer = None if answer is None else JsonPath(answer, "haystack", "answer")
        pipeline = libraries.resolve_client(client, factory, args, owner)
        if not libraries.is_pipeline(pipeline):
            raise AdapterError(f"{owner}: found {quote(pipeline)}, allowed: a pipeline of Haystack")
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
        contexts = []
        for number, document in enumerate(documents or (), start=1):
            contexts.append(reader.read_haystack(document, number).to_document())
        return Prediction(self._text(result), None if documents is None else contexts)

    def _text(self, result: Mapping[str, Any]) -> str:
        """Return the stripped text, perhaps empty, of the answer in the outputs of the pipeline."""
        if self._answer is not None:
            answer = self._answer.one(result)
        else:
            answer = None
            for name in _ANSWERS:
                answers = libraries.last_output(result, name)
                if answers:
                    answer = answers[0]
                    break
        if isinstance(answer, str):
            return answer.strip()
        for name in _TEXTS:
            text = getattr(answer, name, None)
            if isinstance(text, str):
                return text.strip()
        allowed = "answers or replies of a component; else a path: 'answer: $.llm.replies[0]'"
        raise AdapterError(f"found {quote(result)} instead of an answer, allowed: {allowed}")
