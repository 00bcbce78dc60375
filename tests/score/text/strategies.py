"""Texts on which tokenisers and counters stumble: few words, often repeated, odd characters."""

from hypothesis import strategies as st

WORDS = [
    "the",
    "cat",
    "sat",
    "The",
    "CAT",
    "sitting",
    "generally",
    "running",
    "3.14",
    "1,000",
    "U.S.",
    "isn't",
    "it's",
    "e-mail",
    "--",
    "-",
    ".",
    ",",
    "naïve",
    "café",
    "Ωmega",
    "東京",
    "данные",
    "🙂",
    "\u0130stanbul",
    "\u212aelvin",
    "&amp;",
    "&quot;",
    "&lt;",
    "&amp;lt;",
    "<skipped>",
    "end-",
    "(x)",
    "a.b.c",
    "5-7",
    "$5",
    "1.",
    ".5",
    "...",
    "''",
    '"q"',
    "[y]",
]
SPACES = [" ", " ", " ", "  ", "\n", "-\n", "\t", "\u00a0", "\r\n", ""]

LATIN = [word for word in WORDS if word.isascii() or word in ("naïve", "café", "🙂")]


def _joined(words):
    return st.lists(st.tuples(st.sampled_from(words), st.sampled_from(SPACES)), max_size=14).map(
        lambda pairs: "".join(word + space for word, space in pairs)
    )


words_and_spaces = _joined(WORDS)
texts = words_and_spaces | st.text(max_size=30)
# a letter first: rouge-score sees something in each of them
latin_texts = (_joined(LATIN) | st.text(st.characters(max_codepoint=0x24F), max_size=30)).map(
    lambda text: f"x {text}"
)
