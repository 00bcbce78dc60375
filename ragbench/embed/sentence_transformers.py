"""Sentence embeddings by sentence-transformers, in this process and on workers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragbench.embed import base as embed
from ragbench.embed.batches import Batches
from ragbench.executors.base import Executor, Task
from ragbench.types.lookups import attributes_of

if TYPE_CHECKING:
    from ragbench.types import FloatArray


_ROWS = 4096  # vectors that are converted to doubles at a time, to bound memory


def dot_products(vectors: embed.Vectors, vector: embed.Vectors) -> FloatArray:
    """Return the dot product of each row with a vector, in doubles.

    Equal rows have equal values, whatever the other rows are, which a matrix product does not
    promise: products of floats are exact in doubles, and each row is summed in the same order.
    Shape (n,); no rows give an empty array.

    Example:
        >>> import numpy as np
        >>> dot_products(np.eye(2, dtype=np.float32), np.array([3, 4], dtype=np.float32))
        array([3., 4.])
    """
    import numpy as np

    sums = np.empty(len(vectors), dtype=np.float64)
    doubles = vector.astype(np.float64)
    for start in range(0, len(vectors), _ROWS):
        products = vectors[start : start + _ROWS] * doubles
        sums[start : start + _ROWS] = products.sum(axis=1)
    return sums


def normalize_rows(vectors: embed.Vectors) -> None:
    """Scale each row to length 1, in place; a row of zeros stays.

    The values must be finite: infinity gives NaN with a warning of NumPy. Results are rounded to
    the type of `vectors`.

    Example:
        >>> import numpy as np
        >>> vectors = np.array([[3, 4], [0, 0]], dtype=np.float32)
        >>> normalize_rows(vectors)
        >>> vectors.tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    import numpy as np

    for start in range(0, len(vectors), _ROWS):
        block = vectors[start : start + _ROWS].astype(np.float64)
        lengths = np.sqrt((block * block).sum(axis=1, keepdims=True))
        vectors[start : start + _ROWS] = block / np.where(lengths > 0, lengths, 1.0)


EXTRA = "dense"
PACKAGES = {"sentence_transformers": "sentence-transformers"}
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


