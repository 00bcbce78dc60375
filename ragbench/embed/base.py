"""Embedder: the protocol of text encoders, the checkpoint of a model, and shared options."""

from __future__ import annotations

import functools
import itertools
import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from ragbench.errors import DataError, MissingExtra, OptionError, Phrase
from ragbench.json_yaml import load_json
from ragbench.registry import Option
from ragbench.signature import fingerprint
from ragbench.types.lookups import omit_keys, take_items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Shape (n, d), float32; quoted, so that importing this module does not import NumPy.
Vectors: TypeAlias = "NDArray[np.float32]"
# Device of a model; `auto` is a GPU if there is one.
Device = Literal["auto", "cpu", "cuda"]
# Called with the number of further texts that are done.
Advance = Callable[[int], None]

ALLOWED = "a folder with config.json, or the name of a model on the Hugging Face hub"

_Loaded = TypeVar("_Loaded")
_MODEL_FILES = (".safetensors", ".bin", ".pt", ".model", ".txt", ".json")
# the same weights in other formats, and files of the training: no vector depends on them
_UNUSED = frozenset({"onnx", "openvino", "training_args.bin", "optimizer.pt", "data_config.json"})
# keys of configuration files that differ between copies of one model
_UNSTABLE_KEYS = frozenset({"_name_or_path", "name_or_path", "transformers_version", "__version__"})
_CHUNK = 1 << 20  # bytes that are hashed at a time
_PROBE_S = 10.0  # seconds until the hub counts as unreachable
# one load at a time: `_quiet` changes the logging of the whole process
_loading = threading.Lock()


def ignore_progress(n: int) -> None:
    """Ignore the number of texts that are done; the default of `advance`."""


def as_unicode(text: str) -> str:
    r"""Return the text with half surrogate pairs replaced by `?`; a tokeniser would refuse them.

    Example:
        >>> as_unicode("cat \ud800")
        'cat ?'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


class Embedder(ABC):
    """Model that encodes texts as vectors.

    Subclasses set the attributes and define `_encode` and `count_tokens`. `encode` returns the
    vectors of texts as rows.

    Attributes:
        identity: Name of the model in signatures: a hub name, or a hash of the folder's content.
        revision: Commit of a hub name; empty for a folder.
        prompts: Text that the model expects before a text, by its role: `query`, `document`.
        limit: Number of tokens that the model reads; None means without limit.
        manner: Words such as `padded batches on cpu` if a vector depends on its own text only;
            empty if the last digits may also depend on the other texts of the batch.
    """

    identity: str
    revision: str
    prompts: Mapping[str, str]
    limit: int | None
    manner: str

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt: str = "",
        normalize: bool = True,
        advance: Advance = ignore_progress,
    ) -> Vectors:
        """Return the vector of each text as a row, in the order of the texts.

        Args:
            texts: The n texts; equal ones are encoded once.
            prompt: Text put before each of them.
            normalize: Scale each row to length 1, so that a dot product is a cosine.
            advance: Called with the number of further texts that are done.

        Returns:
            The array is float32 of shape (n, d).
        """
        import numpy as np

        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        distinct = list(dict.fromkeys(texts))
        vectors = self._encode(distinct, prompt, normalize, advance)
        rows = dict(zip(distinct, vectors, strict=True))
        return np.stack(take_items(rows, texts)).astype(np.float32, copy=False)

    @abstractmethod
    def _encode(
        self, texts: Sequence[str], prompt: str, normalize: bool, advance: Advance
    ) -> Iterable[Vectors]:
        """Return the vector of each of some distinct texts; there is at least one."""

    @abstractmethod
    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return the number of tokens of each text with its prompt, before it is cut.

        Special tokens count.
        """


