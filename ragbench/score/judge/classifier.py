"""Judge by a model that gives the probability of support: `type: classifier` (extra `dense`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal, cast

from ragbench import llm
from ragbench.embed.base import BatchTokens, Checkpoint, ComputeDevice, find_checkpoint
from ragbench.embed.classifier import (
    Head,
    InputForm,
    Labels,
    TextClassifier,
    fill_template,
)
from ragbench.errors import OptionError
from ragbench.json_yaml import load_json
from ragbench.llm.limits import Limits
from ragbench.llm.server import PriceOptions, SamplingOptions, Server, ServerOptions
from ragbench.registry import Option, check_values, declared_options
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge
from ragbench.score.judge.local import LocalJudge
from ragbench.score.judge.methods.claims import split_claims
from ragbench.score.judge.methods.templates import prompt_parts
from ragbench.score.judge.methods.vote import Asking, ExampleOptions, Vote
from ragbench.score.judge.model_judge import Jury, Method, ModelJudge
from ragbench.score.judge.presets import Preset, load_presets
from ragbench.score.judge.sentences import Pair, claim_texts, without_markers
from ragbench.score.judge.served_models import ClassificationEndpoint, RoutedModels
from ragbench.score.judge.support import (
    Support,
    claims_verdict,
    label_column,
    read_answer,
    sources_of,
    support_verdict,
)
from ragbench.types.lookups import attributes_of
from ragbench.types.scores import Cause, Verdict

_OWNER = "classifier"
_INPUTS = 32  # of a request: the default limit of Hugging Face's server
_LOGPROBS = 5
_WINDOW = 64  # characters: a shorter source is not the reason why an input is too long
# Options of the splitter that claims depend on.
_SAMPLING = ("temperature", "seed", "max_tokens", "reasoning_effort", "language")

# Returns the probability of support of a text by each source.
Ask = Callable[[Sequence[str], str], Awaitable[list[float]]]

PresetName = Literal[
    "hhem",
    "minicheck-roberta",
    "minicheck-flan-t5",
    "lettucedetect",
    "bespoke-minicheck",
    "granite-guardian",
    "lynx",
]


class SplitterOptions(ServerOptions, SamplingOptions, ExampleOptions):
    """Options of the chat model that splits answers into claims.

    Address and key, sampling and examples are options too, as of `type: openai`. The classifier
    checks their values.
    """

    model: Annotated[str, Option("The chat model, as the server calls it.")]


class ClassifierOptions(Limits, PriceOptions):
    """Options of a judge by a classifier: keywords of `Classifier`, which checks their values.

    Attributes:
        device: Device of a local model.
        batch_tokens: Tokens per batch, padding included; null: a number by the device.
    """

    model: Annotated[
        str | None,
        Option(
            "A model with two or three labels: a folder, or a name on the Hugging Face "
            "hub; default: that of `preset`.",
            refers_to="path_or_name",
        ),
    ] = None
    preset: Annotated[
        PresetName | None,
        Option(
            "Published model whose input format is used; null: the pair of a passage and the text."
        ),
    ] = None
    label: Annotated[
        str | None,
        Option(
            "The model's label for a supported text; default: `entailment`, `supported`, "
            "`consistent` or `1`, the first that it has."
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Option(
            "A server that runs the model: with `POST /predict`, as Hugging Face's, or, "
            "for the presets of chat models, of the OpenAI protocol, up to and including "
            "`/v1`."
        ),
    ] = None
    api_key_env: Annotated[
        str | None, Option("Environment variable with the key of `base_url`; null: none is sent.")
    ] = None
    splitter: Annotated[
        dict[str, Any] | None,
        Option(
            "The chat model that splits answers into claims, for `faithfulness`: "
            "`model`, `base_url` and so on, as for `type: openai`."
        ),
    ] = None
    device: ComputeDevice = "auto"
    batch_tokens: BatchTokens = None


class Classifier(RubricJudge):
    """Judge support by a classifier with two or three labels, local or behind a server.

    The score of `supported` is the probability that the passages support the answer as a whole.
    Each passage is read alone, and the best one counts; one longer than the model's input is read
    in overlapping windows. `faithfulness` is the mean of these probabilities over the claims into
    which a chat model, the `splitter`, splits the answer.

    `Classifier(**options)` returns a `ServedClassifier` if the options name a server, a splitter or
    the preset of a chat model, else a `LocalClassifier`. The options are those of
    `ClassifierOptions`. A wrong value raises an `OptionError`, and so does a call without model and
    preset.
    """

    same_results = "its model scores a text the same each time"

    declares = ClassifierOptions
    served: Sequence[str] = ("supported", "faithfulness")
    label = "a classifier: it gives probabilities, without reasons"
    _chosen: ClassifierOptions
    _preset: Preset | None

    def __new__(cls, **options: Any) -> Classifier:
        """Return a judge that sends requests if the options name a server, else one that computes.

        A splitter, and the preset of a chat model, are servers as well. The options are those of
        `ClassifierOptions`.
        """
        preset = load_presets().get(str(options.get("preset")))
        is_chat = preset is not None and preset.head == "chat"
        if cls is not Classifier:
            return super().__new__(cls)
        asks = options.get("base_url") or is_chat or options.get("splitter") is not None
        return super().__new__(ServedClassifier if asks else LocalClassifier)

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that verdicts depend on besides the model: `preset` and `label`.

        An option that is not set is None.
        """
        return {"preset": self._chosen.preset, "label": self._chosen.label}

    @property
    def _supported(self) -> str | None:
        """Label of a supported text, by the options, the preset or the usual names."""
        return self._chosen.label or (self._preset.label if self._preset else None)