class SentenceTransformerEmbedder(embed.Embedder):
    """Embedder on sentence-transformers; loaded once, safe to use from several threads.

    `encode` returns the vectors of texts as rows. Creating it loads the model: OptionError,
    MissingExtra or DataError if that fails.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        owner: str = "embedder",
        device: embed.Device = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        """Load the model; `owner` is the name of the component in messages.

        `batch_tokens` is the number of tokens of a batch, padding included; None takes a number for
        the device.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            OptionError: The model or the device does not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        embed.need_packages(owner, EXTRA, PACKAGES)
        from sentence_transformers import SentenceTransformer

        checkpoint = embed.find_checkpoint(owner, model)
        chosen = embed.choose_device(owner, device)
        self.identity = checkpoint.identity
        self._model = checkpoint.load(
            lambda name, where: SentenceTransformer(name, device=chosen, **where)
        )
        self._model.eval()
        prompts = self._model.prompts or {}
        self.prompts = {role: prompts.get(role) or "" for role in ("query", "document")}
        # None for a folder, whose identity is a hash of its content
        self.revision = getattr(self._model[0].auto_model.config, "_commit_hash", None) or ""
        self.limit = self._model.max_seq_length
        self._batches = Batches(chosen, batch_tokens, limit=self.limit)
        self.manner = self._batches.manner
        self._lock = threading.Lock()
        self._length = threading.local()  # to which the batch of a thread is padded
        # the tokeniser stores truncation and padding as state: threads must take turns
        module = self._model[0]
        lock = threading.RLock()  # one of the two methods may call the other
        for name in ("preprocess", "tokenize"):  # the name depends on the version
            if (method := getattr(module, name, None)) is not None:
                setattr(module, name, self._padding(method, lock))

    def _padding(
        self, tokenize: Callable[..., dict[str, Any]], lock: threading.RLock
    ) -> Callable[..., dict[str, Any]]:
        """Return a function that pads the tokens of a batch to the length of its thread."""

        @functools.wraps(tokenize)
        def padded(*args: Any, **options: Any) -> dict[str, Any]:
            length = self._length.tokens
            with lock:
                features, tokenizer = tokenize(*args, **options), self._model.tokenizer
                inputs = {}
                for n in tokenizer.model_input_names:
                    if n in features:
                        inputs[n] = features[n]
                padded_inputs = tokenizer.pad(
                    inputs, "max_length", length, return_tensors="pt", verbose=False
                )
            return {**features, **padded_inputs}

        return padded

    def _encode(
        self, texts: Sequence[str], prompt: str, normalize: bool, advance: embed.Advance
    ) -> list[embed.Vectors]:
        """Return the vectors of texts, computed in batches of equal length."""
        with self._lock:
            lengths = self._lengths(texts, prompt)
            # the model reads no more than its limit
            read_lengths = [min(length, self.limit or length) for length in lengths]

            def compute(batch: list[int], length: int) -> embed.Vectors:
                self._length.tokens = length
                vectors: embed.Vectors = self._model.encode(
                    [embed.as_unicode(texts[position]) for position in batch],
                    prompt=prompt,  # also if empty: without it the model uses a default prompt
                    batch_size=len(batch),
                    normalize_embeddings=normalize,
                    show_progress_bar=False,
                )
                return vectors

            return self._batches.apply(compute, read_lengths, advance)

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return the number of tokens of each text with its prompt, before it is cut.

        Special tokens count.
        """
        with self._lock:
            return self._lengths(texts, prompt)

    def _lengths(self, texts: Sequence[str], prompt: str) -> list[int]:
        """Return the number of tokens of each text behind its prompt."""
        if not texts:
            return []
        tokens = self._model.tokenizer(
            [embed.as_unicode(prompt + text) for text in texts], truncation=False, verbose=False
        )
        return [len(ids) for ids in tokens["input_ids"]]


def shared_embedder(
    owner: str, model: str, *, device: embed.Device = "auto", batch_tokens: int | None = None
) -> SentenceTransformerEmbedder:
    """Return an embedder that stays loaded: the next call with these options gets it again.

    `owner`, the name of the component in messages, is none of them; errors in reading the weights
    name `embedder` instead. The last two stay loaded; a folder with changed content is loaded anew.
    `batch_tokens` is the number of tokens of a batch, padding included; None takes a number for the
    device.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        OptionError: The model or the device does not exist.
        DataError: The model is not in the cache of the hub, and the hub cannot be reached.
    """
    embed.need_packages(owner, EXTRA, PACKAGES)
    identity = check_model(owner, model).identity
    return _embedder(model, identity, embed.choose_device(owner, device), batch_tokens)


@functools.lru_cache(maxsize=2)
def _embedder(
    model: str,
    identity: str,  # part of the key: a folder with changed content is loaded again
    device: embed.Device,
    batch_tokens: int | None,
) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(model, device=device, batch_tokens=batch_tokens)


def check_model(owner: str, model: str) -> embed.Checkpoint:
    """Return the checkpoint of a model that exists, without reading its weights.

    For a name on the hub its configuration is read, which may be downloaded.

    Raises:
        OptionError: Neither a folder of a model nor a name on the hub.
        DataError: The model is not in the cache, and the hub cannot be reached.
        ImportError: A hub name, and transformers is not installed.
    """
    checkpoint = embed.find_checkpoint(owner, model)
    if checkpoint.folder is None:
        checkpoint.config()
    return checkpoint


# attributes of `Embedder` that a remote embedder copies from the model on a worker
_FACTS = ("identity", "revision", "prompts", "limit", "manner")
_BLOCK, _COUNTED_BLOCK = 256, 512  # texts of one task: encoding takes longer than counting


class RemoteEmbedder(embed.Embedder):
    """Embedder on worker processes; its vectors have the same bits as in this process.

    `encode` returns the vectors of texts as rows. Options are `device` and `batch_tokens`, as of
    `shared_embedder`.

    The first worker loads the model at once. An error of ragbench there, such as a model that does
    not exist, is raised here as AdapterError, any other error as RuntimeError. A later worker with
    another revision of the model is an AdapterError too; a worker that ends twice on a block is a
    WorkerEnded.
    """

    def __init__(self, executor: Executor, owner: str, model: str, **options: Any) -> None:
        self._executor = executor
        arguments = {"owner": owner, "model": model, **options}
        facts_task = Task(owner, shared_embedder, arguments, _facts_of_block)
        # a block of one dummy item: the model is loaded on a worker only
        [facts] = executor.map_all(facts_task, ["facts of the model"], 1)
        # every worker must have the same model: another revision would give other vectors
        self._task = replace(facts_task, facts=_facts_of, expected=facts)
        for name in _FACTS:
            setattr(self, name, facts[name])

    def _encode(
        self, texts: Sequence[str], prompt: str, normalize: bool, advance: embed.Advance
    ) -> embed.Vectors:
        import numpy as np

        task = replace(self._task, apply=functools.partial(_encode_block, prompt))
        vectors = np.stack(self._executor.map_all(task, texts, _BLOCK, advance))
        if normalize:
            normalize_rows(vectors)
        return vectors

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return the number of tokens of each text with its prompt, before it is cut.

        Errors of a worker are AdapterError, RuntimeError or WorkerEnded.
        """
        task = replace(self._task, apply=functools.partial(_count_block, prompt))
        return self._executor.map_all(task, texts, _COUNTED_BLOCK)


def _facts_of(embedder: SentenceTransformerEmbedder) -> dict[str, Any]:
    return attributes_of(embedder, _FACTS)


def _facts_of_block(embedder: SentenceTransformerEmbedder, block: list[str]) -> list[Any]:
    return [_facts_of(embedder)]


def _encode_block(
    prompt: str, embedder: SentenceTransformerEmbedder, texts: list[str]
) -> Sequence[embed.Vectors]:
    return list(embedder.encode(texts, prompt=prompt, normalize=False))


def _count_block(prompt: str, embedder: SentenceTransformerEmbedder, texts: list[str]) -> list[int]:
    return embedder.count_tokens(texts, prompt=prompt)
