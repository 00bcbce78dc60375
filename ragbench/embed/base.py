"""What an embedder is, where its model is found, and the options of what uses one."""

from __future__ import annotations

import functools
import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.json_yaml import load_json
from ragbench.registry import Option
from ragbench.signature import fingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Shape (n, d), float32; a text, so that nothing here needs NumPy.
Vectors: TypeAlias = "NDArray[np.float32]"
# Where a model computes; `auto` is a GPU where there is one.
Device = Literal["auto", "cpu", "cuda"]
# Is told how many further texts are done.
Advance = Callable[[int], None]

ALLOWED = "a folder with config.json, or the name of a model on the Hugging Face hub"

_Loaded = TypeVar("_Loaded")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".model", ".txt", ".json")
# of the same weights in other formats, and of training: no number depends on them
_ASIDE = frozenset({"onnx", "openvino", "training_args.bin", "optimizer.pt", "data_config.json"})
_PLACES = frozenset({"_name_or_path", "name_or_path", "transformers_version", "__version__"})
_CHUNK = 1 << 20
_PROBE_S = 10.0
_loading = threading.Lock()


def tell_nobody(n: int) -> None:
    """Be told, and do nothing."""


def as_unicode(text: str) -> str:
    r"""Return the text as Unicode: half of a surrogate pair would stop a tokeniser.

    Example:
        >>> as_unicode("cat \ud800")
        'cat ?'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Encodings:
    """What was asked of an embedder so far.

    Attributes:
        texts: How many texts; of each call the distinct ones.
        stored: How many of them did not need to be encoded.
        seconds: Wall time of encoding the others.
    """

    texts: int
    stored: int
    seconds: float


class Embedder(ABC):
    """Turns texts into vectors: of length 1, so that a dot product is a cosine, or as they are.

    Attributes:
        identity: What the vectors depend on, for signatures: a hub name, or a hash of a folder's
            content.
        revision: Which state of a hub name that is; empty for a folder.
        prompts: What the model wants in front of a text, by its role: `query`, `document`.
        limit: How many tokens the model can read; None where any number.
        manner: How it computes, where the last digits of a vector depend on the text and that
            alone; empty where they depend on the texts beside it as well.
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
        advance: Advance = tell_nobody,
    ) -> Vectors:
        """Return a row for each text, in their order; equal texts are computed once."""
        import numpy as np

        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        distinct = list(dict.fromkeys(texts))
        found = self._encode(distinct, prompt, normalize, advance)
        rows = dict(zip(distinct, found, strict=True))
        return np.stack([rows[text] for text in texts]).astype(np.float32, copy=False)

    @abstractmethod
    def _encode(
        self, texts: Sequence[str], prompt: str, normalize: bool, advance: Advance
    ) -> Iterable[Vectors]:
        """Return a row for each of some texts, all different."""

    @abstractmethod
    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return how many tokens each text has, before it is cut to what the model can read."""


Model = Annotated[
    str, Option("The model: a folder, or a name on the Hugging Face hub.", refers_to="path_or_name")
]
ComputeDevice = Annotated[Device, Option("Where the model computes; auto takes a GPU.")]
BatchTokens = Annotated[
    int | None,
    Option(
        "Tokens per batch, padding included; null: each text alone on a CPU, large batches on a "
        "GPU; 1: each text alone.",
        ge=1,
    ),
]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that the user named.

    Attributes:
        owner: How messages name the component that needs it: `bertscore`.
        folder: Where it lies, unless it is a name on the hub.
    """

    owner: str
    name: str
    folder: Path | None

    @property
    def identity(self) -> str:
        """The hub name, or a hash of the folder's content: equal wherever the folder lies."""
        return self.name if self.folder is None else f"sha256-{folder_digest(self.folder)}"

    def load(self, load: Callable[[str, dict[str, bool]], _Loaded]) -> _Loaded:
        """Load from the folder or the cache, else from the hub.

        What the cache holds is not asked for again, so that a run needs no network then. `load`
        gets a path or name, and keywords for `from_pretrained`.
        """
        local = {"local_files_only": True}
        try:
            with _loading, _quiet():
                return load(str(self.folder or self.name), local)
        except (OSError, ValueError) as error:
            if self.folder is not None:
                found = f"{self.name} ({_first_line(error)})"
                raise OptionError(self.owner, "model", found, ALLOWED) from error
        self._ask_hub()
        try:
            with _loading:
                return load(self.name, {})
        except (OSError, ValueError) as error:
            found = f"{self.name} ({_first_line(error)})"
            raise OptionError(self.owner, "model", found, ALLOWED) from error

    def config(self) -> Any:
        """Return the model's configuration: what can be told before its weights are read."""
        from transformers import AutoConfig

        return self.load(lambda name, where: AutoConfig.from_pretrained(name, **where))

    def load_model(self, kind: str) -> tuple[Any, Any, list[str]]:
        """Return the tokeniser, the model, and which weights of it the checkpoint lacks.

        `kind` is the class of transformers, such as `AutoModel`: what is inside, the configuration
        says, since a folder's name may contain anything.
        """
        import transformers

        def load(name: str, where: dict[str, bool]) -> tuple[Any, Any, list[str]]:
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
            # weights that the checkpoint lacks are drawn at random
            model, info = getattr(transformers, kind).from_pretrained(
                name, output_loading_info=True, **where
            )
            return tokenizer, model, sorted(info["missing_keys"])

        return self.load(load)

    def _ask_hub(self) -> None:
        """Fail at once where `from_pretrained` would try for a minute."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError

        try:
            HfApi().model_info(self.name, timeout=_PROBE_S)
        except HfHubHTTPError as error:  # it answered: no such model, or not for everybody
            found = f"{self.name} ({_first_line(error)})"
            raise OptionError(self.owner, "model", found, ALLOWED) from error
        except Exception as error:  # by version an OSError, or one of requests or httpx
            raise DataError(
                f"{self.owner}: model '{self.name}' is not in the cache of the Hugging Face hub, "
                f"and the hub cannot be reached ({_first_line(error)})",
                allowed="a network, or the folder of a model",
            ) from error


def find_checkpoint(owner: str, model: str) -> Checkpoint:
    """Tell a folder from a hub name; nothing is loaded."""
    folder = Path(os.path.expanduser(model))
    if any(os.path.isfile(folder / name) for name in ("config.json", "modules.json")):
        return Checkpoint(owner, model, folder)
    looks_like_a_path = model.count("/") > 1 or model.startswith((".", "/", "~")) or "\\" in model
    if not model.strip() or looks_like_a_path or os.path.exists(folder):
        raise OptionError(owner, "model", model, ALLOWED)
    return Checkpoint(owner, model, None)


def choose_device(owner: str, device: Device) -> Literal["cpu", "cuda"]:
    """Return where to compute."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionError(owner, "device", device, "cpu or auto: torch finds no GPU here")
    return device


