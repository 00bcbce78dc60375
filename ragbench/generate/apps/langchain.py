"""A whole chain of LangChain as an app: `type: langchain`."""

from __future__ import annotations

from typing import Annotated, Any

from ragbench.adapters.factory import Factory, FactoryArgs, live_object
from ragbench.adapters.hits import IdField
from ragbench.adapters.templates import check_template
from ragbench.generate.chain import Chain
from ragbench.registry import Option
from ragbench.types import Prediction


class LangchainApp:
    """Answer by a chain of langchain that retrieves for itself.

    The passages that its retrievers return are heard through callbacks, so that its retrieval and
    its faithfulness are scored without a change to its code.
    """

    is_opaque = True

    def __init__(
        self,
        *,
        factory: Factory = None,
        args: FactoryArgs = None,
        input: Annotated[
            str | dict[str, Any], Option('What it gets: a text, or `{input: "{question}"}`.')
        ] = "{question}",
        answer: Annotated[
            str | None, Option("Path to the answer in what it returns; default: the usual.")
        ] = None,
        id_field: IdField = None,
        client: Any = None,
    ) -> None:
        """Make or take the chain; from Python, `client` is one that exists.

        Raises:
            AdapterError: The factory fails, or what it makes cannot be asked.
            OptionError: An option cannot be one.
        """
        owner = "app 'langchain'"
        made = live_object(client, factory, args, owner)
        check_template(input, ("question",), "langchain", "input")
        self._chain = Chain(made, input, answer=answer, id_field=id_field, owner=owner)

    def answer(self, question: str) -> Prediction:
        """Ask the chain.

        Raises:
            AdapterError: What it returns is no answer.
        """
        return self._chain.ask(question, {})
