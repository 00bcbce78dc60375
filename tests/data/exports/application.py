"""The application whose traces `write_exports.py` writes: made up, and so is all that it says.

Two retrievers (a FAQ, a manual), a guard, a reranker, three turns in one session, a question that
is asked twice, and a call that fails.
"""

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

START = datetime(2025, 3, 1, 9, tzinfo=timezone.utc)
MODEL = "gpt-4o-mini"
PRODUCTS = [
    "lamp",
    "chair",
    "kettle",
    "radio",
    "bicycle",
    "tent",
    "camera",
    "heater",
    "printer",
    "fan",
]
FACTS = {
    "weight": "The {} weighs {} kilograms.",
    "warranty": "The warranty of the {} lasts {} months.",
    "price": "The {} costs {} euros.",
    "colour": "The {} comes in {} colours.",
}


def corpus():
    """Id -> text: four facts about each of ten things."""
    return {
        f"{product}-{fact}": text.format(product, 2 + number + 3 * place)
        for number, product in enumerate(PRODUCTS)
        for place, (fact, text) in enumerate(FACTS.items())
    }


@dataclass
class Step:
    """A step of a trace, with its place in time in milliseconds."""

    name: str
    kind: str
    start: int
    end: int
    input: object
    output: object = None
    documents: list = None
    error: str = None
    tokens: tuple = None
    steps: list = field(default_factory=list)


@dataclass
class Trace:
    """Hold one call of the application."""

    number: int
    question: str
    session: str
    root: Step


def passages(texts, ids):
    return [
        {"id": name, "content": texts[name], "score": round(0.9 - 0.1 * rank, 2)}
        for rank, name in enumerate(ids)
    ]


def application():
    """The twenty traces."""
    texts = corpus()
    traces = []
    for number in range(20):
        product = PRODUCTS[number % 10]
        fact = ["weight", "warranty"][number // 10]
        question = f"What is the {fact} of the {product}?"
        if number == 19:
            question = "What is the weight of the lamp?"  # asked before
        session = "visit-7" if number in (3, 4, 5) else None
        traces.append(Trace(number, question, session, call(number, question, texts)))
    return traces


def call(number, question, texts):
    guard = Step("guard", "guardrail", 1, 10, question, {"allowed": number != 12})
    root = Step("shop_assistant", "chain", 0, 900, {"question": question}, steps=[guard])
    if number == 12:
        root.output, root.end = {"answer": "I cannot help with that."}, 20
        return root
    product = PRODUCTS[number % 10] if number != 19 else "lamp"
    other = PRODUCTS[(number + 3) % 10]
    faq = passages(texts, [f"{product}-price", f"{other}-weight", f"{product}-colour"])
    root.steps.append(Step("faq_search", "retriever", 20, 120, question, documents=faq))
    got = list(faq)
    if number % 3:  # the second retriever is asked with a query of its own
        query = f"{product} data sheet"
        manual = passages(texts, [f"{product}-warranty", f"{product}-weight", f"{other}-price"])
        root.steps.append(Step("manual_search", "retriever", 130, 300, query, documents=manual))
        got += manual
    if number == 7:
        error = "TimeoutError: the model did not answer in 30 seconds"
        root.steps.append(Step("answer", "llm", 400, 880, prompt(question, got), error=error))
        root.error = error
        return root
    order = sorted(got, key=lambda document: (product not in document["id"], document["id"]))[:3]
    best = passages(texts, [document["id"] for document in order])
    request = {"query": question, "documents": got}
    root.steps.append(Step("rerank", "reranker", 310, 390, request, documents=best))
    reply = f"{best[-1]['content']} ({number})"
    tokens = (200 + number, 20 + number, round(0.0001 * (number + 1), 6))
    root.steps.append(
        Step("answer", "llm", 400, 880 - number, prompt(question, best), reply, tokens=tokens)
    )
    root.output = {"answer": reply}
    return root


def prompt(question, got):
    listed = "\n".join(document["content"] for document in got)
    return f"Answer from these passages.\n{listed}\n\nQuestion: {question}"


def time_of(trace, milliseconds):
    return START + timedelta(minutes=trace.number, milliseconds=milliseconds)


def nanoseconds(trace, milliseconds):
    return int(time_of(trace, 0).timestamp()) * 10**9 + milliseconds * 10**6


def walk(trace, step, parent=None):
    yield step, parent
    for child in step.steps:
        yield from walk(trace, child, step)


def trace_id(trace, name):
    """An id that is the same every time."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{trace.number} {name}")