def need_packages(owner: str, extra: str, packages: dict[str, str]) -> None:
    """See whether packages (module -> name) are installed, without importing them."""
    from importlib.util import find_spec

    for module, package in packages.items():
        if find_spec(module) is None:
            raise MissingExtra(owner, package, extra)


def folder_digest(folder: Path) -> str:
    """Hash what the numbers of a model depend on: weights, tokeniser and configuration.

    The folder's place and name, its read-me and its training logs are left out, as are the places
    and versions that configuration files note.
    """
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in _WEIGHTS and not _ASIDE & set(path.relative_to(folder).parts)
    )
    states = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return _digest(folder, states)


@functools.lru_cache(maxsize=64)
def _digest(folder: Path, states: tuple[tuple[str, int, int], ...]) -> str:
    """The hash of some files; the states stand for their content from call to call."""
    return fingerprint(piece for state in states for piece in _pieces(folder, Path(state[0])))


def _pieces(folder: Path, path: Path) -> Iterator[bytes | str]:
    yield path.relative_to(folder).as_posix()
    if path.name.endswith("config.json"):
        content = read_config(path)
        if isinstance(content, dict):
            content = {key: value for key, value in content.items() if key not in _PLACES}
        yield json.dumps(content, sort_keys=True)
        return
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def read_config(path: Path) -> Any:
    """Return what a file of a model's folder holds as JSON."""
    try:
        return load_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError("cannot be read as JSON", file=path) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from drawing bars and reporting unused weights while it loads."""
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
