"""Judges of answers by rubrics: `metrics: {judge: {type: ..., rubrics: [...]}}`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragbench.registry import PYTHON, Family


class _Judges(Family):
    def load(self, type_name: str, search: Sequence[Path] = ()) -> Any:
        """Return the class or factory of a judge type; a plain function gets a factory."""
        factory = super().load(type_name, search)
        if not type_name.startswith(PYTHON):
            return factory
        # only here: it imports NumPy
        from ragbench.score.judge.python import judge_maker

        return judge_maker(factory, type_name.removeprefix(PYTHON))


JUDGES = _Judges(
    "judge",
    "ragbench.judges",
    table={
        "openai": "ragbench.score.judge.chat:OpenAIJudge",
        "langchain": "ragbench.score.judge.chat:LangchainJudge",
        "classifier": "ragbench.score.judge.classifier:Classifier",
        "nli": "ragbench.score.judge.nli:NLI",
    },
)
