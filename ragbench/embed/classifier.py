"""Classifiers of a passage and a text, on transformers: supported or not, in any input form."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ragbench.embed.base import Checkpoint, Device, as_unicode, choose_device
from ragbench.embed.batches import Batches
from ragbench.embed.encoders import token_limit
from ragbench.errors import OptionError, Phrase
from ragbench.types.lookups import take_items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Shape (n, number of columns).
    Probabilities = NDArray[np.float32]

# Place of the classes in the output of a model: a class head, the first token of an encoder, the
# first decoded token, or each token of the text.
Head = Literal["classes", "first_token", "decoder", "tokens"]
# `id2label` of a model's configuration: column -> label.
Labels = Mapping[int, str]

_GAP = re.compile(r"\{([a-z_]+)\}")
_OVERLAP = 4  # windows overlap by a quarter, so that most sentences are whole in one of them
_UNSUPPORTED = 0.5  # probability from which a token belongs to an unsupported span
_SLACK = 8  # tokens: a part of a passage may have more tokens alone than within the passage
_CLASSES = {
    "classes": ("AutoModelForSequenceClassification", "ForSequenceClassification"),
    "decoder": ("AutoModelForSeq2SeqLM", "ForConditionalGeneration"),
    "tokens": ("AutoModelForTokenClassification", "ForTokenClassification"),
}


@dataclass(frozen=True, slots=True)
class InputForm:
    """Input and output form of a classifier.

    Attributes:
        head: Place of the classes in the output: `classes` (a class head), `first_token` of an
            encoder, first token of a `decoder`, or each of the `tokens` of the text.
        template: Input text with the gaps `{passage}` and `{text}`; `{eos}` is the end token of
            the tokeniser. Empty: passage and text are a pair.
        tokens: Ids of the decoded tokens for "unsupported" and "supported", for a `decoder`.
    """

    head: Head = "classes"
    template: str = ""
    tokens: tuple[int, ...] = ()


class TextSpan(NamedTuple):
    """Part of a text that its passages do not support.

    Attributes:
        start: Position of its first character, from 0.
        end: Position after its last character.
        probability: Largest probability among its tokens that the part is unsupported.
    """

    start: int
    end: int
    probability: float


class TextClassifier:
    """Classifier of whether a passage supports a text.

    Creating one loads the model of a checkpoint. `probabilities` returns a row for each pair of
    passage and text, `spans` the unsupported parts of the texts. Several threads may use it. It
    computes in 32-bit floats, also if the weights are stored as 16-bit floats.

    Attributes:
        device: `cpu` or `cuda`.
        limit: Number of tokens that the model reads; None means without limit.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        columns: Callable[[Checkpoint, Labels], list[int]],
        *,
        form: InputForm = InputForm(),
        decisive: Sequence[int] = (0,),
        device: Device = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        """Load the model.

        Args:
            checkpoint: The model.
            columns: Returns the columns of the wanted classes, given the labels of the model;
                raises an OptionError if the model has other labels.
            form: Form of input and output.
            decisive: Positions in `columns` whose largest probability chooses among the windows of
                a long passage.
            device: Device of the model.
            batch_tokens: Tokens of a batch, padding included; None takes a number for the device.

        Raises:
            OptionError: The model has other labels, lacks weights, or has no fast tokeniser, or it
                or the device does not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
            ImportError: torch or transformers is not installed.
        """
        self.device = choose_device(checkpoint.owner, device)
        self._tokenizer, model, missing = _load(checkpoint, form.head)
        problem = "its tokeniser has no positions of tokens" if not self._tokenizer.is_fast else ""
        if missing:
            problem = f"it lacks the weights {missing[0]}"
        if problem:
            allowed = "a complete model with a fast tokeniser"
            model = Phrase(f"{checkpoint.name!r} ({problem})")
            raise OptionError(checkpoint.owner, "model", model, allowed)
        self._form, self._decisive = form, list(decisive)
        self._columns = _find_columns(checkpoint, columns, form, model.config)
        self._tokenizer.padding_side = "right"
        self.limit = token_limit(self._tokenizer, model)
        self._model = model.float().eval().to(self.device)
        self._batches = Batches(self.device, batch_tokens, limit=self.limit)
        # a tokeniser stores its truncation as state: two threads must not use it at once
        self._lock = threading.Lock()

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Probabilities:
        """Return the class probabilities of (passage, text) pairs, shape (n, columns), in order.

        Columns are the wanted classes, in the order of `columns`; the head is not `tokens`. A
        passage that is too long is read in overlapping windows. The window with the highest
        probability of a decisive class counts; the first if several tie. A text is cut to half of
        the limit.
        """
        import numpy as np

        if not pairs:
            return np.empty((0, len(self._columns)), dtype=np.float32)
        if not self._form.template:
            pairs = [(passage.strip(), text.strip()) for passage, text in pairs]
        with self._lock:
            owners, windows = self._read(pairs)
        rows = np.stack(windows)
        decided = rows[:, self._decisive].max(axis=1)
        best = np.lexsort((-decided, owners))  # stable, so the first of equal windows is taken
        _, first = np.unique(owners[best], return_index=True)
        chosen: Probabilities = rows[best[first]]
        return chosen

    def spans(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, list[TextSpan]]]:
        """Return the unsupported spans of the text of each (prompt, text) pair, in order.

        The head of the model is `tokens`. Each pair has the largest probability of a token of its
        text to be unsupported, 0 for a text without tokens, and the spans of adjacent tokens with a
        probability of 0.5 or more, in the order of the text. Of several windows of a prompt, the
        largest probability of a token counts, as in the authors' code: each window has to support
        it. A text is cut to half of the limit.
        """
        import numpy as np

        spans = []
        with self._lock:
            owners, windows = self._read(pairs)
            for number, (_, text) in enumerate(pairs):
                text, _ = self._shortened(as_unicode(text))
                places = self._places(text)
                # the tokens of the text are the last ones before the final special token
                end = -len(places) - 1
                parts = []
                for n in np.flatnonzero(owners == number):
                    parts.append(windows[n][end:-1, 0])
                tokens = np.max(parts, axis=0).tolist()
                spans.append((max(tokens, default=0.0), join_tokens(places, tokens)))
        return spans

    def _read(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[NDArray[np.int64], list[Probabilities]]:
        """Return the position of each window's pair, and the probabilities of each window."""
        import numpy as np

        cut = self._cut_template if self._form.template else self._cut
        owners: list[int] = []
        windows: list[Mapping[str, list[int]]] = []
        for position, (passage, text) in enumerate(pairs):
            for window in cut(as_unicode(passage), as_unicode(text)):
                owners.append(position)
                windows.append(window)
        lengths = [len(window["input_ids"]) for window in windows]

        def compute(batch: list[int], length: int) -> Probabilities:
            return self._forward(take_items(windows, batch), length)

        rows = self._batches.apply(compute, lengths)
        if self._form.head == "tokens":  # without the padding
            rows = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        return np.array(owners, dtype=np.int64), rows

    def _cut(self, passage: str, text: str) -> Iterator[Mapping[str, list[int]]]:
        """Yield the inputs of the model, such as `input_ids`, for each window of a passage."""
        text, room = self._shortened(text)
        cut: dict[str, Any] = {}
        if room is not None:
            cut = {
                "truncation": "only_first",
                "max_length": self.limit,
                "stride": room // _OVERLAP,
                "return_overflowing_tokens": True,
            }
        inputs = self._inputs(self._tokenizer(passage, text, verbose=False, **cut))
        if room is None:
            yield inputs
            return
        for columns in zip(*inputs.values(), strict=True):
            yield dict(zip(inputs, columns, strict=True))

    def _cut_template(self, passage: str, text: str) -> Iterator[Mapping[str, list[int]]]:
        """Yield the inputs of the model, such as `input_ids`, for each window of a passage."""
        tokens = self._filled(passage, text)
        if self.limit is None or len(tokens["input_ids"]) <= self.limit:
            yield tokens
            return
        text, _ = self._shortened(text)
        used = len(self._filled("", text)["input_ids"]) + _SLACK
        room, places = max(self.limit - used, 1), self._places(passage)
        for start in range(0, max(len(places) - room // _OVERLAP, 1), room - room // _OVERLAP):
            part = places[start : start + room]
            yield self._filled(passage[part[0][0] : part[-1][1]] if part else "", text)

    def _filled(self, passage: str, text: str) -> Mapping[str, list[int]]:
        """Return the token ids of a passage and a text, cut to the limit of the model."""
        # encoders such as DeBERTa end a text with their separator
        end = self._tokenizer.eos_token or self._tokenizer.sep_token or ""
        gaps = {"passage": passage, "text": text, "eos": end}
        tokens = self._tokenizer(fill_template(self._form.template, gaps), verbose=False)
        return self._inputs(tokens)

    def _inputs(self, tokens: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of tokenised texts that the model reads."""
        names = self._tokenizer.model_input_names
        inputs: dict[str, Any] = {}
        for name in names:
            if name in tokens:
                inputs[name] = tokens[name]
        return inputs

    def _places(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each token of a text alone; empty for an empty text."""
        encoding = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        places = []
        for start, end in encoding["offset_mapping"]:
            places.append((int(start), int(end)))
        return places

    def _shortened(self, text: str) -> tuple[str, int | None]:
        """Return the text, cut to half of the limit, and the tokens left for a passage."""
        if self.limit is None:
            return text, None
        around = self._tokenizer.num_special_tokens_to_add(pair=True)
        most, places = max((self.limit - around) // 2, 1), self._places(text)
        if len(places) > most:
            text = text[: places[most - 1][1]]
        return text, self.limit - around - min(len(places), most)

    def _forward(self, batch: Sequence[Mapping[str, list[int]]], length: int) -> Probabilities:
        """Return the probabilities of the columns for a batch that is padded to `length` tokens."""
        import torch

        padded = self._tokenizer.pad(
            list(batch), "max_length", length, return_tensors="pt", verbose=False
        )
        inputs = {}
        for name, values in padded.items():
            inputs[name] = values.to(self.device)
        head = self._form.head
        with torch.inference_mode():
            if head == "decoder":
                start = self._model.config.decoder_start_token_id
                first = torch.full((len(batch), 1), start, device=self.device)
                logits = self._model(**inputs, decoder_input_ids=first).logits
                logits = logits[:, 0, list(self._form.tokens)]
            else:
                logits = self._model(**inputs).logits
            if head == "first_token":
                logits = logits[:, 0]
            rows: Probabilities = logits.softmax(dim=-1)[..., self._columns].cpu().numpy()
        return rows


def fill_template(template: str, gaps: Mapping[str, str]) -> str:
    """Return a template with the text of each gap; other braces, and gaps in texts, stay.

    Example:
        >>> fill_template("predict: {passage}{eos}", {"passage": "It is {eos}.", "eos": "</s>"})
        'predict: It is {eos}.</s>'
    """
    return _GAP.sub(lambda gap: gaps.get(gap[1], gap[0]), template)


def join_tokens(
    places: Sequence[tuple[int, int]], probabilities: Sequence[float]
) -> list[TextSpan]:
    """Return the spans of adjacent tokens whose probability is at least 0.5, in order.

    Tokens of no characters are skipped.

    Args:
        places: Start and end of each token in the text.
        probabilities: Probability of each token to be unsupported.

    Example:
        >>> join_tokens([(0, 2), (3, 6), (7, 9), (9, 11)], [0.1, 0.7, 0.9, 0.2])
        [TextSpan(start=3, end=9, probability=0.9)]
    """
    spans: list[TextSpan] = []
    is_open = False
    for (start, end), probability in zip(places, probabilities, strict=True):
        if start == end:
            continue
        if probability >= _UNSUPPORTED and is_open:
            last = spans[-1]
            spans[-1] = TextSpan(last.start, end, max(last.probability, probability))
        elif probability >= _UNSUPPORTED:
            spans.append(TextSpan(start, end, probability))
        is_open = probability >= _UNSUPPORTED
    return spans


def check_classifier(
    checkpoint: Checkpoint,
    columns: Callable[[Checkpoint, Labels], list[int]],
    form: InputForm,
    kind: str,
) -> None:
    """Check that a model has the head of a form and the labels, without reading its weights.

    `columns` raises an OptionError for wrong labels of a model with the head `classes`; other heads
    have no labels to check. `kind` names the allowed models in messages.

    Raises:
        OptionError: The model has another head or other labels, or does not exist.
        DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        ImportError: transformers is not installed.
    """
    if form.head == "first_token":
        if "foundation" not in checkpoint.load(_raw_config):
            raise OptionError(
                checkpoint.owner, "model", checkpoint.name, "a model such as HHEM-2.1"
            )
        return
    config, (_, suffix) = checkpoint.config(), _CLASSES[form.head]
    if not any(name.endswith(suffix) for name in config.architectures or ()):
        raise OptionError(checkpoint.owner, "model", checkpoint.name, kind)
    _find_columns(checkpoint, columns, form, config)


def _find_columns(
    checkpoint: Checkpoint,
    columns: Callable[[Checkpoint, Labels], list[int]],
    form: InputForm,
    config: Any,
) -> list[int]:
    """Return the columns by the labels of a class head; the second column, [1], for other heads."""
    return columns(checkpoint, config.id2label) if form.head == "classes" else [1]


def _raw_config(name: str, where: Mapping[str, bool]) -> dict[str, Any]:
    """Return the configuration of a model as JSON, also of a type that transformers lacks."""
    from transformers import PretrainedConfig

    config: dict[str, Any] = PretrainedConfig.get_config_dict(name, **where)[0]
    return config


def _load(checkpoint: Checkpoint, head: Head) -> tuple[Any, Any, list[str]]:
    """Return tokeniser, model and names of missing weights."""
    if head != "first_token":
        return checkpoint.load_model(_CLASSES[head][0])
    from transformers import AutoConfig, AutoTokenizer, T5ForTokenClassification

    def load(name: str, where: dict[str, bool]) -> tuple[Any, Any, list[str]]:
        """Load tokenizer, model and the names of missing weights; `where` limits downloads."""
        foundation = _raw_config(name, where)["foundation"]
        config = AutoConfig.from_pretrained(foundation, **where)
        tokenizer = AutoTokenizer.from_pretrained(foundation, **where)
        model, info = T5ForTokenClassification.from_pretrained(
            name, config=config, key_mapping={r"^t5\.": ""}, output_loading_info=True, **where
        )
        return tokenizer, model, sorted(info["missing_keys"])

    return checkpoint.load(load)


# The classes of an entailment model, in the order of the columns here.
LABELS = ("entailment", "neutral", "contradiction")


def label_columns(checkpoint: Checkpoint, labels: Labels) -> list[int]:
    """Return the columns of entailment, neutral and contradiction in the output of a model.

    `labels` is the `id2label` of its configuration: column -> label, in any case. They are in the
    order of `LABELS`, counted from 0.

    Raises:
        OptionError: The labels are not these three.

    Example:
        >>> model = Checkpoint("nli", "roberta-large-mnli", None)
        >>> label_columns(model, {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
        [2, 1, 0]
    """
    columns = {}
    for number, label in labels.items():
        columns[str(label).strip().lower()] = int(number)
    if set(columns) != set(LABELS) or len(columns) < len(labels):
        names = ", ".join(map(str, labels.values()))
        allowed = f"a model whose id2label in config.json names {', '.join(LABELS)}"
        model = Phrase(f"{checkpoint.name!r} ({names})")
        raise OptionError(checkpoint.owner, "model", model, allowed)
    return take_items(columns, LABELS)
