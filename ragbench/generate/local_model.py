"""A causal language model of transformers: loaded once, asked by one thread at a time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

from ragbench.embed.base import Device
from ragbench.embed.checkpoint import Checkpoint, choose_device
from ragbench.llm import Message

_NO_LIMIT = 10**9  # tokenisers without one say 10**30


class LocalModel:
    """Loads a checkpoint on first use and continues conversations.

    Args:
        checkpoint: The model.
        device: Where to compute.
    """

    def __init__(self, checkpoint: Checkpoint, device: Device) -> None:
        self._checkpoint, self._device = checkpoint, device
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        self._model: Any = None

    def load(self) -> None:
        """Load tokeniser and weights; a second call does nothing.

        Raises:
            OptionError: The folder or the hub has no such model, or there is no such device.
        """
        from transformers import AutoModelForCausalLM, AutoTokenizer

        with self._lock:
            if self._model is not None:
                return
            self._device_name = choose_device("huggingface", self._device)
            self._tokenizer = self._checkpoint.load(
                lambda place, local: AutoTokenizer.from_pretrained(place, **local)
            )
            model = self._checkpoint.load(
                lambda place, local: AutoModelForCausalLM.from_pretrained(place, **local)
            )
            self._model = model.to(self._device_name).eval()

    @property
    def longest(self) -> int:
        """Tokens that the model can read and write together."""
        limits = [
            getattr(self._model.config, "max_position_embeddings", None),
            self._tokenizer.model_max_length,
        ]
        known = [limit for limit in limits if isinstance(limit, int) and limit < _NO_LIMIT]
        return min(known, default=sys.maxsize)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """Return a conversation as the model reads it: by its chat template, else as plain text."""
        if self._tokenizer.chat_template:
            turns = [{"role": m.role, "content": m.content} for m in messages]
            text = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
            return list(self._tokenizer.encode(text, add_special_tokens=False))
        text = "\n\n".join([*(message.content for message in messages), "Answer:"])
        return list(self._tokenizer.encode(text))

    def continued(
        self,
        tokens: Sequence[int],
        *,
        temperature: float,
        max_tokens: float,
        seed: float,
        stop: Sequence[str] = (),
    ) -> tuple[str, int]:
        """Return what follows some tokens, up to the first stop text, and how many tokens it took.

        With a temperature, equal tokens and an equal seed give an equal answer, whatever was asked
        before.
        """
        import torch
        from transformers import GenerationConfig

        sampling = {"do_sample": True, "temperature": temperature} if temperature else {}
        config = GenerationConfig(
            max_new_tokens=int(max_tokens),
            pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id or 0,
            eos_token_id=self._model.generation_config.eos_token_id or self._tokenizer.eos_token_id,
            **sampling,
        )
        given = torch.tensor([list(tokens)], device=self._device_name)
        with self._lock, torch.no_grad(), torch.random.fork_rng(enabled=bool(temperature)):
            if temperature:
                torch.manual_seed(int(seed))
            made = self._model.generate(
                given, attention_mask=torch.ones_like(given), generation_config=config
            )
        new = made[0, len(tokens) :]
        text = self._tokenizer.decode(new, skip_special_tokens=True)
        for end in stop:
            text = text.split(end, 1)[0]
        return text.strip(), len(new)
