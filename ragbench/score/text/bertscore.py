"""BERTScore: `bertscore`, with `.precision .recall .fmeasure`; `BERTScorer` keeps its model."""

from __future__ import annotations

import ast
import csv
import functools
import os
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from ragbench.embed import base as embed
from ragbench.embed.encoders import TokenEncoder, check_layer, truncation_notes
from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.registry import Option, nearest
from ragbench.score.base import takes_options_of
from ragbench.score.text import base
from ragbench.score.text.token_vectors import (
    NOTHING,
    EncodedTexts,
    TokenWeights,
    WeightedTokens,
    match,
)
from ragbench.signature import fingerprint
from ragbench.types.lookups import take_items

OWNER = "bertscore"

# owners on the hub of models that bert-score's table lists without an owner
_OWNERS = frozenset(
    {"FacebookAI", "google-bert", "distilbert", "albert", "xlnet", "google-t5", "openai-community"}
)


def _bert_score() -> Path:
    """Return the folder of the installed bert-score package, or raise a MissingExtra."""
    # the package is never imported: it loads pandas and matplotlib, which takes two seconds
    spec = find_spec("bert_score")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"metric '{OWNER}'", "bert-score", OWNER)
    return Path(spec.submodule_search_locations[0])


@functools.cache
def layer_table() -> dict[str, int]:
    """Return model -> layer from the table `model2layers` of bert-score.

    Raises:
        DataError: The installed version has no such table.
        MissingExtra: bert-score is not installed.
    """
    path = _bert_score() / "utils.py"
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if (
            isinstance(statement, ast.Assign)
            and ast.unparse(statement.targets[0]) == "model2layers"
        ):
            table: dict[str, int] = ast.literal_eval(statement.value)
            return table
    raise DataError("no table 'model2layers'", file=path, allowed="the file of bert-score 0.3.13")


def table_name(model: str) -> str:
    """Return a model's name in bert-score's tables: `roberta-large`, without its owner on the hub.

    A name with another owner is returned unchanged.

    Example:
        >>> table_name("google-bert/bert-base-uncased"), table_name("microsoft/deberta-base")
        ('bert-base-uncased', 'microsoft/deberta-base')
    """
    owner, _, name = model.partition("/")
    return name if owner in _OWNERS else model


def choose_layer(model: str, num_layers: int | None) -> int:
    """Return `num_layers`, or the layer of bert-score's table for the model.

    Raises:
        OptionError: `num_layers` is None, and the table does not have the model.
        DataError: `num_layers` is None, and the installed bert-score has no table.
        MissingExtra: `num_layers` is None, and bert-score is not installed.
    """
    if num_layers is not None:
        return num_layers
    table = layer_table()
    if (name := table_name(model)) in table:
        return table[name]
    allowed = f"a number of layers: bert-score's table has none for '{model}'"
    close = None if os.path.isdir(model) else nearest(model, table)  # a folder is not misspelt
    raise OptionError(OWNER, "num_layers", num_layers, allowed, close)


def find_baseline(model: str, baseline: str) -> Path:
    """Return the file with the baselines of a model, layer by layer.

    `baseline` is a file, or a language for which bert-score has baselines of common models. Whether
    the file has the form of a baseline is not checked.

    Raises:
        OptionError: There is no such file, and no baseline of this model for the language.
        MissingExtra: There is no such file, and bert-score is not installed.
    """
    path = Path(os.path.expanduser(baseline))
    if os.path.isfile(path):
        return path
    folder = _bert_score() / "rescale_baseline"
    name = f"{table_name(model)}.tsv"
    # names of some models have their owner: en/microsoft/deberta-base.tsv
    shipped = {}
    for language in folder.iterdir():
        if (file := language / name).is_file():
            shipped[language.name] = file
    if baseline in shipped:
        return shipped[baseline]
    languages = ", ".join(sorted(shipped)) or "none"
    allowed = f"a file, or a language for which bert-score has '{name}': {languages}"
    raise OptionError(OWNER, "baseline", baseline, allowed)


