"""Generator with a Hugging Face model on this machine: `type: huggingface`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ragbench.embed.base import Device, choose_device, find_checkpoint, need_packages
from ragbench.generate.base import Generator
from ragbench.generate.chat import AnswerOptions, PromptOptions, fit, load_prompt
from ragbench.llm import CallFailure
from ragbench.registry import Option
from ragbench.signature import fingerprint_json
from ragbench.types import Cause, Document, Prediction, Query, Usage
from ragbench.types.reasoning import split_reasoning

_NO_LIMIT = 10**9  # tokenisers without a limit report 10**30


class HuggingfaceOptions(PromptOptions, AnswerOptions):
    """Options of a generator with a model on this machine.

    The component checks the values, not this class.
    """

    model: Annotated[str, Option("A folder, or a name on the Hugging Face hub.")]
    temperature: Annotated[
        float, Option("Randomness of answers; 0 always takes the most likely token.", ge=0, le=2)
    ] = 0.0
    max_tokens: Annotated[int, Option("Longest answer, in tokens.", ge=1)] = 128
    seed: Annotated[int, Option("Seed of the sampling, set again for each question.", ge=0)] = 13
    device: Annotated[
        Device, Option("Where the model computes; `auto` takes a GPU if there is one.")
    ] = "auto"


class HuggingfaceGenerator(Generator):
    """Answer by a causal language model of transformers, one question after the other.

    The chat template of the model is applied if it has one. Passages are cut to `context_tokens`
    and to the context length of the model, counted by its tokeniser. Options are those of
    `HuggingfaceOptions`, with `model` required. `generate_for` returns a prediction; it loads the
    model at the first question, and raises CallFailure for a question that is too long.
    """

    declares = HuggingfaceOptions
    computes = True

    def __init__(self, **options: Any) -> None:
        self._chosen = chosen = HuggingfaceOptions(**options)
        self._checkpoint = find_checkpoint("huggingface", chosen.model)
        self.prompt = load_prompt(chosen.prompt, chosen.system, "huggingface")
        if not chosen.temperature:
            self.same_results = "at temperature 0 all answers are the same; set one above 0"
        self._lock = threading.Lock()  # one answer at a time: model and random state are shared
        self._tokenizer: Any = None
        self._model: Any = None

    def prompt_text(self, question: str, contexts: Sequence[Document]) -> str:
        """Return the prompt, without the additions of the model's chat template."""
        return self.prompt.text(question, contexts)

    def check(self) -> None:
        """Load tokeniser and weights once, unless workers do.

        Raises:
            MissingExtra: torch or transformers is not installed.
            OptionError: The model or the device does not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        packages = {"torch": "torch", "transformers": "transformers"}
        need_packages("generator 'huggingface'", "huggingface", packages)
        with self._lock:
            if self.is_elsewhere or self._model is not None:
                return
            self._device = choose_device("huggingface", self._chosen.device)
            self._tokenizer, model, _ = self._checkpoint.load_model("AutoModelForCausalLM")
            self._model = model.to(self._device).eval()

    def signature_parts(self) -> Mapping[str, Any]:
        """Return the inputs of answers besides question and passages: model and parameters.

        An option that is not set is None; `prompt` and `stop` are hashes.
        """
        chosen = self._chosen
        return {
            "model": self._checkpoint.identity,
            "prompt": self.prompt.hash,
            "temperature": chosen.temperature,
            "max_tokens": chosen.max_tokens,
            "seed": chosen.seed,
            "stop": fingerprint_json(tuple(chosen.stop)) if chosen.stop else None,
            "context_tokens": chosen.context_tokens,
        }

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Return the answer from the passages that fit; sample n uses the seed + n.

        Earlier turns of the query are not sent. The cost is 0; `contexts` are the passages as sent.
        The answer is the text of the model, with reasoning that the caller may cut. The first call
        loads the model, with the errors of `check`.

        Raises:
            CallFailure: The question alone is too long for the model, or the reply is cut off
                inside its reasoning.
        """
        self.check()
        # Room for the answer is reserved first, since the model reads and writes in one window.
        question, room = query.text, self._longest() - self._chosen.max_tokens
        passages = fit(contexts, self._budget(question, contexts, room), self._count)
        while True:
            tokens = self._tokens(question, passages)
            if len(tokens) <= room or not passages:
                break
            passages = passages[:-1]  # joined texts may have more tokens than their parts
        if len(tokens) > room:
            detail = f"the question takes {len(tokens)} tokens, the model has room for {room}"
            raise CallFailure(Cause.TOO_LONG, detail)
        text, n_new = self._continue(tokens, self._chosen.seed + sample)
        reasoning, answer = split_reasoning(text)
        if reasoning and not answer:
            detail = f"all {n_new} tokens of the reply are reasoning; raise max_tokens"
            raise CallFailure(Cause.OUT_OF_TOKENS, detail)
        return Prediction(text, passages, Usage(len(tokens), n_new, 0.0))

    def _longest(self) -> int:
        """Return the context length of the model: tokens of prompt and answer together."""
        longest = sys.maxsize
        of_model = getattr(self._model.config, "max_position_embeddings", None)
        for limit in (of_model, self._tokenizer.model_max_length):
            if isinstance(limit, int) and limit < _NO_LIMIT:
                longest = min(longest, limit)
        return longest

    def _budget(self, question: str, contexts: Sequence[Document], room: int) -> int:
        """Return the token budget of the passages, by `context_tokens` and the context length."""
        # Measured with empty passages: their numbers and separators take tokens too.
        around = len(self._tokens(question, [Document(document.id) for document in contexts]))
        budget = max(0, room - around)
        most = self._chosen.context_tokens
        return budget if most is None else min(budget, most)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def _tokens(self, question: str, passages: Sequence[Document]) -> list[int]:
        """Return the token ids of the prompt in the chat template of the model or as plain text."""
        messages = self.prompt.messages(question, passages)
        if self._tokenizer.chat_template:
            turns = [{"role": m.role, "content": m.content} for m in messages]
            text = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
            # The chat template has added the special tokens already.
            return list(self._tokenizer.encode(text, add_special_tokens=False))
        text = "\n\n".join([*(message.content for message in messages), "Answer:"])
        return list(self._tokenizer.encode(text))

    def _continue(self, tokens: Sequence[int], seed: int) -> tuple[str, int]:
        """Return the generated text up to a stop text, and the number of generated tokens."""
        import torch
        from transformers import GenerationConfig

        temperature, end = self._chosen.temperature, self._tokenizer.eos_token_id
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {}
        config = GenerationConfig(
            max_new_tokens=self._chosen.max_tokens,
            # Some models define no padding; one sequence at a time needs none.
            pad_token_id=self._tokenizer.pad_token_id or end or 0,
            eos_token_id=self._model.generation_config.eos_token_id or end,
            **sampling,
        )
        ids = torch.tensor([list(tokens)], device=self._device)
        with self._lock, torch.no_grad(), torch.random.fork_rng(enabled=bool(temperature)):
            # Seeded for each answer, in a fork of the generator's state.
            if temperature:
                torch.manual_seed(seed)
            output = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config
            )
        continuation = output[0, len(tokens) :]
        text = self._tokenizer.decode(continuation, skip_special_tokens=True)
        # Cut here, since the model stops at its own end token only.
        for stop in self._chosen.stop or ():
            text = text.split(stop, 1)[0]
        return text.strip(), len(continuation)
