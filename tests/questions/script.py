"""A scripted model over real HTTP: what it writes about a document is decided by the document."""

import json
import re

from ragbench.testing import ChatServer

__all__ = ["FAULTS", "ScriptedModel", "write_corpus"]

NAMES = ["Aare", "Basel", "Chur", "Davos", "Emme", "Flims", "Gotthard", "Heiden"]
# Fault -> the check that refuses it.
FAULTS = {
    "other quote": "quote",
    "points": "self_contained",
    "copies": "not_copied",
    "wrong": "answered",
    "not there": "answered",
    "known": "closed_book",
    "no json": "reply",
    "refused": "reply",
}


def write_corpus(folder, faults):
    """Write a document for each fault, "" for a good one, and return name -> fault."""
    folder.mkdir()
    names = [f"{NAMES[n % len(NAMES)]}{n}" for n in range(len(faults))]
    for number, name in enumerate(names):
        (folder / f"{name.lower()}.md").write_text(
            f"# The archive of {name}\n\nVisitors come on foot.\n"
            f"The archive of {name}\nwas opened in {1900 + number} by the town council of {name}, "
            "and it has\nheld every map of the valley since.\n"
        )
    return dict(zip(names, faults, strict=True))


class ScriptedModel(ChatServer):
    """Server whose replies follow the fault of the document that a request is about.

    Attributes:
        faults: Name in a document -> its fault; "" writes a good question.
    """

    def __init__(self, faults, **more):
        self.faults = faults
        super().__init__(self.reply, **more)

    def reply(self, body):
        # of a reply that cannot be read, the reply and the error follow
        system, user = (message["content"] for message in body["messages"][:2])
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        blocks = dict(re.findall(r"<([a-z]+)(?:-\d+)?-[0-9a-f]{12}>\n(.*?)\n</", user, re.DOTALL))
        about = blocks.get("question") or blocks["passage"]
        name = next(name for name in sorted(self.faults, key=len)[::-1] if name in about)
        fault = self.faults[name]
        year = re.search(r"\d{4}", blocks.get("passage", "")) or re.search("()", "")
        if "quote" in fields:
            return self.fact(name, fault, blocks["passage"], blocks.get("earlier", ""))
        if "question" in fields:
            return json.dumps(
                {"question": f"How much does the archive of {name} charge for {fault or 'a copy'}?"}
            )
        is_closed = "from memory" in system
        if "charge" in user:
            is_answered, answer = fault == "said", "5 francs"
        elif is_closed:
            is_answered, answer = fault == "known", str(1900 + [*self.faults].index(name))
            answer = answer if is_answered else ""
        else:
            is_answered, answer = fault != "not there", year.group()
            answer = "1066" if fault == "wrong" else answer
        return json.dumps({"found": is_answered, "answer": answer})

    def fact(self, name, fault, passage, earlier):
        line = next(line for line in passage.splitlines() if "opened in" in line)
        quote = f"The archive of {name} {line}"
        value = {
            "question": f"In which year could people first use the maps in {name}?",
            "answer": re.search(r"\d{4}", line).group(),
            "quote": quote.replace("opened", "closed") if fault == "other quote" else quote,
        }
        if fault == "points":
            value["question"] = f"Which year does the passage give for {name}?"
        if fault == "copies":
            value["question"] = " ".join(
                f"Was the archive of {name} {line} it has held every map".replace(",", "").split()
            )
        if fault == "refused":
            return ""
        return "so sorry" if fault == "no json" else json.dumps(value)
