"""A database in WordNet's format with a few senses, written by the tests."""

from contextlib import contextmanager

from ragbench.score.text import meteor
from tests.lazy import Lazy

nltk = Lazy("nltk")
nltk_corpus = Lazy("nltk.corpus")

PARTS = ("noun", "verb", "adj", "adv")
LETTERS = dict(zip(PARTS, "nvar", strict=True))

SENSES = {
    "noun": [
        *(["cat", "true_cat"], ["cat", "guy"], ["rock", "stone"], ["child", "kid"], ["Paris"]),
        *(["boss", "chief"], ["wolf"], ["box"], ["quiz"], ["church"], ["dish"], ["berry"]),
        ["policeman", "officer"],
    ],
    "verb": [["run", "operate"], ["buy", "purchase"], ["rock", "sway"], ["be", "exist"]],
    "adj": [["big", "large"], ["handy(p)", "useful"], ["quick", "fast"]],
    "adv": [["fast", "tight"]],
}
IRREGULAR = {
    "noun": {"children": "child"},
    "verb": {"ran": "run", "is": "be", "bought": "buy"},
    "adj": {"bigger": "big"},
    "adv": {},
}
LICENCE = "  1 WordNet 9.9 Copyright of nobody: made up for a test.\n"


def write_wordnet(folder, senses=SENSES, irregular=IRREGULAR):
    """Write the database into a folder of nltk, with the lists that nltk reads besides."""
    root, folder = folder, folder / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    for part in PARTS:
        lines, offsets = [LICENCE], {}
        for names in senses.get(part, []):
            offset = sum(map(len, lines))
            words = " ".join(f"{name} 0" for name in names)
            lines.append(
                f"{offset:08d} 00 {LETTERS[part]} {len(names):02x} {words} 000 | a sense\n"
            )
            for name in names:
                offsets.setdefault(name.partition("(")[0].lower(), []).append(offset)
        (folder / f"data.{part}").write_text("".join(lines))
        (folder / f"index.{part}").write_text(
            LICENCE
            + "".join(
                f"{word} {LETTERS[part]} {len(synsets)} 1 @ {len(synsets)} 0 "
                + "".join(f"{offset:08d} " for offset in synsets)
                + " \n"
                for word, synsets in sorted(offsets.items())
            )
        )
        forms = irregular.get(part, {}).items()
        (folder / f"{part}.exc").write_text("".join(f"{form} {base}\n" for form, base in forms))
    (folder / "lexnames").write_text("00\tadj.all\t3\n")
    (folder / "index.sense").write_text("")
    return root


@contextmanager
def use_wordnet(folder, monkeypatch):
    """Let nltk find its data in one folder alone."""
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    forget_wordnet()
    yield
    forget_wordnet()


def forget_wordnet():
    """Close the database that is loaded, and load it anew at the next use."""
    # `vars`: an attribute of the database that is not loaded would load it
    for stream in vars(nltk_corpus.wordnet).get("_data_file_map", {}).values():
        stream.close()
    nltk_corpus.wordnet._unload()
    meteor._wordnet_version.cache_clear()
