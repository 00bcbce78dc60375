"""Judges of answers by rubrics: `metrics: {judge: {type: ..., rubrics: [...]}}`."""

from ragbench.registry import Family

JUDGES = Family(
    "judge",
    "ragbench.judges",
    table={
        "lexical": "ragbench.score.judge.lexical:Lexical",
        "openai": "ragbench.score.judge.openai:OpenAIJudge",
        "langchain": "ragbench.score.judge.langchain:LangchainJudge",
        "nli": "ragbench.score.judge.nli:NLI",
    },
)
