"""METEOR by nltk: `meteor`, for English texts; needs the database of WordNet."""

from __future__ import annotations

import functools
import io
import os
import re
import sys
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.registry import Option
from ragbench.score.text.base import Options, metric, reference_list
from ragbench.score.text.tokenizers import Tokenizer, tokenizer
from ragbench.signature import fingerprint
from ragbench.types.scores import Value

_FILES = tuple(
    name
    for part in ("noun", "verb", "adj", "adv")
    for name in (f"index.{part}", f"data.{part}", f"{part}.exc")
)
_LEXNAMES = "".join(f"{number:02d}\tname\t1\n" for number in range(45)).encode()
_VERSION = re.compile(rb"Word[Nn]et (\d[\d.]*\+?) Copyright")
_SYSTEM = tuple(map(Path, ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")))
_ADVICE = (
    "python -m nltk.downloader wordnet, or apt install wordnet-base, or name the folder of its "
    "files, with index.noun, in the environment variable WNSEARCHDIR"
)


class WordNet:
    """WordNet database in a folder or an archive of nltk, read by nltk.

    `find_wordnet` returns the path. `score` returns nltk's METEOR of a tokenized prediction, from 0
    to 1. The first score takes some seconds and about 200 MB of memory.

    Attributes:
        version: Release and fingerprint, such as `3.0-` and a hash; the release is `?` if unknown.

    Raises:
        DataError: A file of the database is missing.
    """

    def __init__(self, path: Path) -> None:
        files = {name: _read(path, name) for name in _FILES}
        release = _VERSION.search(files["data.adj"])
        # release and fingerprint, for signatures: synonyms differ between releases
        self.version = f"{release[1].decode() if release else '?'}-{fingerprint(files.values())}"
        self._path = path.resolve()
        self._lock = threading.Lock()

    def score(
        self,
        words: Sequence[str],
        references: Sequence[Sequence[str]],
        weights: Mapping[str, float],
    ) -> float:
        """Return nltk's METEOR of a tokenized prediction with the best of its references.

        `words` are the tokens of the prediction. From 0 to 1; ValueError without references.
        `weights` has `alpha`, `beta` and `gamma`. Callers in threads wait for each other.
        """
        from nltk.translate.meteor_score import meteor_score

        with self._lock:  # the reader has one position in each file
            return float(meteor_score(references, words, wordnet=self.reader, **weights))

    @functools.cached_property
    def reader(self) -> Any:
        """WordNet reader of nltk on these files, created at first use.

        Adds the folder to `nltk.data.path`. LookupError or OSError if files are gone since.
        """
        import nltk.data
        from nltk.corpus.reader.wordnet import WordNetCorpusReader

        path = self._path

        class Reader(WordNetCorpusReader):  # type: ignore[misc]
            def map_wn(self, version: str = "wordnet") -> None:
                """Skip other languages, whose mapping needs a second release of WordNet."""

            def open(self, file: str) -> Any:
                """Return a file as a stream in memory, since nltk never closes its files."""
                # Debian's package lacks the list of names, which no score depends on
                content = _LEXNAMES if file == "lexnames" else _read(path, file)
                return nltk.data.SeekableUnicodeStreamReader(io.BytesIO(content), "utf-8")

        folder = str(path.parent if path.suffix == ".zip" else path)
        if folder not in nltk.data.path:
            nltk.data.path.append(folder)  # nltk refuses folders beside its own
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nltk warns of the missing other languages
            return Reader(folder, None)


def _read(path: Path, name: str) -> bytes:
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(f"wordnet/{name}")
        return (path / name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        allowed = f"the database files of WordNet: {', '.join(_FILES)}"
        raise DataError(f"no file {name}", file=path, allowed=allowed) from error


def find_wordnet(owner: str, folder: str | None = None) -> Path:
    """Return the folder or archive with the database of WordNet.

    Without `folder`, it is searched in WNSEARCHDIR, WNHOME, the folders of nltk, and that of
    Debian's wordnet-base. A file counts without a look inside; the first place wins. `owner` names
    the component in the message.

    Raises:
        MissingExtra: None of these has the database.
        OptionError: `folder` has no database.
    """
    places = _places() if folder is None else [Path(folder)]
    for place in places:
        if place.is_file() or (place / _FILES[0]).is_file():
            return place
    if folder is None:
        raise MissingExtra(owner, "the database of WordNet", advice=_ADVICE)
    allowed = "a folder with the database files of WordNet, index.noun among them"
    raise OptionError("meteor", "wordnet", folder, allowed)


def _places() -> Iterator[Path]:
    if root := os.environ.get("WNSEARCHDIR"):
        yield Path(root)
    if home := os.environ.get("WNHOME"):
        yield Path(home) / "dict"
    # the search path of nltk, copied here: importing nltk takes a second
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


# few: a loaded database takes some 200 MB
_read_wordnet = functools.lru_cache(maxsize=4)(WordNet)


def _load_wordnet(options: Options) -> WordNet:
    return _read_wordnet(find_wordnet("metric 'meteor'", options["wordnet"]))


def _check(options: Options) -> None:
    find_wordnet("metric 'meteor'", options["wordnet"])
    tokenizer("meteor", options["tokenize"])


def _facts(options: Options) -> dict[str, str]:
    version = _load_wordnet(options).version
    return {"references": "best", "stemmer": "porter", "wordnet": version}


@metric(
    "meteor",
    computes=True,
    check=_check,
    facts=_facts,
    unsigned=frozenset({"wordnet"}),
    equals="nltk's meteor_score on the same tokens and the same WordNet, bit for bit",
    not_for="other languages than English; comparing with papers that use Java METEOR 1.5, which "
    "has other weights and paraphrases",
)
def meteor(
    prediction: str,
    references: str | Sequence[str],
    *,
    alpha: Annotated[float, Option(ge=0, le=1)] = 0.9,
    beta: Annotated[float, Option(ge=0, le=100)] = 3.0,
    gamma: Annotated[float, Option(ge=0, le=1)] = 0.5,
    tokenize: Tokenizer = "13a",
    wordnet: Annotated[str | None, Option(refers_to="path")] = None,
) -> Value:
    """Score how many words of a prediction its best reference has, as words, stems or synonyms.

    A weighted mean of precision and recall, less up to `gamma` of it for words that stand in
    another order. The score is that of nltk's `meteor_score` on the same tokens, bit for bit; nltk
    leaves the tokens to the caller, here they are those of 13a unless `tokenize` says otherwise.
    Stems and synonyms are English. Two equal texts score a little below 1: they are one chunk. An
    empty prediction gives 0. `wordnet` None searches the places of `find_wordnet`. Values are from
    0 to 1.

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.
        tokenize: Tokenizer of both texts.
        alpha: Weight of recall against precision, 1 is recall.
        beta: How steeply the penalty grows with the chunks.
        gamma: The largest penalty for words out of order.
        wordnet: Folder with the WordNet database, if it is not found by itself.

    Raises:
        OptionError: No reference, or an option outside what is allowed.
        MissingExtra: WordNet is not on this machine, or the tokenizer needs a package that is not
            installed; the message says how to get it.
        DataError: A file of the database is missing.

    References:
        Lavie and Agarwal (2007), METEOR: An Automatic Metric for MT Evaluation with High Levels
        of Correlation with Human Judgments.
    """
    split = tokenizer("meteor", tokenize)
    gold = [split(text) for text in reference_list("meteor", references)]
    weights = {"alpha": alpha, "beta": beta, "gamma": gamma}
    return Value(_load_wordnet({"wordnet": wordnet}).score(split(prediction), gold, weights))
