"""Which layer of a model BERTScore takes by default, and the baselines that it is rescaled with."""

from __future__ import annotations

import csv
import functools
from importlib.util import find_spec
from pathlib import Path

from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.score.text.base import BertScore

OWNER = "bertscore"

_LAYERS = Path(__file__).with_name("bertscore_layers.tsv")
# who has on the hub now what the table lists without an owner
_OWNERS = frozenset(
    {"FacebookAI", "google-bert", "distilbert", "albert", "xlnet", "google-t5", "openai-community"}
)


@functools.cache
def layer_table() -> dict[str, int]:
    """Return model -> layer, as bert-score has them."""
    lines = _LAYERS.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {model: int(layer) for model, layer in rows}


def table_name(model: str) -> str:
    """Return how bert-score's tables call a model: `roberta-large` for `FacebookAI/roberta-large`.

    Example:
        >>> table_name("google-bert/bert-base-uncased"), table_name("microsoft/deberta-base")
        ('bert-base-uncased', 'microsoft/deberta-base')
    """
    owner, _, name = model.partition("/")
    return name if owner in _OWNERS else model


def choose_layer(model: str, num_layers: int | None) -> int:
    """Return the layer to take: the one that is given, else the table's.

    Raises:
        OptionError: None is given, and the table does not have the model.

    Example:
        >>> choose_layer("roberta-large", None), choose_layer("models/mine", 6)
        (17, 6)
    """
    if num_layers is not None:
        return num_layers
    table = layer_table()
    if (name := table_name(model)) in table:
        return table[name]
    allowed = f"a number of layers: bert-score's table has none for '{model}'"
    raise OptionError(OWNER, "num_layers", num_layers, allowed, _close_model(model))


def _close_model(model: str) -> str | None:
    """A model of the table that is spelt alike; a folder is no misspelt name."""
    return None if Path(model).is_dir() else nearest(model, layer_table())


def find_baseline(model: str, baseline: str) -> Path:
    """Return the file with the baselines of a model, layer by layer.

    Args:
        model: The model, as the user names it.
        baseline: A file, or a language: bert-score ships baselines of the usual models for it.

    Raises:
        OptionError: There is no such file, or bert-score ships none.
    """
    path = Path(baseline).expanduser()
    if path.is_file():
        return path
    folder = _shipped()
    shipped = folder / baseline / f"{table_name(model)}.tsv"
    languages = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    if baseline in languages and shipped.is_file():
        return shipped
    if baseline in languages:
        allowed = f"a file: bert-score ships no baseline of '{model}' for '{baseline}'"
    else:
        allowed = f"a file, or a language that bert-score has: {', '.join(languages)}"
    raise OptionError(OWNER, "baseline", baseline, allowed)


def read_baseline(path: Path, layer: int) -> BertScore:
    """Read the three values that random pairs of texts have at a layer.

    The file is bert-score's: a header `LAYER,P,R,F`, then a line per layer from 0 on.

    Raises:
        DataError: The file has another form, or no such layer.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        found = [BertScore(*(float(row[key]) for key in "PRF")) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        allowed = "the form of bert-score: LAYER,P,R,F, then a line per layer"
        raise DataError("cannot be read as a baseline", file=path, allowed=allowed) from error
    if layer >= len(found):
        raise DataError(f"no layer {layer}", file=path, allowed=f"0 to {len(found) - 1}")
    if max(found[layer]) >= 1:
        raise DataError(f"layer {layer}: found {tuple(found[layer])}", file=path, allowed="below 1")
    return found[layer]


def _shipped() -> Path:
    """The folder with the baselines of bert-score; the package itself is not imported."""
    spec = find_spec("bert_score")
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders or ("",)))) / "rescale_baseline"
