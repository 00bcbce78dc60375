"""METEOR: `meteor`, for English; needs the database of WordNet."""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.registry import Option
from ragbench.score.text.base import Advance, Column, Metric, Options, Row, metric, reference_list
from ragbench.score.text.tokenizers import (
    Tokenize,
    TokenizedTexts,
    Tokenizer,
    note_not_english,
    tokenizer,
)
from ragbench.signature import fingerprint
from ragbench.text.analyzer import load_stemmer
from ragbench.text.tokenize import Memory
from ragbench.types.scores import Value

# Endings of inflected forms and what the base form has instead, as in WordNet's own morphy.
_ENDINGS = {
    "noun": (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch")),
        *(("shes", "sh"), ("men", "man"), ("ies", "y")),
    ),
    "verb": (
        *(("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", "")),
        *(("ing", "e"), ("ing", "")),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}
_FILES = tuple(
    name for part in _ENDINGS for name in (f"index.{part}", f"data.{part}", f"{part}.exc")
)
_MARKER = re.compile(r"\([^()]*\)$")  # where an adjective may stand: `galore(ip)`
_VERSION = re.compile(rb"Word[Nn]et (\d[\d.]*\+?) Copyright")
_SYSTEM = tuple(map(Path, ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")))
_ADVICE = (
    "python -m nltk.downloader wordnet, or apt install wordnet-base, or name the folder of its "
    "files, with index.noun, in the environment variable WNSEARCHDIR"
)

Alpha = Annotated[float, Option("Weight of recall against precision, 1 is recall.", ge=0, le=1)]
BetaPower = Annotated[float, Option("How steeply the penalty grows with the chunks.", ge=0, le=100)]
Gamma = Annotated[float, Option("The largest penalty for words out of order.", ge=0, le=1)]
WordNetFolder = Annotated[
    str | None,
    Option("Folder with the WordNet database, if it is not found by itself.", refers_to="path"),
]

Places = list[tuple[int, str]]
"""Words with their places in a text."""
Pair = tuple[int, int]
"""Place in the prediction, place in the reference."""


class WordNet:
    """The synonyms of a word, over all its parts of speech and senses.

    Equal to the names of the lemmas of `synsets(word)` in nltk. Some 50 MB in memory. The path is a
    folder with the files, or a zip archive with them in a folder `wordnet`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        files = {name: _read(path, name) for name in _FILES}
        release = _VERSION.search(files["data.adj"])
        self.version = f"{release[1].decode() if release else '?'}-{fingerprint(files.values())}"
        """The release and a fingerprint of the files, for signatures."""
        self._data = {part: files[f"data.{part}"] for part in _ENDINGS}
        self._index = {part: dict(_entries(files[f"index.{part}"])) for part in _ENDINGS}
        self._irregular = {part: dict(_entries(files[f"{part}.exc"])) for part in _ENDINGS}
        self.synonyms = Memory(self._synonyms).__getitem__
        """Word -> the single words that share a sense with it or its base forms, and itself."""

    def _synonyms(self, word: str) -> frozenset[str]:
        names = {word}
        for part in _ENDINGS:
            for form in self._base_forms(word.lower(), part):
                names.update(self._names(part, self._index[part][form]))
        return frozenset(names)

    def _base_forms(self, word: str, part: str) -> dict[str, None]:
        """The word itself and what it may be a form of, as far as the index has them."""
        irregular = self._irregular[part].get(word)
        if irregular is not None:
            forms = irregular.split()
        else:
            endings = _ENDINGS[part]
            forms = [word[: -len(old)] + new for old, new in endings if word.endswith(old)]
        return dict.fromkeys(form for form in (word, *forms) if form in self._index[part])

    def _names(self, part: str, entry: str) -> Iterator[str]:
        _, n_senses, n_pointers, *rest = entry.split()
        offsets = rest[int(n_pointers) + 2 :]
        for offset in offsets[: int(n_senses)]:
            data, start = self._data[part], int(offset)
            line = data[start : data.find(b"\n", start)].partition(b"|")[0].decode()
            fields = line.split()
            if len(fields) < 4 or fields[0] != offset:
                raise DataError(f"no sense at {offset}", file=self._path / f"data.{part}")
            for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]:
                if "_" not in (single := _MARKER.sub("", name)):
                    yield single


def _entries(content: bytes) -> Iterator[tuple[str, str]]:
    """First word of each line -> the rest; the licence at the top is indented."""
    for line in content.decode().splitlines():
        if line and not line.startswith(" "):
            word, _, rest = line.partition(" ")
            yield word, rest


def _read(path: Path, name: str) -> bytes:
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(f"wordnet/{name}")
        return (path / name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        allowed = f"the database files of WordNet: {', '.join(_FILES)}"
        raise DataError(f"no file {name}", file=path, allowed=allowed) from error


def find_wordnet(owner: str) -> Path:
    """Return where the database of WordNet lies on this machine.

    Tried are the folders of WNSEARCHDIR and WNHOME, of nltk, and of Debian's wordnet-base.
    """
    for place in _places():
        if holds_wordnet(place):
            return place
    raise MissingExtra(owner, "the database of WordNet", advice=_ADVICE)


def holds_wordnet(place: Path) -> bool:
    """Whether a folder holds the database, or a file is an archive that may."""
    return place.is_file() or (place / _FILES[0]).is_file()


def _places() -> Iterator[Path]:
    if named := os.environ.get("WNSEARCHDIR"):
        yield Path(named)
    if home := os.environ.get("WNHOME"):
        yield Path(home) / "dict"
    # the folders in which nltk looks, without the second that importing it takes
    prefix = Path(sys.prefix)
    named_for_nltk = os.environ.get("NLTK_DATA", "").split(os.pathsep)
    for data in (
        *(Path(folder) for folder in named_for_nltk if folder),
        Path("~/nltk_data").expanduser(),
        *(prefix / part / "nltk_data" for part in (".", "share", "lib")),
        *(folder / "nltk_data" for folder in _SYSTEM),
    ):
        yield data / "corpora" / "wordnet"
        yield data / "corpora" / "wordnet.zip"
    yield from (folder / "wordnet" for folder in _SYSTEM)


@functools.lru_cache(maxsize=4)
def load_wordnet(path: Path) -> WordNet:
    """Return the database in a folder or an archive, read once."""
    return WordNet(path)


class _Weights(NamedTuple):
    alpha: float
    beta: float
    gamma: float


class _Rows:
    """Scores many predictions; each distinct reference is tokenised once."""

    def __init__(self, options: Options) -> None:
        self._split = _tokenizer(options["tokenize"])
        self._references = TokenizedTexts(self._split)
        self._wordnet = load_wordnet(locate_wordnet(options["wordnet"]))
        self._weights = _Weights(options["alpha"], options["beta"], options["gamma"])

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        self._references.expect(rows)
        values = []
        for prediction, references in rows:
            words = self._split(prediction)
            gold = (self._references(text).tokens for text in references)
            values.append(max(_score(words, g, self._wordnet, self._weights) for g in gold))
            advance(1)
        return [Column(values) for _ in metrics]


def _check(options: Options) -> None:
    locate_wordnet(options["wordnet"])
    tokenizer("meteor", options["tokenize"])


def _facts(options: Options) -> dict[str, str]:
    wordnet = load_wordnet(locate_wordnet(options["wordnet"]))
    return {"references": "best", "stemmer": "porter", "wordnet": wordnet.version}


@metric(
    "meteor",
    open=_Rows,
    computes=True,
    check=_check,
    facts=_facts,
    unsigned=frozenset({"wordnet"}),
    notes=lambda texts, options: note_not_english("meteor", texts),
    equals="nltk's meteor_score on the same tokens and the same WordNet, bit for bit",
    not_for="other languages than English; comparing with papers that use Java METEOR 1.5, which "
    "has other weights and paraphrases",
)
def meteor(
    prediction: str,
    references: str | Sequence[str],
    *,
    alpha: Alpha = 0.9,
    beta: BetaPower = 3.0,
    gamma: Gamma = 0.5,
    tokenize: Tokenizer = "13a",
    wordnet: WordNetFolder = None,
) -> Value:
    """Score how many words of a prediction its best reference has, as words, stems or synonyms.

    A weighted mean of precision and recall, less up to `gamma` of it for words that stand in
    another order. The score is that of nltk's `meteor_score` on the same tokens, bit for bit;
    nltk leaves the tokens to the caller, here they are those of 13a unless `tokenize` says
    otherwise. Stems and synonyms are English. Two equal texts score a little below 1: they are
    one chunk. An empty prediction gives 0.

    Raises:
        OptionError: No reference, or an option outside what is allowed.
        MissingExtra: WordNet is not on this machine; says how to get it.

    References:
        Lavie and Agarwal (2007), METEOR: An Automatic Metric for MT Evaluation with High Levels
        of Correlation with Human Judgments.
    """
    references = reference_list("meteor", references)
    database = load_wordnet(locate_wordnet(wordnet))
    split, weights = _tokenizer(tokenize), _Weights(alpha, beta, gamma)
    words = split(prediction)
    return Value(max(_score(words, split(text), database, weights) for text in references))


def locate_wordnet(named: str | None) -> Path:
    """Return the folder or archive that was named, or the one that is found."""
    if named is None:
        return find_wordnet("metric 'meteor'")
    if not holds_wordnet(Path(named)):
        allowed = "a folder with the database files of WordNet, index.noun among them"
        raise OptionError("meteor", "wordnet", named, allowed)
    return Path(named)


def _tokenizer(name: str) -> Tokenize:
    split = tokenizer("meteor", name)
    # nltk lowers each token, not the text: 13a treats some capitals otherwise than small letters
    return lambda text: [token.lower() for token in split(text)]


def _score(
    words: Sequence[str], reference: Sequence[str], wordnet: WordNet, weights: _Weights
) -> float:
    """Compute METEOR in nltk's order of operations, so that the last bit is the same."""
    pairs = _align(words, reference, wordnet)
    if not pairs:
        return 0.0
    alpha, beta, gamma = weights
    precision, recall = len(pairs) / len(words), len(pairs) / len(reference)
    mean = (precision * recall) / (alpha * precision + (1 - alpha) * recall)
    penalty: float = gamma * (_count_chunks(pairs) / len(pairs)) ** beta
    return (1 - penalty) * mean


def _align(words: Sequence[str], reference: Sequence[str], wordnet: WordNet) -> list[Pair]:
    """Pair equal words, then equal stems of what is left, then stems that are synonyms.

    That synonyms are looked up for stems, not for words, is nltk's way.
    """
    pairs: list[Pair] = []
    stem = load_stemmer("porter")
    mine, theirs = _pair(list(enumerate(words)), list(enumerate(reference)), pairs, _itself)
    mine = [(place, stem(word)) for place, word in mine]
    theirs = [(place, stem(word)) for place, word in theirs]
    mine, theirs = _pair(mine, theirs, pairs, _itself)
    _pair(mine, theirs, pairs, wordnet.synonyms)
    return sorted(pairs)


def _itself(word: str) -> tuple[str]:
    return (word,)


def _pair(
    mine: Places, theirs: Places, pairs: list[Pair], alike: Callable[[str], Iterable[str]]
) -> tuple[Places, Places]:
    """Pair each word, the last one first, with the last that is left of those that are alike."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in theirs:
        places[word].append(place)
    left, taken = [], set()
    for place, word in reversed(mine):
        found = [(places[other][-1], other) for other in alike(word) if places.get(other)]
        if found:
            last, other = max(found)
            places[other].pop()
            pairs.append((place, last))
            taken.add(last)
        else:
            left.append((place, word))
    return left[::-1], [known for known in theirs if known[0] not in taken]


def _count_chunks(pairs: Sequence[Pair]) -> int:
    """Count the runs in which both texts have the same words side by side."""
    return 1 + sum(
        (mine, theirs) != (before[0] + 1, before[1] + 1)
        for before, (mine, theirs) in itertools.pairwise(pairs)
    )
