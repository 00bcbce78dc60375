"""A Hugging Face model on this machine: `type: huggingface`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ragbench.embed.base import Checkpoint, Device, choose_device, find_checkpoint, need_packages
from ragbench.errors import OptionError
from ragbench.generate.base import Generator
from ragbench.generate.chat import AnswerOptions, PromptOptions, fit, load_prompt
from ragbench.llm import CallFailure, Message
from ragbench.llm.completions import split_reasoning
from ragbench.registry import Option
from ragbench.signature import fingerprint_json
from ragbench.types import Cause, Document, Prediction, Query, Usage

_NO_LIMIT = 10**9  # tokenisers without one say 10**30


class LocalModel:
    """Loads a checkpoint on first use and continues conversations."""

    def __init__(self, checkpoint: Checkpoint, device: Device) -> None:
        self._checkpoint, self._device = checkpoint, device
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        self._model: Any = None

    def load(self) -> None:
        """Load tokeniser and weights; a second call does nothing."""
        with self._lock:
            if self._model is not None:
                return
            self._device_name = choose_device("huggingface", self._device)
            self._tokenizer, model, _ = self._checkpoint.load_model("AutoModelForCausalLM")
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
        max_tokens: int,
        seed: int,
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
            max_new_tokens=max_tokens,
            pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id or 0,
            eos_token_id=self._model.generation_config.eos_token_id or self._tokenizer.eos_token_id,
            **sampling,
        )
        given = torch.tensor([list(tokens)], device=self._device_name)
        with self._lock, torch.no_grad(), torch.random.fork_rng(enabled=bool(temperature)):
            if temperature:
                torch.manual_seed(seed)
            made = self._model.generate(
                given, attention_mask=torch.ones_like(given), generation_config=config
            )
        new = made[0, len(tokens) :]
        text = self._tokenizer.decode(new, skip_special_tokens=True)
        for end in stop:
            text = text.split(end, 1)[0]
        return text.strip(), len(new)


@dataclass(frozen=True, kw_only=True)
class HuggingfaceOptions(PromptOptions, AnswerOptions):
    """What a generator on this machine is made with."""

    model: Annotated[str, Option("A folder, or a name on the Hugging Face hub.")]
    temperature: Annotated[
        float, Option("Randomness of answers; 0 always takes the most likely token.", ge=0, le=2)
    ] = 0.0
    max_tokens: Annotated[int, Option("Longest answer.", ge=1)] = 128
    seed: Annotated[int, Option("Seed of the sampling, set again for each question.", ge=0)] = 13
    device: Annotated[Device, Option("The device.")] = "auto"


class HuggingfaceGenerator(Generator):
    """Answer by a causal language model of transformers, one question after the other.

    The prompt takes the model's own chat template where it has one. Passages are cut to
    `context_tokens`, and to what the model can read, counted by its own tokeniser.
    """

    declares = HuggingfaceOptions
    computes = True

    def __init__(self, **options: Any) -> None:
        self._chosen = chosen = HuggingfaceOptions(**options)
        self._checkpoint = find_checkpoint("huggingface", chosen.model)
        self.prompt = load_prompt(chosen.prompt, chosen.system, "huggingface")
        self._stop = tuple(chosen.stop or ())
        self._model = LocalModel(self._checkpoint, chosen.device)

    def told(self, question: str, contexts: Sequence[Document]) -> str:
        """Return the prompt, without what the model's own template adds."""
        return self.prompt.text(question, contexts)

    def check(self) -> None:
        """Load the model, unless workers do."""
        packages = {"torch": "torch", "transformers": "transformers"}
        need_packages("generator 'huggingface'", "huggingface", packages)
        if not self.is_elsewhere:
            self._model.load()

    def signature_parts(self) -> Mapping[str, Any]:
        """Return what answers depend on besides question and passages."""
        return {
            "model": self._checkpoint.identity,
            "prompt": self.prompt.hash,
            "temperature": self._chosen.temperature,
            "max_tokens": self._chosen.max_tokens,
            "seed": self._chosen.seed,
            "stop": fingerprint_json(self._stop) if self._stop else None,
            "context_tokens": self._chosen.context_tokens,
        }

    def check_samples(self, samples: int) -> None:
        """Refuse to be asked again where the likeliest answer is the only one."""
        if samples > 1 and not self._chosen.temperature:
            allowed = "1 at temperature 0, where all answers are the same; or a temperature above 0"
            raise OptionError("huggingface", "samples", samples, allowed)

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Answer from the passages that fit; each sample has the next seed."""
        self.check()
        question, max_tokens = query.text, self._chosen.max_tokens
        passages = fit(contexts, self._budget(question, contexts, max_tokens), self._model.count)
        while True:
            tokens = self._model.tokens(self.prompt.messages(question, passages))
            room = self._model.longest - max_tokens
            if len(tokens) <= room or not passages:
                break
            passages = passages[:-1]  # tokens at the seams of passages were not counted
        if len(tokens) > room:
            detail = f"the question takes {len(tokens)} tokens, the model has room for {room}"
            raise CallFailure(Cause.TOO_LONG, detail)
        text, n_new = self._model.continued(
            tokens,
            temperature=self._chosen.temperature,
            max_tokens=max_tokens,
            seed=self._chosen.seed + sample,
            stop=self._stop,
        )
        reasoning, answer = split_reasoning(text)
        if reasoning and not answer:
            detail = f"all {n_new} tokens of the reply are reasoning; raise max_tokens"
            raise CallFailure(Cause.OUT_OF_TOKENS, detail)
        return Prediction(answer, passages, Usage(len(tokens), n_new, 0.0))

    def _budget(self, question: str, contexts: Sequence[Document], max_tokens: int) -> int | None:
        """Tokens that the passages may take: what is asked for, and what the model can read."""
        empty = [Document(document.id) for document in contexts]
        around = len(self._model.tokens(self.prompt.messages(question, empty)))
        room = max(0, self._model.longest - max_tokens - around)
        limit = self._chosen.context_tokens
        return room if limit is None else min(room, limit)
