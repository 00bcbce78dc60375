"""Chunks of documents, for retrievers that index: `chunk: {by: words, size: 200, overlap: 20}`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ragbench import registry
from ragbench.errors import AdapterError, MissingExtra, OptionError
from ragbench.text.languages import UNSPACED
from ragbench.text.tokenize import sentences
from ragbench.types import Document

# Separates a document's id from the number of its chunk.
SEPARATOR = "#"
# Start and end in a text, in characters; the end is exclusive.
Offsets = tuple[int, int]
# a letter of a script without spaces between words is a word, with the marks that follow it
_WORD = rf"[{UNSPACED}][^\w\s]*|[^\s{UNSPACED}]+"
_TOKEN = rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]"


_BY = ("words", "sentences", "tokens", "langchain")


class Chunking(registry.OptionSet):
    """Options of cutting documents into chunks: the block `chunk` of an entry of `retrievers`.

    The constructor raises OptionError for an unknown `by`, and for an option that is missing, has
    no effect or does not fit another one. The config checks types.
    """

    by: Annotated[
        Literal["words", "sentences", "tokens", "langchain"] | str,
        registry.Option(
            "Unit of size and overlap: words (between spaces), sentences, tokens, or "
            "that of a LangChain text splitter; or code that cuts a text: "
            "`python:module:name` of a function of a text that returns its pieces, or of "
            "such a splitter.",
            refers_to="code",
        ),
    ]
    size: Annotated[
        int | None,
        registry.Option(
            "Units in a chunk; the last one has the rest. Required, except for a function.", ge=1
        ),
    ] = None
    overlap: Annotated[
        int,
        registry.Option("Units that a chunk shares with the previous one; less than size.", ge=0),
    ] = 0
    tokenizer: Annotated[
        str | None,
        registry.Option(
            "tokens: a model whose tokens are counted, by folder or hub name (extra "
            "huggingface); default: words and punctuation marks.",
            refers_to="folder_or_name",
        ),
    ] = None
    factory: Annotated[
        str | None,
        registry.Option(
            "langchain: `module:Name` of a class or function that returns a text "
            "splitter when called with chunk_size and chunk_overlap; or of a function of "
            "a text that returns its pieces."
        ),
    ] = None
    args: Annotated[
        dict[str, object] | None,
        registry.Option("Options of the function or the splitter, by name."),
    ] = None

    @property
    def code(self) -> str | None:
        """`module:name` of the user's code that cuts texts; None if ragbench cuts them."""
        is_code = self.by.startswith(registry.PYTHON)
        return self.by.removeprefix(registry.PYTHON) if is_code else self.factory

    def __post_init__(self) -> None:
        is_python = self.by.startswith(registry.PYTHON)
        if self.by not in _BY and not is_python:
            allowed = f"{', '.join(_BY)}, {registry.PYTHON}module:name"
            raise OptionError("chunk", "by", self.by, allowed, registry.nearest(self.by, _BY))
        # only code may have a size of its own
        has_own_size = is_python and self.size is None
        if not has_own_size and (self.size is None or self.size < 1):
            raise OptionError("chunk", "size", self.size, "an integer >= 1")
        if self.overlap < 0 or (self.size is not None and self.overlap >= self.size):
            allowed = f"an integer from 0, less than size ({self.size})"
            raise OptionError("chunk", "overlap", self.overlap, allowed)
        if (self.factory is None) == (self.by == "langchain"):
            example = "langchain_text_splitters:RecursiveCharacterTextSplitter"
            allowed = f"module:Name with by: langchain, such as {example}; none with other words"
            raise OptionError("chunk", "factory", self.factory, allowed)
        if self.tokenizer is not None and self.by != "tokens":
            raise OptionError("chunk", "tokenizer", self.tokenizer, "no tokenizer; or by: tokens")
        if self.args and self.code is None:
            raise OptionError("chunk", "args", self.args, "no args; or by: python:module:name")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Chunk of a text and its position, as a `Chunker` returns it.

    Attributes:
        text: The characters of the chunk.
        start: Position of the first character in the text, from 0; None for a piece of the user's
            code that is empty or not in the text.
        end: Position after the last character; None if `start` is None.
    """

    text: str
    start: int | None
    end: int | None


class Chunker:
    """Chunker: cuts texts by the options of a `chunk` block.

    A chunk is a slice of its text; only white space between chunks is lost. Pieces from the user's
    code or a LangChain splitter are searched in the text; a piece that is not found has no
    position.

    Attributes:
        chunking: Options of cutting.

    Example:
        >>> chunker = Chunker(Chunking(by="words", size=3, overlap=1))
        >>> [chunk.text for chunk in chunker("Io and Europa orbit Jupiter.")]
        ['Io and Europa', 'Europa orbit Jupiter.']
        >>> [part.id for part in chunker.chunks_of(Document("d1", "Io and Europa orbit Jupiter."))]
        ['d1#0', 'd1#1']
    """

    def __init__(self, chunking: Chunking) -> None:
        """Load the tokeniser or the user's code.

        Raises:
            OptionError: The tokeniser does not exist, or the code does not take the options.
            AdapterError: The factory of a splitter fails, or returns no splitter.
            DataError: The code cannot be imported.
            MissingExtra: A tokeniser without transformers.
        """
        self.chunking = chunking
        self._cut = self._by_spans() if chunking.code is None else self._by_code(chunking.code)

    def __call__(self, text: str) -> list[Chunk]:
        """Return the chunks of a text, in order; none for a blank text.

        Code of the user may return chunks for such a text too.

        Raises:
            AdapterError: The user's code fails, or returns anything but texts.
        """
        return self._cut(text)

    def chunks_of(self, document: Document) -> list[Document]:
        """Return the chunks of a document as documents, `d1#0`, `d1#1`, ...

        A chunk has the title and the metadata of the document, with `chunk_start` and `chunk_end`
        added, None without a position. A document without chunks gives one with an empty text, so
        that its title can be retrieved. Errors are those of a call.
        """
        parts = []
        for number, chunk in enumerate(self(document.text) or [Chunk("", 0, 0)]):
            place = {"chunk_start": chunk.start, "chunk_end": chunk.end}
            identifier = f"{document.id}{SEPARATOR}{number}"
            metadata = {**document.metadata, **place}
            parts.append(Document(identifier, chunk.text, document.title, metadata))
        return parts

    def _by_spans(self) -> Callable[[str], list[Chunk]]:
        """Return a function that cuts texts by the positions of units."""
        chunking = self.chunking
        size = chunking.size or 1  # never None here: only code may have no size
        step = size - chunking.overlap
        if chunking.tokenizer is not None:
            spans_of = tokenizer_spans(chunking.tokenizer)
        elif chunking.by == "sentences":
            spans_of = sentence_spans
        else:
            pattern = _WORD if chunking.by == "words" else _TOKEN
            spans_of = functools.partial(pattern_spans, pattern)

        def cut(text: str) -> list[Chunk]:
            spans = spans_of(text)
            chunks = []
            # the range ends before a last chunk that would have only the overlap
            for first in range(0, max(len(spans) - chunking.overlap, min(len(spans), 1)), step):
                start, end = spans[first][0], spans[min(first + size, len(spans)) - 1][1]
                chunks.append(Chunk(text[start:end], start, end))
            return chunks

        return cut

    def _by_code(self, code: str) -> Callable[[str], list[Chunk]]:
        """Return a function that cuts texts by code of the user."""
        owner = f"chunk: {'factory ' if self.chunking.factory else ''}{code}"
        make = registry.load_object(code)
        options = splitter_options(make, self.chunking)
        split: Any = functools.partial(make, **options)
        noun = "the function"
        if not cuts_texts(make):
            try:
                splitter: Any = make(**options)
            except Exception as error:  # code of the user's may raise anything
                raise AdapterError(f"{owner}: {type(error).__name__}: {error}") from error
            split, noun = getattr(splitter, "split_text", None), "split_text"
            if not callable(split):
                problem = f"{registry.quote(splitter)} has no method split_text"
                allowed = "split_text(text), or a function (text), that returns a list of texts"
                raise AdapterError(f"{owner}: {problem}, allowed: {allowed}")

        def cut(text: str) -> list[Chunk]:
            try:
                result = split(text)
            except Exception as error:  # code of the user's may raise anything
                raise AdapterError(f"{owner}: {type(error).__name__}: {error}") from error
            pieces = list(result) if isinstance(result, (list, tuple)) else [result]
            for piece in pieces:
                if not isinstance(piece, str):
                    problem = f"{noun} returned {registry.quote(piece)}"
                    raise AdapterError(f"{owner}: {problem}, allowed: a list of texts")
            return _locate(pieces, text)

        return cut


def cuts_texts(code: object) -> bool:
    """Return True for a function with one required positional parameter: it returns pieces.

    A function whose parameter is named `chunk_size` returns a splitter instead.
    """
    if not inspect.isfunction(code):
        return False
    required = []
    for parameter in inspect.signature(code).parameters.values():
        is_positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if is_positional and parameter.default is parameter.empty:
            required.append(parameter.name)
    return len(required) == 1 and required[0] != "chunk_size"


def splitter_options(code: Any, chunking: Chunking) -> dict[str, object]:
    """Return the keyword arguments for code that cuts texts or creates a splitter.

    A splitter gets `chunk_size`, `chunk_overlap` and `args`; a function gets `args`, a `size` that
    is not None and an `overlap` above 0. With `by: langchain` a function that does not take one of
    the two is called without it.

    Raises:
        OptionError: The code cannot be called, a splitter gets no size, or a function does not take
            an option of the block.
    """
    options: dict[str, object] = {**(chunking.args or {})}
    if not cuts_texts(code):
        if not callable(code):
            raise OptionError("chunk", "by", chunking.by, "a function of a text, or a splitter")
        if chunking.size is None:
            allowed = f"an integer >= 1, the chunk_size of {chunking.factory or chunking.by}"
            raise OptionError("chunk", "size", None, allowed)
        return {"chunk_size": chunking.size, "chunk_overlap": chunking.overlap, **options}
    accepted = inspect.signature(code).parameters
    sizes = {"size": chunking.size, "overlap": chunking.overlap or None}
    for name, value in sizes.items():
        if value is not None and name in accepted:
            options[name] = value
        elif value is not None and chunking.by != "langchain":
            allowed = f"no {name}: {code.__name__} does not take it"
            raise OptionError("chunk", name, value, allowed)
    registry.check_allowed("chunk", "args", options, [*accepted][1:])
    return options


def _locate(pieces: list[str], text: str) -> list[Chunk]:
    """Return the pieces with their positions; each starts after the start of the previous one."""
    chunks, earliest = [], 0
    for piece in pieces:
        start = text.find(piece, earliest)
        if start < 0 or not piece:
            chunks.append(Chunk(piece, None, None))
            continue
        chunks.append(Chunk(piece, start, start + len(piece)))
        earliest = start + 1
    return chunks


def pattern_spans(pattern: str, text: str) -> list[Offsets]:
    """Return start and end of each match of a pattern: of words, or of tokens without a model.

    Positions count from 0, ends are exclusive.

    Example:
        >>> pattern_spans(_WORD, "Io, a moon"), len(pattern_spans(_WORD, "東京都 is Tokyo"))
        ([(0, 3), (4, 5), (6, 10)], 5)
        >>> text = "Io's 3.6 Mm."
        >>> [text[start:end] for start, end in pattern_spans(_TOKEN, text)]
        ['Io', "'", 's', '3', '.', '6', 'Mm', '.']
    """
    return [match.span() for match in re.finditer(pattern, text)]


def sentence_spans(text: str) -> list[Offsets]:
    """Return start and end of each sentence; empty for a text without one.

    Positions count from 0, ends are exclusive.

    Example:
        >>> sentence_spans("Io is hot. Europa is cold.")
        [(0, 10), (11, 26)]
    """
    spans, end = [], 0
    for sentence in sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        spans.append((start, end))
    return spans


def tokenizer_spans(name: str) -> Callable[[str], list[Offsets]]:
    """Return a function that returns start and end of each token of a model in a text.

    Special tokens are left out. Positions count characters from 0, ends are exclusive; tokens
    without a character are left out too. The last four models stay in memory.

    Raises:
        MissingExtra: transformers is not installed.
        OptionError: The tokeniser does not exist, or has no positions of tokens.
    """
    tokenizer = _tokenizer(name)

    def spans(text: str) -> list[Offsets]:
        """Return start and end of each token of a text."""
        encoding = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [(start, end) for start, end in encoding["offset_mapping"] if end > start]

    return spans


@functools.lru_cache(maxsize=4)
def _tokenizer(name: str) -> Callable[..., dict[str, list[Offsets]]]:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra("chunk: tokenizer", "transformers", "huggingface") from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        allowed = f"a folder with a tokenizer, or a name of the hub ({reason})"
        raise OptionError("chunk", "tokenizer", name, allowed) from error
    if not tokenizer.is_fast:
        raise OptionError("chunk", "tokenizer", name, "a fast tokenizer, with positions")
    callable_tokenizer: Callable[..., dict[str, list[Offsets]]] = tokenizer
    return callable_tokenizer
