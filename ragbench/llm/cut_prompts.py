"""Check for prompts that a server cut without an error, by the number of tokens it reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ragbench.llm.base import CallFailure, ChatReply, ChatRequest
from ragbench.types import Cause

_LEAST = 256  # no server has a shorter context; smaller numbers are made up
_SURELY = 1.25  # estimated tokens per reported token from which one reply alone shows a cut
# Number of prompts for which a server reports the same number of tokens -> ratio of the largest
# size to the smallest that shows a limit of the server. Sizes of whole prompts differ by some 10 %.
_SPREADS = {2: 1.5, 3: 1.25}
_ADVICE = (
    "raise its context (Ollama: OLLAMA_CONTEXT_LENGTH; llama.cpp: --ctx-size), or lower window or "
    "top_k"
)


@dataclass
class CutPrompts:
    """Check of the replies of one engine for prompts that the server cut.

    A reply shows a cut if it reports far fewer tokens than the prompt has words, or a number that
    the largest prompts of this model share although their sizes differ. `check` raises CallFailure.
    """

    _sizes: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    _largest: dict[str, int] = field(default_factory=dict)

    def check(self, request: ChatRequest, reply: ChatReply) -> None:
        """Raise a CallFailure with the cause TOO_LONG if the reply shows that its prompt was cut.

        The size of the prompt is remembered for later comparisons. A reply without a number of
        tokens, or with fewer than 256, shows nothing.
        """
        usage, model = reply.usage, request.model
        n_read = max(usage.input_tokens or 0, usage.cached_tokens)
        if n_read < _LEAST:
            return
        size = least_tokens(request)
        self._largest[model] = max(n_read, self._largest.get(model, 0))
        sizes = self._sizes.setdefault((model, n_read), set())
        sizes.add(size)
        if len(sizes) > max(_SPREADS):  # the smallest and the largest tell enough
            sizes.remove(sorted(sizes)[1])
        is_shared = max(sizes) >= _SPREADS.get(len(sizes), math.inf) * min(sizes)
        if size > _SURELY * n_read or (is_shared and n_read == self._largest[model]):
            read = f"the server read {n_read:,} tokens of a prompt of more"
            if size > n_read:
                read = f"the server read {n_read:,} of at least {size:,} tokens of the prompt"
            raise CallFailure(Cause.TOO_LONG, f"{read}: {_ADVICE}", replies=(reply,))


def least_tokens(request: ChatRequest) -> int:
    """Return a lower bound of the tokens of a prompt: its words, or a third of Chinese characters.

    No tokenizer joins words, and hardly any token has more than three Chinese characters.
    """
    n_words = n_extra = 0
    for message in request.messages:
        text = message.content
        n_words += len(text.split())
        # a Chinese character has three bytes in UTF-8, two more than characters
        n_extra += len(text.encode("utf-8", "replace")) - len(text)
    return max(n_words, n_extra // 6)