def _read_options(options: Mapping[str, Any]) -> tuple[ClassifierOptions, Preset | None, str]:
    """Return the checked options, the preset or None, and the name of the model."""
    chosen = ClassifierOptions(**options)
    check_values(_OWNER, declared_options(ClassifierOptions), options)
    preset = None if chosen.preset is None else load_presets()[chosen.preset]
    model = chosen.model or (preset.model if preset else None)
    if not model:
        raise OptionError(_OWNER, "model", None, "a folder, a name on the hub, or a preset")
    return chosen, preset, model


class LocalClassifier(LocalJudge[Support], Classifier):
    """Judge support by a local classifier.

    It is created with options of `ClassifierOptions`: A wrong value raises an `OptionError`, and so
    does a call without model and preset. It applies the rubric `supported`: the score is the
    largest probability that a passage supports the answer. The model is loaded at the first item;
    `check` raises MissingExtra, OptionError or DataError before that. `close` unloads it.
    """

    declares = ClassifierOptions
    served: Sequence[str] = ("supported",)
    served_note = "; faithfulness needs splitter, a chat model that splits answers into claims"
    _blank = Support(0.0)

    def __init__(self, **options: Any) -> None:
        """Create a judge; the model is loaded at the first item.

        Raises:
            OptionError: The model or preset is missing, no such model can exist, or an option has a
                wrong value.
            TypeError: An unknown option.
        """
        self._chosen, self._preset, model = _read_options(options)
        preset, chosen = self._preset, self._chosen
        checkpoint = find_checkpoint(_OWNER, model)
        super().__init__(_OWNER, checkpoint, chosen.device, chosen.batch_tokens)
        if preset is not None:
            # the prompt of all passages is the first text of the pair
            template = "" if preset.head == "tokens" else preset.template
            self._form = InputForm(cast("Head", preset.head), template, preset.tokens)

    # of the two bases, the classifier has the options
    options = Classifier.options

    def _columns(self, checkpoint: Checkpoint, labels: Labels) -> list[int]:
        return [label_column(checkpoint, labels, self._supported)]

    def _compute(self, classifier: TextClassifier, pairs: Sequence[Pair]) -> list[Support]:
        if self._form.head != "tokens":
            return [Support(float(row[0])) for row in classifier.probabilities(pairs)]
        supports = []
        for (_, text), (largest, spans) in zip(pairs, classifier.spans(pairs), strict=True):
            unsupported = tuple((text[span.start : span.end], span.probability) for span in spans)
            supports.append(Support(1 - largest, unsupported))
        return supports

    def _verdict(
        self, value_of: Callable[[Pair], Support], item: JudgedItem, rubric: Rubric
    ) -> Verdict:
        text = without_markers(item.answer or "")
        sources = sources_of(self._preset, item)
        return support_verdict(text, {n: value_of((source, text)) for n, source in sources.items()})


