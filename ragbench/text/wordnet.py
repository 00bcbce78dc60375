"""WordNet: the synonyms of an English word, read from the database files of any release.

The files are `index.noun`, `data.noun` and `noun.exc`, the same for verb, adj and adv, as Princeton
ships them, in a folder or in the archive that nltk downloads.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ragbench.errors import DataError, MissingExtra
from ragbench.signature import fingerprint
from ragbench.text.tokenize import Memory

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