def read_baseline(path: Path, layer: int) -> base.BertScore:
    """Return mean precision, recall and F of random pairs of texts at a layer.

    The file at `path` has the form of bert-score: a header `LAYER,P,R,F`, then a line per layer.
    `layer` is the number of the line, from 0; the column `LAYER` is not read.

    Raises:
        DataError: The file cannot be read, lacks the layer, or has a value of 1 or more.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        layers = []
        for row in rows:
            layers.append(base.BertScore(*(float(row[key]) for key in "PRF")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        allowed = "the form of bert-score: LAYER,P,R,F, then a line per layer"
        raise DataError("cannot be read as a baseline", file=path, allowed=allowed) from error
    # rescaling divides by 1 - baseline
    if layer >= len(layers) or max(layers[layer]) >= 1:
        values = tuple(layers[layer]) if layer < len(layers) else "no line"
        raise DataError(f"layer {layer}: found {values}", file=path, allowed="values below 1")
    return layers[layer]


# Default model of bert-score for English.
DEFAULT_MODEL = "roberta-large"

# Module -> package that provides it.
PACKAGES = {"torch": "torch", "transformers": "transformers", "bert_score": "bert-score"}


class BERTScorer:
    """BERTScore scorer that loads its model once and encodes references once.

    `BERTScorer(model="roberta-large", device="cpu").score(["a cat"], ["the cat"])` returns a
    `(precision, recall, fmeasure)` for each prediction: DataError if the lists differ in length or
    a reference is missing. The constructor loads the model. It raises MissingExtra without the
    package bert-score, OptionError for an unknown model, layer, baseline or device, and DataError
    if the hub cannot be reached. Several threads may share a scorer.
    """

    def __init__(
        self,
        model: embed.Model = DEFAULT_MODEL,
        *,
        num_layers: Annotated[
            int | None,
            Option(
                "The layer whose vectors are compared; null is the one of bert-score's table.", ge=0
            ),
        ] = None,
        idf: Annotated[
            bool, Option("Weigh tokens by how rare they are in the references.")
        ] = False,
        rescale: Annotated[
            bool, Option("Rescale the scores, so that random pairs of texts get 0.")
        ] = False,
        baseline: Annotated[
            str,
            Option(
                "Scores of random pairs: a language that bert-score has a file for, or a file.",
                refers_to="path_or_name",
            ),
        ] = "en",
        device: embed.ComputeDevice = "auto",
        batch_tokens: embed.BatchTokens = None,
    ) -> None:
        """Load a model.

        With `idf`, tokens are weighed by the references of each call of `score`. `num_layers` None
        takes the layer of bert-score's table. A batch has at most `batch_tokens` tokens, padding
        included; None takes a number for the device.
        The last two models stay loaded.

        Raises:
            MissingExtra: bert-score, which brings torch and transformers, is not installed.
            OptionError: No such model, layer, baseline or device.
            DataError: The hub cannot be reached, or the baseline or bert-score's table of layers
                cannot be read.
        """
        checkpoint, layer, self._baseline = _choose(model, num_layers, rescale, baseline)
        self._encoder = _encoder(
            checkpoint, checkpoint.identity, layer, device=device, batch_tokens=batch_tokens
        )
        self._idf, self._model = idf, checkpoint.identity
        self._texts = EncodedTexts(self._encoder)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<BERTScorer {self._model}>"

    def score(
        self,
        predictions: Sequence[str],
        references: Sequence[str | Sequence[str]],
        *,
        advance: base.Advance | None = None,
    ) -> list[base.BertScore]:
        """Score predictions against their references, texts or lists of them, by position.

        `advance` is called with the number of further completed predictions.

        Raises:
            DataError: The lists differ in length, a member is no text, or a reference is missing.
        """
        rows = base.paired_rows(predictions, references)
        return self.score_rows(rows, self.weights([gold for _, gold in rows]), advance)

    @property
    def limit(self) -> int | None:
        """Input length of the model in tokens; None without a limit."""
        return self._encoder.limit

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Return the number of texts that exceed the input length of the model.

        Equal texts count each; 0 for a model without limit.
        """
        return sum(tokens.truncated for tokens in self._encoder.tokenize(texts))

    def weights(self, references: Sequence[Sequence[str]]) -> TokenWeights:
        """Return the weights of tokens: with `idf` by rarity in the references, else equal.

        Without `idf`, only start and end tokens have weight 0. With `idf` and no references, all
        weights are 0.
        """
        if not self._idf:
            return TokenWeights(dict.fromkeys(self._encoder.outer_tokens, 0.0))
        texts = list(chain.from_iterable(references))
        with self._lock:
            tokens = self._texts.tokens(texts)
        return TokenWeights.by_rarity(take_items(tokens, texts))

    def score_rows(
        self, rows: Sequence[base.Row], weights: TokenWeights, advance: base.Advance | None = None
    ) -> list[base.BertScore]:
        """Return scores per row, in order, with weights from `weights`; rows are not checked.

        A row scores 0 if its prediction, or all its references, have no token. `advance` is called
        with the number of further scored rows.
        """
        scores = [NOTHING] * len(rows)
        with self._lock:
            # under a lock: calls of several threads share the cache of vectors
            texts = chain.from_iterable(
                (prediction, *references) for prediction, references in rows
            )
            tokens = self._texts.tokens(list(texts))
            weight_of = {text: weights(ids) for text, ids in tokens.items() if not ids.empty}
            for block, vectors in self._texts.blocks(rows, tokens):
                for position in block:
                    text, gold = rows[position]
                    gold = [reference for reference in gold if reference in weight_of]
                    if text in weight_of and gold:
                        prediction = WeightedTokens(vectors[text], weight_of[text])
                        references = [WeightedTokens(vectors[t], weight_of[t]) for t in gold]
                        scores[position] = self._best(prediction, references)
                if advance is not None:
                    advance(len(block))
        return scores

    def _best(self, prediction: WeightedTokens, references: list[WeightedTokens]) -> base.BertScore:
        """Return the largest precision, recall and F over the references, after rescaling."""
        # Each of the three is the largest by itself, as in bert-score.
        pairs = [match(prediction, reference) for reference in references]
        best = base.BertScore(*map(max, zip(*pairs, strict=True)))
        if self._baseline is None:
            return best
        rescaled = []
        for score, baseline in zip(best, self._baseline, strict=True):
            rescaled.append((score - baseline) / (1 - baseline))
        return base.BertScore(*rescaled)