Model = Annotated[
    str, Option("The model: a folder, or a name on the Hugging Face hub.", refers_to="path_or_name")
]
ComputeDevice = Annotated[Device, Option("Where the model computes; auto takes a GPU.")]
BatchTokens = Annotated[
    int | None,
    Option(
        "Tokens per batch, padding included; null: 1,024 on a CPU, where a text has the same bits "
        "in every batch, 32,768 on a GPU; 1: each text alone.",
        ge=1,
    ),
]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Model that the user named by a folder or a hub name.

    `find_checkpoint` makes it; nothing is loaded before `load`, `config` or `load_model`, which
    raise OptionError, DataError or ImportError. Checkpoints of two owners are not equal, so that a
    cache with them as keys loads the model for each.

    Attributes:
        owner: Name of the component in messages: `bertscore`.
        name: The folder or hub name as the user wrote it.
        folder: Path of the model; None for a hub name.
    """

    owner: str
    name: str
    folder: Path | None

    @property
    def identity(self) -> str:
        """Hub name, or `sha256-` and a hash of the folder's content without its path."""
        return self.name if self.folder is None else f"sha256-{folder_digest(self.folder)}"

    def load(self, load: Callable[[str, dict[str, bool]], _Loaded]) -> _Loaded:
        """Return the result of `load`, from the folder or the hub's cache, else from the hub.

        A model in the cache is not requested from the hub, so that a run needs no network. An
        OSError or ValueError of `load` counts as a missing model; its other errors are passed on.

        Args:
            load: Called with a path or name, and keywords for `from_pretrained`.

        Raises:
            OptionError: The folder or hub name has no such model.
            DataError: The model is not in the cache, and the hub cannot be reached.
            ImportError: transformers is not installed.
        """
        local = {"local_files_only": True}
        try:
            with _loading, _quiet():
                return load(str(self.folder or self.name), local)
        except (OSError, ValueError) as error:
            if self.folder is not None:
                raise self._model_error(error) from error
        self._probe_hub()
        try:
            with _loading:
                return load(self.name, {})
        except (OSError, ValueError) as error:
            raise self._model_error(error) from error

    def _model_error(self, error: BaseException) -> OptionError:
        model = Phrase(f"{self.name!r} ({_first_line(error)})")
        return OptionError(self.owner, "model", model, ALLOWED)

    def config(self) -> Any:
        """Return the configuration of the model without reading its weights.

        Errors are those of `load`.
        """
        from transformers import AutoConfig

        return self.load(lambda name, where: AutoConfig.from_pretrained(name, **where))

    def load_model(self, kind: str) -> tuple[Any, Any, list[str]]:
        """Return the tokeniser, the model, and the names of weights that the checkpoint lacks.

        `kind` is a class of transformers, such as `AutoModel`, which selects the architecture by
        the configuration. The names are sorted. Errors are those of `load`.
        """
        import transformers

        def load(name: str, where: dict[str, bool]) -> tuple[Any, Any, list[str]]:
            """Load tokenizer, model and the names of missing weights; `where` limits downloads."""
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
            # weights that the checkpoint lacks are drawn at random
            model, info = getattr(transformers, kind).from_pretrained(
                name, output_loading_info=True, **where
            )
            return tokenizer, model, sorted(info["missing_keys"])

        return self.load(load)

    def _probe_hub(self) -> None:
        """Raise an error at once if the hub lacks the model or cannot be reached."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError

        try:
            HfApi().model_info(self.name, timeout=_PROBE_S)
        except HfHubHTTPError as error:  # the hub answered: no such model, or no access to it
            raise self._model_error(error) from error
        except Exception as error:  # by version an OSError, or one of requests or httpx
            raise DataError(
                f"{self.owner}: model '{self.name}' is not in the cache, and the Hugging Face hub "
                f"cannot be reached ({_first_line(error)})",
                allowed="a network, or the folder of a model",
            ) from error


def find_checkpoint(owner: str, model: str) -> Checkpoint:
    """Return the checkpoint of a folder or hub name, without loading it.

    A folder counts if it has `config.json` or `modules.json`, also where its path is a possible hub
    name; `~` is the home folder. Whether a hub name exists is not checked.

    Raises:
        OptionError: The model is neither a folder of a model nor a possible hub name.
    """
    if not isinstance(model, str | Path):  # as from Python
        raise OptionError(owner, "model", model, ALLOWED)
    model = str(model)
    folder = Path(os.path.expanduser(model))
    if any(os.path.isfile(folder / name) for name in ("config.json", "modules.json")):
        return Checkpoint(owner, model, folder)
    looks_like_a_path = model.count("/") > 1 or model.startswith((".", "/", "~")) or "\\" in model
    if not model.strip() or looks_like_a_path or os.path.exists(folder):
        raise OptionError(owner, "model", model, ALLOWED)
    return Checkpoint(owner, model, None)


def choose_device(owner: str, device: Device) -> Literal["cpu", "cuda"]:
    """Return the device to use: `auto` becomes `cuda` if torch finds a GPU, else `cpu`.

    An ImportError is raised without torch.

    Raises:
        OptionError: `cuda`, and torch finds no GPU.
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionError(owner, "device", device, "cpu or auto: torch finds no GPU here")
    return device


def need_packages(owner: str, extra: str, packages: dict[str, str]) -> None:
    """Raise `MissingExtra` if a package (module -> package name) is not installed.

    Nothing is imported; `extra` is the extra of ragbench that installs the packages.
    """
    from importlib.util import find_spec

    for module, package in packages.items():
        if find_spec(module) is None:
            raise MissingExtra(owner, package, extra)


def folder_digest(folder: Path) -> str:
    """Return a hash of the weights, the tokeniser and the configuration of a model.

    Leaves out the path of the folder, its read-me and training logs, and the paths and versions in
    configuration files: no vector depends on them. The hash has 12 hexadecimal digits. Errors are
    those of `read_config`.
    """
    states = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in _MODEL_FILES and _UNUSED.isdisjoint(path.relative_to(folder).parts):
            states.append((str(path), path.stat().st_size, path.stat().st_mtime_ns))
    return _digest(folder, tuple(states))


@functools.lru_cache(maxsize=64)  # by path, size and time of each file
def _digest(folder: Path, states: tuple[tuple[str, int, int], ...]) -> str:
    """Return the hash of the paths in the folder and the contents of files."""
    pieces = (_pieces(folder, Path(path)) for path, _, _ in states)
    return fingerprint(itertools.chain.from_iterable(pieces))


def _pieces(folder: Path, path: Path) -> Iterator[bytes | str]:
    """Yield path and content of a model file; configs are written without keys that vary."""
    yield path.relative_to(folder).as_posix()
    if path.name.endswith("config.json"):
        content = read_config(path)
        if isinstance(content, dict):
            content = omit_keys(content, _UNSTABLE_KEYS)
        yield json.dumps(content, sort_keys=True)
        return
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def read_config(path: Path) -> Any:
    """Return the content of a JSON file of a model.

    Raises:
        DataError: The file is no JSON in UTF-8.
        OSError: There is no such file, or it cannot be read.
    """
    try:
        return load_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"cannot be read as JSON: {error}", file=path) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bars and warnings of transformers while it loads a model."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
