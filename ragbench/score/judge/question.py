"""What an English question asks for, and whether an answer gives something of that kind."""

from __future__ import annotations

import re

_WHICH = r"(?:in |on |at |from )?(?:what|which) (?:is |was |are |were )?(?:the )?"
_KINDS = (
    ("number", r"how (?:many|much|long|old|far|tall|high|large|big|fast|often|deep|wide|heavy)\b"),
    (
        "number",
        _WHICH + r"(?:number|percentage|amount|share)\b",
    ),
    (
        "time",
        r"when\b|" + _WHICH + r"(?:year|date|day|month|century|decade|time)\b",
    ),
    ("person", r"(?:who|whom|whose|by whom|to whom|with whom)\b"),
    (
        "place",
        r"where\b|" + _WHICH + r"(?:country|city|town|state|place|continent)\b",
    ),
    ("reason", r"why\b"),
    (
        "yes or no",
        r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|may|must)\b",
    ),
)
_QUESTION_KINDS = [(kind, re.compile(pattern)) for kind, pattern in _KINDS]
_NAME = r"(?<![.!?]\s)(?<!^)\b[A-ZÀ-Þ]\w+"
_SHORT_NAME = r"^\W*(?:the |The )?[A-ZÀ-Þ][\w'.-]*(?:\s+\S+){0,4}\W*$"
_NUMBER_WORD = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|"
    r"fifty|hundreds?|thousands?|millions?|billions?|half|none|zero|once|twice|dozens?)\b"
)
_TIME_WORD = (
    r"\b(?:january|february|march|april|june|july|august|september|october|november|december|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|century|year|month|week|today|"
    r"yesterday|tomorrow|morning|evening|night|spring|summer|autumn|winter|ago|during|after|"
    r"before|until)\b"
)
_SIGNS = {
    "number": (r"\d", f"(?i){_NUMBER_WORD}"),
    "time": (r"\d", f"(?i){_TIME_WORD}"),
    "person": (_NAME, _SHORT_NAME),
    "place": (_NAME, _SHORT_NAME, r"(?i)\b(?:in|at|near|on|under|inside|between|from)\b"),
    "reason": (
        r"(?i)\b(?:because|since|due to|so that|in order|cause[sd]?|reason|owing|as a result|to)\b",
    ),
    "yes or no": (r"(?i)^\W*(?:yes|no|not|it depends|partly)\b",),
}


def kind_of(question: str) -> str:
    """Return what a question asks for; `anything` where its words do not tell.

    Example:
        >>> kind_of("How many bridges are there?"), kind_of("What is a bridge?")
        ('number', 'anything')
    """
    folded = question.strip().lower()
    return next((kind for kind, shape in _QUESTION_KINDS if shape.match(folded)), "anything")


def gives(kind: str, answer: str) -> bool:
    """Whether an answer has a sign of what was asked for.

    Example:
        >>> gives("number", "There are 12."), gives("person", "a bridge")
        (True, False)
    """
    return kind not in _SIGNS or any(re.search(sign, answer) for sign in _SIGNS[kind])