def _choose(
    model: str, num_layers: int | None, rescale: bool, baseline: str, **options: object
) -> tuple[embed.Checkpoint, int, base.BertScore | None]:
    """Return the model, the layer of `choose_layer`, and the baseline or None without `rescale`."""
    embed.need_packages(f"metric '{OWNER}'", "bertscore", PACKAGES)
    checkpoint, layer = embed.find_checkpoint(OWNER, model), choose_layer(model, num_layers)
    values = read_baseline(find_baseline(model, baseline), layer) if rescale else None
    return checkpoint, layer, values


@functools.lru_cache(maxsize=2)
def _encoder(
    checkpoint: embed.Checkpoint, identity: str, layer: int, **options: Any
) -> TokenEncoder:
    """Return the loaded model, cached until the content of its folder (`identity`) changes."""
    # The last two models stay loaded.
    return TokenEncoder(checkpoint, layer, **options)


class _RunScorer:
    """Scorer of the systems of a run, with weights from all references of the run."""

    def __init__(self, options: base.Options) -> None:
        self._scorer = BERTScorer(**options)
        self._weights = self._scorer.weights([])

    def weigh(self, references: Sequence[Sequence[str]]) -> None:
        self._weights = self._scorer.weights(references)

    def __call__(
        self, rows: Sequence[base.Row], metrics: Sequence[base.Metric], advance: base.Advance
    ) -> list[base.Column]:
        scores = self._scorer.score_rows(rows, self._weights, advance)
        columns = []
        for metric in metrics:
            columns.append(base.Column([getattr(score, metric.part) for score in scores]))
        return columns


def _check(options: base.Options) -> None:
    checkpoint, layer, _ = _choose(**options)
    check_layer(checkpoint, layer)
    embed.choose_device(OWNER, options["device"])


def _facts(options: base.Options) -> Mapping[str, str]:
    """Return identity and layer of the model and the values of the baseline, for signatures."""
    checkpoint, layer, baseline = _choose(**options)
    rescaled = fingerprint(map(str, baseline)) if baseline else "no"
    model = {"model": checkpoint.identity, "layer": str(layer)}
    return {**model, "rescale": rescaled, "references": "best"}


def _notes(texts: Sequence[str], options: base.Options) -> list[str]:
    scorer = BERTScorer(**options)
    cut, lost = scorer.count_truncated(texts), ", and were cut there"
    notes = truncation_notes(cut, len(texts), "texts", scorer.limit, lost, options["model"])
    return [f"{OWNER}: {note}" for note in notes]


def _range(options: base.Options) -> tuple[float, float]:
    """Return the range of values: -1 to 1, or with the option `rescale` -inf to 1."""
    return (float("-inf") if options["rescale"] else -1.0, 1.0)


@base.metric(
    "bertscore",
    parts=("fmeasure", "precision", "recall"),
    range=_range,
    open=_RunScorer,
    computes=True,
    facts=_facts,
    unsigned=frozenset({"model", "num_layers", "rescale", "baseline", "device", "batch_tokens"}),
    check=_check,
    notes=_notes,
    equals="bert-score of each pair alone, within 1e-5 (in a batch, it moves by up to 2e-4 itself)",
    not_for="facts: a wrong name or number, or a `not`, costs little; values of two models",
)
@takes_options_of(BERTScorer)
def bertscore(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], **options: Any
) -> list[base.BertScore]:
    """Score how similar the tokens of a prediction are to those of its reference.

    Each token takes the largest cosine with any token of the other text, as vectors of a
    language model. The numbers are those of bert-score for each pair alone: what else is in the
    batch does not move them. They depend on model and layer, and are only compared within one.
    Cosines x lie in -1..1, in practice near the upper end; with `rescale`, to (x - b) / (1 - b),
    in -inf..1.

    Empty references are left out; an empty prediction, or empty references alone, give 0, also
    where rescaled. A text that is longer than the model can read is cut. With `idf`, a token that
    is in every reference weighs nothing, and a text of only such tokens scores 0. The model stays
    loaded for the next call. `options` are those of `BERTScorer`. Of several references the
    largest precision, recall and F count.

    Returns:
        Scores in the order of the predictions, each with precision, recall and F; no predictions
        give an empty list.

    Raises:
        MissingExtra: bert-score, which brings torch and transformers, is not installed.
        OptionError: No such model, layer, baseline or device.
        DataError: The hub cannot be reached, or the texts cannot be paired.

    References:
        Zhang et al. (2020), BERTScore: Evaluating Text Generation with BERT.
    """
    return BERTScorer(**options).score(predictions, references)