class ServedClassifier(ModelJudge, Classifier):
    """Judge support by a classifier behind a server, or with a chat model that splits claims.

    It is created with options of `ClassifierOptions`, and raises OptionError for a wrong value.
    Without `base_url` the classifier computes here, and only the splitter is behind a server. The
    score of `supported` is the largest probability that a passage supports the answer;
    `faithfulness`, the mean over its claims, needs a splitter. A failed request is a verdict with
    status `failed`; raises RagbenchError if the user has to act, as for a missing key. `close`
    closes connections and unloads the model.
    """

    declares = ClassifierOptions

    def __init__(self, **options: Any) -> None:
        """Create a judge; it sends nothing, and loads no model, before the first item.

        Raises:
            OptionError: A value is not allowed, neither a model nor a preset is given, or the
                preset does not fit.
            TypeError: An unknown option.
        """
        chosen, preset, model = _read_options(options)
        self._options, self._chosen, self._preset = options, chosen, preset
        if preset is not None and preset.head == "chat" and not chosen.base_url:
            allowed = "the URL of a server that runs the model, up to and including /v1"
            raise OptionError(_OWNER, "base_url", None, allowed)
        if preset is not None and preset.head not in ("chat", "classes") and chosen.base_url:
            allowed = "minicheck-roberta or the preset of a chat model; the model of another "
            allowed += "computes here, without base_url"
            raise OptionError(_OWNER, "preset", chosen.preset, allowed)
        self._splitter = _read_splitter(chosen.splitter, model)
        if self._splitter is None:
            self.served, self.served_note = LocalClassifier.served, LocalClassifier.served_note
        self._local = None if chosen.base_url else LocalClassifier(**options)
        super().__init__(
            self._clients,
            Jury((model if self._local is None else self._local.model,)),
            Asking() if self._splitter is None else Asking.from_options(self._splitter),
            limits=chosen,
            prices=chosen.load_prices,
        )

    # of the two bases, the classifier has the options
    options = Classifier.options

    @property
    def missing_key(self) -> str | None:
        """Name of the environment variable that should hold the splitter's key and is not set.

        The result is None if it is set or not needed, or without a splitter. The key of `base_url`
        is no part.
        """
        return None if self._splitter is None else Server.from_options(self._splitter).missing_key

    def check(self) -> None:
        """Connect to the servers, and check a local model without loading it.

        Raises:
            OptionError: A key is missing, or a local model has other labels or no such device.
            MissingExtra: A package is not installed.
            DataError: The prices cannot be read, or a local model is not in the cache of the hub,
                and the hub cannot be reached.
        """
        super().check()
        if self._local is not None:
            self._local.check()

    def close(self) -> None:
        """Close the connections and unload the model; the next item opens them again."""
        super().close()
        if self._local is not None:
            self._local.close()

    def signature_parts(self, rubric: Rubric) -> Mapping[str, Any]:
        """Return the signature parts of a rubric's scores besides the model.

        The keys are `rubric` (its fingerprint), `preset` and `label`. For claims with a splitter
        also `splitter` (name of its model), those of `prompt_parts`, `temperature`, `seed`,
        `max_tokens`, `reasoning_effort` and `language`.
        """
        parts = dict(RubricJudge.signature_parts(self, rubric))
        if self._splitter is not None and rubric.method == "claims":
            parts |= prompt_parts(rubric, few_shot=self.asking.few_shot)
            parts |= attributes_of(self.asking, _SAMPLING)
            parts |= {"splitter": self._splitter.model}
        return parts

    def rehearsal(self, model: llm.ChatModel) -> ModelJudge:
        """Return a judge of these options that sends its requests to `model` and loads nothing.

        Probabilities are 0 in it.
        """
        judge = ServedClassifier(**self._options)
        judge._connect = lambda _: model
        judge.asking = replace(judge.asking, rehearsal=True)
        return judge

    def _clients(self, replies: llm.Replies | None) -> llm.ChatModel:
        chosen, clients = self._chosen, dict[str, llm.ChatModel]()
        if self._splitter is not None:
            clients[self._splitter.model] = Server.from_options(self._splitter).connect(replies)
        if chosen.base_url and self._preset is not None and self._preset.head == "chat":
            server = Server(base_url=chosen.base_url, api_key_env=chosen.api_key_env or "")
            clients[self.model] = server.connect(replies)
        elif chosen.base_url:
            clients[self.model] = ClassificationEndpoint(chosen.base_url, chosen.api_key_env)
        return RoutedModels(clients) if len(clients) > 1 else next(iter(clients.values()))

    def _method(self, rubric: Rubric) -> Method:
        return self._check_claims if rubric.method == "claims" else self._check_answer

    async def _check_answer(self, vote: Vote) -> Verdict:
        text = without_markers(vote.item.answer or "")
        return support_verdict(text, await self._supports(vote, text) if text.strip() else {})

    async def _check_claims(self, vote: Vote) -> Verdict:
        splitter = self.model if self._splitter is None else self._splitter.model
        answer = {"answer": vote.item.answer or ""}
        split = await split_claims(replace(vote, model=splitter), answer)
        claims = claim_texts(split["answer"])
        supports = [await self._supports(vote, claim) for claim in claims]
        return claims_verdict(claims, supports)

    async def _supports(self, vote: Vote, text: str) -> dict[int, Support]:
        """Return number -> support of a text by each source of the item of a vote."""
        sources = sources_of(self._preset, vote.item)
        numbers, texts = list(sources), list(sources.values())
        if self._local is not None:
            if self.asking.rehearsal:
                return dict.fromkeys(numbers, Support(0.0))
            pairs = [(source, text) for source in texts]
            values = await asyncio.to_thread(self._local.values, pairs)
            return dict(zip(numbers, values, strict=True))
        supports: list[float] = []
        if self._preset is not None and self._preset.head == "chat":
            ask, most = partial(self._ask_chat, vote, self._preset), 1
        else:
            ask, most = partial(self._ask_endpoint, vote), _INPUTS
        for start in range(0, len(texts), most):
            supports += await self._ask_in_windows(ask, texts[start : start + most], text)
        return {n: Support(value) for n, value in zip(numbers, supports, strict=True)}

    async def _ask_in_windows(self, ask: Ask, sources: Sequence[str], text: str) -> list[float]:
        """Return the probability of support by each source, in order."""
        # A source that is too long for the model counts as the better of two overlapping windows.
        try:
            return await ask(sources, text)
        except llm.CallFailure as failure:
            length = len(sources[0])
            if failure.cause is not Cause.TOO_LONG or (len(sources) == 1 and length < _WINDOW):
                raise
        if len(sources) > 1:
            rows = [await self._ask_in_windows(ask, [source], text) for source in sources]
            return list(chain.from_iterable(rows))
        part = length * 5 // 8  # windows overlap by a quarter of the source
        windows = [sources[0][:part], sources[0][-part:]]
        return [max([(await self._ask_in_windows(ask, [window], text))[0] for window in windows])]

    async def _ask_chat(
        self, vote: Vote, preset: Preset, sources: Sequence[str], text: str
    ) -> list[float]:
        """Return the probability of support, in a list, by all sources read together."""
        passages = list(vote.item.contexts or []) if preset.reads_all else list(sources)
        documents = []
        for n, passage in enumerate(passages):
            documents.append({"doc_id": str(n), "text": passage})
        request = llm.ChatRequest(
            self.model,
            tuple(preset.messages(vote.item.question, passages, text)),
            temperature=0.0,
            max_tokens=preset.max_tokens,
            top_logprobs=_LOGPROBS,
            extra={"documents": documents} if preset.documents else {},
        )
        reply = await vote.send(request)
        vote.replies.append(reply)
        return [0.0 if self.asking.rehearsal else read_answer(reply, preset.answers)]

    async def _ask_endpoint(self, vote: Vote, sources: Sequence[str], text: str) -> list[float]:
        """Return the probability of support of a text by each source, in order."""
        inputs: list[list[str]] = []
        for source in sources:
            gaps = {"passage": source, "text": text, "eos": "</s>"}
            template = self._preset.template if self._preset else ""
            inputs.append([fill_template(template, gaps)] if template else [source, text])
        message = llm.Message("user", json.dumps(inputs, ensure_ascii=False))
        reply = await vote.send(llm.ChatRequest(self.model, (message,)))
        vote.replies.append(reply)
        if self.asking.rehearsal:
            return [0.0] * len(sources)
        try:
            rows = []
            for _, scores in zip(sources, load_json(reply.text), strict=True):
                rows.append({score["label"]: float(score["score"]) for score in scores})
        except (TypeError, KeyError, ValueError) as error:
            detail = f"the reply has no labels and scores of each input: {reply.text[:200]}"
            raise llm.CallFailure(Cause.UNREADABLE, detail, replies=(reply,)) from error
        checkpoint = Checkpoint(_OWNER, self.model, None)
        values = []
        for row in rows:
            names = list(row)
            column = label_column(checkpoint, dict(enumerate(names)), self._supported)
            values.append(row[names[column]])
        return values


def _read_splitter(options: Mapping[str, Any] | None, model: str) -> SplitterOptions | None:
    """Return the checked options of the splitter; None if `options` is None."""
    if options is None:
        return None
    owner = f"{_OWNER}: splitter"
    if "model" not in options:
        raise OptionError(owner, "model", None, "the name of a chat model")
    check_values(owner, declared_options(SplitterOptions), options)
    if options["model"] == model:
        raise OptionError(owner, "model", model, "another model than the classifier")
    return SplitterOptions(**options)
