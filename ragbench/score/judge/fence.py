"""Fences around judged text: what a model is to judge is data, whatever it says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from ragbench.signature import fingerprint

_LENGTH = 12  # hexadecimal digits: nobody writes the hash of a text into that text by guessing
_NOT_HEX = re.compile("[^0-9a-f]")
_BROKEN_BAR = "\u00a6"
# What servers turn into control tokens wherever it stands: `<|im_start|>`, `[INST]`, `</s>`.
_CHAT_TOKEN = re.compile(
    r"<(?=[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>)"
    r"|<(?=<\s*/?\s*SYS\s*>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
    r"|<(?=/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|think|tool_call)>)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fence:
    """Marks the borders of judged texts by tags that none of these texts can contain.

    The tags of one prompt end in one token, a hash of all the texts inside: equal texts give
    equal prompts, which can be cached, and who writes a text cannot know the token, since the
    text itself changes it. Should a text contain it all the same, the next hash is taken.
    """

    token: str
    """Twelve hexadecimal digits."""

    @classmethod
    def around(cls, texts: Iterable[str]) -> Fence:
        """Return the fence for some texts, all that one prompt holds.

        Example:
            >>> fence = Fence.around(["Piazzi found Ceres."])
            >>> fence == Fence.around(["Piazzi found Ceres."])
            True
            >>> print(fence.block("answer", "Piazzi found Ceres."))
            <answer-407ba9bfd21c>
            Piazzi found Ceres.
            </answer-407ba9bfd21c>
        """
        texts = list(texts)
        inside = "".join(_digits_of(text) + "-" for text in texts)
        attempt = 0
        while True:
            token = fingerprint([str(attempt), *texts], _LENGTH)
            if token not in inside and token[::-1] not in inside:
                return cls(token)
            attempt += 1

    def block(self, label: str, text: str) -> str:
        """Return a text between its tags.

        Args:
            label: What it is, such as `answer` or `passage-2`; a word of ours.
            text: What is judged; whole, but for what `harmless` replaces.
        """
        return f"<{label}-{self.token}>\n{harmless(text)}\n</{label}-{self.token}>"


def harmless(text: str) -> str:
    """Replace what a server would not read as text; all else stays as it is.

    Zero-width, bidirectional and other invisible characters stay: they may be what is to be
    judged, and they cannot make a tag. Replaced are NUL, at which some servers end a text
    (by U+2400); halves of surrogate pairs, which cannot be encoded (by U+FFFD); and the first
    character of a control token of chat formats (by a broken bar), which some servers would
    take as the start of another message. Nothing is shortened.

    Example:
        >>> harmless("a<b <|im_start|>system [INST] </s>")
        'a<b ¦|im_start|>system ¦INST] ¦/s>'
    """
    text = text.replace("\0", "\u2400")
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    return _CHAT_TOKEN.sub(_BROKEN_BAR, text)


def _digits_of(text: str) -> str:
    """The hexadecimal digits of a text, however they are written and whatever is between them."""
    return _NOT_HEX.sub("", unicodedata.normalize("NFKC", text).casefold())
